//! Consumer service: answers auditors' requests for consumers, in JetStream's stead.

use std::{collections::HashSet, time::Duration};

use async_nats::{Client, HeaderMap, Message, Request};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use journal_jetstream::rate_limited::RateLimitedSubscription;

use super::{
    allowance::{Allowances, CONSUMERS_MAX, STREAM_CONSUMERS_MAX},
    rules::{Consumer, OWNER, Refusal, consumer_name, readable},
};

/// Where nats.conf has auditors' requests come out.
const PREFIX: &str = "gw.consumer.";
/// The gateways that share the requests.
const GROUP: &str = "auditors";
/// Requests that a gateway hears a second, of all auditors together; beyond these nothing crosses to it.
const REQUESTS_PER_SECOND_MAX: u64 = 256;
/// How long JetStream is waited for.
const WAIT_MAX: Duration = Duration::from_secs(1);
/// Beginning of replies that go through an account's border; an answer anywhere else could land in a stream.
const REPLIES: &str = "_R_.";
/// Header in which nats-server says who asks.
const ASKED_BY: &str = "Nats-Request-Info";
/// Length of an NKEY's public form.
const NKEY_BYTES: usize = 56;

/// Answers auditors. One request at a time: so many does JetStream's API have of them in front of the gateways' own.
pub struct Service {
    client: Client,
    allowances: Allowances,
}

/// What an auditor may ask to be done with a consumer; its word is the token of the subject behind [`PREFIX`].
#[derive(Clone, Copy)]
enum Verb {
    Create,
    Info,
    Delete,
}

/// What of the header [`ASKED_BY`] is of use.
#[derive(Deserialize)]
struct AskedBy {
    /// The public key of the auditor's NKEY, `U…`.
    user: String,
}

/// What of JetStream's list of the names of a stream's consumers is of use. One page of it has more names than a stream with
/// room has consumers.
#[derive(Deserialize)]
struct Names {
    /// Absent where there is no such stream.
    consumers: Option<HashSet<String>>,
}

#[derive(Serialize)]
struct Error<'a> {
    code: u16,
    err_code: u32,
    description: &'a str,
}

impl Verb {
    fn of(text: &str) -> Option<Self> {
        match text {
            "create" => Some(Self::Create),
            "info" => Some(Self::Info),
            "delete" => Some(Self::Delete),
            _ => None,
        }
    }

    fn api(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Info => "INFO",
            Self::Delete => "DELETE",
        }
    }
}

impl Service {
    /// A service that answers over `client`, in the gateway's role, once it runs. The connection is for this alone: what
    /// comes over it stands in front of nothing else.
    pub fn new(client: Client) -> Self {
        Self { client, allowances: Allowances::default() }
    }

    /// Answers until `shutdown`.
    pub async fn run(mut self, shutdown: CancellationToken) {
        let second = Duration::from_secs(1);
        let (client, subject) = (self.client.clone(), format!("{PREFIX}>"));
        let requests = RateLimitedSubscription::new(client, subject, REQUESTS_PER_SECOND_MAX, second);
        let mut requests = requests.in_queue_group(GROUP);
        let serve = async {
            loop {
                let request = requests.next().await;
                self.answer(request).await;
            }
        };
        shutdown.run_until_cancelled(serve).await;
    }

    /// Answers one request, where it is one: its reply goes through the account's border, and its subject names a verb.
    async fn answer(&mut self, request: Message) {
        let Some(reply) = request.reply.filter(|reply| reply.starts_with(REPLIES)) else { return };
        let Some((verb, path)) = request.subject.strip_prefix(PREFIX).and_then(|rest| rest.split_once('.')) else {
            return;
        };
        let Some(verb) = Verb::of(verb) else { return };
        let outcome = match request.headers.as_ref().and_then(asked_by) {
            None => Err(Refusal::request("who asks cannot be told: a request has no headers of its own")),
            Some(auditor) if !self.allowances.take_request(&auditor) => {
                tracing::debug!(auditor, "an auditor asks for consumers more often than it may");
                Err(Refusal::full("more requests for consumers than an auditor may make; wait a second"))
            }
            Some(auditor) => match verb {
                Verb::Create => self.create(&auditor, path, &request.payload).await,
                Verb::Info | Verb::Delete => self.show_or_delete(&auditor, verb, path).await,
            },
        };
        let body = outcome.unwrap_or_else(|refusal| refused(verb, &refusal));
        if let Err(error) = self.client.publish(reply, body.into()).await {
            tracing::warn!(%error, "an auditor was not answered");
        }
    }

    /// Makes a consumer, where there is room.
    async fn create(&mut self, auditor: &str, path: &str, body: &[u8]) -> Result<Vec<u8>, Refusal> {
        let Consumer { stream, name, config } = Consumer::asked(auditor, path, body)?;
        let names = self.api("NAMES", &stream, &json!({"offset": 0})).await?;
        let names: Names = serde_json::from_slice(&names).map_err(|_| Refusal::unavailable())?;
        // Without the list there is no such stream, and JetStream says so better.
        let alive = names.consumers.unwrap_or_default();
        if !alive.contains(&name) && !self.allowances.has_room(auditor, &stream, &alive) {
            let bounds =
                format!("{CONSUMERS_MAX} for an auditor at a gateway, {STREAM_CONSUMERS_MAX} of a stream in all");
            return Err(Refusal::full(format!("no more consumers of {stream}: at most {bounds}")));
        }
        // Not to change one that is there.
        let request = json!({"stream_name": stream, "config": config, "action": "create"});
        // The filter is part of this subject where there is one and no more.
        let subject = match config["filter_subject"].as_str() {
            Some(filter) => format!("{stream}.{name}.{filter}"),
            None => format!("{stream}.{name}"),
        };
        let answer = self.api(Verb::Create.api(), &subject, &request).await?;
        let answered: Value = serde_json::from_slice(&answer).map_err(|_| Refusal::unavailable())?;
        if answered.get("error").is_none() {
            self.allowances.note_consumer(auditor, &stream, name);
        }
        Ok(answer)
    }

    /// Shows or deletes a consumer of the auditor's own.
    async fn show_or_delete(&self, auditor: &str, verb: Verb, path: &str) -> Result<Vec<u8>, Refusal> {
        let (stream, name) = path.split_once('.').ok_or_else(Refusal::not_found)?;
        let (stream, name) = (readable(stream)?, consumer_name(name)?);
        let subject = format!("{stream}.{name}");
        let shown = self.api(Verb::Info.api(), &subject, &Value::Null).await?;
        let info: Value = serde_json::from_slice(&shown).map_err(|_| Refusal::unavailable())?;
        if info["config"]["metadata"][OWNER] != auditor {
            return Err(Refusal::not_found());
        }
        match verb {
            Verb::Delete => self.api(verb.api(), &subject, &Value::Null).await,
            Verb::Create | Verb::Info => Ok(shown),
        }
    }

    /// What JetStream answers to `body`, nothing where that is null, on `$JS.API.CONSUMER.{verb}.{subject}`.
    async fn api(&self, verb: &str, subject: &str, body: &Value) -> Result<Vec<u8>, Refusal> {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let request = Request::new().payload(body.into()).timeout(Some(WAIT_MAX));
        let answer = self.client.send_request(format!("$JS.API.CONSUMER.{verb}.{subject}"), request).await;
        let answer = answer.map_err(|error| {
            tracing::debug!(%error, verb, subject, "JetStream does not answer what an auditor asked");
            Refusal::unavailable()
        })?;
        Ok(answer.payload.to_vec())
    }
}

/// The NKEY of whoever asks, as nats-server says it in a header that it puts behind all others.
///
/// A client can write a header of the same name, in a block of headers that it leaves without an end, or with lines that end as
/// the server does not end them, so that the server's own is taken for a part of another line. Therefore it counts only where it
/// is the only header, has one value, and that is the server's JSON and nothing more.
fn asked_by(headers: &HeaderMap) -> Option<String> {
    let mut all = headers.iter();
    let (Some((name, values)), None) = (all.next(), all.next()) else { return None };
    let [said] = values.as_slice() else { return None };
    if AsRef::<str>::as_ref(name) != ASKED_BY {
        return None;
    }
    let AskedBy { user } = serde_json::from_str(said.as_str()).ok()?;
    let is_nkey = user.len() == NKEY_BYTES
        && user.starts_with('U')
        && user.bytes().all(|letter| matches!(letter, b'A'..=b'Z' | b'2'..=b'7'));
    is_nkey.then_some(user)
}

/// A refusal in the form of JetStream's answers.
fn refused(verb: Verb, refusal: &Refusal) -> Vec<u8> {
    let Refusal { code, err_code, description } = refusal;
    let error = Error { code: *code, err_code: *err_code, description };
    let kind = format!("io.nats.jetstream.api.v1.consumer_{}_response", verb.api().to_lowercase());
    json!({"type": kind, "error": error}).to_string().into_bytes()
}
