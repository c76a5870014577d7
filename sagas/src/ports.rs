//! The ports: what the engine needs of the world, as traits. Adapters implement them; the engine knows no NATS, HTTP or chain.
//!
//! Faults are told apart where they arise. A [`Transient`] fault says nothing about the outcome and is retried for as
//! long as it takes; it never ends a payment. Its kind says who can mend it. Whatever may end one is a *value* that
//! carries its evidence, such as [`DepositState::Reverted`] or [`DeliveryState::Impossible`].

mod transient;
mod waiting;

use std::time::Duration;

use async_trait::async_trait;
pub use transient::Transient;
pub use waiting::{Cursor, UNSEEN_MAX, Waiting};

use events::{
    Amount, ChainId, Did, Hash32, PaymentId, SettlerToken, StreamId, Terms,
    event::{
        Authorization, Claim, EscrowOpened, EscrowPlan, EscrowRefunded, EscrowSecured, Inclusion, TransactionPrepared,
        VerifierRef,
    },
    failure::BlockchainContext,
    identity::HeldPolicy,
    selection::{SelectorKey, Shown, SignedChoice},
    time::Timestamp,
};

/// The deposit-and-reserve that secures a payment's funds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DepositOrder {
    /// The payment.
    pub payment_id: PaymentId,
    /// Its economics.
    pub terms: Terms,
    /// Their hash.
    pub terms_hash: Hash32,
    /// The escrow and its windows.
    pub escrow: EscrowPlan,
    /// What the payer signed.
    pub authorization: Authorization,
    /// What the awarded quote reserves.
    pub reservation: Reservation,
}

/// A deposit that the payer's own transaction makes, whoever broadcasts it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PayerDeposit {
    /// The payment.
    pub payment_id: PaymentId,
    /// Its economics.
    pub terms: Terms,
    /// Their hash.
    pub terms_hash: Hash32,
    /// The escrow and its windows.
    pub escrow: EscrowPlan,
    /// What the payer signed.
    pub authorization: Authorization,
}

impl DepositOrder {
    /// The deposit without the reservation.
    pub fn payer_deposit(&self) -> PayerDeposit {
        PayerDeposit {
            payment_id: self.payment_id.clone(),
            terms: self.terms.clone(),
            terms_hash: self.terms_hash,
            escrow: self.escrow.clone(),
            authorization: self.authorization.clone(),
        }
    }
}

/// What a reservation commits to on chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reservation {
    /// Hash of the awarded quote.
    pub quote_hash: Hash32,
    /// Account on the source chain that is paid.
    pub payout_account: String,
    /// What it is paid, smallest unit of the source asset.
    pub source_amount: Amount,
    /// Last second in which a delivery counts, UNIX.
    pub fulfill_by: u64,
}

/// The return of a payment's funds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefundOrder {
    /// The payment.
    pub payment_id: PaymentId,
    /// The escrow and its windows.
    pub escrow: EscrowPlan,
    /// The releaser's signed non-delivery; without it the refund window must be open.
    pub non_delivery: Option<String>,
}

/// The payment of the settler out of the escrow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReleaseOrder {
    /// The payment.
    pub payment_id: PaymentId,
    /// The escrow and its windows.
    pub escrow: EscrowPlan,
    /// Hash of the awarded quote.
    pub quote_hash: Hash32,
    /// Account on the source chain that is paid.
    pub payout_account: String,
    /// The releaser's signed attestation of the delivery.
    pub attestation: String,
}

/// The delivery that is looked for on the destination chain; every field must match.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeliveryOrder {
    /// The payment.
    pub payment_id: PaymentId,
    /// Hash of the awarded quote.
    pub quote_hash: Hash32,
    /// Destination asset and recipient.
    pub destination: events::OwnedAsset,
    /// Exact amount, smallest unit of the destination asset.
    pub amount: Amount,
    /// Account that delivers.
    pub delivery_account: String,
    /// Contract through which it delivers.
    pub proxy: String,
    /// Last second in which a delivery counts, UNIX.
    pub fulfill_by: u64,
}

/// Why no transaction could be prepared.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PrepareError {
    /// Nothing is known; try again.
    #[error(transparent)]
    Transient(#[from] Transient),
    /// Nothing is wrong, and it is too early: what has to be on chain before is on its way. Look again at the next block.
    #[error("not yet: {0}")]
    Waiting(String),
    /// The chain refuses the call at its latest state; no nonce was taken. The refusal may pass (a lagging node, an
    /// allowance about to be given), so the caller decides how often to ask again.
    #[error("the chain refuses the transaction: {}", .0.context.revert_reason.as_deref().unwrap_or("no reason given"))]
    Refused(Box<Refusal>),
}

/// A transaction that was refused when it was tried out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// What the chain said.
    pub context: BlockchainContext,
    /// The node was shown a call that anyone who saw it may send, and that the escrow takes up to this UNIX second.
    pub valid_until: u64,
}

/// Where a prepared deposit stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DepositState {
    /// It, or a copy of it sent by somebody else, may still take effect: broadcast again.
    Pending,
    /// In escrow at the required depth, reserved under the right quote. True whichever transaction did it.
    Secured(EscrowSecured),
    /// Mined and reverted, and a settled block past the time up to which the escrow takes the same call from anyone holds
    /// no escrow.
    Reverted(Box<BlockchainContext>),
    /// It can never take effect, for a reason that another attempt does not share: its nonce is consumed at finality by
    /// another transaction, or it came into a block too late. Nothing is in escrow at the required depth.
    Superseded {
        /// What proves it.
        evidence: String,
    },
    /// A final block is past the deposit's window and holds no escrow, so none can ever be made.
    Expired {
        /// What proves it.
        evidence: String,
    },
    /// A final block is past the deposit's window and holds the payer's money with no settler named, so none ever will be.
    /// Only where the payer's own transaction deposits.
    Stranded(EscrowOpened),
}

/// Where a delivery stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeliveryState {
    /// Nothing found so far.
    NotSeen,
    /// On chain, with every field right, not yet at the required depth.
    Seen(Inclusion),
    /// On chain, with every field right, at the required depth.
    Final(Inclusion),
    /// A final block is past `fulfill_by` and holds no delivery, so none can ever be made.
    Impossible,
}

/// Where an escrow stands at the required depth.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EscrowState {
    /// Holds nothing and never did.
    Absent,
    /// Holds the payer's money, and may still be released.
    Held,
    /// Holds the payer's money at a settled block inside the refund window: no release can land any more.
    Lapsed,
    /// Paid the settler.
    Released(Inclusion),
    /// Paid the payer back.
    Refunded(EscrowRefunded),
}

/// Where a prepared refund or release stands, apart from what the escrow says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TransactionState {
    /// May still land: broadcast again.
    Pending,
    /// Can never land, or landed and reverted at the required depth: prepare another.
    Dead {
        /// What proves it.
        evidence: String,
    },
}

/// The chains, source and destination.
#[async_trait]
pub trait Chains: Send + Sync {
    /// Simulates, takes a nonce for and signs the deposit-and-reserve; broadcasts nothing of its own. Where the payer's own
    /// transactions deposit, which the journal holds since the submission, it broadcasts those and signs the reservation.
    ///
    /// # Errors
    /// See [`PrepareError`].
    async fn prepare_deposit(&self, order: &DepositOrder, attempt: u32) -> Result<TransactionPrepared, PrepareError>;

    /// Simulates, takes a nonce for and signs the refund; broadcasts nothing.
    ///
    /// # Errors
    /// See [`PrepareError`].
    async fn prepare_refund(&self, order: &RefundOrder, attempt: u32) -> Result<TransactionPrepared, PrepareError>;

    /// Simulates, takes a nonce for and signs the release, as [`Chains::prepare_refund`] does a refund and from the same
    /// accounts; broadcasts nothing. A release that the escrow takes no more, because it was released or its refund window is
    /// open, is refused.
    ///
    /// # Errors
    /// See [`PrepareError`].
    async fn prepare_release(&self, order: &ReleaseOrder, attempt: u32) -> Result<TransactionPrepared, PrepareError>;

    /// Signs the transaction under way again, for the same call at the same nonce with higher fees; broadcasts nothing.
    /// `versions` are all that were journaled of it, oldest first. `None` while none is called for: the newest has not
    /// waited long, it is mined, it offers enough for the chain's blocks, or what it may offer is bounded.
    ///
    /// # Errors
    /// [`Transient`]; the versions there are stay as they are.
    async fn reprice(&self, versions: &[TransactionPrepared]) -> Result<Option<TransactionPrepared>, Transient>;

    /// Sends the very bytes of a journaled transaction. Sending again what is known already is not a fault.
    ///
    /// # Errors
    /// [`Transient`]; the transaction may be on its way all the same.
    async fn broadcast(&self, transaction: &TransactionPrepared) -> Result<(), Transient>;

    /// Where a prepared deposit stands, of whose versions any may have landed.
    ///
    /// # Errors
    /// [`Transient`]; nothing may be concluded.
    async fn deposit_state(
        &self,
        order: &DepositOrder,
        versions: &[TransactionPrepared],
    ) -> Result<DepositState, Transient>;

    /// Where the delivery stands.
    ///
    /// # Errors
    /// [`Transient`]; nothing may be concluded.
    async fn delivery_state(&self, order: &DeliveryOrder) -> Result<DeliveryState, Transient>;

    /// Where the escrow stands at the required depth.
    ///
    /// # Errors
    /// [`Transient`]; nothing may be concluded.
    async fn escrow_state(&self, payment_id: &PaymentId, escrow: &EscrowPlan) -> Result<EscrowState, Transient>;

    /// The payouts of an escrow's end that became claims. `end` is the transaction that [`Chains::escrow_state`] told, whose
    /// own `claims` are empty. None on chains where a payout that does not go through is not made.
    ///
    /// # Errors
    /// [`Transient`]; nothing may be concluded.
    async fn claims(
        &self,
        payment_id: &PaymentId,
        escrow: &EscrowPlan,
        end: &Inclusion,
    ) -> Result<Vec<Claim>, Transient> {
        let _ = (payment_id, escrow, end);
        Ok(Vec::new())
    }

    /// The escrow of a deposit at the required depth, whoever sent it; `None` while there is none.
    ///
    /// # Errors
    /// [`Transient`]; nothing may be concluded.
    async fn deposit_secured(&self, order: &DepositOrder) -> Result<Option<EscrowSecured>, Transient>;

    /// The payer's money in escrow, at a settled block past the reserve deadline, with no settler named: what became of a
    /// deposit by the payer's own transaction that nobody can reserve any more. `None` while that is not so, and always on
    /// chains where a deposit is reserved at once.
    ///
    /// It is told also when it has gone back meanwhile, which anyone can bring about from `refund_after` on; and when its
    /// terms are others than these under the same plan, because whoever prepares a payment twice has two deposits signed for
    /// one id, of which the escrow takes either. Told neither, the payment would be watched for ever.
    ///
    /// # Errors
    /// [`Transient`]; nothing may be concluded.
    async fn stranded_deposit(&self, deposit: &PayerDeposit) -> Result<Option<EscrowOpened>, Transient> {
        let _ = deposit;
        Ok(None)
    }

    /// Whether a settled block later than the UNIX second `after` holds no escrow for the payment: the proof that a
    /// deposit which the escrow takes up to `after` was not made and can't be made any more.
    ///
    /// # Errors
    /// [`Transient`]; nothing may be concluded.
    async fn deposit_ruled_out(
        &self,
        payment_id: &PaymentId,
        escrow: &EscrowPlan,
        after: u64,
    ) -> Result<bool, Transient>;

    /// Where a prepared refund or release transaction stands, of whose versions any may have landed; asked while
    /// [`Chains::escrow_state`] says `Held`.
    ///
    /// # Errors
    /// [`Transient`]; nothing may be concluded.
    async fn transaction_state(&self, versions: &[TransactionPrepared]) -> Result<TransactionState, Transient>;

    /// Whether `signature` is the releaser's statement about this payment, as the escrow would judge it.
    ///
    /// # Errors
    /// [`Transient`]; nothing may be concluded.
    async fn attestation_holds(
        &self,
        statement: &Statement,
        escrow: &EscrowPlan,
        signature: &str,
    ) -> Result<bool, Transient>;

    /// Returns when the chain has a new block, or after a bounded time.
    async fn next_block(&self, chain_id: &ChainId);

    /// A cursor behind what was seen of a chain so far, to wait from; `None` where the port does not follow the events of
    /// `contract`.
    fn cursor(&self, chain_id: &ChainId, contract: &str) -> Option<Cursor> {
        let _ = (chain_id, contract);
        None
    }

    /// Returns when something may have happened to the payment since. It may return for nothing, and what happens may
    /// escape it, so within [`UNSEEN_MAX`] the caller looks without it.
    async fn next_event(&self, waiting: &Waiting<'_>) {
        self.next_block(waiting.chain_id).await;
    }
}

/// What a releaser attests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Statement {
    /// The delivery is on the destination chain at depth, with every field right.
    Delivery {
        /// The payment.
        payment_id: PaymentId,
        /// Hash of the awarded quote.
        quote_hash: Hash32,
        /// Account on the source chain that is paid.
        payout_account: String,
    },
    /// No delivery was made and none can be made any more.
    NonDelivery {
        /// The payment.
        payment_id: PaymentId,
        /// Hash of the awarded quote.
        quote_hash: Hash32,
    },
}

/// What a verifier is shown, so that it can check everything against the chains itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerificationCase {
    /// The payment.
    pub payment_id: PaymentId,
    /// Preimage of the `termsHash` in the escrow.
    pub terms: Terms,
    /// The escrow and its windows.
    pub escrow: EscrowPlan,
    /// Preimage of the `quoteHash` in the escrow, as it came.
    pub quote_document: String,
}

/// A fulfillment verifier.
#[async_trait]
pub trait Verifier: Send + Sync {
    /// The signed attestation of delivery, or `None` while the verifier does not (yet) give one.
    ///
    /// # Errors
    /// [`Transient`] when it cannot be reached or talks nonsense.
    async fn attest_delivery(
        &self,
        verifier: &VerifierRef,
        case: &VerificationCase,
    ) -> Result<Option<String>, Transient>;

    /// The signed statement of non-delivery, or `None` while the verifier does not (yet) give one.
    ///
    /// # Errors
    /// [`Transient`] when it cannot be reached or talks nonsense.
    async fn attest_non_delivery(
        &self,
        verifier: &VerifierRef,
        case: &VerificationCase,
    ) -> Result<Option<String>, Transient>;
}

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
    pub fulfillment_proxies: Vec<String>,
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
}

/// How long a winner has to answer its award, from when the award is stored: time for a settler that dies with it in hand to
/// be given it again by its durable consumer, which takes 10 s, and for a cluster that has lost a server to have other leaders.
pub const ANSWER_WAIT_MAX: Duration = Duration::from_secs(30);

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
    /// Why, as a code.
    pub code: String,
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

    /// Stores the award where the winner finds it, however long it was away. Repeating it has no further effect.
    ///
    /// # Errors
    /// [`Transient`] when it is not known to be stored.
    async fn award(&self, award: &Award) -> Result<(), Transient>;

    /// The winner's answer to an award that is stored, waited for up to [`ANSWER_WAIT_MAX`]. What is returned once is
    /// returned for ever, whoever asks.
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

/// What a quote selector is shown: an auction with its eligible quotes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SelectionRequest {
    /// Who is to choose.
    pub selector: SelectorKey,
    /// The auction.
    pub auction_id: String,
    /// What is asked for.
    pub terms: Terms,
    /// Its hash.
    pub terms_hash: Hash32,
    /// When quotes could come in at the latest.
    pub quote_deadline: Timestamp,
    /// When the choice has to be there.
    pub answer_by: Timestamp,
    /// Hashes of the quotes, in the order of `documents`.
    pub quotes: Vec<Hash32>,
    /// The quotes as their settlers signed them.
    pub documents: Vec<String>,
}

impl SelectionRequest {
    /// What a choice has to be about.
    pub fn shown(&self) -> Shown<'_> {
        Shown { auction_id: &self.auction_id, terms_hash: self.terms_hash, quotes: &self.quotes }
    }
}

/// The quote selectors.
#[async_trait]
pub trait Selector: Send + Sync {
    /// Shows a selector the quotes and returns what it says, not yet believed.
    ///
    /// # Errors
    /// [`Transient`] when it does not answer within a bounded time, or talks nonsense.
    async fn choose(&self, request: &SelectionRequest) -> Result<SignedChoice, Transient>;
}

/// Time. The engine reads no other clock and sleeps nowhere else.
#[async_trait]
pub trait Clock: Send + Sync {
    /// The current time.
    fn now(&self) -> Timestamp;

    /// Returns once `duration` has passed.
    async fn sleep(&self, duration: Duration);
}

/// The payments and quote-request batches of a shard that are not at rest, from a read model.
#[async_trait]
pub trait OpenStreams: Send + Sync {
    /// Every payment and batch of `shard` that is not at rest, as of at least stream sequence `as_of`.
    ///
    /// # Errors
    /// [`Transient`] when the read model cannot get that far for now.
    async fn open_streams(&self, shard: u16, as_of: u64) -> Result<Vec<StreamId>, Transient>;
}
