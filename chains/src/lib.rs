//! Chains: what is the same on every family of them.
//!
//! A family is a crate of its own (`chains-evm`, `chains-solana`, `chains-tron`) that implements the engine's ports, the
//! settler's part, the verifier's and the auditor's. This crate knows them by their configuration alone.
//!
//! - [`config`]: what the configuration file says about a chain; [`setup`] is why it cannot be used.
//! - [`registry`]: the engine's port over all families that a gateway is connected to.
//! - [`escrow`]: what an escrow has on record. [`settler`], [`verifier`] and [`auditor`] check payments against it.
//! - [`reassignment`]: where the reassignment of an escrow to another settler stands, by its record.
//! - [`vitals`]: what is measured of a chain that a gateway is connected to.
//! - [`deposit_address`]: what holds of deposit addresses everywhere; [`offer`]: what the address of a merchant's offer commits to.
//! - [`deployment`]: what puts the contracts there.
//! - [`nodes`]: the pool of the nodes that one chain is asked through, and when two of them have to agree.
//! - [`block_poller`], [`head_feed`], [`log_watcher`], [`single_flight`], [`submitters`], [`sign_failures`],
//!   [`reservers`], [`under_way`] and [`windows`]: what the adapters of families share.

pub mod auditor;
pub mod block_poller;
pub mod config;
pub mod deployment;
pub mod deposit_address;
pub mod diagnosis;
pub mod escrow;
pub mod head_feed;
pub mod log_watcher;
pub mod nodes;
pub mod offer;
pub mod perform;
pub mod readiness;
pub mod reassignment;
pub mod registry;
pub mod reservers;
pub mod settler;
pub mod setup;
pub mod sign_failures;
pub mod single_flight;
pub mod submitters;
pub mod under_way;
pub mod verifier;
pub mod vitals;
pub mod windows;
