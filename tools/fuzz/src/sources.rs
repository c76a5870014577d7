//! What a target is made of, as a digest: a target whose digest is not the one on record was changed since it was fuzzed.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    path::{Path, PathBuf},
};

use events::Hash32;

use crate::Target;

/// What the digests on record are in, below the repository: lines of a target and its digest.
pub const ON_RECORD: &str = "tools/fuzz/fuzzed";
/// Folders of a crate that no reader is in.
const NOT_READ: &[&str] = &["benches", "corpus", "examples", "target", "tests"];
/// Hexadecimal digits of a digest: as many as keep two states of some files apart.
const DIGITS: usize = 16;

/// The repository that this was built in.
pub fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The digest of a target in a repository: of the Rust sources in its folders and of its own module without blank lines and lines
/// of comments, and of the packages of others that its crates use, by their versions.
///
/// # Errors
/// What the file system says; a folder without a source or without a crate.
pub fn digest(repository: &Path, target: &Target) -> io::Result<String> {
    let module = repository.join("tools/fuzz/src").join(target.module).with_extension("rs");
    let (mut sources, mut crates) = (BTreeSet::from([module]), BTreeSet::new());
    for folder in target.folders {
        let folder = repository.join(folder);
        let before = sources.len();
        collect(&folder, &mut sources, &mut crates)?;
        if sources.len() == before {
            return Err(io::Error::other(format!("{} has no source", folder.display())));
        }
        crates.insert(crate_around(repository, &folder)?);
    }
    let mut digested = String::new();
    for path in sources {
        let name = path.strip_prefix(repository).unwrap_or(&path).display();
        digested.push_str(&format!("{name}\n"));
        let text = fs::read_to_string(&path)?;
        let code = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("//"));
        code.for_each(|line| digested.extend([line, "\n"]));
    }
    let lock = fs::read_to_string(repository.join("Cargo.lock"))?;
    for package in Packages::read(&lock).used_by(crates.iter().flatten()) {
        digested.push_str(&format!("{package}\n"));
    }
    let digest = Hash32::sha256(digested).to_string();
    Ok(digest.trim_start_matches("0x")[..DIGITS].to_owned())
}

/// Whether a target differs from what is on record of it.
///
/// # Errors
/// As [`digest`].
pub fn is_changed(repository: &Path, target: &Target) -> io::Result<bool> {
    let record = match fs::read_to_string(repository.join(ON_RECORD)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        record => record?,
    };
    let line = format!("{} {}", target.name, digest(repository, target)?);
    Ok(record.lines().all(|on_record| on_record != line))
}

/// The sources below a folder, and the names of the crates in it.
fn collect(folder: &Path, sources: &mut BTreeSet<PathBuf>, crates: &mut BTreeSet<Option<String>>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let (name, path) = (entry.file_name(), entry.path());
        if entry.file_type()?.is_dir() {
            if !NOT_READ.iter().any(|not_read| name == *not_read) {
                collect(&path, sources, crates)?;
            }
        } else if name == "Cargo.toml" {
            crates.insert(crate_of(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "rs") && name != "tests.rs" {
            sources.insert(path);
        }
    }
    Ok(())
}

/// The crate that a folder is in, if it is in one.
fn crate_around(repository: &Path, folder: &Path) -> io::Result<Option<String>> {
    let inside = folder.ancestors().take_while(|ancestor| *ancestor != repository);
    let manifest = inside.map(|ancestor| ancestor.join("Cargo.toml")).find(|manifest| manifest.is_file());
    manifest.map_or(Ok(None), |manifest| crate_of(&manifest))
}

/// The name that a manifest gives its crate.
fn crate_of(manifest: &Path) -> io::Result<Option<String>> {
    Ok(fs::read_to_string(manifest)?.lines().find_map(|line| quoted(line, "name = ")).map(str::to_owned))
}

/// The text in quotes behind a key at the beginning of a line.
fn quoted<'a>(line: &'a str, key: &str) -> Option<&'a str> {
    line.strip_prefix(key)?.strip_prefix('"')?.strip_suffix('"')
}

/// The packages of a Cargo.lock.
#[derive(Default)]
struct Packages<'a> {
    /// Each package by name and version: whether others made it, and what it uses, as the file names that.
    of_lock: BTreeMap<(&'a str, &'a str), (bool, Vec<&'a str>)>,
}

impl<'a> Packages<'a> {
    fn read(lock: &'a str) -> Self {
        let mut packages = Self::default();
        for block in lock.split("[[package]]\n").skip(1) {
            let of = |key| block.lines().find_map(|line| quoted(line, key)).unwrap_or_default();
            let uses = block.lines().filter_map(|line| line.strip_prefix(" \"")?.strip_suffix("\",")).collect();
            packages.of_lock.insert((of("name = "), of("version = ")), (!of("source = ").is_empty(), uses));
        }
        packages
    }

    /// What others made of all that these crates use, themselves or by what they use: names and versions.
    fn used_by(&self, crates: impl Iterator<Item = &'a String>) -> BTreeSet<String> {
        let (mut left, mut seen, mut used) =
            (crates.map(String::as_str).collect::<Vec<_>>(), BTreeSet::new(), BTreeSet::new());
        while let Some(named) = left.pop() {
            if !seen.insert(named) {
                continue;
            }
            // The file gives a version only where there are several.
            let (name, version) = named.split_once(' ').unwrap_or((named, ""));
            let version = version.split(' ').next().unwrap_or_default();
            for ((other, its_version), (is_of_others, uses)) in self.of_lock.range((name, version)..) {
                if *other != name || (!version.is_empty() && *its_version != version) {
                    break;
                }
                if *is_of_others {
                    used.insert(format!("{name} {its_version}"));
                }
                left.extend(uses);
            }
        }
        used
    }
}
