//! Reassignments: the call that brings one, where it stands by the escrow's record, and what the history tells of those that were made
//! (ADR 148).

use chains::reassignment::{Standing, Unknown};
use events::{Hash32, PaymentId, event::Inclusion};
use gateway_program::{
    GatewayError, Key,
    account::Escrow,
    host::{self, Message},
    instruction::{Reassign, Tag},
    message::NonDelivery,
    rules,
};
use sagas::ports::{PrepareError, ReassignmentOrder, ReassignmentState, Transient};
use signer::Ed25519Key;

use super::{
    calls::{Call, Held, escrow_of},
    escrows::{Escrows, is_of},
    history::{Executed, History, is_call},
    node::{Commitment, Node},
    program::{ConvertError, key, units},
    records::check_kept,
    refusal::refused,
    submitters,
    transaction::BUDGET_INSTRUCTIONS,
    word::Word,
};

/// Index of the escrow's record among the accounts of a reassignment.
pub(super) const ESCROW_IN_REASSIGNMENT: usize = 1;

/// A reassignment that was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reassignment {
    /// The quote that the escrow was reserved for before.
    pub previous_quote_hash: Hash32,
    /// The quote that it was reserved for by this.
    pub quote_hash: Hash32,
    /// The transaction.
    pub inclusion: Inclusion,
}

/// The reassignments of one chain.
#[derive(Debug, Clone, Copy)]
pub struct Reassignments<'a> {
    node: &'a Node,
}

/// The reassignment, and who sends it: the first of `submitters` that can and has the lamports for so many exits left.
///
/// # Errors
/// See [`PrepareError`].
pub(super) async fn call<'a>(
    node: &Node,
    order: &ReassignmentOrder,
    submitters: &[&'a Ed25519Key],
    exits_left: u64,
) -> Result<(Call<'a>, &'a Ed25519Key), PrepareError> {
    let program = key(&order.escrow.contract)?;
    let payment_id = order.payment_id.on_chain().0;
    let refuse = |reason: String| refused(node, &program, reason);
    let Held { time, record, balances, .. } = escrow_of(node, &program, &payment_id, submitters).await?;
    if !is_of(&record, &order.escrow) {
        return Err(refuse("the escrow is not the payment's".to_owned()));
    }
    let to = reassign_data(order)?;
    match rules::reassignment(&record, &to, &key(&order.escrow.reserver)?, time) {
        Ok(()) => {}
        // The settled time of the destination is past it; this cluster's clock is behind.
        Err(GatewayError::ReservationNotOver) => {
            let lapses = record.fulfill_by;
            let waits = format!("the cluster is at {time}, and the reservation lapses after {lapses}");
            return Err(PrepareError::Waiting(waits));
        }
        Err(error) => return Err(refuse(error.to_string())),
    }
    let submitter = submitters::choose(node, submitters, &balances, exits_left)?;
    let statement = NonDelivery { payment_id, quote_hash: record.quote_hash };
    let digest = statement.digest(&node.domain(&program));
    let reassign = host::reassign(&program, &payment_id, record.reserver, &to, BUDGET_INSTRUCTIONS);
    let instructions = Word::read(&order.non_delivery)?.bring(&record.releaser, &digest, reassign)?.to_vec();
    let submitters = submitters.iter().copied().zip(balances).collect();
    Ok((Call { program, instructions, contended: Vec::new(), submitters }, submitter))
}

fn reassign_data(order: &ReassignmentOrder) -> Result<Reassign, ConvertError> {
    let reservation = &order.reservation;
    Ok(Reassign {
        previous_quote_hash: order.lapsed.quote_hash.0,
        quote_hash: reservation.quote_hash.0,
        settler: key(&reservation.payout_account)?,
        source_amount: units(reservation.source_amount)?,
        fulfill_by: reservation.fulfill_by,
    })
}

impl<'a> Reassignments<'a> {
    /// The reassignments of the chain of `node`.
    pub fn of(node: &'a Node) -> Self {
        Self { node }
    }

    /// Where a reassignment stands in the finalized state, whoever brought it.
    ///
    /// # Errors
    /// [`Transient`], also where the record says nothing of it.
    pub async fn state(&self, order: &ReassignmentOrder) -> Result<ReassignmentState, Transient> {
        let program = key(&order.escrow.contract)?;
        let escrows = Escrows::of(self.node);
        let found = escrows.settled(&order.payment_id, &program).await?;
        let (chain, slot, time) = (self.node.chain_id(), found.settled.slot, found.time);
        let at = || format!("the finalized state of {chain} at or above slot {slot}, time {time}");
        let Some(record) = found.record else {
            check_kept(self.node, time, order.escrow.refund_after)?;
            // It was finalized before, or it would not be reassigned.
            return Err(self.node.contradiction(format!("nothing in escrow for {}: {}", order.payment_id, at())));
        };
        match Standing::of(&escrows.to_record(&record)?, order, time) {
            Ok(Standing::Open) => Ok(ReassignmentState::Open),
            Ok(Standing::Reassigned) => self.last(&record, &program).await.map(ReassignmentState::Reassigned),
            Ok(Standing::Missed(miss)) => match self.earlier(&record, &program, order).await? {
                Some(inclusion) => Ok(ReassignmentState::Reassigned(inclusion)),
                None => Ok(miss.state(&at())),
            },
            // It may have been reserved for the new quote, and for another since.
            Err(unknown @ Unknown::Third(_)) => match self.earlier(&record, &program, order).await? {
                Some(inclusion) => Ok(ReassignmentState::Reassigned(inclusion)),
                None => Err(self.node.contradiction(format!("{unknown}: {}", at()))),
            },
            Err(unknown) => Err(self.node.contradiction(format!("{unknown}: {}", at()))),
        }
    }

    /// All reassignments of the settled escrow of a payment at `program`, the first one first; none where there is no escrow.
    ///
    /// # Errors
    /// [`Transient`], also when the node has no history of them.
    pub async fn all(&self, payment_id: &PaymentId, program: &Key) -> Result<Vec<Reassignment>, Transient> {
        match Escrows::of(self.node).settled(payment_id, program).await?.record {
            Some(record) => self.made(&record, program).await,
            None => Ok(Vec::new()),
        }
    }

    /// The transaction that reserved the settled escrow `record` for the quote that it has.
    async fn last(&self, record: &Escrow, program: &Key) -> Result<Inclusion, Transient> {
        let address = host::escrow_address(program, &record.payment_id).key;
        let Some(slot) = record.reassigned_slot() else {
            return Err(self
                .node
                .contradiction("an escrow that is reserved for a quote and was never reassigned to it"));
        };
        let is = |executed: &Executed| {
            reassign_of(executed, program, &address).is_some_and(|reassign| reassign.quote_hash == record.quote_hash)
        };
        History::of(self.node).transaction_at(&address, slot, Commitment::Finalized, is).await
    }

    /// The transaction that reserved the escrow for the quote of `order`, where another did so for another since.
    async fn earlier(
        &self,
        record: &Escrow,
        program: &Key,
        order: &ReassignmentOrder,
    ) -> Result<Option<Inclusion>, Transient> {
        if record.quote_hash == order.lapsed.quote_hash.0 || record.reassignments() < 2 {
            return Ok(None);
        }
        let made = self.made(record, program).await?;
        let found = made.into_iter().find(|made| made.quote_hash == order.reservation.quote_hash);
        Ok(found.map(|made| made.inclusion))
    }

    async fn made(&self, record: &Escrow, program: &Key) -> Result<Vec<Reassignment>, Transient> {
        let count = usize::from(record.reassignments());
        if count == 0 {
            return Ok(Vec::new());
        }
        let address = host::escrow_address(program, &record.payment_id).key;
        let read = |executed: &Executed| reassign_of(executed, program, &address);
        let found = History::of(self.node).find_calls(&address, record.secured_slot(), count, read).await?;
        let mut made = Vec::with_capacity(count);
        let mut until = record.quote_hash;
        for (reassign, inclusion) in found {
            if reassign.quote_hash != until {
                return Err(self.node.contradiction("reassignments of which one does not go on from another"));
            }
            until = reassign.previous_quote_hash;
            made.push(Reassignment {
                previous_quote_hash: Hash32(reassign.previous_quote_hash),
                quote_hash: Hash32(reassign.quote_hash),
                inclusion,
            });
        }
        made.reverse();
        Ok(made)
    }
}

/// What an executed instruction did to the escrow at `address`, if it is a reassignment.
fn reassign_of(executed: &Executed, program: &Key, address: &Key) -> Option<Reassign> {
    let is_one = is_call(executed, program, Tag::Reassign as u8, ESCROW_IN_REASSIGNMENT, address);
    is_one.then(|| Reassign::with_word(&executed.data).ok())?.map(|(reassign, _)| reassign)
}
