//! Gathering of attestations: all verifiers of a payment are asked side by side, until as many have signed as its escrow takes.

use std::time::Duration;

use futures::{StreamExt, stream};

use events::{
    VerifierMember,
    event::{MemberAttested, VerifierRef},
    mutant,
    verifier_set::MEMBERS_MAX,
};

use super::Ports;
use crate::ports::{Statement, Transient, VerificationCase};

/// How long members that have not answered are waited for once others have, too few of whom signed.
const GRACE: Duration = Duration::from_secs(1);

/// What the verifiers of a payment have said of a statement so far. What was given is kept when the asking is broken off.
pub(super) struct Gathering<'a> {
    ports: &'a Ports,
    verifier: &'a VerifierRef,
    case: &'a VerificationCase,
    statement: &'a Statement,
    /// All who signed, those that are on record first.
    signed: Vec<MemberAttested>,
    /// How many of them are on record.
    known: usize,
    /// How many said that it is not so, or not yet.
    denied: usize,
    /// The first fault of those who gave no answer.
    fault: Option<Transient>,
}

impl<'a> Gathering<'a> {
    /// Nobody was asked yet; `known` have signed before.
    pub fn new(
        ports: &'a Ports,
        verifier: &'a VerifierRef,
        case: &'a VerificationCase,
        statement: &'a Statement,
        known: &[MemberAttested],
    ) -> Self {
        Self { ports, verifier, case, statement, signed: known.to_vec(), known: known.len(), denied: 0, fault: None }
    }

    /// Asks everyone who has not signed, and returns once enough have, or all have answered. Where those who answered would be
    /// enough if they all signed, whoever has not answered is waited for no longer than [`GRACE`]: what a member that lags says is
    /// asked for again sooner than one that is silent is heard.
    pub async fn ask(&mut self) {
        let unasked: Vec<_> = self
            .verifier
            .members()
            .into_iter()
            .filter(|member| self.signed.iter().all(|signed| signed.member != member.account))
            .map(|member| {
                let (ports, verifier, case, statement) = (self.ports, self.verifier, self.case, self.statement);
                async move {
                    let answer = statement_of(ports, verifier, &member, case, statement).await;
                    (member.account, answer)
                }
            })
            .collect();
        let at_once = if mutant!("members-in-turn") { 1 } else { MEMBERS_MAX };
        let mut asked = stream::iter(unasked).buffer_unordered(at_once);
        let clock = &self.ports.clock;
        let mut grace = None;
        while !self.is_enough() {
            let next = if self.are_enough_heard() {
                let grace = grace.get_or_insert_with(|| clock.sleep(GRACE));
                tokio::select! {
                    biased;
                    next = asked.next() => next,
                    () = grace => None,
                }
            } else {
                asked.next().await
            };
            let Some((member, answer)) = next else { break };
            match answer {
                Ok(Some(signature)) => {
                    let attested_at = self.ports.clock.now();
                    let times = if mutant!("member-counted-twice") { 2 } else { 1 };
                    let attested = MemberAttested { member, signature, attested_at };
                    self.signed.extend(vec![attested; times]);
                }
                Ok(None) => self.denied += 1,
                Err(fault) => self.fault = self.fault.take().or(Some(fault)),
            }
        }
    }

    fn is_enough(&self) -> bool {
        self.signed.len() >= self.verifier.threshold() || self.first_word().is_some()
    }

    /// Whether those who answered would be enough if they all signed.
    fn are_enough_heard(&self) -> bool {
        self.signed.len() + self.denied >= self.verifier.threshold()
    }

    /// In a broken variant, the first member's non-delivery, which is taken for the word of all.
    fn first_word(&self) -> Option<String> {
        let is_taken = mutant!("one-speaks-for-all") && matches!(self.statement, Statement::NonDelivery { .. });
        self.signed.first().filter(|_| is_taken).map(|signed| signed.signature.clone())
    }

    /// What the escrow takes for the word of all; `None` while too few have signed.
    pub fn attestation(&self) -> Option<String> {
        let signed = self.signed.iter().map(|signed| (&signed.member, signed.signature.as_str()));
        self.first_word().or_else(|| self.verifier.attestation(signed))
    }

    /// Whether so many say that it is not so that, whatever the others say, too few are left.
    pub fn is_denied(&self) -> bool {
        self.verifier.members().len() - self.denied.min(self.verifier.members().len()) < self.verifier.threshold()
    }

    /// The first fault of those who gave no answer, where too few gave one for it to come to enough.
    pub fn fault(&mut self) -> Option<Transient> {
        self.fault.take().filter(|_| !self.are_enough_heard())
    }

    /// The members of a set whose signatures are not on record yet; none of a single verifier, whose signature is the word itself.
    pub fn given(self) -> Vec<MemberAttested> {
        match self.verifier.set {
            Some(_) => self.signed.into_iter().skip(self.known).collect(),
            None => Vec::new(),
        }
    }
}

/// The signature of one verifier under `statement`, believed only when the escrow would believe it.
async fn statement_of(
    ports: &Ports,
    verifier: &VerifierRef,
    member: &VerifierMember,
    case: &VerificationCase,
    statement: &Statement,
) -> Result<Option<String>, Transient> {
    let answer = match statement {
        Statement::Delivery { .. } => ports.verifier.attest_delivery(member, case).await?,
        Statement::NonDelivery { .. } => ports.verifier.attest_non_delivery(member, case).await?,
    };
    let Some(signature) = answer else { return Ok(None) };
    let holds = mutant!("attestation-not-checked")
        || match verifier.set {
            Some(_) => ports.chains.signed_by(statement, &case.escrow, &member.account, &signature).await?,
            None => ports.chains.attestation_holds(statement, &case.escrow, &signature).await?,
        };
    match holds {
        true => Ok(Some(signature)),
        false => Err(Transient::contradiction("the verifier's signature is not its statement")),
    }
}
