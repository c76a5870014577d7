//! Journal forger: rewrites streams with all their care. A journal as data, changed, and put on a server of its own.

use std::{collections::BTreeMap, path::Path, time::Duration};

use anyhow::{Context, Result, bail, ensure};
use async_nats::{HeaderMap, jetstream};
use ed25519_dalek::SigningKey;
use serde_json::Value;

use audit::json_lines;
use devkit::NatsServer;
use devnet::users::{self, NatsUser};
use events::{Did, Hash32};
use journal::checkpoint::{self, Checkpoint, Rolling, SignedCheckpoint};
use journal_jetstream::{
    checkpoint::Store,
    raw::RawMessage,
    store::{NatsJournal, Options},
};

/// The seed with which the development network's gateways sign checkpoints.
pub fn checkpoint_seed() -> [u8; 32] {
    Hash32::sha256("gw dev checkpoint key").0
}

/// A journal and its checkpoints, by stream and sequence.
#[derive(Clone)]
pub struct Stored(Vec<Message>);

/// A message that can be changed.
#[derive(Clone)]
pub struct Message(RawMessage);

impl std::ops::Deref for Message {
    type Target = RawMessage;

    fn deref(&self) -> &RawMessage {
        &self.0
    }
}

impl Message {
    /// Replaces a part of the body once.
    pub fn replace(&mut self, from: &str, to: &str) -> Result<()> {
        let body = std::str::from_utf8(&self.0.body)?;
        let changed = body.replacen(from, to, 1);
        ensure!(changed != body, "{body} holds no {from}");
        self.0.body = changed.into();
        Ok(())
    }

    /// Sets a header.
    pub fn header(&mut self, name: &str, value: &str) {
        self.0.headers.insert(name.to_owned(), vec![value.to_owned()]);
    }
}

impl Stored {
    /// What was exported into a directory.
    pub fn read(directory: &Path) -> Result<Self> {
        let mut paths: Vec<_> = std::fs::read_dir(directory)?.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
        paths.sort();
        let mut messages = Vec::new();
        for path in paths {
            for line in std::fs::read(path)?.split_inclusive(|byte| *byte == b'\n') {
                messages.push(Message(json_lines::read(line)?));
            }
        }
        Ok(Self(messages))
    }

    /// The messages of a payment or batch.
    pub fn of(&self, id: &str) -> Vec<&Message> {
        self.0.iter().filter(|message| message.subject.ends_with(id)).collect()
    }

    /// Its last message.
    pub fn last_of(&mut self, id: &str) -> Result<&mut Message> {
        self.0.iter_mut().rfind(|message| message.subject.ends_with(id)).context("no such messages")
    }

    /// Changes every message of a payment and makes its hash chain anew; the stream that holds it.
    pub fn rehash(&mut self, id: &str, change: impl Fn(&mut Message)) -> Result<String> {
        let mut previous = Hash32::ZERO;
        let mut stream = None;
        for message in self.0.iter_mut().filter(|message| message.subject.ends_with(id)) {
            change(message);
            message.header("Gw-Prev", &previous.to_string());
            previous = message.hash();
            stream = Some(message.stream.clone());
        }
        stream.context("no such messages")
    }

    /// Changes the payload of a payment's first event of this type.
    pub fn rewrite(&mut self, id: &str, event: &str, pointer: &str, value: Value) -> Result<()> {
        for message in self.0.iter_mut().filter(|message| message.subject.ends_with(id)) {
            let mut events: Vec<Value> = serde_json::from_slice(&message.body)?;
            let Some(found) = events.iter_mut().find(|found| found["type"] == event) else { continue };
            let member = found["data"].pointer_mut(pointer).with_context(|| format!("{event} has no {pointer}"))?;
            ensure!(*member != value, "{pointer} of {event} is {value} already");
            *member = value;
            message.0.body = serde_json::to_vec(&events)?.into();
            return Ok(());
        }
        bail!("{id} has no {event}")
    }

    /// The payload of a payment's first event of this type.
    pub fn payload(&self, id: &str, event: &str) -> Result<Value> {
        let bodies = self.of(id).into_iter().map(|message| serde_json::from_slice::<Vec<Value>>(&message.body));
        let events = bodies.collect::<Result<Vec<_>, _>>()?.concat();
        let found = events.into_iter().find(|found| found["type"] == event);
        Ok(found.with_context(|| format!("{id} has no {event}"))?["data"].clone())
    }

    /// Writes it as an export into an empty directory.
    pub fn write(&self, directory: &Path) -> Result<()> {
        let mut files = BTreeMap::<String, Vec<u8>>::new();
        for shard in 0..8 {
            files.entry(format!("EVT_{shard:02}")).or_default();
        }
        for message in &self.0 {
            files.entry(message.stream.clone()).or_default().extend(json_lines::write(message));
        }
        std::fs::create_dir_all(directory)?;
        for (stream, lines) in files {
            std::fs::write(directory.join(format!("{stream}.jsonl")), lines)?;
        }
        Ok(())
    }

    /// Cuts off the shard of a payment at its last message; the shard's stream, and the highest sequence that was there.
    pub fn cut(&mut self, id: &str) -> Result<(String, u64)> {
        let last = self.last_of(id)?;
        let (stream, from) = (last.stream.clone(), last.sequence);
        let highest = self.0.iter().filter(|message| message.stream == stream).map(|message| message.sequence).max();
        self.0.retain(|message| message.stream != stream || message.sequence < from);
        Ok((stream, highest.context("an empty stream")?))
    }

    /// Takes out the checkpoints that sign more of a shard than is left of it.
    pub fn drop_checkpoints_beyond(&mut self, stream: &str) {
        let left = self.0.iter().filter(|message| message.stream == stream).map(|message| message.sequence).max();
        let left = left.unwrap_or_default();
        self.0.retain(|message| match SignedCheckpoint::parse(&message.body) {
            Ok(signed) if message.stream == checkpoint::STREAM => {
                let signed = signed.checkpoint();
                format!("EVT_{:02}", signed.shard) != stream || signed.sequence <= left
            }
            _ => true,
        });
    }

    /// Signs every checkpoint anew over what the messages are now.
    pub fn sign_again(&mut self, seed: &[u8; 32]) -> Result<()> {
        let key = SigningKey::from_bytes(seed);
        let mut previous = BTreeMap::<u16, Hash32>::new();
        for index in 0..self.0.len() {
            if self.0[index].stream != checkpoint::STREAM {
                continue;
            }
            let old = SignedCheckpoint::parse(&self.0[index].body)?.checkpoint().clone();
            let stream = format!("EVT_{:02}", old.shard);
            let mut rolling = Rolling::START;
            let messages = self.0.iter().filter(|message| message.stream == stream && message.sequence <= old.sequence);
            messages.for_each(|message| rolling.follow(message.hash()));
            let new = Checkpoint {
                rolling_hash: rolling.hash,
                previous: previous.get(&old.shard).copied().unwrap_or(Hash32::ZERO),
                signer: Did::from_ed25519(&key.verifying_key()),
                ..old
            };
            previous.insert(new.shard, new.hash());
            self.0[index].0.body = new.sign(&key)?.to_json().into();
        }
        Ok(())
    }
}

/// Copies an export with one line's body changed, and nothing else.
pub fn edit_line(
    from: &Path,
    to: &Path,
    stream: &str,
    sequence: u64,
    change: impl Fn(&mut String) -> Result<()>,
) -> Result<()> {
    if to.exists() {
        std::fs::remove_dir_all(to)?;
    }
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let path = entry?.path();
        let mut bytes = std::fs::read(&path)?;
        if path.file_stem().is_some_and(|name| name == stream) {
            let mut lines: Vec<Vec<u8>> = bytes.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
            let line =
                lines.iter_mut().find(|line| json_lines::read(line).is_ok_and(|message| message.sequence == sequence));
            let line = line.context("no such line")?;
            let mut message = json_lines::read(line)?;
            let mut body = String::from_utf8(message.body.to_vec())?;
            change(&mut body)?;
            message.body = body.into();
            *line = json_lines::write(&message);
            bytes = lines.concat();
        }
        std::fs::write(to.join(path.file_name().context("a name")?), bytes)?;
    }
    Ok(())
}

/// A server with the repository's nats.conf and a journal of the attacker's making.
pub struct Attacker(NatsServer);

impl Attacker {
    /// Publishes every message where it was.
    pub async fn rebuild(stored: &Stored) -> Result<Self> {
        let server = NatsServer::configured(&users::files()?).await?;
        let client = NatsUser::Gateway.options().connect(server.url()).await?;
        NatsJournal::connect(client.clone(), Options::default()).await?;
        Store::connect(client.clone(), 1, Duration::from_secs(5)).await?;
        let context = jetstream::new(client);
        let mut streams = BTreeMap::<&str, u64>::new();
        for message in &stored.0 {
            let mut headers = HeaderMap::new();
            // Where checkpoints were left out, the others have other sequences than those they were written behind.
            let whole = message.headers.iter().filter(|_| message.stream != checkpoint::STREAM);
            for (name, value) in whole.flat_map(|(name, values)| values.iter().map(move |value| (name, value))) {
                headers.append(name.as_str(), value.as_str());
            }
            let published = context.publish_with_headers(message.subject.clone(), headers, message.body.clone());
            let sequence =
                published.await?.await.with_context(|| format!("{} {}", message.stream, message.sequence))?;
            let last = streams.entry(&message.stream).or_default();
            *last += 1;
            ensure!(sequence.sequence == *last, "{} is stored at {}", message.stream, sequence.sequence);
        }
        Ok(Self(server))
    }

    /// The server's address.
    pub fn url(&self) -> String {
        self.0.url()
    }
}
