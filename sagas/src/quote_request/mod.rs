//! The quote-request batch: quotes are collected for terms that nobody has authorized a spend for, and at most one of
//! them is awarded to a payment later (spec 2.12, 3.2).
//!
//! The engine collects; it neither chooses nor awards. [`award()`] makes the payment when its payer asks for it.

pub mod award;
mod collect;
mod evolve;

use events::{
    QuoteRequestId,
    event::EscrowPlan,
    quote_request::{CollectedDocument, QuoteRequestAwarded, QuoteRequestOpened, QuotesCollected},
    time::Timestamp,
};

pub use self::{
    award::{AwardCall, AwardError, AwardOutcome, AwardRefusal, award, may_award},
    collect::selected,
    evolve::{evolve, fold},
};
use crate::{auction::request_for_batch, ports::RequestForQuotes};

/// Everything known about a batch: the fold of its events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuoteRequest {
    /// What was accepted.
    pub opened: Box<QuoteRequestOpened>,
    /// What was collected, once the collection is over.
    pub collected: Option<Box<QuotesCollected>>,
    /// Which quote was awarded, and to which payment.
    pub awarded: Option<QuoteRequestAwarded>,
}

/// Where a batch stands, derived from what is known about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Quotes are being collected.
    Collecting,
    /// The quotes are there, and one of them may be awarded as long as it is valid.
    Collected,
    /// A quote was awarded.
    Awarded,
}

/// What the engine is to do for a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Ask the settlers and collect their answers.
    GatherBids(Box<RequestForQuotes>),
    /// Nothing; whatever comes is the caller's to decide.
    Rest,
}

impl QuoteRequest {
    /// The batch's id.
    pub fn id(&self) -> &QuoteRequestId {
        &self.opened.quote_request_id
    }

    /// Where the batch stands.
    pub fn stage(&self) -> Stage {
        match (&self.collected, &self.awarded) {
            (None, _) => Stage::Collecting,
            (Some(_), None) => Stage::Collected,
            (Some(_), Some(_)) => Stage::Awarded,
        }
    }

    /// The collected quotes, best first; none while collecting.
    pub fn quotes(&self) -> &[CollectedDocument] {
        self.collected.as_ref().map_or(&[], |collected| &collected.quotes)
    }

    /// A collected quote.
    pub fn quote(&self, quote_id: &str) -> Option<&CollectedDocument> {
        self.quotes().iter().find(|quote| quote.quote_id == quote_id)
    }

    /// Whether the batch has expired at `now`: it was collected, nothing was awarded, and every quote has lapsed, at the latest
    /// with the fulfillment deadline. A batch without quotes has none that could lapse (spec 3.2).
    pub fn has_expired(&self, now: Timestamp) -> bool {
        let quotes = self.quotes();
        let lapsed = |quote: &CollectedDocument| now > quote.valid_until || now >= self.opened.fulfillment_deadline;
        self.stage() == Stage::Collected && !quotes.is_empty() && quotes.iter().all(lapsed)
    }

    /// Whether a payer's `plan` is one that the settlers of this batch quoted for: the same contract and accounts, and
    /// windows no later to deposit, and no earlier to refund, than they were told.
    ///
    /// # Errors
    /// The rule that the plan breaks.
    pub fn check_plan(&self, plan: &EscrowPlan) -> Result<(), &'static str> {
        let told = &self.opened.escrow;
        let require = |holds: bool, rule: &'static str| if holds { Ok(()) } else { Err(rule) };
        require(plan.chain_id == told.chain_id && plan.contract == told.contract, "the escrow is not the batch's")?;
        require(plan.reserver == told.reserver, "the reserver is not the batch's")?;
        require(plan.releaser == told.releaser, "the releaser is not the batch's")?;
        let same_deadline = plan.fulfillment_deadline == told.fulfillment_deadline;
        require(same_deadline, "the fulfillment deadline is not the batch's")?;
        require(plan.reserve_deadline <= told.reserve_deadline, "the deposit may come after the fulfillment deadline")?;
        require(plan.refund_after >= told.refund_after, "the refund window opens before that of the batch")
    }
}

/// What the engine is to do for `batch`.
pub fn next(batch: &QuoteRequest) -> Step {
    match batch.stage() {
        Stage::Collecting => Step::GatherBids(Box::new(request_for_batch(&batch.opened))),
        Stage::Collected | Stage::Awarded => Step::Rest,
    }
}
