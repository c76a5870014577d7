//! Deliberately broken variants of a verifier, at its port to a chain: what is asked of the chain, and what is taken for its answer.
//! The verifier stays as it is; `events::mutant!` names the one that is in force.
//!
//! Some that come to mind are not here, since the escrow makes them harmless: to attest after a refund (it pays once), and to attest
//! for a reservation that has lapsed (the statement names its quote).

use async_trait::async_trait;

use chains::{
    config::CommonConfig,
    escrow::{EscrowRecord, QuotedEscrow, QuotedRecord},
    verifier::{AttestingChain, VerifiedChain},
};
use events::{Account, Amount, OwnedAsset, PaymentId, event::EscrowPlan, mutant};
use sagas::ports::{DeliveryOrder, DeliveryState, Statement, Transient};

/// A chain as a verifier that is not careful sees it.
#[derive(Clone)]
pub(crate) struct Careless<C>(pub C);

impl<C: VerifiedChain> Careless<C> {
    async fn looked_for(&self, order: &DeliveryOrder) -> Result<DeliveryState, Transient> {
        let found = self.0.delivery_state(order).await?;
        let others = match found {
            DeliveryState::NotSeen | DeliveryState::Impossible => others(order),
            DeliveryState::Seen(_) | DeliveryState::Final(_) => None,
        };
        match others {
            Some(other) => match self.0.delivery_state(&other).await? {
                DeliveryState::NotSeen | DeliveryState::Impossible => Ok(found),
                another => Ok(another),
            },
            None => Ok(found),
        }
    }
}

/// The delivery in other terms that is taken for the one of `order`. The keys of deliveries are made of all their terms, so what is
/// not compared is looked for by itself: what settlers of the world deliver in the place of what they promised.
fn others(order: &DeliveryOrder) -> Option<DeliveryOrder> {
    let mut other = order.clone();
    if mutant!("verifier-ignores-the-amount") {
        let units: u64 = order.amount.to_string().parse().ok()?;
        other.amount = units.checked_sub(1)?.to_string().parse::<Amount>().ok()?;
    } else if mutant!("verifier-ignores-the-recipient") {
        let to = &order.delivery_account;
        other.destination = OwnedAsset::new(order.destination.asset().clone(), &to.to_string()).ok()?;
    } else {
        return None;
    }
    Some(other)
}

#[async_trait]
impl<C: VerifiedChain> VerifiedChain for Careless<C> {
    fn config(&self) -> &CommonConfig {
        self.0.config()
    }

    async fn escrow_record(
        &self,
        payment_id: &PaymentId,
        contract: &Account,
    ) -> Result<Option<EscrowRecord>, Transient> {
        self.0.escrow_record(payment_id, contract).await
    }

    async fn quoted_record(&self, quoted: &QuotedEscrow<'_>) -> Result<QuotedRecord, Transient> {
        self.0.quoted_record(quoted).await
    }

    async fn delivery_state(&self, order: &DeliveryOrder) -> Result<DeliveryState, Transient> {
        Ok(match self.looked_for(order).await? {
            DeliveryState::Seen(inclusion) if mutant!("verifier-without-depth") => DeliveryState::Final(inclusion),
            DeliveryState::NotSeen if mutant!("verifier-denies-what-may-come") => DeliveryState::Impossible,
            DeliveryState::Seen(_) if mutant!("verifier-denies-what-it-sees") => DeliveryState::Impossible,
            state => state,
        })
    }
}

#[async_trait]
impl<C: AttestingChain> AttestingChain for Careless<C> {
    type Key = C::Key;

    fn account(key: &Self::Key) -> Account {
        C::account(key)
    }

    async fn sign(&self, key: &Self::Key, statement: &Statement, plan: &EscrowPlan) -> Result<String, Transient> {
        self.0.sign(key, statement, plan).await
    }
}
