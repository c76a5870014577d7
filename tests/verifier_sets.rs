//! A set of three verifiers of which two have to attest, on every family of chains: one that is dead or hostile changes nothing,
//! and without a second the settler's money waits in the escrow.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering},
};

use alloy::{primitives::B256, signers::SignerSync};
use anyhow::{Context, Result, ensure};
use axum::{Router, body::Bytes, extract::State, http::Uri, response::IntoResponse};
use reqwest::{
    StatusCode,
    header::{CONTENT_TYPE, HeaderMap},
};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::task::AbortOnDropHandle;

use devnet::{
    keys::Role,
    network::{Options, Verifiers},
    solana::SolanaOptions,
    tron::TronOptions,
};
use events::{
    Account, Family, PaymentEvent, PaymentId,
    event::{MemberAttested, RefundDue},
    time::unix_seconds,
    verifier_set::SetAttestation,
};
use protocol::message_signature::Signer;

use crate::support::{solana::*, tron::*, *};

/// How many of the three have to attest.
const THRESHOLD: u8 = 2;
/// How often each wrong answer is given before it counts as having been of no use, to the gateway and the settler.
const WRONG_ANSWERS: usize = 2;
/// Long enough that money that comes back earlier came by the verifiers' word.
const REFUND_DELAY_SECONDS: u64 = 300;

/// What a hostile member says in the place of its own statement.
#[derive(Debug, Clone, Copy)]
enum Wrong {
    /// Bytes of a signature's length.
    Noise,
    /// What the first verifier answers, so that its signature counts twice.
    AnothersWord,
    /// A signature of its own key under something else.
    AnotherStatement,
}

impl Wrong {
    const ALL: [Self; 3] = [Self::Noise, Self::AnothersWord, Self::AnotherStatement];
}

/// A member of the set gone bad: it answers every ask at once, never with what it was asked for.
struct Hostile {
    given: [AtomicUsize; Wrong::ALL.len()],
    asks: AtomicUsize,
    /// The verifier whose word it repeats.
    honest: String,
    http: reqwest::Client,
    /// Asks that could not be answered as meant.
    faults: Mutex<Vec<String>>,
}

impl Hostile {
    /// In the place of verifier `n`, which does not run.
    async fn in_place_of(world: &World, n: u8) -> Result<(Arc<Self>, AbortOnDropHandle<()>)> {
        let hostile = Arc::new(Self {
            given: Default::default(),
            asks: AtomicUsize::default(),
            honest: world.network.verifier_endpoint(1),
            http: reqwest::Client::new(),
            faults: Mutex::default(),
        });
        let listener = TcpListener::bind(world.network.verifier_endpoint(n).trim_start_matches("http://")).await?;
        let router = Router::new().fallback(answer).with_state(Arc::clone(&hostile));
        let serving = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Ok((hostile, AbortOnDropHandle::new(serving)))
    }

    async fn signature(&self, wrong: Wrong, path: &str, body: Bytes) -> Result<String> {
        match wrong {
            Wrong::Noise => Ok(format!("0x{}", "5a".repeat(65))),
            Wrong::AnotherStatement => {
                Ok(Role::verifier(3).signer().sign_hash_sync(&B256::repeat_byte(0x5a))?.to_string())
            }
            Wrong::AnothersWord => {
                let url = format!("{}{path}", self.honest);
                let signer = Signer::new(settler::dev::key(1).context("the network has three settlers")?);
                let headers = HeaderMap::from_iter(signer.sign("POST", &url, &body, unix_seconds(chrono::Utc::now())));
                let sent = self.http.post(url).headers(headers).header(CONTENT_TYPE, "application/json").body(body);
                let answer: Value = sent.send().await?.json().await?;
                Ok(answer["signature"].as_str().with_context(|| answer.to_string())?.to_owned())
            }
        }
    }

    /// Waits until every wrong answer was given a few times since `before`.
    async fn is_heard(&self) -> Result<()> {
        let before = self.given.each_ref().map(|given| given.load(Ordering::SeqCst));
        let now = || {
            self.given.iter().zip(before).all(|(given, before)| given.load(Ordering::SeqCst) >= before + WRONG_ANSWERS)
        };
        eventually(|| async { now() }).await.with_context(|| format!("{:?}", self.faults.lock().unwrap()))
    }
}

async fn answer(State(hostile): State<Arc<Hostile>>, uri: Uri, body: Bytes) -> axum::response::Response {
    let turn = hostile.asks.fetch_add(1, Ordering::SeqCst) % Wrong::ALL.len();
    match hostile.signature(Wrong::ALL[turn], uri.path(), body).await {
        Ok(signature) => {
            hostile.given[turn].fetch_add(1, Ordering::SeqCst);
            axum::Json(json!({"version": "1.0", "status": "attested", "signature": signature})).into_response()
        }
        Err(fault) => {
            hostile.faults.lock().unwrap().push(fault.to_string());
            StatusCode::SERVICE_UNAVAILABLE.into_response()
        }
    }
}

/// The accounts of these verifiers on chains of `family`, in the set's order.
fn accounts(family: Family, numbers: &[u8]) -> Result<Vec<Account>> {
    let accounts = numbers.iter().map(|n| Ok(Role::verifier(*n).account_on(family).parse()?));
    let mut accounts = accounts.collect::<Result<Vec<Account>>>()?;
    accounts.sort_by_cached_key(Account::to_bytes);
    Ok(accounts)
}

impl World {
    async fn with_verifier_set() -> Result<Self> {
        Self::with(|options| Options {
            verifiers: Verifiers { members: 3, threshold: THRESHOLD },
            solana: Some(SolanaOptions::default()),
            tron: Some(TronOptions::default()),
            refund_delay_seconds: REFUND_DELAY_SECONDS,
            ..options
        })
        .await
    }

    /// Who attested the payment's delivery, or its absence, as the journal has it, in the set's order.
    async fn attested_by(&self, payment_id: &PaymentId, event: &str) -> Result<Vec<Account>> {
        let events = self.events(payment_id, event).await?;
        let members = events.into_iter().map(|event| match event {
            PaymentEvent::DeliveryAttested(MemberAttested { member, .. })
            | PaymentEvent::NonDeliveryAttested(MemberAttested { member, .. }) => Ok(member),
            other => anyhow::bail!("{other:?}"),
        });
        let mut members = members.collect::<Result<Vec<_>>>()?;
        members.sort_by_cached_key(Account::to_bytes);
        Ok(members)
    }

    /// Checks that `attestation` is the word of the network's set, signed by these members, and each of them on record.
    async fn is_word_of(&self, payment_id: &PaymentId, attestation: &str, event: &str, numbers: &[u8]) -> Result<()> {
        let releaser = self.releaser(payment_id).await?;
        let family = releaser.family();
        let word = SetAttestation::parse(family, attestation).with_context(|| attestation.to_owned())?;
        ensure!(word.id == releaser, "another set: {word:?}");
        ensure!((word.threshold, word.members.len()) == (THRESHOLD, 3), "{word:?}");
        let signers: Vec<_> = word.signatures.iter().map(|(signer, _)| signer.clone()).collect();
        let expected = accounts(family, numbers)?;
        ensure!(signers == expected, "signed by {signers:?}");
        let attested = self.attested_by(payment_id, event).await?;
        ensure!(attested == expected, "{event} of {attested:?}");
        Ok(())
    }

    /// The releaser that the payment's payer signed for, which is the set.
    async fn releaser(&self, payment_id: &PaymentId) -> Result<Account> {
        match self.events(payment_id, "Submitted").await?.remove(0) {
            PaymentEvent::Submitted(submitted) => Ok(submitted.escrow.releaser),
            other => anyhow::bail!("{other:?}"),
        }
    }

    /// Checks that a payment is completed and its settler paid by the signatures of these verifiers, and that the audit proves it.
    async fn released_by(&self, payment_id: &PaymentId, numbers: &[u8]) -> Result<String> {
        self.completed(payment_id).await?;
        let attestation = match self.events(payment_id, "FulfillmentConfirmed").await?.as_slice() {
            [PaymentEvent::FulfillmentConfirmed(confirmed)] => confirmed.attestation.clone(),
            other => anyhow::bail!("{payment_id}: {other:?}"),
        };
        self.is_word_of(payment_id, &attestation, "DeliveryAttested", numbers).await?;
        self.audited(payment_id).await?;
        Ok(attestation)
    }

    /// What the transaction that released a payment on the source chain was called with.
    async fn release_call(&self, payment_id: &PaymentId) -> Result<String> {
        let [PaymentEvent::EscrowReleased(released)] = &self.events(payment_id, "EscrowReleased").await?[..] else {
            anyhow::bail!("{payment_id} was not released once");
        };
        let hash = (released.inclusion.transaction_hash.clone(),);
        let transaction: Value = self.network.source.dev.rpc("eth_getTransactionByHash", hash).await?;
        Ok(transaction["input"].as_str().context("no input")?.to_owned())
    }

    /// Checks that no more than one verifier is on record and the money is still in the escrow, though the payment is completed.
    async fn waits_for_a_second(&self, payment_id: &PaymentId) -> Result<()> {
        let outcome = self.outcome(payment_id).await?;
        ensure!(outcome.text("status") == "completed", "{outcome:?}");
        let attested = self.attested_by(payment_id, "DeliveryAttested").await?;
        ensure!(attested == accounts(Family::Evm, &[1])?, "attested by {attested:?}");
        let types = self.types(payment_id).await?;
        ensure!(!types.contains(&"FulfillmentConfirmed"), "{types:?}");
        ensure!(logs(&self.network.source, RELEASED, payment_id).await? == 0, "released by one");
        Ok(())
    }
}

/// Checks that the payer of a payment that nobody delivered has the money back by the word of two verifiers, before the window.
async fn is_refunded_by_two(world: &World, payment_id: &PaymentId) -> Result<()> {
    let RefundDue::ByNonDelivery { attestation } = world.failed(payment_id).await? else {
        anyhow::bail!("{payment_id} is not refunded by the verifiers' word");
    };
    world.is_word_of(payment_id, &attestation, "NonDeliveryAttested", &[1, 2]).await?;
    world.until(payment_id, "EscrowRefunded").await?;
    let (submitted, refunded) =
        (world.events(payment_id, "Submitted").await?, world.events(payment_id, "EscrowRefunded").await?);
    match (&submitted[0], &refunded[0]) {
        (PaymentEvent::Submitted(submitted), PaymentEvent::EscrowRefunded(refunded)) => {
            ensure!(refunded.inclusion.block_time < submitted.escrow.refund_after, "by its window: {refunded:?}");
        }
        other => anyhow::bail!("{other:?}"),
    }
    world.audited(payment_id).await
}

#[tokio::test(flavor = "multi_thread")]
async fn two_of_three_verifiers_are_enough_and_fewer_are_not() -> Result<()> {
    let mut world = World::with_verifier_set().await?;
    let before = world.balances().await?;
    world.network.kill_verifier(3).await?;

    // One is dead: on every family of chains the other two have the settler paid.
    let undelivered = world.submit(&world.undeliverable_spec("undelivered")?).await?;
    let from_evm = world.submit(&world.spec("from-evm")?).await?;
    let from_solana = world.submit_by(&solana_payer()?, &world.spec_from_solana("from-solana")?).await?;
    let from_tron = world.submit_by(&tron_payer()?, &world.spec_from_tron("from-tron")?).await?;
    world.until(&undelivered, "EscrowSecured").await?;
    world.network.kill_settler(3).await?;
    let attestation = world.released_by(&from_evm, &[1, 2]).await?;
    world.released_by(&from_solana, &[1, 2]).await?;
    world.released_by(&from_tron, &[1, 2]).await?;
    let call = world.release_call(&from_evm).await?;
    ensure!(call.contains(attestation.trim_start_matches("0x")), "{attestation} did not release by {call}");
    assert_eq!(world.escrow_transactions(&from_solana).await?, 2, "a deposit and a release");
    assert_eq!(world.tron_logs(RELEASED, &from_tron).await?, 1);

    // Two are dead: the delivery completes the payment, and the settler waits.
    world.network.kill_verifier(2).await?;
    let waiting = world.submit(&world.spec("waiting")?).await?;
    world.until(&waiting, "AttestationAwaited").await?;
    world.waits_for_a_second(&waiting).await?;
    world.until(&undelivered, "NonDeliveryAttested").await?;

    // A member that says anything but what it is asked for is as good as dead.
    let (hostile, _serving) = Hostile::in_place_of(&world, 3).await?;
    let beside_hostile = world.submit(&world.spec("beside-hostile")?).await?;
    world.until(&beside_hostile, "FulfillmentFinalized").await?;
    hostile.is_heard().await?;
    world.until(&beside_hostile, "DeliveryAttested").await?;
    world.waits_for_a_second(&beside_hostile).await?;
    world.waits_for_a_second(&waiting).await?;
    assert_eq!(world.attested_by(&undelivered, "NonDeliveryAttested").await?, accounts(Family::Evm, &[1])?);
    ensure!(!world.types(&undelivered).await?.contains(&"Failed"), "one verifier ended it");

    // The second is back, and all that waited for it goes on.
    world.network.start_verifier(2).await?;
    for payment_id in [&waiting, &beside_hostile] {
        world.released_by(payment_id, &[1, 2]).await?;
    }
    is_refunded_by_two(&world, &undelivered).await?;
    world.settled_once(&[from_evm, waiting, beside_hostile]).await?;
    let (amount, price) = (i128::from(AMOUNT), i128::from(PRICE));
    let expected = Moves::from([("payer", -3 * price), ("recipient", 5 * amount)]);
    assert_eq!(moves(&before, &world.balances().await?), expected);
    Ok(())
}
