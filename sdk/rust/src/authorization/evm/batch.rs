//! Batches: what is signed once for many payments, rebuilt to the byte.
//!
//! A wallet shows the root of the payments and what is drawn in all, and no recipient. So all that is under the root is made of the
//! payer's own orders, and of the gateway's answer nothing is signed.

mod orders;

use alloy::primitives::U256;
use serde_json::{Value, json};

use chains_evm::{
    authorization::{BatchError, PreparedBatch as Own, Scheme, SpendRequest, prepare_batch},
    payment_batches::contract,
};
use escrow_abi::{
    contracts,
    payment_batches::BatchMessage,
    typed_data::{self, FieldError, HEX, Object, equal},
};
use events::{Account, Amount, Hash32, OwnedAsset, PaymentId, event::EscrowPlan};
use signer::Hash;

pub use self::orders::{draws, reserve_deadline};
use super::{hashing_to, spend, unusable};
use crate::{
    answers::{Corridor, PreparedPaymentBatch, UnsignedMessage},
    authorization::{Demand, is_payers},
    error::{Error, Mismatch},
    key::{Key, sign_secp256k1},
    order::Order,
    pins::Pins,
};

const SCHEME: &str = "EVM_PERMIT2_BATCH";

/// What a payer demands of the message for many payments before it signs.
#[derive(Debug, Clone, Copy)]
pub struct BatchDemand<'a> {
    /// What it asked for.
    pub orders: &'a [Order],
    /// What the gateway named for each of them.
    pub corridors: &'a [Corridor],
    /// What the payer knows by itself.
    pub pins: &'a Pins,
    /// Last second of the deposits, UNIX; see [`reserve_deadline`].
    pub reserve_deadline: u64,
    /// Now, UNIX seconds.
    pub now: u64,
}

/// What was rebuilt for a batch and is the same at the gateway: to be signed.
#[derive(Debug, Clone)]
pub struct CheckedBatch {
    /// The payments' ids.
    pub payment_ids: Vec<PaymentId>,
    /// The escrow and its windows, of each payment.
    pub plans: Vec<EscrowPlan>,
    /// What is drawn in all, by token, with the first deposit.
    pub draws: Vec<(OwnedAsset, Amount)>,
    /// Who draws by allowances that the payer has to have given: Permit2.
    pub spender: Account,
    payer: Account,
    digest: Hash32,
    /// `0x1901`, the domain's separator and the message's hash.
    preimage: Vec<u8>,
}

impl BatchDemand<'_> {
    /// Compares what the gateway names with the pins, before anything is asked to be signed.
    ///
    /// # Errors
    /// [`Error::Mismatch`] names the first that differs; [`Error::Invalid`] for orders that make no batch.
    pub fn check_named(&self) -> Result<(), Error> {
        draws(self.orders)?;
        reserve_deadline(self.orders, Some(self.reserve_deadline))?;
        if self.orders.len() != self.corridors.len() {
            return Err(Error::Invalid("each payment of a batch has a corridor of its own".to_owned()));
        }
        for (at, (order, corridor)) in self.orders.iter().zip(self.corridors).enumerate() {
            self.pins.check_named(&order.source, corridor)?;
            let locked = self.pins.check_lock(order, corridor, self.now);
            locked.map_err(|wrong| Mismatch { field: format!("payments[{at}]: {}", wrong.field), ..wrong })?;
        }
        Ok(())
    }

    /// Compares what the gateway prepared with what the payer asked for.
    ///
    /// # Errors
    /// As [`BatchDemand::check_named`].
    pub fn check(&self, prepared: &PreparedPaymentBatch) -> Result<CheckedBatch, Error> {
        self.check_named()?;
        let theirs = self.only(prepared)?;
        let spends = self.spends()?;
        let own = prepare_batch(&spends, Some(self.reserve_deadline)).map_err(refused)?;
        let message = message(&spends, &own, self.reserve_deadline)?;
        if theirs.message.parse() != Ok(own.digest) {
            return Err(difference(&message, own.digest, theirs).into());
        }
        let (payer, spender) = match (self.orders.first(), spends.first()) {
            (Some(order), Some(spend)) => (order.source.account().clone(), spend.escrow.permit2.clone()),
            _ => return Err(Error::Invalid("a batch has a payment".to_owned())),
        };
        Ok(CheckedBatch {
            payment_ids: spends.into_iter().map(|spend| spend.payment_id).collect(),
            plans: own.members.into_iter().map(|member| member.plan).collect(),
            draws: draws(self.orders)?,
            spender,
            payer,
            digest: own.digest,
            preimage: hashing_to(own.digest, message.preimage())?,
        })
    }

    /// The one message, of an answer that is about these payments.
    fn only<'p>(&self, prepared: &'p PreparedPaymentBatch) -> Result<&'p UnsignedMessage, Mismatch> {
        if prepared.message_scheme != SCHEME {
            return Err(Mismatch::new("message_scheme", SCHEME, &prepared.message_scheme));
        }
        let (expected, found) = (self.orders.len(), prepared.payments.len());
        if expected != found {
            return Err(Mismatch::new("payments", format!("{expected} of them"), found));
        }
        for (at, (order, theirs)) in self.orders.iter().zip(&prepared.payments).enumerate() {
            let own = order.payment_id();
            if theirs.payment_id != own {
                return Err(Mismatch::new(format!("payments[{at}].payment_id"), own, &theirs.payment_id));
            }
        }
        if prepared.reserve_deadline != self.reserve_deadline {
            return Err(Mismatch::new("reserve_deadline", self.reserve_deadline, prepared.reserve_deadline));
        }
        match prepared.signed_messages.as_slice() {
            [message] => Ok(message),
            several => Err(Mismatch::new("signed_messages", "one message", format!("{} of them", several.len()))),
        }
    }

    /// What each payment spends, as it does alone.
    fn spends(&self) -> Result<Vec<SpendRequest>, Error> {
        let Self { pins, now, .. } = *self;
        let each = self.orders.iter().zip(self.corridors).map(|(order, corridor)| {
            let demand = Demand { order, corridor, pins, quote_hash: Hash32::ZERO, price: None, now };
            spend(&demand, Scheme::EvmPermit2Batch, None)
        });
        each.collect()
    }
}

impl CheckedBatch {
    /// The authorization, signed: `sender_auth` of the submission.
    ///
    /// # Errors
    /// [`Error::Key`] when the key is another's or gives no signature.
    pub async fn sign(&self, key: &Key) -> Result<Value, Error> {
        is_payers(key, &self.payer)?;
        let signature = sign_secp256k1(key, Hash::Keccak256, &self.preimage).await?;
        // Typed data would come to the same message, and bodies have a limit.
        let signed = json!({
            "message": self.digest.to_string(),
            "signature": format!("0x{}", hex::encode(signature.as_bytes())),
        });
        Ok(json!({"message_scheme": SCHEME, "signed_messages": [signed]}))
    }
}

/// What `own.digest` is the hash of.
fn message(spends: &[SpendRequest], own: &Own, reserve_deadline: u64) -> Result<BatchMessage, Error> {
    let first = spends.first().ok_or_else(|| Error::Invalid("a batch has a payment".to_owned()))?;
    let address = |account: &Account| contracts::address(account).map_err(unusable);
    Ok(BatchMessage {
        chain_id: U256::from(first.terms.source.asset().chain().evm_id().unwrap_or_default()),
        permit2: address(&first.escrow.permit2)?,
        permitted: own.permitted.clone(),
        spender: contract(),
        nonce: U256::from_be_bytes(own.nonce.0),
        deadline: reserve_deadline,
        escrow: address(&first.escrow.contract)?,
        // The root is the nonce, so that one batch is drawn once.
        payments: contracts::word(own.nonce),
    })
}

/// In what the gateway's message differs, by the typed data that it shows.
fn difference(own: &BatchMessage, digest: Hash32, theirs: &UnsignedMessage) -> Mismatch {
    let shown = typed_data::parse(&theirs.message_prehash)
        .and_then(|value| Object::typed_data(&value, &HEX).and_then(|whole| BatchMessage::read(&whole)));
    match shown.and_then(|shown| compare(own, &shown)) {
        Err(FieldError::Mismatch { field, expected, found }) => Mismatch::new(field, expected, found),
        Err(FieldError::Malformed { field, reason }) => Mismatch::new(field, "as it was asked for", reason),
        // It shows what was asked for, and wants something else signed.
        Ok(()) => Mismatch::new("message", digest, &theirs.message),
    }
}

fn compare(own: &BatchMessage, shown: &BatchMessage) -> Result<(), FieldError> {
    let drawn = |message: &BatchMessage| {
        let each = message.permitted.iter().map(|(token, amount)| format!("{amount} of {}", (HEX.write)(*token)));
        each.collect::<Vec<_>>().join(", ")
    };
    equal("domain.chainId", own.chain_id, shown.chain_id)?;
    equal("domain.verifyingContract", own.permit2, shown.permit2)?;
    equal("message.spender", own.spender, shown.spender)?;
    equal("message.permitted", drawn(own), drawn(shown))?;
    equal("message.deadline", own.deadline, shown.deadline)?;
    equal("message.witness.escrow", own.escrow, shown.escrow)?;
    equal("message.witness.payments", own.payments, shown.payments)?;
    equal("message.nonce", own.nonce, shown.nonce)
}

fn refused(error: BatchError) -> Error {
    match error {
        BatchError::Member { index, error } => {
            Error::Invalid(format!("payments[{index}] cannot be signed for: {error}"))
        }
        BatchError::Batch(rule) => Error::Invalid(format!("the payments cannot be signed for as one: they {rule}")),
    }
}

#[cfg(test)]
mod tests;
