//! An auditor's view of a Tron chain: the payer's transactions are read out of the stream byte by byte, those on the chain with
//! their events and the escrow's record from the node, and all is compared field by field.

mod admitted_deposit;
mod deposit_address;
mod onchain;
mod permit;
mod signed;

use std::fmt::Display;

use alloy::primitives::Address;
use async_trait::async_trait;

use chains::{
    auditor::{self, Audit, Case, Discrepancies, Discrepancy, EscrowSnapshot, Kind, Reassignment},
    config::CommonConfig,
};
use escrow_abi::{
    contracts::GatewayEscrow,
    evidence::{Evidence, Parties, Replaced},
};
use events::{
    Account, Amount, PaymentId, Terms,
    event::{Authorization, Claim, EscrowOpened, EscrowPlan, EscrowRefunded, EscrowSecured, Inclusion},
};
use sagas::ports::{EscrowState, PayerDeposit, Statement, Transient};

pub use self::signed::check_prepared;
use self::{
    admitted_deposit::{MoneySource, audit_admitted},
    onchain::{in_time, is_other_deposit, parties_on_record},
    signed::{ExpectedDeposit, parties},
};
use super::{
    address::address,
    deliveries::{self, OrderError},
    deposits::{Deposits, payer_deposit_id},
    escrows::Escrows,
    node::{Node, State},
    search::{EventSearch, SearchScope},
};

/// [`Audit`] of one Tron chain.
#[derive(Debug, Clone)]
pub struct Auditor {
    node: Node,
}

impl Auditor {
    /// The auditor of the chain of `node`.
    pub fn new(node: Node) -> Self {
        Self { node }
    }
}

fn unreadable(error: impl Display) -> Vec<Discrepancy> {
    auditor::unreadable("Tron", error)
}

/// The parties of a case, and the account that is to be paid.
fn parties_of(case: &Case<'_>) -> Result<(Parties, Address), OrderError> {
    Ok((parties(case.payment_id, case.terms, case.plan)?, address(&case.quote.payout_account)?))
}

#[async_trait]
impl Audit for Auditor {
    fn config(&self) -> &CommonConfig {
        &self.node.config().common
    }

    async fn audit_authorization(
        &self,
        payment_id: &PaymentId,
        terms: &Terms,
        plan: &EscrowPlan,
        authorization: &Authorization,
    ) -> Result<Vec<Discrepancy>, Transient> {
        let spend = match authorization {
            Authorization::Tron(spend) => spend,
            Authorization::DepositAddress(given) => return self.given(payment_id, terms, plan, given).await,
            Authorization::TronPermit2Escrow(permit) => return self.permitted(payment_id, terms, plan, permit).await,
            Authorization::EvmPermit2Escrow(_)
            | Authorization::EvmPermit2(_)
            | Authorization::EvmEip3009(_)
            | Authorization::EvmPermit2Batch(_)
            | Authorization::EvmPermit2Mandate(_)
            | Authorization::EvmX402Exact(_)
            | Authorization::SolanaX402Exact(_)
            | Authorization::Solana(_) => return Ok(unreadable("the payer signed for another family")),
        };
        let mut discrepancies = Discrepancies::default();
        if let Some(cap) = terms.max_source_amount {
            discrepancies
                .require(cap == spend.amount, || format!("the payer deposits {}, the terms say {cap}", spend.amount));
        }
        match ExpectedDeposit::of(payment_id, terms, plan, spend, u64::from(self.node.reference())) {
            Ok(own) => own.check(spend, &mut discrepancies),
            Err(error) => return Ok(unreadable(error)),
        }
        Ok(discrepancies.0)
    }

    async fn audit_deposit(&self, case: &Case<'_>, secured: &EscrowSecured) -> Result<Vec<Discrepancy>, Transient> {
        let mut discrepancies = Discrepancies::default();
        let Ok((parties, payout)) = parties_of(case) else { return Ok(unreadable("a deposit that is none")) };
        let Some(evidence) = self.executed_as(&secured.inclusion, &mut discrepancies).await? else {
            return Ok(discrepancies.0);
        };
        let reservations: Vec<GatewayEscrow::Reserved> = evidence.events(parties.escrow);
        match reservations.iter().find(|event| event.paymentId == parties.id) {
            Some(reserved) => Evidence::reserved(case, &parties, payout, reserved, &mut discrepancies),
            None => {
                let place = &secured.inclusion.transaction_hash;
                discrepancies.add(Kind::Missing, format!("{place} made no reservation for the payment"));
            }
        }
        in_time("reservation", evidence.time, case.plan, &mut discrepancies);
        let record = Escrows::of(&self.node).record(case.payment_id, parties.escrow, State::Newest).await?.record;
        let Some(record) = record else {
            discrepancies.add(Kind::Missing, "the escrow has no record of the payment");
            return Ok(discrepancies.0);
        };
        // Of a reservation that another took the place of no block is on record any more.
        if record.escrow.reserved_for() == Some(case.quote_hash) {
            let reserved_at = record.reserved_at.unwrap_or_default();
            discrepancies.same("the block of the reservation on record", secured.inclusion.block_number, reserved_at);
        }
        if let Some(source) = MoneySource::of(case) {
            discrepancies.0.extend(audit_admitted(case, &source, &parties, &evidence, secured));
            return Ok(discrepancies.0);
        }
        let Authorization::Tron(spend) = case.authorization else {
            return Ok(unreadable("a deposit that is none"));
        };
        let known = payer_deposit_id(case.authorization);
        let scope = SearchScope {
            contract: parties.escrow,
            number: record.deposited_at,
            state: State::Newest,
            payment: parties.id,
            known: known.as_slice(),
        };
        let is = |event: &GatewayEscrow::Deposited| event.paymentId == parties.id;
        let found = EventSearch::of(&self.node).find(&scope, is).await?;
        if let Some(own) = &secured.deposit {
            discrepancies.same("the deposit's transaction", &own.transaction_hash, &found.inclusion.transaction_hash);
            discrepancies.same("the deposit's block", own.block_number, found.inclusion.block_number);
        }
        let deposit = PayerDeposit {
            transfer: None,
            payment_id: case.payment_id.clone(),
            terms: case.terms.clone(),
            terms_hash: case.terms.hash(),
            escrow: case.plan.clone(),
            authorization: case.authorization.clone(),
        };
        let made = self.made_deposit(&deposit, spend, &parties, &found.inclusion, secured.amount).await?;
        discrepancies.0.extend(made);
        Ok(discrepancies.0)
    }

    async fn audit_opened(&self, deposit: &PayerDeposit, opened: &EscrowOpened) -> Result<Vec<Discrepancy>, Transient> {
        let parties = parties(&deposit.payment_id, &deposit.terms, &deposit.escrow);
        let (Authorization::Tron(spend), Ok(parties)) = (&deposit.authorization, parties) else {
            return Ok(unreadable("a deposit that is none"));
        };
        // The deposit that the stream shows must be as the stream shows it.
        let is_journaled = opened.inclusion.transaction_hash == spend.deposit.transaction_hash;
        let other = if is_journaled { None } else { self.other_deposit(deposit, &opened.inclusion).await? };
        match other {
            Some(record) => self.made_other_deposit(deposit, &record, &parties, opened).await,
            None => self.made_deposit(deposit, spend, &parties, &opened.inclusion, opened.amount).await,
        }
    }

    async fn audit_return(
        &self,
        deposit: &PayerDeposit,
        refunded: &EscrowRefunded,
        deposited: Amount,
    ) -> Result<Vec<Discrepancy>, Transient> {
        let parties = match parties(&deposit.payment_id, &deposit.terms, &deposit.escrow) {
            Ok(parties) => parties,
            Err(error) => return Ok(unreadable(error)),
        };
        let parties = match self.other_deposit(deposit, &refunded.inclusion).await? {
            Some(record) => parties_on_record(&parties, &record, &self.node)?,
            None => parties,
        };
        self.gave_back(&parties, refunded, deposited).await
    }

    async fn audit_given_back(
        &self,
        deposit: &PayerDeposit,
        refunded: &EscrowRefunded,
    ) -> Result<Vec<Discrepancy>, Transient> {
        self.came_back(deposit, refunded).await
    }

    async fn audit_reassignment(
        &self,
        case: &Case<'_>,
        reassignment: &Reassignment<'_>,
    ) -> Result<Vec<Discrepancy>, Transient> {
        let mut discrepancies = Discrepancies::default();
        let Reassignment { previous, previous_fulfill_by, deposited, inclusion } = *reassignment;
        let (parties, payout) = match parties_of(case) {
            Ok(parties) => parties,
            Err(error) => return Ok(unreadable(error)),
        };
        let before = Replaced { quote_hash: previous, fulfill_by: previous_fulfill_by };
        if let Some(evidence) = self.executed_as(inclusion, &mut discrepancies).await? {
            evidence.reassigned(case, (&parties, payout), before, inclusion, deposited, &mut discrepancies);
        }
        Ok(discrepancies.0)
    }

    async fn audit_delivery(&self, case: &Case<'_>, inclusion: &Inclusion) -> Result<Vec<Discrepancy>, Transient> {
        let mut discrepancies = Discrepancies::default();
        let order = case.delivery();
        let wanted = deliveries::delivery(&order).and_then(|wanted| Ok((wanted, address(&order.proxy)?)));
        let (wanted, proxy) = match wanted {
            Ok(wanted) => wanted,
            Err(error) => return Ok(unreadable(error)),
        };
        if let Some(evidence) = self.executed_as(inclusion, &mut discrepancies).await? {
            evidence.delivered(&wanted, proxy, inclusion, &mut discrepancies);
        }
        Ok(discrepancies.0)
    }

    async fn audit_release(
        &self,
        case: &Case<'_>,
        inclusion: &Inclusion,
        deposited: Amount,
    ) -> Result<Vec<Discrepancy>, Transient> {
        let mut discrepancies = Discrepancies::default();
        let (parties, payout) = match parties_of(case) {
            Ok(parties) => parties,
            Err(error) => return Ok(unreadable(error)),
        };
        if let Some(evidence) = self.executed_as(inclusion, &mut discrepancies).await? {
            evidence.released(case, &parties, payout, inclusion, deposited, &mut discrepancies);
        }
        Ok(discrepancies.0)
    }

    async fn audit_refund(
        &self,
        case: &Case<'_>,
        refunded: &EscrowRefunded,
        deposited: Amount,
    ) -> Result<Vec<Discrepancy>, Transient> {
        match parties(case.payment_id, case.terms, case.plan) {
            Ok(parties) => self.gave_back(&parties, refunded, deposited).await,
            Err(error) => Ok(unreadable(error)),
        }
    }

    async fn audit_escrow(
        &self,
        payment_id: &PaymentId,
        plan: &EscrowPlan,
        case: Option<&Case<'_>>,
    ) -> Result<(EscrowSnapshot, Vec<Discrepancy>), Transient> {
        let mut discrepancies = Discrepancies::default();
        let found = Escrows::of(&self.node).settled(payment_id, &plan.contract).await?;
        if let (Some(record), Some(case)) = (&found.record, case)
            && !is_other_deposit(record, &case.terms.source, case.terms.hash(), plan)
            // Beside a deposit of the gateway's its payer may make one of its own.
            && (case.authorization.is_payer_deposit() || record.reserved_at.is_some())
        {
            discrepancies.committed(case, &record.escrow);
        }
        let record = found.record.map(|record| record.escrow).filter(|record| record.is_of(plan));
        let (state, reserved_for) =
            (record.as_ref().map(|record| record.state), record.and_then(|record| record.reserved_for()));
        let (settled_number, settled_time) = (found.settled.number, found.time);
        Ok((EscrowSnapshot { state, reserved_for, settled_number, settled_time }, discrepancies.0))
    }

    async fn attestation_holds(
        &self,
        statement: &Statement,
        plan: &EscrowPlan,
        signature: &str,
    ) -> Result<bool, Transient> {
        Ok(Escrows::of(&self.node).attestation_holds(statement, plan, signature))
    }

    async fn signed_by(
        &self,
        statement: &Statement,
        plan: &EscrowPlan,
        member: &Account,
        signature: &str,
    ) -> Result<bool, Transient> {
        Ok(Escrows::of(&self.node).signed_by(statement, plan, member, signature))
    }

    async fn escrow_state(&self, payment_id: &PaymentId, plan: &EscrowPlan) -> Result<EscrowState, Transient> {
        Escrows::of(&self.node).state(payment_id, plan).await
    }

    async fn escrow_found(&self, deposit: &PayerDeposit) -> Result<Option<EscrowOpened>, Transient> {
        Deposits::of(&self.node).found(deposit).await
    }

    async fn claims(
        &self,
        payment_id: &PaymentId,
        plan: &EscrowPlan,
        end: &Inclusion,
    ) -> Result<Vec<Claim>, Transient> {
        Escrows::of(&self.node).claims(payment_id, plan, end).await
    }
}
