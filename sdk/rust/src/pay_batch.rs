//! Pay a batch: many orders by one signature. From then on each is a payment as any other.

use chrono::Utc;
use tokio::time::Instant;

use events::time::unix_seconds;

use crate::{
    answers::{BatchPayment, Corridor, PreparedPaymentBatch},
    authorization::{BatchDemand, CheckedBatch, draws, reserve_deadline},
    error::Error,
    gateway::{BatchSubmission, Gateway},
    key::Key,
    order::Order,
    pay::until,
    pins::Pins,
};

/// Prepares orders as one at the gateway, to be deposited up to `reserve_deadline`, and compares; what came is for people to read,
/// what was rebuilt is to be signed.
///
/// # Errors
/// [`Error`].
pub async fn prepare_batch_checked(
    gateway: &Gateway,
    orders: &[Order],
    reserve_deadline: u64,
    corridors: &[Corridor],
    pins: &Pins,
) -> Result<(PreparedPaymentBatch, CheckedBatch), Error> {
    let now = unix_seconds(Utc::now());
    let demand = BatchDemand { orders, corridors, pins, reserve_deadline, now };
    // What is pinned is compared before anything is asked for.
    demand.check_named()?;
    let prepared = gateway.prepare_batch(orders, reserve_deadline).await?;
    let checked = demand.check(&prepared)?;
    Ok((prepared, checked))
}

/// Pays up to 256 orders of one account on one EVM chain by one signature, and comes back once each is accepted or refused, in the
/// order of `orders`: [`Gateway::wait`] tells how each ends. The allowances have to be there, of each token for all of its payments:
/// [`draws`](crate::authorization::draws) says how much. What is signed exists only while this runs: who wants to survive its own end
/// keeps the [`BatchSubmission`] before it is submitted.
///
/// # Errors
/// [`Error`], [`Error::Invalid`] before anything is asked where the orders make no batch. Where [`Error::is_unknown`], payments may
/// exist: [`Gateway::status`] of each [`Order::payment_id`] tells. What is refused of one payment alone is in its place.
pub async fn pay_batch(
    gateway: &Gateway,
    orders: &[Order],
    key: &Key,
    pins: &Pins,
) -> Result<Vec<BatchPayment>, Error> {
    draws(orders)?;
    let deadline = reserve_deadline(orders, None)?;
    let corridors = gateway.corridors(orders).await?;
    let (_, checked) = prepare_batch_checked(gateway, orders, deadline, &corridors, pins).await?;
    let submission = BatchSubmission::new(orders, deadline, checked.sign(key).await?)?;
    let windows = orders.iter().zip(&corridors).map(|(order, corridor)| until(order, corridor.refund_delay_seconds));
    gateway.submit_batch(&submission, windows.max().unwrap_or_else(Instant::now)).await
}
