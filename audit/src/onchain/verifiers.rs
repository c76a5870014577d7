//! On-chain checks of what verifiers said: the word that moves the escrow as the escrow judges it, each member of a set by its own
//! signature, and whether the destination bears out what a member signed.

use chains::auditor::{Audit, Case};
use events::{
    Account, Event, PaymentEvent,
    event::{MemberAttested, RefundDue},
};
use sagas::ports::{DeliveryState, Statement};

use super::Check;
use crate::{
    Finding, JournalLocation, Severity,
    adapters::AuditedChain,
    rounds::{Round, location_of_lapse},
};

/// What can be attested of a quote.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fact {
    Delivered,
    NotDelivered,
}

/// What a verifier said of a quote by its own signature: a member of a set, or the only one, whose word a reservation lapsed by.
#[derive(Debug, Clone)]
pub(super) struct Said<'a> {
    fact: Fact,
    verifier: &'a Account,
    /// Where it is recorded.
    location: JournalLocation,
}

impl Fact {
    /// Whether the event records that a member said so.
    fn is_in(self, said: &MemberAttested, event: &Event) -> bool {
        match (self, event) {
            (Self::Delivered, Event::Payment(PaymentEvent::DeliveryAttested(by)))
            | (Self::NotDelivered, Event::Payment(PaymentEvent::NonDeliveryAttested(by))) => by == said,
            _ => false,
        }
    }

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
}

impl<'a> Check<'a> {
    /// The words that move the escrow, as the stream keeps them: the releaser's, or those of the set which is the releaser. Each is of
    /// the quote that the escrow was reserved for then.
    pub(super) async fn attestations(&mut self, node: &dyn Audit) {
        let (payment, examined) = (self.payment, self.examined);
        for round in self.rounds {
            if let Some(lapsed) = round.lapsed {
                let location = location_of_lapse(examined, lapsed);
                self.holds(node, round, Fact::NotDelivered, &location, &lapsed.attestation).await;
            }
        }
        let Some(last) = self.reserved() else { return };
        if let Some(confirmed) = &payment.confirmed {
            let location = examined.location_of("FulfillmentConfirmed");
            self.holds(node, last, Fact::Delivered, &location, &confirmed.attestation).await;
        }
        // That of an escrow which is to be reassigned is the word that its reservation lapsed by.
        if let (Some(failed), None) = (&payment.failed, last.lapsed)
            && let RefundDue::ByNonDelivery { attestation } = &failed.refund
        {
            self.holds(node, last, Fact::NotDelivered, &examined.location_of("Failed"), attestation).await;
        }
    }

    /// That the escrow takes `attestation` for the word of what is so of the quote.
    async fn holds(
        &mut self,
        node: &dyn Audit,
        round: &'a Round<'a>,
        fact: Fact,
        location: &JournalLocation,
        attestation: &str,
    ) {
        let submitted = &self.payment.submitted;
        let statement = fact.statement(&self.case_of(round));
        let (severity, what) = match node.attestation_holds(&statement, &submitted.escrow, attestation).await {
            Ok(true) => return,
            Ok(false) => {
                let releaser = &submitted.escrow.releaser;
                let what = match &submitted.verifier.set {
                    Some(set) => {
                        let k = set.threshold();
                        format!("the attestation is not signed by {k} members of verifier set {releaser}")
                    }
                    None => format!("the attestation is not signed by the releaser {releaser}"),
                };
                (Severity::Contradiction, what)
            }
            Err(fault) => (Severity::Unverifiable, fault.to_string()),
        };
        self.findings.push(Finding::new(severity, "attestation", location.clone(), what));
    }

    /// What verifiers said of a reservation: members of a set, and a single verifier by whose word it lapsed. A signature that is not
    /// the verifier's is a finding, and nothing that it said: whoever writes a stream cannot bring a verifier into disrepute.
    pub(super) async fn said(&mut self, case: &Case<'_>, round: &'a Round<'a>) -> Vec<Said<'a>> {
        let (chains, submitted, examined) = (self.chains, &self.payment.submitted, self.examined);
        // Where the source cannot be asked, or its escrow is not trusted, its own checks say so.
        let source = chains.nodes.get(&case.plan.chain_id);
        let source = source.filter(|chain| chain.audit.config().trusts_escrow(&case.plan.contract));
        let Some(source) = source else { return Vec::new() };
        let mut signed = Vec::new();
        let delivered = round.attested_by.iter().map(|by| (Fact::Delivered, *by));
        let not_delivered = round.nondelivery_by.iter().map(|by| (Fact::NotDelivered, *by));
        for (fact, by) in delivered.chain(not_delivered) {
            let MemberAttested { member, signature, .. } = by;
            let location = examined.location_where(|event| fact.is_in(by, event));
            match source.audit.signed_by(&fact.statement(case), case.plan, member, signature).await {
                Ok(true) => signed.push(Said { fact, verifier: member, location }),
                Ok(false) => {
                    let what = format!("the attestation on record of verifier {member} is not signed by it");
                    self.findings.push(Finding::new(Severity::Contradiction, "attestation", location, what));
                }
                Err(fault) => {
                    self.findings.push(Finding::new(
                        Severity::Unverifiable,
                        "attestation",
                        location,
                        fault.to_string(),
                    ));
                }
            }
        }
        if let (Some(lapsed), None) = (round.lapsed, &submitted.verifier.set) {
            // What does not hold is found where all words are looked at.
            let statement = Fact::NotDelivered.statement(case);
            if let Ok(true) = source.audit.attestation_holds(&statement, case.plan, &lapsed.attestation).await {
                let location = location_of_lapse(examined, lapsed);
                signed.push(Said { fact: Fact::NotDelivered, verifier: &submitted.verifier.account, location });
            }
        }
        signed
    }

    /// Holds what verifiers said of a reservation against the destination: who attested what is not so is named. What lapsed must
    /// not have been delivered, whoever says so.
    pub(super) async fn judge(&mut self, destination: &AuditedChain, round: &'a Round<'a>, said: &[Said<'a>]) {
        let case = self.case_of(round);
        let lapsed = round.lapsed.map(|lapsed| location_of_lapse(self.examined, lapsed));
        let Some(first) = said.first().map(|first| &first.location).or(lapsed.as_ref()) else { return };
        let chain_id = &destination.audit.config().chain_id;
        let state = match destination.verified.delivery_state(&case.delivery()).await {
            Ok(state) => state,
            Err(fault) => {
                let finding = Finding::new(Severity::Unverifiable, "verifier", first.clone(), fault.to_string());
                return self.findings.push(finding);
            }
        };
        if let (Some(location), DeliveryState::Final(delivery)) = (lapsed, &state) {
            let what = format!(
                "settler {} delivered in time, by {} on {chain_id}, and its reservation lapsed",
                case.quote.settler, delivery.transaction_hash
            );
            self.findings.push(Finding::new(Severity::Contradiction, "delivery", location, what));
        }
        for one in said {
            let verifier = one.verifier;
            let (severity, what) = match (one.fact, &state) {
                (Fact::Delivered, DeliveryState::Final(_)) | (Fact::NotDelivered, DeliveryState::Impossible) => {
                    continue;
                }
                (Fact::Delivered, DeliveryState::Impossible) => {
                    let what = format!("verifier {verifier} attested a delivery that {chain_id} does not hold");
                    (Severity::Contradiction, what)
                }
                (Fact::NotDelivered, DeliveryState::Final(delivery)) => {
                    let what = format!(
                        "verifier {verifier} attested that nothing was delivered, and {chain_id} holds the delivery, {}",
                        delivery.transaction_hash
                    );
                    (Severity::Contradiction, what)
                }
                (Fact::Delivered, DeliveryState::NotSeen | DeliveryState::Seen(_)) => {
                    let what =
                        format!("verifier {verifier} attested a delivery that is not at its depth on {chain_id} yet");
                    (Severity::Open, what)
                }
                (Fact::NotDelivered, DeliveryState::NotSeen | DeliveryState::Seen(_)) => {
                    let what = format!(
                        "verifier {verifier} attested that nothing was delivered, and {chain_id} is not past the time of \
                         delivery at its depth yet"
                    );
                    (Severity::Open, what)
                }
            };
            let what = match severity.is_fault() {
                true => format!("{what}; {}", self.weight(one.fact, round, said)),
                false => what,
            };
            self.findings.push(Finding::new(severity, "verifier", one.location.clone(), what));
        }
    }

    /// What came of it that verifiers said so.
    fn weight(&self, fact: Fact, round: &Round<'_>, said: &[Said<'_>]) -> String {
        let (payment, needed) = (self.payment, self.payment.submitted.verifier.threshold());
        let signed = said.iter().filter(|said| said.fact == fact).count();
        let refund_after = payment.submitted.escrow.refund_after;
        // On record is what the gateway was told, and a settler may have been told more. Before its window only a word returns the
        // escrow, and only a word reassigns it.
        let next = self.rounds.get(round.number + 1).filter(|next| next.is_reserved());
        let moved = match (fact, next) {
            (Fact::NotDelivered, Some(_)) => true,
            (Fact::Delivered, Some(_)) => false,
            (Fact::Delivered, None) => payment.released.is_some(),
            (Fact::NotDelivered, None) => {
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
}

#[cfg(test)]
mod tests;
