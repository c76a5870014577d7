//! On-chain checks of a payment: every transaction the stream names, what it did, where the money is, whom it is reserved for, and
//! whether each verifier said what is so.

mod reassignment;
#[cfg(test)]
mod told;
mod verifiers;

use std::collections::HashMap;

use chrono::{DateTime, SecondsFormat};

use chains::{
    auditor::{Audit, Case, Discrepancy, EscrowSnapshot, Kind},
    escrow::State,
};
use events::{
    ChainId, PaymentEvent,
    event::{EscrowOpened, Inclusion, TransactionPrepared},
};
use sagas::{
    payment::{Payment, Stage},
    ports::{EscrowState, PayerDeposit, Transient},
};

use self::verifiers::Said;
use super::{
    Finding, JournalLocation, Severity,
    adapters::{self, AuditedChain},
    examine::Examined,
    rounds::{self, Round},
};

/// The chains to ask, and how far the journal may be behind them.
#[derive(Debug, Clone)]
pub struct Chains {
    /// By chain id.
    pub nodes: HashMap<ChainId, AuditedChain>,
    /// In seconds.
    pub lag_seconds: u64,
}

impl Chains {
    /// The findings about a payment whose stream is in order. A payment that is still under way is a finding of
    /// [`Severity::Open`].
    pub async fn check(&self, examined: &Examined, payment: &Payment) -> Vec<Finding> {
        let rounds = rounds::of(examined, payment);
        let mut check = Check { chains: self, examined, payment, rounds: &rounds, findings: Vec::new() };
        check.prepared();
        check.source().await;
        check.destination().await;
        check.findings
    }
}

struct Check<'a> {
    chains: &'a Chains,
    examined: &'a Examined,
    payment: &'a Payment,
    rounds: &'a [Round<'a>],
    findings: Vec<Finding>,
}

impl<'a> Check<'a> {
    fn find(&mut self, severity: Severity, check: &str, event: &str, what: impl Into<String>) {
        self.findings.push(Finding::new(severity, check, self.examined.location_of(event), what));
    }

    /// Takes over what a chain said about an event.
    fn take(&mut self, check: &str, event: &str, asked: Result<Vec<Discrepancy>, Transient>) {
        self.take_at(check, &self.examined.location_of(event), asked);
    }

    /// Takes over what a chain said about what is recorded at `location`.
    fn take_at(&mut self, check: &str, location: &JournalLocation, asked: Result<Vec<Discrepancy>, Transient>) {
        let mut found = |severity, what| self.findings.push(Finding::new(severity, check, location.clone(), what));
        match asked {
            Ok(discrepancies) => {
                for Discrepancy { kind, what } in discrepancies {
                    let severity = match kind {
                        Kind::Missing => Severity::Missing,
                        Kind::Contradiction => Severity::Contradiction,
                        Kind::Unverifiable => Severity::Unverifiable,
                    };
                    found(severity, what);
                }
            }
            Err(fault) => found(Severity::Unverifiable, fault.to_string()),
        }
    }

    fn chain(&mut self, chain_id: &ChainId, event: &str) -> Option<&'a AuditedChain> {
        let chain = self.chains.nodes.get(chain_id);
        if chain.is_none() {
            self.find(Severity::Unverifiable, "chain", event, format!("{chain_id} is not in the configuration"));
        }
        chain
    }

    /// The reservation that the escrow holds, or held last, by the stream; before the deposit the award that is to be.
    fn reserved(&self) -> Option<&'a Round<'a>> {
        self.rounds.iter().rfind(|round| round.is_reserved())
    }

    fn case_of(&self, round: &'a Round<'a>) -> Case<'a> {
        let submitted = &self.payment.submitted;
        Case {
            payment_id: &submitted.payment_id,
            terms: &submitted.terms,
            authorization: &submitted.authorization,
            plan: &submitted.escrow,
            quote: &round.award.quote,
            quote_hash: round.quote_hash(),
        }
    }

    /// Every transaction that was journaled before it was sent must be the one it says it is.
    fn prepared(&mut self) {
        let events = self.examined.commits.iter().flat_map(|commit| commit.payment_events());
        let wrong: Vec<(&'static str, String)> = events
            .filter_map(|event| Some((event.type_name(), transaction_of(event)?)))
            .filter_map(|(name, transaction)| Some((name, adapters::check_prepared(transaction).err()?)))
            .collect();
        for (name, what) in wrong {
            self.find(Severity::Contradiction, "prepared", name, what);
        }
    }

    async fn source(&mut self) {
        let submitted = &self.payment.submitted;
        let Some(chain) = self.chain(&submitted.escrow.chain_id, "Submitted") else { return };
        let node = chain.audit.as_ref();
        let plan = &submitted.escrow;
        if !node.config().trusts_escrow(&plan.contract) {
            let what =
                format!("escrow {} of {} is not one that the configuration trusts", plan.contract, plan.chain_id);
            return self.find(Severity::Unverifiable, "contract", "Submitted", what);
        }
        let signed =
            node.audit_authorization(&submitted.payment_id, &submitted.terms, plan, &submitted.authorization).await;
        self.take("authorization", "Submitted", signed);
        if let (Some(first), Some(last), Some(secured)) = (self.rounds.first(), self.reserved(), &self.payment.secured)
        {
            let asked = node.audit_deposit(&self.case_of(first), secured).await;
            self.take("deposit", "EscrowSecured", asked);
            self.reassignments(node).await;
            let case = self.case_of(last);
            if let Some(released) = &self.payment.released {
                let asked = node.audit_release(&case, released, secured.amount).await;
                self.take("release", "EscrowReleased", asked);
            }
            if let Some(refunded) = &self.payment.refunded {
                let asked = node.audit_refund(&case, refunded, secured.amount).await;
                self.take("refund", "EscrowRefunded", asked);
            }
        }
        self.payer_deposit(node).await;
        self.given_back(node).await;
        self.claims(node).await;
        self.attestations(node).await;
        self.escrow(node).await;
    }

    fn deposit(&self) -> PayerDeposit {
        PayerDeposit::from(&*self.payment.submitted)
    }

    /// The way back of what was at the deposit address of a payment that failed before its escrow.
    async fn given_back(&mut self, node: &dyn Audit) {
        let (Some(_), Some(refunded)) = (&self.payment.held, &self.payment.refunded) else { return };
        let asked = node.audit_given_back(&self.deposit(), refunded).await;
        self.take("refund", "EscrowRefunded", asked);
    }

    /// The payer deposit for which nobody was named to be paid, and its way back.
    async fn payer_deposit(&mut self, node: &dyn Audit) {
        let Some(opened) = &self.payment.opened else { return };
        let deposit = self.deposit();
        if opened.reserved_for.is_some() {
            return self.lost_award(node, &deposit, opened).await;
        }
        let asked = node.audit_opened(&deposit, opened).await;
        self.take("deposit", "EscrowOpened", asked);
        if let Some(refunded) = &self.payment.refunded {
            let asked = node.audit_return(&deposit, refunded, opened.amount).await;
            self.take("refund", "EscrowRefunded", asked);
        }
    }

    /// The escrow that is reserved for an award that the journal lost, and its end. What was agreed is not known here, so the chain
    /// is held against what the stream says of it, and no more.
    async fn lost_award(&mut self, node: &dyn Audit, deposit: &PayerDeposit, opened: &EscrowOpened) {
        match node.escrow_found(deposit).await {
            Ok(found) if found.as_ref() == Some(opened) => {}
            Ok(found) => {
                let what = format!("the chain has {found:?}, and not {opened:?}");
                self.find(Severity::Contradiction, "deposit", "EscrowOpened", what);
            }
            Err(fault) => self.find(Severity::Unverifiable, "deposit", "EscrowOpened", fault.to_string()),
        }
        let (name, told) = match (&self.payment.refunded, &self.payment.released) {
            (Some(refunded), _) => ("EscrowRefunded", &refunded.inclusion),
            (None, Some(released)) => ("EscrowReleased", released),
            (None, None) => return,
        };
        match node.escrow_state(&deposit.payment_id, &deposit.escrow).await {
            Ok(EscrowState::Refunded(end)) if name == "EscrowRefunded" && end.inclusion == *told => {}
            Ok(EscrowState::Released(end)) if name == "EscrowReleased" && end == *told => {}
            Ok(state) => {
                self.find(
                    Severity::Contradiction,
                    "escrow",
                    name,
                    format!("the chain has {state:?}, and not {told:?}"),
                );
            }
            Err(fault) => self.find(Severity::Unverifiable, "escrow", name, fault.to_string()),
        }
    }

    /// What the end left in the escrow, as far as the stream says so: gateways of before did not look.
    async fn claims(&mut self, node: &dyn Audit) {
        let submitted = &self.payment.submitted;
        let events = self.examined.commits.iter().flat_map(|commit| commit.payment_events());
        let ends = events.filter_map(|event| match event {
            PaymentEvent::EscrowReleased(released) => Some((event.type_name(), &released.inclusion, &released.claims)),
            PaymentEvent::EscrowRefunded(refunded) => Some((event.type_name(), &refunded.inclusion, &refunded.claims)),
            _ => None,
        });
        for (name, end, told) in ends.filter(|(_, _, told)| !told.is_empty()) {
            match node.claims(&submitted.payment_id, &submitted.escrow, end).await {
                Ok(found) if found == *told => {}
                Ok(found) => {
                    let what = format!("the escrow was left owing {found:?}, and not {told:?}");
                    self.find(Severity::Contradiction, "claims", name, what);
                }
                Err(fault) => self.find(Severity::Unverifiable, "claims", name, fault.to_string()),
            }
        }
    }

    /// Compares where the stream ends with where the chain is.
    async fn snapshot(&mut self, node: &dyn Audit, snapshot: &EscrowSnapshot) {
        let payment = self.payment;
        let last = payment.refunded.as_ref().map(|refunded| &refunded.inclusion).or(payment.released.as_ref());
        let last = last.or(payment.reassigned.as_ref());
        let last = last.or(payment.secured.as_ref().map(|secured| &secured.inclusion));
        let last = last.or(payment.opened.as_ref().map(|opened| &opened.inclusion));
        let (severity, check, what) = match last {
            Some(last) if last.block_number > snapshot.settled_number => {
                let Inclusion { transaction_hash, block_number, .. } = last;
                let settled = snapshot.settled_number;
                let what = format!(
                    "{transaction_hash} is in block {block_number}, and {settled} is the newest at the depth that the \
                     configuration requires"
                );
                (Severity::Open, "open", what)
            }
            _ => match self.compare(node, snapshot).await {
                Some(found) => found,
                None => return,
            },
        };
        let last = self.examined.commits.last().and_then(|commit| commit.events.last());
        self.find(severity, check, last.map_or("Submitted", |event| event.type_name()), what);
    }

    async fn compare(&self, node: &dyn Audit, snapshot: &EscrowSnapshot) -> Option<(Severity, &'static str, String)> {
        let (payment, stage) = (self.payment, self.payment.stage());
        let late = |since: u64| self.is_late(snapshot, since);
        let plan = &payment.submitted.escrow;
        let at_rest = stage == Stage::Rest;
        // Where the deposit names the settler at once, one that names nobody is the payer's own, beside the payment, and its own to take
        // back.
        let is_unreserved =
            matches!(snapshot.state, Some(State::Deposited | State::Refunded)) && snapshot.reserved_for.is_none();
        let is_beside = is_unreserved && !payment.submitted.authorization.is_payer_deposit();
        let state = snapshot.state.filter(|_| !is_beside);
        match (state, stage) {
            // The money is where the stream says.
            (Some(State::Released), Stage::Rest) if payment.released.is_some() => None,
            (Some(State::Refunded), Stage::Rest) if payment.refunded.is_some() => None,
            (None, Stage::Rest) if payment.secured.is_none() && payment.opened.is_none() => None,
            (
                None,
                Stage::Funding
                | Stage::Watching
                | Stage::Withdrawn
                | Stage::Auction
                | Stage::Awarded
                | Stage::Depositing,
            ) => Some(self.without_escrow(snapshot)),
            (None, Stage::Refunding) if payment.held.is_some() => {
                let what = "the money is at the deposit address, and about to go back".to_owned();
                Some((Severity::Open, "open", what))
            }
            (Some(State::Deposited | State::Reserved), _) if !at_rest => {
                let since = time(plan.refund_after);
                Some(match late(plan.refund_after) {
                    true => {
                        let what =
                            format!("money is in escrow, in stage {stage:?}, that may be refunded since {since}");
                        (Severity::Contradiction, "overdue", what)
                    }
                    false => {
                        let what =
                            format!("under way, in stage {stage:?}; the money is in escrow, refundable from {since}");
                        (Severity::Open, "open", what)
                    }
                })
            }
            // The chain is further than the stream. When it came so far is searched for only here: old events are far away.
            (Some(State::Released | State::Refunded), _) if !at_rest => {
                let (end, since) = match node.escrow_state(&payment.submitted.payment_id, plan).await {
                    Ok(EscrowState::Released(inclusion)) => ("released", inclusion),
                    Ok(EscrowState::Refunded(refunded)) => ("refunded", refunded.inclusion),
                    Ok(_) => return Some((Severity::Unverifiable, "tail", "the node contradicts itself".to_owned())),
                    Err(fault) => return Some((Severity::Unverifiable, "tail", fault.to_string())),
                };
                let severity = if late(since.block_time) { Severity::Missing } else { Severity::Open };
                let place = since.transaction_hash;
                Some((severity, "tail", format!("the escrow was {end} by {place}, the stream ends in stage {stage:?}")))
            }
            // The stream has ended otherwise than the chain.
            (state, _) => {
                let what = format!("the stream ends in stage {stage:?}, and the escrow's state is {state:?}");
                Some((Severity::Contradiction, "tail", what))
            }
        }
    }

    /// What there is to say of a payment under way for which nothing is in escrow.
    fn without_escrow(&self, snapshot: &EscrowSnapshot) -> (Severity, &'static str, String) {
        let (stage, end) = (self.payment.stage(), self.payment.submitted.escrow.reserve_deadline);
        let late = self.is_late(snapshot, end);
        match stage {
            Stage::Funding if !late => (
                Severity::Open,
                "open",
                format!("the money is awaited at the deposit address; deposits end {}", time(end)),
            ),
            // The payer's own transaction may still come; nothing else is under way.
            Stage::Watching if late => (
                Severity::Contradiction,
                "overdue",
                format!("no deposit was made until {}, and the stream does not say so", time(end)),
            ),
            Stage::Watching => {
                (Severity::Open, "open", format!("failed; the payer's deposit may come until {}", time(end)))
            }
            Stage::Withdrawn => {
                let what = "failed before the escrow; the settler that had won is yet to be told".to_owned();
                (Severity::Open, "open", what)
            }
            _ if late => (
                Severity::Contradiction,
                "overdue",
                format!("no deposit was made until {}, and the payment has not ended", time(end)),
            ),
            _ => (Severity::Open, "open", format!("under way, in stage {stage:?}; nothing is in escrow")),
        }
    }

    /// Whether the stream should have told of what was due then.
    fn is_late(&self, snapshot: &EscrowSnapshot, since: u64) -> bool {
        snapshot.settled_time > since.saturating_add(self.chains.lag_seconds)
    }

    async fn destination(&mut self) {
        // An award that is not reserved yet is no promise to anybody.
        for round in self.rounds.iter().filter(|round| round.is_reserved()) {
            self.delivery(round).await;
        }
    }

    /// The delivery for one reservation, which the stream tells, or that there is none, where the reservation lapsed.
    async fn delivery(&mut self, round: &'a Round<'a>) {
        let (payment, case) = (self.payment, self.case_of(round));
        let told = match (&payment.confirmed, &payment.finalized, &payment.seen) {
            _ if round.lapsed.is_some() => None,
            (Some(confirmed), ..) => Some((&confirmed.inclusion, "FulfillmentConfirmed")),
            (None, Some(finalized), _) => Some((&finalized.inclusion, "FulfillmentFinalized")),
            (None, None, Some(seen)) if payment.attestation_awaited => Some((seen, "AttestationAwaited")),
            _ => None,
        };
        let said = self.said(&case, round).await;
        let event = told.map(|(_, event)| event).or(round.lapsed.map(|_| "ReservationLapsed"));
        let Some(event) = event.or(said.first().map(Said::event)) else { return };
        let Some(chain) = self.chain(case.quote.destination.asset().chain(), event) else { return };
        let node = chain.audit.as_ref();
        let proxy = &case.quote.fulfillment_proxy;
        if !node.config().trusts_proxy(proxy) {
            let what = format!("proxy {proxy} of {} is not one that the configuration trusts", node.config().chain_id);
            return self.find(Severity::Unverifiable, "contract", event, what);
        }
        if let Some((inclusion, event)) = told {
            let asked = node.audit_delivery(&case, inclusion).await;
            self.take("delivery", event, asked);
        }
        self.judge(chain, round, &said).await;
    }
}

/// The transaction that an event journals before it is sent.
fn transaction_of(event: &PaymentEvent) -> Option<&TransactionPrepared> {
    match event {
        PaymentEvent::DepositPrepared(transaction)
        | PaymentEvent::DepositRepriced(transaction)
        | PaymentEvent::ReassignmentPrepared(transaction)
        | PaymentEvent::ReassignmentRepriced(transaction)
        | PaymentEvent::ReleasePrepared(transaction)
        | PaymentEvent::ReleaseRepriced(transaction)
        | PaymentEvent::RefundPrepared(transaction)
        | PaymentEvent::RefundRepriced(transaction) => Some(transaction),
        _ => None,
    }
}

fn time(seconds: u64) -> String {
    let at = i64::try_from(seconds).ok().and_then(|seconds| DateTime::from_timestamp(seconds, 0));
    at.map_or_else(|| seconds.to_string(), |at| at.to_rfc3339_opts(SecondsFormat::Secs, true))
}
