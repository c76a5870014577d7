//! Escrows: what their contracts have on record about a payment, read so that it can be concluded from. How far an answer counts
//! is `reads`' to say.

use alloy::primitives::{Address, B256, Log};

use chains::escrow;
use escrow_abi::{
    attest::statement_digest,
    claims,
    contracts::{GatewayEscrow, units, word},
    record::{self, EscrowTerms, RecordError, Stored},
    signature, verifier_set,
};
use events::{
    Account, Hash32, OwnedAsset, PaymentId,
    event::{Claim, EscrowPlan, EscrowRefunded, Inclusion},
};
use sagas::ports::{EscrowState, Statement, Transient};

use super::{
    address::{account, address},
    node::{Answer, Block, Node, State},
    reads::Read,
    search::{EventSearch, SearchScope},
};

/// An escrow's record, with the blocks of its changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DatedRecord {
    /// The record in the words of every family.
    pub escrow: escrow::EscrowRecord,
    /// The terms that the contract commits to, with which it is called.
    pub terms: EscrowTerms,
    /// Number of the block that has the deposit.
    pub deposited_at: u64,
    /// How many reservations it has had: more than one where it was reassigned.
    pub round: u8,
    /// Number of the block that has the reservation, the last one.
    pub reserved_at: Option<u64>,
    /// Number of the block that has the release or the refund.
    pub ended_at: Option<u64>,
}

/// An escrow as of a solidified block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SettledEscrow {
    /// The block, which two answers had.
    pub settled: Block,
    /// Its time as contracts see it, UNIX seconds: every later block's is at least this.
    pub time: u64,
    /// The record as it was then: what came later is left out.
    pub record: Option<DatedRecord>,
    /// There is a record, and its deposit came later.
    pub unsettled: bool,
}

impl DatedRecord {
    /// Whether it is the payer deposit under `plan` for a payment of these terms, whatever has become of it since.
    pub fn is_deposit_of(&self, source: &OwnedAsset, terms_hash: Hash32, plan: &EscrowPlan) -> bool {
        self.escrow.is_deposit_of(source, terms_hash, plan)
    }

    /// Whose money it is.
    ///
    /// # Errors
    /// [`Transient`] when `node` says that it is nobody's.
    pub fn payer(&self, node: &Node) -> Result<Address, Transient> {
        let payer = self.escrow.payer.as_ref();
        Ok(address(payer.ok_or_else(|| node.contradiction("an escrow of nobody's money"))?)?)
    }

    /// The number of the block that reassigned it last.
    fn reassigned_at(&self) -> Option<u64> {
        self.reserved_at.filter(|_| self.round > 1)
    }

    /// The record as it was at block `number`; `None` when its deposit came later. It must not have been reassigned later.
    fn up_to(mut self, number: u64) -> Option<Self> {
        if self.deposited_at > number {
            return None;
        }
        if self.ended_at.is_some_and(|ended| ended > number) {
            self.ended_at = None;
            self.escrow.state = match self.reserved_at {
                Some(_) => escrow::State::Reserved,
                None => escrow::State::Deposited,
            };
        }
        if self.reserved_at.is_some_and(|reserved| reserved > number) {
            self.reserved_at = None;
            self.round = 0;
            self.terms = self.terms.unreserved();
            let record = &mut self.escrow;
            record.state = escrow::State::Deposited;
            record.settler = None;
            record.source_amount = None;
            record.fulfill_by = 0;
            record.quote_hash = Hash32(self.terms.0.quoteHash.0);
        }
        Some(self)
    }
}

/// The escrows of one chain.
#[derive(Debug, Clone, Copy)]
pub struct Escrows<'a> {
    node: &'a Node,
}

impl<'a> Escrows<'a> {
    /// The escrows of the chain of `node`.
    pub fn of(node: &'a Node) -> Self {
        Self { node }
    }

    /// What the escrow at `contract` has on record for the payment, by one answer.
    ///
    /// # Errors
    /// [`Transient`], also for a record that cannot be.
    pub(super) async fn record(
        &self,
        payment_id: &PaymentId,
        contract: Address,
        state: State,
    ) -> Result<Read<DatedRecord>, Transient> {
        let read = self.answer(payment_id, contract, state).await?;
        self.dated(payment_id, contract, read).await
    }

    /// What `/wallet` shows of the escrow at `contract`, by one answer that is no older than what is settled; `None` when the
    /// record's last change waits for a block: a full node shows that, too, run as if in block 0.
    ///
    /// # Errors
    /// [`Transient`], also for a record that cannot be.
    pub(super) async fn newest(
        &self,
        payment_id: &PaymentId,
        contract: Address,
    ) -> Result<Option<Read<DatedRecord>>, Transient> {
        let settled = self.node.settled().await?;
        let read = self.answer(payment_id, contract, State::Newest).await?;
        if read.number < settled.number {
            return Err(self.node.contradiction(format!("a newest record as of block {}", read.number)));
        }
        if read.record.as_ref().is_some_and(last_change_waits) {
            return Ok(None);
        }
        self.dated(payment_id, contract, read).await.map(Some)
    }

    /// Whether the contract at `contract` keeps records as they are read here. One that does not is no escrow, or one of another
    /// version.
    ///
    /// # Errors
    /// [`Transient`], also where there is no contract.
    pub async fn is_readable(&self, contract: &Account) -> Result<bool, Transient> {
        let call = GatewayEscrow::recordAsOfCall { paymentId: B256::ZERO };
        let answer = self.node.call(None, address(contract)?, &call, State::Newest).await?;
        Ok(matches!(answer, Answer::Returned { .. }))
    }

    async fn answer(&self, payment_id: &PaymentId, contract: Address, state: State) -> Result<Read<Stored>, Transient> {
        let call = GatewayEscrow::recordAsOfCall { paymentId: word(payment_id.on_chain()) };
        let answer = match self.node.call(None, contract, &call, state).await? {
            Answer::Returned { value, .. } => value,
            Answer::Reverted { reason, .. } => return Err(self.node.contradiction(format!("recordAsOf: {reason}"))),
        };
        Read::new(self.node, answer.blockNumber, answer.time, Some(answer.record))
    }

    /// The record of what was `read` of the payment, with its terms.
    async fn dated(
        &self,
        payment_id: &PaymentId,
        contract: Address,
        Read { number, time, record }: Read<Stored>,
    ) -> Result<Read<DatedRecord>, Transient> {
        let nothing = Read { number, time, record: None };
        let Some(stored) = record else { return Ok(nothing) };
        let impossible = || format!("a record as of block {number} that cannot be: {stored:?}");
        let held = match record::state(stored.state) {
            Ok(Some(state)) => state,
            Ok(None) => return Ok(nothing),
            Err(error) => return Err(self.node.contradiction(format!("an escrow in {error}"))),
        };
        let (deposited, reserved, ended) =
            (stored.depositedAt.to::<u64>(), stored.reservedAt.to::<u64>(), stored.endedAt.to::<u64>());
        let has_ended = matches!(held, escrow::State::Released | escrow::State::Refunded);
        let is_reserved = matches!(held, escrow::State::Reserved | escrow::State::Released);
        let can_be = (1..=number).contains(&deposited)
            && (reserved == 0 || (deposited..=number).contains(&reserved))
            && (ended == 0 || (deposited.max(reserved)..=number).contains(&ended))
            && (ended != 0) == has_ended
            && (reserved != 0) == (stored.round != 0)
            && (!is_reserved || reserved != 0)
            && (held != escrow::State::Deposited || reserved == 0);
        if !can_be {
            return Err(self.node.contradiction(impossible()));
        }
        let id = word(payment_id.on_chain());
        let terms = self.terms(contract, id, &stored).await?;
        let record = match record::read(&stored, &terms, self.node.chain_id()) {
            Ok(record) => record,
            Err(error @ RecordError::Chain(_)) => return Err(Transient::misconfigured(error)),
            Err(error) => return Err(self.node.contradiction(format!("{}: {error}", impossible()))),
        };
        let record = record.filter(|record| record.payer.is_some() && record.deposited.is_some());
        let escrow = record.ok_or_else(|| self.node.contradiction(impossible()))?;
        let record = DatedRecord {
            escrow,
            terms,
            deposited_at: deposited,
            round: stored.round,
            reserved_at: (reserved != 0).then_some(reserved),
            ended_at: (ended != 0).then_some(ended),
        };
        Ok(Read { number, time, record: Some(record) })
    }

    /// The terms to which `stored` commits: those that are known here, or those that the contract's events tell in the blocks that
    /// it names. Their hash proves them, whoever tells.
    ///
    /// # Errors
    /// [`Transient`], also when nothing tells them: then they are not known.
    async fn terms(&self, contract: Address, id: B256, stored: &Stored) -> Result<EscrowTerms, Transient> {
        let known = self.node.known_terms();
        if let Some(terms) = known.get(stored.commitment).filter(|terms| terms.0.deposit.paymentId == id) {
            return Ok(terms);
        }
        // A block that is not solidified may tell them as well.
        let scope = |number| SearchScope { contract, number, state: State::Newest, payment: id, known: &[] };
        let search = EventSearch::of(self.node);
        let is = |event: &GatewayEscrow::Deposited| event.paymentId == id;
        let mut terms = EscrowTerms::told_by(&search.find(&scope(stored.depositedAt.to()), is).await?.event);
        if !stored.reservedAt.is_zero() {
            let is = |event: &GatewayEscrow::Reserved| event.paymentId == id;
            terms = terms.reserved_by(&search.find(&scope(stored.reservedAt.to()), is).await?.event);
        }
        if terms.commitment() == stored.commitment {
            known.keep(terms.clone());
        }
        Ok(terms)
    }

    /// The escrow of a payment as of a solidified block, whosever it is.
    ///
    /// It is believed only when it is read twice: that there is none, or that what is there is another's or another
    /// settler's, may end a payment, and no event proves that.
    ///
    /// # Errors
    /// [`Transient`].
    pub(super) async fn settled(&self, payment_id: &PaymentId, contract: &Account) -> Result<SettledEscrow, Transient> {
        let contract = address(contract)?;
        if let Some(found) = self.as_of(payment_id, contract, self.node.settled().await?).await? {
            return Ok(found);
        }
        // What it was reserved for before is on record nowhere. The solidified state is ahead of a block that was asked for earlier.
        let settled = self.node.watch_settled().await?;
        let found = self.as_of(payment_id, contract, settled).await?;
        found.ok_or_else(|| {
            let number = settled.number;
            Transient::unreachable(format!("the escrow of {payment_id} was reassigned after solidified block {number}"))
        })
    }

    /// The escrow as of the solidified block `settled`; `None` where it was reassigned since.
    async fn as_of(
        &self,
        payment_id: &PaymentId,
        contract: Address,
        settled: Block,
    ) -> Result<Option<SettledEscrow>, Transient> {
        let look = async || -> Result<Option<SettledEscrow>, Transient> {
            let read = self.record(payment_id, contract, State::Solidified).await?;
            let read = read.at_least(&settled, self.node)?;
            let (time, unsettled) = (settled.seconds(), read.record.is_some());
            if let Some(record) = &read.record {
                self.is_in_time(record, &settled)?;
                if record.reassigned_at().is_some_and(|reassigned| reassigned > settled.number) {
                    return Ok(None);
                }
            }
            let record = read.record.and_then(|record| record.up_to(settled.number));
            Ok(Some(SettledEscrow { settled, time, unsettled: unsettled && record.is_none(), record }))
        };
        let (Some(found), Some(again)) = (look().await?, look().await?) else { return Ok(None) };
        match found == again {
            true => Ok(Some(found)),
            // A deposit that came between the two answers came after the settled block.
            false if found.record.is_none() && again.record.is_none() => {
                Ok(Some(SettledEscrow { unsettled: true, ..again }))
            }
            false => Err(self.node.contradiction(format!("two records as of settled block {}", settled.number))),
        }
    }

    /// The escrow takes deposits and first reservations up to and in the second of the reserve deadline, and a reassignment before
    /// the new promise's last second, so none can be in a block that comes after a later one.
    fn is_in_time(&self, record: &DatedRecord, settled: &Block) -> Result<(), Transient> {
        let (changed, last) = match record.reassigned_at() {
            Some(reassigned) => (reassigned, record.escrow.fulfill_by.saturating_sub(1)),
            None => (record.reserved_at.unwrap_or(record.deposited_at), record.escrow.reserve_deadline),
        };
        if changed > settled.number && settled.seconds() > last {
            return Err(self.node.contradiction(format!("a record of block {changed}, after its deadline")));
        }
        Ok(())
    }

    /// Where the escrow stands at the required depth; an escrow of somebody else under the same payment id is none.
    ///
    /// # Errors
    /// [`Transient`].
    pub async fn state(&self, payment_id: &PaymentId, plan: &EscrowPlan) -> Result<EscrowState, Transient> {
        let found = self.settled(payment_id, &plan.contract).await?;
        let Some(record) = found.record.filter(|record| record.escrow.is_of(plan)) else {
            return Ok(EscrowState::Absent);
        };
        match (record.escrow.state, record.ended_at) {
            // The escrow releases strictly before `refundAfter`, and later blocks are no earlier than this one.
            (escrow::State::Deposited | escrow::State::Reserved, _) if found.time >= plan.refund_after => {
                Ok(EscrowState::Lapsed)
            }
            (escrow::State::Deposited | escrow::State::Reserved, _) => Ok(EscrowState::Held),
            (escrow::State::Released, Some(ended)) => {
                self.released(payment_id, plan, &record, ended).await.map(EscrowState::Released)
            }
            (escrow::State::Refunded, Some(ended)) => {
                let inclusion = self.refunded(payment_id, plan, &record, ended).await?;
                let amount = record.escrow.deposited.ok_or_else(|| self.node.contradiction("a refund of nothing"))?;
                Ok(EscrowState::Refunded(EscrowRefunded { inclusion, amount, claims: Vec::new() }))
            }
            (_, None) => Err(self.node.contradiction("an escrow that ended in no block")),
        }
    }

    /// The payouts of the escrow's end in the transaction `end` that became claims.
    ///
    /// # Errors
    /// [`Transient`], also when the transaction is not the payment's end.
    pub(super) async fn claims(
        &self,
        payment_id: &PaymentId,
        plan: &EscrowPlan,
        end: &Inclusion,
    ) -> Result<Vec<Claim>, Transient> {
        let contract = address(&plan.contract)?;
        let hash = &end.transaction_hash;
        let id = hash.parse().map_err(|_| Transient::misconfigured(format!("{hash} is not a hash")))?;
        let info = self.node.info(id, State::Solidified).await?;
        let info = info.filter(|info| info.block_number == end.block_number && info.failure.is_none());
        let logs: Vec<Log> = info.into_iter().flat_map(|info| info.logs).map(Log::from).collect();
        let found = claims::of_end(&logs, contract, word(payment_id.on_chain()), account);
        found.ok_or_else(|| self.node.contradiction(format!("{hash} does not end {payment_id}")))
    }

    async fn released(
        &self,
        payment_id: &PaymentId,
        plan: &EscrowPlan,
        record: &DatedRecord,
        ended: u64,
    ) -> Result<Inclusion, Transient> {
        let contract = address(&plan.contract)?;
        let record = &record.escrow;
        let settler = record.settler.as_ref().ok_or_else(|| self.node.contradiction("a release to nobody"))?;
        let (deposited, paid) = (record.deposited.map(units), record.source_amount.map(units));
        let wanted = GatewayEscrow::Released {
            paymentId: word(payment_id.on_chain()),
            quoteHash: word(record.quote_hash),
            settler: address(settler)?,
            amount: paid.unwrap_or_default(),
            remainder: deposited.unwrap_or_default().saturating_sub(paid.unwrap_or_default()),
        };
        let scope =
            SearchScope { contract, number: ended, state: State::Solidified, payment: wanted.paymentId, known: &[] };
        let is = |event: &GatewayEscrow::Released| *event == wanted;
        EventSearch::of(self.node).find(&scope, is).await.map(|found| found.inclusion)
    }

    async fn refunded(
        &self,
        payment_id: &PaymentId,
        plan: &EscrowPlan,
        record: &DatedRecord,
        ended: u64,
    ) -> Result<Inclusion, Transient> {
        let contract = address(&plan.contract)?;
        let wanted = GatewayEscrow::Refunded {
            paymentId: word(payment_id.on_chain()),
            quoteHash: word(record.escrow.quote_hash),
            payer: record.payer(self.node)?,
            amount: record.escrow.deposited.map(units).unwrap_or_default(),
        };
        let scope =
            SearchScope { contract, number: ended, state: State::Solidified, payment: wanted.paymentId, known: &[] };
        let is = |event: &GatewayEscrow::Refunded| *event == wanted;
        EventSearch::of(self.node).find(&scope, is).await.map(|found| found.inclusion)
    }

    /// Whether `signature`, hex with 0x, is the releaser's statement, as the escrow would judge it of a key's or a set's. No node
    /// is asked: a releaser on Tron is a key or a set of keys.
    pub fn attestation_holds(&self, statement: &Statement, plan: &EscrowPlan, signature: &str) -> bool {
        self.digest(statement, plan).is_some_and(|digest| {
            is_signed_by(&plan.releaser, digest, signature)
                || verifier_set::holds(&plan.releaser, digest, signature, address)
        })
    }

    /// Whether `signature`, hex with 0x, is the statement signed by the key of `member`, as the escrow would judge it.
    pub fn signed_by(&self, statement: &Statement, plan: &EscrowPlan, member: &Account, signature: &str) -> bool {
        self.digest(statement, plan).is_some_and(|digest| is_signed_by(member, digest, signature))
    }

    fn digest(&self, statement: &Statement, plan: &EscrowPlan) -> Option<B256> {
        let escrow = address(&plan.contract).ok()?;
        statement_digest(statement, u64::from(self.node.reference()), escrow, address).ok()
    }
}

fn is_signed_by(account: &Account, digest: B256, text: &str) -> bool {
    let (Ok(account), Ok(bytes)) = (address(account), signature::bytes(text)) else { return false };
    signature::is_of_key(account, digest, &bytes)
}

/// Whether the change that led to the record's state has block 0, which is what code sees that runs in none.
fn last_change_waits(stored: &Stored) -> bool {
    let changed = match record::state(stored.state) {
        Ok(Some(escrow::State::Deposited)) => stored.depositedAt,
        Ok(Some(escrow::State::Reserved)) => stored.reservedAt,
        Ok(Some(escrow::State::Released | escrow::State::Refunded)) => stored.endedAt,
        Ok(None) | Err(_) => return false,
    };
    changed.is_zero()
}
