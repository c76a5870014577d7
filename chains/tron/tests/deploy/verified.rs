//! What is told of contracts that are not what they should be.

use std::time::Duration;

use alloy::sol_types::SolCall;
use anyhow::{Context, Result};
use serde_json::{Value, json};

use chains::deployment::{Contracts, Deployment, Finding, Guardian};
use chains_tron::{
    address::parse_address,
    deploy::{Settings, TronDeployment},
};
use escrow_abi::contracts::GatewayEscrow;
use events::Account;

use super::{Bare, GUARDIAN, Memory, faultless, silent};
use crate::support::{TRX, account, holder, key};

/// The contracts, and who compares them: without a payer.
async fn deployed() -> Result<(Bare, Contracts)> {
    let bare = Bare::start().await?;
    let contracts = bare.deployment().run(&Memory::default(), &silent).await?;
    Ok((bare, contracts))
}

async fn faults(bare: &Bare, settings: &Settings, contracts: &Contracts) -> Result<Vec<(String, String)>> {
    let verifier = TronDeployment::new(&bare.tron.url(), None, settings, None, Duration::from_secs(20))?;
    let findings = verifier.verify(contracts).await?;
    Ok(findings.into_iter().filter_map(|Finding { subject, fault }| Some((subject, fault?))).collect())
}

#[tokio::test]
async fn other_accounts_than_those_that_should_be_are_found() -> Result<()> {
    let (bare, contracts) = deployed().await?;
    let settings = bare.settings();
    assert_eq!(faults(&bare, &settings, &contracts).await?, []);
    let any = Settings { guardian: Guardian::Any, ..settings.clone() };
    assert_eq!(faults(&bare, &any, &contracts).await?, []);
    let findings = bare.deployment().verify(&contracts).await?;
    faultless(&findings)?;
    let subjects: Vec<_> = findings.iter().map(|finding| finding.subject.as_str()).collect();
    let all = [
        "code of GatewayEscrow",
        "constants in the code of GatewayEscrow",
        "permit2 of GatewayEscrow",
        "guardian of GatewayEscrow",
        "payoutGas of GatewayEscrow",
        "constructor of GatewayEscrow",
        "reserver of GatewayEscrow",
        "next reserver of GatewayEscrow",
        "retirement of GatewayEscrow",
        "code of FulfillmentProxy",
        "constructor of FulfillmentProxy",
        "code of TronDepositAddresses",
        "constructor of TronDepositAddresses",
    ];
    assert_eq!(subjects, all);

    let other = holder(&key(9));
    let found = faults(&bare, &Settings { reserver: other.clone(), ..settings.clone() }, &contracts).await?;
    let fault = format!("is {}, and should be {other}", settings.reserver);
    assert_eq!(found, [("reserver of GatewayEscrow".to_owned(), fault)]);

    let found =
        faults(&bare, &Settings { guardian: Guardian::Account(other.clone()), ..settings.clone() }, &contracts).await?;
    let fault = format!("is {}, and should be {other}", holder(&key(GUARDIAN)));
    let arguments = "had other arguments than it should".to_owned();
    let subjects = ["guardian of GatewayEscrow", "constructor of GatewayEscrow"].map(str::to_owned);
    let [guardian, constructor] = subjects;
    assert_eq!(found, [(guardian, fault), (constructor, arguments)]);
    Ok(())
}

#[tokio::test]
async fn what_the_guardian_did_is_found() -> Result<()> {
    let (bare, contracts) = deployed().await?;
    let (escrow, guardian) = (contracts.escrow.to_string(), key(GUARDIAN));
    bare.dev.fund(&account(&guardian), 1_000 * TRX).await?;
    let next = parse_address(&account(&key(9)))?;
    let propose = GatewayEscrow::proposeReserverCall { next }.abi_encode();
    bare.dev.execute(&guardian, &escrow, propose, 0).await?;
    bare.dev.execute(&guardian, &escrow, GatewayEscrow::retireCall {}.abi_encode(), 0).await?;
    let found = faults(&bare, &bare.settings(), &contracts).await?;
    let subjects: Vec<_> = found.iter().map(|(subject, _)| subject.as_str()).collect();
    assert_eq!(subjects, ["next reserver of GatewayEscrow", "retirement of GatewayEscrow"]);
    assert!(found[0].1.contains(&account(&key(9))), "{found:?}");
    Ok(())
}

#[tokio::test]
async fn other_contracts_and_none_are_found() -> Result<()> {
    let (bare, contracts) = deployed().await?;
    let settings = bare.settings();
    let swapped = Contracts { escrow: contracts.proxy.clone(), proxy: contracts.escrow.clone(), ..contracts.clone() };
    let token: Account = bare.dev.deploy_token("Test Dollar", "TUSD", 6).await?.parse()?;
    let nothing = holder(&key(77));
    for (escrow, proxy, words) in [
        (&swapped.escrow, &swapped.proxy, "bytes of code"),
        (&token, &token, "bytes of code"),
        (&nothing, &nothing, "has no code"),
    ] {
        let found = faults(
            &bare,
            &settings,
            &Contracts { escrow: escrow.clone(), proxy: proxy.clone(), deposit_address_factory: None, permit2: None },
        )
        .await?;
        let subjects: Vec<_> = found.iter().map(|(subject, _)| subject.as_str()).collect();
        assert_eq!(subjects, ["code of GatewayEscrow", "code of FulfillmentProxy"]);
        assert!(found.iter().all(|(_, fault)| fault.contains(words)), "{found:?}");
    }
    Ok(())
}

/// Code that is right, and was not put there by its own constructor: what is in storage could be anything.
#[tokio::test]
async fn code_without_its_constructor_is_found() -> Result<()> {
    let (bare, contracts) = deployed().await?;
    let asked = |contract: &Account| json!({"value": contract.to_string(), "visible": true});
    let planted = holder(&key(78));
    let original: Value = bare.dev.control("../wallet/getcontractinfo", asked(&contracts.proxy)).await?;
    let code = original["runtimecode"].as_str().context("no code")?;
    bare.dev.control("code", json!({"address": planted.to_string(), "code": code})).await?;
    let mixed = Contracts { escrow: contracts.escrow.clone(), proxy: planted.clone(), ..contracts.clone() };
    let found = faults(&bare, &bare.settings(), &mixed).await?;
    let subjects: Vec<_> = found.iter().map(|(subject, _)| subject.as_str()).collect();
    assert_eq!(subjects, ["constructor of FulfillmentProxy"]);

    // An escrow's code at another address is bound to the first one: nothing that is signed for this one would count.
    let original: Value = bare.dev.control("../wallet/getcontractinfo", asked(&contracts.escrow)).await?;
    let code = original["runtimecode"].as_str().context("no code")?;
    bare.dev.control("code", json!({"address": planted.to_string(), "code": code})).await?;
    let found = faults(&bare, &bare.settings(), &Contracts { escrow: planted, ..contracts }).await?;
    let constants = found.iter().find(|(subject, _)| subject == "constants in the code of GatewayEscrow");
    assert!(constants.is_some_and(|(_, fault)| fault.contains("_cachedThis")), "{found:?}");
    Ok(())
}
