//! What parties sign: a payer's deposit, deliveries, calls of the escrow.

use alloy::{
    primitives::{Address, U256, aliases::U48},
    signers::{SignerSync, local::PrivateKeySigner},
    sol_types::{SolCall, SolError, SolStruct},
};

use chains_tron::{
    address::{address, token_or_coin},
    authorization::{BlockEnvironment, Choice, EscrowSettings, SignedMessage, SpendRequest, authorize, prepare},
    transaction,
};
use escrow_abi::{
    contracts::{self, FulfillmentProxy, GatewayEscrow, word},
    eip712::{self, escrow_domain},
    record::EscrowTerms,
};
use events::{
    Hash32, PaymentId,
    event::{Authorization, EscrowPlan, TransactionPrepared},
};
use trondev::{Options, Run};

use super::{
    chain::TronError,
    family::{ENERGY_PRICE_SUN, TronWorld},
    template::signature,
    transactions::named,
};
use crate::family::{Delivered, EscrowCall, REFUND_DELAY, Refusal, Reservation, SpendOrder, secp256k1};

/// What an approval may take, in energy.
const APPROVAL_ENERGY: u64 = 60_000;
/// What a deposit may take, in energy.
const DEPOSIT_ENERGY: u64 = 330_000;

/// Bytes of hex with 0x.
fn bytes_of(text: &str) -> Result<Vec<u8>, String> {
    hex::decode(text.trim_start_matches("0x")).map_err(|error| error.to_string())
}

impl TronWorld {
    /// What the payer signs for `order`, as the gateway reads it.
    pub(super) async fn signed(&self, order: &SpendOrder<'_>) -> Option<(Authorization, EscrowPlan)> {
        let common = &self.config.common;
        let spend = SpendRequest {
            payment_id: order.payment_id.clone(),
            terms: order.terms.clone(),
            quote_deadline: order.quote_deadline,
            fulfillment_deadline: order.fulfillment_deadline,
            escrow: EscrowSettings {
                contract: common.escrow_contract.clone(),
                reserver: common.reserver.clone(),
                releaser: order.releaser.clone(),
                refund_delay_seconds: REFUND_DELAY,
            },
            quote_hash: order.quote_hash,
        };
        let choice = Choice {
            reserve_deadline: Some(order.reserve_deadline),
            refund_after: Some(order.refund_after),
            ..Choice::default()
        };
        let environment = {
            let chain = self.lock();
            BlockEnvironment {
                reference: named(chain.solidified()),
                now_ms: chain.head().time_ms.unsigned_abs(),
                fee_limit_max_sun: Some(Options::default().fee_limit_max_sun),
                // As the chain's price is in a quiet time.
                approval_fee_limit_sun: order.with_approval.then_some(APPROVAL_ENERGY * ENERGY_PRICE_SUN),
                deposit_fee_limit_sun: DEPOSIT_ENERGY * ENERGY_PRICE_SUN,
            }
        };
        let payer = secp256k1(order.payer);
        let prepared = prepare(&spend, &choice, &environment, &secp256k1("reserver").into()).await.ok()?;
        let mut raw = Vec::new();
        let messages = prepared.messages.iter().map(|message| {
            let signature = signature(&payer, &message.id.0);
            raw.push(transaction::assemble(&message.raw_data, &signature));
            SignedMessage {
                message: message.id.to_string(),
                message_prehash: Some(format!("0x{}", hex::encode(&message.raw_data))),
                signature: format!("0x{}", hex::encode(signature)),
                payload: Some(message.payload.clone()),
            }
        });
        let messages: Vec<_> = messages.collect();
        let authorized = authorize(&spend, &messages).ok()?;
        if !order.is_draft {
            self.keep_signed(raw);
        }
        Some(authorized)
    }

    pub(super) fn send_data(
        &self,
        signer: &PrivateKeySigner,
        contract: Address,
        sun: u64,
        data: Vec<u8>,
    ) -> Result<(), String> {
        self.lock().submit(signer, contract, sun, data).map(|_| ()).map_err(|error| error.to_string())
    }

    pub(super) fn send_delivery(&self, signer: &PrivateKeySigner, delivery: &Delivered) -> Result<(), String> {
        let token = token_or_coin(&delivery.asset).map_err(|error| error.to_string())?;
        let call = FulfillmentProxy::fulfillCall {
            paymentId: word(delivery.payment),
            quoteHash: word(delivery.quote_hash),
            token,
            recipient: address(&delivery.recipient).map_err(|error| error.to_string())?,
            amount: delivery.amount,
            fulfillBy: U48::from(delivery.fulfill_by),
        };
        let sun = if token.is_zero() { u64::try_from(delivery.amount).unwrap_or(u64::MAX) } else { 0 };
        self.send_data(signer, self.contracts.proxy, sun, call.abi_encode())
    }

    /// A call of the escrow in the terms that it has of the payment.
    pub(super) fn escrow_call(&self, payment_id: &PaymentId, call: &EscrowCall) -> Result<Vec<u8>, String> {
        let EscrowTerms(e) = self.lock().escrow_terms(payment_id).map_err(|error| error.to_string())?;
        Ok(match call {
            EscrowCall::Release { attestation } => {
                GatewayEscrow::releaseCall { e, attestation: bytes_of(attestation)?.into() }.abi_encode()
            }
            EscrowCall::Cancel { non_delivery } => {
                GatewayEscrow::cancelCall { e, nonDelivery: bytes_of(non_delivery)?.into() }.abi_encode()
            }
            EscrowCall::Refund => GatewayEscrow::refundCall { e }.abi_encode(),
            EscrowCall::Remainder => return Err("a release leaves nothing here".to_owned()),
            EscrowCall::Reassign { previous, reservation, reserver, non_delivery } => {
                let r = reserved(payment_id, reservation)?;
                let signature = self.reassignment_signature(reserver, *previous, &r)?;
                GatewayEscrow::reassignCall {
                    e,
                    r,
                    reserverSignature: signature.into(),
                    nonDelivery: bytes_of(non_delivery)?.into(),
                }
                .abi_encode()
            }
        })
    }

    fn reassignment_signature(
        &self,
        reserver: &str,
        previous: Hash32,
        reservation: &GatewayEscrow::Reservation,
    ) -> Result<Vec<u8>, String> {
        let GatewayEscrow::Reservation { paymentId, quoteHash, settler, sourceAmount, fulfillBy } = reservation.clone();
        let reservation = eip712::Reservation { paymentId, quoteHash, settler, sourceAmount, fulfillBy };
        let message = eip712::Reassignment { previousQuoteHash: word(previous), reservation };
        let domain = escrow_domain(u64::from(self.contracts.number), self.contracts.escrow);
        let signature = secp256k1(reserver).sign_hash_sync(&message.eip712_signing_hash(&domain));
        Ok(signature.map_err(|error| error.to_string())?.as_bytes().to_vec())
    }

    /// What the escrow answers to a call of `sender` in the newest block.
    pub(super) fn try_out(&self, sender: Address, data: &[u8]) -> Result<(), Refusal> {
        let ended = self.lock().run(sender, self.contracts.escrow, data);
        let returned = match ended.map_err(|error: TronError| Refusal::Other(error.to_string()))? {
            Run::Returned(_) => return Ok(()),
            Run::Reverted(returned) => returned,
            Run::Failed(words) => return Err(Refusal::Other(words)),
        };
        let is = |selector: [u8; 4]| returned.starts_with(&selector);
        Err(match () {
            () if is(GatewayEscrow::ReleaserSignatureInvalid::SELECTOR) => Refusal::Releaser,
            () if is(GatewayEscrow::ReserverSignatureInvalid::SELECTOR) => Refusal::Reserver,
            () if is(GatewayEscrow::ReservationNotOver::SELECTOR) => Refusal::ReservationNotOver,
            () => Refusal::Other(format!("0x{}", hex::encode(returned))),
        })
    }
}

fn reserved(payment_id: &PaymentId, reservation: &Reservation) -> Result<GatewayEscrow::Reservation, String> {
    Ok(GatewayEscrow::Reservation {
        paymentId: word(payment_id.on_chain()),
        quoteHash: word(reservation.quote_hash),
        settler: address(&reservation.settler).map_err(|error| error.to_string())?,
        sourceAmount: reservation.source_amount,
        fulfillBy: U48::from(reservation.fulfill_by),
    })
}

fn data_of(prepared: &TransactionPrepared) -> Option<Vec<u8>> {
    let raw = hex::decode(prepared.raw.trim_start_matches("0x")).ok()?;
    Some(transaction::read_signed(&raw).ok()?.0.draft.call.data)
}

/// The last second in which the escrow takes a reservation that was signed, from anyone.
pub(super) fn admitted_until(prepared: &TransactionPrepared) -> Option<u64> {
    let call = GatewayEscrow::reserveCall::abi_decode(&data_of(prepared)?).ok()?;
    let last = contracts::seconds(call.e.deposit.reserveDeadline);
    Some(last.min(contracts::seconds(call.r.fulfillBy).saturating_sub(1)))
}

/// What was deposited for a reservation that is paid less.
pub(super) fn draws(prepared: &TransactionPrepared) -> Option<U256> {
    let call = GatewayEscrow::reserveCall::abi_decode(&data_of(prepared)?).ok()?;
    (call.e.deposited > call.r.sourceAmount).then_some(call.e.deposited)
}

/// The quote that a transaction reassigns an escrow to.
pub(super) fn reassigns_to(prepared: &TransactionPrepared) -> Option<Hash32> {
    let call = GatewayEscrow::reassignCall::abi_decode(&data_of(prepared)?).ok()?;
    Some(Hash32(call.r.quoteHash.0))
}
