//! What a settler needs of a chain.

use async_trait::async_trait;
use ruint::aliases::U256;

use chains::{
    escrow::{EscrowRecord, State},
    perform::PerformError,
};
use events::{Amount, AssetId, Hash32, PaymentId, event::EscrowPlan};
pub use sagas::ports::{DeliveryOrder, DeliveryState, Transient};

/// The reservation that a settler requires to be in escrow before it delivers. Every field must be as here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReservationOrder {
    /// The payment.
    pub payment_id: PaymentId,
    /// The escrow contract with its windows and its releaser, all of which the settler trusts.
    pub escrow: EscrowPlan,
    /// What the escrow must hold.
    pub asset: AssetId,
    /// Hash of the terms that were quoted.
    pub terms_hash: Hash32,
    /// Hash of the settler's quote.
    pub quote_hash: Hash32,
    /// Account that is paid: the settler's own.
    pub payout_account: String,
    /// What it is paid, smallest unit.
    pub source_amount: Amount,
    /// Last second of the delivery, UNIX.
    pub fulfill_by: u64,
}

/// Where the escrow stands at the depth the source chain requires.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EscrowState {
    /// Nothing is reserved so far.
    Open,
    /// Nothing is reserved, and a block at that depth is past the deposit's window: nothing ever will be.
    Lapsed,
    /// The reservation is there, in every field as required.
    Reserved,
    /// Another reservation is there; it can no longer change.
    Different {
        /// Which field differs.
        reason: String,
    },
    /// The escrow paid.
    Released,
    /// The money went back to the payer.
    Refunded,
}

impl EscrowState {
    /// What `record`, read at a settled block of the UNIX second `settled_time`, is to a settler who requires `order`.
    pub fn of(record: Option<&EscrowRecord>, order: &ReservationOrder, settled_time: u64) -> Self {
        let Some(record) = record.filter(|record| record.state != State::Deposited) else {
            let lapsed = settled_time > order.escrow.reserve_deadline;
            return if lapsed { Self::Lapsed } else { Self::Open };
        };
        if let Some(field) = difference(record, order) {
            return Self::Different { reason: field.to_owned() };
        }
        match record.state {
            State::Released => Self::Released,
            State::Refunded => Self::Refunded,
            State::Deposited | State::Reserved => Self::Reserved,
        }
    }
}

/// The first field in which a reservation is not as the settler requires.
fn difference(record: &EscrowRecord, order: &ReservationOrder) -> Option<&'static str> {
    let plan = &order.escrow;
    let fields = [
        ("quote hash", record.quote_hash == order.quote_hash),
        ("terms hash", record.terms_hash == order.terms_hash),
        ("settler", record.names(&record.settler, &order.payout_account)),
        ("token", record.asset == order.asset),
        ("source amount", record.source_amount == Some(order.source_amount)),
        ("deposit", record.deposited.is_some_and(|deposited| deposited >= order.source_amount)),
        ("releaser", record.names(&record.releaser, &plan.releaser)),
        ("fulfill_by", record.fulfill_by == order.fulfill_by),
        // A verifier attests only what has all the accounts and windows of the plan.
        ("reserver", record.names(&record.reserver, &plan.reserver)),
        ("reserve_deadline", record.reserve_deadline == plan.reserve_deadline),
        ("fulfillment_deadline", record.fulfillment_deadline == plan.fulfillment_deadline),
        ("refund_after", record.refund_after == plan.refund_after),
    ];
    fields.into_iter().find(|(_, same)| !same).map(|(field, _)| field)
}

/// What came of trying a delivery out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trial {
    /// It would be made.
    Delivers,
    /// The chain refuses it.
    Refused {
        /// Why, in words.
        reason: String,
    },
}

impl Trial {
    /// What a chain said when a delivery was tried out.
    ///
    /// # Errors
    /// [`Transient`] when it said nothing.
    pub fn of(tried: Result<(), PerformError>) -> Result<Self, Transient> {
        match tried {
            Ok(()) => Ok(Self::Delivers),
            Err(PerformError::Transient(fault)) => Err(fault),
            Err(refused) => Ok(Self::Refused { reason: refused.to_string() }),
        }
    }
}

/// What came of a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Claim {
    /// The escrow paid it.
    Paid {
        /// The transaction.
        transaction_hash: String,
    },
    /// The chain refuses it, in its newest state as a rule, so that nothing was sent.
    Refused {
        /// Why, in words.
        reason: String,
    },
}

impl Claim {
    /// What a chain said when a claim was brought.
    ///
    /// # Errors
    /// [`Transient`] when it said nothing.
    pub fn of(brought: Result<String, PerformError>) -> Result<Self, Transient> {
        match brought {
            Ok(transaction_hash) => Ok(Self::Paid { transaction_hash }),
            Err(PerformError::Transient(fault)) => Err(fault),
            Err(refused) => Ok(Self::Refused { reason: refused.to_string() }),
        }
    }
}

/// One chain, with the settler's account on it.
///
/// No method remembers what it did: the proxy's once-only key and the escrow's state decide, so that a settler which
/// was killed at any moment goes on where the chain says it is.
#[async_trait]
pub trait DeliveryChain: Send + Sync {
    /// The settler's account on this chain, normalised: where it is paid and what it delivers from.
    fn account(&self) -> &str;

    /// What the account holds of `asset` in the newest block, smallest unit.
    ///
    /// # Errors
    /// [`Transient`]; nothing may be concluded.
    async fn balance(&self, asset: &AssetId) -> Result<U256, Transient>;

    /// Where the escrow stands.
    ///
    /// # Errors
    /// [`Transient`]; nothing may be concluded.
    async fn escrow_state(&self, order: &ReservationOrder) -> Result<EscrowState, Transient>;

    /// Where the delivery stands.
    ///
    /// # Errors
    /// [`Transient`]; nothing may be concluded.
    async fn delivery_state(&self, order: &DeliveryOrder) -> Result<DeliveryState, Transient>;

    /// Makes the account on this chain that is paid for `order`, where the chain needs one made and it is not there. It comes
    /// before the delivery: into an account that is there anyone can bring the release, also when this settler cannot any more.
    ///
    /// # Errors
    /// [`Transient`]; the transaction may be on its way all the same.
    async fn ready_to_be_paid(&self, order: &ReservationOrder) -> Result<(), Transient> {
        let _ = order;
        Ok(())
    }

    /// Tries the delivery out at the newest state, as this account would send it, and sends nothing.
    ///
    /// # Errors
    /// [`Transient`]; nothing may be concluded.
    async fn try_delivery(&self, order: &DeliveryOrder) -> Result<Trial, Transient>;

    /// Sends the delivery, unless one that was sent before may still land. Returns the transaction that made it, or that is
    /// on its way.
    ///
    /// # Errors
    /// [`Transient`]; the transaction may be on its way all the same, and at most one of them takes effect.
    async fn deliver(&self, order: &DeliveryOrder) -> Result<String, Transient>;

    /// Brings the releaser's attestation to the escrow, unless a release that was sent before may still land. Returns
    /// the transaction that made it, or that is on its way.
    ///
    /// # Errors
    /// [`Transient`]; the transaction may be on its way all the same.
    async fn release(&self, order: &ReservationOrder, attestation: &str) -> Result<String, Transient>;

    /// What the escrow at `contract` owes the account in `asset` in the newest block, from payouts that did not go through,
    /// smallest unit. Nothing on chains whose escrows know no claims: there a payout that does not go through is not made.
    ///
    /// # Errors
    /// [`Transient`]; nothing may be concluded.
    async fn claimable(&self, contract: &str, asset: &AssetId) -> Result<U256, Transient> {
        let _ = (contract, asset);
        Ok(U256::ZERO)
    }

    /// Brings the account what the escrow at `contract` owes it in `asset`, unless the chain refuses that when it is tried out.
    /// A claim that was sent before and may still land is waited for instead.
    ///
    /// # Errors
    /// [`Transient`]; the transaction may be on its way all the same.
    async fn claim(&self, contract: &str, asset: &AssetId) -> Result<Claim, Transient> {
        let _ = asset;
        Ok(Claim::Refused { reason: format!("the escrow {contract} knows no claims") })
    }

    /// Returns when the chain has a new block, or after a bounded time.
    async fn next_block(&self);
}
