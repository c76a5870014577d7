//! NATS set-up beside nats.conf: the keys that nats-server admits, and its certificates.
//!
//! nats.conf says what each role may do and includes the files that are made here, all under `nats/`. They hold public keys
//! and paths; the secrets lie beside them in files of their own.

pub mod certificates;
pub(crate) mod client;

use std::path::Path;

use events::{Did, did, selection::SelectorKey};

use auction::selector::{nats_account, nats_import};

/// Whose keys are admitted: `$GATEWAY_KEY`, `$OPERATOR_KEY`, `$AUDITORS` and `$SELECTORS` of nats.conf.
pub const KEYS_FILE: &str = "nats/keys.conf";
/// The accounts of settlers and selectors.
pub const ACCOUNTS_FILE: &str = "nats/accounts.conf";
/// The server's certificate.
pub const TLS_FILE: &str = "nats/tls.conf";
/// The certificates of a cluster's servers among themselves.
pub const ROUTES_FILE: &str = "nats/routes.conf";

/// The keys that a server admits, as `U…`, and those whose key is in their name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Users {
    /// The gateways'.
    pub gateway: String,
    /// Who seals epochs.
    pub operator: String,
    /// Who may read the journal.
    pub auditors: Vec<String>,
    /// Quote selectors, each with its NKEY.
    pub selectors: Vec<(SelectorKey, String)>,
    /// Settlers.
    pub settlers: Vec<Did>,
}

impl Users {
    /// What stands in [`KEYS_FILE`].
    pub fn keys(&self) -> String {
        let auditors: Vec<String> = self.auditors.iter().map(|nkey| format!("  {{ nkey: {nkey} }}\n")).collect();
        let selectors: Vec<String> = self.selectors.iter().map(|(key, _)| nats_import(key) + "\n").collect();
        format!(
            "\
# Whom nats-server admits. These are public keys; each holder has the seed. After a change: nats-server --signal reload.

GATEWAY_KEY: {}

# Who seals epochs with `gw admin epochs seal`.
OPERATOR_KEY: {}

# One line for each auditor: {{ nkey: U… }}
AUDITORS: [
{}]

# One line for each quote selector, as `gw selector id` prints it.
SELECTORS: [
{}]
",
            self.gateway,
            self.operator,
            auditors.concat(),
            selectors.concat(),
        )
    }

    /// What stands in [`ACCOUNTS_FILE`].
    ///
    /// # Errors
    /// When a settler's DID holds no Ed25519 key.
    pub fn accounts(&self) -> Result<String, did::Error> {
        let mut text = "# One account for each settler, as `gw settler id` prints it, and for each quote selector. \
                        Public keys alone.\n# After a change: nats-server --signal reload, twice when an account was \
                        added.\n"
            .to_owned();
        for (key, nkey) in &self.selectors {
            text += &format!("\n{}", nats_account(key, nkey));
        }
        for did in &self.settlers {
            text += &format!("\n{}", settler::nats_account(did)?);
        }
        Ok(text)
    }

    /// The files of a server on loopback without TLS, by their paths beside nats.conf.
    ///
    /// # Errors
    /// As [`Users::accounts`].
    pub fn files(&self) -> Result<Vec<(String, String)>, did::Error> {
        let plain = "# No certificate: this server is for loopback alone.\n".to_owned();
        Ok(vec![
            (KEYS_FILE.to_owned(), self.keys()),
            (ACCOUNTS_FILE.to_owned(), self.accounts()?),
            (TLS_FILE.to_owned(), plain),
        ])
    }
}

/// What stands in [`TLS_FILE`] for a server whose certificate and key lie in `directory`, an absolute path.
pub fn tls(directory: &Path) -> String {
    let (certificate, key) = (directory.join("server.pem"), directory.join("server.key"));
    format!(
        "\
# The server's certificate. With this section nobody comes in without TLS. Paths are absolute, because nats-server takes
# others from where it was started.
tls {{
  cert_file: \"{}\"
  key_file: \"{}\"
  timeout: 5
}}
",
        certificate.display(),
        key.display(),
    )
}

/// What stands in [`ROUTES_FILE`] for a cluster whose servers' certificates lie in `directory`, an absolute path.
pub fn routes(directory: &Path) -> String {
    let file = |name: &str| directory.join(name).display().to_string();
    format!(
        "\
# How the servers of a cluster know each other: each proves a certificate of this authority. No password is among them.
tls {{
  cert_file: \"{}\"
  key_file: \"{}\"
  ca_file: \"{}\"
  verify: true
  timeout: 5
}}
",
        file("server.pem"),
        file("server.key"),
        file("ca.pem"),
    )
}
