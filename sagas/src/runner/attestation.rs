//! Gathering of attestations: all verifiers of a payment are asked side by side, until as many have signed as its escrow takes.

use std::{
    collections::{BTreeSet, VecDeque},
    time::Duration,
};

use futures::{StreamExt, stream::FuturesUnordered};

use events::{
    Account, VerifierMember,
    event::{MemberAttested, VerifierRef},
    mutant,
};

use super::Ports;
use crate::ports::{Statement, Transient, VerificationCase};

/// How long after it said so a member that does not see what it is to sign is asked again.
const AGAIN_AFTER: Duration = Duration::from_secs(1);

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
    /// Who said last that it is not so, or not yet.
    denied: BTreeSet<Account>,
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
        Self {
            ports,
            verifier,
            case,
            statement,
            signed: known.to_vec(),
            known: known.len(),
            denied: BTreeSet::new(),
            fault: None,
        }
    }

    /// Asks everyone who has not signed, and returns once enough have, or all have answered. Who says that it is not so, or not yet,
    /// is asked again every [`AGAIN_AFTER`] while others are still waited for: neither a silent member nor a slow one keeps what
    /// another has come to see from being heard.
    pub async fn ask(&mut self) {
        let (ports, verifier, case, statement) = (self.ports, self.verifier, self.case, self.statement);
        let ask = |member: VerifierMember, again: bool| async move {
            if again {
                ports.clock.sleep(AGAIN_AFTER).await;
            }
            let answer = statement_of(ports, verifier, &member, case, statement).await;
            (member, again, answer)
        };
        let mut unasked: VecDeque<_> = verifier.members().into();
        unasked.retain(|member| self.signed.iter().all(|signed| signed.member != member.account));
        let mut unheard = unasked.len();
        let at_once = if mutant!("members-in-turn") { unheard.min(1) } else { unheard };
        let mut asked: FuturesUnordered<_> = unasked.drain(..at_once).map(|member| ask(member, false)).collect();
        while !self.is_enough()
            && unheard > 0
            && let Some((member, again, answer)) = asked.next().await
        {
            if !again {
                unheard -= 1;
                asked.extend(unasked.pop_front().map(|next| ask(next, false)));
            }
            self.denied.remove(&member.account);
            match answer {
                Ok(Some(signature)) => {
                    let attested_at = ports.clock.now();
                    let times = if mutant!("member-counted-twice") { 2 } else { 1 };
                    let attested = MemberAttested { member: member.account, signature, attested_at };
                    self.signed.extend(vec![attested; times]);
                }
                Ok(None) => {
                    self.denied.insert(member.account.clone());
                    asked.push(ask(member, true));
                }
                Err(fault) => self.fault = self.fault.take().or(Some(fault)),
            }
        }
    }

    fn is_enough(&self) -> bool {
        self.signed.len() >= self.verifier.threshold() || self.first_word().is_some()
    }

    /// Whether those who answered would be enough if they all signed.
    fn are_enough_heard(&self) -> bool {
        self.signed.len() + self.denied.len() >= self.verifier.threshold()
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
        self.verifier.members().len() - self.denied.len() < self.verifier.threshold()
    }

    /// The first fault of those who gave no answer, where too few gave one for it to come to enough.
    pub fn fault(&mut self) -> Option<Transient> {
        self.fault.take().filter(|fault| !self.are_enough_heard() || matches!(fault, Transient::RateLimited(_)))
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
