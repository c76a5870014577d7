//! Performing one action through the ports.

use events::{
    Hash32, PaymentId,
    event::{EscrowPlan, TransactionPrepared, WithdrawalCause},
    mutant,
};

use super::{
    Options, Ports,
    delivery::{Attesting, Delivery},
    funding,
    learned::Learned,
    outcome::{Outcome, ended, escrow_state},
    reassignment,
};
use crate::{
    auction::judge_for,
    handlers::Action,
    payment::{Command, Payment, Stage},
    ports::{
        AuctionOver, Award, AwardAnswer, DepositOrder, DepositState, EscrowState, Gathering, PayerDeposit,
        PrepareError, RefundOrder, Refusal, ReleaseOrder, SelectionRequest, TransactionState, Transient,
    },
};

/// Performs `action` once.
///
/// # Errors
/// [`Transient`]; the action is repeated after a while.
pub(super) async fn perform(
    ports: &Ports,
    options: &Options,
    payment: &Payment,
    action: &Action,
    learned: &mut Learned,
) -> Result<Outcome, Transient> {
    match action {
        Action::AwaitFunds { deposit } => Box::pin(funding::await_funds(ports, payment, deposit)).await,
        Action::WatchAddress { deposit } => Box::pin(funding::watch(ports, options, deposit)).await,
        Action::SecureGiveBack { deposit, attempt } => {
            Box::pin(funding::secure(ports, payment, deposit, *attempt)).await
        }
        Action::FollowGiveBack { deposit, versions } => {
            Box::pin(funding::follow(ports, payment, deposit, versions)).await
        }
        Action::GatherBids(request) => {
            let gathered = match ports.auction.gather_for_now(request, learned.window).await? {
                Gathering::Over(gathered) => gathered,
                Gathering::Open(window) => return Ok(Outcome::WindowOpen(window)),
            };
            learned.window = None;
            let at = ports.clock.now();
            let judgement = judge_for(&payment.submitted, request, gathered, at);
            Ok(Outcome::command(Command::CloseAuction { judgement: Box::new(judgement), at }))
        }
        Action::AskSelector(request) => Ok(Box::pin(ask_selector(ports, request)).await),
        Action::GiveUpSelector => Ok(Outcome::command(Command::MissChoice { at: ports.clock.now() })),
        Action::SecureDeposit { award, order, attempt } => {
            Box::pin(secure_deposit(ports, options, payment, award, order, *attempt, &mut learned.agreed)).await
        }
        Action::TellWinner(end) => {
            ports.auction.end(end).await?;
            Ok(Outcome::command(Command::TellWinner { at: ports.clock.now() }))
        }
        Action::RuleOutDeposit { order } => {
            if let Some(stranded) = Box::pin(stranded(ports, &order.payer_deposit())).await? {
                return Ok(stranded);
            }
            let missed = || Command::MissDepositWindow { at: ports.clock.now() };
            Box::pin(rule_out(ports, options, order, order.escrow.reserve_deadline, missed)).await
        }
        Action::GiveUpDeposit { order } => {
            // No attempt was given up before the escrow took its call no more, and nothing was shown to a node since.
            let exhausted = || Command::ExhaustDeposit { at: ports.clock.now() };
            Box::pin(rule_out(ports, options, order, 0, exhausted)).await
        }
        Action::FindDeposit { deposit, order } => Box::pin(find_deposit(ports, deposit, order.as_deref())).await,
        Action::FollowDeposit { order, versions } => {
            Box::pin(follow_deposit(ports, options, payment, order, versions)).await
        }
        Action::SecureReassignment { award, order, attempt } => {
            Box::pin(reassignment::secure(ports, payment, award, order, *attempt, &mut learned.agreed)).await
        }
        Action::FollowReassignment { order, versions } => {
            Box::pin(reassignment::follow(ports, payment, order, versions)).await
        }
        Action::GiveUpReassignment { order } => Box::pin(reassignment::give_up(ports, payment, order)).await,
        Action::ForgoReassignment => Ok(Outcome::command(Command::ForgoReassignment { at: ports.clock.now() })),
        Action::WatchDeposit { deposit } => Box::pin(watch_deposit(ports, options, deposit)).await,
        Action::FollowDelivery { order, case, verifier, payout_account, window_open } => {
            let delivery = Delivery { order, case, verifier, payout_account, window_open: *window_open };
            Box::pin(delivery.follow(ports, options, payment, learned)).await
        }
        Action::FollowAttestation { order, delivery, statement, case, verifier, is_late } => {
            let attesting = Attesting { order, delivery, statement, case, verifier, is_late: *is_late };
            Box::pin(attesting.follow(ports, options, payment, learned)).await
        }
        Action::FollowEscrow { payment_id, escrow, patience: _, until: _ } => {
            match ports.chains.escrow_state(payment_id, escrow).await? {
                EscrowState::Held => Ok(Outcome::AwaitEvent),
                EscrowState::Lapsed | EscrowState::Absent => Ok(Outcome::Nothing),
                state => Box::pin(ended(ports, payment_id, escrow, state)).await,
            }
        }
        Action::SecureRelease { order, attempt } => Box::pin(secure_release(ports, payment, order, *attempt)).await,
        Action::FollowRelease { order, versions } => Box::pin(follow_release(ports, order, versions)).await,
        Action::SecureRefund { order, attempt } => Box::pin(secure_refund(ports, payment, order, *attempt)).await,
        Action::FollowRefund { order, versions } => Box::pin(follow_refund(ports, order, versions)).await,
    }
}

/// Signs a deposit for a winner that stands by its quote.
async fn secure_deposit(
    ports: &Ports,
    options: &Options,
    payment: &Payment,
    award: &Award,
    order: &DepositOrder,
    attempt: u32,
    agreed: &mut Option<Hash32>,
) -> Result<Outcome, Transient> {
    if let Some(lost) = agree(ports, payment, award, attempt > 1, agreed).await? {
        return Ok(Outcome::command(lost));
    }
    match prepare_deposit(ports, options, payment, award, order, attempt).await {
        Ok(transaction) => {
            if mutant!("broadcast-before-journal") {
                ports.chains.broadcast(&transaction).await?;
            }
            Ok(Outcome::command(Command::PrepareDeposit(transaction)))
        }
        Err(PrepareError::Transient(fault)) => Err(fault),
        Err(PrepareError::Waiting(why)) => {
            tracing::debug!(payment_id = %order.payment_id, why, "the reservation waits");
            Ok(Outcome::DepositAwaited)
        }
        Err(PrepareError::PayerSent { step, .. }) if payment.payer_sent.contains(&step) => Ok(Outcome::DepositAwaited),
        Err(PrepareError::PayerSent { step, transaction_hash }) => {
            let at = ports.clock.now();
            Ok(Outcome::command(Command::RecordPayerTransaction { step, transaction_hash, at }))
        }
        Err(PrepareError::Refused(refusal)) => refused(ports, order, refusal).await,
    }
}

/// Signs a deposit; of more than the winner asks for where a dearer quote could be awarded after it, and everybody knows what to
/// make of that.
async fn prepare_deposit(
    ports: &Ports,
    options: &Options,
    payment: &Payment,
    award: &Award,
    order: &DepositOrder,
    attempt: u32,
) -> Result<TransactionPrepared, PrepareError> {
    if let Some(funded) = &payment.funded {
        // All that came to the address, so that what is over goes back by the escrow.
        return ports.chains.prepare_larger_deposit(order, funded.amount, attempt).await;
    }
    if order.authorization.is_drawn_whole() {
        return ports.chains.prepare_deposit(order, attempt).await;
    }
    let amount = payment.award.as_deref().map(|award| payment.deposit_up_to(award));
    let rule = &options.reassignment;
    let is_followed = rule.deposits_for_next
        && rule.reassignments_max > 0
        && reassignment::is_followed(ports, payment)
        && ports.auction.follows_reassignments(&award.settler);
    let mut shown_until = 0;
    if let Some(amount) = amount.filter(|amount| is_followed && *amount > order.reservation.source_amount) {
        match ports.chains.prepare_larger_deposit(order, amount, attempt).await {
            // The payer may have what the winner asks for, and no more.
            Err(PrepareError::Refused(refusal)) => shown_until = refusal.valid_until,
            prepared => return prepared,
        }
    }
    ports.chains.prepare_deposit(order, attempt).await.map_err(|error| match error {
        // Whichever of the two a node was shown may still land.
        PrepareError::Refused(mut refusal) => {
            refusal.valid_until = refusal.valid_until.max(shown_until);
            PrepareError::Refused(refusal)
        }
        error => error,
    })
}

/// Agrees with the winner once in this process, and then tells those who waited that they can't win any more; what follows when
/// the winner is lost. `is_signed` when something was signed for it before, so that it has answered.
pub(super) async fn agree(
    ports: &Ports,
    payment: &Payment,
    award: &Award,
    is_signed: bool,
    agreed: &mut Option<Hash32>,
) -> Result<Option<Command>, Transient> {
    if *agreed == Some(award.quote_hash) {
        return Ok(None);
    }
    if let Some(lost) = lost_winner(ports, payment, award, is_signed).await? {
        return Ok(Some(lost));
    }
    *agreed = Some(award.quote_hash);
    let (auction_id, settlers) = (payment.auction_id(), payment.waiting_settlers());
    if !settlers.is_empty() {
        ports.auction.over(&AuctionOver { auction_id, settlers }).await;
    }
    Ok(None)
}

/// Tells the winner and hears its answer, before anything is signed for it or shown to a node; what follows when it is lost.
async fn lost_winner(
    ports: &Ports,
    payment: &Payment,
    award: &Award,
    is_signed: bool,
) -> Result<Option<Command>, Transient> {
    // Stored before anything is signed, so a deposit never exists whose settler was not told.
    ports.auction.award(award).await?;
    // The answer is final, so an attempt after the first had it already.
    if is_signed || mutant!("answer-not-awaited") {
        return Ok(None);
    }
    let refusal = match ports.auction.answer(award).await? {
        AwardAnswer::Accepted if !mutant!("accepted-award-lapses") => return Ok(None),
        AwardAnswer::Accepted => None,
        AwardAnswer::Refused(reason) => Some(reason),
        AwardAnswer::Silent => None,
    };
    let at = ports.clock.now();
    if let Some(awarded) = payment.award.as_deref()
        && (payment.is_reopened || payment.next_quote(at).is_some())
    {
        // No award stands whose answer is final and no acceptance, so its end is stored before the next is journaled. Where
        // none follows, the failure is journaled first.
        let code = WithdrawalCause::lost(refusal.clone()).code();
        ports.auction.end(&awarded.ended(&award.case.payment_id, code)).await?;
    }
    Ok(Some(Command::LoseWinner { refusal, at }))
}

/// What the payer's selector says, believed only when it signed it about these quotes. Whatever else it says, or that it says
/// nothing, may be mended in time; until then nobody else chooses, because the payer asked for this one.
async fn ask_selector(ports: &Ports, request: &SelectionRequest) -> Outcome {
    let (auction_id, selector) = (&request.auction_id, &request.selector);
    let choice = match ports.selector.choose(request).await {
        Ok(choice) => choice,
        Err(fault) => {
            tracing::info!(auction_id, %selector, %fault, "the quote selector does not answer");
            return Outcome::Nothing;
        }
    };
    match choice.verify(selector, request.shown()) {
        Ok(_) => Outcome::command(Command::TakeChoice { choice, at: ports.clock.now() }),
        Err(refused) => {
            tracing::warn!(auction_id, %selector, %refused, "the quote selector is not followed");
            Outcome::Nothing
        }
    }
}

/// What follows from a refusal. Whoever was shown a reservation that the payer deposit waited for may have brought it;
/// the deposit counts as refused up to the end of its window, so that is found now, while the settler can still deliver.
async fn refused(ports: &Ports, order: &DepositOrder, refusal: Box<Refusal>) -> Result<Outcome, Transient> {
    if order.authorization.is_payer_deposit()
        && let Some(secured) = ports.chains.deposit_secured(order).await?
    {
        return Ok(Outcome::command(Command::AdoptDeposit(secured)));
    }
    Ok(Outcome::DepositRefused(refusal))
}

/// Looks for what became of the deposit under way.
async fn follow_deposit(
    ports: &Ports,
    options: &Options,
    payment: &Payment,
    order: &DepositOrder,
    versions: &[TransactionPrepared],
) -> Result<Outcome, Transient> {
    let state = match ports.chains.deposit_state(order, versions).await? {
        DepositState::Pending if mutant!("time-out-is-failure") && waited(ports, versions) => {
            DepositState::Expired { evidence: "no receipt".to_owned() }
        }
        DepositState::Pending if mutant!("new-attempt-without-proof") && waited(ports, versions) => {
            DepositState::Superseded { evidence: "no receipt".to_owned() }
        }
        DepositState::Pending => {
            // Nothing rests on it, so what cannot be told now is told later.
            let mined = ports.chains.deposit_mined(order, versions).await.unwrap_or_else(|fault| {
                tracing::debug!(%fault, "whether the deposit is mined is not known");
                None
            });
            // First: nodes that do not agree on where it is must not keep it from being sent.
            let kept_alive = keep_alive(ports, versions, Command::RepriceDeposit).await;
            let mined = mined.filter(|inclusion| payment.deposit_mined.as_ref() != Some(inclusion));
            return match (kept_alive, mined) {
                (Ok(Outcome::Command(repriced)), _) => Ok(Outcome::Command(repriced)),
                (_, Some(inclusion)) => Ok(Outcome::command(Command::ObserveMinedDeposit(inclusion))),
                (kept_alive, None) => kept_alive,
            };
        }
        state => state,
    };
    // It may be refused, or not in time, because another deposit of the payment is there.
    if matches!(state, DepositState::Reverted(_) | DepositState::Expired { .. })
        && let Some(lost) = lost_deposit(ports, options, &order.payer_deposit()).await?
    {
        return Ok(lost);
    }
    Ok(Outcome::command(Command::ObserveDeposit { state, at: ports.clock.now() }))
}

/// Looks, after a restore, for a deposit that the copy of the journal does not know of.
async fn find_deposit(
    ports: &Ports,
    deposit: &PayerDeposit,
    order: Option<&DepositOrder>,
) -> Result<Outcome, Transient> {
    if let Some(order) = order
        && let Some(secured) = ports.chains.deposit_secured(order).await?
    {
        return Ok(Outcome::command(Command::AdoptDeposit(secured)));
    }
    if let Some(opened) = ports.chains.escrow_found(deposit).await? {
        return Ok(Outcome::command(Command::StrandDeposit { opened, at: ports.clock.now() }));
    }
    match cannot_come(ports, deposit, deposit.escrow.reserve_deadline).await? {
        true => Ok(Outcome::command(Command::ForgoDeposit { at: ports.clock.now() })),
        false => Ok(Outcome::Nothing),
    }
}

/// Watches, after a failure, for a payer deposit that can still be made.
async fn watch_deposit(ports: &Ports, options: &Options, deposit: &PayerDeposit) -> Result<Outcome, Transient> {
    if let Some(stranded) = stranded(ports, deposit).await? {
        return Ok(stranded);
    }
    if let Some(lost) = lost_deposit(ports, options, deposit).await? {
        return Ok(lost);
    }
    match cannot_come(ports, deposit, deposit.escrow.reserve_deadline).await? {
        true => Ok(Outcome::command(Command::MissDepositWindow { at: ports.clock.now() })),
        false => Ok(Outcome::Nothing),
    }
}

/// Whether nothing of the payment can come into escrow any more, where its deposit is taken up to the UNIX second `ends`.
async fn cannot_come(ports: &Ports, deposit: &PayerDeposit, ends: u64) -> Result<bool, Transient> {
    let chains = &ports.chains;
    Ok(chains.deposit_ruled_out(&deposit.payment_id, &deposit.escrow, ends).await?
        || chains.deposit_forestalled(deposit).await?)
}

/// What to record of a payer deposit that nobody can reserve any more; `None` when there is none.
async fn stranded(ports: &Ports, deposit: &PayerDeposit) -> Result<Option<Outcome>, Transient> {
    if !deposit.authorization.is_payer_deposit() {
        return Ok(None);
    }
    let opened = ports.chains.stranded_deposit(deposit).await?;
    Ok(opened.map(|opened| Outcome::command(Command::StrandDeposit { opened, at: ports.clock.now() })))
}

/// What to record of a deposit for an award that a restored journal has lost, whatever became of it: the payment may have been
/// submitted, and deposited for, before the loss already. `None` when there is none.
pub(super) async fn lost_deposit(
    ports: &Ports,
    options: &Options,
    deposit: &PayerDeposit,
) -> Result<Option<Outcome>, Transient> {
    if options.restored.is_none() {
        return Ok(None);
    }
    let opened = ports.chains.escrow_found(deposit).await?;
    Ok(opened.map(|opened| Outcome::command(Command::StrandDeposit { opened, at: ports.clock.now() })))
}

/// Half a minute without a receipt, for broken variants that take it for something.
fn waited(ports: &Ports, versions: &[TransactionPrepared]) -> bool {
    versions.iter().all(|version| (ports.clock.now() - version.prepared_at).num_seconds() > 30)
}

/// Whether a deposit with no transaction of ours under way was made all the same, or can't be made any more.
///
/// # Errors
/// [`Transient`]; nothing may be concluded.
pub(super) async fn rule_out(
    ports: &Ports,
    options: &Options,
    order: &DepositOrder,
    after: u64,
    ruled_out: impl FnOnce() -> Command,
) -> Result<Outcome, Transient> {
    if let Some(secured) = ports.chains.deposit_secured(order).await? {
        return Ok(Outcome::command(Command::AdoptDeposit(secured)));
    }
    let deposit = order.payer_deposit();
    if let Some(lost) = lost_deposit(ports, options, &deposit).await? {
        return Ok(lost);
    }
    if cannot_come(ports, &deposit, after).await? {
        return Ok(Outcome::command(ruled_out()));
    }
    Ok(Outcome::Nothing)
}

/// Sees to it that a transaction which may still land does: its newest version is sent again, or a better paid one is
/// signed, which is journaled before it is sent.
pub(super) async fn keep_alive(
    ports: &Ports,
    versions: &[TransactionPrepared],
    reprice: impl FnOnce(TransactionPrepared) -> Command,
) -> Result<Outcome, Transient> {
    // A price that can't be had now must not keep what is signed already from being sent.
    match ports.chains.reprice(versions).await {
        Ok(Some(repriced)) => {
            if mutant!("reprice-before-journal") {
                ports.chains.broadcast(&repriced).await?;
            }
            return Ok(Outcome::command(reprice(repriced)));
        }
        Ok(None) => {}
        Err(fault) => tracing::debug!(%fault, "not repriced"),
    }
    let mut refused = None;
    for version in versions.iter().rev() {
        match ports.chains.broadcast(version).await {
            Ok(()) => return Ok(Outcome::AwaitEvent),
            // The sender may afford an older one that the node has lost.
            Err(fault) => refused = refused.or(Some(fault)),
        }
    }
    refused.map_or(Ok(Outcome::AwaitEvent), Err)
}

/// Signs a release of an escrow that still holds the money and takes one.
async fn secure_release(
    ports: &Ports,
    payment: &Payment,
    order: &ReleaseOrder,
    attempt: u32,
) -> Result<Outcome, Transient> {
    match escrow_state(ports, payment).await? {
        EscrowState::Held => match ports.chains.prepare_release(order, attempt).await {
            Ok(transaction) => Ok(Outcome::command(Command::PrepareRelease(transaction))),
            Err(PrepareError::Transient(fault)) => Err(fault),
            Err(PrepareError::Waiting(_) | PrepareError::PayerSent { .. }) => Ok(Outcome::AwaitEvent),
            // Most often the settler's own release is in a block that is not yet deep.
            Err(PrepareError::Refused(refusal)) => Ok(Outcome::ReleaseRefused(refusal)),
        },
        EscrowState::Lapsed => Ok(Outcome::AwaitEvent),
        EscrowState::Absent => Err(Transient::contradiction("the escrow that was secured is not there now")),
        state => ended(ports, &order.payment_id, &order.escrow, state).await,
    }
}

/// Signs a refund of an escrow that still holds the money.
async fn secure_refund(
    ports: &Ports,
    payment: &Payment,
    order: &RefundOrder,
    attempt: u32,
) -> Result<Outcome, Transient> {
    match escrow_state(ports, payment).await? {
        // A release of what is attested may be in a block that is not settled yet.
        EscrowState::Held if payment.stage() == Stage::Completed => Ok(Outcome::Nothing),
        EscrowState::Held | EscrowState::Lapsed => match ports.chains.prepare_refund(order, attempt).await {
            Ok(transaction) => Ok(Outcome::command(Command::PrepareRefund(transaction))),
            Err(PrepareError::Transient(fault)) => Err(fault),
            Err(waiting @ (PrepareError::Waiting(_) | PrepareError::PayerSent { .. })) => {
                Err(Transient::unreachable(waiting))
            }
            // The chain's clock may be behind ours, or the escrow may have paid out in a block not yet deep.
            Err(refused @ PrepareError::Refused(_)) => Err(Transient::contradiction(refused)),
        },
        EscrowState::Absent => Err(Transient::contradiction("the escrow that was secured is not there now")),
        state => ended(ports, &order.payment_id, &order.escrow, state).await,
    }
}

/// Looks for what became of the refund under way.
async fn follow_refund(
    ports: &Ports,
    order: &RefundOrder,
    versions: &[TransactionPrepared],
) -> Result<Outcome, Transient> {
    match ports.chains.escrow_state(&order.payment_id, &order.escrow).await? {
        EscrowState::Held | EscrowState::Lapsed | EscrowState::Absent => {}
        state => return ended(ports, &order.payment_id, &order.escrow, state).await,
    }
    match ports.chains.transaction_state(versions).await? {
        TransactionState::Pending => keep_alive(ports, versions, Command::RepriceRefund).await,
        TransactionState::Dead { evidence } => {
            let abandon = Command::AbandonRefund { evidence, at: ports.clock.now() };
            abandon_exit(ports, &order.payment_id, &order.escrow, abandon).await
        }
    }
}

/// Looks for what became of the release under way.
async fn follow_release(
    ports: &Ports,
    order: &ReleaseOrder,
    versions: &[TransactionPrepared],
) -> Result<Outcome, Transient> {
    let lapsed = match ports.chains.escrow_state(&order.payment_id, &order.escrow).await? {
        EscrowState::Held | EscrowState::Absent => false,
        EscrowState::Lapsed => true,
        state => return ended(ports, &order.payment_id, &order.escrow, state).await,
    };
    match ports.chains.transaction_state(versions).await? {
        // The escrow takes it no more, and it would only cost. What became of it is waited for.
        TransactionState::Pending if lapsed => Ok(Outcome::AwaitEvent),
        TransactionState::Pending => keep_alive(ports, versions, Command::RepriceRelease).await,
        TransactionState::Dead { evidence } => {
            let abandon = Command::AbandonRelease { evidence, at: ports.clock.now() };
            abandon_exit(ports, &order.payment_id, &order.escrow, abandon).await
        }
    }
}

/// Gives up a release or refund that is said to be dead, if the escrow was not ended by it. That a transaction is in no block
/// is the word of nodes that may not know the block yet; what the escrow has on record is read in a settled block, which is
/// not older than the one from which the transaction was judged.
async fn abandon_exit(
    ports: &Ports,
    payment_id: &PaymentId,
    escrow: &EscrowPlan,
    abandon: Command,
) -> Result<Outcome, Transient> {
    match ports.chains.escrow_state(payment_id, escrow).await? {
        EscrowState::Held | EscrowState::Lapsed | EscrowState::Absent => Ok(Outcome::command(abandon)),
        state => ended(ports, payment_id, escrow, state).await,
    }
}
