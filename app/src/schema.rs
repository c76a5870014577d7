//! JSON Schemas of response bodies: their parts besides the bodies themselves, which is forms of texts, and schemas of types
//! that other crates own. Limits are the constants that the validators use.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use events::{
    Family,
    failure::{Domain, RetryClassification},
};
use projections::{OpenLeg, PaymentStatus};

use crate::families;

/// The stage of a payment for which nothing is left to be done.
pub const ENDED: &str = "ended";

/// A CAIP-2 chain id (spec 2.7).
pub const CHAIN_ID_PATTERN: &str = "^[a-z0-9]+:[a-zA-Z0-9_-]+$";
/// A CAIP-19 asset (spec 2.2).
pub const ASSET_PATTERN: &str =
    r"^[a-z0-9]+:[a-zA-Z0-9_-]+/[a-z0-9-]{3,8}:[-.%a-zA-Z0-9]{1,128}(/[-.%a-zA-Z0-9]{1,78})?$";
/// A transaction's hash (spec 2.7).
pub const TRANSACTION_HASH_PATTERN: &str = "^(0x[a-fA-F0-9]{64}|[1-9A-HJ-NP-Za-km-z]{32,88})$";
/// A contract's address (spec 2.9).
pub const CONTRACT_PATTERN: &str = "^(0x[a-fA-F0-9]{40}|[1-9A-HJ-NP-Za-km-z]{32,44})$";
/// An error code (spec 2.10).
pub const CODE_PATTERN: &str = "^[A-Z][A-Z0-9_]*$";
/// An id that the gateway derives (design: identity and idempotency).
pub const PAYMENT_ID_PATTERN: &str = "^pay_[a-z2-7]{52}$";
/// The same for a batch.
pub const QUOTE_REQUEST_ID_PATTERN: &str = "^qrq_[a-z2-7]{52}$";

/// The status of a payment, a schema of its own that others refer to.
pub enum StatusName {}

impl JsonSchema for StatusName {
    fn schema_name() -> Cow<'static, str> {
        "PaymentStatus".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        use PaymentStatus::{Completed, Failed, Finalizing, Pending};
        let statuses = [Pending, Finalizing, Completed, Failed];
        json_schema!({
            "type": "string",
            "enum": statuses.map(|status| status.as_str()),
            "description": "`pending`: accepted, nothing has reached the recipient. `finalizing`: the delivery is on chain \
                            and gathers confirmations; not final. `completed`: delivered, final. `failed`: did not \
                            complete, escrowed funds are returned; final.",
        })
    }
}

/// A settler's signed quote.
pub fn fulfillment_quote(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "description": "The settler-signed quote, an opaque JSON-LD document: the preimage of the `quote_hash` that the \
                        escrow commits to on chain. Hash-equivalent to the emitted quote, not necessarily the same bytes. \
                        `/docs/quote-hash` says how to recompute the hash. Absent beside a `quote_id` when the stored quote \
                        cannot be read.",
    })
}

/// An object whose members the document does not describe.
pub fn free_form(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "object"})
}

/// A list of such objects, of which there is one at least.
pub fn free_forms(generator: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "array", "items": free_form(generator), "minItems": 1})
}

/// A family of chains.
pub fn family(_: &mut SchemaGenerator) -> Schema {
    let families: Vec<Family> = families::all().collect();
    json_schema!({"type": "string", "enum": families})
}

/// Where an error arose.
pub fn domain(_: &mut SchemaGenerator) -> Schema {
    use Domain::{
        Blockchain, ExternalService, PaymentGateway, SettlerAgent, SettlerGateway, VerificationService,
        WalletOrchestration,
    };
    let domains = [
        PaymentGateway,
        SettlerGateway,
        SettlerAgent,
        WalletOrchestration,
        VerificationService,
        Blockchain,
        ExternalService,
    ];
    json_schema!({"type": "string", "enum": domains})
}

/// What to do about an error.
pub fn retry_classification(_: &mut SchemaGenerator) -> Schema {
    use RetryClassification::{
        NotRetryable, NotRetryableFixRequest, ReconcileThenDecide, RetryAfterDelay, RetryWithNewRequestId,
    };
    let classes = [RetryAfterDelay, RetryWithNewRequestId, NotRetryableFixRequest, NotRetryable, ReconcileThenDecide];
    json_schema!({"type": "string", "enum": classes})
}

/// How the challenge of a session is signed.
pub fn signature_scheme(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "enum": ["eip191", "ed25519", "tip191", "did"]})
}

/// What a payment waits for.
pub fn own_payment_stage(_: &mut SchemaGenerator) -> Schema {
    let stages: Vec<_> = OpenLeg::ALL.into_iter().map(OpenLeg::as_str).chain([ENDED]).collect();
    json_schema!({"type": "string", "enum": stages})
}
