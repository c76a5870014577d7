//! The Solidity contracts as callers see them, on EVM chains and on Tron alike. No chain is asked here.
//!
//! - [`contracts`]: their bindings, and the conversions between their types and the engine's.
//! - [`eip712`]: the messages that payers, reservers and releasers sign; [`attest`] is what a releaser states and how it is signed,
//!   [`signature`] reads signatures. [`typed_data`] is what wallets show and sign, [`permit2`] what payers sign for Permit2.
//! - [`verifier_set`]: the word of several verifiers, as the escrow judges it.
//! - [`deposit_addresses`]: the contract behind addresses that commit to a payment, and what such an address commits to.
//!   [`awaited_transfers`] is where money is waited for, [`minimal_proxy`] the code behind the addresses.
//! - [`offers`]: the contract behind the addresses of merchants' offers, and what such an address commits to.
//! - [`artefacts`]: the code that this version was built with, and whether what is on a chain is it.
//! - [`revert`]: why a contract refused, in words.
//! - [`record`]: what an escrow has on record, and [`known_terms`], which spares looking for it twice. [`evidence`], [`reservations`]
//!   and [`claims`]: what the events of transactions prove.

pub mod artefacts;
pub mod attest;
pub mod awaited_transfers;
pub mod claims;
pub mod contracts;
pub mod deposit_addresses;
pub mod eip712;
pub mod evidence;
pub mod known_terms;
pub mod mandates;
pub mod minimal_proxy;
pub mod offers;
pub mod payment_batches;
pub mod permit2;
pub mod record;
pub mod reservations;
pub mod revert;
pub mod signature;
pub mod typed_data;
pub mod verifier_set;
