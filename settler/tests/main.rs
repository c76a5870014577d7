//! A settler's decisions: one program; a file is a subject.

mod awards;
mod claims;
mod quoting;
