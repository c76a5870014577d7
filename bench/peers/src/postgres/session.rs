//! Connections: each is made when it is needed, and made again when it is lost.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::time::timeout;
use tokio_postgres::{Client, Config, NoTls, Statement};

/// How long a connection may take to be made.
const CONNECT_MAX: Duration = Duration::from_secs(5);
/// What every session plans by: an index answers each of its questions, also while tables are so small, or statistics so old,
/// that a scan looks cheaper.
const SETTINGS: &str = "SET enable_seqscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off; \
                        SET plan_cache_mode = force_generic_plan; SET synchronous_commit = on";
const COMMITS: &str = "SELECT shard, sequence, stream, version, stored_at, types, schemas, correlation, causation, commit_id, \
                       prev, body FROM events";

/// A connection with its statements prepared.
pub(super) struct Session {
    pub client: Client,
    /// Appends commits.
    pub append: Statement,
    /// The commits of a stream.
    pub load: Statement,
    /// The commits of a shard.
    pub replay: Statement,
    /// The streams of a shard's commits.
    pub streams: Statement,
    /// The heads of all shards.
    pub heads: Statement,
}

impl Session {
    async fn open(config: &Config) -> Result<Self, tokio_postgres::Error> {
        let (client, connection) = config.connect(NoTls).await?;
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection to PostgreSQL has ended");
            }
        });
        client.batch_execute(SETTINGS).await?;
        let append = client.prepare("SELECT * FROM append($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)").await?;
        let load = client.prepare(&format!("{COMMITS} WHERE stream = $1 ORDER BY version")).await?;
        let replay = client
            .prepare(&format!("{COMMITS} WHERE shard = $1 AND sequence >= $2 ORDER BY sequence LIMIT $3"))
            .await?;
        let streams = client
            .prepare(
                "SELECT sequence, stream FROM events WHERE shard = $1 AND sequence >= $2 ORDER BY sequence LIMIT $3",
            )
            .await?;
        let heads = client
            .prepare(
                "SELECT coalesce((SELECT max(sequence) FROM events WHERE shard = s), 0) \
                 FROM generate_series(0::int2, $1::int2 - 1) AS s ORDER BY s",
            )
            .await?;
        Ok(Self { client, append, load, replay, streams, heads })
    }
}

/// One connection at a time.
pub(super) struct Link {
    config: Config,
    session: Mutex<Option<Arc<Session>>>,
}

impl Link {
    pub fn new(config: Config) -> Self {
        Self { config, session: Mutex::default() }
    }

    /// The connection, a new one where there is none; the reason when none can be made.
    pub async fn session(&self) -> Result<Arc<Session>, String> {
        if let Some(session) = self.current() {
            return Ok(session);
        }
        match timeout(CONNECT_MAX, Session::open(&self.config)).await {
            Ok(Ok(session)) => {
                let session = Arc::new(session);
                *self.session.lock().unwrap_or_else(PoisonError::into_inner) = Some(session.clone());
                Ok(session)
            }
            Ok(Err(error)) => Err(format!("no connection: {}", reason(&error))),
            Err(_) => Err("no connection in time".to_owned()),
        }
    }

    fn current(&self) -> Option<Arc<Session>> {
        let session = self.session.lock().unwrap_or_else(PoisonError::into_inner);
        session.clone().filter(|session| !session.client.is_closed())
    }
}

/// What the server says, which the error itself leaves out.
pub(super) fn reason(error: &tokio_postgres::Error) -> String {
    match error.as_db_error() {
        Some(said) => format!("{} ({})", said.message(), said.code().code()),
        None => error.to_string(),
    }
}
