//! A settler that prices by the market, as a process: it reads its prices anew on SIGHUP, goes on by what its feed says, and changes nothing
//! by a file that cannot be used (ADR 161).

use std::{
    fs,
    process::Stdio,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use anyhow::{Context, Result, ensure};
use axum::{Json, Router, routing::get};
use serde_json::json;
use tokio::{net::TcpListener, process::Command};
use tokio_util::task::AbortOnDropHandle;

use devkit::Signal;
use devnet::{network::Options, payer::PaymentSpec};
use events::Did;

use crate::support::*;

/// A feed of the settler's own shape that says one price, and how often it was asked.
struct Market {
    url: String,
    price: Arc<Mutex<String>>,
    asked: Arc<AtomicUsize>,
    _serving: AbortOnDropHandle<()>,
}

impl Market {
    async fn open(price: &str) -> Result<Self> {
        let (price, asked) = (Arc::new(Mutex::new(price.to_owned())), Arc::new(AtomicUsize::new(0)));
        let (says, counts) = (price.clone(), asked.clone());
        let answer = move || async move {
            let said = says.lock().unwrap().clone();
            counts.fetch_add(1, Ordering::SeqCst);
            Json(json!({"prices": {"DEV": {"price": said}}}))
        };
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}/", listener.local_addr()?);
        let routes = Router::new().route("/", get(answer));
        let serving = AbortOnDropHandle::new(tokio::spawn(async move { axum::serve(listener, routes).await.unwrap() }));
        Ok(Self { url, price, asked, _serving: serving })
    }

    /// Says another price, and waits until the settler has heard it.
    async fn says(&self, price: &str) -> Result<()> {
        price.clone_into(&mut self.price.lock().unwrap());
        let before = self.asked.load(Ordering::SeqCst);
        // Who asks again has read the answer before.
        eventually(|| async { self.asked.load(Ordering::SeqCst) >= before + 2 }).await
    }
}

/// The configuration of the first settler, by which its ordinary corridor follows `market`.
fn by_market(world: &World, market: &Market) -> Result<toml::Table> {
    let path = world.network.options().directory.join("settler-1.toml");
    let mut config: toml::Table = fs::read_to_string(path)?.parse()?;
    let (source, destination) =
        (world.network.source.token()?.to_string(), world.network.destination.token()?.to_string());
    let added: toml::Table = toml::from_str(&format!(
        r#"
        [[feeds]]
        name = "own"
        kind = "http"
        url = "{}"
        pause_seconds = 1

        [[prices]]
        asset = "{source}"
        fixed = "1"

        [[prices]]
        asset = "{destination}"
        sources = [{{ feed = "own", id = "DEV" }}]
        "#,
        market.url
    ))?;
    config.extend(added);
    let quoting = config.entry("quoting").or_insert_with(|| toml::Table::new().into());
    quoting.as_table_mut().context("quoting")?.insert("delivery_seconds_promised".to_owned(), 120.into());
    let corridors = config["corridors"].as_array_mut().context("no corridors")?;
    let is_it = |corridor: &&mut toml::Value| {
        corridor["source_asset"].as_str() == Some(&source)
            && corridor["destination_asset"].as_str() == Some(&destination)
    };
    let corridor = corridors.iter_mut().find(is_it).and_then(toml::Value::as_table_mut).context("no such corridor")?;
    let market = toml::from_str::<toml::Table>("market = true\nchain_fees = false\nspread_bps = 50")?;
    corridor.extend(market);
    Ok(config)
}

/// Has the settler read this configuration, and waits until its log says what became of it.
async fn reads(world: &World, config: &toml::Table, says: &str) -> Result<()> {
    fs::write(world.network.options().directory.join("settler-1.toml"), config.to_string())?;
    world.network.signal_settler(1, Signal::Hangup).await?;
    let is_said = || async { world.network.log("settler-1").is_ok_and(|log| log.contains(says)) };
    eventually(is_said).await.with_context(|| format!("the settler does not say: {says}"))
}

/// The price of a payment that this settler alone may deliver.
async fn price(world: &World, request_id: &str) -> Result<String> {
    let own = settler::dev::key(1).context("the network has three settlers")?;
    let whitelist = vec![Did::from_ed25519(&own.verifying_key())];
    let spec = PaymentSpec { whitelist, cap: "30000000".parse()?, ..world.spec(request_id)? };
    let payment_id = world.submit(&spec).await?;
    world.completed(&payment_id).await?;
    let outcome = world.outcome(&payment_id).await?;
    let price = outcome.body["fulfillment_quote"]["sourceAmount"].as_str();
    Ok(price.with_context(|| format!("{outcome:?}"))?.to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_settler_reads_its_prices_anew_and_follows_the_market() -> Result<()> {
    let world = World::with(|options| Options { metrics: true, ..options });
    let (world, market) = tokio::try_join!(world, Market::open("1"))?;
    let measured = world.network.metrics("settler-1")?;
    let usable = by_market(&world, &market)?;
    reads(&world, &usable, "prices are those of the configuration as it is now").await?;
    assert_eq!(price(&world, "market").await?, "25125000");
    market.says("1.01").await?;
    let mut unusable = usable.clone();
    unusable["prices"].as_array_mut().context("no prices")?.clear();
    reads(&world, &unusable, "prices are as they were").await?;
    assert_eq!(price(&world, "dearer").await?, "25376250");
    let told = reqwest::get(measured).await?.text().await?;
    ensure!(told.contains(r#"gw_settler_feed_reads_total{feed="own",outcome="read"}"#), "{told}");

    let shown = async |config: &toml::Table| -> Result<(bool, String)> {
        let path = world.network.options().directory.join("shown.toml");
        fs::write(&path, config.to_string())?;
        let mut command = Command::new(&world.network.options().gw);
        let output = command.args(["settler", "prices", "--config"]).arg(&path).stdin(Stdio::null()).output().await?;
        let said = [output.stdout, output.stderr].concat();
        Ok((output.status.success(), String::from_utf8_lossy(&said).into_owned()))
    };
    let (is_well, said) = shown(&usable).await?;
    ensure!(is_well && said.contains(": 1.01\n  own DEV: 1.01, 0 s ago"), "{said}");
    let mut silent = usable.clone();
    silent["feeds"][0]["url"] = "http://127.0.0.1:1/".into();
    let (is_well, said) = shown(&silent).await?;
    let tells = ["feed own: it cannot be reached", "no price, 0 of at least 1 sources", "1 of 2 assets have no price"];
    ensure!(!is_well && tells.iter().all(|told| said.contains(told)), "{said}");
    Ok(())
}
