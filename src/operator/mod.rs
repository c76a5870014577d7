//! Operator service: running gateways are asked over NATS how they stand, to rebuild their read models, what is overdue.
//!
//! A gateway answers under its own name and under `all`. Requests and answers are JSON on subjects below `gw.operator.`,
//! which nats.conf lets the gateway's role alone publish to; `gw admin` uses that role. Answers go to `gw.operator.reply.`
//! and nowhere else, so that no request can have one written into a stream.

pub mod acts;
mod answers;
mod client;
pub mod parked_advice;
mod service;
mod verifiers;
mod watchdog;
pub mod wire;

pub use answers::{Known, Said, dropped};
pub use client::{Error, InvalidName, Operator, Target};
pub use service::{Service, Subject};
pub use verifiers::{Verifiers, named as named_verifiers};
pub use watchdog::{LastLook, Unattested, Watchdog, WatchdogOptions};
