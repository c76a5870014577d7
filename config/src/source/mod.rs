//! One TOML file, with the chains that it shares with other roles put in, the environment laid over it, and keys read from
//! the files that it names.

mod chains_file;
mod key_files;

use std::path::Path;

use figment::{
    Figment, Metadata, Profile, Provider,
    providers::{Format, Toml},
    util::nest,
    value::{Dict, Map, Value},
};
use serde::de::DeserializeOwned;

use super::Error;

pub use self::key_files::{KeyForm, KeyPlace};

/// The private keys that a role's file names or holds, without those of the environment. None of them is read.
///
/// # Errors
/// [`Error`] when the file, or the file of chains that it names, cannot be read.
pub fn key_places(path: &Path) -> Result<Vec<KeyPlace>, Error> {
    let mut keys = read(path)?;
    chains_file::put_in(&mut keys, path.parent().unwrap_or(Path::new("")))?;
    Ok(key_files::places(&keys))
}

/// Where a role's configuration comes from besides its file.
pub(super) struct Source {
    /// What the names of its variables begin with.
    pub(super) prefix: &'static str,
    /// Whether a variable, by its lower-case name without the prefix, is meant for this role.
    pub(super) is_ours: fn(&str) -> bool,
}

impl Source {
    /// The process's environment; a variable that is not Unicode cannot be a key or value of ours.
    pub(super) fn environment() -> Vec<(String, String)> {
        std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect()
    }

    /// The file at `path` overridden by `variables`.
    pub(super) fn extract<T: DeserializeOwned>(
        &self,
        path: &Path,
        variables: Vec<(String, String)>,
    ) -> Result<T, Error> {
        let unreadable = |error| Error::Unreadable(Box::new(error));
        let mut keys = read(path)?;
        let directory = path.parent().unwrap_or(Path::new(""));
        chains_file::put_in(&mut keys, directory)?;
        let passphrase_file = key_files::take_passphrase_file(&mut keys, directory)?;
        key_files::warn_of_plaintext(path, &keys);
        let file = Figment::from(InFile { path, keys });
        let mut overrides = self.overrides(variables);
        if let Some(Value::Dict(_, by_index)) = overrides.get("chains")
            && let Ok(Value::Array(_, chains)) = file.find_value("chains")
        {
            let chains = override_items("chains", chains, by_index)?;
            overrides.insert("chains".to_owned(), chains.into());
        }
        let merged = file.merge(Environment { prefix: self.prefix, overrides });
        let keys: Dict = merged.extract().map_err(unreadable)?;
        let mut keyed = Dict::new();
        let mut key_files = key_files::KeyFiles::new(directory, passphrase_file);
        for name in keys.keys() {
            // What has no files of keys in it stays where it came from, which errors name.
            if let Ok(mut value) = merged.find_value(name)
                && key_files.put_in(name, &mut value)?
            {
                keyed.insert(name.clone(), value);
            }
        }
        merged.merge(InFile { path, keys: keyed }).extract().map_err(unreadable)
    }

    fn overrides(&self, variables: Vec<(String, String)>) -> Dict {
        let mut figment = Figment::new();
        for (name, text) in variables {
            let Some(key) = name.strip_prefix(self.prefix).map(str::to_ascii_lowercase) else { continue };
            if key.is_empty() || !(self.is_ours)(&key) {
                continue;
            }
            // An empty variable counts as unset, as it does for most programs.
            if text.is_empty() {
                continue;
            }
            // Parsing cannot fail: what is not a number, truth value, array or table is text.
            let value = text.parse::<Value>().unwrap_or_else(|never| match never {});
            if let Value::Dict(_, overrides) = nest(&key.replace("__", "."), value) {
                figment = figment.merge(Environment { prefix: self.prefix, overrides });
            }
        }
        figment.extract().unwrap_or_default()
    }
}

/// The keys of a file.
fn read(path: &Path) -> Result<Dict, Error> {
    check_syntax(path)?;
    // Not by a figment of its own, whose marks of where values come from no other knows.
    match Toml::file_exact(path).data() {
        Ok(profiles) => Ok(profiles.into_values().next().unwrap_or_default()),
        // It names the file where the other does not.
        Err(_) => Figment::from(Toml::file_exact(path)).extract().map_err(|error| Error::Unreadable(Box::new(error))),
    }
}

/// Refuses a file that is not TOML by its place alone. The reader's own error repeats the whole line, which may hold a secret
/// that somebody forgot to quote. A file that cannot be read at all is the reader's to tell of.
fn check_syntax(path: &Path) -> Result<(), Error> {
    let Ok(text) = std::fs::read_to_string(path) else { return Ok(()) };
    let Err(error) = toml::from_str::<toml::Table>(&text) else { return Ok(()) };
    let start = error.span().map_or(0, |span| span.start);
    let before = text.get(..start).unwrap_or_default();
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    Err(Error::Syntax { path: path.to_owned(), line, column })
}

/// Lays members over the items of an array, named by index.
fn override_items(key: &str, mut items: Vec<Value>, by_index: &Dict) -> Result<Vec<Value>, Error> {
    let count = items.len();
    for (index, members) in by_index {
        let item = index.parse::<usize>().ok().and_then(|index| items.get_mut(index));
        let (Some(Value::Dict(_, item)), Value::Dict(_, members)) = (item, members) else {
            let rule = format!("the file has {count} of them, the environment overrides number {index}");
            return Err(Error::Invalid { key: key.to_owned(), rule });
        };
        item.extend(members.clone());
    }
    Ok(items)
}

/// The keys of a file as a source of figment's, so that an error names the file.
struct InFile<'a> {
    path: &'a Path,
    keys: Dict,
}

impl Provider for InFile<'_> {
    fn metadata(&self) -> Metadata {
        Metadata::from("TOML file", self.path)
    }

    fn data(&self) -> Result<Map<Profile, Dict>, figment::Error> {
        Ok(Profile::Default.collect(self.keys.clone()))
    }
}

/// The overrides as a source of figment's, so that an error names the variable.
struct Environment {
    prefix: &'static str,
    overrides: Dict,
}

impl Provider for Environment {
    fn metadata(&self) -> Metadata {
        let prefix = self.prefix;
        Metadata::named("environment").interpolater(move |_: &Profile, keys: &[&str]| {
            let keys: Vec<_> = keys.iter().map(|key| key.to_ascii_uppercase()).collect();
            format!("{prefix}{}", keys.join("__"))
        })
    }

    fn data(&self) -> Result<Map<Profile, Dict>, figment::Error> {
        Ok(Profile::Default.collect(self.overrides.clone()))
    }
}
