//! Bodies of verify and settle, which merchants send (spec 2.14).

use serde_json::{Value, json};

use app::x402::{IDENTIFIER_CHARS_MAX, IDENTIFIER_CHARS_MIN, PAYMENT_IDENTIFIER, SCHEME, VERSION};

use super::{described, free_form, object, schema, text, whole};

pub(super) fn schemas() -> Vec<(&'static str, Value)> {
    vec![("X402Message", message()), ("X402PaymentRequirements", requirements())]
}

fn version() -> Value {
    json!({"type": "integer", "const": VERSION, "description": "Version of x402."})
}

fn message() -> Value {
    let identifier = json!({
        "type": "string",
        "pattern": format!("^[A-Za-z0-9_-]{{{IDENTIFIER_CHARS_MIN},{IDENTIFIER_CHARS_MAX}}}$"),
        "description": "Belongs for ever to the payload it was first settled with. Has to be there where `required` is true.",
    });
    let info = json!({
        "required": {"type": "boolean", "description": "Whether the merchant requires an identifier."},
        "id": identifier,
    });
    let needed = json!({"if": {"properties": {"required": {"const": true}}}, "then": {"required": ["id"]}});
    let mut info = object("What the payer says.", &["required"], info);
    if let (Some(info), Value::Object(needed)) = (info.as_object_mut(), needed) {
        info.extend(needed);
    }
    let extensions = json!({
        PAYMENT_IDENTIFIER: object("The extension `payment-identifier`.", &["info"], json!({
            "info": info,
            "schema": free_form("As the merchant stated it; not read."),
        })),
    });
    let payload = json!({
        "x402Version": version(),
        "resource": free_form("What is paid for; not read."),
        "accepted": free_form("The requirement as the payer accepted it: equal to `paymentRequirements`, and `extra` may hold more."),
        "payload": object("What the payer signed.", &["paymentRequest"], json!({
            "paymentRequest": described("PaymentRequest", "As `POST /v1/payments` takes it, an identity's `proof` included."),
        })),
        "extensions": object("Extensions of x402; others than this one are not read.", &[], extensions),
    });
    object(
        "A payment, and what the merchant asked for.",
        &["x402Version", "paymentPayload", "paymentRequirements"],
        json!({
            "x402Version": version(),
            "paymentPayload": object("The payer's part.", &["x402Version", "accepted", "payload"], payload),
            "paymentRequirements": schema("X402PaymentRequirements"),
        }),
    )
}

fn requirements() -> Value {
    let destination = json!({
        "network": text("CAIP-2 id of the chain the merchant is paid on."),
        "asset": text("What it is paid in: the asset's bare reference on `network`, or its CAIP-19 id."),
        "address": text("The merchant's account."),
    });
    let gw = json!({
        "destination": object("Where the merchant is paid.", &["network", "asset", "address"], destination),
        "fulfillmentAmount": text("What the merchant receives, smallest unit."),
        "escrow": text("Escrow contract on the source chain. Empty or absent: the default, as with every member below."),
        "fulfillmentProxy": text("Proxy on the destination's chain."),
        "reserver": text("Account that signs reservations."),
        "releaser": text("Account of the fulfillment verifier, or the id of the set of them."),
        "fulfillmentVerifierEndpoint": text("Origin of the fulfillment verifier, or of any member of the set."),
        "quoteDeadlineSeconds": whole("The request's `quote_deadline` may be so far away."),
        "fulfillmentDeadlineSeconds": whole("The request's `fulfillment_deadline` may be so far away."),
        "svmSignatureClusterId": text("Cluster id of the signing domain, for Solana sources; refused for other networks."),
        "svmSignatureDomainVersion": whole("Version of the signing domain, for Solana sources; refused for other networks."),
    });
    let extra = json!({
        "gw": object("What this scheme needs.", &["destination", "fulfillmentAmount"], gw),
    });
    object(
        "The requirement that the payer chose from a 402.",
        &["scheme", "network", "asset", "payTo", "amount", "maxTimeoutSeconds", "extra"],
        json!({
            "scheme": text(&format!("`{SCHEME}`.")),
            "network": text("CAIP-2 id of the source chain."),
            "asset": text("What is paid with: the asset's bare reference on `network`, or its CAIP-19 id."),
            "payTo": text("The merchant's account, as in `extra.gw.destination.address`; or the escrow."),
            "amount": text("The most that is taken from the payer, smallest unit: the request's `max_source_amount`."),
            "maxTimeoutSeconds": {
                "type": "integer",
                "minimum": 1,
                "description": "Longest time settle may take. The gateway's own bound is the `maxTimeoutSeconds` of `/x402/v1/supported`.",
            },
            "extra": object("Members of the scheme.", &["gw"], extra),
        }),
    )
}
