//! The read models against a journal: one program; a file is a subject.

mod epochs;
mod follow;
mod overdue;
mod quote_requests;
mod rebuild;
mod support;
mod unreadable;
mod views;
