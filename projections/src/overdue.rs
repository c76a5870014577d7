//! Overdue payments: money in escrow, or owed, past its time.

use std::{collections::BTreeMap, time::Duration};

use chrono::TimeDelta;
use serde::{Deserialize, Serialize};

use events::{
    Amount, AssetId, Did, PaymentId, StreamId,
    event::VerifierRef,
    time::{Timestamp, from_unix_seconds},
};
use sagas::{ports::Transient, release::attestation_due};

use crate::{
    fault::Fault,
    service::Projections,
    view::{PaymentStatus, PaymentView, RefundOwed, Reopened, Transaction},
};

/// The overdue step of a payment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OverdueStage {
    /// A quote was awarded, the time for the deposit is over, and it is neither in escrow nor proven not to be.
    Undeposited,
    /// The money is in escrow, the time for the delivery is over, and it is neither confirmed nor failed.
    Undelivered,
    /// The settler that the escrow is reserved for did not deliver in time, and for long now the escrow is not reassigned to
    /// another, and the payment has not failed either.
    Unreassigned,
    /// Delivered for good, and the verifier has not attested it while the refund window comes near: without the attestation
    /// the settler is not paid.
    Unattested,
    /// Delivered, and the settler has not been paid while the refund window comes near.
    Unreleased,
    /// Failed, or delivered and not attested in time, and the payer does not have the money back.
    Unrefunded,
}

impl OverdueStage {
    /// The stage as operators see it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Undeposited => "undeposited",
            Self::Undelivered => "undelivered",
            Self::Unreassigned => "unreassigned",
            Self::Unattested => "unattested",
            Self::Unreleased => "unreleased",
            Self::Unrefunded => "unrefunded",
        }
    }
}

/// A payment that is past its time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Overdue {
    /// The payment.
    pub payment_id: PaymentId,
    /// The shard it lies in.
    pub shard: u16,
    /// The overdue step.
    pub stage: OverdueStage,
    /// The asset that pays.
    pub asset: AssetId,
    /// How much is concerned, smallest unit: what is in escrow; for [`OverdueStage::Undeposited`] the most that may be.
    pub amount: Amount,
    /// When it should have happened at the latest, without the grace.
    pub since: Timestamp,
    /// The event that the engine waits for.
    pub waits_for: &'static str,
    /// The last transaction on the source chain or, while a delivery is awaited, on either.
    pub transaction: Option<Transaction>,
    /// The account that delivers; absent before an award.
    pub settler: Option<Did>,
    /// The account that attests the delivery.
    pub verifier: VerifierRef,
}

/// The leg of its way on which a payment is that is not at rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OpenLeg {
    /// Quotes are collected.
    Auction,
    /// A quote won, and no transaction of the deposit was sent.
    Award,
    /// A deposit is under way, or may still come.
    Deposit,
    /// The money is in escrow, and no delivery was seen.
    Delivery,
    /// The money is in escrow for a settler that did not deliver in time, and another is looked for in its place.
    Reassignment,
    /// A delivery was seen that has not its depth.
    Finality,
    /// Delivered, and the settler is not paid.
    Release,
    /// The money is owed to the payer.
    Refund,
}

impl OpenLeg {
    /// All of them, in order.
    pub const ALL: [Self; 8] = [
        Self::Auction,
        Self::Award,
        Self::Deposit,
        Self::Delivery,
        Self::Reassignment,
        Self::Finality,
        Self::Release,
        Self::Refund,
    ];

    /// The leg as operators see it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Auction => "auction",
            Self::Award => "award",
            Self::Deposit => "deposit",
            Self::Delivery => "delivery",
            Self::Reassignment => "reassignment",
            Self::Finality => "finality",
            Self::Release => "release",
            Self::Refund => "refund",
        }
    }

    /// That of a payment which is open.
    pub fn of(view: &PaymentView) -> Self {
        match view.status {
            _ if view.refund_owed.is_some() => Self::Refund,
            PaymentStatus::Pending if view.reopened.is_some() => Self::Reassignment,
            PaymentStatus::Pending if view.escrowed.is_some() => Self::Delivery,
            PaymentStatus::Pending if view.deposit.is_some() => Self::Deposit,
            PaymentStatus::Pending if view.quote.is_some() => Self::Award,
            PaymentStatus::Pending => Self::Auction,
            PaymentStatus::Finalizing => Self::Finality,
            PaymentStatus::Completed => Self::Release,
            // Its winner is to be told, or the payer's own transaction may still deposit.
            PaymentStatus::Failed => Self::Deposit,
        }
    }
}

/// The payments that are past their time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OverdueList {
    /// The payments, those that are so for longest first.
    pub payments: Vec<Overdue>,
    /// Payments that cannot be read, of which nobody can tell whether they are.
    pub unreadable: Vec<PaymentId>,
    /// How many payments are open, by shard and leg.
    pub open: BTreeMap<(u16, OpenLeg), u64>,
    /// Shards whose read model is not live: their payments may be missing, or shown as they were.
    pub uncertain: Vec<u16>,
}

impl Projections {
    /// The payments that are past their time at `now` (see [`overdue`]). Reads everything that is open.
    ///
    /// # Errors
    /// [`Transient`] when the read model cannot be read for now.
    pub async fn overdue(&self, now: Timestamp, grace: Duration) -> Result<OverdueList, Transient> {
        let (mut payments, mut unreadable, mut uncertain) = (Vec::new(), Vec::new(), Vec::new());
        let mut open = BTreeMap::new();
        for shard in 0..self.shards() {
            let store = self.model.store();
            let read = tokio::task::spawn_blocking(move || {
                let (mut found, mut open) = (Vec::new(), BTreeMap::new());
                store.visit_open_payments(shard, |view| {
                    found.extend(overdue(&view, shard, now, grace));
                    if !view.at_rest {
                        *open.entry((shard, OpenLeg::of(&view))).or_default() += 1;
                    }
                })?;
                Ok::<_, Fault>((found, open, store.marked(shard)?))
            });
            let read = read
                .await
                .map_err(|error| Transient::unreachable(format!("what is open in shard {shard}: {error}")))?;
            let (found, open_here, marked) = read.map_err(|fault| {
                self.model.report_fault(shard, &fault);
                Transient::unreachable(format!("what is open in shard {shard}: {fault}"))
            })?;
            payments.extend(found);
            open.extend(open_here);
            unreadable.extend(marked.iter().filter_map(StreamId::payment).cloned());
            if self.model.live(shard).is_err() {
                uncertain.push(shard);
            }
        }
        payments.sort_by(|a, b| (a.since, &a.payment_id).cmp(&(b.since, &b.payment_id)));
        Ok(OverdueList { payments, unreadable, open, uncertain })
    }
}

/// Whether the payment, which lies in `shard`, is past its time at `now`. `grace` is what a chain may take until a deadline
/// that has passed can be acted on with proof: its finality, and the next look.
///
/// A payment at rest is never overdue, nor is one whose quotes are still being collected: no money can have moved, unless the
/// payer deposits by a transaction of its own.
pub fn overdue(view: &PaymentView, shard: u16, now: Timestamp, grace: Duration) -> Option<Overdue> {
    if view.at_rest {
        return None;
    }
    let step = match view.status {
        PaymentStatus::Pending => pending(view),
        PaymentStatus::Finalizing => finalizing(view, grace),
        PaymentStatus::Completed => completed(view, grace),
        PaymentStatus::Failed => failed(view),
    }?;
    let grace = if step.needs_proof { TimeDelta::from_std(grace).unwrap_or(TimeDelta::MAX) } else { TimeDelta::zero() };
    let late = step.since.checked_add_signed(grace).is_some_and(|due| now > due);
    late.then(|| Overdue {
        payment_id: view.payment_id.clone(),
        shard,
        stage: step.stage,
        asset: view.source.asset().clone(),
        amount: view.escrowed.unwrap_or(view.permitted),
        since: step.since,
        waits_for: step.waits_for,
        transaction: step.transaction.cloned(),
        settler: view.settler(),
        verifier: view.verifier.clone(),
    })
}

/// The step that a payment has to take, and when at the latest.
struct Step<'a> {
    stage: OverdueStage,
    since: Timestamp,
    waits_for: &'static str,
    transaction: Option<&'a Transaction>,
    /// Whether a chain has to prove something first, which the grace is for.
    needs_proof: bool,
}

fn pending(view: &PaymentView) -> Option<Step<'_>> {
    if let Some(reopened) = &view.reopened {
        return Some(unreassigned(view, reopened));
    }
    let windows = &view.windows;
    let (stage, since, waits_for) = if view.escrowed.is_some() {
        let waits_for = "proof that nothing was delivered: a settled block past the deadline on the destination chain";
        (OverdueStage::Undelivered, windows.fulfillment_deadline, waits_for)
    } else if view.quote.is_some() || view.is_payer_deposit() || view.leaves_money_outside {
        let waits_for = "the deposit to be settled, or proof that it can never be made";
        (OverdueStage::Undeposited, windows.reserve_deadline, waits_for)
    } else {
        return None;
    };
    let since = from_unix_seconds(since)?;
    Some(Step { stage, since, waits_for, transaction: on_source(view), needs_proof: true })
}

/// The last transaction on the source chain before the money leaves the escrow.
fn on_source(view: &PaymentView) -> Option<&Transaction> {
    view.reassignment.as_ref().or(view.deposit.as_ref())
}

/// Quotes are collected within seconds and the winner answers within a minute, so that what takes long is the chain.
fn unreassigned<'a>(view: &'a PaymentView, reopened: &Reopened) -> Step<'a> {
    let waits_for = match reopened.is_awarded {
        false => "quotes of settlers that deliver in the place of the one that did not",
        true => {
            "the escrow to be reassigned to the settler that won in the place of the one that did not deliver, or proof that it cannot be"
        }
    };
    let (stage, since) = (OverdueStage::Unreassigned, reopened.since);
    Step { stage, since, waits_for, transaction: on_source(view), needs_proof: true }
}

fn finalizing(view: &PaymentView, grace: Duration) -> Option<Step<'_>> {
    if view.unattested {
        // Recorded by a gateway from before a delivery at its depth completed its payment.
        return unattested(view, grace);
    }
    Some(Step {
        stage: OverdueStage::Undelivered,
        since: from_unix_seconds(view.windows.fulfillment_deadline)?,
        waits_for: "the delivery to have its depth, or to be gone for good",
        transaction: view.fulfillment.as_ref().or(on_source(view)),
        needs_proof: true,
    })
}

/// Of the refund window's margin a quarter is left for an operator to wake the verifier, or to have another instance of it
/// sign. Nothing has to be proven by a chain, so the grace can only make this earlier.
fn unattested(view: &PaymentView, grace: Duration) -> Option<Step<'_>> {
    let windows = &view.windows;
    let late = attestation_due(windows.fulfillment_deadline, windows.refund_after);
    let graced = windows.fulfillment_deadline.saturating_add(grace.as_secs());
    Some(Step {
        stage: OverdueStage::Unattested,
        since: from_unix_seconds(late.min(graced))?,
        waits_for: "the fulfillment verifier to attest the delivery, before the refund window opens and the settler \
                    loses what it delivered",
        transaction: view.fulfillment.as_ref(),
        needs_proof: false,
    })
}

fn completed(view: &PaymentView, grace: Duration) -> Option<Step<'_>> {
    if let Some(owed) = &view.refund_owed {
        return unrefunded(view, owed);
    }
    if view.unattested {
        return unattested(view, grace);
    }
    // Within half the window the settler or the gateway releases; then there is still time to find out what keeps them.
    let windows = &view.windows;
    let window = windows.refund_after.saturating_sub(windows.fulfillment_deadline);
    let waits_for = match &view.release {
        None => "the settler or the gateway to release the escrow before its refund window",
        Some(_) => "the release that the gateway sent to be settled before the refund window",
    };
    Some(Step {
        stage: OverdueStage::Unreleased,
        since: from_unix_seconds(windows.refund_after - window / 2)?,
        waits_for,
        transaction: view.release.as_ref().or(view.fulfillment.as_ref()),
        needs_proof: false,
    })
}

fn failed(view: &PaymentView) -> Option<Step<'_>> {
    let windows = &view.windows;
    let Some(owed) = &view.refund_owed else {
        let waits_for = match view.winner_untold {
            true => "the winner to be told that its award is over",
            false if view.leaves_money_outside => {
                "a settled block past the deposit's window, to see what is at the deposit address, or at that of the batch"
            }
            false => "proof that the payer's own transaction can deposit nothing any more",
        };
        let since = from_unix_seconds(windows.reserve_deadline)?;
        return Some(Step { stage: OverdueStage::Undeposited, since, waits_for, transaction: None, needs_proof: true });
    };
    unrefunded(view, owed)
}

fn unrefunded<'a>(view: &'a PaymentView, owed: &RefundOwed) -> Option<Step<'a>> {
    let since = if owed.after_window { from_unix_seconds(view.windows.refund_after)? } else { owed.since };
    let waits_for = match &view.refund {
        None => "a refund transaction",
        Some(refund) if refund.block_number.is_none() => "the refund transaction to be mined and settled",
        Some(_) => "the refund to be settled",
    };
    let transaction = view.refund.as_ref().or(on_source(view));
    Some(Step { stage: OverdueStage::Unrefunded, since, waits_for, transaction, needs_proof: true })
}
