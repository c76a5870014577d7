//! Prices of the market, from feeds that answer, lie, fall silent and come back.

use std::{
    collections::BTreeMap,
    future::Future,
    net::Ipv4Addr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use axum::{
    Json, Router,
    extract::{Query, State},
    http::StatusCode,
    routing::get,
};
use chrono::Utc;
use futures::{SinkExt, StreamExt};
use ruint::aliases::U256;
use serde_json::{Value, json};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::watch,
    time::timeout,
};
use tokio_tungstenite::{accept_async, tungstenite::Message};

use events::time::unix_seconds;
use settler::{
    Config,
    pricing::{Book, Conditions, Prices, ReplaceError, Unpriced},
};

use crate::quoting::{NOW, USD_TEN, answer, config, quoted, rfq, with_balance_under};

const USD_ONE: &str = "eip155:1/erc20:0x1111111111111111111111111111111111111111";
const ETH_TEN: &str = "eip155:10/slip44:60";
const ETH_ONE: &str = "eip155:1/slip44:60";
const ETHER: &str = "1000000000000000000";

/// What a feed says of assets.
type Said = BTreeMap<String, String>;

/// What a feed was asked for, and with which key.
type Asked = (String, Option<String>);

/// A feed of the settler's own shape, over HTTP and over WebSocket.
#[derive(Clone)]
struct Market {
    base: String,
    stream: String,
    /// How many listen there.
    streams: Arc<AtomicUsize>,
    says: watch::Sender<Option<Said>>,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Market {
    async fn open() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let base = listener.local_addr().unwrap().to_string();
        let streaming = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let stream = streaming.local_addr().unwrap().to_string();
        let (says, asked, streams) = Default::default();
        let market = Self { base, stream, streams, says, asked };
        let listening = market.clone();
        tokio::spawn(async move {
            while let Ok((socket, _)) = streaming.accept().await {
                let market = listening.clone();
                tokio::spawn(async move {
                    market.streams.fetch_add(1, Ordering::SeqCst);
                    tell(market.clone(), socket).await;
                    market.streams.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
        let routes = Router::new().route("/prices", get(prices)).with_state(market.clone());
        tokio::spawn(async move { axum::serve(listener, routes).await });
        market
    }

    fn says(&self, prices: &[(&str, &str)]) {
        let said = prices.iter().map(|(id, price)| ((*id).to_owned(), (*price).to_owned()));
        self.says.send_replace(Some(said.collect()));
    }

    fn is_silent(&self) {
        self.says.send_replace(None);
    }
}

async fn prices(
    State(market): State<Market>,
    Query(query): Query<BTreeMap<String, String>>,
    headers: axum::http::HeaderMap,
) -> Result<Json<Value>, StatusCode> {
    let key = headers.get("x-key").and_then(|key| key.to_str().ok()).map(str::to_owned);
    market.asked.lock().unwrap().push((query["ids"].clone(), key));
    let said = market.says.borrow().clone().ok_or(StatusCode::SERVICE_UNAVAILABLE)?;
    Ok(Json(message(&said)))
}

/// What it says, as of now.
fn message(said: &Said) -> Value {
    let now = unix_seconds(Utc::now());
    let prices = said.iter().map(|(id, price)| (id.clone(), json!({"price": price, "time": now})));
    json!({"prices": prices.collect::<serde_json::Map<_, _>>()})
}

/// Says all of it at once, and whatever changes, until there is nothing to say.
async fn tell(market: Market, socket: TcpStream) {
    let Ok(mut socket) = accept_async(socket).await else { return };
    let Some(Ok(Message::Text(asked))) = socket.next().await else { return };
    market.asked.lock().unwrap().push((asked.to_string(), None));
    let mut says = market.says.subscribe();
    loop {
        let Some(said) = says.borrow_and_update().clone() else { return };
        let message = Message::text(message(&said).to_string());
        if socket.send(message).await.is_err() || says.changed().await.is_err() {
            return;
        }
    }
}

/// A settler that trades dollars for ether, by feeds of these markets.
fn trading(markets: &[&Market], corridor: Value, price: Value) -> Value {
    let mut config = config();
    let names: Vec<String> = (0..markets.len()).map(|n| format!("feed-{n}")).collect();
    config["feeds"] = names
        .iter()
        .zip(markets)
        .map(|(name, market)| {
            json!({
                "name": name, "kind": "http", "url": format!("http://{}/prices", market.base), "pause_seconds": 1,
                "headers": {"x-key": name},
            })
        })
        .collect();
    let sources: Vec<Value> = names.iter().map(|name| json!({"feed": name, "id": "ETH"})).collect();
    let mut eth = json!({"asset": ETH_TEN, "sources": sources, "stale_seconds": 3});
    merge(&mut eth, price);
    config["prices"] = json!([eth, {"asset": USD_ONE, "fixed": "1"}]);
    let mut traded =
        json!({"source_asset": USD_ONE, "destination_asset": ETH_TEN, "market": true, "chain_fees": false});
    merge(&mut traded, corridor);
    config["corridors"] = json!([traded]);
    config["quoting"] = json!({"delivery_seconds_promised": 60});
    config
}

fn merge(value: &mut Value, with: Value) {
    value.as_object_mut().unwrap().extend(with.as_object().unwrap().clone());
}

fn book(config: &Value) -> Book {
    serde_json::from_value::<Config>(config.clone()).unwrap().book().unwrap()
}

fn rule(config: &Value) -> String {
    let read = serde_json::from_value::<Config>(config.clone()).map_err(|error| error.to_string());
    read.and_then(|config| config.book().map(drop).map_err(|error| error.to_string())).unwrap_err()
}

fn of_ether(prices: &Prices, conditions: Conditions) -> Result<String, Unpriced> {
    let book = prices.current();
    let pricing = &book.corridors[&(USD_ONE.parse().unwrap(), ETH_TEN.parse().unwrap())];
    let price = pricing.price(ETHER.parse().unwrap(), 256, conditions, Utc::now());
    price.map(|price| price.to_string())
}

/// Follows the feeds while it waits for `expected`.
async fn becomes(prices: &Prices, expected: Result<&str, Unpriced>) {
    let found = async {
        while of_ether(prices, Conditions::default()).as_deref().map_err(|error| *error) != expected {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let following = async {
        tokio::select! {
            _ = prices.follow() => {}
            () = found => {}
        }
    };
    let last = || of_ether(prices, Conditions::default());
    timeout(Duration::from_secs(20), following).await.unwrap_or_else(|_| panic!("{expected:?} is not {:?}", last()));
}

#[tokio::test]
async fn the_median_of_the_feeds_is_asked_for_and_nothing_while_they_are_silent_or_disagree() {
    let (one, two, three) = tokio::join!(Market::open(), Market::open(), Market::open());
    for (market, price) in [(&one, "3000"), (&two, "3010.5"), (&three, "3005")] {
        market.says(&[("ETH", price), ("XXX", "1")]);
    }
    let markets = [&one, &two, &three];
    let prices = Prices::new(book(&trading(&markets, json!({}), json!({}))));
    assert_eq!(of_ether(&prices, Conditions::default()), Err(Unpriced::Unknown), "before anybody said anything");
    becomes(&prices, Ok("3005000000")).await;
    assert_eq!(one.asked.lock().unwrap()[0], ("ETH".to_owned(), Some("feed-0".to_owned())));
    // Two of three are enough, and the dearer of the two is what ether is given for.
    three.is_silent();
    becomes(&prices, Ok("3010500000")).await;
    // What the other said is too old then.
    two.is_silent();
    becomes(&prices, Err(Unpriced::Unknown)).await;
    two.says(&[("ETH", "3001")]);
    becomes(&prices, Ok("3001000000")).await;
    three.says(&[("ETH", "1")]);
    becomes(&prices, Err(Unpriced::Unknown)).await;
    three.says(&[("ETH", "3000.5")]);
    becomes(&prices, Ok("3000500000")).await;
}

#[tokio::test]
async fn a_feed_that_says_by_itself_is_heard_and_connected_to_again() {
    let market = Market::open().await;
    market.says(&[("ETH", "3000")]);
    let mut config = trading(&[&market], json!({}), json!({"stale_seconds": 60}));
    config["feeds"] = json!([{
        "name": "feed-0", "kind": "websocket", "url": format!("ws://{}/", market.stream), "pause_seconds": 1,
    }]);
    let prices = Prices::new(book(&config));
    becomes(&prices, Ok("3000000000")).await;
    market.says(&[("ETH", "3100")]);
    becomes(&prices, Ok("3100000000")).await;
    // It hangs up.
    market.is_silent();
    let connected = || market.asked.lock().unwrap().len();
    let before = connected();
    let again = async {
        while connected() == before {
            market.is_silent();
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(Duration::from_secs(20), async {
        tokio::select! {
            _ = prices.follow() => {}
            () = again => {}
        }
    })
    .await
    .unwrap();
    market.says(&[("ETH", "3200")]);
    becomes(&prices, Ok("3200000000")).await;
    // However often it hung up, it is soon asked again once it has said something.
    for price in ["3201", "3202", "3203", "3204"] {
        market.is_silent();
        while_following(&prices, async {
            while market.streams.load(Ordering::SeqCst) > 0 {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        })
        .await;
        market.says(&[("ETH", price)]);
        let expected = format!("{price}000000");
        let soon = timeout(Duration::from_secs(6), becomes(&prices, Ok(&expected)));
        soon.await.expect("within a pause and a bit");
    }
    assert_eq!(market.asked.lock().unwrap()[0].0, r#"{"ids":["ETH"]}"#);
}

/// Runs `work` while the feeds are followed.
async fn while_following<T>(prices: &Prices, work: impl Future<Output = T>) -> T {
    tokio::select! {
        _ = prices.follow() => unreachable!("it has no end"),
        done = work => done,
    }
}

#[tokio::test]
async fn prices_are_replaced_while_the_settler_is_at_work_once_the_new_ones_are_known() {
    let (old, new) = tokio::join!(Market::open(), Market::open());
    old.says(&[("ETH", "3000")]);
    new.says(&[("ETH", "4000")]);
    let lasting = json!({"stale_seconds": 60});
    let prices = Prices::new(book(&trading(&[&old], json!({}), lasting.clone())));
    becomes(&prices, Ok("3000000000")).await;
    let other = book(&trading(&[&new], json!({"spread_bps": 100}), lasting.clone()));
    while_following(&prices, prices.replace(other)).await.unwrap();
    // Nothing is waited for: the new book was filled before it counts.
    assert_eq!(of_ether(&prices, Conditions::default()), Ok("4040000000".to_owned()));
    new.says(&[("ETH", "5000")]);
    becomes(&prices, Ok("5050000000")).await;
    // Gateways were told which pairs are traded.
    let mut more = trading(&[&new], json!({}), lasting);
    let dollars = json!({"source_asset": USD_ONE, "destination_asset": USD_TEN});
    more["corridors"].as_array_mut().unwrap().push(dollars);
    assert_eq!(while_following(&prices, prices.replace(book(&more))).await, Err(ReplaceError::OtherCorridors));
    // Nor may a feed that says nothing take the price away.
    let silent = Market::open().await;
    let mute = book(&trading(&[&silent], json!({}), json!({"stale_seconds": 60})));
    let refused = while_following(&prices, prices.replace(mute)).await;
    assert!(matches!(refused, Err(ReplaceError::Unpriced { .. })), "{refused:?}");
    assert_eq!(of_ether(&prices, Conditions::default()), Ok("5050000000".to_owned()));
}

#[tokio::test]
async fn a_price_has_the_margin_of_its_size_and_what_is_short_and_the_fees_in_it() {
    let market = Market::open().await;
    market.says(&[("ETH", "3000")]);
    let corridor = json!({
        "spread_bps": 100, "tiers": [{"from": ETHER, "spread_bps": 50}], "skew_bps": 200, "gas_cost": "7",
        "chain_fees": true, "fee_margin_bps": 0,
    });
    let mut config = trading(&[&market], corridor, json!({"stale_seconds": 60}));
    config["inventory"] = json!([{"asset": ETH_TEN, "target": "10000000000000000000"}]);
    config["prices"].as_array_mut().unwrap().push(json!({"asset": ETH_ONE, "fixed": "2000"}));
    let prices = Prices::new(book(&config));
    let known = Conditions {
        free: Some(U256::from(11) * ETHER.parse::<U256>().unwrap()),
        delivery_fee: Some(U256::from(1_000_000_000_000_000_u64)),
        release_fee: Some(U256::from(2_000_000_000_000_000_u64)),
    };
    while_following(&prices, async {
        while of_ether(&prices, known).is_err() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
    // 3,000 and half a per cent, 3 for the delivery, 4 for the release.
    assert_eq!(of_ether(&prices, known), Ok((3_015_000_000_u64 + 7 + 3_000_000 + 4_000_000).to_string()));
    let short = Conditions { free: Some(ETHER.parse().unwrap()), ..known };
    assert_eq!(of_ether(&prices, short), Ok((3_075_000_000_u64 + 7 + 7_000_000).to_string()), "nothing is left");
    assert_eq!(of_ether(&prices, Conditions { delivery_fee: None, ..known }), Err(Unpriced::Unknown));
}

/// The chains ask for 50 of the coin for a delivery of tokens, and for 70 for a release.
#[tokio::test]
async fn a_quote_has_what_the_chains_ask_and_what_is_left_in_its_price() {
    let mut config = config();
    config["prices"] = json!([
        {"asset": USD_ONE, "fixed": "1"}, {"asset": ETH_ONE, "fixed": "3000000000000"}, {"asset": ETH_TEN, "fixed": "2000000000000"},
    ]);
    config["inventory"] = json!([{"asset": USD_TEN, "target": "1000000"}]);
    let corridor =
        json!({"chain_fees": true, "fee_margin_bps": 0, "spread_bps": 0, "gas_cost": "0", "skew_bps": 1_000});
    merge(&mut config["corridors"][0], corridor);
    let fixture = with_balance_under(config, 1_500_000);
    let price =
        async |id: &str| quoted(&fixture, &rfq(id, &[USD_TEN], 500_000, None)).await.quote().source_amount.to_string();
    // A millionth of 2,000,000,000,000 dollars is 50 wei of that coin: 100 units; the release is 210.
    assert_eq!(price("a").await, (500_000 + 100 + 210).to_string(), "the target is left");
    // 500,000 are promised now, and as many would be left.
    assert_eq!(price("b").await, (525_000 + 100 + 210).to_string());
    let dear = rfq("c", &[USD_TEN], 500_000, Some(549_999));
    assert_eq!(answer(&fixture, &dear, NOW).await.decline.as_deref(), Some("PRICE_ABOVE_CAP"), "nothing would be left");
}

#[tokio::test]
async fn what_has_no_price_now_is_declined_for_now() {
    let silent = Market::open().await;
    let fixture = with_balance_under(trading(&[&silent], json!({}), json!({})), 1_000_000);
    let declined = answer(&fixture, &rfq("a", &[ETH_TEN], 1_000, None), NOW).await.decline;
    assert_eq!(declined.as_deref(), Some("TEMPORARILY_UNAVAILABLE"));
    assert!(silent.asked.lock().unwrap().is_empty(), "a request asks no feed");
}

#[test]
fn what_cannot_be_priced_is_refused_when_the_settler_starts() {
    let market = |text: &str| json!({"name": "feed-0", "kind": "http", "url": text});
    let base = || {
        let mut config = config();
        config["feeds"] = json!([market("https://prices.example/")]);
        config["prices"] = json!([
            {"asset": ETH_TEN, "sources": [{"feed": "feed-0", "id": "ETH"}]}, {"asset": USD_ONE, "fixed": "1"},
        ]);
        config["corridors"] = json!([
            {"source_asset": USD_ONE, "destination_asset": ETH_TEN, "market": true, "chain_fees": false},
        ]);
        config
    };
    book(&base());
    let says = |pointer: &str, value: Value, text: &str| {
        let mut changed = base();
        match pointer.rsplit_once('/') {
            Some((place, member)) if changed.pointer(pointer).is_none() => {
                changed.pointer_mut(place).unwrap()[member] = value;
            }
            _ => *changed.pointer_mut(pointer).unwrap() = value,
        }
        let rule = rule(&changed);
        assert!(rule.contains(text), "{pointer}: {rule} is not {text}");
    };
    says("/feeds/0/url", json!("http://prices.example/"), "feed-0: url must be https://");
    says("/feeds/0/url", json!("ftp://localhost/"), "url must be https://");
    says("/feeds/0/url", json!("prices"), "url: ");
    says("/feeds/0/kind", json!("oracle"), "oracle");
    says("/feeds/0/kind", json!("websocket"), "url must be wss://");
    says("/feeds/0/kind", json!("chainlink"), "feed-0 has no ETH");
    says("/feeds/0/pause_seconds", json!(0), "pause_seconds must be 1 to 3600");
    says("/feeds/0/headers", json!({"a b": "c"}), "a b is no header");
    says("/feeds/0/name", json!("other"), "there is no feed feed-0");
    says("/feeds/0/name", json!(""), "name must have 1 to");
    says("/feeds", json!([market("https://a.example"), market("https://b.example")]), "feed-0 stands twice");
    says("/feeds/0/chain_id", json!("eip155:1"), "chain_id is for aggregators");
    let mut twice = base();
    twice["feeds"]
        .as_array_mut()
        .unwrap()
        .push(json!({"name": "other", "kind": "http", "url": "https://prices.example/v2"}));
    twice["prices"][0]["sources"].as_array_mut().unwrap().push(json!({"feed": "other", "id": "ETH"}));
    assert!(rule(&twice).contains("prices.example is asked twice, and is one source"));
    let ids = json!([{"feed": "feed-0", "id": "ETH"}, {"feed": "feed-0", "id": "ETH-2"}]);
    says("/prices/0/sources", ids, "prices.example is asked twice");
    says("/prices/0/sources", json!([]), "fixed, or 1 to 16 sources");
    says("/prices/0/fixed", json!("1"), "either fixed or sources");
    says("/prices/0/sources_min", json!(2), "sources_min must be 1 to 1");
    says("/prices/0/stale_seconds", json!(86_401), "stale_seconds must be 1 to 86400");
    says("/prices/0/stale_seconds", json!(15), "stale_seconds must be more than pause_seconds of feed-0");
    says("/prices/1/asset", json!("eip155:10/slip44:61"), "eip155:10 has two coins");
    says("/prices/0/deviation_bps", json!(0), "deviation_bps must be 1 to 10000");
    says("/prices/0/decimals", json!(17), "17 are not its decimals");
    says("/prices/1/fixed", json!("-1"), "fixed -1 is no price");
    says("/prices/1/decimals", json!(37), "37 are not its decimals");
    says("/prices/1/asset", json!("eip155:1/erc20:0x9999999999999999999999999999999999999999"), "decimals is needed");
    says("/prices", json!([{"asset": USD_ONE, "fixed": "1"}]), "no price names it");
    says("/prices/0/asset", json!(ETH_ONE), "eip155:10/slip44:60 has no price");
    says("/corridors/0/rate", json!({"source": 1, "destination": 1}), "either market or rate");
    says("/corridors/0/chain_fees", json!(true), "the coin of eip155:1 has no price");
    says("/corridors/0/skew_bps", json!(10), "skew_bps needs a target");
    let tiers = json!([{"from": "2", "spread_bps": 1}, {"from": "2", "spread_bps": 1}]);
    says("/corridors/0/tiers", tiers, "the smallest first");
    let with = |feed: Value, id: &str| {
        let mut changed = base();
        changed["feeds"] = json!([feed]);
        changed["prices"][0]["sources"][0]["id"] = id.into();
        changed
    };
    let pyth = json!({"name": "feed-0", "kind": "pyth"});
    assert!(rule(&with(pyth.clone(), "ETH")).contains("feed-0 has no ETH"));
    book(&with(pyth, &format!("0x{}", "FF".repeat(32))));
    let chainlink = |chain: &str| json!({"name": "feed-0", "kind": "chainlink", "chain_id": chain});
    assert!(rule(&with(chainlink("eip155:10"), "ETH")).contains("feed-0 has no ETH"));
    let aggregator = "0x5f4eC3Df9cbd43714FE2740f5E3616155c5b8419";
    assert!(rule(&with(chainlink("eip155:99"), aggregator)).contains("eip155:99 is none of the EVM chains"));
    assert!(rule(&with(json!({"name": "feed-0", "kind": "chainlink"}), aggregator)).contains("chain_id is missing"));
    book(&with(chainlink("eip155:10"), aggregator));
    let unpromised = serde_json::from_value::<Config>(base()).unwrap().options().unwrap_err();
    assert_eq!(unpromised.key, "quoting.delivery_seconds_promised");
    for kind in ["coingecko", "binance"] {
        book(&with(json!({"name": "feed-0", "kind": kind}), "ethereum"));
    }
}

#[test]
fn nothing_that_may_hold_a_key_is_shown() {
    let mut config = config();
    config["feeds"] = json!([{
        "name": "own", "kind": "http", "url": "https://prices.example/?key=secret", "headers": {"x-key": "secret"},
    }]);
    let config: Config = serde_json::from_value(config).unwrap();
    assert!(!format!("{:?}", config.feeds).contains("secret"));
}
