//! The signer ledger on NATS JetStream: stream `SIG`, one subject an account, everything kept as an audit trail.
//!
//! The server must permit publishing to `gw.sig.>`, `$JS.API.STREAM.MSG.GET.SIG`, `$JS.API.DIRECT.GET.SIG` and
//! `$JS.API.STREAM.INFO.SIG`, and for [`NatsLedger::connect`] to `$JS.API.STREAM.CREATE.SIG`.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use async_nats::Client;
use async_trait::async_trait;
use rand::Rng;
use tokio::time::{Instant, sleep, timeout_at};
use tracing::debug;

use events::{CommitId, mutant, time::Timestamp};
use journal::ledger::{
    Error, Ledger, Purpose, Reservation, SignerAccount,
    state::{Changed, Decision, Entry, decide, give_back, retire},
};

pub use crate::requests::ConnectError;
use crate::requests::{self, BatchRequest, Pick, Published, Stored, StreamPlan};

/// Name of the JetStream stream that holds the ledger.
pub const STREAM: &str = "SIG";
/// Most times that others may come first before a reservation gives up.
const CONFLICTS_MAX: u32 = 64;
const PAUSE: Duration = Duration::from_millis(10);
/// Looks after which an entry that the server counts and does not find is taken for lost.
const LOST_LOOKS: u32 = 4;
/// Most bytes of the last entry.
const LAST_BYTES: usize = 2 * 1024 * 1024;

/// Options of the ledger: layout and time-outs.
#[derive(Debug, Clone)]
pub struct Options {
    /// Replicas of the stream: 1 on one machine, 3 in a cluster.
    pub replicas: usize,
    /// How long a reservation or a read tries.
    pub timeout: Duration,
    /// How long one request waits for its answer before it is asked again.
    pub attempt_timeout: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self { replicas: 1, timeout: Duration::from_secs(10), attempt_timeout: Duration::from_secs(2) }
    }
}

/// The signer ledger on JetStream. Cheap to clone.
#[derive(Clone)]
pub struct NatsLedger(Arc<Inner>);

/// The next step for an account after its last entry.
enum Step<T> {
    /// Nothing; this is the answer.
    Done(T),
    /// This entry is to be stored; then this is the answer.
    Store(T, Box<Entry>),
}

/// What is found of an account.
enum Found {
    /// No entry.
    Nothing,
    /// Its last entry, and how many there are.
    Last(Box<Last>),
    /// The server has lost an entry behind this sequence, or another process has just written one.
    Lost(u64, String),
}

/// The last entry of an account.
struct Last {
    entry: Entry,
    sequence: u64,
    /// Which entry of its account it is.
    ordinal: u64,
}

struct Inner {
    client: Client,
    options: Options,
    /// One entry an account at a time within this process; between processes the expected sequence decides.
    accounts: Mutex<HashMap<String, Arc<tokio::sync::Mutex<()>>>>,
}

impl NatsLedger {
    /// Opens the ledger, creating its stream when it is missing.
    ///
    /// # Errors
    /// [`ConnectError::Mismatch`] when the stream exists with other settings, [`ConnectError::Unavailable`] when the
    /// server does not answer.
    pub async fn connect(client: Client, options: Options) -> Result<Self, ConnectError> {
        let plan = StreamPlan {
            name: STREAM.to_owned(),
            subject: "gw.sig.*.*".to_owned(),
            replicas: options.replicas,
            metadata: HashMap::new(),
        };
        plan.ensure(&async_nats::jetstream::new(client.clone()), true).await?;
        Ok(Self(Arc::new(Inner { client, options, accounts: Mutex::default() })))
    }
}

/// Subject of an account. Its text is one token: hex or Base58.
fn subject(account: &SignerAccount) -> String {
    format!("gw.sig.{}.{}", account.chain_id.token(), account.address)
}

impl Inner {
    /// The last entry of a subject.
    async fn last(&self, subject: &str, deadline: Instant) -> Result<Option<Last>, Error> {
        // How often the same entry was the last one that is found, while another is counted.
        let (mut looks, mut found) = (0, None);
        loop {
            if !requests::connected_by(&self.client, deadline).await {
                return Err(Error::Unavailable("no connection".into()));
            }
            let timeout = self.options.attempt_timeout;
            let last = requests::leader_get(&self.client, STREAM, &Pick::Last { subject }, timeout).await;
            let last = match last {
                Ok(Some(stored)) => Ok(Some((Entry::decode(&stored.body)?, stored))),
                Ok(None) => Ok(None),
                Err(reason) => Err(reason),
            };
            match self.is_last(subject, last, timeout).await {
                Ok(Found::Nothing) => return Ok(None),
                Ok(Found::Last(last)) => return Ok(Some(*last)),
                // A leader that was elected a moment ago may not know its newest entries yet, so one look proves nothing.
                Ok(Found::Lost(sequence, reason)) => {
                    looks = if found == Some(sequence) { looks + 1 } else { 1 };
                    found = Some(sequence);
                    if looks == LOST_LOOKS {
                        return Err(Error::Damaged(reason));
                    }
                    if Instant::now() + PAUSE >= deadline {
                        return Err(Error::Unavailable(reason));
                    }
                    sleep(PAUSE).await;
                }
                Err(reason) if Instant::now() + PAUSE >= deadline => return Err(Error::Unavailable(reason)),
                Err(_) => sleep(PAUSE).await,
            }
        }
    }

    /// Whether `last` is the last entry of a subject. One that is damaged on its disk the server finds no more, and answers with
    /// the one before, or that there is none; it goes on counting it. Nonces would be given twice.
    async fn is_last(
        &self,
        subject: &str,
        last: Result<Option<(Entry, Stored)>, String>,
        timeout: Duration,
    ) -> Result<Found, String> {
        let count = requests::count_of(&self.client, STREAM, subject, timeout);
        let Some((entry, last)) = last? else {
            return Ok(match count.await? {
                0 => Found::Nothing,
                counted => Found::Lost(0, format!("the server counts {counted} entries, and finds no last one")),
            });
        };
        // What a replica has, or counts, behind the leader's last one was stored; one that is behind has neither. Where the damage
        // is to an entry's number, only the count of all tells.
        let request = BatchRequest { seq: last.sequence, subject: Some(subject), batch: 1, max_bytes: LAST_BYTES };
        let behind = requests::direct_batch_counted(&self.client, STREAM, &request, timeout);
        let (behind, counted) = tokio::try_join!(behind, count)?;
        let is_followed =
            behind.messages.first().is_some_and(|first| first.sequence > last.sequence) || behind.pending > 0;
        let sequence = last.sequence;
        match entry.ordinal() {
            _ if is_followed => {
                let reason = format!("the server counts an entry behind {sequence}, and does not find it");
                Ok(Found::Lost(sequence, reason))
            }
            Some(ordinal) if counted > ordinal => {
                let reason =
                    format!("the server counts {counted} entries, and the last that it finds is number {ordinal}");
                Ok(Found::Lost(sequence, reason))
            }
            // It was counted after it was found, so none less.
            ordinal => Ok(Found::Last(Box::new(Last { entry, sequence, ordinal: ordinal.unwrap_or(counted) }))),
        }
    }

    /// Stores what `decide` makes of the last entry, and decides again whenever another came first.
    async fn write<T>(
        &self,
        account: &SignerAccount,
        decide: impl Fn(Option<&Entry>) -> Result<Step<T>, Error>,
    ) -> Result<T, Error> {
        let subject = subject(account);
        let deadline = Instant::now() + self.options.timeout;
        let turn = self.turn(&subject);
        let Ok(_turn) = timeout_at(deadline, turn.lock()).await else { return Err(Error::Contended) };
        let mut conflicts = 0;
        loop {
            // Whatever became of an earlier try: if it is stored, it is found here; if it is still on its way, it and the
            // next try expect the same sequence, and only one of them can be stored.
            let last = self.last(&subject, deadline).await?;
            let (result, entry) = match decide(last.as_ref().map(|last| &last.entry))? {
                Step::Done(result) => return Ok(result),
                Step::Store(result, entry) => (result, entry),
            };
            let (ordinal, sequence) = last.map_or((0, 0), |last| (last.ordinal, last.sequence));
            let entry = entry.numbered(ordinal.saturating_add(1));
            let headers = requests::conditional(CommitId::random().as_str(), sequence);
            let body = entry.encode()?.into();
            let timeout = self.options.attempt_timeout;
            let reason = match requests::publish(&self.client, &subject, headers, body, timeout).await {
                Published::Stored { .. } => return Ok(result),
                Published::Unclear(_) if mutant!("nonce-without-acknowledgement") => return Ok(result),
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

    fn turn(&self, subject: &str) -> Arc<tokio::sync::Mutex<()>> {
        // Entries are only ever added, so a poisoned lock guards nothing half done.
        let mut accounts = self.accounts.lock().unwrap_or_else(PoisonError::into_inner);
        accounts.entry(subject.to_owned()).or_default().clone()
    }
}

#[async_trait]
impl Ledger for NatsLedger {
    async fn reserve(
        &self,
        account: &SignerAccount,
        purpose: &Purpose,
        chain_nonce: u64,
        final_nonce: u64,
        now: Timestamp,
    ) -> Result<u64, Error> {
        let decide = |last: Option<&Entry>| {
            Ok(match decide(last, purpose, chain_nonce, final_nonce, now)? {
                Decision::Known(nonce) => Step::Done(nonce),
                Decision::New(nonce, entry) => Step::Store(nonce, entry),
            })
        };
        self.0.write(account, decide).await
    }

    async fn retire(&self, account: &SignerAccount, reservation: &Reservation) -> Result<bool, Error> {
        let decide = |last: Option<&Entry>| {
            Ok(match retire(last, reservation) {
                Ok(Some(entry)) => Step::Store(true, entry),
                Ok(None) => Step::Done(true),
                Err(Changed) => Step::Done(false),
            })
        };
        self.0.write(account, decide).await
    }

    async fn give_back(&self, account: &SignerAccount, reservation: &Reservation) -> Result<bool, Error> {
        let decide = |last: Option<&Entry>| {
            Ok(match give_back(last, reservation) {
                Ok(Some(entry)) => Step::Store(true, entry),
                Ok(None) => Step::Done(true),
                Err(Changed) => Step::Done(false),
            })
        };
        self.0.write(account, decide).await
    }

    async fn open(&self, account: &SignerAccount) -> Result<Vec<Reservation>, Error> {
        let deadline = Instant::now() + self.0.options.timeout;
        let last = self.0.last(&subject(account), deadline).await?;
        Ok(last.map(|last| last.entry.open().to_vec()).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_has_one_subject_however_it_is_written() {
        let of = |chain: &str, address: &str| {
            subject(&SignerAccount { chain_id: chain.parse().unwrap(), address: address.parse().unwrap() })
        };
        let evm = "gw.sig.eip155-1.0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed";
        assert_eq!(of("eip155:1", "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"), evm);
        assert_eq!(of("eip155:1", "0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed"), evm);
        let tron = "TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6t";
        assert_eq!(of("tron:728126428", tron), format!("gw.sig.tron-728126428.{tron}"));
    }
}
