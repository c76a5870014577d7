//! Generations: the directories of the database, the one in use and unfinished ones.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use tracing::warn;

const GENERATION_PREFIX: &str = "generation-";
/// Beside a generation that is not whole yet: one that is found with it is of no use.
const BUILDING_SUFFIX: &str = ".building";

pub(crate) fn generation_path(root: &Path, generation: u64) -> PathBuf {
    root.join(format!("{GENERATION_PREFIX}{generation}"))
}

pub(crate) fn building_path(root: &Path, generation: u64) -> PathBuf {
    root.join(format!("{GENERATION_PREFIX}{generation}{BUILDING_SUFFIX}"))
}

/// Removes what a rebuild that was interrupted left behind.
pub(crate) fn discard_unfinished(root: &Path) -> io::Result<()> {
    for entry in fs::read_dir(root)? {
        let marker = entry?;
        let name = marker.file_name();
        let Some(generation) = name.to_str().and_then(|name| name.strip_suffix(BUILDING_SUFFIX)) else { continue };
        warn!(generation, "a rebuild of the projections was interrupted; its unfinished copy is removed");
        let unfinished = root.join(generation);
        if unfinished.exists() {
            fs::remove_dir_all(&unfinished)?;
        }
        // Last, so that an interruption here leaves the marker with whatever it marks.
        fs::remove_file(marker.path())?;
    }
    Ok(())
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
