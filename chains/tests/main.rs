//! The ports against real nodes: one program, because each links every chain's library; a file is a subject.

mod accounts;
mod authorize;
mod belief;
mod delivery;
mod deposit;
mod reorganisations;
mod solana_authorization;
mod solana_belief;
mod solana_client;
mod solana_holding;
mod solana_outcome;
mod solana_payment;
mod solana_settlement;
mod solana_support;
mod submitters;
mod support;
mod tron_audit;
mod tron_authorization;
mod tron_belief;
mod tron_client;
mod tron_deposit;
mod tron_endpoint;
mod tron_outcome;
mod tron_settlement;
mod tron_support;
mod tron_wire;
