//! Attestations of one delivery: all verifiers of the payment are asked side by side, until as many have signed as its escrow
//! takes. A single verifier is a set of one.

use std::{collections::HashMap, future::Future};

use tokio::task::{Id, JoinSet};
use tracing::Instrument;

use chains::perform::PerformError;
use events::{Account, VerifierMember, event::VerifierRef};
use protocol::{AttestationResponse, AttestationStatus};

use crate::verifier;

/// Why the attestation cannot be had for now.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Missing {
    #[error(transparent)]
    Verifier(#[from] verifier::Error),
    #[error("the verifier refuses: {0}")]
    Refused(String),
    #[error("verifier {0} gave a signature that is not its own")]
    Forged(Account),
}

/// What the verifiers have signed so far, and who is being asked.
///
/// What was signed is kept. A verifier that is slow is not waited for when enough others have answered; its answer is taken up
/// when it is there.
pub(crate) struct Attestations {
    verifier: VerifierRef,
    signed: Vec<(Account, String)>,
    asked: JoinSet<Result<AttestationResponse, verifier::Error>>,
    /// Who is being asked, by the task that does.
    under_way: HashMap<Id, Account>,
}

/// What verifiers said since they were last asked, besides signing.
#[derive(Default)]
struct Round {
    pending: usize,
    refused: usize,
    /// Why the first of them refused.
    reason: String,
    /// The first fault.
    fault: Option<Missing>,
}

impl Attestations {
    /// Nobody has signed or was asked.
    pub(crate) fn new(verifier: VerifierRef) -> Self {
        Self { verifier, signed: Vec::new(), asked: JoinSet::new(), under_way: HashMap::new() }
    }

    /// What the escrow takes for the word of the releaser; `None` while too few have signed.
    pub(crate) fn word(&self) -> Option<String> {
        self.verifier.attestation(self.signed.iter().map(|(member, signature)| (member, signature.as_str())))
    }

    /// The escrow was not released by the word: what it refused, or what nobody could check before, is asked for anew.
    pub(crate) fn release_failed(&mut self, error: &PerformError) {
        if self.verifier.set.is_none() || !matches!(error, PerformError::Transient(_)) {
            self.signed.clear();
        }
    }

    /// Asks by `ask` whoever has not signed and is not being asked. `Ok(None)` when the verifiers have seen too little yet. Of a
    /// set's members a signature is taken only when `is_own` says that it is the member's; a single verifier may be a contract,
    /// whose word only the escrow can judge.
    ///
    /// # Errors
    /// [`Missing::Refused`] when so many refuse that too few are left, else what stands in the way.
    pub(crate) async fn gather<F>(
        &mut self,
        ask: impl Fn(VerifierMember) -> F,
        is_own: impl Fn(&Account, &str) -> bool,
    ) -> Result<Option<String>, Missing>
    where
        F: Future<Output = Result<AttestationResponse, verifier::Error>> + Send + 'static,
    {
        for member in self.verifier.members() {
            let account = member.account.clone();
            let has_signed = self.signed.iter().any(|(signer, _)| *signer == account);
            if !has_signed && !self.under_way.values().any(|asked| *asked == account) {
                let task = self.asked.spawn(ask(member).in_current_span());
                self.under_way.insert(task.id(), account);
            }
        }
        let mut round = Round::default();
        loop {
            if let Some(word) = self.word() {
                return Ok(Some(word));
            }
            if !self.is_worth_waiting(&round) {
                return self.outcome(round);
            }
            let Some(answered) = self.asked.join_next_with_id().await else { return self.outcome(round) };
            match answered {
                Ok((task, answer)) => {
                    if let Some(member) = self.under_way.remove(&task) {
                        self.take(member, answer, &mut round, &is_own);
                    }
                }
                Err(error) => drop(self.under_way.remove(&error.id())),
            }
        }
    }

    /// Whether those who are being asked can still make them enough, and as many others have not answered already.
    fn is_worth_waiting(&self, round: &Round) -> bool {
        let (signed, threshold) = (self.signed.len(), self.verifier.threshold());
        signed + self.under_way.len() >= threshold && signed + round.pending + round.refused < threshold
    }

    fn take(
        &mut self,
        member: Account,
        answer: Result<AttestationResponse, verifier::Error>,
        round: &mut Round,
        is_own: impl Fn(&Account, &str) -> bool,
    ) {
        let fault = match answer {
            Ok(AttestationResponse { status: AttestationStatus::Attested, signature: Some(signature), .. }) => {
                if self.verifier.set.is_none() || is_own(&member, &signature) {
                    self.signed.push((member, signature));
                    return;
                }
                tracing::warn!(verifier = %member, "a verifier gave a signature that is not its own");
                Missing::Forged(member)
            }
            Ok(AttestationResponse { status: AttestationStatus::Refused, reason, .. }) => {
                if round.refused == 0 {
                    round.reason = reason.unwrap_or_default().chars().take(protocol::TEXT_CHARS_MAX).collect();
                }
                round.refused += 1;
                return;
            }
            // Attested without a signature is no message of the protocol.
            Ok(AttestationResponse { status: AttestationStatus::Pending | AttestationStatus::Attested, .. }) => {
                round.pending += 1;
                return;
            }
            Err(fault) => fault.into(),
        };
        round.fault = round.fault.take().or(Some(fault));
    }

    fn outcome(&self, round: Round) -> Result<Option<String>, Missing> {
        let threshold = self.verifier.threshold();
        if self.verifier.members().len() < threshold + round.refused {
            return Err(Missing::Refused(round.reason));
        }
        // Those that may still sign are not held up by one that is away.
        let hopeful = self.signed.len() + round.pending + self.under_way.len();
        match round.fault {
            Some(fault) if hopeful < threshold => Err(fault),
            _ => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests;
