//! Deployments that are refused, with what for.

use std::time::Duration;

use anyhow::Result;
use serde_json::json;

use chains::deployment::{Contracts, DeployError, Deployment, Guardian};
use chains_tron::deploy::{Settings, SetupError, TronDeployment};
use events::Account;
use trondev::Blocks;

use super::{Bare, FUNDS, Memory, deployment, silent};
use crate::support::{TRX, holder, key, liar::Liar};

#[tokio::test]
async fn a_node_of_another_chain_is_unfit() -> Result<()> {
    let bare = Bare::start().await?;
    let other = "tron:728126428";
    let deployment = deployment(&bare.tron.url(), &Settings { chain_id: other.parse()?, ..bare.settings() });
    let notes = Memory::default();
    let contracts =
        Contracts { escrow: holder(&key(7)), proxy: holder(&key(8)), deposit_address_factory: None, permit2: None };
    for refused in [
        deployment.plan(&notes).await.map(drop),
        deployment.run(&notes, &silent).await.map(drop),
        deployment.verify(&contracts).await.map(drop),
    ] {
        let Err(DeployError::Unfit(told)) = refused else { panic!("{refused:?}") };
        assert!(told.contains(other) && told.contains(&bare.chain_id.to_string()), "{told}");
    }
    assert!(notes.all().is_empty() && bare.infos().await?.is_empty());
    Ok(())
}

#[tokio::test]
async fn a_payer_without_the_means_makes_nothing() -> Result<()> {
    // Enough for the proxy, and for half of the escrow.
    let bare = Bare::with(Blocks::OnDemand, 250 * TRX).await?;
    let (liar, notes) = (Liar::before(&bare.tron.url()).await?, Memory::default());
    let deployment = bare.deployment_at(&liar.url);
    let plan = deployment.plan(&notes).await?;
    let refused = deployment.run(&notes, &silent).await;
    let Err(DeployError::Funds { payer, balance, needed }) = refused else { panic!("{refused:?}") };
    assert_eq!((payer, balance), (plan.payer.clone(), plan.balance));
    assert_eq!((balance, needed), (u128::from(250 * TRX), plan.cost()));
    assert!(notes.all().is_empty());
    assert!(liar.heard().iter().all(|heard| heard.path != "wallet/broadcasthex"));

    // What is staked is not burnt.
    liar.tell(|path, _, mut answer| {
        if path == "wallet/getaccountresource" {
            answer["EnergyLimit"] = json!(4_500_000);
        }
        answer
    });
    liar.answer(|path, _| {
        (path == "wallet/broadcasthex").then(|| axum::response::IntoResponse::into_response(axum::http::StatusCode::OK))
    });
    assert_eq!(deployment.plan(&notes).await?.cost(), plan.cost());
    let pace = super::Pace { wait_max: Duration::ZERO, ..super::PACE };
    let waited = bare.deployment_at(&liar.url).with_pace(pace).run(&notes, &silent).await;
    assert!(matches!(&waited, Err(DeployError::Unanswered(_))), "{waited:?}");
    assert_eq!(notes.all().len(), 1);
    Ok(())
}

#[tokio::test]
async fn what_failed_is_told_once_and_then_made_again() -> Result<()> {
    let bare = Bare::start().await?;
    let (liar, notes) = (Liar::before(&bare.tron.url()).await?, Memory::default());
    // By a price that is too low, the fee limit does not cover the energy.
    liar.tell(|path, _, mut answer| {
        if path == "wallet/getchainparameters" {
            for parameter in answer["chainParameter"].as_array_mut().into_iter().flatten() {
                if parameter["key"] == "getEnergyFee" {
                    parameter["value"] = json!(50);
                }
            }
        }
        answer
    });
    let refused = bare.deployment_at(&liar.url).run(&notes, &silent).await;
    let Err(DeployError::Refused { step, reason }) = refused else { panic!("{refused:?}") };
    assert_eq!(step, "GatewayEscrow");
    assert!(reason.contains("OUT_OF_ENERGY"), "{reason}");
    let failed = notes.transactions()?;
    assert_eq!(failed.len(), 1);
    let plan = bare.deployment().plan(&notes).await?;
    assert!(plan.steps.iter().all(|step| !step.is_done && step.cost > 0), "{plan:?}");
    let contracts = bare.deployment().run(&notes, &silent).await?;
    assert!(!notes.transactions()?.contains(&failed[0]));
    assert_eq!(bare.infos().await?.len(), 4);
    super::faultless(&bare.deployment().verify(&contracts).await?)
}

#[tokio::test]
async fn a_creation_that_cannot_succeed_is_not_made() -> Result<()> {
    let bare = Bare::start().await?;
    let (liar, notes) = (Liar::before(&bare.tron.url()).await?, Memory::default());
    liar.tell(|path, _, mut answer| {
        if path == "wallet/triggerconstantcontract" {
            answer["transaction"]["ret"] = json!([{"ret": "FAILED"}]);
            answer["constant_result"] = json!([""]);
        }
        answer
    });
    let refused = bare.deployment_at(&liar.url).run(&notes, &silent).await;
    assert!(matches!(&refused, Err(DeployError::Refused { .. })), "{refused:?}");
    assert!(notes.all().is_empty());
    Ok(())
}

#[tokio::test]
async fn notes_of_something_else_are_refused() -> Result<()> {
    let (bare, notes) = (Bare::start().await?, Memory::default());
    bare.deployment().run(&notes, &silent).await?;
    let good = notes.all();
    for (member, value) in [
        ("contract", json!("T9yD14Nj9j7xAB4dbGeiX9h8unkKHxuWwb")),
        ("expiration_ms", json!(1)),
        ("bytes", json!("00")),
        ("id", json!(7)),
    ] {
        for note in notes.notes.lock().unwrap().values_mut() {
            note[member] = value.clone();
        }
        let refused = bare.deployment().run(&notes, &silent).await;
        assert!(matches!(&refused, Err(DeployError::Notes(_))), "{member}: {refused:?}");
        *notes.notes.lock().unwrap() = good.clone();
    }
    assert_eq!(bare.balance().await?, FUNDS - bare.infos().await?.iter().map(|info| info.fee_sun).sum::<u64>());
    Ok(())
}

#[tokio::test]
async fn what_cannot_be_meant_is_refused_at_once() -> Result<()> {
    let bare = Bare::with(Blocks::OnDemand, FUNDS).await?;
    let new = |url: &str, settings: &Settings| TronDeployment::new(url, None, settings, None, Duration::from_secs(20));
    let ethereum: Account = "0x0101010101010101010101010101010101010101".parse()?;
    let wrong = Settings { reserver: ethereum.clone(), ..bare.settings() };
    assert!(matches!(new(&bare.tron.url(), &wrong), Err(SetupError::Account(_))));
    let wrong = Settings { guardian: Guardian::Account(ethereum.clone()), ..bare.settings() };
    assert!(matches!(new(&bare.tron.url(), &wrong), Err(SetupError::Account(_))));
    assert!(matches!(new("ftp://node", &bare.settings()), Err(SetupError::Connect(_))));

    let nobody = new(&bare.tron.url(), &bare.settings())?;
    let refused = nobody.plan(&Memory::default()).await;
    assert!(matches!(&refused, Err(DeployError::Unfit(_))), "{refused:?}");
    let contracts =
        Contracts { escrow: ethereum.clone(), proxy: ethereum, deposit_address_factory: None, permit2: None };
    let refused = nobody.verify(&contracts).await;
    assert!(matches!(&refused, Err(DeployError::Unfit(_))), "{refused:?}");

    let away = deployment("http://127.0.0.1:9", &bare.settings());
    let refused = away.run(&Memory::default(), &silent).await;
    assert!(matches!(&refused, Err(DeployError::Unanswered(_))), "{refused:?}");
    Ok(())
}
