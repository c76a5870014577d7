//! Prices of the market: feeds are asked, or say by themselves, what assets are worth, and of several the median counts, as long as it is
//! fresh and they agree (ADR 161).

mod board;
mod chainlink;
mod feed;
mod http;
mod stream;
mod unit_price;

pub use self::{
    board::{AssetPrice, Board, MarketRate, Median, Middle, NoPrice, Observation, Priced, SourceId},
    chainlink::Chainlink,
    feed::{Feed, FeedError, Follower},
    http::{HttpFeed, Shape},
    stream::StreamFeed,
    unit_price::UnitPrice,
};
