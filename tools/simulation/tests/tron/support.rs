//! Two simulated Tron chains, their parties, and payments to make there.

use std::{
    sync::{Arc, LazyLock, Mutex},
    time::Duration,
};

use alloy::{
    primitives::{Address, U256},
    signers::{SignerSync, local::PrivateKeySigner},
    sol_types::SolCall,
};
use anyhow::{Result, bail, ensure};
use ed25519_dalek::SigningKey;
use tokio::time::Instant;

use chains::{
    config::{AssetConfig, CommonConfig, Depth, TronConfig},
    registry::ChainRegistry,
    verifier::Verifier,
};
use chains_tron::{
    adapter::{Keys, TronChain},
    address::{account, text},
    authorization::{Choice, EscrowSettings, SignedMessage, SpendRequest, authorize, confirm, prepare_onchain},
    node::Node,
    settler::SettlerChain,
};
use escrow_abi::contracts::DevToken;
use events::{
    Account, Hash32, OwnedAsset, PaymentId, Terms,
    event::{Authorization, PayerTransaction, TransactionPrepared, TronSpend},
    time::from_unix_seconds,
};
use sagas::ports::{Chains, Clock, DepositOrder, DepositState, PrepareError};
use simulation::{
    family::secp256k1,
    tron::{BLOCK_MS, SharedTron, SimTron, Template, TronOutcome, TronTransport, TronView},
};

pub use crate::common::*;

/// Blocks on top of a solidified one, as on the network.
pub const LAG: u64 = 19;
pub const TOKENS: u64 = 10 * CAP;
pub const TRX: u64 = 1_000_000;
/// TRX of everybody who sends something, in sun.
pub const FUNDS: u64 = 100_000 * TRX;
pub const RPC_TIMEOUT: Duration = Duration::from_secs(2);

/// The parties.
pub fn payer() -> PrivateKeySigner {
    secp256k1("payer")
}

pub fn settler() -> PrivateKeySigner {
    secp256k1("settler")
}

pub fn submitter() -> PrivateKeySigner {
    secp256k1("submitter")
}

pub fn recipient() -> Address {
    secp256k1("recipient").address()
}

pub fn holder(key: &PrivateKeySigner) -> Account {
    account(key.address()).unwrap()
}

/// A chain of its own with a payer, a settler and a submitter who have all they need; the source or the destination.
pub fn chain(number: usize) -> Result<SimTron> {
    static TEMPLATES: LazyLock<[Template; 2]> = LazyLock::new(|| {
        [7, 8].map(|number| {
            let (reserver, deployer) = (secp256k1("reserver").address(), secp256k1("deployer"));
            Template::new(number, BEGIN - 600, reserver, deployer).unwrap()
        })
    });
    let template = &TEMPLATES[number];
    let mut chain = template.start();
    let token = chain.contracts().token;
    for key in [payer(), settler()] {
        let call = DevToken::mintCall { to: key.address(), amount: U256::from(TOKENS) };
        chain.submit(template.deployer(), token, 0, call.abi_encode())?;
    }
    for key in [payer(), settler(), submitter()] {
        chain.fund(key.address(), FUNDS);
    }
    chain.mine(i64::try_from(BEGIN * 1_000)?)?;
    ensure!(chain.mined().iter().all(|mined| mined.succeeded()));
    chain.set_solidified_lag(LAG);
    chain.show_pending(true);
    Ok(chain)
}

/// Makes blocks one slot apart, outside of the world's time.
pub fn mine(chain: &SharedTron, blocks: u64) -> Result<()> {
    for _ in 0..blocks {
        let mut chain = lock(chain);
        let slot = chain.head().time_ms + BLOCK_MS;
        chain.mine(slot)?;
    }
    Ok(())
}

pub fn config(chain: &SharedTron) -> Result<TronConfig> {
    let chain = lock(chain);
    let (contracts, chain_id) = (chain.contracts(), chain.chain_id()?);
    let asset = AssetConfig {
        asset_identifier: format!("{chain_id}/trc20:{}", text(contracts.token)).parse()?,
        symbol: "SUSD".to_owned(),
        decimals: 6,
        wraps: None,
    };
    let common = CommonConfig {
        rpc_url: format!("simulation:{chain_id}"),
        rpc_urls: Vec::new(),
        escrow_contract: account(contracts.escrow).unwrap(),
        fulfillment_proxy: account(contracts.proxy).unwrap(),
        trusted_escrow_contracts: Vec::new(),
        trusted_fulfillment_proxies: Vec::new(),
        reserver: holder(&secp256k1("reserver")),
        releaser: holder(&secp256k1("releaser")),
        required_depth: Depth::Finalized,
        refund_delay_seconds: REFUND_DELAY,
        submitter_deposits_warning: 1,
        exits_reserved: 1,
        ws_url: None,
        poll_ms: 1_000,
        rpc_timeout_ms: 2_000,
        assets: vec![asset],
        chain_id,
    };
    Ok(TronConfig {
        common,
        api_key: None,
        permit2: None,
        permit2_code: None,
        deposit_address_factory: None,
        deposit_returns_daily_max: 0,
    })
}

/// A connection whose calls end as is said from outside.
pub fn steered(chain: &SharedTron) -> Result<(Node, Arc<Mutex<TronOutcome>>)> {
    let outcome = Arc::new(Mutex::new(TronOutcome::Deliver(TronView::Honest)));
    let told = outcome.clone();
    let transport = TronTransport::new(chain.clone(), RPC_TIMEOUT, move |_| told.lock().unwrap().clone());
    Ok((transport.connect(&config(chain)?)?, outcome))
}

pub fn honest(chain: &SharedTron) -> Result<Node> {
    Ok(TronTransport::honest(chain.clone()).connect(&config(chain)?)?)
}

/// The gateway's adapter of a chain, over `node`.
pub fn adapter(node: Node, clock: TestClock) -> Result<TronChain> {
    let keys = Keys {
        reserver: secp256k1("reserver").into(),
        draining_reservers: Vec::new(),
        submitters: vec![submitter().into()],
        exit_submitters: Vec::new(),
    };
    Ok(TronChain::new(node, Some(keys), Arc::new(clock))?)
}

/// A source and a destination that make blocks by themselves, and who acts on them.
pub struct World {
    pub source: SharedTron,
    pub destination: SharedTron,
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
        Self::with_faults(|_| TronOutcome::Deliver(TronView::Honest))
    }

    /// The calls of the engine and of the settler fare as `faults` says; the verifier has honest nodes.
    pub fn with_faults(faults: impl FnMut(&str) -> TronOutcome + Clone + Send + 'static) -> Result<Self> {
        let (source, destination) = (chain(0)?.shared(), chain(1)?.shared());
        let faulty = |chain: &SharedTron| -> Result<Node> {
            Ok(TronTransport::new(chain.clone(), RPC_TIMEOUT, faults.clone()).connect(&config(chain)?)?)
        };
        let clock = TestClock(Instant::now());
        let chains = ChainRegistry::new(Arc::new(clock))
            .with(Arc::new(adapter(faulty(&source)?, clock)?))?
            .with(Arc::new(adapter(faulty(&destination)?, clock)?))?;
        let (source_node, destination_node) = (honest(&source)?, honest(&destination)?);
        for chain in [&source, &destination] {
            tokio::spawn(make_blocks(chain.clone(), clock));
        }
        let nodes = [source_node.clone(), destination_node.clone()];
        let settling = |chain| -> Result<SettlerChain> { Ok(SettlerChain::new(faulty(chain)?, settler())) };
        Ok(Self {
            chains,
            verifier: Verifier::default().with_chains(nodes, Some(secp256k1("releaser").into())),
            source_settler: settling(&source)?,
            destination_settler: settling(&destination)?,
            source,
            destination,
            source_node,
            destination_node,
            clock,
        })
    }

    pub fn now(&self) -> u64 {
        self.clock.now().timestamp().unsigned_abs()
    }

    /// A payment under `request_id` that the payer signed, with the quote that won it.
    pub async fn payment(&self, request_id: &str) -> Result<Payment> {
        self.payment_by(request_id, &Choice::default()).await
    }

    /// The same, with what the payer chose.
    pub async fn payment_by(&self, request_id: &str, choice: &Choice) -> Result<Payment> {
        let destination = self.destination_node.config();
        let asset = destination.common.assets[0].asset_identifier.clone();
        let destination = (OwnedAsset::new(asset, &text(recipient()))?, destination.common.fulfillment_proxy.clone());
        sign(&self.source_node, self.now(), request_id, choice, destination).await
    }
}

/// A payment under `request_id` to `destination` through its proxy, that the payer signs at `now`, with the quote that won it.
pub async fn sign(
    node: &Node,
    now: u64,
    request_id: &str,
    choice: &Choice,
    (destination, proxy): (OwnedAsset, Account),
) -> Result<Payment> {
    let after = |seconds: u64| from_unix_seconds(now + seconds).unwrap();
    let common = &node.config().common;
    let source = OwnedAsset::new(common.assets[0].asset_identifier.clone(), &text(payer().address()))?;
    let cap = Some(CAP.to_string().parse()?);
    let terms = Terms::new(source, vec![destination], DELIVERED.to_string().parse()?, cap);
    let spend = SpendRequest {
        payment_id: PaymentId::derive(&format!("tron:{}", text(payer().address())), request_id),
        terms,
        quote_deadline: after(5),
        fulfillment_deadline: after(900),
        escrow: EscrowSettings {
            contract: common.escrow_contract.clone(),
            reserver: common.reserver.clone(),
            releaser: common.releaser.clone(),
            permit2: None,
            refund_delay_seconds: common.refund_delay_seconds,
        },
        quote_hash: Hash32::ZERO,
    };
    let prepared = prepare_onchain(&spend, choice, node, &secp256k1("reserver").into()).await?;
    let mut signed = Vec::new();
    for message in prepared.messages {
        signed.push(SignedMessage {
            message: message.id.to_string(),
            message_prehash: Some(format!("0x{}", hex::encode(&message.raw_data))),
            signature: format!("0x{}", hex::encode(payer().sign_hash_sync(&message.id)?.as_bytes())),
            payload: Some(message.payload),
        });
    }
    let (authorization, escrow) = authorize(&spend, &signed)?;
    let Authorization::Tron(tron) = &authorization else { bail!("{authorization:?}") };
    confirm(&spend, tron, node).await?;
    let offer = Offer {
        settler: SigningKey::from_bytes(&[7; 32]),
        account: holder(&settler()),
        price: PRICE,
        proxy,
        fulfill_by: escrow.fulfillment_deadline - 300,
        valid_until: spend.fulfillment_deadline,
    };
    let SpendRequest { payment_id, terms, .. } = spend;
    let quote = offer.sign(&payment_id, &terms, &escrow, now)?;
    Ok(Payment { payment_id, terms, authorization, escrow, quote })
}

/// A block every slot.
async fn make_blocks(chain: SharedTron, clock: TestClock) {
    loop {
        tokio::time::sleep(Duration::from_millis(BLOCK_MS.unsigned_abs())).await;
        let _ = lock(&chain).mine(clock.now().timestamp_millis());
    }
}

impl Payment {
    pub fn tron(&self) -> &TronSpend {
        match &self.authorization {
            Authorization::Tron(spend) => spend,
            other => panic!("{other:?}"),
        }
    }
}

/// The bytes of what a payer signed.
pub fn bytes(own: &PayerTransaction) -> Vec<u8> {
    hex::decode(own.raw.trim_start_matches("0x")).unwrap()
}

/// Waits in the runtime's time until `look` has found something.
pub async fn eventually<T, F: Future<Output = Result<Option<T>>>>(what: &str, look: impl FnMut() -> F) -> Result<T> {
    found_within(Duration::from_secs(7_200), Duration::from_millis(1_500), what, look).await
}

/// The reservation's transaction, once the payer's own ones are in blocks. Faults of the nodes are waited out, and so are
/// refusals: as the engine has it, none ends anything ahead of the reserve deadline.
pub async fn reservation(chains: &impl Chains, order: &DepositOrder, attempt: u32) -> Result<TransactionPrepared> {
    eventually("the reservation", || async {
        match chains.prepare_deposit(order, attempt).await {
            Ok(prepared) => Ok(Some(prepared)),
            Err(PrepareError::Refused(refusal)) if refusal.valid_until != order.escrow.reserve_deadline => {
                bail!("{refusal:?}")
            }
            Err(_) => Ok(None),
        }
    })
    .await
}

/// Brings deposit and reservation to their depth, again and again; what was given up is made anew.
pub async fn secure(chains: &impl Chains, order: &DepositOrder) -> Result<Vec<TransactionPrepared>> {
    let mut all = vec![reservation(chains, order, 1).await?];
    for attempt in 2..30 {
        let last = all.last().unwrap().clone();
        let versions = std::slice::from_ref(&last);
        let is_secured = eventually("the deposit", || async {
            let _ = chains.broadcast(&last).await;
            match chains.deposit_state(order, versions).await {
                Ok(DepositState::Secured(_)) => Ok(Some(true)),
                Ok(DepositState::Superseded { .. }) => Ok(Some(false)),
                Ok(DepositState::Pending) | Err(_) => Ok(None),
                Ok(other) => bail!("{other:?}"),
            }
        })
        .await?;
        if is_secured {
            return Ok(all);
        }
        all.push(reservation(chains, order, attempt).await?);
    }
    bail!("never secured")
}

/// All tokens of `chain`, summed over their holders, are what there is.
pub fn assert_conserved(chain: &SimTron) {
    let sum: U256 = chain.token_balances().values().copied().sum();
    assert_eq!(sum, chain.token_supply().unwrap());
    assert_eq!(sum, U256::from(2 * TOKENS));
}

pub fn tokens(chain: &SharedTron, account: Address) -> u64 {
    lock(chain).token_balance(account).to()
}
