//! The courier of one endpoint: runs its queue. It attempts what may be attempted, records what came of it, and ends when there is
//! nothing left to do.

use std::{
    panic::resume_unwind,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use chrono::{TimeDelta, Utc};
use tokio::{
    sync::Notify,
    task::JoinSet,
    time::{Instant, sleep, sleep_until, timeout},
};
use tokio_util::sync::CancellationToken;
use tracing::{debug, error, info, warn};

use crate::{
    deliveries::Deliveries,
    lanes::Lanes,
    message::Due,
    metering::Attempts,
    ports::{Bodies, BodyError, Call, Endpoints},
    queue::{Answer, Limits, Next, Queue},
    records,
    registry::Registry,
    signature::Keys,
    timetable::Timetable,
    webhook::{Disabled, Entry, Webhook, WebhookId},
};

/// How long a courier without work stays, and then looks once more: what was stored may not be on every copy at once.
const IDLE_MAX: Duration = Duration::from_secs(10);
/// Outcomes after which a snapshot is kept.
const SNAPSHOT_EVERY: u32 = 128;
/// Pause before the store is asked again.
const RETRY: Duration = Duration::from_secs(1);
/// The same where that takes an operator.
const OPERATOR_PAUSE: Duration = Duration::from_secs(30);
/// How long what came of the last calls is tried to be recorded when the process is to stop.
const STOP_MAX: Duration = Duration::from_secs(10);
/// Pause before a message is tried again whose body cannot be made now.
const NO_BODY_PAUSE: TimeDelta = TimeDelta::seconds(2);
/// By how much, percent, a probe of an endpoint that fails may come later.
const PROBE_JITTER_PERCENT: f64 = 10.0;

/// What couriers work with.
pub struct Equipment {
    /// The streams.
    pub deliveries: Deliveries,
    /// The webhooks.
    pub registry: Registry,
    /// Where they are called.
    pub endpoints: Arc<dyn Endpoints>,
    /// What they are told.
    pub bodies: Arc<dyn Bodies>,
    /// What it is signed with.
    pub keys: Keys,
    /// Bounds of a queue.
    pub limits: Limits,
    /// When they are called again.
    pub timetable: Timetable,
    /// How many calls there are at a time.
    pub lanes: Lanes,
    /// What is counted of them.
    pub attempts: Attempts,
}

/// Wakes a courier up, and counts how often.
#[derive(Debug, Default)]
pub struct Bell {
    rung: AtomicU64,
    notify: Notify,
}

impl Bell {
    /// There may be something new.
    pub fn ring(&self) {
        self.rung.fetch_add(1, Ordering::SeqCst);
        self.notify.notify_one();
    }

    /// How often it was rung.
    pub fn rung(&self) -> u64 {
        self.rung.load(Ordering::SeqCst)
    }
}

/// What came of an attempt.
enum Attempted {
    Answered(Answer, Duration),
    NoBody(String),
}

struct Courier<'a> {
    equipment: &'a Arc<Equipment>,
    id: &'a WebhookId,
    queue: Queue,
    calls: JoinSet<(u64, Attempted)>,
    /// Outcomes since the last snapshot.
    unkept: u32,
}

/// Delivers to one webhook until there is nothing left, or `stop`. Returns how often `bell` had been rung when it looked last.
pub async fn run(equipment: Arc<Equipment>, id: WebhookId, bell: Arc<Bell>, stop: CancellationToken) -> u64 {
    let mut heard = bell.rung();
    let opened = async {
        loop {
            heard = bell.rung();
            match open(&equipment, &id).await {
                Ok(queue) => return queue,
                Err(error) => {
                    if matches!(error, records::Error::Unreadable(_)) {
                        error!(%id, %error, "a webhook is not delivered to");
                    } else {
                        debug!(%id, %error, "a webhook's queue cannot be read");
                    }
                    sleep(pause_after(&error)).await;
                }
            }
        }
    };
    let Some(queue) = stop.run_until_cancelled(opened).await else { return heard };
    let mut courier = Courier { equipment: &equipment, id: &id, queue, calls: JoinSet::new(), unkept: 0 };
    courier.deliver(&bell, &stop, &mut heard).await;
    courier.keep().await;
    heard
}

async fn open(equipment: &Equipment, id: &WebhookId) -> Result<Queue, records::Error> {
    let _permit = equipment.lanes.opening().await;
    equipment.registry.catch_up().await?;
    equipment.deliveries.queue(id, equipment.limits, &equipment.timetable).await
}

impl Courier<'_> {
    async fn deliver(&mut self, bell: &Bell, stop: &CancellationToken, heard: &mut u64) {
        // The queue has just been read.
        let (mut may_be_more, mut idle_since) = (false, None);
        loop {
            let webhook = self.equipment.registry.get(self.id).filter(|webhook| webhook.disabled.is_none());
            let webhook = webhook.filter(|_| !stop.is_cancelled());
            if let Some(at) = webhook.as_ref().and_then(|webhook| webhook.enabled_at) {
                self.queue.enabled(at);
            }
            if webhook.is_some() && may_be_more && self.queue.wanted() > 0 {
                *heard = bell.rung();
                match self.equipment.deliveries.fill(self.id, &mut self.queue).await {
                    // As long as there is no room there may be more.
                    Ok(()) => may_be_more = self.queue.wanted() == 0,
                    Err(error) => {
                        debug!(id = %self.id, %error, "a webhook's messages cannot be read");
                        stop.run_until_cancelled(sleep(pause_after(&error))).await;
                    }
                }
            }
            let now = Utc::now();
            let next = webhook.as_ref().map_or(Next::Nothing, |_| self.queue.next(now));
            let until = match (next, webhook) {
                (Next::Attempt(sequence), Some(webhook)) => {
                    idle_since = None;
                    self.attempt(sequence, webhook);
                    continue;
                }
                (Next::Wait(at), _) => Some(Instant::now() + jittered((at - now).to_std().unwrap_or_default())),
                (_, None) if self.calls.is_empty() => return,
                _ if self.calls.is_empty() => {
                    let since: Instant = *idle_since.get_or_insert_with(Instant::now);
                    let end = since + IDLE_MAX;
                    if Instant::now() >= end {
                        // Once more, and then it ends.
                        let read_up_to = self.queue.read_up_to();
                        *heard = bell.rung();
                        let filled = self.equipment.deliveries.fill(self.id, &mut self.queue).await;
                        if filled.is_ok() && self.queue.read_up_to() == read_up_to {
                            return;
                        }
                        idle_since = None;
                        continue;
                    }
                    Some(end)
                }
                _ => None,
            };
            let stopping = stop.is_cancelled();
            tokio::select! {
                Some(ended) = self.calls.join_next() => {
                    match ended {
                        Ok((sequence, attempted)) => self.ended(sequence, attempted, stop).await,
                        // Which message it was of is not known any more: the webhook begins again.
                        Err(error) if error.is_panic() => resume_unwind(error.into_panic()),
                        Err(_) => {}
                    }
                    may_be_more = true;
                }
                () = bell.notify.notified() => (may_be_more, idle_since) = (true, None),
                () = sleep_until(until.unwrap_or_else(Instant::now)), if until.is_some() => {}
                () = stop.cancelled(), if !stopping => {}
            }
        }
    }

    fn attempt(&mut self, sequence: u64, webhook: Arc<Webhook>) {
        let Some((due, _)) = self.queue.message(sequence) else { return };
        let (due, equipment) = (due.clone(), Arc::clone(self.equipment));
        let slow = equipment.lanes.is_slow(self.id, self.queue.health());
        self.queue.start(sequence);
        self.calls.spawn(async move { (sequence, attempt(&equipment, &webhook, &due, slow).await) });
    }

    /// Records what came of an attempt, however long it takes: the order of a payment's messages rests on it.
    async fn ended(&mut self, sequence: u64, attempted: Attempted, stop: &CancellationToken) {
        let at = Utc::now();
        let answer = match attempted {
            Attempted::Answered(answer, took) => {
                self.equipment.lanes.took(self.id, took);
                if !matches!(answer, Answer::Unsendable { .. }) {
                    self.equipment.attempts.called(took);
                }
                answer
            }
            Attempted::NoBody(error) => {
                debug!(id = %self.id, error, "a message waits");
                return self.queue.put_back(sequence, at + NO_BODY_PAUSE);
            }
        };
        let Some(judgement) = self.queue.judge(sequence, answer, at, rand::random()) else { return };
        let Some((Due { payment_id, .. }, _)) = self.queue.message(sequence) else { return };
        let recording = async {
            loop {
                match self.equipment.deliveries.record(self.id, payment_id, &judgement.outcome).await {
                    Ok(stored) => return stored,
                    Err(error) => {
                        warn!(id = %self.id, %error, "what came of a delivery cannot be recorded");
                        sleep(pause_after(&error)).await;
                    }
                }
            }
        };
        let stopped = async {
            stop.cancelled().await;
            sleep(STOP_MAX).await;
        };
        let stored = tokio::select! {
            stored = recording => stored,
            // Whoever comes next attempts it again.
            () = stopped => return,
        };
        self.queue.record(stored, &judgement.outcome);
        self.equipment.attempts.recorded(&judgement.outcome);
        self.unkept += 1;
        if let Some(reason) = judgement.disable {
            info!(id = %self.id, reason, "webhook is disabled");
            let entry = Entry::Disabled(Disabled { at, reason });
            let disabled = self.equipment.registry.change(self.id, &entry, |webhook| webhook.disabled.is_some()).await;
            match disabled {
                Ok(_) => self.equipment.attempts.disabled(),
                // The next failure disables it.
                Err(error) => debug!(id = %self.id, %error, "webhook is not disabled yet"),
            }
        }
        if self.unkept >= SNAPSHOT_EVERY {
            self.keep().await;
        }
    }

    /// Keeps a snapshot. Without it the next courier reads more.
    async fn keep(&mut self) {
        if self.unkept == 0 {
            return;
        }
        let kept = timeout(STOP_MAX, self.equipment.deliveries.keep(self.id, &self.queue.snapshot())).await;
        if matches!(kept, Ok(Ok(()))) {
            self.unkept = 0;
        }
    }
}

async fn attempt(equipment: &Equipment, webhook: &Webhook, due: &Due, slow: bool) -> Attempted {
    let body = match equipment.bodies.body(due).await {
        Ok(body) => body,
        Err(BodyError::Unavailable(error)) => return Attempted::NoBody(error),
        Err(BodyError::Never(error)) => return Attempted::Answered(Answer::Unsendable { error }, Duration::ZERO),
    };
    let originator = &webhook.registration.owner.originator;
    let _permit = equipment.lanes.call(originator, slow).await;
    let (timestamp, id) = (Utc::now().timestamp(), due.id.as_str());
    let signature = equipment.keys.sign(&webhook.id, id, timestamp, &body);
    let (url, originator) = (webhook.registration.url.clone(), originator.clone());
    let call = Call { url, originator, id: id.to_owned(), timestamp, signature, body };
    let began = Instant::now();
    let answer = equipment.endpoints.call(call).await;
    Attempted::Answered(answer, began.elapsed())
}

fn pause_after(error: &records::Error) -> Duration {
    match error {
        records::Error::Full | records::Error::Unreadable(_) => OPERATOR_PAUSE,
        records::Error::Conflict | records::Error::Unavailable(_) => RETRY,
    }
}

fn jittered(pause: Duration) -> Duration {
    pause.mul_f64(1.0 + rand::random::<f64>() * PROBE_JITTER_PERCENT / 100.0)
}
