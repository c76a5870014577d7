//! Deployment: puts `GatewayEscrow`, `FulfillmentProxy` and `TronDepositAddresses` on a Tron chain, and compares what is there with what should be.
//!
//! Each contract is one transaction, signed and noted before it is sent. A transaction of Tron has one id, lands once at most,
//! and in no block whose parent's time has reached its expiration. So what is noted is looked for before anything is made: it is
//! sent again, the same bytes, until a block has it, and another takes its place only when a *solidified* block's time has reached
//! its expiration and it is in none. However a run ends, no contract is paid for twice.

mod cost;
mod noted;
mod part;
mod progress;
mod survey;
mod verify;

use std::time::Duration;

use alloy::{primitives::Address, signers::local::PrivateKeySigner};
use async_trait::async_trait;

use chains::{
    config::ApiKey,
    deployment::{Contracts, DeployError, Deployment, Finding, Guardian, Notes, Plan},
};
use events::{Account, ChainId};

pub(super) use part::Part;

use super::{
    address::{ConvertError, address},
    connection::{ConnectError, Connection},
};
use progress::{Milestone, Progress};

/// What the contracts are made for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The chain. A node of another one is refused.
    pub chain_id: ChainId,
    /// The gateway's account, which admits deposits and names settlers.
    pub reserver: Account,
    /// Who may retire the escrow and propose another reserver.
    pub guardian: Guardian,
}

/// How long a [`TronDeployment`] waits for what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    /// Time between two looks at the chain.
    pub look_every: Duration,
    /// A transaction that is in no block is sent again after so long: nodes forget.
    pub resend_after: Duration,
    /// Longest that a run waits for one contract to get further. The next run goes on from there.
    pub wait_max: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            look_every: Duration::from_secs(1),
            resend_after: Duration::from_secs(6),
            wait_max: Duration::from_secs(10 * 60),
        }
    }
}

/// Why there is no deployment.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// The node cannot be connected to by what is configured.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// Reserver or guardian is not a Tron account.
    #[error(transparent)]
    Account(#[from] ConvertError),
}

/// The contracts of one chain. `plan` and `run` need a payer; `verify` does not.
#[derive(Debug)]
pub struct TronDeployment {
    connection: Connection,
    reserver: Address,
    /// Zero for nobody; none where any will do.
    guardian: Option<Address>,
    payer: Option<PrivateKeySigner>,
    pace: Pace,
}

impl TronDeployment {
    /// The contracts for `settings` through the node at `rpc_url`, the address under which `/wallet` and `/walletsolidity` are.
    /// `payer` signs and pays; `timeout` is the longest that one call of the node takes. Nothing is sent yet.
    ///
    /// # Errors
    /// [`SetupError`] when that cannot be meant.
    pub fn new(
        rpc_url: &str,
        api_key: Option<&ApiKey>,
        settings: &Settings,
        payer: Option<PrivateKeySigner>,
        timeout: Duration,
    ) -> Result<Self, SetupError> {
        Ok(Self {
            connection: Connection::new(&settings.chain_id, rpc_url, api_key, timeout)?,
            reserver: address(&settings.reserver)?,
            guardian: match &settings.guardian {
                Guardian::Account(account) => Some(address(account)?),
                Guardian::Nobody => Some(Address::ZERO),
                Guardian::Any => None,
            },
            payer,
            pace: Pace::default(),
        })
    }

    /// The same at another pace.
    pub fn with_pace(self, pace: Pace) -> Self {
        Self { pace, ..self }
    }

    /// What is to be there, in the order in which it is made.
    fn parts(&self) -> Result<[Part; 3], DeployError> {
        let unfit = || DeployError::Unfit("a guardian is needed, or the word that there is none".to_owned());
        let escrow = Part::escrow(self.reserver, self.guardian.ok_or_else(unfit)?);
        Ok([escrow, Part::proxy(), Part::deposit_address_factory()])
    }

    fn payer(&self) -> Result<&PrivateKeySigner, DeployError> {
        self.payer.as_ref().ok_or_else(|| DeployError::Unfit("there is no key of a payer".to_owned()))
    }

    /// Refuses a node of another chain.
    async fn check(&self) -> Result<(), DeployError> {
        let (found, expected) = (self.connection.first_block().await.map_err(unanswered)?, self.connection.chain_id());
        if found.reference() == self.connection.reference() {
            return Ok(());
        }
        let found = found.reference();
        Err(DeployError::Unfit(format!("the node is of the chain tron:{found}, and {expected} was expected")))
    }
}

#[async_trait]
impl Deployment for TronDeployment {
    async fn plan(&self, notes: &dyn Notes) -> Result<Plan, DeployError> {
        Ok(self.survey(notes).await?.plan())
    }

    async fn run(&self, notes: &dyn Notes, tell: &(dyn for<'a> Fn(&'a str) + Sync)) -> Result<Contracts, DeployError> {
        self.survey(notes).await?.check_funds()?;
        let [escrow, proxy, addresses] = &self.parts()?;
        let mut escrow = Progress::new(self, escrow, notes, tell);
        let mut proxy = Progress::new(self, proxy, notes, tell);
        let mut addresses = Progress::new(self, addresses, notes, tell);
        escrow.reach(Milestone::Included).await?;
        proxy.reach(Milestone::Included).await?;
        addresses.reach(Milestone::Included).await?;
        // What is in a block can still be taken away by a fork, and is brought there again then.
        Ok(Contracts {
            escrow: escrow.reach(Milestone::Settled).await?,
            proxy: proxy.reach(Milestone::Settled).await?,
            deposit_address_factory: Some(addresses.reach(Milestone::Settled).await?),
        })
    }

    async fn verify(&self, contracts: &Contracts) -> Result<Vec<Finding>, DeployError> {
        self.check().await?;
        self.compare(contracts).await
    }
}

/// The node gave no answer that helps; nothing follows from it.
fn unanswered(fault: impl std::fmt::Display) -> DeployError {
    DeployError::Unanswered(fault.to_string())
}
