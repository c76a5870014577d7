//! Operator service: answers operators' requests over NATS.

use std::{sync::Arc, time::Duration};

use async_nats::{Client, Message, Subscriber};
use chrono::Utc;
use futures::{StreamExt, future::join_all, stream};
use serde::Serialize;
use tokio::{sync::Semaphore, task::JoinSet, time::timeout};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use events::time::Timestamp;
use journal::ShardLog;
use journal_jetstream::store::NatsJournal;
use projections::Projections;
use sagas::runner::Misconfigured;

use super::{
    verifiers::Verifiers,
    watchdog::Unattested,
    wire::{ALL, Acknowledged, OVERDUE_MAX, OverdueReport, PREFIX, REPLY_PREFIX, Reply, Shard, Started, Status, Verb},
};

/// Questions answered at a time; more wait in the subscription's own queue.
const AT_ONCE_MAX: usize = 8;
/// How long the journal is waited for in an answer that can do without.
const JOURNAL_WAIT_MAX: Duration = Duration::from_millis(800);
/// Pause before a subscription that ended is taken anew.
const RETRY: Duration = Duration::from_millis(500);

/// What the service speaks of and acts on.
#[derive(Clone)]
pub struct Subject {
    /// The gateway's name.
    pub name: String,
    /// Tells this process from others; the owner of its shards.
    pub owner: String,
    /// Address it listens on.
    pub listen: String,
    /// Its read models.
    pub projections: Projections,
    /// The event streams.
    pub journal: NatsJournal,
    /// How long after a deadline a payment counts as overdue.
    pub grace: Duration,
    /// What its watchdog finds of deliveries that nobody attests.
    pub unattested: Unattested,
    /// Payments and batches that wait for the configuration to be mended.
    pub misconfigured: Misconfigured,
    /// The verifiers that its configuration names.
    pub verifiers: Verifiers,
}

/// Answers operators.
#[derive(Clone)]
pub struct Service {
    client: Client,
    subject: Arc<Subject>,
    started_at: Timestamp,
}

impl Service {
    /// A service that answers for `subject` once it runs.
    pub fn new(client: Client, subject: Subject) -> Self {
        Self { client, subject: Arc::new(subject), started_at: Utc::now() }
    }

    /// Answers until `shutdown`. A rebuild that it began ends with it.
    pub async fn run(self, shutdown: CancellationToken) {
        let rebuilds = TaskTracker::new();
        let mut answers = JoinSet::new();
        let free = Arc::new(Semaphore::new(AT_ONCE_MAX));
        let serve = async {
            loop {
                let Ok(mut questions) = self.subscribe().await else {
                    tokio::time::sleep(RETRY).await;
                    continue;
                };
                while let Some(question) = questions.next().await {
                    while answers.try_join_next().is_some() {}
                    // The semaphore is never closed.
                    let Ok(permit) = Arc::clone(&free).acquire_owned().await else { return };
                    let (service, rebuilds, shutdown) = (self.clone(), rebuilds.clone(), shutdown.clone());
                    answers.spawn(async move {
                        service.answer(question, &rebuilds, shutdown).await;
                        drop(permit);
                    });
                }
            }
        };
        shutdown.run_until_cancelled(serve).await;
        rebuilds.close();
        rebuilds.wait().await;
    }

    async fn subscribe(&self) -> Result<stream::Select<Subscriber, Subscriber>, async_nats::SubscribeError> {
        let own = self.client.subscribe(format!("{PREFIX}.{}.*", self.subject.name)).await?;
        let all = self.client.subscribe(format!("{PREFIX}.{ALL}.*")).await?;
        Ok(stream::select(own, all))
    }

    async fn answer(&self, question: Message, rebuilds: &TaskTracker, shutdown: CancellationToken) {
        // An answer anywhere else could land in a stream.
        let Some(reply) = question.reply.filter(|reply| reply.starts_with(REPLY_PREFIX)) else { return };
        let verb = question.subject.rsplit('.').next().and_then(Verb::of);
        let body = match verb {
            Some(Verb::Status) => self.body(Ok(self.status().await)),
            Some(Verb::Rebuild) => self.body(self.rebuild(rebuilds, shutdown)),
            Some(Verb::Overdue) => self.body(self.overdue().await),
            Some(Verb::Acknowledge) => self.body(self.acknowledge().await),
            None => self.body::<()>(Err(format!("unknown question `{}`", question.subject))),
        };
        if let Err(error) = self.client.publish(reply, body.into()).await {
            tracing::warn!(%error, "an operator was not answered");
        }
    }

    fn body<T: Serialize>(&self, outcome: Result<T, String>) -> Vec<u8> {
        let gateway = self.subject.name.clone();
        let reply = match outcome {
            Ok(result) => Reply { gateway, result: Some(result), error: None },
            Err(error) => Reply { gateway, result: None, error: Some(error) },
        };
        // Texts, numbers and lists of them always serialize; whoever asked would call an empty body unreadable.
        serde_json::to_vec(&reply).unwrap_or_default()
    }

    async fn status(&self) -> Status {
        let subject = &self.subject;
        let shards = join_all((0..subject.projections.shards()).map(|shard| self.shard(shard))).await;
        Status {
            instance: subject.owner.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            listen: subject.listen.clone(),
            started_at: self.started_at,
            uptime_seconds: u64::try_from((Utc::now() - self.started_at).num_seconds()).unwrap_or(0),
            shards,
            rebuild: subject.projections.rebuild_status().map(Into::into),
            journal_alarms: subject.projections.alarms().into_iter().map(Into::into).collect(),
            unattested: subject.unattested.count(),
            misconfigured: subject.misconfigured.count(),
            verifiers: Some(subject.verifiers.observed()),
        }
    }

    async fn shard(&self, shard: u16) -> Shard {
        let Subject { projections, journal, owner, .. } = &*self.subject;
        let (head, holder) = tokio::join!(
            timeout(JOURNAL_WAIT_MAX, journal.head(shard)),
            timeout(JOURNAL_WAIT_MAX, journal.owner(shard)),
        );
        let head = head.ok().and_then(Result::ok);
        let owned = holder.ok().and_then(Result::ok).map(|holder| holder.as_ref() == Some(owner));
        Shard::new(shard, projections.status(shard), owned, head)
    }

    fn rebuild(&self, rebuilds: &TaskTracker, shutdown: CancellationToken) -> Result<Started, String> {
        let Subject { projections, journal, .. } = &*self.subject;
        let rebuild = projections.begin_rebuild().map_err(|error| error.to_string())?;
        let started = Started { id: rebuild.id().to_owned() };
        let journal = Arc::new(journal.clone());
        // Its outcome is in the log and in the status.
        rebuilds.spawn(async move { rebuild.run(journal, shutdown).await.map(drop).unwrap_or_default() });
        Ok(started)
    }

    async fn overdue(&self) -> Result<OverdueReport, String> {
        let subject = &self.subject;
        let found = subject.projections.overdue(Utc::now(), subject.grace).await.map_err(|error| error.to_string())?;
        Ok(OverdueReport {
            total: found.payments.len() as u64,
            payments: found.payments.into_iter().take(OVERDUE_MAX).map(Into::into).collect(),
            unreadable: found.unreadable.into_iter().take(OVERDUE_MAX).collect(),
            uncertain_shards: found.uncertain,
        })
    }

    async fn acknowledge(&self) -> Result<Acknowledged, String> {
        let projections = self.subject.projections.clone();
        let dropped = tokio::task::spawn_blocking(move || projections.acknowledge_alarms()).await;
        let dropped = dropped.map_err(|error| error.to_string())?.map_err(|error| error.to_string())?;
        for alarm in &dropped {
            tracing::warn!(shard = alarm.shard, "journal alarm acknowledged by an operator: {alarm}");
        }
        Ok(Acknowledged { journal_alarms: dropped.into_iter().map(Into::into).collect() })
    }
}
