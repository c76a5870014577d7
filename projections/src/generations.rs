//! Generations: the directories of the database, the one in use and unfinished ones.

use std::{
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
    time::SystemTime,
};

use serde::{Deserialize, Serialize};
use tracing::warn;

use crate::entry::FORMAT;

const GENERATION_PREFIX: &str = "generation-";
/// Beside a generation that is not whole yet.
const BUILDING_SUFFIX: &str = ".building";

pub(crate) fn generation_path(root: &Path, generation: u64) -> PathBuf {
    root.join(format!("{GENERATION_PREFIX}{generation}"))
}

pub(crate) fn building_path(root: &Path, generation: u64) -> PathBuf {
    root.join(format!("{GENERATION_PREFIX}{generation}{BUILDING_SUFFIX}"))
}

/// Whether read models were ever made under `root`, and so a journal was there to make them from.
///
/// # Errors
/// When the directory cannot be read.
pub fn were_made(root: &Path) -> io::Result<bool> {
    match fs::read_dir(root) {
        Ok(entries) => {
            let names = entries.map(|entry| entry.map(|entry| entry.file_name()));
            let names = names.collect::<io::Result<Vec<_>>>()?;
            Ok(names.iter().any(|name| name.to_string_lossy().starts_with(GENERATION_PREFIX)))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// What the marker beside a generation that is not whole yet says.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Marker {
    /// The generation that it is built beside, to take its place.
    beside: u64,
    /// The program that fills it, and the form of what it writes. Another may fold otherwise.
    build: String,
}

impl Marker {
    /// The marker of a copy that this program builds; `None` where it cannot tell itself from others.
    fn of_this_build(beside: u64) -> Option<Self> {
        let program = fs::metadata(std::env::current_exe().ok()?).ok()?;
        let modified = program.modified().ok()?.duration_since(SystemTime::UNIX_EPOCH).ok()?.as_nanos();
        let build = format!("{FORMAT} {} {} {modified}", env!("CARGO_PKG_VERSION"), program.len());
        Some(Self { beside, build })
    }
}

/// Marks `generation` as one that is built beside another. Without the marker's contents it is never gone on with.
pub(crate) fn mark_building(root: &Path, generation: u64, beside: u64) -> io::Result<()> {
    let mut marker = File::create(building_path(root, generation))?;
    if let Some(contents) = Marker::of_this_build(beside) {
        marker.write_all(&serde_json::to_vec(&contents)?)?;
    }
    marker.sync_all()?;
    File::open(root)?.sync_all()
}

/// Finds what a rebuild that was interrupted left behind: the generation that this program can go on with, beside the newest
/// one that is whole. Whatever else is unfinished is removed.
pub(crate) fn find_unfinished(root: &Path) -> io::Result<Option<u64>> {
    let mut marked = Vec::new();
    for entry in fs::read_dir(root)? {
        let name = entry?.file_name();
        let Some(generation) = name.to_str().and_then(|name| name.strip_suffix(BUILDING_SUFFIX)) else { continue };
        let number = generation.strip_prefix(GENERATION_PREFIX).and_then(|number| number.parse::<u64>().ok());
        marked.push((generation.to_owned(), number));
    }
    let is_marked = |number: u64| marked.iter().any(|(_, marked)| *marked == Some(number));
    let whole = generations(root)?.into_iter().rfind(|number| !is_marked(*number));
    let expected = whole.and_then(Marker::of_this_build);
    let mut kept = None;
    for (generation, number) in &marked {
        let (marker, unfinished) = (root.join(format!("{generation}{BUILDING_SUFFIX}")), root.join(generation));
        let said = fs::read(&marker).ok().and_then(|said| serde_json::from_slice::<Marker>(&said).ok());
        if kept.is_none() && number.is_some() && said.is_some() && said == expected && unfinished.is_dir() {
            warn!(generation, "a rebuild of the projections was interrupted; the next one goes on with its copy");
            kept = *number;
            continue;
        }
        warn!(generation, "a rebuild of the projections was interrupted; its unfinished copy is removed");
        if unfinished.exists() {
            fs::remove_dir_all(&unfinished)?;
        }
        // Last, so that an interruption here leaves the marker with whatever it marks.
        fs::remove_file(marker)?;
    }
    Ok(kept)
}

/// Numbers of the generations under `root`, ascending.
pub(crate) fn generations(root: &Path) -> io::Result<Vec<u64>> {
    let mut numbers = Vec::new();
    for entry in fs::read_dir(root)? {
        let name = entry?.file_name();
        let number = name.to_str().and_then(|name| name.strip_prefix(GENERATION_PREFIX)?.parse::<u64>().ok());
        numbers.extend(number);
    }
    numbers.sort_unstable();
    Ok(numbers)
}
