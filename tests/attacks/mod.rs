//! What a hostile stranger tries, against real processes, each with a control that shows what happens without it. A file is
//! a field.

mod bus;
mod bus_credentials;
mod gas;
mod open_auctions;
mod payers_funds;
mod floods;
mod verifier;
