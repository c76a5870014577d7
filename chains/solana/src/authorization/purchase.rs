//! Purchases of merchants' offers (x402's `exact`, ADR 160): what a buyer signs is a transfer to an address that commits to the offer, so the
//! address is rebuilt from the request, and the transfer must be to it.

use data_encoding::BASE64;
use serde_json::{Value, json};

use chains::offer::Commitment;
use events::{
    Account, Hash32, PaymentId,
    event::{Authorization, EscrowPlan, SolanaPurchase},
    time::unix_seconds,
};

use super::{AuthorizationError, SignedMessage, SpendRequest};
use crate::{
    exact::{Asked, ExactTransfer},
    offers,
    program::{account, key, mint, units},
    transaction::wire_of,
};

/// Most characters of a transaction in Base64; no network carries a longer one.
const BASE64_CHARS_MAX: usize = 1_644;

/// What a client of `exact` sent, and what it is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SentPurchase {
    transfer: ExactTransfer,
    buyer: Account,
}

impl SentPurchase {
    /// Reads the transaction that a client sent, in Base64.
    ///
    /// # Errors
    /// The rule that it breaks.
    pub fn read(transaction: &str) -> Result<Self, String> {
        let text = Some(transaction).filter(|text| text.len() <= BASE64_CHARS_MAX);
        let wire = text.and_then(|text| BASE64.decode(text.as_bytes()).ok());
        let wire = wire.ok_or("transaction: must be a transaction in Base64")?;
        let transfer = ExactTransfer::read(&wire).map_err(|error| error.to_string())?;
        let buyer = transfer.buyer_account().ok_or("transaction: nobody signs for the zero account")?;
        Ok(Self { transfer, buyer })
    }

    /// Who pays.
    pub fn buyer(&self) -> &Account {
        &self.buyer
    }

    /// What names the purchase: the hash of what was signed.
    pub fn request_id(&self) -> String {
        self.transfer.message_hash().to_string()
    }

    /// The same as a signed message of a submission, under an offer with these seconds for delivery and refund.
    pub fn signed(&self, delivery_seconds: u32, refund_seconds: u32) -> SignedMessage {
        SignedMessage {
            message: self.transfer.message_hash().to_string(),
            message_prehash: None,
            // The buyer's is in the transaction.
            signature: hex_of(&self.transfer.unsigned()),
            payload: Some(json!({"delivery_seconds": delivery_seconds, "refund_seconds": refund_seconds})),
        }
    }
}

/// Checks that `signed` is a purchase of the offer that the request is of, whose fee one of `fee_payers` pays.
///
/// # Errors
/// [`AuthorizationError`], naming the field.
pub fn authorize_purchase(
    spend: &SpendRequest,
    signed: &SignedMessage,
    fee_payers: &[Account],
) -> Result<(Authorization, EscrowPlan), AuthorizationError> {
    let refused = |error: &dyn std::fmt::Display| AuthorizationError::malformed("signature", error.to_string());
    let seconds = |name: &str| {
        let value = signed.payload.as_ref().and_then(|payload| payload.get(name)).and_then(Value::as_u64);
        let seconds = value.and_then(|seconds| u32::try_from(seconds).ok());
        seconds.ok_or_else(|| AuthorizationError::malformed(format!("payload.{name}"), "must be seconds in 32 bits"))
    };
    let (delivery_seconds, refund_seconds) = (seconds("delivery_seconds")?, seconds("refund_seconds")?);
    let amount = spend.terms.max_source_amount;
    let amount = amount.ok_or_else(|| AuthorizationError::malformed("max_source_amount", "is what the buyer sends"))?;
    if spend.quote_hash != Hash32::ZERO {
        let rule = "SOLANA_X402_EXACT is signed before there are quotes";
        return Err(AuthorizationError::malformed("message_scheme", rule));
    }
    if u64::from(refund_seconds) < spend.escrow.refund_delay_seconds {
        let rule = format!("must be at least {}", spend.escrow.refund_delay_seconds);
        return Err(AuthorizationError::malformed("payload.refund_seconds", rule));
    }
    let source = &spend.terms.source;
    let fulfillment_deadline = unix_seconds(spend.fulfillment_deadline);
    let plan = EscrowPlan {
        chain_id: source.asset().chain().clone(),
        contract: spend.escrow.program.clone(),
        reserver: spend.escrow.reserver.clone(),
        releaser: spend.escrow.releaser.clone(),
        reserve_deadline: fulfillment_deadline.saturating_sub(delivery_seconds.into()),
        fulfillment_deadline,
        refund_after: fulfillment_deadline.saturating_add(refund_seconds.into()),
    };
    let wire = wire_of(&signed.signature).ok_or_else(|| refused(&"must be a transaction in hex with 0x"))?;
    let transfer = ExactTransfer::read(&wire).map_err(|error| refused(&error))?;
    let fee_payer = account(&transfer.fee_payer()).filter(|account| fee_payers.contains(account));
    let fee_payer = fee_payer.ok_or_else(|| refused(&"the payer of its fee is no account of the gateway's"))?;
    let buyer = transfer.buyer_account().ok_or_else(|| refused(&"nobody signs for the zero account"))?;
    // One transfer is one payment, whoever brings it and whenever.
    let hash = transfer.message_hash();
    if signed.message != hash.to_string() {
        return Err(AuthorizationError::mismatch("message", hash, &signed.message));
    }
    if spend.payment_id != PaymentId::derive(&buyer.originator(), &hash.to_string()) {
        let rule = "must be the hash of what the buyer signed, and the originator the buyer";
        return Err(AuthorizationError::malformed("request_id", rule));
    }
    let commitment = Commitment {
        terms: &spend.terms,
        amount,
        escrow: &plan.contract,
        reserver: &plan.reserver,
        releaser: &plan.releaser,
        merchant: source.account(),
        delivery_seconds,
        refund_seconds,
    };
    let pay_to =
        offers::address_of(&commitment).map_err(|error| AuthorizationError::malformed("source", error.to_string()))?;
    let converted = |error: crate::program::ConvertError| refused(&error);
    let (pay_to_key, mint) = (key(&pay_to).map_err(converted)?, mint(source.asset()).map_err(converted)?);
    let asked = Asked {
        fee_payer: &transfer.fee_payer(),
        pay_to: &pay_to_key,
        mint: &mint,
        amount: units(amount).map_err(converted)?,
    };
    transfer.check(&asked).map_err(|error| refused(&error))?;
    let purchase = SolanaPurchase {
        amount,
        buyer,
        pay_to,
        fee_payer,
        delivery_seconds,
        refund_seconds,
        transaction: hex_of(&transfer.unsigned()),
    };
    Ok((Authorization::SolanaX402Exact(purchase), plan))
}

fn hex_of(bytes: &[u8]) -> String {
    format!("0x{}", hex::encode(bytes))
}
