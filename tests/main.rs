//! End-to-end tests: real nats-servers, real chains and the real binary as a process. One program, because each links
//! everything; a file is a subject.

// A test may panic, and so may what helps it.
#![allow(clippy::expect_used, clippy::unwrap_used)]

mod attacks;
mod auction;
mod audit;
mod chaos;
mod claims;
mod cluster;
mod dead_chains;
mod doctor;
mod documents;
mod epochs;
mod evm_payers;
mod faults;
mod from_nothing;
mod gateway_killed;
mod idempotency;
mod identities;
mod native_coins;
mod nats_permissions;
mod nats_roles;
mod operator;
mod overload;
mod parking;
mod pause;
mod payers;
mod python_settler;
mod quote_command;
mod quote_requests;
mod read_your_writes;
mod refunds;
mod reorganisations;
mod repricing;
mod schemathesis;
mod selector;
mod settler_agent;
mod solana;
mod solana_faults;
mod support;
mod takeover;
mod tron;
mod tron_faults;
mod tron_tronweb;
mod trust;
mod two_gateways;
mod wrapped_coins;
mod x402;
mod x402_identifiers;
mod x402_official;
