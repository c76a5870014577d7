//! Quotes and declines, with a chain that only has a balance.

use std::{
    collections::HashMap,
    sync::{Arc, LazyLock},
    time::Instant,
};

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use ed25519_dalek::SigningKey;
use ruint::aliases::U256;
use serde_json::{Value, json};

use chains::{
    escrow::EscrowRecord,
    perform::PerformError,
    settler::{DeliveryChain, UsualFees},
};
use events::{
    Account, AssetId, ChainId, Did, Hash32, OwnedAsset, PaymentId, Terms, VerifierMember, VerifierSet,
    event::EscrowPlan, quote::SignedQuote, time::from_unix_seconds,
};
use protocol::{Bid, Rfq, Version};
use sagas::ports::{DeliveryOrder, DeliveryState, Statement, Transient};
use settler::{
    Config, Options,
    chain_registry::Chains,
    inventory::{Funds, Inventory, Need},
    pricing::Prices,
    quoting::Quoter,
    trials::{Bulkhead, Trial, Trials},
};

const ACCOUNT: &str = "0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed";
const OTHER: &str = "0xfb6916095ca1df60bb79ce92ce3ea74c37c5d359";
const USD_ONE: &str = "eip155:1/erc20:0x1111111111111111111111111111111111111111";
pub const USD_TEN: &str = "eip155:10/erc20:0x2222222222222222222222222222222222222222";
const EUR_TEN: &str = "eip155:10/erc20:0x3333333333333333333333333333333333333333";
const ETH_TEN: &str = "eip155:10/slip44:60";
/// A contract that cannot be paid.
const UNPAYABLE: &str = "0x6666666666666666666666666666666666666666";
/// When every request here is made.
pub const NOW: u64 = 1_800_000_000;

static OWN: LazyLock<Account> = LazyLock::new(|| ACCOUNT.parse().unwrap());

struct Purse(U256);

#[async_trait]
impl DeliveryChain for Purse {
    fn account(&self) -> &Account {
        &OWN
    }

    async fn balance(&self, _: &AssetId) -> Result<U256, Transient> {
        Ok(self.0)
    }

    async fn reservation(&self, _: &PaymentId, _: &Account) -> Result<(u64, Option<EscrowRecord>), Transient> {
        unreachable!("quoting reads no escrow")
    }

    async fn delivery_state(&self, _: &DeliveryOrder) -> Result<DeliveryState, Transient> {
        unreachable!("quoting reads no delivery")
    }

    async fn try_delivery(&self, order: &DeliveryOrder) -> Result<(), PerformError> {
        // A contract may take some amounts of coins, and others not.
        let is_too_much = order.destination.asset().is_coin() && order.amount.get() > self.0;
        match is_too_much || order.destination.account().as_str() == UNPAYABLE {
            true => Err(crate::refused("the recipient takes nothing")),
            false => Ok(()),
        }
    }

    async fn deliver(&self, _: &DeliveryOrder) -> Result<String, PerformError> {
        unreachable!("quoting delivers nothing")
    }

    fn signed_by(&self, _: &Statement, _: &EscrowPlan, _: &Account, _: &str) -> bool {
        unreachable!("quoting reads no signature")
    }

    async fn release(&self, _: &PaymentId, _: &EscrowPlan, _: &str) -> Result<String, PerformError> {
        unreachable!("quoting releases nothing")
    }

    async fn usual_fees(&self) -> Result<UsualFees, Transient> {
        let units = U256::from;
        Ok(UsualFees { coin_delivery: units(30), token_delivery: units(50), release: units(70) })
    }

    async fn next_block(&self) {}
}

pub fn key() -> SigningKey {
    SigningKey::from_bytes(&[7; 32])
}

pub fn config() -> Value {
    let chain = |id: u64, assets: Value| {
        json!({
            "chain_id": format!("eip155:{id}"), "rpc_url": "http://127.0.0.1:1", "escrow_contract": ACCOUNT,
            "fulfillment_proxy": ACCOUNT, "reserver": ACCOUNT, "releaser": ACCOUNT, "required_depth": 1,
            "refund_delay_seconds": 60, "assets": assets,
        })
    };
    let asset = |id: &str, symbol: &str| json!({"asset_identifier": id, "symbol": symbol, "decimals": 6});
    json!({
        "nats": {"url": "nats://127.0.0.1:4222"},
        "seed": "07".repeat(32),
        "evm_private_key": "11".repeat(32),
        "chains": [
            chain(1, json!([asset(USD_ONE, "USD")])),
            chain(10, json!([asset(USD_TEN, "USD"), asset(EUR_TEN, "EUR")])),
        ],
        "verifiers": [{"chain_id": "eip155:1", "account": ACCOUNT, "endpoint": "http://127.0.0.1:1/"}],
        "corridors": [
            {"source_asset": USD_ONE, "destination_asset": USD_TEN, "spread_bps": 100, "gas_cost": "50"},
            {
                "source_asset": USD_ONE, "destination_asset": EUR_TEN, "spread_bps": 100,
                "rate": {"source": 11, "destination": 10},
            },
        ],
        "policies": ["kyc"],
    })
}

fn options(config: Value) -> Options {
    serde_json::from_value::<Config>(config).unwrap().options().unwrap()
}

pub struct Fixture {
    quoter: Quoter,
    inventory: Arc<Inventory>,
}

pub fn with_balance(balance: u64) -> Fixture {
    with_balance_under(config(), balance)
}

pub fn with_balance_under(config: Value, balance: u64) -> Fixture {
    let options = options(config);
    let inventory = Arc::new(Inventory::new(options.inventory_max.clone()));
    let purse = Arc::new(Purse(U256::from(balance)));
    let chains: Chains = HashMap::from([1, 10].map(|id| (ChainId::evm(id), purse.clone() as Arc<dyn DeliveryChain>)));
    fixture(options, chains, inventory)
}

pub fn fixture(options: Options, chains: Chains, inventory: Arc<Inventory>) -> Fixture {
    let prices = Arc::new(Prices::new(options.book.clone()));
    let quoter = Quoter::new(Arc::new(options), key(), chains, inventory.clone(), Arc::default(), prices);
    Fixture { quoter, inventory }
}

pub fn at(seconds: u64) -> DateTime<Utc> {
    from_unix_seconds(seconds).unwrap()
}

pub fn rfq(id: &str, destinations: &[&str], amount: u64, cap: Option<u64>) -> Rfq {
    let owned = |asset: &&str| OwnedAsset::new(asset.parse().unwrap(), OTHER).unwrap();
    let units = |amount: u64| amount.to_string().parse().unwrap();
    let destinations: Vec<_> = destinations.iter().map(owned).collect();
    let terms = Terms::new(owned(&USD_ONE), destinations, units(amount), cap.map(units));
    let payment_id = PaymentId::derive("quoting", id);
    Rfq {
        version: Version,
        auction_id: payment_id.to_string(),
        payment_id: Some(payment_id),
        terms_hash: terms.hash(),
        fulfillment_proxies: terms.destination().iter().map(|_| ACCOUNT.parse().unwrap()).collect(),
        terms,
        escrow: (&EscrowPlan {
            chain_id: ChainId::evm(1),
            contract: ACCOUNT.parse().unwrap(),
            reserver: OTHER.parse().unwrap(),
            releaser: ACCOUNT.parse().unwrap(),
            reserve_deadline: NOW + 60,
            fulfillment_deadline: NOW + 120,
            refund_after: NOW + 180,
        })
            .into(),
        quote_deadline: at(NOW + 5),
        fulfillment_deadline: at(NOW + 120),
        required_policies: Vec::new(),
        payloads: Vec::new(),
        escrowed: None,
    }
}

/// Whether `amount` dollars of `balance` are held for nobody.
pub fn is_free(fixture: &Fixture, amount: u64, balance: u64) -> bool {
    let (asset, amount) = (USD_TEN.parse().unwrap(), amount.to_string().parse().unwrap());
    let funds = Funds { version: fixture.inventory.version(), balance: U256::from(balance) };
    fixture.inventory.covers(Need { key: "free", asset: &asset, amount }, funds, at(NOW)).is_ok()
}

pub async fn answer(fixture: &Fixture, rfq: &Rfq, now: u64) -> Bid {
    let fingerprint = Hash32::sha256(serde_json::to_vec(rfq).unwrap());
    fixture.quoter.answer(rfq, fingerprint, at(now)).await.unwrap()
}

pub async fn quoted(fixture: &Fixture, rfq: &Rfq) -> SignedQuote {
    let bid = answer(fixture, rfq, NOW).await;
    SignedQuote::parse(&bid.quote.unwrap_or_else(|| panic!("declined: {:?}", bid.decline))).unwrap()
}

#[tokio::test]
async fn a_quote_says_what_was_asked_at_the_configured_price() {
    let fixture = with_balance(1_000_000);
    let rfq = rfq("a", &[USD_TEN], 100_000, None);
    let signed = quoted(&fixture, &rfq).await;
    let quote = signed.quote();
    assert_eq!(quote.source_amount.to_string(), "101050");
    assert_eq!(quote.settler, Did::from_ed25519(&key().verifying_key()));
    assert_eq!(quote.terms_hash, rfq.terms_hash);
    assert_eq!(quote.destination, rfq.terms.destination()[0]);
    assert_eq!(quote.fulfill_by, at(NOW + 120));
    // The quote is firm for half a minute after the auction, not for as long as the deposit may be made.
    assert_eq!(quote.valid_until, at(NOW + 35));
}

#[tokio::test]
async fn the_same_request_gets_the_same_quote_and_holds_its_tokens_once() {
    let fixture = with_balance(100_000);
    let rfq = rfq("a", &[USD_TEN], 100_000, None);
    let first = quoted(&fixture, &rfq).await;
    let again = answer(&fixture, &rfq, NOW + 3).await;
    assert_eq!(again.quote.as_deref(), Some(first.document()));
    // Of a balance that is one unit more, that unit is free.
    assert!(is_free(&fixture, 1, 100_001) && !is_free(&fixture, 1, 100_000));

    // A restarted settler has no cache, and yet makes the same offer.
    let restarted = with_balance(100_000);
    let document = answer(&restarted, &rfq, NOW + 4).await.quote.unwrap();
    assert_eq!(SignedQuote::parse(&document).unwrap().hash(), first.hash());
}

#[tokio::test]
async fn the_cheapest_destination_that_can_be_served_is_offered() {
    let fixture = with_balance(1_000_000);
    let both = quoted(&fixture, &rfq("a", &[EUR_TEN, USD_TEN], 100_000, None)).await;
    assert_eq!(both.quote().destination.asset().to_string(), USD_TEN);
    let euro = quoted(&fixture, &rfq("b", &[EUR_TEN], 100_000, None)).await;
    assert_eq!(euro.quote().source_amount.to_string(), "111100");
    // With the dollars promised away, the dearer euros are offered.
    quoted(&fixture, &rfq("c", &[USD_TEN], 900_000, None)).await;
    let rest = quoted(&fixture, &rfq("d", &[EUR_TEN, USD_TEN], 100_000, None)).await;
    assert_eq!(rest.quote().destination.asset().to_string(), EUR_TEN);
}

#[tokio::test]
async fn tokens_of_an_open_quote_are_not_promised_again_until_it_lapses() {
    let fixture = with_balance(150_000);
    quoted(&fixture, &rfq("a", &[USD_TEN], 100_000, None)).await;
    let second = rfq("b", &[USD_TEN], 100_000, None);
    assert_eq!(answer(&fixture, &second, NOW).await.decline.as_deref(), Some("INSUFFICIENT_LIQUIDITY"));
    let mut later = rfq("c", &[USD_TEN], 100_000, None);
    later.quote_deadline = at(NOW + 70);
    later.escrow.reserve_deadline.0 = NOW + 80;
    assert!(answer(&fixture, &later, NOW + 61).await.quote.is_some());
}

#[tokio::test]
async fn a_request_that_nobody_signed_is_quoted_and_holds_nothing() {
    let fixture = with_balance(100_000);
    for id in ["a", "b", "c"] {
        let mut rfq = rfq(id, &[USD_TEN], 100_000, None);
        rfq.payment_id = None;
        quoted(&fixture, &rfq).await;
    }
    assert!(is_free(&fixture, 100_000, 100_000));
    quoted(&fixture, &rfq("d", &[USD_TEN], 100_000, None)).await;
    let mut late = rfq("e", &[USD_TEN], 100_000, None);
    late.payment_id = None;
    assert_eq!(answer(&fixture, &late, NOW).await.decline.as_deref(), Some("INSUFFICIENT_LIQUIDITY"));
}

/// A gateway's limit by default: the value in its example, in seconds.
fn gateway_limit(key: &str) -> u64 {
    let example = include_str!("../../config/gateway.example.toml");
    let value = example.lines().find_map(|line| line.strip_prefix(&format!("# {key} = ")));
    value.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("{key} is not in the example"))
}

#[tokio::test]
async fn what_a_gateway_allows_by_default_is_not_too_long_for_a_settler() {
    let quote_deadline = NOW + gateway_limit("quote_seconds_max");
    let fulfillment_deadline = quote_deadline + gateway_limit("settlement_seconds_max");
    let mut rfq = rfq("a", &[USD_TEN], 100_000, None);
    rfq.quote_deadline = at(quote_deadline);
    rfq.fulfillment_deadline = at(fulfillment_deadline);
    rfq.escrow.fulfillment_deadline.0 = fulfillment_deadline;
    // Of a quote deadline within a second, the gateway counts the whole of it.
    rfq.escrow.reserve_deadline.0 = fulfillment_deadline + 1;
    rfq.escrow.refund_after.0 = fulfillment_deadline + gateway_limit("refund_seconds_max");
    let quote = quoted(&with_balance(1_000_000), &rfq).await;
    assert_eq!(quote.quote().fulfill_by, at(fulfillment_deadline));
}

#[tokio::test]
async fn every_decline_names_its_reason() {
    type Change = fn(&mut Rfq);
    let cases: [(&str, Change); 17] = [
        ("UNSUPPORTED_CORRIDOR", |rfq| {
            let unknown = USD_TEN.replace("222", "444").parse().unwrap();
            let destination = vec![OwnedAsset::new(unknown, OTHER).unwrap()];
            rfq.terms = Terms::new(rfq.terms.source.clone(), destination, rfq.terms.fulfillment_amount, None);
        }),
        ("UNTRUSTED_CONTRACT", |rfq| rfq.escrow.contract = OTHER.parse().unwrap()),
        ("UNTRUSTED_CONTRACT", |rfq| rfq.fulfillment_proxies = vec![OTHER.parse().unwrap()]),
        ("UNTRUSTED_VERIFIER", |rfq| rfq.escrow.releaser = OTHER.parse().unwrap()),
        ("POLICY_NOT_HELD", |rfq| rfq.required_policies = vec!["kyc".to_owned(), "licensed".to_owned()]),
        ("DEADLINE_TOO_SHORT", |rfq| rfq.quote_deadline = at(NOW)),
        ("DEADLINE_TOO_SHORT", |rfq| rfq.escrow.fulfillment_deadline.0 = NOW + 9),
        ("DEADLINE_TOO_SHORT", |rfq| rfq.escrow.refund_after.0 = NOW + 179),
        ("DEADLINE_TOO_SHORT", |rfq| rfq.escrow.reserve_deadline.0 = NOW + 4),
        ("DEADLINE_TOO_LONG", |rfq| rfq.quote_deadline = at(NOW + 901)),
        ("DEADLINE_TOO_LONG", |rfq| rfq.fulfillment_deadline = at(NOW + 87_301)),
        ("DEADLINE_TOO_LONG", |rfq| rfq.escrow.fulfillment_deadline.0 = u64::MAX),
        ("DEADLINE_TOO_LONG", |rfq| rfq.escrow.reserve_deadline.0 = u64::MAX),
        ("DEADLINE_TOO_LONG", |rfq| rfq.escrow.refund_after.0 = u64::MAX),
        ("UNDELIVERABLE", |rfq| {
            let destination = vec![OwnedAsset::new(USD_TEN.parse().unwrap(), UNPAYABLE).unwrap()];
            rfq.terms = Terms::new(rfq.terms.source.clone(), destination, rfq.terms.fulfillment_amount, None);
        }),
        ("PRICE_ABOVE_CAP", |rfq| rfq.terms.max_source_amount = Some("101049".parse().unwrap())),
        ("INSUFFICIENT_LIQUIDITY", |rfq| rfq.terms.fulfillment_amount = "1000001".parse().unwrap()),
    ];
    for (reason, change) in cases {
        let fixture = with_balance(1_000_000);
        let mut rfq = rfq("a", &[USD_TEN], 100_000, None);
        change(&mut rfq);
        assert_eq!(answer(&fixture, &rfq, NOW).await.decline.as_deref(), Some(reason));
    }
    let fixture = with_balance(1_000_000);
    let mut held = rfq("a", &[USD_TEN], 100_000, Some(101_050));
    held.required_policies = vec!["kyc".to_owned()];
    assert!(answer(&fixture, &held, NOW).await.quote.is_some());
}

#[tokio::test]
async fn a_trusted_set_of_verifiers_is_quoted_for_by_its_id() {
    let member = |account: &str| VerifierMember {
        account: account.parse().unwrap(),
        endpoint: format!("https://{account}.example"),
    };
    let set = VerifierSet::new(2, [ACCOUNT, OTHER, UNPAYABLE].map(member).into()).unwrap();
    let id = set.id().unwrap();
    let mut config = config();
    config["verifiers"] = json!([{"chain_id": "eip155:1", "account": id, "threshold": 2, "members": set.members()}]);
    let fixture = with_balance_under(config, 1_000_000);
    let mut rfq = rfq("a", &[USD_TEN], 100_000, None);
    rfq.escrow.releaser = id;
    assert!(answer(&fixture, &rfq, NOW).await.quote.is_some());
    // One member alone is not trusted.
    rfq.escrow.releaser = ACCOUNT.parse().unwrap();
    assert_eq!(answer(&fixture, &rfq, NOW).await.decline.as_deref(), Some("UNTRUSTED_VERIFIER"));
}

#[tokio::test]
async fn a_set_is_quoted_for_with_the_chains_own_escrow_only() {
    let member = |account: &str| VerifierMember {
        account: account.parse().unwrap(),
        endpoint: format!("https://{account}.example"),
    };
    let set = VerifierSet::new(2, [ACCOUNT, OTHER].map(member).into()).unwrap();
    let id = set.id().unwrap();
    let mut config = config();
    config["chains"][0]["trusted_escrow_contracts"] = json!([OTHER]);
    config["verifiers"] = json!([
        {"chain_id": "eip155:1", "account": id, "threshold": 2, "members": set.members()},
        {"chain_id": "eip155:1", "account": ACCOUNT, "endpoint": "https://v.example"},
    ]);
    for (contract, releaser, decline) in [
        (ACCOUNT, id.as_str(), None),
        (ACCOUNT, ACCOUNT, None),
        (OTHER, ACCOUNT, None),
        (OTHER, id.as_str(), Some("UNTRUSTED_CONTRACT")),
    ] {
        let fixture = with_balance_under(config.clone(), 1_000_000);
        let mut rfq = rfq("a", &[USD_TEN], 100_000, None);
        (rfq.escrow.contract, rfq.escrow.releaser) = (contract.parse().unwrap(), releaser.parse().unwrap());
        let bid = answer(&fixture, &rfq, NOW).await;
        assert_eq!(
            (bid.decline.as_deref(), bid.quote.is_none()),
            (decline, decline.is_some()),
            "{contract} {releaser}"
        );
    }
}

#[tokio::test]
async fn less_sol_than_a_new_account_needs_is_declined() {
    let mut config = config();
    config["chains"].as_array_mut().unwrap().push(solana());
    let sol = format!("{}/slip44:501", solana()["chain_id"].as_str().unwrap());
    config["corridors"] = json!([{
        "source_asset": USD_ONE, "destination_asset": sol, "spread_bps": 0, "rate": {"source": 1, "destination": 1},
    }]);
    let (options, solana_id) = (options(config), sol.parse::<AssetId>().unwrap().chain().clone());
    let program = solana()["escrow_contract"].as_str().unwrap().to_owned();
    let inventory = Arc::new(Inventory::new(options.inventory_max.clone()));
    let purse = || Arc::new(Purse(U256::from(1_000_000_000))) as Arc<dyn DeliveryChain>;
    let chains: Chains = HashMap::from([(ChainId::evm(1), purse()), (solana_id, purse())]);
    let fixture = fixture(options, chains, inventory);
    for (lamports, decline) in [(890_879, Some("AMOUNT_TOO_SMALL")), (890_880, None)] {
        let mut rfq = rfq("a", &[USD_TEN], lamports, None);
        let recipient = OwnedAsset::new(sol.parse().unwrap(), solana()["reserver"].as_str().unwrap()).unwrap();
        rfq.terms = Terms::new(rfq.terms.source, vec![recipient], rfq.terms.fulfillment_amount, None);
        rfq.fulfillment_proxies = vec![program.parse().unwrap()];
        let bid = answer(&fixture, &rfq, NOW).await;
        assert_eq!((bid.decline.as_deref(), bid.quote.is_none()), (decline, decline.is_some()));
    }
}

#[tokio::test]
async fn what_nobody_signed_is_tried_out_at_a_limited_rate() {
    let (trials, purse, begun) = (Trials::default(), Purse(U256::ZERO), Instant::now());
    let order = |n: u8| DeliveryOrder {
        payment_id: PaymentId::derive("quoting", "trials"),
        quote_hash: Hash32::ZERO,
        destination: OwnedAsset::new(USD_TEN.parse().unwrap(), &format!("0x{n:040x}")).unwrap(),
        amount: "1".parse().unwrap(),
        delivery_account: OWN.clone(),
        proxy: OWN.clone(),
        fulfill_by: NOW,
    };
    let mut made = 0;
    for n in 1..=200 {
        made += u32::from(trials.of(&purse, &order(n), Bulkhead::Unsigned).await.is_some());
    }
    // Twenty at once, and twenty for each second since.
    let allowed = 20.0 + begun.elapsed().as_secs_f64() * 20.0 + 1.0;
    assert!(made >= 20 && f64::from(made) <= allowed, "{made} of {allowed}");
    for n in 201..=250 {
        assert_eq!(trials.of(&purse, &order(n), Bulkhead::Signed).await, Some(Trial::Delivers));
    }
}

/// What is cached of a token is of any amount, and of a coin of the amount that its recipient was shown.
#[tokio::test]
async fn a_recipient_that_takes_some_coins_is_tried_for_each_amount() {
    let (trials, purse) = (Trials::default(), Purse(U256::from(10)));
    let order = |asset: &str, amount: u64| DeliveryOrder {
        payment_id: PaymentId::derive("quoting", "amounts"),
        quote_hash: Hash32::ZERO,
        destination: OwnedAsset::new(asset.parse().unwrap(), OTHER).unwrap(),
        amount: amount.to_string().parse().unwrap(),
        delivery_account: OWN.clone(),
        proxy: OWN.clone(),
        fulfill_by: NOW,
    };
    let delivers =
        async |asset, amount| trials.of(&purse, &order(asset, amount), Bulkhead::Signed).await == Some(Trial::Delivers);
    assert!(delivers(ETH_TEN, 10).await && !delivers(ETH_TEN, 11).await && delivers(ETH_TEN, 10).await);
    assert!(delivers(USD_TEN, 10).await && delivers(USD_TEN, 11).await);
}

/// What the example file has as comments that are whole sections.
pub fn indented() -> String {
    let example = include_str!("../../config/settler.example.toml").lines();
    example.filter_map(|line| line.strip_prefix("#   ")).collect::<Vec<_>>().join("\n")
}

/// The Solana chain of the example file.
pub fn solana() -> Value {
    let section: toml::Value = toml::from_str(&indented()).unwrap();
    serde_json::to_value(&section["chains"][0]).unwrap()
}

#[tokio::test]
async fn what_does_not_fit_64_bits_is_not_delivered_on_solana() {
    let sol = format!("{}/slip44:501", solana()["chain_id"].as_str().unwrap());
    let mut config = config();
    config["chains"].as_array_mut().unwrap().push(solana());
    let rate = json!({"source": 1, "destination": 1000});
    let corridor = json!({"source_asset": USD_ONE, "destination_asset": sol, "rate": rate});
    config["corridors"].as_array_mut().unwrap().push(corridor);
    let options = options(config);
    let inventory = Arc::new(Inventory::default());
    let purse: Arc<dyn DeliveryChain> = Arc::new(Purse(U256::MAX));
    let ids = options.chains.keys().cloned().collect::<Vec<_>>();
    let chains: Chains = ids.into_iter().map(|id| (id, purse.clone())).collect();
    let fixture = fixture(options, chains, inventory);
    let recipient = bs58::encode([9; 32]).into_string();
    for (amount, decline) in [("18446744073709551615", None), ("18446744073709551616", Some("INSUFFICIENT_LIQUIDITY"))]
    {
        let mut rfq = rfq(amount, &[USD_TEN], 1, None);
        let destination = OwnedAsset::new(sol.parse().unwrap(), &recipient).unwrap();
        rfq.terms = Terms::new(rfq.terms.source.clone(), vec![destination], amount.parse().unwrap(), None);
        rfq.terms_hash = rfq.terms.hash();
        let program = solana()["fulfillment_proxy"].as_str().unwrap().parse().unwrap();
        rfq.fulfillment_proxies = vec![program];
        assert_eq!(answer(&fixture, &rfq, NOW).await.decline.as_deref(), decline, "{amount}");
    }
}
