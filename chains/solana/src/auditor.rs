//! An auditor's view of a Solana chain: transactions with what they moved, and the program's accounts, are read from the
//! node and compared with the stream, field by field.

use std::fmt::Display;

use async_trait::async_trait;
use ed25519_dalek::{Signature, VerifyingKey};
use serde::Deserialize;
use serde_json::json;

use chains::{
    auditor::{self, Audit, Case, Discrepancies, Discrepancy, EscrowSnapshot, Kind},
    config::ChainConfig,
};
use events::{
    Amount, Hash32, PaymentId, Terms,
    event::{Authorization, EscrowPlan, EscrowRefunded, EscrowSecured, Inclusion, SolanaSpend, TransactionPrepared},
    time::unix_seconds,
};
use gateway_program::{
    Hash, Key, ZERO_KEY, ed25519,
    host::{Message, associated_token_address, escrow_address, vault_address},
    instruction::{Attested, DepositAndReserve, Fulfill, Tag},
    message::{Delivery, Deposit, NonDelivery},
    rules,
};
use sagas::ports::{EscrowState, Statement, Transient};

use super::{
    evidence::{Effect, Evidence, Told},
    node::{Commitment, Node},
    program::{ConvertError, fulfillment, key, mint, text, units},
    reads::{neutral, signature_bytes, unusable},
    transaction::wire_of,
};

#[derive(Deserialize)]
struct Block {
    blockhash: String,
}

fn unreadable(error: impl Display) -> Vec<Discrepancy> {
    auditor::unreadable("Solana", error)
}

/// A journaled transaction must be the one whose first signature was journaled with it, signed by its fee payer; otherwise
/// the reason.
///
/// # Errors
/// What is wrong.
pub fn check_prepared(transaction: &TransactionPrepared) -> Result<(), String> {
    let raw = wire_of(&transaction.raw).ok_or("its bytes are no hex")?;
    let (signature, fee_payer, message) = wire(&raw).ok_or("its bytes are no transaction")?;
    let found = bs58::encode(signature).into_string();
    if found != transaction.transaction_hash {
        return Err(format!("its first signature is {found}, not {}", transaction.transaction_hash));
    }
    let sender = text(&fee_payer);
    if sender != transaction.sender {
        return Err(format!("its fee payer is {sender}, not {}", transaction.sender));
    }
    let holds = VerifyingKey::from_bytes(&fee_payer)
        .is_ok_and(|fee_payer| fee_payer.verify_strict(message, &Signature::from_bytes(&signature)).is_ok());
    if holds { Ok(()) } else { Err(format!("its first signature is not that of {sender}")) }
}

/// The first signature of a transaction's wire form, its fee payer, and the message that both are about.
fn wire(raw: &[u8]) -> Option<([u8; 64], Key, &[u8])> {
    let (signatures, rest) = short_length(raw)?;
    let signature = rest.get(..64)?.try_into().ok()?;
    let message = rest.get(signatures.checked_mul(64)?..)?;
    // A versioned message begins with its version, its highest bit set; then come three counts and the keys.
    let after_version = if message.first()? & 0x80 == 0 { message } else { &message[1..] };
    let (keys, rest) = short_length(after_version.get(3..)?)?;
    let fee_payer = rest.get(..32)?.try_into().ok()?;
    (signatures > 0 && keys > 0).then_some((signature, fee_payer, message))
}

/// A length of one to three bytes, 7 bits each, lowest first; and what comes behind it.
fn short_length(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let mut length = 0;
    for place in 0..3 {
        let byte = *bytes.get(place)?;
        length |= usize::from(byte & 0x7f) << (7 * place);
        if byte & 0x80 == 0 {
            return Some((length, &bytes[place + 1..]));
        }
    }
    None
}

/// The accounts of a case on its source chain.
struct Parties {
    program: Key,
    id: Hash,
    escrow: Key,
    vault: Key,
    payer: Key,
    mint: Key,
    payout: Key,
}

impl Parties {
    fn of(case: &Case<'_>) -> Result<Self, ConvertError> {
        let program = key(&case.plan.contract)?;
        let id = case.payment_id.on_chain().0;
        Ok(Self {
            program,
            id,
            escrow: escrow_address(&program, &id).key,
            vault: vault_address(&program, &id).key,
            payer: key(case.terms.source.account().as_str())?,
            mint: mint(case.terms.source.asset())?,
            payout: key(&case.quote.payout_account)?,
        })
    }
}

/// The terms that the payer must have signed, rebuilt from the stream.
fn deposit_of(
    payment_id: &PaymentId,
    terms: &Terms,
    plan: &EscrowPlan,
    spend: &SolanaSpend,
) -> Result<Deposit, ConvertError> {
    Ok(Deposit {
        payment_id: payment_id.on_chain().0,
        terms_hash: terms.hash().0,
        quote_hash: spend.quote_hash.0,
        payer: key(terms.source.account().as_str())?,
        mint: mint(terms.source.asset())?,
        amount: units(spend.amount)?,
        reserver: key(&plan.reserver)?,
        releaser: key(&plan.releaser)?,
        reserve_deadline: plan.reserve_deadline,
        fulfillment_deadline: plan.fulfillment_deadline,
        refund_after: plan.refund_after,
    })
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
        let Authorization::Solana(spend) = authorization else {
            return Ok(unreadable("the payer signed for another family"));
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
            signer.verify_strict(&deposit.digest(&self.domain(&program)), &signature).ok()
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
        let source_amount = case.quote.source_amount;
        discrepancies.same("the amount in escrow", secured.amount, source_amount);
        let deposits = evidence.effects(&parties.program).into_iter().filter_map(|effect| {
            let deposit = DepositAndReserve::from_bytes(&effect.call.data)?;
            (deposit.payment_id == parties.id).then_some((effect, deposit))
        });
        let Some((effect, deposit)) = deposits.into_iter().next() else {
            let place = &secured.inclusion.transaction_hash;
            discrepancies.add(Kind::Missing, format!("{place} made no deposit and reservation for the payment"));
            return Ok(discrepancies.0);
        };
        let account = |index: usize| effect.call.accounts.get(index).copied().unwrap_or(ZERO_KEY);
        let (reserver, payer_token, token) = (account(1), account(5), account(7));
        discrepancies.same("the amount deposited", secured.amount.to_string(), deposit.source_amount.to_string());
        discrepancies.same("the payer", text(&parties.payer), text(&deposit.payer));
        discrepancies.same("the token", text(&parties.mint), text(&token));
        discrepancies.same("the terms' hash in the deposit", case.terms.hash(), Hash32(deposit.terms_hash));
        discrepancies.same("the quote's hash in the reservation", case.quote_hash, Hash32(deposit.quote_hash));
        discrepancies.same("the account that is to be paid", text(&parties.payout), text(&deposit.settler));
        let fulfill_by = unix_seconds(case.quote.fulfill_by);
        discrepancies.same("the time of delivery in the reservation", fulfill_by, deposit.fulfill_by);
        discrepancies.same("the reserver in the deposit", case.plan.reserver.clone(), text(&reserver));
        discrepancies.same("the releaser in the deposit", case.plan.releaser.clone(), text(&deposit.releaser));
        discrepancies.same("the reserve deadline in the deposit", case.plan.reserve_deadline, deposit.reserve_deadline);
        let (stream, chain) = (case.plan.fulfillment_deadline, deposit.fulfillment_deadline);
        discrepancies.same("the fulfillment deadline in the deposit", stream, chain);
        discrepancies.same(
            "the begin of the refund window in the deposit",
            case.plan.refund_after,
            deposit.refund_after,
        );
        self.presented(case, &evidence, &deposit, &parties, &mut discrepancies);

        let due = deposit.source_amount;
        let taken = effect.tokens_moved(|from, to| *from == payer_token && *to == parties.vault);
        discrepancies.require(taken == due, || format!("{taken} were taken from the payer for a deposit of {due}"));
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
            let what = format!("{place} is no delivery of {} under the quote", case.quote.fulfillment_amount);
            discrepancies.add(if found.is_empty() { Kind::Missing } else { Kind::Contradiction }, what);
            return Ok(discrepancies.0);
        };
        let delivered = match effect.call.accounts.as_slice() {
            [settler, _, _, recipient] => effect.lamports_moved(settler, recipient),
            [_, _, _, _, from_token, to_token, _, token_program] => {
                let receiver = associated_token_address(&wanted.recipient, token_program, &wanted.mint).key;
                effect.tokens_moved(|from, to| from == from_token && to == to_token && *to == receiver)
            }
            _ => 0,
        };
        discrepancies.require(delivered == wanted.amount, || {
            format!("{delivered} reached the recipient in a delivery of {}", wanted.amount)
        });
        let found = self.delivery_at(&wanted, &program, Commitment::Confirmed, evidence.slot).await?;
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
        self.attested(case, &evidence, &effect, &delivery.digest(&self.domain(&parties.program)), &mut discrepancies);
        // An end pays all that lies in the vault, and strangers may have added to that.
        let paid = effect.paid(&parties, &parties.payout);
        discrepancies.require(paid >= due, || format!("{due} were due to the settler and it was paid {paid}"));
        let out = effect.tokens_moved(|from, _| *from == parties.vault);
        discrepancies.require(out >= deposited, || format!("{deposited} went into the escrow and {out} came out"));
        discrepancies.require(effect.closed(&parties.vault), || "something stayed in the vault".to_owned());
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
                &non_delivery.digest(&self.domain(&parties.program)),
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
        let program = key(&plan.contract).map_err(unusable)?;
        let found = self.settled_escrow(payment_id, &program).await?;
        let record = found.record.map(|record| neutral(self, &record)).transpose()?;
        if let (Some(record), Some(case)) = (&record, case) {
            discrepancies.committed(case, record);
        }
        let state = record.filter(|record| record.is_of(plan)).map(|record| record.state);
        Ok((EscrowSnapshot { state, settled_number: found.settled.slot, settled_time: found.time }, discrepancies.0))
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
}

impl Node {
    /// Checks that the deposit was made by what the payer signed, and under no other signature.
    fn presented(
        &self,
        case: &Case<'_>,
        evidence: &Evidence,
        deposit: &DepositAndReserve,
        parties: &Parties,
        discrepancies: &mut Discrepancies,
    ) {
        let Authorization::Solana(spend) = case.authorization else {
            return discrepancies.0.extend(unreadable("the payer signed for another family"));
        };
        let rebuilt = deposit_of(case.payment_id, case.terms, case.plan, spend)
            .and_then(|signed| Ok((signed, key(&spend.signer)?)));
        let (signed, signer) = match rebuilt {
            Ok(rebuilt) => rebuilt,
            Err(error) => return discrepancies.0.extend(unreadable(error)),
        };
        discrepancies.same("the key that signed the deposit", text(&signer), text(&deposit.signer));
        discrepancies.same("the most that may be taken", signed.amount, deposit.cap);
        discrepancies.same("the quote that was signed for", spend.quote_hash, Hash32(deposit.agreed_quote_hash));
        let digest = signed.digest(&self.domain(&parties.program));
        let presented = evidence.ed25519(deposit.ed25519_index);
        let wanted = signature_bytes(&spend.signature).map(|signature| ed25519::data(&signer, &signature, &digest));
        discrepancies.require(wanted.as_ref().map(<[u8; ed25519::SIZE]>::as_slice) == presented, || {
            "the deposit was made under another signature than the stream shows".to_owned()
        });
    }

    /// Checks that the end of the escrow was brought about by the releaser's word over `digest`.
    fn attested(
        &self,
        case: &Case<'_>,
        evidence: &Evidence,
        effect: &Effect,
        digest: &Hash,
        discrepancies: &mut Discrepancies,
    ) {
        let attested = effect.call.data.get(1..).and_then(Attested::from_bytes);
        let presented = attested.and_then(|attested| evidence.ed25519(attested.ed25519_index));
        let holds = match (presented, key(&case.plan.releaser)) {
            (Some(data), Ok(releaser)) => ed25519::check(data, &releaser, digest).is_ok(),
            _ => false,
        };
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
        let is_signature = bs58::decode(place).into_vec().is_ok_and(|bytes| bytes.len() == 64);
        if !is_signature {
            discrepancies.add(Kind::Contradiction, format!("{place} is no transaction hash"));
            return Ok(None);
        }
        let how = json!({
            "encoding": "json",
            "commitment": Commitment::Confirmed.text(),
            "maxSupportedTransactionVersion": 0,
        });
        let told: Option<Told> = self.request("getTransaction", json!([place, how])).await?;
        let Some(told) = told else {
            discrepancies.add(Kind::Missing, format!("transaction {place} is not on {}", self.chain_id()));
            return Ok(None);
        };
        let (hash, time) = self.block_of(told.slot).await?;
        let evidence = told.read(place, time).map_err(|what| self.contradiction(what))?;
        discrepancies.same(&format!("the slot of {place}"), inclusion.block_number, evidence.slot);
        discrepancies.same(&format!("the block hash of {place}"), inclusion.block_hash.clone(), hash);
        discrepancies.same(&format!("the block time of {place}"), inclusion.block_time, evidence.time);
        if let Some(error) = &evidence.error {
            discrepancies.add(Kind::Contradiction, format!("transaction {place} failed: {error}"));
            return Ok(None);
        }
        Ok(Some(evidence))
    }

    /// Hash and UNIX second of the block at `slot`.
    async fn block_of(&self, slot: u64) -> Result<(String, u64), Transient> {
        let how = json!({
            "commitment": Commitment::Confirmed.text(),
            "transactionDetails": "none",
            "rewards": false,
            "maxSupportedTransactionVersion": 0,
        });
        let block: Option<Block> = self.request("getBlock", json!([slot, how])).await?;
        let block = block.ok_or_else(|| self.contradiction(format!("no block at slot {slot}")))?;
        let time: Option<u64> = self.request("getBlockTime", json!([slot])).await?;
        Ok((block.blockhash, time.ok_or_else(|| self.contradiction(format!("no time of slot {slot}")))?))
    }
}

impl Evidence {
    /// The instruction that ended the escrow of the payment, if there is one of these.
    fn end_of(&self, parties: &Parties, tags: &[Tag]) -> Option<(Tag, Effect)> {
        self.effects(&parties.program).into_iter().find_map(|effect| {
            let tag = Tag::from_byte(*effect.call.data.first()?).filter(|tag| tags.contains(tag))?;
            (effect.call.accounts.first() == Some(&parties.escrow)).then_some((tag, effect))
        })
    }
}

impl Effect {
    /// What the end of an escrow paid from its vault to `receiver`: into its associated token account, or into the account
    /// that it named when it signed as the last one, which the program asked for.
    fn paid(&self, parties: &Parties, receiver: &Key) -> u64 {
        const TO: usize = 2;
        let accounts = self.call.accounts.as_slice();
        let Some(token_program) = accounts.get(5) else { return 0 };
        let is_refund = self.call.data.first() == Some(&(Tag::Refund as u8));
        let account = match accounts.get(if is_refund { 6 } else { 8 }) {
            Some(signed) if signed == receiver => accounts[TO],
            Some(_) => return 0,
            None => associated_token_address(receiver, token_program, &parties.mint).key,
        };
        self.tokens_moved(|from, to| *from == parties.vault && *to == account)
    }
}

fn parties_and_amounts(case: &Case<'_>, deposited: Amount) -> Result<(Parties, u64, u64), ConvertError> {
    Ok((Parties::of(case)?, units(case.quote.source_amount)?, units(deposited)?))
}
