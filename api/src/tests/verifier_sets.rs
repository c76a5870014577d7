//! A set of verifiers as the default: it is shown, is meant by any member's endpoint, and stays with what was accepted under it.

use config::{DefaultVerifierConfig, VerifierMemberConfig};
use events::{
    VerifierMember, VerifierSet,
    event::{FulfillmentFinalized, MemberAttested, VerifierRef},
};

use super::{
    quote_requests::{award_body, open_batch},
    reads::{DOCUMENT, awarded, closed, confirmed, secured, seen},
    *,
};

const PREPARE: &str = "/v1/payments/prepare";
/// Accounts and endpoints of the members, in the order in which the set's id is hashed.
pub const MEMBERS: [(&str, &str); 3] = [
    ("0x14dc79964da2c08b23698b3d3cc7ca32193d9955", "https://verifier-c.example"),
    (VERIFIER, "http://127.0.0.1:8090"),
    ("0x976ea74026e726554db657fa54763abd0c3a0aa9", "https://verifier-b.example"),
];
/// The last 20 bytes of keccak256("gw-verifier-set" ‖ 01 ‖ 02 ‖ 03 ‖ the accounts of [`MEMBERS`]).
pub const ID: &str = "0xab6791deaeb7ebd31a72dd693fe88da12308ba25";

fn set_of_two() -> VerifierRef {
    let members = MEMBERS
        .map(|(account, endpoint)| VerifierMember { account: account.parse().unwrap(), endpoint: endpoint.to_owned() });
    VerifierRef::of(VerifierSet::new(2, members.into()).unwrap()).unwrap()
}

/// What is shown of the set.
fn shown() -> Value {
    let members = MEMBERS.map(|(account, endpoint)| json!({"account": account, "endpoint": endpoint}));
    json!({"account": ID, "endpoint": MEMBERS[0].1, "threshold": 2, "members": members})
}

/// The set instead of the single verifier.
pub fn under_set(config: &mut GatewayConfig) {
    let member = |(account, endpoint): (&str, &str)| VerifierMemberConfig {
        endpoint: endpoint.to_owned(),
        account: Some(account.parse().unwrap()),
        solana_account: None,
        tron_account: None,
    };
    config.verifier = DefaultVerifierConfig {
        threshold: Some(2),
        // In whatever order they stand.
        members: MEMBERS.into_iter().rev().map(member).collect(),
        ..DefaultVerifierConfig::default()
    };
    for served in &mut config.chains {
        served.chain.common_mut().releaser = ID.parse().unwrap();
    }
}

fn gateway() -> Gateway {
    Gateway::configured(under_set)
}

#[tokio::test]
async fn the_set_is_shown_whole_with_its_id_as_the_releaser() {
    let gateway = gateway();
    let defaults = gateway.get("/v1/defaults?chain_id=eip155:31337").await.expect(200).body;
    assert_eq!((&defaults["fulfillment_verifier"], &defaults["releaser"]), (&shown(), &json!(ID)));
    let trusted = single_verifier(TRUSTED, "https://verifier.example");
    assert_eq!(defaults["fulfillment_verifiers"], json!([shown(), trusted]));
}

#[tokio::test]
async fn a_payer_sees_whose_word_releases_what_it_signs_for() {
    let gateway = gateway();
    let mut unsigned = without("/sender_auth");
    let prepared = gateway.post_to(PREPARE, &unsigned).await.expect(200).body;
    assert_eq!(prepared["fulfillment_verifier"], shown());
    let (account, endpoint) = (TRUSTED, "https://verifier.example");
    set(&mut unsigned, "/fulfillment_verifier", json!({"account": account, "endpoint": endpoint}));
    let prepared = gateway.post_to(PREPARE, &unsigned).await.expect(200).body;
    assert_eq!(prepared["fulfillment_verifier"], single_verifier(account, endpoint));

    // An award has the verifiers of its batch.
    let batch = open_batch(&gateway).await;
    let mut award = award_body("order-1", &batch.quote_ids[0]);
    award.as_object_mut().unwrap().remove("sender_auth");
    set(&mut award, "/quote_request_id", json!(batch.id));
    let prepared = gateway.post_to(PREPARE, &award).await.expect(200).body;
    assert_eq!(prepared["fulfillment_verifier"], shown());
}

#[tokio::test]
async fn the_set_is_meant_by_nothing_by_what_is_shown_and_by_any_members_endpoint() {
    let gateway = gateway();
    let mut named = vec![json!({}), shown()];
    named.extend(MEMBERS.map(|(_, endpoint)| json!({"account": ID, "endpoint": endpoint})));
    named.push(
        json!({"account": ID.to_uppercase().replacen('X', "x", 1), "endpoint": "HTTPS://Verifier-B.example:443"}),
    );
    for (n, verifier) in named.into_iter().enumerate() {
        let mut body = with("/request_id", json!(format!("order-{n}")));
        set(&mut body, "/fulfillment_verifier", verifier.clone());
        let payment_id = gateway.post(&body).await.expect(200).payment_id();
        let submitted = gateway.submitted(payment_id.as_str()).await;
        assert_eq!((&submitted.verifier, submitted.escrow.releaser.as_str()), (&set_of_two(), ID), "{verifier}");
        assert!(submitted.verifier.is_consistent());
    }
    // A verifier that is trusted besides is named alone, as before.
    let mut alone = with("/request_id", json!("alone"));
    set(&mut alone, "/fulfillment_verifier", json!({"account": TRUSTED, "endpoint": "https://verifier.example"}));
    let payment_id = gateway.post(&alone).await.expect(200).payment_id();
    assert_eq!(gateway.submitted(payment_id.as_str()).await.verifier.set, None);
}

#[tokio::test]
async fn nobody_else_is_the_set() {
    let gateway = gateway();
    let other = VerifierSet::new(1, set_of_two().set.unwrap().members().to_vec()).unwrap().id().unwrap();
    for (account, endpoint) in [
        // Another set, of the same members.
        (other.as_str(), MEMBERS[0].1),
        // One member alone, whose word is too little.
        MEMBERS[0],
        MEMBERS[1],
        (ID, "https://verifier.example"),
        (TRUSTED, MEMBERS[0].1),
    ] {
        let verifier = json!({"account": account, "endpoint": endpoint, "threshold": 2, "members": shown()["members"]});
        let answer = gateway.post(&with("/fulfillment_verifier", verifier)).await;
        let answer = answer.expect_error(400, "UNTRUSTED_VERIFIER");
        assert!(answer.message().starts_with("fulfillment_verifier: "), "{account} {endpoint}: {answer:?}");
    }
}

#[tokio::test]
async fn an_escrow_besides_the_default_one_takes_a_single_verifier_only() {
    let gateway = gateway();
    let single = json!({"account": TRUSTED, "endpoint": "https://verifier.example"});
    let mut other = with("/escrow_contract_address", json!(TRUSTED));
    let mut unsigned = other.clone();
    unsigned.as_object_mut().unwrap().remove("sender_auth");
    for answer in [gateway.post(&other).await, gateway.post_to(PREPARE, &unsigned).await] {
        let answer = answer.expect_error(400, "UNTRUSTED_ESCROW");
        let rule = "escrow_contract_address: takes a single verifier's word only; name one in fulfillment_verifier";
        assert!(answer.message().starts_with(rule), "{answer:?}");
    }
    set(&mut unsigned, "/fulfillment_verifier", single.clone());
    assert_eq!(gateway.post_to(PREPARE, &unsigned).await.expect(200).body["fulfillment_verifier"]["account"], TRUSTED);
    set(&mut other, "/fulfillment_verifier", single);
    let payment_id = gateway.post(&other).await.expect(200).payment_id();
    assert_eq!(gateway.submitted(payment_id.as_str()).await.escrow.contract.as_str(), TRUSTED);
    // The default one by its name.
    let mut named = with("/escrow_contract_address", json!(ESCROW));
    set(&mut named, "/request_id", json!("named"));
    let payment_id = gateway.post(&named).await.expect(200).payment_id();
    assert_eq!(gateway.submitted(payment_id.as_str()).await.verifier, set_of_two());
}

#[tokio::test]
async fn what_was_accepted_keeps_the_set_it_was_signed_for() {
    let journal = MemoryJournal::new(4);
    let gateway = |change: fn(&mut GatewayConfig)| {
        Gateway::sharing(journal.clone(), Arc::new(MemoryIdentifiers::default()), change)
    };
    let before = gateway(under_set);
    let payment_id = before.post(&body()).await.expect(200).payment_id();
    let batch = open_batch(&before).await;

    // Single verifiers are the default by now.
    let after = gateway(|_| {});
    assert_eq!(after.post(&body()).await.expect(200).body["idempotent_replay"], true);
    assert_eq!(after.submitted(payment_id.as_str()).await.verifier, set_of_two());
    let mut award = award_body("order-2", &batch.quote_ids[0]);
    for (_, endpoint) in MEMBERS {
        set(&mut award, "/fulfillment_verifier", json!({"account": ID, "endpoint": endpoint}));
        let payment_id = after.post_to(&batch.award_path(), &award).await.expect(200).payment_id();
        assert_eq!(after.submitted(payment_id.as_str()).await.verifier, set_of_two());
    }
    set(&mut award, "/fulfillment_verifier/endpoint", json!("https://verifier.example"));
    let answer = after.post_to(&batch.award_path(), &award).await.expect_error(409, "AWARD_TERMS_MISMATCH");
    assert!(answer.message().starts_with("fulfillment_verifier.endpoint: "), "{answer:?}");
}

#[tokio::test]
async fn a_timeline_tells_which_members_attested() {
    let gateway = gateway();
    let id = gateway.post(&body()).await.expect(200).payment_id();
    let PaymentEvent::FulfillmentSeen(delivery) = seen() else { unreachable!() };
    let time = at("2030-01-01T00:00:07Z");
    let finalized = FulfillmentFinalized { inclusion: delivery.inclusion, finalized_at: time };
    let attested = |n: usize| {
        let (member, signature) = (MEMBERS[n].0.parse().unwrap(), format!("0x{n:02x}"));
        PaymentEvent::DeliveryAttested(MemberAttested { member, signature, attested_at: time })
    };
    gateway.append(&id, vec![closed(&[]), awarded(DOCUMENT)]).await;
    gateway.append(&id, vec![secured()]).await;
    gateway.append(&id, vec![seen(), PaymentEvent::FulfillmentFinalized(finalized)]).await;
    gateway.append(&id, vec![attested(2)]).await;
    gateway.append(&id, vec![attested(0), confirmed()]).await;

    let timeline = gateway.get(&format!("/v1/payments/{id}/timeline")).await.expect(200).body;
    let entries = timeline["entries"].as_array().unwrap();
    assert_eq!(entries[0]["data"]["fulfillment_verifier"], shown());
    let own = entries.iter().filter(|entry| entry["event"] == "DeliveryAttested").collect::<Vec<_>>();
    let told = own.iter().map(|entry| (&entry["data"]["verifier"], &entry["data"]["attestation"], &entry["cause"]));
    let (first, second) = (json!(MEMBERS[2].0), json!(MEMBERS[0].0));
    let settled = json!("delivery_settled");
    assert_eq!(
        told.collect::<Vec<_>>(),
        [(&first, &json!("0x02"), &settled), (&second, &json!("0x00"), &settled)],
        "{timeline}"
    );
    assert!(own.iter().all(|entry| entry["data"]["threshold"] == 2 && entry["status"] == "completed"), "{timeline}");
    let whole = entries.iter().find(|entry| entry["event"] == "FulfillmentConfirmed").unwrap();
    assert_eq!(whole["cause"], "delivery_attested");
    let said = whole["summary"].as_str().unwrap();
    assert!(said.contains("2 of 3 fulfillment verifiers attested it"), "{said}");
}
