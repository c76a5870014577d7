//! The file of chains that roles share (`chains_file`), to write: networks are added to it, and what becomes known of a chain,
//! its contracts and who may do what in them, is filled in. What an operator wrote stays as it is, comments included.

use std::{
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
};

use toml_edit::{DocumentMut, Item, Table, value};

use events::ChainId;

use super::networks::Network;

const HEAD: &str = "\
# The chains, for all roles: a role's file names this one as `chains_file`, and lays its own [[chains]] sections over these.
# What each key means is in config/gateway.example.toml.
";
const CHAINS: &str = "chains";

/// Why the file cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum ChainsTomlError {
    /// The system refuses.
    #[error("{}: {error}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The system's words.
        error: io::Error,
    },
    /// It is not TOML, or not what a file of chains looks like.
    #[error("{}: {rule}", path.display())]
    Form {
        /// The file.
        path: PathBuf,
        /// The rule that is broken.
        rule: String,
    },
}

/// The file of chains.
pub struct ChainsToml {
    path: PathBuf,
    document: DocumentMut,
}

impl ChainsToml {
    /// The file at `path`.
    ///
    /// # Errors
    /// [`ChainsTomlError`].
    pub fn open(path: &Path) -> Result<Self, ChainsTomlError> {
        let text = fs::read_to_string(path).map_err(|error| ChainsTomlError::File { path: path.to_owned(), error })?;
        Self::read(path, &text)
    }

    /// The same, or an empty one where there is none yet.
    ///
    /// # Errors
    /// [`ChainsTomlError`].
    pub fn open_or_new(path: &Path) -> Result<Self, ChainsTomlError> {
        match fs::read_to_string(path) {
            Ok(text) => Self::read(path, &text),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Self::read(path, HEAD),
            Err(error) => Err(ChainsTomlError::File { path: path.to_owned(), error }),
        }
    }

    fn read(path: &Path, text: &str) -> Result<Self, ChainsTomlError> {
        let form = |rule: String| ChainsTomlError::Form { path: path.to_owned(), rule };
        // Its words repeat the line, which may hold a provider's key.
        let document: DocumentMut = text.parse().map_err(|error: toml_edit::TomlError| {
            let line = error.span().map_or(1, |span| text[..span.start.min(text.len())].matches('\n').count() + 1);
            form(format!("line {line} is not TOML"))
        })?;
        let chains = document.get(CHAINS);
        if chains.is_some_and(|chains| !chains.is_array_of_tables()) {
            return Err(form("chains must be sections, [[chains]]".to_owned()));
        }
        Ok(Self { path: path.to_owned(), document })
    }

    fn sections(&self) -> impl Iterator<Item = &Table> {
        self.document.get(CHAINS).and_then(Item::as_array_of_tables).into_iter().flatten()
    }

    /// The ids of its chains.
    pub fn chain_ids(&self) -> Vec<String> {
        self.sections().filter_map(|section| text_of(section, "chain_id")).map(str::to_owned).collect()
    }

    /// What a chain's section says under a key, where that is a text.
    pub fn get(&self, chain_id: &ChainId, key: &str) -> Option<&str> {
        self.sections().find(|section| is_of(section, chain_id)).and_then(|section| text_of(section, key))
    }

    /// The address of a chain's node, or of the first of several, and the API key that goes along where it has its own.
    pub fn first_node(&self, chain_id: &ChainId) -> Option<(&str, Option<&str>)> {
        let section = self.sections().find(|section| is_of(section, chain_id))?;
        if let Some(url) = text_of(section, "rpc_url") {
            return Some((url, None));
        }
        let first = section.get("rpc_urls").and_then(Item::as_array)?.get(0)?;
        let text = |key: &str| first.as_inline_table()?.get(key)?.as_str();
        Some((first.as_str().or_else(|| text("url"))?, text("api_key")))
    }

    /// The chain's section as a file of its own, for whoever needs it whole.
    pub fn section(&self, chain_id: &ChainId) -> Option<String> {
        self.sections().find(|section| is_of(section, chain_id)).map(ToString::to_string)
    }

    /// Adds a network with the node at `rpc_url`; false where the chain is there already.
    pub fn add(&mut self, network: &Network, rpc_url: &str) -> bool {
        if self.sections().any(|section| is_of(section, &network.chain_id)) {
            return false;
        }
        // As text: the tables of a document know their places in it alone.
        let text = format!("{}{}", self.document, network.section(rpc_url));
        let Ok(document) = text.parse() else { return false };
        self.document = document;
        true
    }

    /// Fills in a key of a chain; false where there is no such chain.
    pub fn set(&mut self, chain_id: &ChainId, key: &str, text: &str) -> bool {
        let chains = self.document.get_mut(CHAINS).and_then(Item::as_array_of_tables_mut);
        let found = chains.and_then(|chains| chains.iter_mut().find(|section| is_of(section, chain_id)));
        let Some(section) = found else { return false };
        section[key] = value(text);
        true
    }

    /// Writes the file, in one step: whoever reads it sees what was there or what is there now.
    ///
    /// # Errors
    /// [`ChainsTomlError::File`].
    pub fn save(&self) -> Result<(), ChainsTomlError> {
        let written = || {
            let new = self.path.with_extension("toml.new");
            let mut file = File::create(&new)?;
            file.write_all(self.document.to_string().as_bytes())?;
            file.sync_all()?;
            fs::rename(&new, &self.path)
        };
        written().map_err(|error| ChainsTomlError::File { path: self.path.clone(), error })
    }
}

fn text_of<'a>(section: &'a Table, key: &str) -> Option<&'a str> {
    section.get(key).and_then(Item::as_str)
}

fn is_of(section: &Table, chain_id: &ChainId) -> bool {
    text_of(section, "chain_id").and_then(|text| text.parse::<ChainId>().ok()).as_ref() == Some(chain_id)
}
