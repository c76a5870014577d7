//! A verifier, put together from its configuration.

use std::{collections::BTreeMap, sync::Arc};

use anyhow::{Context, Result};
use futures::future::try_join;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use chains::{config::ChainConfig, verifier::Verifier};
use config::VerifierConfig;
use events::Family;

use crate::{metrics::Metrics, signers};

/// Runs a verifier until `shutdown`.
///
/// # Errors
/// When the configuration cannot be used or the address is taken.
pub async fn verifier(config: VerifierConfig, shutdown: CancellationToken) -> Result<()> {
    // Before any part makes its handles.
    let metrics = Metrics::install(config.metrics.listen)?;
    let options = verifier::ServiceOptions::from(&config);
    let (mut evm_nodes, mut solana_nodes, mut tron_nodes) = (Vec::new(), Vec::new(), Vec::new());
    for chain in &config.chains {
        match chain {
            ChainConfig::Evm(chain) => evm_nodes.push(chains_evm::node::Node::connect(chain)?),
            ChainConfig::Solana(chain) => solana_nodes.push(chains_solana::node::Node::connect(chain)?),
            ChainConfig::Tron(chain) => tron_nodes.push(chains_tron::node::Node::connect(chain)?),
        }
    }
    signers::check(&signers::distant_of_verifier(&config)?).await?;
    let judge = Verifier::default()
        .with_chains(evm_nodes, signers::releaser(&config, Family::Evm)?)
        .with_chains(solana_nodes, signers::releaser(&config, Family::Solana)?)
        .with_chains(tron_nodes, signers::releaser(&config, Family::Tron)?);
    let listener = TcpListener::bind(config.listen).await.with_context(|| format!("listen on {}", config.listen))?;
    let known = options.callers.known.len();
    let releasers: BTreeMap<_, _> =
        judge.releasers().into_iter().map(|(chain_id, releaser)| (chain_id, releaser.to_string())).collect();
    tracing::info!(address = %config.listen, ?releasers, known, "verifier listens");
    let serving = async {
        verifier::serve(listener, Arc::new(judge), options, shutdown.clone()).await;
        Ok(())
    };
    match metrics {
        Some(metrics) => try_join(serving, metrics.serve(|| (), shutdown.clone())).await.map(drop),
        None => serving.await,
    }
}
