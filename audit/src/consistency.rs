//! Consistency of a stream with itself: ids, hashes, signatures of settlers, the choice of the winner, windows, that the escrow was
//! reassigned by the rules, and that what verifiers said together is what each of them said. No chain is asked.

pub(super) mod reassignment;
mod verifiers;

use events::{
    Amount, Event, Failure, Hash32, PaymentEvent, PaymentId, StreamId,
    event::{EscrowPlan, QuoteReceived, RefundDue},
    quote::SignedQuote,
    time::{Timestamp, from_unix_seconds, unix_seconds},
};
use identity::{OriginatorCheck, check_originator};
use journal::Recorded;
use sagas::{
    auction::{check_content, next_alternate, request_for_batch, request_for_quotes},
    payment::Payment,
    quote_request::QuoteRequest,
};

use super::{
    Finding, JournalLocation, Severity,
    examine::{Examined, State},
    rounds::{self, Round, request_of},
};

/// The findings in a stream that was examined without a fault.
pub fn check(examined: &Examined) -> Vec<Finding> {
    let mut consistency = Consistency { examined, findings: Vec::new() };
    match &examined.state {
        Some(State::Payment(payment)) => consistency.payment(payment),
        Some(State::Batch(batch)) => consistency.batch(batch),
        None => {}
    }
    consistency.findings
}

struct Consistency<'a> {
    examined: &'a Examined,
    findings: Vec<Finding>,
}

impl Consistency<'_> {
    fn require(&mut self, holds: bool, check: &str, event: &str, what: impl FnOnce() -> String) {
        if !holds {
            self.contradicts(check, self.examined.location_of(event), what());
        }
    }

    fn contradicts(&mut self, check: &str, location: JournalLocation, what: String) {
        self.findings.push(Finding::new(Severity::Contradiction, check, location, what));
    }

    fn is_subject(&mut self, id: &StreamId, event: &str) {
        let own = self.examined.commits.first().map(|commit| commit.stream_id.clone());
        self.require(own.as_ref() == Some(id), "id", event, || format!("the stream tells of {id}"));
    }

    fn payment(&mut self, payment: &Payment) {
        let submitted = &payment.submitted;
        let derived = PaymentId::derive(&submitted.originator, &submitted.request_id);
        self.is_subject(&StreamId::from(&submitted.payment_id), "Submitted");
        self.require(derived == submitted.payment_id, "id", "Submitted", || {
            format!("originator and request_id make {derived}, not {}", submitted.payment_id)
        });
        let verified_at = submitted.identities.first().map_or(submitted.submitted_at, |proven| proven.verified_at);
        // Of a purchase whose source is the merchant's account it is the buyer, who signed.
        let payer = submitted.authorization.drawn_from(submitted.terms.source.account());
        let account = payer.originator();
        self.originator(&submitted.request, &submitted.originator, &account, verified_at, "Submitted");
        let terms_hash = submitted.terms.hash();
        self.require(terms_hash == submitted.terms_hash, "terms-hash", "Submitted", || {
            format!("the terms hash to {terms_hash}, not to {}", submitted.terms_hash)
        });
        let collected = submitted.collected_quote.is_some();
        self.windows(&submitted.escrow, "Submitted");
        self.verifier(&submitted.verifier, &submitted.escrow, "Submitted");
        let deadlines = [unix_seconds(submitted.quote_deadline), unix_seconds(submitted.fulfillment_deadline)];
        let plan = &submitted.escrow;
        self.require(deadlines[1] == plan.fulfillment_deadline, "deadline", "Submitted", || {
            format!("the escrow's fulfillment deadline is {}, not {}", plan.fulfillment_deadline, deadlines[1])
        });
        // An award out of a batch comes after the batch's quote deadline as a rule.
        self.require(collected || deadlines[0] < plan.reserve_deadline, "deadline", "Submitted", || {
            format!("the quote deadline {} is not before the reserve deadline {}", deadlines[0], plan.reserve_deadline)
        });
        self.selection(payment);
        let rounds = rounds::of(self.examined, payment);
        for round in &rounds {
            self.award(payment, round);
        }
        // With a selector whose choice it was, and that it is followed, is a rule of the transitions.
        if submitted.selector.is_none() && !rounds.is_empty() {
            self.winners(plan);
        }
        self.reassignments(payment, &rounds);
        if let Some(delivery) = payment.delivery() {
            let quote = payment.award.as_ref().map(|award| &award.quote);
            let by = quote.map_or(plan.fulfillment_deadline, |quote| unix_seconds(quote.fulfill_by));
            let at = delivery.block_time;
            let event = if payment.confirmed.is_some() { "FulfillmentConfirmed" } else { "FulfillmentFinalized" };
            self.require(at <= by, "deadline", event, || format!("delivered at {at}, due by {by}"));
        }
        if let (Some(finalized), Some(confirmed)) = (&payment.finalized, &payment.confirmed) {
            let (depth, attested) = (&finalized.inclusion, &confirmed.inclusion);
            // Where the depth is a number of confirmations, a reorganisation may have moved it since.
            self.require(depth.chain_id == attested.chain_id, "delivery", "FulfillmentConfirmed", || {
                format!("at its depth by {depth:?}, and attested by {attested:?}")
            });
        }
        self.attestations(payment, &rounds);
        self.unattested(payment);
        if let Some(released) = &payment.released {
            let (at, end) = (released.block_time, plan.refund_after);
            self.require(at < end, "deadline", "EscrowReleased", || {
                format!("released at {at}, when the refund window was open since {end}")
            });
        }
        self.payer_deposit(payment);
        self.conservation(payment, rounds.first());
    }

    /// That what went into the escrow is what was agreed, and came out whole.
    fn conservation(&mut self, payment: &Payment, first: Option<&Round<'_>>) {
        let escrowed = payment.secured.as_ref().map(|secured| secured.amount);
        let escrowed = escrowed.or(payment.opened.as_ref().map(|opened| opened.amount));
        if let (Some(held), Some(refunded)) = (&payment.held, &payment.refunded) {
            // More may have come meanwhile.
            self.require(refunded.amount >= held.amount, "conservation", "EscrowRefunded", || {
                format!("{} was at the deposit address and {} came back", held.amount, refunded.amount)
            });
        }
        if let (Some(escrowed), Some(refunded)) = (escrowed, &payment.refunded) {
            self.require(escrowed == refunded.amount, "conservation", "EscrowRefunded", || {
                format!("{escrowed} went into the escrow and {} came back", refunded.amount)
            });
        }
        if let (Some(secured), Some(first)) = (&payment.secured, first) {
            // The payer's own transaction deposits before anybody knows the price, an authorization of a token's is of one amount, and of
            // a deposit address all is taken that is there; what is left over goes back on release, as does what was deposited for others that might have to deliver.
            let (least, most) = match payment.drawn_whole() {
                Some(whole) => (whole, whole),
                None => (first.award.quote.source_amount, self.deposit_up_to(payment, first)),
            };
            self.require([least, most].contains(&secured.amount), "conservation", "EscrowSecured", || {
                let expected =
                    if least == most { format!("not {least}") } else { format!("neither {least} nor {most}") };
                format!("{} is in escrow, and {expected}", secured.amount)
            });
        }
        if let Some(failed) = &payment.failed {
            let nothing = failed.refund == RefundDue::Nothing;
            // A payment that failed with nothing in escrow may have had its deposit found later.
            let fits = nothing == payment.secured.is_none() || payment.opened.is_some();
            self.require(fits, "conservation", "Failed", || {
                "whether money is to be returned does not fit whether there was any".to_owned()
            });
        }
    }

    /// The most that the gateway deposits for the quote that the escrow is reserved for first, by the auction that it won.
    fn deposit_up_to(&self, payment: &Payment, first: &Round<'_>) -> Amount {
        let mut events = self.examined.commits.iter().flat_map(Recorded::payment_events);
        let auction = events.find_map(|event| match event {
            PaymentEvent::AuctionClosed(closed) => Some(closed.clone()),
            _ => None,
        });
        Payment { auction, ..payment.clone() }.deposit_up_to(first.award)
    }

    /// A delivery that was made and not attested: in time as any. Once the escrow is to be returned for what was delivered, or
    /// was, whoever brought it, that is somebody's loss.
    fn unattested(&mut self, payment: &Payment) {
        let (Some(seen), Some(award)) = (&payment.seen, &payment.award) else { return };
        if payment.attestation_awaited && payment.finalized.is_none() {
            let (at, by) = (seen.block_time, unix_seconds(award.quote.fulfill_by));
            self.require(at <= by, "deadline", "AttestationAwaited", || format!("delivered at {at}, due by {by}"));
        }
        let failed = payment.failed.as_ref().filter(|failed| failed.failure.code == Failure::DELIVERED_NOT_ATTESTED);
        let lost_by = if payment.attestation_missed { Some("AttestationMissed") } else { failed.map(|_| "Failed") };
        let refunded = payment.refunded.as_ref().filter(|_| payment.delivery().is_some());
        let lost_by = lost_by.or(refunded.map(|_| "EscrowRefunded"));
        if let Some(event) = lost_by.filter(|_| payment.released.is_none()) {
            let quote = &award.quote;
            let delivery = payment.delivery().unwrap_or(seen);
            let (check, verdict) = match payment.confirmed {
                Some(_) => ("unreleased", "attested, and nobody released the escrow before its refund"),
                None => ("unattested", "did not attest before the escrow was to be refunded"),
            };
            let what = format!(
                "settler {} delivered {} of {} by {} on {}, which {} {verdict}: the payer gets back the {} that were due to the \
                 settler",
                quote.settler,
                quote.fulfillment_amount,
                quote.destination.asset(),
                delivery.transaction_hash,
                delivery.chain_id,
                verifiers::name(payment),
                quote.source_amount,
            );
            self.findings.push(Finding::new(Severity::Loss, check, self.examined.location_of(event), what));
        }
    }

    /// Whether a payer deposit that is recorded after its window was made within it.
    fn payer_deposit(&mut self, payment: &Payment) {
        let end = payment.submitted.escrow.reserve_deadline;
        if let Some(opened) = &payment.opened {
            let at = opened.inclusion.block_time;
            self.require(at <= end, "deadline", "EscrowOpened", || {
                format!("deposited at {at}, and the escrow takes deposits up to {end}")
            });
        }
        let examined = self.examined;
        let events = examined.commits.iter().flat_map(Recorded::payment_events);
        for event in events {
            let PaymentEvent::DepositRuledOut(ruled_out) = event else { continue };
            let at = ruled_out.ruled_out_at;
            let after = from_unix_seconds(end).is_some_and(|end| at > end);
            self.require(after, "deadline", "DepositRuledOut", || {
                format!("ruled out at {at}, and the escrow takes deposits up to {end}")
            });
        }
    }

    /// That the request proves who is on record as its originator.
    fn originator(&mut self, request: &str, originator: &str, account: &str, at: Timestamp, event: &str) {
        let (severity, what) = match check_originator(request, originator, account, at) {
            OriginatorCheck::Shown => return,
            OriginatorCheck::Contradicted(what) => (Severity::Contradiction, what),
            OriginatorCheck::Unverifiable(what) => (Severity::Unverifiable, what),
        };
        self.findings.push(Finding::new(severity, "originator", self.examined.location_of(event), what));
    }

    fn windows(&mut self, plan: &EscrowPlan, event: &str) {
        let ordered =
            plan.reserve_deadline <= plan.fulfillment_deadline && plan.fulfillment_deadline < plan.refund_after;
        self.require(ordered, "deadline", event, || {
            let EscrowPlan { reserve_deadline, fulfillment_deadline, refund_after, .. } = plan;
            format!("the windows are out of order: {reserve_deadline}, {fulfillment_deadline}, {refund_after}")
        });
    }

    /// That the payer's selector was shown the quotes on record, each of them eligible. Its signature, and that it was
    /// followed, are rules of the transitions.
    fn selection(&mut self, payment: &Payment) {
        let (submitted, examined) = (&payment.submitted, self.examined);
        let Some(selector) = &submitted.selector else { return };
        let (from, until) = (unix_seconds(submitted.quote_deadline), submitted.escrow.reserve_deadline);
        let by = unix_seconds(selector.answer_by);
        self.require((from..=until).contains(&by), "deadline", "Submitted", || {
            format!("the selector's time ends at {by}, not between {from} and {until}")
        });
        let events = examined.commits.iter().flat_map(Recorded::payment_events);
        let asked = events.filter_map(|event| match event {
            PaymentEvent::SelectorAsked(asked) => Some(asked),
            _ => None,
        });
        let (Some(asked), Some(auction)) = (asked.last(), &payment.auction) else { return };
        let request = request_for_quotes(submitted);
        for (document, received) in asked.documents.iter().zip(&auction.quotes) {
            match SignedQuote::parse_stored(document) {
                Ok(signed) => {
                    let same = sagas::auction::received(&signed) == *received;
                    self.require(same, "selection", "SelectorAsked", || {
                        format!("the selector was shown {}, on record is {}", signed.hash(), received.quote_hash)
                    });
                    let cap = Some(submitted.authorization.permitted());
                    if let Err(rule) = check_content(&request, cap, &received.settler, signed.quote()) {
                        self.require(false, "selection", "SelectorAsked", || rule);
                    }
                }
                Err(error) => self.require(false, "quote-signature", "SelectorAsked", || error.to_string()),
            }
        }
    }

    fn award(&mut self, payment: &Payment, round: &Round<'_>) {
        let (submitted, quote) = (&payment.submitted, &round.award.quote);
        let location = self.examined.location_where(|event| {
            matches!(event, Event::Payment(PaymentEvent::QuoteAwarded(awarded)) if **awarded == round.award.event)
        });
        let mut found = |check: &str, what: String| self.contradicts(check, location.clone(), what);
        if !quote.may_serve(&submitted.payment_id) {
            found("quote", format!("the quote answers auction {}", quote.auction_id));
        }
        let request = request_of(payment, round.number);
        let content = check_content(&request, Some(submitted.authorization.permitted()), &quote.settler, quote);
        if let Err(rule) = content {
            found("quote", rule);
        }
        let hash = match SignedQuote::parse_stored(&round.award.event.document) {
            Ok(signed) => signed.hash(),
            Err(error) => return found("quote-signature", error.to_string()),
        };
        let signed_for = submitted.authorization.quote_hash();
        if let Some(signed_for) = signed_for.filter(|signed_for| *signed_for != Hash32::ZERO && *signed_for != hash) {
            found("quote", format!("the payer signed for {signed_for}"));
        }
    }

    /// That each award went to the best quote that could be awarded then: the first of an auction to the best on record, and each
    /// that followed one that lapsed to the next best of those kept. While the escrow is to be reassigned nobody is left out.
    fn winners(&mut self, plan: &EscrowPlan) {
        let examined = self.examined;
        let (mut auction, mut is_reopened) = (None, false);
        for (commit, event) in examined.payment_events() {
            let location = || examined.location_at(commit);
            match (event, &mut auction) {
                (PaymentEvent::AuctionClosed(closed), _) => {
                    if !closed.alternates.is_empty() && !closed.quotes.is_sorted_by_key(rank) {
                        let what = "the quotes that may follow are not in order, best first";
                        self.contradicts("selection", location(), what.to_owned());
                    }
                    auction =
                        Some((closed, closed.alternates.as_slice(), best(&closed.quotes).map(|best| best.quote_hash)));
                }
                (PaymentEvent::AwardLapsed(lapsed), Some((closed, left, expected))) => {
                    let is_open = !is_reopened || unix_seconds(lapsed.lapsed_at) < plan.fulfillment_deadline;
                    let next = next_alternate(left, &closed.quotes, lapsed.lapsed_at).filter(|_| is_open);
                    *expected = next.map(|next| next.quote_hash);
                    let behind = left.iter().position(|kept| Some(kept.quote_hash) == *expected);
                    *left = behind.map_or(&[], |behind| &left[behind + 1..]);
                }
                (PaymentEvent::QuoteAwarded(awarded), Some((_, _, expected))) => {
                    let (hash, expected) = (awarded.quote_hash, expected.take());
                    if expected != Some(hash) {
                        let what = format!("{hash} won, and the best quote on record is {expected:?}");
                        self.contradicts("selection", location(), what);
                    }
                }
                (PaymentEvent::ReservationLapsed(_), _) => (auction, is_reopened) = (None, true),
                (PaymentEvent::EscrowReassigned(_), _) => is_reopened = false,
                (PaymentEvent::Failed(_), Some((_, _, Some(left_out)))) if is_reopened => {
                    let what = format!("the money goes back, and quote {left_out} was there to be awarded");
                    self.contradicts("selection", location(), what);
                }
                _ => {}
            }
        }
    }

    fn batch(&mut self, batch: &QuoteRequest) {
        let opened = &batch.opened;
        let derived = opened.derived_id();
        self.is_subject(&StreamId::from(&opened.quote_request_id), "QuoteRequestOpened");
        self.require(derived == opened.quote_request_id, "id", "QuoteRequestOpened", || {
            format!("originator and request_id make {derived}, not {}", opened.quote_request_id)
        });
        let verified_at = opened.identities.first().map_or(opened.opened_at, |proven| proven.verified_at);
        let account = opened.terms.source.account().originator();
        self.originator(&opened.request, &opened.originator, &account, verified_at, "QuoteRequestOpened");
        let terms_hash = opened.terms.hash();
        self.require(terms_hash == opened.terms_hash, "terms-hash", "QuoteRequestOpened", || {
            format!("the terms hash to {terms_hash}, not to {}", opened.terms_hash)
        });
        self.windows(&opened.escrow, "QuoteRequestOpened");
        self.verifier(&opened.verifier, &opened.escrow, "QuoteRequestOpened");
        let request = request_for_batch(opened);
        let Some(collected) = &batch.collected else { return };
        for stored in &collected.quotes {
            match SignedQuote::parse_stored(&stored.document) {
                Ok(signed) => {
                    let same = signed.hash() == stored.quote_hash && signed.id() == stored.quote_id;
                    self.require(same, "quote-hash", "QuotesCollected", || {
                        format!("{} hashes to {}, not to {}", stored.quote_id, signed.hash(), stored.quote_hash)
                    });
                    let content = check_content(&request, None, &signed.quote().settler, signed.quote());
                    if let Err(rule) = content {
                        self.require(false, "quote", "QuotesCollected", || format!("{}: {rule}", stored.quote_id));
                    }
                }
                Err(error) => self
                    .require(false, "quote-signature", "QuotesCollected", || format!("{}: {error}", stored.quote_id)),
            }
        }
        let received = &collected.auction.quotes;
        let sorted = received.is_sorted_by_key(rank);
        self.require(sorted, "selection", "QuotesCollected", || "the quotes are not in order, best first".to_owned());
    }
}

/// The order in which quotes win: lowest source amount, earliest promised delivery, lowest hash.
fn rank(quote: &QuoteReceived) -> (Amount, Timestamp, Hash32) {
    (quote.source_amount, quote.fulfill_by, quote.quote_hash)
}

fn best(quotes: &[QuoteReceived]) -> Option<&QuoteReceived> {
    quotes.iter().min_by_key(|quote| rank(quote))
}

/// A finding about a whole stream.
pub fn about(examined: &Examined, severity: Severity, check: &str, what: impl Into<String>) -> Finding {
    Finding::new(severity, check, JournalLocation::stream(&examined.stream, Some(&examined.subject)), what)
}

#[cfg(test)]
pub(super) mod tests;
