//! A world: one server for all runs, and in each run two gateways and their settlers, each behind a proxy of its own.

use std::{
    sync::{Arc, atomic::AtomicUsize},
    time::Duration,
};

use async_nats::{Client, ConnectOptions};
use chrono::{DateTime, Utc};
use ed25519_dalek::SigningKey;
use tokio::time::sleep;
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use auction::NatsAuction;
pub use devkit::natsfaults::runs::{Violation, require};
use devkit::natsfaults::{Coverage, Fault, FaultPlan, FaultProxy, RunServer, credentials};
use events::{
    ChainId, CommitId, Did, OwnedAsset, PaymentId, SettlerToken, Terms, event::EscrowPlan, quote::auction_of,
};
use identity::SettlerPolicies;
use journal_jetstream::headerless::{Endpoint, HeaderlessClient};
use protocol::BIDS_PER_REQUEST_MAX;
use sagas::ports::RequestForQuotes;

/// Faults between gateways, settlers and the server. Nothing of an auction is read by Direct Get, which replicas that are behind answer.
pub const FAULTS: [Fault; 16] = [
    Fault::PublishLost,
    Fault::PublishTwice,
    Fault::PublishRefused,
    Fault::PublishUnclear,
    Fault::PublishDropped,
    Fault::AckLost,
    Fault::AckLate,
    Fault::ApiRefused,
    Fault::NoResponders,
    Fault::AnswerLate,
    Fault::MessageLost,
    Fault::MessageLate,
    Fault::MessageTwice,
    Fault::Redelivered,
    Fault::CutSending,
    Fault::CutReceiving,
];
/// Settlers of a run: [`QUOTING`] that are registered and may win, then one that is registered and excluded, and one that never
/// registers.
pub const SETTLERS: usize = 6;
pub const QUOTING: usize = 4;
pub const EXCLUDED: usize = 4;
pub const UNREGISTERED: usize = 5;

pub const SOURCE: &str = "eip155:1/erc20:0xa0b86991c6218b36c1d19d4a2e9eb0ce3606eb48";
pub const DESTINATION: &str = "eip155:10/erc20:0x0b2c639c533813f4aa9d7837caf62653d097ff85";
pub const ACCOUNT: &str = "0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed";
pub const RELEASER: &str = "0xfb6916095ca1df60bb79ce92ce3ea74c37c5d359";
const LATE_MAX: Duration = Duration::from_millis(400);
const RATE_MAX: u16 = 120;
/// How long a winner is waited for.
pub const ANSWER_WAIT: Duration = Duration::from_millis(1500);

/// The server, and what struck.
pub struct World {
    server: RunServer,
    pub coverage: Arc<Coverage>,
    /// Runs in which something was awarded, and the award held to its end.
    pub awarded: AtomicUsize,
}

/// One run's account.
pub struct Run {
    pub seed: u64,
    number: usize,
    url: String,
    coverage: Arc<Coverage>,
    /// The server as it is.
    pub truth: Client,
}

/// A gateway's part in auctions, until it is dropped, as by `kill -9`.
pub struct Gateway {
    pub auction: NatsAuction,
    pub proxy: FaultProxy,
    _service: AbortOnDropHandle<()>,
}

/// Key of settler `n`, in every run the same.
pub fn key(n: usize) -> SigningKey {
    SigningKey::from_bytes(&[u8::try_from(n + 1).unwrap(); 32])
}

pub fn did(n: usize) -> Did {
    Did::from_ed25519(&key(n).verifying_key())
}

pub fn token(n: usize) -> SettlerToken {
    did(n).token()
}

/// The settlers' users of an account, with the permissions that nats.conf gives them. The excluded one may bid without being asked, as
/// with another configuration.
fn users(account: usize) -> Vec<String> {
    let user = |n: usize| {
        let t = token(n);
        let bids = if n == EXCLUDED { format!("\"auction.bid.{t}.*\", ") } else { String::new() };
        format!(
            "{{ user: run{account}s{n}, password: run, permissions: {{ subscribe: [\"_INBOX.>\", \"auction.rfq.{t}.*\", \
             \"auction.over.{t}.*\"], publish: [{bids}\"auction.answer.{t}.*\", \"auction.report.{t}.*\", \"$KV.settlers.{t}\", \
             \"$JS.API.CONSUMER.MSG.NEXT.AWARDS.settler_{t}\", \"$JS.ACK.AWARDS.settler_{t}.>\"], \
             allow_responses: {{ max: {BIDS_PER_REQUEST_MAX}, expires: \"600s\" }} }} }}"
        )
    };
    (0..SETTLERS).map(user).collect()
}

impl World {
    /// A server for so many runs.
    pub async fn open(runs: usize) -> Self {
        let server = RunServer::open(runs, users).await.unwrap();
        Self { server, coverage: Arc::default(), awarded: AtomicUsize::default() }
    }

    /// The run of `seed`.
    pub async fn run(&self, seed: u64) -> Run {
        let number = self.server.account().unwrap();
        let user = credentials(&format!("run{number}"));
        let truth = ConnectOptions::with_user_and_password(user.user, user.password).retry_on_initial_connect();
        let truth = truth.connect(self.server.url()).await.unwrap();
        Run { seed, number, url: self.server.url(), coverage: self.coverage.clone(), truth }
    }
}

impl Run {
    async fn proxy(&self, user: &str, number: u64) -> FaultProxy {
        let plan = FaultPlan::draw(self.seed * 16 + number, &FAULTS, RATE_MAX, LATE_MAX);
        // There is one award in a run, so in every second run it comes again.
        let plan = if self.seed.is_multiple_of(2) { plan.with(Fault::Redelivered, 700) } else { plan };
        FaultProxy::start(&self.url, Some(credentials(user)), plan, self.coverage.clone()).await.unwrap()
    }

    /// Gateway `n`, in a calm.
    pub async fn gateway(&self, n: u64) -> Gateway {
        let proxy = self.proxy(&format!("run{}", self.number), n).await;
        let client = connect(proxy.url()).await;
        let endpoint = Endpoint {
            servers: vec![proxy.url().to_owned()],
            identity: None,
            ca_file: None,
            name: format!("gateway {n}"),
        };
        // A busy machine may take longer than a connection waits.
        let heard = loop {
            match HeaderlessClient::connect(endpoint.clone()).await {
                Ok(heard) => break heard,
                Err(error) => assert!(error.is_passing(), "{error}"),
            }
        };
        let options = auction::Options {
            answer_wait: ANSWER_WAIT,
            settling: Duration::from_secs(1),
            ..auction::Options::default()
        };
        let (auction, service, hints) = loop {
            let policies = SettlerPolicies::default();
            match auction::open(client.clone(), heard.clone(), options, policies, None).await {
                Ok(opened) => break opened,
                Err(_) => sleep(Duration::from_millis(20)).await,
            }
        };
        let service = tokio::spawn(async move {
            let _hints = hints;
            service.run(CancellationToken::new()).await;
        });
        Gateway { auction, proxy, _service: AbortOnDropHandle::new(service) }
    }

    /// A connection of settler `n`, and its proxy.
    pub async fn settler(&self, n: usize) -> (Client, FaultProxy) {
        let proxy = self.proxy(&format!("run{}s{n}", self.number), 8 + n as u64).await;
        (connect(proxy.url()).await, proxy)
    }

    /// A request that is open for `window`, from which one settler is excluded.
    pub fn request(&self, window: Duration) -> RequestForQuotes {
        let id = PaymentId::derive("faults", CommitId::random().as_str());
        let owned = |asset: &str| OwnedAsset::new(asset.parse().unwrap(), ACCOUNT).unwrap();
        let (amount, cap) = ("1000000".parse().unwrap(), "1010000".parse().unwrap());
        let terms = Terms::new(owned(SOURCE), vec![owned(DESTINATION)], amount, Some(cap));
        let quote_deadline = Utc::now() + window;
        let fulfillment_deadline = quote_deadline + Duration::from_secs(600);
        let seconds = |at: DateTime<Utc>| u64::try_from(at.timestamp()).unwrap();
        RequestForQuotes {
            auction_id: auction_of(&id),
            escrowed: None,
            payment_id: Some(id),
            terms_hash: terms.hash(),
            terms,
            escrow: EscrowPlan {
                chain_id: ChainId::evm(1),
                contract: RELEASER.parse().unwrap(),
                reserver: ACCOUNT.parse().unwrap(),
                releaser: RELEASER.parse().unwrap(),
                reserve_deadline: seconds(quote_deadline) + 30,
                fulfillment_deadline: seconds(fulfillment_deadline),
                refund_after: seconds(fulfillment_deadline) + 300,
            },
            fulfillment_proxies: vec![ACCOUNT.parse().unwrap()],
            quote_deadline,
            fulfillment_deadline,
            whitelist: Vec::new(),
            blacklist: vec![did(EXCLUDED)],
            required_policies: Vec::new(),
            payloads: Vec::new(),
        }
    }
}

async fn connect(url: &str) -> Client {
    ConnectOptions::new()
        .retry_on_initial_connect()
        .max_reconnects(None)
        .connection_timeout(Duration::from_secs(2))
        .reconnect_delay_callback(|_| Duration::from_millis(20))
        .connect(url)
        .await
        .unwrap()
}

/// Waits until `condition` holds, for so long.
pub async fn until<F: Future<Output = bool>>(
    what: &str,
    within: Duration,
    mut condition: impl FnMut() -> F,
) -> Result<(), Violation> {
    let holds = async {
        while !condition().await {
            sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(within, holds).await.map_err(|_| format!("never: {what}"))
}
