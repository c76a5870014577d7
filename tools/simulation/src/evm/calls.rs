//! The calls of the contracts: as parties make them, and as the gateway's transactions have them.

use alloy::{
    consensus::{SignableTransaction, Transaction, TxEip1559, TxEnvelope},
    eips::eip2718::{Decodable2718, Encodable2718},
    primitives::{Address, Bytes, U256},
    signers::{SignerSync, local::PrivateKeySigner},
    sol_types::SolCall,
};
use serde_json::{Value, json};

use escrow_abi::contracts::{self, FulfillmentProxy, GatewayEscrow, address, token_or_coin, word};
use events::{Hash32, PaymentId, event::TransactionPrepared};

use super::EvmWorld;
use crate::{
    chain::NodeKind,
    family::{self, Delivered, EscrowCall, Refusal, SolidityChain, refusal},
};

/// Gas limit of every transaction that is not the gateway's.
const GAS: u64 = 500_000;
/// Tip of every transaction that is not the gateway's, wei per unit of gas.
const TIP: u128 = 2_000_000_000;

impl EvmWorld {
    /// Sends a transaction of `signer`, priced for the next blocks.
    pub(super) fn send_data(
        &self,
        signer: &PrivateKeySigner,
        to: Address,
        value: U256,
        data: Bytes,
    ) -> Result<(), String> {
        let mut chain = self.lock();
        let mut ask = |method: &str, params: Value| {
            chain.rpc(&NodeKind::Honest, method, &params).map_err(|fault| fault.to_string())
        };
        let number = |value: Value| {
            let digits = value.as_str().unwrap_or_default().trim_start_matches("0x").to_owned();
            u64::from_str_radix(&digits, 16).map_err(|error| error.to_string())
        };
        let nonce = number(ask("eth_getTransactionCount", json!([signer.address(), "pending"]))?)?;
        let head = ask("eth_getBlockByNumber", json!(["latest", false]))?;
        let base = number(head.get("baseFeePerGas").cloned().unwrap_or_default())?;
        let transaction = TxEip1559 {
            chain_id: self.evm_id,
            nonce,
            gas_limit: GAS,
            max_fee_per_gas: u128::from(base) * 2 + TIP,
            max_priority_fee_per_gas: TIP,
            to: to.into(),
            value,
            input: data,
            ..TxEip1559::default()
        };
        let signature = signer.sign_hash_sync(&transaction.signature_hash()).map_err(|error| error.to_string())?;
        let raw: Bytes = TxEnvelope::from(transaction.into_signed(signature)).encoded_2718().into();
        ask("eth_sendRawTransaction", json!([raw])).map(|_| ())
    }

    pub(super) fn send_call(
        &self,
        signer: &PrivateKeySigner,
        to: Address,
        value: U256,
        call: &impl SolCall,
    ) -> Result<(), String> {
        self.send_data(signer, to, value, call.abi_encode().into())
    }

    pub(super) fn send_delivery(&self, signer: &PrivateKeySigner, delivery: &Delivered) -> Result<(), String> {
        let refused = |error: contracts::ConvertError| error.to_string();
        let token = token_or_coin(&delivery.asset).map_err(refused)?;
        let call = FulfillmentProxy::fulfillCall {
            paymentId: word(delivery.payment),
            quoteHash: word(delivery.quote_hash),
            token,
            recipient: address(&delivery.recipient).map_err(refused)?,
            amount: delivery.amount,
            fulfillBy: contracts::time(delivery.fulfill_by).map_err(refused)?,
        };
        let value = if token.is_zero() { delivery.amount } else { U256::ZERO };
        self.send_call(signer, self.contracts.proxy, value, &call)
    }

    /// A call of the escrow in the terms that it has of the payment.
    pub(super) fn escrow_call(&self, payment_id: &PaymentId, call: &EscrowCall) -> Result<Bytes, String> {
        let terms = self.lock().escrow_terms(payment_id).map_err(|error| error.to_string())?;
        Ok(self.call_data(terms, payment_id, call)?.into())
    }

    /// What the escrow answers to a call of `sender` in the newest block.
    pub(super) fn try_out(&self, sender: Address, data: &Bytes) -> Result<(), Refusal> {
        let call = json!([{ "from": sender, "to": self.contracts.escrow, "data": data }, "latest"]);
        let answer = self.lock().rpc(&NodeKind::Honest, "eth_call", &call);
        let Err(fault) = answer else { return Ok(()) };
        let digits = fault.data.as_ref().and_then(Value::as_str).unwrap_or_default();
        let returned = hex::decode(digits.trim_start_matches("0x")).unwrap_or_default();
        Err(refusal(&returned, || fault.to_string()))
    }
}

fn input_of(prepared: &TransactionPrepared) -> Option<Bytes> {
    let raw = hex::decode(prepared.raw.trim_start_matches("0x")).ok()?;
    Some(TxEnvelope::decode_2718(&mut raw.as_slice()).ok()?.input().clone())
}

/// The last second in which the escrow takes a deposit that was signed, from anyone.
pub(super) fn admitted_until(prepared: &TransactionPrepared) -> Option<u64> {
    let input = &input_of(prepared)?;
    let until = GatewayEscrow::depositWithWitnessCall::abi_decode(input)
        .map(|call| call.admittedUntil)
        .or_else(|_| GatewayEscrow::depositWithPermitCall::abi_decode(input).map(|call| call.admittedUntil))
        .or_else(|_| GatewayEscrow::depositMoreWithWitnessCall::abi_decode(input).map(|call| call.admittedUntil))
        .or_else(|_| GatewayEscrow::depositMoreWithPermitCall::abi_decode(input).map(|call| call.admittedUntil));
    until.ok().map(contracts::seconds)
}

/// What a deposit draws that is larger than the price.
pub(super) fn draws(prepared: &TransactionPrepared) -> Option<U256> {
    let input = &input_of(prepared)?;
    let amount = GatewayEscrow::depositMoreWithWitnessCall::abi_decode(input).map(|call| call.amount);
    amount.or_else(|_| GatewayEscrow::depositMoreWithPermitCall::abi_decode(input).map(|call| call.amount)).ok()
}

/// The quote that a transaction reassigns an escrow to.
pub(super) fn reassigns_to(prepared: &TransactionPrepared) -> Option<Hash32> {
    family::reassigns_to(&input_of(prepared)?)
}
