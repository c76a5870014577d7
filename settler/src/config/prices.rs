//! `[[feeds]]` and `[[prices]]`: who says what assets are worth, and when that is good enough.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    fmt,
    sync::Arc,
    time::Duration,
};

use alloy::primitives::Address;
use chains::{
    config::ChainConfig,
    nodes::{is_loopback, voter},
};
use chains_evm::node::Node;
use chrono::TimeDelta;
use events::{AssetId, ChainId, Family};
use reqwest::{
    Url,
    header::{HeaderMap, HeaderName, HeaderValue},
};
use serde::Deserialize;

use super::{Config, Error};
use crate::pricing::market::{
    AssetPrice, Board, Chainlink, Feed, Follower, HttpFeed, MarketRate, Median, Priced, Shape, SourceId, StreamFeed,
    UnitPrice,
};

const FEEDS: &str = "feeds";
const PRICES: &str = "prices";
/// Most feeds, assets with a price, and sources of one.
const FEEDS_MAX: usize = 32;
const PRICES_MAX: usize = 1_024;
const SOURCES_MAX: usize = 16;
/// Most characters of a feed's name, and of what it calls an asset.
const NAME_CHARS_MAX: usize = 128;
/// Most decimal places: prices are computed in 256 bits.
const DECIMALS_MAX: u8 = 36;
/// An hour between two reads, and a day for which a price counts: the longest that an aggregator of Chainlink's is silent.
const PAUSE_SECONDS_MAX: u64 = 3_600;
const STALE_SECONDS_MAX: u32 = 86_400;
/// Sources that are twice each other are no sources.
const DEVIATION_BPS_MAX: u32 = 10_000;

/// `[[feeds]]`: a source of prices. Its address and its headers may hold a key, so it shows neither.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FeedConfig {
    /// What it is called in `[[prices]]`.
    pub name: String,
    /// Of which kind it is.
    pub kind: FeedKind,
    /// Where it is, where the kind has no usual place or this is another.
    #[serde(default)]
    pub url: Option<String>,
    /// The chain that its aggregators are on, of kind `chainlink`.
    #[serde(default)]
    pub chain_id: Option<ChainId>,
    /// What goes along with each question over HTTP, such as a key.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// From one read to the next, and from a broken connection to the next, in seconds.
    #[serde(default = "usual_pause")]
    pub pause_seconds: u64,
}

/// Kinds of feeds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FeedKind {
    /// CoinGecko's simple price.
    CoinGecko,
    /// Binance's public ticker.
    Binance,
    /// Hermes of Pyth.
    Pyth,
    /// Aggregators of Chainlink's on an EVM chain of the configuration.
    Chainlink,
    /// The settler's own, over HTTP.
    Http,
    /// The settler's own, over WebSocket.
    WebSocket,
}

/// `[[prices]]`: what an asset is worth.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PriceConfig {
    /// The asset, CAIP-19. A chain's coin is what its fees are counted in.
    pub asset: AssetId,
    /// Decimal places of its amounts, where it is not listed under its chain, and is no coin.
    #[serde(default)]
    pub decimals: Option<u8>,
    /// It is worth as much, always: decimal text.
    #[serde(default)]
    pub fixed: Option<String>,
    /// Who is asked.
    #[serde(default)]
    pub sources: Vec<SourceConfig>,
    /// How many have to have said something lately; more than half of them where it is left out.
    #[serde(default)]
    pub sources_min: Option<usize>,
    /// How long what was said counts, in seconds.
    #[serde(default = "usual_stale")]
    pub stale_seconds: u32,
    /// How far the highest may be above the lowest, in basis points.
    #[serde(default = "usual_deviation")]
    pub deviation_bps: u32,
}

/// What a feed calls an asset.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SourceConfig {
    /// The feed's name.
    pub feed: String,
    /// Its name of the asset: `ethereum` of CoinGecko's, `ETHUSDT` of Binance's, the id of a price feed of Pyth's, the address of an aggregator
    /// of Chainlink's.
    pub id: String,
}

impl fmt::Debug for FeedConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FeedConfig").field("name", &self.name).field("kind", &self.kind).finish_non_exhaustive()
    }
}

fn usual_pause() -> u64 {
    15
}

fn usual_stale() -> u32 {
    120
}

fn usual_deviation() -> u32 {
    100
}

/// The assets that have a price, and the feeds that they are had from.
pub(super) struct Market {
    pub board: Arc<Board>,
    pub followers: Vec<Follower>,
    assets: HashMap<AssetId, Priced>,
}

impl Market {
    /// What the configuration says of it.
    pub fn of(config: &Config) -> Result<Self, Error> {
        let rule = |key, holds: bool, rule: String| if holds { Ok(()) } else { Err(Error::new(key, rule)) };
        rule(FEEDS, config.feeds.len() <= FEEDS_MAX, format!("at most {FEEDS_MAX}"))?;
        rule(PRICES, config.prices.len() <= PRICES_MAX, format!("at most {PRICES_MAX}"))?;
        let mut feeds: Vec<(&FeedConfig, Vec<String>)> = Vec::new();
        for feed in &config.feeds {
            let is_name = !feed.name.is_empty() && feed.name.chars().count() <= NAME_CHARS_MAX;
            rule(FEEDS, is_name, format!("name must have 1 to {NAME_CHARS_MAX} characters"))?;
            let is_new = feeds.iter().all(|(known, _)| known.name != feed.name);
            rule(FEEDS, is_new, format!("{} stands twice", feed.name))?;
            let pause = 1..=PAUSE_SECONDS_MAX;
            let text = format!("{}: pause_seconds must be 1 to {PAUSE_SECONDS_MAX}", feed.name);
            rule(FEEDS, pause.contains(&feed.pause_seconds), text)?;
            feeds.push((feed, Vec::new()));
        }
        let mut assets = HashMap::new();
        for price in &config.prices {
            let priced = Priced { decimals: decimals(config, price)?, price: asset_price(price, &mut feeds)? };
            let is_coin_of = |known: &AssetId| known.is_coin() && known.chain() == price.asset.chain();
            let is_other = price.asset.is_coin() && assets.keys().any(is_coin_of);
            rule(PRICES, !is_other, format!("{} has two coins", price.asset.chain()))?;
            let is_new = assets.insert(price.asset.clone(), priced).is_none();
            rule(PRICES, is_new, format!("{} stands twice", price.asset))?;
        }
        let followers = feeds.into_iter().map(|(feed, ids)| follower(config, feed, ids)).collect::<Result<_, _>>()?;
        Ok(Self { board: Arc::default(), followers, assets })
    }

    /// What two assets are worth in each other.
    pub fn rate(&self, source: &AssetId, destination: &AssetId) -> Result<MarketRate, Error> {
        let of = |asset: &AssetId| {
            let priced = self.assets.get(asset).cloned();
            priced.ok_or_else(|| Error::new(PRICES, format!("{asset} has no price, and a corridor follows it")))
        };
        Ok(MarketRate { board: self.board.clone(), source: of(source)?, destination: of(destination)? })
    }

    /// The coin of a chain, which its fees are paid in.
    pub fn coin(&self, chain: &ChainId) -> Result<&AssetId, Error> {
        let coin = self.assets.keys().find(|asset| asset.is_coin() && asset.chain() == chain);
        coin.ok_or_else(|| Error::new(PRICES, format!("the coin of {chain} has no price, and its fees are counted")))
    }

    /// The assets, and how their prices are found.
    pub fn asset_prices(&self) -> Vec<(AssetId, AssetPrice)> {
        let mut all: Vec<_> = self.assets.iter().map(|(asset, priced)| (asset.clone(), priced.price.clone())).collect();
        all.sort_by(|(one, _), (other, _)| one.cmp(other));
        all
    }
}

/// Decimal places of an asset's amounts.
fn decimals(config: &Config, price: &PriceConfig) -> Result<u8, Error> {
    let asset = &price.asset;
    let of_coin = asset.is_coin().then(|| match asset.chain().family() {
        Some(Family::Solana) => 9,
        Some(Family::Tron) => 6,
        _ => 18,
    });
    let found = price.decimals.or(of_coin).or(config.decimals(asset));
    let found = found.ok_or_else(|| Error::new(PRICES, format!("{asset} is not listed: decimals is needed")))?;
    let is_other = [of_coin, config.decimals(asset)].into_iter().flatten().any(|known| known != found);
    if is_other || found > DECIMALS_MAX {
        return Err(Error::new(PRICES, format!("{asset}: {found} are not its decimals")));
    }
    Ok(found)
}

/// How the price is found. What is asked of a feed is added to it.
fn asset_price(price: &PriceConfig, feeds: &mut [(&FeedConfig, Vec<String>)]) -> Result<AssetPrice, Error> {
    let wrong = |rule: String| Error::new(PRICES, format!("{}: {rule}", price.asset));
    if let Some(fixed) = &price.fixed {
        if !price.sources.is_empty() {
            return Err(wrong("either fixed or sources".to_owned()));
        }
        let parsed = UnitPrice::parse(fixed).ok_or_else(|| wrong(format!("fixed {fixed} is no price")))?;
        return Ok(AssetPrice::Fixed(parsed));
    }
    let count = price.sources.len();
    if !(1..=SOURCES_MAX).contains(&count) {
        return Err(wrong(format!("there must be fixed, or 1 to {SOURCES_MAX} sources")));
    }
    let least = price.sources_min.unwrap_or(count / 2 + 1);
    if !(1..=count).contains(&least) {
        return Err(wrong(format!("sources_min must be 1 to {count}")));
    }
    if !(1..=STALE_SECONDS_MAX).contains(&price.stale_seconds) {
        return Err(wrong(format!("stale_seconds must be 1 to {STALE_SECONDS_MAX}")));
    }
    if !(1..=DEVIATION_BPS_MAX).contains(&price.deviation_bps) {
        return Err(wrong(format!("deviation_bps must be 1 to {DEVIATION_BPS_MAX}")));
    }
    let (mut sources, mut providers) = (Vec::with_capacity(count), HashSet::new());
    for source in &price.sources {
        let (feed, ids) = feeds
            .iter_mut()
            .find(|(feed, _)| feed.name == source.feed)
            .ok_or_else(|| wrong(format!("there is no feed {}", source.feed)))?;
        if feed.kind != FeedKind::WebSocket && feed.pause_seconds >= price.stale_seconds.into() {
            return Err(wrong(format!("stale_seconds must be more than pause_seconds of {}", feed.name)));
        }
        let id = feed.kind.id(&source.id).ok_or_else(|| wrong(format!("{} has no {}", feed.name, source.id)))?;
        let found = SourceId { feed: feed.name.clone(), id };
        // Of one provider two names are one word.
        let provider = provider(feed);
        if !providers.insert(provider.clone()) {
            return Err(wrong(format!("{provider} is asked twice, and is one source")));
        }
        if !ids.contains(&found.id) {
            ids.push(found.id.clone());
        }
        sources.push(found);
    }
    let stale_after = TimeDelta::seconds(price.stale_seconds.into());
    Ok(AssetPrice::Median(Median { sources, least, stale_after, deviation_bps: price.deviation_bps }))
}

/// Whose word a feed is: that of a host, or of a chain's nodes.
fn provider(feed: &FeedConfig) -> String {
    let usual = feed.kind.shape().and_then(Shape::usual_url);
    match (&feed.chain_id, feed.url.as_deref().or(usual)) {
        (Some(chain), None) => chain.to_string(),
        (_, Some(url)) => voter(url),
        (None, None) => feed.name.clone(),
    }
}

impl FeedKind {
    /// Whose answers are read, of a feed that is asked over HTTP.
    fn shape(self) -> Option<Shape> {
        match self {
            Self::CoinGecko => Some(Shape::CoinGecko),
            Self::Binance => Some(Shape::Binance),
            Self::Pyth => Some(Shape::Pyth),
            Self::Http => Some(Shape::Plain),
            Self::Chainlink | Self::WebSocket => None,
        }
    }

    /// An id as the feed itself says it.
    fn id(self, text: &str) -> Option<String> {
        match self {
            Self::Pyth => {
                let digits = text.strip_prefix("0x").unwrap_or(text).to_ascii_lowercase();
                (digits.len() == 64 && hex::decode(&digits).is_ok()).then_some(digits)
            }
            Self::Chainlink => text.parse::<Address>().ok().map(|address| format!("{address:#x}")),
            _ => (!text.is_empty() && text.chars().count() <= NAME_CHARS_MAX).then(|| text.to_owned()),
        }
    }
}

fn follower(config: &Config, feed: &FeedConfig, ids: Vec<String>) -> Result<Follower, Error> {
    let wrong = |rule: String| Error::new(FEEDS, format!("{}: {rule}", feed.name));
    if !feed.headers.is_empty() && feed.kind.shape().is_none() {
        return Err(wrong("headers are for feeds that are asked over HTTP".to_owned()));
    }
    if ids.is_empty() {
        return Err(wrong("no price names it".to_owned()));
    }
    let asked = |shape: Shape| -> Result<Arc<dyn Feed>, Error> {
        let place = feed.url.as_deref().or(shape.usual_url()).ok_or_else(|| wrong("url is missing".to_owned()))?;
        let url = address(place, ["https", "http"]).map_err(wrong)?;
        let made = HttpFeed::new(url, shape, headers(feed)?);
        Ok(Arc::new(made.map_err(|error| wrong(error.without_url().to_string()))?))
    };
    let source: Arc<dyn Feed> = match (feed.kind, feed.kind.shape()) {
        (_, Some(shape)) => asked(shape)?,
        (FeedKind::Chainlink, None) => {
            let chain = feed.chain_id.as_ref().ok_or_else(|| wrong("chain_id is missing".to_owned()))?;
            let is_it = |config: &&ChainConfig| config.common().chain_id == *chain;
            let Some(ChainConfig::Evm(evm)) = config.chains.iter().find(is_it) else {
                return Err(wrong(format!("{chain} is none of the EVM chains")));
            };
            Arc::new(Chainlink::on(Node::connect(evm).map_err(|error| wrong(error.to_string()))?))
        }
        (_, None) => {
            let place = feed.url.as_deref().ok_or_else(|| wrong("url is missing".to_owned()))?;
            Arc::new(StreamFeed::new(address(place, ["wss", "ws"]).map_err(wrong)?))
        }
    };
    if feed.chain_id.is_some() && feed.kind != FeedKind::Chainlink {
        return Err(wrong("chain_id is for aggregators of Chainlink's".to_owned()));
    }
    if feed.url.is_some() && feed.kind == FeedKind::Chainlink {
        return Err(wrong(
            "url is not for aggregators of Chainlink's, which the chain's own nodes are asked for".to_owned(),
        ));
    }
    let pause = Duration::from_secs(feed.pause_seconds);
    Ok(Follower { name: feed.name.clone(), feed: source, ids, pause })
}

/// An address of one of two schemes, the first of which is encrypted; the other is for this machine.
fn address(text: &str, [safe, plain]: [&str; 2]) -> Result<Url, String> {
    let url = Url::parse(text).map_err(|error| format!("url: {error}"))?;
    match url.scheme() == safe || (url.scheme() == plain && is_loopback(&url)) {
        true => Ok(url),
        false => {
            Err(format!("url must be {safe}://, or {plain}:// of this machine: whoever is between says what you pay"))
        }
    }
}

fn headers(feed: &FeedConfig) -> Result<HeaderMap, Error> {
    let mut headers = HeaderMap::new();
    for (name, value) in &feed.headers {
        let wrong = || Error::new(FEEDS, format!("{}: {name} is no header", feed.name));
        let mut value = HeaderValue::from_str(value).map_err(|_| wrong())?;
        value.set_sensitive(true);
        headers.insert(HeaderName::from_bytes(name.as_bytes()).map_err(|_| wrong())?, value);
    }
    Ok(headers)
}
