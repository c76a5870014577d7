//! The program's deployment on a runtime where it is not yet, and what stops it.

mod proxy;

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use anyhow::{Context, Result, bail, ensure};
use ed25519_dalek::SigningKey;
use serde_json::Value;

use chains::deployment::{Contracts, DeployError, Deployment, Finding, Notes, Plan};
use chains_solana::{
    deploy::{Patience, Settings, SolanaDeployment, UpgradeAuthority},
    keys::account,
    program,
};
use devkit::Surfnet;
use gateway_program::ids;

use crate::support::{World, key, wallet};
use proxy::{Failure, Proxy};

/// Slots come fast, because a deployment waits for what is finalized.
const SLOT_MS: u64 = 25;
const SOL: u64 = 1_000_000_000;
/// More than the fees of a deployment come to, far less than its rent.
const FEES_MAX: u64 = 5_000_000;
/// Time enough for an answer on a busy machine.
const RPC_TIMEOUT: Duration = Duration::from_secs(20);

/// Notes in memory, which can be full.
#[derive(Default)]
struct Memory {
    notes: Mutex<BTreeMap<String, Value>>,
    is_full: bool,
}

impl Memory {
    fn is_empty(&self) -> bool {
        self.notes.lock().unwrap().is_empty()
    }
}

impl Notes for Memory {
    fn get(&self, name: &str) -> Option<Value> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }

    fn put(&self, name: &str, value: Value) -> Result<(), DeployError> {
        if self.is_full {
            return Err(DeployError::Notes("no space left".to_owned()));
        }
        self.notes.lock().unwrap().insert(name.to_owned(), value);
        Ok(())
    }
}

/// A runtime without the program, a payer, and a node before it that can fail.
struct Site {
    surfnet: Surfnet,
    proxy: Proxy,
    payer: SigningKey,
    notes: Memory,
}

impl Site {
    async fn start() -> Result<Self> {
        let surfnet = Surfnet::start(SLOT_MS).await?;
        let payer = key(1);
        surfnet.airdrop(&account(&payer), 10 * SOL).await?;
        let proxy = Proxy::before(&surfnet.url()).await?;
        Ok(Self { surfnet, proxy, payer, notes: Memory::default() })
    }

    fn settings(&self, upgrade_authority: UpgradeAuthority) -> Settings {
        Settings { cluster_id: self.surfnet.genesis_hash().to_owned(), reserver: wallet(&key(2)), upgrade_authority }
    }

    fn deployment(&self, settings: &Settings) -> SolanaDeployment {
        self.deployment_of(settings, Some(self.payer.clone()))
    }

    fn deployment_of(&self, settings: &Settings, payer: Option<SigningKey>) -> SolanaDeployment {
        deployment(&self.proxy.url, settings, payer)
    }

    async fn lamports(&self) -> Result<u64> {
        let how = serde_json::json!([account(&self.payer), {"commitment": "processed"}]);
        let balance = self.surfnet.rpc("getBalance", how).await?;
        balance.get("value").and_then(Value::as_u64).context("no balance")
    }

    /// What the accounts of a program cost, without the fees.
    async fn rents(&self) -> Result<u64> {
        let mut rents = 0;
        // The program, ProgramData, the configuration.
        for bytes in [36, 45 + elf()?.len(), 68] {
            let rent = self.surfnet.rpc("getMinimumBalanceForRentExemption", serde_json::json!([bytes])).await?;
            rents += rent.as_u64().context("no rent")?;
        }
        Ok(rents)
    }
}

fn deployment(url: &str, settings: &Settings, payer: Option<SigningKey>) -> SolanaDeployment {
    let patience = Patience {
        poll: Duration::from_millis(10),
        resend_after: Duration::from_millis(300),
        // A node that is dead here stays so.
        answered_within: Duration::ZERO,
        ..Patience::default()
    };
    SolanaDeployment::new(url, settings, payer, RPC_TIMEOUT).unwrap().with_patience(patience)
}

fn elf() -> Result<Vec<u8>> {
    let elf = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../contracts/artifacts/solana/gateway_escrow.so");
    std::fs::read(&elf).with_context(|| format!("read {}", elf.display()))
}

fn quiet(_: &str) {}

fn faults(findings: &[Finding]) -> Vec<String> {
    let fault = |finding: &Finding| finding.fault.as_ref().map(|fault| format!("{} {fault}", finding.subject));
    findings.iter().filter_map(fault).collect()
}

fn done(plan: &Plan) -> usize {
    plan.steps.iter().filter(|step| step.is_done).count()
}

/// What stopped it, in words.
fn unfit<T: std::fmt::Debug>(result: Result<T, DeployError>) -> Result<String> {
    match result {
        Err(DeployError::Unfit(what)) => Ok(what),
        other => bail!("{other:?}"),
    }
}

#[tokio::test]
async fn a_program_is_deployed_and_deployed_once() -> Result<()> {
    let site = Site::start().await?;
    let settings = site.settings(UpgradeAuthority::Payer);
    let deployment = site.deployment(&settings);
    let plan = deployment.plan(&site.notes).await?;
    assert_eq!((done(&plan), plan.contracts.as_ref(), &plan.payer), (0, None, &wallet(&site.payer)));
    assert_eq!(plan.balance, u128::from(site.lamports().await?));
    assert!(site.notes.is_empty(), "a plan notes nothing");

    let before = site.lamports().await?;
    let said = Mutex::new(Vec::new());
    let contracts = deployment.run(&site.notes, &|line| said.lock().unwrap().push(line.to_owned())).await?;
    println!("{:#?}", said.lock().unwrap());
    assert_eq!(contracts.escrow, contracts.proxy);
    let spent = before - site.lamports().await?;
    let rents = site.rents().await?;
    assert!(u128::from(spent) <= plan.cost(), "{spent} lamports, {} planned", plan.cost());
    assert!((rents..rents + FEES_MAX).contains(&spent), "{spent} lamports, {rents} of them rent");

    // Who verifies needs no key, and no notes.
    let auditor = site.deployment_of(&settings, None);
    let findings = auditor.verify(&contracts).await?;
    assert_eq!(faults(&findings), Vec::<String>::new());
    let authority = findings.last().context("no findings")?;
    assert!(authority.subject.contains(&account(&site.payer)), "{authority:?}");
    unfit(auditor.plan(&site.notes).await)?;

    let (after, sent) = (site.lamports().await?, site.proxy.transactions());
    let plan = deployment.plan(&site.notes).await?;
    assert_eq!((plan.is_done(), plan.cost(), plan.contracts), (true, 0, Some(contracts.clone())), "{:#?}", plan.steps);
    assert_eq!(deployment.run(&site.notes, &quiet).await?, contracts);
    assert_eq!((site.lamports().await?, site.proxy.transactions()), (after, sent));

    // What the program was set up with is for good.
    let other = Settings { reserver: wallet(&key(3)), ..settings };
    let error = unfit(site.deployment(&other).run(&site.notes, &quiet).await)?;
    assert!(error.contains("set up for good with the reserver"), "{error}");
    Ok(())
}

#[tokio::test]
async fn killed_at_any_transaction_it_goes_on_and_pays_once() -> Result<()> {
    let site = Site::start().await?;
    let multisig = wallet(&key(9));
    let settings = site.settings(UpgradeAuthority::Account(multisig.clone()));
    let before = site.lamports().await?;
    let steps = [
        ("making the program's buffer", 1),
        ("writing the program's chunks", 1),
        ("writing the program's chunks", 20),
        ("making the program ", 1),
        ("setting the program up", 1),
        ("handing the upgrade authority over", 1),
    ];
    let mut progress = Vec::new();
    for (step, transactions) in steps {
        for is_last_passed_on in [false, true] {
            let deployment = site.deployment(&settings);
            let die = |line: &str| {
                if line.starts_with(step) {
                    site.proxy.fail(Failure::Death { transactions, is_last_passed_on });
                }
            };
            let ended = deployment.run(&site.notes, &die).await;
            assert!(matches!(&ended, Err(DeployError::Unanswered(_))), "{step}, {is_last_passed_on}: {ended:?}");
            site.proxy.mend();
            let plan = deployment.plan(&site.notes).await?;
            progress.push((done(&plan), plan.cost(), plan.steps[0].title.clone()));
        }
    }
    println!("{progress:#?}");
    assert!(progress.is_sorted_by(|earlier, later| earlier.0 <= later.0 && earlier.1 >= later.1), "{progress:#?}");
    let contracts = site.deployment(&settings).run(&site.notes, &quiet).await?;
    let (spent, rents) = (before - site.lamports().await?, site.rents().await?);
    assert!((rents..rents + FEES_MAX).contains(&spent), "{spent} lamports, {rents} of them rent");
    let findings = site.deployment_of(&settings, None).verify(&contracts).await?;
    assert_eq!(faults(&findings), Vec::<String>::new());

    // Another was to have it.
    let settings = site.settings(UpgradeAuthority::Account(wallet(&key(8))));
    let found = faults(&site.deployment(&settings).verify(&contracts).await?);
    assert!(matches!(&found[..], [fault] if fault.contains(multisig.as_str())), "{found:?}");
    let error = unfit(site.deployment(&settings).run(&site.notes, &quiet).await)?;
    assert!(error.contains(multisig.as_str()), "{error}");
    Ok(())
}

#[tokio::test]
async fn what_never_lands_is_made_again() -> Result<()> {
    let site = Site::start().await?;
    let settings = site.settings(UpgradeAuthority::Nobody);
    let deployment = site.deployment(&settings);
    site.proxy.fail(Failure::Loss { last_valid_height: None });
    let contracts = deployment.run(&site.notes, &quiet).await?;
    assert_eq!(site.proxy.failure(), None, "nothing was lost");
    let findings = deployment.verify(&contracts).await?;
    assert_eq!(faults(&findings), Vec::<String>::new());
    let authority = findings.last().context("no findings")?;
    assert!(authority.subject.contains("nobody can replace"), "{authority:?}");
    assert!(deployment.plan(&site.notes).await?.is_done());
    Ok(())
}

#[tokio::test]
async fn too_many_requests_are_waited_out() -> Result<()> {
    let site = Site::start().await?;
    let deployment = site.deployment(&site.settings(UpgradeAuthority::Payer));
    let limit = |method, requests| site.proxy.fail(Failure::Limit { method, requests });
    limit(None, 4);
    let tell = |line: &str| match line {
        line if line.starts_with("writing") => limit(Some("sendTransaction"), 24),
        line if line.starts_with("setting") => limit(None, 6),
        _ => {}
    };
    let contracts = deployment.run(&site.notes, &tell).await?;
    assert_eq!(site.proxy.failure(), Some(Failure::Limit { method: None, requests: 0 }));
    assert_eq!(faults(&deployment.verify(&contracts).await?), Vec::<String>::new());
    Ok(())
}

#[tokio::test]
async fn what_cannot_be_completed_is_not_begun() -> Result<()> {
    let site = Site::start().await?;
    let settings = site.settings(UpgradeAuthority::Payer);

    let other = account(&key(40));
    let elsewhere = site.deployment(&Settings { cluster_id: other.clone(), ..settings.clone() });
    let contracts =
        Contracts { escrow: wallet(&key(41)), proxy: wallet(&key(41)), deposit_address_factory: None, permit2: None };
    for error in [
        unfit(elsewhere.plan(&site.notes).await)?,
        unfit(elsewhere.run(&site.notes, &quiet).await)?,
        unfit(elsewhere.verify(&contracts).await)?,
    ] {
        assert!(error.contains(&other) && error.contains(site.surfnet.genesis_hash()), "{error}");
    }

    let poor = key(42);
    site.surfnet.airdrop(&account(&poor), SOL / 10).await?;
    let ended = site.deployment_of(&settings, Some(poor.clone())).run(&site.notes, &quiet).await;
    let Err(DeployError::Funds { payer, balance, needed }) = &ended else { bail!("{ended:?}") };
    assert_eq!((payer, *balance), (&wallet(&poor), u128::from(SOL / 10)));
    assert!(*needed > u128::from(site.rents().await?), "{needed}");
    assert!(site.notes.is_empty());

    let full = Memory { is_full: true, ..Memory::default() };
    let ended = site.deployment(&settings).run(&full, &quiet).await;
    assert!(matches!(ended, Err(DeployError::Notes(_))), "{ended:?}");
    assert_eq!(site.proxy.transactions(), 0);
    Ok(())
}

#[tokio::test]
async fn a_buffer_that_another_payer_began_is_refused() -> Result<()> {
    let site = Site::start().await?;
    let settings = site.settings(UpgradeAuthority::Payer);
    let die = |line: &str| {
        if line.starts_with("writing") {
            site.proxy.fail(Failure::Death { transactions: 1, is_last_passed_on: false });
        }
    };
    site.deployment(&settings).run(&site.notes, &die).await.unwrap_err();
    site.proxy.mend();
    let other = key(42);
    site.surfnet.airdrop(&account(&other), SOL).await?;
    let sent = site.proxy.transactions();
    let second = site.deployment_of(&settings, Some(other.clone()));
    for error in [unfit(second.plan(&site.notes).await)?, unfit(second.run(&site.notes, &quiet).await)?] {
        let names = [account(&site.payer), account(&other)];
        assert!(names.iter().all(|name| error.contains(name)), "{error}");
    }
    assert_eq!(site.proxy.transactions(), sent);
    Ok(())
}

#[tokio::test]
async fn verification_tells_what_is_other_than_it_should_be() -> Result<()> {
    let world = World::start().await?;
    let settings = Settings {
        cluster_id: world.surfnet.genesis_hash().to_owned(),
        reserver: wallet(&world.reserver),
        upgrade_authority: UpgradeAuthority::Payer,
    };
    let url = world.surfnet.url();
    let verify = async |contracts: &Contracts, settings: &Settings| {
        anyhow::Ok(faults(&deployment(&url, settings, None).verify(contracts).await?))
    };
    let both = |address: &str| Contracts {
        escrow: address.parse().unwrap(),
        proxy: address.parse().unwrap(),
        deposit_address_factory: None,
        permit2: None,
    };
    let there = both(&world.program);
    let expect = |found: Vec<String>, words: &[&str]| {
        ensure!(found.len() == words.len(), "{found:#?}, not {words:?}");
        ensure!(found.iter().zip(words).all(|(fault, words)| fault.contains(words)), "{found:#?}, not {words:?}");
        Ok(())
    };
    expect(verify(&there, &settings).await?, &[])?;
    let reserver = Settings { reserver: wallet(&key(30)), ..settings.clone() };
    expect(verify(&there, &reserver).await?, &["reserver"])?;
    let nobody = Settings { upgrade_authority: UpgradeAuthority::Nobody, ..settings.clone() };
    expect(verify(&there, &nobody).await?, &["should be given up"])?;
    let halves = Contracts { proxy: wallet(&key(30)), ..there.clone() };
    expect(verify(&halves, &settings).await?, &["fulfillment proxy"])?;

    // The code of another version, not set up.
    let mut elf = elf()?;
    let words = elf.windows(9).position(|bytes| bytes == b"gw-escrow").context("no words in the program")?;
    elf[words] = b'G';
    let other = account(&key(31));
    world.surfnet.write_program(&other, &elf, &account(&key(32))).await?;
    expect(verify(&both(&other), &settings).await?, &["another program", "not set up"])?;

    for (address, words) in [
        (account(&key(33)), "is not there"),
        (account(&world.payer), "is an account of"),
        (world.token.mint.clone(), "is an account of"),
    ] {
        expect(verify(&both(&address), &settings).await?, &[words])?;
    }
    let found = verify(&both(&program::text(&ids::TOKEN_PROGRAM)), &settings).await?;
    assert!(!found.is_empty(), "the token program is the gateway's");
    Ok(())
}
