//! The journal alarm: the journal lost commits that it had acknowledged.
//!
//! A checkpoint says which commit was read from a stream at which sequence. Streams only grow, so a stream that ends before
//! a checkpoint, or holds another commit there, has lost commits that somebody was promised. The read models go on from the
//! stream, which is the truth that is left; the alarm stays, over restarts too, until an operator acknowledges it.

use std::{
    fmt,
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};
use tracing::error;

use events::time::Timestamp;

/// Name of the file under the projections' directory.
const FILE: &str = "journal-alarms.json";
/// Alarms kept; the oldest, which are nearest to the cause, stay.
const KEPT_MAX: usize = 100;

/// The evidence that a stream lost commits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JournalAlarm {
    /// The shard.
    pub shard: u16,
    /// Stream sequence up to which commits had been read.
    pub checkpoint: u64,
    /// Id of the commit at it.
    pub commit_id: String,
    /// The stream's head when this was found: below the checkpoint, or not if the commit there is another one.
    pub head: u64,
    /// When it was found.
    pub found_at: Timestamp,
}

impl fmt::Display for JournalAlarm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { shard, checkpoint, head, .. } = self;
        if head < checkpoint {
            write!(f, "journal shard {shard} ends at {head}, but had commits up to {checkpoint}")
        } else {
            write!(f, "journal shard {shard} holds another commit at {checkpoint} than it had")
        }
    }
}

/// The alarms that nobody has acknowledged, and the file that keeps them.
#[derive(Debug)]
pub(crate) struct Alarms {
    path: PathBuf,
    raised: Vec<JournalAlarm>,
}

impl Alarms {
    /// Reads what earlier processes raised. A file that makes no sense is itself left for the operator to look at.
    pub(crate) fn open(root: &Path) -> io::Result<Self> {
        let path = root.join(FILE);
        let raised = match fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes)
                .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, format!("{FILE}: {error}")))?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(error),
        };
        let alarms = Self { path, raised };
        for alarm in &alarms.raised {
            error!(shard = alarm.shard, checkpoint = alarm.checkpoint, head = alarm.head, found_at = %alarm.found_at,
                "JOURNAL ALARM of an earlier run, not acknowledged: {alarm}");
        }
        Ok(alarms)
    }

    /// The alarms, oldest first.
    pub(crate) fn raised(&self) -> &[JournalAlarm] {
        &self.raised
    }

    /// Adds an alarm and keeps it on disk. One that is there already is not added again: a process that is killed before
    /// its emptied views reached the disk finds the same evidence once more.
    ///
    /// # Errors
    /// When it cannot be written; it is raised all the same.
    pub(crate) fn raise(&mut self, alarm: JournalAlarm) -> io::Result<()> {
        let evidence = |alarm: &JournalAlarm| (alarm.shard, alarm.checkpoint, alarm.commit_id.clone());
        let known = self.raised.iter().any(|known| evidence(known) == evidence(&alarm));
        if !known && self.raised.len() < KEPT_MAX {
            self.raised.push(alarm);
        }
        self.write()
    }

    /// Raises an alarm as loudly as can be. Blocks.
    pub(crate) fn cry(&mut self, alarm: JournalAlarm) {
        error!(
            shard = alarm.shard,
            checkpoint = alarm.checkpoint,
            head = alarm.head,
            commit_id = alarm.commit_id,
            "JOURNAL ALARM: {alarm}. ACKNOWLEDGED COMMITS ARE LOST: payments may be missing or shown as they were. \
             The gateway goes on from what the stream has; find out what happened to NATS, and compare with the chains"
        );
        if let Err(error) = self.raise(alarm) {
            error!(%error, "the journal alarm cannot be kept on disk and would be forgotten by a restart");
        }
    }

    /// Drops the alarms and returns them.
    ///
    /// # Errors
    /// When the file cannot be removed; nothing is dropped then.
    pub(crate) fn acknowledge(&mut self) -> io::Result<Vec<JournalAlarm>> {
        match fs::remove_file(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(std::mem::take(&mut self.raised)),
        }
    }

    fn write(&self) -> io::Result<()> {
        let temporary = self.path.with_extension("json.new");
        let mut file = File::create(&temporary)?;
        file.write_all(&serde_json::to_vec_pretty(&self.raised)?)?;
        file.sync_all()?;
        fs::rename(&temporary, &self.path)?;
        // The name too has to be on disk before the checkpoint, which is the only evidence, is overwritten.
        self.path.parent().map_or(Ok(()), |root| File::open(root)?.sync_all())
    }
}

#[cfg(test)]
mod tests {
    use events::time::from_unix_seconds;
    use tempfile::TempDir;

    use super::*;

    #[test]
    fn the_same_evidence_is_one_alarm_however_often_it_is_found() {
        let directory = TempDir::new().unwrap();
        let alarm = |checkpoint, seconds| JournalAlarm {
            shard: 1,
            checkpoint,
            commit_id: "commit".to_owned(),
            head: 2,
            found_at: from_unix_seconds(seconds).unwrap(),
        };
        let mut alarms = Alarms::open(directory.path()).unwrap();
        alarms.raise(alarm(7, 10)).unwrap();
        let mut alarms = Alarms::open(directory.path()).unwrap();
        alarms.raise(alarm(7, 20)).unwrap();
        alarms.raise(alarm(8, 30)).unwrap();
        let expected = [alarm(7, 10), alarm(8, 30)];
        assert_eq!(alarms.raised(), expected);
        assert_eq!(Alarms::open(directory.path()).unwrap().raised(), expected);
    }
}
