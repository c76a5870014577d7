//! What a node answers about accounts.

use data_encoding::BASE64;
use gateway_program::Key;
use serde_json::{Value, json};
use solana_account::ReadableAccount;
use solana_address::Address;

use super::{
    NodeKind, RpcFault, SimCluster,
    block::Block,
    rpc::{base58, contextual, key, keys},
};

/// The cluster's clock.
const CLOCK: Address = Address::from_str_const("SysvarC1ock11111111111111111111111111111111");
/// Owner of the sysvars.
const SYSVARS: Address = Address::from_str_const("Sysvar1111111111111111111111111111111111111");
/// Lamports of the clock's account.
const CLOCK_LAMPORTS: u64 = 1_169_280;
/// Most accounts in one answer.
const ACCOUNTS_MAX: usize = 100;

impl SimCluster {
    pub(super) fn get_balance(&self, node: NodeKind, params: &Value) -> Result<Value, RpcFault> {
        let key = key(&params[0])?;
        let view = self.node_view(node);
        let block = view.context(&params[1])?;
        let lamports = self.runtime.account(&block.state, &key).map_or(0, ReadableAccount::lamports);
        Ok(contextual(block.slot, json!(lamports)))
    }

    pub(super) fn get_account(&self, node: NodeKind, params: &Value) -> Result<Value, RpcFault> {
        let (key, how) = (key(&params[0])?, &params[1]);
        let view = self.node_view(node);
        let block = view.context(how)?;
        Ok(contextual(block.slot, self.account_answer(block, &key, how)?))
    }

    pub(super) fn get_accounts(&self, node: NodeKind, params: &Value) -> Result<Value, RpcFault> {
        let (keys, how) = (keys(&params[0])?, &params[1]);
        if keys.len() > ACCOUNTS_MAX {
            return Err(RpcFault::parameters(format!("Too many inputs provided; max {ACCOUNTS_MAX}")));
        }
        let view = self.node_view(node);
        let block = view.context(how)?;
        let accounts: Result<Value, _> = keys.iter().map(|key| self.account_answer(block, key, how)).collect();
        Ok(contextual(block.slot, accounts?))
    }

    fn account_answer(&self, block: &Block, key: &Key, how: &Value) -> Result<Value, RpcFault> {
        if how["encoding"] != "base64" {
            return Err(RpcFault::parameters("the simulated node encodes accounts as base64 only"));
        }
        let written = |lamports: u64, owner: &Address, executable: bool, data: &[u8]| {
            json!({
                "data": [BASE64.encode(data), "base64"],
                "executable": executable,
                "lamports": lamports,
                "owner": base58(&owner.to_bytes()),
                "rentEpoch": u64::MAX,
                "space": data.len(),
            })
        };
        if *key == CLOCK.to_bytes() {
            return Ok(written(CLOCK_LAMPORTS, &SYSVARS, false, &block.moment().bytes()));
        }
        let account = self.runtime.account(&block.state, key);
        Ok(account.map_or(Value::Null, |account| {
            written(account.lamports(), account.owner(), account.executable(), account.data())
        }))
    }
}
