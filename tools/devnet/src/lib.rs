//! `gw-dev`: a local network of real chains, and real payments across them. For development and demonstration only. The
//! Tron chain is a development tool's, as there is no Tron node to be had.

pub mod chain;
pub mod keys;
pub mod nats;
pub mod network;
pub mod payer;
pub mod shop;
mod showcase;
pub mod solana;
pub mod timeline;
pub mod tron;
pub mod users;

use std::path::PathBuf;

use anyhow::{Result, ensure};
use clap::Args as ClapArgs;
use tokio_util::sync::CancellationToken;

use devkit::Surfnet;

use self::{
    network::{Network, Options},
    solana::SolanaOptions,
    tron::TronOptions,
};

/// Arguments of `gw-dev`.
#[derive(Debug, ClapArgs)]
pub struct Args {
    /// End after the showcase; exit code 0 only if all went as said.
    #[arg(long)]
    once: bool,
    /// Where configuration, data and logs of the network go; what an earlier network left there is removed.
    #[arg(long, default_value = ".dev")]
    directory: PathBuf,
    /// Port of the gateway's API; a free one when 0.
    #[arg(long, default_value_t = 8080)]
    port: u16,
    /// Number of gateways on the same streams; the first has the port.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=9))]
    gateways: u8,
    /// Number of nats-servers: one, or a cluster of 3 or 5 with three copies of each stream.
    #[arg(long, default_value = "1", value_parser = ["1", "3", "5"])]
    nats_nodes: String,
    /// The `gw` program that the network runs; the one beside this program unless named.
    #[arg(long)]
    gw: Option<PathBuf>,
    /// Leave Solana out.
    #[arg(long)]
    without_solana: bool,
    /// Leave Tron out.
    #[arg(long)]
    without_tron: bool,
}

/// Starts the network, shows the payments, and stays up until `shutdown` unless `--once`.
///
/// # Errors
/// When a program is missing or a payment does not go as said.
pub async fn run(args: Args, shutdown: CancellationToken) -> Result<()> {
    let gw = match args.gw {
        Some(gw) => gw,
        None => std::env::current_exe()?.with_file_name(format!("gw{}", std::env::consts::EXE_SUFFIX)),
    };
    ensure!(
        gw.is_file(),
        "there is no {}: build it with `cargo build --workspace --bin gw`, or name one with --gw",
        gw.display()
    );
    let mut options = Options::new(args.directory, gw);
    options.port = free_or(args.port);
    options.gateways = args.gateways.into();
    options.nats_nodes = args.nats_nodes.parse()?;
    // Here the limits are those of any other gateway.
    options.exempt = Vec::new();
    if !args.without_solana {
        match Surfnet::available() {
            Ok(()) => options.solana = Some(SolanaOptions::default()),
            Err(error) => println!("· without Solana: {error}"),
        }
    }
    options.tron = (!args.without_tron).then(TronOptions::default);
    let network = tokio::select! {
        network = Network::start(options, |step| println!("· {step}")) => network?,
        () = shutdown.cancelled() => return Ok(()),
    };
    tokio::select! {
        shown = showcase::run(&network) => shown?,
        () = shutdown.cancelled() => return Ok(()),
    }
    if !args.once {
        showcase::invite(&network).await?;
        shutdown.cancelled().await;
    }
    Ok(())
}

/// `port` if it is free: a second network beside the first gets another.
fn free_or(port: u16) -> Option<u16> {
    let free = port != 0 && std::net::TcpListener::bind((std::net::Ipv4Addr::LOCALHOST, port)).is_ok();
    free.then_some(port)
}
