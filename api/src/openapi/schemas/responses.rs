//! Response bodies: their schemas come from their types, descriptions from the comments there.

use schemars::{JsonSchema, SchemaGenerator, generate::SchemaSettings};
use serde_json::{Map, Value, json};

use app::{
    error::ErrorResponse,
    mandates::PreparedBody as PreparedMandateBody,
    own_payments::body::OwnPaymentsBody,
    payment_batches::prepare::PreparedPaymentBatch,
    prepare::PreparedBody,
    rehearse::VerifiedBody,
    sessions::{ChallengeBody, SessionBody},
    settlers::body::SettlersBody,
    views::{
        payment_body::{PaymentResponse, StatusBody},
        quote_request_body::{QuoteRequestBody, QuoteRequestResponse},
        timeline_body::TimelineBody,
    },
    webhooks::{DeletedBody, KeysBody, RedeliveryBody, RegisteredBody, WebhookBody, WebhooksBody},
    x402::OfferBody,
};
use protocol_documents::polish;

use crate::{
    contexts,
    defaults::DefaultsBody,
    health::Health,
    payment_batches::PaymentBatchResponse,
    x402::{SettleBody, VerifyBody, supported::SupportedBody},
};

/// The schemas of all bodies, and of what they refer to.
pub(super) fn schemas() -> Map<String, Value> {
    // As they are written, which is not always as they would be read.
    let settings = SchemaSettings::draft2020_12().for_serialize();
    let mut generator = settings.with(|it| it.definitions_path = "/components/schemas".into()).into_generator();
    for body in [
        of::<PaymentResponse>,
        of::<StatusBody>,
        of::<TimelineBody>,
        of::<OwnPaymentsBody>,
        of::<ChallengeBody>,
        of::<SessionBody>,
        of::<RegisteredBody>,
        of::<WebhooksBody>,
        of::<WebhookBody>,
        of::<DeletedBody>,
        of::<RedeliveryBody>,
        of::<KeysBody>,
        of::<QuoteRequestResponse>,
        of::<QuoteRequestBody>,
        of::<PreparedBody>,
        of::<PreparedPaymentBatch>,
        of::<PreparedMandateBody>,
        of::<PaymentBatchResponse>,
        of::<VerifiedBody>,
        of::<SettlersBody>,
        of::<DefaultsBody<'static>>,
        of::<contexts::IndexBody>,
        of::<Health>,
        of::<ErrorResponse>,
        of::<SupportedBody>,
        of::<VerifyBody>,
        of::<SettleBody>,
        of::<OfferBody>,
    ] {
        body(&mut generator);
    }
    let mut schemas = generator.take_definitions(true);
    for schema in schemas.values_mut() {
        polish(schema);
        // An object that always has none of its members says so, too.
        if let Value::Object(schema) = schema
            && schema.contains_key("properties")
        {
            schema.entry("required").or_insert_with(|| json!([]));
        }
    }
    schemas
}

fn of<T: JsonSchema>(generator: &mut SchemaGenerator) {
    generator.subschema_for::<T>();
}
