//! Uniqueness of streams: a stream lies in one epoch only.
//!
//! What shows it is that every older epoch is looked at: a second stream of the id there is found, whoever wrote it. What
//! keeps it so from now on is a mark in each older epoch that still takes commits; one that is missing is found. A sealed
//! epoch needs none. Whether a mark was there *before* the stream began, or an epoch sealed by then, cannot be told:
//! nothing orders two streams but the clocks of servers, and they are not asked.

use std::{collections::BTreeSet, time::Duration};

use tokio::time::sleep;

use events::StreamId;
use journal::{checkpoint, envelope};
use journal_jetstream::raw::RawMessage;

use super::{
    Error, Finding, JournalLocation, Severity,
    audit_state::AuditState,
    examine::{Examined, is_mark},
    layout::Layout,
    report::Report,
    source::Source,
};

/// How many shards beyond the last one are looked for.
const SHARDS_BEYOND: u16 = 64;
/// How often a mark that a replica does not give is asked for again before it counts as missing.
const ASKED_AGAIN: u32 = 100;
const ASK_PAUSE: Duration = Duration::from_millis(100);

/// Whether these messages of a shard are a mark and nothing else.
pub fn is_moved(shard: u16, messages: &[RawMessage]) -> bool {
    matches!(messages, [only] if is_mark(shard, only))
}

/// The messages of an id in every shard that has any, marks too, the newest epoch's first.
///
/// # Errors
/// [`Error`].
pub async fn everywhere(source: &Source, layout: &Layout, id: &StreamId) -> Result<Vec<(u16, Vec<RawMessage>)>, Error> {
    let mut found = Vec::new();
    for shard in layout.epochs().shards_of(id) {
        let messages = source.subject(&envelope::stream(shard), &envelope::subject(shard, id), u64::MAX).await?;
        if !messages.is_empty() {
            found.push((shard, messages));
        }
    }
    Ok(found)
}

/// The stream with its shard, wherever it began; `None` when it never did.
///
/// # Errors
/// [`Error`].
pub async fn find(source: &Source, layout: &Layout, id: &StreamId) -> Result<Option<(u16, Vec<RawMessage>)>, Error> {
    let found = everywhere(source, layout, id).await?;
    Ok(found.into_iter().find(|(shard, messages)| !is_moved(*shard, messages)))
}

/// Checks that a stream of `shard` lies in no older epoch, and can never begin there.
///
/// # Errors
/// [`Error`].
pub async fn check(
    source: &Source,
    layout: &Layout,
    shard: u16,
    examined: &Examined,
    report: &mut Report,
) -> Result<(), Error> {
    let Ok(stream_id) = envelope::stream_of(shard, &examined.subject) else { return Ok(()) };
    for older in layout.older_than(shard, &stream_id) {
        let (stream, subject) = (envelope::stream(older), envelope::subject(older, &stream_id));
        let mut last = source.last(&stream, &subject).await?;
        let patient = matches!(source, Source::Nats(_)) && !layout.is_sealed(older);
        let mut asked = 0;
        // The replica that answered may be behind.
        while patient && last.is_none() && asked < ASKED_AGAIN {
            sleep(ASK_PAUSE).await;
            last = source.last(&stream, &subject).await?;
            asked += 1;
        }
        match last {
            Some(message) if is_mark(older, &message) => {}
            Some(message) => {
                let what = format!("{stream_id} lies in {} too, which is of a later epoch", examined.stream);
                report.add(Finding::new(
                    Severity::Contradiction,
                    "two-epochs",
                    JournalLocation::message(&message),
                    what,
                ));
            }
            None if layout.is_sealed(older) => {}
            None => {
                let what = format!("{stream} has no mark of it and is not sealed: it could begin there once more");
                report.add(Finding::new(Severity::Missing, "mark", examined.location(), what));
            }
        }
    }
    Ok(())
}

/// Shards beyond those of the journal of which there were checkpoints: an epoch was taken away with all it held.
///
/// # Errors
/// [`Error`].
pub async fn shards_that_are_gone(source: &Source, layout: &Layout, state: &AuditState) -> Result<Vec<Finding>, Error> {
    let signed = source.has_checkpoints().await?;
    let last = layout.shards();
    let mut shards: BTreeSet<u16> = state.shards.keys().copied().filter(|shard| *shard >= last).collect();
    shards.extend(last..last.saturating_add(SHARDS_BEYOND));
    let mut gone = Vec::new();
    for shard in shards {
        let by = if state.shards.contains_key(&shard) {
            "an earlier run saw"
        } else if signed && source.last(checkpoint::STREAM, &checkpoint::subject(shard)).await?.is_some() {
            "there is"
        } else {
            continue;
        };
        let what = format!("the shard is not there, and {by} a checkpoint of it");
        gone.push(Finding::new(
            Severity::Missing,
            "shard-gone",
            JournalLocation::stream(&envelope::stream(shard), None),
            what,
        ));
    }
    Ok(gone)
}

#[cfg(test)]
mod tests {
    use std::{path::Path, sync::Arc};

    use events::{
        Event,
        event::{Mark, Moved},
    };
    use journal::Position;

    use super::*;
    use crate::{
        audit_state::Seen,
        examine::tests::{abandoned, stored},
        json_lines::{self, Contents},
        layout::{self, Run},
        progress::Progress,
        source::Exported,
        verify::Auditor,
    };

    /// Two epochs with one shard each, the older one sealed or not, and these messages.
    fn auditor(directory: &Path, sealed: &[u16], messages: &[RawMessage]) -> Arc<Auditor> {
        let epochs = [0, 1].map(|number| Run { number, first: number, shards: 1 }).to_vec();
        let layout = Some(layout::Exported { epochs, sealed: sealed.iter().copied().collect() });
        let streams = ["CHK", "EVT_00", "EVT_01"].map(str::to_owned).to_vec();
        let mut lines = json_lines::write_contents(&Contents { streams, layout });
        lines.extend(messages.iter().flat_map(json_lines::write));
        let path = directory.join("export.jsonl");
        std::fs::write(&path, lines).unwrap();
        let source = Source::Export(Exported::open(&path).unwrap());
        Arc::new(Auditor { source, chains: None, signers: Vec::new() })
    }

    /// What an audit of everything finds, and one of the stream alone, but for what is wrong with its events.
    async fn found(auditor: &Arc<Auditor>, id: &StreamId, state: &mut AuditState) -> [Vec<(Severity, String)>; 2] {
        let whole = auditor.verify_all(state, &Progress::new("test")).await.unwrap();
        let alone = auditor.verify(id).await.unwrap();
        [whole, alone].map(|report| {
            let findings = report.findings.into_iter().filter(|finding| finding.check != "transition");
            findings.map(|finding| (finding.severity, finding.check)).collect()
        })
    }

    #[tokio::test]
    async fn a_stream_lies_in_one_epoch_and_cannot_begin_in_an_older_one() {
        let directory = tempfile::tempdir().unwrap();
        let mark = Event::Mark(Mark::Moved(Moved { to_epoch: 1 }));
        let (id, mark) = stored(0, Position::START, mark);
        let (_, older) = stored(0, Position::START, abandoned(1));
        let (_, newer) = stored(1, Position::START, abandoned(1));
        let nothing = || [vec![], vec![]];
        let both = |severity, check: &str| [vec![(severity, check.to_owned())], vec![(severity, check.to_owned())]];
        let cases = [
            (&[][..], vec![&mark, &newer], nothing()),
            (&[], vec![&older], nothing()),
            (&[0], vec![&newer], nothing()),
            (&[0], vec![&mark, &newer], nothing()),
            (&[], vec![&newer], both(Severity::Missing, "mark")),
            (&[], vec![&older, &newer], both(Severity::Contradiction, "two-epochs")),
            (&[0], vec![&older, &newer], both(Severity::Contradiction, "two-epochs")),
            (&[], vec![&mark], [vec![], vec![(Severity::Missing, "stream".to_owned())]]),
        ];
        for (sealed, messages, expected) in cases {
            let messages: Vec<_> = messages.into_iter().cloned().collect();
            let auditor = auditor(directory.path(), sealed, &messages);
            let case = format!("{sealed:?} {:?}", messages.iter().map(|message| &message.stream).collect::<Vec<_>>());
            assert_eq!(found(&auditor, &id, &mut AuditState::default()).await, expected, "{case}");
        }
    }

    #[tokio::test]
    async fn a_whole_epoch_that_is_gone_is_missed() {
        let directory = tempfile::tempdir().unwrap();
        let (id, message) = stored(0, Position::START, abandoned(1));
        let seen = Seen { stored: 9, sequence: 9, hash: message.hash() };
        let mut state = AuditState { shards: [(70, seen)].into() };
        // Only that there is one counts: what it says cannot be compared any more.
        let checkpoint =
            RawMessage { stream: checkpoint::STREAM.to_owned(), subject: checkpoint::subject(3), ..message.clone() };
        let auditor = auditor(directory.path(), &[], &[checkpoint, message]);
        let [whole, _] = found(&auditor, &id, &mut state).await;
        assert_eq!(whole, vec![(Severity::Missing, "shard-gone".to_owned()); 2]);
    }
}
