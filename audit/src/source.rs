//! Message source of an auditor: a NATS server, or exported files.

use std::{
    collections::{BTreeMap, HashMap},
    fs::File,
    io::{BufRead, BufReader},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

use journal::{checkpoint, envelope};
use journal_jetstream::raw::{RawMessage, RawReader};

use super::{
    Error, Finding, JournalLocation, Severity,
    json_lines::{self, Contents},
    layout::{self, Layout},
};

/// Messages to audit.
pub enum Source {
    /// A server, read with an auditor's credentials.
    Nats(RawReader),
    /// Exported files.
    Export(Exported),
}

/// Exported files, indexed. Only the index is held in memory.
pub struct Exported {
    files: Vec<(PathBuf, File)>,
    streams: BTreeMap<String, Indexed>,
    /// The epochs, where there are several.
    layout: Option<layout::Exported>,
    /// Lines that are not messages, messages out of order.
    faults: Vec<Finding>,
}

#[derive(Default)]
struct Indexed {
    /// By sequence, ascending.
    messages: Vec<(u64, LineRange)>,
    /// Indexes into `messages`, by subject.
    subjects: HashMap<String, Vec<usize>>,
}

/// Where the line of a message is.
#[derive(Clone, Copy)]
struct LineRange {
    file: usize,
    offset: u64,
    bytes: usize,
}

impl Indexed {
    /// Forgets what is behind `head`.
    fn cut(&mut self, head: u64) {
        let kept = self.messages.partition_point(|(sequence, _)| *sequence <= head);
        self.messages.truncate(kept);
        for of_subject in self.subjects.values_mut() {
            of_subject.retain(|at| *at < kept);
        }
    }
}

impl Source {
    /// The epochs of the journal, by what its streams or files say.
    ///
    /// # Errors
    /// [`Error::NoJournal`] when there is none, or its streams are not those of whole epochs without a gap.
    pub async fn layout(&self) -> Result<Layout, Error> {
        match self {
            Self::Nats(reader) => Layout::read(reader).await,
            Self::Export(exported) => exported.layout(),
        }
    }

    /// Whether there is a stream of checkpoints.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn has_checkpoints(&self) -> Result<bool, Error> {
        Ok(self.streams().await?.iter().any(|name| name == checkpoint::STREAM))
    }

    async fn streams(&self) -> Result<Vec<String>, Error> {
        match self {
            Self::Nats(reader) => Ok(reader.streams().await?),
            Self::Export(exported) => Ok(exported.streams.keys().cloned().collect()),
        }
    }

    /// What is wrong with the files themselves.
    pub fn faults(&self) -> &[Finding] {
        match self {
            Self::Nats(_) => &[],
            Self::Export(exported) => &exported.faults,
        }
    }

    /// Last sequence of a stream; 0 for an empty one.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn head(&self, stream: &str) -> Result<u64, Error> {
        match self {
            Self::Nats(reader) => Ok(reader.head(stream).await?),
            Self::Export(exported) => {
                let indexed = exported.streams.get(stream);
                Ok(indexed.and_then(|indexed| indexed.messages.last()).map_or(0, |(sequence, _)| *sequence))
            }
        }
    }

    /// Up to `limit` messages of a stream with sequence at or above `from`, in order; with `subject`, of that alone. A
    /// server may give fewer than there are.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn batch(
        &self,
        stream: &str,
        from: u64,
        subject: Option<&str>,
        limit: usize,
    ) -> Result<Vec<RawMessage>, Error> {
        match self {
            Self::Nats(reader) => Ok(reader.batch(stream, from, subject, limit).await?),
            Self::Export(exported) => exported.batch(stream, from, subject, limit),
        }
    }

    /// All messages of a subject up to a sequence, in order.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn subject(&self, stream: &str, subject: &str, up_to: u64) -> Result<Vec<RawMessage>, Error> {
        match self {
            Self::Nats(reader) => Ok(reader.subject(stream, subject, 1, up_to).await?),
            Self::Export(exported) => {
                let mut messages = exported.batch(stream, 1, Some(subject), usize::MAX)?;
                messages.retain(|message| message.sequence <= up_to);
                Ok(messages)
            }
        }
    }

    /// The last message of a subject.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn last(&self, stream: &str, subject: &str) -> Result<Option<RawMessage>, Error> {
        match self {
            Self::Nats(reader) => Ok(reader.last(stream, subject).await?),
            Self::Export(exported) => Ok(exported.batch(stream, 1, Some(subject), usize::MAX)?.pop()),
        }
    }
}

/// Whether a stream of this name belongs to the journal or its checkpoints.
fn is_stream(name: &str) -> bool {
    name.starts_with("EVT_") || name == checkpoint::STREAM
}

impl Exported {
    /// Indexes the file at `path`, or all files `*.jsonl` in the directory at `path`.
    ///
    /// # Errors
    /// [`Error::File`], and [`Error::NoJournal`] when there is nothing to index.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let fault = |path: &Path, error| Error::File { path: path.to_owned(), error };
        let mut paths = vec![path.to_owned()];
        if path.is_dir() {
            let entries = std::fs::read_dir(path).map_err(|error| fault(path, error))?;
            paths = entries.flatten().map(|entry| entry.path()).collect();
            paths.retain(|path| path.extension().is_some_and(|extension| extension == "jsonl"));
            paths.sort();
        }
        if paths.is_empty() {
            return Err(Error::NoJournal(format!("{} holds no *.jsonl", path.display())));
        }
        let mut exported = Self { files: Vec::new(), streams: BTreeMap::new(), layout: None, faults: Vec::new() };
        for path in paths {
            let file = File::open(&path).map_err(|error| fault(&path, error))?;
            exported.index(path.clone(), file).map_err(|error| fault(&path, error))?;
        }
        Ok(exported)
    }

    /// The directory at `path` as it was when its streams ended at `heads` and the journal had these epochs: what was added
    /// later is left out.
    ///
    /// # Errors
    /// As [`Exported::open`].
    pub fn open_up_to(
        path: &Path,
        heads: &BTreeMap<String, u64>,
        layout: Option<layout::Exported>,
    ) -> Result<Self, Error> {
        let mut exported = Self::open(path)?;
        exported.streams.retain(|stream, _| heads.contains_key(stream));
        for (stream, indexed) in &mut exported.streams {
            indexed.cut(heads.get(stream).copied().unwrap_or(0));
        }
        exported.layout = layout;
        Ok(exported)
    }

    fn index(&mut self, path: PathBuf, file: File) -> std::io::Result<()> {
        let mut reader = BufReader::new(file.try_clone()?);
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        // A file with one stream bears its name, so that an empty one is told from one that is not there.
        if let Some(stream) = name.strip_suffix(".jsonl").filter(|stream| is_stream(stream)) {
            self.streams.entry(stream.to_owned()).or_default();
        }
        let (mut offset, mut number, mut bytes) = (0, 0, Vec::new());
        loop {
            bytes.clear();
            let read = std::io::Read::take(&mut reader, json_lines::LINE_BYTES_MAX).read_until(b'\n', &mut bytes)?;
            if read == 0 {
                break;
            }
            number += 1;
            let line = LineRange { file: self.files.len(), offset, bytes: read };
            offset += read as u64;
            if let Some(Contents { streams, layout }) = json_lines::contents(&bytes) {
                for stream in streams {
                    self.streams.entry(stream).or_default();
                }
                // The last one is what the journal was when the file was written last.
                self.layout = layout.or(self.layout.take());
                continue;
            }
            match json_lines::read(&bytes) {
                Ok(message) => self.note(&message, line),
                Err(error) => {
                    let what = format!("line {number} of {name}: {error}");
                    self.faults.push(Finding::new(Severity::Tampered, "export", JournalLocation::default(), what));
                }
            }
        }
        self.files.push((path, file));
        Ok(())
    }

    /// What the files say, or one epoch of all their streams, as in exports of old.
    fn layout(&self) -> Result<Layout, Error> {
        let shards = self.streams.keys().filter(|name| name.starts_with("EVT_")).count();
        let shards = u16::try_from(shards).unwrap_or(u16::MAX);
        if shards == 0 {
            return Err(Error::NoJournal("no stream is called EVT_00".to_owned()));
        }
        let layout = match &self.layout {
            Some(layout) => Layout::new(&layout.epochs, layout.sealed.clone())?,
            None => Layout::one(shards),
        };
        match (0..layout.shards()).map(envelope::stream).find(|name| !self.streams.contains_key(name)) {
            Some(missing) => Err(Error::NoJournal(format!("{shards} streams of events, and {missing} is not there"))),
            None => Ok(layout),
        }
    }

    fn note(&mut self, head: &RawMessage, line: LineRange) {
        let indexed = self.streams.entry(head.stream.clone()).or_default();
        if indexed.messages.last().is_some_and(|(last, _)| *last >= head.sequence) {
            let location = JournalLocation::at(&head.stream, head.sequence, Some(&head.subject));
            let what = "the file holds the message after one of the same or a higher sequence";
            self.faults.push(Finding::new(Severity::Tampered, "export", location, what));
            return;
        }
        indexed.subjects.entry(head.subject.clone()).or_default().push(indexed.messages.len());
        indexed.messages.push((head.sequence, line));
    }

    fn batch(&self, stream: &str, from: u64, subject: Option<&str>, limit: usize) -> Result<Vec<RawMessage>, Error> {
        let Some(indexed) = self.streams.get(stream) else { return Ok(Vec::new()) };
        let all = &indexed.messages;
        let start = all.partition_point(|(sequence, _)| *sequence < from);
        match subject {
            None => all[start..].iter().take(limit).map(|(_, line)| self.read(line)).collect(),
            Some(subject) => {
                let own = indexed.subjects.get(subject).map(Vec::as_slice).unwrap_or_default();
                let own = own.iter().filter(|index| **index >= start).take(limit);
                own.map(|index| self.read(&all[*index].1)).collect()
            }
        }
    }

    fn read(&self, line: &LineRange) -> Result<RawMessage, Error> {
        let (path, file) = &self.files[line.file];
        let fault = |error| Error::File { path: path.clone(), error };
        let mut bytes = vec![0; line.bytes];
        file.read_exact_at(&mut bytes, line.offset).map_err(fault)?;
        json_lines::read(&bytes).map_err(|error| fault(std::io::Error::other(error)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_added_after_the_heads_is_left_out_with_its_epochs() {
        let directory = tempfile::tempdir().unwrap();
        let line = |stream: &str, sequence: u64| {
            json_lines::write(&RawMessage {
                stream: stream.to_owned(),
                sequence,
                subject: "s".to_owned(),
                headers: BTreeMap::new(),
                body: "{}".into(),
                stored_at: "2026-01-02T03:04:05Z".parse().unwrap(),
            })
        };
        let lines = |stream: &str, count: u64| (1..=count).flat_map(|at| line(stream, at)).collect::<Vec<u8>>();
        for (stream, count) in [("EVT_00", 3), ("EVT_01", 2)] {
            std::fs::write(directory.path().join(format!("{stream}.jsonl")), lines(stream, count)).unwrap();
        }
        let runs = [(0, 0), (1, 1)].map(|(number, first)| layout::Run { number, first, shards: 1 });
        let said = Contents {
            streams: Vec::new(),
            layout: Some(layout::Exported { epochs: runs.into(), sealed: [0].into() }),
        };
        std::fs::write(directory.path().join("layout.jsonl"), json_lines::write_contents(&said)).unwrap();

        let all = Exported::open(directory.path()).unwrap();
        assert_eq!((all.layout().unwrap().shards(), all.batch("EVT_00", 1, Some("s"), 9).unwrap().len()), (2, 3));
        let heads = [("EVT_00".to_owned(), 2)].into();
        let before = Exported::open_up_to(directory.path(), &heads, None).unwrap();
        assert_eq!(before.layout().unwrap().shards(), 1);
        for subject in [None, Some("s")] {
            assert_eq!(before.batch("EVT_00", 1, subject, 9).unwrap().len(), 2);
        }
        assert!(before.batch("EVT_01", 1, None, 9).unwrap().is_empty());
    }
}
