//! The ports of EVM chains against real nodes; a file is a subject.

mod accounts;
mod authorize;
mod belief;
mod claims;
mod delivery;
mod deposit;
mod release;
mod reorganisations;
mod submitters;
mod support;
