//! Escrows: what the program has on record about a payment's money, read so that it can be concluded from.

use gateway_program::{
    Hash, Key,
    account::{ANY_QUOTE, Escrow, State},
    host,
    instruction::{DepositAndReserve, DepositFromAddress, DepositFromOffer, Tag},
};

use chains::escrow::{self, EscrowRecord};
use events::{
    Account, AssetId, Hash32, PaymentId,
    event::{Claim, EscrowPlan, EscrowRefunded, Inclusion},
};
use sagas::ports::{EscrowState, Statement, Transient};

use super::{
    history::{Executed, History, is_call},
    node::{self, Commitment, Node, Settled},
    program::{account, amount, key, signature_bytes, statement_digest, text},
    records::{Read, check_kept, record_in},
    word::{Word, signs},
};

/// Index of the escrow's record among the accounts of a deposit.
const ESCROW_IN_DEPOSIT: usize = 3;
/// Its index among the accounts of release, cancellation and refund.
const ESCROW_IN_END: usize = 0;

/// The escrows of one chain.
#[derive(Debug, Clone, Copy)]
pub struct Escrows<'a> {
    node: &'a Node,
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

impl<'a> Escrows<'a> {
    /// The escrows of the chain of `node`.
    pub fn of(node: &'a Node) -> Self {
        Self { node }
    }

    /// What the program at `program` has on record for the payment, at a slot that is not below `at_least`.
    ///
    /// # Errors
    /// [`Transient`].
    pub async fn record(
        &self,
        payment_id: &PaymentId,
        program: &Key,
        commitment: Commitment,
        at_least: u64,
    ) -> Result<Read<Escrow>, Transient> {
        let payment = payment_id.on_chain().0;
        let address = host::escrow_address(program, &payment).key;
        let snapshot = self.node.accounts(&[address], commitment, at_least).await?;
        let record = match snapshot.account(0) {
            Some(account) => self.parse(account, program)?,
            None => None,
        };
        if record.as_ref().is_some_and(|record| record.payment_id != payment || !is_in_order(record, snapshot.slot)) {
            return Err(self.node.contradiction(format!("the record of {payment_id} is not what it can be")));
        }
        Ok(Read { slot: snapshot.slot, time: snapshot.time, record })
    }

    /// The escrow in an account at an escrow's address; `None` for an address that somebody only sent lamports to.
    pub(super) fn parse(&self, account: &node::Account, program: &Key) -> Result<Option<Escrow>, Transient> {
        record_in(self.node, account, program, Escrow::from_bytes)
    }

    /// The escrow of a payment as the finalized state has it, whosever it is.
    ///
    /// That there is none is believed only when it is read twice: it may end a payment.
    ///
    /// # Errors
    /// [`Transient`], also where it was reassigned so lately that what it was before is not known.
    pub async fn settled(&self, payment_id: &PaymentId, program: &Key) -> Result<SettledEscrow, Transient> {
        if let Some(found) = self.settled_at(self.node.settled().await?, payment_id, program).await? {
            return Ok(found);
        }
        // What is kept of the settled slot may be older than the reassignment.
        let found = self.settled_at(self.node.ask_settled().await?, payment_id, program).await?;
        found.ok_or_else(|| Transient::unreachable(format!("the reassignment of {payment_id} is not finalized yet")))
    }

    /// As [`Self::settled`], where the cluster has finalized so far; `None` where the escrow was reassigned since.
    async fn settled_at(
        &self,
        settled: Settled,
        payment_id: &PaymentId,
        program: &Key,
    ) -> Result<Option<SettledEscrow>, Transient> {
        let read = self.record(payment_id, program, Commitment::Finalized, settled.slot).await?;
        let Some(record) = read.record else {
            let again = self.record(payment_id, program, Commitment::Finalized, settled.slot).await?;
            let time = read.time.min(again.time);
            return Ok(Some(SettledEscrow { settled, time, record: None, unsettled: again.record.is_some() }));
        };
        // What is said to be of the finalized state is so only up to the slot that two answers reached.
        if record.secured_slot() > settled.slot {
            return Ok(Some(SettledEscrow { settled, time: read.time, record: None, unsettled: true }));
        }
        // The record does not keep the reservation before.
        if record.reassigned_slot().is_some_and(|slot| slot > settled.slot) {
            return Ok(None);
        }
        let has_ended_since = record.changed_slot() > settled.slot;
        let record = if has_ended_since { record.before_end() } else { record };
        Ok(Some(SettledEscrow { settled, time: read.time, record: Some(record), unsettled: false }))
    }

    /// The program's record as the one of every family.
    ///
    /// # Errors
    /// [`Transient`], naming the member that an escrow cannot have.
    pub fn to_record(&self, escrow: &Escrow) -> Result<EscrowRecord, Transient> {
        let chain_id = self.node.chain_id();
        let unreadable = |what: &str| Transient::contradiction(format!("{chain_id}: an escrow with {what}"));
        let asset: AssetId = format!("{chain_id}/token:{}", text(&escrow.mint))
            .parse()
            .map_err(|_| unreadable("a mint that is not a token"))?;
        let state = match escrow.state() {
            Some(State::Reserved) => escrow::State::Reserved,
            Some(State::Released) => escrow::State::Released,
            Some(State::Refunded) => escrow::State::Refunded,
            None => return Err(unreadable("an unknown state")),
        };
        Ok(EscrowRecord {
            chain_id: chain_id.clone(),
            state,
            payer: account(&escrow.payer),
            reserver: account(&escrow.reserver),
            releaser: account(&escrow.releaser),
            asset,
            settler: account(&escrow.settler),
            deposited: amount(escrow.deposited),
            source_amount: amount(escrow.source_amount),
            terms_hash: Hash32(escrow.terms_hash),
            quote_hash: Hash32(escrow.quote_hash),
            reserve_deadline: escrow.reserve_deadline,
            fulfillment_deadline: escrow.fulfillment_deadline,
            fulfill_by: escrow.fulfill_by,
            refund_after: escrow.refund_after,
        })
    }

    /// Where the escrow stands at the required depth; an escrow of somebody else under the same payment id is none.
    ///
    /// # Errors
    /// [`Transient`].
    pub async fn state(&self, payment_id: &PaymentId, plan: &EscrowPlan) -> Result<EscrowState, Transient> {
        let program = key(&plan.contract)?;
        let found = self.settled(payment_id, &program).await?;
        let Some(record) = found.record else {
            check_kept(self.node, found.time, plan.refund_after)?;
            return Ok(EscrowState::Absent);
        };
        if !is_of(&record, plan) {
            return Ok(EscrowState::Absent);
        }
        match record.state() {
            None => Err(self.node.contradiction("an escrow in an unknown state")),
            // The program releases strictly before `refund_after`, and the cluster's clock never goes back.
            Some(State::Reserved) if found.time >= record.refund_after => Ok(EscrowState::Lapsed),
            Some(State::Reserved) => Ok(EscrowState::Held),
            Some(State::Released) => {
                let inclusion = self.end_of(&record, &program, &[Tag::Release], Commitment::Finalized).await?;
                Ok(EscrowState::Released(inclusion))
            }
            Some(State::Refunded) => {
                let tags = [Tag::Cancel, Tag::Refund];
                let inclusion = self.end_of(&record, &program, &tags, Commitment::Finalized).await?;
                let amount = amount(record.deposited).ok_or_else(|| self.node.contradiction("a refund of nothing"))?;
                Ok(EscrowState::Refunded(EscrowRefunded { inclusion, amount, claims: Vec::new() }))
            }
        }
    }

    /// The transaction that ended the escrow `record` by one of the instructions `tags`.
    ///
    /// # Errors
    /// [`Transient`], also when the node has no history of it.
    pub async fn end_of(
        &self,
        record: &Escrow,
        program: &Key,
        tags: &[Tag],
        commitment: Commitment,
    ) -> Result<Inclusion, Transient> {
        let address = host::escrow_address(program, &record.payment_id).key;
        let is = |executed: &Executed| {
            tags.iter().any(|tag| is_call(executed, program, *tag as u8, ESCROW_IN_END, &address))
        };
        History::of(self.node).transaction_at(&address, record.ended_slot, commitment, is).await
    }

    /// The transaction that made the settled escrow `record`, by a deposit that reserved it for a quote of which `is` holds.
    ///
    /// # Errors
    /// [`Transient`], also when the node has no history of it.
    pub async fn deposit_of(
        &self,
        record: &Escrow,
        program: &Key,
        is: impl Fn(&Hash) -> bool,
    ) -> Result<Inclusion, Transient> {
        let address = host::escrow_address(program, &record.payment_id).key;
        let is = |executed: &Executed| {
            let tags = [Tag::DepositAndReserve, Tag::DepositFromAddress, Tag::DepositFromOffer];
            tags.iter().any(|tag| is_call(executed, program, *tag as u8, ESCROW_IN_DEPOSIT, &address))
                && quote_reserved_for(&executed.data).is_some_and(|quote_hash| is(&quote_hash))
        };
        History::of(self.node).transaction_at(&address, record.secured_slot(), Commitment::Finalized, is).await
    }

    /// What the settled escrow of a payment owes the payer since its release: what the settler did not ask for, while it is in the
    /// vault.
    ///
    /// # Errors
    /// [`Transient`].
    pub async fn claims(&self, payment_id: &PaymentId, plan: &EscrowPlan) -> Result<Vec<Claim>, Transient> {
        let program = key(&plan.contract)?;
        let found = self.settled(payment_id, &program).await?;
        let is_owed =
            |record: &Escrow| is_of(record, plan) && record.state() == Some(State::Released) && record.remainder() > 0;
        let Some(record) = found.record.filter(is_owed) else { return Ok(Vec::new()) };
        let vault = host::vault_address(&program, &record.payment_id).key;
        let vault = self.node.accounts(&[vault], Commitment::Finalized, found.settled.slot).await?;
        // A stranger's lamports at its address do not make it a vault again.
        if vault.account(0).is_none_or(|vault| vault.owner != record.token_program) {
            return Ok(Vec::new());
        }
        let owed = account(&record.payer).zip(amount(record.remainder()));
        let (owner, amount) = owed.ok_or_else(|| self.node.contradiction("an escrow of nobody's"))?;
        Ok(vec![Claim { owner, amount }])
    }

    /// Whether `attestation`, hex with 0x, is the releaser's statement, as the program would judge it: a key's signature, or
    /// the attestation of the verifier set whose id the releaser is. The node is not asked.
    pub fn attestation_holds(&self, statement: &Statement, plan: &EscrowPlan, attestation: &str) -> bool {
        let holds = || {
            let releaser = key(&plan.releaser).ok()?;
            Some(Word::read(attestation).ok()?.holds(&releaser, &self.digest(statement, plan)?))
        };
        holds() == Some(true)
    }

    /// Whether `signature`, hex with 0x, is the statement signed by the key of `member`, as the program would judge it.
    pub fn signed_by(&self, statement: &Statement, plan: &EscrowPlan, member: &Account, signature: &str) -> bool {
        let holds = || Some(signs(&key(member).ok()?, &self.digest(statement, plan)?, &signature_bytes(signature)?));
        holds() == Some(true)
    }

    fn digest(&self, statement: &Statement, plan: &EscrowPlan) -> Option<Hash> {
        let domain = self.node.domain(&key(&plan.contract).ok()?);
        Some(statement_digest(statement, &domain).ok()?.0)
    }
}

/// The quote for which a deposit with these data reserves; `None` for the data of another instruction.
fn quote_reserved_for(data: &[u8]) -> Option<Hash> {
    let signed = DepositAndReserve::from_bytes(data).map(|deposit| deposit.quote_hash);
    let sent = || DepositFromAddress::from_bytes(data).map(|deposit| deposit.reservation.quote_hash);
    let bought = || DepositFromOffer::from_bytes(data).map(|deposit| deposit.reservation.quote_hash);
    signed.or_else(sent).or_else(bought)
}

/// Whether a record that was read at `slot` can be what it says.
fn is_in_order(record: &Escrow, slot: u64) -> bool {
    let reserved = record.reassigned_slot().unwrap_or(record.secured_slot());
    let is_counted = record.reassignments() > 0 || record.slots == record.secured_slot();
    let has_its_end = match record.state() {
        Some(State::Reserved) => record.ended_slot <= ANY_QUOTE,
        Some(State::Released | State::Refunded) => (reserved..=slot).contains(&record.ended_slot),
        None => false,
    };
    is_counted && reserved <= slot && has_its_end
}

/// Whether the record carries the accounts and windows of `plan`.
pub(super) fn is_of(record: &Escrow, plan: &EscrowPlan) -> bool {
    key(&plan.reserver) == Ok(record.reserver)
        && key(&plan.releaser) == Ok(record.releaser)
        && record.reserve_deadline == plan.reserve_deadline
        && record.fulfillment_deadline == plan.fulfillment_deadline
        && record.refund_after == plan.refund_after
}

#[cfg(test)]
mod tests {
    use gateway_program::instruction::Reassign;

    use super::*;

    /// An escrow of slot 1,000 as this version of the program makes it.
    fn reserved() -> Escrow {
        let bytes = [&[2, 1][..], &[0; Escrow::SIZE - 2]].concat();
        let escrow = Escrow::from_bytes(&bytes).unwrap();
        Escrow { state: State::Reserved as u8, slots: 1_000, ended_slot: ANY_QUOTE, ..escrow }
    }

    fn reassigned() -> Escrow {
        let to = Reassign {
            previous_quote_hash: [0; 32],
            quote_hash: [1; 32],
            settler: [2; 32],
            source_amount: 3,
            fulfill_by: 4,
        };
        let mut escrow = reserved();
        escrow.reassign(&to, 1_007).unwrap();
        escrow
    }

    fn ended(mut escrow: Escrow, slot: u64) -> Escrow {
        escrow.end(State::Released, slot);
        escrow
    }

    #[test]
    fn a_record_can_be_what_the_program_makes_of_it_and_nothing_else() {
        let older = Escrow { ended_slot: 0, ..reserved() };
        for (record, first) in [
            (reserved(), 1_000),
            (older.clone(), 1_000),
            (reassigned(), 1_007),
            (ended(reserved(), 1_000), 1_000),
            (ended(reassigned(), 1_009), 1_009),
        ] {
            assert!(is_in_order(&record, first), "{record:?}");
            assert!(!is_in_order(&record, first - 1), "{record:?}");
        }
        for impossible in [
            ended(reserved(), 999),
            // It ended before it was reassigned.
            ended(reassigned(), 1_006),
            // An end of what has none.
            Escrow { ended_slot: 1_001, ..reserved() },
            Escrow { ended_slot: 1_008, ..reassigned() },
            // Slots until a reassignment that it does not count.
            Escrow { slots: reassigned().slots, ..reserved() },
            Escrow { state: 0, ..reserved() },
            Escrow { state: 4, ..reassigned() },
        ] {
            assert!(!is_in_order(&impossible, 5_000), "{impossible:?}");
        }
    }
}
