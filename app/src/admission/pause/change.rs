//! Changes of the pause: each on condition of what stands there, and tried until it is known whether it was stored.

use std::time::Duration;

use bytes::Bytes;
use chrono::Utc;
use tokio::time::{Instant, sleep};

use events::time::Timestamp;

use super::{BUCKET, Control, Error, REASON_CHARS_MAX};

/// How long a change is tried, and what became of it asked for.
pub(super) const CHANGE_MAX: Duration = Duration::from_secs(5);
const RETRY_MIN: Duration = Duration::from_millis(10);
const RETRY_MAX: Duration = Duration::from_millis(400);

/// The pause was not changed, or nobody can tell.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChangeError {
    /// Nothing was changed.
    #[error(transparent)]
    Bucket(#[from] Error),
    /// Somebody else changed it meanwhile, and it is as they said.
    #[error("it was changed by somebody else meanwhile: {0}")]
    Changed(Control),
    /// It may be stored, or be stored yet.
    #[error("bucket {BUCKET}: it is not known whether it was stored: {0}")]
    Unclear(String),
}

/// What stands under a key, and behind which sequence a change of it is stored.
pub(super) struct Standing {
    /// Sequence of its last message, 0 for none.
    pub(super) sequence: u64,
    /// What it says.
    pub(super) control: Result<Option<Control>, Error>,
}

/// What became of a message that was to be stored on condition.
pub(super) enum Put {
    /// It is stored at this sequence.
    Stored(u64),
    /// It was not stored, as the last message is another than the condition says.
    Passed,
    /// It was not stored.
    Refused(String),
    /// It may be stored, or be stored yet.
    Unclear(String),
}

/// A key of the bucket, as the stream's leader has it.
pub(super) trait Key: Sync {
    /// What was stored last.
    fn last(&self) -> impl Future<Output = Result<Standing, Error>> + Send;

    /// The first message that was stored behind this sequence.
    fn next(&self, after: u64) -> impl Future<Output = Result<Option<Bytes>, Error>> + Send;

    /// Stores on condition that the last message is that of sequence `before`.
    fn put(&self, before: u64, body: Bytes) -> impl Future<Output = Put> + Send;
}

/// Pauses, whatever stands there: to stop is right whoever did what before.
pub(super) async fn pause(key: &impl Key, reason: Option<String>, within: Duration) -> Result<Control, ChangeError> {
    if reason.as_ref().is_some_and(|reason| reason.chars().count() > REASON_CHARS_MAX) {
        return Err(Error::Reason.into());
    }
    let deadline = Instant::now() + within;
    let control = Control { paused: true, reason, since: Utc::now() };
    loop {
        let standing = last(key, deadline).await?;
        if write(key, standing.sequence, &control, deadline).await? {
            return Ok(control);
        }
        if Instant::now() >= deadline {
            return Err(Error::Changed.into());
        }
    }
}

/// Lifts the pause that began at `shown`, and no other; what stands then. Where nothing is paused there is nothing to do.
pub(super) async fn resume(
    key: &impl Key,
    shown: Option<Timestamp>,
    within: Duration,
) -> Result<Option<Control>, ChangeError> {
    let deadline = Instant::now() + within;
    let control = Control { paused: false, reason: None, since: Utc::now() };
    loop {
        let standing = last(key, deadline).await?;
        match standing.control? {
            Some(stands) if stands.paused && shown != Some(stands.since) => return Err(ChangeError::Changed(stands)),
            Some(stands) if stands.paused => {}
            stands => return Ok(stands),
        }
        if write(key, standing.sequence, &control, deadline).await? {
            return Ok(Some(control));
        }
    }
}

/// What stands there, asked for until `deadline`, once at least.
async fn last(key: &impl Key, deadline: Instant) -> Result<Standing, Error> {
    let mut pause = RETRY_MIN;
    loop {
        match key.last().await {
            Err(_) if Instant::now() + pause < deadline => sleep(pause).await,
            result => return result,
        }
        pause = (pause * 2).min(RETRY_MAX);
    }
}

/// Whether `control` is what came behind `before`; another may have been faster.
async fn write(key: &impl Key, before: u64, control: &Control, deadline: Instant) -> Result<bool, ChangeError> {
    let body: Bytes = serde_json::to_vec(control).map_err(super::unavailable)?.into();
    let (mut pause, mut may_be_stored) = (RETRY_MIN, false);
    loop {
        let reason = match key.put(before, body.clone()).await {
            Put::Stored(_) => return Ok(true),
            Put::Passed if !may_be_stored => return Ok(false),
            Put::Passed => "another message is the last".to_owned(),
            Put::Refused(reason) => reason,
            Put::Unclear(reason) => {
                may_be_stored = true;
                reason
            }
        };
        // Of all who want to follow `before` the stream takes one, also when others came behind it since.
        match key.next(before).await {
            Ok(Some(first)) => return Ok(first == body),
            Ok(None) | Err(_) if Instant::now() + pause < deadline => sleep(pause).await,
            Ok(None) | Err(_) if may_be_stored => return Err(ChangeError::Unclear(reason)),
            Ok(None) | Err(_) => return Err(Error::Unavailable(reason).into()),
        }
        pause = (pause * 2).min(RETRY_MAX);
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::VecDeque, sync::Mutex};

    use super::*;

    /// What becomes of one message that is put.
    #[derive(Clone, Copy)]
    enum Fate {
        /// It is stored where it may be, and said so.
        Told,
        /// It is stored where it may be, and nothing is said.
        StoredUnsaid,
        /// It is lost, and nothing is said.
        Lost,
        /// It is refused.
        Refused,
        /// It is stored, and another pauses behind it, before anything is said: and nothing is.
        Overtaken,
        /// Another pauses before it.
        Beaten,
    }

    /// A key in memory whose server has its moods; when they are over, it is away.
    struct Moody {
        messages: Mutex<Vec<Bytes>>,
        fates: Mutex<VecDeque<Fate>>,
        reads: bool,
    }

    const SHORT: Duration = Duration::from_millis(200);

    fn paused(reason: &str) -> Control {
        Control { paused: true, reason: Some(reason.to_owned()), since: Utc::now() }
    }

    fn bytes(control: &Control) -> Bytes {
        serde_json::to_vec(control).unwrap().into()
    }

    impl Moody {
        fn new(stands: &[Control], fates: &[Fate]) -> Self {
            let messages = Mutex::new(stands.iter().map(bytes).collect());
            Self { messages, fates: Mutex::new(fates.iter().copied().collect()), reads: true }
        }

        fn all(&self) -> Vec<Control> {
            self.messages.lock().unwrap().iter().map(|body| serde_json::from_slice(body).unwrap()).collect()
        }
    }

    impl Key for Moody {
        async fn last(&self) -> Result<Standing, Error> {
            let all = self.all();
            Ok(Standing { sequence: all.len() as u64, control: Ok(all.last().cloned()) })
        }

        async fn next(&self, after: u64) -> Result<Option<Bytes>, Error> {
            match self.reads {
                true => Ok(self.messages.lock().unwrap().get(after as usize).cloned()),
                false => Err(Error::Unavailable("away".to_owned())),
            }
        }

        async fn put(&self, before: u64, body: Bytes) -> Put {
            let fate = self.fates.lock().unwrap().pop_front();
            let mut messages = self.messages.lock().unwrap();
            if let Some(Fate::Beaten) = fate {
                messages.push(bytes(&paused("another's")));
            }
            let matches = messages.len() as u64 == before;
            let unsaid = || Put::Unclear("no acknowledgement in time".to_owned());
            match fate {
                Some(Fate::Refused) => return Put::Refused("no room".to_owned()),
                Some(Fate::Lost) | None => return unsaid(),
                Some(Fate::Told | Fate::Beaten) if !matches => return Put::Passed,
                Some(_) if !matches => return unsaid(),
                _ => messages.push(body),
            }
            match fate {
                Some(Fate::StoredUnsaid) => unsaid(),
                Some(Fate::Overtaken) => {
                    messages.push(bytes(&paused("another's")));
                    unsaid()
                }
                _ => Put::Stored(messages.len() as u64),
            }
        }
    }

    #[tokio::test]
    async fn a_change_whose_acknowledgement_is_lost_is_found_by_reading_it() {
        let before = paused("a fork");
        for fates in [&[Fate::StoredUnsaid][..], &[Fate::Lost, Fate::Told], &[Fate::Refused, Fate::Told]] {
            let key = Moody::new(std::slice::from_ref(&before), fates);
            let resumed = resume(&key, Some(before.since), SHORT).await.unwrap().unwrap();
            assert_eq!(key.all(), [before.clone(), resumed.clone()]);
            assert!(!resumed.paused);
            let key = Moody::new(&[], fates);
            let stopped = pause(&key, None, SHORT).await.unwrap();
            assert_eq!(key.all(), [stopped]);
        }
        // Also where somebody came behind it, and nobody says which was first.
        let key = Moody::new(std::slice::from_ref(&before), &[Fate::Overtaken]);
        assert!(!resume(&key, Some(before.since), SHORT).await.unwrap().unwrap().paused);
        assert_eq!(key.all().len(), 3);
        let key = Moody::new(&[], &[Fate::Overtaken]);
        let stopped = pause(&key, Some("mine".to_owned()), SHORT).await.unwrap();
        assert_eq!(key.all()[0], stopped);
    }

    #[tokio::test]
    async fn what_may_be_stored_and_cannot_be_read_is_unclear_and_what_was_refused_is_not_stored() {
        let before = paused("a fork");
        let stands = std::slice::from_ref(&before);
        let unclear = |outcome: Option<ChangeError>| matches!(outcome, Some(ChangeError::Unclear(_)));
        let key = Moody::new(stands, &[]);
        assert!(unclear(resume(&key, Some(before.since), SHORT).await.err()));
        assert!(unclear(pause(&key, None, SHORT).await.err()));
        let key = Moody { reads: false, ..Moody::new(stands, &[Fate::StoredUnsaid, Fate::Told]) };
        assert!(unclear(resume(&key, Some(before.since), SHORT).await.err()));

        let key = Moody::new(stands, &[Fate::Refused; 100]);
        let refused = ChangeError::Bucket(Error::Unavailable("no room".to_owned()));
        assert_eq!(resume(&key, Some(before.since), SHORT).await, Err(refused.clone()));
        assert_eq!(pause(&key, None, SHORT).await, Err(refused));
        assert_eq!(key.all(), stands);
    }

    #[tokio::test]
    async fn no_pause_is_lifted_but_the_one_that_was_shown() {
        let (first, second) = (paused("a fork"), paused("somebody else's"));
        let key = Moody::new(&[first.clone(), second.clone()], &[]);
        for shown in [Some(first.since), None] {
            let error = resume(&key, shown, SHORT).await.unwrap_err();
            assert_eq!(error, ChangeError::Changed(second.clone()));
            assert!(error.to_string().contains(": paused since ") && error.to_string().ends_with(": somebody else's"));
        }
        // Nor one that comes between the look and the word.
        let key = Moody::new(std::slice::from_ref(&first), &[Fate::Beaten]);
        assert!(matches!(resume(&key, Some(first.since), SHORT).await, Err(ChangeError::Changed(_))));
        assert_eq!(key.all().len(), 2);
        assert!(key.all()[1].paused);
        // A pause takes its place behind another.
        let key = Moody::new(&[], &[Fate::Beaten, Fate::Told]);
        let mine = pause(&key, Some("mine".to_owned()), SHORT).await.unwrap();
        assert_eq!(key.all().last(), Some(&mine));
    }

    #[tokio::test]
    async fn where_nothing_is_paused_there_is_nothing_to_lift() {
        let key = Moody::new(&[], &[]);
        assert_eq!(resume(&key, None, SHORT).await, Ok(None));
        let accepting = Control { paused: false, reason: None, since: Utc::now() };
        let key = Moody::new(&[paused("a fork"), accepting.clone()], &[]);
        assert_eq!(resume(&key, Some(Utc::now()), SHORT).await, Ok(Some(accepting)));
        assert_eq!(key.all().len(), 2);
    }

    #[tokio::test]
    async fn a_reason_that_is_too_long_pauses_nothing() {
        let key = Moody::new(&[], &[Fate::Told; 2]);
        let long = |chars: usize| Some("é".repeat(chars));
        assert_eq!(pause(&key, long(REASON_CHARS_MAX + 1), SHORT).await, Err(Error::Reason.into()));
        assert_eq!(key.all(), []);
        pause(&key, long(REASON_CHARS_MAX), SHORT).await.unwrap();
    }
}
