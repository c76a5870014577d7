//! Transaction status: what became of the gateway's own transactions.

use alloy::primitives::Address;

use chains::escrow::{EscrowRecord, State};
use escrow_abi::contracts::{GatewayEscrow, account, address, text, units, word};
use events::{
    PaymentId,
    event::{EscrowPlan, EscrowSecured, Inclusion, TransactionPrepared},
    failure::BlockchainContext,
    mutant,
};
use sagas::ports::{DepositOrder, DepositState, TransactionState, Transient};

use super::{
    calls::Calls,
    deposit_call,
    escrows::{Escrows, SettledEscrow},
    logs::{Found, Logs},
    node::{At, BlockRef, Node},
    query::{Query, Receipt},
    transaction::{call_of, hash_of},
};

/// What a settled block proves about a transaction, which has one nonce in all its versions.
enum TransactionStatus {
    /// Nothing.
    Open,
    /// One version is in a settled block, or a newer one, of the UNIX second `time`.
    Mined { receipt: Receipt, time: u64, settled: bool },
    /// Its nonce is used in the settled state, and by none of its versions.
    Superseded { evidence: String },
}

/// The gateway's transactions on one chain.
#[derive(Debug, Clone, Copy)]
pub struct Transactions<'a> {
    node: &'a Node,
}

impl<'a> Transactions<'a> {
    /// The transactions that the gateway sends on the chain of `node`.
    pub fn of(node: &'a Node) -> Self {
        Self { node }
    }

    /// Where a prepared deposit stands, of whose `versions` any may have landed. See [`DepositState`]; everything is
    /// concluded from one settled block.
    ///
    /// # Errors
    /// [`Transient`], also when `versions` are not versions of one transaction.
    pub async fn deposit_state(
        &self,
        order: &DepositOrder,
        versions: &[TransactionPrepared],
    ) -> Result<DepositState, Transient> {
        let contract = address(&order.escrow.contract)?;
        Escrows::of(self.node).expect(&order.expected_terms());
        let SettledEscrow { block: settled, record } =
            Escrows::of(self.node).settled(&order.payment_id, &order.escrow.contract).await?;
        if let Some(record) = record.filter(|record| is_of_order(record, order)) {
            return self.secured(order, contract, &record, settled).await.map(DepositState::Secured);
        }
        let admitted_until = versions.iter().map(|version| admitted_until(version, order)).max();
        let admitted_until = admitted_until.unwrap_or(order.escrow.reserve_deadline);
        match self.status_of(versions, settled).await? {
            TransactionStatus::Mined { receipt, settled: true, .. } if receipt.success => {
                Err(self.node.contradiction("the deposit is settled, and nothing is in escrow"))
            }
            // Until the admission ends a copy of it may still take effect, sent by anyone.
            TransactionStatus::Mined { receipt, time, settled: true }
                if time <= admitted_until && (settled.time > admitted_until || mutant!("admission-not-waited-out")) =>
            {
                let context = self.reverted(versions, contract, receipt).await?;
                Ok(DepositState::Reverted(Box::new(context)))
            }
            // Its nonce is gone, but until its admission ends anyone may send a copy of its call.
            TransactionStatus::Superseded { evidence } if settled.time > admitted_until => {
                Ok(DepositState::Superseded { evidence })
            }
            TransactionStatus::Open | TransactionStatus::Superseded { .. } | TransactionStatus::Mined { .. }
                if settled.time > order.escrow.reserve_deadline =>
            {
                Ok(DepositState::Expired {
                    evidence: format!(
                        "settled block {} {} of {} has time {}, past the reserve deadline {}, and nothing in escrow",
                        settled.number,
                        settled.hash,
                        self.node.chain_id(),
                        settled.time,
                        order.escrow.reserve_deadline
                    ),
                })
            }
            TransactionStatus::Mined { receipt, time, settled: true } if time > admitted_until => {
                Ok(DepositState::Superseded {
                    evidence: format!(
                        "{} reverted in settled block {} {}, whose time {time} is past the end of its admission {admitted_until}, \
                     and nothing is in escrow",
                        receipt.transaction_hash, receipt.block_number, receipt.block_hash
                    ),
                })
            }
            TransactionStatus::Open | TransactionStatus::Superseded { .. } | TransactionStatus::Mined { .. } => {
                Ok(DepositState::Pending)
            }
        }
    }

    /// The block, not settled, that holds one of `versions` with its effect; `None` while none does.
    ///
    /// # Errors
    /// [`Transient`].
    pub async fn mined(&self, versions: &[TransactionPrepared]) -> Result<Option<Inclusion>, Transient> {
        // The newest version is the likeliest to be there.
        for version in versions.iter().rev() {
            let Some(receipt) = Query::of(self.node).receipt(hash_of(version)?).await? else { continue };
            if !receipt.success {
                return Ok(None);
            }
            let block = self.node.canonical(receipt.block_number, receipt.block_hash).await?;
            return Ok(Some(self.node.inclusion(receipt.transaction_hash, block)));
        }
        Ok(None)
    }

    /// Whether the newest settled block is later than the UNIX second `after` and holds no escrow of this plan for the
    /// payment.
    ///
    /// # Errors
    /// [`Transient`].
    pub async fn deposit_ruled_out(
        &self,
        payment_id: &PaymentId,
        plan: &EscrowPlan,
        after: u64,
    ) -> Result<bool, Transient> {
        let settled = self.node.settled().await?;
        if settled.time <= after {
            return Ok(false);
        }
        let contract = address(&plan.contract)?;
        let record = Escrows::of(self.node).record(payment_id, contract, settled).await?;
        Ok(!record.is_some_and(|record| record.is_of(plan)))
    }

    /// The escrow of a deposit in the newest settled block, whoever sent it; `None` while there is none.
    ///
    /// # Errors
    /// [`Transient`].
    pub async fn deposit_secured(&self, order: &DepositOrder) -> Result<Option<EscrowSecured>, Transient> {
        let contract = address(&order.escrow.contract)?;
        Escrows::of(self.node).expect(&order.expected_terms());
        let SettledEscrow { block, record } =
            Escrows::of(self.node).settled(&order.payment_id, &order.escrow.contract).await?;
        match record.filter(|record| is_of_order(record, order)) {
            Some(record) => self.secured(order, contract, &record, block).await.map(Some),
            None => Ok(None),
        }
    }

    /// Where a prepared transaction, of whose `versions` any may have landed, stands by itself.
    ///
    /// # Errors
    /// [`Transient`], also when `versions` are not versions of one transaction.
    pub async fn state(&self, versions: &[TransactionPrepared]) -> Result<TransactionState, Transient> {
        let settled = self.node.settled().await?;
        match self.status_of(versions, settled).await? {
            TransactionStatus::Mined { receipt, settled: true, .. } if !receipt.success => Ok(TransactionState::Dead {
                evidence: format!(
                    "{} reverted in settled block {} {}",
                    receipt.transaction_hash, receipt.block_number, receipt.block_hash
                ),
            }),
            TransactionStatus::Superseded { evidence } => Ok(TransactionState::Dead { evidence }),
            TransactionStatus::Open | TransactionStatus::Mined { .. } => Ok(TransactionState::Pending),
        }
    }

    async fn secured(
        &self,
        order: &DepositOrder,
        contract: Address,
        record: &EscrowRecord,
        settled: BlockRef,
    ) -> Result<EscrowSecured, Transient> {
        let quote = word(order.reservation.quote_hash);
        let found: Found<GatewayEscrow::Reserved> = Logs::of(self.node)
            .find(contract, word(order.payment_id.on_chain()), settled, |event: &GatewayEscrow::Reserved| {
                event.quoteHash == quote && account(event.settler) == record.settler
            })
            .await?;
        let amount = record.deposited.ok_or_else(|| self.node.contradiction("an escrow of nothing"))?;
        Ok(EscrowSecured { inclusion: found.inclusion, amount, deposit: None })
    }

    async fn status_of(
        &self,
        versions: &[TransactionPrepared],
        settled: BlockRef,
    ) -> Result<TransactionStatus, Transient> {
        let (sender, nonce) = sender_and_nonce(versions)?;
        let at = if mutant!("superseded-by-the-newest-state") { At::Latest } else { At::Block(settled) };
        let used = Query::of(self.node).nonce(sender, at).await?;
        // The receipts are asked for after the nonce: a node that has the nonce's block has its receipts.
        for version in versions {
            let hash = hash_of(version)?;
            let Some(receipt) = Query::of(self.node).receipt(hash).await? else { continue };
            let is_settled = receipt.block_number <= settled.number;
            let block = match is_settled {
                true => self.node.below(receipt.block_number, receipt.block_hash, settled).await?,
                false => self.node.canonical(receipt.block_number, receipt.block_hash).await?,
            };
            if is_settled && used <= nonce {
                return Err(self.node.contradiction(format!("{hash} is settled, and its nonce is not used")));
            }
            return Ok(TransactionStatus::Mined { receipt, time: block.time, settled: is_settled });
        }
        if used <= nonce || mutant!("used-nonce-is-open") {
            return Ok(TransactionStatus::Open);
        }
        let mut hashes = Vec::with_capacity(versions.len());
        for version in versions {
            let hash = hash_of(version)?;
            if Query::of(self.node).knows(hash).await? {
                return Err(self
                    .node
                    .contradiction(format!("{hash} is known and has no receipt, and its nonce is used")));
            }
            hashes.push(hash.to_string());
        }
        Ok(TransactionStatus::Superseded {
            evidence: format!(
                "nonce {nonce} of {} is used at settled block {} {}, where the next is {used}, and there is no receipt of {}",
                text(sender),
                settled.number,
                settled.hash,
                hashes.join(", ")
            ),
        })
    }

    /// The context of a settled revert, its reason found by making the call again in the block that holds it.
    async fn reverted(
        &self,
        versions: &[TransactionPrepared],
        contract: Address,
        receipt: Receipt,
    ) -> Result<BlockchainContext, Transient> {
        let (sender, _) = sender_and_nonce(versions)?;
        let mut reason = None;
        // All versions make the same call.
        if let Some(call) = versions.first().and_then(|version| call_of(&version.raw, sender)) {
            reason = Calls::of(self.node).replay(&call, receipt.block_number).await?;
        }
        Ok(BlockchainContext {
            chain_id: self.node.chain_id().clone(),
            transaction_hash: Some(receipt.transaction_hash.to_string()),
            block_number: Some(receipt.block_number),
            contract_address: Some(text(contract)),
            revert_reason: reason,
            gas_used: Some(receipt.gas_used.to_string()),
            estimated_gas_needed: None,
        })
    }
}

/// The account and the nonce that all `versions` share.
pub(super) fn sender_and_nonce(versions: &[TransactionPrepared]) -> Result<(Address, u64), Transient> {
    let Some((first, others)) = versions.split_first() else {
        return Err(Transient::misconfigured("no transaction was prepared"));
    };
    if others.iter().any(|other| (&other.sender, other.validity) != (&first.sender, first.validity)) {
        return Err(Transient::misconfigured("versions of a transaction differ in sender or nonce"));
    }
    let nonce =
        first.validity.nonce().ok_or_else(|| Transient::misconfigured("a transaction of this chain has no nonce"))?;
    Ok((address(&first.sender)?, nonce))
}

/// The last second in which the escrow takes the deposit that `transaction` makes, from whomever.
fn admitted_until(transaction: &TransactionPrepared, order: &DepositOrder) -> u64 {
    let reserve_deadline = order.escrow.reserve_deadline;
    let admitted_until = call_of(&transaction.raw, Address::ZERO).and_then(|call| {
        let deposit = if call.to.is_some() { call.data } else { deposit_call::created_in(&call.data)? };
        deposit_call::admitted_until(&deposit)
    });
    admitted_until.map_or(reserve_deadline, |until| until.min(reserve_deadline))
}

/// Whether the record is this payment's money, reserved under this quote.
fn is_of_order(record: &EscrowRecord, order: &DepositOrder) -> bool {
    let source = &order.terms.source;
    matches!(record.state, State::Reserved | State::Released | State::Refunded)
        && record.is_of(&order.escrow)
        && record.payer.as_ref() == Some(source.account())
        && record.asset == *source.asset()
        && record.terms_hash == order.terms_hash
        && record.quote_hash == order.reservation.quote_hash
        && record.settler.as_ref() == Some(&order.reservation.payout_account)
        && record.source_amount.map(units) == Some(units(order.reservation.source_amount))
}
