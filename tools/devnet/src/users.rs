//! NATS users of the development network. Everyone knows these keys: never use them where money is.

use std::path::Path;

use async_nats::ConnectOptions;
use ed25519_dalek::SigningKey;

use config::AUDITOR_INBOX_PREFIX;
use events::{Did, Hash32, selection::SelectorSigner};
use gateway::nats::Users;
use journal_jetstream::{
    connection::{Identity, nkey, nkey_seed},
    headerless::Endpoint,
};
use settler::nats_credentials::inbox_prefix;

use super::keys;

/// A user of the development network's nats-server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NatsUser {
    /// The gateways.
    Gateway,
    /// Who seals epochs.
    Operator,
    /// Who reads the journal.
    Auditor,
    /// The quote selector.
    Selector,
    /// A settler, 1 to 3.
    Settler(usize),
    /// The settler that answers no award: see [`SilentSettler`](crate::silent_settler::SilentSettler).
    Silent,
    /// The settler that accepts its awards and never delivers: see [`Network::start_fading_settler`](crate::network::Network::start_fading_settler).
    Fading,
}

impl NatsUser {
    /// Its key.
    pub fn key(self) -> SigningKey {
        let named = |name: &str| SigningKey::from_bytes(&Hash32::sha256(format!("gw dev nats {name}")).0);
        match self {
            Self::Gateway => named("gateway"),
            Self::Operator => named("operator"),
            Self::Auditor => named("auditor"),
            Self::Selector => match keys::selector_signer() {
                SelectorSigner::Ed25519(key) => key,
                SelectorSigner::Evm(_) => named("selector"),
            },
            Self::Settler(number) => settler::dev::key(number).unwrap_or_else(|| named(&format!("settler {number}"))),
            Self::Silent => named("silent settler"),
            Self::Fading => named("fading settler"),
        }
    }

    /// The public key as nats-server has it.
    pub fn nkey(self) -> String {
        nkey(&self.key().verifying_key())
    }

    /// The DID of its key.
    pub fn did(self) -> Did {
        Did::from_ed25519(&self.key().verifying_key())
    }

    /// A connection as this user, ready to be made to a server on loopback.
    pub fn options(self) -> ConnectOptions {
        self.options_with(None)
    }

    /// As [`NatsUser::options`], over TLS where there is a file with the authority.
    pub fn options_with(self, ca_file: Option<&Path>) -> ConnectOptions {
        let options = Identity::of(&self.key()).options(ca_file);
        match self {
            Self::Gateway => options,
            Self::Operator => options.custom_inbox_prefix("_INBOX_operator"),
            Self::Auditor => options.custom_inbox_prefix(AUDITOR_INBOX_PREFIX),
            Self::Selector => options.custom_inbox_prefix("_INBOX_selector"),
            Self::Settler(_) | Self::Silent | Self::Fading => {
                options.custom_inbox_prefix(inbox_prefix(&self.did().token()))
            }
        }
    }

    /// Where this user hears without headers.
    pub fn endpoint(self, servers: Vec<String>, ca_file: Option<&Path>) -> Endpoint {
        let (identity, ca_file) = (Some(Identity::of(&self.key())), ca_file.map(Path::to_owned));
        Endpoint { servers, identity, ca_file, name: format!("{self:?}, headerless") }
    }

    /// The file of this user's seed, by its path beside nats.conf.
    pub fn seed_file(self) -> String {
        match self {
            Self::Gateway => "nats/gateway.seed".to_owned(),
            Self::Operator => "nats/operator.seed".to_owned(),
            Self::Auditor => "nats/auditor.seed".to_owned(),
            Self::Selector => "nats/selector.seed".to_owned(),
            Self::Settler(number) => format!("nats/settler-{number}.seed"),
            Self::Silent => "nats/settler-silent.seed".to_owned(),
            Self::Fading => "nats/settler-fading.seed".to_owned(),
        }
    }
}

/// Whom the development network's nats-server admits.
pub fn users() -> Users {
    Users {
        gateway: NatsUser::Gateway.nkey(),
        operator: NatsUser::Operator.nkey(),
        auditors: vec![NatsUser::Auditor.nkey()],
        selectors: vec![(keys::selector_signer().key(), NatsUser::Selector.nkey())],
        settlers: settler::dev::dids().into_iter().chain([NatsUser::Silent.did(), NatsUser::Fading.did()]).collect(),
    }
}

/// What nats-server includes in the development network, and the seeds of those who have no other key.
///
/// # Errors
/// Never: all settlers here have Ed25519 keys.
pub fn files() -> Result<Vec<(String, String)>, events::did::Error> {
    let mut files = users().files()?;
    for user in [NatsUser::Gateway, NatsUser::Operator, NatsUser::Auditor] {
        files.push((user.seed_file(), nkey_seed(&user.key()) + "\n"));
    }
    Ok(files)
}
