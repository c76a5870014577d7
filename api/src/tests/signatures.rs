//! Real Permit2 signatures, with a real node to ask about contract accounts.

use alloy::{
    primitives::Address,
    signers::{SignerSync, local::PrivateKeySigner},
};
use serde_json::json;

use app::authorization::evm::EvmAuthorizer;
use chains::config::ChainConfig;
use chains_evm::{
    authorization::{Choice, EscrowSettings, Scheme, SpendRequest, prepare},
    node::Node,
};
use devkit::anvil::{Anvil, Mining};
use events::{OwnedAsset, Terms};
use journal::budget::memory::MemoryBudgets;

use super::*;

pub(super) fn gateway(rpc_url: &str) -> Gateway {
    let ChainConfig::Evm(mut chain) = config().chains[0].chain.clone() else {
        panic!("the example begins with an EVM chain")
    };
    chain.common.rpc_url = rpc_url.to_owned();
    chain.common.rpc_timeout_ms = 2_000;
    let budgets = Arc::new(MemoryBudgets::default());
    let clock = Arc::new(SetClock(Mutex::new(at("2030-01-01T00:00:00Z"))));
    let authorizer = EvmAuthorizer::new([Node::connect(&chain).unwrap()], budgets, clock);
    let journal = MemoryJournal::new(4);
    Gateway::with_parts(Arc::new(journal.clone()), journal, Arc::new(authorizer), |config| {
        config.chains[0].permit2_without_witness = true;
    })
}

/// [`body`], paid and signed by `signer` under `scheme`.
pub(super) fn signed_body(signer: &PrivateKeySigner, scheme: Scheme) -> Value {
    chosen_body(signer, scheme, &Choice::default())
}

/// The same with what is the payer's to choose.
pub(super) fn chosen_body(signer: &PrivateKeySigner, scheme: Scheme, choice: &Choice) -> Value {
    let account = format!("{:#x}", signer.address());
    let mut body = with("/source/account", json!(account));
    let owned = |value: &Value| {
        let text = |name: &str| value[name].as_str().unwrap().to_owned();
        OwnedAsset::new(text("asset_identifier").parse().unwrap(), &text("account")).unwrap()
    };
    let amount = |name: &str| body[name].as_str().unwrap().parse().unwrap();
    let spend = SpendRequest {
        scheme,
        payment_id: PaymentId::derive(&format!("eip155:{account}"), "order-1"),
        terms: Terms::new(
            owned(&body["source"]),
            vec![owned(&body["destination"][0])],
            amount("fulfillment_amount"),
            Some(amount("max_source_amount")),
        ),
        quote_deadline: at(body["quote_deadline"].as_str().unwrap()),
        fulfillment_deadline: at(body["fulfillment_deadline"].as_str().unwrap()),
        escrow: EscrowSettings {
            contract: ESCROW.parse().unwrap(),
            reserver: "0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266".parse().unwrap(),
            releaser: VERIFIER.parse().unwrap(),
            permit2: "0x000000000022d473030f116ddee9f6b43ac78ba3".parse().unwrap(),
            refund_delay_seconds: 7_200,
        },
        quote_hash: Hash32::ZERO,
        token: None,
    };
    let prepared = prepare(&spend, choice).unwrap();
    let signature = signer.sign_hash_sync(&prepared.digest.0.into()).unwrap();
    let name = if scheme == Scheme::EvmPermit2 { "EVM_PERMIT2" } else { "EVM_PERMIT2_ESCROW" };
    let message = json!({
        "message": prepared.digest.to_string(),
        "message_prehash": prepared.typed_data.to_string(),
        "signature": format!("0x{}", hex::encode(signature.as_bytes())),
    });
    set(&mut body, "/sender_auth", json!({"message_scheme": name, "signed_messages": [message]}));
    body
}

#[tokio::test]
async fn the_payers_signature_is_checked_against_the_whole_request() {
    let anvil = Anvil::start(31_337, Mining::Instant).await.unwrap();
    let gateway = gateway(&anvil.url());
    let (payer, stranger) = (PrivateKeySigner::random(), PrivateKeySigner::random());
    let good = signed_body(&payer, Scheme::EvmPermit2Escrow);

    for (pointer, value) in [
        ("/request_id", json!("order-2")),
        ("/fulfillment_amount", json!("1000001")),
        ("/max_source_amount", json!("1100001")),
        ("/destination/0/account", json!(PAYER)),
        ("/fulfillment_deadline", json!("2030-01-01T00:10:01Z")),
        ("/source/account", json!(format!("{:#x}", stranger.address()))),
        ("/escrow_contract_address", json!(TRUSTED)),
        ("/fulfillment_verifier", json!({"account": TRUSTED, "endpoint": "https://verifier.example"})),
        ("/sender_auth/message_scheme", json!("EVM_PERMIT2")),
        ("/sender_auth/signed_messages/0/message", json!(Hash32([1; 32]).to_string())),
        ("/sender_auth/signed_messages/0/signature", json!("0x1234")),
    ] {
        let mut body = good.clone();
        set(&mut body, pointer, value.clone());
        let answer = gateway.post(&body).await;
        assert_eq!(answer.status.as_u16(), 401, "{pointer} = {value}: {answer:?}");
        let answer = answer.expect_error(401, "INVALID_SENDER_AUTH");
        assert!(answer.message().starts_with("sender_auth.signed_messages"), "{answer:?}");
    }
    let mut forged = good.clone();
    let signature = stranger.sign_hash_sync(&[7; 32].into()).unwrap();
    set(
        &mut forged,
        "/sender_auth/signed_messages/0/signature",
        json!(format!("0x{}", hex::encode(signature.as_bytes()))),
    );
    gateway.post(&forged).await.expect_error(401, "INVALID_SENDER_AUTH");

    let answer = gateway.post(&good).await.expect(200);
    assert_eq!(answer.body["idempotent_replay"], false);
    let submitted = gateway.submitted(answer.payment_id().as_str()).await;
    assert_eq!(submitted.escrow.fulfillment_deadline, unix_seconds(submitted.fulfillment_deadline));
    assert!(submitted.escrow.refund_after >= submitted.escrow.fulfillment_deadline + 7_200);
    assert_eq!(gateway.post(&good).await.expect(200).body["idempotent_replay"], true);
    gateway.post(&forged).await.expect_error(401, "INVALID_SENDER_AUTH");

    let other = PrivateKeySigner::random();
    gateway.post(&signed_body(&other, Scheme::EvmPermit2)).await.expect(200);
}

/// The first message that authorizes the payment counts, and the others are kept with the request.
#[tokio::test]
async fn of_several_messages_the_first_that_authorizes_counts() {
    let anvil = Anvil::start(31_337, Mining::Instant).await.unwrap();
    let gateway = gateway(&anvil.url());
    let (payer, stranger) = (PrivateKeySigner::random(), PrivateKeySigner::random());
    let good = signed_body(&payer, Scheme::EvmPermit2Escrow);
    let own = good["sender_auth"]["signed_messages"][0].clone();
    let later = Choice { refund_after: Some(1_893_470_000), ..Choice::default() };
    let later = chosen_body(&payer, Scheme::EvmPermit2Escrow, &later)["sender_auth"]["signed_messages"][0].clone();
    let theirs = signed_body(&stranger, Scheme::EvmPermit2Escrow)["sender_auth"]["signed_messages"][0].clone();
    let mut forged = own.clone();
    let signature = stranger.sign_hash_sync(&[7; 32].into()).unwrap();
    forged["signature"] = json!(format!("0x{}", hex::encode(signature.as_bytes())));
    let with_messages = |messages: &[&Value]| {
        let mut body = good.clone();
        body["sender_auth"]["signed_messages"] = messages.iter().map(|message| (*message).clone()).collect();
        body
    };
    // Where none does, the first says why.
    let answer = gateway.post(&with_messages(&[&theirs, &forged])).await.expect_error(401, "INVALID_SENDER_AUTH");
    assert!(answer.message().starts_with("sender_auth.signed_messages[0]: "), "{answer:?}");
    let several = with_messages(&[&theirs, &forged, &later, &own]);
    let accepted = gateway.post(&several).await.expect(200);
    let submitted = gateway.submitted(accepted.payment_id().as_str()).await;
    assert_eq!(submitted.escrow.refund_after, 1_893_470_000);
    assert_eq!(serde_json::from_str::<Value>(&submitted.request).unwrap(), several);
    let replay = gateway.post(&with_messages(&[&own, &own])).await.expect(200);
    assert_eq!(replay.body["idempotent_replay"], true);
}

#[tokio::test]
async fn a_forgery_costs_the_node_nothing_where_the_account_is_known_to_have_no_code() {
    let mut anvil = Anvil::start(31_337, Mining::Instant).await.unwrap();
    let gateway = gateway(&anvil.url());
    let (payer, unknown) = (PrivateKeySigner::random(), PrivateKeySigner::random());
    let good = signed_body(&payer, Scheme::EvmPermit2Escrow);
    gateway.post(&good).await.expect(200);
    // No question can be asked from here on.
    anvil.kill().await.unwrap();
    let stranger = PrivateKeySigner::random().sign_hash_sync(&[7; 32].into()).unwrap();
    let forge = |mut body: Value| {
        let signature = json!(format!("0x{}", hex::encode(stranger.as_bytes())));
        set(&mut body, "/sender_auth/signed_messages/0/signature", signature);
        body
    };
    gateway.post(&forge(good.clone())).await.expect_error(401, "INVALID_SENDER_AUTH");
    assert_eq!(gateway.post(&good).await.expect(200).body["idempotent_replay"], true);
    // Whether these accounts have code, which the deposit would run, only the node could tell.
    let other = signed_body(&unknown, Scheme::EvmPermit2Escrow);
    gateway.post(&forge(other.clone())).await.expect_error(503, "SERVICE_UNAVAILABLE");
    gateway.post(&other).await.expect_error(503, "SERVICE_UNAVAILABLE");
}

/// Where the payer has code, Permit2 asks that and not the key (EIP-7702), so the gateway does, too.
#[tokio::test]
async fn a_keys_signature_counts_as_far_as_the_code_of_its_account_takes_it() {
    let anvil = Anvil::start(31_337, Mining::Instant).await.unwrap();
    let payer = PrivateKeySigner::random();
    let account = format!("{:#x}", payer.address());
    let good = signed_body(&payer, Scheme::EvmPermit2Escrow);
    // Contracts that answer every call with nothing, and with ERC-1271's magic value.
    let (refuses, accepts) = (Address::repeat_byte(0xfe), Address::repeat_byte(0xfa));
    let set_code = async |account: &str, code: &str| {
        let call = json!({"jsonrpc": "2.0", "id": 1, "method": "anvil_setCode", "params": [account, code]});
        let answer = reqwest::Client::new().post(anvil.url()).json(&call).send().await.unwrap();
        assert_eq!(answer.json::<Value>().await.unwrap().get("error"), None);
    };
    let delegate = async |to: Address| set_code(&account, &format!("0xef0100{}", hex::encode(to))).await;
    set_code(&refuses.to_string(), "0x60006000f3").await;
    set_code(&accepts.to_string(), "0x631626ba7e60e01b60005260206000f3").await;

    delegate(refuses).await;
    let gateway = self::gateway(&anvil.url());
    for path in ["/v1/payments", "/v1/payments/verify"] {
        let answer = gateway.post_to(path, &good).await.expect_error(401, "INVALID_SENDER_AUTH");
        let message = answer.message();
        assert!(message.starts_with("sender_auth.signed_messages[0]: ") && message.contains("EIP-7702"), "{answer:?}");
        assert_eq!(answer.body["request_id_reusable"], true);
    }
    // Of several messages one that the code refuses does not authorize, whoever's key it is; where it refuses all, the first
    // says why.
    let mut several = good.clone();
    let message = good["sender_auth"]["signed_messages"][0].clone();
    several["sender_auth"]["signed_messages"] = json!([message, message]);
    let answer = gateway.post(&several).await.expect_error(401, "INVALID_SENDER_AUTH");
    assert!(answer.message().starts_with("sender_auth.signed_messages[0]: "), "{answer:?}");

    delegate(accepts).await;
    let gateway = self::gateway(&anvil.url());
    gateway.post_to("/v1/payments/verify", &several).await.expect(200);
    gateway.post(&good).await.expect(200);
    // A payment that was accepted stays so, whatever its account runs by now.
    delegate(refuses).await;
    assert_eq!(gateway.post(&good).await.expect(200).body["idempotent_replay"], true);
}
