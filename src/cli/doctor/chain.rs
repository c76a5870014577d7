//! Checks of a chain: node, contracts, tokens, and the accounts that pay.

use std::{sync::Arc, time::Duration};

use anyhow::{Context, Result};
use futures::future::{BoxFuture, join_all};

use chains::{
    config::{AssetConfig, ChainConfig},
    deployment::{Contracts, Deployment, Guardian},
    diagnosis::{Diagnosis, ExaminedChain, Verdict},
};
use chains_evm::deploy::EvmDeployment;
use chains_solana::deploy::{SolanaDeployment, UpgradeAuthority};
use chains_tron::deploy::{Permit2, TronDeployment};
use events::{Account, AssetId};

use super::{Check, now_seconds};

/// An account that sends transactions.
pub(super) struct Sender {
    pub(super) role: &'static str,
    pub(super) account: Account,
    /// Fewer transactions than this are warned of.
    pub(super) least: u64,
}

/// What is looked at on one chain.
pub(super) struct Examination {
    pub(super) chain: ChainConfig,
    pub(super) senders: Vec<Sender>,
    /// What is delivered, and by whom.
    pub(super) holdings: Vec<(AssetId, Account)>,
}

impl Examination {
    /// The chain alone, without anybody's coins.
    pub(super) fn of(chain: ChainConfig) -> Self {
        Self { chain, senders: Vec::new(), holdings: Vec::new() }
    }

    /// One check: what needs the node is not asked where it does not answer.
    pub(super) fn checks(self) -> Vec<Check> {
        let place = self.chain.common().chain_id.to_string();
        vec![Check::new(place, "chain", self.examine())]
    }

    async fn examine(self) -> Vec<Diagnosis> {
        let node = match connected(&self.chain) {
            Ok(node) => node,
            Err(error) => {
                let remedy = "correct what is named in the chain's section";
                return vec![Diagnosis::wrong("node", format!("{error:#}"), remedy)];
            }
        };
        // The first thing that a node is asked is whether it is of the chain.
        let mut found = node.node(now_seconds()).await;
        if found.first().is_none_or(|first| first.verdict == Verdict::Wrong) {
            found.push(Diagnosis::not_checked(
                "contracts, tokens and accounts",
                "no node to ask",
                "first see to the node",
            ));
            return found;
        }
        let Self { chain, senders, holdings } = self;
        let assets = chain.common().assets.clone();
        let mut parts: Vec<BoxFuture<'static, Vec<Diagnosis>>> = vec![Box::pin(contracts(chain))];
        parts.extend(assets.into_iter().map(|asset| token(node.clone(), asset)));
        parts.extend(senders.into_iter().map(|sender| coins(node.clone(), sender)));
        parts.extend(holdings.into_iter().map(|(asset, account)| holding(node.clone(), asset, account)));
        found.extend(join_all(parts).await.into_iter().flatten());
        found
    }
}

/// A connection to look through; nothing is asked yet.
pub(in crate::cli) fn connected(chain: &ChainConfig) -> Result<Arc<dyn ExaminedChain>> {
    Ok(match chain {
        ChainConfig::Evm(chain) => Arc::new(chains_evm::node::Node::connect(chain)?),
        ChainConfig::Solana(chain) => Arc::new(chains_solana::node::Node::connect(chain)?),
        ChainConfig::Tron(chain) => Arc::new(chains_tron::node::Node::connect(chain)?),
    })
}

/// Code and settings of the contracts, as `gw deploy --verify` compares them.
async fn contracts(chain: ChainConfig) -> Vec<Diagnosis> {
    let common = chain.common();
    let (deposit_address_factory, permit2) = match &chain {
        ChainConfig::Tron(tron) => (tron.deposit_address_factory.clone(), tron.permit2.clone()),
        ChainConfig::Evm(_) | ChainConfig::Solana(_) => (None, None),
    };
    let (escrow, proxy) = (common.escrow_contract.clone(), common.fulfillment_proxy.clone());
    let at = Contracts { escrow, proxy, deposit_address_factory, permit2 };
    let compared = async { anyhow::Ok(deployment(&chain)?.verify(&at).await?) };
    match compared.await {
        Ok(findings) => findings.into_iter().map(of_contract).collect(),
        Err(error) => vec![Diagnosis::not_checked("contracts", format!("{error:#}"), "try again, or use another node")],
    }
}

fn of_contract(finding: chains::deployment::Finding) -> Diagnosis {
    let subject = &finding.subject;
    let remedy = match subject.as_str() {
        _ if subject.starts_with("reserver") => {
            "the escrow obeys another key: set `reserver` and its key, or have it changed"
        }
        _ if subject.starts_with("permit2 of") => "set `permit2` of the chain to the one that the escrow was made with",
        "code of Permit2" => {
            "correct `permit2`; where its code is another compilation of the same, name its hash as `permit2_code`"
        }
        "domain of Permit2" | "constructor of Permit2" => {
            "take another one; the escrow keeps the one that it was made with, so `gw deploy` has to make another escrow, too"
        }
        _ if subject.starts_with("cluster") => "correct `signature_cluster_id`",
        _ => "correct the address, or deploy the contracts of this version with `gw deploy`",
    };
    match finding.fault {
        // A reserver that was changed since leads to another address, and so does a deployer of one's own.
        Some(fault) if subject.starts_with("constructor") && fault.contains("another address") => {
            Diagnosis::warning(finding.subject, fault, "ask who deployed the contract, and how")
        }
        fault => Diagnosis::of_finding(chains::deployment::Finding { fault, ..finding }, remedy),
    }
}

fn deployment(chain: &ChainConfig) -> Result<Box<dyn Deployment>> {
    let common = chain.common();
    let timeout = Duration::from_millis(common.rpc_timeout_ms);
    let (chain_id, reserver) = (common.chain_id.clone(), common.reserver.clone());
    let guardian = Guardian::Any;
    Ok(match chain {
        ChainConfig::Evm(evm) => {
            let settings = chains_evm::deploy::Settings { chain_id, reserver, guardian, permit2: evm.permit2.clone() };
            Box::new(EvmDeployment::new(&common.rpc_url, settings, None, timeout)?)
        }
        ChainConfig::Solana(solana) => {
            let settings = chains_solana::deploy::Settings {
                cluster_id: solana.signature_cluster_id.clone(),
                reserver,
                // Whoever it is, where nobody pays.
                upgrade_authority: UpgradeAuthority::Payer,
            };
            Box::new(SolanaDeployment::new(&common.rpc_url, &settings, None, timeout).context("deployment")?)
        }
        ChainConfig::Tron(tron) => {
            let permit2 = Permit2::configured(tron);
            let settings = chains_tron::deploy::Settings { chain_id, reserver, guardian, permit2 };
            let node = tron.nodes().into_iter().next();
            let api_key = node.and_then(|node| node.api_key);
            Box::new(TronDeployment::new(&common.rpc_url, api_key.as_ref(), &settings, None, timeout)?)
        }
    })
}

fn token(node: Arc<dyn ExaminedChain>, asset: AssetConfig) -> BoxFuture<'static, Vec<Diagnosis>> {
    Box::pin(async move { node.token(&asset).await })
}

fn coins(node: Arc<dyn ExaminedChain>, sender: Sender) -> BoxFuture<'static, Vec<Diagnosis>> {
    Box::pin(async move { vec![node.coins(sender.role, &sender.account, sender.least).await] })
}

fn holding(node: Arc<dyn ExaminedChain>, asset: AssetId, account: Account) -> BoxFuture<'static, Vec<Diagnosis>> {
    Box::pin(async move {
        let subject = format!("holding of {account} in {asset}");
        vec![match node.holding(&asset, &account).await {
            Ok(held) if held.is_zero() => {
                let remedy = format!("send of the asset to {account}: without it every request is declined");
                Diagnosis::wrong(subject, "nothing is there to deliver", remedy)
            }
            Ok(held) => Diagnosis::ok(subject, format!("{held} of the smallest unit")),
            Err(fault) => Diagnosis::not_checked(subject, fault, "first see to the node"),
        }]
    })
}

#[cfg(test)]
mod tests {
    use chains::deployment::Finding;

    use super::*;

    #[test]
    fn a_permit2_is_mended_by_what_is_wrong_with_it() {
        for (subject, remedy) in [
            ("permit2 of GatewayEscrow", "set `permit2` of the chain to the one that the escrow was made with"),
            ("code of Permit2", "name its hash as `permit2_code`"),
            ("domain of Permit2", "take another one"),
            ("constructor of Permit2", "take another one"),
            ("code of GatewayEscrow", "with `gw deploy`"),
        ] {
            let Diagnosis { verdict, remedy: found, .. } =
                of_contract(Finding::bad(subject, "is other than it should be"));
            assert_eq!(verdict, Verdict::Wrong, "{subject}");
            assert!(found.as_ref().is_some_and(|found| found.contains(remedy)), "{subject}: {found:?}");
        }
    }
}
