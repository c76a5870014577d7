//! The journal against real servers: one program; a file is a subject.

// A test may panic, and so may what helps it.
#![allow(clippy::expect_used, clippy::unwrap_used)]

mod budget;
mod checkpoints;
mod damage;
mod faults;
mod group_commit;
mod journal_cluster;
mod journal_cluster_faults;
mod journal_epochs;
mod journal_epochs_layout;
mod journal_faults;
mod journal_heads;
mod journal_memory;
mod journal_nats;
mod journal_scan;
mod ledger;
mod operator_acts;
mod parking;
mod shard_log;
mod support;
