//! An auditor's view of a Solana chain: transactions with what they moved, and the program's accounts, are read from the
//! node and compared with the stream, field by field.

mod deposit;
mod deposit_address;
mod parties;
mod prepared;
mod purchase;

use std::fmt::Display;

use async_trait::async_trait;
use ed25519_dalek::{Signature, VerifyingKey};

use chains::{
    auditor::{self, Audit, Case, Discrepancies, Discrepancy, EscrowSnapshot, Kind},
    config::CommonConfig,
};
use events::{
    Account, Amount, Hash32, PaymentId, Terms,
    event::{Authorization, Claim, EscrowOpened, EscrowPlan, EscrowRefunded, EscrowSecured, Inclusion},
    time::unix_seconds,
};
use gateway_program::{
    Hash, ed25519,
    host::Message,
    instruction::{Attested, Fulfill, Reassign, Tag},
    message::{Delivery, NonDelivery},
    rules,
};
use sagas::ports::{EscrowState, PayerDeposit, Statement, Transient};

pub use self::prepared::check_prepared;
use self::{
    deposit::{Deposited, same_terms},
    parties::{Parties, deposit_of, parties_and_amounts},
};
use super::{
    deliveries::Deliveries,
    escrows::Escrows,
    evidence::{Effect, Evidence},
    history::History,
    node::{Commitment, Node},
    program::{base58, fulfillment, key, signature_bytes, text},
    transaction_status::Transactions,
};

/// A chain that an auditor asks.
#[derive(Debug, Clone)]
pub struct Auditor {
    node: Node,
}

impl Auditor {
    /// The chain of `node`.
    pub fn new(node: Node) -> Self {
        Self { node }
    }
}

fn unreadable(error: impl Display) -> Vec<Discrepancy> {
    auditor::unreadable("Solana", error)
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
            Authorization::Solana(spend) => spend,
            Authorization::DepositAddress(recorded) => {
                return Ok(deposit_address::given(payment_id, terms, plan, recorded));
            }
            Authorization::SolanaX402Exact(recorded) => {
                return Ok(purchase::signed(payment_id, terms, plan, recorded));
            }
            _ => return Ok(unreadable("the payer signed for another family")),
        };
        let mut discrepancies = Discrepancies::default();
        if let Some(cap) = terms.max_source_amount {
            discrepancies
                .require(cap == spend.amount, || format!("the payer permits {}, the terms say {cap}", spend.amount));
        }
        let rebuilt = deposit_of(payment_id, terms, plan, spend)
            .and_then(|deposit| Ok((deposit, key(&plan.contract)?, key(&spend.signer)?)));
        let (deposit, program, signer) = match rebuilt {
            Ok(rebuilt) => rebuilt,
            Err(error) => return Ok(unreadable(error)),
        };
        let holds = || {
            let signature = Signature::from_bytes(&signature_bytes(&spend.signature)?);
            let signer = VerifyingKey::from_bytes(&signer).ok()?;
            signer.verify_strict(&deposit.digest(&self.node.domain(&program)), &signature).ok()
        };
        discrepancies.require(holds().is_some(), || {
            format!("the spend that the stream shows was not signed by {}", spend.signer)
        });
        Ok(discrepancies.0)
    }

    async fn audit_deposit(&self, case: &Case<'_>, secured: &EscrowSecured) -> Result<Vec<Discrepancy>, Transient> {
        let mut discrepancies = Discrepancies::default();
        let Some(evidence) = self.executed_as(&secured.inclusion, &mut discrepancies).await? else {
            return Ok(discrepancies.0);
        };
        let parties = match Parties::of(case) {
            Ok(parties) => parties,
            Err(error) => return Ok(unreadable(error)),
        };
        let made = match case.authorization {
            Authorization::DepositAddress(recorded) => {
                let found = (&evidence, secured);
                deposit_address::deposited(case, &parties, recorded, found, &mut discrepancies)
            }
            Authorization::SolanaX402Exact(recorded) => {
                purchase::deposited(case, &parties, recorded, &evidence, &mut discrepancies)
            }
            _ => self.signed_deposit(case, &parties, &evidence, secured, &mut discrepancies),
        };
        let Some(Deposited { effect, deposit, due }) = made else {
            let place = &secured.inclusion.transaction_hash;
            discrepancies.add(Kind::Missing, format!("{place} made no deposit and reservation for the payment"));
            return Ok(discrepancies.0);
        };
        discrepancies.same("the amount deposited", secured.amount.to_string(), due.to_string());
        same_terms(case, &parties, (&effect, &deposit), &mut discrepancies);
        let from_account = effect.account(5);
        let taken = effect.tokens_moved(|from, to| *from == from_account && *to == parties.vault);
        discrepancies.require(taken == due, || format!("{taken} were taken for a deposit of {due}"));
        // Strangers may add to a vault, and end the escrow in the same transaction.
        let (before, after) = evidence.token_balance(&parties.vault);
        let is_there = after.checked_sub(before).is_some_and(|gained| gained >= due);
        let has_ended = evidence.end_of(&parties, &[Tag::Release, Tag::Cancel, Tag::Refund]).is_some();
        discrepancies.require(is_there || has_ended, || {
            format!("the vault went from {before} to {after} for a deposit of {due}")
        });
        discrepancies.require(evidence.time <= case.plan.reserve_deadline, || {
            let (time, deadline) = (evidence.time, case.plan.reserve_deadline);
            format!("the deposit came at {time}, after the reserve deadline {deadline}")
        });
        Ok(discrepancies.0)
    }

    async fn audit_given_back(
        &self,
        deposit: &PayerDeposit,
        refunded: &EscrowRefunded,
    ) -> Result<Vec<Discrepancy>, Transient> {
        match deposit.authorization.purchase() {
            Some(recorded) => self.collected(deposit, recorded, refunded).await,
            None => self.came_back(deposit, refunded).await,
        }
    }

    async fn audit_reassignment(
        &self,
        case: &Case<'_>,
        reassignment: &auditor::Reassignment<'_>,
    ) -> Result<Vec<Discrepancy>, Transient> {
        let mut discrepancies = Discrepancies::default();
        let place = reassignment.inclusion;
        let Some(evidence) = self.executed_as(place, &mut discrepancies).await? else { return Ok(discrepancies.0) };
        let parties = match Parties::of(case) {
            Ok(parties) => parties,
            Err(error) => return Ok(unreadable(error)),
        };
        let effect = evidence.reassignment_of(&parties);
        let read =
            effect.as_ref().and_then(|effect| Reassign::with_word(&effect.call.data).ok().map(|read| (effect, read)));
        let Some((effect, (reassign, word))) = read else {
            discrepancies.add(Kind::Missing, format!("{} reassigned nothing of the payment", place.transaction_hash));
            return Ok(discrepancies.0);
        };
        let (before, after) = (Hash32(reassign.previous_quote_hash), Hash32(reassign.quote_hash));
        discrepancies.same("the quote before the reassignment", reassignment.previous, before);
        discrepancies.same("the quote of the reassignment", case.quote_hash, after);
        discrepancies.same("the account that is to be paid", text(&parties.payout), text(&reassign.settler));
        let (stream, chain) = (case.quote.source_amount.to_string(), reassign.source_amount.to_string());
        discrepancies.same("the amount of the reassignment", stream, chain);
        let fulfill_by = unix_seconds(case.quote.fulfill_by);
        discrepancies.same("the time of delivery in the reassignment", fulfill_by, reassign.fulfill_by);
        discrepancies.same(
            "the reserver of the reassignment",
            case.plan.reserver.to_string(),
            text(&effect.account(0)),
        );
        discrepancies.reassigned_in_time(evidence.time, case, reassignment);
        let non_delivery = NonDelivery { payment_id: parties.id, quote_hash: reassign.previous_quote_hash };
        let digest = non_delivery.digest(&self.node.domain(&parties.program));
        discrepancies.require(is_word_of(&case.plan.releaser, &evidence, &word, &digest), || {
            let releaser = &case.plan.releaser;
            format!("what reassigned the escrow is not the word of the releaser {releaser} about the quote before")
        });
        Ok(discrepancies.0)
    }

    async fn audit_delivery(&self, case: &Case<'_>, inclusion: &Inclusion) -> Result<Vec<Discrepancy>, Transient> {
        let mut discrepancies = Discrepancies::default();
        let Some(evidence) = self.executed_as(inclusion, &mut discrepancies).await? else { return Ok(discrepancies.0) };
        let order = case.delivery();
        let (wanted, program) = match fulfillment(&order).and_then(|wanted| Ok((wanted, key(&order.proxy)?))) {
            Ok(wanted) => wanted,
            Err(error) => return Ok(unreadable(error)),
        };
        let data = Fulfill {
            payment_id: wanted.payment_id,
            quote_hash: wanted.quote_hash,
            amount: wanted.amount,
            fulfill_by: wanted.fulfill_by,
            recipient: wanted.recipient,
            mint: wanted.mint,
        };
        let found: Vec<(Effect, Fulfill)> = evidence
            .effects(&program)
            .into_iter()
            .filter_map(|effect| Fulfill::from_bytes(&effect.call.data).map(|fulfill| (effect, fulfill)))
            .collect();
        let is_wanted = |(effect, fulfill): &&(Effect, Fulfill)| {
            *fulfill == data && effect.call.accounts.first() == Some(&wanted.settler)
        };
        let Some((effect, _)) = found.iter().find(is_wanted) else {
            let place = &inclusion.transaction_hash;
            let what = format!("{place} is not a delivery of {} under the quote", case.quote.fulfillment_amount);
            discrepancies.add(if found.is_empty() { Kind::Missing } else { Kind::Contradiction }, what);
            return Ok(discrepancies.0);
        };
        let delivered = effect.delivered(&wanted);
        discrepancies.require(delivered == wanted.amount, || {
            format!("{delivered} reached the recipient in a delivery of {}", wanted.amount)
        });
        let deliveries = Deliveries::of(&self.node);
        let found = deliveries.record(&wanted, &program, Commitment::Confirmed, evidence.slot).await?;
        match found.record {
            Some(record) => {
                discrepancies.same("the slot in the record of the delivery", inclusion.block_number, record.slot)
            }
            // The settler may close the record long after the delivery, and the transaction is proof enough.
            None if found.time >= rules::reclaim_from(wanted.fulfill_by) => {}
            None => discrepancies.add(Kind::Missing, "the program has no record of the delivery".to_owned()),
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
        let Some(evidence) = self.executed_as(inclusion, &mut discrepancies).await? else { return Ok(discrepancies.0) };
        let (parties, due, deposited) = match parties_and_amounts(case, deposited) {
            Ok(known) => known,
            Err(error) => return Ok(unreadable(error)),
        };
        let Some((_, effect)) = evidence.end_of(&parties, &[Tag::Release]) else {
            discrepancies
                .add(Kind::Missing, format!("{} released nothing for the payment", inclusion.transaction_hash));
            return Ok(discrepancies.0);
        };
        let delivery = Delivery { payment_id: parties.id, quote_hash: case.quote_hash.0, settler: parties.payout };
        self.attested(
            case,
            &evidence,
            &effect,
            &delivery.digest(&self.node.domain(&parties.program)),
            &mut discrepancies,
        );
        // An end pays all that lies in the vault, and strangers may have added to that.
        let paid = effect.paid(&parties, &parties.payout);
        discrepancies.require(paid >= due, || format!("{due} were due to the settler and it was paid {paid}"));
        let is_closed = effect.closed(&parties.vault);
        let left = if is_closed { 0 } else { evidence.left_for_payer(&parties) };
        let out = effect.tokens_moved(|from, _| *from == parties.vault).saturating_add(left);
        discrepancies.require(out >= deposited, || format!("{deposited} went into the escrow and {out} came out"));
        discrepancies.require(is_closed || due < deposited, || "something stayed in the vault".to_owned());
        discrepancies.require(evidence.time < case.plan.refund_after, || {
            let (time, window) = (evidence.time, case.plan.refund_after);
            format!("the release came at {time}, inside the refund window from {window}")
        });
        Ok(discrepancies.0)
    }

    async fn audit_refund(
        &self,
        case: &Case<'_>,
        refunded: &EscrowRefunded,
        deposited: Amount,
    ) -> Result<Vec<Discrepancy>, Transient> {
        let mut discrepancies = Discrepancies::default();
        let Some(evidence) = self.executed_as(&refunded.inclusion, &mut discrepancies).await? else {
            return Ok(discrepancies.0);
        };
        discrepancies.require(refunded.amount == deposited, || {
            format!("{deposited} went into the escrow and {} came back", refunded.amount)
        });
        let (parties, _, due) = match parties_and_amounts(case, refunded.amount) {
            Ok(known) => known,
            Err(error) => return Ok(unreadable(error)),
        };
        let Some((tag, effect)) = evidence.end_of(&parties, &[Tag::Cancel, Tag::Refund]) else {
            discrepancies.add(Kind::Missing, format!("{} refunded nothing", refunded.inclusion.transaction_hash));
            return Ok(discrepancies.0);
        };
        if tag == Tag::Cancel {
            let non_delivery = NonDelivery { payment_id: parties.id, quote_hash: case.quote_hash.0 };
            self.attested(
                case,
                &evidence,
                &effect,
                &non_delivery.digest(&self.node.domain(&parties.program)),
                &mut discrepancies,
            );
        }
        let back = effect.paid(&parties, &parties.payer);
        discrepancies.require(back >= due, || format!("{due} were due to the payer and {back} came back"));
        let out = effect.tokens_moved(|from, _| *from == parties.vault);
        discrepancies.require(out >= due, || format!("{due} were due from the escrow and {out} left it"));
        discrepancies.require(effect.closed(&parties.vault), || "something stayed in the vault".to_owned());
        Ok(discrepancies.0)
    }

    async fn audit_escrow(
        &self,
        payment_id: &PaymentId,
        plan: &EscrowPlan,
        case: Option<&Case<'_>>,
    ) -> Result<(EscrowSnapshot, Vec<Discrepancy>), Transient> {
        let mut discrepancies = Discrepancies::default();
        let program = key(&plan.contract)?;
        let escrows = Escrows::of(&self.node);
        let found = escrows.settled(payment_id, &program).await?;
        let record = found.record.map(|record| escrows.to_record(&record)).transpose()?;
        if let (Some(record), Some(case)) = (&record, case) {
            discrepancies.committed(case, record);
        }
        let record = record.filter(|record| record.is_of(plan));
        let (state, reserved_for) =
            (record.as_ref().map(|record| record.state), record.and_then(|record| record.reserved_for()));
        let (settled_number, settled_time) = (found.settled.slot, found.time);
        Ok((EscrowSnapshot { state, reserved_for, settled_number, settled_time }, discrepancies.0))
    }

    async fn claims(
        &self,
        payment_id: &PaymentId,
        plan: &EscrowPlan,
        _end: &Inclusion,
    ) -> Result<Vec<Claim>, Transient> {
        Escrows::of(&self.node).claims(payment_id, plan).await
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
        Transactions::of(&self.node).escrow_found(&deposit.payment_id, &deposit.escrow).await
    }
}

impl Auditor {
    /// Checks that the end of the escrow was brought about by the releaser's word over `digest`.
    fn attested(
        &self,
        case: &Case<'_>,
        evidence: &Evidence,
        effect: &Effect,
        digest: &Hash,
        discrepancies: &mut Discrepancies,
    ) {
        let word = effect.call.data.get(1..).and_then(|word| Attested::from_bytes(word).ok());
        let holds = word.is_some_and(|word| is_word_of(&case.plan.releaser, evidence, &word, digest));
        discrepancies.require(holds, || {
            format!("what ended the escrow is not the word of the releaser {} about this quote", case.plan.releaser)
        });
    }

    /// The claimed transaction, when it is on the chain in the block that was claimed.
    async fn executed_as(
        &self,
        inclusion: &Inclusion,
        discrepancies: &mut Discrepancies,
    ) -> Result<Option<Evidence>, Transient> {
        let place = &inclusion.transaction_hash;
        let is_signature = base58::<64>(place).is_some();
        if !is_signature {
            discrepancies.add(Kind::Contradiction, format!("{place} is not a transaction hash"));
            return Ok(None);
        }
        let found = History::of(&self.node).evidence(place, Commitment::Confirmed).await?;
        let Some((evidence, hash)) = found else {
            discrepancies.add(Kind::Missing, format!("transaction {place} is not on {}", self.node.chain_id()));
            return Ok(None);
        };
        discrepancies.same(&format!("the slot of {place}"), inclusion.block_number, evidence.slot);
        discrepancies.same(&format!("the block hash of {place}"), inclusion.block_hash.clone(), hash);
        discrepancies.same(&format!("the block time of {place}"), inclusion.block_time, evidence.time);
        if let Some(error) = &evidence.error {
            discrepancies.add(Kind::Contradiction, format!("transaction {place} failed: {error}"));
            return Ok(None);
        }
        Ok(Some(evidence))
    }
}

/// Whether what was brought proves the word of `releaser` over `digest`, by the instruction of the precompile that it names.
fn is_word_of(releaser: &Account, evidence: &Evidence, word: &Attested<'_>, digest: &Hash) -> bool {
    let holds = || {
        let presented = evidence.ed25519(word.ed25519_index)?;
        let releaser = key(releaser).ok()?;
        match word.set {
            None => ed25519::check(presented, &releaser, digest).ok(),
            Some(set) if set.id() == releaser => ed25519::check_set(presented, &set, digest).ok(),
            Some(_) => None,
        }
    };
    holds().is_some()
}
