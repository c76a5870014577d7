//! Entry of a history: one event of a payment as people read it.

use chrono::{DateTime, Utc};

use events::{
    PaymentEvent, VerifierSet,
    event::{Claim, Inclusion, QuoteAwarded, TransactionPrepared, Validity, WithdrawalCause},
};

/// One event with the time it was stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// When the journal stored it.
    pub stored_at: DateTime<Utc>,
    /// The event.
    pub event: PaymentEvent,
}

impl Entry {
    /// One line for people: what happened, and where.
    pub fn describe(&self) -> String {
        match &self.event {
            PaymentEvent::Submitted(submitted) => format!(
                "{} for {} of at most {}{}",
                submitted.request_id,
                submitted.terms.fulfillment_amount,
                submitted.terms.max_source_amount.map_or("any".to_owned(), |max| max.to_string()),
                submitted.verifier.set.as_ref().map_or_else(String::new, set),
            ),
            PaymentEvent::AuctionClosed(closed) => format!(
                "{} asked, {} quotes, {} declined",
                closed.addressed.len(),
                closed.quotes.len(),
                closed.declines.len()
            ),
            PaymentEvent::SelectorAsked(asked) => format!("{} quotes shown", asked.documents.len()),
            PaymentEvent::SelectorAnswered(answered) => answered.choice.clone(),
            PaymentEvent::QuoteAwarded(awarded) => award(awarded),
            PaymentEvent::AwardLapsed(lapsed) => match &lapsed.refusal {
                Some(reason) => format!("{} refuses: {reason}", lapsed.settler),
                None => format!("{} does not answer", lapsed.settler),
            },
            PaymentEvent::AwardWithdrawn(withdrawn) => match &withdrawn.cause {
                WithdrawalCause::Refused { reason } => format!("the winner refuses: {reason}"),
                WithdrawalCause::Unanswered => "the winner does not answer".to_owned(),
                WithdrawalCause::NotDeposited => "no deposit was made".to_owned(),
            },
            PaymentEvent::WinnerTold(_) => "the winner finds that its award is over".to_owned(),
            PaymentEvent::PayerTransactionSent(sent) => {
                format!("the payer's {} {} is with a node", sent.step.as_str(), short(&sent.transaction_hash))
            }
            PaymentEvent::DepositPrepared(transaction)
            | PaymentEvent::ReassignmentPrepared(transaction)
            | PaymentEvent::ReleasePrepared(transaction)
            | PaymentEvent::RefundPrepared(transaction) => prepared(transaction),
            PaymentEvent::DepositRepriced(transaction)
            | PaymentEvent::ReassignmentRepriced(transaction)
            | PaymentEvent::ReleaseRepriced(transaction)
            | PaymentEvent::RefundRepriced(transaction) => {
                format!("{} signed with higher fees", short(&transaction.transaction_hash))
            }
            PaymentEvent::DepositAbandoned(abandoned)
            | PaymentEvent::ReassignmentAbandoned(abandoned)
            | PaymentEvent::ReleaseAbandoned(abandoned)
            | PaymentEvent::RefundAbandoned(abandoned) => abandoned.evidence.clone(),
            PaymentEvent::DepositMined(mined) => placed("not settled yet:", &mined.inclusion),
            PaymentEvent::EscrowSecured(secured) => placed(&format!("{} by", secured.amount), &secured.inclusion),
            PaymentEvent::EscrowOpened(opened) => placed(&format!("{} by", opened.amount), &opened.inclusion),
            PaymentEvent::AddressFunded(funded) => format!(
                "{} at the deposit address; quotes are collected until {}",
                funded.amount,
                funded.quote_deadline.format("%H:%M:%S UTC")
            ),
            PaymentEvent::AddressHeld(held) => {
                format!("{} at the deposit address, by block {}", held.amount, held.block_number)
            }
            PaymentEvent::DepositRuledOut(ruled_out) if ruled_out.left.is_some() => {
                let left = ruled_out.left.map(|left| left.to_string()).unwrap_or_default();
                format!(
                    "{left} stays at the deposit address, for the refund account takes nothing; anyone can give it back"
                )
            }
            PaymentEvent::DepositRuledOut(_) => "nothing was taken, and nothing can be any more".to_owned(),
            PaymentEvent::ReservationLapsed(lapsed) => format!(
                "{} did not deliver in time; quotes are collected anew until {}",
                lapsed.settler,
                lapsed.quote_deadline.format("%H:%M:%S UTC")
            ),
            PaymentEvent::EscrowReassigned(reassigned) => placed("by", &reassigned.inclusion),
            PaymentEvent::FulfillmentSeen(seen) => placed("by", &seen.inclusion),
            PaymentEvent::FulfillmentFinalized(finalized) => placed("at its depth:", &finalized.inclusion),
            PaymentEvent::AttestationMissed(_) => "no release can land any more; the escrow goes back".to_owned(),
            PaymentEvent::DeliveryAttested(attested) => format!("by verifier {}", attested.member),
            PaymentEvent::NonDeliveryAttested(attested) => format!("by verifier {}", attested.member),
            PaymentEvent::AttestationAwaited(awaited) => placed("not attested:", &awaited.inclusion),
            PaymentEvent::FulfillmentConfirmed(confirmed) => placed("by", &confirmed.inclusion),
            PaymentEvent::EscrowReleased(released) => left(placed("by", &released.inclusion), &released.claims),
            PaymentEvent::Failed(failed) => format!("{}: {}", failed.failure.code, failed.failure.message),
            PaymentEvent::EscrowRefunded(refunded) => {
                left(placed(&format!("{} by", refunded.amount), &refunded.inclusion), &refunded.claims)
            }
        }
    }
}

/// How many verifiers of a set have to attest.
fn set(set: &VerifierSet) -> String {
    format!("; {} of {} verifiers attest", set.threshold(), set.members().len())
}

/// Where a transaction is on its chain.
fn placed(what: &str, inclusion: &Inclusion) -> String {
    let Inclusion { block_number, chain_id, .. } = inclusion;
    format!("{what} {} in block {block_number} of {chain_id}", short(&inclusion.transaction_hash))
}

/// Whose quote won, and its price.
fn award(awarded: &QuoteAwarded) -> String {
    match awarded.signed_quote() {
        Ok(signed) => format!(
            "{} to {} for {}",
            short(&awarded.quote_id),
            short(signed.quote().settler.as_str()),
            signed.quote().source_amount
        ),
        Err(error) => format!("{} ({error})", awarded.quote_id),
    }
}

/// A transaction before it is sent, with until when it counts.
fn prepared(transaction: &TransactionPrepared) -> String {
    let hash = short(&transaction.transaction_hash);
    match transaction.validity {
        Validity::Nonce(nonce) => format!("{hash} signed with nonce {nonce}"),
        Validity::LastBlockHeight(height) => format!("{hash} counts until block height {height}"),
        Validity::Expiration(milliseconds) => format!("{hash} counts until {}", time(milliseconds)),
    }
}

/// The end of an escrow, with what it could not pay out.
fn left(end: String, claims: &[Claim]) -> String {
    let owed = claims.iter().map(|claim| format!("; {} is owed {}", claim.owner, claim.amount));
    std::iter::once(end).chain(owed).collect()
}

/// The beginning of a long identifier.
fn short(text: &str) -> String {
    match text.char_indices().nth(18) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// UNIX milliseconds for people.
fn time(milliseconds: u64) -> String {
    let time = i64::try_from(milliseconds).ok().and_then(DateTime::from_timestamp_millis);
    time.map_or_else(|| milliseconds.to_string(), |time| time.format("%H:%M:%S UTC").to_string())
}
