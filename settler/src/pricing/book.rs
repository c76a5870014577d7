//! The prices of all corridors, which can be replaced while the settler is at work.

use std::{
    collections::HashMap,
    convert::Infallible,
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use chrono::Utc;
use futures::future::join_all;
use tokio::{
    sync::watch,
    time::{sleep, timeout},
};

use events::{AssetId, time::Timestamp};

use super::{
    Pricing,
    market::{AssetPrice, Board, Follower},
};

/// How long the prices of a new book are waited for before it takes the place of the old one.
const FILLED_WITHIN: Duration = Duration::from_secs(10);
/// How often it is looked whether they are there.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// How everything is priced.
#[derive(Debug, Clone, Default)]
pub struct Book {
    /// Prices by source and destination asset.
    pub corridors: HashMap<(AssetId, AssetId), Pricing>,
    /// What the feeds said last.
    pub board: Arc<Board>,
    /// The feeds.
    pub followers: Vec<Follower>,
    /// How the prices of assets are found that corridors follow.
    pub assets: Vec<(AssetId, AssetPrice)>,
}

impl Book {
    /// Notes what the feeds say, until it is dropped.
    async fn follow(&self) -> Infallible {
        join_all(self.followers.iter().map(|follower| follower.follow(&self.board))).await;
        std::future::pending().await
    }

    /// Whether each asset has a price at `now`.
    fn is_filled(&self, now: Timestamp) -> bool {
        self.assets.iter().all(|(_, price)| price.middle(&self.board, now).is_ok())
    }

    /// Waits until each asset has a price, or for as long as is waited for it.
    pub async fn fill(&self) {
        let filled = async {
            while !self.is_filled(Utc::now()) {
                sleep(LOOK_EVERY).await;
            }
        };
        let _ = timeout(FILLED_WITHIN, async {
            tokio::select! {
                _ = self.follow() => {}
                () = filled => {}
            }
        })
        .await;
    }
}

/// Why a book cannot take the place of another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("which pairs of assets are traded is said when the settler starts")]
pub struct OtherCorridors;

/// The prices that count.
#[derive(Debug)]
pub struct Prices {
    book: RwLock<Arc<Book>>,
    replaced: watch::Sender<()>,
}

impl Prices {
    /// Those of `book`.
    pub fn new(book: Book) -> Self {
        Self { book: RwLock::new(Arc::new(book)), replaced: watch::Sender::default() }
    }

    /// The book that counts.
    pub fn current(&self) -> Arc<Book> {
        self.book.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Puts `book` in its place, once its feeds have said what they know. Quotes that were given stand.
    ///
    /// # Errors
    /// [`OtherCorridors`]: the gateways know which pairs this settler trades.
    pub async fn replace(&self, book: Book) -> Result<(), OtherCorridors> {
        let current = self.current();
        let is_same = book.corridors.len() == current.corridors.len()
            && book.corridors.keys().all(|pair| current.corridors.contains_key(pair));
        if !is_same {
            return Err(OtherCorridors);
        }
        book.fill().await;
        *self.book.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(book);
        self.replaced.send_replace(());
        Ok(())
    }

    /// Follows the feeds of whatever book counts, until it is dropped.
    pub async fn follow(&self) -> Infallible {
        let mut replaced = self.replaced.subscribe();
        loop {
            let book = self.current();
            tokio::select! {
                _ = book.follow() => {}
                // Its sender is here.
                _ = replaced.changed() => {}
            }
        }
    }
}
