//! Consistency of what verifiers said: the payer's escrow names them, the word of a set is that of its members on record, and none
//! of them says both that it was delivered and that it was not. Who may attest, once each, is a rule of the transitions.

use data_encoding::HEXLOWER;

use events::{
    Account, Event, PaymentEvent,
    event::{EscrowPlan, MemberAttested, RefundDue, VerifierRef},
    verifier_set::SetAttestation,
};
use sagas::payment::Payment;

use super::Consistency;
use crate::{
    JournalLocation,
    rounds::{Round, location_of_lapse},
};

impl Consistency<'_> {
    /// That the escrow's releaser is the verifier on record, and, of a set, the id that its threshold and members make.
    pub(super) fn verifier(&mut self, verifier: &VerifierRef, plan: &EscrowPlan, event: &str) {
        let (account, releaser) = (&verifier.account, &plan.releaser);
        self.require(account == releaser, "verifier-set", event, || {
            format!("the escrow's releaser is {releaser}, and the verifier on record is {account}")
        });
        self.require(verifier.is_consistent(), "verifier-set", event, || {
            let id = verifier.set.as_ref().and_then(|set| set.id());
            let id = id.map_or_else(|| "none".to_owned(), |id| id.to_string());
            format!("the id of the verifier set is {account} by the record, and {id} by its threshold and members")
        });
    }

    /// That each word of a verifier set is made of attestations on record of the same reservation, and that no member said both.
    pub(super) fn attestations(&mut self, payment: &Payment, rounds: &[Round<'_>]) {
        let verifier = &payment.submitted.verifier;
        if verifier.set.is_none() {
            return;
        }
        for round in rounds {
            if let Some(lapsed) = round.lapsed {
                let location = location_of_lapse(self.examined, lapsed);
                self.word(verifier, &location, &lapsed.attestation, &round.nondelivery_by);
            }
            self.both(round);
        }
        let last = rounds.last();
        if let (Some(confirmed), Some(last)) = (&payment.confirmed, last) {
            let location = self.examined.location_of("FulfillmentConfirmed");
            self.word(verifier, &location, &confirmed.attestation, &last.attested_by);
        }
        // While the escrow is to be reassigned it is the word that its reservation lapsed by, which is a rule of the transitions.
        if let (Some(failed), Some(last), None) = (&payment.failed, last, payment.reopened())
            && let RefundDue::ByNonDelivery { attestation } = &failed.refund
        {
            let location = self.examined.location_of("Failed");
            self.word(verifier, &location, attestation, &last.nondelivery_by);
        }
    }

    /// That no member said of one reservation both.
    fn both(&mut self, round: &Round<'_>) {
        for denied in &round.nondelivery_by {
            let member = &denied.member;
            if attestation_of(&round.attested_by, member).is_some() {
                let location = self.examined.location_where(
                    |event| matches!(event, Event::Payment(PaymentEvent::NonDeliveryAttested(by)) if by == *denied),
                );
                let what = format!(
                    "verifier {member} is on record with both, that the quote was delivered and that it was not and cannot \
                     be: it contradicts itself, if it signed both"
                );
                self.contradicts("verifier", location, what);
            }
        }
    }

    /// That `text` is the word of the payment's verifier set, and every signature in it one of those on record.
    fn word(&mut self, verifier: &VerifierRef, location: &JournalLocation, text: &str, on_record: &[&MemberAttested]) {
        let id = &verifier.account;
        let mut found = |what: String| self.contradicts("attestation", location.clone(), what);
        let Some(word) = SetAttestation::parse(id.family(), text) else {
            let needed = verifier.threshold();
            return found(format!(
                "it is no attestation of verifier set {id}: just {needed} of its members have to sign, in order"
            ));
        };
        if word.id != *id {
            return found(format!("it is the attestation of verifier set {}, and the payment's is {id}", word.id));
        }
        for (member, signature) in &word.signatures {
            let signature = format!("0x{}", HEXLOWER.encode(signature));
            match attestation_of(on_record, member) {
                None => {
                    found(format!("verifier {member} signed with the others, and no attestation of it is on record"))
                }
                Some(known) if known.signature.eq_ignore_ascii_case(&signature) => {}
                Some(_) => found(format!("the signature of verifier {member} is another than the one on record")),
            }
        }
    }
}

fn attestation_of<'a>(on_record: &[&'a MemberAttested], member: &Account) -> Option<&'a MemberAttested> {
    on_record.iter().find(|attested| attested.member == *member).copied()
}

/// The verifiers of a payment as a report names them, of a set with those who are on record with an attestation of the delivery.
pub(super) fn name(payment: &Payment) -> String {
    let VerifierRef { account, endpoint, set } = &payment.submitted.verifier;
    let Some(set) = set else { return format!("verifier {account} at {endpoint}") };
    let signed: Vec<_> = payment.attested_by.iter().map(|attested| attested.member.as_str()).collect();
    let signed = if signed.is_empty() { "nobody".to_owned() } else { signed.join(", ") };
    format!("verifier set {account} ({} of {} have to attest, {signed} did)", set.threshold(), set.members().len())
}

#[cfg(test)]
mod tests;
