//! The JSON-RPC methods of a node.

use std::sync::Arc;

use alloy::{
    consensus::{Transaction, TxEnvelope},
    eips::eip2718::Decodable2718,
    primitives::{Address, B256, Bytes, U64, U256},
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{
    NodeKind, RpcFault, SimChain,
    answer::{self, LogFilter, quantity},
    block::{Block, Signed},
    call::{CallContext, CallRequest},
    mining::index_of,
    node_view::{Named, NodeView},
    vm::{self, BLOCK_GAS},
};

/// The tip that nodes advise, wei per unit of gas.
const TIP: u128 = 1_000_000_000;
/// Blocks of which `eth_feeHistory` tells at most.
const FEE_HISTORY_MAX: u64 = 1_024;

impl SimChain {
    /// The answer of `node` when `method` is called with `params`, a list.
    ///
    /// # Errors
    /// [`RpcFault`], the node's own error answer.
    pub fn rpc(&mut self, node: &NodeKind, method: &str, params: &Value) -> Result<Value, RpcFault> {
        match method {
            "eth_chainId" => Ok(json!(U64::from(self.evm_id()))),
            "net_version" => Ok(json!(self.evm_id().to_string())),
            "web3_clientVersion" => Ok(json!("simulation")),
            "eth_blockNumber" => Ok(json!(U64::from(self.node_view(node).newest()))),
            "eth_getBlockByNumber" => self.get_block(node, params),
            "eth_getBlockByHash" => {
                let hash: B256 = parameter(params, 0)?;
                match self.node_view(node).by_hash(hash) {
                    Some(block) => answer::block(block, full(params)),
                    None => Ok(Value::Null),
                }
            }
            "eth_getLogs" => self.get_logs(node, params),
            "eth_call" => {
                let request = CallRequest::parse(&params[0])?;
                Ok(json!(self.call_context(node, &params[1])?.call(&request)?))
            }
            "eth_estimateGas" => {
                let request = CallRequest::parse(&params[0])?;
                Ok(json!(U64::from(self.call_context(node, &params[1])?.estimate(&request)?)))
            }
            "eth_getTransactionReceipt" => {
                let found = self.node_view(node).mined(parameter(params, 0)?);
                Ok(found.map_or(Value::Null, |(block, index, mined)| answer::receipt(block, index, mined)))
            }
            "eth_getTransactionByHash" => self.get_transaction(node, parameter(params, 0)?),
            "eth_getTransactionCount" => self.get_transaction_count(node, params),
            "eth_getBalance" => {
                let account: Address = parameter(params, 0)?;
                Ok(json!(self.call_context(node, &params[1])?.block.state.account(account).balance))
            }
            "eth_getCode" => {
                let account: Address = parameter(params, 0)?;
                let account = self.call_context(node, &params[1])?.block.state.account(account);
                Ok(json!(account.code.original_bytes()))
            }
            "eth_getStorageAt" => {
                let (account, slot): (Address, U256) = (parameter(params, 0)?, parameter(params, 1)?);
                let stored = self.call_context(node, &params[2])?.block.state.stored(account, slot);
                Ok(json!(B256::from(stored)))
            }
            "eth_gasPrice" => Ok(json!(quantity(TIP + u128::from(self.node_view(node).head().base_fee())))),
            "eth_maxPriorityFeePerGas" => Ok(json!(quantity(TIP))),
            "eth_feeHistory" => self.fee_history(node, params),
            "eth_sendRawTransaction" => {
                let raw: Bytes = parameter(params, 0)?;
                self.send(node, &raw).map(|hash| json!(hash))
            }
            other => Err(RpcFault::method(other)),
        }
    }

    fn get_block(&self, node: &NodeKind, params: &Value) -> Result<Value, RpcFault> {
        let node_view = self.node_view(node);
        match node_view.named(&params[0])? {
            Some(Named::Block(block)) => answer::block(block, full(params)),
            Some(Named::MadeUp(above)) => answer::block(&node_view.made_up(above), false),
            Some(Named::Pending) => {
                let mut next = answer::block(&self.unmade(&node_view), false)?;
                for absent in ["hash", "number", "nonce"] {
                    next[absent] = Value::Null;
                }
                next["number"] = json!(U64::from(node_view.newest() + 1));
                Ok(next)
            }
            None => Ok(Value::Null),
        }
    }

    /// The next block as a node that makes none would show it.
    fn unmade(&self, node_view: &NodeView<'_>) -> Block {
        let head = node_view.head();
        let mut environment = head.environment(self.evm_id());
        environment.number += 1;
        environment.time += 1;
        environment.base_fee = head.next_base_fee();
        Block::seal(Some(head), &environment, Vec::new(), head.state.clone(), Arc::clone(&head.holders))
    }

    /// The state and the block that a request names.
    pub(super) fn call_context<'a>(&'a self, node: &NodeKind, named: &Value) -> Result<CallContext<'a>, RpcFault> {
        let node_view = self.node_view(node);
        let (block, ahead) = match node_view.named(named)?.ok_or_else(|| RpcFault::refused("header not found"))? {
            Named::Block(block) => (block, 0),
            Named::Pending => (node_view.head(), 1),
            Named::MadeUp(above) => (node_view.head(), above),
        };
        let mut environment = block.environment(self.evm_id());
        environment.number += ahead;
        environment.time += ahead;
        Ok(CallContext { node_view, block, environment })
    }

    fn get_logs(&self, node: &NodeKind, params: &Value) -> Result<Value, RpcFault> {
        let node_view = self.node_view(node);
        let filter = &params[0];
        let wanted = LogFilter::parse(filter)?;
        let hash = &filter["blockHash"];
        if !hash.is_null() {
            let Some(Named::Block(block)) = node_view.named(hash)? else {
                return Err(RpcFault::refused("unknown block"));
            };
            return Ok(answer::logs(block, |log| wanted.matches(log)).into());
        }
        let number = |bound: &Value| match node_view.named(bound)? {
            Some(Named::Block(block)) => Ok(block.header.number),
            Some(Named::Pending | Named::MadeUp(_)) | None => Ok(node_view.head().header.number),
        };
        let (from, to) = (number(&filter["fromBlock"])?, number(&filter["toBlock"])?);
        if from > to {
            return Err(RpcFault::parameters("invalid block range params"));
        }
        let blocks = &node_view.branch[index_of(from)..=index_of(to)];
        Ok(blocks.iter().flat_map(|block| answer::logs(block, |log| wanted.matches(log))).collect())
    }

    fn get_transaction(&self, node: &NodeKind, hash: B256) -> Result<Value, RpcFault> {
        let node_view = self.node_view(node);
        if let Some((block, index, mined)) = node_view.mined(hash) {
            return answer::transaction(&mined.transaction, Some((block, index, mined)));
        }
        let waiting = self.pool.get(hash).map(|waiting| &waiting.transaction);
        match waiting.or_else(|| node_view.coming(hash).map(|mined| &mined.transaction)) {
            Some(signed) => answer::transaction(signed, None),
            None => Ok(Value::Null),
        }
    }

    fn get_transaction_count(&self, node: &NodeKind, params: &Value) -> Result<Value, RpcFault> {
        let account: Address = parameter(params, 0)?;
        let context = self.call_context(node, &params[1])?;
        let mut next = context.block.state.account(account).nonce;
        if params[1] == "pending" {
            // To a node that is behind, what is mined since waits.
            let unseen = context.node_view.unseen.last();
            next = unseen.map_or(next, |block| next.max(block.state.account(account).nonce));
            next = self.pool.next_nonce(account, next);
        }
        Ok(json!(U64::from(next)))
    }

    fn fee_history(&self, node: &NodeKind, params: &Value) -> Result<Value, RpcFault> {
        let node_view = self.node_view(node);
        let count = match &params[0] {
            Value::Number(number) => number.as_u64().unwrap_or_default(),
            _ => parameter::<U64>(params, 0)?.to(),
        };
        let newest = match node_view.named(&params[1])? {
            Some(Named::Block(block)) => block,
            _ => node_view.head(),
        };
        let percentiles = params[2].as_array().map_or(0, Vec::len);
        let number = newest.header.number;
        let oldest = (number + 1).saturating_sub(count.clamp(1, FEE_HISTORY_MAX));
        let blocks = &node_view.branch[index_of(oldest)..=index_of(number)];
        let mut fees: Vec<String> = blocks.iter().map(|block| quantity(block.base_fee().into())).collect();
        fees.push(quantity(newest.next_base_fee().into()));
        let mut history = json!({
            "oldestBlock": U64::from(oldest),
            "baseFeePerGas": fees,
            "gasUsedRatio": blocks.iter().map(|block| block.header.gas_used as f64 / BLOCK_GAS as f64).collect::<Vec<_>>(),
        });
        if percentiles > 0 {
            history["reward"] = json!(vec![vec![quantity(TIP); percentiles]; blocks.len()]);
        }
        Ok(history)
    }

    /// Takes a transaction into the pool that all nodes share, if `node` accepts it.
    pub(super) fn send(&mut self, node: &NodeKind, raw: &Bytes) -> Result<B256, RpcFault> {
        let mut bytes = raw.as_ref();
        let envelope = TxEnvelope::decode_2718(&mut bytes).map_err(|error| RpcFault::refused(error.to_string()))?;
        if !bytes.is_empty() {
            return Err(RpcFault::refused("rlp: trailing bytes"));
        }
        // A signature with a high s is another's copy of a good one (EIP-2).
        let low = envelope.signature().normalize_s().is_none();
        let recovered = envelope.signature().recover_address_from_prehash(&envelope.signature_hash());
        let sender = recovered.ok().filter(|_| low).ok_or_else(|| RpcFault::refused("invalid sender"))?;
        let signed = Arc::new(Signed { envelope, sender });
        self.check(&self.node_view(node), &signed)?;
        let hash = signed.hash();
        // What the other nodes see as used already is not passed on.
        if signed.nonce() >= self.head_block().state.account(sender).nonce {
            self.pool.add(signed)?;
        }
        Ok(hash)
    }

    /// The checks of geth's pool, with its words.
    fn check(&self, node_view: &NodeView<'_>, signed: &Signed) -> Result<(), RpcFault> {
        let envelope = &signed.envelope;
        if !(envelope.is_legacy() || envelope.is_eip2930() || envelope.is_eip1559()) {
            return Err(RpcFault::refused("transaction type not supported"));
        }
        if let Some(chain_id) = envelope.chain_id().filter(|chain_id| *chain_id != self.evm_id()) {
            let message = format!("invalid chain id for signer: have {chain_id} want {}", self.evm_id());
            return Err(RpcFault::refused(message));
        }
        if self.pool.get(signed.hash()).is_some() {
            return Err(RpcFault::refused("already known"));
        }
        if envelope.gas_limit() > BLOCK_GAS {
            return Err(RpcFault::refused("exceeds block gas limit"));
        }
        if envelope.max_priority_fee_per_gas().is_some_and(|tip| tip > envelope.max_fee_per_gas()) {
            return Err(RpcFault::refused("max priority fee per gas higher than max fee per gas"));
        }
        let needed = vm::intrinsic_gas(signed);
        if envelope.gas_limit() < needed {
            let message = format!("intrinsic gas too low: gas {}, minimum needed {needed}", envelope.gas_limit());
            return Err(RpcFault::refused(message));
        }
        let account = node_view.head().state.account(signed.sender);
        if signed.nonce() < account.nonce {
            let message = format!("nonce too low: next nonce {}, tx nonce {}", account.nonce, signed.nonce());
            return Err(RpcFault::refused(message));
        }
        if account.balance < signed.cost() {
            let (balance, cost) = (account.balance, signed.cost());
            return Err(RpcFault::refused(format!(
                "insufficient funds for gas * price + value: balance {balance}, tx cost {cost}, overshot {}",
                cost - balance
            )));
        }
        Ok(())
    }
}

fn full(params: &Value) -> bool {
    params[1].as_bool().unwrap_or_default()
}

fn parameter<T: DeserializeOwned>(params: &Value, index: usize) -> Result<T, RpcFault> {
    serde_json::from_value(params[index].clone())
        .map_err(|error| RpcFault::parameters(format!("invalid argument {index}: {error}")))
}
