//! Pay: from an order to its outcome, for those who need no say in between.

use chrono::Utc;
use tokio::time::Instant;

use events::{Hash32, time::unix_seconds};

use crate::{
    answers::{Corridor, Payment, Prepared},
    authorization::{Checked, Demand, scheme},
    error::Error,
    gateway::{Award, Gateway, Submission},
    key::Key,
    order::Order,
    pins::Pins,
};

/// What a clock may be wrong by, and an answer may be late, in seconds.
const GRACE_SECONDS: u64 = 60;

/// When every window of an order has passed: by then its outcome is known, or nobody answers.
pub fn until(order: &Order, refund_delay_seconds: u64) -> Instant {
    let ends = order.fulfillment_seconds().saturating_add(refund_delay_seconds).saturating_add(GRACE_SECONDS);
    Instant::now() + std::time::Duration::from_secs(ends.saturating_sub(unix_seconds(Utc::now())))
}

/// Prepares an order at the gateway and compares; what came is for people to read, what was rebuilt is to be signed.
///
/// # Errors
/// [`Error`].
pub async fn prepare_checked(
    gateway: &Gateway,
    order: &Order,
    corridor: &Corridor,
    pins: &Pins,
) -> Result<(Prepared, Checked), Error> {
    let now = unix_seconds(Utc::now());
    // What is pinned is compared before anything is asked for.
    pins.check(order, corridor, now)?;
    let prepared = gateway.prepare_by(order, scheme(order, corridor, pins)).await?;
    let checked = Demand { order, corridor, pins, quote_hash: Hash32::ZERO, price: None, now }.check(&prepared)?;
    Ok((prepared, checked))
}

/// Pays, and waits until it is completed or failed, or until its windows have passed. What is signed exists only while this runs:
/// who wants to survive its own end keeps the [`Submission`] before it is submitted. The allowance has to be there, but on Tron and
/// where a token takes a signature in its place.
///
/// # Errors
/// [`Error`]. Where [`Error::is_unknown`], the payment may exist: [`Gateway::status`] of [`Order::payment_id`] tells.
pub async fn pay(gateway: &Gateway, order: &Order, key: &Key, pins: &Pins) -> Result<Payment, Error> {
    let corridor = gateway.corridor(&order.source, &order.destination).await?;
    let (_, checked) = prepare_checked(gateway, order, &corridor, pins).await?;
    let submission = Submission::new(order, checked.sign(key).await?)?;
    let until = until(order, corridor.refund_delay_seconds);
    finish(gateway, &submission, until).await
}

/// Awards the quote that `award` takes, and waits as [`pay`] does. The signature is for this quote and no other.
///
/// # Errors
/// As [`pay`].
pub async fn pay_quote(gateway: &Gateway, award: &Award, key: &Key, pins: &Pins) -> Result<Payment, Error> {
    let order = &award.order;
    let corridor = gateway.corridor(&order.source, &order.destination).await?;
    let now = unix_seconds(Utc::now());
    pins.check(order, &corridor, now)?;
    let (quote_hash, price) = (award.quote.hash()?, Some(award.quote.price()?));
    let demand = Demand { order, corridor: &corridor, pins, quote_hash, price, now };
    let checked = demand.check(&gateway.prepare_award_by(award, scheme(order, &corridor, pins)).await?)?;
    let submission = Submission::award(award, &checked.sign(key).await?);
    finish(gateway, &submission, until(order, corridor.refund_delay_seconds)).await
}

/// What the submission was answered with stays beside the outcome.
pub(crate) async fn finish(gateway: &Gateway, submission: &Submission, until: Instant) -> Result<Payment, Error> {
    let accepted = gateway.submit(submission, until).await?;
    if accepted.status.is_final() {
        return Ok(accepted);
    }
    let outcome = gateway.wait(&submission.payment_id, until).await?;
    Ok(Payment { idempotent_replay: accepted.idempotent_replay, ..outcome })
}
