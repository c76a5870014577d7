//! Feeds that are asked over HTTP: those that people use, and one of the settler's own shape.

use std::time::Duration;

use async_trait::async_trait;
use chrono::Utc;
use reqwest::{Url, header::HeaderMap};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Map, Number, Value};

use events::time::{Timestamp, from_unix_seconds};

use super::{
    board::Observation,
    feed::{Feed, FeedError, Hear},
    unit_price::UnitPrice,
};

/// How long an answer may take.
const ANSWER_MAX: Duration = Duration::from_secs(10);
/// The longest answer.
const BYTES_MAX: usize = 1024 * 1024;
/// How much is shown of what a feed refuses with.
const SAID_CHARS_MAX: usize = 200;
/// A price of Pyth's whose confidence interval is wider is none: one part in so many.
const CONFIDENCE_PARTS: u128 = 100;

/// Whose answers are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Shape {
    /// CoinGecko's `/simple/price`; ids such as `ethereum`, in US dollars.
    CoinGecko,
    /// Binance's `/api/v3/ticker/price`; ids such as `ETHUSDT`. It says no times, so a price is of the moment in which it comes.
    Binance,
    /// Hermes of Pyth, `/v2/updates/price/latest`; ids are those of price feeds, hex.
    Pyth,
    /// `{"prices": {"ID": {"price": "3005.12", "time": 1800000000}}}`, asked for by `?ids=ID,ID`; `time`, UNIX seconds, may be left out.
    Plain,
}

impl Shape {
    /// Where it is asked unless the configuration says otherwise.
    pub fn usual_url(self) -> Option<&'static str> {
        match self {
            Self::CoinGecko => Some("https://api.coingecko.com/api/v3"),
            Self::Binance => Some("https://api.binance.com"),
            Self::Pyth => Some("https://hermes.pyth.network"),
            Self::Plain => None,
        }
    }

    /// Where these ids are asked for, at a feed at `base`.
    fn request(self, base: &Url, ids: &[String]) -> Url {
        let mut url = base.clone();
        let path: &[&str] = match self {
            Self::CoinGecko => &["simple", "price"],
            Self::Binance => &["api", "v3", "ticker", "price"],
            Self::Pyth => &["v2", "updates", "price", "latest"],
            Self::Plain => &[],
        };
        // An http or https address has segments.
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(path);
        }
        let mut query = url.query_pairs_mut();
        match self {
            Self::CoinGecko => {
                query.append_pair("ids", &ids.join(",")).append_pair("vs_currencies", "usd");
                query.append_pair("include_last_updated_at", "true").append_pair("precision", "full");
            }
            Self::Binance => {
                query.append_pair("symbols", &Value::from(ids).to_string());
            }
            Self::Pyth => {
                query.extend_pairs(ids.iter().map(|id| ("ids[]", id.as_str()))).append_pair("parsed", "true");
            }
            Self::Plain => {
                query.append_pair("ids", &ids.join(","));
            }
        }
        drop(query);
        url
    }

    /// Has `hear` take what an answer says at `now`. What is said of an asset and is no price is left out, so that it becomes old.
    pub(super) fn read(self, body: &[u8], now: Timestamp, hear: Hear<'_>) -> Result<(), FeedError> {
        match self {
            Self::CoinGecko => {
                for (id, said) in parsed::<Map<String, Value>>(body)? {
                    let price = said.get("usd").and_then(price_of);
                    let at = said.get("last_updated_at").and_then(Value::as_u64).and_then(from_unix_seconds);
                    said_of(&id, price, at, hear);
                }
            }
            Self::Binance => {
                for Ticker { symbol, price } in entries(parsed::<Vec<Value>>(body)?) {
                    said_of(&symbol, UnitPrice::parse(&price), Some(now), hear);
                }
            }
            Self::Pyth => {
                for Update { id, price } in entries(parsed::<Updates>(body)?.parsed) {
                    said_of(&id, price.certain(), from_unix_seconds(price.publish_time), hear);
                }
            }
            Self::Plain => {
                for (id, said) in parsed::<Plain>(body)?.prices {
                    let at = match said.get("time") {
                        None | Some(Value::Null) => Some(now),
                        Some(time) => time.as_u64().and_then(from_unix_seconds),
                    };
                    said_of(&id, said.get("price").and_then(price_of), at, hear);
                }
            }
        }
        Ok(())
    }
}

#[derive(Deserialize)]
struct Ticker {
    symbol: String,
    price: String,
}

#[derive(Deserialize)]
struct Updates {
    parsed: Vec<Value>,
}

#[derive(Deserialize)]
struct Update {
    id: String,
    price: PythPrice,
}

#[derive(Deserialize)]
struct PythPrice {
    price: String,
    conf: String,
    expo: i32,
    publish_time: u64,
}

impl PythPrice {
    /// The price, where those who publish it agree well enough.
    fn certain(&self) -> Option<UnitPrice> {
        let (price, interval) = (self.price.parse::<u128>().ok()?, self.conf.parse::<u128>().ok()?);
        (interval <= price / CONFIDENCE_PARTS).then(|| UnitPrice::scaled(price, self.expo))?
    }
}

#[derive(Deserialize)]
struct Plain {
    prices: Map<String, Value>,
}

fn parsed<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, FeedError> {
    let unusable = |error: serde_json::Error| error.to_string().chars().take(SAID_CHARS_MAX).collect();
    serde_json::from_slice(body).map_err(|error| FeedError::Unusable(unusable(error)))
}

/// Those of the entries that are what they should be: one that is not spoils no other.
fn entries<T: DeserializeOwned>(all: Vec<Value>) -> impl Iterator<Item = T> {
    all.into_iter().filter_map(|entry| serde_json::from_value(entry).ok())
}

fn said_of(id: &str, price: Option<UnitPrice>, at: Option<Timestamp>, hear: Hear<'_>) {
    match price.zip(at) {
        Some((price, at)) => hear(id, Observation { price, at }),
        None => tracing::debug!(id, "a feed says something of an asset that is no price"),
    }
}

/// A price as text, or as a number.
fn price_of(value: &Value) -> Option<UnitPrice> {
    match value {
        Value::String(text) => UnitPrice::parse(text),
        Value::Number(number) => UnitPrice::parse(&decimal(number)?),
        _ => None,
    }
}

/// A number without an exponent, which small ones have in JSON.
fn decimal(number: &Number) -> Option<String> {
    match number.as_u64() {
        Some(whole) => Some(whole.to_string()),
        None => number.as_f64().map(|value| format!("{value:.18}")),
    }
}

/// A feed that is asked over HTTP. Its address and headers may hold a key, so it is not shown.
pub struct HttpFeed {
    http: reqwest::Client,
    url: Url,
    shape: Shape,
}

impl HttpFeed {
    /// A feed at `url` of this shape. `headers` go along with each question, such as a key.
    ///
    /// # Errors
    /// When the system has no usable TLS set-up.
    pub fn new(url: Url, shape: Shape, headers: HeaderMap) -> Result<Self, reqwest::Error> {
        let http = reqwest::Client::builder()
            .timeout(ANSWER_MAX)
            .redirect(reqwest::redirect::Policy::none())
            .default_headers(headers)
            .build()?;
        Ok(Self { http, url, shape })
    }
}

#[async_trait]
impl Feed for HttpFeed {
    async fn read(&self, ids: &[String], hear: Hear<'_>) -> Result<(), FeedError> {
        // An address may hold a key.
        let unreachable = |error: reqwest::Error| FeedError::Unreachable(error.without_url().to_string());
        let url = self.shape.request(&self.url, ids);
        let mut answer = self.http.get(url).header("accept", "application/json").send().await.map_err(unreachable)?;
        let (status, mut body) = (answer.status(), Vec::new());
        while let Some(chunk) = answer.chunk().await.map_err(unreachable)? {
            if body.len() + chunk.len() > BYTES_MAX {
                return Err(FeedError::TooLarge(BYTES_MAX));
            }
            body.extend_from_slice(&chunk);
        }
        if !status.is_success() {
            let said = String::from_utf8_lossy(&body).chars().take(SAID_CHARS_MAX).collect();
            return Err(FeedError::Status { status: status.as_u16(), said });
        }
        self.shape.read(&body, Utc::now(), hear)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NOW: u64 = 1_800_000_000;

    fn heard(shape: Shape, body: &str) -> Result<Vec<(String, u128, u64)>, FeedError> {
        let mut heard = Vec::new();
        let mut hear = |id: &str, said: Observation| {
            heard.push((id.to_owned(), said.price.parts(), events::time::unix_seconds(said.at)));
        };
        shape.read(body.as_bytes(), from_unix_seconds(NOW).unwrap(), &mut hear)?;
        heard.sort();
        Ok(heard)
    }

    fn one(id: &str, parts: u128, at: u64) -> Vec<(String, u128, u64)> {
        vec![(id.to_owned(), parts, at)]
    }

    #[test]
    fn answers_of_the_feeds_that_people_use_are_read() {
        let coingecko = r#"{"ethereum":{"usd":3005.5,"last_updated_at":1799999990},"nothing":{},"dust":{"usd":1.5e-7,"last_updated_at":1799999990}}"#;
        let found = heard(Shape::CoinGecko, coingecko).unwrap();
        assert_eq!(found[1..], one("ethereum", 3_005_500_000_000_000_000_000, 1_799_999_990));
        assert_eq!(found[0], ("dust".to_owned(), 150_000_000_000, 1_799_999_990));
        let binance = r#"[{"symbol":"ETHUSDT","price":"3005.12000000"}]"#;
        assert_eq!(heard(Shape::Binance, binance).unwrap(), one("ETHUSDT", 3_005_120_000_000_000_000_000, NOW));
        let pyth = |conf: &str| {
            format!(
                r#"{{"binary":{{"encoding":"hex","data":["504e"]}},"parsed":[{{"id":"ff61","price":{{"price":"300512000000","conf":"{conf}","expo":-8,"publish_time":1799999999}},
                    "ema_price":{{"price":"1","conf":"1","expo":-8,"publish_time":1}},"metadata":{{"slot":1}}}}]}}"#
            )
        };
        assert_eq!(
            heard(Shape::Pyth, &pyth("3005120000")).unwrap(),
            one("ff61", 3_005_120_000_000_000_000_000, 1_799_999_999)
        );
        assert_eq!(heard(Shape::Pyth, &pyth("3005120001")).unwrap(), [], "those who publish it disagree");
        let plain = r#"{"prices":{"ETH":{"price":"3005.12","time":1799999999}}}"#;
        assert_eq!(heard(Shape::Plain, plain).unwrap(), one("ETH", 3_005_120_000_000_000_000_000, 1_799_999_999));
        let bare = r#"{"prices":{"ETH":{"price":3005}}}"#;
        assert_eq!(heard(Shape::Plain, bare).unwrap(), one("ETH", 3_005_000_000_000_000_000_000, NOW));
    }

    #[test]
    fn what_is_no_price_is_left_out_and_what_is_no_answer_is_told() {
        for price in ["null", "-1", "0", "\"1e9\"", "[]", "1e300", "\"\"", "true"] {
            let body = format!(r#"{{"prices":{{"ETH":{{"price":{price}}}}}}}"#);
            assert_eq!(heard(Shape::Plain, &body).unwrap(), [], "{price}");
        }
        let beside = [
            (Shape::Plain, r#"{"prices":{"A":7,"B":{},"C":{"price":"1","time":-1},"ETH":{"price":"2"}}}"#),
            (Shape::Binance, r#"[7,{"symbol":"A"},{"symbol":"ETH","price":"2"}]"#),
        ];
        for (shape, body) in beside {
            assert_eq!(heard(shape, body).unwrap(), one("ETH", 2_000_000_000_000_000_000, NOW), "{body}");
        }
        let far = r#"{"prices":{"ETH":{"price":1,"time":18446744073709551615}}}"#;
        assert_eq!(heard(Shape::Plain, far).unwrap(), []);
        for (shape, body) in [
            (Shape::Binance, r#"{"code":-1121,"msg":"Invalid symbol."}"#),
            (Shape::Pyth, "{}"),
            (Shape::CoinGecko, "[]"),
            (Shape::Plain, "<html>"),
        ] {
            assert!(matches!(heard(shape, body), Err(FeedError::Unusable(_))), "{body}");
        }
    }

    #[test]
    fn each_feed_is_asked_in_its_own_way() {
        let ids = ["one".to_owned(), "t&wo".to_owned()];
        let asked = |shape: Shape, base: &str| shape.request(&base.parse().unwrap(), &ids).to_string();
        assert_eq!(
            asked(Shape::CoinGecko, "https://api.coingecko.com/api/v3"),
            "https://api.coingecko.com/api/v3/simple/price?ids=one%2Ct%26wo&vs_currencies=usd&include_last_updated_at=true&precision=full"
        );
        assert_eq!(
            asked(Shape::Binance, "https://api.binance.com/"),
            "https://api.binance.com/api/v3/ticker/price?symbols=%5B%22one%22%2C%22t%26wo%22%5D"
        );
        assert_eq!(
            asked(Shape::Pyth, "https://hermes.pyth.network"),
            "https://hermes.pyth.network/v2/updates/price/latest?ids%5B%5D=one&ids%5B%5D=t%26wo&parsed=true"
        );
        assert_eq!(
            asked(Shape::Plain, "https://own.example/prices?key=k"),
            "https://own.example/prices?key=k&ids=one%2Ct%26wo"
        );
    }

    proptest! {
        #[test]
        fn no_answer_is_too_strange(body in prop::collection::vec(any::<u8>(), 0..200), text in ".{0,80}") {
            for shape in [Shape::CoinGecko, Shape::Binance, Shape::Pyth, Shape::Plain] {
                let now = from_unix_seconds(NOW).unwrap();
                let _ = shape.read(&body, now, &mut |_, _| ());
                let _ = shape.read(format!(r#"{{"prices":{{"a":{{"price":"{text}"}}}}}}"#).as_bytes(), now, &mut |_, _| ());
            }
        }
    }
}
