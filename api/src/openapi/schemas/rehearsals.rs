//! Rehearsing a submission: what to sign, and whether it would be accepted (design: HTTP).

use serde_json::{Value, json};

use super::{
    DID_PATTERN, QUOTE_REQUEST_ID_PATTERN, VERSION_PATTERN, free_form, matching, object,
    payments::payment_id,
    request_id_pattern,
    requests::{ORDER_REQUIRED, envelope_members, order_members, originator_auth, properties},
    schema, text,
};
use app::authorization::MessageScheme;

pub(super) fn schemas() -> Vec<(&'static str, Value)> {
    vec![
        ("PrepareRequest", prepare_request()),
        ("PrepareAwardRequest", prepare_award_request()),
        ("PreparedPayment", prepared_payment()),
        ("UnsignedMessage", unsigned_message()),
        ("Approval", approval()),
        ("Verification", verification()),
    ]
}

fn scheme(description: &str) -> Value {
    json!({"type": "string", "enum": MessageScheme::ALL.map(MessageScheme::name), "description": description})
}

fn prepare_request() -> Value {
    let mut members = order_members("Idempotency key of the payment that is going to be submitted; it is signed.");
    members.push((
        "message_scheme",
        scheme("Which scheme of the source's chain to sign with; the one that binds most when left out."),
    ));
    members.push(("payload", free_form("Numbers that are the payer's to choose, as in a SignedMessage.")));
    members.push(("originator", originator()));
    members.extend(envelope_members());
    object("A PaymentRequest without `sender_auth`.", &ORDER_REQUIRED, properties(members))
}

fn prepare_award_request() -> Value {
    let request_id = "Idempotency key of the payment that the award is going to make; it is signed.";
    let mut members = vec![
        ("version", matching(VERSION_PATTERN, "As in a PaymentRequest.")),
        ("request_id", matching(&request_id_pattern(), request_id)),
        ("quote_request_id", matching(QUOTE_REQUEST_ID_PATTERN, "The batch.")),
        ("quote_id", text("The quote that is taken.")),
        ("message_scheme", scheme("As in a PrepareRequest.")),
        ("payload", free_form("Numbers that are the payer's to choose, as in a SignedMessage.")),
        ("originator", originator()),
        ("originator_auth", originator_auth()),
    ];
    members.extend(envelope_members());
    object(
        "An award without `sender_auth`: corridor and deadlines are the batch's, and the quote's hash is signed.",
        &["version", "request_id", "quote_request_id", "quote_id"],
        properties(members),
    )
}

fn originator() -> Value {
    json!({
        "type": "string",
        "pattern": DID_PATTERN,
        "maxLength": 256,
        "description": "DID that is going to prove the submission. The payment id is made of it, and so what is signed. \
                        Without it: the DID of `proof`, else the batch's originator, else the source account. \
                        Where the source is on Tron, this request has to prove it, too.",
    })
}

fn prepared_payment() -> Value {
    object(
        "What to sign. With a `signature` in each message it is the `sender_auth` of the submission.",
        &["payment_id", "message_scheme", "signed_messages"],
        json!({
            "payment_id": payment_id(),
            "message_scheme": scheme("The scheme the messages are for."),
            "signed_messages": {"type": "array", "items": schema("UnsignedMessage"), "minItems": 1},
            "approval": schema("Approval"),
        }),
    )
}

fn unsigned_message() -> Value {
    object(
        "A SignedMessage without its signature.",
        &["message", "message_prehash", "payload"],
        json!({
            "message": text("What the signature is over, in hex."),
            "message_prehash": text(
                "On EVM the EIP-712 typed data as JSON, ready for `eth_signTypedData_v4`. On Solana the ordered bytes in hex, \
                 whose SHA-256 is `message`. On Tron the `raw_data` of a transaction in hex, whose SHA-256 is `message`; the \
                 messages are in the order in which their transactions are sent, after the auction.",
            ),
            "payload": free_form(
                "What else the submission has to repeat. On Solana its `allowance_delegate` is the address that the payer \
                 approves to draw on its tokens. On Tron it says what the transaction does: `function`, `contract`, `amount` \
                 and so on; everything is in the transaction itself.",
            ),
        }),
    )
}

fn approval() -> Value {
    object(
        "The payer's own transaction that has to be on chain before the payment is submitted, as its allowance is too small; \
         absent where it suffices, and on Tron, where it is one of the messages.",
        &["asset_identifier", "spender", "amount", "call"],
        json!({
            "asset_identifier": matching(super::ASSET_PATTERN, "What is allowed to be drawn."),
            "spender": text("Who is allowed to draw it: Permit2 on EVM chains, the program's address for the signing key on Solana."),
            "amount": text("How much, smallest unit. A payer may allow more, once for all its payments."),
            "call": free_form(
                "The call as wallets take it. On EVM chains `to`, `data` and `value` of `eth_sendTransaction`; on Solana \
                 `program_id`, `accounts` and `data`, in hex, of one instruction.",
            ),
        }),
    )
}

fn verification() -> Value {
    object(
        "A submission that would be accepted, or is a replay.",
        &["valid", "payment_id", "idempotent_replay"],
        json!({
            "valid": {"type": "boolean", "const": true, "description": "Every refusal is an error."},
            "payment_id": payment_id(),
            "idempotent_replay": {
                "type": "boolean",
                "description": "Whether the submission would be answered with a payment that exists.",
            },
            "status": schema("PaymentStatus"),
        }),
    )
}
