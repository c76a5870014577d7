//! What a hostile stranger, or a party gone bad, tries, against real processes, each with a control that shows what happens
//! without it. A file is a field.

mod bus;
mod bus_credentials;
mod floods;
mod gas;
mod liquidity;
mod open_auctions;
mod payers_funds;
mod release;
mod verifier;
