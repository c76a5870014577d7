//! Paths of the external programs.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// The root of the source tree: `GW_HOME` when set, else where this crate was built from.
pub fn root() -> PathBuf {
    match std::env::var_os("GW_HOME") {
        Some(home) => home.into(),
        // The manifest directory is `<root>/tools/devkit`.
        None => Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap_or(Path::new(".")).to_owned(),
    }
}

/// Path of a program that `scripts/tools.sh` provides.
///
/// # Errors
/// When it is neither in `.tools/bin` nor on the `PATH`; the message says how to get it.
pub fn program(name: &str) -> Result<PathBuf> {
    let own = root().join(".tools/bin").join(name);
    if own.exists() {
        return Ok(own);
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .map(|directory| directory.join(name))
        .find(|candidate| candidate.is_file())
        .with_context(|| format!("{name} is missing: run `scripts/tools.sh run`, or put it on the PATH"))
}
