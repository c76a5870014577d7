//! Orders that make a batch, and what the batch has of them.

use std::collections::{BTreeMap, BTreeSet};

use escrow_abi::{
    contracts,
    payment_batches::{self, PAYMENTS_MAX},
};
use events::{Amount, Family, OwnedAsset, time::unix_seconds};

use crate::{error::Error, order::Order};

/// What a batch of these orders draws in all, by token: the sums of their caps. So much has to be allowed to Permit2, and to be there.
///
/// # Errors
/// [`Error::Invalid`] for orders that make no batch: none or more than 256 of them, of several accounts or chains, of another family
/// than EVM chains, without a cap, or two under one `request_id`.
pub fn draws(orders: &[Order]) -> Result<Vec<(OwnedAsset, Amount)>, Error> {
    let first = orders.first().filter(|_| orders.len() <= PAYMENTS_MAX);
    let first = first.ok_or_else(|| {
        Error::Invalid(format!("a batch has 1 to {PAYMENTS_MAX} payments, and there are {}", orders.len()))
    })?;
    let (mut sources, mut caps, mut ids) = (BTreeMap::new(), Vec::with_capacity(orders.len()), BTreeSet::new());
    for (at, order) in orders.iter().enumerate() {
        let invalid = |rule: &str| Error::Invalid(format!("payments[{at}]: {rule}"));
        let (source, of_first) = (&order.source, &first.source);
        if source.family() != Family::Evm {
            return Err(invalid("only payments on EVM chains are signed for as one"));
        }
        if source.account() != of_first.account() || source.asset().chain() != of_first.asset().chain() {
            return Err(invalid("account and chain of the source must be those of the first payment"));
        }
        if !ids.insert(&order.request_id) {
            return Err(invalid("its request_id is that of another payment of the batch"));
        }
        let cap = order.max_source_amount;
        let cap = cap.ok_or_else(|| invalid("max_source_amount is needed: a payer says what it pays at most"))?;
        let token = contracts::erc20(source.asset()).map_err(|error| invalid(&error.to_string()))?;
        sources.entry(token).or_insert(source);
        caps.push((token, cap));
    }
    let sums = payment_batches::permitted(caps).map_err(|what| Error::Invalid(format!("the payments {what}")))?;
    // Both are in the order of the tokens.
    let drawn =
        sources.into_values().zip(sums).filter_map(|(source, (_, sum))| Some((source.clone(), Amount::new(sum)?)));
    Ok(drawn.collect())
}

/// The last second of the deposits of these orders, UNIX: `wanted`, where it leaves each of them its auction, or else the earliest of
/// their fulfillment deadlines. What was drawn and is not deposited by then goes back to the payer.
///
/// # Errors
/// [`Error::Invalid`] where it is not between quote and fulfillment deadline of each.
pub fn reserve_deadline(orders: &[Order], wanted: Option<u64>) -> Result<u64, Error> {
    let earliest = orders.iter().map(Order::fulfillment_seconds).min();
    let chosen = wanted.or(earliest).ok_or_else(|| Error::Invalid("a batch has a payment".to_owned()))?;
    for (at, order) in orders.iter().enumerate() {
        let (quotes, end) = (unix_seconds(order.quote_deadline), order.fulfillment_seconds());
        if chosen <= quotes || chosen > end {
            return Err(Error::Invalid(format!(
                "payments[{at}]: the last deposit of the batch, {chosen}, must come after its quote_deadline, {quotes}, and by \
                 its fulfillment_deadline, {end}"
            )));
        }
    }
    Ok(chosen)
}
