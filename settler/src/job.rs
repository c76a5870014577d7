//! An accepted award, checked against the settler's own quote and configuration.

use chains::settler::ReservationOrder;
use events::{
    Payload, PaymentId, Terms,
    event::{EscrowPlan, VerifierRef},
    quote::SignedQuote,
    time::{Timestamp, from_unix_seconds, unix_seconds},
};
use protocol::{AttestationRequest, AwardNotice, AwardToken, Version, is_reassignment_auction};
use sagas::ports::{DeliveryOrder, Escrowed, Statement};

use crate::{
    config::{LimitsConfig, Options},
    inventory::Need,
    quoting::Decline,
};

/// An award of this settler's own quote, on terms it would quote.
#[derive(Debug, Clone)]
pub struct Job {
    /// The payment.
    pub payment_id: PaymentId,
    /// What was agreed.
    pub terms: Terms,
    /// The escrow and its windows, as the escrow contract must have them.
    pub escrow: EscrowPlan,
    /// The settler's own quote.
    pub quote: SignedQuote,
    /// Who attests the delivery, as the settler's own configuration has it.
    pub verifier: VerifierRef,
    /// What the payer says of its signed messages, for the verifier.
    pub payloads: Vec<Payload>,
    /// What is in escrow already, for another quote until it is reassigned to this one.
    pub escrowed: Option<Escrowed>,
}

/// Reason codes of refusals, besides those of declines.
pub mod refusal {
    /// The quote's own time is over, or that of the deposit.
    pub const QUOTE_EXPIRED: &str = "QUOTE_EXPIRED";
    /// The award is not of this settler's quote, or on other terms.
    pub const AWARD_INVALID: &str = "AWARD_INVALID";
}

/// An award that will never be worked on; the text says why.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Rejected(pub String);

impl Job {
    /// Checks an award. Only what the settler's own signature covers is believed; the rest must match the configuration
    /// here and the escrow later.
    ///
    /// # Errors
    /// [`Rejected`] names what does not hold.
    pub fn accept(notice: AwardNotice, options: &Options) -> Result<Self, Rejected> {
        let require = |holds: bool, rule: &str| if holds { Ok(()) } else { Err(Rejected(rule.to_owned())) };
        let signed = SignedQuote::parse_stored(&notice.quote).map_err(|error| Rejected(error.to_string()))?;
        let quote = signed.quote();
        require(quote.settler == options.settler, "the quote is not signed by this settler")?;
        require(signed.hash() == notice.quote_hash, "quote_hash is not the quote's")?;
        require(quote.may_serve(&notice.payment_id), "the quote is for another payment")?;
        require(notice.terms.hash() == quote.terms_hash, "the terms are not those that were quoted")?;
        require(notice.terms.destination().contains(&quote.destination), "the destination is none of the terms'")?;
        require(notice.terms.fulfillment_amount == quote.fulfillment_amount, "the amount is not the terms'")?;

        let escrow = EscrowPlan::from(notice.escrow);
        let chain = &quote.source_chain;
        require(notice.terms.source.asset().chain() == chain, "the source chain is not the terms'")?;
        require(escrow.chain_id == *chain, "the escrow is not on the quoted source chain")?;
        require(escrow.contract == quote.escrow_contract, "the escrow is not the quoted one")?;
        require(options.trusts_escrow(chain, &escrow.contract), "the escrow is not one this settler trusts")?;
        let proxy_trusted = options.trusts_proxy(quote.destination.asset().chain(), &quote.fulfillment_proxy);
        require(proxy_trusted, "the proxy is not one this settler trusts")?;
        require(notice.verifier.account == escrow.releaser, "the verifier is not the releaser")?;
        let is_its_set = VerifierRef::from(notice.verifier.clone()).is_consistent();
        require(is_its_set, "the verifier's account is not the id of its set")?;
        let verifier = options.verifier(chain, &escrow.releaser).cloned();
        let verifier = verifier.ok_or_else(|| Rejected("the verifier is not one this settler trusts".to_owned()))?;
        // Nobody can sign for an id alone.
        let is_known = notice.verifier.set.is_none() || verifier.set.is_some();
        require(is_known, "the releaser is a set of verifiers, whose members are not configured")?;

        if let Some(escrowed) = &notice.escrowed {
            let is_its_auction = is_reassignment_auction(&quote.auction_id, &notice.payment_id);
            require(is_its_auction, "the quote is not of an auction for the payment's escrow")?;
            require(quote.source_amount <= escrowed.amount, "the price exceeds what is in escrow")?;
            require(escrowed.reserved_for != notice.quote_hash, "the escrow is reserved for the quote already")?;
        }

        let fulfill_by = unix_seconds(quote.fulfill_by);
        require(fulfill_by <= escrow.fulfillment_deadline, "the promised time is past the escrow's deadline")?;
        let delay = options.refund_delay_seconds(chain).unwrap_or(u64::MAX);
        let leaves_time = escrow.refund_after >= fulfill_by.saturating_add(delay);
        require(leaves_time, "the windows leave too little time to be paid")?;

        Ok(Self {
            payment_id: notice.payment_id,
            terms: notice.terms,
            escrow,
            quote: signed,
            verifier,
            payloads: notice.payloads,
            escrowed: notice
                .escrowed
                .map(|protocol::Escrowed { amount, reserved_for }| Escrowed { amount, reserved_for }),
        })
    }

    /// The last token of the award's subject and of its answer's.
    pub fn token(&self) -> AwardToken {
        AwardToken::of(&self.payment_id, self.quote.hash(), self.escrowed.is_some())
    }

    /// Last second, UNIX, in which the escrow can come to be reserved for the quote: the end of the deposit's window, or, where the
    /// money is in escrow, of the settler's own promise.
    pub fn reserved_until(&self) -> u64 {
        self.reservation().reservable_until()
    }

    /// The tokens that the inventory holds for this award.
    pub fn need(&self) -> Need<'_> {
        let quote = self.quote.quote();
        Need { key: &quote.auction_id, asset: quote.destination.asset(), amount: quote.fulfillment_amount }
    }

    /// Whether the escrow pays on the verifiers' word; a reason code when that is not sure. It is asked before anything is
    /// delivered, and not of a delivery that was made while another escrow was the chain's own.
    pub fn check_escrow(&self, options: &Options) -> Result<(), &'static str> {
        let heeds = options.escrow_heeds(&self.escrow.chain_id, &self.escrow.contract, &self.verifier);
        if heeds { Ok(()) } else { Err(Decline::UntrustedContract.code()) }
    }

    /// Whether the times of the award still allow the settler to accept it at `now`, whatever its tokens; a reason code
    /// when they do not.
    pub fn check_times(&self, limits: &LimitsConfig, now: Timestamp) -> Result<(), &'static str> {
        let (plan, reserved_until) = (&self.escrow, self.reserved_until());
        if now > self.quote.quote().valid_until || unix_seconds(now) > reserved_until {
            return Err(refusal::QUOTE_EXPIRED);
        }
        let seconds = unix_seconds(now);
        let near = reserved_until <= seconds.saturating_add(limits.settlement_seconds_max)
            && plan.fulfillment_deadline <= seconds.saturating_add(limits.settlement_seconds_max)
            && plan.refund_after <= plan.fulfillment_deadline.saturating_add(limits.refund_seconds_max);
        if near { Ok(()) } else { Err(Decline::DeadlineTooLong.code()) }
    }

    /// Until when the tokens of an accepted award are held for a deposit or a reassignment that has not come yet. It follows from
    /// the award alone, so that a restarted settler holds them no longer.
    pub fn deposit_awaited_until(&self, limits: &LimitsConfig) -> Timestamp {
        let since = unix_seconds(self.quote.quote().valid_until);
        let until = since.saturating_add(limits.deposit_hold_seconds_max).min(self.reserved_until());
        from_unix_seconds(until).unwrap_or(self.quote.quote().valid_until)
    }

    /// The reservation that must be in escrow before anything is delivered.
    pub fn reservation(&self) -> ReservationOrder {
        let quote = self.quote.quote();
        ReservationOrder {
            payment_id: self.payment_id.clone(),
            escrow: self.escrow.clone(),
            payer: self.terms.source.account().clone(),
            asset: self.terms.source.asset().clone(),
            terms_hash: quote.terms_hash,
            quote_hash: self.quote.hash(),
            payout_account: quote.payout_account.clone(),
            source_amount: quote.source_amount,
            fulfill_by: unix_seconds(quote.fulfill_by),
            escrowed: self.escrowed,
        }
    }

    /// The delivery to make.
    pub fn delivery(&self) -> DeliveryOrder {
        let quote = self.quote.quote();
        DeliveryOrder {
            payment_id: self.payment_id.clone(),
            quote_hash: self.quote.hash(),
            destination: quote.destination.clone(),
            amount: quote.fulfillment_amount,
            delivery_account: quote.delivery_account.clone(),
            proxy: quote.fulfillment_proxy.clone(),
            fulfill_by: unix_seconds(quote.fulfill_by),
        }
    }

    /// What the verifier has to sign for the escrow to pay.
    pub fn statement(&self) -> Statement {
        Statement::Delivery {
            payment_id: self.payment_id.clone(),
            quote_hash: self.quote.hash(),
            payout_account: self.quote.quote().payout_account.clone(),
        }
    }

    /// The request to the verifier, or to each of a set's.
    pub fn attestation_request(&self) -> AttestationRequest {
        AttestationRequest {
            version: Version,
            payment_id: self.payment_id.clone(),
            terms: self.terms.clone(),
            escrow: (&self.escrow).into(),
            quote: self.quote.document().to_owned(),
            verifier_set: self.verifier.set.clone(),
            payloads: self.payloads.clone(),
        }
    }
}
