//! Attacks on sessions: each is refused, and costs what it should.

use axum::http::header;
use data_encoding::BASE64URL_NOPAD;

use app::sessions;
use config::examples::{with_solana, with_tron};
use net::callers::limits::{LimitsConfig, RateConfig};

use super::*;
use crate::tests::document;

/// Base64url as tokens have it.
fn unpadded(bytes: &[u8]) -> String {
    BASE64URL_NOPAD.encode(bytes)
}

#[tokio::test]
async fn only_a_token_of_this_service_that_counts_now_shows_anything() {
    let gateway = Gateway::new();
    let alice = wallet(1);
    gateway.pay(&alice, "order-1").await;
    let token = gateway.session(&alice).await;
    let said = format!(r#"{{"owner":"eip155:{}","expires":4000000000}}"#, account(&alice).to_lowercase());
    let forged = format!("gws1.{}.{}", unpadded(said.as_bytes()), unpadded(&[0; 32]));
    let (head, mac) = token.rsplit_once('.').unwrap();
    let exchanged = format!("gws1.{}.{mac}", unpadded(said.as_bytes()));
    let other_service = Gateway::configured(|config| config.http.base_url = "https://evil.example".to_owned());
    let of_other_service = {
        let message = other_service.challenge(json!({"account": format!("eip155:31337:{}", account(&alice))})).await;
        // Its message is not one of ours, and its token does not count here, although the key is the same.
        let signature = personal_sign(&alice, &message);
        gateway.open(&message, &signature).await.expect_error(401, "INVALID_PROOF");
        other_service.open(&message, &signature).await.expect(200).token()
    };
    let none = "gws1..".to_owned();
    let cut = head.to_owned();
    for bad in [forged, exchanged, of_other_service, none, cut, String::new(), "x".repeat(100_000), format!("{token}.")]
    {
        let answer = gateway.list(&bad, "").await.expect_error(401, "INVALID_TOKEN");
        assert_eq!(
            (&answer.headers["www-authenticate"], &answer.headers["cache-control"]),
            (&"Bearer".parse().unwrap(), &"no-store".parse().unwrap())
        );
    }
    for headers in [vec![], vec!["Basic eDp5".to_owned()], vec![token.clone()], vec![format!("Bearer{token}")], {
        vec![format!("Bearer {token}"), format!("Bearer {token}")]
    }] {
        let request =
            headers.iter().fold(Request::get(PAYMENTS), |request, value| request.header("authorization", value));
        gateway.send(request.body(Body::empty()).unwrap()).await.expect_error(401, "INVALID_TOKEN");
    }
    // In the URL it is never read: not instead of the header, and not beside it.
    for name in ["access_token", "token", "authorization"] {
        let request = Request::get(format!("{PAYMENTS}?{name}={token}"));
        gateway.send(request.body(Body::empty()).unwrap()).await.expect_error(401, "INVALID_TOKEN");
        gateway.list(&token, &format!("?{name}={token}")).await.expect_error(400, "INVALID_REQUEST");
    }
    let request = Request::get(PAYMENTS).header("authorization", format!("bearer  {token}"));
    gateway.send(request.body(Body::empty()).unwrap()).await.expect(200);
    // Fifteen minutes, and not a second more.
    gateway.clock.set("2030-01-01T00:14:59Z");
    gateway.list(&token, "").await.expect(200);
    gateway.clock.set("2030-01-01T00:15:00Z");
    gateway.list(&token, "").await.expect_error(401, "INVALID_TOKEN");
}

/// What outlives a session is for who opened it a moment ago, not for whoever comes by its token later.
#[tokio::test]
async fn a_token_is_fresh_for_two_minutes() {
    let gateway = Gateway::new();
    let token = gateway.session(&wallet(1)).await;
    let headers =
        |token: &str| HeaderMap::from_iter([(header::AUTHORIZATION, format!("Bearer {token}").parse().unwrap())]);
    let fresh = |token: &str| sessions::fresh_owner(&gateway.state, &headers(token));
    let owner = sessions::owner(&gateway.state, &headers(&token)).unwrap();
    for now in ["2030-01-01T00:00:00Z", "2030-01-01T00:01:59Z"] {
        gateway.clock.set(now);
        assert_eq!(fresh(&token).unwrap(), owner, "{now}");
    }
    for now in ["2030-01-01T00:02:00Z", "2030-01-01T00:14:59Z", "2030-01-01T00:15:00Z"] {
        gateway.clock.set(now);
        let refused = fresh(&token).unwrap_err();
        assert_eq!(refused.code, Code::INVALID_TOKEN, "{now}");
        assert!(refused.message().contains("open a new session"), "{}", refused.message());
    }
    gateway.clock.set("2030-01-01T00:14:59Z");
    assert_eq!(sessions::owner(&gateway.state, &headers(&token)).unwrap(), owner);
    // Nor for one that is none.
    assert_eq!(fresh("gws1.x.y").unwrap_err().code, Code::INVALID_TOKEN);
    let none = sessions::fresh_owner(&gateway.state, &HeaderMap::new()).unwrap_err();
    assert_eq!(none.code, Code::INVALID_TOKEN);
    // A new session of the same owner is.
    let token = gateway.session(&wallet(1)).await;
    assert_eq!(fresh(&token).unwrap(), owner);
}

#[tokio::test]
async fn gateways_of_one_service_take_each_others_messages_and_tokens() {
    let journal = MemoryJournal::new(4);
    let gateways = [(); 2].map(|()| Gateway::sharing(journal.clone(), Arc::new(MemoryIdentifiers::default()), |_| {}));
    let alice = wallet(1);
    gateways[0].pay(&alice, "order-1").await;
    let message = gateways[0].challenge(json!({"account": format!("eip155:31337:{}", account(&alice))})).await;
    let token = gateways[1].open(&message, &personal_sign(&alice, &message)).await.expect(200).token();
    assert_eq!(gateways[0].list(&token, "").await.expect(200).request_ids(), ["order-1"]);
}

#[tokio::test]
async fn a_message_is_signed_by_whom_it_names_as_it_was_made() {
    let gateway = Gateway::new();
    let (alice, mallory) = (wallet(1), wallet(2));
    let message = gateway.challenge(json!({"account": format!("eip155:31337:{}", account(&alice))})).await;
    let refused = async |message: &str, signature: &str| {
        gateway.open(message, signature).await.expect_error(401, "INVALID_PROOF");
    };
    refused(&message, &personal_sign(&mallory, &message)).await;
    refused(&message, &personal_sign(&alice, &format!("{message} "))).await;
    // Another owner, another chain, another time, another service: signed by who it names, and not made by a gateway.
    for (what, other) in [
        (account(&alice), account(&mallory)),
        ("Chain ID: 31337".to_owned(), "Chain ID: 31338".to_owned()),
        ("00:05:00Z".to_owned(), "23:05:00Z".to_owned()),
        ("pay.example wants".to_owned(), "evil.example wants".to_owned()),
        ("URI: https://pay.example".to_owned(), "URI: https://evil.example".to_owned()),
        ("Sign in to".to_owned(), "Pay through".to_owned()),
        (account(&alice), account(&alice).to_lowercase()),
    ] {
        let changed = message.replacen(&what, &other, 1);
        assert_ne!(changed, message, "{what}");
        refused(&changed, &personal_sign(&alice, &changed)).await;
        refused(&changed, &personal_sign(&mallory, &changed)).await;
        refused(&changed, &personal_sign(&alice, &message)).await;
    }
    // Brought twice it opens a session of the same owner again; brought late none.
    let signature = personal_sign(&alice, &message);
    for _ in 0..2 {
        let session = gateway.open(&message, &signature).await.expect(200);
        assert_eq!(session.body["owner"], format!("eip155:{}", account(&alice).to_lowercase()));
    }
    gateway.clock.set("2030-01-01T00:05:00Z");
    refused(&message, &signature).await;
    for bad in [json!({}), json!({"message": message}), json!({"message": 1, "signature": "0x"}), {
        json!({"message": message, "signature": format!("0x{}", "00".repeat(10_000))})
    }] {
        gateway.post_to(SESSIONS, &bad).await.expect_error(400, "INVALID_REQUEST");
    }
}

#[tokio::test]
async fn every_spelling_of_an_account_is_the_same_owner() {
    let gateway = Gateway::new();
    let alice = wallet(1);
    let id = gateway.pay(&alice, "order-1").await;
    let lower = account(&alice).to_lowercase();
    for spelling in [account(&alice), lower.clone(), format!("0x{}", lower[2..].to_uppercase())] {
        for chain in ["31337", "031337", "31338"] {
            let message = gateway.challenge(json!({"account": format!("eip155:{chain}:{spelling}")})).await;
            assert!(message.contains(&format!("\n{}\n", account(&alice))), "{message}");
            let token = gateway.open(&message, &personal_sign(&alice, &message)).await.expect(200).token();
            let listed = gateway.list(&token, "").await.expect(200);
            assert_eq!(listed.body["payments"][0]["payment_id"], id.as_str());
        }
    }
    let wrong_case = account(&alice).chars().map(|c| if c == 'x' { c } else { swap(c) }).collect::<String>();
    for (account, status, code) in [
        (format!("eip155:31337:{wrong_case}"), 400, "INVALID_REQUEST"),
        (lower.clone(), 400, "INVALID_REQUEST"),
        ("eip155:31337".to_owned(), 400, "INVALID_REQUEST"),
        (format!("bip122:x:{lower}"), 400, "INVALID_REQUEST"),
        (format!("eip155:1:{lower}"), 404, "CHAIN_NOT_SUPPORTED"),
    ] {
        gateway.post_to(CHALLENGES, &json!({"account": account})).await.expect_error(status, code);
    }
    for bad in [json!({}), json!({"account": lower, "did": "did:key:z"}), json!({"did": "x"}), json!({"did": null}), {
        json!({"did": format!("did:web:{}", "x".repeat(600))})
    }] {
        gateway.post_to(CHALLENGES, &bad).await.expect_error(400, "INVALID_REQUEST");
    }
}

fn swap(c: char) -> char {
    if c.is_ascii_uppercase() { c.to_ascii_lowercase() } else { c.to_ascii_uppercase() }
}

#[tokio::test]
async fn a_contract_is_asked_on_the_chain_of_the_message_and_shown_that_chain() {
    let gateway = Gateway::new();
    let safe = wallet(5);
    let here: (ChainId, Account) = ("eip155:31337".parse().unwrap(), account(&safe).parse().unwrap());
    gateway.contracts.theirs.lock().unwrap().push(here);
    gateway.pay(&safe, "here").await;
    let mut there = with("/source/account", json!(account(&safe)));
    there["request_id"] = json!("there");
    there["source"]["asset_identifier"] = json!(DESTINATION_ASSET);
    there["destination"][0]["asset_identifier"] = json!(SOURCE_ASSET);
    gateway.post(&there).await.expect(200);

    let message = gateway.challenge(json!({"account": format!("eip155:31337:{}", account(&safe))})).await;
    let session = gateway.open(&message, BY_CONTRACT).await.expect(200);
    assert_eq!(session.body["chain_id"], "eip155:31337");
    // At the same address on another chain is another contract, maybe somebody else's.
    assert_eq!(gateway.list(&session.token(), "").await.expect(200).request_ids(), ["here"]);
    let elsewhere = gateway.challenge(json!({"account": format!("eip155:31338:{}", account(&safe))})).await;
    gateway.open(&elsewhere, BY_CONTRACT).await.expect_error(401, "INVALID_PROOF");
    gateway.open(&message, "0xdead").await.expect_error(401, "INVALID_PROOF");
    // A key needs no chain, and nobody is asked for it.
    let asked = gateway.contracts.asked.load(Ordering::SeqCst);
    let token = gateway.session(&safe).await;
    assert_eq!(gateway.list(&token, "").await.expect(200).request_ids().len(), 2);
    assert_eq!(gateway.contracts.asked.load(Ordering::SeqCst), asked);
    // Neither is anybody for a message that no gateway made.
    gateway.open(&message.replace("31337", "31338"), BY_CONTRACT).await.expect_error(401, "INVALID_PROOF");
    assert_eq!(gateway.contracts.asked.load(Ordering::SeqCst), asked);
}

#[tokio::test]
async fn a_did_signs_with_a_key_of_its_own() {
    let gateway = Gateway::new();
    let (shop, mallory) = (Holder::ed25519(9).unwrap(), Holder::ed25519(8).unwrap());
    let message = gateway.challenge(json!({"did": shop.did().as_str()})).await;
    assert!(!message.contains("Chain ID"), "{message}");
    let (own, other) =
        (shop.did().key_verification_method().unwrap(), mallory.did().key_verification_method().unwrap());
    let (by_shop, by_mallory) = (ed25519_sign(9, &message), ed25519_sign(8, &message));
    for (signature, method) in [(&by_mallory, &own), (&by_mallory, &other), (&by_shop, &other)] {
        gateway.open_by_did(&message, signature, method).await.expect_error(401, "INVALID_PROOF");
    }
    for bad in ["", "#", "x#y", shop.did().as_str(), &format!("{}#other", shop.did().as_str())] {
        gateway.open_by_did(&message, &by_shop, bad).await.expect_error(401, "INVALID_PROOF");
    }
    gateway.open(&message, &by_shop).await.expect_error(400, "INVALID_REQUEST");
    assert_eq!(gateway.open_by_did(&message, &by_shop, &own).await.expect(200).body["owner"], shop.did().as_str());
    // An account names no key.
    let alice = wallet(1);
    let message = gateway.challenge(json!({"account": format!("eip155:31337:{}", account(&alice))})).await;
    let signature = personal_sign(&alice, &message);
    gateway.open_by_did(&message, &signature, &own).await.expect_error(400, "INVALID_REQUEST");
    // An account's DID signs as its wallet does.
    let did = format!("did:pkh:eip155:31337:{}", account(&alice));
    let message = gateway.challenge(json!({"did": did})).await;
    let method = format!("did:pkh:eip155:31337:{}#blockchainAccountId", account(&alice).to_lowercase());
    let session = gateway.open_by_did(&message, &personal_sign(&alice, &message), &method).await.expect(200);
    assert_eq!(session.body["owner"], did.to_lowercase());
}

/// A site is asked only where the operator named it, and never at an address that is not public, however long it would take.
#[tokio::test]
async fn no_did_makes_the_gateway_call_where_it_should_not() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let origin = format!("https://127.0.0.1:{port}");
    let gateway = Gateway::configured(|config| config.identity.did_web_origins = vec![origin]);
    for host in [format!("127.0.0.1%3A{port}"), "10.0.0.1".to_owned(), "metadata.internal".to_owned()] {
        let did = format!("did:web:{host}");
        let message = gateway.challenge(json!({"did": did})).await;
        let signature = ed25519_sign(9, &message);
        let answer = gateway.open_by_did(&message, &signature, &format!("{did}#key-1")).await;
        answer.expect_error(401, "INVALID_PROOF");
    }
    let called = tokio::time::timeout(Duration::from_millis(50), listener.accept()).await;
    assert!(called.is_err(), "the gateway called a private address");
}

#[tokio::test]
async fn who_proves_nothing_pays_for_what_it_asks() {
    let rate = RateConfig { per_second: 1, burst: 1_000 };
    let gateway = Gateway::configured(|config| {
        config.limits = LimitsConfig { unsigned: rate, reads: rate, ..LimitsConfig::default() };
    });
    let began = std::time::Instant::now();
    let (mut unsigned, mut reads) = (1_000, 1_000);
    // What a call took, but for what came back since the beginning.
    let mut took = |answer: &Answer, name: &str, least: u64| {
        let told = answer.headers["ratelimit"].to_str().unwrap();
        let left = told.split(", ").find_map(|item| item.strip_prefix(&format!("\"{name}\";r=")));
        let left: u64 = left.unwrap_or_else(|| panic!("{told}")).split(';').next().unwrap().parse().unwrap();
        let before = if name == "reads" { &mut reads } else { &mut unsigned };
        assert!(*before >= left + least && *before - left >= least, "{told} after {before}, {least} expected");
        *before = left;
        assert!(began.elapsed() < Duration::from_secs(300));
    };
    let alice = wallet(1);
    let challenge = json!({"account": format!("eip155:31337:{}", account(&alice))});
    let answer = gateway.post_to(CHALLENGES, &challenge).await.expect(200);
    took(&answer, "unsigned", 0);
    let message = answer.body["message"].as_str().unwrap().to_owned();
    let session = gateway.open(&message, &personal_sign(&alice, &message)).await.expect(200);
    took(&session, "unsigned", 3);
    // Also where nothing comes of it.
    took(&gateway.open(&message, "0x00").await.expect_error(401, "INVALID_PROOF"), "unsigned", 3);
    took(&gateway.list(&session.token(), "").await.expect(200), "reads", 4);
    // As much as a page that finds nothing may look at.
    took(&gateway.list(&session.token(), "?status=failed").await.expect(200), "reads", 20);
    took(&gateway.list_as(&session.token(), "?overdue=true", "text/csv").await.expect(200), "reads", 20);
    took(&gateway.list("", "").await.expect_error(401, "INVALID_TOKEN"), "reads", 0);
}

#[tokio::test]
async fn a_page_of_another_origin_may_send_its_token() {
    let gateway = Gateway::new();
    let preflight = Request::options(PAYMENTS)
        .header("origin", "https://books.example")
        .header("access-control-request-method", "GET")
        .header("access-control-request-headers", "authorization");
    let answer = gateway.send(preflight.body(Body::empty()).unwrap()).await.expect(200);
    let allowed = answer.headers["access-control-allow-headers"].to_str().unwrap();
    assert!(allowed.split(',').any(|name| name == "authorization"), "{allowed}");
    // Nothing is sent along that the page does not have.
    assert!(!answer.headers.contains_key("access-control-allow-credentials"));
    assert_eq!(answer.headers["access-control-allow-origin"], "*");
}

/// What the documents show is what is made.
#[tokio::test]
async fn the_documents_say_where_a_session_is_needed() {
    let openapi = crate::openapi::document("https://pay.example");
    let guarded: Vec<String> = openapi["paths"]
        .as_object()
        .unwrap()
        .iter()
        .flat_map(|(path, item)| item.as_object().unwrap().iter().map(move |(method, of)| (path, method, of)))
        .filter(|(.., operation)| operation["security"].is_array())
        .map(|(path, method, _)| format!("{method} {path}"))
        .collect();
    assert!(guarded.iter().any(|operation| operation == "get /v1/payments"), "{guarded:?}");
    // The contract's own need no header (spec 5).
    for free in ["post /v1/payments", "get /v1/payments/{paymentId}/status", "post /x402/v1/settle"] {
        assert!(guarded.iter().all(|operation| operation != free), "{free}");
    }
    assert!(guarded.iter().all(|operation| !operation.contains("/quote-requests")), "{guarded:?}");
    assert_eq!(openapi["components"]["securitySchemes"]["session"]["scheme"], "bearer");
    let validator = document::validator(&json!({"$ref": "#/components/schemas/SessionChallengeRequest"}));
    assert!(validator.is_valid(&json!({"did": "did:web:bank.example"})) && !validator.is_valid(&json!({})));
}

/// Each family signs in its own way, and no signature of one is one of another.
#[tokio::test]
async fn accounts_of_every_family_sign_as_their_wallets_do() {
    let example = include_str!("../../../../config/gateway.example.toml");
    let gateway = Gateway::configured(|config| {
        for example in [with_solana(example), with_tron(example)] {
            let directory = TempDir::new().unwrap();
            let path = directory.path().join("gateway.toml");
            std::fs::write(&path, example).unwrap();
            config.chains.push(GatewayConfig::load(&path).unwrap().chains.remove(1));
        }
    });
    let chain = |namespace: &str| {
        let chains = gateway.state.corridors.iter().map(|(chain, _)| chain.to_string());
        chains.into_iter().find(|chain| chain.starts_with(namespace)).unwrap()
    };
    let solana = Ed25519::from_bytes(&[3; 32]);
    let on_solana = bs58::encode(solana.verifying_key().as_bytes()).into_string();
    let message = gateway.challenge(json!({"account": format!("{}:{on_solana}", chain("solana"))})).await;
    assert!(message.starts_with("pay.example wants you to sign in with your Solana account:\n"), "{message}");
    let bytes = solana.sign(message.as_bytes()).to_bytes();
    for signature in [bs58::encode(bytes).into_string(), format!("0x{}", hex::encode(bytes))] {
        let session = gateway.open(&message, &signature).await.expect(200);
        assert_eq!(session.body["owner"], format!("solana:{on_solana}"));
        assert_eq!(gateway.list(&session.token(), "").await.expect(200).request_ids(), Vec::<String>::new());
    }
    let other = Ed25519::from_bytes(&[4; 32]).sign(message.as_bytes()).to_bytes();
    for bad in [bs58::encode(other).into_string(), "z".to_owned(), "1".repeat(88), BY_CONTRACT.to_owned()] {
        gateway.open(&message, &bad).await.expect_error(401, "INVALID_PROOF");
    }

    let tron = wallet(6);
    let on_tron = Account::from_bytes(Family::Tron, tron.address().as_slice()).unwrap().to_string();
    let message = gateway.challenge(json!({"account": format!("{}:{on_tron}", chain("tron"))})).await;
    let text = format!("\x19TRON Signed Message:\n{}{message}", message.len());
    let signature = tron.sign_hash_sync(&alloy::primitives::keccak256(text)).unwrap().to_string();
    let session = gateway.open(&message, &signature).await.expect(200);
    assert_eq!(session.body["owner"], format!("tron:{on_tron}"));
    gateway.open(&message, BY_CONTRACT).await.expect_error(401, "INVALID_PROOF");
    gateway.open(&message, &personal_sign(&wallet(7), &message)).await.expect_error(401, "INVALID_PROOF");
    // The same key has an account on EVM chains, which is another owner.
    let token = gateway.session(&tron).await;
    gateway.pay(&tron, "on-evm").await;
    assert_eq!(gateway.list(&token, "").await.expect(200).request_ids(), ["on-evm"]);
    assert_eq!(gateway.list(&session.token(), "").await.expect(200).request_ids(), Vec::<String>::new());
    // No contract was asked for an account that cannot be one.
    assert_eq!(gateway.contracts.asked.load(Ordering::SeqCst), 0);
}
