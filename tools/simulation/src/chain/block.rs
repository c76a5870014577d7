//! Blocks, and what their transactions did.

use std::{collections::BTreeSet, sync::Arc};

use alloy::{
    consensus::{
        EMPTY_OMMER_ROOT_HASH, Eip658Value, Header, Receipt, ReceiptEnvelope, Transaction, TxEnvelope, TxReceipt,
        constants::EMPTY_WITHDRAWALS,
        proofs::{calculate_receipt_root, calculate_transaction_root},
    },
    eips::{eip1559::BaseFeeParams, eip2718::Encodable2718, eip7685::EMPTY_REQUESTS_HASH},
    primitives::{Address, B256, Bloom, Log, TxKind, U256, keccak256},
    rlp::Encodable,
};
use revm::context::{TxEnv, transaction::AccessList};

use super::{
    state::State,
    vm::{BENEFICIARY, BLOCK_GAS, BlockEnvironment},
};

/// A signed transaction with its sender.
#[derive(Debug)]
pub(super) struct Signed {
    pub envelope: TxEnvelope,
    pub sender: Address,
}

impl Signed {
    pub fn hash(&self) -> B256 {
        *self.envelope.tx_hash()
    }

    pub fn nonce(&self) -> u64 {
        self.envelope.nonce()
    }

    /// The most that it may cost, wei.
    pub fn cost(&self) -> U256 {
        let gas = U256::from(self.envelope.gas_limit());
        gas.saturating_mul(U256::from(self.envelope.max_fee_per_gas())).saturating_add(self.envelope.value())
    }

    /// The effective tip per unit of gas, wei; `None` when the base fee is more than it offers.
    pub fn tip(&self, base_fee: u64) -> Option<u128> {
        self.envelope.effective_tip_per_gas(base_fee)
    }

    /// As the EVM takes it.
    pub fn transaction_environment(&self) -> TxEnv {
        let envelope = &self.envelope;
        TxEnv {
            tx_type: envelope.tx_type().into(),
            caller: self.sender,
            gas_limit: envelope.gas_limit(),
            gas_price: envelope.max_fee_per_gas(),
            kind: envelope.kind(),
            value: envelope.value(),
            data: envelope.input().clone(),
            nonce: envelope.nonce(),
            chain_id: envelope.chain_id(),
            access_list: envelope.access_list().cloned().unwrap_or_else(AccessList::default),
            gas_priority_fee: envelope.max_priority_fee_per_gas(),
            ..TxEnv::default()
        }
    }
}

/// A transaction in a block.
#[derive(Debug, Clone)]
pub(super) struct Mined {
    pub transaction: Arc<Signed>,
    pub success: bool,
    pub gas_used: u64,
    pub cumulative_gas_used: u64,
    pub gas_price: u128,
    pub created: Option<Address>,
    pub logs: Vec<Log>,
}

impl Mined {
    fn receipt(&self) -> ReceiptEnvelope {
        let receipt = Receipt {
            status: Eip658Value::Eip658(self.success),
            cumulative_gas_used: self.cumulative_gas_used,
            logs: self.logs.clone(),
        };
        ReceiptEnvelope::from_typed(self.transaction.envelope.tx_type(), receipt.with_bloom())
    }

    /// The filter over its logs.
    pub fn bloom(&self) -> Bloom {
        self.logs.iter().collect()
    }
}

/// A block with the state after it.
#[derive(Debug, Clone)]
pub(super) struct Block {
    pub header: Header,
    pub hash: B256,
    pub transactions: Vec<Mined>,
    pub state: State,
    /// Every account that was ever sent tokens on this branch.
    pub holders: Arc<BTreeSet<Address>>,
}

impl Block {
    /// Seals a block.
    ///
    /// The state root is zero and not a Merkle root: nothing on these chains proves anything against it.
    pub fn seal(
        parent: Option<&Block>,
        environment: &BlockEnvironment,
        transactions: Vec<Mined>,
        state: State,
        holders: Arc<BTreeSet<Address>>,
    ) -> Self {
        let envelopes: Vec<&TxEnvelope> = transactions.iter().map(|mined| &mined.transaction.envelope).collect();
        let receipts: Vec<ReceiptEnvelope> = transactions.iter().map(Mined::receipt).collect();
        let header = Header {
            parent_hash: parent.map(|parent| parent.hash).unwrap_or_default(),
            ommers_hash: EMPTY_OMMER_ROOT_HASH,
            beneficiary: BENEFICIARY,
            transactions_root: calculate_transaction_root(&envelopes),
            receipts_root: calculate_receipt_root(&receipts),
            logs_bloom: receipts.iter().fold(Bloom::ZERO, |bloom, receipt| bloom | receipt.bloom()),
            number: environment.number,
            gas_limit: BLOCK_GAS,
            gas_used: transactions.last().map(|mined| mined.cumulative_gas_used).unwrap_or_default(),
            timestamp: environment.time,
            mix_hash: environment.randao,
            base_fee_per_gas: Some(environment.base_fee),
            withdrawals_root: Some(EMPTY_WITHDRAWALS),
            blob_gas_used: Some(0),
            excess_blob_gas: Some(0),
            parent_beacon_block_root: Some(B256::ZERO),
            requests_hash: Some(EMPTY_REQUESTS_HASH),
            ..Header::default()
        };
        Self { hash: header.hash_slow(), header, transactions, state, holders }
    }

    /// About its length in bytes: header and transactions, without what frames them.
    pub fn size(&self) -> usize {
        let transactions = self.transactions.iter().map(|mined| mined.transaction.envelope.encode_2718_len());
        self.header.length() + transactions.sum::<usize>()
    }

    /// The block in which code runs that is asked for at this one.
    pub fn environment(&self, evm_id: u64) -> BlockEnvironment {
        BlockEnvironment {
            evm_id,
            number: self.header.number,
            time: self.header.timestamp,
            base_fee: self.base_fee(),
            randao: self.header.mix_hash,
        }
    }

    /// The base fee, wei per unit of gas.
    pub fn base_fee(&self) -> u64 {
        self.header.base_fee_per_gas.unwrap_or_default()
    }

    /// The base fee of the block after it (EIP-1559).
    pub fn next_base_fee(&self) -> u64 {
        BaseFeeParams::ethereum().next_block_base_fee(self.header.gas_used, self.header.gas_limit, self.base_fee())
    }
}

/// A value that no two blocks of a run share: `branch` counts the reorganisations.
pub(super) fn randao(parent: B256, branch: u64) -> B256 {
    keccak256([parent.as_slice(), &branch.to_be_bytes()].concat())
}

/// Where a creation by `sender` with `nonce` puts its contract, if `kind` is one.
pub(super) fn created(kind: TxKind, sender: Address, nonce: u64) -> Option<Address> {
    kind.is_create().then(|| sender.create(nonce))
}
