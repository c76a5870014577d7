//! Progress: brings one contract to the chain, from wherever it stands.

use tokio::time::Instant;

use chains::deployment::{DeployError, Notes};
use events::Account;

use super::{
    Part, TronDeployment,
    noted::Noted,
    survey::{Standing, check_funds},
    unanswered,
};
use crate::{
    address::{account, account_of, text},
    creation::SignedCreation,
};

/// How far a contract is brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Milestone {
    /// It is in a block, which a fork can take away.
    Included,
    /// It is in a solidified block.
    Settled,
}

/// One contract on its way.
pub(super) struct Progress<'a> {
    deployment: &'a TronDeployment,
    part: &'a Part,
    notes: &'a dyn Notes,
    tell: &'a (dyn Fn(&str) + Sync),
    /// The transaction that is looked after.
    creation: Option<SignedCreation>,
    /// Whether this run made it: a run makes one of each contract at most.
    is_own: bool,
    sent_at: Option<Instant>,
    /// Why a node did not take it, the last time that one did not.
    refusal: Option<String>,
    /// What was told last.
    told: String,
}

impl<'a> Progress<'a> {
    /// Nothing was done for `part` yet.
    pub fn new(
        deployment: &'a TronDeployment,
        part: &'a Part,
        notes: &'a dyn Notes,
        tell: &'a (dyn Fn(&str) + Sync),
    ) -> Self {
        Self {
            deployment,
            part,
            notes,
            tell,
            creation: None,
            is_own: false,
            sent_at: None,
            refusal: None,
            told: String::new(),
        }
    }

    /// Brings the contract as far as `milestone`, and says where it is.
    ///
    /// # Errors
    /// [`DeployError`]. Once the transaction is noted, a node that does not answer is no reason to end but
    /// [`Pace::wait_max`](super::Pace::wait_max) is.
    pub async fn reach(&mut self, milestone: Milestone) -> Result<Account, DeployError> {
        let started = Instant::now();
        loop {
            let creation = self.creation().await?;
            let mut hindrance = self.refusal.clone();
            match self.deployment.standing(&creation).await {
                Ok(standing) => {
                    if self.look(&creation, standing, milestone).await? {
                        let zero = || self.refused("it has the zero address".to_owned());
                        return account(creation.contract()).ok_or_else(zero);
                    }
                }
                Err(fault) => hindrance = Some(fault.to_string()),
            }
            if started.elapsed() >= self.deployment.pace.wait_max {
                let (waited, id) = (self.deployment.pace.wait_max.as_secs(), creation.signed.id);
                let last =
                    hindrance.map(|hindrance| format!("; the last that was said: {hindrance}")).unwrap_or_default();
                return Err(unanswered(format_args!(
                    "{}: transaction {id} got no further within {waited} s{last}",
                    self.part.name
                )));
            }
            tokio::time::sleep(self.deployment.pace.look_every).await;
        }
    }

    /// The transaction that is looked after: the noted one, or one that is made now.
    async fn creation(&mut self) -> Result<SignedCreation, DeployError> {
        if let Some(creation) = &self.creation {
            return Ok(creation.clone());
        }
        let noted = Noted::read(self.notes, self.part, self.deployment.connection.chain_id())?;
        let creation = match noted.filter(|noted| noted.failure.is_none()) {
            Some(noted) => noted.creation,
            None => self.make().await?,
        };
        self.creation = Some(creation.clone());
        Ok(creation)
    }

    /// Signs a transaction and notes it. It is sent when it was looked for.
    async fn make(&mut self) -> Result<SignedCreation, DeployError> {
        let (deployment, payer) = (self.deployment, self.deployment.payer()?);
        let prices = deployment.connection.prices().await.map_err(unanswered)?;
        let quote = deployment.quote(self.part, &prices).await?;
        let resources = deployment.connection.resources(payer.address()).await.map_err(unanswered)?;
        check_funds(&account_of(&payer.clone().into()), &quote.cost, &resources, &prices)?;
        let creation = quote.creation.sign(payer);
        let noted = Noted { creation, failure: None };
        noted.write(self.notes, self.part, deployment.connection.chain_id())?;
        (self.is_own, self.sent_at, self.refusal) = (true, None, None);
        Ok(noted.creation)
    }

    /// Does what follows from where the transaction stands; whether `milestone` is reached.
    async fn look(
        &mut self,
        creation: &SignedCreation,
        standing: Standing,
        milestone: Milestone,
    ) -> Result<bool, DeployError> {
        let (name, id) = (self.part.name, creation.signed.id);
        match standing {
            Standing::Settled { failure: None } => {
                self.say(format!("{name} is at {}", text(creation.contract())));
                Ok(true)
            }
            Standing::Settled { failure: Some(failure) } => {
                let noted = Noted { creation: creation.clone(), failure: Some(failure.clone()) };
                noted.write(self.notes, self.part, self.deployment.connection.chain_id())?;
                Err(self.refused(format!("transaction {id} failed, and another is made by the next run: {failure}")))
            }
            Standing::Included { block, settled, failure: None } => {
                let left = block.saturating_sub(settled);
                self.say(format!(
                    "{name}: transaction {id} is in block {block}, and solidified with {left} blocks more"
                ));
                Ok(milestone == Milestone::Included)
            }
            Standing::Included { block, failure: Some(failure), .. } => {
                self.say(format!(
                    "{name}: transaction {id} failed in block {block}, which is not solidified: {failure}"
                ));
                Ok(false)
            }
            Standing::Open => {
                let due = self.sent_at.is_none_or(|at| at.elapsed() >= self.deployment.pace.resend_after);
                if due {
                    self.send(creation).await;
                }
                Ok(false)
            }
            Standing::Lost { evidence } if self.is_own => {
                let said = self.refusal.as_ref().map(|said| format!("; a node said: {said}")).unwrap_or_default();
                Err(self.refused(format!("{evidence}{said}; another transaction is made by the next run")))
            }
            Standing::Lost { evidence } => {
                self.say(format!("{name}: {evidence}; another transaction takes its place"));
                self.creation = Some(self.make().await?);
                Ok(false)
            }
        }
    }

    /// Sends the noted bytes. Neither silence nor a refusal says what becomes of the transaction, so it is watched all the same.
    async fn send(&mut self, creation: &SignedCreation) {
        let (name, id) = (self.part.name, creation.signed.id);
        self.say(format!("{name}: transaction {id} is sent, to deploy at {}", text(creation.contract())));
        self.refusal =
            self.deployment.connection.broadcast(&creation.signed.bytes).await.err().map(|why| why.to_string());
        self.sent_at = Some(Instant::now());
        if let Some(why) = &self.refusal {
            self.say(format!("{name}: the node did not take transaction {id}, which is watched all the same: {why}"));
        }
    }

    fn say(&mut self, what: String) {
        if self.told != what {
            (self.tell)(&what);
            self.told = what;
        }
    }

    fn refused(&self, reason: String) -> DeployError {
        DeployError::Refused { step: self.part.name.to_owned(), reason }
    }
}
