//! `gw audit export`: whole streams as files, in the format of [`json_lines`], resumable.
//!
//! Into a directory goes one file a stream, `EVT_00.jsonl` and so on; into a file they go one after another. A file that is
//! there is gone on with: each stream behind its last whole line. A line without its end, which a killed run leaves, is
//! cut off first. Where the journal has several epochs, which they are goes with it.

use std::{
    cmp::Reverse,
    collections::BTreeMap,
    fs::File,
    io::{BufRead, BufReader, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use tokio::time::sleep;

use journal::{checkpoint, envelope};
use journal_jetstream::raw::{BATCH_MESSAGES, RawReader, Unavailable};

use super::{
    json_lines::{self, Contents},
    layout::{self, Layout},
    progress::Progress,
};

/// The file of a directory that holds the epochs.
const LAYOUT: &str = "layout.jsonl";

/// How often a message that a replica does not give is asked for again before it counts as missing.
const ASKED_AGAIN: u32 = 100;
const ASK_PAUSE: Duration = Duration::from_millis(100);

/// What to export.
#[derive(Debug, Clone, Default)]
pub struct Order {
    /// One shard, without the checkpoints; all with them when `None`.
    pub shard: Option<u16>,
    /// First sequence of each stream; of a file that is gone on with, the beginning of the file decides.
    pub from_sequence: u64,
}

/// What was exported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exported {
    /// By stream: the last sequence in the file, and how many messages this run added.
    pub streams: BTreeMap<String, (u64, u64)>,
    /// The epochs of the journal, where there are several.
    pub layout: Option<layout::Exported>,
}

/// Why an export stopped. What was written until then is whole and can be gone on with.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The server gives no answer.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
    /// The journal is not there.
    #[error("there is no stream {0}")]
    NoStream(String),
    /// The journal's epochs cannot be told.
    #[error(transparent)]
    Layout(#[from] super::Error),
    /// A message is missing in the stream.
    #[error("message {sequence} of {stream} is missing: the stream holds it no longer")]
    Gap {
        /// The stream.
        stream: String,
        /// The sequence.
        sequence: u64,
    },
    /// The stream ends before what the file holds already.
    #[error("{stream} ends at {head}, and the file holds its messages up to {held}: the stream was cut off")]
    Shorter {
        /// The stream.
        stream: String,
        /// Its last sequence.
        head: u64,
        /// The last sequence in the file.
        held: u64,
    },
    /// The stream holds another message than the file at the last sequence of the file.
    #[error(
        "{stream} holds another message at {sequence} than the file: it is another journal, or it was written anew or \
         restored from an older copy; export into a new directory"
    )]
    Diverged {
        /// The stream.
        stream: String,
        /// The sequence.
        sequence: u64,
    },
    /// The file holds something else than an export.
    #[error("{}, line {line}: {reason}", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
        /// What is wrong with it.
        reason: String,
    },
    /// Another export is writing the file.
    #[error("{} is being written by another export", .0.display())]
    Busy(PathBuf),
    /// The file cannot be read or written.
    #[error("{}: {error}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system says.
        error: std::io::Error,
    },
}

/// A file that is being written.
struct Output {
    path: PathBuf,
    file: File,
    /// Last sequence of each stream in it.
    held: BTreeMap<String, u64>,
    /// The last line of each stream that an earlier run wrote.
    last_lines: BTreeMap<String, Vec<u8>>,
    /// The last line in it that says what there is.
    said: Option<Contents>,
}

/// Exports to `output`: a directory, or a file when its name ends in `.jsonl`.
///
/// # Errors
/// [`Error`].
pub async fn export(
    reader: &RawReader,
    order: &Order,
    output: &Path,
    progress: &Arc<Progress>,
) -> Result<Exported, Error> {
    let Snapshot { streams, layout } = Snapshot::take(reader, order.shard).await?;
    let one_file = output.extension().is_some_and(|extension| extension == "jsonl") && !output.is_dir();
    if !one_file {
        std::fs::create_dir_all(output).map_err(|error| Error::File { path: output.to_owned(), error })?;
    }
    progress.expect(streams.values().sum());
    let mut shared = if one_file { Some(Output::open(output)?) } else { None };
    match &mut shared {
        Some(output) => output.say(Contents { streams: streams.keys().cloned().collect(), layout: layout.clone() })?,
        None => write_layout(output, layout.clone())?,
    }
    let mut exported = Exported { streams: BTreeMap::new(), layout };
    for (stream, head) in streams {
        let done = match &mut shared {
            Some(output) => copy(reader, order, &stream, head, output, progress).await?,
            None => {
                let mut own = Output::open(&output.join(format!("{stream}.jsonl")))?;
                copy(reader, order, &stream, head, &mut own, progress).await?
            }
        };
        exported.streams.insert(stream, done);
    }
    Ok(exported)
}

/// Copies a stream that no auditor needs, and that has no gaps either, to a file of its own, which is gone on with.
///
/// # Errors
/// [`Error`].
pub async fn export_other(
    reader: &RawReader,
    stream: &str,
    path: &Path,
    progress: &Progress,
) -> Result<(u64, u64), Error> {
    let head = reader.head(stream).await?;
    progress.expect(head);
    let mut output = Output::open(path)?;
    copy(reader, &Order { shard: None, from_sequence: 1 }, stream, head, &mut output, progress).await
}

/// What is exported, as it is at one time.
struct Snapshot {
    /// The last sequence of each stream.
    streams: BTreeMap<String, u64>,
    /// The epochs, where there are several.
    layout: Option<layout::Exported>,
}

impl Snapshot {
    /// Asks for the heads in the order in which nothing can be missed that something else rests on: the checkpoints before
    /// what they sign, and newer shards before older ones, as a stream begins in a new epoch behind its marks in the
    /// old ones.
    async fn take(reader: &RawReader, shard: Option<u16>) -> Result<Self, Error> {
        let wanted = shard.map(envelope::stream);
        loop {
            let layout = Layout::read(reader).await?;
            let mut names = reader.streams().await?;
            names.retain(|name| match &wanted {
                Some(wanted) => name == wanted,
                None => name.starts_with("EVT_") || name == checkpoint::STREAM,
            });
            if names.is_empty() {
                return Err(Error::NoStream(wanted.unwrap_or_else(|| envelope::stream(0))));
            }
            names.sort_by_key(|name| (name != checkpoint::STREAM, Reverse(name.clone())));
            let mut streams = BTreeMap::new();
            for name in names {
                let head = reader.head(&name).await?;
                streams.insert(name, head);
            }
            // An epoch that was begun or sealed meanwhile counts in all of it or in nothing.
            if Layout::read(reader).await? == layout {
                return Ok(Self { streams, layout: layout.exported() });
            }
        }
    }
}

/// Writes the epochs into a file of their own in the directory, whole or not at all.
fn write_layout(directory: &Path, layout: Option<layout::Exported>) -> Result<(), Error> {
    if layout.is_none() {
        return Ok(());
    }
    let (path, new) = (directory.join(LAYOUT), directory.join(format!("{LAYOUT}.new")));
    let line = json_lines::write_contents(&Contents { streams: Vec::new(), layout });
    let written = File::create(&new).and_then(|mut file| {
        file.write_all(&line)?;
        file.sync_all()
    });
    written.and_then(|()| std::fs::rename(&new, &path)).map_err(|error| Error::File { path, error })
}

async fn copy(
    reader: &RawReader,
    order: &Order,
    stream: &str,
    head: u64,
    output: &mut Output,
    progress: &Progress,
) -> Result<(u64, u64), Error> {
    let held = output.held.get(stream).copied();
    let mut last = held.unwrap_or_else(|| order.from_sequence.saturating_sub(1));
    if let Some(held) = held.filter(|held| *held > head) {
        return Err(Error::Shorter { stream: stream.to_owned(), head, held });
    }
    output.is_of(reader, stream).await?;
    progress.add(last.min(head));
    let mut added = 0;
    let mut asked = 0;
    while last < head {
        let batch = reader.batch(stream, last + 1, None, BATCH_MESSAGES).await?;
        let whole = (last + 1..=head).zip(&batch).take_while(|(sequence, message)| message.sequence == *sequence);
        let whole: Vec<_> = whole.map(|(_, message)| message).collect();
        if whole.is_empty() {
            // A replica may be behind.
            asked += 1;
            if asked == ASKED_AGAIN {
                return Err(Error::Gap { stream: stream.to_owned(), sequence: last + 1 });
            }
            sleep(ASK_PAUSE).await;
            continue;
        }
        asked = 0;
        let lines: Vec<u8> = whole.iter().flat_map(|message| json_lines::write(message)).collect();
        output.append(&lines)?;
        last += whole.len() as u64;
        added += whole.len() as u64;
        progress.add(whole.len() as u64);
    }
    output.sync()?;
    output.held.insert(stream.to_owned(), last);
    Ok((last, added))
}

impl Output {
    /// Opens `path` to go on with, creating it when it is missing.
    fn open(path: &Path) -> Result<Self, Error> {
        let fault = |error| Error::File { path: path.to_owned(), error };
        let file = File::options().read(true).write(true).create(true).truncate(false).open(path).map_err(fault)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(std::fs::TryLockError::WouldBlock) => return Err(Error::Busy(path.to_owned())),
            Err(std::fs::TryLockError::Error(error)) => return Err(fault(error)),
        }
        let (held, last_lines) = Default::default();
        let mut output = Self { path: path.to_owned(), file, held, last_lines, said: None };
        let whole = output.read_held()?;
        output.file.set_len(whole).map_err(fault)?;
        output.file.seek(SeekFrom::End(0)).map_err(fault)?;
        Ok(output)
    }

    /// Reads what the file holds, checking that each stream's messages are without a gap; the length of its whole lines.
    fn read_held(&mut self) -> Result<u64, Error> {
        let fault = |error| Error::File { path: self.path.clone(), error };
        let mut reader = BufReader::new(&self.file);
        let (mut whole, mut number, mut bytes) = (0, 0, Vec::new());
        loop {
            bytes.clear();
            let read = reader.read_until(b'\n', &mut bytes).map_err(fault)?;
            if !bytes.ends_with(b"\n") {
                return Ok(whole);
            }
            number += 1;
            let foreign = |reason: String| Error::Foreign { path: self.path.clone(), line: number, reason };
            if let Some(contents) = json_lines::contents(&bytes) {
                self.said = Some(contents);
                whole += read as u64;
                continue;
            }
            let head = json_lines::head(&bytes).map_err(|error| foreign(error.to_string()))?;
            if let Some(last) = self.held.get(&head.stream)
                && head.sequence != last + 1
            {
                return Err(foreign(format!("{} of {} stands behind {last}", head.sequence, head.stream)));
            }
            self.last_lines.insert(head.stream.clone(), bytes.clone());
            self.held.insert(head.stream, head.sequence);
            whole += read as u64;
        }
    }

    /// That `stream` holds what the file ends with.
    async fn is_of(&self, reader: &RawReader, stream: &str) -> Result<(), Error> {
        let Some(line) = self.last_lines.get(stream) else { return Ok(()) };
        // It was read as one of the stream's before.
        let Ok(held) = json_lines::read(line) else { return Ok(()) };
        let found = reader.batch(stream, held.sequence, None, 1).await?;
        match found.first() {
            Some(found) if found.sequence == held.sequence && found.hash() == held.hash() => Ok(()),
            // What the file is longer by is told apart.
            None => Ok(()),
            Some(_) => Err(Error::Diverged { stream: stream.to_owned(), sequence: held.sequence }),
        }
    }

    /// Says what there is in the file, where its messages do not say it and nothing says it yet. What an earlier run said
    /// about one epoch needs no second line.
    fn say(&mut self, contents: Contents) -> Result<(), Error> {
        let needed = contents.layout.is_some() || (contents.streams.len() > 1 && self.held.is_empty());
        if needed && self.said.as_ref() != Some(&contents) {
            self.append(&json_lines::write_contents(&contents))?;
            self.said = Some(contents);
        }
        Ok(())
    }

    fn append(&mut self, lines: &[u8]) -> Result<(), Error> {
        self.file.write_all(lines).map_err(|error| Error::File { path: self.path.clone(), error })
    }

    fn sync(&mut self) -> Result<(), Error> {
        self.file.sync_data().map_err(|error| Error::File { path: self.path.clone(), error })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_torn_line_is_cut_off_and_a_foreign_file_is_not_touched() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x.jsonl");
        let line = |sequence: u64| format!("{{\"stream\":\"EVT_00\",\"sequence\":{sequence},\"subject\":\"s\"}}\n");
        let whole = format!("{}{}", line(5), line(6));
        std::fs::write(&path, format!("{whole}{}", &line(7)[..20])).unwrap();
        let output = Output::open(&path).unwrap();
        assert_eq!(output.held["EVT_00"], 6);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), whole);
        assert!(matches!(Output::open(&path), Err(Error::Busy(_))));
        drop(output);
        for (text, at) in [(format!("{}{}", line(5), line(7)), 2), ("{}\n".to_owned(), 1)] {
            std::fs::write(&path, &text).unwrap();
            assert!(matches!(Output::open(&path), Err(Error::Foreign { line, .. }) if line == at));
            assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
        }
    }
}
