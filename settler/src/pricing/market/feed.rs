//! Feeds of prices, and how they are followed.

use std::{convert::Infallible, sync::Arc, time::Duration};

use async_trait::async_trait;
use chrono::Utc;

use super::board::{Board, Observation, SourceId};
use crate::agent_metrics::feed_read;

/// How much longer the pause between two reads becomes while a feed fails, at most.
const BACK_OFF_MAX: u32 = 8;

/// How long a feed is waited for by whoever wants to know beforehand, and how often it is looked whether it has said all.
const PROBE_MAX: Duration = Duration::from_secs(12);
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Why a feed said nothing, or no more.
#[derive(Debug, thiserror::Error)]
pub enum FeedError {
    /// It could not be reached, or broke off.
    #[error("it cannot be reached: {0}")]
    Unreachable(String),
    /// It answered with this HTTP status.
    #[error("it answers with HTTP status {status}: {said}")]
    Status {
        /// The status.
        status: u16,
        /// The beginning of what it said.
        said: String,
    },
    /// Its answer is larger than any that is asked for.
    #[error("its answer is longer than {0} bytes")]
    TooLarge(usize),
    /// Its answer is none of its kind.
    #[error("its answer is unusable: {0}")]
    Unusable(String),
    /// A connection ended on which more was to come.
    #[error("it ended the connection, or said nothing for a minute")]
    Ended,
}

/// Takes what a feed says of what it calls so.
pub type Hear<'a> = &'a mut (dyn FnMut(&str, Observation) + Send);

/// A source of prices.
#[async_trait]
pub trait Feed: Send + Sync {
    /// Has `hear` take what is said of `ids`: once where a feed is asked, and until the connection ends where it says by itself.
    ///
    /// # Errors
    /// [`FeedError`]; what was heard before it counts.
    async fn read(&self, ids: &[String], hear: Hear<'_>) -> Result<(), FeedError>;
}

/// Follows a feed.
#[derive(Clone)]
pub struct Follower {
    /// The feed's name in the configuration.
    pub name: String,
    /// The feed.
    pub feed: Arc<dyn Feed>,
    /// Which of its prices are of use.
    pub ids: Vec<String>,
    /// From the end of one read to the next.
    pub pause: Duration,
}

impl std::fmt::Debug for Follower {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Follower").field("name", &self.name).field("ids", &self.ids).finish_non_exhaustive()
    }
}

impl Follower {
    /// Reads once, and notes on `board` what is said of the ids that were asked for; how often something was.
    async fn hear(&self, board: &Board) -> (u64, Result<(), FeedError>) {
        let mut heard = 0;
        let mut hear = |id: &str, observation: Observation| {
            if self.ids.iter().any(|asked| asked == id) {
                heard += 1;
                board.note(SourceId { feed: self.name.clone(), id: id.to_owned() }, observation, Utc::now());
            }
        };
        let read = self.feed.read(&self.ids, &mut hear).await;
        (heard, read)
    }

    /// Reads once, and notes on `board` what is said of the ids that were asked for.
    ///
    /// # Errors
    /// [`FeedError`].
    pub async fn read(&self, board: &Board) -> Result<(), FeedError> {
        self.hear(board).await.1
    }

    /// Reads until something was said of each id, or for some seconds, for whoever wants to know beforehand.
    ///
    /// # Errors
    /// [`FeedError`]; that something was not said in time is none.
    pub async fn probe(&self, board: &Board) -> Result<(), FeedError> {
        let is_known = |id: &String| board.latest(&SourceId { feed: self.name.clone(), id: id.clone() }).is_some();
        let known = async {
            while !self.ids.iter().all(is_known) {
                tokio::time::sleep(LOOK_EVERY).await;
            }
        };
        let read = async {
            tokio::select! {
                read = self.read(board) => read,
                () = known => Ok(()),
            }
        };
        tokio::time::timeout(PROBE_MAX, read).await.unwrap_or(Ok(()))
    }

    /// Notes on `board` what is said, until it is dropped. A feed that says nothing is asked ever less often, and as before once it says
    /// something, also where its connection ends afterwards.
    pub async fn follow(&self, board: &Board) -> Infallible {
        let mut failures = 0_u32;
        loop {
            let (heard, read) = self.hear(board).await;
            feed_read(&self.name, heard > 0);
            failures = if heard > 0 { 0 } else { failures.saturating_add(1) };
            let reason =
                read.err().map_or_else(|| "it says nothing of what it is asked".to_owned(), |error| error.to_string());
            // A feed may be away for a day.
            match failures.is_power_of_two() {
                true => tracing::warn!(feed = self.name, reason, failures, "no prices from a feed"),
                false => tracing::debug!(feed = self.name, reason, failures, heard, "a feed was read"),
            }
            let times = 1_u32.checked_shl(failures).unwrap_or(BACK_OFF_MAX).min(BACK_OFF_MAX);
            tokio::time::sleep(self.pause * times).await;
        }
    }
}
