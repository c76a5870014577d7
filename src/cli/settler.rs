//! `gw settler`.

use std::{
    fmt::Write,
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::{Context, Result, ensure};
use chrono::Utc;
use clap::{Args as ClapArgs, Subcommand};
use futures::future::try_join;
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    task::spawn_blocking,
};

use events::Did;
use journal_jetstream::connection::nkey;
use settler::{
    Settler,
    pricing::{
        Book, Prices,
        market::{AssetPrice, Board, Median},
    },
};

use crate::{metrics::Metrics, telemetry::Logs};

/// Arguments of `gw settler`.
#[derive(Debug, ClapArgs)]
pub struct Args {
    /// Configuration file; see config/settler.example.toml.
    #[arg(long, env = "GW_SETTLER_CONFIG", global = true)]
    config: Option<PathBuf>,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show the settler's DID, its subject token, and the account in nats/accounts.conf that admits its key.
    Id {
        /// The DID of a settler of which no configuration is at hand; its operator needs to show nothing else.
        #[arg(long)]
        did: Option<Did>,
    },
    /// Ask the feeds of `[[feeds]]` once, and show what each says and which prices come of it. Ends with 1 where an asset has none.
    Prices,
}

impl Args {
    /// Whether something is to be shown, and nothing run.
    pub fn is_query(&self) -> bool {
        self.command.is_some()
    }
}

/// Runs a settler, or shows what it needs.
///
/// # Errors
/// When the configuration cannot be used, or the settler ends.
pub async fn run(args: Args, logs: Logs) -> Result<()> {
    if let Some(Command::Id { did: Some(did) }) = &args.command {
        return show(did);
    }
    let path = args.config.context("--config FILE is needed; see config/settler.example.toml")?;
    let config: settler::Config = logs.while_reading(|| config::settler(&path))?;
    let did = Did::from_ed25519(&config.signing_key()?.verifying_key());
    match args.command {
        Some(Command::Id { .. }) => return show(&did),
        Some(Command::Prices) => return show_prices(&config).await,
        None => {}
    }
    let traces = logs.start_with_traces(&config.telemetry, "settler", did.to_string())?;
    // Before any part makes its handles.
    let metrics = Metrics::install(config.metrics.listen)?;
    // Before that a SIGHUP would end the process.
    let hang_ups = signal(SignalKind::hangup()).context("SIGHUP")?;
    let settler = Settler::connect(&config).await?;
    let shutdown = super::shutdown_on_signal()?;
    let repricing = shutdown.clone().run_until_cancelled_owned(reprice_on_signal(hang_ups, path, settler.prices()));
    let working = async {
        tokio::join!(repricing, settler.run(shutdown.clone()));
        Ok(())
    };
    let ended = match metrics {
        Some(metrics) => try_join(working, metrics.serve(|| (), shutdown.clone())).await.map(drop),
        None => working.await,
    };
    traces.finish().await;
    ended
}

/// Reads the configuration again whenever the process is sent SIGHUP, and goes on by its prices. One that cannot be used changes nothing.
async fn reprice_on_signal(mut hang_ups: Signal, path: PathBuf, prices: Arc<Prices>) {
    while hang_ups.recv().await.is_some() {
        match reprice(&path, &prices).await {
            Ok(()) => tracing::info!(file = %path.display(), "prices are those of the configuration as it is now"),
            Err(error) => {
                tracing::error!(file = %path.display(), error = format!("{error:#}"), "prices are as they were");
            }
        }
    }
}

async fn reprice(path: &Path, prices: &Prices) -> Result<()> {
    let path = path.to_owned();
    // All of it: the next start would refuse the rest. Keystores take their time to be opened.
    let read = move || anyhow::Ok(config::settler::<settler::Config>(&path)?.options()?.book);
    Ok(prices.replace(spawn_blocking(read).await??).await?)
}

/// What the feeds say, and what comes of it.
async fn show_prices(config: &settler::Config) -> Result<()> {
    let book = config.book()?;
    ensure!(!book.assets.is_empty(), "there are no [[prices]]: the corridors have rates of their own");
    for (feed, error) in book.fill().await {
        eprintln!("feed {feed}: {error}");
    }
    let (text, missing) = table(&book);
    super::answer(&text)?;
    ensure!(missing == 0, "{missing} of {} assets have no price", book.assets.len());
    Ok(())
}

/// The assets with what is said of them, and how many have no price.
fn table(book: &Book) -> (String, usize) {
    let (mut text, mut missing) = (String::new(), 0);
    for (asset, price) in &book.assets {
        // Writing to a string cannot fail.
        let _ = match price.middle(&book.board, Utc::now()) {
            Ok(middle) if middle.lower == middle.upper => writeln!(text, "{asset}: {}", middle.lower),
            Ok(middle) => writeln!(text, "{asset}: {} taken, {} given", middle.lower, middle.upper),
            Err(error) => {
                missing += 1;
                writeln!(text, "{asset}: no price, {error}")
            }
        };
        if let AssetPrice::Median(Median { sources, .. }) = price {
            for source in sources {
                let _ = writeln!(text, "  {} {}: {}", source.feed, source.id, said(&book.board, source));
            }
        }
    }
    (text, missing)
}

fn said(board: &Board, source: &settler::pricing::market::SourceId) -> String {
    match board.latest(source) {
        Some(observation) => {
            let age = (Utc::now() - observation.at).num_seconds().max(0);
            format!("{}, {age} s ago", observation.price)
        }
        None => "nothing".to_owned(),
    }
}

/// What a NATS operator needs to admit a settler.
fn show(did: &Did) -> Result<()> {
    let account = settler::nats_account(did).with_context(|| did.to_string())?;
    let (token, nkey) = (did.token(), nkey(&did.ed25519_key()?));
    super::answer(&format!(
        "did:   {did}\ntoken: {token}\nnkey:  {nkey}\n\n\
         In nats/accounts.conf, then `nats-server --signal reload` twice:\n\n{account}"
    ))
}
