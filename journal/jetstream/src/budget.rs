//! Gas budgets on NATS JetStream: stream `GAS`, one subject a budget, of which the last entry is kept, for [`KEPT`].
//!
//! The server must permit publishing to `gw.gas.>` and `$JS.API.STREAM.MSG.GET.GAS`, and for [`NatsBudgets::connect`] to
//! `$JS.API.STREAM.INFO.GAS` and `$JS.API.STREAM.CREATE.GAS`.

use std::{sync::Arc, time::Duration};

use async_nats::{
    Client,
    jetstream::stream::{Config, DiscardPolicy, RetentionPolicy, StorageType},
};
use async_trait::async_trait;
use rand::Rng;
use tokio::time::{Instant, sleep};
use tracing::debug;

use events::{CommitId, time::Timestamp};
use journal::{
    budget::{
        Budget, BudgetKey, BudgetState, Budgets, Error, Room,
        state::{self, Entry},
    },
    ledger::Purpose,
};

pub use crate::requests::ConnectError;
use crate::{
    ledger::Options,
    requests::{self, Pick, Published},
};

const STREAM: &str = "GAS";
const SUBJECTS: &str = "gw.gas.*.*.*";
/// How long an entry that nothing is added to is kept: a little longer than the longest window there may be.
pub const KEPT: Duration = Duration::from_secs(31 * 86_400);
/// Bytes of all entries; beyond them those go that were written longest ago.
const BYTES_MAX: i64 = 64 * 1024 * 1024;
/// Most times that others may come first before a change gives up.
const CONFLICTS_MAX: u32 = 64;
const PAUSE: Duration = Duration::from_millis(10);

/// Gas budgets on JetStream, shared by all gateways on it. Cheap to clone.
#[derive(Clone)]
pub struct NatsBudgets(Arc<Inner>);

struct Inner {
    client: Client,
    options: Options,
}

impl NatsBudgets {
    /// Opens the budgets, creating their stream when it is missing.
    ///
    /// # Errors
    /// [`ConnectError::Mismatch`] when the stream exists with other settings, [`ConnectError::Unavailable`] when the
    /// server does not answer.
    pub async fn connect(client: Client, options: Options) -> Result<Self, ConnectError> {
        let wanted = Config {
            name: STREAM.to_owned(),
            subjects: vec![SUBJECTS.to_owned()],
            storage: StorageType::File,
            retention: RetentionPolicy::Limits,
            discard: DiscardPolicy::Old,
            max_messages_per_subject: 1,
            max_bytes: BYTES_MAX,
            max_age: KEPT,
            allow_direct: true,
            num_replicas: options.replicas,
            ..Config::default()
        };
        let found = requests::ensure_stream(&async_nats::jetstream::new(client.clone()), wanted.clone()).await?;
        let settings = [
            ("subjects", format!("{:?}", found.subjects), format!("{:?}", wanted.subjects)),
            (
                "max_msgs_per_subject",
                found.max_messages_per_subject.to_string(),
                wanted.max_messages_per_subject.to_string(),
            ),
            ("max_age", format!("{:?}", found.max_age), format!("{:?}", wanted.max_age)),
        ];
        if let Some((setting, found, expected)) = settings.into_iter().find(|(_, found, wanted)| found != wanted) {
            return Err(ConnectError::Mismatch {
                stream: STREAM.to_owned(),
                setting: setting.to_owned(),
                found,
                expected,
            });
        }
        Ok(Self(Arc::new(Inner { client, options })))
    }
}

fn subject(key: &BudgetKey) -> String {
    format!("gw.gas.{}", key.as_str())
}

impl Inner {
    /// The last entry of a subject, with its sequence; sequence 0 for none.
    async fn last(&self, subject: &str, deadline: Instant) -> Result<(Option<Entry>, u64), Error> {
        loop {
            if !requests::connected_by(&self.client, deadline).await {
                return Err(Error::Unavailable("no connection".into()));
            }
            let timeout = self.options.attempt_timeout;
            match requests::leader_get(&self.client, STREAM, &Pick::Last { subject }, timeout).await {
                Ok(None) => return Ok((None, 0)),
                Ok(Some(stored)) => return Ok((Some(Entry::decode(&stored.body)?), stored.sequence)),
                Err(reason) if Instant::now() + PAUSE >= deadline => return Err(Error::Unavailable(reason)),
                Err(_) => sleep(PAUSE).await,
            }
        }
    }

    async fn read(&self, key: &BudgetKey) -> Result<Option<Entry>, Error> {
        let deadline = Instant::now() + self.options.timeout;
        self.last(&subject(key), deadline).await.map(|(last, _)| last)
    }

    /// Stores what `decide` makes of the last entry, and decides again whenever another came first. All that is decided on
    /// is in the entry, so a change whose answer was lost is found there and made once.
    async fn write<T>(
        &self,
        key: &BudgetKey,
        decide: impl Fn(Option<&Entry>) -> (T, Option<Entry>),
    ) -> Result<T, Error> {
        let subject = subject(key);
        let deadline = Instant::now() + self.options.timeout;
        let mut conflicts = 0;
        loop {
            let (last, sequence) = self.last(&subject, deadline).await?;
            let (result, entry) = match decide(last.as_ref()) {
                (result, None) => return Ok(result),
                (result, Some(entry)) => (result, entry),
            };
            let headers = requests::conditional(CommitId::random().as_str(), sequence);
            let body = entry.encode()?.into();
            let reason =
                match requests::publish(&self.client, &subject, headers, body, self.options.attempt_timeout).await {
                    Published::Stored { .. } => return Ok(result),
                    Published::TooLarge(reason) => return Err(Error::Damaged(reason)),
                    Published::WrongSequence => {
                        conflicts += 1;
                        if conflicts > CONFLICTS_MAX {
                            return Err(Error::Contended);
                        }
                        "another came first".to_owned()
                    }
                    Published::Duplicate { .. } => "the server takes it for a duplicate".to_owned(),
                    Published::NotStored(reason) | Published::Sealed(reason) | Published::Unclear(reason) => reason,
                };
            debug!(subject, reason, "an entry is tried again");
            let pause = rand::thread_rng().gen_range(PAUSE / 10..PAUSE);
            if Instant::now() + pause >= deadline {
                return Err(Error::Unavailable(reason));
            }
            sleep(pause).await;
        }
    }
}

#[async_trait]
impl Budgets for NatsBudgets {
    async fn charge_one(
        &self,
        budget: &Budget,
        purpose: &Purpose,
        gas: u64,
        others: &[BudgetKey],
        now: Timestamp,
    ) -> Result<Room, Error> {
        self.0.write(&budget.key, |last| state::charge(last, budget, purpose, gas, others, now)).await
    }

    async fn close_one(&self, key: &BudgetKey, purpose: &Purpose, lost: u64, now: Timestamp) -> Result<bool, Error> {
        let close = |last: Option<&Entry>| {
            let changed = state::close(last, purpose, lost, now);
            (changed.is_some(), changed)
        };
        self.0.write(key, close).await
    }

    async fn charged(&self, key: &BudgetKey, purpose: &Purpose) -> Result<Option<Vec<BudgetKey>>, Error> {
        Ok(self.0.read(key).await?.and_then(|entry| entry.charged(purpose)))
    }

    async fn room_of(&self, budget: &Budget, gas: u64, now: Timestamp) -> Result<Room, Error> {
        Ok(state::room(self.0.read(&budget.key).await?.as_ref(), budget, gas, now))
    }

    async fn state_of(
        &self,
        budget: &Budget,
        purpose: &Purpose,
        gas: u64,
        now: Timestamp,
    ) -> Result<BudgetState, Error> {
        Ok(state::state_of(self.0.read(&budget.key).await?.as_ref(), budget, purpose, gas, now))
    }
}
