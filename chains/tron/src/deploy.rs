//! Deployment: puts `GatewayEscrow`, `FulfillmentProxy` and `TronDepositAddresses` on a Tron chain, where it is wished with a
//! Permit2 of one's own, and compares what is there with what should be.
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

use alloy::{
    primitives::{Address, B256},
    signers::local::PrivateKeySigner,
};
use async_trait::async_trait;

use chains::{
    config::{ApiKey, TronConfig},
    deployment::{Contracts, DeployError, Deployment, Finding, Guardian, Notes, Plan},
};
use escrow_abi::contracts::word;
use events::{Account, ChainId, Hash32};

pub(super) use part::Part;

use super::{
    address::{ConvertError, account, address},
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
    /// By what the escrow draws.
    pub permit2: Permit2,
}

/// The Permit2 of an escrow that is to be made (ADR 156).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Permit2 {
    /// None: payers deposit by transactions of their own.
    None,
    /// The one at this address.
    At {
        /// The address.
        account: Account,
        /// The hash of its code, where it is another compilation than this version's, and somebody compared it.
        code: Option<Hash32>,
    },
    /// One that is made before the escrow.
    Own,
}

impl Permit2 {
    /// The Permit2 of a chain's configuration.
    pub fn configured(config: &TronConfig) -> Self {
        match config.permit2.clone() {
            Some(account) => Self::At { account, code: config.permit2_code },
            None => Self::None,
        }
    }

    fn known_code(&self) -> Option<B256> {
        match self {
            Self::At { code, .. } => code.map(word),
            Self::None | Self::Own => None,
        }
    }
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
    permit2: Permit2,
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
            permit2: settings.permit2.clone(),
            payer,
            pace: Pace::default(),
        })
    }

    /// The same at another pace.
    pub fn with_pace(self, pace: Pace) -> Self {
        Self { pace, ..self }
    }

    /// What is to be there, in the order in which it is made, with an escrow that draws by `permit2`.
    fn parts(&self, permit2: Address) -> Result<[Part; 3], DeployError> {
        let unfit = || DeployError::Unfit("a guardian is needed, or the word that there is none".to_owned());
        let escrow = Part::escrow(permit2, self.reserver, self.guardian.ok_or_else(unfit)?);
        Ok([escrow, Part::proxy(), Part::deposit_address_factory()])
    }

    /// The Permit2 that is there already, looked through: what an escrow is made with can't be changed later.
    async fn existing_permit2(&self) -> Result<Option<Address>, DeployError> {
        let Permit2::At { account, .. } = &self.permit2 else { return Ok(None) };
        let permit2 = address(account).map_err(|error| DeployError::Unfit(error.to_string()))?;
        let findings = self.compare_permit2(permit2).await?;
        match findings.into_iter().find_map(|Finding { subject, fault }| Some(format!("{subject}: {}", fault?))) {
            Some(fault) => Err(DeployError::Unfit(fault)),
            None => Ok(Some(permit2)),
        }
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
        let survey = self.survey(notes).await?;
        survey.check_funds()?;
        let permit2 = match self.permit2 {
            // The escrow is made with its address, which another would not have.
            Permit2::Own => {
                let part = Part::permit2();
                let made = Progress::new(self, &part, notes, tell).reach(Milestone::Settled).await?;
                Some(address(&made).map_err(unanswered)?)
            }
            Permit2::At { .. } | Permit2::None => survey.permit2,
        };
        let [escrow, proxy, addresses] = &self.parts(permit2.unwrap_or_default())?;
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
            permit2: permit2.and_then(account),
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
