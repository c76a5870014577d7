//! Reservation: what the gateway does next for a deposit. Its call names the settler once the payer's money is in escrow.

use alloy::{primitives::Address, sol_types::SolCall};

use chains::escrow;
use escrow_abi::{
    attest,
    contracts::{self, GatewayEscrow, units, word},
    eip712::{self, escrow_domain},
    record::EscrowTerms,
    signature,
};
use events::{Hash32, PaymentId, event::TronSpend};
use sagas::ports::{DepositOrder, PrepareError, Reservation, Transient};
use signer::Secp256k1Key;

use super::{
    address::address,
    calls::{GatewayCall, RECORD_WAITS, refused, reservable_until, waiting},
    deliveries::OrderError,
    escrows::Escrows,
    node::Node,
    payer_deposit::PayerTransactions,
    submitters::Senders,
};

/// The next step of a deposit: the reservation, once the payer's money is in escrow. The payer's transactions are sent
/// before, as far as they can be now.
///
/// # Errors
/// [`PrepareError`] while it is too early for that, or where nothing can be done.
pub(super) async fn next(
    order: &DepositOrder,
    spend: &TronSpend,
    reserver: &Secp256k1Key,
    submitters: &Senders<'_>,
) -> Result<GatewayCall, PrepareError> {
    let node = submitters.node;
    let contract = address(&order.escrow.contract)?;
    let Some(read) = Escrows::of(node).newest(&order.payment_id, contract).await? else {
        return Err(waiting(RECORD_WAITS));
    };
    let refuse = |reason: &str| {
        let context = node.refusal(contract, reason.to_owned());
        Err(refused(context, order.escrow.reserve_deadline))
    };
    match read.record {
        None => match unreservable(order, spend, contract)? {
            Some(reason) => refuse(&reason),
            None => Err(PayerTransactions::of(submitters, order, spend, contract)?.bring().await?),
        },
        Some(record)
            if !record.is_deposit_of(&order.terms.source, order.terms_hash, &order.escrow)
                || record.escrow.deposited != Some(spend.amount) =>
        {
            refuse("the payment's id is used by another deposit")
        }
        Some(record) => match record.escrow.state {
            escrow::State::Deposited => Ok(call(node, order, contract, record.terms, reserver).await?),
            escrow::State::Reserved => refuse("the deposit is reserved already"),
            escrow::State::Released | escrow::State::Refunded => refuse("the escrow has paid out already"),
        },
    }
}

/// Why the escrow would take the reservation at no time: then the payer's money is not to be locked up at all.
fn unreservable(order: &DepositOrder, spend: &TronSpend, escrow: Address) -> Result<Option<String>, Transient> {
    let terms = &order.reservation;
    let payout = address(&terms.payout_account)?;
    let latest = order.escrow.fulfillment_deadline;
    Ok(if payout == escrow {
        Some(format!("the escrow pays nothing out to the payout account {}", terms.payout_account))
    } else if terms.source_amount > spend.amount {
        Some(format!("{} are deposited, {} are to be reserved", spend.amount, terms.source_amount))
    } else if terms.fulfill_by > latest {
        Some(format!("the delivery may take up to {}, past the escrow's deadline {latest}", terms.fulfill_by))
    } else if spend.quote_hash != Hash32::ZERO && spend.quote_hash != terms.quote_hash {
        Some(format!("the payer agreed to the quote {} and to no other", spend.quote_hash))
    } else {
        None
    })
}

/// A reservation as it is signed and logged.
///
/// # Errors
/// [`OrderError`] when the account or the time is not one of Tron's contracts'.
pub(super) fn message(payment_id: &PaymentId, reservation: &Reservation) -> Result<eip712::Reservation, OrderError> {
    Ok(eip712::Reservation {
        paymentId: word(payment_id.on_chain()),
        quoteHash: word(reservation.quote_hash),
        settler: address(&reservation.payout_account)?,
        sourceAmount: units(reservation.source_amount),
        fulfillBy: contracts::time(reservation.fulfill_by)?,
    })
}

async fn call(
    node: &Node,
    order: &DepositOrder,
    contract: Address,
    EscrowTerms(deposit): EscrowTerms,
    reserver: &Secp256k1Key,
) -> Result<GatewayCall, Transient> {
    let message = message(&order.payment_id, &order.reservation)?;
    let preimage = eip712::preimage(&message, &escrow_domain(u64::from(node.reference()), contract));
    let signed = attest::sign_preimage(reserver, &preimage).await?;
    let signature = signature::bytes(&signed).map_err(Transient::misconfigured)?;
    let call = GatewayEscrow::reserveCall { e: deposit, r: (&message).into(), reserverSignature: signature.into() };
    Ok(GatewayCall {
        contract,
        data: call.abi_encode(),
        taken_until: Some(reservable_until(order)),
        valid_until: order.escrow.reserve_deadline,
        ..GatewayCall::default()
    })
}
