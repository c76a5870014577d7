//! Checks of NATS: the connection with the role's own key, and what the role needs there.

use std::{
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use async_nats::{Client, ConnectErrorKind, Event, jetstream};
use url::Url;

use chains::diagnosis::Diagnosis;
use events::SettlerToken;
use journal_jetstream::connection::Identity;

use super::{permissions, streams};

/// Longest time for a connection with its handshake.
const CONNECT_MAX: Duration = Duration::from_secs(5);

/// The settings of a gateway's journal.
#[derive(Debug, Clone, Copy)]
pub(super) struct Journal {
    pub(super) shards: u16,
    pub(super) replicas: usize,
}

/// What a role does on NATS.
#[derive(Debug, Clone)]
pub(super) enum Part {
    Gateway(Journal),
    Settler(SettlerToken),
    Auditor,
    /// With the subject that it is asked on.
    Selector(String),
}

/// A role's connection, as its configuration has it.
pub(super) struct Bus {
    pub(super) servers: Vec<String>,
    pub(super) identity: Identity,
    pub(super) ca_file: Option<PathBuf>,
    pub(super) inbox_prefix: Option<String>,
    pub(super) part: Part,
}

/// What the server refused over a connection, in its own words.
#[derive(Debug, Clone, Default)]
pub(super) struct Refusals(Arc<Mutex<Vec<String>>>);

/// Most of them that are kept.
const REFUSALS_MAX: usize = 64;

impl Refusals {
    fn note(&self, event: &Event) {
        if let Event::ServerError(error) = event {
            let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if all.len() < REFUSALS_MAX {
                all.push(error.to_string());
            }
        }
    }

    /// Whether one of them is about `subject`.
    pub(super) fn of(&self, subject: &str) -> bool {
        let quoted = format!("\"{subject}\"");
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().any(|refusal| refusal.contains(&quoted))
    }
}

impl Bus {
    /// All checks of this connection: the first that fails leaves out those that need it.
    pub(super) async fn examine(self) -> Vec<Diagnosis> {
        let refusals = Refusals::default();
        let client = match self.connect(&refusals).await {
            Ok(client) => client,
            Err(diagnosis) => return vec![diagnosis],
        };
        let mut found = vec![self.reached(&client), encryption(&client, self.ca_file.is_some())];
        match &self.part {
            Part::Gateway(journal) => {
                let (permissions, streams) =
                    tokio::join!(permissions::gateway(&client, &refusals), streams::gateway(&client, *journal));
                found.extend(permissions);
                found.extend(streams);
                found.push(sync_interval());
            }
            Part::Settler(token) => found.extend(permissions::settler(&client, &refusals, token).await),
            Part::Auditor => {
                found.extend(permissions::auditor(&client, &refusals).await);
                found.extend(streams::auditor(&client).await);
            }
            Part::Selector(subject) => found.extend(permissions::selector(&client, &refusals, subject).await),
        }
        found
    }

    async fn connect(&self, refusals: &Refusals) -> Result<Client, Diagnosis> {
        let noted = refusals.clone();
        let mut options =
            self.identity.options(self.ca_file.as_deref()).name("gw doctor").connection_timeout(CONNECT_MAX);
        options = options.event_callback(move |event| {
            noted.note(&event);
            std::future::ready(())
        });
        if let Some(prefix) = &self.inbox_prefix {
            options = options.custom_inbox_prefix(prefix.clone());
        }
        options.connect(self.servers.clone()).await.map_err(|error| {
            let remedy = match error.kind() {
                ConnectErrorKind::Authentication | ConnectErrorKind::AuthorizationViolation => {
                    "the server does not admit this key: put it into the files that nats.conf includes, and reload the server"
                }
                ConnectErrorKind::Tls => "compare `ca_file` with the authority of the server's certificate, and the name with it",
                _ => "start the server, or correct `nats.url`",
            };
            Diagnosis::wrong("server", format!("{}: {error}", self.places()), remedy)
        })
    }

    /// Hosts and ports, and nothing else that an address can hold.
    fn places(&self) -> String {
        let place = |server: &String| {
            let url = Url::parse(server).ok()?;
            Some(format!("{}:{}", url.host_str()?, url.port().unwrap_or(4222)))
        };
        self.servers.iter().filter_map(place).collect::<Vec<_>>().join(", ")
    }

    fn reached(&self, client: &Client) -> Diagnosis {
        let server = client.server_info();
        let key = self.identity.nkey().unwrap_or_default();
        let jetstream = if server.jetstream { "" } else { "; JetStream is off at this server" };
        Diagnosis::ok(
            "server",
            format!("{}, nats-server {}, admits the key {key}{jetstream}", self.places(), server.version),
        )
    }
}

fn encryption(client: &Client, has_ca: bool) -> Diagnosis {
    let subject = "TLS";
    match (client.server_info().tls_required, has_ca) {
        (true, true) => Diagnosis::ok(subject, "the server's certificate comes from an authority in `ca_file`"),
        (true, false) => Diagnosis::ok(subject, "the server's certificate comes from one of the system's authorities"),
        // The configuration admits this on loopback alone.
        (false, _) => Diagnosis::ok(subject, "none, which is for one machine alone"),
    }
}

/// What no client is told.
fn sync_interval() -> Diagnosis {
    Diagnosis::not_checked(
        "sync_interval",
        "the server does not tell",
        "look into nats.conf: `jetstream { sync_interval: always }`, or a power failure loses what was acknowledged",
    )
}

/// The streams of an account, whoever's the connection is.
pub(super) fn context(client: &Client) -> jetstream::Context {
    let mut context = jetstream::new(client.clone());
    context.set_timeout(CONNECT_MAX);
    context
}
