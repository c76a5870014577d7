//! Deployment of the contracts on a chain that has none, and what is told of those that are there.

mod killed;
mod permit2;
mod refused;
mod verified;

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use alloy::primitives::B256;
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use chains::deployment::{Contracts, DeployError, Deployment, Finding, Guardian, Notes};
use chains_tron::{
    connection::Connection,
    deploy::{Pace, Permit2, Settings, TronDeployment},
    dev::DevChain,
    node::{Info, State},
};
use events::ChainId;
use trondev::{Blocks, Options, TronDev};

use crate::support::{LAG, TRX, account, holder, key};

/// The payer's TRX at the start, in sun.
const FUNDS: u64 = 2_000 * TRX;
/// Blocks come so fast that nothing is waited for long.
const BLOCK: Duration = Duration::from_millis(10);
const PAYER: u8 = 40;
const RESERVER: u8 = 41;
const GUARDIAN: u8 = 42;

/// Notes that are forgotten with the test.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    notes: Mutex<BTreeMap<String, Value>>,
    /// How many more are taken, where there is a limit.
    left: Mutex<Option<usize>>,
}

impl Memory {
    fn all(&self) -> BTreeMap<String, Value> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The transactions that are noted.
    fn transactions(&self) -> Result<Vec<B256>> {
        let id = |note: &Value| Ok(note["id"].as_str().context("no id")?.parse::<B256>()?);
        self.all().values().map(id).collect()
    }
}

impl Notes for Memory {
    fn get(&self, name: &str) -> Option<Value> {
        self.all().get(name).cloned()
    }

    fn put(&self, name: &str, value: Value) -> Result<(), DeployError> {
        if let Some(left) = self.left.lock().unwrap().as_mut() {
            *left = left.checked_sub(1).ok_or_else(|| DeployError::Notes("the disk is full".to_owned()))?;
        }
        self.notes.lock().unwrap().insert(name.to_owned(), value);
        Ok(())
    }
}

/// A chain without any contract, and a payer.
struct Bare {
    tron: TronDev,
    dev: DevChain,
    chain_id: ChainId,
    /// By what the escrow is to draw.
    permit2: Permit2,
}

impl Bare {
    /// With blocks that come by themselves.
    async fn start() -> Result<Self> {
        Self::with(Blocks::Every(BLOCK), FUNDS).await
    }

    async fn with(blocks: Blocks, funds: u64) -> Result<Self> {
        let tron = TronDev::start(Options { blocks, solidified_lag: LAG, ..Options::default() }).await?;
        let dev = DevChain::connect(&tron.url(), key(1)).await?;
        dev.fund(&account(&key(PAYER)), funds).await?;
        Ok(Self { chain_id: dev.chain_id().await?, tron, dev, permit2: Permit2::None })
    }

    fn settings(&self) -> Settings {
        Settings {
            chain_id: self.chain_id.clone(),
            reserver: holder(&key(RESERVER)),
            guardian: Guardian::Account(holder(&key(GUARDIAN))),
            permit2: self.permit2.clone(),
        }
    }

    fn deployment(&self) -> TronDeployment {
        self.deployment_at(&self.tron.url())
    }

    fn deployment_at(&self, url: &str) -> TronDeployment {
        deployment(url, &self.settings())
    }

    async fn balance(&self) -> Result<u64> {
        Ok(self.dev.balance(&account(&key(PAYER))).await?)
    }

    /// What became of all transactions of the chain.
    async fn infos(&self) -> Result<Vec<Info>> {
        let connection = Connection::new(&self.chain_id, &self.tron.url(), None, Duration::from_secs(20))?;
        let mut infos = Vec::new();
        for number in 1..=connection.head().await?.number {
            infos.extend(connection.infos_of(number, State::Newest).await?.read);
        }
        Ok(infos)
    }

    /// The payer paid for each contract once and for nothing else, and the contracts are what they should be.
    async fn is_paid_once(&self, notes: &Memory, contracts: &Contracts) -> Result<()> {
        let infos = self.infos().await?;
        let mut ids: Vec<_> = infos.iter().map(|info| info.id).collect();
        let mut noted = notes.transactions()?;
        ids.sort();
        noted.sort();
        ensure!(ids == noted, "{ids:?} on the chain, {noted:?} in the notes");
        let parts = if self.permit2 == Permit2::Own { 4 } else { 3 };
        ensure!(ids.len() == parts, "{} transactions", ids.len());
        let paid: u64 = infos.iter().map(|info| info.fee_sun).sum();
        ensure!(self.balance().await? == FUNDS - paid, "not {paid} were paid");
        faultless(&self.deployment().verify(contracts).await?)
    }
}

fn deployment(url: &str, settings: &Settings) -> TronDeployment {
    let made = TronDeployment::new(url, None, settings, Some(key(PAYER)), Duration::from_secs(20)).unwrap();
    made.with_pace(PACE)
}

pub(crate) const PACE: Pace = Pace {
    look_every: Duration::from_millis(2),
    resend_after: Duration::from_millis(20),
    wait_max: Duration::from_secs(60),
};

fn faultless(findings: &[Finding]) -> Result<()> {
    let bad: Vec<_> = findings.iter().filter(|finding| finding.fault.is_some()).collect();
    ensure!(bad.is_empty() && !findings.is_empty(), "{bad:?}");
    Ok(())
}

pub(crate) fn silent(_: &str) {}

#[tokio::test]
async fn contracts_are_deployed_once() -> Result<()> {
    let bare = Bare::start().await?;
    let (deployment, notes) = (bare.deployment(), Memory::default());

    let plan = deployment.plan(&notes).await?;
    assert_eq!((&plan.payer, plan.balance), (&holder(&key(PAYER)), u128::from(FUNDS)));
    assert_eq!(plan.contracts, None);
    let titles: Vec<_> = plan.steps.iter().map(|step| (step.title.as_str(), step.is_done)).collect();
    assert_eq!(titles, ["GatewayEscrow", "FulfillmentProxy", "TronDepositAddresses"].map(|title| (title, false)));
    assert!(notes.all().is_empty() && bare.infos().await?.is_empty());

    let told = Mutex::new(Vec::new());
    let contracts = deployment.run(&notes, &|text: &str| told.lock().unwrap().push(text.to_owned())).await?;
    bare.is_paid_once(&notes, &contracts).await?;
    let told = told.into_inner()?;
    for part in [
        "GatewayEscrow: transaction ",
        "GatewayEscrow is at T",
        "FulfillmentProxy is at T",
        "TronDepositAddresses is at T",
        " is sent",
    ] {
        assert!(told.iter().any(|text| text.contains(part)), "{part} in {told:?}");
    }

    // The cost was the most that it could be, and not much more than it was.
    let paid = u128::from(FUNDS - bare.balance().await?);
    assert!((paid..paid + paid / 5).contains(&plan.cost()), "{paid} paid of {}", plan.cost());

    // What is solidified is done, and costs nothing any more; nothing is made again.
    let plan = deployment.plan(&notes).await?;
    assert!(plan.is_done() && plan.cost() == 0, "{plan:?}");
    assert_eq!(plan.contracts.as_ref(), Some(&contracts));
    let expected = format!("GatewayEscrow at {}", contracts.escrow);
    assert_eq!(plan.steps[0].title, expected);
    assert_eq!(deployment.run(&notes, &silent).await?, contracts);
    bare.is_paid_once(&notes, &contracts).await
}

#[tokio::test]
async fn a_deployment_waits_until_its_contracts_are_solidified() -> Result<()> {
    let bare = Bare::with(Blocks::OnDemand, FUNDS).await?;
    let (deployment, notes) = (bare.deployment(), Memory::default());
    let told = Mutex::new(Vec::new());
    let ends = async {
        let contracts = deployment.run(&notes, &|text: &str| told.lock().unwrap().push(text.to_owned())).await;
        (contracts, deployment.plan(&notes).await)
    };
    tokio::pin!(ends);
    // Each transaction waits for its block, and for those on top of it.
    let mut mined = 0;
    let (contracts, plan) = loop {
        tokio::select! {
            biased;
            ended = &mut ends => break ended,
            () = is_waiting(&bare, &deployment, &notes) => {
                bare.dev.mine(1).await?;
                mined += 1;
            }
        }
    };
    assert!(mined >= LAG, "{mined} blocks");
    let told = told.lock().unwrap().clone();
    assert!(told.iter().any(|text| text.contains("is in block") && text.contains("blocks more")), "{told:?}");
    assert!(plan?.is_done());
    bare.is_paid_once(&notes, &contracts?).await
}

/// Returns when nothing happens any more without a block.
async fn is_waiting(bare: &Bare, deployment: &TronDeployment, notes: &Memory) {
    loop {
        let pending = bare.dev.control("../wallet/getpendingsize", json!({})).await;
        let pending = pending.ok().and_then(|answer| answer["pendingSize"].as_u64()).unwrap_or_default();
        let plan = deployment.plan(notes).await;
        // Open and sent, or in a block and paid for.
        if pending > 0 || plan.is_ok_and(|plan| plan.contracts.is_some() && plan.cost() == 0 && !plan.is_done()) {
            return;
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_node_that_tries_nothing_out_is_no_hindrance() -> Result<()> {
    let bare = Bare::start().await?;
    let tried = bare.deployment().plan(&Memory::default()).await?.cost();
    let liar = crate::support::liar::Liar::before(&bare.tron.url()).await?;
    let words = hex::encode("Contract validate error : this node does not support constant");
    for refusal in [
        json!({"result": {"code": "CONTRACT_VALIDATE_ERROR", "message": words}}),
        json!({"Error": "contract_address isn't set."}),
    ] {
        liar.say("wallet/triggerconstantcontract", refusal);
        let cost = bare.deployment_at(&liar.url).plan(&Memory::default()).await?.cost();
        assert!((tried..tried + tried / 4).contains(&cost), "{cost} sun by the bound, {tried} by trial");
    }
    // What keeping the code takes is not always tried out.
    liar.tell(|path, _, mut answer| {
        if path == "wallet/triggerconstantcontract" {
            answer["energy_used"] = json!(150_000);
        }
        answer
    });
    liar.answer(|_, _| None);
    let cost = bare.deployment_at(&liar.url).plan(&Memory::default()).await?.cost();
    assert!((tried..tried + tried / 4).contains(&cost), "{cost} sun with the code added, {tried} by trial");
    liar.say("wallet/triggerconstantcontract", json!({"Error": "not here"}));
    let notes = Memory::default();
    let contracts = bare.deployment_at(&liar.url).run(&notes, &silent).await?;
    bare.is_paid_once(&notes, &contracts).await
}

#[tokio::test]
async fn other_settings_are_other_contracts() -> Result<()> {
    let bare = Bare::start().await?;
    let notes = Memory::default();
    let first = bare.deployment().run(&notes, &silent).await?;
    let other = deployment(&bare.tron.url(), &Settings { guardian: Guardian::Nobody, ..bare.settings() });
    // The others have no settings.
    let done: Vec<_> = other.plan(&notes).await?.steps.iter().map(|step| step.is_done).collect();
    assert_eq!(done, [false, true, true]);
    let second = other.run(&notes, &silent).await?;
    assert_eq!((&second.proxy, &second.deposit_address_factory), (&first.proxy, &first.deposit_address_factory));
    assert_ne!(second.escrow, first.escrow);
    faultless(&other.verify(&second).await?)?;
    let faults: Vec<_> = other.verify(&first).await?.into_iter().filter_map(|finding| finding.fault).collect();
    assert_eq!(faults.len(), 2, "{faults:?}");
    Ok(())
}
