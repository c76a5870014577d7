//! EVM chains: allowances for Permit2, the escrow's record, and transactions of one's own.

use std::time::Duration;

use alloy::{
    consensus::{SignableTransaction, TxEip1559, TxEnvelope},
    eips::eip2718::Encodable2718,
    primitives::{Address, B256, Bytes, U64, U256},
    sol_types::SolCall,
};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use chains::config::ChainConfig;
use chains_evm::{batching::Views, escrows::Escrows, mandates, node::Node};
use escrow_abi::{
    contracts::{self, DevToken as Erc20, GatewayEscrow, address},
    mandates::Mandates,
};
use events::{Account, Amount, AssetId, ChainId, OwnedAsset, PaymentId};
use signer::Hash;

use super::{
    Look, Trial, config, fault,
    json_rpc::{Answered, JsonRpc},
    solidity, unusable, within,
};
use crate::{
    deposit_address::Checked,
    error::Error,
    key::{Key, sign_secp256k1},
    mandate_order::WalletCall,
};

const UNIT: &str = "wei";
/// The base fee may double once until the transaction is mined; what is not needed is not paid (EIP-1559).
const BASE_FEE_HEADROOM: u128 = 2;
/// Where the node has no opinion, in wei.
const PRIORITY_FEE_DEFAULT: u128 = 1_000_000_000;
/// How long a transaction is waited for.
const WAIT_MAX: Duration = Duration::from_secs(180);
const POLL: Duration = Duration::from_millis(500);

/// A chain.
pub(super) struct Evm {
    node: Node,
    views: Views,
    rpc: JsonRpc,
    evm_id: u64,
    escrow: Address,
}

impl std::fmt::Debug for Evm {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Evm").field(&self.evm_id).finish()
    }
}

/// A call that is to be sent.
struct Call {
    what: &'static str,
    to: Address,
    data: Vec<u8>,
}

/// Gas and fees of a call, as the node says them.
#[derive(Debug, Clone, Copy)]
struct Cost {
    gas: u64,
    fee: u128,
    priority: u128,
}

impl Cost {
    /// Wei that it takes at most.
    fn most(self) -> U256 {
        U256::from(self.gas).saturating_mul(U256::from(self.fee))
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Header {
    base_fee_per_gas: Option<U256>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Receipt {
    transaction_hash: B256,
    block_number: Option<U64>,
    status: Option<U64>,
}

/// The call that ends a mandate. It may have been kept elsewhere, so nothing else is sent in its place.
fn ending(call: &WalletCall) -> Result<Call, Error> {
    let to = address(&call.to).map_err(unusable)?;
    let data = call.data.strip_prefix("0x").and_then(|digits| hex::decode(digits).ok()).unwrap_or_default();
    let is_end = to == mandates::contract() && data.starts_with(&Mandates::cancelCall::SELECTOR);
    match is_end {
        true => Ok(Call { what: "the end of the mandate", to, data }),
        false => Err(unusable("the call ends no mandate")),
    }
}

impl Evm {
    pub(super) fn connect(id: &ChainId, url: &str, escrow: &Account, permit2: Option<&Account>) -> Result<Self, Error> {
        let mut besides = vec![("required_depth", json!(0))];
        besides.extend(permit2.map(|permit2| ("permit2", json!(permit2.as_str()))));
        let ChainConfig::Evm(config) = config(id, url, escrow, &besides)? else {
            return Err(unusable(format!("{id} is not an EVM chain")));
        };
        let evm_id = id.evm_id().ok_or_else(|| unusable(format!("{id} has no number")))?;
        let node = Node::connect(&config).map_err(unusable)?;
        let escrow = address(escrow).map_err(unusable)?;
        Ok(Self { views: Views::new(node.clone()), node, rpc: JsonRpc::new(url)?, evm_id, escrow })
    }

    pub(super) async fn allowance(&self, source: &OwnedAsset, spender: &Account) -> Result<U256, Error> {
        let token = contracts::erc20(source.asset()).map_err(unusable)?;
        let (owner, spender) = (address(source.account()).map_err(unusable)?, address(spender).map_err(unusable)?);
        self.views.read(token, &Erc20::allowanceCall { owner, spender }).await.map_err(fault)
    }

    pub(super) async fn approve(
        &self,
        source: &OwnedAsset,
        spender: &Account,
        amount: Amount,
        key: &Key,
        fee_max: U256,
    ) -> Result<Vec<String>, Error> {
        let token = contracts::erc20(source.asset()).map_err(unusable)?;
        let stands = self.allowance(source, spender).await?;
        let spender = address(spender).map_err(unusable)?;
        // A token like Tether refuses a new allowance while another one stands.
        let steps: &[U256] = if stands.is_zero() { &[amount.get()] } else { &[U256::ZERO, amount.get()] };
        let mut sent = Vec::new();
        for value in steps {
            let data = Erc20::approveCall { spender, value: *value }.abi_encode();
            sent.push(self.send(Call { what: "the approval", to: token, data }, key, fee_max).await?);
        }
        Ok(sent)
    }

    pub(super) async fn balance(&self, held: &OwnedAsset) -> Result<U256, Error> {
        let token = contracts::erc20(held.asset()).map_err(unusable)?;
        let account = address(held.account()).map_err(unusable)?;
        self.views.read(token, &Erc20::balanceOfCall { account }).await.map_err(fault)
    }

    pub(super) async fn transfer(
        &self,
        to: &OwnedAsset,
        amount: Amount,
        key: &Key,
        fee_max: U256,
    ) -> Result<String, Error> {
        let token = contracts::erc20(to.asset()).map_err(unusable)?;
        let to = address(to.account()).map_err(unusable)?;
        let data = Erc20::transferCall { to, value: amount.get() }.abi_encode();
        self.send(Call { what: "the transfer", to: token, data }, key, fee_max).await
    }

    pub(super) async fn give_back(
        &self,
        address: &Checked,
        token: Option<&AssetId>,
        key: &Key,
        fee_max: U256,
    ) -> Result<String, Error> {
        let (to, data) = address.give_back(token)?;
        self.send(Call { what: "the return", to, data }, key, fee_max).await
    }

    pub(super) async fn end_mandate(&self, call: &WalletCall, key: &Key, fee_max: U256) -> Result<String, Error> {
        self.send(ending(call)?, key, fee_max).await
    }

    pub(super) async fn look(&self, payment_id: &PaymentId) -> Result<Look, Error> {
        let head = self.node.head().await.map_err(fault)?;
        let record = Escrows::of(&self.node).record(payment_id, self.escrow, head).await.map_err(fault)?;
        Ok(Look { record, time: head.time })
    }

    async fn refunding(&self, payment_id: &PaymentId) -> Result<Call, Error> {
        let terms = Escrows::of(&self.node).callable(payment_id, self.escrow).await.map_err(fault)?;
        Ok(Call { what: "the refund", to: self.escrow, data: solidity::refund(terms) })
    }

    pub(super) async fn try_refund(&self, payment_id: &PaymentId, from: &Account) -> Result<Trial, Error> {
        let call = self.refunding(payment_id).await?;
        let cost = self.cost(&call, address(from).map_err(unusable)?).await?;
        Ok(Trial { cost_max: cost.most().to_string() })
    }

    pub(super) async fn refund(&self, payment_id: &PaymentId, key: &Key, fee_max: U256) -> Result<String, Error> {
        let call = self.refunding(payment_id).await?;
        self.send(call, key, fee_max).await
    }

    pub(super) async fn claimable(&self, owner: &Account, asset: &AssetId) -> Result<U256, Error> {
        let (owner, token) = (address(owner).map_err(unusable)?, contracts::erc20(asset).map_err(unusable)?);
        self.views.read(self.escrow, &GatewayEscrow::claimableCall { owner, token }).await.map_err(fault)
    }

    pub(super) async fn claim_for(
        &self,
        owner: &Account,
        asset: &AssetId,
        key: &Key,
        fee_max: U256,
    ) -> Result<String, Error> {
        let (owner, token) = (address(owner).map_err(unusable)?, contracts::erc20(asset).map_err(unusable)?);
        let call = Call { what: "the claim", to: self.escrow, data: solidity::claim_for(owner, token) };
        self.send(call, key, fee_max).await
    }

    /// What a call takes, once the chain does not refuse it.
    async fn cost(&self, call: &Call, from: Address) -> Result<Cost, Error> {
        let parameter = json!({"from": from, "to": call.to, "data": Bytes::from(call.data.clone())});
        let gas: U64 = match self.rpc.ask("eth_estimateGas", json!([parameter])).await? {
            Answered::Result(gas) => gas,
            Answered::Refused(refusal) => {
                let data = refusal.data.map_or_else(String::new, |data| format!(" ({data})"));
                return Err(Error::Reverted(format!("{}: {}{data}", call.what, refusal.message)));
            }
        };
        let head: Header = self.rpc.call("eth_getBlockByNumber", json!(["latest", false])).await?;
        let base = head.base_fee_per_gas.ok_or_else(|| fault("the chain has no base fee (EIP-1559)"))?;
        let base = u128::try_from(base).map_err(|_| fault("a base fee above 128 bits"))?;
        let priority = match self.rpc.ask::<U256>("eth_maxPriorityFeePerGas", json!([])).await? {
            Answered::Result(fee) => u128::try_from(fee).map_err(|_| fault("a priority fee above 128 bits"))?,
            Answered::Refused(_) => PRIORITY_FEE_DEFAULT,
        };
        let gas = gas.to::<u64>();
        Ok(Cost {
            gas: gas.saturating_add(gas / 4),
            fee: base.saturating_mul(BASE_FEE_HEADROOM).saturating_add(priority),
            priority,
        })
    }

    /// Sends a call in a transaction for this chain, and waits until it is in a block and had its effect.
    async fn send(&self, call: Call, key: &Key, fee_max: U256) -> Result<String, Error> {
        let from = key.address()?;
        let evm_id: U64 = self.rpc.call("eth_chainId", json!([])).await?;
        if evm_id.to::<u64>() != self.evm_id {
            return Err(Error::Invalid(format!("the node is of eip155:{evm_id}, not of eip155:{}", self.evm_id)));
        }
        let cost = self.cost(&call, from).await?;
        within(call.what, cost.most(), fee_max, UNIT)?;
        let nonce: U64 = self.rpc.call("eth_getTransactionCount", json!([from, "pending"])).await?;
        let transaction = TxEip1559 {
            chain_id: self.evm_id,
            nonce: nonce.to(),
            gas_limit: cost.gas,
            max_fee_per_gas: cost.fee,
            max_priority_fee_per_gas: cost.priority,
            to: call.to.into(),
            input: call.data.into(),
            ..TxEip1559::default()
        };
        let signature = sign_secp256k1(key, Hash::Keccak256, &transaction.encoded_for_signing()).await?;
        let envelope = TxEnvelope::from(transaction.into_signed(signature));
        let (hash, raw) = (*envelope.tx_hash(), Bytes::from(envelope.encoded_2718()));
        // A refusal may be that of a node that has it already, so the chain is what is asked.
        let sent = self.rpc.ask::<Value>("eth_sendRawTransaction", json!([raw])).await;
        let until = Instant::now() + WAIT_MAX;
        let told = match sent {
            Ok(Answered::Refused(refusal)) => refusal.message,
            Ok(Answered::Result(_)) => String::new(),
            Err(error) => error.to_string(),
        };
        loop {
            let receipt = self.rpc.call::<Option<Receipt>>("eth_getTransactionReceipt", json!([hash])).await;
            if let Ok(Some(receipt)) = receipt
                && receipt.transaction_hash == hash
                && receipt.block_number.is_some()
            {
                return match receipt.status {
                    Some(status) if status.to::<u64>() == 1 => Ok(hash.to_string()),
                    _ => Err(Error::Reverted(format!("{} {hash} had no effect but its fee", call.what))),
                };
            }
            if Instant::now() >= until || (!told.is_empty() && !self.is_known(hash).await) {
                let rest = if told.is_empty() { String::new() } else { format!(": {told}") };
                return Err(fault(format!("{} {hash} is in no block{rest}", call.what)));
            }
            sleep(POLL).await;
        }
    }

    /// Whether the node has the transaction, mined or not.
    async fn is_known(&self, hash: B256) -> bool {
        let known = self.rpc.call::<Option<Value>>("eth_getTransactionByHash", json!([hash])).await;
        known.is_ok_and(|known| known.is_some())
    }
}
