//! Storage settings of a gateway: NATS, the journal, the read models, and checkpoints for auditors.

use std::path::PathBuf;

use async_nats::ConnectOptions;
use serde::Deserialize;

use events::Did;
use journal_jetstream::{
    connection::{self, Identity},
    headerless::Endpoint,
};

use crate::Secret;

/// `[nats]`: the server that holds the journal and connects the settlers.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NatsConfig {
    /// Address, `nats://host:port` or `tls://host:port`; several servers of a cluster are separated by commas.
    #[serde(default = "crate::nats_url")]
    pub url: String,
    /// Certificates of the authorities that the server's own comes from, PEM; with it nothing but TLS will do. Without it
    /// `tls://` goes by the system's authorities, and `nats://` is for loopback.
    #[serde(default)]
    pub ca_file: Option<PathBuf>,
    /// File with the seed of the gateway role's NKEY, `SU…`; read again for each connection.
    pub seed_file: PathBuf,
}

impl NatsConfig {
    /// The addresses, and how to connect to them.
    ///
    /// # Errors
    /// When an address or the file cannot be used.
    pub fn client(&self) -> Result<(Vec<String>, ConnectOptions), connection::Error> {
        let servers = connection::servers(&self.url, self.ca_file.as_deref())?;
        Ok((servers, Identity::in_file(&self.seed_file)?.options(self.ca_file.as_deref())))
    }

    /// Where a connection without headers leads, called `name` in the server's reports.
    ///
    /// # Errors
    /// When an address or the file cannot be used.
    pub fn endpoint(&self, name: &str) -> Result<Endpoint, connection::Error> {
        let servers = connection::servers(&self.url, self.ca_file.as_deref())?;
        let identity = Some(Identity::in_file(&self.seed_file)?);
        Ok(Endpoint { servers, identity, ca_file: self.ca_file.clone(), name: name.to_owned() })
    }
}

/// `[journal]`: the event streams; both values take effect when the streams are created.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct JournalConfig {
    /// Number of streams the payments are spread over, 1 to 256; fixed once created.
    pub shards: u16,
    /// Copies of each stream in a NATS cluster: 1, 3 or 5.
    pub replicas: u8,
}

impl Default for JournalConfig {
    fn default() -> Self {
        Self { shards: 8, replicas: 1 }
    }
}

/// `[projections]`: the read models, which are rebuilt from the journal whenever they are missing or damaged.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProjectionsConfig {
    /// Directory they are kept in.
    pub directory: PathBuf,
}

/// `[audit]`: signed checkpoints of what the journal holds, for auditors.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AuditConfig {
    /// Ed25519 seed, 0x and 64 hex digits, with which this gateway signs checkpoints; without it, it signs none.
    pub checkpoint_key: Option<Secret>,
    /// Pause between two checkpoints of a shard, in seconds.
    pub checkpoint_seconds: u64,
    /// Keys of the other gateways, as did:key, where each has its own.
    pub trusted_signers: Vec<Did>,
}

impl Default for AuditConfig {
    fn default() -> Self {
        Self { checkpoint_key: None, checkpoint_seconds: 60, trusted_signers: Vec::new() }
    }
}
