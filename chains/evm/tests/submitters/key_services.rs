//! Keys at services that do not answer: nonces go back, other accounts take over, and nothing is sent twice.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use alloy::primitives::{Address, Signature};
use tokio::sync::Semaphore;

use chains_evm::node::Node;
use sagas::ports::DepositOrder;
use signer::{Hash, Secp256k1, Secp256k1Key, SignError, Signer};

use super::*;

/// A key at a service. While it is away it signs, and the answer gets lost: the worst of time-outs.
#[derive(Debug, Clone)]
struct Service {
    key: Secp256k1Key,
    away: Arc<AtomicBool>,
    asked: Arc<AtomicUsize>,
    /// How often it may answer, or be taken for away.
    answers: Arc<Semaphore>,
}

impl Service {
    fn of(signer: &PrivateKeySigner) -> Self {
        let answers = Arc::new(Semaphore::new(Semaphore::MAX_PERMITS));
        Self { key: signer.clone().into(), away: Arc::default(), asked: Arc::default(), answers }
    }

    /// One that lets who asks wait until there are `answers`.
    fn held(signer: &PrivateKeySigner) -> Self {
        Self { answers: Arc::new(Semaphore::new(0)), ..Self::of(signer) }
    }

    fn is_away(&self, away: bool) {
        self.away.store(away, Ordering::SeqCst);
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

#[async_trait::async_trait]
impl Signer<Secp256k1> for Service {
    fn public(&self) -> Address {
        self.key.address()
    }

    async fn sign(&self, hash: Hash, message: &[u8]) -> Result<Signature, SignError> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        let signature = self.key.sign(hash, message).await?;
        self.answers.acquire().await.expect("it is not closed").forget();
        match self.away.load(Ordering::SeqCst) {
            false => Ok(signature),
            true => {
                Err(SignError::Unreachable { key: "the service".to_owned(), reason: "no answer in time".to_owned() })
            }
        }
    }

    async fn check(&self) -> Result<(), SignError> {
        Ok(())
    }
}

/// The engine's port over the source chain with keys at these services, on the ledger, the budgets and the clock of `world`.
fn at_services(world: &World, submitters: &[&Service], exit_submitters: &[&Service]) -> Result<EvmChain> {
    source_chain(world, keys_at(submitters, exit_submitters), world.ledger.clone())
}

fn keys_at(submitters: &[&Service], exit_submitters: &[&Service]) -> Keys {
    let keys = |services: &[&Service]| services.iter().map(|service| Secp256k1Key::new((*service).clone())).collect();
    Keys {
        reserver: key(2).into(),
        draining_reservers: Vec::new(),
        submitters: keys(submitters),
        exit_submitters: keys(exit_submitters),
        draining_submitters: Vec::new(),
    }
}

/// The fault of a preparation that no key signed.
async fn unsigned(chains: &EvmChain, order: &DepositOrder) -> Result<()> {
    match chains.prepare_deposit(order, 1).await {
        Err(PrepareError::Transient(fault)) => {
            ensure!(fault.to_string().contains("no answer in time"), "{fault}");
            Ok(())
        }
        other => bail!("not unsigned: {other:?}"),
    }
}

/// The purposes of the account's nonces, in order.
async fn purposes(world: &World, signer: &PrivateKeySigner) -> Result<Vec<String>> {
    let open = world.ledger.open(&submitter_account(world, signer)).await?;
    Ok(open.into_iter().map(|open| open.purpose.0).collect())
}

/// Two funded submitters, and a payment of which the first of them is the preferred one.
async fn two(world: &World) -> Result<([PrivateKeySigner; 2], Payment)> {
    let [one, other] = [key(60), key(61)];
    for signer in [&one, &other] {
        world.source.dev.fund(&text(signer), U256::from(10).pow(U256::from(20))).await?;
    }
    let payment = world.payment("order-0")?;
    let keys = keys_at(&[&Service::of(&one), &Service::of(&other)], &[]);
    let probe = source_chain(world, keys, Arc::default())?;
    let preferred = probe.prepare_deposit(&payment.deposit(), 1).await?.sender;
    let signers = if preferred.as_str() == text(&one) { [one, other] } else { [other, one] };
    Ok((signers, payment))
}

#[tokio::test]
async fn a_nonce_that_nothing_was_signed_with_is_the_next_payments() -> Result<()> {
    let world = World::start().await?;
    let service = Service::of(&world.submitter);
    let chains = at_services(&world, &[&service], &[])?;
    let payments: Vec<_> = (0..3).map(|n| world.payment(&format!("order-{n}"))).collect::<Result<_>>()?;
    let first = world.source.next_nonce(&world.submitter).await?;
    service.is_away(true);
    for payment in &payments {
        unsigned(&chains, &payment.deposit()).await?;
    }
    assert_eq!(purposes(&world, &world.submitter).await?, [format!("free/{first}")]);
    // Nothing waits behind it, so it is not used up however long it lies there.
    for _ in 0..8 {
        world.clock.advance(REPRICE_SECONDS as i64 + 1);
        chains.maintain_once().await;
    }
    assert_eq!(world.source.next_nonce(&world.submitter).await?, first);
    service.is_away(false);
    for (n, payment) in payments.iter().enumerate().rev() {
        let prepared = chains.prepare_deposit(&payment.deposit(), 1).await?;
        assert_eq!(nonce_of(&prepared), first + 2 - n as u64, "no gap is left");
        chains.broadcast(&prepared).await?;
        world.source.mine(1 + DEPTH).await?;
        let state = chains.deposit_state(&payment.deposit(), from_ref(&prepared)).await?;
        assert!(matches!(state, DepositState::Secured(_)), "{state:?}");
    }
    Ok(())
}

#[tokio::test]
async fn a_nonce_behind_which_others_were_sent_is_filled_by_the_next_payment() -> Result<()> {
    let world = World::start().await?;
    let held = Service::held(&world.submitter);
    held.is_away(true);
    let slow = Arc::new(at_services(&world, &[&held], &[])?);
    let [dies, waits, next] = ["dies", "waits", "next"].map(|name| world.payment(name));
    let (dies, waits, next) = (dies?.deposit(), waits?, next?);
    let preparing = tokio::spawn(async move { unsigned(&slow, &dies).await });
    eventually("the service is asked", async || Ok(held.asked() == 1)).await?;
    let behind = world.chains.prepare_deposit(&waits.deposit(), 1).await?;
    world.chains.broadcast(&behind).await?;
    held.answers.add_permits(1);
    preparing.await??;
    let fills = world.chains.prepare_deposit(&next.deposit(), 1).await?;
    assert_eq!(nonce_of(&fills) + 1, nonce_of(&behind));
    world.chains.broadcast(&fills).await?;
    world.reaches(nonce_of(&behind) + 1).await
}

/// Payments go to others while its key counts as away, so nobody takes it.
#[tokio::test]
async fn a_nonce_behind_which_others_were_sent_is_used_up_at_the_next_look() -> Result<()> {
    let world = World::start().await?;
    let held = Service::held(&world.submitter);
    held.is_away(true);
    let slow = Arc::new(at_services(&world, &[&held], &[])?);
    let (dies, waits) = (world.payment("dies")?.deposit(), world.payment("waits")?);
    let preparing = tokio::spawn(async move { unsigned(&slow, &dies).await });
    eventually("the service is asked", async || Ok(held.asked() == 1)).await?;
    let behind = world.chains.prepare_deposit(&waits.deposit(), 1).await?;
    world.chains.broadcast(&behind).await?;
    held.answers.add_permits(1);
    preparing.await??;
    at_services(&world, &[&Service::of(&world.submitter)], &[])?.maintain_once().await;
    world.reaches(nonce_of(&behind) + 1).await
}

/// Two workers have the same payment for a moment, and only one of them fails.
#[tokio::test]
async fn a_nonce_that_another_worker_may_have_signed_with_stays() -> Result<()> {
    let world = World::start().await?;
    let held = Service::held(&world.submitter);
    held.is_away(true);
    let slow = Arc::new(at_services(&world, &[&held], &[])?);
    let (shared, other) = (world.payment("shared")?, world.payment("other")?);
    let order = shared.deposit();
    let preparing = tokio::spawn({
        let slow = slow.clone();
        let order = order.clone();
        async move { unsigned(&slow, &order).await }
    });
    eventually("the service is asked", async || Ok(held.asked() == 1)).await?;
    // The one that fails was first; then it comes second, also after a long time.
    let prepared = world.chains.prepare_deposit(&order, 1).await?;
    held.answers.add_permits(2);
    preparing.await??;
    unsigned(&slow, &order).await?;
    world.clock.advance(11);
    held.answers.add_permits(1);
    unsigned(&slow, &order).await?;
    assert_eq!(purposes(&world, &world.submitter).await?, [Purpose::deposit(shared.id(), 1).0]);
    let behind = world.chains.prepare_deposit(&other.deposit(), 1).await?;
    assert_eq!(nonce_of(&behind), nonce_of(&prepared) + 1);
    world.chains.broadcast(&prepared).await?;
    world.chains.broadcast(&behind).await?;
    world.source.mine(1 + DEPTH).await?;
    for (payment, prepared) in [(&shared, &prepared), (&other, &behind)] {
        let state = world.chains.deposit_state(&payment.deposit(), from_ref(prepared)).await?;
        assert!(matches!(state, DepositState::Secured(_)), "{state:?}");
    }
    Ok(())
}

#[tokio::test]
async fn others_take_over_from_a_key_that_does_not_answer_and_it_is_tried_again() -> Result<()> {
    let world = World::start().await?;
    let ([preferred, other], payment) = two(&world).await?;
    let (away, there) = (Service::of(&preferred), Service::of(&other));
    // In the order of the configuration, whichever is preferred.
    let mut services = [&away, &there];
    services.sort_by_key(|service| service.public() != key(60).address());
    let chains = at_services(&world, &services, &[])?;
    away.is_away(true);
    unsigned(&chains, &payment.deposit()).await?;
    assert_eq!((away.asked(), there.asked()), (1, 0));
    let prepared = chains.prepare_deposit(&payment.deposit(), 1).await?;
    assert_eq!((prepared.sender.as_str(), away.asked()), (text(&other).as_str(), 1));
    assert_eq!(purposes(&world, &preferred).await?.len(), 1, "its free nonce");
    // What has a nonce stays with its account, also when the first answers again.
    away.is_away(false);
    world.clock.advance(61);
    let again = chains.prepare_deposit(&payment.deposit(), 1).await?;
    assert_eq!((&again.sender, again.validity), (&prepared.sender, prepared.validity));
    let mut senders = Vec::new();
    for n in 0..8 {
        let payment = world.payment(&format!("later-{n}"))?;
        senders.push(chains.prepare_deposit(&payment.deposit(), 1).await?.sender.to_string());
    }
    assert!(senders.contains(&text(&preferred)) && senders.contains(&text(&other)), "{senders:?}");
    // Where none answers, each payment has its own first, and where the others have no coins, it has to wait.
    away.is_away(true);
    let fresh = world.payment("order-0")?;
    let order = DepositOrder { payment_id: fresh.id().clone(), ..fresh.deposit() };
    assert!(matches!(chains.prepare_deposit(&order, 2).await, Err(PrepareError::Transient(_))));
    world.source.dev.fund(&text(&other), U256::ZERO).await?;
    let asked = away.asked();
    assert!(matches!(chains.prepare_deposit(&order, 2).await, Err(PrepareError::Transient(_))));
    assert_eq!(away.asked(), asked + 1, "nobody else can pay");
    Ok(())
}

/// A payment whose nonce may have been signed with does not move to another account.
#[tokio::test]
async fn what_has_a_nonce_waits_for_its_key() -> Result<()> {
    let world = World::start().await?;
    let ([preferred, other], payment) = two(&world).await?;
    let (away, there) = (Service::of(&preferred), Service::of(&other));
    let mut services = [&away, &there];
    services.sort_by_key(|service| service.public() != key(60).address());
    let chains = at_services(&world, &services, &[])?;
    let first = chains.prepare_deposit(&payment.deposit(), 1).await?;
    assert_eq!(first.sender.as_str(), text(&preferred));
    away.is_away(true);
    for _ in 0..2 {
        unsigned(&chains, &payment.deposit()).await?;
    }
    assert_eq!((purposes(&world, &preferred).await?.len(), there.asked()), (1, 0));
    away.is_away(false);
    let again = chains.prepare_deposit(&payment.deposit(), 1).await?;
    assert_eq!((again.sender, again.validity), (first.sender, first.validity));
    Ok(())
}

#[tokio::test]
async fn usual_submitters_take_exits_over_from_a_key_that_does_not_answer() -> Result<()> {
    let world = World::start().await?;
    let payment = world.payment("order")?;
    world.secure(&payment).await?;
    world.source.pass(payment.escrow.refund_after).await?;
    let for_exits = key(61);
    world.source.dev.fund(&text(&for_exits), U256::from(10).pow(U256::from(20))).await?;
    let (usual, exits) = (Service::of(&world.submitter), Service::of(&for_exits));
    let chains = at_services(&world, &[&usual], &[&exits])?;
    let order = RefundOrder { payment_id: payment.id().clone(), escrow: payment.escrow.clone(), non_delivery: None };
    exits.is_away(true);
    assert!(matches!(chains.prepare_refund(&order, 1).await, Err(PrepareError::Transient(_))));
    let prepared = chains.prepare_refund(&order, 1).await?;
    assert_eq!(prepared.sender.as_str(), text(&world.submitter));
    assert_eq!((exits.asked(), usual.asked()), (1, 1));
    Ok(())
}

#[tokio::test]
async fn a_payer_is_not_charged_for_deposits_that_nobody_signed() -> Result<()> {
    let world = World::start().await?;
    let service = Service::of(&world.submitter);
    let (most, mut config) = (3, world.source.config.clone());
    config.gas.account_deposits_max = most;
    let (ledger, budgets, clock) = (world.ledger.clone(), world.budgets.clone(), world.clock.clone());
    let chains = EvmChain::new(Node::connect(&config)?, Some(keys_at(&[&service], &[])), ledger, budgets, clock)?;
    service.is_away(true);
    for n in 0..=most {
        unsigned(&chains, &world.payment(&format!("unsigned-{n}"))?.deposit()).await?;
    }
    service.is_away(false);
    for n in 0..most {
        chains.prepare_deposit(&world.payment(&format!("signed-{n}"))?.deposit(), 1).await?;
    }
    // The control: what was signed counts, and still does when it is not signed again.
    service.is_away(true);
    unsigned(&chains, &world.payment("signed-0")?.deposit()).await?;
    service.is_away(false);
    let one_more = world.payment("one-more")?;
    assert!(matches!(chains.prepare_deposit(&one_more.deposit(), 1).await, Err(PrepareError::Waiting(_))));
    Ok(())
}
