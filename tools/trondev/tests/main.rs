//! The node as wallets and clients see it: one program; a file is a subject.

mod api;
mod controls;
mod refusals;
mod support;
mod tronweb;
mod tvm;
