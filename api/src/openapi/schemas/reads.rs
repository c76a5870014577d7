//! What is read besides payments: defaults, probes, preparation and verification (design: HTTP).

use events::Family;
use serde_json::{Value, json};

use super::{
    CHAIN_ID_PATTERN, described, free_form, matching, object, payments::payment_id, schema, text, time, whole,
};
use app::authorization::MessageScheme;

pub(super) fn schemas() -> Vec<(&'static str, Value)> {
    vec![
        ("Health", health()),
        ("Defaults", defaults()),
        ("ChainDefaults", chain_defaults()),
        ("DeadlineLimits", deadline_limits()),
        ("ServedAsset", served_asset()),
        ("PaymentTimeline", timeline()),
        ("TimelineEntry", timeline_entry()),
    ]
}

fn timeline() -> Value {
    object(
        "Everything that happened to a payment.",
        &["payment_id", "status", "at_rest", "entries"],
        json!({
            "payment_id": payment_id(),
            "status": schema("PaymentStatus"),
            "at_rest": {
                "type": "boolean",
                "description": "Nothing more will happen: the money is with the settler or back with the payer. A failed \
                                payment whose payer deposits by a transaction of its own (Tron) is not there before that \
                                transaction can't land any more.",
            },
            "entries": {"type": "array", "items": schema("TimelineEntry"), "description": "In the order of events."},
        }),
    )
}

fn timeline_entry() -> Value {
    let transaction = |what: &str| described("PaymentTransaction", what);
    object(
        "One thing that happened; also the data of one server-sent event.",
        &["id", "version", "event", "at", "status", "summary"],
        json!({
            "id": matching(super::ENTRY_ID_PATTERN, "What `Last-Event-ID` takes."),
            "version": whole("Number of the decision it belongs to, from 1."),
            "event": text("Type of the event, such as `EscrowSecured`."),
            "at": time("When it was recorded."),
            "status": schema("PaymentStatus"),
            "summary": text("For humans; may be reworded."),
            "transactions": {
                "type": "object",
                "description": "Transactions by stage.",
                "properties": {
                    "deposit": transaction("Commits the payer's funds; on Tron to the settler, once they are in escrow."),
                    "fulfillment": transaction("Pays the recipient."),
                    "release": transaction("Pays the settler out of the escrow."),
                    "refund": transaction("Returns the escrow to the payer."),
                },
            },
            "data": free_form(
                "What else there is to know, by the type of the event. An `EscrowReleased` or `EscrowRefunded` whose money the \
                 token would not hand over has `claims`, each a `PaymentClaim`.",
            ),
        }),
    )
}

fn health() -> Value {
    object(
        "How the process is.",
        &["status"],
        json!({
            "status": text("`ok`, or `ready`."),
            "alarms": {
                "type": "array",
                "items": {"type": "string"},
                "minItems": 1,
                "description": "What an operator has to look into although the gateway is ready; absent when there is nothing.",
            },
        }),
    )
}

fn defaults() -> Value {
    object(
        "Every chain that is served.",
        &["chains"],
        json!({
            "chains": {
                "type": "object",
                "propertyNames": {"pattern": CHAIN_ID_PATTERN},
                "additionalProperties": schema("ChainDefaults"),
                "description": "By CAIP-2 id.",
            },
        }),
    )
}

fn chain_defaults() -> Value {
    let properties = json!({
        "family": {"type": "string", "enum": [Family::Evm, Family::Solana, Family::Tron]},
        "quote_selector": text("Selector used when a request names none; empty means the gateway itself."),
        "fulfillment_verifier": described("FulfillmentVerifier", "Verifier used when a request names none."),
        "escrow_contract_address": text("Escrow used when a request names none."),
        "fulfillment_proxy": text("Proxy used on this chain when a request names none."),
        "reserver": text("Account that signs reservations; part of what the payer signs."),
        "releaser": text("Account that attests deliveries; part of what the payer signs."),
        "permit2": text("Permit2, on EVM chains."),
        "signature_cluster_id": text("Genesis hash of the cluster, Base58, on Solana; part of what the payer signs."),
        "signature_domain_version": {
            "type": "integer",
            "minimum": 0,
            "maximum": 255,
            "description": "Version of the domain of what the payer signs, on Solana.",
        },
        "message_schemes": {
            "type": "array",
            "items": {"type": "string", "enum": MessageScheme::ALL.map(MessageScheme::name)},
            "description": "Schemes a payer on this chain may sign with. `EVM_PERMIT2` is there only by the operator's word: \
                            it has no witness, so the gateway's reserver alone decides on verifier, windows and quote, and \
                            could take the whole cap.",
        },
        "refund_delay_seconds": whole("Least seconds from `fulfillment_deadline` to the refund window."),
        "deadlines": schema("DeadlineLimits"),
        "required_depth": {
            "anyOf": [{"type": "string", "const": "finalized"}, {"type": "integer", "minimum": 0}],
            "description": "When a block counts as settled: `finalized`, or so many blocks on top of it.",
        },
        "assets": {"type": "array", "items": schema("ServedAsset"), "description": "The assets served on the chain."},
    });
    let of_one_family = ["permit2", "signature_cluster_id", "signature_domain_version"];
    let names = properties.as_object().into_iter().flat_map(|members| members.keys()).map(String::as_str);
    let required: Vec<&str> = names.filter(|name| !of_one_family.contains(name)).collect();
    object("What a request on this chain gets that names nothing else.", &required, properties.clone())
}

fn deadline_limits() -> Value {
    let properties = json!({
        "quote_ms_min": whole("Least milliseconds from now to `quote_deadline`."),
        "quote_seconds_max": whole("Most seconds from now to `quote_deadline`."),
        "settlement_ms_min": whole("Least milliseconds from `quote_deadline` to `fulfillment_deadline`."),
        "settlement_seconds_max": whole(
            "Most seconds from `quote_deadline` to `fulfillment_deadline`, and to the `reserve_deadline` that is signed.",
        ),
        "refund_seconds_max": whole("Most seconds from `fulfillment_deadline` to the `refund_after` that is signed."),
    });
    let names = properties.as_object().into_iter().flat_map(|members| members.keys()).map(String::as_str);
    let required: Vec<&str> = names.collect();
    object("The windows of a new payment; others are refused with `INVALID_DEADLINE`.", &required, properties.clone())
}

fn served_asset() -> Value {
    object(
        "An asset.",
        &["asset_identifier", "symbol", "decimals"],
        json!({
            "asset_identifier": matching(super::ASSET_PATTERN, "CAIP-19 identifier."),
            "symbol": text("Ticker symbol, for display."),
            "decimals": {"type": "integer", "minimum": 0, "maximum": 255, "description": "Decimal places."},
        }),
    )
}
