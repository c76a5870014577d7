//! What a thief does with the key of an account: nonces, fees and coins.

use alloy::{
    consensus::{SignableTransaction, TxEip1559, TxEnvelope},
    eips::eip2718::{Decodable2718, Encodable2718},
    primitives::{B256, Bytes, U256},
    signers::{SignerSync, local::PrivateKeySigner},
};
use serde_json::{Value, json};

use super::{EvmWorld, known};
use crate::{
    chain::NodeKind,
    family::{Misuse, secp256k1},
    random::RandomSource,
};

/// Gas of a transfer of coins.
const TRANSFER_GAS: u64 = 21_000;
/// Gas of a byte of what a contract is called with, at the most.
const BYTE_GAS: u64 = 40;
/// Gas for what is behind that, with which nothing of the escrow ends.
const TOO_LITTLE_GAS: u64 = 5_000;
/// Tip of a thief, wei per unit of gas.
const TIP: u128 = 3_000_000_000;

impl EvmWorld {
    pub(super) fn misused(&self, signer: &PrivateKeySigner, way: Misuse, random: &RandomSource) -> Result<(), String> {
        let nothing = || "there is nothing for it".to_owned();
        let own = TxEip1559 { to: signer.address().into(), gas_limit: TRANSFER_GAS, ..TxEip1559::default() };
        let waiting = self.waiting_of(signer);
        let mined = self.lock().nonce(signer.address());
        let mut next = mined;
        while waiting.iter().any(|one| one.nonce == next) {
            next += 1;
        }
        match way {
            Misuse::Spend => self.outbid(signer, &waiting, TxEip1559 { nonce: next, ..own }),
            Misuse::Gap => {
                let nonce = next + random.number(1..=3);
                self.outbid(signer, &waiting, TxEip1559 { nonce, ..own })
            }
            Misuse::Replace => {
                let last = (waiting.len() as u64).checked_sub(1).ok_or_else(nothing)?;
                let one = &waiting[usize::try_from(random.number(0..=last)).unwrap_or_default()];
                let other = match random.chance(500) {
                    true => TxEip1559 { nonce: one.nonce, ..own },
                    false => {
                        let gas_limit = TRANSFER_GAS + BYTE_GAS * one.input.len() as u64 + TOO_LITTLE_GAS;
                        TxEip1559 { gas_limit, ..one.clone() }
                    }
                };
                self.outbid(signer, &waiting, other)
            }
            Misuse::Copy => {
                let calls: Vec<_> = self.waits().into_iter().filter(|waits| waits.is_to_escrow).collect();
                let last = (calls.len() as u64).checked_sub(1).ok_or_else(nothing)?;
                let call = &calls[usize::try_from(random.number(0..=last)).unwrap_or_default()];
                let call = self.raw_of(&call.hash).ok_or_else(nothing)?;
                self.send_data(signer, self.contracts.escrow, U256::ZERO, call.input)
            }
            Misuse::Drain => {
                let base = self.base_fee()?;
                let balance = self.lock().coins(signer.address());
                // What it takes to outbid whatever waits at this nonce.
                let most = waiting.iter().map(|one| one.max_fee_per_gas).max().unwrap_or_default();
                let cost = U256::from(TRANSFER_GAS) * U256::from((base * 2 + TIP).max(most * 5 / 4));
                let value = balance.checked_sub(cost).filter(|value| *value > cost).ok_or_else(nothing)?;
                let to = secp256k1("stranger").address().into();
                self.outbid(signer, &waiting, TxEip1559 { nonce: mined, to, value, ..own })
            }
        }
    }

    /// Signs and sends a transaction at a price at which it takes the place of what waits at its nonce.
    fn outbid(&self, signer: &PrivateKeySigner, waiting: &[TxEip1559], transaction: TxEip1559) -> Result<(), String> {
        let base = self.base_fee()?;
        let (mut max_fee, mut tip) = (base * 2 + TIP, TIP);
        if let Some(one) = waiting.iter().find(|one| one.nonce == transaction.nonce) {
            max_fee = max_fee.max(one.max_fee_per_gas * 5 / 4);
            tip = tip.max(one.max_priority_fee_per_gas * 5 / 4);
        }
        let transaction = TxEip1559 {
            chain_id: self.evm_id,
            max_fee_per_gas: max_fee.max(tip),
            max_priority_fee_per_gas: tip,
            ..transaction
        };
        let signature = signer.sign_hash_sync(&transaction.signature_hash()).map_err(|error| error.to_string())?;
        let raw: Bytes = TxEnvelope::from(transaction.into_signed(signature)).encoded_2718().into();
        let sent = self.lock().rpc(&NodeKind::Honest, "eth_sendRawTransaction", &json!([raw]));
        sent.map(drop).map_err(|fault| fault.to_string())
    }

    /// The transactions of an account that wait.
    fn waiting_of(&self, signer: &PrivateKeySigner) -> Vec<TxEip1559> {
        let sender = known(signer.address());
        let mine = self.waits().into_iter().filter(|waits| waits.sender == sender);
        mine.filter_map(|waits| self.raw_of(&waits.hash)).collect()
    }

    fn raw_of(&self, hash: &str) -> Option<TxEip1559> {
        let raw = self.lock().raw(hash.parse::<B256>().ok()?)?;
        TxEnvelope::decode_2718(&mut raw.as_ref()).ok()?.as_eip1559().map(|signed| signed.tx().clone())
    }

    /// The base fee of the newest block, wei.
    fn base_fee(&self) -> Result<u128, String> {
        let head = self.ask("eth_getBlockByNumber", json!(["latest", false]));
        let digits = head.get("baseFeePerGas").and_then(Value::as_str).unwrap_or_default();
        u128::from_str_radix(digits.trim_start_matches("0x"), 16).map_err(|error| error.to_string())
    }
}
