//! Diagnosis of an EVM chain: its node, its tokens, and what accounts there hold.

use std::time::Duration;

use alloy::{
    primitives::{Address, U64, U256},
    sol,
};
use async_trait::async_trait;
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use chains::{
    config::{AssetConfig, Depth},
    diagnosis::{self, Diagnosis, ExaminedChain, Verdict},
};
use escrow_abi::contracts::{address, erc20, token_or_coin};
use events::{Account, AssetId};
use sagas::ports::Transient;

use super::{
    calls::{CallError, Calls},
    node::{At, BlockRef, Node},
    query::Query,
    rpc::Fault,
    submitters::DEPOSIT_GAS,
    wrapping,
};

sol! {
    interface IToken {
        function decimals() external view returns (uint8);
        function symbol() external view returns (string);
        function balanceOf(address holder) external view returns (uint256);
    }
}

/// How long a new block is waited for.
const NEW_BLOCK_MAX: Duration = Duration::from_secs(15);
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Ranges of blocks that are asked for logs, growing to what a search takes at once. Less than the first, and a gateway cannot look
/// again at the newest blocks.
const RANGES: [u64; 4] = [32, 100, 500, 2_000];

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
        found.push(diagnosis::head_age("newest block", head.time, now_seconds));
        let (moves, depth, logs) = tokio::join!(self.moves(head), self.depth(head), self.log_range(head));
        found.extend([moves, depth, logs]);
        found.extend(diagnosis::head_feed(self.head_feed()).await);
        found
    }

    async fn token(&self, asset: &AssetConfig) -> Vec<Diagnosis> {
        let Ok(contract) = erc20(&asset.asset_identifier) else { return Vec::new() };
        let subject = format!("{} ({})", asset.symbol, asset.asset_identifier.reference());
        let head = match self.head().await {
            Ok(head) => At::Block(head),
            Err(fault) => return vec![Diagnosis::not_checked(subject, fault, "first see to the node")],
        };
        let (calls, query) = (Calls::of(self), Query::of(self));
        let (is_there, decimals, symbol) = tokio::join!(
            query.code(contract, head),
            calls.view(contract, &IToken::decimalsCall {}, head),
            calls.view(contract, &IToken::symbolCall {}, head)
        );
        match is_there {
            Err(fault) => return vec![Diagnosis::not_checked(subject, fault, "first see to the node")],
            Ok(code) if code.is_empty() => {
                let remedy = "compare the asset's address with its issuer's documents";
                return vec![Diagnosis::wrong(subject, "there is no contract at this address", remedy)];
            }
            Ok(_) => {}
        }
        let (decimals, symbol) = (decimals.ok().flatten(), symbol.ok().flatten());
        let mut found = diagnosis::token(&subject, (decimals, symbol.as_deref()), (asset.decimals, &asset.symbol));
        if asset.wraps.is_some() {
            found.push(self.wraps(&subject, &asset.asset_identifier, head).await);
        }
        found
    }

    async fn coins(&self, role: &str, account: &Account, least: u64) -> Diagnosis {
        let subject = format!("coins of {role} {account}");
        let read = async {
            let head = At::Block(self.head().await?);
            let query = Query::of(self);
            let (balance, fees) = tokio::try_join!(query.balance(address(account)?, head), query.fees())?;
            Ok::<_, Transient>((balance, fees))
        };
        match read.await {
            Ok((balance, fees)) => {
                let balance = u128::try_from(balance).unwrap_or(u128::MAX);
                let each = fees.max.saturating_mul(u128::from(DEPOSIT_GAS));
                diagnosis::balance(&subject, balance, each, least, account.as_str())
            }
            Err(fault) => Diagnosis::not_checked(subject, fault, "first see to the node"),
        }
    }

    async fn holding(&self, asset: &AssetId, account: &Account) -> Result<U256, Transient> {
        let (head, holder) = (At::Block(self.head().await?), address(account)?);
        match token_or_coin(asset)? {
            Address::ZERO => Query::of(self).balance(holder, head).await,
            token => {
                let held = Calls::of(self).view(token, &IToken::balanceOfCall { holder }, head).await?;
                held.ok_or_else(|| Transient::misconfigured(format!("there is no contract at {token}")))
            }
        }
    }
}

impl Node {
    async fn moves(&self, from: BlockRef) -> Diagnosis {
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

    /// Whether the node knows a block of the depth that is required.
    async fn depth(&self, head: BlockRef) -> Diagnosis {
        let (subject, remedy) = ("required depth", "set `required_depth` to a number of blocks, or use another node");
        let found = match self.config().common.required_depth {
            Depth::Finalized => self.header(json!("finalized")).await.map(|block| block.map(|(block, _)| block)),
            Depth::Confirmations(blocks) => self.block(head.number.saturating_sub(blocks)).await,
        };
        match found {
            Ok(Some(block)) => {
                let behind = head.number.saturating_sub(block.number);
                Diagnosis::ok(subject, format!("block {} has it, {behind} below the newest", block.number))
            }
            Ok(None) => Diagnosis::wrong(subject, "the node knows no block that has it", remedy),
            Err(fault) => Diagnosis::wrong(subject, fault, remedy),
        }
    }

    /// How many blocks the node gives the logs of at once.
    async fn log_range(&self, head: BlockRef) -> Diagnosis {
        let subject = "range of logs";
        let (mut given, mut refusal) = (None, None);
        let contract = address(&self.config().common.escrow_contract).unwrap_or_default();
        for blocks in RANGES {
            let from = head.number.saturating_sub(blocks - 1);
            let filter = json!({"fromBlock": U64::from(from), "toBlock": U64::from(head.number), "address": contract});
            match self.request::<_, Vec<Value>>("eth_getLogs", (filter,)).await {
                Ok(_) => given = Some(blocks),
                Err(fault) => {
                    refusal = Some(Fault::into(fault));
                    break;
                }
            }
        }
        let refusal: Option<Transient> = refusal;
        match (given, refusal) {
            (Some(blocks), None) => {
                Diagnosis::ok(subject, format!("{blocks} blocks at once, as many as are asked for"))
            }
            (Some(blocks), Some(fault)) => Diagnosis::warning(
                subject,
                format!("{blocks} blocks at once, and no more: {fault}"),
                "searches are cut into small portions and take many requests: see that the provider's rate allows it",
            ),
            (None, fault) => Diagnosis::wrong(
                subject,
                fault.map(|fault| fault.to_string()).unwrap_or_default(),
                "use a node that gives the logs of 32 blocks at least: without them no deposit and no delivery is found",
            ),
        }
    }

    async fn wraps(&self, subject: &str, asset: &AssetId, head: At) -> Diagnosis {
        let subject = format!("wrapping of {subject}");
        let remedy = "take `wraps` away, or name the wrapped coin: payers would be shown a call that fails";
        let Some(nothing) = events::Amount::new(U256::from(1)) else { return Diagnosis::ok(subject, "") };
        let call = match wrapping::wrap(asset, nothing) {
            Ok(call) => call,
            Err(error) => return Diagnosis::wrong(subject, error, remedy),
        };
        // Without coins, which the account that is asked in the name of need not have. Tokens give nothing to the zero address.
        let call = crate::transaction::plain(Address::with_last_byte(1), call.to, call.data.to_vec());
        match Calls::of(self).call_foreign(&call, head, self.config().gas.call_max).await {
            Ok(_) => Diagnosis::ok(subject, "`deposit()` is there"),
            Err(CallError::Reverted(revert)) => {
                Diagnosis::wrong(subject, format!("`deposit()` is refused: {}", revert.reason), remedy)
            }
            Err(CallError::Transient(fault)) => Diagnosis::not_checked(subject, fault, "first see to the node"),
        }
    }
}
