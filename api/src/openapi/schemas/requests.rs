//! Bodies that clients send (spec 2.1 to 2.5).

use serde_json::{Value, json};

use app::{
    authorization::MessageScheme,
    request::{
        credential::{CREDENTIAL_TYPE, CREDENTIALS_CONTEXT},
        envelope::{CONTEXTS_MAX, CREDENTIALS_MAX},
        fields::DATE_TIME_CHARS_MAX,
        order::{DESTINATIONS_MAX, SETTLERS_MAX, request_id_pattern},
        sender_auth::SIGNED_MESSAGES_MAX,
    },
    schema::CHAIN_ID_PATTERN,
};
use proofs::{contexts::GATEWAY_V1, suites::PROOFS_MAX};

use super::{
    AMOUNT_DIGITS_MAX, AMOUNT_PATTERN, BARE_HEX_PATTERN, DID_PATTERN, HEX_PATTERN, VERSION_PATTERN, described,
    free_form, matching, object, schema, text,
};
use crate::openapi::operations::PAYMENT;

pub(super) fn schemas() -> Vec<(&'static str, Value)> {
    vec![
        ("PaymentRequest", payment_request()),
        ("SenderAuth", sender_auth()),
        ("SignedMessage", signed_message()),
        ("SettlerRequirements", settler_requirements()),
        ("VerifiableCredentialAuth", credential_auth()),
        ("VerifiableCredential", credential()),
        ("DataIntegrityProof", proof()),
    ]
}

/// The members that every request for a payment has, in the order in which they are shown.
pub(super) fn order_members(request_id: &str) -> Vec<(&'static str, Value)> {
    vec![
        (
            "version",
            matching(VERSION_PATTERN, "MAJOR.MINOR of the contract the body was written for; major is fixed at 1."),
        ),
        ("request_id", matching(&request_id_pattern(), request_id)),
        ("source", described("OwnedAsset", "Funding asset and account.")),
        (
            "destination",
            json!({
                "type": "array",
                "items": schema("OwnedAsset"),
                "minItems": 1,
                "maxItems": DESTINATIONS_MAX,
                "description": "Where the amount may arrive; the settler chooses among them. A repeated item says nothing more.",
            }),
        ),
        ("fulfillment_amount", amount("Exact amount to be received at the destination, in the smallest unit.")),
        (
            "max_source_amount",
            amount("The most that may be spent from the source, in the smallest unit; no quote above it counts."),
        ),
        (
            "quote_deadline",
            deadline(
                "End of quote collection: in the future, and before `fulfillment_deadline`. For a payment the two lie in \
                 different seconds, as chains count in whole ones.",
            ),
        ),
        (
            "fulfillment_deadline",
            deadline("Final completion deadline, in the future. Past it the payment fails and is refunded."),
        ),
        (
            "settler_auth_required",
            json!({
                "type": "object",
                "additionalProperties": {"type": "boolean"},
                "description": "Policy name to whether settlers must hold that policy. One that is required has to be among the \
                                `settler_policies` of `/v1/defaults`.",
            }),
        ),
        (
            "quote_selector",
            text("Address or public key of a trusted selector service. Empty means the default selector."),
        ),
        (
            "fulfillment_verifier",
            described("FulfillmentVerifier", "Who verifies the delivery. Empty means the default verifier."),
        ),
        ("escrow_contract_address", text("Escrow contract on the source's chain. Empty means the default.")),
        (
            "fulfillment_proxy",
            text(
                "Contract that emits proof of fulfillment on the destination chain, for all destinations. Empty means the \
                 default.",
            ),
        ),
        ("fulfillment_proxies", proxies_by_chain()),
        ("settler_requirements", schema("SettlerRequirements")),
        ("originator_auth", originator_auth()),
    ]
}

/// The proxies where one does not fit all destinations.
fn proxies_by_chain() -> Value {
    json!({
        "type": "object",
        "propertyNames": {"pattern": CHAIN_ID_PATTERN},
        "additionalProperties": {"type": "string"},
        "description": "The same for each destination chain, by its CAIP-2 id, in the place of `fulfillment_proxy`: \
                        destinations of several families have no contract's address in common. A chain that is left out, \
                        or is empty, has the default.",
    })
}

/// The deprecated carrier of the originator's credential.
pub(super) fn originator_auth() -> Value {
    json!({
        "$ref": "#/components/schemas/VerifiableCredentialAuth",
        "deprecated": true,
        "description": "Deprecated legacy carrier. Its DID is the originator when there is no `proof`.",
    })
}

/// What wraps a request in a W3C Data Integrity envelope.
pub(super) fn envelope_members() -> Vec<(&'static str, Value)> {
    vec![
        (
            "@context",
            json!({
                "type": "array",
                "items": {"type": "string"},
                "maxItems": CONTEXTS_MAX,
                "description": format!(
                    "JSON-LD context URLs of the envelope, `{GATEWAY_V1}` first; only together with `proof`. Only those under \
                     `/contexts/` and those of the operator are known."
                ),
            }),
        ),
        (
            "verifiableCredential",
            json!({
                "type": "array",
                "items": schema("VerifiableCredential"),
                "maxItems": CREDENTIALS_MAX,
                "description": "Credentials about the holder, under his proof. One that does not hold refuses the request.",
            }),
        ),
        ("proof", schema("DataIntegrityProof")),
    ]
}

fn proof() -> Value {
    json!({
        "oneOf": [
            {"type": "object", "title": "Proof"},
            {"type": "array", "title": "Proofs", "items": {"type": "object"}},
        ],
        "description": format!(
            "Proof of the holder over the whole body but `sender_auth.verifiable_credential`: an object, or a list of up to \
             {PROOFS_MAX} that are all of one DID and each have to hold. `proofPurpose` is `authentication`, \
             `verificationMethod` a DID URL; the DID is the originator. Its value stands in `jws` or `proofValue`, by the \
             suite that `type` names; `previousProof` names proofs of the list that it covers, too."
        ),
    })
}

/// What every request for a payment must have.
pub(super) const ORDER_REQUIRED: [&str; 7] =
    ["version", "request_id", "source", "destination", "fulfillment_amount", "quote_deadline", "fulfillment_deadline"];

/// Members as an object of JSON.
pub(super) fn properties(members: Vec<(&'static str, Value)>) -> Value {
    members.into_iter().map(|(name, schema)| (name.to_owned(), schema)).collect()
}

fn payment_request() -> Value {
    let mut members = order_members("Idempotency key, unique among the caller's own requests.");
    members.push(("sender_auth", described("SenderAuth", "Proof of control of the funding account.")));
    members.extend(envelope_members());
    let required = [&ORDER_REQUIRED[..], &["sender_auth"]].concat();
    object("A payment, signed by its payer. Members that are not known are ignored.", &required, properties(members))
}

fn sender_auth() -> Value {
    object(
        "Proof of control of the funding account, and its permission to spend.",
        &["message_scheme", "signed_messages"],
        json!({
            "message_scheme": {
                "type": "string",
                "enum": MessageScheme::ALL.map(MessageScheme::name),
                "description": "What was signed: gasless token approvals on EVM without and with escrow support, \
                                Solana or Tron signatures. `/v1/defaults` lists the schemes of each chain.",
            },
            "signed_messages": {
                "type": "array",
                "items": schema("SignedMessage"),
                "minItems": 1,
                "maxItems": SIGNED_MESSAGES_MAX,
                "description": "The first that authorizes the payment counts; on Tron the first deposit that does, and the \
                                approval in front of it. The others are kept with the request.",
            },
            "verifiable_credential": {
                "$ref": "#/components/schemas/VerifiableCredentialAuth",
                "deprecated": true,
                "description": "Deprecated legacy carrier of credentials.",
            },
        }),
    )
}

fn signed_message() -> Value {
    object(
        "One message that was signed.",
        &["message", "signature"],
        json!({
            "message": matching(
                BARE_HEX_PATTERN,
                "Signed data in hex: on EVM and Solana the message hash with 0x prefix; on Tron the transaction's id, with \
                 or without it.",
            ),
            "message_prehash": text(
                "Original data before hashing. On EVM the EIP-712 typed data as a JSON string, its numbers as JSON \
                 integers of any length or in strings, or the 66 bytes that begin with 0x1901 in hex. On Solana the ordered bytes in hex with 0x prefix. On Tron the transaction's \
                 `raw_data` in hex, whose SHA-256 is `message`: a token approval and the deposit, in this order, or the \
                 deposit alone where the allowance stands already.",
            ),
            "signature": matching(HEX_PATTERN, "Signature in hex with 0x prefix, on every chain."),
            "payload": free_form(
                "Free-form context of the chain, preserved: it reaches the settlers that are asked, the winner and the \
                 verifier as it was written. All payloads of a request have at most 8 KiB together. `reserve_deadline`, \
                 `refund_after` (UNIX seconds) and `permitted_amount` are the payer's to choose; on EVM also \
                 `permit_deadline`, on Solana `delegate_signer`: the Ed25519 key, Base58, that signed because the payer \
                 approved it. On Tron they are chosen with `/v1/payments/prepare`, where also `fee_limit_sun` of the deposit \
                 and `expiration_ms` (UNIX milliseconds) of the transactions can be, and are part of the transactions: a \
                 payload that contradicts its transaction is refused.",
            ),
        }),
    )
}

fn settler_requirements() -> Value {
    let list = |description: &str| {
        json!({
            "type": "array",
            "items": {"type": "string", "pattern": DID_PATTERN},
            "minItems": 1,
            "maxItems": SETTLERS_MAX,
            "uniqueItems": true,
            "description": description,
        })
    };
    object(
        "Which settlers may win. A settler in both lists is excluded.",
        &[],
        json!({
            "whitelist": list("DIDs of the only settlers that may win."),
            "blacklist": list("DIDs of settlers that must not win."),
        }),
    )
}

fn credential_auth() -> Value {
    let mut schema = object(
        "Deprecated: credentials travel in the holder-signed envelope. The signature is over the RFC 8785 form of \
         `{\"carrier\", \"request\", \"verifiable_credential\", \"verification_method_id\"}`: `carrier` is the member's path, \
         `originator_auth` or `sender_auth.verifiable_credential`, and `request` the body without `originator_auth`, \
         `sender_auth`, `@context`, `verifiableCredential` and `proof`.",
        &["verifiable_credential", "verification_method_id", "signature"],
        json!({
            "verifiable_credential": schema("VerifiableCredential"),
            "verification_method_id": text("Reference to a verification method of a DID document."),
            "signature": text(
                "Hex with 0x, or base58btc multibase. Ed25519 over the text, ECDSA over its SHA-256, an account of \
                 `did:pkh:eip155` as `personal_sign` does, one of `did:pkh:tron` as `signMessageV2` of TronWeb does.",
            ),
        }),
    );
    schema["deprecated"] = true.into();
    // The reference page shows it in this section, where the `Link` of a `Deprecation` leads.
    schema["x-tags"] = json!([PAYMENT]);
    schema
}

fn credential() -> Value {
    let strings_with = |needed: &str| {
        json!({
            "type": "array",
            "items": {"type": "string"},
            "contains": {"const": needed},
            "description": format!("Includes `{needed}`."),
        })
    };
    object(
        "A credential of the W3C Verifiable Credentials Data Model v1.1.",
        &["@context", "id", "type", "issuer", "issuanceDate", "credentialSubject", "proof"],
        json!({
            "@context": strings_with(CREDENTIALS_CONTEXT),
            "id": text("Identifier of the credential."),
            "type": strings_with(CREDENTIAL_TYPE),
            "issuer": {"oneOf": [{"type": "string"}, {"type": "object"}], "description": "Who issued it."},
            "issuanceDate": deadline("Valid from."),
            "expirationDate": deadline("Valid until."),
            "credentialSubject": free_form("Free-form claims."),
            "credentialStatus": free_form("Free-form; not consulted."),
            "proof": {
                "oneOf": [
                    {"type": "object", "title": "IssuerProof"},
                    {"type": "array", "title": "IssuerProofs", "items": {"type": "object"}, "minItems": 1},
                ],
                "description": format!(
                    "Free-form proof, or a list of up to {PROOFS_MAX}, one of them the issuer's. Each has to hold."
                ),
            },
        }),
    )
}

pub(super) fn amount(description: &str) -> Value {
    json!({
        "type": "string",
        "pattern": AMOUNT_PATTERN,
        "maxLength": AMOUNT_DIGITS_MAX,
        "description": format!("{description} A decimal number above zero that fits the chain's width."),
    })
}

fn deadline(description: &str) -> Value {
    json!({
        "type": "string",
        "format": "date-time",
        "maxLength": DATE_TIME_CHARS_MAX,
        "description": description,
    })
}
