//! The saga engine over several stores, measured in one run: JetStream as the product uses it, PostgreSQL with group commit, and
//! no store at all. `bench/peers/README.md` says what is compared, and how.

pub mod figures;
pub mod picture;
pub mod postgres;
pub mod processes;
pub mod report;
pub mod server;
pub mod stores;
