//! Payers whose code is run at the gateway's expense: contract accounts that pay with a signature of their own (ERC-1271).

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use alloy::{
    primitives::{Address, U64, U256},
    signers::{SignerSync, local::PrivateKeySigner},
};
use anyhow::{Context, Result, ensure};
use chrono::{SecondsFormat, Utc};
use futures::future::join_all;
use reqwest::Client;
use serde_json::{Value, json};

use chains_evm::dev::HostileMood;
use devnet::{keys::Role, network::Chain};
use events::{PaymentEvent, PaymentId};

use crate::support::*;

/// `deposit_max` of `[chains.gas]` by default.
const DEPOSIT_GAS_MAX: u64 = 1_500_000;
/// `account_loss_max`.
const ACCOUNT_LOSS_MAX: u64 = 4_500_000;
/// `admission_seconds`.
const ADMISSION_SECONDS: u64 = 120;
/// What the account's code takes when it behaves: below what a trial of a signature has, and so much that its deposit comes
/// near the most that one may take.
const WORK: u64 = 420_000;

/// A payer with a contract account, whose code the payer chose.
struct ContractPayer {
    owner: PrivateKeySigner,
    account: String,
}

impl ContractPayer {
    /// One with money for many payments.
    async fn new(source: &Chain, mood: HostileMood, work: u64) -> Result<Self> {
        let owner = PrivateKeySigner::random();
        let (token, permit2) = (&source.token, &source.contracts.permit2);
        let key = format!("{:#x}", owner.address());
        let account = source.dev.deploy_hostile_account(&key, token, permit2, mood, work).await?;
        source.dev.mint(token, &account, U256::from(1_000 * PRICE)).await?;
        Ok(Self { owner, account })
    }

    /// A payment under `request_id` that its owner signed.
    async fn body(&self, world: &World, request_id: &str) -> Result<Value> {
        let (spec, now) = (world.spec(request_id)?, Utc::now());
        let after = |window: Duration| (now + window).to_rfc3339_opts(SecondsFormat::Secs, true);
        let mut body = json!({
            "version": "1.0",
            "request_id": request_id,
            "source": {"asset_identifier": spec.source, "account": self.account},
            "destination": [{"asset_identifier": spec.destination, "account": spec.recipient}],
            "fulfillment_amount": spec.amount,
            "max_source_amount": spec.cap,
            "quote_deadline": after(spec.quote_window),
            "fulfillment_deadline": after(Duration::from_secs(300)),
            "message_scheme": "EVM_PERMIT2_ESCROW",
        });
        let prepared = Client::new().post(format!("{}/v1/payments/prepare", world.base(0))).json(&body).send().await?;
        let prepared: Value = prepared.json().await?;
        let mut message = prepared["signed_messages"][0].clone();
        let digest = message["message"].as_str().with_context(|| format!("{prepared}"))?.parse()?;
        let signature = self.owner.sign_hash_sync(&digest)?;
        message["signature"] = format!("0x{}", hex::encode(signature.as_bytes())).into();
        body["sender_auth"] = json!({"message_scheme": prepared["message_scheme"], "signed_messages": [message]});
        Ok(body)
    }

    /// Submits such a payment.
    async fn pays(&self, world: &World, request_id: &str) -> Result<(u16, Value)> {
        let body = self.body(world, request_id).await?;
        submit(&Client::new(), &world.base(0), &body).await
    }

    /// The same of one that is accepted.
    async fn accepted(&self, world: &World, request_id: &str) -> Result<PaymentId> {
        let (status, answer) = self.pays(world, request_id).await?;
        ensure!(status == 200, "{status}: {answer}");
        Ok(answer["payment_id"].as_str().unwrap_or_default().parse()?)
    }
}

async fn submit(http: &Client, base: &str, body: &Value) -> Result<(u16, Value)> {
    let response = http.post(format!("{base}/v1/payments")).header("prefer", "wait=0").json(body).send().await?;
    Ok((response.status().as_u16(), response.json().await?))
}

async fn nonce(source: &Chain, at: &str) -> Result<u64> {
    let submitter: Address = Role::Submitter.account().parse()?;
    let next: U64 = source.dev.rpc("eth_getTransactionCount", (submitter, at)).await?;
    Ok(next.to())
}

fn is_by_submitter(event: &PaymentEvent) -> bool {
    let (PaymentEvent::DepositPrepared(prepared) | PaymentEvent::ReleasePrepared(prepared)) = event else {
        return false;
    };
    prepared.sender.as_str() == Role::Submitter.account()
}

/// Gas of the payment's deposit transactions on chain, and how many there are.
async fn gas_of(world: &World, payment_id: &PaymentId) -> Result<(usize, u64)> {
    let (mut count, mut gas) = (0, 0);
    for event in world.events(payment_id, "DepositPrepared").await? {
        let PaymentEvent::DepositPrepared(prepared) = event else { continue };
        let receipt: Value =
            world.network.source.dev.rpc("eth_getTransactionReceipt", (&prepared.transaction_hash,)).await?;
        let used: U64 = serde_json::from_value(receipt["gasUsed"].clone()).context("it is in no block")?;
        ensure!(receipt["status"] == "0x0", "{receipt}");
        (count, gas) = (count + 1, gas + used.to::<u64>());
    }
    Ok((count, gas))
}

async fn failure(world: &World, payment_id: &PaymentId) -> Result<Value> {
    let outcome = world.outcome(payment_id).await?;
    ensure!(outcome.text("status") == "failed", "{outcome:?}");
    Ok(outcome.body["error"].clone())
}

/// Code that tells a trial from the real thing by the price of gas sees the real price in the trial; code that needs more than
/// a trial has is refused at once. Neither takes a nonce, neither costs anything, and nobody waits for them.
#[tokio::test(flavor = "multi_thread")]
async fn code_that_burns_for_a_price_takes_no_nonce_and_holds_nobody_up() -> Result<()> {
    let world = World::start(1).await?;
    let source = &world.network.source;
    let hostile = ContractPayer::new(source, HostileMood::BurnsForAPrice, 0).await?;
    let heavy = ContractPayer::new(source, HostileMood::Honest, 40_000_000).await?;
    let burning = ContractPayer::new(source, HostileMood::Burns, 0).await?;
    // Code that fails is the caller's fault, and no fault of ours.
    for payer in [&heavy, &burning] {
        let (status, answer) = payer.pays(&world, "too-heavy").await?;
        assert_eq!((status, &answer["code"]), (401, &json!("INVALID_SENDER_AUTH")), "{answer}");
    }
    let next = nonce(source, "pending").await?;
    let coins: U256 = source.dev.rpc("eth_getBalance", (Role::Submitter.account(), "latest")).await?;
    let attacks: Vec<_> = join_all((0..4).map(async |n| hostile.accepted(&world, &format!("attack-{n}")).await)).await;
    let attacks = attacks.into_iter().collect::<Result<Vec<_>>>()?;
    for payment_id in &attacks {
        let error = failure(&world, payment_id).await?;
        assert_eq!(error["code"], "SETTLEMENT_FAILED", "{error}");
        assert!(!world.types(payment_id).await?.contains(&"DepositPrepared"));
    }
    assert_eq!(nonce(source, "pending").await?, next, "no nonce was taken");
    let left: U256 = source.dev.rpc("eth_getBalance", (Role::Submitter.account(), "latest")).await?;
    assert_eq!(left, coins, "nothing was paid for them");

    // Beside more of them, a payment by a key waits for no nonce of theirs.
    let first = world.submit(&world.spec("alone")?).await?;
    world.until(&first, "EscrowSecured").await?;
    let others: Vec<_> = join_all((0..4).map(async |n| hostile.accepted(&world, &format!("beside-{n}")).await)).await;
    let second = world.submit(&world.spec("beside")?).await?;
    world.until(&second, "EscrowSecured").await?;
    for payment_id in others {
        let payment_id = payment_id?;
        world.until(&payment_id, "Failed").await?;
        assert!(!world.types(&payment_id).await?.contains(&"DepositPrepared"));
    }
    world.completed(&first).await?;
    world.completed(&second).await?;
    // Neither for them nor in their place, to fill a gap, was a nonce taken: what the submitter sent are the two payments.
    let mut taken = 0;
    for payment_id in [&first, &second] {
        let deposits = world.events(payment_id, "DepositPrepared").await?;
        let releases = world.events(payment_id, "ReleasePrepared").await?;
        taken += deposits.iter().chain(&releases).filter(|event| is_by_submitter(event)).count() as u64;
    }
    ensure!(taken >= 2 && nonce(source, "pending").await? == next + taken, "{taken} nonces from {next} on");

    // The control: the same code, behaving.
    let honest = ContractPayer::new(source, HostileMood::Honest, 0).await?;
    let payment_id = honest.accepted(&world, "honest").await?;
    world.completed(&payment_id).await?;
    world.settled_once(&[first, second, payment_id]).await
}

/// Code that turns between its trial and its block costs what one deposit may cost, so often as its account may, and is then
/// refused, also by a gateway that was started since.
#[tokio::test(flavor = "multi_thread")]
async fn code_that_turns_after_its_trial_costs_a_bounded_amount_and_is_then_refused() -> Result<()> {
    let mut world = World::start(1).await?;
    let turning = ContractPayer::new(&world.network.source, HostileMood::Honest, WORK).await?;
    let honest = ContractPayer::new(&world.network.source, HostileMood::Honest, 1).await?;
    let source = &world.network.source;
    // No block between the trial and the turn, as when somebody pays a block's maker for that.
    let _: Value = source.dev.rpc("evm_setIntervalMining", (0,)).await?;
    let next = nonce(source, "pending").await?;
    let mut attacks = Vec::new();
    for n in 0..8 {
        attacks.push(turning.accepted(&world, &format!("attack-{n}")).await?);
    }
    // As many as may be at stake at once; the rest wait, and take no nonce.
    eventually(|| async { nonce(source, "pending").await.is_ok_and(|now| now >= next + 4) }).await?;
    source.dev.turn_hostile_account(&turning.account, HostileMood::Burns).await?;
    let _: Value = source.dev.rpc("evm_mine", ()).await?;
    // What reverted could be sent again for as long as it is admitted, so no block comes before that is over.
    let _: Value = source.dev.rpc("evm_increaseTime", (ADMISSION_SECONDS + 5,)).await?;
    let _: Value = source.dev.rpc("evm_setIntervalMining", (1,)).await?;
    source.dev.turn_hostile_account(&turning.account, HostileMood::Honest).await?;
    let (mut transactions, mut gas) = (0, 0);
    for payment_id in &attacks {
        let error = failure(&world, payment_id).await?;
        assert_eq!(error["code"], "SETTLEMENT_FAILED", "{error}");
        let (count, used) = gas_of(&world, payment_id).await?;
        assert!(used <= DEPOSIT_GAS_MAX * count as u64, "{used} gas in {count} transactions");
        (transactions, gas) = (transactions + count, gas + used);
    }
    assert!((4..8).contains(&transactions), "the attack was made, and not as often as was tried: {transactions}");
    assert!((3_000_001..=ACCOUNT_LOSS_MAX).contains(&gas), "{gas} gas were burnt");

    let exhausted = async |world: &World, request_id: &str| {
        let (status, answer) = turning.pays(world, request_id).await?;
        assert_eq!((status, &answer["code"]), (429, &json!("CONTRACT_PAYER_EXHAUSTED")), "{answer}");
        anyhow::Ok(())
    };
    exhausted(&world, "again").await?;
    world.network.kill_gateway(0).await?;
    world.network.start_gateway(0).await?;
    world.network.ready(0).await?;
    exhausted(&world, "after-a-restart").await?;
    // The control: others pay, and what was accepted before is shown.
    let (status, answer) = turning.pays(&world, "again").await?;
    assert_eq!(status, 429, "{answer}");
    let payments = [honest.accepted(&world, "honest").await?, world.submit(&world.spec("by-key")?).await?];
    for payment_id in &payments {
        world.completed(payment_id).await?;
    }
    world.settled_once(&payments).await
}

/// A crowd that has signatures judged by contracts takes nothing from payers with keys.
#[tokio::test(flavor = "multi_thread")]
async fn a_crowd_of_contracts_signatures_keeps_no_key_waiting() -> Result<()> {
    let world = World::start(1).await?;
    let source = &world.network.source;
    let burning = ContractPayer::new(source, HostileMood::Burns, 0).await?;
    let body = burning.body(&world, "crowd").await?;
    let mut honest = Vec::new();
    for n in 0..20 {
        let mut spec = world.spec(&format!("honest-{n}"))?;
        // Signed beforehand, and still in time on a machine that the crowd keeps busy.
        (spec.quote_window, spec.fulfillment_window) = (Duration::from_secs(120), Duration::from_secs(240));
        honest.push(world.payer.sign(&world.base(0), &spec).await?);
    }
    let base = world.base(0);
    let answered = Arc::new(AtomicUsize::new(0));
    let crowd: Vec<_> = (0..100)
        .map(|n| {
            let (base, mut body, answered) = (base.clone(), body.clone(), answered.clone());
            tokio::spawn(async move {
                let http = Client::new();
                for round in 0..10_000 {
                    body["request_id"] = format!("crowd-{n}-{round}").into();
                    if submit(&http, &base, &body).await.is_ok_and(|(status, _)| status != 200) {
                        answered.fetch_add(1, Ordering::Relaxed);
                    }
                    tokio::task::yield_now().await;
                }
            })
        })
        .collect();
    eventually(|| async { answered.load(Ordering::Relaxed) > 0 }).await?;
    let http = Client::new();
    let mut accepted = Vec::new();
    for body in &honest {
        let (status, answer) = submit(&http, &base, body).await?;
        assert_eq!(status, 200, "{answer}");
        accepted.push(answer["payment_id"].as_str().unwrap_or_default().parse::<PaymentId>()?);
    }
    for attacker in &crowd {
        attacker.abort();
    }
    let first = accepted.first().context("the first of twenty")?;
    world.completed(first).await
}
