//! An auditor's view of a Tron chain: the payer's transactions are read out of the stream byte by byte, those on the chain with
//! their events and the escrow's record from the node, and all is compared field by field.

use std::fmt::Display;

use alloy::{
    primitives::{Address, B256},
    sol_types::SolCall,
};
use async_trait::async_trait;

use chains::{
    auditor::{self, Audit, Case, Discrepancies, Discrepancy, EscrowSnapshot, Kind},
    config::ChainConfig,
    escrow,
};
use escrow_abi::{
    contracts::{DevToken as Trc20, GatewayEscrow, time, units, word},
    eip712::{self, escrow_domain},
    evidence::{Evidence, Parties},
    signature,
};
use events::{
    Amount, Hash32, OwnedAsset, PaymentId, Terms,
    event::{
        Authorization, Claim, EscrowOpened, EscrowPlan, EscrowRefunded, EscrowSecured, Inclusion, PayerTransaction,
        TransactionPrepared, TronSpend,
    },
};
use sagas::ports::{EscrowState, PayerDeposit, Statement, Transient};

use super::{
    address::{address, text, trc20},
    node::{Node, State},
    reads::{self, DatedRecord, OrderError, block_seconds, unusable},
    search::Place,
    transaction::{self, Call, Decoded},
    transaction_status::payer_deposit_id,
};

fn unreadable(error: impl Display) -> Vec<Discrepancy> {
    auditor::unreadable("Tron", error)
}

/// A journaled transaction must be the one whose hash was journaled with it, signed by its sender and with the
/// expiration that was.
///
/// # Errors
/// What is wrong.
pub fn check_prepared(transaction: &TransactionPrepared) -> Result<(), String> {
    let (decoded, signer) = signed(&transaction.raw)?;
    let owner = text(decoded.draft.call.owner);
    if decoded.id.to_string() != transaction.transaction_hash {
        return Err(format!("its bytes hash to {}, not to {}", decoded.id, transaction.transaction_hash));
    }
    if owner != transaction.sender {
        return Err(format!("its owner is {owner}, not {}", transaction.sender));
    }
    if signer != Some(decoded.draft.call.owner) {
        return Err(format!("its signature is not that of {owner}"));
    }
    let expiration_ms = decoded.draft.expiration_ms;
    let journaled = transaction.validity.expiration_ms();
    if journaled != Some(expiration_ms) {
        let journaled = journaled.map_or_else(|| "what is journaled".to_owned(), |journaled| journaled.to_string());
        return Err(format!("it expires at {expiration_ms}, not at {journaled}"));
    }
    Ok(())
}

/// A transaction with whose key it was signed.
fn signed(raw: &str) -> Result<(Decoded, Option<Address>), String> {
    let bytes = raw.strip_prefix("0x").and_then(|digits| hex::decode(digits).ok()).ok_or("its bytes are no hex")?;
    let (decoded, signature) = transaction::read_signed(&bytes).map_err(|error| error.to_string())?;
    let signer = transaction::signer(decoded.id, &signature);
    Ok((decoded, signer))
}

/// What the payer's own deposit must be, rebuilt from the stream.
struct ExpectedDeposit {
    parties: Parties,
    call: GatewayEscrow::depositOwnCall,
    reserver: Address,
    /// Of the reserver's signature.
    opening: B256,
    approval: Call,
}

impl ExpectedDeposit {
    fn of(
        payment_id: &PaymentId,
        terms: &Terms,
        plan: &EscrowPlan,
        spend: &TronSpend,
        chain: u64,
    ) -> Result<Self, OrderError> {
        let parties = parties(payment_id, terms, plan)?;
        let reserver = address(&plan.reserver)?;
        let deposit = eip712::GatewayDeposit {
            paymentId: parties.id,
            termsHash: word(terms.hash()),
            quoteHash: word(spend.quote_hash),
            payer: parties.payer,
            reserver,
            releaser: address(&plan.releaser)?,
            reserveDeadline: time(plan.reserve_deadline)?,
            fulfillmentDeadline: time(plan.fulfillment_deadline)?,
            refundAfter: time(plan.refund_after)?,
        };
        let (token, amount) = (parties.token, units(spend.amount));
        let call = GatewayEscrow::depositOwnCall {
            d: (&deposit).into(),
            token,
            amount,
            reserverSignature: Default::default(),
        };
        let opening =
            eip712::digest(&eip712::Opening { deposit, token, amount }, &escrow_domain(chain, parties.escrow));
        let approval = Call {
            owner: parties.payer,
            contract: token,
            data: Trc20::approveCall { spender: parties.escrow, value: amount }.abi_encode(),
            value_sun: 0,
        };
        Ok(Self { parties, call, reserver, opening, approval })
    }

    /// Checks that `transaction` is what it is journaled as, signed by the payer; its call, when it can be read.
    fn read(&self, name: &str, transaction: &PayerTransaction, discrepancies: &mut Discrepancies) -> Option<Call> {
        let (decoded, signer) = match signed(&transaction.raw) {
            Ok(read) => read,
            Err(what) => {
                discrepancies.add(Kind::Contradiction, format!("the payer's {name}: {what}"));
                return None;
            }
        };
        let (hash, payer) = (decoded.id.to_string(), text(self.parties.payer));
        discrepancies.require(hash == transaction.transaction_hash, || {
            format!("the bytes of the payer's {name} hash to {hash}, not to {}", transaction.transaction_hash)
        });
        discrepancies.require(signer == Some(self.parties.payer), || {
            format!("the {name} that the stream shows was not signed by the payer {payer}")
        });
        let expiration_ms = decoded.draft.expiration_ms;
        discrepancies.require(expiration_ms == transaction.expires_at, || {
            format!("the payer's {name} expires at {expiration_ms}, not at {}", transaction.expires_at)
        });
        Some(decoded.draft.call)
    }

    fn check(&self, spend: &TronSpend, discrepancies: &mut Discrepancies) {
        if let Some(approval) = &spend.approval
            && let Some(call) = self.read("approval", approval, discrepancies)
        {
            discrepancies.require(call == self.approval, || {
                format!("the payer's approval is not of {} for the escrow", spend.amount)
            });
        }
        let Some(call) = self.read("deposit", &spend.deposit, discrepancies) else { return };
        let is_to = call.owner == self.parties.payer && call.contract == self.parties.escrow && call.value_sun == 0;
        discrepancies.require(is_to, || {
            let (owner, contract) = (text(call.owner), text(call.contract));
            format!("the payer's deposit is from {owner} to {contract} with {} sun", call.value_sun)
        });
        let Some(deposit) = GatewayEscrow::depositOwnCall::abi_decode(&call.data)
            .ok()
            // One encoding of what was read, so nothing was signed that was not.
            .filter(|deposit| deposit.abi_encode() == call.data)
        else {
            return discrepancies.add(Kind::Contradiction, "the payer's deposit calls no depositOwn");
        };
        let wanted =
            GatewayEscrow::depositOwnCall { reserverSignature: deposit.reserverSignature.clone(), ..self.call.clone() };
        discrepancies.require(deposit == wanted, || {
            format!("the payer's deposit has other terms, windows or accounts than the stream: {deposit:?}")
        });
        discrepancies.require(signature::is_of_key(self.reserver, self.opening, &deposit.reserverSignature), || {
            format!("the payer's deposit was not admitted by the reserver {}", text(self.reserver))
        });
    }
}

fn parties(payment_id: &PaymentId, terms: &Terms, plan: &EscrowPlan) -> Result<Parties, OrderError> {
    Ok(Parties {
        id: word(payment_id.on_chain()),
        escrow: address(&plan.contract)?,
        payer: address(terms.source.account().as_str())?,
        token: trc20(terms.source.asset())?,
        text,
    })
}

/// The parties of a case, and the account that is to be paid.
fn parties_of(case: &Case<'_>) -> Result<(Parties, Address), OrderError> {
    Ok((parties(case.payment_id, case.terms, case.plan)?, address(&case.quote.payout_account)?))
}

/// Whether the record is of the payment's windows and of other terms, and no settler was paid from it.
fn is_other_deposit(record: &DatedRecord, source: &OwnedAsset, terms_hash: Hash32, plan: &EscrowPlan) -> bool {
    record.escrow.is_of(plan)
        && !record.is_deposit_of(source, terms_hash, plan)
        && record.escrow.state != escrow::State::Released
}

/// The parties of what is on record under the payment's id.
fn parties_on_record(parties: &Parties, record: &DatedRecord) -> Result<Parties, Transient> {
    let payer = address(&record.escrow.payer).map_err(unusable)?;
    let token = trc20(&record.escrow.asset).map_err(unusable)?;
    Ok(Parties { payer, token, ..*parties })
}

#[async_trait]
impl Audit for Node {
    fn config(&self) -> &ChainConfig {
        self.config()
    }

    async fn audit_authorization(
        &self,
        payment_id: &PaymentId,
        terms: &Terms,
        plan: &EscrowPlan,
        authorization: &Authorization,
    ) -> Result<Vec<Discrepancy>, Transient> {
        let Authorization::Tron(spend) = authorization else {
            return Ok(unreadable("the payer signed for another family"));
        };
        let mut discrepancies = Discrepancies::default();
        if let Some(cap) = terms.max_source_amount {
            discrepancies
                .require(cap == spend.amount, || format!("the payer deposits {}, the terms say {cap}", spend.amount));
        }
        match ExpectedDeposit::of(payment_id, terms, plan, spend, u64::from(self.reference())) {
            Ok(own) => own.check(spend, &mut discrepancies),
            Err(error) => return Ok(unreadable(error)),
        }
        Ok(discrepancies.0)
    }

    async fn audit_deposit(&self, case: &Case<'_>, secured: &EscrowSecured) -> Result<Vec<Discrepancy>, Transient> {
        let mut discrepancies = Discrepancies::default();
        let (Authorization::Tron(spend), Ok((parties, payout))) = (case.authorization, parties_of(case)) else {
            return Ok(unreadable("a deposit that is none"));
        };
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
        self.in_time("reservation", evidence.time, case.plan, &mut discrepancies);
        let record = self.escrow_record(case.payment_id, parties.escrow, State::Newest).await?.record;
        let Some(record) = record else {
            discrepancies.add(Kind::Missing, "the escrow has no record of the payment");
            return Ok(discrepancies.0);
        };
        let reserved_at = record.reserved_at.unwrap_or_default();
        discrepancies.same("the block of the reservation on record", secured.inclusion.block_number, reserved_at);
        let known = payer_deposit_id(case.authorization);
        let place = Place {
            contract: parties.escrow,
            number: record.deposited_at,
            state: State::Newest,
            payment: parties.id,
            known: known.as_slice(),
        };
        let is = |event: &GatewayEscrow::Deposited| event.paymentId == parties.id;
        let found = self.event_in(&place, is).await?;
        let deposit = PayerDeposit {
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
        let is_own = opened.inclusion.transaction_hash == spend.deposit.transaction_hash;
        let other = if is_own { None } else { self.other_deposit(deposit, &opened.inclusion).await? };
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
            Some(record) => parties_on_record(&parties, &record)?,
            None => parties,
        };
        self.gave_back(&parties, refunded, deposited).await
    }

    async fn audit_delivery(&self, case: &Case<'_>, inclusion: &Inclusion) -> Result<Vec<Discrepancy>, Transient> {
        let mut discrepancies = Discrepancies::default();
        let order = case.delivery();
        let wanted = reads::delivery(&order).and_then(|wanted| Ok((wanted, address(&order.proxy)?)));
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
        let found = self.settled_escrow(payment_id, &plan.contract).await?;
        if let (Some(record), Some(case)) = (&found.record, case)
            && !is_other_deposit(record, &case.terms.source, case.terms.hash(), plan)
        {
            discrepancies.committed(case, &record.escrow);
        }
        let record = found.record.map(|record| record.escrow);
        let state = record.filter(|record| record.is_of(plan)).map(|record| record.state);
        Ok((EscrowSnapshot { state, settled_number: found.settled.number, settled_time: found.time }, discrepancies.0))
    }

    async fn attestation_holds(
        &self,
        statement: &Statement,
        plan: &EscrowPlan,
        signature: &str,
    ) -> Result<bool, Transient> {
        Ok(self.attestation_holds(statement, plan, signature))
    }

    async fn escrow_state(&self, payment_id: &PaymentId, plan: &EscrowPlan) -> Result<EscrowState, Transient> {
        self.escrow_state(payment_id, plan).await
    }

    async fn claims(
        &self,
        payment_id: &PaymentId,
        plan: &EscrowPlan,
        end: &Inclusion,
    ) -> Result<Vec<Claim>, Transient> {
        self.claims(payment_id, plan, end).await
    }
}

impl Node {
    /// Checks that the transaction of `inclusion` is the deposit of `amount` that the payer signed for. It need not be the one
    /// in the stream: a wallet can sign the same deposit again, and the escrow takes it from the payer alone.
    async fn made_deposit(
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
            discrepancies.add(Kind::Missing, format!("{} made no deposit for the payment", inclusion.transaction_hash));
            return Ok(discrepancies.0);
        };
        discrepancies.same("the amount deposited", units(amount), made.amount);
        Evidence::deposited(parties, deposit.terms_hash, spend.quote_hash, made, &mut discrepancies);
        evidence.taken(parties, deposits.len(), made.amount, &mut discrepancies);
        self.in_time("deposit", evidence.time, &deposit.escrow, &mut discrepancies);
        Ok(discrepancies.0)
    }

    /// The record under the payment's id and windows, when it is of other terms than the payment's and paid nobody but its
    /// payer. A payer can have two deposits admitted under one id, submit the one and broadcast the other; that the escrow took
    /// it is not a fault of the gateway's, which has to say so and to give it back.
    /// The record must be as new as what the stream says of it.
    async fn other_deposit(
        &self,
        deposit: &PayerDeposit,
        inclusion: &Inclusion,
    ) -> Result<Option<DatedRecord>, Transient> {
        let found = self.settled_escrow(&deposit.payment_id, &deposit.escrow.contract).await?;
        let (settled, claimed) = (found.settled.number, inclusion.block_number);
        if found.unsettled || (found.record.is_none() && settled < claimed) {
            return Err(self.contradiction(format!("block {claimed} is claimed where {settled} is settled")));
        }
        let is =
            |record: &DatedRecord| is_other_deposit(record, &deposit.terms.source, deposit.terms_hash, &deposit.escrow);
        Ok(found.record.filter(is))
    }

    /// Checks that the transaction that the stream names made the deposit on record.
    async fn made_other_deposit(
        &self,
        deposit: &PayerDeposit,
        record: &DatedRecord,
        parties: &Parties,
        opened: &EscrowOpened,
    ) -> Result<Vec<Discrepancy>, Transient> {
        let mut discrepancies = Discrepancies::default();
        let parties = parties_on_record(parties, record)?;
        let EscrowOpened { inclusion, amount } = opened;
        discrepancies.require(record.escrow.deposited == Some(*amount), || {
            format!("{amount} are said to be in escrow, and {:?} are on record", record.escrow.deposited)
        });
        discrepancies.same("the block of the deposit on record", inclusion.block_number, record.deposited_at);
        let Some(evidence) = self.executed_as(inclusion, &mut discrepancies).await? else { return Ok(discrepancies.0) };
        let deposits: Vec<GatewayEscrow::Deposited> = evidence.events(parties.escrow);
        let Some(made) = deposits.iter().find(|event| event.paymentId == parties.id) else {
            discrepancies.add(Kind::Missing, format!("{} made no deposit for the payment", inclusion.transaction_hash));
            return Ok(discrepancies.0);
        };
        let is_on_record = made.payer == parties.payer
            && made.token == parties.token
            && made.termsHash == word(record.escrow.terms_hash)
            && made.amount == units(*amount);
        discrepancies
            .require(is_on_record, || format!("{} made another deposit: {made:?}", inclusion.transaction_hash));
        evidence.taken(&parties, deposits.len(), made.amount, &mut discrepancies);
        self.in_time("deposit", evidence.time, &deposit.escrow, &mut discrepancies);
        Ok(discrepancies.0)
    }

    async fn gave_back(
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

    fn in_time(&self, name: &str, time: u64, plan: &EscrowPlan, discrepancies: &mut Discrepancies) {
        discrepancies.require(time <= plan.reserve_deadline, || {
            format!("the {name} came at {time}, after the reserve deadline {}", plan.reserve_deadline)
        });
    }

    /// The claimed transaction, when it is on the chain in the block that was claimed, and had its effect.
    async fn executed_as(
        &self,
        inclusion: &Inclusion,
        discrepancies: &mut Discrepancies,
    ) -> Result<Option<Evidence>, Transient> {
        let place = &inclusion.transaction_hash;
        let Ok(hash) = place.parse::<B256>() else {
            discrepancies.add(Kind::Contradiction, format!("{place} is no transaction hash"));
            return Ok(None);
        };
        // One of several nodes may lag, so that it is nowhere is believed when it was said twice.
        let found = match self.info(hash, State::Newest).await? {
            None => self.info(hash, State::Solidified).await?,
            found => found,
        };
        let Some(info) = found else {
            discrepancies.add(Kind::Missing, format!("transaction {place} is not on {}", self.chain_id()));
            return Ok(None);
        };
        let block = self.block(info.block_number, State::Newest).await?;
        let block = block.filter(|block| block.time_ms == info.block_time_ms);
        let block = block.ok_or_else(|| self.contradiction(format!("{place} is in no block that there is")))?;
        discrepancies.same(&format!("the block of {place}"), inclusion.block_number, block.number);
        discrepancies.same(&format!("the block hash of {place}"), inclusion.block_hash.clone(), block.id.to_string());
        discrepancies.same(&format!("the block time of {place}"), inclusion.block_time, block_seconds(&block));
        if let Some(failure) = info.failure {
            discrepancies.add(Kind::Contradiction, format!("transaction {place} failed: {failure}"));
            return Ok(None);
        }
        let logs = info.logs.into_iter();
        let logs = logs.map(|log| alloy::primitives::Log::new_unchecked(log.address, log.topics, log.data.into()));
        Ok(Some(Evidence { time: block_seconds(&block), logs: logs.collect() }))
    }
}
