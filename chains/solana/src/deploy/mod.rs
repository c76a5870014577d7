//! Deployment: puts the program on a cluster with the upgradeable loader, sets it up, and hands over who may replace it (ADR 129).
//!
//! [`SolanaDeployment`] looks at what is there (`progress`), does what is next (`step`, `landing`), and looks again (`run`), until
//! nothing is left. The program's bytes (`artifact`) go into a buffer, in as many transactions as there are parts; of the full
//! buffer the program is made, in one (`loader`). The key pairs of both are noted before anything is sent (`keypairs`), so that
//! whoever goes on finds what was begun. `plan` says what it costs, `verification` compares what is there, `authority` is who may
//! replace the program. A node is asked through `cluster`, and left alone by `back_off`.

mod artifact;
mod authority;
mod back_off;
mod cluster;
mod keypairs;
mod landing;
mod loader;
mod plan;
mod progress;
mod run;
mod step;
mod verification;

use std::time::Duration;

use async_trait::async_trait;
use ed25519_dalek::SigningKey;
use url::Url;

use chains::{
    deployment::{Contracts, DeployError, Deployment, Finding, Notes, Plan},
    nodes::http::ClientError,
};
use events::Account;
use gateway_program::Key;

use self::{
    authority::Wanted,
    cluster::Cluster,
    keypairs::{Keypairs, address},
    plan::{Rents, contracts, plan},
    progress::{Addresses, Progress, Stage, Target},
    run::Run,
};
use crate::{
    node::Commitment,
    program::{self, ConvertError, base58, holder},
};

pub use self::authority::UpgradeAuthority;

/// What the program is set up with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The cluster's genesis hash, Base58. A node of another cluster is refused.
    pub cluster_id: String,
    /// Who admits deposits. It cannot be changed afterwards.
    pub reserver: Account,
    /// Who may replace the program in the end.
    pub upgrade_authority: UpgradeAuthority,
}

/// How long a deployment waits for what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    /// Between two looks at what has not happened yet.
    pub poll: Duration,
    /// A transaction that nobody has seen for so long is sent again.
    pub resend_after: Duration,
    /// Longest that a node is asked again that does not answer.
    pub answered_within: Duration,
    /// Longest that a node is asked again that says that it is asked too often.
    pub admitted_within: Duration,
    /// Longest that a confirmed slot may take to be finalized.
    pub finalized_within: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            poll: Duration::from_millis(500),
            resend_after: Duration::from_secs(3),
            answered_within: Duration::from_secs(60),
            admitted_within: Duration::from_secs(600),
            finalized_within: Duration::from_secs(180),
        }
    }
}

/// Why a deployment cannot be meant.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// The endpoint is not a URL.
    #[error("the node's address is not a URL: {0}")]
    Url(#[from] url::ParseError),
    /// There can be no client.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The cluster is not named.
    #[error("{0:?} is not a genesis hash, Base58 of 32 bytes")]
    Cluster(String),
    /// An account is not of the Solana family.
    #[error(transparent)]
    Account(#[from] ConvertError),
}

/// The program on one cluster.
///
/// The payer pays, owns the buffer, and is the program's upgrade authority until it is set up and the authority is handed over. One
/// process at a time may deploy with the same notes.
pub struct SolanaDeployment {
    cluster: Cluster,
    target: Target,
    payer: Option<SigningKey>,
}

impl SolanaDeployment {
    /// The program on the cluster behind the node at `rpc_url`, of which each request may take `rpc_timeout`. Nothing is sent yet.
    /// Without a `payer` there is [`verify`](Deployment::verify) alone.
    ///
    /// # Errors
    /// [`SettingsError`].
    pub fn new(
        rpc_url: &str,
        settings: &Settings,
        payer: Option<SigningKey>,
        rpc_timeout: Duration,
    ) -> Result<Self, SettingsError> {
        let url: Url = rpc_url.parse()?;
        let cluster_id = base58(&settings.cluster_id);
        let cluster_id = cluster_id.ok_or_else(|| SettingsError::Cluster(settings.cluster_id.clone()))?;
        let reserver = program::key(&settings.reserver)?;
        let authority = Wanted::of(&settings.upgrade_authority)?;
        let target = Target { cluster_id, reserver, authority };
        Ok(Self { cluster: Cluster::new(&url, cluster_id, rpc_timeout)?, target, payer })
    }

    /// The same with another patience.
    pub fn with_patience(self, patience: Patience) -> Self {
        Self { cluster: self.cluster.with_patience(patience), ..self }
    }

    fn payer(&self) -> Result<&SigningKey, DeployError> {
        self.payer.as_ref().ok_or_else(|| DeployError::Unfit("a deployment needs a payer's key".to_owned()))
    }

    /// How far the program of these key pairs is; nothing is there before there are any.
    async fn progress(&self, payer: Key, keypairs: Option<&Keypairs>) -> Result<Progress, DeployError> {
        match keypairs {
            Some(keypairs) => {
                let addresses = Addresses::of(payer, keypairs);
                Progress::read(&self.cluster, &addresses, &self.target, Commitment::Confirmed, 0).await
            }
            None => {
                let found = self.cluster.accounts(&[payer], Commitment::Confirmed, 0).await?;
                let balance = found.account(0).map_or(0, |payer| payer.lamports);
                Ok(Progress { slot: found.slot, balance, stage: Stage::Absent })
            }
        }
    }

    /// The plan, and what accounts cost.
    async fn outline(&self, payer: Key, keypairs: Option<&Keypairs>) -> Result<(Plan, Rents), DeployError> {
        let progress = self.progress(payer, keypairs).await?;
        let rents = Rents::ask(&self.cluster).await?;
        let program = keypairs.map(|keypairs| address(&keypairs.program));
        Ok((plan(&progress, &payer, program.as_ref(), &self.target, &rents), rents))
    }
}

#[async_trait]
impl Deployment for SolanaDeployment {
    async fn plan(&self, notes: &dyn Notes) -> Result<Plan, DeployError> {
        let payer = address(self.payer()?);
        self.cluster.check().await?;
        let (plan, _) = self.outline(payer, Keypairs::noted(notes)?.as_ref()).await?;
        Ok(plan)
    }

    async fn run(&self, notes: &dyn Notes, tell: &(dyn for<'a> Fn(&'a str) + Sync)) -> Result<Contracts, DeployError> {
        let payer = self.payer()?;
        self.cluster.check().await?;
        let noted = Keypairs::noted(notes)?;
        let (plan, rents) = self.outline(address(payer), noted.as_ref()).await?;
        check_funds(&plan, &rents, address(payer))?;
        let keypairs = match noted {
            Some(keypairs) => keypairs,
            None => Keypairs::make(notes)?,
        };
        let run = Run { cluster: &self.cluster, payer, keypairs: &keypairs, target: &self.target, rents: &rents, tell };
        run.complete().await?;
        Ok(contracts(&address(&keypairs.program)))
    }

    async fn verify(&self, contracts: &Contracts) -> Result<Vec<Finding>, DeployError> {
        self.cluster.check().await?;
        verification::verify(&self.cluster, contracts, &self.target).await
    }
}

/// The payer must have what is left to pay, and afterwards what its own account needs.
fn check_funds(plan: &Plan, rents: &Rents, payer: Key) -> Result<(), DeployError> {
    let needed = plan.cost().saturating_add(rents.wallet.into());
    if plan.is_done() || plan.balance >= needed {
        return Ok(());
    }
    Err(DeployError::Funds { payer: holder(&payer), balance: plan.balance, needed })
}
