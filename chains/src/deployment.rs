//! Deployment: what puts the contracts of a payment on a chain, and compares what is there with what should be (ADR 129).
//!
//! A [`Deployment`] asks before it does anything, knows what is done already, and goes on where it stopped. What it sends
//! is noted before it is sent ([`Notes`]), so that nothing is paid for twice.

use async_trait::async_trait;
use serde_json::Value;

use events::Account;

/// The contracts of a chain; on Solana both are the program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Contracts {
    /// `GatewayEscrow`.
    pub escrow: Account,
    /// `FulfillmentProxy`.
    pub proxy: Account,
    /// The factory of deposit addresses, where its place follows from nothing else (Tron). Not verified where it is not named.
    pub deposit_address_factory: Option<Account>,
    /// The Permit2 that the escrow draws by, on Tron, where it is one (ADR 156). Not verified where it is not named.
    pub permit2: Option<Account>,
}

/// Who can end deposits of an escrow contract, and propose another reserver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Guardian {
    /// This account: a multi-signature account, as a rule.
    Account(Account),
    /// Nobody.
    Nobody,
    /// Whoever it is: only for who looks at what is there.
    Any,
}

/// What is to be done, and what of it is done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// Who pays.
    pub payer: Account,
    /// What the payer has, in the smallest unit of the chain's coin.
    pub balance: u128,
    /// The steps, in their order.
    pub steps: Vec<Step>,
    /// The contracts, where their addresses are known before they are there.
    pub contracts: Option<Contracts>,
}

impl Plan {
    /// What the steps that are left cost at most, in the smallest unit of the chain's coin.
    pub fn cost(&self) -> u128 {
        self.steps.iter().filter(|step| !step.is_done).map(|step| step.cost).sum()
    }

    /// Whether nothing is left to do.
    pub fn is_done(&self) -> bool {
        self.steps.iter().all(|step| step.is_done)
    }
}

/// One thing that has to be there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// What it is, for example `GatewayEscrow at 0x…`.
    pub title: String,
    /// Whether it is there.
    pub is_done: bool,
    /// What it costs at most, in the smallest unit of the chain's coin; rent that stays in an account counts.
    pub cost: u128,
}

/// One thing that was compared with what it has to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// What was looked at, for example `reserver of GatewayEscrow`.
    pub subject: String,
    /// What is wrong with it; `None` where it is as it has to be.
    pub fault: Option<String>,
}

impl Finding {
    /// It is as it has to be.
    pub fn good(subject: impl Into<String>) -> Self {
        Self { subject: subject.into(), fault: None }
    }

    /// It is not.
    pub fn bad(subject: impl Into<String>, fault: impl Into<String>) -> Self {
        Self { subject: subject.into(), fault: Some(fault.into()) }
    }

    /// Compares what is there with what has to be.
    pub fn compare<T: PartialEq + std::fmt::Display>(subject: impl Into<String>, found: &T, expected: &T) -> Self {
        let fault = (found != expected).then(|| format!("is {found}, and should be {expected}"));
        Self { subject: subject.into(), fault }
    }
}

/// Why a deployment did not go on.
#[derive(Debug, thiserror::Error)]
pub enum DeployError {
    /// The node did not answer as it should. Nothing is lost: the same call goes on from there.
    #[error("the node does not answer: {0}")]
    Unanswered(String),
    /// A node of another chain, or one that lacks something.
    #[error("{0}")]
    Unfit(String),
    /// The payer has not the coins for it.
    #[error("{payer} has {balance}, and needs {needed} of the coin's smallest unit")]
    Funds {
        /// Who pays.
        payer: Account,
        /// What it has.
        balance: u128,
        /// What is needed.
        needed: u128,
    },
    /// The chain refused a transaction, or it had no effect.
    #[error("{step}: {reason}")]
    Refused {
        /// What was to be done.
        step: String,
        /// The chain's words.
        reason: String,
    },
    /// What was noted before cannot be read, or nothing can be noted.
    #[error("notes: {0}")]
    Notes(String),
}

/// Where a deployment notes what it is about to send. A note is on disk when [`Notes::put`] returns.
pub trait Notes: Send + Sync {
    /// What was noted under `name`.
    fn get(&self, name: &str) -> Option<Value>;

    /// Notes something, in place of what was noted under the name before.
    ///
    /// # Errors
    /// [`DeployError::Notes`].
    fn put(&self, name: &str, value: Value) -> Result<(), DeployError>;
}

/// Puts the contracts on one chain.
#[async_trait]
pub trait Deployment: Send + Sync {
    /// What is to be done, what of it is done, and what the rest costs. It sends nothing.
    ///
    /// # Errors
    /// [`DeployError`].
    async fn plan(&self, notes: &dyn Notes) -> Result<Plan, DeployError>;

    /// Does what is left, and says so step by step. However it ends, the same call goes on from there.
    ///
    /// `tell` takes a text of any lifetime, which `async_trait` has to be told: it would name one otherwise.
    ///
    /// # Errors
    /// [`DeployError`].
    async fn run(&self, notes: &dyn Notes, tell: &(dyn for<'a> Fn(&'a str) + Sync)) -> Result<Contracts, DeployError>;

    /// Compares what is at these addresses with what this version was built with, and with what it has to be made with. It
    /// sends nothing, and needs no payer.
    ///
    /// # Errors
    /// [`DeployError`], where nothing can be said.
    async fn verify(&self, contracts: &Contracts) -> Result<Vec<Finding>, DeployError>;
}
