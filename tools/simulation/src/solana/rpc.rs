//! The JSON-RPC methods of a node.

use data_encoding::BASE64;
use serde_json::{Value, json};

use gateway_program::Key;

use super::{
    NodeKind, RpcFault, SimCluster,
    node_view::{Level, NodeView},
};

/// The version that nodes say they are of.
const VERSION: &str = "4.2.2";
/// Blocks of which the prices are told.
const FEE_BLOCKS: usize = 150;

impl SimCluster {
    /// The answer of `node` when `method` is called with `params`, a list.
    ///
    /// # Errors
    /// [`RpcFault`], the node's own error answer.
    pub fn rpc(&mut self, node: NodeKind, method: &str, params: &Value) -> Result<Value, RpcFault> {
        match method {
            "getGenesisHash" => Ok(json!(base58(&self.deployed.genesis.cluster_id))),
            "getHealth" => Ok(json!("ok")),
            "getVersion" => Ok(json!({"solana-core": VERSION, "feature-set": 0})),
            "getSlot" => {
                let (view, how) = (self.node_view(node), &params[0]);
                let block = view.context(how)?;
                Ok(json!(block.slot + ahead(&view, how)?))
            }
            "getBlockHeight" => {
                let (view, how) = (self.node_view(node), &params[0]);
                let block = view.context(how)?;
                Ok(json!(block.height + ahead(&view, how)?))
            }
            "getLatestBlockhash" => {
                let view = self.node_view(node);
                let block = view.context(&params[0])?;
                let last_valid = block.height + self.timing.blockhash_age;
                let value = json!({"blockhash": base58(&block.blockhash), "lastValidBlockHeight": last_valid});
                Ok(contextual(block.slot, value))
            }
            "getRecentPrioritizationFees" => self.recent_fees(node, params),
            "getMinimumBalanceForRentExemption" => {
                let bytes = params[0].as_u64().and_then(|bytes| usize::try_from(bytes).ok());
                let bytes = bytes.ok_or_else(|| RpcFault::parameters("Invalid params: expected a length"))?;
                Ok(json!(self.runtime.base().rent(bytes)))
            }
            "getBalance" => self.get_balance(node, params),
            "getAccountInfo" => self.get_account(node, params),
            "getMultipleAccounts" => self.get_accounts(node, params),
            "getSignatureStatuses" => self.get_statuses(node, params),
            "getTransaction" => self.get_transaction(node, params),
            "getSignaturesForAddress" => self.get_signatures(node, params),
            "getBlock" => self.get_block(node, params),
            "getBlockTime" => self.get_block_time(node, params),
            "simulateTransaction" => self.simulate(node, params),
            "sendTransaction" => self.send(node, params),
            _ => Err(RpcFault::method()),
        }
    }

    /// The least price of each of the last blocks, over all transactions and over those that write to one of the accounts.
    fn recent_fees(&self, node: NodeKind, params: &Value) -> Result<Value, RpcFault> {
        let keys = match &params[0] {
            Value::Null => Vec::new(),
            names => keys(names)?,
        };
        let view = self.node_view(node);
        let blocks = view.history(Level::Processed);
        let recent = &blocks[blocks.len().saturating_sub(FEE_BLOCKS)..];
        let fees = recent.iter().map(|block| {
            let least = |of: Option<&Key>| {
                let signed = block.landed.iter().map(|landed| &landed.signed);
                let writers = signed.filter(|signed| of.is_none_or(|key| signed.writes_to(key)));
                writers.map(|signed| signed.price()).min().unwrap_or_default()
            };
            let fee = keys.iter().map(|key| least(Some(key))).fold(least(None), u64::max);
            json!({"slot": block.slot, "prioritizationFee": fee})
        });
        Ok(fees.collect())
    }
}

/// What a node that makes up slots adds to what it says of its newest ones.
fn ahead(view: &NodeView<'_>, how: &Value) -> Result<u64, RpcFault> {
    Ok(if Level::of(how)? == Level::Finalized { 0 } else { view.ahead })
}

/// Bytes as Base58.
pub(super) fn base58(bytes: &[u8]) -> String {
    bs58::encode(bytes).into_string()
}

/// An answer with the slot that it is of.
pub(super) fn contextual(slot: u64, value: Value) -> Value {
    json!({"context": {"apiVersion": VERSION, "slot": slot}, "value": value})
}

/// The address that a parameter is.
pub(super) fn key(name: &Value) -> Result<Key, RpcFault> {
    let bytes = name.as_str().and_then(|name| bs58::decode(name).into_vec().ok());
    let key = bytes.and_then(|bytes| bytes.try_into().ok());
    key.ok_or_else(|| RpcFault::parameters("Invalid param: Invalid"))
}

/// The addresses that a parameter is a list of.
pub(super) fn keys(names: &Value) -> Result<Vec<Key>, RpcFault> {
    let names = names.as_array().ok_or_else(|| RpcFault::parameters("Invalid params: expected a list"))?;
    names.iter().map(key).collect()
}

/// The signature that a parameter is.
pub(super) fn signature(name: &Value) -> Result<[u8; 64], RpcFault> {
    let bytes = name.as_str().and_then(|name| bs58::decode(name).into_vec().ok());
    let signature = bytes.and_then(|bytes| bytes.try_into().ok());
    signature.ok_or_else(|| RpcFault::parameters("Invalid param: WrongSize"))
}

/// The bytes of a transaction in a parameter, in the encoding that `how` names.
pub(super) fn transaction_bytes(text: &Value, how: &Value) -> Result<Vec<u8>, RpcFault> {
    let text = text.as_str().ok_or_else(|| RpcFault::parameters("Invalid params: expected a transaction"))?;
    match how["encoding"].as_str() {
        Some("base64") => BASE64
            .decode(text.as_bytes())
            .map_err(|error| RpcFault::parameters(format!("invalid base64 encoding: {error:?}"))),
        None | Some("base58") => bs58::decode(text)
            .into_vec()
            .map_err(|error| RpcFault::parameters(format!("invalid base58 encoding: {error:?}"))),
        Some(other) => {
            Err(RpcFault::parameters(format!("unsupported encoding: {other}. Supported encodings: base58, base64")))
        }
    }
}
