//! Two simulated clusters, their parties, and payments to make there.

use std::{
    sync::{Arc, MutexGuard, OnceLock},
    time::Duration,
};

use anyhow::{Result, bail};
use async_trait::async_trait;
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
    Account, Did, Hash32, OwnedAsset, PaymentId, Terms,
    event::{Authorization, EscrowPlan},
    quote::{Quote, SignedQuote, auction_of},
    time::{Timestamp, from_unix_seconds},
};
use sagas::ports::{Clock, DeliveryOrder, DepositOrder, Reservation, VerificationCase};
use simulation::solana::{
    Genesis, NodeKind, RpcOutcome, SharedCluster, SimCluster, SimTransport, Template, Timing, Token,
};

pub const BEGIN: u64 = 1_800_000_000;
pub const BLOCK_SECONDS: u64 = 2;
pub const CAP: u64 = 1_000_000;
pub const PRICE: u64 = 900_000;
pub const DELIVERED: u64 = 850_000;
pub const REFUND_DELAY: u64 = 900;
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

pub fn lock(cluster: &SharedCluster) -> MutexGuard<'_, SimCluster> {
    cluster.lock().unwrap()
}

pub fn produce(cluster: &SharedCluster, blocks: u64) -> Result<()> {
    for _ in 0..blocks {
        let time = lock(cluster).head().time + BLOCK_SECONDS;
        lock(cluster).produce(time)?;
    }
    Ok(())
}

/// The runtime's own time, from [`BEGIN`] on.
#[derive(Debug, Clone, Copy)]
pub struct TestClock(pub Instant);

#[async_trait]
impl Clock for TestClock {
    fn now(&self) -> Timestamp {
        from_unix_seconds(BEGIN).unwrap() + chrono::TimeDelta::from_std(self.0.elapsed()).unwrap()
    }

    async fn sleep(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }
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
    let fulfill_by = escrow.fulfillment_deadline - 60;
    let quote = quote(&spend, &escrow, destination, now, 12, PRICE, fulfill_by)?;
    Ok(Payment { spend, authorization, escrow, quote })
}

/// The quote of the settler `seed`, who asks `price` and promises to deliver by `fulfill_by`.
fn quote(
    spend: &SpendRequest,
    escrow: &EscrowPlan,
    destination: &SolanaConfig,
    now: u64,
    seed: u8,
    price: u64,
    fulfill_by: u64,
) -> Result<SignedQuote> {
    let signing = SigningKey::from_bytes(&[seed ^ 0x40; 32]);
    let quote = Quote {
        kind: Quote::kind(),
        auction_id: auction_of(&spend.payment_id),
        terms_hash: spend.terms.hash(),
        settler: Did::from_ed25519(&signing.verifying_key()),
        source_chain: escrow.chain_id.clone(),
        source_amount: price.to_string().parse()?,
        payout_account: wallet(seed),
        escrow_contract: escrow.contract.clone(),
        destination: spend.terms.destination()[0].clone(),
        fulfillment_amount: spend.terms.fulfillment_amount,
        delivery_account: wallet(seed),
        fulfillment_proxy: destination.common.fulfillment_proxy.clone(),
        fulfill_by: from_unix_seconds(fulfill_by).unwrap(),
        valid_until: spend.fulfillment_deadline,
    };
    Ok(quote.sign(&signing, from_unix_seconds(now).unwrap())?)
}

/// A block every [`BLOCK_SECONDS`].
async fn make_blocks(cluster: SharedCluster, clock: TestClock) {
    loop {
        tokio::time::sleep(Duration::from_secs(BLOCK_SECONDS)).await;
        lock(&cluster).produce(clock.now().timestamp().unsigned_abs()).unwrap();
    }
}

#[derive(Clone)]
pub struct Payment {
    pub spend: SpendRequest,
    pub authorization: Authorization,
    pub escrow: EscrowPlan,
    pub quote: SignedQuote,
}

impl Payment {
    pub fn id(&self) -> &PaymentId {
        &self.spend.payment_id
    }

    pub fn fulfill_by(&self) -> u64 {
        self.quote.quote().fulfill_by.timestamp().unsigned_abs()
    }

    /// The same, won by a quote that promises less time.
    pub fn promising(mut self, destination: &SolanaConfig, fulfill_by: u64) -> Result<Self> {
        let now = fulfill_by - 1;
        self.quote = quote(&self.spend, &self.escrow, destination, now, 12, PRICE, fulfill_by)?;
        Ok(self)
    }

    /// The same, reserved for the settler 14, who asks less.
    pub fn next(&self, destination: &SolanaConfig, now: u64) -> Result<Self> {
        let fulfill_by = self.escrow.fulfillment_deadline - 60;
        let quote = quote(&self.spend, &self.escrow, destination, now, 14, PRICE - 1_000, fulfill_by)?;
        Ok(Self { quote, ..self.clone() })
    }

    pub fn reservation(&self) -> Reservation {
        let quote = self.quote.quote();
        Reservation {
            quote_hash: self.quote.hash(),
            payout_account: quote.payout_account.clone(),
            source_amount: quote.source_amount,
            fulfill_by: self.fulfill_by(),
        }
    }

    pub fn deposit(&self) -> DepositOrder {
        DepositOrder {
            payment_id: self.id().clone(),
            terms: self.spend.terms.clone(),
            terms_hash: self.spend.terms.hash(),
            escrow: self.escrow.clone(),
            authorization: self.authorization.clone(),
            reservation: self.reservation(),
        }
    }

    pub fn delivery(&self) -> DeliveryOrder {
        let quote = self.quote.quote();
        DeliveryOrder {
            payment_id: self.id().clone(),
            quote_hash: self.quote.hash(),
            destination: quote.destination.clone(),
            amount: quote.fulfillment_amount,
            delivery_account: quote.delivery_account.clone(),
            proxy: quote.fulfillment_proxy.clone(),
            fulfill_by: self.fulfill_by(),
        }
    }

    pub fn case(&self) -> VerificationCase {
        VerificationCase {
            payment_id: self.id().clone(),
            terms: self.spend.terms.clone(),
            escrow: self.escrow.clone(),
            verifier_set: None,
            quote_document: self.quote.document().to_owned(),
            payloads: Vec::new(),
        }
    }
}

/// Waits in the runtime's time until `look` has found something.
pub async fn eventually<T, F: Future<Output = Result<Option<T>>>>(
    what: &str,
    mut look: impl FnMut() -> F,
) -> Result<T> {
    let started = Instant::now();
    while started.elapsed() < Duration::from_secs(3_600) {
        if let Some(found) = look().await? {
            return Ok(found);
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    bail!("{what} did not come about")
}

/// All tokens of `cluster`, summed over their owners, are what there is.
pub fn assert_conserved(cluster: &SimCluster) {
    let sum: u64 = cluster.token_balances(0).values().sum();
    assert_eq!(sum, cluster.token_supply(0));
}
