//! Tron chains as the world reaches them.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use alloy::{
    primitives::{Address, B256, U256, keccak256},
    signers::Signature,
    sol_types::SolCall,
};
use async_trait::async_trait;

use chains::{
    config::{CommonConfig, TronConfig},
    escrow::EscrowRecord,
    settler::DeliveryChain,
    verifier::Verifier,
};
use chains_tron::{
    adapter::{Keys, TronChain},
    address::{account, address, text},
    node::Node,
    settler::SettlerChain,
};
use escrow_abi::{
    attest::{sign_preimage, statement_preimage},
    contracts::DevToken,
};
use events::{
    Account, AssetId, Hash32, PaymentId,
    event::{Authorization, EscrowPlan, Inclusion, TransactionPrepared},
};
use sagas::ports::Statement;
use trondev::{Call, SUN_PER_TRX};

use super::{
    chain::{BLOCK_MS, Mined, SharedTron, SimTron},
    events::Event,
    faults::Troubles,
    orders,
    template::Contracts,
    transport::{TronOutcome, TronTransport},
    view::TronView,
};
use crate::{
    chain::NodeKind,
    family::{
        Adapter, Careless, Change, Delivered, EscrowCall, FamilyChain, FaultSource, GatewayProcess, Happened, Holdings,
        Misuse, PaymentEvents, RPC_TIMEOUT, Refusal, RpcFaults, RpcOutcome, SetupError, SolidityChain, SpendOrder,
        Task, Waits, cancelled_by, secp256k1,
    },
    random::RandomSource,
};

/// Sun for a unit of energy on a quiet chain.
pub(super) const ENERGY_PRICE_SUN: u64 = 100;

/// What an operator gives a submitter, in sun.
const GIVEN_SUN: u64 = 100_000 * SUN_PER_TRX;

/// One Tron chain of a run.
pub(super) struct TronWorld {
    pub(super) contracts: Contracts,
    pub(super) config: TronConfig,
    pub(super) token: AssetId,
    pub(super) coin: AssetId,
    pub(super) reader: SettlerChain,
    pub(super) chain: SharedTron,
    /// Blocks from the solidified one to the newest, when nothing is late.
    pub(super) depth: u64,
    pub(super) troubles: Mutex<Troubles>,
    /// Names of those who pay for transactions of their own.
    pub(super) rich: Vec<String>,
    /// Nodes that each party asks: of one it believes all, of several what two say.
    pub(super) nodes: usize,
    /// What payers signed, in the order in which it is to be sent.
    pub(super) signed: Mutex<Vec<Vec<Vec<u8>>>>,
}

/// The account of an address that is not zero.
#[expect(clippy::expect_used, reason = "no key and no contract of a run has the zero address")]
pub(super) fn known(address: Address) -> Account {
    account(address).expect("no key and no contract of a run has the zero address")
}

impl TronWorld {
    pub(super) fn lock(&self) -> MutexGuard<'_, SimTron> {
        self.chain.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn keep_signed(&self, raw: Vec<Vec<u8>>) {
        self.signed.lock().unwrap_or_else(PoisonError::into_inner).push(raw);
    }

    fn connect(&self, faults: RpcFaults) -> Result<Node, SetupError> {
        let shared = Arc::new(Mutex::new((faults, 0)));
        let nodes = (0..self.nodes).map(|_| {
            let shared = shared.clone();
            TronTransport::new(self.chain.clone(), RPC_TIMEOUT, move |path: &str| {
                let mut shared = shared.lock().unwrap_or_else(PoisonError::into_inner);
                let (faults, calls) = &mut *shared;
                *calls += 1;
                as_tron(faults(path), *calls)
            })
        });
        let node = TronTransport::connect_all(nodes, &self.config);
        node.map_err(|error| SetupError::Connect(error.to_string()))
    }

    /// What an event changed about a payment; `None` for what is no change of who is paid.
    fn change(&self, mined: &Mined, event: &Event) -> Option<Change> {
        let called = mined.call.as_ref().filter(|(contract, _)| *contract == self.contracts.escrow);
        let data = called.map(|(_, data)| data.as_slice());
        Some(match event {
            Event::Deposited | Event::Reserved(_) => return None,
            Event::Reassigned => Change::Reassigned(data.and_then(Self::reassigned_by)),
            Event::Released => Change::Released(data.and_then(Self::released_by)),
            Event::Refunded => Change::Refunded(data.and_then(cancelled_by)),
            Event::Fulfilled(event) => Change::Delivered(self.delivery_of(event)),
        })
    }
}

impl SolidityChain for TronWorld {
    const TOKENS: &'static str = "trc20";

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
        (u64::from(self.contracts.number), self.contracts.escrow)
    }
}

/// How a node of Tron's fails where `outcome` says that one does; `number` counts the calls of one connection, so that each way comes.
fn as_tron(outcome: RpcOutcome, number: u64) -> TronOutcome {
    const CODES: [&str; 5] =
        ["SERVER_BUSY", "NO_CONNECTION", "BLOCK_UNSOLIDIFIED", "TRANSACTION_EXPIRATION_ERROR", "TAPOS_ERROR"];
    let view = |kind: NodeKind| match kind {
        // One of two answers that lag lags in what is solidified alone.
        NodeKind::Lagging { blocks } if number % 2 == 1 => TronView::LateSolidified { blocks },
        NodeKind::OnFork if number % 4 == 3 => TronView::Swallowing,
        kind => kind.into(),
    };
    match outcome {
        RpcOutcome::Deliver(kind) => TronOutcome::Deliver(view(kind)),
        RpcOutcome::Late(after, kind) => TronOutcome::Late(after, view(kind)),
        RpcOutcome::LoseRequest => TronOutcome::LoseRequest,
        RpcOutcome::LoseAnswer(kind) => TronOutcome::LoseAnswer(view(kind)),
        RpcOutcome::Error(..) => {
            let code = CODES[usize::try_from(number / 8 % 5).unwrap_or_default()];
            match number % 8 {
                0 => TronOutcome::Status(429, Some("1")),
                1 => TronOutcome::Status(403, Some("3")),
                2 => TronOutcome::Status(503, None),
                3 => TronOutcome::Status(502, None),
                4 => TronOutcome::Refused("class java.lang.RuntimeException : lack of computing resources"),
                5 => TronOutcome::Garbage,
                6 => TronOutcome::Untaken(code),
                _ => TronOutcome::TakenAll(code),
            }
        }
    }
}

#[async_trait]
impl FamilyChain for TronWorld {
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
        let keys = Keys {
            reserver: secp256k1("reserver").into(),
            draining_reservers: Vec::new(),
            submitters: process.submitters.iter().map(|name| secp256k1(name).into()).collect(),
            exit_submitters: Vec::new(),
        };
        let chain = TronChain::new(self.connect(faults)?, Some(keys), process.clock.clone());
        let chain = Arc::new(chain.map_err(|error| SetupError::Connect(error.to_string()))?);
        let watched = chain.clone();
        let watch = Arc::new(move || -> Task {
            let watched = watched.clone();
            // A failure is repeated in the next round.
            Box::pin(async move { drop(watched.watch_logs().await) })
        });
        Ok(Adapter { chain, watch: Some(watch), upkeep: None })
    }

    fn verifier(&self, service: Verifier, name: &str, faults: RpcFaults) -> Result<Verifier, SetupError> {
        Ok(service.with_chains([Careless(self.connect(faults)?)], Some(secp256k1(name).into())))
    }

    fn reader(&self) -> &dyn DeliveryChain {
        &self.reader
    }

    async fn authorize(&self, order: &SpendOrder<'_>) -> Option<(Authorization, EscrowPlan)> {
        self.signed(order).await
    }

    fn allow(&self, payer: &str, is_allowed: bool) -> Result<(), String> {
        let value = if is_allowed { U256::MAX } else { U256::ZERO };
        let call = DevToken::approveCall { spender: self.contracts.escrow, value };
        self.send_data(&secp256k1(payer), self.contracts.token, 0, call.abi_encode())
    }

    fn deliver(&self, sender: &str, delivery: &Delivered) -> Result<(), String> {
        self.send_delivery(&secp256k1(sender), delivery)
    }

    fn send(&self, sender: &str, payment_id: &PaymentId, call: &EscrowCall) -> Result<(), String> {
        let data = self.escrow_call(payment_id, call)?;
        self.send_data(&secp256k1(sender), self.contracts.escrow, 0, data)
    }

    fn attempt(&self, sender: &str, payment_id: &PaymentId, call: &EscrowCall) -> Result<(), Refusal> {
        let data = self.escrow_call(payment_id, call).map_err(Refusal::Other)?;
        self.try_out(secp256k1(sender).address(), &data)
    }

    fn misuse(&self, name: &str, way: Misuse, random: &RandomSource) -> Result<(), String> {
        self.misused(name, way, random)
    }

    fn give_coins(&self, _: &str, to: &str) -> Result<(), String> {
        self.lock().fund(secp256k1(to).address(), GIVEN_SUN);
        Ok(())
    }

    async fn sign(&self, name: &str, statement: &Statement) -> Option<String> {
        let (number, escrow) = (u64::from(self.contracts.number), self.contracts.escrow);
        let preimage = statement_preimage(statement, number, escrow, address).ok()?;
        sign_preimage(&secp256k1(name).into(), &preimage).await.ok()
    }

    fn is_signed_by(&self, signer: &Account, statement: &Statement, signature: &str) -> bool {
        let (number, escrow) = (u64::from(self.contracts.number), self.contracts.escrow);
        let Ok(preimage) = statement_preimage(statement, number, escrow, address) else { return false };
        let bytes = hex::decode(signature.trim_start_matches("0x")).unwrap_or_default();
        let recovered = Signature::from_raw(&bytes).ok();
        let recovered = recovered.and_then(|one| one.recover_address_from_prehash(&keccak256(preimage)).ok());
        recovered.and_then(account).as_ref() == Some(signer)
    }

    fn inject_faults(&self, world: &dyn FaultSource, random: &RandomSource, is_moment: bool) {
        self.suffer(world, random, is_moment);
    }

    fn make_block(&self, time: u64) -> Result<String, String> {
        let mut missed = self.troubles.lock().unwrap_or_else(PoisonError::into_inner);
        let mut chain = self.lock();
        let last = i64::try_from(time.saturating_mul(1_000)).unwrap_or(i64::MAX);
        let mut slot = (chain.head().time_ms / BLOCK_MS + 1) * BLOCK_MS;
        while slot <= last {
            match missed.missed {
                0 => drop(chain.mine(slot).map_err(|error| error.to_string())?),
                _ => missed.missed -= 1,
            }
            slot += BLOCK_MS;
        }
        let head = chain.head();
        Ok(format!("{} {}", head.number, B256::from(head.id)))
    }

    fn settled(&self) -> (u64, u64) {
        let solidified = self.lock().solidified();
        (solidified.number, solidified.time_ms.unsigned_abs() / 1_000)
    }

    fn escrow_record(&self, payment_id: &PaymentId) -> Result<Option<EscrowRecord>, String> {
        self.lock().escrow_record(payment_id).map_err(|error| error.to_string())
    }

    fn holdings(&self) -> Holdings {
        let chain = self.lock();
        let mut balances = chain.token_balances();
        let escrow = balances.remove(&self.contracts.escrow).unwrap_or_default();
        // What is at nobody's address shows in the supply alone.
        let accounts = balances.into_iter().filter(|(account, _)| !account.is_zero());
        let accounts: BTreeMap<_, _> = accounts.map(|(account, amount)| (known(account), amount)).collect();
        Holdings { accounts, escrow, supply: chain.token_supply().unwrap_or_default() }
    }

    fn payment_events(&self, payment_id: &PaymentId) -> PaymentEvents {
        self.lock().payment_events(payment_id)
    }

    fn changes(&self, is_new: &mut dyn FnMut(Hash32) -> bool) -> Vec<Happened> {
        let chain = self.lock();
        let solidified = chain.solidified().number;
        let mut happened = Vec::new();
        let mut last: Option<(u64, bool)> = None;
        for mined in chain.mined().iter().filter(|mined| mined.number >= solidified) {
            let is_told = match last {
                Some((number, is_told)) if number == mined.number => is_told,
                _ => is_new(Hash32(mined.block.0)),
            };
            last = Some((mined.number, is_told));
            let events = chain.events_of(mined).filter(|_| is_told);
            happened.extend(events.filter_map(|(payment, event)| {
                Some(Happened {
                    payment: Hash32(payment.0),
                    change: self.change(mined, &event)?,
                    transaction: mined.id.to_string(),
                    time: mined.time,
                })
            }));
        }
        happened
    }

    fn deliveries(&self, payment_id: &PaymentId) -> Vec<(u64, Delivered)> {
        let chain = self.lock();
        let events = chain.events_about(payment_id).filter_map(|(mined, event)| match event {
            Event::Fulfilled(event) => Some((mined.number, self.delivery_of(&event))),
            _ => None,
        });
        events.collect()
    }

    fn was_reserved(&self, payment_id: &PaymentId, quote_hash: Hash32) -> bool {
        self.lock().was_reserved(payment_id, quote_hash)
    }

    fn holds(&self, inclusion: &Inclusion) -> Result<(), String> {
        let chain = self.lock();
        let solidified = chain.solidified().number;
        let id = inclusion.transaction_hash.parse::<B256>().map_err(|error| error.to_string())?;
        let found = chain.transaction(id);
        let is = |mined: &&Mined| {
            mined.number == inclusion.block_number
                && mined.block.to_string() == inclusion.block_hash
                && mined.succeeded()
                && mined.number <= solidified
        };
        match found.filter(is) {
            Some(_) => Ok(()),
            None => {
                let found = found.map(|mined| (mined.number, mined.block, mined.result));
                Err(format!("with block {solidified} solidified: {found:?}"))
            }
        }
    }

    fn waiting(&self) -> Vec<Waits> {
        let waits = self.lock().pending().into_iter().map(|one| {
            let contract = match &one.call {
                Call::Trigger { contract, .. } => Some(contract.evm()),
                Call::Transfer { .. } | Call::Create { .. } => None,
            };
            Waits {
                hash: B256::from(one.id.0).to_string(),
                sender: known(one.owner.evm()),
                is_to_escrow: contract == Some(self.contracts.escrow),
            }
        });
        waits.collect()
    }

    fn knows(&self, transaction: &str) -> bool {
        let chain = self.lock();
        transaction.parse::<B256>().is_ok_and(|id| chain.transaction(id).is_some() || chain.waits(id))
    }

    fn is_over(&self, prepared: &TransactionPrepared) -> Result<(), String> {
        let chain = self.lock();
        let solidified = chain.solidified();
        let id = prepared.transaction_hash.parse::<B256>().map_err(|error| error.to_string())?;
        let found = chain.transaction(id).filter(|mined| mined.number <= solidified.number);
        let expiration = prepared.validity.expiration_ms().ok_or("it has no expiration")?;
        let is_over = match found {
            Some(mined) => !mined.succeeded(),
            None => solidified.time_ms.unsigned_abs() >= expiration,
        };
        match is_over {
            true => Ok(()),
            false => Err(format!("{id} until {expiration} ms, with {solidified:?} solidified: {found:?}")),
        }
    }

    fn admitted_until(&self, prepared: &TransactionPrepared) -> Option<u64> {
        orders::admitted_until(prepared)
    }

    fn deposits_the_price(&self) -> bool {
        false
    }

    fn draws(&self, prepared: &TransactionPrepared) -> Option<U256> {
        orders::draws(prepared)
    }

    fn reassigns_to(&self, prepared: &TransactionPrepared) -> Option<Hash32> {
        orders::reassigns_to(prepared)
    }
}
