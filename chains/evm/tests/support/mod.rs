//! Two real chains with the contracts on them, and payments to make there.

#[allow(dead_code, reason = "the tests of other families use the rest")]
pub mod liar;
pub mod reassignment;
pub mod release;

use std::{
    slice::from_ref,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::{Duration, Instant},
};

use alloy::{
    primitives::{B256, U256},
    signers::{SignerSync, local::PrivateKeySigner},
};
use anyhow::{Context, Result, bail};
use async_trait::async_trait;
use ed25519_dalek::SigningKey;
use serde_json::Value;

use chains::{
    config::{CommonConfig, Depth, EvmConfig, GasConfig},
    registry::ChainRegistry,
};
use chains_evm::{
    adapter::{EvmChain, Keys},
    authorization::{Choice, EscrowSettings, Scheme, SignedMessage, SpendRequest, authorize, prepare},
    dev::{DevChain, DevContracts},
    node::Node,
    payers::Payers,
    query::Query,
};
use devkit::anvil::{Anvil, Mining};
use events::{
    ChainId, Did, Hash32, OwnedAsset, PaymentId, Terms,
    event::{Authorization, EscrowPlan, TransactionPrepared},
    quote::{Quote, SignedQuote, auction_of},
    time::{Timestamp, from_unix_seconds, unix_seconds},
};
use journal::{budget::memory::MemoryBudgets, ledger::memory::MemoryLedger};
use sagas::ports::{Clock, DeliveryOrder, DepositOrder, Reservation, VerificationCase};

/// Blocks on top of a settled one.
pub const DEPTH: u64 = 2;
pub const CAP: u64 = 1_000_000;
pub const PRICE: u64 = 900_000;
pub const DELIVERED: u64 = 850_000;
pub const REFUND_DELAY: u64 = 900;
pub const ADMISSION_SECONDS: u64 = 60;
pub const REPRICE_SECONDS: u64 = 30;
pub const DEPOSITS_WARNING: u64 = 100;

/// The nonce of a prepared EVM transaction.
pub fn nonce_of(prepared: &TransactionPrepared) -> u64 {
    prepared.validity.nonce().expect("a nonce")
}

/// The system's clock, that a test can put forward.
#[derive(Default)]
pub struct TestClock {
    ahead_seconds: AtomicI64,
}

impl TestClock {
    pub fn advance(&self, seconds: i64) {
        self.ahead_seconds.fetch_add(seconds, Ordering::SeqCst);
    }
}

#[async_trait]
impl Clock for TestClock {
    fn now(&self) -> Timestamp {
        chrono::Utc::now() + chrono::TimeDelta::seconds(self.ahead_seconds.load(Ordering::SeqCst))
    }

    async fn sleep(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }
}

pub fn key(seed: u8) -> PrivateKeySigner {
    PrivateKeySigner::from_bytes(&B256::repeat_byte(seed)).unwrap()
}

pub fn text(signer: &PrivateKeySigner) -> String {
    format!("{:#x}", signer.address())
}

/// One chain.
pub struct Chain {
    pub anvil: Anvil,
    pub dev: DevChain,
    pub contracts: DevContracts,
    pub token: String,
    pub config: EvmConfig,
    pub node: Node,
}

impl Chain {
    async fn start(evm_id: u64, depth: Depth) -> Result<Self> {
        let anvil = Anvil::start(evm_id, Mining::Instant).await?;
        let dev = DevChain::connect(&anvil.url(), key(1)).await?;
        let artefact = std::fs::read(devkit::tools::root().join(".tools/permit2/Permit2.json"))
            .context("run `scripts/tools.sh`")?;
        let contracts = dev.deploy_contracts(&artefact, &text(&key(2)), &text(&key(20))).await?;
        let token = dev.deploy_token("Development USD", "dUSD", 6).await?;
        let config = EvmConfig {
            common: CommonConfig {
                chain_id: ChainId::evm(evm_id),
                rpc_url: anvil.url(),
                rpc_urls: Vec::new(),
                escrow_contract: contracts.escrow.parse()?,
                fulfillment_proxy: contracts.proxy.parse()?,
                trusted_escrow_contracts: Vec::new(),
                trusted_fulfillment_proxies: Vec::new(),
                reserver: text(&key(2)).parse()?,
                releaser: text(&key(3)).parse()?,
                required_depth: depth,
                refund_delay_seconds: REFUND_DELAY,
                submitter_deposits_warning: DEPOSITS_WARNING,
                exits_reserved: 10,
                ws_url: None,
                poll_ms: 20,
                rpc_timeout_ms: 5_000,
                assets: Vec::new(),
            },
            permit2: contracts.permit2.parse()?,
            admission_seconds: ADMISSION_SECONDS,
            reprice_seconds: REPRICE_SECONDS,
            contract_payers: true,
            gas: GasConfig::default(),
        };
        let node = Node::connect(&config)?;
        Ok(Self { anvil, dev, contracts, token, config, node })
    }

    /// Makes so many blocks. The transaction that was sent last may be in the first of them, or in one before it.
    pub async fn mine(&self, blocks: u64) -> Result<()> {
        let _: Value = self.dev.rpc("anvil_mine", (U256::from(blocks),)).await?;
        Ok(())
    }

    /// Puts the chain's clock to `seconds` and makes the block.
    pub async fn pass(&self, seconds: u64) -> Result<()> {
        let _: Value = self.dev.rpc("evm_setNextBlockTimestamp", (seconds,)).await?;
        self.mine(1 + DEPTH).await
    }

    pub fn query(&self) -> Query<'_> {
        Query::of(&self.node)
    }

    /// The payers there, of whom nothing is known yet.
    pub fn payers(&self) -> Payers {
        Payers::new(self.node.clone())
    }

    pub async fn automine(&self, on: bool) -> Result<()> {
        let _: Value = self.dev.rpc("evm_setAutomine", (on,)).await?;
        Ok(())
    }

    pub async fn balance(&self, signer: &PrivateKeySigner) -> Result<u64> {
        Ok(u64::try_from(self.dev.token_balance(&self.token, &text(signer)).await?)?)
    }

    pub fn asset(&self) -> String {
        format!("{}/erc20:{}", self.config.common.chain_id, self.token)
    }
}

/// A source and a destination, a payer with tokens, a settler with inventory.
pub struct World {
    pub source: Chain,
    pub destination: Chain,
    pub payer: PrivateKeySigner,
    pub recipient: PrivateKeySigner,
    pub settler: PrivateKeySigner,
    pub submitter: PrivateKeySigner,
    pub ledger: Arc<MemoryLedger>,
    pub budgets: Arc<MemoryBudgets>,
    pub clock: Arc<TestClock>,
    /// The source as the engine has it, with the keys to act there.
    pub gateway: Arc<EvmChain>,
    /// Both chains as the engine has them.
    pub chains: ChainRegistry,
}

impl World {
    pub async fn start() -> Result<Self> {
        let (source, destination) = tokio::try_join!(
            Chain::start(31_337, Depth::Confirmations(DEPTH)),
            Chain::start(31_338, Depth::Confirmations(DEPTH))
        )?;
        let (payer, recipient, settler, submitter) = (key(10), key(11), key(12), key(13));
        for chain in [&source, &destination] {
            for account in [&payer, &settler, &submitter] {
                chain.dev.fund(&text(account), U256::from(10).pow(U256::from(20))).await?;
            }
            chain.dev.mint(&chain.token, &text(&payer), U256::from(10 * CAP)).await?;
            chain.dev.mint(&chain.token, &text(&settler), U256::from(10 * CAP)).await?;
            chain.dev.approve(&payer, &chain.token, &chain.contracts.permit2, U256::MAX).await?;
        }
        let ledger = Arc::new(MemoryLedger::default());
        let budgets = Arc::new(MemoryBudgets::default());
        let clock = Arc::new(TestClock::default());
        let keys = Keys {
            reserver: key(2).into(),
            draining_reservers: Vec::new(),
            submitters: vec![submitter.clone().into()],
            exit_submitters: Vec::new(),
            draining_submitters: Vec::new(),
        };
        let connect = |chain: &Chain, keys| {
            EvmChain::new(chain.node.clone(), keys, ledger.clone(), budgets.clone(), clock.clone()).map(Arc::new)
        };
        let gateway = connect(&source, Some(keys))?;
        let chains = ChainRegistry::new(clock.clone()).with(gateway.clone())?.with(connect(&destination, None)?)?;
        Ok(Self { source, destination, payer, recipient, settler, submitter, ledger, budgets, clock, gateway, chains })
    }

    /// A payment under `request_id` that the payer signed, with the quote that won it.
    pub fn payment(&self, request_id: &str) -> Result<Payment> {
        self.payment_by(
            request_id,
            Scheme::EvmPermit2Escrow,
            &format!("{}/erc20:{}", self.destination.config.common.chain_id, self.destination.token),
        )
    }

    pub fn payment_by(&self, request_id: &str, scheme: Scheme, destination: &str) -> Result<Payment> {
        let spend = self.spend(request_id, scheme, destination)?;
        let prepared = prepare(&spend, &Choice::default())?;
        let signed = sign(&self.payer, prepared.digest, Some(prepared.typed_data.to_string()))?;
        let (authorization, escrow) = authorize(&spend, &signed)?;
        self.awarded(spend, authorization, escrow)
    }

    pub fn spend(&self, request_id: &str, scheme: Scheme, destination: &str) -> Result<SpendRequest> {
        let now = chrono::Utc::now();
        let after = |seconds: i64| from_unix_seconds(unix_seconds(now) + seconds as u64).unwrap();
        let config = &self.source.config;
        Ok(SpendRequest {
            scheme,
            payment_id: PaymentId::derive(&format!("eip155:{}", text(&self.payer)), request_id),
            terms: Terms::new(
                OwnedAsset::new(self.source.asset().parse()?, &text(&self.payer))?,
                vec![OwnedAsset::new(destination.parse()?, &text(&self.recipient))?],
                DELIVERED.to_string().parse()?,
                Some(CAP.to_string().parse()?),
            ),
            quote_deadline: after(5),
            fulfillment_deadline: after(600),
            escrow: EscrowSettings {
                contract: config.common.escrow_contract.clone(),
                reserver: config.common.reserver.clone(),
                releaser: config.common.releaser.clone(),
                permit2: config.permit2.clone(),
                refund_delay_seconds: config.common.refund_delay_seconds,
            },
            quote_hash: Hash32::ZERO,
            token: None,
        })
    }

    pub fn awarded(&self, spend: SpendRequest, authorization: Authorization, escrow: EscrowPlan) -> Result<Payment> {
        let signing = SigningKey::from_bytes(&[7; 32]);
        let destination = spend.terms.destination()[0].clone();
        let quote = Quote {
            kind: Quote::kind(),
            auction_id: auction_of(&spend.payment_id),
            terms_hash: spend.terms.hash(),
            settler: Did::from_ed25519(&signing.verifying_key()),
            source_chain: escrow.chain_id.clone(),
            source_amount: PRICE.to_string().parse()?,
            payout_account: text(&self.settler).parse()?,
            escrow_contract: escrow.contract.clone(),
            destination,
            fulfillment_amount: spend.terms.fulfillment_amount,
            delivery_account: text(&self.settler).parse()?,
            fulfillment_proxy: self.destination.contracts.proxy.parse()?,
            fulfill_by: from_unix_seconds(escrow.fulfillment_deadline - 60).unwrap(),
            valid_until: spend.fulfillment_deadline,
        };
        let quote = quote.sign(&signing, from_unix_seconds(unix_seconds(chrono::Utc::now())).unwrap())?;
        Ok(Payment { spend, authorization, escrow, quote })
    }

    /// Deposits and reserves, and lets it settle; how much is in escrow, smallest unit.
    pub async fn secure(&self, payment: &Payment) -> Result<u64> {
        use sagas::ports::{Chains, DepositState};
        let prepared = self.chains.prepare_deposit(&payment.deposit(), 1).await?;
        self.chains.broadcast(&prepared).await?;
        self.source.mine(1 + DEPTH).await?;
        match self.chains.deposit_state(&payment.deposit(), from_ref(&prepared)).await? {
            DepositState::Secured(secured) => Ok(secured.amount.get().to()),
            other => bail!("not secured: {other:?}"),
        }
    }

    /// Settles a block past the end of every admission signed so far.
    pub async fn end_admissions(&self) -> Result<()> {
        self.source.pass(self.now().await? + ADMISSION_SECONDS + 1).await
    }

    /// The later of the source chain's time and the gateway's.
    pub async fn now(&self) -> Result<u64> {
        Ok(self.source.node.head().await?.time.max(unix_seconds(self.clock.now())))
    }
}

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
        unix_seconds(self.quote.quote().fulfill_by)
    }

    pub fn deposit(&self) -> DepositOrder {
        let quote = self.quote.quote();
        DepositOrder {
            transfer: None,
            payment_id: self.id().clone(),
            terms: self.spend.terms.clone(),
            terms_hash: self.spend.terms.hash(),
            escrow: self.escrow.clone(),
            authorization: self.authorization.clone(),
            reservation: Reservation {
                quote_hash: self.quote.hash(),
                payout_account: quote.payout_account.clone(),
                source_amount: quote.source_amount,
                fulfill_by: self.fulfill_by(),
            },
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

pub fn sign(signer: &PrivateKeySigner, digest: Hash32, prehash: Option<String>) -> Result<SignedMessage> {
    let signature = signer.sign_hash_sync(&B256::from(digest.0))?;
    Ok(SignedMessage {
        message: digest.to_string(),
        message_prehash: prehash,
        signature: format!("0x{}", hex::encode(signature.as_bytes())),
        payload: None,
    })
}

/// Polls until `condition` holds.
pub async fn eventually<F: Future<Output = Result<bool>>>(what: &str, mut condition: impl FnMut() -> F) -> Result<()> {
    let started = Instant::now();
    while !condition().await? {
        if started.elapsed() > Duration::from_secs(30) {
            bail!("{what} did not come about");
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Ok(())
}
