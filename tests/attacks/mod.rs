//! Attacks by a hostile stranger, or a party gone bad. Against `gw` as a process; `bus`, `bus_credentials`, `bus_headers` and most of
//! `liquidity` take its parts, and the agent, over a real nats-server. A file is a field.

mod bus;
mod bus_credentials;
mod bus_headers;
mod bus_malformed_headers;
mod floods;
mod gas;
mod liquidity;
mod open_auctions;
mod payers_funds;
mod release;
mod verifier;
