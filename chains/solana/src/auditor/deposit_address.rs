//! Deposit addresses, audited: nothing is signed, so it is the address that commits to what the stream shows, and the chain shows what came
//! and went.

use chains::auditor::{Case, Discrepancies, Discrepancy, Kind};
use events::{
    PaymentId, Terms,
    event::{DepositAddress, EscrowPlan, EscrowRefunded, EscrowSecured},
};
use gateway_program::{host, instruction::DepositFromAddress};
use sagas::ports::{PayerDeposit, Transient};

use super::{Auditor, Parties, deposit::Deposited, unreadable};
use crate::{
    deposit_addresses::{self, Place},
    evidence::Evidence,
    program::text,
};

/// What does not fit in the address that the payer's money was sent to.
pub(super) fn given(
    payment_id: &PaymentId,
    terms: &Terms,
    plan: &EscrowPlan,
    recorded: &DepositAddress,
) -> Vec<Discrepancy> {
    let mut discrepancies = Discrepancies::default();
    if let Some(cap) = terms.max_source_amount {
        discrepancies
            .require(cap == recorded.amount, || format!("the address is for {}, the terms say {cap}", recorded.amount));
    }
    match deposit_addresses::mismatch(payment_id, terms, plan, recorded) {
        Ok(Some(what)) => discrepancies.add(Kind::Contradiction, format!("the deposit address: {what}")),
        Ok(None) => {}
        Err(error) => return unreadable(error),
    }
    discrepancies.0
}

/// The deposit from the payment's address `recorded` that the transaction of `evidence` made, if it made one.
pub(super) fn deposited(
    case: &Case<'_>,
    parties: &Parties,
    recorded: &DepositAddress,
    (evidence, secured): (&Evidence, &EscrowSecured),
    discrepancies: &mut Discrepancies,
) -> Option<Deposited> {
    let deposits = evidence.effects(&parties.program).into_iter().filter_map(|effect| {
        let call = DepositFromAddress::from_bytes(&effect.call.data)?;
        (call.terms.payment_id == parties.id).then_some((effect, call))
    });
    let (effect, call) = deposits.into_iter().next()?;
    let price = case.quote.source_amount;
    discrepancies.require(secured.amount >= price, || {
        format!("{} are in escrow, and the quote asks for {price}", secured.amount)
    });
    discrepancies.same("the price in the reservation", price.to_string(), call.reservation.source_amount.to_string());
    discrepancies.same("the least that the address takes", recorded.amount.to_string(), call.terms.amount.to_string());
    let at = host::deposit_address(&parties.program, &call.terms).key;
    discrepancies.same("the address that the money came from", recorded.address.to_string(), text(&at));
    let tokens = host::associated_token_address(&at, &effect.account(8), &parties.mint).key;
    discrepancies.same("the token account that the money came from", text(&tokens), text(&effect.account(5)));
    Some(Deposited { effect, due: call.reservation.deposited, deposit: call.as_signed() })
}

impl Auditor {
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
        // The program lets it go to the payer alone.
        match evidence.effects(&place.program()).iter().find_map(|effect| place.amount_returned(effect)) {
            Some(moved) => {
                discrepancies.same("the amount given back", refunded.amount.to_string(), moved.to_string());
            }
            None => {
                let transaction = &refunded.inclusion.transaction_hash;
                discrepancies.add(Kind::Missing, format!("{transaction} gave nothing back from the deposit address"));
            }
        }
        Ok(discrepancies.0)
    }
}
