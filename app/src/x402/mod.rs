//! Payment identifiers of x402: whom each belongs to.

mod identifiers;
mod nats_identifiers;

pub use self::{
    identifiers::{Claim, Identifiers, IdentifiersError, MemoryIdentifiers},
    nats_identifiers::NatsIdentifiers,
};
