//! Signed checkpoints on a real nats-server: several gateways sign, and every contradiction raises an alarm.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use anyhow::{Context, Result};
use async_nats::{
    Client, HeaderMap,
    jetstream::{self, stream::Config},
};
use chrono::Utc;
use ed25519_dalek::SigningKey;

use devkit::NatsServer;
use events::{Did, Epochs};
use journal::checkpoint::{Rolling, STREAM, SignedCheckpoint, subject};
use journal_jetstream::{
    checkpoint::{Alarm, Checkpointer, Options, StepError, Stepped, Store},
    raw::RawReader,
};

const TIMEOUT: Duration = Duration::from_secs(10);

/// A server with one shard, whose stream can be emptied as an attacker's can.
struct Environment {
    _server: NatsServer,
    client: Client,
    store: Store,
}

impl Environment {
    async fn start() -> Result<Self> {
        let server = NatsServer::open().await?;
        let client = async_nats::connect(server.url()).await?;
        let store = Store::connect(client.clone(), 1, TIMEOUT).await?;
        let environment = Self { _server: server, client, store };
        environment.shard().await?;
        Ok(environment)
    }

    async fn shard(&self) -> Result<()> {
        self.shard_of(0).await
    }

    async fn shard_of(&self, number: u16) -> Result<()> {
        let config = Config {
            name: format!("EVT_{number:02}"),
            subjects: vec![format!("gw.evt.{number:02}.*")],
            allow_direct: true,
            ..Config::default()
        };
        jetstream::new(self.client.clone()).create_stream(config).await?;
        Ok(())
    }

    /// Stores a message whose body is `text`; checkpoints ask for no more than that it is there.
    async fn write(&self, text: &str) -> Result<()> {
        self.write_to(0, text.to_owned()).await
    }

    async fn write_to(&self, number: u16, text: String) -> Result<()> {
        let mut headers = HeaderMap::new();
        headers.insert("Nats-Msg-Id", text.as_str());
        let context = jetstream::new(self.client.clone());
        context.publish_with_headers(format!("gw.evt.{number:02}.x"), headers, text.into()).await?.await?;
        Ok(())
    }

    /// The sequence up to which the shard is signed.
    async fn last_signed(&self, number: u16) -> Result<u64> {
        let signed = self.checkpoints_of(number).await?;
        Ok(signed.last().map_or(0, |last| last.checkpoint().sequence))
    }

    /// Waits until the shard is signed up to `sequence`.
    async fn signed(&self, number: u16, sequence: u64) -> Result<()> {
        let signed = async {
            while self.last_signed(number).await? < sequence {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            Ok(())
        };
        tokio::time::timeout(TIMEOUT, signed).await.context("it is not signed in time")?
    }

    /// Replaces the shard by one with these messages.
    async fn rewrite(&self, texts: &[&str]) -> Result<()> {
        jetstream::new(self.client.clone()).delete_stream("EVT_00").await?;
        self.shard().await?;
        for text in texts {
            self.write(text).await?;
        }
        // For a moment the server may still answer for the stream that was deleted, or begin an answer that it never ends.
        let reader = RawReader::new(self.client.clone(), Duration::from_millis(500));
        let replaced = async {
            let mut in_a_row = 0;
            while in_a_row < 10 {
                let is_new = reader.batch("EVT_00", 1, None, 100).await.is_ok_and(|found| {
                    found.iter().map(|message| &message.body[..]).eq(texts.iter().map(|text| text.as_bytes()))
                });
                in_a_row = if is_new { in_a_row + 1 } else { 0 };
            }
        };
        tokio::time::timeout(TIMEOUT, replaced).await.context("it is not replaced in time")
    }

    fn gateway(&self, seed: u8, trusted: &[u8]) -> Checkpointer {
        let options =
            Options { interval: TIMEOUT, trusted: trusted.iter().map(|seed| did(*seed)).collect(), timeout: TIMEOUT };
        Checkpointer::new(self.client.clone(), self.store.clone(), key(seed), options)
    }

    async fn checkpoints(&self) -> Result<Vec<SignedCheckpoint>> {
        self.checkpoints_of(0).await
    }

    async fn checkpoints_of(&self, number: u16) -> Result<Vec<SignedCheckpoint>> {
        let reader = RawReader::new(self.client.clone(), TIMEOUT);
        let head = reader.head(STREAM).await?;
        let messages = reader.subject(STREAM, &subject(number), 1, head).await?;
        Ok(messages.iter().map(|message| SignedCheckpoint::parse(&message.body)).collect::<Result<_, _>>()?)
    }
}

fn key(seed: u8) -> SigningKey {
    SigningKey::from_bytes(&[seed; 32])
}

fn did(seed: u8) -> Did {
    Did::from_ed25519(&key(seed).verifying_key())
}

async fn step(gateway: &mut Checkpointer) -> Result<Stepped, StepError> {
    gateway.step(0, Utc::now()).await
}

async fn alarm(gateway: &mut Checkpointer) -> Result<Alarm> {
    match step(gateway).await {
        Err(StepError::Alarm(alarm)) => Ok(alarm),
        other => anyhow::bail!("no alarm but {other:?}"),
    }
}

#[tokio::test]
async fn a_shard_is_signed_when_it_moved_by_whoever_comes_first() -> Result<()> {
    let environment = Environment::start().await?;
    let (mut one, mut two) = (environment.gateway(1, &[2]), environment.gateway(2, &[1]));
    assert_eq!(step(&mut one).await?, Stepped::Unmoved);
    environment.write("a").await?;
    environment.write("b").await?;
    assert_eq!(step(&mut one).await?, Stepped::Signed(2));
    assert_eq!((step(&mut one).await?, step(&mut two).await?), (Stepped::Unmoved, Stepped::Unmoved));
    environment.write("c").await?;
    assert_eq!((step(&mut two).await?, step(&mut one).await?), (Stepped::Signed(3), Stepped::Unmoved));
    // Both at once: one of them wins, whichever it is.
    for n in 4..12 {
        environment.write(&n.to_string()).await?;
        let outcomes = tokio::join!(step(&mut one), step(&mut two));
        let outcomes = [outcomes.0?, outcomes.1?];
        assert_eq!(outcomes.iter().filter(|outcome| **outcome == Stepped::Signed(n)).count(), 1, "{outcomes:?}");
    }
    let signed = environment.checkpoints().await?;
    assert_eq!(signed.len(), 10);
    let mut rolling = Rolling::START;
    let reader = RawReader::new(environment.client.clone(), TIMEOUT);
    for message in reader.batch("EVT_00", 1, None, 100).await? {
        rolling.follow(message.hash());
        let at = signed.iter().find(|signed| signed.checkpoint().sequence == rolling.sequence);
        assert!(at.is_none_or(|at| at.checkpoint().rolling_hash == rolling.hash));
    }
    assert!(signed.windows(2).all(|pair| pair[1].checkpoint().previous == pair[0].checkpoint().hash()));
    assert_eq!(signed[0].checkpoint().commit_id.as_str(), "b");
    Ok(())
}

#[tokio::test]
async fn what_is_not_as_it_was_signed_is_an_alarm_and_nothing_is_signed() -> Result<()> {
    let environment = Environment::start().await?;
    let mut signer = environment.gateway(1, &[]);
    for text in ["a", "b", "c"] {
        environment.write(text).await?;
        step(&mut signer).await?;
    }
    // Cut off: seen by the one that signed, and by one that has just started.
    environment.rewrite(&["a", "b"]).await?;
    for gateway in [&mut signer, &mut environment.gateway(1, &[])] {
        assert_eq!(alarm(gateway).await?, Alarm::Truncated { shard: 0, head: 2, signed: 3 });
    }
    // Written anew, and longer than before.
    environment.rewrite(&["a", "b", "x", "d"]).await?;
    let found = alarm(&mut environment.gateway(1, &[])).await?;
    assert!(matches!(found, Alarm::Replaced { sequence: 3, .. }), "{found:?}");
    // A gateway that trusts nobody but itself.
    environment.rewrite(&["a", "b", "c", "d"]).await?;
    let found = alarm(&mut environment.gateway(2, &[])).await?;
    assert_eq!(found, Alarm::UntrustedSigner { shard: 0, signer: did(1) });
    assert_eq!(environment.checkpoints().await?.len(), 3);
    // Put back as it was, it goes on.
    assert_eq!(step(&mut environment.gateway(1, &[])).await?, Stepped::Signed(4));
    Ok(())
}

#[tokio::test]
async fn checkpoints_that_are_forged_or_gone_are_an_alarm() -> Result<()> {
    let environment = Environment::start().await?;
    let mut signer = environment.gateway(1, &[]);
    environment.write("a").await?;
    step(&mut signer).await?;
    // By the right key, but not behind the last one.
    let mut forged = environment.checkpoints().await?.pop().context("none")?.checkpoint().clone();
    forged.sequence += 1;
    let context = jetstream::new(environment.client.clone());
    context.publish(subject(0), forged.sign(&key(1))?.to_json().into()).await?.await?;
    environment.write("b").await?;
    assert_eq!(alarm(&mut signer).await?, Alarm::Forked { shard: 0, sequence: 2 });
    context.publish(subject(0), "{}".into()).await?.await?;
    let found = alarm(&mut signer).await?;
    assert!(matches!(found, Alarm::Unreadable { sequence: 3, .. }), "{found:?}");
    context.delete_stream(STREAM).await?;
    Store::connect(environment.client.clone(), 1, TIMEOUT).await?;
    assert_eq!(alarm(&mut signer).await?, Alarm::Vanished { shard: 0, sequence: 1 });
    Ok(())
}

/// Shards that come are signed, too, and a sealed one is not looked at any more once it is signed to its end.
#[tokio::test]
async fn all_shards_there_are_are_signed_and_sealed_ones_to_their_end() -> Result<()> {
    let environment = Environment::start().await?;
    environment.write("a").await?;
    let options = Options { interval: Duration::from_millis(10), trusted: Vec::new(), timeout: TIMEOUT };
    let checkpointer = Checkpointer::new(environment.client.clone(), environment.store.clone(), key(1), options);
    let epochs = Arc::new(Mutex::new(Epochs::one(1)));
    let signing = tokio::spawn({
        let epochs = epochs.clone();
        checkpointer.run(move || epochs.lock().unwrap().clone(), Utc::now)
    });
    environment.signed(0, 1).await?;
    environment.write("b").await?;
    environment.signed(0, 2).await?;

    environment.shard_of(1).await?;
    environment.write("c").await?;
    let mut both = epochs.lock().unwrap().followed_by(1).all().to_vec();
    both[0].sealed = true;
    *epochs.lock().unwrap() = Epochs::new(both)?;
    // What it had when it was sealed is signed, and then a look that finds nothing new is the last.
    environment.signed(0, 3).await?;
    let other = |n: u64| environment.write_to(1, format!("{n}"));
    for n in 1..=3 {
        other(n).await?;
        environment.signed(1, n).await?;
    }
    environment.write("nobody looks").await?;
    for n in 4..=6 {
        other(n).await?;
        environment.signed(1, n).await?;
    }
    assert_eq!(environment.last_signed(0).await?, 3);
    signing.abort();
    Ok(())
}
