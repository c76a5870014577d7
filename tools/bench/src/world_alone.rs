//! The simulated world and the load by themselves: the questions that the engine asks about an undisturbed payment, put to the
//! world by the clients. What this takes of the processor is what the bench itself takes of a whole payment.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use anyhow::{Context as _, Result, bail, ensure};
use chrono::Utc;
use ed25519_dalek::SigningKey;
use tokio::time::timeout;

use events::{Did, PaymentEvent, PaymentId, quote::auction_of};
use journal::{Commit, memory::MemoryJournal};
use sagas::{
    handlers::{Action, Step, next},
    payment::{Stage, fold},
    ports::{Auction as _, Chains as _, DeliveryState, DepositState, EscrowState, Statement, Verifier as _},
};

use crate::{
    context::{Context, SHARDS},
    environment::PATIENCE,
    load::{self, Answered, Bound, Caller},
    machine::processor_time,
    orders::{Order, in_parallel},
    payment_commits::after_submission,
    world::{SETTLER, WINDOW, World},
};

/// A payment's commits, and what the engine asks for between them.
struct Script {
    payment_id: PaymentId,
    commits: Vec<Commit>,
    actions: Vec<Action>,
}

impl Script {
    fn new(order: &Order, settler: &SigningKey) -> Result<Self> {
        let submitted = order.commit()?;
        // Before the gateway would bring the release itself.
        let now = Utc::now() - Duration::from_secs(1);
        let mut events: Vec<PaymentEvent> =
            submitted.events.iter().filter_map(|event| event.payment()).cloned().collect();
        let (mut commits, mut actions) = (Vec::new(), Vec::new());
        for decision in std::iter::once(Vec::new()).chain(after_submission(order, settler)?) {
            events.extend(decision.iter().cloned());
            let mut commit = submitted.clone();
            if !decision.is_empty() {
                commit.events = decision.into_iter().map(Into::into).collect();
            }
            commits.push(commit);
            let payment = fold(&events)?.context("a payment")?;
            match next(&payment, now) {
                Step::Do(action) => actions.push(*action),
                Step::WaitUntil(_) => bail!("an undisturbed payment waits for nothing"),
                Step::Rest => ensure!(payment.stage() == Stage::Rest, "the payment stops at {:?}", payment.stage()),
            }
        }
        Ok(Self { payment_id: order.payment_id.clone(), commits, actions })
    }

    /// Asks as the runner does.
    async fn play(&self, world: &World) -> Result<()> {
        let at_rest = world.expect(self.payment_id.clone());
        for (number, commit) in self.commits.iter().enumerate() {
            world.stored(commit);
            if let Some(action) = self.actions.get(number) {
                ask(world, action).await?;
            }
        }
        timeout(PATIENCE, at_rest).await.context("the world does not see the end of a payment")??;
        Ok(())
    }
}

async fn ask(world: &World, action: &Action) -> Result<()> {
    match action {
        Action::GatherBids(request) => {
            let gathered = world.gather(request).await?;
            ensure!(gathered.bids.len() == 1, "one settler quotes");
        }
        Action::SecureDeposit { award, order, attempt } => {
            world.award(award).await?;
            world.answer(award).await?;
            world.prepare_deposit(order, *attempt).await?;
        }
        Action::FollowDeposit { order, versions } => {
            let state = world.deposit_state(order, versions).await?;
            ensure!(matches!(state, DepositState::Pending), "a deposit is seen before it is sent: {state:?}");
            world.deposit_mined(order, versions).await?;
            world.reprice(versions).await?;
            world.broadcast(versions.last().context("a deposit")?).await?;
            let state = world.deposit_state(order, versions).await?;
            ensure!(matches!(state, DepositState::Secured(_)), "a deposit that was sent is {state:?}");
        }
        Action::FollowDelivery { order, case, verifier, payout_account, .. } => {
            // First seen, then final and attested.
            if let DeliveryState::Final(_) = world.delivery_state(order).await? {
                let attestation =
                    world.attest_delivery(&verifier.members()[0], case).await?.context("an attestation")?;
                let (payment_id, quote_hash) = (order.payment_id.clone(), order.quote_hash);
                let statement = Statement::Delivery { payment_id, quote_hash, payout_account: payout_account.clone() };
                world.attestation_holds(&statement, &case.escrow, &attestation).await?;
            }
        }
        Action::FollowEscrow { payment_id, escrow, .. } => {
            let state = world.escrow_state(payment_id, escrow).await?;
            let EscrowState::Released(end) = state else { bail!("the escrow is {state:?}") };
            world.claims(payment_id, escrow, &end).await?;
        }
        other => bail!("an undisturbed payment does not ask for this: {other:?}"),
    }
    Ok(())
}

struct Client {
    world: World,
    scripts: Arc<Vec<Mutex<Option<Script>>>>,
}

impl Caller for Client {
    async fn call(&mut self, number: usize) -> Result<Answered> {
        let script = self.scripts[number].lock().map(|mut script| script.take()).ok().flatten();
        script.context("a payment is played once")?.play(&self.world).await?;
        Ok(Answered::Served)
    }
}

/// Processor time that world and load take for each payment, with so many in flight.
///
/// # Errors
/// When the world answers otherwise than it does to the engine.
pub async fn measure(context: &Context, payments: usize, in_flight: usize) -> Result<Duration> {
    let settler = settler::dev::key(SETTLER).context("the demo's settlers")?;
    // It is never asked: nothing of an engine or a journal is in the figure.
    let world = World::new(Arc::new(MemoryJournal::new(SHARDS)), Did::from_ed25519(&settler.verifying_key()));
    let orders = context.payer.sign("world-alone", 0..payments, WINDOW)?;
    let quote = |number: usize| Ok((auction_of(&orders[number].payment_id), orders[number].quote(&settler)?));
    world.quotes(in_parallel(0..payments, quote)?);
    let script = |number: usize| Ok(Mutex::new(Some(Script::new(&orders[number], &settler)?)));
    let scripts = Arc::new(in_parallel(0..payments, script)?);
    let clients = (0..in_flight).map(|_| Client { world: world.clone(), scripts: scripts.clone() }).collect();
    let before = processor_time(std::process::id())?;
    let (load, _) = load::closed(clients, Bound { calls: payments, time: PATIENCE }).await?;
    let used = processor_time(std::process::id())?.saturating_sub(before);
    ensure!(load.served == payments as u64, "{} of {payments} payments were played", load.served);
    Ok(used / u32::try_from(load.served.max(1))?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::orders::Payer;

    #[tokio::test(flavor = "multi_thread")]
    async fn what_is_asked_of_the_world_brings_a_payment_to_rest() {
        let order = Payer::new().unwrap().sign("t", 0..1, Duration::from_secs(60)).unwrap().remove(0);
        let settler = settler::dev::key(SETTLER).unwrap();
        let script = Script::new(&order, &settler).unwrap();
        assert_eq!((script.commits.len(), script.actions.len()), (7, 6));
        let world = World::new(Arc::new(MemoryJournal::new(1)), Did::from_ed25519(&settler.verifying_key()));
        world.quotes([(auction_of(&order.payment_id), order.quote(&settler).unwrap())]);
        script.play(&world).await.unwrap();
        assert_eq!(world.take_counts(), (7, 0));
        let times = world.take_times();
        // Secured, seen, final, released, and the commit of the release.
        assert_eq!((times.to_deposit.count(), times.between_events.count()), (1, 5));
    }
}
