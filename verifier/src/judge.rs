//! The judge that looks at the chains.

use async_trait::async_trait;

use chains::verifier::{Outcome, Verifier};
use sagas::ports::{Transient, VerificationCase};

use super::{Judge, Verdict};

#[async_trait]
impl Judge for Verifier {
    fn screen(&self, case: &VerificationCase) -> Result<(), String> {
        Self::screen(self, case)
    }

    async fn delivery(&self, case: &VerificationCase) -> Result<Verdict, Transient> {
        self.attest_delivery(case).await.map(Verdict::from)
    }

    async fn non_delivery(&self, case: &VerificationCase) -> Result<Verdict, Transient> {
        self.attest_non_delivery(case).await.map(Verdict::from)
    }
}

impl From<Outcome> for Verdict {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Attested(signature) => Self::Attested { signature },
            Outcome::NotYet(reason) => Self::Pending { reason },
            Outcome::Refused(reason) => Self::Refused { reason },
        }
    }
}
