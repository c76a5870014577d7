//! A world: one server for all runs, and in each run two gateways behind proxies of their own, beside a client that sees the server
//! as it is.

use std::{
    sync::{Arc, atomic::AtomicUsize},
    time::Duration,
};

use async_nats::{Client, ConnectOptions, jetstream};
use chrono::Utc;
use tokio::time::sleep;

pub use devkit::natsfaults::runs::{Violation, require};
use devkit::natsfaults::{Coverage, Fault, FaultPlan, FaultProxy, RunServer, credentials};
use journal::{
    Recorded, StreamStore,
    envelope::{self, StoredMessage},
};
use journal_jetstream::store::{NatsJournal, Options};

use crate::support::connect;

/// Faults that strike stores. Nothing here is a message without an acknowledgement, but hints.
pub const FAULTS: [Fault; 18] = [
    Fault::PublishLost,
    Fault::PublishLate,
    Fault::PublishTwice,
    Fault::PublishRefused,
    Fault::PublishUnclear,
    Fault::PublishDropped,
    Fault::AckLost,
    Fault::AckLate,
    Fault::ApiRefused,
    Fault::NoResponders,
    Fault::AnswerLost,
    Fault::AnswerLate,
    Fault::DirectGetStale,
    Fault::MessageLost,
    Fault::MessageTwice,
    Fault::SlowConsumer,
    Fault::CutSending,
    Fault::CutReceiving,
];
/// Those of them that strike hints alone, of which leases and what follows a shard make use.
pub const OF_HINTS: [Fault; 2] = [Fault::MessageLost, Fault::MessageTwice];
/// Longest delay: several times the wait of one request.
const LATE_MAX: Duration = Duration::from_millis(120);
/// Most often that one fault strikes, in a thousand.
const RATE_MAX: u16 = 160;
/// Gateways of a run.
pub const GATEWAYS: u64 = 2;

/// The server, and what struck.
pub struct World {
    server: RunServer,
    pub coverage: Arc<Coverage>,
    /// How often one gateway appended after the other, in all runs for a lease.
    pub successions: AtomicUsize,
}

/// One run: its account, its gateways' connections, and the server as it is.
pub struct Run {
    pub truth: Client,
    pub journal: NatsJournal,
    pub gateways: Vec<Gateway>,
}

/// A gateway's connection.
pub struct Gateway {
    pub client: Client,
    pub journal: NatsJournal,
    proxy: FaultProxy,
}

/// Time-outs that are short beside those of production, and in the same order.
pub fn options() -> Options {
    Options {
        shards: 2,
        append_timeout: Duration::from_millis(700),
        unstored_timeout: Duration::from_millis(250),
        read_timeout: Duration::from_millis(400),
        attempt_timeout: Duration::from_millis(40),
        look_every: None,
        ..Options::default()
    }
}

/// A journal, once the server has answered in time.
async fn open(client: &Client, options: Options) -> NatsJournal {
    loop {
        match NatsJournal::connect(client.clone(), options.clone()).await {
            Ok(journal) => return journal,
            Err(error) => assert!(error.is_passing(), "{error}"),
        }
    }
}

impl World {
    /// A server for so many runs.
    pub async fn open(runs: usize) -> Self {
        Self::open_with(runs, &Arc::default()).await
    }

    /// A server for so many runs, whose faults are counted in `coverage`.
    pub async fn open_with(runs: usize, coverage: &Arc<Coverage>) -> Self {
        let server = RunServer::open(runs, |_| Vec::new()).await.unwrap();
        Self { server, coverage: coverage.clone(), successions: AtomicUsize::default() }
    }

    /// The run of `seed`, before anything strikes.
    pub async fn run(&self, seed: u64) -> Run {
        let user = credentials(&format!("run{}", self.server.account().unwrap()));
        let as_it_is = ConnectOptions::with_user_and_password(user.user.clone(), user.password.clone());
        let truth = as_it_is.retry_on_initial_connect().connect(self.server.url()).await.unwrap();
        let journal = open(&truth, Options { shards: 2, look_every: None, ..Options::default() }).await;
        let mut gateways = Vec::new();
        for number in 0..GATEWAYS {
            let plan = FaultPlan::draw(seed * GATEWAYS + number, &FAULTS, RATE_MAX, LATE_MAX);
            let url = self.server.url();
            let proxy = FaultProxy::start(&url, Some(user.clone()), plan, self.coverage.clone()).await.unwrap();
            let client = connect(proxy.url()).await;
            let journal = open(&client, options()).await;
            gateways.push(Gateway { client, journal, proxy });
        }
        Run { truth, journal, gateways }
    }
}

impl Run {
    /// Faults strike from now on.
    pub fn arm(&self) {
        self.gateways.iter().for_each(|gateway| gateway.proxy.arm());
    }

    /// Nothing strikes any more, and nothing is on its way.
    pub async fn calm(&self) {
        self.gateways.iter().for_each(|gateway| gateway.proxy.calm());
        for gateway in &self.gateways {
            gateway.proxy.settled().await;
        }
        // What was written to the server last it may not have read yet.
        let mut before = Vec::new();
        loop {
            let mut now = Vec::new();
            for stream in ["EVT_00", "EVT_01", "SIG", "PARK", "OPERATOR_ACTS"] {
                let state = jetstream::new(self.truth.clone()).get_stream(stream).await;
                now.push(state.map_or(0, |stream| stream.cached_info().state.last_sequence));
            }
            if now == before {
                return;
            }
            before = now;
            sleep(Duration::from_millis(25)).await;
        }
    }

    /// Everything in a shard's stream, read by the client's own calls.
    pub async fn stored(&self, shard: u16) -> Result<Vec<Recorded>, Violation> {
        let context = jetstream::new(self.truth.clone());
        let stream = context.get_stream(envelope::stream(shard)).await.unwrap();
        let state = stream.cached_info().state.clone();
        let mut stored = Vec::new();
        for sequence in 1..=state.last_sequence {
            let message =
                stream.get_raw_message(sequence).await.map_err(|error| format!("{shard}/{sequence}: {error}"))?;
            let subject = message.subject.to_string();
            let opened = StoredMessage { subject: &subject, sequence, body: &message.payload, stored_at: Utc::now() };
            let headers = message.headers.iter().flat_map(|(name, values)| {
                values.iter().map(move |value| (AsRef::<str>::as_ref(name), value.as_str()))
            });
            let headers: Vec<(&str, &str)> = headers.collect();
            stored
                .push(envelope::open(shard, opened, headers).map_err(|error| format!("{shard}/{sequence}: {error}"))?);
        }
        Ok(stored)
    }

    /// What a gateway that nothing strikes loads.
    pub async fn loaded(&self, id: &events::StreamId) -> Result<Vec<Recorded>, Violation> {
        self.journal.load(id).await.map_err(|error| format!("{id}: {error}"))
    }
}
