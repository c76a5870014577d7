//! Settlements by seed: on chains that take blocks back, with calls that are lost, and in processes that die at any call. What must
//! hold is looked at whenever something is delivered and at the end: a settler delivers once, only for its own reservation in its own
//! token, settled and still there, and does so wherever that is in time.
//!
//! The gateway does not answer here: as far as it is concerned each process finds an award that came before.

mod careless;
mod world;

use std::{collections::HashMap, sync::Arc, time::Duration};

use async_nats::jetstream;
use chrono::Utc;
use ed25519_dalek::SigningKey;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use chains::settler::DeliveryChain;
use events::{
    ChainId, Did, OwnedAsset, PaymentId, Terms,
    event::{EscrowPlan, VerifierRef},
    quote::{Quote, SignedQuote},
    time::{from_unix_seconds, unix_seconds},
};
use protocol::{AwardNotice, Version, message_signature::Signer};

use self::{
    careless::{Careless, Fault},
    world::World,
};
use super::{Settlement, SettlementContext};
use crate::{
    config::{Config, Options},
    inventory::Inventory,
    job::Job,
    nats::Nats,
    trials::Trials,
    verifier,
};

const ACCOUNT: &str = "0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed";
const OTHER: &str = "0xfb6916095ca1df60bb79ce92ce3ea74c37c5d359";
const SOURCE: &str = "eip155:1/erc20:0x1111111111111111111111111111111111111111";
const DESTINATION: &str = "eip155:10/erc20:0x2222222222222222222222222222222222222222";
/// Seeds that the settlement as it is has to pass.
const SEEDS: u64 = 120;
/// Of the chains' seconds an award may take so many.
const LASTS_MAX: Duration = Duration::from_secs(3_600);
/// From now on the payment's escrow may be reserved for so many seconds, and the promise lasts for so many.
const RESERVABLE_SECONDS: u64 = 240;
const PROMISED_SECONDS: u64 = 7_200;

/// Each with the number of seeds within which it is caught.
const MUTANTS: [(Fault, u64); 6] = [
    (Fault::KeyOfEachTry, 40),
    (Fault::ReservationNotAwaited, 10),
    (Fault::ReservationWithoutDepth, 40),
    (Fault::AnyReservationIsMine, 40),
    (Fault::AnyTokenWillDo, 40),
    (Fault::RefundIsNotSeen, 40),
];

fn key() -> SigningKey {
    SigningKey::from_bytes(&[7; 32])
}

fn options() -> Options {
    let chain = |id: u64, asset: &str| {
        json!({
            "chain_id": format!("eip155:{id}"), "rpc_url": "http://127.0.0.1:1", "escrow_contract": ACCOUNT,
            "fulfillment_proxy": ACCOUNT, "reserver": ACCOUNT, "releaser": ACCOUNT, "required_depth": 1,
            "refund_delay_seconds": 60,
            "assets": [{"asset_identifier": asset, "symbol": "USD", "decimals": 6}],
        })
    };
    let config = json!({
        "nats": {"url": "nats://127.0.0.1:4222"},
        "seed": "07".repeat(32),
        "evm_private_key": "11".repeat(32),
        "chains": [chain(1, SOURCE), chain(10, DESTINATION)],
        "verifiers": [{"chain_id": "eip155:1", "account": ACCOUNT, "endpoint": "http://127.0.0.1:1"}],
        "corridors": [{"source_asset": SOURCE, "destination_asset": DESTINATION, "spread_bps": 100}],
    });
    serde_json::from_value::<Config>(config).unwrap().options().unwrap()
}

/// An award of this settler's quote.
fn job(now: u64, options: &Options) -> Job {
    let owned = |asset: &str| OwnedAsset::new(asset.parse().unwrap(), OTHER).unwrap();
    let terms = Terms::new(owned(SOURCE), vec![owned(DESTINATION)], "1000".parse().unwrap(), None);
    let (payment_id, fulfill_by) = (PaymentId::derive("payer", "award-1"), now + PROMISED_SECONDS);
    let quote: SignedQuote = Quote {
        kind: Quote::kind(),
        auction_id: payment_id.to_string(),
        terms_hash: terms.hash(),
        settler: Did::from_ed25519(&key().verifying_key()),
        source_chain: ChainId::evm(1),
        source_amount: "1010".parse().unwrap(),
        payout_account: ACCOUNT.parse().unwrap(),
        escrow_contract: ACCOUNT.parse().unwrap(),
        destination: terms.destination()[0].clone(),
        fulfillment_amount: terms.fulfillment_amount,
        delivery_account: ACCOUNT.parse().unwrap(),
        fulfillment_proxy: ACCOUNT.parse().unwrap(),
        fulfill_by: from_unix_seconds(fulfill_by).unwrap(),
        valid_until: from_unix_seconds(now + 60).unwrap(),
    }
    .sign(&key(), from_unix_seconds(now).unwrap())
    .unwrap();
    let verifier = VerifierRef::single(ACCOUNT.parse().unwrap(), "http://127.0.0.1:1".to_owned());
    let escrow = EscrowPlan {
        chain_id: ChainId::evm(1),
        contract: ACCOUNT.parse().unwrap(),
        reserver: ACCOUNT.parse().unwrap(),
        releaser: verifier.account.clone(),
        reserve_deadline: now + RESERVABLE_SECONDS,
        fulfillment_deadline: fulfill_by,
        refund_after: fulfill_by + 60,
    };
    let notice = AwardNotice {
        version: Version,
        settler: quote.quote().settler.clone(),
        payment_id,
        terms,
        escrow: (&escrow).into(),
        quote: quote.document().to_owned(),
        quote_hash: quote.hash(),
        verifier: (&verifier).into(),
        payloads: Vec::new(),
        escrowed: None,
    };
    Job::accept(notice, options).unwrap()
}

/// What a process has in memory, on a connection that nobody answers on.
async fn context(options: &Options) -> Arc<SettlementContext> {
    let client = async_nats::ConnectOptions::new().retry_on_initial_connect();
    let client = client.connect("127.0.0.1:1").await.unwrap();
    Arc::new(SettlementContext {
        inventory: Arc::new(Inventory::new(HashMap::new())),
        trials: Arc::new(Trials::default()),
        verifiers: verifier::Client::new(Signer::new(key())).unwrap(),
        nats: Nats { token: options.settler.token(), jetstream: jetstream::new(client.clone()), client },
        options: Arc::new(options.clone()),
    })
}

/// Settles the award of `seed`, with chains that are understood with this fault, and returns what does not hold.
fn play(seed: u64, fault: Option<Fault>) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let options = options();
        let now = unix_seconds(Utc::now());
        let job = job(now, &options);
        let world = Arc::new(World::new(seed, now, job.reservation()));
        let mining = tokio::spawn(world.clone().mine());
        let settled = async {
            world.first_process().await;
            loop {
                let alive = world.begin_process();
                let chain = || -> Arc<dyn DeliveryChain> { Arc::new(Careless::new(world.clone(), fault)) };
                let settlement = Settlement::new(context(&options).await, job.clone(), chain(), chain(), true);
                tokio::select! {
                    outcome = settlement.run(CancellationToken::new()) => return outcome,
                    () = alive.cancelled() => world.next_process().await,
                }
            }
        };
        let outcome = tokio::time::timeout(LASTS_MAX, settled).await.ok();
        mining.abort();
        world.judge(outcome.as_ref())
    })
}

#[test]
fn an_award_is_settled_as_it_must_be_whatever_happens() {
    let broken: Vec<_> = (1..=SEEDS).filter_map(|seed| play(seed, None).err().map(|why| (seed, why))).collect();
    assert!(broken.is_empty(), "{broken:#?}");
}

#[test]
fn every_careless_settler_is_caught() {
    for (fault, within) in MUTANTS {
        let caught = (1..=within).find_map(|seed| play(seed, Some(fault)).err().map(|why| (seed, why)));
        let (seed, why) = caught.unwrap_or_else(|| panic!("{fault:?} is not caught within {within} seeds"));
        println!("{fault:?}: seed {seed}: {why}");
    }
}
