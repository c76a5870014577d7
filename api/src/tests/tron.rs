//! Payers on Tron through the routes: real transactions, against a development chain with the contracts.

mod prepared;

use alloy::{
    primitives::{B256, U256},
    signers::{SignerSync, local::PrivateKeySigner},
};

use app::{
    authorization::{registry::Authorizers, tron::TronAuthorizer},
    funds::{Coverage, Draw, TronFunds},
};
use chains::config::ChainConfig;
use chains_tron::{adapter::Keys, address::text, dev::DevChain, node::Node, transaction};
use config::{AccountKey, GatewayChain, examples::with_tron};
use devkit::holder::Holder;
use proofs::suites::Suite;
use trondev::{Blocks, Options, TronDev};

use super::*;

const PREPARE: &str = "/v1/payments/prepare";
const VERIFY: &str = "/v1/payments/verify";
const CHAIN: &str = "tron:728126428";
/// The clock of these tests, and the chain's at the start.
const NOW_MS: u64 = 1_893_456_000_000;
const FULFILLMENT_DEADLINE: u64 = NOW_MS / 1_000 + 600;

/// A gateway with a Tron chain of its own.
struct World {
    gateway: Gateway,
    tron: TronDev,
    dev: DevChain,
    escrow: String,
    proxy: String,
    token: String,
    node: Node,
}

fn key(seed: u8) -> PrivateKeySigner {
    PrivateKeySigner::from_bytes(&B256::repeat_byte(seed)).unwrap()
}

fn payer() -> PrivateKeySigner {
    key(6)
}

fn account(key: &PrivateKeySigner) -> String {
    text(key.address())
}

fn chain() -> GatewayChain {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("gateway.toml");
    std::fs::write(&path, with_tron(include_str!("../../../config/gateway.example.toml"))).unwrap();
    GatewayConfig::load(&path).unwrap().chains.remove(1)
}

impl World {
    async fn start() -> Self {
        let options =
            Options { blocks: Blocks::OnDemand, solidified_lag: 2, chain_id: 728_126_428, ..Options::default() };
        let tron = TronDev::start(options).await.unwrap();
        let dev = DevChain::connect(&tron.url(), key(1)).await.unwrap();
        dev.control("time", json!({"unix_ms": NOW_MS})).await.unwrap();
        let mut served = chain();
        let ChainConfig::Tron(config) = &mut served.chain else { panic!("the section is of a Tron chain") };
        let reserver = config.common.reserver.as_str();
        let contracts = dev.deploy_contracts(reserver, reserver).await.unwrap();
        let token = dev.deploy_token("Tether USD", "USDT", 6).await.unwrap();
        dev.mint(&token, &account(&payer()), U256::from(10_000_000)).await.unwrap();
        dev.fund(&account(&payer()), 1_000_000_000).await.unwrap();
        dev.mine(3).await.unwrap();

        config.common.rpc_url = tron.url();
        config.common.escrow_contract = contracts.escrow.parse().unwrap();
        config.common.fulfillment_proxy = contracts.proxy.parse().unwrap();
        config.common.assets[0].asset_identifier = format!("{CHAIN}/trc20:{token}").parse().unwrap();
        let node = Node::connect(config).unwrap();
        let AccountKey::Here(key) = &served.reserver_key else { panic!("the key is in the file") };
        let reserver = key.expose();
        let keys = Keys {
            reserver: reserver.parse::<PrivateKeySigner>().unwrap().into(),
            draining_reservers: Vec::new(),
            submitters: Vec::new(),
            exit_submitters: Vec::new(),
        };
        let tron_authorizer = TronAuthorizer::new([(node.clone(), keys.reservers(&node).unwrap())]);
        let evm: Arc<dyn Authorizer> = Arc::new(LenientAuthorizer);
        let authorizer = Authorizers::new([(Family::Evm, evm), (Family::Tron, Arc::new(tron_authorizer))]);
        let journal = MemoryJournal::new(4);
        let gateway = Gateway::with_parts(Arc::new(journal.clone()), journal, Arc::new(authorizer), |config| {
            config.chains.push(served);
        });
        Self { gateway, tron, dev, escrow: contracts.escrow, proxy: contracts.proxy, token, node }
    }

    fn asset(&self) -> String {
        format!("{CHAIN}/trc20:{}", self.token)
    }

    /// [`body`] from Tron to an EVM chain, without what authorizes it.
    fn unsigned(&self) -> Value {
        let mut body = with("/source", json!({"asset_identifier": self.asset(), "account": account(&payer())}));
        body.as_object_mut().unwrap().remove("sender_auth");
        body
    }

    /// `body` with what is prepared for it, signed by the payer.
    async fn signed(&self, body: &Value) -> Value {
        let prepared = self.gateway.post_to(PREPARE, body).await.expect(200);
        assert_eq!(prepared.body["message_scheme"], "TRON");
        let mut messages = prepared.body["signed_messages"].clone();
        for message in messages.as_array_mut().unwrap() {
            let id: B256 = message["message"].as_str().unwrap().parse().unwrap();
            assert_eq!(transaction::id(&raw_data(message)), id);
            message["signature"] = json!(signature(id, &payer()));
        }
        let mut body = body.clone();
        body.as_object_mut().unwrap().remove("payload");
        body["sender_auth"] = json!({"message_scheme": "TRON", "signed_messages": messages});
        body
    }

    async fn good(&self) -> Value {
        self.signed(&self.unsigned()).await
    }
}

fn raw_data(message: &Value) -> Vec<u8> {
    hex::decode(&message["message_prehash"].as_str().unwrap()[2..]).unwrap()
}

fn signature(id: B256, signer: &PrivateKeySigner) -> String {
    format!("0x{}", hex::encode(signer.sign_hash_sync(&id).unwrap().as_bytes()))
}

/// `body` with one transaction changed and signed again.
fn altered(body: &Value, index: usize, alter: impl FnOnce(&mut transaction::Draft)) -> Value {
    let mut body = body.clone();
    let message = &mut body["sender_auth"]["signed_messages"][index];
    let mut draft = transaction::read(&raw_data(message)).unwrap().draft;
    alter(&mut draft);
    let raw_data = draft.raw_data();
    let id = transaction::id(&raw_data);
    message["message"] = json!(id.to_string());
    message["message_prehash"] = json!(format!("0x{}", hex::encode(raw_data)));
    message["signature"] = json!(signature(id, &payer()));
    // What is said of it would be another transaction's.
    message.as_object_mut().unwrap().remove("payload");
    body
}

fn deposit_alone(body: &Value) -> Value {
    let mut body = body.clone();
    body["sender_auth"]["signed_messages"].as_array_mut().unwrap().remove(0);
    body
}

#[tokio::test]
async fn the_defaults_of_a_tron_chain_can_be_sent_back() {
    let world = World::start().await;
    let expected = json!({
        "family": "tron",
        "quote_selector": "",
        "fulfillment_verifier": single_verifier(chain().chain.common().releaser.as_str(), "http://127.0.0.1:8090"),
        "escrow_contract_address": world.escrow,
        "fulfillment_proxy": world.proxy,
        "escrow_contract_addresses": [world.escrow],
        "fulfillment_proxy_addresses": [world.proxy],
        "fulfillment_verifiers": [
            single_verifier(chain().chain.common().releaser.as_str(), "http://127.0.0.1:8090"),
        ],
        "settler_policies": ["aml", "kyc"],
        "reserver": chain().chain.common().reserver,
        "releaser": chain().chain.common().releaser,
        "message_schemes": ["TRON"],
        "refund_delay_seconds": 3600,
        "deadlines": deadline_limits(),
        "required_depth": "finalized",
        "assets": [
            {"asset_identifier": world.asset(), "symbol": "USDT", "decimals": 6},
            {"asset_identifier": format!("{CHAIN}/slip44:195"), "symbol": "TRX", "decimals": 6},
        ],
    });
    // The older form of the reference is the same chain.
    for chain in [CHAIN, "tron:0x2b6653dc"] {
        let shown = world.gateway.get(&format!("/v1/defaults?chain_id={chain}")).await.expect(200).body;
        assert_eq!(shown, expected);
    }
    assert_eq!(world.gateway.get("/v1/defaults").await.expect(200).body["chains"][CHAIN], expected);

    let mut body = world.unsigned();
    body["destination"] = json!([{"asset_identifier": format!("{CHAIN}/slip44:195"), "account": account(&key(8))}]);
    for name in ["quote_selector", "fulfillment_verifier", "escrow_contract_address", "fulfillment_proxy"] {
        body[name] = expected[name].clone();
    }
    let body = world.signed(&body).await;
    world.gateway.post(&body).await.expect(200);
}

#[tokio::test]
async fn what_was_prepared_and_signed_is_accepted() {
    let world = World::start().await;
    let (gateway, body) = (&world.gateway, world.good().await);
    let messages = body["sender_auth"]["signed_messages"].as_array().unwrap();
    let shown: Vec<_> = messages.iter().map(|message| message["payload"]["contract"].as_str().unwrap()).collect();
    assert_eq!(shown, [&world.token, &world.escrow]);
    let verified = gateway.post_to(VERIFY, &body).await.expect(200);
    assert_eq!((&verified.body["valid"], verified.body.get("status")), (&json!(true), None));
    let accepted = gateway.post(&body).await.expect(200);
    assert_eq!(accepted.body["payment_id"], verified.body["payment_id"]);
    let submitted = gateway.submitted(accepted.payment_id().as_str()).await;
    let Authorization::Tron(own) = &submitted.authorization else { panic!("{submitted:?}") };
    assert_eq!((own.amount.to_string().as_str(), own.quote_hash), ("1100000", Hash32::ZERO));
    let kept = [own.approval.as_ref().unwrap(), &own.deposit];
    for (kept, message) in kept.into_iter().zip(messages) {
        assert_eq!(message["message"], kept.transaction_hash);
        assert_eq!(kept.expires_at, FULFILLMENT_DEADLINE * 1_000);
    }
    let EscrowPlan { contract, releaser, .. } = &submitted.escrow;
    assert_eq!((contract.as_str(), releaser), (world.escrow.as_str(), &chain().chain.common().releaser));
    // The longest delay among the chains of the payment counts: the destination's.
    assert_eq!(submitted.escrow.refund_after, FULFILLMENT_DEADLINE + 7_200);
    let timeline = gateway.get(&format!("/v1/payments/{}/timeline", accepted.payment_id())).await.expect(200);
    assert_eq!(timeline.body["entries"][0]["data"]["message_scheme"], "TRON", "{timeline:?}");
    let resolved = format!("/v1/payments/resolve?request_id=order-1&account={}", account(&payer()));
    assert_eq!(gateway.get(&resolved).await.expect(200).body["payment_id"], accepted.body["payment_id"]);

    // Every form in which Tron's tools write ids and chains is the same payment.
    let mut other = body.clone();
    set(&mut other, "/source/asset_identifier", json!(format!("tron:0x2b6653dc/trc20:{}", world.token)));
    for message in other["sender_auth"]["signed_messages"].as_array_mut().unwrap() {
        for name in ["message", "message_prehash"] {
            message[name] = json!(message[name].as_str().unwrap()[2..].to_uppercase());
        }
        message.as_object_mut().unwrap().remove("payload");
    }
    assert_eq!(gateway.post(&other).await.expect(200).body["idempotent_replay"], true);
    // A replay asks no chain, and its transactions may have expired.
    world.tron.stop();
    gateway.clock.set("2030-02-01T00:00:00Z");
    assert_eq!(gateway.post(&deposit_alone(&body)).await.expect(200).body["idempotent_replay"], true);
    gateway.post(&altered(&body, 1, |draft| draft.call.value_sun = 1)).await.expect_error(401, "INVALID_SENDER_AUTH");
}

#[tokio::test]
async fn the_payers_transactions_are_checked_against_the_whole_request() {
    let world = World::start().await;
    let (gateway, good) = (&world.gateway, world.good().await);
    let [approval, deposit] = ["/sender_auth/signed_messages/0", "/sender_auth/signed_messages/1"];
    let at = |message: &str, name: &str| format!("{message}/{name}");
    let messages = &good["sender_auth"]["signed_messages"];
    let index = |field: &str, index: usize| format!("sender_auth.signed_messages[{index}]: {field} ");
    for (pointer, value, rule) in [
        ("/request_id", json!("order-2"), index("message_prehash.depositOwn.d.paymentId", 1)),
        ("/fulfillment_amount", json!("1000001"), index("message_prehash.depositOwn.d.termsHash", 1)),
        ("/max_source_amount", json!("1100001"), index("message_prehash.depositOwn.d.termsHash", 1)),
        ("/destination/0/account", json!(PAYER), index("message_prehash.depositOwn.d.termsHash", 1)),
        (
            "/fulfillment_deadline",
            json!("2030-01-01T00:10:01Z"),
            index("message_prehash.depositOwn.d.fulfillmentDeadline", 1),
        ),
        ("/quote_deadline", json!("2030-01-01T00:09:50Z"), index("message_prehash.expiration", 1)),
        ("/source/account", json!(account(&key(7))), index("message_prehash.owner_address", 1)),
        (&at(deposit, "message"), json!("11".repeat(32)), index("message", 1)),
        (&at(approval, "message"), json!("11".repeat(32)), index("message", 0)),
        (&at(approval, "message_prehash"), json!("0x00"), "sender_auth.signed_messages[0]: message_prehash: ".into()),
        (&at(approval, "signature"), json!("0x1234"), index("signature", 0)),
        (&at(approval, "signature"), messages[1]["signature"].clone(), index("signature", 0)),
        (deposit, messages[0].clone(), index("message_prehash.contract_address", 1)),
        (approval, messages[1].clone(), index("deposit must be preceded by an approval of 1100000: the escrow's", 0)),
        (&at(deposit, "payload/amount"), json!("1"), index("payload.amount", 1)),
        (&at(approval, "payload/spender"), json!(world.token), index("payload.spender", 0)),
    ] {
        let mut body = good.clone();
        set(&mut body, pointer, value.clone());
        for path in ["/v1/payments", VERIFY] {
            let answer = gateway.post_to(path, &body).await;
            assert_eq!(answer.status.as_u16(), 401, "{pointer} = {value}: {answer:?}");
            let answer = answer.expect_error(401, "INVALID_SENDER_AUTH");
            assert!(answer.message().starts_with(&rule), "{pointer} = {value}: {answer:?}");
        }
    }
    let mut unsaid = good.clone();
    unsaid["sender_auth"]["signed_messages"][1].as_object_mut().unwrap().remove("message_prehash");
    let answer = gateway.post(&unsaid).await.expect_error(401, "INVALID_SENDER_AUTH");
    assert!(answer.message().starts_with(&index("message_prehash", 1)), "{answer:?}");
    // What is of another payer or payment is kept, and does not count; what the chain denies is named by its place.
    let mut several = good.clone();
    let foreign = json!({"message": "11", "signature": "0x22", "payload": {"note": 7}});
    several["sender_auth"]["signed_messages"].as_array_mut().unwrap().insert(0, foreign.clone());
    several["sender_auth"]["signed_messages"].as_array_mut().unwrap().push(foreign);
    let cheap = altered(&several, 2, |draft| draft.fee_limit_sun = 1_000_000);
    let answer = gateway.post(&cheap).await.expect_error(401, "INVALID_SENDER_AUTH");
    assert!(answer.message().starts_with(&index("message_prehash.fee_limit", 2)), "{answer:?}");
    let accepted = gateway.post(&several).await.expect(200);
    let submitted = gateway.submitted(accepted.payment_id().as_str()).await;
    assert_eq!(serde_json::from_str::<Value>(&submitted.request).unwrap(), several);
    let replay = gateway.post(&good).await.expect(200);
    assert_eq!(replay.body["idempotent_replay"], true);
}

/// What only the chain can say stops something new, by whatever way it comes.
#[tokio::test]
async fn what_the_chain_does_not_confirm_is_not_accepted() {
    let world = World::start().await;
    let (gateway, good) = (&world.gateway, world.good().await);
    let refused = |answer: Answer, rule: &str| {
        let answer = answer.expect_error(401, "INVALID_SENDER_AUTH");
        assert!(answer.message().starts_with(rule), "{answer:?}");
    };
    for path in ["/v1/payments", VERIFY] {
        let other_chain = altered(&good, 0, |draft| draft.reference.hash = [7; 8]);
        let rule = "sender_auth.signed_messages[0]: message_prehash.ref_block_hash must be ";
        refused(gateway.post_to(path, &other_chain).await, rule);
        let cheap = altered(&good, 1, |draft| draft.fee_limit_sun = 1_000_000);
        refused(
            gateway.post_to(path, &cheap).await,
            "sender_auth.signed_messages[1]: message_prehash.fee_limit must be at least ",
        );
        let alone = deposit_alone(&good);
        let rule = "sender_auth.signed_messages[0]: deposit must be preceded by an approval ";
        refused(gateway.post_to(path, &alone).await, rule);
    }
    world.dev.approve(&payer(), &world.token, &world.escrow, U256::MAX).await.unwrap();
    let prepared = world.good().await;
    assert_eq!(prepared["sender_auth"]["signed_messages"].as_array().unwrap().len(), 1);
    gateway.post_to(VERIFY, &deposit_alone(&good)).await.expect(200);
    world.tron.stop();
    gateway.post(&prepared).await.expect_error(503, "SERVICE_UNAVAILABLE");
    gateway.post_to(PREPARE, &world.unsigned()).await.expect_error(503, "SERVICE_UNAVAILABLE");
}

#[tokio::test]
async fn what_does_not_fit_tron_is_refused_by_its_field() {
    let world = World::start().await;
    let gateway = &world.gateway;
    let trx = format!("{CHAIN}/slip44:195");
    let to = |asset: &str, account: &str| json!([{"asset_identifier": asset, "account": account}]);
    let zero = "T9yD14Nj9j7xAB4dbGeiX9h8unkKHxuWwb";
    for (pointer, value, code, named) in [
        ("/source/asset_identifier", json!(trx), "UNSUPPORTED_ASSET", "source.asset_identifier"),
        ("/source/account", json!(PAYER), "INVALID_REQUEST", "source.account"),
        ("/source/account", json!(zero), "INVALID_REQUEST", "source.account"),
        ("/destination", to(&trx, RECIPIENT), "INVALID_DESTINATION_ACCOUNT", "destination[0].account"),
        ("/destination", to(&trx, zero), "INVALID_DESTINATION_ACCOUNT", "destination[0].account"),
        ("/destination", to(&trx, &world.escrow), "INVALID_DESTINATION_ACCOUNT", "destination[0].account"),
        ("/destination", to(&trx, &world.token), "INVALID_DESTINATION_ACCOUNT", "destination[0].account"),
        ("/destination", to(&format!("{CHAIN}/slip44:60"), &account(&key(8))), "UNSUPPORTED_ASSET", "destination[0]"),
        ("/message_scheme", json!("SOLANA"), "INVALID_REQUEST", "message_scheme"),
        ("/escrow_contract_address", json!(account(&key(9))), "UNTRUSTED_ESCROW", "escrow_contract_address"),
        ("/payload", json!({"fee_limit_sun": "x"}), "INVALID_REQUEST", "payload.fee_limit_sun"),
        ("/payload", json!({"fee_limit_sun": "15000000001"}), "INVALID_REQUEST", "payload.fee_limit_sun"),
        ("/payload", json!({"expiration_ms": NOW_MS}), "INVALID_REQUEST", "payload.expiration_ms"),
        ("/payload", json!({"refund_after": FULFILLMENT_DEADLINE}), "INVALID_REQUEST", "payload.refund_after"),
    ] {
        let mut body = world.unsigned();
        set(&mut body, pointer, value.clone());
        let answer = gateway.post_to(PREPARE, &body).await.expect_error(400, code);
        assert!(answer.message().starts_with(named), "{pointer} = {value}: {answer:?}");
    }
    // No transaction outlives an auction of more than a day, and no auction is that long.
    let mut body = world.unsigned();
    set(&mut body, "/quote_deadline", json!("2030-01-02T00:00:00Z"));
    set(&mut body, "/fulfillment_deadline", json!("2030-01-02T01:00:00Z"));
    let answer = gateway.post_to(PREPARE, &body).await.expect_error(400, "INVALID_DEADLINE");
    assert!(answer.message().starts_with("quote_deadline: must be at most "), "{answer:?}");

    // From an EVM chain to Tron, in a token or in TRX.
    for asset in [&trx, &world.asset()] {
        let mut body = with("/destination", to(asset, &account(&key(8))));
        set(&mut body, "/request_id", json!(format!("order-{}", asset.len())));
        let accepted = gateway.post(&body).await.expect(200);
        let submitted = gateway.submitted(accepted.payment_id().as_str()).await;
        assert_eq!(submitted.fulfillment_proxies, [world.proxy.parse::<events::Account>().unwrap()]);
    }
}

/// What a payer on Tron signs is prepared for it, as anywhere; x402 takes it once it was submitted.
#[tokio::test]
async fn tron_is_a_source_of_x402_payments() {
    let world = World::start().await;
    let gateway = &world.gateway;
    let supported = gateway.get("/x402/v1/supported").await.expect(200).body;
    let kind = supported["kinds"].as_array().unwrap().iter().find(|kind| kind["network"] == CHAIN).unwrap();
    let gw = &kind["extra"]["gw"];
    assert_eq!((&gw["messageSchemes"], gw.get("permit2")), (&json!(["TRON"]), None));
    // The coin can be received and not paid with.
    assert_eq!(gw["assets"].as_array().unwrap().len(), 1);
    assert!(supported["signers"][CHAIN].is_array(), "{supported}");

    let requirement = json!({
        "scheme": kind["scheme"],
        "network": CHAIN,
        "asset": gw["assets"][0]["asset"],
        "payTo": RECIPIENT,
        "amount": "1100000",
        "maxTimeoutSeconds": 1,
        "extra": {"gw": {
            "destination": {
                "network": "eip155:31338", "asset": DESTINATION_ASSET.rsplit_once(':').unwrap().1, "address": RECIPIENT,
            },
            "fulfillmentAmount": "1000000",
            "escrow": gw["escrow"],
            "reserver": gw["reserver"],
            "releaser": gw["releaser"],
        }},
    });
    let request = world.good().await;
    let message = json!({
        "x402Version": 2,
        "paymentPayload": {"x402Version": 2, "accepted": requirement, "payload": {"paymentRequest": request}},
        "paymentRequirements": requirement,
    });
    // Whoever has the message could broadcast the deposit in it, so the gateway has to know of the payment first.
    for path in ["/x402/v1/verify", "/x402/v1/settle"] {
        let refused = gateway.post_to(path, &message).await.expect(200).body;
        assert_eq!(refused["extensions"]["gw"]["code"], "PAYMENT_REQUIREMENTS_MISMATCH", "{refused}");
        assert!(refused.to_string().contains("POST /v1/payments"), "{refused}");
    }
    let id = PaymentId::derive(&format!("tron:{}", account(&payer())), "order-1");
    gateway.get(&format!("/v1/payments/{id}/status")).await.expect(404);
    let id = gateway.post(&request).await.expect(200).payment_id();
    let id = id.as_str();
    for blind in [true, false] {
        gateway.payments.set_blind(blind);
        let verified = gateway.post_to("/x402/v1/verify", &message).await.expect(200).body;
        assert_eq!((&verified["isValid"], &verified["payer"]), (&json!(true), &json!(account(&payer()))), "{verified}");
        let settled = gateway.post_to("/x402/v1/settle", &message).await.expect(200).body;
        assert_eq!((&settled["errorReason"], &settled["transaction"]), (&json!("settlement_pending"), &json!("")));
        for answer in [verified, settled] {
            assert_eq!(answer["extensions"]["gw"]["paymentId"], id, "{answer}");
            assert_eq!(answer["extensions"]["gw"]["idempotentReplay"], true, "{answer}");
        }
    }
    let submitted = gateway.submitted(id).await;
    let Authorization::Tron(own) = &submitted.authorization else { panic!("{submitted:?}") };
    assert_eq!(request["sender_auth"]["signed_messages"][1]["message"], own.deposit.transaction_hash);

    // A deposit of more than the merchant asks for is another payment.
    let mut dearer = message.clone();
    for at in ["/paymentRequirements", "/paymentPayload/accepted"] {
        set(&mut dearer, &format!("{at}/amount"), json!("1100001"));
    }
    let answer = gateway.post_to("/x402/v1/verify", &dearer).await.expect(200).body;
    assert_eq!(answer["extensions"]["gw"]["code"], "PAYMENT_REQUIREMENTS_MISMATCH", "{answer}");
}

#[tokio::test]
async fn a_balance_that_does_not_reach_is_refused_and_a_deposit_that_was_made_is_not() {
    let world = World::start().await;
    let funds = TronFunds::new([world.node.clone()]);
    let source = events::OwnedAsset::new(world.asset().parse().unwrap(), &account(&payer())).unwrap();
    let body = world.good().await;
    let accepted = world.gateway.post(&body).await.expect(200);
    let submitted = world.gateway.submitted(accepted.payment_id().as_str()).await;
    let Authorization::Tron(own) = &submitted.authorization else { panic!("{submitted:?}") };
    let spend = |amount: &str, own| {
        let amount = amount.parse().unwrap();
        Spend { source: &source, amount, draw: Draw::of(own), escrow: &submitted.escrow }
    };
    let whole = spend("10000000", &submitted.authorization);
    // The approval is among what was signed.
    let expected = Holding {
        balance: U256::from(10_000_000),
        allowance: None,
        spender: world.escrow.clone(),
        mandate: None,
        coin: None,
    };
    assert_eq!(funds.holding(&whole).await.unwrap(), expected);
    assert_eq!(funds.approval(&whole).await.unwrap(), None);
    assert_eq!(expected.coverage("10000001".parse().unwrap()), Coverage::Balance(U256::from(10_000_000)));
    assert!(!funds.has_landed(&whole).await.unwrap());
    let alone = Authorization::Tron(events::event::TronSpend { approval: None, ..own.clone() });
    let holding = funds.holding(&spend("1100000", &alone)).await.unwrap();
    assert_eq!(holding.allowance, Some(U256::ZERO));

    // The payer's own wallet may be faster than the submission: what it deposited need not be there a second time.
    for own in [own.approval.as_ref().unwrap(), &own.deposit] {
        world.node.broadcast(&hex::decode(own.raw.trim_start_matches("0x")).unwrap()).await.unwrap();
        world.dev.mine(1).await.unwrap();
    }
    assert!(funds.has_landed(&whole).await.unwrap());
    assert_eq!(funds.holding(&whole).await.unwrap().balance, U256::from(8_900_000));
}
