//! Two simulated clusters, their parties, and payments to make there.

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use anyhow::{Result, bail};
use ed25519_dalek::{Signer, SigningKey};
use tokio::time::Instant;

use chains::{config::SolanaConfig, registry::ChainRegistry, verifier::Verifier};
use chains_solana::{
    adapter::{Keys, SolanaChain},
    authorization::{Choice, ClusterId, EscrowSettings, SignedMessage, SpendRequest, authorize, prepare},
    keys::account,
    node::Node,
    settler::SettlerChain,
};
use events::{
    Account, Hash32, OwnedAsset, PaymentId, Terms,
    quote::SignedQuote,
    time::{Timestamp, from_unix_seconds},
};
use sagas::ports::Clock;
use simulation::solana::{
    Genesis, NodeKind, RpcOutcome, SharedCluster, SimCluster, SimTransport, Template, Timing, Token,
};

pub use crate::common::*;

pub const BLOCK_SECONDS: u64 = 2;
pub const RPC_TIMEOUT: Duration = Duration::from_secs(1);
pub const SOL: u64 = 1_000_000_000;

pub fn key(seed: u8) -> SigningKey {
    SigningKey::from_bytes(&[seed; 32])
}

pub fn public(seed: u8) -> [u8; 32] {
    key(seed).verifying_key().to_bytes()
}

pub fn wallet(seed: u8) -> Account {
    account(&key(seed)).parse().unwrap()
}

pub fn genesis(cluster: u8, timing: Timing) -> Genesis {
    let tokens = vec![Token { symbol: "sUSD".to_owned(), decimals: 6 }];
    Genesis { cluster_id: [cluster; 32], reserver: public(2), releaser: wallet(3), tokens, timing }
}

/// A cluster of its own with a payer, a settler and a submitter who have all they need.
pub fn cluster(number: u8) -> Result<SimCluster> {
    static TEMPLATES: OnceLock<[Template; 2]> = OnceLock::new();
    if TEMPLATES.get().is_none() {
        let make = |cluster| Template::new(&genesis(cluster, Timing::default()));
        // Two at once make the same, and the second is dropped.
        let _ = TEMPLATES.set([make(0xc1)?, make(0xc2)?]);
    }
    let Some(template) = TEMPLATES.get().and_then(|templates| templates.get(usize::from(number))) else {
        bail!("no template {number}")
    };
    begin(template)
}

/// A cluster of `template` with money for everybody.
pub fn begin(template: &Template) -> Result<SimCluster> {
    let mut cluster = template.start(BEGIN);
    for party in [10, 12, 13, 14] {
        cluster.fund(&public(party), 100 * SOL)?;
    }
    for party in [10, 12, 14] {
        cluster.mint(0, &public(party), 10 * CAP)?;
    }
    cluster.approve(0, &public(10), &public(10), u64::MAX)?;
    Ok(cluster)
}

pub fn produce(cluster: &SharedCluster, blocks: u64) -> Result<()> {
    for _ in 0..blocks {
        let time = lock(cluster).head().time + BLOCK_SECONDS;
        lock(cluster).produce(time)?;
    }
    Ok(())
}

pub fn keys() -> Keys {
    Keys {
        reserver: key(2).into(),
        draining_reservers: Vec::new(),
        submitters: vec![key(13).into()],
        exit_submitters: Vec::new(),
    }
}

/// A source and a destination that make blocks by themselves, and who acts on them.
pub struct World {
    pub source: SharedCluster,
    pub destination: SharedCluster,
    pub source_node: Node,
    pub destination_node: Node,
    pub chains: ChainRegistry,
    pub verifier: Verifier,
    pub source_settler: SettlerChain,
    pub destination_settler: SettlerChain,
    pub clock: TestClock,
}

impl World {
    /// Everything as it should be.
    pub fn new() -> Result<Self> {
        Self::with_faults(|_| RpcOutcome::Deliver(NodeKind::Honest))
    }

    /// The engine's calls fare as `faults` says; the verifier and the settler have honest nodes.
    pub fn with_faults(faults: impl FnMut(&str) -> RpcOutcome + Clone + Send + 'static) -> Result<Self> {
        let (source, destination) = (cluster(0)?.shared(), cluster(1)?.shared());
        let connect = |cluster: &SharedCluster| -> Result<Node> {
            Ok(SimTransport::honest(cluster.clone()).connect(&lock(cluster).config(REFUND_DELAY)?)?)
        };
        let faulty = |cluster: &SharedCluster| -> Result<Node> {
            let config = lock(cluster).config(REFUND_DELAY)?;
            Ok(SimTransport::new(cluster.clone(), RPC_TIMEOUT, faults.clone()).connect(&config)?)
        };
        let clock = TestClock(Instant::now());
        let chains = ChainRegistry::new(Arc::new(clock))
            .with(Arc::new(SolanaChain::new(faulty(&source)?, Some(keys()), Arc::new(clock))?))?
            .with(Arc::new(SolanaChain::new(faulty(&destination)?, None, Arc::new(clock))?))?;
        let (source_node, destination_node) = (connect(&source)?, connect(&destination)?);
        for cluster in [&source, &destination] {
            tokio::spawn(make_blocks(cluster.clone(), clock));
        }
        Ok(Self {
            chains,
            verifier: Verifier::default()
                .with_chains([source_node.clone(), destination_node.clone()], Some(key(3).into())),
            source_settler: SettlerChain::new(source_node.clone(), key(12)),
            destination_settler: SettlerChain::new(destination_node.clone(), key(12)),
            source,
            destination,
            source_node,
            destination_node,
            clock,
        })
    }

    /// A payment under `request_id` that the payer signed, with the quote that won it.
    pub fn payment(&self, request_id: &str) -> Result<Payment> {
        let now = self.clock.now().timestamp().unsigned_abs();
        payment_on(self.source_node.config(), self.destination_node.config(), now, request_id)
    }

    /// What the payer, the settler and the recipient have: of the source, the source, the destination, the destination.
    pub fn balances(&self) -> [u64; 4] {
        let (source, destination) = (lock(&self.source), lock(&self.destination));
        [
            source.token_balance(0, &public(10)),
            source.token_balance(0, &public(12)),
            destination.token_balance(0, &public(12)),
            destination.token_balance(0, &public(11)),
        ]
    }
}

/// A payment under `request_id` from one cluster to another that the payer signs at `now`, with the quote that won it.
pub fn payment_on(source: &SolanaConfig, destination: &SolanaConfig, now: u64, request_id: &str) -> Result<Payment> {
    let after = |seconds: u64| from_unix_seconds(now + seconds).unwrap();
    let spend = SpendRequest {
        payment_id: PaymentId::derive(&format!("solana:{}", wallet(10)), request_id),
        terms: Terms::new(
            OwnedAsset::new(source.common.assets[0].asset_identifier.clone(), wallet(10).as_str())?,
            vec![OwnedAsset::new(destination.common.assets[0].asset_identifier.clone(), wallet(11).as_str())?],
            DELIVERED.to_string().parse()?,
            Some(CAP.to_string().parse()?),
        ),
        quote_deadline: after(5),
        fulfillment_deadline: after(600),
        cluster_id: ClusterId::parse(&source.signature_cluster_id).unwrap(),
        escrow: EscrowSettings {
            program: source.common.escrow_contract.clone(),
            reserver: source.common.reserver.clone(),
            releaser: source.common.releaser.clone(),
            refund_delay_seconds: source.common.refund_delay_seconds,
        },
        quote_hash: Hash32::ZERO,
    };
    let prepared = prepare(&spend, &Choice::default())?;
    let signed = SignedMessage {
        message: prepared.digest.to_string(),
        message_prehash: Some(format!("0x{}", hex::encode(&prepared.preimage))),
        signature: format!("0x{}", hex::encode(key(10).sign(&prepared.digest.0).to_bytes())),
        payload: None,
    };
    let (authorization, escrow) = authorize(&spend, &signed)?;
    let proxy = destination.common.fulfillment_proxy.clone();
    let fulfill_by = escrow.fulfillment_deadline - 60;
    let offer = offer(12, PRICE, proxy, fulfill_by, spend.fulfillment_deadline);
    let SpendRequest { payment_id, terms, .. } = spend;
    let quote = offer.sign(&payment_id, &terms, &escrow, now)?;
    Ok(Payment { payment_id, terms, authorization, escrow, quote })
}

/// What the settler `seed` offers, who asks `price` and promises to deliver by `fulfill_by`.
fn offer(seed: u8, price: u64, proxy: Account, fulfill_by: u64, valid_until: Timestamp) -> Offer {
    let settler = SigningKey::from_bytes(&[seed ^ 0x40; 32]);
    Offer { settler, account: wallet(seed), price, proxy, fulfill_by, valid_until }
}

/// A block every [`BLOCK_SECONDS`].
async fn make_blocks(cluster: SharedCluster, clock: TestClock) {
    loop {
        tokio::time::sleep(Duration::from_secs(BLOCK_SECONDS)).await;
        lock(&cluster).produce(clock.now().timestamp().unsigned_abs()).unwrap();
    }
}

impl Payment {
    /// The same, won by a quote that promises less time.
    pub fn promising(mut self, fulfill_by: u64) -> Result<Self> {
        self.quote = self.offered(12, PRICE, fulfill_by, fulfill_by - 1)?;
        Ok(self)
    }

    /// The same, reserved for the settler 14, who asks less.
    pub fn next(&self, now: u64) -> Result<Self> {
        let quote = self.offered(14, PRICE - 1_000, self.escrow.fulfillment_deadline - 60, now)?;
        Ok(Self { quote, ..self.clone() })
    }

    /// Another quote for the same.
    fn offered(&self, seed: u8, price: u64, fulfill_by: u64, now: u64) -> Result<SignedQuote> {
        let quote = self.quote.quote();
        let offer = offer(seed, price, quote.fulfillment_proxy.clone(), fulfill_by, quote.valid_until);
        offer.sign(self.id(), &self.terms, &self.escrow, now)
    }
}

/// Waits in the runtime's time until `look` has found something.
pub async fn eventually<T, F: Future<Output = Result<Option<T>>>>(what: &str, look: impl FnMut() -> F) -> Result<T> {
    found_within(Duration::from_secs(3_600), Duration::from_millis(500), what, look).await
}

/// All tokens of `cluster`, summed over their owners, are what there is.
pub fn assert_conserved(cluster: &SimCluster) {
    let sum: u64 = cluster.token_balances(0).values().sum();
    assert_eq!(sum, cluster.token_supply(0));
}
