//! Payers on Solana through the routes: real Ed25519 signatures, approvals that the test sets.

use ed25519_dalek::{Signer, SigningKey};

use app::authorization::{
    registry::Authorizers,
    solana::{Approvals, SolanaAuthorizer},
};
use chains_solana::authorization::{
    Choice, ClusterId, EscrowSettings, SpendRequest, allowance_delegate, prepare, wallet_key,
};
use config::{GatewayChain, examples::with_solana};
use events::{Account, OwnedAsset};
use sagas::ports::Transient;

use super::*;

const PREPARE: &str = "/v1/payments/prepare";
const VERIFY: &str = "/v1/payments/verify";
const CHAIN: &str = "solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1";
const TOKEN: &str = "EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v";
const PROGRAM: &str = "Bu4YY2J4tTs7UP6nd8uqS7YwzeLpmF1cHSuV5J4DvGA4";
const RELEASER: &str = "8SFqwqnq4whPhs8icwHA2hQg3hUoN1qrCLK1SBx3WKwe";
const CLUSTER: &str = "EtWTRABZaYq6iMfeYKouRu166VU2xqa1wcaWoxPkrZBG";

/// The delegate of every payer's token account; an error stands for a node that is away.
struct SetApprovals(Mutex<Result<Option<Account>, ()>>);

#[async_trait]
impl Approvals for SetApprovals {
    async fn delegate(&self, _: &OwnedAsset) -> Result<Option<Account>, Transient> {
        self.0.lock().unwrap().clone().map_err(|()| Transient::unreachable("node secret.internal is down"))
    }
}

fn chain() -> GatewayChain {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("gateway.toml");
    std::fs::write(&path, with_solana(include_str!("../../../config/gateway.example.toml"))).unwrap();
    GatewayConfig::load(&path).unwrap().chains.remove(1)
}

/// The address that draws for deposits that `signer` signs.
fn drawn_by(signer: &SigningKey) -> Account {
    allowance_delegate(&PROGRAM.parse().unwrap(), &account(signer).parse().unwrap()).unwrap()
}

fn gateway() -> (Gateway, Arc<SetApprovals>) {
    let approvals = Arc::new(SetApprovals(Mutex::new(Ok(None))));
    let shared: Arc<dyn Approvals> = approvals.clone();
    let clusters = [(CHAIN.parse().unwrap(), ClusterId::parse(CLUSTER).unwrap(), shared)];
    let evm: Arc<dyn Authorizer> = Arc::new(LenientAuthorizer);
    let authorizer = Authorizers::new([
        (events::Family::Evm, evm),
        (events::Family::Solana, Arc::new(SolanaAuthorizer::new(clusters))),
    ]);
    let journal = MemoryJournal::new(4);
    let gateway = Gateway::with_parts(Arc::new(journal.clone()), journal, Arc::new(authorizer), |config| {
        config.chains.push(chain());
    });
    (gateway, approvals)
}

fn key(byte: u8) -> SigningKey {
    SigningKey::from_bytes(&[byte; 32])
}

fn account(key: &SigningKey) -> String {
    bs58::encode(key.verifying_key()).into_string()
}

/// [`body`] from Solana to an EVM chain, without what authorizes it.
fn unsigned(payer: &SigningKey) -> Value {
    let source = json!({"asset_identifier": format!("{CHAIN}/token:{TOKEN}"), "account": account(payer)});
    let mut body = with("/source", source);
    body.as_object_mut().unwrap().remove("sender_auth");
    body
}

/// `body` with what is prepared for it, signed by `signer`.
async fn signed(gateway: &Gateway, body: &Value, signer: &SigningKey) -> Value {
    let prepared = gateway.post_to(PREPARE, body).await.expect(200);
    assert_eq!(prepared.body["message_scheme"], "SOLANA");
    let mut message = prepared.body["signed_messages"][0].clone();
    let digest: Hash32 = message["message"].as_str().unwrap().parse().unwrap();
    let preimage = hex::decode(&message["message_prehash"].as_str().unwrap()[2..]).unwrap();
    assert_eq!(Hash32::sha256(preimage), digest);
    message["signature"] = json!(format!("0x{}", hex::encode(signer.sign(&digest.0).to_bytes())));
    let mut body = body.clone();
    body.as_object_mut().unwrap().remove("payload");
    body["sender_auth"] = json!({"message_scheme": "SOLANA", "signed_messages": [message]});
    body
}

#[tokio::test]
async fn the_defaults_of_a_solana_chain_show_its_signing_domain() {
    let (gateway, _) = gateway();
    let expected = json!({
        "family": "solana",
        "quote_selector": "",
        "fulfillment_verifier": single_verifier(RELEASER, "http://127.0.0.1:8090"),
        "escrow_contract_address": PROGRAM,
        "fulfillment_proxy": PROGRAM,
        "escrow_contract_addresses": [PROGRAM],
        "fulfillment_proxy_addresses": [PROGRAM],
        "fulfillment_verifiers": [single_verifier(RELEASER, "http://127.0.0.1:8090")],
        "settler_policies": ["aml", "kyc"],
        "reserver": "GyGKxMyg1p9SsHfm15MkNUu1u9TN2JtTspcdmrtGUdse",
        "releaser": RELEASER,
        "signature_cluster_id": CLUSTER,
        "signature_domain_version": 1,
        "message_schemes": ["SOLANA"],
        "refund_delay_seconds": 3600,
        "deadlines": deadline_limits(),
        "required_depth": "finalized",
        "assets": [
            {"asset_identifier": format!("{CHAIN}/token:{TOKEN}"), "symbol": "USDC", "decimals": 6},
            {"asset_identifier": format!("{CHAIN}/slip44:501"), "symbol": "SOL", "decimals": 9},
        ],
    });
    let shown = gateway.get(&format!("/v1/defaults?chain_id={CHAIN}")).await.expect(200).body;
    assert_eq!(shown, expected);
    assert_eq!(gateway.get("/v1/defaults").await.expect(200).body["chains"][CHAIN], expected);

    // What is shown can be sent back as it is.
    let mut body = unsigned(&key(7));
    body["destination"] = json!([{"asset_identifier": format!("{CHAIN}/slip44:501"), "account": account(&key(9))}]);
    for name in ["quote_selector", "fulfillment_verifier", "escrow_contract_address", "fulfillment_proxy"] {
        body[name] = shown[name].clone();
    }
    let body = signed(&gateway, &body, &key(7)).await;
    gateway.post(&body).await.expect(200);
}

#[tokio::test]
async fn what_was_prepared_and_signed_is_accepted() {
    let (gateway, _) = gateway();
    let payer = key(7);
    let body = signed(&gateway, &unsigned(&payer), &payer).await;
    let payload = &body["sender_auth"]["signed_messages"][0]["payload"];
    let delegate = drawn_by(&payer);
    // The longest delay among the chains of the payment counts: the destination's.
    let deadline = unix_seconds(at("2030-01-01T00:10:00Z"));
    assert_eq!(
        payload,
        &json!({"reserve_deadline": deadline, "refund_after": deadline + 7_200, "allowance_delegate": delegate})
    );
    let verified = gateway.post_to(VERIFY, &body).await.expect(200);
    assert_eq!((&verified.body["valid"], verified.body.get("status")), (&json!(true), None));
    let accepted = gateway.post(&body).await.expect(200);
    assert_eq!(accepted.body["payment_id"], verified.body["payment_id"]);
    let submitted = gateway.submitted(accepted.payment_id().as_str()).await;
    let Authorization::Solana(spend) = &submitted.authorization else { panic!("{submitted:?}") };
    assert_eq!((spend.amount.to_string().as_str(), spend.signer.as_str()), ("1100000", account(&payer).as_str()));
    assert_eq!((submitted.escrow.contract.as_str(), submitted.escrow.releaser.as_str()), (PROGRAM, RELEASER));

    let mut short = body.clone();
    let message = short["sender_auth"]["signed_messages"][0].as_object_mut().unwrap();
    message.remove("message_prehash");
    message.remove("payload");
    assert_eq!(gateway.post(&short).await.expect(200).body["idempotent_replay"], true);
    let timeline = gateway.get(&format!("/v1/payments/{}/timeline", accepted.payment_id())).await.expect(200);
    assert_eq!(timeline.body["entries"][0]["data"]["message_scheme"], "SOLANA", "{timeline:?}");
}

#[tokio::test]
async fn the_payers_signature_is_checked_against_the_whole_request() {
    let (gateway, _) = gateway();
    let (payer, stranger) = (key(7), key(8));
    let good = signed(&gateway, &unsigned(&payer), &payer).await;
    let message = "/sender_auth/signed_messages/0";
    for (pointer, value) in [
        ("/request_id", json!("order-2")),
        ("/fulfillment_amount", json!("1000001")),
        ("/max_source_amount", json!("1100001")),
        ("/destination/0/account", json!(PAYER)),
        ("/fulfillment_deadline", json!("2030-01-01T00:10:01Z")),
        ("/source/account", json!(account(&stranger))),
        (&format!("{message}/message"), json!(Hash32([1; 32]).to_string())),
        (&format!("{message}/message_prehash"), json!("0x00")),
        (&format!("{message}/signature"), json!("0x1234")),
        (&format!("{message}/signature"), json!(format!("0x{}", "11".repeat(64)))),
        (&format!("{message}/payload/refund_after"), json!("1900000000")),
        (&format!("{message}/payload/reserve_deadline"), json!("1")),
        (&format!("{message}/payload/delegate_signer"), json!(account(&stranger))),
        (&format!("{message}/payload/allowance_delegate"), json!(account(&stranger))),
    ] {
        let mut body = good.clone();
        set(&mut body, pointer, value.clone());
        let answer = gateway.post(&body).await;
        assert_eq!(answer.status.as_u16(), 401, "{pointer} = {value}: {answer:?}");
        let answer = answer.expect_error(401, "INVALID_SENDER_AUTH");
        assert!(answer.message().starts_with("sender_auth.signed_messages"), "{answer:?}");
    }
    // Another cluster, version or program: whoever signs for those signs other bytes.
    let prehash = good.pointer(&format!("{message}/message_prehash")).unwrap().as_str().unwrap();
    for (at, named) in
        [(9, "domain_version"), (10, "cluster_id"), (42, "program_id"), (75, "payment_id"), (107, "terms_hash")]
    {
        let mut preimage = hex::decode(&prehash[2..]).unwrap();
        preimage[at] ^= 1;
        let digest = Hash32::sha256(&preimage);
        let mut body = good.clone();
        set(&mut body, &format!("{message}/message"), json!(digest.to_string()));
        set(&mut body, &format!("{message}/message_prehash"), json!(format!("0x{}", hex::encode(preimage))));
        let signature = format!("0x{}", hex::encode(payer.sign(&digest.0).to_bytes()));
        set(&mut body, &format!("{message}/signature"), json!(signature));
        let answer = gateway.post(&body).await.expect_error(401, "INVALID_SENDER_AUTH");
        let rule = format!("sender_auth.signed_messages[0]: message_prehash.{named} must be ");
        assert!(answer.message().starts_with(&rule), "{answer:?}");
    }
    // Of several messages the first that authorizes the payment counts, and the others are kept.
    let mut several = good.clone();
    let own = good["sender_auth"]["signed_messages"][0].clone();
    let mut others = own.clone();
    others["signature"] = json!(format!("0x{}", hex::encode(stranger.sign(&[7; 32]).to_bytes())));
    several["sender_auth"]["signed_messages"] = json!([others, own, own]);
    let accepted = gateway.post(&several).await.expect(200);
    let submitted = gateway.submitted(accepted.payment_id().as_str()).await;
    assert_eq!(serde_json::from_str::<Value>(&submitted.request).unwrap(), several);
    assert_eq!(gateway.post(&good).await.expect(200).body["idempotent_replay"], true);
}

#[tokio::test]
async fn a_delegate_signer_counts_when_the_payer_approved_it() {
    let (gateway, approvals) = gateway();
    let (payer, delegate) = (key(7), key(8));
    let mut body = unsigned(&payer);
    body["payload"] = json!({"delegate_signer": account(&delegate)});
    let body = signed(&gateway, &body, &delegate).await;
    let address = drawn_by(&delegate);

    *approvals.0.lock().unwrap() = Err(());
    gateway.post(&body).await.expect_error(503, "SERVICE_UNAVAILABLE");
    for other in [None, Some(drawn_by(&payer))] {
        *approvals.0.lock().unwrap() = Ok(other);
        for path in ["/v1/payments", VERIFY] {
            let answer = gateway.post_to(path, &body).await.expect_error(401, "INVALID_SENDER_AUTH");
            let message = answer.message();
            assert!(message.contains("payload.delegate_signer") && message.contains(address.as_str()), "{answer:?}");
        }
    }
    *approvals.0.lock().unwrap() = Ok(Some(address));
    assert_eq!(gateway.post(&body).await.expect(200).body["idempotent_replay"], false);
    // The deposit uses the allowance up; the payment stays what it is.
    for later in [Ok(None), Err(())] {
        *approvals.0.lock().unwrap() = later;
        assert_eq!(gateway.post(&body).await.expect(200).body["idempotent_replay"], true);
    }
    // The read model may not know the payment yet.
    gateway.payments.set_blind(true);
    assert_eq!(gateway.post(&body).await.expect(200).body["idempotent_replay"], true);
}

#[tokio::test]
async fn what_does_not_fit_solana_is_refused_by_its_field() {
    let (gateway, _) = gateway();
    let sol = format!("{CHAIN}/slip44:501");
    let program = PROGRAM.parse().unwrap();
    let token_account = allowance_delegate(&program, &program).unwrap();
    let to = |asset: &str, account: &str| json!([{"asset_identifier": asset, "account": account}]);
    for (pointer, value, code, named) in [
        ("/source/asset_identifier", json!(sol), "UNSUPPORTED_ASSET", "source.asset_identifier"),
        ("/source/account", json!(PAYER), "INVALID_REQUEST", "source.account"),
        ("/source/account", json!("11111111111111111111111111111111"), "INVALID_REQUEST", "source.account"),
        ("/source/account", json!(token_account), "INVALID_REQUEST", "source.account"),
        ("/destination", to(&sol, RECIPIENT), "INVALID_DESTINATION_ACCOUNT", "destination[0].account"),
        ("/destination", to(&sol, &"1".repeat(32)), "INVALID_DESTINATION_ACCOUNT", "destination[0].account"),
        ("/destination", to(&format!("{CHAIN}/slip44:60"), RELEASER), "UNSUPPORTED_ASSET", "destination[0]"),
        ("/max_source_amount", json!("18446744073709551616"), "INVALID_REQUEST", "max_source_amount"),
        ("/message_scheme", json!("EVM_PERMIT2"), "INVALID_REQUEST", "message_scheme"),
        ("/payload", json!({"delegate_signer": "x"}), "INVALID_REQUEST", "payload.delegate_signer"),
        ("/escrow_contract_address", json!(RELEASER), "UNTRUSTED_ESCROW", "escrow_contract_address"),
    ] {
        let mut body = unsigned(&key(7));
        set(&mut body, pointer, value.clone());
        let answer = gateway.post_to(PREPARE, &body).await.expect_error(400, code);
        assert!(answer.message().starts_with(named), "{pointer} = {value}: {answer:?}");
    }
    // From an EVM chain to Solana: the amount has to fit where it arrives.
    let mut body = with("/destination", to(&sol, RELEASER));
    set(&mut body, "/max_source_amount", json!("99999999999999999999999"));
    set(&mut body, "/fulfillment_amount", json!("18446744073709551616"));
    let answer = gateway.post(&body).await.expect_error(400, "INVALID_REQUEST");
    assert!(answer.message().starts_with("fulfillment_amount"), "{answer:?}");
    set(&mut body, "/fulfillment_amount", json!("18446744073709551615"));
    let accepted = gateway.post(&body).await.expect(200);
    let submitted = gateway.submitted(accepted.payment_id().as_str()).await;
    assert_eq!(submitted.fulfillment_proxies, [PROGRAM.parse::<events::Account>().unwrap()]);
}

/// A multisig's vault is an address of its program, off the curve: it is paid like a wallet (ADR 114).
#[tokio::test]
async fn a_recipient_needs_no_key() {
    let (gateway, _) = gateway();
    let program = PROGRAM.parse().unwrap();
    let vault = allowance_delegate(&program, &program).unwrap();
    assert_eq!(wallet_key(&vault), None);
    for (n, asset) in ["slip44:501", &format!("token:{TOKEN}")].into_iter().enumerate() {
        let destination = json!([{"asset_identifier": format!("{CHAIN}/{asset}"), "account": vault}]);
        let mut body = with("/destination", destination.clone());
        set(&mut body, "/request_id", json!(format!("vault-{n}")));
        let accepted = gateway.post(&body).await.expect(200);
        let submitted = gateway.submitted(accepted.payment_id().as_str()).await;
        assert_eq!(json!(submitted.terms.destination()), destination);
    }
}

#[tokio::test]
async fn an_award_that_was_prepared_and_signed_is_accepted() {
    for capped in [true, false] {
        let (gateway, _) = gateway();
        let payer = key(7);
        let mut batch = unsigned(&payer);
        if !capped {
            batch.as_object_mut().unwrap().remove("max_source_amount");
        }
        let id = quote_requests::open(&gateway, &batch).await;
        let quotes = quote_requests::collect(&gateway, &id, &[1, 2]).await;
        let (quote, other) = (&quotes[1], &quotes[0]);
        let request =
            json!({"version": "1.0", "request_id": "order-2", "quote_request_id": id, "quote_id": quote.id()});
        let mut award = signed(&gateway, &request, &payer).await;
        // Without a cap no more is permitted than the quote asks for.
        let permitted = award["sender_auth"]["signed_messages"][0]["payload"].get("permitted_amount");
        let price = json!(quote.quote().source_amount.to_string());
        assert_eq!(permitted, (!capped).then_some(&price));

        let path = format!("/v1/payments/quote-requests/{id}/award");
        award["quote_id"] = json!(other.id());
        let refused = gateway.post_to(&path, &award).await.expect_error(401, "INVALID_SENDER_AUTH");
        assert!(refused.message().contains("message_prehash.quote_hash"), "{refused:?}");
        award["quote_id"] = json!(quote.id());
        let awarded = gateway.post_to(&path, &award).await.expect(200);
        let submitted = gateway.submitted(awarded.payment_id().as_str()).await;
        assert_eq!(submitted.authorization.quote_hash(), Some(quote.hash()));
    }
}

/// A signature that the chain does not stand behind makes no payment, by whatever way it comes.
#[tokio::test]
async fn what_the_chain_does_not_confirm_is_not_accepted() {
    let gateway = Gateway::new();
    let unapproved = with("/sender_auth/signed_messages/0/signature", json!(UNAPPROVED));
    for path in ["/v1/payments", VERIFY] {
        gateway.post_to(path, &unapproved).await.expect_error(401, "INVALID_SENDER_AUTH");
    }
    let mut batch = body();
    batch.as_object_mut().unwrap().remove("sender_auth");
    let id = quote_requests::open(&gateway, &batch).await;
    let quotes = quote_requests::collect(&gateway, &id, &[1]).await;
    let path = format!("/v1/payments/quote-requests/{id}/award");
    let mut award = json!({
        "version": "1.0",
        "request_id": "order-2",
        "quote_id": quotes[0].id(),
        "sender_auth": unapproved["sender_auth"],
    });
    gateway.post_to(&path, &award).await.expect_error(401, "INVALID_SENDER_AUTH");
    award["sender_auth"] = body()["sender_auth"].clone();
    gateway.post_to(&path, &award).await.expect(200);
    // A replay is not asked again.
    award["sender_auth"] = unapproved["sender_auth"].clone();
    assert_eq!(gateway.post_to(&path, &award).await.expect(200).body["idempotent_replay"], true);
}

#[tokio::test]
async fn windows_beyond_the_limits_are_refused_in_a_payload_and_in_what_is_signed() {
    let (gateway, _) = gateway();
    let payer = key(7);
    let unsigned = unsigned(&payer);
    let deadline = unix_seconds(at("2030-01-01T00:10:00Z"));
    let most = deadline + 86_400;
    let owned = |value: &Value| {
        let asset = value["asset_identifier"].as_str().unwrap().parse().unwrap();
        OwnedAsset::new(asset, value["account"].as_str().unwrap()).unwrap()
    };
    let spend = SpendRequest {
        payment_id: PaymentId::derive(&format!("solana:{}", account(&payer)), "order-1"),
        terms: events::Terms::new(
            owned(&unsigned["source"]),
            vec![owned(&unsigned["destination"][0])],
            "1000000".parse().unwrap(),
            Some("1100000".parse().unwrap()),
        ),
        quote_deadline: at("2030-01-01T00:01:00Z"),
        fulfillment_deadline: at("2030-01-01T00:10:00Z"),
        cluster_id: ClusterId::parse(CLUSTER).unwrap(),
        escrow: EscrowSettings {
            program: PROGRAM.parse().unwrap(),
            reserver: "GyGKxMyg1p9SsHfm15MkNUu1u9TN2JtTspcdmrtGUdse".parse().unwrap(),
            releaser: RELEASER.parse().unwrap(),
            refund_delay_seconds: 7_200,
        },
        quote_hash: Hash32::ZERO,
    };
    for (refund_after, accepted) in [((1 << 48) - 1, false), (most + 1, false), (most, true)] {
        let mut asked = unsigned.clone();
        asked["payload"] = json!({"refund_after": refund_after});
        let answer = gateway.post_to(PREPARE, &asked).await;
        let choice = Choice { refund_after: Some(refund_after), ..Choice::default() };
        let prepared = prepare(&spend, &choice).unwrap();
        let mut body = unsigned.clone();
        let message = json!({
            "message": prepared.digest.to_string(),
            "signature": format!("0x{}", hex::encode(payer.sign(&prepared.digest.0).to_bytes())),
            "payload": prepared.payload,
        });
        body["sender_auth"] = json!({"message_scheme": "SOLANA", "signed_messages": [message]});
        if accepted {
            answer.expect(200);
            gateway.post(&body).await.expect(200);
            continue;
        }
        answer.expect_error(400, "INVALID_DEADLINE");
        for path in ["/v1/payments", VERIFY] {
            let answer = gateway.post_to(path, &body).await.expect_error(400, "INVALID_DEADLINE");
            assert!(answer.message().starts_with("refund_after: must be at most 86400 seconds"), "{answer:?}");
        }
    }
    for too_wide in [u64::MAX, 1 << 48] {
        let mut asked = unsigned.clone();
        asked["payload"] = json!({"refund_after": too_wide});
        let answer = gateway.post_to(PREPARE, &asked).await.expect_error(400, "INVALID_REQUEST");
        assert!(answer.message().contains("refund_after"), "{answer:?}");
    }
}

/// The gateway knows the program, its mints and the programs of tokens. What else would be lost, as in the program's vaults,
/// settlers find out by a trial.
#[tokio::test]
async fn nothing_is_delivered_to_the_program_or_a_mint() {
    let (gateway, _) = gateway();
    for (recipient, said) in [
        (PROGRAM, "must "),
        (TOKEN, "must "),
        ("TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA", "must "),
        ("11111111111111111111111111111111", ""),
    ] {
        let destination = json!([{"asset_identifier": format!("{CHAIN}/token:{TOKEN}"), "account": recipient}]);
        let answer = gateway.post(&with("/destination", destination)).await;
        let answer = answer.expect_error(400, "INVALID_DESTINATION_ACCOUNT");
        assert!(answer.message().starts_with(&format!("destination[0].account: {said}")), "{answer:?}");
    }
}
