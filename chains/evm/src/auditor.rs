//! An auditor's view of an EVM chain: receipts, their events and the escrow's record are read from the node and compared
//! with the stream, field by field.

mod authorization;

use std::fmt::Display;

use alloy::{
    primitives::{Address, B256, U64, keccak256},
    rpc::types::Log,
};
use async_trait::async_trait;
use serde::Deserialize;

use chains::{
    auditor::{self, Audit, Case, Discrepancies, Discrepancy, EscrowSnapshot, Kind, Reassignment},
    config::CommonConfig,
};
use escrow_abi::{
    contracts::{self, ConvertError, FulfillmentProxy, GatewayEscrow, address, text, units, word},
    evidence::{Agreement, Evidence, Parties, Replaced},
};
use events::{
    Account, Amount, Hash32, PaymentId, Terms,
    event::{
        Authorization, Claim, EscrowOpened, EscrowPlan, EscrowRefunded, EscrowSecured, Inclusion, TransactionPrepared,
    },
    time::unix_seconds,
};
use sagas::ports::{EscrowState, PayerDeposit, Statement, Transient};

use super::{
    batching::Views,
    escrows::{Escrows, SettledEscrow},
    held_outside::Place,
    node::Node,
    token_domain::Tokens,
    transaction::raw_bytes,
};

/// A receipt with its events.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct LoggedReceipt {
    transaction_hash: B256,
    block_number: U64,
    block_hash: B256,
    status: U64,
    logs: Vec<Log>,
}

fn unreadable(error: impl Display) -> Vec<Discrepancy> {
    auditor::unreadable("EVM", error)
}

/// A journaled transaction must be the one whose hash was journaled with it; otherwise the reason.
///
/// # Errors
/// What is wrong.
pub fn check_prepared(transaction: &TransactionPrepared) -> Result<(), String> {
    let raw = raw_bytes(&transaction.raw).ok_or("its bytes are not hex")?;
    let hash = keccak256(&raw);
    let stated: Hash32 = transaction.transaction_hash.parse().map_err(|_| "its hash is not a hash")?;
    if word(stated) == hash { Ok(()) } else { Err(format!("its bytes hash to {hash}, not to {stated}")) }
}

/// [`Audit`] of one EVM chain.
#[derive(Debug, Clone)]
pub struct Auditor {
    node: Node,
    tokens: Tokens,
}

impl Auditor {
    /// The auditor of the chain of `node`.
    pub fn new(node: Node) -> Self {
        let tokens = Tokens::new(Views::new(node.clone()));
        Self { node, tokens }
    }
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
        self.authorized(payment_id, terms, plan, authorization).await
    }

    async fn audit_given_back(
        &self,
        deposit: &PayerDeposit,
        refunded: &EscrowRefunded,
    ) -> Result<Vec<Discrepancy>, Transient> {
        let mut discrepancies = Discrepancies::default();
        let Some(mined) = self.mined(&refunded.inclusion, &mut discrepancies).await? else {
            return Ok(discrepancies.0);
        };
        let place = Place::of(deposit)?;
        match parties_of(&deposit.payment_id, &deposit.terms, &deposit.escrow) {
            Ok(parties) => {
                let share = |amount| place.share(amount);
                mined.given_back(&parties, (place.factory(), place.at()), share, refunded, &mut discrepancies);
            }
            Err(error) => return Ok(unreadable(error)),
        }
        Ok(discrepancies.0)
    }

    async fn audit_deposit(&self, case: &Case<'_>, secured: &EscrowSecured) -> Result<Vec<Discrepancy>, Transient> {
        let mut discrepancies = Discrepancies::default();
        let Some(mined) = self.mined(&secured.inclusion, &mut discrepancies).await? else { return Ok(discrepancies.0) };
        let (parties, payout) = match parties(case) {
            Ok(parties) => parties,
            Err(error) => return Ok(unreadable(error)),
        };
        // More is there for the settlers that may have to deliver in this one's place; how much is a rule of the stream's.
        let (amount, price) = (secured.amount, case.quote.source_amount);
        discrepancies.require(amount >= price, || format!("{amount} are in escrow, and the quote asks for {price}"));
        let deposits: Vec<GatewayEscrow::Deposited> = mined.events(parties.escrow);
        let reservations: Vec<GatewayEscrow::Reserved> = mined.events(parties.escrow);
        let deposit = deposits.iter().find(|event| event.paymentId == parties.id);
        let reserved = reservations.iter().find(|event| event.paymentId == parties.id);
        let place = &secured.inclusion.transaction_hash;
        let Some(deposit) = deposit else {
            mined.no_deposit(&parties, place, &mut discrepancies);
            return Ok(discrepancies.0);
        };
        let Some(reserved) = reserved else {
            discrepancies.add(Kind::Missing, format!("{place} made no reservation for the payment"));
            return Ok(discrepancies.0);
        };
        discrepancies.same("the amount deposited", units(secured.amount), deposit.amount);
        let agreed = match case.authorization {
            Authorization::EvmPermit2Escrow(permit) | Authorization::EvmPermit2(permit) => permit.quote_hash,
            Authorization::EvmEip3009(transfer) => transfer.quote_hash,
            Authorization::EvmPermit2Batch(_)
            | Authorization::EvmPermit2Mandate(_)
            | Authorization::EvmX402Exact(_)
            | Authorization::DepositAddress(_) => Hash32::ZERO,
            Authorization::Solana(_)
            | Authorization::SolanaX402Exact(_)
            | Authorization::Tron(_)
            | Authorization::TronPermit2Escrow(_) => {
                return Ok(unreadable("the payer signed for another family"));
            }
        };
        let agreement =
            Agreement { plan: case.plan, terms_hash: case.terms.hash(), agreed, quote_hash: case.quote_hash };
        Evidence::deposited(&parties, &agreement, deposit, &mut discrepancies);
        Evidence::reserved(case, &parties, payout, reserved, &mut discrepancies);
        // Who pays is the address that the payer's money was sent to, or drawn to with its batch or by its mandate, where there is one.
        let sent_to = match case.authorization {
            Authorization::DepositAddress(given) => Some(&given.address),
            Authorization::EvmX402Exact(purchase) => Some(&purchase.pay_to),
            Authorization::EvmPermit2Batch(permit) => Some(&permit.address),
            Authorization::EvmPermit2Mandate(charge) => Some(&charge.address),
            _ => None,
        };
        let payer = parties.payer;
        let taken_from = match sent_to.map(address) {
            Some(Ok(payer)) => Parties { payer, ..parties },
            Some(Err(error)) => return Ok(unreadable(error)),
            None => parties,
        };
        let mut taken = Discrepancies::default();
        mined.taken(&taken_from, deposits.len(), deposit.amount, &mut taken);
        let is_drawn_by_us =
            matches!(case.authorization, Authorization::EvmPermit2Batch(_) | Authorization::EvmPermit2Mandate(_));
        if is_drawn_by_us && !taken.0.is_empty() {
            // Who has seen the admission can pay for the payment, and the payer may have.
            let mut own = Discrepancies::default();
            mined.taken(&Parties { payer, ..taken_from }, deposits.len(), deposit.amount, &mut own);
            if own.0.is_empty() {
                taken = own;
            } else if matches!(case.authorization, Authorization::EvmPermit2Mandate(_)) {
                // So may anybody, and the merchant by another mandate of the same payer's.
                taken.0.iter_mut().for_each(|discrepancy| discrepancy.kind = Kind::Unverifiable);
            }
        }
        discrepancies.0.append(&mut taken.0);
        discrepancies.require(mined.time <= case.plan.reserve_deadline, || {
            format!("the deposit came at {}, after the reserve deadline {}", mined.time, case.plan.reserve_deadline)
        });
        Ok(discrepancies.0)
    }

    async fn audit_reassignment(
        &self,
        case: &Case<'_>,
        reassignment: &Reassignment<'_>,
    ) -> Result<Vec<Discrepancy>, Transient> {
        let mut discrepancies = Discrepancies::default();
        let Reassignment { previous, previous_fulfill_by, deposited, inclusion } = *reassignment;
        let Some(mined) = self.mined(inclusion, &mut discrepancies).await? else { return Ok(discrepancies.0) };
        let before = Replaced { quote_hash: previous, fulfill_by: previous_fulfill_by };
        match parties(case) {
            Ok((parties, payout)) => {
                mined.reassigned(case, (&parties, payout), before, inclusion, deposited, &mut discrepancies);
            }
            Err(error) => return Ok(unreadable(error)),
        }
        Ok(discrepancies.0)
    }

    async fn audit_delivery(&self, case: &Case<'_>, inclusion: &Inclusion) -> Result<Vec<Discrepancy>, Transient> {
        let mut discrepancies = Discrepancies::default();
        let Some(mined) = self.mined(inclusion, &mut discrepancies).await? else { return Ok(discrepancies.0) };
        match delivery(case) {
            Ok((wanted, proxy)) => mined.delivered(&wanted, proxy, inclusion, &mut discrepancies),
            Err(error) => return Ok(unreadable(error)),
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
        let Some(mined) = self.mined(inclusion, &mut discrepancies).await? else { return Ok(discrepancies.0) };
        match parties(case) {
            Ok((parties, payout)) => mined.released(case, &parties, payout, inclusion, deposited, &mut discrepancies),
            Err(error) => return Ok(unreadable(error)),
        }
        Ok(discrepancies.0)
    }

    async fn audit_refund(
        &self,
        case: &Case<'_>,
        refunded: &EscrowRefunded,
        deposited: Amount,
    ) -> Result<Vec<Discrepancy>, Transient> {
        let mut discrepancies = Discrepancies::default();
        let Some(mined) = self.mined(&refunded.inclusion, &mut discrepancies).await? else {
            return Ok(discrepancies.0);
        };
        match parties(case) {
            Ok((parties, _)) => mined.refunded(&parties, refunded, deposited, &mut discrepancies),
            Err(error) => return Ok(unreadable(error)),
        }
        Ok(discrepancies.0)
    }

    async fn audit_escrow(
        &self,
        payment_id: &PaymentId,
        plan: &EscrowPlan,
        case: Option<&Case<'_>>,
    ) -> Result<(EscrowSnapshot, Vec<Discrepancy>), Transient> {
        let mut discrepancies = Discrepancies::default();
        let SettledEscrow { block, record } = Escrows::of(&self.node).settled(payment_id, &plan.contract).await?;
        if let (Some(record), Some(case)) = (&record, case) {
            discrepancies.committed(case, record);
        }
        let record = record.filter(|record| record.is_of(plan));
        let (state, reserved_for) =
            (record.as_ref().map(|record| record.state), record.and_then(|record| record.reserved_for()));
        let (settled_number, settled_time) = (block.number, block.time);
        Ok((EscrowSnapshot { state, reserved_for, settled_number, settled_time }, discrepancies.0))
    }

    async fn attestation_holds(
        &self,
        statement: &Statement,
        plan: &EscrowPlan,
        signature: &str,
    ) -> Result<bool, Transient> {
        Escrows::of(&self.node).attestation_holds(statement, plan, signature).await
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
        Escrows::of(&self.node).found(&deposit.payment_id, &deposit.escrow).await
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

impl Auditor {
    /// The claimed transaction, when it is on the canonical chain in the block that was claimed.
    async fn mined(
        &self,
        inclusion: &Inclusion,
        discrepancies: &mut Discrepancies,
    ) -> Result<Option<Evidence>, Transient> {
        let place = &inclusion.transaction_hash;
        let Ok(hash) = place.parse::<B256>() else {
            discrepancies.add(Kind::Contradiction, format!("{place} is not a transaction hash"));
            return Ok(None);
        };
        let receipt: Option<LoggedReceipt> = self.node.request("eth_getTransactionReceipt", (hash,)).await?;
        let Some(receipt) = receipt else {
            discrepancies.add(Kind::Missing, format!("transaction {place} is not on {}", self.node.chain_id()));
            return Ok(None);
        };
        if receipt.transaction_hash != hash {
            return Err(self.node.contradiction("a receipt of another transaction"));
        }
        let block = self.node.canonical(receipt.block_number.to(), receipt.block_hash).await?;
        discrepancies.same(&format!("the block of {place}"), inclusion.block_number, block.number);
        discrepancies.same(&format!("the block hash of {place}"), inclusion.block_hash.clone(), block.hash.to_string());
        discrepancies.same(&format!("the block time of {place}"), inclusion.block_time, block.time);
        if receipt.status.to::<u64>() != 1 {
            discrepancies.add(Kind::Contradiction, format!("transaction {place} reverted"));
            return Ok(None);
        }
        let logs = receipt.logs.into_iter().filter(|log| !log.removed).map(|log| log.inner).collect();
        Ok(Some(Evidence { time: block.time, logs }))
    }
}

/// The parties of a case on its source chain, and the account that is to be paid.
fn parties(case: &Case<'_>) -> Result<(Parties, Address), ConvertError> {
    let parties = parties_of(case.payment_id, case.terms, case.plan)?;
    Ok((parties, address(&case.quote.payout_account)?))
}

/// The parties of a payment of these terms under `plan`.
fn parties_of(payment_id: &PaymentId, terms: &Terms, plan: &EscrowPlan) -> Result<Parties, ConvertError> {
    Ok(Parties {
        id: word(payment_id.on_chain()),
        escrow: address(&plan.contract)?,
        payer: address(terms.source.account())?,
        token: contracts::erc20(terms.source.asset())?,
        reserver: address(&plan.reserver)?,
        releaser: address(&plan.releaser)?,
        text,
    })
}

/// The event that the delivery of a case emits, and the contract that emits it.
fn delivery(case: &Case<'_>) -> Result<(FulfillmentProxy::Fulfilled, Address), ConvertError> {
    let quote = case.quote;
    let event = FulfillmentProxy::Fulfilled {
        paymentId: word(case.payment_id.on_chain()),
        quoteHash: word(case.quote_hash),
        settler: address(&quote.delivery_account)?,
        token: contracts::token_or_coin(quote.destination.asset())?,
        recipient: address(quote.destination.account())?,
        amount: units(quote.fulfillment_amount),
        fulfillBy: contracts::time(unix_seconds(quote.fulfill_by))?,
    };
    Ok((event, address(&quote.fulfillment_proxy)?))
}
