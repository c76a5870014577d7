//! Transport: how a question gets to a node, and its answer back.

use std::{fmt, time::Duration};

use async_trait::async_trait;

use chains::nodes::http::{Answer, Http, HttpFault};

/// The way to one node. The product's is [`Http`]; a simulation brings its own.
#[async_trait]
pub trait Transport: fmt::Debug + Send + Sync {
    /// What of the node's address may be shown.
    fn origin(&self) -> &str;

    /// Posts JSON. An answer that asks to be left alone makes a pause for everybody.
    ///
    /// # Errors
    /// [`HttpFault`].
    async fn post(&self, body: Vec<u8>) -> Result<Answer, HttpFault>;

    /// Nothing is sent for so long, by nobody, or for a second where it was not said how long.
    fn pause(&self, asked: Option<Duration>);

    /// Returns when the node may be asked.
    async fn pause_over(&self);
}

#[async_trait]
impl Transport for Http {
    fn origin(&self) -> &str {
        Self::origin(self)
    }

    async fn post(&self, body: Vec<u8>) -> Result<Answer, HttpFault> {
        Self::post(self, body).await
    }

    fn pause(&self, asked: Option<Duration>) {
        Self::pause(self, asked);
    }

    async fn pause_over(&self) {
        Self::pause_over(self).await;
    }
}
