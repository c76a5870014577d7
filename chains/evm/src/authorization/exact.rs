//! Purchases of merchants' offers (x402's `exact`, ADR 154): what a buyer signs is a transfer to an address that commits to the offer, so
//! the address is rebuilt from the request and what was signed must be to it.

use alloy::primitives::{Address, B256, U256, hex};
use serde_json::{Value, json};

use escrow_abi::{contracts, offers as offered};
use events::{
    Account, Amount, AssetId, Hash32, PaymentId,
    event::{EscrowPlan, X402Exact},
};

use super::{
    AuthorizationError, SignedMessage, SpendRequest,
    choice::Choice,
    expected::Expected,
    message::Message,
    transfer::{CarriedOutBy, TransferMessage},
};
use crate::{
    offers::{self, OfferAddress},
    token_domain::TokenDomain,
};

/// What a buyer says it signed: a token's transfer to the address of an offer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExactTransfer {
    /// The buyer.
    pub from: Account,
    /// The address that is paid to.
    pub to: Account,
    /// What is moved, smallest unit.
    pub value: Amount,
    /// Last second in which it does not hold yet, UNIX.
    pub valid_after: u64,
    /// First second in which it does not hold any more, UNIX.
    pub valid_before: u64,
    /// Of the buyer's choice.
    pub nonce: Hash32,
    /// The signature, hex with 0x.
    pub signature: String,
}

impl ExactTransfer {
    /// The same as a signed message of a submission: of this token, in the domain that the buyer was told of, for an offer of which strays
    /// go to `merchant`, and whose refund window opens at the UNIX second `refund_after`.
    ///
    /// # Errors
    /// [`AuthorizationError`] for assets and accounts that are none of an EVM chain.
    pub fn signed(
        &self,
        (token, domain): (&AssetId, TokenDomain),
        merchant: &Account,
        refund_after: u64,
    ) -> Result<SignedMessage, AuthorizationError> {
        let evm_id =
            token.chain().evm_id().ok_or_else(|| AuthorizationError::malformed("asset", "is on no EVM chain"))?;
        let token =
            contracts::erc20(token).map_err(|error| AuthorizationError::malformed("asset", error.to_string()))?;
        let address = |name: &str, account: &Account| {
            let named = |error: contracts::ConvertError| AuthorizationError::malformed(name, error.to_string());
            contracts::address(account).map_err(named)
        };
        let message = Message::Transfer(TransferMessage {
            carried_out_by: CarriedOutBy::Anyone,
            domain,
            chain_id: U256::from(evm_id),
            token,
            from: address("from", &self.from)?,
            to: address("to", &self.to)?,
            value: self.value.get(),
            valid_after: U256::from(self.valid_after),
            valid_before: self.valid_before,
            nonce: contracts::word(self.nonce),
        });
        Ok(SignedMessage {
            message: message.digest()?.to_string(),
            message_prehash: Some(message.render().to_string()),
            signature: self.signature.clone(),
            payload: Some(json!({
                "merchant": merchant.to_string(),
                "nonce": self.nonce.to_string(),
                "valid_after": self.valid_after,
                "valid_before": self.valid_before,
                "refund_after": refund_after,
            })),
        })
    }
}

/// The spend of a purchase, with the offer as the request has it.
pub(super) struct OfferSpend {
    merchant: Account,
    address: OfferAddress,
    amount: Amount,
    nonce: B256,
    valid_after: u64,
    valid_before: u64,
    /// The escrow, with the windows that follow from offer and signature.
    pub plan: EscrowPlan,
}

impl OfferSpend {
    /// What a request means, with what `payload` says of it.
    ///
    /// # Errors
    /// [`AuthorizationError`], naming the field.
    pub fn of(spend: &SpendRequest, choice: &Choice) -> Result<Self, AuthorizationError> {
        let missing = |name: &str| AuthorizationError::malformed(format!("payload.{name}"), "is required");
        let source = &spend.terms.source;
        let merchant = choice.merchant.clone().ok_or_else(|| missing("merchant"))?;
        let nonce = choice.nonce.ok_or_else(|| missing("nonce"))?;
        let valid_after = choice.valid_after.ok_or_else(|| missing("valid_after"))?;
        let valid_before = choice.valid_before.ok_or_else(|| missing("valid_before"))?;
        let amount = spend.terms.max_source_amount.ok_or_else(|| {
            AuthorizationError::malformed(
                "max_source_amount",
                "is required under EVM_X402_EXACT, which draws all of it",
            )
        })?;
        if spend.quote_hash != Hash32::ZERO {
            let rule = "EVM_X402_EXACT is signed before there are quotes";
            return Err(AuthorizationError::malformed("message_scheme", rule));
        }
        // The contract makes the payment's id of the two.
        if spend.payment_id != PaymentId::derive(&source.account().originator(), &nonce.to_string()) {
            let rule =
                "must be the nonce of the authorization, 0x and 64 lower-case hex digits, and the originator the payer";
            return Err(AuthorizationError::malformed("request_id", rule));
        }
        let fulfillment_deadline = events::time::unix_seconds(spend.fulfillment_deadline);
        let earliest = fulfillment_deadline.saturating_add(spend.escrow.refund_delay_seconds);
        let plan = EscrowPlan {
            chain_id: source.asset().chain().clone(),
            contract: spend.escrow.contract.clone(),
            reserver: spend.escrow.reserver.clone(),
            releaser: spend.escrow.releaser.clone(),
            reserve_deadline: valid_before.saturating_sub(1),
            fulfillment_deadline,
            refund_after: choice.refund_after.unwrap_or(earliest),
        };
        let commitment = offered::of_purchase(&spend.terms, &plan, amount, &merchant);
        let address = commitment
            .and_then(|commitment| offers::address_of(&commitment))
            .map_err(|error| AuthorizationError::malformed("payload", format!("makes no offer: {error}")))?;
        Ok(Self { merchant, address, amount, nonce: contracts::word(nonce), valid_after, valid_before, plan })
    }

    /// What has to be signed, in the token's domain.
    ///
    /// # Errors
    /// [`AuthorizationError`] where the address is none.
    pub fn message(&self, expected: &Expected, domain: TokenDomain) -> Result<TransferMessage, AuthorizationError> {
        Ok(TransferMessage {
            carried_out_by: CarriedOutBy::Anyone,
            domain,
            chain_id: U256::from(expected.evm_id),
            token: expected.token,
            from: expected.payer,
            to: self.pay_to()?,
            value: self.amount.get(),
            valid_after: U256::from(self.valid_after),
            valid_before: self.valid_before,
            nonce: self.nonce,
        })
    }

    /// What was signed.
    pub fn authorization(&self, domain: TokenDomain, signature: &[u8]) -> X402Exact {
        let OfferAddress { pay_to, factory, implementation } = self.address.clone();
        X402Exact {
            domain,
            amount: self.amount,
            nonce: Hash32(self.nonce.0),
            valid_after: self.valid_after,
            valid_before: self.valid_before,
            pay_to,
            factory,
            implementation,
            merchant: self.merchant.clone(),
            signature: format!("0x{}", hex::encode(signature)),
        }
    }

    fn pay_to(&self) -> Result<Address, AuthorizationError> {
        contracts::address(&self.address.pay_to)
            .map_err(|error| AuthorizationError::malformed("message.to", error.to_string()))
    }
}

/// The account that a payload names, of an EVM chain.
pub(super) fn merchant(value: &Value) -> Option<Account> {
    Account::parse(events::Family::Evm, value.as_str()?).ok()
}
