//! The checkpoints of [`journal::checkpoint`] on JetStream: the stream that holds them, and the task that signs them.

mod store;
mod task;

pub use self::{
    store::{ConnectError, Found, Store},
    task::{Alarm, Checkpointer, Options, StepError, Stepped},
};
