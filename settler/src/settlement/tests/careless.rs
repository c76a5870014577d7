//! Deliberately broken variants of a settler, at its port to the chains: what it takes for their answers, and what it has done there.
//! The settlement stays as it is.
//!
//! Not here, since the proxy makes it harmless: to send a delivery again that is on its way, under the same key.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use ruint::aliases::U256;

use chains::{
    escrow::{EscrowRecord, State},
    perform::PerformError,
    settler::{DeliveryChain, ReservationOrder, ReservationState},
};
use events::{Account, AssetId, PaymentId, event::EscrowPlan};
use sagas::ports::{DeliveryOrder, DeliveryState, Statement, Transient};

use super::world::World;

/// What is broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Each try to deliver has a once-only key of its own, which the process remembers: another one delivers again.
    KeyOfEachTry,
    /// It delivers before the escrow is reserved.
    ReservationNotAwaited,
    /// It delivers for a reservation in a block that can vanish.
    ReservationWithoutDepth,
    /// It delivers for another settler's reservation.
    AnyReservationIsMine,
    /// It delivers for an escrow of another token.
    AnyTokenWillDo,
    /// It delivers for an escrow that went back to the payer.
    RefundIsNotSeen,
}

/// The chains as one process of a settler understands them.
pub struct Careless {
    chains: Arc<World>,
    fault: Option<Fault>,
    /// What this process tried to deliver last, and how often it did.
    tried: Mutex<(u64, Option<DeliveryOrder>)>,
}

impl Careless {
    pub fn new(chains: Arc<World>, fault: Option<Fault>) -> Self {
        Self { chains, fault, tried: Mutex::new((0, None)) }
    }

    fn is(&self, fault: Fault) -> bool {
        self.fault == Some(fault)
    }
}

#[async_trait]
impl DeliveryChain for Careless {
    fn account(&self) -> &Account {
        self.chains.account()
    }

    async fn balance(&self, asset: &AssetId) -> Result<U256, Transient> {
        self.chains.balance(asset).await
    }

    async fn reservation(
        &self,
        payment_id: &PaymentId,
        contract: &Account,
    ) -> Result<(u64, Option<EscrowRecord>), Transient> {
        let settled = self.chains.reservation(payment_id, contract).await?;
        Ok(if self.is(Fault::ReservationWithoutDepth) { self.chains.record_at(0) } else { settled })
    }

    async fn reservation_state(&self, order: &ReservationOrder) -> Result<ReservationState, Transient> {
        let (time, mut record) = self.reservation(&order.payment_id, &order.escrow.contract).await?;
        if let Some(record) = &mut record {
            match self.fault {
                Some(Fault::AnyReservationIsMine) => {
                    record.quote_hash = order.quote_hash;
                    record.settler = Some(order.payout_account.clone());
                }
                Some(Fault::AnyTokenWillDo) => record.asset = order.asset.clone(),
                Some(Fault::RefundIsNotSeen) if record.state == State::Refunded => record.state = State::Reserved,
                _ => {}
            }
        }
        Ok(match ReservationState::of(record.as_ref(), order, time) {
            ReservationState::Open if self.is(Fault::ReservationNotAwaited) => ReservationState::Reserved,
            state => state,
        })
    }

    async fn delivery_state(&self, order: &DeliveryOrder) -> Result<DeliveryState, Transient> {
        let tried = self.tried.lock().unwrap().1.clone().filter(|_| self.is(Fault::KeyOfEachTry));
        self.chains.delivery_state(tried.as_ref().unwrap_or(order)).await
    }

    async fn try_delivery(&self, order: &DeliveryOrder) -> Result<(), PerformError> {
        self.chains.try_delivery(order).await
    }

    async fn deliver(&self, order: &DeliveryOrder) -> Result<String, PerformError> {
        let mut order = order.clone();
        if self.is(Fault::KeyOfEachTry) {
            let mut tried = self.tried.lock().unwrap();
            tried.0 += 1;
            order.fulfill_by -= tried.0;
            tried.1 = Some(order.clone());
        }
        self.chains.deliver(&order).await
    }

    fn signed_by(&self, statement: &Statement, plan: &EscrowPlan, member: &Account, signature: &str) -> bool {
        self.chains.signed_by(statement, plan, member, signature)
    }

    async fn release(
        &self,
        payment_id: &PaymentId,
        plan: &EscrowPlan,
        attestation: &str,
    ) -> Result<String, PerformError> {
        self.chains.release(payment_id, plan, attestation).await
    }

    async fn next_block(&self) {
        self.chains.next_block().await;
    }
}
