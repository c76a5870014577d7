//! `gw protocol`.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args as ClapArgs;

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

/// Writes or checks the documents of the settlers' protocol.
///
/// # Errors
/// When a file cannot be written, or is not what the code gives.
pub fn run(args: &Args) -> Result<()> {
    if let Some(folder) = &args.write {
        protocol_documents::write(folder)?;
    }
    if let Some(folder) = &args.check {
        protocol_documents::check(folder)?;
    }
    Ok(())
}
