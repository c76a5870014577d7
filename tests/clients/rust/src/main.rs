//! Pays by the client of OpenAPI Generator, and signs with k256.
//!
//!     gateway-client-pays GATEWAY RPC KEY_FILE ORDER_FILE

use std::{env, fs, process::ExitCode, thread, time::Duration};

use anyhow::{Context, Result, bail, ensure};
use chrono::{TimeDelta, Utc};
use gateway_client::{
    apis::{
        configuration::Configuration,
        corridors_api::read_defaults,
        payments_api::{prepare_payment, read_payment_status, submit_payment},
    },
    models::{
        ChainDefaultsRequiredDepth, PaymentRequest, PaymentStatus, PreparePaymentRequest, ReadDefaults200Response,
        UnsignedMessage,
    },
};
use k256::ecdsa::SigningKey;
use serde_json::{Value, json};

const QUOTE_SECONDS: i64 = 10;
const FULFILLMENT_SECONDS: i64 = 180;
const POLL: Duration = Duration::from_millis(250);

fn main() -> Result<ExitCode> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [gateway, _, key_file, order_file] = arguments.as_slice() else {
        bail!("usage: gateway-client-pays GATEWAY RPC KEY_FILE ORDER_FILE");
    };
    let key = fs::read_to_string(key_file)?;
    let key = SigningKey::from_slice(&hex::decode(key.trim().trim_start_matches("0x"))?)?;
    let configuration = Configuration { base_path: gateway.clone(), ..Configuration::default() };

    let ReadDefaults200Response::Defaults(defaults) = read_defaults(&configuration, None, None)? else {
        bail!("one chain, where all were asked for");
    };
    for chain in defaults.chains.values() {
        match &*chain.required_depth {
            ChainDefaultsRequiredDepth::String(word) => ensure!(word == "finalized", "required_depth: {word}"),
            ChainDefaultsRequiredDepth::Integer(blocks) => ensure!(*blocks >= 0, "required_depth: {blocks}"),
        }
    }

    let order = order(order_file)?;
    let asked = PreparePaymentRequest::PrepareRequest(serde_json::from_value(order.clone())?);
    let prepared = prepare_payment(&configuration, asked, None)?;
    ensure!(prepared.approval.is_none(), "the allowance does not suffice");
    let signed = prepared.signed_messages.iter().map(|one| signed(&key, one)).collect::<Result<Vec<Value>>>()?;
    let mut request = order;
    request["sender_auth"] = json!({"message_scheme": prepared.message_scheme, "signed_messages": signed});
    let request: PaymentRequest = serde_json::from_value(request)?;

    let submitted = submit_payment(&configuration, request, Some("wait=5"), None)?;
    let mut status = submitted.status;
    while matches!(status, PaymentStatus::Pending | PaymentStatus::Finalizing) {
        thread::sleep(POLL);
        status = read_payment_status(&configuration, &submitted.payment_id, None)?.status;
    }
    println!("{}", json!({"client": "OpenAPI Generator", "payment_id": submitted.payment_id, "status": status}));
    Ok(if status == PaymentStatus::Completed { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The order in the file, with an id and times of its own.
fn order(file: &str) -> Result<Value> {
    let (mut order, now): (Value, _) = (serde_json::from_str(&fs::read_to_string(file)?)?, Utc::now());
    let at = |seconds| (now + TimeDelta::seconds(seconds)).to_rfc3339();
    order["request_id"] = format!("client-{}", now.timestamp_micros()).into();
    order["quote_deadline"] = at(QUOTE_SECONDS).into();
    order["fulfillment_deadline"] = at(FULFILLMENT_SECONDS).into();
    Ok(order)
}

/// The message with its signature. On a network of one's own; examples/evm rebuilds what it signs.
fn signed(key: &SigningKey, one: &UnsignedMessage) -> Result<Value> {
    let digest = hex::decode(one.message.strip_prefix("0x").context("message has no prefix")?)?;
    let (signature, recovery) = key.sign_prehash_recoverable(&digest)?;
    let signature = format!("0x{}{:02x}", hex::encode(signature.to_bytes()), 27 + recovery.to_byte());
    let mut one = serde_json::to_value(one)?;
    one["signature"] = signature.into();
    Ok(one)
}
