//! Consistency of what verifiers said: the payer's escrow names them, the word of a set is that of its members on record, and none
//! of them says both that it was delivered and that it was not. Who may attest, once each, is a rule of the transitions.

use data_encoding::HEXLOWER;

use events::{
    Account, Event, PaymentEvent,
    event::{EscrowPlan, MemberAttested, RefundDue, VerifierRef},
    verifier_set::SetAttestation,
};
use sagas::payment::Payment;

use super::{Consistency, Finding, Severity};

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

    /// That each word of a verifier set is made of attestations on record, and that no member said both.
    pub(super) fn attestations(&mut self, payment: &Payment) {
        let verifier = &payment.submitted.verifier;
        if verifier.set.is_none() {
            return;
        }
        if let Some(confirmed) = &payment.confirmed {
            self.word(verifier, "FulfillmentConfirmed", &confirmed.attestation, &payment.attested_by);
        }
        if let Some(failed) = &payment.failed
            && let RefundDue::ByNonDelivery { attestation } = &failed.refund
        {
            self.word(verifier, "Failed", attestation, &payment.nondelivery_by);
        }
        for denied in &payment.nondelivery_by {
            let member = &denied.member;
            if attestation_of(&payment.attested_by, member).is_some() {
                let location = self.examined.location_where(
                    |event| matches!(event, Event::Payment(PaymentEvent::NonDeliveryAttested(by)) if by.member == *member),
                );
                let what = format!(
                    "verifier {member} is on record with both, that the quote was delivered and that it was not and cannot \
                     be: it contradicts itself, if it signed both"
                );
                self.findings.push(Finding::new(Severity::Contradiction, "verifier", location, what));
            }
        }
    }

    /// That `text` is the word of the payment's verifier set, and every signature in it one of those on record.
    fn word(&mut self, verifier: &VerifierRef, event: &str, text: &str, on_record: &[MemberAttested]) {
        let id = &verifier.account;
        let Some(word) = SetAttestation::parse(id.family(), text) else {
            return self.require(false, "attestation", event, || {
                format!(
                    "it is no attestation of verifier set {id}: just {} of its members have to sign, in order",
                    verifier.threshold()
                )
            });
        };
        if word.id != *id {
            return self.require(false, "attestation", event, || {
                format!("it is the attestation of verifier set {}, and the payment's is {id}", word.id)
            });
        }
        for (member, signature) in &word.signatures {
            let signature = format!("0x{}", HEXLOWER.encode(signature));
            match attestation_of(on_record, member) {
                None => self.require(false, "attestation", event, || {
                    format!("verifier {member} signed with the others, and no attestation of it is on record")
                }),
                Some(known) => {
                    let same = known.signature.eq_ignore_ascii_case(&signature);
                    self.require(same, "attestation", event, || {
                        format!("the signature of verifier {member} is another than the one on record")
                    });
                }
            }
        }
    }
}

fn attestation_of<'a>(on_record: &'a [MemberAttested], member: &Account) -> Option<&'a MemberAttested> {
    on_record.iter().find(|attested| attested.member == *member)
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
