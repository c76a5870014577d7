//! Bad orders: bodies with something wrong in the order itself.

use serde_json::json;

use super::{BadBody, WRONG_CHECKSUM, ZERO, breaking, destinations, missing, owned};
use crate::tests::{DESTINATION_ASSET, PAYER, RECIPIENT, SOURCE_ASSET};

/// Bodies that break one rule each.
pub(super) fn bad_bodies() -> Vec<BadBody> {
    [version(), request_id(), source(), destination(), amounts(), deadlines()].into_iter().flatten().collect()
}

fn version() -> Vec<BadBody> {
    [
        missing("/version", "version"),
        breaking(
            "/version",
            "INVALID_REQUEST",
            "version",
            json!([null, 1, "", "1", "1.", "2.0", "1.0.1", "v1.0", "1.0\n", [], "01.0", "1.0 ", "1.-1", "1.١"]),
        ),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn request_id() -> Vec<BadBody> {
    [
        missing("/request_id", "request_id"),
        breaking("/request_id", "INVALID_REQUEST", "request_id", json!([null, 7, {}])),
        breaking(
            "/request_id",
            "INVALID_REQUEST_ID",
            "request_id",
            json!([
                "",
                "a b",
                "a/b",
                "ünique",
                "a\n",
                "a".repeat(129),
                "a:b",
                "a+b",
                " a",
                "a\u{0}",
                "١",
                "a".repeat(4_000),
            ]),
        ),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn source() -> Vec<BadBody> {
    [
        missing("/source", "source"),
        breaking("/source", "INVALID_REQUEST", "source", json!([null, "0x1", [], true])),
        missing("/source/asset_identifier", "source.asset_identifier"),
        breaking("/source/asset_identifier", "INVALID_REQUEST", "source.asset_identifier", json!([1, null])),
        breaking(
            "/source/asset_identifier",
            "INVALID_SOURCE_ASSET",
            "source.asset_identifier",
            json!([
                "",
                "USDC",
                "eip155:31337",
                "eip155:1/er:0x1",
                "EIP155:1/erc20:0x1",
                "eip155:1/erc20:",
                format!("eip155:1/erc20:{}", "a".repeat(129)),
                format!("eip155:1/erc721:0x1/{}", "1".repeat(79)),
                format!(" {SOURCE_ASSET}"),
                "eip155:1/erc20:0x1/",
            ]),
        ),
        breaking(
            "/source/asset_identifier",
            "UNSUPPORTED_ASSET",
            "source.asset_identifier",
            json!(["eip155:1/slip44:60", "eip155:31337/slip44:60", "eip155:main/slip44:60", "cosmos:hub/slip44:118"]),
        ),
        missing("/source/account", "source.account"),
        breaking(
            "/source/account",
            "INVALID_REQUEST",
            "source.account",
            json!([
                null,
                "",
                "0x12",
                ZERO,
                WRONG_CHECKSUM,
                7,
                format!("{PAYER} "),
                "a".repeat(129),
                PAYER.replace("0x", ""),
                format!("{PAYER}00"),
            ]),
        ),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn destination() -> Vec<BadBody> {
    [
        missing("/destination", "destination"),
        breaking("/destination", "INVALID_REQUEST", "destination", json!([null, {}, [], destinations(17), 0])),
        breaking("/destination/0", "INVALID_REQUEST", "destination[0]", json!(["x", null, []])),
        missing("/destination/0/asset_identifier", "destination[0].asset_identifier"),
        breaking(
            "/destination/0/asset_identifier",
            "INVALID_REQUEST",
            "destination[0].asset_identifier",
            json!(["x", null, ""]),
        ),
        breaking(
            "/destination/1",
            "UNSUPPORTED_ASSET",
            "destination[1].asset_identifier",
            json!([owned("eip155:10/slip44:60", RECIPIENT), owned("bip122:0/slip44:0", RECIPIENT)]),
        ),
        missing("/destination/0/account", "destination[0].account"),
        breaking("/destination/0/account", "INVALID_REQUEST", "destination[0].account", json!([5, null, []])),
        breaking(
            "/destination/0/account",
            "INVALID_DESTINATION_ACCOUNT",
            "destination[0].account",
            json!([
                "",
                "bob",
                ZERO,
                WRONG_CHECKSUM,
                format!(" {RECIPIENT}"),
                format!("{RECIPIENT}\n"),
                "a".repeat(129),
                "TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6t",
                RECIPIENT.replace("0x", ""),
                RECIPIENT.replace("0x", "0X"),
                &RECIPIENT[..41],
                "0xzz5aeb6053f3e94c9b9a09f33669435e7ef1beae",
            ]),
        ),
        breaking(
            "/destination/1",
            "INVALID_DESTINATION_ACCOUNT",
            "destination[1].account",
            json!([owned(DESTINATION_ASSET, ZERO)]),
        ),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn amounts() -> Vec<BadBody> {
    [
        missing("/fulfillment_amount", "fulfillment_amount"),
        breaking(
            "/fulfillment_amount",
            "INVALID_REQUEST",
            "fulfillment_amount",
            json!([
                null,
                1000,
                "",
                "0",
                "01",
                "-1",
                "1.5",
                "1e6",
                "9".repeat(79),
                [],
                "00",
                "+1",
                " 1",
                "1\n",
                "0x10",
                "1_000",
                "١",
                "115792089237316195423570985008687907853269984665640564039457584007913129639936",
            ]),
        ),
        breaking(
            "/max_source_amount",
            "INVALID_REQUEST",
            "max_source_amount",
            json!([null, 5, "", "0", "1.0", "-5", {}, "9".repeat(200)]),
        ),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn deadlines() -> Vec<BadBody> {
    [
        missing("/quote_deadline", "quote_deadline"),
        breaking(
            "/quote_deadline",
            "INVALID_REQUEST",
            "quote_deadline",
            json!([
                null,
                1893456060,
                "2030-01-01",
                "2030-01-01T00:01:00",
                "2030-01-01 00:01:00Z",
                "2030-13-01T00:01:00Z",
                "2030-01-01T00:01:60Z",
                format!("2030-01-01T00:01:00.{}Z", "0".repeat(60)),
                "",
                "2030-02-30T00:01:00Z",
                "2030-01-01T24:00:00Z",
                "2030-01-01T00:01:00+25:00",
                "+2030-01-01T00:01:00Z",
                "2030-01-01T00:01:00Z ",
                [],
            ]),
        ),
        breaking(
            "/quote_deadline",
            "INVALID_DEADLINE",
            "quote_deadline",
            json!([
                "2029-12-31T23:59:59Z",
                "2030-01-01T00:00:00Z",
                "2030-01-01T00:00:00.050Z",
                "2030-01-01T00:10:00Z",
                "2030-01-01T00:11:00Z",
            ]),
        ),
        missing("/fulfillment_deadline", "fulfillment_deadline"),
        breaking(
            "/fulfillment_deadline",
            "INVALID_REQUEST",
            "fulfillment_deadline",
            json!(["soon", "2016-12-31T23:59:60Z", null, 1, "2030-01-01T00:10:00"]),
        ),
        breaking(
            "/fulfillment_deadline",
            "INVALID_DEADLINE",
            "quote_deadline",
            json!([
                "2029-01-01T00:00:00Z",
                "2030-01-01T00:01:00Z",
                "2030-01-01T01:01:00.000+01:00",
                "2030-01-01T00:00:59.999999999Z",
            ]),
        ),
    ]
    .into_iter()
    .flatten()
    .collect()
}
