//! Purchases of merchants' offers, audited (ADR 160): the buyer signed a transfer to an address that commits to the offer, and the chain
//! shows that what came there was deposited under it, or went to the merchant.

use chains::auditor::{Case, Discrepancies, Discrepancy, Kind};
use events::{
    PaymentId, Terms,
    event::{EscrowPlan, EscrowRefunded, SolanaPurchase},
};
use gateway_program::{
    host,
    instruction::{Collect, DepositFromOffer},
};
use sagas::ports::{PayerDeposit, Transient};

use super::{Auditor, Parties, deposit::Deposited, unreadable};
use crate::{
    evidence::Evidence,
    exact::{Asked, ExactTransfer},
    offers,
    program::{ConvertError, key, mint, text, units},
    token_accounts::token_accounts,
    transaction::wire_of,
};

/// Place of the token account that is emptied among the accounts of a collection.
const FROM_IN_COLLECTION: usize = 2;

/// What does not fit in what the buyer signed.
pub(super) fn signed(
    payment_id: &PaymentId,
    terms: &Terms,
    plan: &EscrowPlan,
    recorded: &SolanaPurchase,
) -> Vec<Discrepancy> {
    let mut discrepancies = Discrepancies::default();
    if let Some(cap) = terms.max_source_amount {
        discrepancies
            .require(cap == recorded.amount, || format!("the buyer pays {}, the terms say {cap}", recorded.amount));
    }
    let seconds = |from: u64, to: u64| to.checked_sub(from);
    let windows = [
        ("the delivery", seconds(plan.reserve_deadline, plan.fulfillment_deadline), recorded.delivery_seconds),
        ("the refund", seconds(plan.fulfillment_deadline, plan.refund_after), recorded.refund_seconds),
    ];
    for (name, found, committed) in windows {
        discrepancies.require(found == Some(committed.into()), || {
            format!("the window of {name} is not the {committed} seconds that the offer commits to")
        });
    }
    match offers::address_of(&offers::of_purchase(terms, plan, recorded)) {
        Ok(address) => discrepancies.same("the address of the offer", &recorded.pay_to, &address),
        Err(error) => return unreadable(error),
    }
    match transfer(payment_id, terms, recorded) {
        Ok(None) => {}
        Ok(Some(what)) => discrepancies.add(Kind::Contradiction, format!("the buyer's transfer: {what}")),
        Err(error) => return unreadable(error),
    }
    discrepancies.0
}

/// Why the recorded transaction is not the transfer that the payment rests on; `None` where it is.
fn transfer(payment_id: &PaymentId, terms: &Terms, recorded: &SolanaPurchase) -> Result<Option<String>, ConvertError> {
    let Some(wire) = wire_of(&recorded.transaction) else { return Ok(Some("its bytes are not hex".to_owned())) };
    let transfer = match ExactTransfer::read(&wire) {
        Ok(transfer) => transfer,
        Err(error) => return Ok(Some(error.to_string())),
    };
    let (fee_payer, pay_to) = (key(&recorded.fee_payer)?, key(&recorded.pay_to)?);
    let mint = mint(terms.source.asset())?;
    let asked = Asked { fee_payer: &fee_payer, pay_to: &pay_to, mint: &mint, amount: units(recorded.amount)? };
    Ok(if let Err(error) = transfer.check(&asked) {
        Some(error.to_string())
    } else if transfer.buyer_account().as_ref() != Some(&recorded.buyer) {
        Some(format!("it was signed by {}, not by {}", text(&transfer.buyer()), recorded.buyer))
    } else {
        let derived = PaymentId::derive(&recorded.buyer.originator(), &transfer.message_hash().to_string());
        (derived != *payment_id).then(|| format!("it is of payment {derived}"))
    })
}

/// The deposit from the address of the payment's offer that the transaction of `evidence` made, if it made one.
pub(super) fn deposited(
    case: &Case<'_>,
    parties: &Parties,
    recorded: &SolanaPurchase,
    evidence: &Evidence,
    discrepancies: &mut Discrepancies,
) -> Option<Deposited> {
    let deposits = evidence.effects(&parties.program).into_iter().filter_map(|effect| {
        let call = DepositFromOffer::from_bytes(&effect.call.data)?;
        (call.purchase.payment_id == parties.id).then_some((effect, call))
    });
    let (effect, call) = deposits.into_iter().next()?;
    let price = case.quote.source_amount;
    discrepancies.same("the price in the reservation", price.to_string(), call.reservation.source_amount.to_string());
    discrepancies.same("what each buyer pays", recorded.amount.to_string(), call.offer.amount.to_string());
    let at = host::offer_address(&parties.program, &call.offer).key;
    discrepancies.same("the address that the money came from", recorded.pay_to.to_string(), text(&at));
    let tokens = host::associated_token_address(&at, &effect.account(8), &parties.mint).key;
    discrepancies.same("the token account that the money came from", text(&tokens), text(&effect.account(5)));
    Some(Deposited { effect, due: call.reservation.deposited, deposit: call.as_signed() })
}

impl Auditor {
    /// Whether the transaction that the stream names collected for the merchant what the stream says.
    pub(super) async fn collected(
        &self,
        deposit: &PayerDeposit,
        recorded: &SolanaPurchase,
        refunded: &EscrowRefunded,
    ) -> Result<Vec<Discrepancy>, Transient> {
        let mut discrepancies = Discrepancies::default();
        let Some(evidence) = self.executed_as(&refunded.inclusion, &mut discrepancies).await? else {
            return Ok(discrepancies.0);
        };
        let program = key(&deposit.escrow.contract)?;
        let offer = offers::offer(&offers::of_purchase(&deposit.terms, &deposit.escrow, recorded))?;
        // The program lets it go to the merchant alone, and collects any token: that of the offer lies here.
        let from = token_accounts(&key(&recorded.pay_to)?, &offer.mint);
        let moved = evidence.effects(&program).into_iter().find_map(|effect| {
            let call = Collect::from_bytes(&effect.call.data).filter(|call| call.offer == offer)?;
            let emptied = effect.call.accounts.get(FROM_IN_COLLECTION).filter(|account| from.contains(account))?;
            (effect.tokens_moved(|source, _| source == emptied) == call.amount).then_some(call.amount)
        });
        match moved {
            Some(moved) => discrepancies.same("the amount collected", refunded.amount.to_string(), moved.to_string()),
            None => {
                let transaction = &refunded.inclusion.transaction_hash;
                discrepancies.add(Kind::Missing, format!("{transaction} collected nothing for the merchant"));
            }
        }
        Ok(discrepancies.0)
    }
}
