//! Reassignment on a Tron chain: the call that brings it, and what the escrow has on record of it (ADR 148).

use alloy::sol_types::SolCall;

use chains::{
    escrow,
    reassignment::{Standing, is_reserved_under},
};
use escrow_abi::{
    attest,
    contracts::{GatewayEscrow, word},
    eip712::{self, escrow_domain},
    record::EscrowTerms,
    signature,
};
use events::event::Inclusion;
use sagas::ports::{PrepareError, ReassignmentOrder, ReassignmentState, Transient};
use signer::Secp256k1Key;

use super::{
    address::address,
    calls::{GatewayCall, RECORD_WAITS, refused, waiting},
    deposits::Deposits,
    escrows::{DatedRecord, Escrows},
    node::{Node, State},
    reservation,
    search::{EventSearch, SearchScope},
};

/// The call of the escrow, signed by the reserver.
///
/// # Errors
/// [`PrepareError`] while it is too early for it, or where the escrow takes none in its newest state.
pub(super) async fn call(
    node: &Node,
    order: &ReassignmentOrder,
    reserver: &Secp256k1Key,
) -> Result<GatewayCall, PrepareError> {
    expect(node, order);
    let contract = address(&order.escrow.contract)?;
    let Some(read) = Escrows::of(node).newest(&order.payment_id, contract).await? else {
        return Err(waiting(RECORD_WAITS));
    };
    let valid_until = order.reservation.fulfill_by;
    let refuse = |reason: &str| Err(refused(node.refusal(contract, reason.to_owned()), valid_until));
    let EscrowTerms(terms) = match read.record {
        Some(record) if !record.is_deposit_of(&order.terms.source, order.terms_hash, &order.escrow) => {
            return refuse("the payment's id is used by another deposit");
        }
        Some(record) if record.escrow.state != escrow::State::Reserved => {
            return refuse("the escrow holds no reservation");
        }
        Some(record) if !is_reserved_under(&record.escrow, &order.lapsed) => {
            return refuse("the escrow is not reserved for the quote that lapsed");
        }
        Some(record) => record.terms,
        None => return refuse("nothing is in escrow for the payment"),
    };
    // By this chain's clock the settler may still have time; every block on top of one that is past it is past it.
    let time = node.head().await?.seconds().min(read.time);
    if time <= order.lapsed.fulfill_by {
        let after = order.lapsed.fulfill_by;
        return Err(waiting(&format!("the chain is at {time}, and the reservation lapses after {after}")));
    }
    let reservation = reservation::message(&order.payment_id, &order.reservation).map_err(Transient::from)?;
    let message = eip712::Reassignment { previousQuoteHash: word(order.lapsed.quote_hash), reservation };
    let preimage = eip712::preimage(&message, &escrow_domain(u64::from(node.reference()), contract));
    let signed = attest::sign_preimage(reserver, &preimage).await.map_err(Transient::from)?;
    let reserver_signature = signature::bytes(&signed).map_err(Transient::misconfigured)?;
    let non_delivery = signature::bytes(&order.non_delivery)
        .map_err(|error| Transient::misconfigured(format!("non-delivery: {error}")))?;
    let call = GatewayEscrow::reassignCall {
        e: terms,
        r: (&message.reservation).into(),
        reserverSignature: reserver_signature.into(),
        nonDelivery: non_delivery.into(),
    };
    Ok(GatewayCall {
        contract,
        data: call.abi_encode(),
        taken_until: Some(valid_until.saturating_sub(1)),
        valid_until,
        ..GatewayCall::default()
    })
}

/// Where the reassignment stands as of a solidified block of the chain of `node`, whoever brought it.
///
/// # Errors
/// [`Transient`], also where the record says nothing of it.
pub(super) async fn state(node: &Node, order: &ReassignmentOrder) -> Result<ReassignmentState, Transient> {
    expect(node, order);
    let found = Escrows::of(node).settled(&order.payment_id, &order.escrow.contract).await?;
    let (settled, time) = (found.settled, found.time);
    let at = || format!("solidified block {} {} of {}, time {time}", settled.number, settled.id, node.chain_id());
    // It was solidified in an earlier block, or it would not be reassigned.
    let nothing = || node.contradiction(format!("nothing in escrow for {} at {}", order.payment_id, at()));
    let record = found.record.ok_or_else(nothing)?;
    let standing = Standing::of(&record.escrow, order, time);
    match standing.map_err(|unknown| node.contradiction(format!("{unknown} for {} at {}", order.payment_id, at())))? {
        Standing::Open => Ok(ReassignmentState::Open),
        Standing::Missed(miss) => Ok(miss.state(&at())),
        Standing::Reassigned => inclusion(node, order, &record).await.map(ReassignmentState::Reassigned),
    }
}

/// Keeps the terms that the escrow commits to before and after it, so that no event has to tell them.
fn expect(node: &Node, order: &ReassignmentOrder) {
    for expected in [order.terms_before(), order.terms_after()] {
        Deposits::of(node).expect(&expected);
    }
}

/// The transaction that made the reservation on record.
async fn inclusion(node: &Node, order: &ReassignmentOrder, record: &DatedRecord) -> Result<Inclusion, Transient> {
    let number = record.reserved_at.ok_or_else(|| node.contradiction("a reservation in no block"))?;
    let contract = address(&order.escrow.contract)?;
    let eip712::Reservation { paymentId, quoteHash, settler, sourceAmount, fulfillBy } =
        reservation::message(&order.payment_id, &order.reservation)?;
    let wanted = GatewayEscrow::Reserved { paymentId, quoteHash, settler, sourceAmount, fulfillBy };
    let scope = SearchScope { contract, number, state: State::Solidified, payment: paymentId, known: &[] };
    let is = |event: &GatewayEscrow::Reserved| *event == wanted;
    EventSearch::of(node).find(&scope, is).await.map(|found| found.inclusion)
}
