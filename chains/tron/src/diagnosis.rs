//! Diagnosis of a Tron chain: its node, its tokens, and what accounts there hold.

use std::time::Duration;

use alloy::{
    primitives::{Address, U256},
    sol,
    sol_types::SolCall,
};
use async_trait::async_trait;
use tokio::time::{sleep, timeout};

use chains::{
    config::AssetConfig,
    diagnosis::{self, Diagnosis, ExaminedChain, Verdict},
};
use events::{Account, AssetId};
use sagas::ports::Transient;

use super::{
    address::{address, token_or_coin, trc20},
    cost::RESERVATION_ENERGY,
    node::{Answer, Block, Node, State},
};

sol! {
    interface IToken {
        function decimals() external view returns (uint8);
        function symbol() external view returns (string);
        function balanceOf(address holder) external view returns (uint256);
    }
}

/// How long a new block is waited for: five times the network's own pause.
const NEW_BLOCK_MAX: Duration = Duration::from_secs(15);
const LOOK_EVERY: Duration = Duration::from_millis(500);

#[async_trait]
impl ExaminedChain for Node {
    async fn node(&self, now_seconds: u64) -> Vec<Diagnosis> {
        let mut found = diagnosis::nodes(self.chain_id(), &self.node_reports().await);
        if found.first().is_none_or(|first| first.verdict == Verdict::Wrong) {
            return found;
        }
        let head = match self.head().await {
            Ok(head) => head,
            Err(fault) => {
                found.push(Diagnosis::wrong("newest block", fault, "use another node"));
                return found;
            }
        };
        found.push(diagnosis::head_age("newest block", head.time_ms / 1_000, now_seconds));
        let (moves, settled, infos) =
            tokio::join!(self.moves(head), self.settled(), self.infos_of(head.number, State::Newest));
        found.push(moves);
        found.push(match settled {
            Ok(settled) => {
                let behind = head.number.saturating_sub(settled.number);
                Diagnosis::ok(
                    "required depth",
                    format!("block {} is solidified, {behind} below the newest", settled.number),
                )
            }
            Err(fault) => Diagnosis::wrong(
                "required depth",
                fault,
                "use a node that serves `/walletsolidity` at the same address",
            ),
        });
        found.push(match infos {
            Ok(_) => Diagnosis::ok("logs of a block", "are given"),
            Err(fault) => Diagnosis::wrong(
                "logs of a block",
                fault,
                "use a node that offers `gettransactioninfobyblocknum`: without it no deposit and no delivery is found",
            ),
        });
        found
    }

    async fn token(&self, asset: &AssetConfig) -> Vec<Diagnosis> {
        let Ok(contract) = trc20(&asset.asset_identifier) else { return Vec::new() };
        let subject = format!("{} ({})", asset.symbol, asset.asset_identifier.reference());
        let code = async { Ok::<_, Transient>(self.nodes().contract_code(contract).await?) };
        match code.await {
            Err(fault) => return vec![Diagnosis::not_checked(subject, fault, "first see to the node")],
            Ok(None) => {
                let remedy = "compare the asset's address with its issuer's documents";
                return vec![Diagnosis::wrong(subject, "there is no contract at this address", remedy)];
            }
            Ok(Some(_)) => {}
        }
        let (decimals, symbol) =
            tokio::join!(self.said(contract, &IToken::decimalsCall {}), self.said(contract, &IToken::symbolCall {}));
        let mut found = diagnosis::token(&subject, (decimals, symbol.as_deref()), (asset.decimals, &asset.symbol));
        if asset.wraps.is_some() {
            found.push(self.wraps(&subject, contract).await);
        }
        found
    }

    async fn coins(&self, role: &str, account: &Account, least: u64) -> Diagnosis {
        let subject = format!("coins of {role} {account}");
        let read = async {
            let account = address(account)?;
            tokio::try_join!(self.resources(account), self.prices())
        };
        match read.await {
            Ok((resources, prices)) => {
                // Staked energy comes again; it counts as if it were bought.
                let staked = u128::from(resources.energy).saturating_mul(prices.energy_sun.into());
                let balance = u128::from(resources.balance_sun).saturating_add(staked);
                let each = u128::from(RESERVATION_ENERGY).saturating_mul(prices.energy_sun.into());
                diagnosis::balance(&subject, balance, each, least, account.as_str())
            }
            Err(fault) => Diagnosis::not_checked(subject, fault, "first see to the node"),
        }
    }

    async fn holding(&self, asset: &AssetId, account: &Account) -> Result<U256, Transient> {
        let holder = address(account)?;
        match token_or_coin(asset)? {
            Address::ZERO => Ok(U256::from(self.balance(holder).await?)),
            token => match self.call(None, token, &IToken::balanceOfCall { holder }, State::Newest).await? {
                Answer::Returned { value, .. } => Ok(value),
                Answer::Reverted { reason, .. } => Err(Transient::contradiction(format!("balanceOf: {reason}"))),
            },
        }
    }
}

impl Node {
    async fn moves(&self, from: Block) -> Diagnosis {
        let subject = "new blocks";
        let next = async {
            loop {
                sleep(LOOK_EVERY).await;
                if let Ok(head) = self.head().await
                    && head.number > from.number
                {
                    return head.number;
                }
            }
        };
        match timeout(NEW_BLOCK_MAX, next).await {
            Ok(number) => Diagnosis::ok(subject, format!("block {number} followed {}", from.number)),
            Err(_) => Diagnosis::warning(
                subject,
                format!("none followed {} within {} s", from.number, NEW_BLOCK_MAX.as_secs()),
                "compare with a public explorer: the node has lost its peers, or the chain stands still",
            ),
        }
    }

    /// What a token says of itself; nothing where it does not.
    async fn said<C: SolCall>(&self, contract: Address, call: &C) -> Option<C::Return> {
        match self.call(None, contract, call, State::Newest).await {
            Ok(Answer::Returned { value, .. }) => Some(value),
            Ok(Answer::Reverted { .. }) | Err(_) => None,
        }
    }

    async fn wraps(&self, subject: &str, contract: Address) -> Diagnosis {
        sol! { function deposit() external payable; }
        let subject = format!("wrapping of {subject}");
        let remedy = "take `wraps` away, or name the wrapped coin: payers would be shown a call that fails";
        match self.trial(Address::with_last_byte(1), contract, depositCall {}.abi_encode(), 0).await {
            Ok(Answer::Returned { .. }) => Diagnosis::ok(subject, "`deposit()` is there"),
            Ok(Answer::Reverted { reason, .. }) => {
                Diagnosis::wrong(subject, format!("`deposit()` is refused: {reason}"), remedy)
            }
            Err(fault) => Diagnosis::not_checked(subject, fault, "first see to the node"),
        }
    }
}
