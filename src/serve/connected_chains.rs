//! The chains that a gateway is connected to, of every family: the registry for the engine, and what else of them is needed.

use std::{collections::BTreeMap, sync::Arc};

use alloy::signers::local::PrivateKeySigner;
use anyhow::{Context, Result};

use app::{
    authorization::{
        Authorizer,
        evm::EvmAuthorizer,
        registry::Authorizers,
        solana::{Approvals, SolanaAuthorizer},
        tron::TronAuthorizer,
    },
    funds::{EvmFunds, Funds, SolanaFunds, TronFunds},
};
use chains::{
    config::{ChainConfig, EvmConfig, SolanaConfig, TronConfig},
    readiness::{ChainsReadiness, ReadinessProbe},
    registry::ChainRegistry,
};
use chains_evm::adapter::EvmChain;
use chains_solana::{adapter::SolanaChain, authorization::ClusterId, keys::keypair};
use chains_tron::adapter::TronChain;
use config::{GatewayChain, GatewayConfig, Secret};
use events::Family;
use journal_jetstream::{budget::NatsBudgets, ledger::NatsLedger};
use sagas::ports::Clock;

/// What each part of a gateway needs of its chains.
pub(super) struct ConnectedChains {
    /// The engine's port.
    pub chains: Arc<ChainRegistry>,
    /// The EVM chains, whose submitters are maintained.
    pub evm: Vec<Arc<EvmChain>>,
    /// What checks payers' signatures.
    pub authorizer: Arc<dyn Authorizer>,
    /// What reads what payers hold.
    pub funds: BTreeMap<Family, Arc<dyn Funds>>,
    /// What looks whether they are ready.
    pub probes: Vec<Arc<dyn ReadinessProbe>>,
    /// Which of them are.
    pub readiness: ChainsReadiness,
}

impl ConnectedChains {
    /// Connects to the chains of the configuration. No node is asked anything yet.
    ///
    /// # Errors
    /// When an endpoint, an account or a key cannot be used.
    pub fn new(
        config: &GatewayConfig,
        ledger: Arc<NatsLedger>,
        budgets: Arc<NatsBudgets>,
        clock: Arc<dyn Clock>,
    ) -> Result<Self> {
        let (mut evm, mut solana, mut tron) = (Vec::new(), Vec::new(), Vec::new());
        for served in &config.chains {
            match &served.chain {
                ChainConfig::Evm(chain) => evm.push(evm_chain(chain, served)?),
                ChainConfig::Solana(chain) => solana.push(solana_chain(chain, served)?),
                ChainConfig::Tron(chain) => tron.push(tron_chain(chain, served)?),
            }
        }
        let on_evm = evm.iter().map(|(node, _)| Arc::new(node.clone()) as Arc<dyn ReadinessProbe>);
        let on_solana = solana.iter().map(|(node, _)| Arc::new(node.clone()) as Arc<dyn ReadinessProbe>);
        let on_tron = tron.iter().map(|(node, _)| Arc::new(node.clone()) as Arc<dyn ReadinessProbe>);
        let probes: Vec<_> = on_evm.chain(on_solana).chain(on_tron).collect();
        let readiness = ChainsReadiness::new(probes.iter().map(|probe| probe.chain_id().clone()));
        let mut chains = ChainRegistry::new(clock.clone()).heeding(readiness.clone());
        let evm_nodes: Vec<_> = evm.iter().map(|(node, _)| node.clone()).collect();
        let mut evm_chains = Vec::new();
        for (node, keys) in evm {
            let chain = EvmChain::new(node, Some(keys), ledger.clone(), budgets.clone(), clock.clone())?;
            let chain = Arc::new(chain);
            chains = chains.with(chain.clone())?;
            evm_chains.push(chain);
        }
        let solana_nodes: Vec<_> = solana.iter().map(|(node, _)| node.clone()).collect();
        for (node, keys) in solana {
            chains = chains.with(Arc::new(SolanaChain::new(node, Some(keys), clock.clone())?))?;
        }

        let openers = tron.iter().map(|(node, keys)| (node.clone(), keys.reserver.clone()));
        let tron_authorizer = TronAuthorizer::new(openers);
        let tron_nodes: Vec<_> = tron.iter().map(|(node, _)| node.clone()).collect();
        for (node, keys) in tron {
            chains = chains.with(Arc::new(TronChain::new(node, Some(keys), clock.clone())?))?;
        }

        let clusters = solana_nodes.iter().map(|node| {
            let approvals: Arc<dyn Approvals> = Arc::new(node.clone());
            (node.chain_id().clone(), ClusterId::from(node.cluster_id()), approvals)
        });
        let evm_authorizer: (Family, Arc<dyn Authorizer>) =
            (Family::Evm, Arc::new(EvmAuthorizer::new(evm_nodes.clone(), budgets, clock.clone())));
        let evm_funds: (Family, Arc<dyn Funds>) = (Family::Evm, Arc::new(EvmFunds::new(evm_nodes)));
        Ok(Self {
            chains: Arc::new(chains),
            evm: evm_chains,
            probes,
            readiness,
            authorizer: Arc::new(Authorizers::new([
                evm_authorizer,
                (Family::Solana, Arc::new(SolanaAuthorizer::new(clusters))),
                (Family::Tron, Arc::new(tron_authorizer)),
            ])),
            funds: BTreeMap::from([
                evm_funds,
                (Family::Solana, Arc::new(SolanaFunds::new(solana_nodes))),
                (Family::Tron, Arc::new(TronFunds::new(tron_nodes))),
            ]),
        })
    }
}

fn evm_chain(chain: &EvmConfig, served: &GatewayChain) -> Result<(chains_evm::node::Node, chains_evm::adapter::Keys)> {
    let signers = |secrets: &[Secret]| secrets.iter().map(signer).collect::<Result<Vec<_>>>();
    let chain_id = &chain.common.chain_id;
    let keys = chains_evm::adapter::Keys {
        reserver: signer(&served.reserver_key).with_context(|| format!("reserver_key of {chain_id}"))?,
        submitters: signers(&served.submitter_keys).with_context(|| format!("submitter_keys of {chain_id}"))?,
        exit_submitters: signers(&served.exit_submitter_keys)
            .with_context(|| format!("exit_submitter_keys of {chain_id}"))?,
    };
    Ok((chains_evm::node::Node::connect(chain)?, keys))
}

fn solana_chain(
    chain: &SolanaConfig,
    served: &GatewayChain,
) -> Result<(chains_solana::node::Node, chains_solana::adapter::Keys)> {
    let chain_id = &chain.common.chain_id;
    let signers =
        |secrets: &[Secret]| secrets.iter().map(|secret| keypair(secret.expose())).collect::<Result<Vec<_>, _>>();
    let reserver = keypair(served.reserver_key.expose());
    let keys = chains_solana::adapter::Keys {
        reserver: reserver.with_context(|| format!("reserver_key of {chain_id}"))?,
        submitters: signers(&served.submitter_keys).with_context(|| format!("submitter_keys of {chain_id}"))?,
        exit_submitters: signers(&served.exit_submitter_keys)
            .with_context(|| format!("exit_submitter_keys of {chain_id}"))?,
    };
    Ok((chains_solana::node::Node::connect(chain)?, keys))
}

fn tron_chain(
    chain: &TronConfig,
    served: &GatewayChain,
) -> Result<(chains_tron::node::Node, chains_tron::adapter::Keys)> {
    let chain_id = &chain.common.chain_id;
    let signers = |secrets: &[Secret]| secrets.iter().map(signer).collect::<Result<Vec<_>>>();
    let keys = chains_tron::adapter::Keys {
        reserver: signer(&served.reserver_key).with_context(|| format!("reserver_key of {chain_id}"))?,
        submitters: signers(&served.submitter_keys).with_context(|| format!("submitter_keys of {chain_id}"))?,
        exit_submitters: signers(&served.exit_submitter_keys)
            .with_context(|| format!("exit_submitter_keys of {chain_id}"))?,
    };
    Ok((chains_tron::node::Node::connect(chain)?, keys))
}

/// The signer of an account on EVM or Tron chains.
///
/// # Errors
/// When it is not a private key; the text says nothing of it.
pub(super) fn signer(secret: &Secret) -> Result<PrivateKeySigner> {
    // The parser's own error would repeat what it was given.
    secret.expose().parse().ok().context("must be a private key, 0x and 64 hex digits")
}
