//! The operators' acts: every order of an operator as an event with who gave it, and every end of one (ADR 144).
//!
//! An [`Order`] is recorded before anything is done, and how it ended after it. So an order without an end is one of
//! which nobody can tell whether it had its effect: whoever carried it out was killed half-way. Entries are only ever
//! added.
//!
//! [`OperatorActs`] has two implementations with the same semantics, [`memory::MemoryOperatorActs`] and that of the
//! crate `journal-jetstream`, which pass one conformance suite.

pub mod conformance;
mod latest;
pub mod memory;
mod text;

use std::{fmt, str::FromStr};

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use events::{CommitId, StreamId, time::Timestamp};

pub use self::{
    latest::{ActRecord, Ending, latest},
    text::{as_name, is_unprintable, printable},
};

/// Most characters of the name of who orders, and of a gateway's.
pub const NAME_CHARS_MAX: usize = 100;
/// Most characters of a reason.
pub const REASON_CHARS_MAX: usize = 500;
/// Most characters of what came of an act and of an error; more are cut off.
pub const TEXT_CHARS_MAX: usize = 1_000;
/// Most payments and batches that one order replays.
pub const STREAMS_MAX: usize = 1_000;
/// Most bytes of a stored entry. Room for [`STREAMS_MAX`] ids, and far from what a NATS message may have.
pub const ENTRY_BYTES_MAX: usize = 128 * 1024;
/// Most entries of one answer of [`OperatorActs::newest`].
pub const PAGE_MAX: usize = 200;

/// Id of an act: `act_` and 26 characters of lower-case base32, random.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ActId(String);

/// The text is not an act's id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("must be `act_` followed by 26 characters of lower-case base32")]
pub struct InvalidActId;

impl ActId {
    const PREFIX: &str = "act_";
    const RANDOM_CHARS: usize = 26;

    /// An id unlike any other.
    pub fn random() -> Self {
        Self(format!("{}{}", Self::PREFIX, CommitId::random()))
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for ActId {
    type Err = InvalidActId;

    fn from_str(text: &str) -> Result<Self, InvalidActId> {
        let legal = |c: u8| c.is_ascii_lowercase() || (b'2'..=b'7').contains(&c);
        match text.strip_prefix(Self::PREFIX) {
            Some(random) if random.len() == Self::RANDOM_CHARS && random.bytes().all(legal) => {
                Ok(Self(text.to_owned()))
            }
            _ => Err(InvalidActId),
        }
    }
}

impl TryFrom<String> for ActId {
    type Error = InvalidActId;

    fn try_from(text: String) -> Result<Self, InvalidActId> {
        text.parse()
    }
}

impl From<ActId> for String {
    fn from(id: ActId) -> Self {
        id.0
    }
}

impl fmt::Display for ActId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for ActId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What an operator orders.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "act", rename_all = "snake_case")]
pub enum Act {
    /// All gateways refuse what is new.
    Pause {
        /// Why, for other operators.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// All gateways accept again.
    Resume {
        /// When the pause was said that is to be lifted, and no other; absent where there was none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        since: Option<Timestamp>,
    },
    /// Gateways build their read models again.
    Rebuild {
        /// Which one; all of them where it is absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        gateway: Option<String>,
    },
    /// Gateways drop the alarms that the journal lost commits.
    Acknowledge {
        /// Which one; all of them where it is absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        gateway: Option<String>,
    },
    /// Parked payments and batches are driven again.
    Replay {
        /// Which, at least one and at most [`STREAMS_MAX`].
        streams: Vec<StreamId>,
    },
    /// An epoch of the journal is begun, or one whose creation was interrupted is completed.
    BeginEpoch {
        /// Its number of shards; as many as the newest epoch has where it is absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        shards: Option<u16>,
    },
    /// An epoch in which nothing is under way is sealed.
    SealEpoch {
        /// Its number.
        epoch: u16,
        /// How long a newer epoch has to exist, in seconds.
        grace_seconds: u64,
    },
}

/// Where an act was ordered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// On a gateway's console, by the operator whose token was shown.
    Console,
    /// On a command line with the gateways' NATS key, in the name that it was given.
    CommandLine,
}

/// An operator orders something.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    /// The act.
    pub id: ActId,
    /// When it was ordered, by the clock of whoever carries it out.
    pub at: Timestamp,
    /// Who ordered it. On a command line this is a claim: whoever has the gateways' NATS key can give any name.
    pub by: String,
    /// Where.
    pub origin: Origin,
    /// The gateway whose console it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway: Option<String>,
    /// What.
    pub act: Act,
}

impl Order {
    /// An order under a new id.
    ///
    /// # Errors
    /// [`Invalid`], naming the field and the rule.
    pub fn new(at: Timestamp, by: &str, origin: Origin, gateway: Option<&str>, act: Act) -> Result<Self, Invalid> {
        let (id, by, gateway) = (ActId::random(), by.to_owned(), gateway.map(str::to_owned));
        let order = Self { id, at, by, origin, gateway, act };
        order.check()?;
        Ok(order)
    }

    /// Whether it is within its bounds.
    fn check(&self) -> Result<(), Invalid> {
        text::name("by", &self.by)?;
        self.gateway.as_deref().map_or(Ok(()), |gateway| text::name("gateway", gateway))?;
        match &self.act {
            Act::Pause { reason: Some(reason) } => text::words("reason", reason, REASON_CHARS_MAX),
            Act::Rebuild { gateway: Some(gateway) } | Act::Acknowledge { gateway: Some(gateway) } => {
                text::name("act.gateway", gateway)
            }
            Act::Replay { streams } if streams.is_empty() || streams.len() > STREAMS_MAX => {
                Err(Invalid::new("streams", format!("must have 1 to {STREAMS_MAX} ids, and has {}", streams.len())))
            }
            _ => Ok(()),
        }
    }
}

/// What came of an act.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum Outcome {
    /// It was done.
    Done {
        /// What there is to say about it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        details: Option<String>,
    },
    /// It was not done, or not all of it.
    Failed {
        /// Why, in words.
        error: String,
    },
}

impl Outcome {
    /// It was done; `details` are cut to [`TEXT_CHARS_MAX`].
    pub fn done(details: Option<&str>) -> Self {
        Self::Done { details: details.map(text::cut) }
    }

    /// It failed; `error` is cut to [`TEXT_CHARS_MAX`].
    pub fn failed(error: &str) -> Self {
        Self::Failed { error: text::cut(error) }
    }
}

/// One step of an act.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "entry", rename_all = "snake_case")]
pub enum Entry {
    /// It was ordered; nothing was done before that was recorded.
    Ordered(Order),
    /// It ended.
    Ended {
        /// The act.
        id: ActId,
        /// When, by the clock of whoever carried it out.
        at: Timestamp,
        /// How.
        outcome: Outcome,
    },
    /// What is stored is not an entry that this build knows: a newer one's, or somebody else's who had the gateways'
    /// NATS key.
    #[serde(skip_deserializing)]
    Unknown {
        /// The act that its subject names.
        #[serde(skip_serializing_if = "Option::is_none")]
        id: Option<ActId>,
        /// The defect.
        reason: String,
    },
}

impl Entry {
    /// The act.
    pub fn id(&self) -> Option<&ActId> {
        match self {
            Self::Ordered(Order { id, .. }) | Self::Ended { id, .. } => Some(id),
            Self::Unknown { id, .. } => id.as_ref(),
        }
    }

    /// The entry as it is stored: a JSON object whose member `entry` is `ordered` or `ended`.
    ///
    /// # Errors
    /// [`Error::Refused`] for one that is out of its bounds, and for [`Entry::Unknown`], which is never stored.
    pub fn encode(&self) -> Result<Vec<u8>, Error> {
        self.check().map_err(|error| Error::Refused(error.to_string()))?;
        let body = serde_json::to_vec(self).map_err(|error| Error::Refused(error.to_string()))?;
        if body.len() > ENTRY_BYTES_MAX {
            return Err(Error::Refused(format!("it has {} bytes, and may have {ENTRY_BYTES_MAX}", body.len())));
        }
        Ok(body)
    }

    /// The entry that lies in the subject of an act, [`Entry::Unknown`] when it cannot be read.
    pub fn decode(act_id: &ActId, body: &[u8]) -> Self {
        let unknown = |reason: &str| Self::Unknown { id: Some(act_id.clone()), reason: text::cut(reason) };
        if body.len() > ENTRY_BYTES_MAX {
            return unknown(&format!("it has {} bytes", body.len()));
        }
        let entry: Self = match serde_json::from_slice(body) {
            Ok(entry) => entry,
            Err(error) => return unknown(&error.to_string()),
        };
        match entry.check() {
            Err(error) => unknown(&error.to_string()),
            Ok(()) if entry.id() != Some(act_id) => unknown("it names another act than its subject"),
            Ok(()) => entry,
        }
    }

    fn check(&self) -> Result<(), Invalid> {
        match self {
            Self::Ordered(order) => order.check(),
            Self::Ended { outcome: Outcome::Done { details: Some(words) }, .. }
            | Self::Ended { outcome: Outcome::Failed { error: words }, .. } => {
                text::words("outcome", words, TEXT_CHARS_MAX)
            }
            Self::Ended { .. } => Ok(()),
            Self::Unknown { .. } => Err(Invalid::new("entry", "must be one that this build knows")),
        }
    }
}

/// An entry as it is stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Recorded {
    /// Its sequence in the stream; rises with every entry.
    pub sequence: u64,
    /// When it was stored.
    pub stored_at: Timestamp,
    /// What it says.
    pub entry: Entry,
}

/// A field is out of its bounds.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {rule}")]
pub struct Invalid {
    /// The field.
    pub field: &'static str,
    /// What it must be.
    pub rule: String,
}

impl Invalid {
    fn new(field: &'static str, rule: impl Into<String>) -> Self {
        Self { field, rule: rule.into() }
    }
}

/// Why an entry was not recorded, or none read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The store cannot be reached, or did not answer in time. What was to be recorded may be; asking again is safe.
    #[error("the record of operators' acts is unavailable: {0}")]
    Unavailable(String),
    /// It will never take this entry.
    #[error("the record of operators' acts refuses the entry: {0}")]
    Refused(String),
    /// What ended was never ordered.
    #[error("{0} was never ordered")]
    NotOrdered(ActId),
}

/// The record of what operators ordered.
#[async_trait]
pub trait OperatorActs: Send + Sync {
    /// Records an entry and returns its sequence. When this returns, the entry is durable. The very same entry again is
    /// recorded once, and succeeds again; another order under its id, and a second end, are refused.
    ///
    /// # Errors
    /// See [`Error`].
    async fn record(&self, entry: &Entry) -> Result<u64, Error>;

    /// The newest entries, of those with a sequence below `before` where that is given; newest first, at most `limit`
    /// and [`PAGE_MAX`]. None where there are no more. At least as new as every entry recorded before the call.
    ///
    /// # Errors
    /// [`Error::Unavailable`].
    async fn newest(&self, before: Option<u64>, limit: usize) -> Result<Vec<Recorded>, Error>;
}

#[cfg(test)]
mod tests {
    use super::*;
    use events::PaymentId;

    const ID: &str = "act_aaaaaaaaaaaaaaaaaaaaaaaaaa";
    const RESUME: Act = Act::Resume { since: None };

    fn at() -> Timestamp {
        "2026-01-02T03:04:05Z".parse().unwrap()
    }

    fn order(act: Act) -> Order {
        let order = Order::new(at(), "alice@desk", Origin::CommandLine, None, act).unwrap();
        Order { id: ID.parse().unwrap(), ..order }
    }

    #[test]
    fn the_stored_form_of_an_entry_never_changes() {
        let stream_id = StreamId::from(PaymentId::derive("a", "b"));
        let replayed = format!(r#"{{"act":"replay","streams":["{stream_id}"]}}"#);
        let acts = [
            (Act::Pause { reason: Some("fork".into()) }, r#"{"act":"pause","reason":"fork"}"#),
            (Act::Pause { reason: None }, r#"{"act":"pause"}"#),
            (Act::Resume { since: None }, r#"{"act":"resume"}"#),
            (Act::Resume { since: Some(at()) }, r#"{"act":"resume","since":"2026-01-02T03:04:05Z"}"#),
            (Act::Rebuild { gateway: Some("gw-1".into()) }, r#"{"act":"rebuild","gateway":"gw-1"}"#),
            (Act::Acknowledge { gateway: None }, r#"{"act":"acknowledge"}"#),
            (Act::Replay { streams: vec![stream_id] }, &replayed),
            (Act::BeginEpoch { shards: Some(4) }, r#"{"act":"begin_epoch","shards":4}"#),
            (Act::SealEpoch { epoch: 0, grace_seconds: 600 }, r#"{"act":"seal_epoch","epoch":0,"grace_seconds":600}"#),
        ];
        let head = format!(r#""id":"{ID}","at":"2026-01-02T03:04:05Z""#);
        let mut forms = Vec::new();
        for (act, stored) in acts {
            let stored =
                format!(r#"{{"entry":"ordered",{head},"by":"alice@desk","origin":"command_line","act":{stored}}}"#);
            forms.push((Entry::Ordered(order(act)), stored));
        }
        let on_console = Order { origin: Origin::Console, gateway: Some("gw-1".into()), ..order(RESUME) };
        let stored = format!(
            r#"{{"entry":"ordered",{head},"by":"alice@desk","origin":"console","gateway":"gw-1","act":{{"act":"resume"}}}}"#
        );
        forms.push((Entry::Ordered(on_console), stored));
        let outcomes = [
            (Outcome::done(None), r#"{"outcome":"done"}"#),
            (Outcome::done(Some("all")), r#"{"outcome":"done","details":"all"}"#),
            (Outcome::failed("no"), r#"{"outcome":"failed","error":"no"}"#),
        ];
        for (outcome, stored) in outcomes {
            let stored = format!(r#"{{"entry":"ended",{head},"outcome":{stored}}}"#);
            forms.push((Entry::Ended { id: ID.parse().unwrap(), at: at(), outcome }, stored));
        }
        for (entry, stored) in forms {
            assert_eq!(String::from_utf8(entry.encode().unwrap()).unwrap(), stored);
            assert_eq!(Entry::decode(&ID.parse().unwrap(), stored.as_bytes()), entry);
        }
    }

    #[test]
    fn what_is_no_entry_of_this_act_is_unknown_and_is_never_stored() {
        let resume = order(RESUME);
        let of_another = Order { id: ActId::random(), ..resume.clone() };
        let nameless = Order { by: String::new(), ..resume.clone() };
        let ordered = |order: Order| serde_json::to_vec(&Entry::Ordered(order)).unwrap();
        let newer = String::from_utf8(ordered(resume)).unwrap().replace("resume", "evict");
        let unknown = serde_json::to_vec(&Entry::Unknown { id: None, reason: "x".into() }).unwrap();
        let bodies = [
            b"".to_vec(),
            b"{}".to_vec(),
            vec![b' '; ENTRY_BYTES_MAX + 1],
            newer.into_bytes(),
            ordered(of_another),
            ordered(nameless),
            unknown,
        ];
        for body in bodies {
            let entry = Entry::decode(&ID.parse().unwrap(), &body);
            assert!(matches!(&entry, Entry::Unknown { id: Some(id), .. } if id.as_str() == ID), "{entry:?}");
            assert!(matches!(entry.encode(), Err(Error::Refused(_))));
        }
    }

    #[test]
    fn what_is_out_of_its_bounds_is_refused_with_the_field_and_the_rule() {
        let long = "é".repeat(NAME_CHARS_MAX + 1);
        let refused = |by: &str, act: Act| {
            Order::new(at(), by, Origin::CommandLine, None, act).expect_err("out of bounds").to_string()
        };
        for by in ["", " ", " alice", "alice\n", "al\u{1b}[2Jice", "al\u{202e}ice", "a\u{200b}lice", &long] {
            assert!(refused(by, RESUME).starts_with("by: must "), "{by:?}");
        }
        // As long as the pause takes, which comes after the record.
        let reason = Some("é".repeat(501));
        assert_eq!(refused("a", Act::Pause { reason }), "reason: must have at most 500 characters");
        assert!(refused("a", Act::Rebuild { gateway: Some(long) }).starts_with("act.gateway: "));
        assert!(refused("a", Act::Replay { streams: vec![] }).starts_with("streams: "));
        let id = StreamId::from(PaymentId::derive("a", "b"));
        let streams = vec![id.clone(); STREAMS_MAX + 1];
        assert!(refused("a", Act::Replay { streams }).starts_with("streams: "));
        // The most that is within them can be stored.
        let (by, streams) = ("\u{10000}".repeat(NAME_CHARS_MAX), vec![id; STREAMS_MAX]);
        let most = Order::new(at(), &by, Origin::Console, Some(&by), Act::Replay { streams }).unwrap();
        assert!(Entry::Ordered(most).encode().is_ok());
        let reason = Some("\u{1}".repeat(REASON_CHARS_MAX));
        let most = Order::new(at(), &by, Origin::Console, Some(&by), Act::Pause { reason }).unwrap();
        assert!(Entry::Ordered(most).encode().is_ok());
    }

    #[test]
    fn what_came_of_an_act_is_cut() {
        let long = "é".repeat(5 * TEXT_CHARS_MAX);
        for outcome in [Outcome::done(Some(&long)), Outcome::failed(&long)] {
            let body = Entry::Ended { id: ActId::random(), at: at(), outcome }.encode().unwrap();
            assert!(body.len() < 3 * TEXT_CHARS_MAX);
        }
    }

    #[test]
    fn an_id_is_a_token_of_a_subject() {
        let id = ActId::random();
        assert_eq!(id.as_str().parse(), Ok(id));
        for text in ["", "act_", "act_*", ID.trim_start_matches("act_"), "act_AAAAAAAAAAAAAAAAAAAAAAAAAA"] {
            assert_eq!(text.parse::<ActId>(), Err(InvalidActId), "{text}");
        }
    }
}
