//! Shell completions and man pages of `gw`: a shell completes by them, and each command has its page.

use std::{collections::BTreeSet, fs, process::Command};

use anyhow::{Context, Result};

fn gw(arguments: &[&str]) -> Result<String> {
    let output = Command::new(env!("CARGO_BIN_EXE_gw")).args(arguments).output()?;
    assert!(output.status.success(), "{output:?}");
    Ok(String::from_utf8(output.stdout)?)
}

/// The commands that the help of `gw` or of one of its commands lists.
fn listed(command: &[&str]) -> Result<BTreeSet<String>> {
    let help = gw(&[command, &["--help"]].concat())?;
    let Some((_, commands)) = help.split_once("\nCommands:\n") else { return Ok(BTreeSet::new()) };
    let names = commands
        .lines()
        .take_while(|line| !line.is_empty())
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next());
    Ok(names.filter(|name| *name != "help").map(str::to_owned).collect())
}

#[test]
fn bash_completes_commands_and_options_by_the_script() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let script = folder.path().join("gw.bash");
    fs::write(&script, gw(&["completions", "bash"])?)?;
    // As readline calls it: the words, which of them is being typed, the command, the word, the one before.
    let completed = |words: &[&str]| -> Result<BTreeSet<String>> {
        let (last, before) = (words[words.len() - 1], words[words.len() - 2]);
        let output = Command::new("bash")
            .args([
                "--norc",
                "-euc",
                r#"source "$1"; shift; last="$1" before="$2"; shift 2
                COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)); _gw gw "$last" "$before"; printf '%s\n' "${COMPREPLY[@]}""#,
            ])
            .arg("bash")
            .arg(&script)
            .args([last, before])
            .args(words)
            .output()?;
        assert!(output.status.success(), "{output:?}");
        Ok(String::from_utf8(output.stdout)?.lines().map(str::to_owned).collect())
    };
    let one = |name: &str| BTreeSet::from([name.to_owned()]);
    assert_eq!(completed(&["gw", "adm"])?, one("admin"));
    assert_eq!(completed(&["gw", "admin", "park", "rep"])?, one("replay"));
    assert_eq!(completed(&["gw", "serve", "--conf"])?, one("--config"));
    let commands = completed(&["gw", ""])?;
    assert!(listed(&[])?.is_subset(&commands), "{commands:?}");
    Ok(())
}

#[test]
fn every_shell_has_a_script() -> Result<()> {
    for (shell, beginning) in
        [("bash", "_gw()"), ("zsh", "#compdef gw"), ("fish", "# Print"), ("elvish", "\nuse builtin")]
    {
        let script = gw(&["completions", shell])?;
        assert!(script.starts_with(beginning), "{shell}: {}", script.lines().next().unwrap_or_default());
    }
    Ok(())
}

#[test]
fn each_command_that_the_help_lists_has_a_man_page() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let pages = folder.path().join("share/man/man1");
    gw(&["man", pages.to_str().context("a path")?])?;
    let mut wanted = BTreeSet::from(["gw.1".to_owned()]);
    let mut open = vec![Vec::new()];
    while let Some(command) = open.pop() {
        let arguments: Vec<&str> = command.iter().map(String::as_str).collect();
        for name in listed(&arguments)? {
            let below: Vec<String> = [command.clone(), vec![name]].concat();
            wanted.insert(format!("gw-{}.1", below.join("-")));
            open.push(below);
        }
    }
    let found: BTreeSet<String> = fs::read_dir(&pages)?
        .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
        .collect::<Result<_>>()?;
    assert!(wanted.len() > 20, "{wanted:?}");
    assert_eq!(found, wanted);
    let pause = fs::read_to_string(pages.join("gw-admin-pause.1"))?;
    assert!(pause.contains(".TH gw-admin-pause 1") && pause.contains("\\-\\-reason"), "{pause}");
    Ok(())
}
