//! The chains that a gateway is connected to, of every family: the registry for the engine, and what else of them is needed.

use std::{collections::BTreeMap, sync::Arc};

use anyhow::Result;

use app::{
    authorization::{
        Authorizer,
        evm::EvmAuthorizer,
        registry::Authorizers,
        solana::{Approvals, SolanaAuthorizer},
        tron::TronAuthorizer,
    },
    funds::{EvmFunds, Funds, SolanaFunds, TronFunds},
    sessions::{ContractAccounts, EvmContractAccounts},
};
use chains::{
    config::{ChainConfig, EvmConfig, SolanaConfig, TronConfig},
    readiness::{ChainsReadiness, ReadinessProbe},
    registry::ChainRegistry,
    vitals::Vitals,
};
use chains_evm::adapter::EvmChain;
use chains_solana::{adapter::SolanaChain, authorization::ClusterId};
use chains_tron::adapter::TronChain;
use config::{GatewayChain, GatewayConfig};
use events::Family;
use journal_jetstream::{budget::NatsBudgets, ledger::NatsLedger};
use sagas::ports::Clock;

use crate::signers::{self, ChainKeys};

/// What each part of a gateway needs of its chains.
pub(super) struct ConnectedChains {
    /// The engine's port.
    pub chains: Arc<ChainRegistry>,
    /// Each of them, as it is measured.
    pub vitals: Vec<Arc<dyn Vitals>>,
    /// The EVM chains, whose submitters are maintained.
    pub evm: Vec<Arc<EvmChain>>,
    /// What checks payers' signatures.
    pub authorizer: Arc<dyn Authorizer>,
    /// What asks accounts that are contracts whether they signed.
    pub contracts: Arc<dyn ContractAccounts>,
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
        let mut vitals: Vec<Arc<dyn Vitals>> = Vec::new();
        for (node, keys) in evm {
            let chain = EvmChain::new(node, Some(keys), ledger.clone(), budgets.clone(), clock.clone())?;
            let chain = Arc::new(chain);
            chains = chains.with(chain.clone())?;
            vitals.push(chain.clone());
            evm_chains.push(chain);
        }
        let solana_nodes: Vec<_> = solana.iter().map(|(node, _)| node.clone()).collect();
        let with_fee_payers: Vec<_> =
            solana.iter().map(|(node, keys)| (node.clone(), keys.submitter_accounts())).collect();
        for (node, keys) in solana {
            let chain = Arc::new(SolanaChain::new(node, Some(keys), clock.clone())?);
            chains = chains.with(chain.clone())?;
            vitals.push(chain);
        }

        let openers = tron.iter().map(|(node, keys)| anyhow::Ok((node.clone(), keys.reservers(node)?)));
        let tron_authorizer = TronAuthorizer::new(openers.collect::<Result<Vec<_>>>()?);
        let tron_nodes: Vec<_> = tron.iter().map(|(node, _)| node.clone()).collect();
        for (node, keys) in tron {
            let chain = Arc::new(TronChain::new(node, Some(keys), clock.clone())?);
            chains = chains.with(chain.clone())?;
            vitals.push(chain);
        }

        let clusters = solana_nodes.iter().map(|node| {
            let approvals: Arc<dyn Approvals> = Arc::new(node.clone());
            (node.chain_id().clone(), ClusterId::from(node.cluster_id()), approvals)
        });
        let evm_authorizer: (Family, Arc<dyn Authorizer>) =
            (Family::Evm, Arc::new(EvmAuthorizer::new(evm_nodes.clone(), budgets, clock.clone())));
        let evm_funds: (Family, Arc<dyn Funds>) = (Family::Evm, Arc::new(EvmFunds::new(evm_nodes.clone())));
        let contracts = Arc::new(EvmContractAccounts::new(evm_nodes));
        Ok(Self {
            chains: Arc::new(chains),
            vitals,
            evm: evm_chains,
            probes,
            readiness,
            contracts,
            authorizer: Arc::new(Authorizers::new([
                evm_authorizer,
                (Family::Solana, Arc::new(SolanaAuthorizer::new(clusters).with_addresses(with_fee_payers))),
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
    let ChainKeys { reserver, draining_reservers, submitters, exit_submitters, draining_submitters } =
        signers::of_chain(served)?;
    let keys =
        chains_evm::adapter::Keys { reserver, draining_reservers, submitters, exit_submitters, draining_submitters };
    Ok((chains_evm::node::Node::connect(chain)?, keys))
}

fn solana_chain(
    chain: &SolanaConfig,
    served: &GatewayChain,
) -> Result<(chains_solana::node::Node, chains_solana::adapter::Keys)> {
    let ChainKeys { reserver, draining_reservers, submitters, exit_submitters, .. } = signers::of_chain(served)?;
    let keys = chains_solana::adapter::Keys { reserver, draining_reservers, submitters, exit_submitters };
    Ok((chains_solana::node::Node::connect(chain)?, keys))
}

fn tron_chain(
    chain: &TronConfig,
    served: &GatewayChain,
) -> Result<(chains_tron::node::Node, chains_tron::adapter::Keys)> {
    let ChainKeys { reserver, draining_reservers, submitters, exit_submitters, .. } = signers::of_chain(served)?;
    let keys = chains_tron::adapter::Keys { reserver, draining_reservers, submitters, exit_submitters };
    Ok((chains_tron::node::Node::connect(chain)?, keys))
}
