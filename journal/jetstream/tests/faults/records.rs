//! The history of the smaller records by two gateways: nonces of the signer ledger, parked streams, operators' acts.

use std::{collections::BTreeMap, sync::Mutex, time::Duration};

use futures::future::join_all;
use tokio::time::timeout;

use events::time::Timestamp;
use journal::{
    ledger::{self, Error as LedgerError, Ledger, Purpose},
    operator_acts::{self, Entry, OperatorActs},
    parking::{self, Error as ParkingError, Parking, Record, Replayed},
};
use journal_jetstream::{
    ledger::{NatsLedger, Options as LedgerOptions},
    operator_acts::NatsOperatorActs,
    parking::{NatsParking, Options as ParkingOptions},
};

use super::world::{Run, Violation, World, require};

/// Purposes for which a nonce is asked; each by every gateway.
const PURPOSES: usize = 6;
/// Far beyond the longest of what is tried here.
const LIVENESS: Duration = Duration::from_secs(120);
const TIMEOUT: Duration = Duration::from_millis(700);
const ATTEMPT: Duration = Duration::from_millis(40);

/// Plays the run of `seed`.
pub async fn run(world: &World, seed: u64) -> Result<(), Violation> {
    let run = world.run(seed).await;
    let played = async {
        match seed % 3 {
            0 => nonces(&run).await,
            1 => parked(&run).await,
            _ => acts(&run).await,
        }
    };
    timeout(LIVENESS, played).await.map_err(|_| "a record hangs".to_owned())?
}

fn now() -> Timestamp {
    "2026-01-02T03:04:05Z".parse().unwrap()
}

/// No nonce is given for two purposes, and no purpose has two.
async fn nonces(run: &Run) -> Result<(), Violation> {
    let options = LedgerOptions { replicas: 1, timeout: TIMEOUT, attempt_timeout: ATTEMPT };
    let mut ledgers = Vec::new();
    for gateway in &run.gateways {
        ledgers.push(NatsLedger::connect(gateway.client.clone(), options.clone()).await.unwrap());
    }
    let (account, given) = (ledger::conformance::fresh(), Mutex::new(Vec::new()));
    run.arm();
    let asks = ledgers.iter().flat_map(|ledger| {
        let (account, given) = (&account, &given);
        (0..PURPOSES).map(move |purpose| async move {
            // Whatever goes wrong, the same purpose is asked for again, a few times.
            for _ in 0..3 {
                if let Ok(nonce) = ledger.reserve(account, &Purpose(purpose.to_string()), 5, 5, now()).await {
                    given.lock().unwrap().push((purpose, nonce));
                    return;
                }
            }
        })
    });
    join_all(asks).await;
    run.calm().await;
    for ledger in &ledgers {
        for purpose in 0..PURPOSES {
            // A busy machine may take longer than a gateway waits.
            let nonce = loop {
                match ledger.reserve(&account, &Purpose(purpose.to_string()), 5, 5, now()).await {
                    Err(LedgerError::Unavailable(_) | LedgerError::Contended) => {}
                    other => break other.map_err(|error| format!("no nonce in a calm: {error}"))?,
                }
            };
            given.lock().unwrap().push((purpose, nonce));
        }
    }
    let mut of_purposes: BTreeMap<usize, u64> = BTreeMap::new();
    for (purpose, nonce) in given.into_inner().unwrap() {
        let first = *of_purposes.entry(purpose).or_insert(nonce);
        require(first == nonce, || format!("purpose {purpose} was given the nonces {first} and {nonce}"))?;
    }
    let mut nonces: Vec<u64> = of_purposes.into_values().collect();
    nonces.sort_unstable();
    let expected: Vec<u64> = (5..).take(PURPOSES).collect();
    require(nonces == expected, || format!("the nonces of {PURPOSES} purposes are {nonces:?}"))
}

/// A stream is parked once, and comes back once.
async fn parked(run: &Run) -> Result<(), Violation> {
    let options = ParkingOptions { shards: 2, replicas: 1, timeout: TIMEOUT, attempt_timeout: ATTEMPT };
    let truth = NatsParking::connect(run.truth.clone(), ParkingOptions { shards: 2, ..ParkingOptions::default() });
    let truth = truth.await.unwrap();
    let parkings: Vec<NatsParking> = {
        let mut opened = Vec::new();
        for gateway in &run.gateways {
            opened.push(NatsParking::connect(gateway.client.clone(), options.clone()).await.unwrap());
        }
        opened
    };
    let (stream_id, other) = (parking::conformance::fresh(), parking::conformance::fresh());
    truth.park(&other, 0, &parking::conformance::parked("before")).await.unwrap();
    let (put, back) = (Mutex::new(Vec::<Record>::new()), Mutex::new(Vec::<Record>::new()));
    run.arm();
    let tasks = parkings.iter().map(|parking| {
        let (stream_id, other, put, back) = (&stream_id, &other, &put, &back);
        async move {
            let mut after = 0;
            for round in 0..3 {
                if let Ok(record) = parking.park(stream_id, after, &parking::conformance::parked("again")).await {
                    after = record.sequence;
                    put.lock().unwrap().push(record);
                }
                if let Ok(all) = parking.parked().await {
                    let is_there = all.iter().any(|record| record.stream_id == *other);
                    require(is_there, || format!("what was parked before is not there: {all:?}"))?;
                }
                let replayed = Replayed::new(&format!("operator {round}"), now());
                if let Ok(record) = parking.replay(stream_id, &replayed).await {
                    after = record.sequence;
                    back.lock().unwrap().push(record);
                }
            }
            Ok(())
        }
    });
    join_all(tasks).await.into_iter().collect::<Result<Vec<()>, Violation>>()?;
    run.calm().await;
    let history = truth.history(&stream_id).await.map_err(|error| error.to_string())?;
    for pair in history.windows(2) {
        let alternates = pair[0].is_parked() || pair[1].is_parked();
        require(alternates, || format!("a stream comes back twice: {pair:?}"))?;
    }
    let (put, back) = (put.into_inner().unwrap(), back.into_inner().unwrap());
    for record in put.iter().chain(&back) {
        let same = |stored: &&Record| stored.sequence == record.sequence && stored.entry == record.entry;
        require(history.iter().any(|stored| same(&stored)), || format!("{record:?} is not in {history:?}"))?;
    }
    let mut sequences: Vec<u64> = back.iter().map(|record| record.sequence).collect();
    sequences.sort_unstable();
    sequences.dedup();
    require(sequences.len() == back.len(), || format!("one return was acknowledged twice: {back:?}"))?;
    let expected = truth.parked().await.map_err(|error| error.to_string())?;
    for parking in &parkings {
        let found = loop {
            match parking.parked().await {
                Err(ParkingError::Unavailable(_)) => {}
                other => break other.map_err(|error| format!("in a calm: {error}"))?,
            }
        };
        require(found == expected, || format!("parked is {expected:?}, and a gateway finds {found:?}"))?;
    }
    Ok(())
}

/// Each act has one order and one end, whoever says so how often.
async fn acts(run: &Run) -> Result<(), Violation> {
    let truth = NatsOperatorActs::open(run.truth.clone(), 1).await.unwrap();
    let mut gateways = Vec::new();
    for gateway in &run.gateways {
        gateways.push(NatsOperatorActs::open(gateway.client.clone(), 1).await.unwrap());
    }
    let order = operator_acts::conformance::order("alice");
    let ends = ["done", "failed"].map(|details| operator_acts::conformance::end(&order.id, details));
    let ordered = Entry::Ordered(order.clone());
    let recorded = Mutex::new(Vec::new());
    run.arm();
    let tasks = gateways.iter().zip(&ends).map(|(acts, end)| {
        let (ordered, recorded) = (&ordered, &recorded);
        async move {
            // One of its own, and one that both order.
            for entry in [&Entry::Ordered(operator_acts::conformance::order("bob")), ordered, end] {
                if let Ok(sequence) = acts.record(entry).await {
                    recorded.lock().unwrap().push((sequence, entry.clone()));
                }
            }
        }
    });
    join_all(tasks).await;
    run.calm().await;
    let stored = truth.newest(None, 10).await.map_err(|error| error.to_string())?;
    let of_act = stored.iter().filter(|stored| stored.entry.id() == Some(&order.id)).count();
    require(of_act <= 2, || format!("an act has more than an order and an end: {stored:?}"))?;
    for (sequence, entry) in recorded.into_inner().unwrap() {
        let is_there = stored.iter().any(|stored| stored.sequence == sequence && stored.entry == entry);
        require(is_there, || format!("{entry:?} was recorded at {sequence}, and is not there: {stored:?}"))?;
    }
    Ok(())
}
