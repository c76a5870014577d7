//! Nonces: one that nobody sends with is used up, and one that somebody may still send with is left alone.

use super::*;

#[tokio::test]
async fn what_an_ended_payment_left_waiting_does_not_hold_up_the_account() -> Result<()> {
    let world = World::start().await?;
    let source = &world.source;
    let (over, next) = (world.payment("over")?, world.payment("next")?);
    // The payment ends while its transaction waits, and the node holds it.
    source.automine(false).await?;
    let stuck = world.chains.prepare_deposit(&over.deposit(), 1).await?;
    world.chains.broadcast(&stuck).await?;
    let behind = world.chains.prepare_deposit(&next.deposit(), 1).await?;
    world.chains.broadcast(&behind).await?;
    assert_eq!(source.query().nonce(world.submitter.address(), At::Pending).await?, nonce_of(&stuck) + 2);
    let hash = stuck.transaction_hash.parse()?;
    let (step, lasts) = (REPRICE_SECONDS as i64 - 5, (ADMISSION_SECONDS + 2 * REPRICE_SECONDS) as i64);
    let mut passed = 0;
    while passed < lasts {
        world.gateway.maintain_once().await;
        assert!(source.query().knows(hash).await?, "its admission may last");
        world.clock.advance(step);
        passed += step;
    }
    world.gateway.maintain_once().await;
    assert!(!source.query().knows(hash).await?, "another took its place");
    source.mine(1).await?;
    assert_eq!(source.next_nonce(&world.submitter).await?, nonce_of(&stuck) + 2, "the account goes on");
    let account = submitter_account(&world, &world.submitter);
    let open = world.ledger.open(&account).await?;
    assert_eq!(open[0].purpose, Purpose(format!("filler/{}", nonce_of(&stuck))));
    source.mine(DEPTH).await?;
    let dead = world.chains.transaction_state(from_ref(&stuck)).await?;
    assert!(matches!(dead, TransactionState::Dead { .. }), "{dead:?}");
    Ok(())
}

#[tokio::test]
async fn a_nonce_that_was_given_to_nobody_is_used_up() -> Result<()> {
    let world = World::start().await?;
    let account = submitter_account(&world, &world.submitter);
    let next = world.source.next_nonce(&world.submitter).await?;
    // A reorganisation took back what the account did from elsewhere; the ledger had seen it.
    let ahead = Purpose("seen ahead".to_owned());
    assert_eq!(world.ledger.reserve(&account, &ahead, next + 2, next, world.clock.now()).await?, next + 2);
    world.gateway.maintain_once().await;
    for filled in 1..=2 {
        assert_eq!(world.source.next_nonce(&world.submitter).await?, next + filled - 1);
        world.gateway.maintain_once().await;
        a_gap_grows_old(&world).await;
        world.reaches(next + filled).await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_gateway_that_was_away_does_not_fill_what_its_payments_are_about_to_send() -> Result<()> {
    let world = World::start().await?;
    let payment = world.payment("order")?;
    let prepared = world.chains.prepare_deposit(&payment.deposit(), 1).await?;
    // Everything stops for an hour, the node included, so it knows nothing.
    world.clock.advance(3_600);
    let started = with_submitters(&world, from_ref(&world.submitter))?;
    started.maintain_once().await;
    assert_eq!(
        world.source.next_nonce(&world.submitter).await?,
        nonce_of(&prepared),
        "its saga has not had its turn yet"
    );
    started.broadcast(&prepared).await?;
    world.source.mine(1 + DEPTH).await?;
    let state = started.deposit_state(&payment.deposit(), from_ref(&prepared)).await?;
    assert!(matches!(state, DepositState::Secured(_)));
    Ok(())
}

/// Looks until a nonce that nothing uses is old enough.
async fn a_gap_grows_old(world: &World) {
    for _ in 0..2 {
        world.clock.advance(REPRICE_SECONDS as i64 + 1);
        world.gateway.maintain_once().await;
    }
}

#[tokio::test]
async fn a_node_that_knows_nothing_for_a_moment_or_a_long_pause_fills_no_nonce() -> Result<()> {
    let world = World::start().await?;
    let (source, payment) = (&world.source, world.payment("order")?);
    source.automine(false).await?;
    let prepared = world.chains.prepare_deposit(&payment.deposit(), 1).await?;
    world.chains.broadcast(&prepared).await?;
    world.gateway.maintain_once().await;
    a_gap_grows_old(&world).await;
    // Another node behind the same address, or one that was started a moment ago.
    let dropped: Option<String> = source.dev.rpc("anvil_dropTransaction", (&prepared.transaction_hash,)).await?;
    assert_eq!(dropped.as_ref(), Some(&prepared.transaction_hash));
    assert_eq!(source.query().nonce(world.submitter.address(), At::Pending).await?, nonce_of(&prepared));
    world.gateway.maintain_once().await;
    assert_eq!(source.query().nonce(world.submitter.address(), At::Pending).await?, nonce_of(&prepared));
    // Nobody looked for an hour, and nobody sent anything.
    world.clock.advance(3_600);
    world.gateway.maintain_once().await;
    assert_eq!(source.query().nonce(world.submitter.address(), At::Pending).await?, nonce_of(&prepared));
    a_gap_grows_old(&world).await;
    assert_eq!(
        source.query().nonce(world.submitter.address(), At::Pending).await?,
        nonce_of(&prepared) + 1,
        "it is filled"
    );
    Ok(())
}

#[tokio::test]
async fn a_worker_that_comes_back_for_its_nonce_keeps_it_or_has_another() -> Result<()> {
    let world = World::start().await?;
    let (slow, given_up) = (world.payment("slow")?, world.payment("given-up")?);
    let first = world.chains.prepare_deposit(&slow.deposit(), 1).await?;
    for _ in 0..2 {
        world.gateway.maintain_once().await;
        world.clock.advance(REPRICE_SECONDS as i64 + 1);
    }
    // The worker asks again just in time, so the nonce is not old any more.
    let again = world.chains.prepare_deposit(&slow.deposit(), 1).await?;
    assert_eq!(again.validity, first.validity);
    world.gateway.maintain_once().await;
    assert_eq!(world.source.next_nonce(&world.submitter).await?, nonce_of(&first));
    world.chains.broadcast(&again).await?;

    let lost = world.chains.prepare_deposit(&given_up.deposit(), 1).await?;
    world.gateway.maintain_once().await;
    a_gap_grows_old(&world).await;
    world.reaches(nonce_of(&lost) + 1).await.context("it is used up")?;
    // The worker comes too late, and is not given a nonce that is gone.
    let anew = world.chains.prepare_deposit(&given_up.deposit(), 1).await?;
    assert_eq!(nonce_of(&anew), nonce_of(&lost) + 1);
    ensure!(unix_seconds(anew.prepared_at) > unix_seconds(lost.prepared_at));
    world.chains.broadcast(&anew).await?;
    world.reaches(nonce_of(&anew) + 1).await?;
    Ok(())
}

/// How long after a nonce was given out no admission that was signed for it counts any more.
const OVER_SECONDS: i64 = (ADMISSION_SECONDS + 2 * REPRICE_SECONDS) as i64 + 1;

/// Takes so many nonces for deposits of which nothing more is heard; the first of them.
async fn die(world: &World, names: impl IntoIterator<Item = String>) -> Result<u64> {
    let account = submitter_account(world, &world.submitter);
    let next = world.source.next_nonce(&world.submitter).await?;
    let mut first = None;
    for name in names {
        let nonce = world.ledger.reserve(&account, &Purpose(name), next, next, world.clock.now()).await?;
        first.get_or_insert(nonce);
    }
    first.context("a nonce")
}

/// Looks until the next nonce has stood next for long enough, and is used up.
async fn a_round(world: &World) {
    world.gateway.maintain_once().await;
    a_gap_grows_old(world).await;
}

#[tokio::test]
async fn a_run_of_nonces_that_are_over_is_used_up_in_one_round() -> Result<()> {
    let world = World::start().await?;
    let first = die(&world, (0..18).map(|n| format!("pay_{n}/deposit/1"))).await?;
    world.clock.advance(OVER_SECONDS);
    a_round(&world).await;
    world.reaches(first + 16).await.context("so many at most")?;
    a_round(&world).await;
    world.reaches(first + 18).await?;
    let open = world.ledger.open(&submitter_account(&world, &world.submitter)).await?;
    assert!(open.iter().all(|open| open.purpose.0.starts_with("filler/")), "{open:?}");
    Ok(())
}

#[tokio::test]
async fn a_run_ends_at_what_may_still_be_sent() -> Result<()> {
    let world = World::start().await?;
    let first = die(&world, ["pay_a/deposit/1", "pay_b/refund/1", "pay_c/deposit/1"].map(str::to_owned)).await?;
    world.clock.advance(OVER_SECONDS);
    a_round(&world).await;
    world.reaches(first + 1).await?;
    // An exit has its turn as the next one, and what is behind it goes with it unless its admission may last.
    let young = die(&world, ["pay_d/deposit/1".to_owned()]).await?;
    assert_eq!(young, first + 3);
    a_round(&world).await;
    world.reaches(first + 3).await?;
    let open = world.ledger.open(&submitter_account(&world, &world.submitter)).await?;
    assert_eq!(open.last().context("one")?.purpose.0, "pay_d/deposit/1");
    Ok(())
}

#[tokio::test]
async fn a_run_passes_over_what_the_node_knows() -> Result<()> {
    let world = World::start().await?;
    let source = &world.source;
    source.automine(false).await?;
    let first = die(&world, ["pay_a/deposit/1", "pay_b/deposit/1"].map(str::to_owned)).await?;
    let live = world.payment("live")?;
    let prepared = world.chains.prepare_deposit(&live.deposit(), 1).await?;
    die(&world, ["pay_c/deposit/1".to_owned()]).await?;
    assert_eq!(nonce_of(&prepared), first + 2);
    world.chains.broadcast(&prepared).await?;
    world.clock.advance(OVER_SECONDS);
    a_round(&world).await;
    assert_eq!(source.query().nonce(world.submitter.address(), At::Pending).await?, first + 4);
    source.mine(1 + DEPTH).await?;
    assert_eq!(source.next_nonce(&world.submitter).await?, first + 4);
    // The chain's own clock did not go on: the deposit is still admitted.
    let state = world.chains.deposit_state(&live.deposit(), from_ref(&prepared)).await?;
    assert!(matches!(state, DepositState::Secured(_)), "{state:?}");
    Ok(())
}
