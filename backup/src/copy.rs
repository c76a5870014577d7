//! Making a copy, and going on with one: of streams that keep everything only what is new is read.

use std::{
    fs::{self, File, TryLockError},
    io::Write,
    os::unix::fs::DirBuilderExt,
    path::Path,
    sync::Arc,
    time::Duration,
};

use async_nats::Client;
use chrono::Utc;
use tokio::time::sleep;

use audit::{
    export::{self, Order},
    json_lines,
    progress::Progress,
};
use journal_jetstream::raw::{BATCH_MESSAGES, RawMessage, RawReader, Unavailable};

use super::{
    Error,
    manifest::{Manifest, gateway, journal},
    plan,
};

/// How long one read of a stream tries.
const READ_MAX: Duration = Duration::from_secs(15);
/// The file that is locked while a copy is made or read.
const LOCK: &str = "backup.lock";
/// How often a replica that is behind is asked again.
const ASKED_AGAIN: u32 = 100;
const ASK_PAUSE: Duration = Duration::from_millis(100);
/// How often a stream that grows meanwhile is read behind what was read of it.
const ROUNDS_MAX: u32 = 100;

/// Copies what the gateways keep into `directory`, which is made, or gone on with. The copy is good for a restore once this
/// returns; one that was good before stays so while this runs, and when it is interrupted.
///
/// # Errors
/// [`Error`].
pub async fn copy(client: Client, directory: &Path, progress: &Arc<Progress>) -> Result<Manifest, Error> {
    let reader = RawReader::new(client, READ_MAX);
    for folder in [directory, &journal(directory), &gateway(directory)] {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(Error::file(folder))?;
    }
    let lock = directory.join(LOCK);
    let lock_file = File::create(&lock).map_err(Error::file(&lock))?;
    if lock_file.try_lock().is_err() {
        return Err(busy(directory));
    }
    let before = match Manifest::read(directory) {
        Ok(before) => before.generation,
        Err(Error::Defective { .. }) => 0,
        Err(error) => return Err(error),
    };
    let mut manifest = Manifest::begun(Utc::now(), before + 1);
    let there = reader.streams().await?;
    for stream in plan::BEFORE_SHARDS.into_iter().filter(|stream| there.iter().any(|name| name == stream)) {
        let (last, _) = export::export_other(&reader, stream, &manifest.file(directory, stream), progress).await?;
        manifest.kept.insert(stream.to_owned(), last);
    }
    // The checkpoints before what they sign, the newest shards before the older ones, and then what commits name.
    let order = Order { shard: None, from_sequence: 1 };
    let exported = export::export(&reader, &order, &journal(directory), progress).await?;
    manifest.kept.extend(exported.streams.into_iter().map(|(stream, (last, _))| (stream, last)));
    manifest.layout = exported.layout;
    let there = reader.streams().await?;
    let is_there = |stream: &&str| there.iter().any(|name| name == stream);
    let is_left = |stream: &&str| is_there(stream) && !plan::BEFORE_SHARDS.contains(stream);
    for stream in plan::KEPT.into_iter().filter(is_left) {
        let (last, _) = export::export_other(&reader, stream, &manifest.file(directory, stream), progress).await?;
        manifest.kept.insert(stream.to_owned(), last);
    }
    for stream in plan::NEWEST.into_iter().filter(is_there) {
        let count = newest(&reader, stream, &manifest.file(directory, stream)).await?;
        manifest.newest.insert(stream.to_owned(), count);
    }
    for folder in [journal(directory), gateway(directory)] {
        File::open(&folder).and_then(|folder| folder.sync_all()).map_err(Error::file(folder))?;
    }
    manifest.write(directory)?;
    remove_older(directory, &manifest)?;
    Ok(manifest)
}

/// Takes part in the lock for as long as a copy is read, where there is one.
pub(crate) fn reading(directory: &Path) -> Result<Option<File>, Error> {
    // A copy on a medium that cannot be written is made by nobody.
    let Ok(file) = File::open(directory.join(LOCK)) else { return Ok(None) };
    match file.try_lock_shared() {
        Err(TryLockError::WouldBlock) => Err(busy(directory)),
        Ok(()) | Err(TryLockError::Error(_)) => Ok(Some(file)),
    }
}

fn busy(directory: &Path) -> Error {
    Error::Defective { path: directory.to_owned(), what: "another run is at it now".to_owned() }
}

/// Writes what is in a stream that does not keep everything; how many messages that is.
async fn newest(reader: &RawReader, stream: &str, path: &Path) -> Result<u64, Error> {
    let fault = |error| Error::File { path: path.to_owned(), error };
    let mut file = File::create(path).map_err(fault)?;
    let mut count = 0;
    let write = |message: &RawMessage| {
        count += 1;
        file.write_all(&json_lines::write(message)).map_err(fault)
    };
    each_held(reader, stream, write).await?;
    file.sync_all().map_err(fault)?;
    Ok(count)
}

/// Gives `take` every message of a stream that does not keep everything. One that takes the place of another meanwhile stands behind
/// what was read then, so it is read on until nothing is behind.
pub(crate) async fn each_held(
    reader: &RawReader,
    stream: &str,
    mut take: impl FnMut(&RawMessage) -> Result<(), Error>,
) -> Result<(), Error> {
    let (mut read, mut asked, mut rounds) = (0, 0, 0);
    while rounds < ROUNDS_MAX {
        // From the leader, as a replica may be behind.
        let last = reader.last_held(stream).await?.unwrap_or(0);
        if last <= read {
            return Ok(());
        }
        let batch = reader.batch(stream, read + 1, None, BATCH_MESSAGES).await?;
        let Some(newest) = batch.last() else {
            asked += 1;
            if asked == ASKED_AGAIN {
                let reason = format!("a replica does not give what the leader has up to {last}");
                return Err(Unavailable { what: stream.to_owned(), reason }.into());
            }
            sleep(ASK_PAUSE).await;
            continue;
        };
        (read, asked) = (newest.sequence, 0);
        rounds += u32::from(read >= last);
        batch.iter().try_for_each(&mut take)?;
    }
    let reason = "it grows faster than it is read".to_owned();
    Err(Unavailable { what: stream.to_owned(), reason }.into())
}

/// Deletes the files of the copy before, which the manifest does not name any more.
fn remove_older(directory: &Path, manifest: &Manifest) -> Result<(), Error> {
    let folder = gateway(directory);
    let own: Vec<_> = manifest.newest.keys().map(|stream| manifest.file(directory, stream)).collect();
    for entry in fs::read_dir(&folder).map_err(Error::file(&folder))? {
        let path = entry.map_err(Error::file(&folder))?.path();
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let is_generation = |stream: &&str| {
            let number = name.strip_prefix(*stream).and_then(|rest| rest.strip_prefix('.'));
            let number = number.and_then(|rest| rest.strip_suffix(".jsonl"));
            number.is_some_and(|number| number.parse::<u64>().is_ok())
        };
        if plan::NEWEST.iter().any(is_generation) && !own.contains(&path) {
            fs::remove_file(&path).map_err(Error::file(&path))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;

    #[test]
    fn only_files_of_earlier_copies_are_deleted() {
        let directory = TempDir::new().unwrap();
        let folder = gateway(directory.path());
        fs::create_dir(&folder).unwrap();
        let all = ["ANSWERS.1.jsonl", "AWARDS.1.jsonl", "AWARDS.2.jsonl", "SIG.jsonl", "AWARDS.x.jsonl", "1.jsonl"];
        for name in all {
            fs::write(folder.join(name), "").unwrap();
        }
        let mut manifest = Manifest::begun(Utc::now(), 2);
        manifest.newest.insert("AWARDS".to_owned(), 0);
        remove_older(directory.path(), &manifest).unwrap();
        let mut left: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["1.jsonl", "AWARDS.2.jsonl", "AWARDS.x.jsonl", "SIG.jsonl"]);
    }

    #[test]
    fn a_copy_that_is_being_made_is_not_read() {
        let directory = TempDir::new().unwrap();
        assert!(reading(directory.path()).unwrap().is_none());
        let made = File::create(directory.path().join(LOCK)).unwrap();
        made.try_lock().unwrap();
        assert!(reading(directory.path()).unwrap_err().to_string().contains("another run is at it now"));
        drop(made);
        assert!(reading(directory.path()).unwrap().is_some());
    }
}
