//! Working shards: who drives which payment.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use events::{PaymentId, journal::WakeUp};
use tokio::task::{Id, JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

use super::{Engine, backoff};
use crate::ports::Transient;

/// Competes for all shards of the journal and drives their payments.
pub struct Runner {
    engine: Arc<Engine>,
    owner: String,
}

impl Runner {
    /// A runner that competes under the name `owner`, unique to this process.
    pub fn new(engine: Engine, owner: String) -> Self {
        Self { engine: Arc::new(engine), owner }
    }

    /// Runs until `shutdown`; then gives all shards up, so that another process goes on at once.
    pub async fn run(self, shutdown: CancellationToken) {
        let mut shards = JoinSet::new();
        for shard in 0..self.engine.ports().journal.shards() {
            let worker = Worker::new(self.engine.clone(), shard, shutdown.clone());
            shards.spawn(worker.run(self.owner.clone()));
        }
        while shards.join_next().await.is_some() {}
    }
}

/// The worker of one shard.
struct Worker {
    engine: Arc<Engine>,
    shard: u16,
    shutdown: CancellationToken,
    running: HashSet<PaymentId>,
    payment_of: HashMap<Id, PaymentId>,
    tasks: JoinSet<()>,
}

impl Worker {
    fn new(engine: Arc<Engine>, shard: u16, shutdown: CancellationToken) -> Self {
        let (running, payment_of, tasks) = (HashSet::new(), HashMap::new(), JoinSet::new());
        Self { engine, shard, shutdown, running, payment_of, tasks }
    }

    async fn run(mut self, owner: String) {
        let journal = self.engine.ports().journal.clone();
        let shutdown = self.shutdown.clone();
        let mut claim = journal.work(self.shard, &owner).await;
        let mut faults = 0;
        loop {
            tokio::select! {
                () = shutdown.cancelled() => break,
                Some(ended) = self.tasks.join_next_with_id() => self.ended(ended),
                wake_up = claim.next() => match wake_up {
                    Ok(wake_up) => {
                        faults = 0;
                        self.woken(wake_up).await;
                    }
                    Err(error) => {
                        faults += 1;
                        tracing::warn!(shard = self.shard, faults, %error, "no wake-ups");
                        self.engine.ports().clock.sleep(backoff(self.engine.options(), faults)).await;
                    }
                },
            }
        }
        // A task may be stopped anywhere: what it had not journaled is done again by whoever drives the payment next.
        self.stop_all();
        claim.release().await;
    }

    async fn woken(&mut self, wake_up: WakeUp) {
        match wake_up {
            WakeUp::Acquired => {
                tracing::info!(shard = self.shard, "shard acquired");
                self.take_over().await;
            }
            WakeUp::Event(payment_id) => self.start(payment_id),
            WakeUp::Lost => {
                tracing::warn!(shard = self.shard, "shard lost");
                self.stop_all();
            }
        }
    }

    /// Looks at every open payment of the shard.
    async fn take_over(&mut self) {
        let mut faults = 0;
        loop {
            let pause = match self.open_payments().await {
                Ok(open) => {
                    tracing::info!(shard = self.shard, open = open.len(), "open payments taken over");
                    open.into_iter().for_each(|payment_id| self.start(payment_id));
                    return;
                }
                Err(fault) => {
                    faults += 1;
                    tracing::warn!(shard = self.shard, faults, %fault, "open payments unknown");
                    backoff(self.engine.options(), faults)
                }
            };
            tokio::select! {
                () = self.shutdown.cancelled() => return,
                () = self.engine.ports().clock.sleep(pause) => {}
            }
        }
    }

    async fn open_payments(&self) -> Result<Vec<PaymentId>, Transient> {
        let ports = self.engine.ports();
        let head = ports.journal.head(self.shard).await.map_err(|error| Transient(error.to_string()))?;
        ports.open_payments.open_payments(self.shard, head).await
    }

    fn start(&mut self, payment_id: PaymentId) {
        if !self.running.insert(payment_id.clone()) {
            return;
        }
        let engine = self.engine.clone();
        let id = payment_id.clone();
        let task = self.tasks.spawn(async move {
            if let Err(stuck) = engine.drive(&id).await {
                tracing::error!(payment_id = %id, %stuck, "payment is stuck and needs an operator");
            }
        });
        self.payment_of.insert(task.id(), payment_id);
    }

    fn ended(&mut self, ended: Result<(Id, ()), JoinError>) {
        let id = match &ended {
            Ok((id, ())) => *id,
            Err(error) => error.id(),
        };
        let Some(payment_id) = self.payment_of.remove(&id) else { return };
        self.running.remove(&payment_id);
        if ended.is_err_and(|error| error.is_panic()) {
            // The next event of the payment, or the next owner of the shard, looks at it again; the rest go on.
            tracing::error!(%payment_id, "driving the payment panicked");
        }
    }

    fn stop_all(&mut self) {
        self.tasks.abort_all();
        self.running.clear();
        self.payment_of.clear();
    }
}
