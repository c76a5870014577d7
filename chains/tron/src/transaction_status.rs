//! Transaction status: what became of the payer's and the gateway's transactions.
//!
//! A transaction of Tron has one id and can be in one block. It is not in a block whose parent's time has reached its
//! expiration. So once a solidified block's time has reached it, what the state of that block does not show will never come.

use alloy::primitives::{Address, B256};

use chains::escrow;
use escrow_abi::contracts::{GatewayEscrow, units, word};
use events::{
    PaymentId,
    event::{Authorization, EscrowOpened, EscrowPlan, EscrowSecured, TransactionPrepared},
    failure::BlockchainContext,
};
use sagas::ports::{DepositOrder, DepositState, PayerDeposit, TransactionState, Transient};

use super::{
    address::{self, address},
    node::{Block, Info, Node, State},
    reads::{DatedRecord, unusable},
    search::Place,
};

/// What the solidified state proves about a transaction.
enum TransactionStatus {
    /// Nothing yet.
    Open,
    /// It is in a solidified block and had its effect.
    Landed(Info),
    /// It is in a solidified block and failed.
    Failed { evidence: String },
    /// A solidified block's time has reached its expiration, and it is in no block.
    Lost { evidence: String },
}

impl Node {
    /// The context of a failure on this chain, with nothing but the place and the reason.
    pub(super) fn refusal(&self, contract: Address, reason: String) -> BlockchainContext {
        BlockchainContext {
            chain_id: self.chain_id().clone(),
            transaction_hash: None,
            block_number: None,
            contract_address: Some(address::text(contract)),
            revert_reason: Some(reason),
            gas_used: None,
            estimated_gas_needed: None,
        }
    }

    /// Where a prepared reservation stands, of whose `versions` any may have landed, and the payer's deposit with it. See
    /// [`DepositState`].
    ///
    /// # Errors
    /// [`Transient`].
    pub async fn deposit_state(
        &self,
        order: &DepositOrder,
        versions: &[TransactionPrepared],
    ) -> Result<DepositState, Transient> {
        let found = self.settled_escrow(&order.payment_id, &order.escrow.contract).await?;
        if let Some(record) = found.record.as_ref().filter(|record| is_of_order(record, order)) {
            return self.secured(order, record, versions).await.map(DepositState::Secured);
        }
        if found.unsettled {
            return Ok(DepositState::Pending);
        }
        if found.time > order.escrow.reserve_deadline {
            let own = order.payer_deposit();
            return match found.record.filter(|record| is_stranded(record, &own)) {
                Some(record) => self.opened(&own, &record).await.map(DepositState::Stranded),
                None => Ok(DepositState::Expired {
                    evidence: format!(
                        "solidified block {} {} of {} has time {}, past the reserve deadline {}, and nothing of the payment's \
                         in escrow",
                        found.settled.number,
                        found.settled.id,
                        self.chain_id(),
                        found.time,
                        order.escrow.reserve_deadline
                    ),
                }),
            };
        }
        // The record is no older than the solidified block: what had its effect up to there would be seen in it.
        match self.status_of(versions, &found.settled).await? {
            TransactionStatus::Landed(info) => Err(self.contradiction(format!(
                "the reservation is in solidified block {}, and nothing is reserved at block {}",
                info.block_number, found.settled.number
            ))),
            TransactionStatus::Failed { evidence } | TransactionStatus::Lost { evidence } => {
                Ok(DepositState::Superseded { evidence })
            }
            TransactionStatus::Open => Ok(DepositState::Pending),
        }
    }

    /// The escrow of an order, reserved as of a solidified block, whoever brought the reservation; `None` while there is none.
    ///
    /// # Errors
    /// [`Transient`].
    pub async fn deposit_secured(&self, order: &DepositOrder) -> Result<Option<EscrowSecured>, Transient> {
        let found = self.settled_escrow(&order.payment_id, &order.escrow.contract).await?;
        match found.record.filter(|record| is_of_order(record, order)) {
            Some(record) => self.secured(order, &record, &[]).await.map(Some),
            None => Ok(None),
        }
    }

    /// What is under the payment's id and windows, as of a solidified block past the reserve deadline, and can be paid to no
    /// settler; `None` while that is not so. It may be refunded already.
    ///
    /// # Errors
    /// [`Transient`].
    pub async fn stranded_deposit(&self, deposit: &PayerDeposit) -> Result<Option<EscrowOpened>, Transient> {
        let found = self.settled_escrow(&deposit.payment_id, &deposit.escrow.contract).await?;
        if found.time <= deposit.escrow.reserve_deadline {
            return Ok(None);
        }
        match found.record.filter(|record| is_stranded(record, deposit)) {
            Some(record) => self.opened(deposit, &record).await.map(Some),
            None => Ok(None),
        }
    }

    /// Whether a solidified block is later than the UNIX second `after` and has no escrow of this plan for the payment.
    ///
    /// # Errors
    /// [`Transient`].
    pub async fn deposit_ruled_out(
        &self,
        payment_id: &PaymentId,
        plan: &EscrowPlan,
        after: u64,
    ) -> Result<bool, Transient> {
        let found = self.settled_escrow(payment_id, &plan.contract).await?;
        if found.time <= after || found.unsettled {
            return Ok(false);
        }
        Ok(!found.record.is_some_and(|record| record.escrow.is_of(plan)))
    }

    /// Any of `versions` may be the reservation.
    async fn secured(
        &self,
        order: &DepositOrder,
        record: &DatedRecord,
        versions: &[TransactionPrepared],
    ) -> Result<EscrowSecured, Transient> {
        let contract = address(&order.escrow.contract).map_err(unusable)?;
        let settler = address(&order.reservation.payout_account).map_err(unusable)?;
        let reserved = record.reserved_at.ok_or_else(|| self.contradiction("a reservation in no block"))?;
        // The reservation does not say what was deposited, nor whose; the deposit's own event does.
        let EscrowOpened { amount, .. } = self.opened(&order.payer_deposit(), record).await?;
        let known = versions.iter().map(id_of).collect::<Result<Vec<_>, _>>()?;
        let payment = word(order.payment_id.on_chain());
        let place = Place { contract, number: reserved, state: State::Solidified, payment, known: &known };
        let found = self
            .event_in(&place, |event: &GatewayEscrow::Reserved| {
                event.paymentId == payment
                    && event.quoteHash == word(order.reservation.quote_hash)
                    && event.settler == settler
                    && event.sourceAmount == units(order.reservation.source_amount)
            })
            .await?;
        Ok(EscrowSecured { inclusion: found.inclusion, amount })
    }

    /// The deposit of a record: the event, too, must say whose it is, of what, and how much.
    async fn opened(&self, deposit: &PayerDeposit, record: &DatedRecord) -> Result<EscrowOpened, Transient> {
        let contract = address(&deposit.escrow.contract).map_err(unusable)?;
        let payer = address(&record.escrow.payer).map_err(unusable)?;
        let token = address::trc20(&record.escrow.asset).map_err(unusable)?;
        let amount = record.escrow.deposited.ok_or_else(|| self.contradiction("an escrow of nothing"))?;
        // A payer who agreed to no quote has the reserved one on record later.
        let quote = word(record.escrow.quote_hash);
        let agreed = |hash: B256| hash == quote || (record.reserved_at.is_some() && hash.is_zero());
        let payment = word(deposit.payment_id.on_chain());
        let known = payer_deposit_id(&deposit.authorization);
        let place =
            Place { contract, number: record.deposited_at, state: State::Solidified, payment, known: known.as_slice() };
        let found = self
            .event_in(&place, |event: &GatewayEscrow::Deposited| {
                event.paymentId == payment
                    && agreed(event.quoteHash)
                    && event.payer == payer
                    && event.termsHash == word(record.escrow.terms_hash)
                    && event.token == token
                    && event.amount == units(amount)
            })
            .await?;
        Ok(EscrowOpened { inclusion: found.inclusion, amount })
    }

    /// Where a prepared transaction, of whose `versions` any may have landed, stands by itself.
    ///
    /// # Errors
    /// [`Transient`].
    pub async fn transaction_state(&self, versions: &[TransactionPrepared]) -> Result<TransactionState, Transient> {
        let settled = self.settled().await?;
        match self.status_of(versions, &settled).await? {
            TransactionStatus::Failed { evidence } | TransactionStatus::Lost { evidence } => {
                Ok(TransactionState::Dead { evidence })
            }
            TransactionStatus::Open | TransactionStatus::Landed(_) => Ok(TransactionState::Pending),
        }
    }

    /// `settled` must have been asked for before whatever is concluded from the status together with it.
    async fn status_of(
        &self,
        versions: &[TransactionPrepared],
        settled: &Block,
    ) -> Result<TransactionStatus, Transient> {
        let ends: Option<Vec<_>> = versions.iter().map(|version| version.validity.expiration_ms()).collect();
        let ends = ends.ok_or_else(|| Transient::misconfigured("a transaction of this chain has no expiration"))?;
        let Some(expiration) = ends.into_iter().max() else {
            return Err(Transient::misconfigured("no transaction was prepared"));
        };
        let mut failed = None;
        for version in versions {
            let id = id_of(version)?;
            match self.settled_info(id, settled).await? {
                Some(info) => match &info.failure {
                    None => return Ok(TransactionStatus::Landed(info)),
                    Some(failure) => {
                        let number = info.block_number;
                        failed = Some(format!("{id} failed in solidified block {number}: {failure}"));
                    }
                },
                None if settled.time_ms < expiration => return Ok(TransactionStatus::Open),
                // Asked again: that it is in no block is the word of one node each time.
                None if self.settled_info(id, settled).await?.is_some() => {
                    return Err(self.contradiction(format!("{id} was in no solidified block, and then was")));
                }
                None => {}
            }
        }
        if let Some(evidence) = failed {
            return Ok(TransactionStatus::Failed { evidence });
        }
        let ids: Vec<&str> = versions.iter().map(|version| version.transaction_hash.as_str()).collect();
        Ok(TransactionStatus::Lost {
            evidence: format!(
                "solidified block {} {} of {} has time {} ms, no earlier than the expiration {expiration} ms, and there is no {}",
                settled.number,
                settled.id,
                self.chain_id(),
                settled.time_ms,
                ids.join(", ")
            ),
        })
    }

    /// What became of a transaction in a block up to `settled`.
    async fn settled_info(&self, id: B256, settled: &Block) -> Result<Option<Info>, Transient> {
        let info = self.info(id, State::Solidified).await?;
        Ok(info.filter(|info| info.block_number <= settled.number))
    }
}

/// The id of a journaled transaction.
pub(super) fn id_of(version: &TransactionPrepared) -> Result<B256, Transient> {
    let text = &version.transaction_hash;
    text.parse().map_err(|_| Transient::misconfigured(format!("{text:?} is no transaction id")))
}

/// The id of the payer's own deposit. Its wallet may have brought another with the same call.
pub(super) fn payer_deposit_id(authorization: &Authorization) -> Option<B256> {
    match authorization {
        Authorization::Tron(spend) => spend.deposit.transaction_hash.parse().ok(),
        _ => None,
    }
}

/// Whether the record is this payment's money, reserved under this quote, whatever has become of it since.
pub(super) fn is_of_order(record: &DatedRecord, order: &DepositOrder) -> bool {
    let reservation = &order.reservation;
    record.reserved_at.is_some()
        && record.is_deposit_of(&order.terms.source, order.terms_hash, &order.escrow)
        && record.escrow.quote_hash == reservation.quote_hash
        && record.escrow.names(&record.escrow.settler, &reservation.payout_account)
        && record.escrow.source_amount == Some(reservation.source_amount)
}

/// Whether the record holds, or held, money under this payment's id and windows that no settler can be paid from: nobody was
/// named for it, or it is of other terms, which no verifier attests. A payer can prepare twice under one id, submit the one and
/// broadcast the other.
fn is_stranded(record: &DatedRecord, deposit: &PayerDeposit) -> bool {
    record.escrow.is_of(&deposit.escrow)
        && record.escrow.state != escrow::State::Released
        && (record.reserved_at.is_none()
            || !record.is_deposit_of(&deposit.terms.source, deposit.terms_hash, &deposit.escrow))
}
