//! Transactions of the world's own: of parties that are not the gateway.

use alloy::{
    primitives::{Address, B256},
    signers::local::PrivateKeySigner,
};

use chains_tron::{
    node::Block,
    transaction::{Call, Draft, Reference},
};
use trondev::{BlockRef, SUN_PER_TRX, Transaction};

use super::chain::{SimTron, TronError};

/// What the energy of such a transaction may cost, in sun.
const FEE_LIMIT_SUN: u64 = 1_000 * SUN_PER_TRX;
/// How long such a transaction may wait, in milliseconds.
const VALID_MS: u64 = 60_000;

/// A block as the adapter has it, as far as transactions name it.
pub(super) fn named(block: BlockRef) -> Block {
    Block { number: block.number, id: B256::from(block.id), parent: B256::ZERO, time_ms: block.time_ms.unsigned_abs() }
}

impl SimTron {
    /// Sends a call of `contract` with `value_sun` that can get into a block for a minute, to an honest node; its id.
    ///
    /// # Errors
    /// [`TronError::Refused`] when the node refuses it.
    pub fn submit(
        &mut self,
        signer: &PrivateKeySigner,
        contract: Address,
        value_sun: u64,
        data: Vec<u8>,
    ) -> Result<B256, TronError> {
        let expiration_ms = self.head().time_ms.unsigned_abs() + VALID_MS;
        let call = Call { owner: signer.address(), contract, data, value_sun };
        self.send(signer, call, FEE_LIMIT_SUN, expiration_ms)
    }

    /// As [`submit`](Self::submit), with a fee limit and an expiration.
    ///
    /// # Errors
    /// As there.
    pub fn send(
        &mut self,
        signer: &PrivateKeySigner,
        call: Call,
        fee_limit_sun: u64,
        expiration_ms: u64,
    ) -> Result<B256, TronError> {
        self.stamp += 1;
        let draft = Draft {
            call,
            fee_limit_sun,
            reference: Reference::of(&named(self.solidified())),
            timestamp_ms: self.head().time_ms.unsigned_abs() + self.stamp,
            expiration_ms,
        };
        let signed = draft.sign(signer);
        self.hand_over(&signed.bytes)
    }

    /// Hands the bytes of a signed transaction to an honest node; its id.
    ///
    /// # Errors
    /// As [`submit`](Self::submit).
    pub fn hand_over(&mut self, bytes: &[u8]) -> Result<B256, TronError> {
        let id = self.node.broadcast(Transaction::decode(bytes)?)?;
        Ok(B256::from(id.0))
    }
}
