//! The fold: how a payment's events change its view.

use events::{
    Amount, ChainId, Did, PaymentEvent,
    event::{
        AddressHeld, AuctionClosed, AwardWithdrawn, Claim, EscrowOpened, EscrowSecured, Failed, FulfillmentConfirmed,
        Inclusion, PayerStep, PayerTransactionSent, QuoteAwarded, RefundDue, ReservationLapsed, Submitted,
        TransactionPrepared, WithdrawalCause,
    },
    failure::BlockchainContext,
    mutant,
    quote::SignedQuote,
    time::from_unix_seconds,
};
use journal::Recorded;

use super::{
    Applied, AwardProgress, AwardStep, AwardedQuote, Confirmation, DeclineCount, LapsedQuote, PaymentStatus,
    PaymentView, RefundOwed, Reopened, ShownAddress, Transaction,
};

impl PaymentView {
    /// The view of a payment with these commits, from the first on; `None` when there is none, or when the first one
    /// does not begin with [`PaymentEvent::Submitted`]. Folding stops before a missing commit.
    pub fn fold(commits: &[Recorded]) -> Option<Self> {
        let (first, rest) = commits.split_first()?;
        let mut view = Self::begin(first)?;
        for recorded in rest {
            if view.apply(recorded) == Applied::Gap {
                break;
            }
        }
        Some(view)
    }

    /// The view after a payment's first commit; `None` when this is not one.
    pub fn begin(first: &Recorded) -> Option<Self> {
        Self::begin_telling(first, |_, _, _| {})
    }

    /// As [`PaymentView::begin`], and tells what became of awards in that commit.
    pub(crate) fn begin_telling(first: &Recorded, mut tell: impl FnMut(&Did, &str, AwardStep)) -> Option<Self> {
        let mut events = first.payment_events();
        let PaymentEvent::Submitted(submitted) = events.next()? else { return None };
        if first.position.version != 1 {
            return None;
        }
        let mut view = Self::submitted(submitted, first);
        for event in events {
            view.follow_award(event, first, &mut tell);
            view.evolve(event);
        }
        Some(view)
    }

    /// Takes in one commit. A commit at or below the view's version is skipped, so that repeating is harmless.
    pub fn apply(&mut self, recorded: &Recorded) -> Applied {
        self.apply_telling(recorded, |_, _, _| {})
    }

    /// As [`PaymentView::apply`], and tells what became of awards in that commit.
    pub(crate) fn apply_telling(
        &mut self,
        recorded: &Recorded,
        mut tell: impl FnMut(&Did, &str, AwardStep),
    ) -> Applied {
        if recorded.stream_id.payment() != Some(&self.payment_id) || recorded.position.version <= self.version {
            return Applied::Skipped;
        }
        if recorded.position.version != self.version + 1 {
            return Applied::Gap;
        }
        let mut changed = false;
        let skipped = mutant!("projection-skips-a-commit") && self.version == 3;
        for event in recorded.payment_events().filter(|_| !skipped) {
            self.follow_award(event, recorded, &mut tell);
            changed |= self.evolve(event);
        }
        if changed {
            self.updated_at = recorded.stored_at;
        }
        self.version = recorded.position.version;
        self.sequence = recorded.position.sequence;
        Applied::Next
    }

    /// The winner of the auction; `None` while there is none.
    pub fn settler(&self) -> Option<Did> {
        let signed = SignedQuote::parse_stored(&self.quote.as_ref()?.document).ok()?;
        Some(signed.quote().settler.clone())
    }

    /// Whether a payment that failed was paid to its merchant all the same, on the chain that its buyer paid on: what a buyer has sent to a
    /// merchant's offer on Solana is the merchant's (ADR 160).
    pub fn is_paid_at_source(&self) -> bool {
        let went_there = self.refund.as_ref().is_some_and(|refund| refund.block_number.is_some());
        self.status == PaymentStatus::Failed && self.transfer.is_some() && went_there
    }

    /// Whether the merchant of a stock client's purchase is paid: where it asked to be, or on the chain that its buyer paid on.
    pub fn is_merchant_paid(&self) -> bool {
        self.status == PaymentStatus::Completed || self.is_paid_at_source()
    }

    /// Whether a payment that failed may still be paid so.
    pub fn may_be_paid_at_source(&self) -> bool {
        self.status == PaymentStatus::Failed && self.transfer.is_some() && !self.at_rest && !self.is_paid_at_source()
    }

    /// Whether the payer's own transaction deposits, which anyone who holds it can send.
    pub fn is_payer_deposit(&self) -> bool {
        self.own_deposit.is_some()
    }

    /// Whether the block that is shown of the deposit is settled (spec 2.7: until then it is provisional).
    pub fn deposit_settled(&self) -> bool {
        self.escrowed.is_some() || self.status == PaymentStatus::Failed
    }

    /// The confirmation; present exactly when the payment is completed.
    pub fn confirmation(&self) -> Option<Confirmation<'_>> {
        if self.status != PaymentStatus::Completed {
            return None;
        }
        let (source, destination) = (self.deposit.as_ref()?, self.fulfillment.as_ref()?);
        Some(Confirmation { source, destination, fulfillment_timestamp: self.fulfilled_at })
    }

    fn submitted(submitted: &Submitted, recorded: &Recorded) -> Self {
        let own_deposit = submitted.authorization.payer_transaction(PayerStep::Deposit);
        Self {
            payment_id: submitted.payment_id.clone(),
            request_id: submitted.request_id.clone(),
            originator: submitted.originator.clone(),
            source: submitted.terms.source.clone(),
            terms_hash: submitted.terms_hash,
            submitted_at: submitted.submitted_at,
            status: PaymentStatus::Pending,
            updated_at: recorded.stored_at,
            quote_request_id: submitted.collected_quote.as_ref().map(|collected| collected.quote_request_id.clone()),
            requested_count: None,
            declines: None,
            quote: None,
            award: None,
            deposit: None,
            transfer: None,
            reservation: None,
            reassignment: None,
            lapsed: Vec::new(),
            reopened: None,
            fulfillment: None,
            fulfilled_at: None,
            verifier: submitted.verifier.clone(),
            unattested: false,
            release: None,
            failure: None,
            refund: None,
            claims: Vec::new(),
            escrow_contract: submitted.escrow.contract.to_string(),
            windows: (&submitted.escrow).into(),
            permitted: submitted.authorization.permitted(),
            escrowed: None,
            own_deposit: own_deposit.map(|own| own.transaction_hash.clone()),
            leaves_money_outside: submitted.authorization.leaves_money_outside(),
            winner_untold: false,
            deposit_address: submitted.authorization.deposit_address().map(|given| ShownAddress {
                given: given.clone(),
                received: None,
                reserver: submitted.escrow.reserver.clone(),
            }),
            watched: submitted.authorization.is_payer_deposit() || submitted.authorization.leaves_money_outside(),
            failed_at: None,
            refund_owed: None,
            at_rest: false,
            version: recorded.position.version,
            sequence: recorded.position.sequence,
        }
    }

    /// Takes in one event and says whether anything that the responses show has changed (spec 2.11, `updated_at`).
    fn evolve(&mut self, event: &PaymentEvent) -> bool {
        match event {
            // A payment is submitted once; its first commit made this view.
            PaymentEvent::Submitted(_)
            | PaymentEvent::SelectorAsked(_)
            | PaymentEvent::SelectorAnswered(_)
            | PaymentEvent::DeliveryAttested(_)
            | PaymentEvent::NonDeliveryAttested(_)
            | PaymentEvent::ReassignmentAbandoned(_)
            | PaymentEvent::ReleaseAbandoned(_)
            | PaymentEvent::RefundAbandoned(_) => false,
            PaymentEvent::AddressFunded(funded) => self.received(funded.amount),
            PaymentEvent::AddressHeld(held) => self.held(held),
            PaymentEvent::DepositAbandoned(_) => self.deposit_is_in_no_block(),
            PaymentEvent::DepositRuledOut(_) => self.deposit_ruled_out(),
            // The award that follows in the same commit is what is shown.
            PaymentEvent::AwardLapsed(_) => false,
            PaymentEvent::AwardWithdrawn(withdrawn) => self.award_withdrawn(withdrawn),
            PaymentEvent::WinnerTold(_) => self.winner_told(),
            PaymentEvent::EscrowOpened(opened) => self.opened(opened),
            PaymentEvent::AuctionClosed(closed) => self.auction_closed(closed),
            PaymentEvent::QuoteAwarded(awarded) => self.awarded(awarded),
            PaymentEvent::PayerTransactionSent(sent) => self.payer_sent(sent),
            PaymentEvent::DepositPrepared(prepared) | PaymentEvent::DepositRepriced(prepared) => {
                self.deposit_prepared(prepared)
            }
            PaymentEvent::DepositMined(mined) => self.deposit_mined(&mined.inclusion),
            PaymentEvent::EscrowSecured(secured) => self.secured(secured),
            PaymentEvent::ReservationLapsed(lapsed) => self.reservation_lapsed(lapsed),
            PaymentEvent::ReassignmentPrepared(prepared) | PaymentEvent::ReassignmentRepriced(prepared) => {
                replace(&mut self.reassignment, Some(prepared.into()))
            }
            PaymentEvent::EscrowReassigned(reassigned) => {
                self.reopened = None;
                replace(&mut self.reassignment, Some((&reassigned.inclusion).into()))
            }
            // Those that change the status do so while it is not final.
            PaymentEvent::FulfillmentSeen(_) | PaymentEvent::FulfillmentFinalized(_) | PaymentEvent::Failed(_)
                if self.status.is_final() =>
            {
                false
            }
            PaymentEvent::FulfillmentSeen(seen) => self.delivered(&seen.inclusion, PaymentStatus::Finalizing),
            PaymentEvent::FulfillmentFinalized(finalized) => {
                let changed = self.completed(&finalized.inclusion);
                self.unattested = true;
                changed
            }
            PaymentEvent::AttestationAwaited(_) => {
                self.unattested = true;
                false
            }
            PaymentEvent::FulfillmentConfirmed(confirmed) => self.confirmed(confirmed),
            PaymentEvent::AttestationMissed(missed) => {
                self.refund_owed = Some(RefundOwed { since: missed.missed_at, after_window: true });
                false
            }
            PaymentEvent::Failed(failed) => self.failed(failed),
            PaymentEvent::RefundPrepared(prepared) | PaymentEvent::RefundRepriced(prepared) => {
                self.refund = Some(prepared.into());
                if self.status == PaymentStatus::Completed && self.refund_owed.is_none() {
                    // Attested, and not released before the escrow took no release any more.
                    self.refund_owed = Some(RefundOwed { since: prepared.prepared_at, after_window: true });
                }
                false
            }
            PaymentEvent::EscrowRefunded(refunded) => {
                self.refund = Some((&refunded.inclusion).into());
                self.escrow_ended(&refunded.claims)
            }
            PaymentEvent::ReleasePrepared(prepared) | PaymentEvent::ReleaseRepriced(prepared) => {
                self.release = Some(prepared.into());
                false
            }
            PaymentEvent::EscrowReleased(released) => {
                self.release = Some((&released.inclusion).into());
                self.escrow_ended(&released.claims)
            }
        }
    }

    /// The payer's own deposit, or its transfer, is shown from now on; an approval is the timeline's to show.
    fn payer_sent(&mut self, sent: &PayerTransactionSent) -> bool {
        let (chain_id, transaction_hash) = (sent.chain_id.clone(), sent.transaction_hash.clone());
        let transaction = Transaction { chain_id, transaction_hash, block_number: None };
        match sent.step {
            PayerStep::Approval => false,
            PayerStep::Deposit => replace(&mut self.deposit, Some(transaction)),
            PayerStep::Transfer => {
                (self.leaves_money_outside, self.watched) = (true, true);
                replace(&mut self.transfer, Some(Box::new(transaction)))
            }
        }
    }

    fn deposit_prepared(&mut self, prepared: &TransactionPrepared) -> bool {
        if self.own_deposit.is_none() {
            return replace(&mut self.deposit, Some(prepared.into()));
        }
        // It is on chain before it is reserved, whoever sent it.
        let is_new = self.show_own_deposit(&prepared.chain_id, None);
        replace(&mut self.reservation, Some(prepared.into())) || is_new
    }

    /// Shows the payer's own deposit where nothing else is shown as one.
    fn show_own_deposit(&mut self, chain_id: &ChainId, block_number: Option<u64>) -> bool {
        let Some(transaction_hash) = self.own_deposit.clone().filter(|_| self.deposit.is_none()) else { return false };
        self.deposit = Some(Transaction { chain_id: chain_id.clone(), transaction_hash, block_number });
        true
    }

    fn deposit_mined(&mut self, inclusion: &Inclusion) -> bool {
        let is_reservation = self.own_deposit.as_ref().is_some_and(|own| *own != inclusion.transaction_hash);
        let shown = if is_reservation { &mut self.reservation } else { &mut self.deposit };
        replace(shown, Some(inclusion.into()))
    }

    /// The blocks that were seen to hold the deposit and its reservation do not hold them any more.
    fn deposit_is_in_no_block(&mut self) -> bool {
        let taken = |shown: &mut Option<Transaction>| shown.as_mut().is_some_and(|of| of.block_number.take().is_some());
        let [deposit, reservation] = [&mut self.deposit, &mut self.reservation].map(taken);
        deposit || reservation
    }

    /// So much is at the deposit address.
    fn received(&mut self, amount: Amount) -> bool {
        self.deposit_address.as_mut().is_some_and(|address| replace(&mut address.received, Some(amount)))
    }

    /// After a failure there is money at the deposit address, which is about to go back.
    fn held(&mut self, held: &AddressHeld) -> bool {
        self.refund_owed = Some(RefundOwed { since: held.held_at, after_window: false });
        (self.watched, self.at_rest) = (false, false);
        self.received(held.amount)
    }

    /// The failure before it says that the payer deposit is still watched.
    fn deposit_ruled_out(&mut self) -> bool {
        self.watched = false;
        self.refund_owed = None;
        // Whatever was signed to give back what was at a deposit address did not land.
        self.refund = None;
        self.at_rest = true;
        false
    }

    fn award_withdrawn(&mut self, withdrawn: &AwardWithdrawn) -> bool {
        self.winner_untold = true;
        self.watched =
            self.leaves_money_outside || self.is_payer_deposit() && withdrawn.cause != WithdrawalCause::NotDeposited;
        false
    }

    fn winner_told(&mut self) -> bool {
        self.winner_untold = false;
        self.at_rest = !self.watched;
        false
    }

    fn secured(&mut self, secured: &EscrowSecured) -> bool {
        // What was provisional is settled, which is shown, too.
        let settled = replace(&mut self.escrowed, Some(secured.amount));
        let inclusion = Some((&secured.inclusion).into());
        if self.own_deposit.is_none() {
            return replace(&mut self.deposit, inclusion) || settled;
        }
        let deposited = match secured.deposit.as_deref() {
            Some(own) => replace(&mut self.deposit, Some(own.into())),
            // Gateways that did not record it told of the reservation alone.
            None => self.show_own_deposit(&secured.inclusion.chain_id, None),
        };
        replace(&mut self.reservation, inclusion) || deposited || settled
    }

    /// The settler did not deliver, and whatever was taken for its delivery is on chain no more.
    fn reservation_lapsed(&mut self, lapsed: &ReservationLapsed) -> bool {
        let quote = self.quote.clone().filter(|quote| quote.quote_hash == lapsed.quote_hash);
        self.lapsed.push(LapsedQuote {
            settler: lapsed.settler.clone(),
            quote_id: quote.as_ref().map(|quote| quote.quote_id.clone()).unwrap_or_default(),
            quote_hash: lapsed.quote_hash,
        });
        self.reopened = Some(Reopened { since: lapsed.lapsed_at, quote, is_awarded: false });
        self.unattested = false;
        let gone = replace(&mut self.fulfillment, None);
        replace(&mut self.status, PaymentStatus::Pending) || gone
    }

    /// The delivery has its depth: the status follows the chain (spec 3.1).
    fn completed(&mut self, inclusion: &Inclusion) -> bool {
        let fulfilled = replace(&mut self.fulfilled_at, from_unix_seconds(inclusion.block_time));
        self.delivered(inclusion, PaymentStatus::Completed) || fulfilled
    }

    /// The settler can be paid. Payments that were not completed before are now.
    fn confirmed(&mut self, confirmed: &FulfillmentConfirmed) -> bool {
        self.unattested = false;
        !self.status.is_final() && self.completed(&confirmed.inclusion)
    }

    fn auction_closed(&mut self, closed: &AuctionClosed) -> bool {
        self.declines = Some(DeclineCount::of(&closed.declines));
        self.requested_count = Some(closed.addressed.len() as u64);
        true
    }

    fn follow_award(&mut self, event: &PaymentEvent, commit: &Recorded, tell: &mut impl FnMut(&Did, &str, AwardStep)) {
        let step = match event {
            PaymentEvent::QuoteAwarded(awarded) => {
                self.award = AwardProgress::begin(awarded, commit, self.award.take());
                Some(AwardStep::Won { at: awarded.awarded_at })
            }
            _ => {
                // Quotes of batches hold nothing.
                let is_bound = self.quote_request_id.is_none();
                let is_reopened = self.reopened.is_some();
                self.award.as_mut().and_then(|award| award.take_in(event, is_bound, is_reopened))
            }
        };
        if let (Some(step), Some(award)) = (step, &mut self.award) {
            let originator = self.originator.as_str();
            tell(&award.settler, originator, step);
            if step == AwardStep::Acknowledged {
                let overtaken = AwardStep::Overtaken { at: award.awarded_at };
                // Told once, though others may acknowledge awards of the same payment later.
                std::mem::take(&mut award.silent).iter().for_each(|silent| tell(silent, originator, overtaken));
            }
        }
    }

    fn awarded(&mut self, awarded: &QuoteAwarded) -> bool {
        self.quote = Some(AwardedQuote {
            quote_id: awarded.quote_id.clone(),
            quote_hash: awarded.quote_hash,
            document: awarded.document.clone(),
        });
        // A failure from here on rests on the proof, unless the winner is lost. What is at a deposit address, or a batch's, stays there.
        self.watched = self.leaves_money_outside;
        if let Some(reopened) = &mut self.reopened {
            reopened.is_awarded = true;
        }
        true
    }

    fn delivered(&mut self, inclusion: &Inclusion, status: PaymentStatus) -> bool {
        self.unattested = false;
        let moved = replace(&mut self.fulfillment, Some(inclusion.into()));
        replace(&mut self.status, status) || moved
    }

    fn escrow_ended(&mut self, claims: &[Claim]) -> bool {
        self.at_rest = true;
        replace(&mut self.claims, claims.to_vec())
    }

    /// The payer deposit is there and can only go back. It may be found before the failure or after it.
    fn opened(&mut self, opened: &EscrowOpened) -> bool {
        self.escrowed = Some(opened.amount);
        if let Some(failed_at) = self.failed_at {
            self.refund_owed = Some(RefundOwed { since: failed_at, after_window: true });
            self.at_rest = false;
        }
        replace(&mut self.deposit, Some((&opened.inclusion).into()))
    }

    fn failed(&mut self, failed: &Failed) -> bool {
        self.status = PaymentStatus::Failed;
        if let Some(Reopened { quote: Some(quote), .. }) = self.reopened.take() {
            // Whoever won in its place has nothing in escrow.
            self.quote = Some(quote);
        }
        self.failed_at = Some(failed.failed_at);
        self.at_rest = failed.refund == RefundDue::Nothing && !self.watched && !self.winner_untold;
        let after_window = match &failed.refund {
            RefundDue::Nothing => None,
            RefundDue::ByNonDelivery { .. } => Some(false),
            RefundDue::AfterWindow => Some(true),
        };
        let since = failed.failed_at;
        self.refund_owed = after_window.map(|after_window| RefundOwed { since, after_window });
        self.failure = Some(failed.failure.clone());
        if self.escrowed.is_none() {
            self.deposit_is_in_no_block();
        }
        if let Some(context) = &failed.failure.blockchain_context
            && failed.refund == RefundDue::Nothing
        {
            self.deposit_reverted(context);
        }
        true
    }

    /// A deposit that reverted was mined, and its failure is the only place that says in which block, and which of its versions
    /// it was.
    fn deposit_reverted(&mut self, context: &BlockchainContext) {
        let Some(mined) = &context.transaction_hash else { return };
        match &self.own_deposit {
            // The payer may have sent it without the gateway.
            Some(own) if own == mined => {
                self.deposit = None;
                self.show_own_deposit(&context.chain_id, context.block_number);
            }
            Some(_) => {}
            None => {
                if let Some(deposit) = self.deposit.as_mut().filter(|deposit| deposit.chain_id == context.chain_id) {
                    deposit.transaction_hash.clone_from(mined);
                    deposit.block_number = context.block_number;
                }
            }
        }
    }
}

/// Sets `shown` to `value` and says whether that is another one.
fn replace<T: PartialEq>(shown: &mut T, value: T) -> bool {
    let changed = *shown != value;
    *shown = value;
    changed
}
