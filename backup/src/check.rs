//! Whether a copy is all there: every stream that its manifest names, up to where it says.

use std::{fs::File, path::Path};

use audit::json_lines;
use journal_jetstream::raw::RawMessage;

use super::{Error, copy, manifest::Manifest};

/// A copy that is all there. While it is held no run goes on with the copy.
#[derive(Debug)]
pub struct Checked {
    /// What it says of itself.
    pub manifest: Manifest,
    _lock: Option<File>,
}

/// Reads every message of the copy in `directory`. What the messages say is an auditor's affair: `gw audit verify --all` over
/// `journal/`.
///
/// # Errors
/// [`Error::Defective`] for the first file that is missing, too short, or holds something else, and while a run goes on with it.
pub fn check(directory: &Path) -> Result<Checked, Error> {
    let lock = copy::reading(directory)?;
    let manifest = Manifest::read(directory)?;
    for (stream, last) in &manifest.kept {
        let mut found = 0;
        for message in kept(directory, &manifest, stream, *last)? {
            found = message?.sequence;
        }
        if found != *last {
            let what = format!("it ends at {found}, and {last} is the last of the copy");
            return Err(Error::Defective { path: manifest.file(directory, stream), what });
        }
    }
    for (stream, count) in &manifest.newest {
        let messages = newest(directory, &manifest, stream)?;
        if messages.len() as u64 != *count {
            let what = format!("it has {} messages, and the copy has {count}", messages.len());
            return Err(Error::Defective { path: manifest.file(directory, stream), what });
        }
    }
    Ok(Checked { manifest, _lock: lock })
}

/// The messages of a stream that keeps everything, 1, 2, 3 … up to `last`. A copy that was gone on with and not finished may have
/// more.
pub(crate) fn kept(
    directory: &Path,
    manifest: &Manifest,
    stream: &str,
    last: u64,
) -> Result<impl Iterator<Item = Result<RawMessage, Error>> + use<>, Error> {
    let path = manifest.file(directory, stream);
    let messages = json_lines::messages(&path).map_err(Error::file(&path))?;
    let stream = stream.to_owned();
    let in_order = messages.zip(1..).map(move |(message, expected)| {
        let message = message.map_err(Error::file(&path))?;
        if message.stream != stream || message.sequence != expected {
            let what = format!("{} of {} stands where {expected} belongs", message.sequence, message.stream);
            return Err(Error::Defective { path: path.clone(), what });
        }
        Ok(message)
    });
    Ok(in_order.take(usize::try_from(last).unwrap_or(usize::MAX)))
}

/// All messages of another stream.
pub(crate) fn newest(directory: &Path, manifest: &Manifest, stream: &str) -> Result<Vec<RawMessage>, Error> {
    let path = manifest.file(directory, stream);
    let messages = json_lines::messages(&path).map_err(Error::file(&path))?;
    let messages: Vec<_> = messages.collect::<Result<_, _>>().map_err(Error::file(&path))?;
    match messages.iter().find(|message| message.stream != stream) {
        Some(other) => Err(Error::Defective { path, what: format!("it holds a message of {}", other.stream) }),
        None => Ok(messages),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use tempfile::TempDir;

    use super::*;
    use crate::manifest::{gateway, journal};

    fn message(stream: &str, sequence: u64) -> RawMessage {
        RawMessage {
            stream: stream.to_owned(),
            sequence,
            subject: format!("s.{sequence}"),
            headers: Default::default(),
            body: "{}".into(),
            stored_at: "2026-01-02T03:04:05Z".parse().unwrap(),
        }
    }

    struct Copy {
        directory: TempDir,
        manifest: Manifest,
    }

    impl Copy {
        fn write(&self, stream: &str, sequences: &[u64]) {
            let lines: Vec<u8> = sequences.iter().flat_map(|at| json_lines::write(&message(stream, *at))).collect();
            fs::write(self.manifest.file(self.directory.path(), stream), lines).unwrap();
        }

        fn check(&self) -> Result<Manifest, Error> {
            check(self.directory.path()).map(|checked| checked.manifest)
        }
    }

    fn copy() -> Copy {
        let directory = TempDir::new().unwrap();
        for folder in [journal(directory.path()), gateway(directory.path())] {
            fs::create_dir(folder).unwrap();
        }
        let mut manifest = Manifest::begun("2026-01-02T03:04:05Z".parse().unwrap(), 1);
        manifest.kept = [("EVT_00".to_owned(), 3), ("SIG".to_owned(), 0)].into();
        manifest.newest = [("AWARDS".to_owned(), 2)].into();
        manifest.write(directory.path()).unwrap();
        let copy = Copy { directory, manifest };
        copy.write("EVT_00", &[1, 2, 3, 4]);
        copy.write("SIG", &[]);
        copy.write("AWARDS", &[3, 9]);
        copy
    }

    #[test]
    fn a_copy_that_lacks_something_is_not_whole() {
        let copy = copy();
        assert_eq!(copy.check().unwrap(), copy.manifest, "what is beyond the copy is no fault of it");
        for wrong in [&[1, 2][..], &[1, 3, 4], &[2, 3, 4]] {
            copy.write("EVT_00", wrong);
            assert!(matches!(copy.check(), Err(Error::Defective { .. })), "{wrong:?}");
        }
        copy.write("EVT_00", &[1, 2, 3]);
        copy.write("AWARDS", &[3]);
        assert!(matches!(copy.check(), Err(Error::Defective { .. })));
        fs::remove_file(copy.manifest.file(copy.directory.path(), "AWARDS")).unwrap();
        assert!(matches!(copy.check(), Err(Error::File { .. })));
    }

    /// As a run leaves it that was killed before its manifest.
    #[test]
    fn a_copy_stays_whole_while_the_next_one_is_not() {
        let copy = copy();
        let mut next = copy.manifest.clone();
        next.generation += 1;
        next.kept.insert("EVT_01".to_owned(), 1);
        let next = Copy { directory: copy.directory, manifest: next };
        next.write("EVT_00", &[1, 2, 3, 4, 5]);
        next.write("EVT_01", &[1]);
        next.write("AWARDS", &[9, 12, 13]);
        let layout = r#"{"streams":[],"layout":{"epochs":[{"number":0,"first":0,"shards":1},{"number":1,"first":1,"shards":1}],"sealed":[0]}}"#;
        fs::write(journal(next.directory.path()).join("layout.jsonl"), format!("{layout}\n")).unwrap();
        let found = next.check().unwrap();
        assert_eq!(found, copy.manifest);
        assert_eq!(found.epochs().unwrap().shards(), 1);
    }
}
