use serde_json::{Value, json};

use super::{DESTINATION_ASSET, ESCROW, PAYER, PROXY, RECIPIENT, SOURCE_ASSET, TRUSTED, VERIFIER, set};

/// What is done to the good body.
pub enum Edit {
    Set(&'static str, Value),
    Remove(&'static str),
}
use Edit::{Remove, Set};

pub const DID: &str = "did:key:z6MkiTBz1ymuepAQ4HEHYSF1H8quG5GLVVQR3djdX3mDooWp";

/// Bodies that break one rule each, with the code and the field of the answer.
pub fn bad_bodies() -> Vec<(Edit, &'static str, &'static str)> {
    let zero = "0x0000000000000000000000000000000000000000";
    let wrong_checksum = "0x5AAeb6053F3E94C9b9A09f33669435E7Ef1BeAed";
    let owned = |asset: &str, account: &str| json!({"asset_identifier": asset, "account": account});
    let destinations =
        |count: usize| (0..count).map(|i| owned(DESTINATION_ASSET, &format!("0x{:040x}", i + 1))).collect::<Value>();
    let dids = |count: usize| (0..count).map(|i| json!(format!("did:web:{i}.example"))).collect::<Value>();
    let credential = |pointer: &str, value: Value| {
        let mut auth = credential_auth();
        set(&mut auth, pointer, value);
        auth
    };
    vec![
        // version
        (Remove("/version"), "INVALID_REQUEST", "version"),
        (Set("/version", json!(null)), "INVALID_REQUEST", "version"),
        (Set("/version", json!(1)), "INVALID_REQUEST", "version"),
        (Set("/version", json!("")), "INVALID_REQUEST", "version"),
        (Set("/version", json!("1")), "INVALID_REQUEST", "version"),
        (Set("/version", json!("1.")), "INVALID_REQUEST", "version"),
        (Set("/version", json!("2.0")), "INVALID_REQUEST", "version"),
        (Set("/version", json!("1.0.1")), "INVALID_REQUEST", "version"),
        (Set("/version", json!("v1.0")), "INVALID_REQUEST", "version"),
        (Set("/version", json!("1.0\n")), "INVALID_REQUEST", "version"),
        (Set("/version", json!([])), "INVALID_REQUEST", "version"),
        (Set("/version", json!("01.0")), "INVALID_REQUEST", "version"),
        (Set("/version", json!("1.0 ")), "INVALID_REQUEST", "version"),
        (Set("/version", json!("1.-1")), "INVALID_REQUEST", "version"),
        (Set("/version", json!("1.١")), "INVALID_REQUEST", "version"),
        // request_id
        (Remove("/request_id"), "INVALID_REQUEST", "request_id"),
        (Set("/request_id", json!(null)), "INVALID_REQUEST", "request_id"),
        (Set("/request_id", json!(7)), "INVALID_REQUEST", "request_id"),
        (Set("/request_id", json!("")), "INVALID_REQUEST_ID", "request_id"),
        (Set("/request_id", json!("a b")), "INVALID_REQUEST_ID", "request_id"),
        (Set("/request_id", json!("a/b")), "INVALID_REQUEST_ID", "request_id"),
        (Set("/request_id", json!("ünique")), "INVALID_REQUEST_ID", "request_id"),
        (Set("/request_id", json!("a\n")), "INVALID_REQUEST_ID", "request_id"),
        (Set("/request_id", json!("a".repeat(129))), "INVALID_REQUEST_ID", "request_id"),
        (Set("/request_id", json!({})), "INVALID_REQUEST", "request_id"),
        (Set("/request_id", json!("a:b")), "INVALID_REQUEST_ID", "request_id"),
        (Set("/request_id", json!("a+b")), "INVALID_REQUEST_ID", "request_id"),
        (Set("/request_id", json!(" a")), "INVALID_REQUEST_ID", "request_id"),
        (Set("/request_id", json!("a\u{0}")), "INVALID_REQUEST_ID", "request_id"),
        (Set("/request_id", json!("١")), "INVALID_REQUEST_ID", "request_id"),
        (Set("/request_id", json!("a".repeat(4_000))), "INVALID_REQUEST_ID", "request_id"),
        // source
        (Remove("/source"), "INVALID_REQUEST", "source"),
        (Set("/source", json!(null)), "INVALID_REQUEST", "source"),
        (Set("/source", json!("0x1")), "INVALID_REQUEST", "source"),
        (Set("/source", json!([])), "INVALID_REQUEST", "source"),
        (Remove("/source/asset_identifier"), "INVALID_REQUEST", "source.asset_identifier"),
        (Set("/source/asset_identifier", json!(1)), "INVALID_REQUEST", "source.asset_identifier"),
        (Set("/source/asset_identifier", json!("")), "INVALID_SOURCE_ASSET", "source.asset_identifier"),
        (Set("/source/asset_identifier", json!("USDC")), "INVALID_SOURCE_ASSET", "source.asset_identifier"),
        (Set("/source/asset_identifier", json!("eip155:31337")), "INVALID_SOURCE_ASSET", "source.asset_identifier"),
        (Set("/source/asset_identifier", json!("eip155:1/er:0x1")), "INVALID_SOURCE_ASSET", "source.asset_identifier"),
        (
            Set("/source/asset_identifier", json!("EIP155:1/erc20:0x1")),
            "INVALID_SOURCE_ASSET",
            "source.asset_identifier",
        ),
        (Set("/source/asset_identifier", json!("eip155:1/slip44:60")), "UNSUPPORTED_ASSET", "source.asset_identifier"),
        (
            Set("/source/asset_identifier", json!("eip155:31337/slip44:60")),
            "UNSUPPORTED_ASSET",
            "source.asset_identifier",
        ),
        (
            Set("/source/asset_identifier", json!("eip155:main/slip44:60")),
            "UNSUPPORTED_ASSET",
            "source.asset_identifier",
        ),
        (
            Set("/source/asset_identifier", json!("cosmos:hub/slip44:118")),
            "UNSUPPORTED_ASSET",
            "source.asset_identifier",
        ),
        (Remove("/source/account"), "INVALID_REQUEST", "source.account"),
        (Set("/source/account", json!(null)), "INVALID_REQUEST", "source.account"),
        (Set("/source/account", json!("")), "INVALID_REQUEST", "source.account"),
        (Set("/source/account", json!("0x12")), "INVALID_REQUEST", "source.account"),
        (Set("/source/account", json!(zero)), "INVALID_REQUEST", "source.account"),
        (Set("/source/account", json!(wrong_checksum)), "INVALID_REQUEST", "source.account"),
        (Set("/source", json!(true)), "INVALID_REQUEST", "source"),
        (Set("/source/asset_identifier", json!(null)), "INVALID_REQUEST", "source.asset_identifier"),
        (Set("/source/asset_identifier", json!("eip155:1/erc20:")), "INVALID_SOURCE_ASSET", "source.asset_identifier"),
        (
            Set("/source/asset_identifier", json!(format!("eip155:1/erc20:{}", "a".repeat(129)))),
            "INVALID_SOURCE_ASSET",
            "source.asset_identifier",
        ),
        (
            Set("/source/asset_identifier", json!(format!("eip155:1/erc721:0x1/{}", "1".repeat(79)))),
            "INVALID_SOURCE_ASSET",
            "source.asset_identifier",
        ),
        (
            Set("/source/asset_identifier", json!(format!(" {SOURCE_ASSET}"))),
            "INVALID_SOURCE_ASSET",
            "source.asset_identifier",
        ),
        (
            Set("/source/asset_identifier", json!("eip155:1/erc20:0x1/")),
            "INVALID_SOURCE_ASSET",
            "source.asset_identifier",
        ),
        (Set("/source/account", json!(7)), "INVALID_REQUEST", "source.account"),
        (Set("/source/account", json!(format!("{PAYER} "))), "INVALID_REQUEST", "source.account"),
        (Set("/source/account", json!("a".repeat(129))), "INVALID_REQUEST", "source.account"),
        (Set("/source/account", json!(PAYER.replace("0x", ""))), "INVALID_REQUEST", "source.account"),
        (Set("/source/account", json!(format!("{PAYER}00"))), "INVALID_REQUEST", "source.account"),
        // destination
        (Remove("/destination"), "INVALID_REQUEST", "destination"),
        (Set("/destination", json!(null)), "INVALID_REQUEST", "destination"),
        (Set("/destination", json!({})), "INVALID_REQUEST", "destination"),
        (Set("/destination", json!([])), "INVALID_REQUEST", "destination"),
        (Set("/destination", destinations(17)), "INVALID_REQUEST", "destination"),
        (Set("/destination/1", owned(DESTINATION_ASSET, RECIPIENT)), "INVALID_REQUEST", "destination[1]"),
        (
            Set(
                "/destination/1",
                owned(&DESTINATION_ASSET.replace("9fe", "9FE"), "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"),
            ),
            "INVALID_REQUEST",
            "destination[1]",
        ),
        (Set("/destination/0", json!("x")), "INVALID_REQUEST", "destination[0]"),
        (Set("/destination/0", json!(null)), "INVALID_REQUEST", "destination[0]"),
        (Remove("/destination/0/asset_identifier"), "INVALID_REQUEST", "destination[0].asset_identifier"),
        (Set("/destination/0/asset_identifier", json!("x")), "INVALID_REQUEST", "destination[0].asset_identifier"),
        (
            Set("/destination/1", owned("eip155:10/slip44:60", RECIPIENT)),
            "UNSUPPORTED_ASSET",
            "destination[1].asset_identifier",
        ),
        (
            Set("/destination/1", owned("bip122:0/slip44:0", RECIPIENT)),
            "UNSUPPORTED_ASSET",
            "destination[1].asset_identifier",
        ),
        (Remove("/destination/0/account"), "INVALID_REQUEST", "destination[0].account"),
        (Set("/destination/0/account", json!(5)), "INVALID_REQUEST", "destination[0].account"),
        (Set("/destination/0/account", json!("")), "INVALID_DESTINATION_ACCOUNT", "destination[0].account"),
        (Set("/destination/0/account", json!("bob")), "INVALID_DESTINATION_ACCOUNT", "destination[0].account"),
        (Set("/destination/0/account", json!(zero)), "INVALID_DESTINATION_ACCOUNT", "destination[0].account"),
        (Set("/destination/0/account", json!(wrong_checksum)), "INVALID_DESTINATION_ACCOUNT", "destination[0].account"),
        (
            Set("/destination/0/account", json!(format!(" {RECIPIENT}"))),
            "INVALID_DESTINATION_ACCOUNT",
            "destination[0].account",
        ),
        (
            Set("/destination/0/account", json!(format!("{RECIPIENT}\n"))),
            "INVALID_DESTINATION_ACCOUNT",
            "destination[0].account",
        ),
        (
            Set("/destination/0/account", json!("a".repeat(129))),
            "INVALID_DESTINATION_ACCOUNT",
            "destination[0].account",
        ),
        (
            Set("/destination/0/account", json!("TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6t")),
            "INVALID_DESTINATION_ACCOUNT",
            "destination[0].account",
        ),
        (Set("/destination", json!(0)), "INVALID_REQUEST", "destination"),
        (Set("/destination/0", json!([])), "INVALID_REQUEST", "destination[0]"),
        (Set("/destination/0/asset_identifier", json!(null)), "INVALID_REQUEST", "destination[0].asset_identifier"),
        (Set("/destination/0/asset_identifier", json!("")), "INVALID_REQUEST", "destination[0].asset_identifier"),
        (Set("/destination/0/account", json!(null)), "INVALID_REQUEST", "destination[0].account"),
        (Set("/destination/0/account", json!([])), "INVALID_REQUEST", "destination[0].account"),
        (
            Set("/destination/0/account", json!(RECIPIENT.replace("0x", ""))),
            "INVALID_DESTINATION_ACCOUNT",
            "destination[0].account",
        ),
        (
            Set("/destination/0/account", json!(RECIPIENT.replace("0x", "0X"))),
            "INVALID_DESTINATION_ACCOUNT",
            "destination[0].account",
        ),
        (
            Set("/destination/0/account", json!(&RECIPIENT[..41])),
            "INVALID_DESTINATION_ACCOUNT",
            "destination[0].account",
        ),
        (
            Set("/destination/0/account", json!("0xzz5aeb6053f3e94c9b9a09f33669435e7ef1beae")),
            "INVALID_DESTINATION_ACCOUNT",
            "destination[0].account",
        ),
        (
            Set("/destination/1", owned(DESTINATION_ASSET, zero)),
            "INVALID_DESTINATION_ACCOUNT",
            "destination[1].account",
        ),
        // amounts
        (Remove("/fulfillment_amount"), "INVALID_REQUEST", "fulfillment_amount"),
        (Set("/fulfillment_amount", json!(null)), "INVALID_REQUEST", "fulfillment_amount"),
        (Set("/fulfillment_amount", json!(1000)), "INVALID_REQUEST", "fulfillment_amount"),
        (Set("/fulfillment_amount", json!("")), "INVALID_REQUEST", "fulfillment_amount"),
        (Set("/fulfillment_amount", json!("0")), "INVALID_REQUEST", "fulfillment_amount"),
        (Set("/fulfillment_amount", json!("01")), "INVALID_REQUEST", "fulfillment_amount"),
        (Set("/fulfillment_amount", json!("-1")), "INVALID_REQUEST", "fulfillment_amount"),
        (Set("/fulfillment_amount", json!("1.5")), "INVALID_REQUEST", "fulfillment_amount"),
        (Set("/fulfillment_amount", json!("1e6")), "INVALID_REQUEST", "fulfillment_amount"),
        (Set("/fulfillment_amount", json!("9".repeat(79))), "INVALID_REQUEST", "fulfillment_amount"),
        (Set("/max_source_amount", json!(null)), "INVALID_REQUEST", "max_source_amount"),
        (Set("/max_source_amount", json!(5)), "INVALID_REQUEST", "max_source_amount"),
        (Set("/max_source_amount", json!("")), "INVALID_REQUEST", "max_source_amount"),
        (Set("/max_source_amount", json!("0")), "INVALID_REQUEST", "max_source_amount"),
        (Set("/fulfillment_amount", json!([])), "INVALID_REQUEST", "fulfillment_amount"),
        (Set("/fulfillment_amount", json!("00")), "INVALID_REQUEST", "fulfillment_amount"),
        (Set("/fulfillment_amount", json!("+1")), "INVALID_REQUEST", "fulfillment_amount"),
        (Set("/fulfillment_amount", json!(" 1")), "INVALID_REQUEST", "fulfillment_amount"),
        (Set("/fulfillment_amount", json!("1\n")), "INVALID_REQUEST", "fulfillment_amount"),
        (Set("/fulfillment_amount", json!("0x10")), "INVALID_REQUEST", "fulfillment_amount"),
        (Set("/fulfillment_amount", json!("1_000")), "INVALID_REQUEST", "fulfillment_amount"),
        (Set("/fulfillment_amount", json!("١")), "INVALID_REQUEST", "fulfillment_amount"),
        (
            Set(
                "/fulfillment_amount",
                json!("115792089237316195423570985008687907853269984665640564039457584007913129639936"),
            ),
            "INVALID_REQUEST",
            "fulfillment_amount",
        ),
        (Set("/max_source_amount", json!("1.0")), "INVALID_REQUEST", "max_source_amount"),
        (Set("/max_source_amount", json!("-5")), "INVALID_REQUEST", "max_source_amount"),
        (Set("/max_source_amount", json!({})), "INVALID_REQUEST", "max_source_amount"),
        (Set("/max_source_amount", json!("9".repeat(200))), "INVALID_REQUEST", "max_source_amount"),
        // deadlines
        (Remove("/quote_deadline"), "INVALID_REQUEST", "quote_deadline"),
        (Set("/quote_deadline", json!(null)), "INVALID_REQUEST", "quote_deadline"),
        (Set("/quote_deadline", json!(1893456060)), "INVALID_REQUEST", "quote_deadline"),
        (Set("/quote_deadline", json!("2030-01-01")), "INVALID_REQUEST", "quote_deadline"),
        (Set("/quote_deadline", json!("2030-01-01T00:01:00")), "INVALID_REQUEST", "quote_deadline"),
        (Set("/quote_deadline", json!("2030-01-01 00:01:00Z")), "INVALID_REQUEST", "quote_deadline"),
        (Set("/quote_deadline", json!("2030-13-01T00:01:00Z")), "INVALID_REQUEST", "quote_deadline"),
        (Set("/quote_deadline", json!("2030-01-01T00:01:60Z")), "INVALID_REQUEST", "quote_deadline"),
        (
            Set("/quote_deadline", json!(format!("2030-01-01T00:01:00.{}Z", "0".repeat(60)))),
            "INVALID_REQUEST",
            "quote_deadline",
        ),
        (Set("/quote_deadline", json!("2029-12-31T23:59:59Z")), "INVALID_DEADLINE", "quote_deadline"),
        (Set("/quote_deadline", json!("2030-01-01T00:00:00Z")), "INVALID_DEADLINE", "quote_deadline"),
        (Set("/quote_deadline", json!("2030-01-01T00:00:00.050Z")), "INVALID_DEADLINE", "quote_deadline"),
        (Set("/quote_deadline", json!("2030-01-01T00:10:00Z")), "INVALID_DEADLINE", "quote_deadline"),
        (Set("/quote_deadline", json!("2030-01-01T00:11:00Z")), "INVALID_DEADLINE", "quote_deadline"),
        (Remove("/fulfillment_deadline"), "INVALID_REQUEST", "fulfillment_deadline"),
        (Set("/fulfillment_deadline", json!("soon")), "INVALID_REQUEST", "fulfillment_deadline"),
        (Set("/fulfillment_deadline", json!("2016-12-31T23:59:60Z")), "INVALID_REQUEST", "fulfillment_deadline"),
        (Set("/fulfillment_deadline", json!("2029-01-01T00:00:00Z")), "INVALID_DEADLINE", "quote_deadline"),
        (Set("/fulfillment_deadline", json!("2030-01-01T00:01:00.999Z")), "INVALID_DEADLINE", "quote_deadline"),
        (Set("/quote_deadline", json!("")), "INVALID_REQUEST", "quote_deadline"),
        (Set("/quote_deadline", json!("2030-02-30T00:01:00Z")), "INVALID_REQUEST", "quote_deadline"),
        (Set("/quote_deadline", json!("2030-01-01T24:00:00Z")), "INVALID_REQUEST", "quote_deadline"),
        (Set("/quote_deadline", json!("2030-01-01T00:01:00+25:00")), "INVALID_REQUEST", "quote_deadline"),
        (Set("/quote_deadline", json!("+2030-01-01T00:01:00Z")), "INVALID_REQUEST", "quote_deadline"),
        (Set("/quote_deadline", json!("2030-01-01T00:01:00Z ")), "INVALID_REQUEST", "quote_deadline"),
        (Set("/quote_deadline", json!([])), "INVALID_REQUEST", "quote_deadline"),
        (Set("/fulfillment_deadline", json!(null)), "INVALID_REQUEST", "fulfillment_deadline"),
        (Set("/fulfillment_deadline", json!(1)), "INVALID_REQUEST", "fulfillment_deadline"),
        (Set("/fulfillment_deadline", json!("2030-01-01T00:10:00")), "INVALID_REQUEST", "fulfillment_deadline"),
        (Set("/fulfillment_deadline", json!("2030-01-01T00:00:59Z")), "INVALID_DEADLINE", "quote_deadline"),
        // settler_auth_required
        (Set("/settler_auth_required", json!(null)), "INVALID_REQUEST", "settler_auth_required"),
        (Set("/settler_auth_required", json!([])), "INVALID_REQUEST", "settler_auth_required"),
        (Set("/settler_auth_required", json!({"kyc": "yes"})), "INVALID_REQUEST", "settler_auth_required.kyc"),
        (Set("/settler_auth_required", json!({"kyc": null})), "INVALID_REQUEST", "settler_auth_required.kyc"),
        (Set("/settler_auth_required", json!({"<script>": 1})), "INVALID_REQUEST", "settler_auth_required"),
        (Set("/settler_auth_required", json!("kyc")), "INVALID_REQUEST", "settler_auth_required"),
        (Set("/settler_auth_required", json!({"kyc": 1})), "INVALID_REQUEST", "settler_auth_required.kyc"),
        // sender_auth
        (Remove("/sender_auth"), "INVALID_REQUEST", "sender_auth"),
        (Set("/sender_auth", json!(null)), "INVALID_REQUEST", "sender_auth"),
        (Remove("/sender_auth/message_scheme"), "INVALID_REQUEST", "sender_auth.message_scheme"),
        (Set("/sender_auth/message_scheme", json!("EVM")), "INVALID_REQUEST", "sender_auth.message_scheme"),
        (Set("/sender_auth/message_scheme", json!("SOLANA")), "INVALID_REQUEST", "sender_auth.message_scheme"),
        (Set("/sender_auth/message_scheme", json!("TRON")), "INVALID_REQUEST", "sender_auth.message_scheme"),
        (Remove("/sender_auth/signed_messages"), "INVALID_REQUEST", "sender_auth.signed_messages"),
        (Set("/sender_auth/signed_messages", json!([])), "INVALID_REQUEST", "sender_auth.signed_messages"),
        (Set("/sender_auth/signed_messages", json!({})), "INVALID_REQUEST", "sender_auth.signed_messages"),
        (Set("/sender_auth/signed_messages", json!([1])), "INVALID_REQUEST", "sender_auth.signed_messages[0]"),
        (Remove("/sender_auth/signed_messages/0/message"), "INVALID_REQUEST", "sender_auth.signed_messages[0].message"),
        (
            Set("/sender_auth/signed_messages/0/message", json!("11")),
            "INVALID_REQUEST",
            "sender_auth.signed_messages[0].message",
        ),
        (
            Set("/sender_auth/signed_messages/0/message", json!("0x1")),
            "INVALID_REQUEST",
            "sender_auth.signed_messages[0].message",
        ),
        (
            Set("/sender_auth/signed_messages/0/message", json!("0xzz")),
            "INVALID_REQUEST",
            "sender_auth.signed_messages[0].message",
        ),
        (
            Remove("/sender_auth/signed_messages/0/signature"),
            "INVALID_REQUEST",
            "sender_auth.signed_messages[0].signature",
        ),
        (
            Set("/sender_auth/signed_messages/0/signature", json!("")),
            "INVALID_REQUEST",
            "sender_auth.signed_messages[0].signature",
        ),
        (
            Set("/sender_auth/signed_messages/0/signature", json!("0x")),
            "INVALID_REQUEST",
            "sender_auth.signed_messages[0].signature",
        ),
        (
            Set("/sender_auth/signed_messages/0/signature", json!("2222")),
            "INVALID_REQUEST",
            "sender_auth.signed_messages[0].signature",
        ),
        (
            Set("/sender_auth/signed_messages/0/message_prehash", json!(null)),
            "INVALID_REQUEST",
            "sender_auth.signed_messages[0].message_prehash",
        ),
        (
            Set("/sender_auth/signed_messages/0/message_prehash", json!({})),
            "INVALID_REQUEST",
            "sender_auth.signed_messages[0].message_prehash",
        ),
        (
            Set("/sender_auth/signed_messages/0/payload", json!(null)),
            "INVALID_REQUEST",
            "sender_auth.signed_messages[0].payload",
        ),
        (
            Set("/sender_auth/signed_messages/0/payload", json!("x")),
            "INVALID_REQUEST",
            "sender_auth.signed_messages[0].payload",
        ),
        (Set("/sender_auth", json!([])), "INVALID_REQUEST", "sender_auth"),
        (Set("/sender_auth", json!("0x")), "INVALID_REQUEST", "sender_auth"),
        (Set("/sender_auth/message_scheme", json!(null)), "INVALID_REQUEST", "sender_auth.message_scheme"),
        (Set("/sender_auth/message_scheme", json!(1)), "INVALID_REQUEST", "sender_auth.message_scheme"),
        (
            Set("/sender_auth/message_scheme", json!("evm_permit2_escrow")),
            "INVALID_REQUEST",
            "sender_auth.message_scheme",
        ),
        (Set("/sender_auth/signed_messages", json!(null)), "INVALID_REQUEST", "sender_auth.signed_messages"),
        (Set("/sender_auth/signed_messages", json!("x")), "INVALID_REQUEST", "sender_auth.signed_messages"),
        (
            Set("/sender_auth/signed_messages", json!(vec![json!({"message": "0x11", "signature": "0x22"}); 17])),
            "INVALID_REQUEST",
            "sender_auth.signed_messages",
        ),
        (Set("/sender_auth/signed_messages/1", json!(null)), "INVALID_REQUEST", "sender_auth.signed_messages[1]"),
        (
            Set("/sender_auth/signed_messages/1", json!({"message": "0x11"})),
            "INVALID_REQUEST",
            "sender_auth.signed_messages[1].signature",
        ),
        (
            Set("/sender_auth/signed_messages/0/message", json!(17)),
            "INVALID_REQUEST",
            "sender_auth.signed_messages[0].message",
        ),
        (
            Set("/sender_auth/signed_messages/0/message", json!("0x")),
            "INVALID_REQUEST",
            "sender_auth.signed_messages[0].message",
        ),
        (
            Set("/sender_auth/signed_messages/0/signature", json!("0x222")),
            "INVALID_REQUEST",
            "sender_auth.signed_messages[0].signature",
        ),
        (
            Set("/sender_auth/signed_messages/0/signature", json!("0xgg")),
            "INVALID_REQUEST",
            "sender_auth.signed_messages[0].signature",
        ),
        (
            Set("/sender_auth/signed_messages/0/signature", json!(null)),
            "INVALID_REQUEST",
            "sender_auth.signed_messages[0].signature",
        ),
        (
            Set("/sender_auth/signed_messages/0/payload", json!([])),
            "INVALID_REQUEST",
            "sender_auth.signed_messages[0].payload",
        ),
        // credentials
        (Set("/originator_auth", json!(null)), "INVALID_REQUEST", "originator_auth"),
        (Set("/originator_auth", json!("x")), "INVALID_REQUEST", "originator_auth"),
        (
            Set("/originator_auth", credential("/verification_method_id", json!(1))),
            "INVALID_REQUEST",
            "originator_auth.verification_method_id",
        ),
        (
            Set("/originator_auth", credential("/signature", json!(null))),
            "INVALID_REQUEST",
            "originator_auth.signature",
        ),
        (
            Set("/originator_auth", credential("/verifiable_credential/@context", json!(["https://x.example"]))),
            "INVALID_REQUEST",
            "originator_auth.verifiable_credential.@context",
        ),
        (
            Set("/originator_auth", credential("/verifiable_credential/type", json!(["Other"]))),
            "INVALID_REQUEST",
            "originator_auth.verifiable_credential.type",
        ),
        (
            Set("/originator_auth", credential("/verifiable_credential/type", json!(["VerifiableCredential", 1]))),
            "INVALID_REQUEST",
            "originator_auth.verifiable_credential.type[1]",
        ),
        (
            Set("/originator_auth", credential("/verifiable_credential/issuer", json!(1))),
            "INVALID_REQUEST",
            "originator_auth.verifiable_credential.issuer",
        ),
        (
            Set("/originator_auth", credential("/verifiable_credential/issuanceDate", json!("today"))),
            "INVALID_REQUEST",
            "originator_auth.verifiable_credential.issuanceDate",
        ),
        (
            Set("/originator_auth", credential("/verifiable_credential/expirationDate", json!(null))),
            "INVALID_REQUEST",
            "originator_auth.verifiable_credential.expirationDate",
        ),
        (
            Set("/sender_auth/verifiable_credential", credential("/verifiable_credential/proof", json!("x"))),
            "INVALID_REQUEST",
            "sender_auth.verifiable_credential.verifiable_credential.proof",
        ),
        (Set("/originator_auth", json!({})), "INVALID_REQUEST", "originator_auth.verification_method_id"),
        (
            Set("/originator_auth", credential("/verifiable_credential", json!(null))),
            "INVALID_REQUEST",
            "originator_auth.verifiable_credential",
        ),
        (
            Set("/originator_auth", credential("/verifiable_credential/@context", json!("x"))),
            "INVALID_REQUEST",
            "originator_auth.verifiable_credential.@context",
        ),
        (
            Set("/originator_auth", credential("/verifiable_credential/credentialSubject", json!([]))),
            "INVALID_REQUEST",
            "originator_auth.verifiable_credential.credentialSubject",
        ),
        (
            Set("/originator_auth", credential("/verifiable_credential/credentialStatus", json!(null))),
            "INVALID_REQUEST",
            "originator_auth.verifiable_credential.credentialStatus",
        ),
        (
            Set("/sender_auth/verifiable_credential", json!(null)),
            "INVALID_REQUEST",
            "sender_auth.verifiable_credential",
        ),
        // quote_selector
        (Set("/quote_selector", json!(null)), "INVALID_REQUEST", "quote_selector"),
        (Set("/quote_selector", json!(1)), "INVALID_REQUEST", "quote_selector"),
        (Set("/quote_selector", json!("someone")), "UNTRUSTED_SELECTOR", "quote_selector"),
        (
            Set("/quote_selector", json!("0x0000000000000000000000000000000000000001")),
            "UNTRUSTED_SELECTOR",
            "quote_selector",
        ),
        // fulfillment_verifier
        (Set("/fulfillment_verifier", json!(null)), "INVALID_REQUEST", "fulfillment_verifier"),
        (Set("/fulfillment_verifier", json!("")), "INVALID_REQUEST", "fulfillment_verifier"),
        (
            Set("/fulfillment_verifier", json!({"account": VERIFIER})),
            "INVALID_REQUEST",
            "fulfillment_verifier.endpoint",
        ),
        (
            Set("/fulfillment_verifier", json!({"endpoint": "http://127.0.0.1:8090"})),
            "INVALID_REQUEST",
            "fulfillment_verifier.account",
        ),
        (
            Set("/fulfillment_verifier", json!({"account": null, "endpoint": "http://127.0.0.1:8090"})),
            "INVALID_REQUEST",
            "fulfillment_verifier.account",
        ),
        (
            Set("/fulfillment_verifier", json!({"account": VERIFIER, "endpoint": "http://127.0.0.1:8090/v1"})),
            "INVALID_REQUEST",
            "fulfillment_verifier.endpoint",
        ),
        (
            Set("/fulfillment_verifier", json!({"account": VERIFIER, "endpoint": "verifier"})),
            "INVALID_REQUEST",
            "fulfillment_verifier.endpoint",
        ),
        (
            Set("/fulfillment_verifier", json!({"account": VERIFIER, "endpoint": "https://evil.example"})),
            "UNTRUSTED_VERIFIER",
            "fulfillment_verifier",
        ),
        (
            Set("/fulfillment_verifier", json!({"account": PAYER, "endpoint": "http://127.0.0.1:8090"})),
            "UNTRUSTED_VERIFIER",
            "fulfillment_verifier",
        ),
        (
            Set("/fulfillment_verifier", json!({"account": "someone", "endpoint": "http://127.0.0.1:8090"})),
            "UNTRUSTED_VERIFIER",
            "fulfillment_verifier",
        ),
        (Set("/fulfillment_verifier", json!([])), "INVALID_REQUEST", "fulfillment_verifier"),
        (
            Set("/fulfillment_verifier", json!({"account": VERIFIER, "endpoint": 1})),
            "INVALID_REQUEST",
            "fulfillment_verifier.endpoint",
        ),
        (
            Set("/fulfillment_verifier", json!({"account": VERIFIER, "endpoint": "ftp://127.0.0.1:8090"})),
            "INVALID_REQUEST",
            "fulfillment_verifier.endpoint",
        ),
        (
            Set("/fulfillment_verifier", json!({"account": VERIFIER, "endpoint": "http://a@127.0.0.1:8090"})),
            "INVALID_REQUEST",
            "fulfillment_verifier.endpoint",
        ),
        (
            Set("/fulfillment_verifier", json!({"account": VERIFIER, "endpoint": "http://127.0.0.1:8090?x"})),
            "INVALID_REQUEST",
            "fulfillment_verifier.endpoint",
        ),
        // contracts
        (Set("/escrow_contract_address", json!(null)), "INVALID_REQUEST", "escrow_contract_address"),
        (Set("/escrow_contract_address", json!({})), "INVALID_REQUEST", "escrow_contract_address"),
        (Set("/escrow_contract_address", json!("escrow")), "INVALID_REQUEST", "escrow_contract_address"),
        (Set("/escrow_contract_address", json!(PAYER)), "UNTRUSTED_ESCROW", "escrow_contract_address"),
        (Set("/fulfillment_proxy", json!(null)), "INVALID_REQUEST", "fulfillment_proxy"),
        (Set("/fulfillment_proxy", json!("proxy")), "INVALID_REQUEST", "fulfillment_proxy"),
        (Set("/fulfillment_proxy", json!(ESCROW)), "UNTRUSTED_PROXY", "fulfillment_proxy"),
        (Set("/escrow_contract_address", json!(5)), "INVALID_REQUEST", "escrow_contract_address"),
        (Set("/escrow_contract_address", json!(zero)), "INVALID_REQUEST", "escrow_contract_address"),
        (Set("/escrow_contract_address", json!(PROXY)), "UNTRUSTED_ESCROW", "escrow_contract_address"),
        (Set("/fulfillment_proxy", json!([])), "INVALID_REQUEST", "fulfillment_proxy"),
        (Set("/fulfillment_proxy", json!(zero)), "INVALID_REQUEST", "fulfillment_proxy"),
        // settler_requirements
        (Set("/settler_requirements", json!(null)), "INVALID_REQUEST", "settler_requirements"),
        (Set("/settler_requirements", json!([])), "INVALID_REQUEST", "settler_requirements"),
        (Set("/settler_requirements", json!({"whitelist": null})), "INVALID_REQUEST", "settler_requirements.whitelist"),
        (Set("/settler_requirements", json!({"whitelist": []})), "INVALID_REQUEST", "settler_requirements.whitelist"),
        (Set("/settler_requirements", json!({"blacklist": []})), "INVALID_REQUEST", "settler_requirements.blacklist"),
        (Set("/settler_requirements", json!({"blacklist": DID})), "INVALID_REQUEST", "settler_requirements.blacklist"),
        (
            Set("/settler_requirements", json!({"blacklist": dids(101)})),
            "INVALID_REQUEST",
            "settler_requirements.blacklist",
        ),
        (
            Set("/settler_requirements", json!({"whitelist": [1]})),
            "INVALID_REQUEST",
            "settler_requirements.whitelist[0]",
        ),
        (
            Set("/settler_requirements", json!({"whitelist": ["bob"]})),
            "INVALID_REQUEST",
            "settler_requirements.whitelist[0]",
        ),
        (
            Set("/settler_requirements", json!({"whitelist": ["did:Key:z"]})),
            "INVALID_REQUEST",
            "settler_requirements.whitelist[0]",
        ),
        (
            Set("/settler_requirements", json!({"whitelist": [DID, DID]})),
            "INVALID_REQUEST",
            "settler_requirements.whitelist[1]",
        ),
    ]
}

/// A deprecated credential of the right shape.
pub fn credential_auth() -> Value {
    json!({
        "verifiable_credential": {
            "@context": ["https://www.w3.org/2018/credentials/v1", "https://x.example"],
            "id": "urn:uuid:1",
            "type": ["VerifiableCredential"],
            "issuer": "did:web:issuer.example",
            "issuanceDate": "2025-01-01T00:00:00Z",
            "credentialSubject": {},
            "proof": {},
        },
        "verification_method_id": "did:web:issuer.example#1",
        "signature": "anything",
    })
}

/// Changes to the good body after which it is still one.
pub fn good_edits() -> Vec<(&'static str, Value)> {
    vec![
        ("/version", json!("1.37")),
        ("/request_id", json!("a")),
        ("/request_id", json!("A-z_0.9".repeat(18))),
        ("/source/account", json!("0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359")),
        ("/source/account", json!(PAYER.to_uppercase().replace("0X", "0x"))),
        (
            "/source/asset_identifier",
            json!(
                SOURCE_ASSET
                    .replace("9fe46736679d2d9a65f0992f2272de9f3c7fa6e0", "9fE46736679d2D9a65F0992F2272dE9f3c7fa6e0")
            ),
        ),
        ("/source/asset_identifier", json!(SOURCE_ASSET.replace("31337", "031337"))),
        (
            "/fulfillment_amount",
            json!("115792089237316195423570985008687907853269984665640564039457584007913129639935"),
        ),
        ("/quote_deadline", json!("2030-01-01T01:01:00+01:00")),
        ("/quote_deadline", json!("2030-01-01t00:01:00.123456z")),
        ("/fulfillment_deadline", json!("2030-01-02T00:00:00Z")),
        ("/settler_auth_required", json!({})),
        ("/settler_auth_required", json!({"kyc": true, "any name, really": false})),
        ("/quote_selector", json!("")),
        ("/fulfillment_verifier", json!({})),
        ("/fulfillment_verifier", json!({"account": "", "endpoint": ""})),
        ("/fulfillment_verifier", json!({"account": "", "other": 1})),
        ("/fulfillment_verifier", json!({"account": VERIFIER, "endpoint": "http://127.0.0.1:8090"})),
        ("/fulfillment_verifier", json!({"account": TRUSTED, "endpoint": "https://verifier.example:443"})),
        ("/escrow_contract_address", json!("")),
        ("/escrow_contract_address", json!(ESCROW)),
        ("/escrow_contract_address", json!(TRUSTED)),
        ("/fulfillment_proxy", json!("")),
        ("/fulfillment_proxy", json!(PROXY)),
        ("/fulfillment_proxy", json!(TRUSTED)),
        ("/settler_requirements", json!({})),
        ("/settler_requirements", json!({"whitelist": [DID], "blacklist": [DID]})),
        ("/unknown", json!(null)),
        ("/source/unknown", json!({"a": [1.5e300]})),
    ]
}
