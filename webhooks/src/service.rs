//! The service: which parts of the work are this process's, and whoever does them.
//!
//! Parts are dealt out over the shards that take commits: whoever owns a shard in the engine does what was dealt to it. So several gateways
//! share the work, and another takes over what one that died has left, without a lease of its own. Nothing rests on there being only one:
//! what both do is a repeat that receivers know by its id.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use futures::StreamExt;
use tokio::{
    task::{self, AbortHandle, JoinError, JoinSet},
    time::{MissedTickBehavior, interval, sleep},
};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info};

use crate::{
    courier::{self, Bell, Equipment},
    feed::Feed,
    ports::Ownership,
    records,
    webhook::WebhookId,
};

/// How often it is asked what is this process's.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How often a partition is looked at besides hearing of it.
const NEWS_EVERY: Duration = Duration::from_secs(2);
const RETRY: Duration = Duration::from_millis(500);
/// Pause before the courier of a webhook begins again that panicked.
const PANIC_PAUSE: Duration = Duration::from_secs(5);

/// Delivers webhooks.
pub struct Service {
    equipment: Arc<Equipment>,
    feed: Feed,
    ownership: Arc<dyn Ownership>,
    shards: Arc<dyn Fn() -> u16 + Send + Sync>,
    takeover_pause: Duration,
}

/// A part of the work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Feed(u16),
    Partition(u16),
}

struct Running {
    stop: CancellationToken,
    task: AbortHandle,
}

impl Service {
    /// One over these. `shards` tells how many shards there are. What was under way at an earlier owner of a partition is waited for as long as
    /// `takeover_pause`: the longest that a call may take.
    pub fn new(
        equipment: Arc<Equipment>,
        feed: Feed,
        ownership: Arc<dyn Ownership>,
        shards: Arc<dyn Fn() -> u16 + Send + Sync>,
        takeover_pause: Duration,
    ) -> Self {
        Self { equipment, feed, ownership, shards, takeover_pause }
    }

    /// Works until `shutdown`. Calls that are under way then are waited for, and what came of them is recorded.
    pub async fn run(self, shutdown: CancellationToken) {
        let mut running: BTreeMap<Part, Running> = BTreeMap::new();
        // Also those that were stopped and have not ended yet.
        let mut tasks = JoinSet::new();
        let deal = async {
            let mut ticks = interval(LOOK_EVERY);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                ticks.tick().await;
                match self.ownership.held().await {
                    Ok(held) => {
                        let feeds = (0..(self.shards)()).filter(|shard| held.has(*shard)).map(Part::Feed);
                        let partitions = (0..self.equipment.deliveries.partitions()).filter(|part| held.has(*part));
                        let own: Vec<Part> = feeds.chain(partitions.map(Part::Partition)).collect();
                        self.change(&mut running, &mut tasks, &own);
                    }
                    // Whoever had a part keeps it: nobody can take it over either.
                    Err(error) => debug!(error, "who owns which shard cannot be read"),
                }
            }
        };
        shutdown.run_until_cancelled(deal).await;
        running.values().for_each(|part| part.stop.cancel());
        // A part that panicked has ended.
        while tasks.join_next().await.is_some() {}
    }

    fn change(&self, running: &mut BTreeMap<Part, Running>, tasks: &mut JoinSet<()>, own: &[Part]) {
        while tasks.try_join_next().is_some() {}
        running.retain(|part, running| {
            let keeps = own.contains(part) && !running.task.is_finished();
            if !keeps {
                running.stop.cancel();
            }
            keeps
        });
        for part in own {
            running.entry(*part).or_insert_with(|| {
                let stop = CancellationToken::new();
                let task = match *part {
                    Part::Feed(shard) => {
                        let (feed, stop) = (self.feed.clone(), stop.clone());
                        tasks.spawn(async move { feed.run(shard, stop).await })
                    }
                    Part::Partition(partition) => {
                        let (equipment, stop) = (Arc::clone(&self.equipment), stop.clone());
                        let pause = self.takeover_pause;
                        tasks.spawn(async move { Partition::new(equipment, partition, stop).run(pause).await })
                    }
                };
                Running { stop, task }
            });
        }
    }
}

/// The couriers of a partition.
struct Partition {
    equipment: Arc<Equipment>,
    partition: u16,
    stop: CancellationToken,
    bells: HashMap<WebhookId, Arc<Bell>>,
    couriers: JoinSet<u64>,
    /// Whose courier each task is.
    of_task: HashMap<task::Id, WebhookId>,
    /// Webhooks whose couriers ended because they are disabled.
    disabled: HashSet<WebhookId>,
}

impl Partition {
    fn new(equipment: Arc<Equipment>, partition: u16, stop: CancellationToken) -> Self {
        Self {
            equipment,
            partition,
            stop,
            bells: HashMap::new(),
            couriers: JoinSet::new(),
            of_task: HashMap::new(),
            disabled: HashSet::new(),
        }
    }

    async fn run(mut self, pause: Duration) {
        let stop = self.stop.clone();
        if stop.run_until_cancelled(sleep(pause)).await.is_none() {
            return;
        }
        info!(partition = self.partition, "webhooks of a partition are delivered");
        let mut next = None;
        while !stop.is_cancelled() {
            if let Err(error) = self.follow(&mut next).await {
                debug!(partition = self.partition, %error, "webhooks of a partition wait");
                stop.run_until_cancelled(sleep(RETRY)).await;
            }
        }
        while self.couriers.join_next().await.is_some() {}
    }

    async fn follow(&mut self, next: &mut Option<u64>) -> Result<(), records::Error> {
        let (stop, equipment) = (self.stop.clone(), Arc::clone(&self.equipment));
        let mut hints = equipment.deliveries.hints(self.partition).await?;
        let mut from = match *next {
            Some(next) => next,
            None => {
                let head = equipment.deliveries.head().await?;
                equipment.registry.catch_up().await?;
                for id in equipment.registry.of_partition(self.partition, equipment.deliveries.partitions()) {
                    self.ring(id);
                }
                head + 1
            }
        };
        loop {
            *next = Some(from);
            let (webhooks, last) = equipment.deliveries.news(self.partition, from).await?;
            webhooks.into_iter().for_each(|id| self.ring(id));
            if let Some(last) = last {
                from = last + 1;
                continue;
            }
            equipment.registry.catch_up().await?;
            self.ring_enabled();
            tokio::select! {
                () = stop.cancelled() => return Ok(()),
                hint = hints.next() => match hint {
                    // Heard when it was sent, which is before it is stored; what is not there yet is found at the next look.
                    Some(_) => sleep(Duration::from_millis(10)).await,
                    None => return Ok(()),
                },
                () = sleep(NEWS_EVERY) => {}
                Some(ended) = self.couriers.join_next_with_id() => self.ended(ended),
            }
        }
    }

    /// Has couriers begin again for webhooks that were enabled. Deleted ones are forgotten.
    fn ring_enabled(&mut self) {
        let registry = &self.equipment.registry;
        let is_disabled = |id: &WebhookId| registry.get(id).is_some_and(|webhook| webhook.disabled.is_some());
        let enabled: Vec<WebhookId> = self.disabled.extract_if(|id| !is_disabled(id)).collect();
        enabled.into_iter().for_each(|id| self.ring(id));
    }

    fn ring(&mut self, id: WebhookId) {
        match self.bells.get(&id) {
            Some(bell) => bell.ring(),
            None => self.start(id, Duration::ZERO),
        }
    }

    fn start(&mut self, id: WebhookId, pause: Duration) {
        let bell = Arc::new(Bell::default());
        self.bells.insert(id.clone(), Arc::clone(&bell));
        let (equipment, stop) = (Arc::clone(&self.equipment), self.stop.clone());
        let of = id.clone();
        let task = self.couriers.spawn(async move {
            stop.run_until_cancelled(sleep(pause)).await;
            courier::run(equipment, of, bell, stop).await
        });
        self.of_task.insert(task.id(), id);
    }

    fn ended(&mut self, ended: Result<(task::Id, u64), JoinError>) {
        let task = ended.as_ref().map_or_else(JoinError::id, |(task, _)| *task);
        let Some(id) = self.of_task.remove(&task) else { return };
        let Ok((_, heard)) = ended else {
            tracing::error!(partition = self.partition, %id, "the courier of a webhook panicked, and begins again");
            self.bells.remove(&id);
            return self.start(id, PANIC_PAUSE);
        };
        if self.equipment.registry.get(&id).is_some_and(|webhook| webhook.disabled.is_some()) {
            self.bells.remove(&id);
            self.disabled.insert(id);
        } else if self.bells.remove(&id).is_some_and(|bell| bell.rung() > heard) {
            self.start(id, Duration::ZERO);
        }
    }
}
