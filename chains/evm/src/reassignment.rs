//! Reassignment on an EVM chain: the call that brings it, and what the escrow has on record of it (ADR 148).

use alloy::{primitives::Address, sol_types::SolCall};

use chains::reassignment::Standing;
use escrow_abi::{
    attest::sign_preimage,
    contracts::{GatewayEscrow, account, address, word},
    eip712::{self, escrow_domain},
    record::EscrowTerms,
};
use sagas::ports::{ReassignmentOrder, ReassignmentState, Transient};
use signer::Secp256k1Key;

use super::{
    calls::Call,
    deposit_call,
    escrows::{Escrows, SettledEscrow},
    logs::{Found, Logs},
    node::Node,
    transaction::{plain, raw_bytes},
};

/// The call of the escrow by `sender`, signed by the reserver. Its terms are those before the reassignment: an escrow of which
/// they are not true any more refuses it.
///
/// # Errors
/// [`Transient`] for an order that fits no EVM chain, and where the key does not sign.
pub(crate) async fn call(
    order: &ReassignmentOrder,
    reserver: &Secp256k1Key,
    evm_id: u64,
    sender: Address,
) -> Result<Call, Transient> {
    let escrow = address(&order.escrow.contract)?;
    let EscrowTerms(terms) = deposit_call::terms(&order.terms_before())?
        .ok_or_else(|| Transient::misconfigured("the payer signed for no EVM chain"))?;
    let message = eip712::reassignment(&order.payment_id, order.lapsed.quote_hash, &order.reservation)?;
    let signed = sign_preimage(reserver, &eip712::preimage(&message, &escrow_domain(evm_id, escrow))).await?;
    let reserver_signature =
        raw_bytes(&signed).ok_or_else(|| Transient::misconfigured("the reserver's signature is not hex"))?;
    let non_delivery =
        raw_bytes(&order.non_delivery).ok_or_else(|| Transient::misconfigured("the non-delivery is not hex"))?;
    let data = GatewayEscrow::reassignCall {
        e: terms,
        r: GatewayEscrow::Reservation::from(&message.reservation),
        reserverSignature: reserver_signature,
        nonDelivery: non_delivery,
    };
    Ok(plain(sender, escrow, data.abi_encode()))
}

/// Where the reassignment stands at the newest settled block of the chain of `node`, whoever brought it.
///
/// # Errors
/// [`Transient`], also where the record says nothing of it.
pub(crate) async fn state(node: &Node, order: &ReassignmentOrder) -> Result<ReassignmentState, Transient> {
    let escrows = Escrows::of(node);
    for expected in [order.terms_before(), order.terms_after()] {
        escrows.expect(&expected);
    }
    let SettledEscrow { block: settled, record } = escrows.settled(&order.payment_id, &order.escrow.contract).await?;
    let at =
        || format!("settled block {} {} of {}, time {}", settled.number, settled.hash, node.chain_id(), settled.time);
    // It was settled in an earlier block, or it would not be reassigned.
    let nothing = || node.contradiction(format!("nothing in escrow for {} at {}", order.payment_id, at()));
    let record = record.ok_or_else(nothing)?;
    let standing = Standing::of(&record, order, settled.time);
    match standing.map_err(|unknown| node.contradiction(format!("{unknown} for {} at {}", order.payment_id, at())))? {
        Standing::Open => Ok(ReassignmentState::Open),
        Standing::Missed(miss) => Ok(miss.state(&at())),
        Standing::Reassigned => {
            let contract = address(&order.escrow.contract)?;
            let quote = word(order.reservation.quote_hash);
            let found: Found<GatewayEscrow::Reserved> = Logs::of(node)
                .find(contract, word(order.payment_id.on_chain()), settled, |event: &GatewayEscrow::Reserved| {
                    event.quoteHash == quote && account(event.settler) == record.settler
                })
                .await?;
            Ok(ReassignmentState::Reassigned(found.inclusion))
        }
    }
}
