//! Bodies of verify and settle, which merchants send (spec 2.14).

use serde_json::{Value, json};

use app::x402::{
    DELIVERY_SECONDS, EXACT, IDENTIFIER_CHARS_MAX, IDENTIFIER_CHARS_MIN, PAYMENT_IDENTIFIER, SCHEME, TIMEOUT_SECONDS,
    TIMEOUT_SECONDS_MIN, VERSION,
};

use super::{described, free_form, object, schema, text, whole};

pub(super) fn schemas() -> Vec<(&'static str, Value)> {
    vec![("X402Message", message()), ("X402PaymentRequirements", requirements()), ("X402OfferRequest", offer_request())]
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
        "payload": json!({"oneOf": [
            object("What the payer signed, by `gw-escrow`.", &["paymentRequest"], json!({
                "paymentRequest": described("PaymentRequest", "As `POST /v1/payments` takes it, an identity's `proof` included."),
            })),
            object("What a stock client signed on an EVM chain, by `exact`.", &["signature", "authorization"], json!({
                "signature": text("Of the token's `TransferWithAuthorization`, hex with 0x."),
                "authorization": authorization(),
            })),
            object("What a stock client signed on Solana, by `exact`.", &["transaction"], json!({
                "transaction": text("The transfer to `payTo`, signed by the buyer, whose fee `extra.feePayer` pays; Base64."),
            })),
        ]}),
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

/// The token's message that a stock client signs.
fn authorization() -> Value {
    let members = ["from", "to", "value", "validAfter", "validBefore", "nonce"];
    object(
        "The token's transfer to `payTo` (ERC-3009).",
        &members,
        json!({
            "from": text("The buyer."),
            "to": text("`payTo`."),
            "value": text("`amount`."),
            "validAfter": text("Last UNIX second in which it does not hold yet, decimal."),
            "validBefore": text("First UNIX second in which it does not hold any more, decimal."),
            "nonce": text("32 bytes of the buyer's choice, hex with 0x."),
        }),
    )
}

fn offer_request() -> Value {
    let seconds = |least: u64, default: u64, description: &str| json!({"type": "integer", "minimum": least, "default": default, "description": description});
    object(
        "A merchant's question for an offer. Members have the names and forms that they have in a requirement.",
        &["network", "asset", "destination", "fulfillmentAmount"],
        json!({
            "network": text("CAIP-2 id of the chain on which buyers pay."),
            "asset": text("What they pay with: a token that takes signed transfers (ERC-3009), or one on Solana."),
            "destination": destination(),
            "fulfillmentAmount": text("The price: what the merchant receives, smallest unit."),
            "amount": text("What buyers pay, smallest unit. Where both assets have one symbol, the price and 1 % unless it is given. What \
                            the settler leaves of it goes back to the buyer, on Solana to `merchant`."),
            "merchant": text("The merchant's account on `network`, where goes what comes to the address without a deposit, on Solana all that \
                              is not delivered. The destination's address unless it is given, where that is on a chain of the same family."),
            "maxTimeoutSeconds": seconds(TIMEOUT_SECONDS_MIN, TIMEOUT_SECONDS, "The time for auction and deposit: how long a client's signature holds on an EVM chain; at most 540 on Solana."),
            "deliverySeconds": seconds(0, DELIVERY_SECONDS.into(), "How long the delivery may take after that."),
            "refundSeconds": {
                "type": "integer",
                "minimum": 1,
                "description": "From the end of that to when anyone may send the money back. The least that the chains ask for unless it is given.",
            },
        }),
    )
}

fn destination() -> Value {
    let destination = json!({
        "network": text("CAIP-2 id of the chain the merchant is paid on."),
        "asset": text("What it is paid in: the asset's bare reference on `network`, or its CAIP-19 id."),
        "address": text("The merchant's account."),
    });
    object("Where the merchant is paid.", &["network", "asset", "address"], destination)
}

fn requirements() -> Value {
    let gw = json!({
        "destination": destination(),
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
        "merchant": text("`exact`: the merchant's account on `network`, for what comes to `payTo` without a deposit; on Solana for all that is not delivered."),
        "deliverySeconds": whole("`exact`: from the last second of the deposit to the end of the delivery."),
        "refundSeconds": whole("`exact`: from there to when anyone may send the money back."),
    });
    let extra = json!({
        "name": text("`exact` on EVM chains: the token's name, as clients sign it."),
        "version": text("`exact` on EVM chains: the token's version, as clients sign it."),
        "feePayer": text("`exact` on Solana: the gateway's account that pays the fee of what clients sign."),
        "gw": object("What this scheme needs.", &["destination", "fulfillmentAmount"], gw),
    });
    object(
        "The requirement that the payer chose from a 402.",
        &["scheme", "network", "asset", "payTo", "amount", "maxTimeoutSeconds", "extra"],
        json!({
            "scheme": text(&format!("`{SCHEME}`, or `{EXACT}` as `POST /x402/v1/offers` makes it.")),
            "network": text("CAIP-2 id of the source chain."),
            "asset": text("What is paid with: the asset's bare reference on `network`, or its CAIP-19 id."),
            "payTo": text("The merchant's account, as in `extra.gw.destination.address`; or the escrow. `exact`: the offer's address."),
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
