//! A journal on three servers, and what is asked of them.

use std::time::Duration;

use async_nats::Client;
use serde_json::Value;
use tokio::time::{sleep, timeout};

use journal::envelope;
use journal_jetstream::store::{NatsJournal, Options};

use super::options;

/// Far beyond what any case needs; turns a hang into a failure.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// Three copies of each stream.
pub fn three() -> Options {
    Options { replicas: 3, ..options() }
}

/// A journal with three copies, as a process of its own would have it.
pub async fn journal(client: &Client, options: Options) -> NatsJournal {
    until("a journal", || async {
        match NatsJournal::connect(client.clone(), options.clone()).await {
            Ok(journal) => Some(journal),
            Err(error) if error.is_passing() => None,
            Err(error) => panic!("{error}"),
        }
    })
    .await
}

/// Waits until `found` finds something.
pub async fn until<T, F>(what: &str, found: impl Fn() -> F) -> T
where
    F: Future<Output = Option<T>>,
{
    let found = async {
        loop {
            if let Some(found) = found().await {
                return found;
            }
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(PATIENCE, found).await.unwrap_or_else(|_| panic!("never: {what}"))
}

/// The answer to a request to JetStream, if one comes.
pub async fn api(client: &Client, subject: String, body: &str) -> Option<Value> {
    let answer = timeout(Duration::from_secs(2), client.request(subject, body.to_owned().into())).await;
    serde_json::from_slice(&answer.ok()?.ok()?.payload).ok()
}

/// Name of the server that leads `stream`, once there is one.
pub async fn leader(client: &Client, stream: &str) -> String {
    until("a leader", || async {
        let info = api(client, format!("$JS.API.STREAM.INFO.{stream}"), "").await?;
        Some(info["cluster"]["leader"].as_str()?.to_owned()).filter(|leader| !leader.is_empty())
    })
    .await
}

/// Asks the leader of `stream` to give way to another.
pub async fn step_down(client: &Client, stream: &str) -> bool {
    let answer = api(client, format!("$JS.API.STREAM.LEADER.STEPDOWN.{stream}"), "").await;
    answer.is_some_and(|answer| answer["success"] == true)
}

/// Waits until all copies of every stream of the journal are level.
pub async fn level(client: &Client, shards: u16) {
    for shard in 0..shards {
        let stream = envelope::stream(shard);
        until("level copies", || async {
            let info = api(client, format!("$JS.API.STREAM.INFO.{stream}"), "").await?;
            let replicas = info["cluster"]["replicas"].as_array()?;
            let level = |replica: &Value| replica["current"] == true && replica["lag"].as_u64().unwrap_or(0) == 0;
            (replicas.len() == 2 && replicas.iter().all(level)).then_some(())
        })
        .await;
    }
}
