//! Performing the leg of a deposit address: the money is awaited, and given back where the payment failed before its escrow.

use chrono::TimeDelta;

use events::{
    event::TransactionPrepared,
    time::{Timestamp, from_unix_seconds, unix_seconds},
};

use super::{
    Ports,
    outcome::Outcome,
    perform::{keep_alive, lost_deposit},
};
use crate::{
    auction::AWARD_MARGIN_SECONDS,
    payment::{Command, Payment},
    ports::{AddressState, OwnReturn, PayerDeposit, PrepareError, TransactionState, Transient},
    runner::Options,
};

/// How long quotes are collected once the money is there, if not all that were asked answer before.
const QUOTES_WINDOW: TimeDelta = TimeDelta::seconds(5);

/// For how long a refund account that takes nothing is tried.
const REFUSALS_MAX: TimeDelta = TimeDelta::hours(24);
/// Most transactions that are sent to give the money of one address back. Each costs gas.
const GIVE_BACK_ATTEMPTS_MAX: u32 = 8;

/// Whether enough is at the address; if so, the auction begins.
pub(super) async fn await_funds(
    ports: &Ports,
    payment: &Payment,
    deposit: &PayerDeposit,
) -> Result<Outcome, Transient> {
    let funds = ports.chains.address_funds(deposit).await?;
    let at = ports.clock.now();
    let permitted = payment.submitted.authorization.permitted();
    if let Some(quote_deadline) =
        quotes_until(payment, at).filter(|_| funds.amount.is_some_and(|amount| amount >= permitted))
    {
        return Ok(Outcome::command(Command::FundAddress { funds, quote_deadline, at }));
    }
    let pay_by = payment.submitted.authorization.deposit_address().map(|address| address.pay_by);
    // By the chain's clock, too: what is in a block up to then counts.
    let is_over = pay_by.is_none_or(|pay_by| at > pay_by && funds.block_time > unix_seconds(pay_by));
    if is_over {
        return Ok(Outcome::command(Command::MissFunds { funds, at }));
    }
    // What came in the last second has to be seen while there is time for quotes.
    let is_late = pay_by.is_some_and(|pay_by| at > pay_by);
    Ok(if is_late { Outcome::Nothing } else { Outcome::AwaitEvent })
}

/// Until when quotes are collected, where there is time left to reserve the escrow after that.
fn quotes_until(payment: &Payment, at: Timestamp) -> Option<Timestamp> {
    let reserve_deadline = from_unix_seconds(payment.submitted.escrow.reserve_deadline)?;
    let last = reserve_deadline.checked_sub_signed(TimeDelta::seconds(AWARD_MARGIN_SECONDS.cast_signed() + 1))?;
    at.checked_add_signed(QUOTES_WINDOW).map(|until| until.min(last)).filter(|until| *until > at)
}

/// What became of the money at the address of a payment that failed.
pub(super) async fn watch(ports: &Ports, options: &Options, deposit: &PayerDeposit) -> Result<Outcome, Transient> {
    if let Some(lost) = lost_deposit(ports, options, deposit).await? {
        return Ok(lost);
    }
    let state = ports.chains.address_state(deposit, None).await?;
    // What is waited for of a transfer no event tells: that it can't land any more.
    if state == AddressState::Open && deposit.transfer.is_some() {
        return Ok(Outcome::Nothing);
    }
    Ok(observed(ports, state))
}

/// Signs what gives the money back. A refund account that takes none, as one that the token blocks, is not waited for longer than a
/// day: from then on it is for anyone to have it given back.
pub(super) async fn secure(
    ports: &Ports,
    payment: &Payment,
    deposit: &PayerDeposit,
    attempt: u32,
) -> Result<Outcome, Transient> {
    let at = ports.clock.now();
    let (since, held_at) = payment.held.as_ref().map_or((None, at), |held| (Some(held.block_number), held.held_at));
    let amount = match ports.chains.address_state(deposit, since).await? {
        given_back @ AddressState::GivenBack(_) => return Ok(observed(ports, given_back)),
        AddressState::Held { amount, .. } | AddressState::Left { amount } => amount,
        // What was there is not there any more, and was not given back.
        empty @ AddressState::Empty => return Ok(observed(ports, empty)),
        AddressState::Open => return Ok(Outcome::Nothing),
    };
    if attempt > GIVE_BACK_ATTEMPTS_MAX {
        tracing::warn!(payment_id = %deposit.payment_id, attempt, "nothing that gives the money back lands; it stays where it is");
        return Ok(observed(ports, AddressState::Left { amount }));
    }
    match ports.chains.prepare_give_back(deposit, attempt).await {
        Ok(transaction) => Ok(Outcome::command(Command::PrepareRefund(transaction))),
        Err(PrepareError::Transient(fault)) => Err(fault),
        // Another payment of the batch gives back what is left of all of them, or a day's returns are used up.
        Err(PrepareError::Waiting(_)) => Ok(Outcome::AwaitEvent),
        Err(sent @ PrepareError::PayerSent { .. }) => Err(Transient::unreachable(sent)),
        Err(PrepareError::Refused(refusal)) if at - held_at > REFUSALS_MAX => {
            let (payment_id, reason) = (&deposit.payment_id, refusal.context.revert_reason);
            tracing::warn!(%payment_id, reason, "the refund account takes nothing back; the money stays where it is");
            Ok(observed(ports, AddressState::Left { amount }))
        }
        // The chain's clock may be behind ours, or it went back in a block that is not yet deep.
        Err(PrepareError::Refused(_)) => Ok(Outcome::Nothing),
    }
}

/// Looks for what became of that.
pub(super) async fn follow(
    ports: &Ports,
    payment: &Payment,
    deposit: &PayerDeposit,
    versions: &[TransactionPrepared],
) -> Result<Outcome, Transient> {
    let since = payment.held.as_ref().map(|held| held.block_number);
    let found_nothing = match ports.chains.given_back_by(deposit, versions).await? {
        OwnReturn::Returned(refunded) => return Ok(observed(ports, AddressState::GivenBack(refunded))),
        // Somebody was before it, whom nothing has to name.
        OwnReturn::Nothing { evidence } => Some(evidence),
        OwnReturn::NotLanded => None,
    };
    if let given_back @ AddressState::GivenBack(_) = ports.chains.address_state(deposit, since).await? {
        return Ok(observed(ports, given_back));
    }
    if let Some(evidence) = found_nothing {
        return Ok(Outcome::command(Command::AbandonRefund { evidence, at: ports.clock.now() }));
    }
    match ports.chains.transaction_state(versions).await? {
        TransactionState::Pending => keep_alive(ports, versions, Command::RepriceRefund).await,
        TransactionState::Dead { evidence } => match ports.chains.address_state(deposit, since).await? {
            given_back @ AddressState::GivenBack(_) => Ok(observed(ports, given_back)),
            _ => Ok(Outcome::command(Command::AbandonRefund { evidence, at: ports.clock.now() })),
        },
    }
}

fn observed(ports: &Ports, state: AddressState) -> Outcome {
    match state {
        AddressState::Open => Outcome::AwaitEvent,
        state => Outcome::command(Command::ObserveAddress { state, at: ports.clock.now() }),
    }
}
