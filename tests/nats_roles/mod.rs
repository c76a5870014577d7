//! nats-server with the repository's nats.conf, clients in each of its roles, and requests for quotes to try with.

use std::{
    future::Future,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use anyhow::{Context, Result};
use async_nats::Client;
use chrono::{DateTime, Utc};

use devkit::NatsServer;
use devnet::users;
pub use devnet::users::NatsUser as Role;
use events::{ChainId, Did, OwnedAsset, PaymentId, SettlerToken, Terms, event::EscrowPlan, quote::auction_of};
use journal_jetstream::headerless::HeaderlessClient;
use sagas::ports::RequestForQuotes;

pub const SOURCE: &str = "eip155:1/erc20:0xa0b86991c6218b36c1d19d4a2e9eb0ce3606eb48";
pub const DESTINATION: &str = "eip155:10/erc20:0x0b2c639c533813f4aa9d7837caf62653d097ff85";
pub const ACCOUNT: &str = "0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed";
pub const RELEASER: &str = "0xfb6916095ca1df60bb79ce92ce3ea74c37c5d359";
/// Far longer than anything here takes; a test that gets here has failed.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// DID of the demo's settler `number`.
pub fn did(number: usize) -> Did {
    Did::from_ed25519(&settler::dev::key(number).unwrap().verifying_key())
}

/// Token of the demo's settler `number`.
pub fn token(number: usize) -> SettlerToken {
    did(number).token()
}

/// A server on the repository's nats.conf.
pub async fn server() -> Result<NatsServer> {
    NatsServer::configured(&users::files()?).await
}

/// A client in `role`.
pub async fn connect(server: &NatsServer, role: Role) -> Result<Client> {
    role.options()
        .request_timeout(Some(Duration::from_secs(5)))
        .reconnect_delay_callback(|_| Duration::from_millis(50))
        .connect(server.url())
        .await
        .with_context(|| format!("connect as {role:?}"))
}

/// A connection in `role` that takes no headers.
pub async fn headerless(server: &NatsServer, role: Role) -> Result<HeaderlessClient> {
    Ok(HeaderlessClient::connect(role.endpoint(vec![server.url()], None)).await?)
}

/// A request for quotes that no other test uses, open for `window`.
pub fn request(window: Duration) -> RequestForQuotes {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed).to_string();
    let id = PaymentId::derive(&format!("test {}", std::process::id()), &count);
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
            contract: ACCOUNT.parse().unwrap(),
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
        blacklist: Vec::new(),
        required_policies: Vec::new(),
        payloads: serde_json::from_str(r#"[{"order": 12345678901234567890123}]"#).unwrap(),
    }
}

/// The payment that `request` asks for.
pub fn payment_of(request: &RequestForQuotes) -> PaymentId {
    request.payment_id.clone().unwrap()
}

/// Waits until `condition` holds.
pub async fn until<F: Future<Output = bool>>(what: &str, mut condition: impl FnMut() -> F) -> Result<()> {
    let holds = async {
        while !condition().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, holds).await.with_context(|| format!("waited in vain until {what}"))
}
