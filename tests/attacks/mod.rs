//! What a hostile stranger, or a party gone bad, tries, against real processes, each with a control that shows what happens
//! without it. A file is a field.

mod bus;
mod bus_credentials;
mod gas;
mod open_auctions;
mod payers_funds;
mod floods;
mod release;
mod liquidity;
mod verifier;
