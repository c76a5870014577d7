//! On-chain evidence: the stream's transactions, their events, the escrow's record.

use alloy::primitives::{B256, Log};

use chains::{
    auditor::{Discrepancies, Discrepancy, Kind},
    escrow,
};
use escrow_abi::{
    contracts::{GatewayEscrow, units},
    evidence::{Agreement, Evidence, Parties},
};
use events::{
    Amount, Hash32, OwnedAsset,
    event::{EscrowOpened, EscrowPlan, EscrowRefunded, Inclusion, TronSpend},
};
use sagas::ports::{PayerDeposit, Transient};

use super::Auditor;
use crate::{
    address::trc20,
    escrows::{DatedRecord, Escrows},
    node::{Node, State},
};

impl Auditor {
    /// Checks that the transaction of `inclusion` is the deposit of `amount` that the payer signed for. It need not be the one
    /// in the stream: a wallet can sign the same deposit again, and the escrow takes it from the payer alone.
    pub(super) async fn made_deposit(
        &self,
        deposit: &PayerDeposit,
        spend: &TronSpend,
        parties: &Parties,
        inclusion: &Inclusion,
        amount: Amount,
    ) -> Result<Vec<Discrepancy>, Transient> {
        let mut discrepancies = Discrepancies::default();
        discrepancies.require(amount == spend.amount, || {
            format!("{amount} are said to be in escrow, and the payer deposits {}", spend.amount)
        });
        let Some(evidence) = self.executed_as(inclusion, &mut discrepancies).await? else { return Ok(discrepancies.0) };
        let deposits: Vec<GatewayEscrow::Deposited> = evidence.events(parties.escrow);
        let Some(made) = deposits.iter().find(|event| event.paymentId == parties.id) else {
            evidence.no_deposit(parties, &inclusion.transaction_hash, &mut discrepancies);
            return Ok(discrepancies.0);
        };
        discrepancies.same("the amount deposited", units(amount), made.amount);
        let agreement = Agreement {
            plan: &deposit.escrow,
            terms_hash: deposit.terms_hash,
            agreed: spend.quote_hash,
            quote_hash: spend.quote_hash,
        };
        Evidence::deposited(parties, &agreement, made, &mut discrepancies);
        evidence.taken(parties, deposits.len(), made.amount, &mut discrepancies);
        in_time("deposit", evidence.time, &deposit.escrow, &mut discrepancies);
        Ok(discrepancies.0)
    }

    /// The record under the payment's id and windows, when it is of other terms than the payment's and paid nobody but its
    /// payer. A payer can have two deposits admitted under one id, submit the one and broadcast the other; that the escrow took
    /// it is not a fault of the gateway's, which has to say so and to give it back.
    /// The record must be as new as what the stream says of it.
    pub(super) async fn other_deposit(
        &self,
        deposit: &PayerDeposit,
        inclusion: &Inclusion,
    ) -> Result<Option<DatedRecord>, Transient> {
        let found = Escrows::of(&self.node).settled(&deposit.payment_id, &deposit.escrow.contract).await?;
        let (settled, claimed) = (found.settled.number, inclusion.block_number);
        if found.unsettled || (found.record.is_none() && settled < claimed) {
            return Err(self.node.contradiction(format!("block {claimed} is claimed where {settled} is settled")));
        }
        let is =
            |record: &DatedRecord| is_other_deposit(record, &deposit.terms.source, deposit.terms_hash, &deposit.escrow);
        Ok(found.record.filter(is))
    }

    /// Checks that the transaction that the stream names made the deposit on record.
    pub(super) async fn made_other_deposit(
        &self,
        deposit: &PayerDeposit,
        record: &DatedRecord,
        parties: &Parties,
        opened: &EscrowOpened,
    ) -> Result<Vec<Discrepancy>, Transient> {
        let mut discrepancies = Discrepancies::default();
        let parties = parties_on_record(parties, record, &self.node)?;
        let EscrowOpened { inclusion, amount, .. } = opened;
        discrepancies.require(record.escrow.deposited == Some(*amount), || {
            format!("{amount} are said to be in escrow, and {:?} are on record", record.escrow.deposited)
        });
        discrepancies.same("the block of the deposit on record", inclusion.block_number, record.deposited_at);
        let Some(evidence) = self.executed_as(inclusion, &mut discrepancies).await? else { return Ok(discrepancies.0) };
        let deposits: Vec<GatewayEscrow::Deposited> = evidence.events(parties.escrow);
        let Some(made) = deposits.iter().find(|event| event.paymentId == parties.id) else {
            evidence.no_deposit(&parties, &inclusion.transaction_hash, &mut discrepancies);
            return Ok(discrepancies.0);
        };
        let is_on_record = record.terms.clone().unreserved().are_told_by(made) && made.amount == units(*amount);
        discrepancies
            .require(is_on_record, || format!("{} made another deposit: {made:?}", inclusion.transaction_hash));
        evidence.taken(&parties, deposits.len(), made.amount, &mut discrepancies);
        in_time("deposit", evidence.time, &deposit.escrow, &mut discrepancies);
        Ok(discrepancies.0)
    }

    /// Checks that the transaction that the stream names gave the payer what was `deposited`.
    ///
    /// # Errors
    /// [`Transient`] when the chain gives no answer.
    pub(super) async fn gave_back(
        &self,
        parties: &Parties,
        refunded: &EscrowRefunded,
        deposited: Amount,
    ) -> Result<Vec<Discrepancy>, Transient> {
        let mut discrepancies = Discrepancies::default();
        if let Some(evidence) = self.executed_as(&refunded.inclusion, &mut discrepancies).await? {
            evidence.refunded(parties, refunded, deposited, &mut discrepancies);
        }
        Ok(discrepancies.0)
    }

    /// The claimed transaction, when it is on the chain in the block that was claimed, and had its effect.
    pub(super) async fn executed_as(
        &self,
        inclusion: &Inclusion,
        discrepancies: &mut Discrepancies,
    ) -> Result<Option<Evidence>, Transient> {
        let place = &inclusion.transaction_hash;
        let Ok(hash) = place.parse::<B256>() else {
            discrepancies.add(Kind::Contradiction, format!("{place} is not a transaction hash"));
            return Ok(None);
        };
        // One of several nodes may lag, so that it is nowhere is believed when it was said twice.
        let found = match self.node.info(hash, State::Newest).await? {
            None => self.node.info(hash, State::Solidified).await?,
            found => found,
        };
        let Some(info) = found else {
            discrepancies.add(Kind::Missing, format!("transaction {place} is not on {}", self.node.chain_id()));
            return Ok(None);
        };
        let block = self.node.block(info.block_number, State::Newest).await?;
        let block = block.filter(|block| block.time_ms == info.block_time_ms);
        let block = block.ok_or_else(|| self.node.contradiction(format!("{place} is in no block that there is")))?;
        discrepancies.same(&format!("the block of {place}"), inclusion.block_number, block.number);
        discrepancies.same(&format!("the block hash of {place}"), inclusion.block_hash.clone(), block.id.to_string());
        discrepancies.same(&format!("the block time of {place}"), inclusion.block_time, block.seconds());
        if let Some(failure) = info.failure {
            discrepancies.add(Kind::Contradiction, format!("transaction {place} failed: {failure}"));
            return Ok(None);
        }
        let logs = info.logs.into_iter().map(Log::from).collect();
        Ok(Some(Evidence { time: block.seconds(), logs }))
    }
}

/// A deposit and a reservation must be in a block of the reserve deadline's second, or before.
pub(super) fn in_time(name: &str, time: u64, plan: &EscrowPlan, discrepancies: &mut Discrepancies) {
    discrepancies.require(time <= plan.reserve_deadline, || {
        format!("the {name} came at {time}, after the reserve deadline {}", plan.reserve_deadline)
    });
}

/// Whether the record is of the payment's windows and of other terms, and no settler was paid from it.
pub(super) fn is_other_deposit(
    record: &DatedRecord,
    source: &OwnedAsset,
    terms_hash: Hash32,
    plan: &EscrowPlan,
) -> bool {
    record.escrow.is_of(plan)
        && !record.is_deposit_of(source, terms_hash, plan)
        && record.escrow.state != escrow::State::Released
}

/// The parties of what is on record under the payment's id.
pub(super) fn parties_on_record(parties: &Parties, record: &DatedRecord, node: &Node) -> Result<Parties, Transient> {
    let payer = record.payer(node)?;
    let token = trc20(&record.escrow.asset)?;
    Ok(Parties { payer, token, ..*parties })
}
