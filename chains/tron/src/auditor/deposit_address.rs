//! Deposit addresses, audited: nothing is signed, so it is the address that commits to what the stream shows, and the chain shows what came
//! and went.

use alloy::primitives::Address;

use chains::auditor::{Discrepancies, Discrepancy, Kind};
use events::{
    PaymentId, Terms,
    event::{DepositAddress, EscrowPlan, EscrowRefunded},
};
use sagas::ports::{PayerDeposit, Transient};

use super::{Auditor, signed::parties, unreadable};
use crate::{
    address::{address, text},
    deposit_addresses::{self, Place},
};

impl Auditor {
    /// What does not fit in the address that the payer's money was sent to, and whether its factory is this version's: another one's
    /// addresses may do anything with what comes there.
    pub(super) async fn given(
        &self,
        payment_id: &PaymentId,
        terms: &Terms,
        plan: &EscrowPlan,
        recorded: &DepositAddress,
    ) -> Result<Vec<Discrepancy>, Transient> {
        let mut discrepancies = Discrepancies::default();
        if let Some(cap) = terms.max_source_amount {
            discrepancies.require(cap == recorded.amount, || {
                format!("the address is for {}, the terms say {cap}", recorded.amount)
            });
        }
        match deposit_addresses::mismatch(payment_id, terms, plan, recorded) {
            Ok(Some(what)) => discrepancies.add(Kind::Contradiction, format!("the deposit address: {what}")),
            Ok(None) => {}
            Err(error) => return Ok(unreadable(error)),
        }
        let factory: Address = match address(&recorded.factory) {
            Ok(factory) => factory,
            Err(error) => return Ok(unreadable(error)),
        };
        if !deposit_addresses::is_factory(&self.node, factory).await? {
            let what = format!("the deposit address: its factory {} is not known", text(factory));
            discrepancies.add(Kind::Contradiction, what);
        }
        Ok(discrepancies.0)
    }

    /// Whether the transaction that the stream names gave back what the stream says.
    pub(super) async fn came_back(
        &self,
        deposit: &PayerDeposit,
        refunded: &EscrowRefunded,
    ) -> Result<Vec<Discrepancy>, Transient> {
        let mut discrepancies = Discrepancies::default();
        let Some(evidence) = self.executed_as(&refunded.inclusion, &mut discrepancies).await? else {
            return Ok(discrepancies.0);
        };
        let place = Place::of(deposit)?;
        match parties(&deposit.payment_id, &deposit.terms, &deposit.escrow) {
            Ok(parties) => {
                let place = (place.factory(), place.at());
                evidence.given_back(&parties, place, |amount| amount, refunded, &mut discrepancies);
            }
            Err(error) => return Ok(unreadable(error)),
        }
        Ok(discrepancies.0)
    }
}
