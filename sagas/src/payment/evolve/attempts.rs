//! Attempts at a transaction: which may begin, which may replace another, which may be given up.

use events::event::{TransactionAbandoned, TransactionPrepared};

use crate::payment::{Attempts, VERSIONS_MAX};

impl Attempts {
    /// Starts another attempt.
    pub(super) fn begin(&mut self, transaction: &TransactionPrepared) -> Result<(), &'static str> {
        if !self.live.is_empty() {
            return Err("an earlier attempt may still land");
        }
        if transaction.attempt != self.count + 1 {
            return Err("attempts are numbered without gaps");
        }
        self.count = transaction.attempt;
        self.live.push(transaction.clone());
        Ok(())
    }

    /// Whether `transaction` may stand beside the versions of the attempt that is alive. That it makes the same call and
    /// offers more is for the chain's adapter to see to: only it can read the bytes.
    pub(in crate::payment) fn replaced_by(&self, transaction: &TransactionPrepared) -> Result<(), &'static str> {
        let Some(newest) = self.newest() else { return Err("no attempt is under way") };
        if transaction.attempt != newest.attempt {
            return Err("a replacement belongs to the attempt under way");
        }
        if (&transaction.chain_id, &transaction.sender, transaction.validity)
            != (&newest.chain_id, &newest.sender, newest.validity)
        {
            return Err("a replacement has the chain, the sender and the validity of what it replaces");
        }
        if newest.validity.nonce().is_none() {
            return Err("a transaction without a nonce is not replaced: both could land");
        }
        let hash = &transaction.transaction_hash;
        if self.live.iter().any(|version| version.transaction_hash == *hash || version.raw == transaction.raw) {
            return Err("a replacement differs from what it replaces");
        }
        if self.live.len() >= VERSIONS_MAX {
            return Err("the attempt was replaced as often as is allowed");
        }
        Ok(())
    }

    /// Adds another version of the attempt under way.
    pub(super) fn replace(&mut self, transaction: &TransactionPrepared) -> Result<(), &'static str> {
        self.replaced_by(transaction)?;
        self.live.push(transaction.clone());
        Ok(())
    }

    /// Gives the attempt under way up with all its versions.
    pub(super) fn give_up(&mut self, abandoned: &TransactionAbandoned) -> Result<(), &'static str> {
        match self.newest() {
            Some(newest) if newest.attempt == abandoned.attempt => {
                self.live.clear();
                Ok(())
            }
            _ => Err("no such attempt is under way"),
        }
    }
}
