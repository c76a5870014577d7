//! What the vocabulary's bytes must stay: one program; a file is a subject.

mod golden;
mod quotes;
