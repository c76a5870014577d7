//! EVM chains as the world reaches them: the contracts in revm below the EVM adapter's JSON-RPC ([`crate::chain`]).

mod calls;
mod faults;
mod theft;
mod truth;

use std::{
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
};

use alloy::{
    primitives::{Address, Bytes, U256},
    signers::SignerSync,
};
use async_trait::async_trait;

use chains::{
    config::{CommonConfig, Depth, EvmConfig},
    escrow::EscrowRecord,
    settler::DeliveryChain,
    verifier::Verifier,
};
use chains_evm::{
    adapter::{EvmChain, Keys},
    attest,
    authorization::{self, Choice, EscrowSettings, Scheme, SignedMessage, SpendRequest},
    node::Node,
    settler::SettlerChain,
};
use escrow_abi::contracts::{DevToken, account, address, text};
use events::{
    Account, AssetId, Hash32, PaymentId,
    event::{Authorization, EscrowPlan, Inclusion, TransactionPrepared},
};
use sagas::ports::Statement;

use crate::{
    chain::{Contracts, Genesis, NodeKind, RpcOutcome, SharedChain, SimChain, SimTransport, Template},
    family::{
        Adapter, Allows, BEGIN, Beginning, Careless, Delivered, EscrowCall, FamilyChain, FaultSource, GatewayProcess,
        Happened, Holdings, Misuse, PaymentEvents, REFUND_DELAY, RPC_TIMEOUT, Refusal, RpcFaults, SetupError,
        SolidityChain, SpendOrder, Waits, secp256k1,
    },
    random::RandomSource,
};

/// Coins of every account that sends transactions, in wei.
const COINS: u128 = 1_000_000_000_000_000_000_000;
/// The EIP-155 ids of the chains of a run.
const EVM_IDS: [u64; 2] = [1, 10];

/// One EVM chain of a run.
pub(super) struct EvmWorld {
    evm_id: u64,
    contracts: Contracts,
    config: EvmConfig,
    token: AssetId,
    coin: AssetId,
    reader: SettlerChain,
    /// Blocks that a spike of the base fee lasts still.
    spike: Mutex<u64>,
    chain: SharedChain,
}

/// The account of an address that is not zero.
#[expect(clippy::expect_used, reason = "no key and no contract of a run has the zero address")]
fn known(address: Address) -> Account {
    account(address).expect("no key and no contract of a run has the zero address")
}

impl SolidityChain for EvmWorld {
    const TOKENS: &'static str = "erc20";

    fn text_of(address: Address) -> String {
        text(address)
    }

    fn account_at(address: Address) -> Account {
        known(address)
    }

    fn address_of(account: &Account) -> Result<Address, String> {
        address(account).map_err(|error| error.to_string())
    }

    fn escrow_domain_of(&self) -> (u64, Address) {
        (self.evm_id, self.contracts.escrow)
    }
}

fn templates() -> Result<&'static [Template; 2], SetupError> {
    static TEMPLATES: OnceLock<[Template; 2]> = OnceLock::new();
    if let Some(templates) = TEMPLATES.get() {
        return Ok(templates);
    }
    let home = std::env::var_os("GW_HOME").map(PathBuf::from);
    let home = home.unwrap_or_else(|| PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")));
    let path = home.join(".tools/permit2/Permit2.json");
    let permit2 = std::fs::read(&path).map_err(|error| SetupError::Permit2 { path, error })?;
    let make = |evm_id| {
        let tokens = vec![("Simulated Dollar".to_owned(), "SUSD".to_owned(), 6)];
        let (reserver, releaser) = (secp256k1("reserver").address(), secp256k1("releaser").address());
        Template::new(&Genesis { evm_id, reserver, releaser, tokens }, &permit2)
    };
    let made = [make(EVM_IDS[0])?, make(EVM_IDS[1])?];
    Ok(TEMPLATES.get_or_init(|| made))
}

/// An EVM chain at the run's beginning, with everybody's money on it.
///
/// # Errors
/// [`SetupError`].
pub fn begin(beginning: &Beginning<'_>) -> Result<Arc<dyn FamilyChain>, SetupError> {
    let template = templates()?.get(beginning.index);
    let template = template.ok_or_else(|| SetupError::Connect("there are not so many EVM chains".to_owned()))?;
    let mut chain = template.start(BEGIN - 1);
    let plan = beginning.plan;
    chain.set_lags(plan.depth.min(2), plan.depth);
    let contracts = chain.contracts().clone();
    let token = contracts.tokens[0];
    for party in beginning.parties {
        let account = secp256k1(&party.name).address();
        if party.has_coins {
            chain.fund(account, U256::from(COINS))?;
        }
        if party.tokens > 0 {
            chain.mint(token, account, U256::from(party.tokens))?;
        }
        match party.allows {
            Allows::Nobody => {}
            Allows::Deposits => chain.approve(account, token, contracts.permit2, U256::MAX)?,
            Allows::Deliveries => chain.approve(account, token, contracts.proxy, U256::MAX)?,
        }
    }
    let depth = match plan.by_tag {
        true => Depth::Finalized,
        false => Depth::Confirmations(plan.depth),
    };
    let mut config = chain.config(depth, REFUND_DELAY);
    config.common.releaser = beginning.releaser.clone();
    config.admission_seconds = 60;
    config.reprice_seconds = 10;
    let (evm_id, chain_id) = (chain.evm_id(), config.common.chain_id.clone());
    let asset = |text: String| text.parse::<AssetId>().map_err(|error| SetupError::Connect(error.to_string()));
    let token = asset(format!("{chain_id}/erc20:{}", text(token)))?;
    let coin = asset(format!("{chain_id}/slip44:60"))?;
    let chain = chain.shared();
    let honest = SimTransport::new(chain.clone(), RPC_TIMEOUT, |_: &str| RpcOutcome::Deliver(NodeKind::Honest));
    let node = honest.connect(&config).map_err(|error| SetupError::Connect(error.to_string()))?;
    let reader = SettlerChain::new(node, secp256k1("stranger"));
    Ok(Arc::new(EvmWorld { evm_id, contracts, config, token, coin, reader, spike: Mutex::default(), chain }))
}

impl EvmWorld {
    fn lock(&self) -> MutexGuard<'_, SimChain> {
        self.chain.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn connect(&self, faults: RpcFaults) -> Result<Node, SetupError> {
        let transport = SimTransport::new(self.chain.clone(), RPC_TIMEOUT, faults);
        transport.connect(&self.config).map_err(|error| SetupError::Connect(error.to_string()))
    }
}

#[async_trait]
impl FamilyChain for EvmWorld {
    fn common(&self) -> &CommonConfig {
        &self.config.common
    }

    fn token(&self) -> &AssetId {
        &self.token
    }

    fn coin(&self) -> &AssetId {
        &self.coin
    }

    fn account(&self, name: &str) -> Account {
        known(secp256k1(name).address())
    }

    fn adapter(&self, faults: RpcFaults, process: &GatewayProcess) -> Result<Adapter, SetupError> {
        let node = self.connect(faults)?;
        let keys = Keys {
            reserver: secp256k1("reserver").into(),
            draining_reservers: Vec::new(),
            submitters: process.submitters.iter().map(|name| secp256k1(name).into()).collect(),
            exit_submitters: Vec::new(),
            draining_submitters: process.draining.iter().map(|name| secp256k1(name).into()).collect(),
        };
        let (ledger, budgets, clock) = (process.ledger.clone(), process.budgets.clone(), process.clock.clone());
        let chain = EvmChain::new(node, Some(keys), ledger, budgets, clock.clone());
        let chain = Arc::new(chain.map_err(|error| SetupError::Connect(error.to_string()))?);
        let watched = chain.clone();
        let watch = Arc::new(move || -> crate::family::Task {
            let watched = watched.clone();
            // A failure is repeated in the next round.
            Box::pin(async move { drop(watched.watch_logs().await) })
        });
        let kept = [chain.clone()];
        let upkeep = Box::pin(async move { EvmChain::maintain(&kept, &*clock).await });
        Ok(Adapter { chain, watch: Some(watch), upkeep: Some(upkeep) })
    }

    fn verifier(&self, service: Verifier, name: &str, faults: RpcFaults) -> Result<Verifier, SetupError> {
        Ok(service.with_chains([Careless(self.connect(faults)?)], Some(secp256k1(name).into())))
    }

    fn reader(&self) -> &dyn DeliveryChain {
        &self.reader
    }

    async fn authorize(&self, order: &SpendOrder<'_>) -> Option<(Authorization, EscrowPlan)> {
        let scheme = if order.other_scheme { Scheme::EvmPermit2 } else { Scheme::EvmPermit2Escrow };
        let common = &self.config.common;
        let spend = SpendRequest {
            scheme,
            payment_id: order.payment_id.clone(),
            terms: order.terms.clone(),
            quote_deadline: order.quote_deadline,
            fulfillment_deadline: order.fulfillment_deadline,
            escrow: EscrowSettings {
                contract: common.escrow_contract.clone(),
                reserver: common.reserver.clone(),
                releaser: order.releaser.clone(),
                permit2: self.config.permit2.clone(),
                refund_delay_seconds: REFUND_DELAY,
            },
            quote_hash: order.quote_hash,
            token: None,
        };
        let choice = match scheme {
            Scheme::EvmPermit2 => Choice::default(),
            Scheme::EvmPermit2Escrow
            | Scheme::EvmPermit2Batch
            | Scheme::EvmPermit2Mandate
            | Scheme::EvmEip3009
            | Scheme::EvmX402Exact => Choice {
                reserve_deadline: Some(order.reserve_deadline),
                refund_after: Some(order.refund_after),
                ..Choice::default()
            },
        };
        let prepared = authorization::prepare(&spend, &choice).ok()?;
        let signature = secp256k1(order.payer).sign_hash_sync(&prepared.digest.0.into()).ok()?;
        let signed = SignedMessage {
            message: prepared.digest.to_string(),
            message_prehash: Some(prepared.typed_data.to_string()),
            signature: format!("0x{}", hex::encode(signature.as_bytes())),
            payload: Some(prepared.payload),
        };
        authorization::authorize(&spend, &signed).ok()
    }

    fn allow(&self, payer: &str, is_allowed: bool) -> Result<(), String> {
        let value = if is_allowed { U256::MAX } else { U256::ZERO };
        let call = DevToken::approveCall { spender: self.contracts.permit2, value };
        self.send_call(&secp256k1(payer), self.contracts.tokens[0], U256::ZERO, &call)
    }

    fn deliver(&self, sender: &str, delivery: &Delivered) -> Result<(), String> {
        self.send_delivery(&secp256k1(sender), delivery)
    }

    fn send(&self, sender: &str, payment_id: &PaymentId, call: &EscrowCall) -> Result<(), String> {
        let data = self.escrow_call(payment_id, call)?;
        self.send_data(&secp256k1(sender), self.contracts.escrow, U256::ZERO, data)
    }

    fn attempt(&self, sender: &str, payment_id: &PaymentId, call: &EscrowCall) -> Result<(), Refusal> {
        let data = self.escrow_call(payment_id, call).map_err(Refusal::Other)?;
        self.try_out(secp256k1(sender).address(), &data)
    }

    fn misuse(&self, name: &str, way: Misuse, random: &RandomSource) -> Result<(), String> {
        self.misused(&secp256k1(name), way, random)
    }

    fn give_coins(&self, from: &str, to: &str) -> Result<(), String> {
        self.send_data(&secp256k1(from), secp256k1(to).address(), U256::from(COINS / 8), Bytes::new())
    }

    async fn sign(&self, name: &str, statement: &Statement) -> Option<String> {
        attest::sign_statement(&secp256k1(name).into(), statement, self.evm_id, self.contracts.escrow).await.ok()
    }

    fn is_signed_by(&self, account: &Account, statement: &Statement, signature: &str) -> bool {
        address(account).is_ok_and(|account| {
            attest::verify_statement(account, statement, self.evm_id, self.contracts.escrow, signature)
        })
    }

    fn inject_faults(&self, world: &dyn FaultSource, random: &RandomSource, is_moment: bool) {
        self.suffer(world, random, is_moment);
    }

    fn make_block(&self, time: u64) -> Result<String, String> {
        let mut chain = self.lock();
        let block = chain.mine(time).map_err(|error| error.to_string())?;
        Ok(format!("{} {}", block.number, block.hash))
    }

    fn settled(&self) -> (u64, u64) {
        let chain = self.lock();
        let finalized = chain.finalized();
        (finalized.number, finalized.time)
    }

    fn escrow_record(&self, payment_id: &PaymentId) -> Result<Option<EscrowRecord>, String> {
        self.lock().escrow_record(payment_id).map_err(|error| error.to_string())
    }

    fn holdings(&self) -> Holdings {
        self.held()
    }

    fn payment_events(&self, payment_id: &PaymentId) -> PaymentEvents {
        self.lock().payment_events(payment_id)
    }

    fn changes(&self, is_new: &mut dyn FnMut(Hash32) -> bool) -> Vec<Happened> {
        self.happened(is_new)
    }

    fn deliveries(&self, payment_id: &PaymentId) -> Vec<(u64, Delivered)> {
        self.delivered(payment_id)
    }

    fn was_reserved(&self, payment_id: &PaymentId, quote_hash: Hash32) -> bool {
        self.lock().was_reserved(payment_id, quote_hash)
    }

    fn holds(&self, inclusion: &Inclusion) -> Result<(), String> {
        self.includes(inclusion)
    }

    fn waiting(&self) -> Vec<Waits> {
        self.waits()
    }

    fn knows(&self, transaction: &str) -> bool {
        !self.ask("eth_getTransactionByHash", serde_json::json!([transaction])).is_null()
    }

    fn is_over(&self, prepared: &TransactionPrepared) -> Result<(), String> {
        self.never_lands(prepared)
    }

    fn admitted_until(&self, prepared: &TransactionPrepared) -> Option<u64> {
        calls::admitted_until(prepared)
    }

    fn draws(&self, prepared: &TransactionPrepared) -> Option<U256> {
        calls::draws(prepared)
    }

    fn reassigns_to(&self, prepared: &TransactionPrepared) -> Option<Hash32> {
        calls::reassigns_to(prepared)
    }
}
