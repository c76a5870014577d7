//! Claims: when a settler looks for them, and the outcome.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use proptest::prelude::*;
use ruint::aliases::U256;
use serde_json::{Value, json};
use tokio::time::Instant;

use chains::{escrow::EscrowRecord, perform::PerformError, settler::DeliveryChain};
use events::{Account, AssetId, ChainId, PaymentId, event::EscrowPlan};
use sagas::ports::{DeliveryOrder, DeliveryState, Statement, Transient};
use settler::{
    Config, Options,
    chain_registry::Chains,
    claims::{self, ClaimSource, Outcome, Schedule},
};

const ESCROW: &str = "0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed";
const OLDER: &str = "0xfb6916095ca1df60bb79ce92ce3ea74c37c5d359";
const USD: &str = "eip155:1/erc20:0x1111111111111111111111111111111111111111";
const EUR: &str = "eip155:1/erc20:0x4444444444444444444444444444444444444444";
const COIN: &str = "eip155:1/slip44:60";
const DELIVERED: &str = "eip155:10/erc20:0x2222222222222222222222222222222222222222";
const HOUR: Duration = Duration::from_secs(3_600);
const DAY: Duration = Duration::from_secs(86_400);

fn options(change: impl FnOnce(&mut Value)) -> Options {
    let chain = |id: u64| {
        json!({
            "chain_id": format!("eip155:{id}"), "rpc_url": "http://127.0.0.1:1", "escrow_contract": ESCROW,
            "fulfillment_proxy": ESCROW, "reserver": ESCROW, "releaser": ESCROW, "required_depth": 1,
            "refund_delay_seconds": 60,
        })
    };
    let corridor = |source: &str, gas_cost: &str, units: u64| {
        json!({
            "source_asset": source, "destination_asset": DELIVERED, "gas_cost": gas_cost,
            "rate": {"source": units, "destination": 1},
        })
    };
    let mut config = json!({
        "nats": {"url": "nats://127.0.0.1:4222"},
        "seed": "07".repeat(32),
        "evm_private_key": "11".repeat(32),
        "chains": [chain(1), chain(10)],
        "verifiers": [{"chain_id": "eip155:1", "account": ESCROW, "endpoint": "http://127.0.0.1:1/"}],
        "corridors": [corridor(USD, "50", 1), corridor(EUR, "0", 1)],
    });
    change(&mut config);
    serde_json::from_value::<Config>(config).unwrap().options().unwrap()
}

fn source(asset: &str, escrow: &str) -> ClaimSource {
    ClaimSource::new(&asset.parse().unwrap(), &escrow.parse().unwrap()).unwrap()
}

/// What the test sees of a chain: each claim that was read, and each that was collected.
#[derive(Debug, PartialEq, Eq)]
enum Call {
    Asked(ClaimSource),
    Brought(ClaimSource),
}

/// A chain whose escrows owe what the test says.
struct Debtor {
    owed: Mutex<BTreeMap<ClaimSource, u64>>,
    calls: Mutex<Vec<(Duration, Call)>>,
    denies: Mutex<bool>,
    is_away: Mutex<bool>,
    started: Instant,
    account: Account,
}

impl Debtor {
    fn new(owed: impl IntoIterator<Item = (ClaimSource, u64)>) -> Arc<Self> {
        Arc::new(Self {
            owed: Mutex::new(owed.into_iter().collect()),
            calls: Mutex::default(),
            denies: Mutex::default(),
            is_away: Mutex::default(),
            started: Instant::now(),
            account: ESCROW.parse().unwrap(),
        })
    }

    fn note(&self, call: Call) {
        self.calls.lock().unwrap().push((self.started.elapsed(), call));
    }

    /// The calls since the last call of this function.
    fn calls(&self) -> Vec<(Duration, Call)> {
        std::mem::take(&mut *self.calls.lock().unwrap())
    }
}

#[async_trait]
impl DeliveryChain for Debtor {
    fn account(&self) -> &Account {
        &self.account
    }

    async fn balance(&self, _: &AssetId) -> Result<U256, Transient> {
        unreachable!("claiming reads no balance")
    }

    async fn reservation(&self, _: &PaymentId, _: &Account) -> Result<(u64, Option<EscrowRecord>), Transient> {
        unreachable!("claiming reads no payment")
    }

    async fn delivery_state(&self, _: &DeliveryOrder) -> Result<DeliveryState, Transient> {
        unreachable!("claiming reads no delivery")
    }

    async fn try_delivery(&self, _: &DeliveryOrder) -> Result<(), PerformError> {
        unreachable!("claiming delivers nothing")
    }

    async fn deliver(&self, _: &DeliveryOrder) -> Result<String, PerformError> {
        unreachable!("claiming delivers nothing")
    }

    fn signed_by(&self, _: &Statement, _: &EscrowPlan, _: &Account, _: &str) -> bool {
        unreachable!("claiming reads no signature")
    }

    async fn release(&self, _: &PaymentId, _: &EscrowPlan, _: &str) -> Result<String, PerformError> {
        unreachable!("claiming releases nothing")
    }

    async fn claimable(&self, contract: &Account, asset: &AssetId) -> Result<U256, Transient> {
        let source = ClaimSource::new(asset, contract).unwrap();
        let owed = self.owed.lock().unwrap().get(&source).copied().unwrap_or_default();
        self.note(Call::Asked(source));
        match *self.is_away.lock().unwrap() {
            true => Err(Transient::unreachable("the node is away")),
            false => Ok(U256::from(owed)),
        }
    }

    async fn claim(&self, contract: &Account, asset: &AssetId) -> Result<String, PerformError> {
        let source = ClaimSource::new(asset, contract).unwrap();
        self.note(Call::Brought(source.clone()));
        if *self.denies.lock().unwrap() {
            return Err(crate::refused("ClaimNotPaid"));
        }
        self.owed.lock().unwrap().remove(&source);
        Ok("0x01".to_owned())
    }

    async fn next_block(&self) {}
}

#[test]
fn each_token_it_is_paid_in_is_looked_for_in_each_escrow_it_trusts() {
    let options = options(|config| {
        config["chains"][0]["trusted_escrow_contracts"] = json!([OLDER.to_uppercase().replace("0X", "0x")]);
        let dearer = json!({
            "source_asset": USD, "destination_asset": COIN, "gas_cost": "70", "rate": {"source": 1, "destination": 1},
        });
        config["corridors"].as_array_mut().unwrap().push(dearer);
    });
    let sources: BTreeMap<ClaimSource, U256> = claims::sources(&options);
    let expected = [(USD, ESCROW, 50), (USD, OLDER, 50), (EUR, ESCROW, 0), (EUR, OLDER, 0)];
    assert_eq!(sources, expected.map(|(asset, escrow, cost)| (source(asset, escrow), U256::from(cost))).into());
    // No escrow owes a coin.
    assert_eq!(ClaimSource::new(&COIN.parse().unwrap(), &ESCROW.parse().unwrap()), None);
}

#[tokio::test(start_paused = true)]
async fn claims_are_brought_at_the_start_after_a_release_and_in_time() {
    let (usd, eur) = (source(USD, ESCROW), source(EUR, ESCROW));
    // Fifty is what the settler asks for gas: a claim of that much is not worth a transaction.
    let chain = Debtor::new([(usd.clone(), 50), (eur.clone(), 1)]);
    let chains: Chains = [(ChainId::evm(1), chain.clone() as Arc<dyn DeliveryChain>)].into();
    let (service, handle) = claims::open(&options(|_| {}), chains);
    let run = tokio::spawn(service.run());
    tokio::time::sleep(Duration::from_secs(1)).await;
    let start = |call| (Duration::ZERO, call);
    let (asked_usd, asked_eur) = (|| Call::Asked(usd.clone()), || Call::Asked(eur.clone()));
    assert_eq!(chain.calls(), [start(asked_usd()), start(asked_eur()), start(Call::Brought(eur.clone()))]);

    chain.owed.lock().unwrap().insert(usd.clone(), 51);
    handle.released(&usd.asset, &usd.escrow);
    tokio::time::sleep(Duration::from_secs(1)).await;
    let second = |call| (Duration::from_secs(1), call);
    assert_eq!(chain.calls(), [second(asked_usd()), second(Call::Brought(usd.clone()))]);

    tokio::time::sleep(HOUR).await;
    let hour = |seconds, call| (HOUR + Duration::from_secs(seconds), call);
    assert_eq!(chain.calls(), [hour(0, asked_eur()), hour(1, asked_usd())]);
    run.abort();
}

#[tokio::test(start_paused = true)]
async fn what_is_refused_is_tried_later_and_later_whatever_is_released() {
    let eur = source(EUR, ESCROW);
    let chain = Debtor::new([(eur.clone(), 9)]);
    *chain.denies.lock().unwrap() = true;
    let chains: Chains = [(ChainId::evm(1), chain.clone() as Arc<dyn DeliveryChain>)].into();
    let only = options(|config| config["corridors"].as_array_mut().unwrap().retain(|pair| pair["source_asset"] == EUR));
    let (service, handle) = claims::open(&only, chains);
    let run = tokio::spawn(service.run());
    for _ in 0..24 {
        tokio::time::sleep(HOUR).await;
        handle.released(&eur.asset, &eur.escrow);
    }
    let brought = |calls: Vec<(Duration, Call)>| {
        let brought = calls.into_iter().filter(|(_, call)| *call == Call::Brought(eur.clone()));
        brought.map(|(at, _)| at.as_secs() / 3_600).collect::<Vec<_>>()
    };
    assert_eq!(brought(chain.calls()), [0, 2, 6, 14]);
    // The token pays again; then each release is checked again.
    *chain.denies.lock().unwrap() = false;
    tokio::time::sleep(7 * HOUR).await;
    assert_eq!(brought(chain.calls()), [30]);
    chain.owed.lock().unwrap().insert(eur.clone(), 3);
    handle.released(&eur.asset, &eur.escrow);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(brought(chain.calls()), [31]);
    run.abort();
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_away_is_asked_again_soon_and_a_switch_turns_all_off() {
    let chain = Debtor::new([]);
    *chain.is_away.lock().unwrap() = true;
    let chains = || -> Chains { [(ChainId::evm(1), chain.clone() as Arc<dyn DeliveryChain>)].into() };
    let usd = |config: &mut Value| config["corridors"].as_array_mut().unwrap().truncate(1);
    let (service, _handle) = claims::open(&options(usd), chains());
    let run = tokio::spawn(service.run());
    tokio::time::sleep(Duration::from_secs(100)).await;
    let asked = chain.calls().into_iter().map(|(at, _)| at.as_secs()).collect::<Vec<_>>();
    assert_eq!(asked, [0, 30, 90]);
    run.abort();

    let (service, handle) =
        claims::open(&options(|config| config["claims"] = json!({"interval_seconds": 0})), chains());
    handle.released(&USD.parse().unwrap(), &ESCROW.parse().unwrap());
    service.run().await;
    assert_eq!(chain.calls(), []);
}

fn outcome() -> impl Strategy<Value = Outcome> {
    prop_oneof![Just(Outcome::Clear), Just(Outcome::Refused), Just(Outcome::HeldUp)]
}

proptest! {
    /// Whatever the outcomes and releases are: a source is never given up, never checked more often than its back-off
    /// allows, and a success ends the back-off.
    #[test]
    fn no_place_is_given_up_and_none_is_hammered(
        every_seconds in 1u64..200_000,
        steps in proptest::collection::vec((outcome(), any::<bool>(), 0u64..100_000), 1..60),
    ) {
        let every = Duration::from_secs(every_seconds);
        let usd = source(USD, ESCROW);
        let mut now = Instant::now();
        let mut schedule = Schedule::new(every, [(usd.clone(), U256::ZERO)], now);
        let mut refused = 0u32;
        for (outcome, is_released, released_after) in steps {
            let (at, next, _) = schedule.next().unwrap();
            prop_assert_eq!(&next, &usd);
            now = now.max(at);
            schedule.checked(&usd, outcome, now);
            match outcome {
                Outcome::Clear => refused = 0,
                Outcome::Refused => refused += 1,
                Outcome::HeldUp => {}
            }
            let pause = schedule.next().unwrap().0 - now;
            prop_assert!(pause > Duration::ZERO && pause <= every.max(DAY));
            match outcome {
                Outcome::Clear => prop_assert_eq!(pause, every),
                Outcome::Refused => prop_assert!(pause >= every.saturating_mul(2).min(DAY.max(every))),
                Outcome::HeldUp => prop_assert!(pause <= every),
            }
            if is_released {
                let due = schedule.next().unwrap().0;
                let then = now + Duration::from_secs(released_after);
                schedule.released(&usd, then);
                let hurried = if refused == 0 { due.min(then) } else { due };
                prop_assert_eq!(schedule.next().unwrap().0, hurried);
            }
        }
    }
}
