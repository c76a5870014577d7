//! Runs that are killed, or whose node fails, at any request: the next one goes on, and each contract is paid for once.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use anyhow::{Result, ensure};
use axum::{
    http::StatusCode,
    response::{IntoResponse, Response},
};
use serde_json::{Value, json};
use tokio::sync::Notify;

use chains::deployment::{Contracts, DeployError, Deployment};
use trondev::Blocks;

use super::{Bare, FUNDS, Memory, faultless, silent};
use crate::support::{LAG, liar::Liar};

/// More requests than a run needs until nothing is left to do but to wait.
const REQUESTS_MAX: usize = 200;
/// The step from one place to the next where a run is killed, once all transactions are in a block.
const STRIDE: usize = 7;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// The run ends before the node hears of the request.
    Before,
    /// The run ends before it hears the answer.
    After,
    /// The node does not answer, and the run goes on as it likes.
    Unanswered,
}

/// How a run ended.
pub(super) enum End {
    Killed,
    Run(Result<Contracts, DeployError>),
}

/// Runs with a fault at request `at`, counted from 0; whether it came to that.
pub(super) async fn faulty_run(bare: &Bare, notes: &Memory, fault: Fault, at: usize) -> Result<(End, bool)> {
    let liar = Liar::before(&bare.tron.url()).await?;
    let (asked, killed) = (Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
    let kill = killed.clone();
    let counted = asked.clone();
    let lost = || -> Option<Response> { Some(StatusCode::BAD_GATEWAY.into_response()) };
    match fault {
        Fault::Before => liar.answer(move |_, _| {
            let is_due = counted.fetch_add(1, Ordering::Relaxed) >= at;
            if is_due {
                kill.notify_one()
            }
            is_due.then(lost).flatten()
        }),
        Fault::Unanswered => {
            liar.answer(move |_, _| (counted.fetch_add(1, Ordering::Relaxed) == at).then(lost).flatten());
        }
        Fault::After => liar.tell(move |_: &str, _: &Value, answer| {
            if counted.fetch_add(1, Ordering::Relaxed) >= at {
                kill.notify_one();
            }
            answer
        }),
    }
    let deployment = bare.deployment_at(&liar.url);
    let end = tokio::select! {
        biased;
        () = killed.notified() => End::Killed,
        ended = deployment.run(notes, &silent) => End::Run(ended),
    };
    Ok((end, asked.load(Ordering::Relaxed) > at))
}

/// Each run on a chain of its own has the fault one request later, up to the end of a run.
async fn every_request(fault: Fault) -> Result<()> {
    let (mut at, mut goes_on) = (0, 0);
    loop {
        ensure!(at < REQUESTS_MAX, "a run of more than {REQUESTS_MAX} requests");
        let (bare, notes) = (Bare::start().await?, Memory::default());
        let (end, was_faulty) = faulty_run(&bare, &notes, fault, at).await?;
        if let End::Run(Err(error)) = &end {
            ensure!(matches!(error, DeployError::Unanswered(_)), "{fault:?} at {at}: {error}");
        }
        let (noted, included) = (notes.all(), bare.infos().await?.len());
        let contracts = bare.deployment().run(&notes, &silent).await?;
        bare.is_paid_once(&notes, &contracts).await.map_err(|error| error.context(format!("{fault:?} at {at}")))?;
        // What was noted stayed what it was.
        ensure!(noted.iter().all(|(name, note)| notes.all().get(name) == Some(note)), "{fault:?} at {at}: noted anew");
        if !was_faulty {
            ensure!(goes_on > 0, "no fault left anything to do");
            return Ok(());
        }
        goes_on += usize::from(!noted.is_empty());
        // With all in a block it only waits, and one look is as the other.
        at += if included == 3 { STRIDE } else { 1 };
    }
}

#[tokio::test]
async fn a_run_killed_before_any_request_goes_on() -> Result<()> {
    every_request(Fault::Before).await
}

#[tokio::test]
async fn a_run_killed_before_any_answer_goes_on() -> Result<()> {
    every_request(Fault::After).await
}

#[tokio::test]
async fn a_request_without_an_answer_is_no_failure() -> Result<()> {
    every_request(Fault::Unanswered).await
}

/// Runs until the node was sent `sent` transactions of which it heard when `heard`, and is killed then.
pub(super) async fn killed_at_send(bare: &Bare, notes: &Memory, sent: usize, heard: bool) -> Result<()> {
    let liar = Liar::before(&bare.tron.url()).await?;
    let killed = Arc::new(Notify::new());
    let (kill, mut left) = (killed.clone(), sent);
    liar.answer(move |path, _| {
        left = left.saturating_sub(usize::from(path == "wallet/broadcasthex"));
        (left == 0 && !heard).then(|| {
            kill.notify_one();
            StatusCode::BAD_GATEWAY.into_response()
        })
    });
    let (kill, mut left) = (killed.clone(), sent);
    liar.tell(move |path, _, answer| {
        left = left.saturating_sub(usize::from(path == "wallet/broadcasthex"));
        if left == 0 {
            kill.notify_one();
        }
        answer
    });
    let deployment = bare.deployment_at(&liar.url);
    tokio::select! {
        biased;
        () = killed.notified() => Ok(()),
        ended = deployment.run(notes, &silent) => anyhow::bail!("{ended:?}"),
    }
}

#[tokio::test]
async fn what_cannot_be_noted_is_not_sent() -> Result<()> {
    for notes_max in [0, 1, 2] {
        let (bare, notes) = (Bare::start().await?, Memory::default());
        *notes.left.lock().unwrap() = Some(notes_max);
        let refused = bare.deployment().run(&notes, &silent).await;
        assert!(matches!(&refused, Err(DeployError::Notes(_))), "{refused:?}");
        assert_eq!((notes.all().len(), bare.infos().await?.len()), (notes_max, notes_max));
        *notes.left.lock().unwrap() = None;
        let contracts = bare.deployment().run(&notes, &silent).await?;
        bare.is_paid_once(&notes, &contracts).await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_transaction_is_replaced_only_when_a_solidified_block_is_past_it() -> Result<()> {
    let (bare, notes) = (Bare::with(Blocks::OnDemand, FUNDS).await?, Memory::default());
    bare.dev.mine(1).await?;
    killed_at_send(&bare, &notes, 1, false).await?;
    let lost = notes.transactions()?[0];
    // The newest block is past it, and no solidified one is: another block beside it could have it.
    bare.dev.control("time", json!({"advance_ms": 130_000})).await?;
    bare.dev.mine(1).await?;
    killed_at_send(&bare, &notes, 1, true).await?;
    assert_eq!(notes.transactions()?, [lost]);
    let plan = bare.deployment().plan(&notes).await?;
    assert!(plan.steps[0].title.starts_with("GatewayEscrow at T") && !plan.steps[0].is_done, "{plan:?}");

    bare.dev.mine(LAG).await?;
    let plan = bare.deployment().plan(&notes).await?;
    assert_eq!(plan.steps[0].title, "GatewayEscrow");
    killed_at_send(&bare, &notes, 1, true).await?;
    assert_ne!(notes.transactions()?, [lost]);
    for _ in 0..2 {
        bare.dev.mine(1).await?;
        killed_at_send(&bare, &notes, 1, true).await?;
    }
    bare.dev.mine(1 + LAG).await?;
    let contracts = bare.deployment().run(&notes, &silent).await?;
    bare.is_paid_once(&notes, &contracts).await
}

#[tokio::test]
async fn what_a_fork_took_away_is_brought_back() -> Result<()> {
    let (bare, notes) = (Bare::with(Blocks::OnDemand, FUNDS).await?, Memory::default());
    bare.dev.mine(LAG + 1).await?;
    killed_at_send(&bare, &notes, 1, true).await?;
    bare.dev.mine(1).await?;
    let plan = bare.deployment().plan(&notes).await?;
    assert_eq!((plan.steps[0].cost, plan.steps[0].is_done), (0, false), "{plan:?}");
    bare.dev.control("fork", json!({"blocks": 1, "drop_transactions": true})).await?;
    bare.dev.mine(2).await?;
    let plan = bare.deployment().plan(&notes).await?;
    assert!(plan.steps[0].cost > 0 && !plan.steps[0].is_done, "{plan:?}");
    // The same bytes are sent again.
    let noted = notes.all();
    killed_at_send(&bare, &notes, 1, true).await?;
    assert_eq!(notes.all(), noted);
    for _ in 0..2 {
        bare.dev.mine(1).await?;
        killed_at_send(&bare, &notes, 1, true).await?;
    }
    bare.dev.mine(1 + LAG).await?;
    let contracts = bare.deployment().run(&notes, &silent).await?;
    bare.is_paid_once(&notes, &contracts).await?;
    faultless(&bare.deployment().verify(&contracts).await?)
}
