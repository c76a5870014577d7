//! The families of the chains that a gateway is connected to.

use std::{collections::BTreeMap, sync::Arc};

use alloy::signers::local::PrivateKeySigner;
use anyhow::{Context, Result};

use chains::registry::ChainRegistry;
use chains_evm::adapter::{EvmChain, EvmChains};
use chains_solana::{
    adapter::{SolanaChain, SolanaChains},
    authorization::ClusterId,
    keys::keypair,
};
use chains_tron::adapter::{TronChain, TronChains};
use events::Family;
use journal_jetstream::{budget::NatsBudgets, ledger::NatsLedger};
use sagas::ports::Clock;

use app::{
    authorization::{
        Authorizer,
        evm::EvmAuthorizer,
        families::Authorizers,
        solana::{Approvals, SolanaAuthorizer},
        tron::TronAuthorizer,
    },
    funds::{EvmFunds, Funds, SolanaFunds, TronFunds},
};
use config::{GatewayChain, GatewayConfig, Secret};

/// What each part of a gateway needs of its chains.
pub(super) struct Connected {
    /// The engine's port.
    pub chains: Arc<ChainRegistry>,
    /// The EVM chains, whose submitters are maintained.
    pub evm: Arc<EvmChains>,
    /// What checks payers' signatures.
    pub authorizer: Arc<dyn Authorizer>,
    /// What reads what payers hold.
    pub funds: BTreeMap<Family, Arc<dyn Funds>>,
}

impl Connected {
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
        let of = |family| config.chains.iter().filter(move |served| served.chain.chain_id.family() == Some(family));
        let evm = of(Family::Evm).map(evm_chain).collect::<Result<Vec<_>>>()?;
        let evm_nodes: Vec<_> = evm.iter().map(|chain| chain.node.clone()).collect();
        let evm = Arc::new(EvmChains::new(evm, ledger, budgets.clone(), clock.clone())?);
        let solana = of(Family::Solana).map(solana_chain).collect::<Result<Vec<_>>>()?;
        let solana_nodes: Vec<_> = solana.iter().map(|chain| chain.node.clone()).collect();
        let solana = Arc::new(SolanaChains::new(solana, clock.clone())?);

        let tron = of(Family::Tron).map(tron_chain).collect::<Result<Vec<_>>>()?;
        let openers = tron.iter().filter_map(|chain| Some((chain.node.clone(), chain.keys.as_ref()?.reserver.clone())));
        let tron_authorizer = TronAuthorizer::new(openers);
        let tron_nodes: Vec<_> = tron.iter().map(|chain| chain.node.clone()).collect();
        let tron = Arc::new(TronChains::new(tron, clock.clone())?);

        let clusters = solana_nodes.iter().map(|node| {
            let approvals: Arc<dyn Approvals> = Arc::new(node.clone());
            (node.chain_id().clone(), ClusterId::from(node.cluster_id()), approvals)
        });
        let evm_authorizer: (Family, Arc<dyn Authorizer>) =
            (Family::Evm, Arc::new(EvmAuthorizer::new(evm_nodes.clone(), budgets, clock.clone())));
        let evm_funds: (Family, Arc<dyn Funds>) = (Family::Evm, Arc::new(EvmFunds::new(evm_nodes)));
        Ok(Self {
            chains: Arc::new(ChainRegistry::new(clock).with(evm.clone()).with(solana).with(tron)),
            evm,
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

fn evm_chain(served: &GatewayChain) -> Result<EvmChain> {
    let signers = |secrets: &[Secret]| secrets.iter().map(signer).collect::<Result<Vec<_>>>();
    let chain_id = &served.chain.chain_id;
    let keys = chains_evm::adapter::Keys {
        reserver: signer(&served.reserver_key).with_context(|| format!("reserver_key of {chain_id}"))?,
        submitters: signers(&served.submitter_keys).with_context(|| format!("submitter_keys of {chain_id}"))?,
        exit_submitters: signers(&served.exit_submitter_keys)
            .with_context(|| format!("exit_submitter_keys of {chain_id}"))?,
    };
    Ok(EvmChain { node: chains_evm::node::Node::connect(&served.chain)?, keys: Some(keys) })
}

fn solana_chain(served: &GatewayChain) -> Result<SolanaChain> {
    let chain_id = &served.chain.chain_id;
    let signers =
        |secrets: &[Secret]| secrets.iter().map(|secret| keypair(secret.expose())).collect::<Result<Vec<_>, _>>();
    let reserver = keypair(served.reserver_key.expose());
    let keys = chains_solana::adapter::Keys {
        reserver: reserver.with_context(|| format!("reserver_key of {chain_id}"))?,
        submitters: signers(&served.submitter_keys).with_context(|| format!("submitter_keys of {chain_id}"))?,
        exit_submitters: signers(&served.exit_submitter_keys)
            .with_context(|| format!("exit_submitter_keys of {chain_id}"))?,
    };
    Ok(SolanaChain { node: chains_solana::node::Node::connect(&served.chain)?, keys: Some(keys) })
}

fn tron_chain(served: &GatewayChain) -> Result<TronChain> {
    let chain_id = &served.chain.chain_id;
    let signers = |secrets: &[Secret]| secrets.iter().map(signer).collect::<Result<Vec<_>>>();
    let keys = chains_tron::adapter::Keys {
        reserver: signer(&served.reserver_key).with_context(|| format!("reserver_key of {chain_id}"))?,
        submitters: signers(&served.submitter_keys).with_context(|| format!("submitter_keys of {chain_id}"))?,
        exit_submitters: signers(&served.exit_submitter_keys)
            .with_context(|| format!("exit_submitter_keys of {chain_id}"))?,
    };
    Ok(TronChain { node: chains_tron::node::Node::connect(&served.chain)?, keys: Some(keys) })
}

/// The signer of an account on EVM or Tron chains.
///
/// # Errors
/// When it is no private key; the text says nothing of it.
pub(super) fn signer(secret: &Secret) -> Result<PrivateKeySigner> {
    // The parser's own error would repeat what it was given.
    secret.expose().parse().ok().context("must be a private key, 0x and 64 hex digits")
}
