//! The port to the settlers: requests for quotes, bids, awards and their answers.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use async_trait::async_trait;

use events::{
    Account, Amount, Did, Hash32, Payload, PaymentId, SettlerToken, Terms,
    event::{EscrowPlan, PassedOver, VerifierRef},
    identity::HeldPolicy,
    time::Timestamp,
};

use super::{transient::Transient, verifier::VerificationCase};
use crate::settler_record::SettlerRecord;

/// A request for quotes, as addressed to settlers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestForQuotes {
    /// The auction: bears the id of the payment, or of the quote-request batch.
    pub auction_id: String,
    /// The payment; a batch has none yet.
    pub payment_id: Option<PaymentId>,
    /// What is asked for.
    pub terms: Terms,
    /// Its hash.
    pub terms_hash: Hash32,
    /// The escrow and its windows.
    pub escrow: EscrowPlan,
    /// Proxy of each destination, in the order of the terms' destinations.
    pub fulfillment_proxies: Vec<Account>,
    /// End of quote collection.
    pub quote_deadline: Timestamp,
    /// Final completion deadline.
    pub fulfillment_deadline: Timestamp,
    /// Settlers that may win; empty when any may.
    pub whitelist: Vec<Did>,
    /// Settlers that may not win.
    pub blacklist: Vec<Did>,
    /// Policies a settler must hold to win.
    pub required_policies: Vec<String>,
    /// What the payer says of its signed messages; none in a batch.
    pub payloads: Vec<Payload>,
    /// What is in escrow already, where this auction looks for another settler for it.
    pub escrowed: Option<Escrowed>,
}

/// Money in escrow whose reservation has lapsed (ADR 148).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Escrowed {
    /// How much it is, smallest unit of the source asset: no quote may ask for more.
    pub amount: Amount,
    /// The quote for which it is reserved until it is reassigned.
    pub reserved_for: Hash32,
}

/// A settler's answer, not yet believed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bid {
    /// The subject token it came under, which NATS permissions tie to one settler.
    pub settler: SettlerToken,
    /// When it arrived.
    pub received_at: Timestamp,
    /// What it says.
    pub answer: Answer,
}

/// What a bid says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// A signed quote document.
    Quote(String),
    /// A decline with a reason code.
    Decline(String),
    /// Something that is not a bid; the text says what is wrong with it.
    Malformed(String),
}

/// The outcome of a collection window.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Gathered {
    /// Settlers that were actually sent the request.
    pub addressed: Vec<Did>,
    /// Their answers in order of arrival; a settler may have answered more than once.
    pub bids: Vec<Bid>,
    /// The required policies that settlers held, by credentials that were verified when the window closed.
    pub held: Vec<HeldPolicy>,
    /// Settlers that would have been asked, and were passed over for what they missed.
    pub passed_over: Vec<PassedOver>,
}

/// What came of gathering until there is nothing worth a task to wait for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Gathering {
    /// The window is over.
    Over(Gathered),
    /// It stays open, and what is worth waiting for with a task was waited for.
    Open(OpenWindow),
}

/// A collection window that stays open: what whoever gathers in it the next time goes on from. It is not on record, and
/// whoever has none begins anew, without loss.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenWindow {
    /// When gathering in it began, in this process.
    pub begun: Instant,
    /// When those that have not answered are to be asked again.
    pub ask_again: Instant,
    /// How long after they were asked last that is.
    pub pause: Duration,
    /// What [`Auction::settlers`] said when they were asked.
    pub settlers: u64,
    /// So long from now, at the most, nothing is to be done.
    pub rest: Duration,
}

impl OpenWindow {
    /// One that another process had open, or this one in an earlier lease term: those that have not answered are to be asked
    /// again at once, and nobody listens for their answers, as there may be very many such windows.
    pub fn taken_over(now: Instant) -> Self {
        Self { begun: now, ask_again: now, pause: Duration::ZERO, settlers: 0, rest: Duration::ZERO }
    }
}

/// A durable notice to the winner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Award {
    /// The winner.
    pub settler: Did,
    /// Everything the settler needs to deliver and to be paid, and everything it needs to check that it is so.
    pub case: VerificationCase,
    /// Its quote's hash.
    pub quote_hash: Hash32,
    /// Who attests the delivery.
    pub verifier: VerifierRef,
    /// Until when another quote can be awarded in the place of this winner's; `None` where none can.
    pub replaceable_until: Option<Timestamp>,
    /// What is in escrow already, to be reassigned to this winner.
    pub escrowed: Option<Escrowed>,
}

impl Award {
    /// Whether another quote can still be awarded when this winner has been silent for `wait` from `now` on. Where none could, its
    /// silence would end the payment.
    pub fn is_replaceable_after(&self, now: Timestamp, wait: Duration) -> bool {
        self.replaceable_until.is_some_and(|until| (until - now).to_std().is_ok_and(|left| wait < left))
    }
}

/// How long a winner has to answer its award, from when the award is stored, where no other quote can be awarded in its place:
/// time for a settler that dies with it in hand to be given it again by its durable consumer, which takes 10 s, and for a
/// cluster that has lost a server to have other leaders.
pub const ANSWER_WAIT_MAX: Duration = Duration::from_secs(30);

/// The same where another quote waits ([`Award::is_replaceable_after`]), unless the configuration says otherwise.
pub const REPLACEABLE_ANSWER_WAIT: Duration = Duration::from_secs(1);

/// A winner's answer to its award. It is final: one answer of one award is ever taken, and every gateway reads the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AwardAnswer {
    /// It stands by its quote.
    Accepted,
    /// It does not; a reason code.
    Refused(String),
    /// It did not answer in time, and can't any more.
    Silent,
}

/// Word to those who did not win that an auction is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuctionOver {
    /// The auction.
    pub auction_id: String,
    /// Who may be waiting for its end.
    pub settlers: Vec<Did>,
}

/// The end of an award that no deposit followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AwardEnd {
    /// The winner.
    pub settler: Did,
    /// The payment.
    pub payment_id: PaymentId,
    /// Its quote's hash.
    pub quote_hash: Hash32,
    /// The auction that it won.
    pub auction_id: String,
    /// Why, as a code.
    pub code: String,
}

/// The records of settlers, from a read model.
pub trait SettlerRecords: Send + Sync {
    /// The record of `settler`; `None` where it has none, or none can be read for now.
    fn record(&self, settler: &Did) -> Option<Arc<SettlerRecord>>;
}

/// The settlers.
#[async_trait]
pub trait Auction: Send + Sync {
    /// Sends the request to every eligible registered settler and gathers answers until the deadline, or until all have
    /// answered. Asking again for the same auction, after a crash, finds the answers that were given before.
    ///
    /// # Errors
    /// [`Transient`] when the bus cannot be reached.
    async fn gather(&self, request: &RequestForQuotes) -> Result<Gathered, Transient>;

    /// Gathers as [`Auction::gather`] does, but only as long as answers are likely to come; goes on from where the last time
    /// `before` ended. Is to be called again when [`OpenWindow::rest`] has passed or [`Auction::settlers`] says something else.
    ///
    /// # Errors
    /// [`Transient`] when the bus cannot be reached.
    async fn gather_for_now(
        &self,
        request: &RequestForQuotes,
        before: Option<OpenWindow>,
    ) -> Result<Gathering, Transient> {
        let _ = before;
        self.gather(request).await.map(Gathering::Over)
    }

    /// A number that changes when somebody else may have to be asked in the windows that are open.
    fn settlers(&self) -> u64 {
        0
    }

    /// Returns when [`Auction::settlers`] is another number than `known`.
    async fn other_settlers(&self, known: u64) {
        let _ = known;
        std::future::pending().await
    }

    /// Whether `settler` is known to deliver out of escrows that were reassigned, or that hold more than its price. One of an older
    /// version takes such an escrow for another than it was promised, and does not deliver; what it registers says so.
    fn follows_reassignments(&self, settler: &Did) -> bool {
        let _ = settler;
        false
    }

    /// Stores the award where the winner finds it, however long it was away. Repeating it has no further effect.
    ///
    /// # Errors
    /// [`Transient`] when it is not known to be stored.
    async fn award(&self, award: &Award) -> Result<(), Transient>;

    /// The winner's answer to an award that is stored, waited for up to [`ANSWER_WAIT_MAX`], or [`REPLACEABLE_ANSWER_WAIT`]. What
    /// is returned once is returned for ever, whoever asks.
    ///
    /// # Errors
    /// [`Transient`] when nothing is known of an answer.
    async fn answer(&self, award: &Award) -> Result<AwardAnswer, Transient>;

    /// Tells the losers that the auction is over. Light and sent once: what is lost, the settlers' own times make good.
    async fn over(&self, over: &AuctionOver);

    /// Stores where the winner finds it, however long it is away, that its award is over, in the place of the award.
    /// Repeating it has no further effect.
    ///
    /// # Errors
    /// [`Transient`] when it is not known to be stored.
    async fn end(&self, end: &AwardEnd) -> Result<(), Transient>;
}
