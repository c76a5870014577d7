//! Webhooks: a payment's owner hears over HTTP of each status that the payment comes to, after the Standard Webhooks
//! specification (ADR 141).
//!
//! Who hears of what is a [`webhook::Webhook`], whose entries lie in a stream of their own, and are kept in memory by the
//! [`registry`]. The [`feed`] follows the shards of the journal and puts a [`message::Due`] for each webhook and change of status
//! into another stream. What becomes of them is the matter of one [`queue::Queue`] an endpoint, a pure state machine: ordered per
//! payment, with back-off, dead letters and a bulkhead; the [`courier`] runs it against an [`ports::Endpoints`] and records each
//! [`message::Outcome`] behind the message that it is of. The [`service`] decides which gateway does which part of this.
//! [`desk`] has what owners and operators may ask for.
//!
//! All is stored through [`records::Records`], in memory or on JetStream; the HTTP call is the port [`ports::Endpoints`], with
//! [`http`] behind it.

pub mod courier;
pub mod deliveries;
pub mod desk;
pub mod feed;
pub mod http;
pub mod lanes;
pub mod message;
pub mod metering;
pub mod partitions;
pub mod ports;
pub mod queue;
pub mod records;
pub mod registry;
pub mod service;
pub mod signature;
pub mod timetable;
pub mod webhook;
