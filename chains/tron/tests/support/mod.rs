//! A development chain with the contracts on it, a token, and TRX for everyone.

pub mod addressed;
pub mod liar;
pub mod payment;
pub mod permitted;
pub mod quoted;

use std::time::{Duration, Instant};

use alloy::{
    primitives::{Address, B256, U256},
    signers::local::PrivateKeySigner,
};
use anyhow::{Context, Result, bail};
use serde_json::json;

use chains::config::{CommonConfig, DEPOSIT_RETURNS_DAILY_MAX, Depth, TronConfig};
use chains_tron::{
    address::{self, parse_address, text},
    dev::{DevChain, DevContracts},
    node::Node,
    transaction::{Call, Draft, Reference},
};
use events::Account;
use trondev::{Blocks, Options, TronDev};

/// Blocks on top of a solidified one.
pub const LAG: u64 = 3;
pub const REFUND_DELAY: u64 = 900;
/// A payer's and a settler's tokens at the start.
pub const TOKENS: u64 = 10_000_000;
/// TRX in sun.
pub const TRX: u64 = 1_000_000;
/// Everyone's TRX at the start, in sun.
pub const FUNDS: u64 = 100_000 * TRX;
/// Longest that anything here is waited for.
pub const WITHIN: Duration = Duration::from_secs(60);

pub fn key(seed: u8) -> PrivateKeySigner {
    PrivateKeySigner::from_bytes(&B256::repeat_byte(seed)).unwrap()
}

/// A key's account, `T…`.
pub fn account(key: &PrivateKeySigner) -> String {
    text(key.address())
}

/// A key's account, as plans and orders have it.
pub fn holder(key: &PrivateKeySigner) -> Account {
    address::account(key.address()).unwrap()
}

/// A chain with the contracts, a token, and money for everyone.
pub struct World {
    pub tron: TronDev,
    pub dev: DevChain,
    pub chain_id: String,
    pub contracts: DevContracts,
    /// `T…`.
    pub token: String,
    pub reserver: PrivateKeySigner,
    pub releaser: PrivateKeySigner,
    pub submitters: Vec<PrivateKeySigner>,
    pub payer: PrivateKeySigner,
    pub settler: PrivateKeySigner,
    pub recipient: PrivateKeySigner,
}

impl World {
    /// Blocks are made only when a test says so.
    pub async fn start() -> Result<Self> {
        Self::lagging(LAG).await
    }

    /// The same, with so many blocks on top of a solidified one.
    pub async fn lagging(solidified_lag: u64) -> Result<Self> {
        let options = Options { blocks: Blocks::OnDemand, solidified_lag, ..Options::default() };
        let tron = TronDev::start(options).await?;
        let dev = DevChain::connect(&tron.url(), key(1)).await?;
        let contracts = dev.deploy_contracts(&account(&key(2)), &account(&key(20))).await?;
        let token = dev.deploy_token("Test Dollar", "TUSD", 6).await?;
        let (payer, settler) = (key(6), key(7));
        for rich in [&payer, &settler] {
            dev.mint(&token, &account(rich), U256::from(TOKENS)).await?;
        }
        for seed in 4..=7 {
            dev.fund(&account(&key(seed)), FUNDS).await?;
        }
        let world = Self {
            chain_id: dev.chain_id().await?.to_string(),
            tron,
            dev,
            contracts,
            token,
            reserver: key(2),
            releaser: key(3),
            submitters: vec![key(4), key(5)],
            payer,
            settler,
            recipient: key(8),
        };
        world.mine(solidified_lag).await?;
        Ok(world)
    }

    pub fn config(&self) -> TronConfig {
        TronConfig {
            common: CommonConfig {
                chain_id: self.chain_id.parse().unwrap(),
                rpc_url: self.tron.url(),
                rpc_urls: Vec::new(),
                escrow_contract: self.contracts.escrow.parse().unwrap(),
                fulfillment_proxy: self.contracts.proxy.parse().unwrap(),
                trusted_escrow_contracts: Vec::new(),
                trusted_fulfillment_proxies: Vec::new(),
                reserver: holder(&self.reserver),
                releaser: holder(&self.releaser),
                required_depth: Depth::Finalized,
                refund_delay_seconds: REFUND_DELAY,
                submitter_deposits_warning: 1,
                exits_reserved: 10,
                ws_url: None,
                poll_ms: 10,
                rpc_timeout_ms: 20_000,
                assets: Vec::new(),
            },
            api_key: None,
            permit2: Some(self.contracts.permit2.parse().unwrap()),
            permit2_code: None,
            deposit_returns_daily_max: DEPOSIT_RETURNS_DAILY_MAX,
            deposit_address_factory: Some(self.contracts.deposit_address_factory.parse().unwrap()),
        }
    }

    /// The connection through `rpc_url` instead of the chain's own.
    pub fn node_at(&self, rpc_url: &str) -> Node {
        let mut config = self.config();
        config.common.rpc_url = rpc_url.to_owned();
        Node::connect(&config).unwrap()
    }

    pub fn node(&self) -> Node {
        self.node_at(&self.tron.url())
    }

    pub fn escrow(&self) -> Address {
        parse_address(&self.contracts.escrow).unwrap()
    }

    pub fn proxy(&self) -> Address {
        parse_address(&self.contracts.proxy).unwrap()
    }

    pub fn token_address(&self) -> Address {
        parse_address(&self.token).unwrap()
    }

    /// Makes blocks.
    pub async fn mine(&self, blocks: u64) -> Result<()> {
        Ok(self.dev.mine(blocks).await?)
    }

    /// Makes so many blocks that what is in the newest one now is solidified.
    pub async fn solidify(&self) -> Result<()> {
        self.mine(LAG).await
    }

    /// Puts the chain's clock forward, and makes a block that has the new time.
    pub async fn advance(&self, time: Duration) -> Result<()> {
        self.dev.control("time", json!({"advance_ms": u64::try_from(time.as_millis())?})).await?;
        self.mine(1).await
    }

    /// The newest block's time, UNIX seconds.
    pub async fn time(&self) -> Result<u64> {
        Ok(self.node().head().await?.time_ms / 1000)
    }

    /// How many transactions wait for a block.
    pub async fn waiting(&self) -> Result<u64> {
        let status = self.dev.control("../wallet/getpendingsize", json!({})).await?;
        status["pendingSize"].as_u64().context("no size")
    }

    /// What `owner` has of the token.
    pub async fn tokens(&self, owner: &PrivateKeySigner) -> Result<u64> {
        self.tokens_of(&account(owner)).await
    }

    /// What `owner`, `T…`, has of the token.
    pub async fn tokens_of(&self, owner: &str) -> Result<u64> {
        let balance = self.dev.token_balance(&self.token, owner).await?;
        balance.try_into().ok().context("more than a test has")
    }

    /// A call on the newest solidified block that can be taken for a minute and burn 1,000 TRX.
    pub async fn draft(&self, owner: &PrivateKeySigner, contract: Address, data: Vec<u8>) -> Result<Draft> {
        let node = self.node();
        let (head, settled) = (node.head().await?, node.settled().await?);
        Ok(Draft {
            call: Call { owner: owner.address(), contract, data, value_sun: 0 },
            fee_limit_sun: 1_000 * TRX,
            reference: Reference::of(&settled),
            timestamp_ms: head.time_ms,
            expiration_ms: head.time_ms + 60_000,
        })
    }
}

/// Asks until the answer is one that `is` takes.
pub async fn until<T, F>(mut ask: impl FnMut() -> F, is: impl Fn(&T) -> bool) -> Result<T>
where
    T: std::fmt::Debug,
    F: Future<Output = Result<T, sagas::ports::Transient>>,
{
    let started = Instant::now();
    loop {
        let answer = ask().await;
        match answer {
            Ok(answer) if is(&answer) => return Ok(answer),
            other if started.elapsed() > WITHIN => bail!("after {WITHIN:?}: {other:?}"),
            _ => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    }
}
