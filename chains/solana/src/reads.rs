//! What the program has on record about a payment, read so that it can be concluded from.

use ed25519_dalek::{Signature, VerifyingKey};
use gateway_program::{
    Key,
    account::{Escrow, FulfillmentRecord, State},
    host,
    ids::SYSTEM_PROGRAM,
    instruction::Tag,
    message::Fulfillment,
    rules::reclaim_from,
};

use chains::escrow;
use events::{
    Amount, AssetId, Hash32, PaymentId,
    event::{EscrowPlan, EscrowRefunded, Inclusion},
};
use sagas::ports::{DeliveryOrder, DeliveryState, EscrowState, Statement, Transient};

use super::{
    node::{Account, Commitment, Node, Settled},
    program::{ConvertError, fulfillment, key, statement_digest, text},
    query::{Executed, is_call},
};

/// Where the escrow's record stands among the accounts of a deposit.
const ESCROW_IN_DEPOSIT: usize = 3;
/// Where it stands among the accounts of release, cancellation and refund.
const ESCROW_IN_END: usize = 0;
/// Where the delivery's record stands among the accounts of a delivery.
const RECORD_IN_DELIVERY: usize = 1;

/// A record of the program as it was at one slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Read<T> {
    /// The slot.
    pub slot: u64,
    /// Its time, UNIX seconds.
    pub time: u64,
    /// The record; `None` when there is none.
    pub record: Option<T>,
}

/// An escrow as the finalized state has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettledEscrow {
    /// How far the cluster had finalized.
    pub settled: Settled,
    /// The time of what was read, UNIX seconds.
    pub time: u64,
    /// The record. What came after the settled slot is left out.
    pub record: Option<Escrow>,
    /// There is a record that came after the settled slot.
    pub unsettled: bool,
}

pub(super) fn unusable(error: ConvertError) -> Transient {
    Transient::misconfigured(format!("unusable order: {error}"))
}

/// The escrow's record in the words of every family.
///
/// # Errors
/// What is in it that cannot be.
pub fn neutral(node: &Node, record: &Escrow) -> Result<escrow::EscrowRecord, Transient> {
    let unreadable = |what: &str| Transient::contradiction(format!("{}: an escrow with {what}", node.chain_id()));
    let asset: AssetId = format!("{}/token:{}", node.chain_id(), text(&record.mint))
        .parse()
        .map_err(|_| unreadable("a mint that is none"))?;
    let state = match record.state() {
        Some(State::Reserved) => escrow::State::Reserved,
        Some(State::Released) => escrow::State::Released,
        Some(State::Refunded) => escrow::State::Refunded,
        None => return Err(unreadable("an unknown state")),
    };
    Ok(escrow::EscrowRecord {
        chain_id: node.chain_id().clone(),
        state,
        payer: text(&record.payer),
        reserver: text(&record.reserver),
        releaser: text(&record.releaser),
        asset,
        settler: text(&record.settler),
        deposited: amount(record.deposited),
        source_amount: amount(record.source_amount),
        terms_hash: Hash32(record.terms_hash),
        quote_hash: Hash32(record.quote_hash),
        reserve_deadline: record.reserve_deadline,
        fulfillment_deadline: record.fulfillment_deadline,
        fulfill_by: record.fulfill_by,
        refund_after: record.refund_after,
    })
}

/// An amount of the program; `None` for zero.
pub(super) fn amount(units: u64) -> Option<Amount> {
    units.to_string().parse().ok()
}

/// Whether the record carries the accounts and windows of `plan`.
pub(super) fn is_of(record: &Escrow, plan: &EscrowPlan) -> bool {
    let same = |account: &Key, text: &str| key(text).as_ref() == Ok(account);
    same(&record.reserver, &plan.reserver)
        && same(&record.releaser, &plan.releaser)
        && record.reserve_deadline == plan.reserve_deadline
        && record.fulfillment_deadline == plan.fulfillment_deadline
        && record.refund_after == plan.refund_after
}

impl Node {
    /// What the program at `program` has on record for the payment, at a slot that is not below `at_least`.
    ///
    /// # Errors
    /// [`Transient`].
    pub async fn escrow_record(
        &self,
        payment_id: &PaymentId,
        program: &Key,
        commitment: Commitment,
        at_least: u64,
    ) -> Result<Read<Escrow>, Transient> {
        let payment = payment_id.on_chain().0;
        let address = host::escrow_address(program, &payment).key;
        let snapshot = self.accounts(&[address], commitment, at_least).await?;
        let record = match snapshot.account(0) {
            Some(account) => self.escrow_in(account, program)?,
            None => None,
        };
        if let Some(record) = &record {
            let in_order = record.secured_slot <= snapshot.slot
                && record.ended_slot <= snapshot.slot
                && (record.ended_slot >= record.secured_slot) == (record.state() != Some(State::Reserved));
            if record.payment_id != payment || record.state().is_none() || !in_order {
                return Err(self.contradiction(format!("the record of {payment_id} is not what it can be")));
            }
        }
        Ok(Read { slot: snapshot.slot, time: snapshot.time, record })
    }

    /// The escrow in an account at an escrow's address; `None` for an address that somebody only sent lamports to.
    pub(super) fn escrow_in(&self, account: &Account, program: &Key) -> Result<Option<Escrow>, Transient> {
        self.record_in(account, program, Escrow::from_bytes)
    }

    fn record_in<T>(
        &self,
        account: &Account,
        program: &Key,
        read: impl Fn(&[u8]) -> Option<T>,
    ) -> Result<Option<T>, Transient> {
        if account.owner == SYSTEM_PROGRAM && account.data.is_empty() {
            return Ok(None);
        }
        if account.owner != *program {
            return Err(self.contradiction(format!("a record that belongs to {}", text(&account.owner))));
        }
        let record = read(&account.data);
        record.map(Some).ok_or_else(|| self.contradiction("a record in an unknown layout"))
    }

    /// The escrow of a payment as the finalized state has it, whosever it is.
    ///
    /// That there is none is believed only when it is read twice: it may end a payment.
    ///
    /// # Errors
    /// [`Transient`].
    pub async fn settled_escrow(&self, payment_id: &PaymentId, program: &Key) -> Result<SettledEscrow, Transient> {
        let settled = self.settled().await?;
        let read = self.escrow_record(payment_id, program, Commitment::Finalized, settled.slot).await?;
        let Some(mut record) = read.record else {
            let again = self.escrow_record(payment_id, program, Commitment::Finalized, settled.slot).await?;
            let time = read.time.min(again.time);
            return Ok(SettledEscrow { settled, time, record: None, unsettled: again.record.is_some() });
        };
        // What is said to be of the finalized state is so only up to the slot that two answers reached.
        if record.secured_slot > settled.slot {
            return Ok(SettledEscrow { settled, time: read.time, record: None, unsettled: true });
        }
        if record.ended_slot > settled.slot {
            record.state = State::Reserved as u8;
            record.ended_slot = 0;
        }
        Ok(SettledEscrow { settled, time: read.time, record: Some(record), unsettled: false })
    }

    /// Refuses to conclude from a missing record at a time when it may have been closed.
    pub(super) fn is_kept(&self, time: u64, end: u64) -> Result<(), Transient> {
        if time < reclaim_from(end) {
            return Ok(());
        }
        Err(Transient::contradiction(format!(
            "{}: the record may have been closed; that there is none proves nothing {} seconds after its window",
            self.chain_id(),
            time.saturating_sub(end)
        )))
    }

    /// Where the escrow stands at the required depth; an escrow of somebody else under the same payment id is none.
    ///
    /// # Errors
    /// [`Transient`].
    pub async fn escrow_state(&self, payment_id: &PaymentId, plan: &EscrowPlan) -> Result<EscrowState, Transient> {
        let program = key(&plan.contract).map_err(unusable)?;
        let found = self.settled_escrow(payment_id, &program).await?;
        let Some(record) = found.record else {
            self.is_kept(found.time, plan.refund_after)?;
            return Ok(EscrowState::Absent);
        };
        if !is_of(&record, plan) {
            return Ok(EscrowState::Absent);
        }
        match record.state() {
            None => Err(self.contradiction("an escrow in an unknown state")),
            // The program releases strictly before `refund_after`, and the cluster's clock never goes back.
            Some(State::Reserved) if found.time >= record.refund_after => Ok(EscrowState::Lapsed),
            Some(State::Reserved) => Ok(EscrowState::Held),
            Some(State::Released) => self.end_of(&record, &program, &[Tag::Release]).await.map(EscrowState::Released),
            Some(State::Refunded) => {
                let inclusion = self.end_of(&record, &program, &[Tag::Cancel, Tag::Refund]).await?;
                let amount = amount(record.deposited).ok_or_else(|| self.contradiction("a refund of nothing"))?;
                Ok(EscrowState::Refunded(EscrowRefunded { inclusion, amount, claims: Vec::new() }))
            }
        }
    }

    async fn end_of(&self, record: &Escrow, program: &Key, tags: &[Tag]) -> Result<Inclusion, Transient> {
        let address = host::escrow_address(program, &record.payment_id).key;
        let is = |executed: &Executed| {
            tags.iter().any(|tag| is_call(executed, program, *tag as u8, ESCROW_IN_END, &address))
        };
        self.transaction_at(&address, record.ended_slot, Commitment::Finalized, is).await
    }

    /// The transaction that made the settled escrow `record`.
    ///
    /// # Errors
    /// [`Transient`], also when the node has no history of it.
    pub async fn deposit_of(&self, record: &Escrow, program: &Key) -> Result<Inclusion, Transient> {
        let address = host::escrow_address(program, &record.payment_id).key;
        let tag = Tag::DepositAndReserve as u8;
        let is = |executed: &Executed| is_call(executed, program, tag, ESCROW_IN_DEPOSIT, &address);
        self.transaction_at(&address, record.secured_slot, Commitment::Finalized, is).await
    }

    /// Where the delivery stands.
    ///
    /// # Errors
    /// [`Transient`].
    pub async fn delivery_state(&self, order: &DeliveryOrder) -> Result<DeliveryState, Transient> {
        let program = key(&order.proxy).map_err(unusable)?;
        let terms = fulfillment(order).map_err(unusable)?;
        let settled = self.settled().await?;
        let read = self.delivery_at(&terms, &program, Commitment::Finalized, settled.slot).await?;
        match read.record {
            Some(record) if record.slot <= settled.slot => {
                self.fulfilled(&terms, &program, record.slot, Commitment::Finalized).await.map(DeliveryState::Final)
            }
            Some(record) => {
                self.fulfilled(&terms, &program, record.slot, Commitment::Confirmed).await.map(DeliveryState::Seen)
            }
            // The program delivers up to and in the second `fulfill_by`.
            None if read.time > order.fulfill_by => {
                let again = self.delivery_at(&terms, &program, Commitment::Finalized, settled.slot).await?;
                self.is_kept(read.time.max(again.time), order.fulfill_by)?;
                match again.record {
                    Some(_) => Err(self.contradiction("a delivery that was there, and then was not")),
                    None if again.time > order.fulfill_by => Ok(DeliveryState::Impossible),
                    None => Err(self.contradiction("a clock that goes back")),
                }
            }
            None => {
                let read = self.delivery_at(&terms, &program, Commitment::Confirmed, settled.slot).await?;
                let Some(record) = read.record else { return Ok(DeliveryState::NotSeen) };
                self.fulfilled(&terms, &program, record.slot, Commitment::Confirmed).await.map(DeliveryState::Seen)
            }
        }
    }

    /// The record of a delivery under exactly `terms`.
    ///
    /// # Errors
    /// [`Transient`].
    pub async fn delivery_at(
        &self,
        terms: &Fulfillment,
        program: &Key,
        commitment: Commitment,
        at_least: u64,
    ) -> Result<Read<FulfillmentRecord>, Transient> {
        let address = host::fulfillment_address(program, &terms.key(program)).key;
        let snapshot = self.accounts(&[address], commitment, at_least).await?;
        let record = match snapshot.account(0) {
            Some(account) => self.record_in(account, program, FulfillmentRecord::from_bytes)?,
            None => None,
        };
        if let Some(record) = &record {
            let told = Fulfillment {
                payment_id: record.payment_id,
                quote_hash: record.quote_hash,
                settler: record.settler,
                mint: record.mint,
                recipient: record.recipient,
                amount: record.amount,
                fulfill_by: record.fulfill_by,
            };
            if told != *terms || record.slot > snapshot.slot {
                return Err(self.contradiction("the record of a delivery is not of its terms"));
            }
        }
        Ok(Read { slot: snapshot.slot, time: snapshot.time, record })
    }

    async fn fulfilled(
        &self,
        terms: &Fulfillment,
        program: &Key,
        slot: u64,
        commitment: Commitment,
    ) -> Result<Inclusion, Transient> {
        let address = host::fulfillment_address(program, &terms.key(program)).key;
        let is = |executed: &Executed| is_call(executed, program, Tag::Fulfill as u8, RECORD_IN_DELIVERY, &address);
        self.transaction_at(&address, slot, commitment, is).await
    }

    /// Whether `signature`, hex with 0x, is the releaser's statement, as the program would judge it. No node is asked.
    pub fn attestation_holds(&self, statement: &Statement, plan: &EscrowPlan, signature: &str) -> bool {
        let holds = || {
            let program = key(&plan.contract).ok()?;
            let releaser = VerifyingKey::from_bytes(&key(&plan.releaser).ok()?).ok()?;
            let digest = statement_digest(statement, &self.domain(&program)).ok()?;
            let signature = Signature::from_bytes(&signature_bytes(signature)?);
            releaser.verify_strict(&digest.0, &signature).ok()
        };
        holds().is_some()
    }
}

/// The 64 bytes of an Ed25519 signature, hex with 0x.
pub fn signature_bytes(text: &str) -> Option<[u8; 64]> {
    hex::decode(text.strip_prefix("0x")?).ok()?.try_into().ok()
}
