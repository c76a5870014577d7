//! Two simulated chains, their parties, and payments to make there.

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use alloy::{
    primitives::{Address, B256, U256},
    signers::{SignerSync, local::PrivateKeySigner},
};
use anyhow::{Context, Result, bail};
use ed25519_dalek::SigningKey;
use tokio::time::Instant;

use chains::{
    config::{Depth, EvmConfig},
    registry::ChainRegistry,
    verifier::Verifier,
};
use chains_evm::{
    adapter::{EvmChain, Keys},
    authorization::{Choice, EscrowSettings, Scheme, SignedMessage, SpendRequest, authorize, prepare},
    node::Node,
    settler::SettlerChain,
};
use events::{Hash32, OwnedAsset, PaymentId, Terms, time::from_unix_seconds};
use journal::{budget::memory::MemoryBudgets, ledger::memory::MemoryLedger};
use sagas::ports::Clock;
use simulation::chain::{Genesis, NodeKind, RpcOutcome, SharedChain, SimChain, SimTransport, Template};

pub use crate::common::*;

pub const BLOCK_SECONDS: u64 = 2;
pub const RPC_TIMEOUT: Duration = Duration::from_secs(1);

pub fn key(seed: u8) -> PrivateKeySigner {
    PrivateKeySigner::from_bytes(&B256::repeat_byte(seed)).unwrap()
}

pub fn text(signer: &PrivateKeySigner) -> String {
    format!("{:#x}", signer.address())
}

pub fn permit2() -> Result<Vec<u8>> {
    std::fs::read(devkit::tools::root().join(".tools/permit2/Permit2.json")).context("run `scripts/tools.sh`")
}

pub fn template(evm_id: u64) -> Result<Template> {
    let tokens = vec![("Simulated USD".to_owned(), "sUSD".to_owned(), 6)];
    let genesis = Genesis { evm_id, reserver: key(2).address(), releaser: key(3).address(), tokens };
    Ok(Template::new(&genesis, &permit2()?)?)
}

/// A chain of its own with a payer, a settler and a submitter who have all they need.
pub fn chain(evm_id: u64) -> Result<SimChain> {
    static TEMPLATES: OnceLock<[Template; 2]> = OnceLock::new();
    if TEMPLATES.get().is_none() {
        // Two at once make the same, and the second is dropped.
        let _ = TEMPLATES.set([template(31_337)?, template(31_338)?]);
    }
    let template = match (TEMPLATES.get(), evm_id) {
        (Some([source, _]), 31_337) => source,
        (Some([_, destination]), 31_338) => destination,
        _ => bail!("no template for {evm_id}"),
    };
    let mut chain = template.start(BEGIN);
    let (token, permit2) = (chain.contracts().tokens[0], chain.contracts().permit2);
    for account in [key(10), key(12), key(13)] {
        chain.fund(account.address(), U256::from(10).pow(U256::from(20)))?;
    }
    for account in [key(10), key(12)] {
        chain.mint(token, account.address(), U256::from(10 * CAP))?;
    }
    chain.approve(key(10).address(), token, permit2, U256::MAX)?;
    Ok(chain)
}

/// A source and a destination that make blocks by themselves, and who acts on them.
pub struct World {
    pub source: SharedChain,
    pub destination: SharedChain,
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
        let (source, destination) = (chain(31_337)?.shared(), chain(31_338)?.shared());
        let connect = |chain: &SharedChain| {
            let config = lock(chain).config(Depth::Finalized, REFUND_DELAY);
            SimTransport::honest(chain.clone()).connect(&config)
        };
        let faulty = |chain: &SharedChain| {
            let config = lock(chain).config(Depth::Finalized, REFUND_DELAY);
            SimTransport::new(chain.clone(), RPC_TIMEOUT, faults.clone()).connect(&config)
        };
        let clock = TestClock(Instant::now());
        let keys = Keys {
            reserver: key(2).into(),
            draining_reservers: Vec::new(),
            submitters: vec![key(13).into()],
            exit_submitters: Vec::new(),
            draining_submitters: Vec::new(),
        };
        let (ledger, budgets) = (Arc::new(MemoryLedger::default()), Arc::new(MemoryBudgets::default()));
        let adapter = |node, keys| EvmChain::new(node, keys, ledger.clone(), budgets.clone(), Arc::new(clock));
        let chains = ChainRegistry::new(Arc::new(clock))
            .with(Arc::new(adapter(faulty(&source)?, Some(keys))?))?
            .with(Arc::new(adapter(faulty(&destination)?, None)?))?;
        let (source_node, destination_node) = (connect(&source)?, connect(&destination)?);
        for chain in [&source, &destination] {
            tokio::spawn(make_blocks(chain.clone(), clock));
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
}

/// A payment under `request_id` from one chain to another that the payer signs at `now`, with the quote that won it.
pub fn payment_on(source: &EvmConfig, destination: &EvmConfig, now: u64, request_id: &str) -> Result<Payment> {
    let after = |seconds: u64| from_unix_seconds(now + seconds).unwrap();
    let spend = SpendRequest {
        scheme: Scheme::EvmPermit2Escrow,
        payment_id: PaymentId::derive(&format!("eip155:{}", text(&key(10))), request_id),
        terms: Terms::new(
            OwnedAsset::new(source.common.assets[0].asset_identifier.clone(), &text(&key(10)))?,
            vec![OwnedAsset::new(destination.common.assets[0].asset_identifier.clone(), &text(&key(11)))?],
            DELIVERED.to_string().parse()?,
            Some(CAP.to_string().parse()?),
        ),
        quote_deadline: after(5),
        fulfillment_deadline: after(600),
        escrow: EscrowSettings {
            contract: source.common.escrow_contract.clone(),
            reserver: source.common.reserver.clone(),
            releaser: source.common.releaser.clone(),
            permit2: source.permit2.clone(),
            refund_delay_seconds: source.common.refund_delay_seconds,
        },
        quote_hash: Hash32::ZERO,
        token: None,
    };
    let prepared = prepare(&spend, &Choice::default())?;
    let signature = key(10).sign_hash_sync(&B256::from(prepared.digest.0))?;
    let signed = SignedMessage {
        message: prepared.digest.to_string(),
        message_prehash: Some(prepared.typed_data.to_string()),
        signature: format!("0x{}", hex::encode(signature.as_bytes())),
        payload: None,
    };
    let (authorization, escrow) = authorize(&spend, &signed)?;
    let offer = Offer {
        settler: SigningKey::from_bytes(&[7; 32]),
        account: text(&key(12)).parse()?,
        price: PRICE,
        proxy: destination.common.fulfillment_proxy.clone(),
        fulfill_by: escrow.fulfillment_deadline - 60,
        valid_until: spend.fulfillment_deadline,
    };
    let SpendRequest { payment_id, terms, .. } = spend;
    let quote = offer.sign(&payment_id, &terms, &escrow, now)?;
    Ok(Payment { payment_id, terms, authorization, escrow, quote })
}

/// A block every [`BLOCK_SECONDS`].
async fn make_blocks(chain: SharedChain, clock: TestClock) {
    loop {
        tokio::time::sleep(Duration::from_secs(BLOCK_SECONDS)).await;
        lock(&chain).advance_to(clock.now().timestamp().unsigned_abs());
    }
}

/// Waits in the runtime's time until `look` has found something.
pub async fn eventually<T, F: Future<Output = Result<Option<T>>>>(what: &str, look: impl FnMut() -> F) -> Result<T> {
    found_within(Duration::from_secs(3_600), Duration::from_millis(500), what, look).await
}

/// All tokens of `chain`, summed over their holders, are what there is.
pub fn assert_conserved(chain: &SimChain) {
    for token in chain.contracts().tokens.clone() {
        let sum: U256 = chain.token_balances(token).values().copied().sum();
        assert_eq!(sum, chain.token_supply(token));
    }
}

pub fn balance(chain: &SharedChain, account: Address) -> u64 {
    let chain = lock(chain);
    chain.token_balance(chain.contracts().tokens[0], account).to()
}
