//! An escrow of the small world that is reserved for several settlers in turn, as the contract keeps it: who is named, what a
//! reassignment needs, and which word returns the money.

use events::{
    Hash32,
    event::{ReservationLapsed, Validity},
    quote::SignedQuote,
};

use super::*;
use crate::engine::reassignment::{Chain, Course};

/// Seconds after which a block of the source chain is settled.
pub const DEPTH: i64 = 2;

/// Reservations and what became of them.
#[derive(Default)]
pub struct Reserved {
    /// What was deposited, where that is more than the first winner asks for.
    pub deposited: Option<events::Amount>,
    /// What the deposit that was signed reserves.
    pub deposit: Option<Reservation>,
    /// For whom, in order, each with the second of its block.
    pub reservations: Vec<(Reservation, i64)>,
    /// The reassignments that were signed, by hash, with how often each was sent.
    pub signed: BTreeMap<String, (ReassignmentOrder, u32)>,
    /// The quotes that were delivered, each with the second of its block.
    pub deliveries: Vec<(Hash32, i64)>,
    /// The quote whose delivery was attested.
    pub attested: Option<Hash32>,
    /// Who told this process that it follows reassignments.
    pub follow: BTreeSet<Account>,
    /// The winners that were told, by their quotes' hashes.
    pub winners: BTreeMap<Hash32, events::Did>,
    /// What was told last of the escrow's terms, to this process.
    pub expected: Option<(Option<Hash32>, Option<events::Amount>)>,
    /// The requests for quotes, the last of each auction.
    pub requests: BTreeMap<String, RequestForQuotes>,
    /// Somebody has returned the money.
    pub cancelled: bool,
}

impl Reserved {
    /// A process begins, and knows nothing of what another had in memory.
    pub fn forget(&mut self) {
        self.follow.clear();
        self.expected = None;
    }

    /// What is in escrow.
    fn amount(&self) -> events::Amount {
        self.deposited.unwrap_or(amount("1010"))
    }

    /// The escrow as a settled block has it.
    pub fn found(&self, now: i64) -> EscrowOpened {
        let reserved_for = self.settled(now).next_back().map(|reservation| reservation.quote_hash);
        EscrowOpened { inclusion: inclusion(5), amount: self.amount(), reserved_for }
    }

    /// The reservation that the newest block has.
    pub fn current(&self) -> &Reservation {
        &self.reservations.last().expect("reserved").0
    }

    /// The settled ones.
    pub fn settled(&self, now: i64) -> impl DoubleEndedIterator<Item = &Reservation> {
        self.reservations.iter().filter(move |(_, second)| second + DEPTH <= now).map(|(reservation, _)| reservation)
    }
}

/// The word for `statement` of whoever `signer` is.
pub fn word(statement: &Statement, signer: &Account) -> String {
    let bytes = signer.to_bytes();
    let said = Hash32::sha256(format!("{statement:?}")).0;
    format!("0x{}{}", hex::encode([said, said].concat()), hex::encode([bytes[19]]))
}

pub fn non_delivery(payment_id: &PaymentId, quote_hash: Hash32) -> Statement {
    Statement::NonDelivery { payment_id: payment_id.clone(), quote_hash }
}

/// Whether `second` is later than the UNIX second `seconds`.
fn is_past(second: i64, seconds: u64) -> bool {
    unix_seconds(at(second)) > seconds
}

impl World {
    /// Of no consequence where nothing is reassigned.
    fn course(&self) -> Course {
        match self.plot {
            Plot::Reassigns(course) => course,
            _ => Course { fading: 0, bidding: 0, is_set: false, chain: Chain::Undisturbed },
        }
    }

    /// Whether the escrow takes `word` for the non-delivery of what it is reserved for now.
    fn takes(&self, state: &State, payment_id: &PaymentId, word: &str) -> bool {
        let statement = non_delivery(payment_id, state.reserved.current().quote_hash);
        match self.course().is_set {
            true => reassignment::is_word_of_the_set(&statement, word),
            false => word == self::word(&statement, &submission().verifier.account),
        }
    }

    /// What this process was told of the terms last is the reservation for this quote, with what was deposited.
    fn expects_reservation(state: &State, quote_hash: Hash32) {
        assert_eq!(state.reserved.expected, Some((Some(quote_hash), Some(state.reserved.amount()))));
    }

    /// Whether more than the winner asks for can be deposited.
    pub fn takes_larger(&self, state: &mut State, amount: events::Amount) -> bool {
        let is_taken = self.course().chain == Chain::LargerDeposit;
        state.reserved.deposited = is_taken.then_some(amount);
        is_taken
    }

    /// What a bidder of the plot offers in the auction of `request`.
    pub fn gathered_for_reserved(&self, state: &mut State, request: &RequestForQuotes) -> Gathered {
        let (course, is_first) = (self.course(), request.escrowed.is_none());
        assert_eq!(is_first, state.reserved.reservations.is_empty());
        state.now = state.now.max((request.quote_deadline - at(0)).num_seconds());
        state.reserved.requests.insert(request.auction_id.clone(), request.clone());
        let bids = (1..=course.bidding).map(|n| {
            let price = match course.chain {
                Chain::TooDear if !is_first => "1011".to_owned(),
                Chain::LargerDeposit | Chain::LargerRefused if !is_first => format!("{}", 1009 + u32::from(n)),
                _ if is_first => format!("{}", 1009 + u32::from(n)),
                _ => format!("{}", 1000 + u32::from(n)),
            };
            // Each promises to deliver some time after the one before it, and to do better when that is over.
            let promised = 6 + 14 * i64::from(n);
            let promised = if promised > state.now { promised } else { state.now + 8 };
            let fulfill_by = at(promised.min(60));
            let quote =
                Quote { auction_id: request.auction_id.clone(), fulfill_by, valid_until: at(60), ..quote(n, &price) };
            let answer = Answer::Quote(signed(n, quote).document().to_owned());
            Bid { settler: did(n).token(), received_at: request.quote_deadline, answer }
        });
        let addressed = (1..=course.bidding).map(did).filter(|did| !request.blacklist.contains(did));
        Gathered { addressed: addressed.collect(), bids: bids.collect(), ..Gathered::default() }
    }

    /// What the verifier with this account says of the quote in `case`.
    pub async fn verdict(
        &self,
        by: &Account,
        case: &VerificationCase,
        delivered: bool,
    ) -> Result<Option<String>, Transient> {
        let quote = SignedQuote::parse_stored(&case.quote_document).unwrap();
        let course = self.course();
        if course.is_set && *by == verifier_sets::account(1) && course.chain == Chain::OneHangs {
            return std::future::pending().await;
        }
        self.call(|state| {
            if course.chain != Chain::OldVerifiers {
                state.reserved.follow.insert(by.clone());
            }
            let hash = quote.hash();
            let is_delivered = state.reserved.deliveries.iter().any(|(of, _)| *of == hash);
            let is_over = is_past(state.now, unix_seconds(quote.quote().fulfill_by));
            let payment_id = case.payment_id.clone();
            let statement = match delivered {
                true if is_delivered => {
                    state.reserved.attested = Some(hash);
                    let payout_account = quote.quote().payout_account.clone();
                    Statement::Delivery { payment_id, quote_hash: hash, payout_account }
                }
                false if is_over && !is_delivered => non_delivery(&payment_id, hash),
                _ => return None,
            };
            Some(word(&statement, by))
        })
        .await
    }

    /// Where the delivery for `order` stands. A settler that is named in a settled block delivers, unless it fades.
    pub fn delivery_of_reserved(&self, state: &mut State, order: &DeliveryOrder) -> DeliveryState {
        let (hash, now) = (order.quote_hash, state.now);
        Self::expects_reservation(state, hash);
        let is_named = state.reserved.settled(now).next_back().is_some_and(|named| named.quote_hash == hash);
        let settler = state.reserved.winners.get(&hash).expect("a winner that was told");
        let fades = (1..=self.course().fading).any(|n| did(n) == *settler);
        let is_delivered = state.reserved.deliveries.iter().any(|(of, _)| *of == hash);
        if is_named && !fades && !is_delivered && !is_past(now, order.fulfill_by) {
            state.reserved.deliveries.push((hash, now));
        }
        match state.reserved.deliveries.iter().find(|(of, _)| *of == hash) {
            Some((_, second)) if now < second + DEPTH => DeliveryState::Seen(inclusion(7)),
            Some(_) => DeliveryState::Final(inclusion(7)),
            None if is_past(now, order.fulfill_by + DEPTH.unsigned_abs()) => DeliveryState::Impossible,
            None => DeliveryState::NotSeen,
        }
    }

    /// Signs a reassignment that the escrow takes as of its newest block.
    pub async fn sign_reassignment(
        &self,
        order: &ReassignmentOrder,
        attempt: u32,
    ) -> Result<TransactionPrepared, PrepareError> {
        let chain = self.course().chain;
        let prepared = self.call(|state| {
            Self::expects_reservation(state, order.lapsed.quote_hash);
            let is_agreed = state.reserved.winners.contains_key(&order.reservation.quote_hash);
            assert!(is_agreed, "signed for a winner that was not told");
            let prepared = reassignment_transaction(attempt, 1);
            if chain == Chain::Cancelled {
                state.reserved.cancelled = true;
            }
            if chain == Chain::Usurped {
                self.reassign(state, order);
            }
            if chain == Chain::Refuses || !self.is_reassignable(state, order) {
                return None;
            }
            state.reserved.signed.insert(prepared.transaction_hash.clone(), (order.clone(), 0));
            Some(prepared)
        });
        let refused = || Refusal { context: context("ReservationNotOver"), valid_until: order.reservation.fulfill_by };
        prepared.await?.ok_or_else(|| PrepareError::Refused(Box::new(refused())))
    }

    /// What the contract asks of a reassignment.
    fn is_reassignable(&self, state: &State, order: &ReassignmentOrder) -> bool {
        let named = state.reserved.current();
        *named == order.lapsed
            && !state.reserved.cancelled
            && !state.refunded
            && is_past(state.now, named.fulfill_by)
            && !is_past(state.now, order.reservation.fulfill_by)
            && order.reservation.source_amount <= state.reserved.amount()
            && self.takes(state, &order.payment_id, &order.non_delivery)
    }

    fn reassign(&self, state: &mut State, order: &ReassignmentOrder) {
        if self.is_reassignable(state, order) {
            let second = state.now;
            state.reserved.reservations.push((order.reservation.clone(), second));
        }
    }

    /// Takes a transaction into a block, where it is a reassignment.
    pub fn took_reassignment(&self, state: &mut State, transaction: &TransactionPrepared) -> bool {
        let Some((order, sent)) = state.reserved.signed.get_mut(&transaction.transaction_hash) else { return false };
        *sent += 1;
        let order = order.clone();
        let lands = match self.course().chain {
            Chain::Superseded => transaction.raw != reassignment_transaction(1, 1).raw,
            Chain::Dear => *transaction == reassignment_transaction(1, PRICES),
            Chain::NeverLands | Chain::Lost => false,
            _ => true,
        };
        if lands {
            self.reassign(state, &order);
        }
        true
    }

    /// A reassignment that waits is to be signed again with a higher price.
    pub fn reprice_reassignment(
        &self,
        state: &mut State,
        versions: &[TransactionPrepared],
    ) -> Option<TransactionPrepared> {
        let next = u32::try_from(versions.len()).unwrap() + 1;
        let newest = versions.last()?;
        let (order, _) = state.reserved.signed.get(&newest.transaction_hash)?.clone();
        let is_due =
            self.course().chain == Chain::Dear && next <= PRICES && state.sent.contains(&newest.transaction_hash);
        let repriced = is_due.then(|| reassignment_transaction(newest.attempt, next))?;
        state.reserved.signed.insert(repriced.transaction_hash.clone(), (order, 0));
        Some(repriced)
    }

    /// Where a reassignment stands in a settled block.
    pub fn state_of_reassignment(&self, state: &State, order: &ReassignmentOrder) -> ReassignmentState {
        Self::expects_reservation(state, order.lapsed.quote_hash);
        assert_eq!(order.terms_before().deposited, Some(state.reserved.amount()));
        assert_eq!(order.terms_after().reservation.as_ref(), Some(&order.reservation));
        let is_reserved = state.reserved.settled(state.now).any(|named| *named == order.reservation);
        let second = i64::try_from(order.reservation.fulfill_by - unix_seconds(at(0))).unwrap();
        if is_reserved {
            ReassignmentState::Reassigned(inclusion(6))
        } else if self.course().chain == Chain::Lost && state.now > second + DEPTH {
            ReassignmentState::Lost { evidence: "it is reserved for another".to_owned() }
        } else if state.reserved.cancelled || state.now > second + DEPTH {
            ReassignmentState::Missed { evidence: "it has ended, or the promise is over".to_owned() }
        } else {
            ReassignmentState::Open
        }
    }

    /// Whether a reassignment that was sent can never land.
    pub fn is_reassignment_dead(&self, state: &State, versions: &[TransactionPrepared]) -> bool {
        let is_sent = versions.iter().any(|version| state.sent.contains(&version.transaction_hash));
        let is_first = versions[0].raw == reassignment_transaction(1, 1).raw;
        is_sent && self.course().chain == Chain::Superseded && is_first
    }

    pub fn state_of_reserved(&self, state: &mut State) -> EscrowState {
        let refunded = EscrowRefunded { inclusion: inclusion(9), amount: state.reserved.amount(), claims: Vec::new() };
        if state.reserved.cancelled || !state.refunds.is_empty() {
            state.refunded = true;
            EscrowState::Refunded(refunded)
        } else if state.reserved.attested.is_some() {
            EscrowState::Released(inclusion(9))
        } else if state.now > 100 {
            EscrowState::Lapsed
        } else {
            EscrowState::Held
        }
    }

    /// Whether the escrow takes a cancellation with the word in `order`, or its window is open.
    pub fn takes_refund(&self, state: &State, order: &RefundOrder) -> bool {
        let by_word = |word: &String| self.takes(state, &order.payment_id, word);
        order.non_delivery.as_ref().is_some_and(by_word) || state.now > 100
    }

    /// What is journaled of the escrow is settled, and rests on a word.
    pub fn check_journaled(&self, event: &PaymentEvent) {
        let state = self.state.lock().unwrap();
        match event {
            PaymentEvent::EscrowReassigned(_) => {
                assert!(state.reserved.settled(state.now).count() == state.reserved.reservations.len());
                assert!(state.reserved.reservations.len() > 1, "it was not reassigned");
            }
            PaymentEvent::ReservationLapsed(ReservationLapsed { attestation, quote_hash, .. }) => {
                assert_eq!(state.reserved.current().quote_hash, *quote_hash);
                let is_word = self.takes(&state, &submission().payment_id, attestation);
                assert!(is_word, "the escrow does not take {attestation} for the non-delivery of {quote_hash}");
            }
            _ => {}
        }
    }
}

/// Version `version` of a reassignment; unlike any other transaction of the world.
pub fn reassignment_transaction(attempt: u32, version: u32) -> TransactionPrepared {
    TransactionPrepared {
        validity: Validity::Nonce(100 + u64::from(attempt)),
        transaction_hash: format!("0x{:064x}", 0x5ea0_0000_u64 + u64::from(attempt * 16 + version)),
        raw: format!("0x5ea0{attempt:02x}{version:02x}"),
        ..transaction(attempt)
    }
}
