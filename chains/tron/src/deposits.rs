//! Deposits: whether the payer's money is in escrow and reserved, and what proves that it is not and cannot be any more.

use alloy::primitives::B256;

use chains::escrow;
use escrow_abi::{
    contracts::{GatewayEscrow, time, units, word},
    record::EscrowTerms,
};
use events::{
    Account, Hash32, PaymentId,
    event::{Authorization, EscrowOpened, EscrowPlan, EscrowSecured, TransactionPrepared},
    mutant,
};
use sagas::ports::{DepositOrder, DepositState, ExpectedTerms, PayerDeposit, Transient};

use super::{
    address::{address, trc20},
    admitted_deposit::{self, admitted_until, is_admitted},
    agreement::agreement,
    deliveries::OrderError,
    escrows::{DatedRecord, Escrows, SettledEscrow},
    node::{Node, State},
    search::{EventSearch, SearchScope},
    transaction_status::{TransactionStatus, Transactions, id_of},
};

/// The deposits on one chain.
#[derive(Debug, Clone, Copy)]
pub(super) struct Deposits<'a> {
    node: &'a Node,
}

impl<'a> Deposits<'a> {
    /// The deposits on the chain of `node`.
    pub fn of(node: &'a Node) -> Self {
        Self { node }
    }

    /// Where a prepared reservation stands, of whose `versions` any may have landed, and the payer's deposit with it. See
    /// [`DepositState`].
    ///
    /// # Errors
    /// [`Transient`].
    pub async fn state(
        &self,
        order: &DepositOrder,
        versions: &[TransactionPrepared],
    ) -> Result<DepositState, Transient> {
        self.expect(&order.expected_terms());
        let found = self.settled(&order.payment_id, &order.escrow).await?;
        if let Some(record) = found.record.as_ref().filter(|record| is_of_order(record, order)) {
            return self.reserved(order, record, versions).await.map(DepositState::Secured);
        }
        if found.unsettled {
            return Ok(DepositState::Pending);
        }
        if found.time > order.escrow.reserve_deadline {
            let payer_deposit = order.payer_deposit();
            // Beside a deposit of the gateway's its payer may make one of its own, which is its own to take back.
            let is_ours = is_admitted(&order.authorization);
            return match found.record.filter(|record| !is_ours && is_stranded(record, &payer_deposit)) {
                Some(record) => self.opened(&payer_deposit, &record).await.map(DepositState::Stranded),
                None => Ok(DepositState::Expired {
                    evidence: format!(
                        "solidified block {} {} of {} has time {}, past the reserve deadline {}, and no deposit of \
                         the order's in escrow",
                        found.settled.number,
                        found.settled.id,
                        self.node.chain_id(),
                        found.time,
                        order.escrow.reserve_deadline
                    ),
                }),
            };
        }
        // Until the admission ends a copy of the call may still take effect, sent by anyone.
        if admitted_until(order, versions).is_some_and(|until| found.time <= until) {
            return Ok(DepositState::Pending);
        }
        // The record is no older than the solidified block: what had its effect up to there would be seen in it.
        match Transactions::of(self.node).status(versions, &found.settled).await? {
            TransactionStatus::Landed(info) => Err(self.node.contradiction(format!(
                "the reservation is in solidified block {}, and nothing is reserved at block {}",
                info.block_number, found.settled.number
            ))),
            // A deposit of the gateway's that failed would fail again, as one on an EVM chain.
            TransactionStatus::Failed { evidence } if is_admitted(&order.authorization) => {
                let contract = admitted_deposit::called(order)?;
                Ok(DepositState::Reverted(Box::new(self.node.refusal(contract, evidence))))
            }
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
    pub async fn secured(&self, order: &DepositOrder) -> Result<Option<EscrowSecured>, Transient> {
        self.expect(&order.expected_terms());
        let found = self.settled(&order.payment_id, &order.escrow).await?;
        match found.record.filter(|record| is_of_order(record, order)) {
            Some(record) => self.reserved(order, &record, &[]).await.map(Some),
            None => Ok(None),
        }
    }

    /// What is under the payment's id and windows, as of a solidified block past the reserve deadline, and can be paid to no
    /// settler; `None` while that is not so. It may be refunded already.
    ///
    /// # Errors
    /// [`Transient`].
    pub async fn stranded(&self, deposit: &PayerDeposit) -> Result<Option<EscrowOpened>, Transient> {
        let found = self.settled(&deposit.payment_id, &deposit.escrow).await?;
        if found.time <= deposit.escrow.reserve_deadline {
            return Ok(None);
        }
        match found.record.filter(|record| is_stranded(record, deposit)) {
            Some(record) => self.opened(deposit, &record).await.map(Some),
            None => Ok(None),
        }
    }

    /// The escrow under the payment's id and windows as of a solidified block, whatever became of it, with the quote that it is
    /// reserved for; where nobody is named, only past the reserve deadline, and only of a payer whose own transaction deposits.
    ///
    /// # Errors
    /// [`Transient`].
    pub async fn found(&self, deposit: &PayerDeposit) -> Result<Option<EscrowOpened>, Transient> {
        let found = self.settled(&deposit.payment_id, &deposit.escrow).await?;
        let Some(record) = found.record.filter(|record| record.escrow.is_of(&deposit.escrow)) else { return Ok(None) };
        let reserved_for = record.escrow.reserved_for();
        let is_kept = !is_admitted(&deposit.authorization) && found.time > deposit.escrow.reserve_deadline;
        if reserved_for.is_none() && !is_kept {
            return Ok(None);
        }
        let opened = self.opened(deposit, &record).await?;
        Ok(Some(EscrowOpened { reserved_for, ..opened }))
    }

    /// See [`sagas::ports::Chains::payer_has_escrow`].
    ///
    /// # Errors
    /// [`Transient`].
    pub async fn has_of(
        &self,
        payment_id: &PaymentId,
        plan: &EscrowPlan,
        payer: &Account,
    ) -> Result<(bool, u64), Transient> {
        let found = self.settled(payment_id, plan).await?;
        if found.unsettled {
            return Err(Transient::unreachable("an escrow of the payment is not solidified yet"));
        }
        Ok((found.record.is_some_and(|record| record.escrow.payer.as_ref() == Some(payer)), found.time))
    }

    /// Whether a solidified block is later than the UNIX second `after` and has no escrow of this plan for the payment.
    ///
    /// # Errors
    /// [`Transient`].
    pub async fn ruled_out(&self, payment_id: &PaymentId, plan: &EscrowPlan, after: u64) -> Result<bool, Transient> {
        let found = self.settled(payment_id, plan).await?;
        if found.unsettled || found.time <= after && !mutant!("ruled-out-ahead-of-its-time") {
            return Ok(false);
        }
        Ok(!found.record.is_some_and(|record| record.escrow.is_of(plan)))
    }

    /// Keeps the terms that the escrow of a payment commits to before and after the reservation, so that no event has to tell
    /// them. What fits no Tron chain has none.
    pub fn expect(&self, expected: &ExpectedTerms<'_>) {
        for terms in terms(expected).into_iter().flatten() {
            self.node.known_terms().keep(terms);
        }
    }

    /// See [`sagas::ports::Chains::deposit_forestalled`].
    ///
    /// # Errors
    /// [`Transient`].
    pub async fn forestalled(&self, deposit: &PayerDeposit) -> Result<bool, Transient> {
        if !is_admitted(&deposit.authorization) {
            return Ok(false);
        }
        let found = self.settled(&deposit.payment_id, &deposit.escrow).await?;
        // Without a word of the reserver's, which nobody asks for here, it stays so.
        Ok(found.record.is_some_and(|record| record.reserved_at.is_none()))
    }

    async fn settled(&self, payment_id: &PaymentId, plan: &EscrowPlan) -> Result<SettledEscrow, Transient> {
        Escrows::of(self.node).settled(payment_id, &plan.contract).await
    }

    /// Any of `versions` may be the reservation.
    async fn reserved(
        &self,
        order: &DepositOrder,
        record: &DatedRecord,
        versions: &[TransactionPrepared],
    ) -> Result<EscrowSecured, Transient> {
        let contract = address(&order.escrow.contract)?;
        let settler = address(&order.reservation.payout_account)?;
        let reserved = record.reserved_at.ok_or_else(|| self.node.contradiction("a reservation in no block"))?;
        let deposit = match is_admitted(&order.authorization) {
            // In the same transaction.
            true => None,
            // The reservation does not say what was deposited, nor whose; the deposit's own event does.
            false => Some(Box::new(self.opened(&order.payer_deposit(), record).await?.inclusion)),
        };
        let amount = record.escrow.deposited.ok_or_else(|| self.node.contradiction("an escrow of nothing"))?;
        let known = versions.iter().map(id_of).collect::<Result<Vec<_>, _>>()?;
        let payment = word(order.payment_id.on_chain());
        let scope = SearchScope { contract, number: reserved, state: State::Solidified, payment, known: &known };
        let found = EventSearch::of(self.node)
            .find(&scope, |event: &GatewayEscrow::Reserved| {
                event.paymentId == payment
                    && event.quoteHash == word(order.reservation.quote_hash)
                    && event.settler == settler
                    && event.sourceAmount == units(order.reservation.source_amount)
            })
            .await?;
        Ok(EscrowSecured { inclusion: found.inclusion, amount, deposit })
    }

    /// The deposit of a record: the event must tell the very terms.
    async fn opened(&self, deposit: &PayerDeposit, record: &DatedRecord) -> Result<EscrowOpened, Transient> {
        let contract = address(&deposit.escrow.contract)?;
        let amount = record.escrow.deposited.ok_or_else(|| self.node.contradiction("an escrow of nothing"))?;
        let payment = word(deposit.payment_id.on_chain());
        let known = payer_deposit_id(&deposit.authorization);
        let scope = SearchScope {
            contract,
            number: record.deposited_at,
            state: State::Solidified,
            payment,
            known: known.as_slice(),
        };
        let made = record.terms.clone().unreserved();
        let reserved_at_once = is_admitted(&deposit.authorization);
        let is = |event: &GatewayEscrow::Deposited| match reserved_at_once {
            true => made.are_told_by_reserved(event),
            false => made.are_told_by(event),
        };
        let found = EventSearch::of(self.node).find(&scope, is).await?;
        Ok(EscrowOpened { inclusion: found.inclusion, amount, reserved_for: None })
    }
}

/// The terms of a payment's escrow before the reservation, and after it where there is an award; none when the payer signed for
/// another family.
fn terms(expected: &ExpectedTerms<'_>) -> Result<Vec<EscrowTerms>, OrderError> {
    let ExpectedTerms { payment_id, terms, terms_hash, escrow, authorization, reservation, deposited } = expected;
    let (agreed, permitted) = match authorization {
        Authorization::Tron(spend) => (spend.quote_hash, Some(spend.amount)),
        Authorization::TronPermit2Escrow(permit) => (permit.quote_hash, None),
        Authorization::DepositAddress(_) => (Hash32::ZERO, None),
        _ => return Ok(Vec::new()),
    };
    let source = &terms.source;
    let deposit = agreement(payment_id, source.account(), *terms_hash, agreed, escrow)?;
    // In a call that reserves at once what the reservation asks for is deposited, unless more is.
    let amount = deposited.or(permitted).or(reservation.as_ref().map(|award| award.source_amount));
    let Some(amount) = amount.map(units) else { return Ok(Vec::new()) };
    let deposited = EscrowTerms::deposited(&deposit, trc20(source.asset())?, amount);
    let Some(award) = reservation else { return Ok(vec![deposited]) };
    let (quote, settler) = (word(award.quote_hash), address(&award.payout_account)?);
    let reserved = deposited.clone().reserved(quote, settler, units(award.source_amount), time(award.fulfill_by)?);
    Ok(vec![deposited, reserved])
}

/// The id of the payer deposit. Its wallet may have brought another with the same call.
pub(super) fn payer_deposit_id(authorization: &Authorization) -> Option<B256> {
    match authorization {
        Authorization::Tron(spend) => spend.deposit.transaction_hash.parse().ok(),
        _ => None,
    }
}

/// Whether the record is this payment's money, reserved under this quote, whatever has become of it since.
fn is_of_order(record: &DatedRecord, order: &DepositOrder) -> bool {
    let reservation = &order.reservation;
    record.reserved_at.is_some()
        && record.is_deposit_of(&order.terms.source, order.terms_hash, &order.escrow)
        && record.escrow.quote_hash == reservation.quote_hash
        && record.escrow.settler.as_ref() == Some(&reservation.payout_account)
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
