//! What the console asks for that is not its own: the journal's messages, how the installation stands, and who carries out orders.
//!
//! Each is asked once for all who look at the same time, and its answer is kept for some seconds; an implementation bounds how long
//! it takes.

use async_trait::async_trait;
use bytes::Bytes;
use serde::Serialize;
use serde_json::Value;

use events::{AssetId, ChainId, Did, Hash32, PaymentId, time::Timestamp};
use journal::{
    envelope::Envelope,
    operator_acts::{Act, ActId, Outcome, Recorded},
};

use crate::error::Error;

/// The messages of a payment, as they lie in the journal.
#[derive(Debug, Clone)]
pub struct StoredStream {
    /// The shard.
    pub shard: u16,
    /// The JetStream stream that holds the shard.
    pub stream: String,
    /// The messages, in order.
    pub messages: Vec<StoredMessage>,
    /// Whether there are more than are here.
    pub has_more: bool,
}

/// A message as it is stored, whatever it is.
#[derive(Debug, Clone)]
pub struct StoredMessage {
    /// Its sequence in the stream.
    pub sequence: u64,
    /// When it was stored.
    pub stored_at: Timestamp,
    /// Its hash, by which the next one names it.
    pub hash: Hash32,
    /// Its envelope, or why it has none.
    pub envelope: Result<Envelope, String>,
    /// Its body.
    pub body: Bytes,
}

/// The journal's messages as they are stored.
#[async_trait]
pub trait StoredCommits: Send + Sync {
    /// Those of a payment, in the shard in which it lies; `None` where there are none.
    ///
    /// # Errors
    /// [`Error::Unavailable`].
    async fn of(&self, payment_id: &PaymentId) -> Result<Option<StoredStream>, Error>;
}

/// What the gateway serves, by its configuration.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Network {
    /// The chains.
    pub chains: Vec<NetworkChain>,
}

/// A chain by the configuration.
#[derive(Debug, Clone, Serialize)]
pub struct NetworkChain {
    /// CAIP-2 id.
    pub chain_id: ChainId,
    /// What people call it; its id where it is no public network.
    pub name: String,
    /// Where an explorer shows a transaction: `{hash}` stands for its hash, `{bare}` for its hash without `0x`.
    pub explorer_tx: Option<String>,
    /// The assets.
    pub assets: Vec<NetworkAsset>,
}

/// An asset by the configuration.
#[derive(Debug, Clone, Serialize)]
pub struct NetworkAsset {
    /// CAIP-19 id.
    pub asset_identifier: AssetId,
    /// Its symbol.
    pub symbol: String,
    /// Its decimals.
    pub decimals: u8,
}

/// What an operator said last of the pause.
#[derive(Debug, Clone, Serialize)]
pub struct Pause {
    /// Whether nothing new is accepted.
    pub paused: bool,
    /// Since when.
    pub since: Timestamp,
    /// Why.
    pub reason: Option<String>,
}

/// All gateways, as they answer over NATS.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Gateways {
    /// Their answers, as `gw admin status --json` has them.
    pub gateways: Vec<Value>,
    /// Those that have answered this process before, and do not now.
    pub silent: Vec<String>,
}

/// A stream of JetStream.
#[derive(Debug, Clone, Serialize)]
pub struct StreamState {
    /// Its name.
    pub name: String,
    /// Messages in it.
    pub messages: u64,
    /// What they take on disk.
    pub bytes: u64,
    /// Sequence of the first of them.
    pub first_sequence: u64,
    /// Sequence of the last one that was stored.
    pub last_sequence: u64,
    /// When that was stored; absent where there never was one.
    pub last_at: Option<Timestamp>,
    /// Copies of it.
    pub replicas: usize,
    /// Its consumers.
    pub consumers: usize,
}

/// The streams of JetStream.
#[derive(Debug, Clone, Default)]
pub struct Streams {
    /// Them, by name.
    pub streams: Vec<StreamState>,
    /// Whether there are more than are here.
    pub has_more: bool,
    /// The epochs of the journal, in order.
    pub epochs: Vec<EpochState>,
}

/// An epoch of the journal.
#[derive(Debug, Clone, Serialize)]
pub struct EpochState {
    /// Its number.
    pub number: u16,
    /// Its first shard.
    pub first_shard: u16,
    /// How many shards it has.
    pub shards: u16,
    /// Whether it takes nothing any more.
    pub sealed: bool,
    /// When it was begun; absent where the streams do not say.
    pub begun_at: Option<Timestamp>,
}

/// What an operator has to look into, as the gateway knows without asking.
#[derive(Debug, Clone, Default)]
pub struct Alarms {
    /// The alarms of `/readyz`, in words.
    pub texts: Vec<String>,
    /// Payments whose money is past its time, in all shards.
    pub overdue: u64,
    /// Of these, deliveries that nobody attests, with their refund window near.
    pub unattested: u64,
    /// Payments and batches that wait for the configuration to be mended.
    pub misconfigured: u64,
}

/// A settler of the registry.
#[derive(Debug, Clone)]
pub struct RegisteredSettler {
    /// Who it is.
    pub did: Did,
    /// What it trades: source and destination.
    pub corridors: Vec<(AssetId, AssetId)>,
}

/// Whether anything new may go through a chain.
#[derive(Debug, Clone)]
pub struct ChainState {
    /// The chain.
    pub chain_id: ChainId,
    /// Why not, in words; absent where it is ready.
    pub cause: Option<&'static str>,
}

/// How the installation stands.
#[async_trait]
pub trait Installation: Send + Sync {
    /// What the gateway serves.
    fn network(&self) -> &Network;

    /// What was said last of the pause; `None` where nothing ever was.
    ///
    /// # Errors
    /// [`Error::Unavailable`].
    async fn pause(&self) -> Result<Option<Pause>, Error>;

    /// All gateways.
    ///
    /// # Errors
    /// [`Error::Unavailable`].
    async fn gateways(&self) -> Result<Gateways, Error>;

    /// The streams of JetStream.
    ///
    /// # Errors
    /// [`Error::Unavailable`].
    async fn streams(&self) -> Result<Streams, Error>;

    /// Whether the gateway can serve, as `/readyz` says.
    ///
    /// # Errors
    /// Why not.
    async fn ready(&self) -> Result<(), String>;

    /// What there is to look into.
    fn alarms(&self) -> Alarms;

    /// The settlers of the registry.
    fn settlers(&self) -> Vec<RegisteredSettler>;

    /// The verifiers that the configuration names, with what this process observed of each, as `gw admin status --json` has them.
    ///
    /// # Errors
    /// [`Error::Failed`].
    fn verifiers(&self) -> Result<Vec<Value>, Error>;

    /// The chains.
    fn chains(&self) -> Vec<ChainState>;
}

/// An act that was recorded, and carried out or not.
#[derive(Debug, Clone)]
pub struct Carried {
    /// The act.
    pub act_id: ActId,
    /// What came of it.
    pub outcome: Outcome,
    /// Of a replay, what came of each of the payments and batches: nothing to say, or why it failed.
    pub replays: Vec<(String, Result<(), String>)>,
}

/// Who carries out what operators order.
#[async_trait]
pub trait Orders: Send + Sync {
    /// Records an act in the name of `by`, and carries it out; of an act for all gateways, those that are not heard are
    /// named by how `gateways` answered last. To be let run to its end.
    ///
    /// # Errors
    /// [`Error::Invalid`], where nothing was recorded and nothing done, or [`Error::Unavailable`], where nothing was done
    /// or nobody can tell: the text says which.
    async fn carry_out(&self, by: &str, act: Act, gateways: &Gateways) -> Result<Carried, Error>;

    /// The newest records of acts.
    ///
    /// # Errors
    /// [`Error::Unavailable`].
    async fn newest(&self, before: Option<u64>, limit: usize) -> Result<Vec<Recorded>, Error>;
}
