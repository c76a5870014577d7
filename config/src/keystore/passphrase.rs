//! The passphrase of the keystores: from a file that the configuration or the environment names, or from whoever sits at the
//! terminal.

use std::{
    fs,
    io::{IsTerminal, stdin},
    path::PathBuf,
};

/// Names a file with the passphrase, which may be a file descriptor, `/dev/fd/3`.
const VARIABLE: &str = "GW_PASSPHRASE_FILE";

/// The passphrase, read once and when it is needed: a descriptor gives it only once.
pub struct Passphrase {
    file: Option<PathBuf>,
    read: Option<String>,
    /// Whether a person who is asked has to say it twice.
    is_new: bool,
}

impl Passphrase {
    /// That in this file; without one, in the file that the environment names, or asked for.
    pub fn new(file: Option<PathBuf>) -> Self {
        let file = file.or_else(|| std::env::var_os(VARIABLE).filter(|path| !path.is_empty()).map(PathBuf::from));
        Self { file, read: None, is_new: false }
    }

    /// The same where a keystore is made with it: a person at the terminal says it twice, as a typing error would make a key that
    /// nobody opens.
    pub fn for_new(file: Option<PathBuf>) -> Self {
        Self { is_new: true, ..Self::new(file) }
    }

    /// The passphrase, without the line's end.
    ///
    /// # Errors
    /// The rule that is broken, for whoever names the keystore.
    pub fn get(&mut self) -> Result<&str, String> {
        if self.read.is_none() {
            self.read = Some(self.ask()?);
        }
        Ok(self.read.as_deref().unwrap_or_default())
    }

    fn ask(&self) -> Result<String, String> {
        let read = match &self.file {
            Some(file) => fs::read_to_string(file)
                .map_err(|error| format!("the passphrase in {} cannot be read: {error}", file.display()))?,
            None if stdin().is_terminal() => {
                let said = prompt("Passphrase of the keystores: ")?;
                if self.is_new && prompt("The same again: ")? != said {
                    return Err("the two passphrases differ".to_owned());
                }
                said
            }
            None => return Err(format!("needs a passphrase: name its file as passphrase_file, or in {VARIABLE}")),
        };
        let passphrase = read.trim_end_matches(['\r', '\n']);
        if passphrase.is_empty() { Err("the passphrase is empty".to_owned()) } else { Ok(passphrase.to_owned()) }
    }
}

fn prompt(text: &str) -> Result<String, String> {
    rpassword::prompt_password(text).map_err(|error| format!("the passphrase cannot be asked for: {error}"))
}
