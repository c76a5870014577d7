//! What parties sign: a payer's deposit, deliveries, calls of the escrow.

use alloy::{
    primitives::{Address, U256, aliases::U48},
    signers::local::PrivateKeySigner,
    sol_types::SolCall,
};

use chains_tron::{
    address::{address, token_or_coin},
    authorization::{BlockEnvironment, Choice, EscrowSettings, SignedMessage, SpendRequest, authorize, prepare},
    transaction,
};
use escrow_abi::contracts::{self, FulfillmentProxy, GatewayEscrow, word};
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
use crate::family::{
    self, Delivered, EscrowCall, REFUND_DELAY, Refusal, SolidityChain, SpendOrder, refusal, secp256k1,
};

/// What an approval may take, in energy.
const APPROVAL_ENERGY: u64 = 60_000;
/// What a deposit may take, in energy.
const DEPOSIT_ENERGY: u64 = 330_000;

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
                permit2: None,
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
        let terms = self.lock().escrow_terms(payment_id).map_err(|error| error.to_string())?;
        self.call_data(terms, payment_id, call)
    }

    /// What the escrow answers to a call of `sender` in the newest block.
    pub(super) fn try_out(&self, sender: Address, data: &[u8]) -> Result<(), Refusal> {
        let ended = self.lock().run(sender, self.contracts.escrow, data);
        let returned = match ended.map_err(|error: TronError| Refusal::Other(error.to_string()))? {
            Run::Returned(_) => return Ok(()),
            Run::Reverted(returned) => returned,
            Run::Failed(words) => return Err(Refusal::Other(words)),
        };
        Err(refusal(&returned, || format!("0x{}", hex::encode(&returned))))
    }
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
    family::reassigns_to(&data_of(prepared)?)
}
