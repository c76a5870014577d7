//! Mandates: a payer signs once what a merchant may ask for, and the merchant asks for one payment after another.

use chrono::Utc;

use events::time::unix_seconds;

use crate::{
    answers::{Corridor, Payment, Prepared, PreparedMandate},
    authorization::{ChargeDemand, Checked, CheckedMandate, MandateDemand},
    error::Error,
    gateway::{Gateway, Submission},
    key::Key,
    mandate_order::{MandateOrder, MandatePayload, SignedMandate},
    order::Order,
    pay::{finish, until},
    pins::Pins,
};

/// Prepares a mandate at the gateway, with a salt that is drawn at random when all else is settled, and compares; what came is for people to
/// read, what was rebuilt is to be signed.
///
/// # Errors
/// [`Error`].
pub async fn prepare_mandate_checked(
    gateway: &Gateway,
    order: &MandateOrder,
    corridor: &Corridor,
    pins: &Pins,
) -> Result<(PreparedMandate, CheckedMandate), Error> {
    let demand = MandateDemand { order, corridor, pins, now: unix_seconds(Utc::now()) };
    // What is pinned is compared before anything is asked for.
    let salt = demand.draw_salt()?;
    let prepared = gateway.prepare_mandate(order, salt).await?;
    let checked = demand.check(salt, &prepared)?;
    Ok((prepared, checked))
}

/// Signs a mandate, by which up to `order.amount` may be drawn in each period, for payments that its merchant signs for. Nobody keeps it but
/// who gets it: [`SignedMandate::payload`] is the merchant's, and [`SignedMandate::cancel`] ends it. Each call makes a mandate of its own, by
/// which as much can be drawn again.
///
/// # Errors
/// [`Error`]. [`Error::Invalid`] before anything is asked to be signed where the order makes no mandate; [`Error::Mismatch`] where the gateway
/// would have another one signed.
pub async fn sign_mandate(
    gateway: &Gateway,
    order: &MandateOrder,
    key: &Key,
    pins: &Pins,
) -> Result<SignedMandate, Error> {
    let corridor = gateway.corridor(&order.source, &order.destination).await?;
    let (_, checked) = prepare_mandate_checked(gateway, order, &corridor, pins).await?;
    checked.sign(key).await
}

/// Prepares a payment under a mandate at the gateway and compares; what came is for people to read, what was rebuilt is to be signed by the
/// merchant, for a [`Submission`] as any other.
///
/// # Errors
/// [`Error`].
pub async fn prepare_charge_checked(
    gateway: &Gateway,
    order: &Order,
    payload: &MandatePayload,
    corridor: &Corridor,
    pins: &Pins,
) -> Result<(Prepared, Checked), Error> {
    let demand = ChargeDemand { order, payload, corridor, pins, now: unix_seconds(Utc::now()) };
    // What is pinned, and what the mandate allows, is compared before anything is asked for.
    demand.check_own()?;
    let prepared = gateway.prepare_charge(order, payload).await?;
    let checked = demand.check(&prepared)?;
    Ok((prepared, checked))
}

/// Asks for a payment under a mandate, as its merchant, and waits until it is completed or failed, or until its windows have passed. The
/// order's source is the payer's, the key the merchant's. All of `max_source_amount` is drawn, and what it does not cost goes back to the
/// payer. What is signed exists only while this runs: who wants to survive its own end keeps the [`Submission`] before it is submitted. The
/// same body is sent again where an answer is lost.
///
/// # Errors
/// [`Error`]. Where [`Error::is_unknown`], the payment may exist: [`Gateway::status`] of [`Order::payment_id`] tells.
pub async fn charge(
    gateway: &Gateway,
    order: &Order,
    payload: &MandatePayload,
    key: &Key,
    pins: &Pins,
) -> Result<Payment, Error> {
    let corridor = gateway.corridor(&order.source, &order.destination).await?;
    let (_, checked) = prepare_charge_checked(gateway, order, payload, &corridor, pins).await?;
    let submission = Submission::new(order, checked.sign(key).await?)?;
    finish(gateway, &submission, until(order, corridor.refund_delay_seconds)).await
}
