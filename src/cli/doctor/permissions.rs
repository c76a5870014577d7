//! Checks of permissions on NATS, tried without an effect: the request names a stream that there is not, or is one that the
//! server refuses for its form. A permission that is missing shows in what the server says of the connection.

use std::time::Duration;

use async_nats::{Client, HeaderMap, RequestErrorKind};
use tokio::time::{Instant, sleep, timeout};

use chains::diagnosis::Diagnosis;
use events::SettlerToken;
use settler::nats_credentials::Permissions;

use super::nats::Refusals;

/// How long an answer, or the word that there will be none, is waited for.
const ANSWER_MAX: Duration = Duration::from_secs(3);
const LOOK_EVERY: Duration = Duration::from_millis(25);
/// A stream that nobody has.
const NO_STREAM: &str = "GW_DOCTOR_NO_SUCH_STREAM";
const REMEDY: &str =
    "compare the permissions with those of the nats.conf that comes with this version, and reload the server";

/// Whether something may be published.
#[derive(Debug, PartialEq, Eq)]
enum May {
    /// Somebody answered; with the status, where it is one.
    Answered(Option<u16>),
    /// It is allowed, and nobody is there to answer.
    Unheard,
    /// The server refused it.
    Refused,
    /// Nothing was said in time.
    Unknown,
}

/// A gateway may append to its journal, ask JetStream, and change no stream.
pub(super) async fn gateway(client: &Client, refusals: &Refusals) -> Vec<Diagnosis> {
    let mut headers = HeaderMap::new();
    // No stream of the journal has this name, so none stores it.
    headers.insert("Nats-Expected-Stream", NO_STREAM);
    let (append, leases) = ("gw.evt.00.doctor", "$KV.gw_leases.doctor");
    let info = format!("$JS.API.STREAM.INFO.{NO_STREAM}");
    let mut found = vec![
        needed("appending to the journal", may(client, refusals, append, headers.clone(), "").await, append),
        needed("leases of shards", may(client, refusals, leases, headers, "").await, leases),
        needed("asking JetStream", may(client, refusals, &info, HeaderMap::new(), "").await, &info),
    ];
    found.push(forbidden(client, refusals).await);
    found
}

/// An auditor may ask for streams and messages, and change no stream.
pub(super) async fn auditor(client: &Client, refusals: &Refusals) -> Vec<Diagnosis> {
    let info = format!("$JS.API.STREAM.INFO.{NO_STREAM}");
    vec![
        needed("asking for streams", may(client, refusals, &info, HeaderMap::new(), "").await, &info),
        forbidden(client, refusals).await,
    ]
}

/// A settler may hear requests, and pull its awards.
pub(super) async fn settler(client: &Client, refusals: &Refusals, token: &SettlerToken) -> Vec<Diagnosis> {
    let permissions = Permissions::of(token);
    let [_, requests, over] = permissions.subscribe();
    let mut found = vec![
        heard("requests for quotes", client, refusals, requests).await,
        heard("ends of auctions", client, refusals, over).await,
    ];
    // What is not JSON is refused before anything is handed out.
    let pull = may(client, refusals, &permissions.pull, HeaderMap::new(), "{").await;
    found.push(match pull {
        May::Answered(Some(400)) => Diagnosis::ok("consumer of awards", "is there, and may be asked"),
        May::Refused => needed("consumer of awards", May::Refused, &permissions.pull),
        May::Answered(_) | May::Unheard | May::Unknown => Diagnosis::not_checked(
            "consumer of awards",
            "nobody answers",
            "a gateway makes it when it first hears of the settler: start both, and look again",
        ),
    });
    found.push(Diagnosis::not_checked(
        "bids, answers and registration",
        "a message would have an effect",
        "compare the settler's account in nats/accounts.conf with what `gw settler id` prints",
    ));
    found
}

/// A selector may hear what it is asked.
pub(super) async fn selector(client: &Client, refusals: &Refusals, subject: &str) -> Vec<Diagnosis> {
    vec![heard("questions of gateways", client, refusals, subject).await]
}

fn needed(what: &str, may: May, subject: &str) -> Diagnosis {
    let name = format!("permission: {what}");
    match may {
        May::Answered(_) | May::Unheard => Diagnosis::ok(name, "is given"),
        May::Refused => Diagnosis::wrong(name, format!("the server refuses to publish on {subject}"), REMEDY),
        May::Unknown => Diagnosis::not_checked(name, format!("nobody answers on {subject}"), REMEDY),
    }
}

/// Whoever has the key of a running process must not be able to take away what is stored.
async fn forbidden(client: &Client, refusals: &Refusals) -> Diagnosis {
    let name = "permission: changing streams";
    let mut given = Vec::new();
    for verb in ["UPDATE", "DELETE", "PURGE"] {
        let subject = format!("$JS.API.STREAM.{verb}.{NO_STREAM}");
        if let May::Answered(_) = may(client, refusals, &subject, HeaderMap::new(), "").await {
            given.push(verb);
        }
    }
    if given.is_empty() {
        return Diagnosis::ok(name, "is not given");
    }
    let given = given.join(", ");
    Diagnosis::warning(name, format!("is given, and should not be: {given}"), REMEDY)
}

/// What comes of a request.
async fn may(client: &Client, refusals: &Refusals, subject: &str, headers: HeaderMap, body: &'static str) -> May {
    let subject = subject.to_owned();
    let asked = client.request_with_headers(subject.clone(), headers, body.into());
    let refused = async {
        while !refusals.of(&subject) {
            sleep(LOOK_EVERY).await;
        }
    };
    tokio::select! {
        answered = timeout(ANSWER_MAX, asked) => match answered {
            Ok(Ok(message)) => May::Answered(message.status.map(|status| status.as_u16())),
            Ok(Err(error)) if error.kind() == RequestErrorKind::NoResponders => May::Unheard,
            Ok(Err(_)) | Err(_) if refusals.of(&subject) => May::Refused,
            Ok(Err(_)) | Err(_) => May::Unknown,
        },
        () = refused => May::Refused,
    }
}

/// Whether a subject may be subscribed. A server says only that it may not.
async fn heard(what: &str, client: &Client, refusals: &Refusals, subject: &str) -> Diagnosis {
    const SILENCE: Duration = Duration::from_secs(1);
    let name = format!("permission: {what}");
    let subscribed = client.subscribe(subject.to_owned()).await;
    let flushed = client.flush().await;
    let _kept = match (subscribed, flushed) {
        (Ok(subscriber), Ok(())) => subscriber,
        (Err(error), _) => return Diagnosis::not_checked(name, error, REMEDY),
        (_, Err(error)) => return Diagnosis::not_checked(name, error, REMEDY),
    };
    let until = Instant::now() + SILENCE;
    while Instant::now() < until {
        if refusals.of(subject) {
            return Diagnosis::wrong(name, format!("the server refuses to subscribe {subject}"), REMEDY);
        }
        sleep(LOOK_EVERY).await;
    }
    Diagnosis::ok(name, "is given")
}
