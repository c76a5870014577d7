//! `gw protocol`.

use std::{fs, path::PathBuf};

use anyhow::{Context, Result, ensure};
use clap::Args as ClapArgs;

/// The OpenAPI document, which stands beside the documents of the settlers' protocol (ADR 118).
const OPENAPI: &str = "openapi.json";

/// Arguments of `gw protocol`.
#[derive(Debug, ClapArgs)]
#[group(required = true, multiple = false)]
pub struct Args {
    /// Write the documents into this folder.
    #[arg(long, value_name = "FOLDER")]
    write: Option<PathBuf>,
    /// Check that this folder holds them.
    #[arg(long, value_name = "FOLDER")]
    check: Option<PathBuf>,
}

/// Writes or checks the documents of the settlers' protocol and of the HTTP API.
///
/// # Errors
/// When a file cannot be written, or is not what the code gives.
pub fn run(args: &Args) -> Result<()> {
    if let Some(folder) = &args.write {
        protocol_documents::write(folder)?;
        let path = folder.join(OPENAPI);
        fs::write(&path, api::openapi::file()).with_context(|| path.display().to_string())?;
    }
    if let Some(folder) = &args.check {
        protocol_documents::check(folder)?;
        let path = folder.join(OPENAPI);
        let found = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        ensure!(
            found == api::openapi::file(),
            "{} is not what the code gives; `gw protocol --write` makes it so",
            path.display()
        );
    }
    Ok(())
}
