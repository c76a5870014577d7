//! Escrows: what their contracts have on record about a payment, read so that it can be concluded from.

use alloy::{
    primitives::{Address, B256},
    sol_types::SolCall,
};

use chains::escrow::{EscrowRecord, QuotedEscrow, QuotedRecord, State};
use escrow_abi::{
    artefacts,
    attest::statement_digest,
    claims,
    contracts::{self, GatewayEscrow, account, address, word},
    record::{self, EscrowTerms, RecordError, Stored},
    signature, verifier_set,
};
use events::{
    Account, Amount, PaymentId,
    event::{Claim, EscrowOpened, EscrowPlan, EscrowRefunded, Inclusion},
};
use sagas::ports::{EscrowState, ExpectedTerms, Statement, Transient};

use super::{
    attest::verify_statement,
    calls::{CallError, Calls},
    deposit_call,
    logs::{Found, Logs},
    node::{At, BlockRef, Node},
    query::Query,
    transaction::plain,
};

/// The escrows of one chain.
#[derive(Debug, Clone, Copy)]
pub struct Escrows<'a> {
    node: &'a Node,
}

/// An escrow at the newest settled block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettledEscrow {
    /// The block.
    pub block: BlockRef,
    /// What the escrow has on record for the payment there; `None` when it knows nothing.
    pub record: Option<EscrowRecord>,
}

/// What an escrow has on record, and the terms that it commits to, with which it is called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Committed {
    /// The record.
    pub record: EscrowRecord,
    /// The terms.
    pub terms: EscrowTerms,
}

impl<'a> Escrows<'a> {
    /// The escrows of the chain of `node`.
    pub fn of(node: &'a Node) -> Self {
        Self { node }
    }

    /// Keeps the terms that the escrow of a payment commits to, so that no event has to tell them. What fits no EVM chain has
    /// none.
    pub(crate) fn expect(&self, expected: &ExpectedTerms<'_>) {
        // Of what is not settled yet either amount may be deposited.
        let price = expected.reservation.as_ref().map(|reservation| reservation.source_amount);
        let is_larger = expected.deposited.is_some() && expected.deposited != price;
        let of_price = is_larger.then(|| ExpectedTerms { deposited: None, ..expected.clone() });
        for expected in std::iter::once(expected).chain(&of_price) {
            if let Ok(Some(terms)) = deposit_call::terms(expected) {
                self.node.known_terms().keep(terms);
            }
        }
    }

    /// What the escrow at `contract` knows of the payment at `block`; `None` when it knows nothing, or there is no contract.
    ///
    /// # Errors
    /// [`Transient`], also when it commits to terms that nothing tells.
    pub async fn record(
        &self,
        payment_id: &PaymentId,
        contract: Address,
        block: BlockRef,
    ) -> Result<Option<EscrowRecord>, Transient> {
        Ok(self.committed(payment_id, contract, block).await?.map(|committed| committed.record))
    }

    /// As [`Escrows::record`], with the terms.
    ///
    /// # Errors
    /// [`Transient`], also when it commits to terms that nothing tells.
    pub async fn committed(
        &self,
        payment_id: &PaymentId,
        contract: Address,
        block: BlockRef,
    ) -> Result<Option<Committed>, Transient> {
        let Some((stored, _)) = self.stored(payment_id, contract, block).await? else { return Ok(None) };
        let terms = self.terms_of(payment_id, contract, &stored, block).await?;
        let record = self.read(payment_id, contract, &stored, &terms)?;
        Ok(record.map(|record| Committed { record, terms }))
    }

    /// The terms to which `stored` commits at `block`: those that are known here, or those that events tell.
    async fn terms_of(
        &self,
        payment_id: &PaymentId,
        contract: Address,
        stored: &Stored,
        block: BlockRef,
    ) -> Result<EscrowTerms, Transient> {
        let id = word(payment_id.on_chain());
        let known = self.node.known_terms();
        if let Some(terms) = known.get(stored.commitment).filter(|terms| terms.0.deposit.paymentId == id) {
            return Ok(terms);
        }
        let terms = Logs::of(self.node).terms(contract, id, stored, block).await?;
        known.keep(terms.clone());
        Ok(terms)
    }

    /// What the escrow stores of the payment at `block`, with its state; `None` when it knows nothing, or there is no contract.
    async fn stored(
        &self,
        payment_id: &PaymentId,
        contract: Address,
        block: BlockRef,
    ) -> Result<Option<(Stored, State)>, Transient> {
        let call = GatewayEscrow::recordOfCall { paymentId: word(payment_id.on_chain()) };
        let Some(stored) = Calls::of(self.node).view(contract, &call, At::Block(block)).await? else { return Ok(None) };
        match record::state(stored.state) {
            Ok(state) => Ok(state.map(|state| (stored, state))),
            Err(error) => Err(self.wrong(payment_id, contract, &error)),
        }
    }

    fn read(
        &self,
        payment_id: &PaymentId,
        contract: Address,
        stored: &Stored,
        terms: &EscrowTerms,
    ) -> Result<Option<EscrowRecord>, Transient> {
        let read = record::read(stored, terms, self.node.chain_id());
        read.map_err(|error| self.wrong(payment_id, contract, &error))
    }

    fn wrong(&self, payment_id: &PaymentId, contract: Address, error: &RecordError) -> Transient {
        self.node.contradiction(format!("the record of {payment_id} in {contract}: {error}"))
    }

    /// What the escrow has on record at the newest settled block, to somebody who knows all that it is to commit to. Events are
    /// asked for only where more was deposited than the quote asks for, or something else is reserved.
    ///
    /// # Errors
    /// [`Transient`].
    pub async fn quoted(&self, quoted: &QuotedEscrow<'_>) -> Result<(BlockRef, QuotedRecord), Transient> {
        let contract = address(&quoted.plan.contract)?;
        let block = self.node.settled().await?;
        let found = match self.stored(quoted.payment_id, contract, block).await? {
            None => QuotedRecord::Absent,
            Some((_, State::Deposited)) => QuotedRecord::Deposited,
            Some((stored, _)) => {
                // What fits no EVM chain is in none of its escrows.
                let may_be = deposit_call::quoted_terms(quoted).ok();
                let terms = may_be.into_iter().flatten().find(|terms| terms.commitment() == stored.commitment);
                match terms {
                    Some(terms) => {
                        let record = self.read(quoted.payment_id, contract, &stored, &terms)?;
                        self.node.known_terms().keep(terms);
                        record.into()
                    }
                    // More may be deposited than the quote asks for. Only its reserver lets anything in, and what a record commits
                    // to is looked for once.
                    None => {
                        let committed = self.terms_of(quoted.payment_id, contract, &stored, block).await?;
                        self.read(quoted.payment_id, contract, &stored, &committed)?.into()
                    }
                }
            }
        };
        Ok((block, found))
    }

    /// The terms with which the escrow at `contract` is called for the payment, by the newest block; terms that it refuses where
    /// nothing is there.
    ///
    /// # Errors
    /// [`Transient`], also when it commits to terms that nothing tells.
    pub async fn callable(&self, payment_id: &PaymentId, contract: Address) -> Result<EscrowTerms, Transient> {
        let head = self.node.head().await?;
        let found = self.committed(payment_id, contract, head).await?;
        Ok(found.map_or_else(|| EscrowTerms::unknown(word(payment_id.on_chain())), |committed| committed.terms))
    }

    /// Whether the contract at `contract` keeps records as they are read here; `None` where there is no contract. One that does not
    /// is no escrow, or one of another version, and nothing may go into it.
    ///
    /// # Errors
    /// [`Transient`].
    pub async fn is_readable(&self, contract: &Account) -> Result<Option<bool>, Transient> {
        let contract = address(contract)?;
        let head = At::Block(self.node.head().await?);
        let call = GatewayEscrow::recordOfCall { paymentId: B256::ZERO };
        let call = plain(Address::ZERO, contract, call.abi_encode());
        match Calls::of(self.node).call_foreign(&call, head, self.node.config().gas.call_max).await {
            Ok(returned) if returned.is_empty() => {
                Ok((!Query::of(self.node).code(contract, head).await?.is_empty()).then_some(false))
            }
            Ok(returned) => Ok(Some(GatewayEscrow::recordOfCall::abi_decode_returns(&returned).is_ok())),
            Err(CallError::Reverted(_)) => Ok(Some(false)),
            Err(CallError::Transient(fault)) => Err(fault),
        }
    }

    /// Whether the code at `contract` has a call that reassigns; `None` where there is no contract.
    ///
    /// # Errors
    /// [`Transient`].
    pub async fn has_reassignments(&self, contract: &Account) -> Result<Option<bool>, Transient> {
        let head = At::Block(self.node.head().await?);
        let code = Query::of(self.node).code(address(contract)?, head).await?;
        Ok((!code.is_empty()).then(|| artefacts::takes_reassignments(&code)))
    }

    /// Whether the code at `contract` has a call that deposits by a token's signed transfer; not where there is no contract.
    ///
    /// # Errors
    /// [`Transient`].
    pub async fn takes_transfers(&self, contract: &Account) -> Result<bool, Transient> {
        let head = At::Block(self.node.head().await?);
        let code = Query::of(self.node).code(address(contract)?, head).await?;
        Ok(artefacts::takes_transfers(&code))
    }

    /// The escrow at `contract` at the newest settled block.
    ///
    /// # Errors
    /// [`Transient`].
    pub async fn settled(&self, payment_id: &PaymentId, contract: &Account) -> Result<SettledEscrow, Transient> {
        let contract = address(contract)?;
        let block = self.node.settled().await?;
        let record = self.record(payment_id, contract, block).await?;
        Ok(SettledEscrow { block, record })
    }

    /// Where the escrow stands at the required depth; an escrow of somebody else under the same payment id is none.
    ///
    /// # Errors
    /// [`Transient`].
    pub async fn state(&self, payment_id: &PaymentId, plan: &EscrowPlan) -> Result<EscrowState, Transient> {
        let contract = address(&plan.contract)?;
        let SettledEscrow { block: settled, record } = self.settled(payment_id, &plan.contract).await?;
        let Some(record) = record.filter(|record| record.is_of(plan)) else { return Ok(EscrowState::Absent) };
        let (id, quote) = (word(payment_id.on_chain()), word(record.quote_hash));
        match record.state {
            // The escrow releases strictly before `refundAfter`, and later blocks are no earlier than this one.
            State::Deposited | State::Reserved if settled.time >= record.refund_after => Ok(EscrowState::Lapsed),
            State::Deposited | State::Reserved => Ok(EscrowState::Held),
            State::Released => {
                let found: Found<GatewayEscrow::Released> = Logs::of(self.node)
                    .find(contract, id, settled, |event: &GatewayEscrow::Released| event.quoteHash == quote)
                    .await?;
                Ok(EscrowState::Released(found.inclusion))
            }
            State::Refunded => {
                let found: Found<GatewayEscrow::Refunded> = Logs::of(self.node)
                    .find(contract, id, settled, |event: &GatewayEscrow::Refunded| account(event.payer) == record.payer)
                    .await?;
                let amount =
                    Amount::new(found.event.amount).ok_or_else(|| self.node.contradiction("a refund of nothing"))?;
                Ok(EscrowState::Refunded(EscrowRefunded { inclusion: found.inclusion, amount, claims: Vec::new() }))
            }
        }
    }

    /// The escrow of this plan at the newest settled block, whatever became of it, with the quote that it is reserved for; where no
    /// settler is named, only past the reserve deadline.
    ///
    /// # Errors
    /// [`Transient`].
    pub async fn found(&self, payment_id: &PaymentId, plan: &EscrowPlan) -> Result<Option<EscrowOpened>, Transient> {
        let contract = address(&plan.contract)?;
        let SettledEscrow { block: settled, record } = self.settled(payment_id, &plan.contract).await?;
        let Some(record) = record.filter(|record| record.is_of(plan)) else { return Ok(None) };
        let reserved_for = record.reserved_for();
        if reserved_for.is_none() && settled.time <= plan.reserve_deadline {
            return Ok(None);
        }
        let amount = record.deposited.ok_or_else(|| self.node.contradiction("an escrow of nothing"))?;
        // The contract takes one deposit for an id, ever.
        let found: Found<GatewayEscrow::Deposited> =
            Logs::of(self.node).find(contract, word(payment_id.on_chain()), settled, |_| true).await?;
        Ok(Some(EscrowOpened { inclusion: found.inclusion, amount, reserved_for }))
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
        let contract = address(&plan.contract)?;
        let logs = Logs::of(self.node).of_transaction(contract, end).await?;
        let found = claims::of_end(&logs, contract, word(payment_id.on_chain()), contracts::account);
        found.ok_or_else(|| self.node.contradiction(format!("{} does not end {payment_id}", end.transaction_hash)))
    }

    /// Whether `signature` is the releaser's statement, as the escrow would judge it at the newest block.
    ///
    /// # Errors
    /// [`Transient`].
    pub async fn attestation_holds(
        &self,
        statement: &Statement,
        plan: &EscrowPlan,
        signature: &str,
    ) -> Result<bool, Transient> {
        let contract = address(&plan.contract)?;
        let releaser = address(&plan.releaser)?;
        // A statement that names no account, or bytes that are not hex, are not the releaser's.
        let Ok(digest) = statement_digest(statement, self.node.evm_id(), contract, address) else { return Ok(false) };
        let Ok(bytes) = signature::bytes(signature) else { return Ok(false) };
        // A key's signature counts whatever code its account has.
        if signature::is_of_key(releaser, digest, &bytes)
            || verifier_set::holds(&plan.releaser, digest, signature, address)
        {
            return Ok(true);
        }
        let head = At::Block(self.node.head().await?);
        if Query::of(self.node).code(releaser, head).await?.is_empty() {
            return Ok(false);
        }
        Calls::of(self.node).contract_accepts(releaser, digest, &bytes, head).await
    }

    /// Whether `signature`, hex with 0x, is the statement signed by the key of `member`, as the escrow would judge it of a set's.
    /// No node is asked.
    pub fn signed_by(&self, statement: &Statement, plan: &EscrowPlan, member: &Account, signature: &str) -> bool {
        let (Ok(contract), Ok(member)) = (address(&plan.contract), address(member)) else { return false };
        verify_statement(member, statement, self.node.evm_id(), contract, signature)
    }
}
