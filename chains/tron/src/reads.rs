//! What the contracts have on record about a payment, read so that it can be concluded from.
//!
//! A node does not say by which block it answers a call, so the contracts say it themselves (`escrowAsOf`, `fulfilledAsOf`).
//! A record counts only as far as its changes lie at or below a solidified block that two answers had; that something is
//! *not* on record is read twice, each time no earlier than that block. What is concluded from the time is concluded from that
//! block's own: an answer's clock is only the answering node's word.

use alloy::{
    primitives::{Address, B256, Log, U256, keccak256},
    sol_types::SolValue,
};

use chains::escrow;
use escrow_abi::{
    claims,
    contracts::{self, FulfillmentProxy, GatewayEscrow, units, word},
    eip712::{self, escrow_domain},
    record::{self, RecordError},
    signature,
};
use events::{
    Hash32, PaymentId,
    event::{Claim, EscrowPlan, EscrowRefunded, Inclusion},
};
use sagas::ports::{DeliveryOrder, DeliveryState, EscrowState, Statement, Transient};

use super::{
    address::{self, ConvertError, address, text},
    node::{Answer, Block, Node, State},
    search::Place,
};

/// What a contract had on record at one block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Read<T> {
    /// The block's number.
    pub number: u64,
    /// Its time as contracts see it, UNIX seconds.
    pub time: u64,
    /// The record; `None` when there is none.
    pub record: Option<T>,
}

/// An escrow's record, with the blocks of its changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DatedRecord {
    /// The record in the words of every family.
    pub escrow: escrow::EscrowRecord,
    /// Number of the block that has the deposit.
    pub deposited_at: u64,
    /// Number of the block that has the reservation.
    pub reserved_at: Option<u64>,
    /// Number of the block that has the release or the refund.
    pub ended_at: Option<u64>,
}

/// An escrow as of a solidified block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettledEscrow {
    /// The block, which two answers had.
    pub settled: Block,
    /// Its time as contracts see it, UNIX seconds: every later block's is at least this.
    pub time: u64,
    /// The record as it was then: what came later is left out.
    pub record: Option<DatedRecord>,
    /// There is a record, and its deposit came later.
    pub unsettled: bool,
}

pub(super) fn unusable(error: impl std::fmt::Display) -> Transient {
    Transient::misconfigured(format!("unusable order: {error}"))
}

/// A block's time as contracts see it, UNIX seconds.
pub(super) fn block_seconds(block: &Block) -> u64 {
    block.time_ms / 1_000
}

impl DatedRecord {
    /// Whether it is the payer's own deposit under `plan` for a payment of these terms, whatever has become of it since.
    pub fn is_deposit_of(&self, source: &events::OwnedAsset, terms_hash: Hash32, plan: &EscrowPlan) -> bool {
        let record = &self.escrow;
        record.is_of(plan)
            && record.names(&record.payer, source.account().as_str())
            && record.asset == *source.asset()
            && record.terms_hash == terms_hash
    }

    /// The record as it was at block `number`; `None` when its deposit came later.
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
            let record = &mut self.escrow;
            record.state = escrow::State::Deposited;
            record.settler = address::text(Address::ZERO);
            record.source_amount = None;
            record.fulfill_by = 0;
            // Which quote the payer had agreed to, if any, the reservation has written over.
            record.quote_hash = Hash32::ZERO;
        }
        Some(self)
    }
}

impl Node {
    /// What the escrow at `contract` has on record for the payment, by one answer.
    ///
    /// # Errors
    /// [`Transient`], also for a record that cannot be.
    pub async fn escrow_record(
        &self,
        payment_id: &PaymentId,
        contract: Address,
        state: State,
    ) -> Result<Read<DatedRecord>, Transient> {
        let Read { number, time, record } = self.escrow_answer(payment_id, contract, state).await?;
        let record = record.map(|escrow| self.escrow_in(escrow, number)).transpose()?.flatten();
        Ok(Read { number, time, record })
    }

    /// What `/wallet` shows of the escrow at `contract`, by one answer that is no older than what is settled; `None` when the
    /// record's last change waits for a block: a full node shows that, too, run as if in block 0.
    ///
    /// # Errors
    /// [`Transient`], also for a record that cannot be.
    pub(super) async fn newest_escrow(
        &self,
        payment_id: &PaymentId,
        contract: Address,
    ) -> Result<Option<Read<DatedRecord>>, Transient> {
        let settled = self.settled().await?;
        let Read { number, time, record } = self.escrow_answer(payment_id, contract, State::Newest).await?;
        if number < settled.number {
            return Err(self.contradiction(format!("a newest record as of block {number}")));
        }
        if record.as_ref().is_some_and(last_change_waits) {
            return Ok(None);
        }
        let record = record.map(|escrow| self.escrow_in(escrow, number)).transpose()?.flatten();
        Ok(Some(Read { number, time, record }))
    }

    async fn escrow_answer(
        &self,
        payment_id: &PaymentId,
        contract: Address,
        state: State,
    ) -> Result<Read<GatewayEscrow::Escrow>, Transient> {
        let call = GatewayEscrow::escrowAsOfCall { paymentId: word(payment_id.on_chain()) };
        let answer = match self.call(None, contract, &call, state).await? {
            Answer::Returned { value, .. } => value,
            Answer::Reverted { reason, .. } => return Err(self.contradiction(format!("escrowAsOf: {reason}"))),
        };
        let (number, time) = self.as_of(answer.blockNumber, answer.time)?;
        Ok(Read { number, time, record: Some(answer.escrow) })
    }

    fn as_of(&self, number: U256, time: U256) -> Result<(u64, u64), Transient> {
        match (u64::try_from(number), u64::try_from(time)) {
            (Ok(number), Ok(time)) => Ok((number, time)),
            _ => Err(self.contradiction("an answer as of no block that can be")),
        }
    }

    fn escrow_in(&self, escrow: GatewayEscrow::Escrow, number: u64) -> Result<Option<DatedRecord>, Transient> {
        let impossible = || format!("a record as of block {number} that cannot be: {escrow:?}");
        let record = match record::read(&escrow, self.chain_id(), address::text) {
            Ok(Some(record)) => record,
            Ok(None) => return Ok(None),
            Err(error @ RecordError::State(_)) => return Err(self.contradiction(format!("an escrow in {error}"))),
            Err(RecordError::Token(_)) => return Err(self.contradiction(impossible())),
        };
        let state = record.state;
        let (deposited, reserved, ended) =
            (escrow.depositedAt.to::<u64>(), escrow.reservedAt.to::<u64>(), escrow.endedAt.to::<u64>());
        let has_ended = matches!(state, escrow::State::Released | escrow::State::Refunded);
        let is_reserved = matches!(state, escrow::State::Reserved | escrow::State::Released);
        let can_be = (1..=number).contains(&deposited)
            && (reserved == 0 || (deposited..=number).contains(&reserved))
            && (ended == 0 || (deposited.max(reserved)..=number).contains(&ended))
            && (ended != 0) == has_ended
            && (!is_reserved || reserved != 0)
            && (state != escrow::State::Deposited || reserved == 0)
            && !escrow.deposited.is_zero();
        if !can_be {
            return Err(self.contradiction(impossible()));
        }
        Ok(Some(DatedRecord {
            escrow: record,
            deposited_at: deposited,
            reserved_at: (reserved != 0).then_some(reserved),
            ended_at: (ended != 0).then_some(ended),
        }))
    }

    /// Refuses an answer of the solidified state that is older than what is known to be solidified, or of the same block with
    /// another time.
    fn is_settled<T>(&self, read: Read<T>, settled: &Block) -> Result<Read<T>, Transient> {
        let seconds = block_seconds(settled);
        if read.number > settled.number && read.time >= seconds || read.number == settled.number && read.time == seconds
        {
            return Ok(read);
        }
        let Read { number, time, .. } = read;
        let what = format!("an answer as of block {number} at {time} where {} at {seconds} is settled", settled.number);
        Err(self.contradiction(what))
    }

    /// The escrow of a payment as of a solidified block, whosever it is.
    ///
    /// It is believed only when it is read twice: that there is none, or that what is there is another's or another
    /// settler's, may end a payment, and no event proves that.
    ///
    /// # Errors
    /// [`Transient`].
    pub async fn settled_escrow(&self, payment_id: &PaymentId, contract: &str) -> Result<SettledEscrow, Transient> {
        let contract = address(contract).map_err(unusable)?;
        let settled = self.settled().await?;
        let look = async || -> Result<SettledEscrow, Transient> {
            let read = self.escrow_record(payment_id, contract, State::Solidified).await?;
            let read = self.is_settled(read, &settled)?;
            let (time, unsettled) = (block_seconds(&settled), read.record.is_some());
            if let Some(record) = &read.record {
                self.is_in_time(record, &settled)?;
            }
            let record = read.record.and_then(|record| record.up_to(settled.number));
            Ok(SettledEscrow { settled, time, unsettled: unsettled && record.is_none(), record })
        };
        let (found, again) = (look().await?, look().await?);
        match found == again {
            true => Ok(found),
            // A deposit that came between the two answers came after the settled block.
            false if found.record.is_none() && again.record.is_none() => Ok(SettledEscrow { unsettled: true, ..again }),
            false => Err(self.contradiction(format!("two records as of settled block {}", settled.number))),
        }
    }

    /// The escrow takes deposits and reservations up to and in the second of the reserve deadline, so none can be in a block
    /// that comes after a later one.
    fn is_in_time(&self, record: &DatedRecord, settled: &Block) -> Result<(), Transient> {
        let changed = record.reserved_at.unwrap_or(record.deposited_at);
        if changed > settled.number && block_seconds(settled) > record.escrow.reserve_deadline {
            return Err(self.contradiction(format!("a record of block {changed}, after its deadline")));
        }
        Ok(())
    }

    /// Where the escrow stands at the required depth; an escrow of somebody else under the same payment id is none.
    ///
    /// # Errors
    /// [`Transient`].
    pub async fn escrow_state(&self, payment_id: &PaymentId, plan: &EscrowPlan) -> Result<EscrowState, Transient> {
        let found = self.settled_escrow(payment_id, &plan.contract).await?;
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
                self.released(payment_id, plan, &record.escrow, ended).await.map(EscrowState::Released)
            }
            (escrow::State::Refunded, Some(ended)) => {
                let inclusion = self.refunded(payment_id, plan, &record.escrow, ended).await?;
                let amount = record.escrow.deposited.ok_or_else(|| self.contradiction("a refund of nothing"))?;
                Ok(EscrowState::Refunded(EscrowRefunded { inclusion, amount, claims: Vec::new() }))
            }
            (_, None) => Err(self.contradiction("an escrow that ended in no block")),
        }
    }

    /// The payouts of the escrow's end in the transaction `end` that became claims.
    ///
    /// # Errors
    /// [`Transient`], also when the transaction is not the payment's end.
    pub async fn claims(
        &self,
        payment_id: &PaymentId,
        plan: &EscrowPlan,
        end: &Inclusion,
    ) -> Result<Vec<Claim>, Transient> {
        let contract = address(&plan.contract).map_err(unusable)?;
        let hash = &end.transaction_hash;
        let id = hash.parse().map_err(|_| Transient::misconfigured(format!("{hash} is no hash")))?;
        let info = self.info(id, State::Solidified).await?;
        let info = info.filter(|info| info.block_number == end.block_number && info.failure.is_none());
        let logs = info.into_iter().flat_map(|info| info.logs);
        let logs = logs.map(|log| Log::new_unchecked(log.address, log.topics, log.data.into())).collect::<Vec<_>>();
        let found = claims::of_end(&logs, contract, word(payment_id.on_chain()), text);
        found.ok_or_else(|| self.contradiction(format!("{hash} does not end {payment_id}")))
    }

    async fn released(
        &self,
        payment_id: &PaymentId,
        plan: &EscrowPlan,
        record: &escrow::EscrowRecord,
        ended: u64,
    ) -> Result<Inclusion, Transient> {
        let contract = address(&plan.contract).map_err(unusable)?;
        let (deposited, paid) = (record.deposited.map(units), record.source_amount.map(units));
        let wanted = GatewayEscrow::Released {
            paymentId: word(payment_id.on_chain()),
            quoteHash: word(record.quote_hash),
            settler: address(&record.settler).map_err(unusable)?,
            amount: paid.unwrap_or_default(),
            remainder: deposited.unwrap_or_default().saturating_sub(paid.unwrap_or_default()),
        };
        let place = Place { contract, number: ended, state: State::Solidified, payment: wanted.paymentId, known: &[] };
        let is = |event: &GatewayEscrow::Released| *event == wanted;
        self.event_in(&place, is).await.map(|found| found.inclusion)
    }

    async fn refunded(
        &self,
        payment_id: &PaymentId,
        plan: &EscrowPlan,
        record: &escrow::EscrowRecord,
        ended: u64,
    ) -> Result<Inclusion, Transient> {
        let contract = address(&plan.contract).map_err(unusable)?;
        let wanted = GatewayEscrow::Refunded {
            paymentId: word(payment_id.on_chain()),
            quoteHash: word(record.quote_hash),
            payer: address(&record.payer).map_err(unusable)?,
            amount: record.deposited.map(units).unwrap_or_default(),
        };
        let place = Place { contract, number: ended, state: State::Solidified, payment: wanted.paymentId, known: &[] };
        let is = |event: &GatewayEscrow::Refunded| *event == wanted;
        self.event_in(&place, is).await.map(|found| found.inclusion)
    }

    /// Where the delivery stands, on this chain as its destination.
    ///
    /// # Errors
    /// [`Transient`].
    pub async fn delivery_state(&self, order: &DeliveryOrder) -> Result<DeliveryState, Transient> {
        let wanted = delivery(order).map_err(unusable)?;
        let proxy = address(&order.proxy).map_err(unusable)?;
        let key = key_of(&wanted);
        let settled = self.settled().await?;
        let look = async || self.is_settled(self.delivery_at(key, proxy, State::Solidified).await?, &settled);
        let place = |number, state| Place { contract: proxy, number, state, payment: wanted.paymentId, known: &[] };
        let is = |event: &FulfillmentProxy::Fulfilled| *event == wanted;
        let seen = async |number| {
            let found = self.event_in(&place(number, State::Newest), is).await?;
            Ok(DeliveryState::Seen(found.inclusion))
        };
        match look().await?.record {
            // On this the escrow pays the settler: one wrong answer must not be enough, neither of the record nor of the event.
            Some(number) if number <= settled.number => {
                if look().await?.record != Some(number) {
                    return Err(self.contradiction("a delivery in two blocks, or in none"));
                }
                let found = self.confirmed_event_in(&place(number, State::Solidified), is).await?;
                Ok(DeliveryState::Final(found.inclusion))
            }
            Some(number) => seen(number).await,
            // The proxy delivers up to and in the second `fulfill_by`.
            None if block_seconds(&settled) > order.fulfill_by => match look().await?.record {
                Some(_) => Err(self.contradiction("a delivery that was not there, and then was")),
                None => Ok(DeliveryState::Impossible),
            },
            None => match self.delivery_at(key, proxy, State::Newest).await?.record {
                Some(number) => seen(number).await,
                None => Ok(DeliveryState::NotSeen),
            },
        }
    }

    /// The number of the block that the delivery with this once-only key is in, by one answer.
    ///
    /// # Errors
    /// [`Transient`].
    pub async fn delivery_at(&self, key: B256, proxy: Address, state: State) -> Result<Read<u64>, Transient> {
        let call = FulfillmentProxy::fulfilledAsOfCall { key };
        let answer = match self.call(None, proxy, &call, state).await? {
            Answer::Returned { value, .. } => value,
            Answer::Reverted { reason, .. } => return Err(self.contradiction(format!("fulfilledAsOf: {reason}"))),
        };
        let (number, time) = self.as_of(answer.blockNumber, answer.time)?;
        match u64::try_from(answer.fulfilledIn) {
            Ok(0) => Ok(Read { number, time, record: None }),
            Ok(fulfilled) if fulfilled <= number => Ok(Read { number, time, record: Some(fulfilled) }),
            _ => Err(self.contradiction(format!("a delivery in block {} as of {number}", answer.fulfilledIn))),
        }
    }

    /// Whether `signature`, hex with 0x, is the releaser's statement, as the escrow would judge it of a key's. No node is asked:
    /// a releaser on Tron is a key.
    pub fn attestation_holds(&self, statement: &Statement, plan: &EscrowPlan, signature: &str) -> bool {
        let holds = || {
            let (escrow, releaser) = (address(&plan.contract).ok()?, address(&plan.releaser).ok()?);
            let digest = statement_digest(statement, u64::from(self.reference()), escrow).ok()?;
            Some(signature::is_of_key(releaser, digest, &signature::bytes(signature).ok()?))
        };
        holds() == Some(true)
    }
}

/// Whether the change that led to the record's state has block 0, which is what code sees that runs in none.
fn last_change_waits(escrow: &GatewayEscrow::Escrow) -> bool {
    let changed = match record::state(escrow.state) {
        Ok(Some(escrow::State::Deposited)) => escrow.depositedAt,
        Ok(Some(escrow::State::Reserved)) => escrow.reservedAt,
        Ok(Some(escrow::State::Released | escrow::State::Refunded)) => escrow.endedAt,
        Ok(None) | Err(_) => return false,
    };
    changed.is_zero()
}

/// The digest of a releaser's statement in the domain of one escrow on the chain of that number.
///
/// # Errors
/// [`ConvertError`] when the payout account is not an address.
pub fn statement_digest(statement: &Statement, chain: u64, escrow: Address) -> Result<B256, ConvertError> {
    let domain = escrow_domain(chain, escrow);
    Ok(match statement {
        Statement::Delivery { payment_id, quote_hash, payout_account } => {
            let message = eip712::Delivery {
                paymentId: word(payment_id.on_chain()),
                quoteHash: word(*quote_hash),
                settler: address(payout_account)?,
            };
            eip712::digest(&message, &domain)
        }
        Statement::NonDelivery { payment_id, quote_hash } => {
            let message = eip712::NonDelivery { paymentId: word(payment_id.on_chain()), quoteHash: word(*quote_hash) };
            eip712::digest(&message, &domain)
        }
    })
}

/// What cannot be told to a contract on Tron.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OrderError {
    /// An account or an asset.
    #[error(transparent)]
    Tron(#[from] ConvertError),
    /// A time.
    #[error(transparent)]
    Contract(#[from] contracts::ConvertError),
}

/// The event that the delivery must have left.
pub(super) fn delivery(order: &DeliveryOrder) -> Result<FulfillmentProxy::Fulfilled, OrderError> {
    Ok(FulfillmentProxy::Fulfilled {
        paymentId: word(order.payment_id.on_chain()),
        quoteHash: word(order.quote_hash),
        settler: address(&order.delivery_account)?,
        token: address::token_or_coin(order.destination.asset())?,
        recipient: address(order.destination.account().as_str())?,
        amount: units(order.amount),
        fulfillBy: contracts::time(order.fulfill_by)?,
    })
}

/// The once-only key of a delivery, as `FulfillmentProxy.fulfillmentKey` has it.
///
/// # Errors
/// [`OrderError`] when the order holds no addresses, asset or time that fit Tron's contracts.
pub fn fulfillment_key(order: &DeliveryOrder) -> Result<B256, OrderError> {
    delivery(order).map(|terms| key_of(&terms))
}

fn key_of(terms: &FulfillmentProxy::Fulfilled) -> B256 {
    let terms =
        (terms.paymentId, terms.quoteHash, terms.settler, terms.token, terms.recipient, terms.amount, terms.fulfillBy);
    keccak256(terms.abi_encode())
}
