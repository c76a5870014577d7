//! `gw-dev`: a local network of real chains, and real payments across them. For development and demonstration only. The
//! Tron chain is a development tool's, as there is no Tron node to be had.

pub mod chain;
pub mod keys;
pub mod nats;
pub mod network;
pub mod payer;
pub mod shop;
mod showcase;
pub mod silent_settler;
pub mod solana;
pub mod stock_shop;
pub mod timeline;
pub mod tron;
pub mod users;

use std::{
    net::{Ipv4Addr, TcpListener},
    path::PathBuf,
};

use anyhow::{Context, Result, ensure};
use clap::Args as ClapArgs;
use tokio_util::sync::CancellationToken;

use devkit::Surfnet;

use self::{
    network::{Network, Options, Verifiers},
    solana::SolanaOptions,
    tron::TronOptions,
};

/// Port of the gateway's API that the documents write.
const USUAL_PORT: u16 = 8080;
/// Port of nats-server that clients of NATS take where none is named.
const USUAL_NATS_PORT: u16 = 4222;

/// Arguments of `gw-dev`.
#[derive(Debug, ClapArgs)]
pub struct Args {
    /// End after the showcase; exit code 0 only if all went as said.
    #[arg(long)]
    once: bool,
    /// Make no payments: start the network, and leave it running.
    #[arg(long, conflicts_with = "once")]
    without_showcase: bool,
    /// Where configuration, data and logs of the network go; what an earlier network left there is removed.
    #[arg(long, default_value = ".dev")]
    directory: PathBuf,
    /// Port of the gateway's API, which has to be free; any free one when 0. 8080 unless named, or a free one where that is
    /// taken.
    #[arg(long)]
    port: Option<u16>,
    /// Port of the one nats-server, which has to be free; any free one when 0. 4222 unless named, or a free one where that is
    /// taken. A cluster has free ones.
    #[arg(long)]
    nats_port: Option<u16>,
    /// Number of gateways on the same streams; the first has the port.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=9))]
    gateways: u8,
    /// Number of nats-servers: one, or a cluster of 3 or 5 with three copies of each stream.
    #[arg(long, default_value = "1", value_parser = ["1", "3", "5"])]
    nats_nodes: String,
    /// The `gw` program that the network runs; the one beside this program unless named.
    #[arg(long)]
    gw: Option<PathBuf>,
    /// Verifiers: how many have to attest, of how many there are. 1/1 is a single one, which is no set.
    #[arg(long, default_value = "2/3")]
    verifiers: Verifiers,
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
    options.port = port("--port", args.port, USUAL_PORT)?;
    options.gateways = args.gateways.into();
    options.nats_nodes = args.nats_nodes.parse()?;
    if options.nats_nodes == 1 {
        options.nats_port = port("--nats-port", args.nats_port, USUAL_NATS_PORT)?;
    } else {
        ensure!(
            args.nats_port.is_none(),
            "--nats-port is for one nats-server: a cluster has free ports, and they are printed"
        );
    }
    // Here the limits are those of any other gateway.
    options.exempt = Vec::new();
    options.console = true;
    options.award_ack_ms = 1_000;
    options.verifiers = args.verifiers;
    if !args.without_solana {
        match Surfnet::available() {
            Ok(()) => options.solana = Some(SolanaOptions::for_stock_clients()),
            Err(error) => println!("· without Solana: {error}"),
        }
    }
    options.tron = (!args.without_tron).then(TronOptions::default);
    let mut network = tokio::select! {
        network = Network::start(options, |step| println!("· {step}")) => network?,
        () = shutdown.cancelled() => return Ok(()),
    };
    if !args.without_showcase {
        tokio::select! {
            shown = showcase::run(&mut network) => shown?,
            () = shutdown.cancelled() => return Ok(()),
        }
    }
    if !args.once {
        showcase::invite(&network).await?;
        shutdown.cancelled().await;
    }
    Ok(())
}

/// The port to listen on, `None` for any free one: the one that `argument` names, which has to be free, or else the usual one
/// where it is free, as a second network beside the first has to have others.
fn port(argument: &str, named: Option<u16>, usual: u16) -> Result<Option<u16>> {
    let free = |port| TcpListener::bind((Ipv4Addr::LOCALHOST, port));
    match named {
        Some(0) => Ok(None),
        Some(port) => {
            free(port).with_context(|| {
                format!("port {port} cannot be had: name another by {argument}, or 0 for a free one")
            })?;
            Ok(Some(port))
        }
        None if free(usual).is_ok() => Ok(Some(usual)),
        None => {
            println!("· port {usual} is taken, so a free one stands in for it ({argument})");
            Ok(None)
        }
    }
}
