//! Run: what is there is looked at, the next thing is done, and what is there is looked at again, until nothing is left.
//!
//! So it does not matter where it stopped before, nor whether what was sent then landed. What nothing leads back from, the program
//! made of the buffer and the authority handed over, is done only upon what is finalized.

use ed25519_dalek::SigningKey;

use chains::deployment::DeployError;

use super::{
    cluster::Cluster,
    keypairs::{Keypairs, address},
    landing::{Batch, Landing, land},
    plan::Rents,
    progress::{Addresses, Progress, Stage, Target},
    step,
};
use crate::node::Commitment;

/// How often one thing is tried that has no effect.
const ATTEMPTS_MAX: u32 = 6;
/// How often one thing is tried that the chain refuses. A node that lags refuses what is right.
const REFUSALS_MAX: u32 = 3;

/// A deployment that is under way.
pub(super) struct Run<'a> {
    pub cluster: &'a Cluster,
    pub payer: &'a SigningKey,
    pub keypairs: &'a Keypairs,
    pub target: &'a Target,
    pub rents: &'a Rents,
    pub tell: &'a (dyn Fn(&str) + Sync),
}

/// What was tried at one stage, all of it in vain.
#[derive(Default)]
struct Tries {
    stage: Option<Stage>,
    attempts: u32,
    refusals: u32,
    last: Landing,
}

impl Tries {
    /// Begins anew at another stage than before.
    fn at(&mut self, stage: &Stage) {
        if self.stage.as_ref() != Some(stage) {
            *self = Self { stage: Some(stage.clone()), ..Self::default() };
        }
    }

    /// Whether the same may be tried once more.
    fn check(&self, step: &str) -> Result<(), DeployError> {
        if self.attempts < ATTEMPTS_MAX && self.refusals < REFUSALS_MAX {
            return Ok(());
        }
        let in_vain = || match &self.last.fault {
            Some(fault) => format!("no transaction landed in time: {fault}"),
            None => format!("no transaction had an effect in {} attempts", self.attempts),
        };
        let reason = self.last.refusal.clone().unwrap_or_else(in_vain);
        Err(DeployError::Refused { step: step.to_owned(), reason })
    }

    /// Notes what became of an attempt.
    fn note(&mut self, landing: Landing) {
        self.attempts += 1;
        self.refusals += u32::from(landing.refusal.is_some());
        self.last = landing;
    }
}

impl Run<'_> {
    /// Does what is left.
    ///
    /// # Errors
    /// [`DeployError`].
    pub async fn complete(&self) -> Result<(), DeployError> {
        let addresses = Addresses::of(address(self.payer), self.keypairs);
        let poll = self.cluster.patience().poll;
        let (mut tries, mut at_least, mut unstable) = (Tries::default(), 0, 0);
        loop {
            let progress = self.progress(&addresses, Commitment::Confirmed, at_least).await?;
            let Progress { stage, slot, .. } = &progress;
            at_least = *slot;
            tries.at(stage);
            if tries.attempts > 0 {
                tokio::time::sleep(poll).await;
            }
            if is_final(stage) && !self.is_finalized(&addresses, &progress).await? {
                unstable += 1;
                if unstable >= ATTEMPTS_MAX {
                    return Err(DeployError::Unanswered("what is confirmed is never what is finalized".to_owned()));
                }
                continue;
            }
            if let Stage::Deployed { slot: deployed } = stage
                && slot <= deployed
            {
                // The loader does not let a program be called in the slot in which it was put there.
                at_least = deployed + 1;
                self.cluster.wait_for(at_least, Commitment::Confirmed).await?;
                continue;
            }
            let Some(step) = step::next(stage, &addresses, self.keypairs, self.target, self.rents) else {
                return Ok(());
            };
            tries.check(step.name)?;
            (self.tell)(&step.said);
            let mut signers = vec![self.payer];
            signers.extend(step.co_signer);
            let batch = Batch {
                transactions: &step.transactions,
                signers: &signers,
                writes: &step.writes,
                attempt: tries.attempts + 1,
                slot: *slot,
            };
            let landing = land(self.cluster, &batch, &|landed| self.tell_written(stage, landed)).await?;
            at_least = at_least.max(landing.slot);
            // Whatever became of the transactions: what counts is what is there now.
            tries.note(landing);
        }
    }

    fn tell_written(&self, stage: &Stage, landed: usize) {
        let (written, all) = stage.chunks();
        if written < all && matches!(stage, Stage::Buffered(_)) {
            (self.tell)(&format!("{} of {all} chunks written", written + landed));
        }
    }

    async fn progress(
        &self,
        addresses: &Addresses,
        commitment: Commitment,
        at_least: u64,
    ) -> Result<Progress, DeployError> {
        Progress::read(self.cluster, addresses, self.target, commitment, at_least).await
    }

    /// Whether what `progress` saw can no longer vanish, once its slot is finalized. Something else may be there by then: what was
    /// sent before and landed since, or the state before what vanished.
    async fn is_finalized(&self, addresses: &Addresses, progress: &Progress) -> Result<bool, DeployError> {
        self.cluster.wait_for(progress.slot, Commitment::Finalized).await?;
        let finalized = self.progress(addresses, Commitment::Finalized, progress.slot).await?;
        Ok(finalized.stage == progress.stage)
    }
}

/// Whether nothing leads back from what is done next, or nothing is left to do.
fn is_final(stage: &Stage) -> bool {
    match stage {
        Stage::Absent | Stage::Deployed { .. } => false,
        Stage::Buffered(missing) => missing.is_empty(),
        Stage::Initialized { .. } | Stage::Complete => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_effect_is_not_tried_for_ever() {
        let mut tries = Tries::default();
        tries.at(&Stage::Absent);
        for _ in 0..ATTEMPTS_MAX {
            tries.check("program").unwrap();
            tries.note(Landing::default());
            tries.at(&Stage::Absent);
        }
        assert!(tries.check("program").unwrap_err().to_string().contains("in 6 attempts"));
        // What had an effect begins anew.
        tries.at(&Stage::Buffered(vec![]));
        for _ in 0..REFUSALS_MAX {
            tries.check("program").unwrap();
            tries.note(Landing { refusal: Some("no".to_owned()), ..Landing::default() });
        }
        let error = tries.check("program").unwrap_err();
        assert_eq!(error.to_string(), "program: no");
    }
}
