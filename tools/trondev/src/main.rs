//! `trondev`: the development node as a process.

use std::{net::SocketAddr, time::Duration};

use anyhow::{Context, Result};
use clap::Parser;
use tracing_subscriber::EnvFilter;

use trondev::{Address, Blocks, Options, SUN_PER_TRX, TronDev};

/// A development tool that speaks Tron's HTTP API. It is not a Tron node.
#[derive(Debug, Parser)]
#[command(version)]
struct Arguments {
    /// Where the API listens. Anybody who reaches it controls the chain.
    #[arg(long, default_value = "127.0.0.1:9090")]
    listen: SocketAddr,
    /// The chain id that contracts see.
    #[arg(long, default_value_t = Options::default().chain_id)]
    chain_id: u32,
    /// Milliseconds between blocks; 0 makes blocks only when `POST /dev/mine` says so.
    #[arg(long, default_value_t = 3_000)]
    block_ms: u64,
    /// How many blocks the solidified one is behind the head.
    #[arg(long, default_value_t = Options::default().solidified_lag)]
    solidified_lag: u64,
    /// Sun for one unit of energy.
    #[arg(long, default_value_t = Options::default().energy_price_sun)]
    energy_price: u64,
    /// An account that has TRX from the start, as ADDRESS=TRX. May be given more than once.
    #[arg(long = "account", value_name = "ADDRESS=TRX", value_parser = account)]
    accounts: Vec<(Address, u64)>,
}

#[tokio::main]
async fn main() -> Result<()> {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
    let arguments = Arguments::parse();
    let blocks = match arguments.block_ms {
        0 => Blocks::OnDemand,
        milliseconds => Blocks::Every(Duration::from_millis(milliseconds)),
    };
    let node = TronDev::start(Options {
        bind: arguments.listen,
        chain_id: arguments.chain_id,
        blocks,
        solidified_lag: arguments.solidified_lag,
        energy_price_sun: arguments.energy_price,
        accounts: arguments.accounts,
        ..Options::default()
    })
    .await?;
    println!("trondev: a development tool, no Tron node. Chain {} at {}", arguments.chain_id, node.url());
    ended().await
}

#[cfg(unix)]
async fn ended() -> Result<()> {
    use tokio::signal::unix::{SignalKind, signal};

    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        interrupted = tokio::signal::ctrl_c() => interrupted?,
        _ = terminate.recv() => {}
    }
    Ok(())
}

#[cfg(not(unix))]
async fn ended() -> Result<()> {
    Ok(tokio::signal::ctrl_c().await?)
}

fn account(text: &str) -> Result<(Address, u64)> {
    let (address, trx) = text.split_once('=').context("write ADDRESS=TRX")?;
    let sun = trx.parse::<u64>()?.checked_mul(SUN_PER_TRX).context("too many TRX")?;
    Ok((address.parse()?, sun))
}
