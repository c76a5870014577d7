//! An auditor's view of a chain: whether what a payment's stream says happened there, and with what effect.
//!
//! Nothing here needs a key or trusts a gateway. What [`Audit`] promises is the same for every family; how a chain proves
//! it is in each family's own `auditor`. What a node cannot answer is [`Transient`] and proves nothing.

use std::fmt::{Debug, Display};

use async_trait::async_trait;

use events::{
    Account, Amount, Hash32, PaymentId, Terms,
    event::{Authorization, Claim, EscrowOpened, EscrowPlan, EscrowRefunded, EscrowSecured, Inclusion},
    quote::Quote,
    time::unix_seconds,
};
use sagas::ports::{DeliveryOrder, EscrowState, PayerDeposit, Statement, Transient};

use crate::{
    config::CommonConfig,
    escrow::{EscrowRecord, State},
};

/// A payment as its stream tells it, once a quote was awarded.
#[derive(Debug, Clone, Copy)]
pub struct Case<'a> {
    /// The payment.
    pub payment_id: &'a PaymentId,
    /// What the payer agreed to.
    pub terms: &'a Terms,
    /// What the payer signed.
    pub authorization: &'a Authorization,
    /// The escrow and its windows.
    pub plan: &'a EscrowPlan,
    /// The awarded quote.
    pub quote: &'a Quote,
    /// Its hash.
    pub quote_hash: Hash32,
}

impl Case<'_> {
    /// The delivery that the quote promises.
    pub fn delivery(&self) -> DeliveryOrder {
        DeliveryOrder {
            payment_id: self.payment_id.clone(),
            quote_hash: self.quote_hash,
            destination: self.quote.destination.clone(),
            amount: self.quote.fulfillment_amount,
            delivery_account: self.quote.delivery_account.clone(),
            proxy: self.quote.fulfillment_proxy.clone(),
            fulfill_by: unix_seconds(self.quote.fulfill_by),
        }
    }
}

/// A reassignment of an escrow as the payment's stream tells it (ADR 148); the quote that it names is that of the [`Case`].
#[derive(Debug, Clone, Copy)]
pub struct Reassignment<'a> {
    /// Hash of the quote that the escrow was reserved for before.
    pub previous: Hash32,
    /// Last second of the delivery that this one promised, UNIX; the escrow is reassigned after it.
    pub previous_fulfill_by: u64,
    /// What is in escrow, smallest unit of the source asset.
    pub deposited: Amount,
    /// The transaction that reassigned.
    pub inclusion: &'a Inclusion,
}

/// What kind of fault a [`Discrepancy`] is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// What the stream claims is not on the chain.
    Missing,
    /// The chain says something else than the stream.
    Contradiction,
    /// The chain cannot tell.
    Unverifiable,
}

/// A claim of the stream that the chain does not bear out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Discrepancy {
    /// What kind of fault it is.
    pub kind: Kind,
    /// What was claimed and what was found.
    pub what: String,
}

/// Where the escrow stands at the settled block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EscrowSnapshot {
    /// What the escrow has on record for the payment; `None` also for an escrow of another plan.
    pub state: Option<State>,
    /// The quote that it is, or was last, reserved for, by the same record; `None` where no settler was ever named.
    pub reserved_for: Option<Hash32>,
    /// Number of the settled block; on Solana its slot.
    pub settled_number: u64,
    /// UNIX second of the settled block.
    pub settled_time: u64,
}

/// A chain that an auditor asks.
#[async_trait]
pub trait Audit: Debug + Send + Sync {
    /// What the configuration says of it.
    fn config(&self) -> &CommonConfig;

    /// Checks that the payer signed for this spend: the message is rebuilt from the stream, and the signature must be the
    /// payer's, or that of the key which the payer named.
    ///
    /// # Errors
    /// [`Transient`] when the chain would have to be asked, and gives no answer.
    async fn audit_authorization(
        &self,
        payment_id: &PaymentId,
        terms: &Terms,
        plan: &EscrowPlan,
        authorization: &Authorization,
    ) -> Result<Vec<Discrepancy>, Transient>;

    /// Checks that the deposit is on the chain with the amount, terms, quote and reservation of the case, which is that of the quote
    /// that the escrow was reserved for first.
    ///
    /// # Errors
    /// [`Transient`].
    async fn audit_deposit(&self, case: &Case<'_>, secured: &EscrowSecured) -> Result<Vec<Discrepancy>, Transient>;

    /// Checks that the transaction of `reassignment` took the escrow from the quote before, after its time, and reserved it for the
    /// quote of the case, with its settler, amount and time of delivery.
    ///
    /// # Errors
    /// [`Transient`].
    async fn audit_reassignment(
        &self,
        case: &Case<'_>,
        reassignment: &Reassignment<'_>,
    ) -> Result<Vec<Discrepancy>, Transient>;

    /// Checks that the payer's own transaction brought the money into escrow, with the terms that the stream shows, where no
    /// settler was named for it.
    ///
    /// # Errors
    /// [`Transient`].
    async fn audit_opened(&self, deposit: &PayerDeposit, opened: &EscrowOpened) -> Result<Vec<Discrepancy>, Transient> {
        let _ = opened;
        Ok(no_payer_deposits(deposit))
    }

    /// Checks that a deposit for which no settler was named went back to the payer, whole.
    ///
    /// # Errors
    /// [`Transient`].
    async fn audit_return(
        &self,
        deposit: &PayerDeposit,
        refunded: &EscrowRefunded,
        deposited: Amount,
    ) -> Result<Vec<Discrepancy>, Transient> {
        let _ = (refunded, deposited);
        Ok(no_payer_deposits(deposit))
    }

    /// Checks that what was at the payment's deposit address, and never in escrow, went back to the payer (ADR 153).
    ///
    /// # Errors
    /// [`Transient`].
    async fn audit_given_back(
        &self,
        deposit: &PayerDeposit,
        refunded: &EscrowRefunded,
    ) -> Result<Vec<Discrepancy>, Transient> {
        let _ = refunded;
        let what = format!("there are no deposit addresses on {}", deposit.escrow.chain_id);
        Ok(vec![Discrepancy { kind: Kind::Contradiction, what }])
    }

    /// Checks, on this chain as the destination, that the delivery is there with every field of the quote.
    ///
    /// # Errors
    /// [`Transient`].
    async fn audit_delivery(&self, case: &Case<'_>, inclusion: &Inclusion) -> Result<Vec<Discrepancy>, Transient>;

    /// Checks that the escrow paid the settler its price, the remainder went to the payer, and nothing else was paid.
    ///
    /// # Errors
    /// [`Transient`].
    async fn audit_release(
        &self,
        case: &Case<'_>,
        inclusion: &Inclusion,
        deposited: Amount,
    ) -> Result<Vec<Discrepancy>, Transient>;

    /// Checks that the whole deposit went back to the payer. Before the refund window the escrow gives it back only for
    /// the releaser's signed non-delivery, so an early refund needs no other proof.
    ///
    /// # Errors
    /// [`Transient`].
    async fn audit_refund(
        &self,
        case: &Case<'_>,
        refunded: &EscrowRefunded,
        deposited: Amount,
    ) -> Result<Vec<Discrepancy>, Transient>;

    /// Where the escrow stands at the settled block, after checking that its record is that of the case where there is a
    /// quote. Before an award there is no case, and the record can only be that of `plan`.
    ///
    /// # Errors
    /// [`Transient`].
    async fn audit_escrow(
        &self,
        payment_id: &PaymentId,
        plan: &EscrowPlan,
        case: Option<&Case<'_>>,
    ) -> Result<(EscrowSnapshot, Vec<Discrepancy>), Transient>;

    /// Whether `signature` is the releaser's statement, as the escrow would judge it.
    ///
    /// # Errors
    /// [`Transient`].
    async fn attestation_holds(
        &self,
        statement: &Statement,
        plan: &EscrowPlan,
        signature: &str,
    ) -> Result<bool, Transient>;

    /// Whether `signature` is the statement signed by the key of `member`, as the escrow would judge it of a set's member.
    ///
    /// # Errors
    /// [`Transient`].
    async fn signed_by(
        &self,
        statement: &Statement,
        plan: &EscrowPlan,
        member: &Account,
        signature: &str,
    ) -> Result<bool, Transient>;

    /// Where the escrow stands at the required depth, with the transaction that brought it there.
    ///
    /// # Errors
    /// [`Transient`].
    async fn escrow_state(&self, payment_id: &PaymentId, plan: &EscrowPlan) -> Result<EscrowState, Transient>;

    /// The escrow of this plan, whatever became of it, with the quote that it is reserved for, as
    /// [`sagas::ports::Chains::escrow_found`] tells it.
    ///
    /// # Errors
    /// [`Transient`].
    async fn escrow_found(&self, deposit: &PayerDeposit) -> Result<Option<EscrowOpened>, Transient>;

    /// The payouts of the escrow's end in the transaction `end` that became claims. None on chains where a payout that does not
    /// go through is not made.
    ///
    /// # Errors
    /// [`Transient`], also when the transaction is not the payment's end.
    async fn claims(
        &self,
        payment_id: &PaymentId,
        plan: &EscrowPlan,
        end: &Inclusion,
    ) -> Result<Vec<Claim>, Transient> {
        let _ = (payment_id, plan, end);
        Ok(Vec::new())
    }
}

/// Discrepancies that are being gathered.
#[derive(Debug, Default)]
pub struct Discrepancies(pub Vec<Discrepancy>);

impl Discrepancies {
    /// Adds one of `kind`; `what` is a sentence for people, without a full stop.
    pub fn add(&mut self, kind: Kind, what: impl Into<String>) {
        self.0.push(Discrepancy { kind, what: what.into() });
    }

    /// `name` must be the same in the stream and on the chain.
    pub fn same<T: PartialEq + Display>(&mut self, name: &str, stream: T, chain: T) {
        if stream != chain {
            self.add(Kind::Contradiction, format!("{name} is {stream} by the stream and {chain} on the chain"));
        }
    }

    /// `holds` must be the case; where it is not, the chain contradicts the stream as `what` says.
    pub fn require(&mut self, holds: bool, what: impl FnOnce() -> String) {
        if !holds {
            self.add(Kind::Contradiction, what());
        }
    }

    /// A reassignment must come after the time of the quote before, and before that of its own ends.
    pub fn reassigned_in_time(&mut self, time: u64, case: &Case<'_>, reassignment: &Reassignment<'_>) {
        let (after, before) = (reassignment.previous_fulfill_by, unix_seconds(case.quote.fulfill_by));
        self.require(after < time && time < before, || {
            format!("the reassignment came at {time}, which is not after {after} and before {before}")
        });
    }

    /// Compares what the escrow has on record with the case.
    pub fn committed(&mut self, case: &Case<'_>, record: &EscrowRecord) {
        let source = &case.terms.source;
        self.require(record.is_of(case.plan), || "the escrow has other accounts or windows than the stream".to_owned());
        self.same("the payer on record", source.account().as_str(), name(record.payer.as_ref()));
        self.same("the token on record", source.asset(), &record.asset);
        self.same("the terms' hash on record", case.terms.hash(), record.terms_hash);
        if matches!(record.state, State::Reserved | State::Released) {
            self.same("the quote's hash on record", case.quote_hash, record.quote_hash);
            self.require(record.settler.as_ref() == Some(&case.quote.payout_account), || {
                let (stream, chain) = (&case.quote.payout_account, name(record.settler.as_ref()));
                format!("the account to be paid on record is {stream} by the stream and {chain} on the chain")
            });
            self.require(record.source_amount == Some(case.quote.source_amount), || {
                format!("the escrow pays {:?}, the quote says {}", record.source_amount, case.quote.source_amount)
            });
            self.same("the time of delivery on record", unix_seconds(case.quote.fulfill_by), record.fulfill_by);
        }
    }
}

/// An account on record as it stands in a report.
fn name(account: Option<&Account>) -> &str {
    account.map_or("nobody", Account::as_str)
}

fn no_payer_deposits(deposit: &PayerDeposit) -> Vec<Discrepancy> {
    let what = format!("payers do not deposit by transactions of their own on {}", deposit.escrow.chain_id);
    vec![Discrepancy { kind: Kind::Contradiction, what }]
}

/// The stream holds what fits no chain of this family.
pub fn unreadable(family: &str, error: impl Display) -> Vec<Discrepancy> {
    vec![Discrepancy {
        kind: Kind::Contradiction,
        what: format!("the stream holds what fits no {family} chain: {error}"),
    }]
}
