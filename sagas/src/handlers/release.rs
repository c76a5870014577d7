//! The release leg: of what was delivered and attested the settler brings the release itself, and from a time on the gateway
//! does, so that a settler that is gone is paid all the same. The escrow takes it strictly before its refund window; what is
//! still there then is driven back to the payer, as no party may keep it (ADR 106).

use std::time::Duration;

use events::{
    mutant,
    time::{Timestamp, unix_seconds},
};

use super::{Action, Step, is_past, refund};
use crate::{
    payment::{Awarded, Payment},
    ports::ReleaseOrder,
    release::release_from,
};

/// A settler that does not fetch its money need not be watched at every block, where no event of the chain can be awaited: the longest
/// time between two looks.
const PATIENCE_MAX: Duration = Duration::from_secs(60);
/// How long after the delivery every block is looked at.
const EAGER: Duration = Duration::from_secs(60);

pub(super) fn next(payment: &Payment, award: Option<&Awarded>, now: Timestamp) -> Step {
    let escrow = &payment.submitted.escrow;
    // `evolve` lets a payment into this stage only with both.
    let (Some(award), Some(confirmed)) = (award, payment.confirmed.as_deref()) else { return Step::Rest };
    let order = ReleaseOrder {
        payment_id: payment.submitted.payment_id.clone(),
        escrow: escrow.clone(),
        quote_hash: award.event.quote_hash,
        payout_account: award.quote.payout_account.clone(),
        attestation: confirmed.attestation.clone(),
    };
    if !payment.release.live.is_empty() {
        return Step::Do(Box::new(Action::FollowRelease { order, versions: payment.release.live.clone() }));
    }
    if payment.refund.count > 0 || is_past(now, escrow.refund_after) {
        return refund::next(payment, now);
    }
    let from = release_from(confirmed, escrow);
    let is_over = is_past(now, escrow.refund_after.saturating_sub(1));
    if now >= from && !is_over && !mutant!("release-left-to-the-settler") {
        return Step::Do(Box::new(Action::SecureRelease { order, attempt: payment.release.count + 1 }));
    }
    let waited = (now - confirmed.confirmed_at).to_std().unwrap_or_default();
    let patience = (waited > EAGER).then(|| (waited / 10).min(PATIENCE_MAX));
    // The gateway's own time is not slept through.
    let left = (from - now).to_std().ok().filter(|_| !is_over);
    let patience = patience.map(|patience| left.map_or(patience, |left| patience.min(left)));
    let until = if now < from { unix_seconds(from) } else { escrow.refund_after };
    Step::Do(Box::new(Action::FollowEscrow { payment_id: order.payment_id, escrow: order.escrow, patience, until }))
}
