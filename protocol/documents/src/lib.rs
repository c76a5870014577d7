//! The protocol that settlers speak, as documents for whoever implements it in another language: AsyncAPI 3 for subjects,
//! roles and guarantees, JSON Schema 2020-12 for each message.
//!
//! Schemas come from the types in `protocol`, permissions from the NATS credentials that nats.conf is made of, retention
//! from the streams that the gateway creates, and the examples are values of the types. The folder `protocol/` holds what
//! [`write`] gives; `gw protocol --check` tells when it does not.

mod asyncapi;
mod channels;
mod examples;
mod folder;
mod messages;
mod polish;
#[cfg(test)]
mod tests;

pub use self::{
    asyncapi::document,
    folder::{Error, check, write},
    messages::{MESSAGES, MessageDocument},
    polish::polish,
};
