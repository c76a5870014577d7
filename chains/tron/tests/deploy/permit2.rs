//! Escrows that draw by a Permit2: one that is made before them, or one that is there and was looked through.

use alloy::primitives::{Address, keccak256};
use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use chains::deployment::{Contracts, DeployError, Deployment, Finding, Guardian};
use chains_tron::{
    address::address,
    deploy::{Permit2, Settings, TronDeployment},
};
use escrow_abi::{artefacts::PERMIT2, eip712::permit2_domain};
use events::{Account, Hash32};

use super::{
    Bare, FUNDS, Memory, deployment, faultless,
    killed::{End, Fault, faulty_run, killed_at_send},
    silent,
};
use crate::support::{LAG, holder, key};

/// The step from one request to the next at which a run is killed.
const STRIDE: usize = 9;
/// More requests than a run needs until nothing is left to do but to wait.
const REQUESTS_MAX: usize = 300;

impl Bare {
    /// With an escrow that draws by `permit2`.
    fn drawing_by(self, permit2: Permit2) -> Self {
        Self { permit2, ..self }
    }

    /// Deploys once more, another escrow that draws by `permit2`.
    fn by(&self, permit2: Permit2) -> TronDeployment {
        let settings = Settings { permit2, guardian: Guardian::Nobody, ..self.settings() };
        deployment(&self.tron.url(), &settings)
    }

    /// A Permit2 of this version's code, with what `alter` makes of it, where the key `seed` has its account: no transaction made it.
    async fn planted(&self, seed: u8, alter: impl Fn(String) -> String) -> Result<(Account, Hash32)> {
        let place = holder(&key(seed));
        let code = alter(hex::encode(self.code(address(&place)?)?));
        self.dev.control("code", json!({"address": place.to_string(), "code": code})).await?;
        Ok((place, Hash32(keccak256(hex::decode(&code)?).0)))
    }

    /// The code that Permit2's constructor leaves at `place`.
    fn code(&self, place: Address) -> Result<Vec<u8>> {
        #[derive(serde::Deserialize)]
        struct Places {
            immutables: std::collections::BTreeMap<String, Vec<usize>>,
        }
        let artefact = include_str!("../../../../contracts/artifacts/Permit2.json");
        let Places { immutables } = serde_json::from_str(artefact)?;
        let chain: u64 = self.chain_id.reference().parse()?;
        let mut code = PERMIT2.deployed.to_vec();
        let separator = permit2_domain(chain, place).separator();
        for (name, word) in [
            ("_CACHED_CHAIN_ID", alloy::primitives::B256::from(alloy::primitives::U256::from(chain))),
            ("_CACHED_DOMAIN_SEPARATOR", separator),
        ] {
            for at in immutables.get(name).context("no such immutable")? {
                code[*at..at + 32].copy_from_slice(word.as_slice());
            }
        }
        Ok(code)
    }
}

async fn unfit(deployment: &TronDeployment) -> Result<String> {
    let notes = Memory::default();
    let planned = deployment.plan(&notes).await;
    let run = deployment.run(&notes, &silent).await;
    ensure!(notes.all().is_empty());
    match (planned, run) {
        (Err(DeployError::Unfit(why)), Err(DeployError::Unfit(same))) if why == same => Ok(why),
        other => bail!("{other:?}"),
    }
}

async fn faults(deployment: &TronDeployment, contracts: &Contracts) -> Result<Vec<String>> {
    let findings = deployment.verify(contracts).await?;
    Ok(findings.into_iter().filter(|finding| finding.fault.is_some()).map(|Finding { subject, .. }| subject).collect())
}

#[tokio::test]
async fn its_own_permit2_is_made_first_and_the_escrow_with_it() -> Result<()> {
    let bare = Bare::start().await?.drawing_by(Permit2::Own);
    let (deployment, notes) = (bare.deployment(), Memory::default());
    let plan = deployment.plan(&notes).await?;
    let titles: Vec<_> = plan.steps.iter().map(|step| (step.title.as_str(), step.is_done)).collect();
    let parts = ["Permit2", "GatewayEscrow", "FulfillmentProxy", "TronDepositAddresses"];
    assert_eq!(titles, parts.map(|title| (title, false)));
    assert_eq!(plan.contracts, None);
    let contracts = deployment.run(&notes, &silent).await?;
    bare.is_paid_once(&notes, &contracts).await?;
    let permit2 = contracts.permit2.clone().context("no Permit2")?;
    let subjects: Vec<_> = deployment.verify(&contracts).await?.into_iter().map(|finding| finding.subject).collect();
    for subject in ["code of Permit2", "constructor of Permit2", "domain of Permit2", "permit2 of GatewayEscrow"] {
        assert!(subjects.iter().any(|one| one == subject), "{subject} in {subjects:?}");
    }
    // The cost was the most that it could be, and not much more than it was, though the escrow's code was not known.
    let paid = u128::from(FUNDS - bare.balance().await?);
    assert!((paid..paid + paid / 5).contains(&plan.cost()), "{paid} paid of {}", plan.cost());
    let plan = deployment.plan(&notes).await?;
    assert!(plan.is_done() && plan.cost() == 0, "{plan:?}");
    assert_eq!(plan.contracts.as_ref(), Some(&contracts));
    assert_eq!(plan.steps[0].title, format!("Permit2 at {permit2}"));
    assert_eq!(deployment.run(&notes, &silent).await?, contracts);
    bare.is_paid_once(&notes, &contracts).await?;

    // It is there for another escrow, looked through before anything is paid.
    let at = Permit2::At { account: permit2.clone(), code: None };
    let (second, others) = (bare.by(at), Memory::default());
    let titles: Vec<_> = second.plan(&others).await?.steps.into_iter().map(|step| step.title).collect();
    assert_eq!(titles, parts[1..]);
    let made = second.run(&others, &silent).await?;
    assert_eq!((made.permit2.as_ref(), others.all().len()), (Some(&permit2), 3));
    assert_ne!(made.escrow, contracts.escrow);
    faultless(&second.verify(&made).await?)?;
    assert_eq!(second.plan(&others).await?.contracts, Some(made));
    Ok(())
}

/// The escrow is made with the address of its Permit2, so it is not made before that is settled.
#[tokio::test]
async fn a_run_that_is_killed_goes_on_with_the_permit2_that_it_paid_for() -> Result<()> {
    for fault in [Fault::Before, Fault::After] {
        let mut goes_on = 0;
        for at in (0..REQUESTS_MAX).step_by(STRIDE) {
            let (bare, notes) = (Bare::start().await?.drawing_by(Permit2::Own), Memory::default());
            let (end, was_faulty) = faulty_run(&bare, &notes, fault, at).await?;
            if let End::Run(Err(error)) = &end {
                ensure!(matches!(error, DeployError::Unanswered(_)), "{fault:?} at {at}: {error}");
            }
            let noted = notes.all();
            ensure!(noted.is_empty() || noted.keys().any(|name| name.contains("/Permit2/")), "{noted:?}");
            let contracts = bare.deployment().run(&notes, &silent).await?;
            bare.is_paid_once(&notes, &contracts).await.map_err(|error| error.context(format!("{fault:?} at {at}")))?;
            ensure!(
                noted.iter().all(|(name, note)| notes.all().get(name) == Some(note)),
                "{fault:?} at {at}: noted anew"
            );
            if !was_faulty {
                break;
            }
            goes_on += usize::from(!noted.is_empty());
        }
        ensure!(goes_on > 0, "no fault left anything to do");
    }
    Ok(())
}

#[tokio::test]
async fn no_escrow_is_sent_before_its_permit2_is_solidified() -> Result<()> {
    let (bare, notes) =
        (Bare::with(trondev::Blocks::OnDemand, FUNDS).await?.drawing_by(Permit2::Own), Memory::default());
    bare.dev.mine(LAG + 1).await?;
    killed_at_send(&bare, &notes, 1, true).await?;
    bare.dev.mine(1).await?;
    let plan = bare.deployment().plan(&notes).await?;
    assert!(plan.steps[0].title.starts_with("Permit2 at T") && !plan.steps[0].is_done, "{plan:?}");
    // It is in a block that a fork can take away.
    let pace = super::Pace { wait_max: std::time::Duration::ZERO, ..super::PACE };
    let waited = bare.deployment().with_pace(pace).run(&notes, &silent).await;
    assert!(matches!(&waited, Err(DeployError::Unanswered(why)) if why.contains("Permit2")), "{waited:?}");
    let noted = notes.all();
    assert_eq!(noted.len(), 1);
    bare.dev.control("fork", json!({"blocks": 1, "drop_transactions": true})).await?;
    bare.dev.mine(2).await?;
    // The same bytes are sent again, so it comes to the same place.
    killed_at_send(&bare, &notes, 1, true).await?;
    assert!(notes.all() == noted);
    bare.dev.mine(1 + LAG).await?;
    killed_at_send(&bare, &notes, 1, true).await?;
    assert_eq!(notes.all().len(), 2);
    // The escrow was sent, with the address that is settled now.
    let plan = bare.deployment().plan(&notes).await?;
    let done: Vec<_> = plan.steps.iter().map(|step| step.is_done).collect();
    assert_eq!(done, [true, false, false, false]);
    assert!(plan.steps[1].title.starts_with("GatewayEscrow at T"), "{plan:?}");
    Ok(())
}

#[tokio::test]
async fn one_of_other_code_is_refused_unless_that_code_is_named() -> Result<()> {
    let bare = Bare::start().await?;
    let contracts = bare.deployment().run(&Memory::default(), &silent).await?;
    let paid = bare.balance().await?;
    let at = |account: &Account, code: Option<Hash32>| bare.by(Permit2::At { account: account.clone(), code });
    let asked = json!({"value": contracts.proxy.to_string(), "visible": true});
    let proxy: Value = bare.dev.control("../wallet/getcontractinfo", asked).await?;
    let proxy_code = Hash32(keccak256(hex::decode(proxy["runtimecode"].as_str().context("no code")?)?).0);
    // Another compilation of the same, which adds to its end what no call reaches.
    let (other, hash) = bare.planted(60, |code| code + "a1646970667358").await?;
    for (place, code) in [(&contracts.proxy, proxy_code), (&other, hash)] {
        for named in [None, Some(Hash32([7; 32]))] {
            let why = unfit(&at(place, named)).await?;
            assert!(why.contains("code of Permit2") && why.contains(&code.to_string()), "{why}");
            assert!(named.is_none_or(|named| why.contains(&named.to_string())), "{why}");
        }
    }
    assert_eq!(bare.balance().await?, paid, "nothing was paid");
    // What has the code that is named, and is no Permit2.
    let why = unfit(&at(&contracts.proxy, Some(proxy_code))).await?;
    assert!(why.contains("domain of Permit2"), "{why}");
    assert_eq!(bare.balance().await?, paid, "nothing was paid");

    let (compared, notes) = (at(&other, Some(hash)), Memory::default());
    let made = compared.run(&notes, &silent).await?;
    assert_eq!((made.permit2.as_ref(), notes.all().len()), (Some(&other), 3));
    faultless(&compared.verify(&made).await?)?;
    assert_eq!(faults(&at(&other, None), &made).await?, ["code of Permit2"]);
    // The hash does not make up for another domain.
    let chain: u64 = bare.chain_id.reference().parse()?;
    let (own, foreign) = (permit2_domain(chain, address(&holder(&key(61)))?), permit2_domain(1, Address::ZERO));
    let (own, foreign) = (hex::encode(own.separator()), hex::encode(foreign.separator()));
    let elsewhere = |code: String| code.replace(&own, &foreign);
    let (strange, hash) = bare.planted(61, |code| elsewhere(code) + "00").await?;
    let why = unfit(&at(&strange, Some(hash))).await?;
    assert!(why.contains("domain of Permit2"), "{why}");
    let (strange, _) = bare.planted(61, elsewhere).await?;
    let why = unfit(&at(&strange, None)).await?;
    assert!(why.contains("_CACHED_DOMAIN_SEPARATOR"), "{why}");
    Ok(())
}

/// Allowances of payers who are not there yet could be in its storage.
#[tokio::test]
async fn one_whose_code_no_constructor_of_this_version_made_is_refused() -> Result<()> {
    let bare = Bare::start().await?;
    let (planted, hash) = bare.planted(60, |code| code).await?;
    let at = |code| bare.by(Permit2::At { account: planted.clone(), code });
    let why = unfit(&at(None)).await?;
    assert!(why.contains("constructor of Permit2"), "{why}");
    let why = unfit(&at(Some(Hash32([7; 32])))).await?;
    assert!(why.contains("constructor of Permit2"), "{why}");
    // Somebody compared it, and how it began.
    at(Some(hash)).plan(&Memory::default()).await?;
    Ok(())
}

#[tokio::test]
async fn an_address_without_code_and_one_of_another_family_are_refused() -> Result<()> {
    let bare = Bare::start().await?;
    for code in [None, Some(Hash32([7; 32])), Some(Hash32(keccak256([]).0))] {
        let why = unfit(&bare.by(Permit2::At { account: holder(&key(77)), code })).await?;
        assert!(why.contains("has no code"), "{why}");
    }
    let ethereum: Account = "0x000000000022d473030f116ddee9f6b43ac78ba3".parse()?;
    let why = unfit(&bare.by(Permit2::At { account: ethereum.clone(), code: None })).await?;
    assert_eq!(why, format!("{:?} is not a Tron address", ethereum.as_str()));
    assert!(bare.infos().await?.is_empty());
    Ok(())
}

#[tokio::test]
async fn an_escrow_that_draws_by_another_permit2_is_found() -> Result<()> {
    let bare = Bare::with(trondev::Blocks::Every(super::BLOCK), 3 * FUNDS).await?.drawing_by(Permit2::Own);
    let contracts = bare.deployment().run(&Memory::default(), &silent).await?;
    let permit2 = contracts.permit2.clone().context("no Permit2")?;
    let at = |account: &Account| bare.by(Permit2::At { account: account.clone(), code: None });
    let verifier = deployment(&bare.tron.url(), &Settings { permit2: Permit2::None, ..bare.settings() });
    let drawn = ["permit2 of GatewayEscrow", "constructor of GatewayEscrow"];
    faultless(&verifier.verify(&contracts).await?)?;
    // Where none is named, payers sign for none, and whatever the escrow was made with is right.
    faultless(&verifier.verify(&Contracts { permit2: None, ..contracts.clone() }).await?)?;
    // A second Permit2, which is as good as the first, and what is none.
    let second = bare.by(Permit2::Own);
    let other = second.run(&Memory::default(), &silent).await?;
    assert_ne!(other.permit2.as_ref(), Some(&permit2));
    assert_eq!(faults(&verifier, &Contracts { permit2: other.permit2.clone(), ..contracts.clone() }).await?, drawn);
    let strange = Contracts { permit2: Some(contracts.proxy.clone()), ..contracts.clone() };
    assert_eq!(faults(&verifier, &strange).await?, [drawn[0], drawn[1], "code of Permit2"]);
    let nothing = Contracts { permit2: Some(holder(&key(77))), ..contracts.clone() };
    assert_eq!(faults(&verifier, &nothing).await?, [drawn[0], drawn[1], "code of Permit2"]);
    // And an escrow without one where one is configured.
    let without = bare.by(Permit2::None).run(&Memory::default(), &silent).await?;
    assert_eq!(without.permit2, None);
    let (findings, expected) = (at(&permit2), Contracts { permit2: Some(permit2.clone()), ..without.clone() });
    assert_eq!(faults(&findings, &expected).await?, drawn);
    let told = findings.verify(&expected).await?.into_iter().find_map(|finding| finding.fault).unwrap_or_default();
    assert_eq!(told, format!("is nobody, and should be {permit2}"));
    Ok(())
}
