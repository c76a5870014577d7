//! Untrusted parties: bodies that name contracts, verifiers or selectors that the gateway does not trust.

use serde_json::json;

use super::{BadBody, DID, ZERO, breaking, dids};
use crate::tests::{ESCROW, PAYER, PROXY, VERIFIER};

/// Bodies that break one rule each.
pub(super) fn bad_bodies() -> Vec<BadBody> {
    [settler_auth_required(), quote_selector(), fulfillment_verifier(), contracts(), settler_requirements()]
        .into_iter()
        .flatten()
        .collect()
}

fn settler_auth_required() -> Vec<BadBody> {
    [
        breaking(
            "/settler_auth_required",
            "INVALID_REQUEST",
            "settler_auth_required",
            json!([
                null, [], {"<script>": 1}, "kyc",
            ]),
        ),
        breaking(
            "/settler_auth_required",
            "INVALID_REQUEST",
            "settler_auth_required.kyc",
            json!([
                {"kyc": "yes"}, {"kyc": null}, {"kyc": 1},
            ]),
        ),
        breaking(
            "/settler_auth_required",
            "INVALID_REQUEST",
            "settler_auth_required.no-such-policy",
            json!([{"kyc": true, "no-such-policy": true}]),
        ),
        breaking(
            "/settler_auth_required",
            "INVALID_REQUEST",
            "settler_auth_required",
            json!([{"any name, really": true}]),
        ),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn quote_selector() -> Vec<BadBody> {
    [
        breaking("/quote_selector", "INVALID_REQUEST", "quote_selector", json!([null, 1])),
        breaking(
            "/quote_selector",
            "UNTRUSTED_SELECTOR",
            "quote_selector",
            json!(["someone", "0x0000000000000000000000000000000000000001"]),
        ),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn fulfillment_verifier() -> Vec<BadBody> {
    [
        breaking("/fulfillment_verifier", "INVALID_REQUEST", "fulfillment_verifier", json!([null, "", []])),
        breaking(
            "/fulfillment_verifier",
            "INVALID_REQUEST",
            "fulfillment_verifier.endpoint",
            json!([
                {"account": VERIFIER}, {"account": VERIFIER, "endpoint": "http://127.0.0.1:8090/v1"},
                {"account": VERIFIER, "endpoint": "verifier"}, {"account": VERIFIER, "endpoint": 1},
                {"account": VERIFIER, "endpoint": "ftp://127.0.0.1:8090"},
                {"account": VERIFIER, "endpoint": "http://a@127.0.0.1:8090"},
                {"account": VERIFIER, "endpoint": "http://127.0.0.1:8090?x"},
            ]),
        ),
        breaking(
            "/fulfillment_verifier",
            "INVALID_REQUEST",
            "fulfillment_verifier.account",
            json!([
                {"endpoint": "http://127.0.0.1:8090"}, {"account": null, "endpoint": "http://127.0.0.1:8090"},
            ]),
        ),
        breaking(
            "/fulfillment_verifier",
            "UNTRUSTED_VERIFIER",
            "fulfillment_verifier",
            json!([
                {"account": VERIFIER, "endpoint": "https://evil.example"},
                {"account": PAYER, "endpoint": "http://127.0.0.1:8090"},
                {"account": "someone", "endpoint": "http://127.0.0.1:8090"},
            ]),
        ),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn contracts() -> Vec<BadBody> {
    [
        breaking(
            "/escrow_contract_address",
            "INVALID_REQUEST",
            "escrow_contract_address",
            json!([null, {}, "escrow", 5, ZERO]),
        ),
        breaking("/escrow_contract_address", "UNTRUSTED_ESCROW", "escrow_contract_address", json!([PAYER, PROXY])),
        breaking("/fulfillment_proxy", "INVALID_REQUEST", "fulfillment_proxy", json!([null, "proxy", [], ZERO])),
        breaking("/fulfillment_proxy", "UNTRUSTED_PROXY", "fulfillment_proxy", json!([ESCROW])),
        breaking("/fulfillment_proxies", "INVALID_REQUEST", "fulfillment_proxies", json!([null, "proxy", [], PROXY])),
        breaking("/fulfillment_proxies", "INVALID_REQUEST", "fulfillment_proxies.main", json!([{"main": PROXY}])),
        breaking(
            "/fulfillment_proxies",
            "INVALID_REQUEST",
            "fulfillment_proxies.eip155:31338",
            json!([
                {"eip155:31338": null}, {"eip155:31338": 1}, {"eip155:31338": "proxy"}, {"eip155:31338": ZERO},
                {"eip155:031338": PROXY, "eip155:31338": PROXY},
            ]),
        ),
        // A chain that nothing is delivered on.
        breaking(
            "/fulfillment_proxies",
            "INVALID_REQUEST",
            "fulfillment_proxies.eip155:31337",
            json!([{"eip155:31337": PROXY}]),
        ),
        breaking(
            "/fulfillment_proxies",
            "UNTRUSTED_PROXY",
            "fulfillment_proxies.eip155:31338",
            json!([{"eip155:31338": ESCROW}]),
        ),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn settler_requirements() -> Vec<BadBody> {
    [
        breaking("/settler_requirements", "INVALID_REQUEST", "settler_requirements", json!([null, []])),
        breaking(
            "/settler_requirements",
            "INVALID_REQUEST",
            "settler_requirements.whitelist",
            json!([
                {"whitelist": null}, {"whitelist": []},
            ]),
        ),
        breaking(
            "/settler_requirements",
            "INVALID_REQUEST",
            "settler_requirements.blacklist",
            json!([
                {"blacklist": []}, {"blacklist": DID}, {"blacklist": dids(101)},
            ]),
        ),
        breaking(
            "/settler_requirements",
            "INVALID_REQUEST",
            "settler_requirements.whitelist[0]",
            json!([
                {"whitelist": [1]}, {"whitelist": ["bob"]}, {"whitelist": ["did:Key:z"]},
            ]),
        ),
        breaking(
            "/settler_requirements",
            "INVALID_REQUEST",
            "settler_requirements.whitelist[1]",
            json!([
                {"whitelist": [DID, DID]},
            ]),
        ),
    ]
    .into_iter()
    .flatten()
    .collect()
}
