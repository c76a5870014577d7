//! Prepared transactions: signed and journaled before they are broadcast, and until when each of them may land.

use serde::{Deserialize, Serialize};

use crate::{Account, ChainId, time::Timestamp};

/// A signed transaction, journaled before it is broadcast; recovery broadcasts the same bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TransactionPrepared {
    /// 1 for the first attempt. All versions of one attempt make the same call with the same nonce, so one lands at most; a
    /// transaction without a nonce has no second version.
    pub attempt: u32,
    /// Chain it is for.
    pub chain_id: ChainId,
    /// Account that signed it.
    pub sender: Account,
    /// What ends its time.
    pub validity: Validity,
    /// Its hash.
    pub transaction_hash: String,
    /// Its bytes, hex with 0x.
    pub raw: String,
    /// When it was signed.
    pub prepared_at: Timestamp,
}

/// What ends the time in which a signed transaction may land, in the measure of its chain's family. As JSON it is an object
/// of one member, such as `{"nonce": 7}`.
///
/// Schema 1 had the bare number, under the name `nonce` on every family.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Validity {
    /// EVM: the sender's nonce, which one transaction uses up.
    Nonce(u64),
    /// Solana: the last block height at which it may land.
    LastBlockHeight(u64),
    /// Tron: its expiration, UNIX milliseconds.
    #[serde(rename = "expiration_ms")]
    Expiration(u64),
}

impl Validity {
    /// The nonce of an EVM transaction.
    pub fn nonce(self) -> Option<u64> {
        if let Self::Nonce(nonce) = self { Some(nonce) } else { None }
    }

    /// The last block height of a Solana transaction.
    pub fn last_block_height(self) -> Option<u64> {
        if let Self::LastBlockHeight(height) = self { Some(height) } else { None }
    }

    /// The expiration of a Tron transaction, UNIX milliseconds.
    pub fn expiration_ms(self) -> Option<u64> {
        if let Self::Expiration(milliseconds) = self { Some(milliseconds) } else { None }
    }
}

/// Payload of [`PaymentEvent::PayerTransactionSent`](super::PaymentEvent::PayerTransactionSent).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PayerTransactionSent {
    /// What it is for.
    pub step: PayerStep,
    /// Chain it is for.
    pub chain_id: ChainId,
    /// Its hash, as in the payer's authorization, which has its bytes; on Solana the signature of the gateway's account that pays its fee.
    pub transaction_hash: String,
    /// When a gateway first found that a node has it; of a [`PayerStep::Transfer`] when it was about to be sent.
    pub sent_at: Timestamp,
}

/// What one of the payer's own transactions is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PayerStep {
    /// Gives the escrow its allowance.
    Approval,
    /// Deposits.
    Deposit,
    /// Sends what a stock client of x402 pays to the address of a merchant's offer (ADR 160).
    Transfer,
}

impl PayerStep {
    /// The word in stored events and responses.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Approval => "approval",
            Self::Deposit => "deposit",
            Self::Transfer => "transfer",
        }
    }
}

/// Proof that a prepared transaction can never land.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TransactionAbandoned {
    /// The attempt that is given up.
    pub attempt: u32,
    /// What proves it, for auditors.
    pub evidence: String,
    /// When it was found.
    pub abandoned_at: Timestamp,
}
