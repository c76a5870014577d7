//! Streams that keep everything for ever.

use std::{collections::HashMap, time::Duration};

use async_nats::jetstream::{
    self, ErrorCode,
    context::{CreateStreamErrorKind, GetStreamErrorKind},
    stream::{Config, DiscardPolicy, RetentionPolicy, StorageType},
};

/// Why the streams cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The server cannot be reached, did not answer in time, or its cluster has no leader for now; retry.
    #[error("JetStream is unavailable: {0}")]
    Unavailable(String),
    /// The server refuses.
    #[error("stream {stream} cannot be created: {reason}")]
    Refused {
        /// The stream.
        stream: String,
        /// The server's words.
        reason: String,
    },
    /// The stream is not there, and it was not asked for to be created.
    #[error("stream {0} does not exist")]
    Missing(String),
    /// A stream exists with another setting than the one it must have.
    #[error("stream {stream} has {setting} = {found}, but must have {expected}")]
    Mismatch {
        /// The stream.
        stream: String,
        /// The setting.
        setting: String,
        /// What it has.
        found: String,
        /// What it must have.
        expected: String,
    },
    /// The options contradict themselves.
    #[error("unusable options: {0}")]
    Options(&'static str),
}

/// Refusals of a cluster that has not come together: they pass without anybody doing anything.
const PASSING: [ErrorCode; 5] = [
    ErrorCode::CLUSTER_NOT_AVAILABLE,
    ErrorCode::CLUSTER_INCOMPLETE,
    ErrorCode::CLUSTER_NOT_LEADER,
    ErrorCode::CLUSTER_NO_PEERS,
    ErrorCode::INSUFFICIENT_RESOURCES,
];

impl ConnectError {
    /// Whether it helps to try again later.
    pub fn is_passing(&self) -> bool {
        matches!(self, Self::Unavailable(_))
    }
}

/// A stream that keeps everything for ever, as the journal and the ledger need it (design: the journal).
#[derive(Debug)]
pub(crate) struct StreamPlan {
    pub name: String,
    pub subject: String,
    pub replicas: usize,
    pub metadata: HashMap<String, String>,
}

impl StreamPlan {
    fn config(&self) -> Config {
        Config {
            name: self.name.clone(),
            subjects: vec![self.subject.clone()],
            storage: StorageType::File,
            retention: RetentionPolicy::Limits,
            discard: DiscardPolicy::New,
            max_messages: -1,
            max_messages_per_subject: -1,
            max_bytes: -1,
            max_age: Duration::ZERO,
            deny_delete: true,
            deny_purge: true,
            allow_direct: true,
            allow_atomic_publish: true,
            num_replicas: self.replicas,
            metadata: self.metadata.clone(),
            ..Config::default()
        }
    }

    /// The first setting in which `found` differs from the plan. Of a stream that is sealed and `may_be` that, how many
    /// copies there are is the operators' affair.
    fn mismatch(&self, found: &Config, may_be_sealed: bool) -> Result<(), ConnectError> {
        let wanted = self.config();
        let mut settings = vec![
            ("subjects", format!("{:?}", found.subjects), format!("{:?}", wanted.subjects)),
            ("storage", format!("{:?}", found.storage), format!("{:?}", wanted.storage)),
            ("retention", format!("{:?}", found.retention), format!("{:?}", wanted.retention)),
            ("discard", format!("{:?}", found.discard), format!("{:?}", wanted.discard)),
            ("max_msgs", found.max_messages.to_string(), wanted.max_messages.to_string()),
            (
                "max_msgs_per_subject",
                found.max_messages_per_subject.to_string(),
                wanted.max_messages_per_subject.to_string(),
            ),
            ("max_bytes", found.max_bytes.to_string(), wanted.max_bytes.to_string()),
            ("max_age", format!("{:?}", found.max_age), format!("{:?}", wanted.max_age)),
            ("num_replicas", found.num_replicas.to_string(), wanted.num_replicas.to_string()),
        ];
        let flags = [
            ("deny_delete", found.deny_delete, true),
            ("deny_purge", found.deny_purge, true),
            ("allow_direct", found.allow_direct, true),
            ("allow_rollup_hdrs", found.allow_rollup, false),
            ("allow_msg_ttl", found.allow_message_ttl, false),
            ("no_ack", found.no_ack, false),
            ("sealed", found.sealed, false),
            ("mirror", found.mirror.is_some(), false),
            ("sources", found.sources.as_ref().is_some_and(|sources| !sources.is_empty()), false),
            ("subject_transform", found.subject_transform.is_some(), false),
        ];
        settings.extend(flags.map(|(name, found, wanted)| (name, found.to_string(), wanted.to_string())));
        if may_be_sealed && found.sealed {
            settings.retain(|(name, ..)| !["sealed", "num_replicas"].contains(name));
        }
        for (name, value) in &self.metadata {
            let found = found.metadata.get(name).map_or("nothing", String::as_str);
            settings.push((name, found.to_owned(), value.clone()));
        }
        let differing = settings.into_iter().find(|(_, found, wanted)| found != wanted);
        differing.map_or(Ok(()), |(setting, found, expected)| {
            Err(ConnectError::Mismatch { stream: self.name.clone(), setting: setting.to_owned(), found, expected })
        })
    }

    /// Checks that the stream is as planned, creating it when it is missing and `create` says so.
    pub(crate) async fn ensure(&self, context: &jetstream::Context, create: bool) -> Result<(), ConnectError> {
        self.mismatch(&self.find(context, create).await?, false)
    }

    /// As [`StreamPlan::ensure`], for a stream that may be sealed; whether it is.
    pub(crate) async fn ensure_or_sealed(
        &self,
        context: &jetstream::Context,
        create: bool,
    ) -> Result<bool, ConnectError> {
        let found = self.find(context, create).await?;
        self.mismatch(&found, true)?;
        Ok(found.sealed)
    }

    async fn find(&self, context: &jetstream::Context, create: bool) -> Result<Config, ConnectError> {
        match stream_config(context, &self.name).await? {
            Some(config) => return Ok(config),
            None if !create => return Err(ConnectError::Missing(self.name.clone())),
            None => {}
        }
        created(context, self.config()).await
    }
}

async fn created(context: &jetstream::Context, config: Config) -> Result<Config, ConnectError> {
    let name = config.name.clone();
    let created = context.create_stream(config).await.map_err(|error| match error.kind() {
        CreateStreamErrorKind::JetStream(reason) if !PASSING.contains(&reason.error_code()) => {
            ConnectError::Refused { stream: name, reason: reason.to_string() }
        }
        _ => ConnectError::Unavailable(error.to_string()),
    })?;
    Ok(created.cached_info().config.clone())
}

/// The configuration of a stream that keeps things for a while, created when it is missing.
pub(crate) async fn ensure_stream(context: &jetstream::Context, config: Config) -> Result<Config, ConnectError> {
    match stream_config(context, &config.name).await? {
        Some(found) => Ok(found),
        None => created(context, config).await,
    }
}

/// The configuration of a stream, `None` when it does not exist.
pub(crate) async fn stream_config(context: &jetstream::Context, name: &str) -> Result<Option<Config>, ConnectError> {
    match context.get_stream(name).await {
        Ok(stream) => Ok(Some(stream.cached_info().config.clone())),
        Err(error) => match error.kind() {
            GetStreamErrorKind::JetStream(reason) if reason.error_code() == ErrorCode::STREAM_NOT_FOUND => Ok(None),
            _ => Err(ConnectError::Unavailable(error.to_string())),
        },
    }
}
