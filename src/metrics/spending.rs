//! What the gateway's transactions came to and cost: each is asked about once, when a commit says that its attempt is over.
//!
//! The engine does not wait for that. What is asked about is bounded; beyond it, and where a chain does not answer, a transaction is
//! counted by what the journal says of it, and its cost is not known.

use std::{collections::HashMap, sync::Arc, time::Duration};

use ::metrics::{Counter, counter};
use futures::future::join_all;
use tokio::{
    sync::{Mutex, mpsc},
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use chains::vitals::{Spent, Vitals};
use events::{ChainId, event::TransactionPrepared};
use sagas::runner::{EndedAttempt, TransactionLeg};

/// Attempts that wait to be asked about.
const WAITING_MAX: usize = 1_024;
/// Attempts that are asked about at a time.
const ASKED_MAX: usize = 4;
/// How often one is asked about whose chain does not answer, and how long after another.
const TRIES: usize = 3;
const PAUSE: Duration = Duration::from_secs(5);
/// How long one question may take.
const ANSWER_MAX: Duration = Duration::from_secs(10);

/// The handles of each chain that is connected, made once, and those that are to be asked about.
pub(crate) struct Spending {
    chains: HashMap<ChainId, Chain>,
    waiting: mpsc::Sender<EndedAttempt>,
    receiver: Mutex<mpsc::Receiver<EndedAttempt>>,
}

struct Chain {
    vitals: Arc<dyn Vitals>,
    legs: HashMap<TransactionLeg, LegCounters>,
}

struct LegCounters {
    mined: Outcome,
    reverted: Outcome,
    lost: Counter,
    replaced: Counter,
    fees: Counter,
}

struct Outcome {
    count: Counter,
    gas: Counter,
}

impl LegCounters {
    fn new(chain_id: &ChainId, leg: TransactionLeg) -> Self {
        let chain = chain_id.to_string();
        let count = |outcome: &'static str| counter!("gw_transactions_total", "chain" => chain.clone(), "leg" => leg.as_str(), "outcome" => outcome);
        let gas = |outcome: &'static str| counter!("gw_gas_spent_total", "chain" => chain.clone(), "leg" => leg.as_str(), "outcome" => outcome);
        Self {
            mined: Outcome { count: count("mined"), gas: gas("mined") },
            reverted: Outcome { count: count("reverted"), gas: gas("reverted") },
            lost: count("lost"),
            replaced: count("replaced"),
            fees: counter!("gw_fees_spent_total", "chain" => chain.clone(), "leg" => leg.as_str()),
        }
    }

    fn count(&self, spent: Option<Spent>) {
        let Some(spent) = spent else { return self.lost.increment(1) };
        let outcome = if spent.success { &self.mined } else { &self.reverted };
        outcome.count.increment(1);
        outcome.gas.increment(spent.gas);
        // A counter begins anew at 2^64, which is 18 coins of 18 decimals; to Prometheus that is a process that was restarted.
        self.fees.increment(u64::try_from(spent.fee).unwrap_or(u64::MAX));
    }
}

impl Spending {
    /// For the transactions on these chains.
    pub(crate) fn new(chains: &[Arc<dyn Vitals>]) -> Self {
        let (waiting, receiver) = mpsc::channel(WAITING_MAX);
        let chains = chains.iter().map(|vitals| {
            let chain_id = vitals.chain_id().clone();
            let legs = TransactionLeg::ALL.into_iter().map(|leg| (leg, LegCounters::new(&chain_id, leg))).collect();
            (chain_id, Chain { vitals: vitals.clone(), legs })
        });
        Self { chains: chains.collect(), waiting, receiver: Mutex::new(receiver) }
    }

    /// Another version took the place of a transaction.
    pub(crate) fn replaced(&self, version: &TransactionPrepared, leg: TransactionLeg) {
        if let Some((_, counters)) = self.of(&version.chain_id, leg) {
            counters.replaced.increment(1);
        }
    }

    /// An attempt is over.
    pub(crate) fn ended(&self, ended: EndedAttempt) {
        if let Err(full) = self.waiting.try_send(ended) {
            self.count_unasked(&full.into_inner());
        }
    }

    /// Asks about those that ended, until `shutdown`.
    pub(crate) async fn run(&self, shutdown: CancellationToken) {
        let asking = join_all((0..ASKED_MAX).map(|_| self.ask_on()));
        shutdown.run_until_cancelled(asking).await;
    }

    /// Asks about one after the other.
    async fn ask_on(&self) {
        loop {
            let next = self.receiver.lock().await.recv().await;
            // The sender lives as long as this borrow of it.
            let Some(ended) = next else { return };
            self.ask(&ended).await;
        }
    }

    async fn ask(&self, ended: &EndedAttempt) {
        let Some(newest) = ended.versions.last() else { return };
        let Some((chain, counters)) = self.of(&newest.chain_id, ended.leg) else { return };
        for attempt in 1..=TRIES {
            match timeout(ANSWER_MAX, chain.vitals.spent(&ended.versions)).await {
                Ok(Ok(spent)) => return counters.count(spent),
                Ok(Err(fault)) => tracing::debug!(chain_id = %newest.chain_id, %fault, "costs are not known"),
                Err(_) => tracing::debug!(chain_id = %newest.chain_id, "costs are not known in time"),
            }
            if attempt < TRIES {
                sleep(PAUSE).await;
            }
        }
        self.count_unasked(ended);
    }

    fn count_unasked(&self, ended: &EndedAttempt) {
        let Some(newest) = ended.versions.last() else { return };
        let Some((_, counters)) = self.of(&newest.chain_id, ended.leg) else { return };
        let landed = ended.versions.iter().any(|version| ended.landed.as_ref() == Some(&version.transaction_hash));
        if landed { counters.mined.count.increment(1) } else { counters.lost.increment(1) }
    }

    fn of(&self, chain_id: &ChainId, leg: TransactionLeg) -> Option<(&Chain, &LegCounters)> {
        let chain = self.chains.get(chain_id)?;
        Some((chain, chain.legs.get(&leg)?))
    }
}
