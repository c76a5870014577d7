//! The pure core by given/when/then, and the engine in a small world: one program; a file is a subject.

mod auction;
mod engine;
mod given;
mod quote_requests;
mod state_machine;
