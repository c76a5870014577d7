//! Shell completions and man pages, made from the command line's own definition.

use std::{fs, path::PathBuf};

use anyhow::{Context, Result};
use clap::{Args as ClapArgs, Command};
use clap_complete::Shell;

/// Arguments of `gw completions`.
#[derive(Debug, ClapArgs)]
pub struct CompletionsArgs {
    /// The shell that completes.
    #[arg(value_enum)]
    shell: Shell,
}

/// Arguments of `gw man`.
#[derive(Debug, ClapArgs)]
pub struct ManArgs {
    /// The folder, which is made where it is not there; pages of the same names in it are replaced.
    folder: PathBuf,
}

/// Writes what completes `command` in a shell to standard output.
///
/// # Errors
/// When it cannot be written.
pub fn completions(args: &CompletionsArgs, mut command: Command) -> Result<()> {
    let name = command.get_name().to_owned();
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, name, &mut script);
    let script = String::from_utf8(script).context("the completions are not text")?;
    super::answer(script.trim_end())
}

/// Writes a page for `command` and for each command below it that is not hidden, `gw.1`, `gw-admin.1` and so on.
///
/// # Errors
/// When a page cannot be written.
pub fn pages(args: &ManArgs, command: Command) -> Result<()> {
    let folder = &args.folder;
    fs::create_dir_all(folder).with_context(|| format!("create {}", folder.display()))?;
    clap_mangen::generate_to(command, folder).with_context(|| format!("write pages into {}", folder.display()))
}
