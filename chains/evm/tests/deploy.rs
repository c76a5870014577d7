//! Deployment on a real chain: from nothing, once, whatever happens in between.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use alloy::{
    primitives::{Address, U64, U256},
    signers::local::PrivateKeySigner,
    sol_types::SolCall,
};
use anyhow::{Context, Result};
use serde_json::{Value, json};
use tokio::sync::Notify;

use chains::deployment::{Contracts, DeployError, Deployment, Finding, Guardian, Notes};
use chains_evm::{
    deploy::{EvmDeployment, Settings},
    dev::DevChain,
};
use devkit::anvil::{Anvil, Mining};
use events::Account;

use super::support::{eventually, liar::Liar};

const PERMIT2: &str = "0x000000000022D473030F116dDEE9F6B43aC78BA3";
const FACTORY: &str = "0x4e59b44847b379578588920cA78FbF26c0B4956C";
const RESERVER: &str = "0x00000000000000000000000000000000000000a1";
const GUARDIAN: &str = "0x00000000000000000000000000000000000000a2";
const OTHER: &str = "0x00000000000000000000000000000000000000a3";
const TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Default)]
struct MemoryNotes(Mutex<BTreeMap<String, Value>>);

impl Notes for MemoryNotes {
    fn get(&self, name: &str) -> Option<Value> {
        self.0.lock().unwrap().get(name).cloned()
    }

    fn put(&self, name: &str, value: Value) -> Result<(), DeployError> {
        self.0.lock().unwrap().insert(name.to_owned(), value);
        Ok(())
    }
}

/// A chain with Permit2 on it and nothing else.
struct Bare {
    anvil: Anvil,
    dev: DevChain,
    payer: PrivateKeySigner,
}

fn silent(_: &str) {}

fn account(text: &str) -> Account {
    text.parse().unwrap()
}

fn settings(anvil: &Anvil) -> Settings {
    Settings {
        chain_id: format!("eip155:{}", anvil.chain_id()).parse().unwrap(),
        reserver: account(RESERVER),
        guardian: Guardian::Account(account(GUARDIAN)),
        permit2: account(PERMIT2),
    }
}

impl Bare {
    async fn start(evm_id: u64) -> Result<Self> {
        let anvil = Anvil::start(evm_id, Mining::Instant).await?;
        let payer = PrivateKeySigner::random();
        let dev = DevChain::connect(&anvil.url(), payer.clone()).await?;
        let artefact = std::fs::read(devkit::tools::root().join(".tools/permit2/Permit2.json")).context("Permit2")?;
        dev.install_permit2(&artefact).await?;
        Ok(Self { anvil, dev, payer })
    }

    /// Without the deployer, which anvil brings along.
    async fn without_factory(evm_id: u64) -> Result<Self> {
        let bare = Self::start(evm_id).await?;
        let _: Value = bare.dev.rpc("anvil_setCode", (FACTORY, "0x")).await?;
        Ok(bare)
    }

    fn deployment(&self, url: &str) -> EvmDeployment {
        EvmDeployment::new(url, settings(&self.anvil), Some(self.payer.clone()), TIMEOUT).unwrap()
    }

    /// How many transactions the payer has sent.
    async fn sent(&self) -> Result<u64> {
        let count: U64 = self.dev.rpc("eth_getTransactionCount", (self.payer.address(), "latest")).await?;
        Ok(count.to())
    }

    /// How many transactions of the payer the node has taken, and has in no block.
    async fn waiting(&self) -> Result<u64> {
        let count: U64 = self.dev.rpc("eth_getTransactionCount", (self.payer.address(), "pending")).await?;
        Ok(count.to::<u64>() - self.sent().await?)
    }
}

fn faults(findings: Vec<Finding>) -> Vec<String> {
    findings.into_iter().filter_map(|finding| Some(format!("{}: {}", finding.subject, finding.fault?))).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn from_nothing_to_contracts_that_are_at_the_same_place_everywhere() -> Result<()> {
    let bare = Bare::without_factory(31_501).await?;
    let (deployment, notes) = (bare.deployment(&bare.anvil.url()), MemoryNotes::default());
    let plan = deployment.plan(&notes).await?;
    assert_eq!(plan.steps.iter().map(|step| step.is_done).collect::<Vec<_>>(), [false; 7]);
    let before = bare.dev.balance(&bare.payer.address().to_string()).await?;
    let contracts = deployment.run(&notes, &silent).await?;
    assert_eq!(plan.contracts.as_ref(), Some(&contracts));
    let spent = before - bare.dev.balance(&bare.payer.address().to_string()).await?;
    assert!(spent > U256::ZERO && spent <= U256::from(plan.cost()), "{spent} of {}", plan.cost());
    assert_eq!(faults(deployment.verify(&contracts).await?), Vec::<String>::new());
    // Coins for the deployer's sender, and the six contracts.
    assert_eq!(bare.sent().await?, 7);

    let plan = deployment.plan(&notes).await?;
    assert!(plan.is_done() && plan.cost() == 0, "{plan:?}");
    assert_eq!(deployment.run(&notes, &silent).await?, contracts);
    assert_eq!(bare.sent().await?, 7, "nothing is paid for twice");

    let elsewhere = Bare::start(31_502).await?;
    let there = elsewhere.deployment(&elsewhere.anvil.url()).plan(&notes).await?;
    assert_eq!(there.contracts, Some(contracts));
    assert!(there.steps[0].is_done, "the deployer is there");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_at_any_call_it_goes_on_and_pays_once() -> Result<()> {
    let bare = Bare::start(31_503).await?;
    let liar = Liar::before(&bare.anvil.url()).await?;
    for calls in 1.. {
        let snapshot: String = bare.dev.rpc("evm_snapshot", ()).await?;
        let (before, notes) = (bare.sent().await?, MemoryNotes::default());
        let (killed, count) = (Arc::new(Notify::new()), Arc::new(AtomicUsize::new(0)));
        let (kill, counted) = (Arc::clone(&killed), Arc::clone(&count));
        // The node has done what it was asked, and nobody hears of it.
        liar.tell(move |_, truth| {
            if counted.fetch_add(1, Ordering::SeqCst) + 1 == calls {
                kill.notify_one();
            }
            if counted.load(Ordering::SeqCst) >= calls { json!("no answer") } else { truth }
        });
        let deployment = bare.deployment(&liar.url);
        let ended = tokio::select! {
            contracts = deployment.run(&notes, &silent) => contracts.is_ok(),
            () = killed.notified() => false,
        };
        liar.be_honest();
        let contracts = deployment.run(&notes, &silent).await.with_context(|| format!("after call {calls}"))?;
        assert_eq!(faults(deployment.verify(&contracts).await?), Vec::<String>::new(), "after call {calls}");
        assert_eq!(bare.sent().await? - before, 6, "after call {calls}");
        let _: bool = bare.dev.rpc("evm_revert", (snapshot,)).await?;
        if ended {
            assert!(calls > 20, "a deployment takes more than {calls} calls");
            return Ok(());
        }
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_waits_is_offered_at_a_higher_price() -> Result<()> {
    let bare = Bare::start(31_504).await?;
    let _: Value = bare.dev.rpc("evm_setAutomine", (false,)).await?;
    let (deployment, notes) =
        (bare.deployment(&bare.anvil.url()).with_patience(Duration::ZERO), MemoryNotes::default());
    let versions = || notes.get("GatewayEscrow").map_or(0, |note| note["versions"].as_array().unwrap().len());
    let run = async { Ok(deployment.run(&notes, &silent).await?) };
    let others = async {
        eventually("a transaction waits", async || Ok(bare.waiting().await? > 0)).await?;
        // The next block asks for more than was offered.
        let fee = U256::from(8_000_000_000_u64);
        let _: Value = bare.dev.rpc("anvil_setNextBlockBaseFeePerGas", (fee,)).await?;
        let _: Value = bare.dev.rpc("evm_mine", ()).await?;
        assert_eq!(bare.sent().await?, 0);
        eventually("it is offered at a higher price", async || Ok(versions() > 1)).await?;
        let _: Value = bare.dev.rpc("evm_setAutomine", (true,)).await?;
        let _: Value = bare.dev.rpc("evm_mine", ()).await?;
        anyhow::Ok(())
    };
    let (contracts, ()) = tokio::try_join!(run, others)?;
    assert_eq!(faults(deployment.verify(&contracts).await?), Vec::<String>::new());
    assert_eq!(bare.sent().await?, 6);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_done_is_told_before_anything_is_sent() -> Result<()> {
    let bare = Bare::start(31_505).await?;
    let (url, notes) = (bare.anvil.url(), MemoryNotes::default());
    let payer = Some(bare.payer.clone());
    let other = Settings { chain_id: "eip155:1".parse()?, ..settings(&bare.anvil) };
    let error = EvmDeployment::new(&url, other, payer.clone(), TIMEOUT)?.run(&notes, &silent).await.unwrap_err();
    let said = "the node is of chain eip155:31505, and not of eip155:1";
    assert!(matches!(&error, DeployError::Unfit(text) if text == said), "{error}");

    let without = Settings { permit2: account(OTHER), ..settings(&bare.anvil) };
    let error = EvmDeployment::new(&url, without, payer, TIMEOUT)?.run(&notes, &silent).await.unwrap_err();
    assert!(matches!(&error, DeployError::Unfit(text) if text.contains("there is no Permit2")), "{error}");

    bare.dev.fund(&bare.payer.address().to_string(), U256::from(1_000)).await?;
    let error = bare.deployment(&url).run(&notes, &silent).await.unwrap_err();
    assert!(matches!(&error, DeployError::Funds { balance: 1_000, needed, .. } if *needed > 1_000), "{error}");
    assert!(notes.0.lock().unwrap().is_empty() && bare.sent().await? == 0);

    let nobody = EvmDeployment::new(&url, settings(&bare.anvil), None, TIMEOUT)?;
    assert!(matches!(nobody.plan(&notes).await, Err(DeployError::Unfit(_))));
    let away = EvmDeployment::new("http://127.0.0.1:9", settings(&bare.anvil), Some(bare.payer.clone()), TIMEOUT)?;
    assert!(matches!(away.plan(&notes).await, Err(DeployError::Unanswered(_))));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_there_is_compared_with_what_should_be() -> Result<()> {
    let bare = Bare::start(31_506).await?;
    let url = bare.anvil.url();
    let contracts = bare.deployment(&url).run(&MemoryNotes::default(), &silent).await?;
    let verify = async |settings: Settings, contracts: &Contracts| -> Result<Vec<String>> {
        Ok(faults(EvmDeployment::new(&url, settings, None, TIMEOUT)?.verify(contracts).await?))
    };
    let good = settings(&bare.anvil);
    let any = Settings { guardian: Guardian::Any, ..good.clone() };
    assert_eq!(verify(any, &contracts).await?, Vec::<String>::new());

    let reserver = Settings { reserver: account(OTHER), ..good.clone() };
    let found = verify(reserver, &contracts).await?;
    let said = format!("reserver of GatewayEscrow: is {RESERVER}, and should be {OTHER}");
    assert!(
        found.len() == 2 && found[0].starts_with("constructor of GatewayEscrow: ") && found[1] == said,
        "{found:?}"
    );
    let guardian = Settings { guardian: Guardian::Nobody, ..good.clone() };
    let found = verify(guardian, &contracts).await?;
    let said = format!("guardian of GatewayEscrow: is {GUARDIAN}, and should be nobody");
    assert!(
        found.len() == 2 && found[0] == said && found[1].starts_with("constructor of GatewayEscrow: "),
        "{found:?}"
    );

    let swapped = Contracts { escrow: contracts.proxy.clone(), proxy: contracts.escrow.clone(), ..contracts.clone() };
    assert_eq!(verify(good.clone(), &swapped).await?.len(), 2);
    let nothing = Contracts { escrow: account(OTHER), ..contracts.clone() };
    assert_eq!(verify(good.clone(), &nothing).await?, ["code of GatewayEscrow: has no code"]);

    // The same code with the same immutables by another constructor, which could have left anything in the storage.
    let code: String = bare.dev.rpc("eth_getCode", (contracts.escrow.as_str(), "latest")).await?;
    let _: Value = bare.dev.rpc("anvil_setCode", (OTHER, code)).await?;
    let found = verify(good.clone(), &Contracts { escrow: account(OTHER), ..contracts.clone() }).await?;
    assert!(found.iter().any(|fault| fault.starts_with("constants in the code of GatewayEscrow: ")), "{found:?}");
    assert!(found.iter().any(|fault| fault.starts_with("constructor of GatewayEscrow: ")), "{found:?}");
    let _: Value = bare.dev.rpc("anvil_setCode", (OTHER, "0x")).await?;

    // Retired by its guardian: it takes no deposits any more.
    let guardian: Address = GUARDIAN.parse()?;
    let _: Value = bare.dev.rpc("anvil_impersonateAccount", (guardian,)).await?;
    bare.dev.fund(GUARDIAN, U256::from(10_u64.pow(18))).await?;
    let data = alloy::primitives::Bytes::from(escrow_abi::contracts::GatewayEscrow::retireCall {}.abi_encode());
    let retire = json!({"from": guardian, "to": contracts.escrow.as_str(), "data": data});
    let _: Value = bare.dev.rpc("eth_sendTransaction", (retire,)).await?;
    let found = verify(good, &contracts).await?;
    assert_eq!(found, ["deposits into GatewayEscrow: are ended for ever: the guardian retired it"]);
    Ok(())
}
