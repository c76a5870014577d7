//! The read models against a journal: one program; a file is a subject.

// A test may panic, and so may what helps it.
#![allow(clippy::expect_used, clippy::unwrap_used)]

mod epochs;
mod follow;
mod mutants;
mod overdue;
mod owners;
mod payment_list;
mod quote_requests;
mod reassignment;
mod rebuild;
mod search;
mod settler_records;
mod support;
mod unreadable;
mod views;
