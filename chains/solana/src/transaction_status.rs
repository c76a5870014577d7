//! Transaction status: what became of the gateway's own transactions.
//!
//! A transaction of Solana has one signature, lands once at most, and not above the block height that its blockhash
//! counts up to. So once that height is finalized, what the finalized state does not hold will never come of it.

use gateway_program::{Hash, Key, account::Escrow};

use events::{
    Hash32, PaymentId,
    event::{Authorization, EscrowOpened, EscrowPlan, EscrowSecured, Inclusion, TransactionPrepared},
    failure::BlockchainContext,
};
use sagas::ports::{DepositOrder, DepositState, TransactionState, Transient};

use super::{
    escrows::{Escrows, is_of},
    history::{History, Status},
    node::{Commitment, Node, Settled},
    program::{self, amount, key},
    records::check_kept,
    refusal,
};

/// What the finalized state proves about a transaction.
enum TransactionStatus {
    /// Nothing yet.
    Open,
    /// It landed and had its effect.
    Landed(Status),
    /// It landed and failed, and the height up to which it could land is finalized.
    Failed { status: Status, evidence: String },
    /// The height up to which it could land is finalized, and nobody has seen it.
    Lost { evidence: String },
}

/// The gateway's transactions on one chain.
#[derive(Debug, Clone, Copy)]
pub struct Transactions<'a> {
    node: &'a Node,
}

impl<'a> Transactions<'a> {
    /// The gateway's transactions on the chain of `node`.
    pub fn of(node: &'a Node) -> Self {
        Self { node }
    }

    /// Where a prepared deposit stands, of whose `versions` any may have landed. See [`DepositState`].
    ///
    /// # Errors
    /// [`Transient`].
    pub async fn deposit_state(
        &self,
        order: &DepositOrder,
        versions: &[TransactionPrepared],
    ) -> Result<DepositState, Transient> {
        let program = key(&order.escrow.contract)?;
        let found = Escrows::of(self.node).settled(&order.payment_id, &program).await?;
        if let Some(record) = found.record.filter(|record| is_of_order(record, order)) {
            return self.secured_as(&record, &program, order).await.map(DepositState::Secured);
        }
        if found.unsettled {
            return Ok(DepositState::Pending);
        }
        check_kept(self.node, found.time, order.escrow.refund_after)?;
        let expired = found.time > order.escrow.reserve_deadline;
        // What is finalized was asked for before the record: what lands up to there is in the state that was read then.
        let settled = found.settled;
        match self.status_of(versions, settled).await? {
            TransactionStatus::Landed(status) if status.slot <= settled.slot => Err(self.node.contradiction(format!(
                "the deposit is in finalized slot {}, and nothing is in escrow at slot {}",
                status.slot, settled.slot
            ))),
            TransactionStatus::Failed { status, .. } => {
                Ok(DepositState::Reverted(Box::new(self.reverted(versions, &program, &status).await?)))
            }
            TransactionStatus::Lost { evidence } if !expired => Ok(DepositState::Superseded { evidence }),
            TransactionStatus::Open | TransactionStatus::Landed(_) | TransactionStatus::Lost { .. } if expired => {
                Ok(DepositState::Expired {
                    evidence: format!(
                        "the finalized state of {} has time {} at or above slot {}, past the reserve deadline {}, and nothing in \
                     escrow",
                        self.node.chain_id(),
                        found.time,
                        settled.slot,
                        order.escrow.reserve_deadline
                    ),
                })
            }
            TransactionStatus::Open | TransactionStatus::Landed(_) | TransactionStatus::Lost { .. } => {
                Ok(DepositState::Pending)
            }
        }
    }

    /// The slot, not finalized, that holds one of `versions` with its effect; `None` while none does.
    ///
    /// # Errors
    /// [`Transient`].
    pub async fn mined(&self, versions: &[TransactionPrepared]) -> Result<Option<Inclusion>, Transient> {
        let settled = self.node.settled().await?;
        let history = History::of(self.node);
        for version in versions.iter().rev() {
            let Some(status) = history.status(&version.transaction_hash, settled.slot).await? else { continue };
            if status.error.is_some() {
                return Ok(None);
            }
            let hash = version.transaction_hash.clone();
            return history.inclusion(hash, status.slot, Commitment::Confirmed).await.map(Some);
        }
        Ok(None)
    }

    /// Whether the finalized state is later than the UNIX second `after` and holds no escrow of this plan for the payment.
    ///
    /// # Errors
    /// [`Transient`].
    pub async fn deposit_ruled_out(
        &self,
        payment_id: &PaymentId,
        plan: &EscrowPlan,
        after: u64,
    ) -> Result<bool, Transient> {
        let program = key(&plan.contract)?;
        let found = Escrows::of(self.node).settled(payment_id, &program).await?;
        if found.time <= after || found.unsettled {
            return Ok(false);
        }
        if found.record.is_none() {
            check_kept(self.node, found.time, plan.refund_after)?;
        }
        Ok(!found.record.is_some_and(|record| is_of(&record, plan)))
    }

    /// The escrow of a deposit in the finalized state, whoever sent it; `None` while there is none.
    ///
    /// # Errors
    /// [`Transient`].
    pub async fn deposit_secured(&self, order: &DepositOrder) -> Result<Option<EscrowSecured>, Transient> {
        let program = key(&order.escrow.contract)?;
        let found = Escrows::of(self.node).settled(&order.payment_id, &program).await?;
        match found.record.filter(|record| is_of_order(record, order)) {
            Some(record) => self.secured_as(&record, &program, order).await.map(Some),
            None => Ok(None),
        }
    }

    /// See [`sagas::ports::Chains::payer_has_escrow`].
    ///
    /// # Errors
    /// [`Transient`].
    pub async fn has_escrow_of(
        &self,
        payment_id: &PaymentId,
        plan: &EscrowPlan,
        payer: &events::Account,
    ) -> Result<(bool, u64), Transient> {
        let found = Escrows::of(self.node).settled(payment_id, &key(&plan.contract)?).await?;
        if found.unsettled {
            return Err(Transient::unreachable("an escrow of the payment is not finalized yet"));
        }
        let payer = key(payer)?;
        Ok((found.record.is_some_and(|record| record.payer == payer), found.time))
    }

    /// The escrow of this plan in the finalized state, whatever became of it; a deposit is reserved at once here.
    ///
    /// # Errors
    /// [`Transient`].
    pub async fn escrow_found(
        &self,
        payment_id: &PaymentId,
        plan: &EscrowPlan,
    ) -> Result<Option<EscrowOpened>, Transient> {
        let program = key(&plan.contract)?;
        let found = Escrows::of(self.node).settled(payment_id, &program).await?;
        let Some(record) = found.record.filter(|record| is_of(record, plan)) else { return Ok(None) };
        let EscrowSecured { inclusion, amount, .. } = self.secured(&record, &program, |_| true).await?;
        Ok(Some(EscrowOpened { inclusion, amount, reserved_for: Some(Hash32(record.quote_hash)) }))
    }

    /// The deposit of `order`, whose the record is. Of an escrow that was reassigned since it is looked for by what it reserved.
    async fn secured_as(
        &self,
        record: &Escrow,
        program: &Key,
        order: &DepositOrder,
    ) -> Result<EscrowSecured, Transient> {
        let quote_hash = order.reservation.quote_hash.0;
        self.secured(record, program, |reserved_for| *reserved_for == quote_hash).await
    }

    async fn secured(
        &self,
        record: &Escrow,
        program: &Key,
        is: impl Fn(&Hash) -> bool,
    ) -> Result<EscrowSecured, Transient> {
        let inclusion = Escrows::of(self.node).deposit_of(record, program, is).await?;
        let amount = amount(record.deposited).ok_or_else(|| self.node.contradiction("an escrow of nothing"))?;
        Ok(EscrowSecured { inclusion, amount, deposit: None })
    }

    /// Where a prepared transaction, of whose `versions` any may have landed, stands by itself.
    ///
    /// # Errors
    /// [`Transient`].
    pub async fn transaction_state(&self, versions: &[TransactionPrepared]) -> Result<TransactionState, Transient> {
        let settled = self.node.settled().await?;
        match self.status_of(versions, settled).await? {
            TransactionStatus::Failed { evidence, .. } | TransactionStatus::Lost { evidence } => {
                Ok(TransactionState::Dead { evidence })
            }
            TransactionStatus::Open | TransactionStatus::Landed(_) => Ok(TransactionState::Pending),
        }
    }

    async fn status_of(
        &self,
        versions: &[TransactionPrepared],
        settled: Settled,
    ) -> Result<TransactionStatus, Transient> {
        let heights: Option<Vec<_>> = versions.iter().map(|version| version.validity.last_block_height()).collect();
        let heights =
            heights.ok_or_else(|| Transient::misconfigured("a transaction of this chain has no block height"))?;
        let Some(height) = heights.into_iter().max() else {
            return Err(Transient::misconfigured("no transaction was prepared"));
        };
        let mut failed = None;
        for version in versions {
            match History::of(self.node).status(&version.transaction_hash, settled.slot).await? {
                Some(status) if status.error.is_none() => return Ok(TransactionStatus::Landed(status)),
                Some(status) if status.slot <= settled.slot => failed = Some((version, status)),
                // It may still land in another block, when the one that it failed in is left.
                Some(_) => return Ok(TransactionStatus::Open),
                None => {}
            }
        }
        if settled.height <= height {
            return Ok(TransactionStatus::Open);
        }
        let until = format!(
            "block height {} is finalized at or below slot {}, past {height}, the last at which it could land",
            settled.height, settled.slot
        );
        Ok(match failed {
            Some((version, status)) => {
                let evidence = format!("{} failed in slot {}; {until}", version.transaction_hash, status.slot);
                TransactionStatus::Failed { status, evidence }
            }
            None => {
                let hashes: Vec<&str> = versions.iter().map(|version| version.transaction_hash.as_str()).collect();
                TransactionStatus::Lost { evidence: format!("{until}, and there is no {}", hashes.join(", ")) }
            }
        })
    }

    /// The context of a finalized failure.
    async fn reverted(
        &self,
        versions: &[TransactionPrepared],
        program: &Key,
        status: &Status,
    ) -> Result<BlockchainContext, Transient> {
        let mut context = refusal::context(self.node, program, String::new());
        context.block_number = Some(status.slot);
        for version in versions {
            // Without history the error is shown without the programs' names.
            let landed = History::of(self.node).transaction(&version.transaction_hash, Commitment::Finalized).await?;
            let Some(landed) = landed else { continue };
            context.transaction_hash = Some(version.transaction_hash.clone());
            context.block_number = Some(landed.slot);
            context.gas_used = landed.units.map(|units| units.to_string());
            context.revert_reason = landed.error.map(|error| program::reason(&error, &landed.programs));
            return Ok(context);
        }
        context.transaction_hash = versions.last().map(|version| version.transaction_hash.clone());
        context.revert_reason = status.error.as_ref().map(|error| program::reason(error, &[]));
        Ok(context)
    }
}

/// Whether the record is this payment's money, reserved under this quote, or reserved under it before it was reassigned as far as the
/// record tells.
fn is_of_order(record: &Escrow, order: &DepositOrder) -> bool {
    let source = &order.terms.source;
    let is_reserved_so = || {
        record.quote_hash == order.reservation.quote_hash.0
            && key(&order.reservation.payout_account) == Ok(record.settler)
            && program::units(order.reservation.source_amount) == Ok(record.source_amount)
    };
    // All that came to an address is deposited, and of what is signed for what is reserved.
    let is_deposited = match &order.authorization {
        Authorization::DepositAddress(given) => {
            program::units(given.amount).is_ok_and(|least| record.deposited >= least)
        }
        Authorization::SolanaX402Exact(purchase) => program::units(purchase.amount) == Ok(record.deposited),
        _ => program::units(order.reservation.source_amount) == Ok(record.deposited),
    };
    is_of(record, &order.escrow)
        && key(source.account()) == Ok(record.payer)
        && program::mint(source.asset()) == Ok(record.mint)
        && record.terms_hash == order.terms_hash.0
        && is_deposited
        && (record.reassignments() > 0 || is_reserved_so())
}
