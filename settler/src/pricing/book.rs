//! The prices of all corridors, which can be replaced while the settler is at work.

use std::{
    collections::HashMap,
    convert::Infallible,
    sync::{Arc, PoisonError, RwLock},
};

use chrono::Utc;
use futures::future::join_all;
use tokio::{sync::watch, task::JoinSet};

use events::{AssetId, time::Timestamp};

use super::{
    Pricing,
    market::{AssetPrice, Board, FeedError, Follower, NoPrice},
};

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
    /// Notes what the feeds say, until it is dropped. Each is followed by a task of its own, so that one that says too much holds up nobody.
    async fn follow(&self) -> Infallible {
        let mut following = JoinSet::new();
        for follower in self.followers.clone() {
            let board = self.board.clone();
            following.spawn(async move { follower.follow(&board).await });
        }
        std::future::pending().await
    }

    /// Why an asset has no price at `now`; `None` where it has one, or is none of the book's.
    fn lack(&self, asset: &AssetId, now: Timestamp) -> Option<NoPrice> {
        let (_, price) = self.assets.iter().find(|(known, _)| known == asset)?;
        price.middle(&self.board, now).err()
    }

    /// Reads each feed once, all of them side by side; which failed, and why.
    pub async fn fill(&self) -> Vec<(&str, FeedError)> {
        let probe = async |follower: &'_ Follower| follower.probe(&self.board).await;
        let read = join_all(self.followers.iter().map(probe)).await;
        let failed = self.followers.iter().zip(read).filter_map(|(follower, read)| Some((follower, read.err()?)));
        failed.map(|(follower, error)| (follower.name.as_str(), error)).collect()
    }
}

/// Why a book cannot take the place of another.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReplaceError {
    /// The gateways know which pairs this settler trades.
    #[error("other pairs of assets are traded in it: start the settler anew for that")]
    OtherCorridors,
    /// An asset would lose its price.
    #[error("{asset} has a price now, and would have none: {lack}")]
    Unpriced {
        /// Which.
        asset: AssetId,
        /// Why.
        lack: NoPrice,
    },
}

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
    /// [`ReplaceError`]; nothing is changed.
    pub async fn replace(&self, book: Book) -> Result<(), ReplaceError> {
        let current = self.current();
        let is_same = book.corridors.len() == current.corridors.len()
            && book.corridors.keys().all(|pair| current.corridors.contains_key(pair));
        if !is_same {
            return Err(ReplaceError::OtherCorridors);
        }
        for (feed, error) in book.fill().await {
            tracing::warn!(feed, %error, "no prices from a feed");
        }
        let now = Utc::now();
        for (asset, _) in &book.assets {
            let is_priced =
                current.assets.iter().any(|(known, _)| known == asset) && current.lack(asset, now).is_none();
            if let Some(lack) = book.lack(asset, now).filter(|_| is_priced) {
                return Err(ReplaceError::Unpriced { asset: asset.clone(), lack });
            }
        }
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
