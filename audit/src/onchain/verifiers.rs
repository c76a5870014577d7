//! On-chain checks of what verifiers said: the word that moves the escrow as the escrow judges it, each member of a set by its own
//! signature, and whether the destination bears out what a member signed.

use chains::auditor::{Audit, Case};
use events::{
    Event, PaymentEvent,
    event::{MemberAttested, RefundDue},
};
use sagas::ports::{DeliveryState, Statement};

use super::Check;
use crate::{Finding, Severity, adapters::AuditedChain};

/// What can be attested of a quote.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fact {
    Delivered,
    NotDelivered,
}

/// What a member of a verifier set said of the awarded quote, by its own signature.
#[derive(Debug, Clone, Copy)]
pub(super) struct Said<'a> {
    fact: Fact,
    by: &'a MemberAttested,
}

impl Fact {
    fn statement(self, case: &Case<'_>) -> Statement {
        let (payment_id, quote_hash) = (case.payment_id.clone(), case.quote_hash);
        match self {
            Self::Delivered => {
                let payout_account = case.quote.payout_account.clone();
                Statement::Delivery { payment_id, quote_hash, payout_account }
            }
            Self::NotDelivered => Statement::NonDelivery { payment_id, quote_hash },
        }
    }
}

impl Said<'_> {
    /// The type of the event that records it.
    pub fn event(&self) -> &'static str {
        match self.fact {
            Fact::Delivered => "DeliveryAttested",
            Fact::NotDelivered => "NonDeliveryAttested",
        }
    }

    /// Whether the event records it.
    fn is_in(&self, event: &Event) -> bool {
        match (self.fact, event) {
            (Fact::Delivered, Event::Payment(PaymentEvent::DeliveryAttested(by)))
            | (Fact::NotDelivered, Event::Payment(PaymentEvent::NonDeliveryAttested(by))) => by == self.by,
            _ => false,
        }
    }
}

impl<'a> Check<'a> {
    /// The word that moves the escrow, as the stream keeps it: the releaser's, or that of the set which is the releaser.
    pub(super) async fn attestations(&mut self, node: &dyn Audit) {
        let (submitted, Some(case)) = (&self.payment.submitted, self.case()) else { return };
        let mut words = Vec::new();
        if let Some(confirmed) = &self.payment.confirmed {
            words.push(("FulfillmentConfirmed", Fact::Delivered, &confirmed.attestation));
        }
        if let Some(failed) = &self.payment.failed
            && let RefundDue::ByNonDelivery { attestation } = &failed.refund
        {
            words.push(("Failed", Fact::NotDelivered, attestation));
        }
        for (event, fact, attestation) in words {
            match node.attestation_holds(&fact.statement(&case), &submitted.escrow, attestation).await {
                Ok(true) => {}
                Ok(false) => {
                    let releaser = &submitted.escrow.releaser;
                    let what = match &submitted.verifier.set {
                        Some(set) => {
                            let k = set.threshold();
                            format!("the attestation is not signed by {k} members of verifier set {releaser}")
                        }
                        None => format!("the attestation is not signed by the releaser {releaser}"),
                    };
                    self.find(Severity::Contradiction, "attestation", event, what);
                }
                Err(fault) => self.find(Severity::Unverifiable, "attestation", event, fault.to_string()),
            }
        }
    }

    /// What members of a verifier set said. A signature that is not the member's is a finding, and nothing that the member said:
    /// whoever writes a stream cannot bring a verifier into disrepute.
    pub(super) async fn said(&mut self, case: &Case<'_>) -> Vec<Said<'a>> {
        let (chains, payment) = (self.chains, self.payment);
        // Where the source cannot be asked, or its escrow is not trusted, its own checks say so.
        let source = chains.nodes.get(&case.plan.chain_id);
        let source = source.filter(|chain| chain.audit.config().trusts_escrow(&case.plan.contract));
        let Some(source) = source else { return Vec::new() };
        let delivered = payment.attested_by.iter().map(|by| Said { fact: Fact::Delivered, by });
        let not_delivered = payment.nondelivery_by.iter().map(|by| Said { fact: Fact::NotDelivered, by });
        let mut signed = Vec::new();
        for said in delivered.chain(not_delivered) {
            let MemberAttested { member, signature, .. } = said.by;
            match source.audit.signed_by(&said.fact.statement(case), case.plan, member, signature).await {
                Ok(true) => signed.push(said),
                Ok(false) => {
                    let what = format!("the attestation on record of verifier {member} is not signed by it");
                    self.find_said(said, Severity::Contradiction, "attestation", what);
                }
                Err(fault) => self.find_said(said, Severity::Unverifiable, "attestation", fault.to_string()),
            }
        }
        signed
    }

    /// Holds what members said against the destination: who attested what is not so is named.
    pub(super) async fn judge(&mut self, destination: &AuditedChain, case: &Case<'_>, said: &[Said<'a>]) {
        let Some(first) = said.first() else { return };
        let chain_id = &destination.audit.config().chain_id;
        let state = match destination.verified.delivery_state(&case.delivery()).await {
            Ok(state) => state,
            Err(fault) => return self.find_said(*first, Severity::Unverifiable, "verifier", fault.to_string()),
        };
        for one in said {
            let member = &one.by.member;
            let (severity, what) = match (one.fact, &state) {
                (Fact::Delivered, DeliveryState::Final(_)) | (Fact::NotDelivered, DeliveryState::Impossible) => {
                    continue;
                }
                (Fact::Delivered, DeliveryState::Impossible) => {
                    let what = format!("verifier {member} attested a delivery that {chain_id} does not hold");
                    (Severity::Contradiction, what)
                }
                (Fact::NotDelivered, DeliveryState::Final(delivery)) => {
                    let what = format!(
                        "verifier {member} attested that nothing was delivered, and {chain_id} holds the delivery, {}",
                        delivery.transaction_hash
                    );
                    (Severity::Contradiction, what)
                }
                (Fact::Delivered, DeliveryState::NotSeen | DeliveryState::Seen(_)) => {
                    let what =
                        format!("verifier {member} attested a delivery that is not at its depth on {chain_id} yet");
                    (Severity::Open, what)
                }
                (Fact::NotDelivered, DeliveryState::NotSeen | DeliveryState::Seen(_)) => {
                    let what = format!(
                        "verifier {member} attested that nothing was delivered, and {chain_id} is not past the time of \
                         delivery at its depth yet"
                    );
                    (Severity::Open, what)
                }
            };
            let what = if severity.is_fault() { format!("{what}; {}", self.weight(one.fact, said)) } else { what };
            self.find_said(*one, severity, "verifier", what);
        }
    }

    /// What came of it that members said so.
    fn weight(&self, fact: Fact, said: &[Said<'_>]) -> String {
        let (payment, needed) = (self.payment, self.payment.submitted.verifier.threshold());
        let signed = said.iter().filter(|said| said.fact == fact).count();
        let refund_after = payment.submitted.escrow.refund_after;
        // On record is what the gateway was told, and a settler may have been told more. Before its window only a word returns the
        // escrow.
        let moved = match fact {
            Fact::Delivered => payment.released.is_some(),
            Fact::NotDelivered => {
                payment.refunded.as_ref().is_some_and(|refunded| refunded.inclusion.block_time < refund_after)
            }
        };
        let signatures = format!("{signed} signed that, of the {needed} who have to");
        match (signed >= needed, moved) {
            (true, true) => format!("{signatures}, and it moved the escrow"),
            (true, false) => format!("{signatures}, which moves the escrow"),
            (false, true) => format!("{signatures}, and the escrow was moved all the same"),
            (false, false) => format!("alone it moved nothing: {signatures}"),
        }
    }

    fn find_said(&mut self, said: Said<'_>, severity: Severity, check: &str, what: String) {
        let location = self.examined.location_where(|event| said.is_in(event));
        self.findings.push(Finding::new(severity, check, location, what));
    }
}

#[cfg(test)]
mod tests;
