//! Nodes that lag, err or lie about an address: nothing is concluded from what they say.

use std::slice::from_ref;

use anyhow::{Result, bail};
use serde_json::{Value, json};

use chains_solana::adapter::SolanaChain;
use sagas::ports::{AddressState, Chains, OwnReturn};

use super::{
    hide, on_accounts,
    returns::{came_back, held},
};
use crate::{
    evm_support::liar::Liar,
    support::{
        CAP, World,
        addressed::{Addressed, amount},
    },
};

/// A payment whose money is at its address past the end of the deposit, and a port that sees the cluster through a liar.
struct Seen {
    world: World,
    liar: Liar,
    chain: SolanaChain,
    paid: Addressed,
    since: u64,
}

impl Seen {
    async fn start() -> Result<Self> {
        let world = World::start().await?;
        let liar = Liar::before(&world.surfnet.url()).await?;
        let (chain, paid) = (world.chain_at(&liar.url), world.addressed().await?);
        world.send_to(&paid, CAP).await?;
        world.pass(&paid).await?;
        let since = held(&world, &paid, CAP).await?;
        Ok(Self { world, liar, chain, paid, since })
    }

    async fn state(&self) -> Result<AddressState, sagas::ports::Transient> {
        self.chain.address_state(&self.paid.deposit(), Some(self.since)).await
    }
}

#[tokio::test]
async fn two_answers_that_differ_about_an_address_conclude_nothing() -> Result<()> {
    let seen = Seen::start().await?;
    let deposit = seen.paid.deposit();
    for false_one in [0, 1] {
        let mut asked = 0;
        on_accounts(&seen.liar, "finalized", move |accounts| {
            if asked % 2 == false_one {
                hide(accounts);
            }
            asked += 1;
        });
        for since in [None, Some(seen.since)] {
            let fault = seen.chain.address_state(&deposit, since).await.expect_err("concluded");
            assert!(fault.to_string().contains("two answers about a deposit address"), "{fault}");
        }
    }
    // Of answers that are older than what is settled nothing is concluded either.
    seen.liar.tell(|request, mut truth| {
        if request["method"] == "getMultipleAccounts" {
            truth["result"]["context"]["slot"] = json!(1);
        }
        truth
    });
    seen.state().await.expect_err("concluded");
    seen.liar.be_honest();
    let state = seen.state().await?;
    assert!(matches!(state, AddressState::Held { amount: held, .. } if held == amount(CAP)), "{state:?}");
    Ok(())
}

/// Accounts and history come from two nodes behind one address: what is gone by one's word was not given back yet by the other's.
#[tokio::test]
async fn a_history_that_lags_behind_the_accounts_conceals_no_return() -> Result<()> {
    let seen = Seen::start().await?;
    seen.world.finalized(seen.since + 1).await?;
    let known = seen.world.node().settled().await?;
    let (hash, slot) = seen.world.give_back(&seen.paid).await?;
    seen.world.finalized(slot).await?;
    seen.liar.tell(move |request, mut truth| {
        match request["method"].as_str() {
            Some("getSlot") => truth["result"] = json!(known.slot),
            Some("getBlockHeight") => truth["result"] = json!(known.height),
            Some("getSignaturesForAddress") => {
                if request["params"][1]["minContextSlot"].as_u64() > Some(known.slot) {
                    let error = json!({"code": -32016, "message": "Minimum context slot has not been reached"});
                    return json!({"jsonrpc": "2.0", "id": request["id"], "error": error});
                }
                if let Some(entries) = truth["result"].as_array_mut() {
                    entries.retain(|entry| entry["slot"].as_u64() <= Some(known.slot));
                }
            }
            _ => {}
        }
        truth
    });
    let fault = seen.state().await.expect_err("concluded");
    assert!(fault.to_string().contains("Minimum context slot has not been reached"), "{fault}");
    seen.liar.be_honest();
    let AddressState::GivenBack(refunded) = seen.state().await? else { bail!("it is not found") };
    assert_eq!((refunded.inclusion.transaction_hash, refunded.amount), (hash, amount(CAP)));
    Ok(())
}

#[tokio::test]
async fn evidence_that_is_missing_or_wrong_proves_no_return() -> Result<()> {
    let seen = Seen::start().await?;
    let (chain, deposit) = (&seen.chain, seen.paid.deposit());
    let prepared = chain.prepare_give_back(&deposit, 1).await?;
    chain.broadcast(&prepared).await?;
    let refunded = came_back(&seen.world, &seen.paid, Some(seen.since)).await?;
    let is_not_believed = async |lie: &str| -> Result<()> {
        if let Ok(believed) = seen.state().await {
            bail!("{lie}: {believed:?}");
        }
        if let Ok(believed) = chain.given_back_by(&deposit, from_ref(&prepared)).await {
            bail!("{lie}: {believed:?}");
        }
        seen.liar.be_honest();
        assert_eq!(seen.state().await?, AddressState::GivenBack(refunded.clone()), "{lie}");
        assert_eq!(
            chain.given_back_by(&deposit, from_ref(&prepared)).await?,
            OwnReturn::Returned(refunded.clone()),
            "{lie}"
        );
        Ok(())
    };
    seen.liar.say("getTransaction", Value::Null);
    is_not_believed("no transaction").await?;
    seen.liar.say("getBlock", Value::Null);
    is_not_believed("no block").await?;
    seen.liar.say("getBlockTime", Value::Null);
    is_not_believed("no time").await?;
    let on_transaction = |change: fn(&mut Value)| {
        seen.liar.tell(move |request, mut truth| {
            if request["method"] == "getTransaction" {
                change(&mut truth["result"]);
            }
            truth
        });
    };
    on_transaction(|found| found["transaction"]["signatures"][0] = json!("1111"));
    is_not_believed("another transaction").await?;
    on_transaction(|found| found["meta"]["err"] = json!("AccountInUse"));
    is_not_believed("a transaction that failed").await?;
    on_transaction(|found| found["meta"] = Value::Null);
    is_not_believed("a transaction without an outcome").await?;
    on_transaction(|found| found["meta"]["innerInstructions"] = Value::Null);
    is_not_believed("a transaction without what it called").await?;

    // Nor where the history names transactions that nobody made.
    seen.liar.tell(|request, mut truth| {
        if request["method"] == "getSignaturesForAddress" {
            let nobodys = bs58::encode([5; 64]).into_string();
            let junk = json!({"signature": nobodys, "slot": u64::MAX, "err": null});
            if let Some(entries) = truth["result"].as_array_mut() {
                entries.push(junk);
            }
        }
        truth
    });
    let fault = seen.state().await.expect_err("concluded");
    assert!(fault.to_string().contains("no transaction "), "{fault}");
    // What has landed is nothing while it is not final, or where it failed.
    seen.liar.tell(|request, mut truth| {
        if request["method"] == "getSignatureStatuses" && truth["result"]["value"][0].is_object() {
            truth["result"]["value"][0]["slot"] = json!(u64::MAX);
        }
        truth
    });
    assert_eq!(chain.given_back_by(&deposit, from_ref(&prepared)).await?, OwnReturn::NotLanded);
    seen.liar.tell(|request, mut truth| {
        if request["method"] == "getSignatureStatuses" && truth["result"]["value"][0].is_object() {
            truth["result"]["value"][0]["err"] = json!("AccountInUse");
        }
        truth
    });
    assert_eq!(chain.given_back_by(&deposit, from_ref(&prepared)).await?, OwnReturn::NotLanded);
    Ok(())
}
