//! Files that operators and auditors hand over: configuration, keystores, exports, copies.

use std::{fs, io::Write, path::Path};

use audit::{json_lines, source::Exported};
use config::{GatewayConfig, VerifierConfig, chains_toml::ChainsToml, networks::Network};
use tempfile::TempDir;

use crate::input::{choice, text};

/// Reads a gateway's configuration from this text, as from a file.
///
/// # Errors
/// What the product says of it.
pub fn load(text: &str) -> Result<GatewayConfig, String> {
    in_file("gateway.toml", text.as_bytes(), |path| GatewayConfig::load(path).map_err(|error| error.to_string()))?
}

fn in_file<T>(name: &str, bytes: &[u8], read: impl FnOnce(&Path) -> T) -> Result<T, String> {
    let written = || -> std::io::Result<(TempDir, std::path::PathBuf)> {
        let directory = TempDir::new()?;
        let path = directory.path().join(name);
        fs::File::create(&path)?.write_all(bytes)?;
        Ok((directory, path))
    };
    let (_directory, path) = written().map_err(|error| error.to_string())?;
    Ok(read(&path))
}

/// Texts that name files of this machine, which are not to be read here.
fn names_files(text: &str) -> bool {
    text.contains("_file") || text.contains("file ") || text.contains("file=") || text.contains("\\u")
}

/// Configuration files of every role.
pub fn configurations(bytes: &[u8]) {
    let Some((role, rest)) = choice(bytes) else { return };
    let Some(text) = text(rest).filter(|text| !names_files(text)) else { return };
    let refused = match role {
        b'v' => in_file("verifier.toml", rest, |path| VerifierConfig::load(path).err().map(|error| error.to_string())),
        b'a' => {
            in_file("auditor.toml", rest, |path| config::AuditorConfig::load(path).err().map(|error| error.to_string()))
        }
        b'c' => in_file("chains.toml", rest, |path| ChainsToml::open(path).err().map(|error| error.to_string())),
        b'n' => Ok(Network::read("network", text).err().map(|error| error.to_string())),
        _ => in_file("gateway.toml", rest, |path| GatewayConfig::load(path).err().map(|error| error.to_string())),
    };
    if let Ok(Some(reason)) = refused {
        assert!(!reason.is_empty(), "a refusal names its key");
    }
}

/// A keystore of Web3 Secret Storage.
pub fn keystores(bytes: &[u8]) {
    let opened = in_file("key.json", bytes, |path| config::keystore::open(path, "passphrase"));
    if let Ok(Err(error)) = opened {
        assert!(!error.to_string().is_empty());
    }
}

/// Lines of an exported journal.
pub fn export_lines(bytes: &[u8]) {
    for line in bytes.split_inclusive(|byte| *byte == b'\n').take(64) {
        let head = json_lines::head(line);
        if let Ok(message) = json_lines::read(line) {
            assert!(head.is_ok_and(|head| head.stream == message.stream && head.sequence == message.sequence));
            let again = json_lines::read(&json_lines::write(&message));
            assert_eq!(again.as_ref(), Ok(&message));
            assert_eq!(again.map(|again| again.hash()), Ok(message.hash()));
            let sequence = message.sequence;
            let opened =
                message.envelope().and_then(|envelope| envelope.open(3, sequence, &message.body, message.stored_at));
            if let Ok(opened) = opened {
                assert_eq!(opened.position.hash, message.hash(), "a commit has one hash");
            }
        }
        if let Some(contents) = json_lines::contents(line) {
            assert_eq!(json_lines::contents(&json_lines::write_contents(&contents)), Some(contents));
        }
    }
}

/// A whole export, as an auditor opens it.
pub fn exports(bytes: &[u8]) {
    let opened =
        in_file("journal.jsonl", bytes, |path| Exported::open(path).map(drop).map_err(|error| error.to_string()));
    if let Ok(Err(reason)) = opened {
        assert!(!reason.is_empty());
    }
}

/// A copy of a gateway: the manifest, a line `---`, and the lines of its first stream.
pub fn copies(bytes: &[u8]) {
    let cut = bytes.windows(5).position(|five| five == b"\n---\n").unwrap_or(bytes.len());
    let lines = bytes.get(cut + 5..).unwrap_or_default();
    let checked = in_file("backup.json", &bytes[..cut], |path| {
        let directory = path.parent().unwrap_or(Path::new("."));
        for folder in ["journal", "gateway"] {
            fs::create_dir(directory.join(folder)).map_err(|error| error.to_string())?;
        }
        fs::write(directory.join("journal/EVT_00.jsonl"), lines).map_err(|error| error.to_string())?;
        backup::check::check(directory).map(drop).map_err(|error| error.to_string())
    });
    if let Ok(Err(reason)) = checked {
        assert!(!reason.is_empty());
    }
}
