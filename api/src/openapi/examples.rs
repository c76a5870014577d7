//! Example bodies. They tell one story: order-7, paid on one chain and delivered on another.

mod defaults;
mod mandates;
mod payment_batches;
mod settlers;
pub(super) mod webhooks;
pub(super) mod x402;

use serde_json::{Value, json};

pub(super) use self::{
    defaults::defaults,
    mandates::{prepare_mandate_request, prepared_mandate},
    payment_batches::{
        payment_batch_request, payment_batch_response, prepare_payment_batch_request, prepared_payment_batch,
    },
    settlers::{settler, settlers},
};

use events::{PaymentId, QuoteRequestId};

use crate::worked_quote;

const SOURCE_CHAIN: &str = "eip155:31337";
const DESTINATION_CHAIN: &str = "eip155:31338";
const SOLANA_CHAIN: &str = "solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp";
const TRON_CHAIN: &str = "tron:728126428";
const TOKEN: &str = "0x9fe46736679d2d9a65f0992f2272de9f3c7fa6e0";
const WRAPPED: &str = "0xcf7ed3acca5a467e9e704c603e8d87f634fb0fc9";
const PAYER: &str = "0x90f79bf6eb2c4f870365e785982e1f101e93b906";
const ESCROW: &str = "0xe7f1725e7734ce288f8367e1bb143e90bb3f0512";
const RECIPIENT: &str = "0x15d34aaf54267db7d7c367839aaf71a00a2c6a65";
const SETTLER: &str = "did:key:z6MkiTBz1ymuepAQ4HEHYSF1H8quG5GLVVQR3djdX3mDooWp";
const QUOTE_ID: &str = "quo_652hrel34hur5cw7tmcmejjn4d22vw262hyv3dlbvvwcc7n5glyq";
const DEPOSIT: &str = "0x6f1c0d8a52b1f4a7c1d0a6b5e8b27a4c90f3e2d1c4b5a69788796a5b4c3d2e1f";
const DELIVERY: &str = "0x2b9e4c6d8f0a1b3c5d7e9f1a3b5c7d9e0f2a4c6e8091a3b5c7d9ebfd0f1e2d3c";
const MESSAGE: &str = "0x3f8a1c5e7d9b2f4a6c8e0d1b3a5c7e9f0b2d4f6a8c0e1d3b5a7c9e0f2b4d6f80";
const REQUEST_ID: &str = "order-7";

/// The beginning of a stream of events.
pub(super) const EVENTS: &str = "\
id: 1.0\n\
data: {\"id\":\"1.0\",\"version\":1,\"event\":\"Submitted\",\"at\":\"2030-01-01T00:00:00.412Z\",\
\"status\":\"pending\",\"summary\":\"The payment was accepted.\"}\n\
retry: 1000\n\n";

/// Examples by name.
pub(super) type Examples = Vec<(&'static str, Value)>;

fn payment_id() -> PaymentId {
    PaymentId::derive(&format!("eip155:{PAYER}"), REQUEST_ID)
}

fn owned(chain: &str, account: &str) -> Value {
    json!({"asset_identifier": format!("{chain}/erc20:{TOKEN}"), "account": account})
}

fn sender_auth() -> Value {
    json!({
        "message_scheme": "EVM_PERMIT2_ESCROW",
        "signed_messages": [{
            "message": MESSAGE,
            "signature": format!("0x{}{}1b", "9a".repeat(32), "4c".repeat(32)),
        }],
    })
}

fn order() -> Value {
    json!({
        "version": "1.0",
        "request_id": REQUEST_ID,
        "source": owned(SOURCE_CHAIN, PAYER),
        "destination": [owned(DESTINATION_CHAIN, RECIPIENT)],
        "fulfillment_amount": "25000000",
        "max_source_amount": "25500000",
        "quote_deadline": "2030-01-01T00:00:10Z",
        "fulfillment_deadline": "2030-01-01T00:05:00Z",
    })
}

/// `base` with the members of `more`.
fn and(mut base: Value, more: Value) -> Value {
    if let (Value::Object(base), Value::Object(more)) = (&mut base, more) {
        base.extend(more);
    }
    base
}

/// Bodies of a submission.
pub(super) fn payment_request() -> Examples {
    let plain = and(order(), json!({"sender_auth": sender_auth()}));
    let requirements = json!({
        "request_id": "order-8",
        "settler_auth_required": {"kyc": true},
        "settler_requirements": {"whitelist": [SETTLER]},
    });
    let either = json!({
        "request_id": "order-9",
        "destination": [owned(DESTINATION_CHAIN, RECIPIENT), owned(SOURCE_CHAIN, RECIPIENT)],
    });
    vec![
        ("plain", plain.clone()),
        ("only certain settlers", and(plain.clone(), requirements)),
        ("one of two destinations", and(plain, either)),
    ]
}

/// A request for what to sign.
pub(super) fn prepare_request() -> Examples {
    let award = json!({
        "version": "1.0",
        "request_id": REQUEST_ID,
        "quote_request_id": quote_request_id(),
        "quote_id": QUOTE_ID,
    });
    vec![("a payment", and(order(), json!({"message_scheme": "EVM_PERMIT2_ESCROW"}))), ("an award", award)]
}

/// What to sign.
pub(super) fn prepared_payment() -> Examples {
    let prepared = json!({
        "payment_id": payment_id(),
        "message_scheme": "EVM_PERMIT2_ESCROW",
        "signed_messages": [{
            "message": MESSAGE,
            "message_prehash": "{\"primaryType\":\"PermitWitnessTransferFrom\",…}",
            "payload": {},
        }],
        "fulfillment_verifier": defaults::verifiers(),
    });
    let wrap = json!({
        "asset_identifier": format!("{SOURCE_CHAIN}/erc20:{WRAPPED}"),
        "coin": format!("{SOURCE_CHAIN}/slip44:60"),
        "amount": "10000000000000000",
        "calls": [{"to": WRAPPED, "data": "0xd0e30db0", "value": "0x2386f26fc10000"}],
    });
    let coins = and(prepared.clone(), json!({"wrap": wrap}));
    vec![("typed data, shortened", prepared), ("for a payer that holds the chain's coin alone", coins)]
}

/// Rehearsals that went well.
pub(super) fn verification() -> Examples {
    let new = json!({"valid": true, "payment_id": payment_id()});
    vec![("would be accepted", new.clone()), ("a replay", and(new, json!({"status": "completed"})))]
}

/// A request without what authorizes it.
pub(super) fn unsigned_request() -> Examples {
    vec![("plain", order())]
}

/// A transaction that was mined.
fn transaction(hash: &str, chain: &str, block: u64) -> Value {
    json!({"transaction_hash": hash, "chain_id": chain, "block_number": block, "settled": true})
}

fn quote() -> Value {
    // That it is one, and this story's, is what the tests show.
    serde_json::from_str(worked_quote::DOCUMENT).unwrap_or_default()
}

/// What a completed payment shows.
fn completed() -> Value {
    json!({
        "payment_id": payment_id(),
        "status": "completed",
        "transactions": {
            "deposit": transaction(DEPOSIT, SOURCE_CHAIN, 1_024),
            "fulfillment": transaction(DELIVERY, DESTINATION_CHAIN, 2_048),
        },
        "quote_id": QUOTE_ID,
        "fulfillment_quote": quote(),
        "fulfillment_confirmation": {
            "payment_id": payment_id(),
            "request_id": REQUEST_ID,
            "source_chain_id": SOURCE_CHAIN,
            "destination_chain_id": DESTINATION_CHAIN,
            "source_tx_hash": DEPOSIT,
            "destination_tx_hash": DELIVERY,
            "fulfillment_timestamp": "2030-01-01T00:00:14Z",
            "source_block_number": 1_024,
            "destination_block_number": 2_048,
        },
    })
}

fn failed(base_url: &str) -> Value {
    let code = app::error::Code::NO_QUOTES_RECEIVED;
    json!({
        "payment_id": payment_id(),
        "status": "failed",
        "transactions": {},
        "error": {
            "code": code.code,
            "message": code.message,
            "domain": code.domain,
            "docs_url": app::error::docs_url(base_url, code.code),
            "retry_classification": code.retry_classification,
            "request_id_reusable": false,
        },
    })
}

/// Where the addresses in examples lead.
pub(super) const BASE_URL: &str = "https://pay.example";

/// Answers to a submission.
pub(super) fn payment_response() -> Examples {
    let created = json!({"idempotent_replay": false});
    let pending = json!({"payment_id": payment_id(), "status": "pending", "idempotent_replay": false});
    let replay = json!({
        "payment_id": payment_id(),
        "status": "finalizing",
        "idempotent_replay": true,
        "transactions": {
            "deposit": transaction(DEPOSIT, SOURCE_CHAIN, 1_024),
            "fulfillment": transaction(DELIVERY, DESTINATION_CHAIN, 2_048),
        },
    });
    vec![
        ("completed within the hold", and(completed(), created.clone())),
        ("still pending", pending),
        ("a replay", replay),
        ("failed", and(failed(BASE_URL), created)),
    ]
}

/// What to send where, of a payment that nobody signed for.
pub(super) fn deposit_address_response() -> Examples {
    let address = "0x7b0a2d1c4e5f60718293a4b5c6d7e8f901a2b3c4";
    let payment_id = PaymentId::derive(&format!("eip155:{PAYER}"), quote_request_id().as_str());
    let body = json!({
        "payment_id": payment_id,
        "status": "pending",
        "idempotent_replay": false,
        "deposit_address": {
            "address": address,
            "chain_id": SOURCE_CHAIN,
            "asset_identifier": format!("{SOURCE_CHAIN}/erc20:{TOKEN}"),
            "amount": "26000000",
            "pay_by": "2030-01-01T00:10:00Z",
            "refund_account": PAYER,
            "uri": format!("ethereum:{TOKEN}@31337/transfer?address={address}&uint256=26000000"),
            "factory": "0x2d4c1f6ae3b05f7786195a84c0d3e2f1a0b9c8d7",
            "terms": {
                "escrow": ESCROW,
                "token": TOKEN,
                "amount": "26000000",
                "deposit": {
                    "payment_id": payment_id.on_chain(),
                    "terms_hash": MESSAGE,
                    "quote_hash": format!("0x{}", "00".repeat(32)),
                    "payer": PAYER,
                    "reserver": "0x70997970c51812dc3a010c7d01b50e0d17dc79c8",
                    "releaser": "0x3c44cdddb6a900fa2b585dd299e03d12fa4293bc",
                    "reserve_deadline": 1_893_456_690,
                    "fulfillment_deadline": 1_893_457_200,
                    "refund_after": 1_893_457_800,
                },
            },
        },
    });
    vec![("waits for the transfer", body)]
}

/// Status reads.
pub(super) fn status_read() -> Examples {
    let settled = json!({"updated_at": "2030-01-01T00:00:16Z", "requested_count": 3, "decline_summary": []});
    let declined = json!({
        "updated_at": "2030-01-01T00:00:10Z",
        "requested_count": 3,
        "decline_summary": [{
            "reason": "INSUFFICIENT_LIQUIDITY",
            "count": 3,
            "retry_classification": "RETRY_AFTER_DELAY",
            "docs_url": app::error::docs_url(BASE_URL, "INSUFFICIENT_LIQUIDITY"),
        }],
    });
    vec![
        ("completed", and(completed(), settled)),
        ("failed", and(failed(BASE_URL), declined)),
        ("pending", json!({"payment_id": payment_id(), "status": "pending", "updated_at": "2030-01-01T00:00:01Z"})),
    ]
}

/// A page of the caller's payments.
pub(super) fn own_payments() -> Examples {
    let transaction =
        |chain: &str, hash: &str| json!({"chain_id": chain, "transaction_hash": hash, "block_number": 20});
    let asset = |chain: &str| format!("{chain}/erc20:{TOKEN}");
    let payment = json!({
        "payment_id": payment_id(),
        "request_id": REQUEST_ID,
        "originator": format!("eip155:{PAYER}"),
        "submitted_at": "2030-01-01T00:00:00.412Z",
        "finished_at": "2030-01-01T00:00:09.000Z",
        "status": "completed",
        "stage": "ended",
        "source": {
            "asset_identifier": asset(SOURCE_CHAIN),
            "account": PAYER,
            "permitted_amount": "25250000",
            "paid_amount": "25025000",
            "refunded": false,
        },
        "destination": {
            "asset_identifier": asset(DESTINATION_CHAIN),
            "account": RECIPIENT,
            "amount": "25000000",
            "delivered": true,
        },
        "rate": {"numerator": "1000", "denominator": "1001"},
        "settler": SETTLER,
        "verifier": RECIPIENT,
        "transactions": {
            "deposit": transaction(SOURCE_CHAIN, DEPOSIT),
            "fulfillment": transaction(DESTINATION_CHAIN, DELIVERY),
        },
    });
    vec![("page", json!({"payments": [payment], "next_cursor": "AAABuK_TVZxwYXlf"}))]
}

const SESSION_MESSAGE: &str = "pay.example wants you to sign in with your Ethereum account:\n\
    0x90F79bf6EB2c4f870365E785982E1f101E93b906\n\n\
    Sign in to this payment gateway as the owner of your payments. This costs nothing and moves no money. It lets whoever asked for it \
    read your payments, and be told of them for as long as they stay registered for that.\n\n\
    URI: https://pay.example/v1/sessions\nVersion: 1\nChain ID: 31337\n\
    Nonce: 5f2b8c0d9e7a46135f2b8c0d9e7a46135f2b8c0d9e7a4613\n\
    Issued At: 2030-01-01T00:00:00Z\nExpiration Time: 2030-01-01T00:05:00Z";

/// Who is going to sign.
pub(super) fn session_challenge_request() -> Examples {
    vec![("account", json!({"account": format!("{SOURCE_CHAIN}:{PAYER}")})), ("did", json!({"did": SETTLER}))]
}

/// What is signed.
pub(super) fn session_challenge() -> Examples {
    let challenge = json!({
        "message": SESSION_MESSAGE,
        "signature_scheme": "eip191",
        "expires_at": "2030-01-01T00:05:00Z",
    });
    vec![("account", challenge)]
}

/// The signed challenge.
pub(super) fn session_request() -> Examples {
    let signature = format!("0x{}{}1b", "9a".repeat(32), "4c".repeat(32));
    vec![("account", json!({"message": SESSION_MESSAGE, "signature": signature}))]
}

/// A session.
pub(super) fn session() -> Examples {
    let session = json!({
        "token": "gws1.eyJvd25lciI6ImVpcDE1NToweDkwZjcifQ.c2lnbmVk",
        "token_type": "Bearer",
        "expires_at": "2030-01-01T00:15:00Z",
        "owner": format!("eip155:{PAYER}"),
    });
    vec![("account", session)]
}

/// A timeline.
pub(super) fn timeline() -> Examples {
    let accepted = json!({
        "id": "1.0",
        "version": 1,
        "event": "Submitted",
        "at": "2030-01-01T00:00:00.412Z",
        "status": "pending",
        "cause": "payment_request",
        "summary": "The payment was accepted.",
        "data": {"request_id": REQUEST_ID, "fulfillment_amount": "25000000"},
    });
    let secured = json!({
        "id": "4.0",
        "version": 4,
        "event": "EscrowSecured",
        "at": "2030-01-01T00:00:12.020Z",
        "status": "pending",
        "cause": "deposit_settled",
        "summary": "The funds are in escrow, reserved for the settler.",
        "transactions": {"deposit": transaction(DEPOSIT, SOURCE_CHAIN, 1_024)},
        "data": {"amount": "25025000", "block_time": "2030-01-01T00:00:11Z"},
    });
    let timeline =
        json!({"payment_id": payment_id(), "status": "pending", "at_rest": false, "entries": [accepted, secured]});
    vec![("in escrow", timeline)]
}

fn batch(status: &str) -> Value {
    let mut batch = order();
    if let Some(members) = batch.as_object_mut() {
        members.remove("version");
        members.remove("request_id");
    }
    and(batch, json!({"quote_request_id": quote_request_id(), "status": status, "requested_count": 3}))
}

/// The batch of the story.
fn quote_request_id() -> QuoteRequestId {
    QuoteRequestId::derive(&format!("eip155:{PAYER}"), REQUEST_ID)
}

fn quotes() -> Value {
    let quotes = json!([{"quote_id": QUOTE_ID, "fulfillment_quote": quote()}]);
    json!({"quotes": quotes, "quotes_ordered_by": "price", "decline_summary": []})
}

/// Answers to a quote-request.
pub(super) fn quote_request_response() -> Examples {
    let created = json!({"idempotent_replay": false});
    vec![
        ("ready", and(and(batch("ready"), quotes()), created.clone())),
        ("collecting", and(batch("collecting"), created.clone())),
        ("no quotes", and(and(batch("ready"), json!({"quotes": [], "quotes_ordered_by": "price"})), created)),
    ]
}

/// Reads of a batch.
pub(super) fn quote_request_read() -> Examples {
    vec![("ready", and(batch("ready"), quotes())), ("collecting", batch("collecting"))]
}

/// An award.
pub(super) fn award_request() -> Examples {
    let award = json!({
        "version": "1.0",
        "request_id": REQUEST_ID,
        "quote_id": QUOTE_ID,
        "sender_auth": sender_auth(),
    });
    vec![("plain", award)]
}

/// An address that is asked for.
pub(super) fn deposit_address_request() -> Examples {
    vec![
        ("of a quote-request with a cap", json!({})),
        ("of one without", json!({"amount": "26000000", "pay_by": "2030-01-01T00:10:00Z"})),
    ]
}

/// The liveness probe.
pub(super) fn live() -> Examples {
    vec![("alive", json!({"status": "ok"}))]
}

/// The readiness probe.
pub(super) fn ready() -> Examples {
    let alarm = "journal shard 3 ends at 20, but had commits up to 60";
    let chains = json!([
        {"chain_id": "eip155:1", "ready": true},
        {"chain_id": "eip155:10", "ready": false, "cause": "node_silent", "message": "its node does not answer"},
    ]);
    vec![
        ("ready", json!({"status": "ready", "chains": [{"chain_id": "eip155:1", "ready": true}]})),
        ("alarm", json!({"status": "ready", "alarms": [alarm]})),
        ("chain", json!({"status": "ready", "chains": chains})),
    ]
}
