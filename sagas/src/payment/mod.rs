//! The payment as a pure state machine.

mod command;
mod decide;
mod evolve;
mod milestones;
mod times;

pub use command::Command;
pub use decide::{Rejected, decide};
pub use evolve::{IllegalTransition, evolve, fold};
pub use milestones::{Leg, Milestone, Milestones, Passed};
pub(crate) use times::written_at;

use events::{
    Amount, Did, Hash32, PaymentId,
    event::{
        AddressFunded, AddressHeld, AuctionClosed, CollectedDocument, EscrowOpened, EscrowRefunded, EscrowSecured,
        Failed, FulfillmentConfirmed, FulfillmentFinalized, Inclusion, MemberAttested, PayerStep, QuoteAwarded,
        RefundDue, ReservationLapsed, SelectorAsked, Submitted, TransactionPrepared, WithdrawalCause,
    },
    mutant,
    quote::{Quote, auction_of, reassignment_auction_of},
    selection::Choice,
    time::{Timestamp, from_unix_seconds, unix_seconds},
};

use crate::{
    auction::{
        ALTERNATES_MAX, AWARD_MARGIN_SECONDS, alternate_ends, next_alternate, request_for_quotes, takes_any_quote,
    },
    ports::{AwardEnd, Escrowed, RequestForQuotes, SelectionRequest},
};

/// Everything known about a payment: the fold of its events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Payment {
    /// What was accepted.
    pub submitted: Box<Submitted>,
    /// The money at the deposit address, once enough of it was seen there.
    pub funded: Option<AddressFunded>,
    /// The auction's outcome, once closed.
    pub auction: Option<AuctionClosed>,
    /// The quotes that the payer's selector is to choose from; gone once the outcome is known.
    pub offer: Option<Box<SelectorAsked>>,
    /// What the payer's selector chose.
    pub choice: Option<Box<Choice>>,
    /// The quotes that may be awarded in the winner's place, best first; gone once a deposit is signed for the winner, or the
    /// payment has failed.
    pub alternates: Vec<CollectedDocument>,
    /// The quote that won.
    pub award: Option<Box<Awarded>>,
    /// Settlers whose awards in the same auction lapsed before that.
    pub lapsed: Vec<Did>,
    /// Why the award was taken back, once it was.
    pub withdrawn: Option<WithdrawalCause>,
    /// Whether the winner is known to find that its award is over.
    pub winner_told: bool,
    /// Which of the payer's own transactions were sent.
    pub payer_sent: Vec<PayerStep>,
    /// The buyer's transfer to the address of its merchant's offer, once it is sent (ADR 160).
    pub transfer: Option<String>,
    /// The deposit transactions so far; where the payer's own transaction deposits, the reservations.
    pub deposit: Attempts,
    /// The block, not settled, in which the deposit under way was seen last.
    pub deposit_mined: Option<Inclusion>,
    /// The escrow, once funded at depth.
    pub secured: Option<EscrowSecured>,
    /// The escrow that the payer's own transaction funded and that nobody can be paid from any more, or that is reserved for an
    /// award that the journal lost.
    pub opened: Option<EscrowOpened>,
    /// What is at the deposit address of a payment that failed before its escrow, and goes back.
    pub held: Option<AddressHeld>,
    /// Whether it is proven, after a failure, that the payer's own transaction can't deposit any more, or that nothing is at the deposit
    /// address.
    pub ruled_out: bool,
    /// The reservations of this escrow that lapsed, in order: the last is the one that is on chain while it is to be reassigned.
    pub lapsed_reservations: Vec<LapsedReservation>,
    /// Whether the escrow is to be reassigned: its reservation lapsed, and it is not known to be reserved for another winner.
    pub is_reopened: bool,
    /// The reassignment transactions so far.
    pub reassignment: Attempts,
    /// The transaction that reassigned the escrow last.
    pub reassigned: Option<Inclusion>,
    /// Where the delivery was seen last.
    pub seen: Option<Inclusion>,
    /// The delivery at its depth, where that was recorded before it was attested.
    pub finalized: Option<Box<FulfillmentFinalized>>,
    /// The members of the verifier set that attested the delivery so far; none where a single verifier attests.
    pub attested_by: Vec<MemberAttested>,
    /// The members of the verifier set that attested so far that nothing was delivered.
    pub nondelivery_by: Vec<MemberAttested>,
    /// Whether it is on record that the attestation of the delivery, where it was seen last, has been missing for a while.
    pub attestation_awaited: bool,
    /// The delivery, once attested.
    pub confirmed: Option<Box<FulfillmentConfirmed>>,
    /// Whether the refund window opened before the delivery was attested.
    pub attestation_missed: bool,
    /// The gateway's own release transactions so far.
    pub release: Attempts,
    /// The transaction that released the escrow.
    pub released: Option<Inclusion>,
    /// The failure, once terminal.
    pub failed: Option<Box<Failed>>,
    /// The refund transactions so far.
    pub refund: Attempts,
    /// The return of the money.
    pub refunded: Option<EscrowRefunded>,
}

/// A quote that won, with its content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Awarded {
    /// The event.
    pub event: QuoteAwarded,
    /// What the document says.
    pub quote: Quote,
}

impl Awarded {
    /// Word to its settler that the award is over, and why, as a code.
    pub(crate) fn ended(&self, payment_id: &PaymentId, code: &str) -> AwardEnd {
        AwardEnd {
            settler: self.quote.settler.clone(),
            payment_id: payment_id.clone(),
            quote_hash: self.event.quote_hash,
            auction_id: self.quote.auction_id.clone(),
            code: code.to_owned(),
        }
    }
}

/// A reservation of the escrow that its settler did not deliver for in time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LapsedReservation {
    /// The event.
    pub event: ReservationLapsed,
    /// The quote that it was for.
    pub award: Box<Awarded>,
    /// The members of the verifier set that attested that nothing was delivered; none where a single verifier attests.
    pub nondelivery_by: Vec<MemberAttested>,
    /// Attempts at reassigning the escrow before it lapsed.
    pub attempts_before: u32,
}

/// By how much of the winner's price another may be dearer for the deposit to leave room for it, as a power of two: a sixteenth.
pub const NEXT_PRICE_MARGIN: usize = 4;

/// Most attempts at reassigning the escrow of a payment, over all its reservations. Each costs gas.
pub const REASSIGNMENT_ATTEMPTS_MAX: u32 = 16;

/// Most versions of one attempt: the first and its replacements with higher fees.
pub const VERSIONS_MAX: usize = 8;

/// Most attempts at one deposit. Each costs gas when it comes to nothing, and a deposit that failed so often fails again.
pub const DEPOSIT_ATTEMPTS_MAX: u32 = 8;

/// The attempts at one transaction: at most one is alive.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Attempts {
    /// Attempts so far.
    pub count: u32,
    /// All versions of the attempt that may still land, oldest and cheapest first; empty when there is none. They share
    /// attempt, chain, sender and nonce, so at most one of them lands, and it may be any. Without a nonce there is one version.
    pub live: Vec<TransactionPrepared>,
}

impl Attempts {
    /// The version that is broadcast, when an attempt is alive: the newest.
    pub fn newest(&self) -> Option<&TransactionPrepared> {
        self.live.last()
    }
}

/// Where a payment stands, derived from what is known about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// The money is awaited at the deposit address.
    Funding,
    /// Quotes are being collected.
    Auction,
    /// A quote won; no deposit is under way.
    Awarded,
    /// A deposit is under way.
    Depositing,
    /// The funds are in escrow and the delivery is awaited.
    Secured,
    /// The reservation lapsed, and quotes are collected anew.
    Reopened,
    /// A quote won then; no reassignment of the escrow is under way.
    Reawarded,
    /// The reassignment is under way.
    Reassigning,
    /// The delivery was seen and is accruing depth.
    Finalizing,
    /// Delivered for good; the attestation that pays the settler is awaited.
    Attesting,
    /// Delivered for good and attested; the settler has yet to be paid, or else, once the escrow takes no release any more,
    /// the payer.
    Completed,
    /// Failed before the escrow, and the winner is yet to be told.
    Withdrawn,
    /// Failed before the escrow, with a transaction of the payer's that may still deposit, or a deposit address where money may be.
    Watching,
    /// Money is still in escrow, or at the deposit address, that can only go back to the payer: failed, or delivered and not attested in time.
    Refunding,
    /// Nothing is left to do.
    Rest,
}

impl Payment {
    /// Whether this transaction is the deposit under way: the payer's own, or one of the gateway's.
    fn is_deposit_under_way(&self, transaction_hash: &str) -> bool {
        let own = self.submitted.authorization.payer_transaction(PayerStep::Deposit);
        own.is_some_and(|own| own.transaction_hash == transaction_hash)
            || self.deposit.live.iter().any(|version| version.transaction_hash == transaction_hash)
    }

    /// Whether money of the payment may lie at an address outside of its escrow.
    pub(crate) fn leaves_money_outside(&self) -> bool {
        self.submitted.authorization.leaves_money_outside() || self.transfer.is_some()
    }

    /// Whether the payer has signed a transaction for `step` that may have this hash.
    fn has_signed(&self, step: PayerStep, transaction_hash: &str) -> bool {
        let authorization = &self.submitted.authorization;
        match step {
            // Its hash is a signature of the gateway's account.
            PayerStep::Transfer => authorization.purchase().is_some(),
            PayerStep::Approval | PayerStep::Deposit => {
                let own = authorization.payer_transaction(step);
                own.is_some_and(|own| own.transaction_hash == transaction_hash)
            }
        }
    }

    /// What the payer's selector is to be asked; `None` when the quotes are not there yet, or it chose.
    pub fn selection(&self) -> Option<SelectionRequest> {
        let (selector, auction, offer) =
            (self.submitted.selector.as_ref()?, self.auction.as_ref()?, self.offer.as_ref()?);
        if self.choice.is_some() {
            return None;
        }
        let RequestForQuotes { auction_id, terms, terms_hash, quote_deadline, .. } = self.first_request();
        Some(SelectionRequest {
            selector: selector.key,
            auction_id,
            terms,
            terms_hash,
            quote_deadline,
            answer_by: selector.answer_by,
            quotes: auction.quotes.iter().map(|quote| quote.quote_hash).collect(),
            documents: offer.documents.clone(),
        })
    }

    /// The quote that is awarded at `at` if the winner is lost: the best of those that last, while the deposit's window is open, or
    /// the delivery's where the money is in escrow.
    pub fn next_quote(&self, at: Timestamp) -> Option<&CollectedDocument> {
        let window_open = unix_seconds(at) < self.award_deadline();
        let quotes = self.auction.as_ref().filter(|_| window_open).map(|auction| &auction.quotes)?;
        next_alternate(&self.alternates, quotes, at)
    }

    /// Until when the winner can be replaced: [`Payment::next_quote`] is there before that, and not from then on. `None` where no
    /// quote follows.
    pub fn replaceable_until(&self) -> Option<Timestamp> {
        let quotes = self.auction.as_ref().map(|auction| &auction.quotes)?;
        let last = self.alternates.iter().filter_map(|alternate| alternate_ends(alternate, quotes)).max()?;
        let seconds = unix_seconds(last).saturating_sub(AWARD_MARGIN_SECONDS).saturating_add(1);
        from_unix_seconds(seconds.min(self.award_deadline()))
    }

    /// The UNIX second from which on nobody else can win.
    fn award_deadline(&self) -> u64 {
        let escrow = &self.submitted.escrow;
        if self.is_reopened { escrow.fulfillment_deadline } else { escrow.reserve_deadline }
    }

    /// What is worth depositing for `award`, smallest unit of the source asset: what the dearest of the quotes asks for that come
    /// next and are at most a sixteenth dearer ([`NEXT_PRICE_MARGIN`]), so that the escrow can be reassigned to each of them; at least what `award` asks for, and never more than the payer permitted,
    /// because no quote counts that asks for more. Just what `award` asks for where the payer chose the quote; all that is permitted
    /// where no less can be drawn.
    pub fn deposit_up_to(&self, award: &Awarded) -> Amount {
        if let Some(whole) = self.drawn_whole() {
            return whole;
        }
        let price = award.quote.source_amount;
        let quotes = self.auction.iter().filter(|_| takes_any_quote(&self.submitted)).flat_map(|closed| &closed.quotes);
        let next = quotes.skip_while(|quote| quote.quote_hash != award.event.quote_hash).skip(1).take(ALTERNATES_MAX);
        // What is beyond that says more of who asks for it than of the market, and the payer's money would be locked for it.
        let most = price.get().saturating_add(price.get() >> NEXT_PRICE_MARGIN);
        next.map(|quote| quote.source_amount).filter(|amount| amount.get() <= most).fold(price, Amount::max)
    }

    /// All that is deposited, whatever the award asks for, where no less can be: what is permitted, or what is at the deposit address.
    pub fn drawn_whole(&self) -> Option<Amount> {
        let at_address = self.funded.as_ref().map(|funded| funded.amount);
        at_address.or_else(|| self.submitted.authorization.drawn_whole())
    }

    /// The reservation that is on chain and has lapsed, while the escrow is to be reassigned.
    pub fn reopened(&self) -> Option<&LapsedReservation> {
        self.lapsed_reservations.last().filter(|_| self.is_reopened)
    }

    /// Whether a reassignment to the winner was signed while the escrow is to be reassigned. Its call is open to everyone who saw it
    /// up to the winner's promise, so the winner is not passed over any more, whatever became of the transaction.
    pub fn is_reassignment_signed(&self) -> bool {
        self.reopened().is_some_and(|lapsed| self.reassignment.count > lapsed.attempts_before)
    }

    /// The auction that is under way, or was the last.
    pub fn auction_id(&self) -> String {
        match self.lapsed_reservations.len() {
            0 => auction_of(&self.submitted.payment_id),
            round => reassignment_auction_of(&self.submitted.payment_id, round),
        }
    }

    /// The request for quotes of that auction.
    pub fn request_for_quotes(&self) -> RequestForQuotes {
        let request = self.first_request();
        let (Some(lapsed), Some(secured)) = (self.lapsed_reservations.last(), &self.secured) else { return request };
        let escrowed = Escrowed { amount: secured.amount, reserved_for: lapsed.event.quote_hash };
        let faded = self.lapsed_reservations.iter().map(|lapsed| lapsed.event.settler.clone());
        let faded = faded.filter(|_| !mutant!("faded-settler-wins-again"));
        RequestForQuotes {
            auction_id: self.auction_id(),
            quote_deadline: lapsed.event.quote_deadline,
            blacklist: request.blacklist.into_iter().chain(faded).collect(),
            escrowed: Some(escrowed),
            ..request
        }
    }

    /// The request for quotes of the first auction; with a deposit address it begins when the money is there.
    fn first_request(&self) -> RequestForQuotes {
        let request = request_for_quotes(&self.submitted);
        match &self.funded {
            Some(funded) => RequestForQuotes { quote_deadline: funded.quote_deadline, ..request },
            None => request,
        }
    }

    /// Whether the escrow may be reassigned when its reservation lapses at `at` and quotes are collected until `quote_deadline`: the
    /// payer left the quote open, and there is time left, and an attempt.
    pub fn may_reopen(&self, at: Timestamp, quote_deadline: Timestamp) -> bool {
        takes_any_quote(&self.submitted)
            && self.reassignment.count < REASSIGNMENT_ATTEMPTS_MAX
            && quote_deadline > at
            && unix_seconds(quote_deadline).saturating_add(AWARD_MARGIN_SECONDS)
                < self.submitted.escrow.fulfillment_deadline
    }

    /// The settlers whose quotes may be awarded in the winner's place.
    pub fn waiting_settlers(&self) -> Vec<Did> {
        let quotes = self.auction.iter().flat_map(|auction| &auction.quotes);
        let waits = |hash: Hash32| self.alternates.iter().any(|alternate| alternate.quote_hash == hash);
        quotes.filter(|quote| waits(quote.quote_hash)).map(|quote| quote.settler.clone()).collect()
    }

    /// Whether the payer's own transaction may still bring money into escrow after the payment has failed. With an award that
    /// stood, the failure itself rests on the proof that nothing can. Money at a deposit address, or drawn for a batch, is there whatever
    /// was proven.
    fn may_still_deposit(&self) -> bool {
        if self.leaves_money_outside() {
            return !self.ruled_out;
        }
        let proven = match &self.withdrawn {
            Some(WithdrawalCause::Refused { .. } | WithdrawalCause::Unanswered) => false,
            Some(WithdrawalCause::NotDeposited) | None => self.award.is_some(),
        };
        self.submitted.authorization.is_payer_deposit() && !proven && !self.ruled_out
    }

    /// What is true of the payer's money when the payment fails before its escrow, for the failure's message.
    pub(crate) fn untaken(&self) -> &'static str {
        match &self.submitted.authorization {
            // It may be on its way.
            own if own.is_payer_deposit() => "a deposit that lands all the same goes back",
            address if address.deposit_address().is_some() => "what is at the deposit address goes back",
            _ if self.transfer.is_some() => "what the buyer has paid goes to the merchant, on the chain it was paid on",
            batch if batch.leaves_money_outside() => "what was drawn for it with its batch goes back",
            _ => "nothing was taken from the payer",
        }
    }

    /// The delivery, once it has its depth; the payment is completed then (spec 3.1).
    pub fn delivery(&self) -> Option<&Inclusion> {
        let attested = self.confirmed.as_ref().map(|confirmed| &confirmed.inclusion);
        attested.or(self.finalized.as_ref().map(|finalized| &finalized.inclusion))
    }

    /// Whether the escrow may be driven back to the payer: it is to be returned, or it was to be released and no release of the
    /// gateway's is under way. The escrow takes such a refund only when it takes no release any more.
    fn may_refund(&self, stage: Stage) -> bool {
        match stage {
            Stage::Refunding => true,
            Stage::Completed => self.release.live.is_empty(),
            _ => false,
        }
    }

    /// Whether the gateway may release: once it began to refund, the escrow takes none.
    fn may_release(&self, stage: Stage) -> bool {
        stage == Stage::Completed && self.refund.count == 0
    }

    /// Where the payment stands.
    pub fn stage(&self) -> Stage {
        if self.released.is_some() || self.refunded.is_some() {
            return Stage::Rest;
        }
        if let Some(failed) = &self.failed {
            return match failed.refund {
                _ if self.opened.is_some() || self.held.is_some() && !self.ruled_out => Stage::Refunding,
                RefundDue::Nothing if self.withdrawn.is_some() && !self.winner_told => Stage::Withdrawn,
                RefundDue::Nothing if self.may_still_deposit() => Stage::Watching,
                RefundDue::Nothing => Stage::Rest,
                RefundDue::ByNonDelivery { .. } | RefundDue::AfterWindow => Stage::Refunding,
            };
        }
        if self.delivery().is_some() && !mutant!("completed-is-not-terminal") {
            match &self.confirmed {
                Some(_) => Stage::Completed,
                None if self.attestation_missed => Stage::Refunding,
                None => Stage::Attesting,
            }
        } else if self.is_reopened {
            match &self.award {
                None => Stage::Reopened,
                Some(_) if self.reassignment.live.is_empty() => Stage::Reawarded,
                Some(_) => Stage::Reassigning,
            }
        } else if self.secured.is_some() {
            if self.seen.is_some() { Stage::Finalizing } else { Stage::Secured }
        } else if self.award.is_some() {
            if !self.deposit.live.is_empty() { Stage::Depositing } else { Stage::Awarded }
        } else if self.submitted.authorization.deposit_address().is_some() && self.funded.is_none() {
            Stage::Funding
        } else {
            Stage::Auction
        }
    }
}
