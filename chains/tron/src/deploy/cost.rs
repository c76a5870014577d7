//! What the creation of a contract costs.

use chains::deployment::DeployError;

use super::{Part, TronDeployment, unanswered};
use crate::{
    cost::Cost,
    creation::Creation,
    node::{Answer, Prices},
    query::Tried,
    rpc::Fault,
    transaction::Reference,
};

/// How long a transaction may wait for its block. Until it has passed at a solidified block, no other takes its place.
const LIFETIME_MS: u64 = 120_000;
/// Energy for each byte of code that is left on the chain (`EnergyCost.CREATE_DATA` of java-tron, the EVM's `G_codedeposit`).
const CODE_BYTE_ENERGY: u64 = 200;
/// More energy than any constructor takes besides: 32,000 for the creation itself, some writes of 20,000 and some hashes.
const CONSTRUCTOR_ENERGY_MAX: u64 = 500_000;
/// A part of the estimate, in percent, that is allowed beyond it. The constructors read nothing of the chain's state, so little
/// can change; what is not used is not paid.
const MARGIN_PERCENT: u64 = 10;
/// How nodes say that they try nothing out (`vm.supportConstant` is off).
const NO_CONSTANT: &str = "does not support constant";

/// A creation that is not signed, and what it costs at most.
pub(super) struct Quote {
    pub creation: Creation,
    pub cost: Cost,
}

impl Quote {
    /// What it costs at most, in sun, where nothing is staked.
    pub fn sun(&self, prices: &Prices) -> u64 {
        self.cost.burnt(None, prices)
    }
}

impl TronDeployment {
    /// The creation of `part` as it would be made now.
    pub(super) async fn quote(&self, part: &Part, prices: &Prices) -> Result<Quote, DeployError> {
        let energy = self.energy(part).await?;
        // What is named is not taken away by a fork, and the transaction with it.
        let span = self.connection.span().await.map_err(unanswered)?;
        let energy = Cost { energy, bandwidth: 0 };
        let refused = |reason: String| DeployError::Refused { step: part.name.to_owned(), reason };
        let creation = Creation {
            owner: self.payer()?.address(),
            name: part.name.to_owned(),
            code: part.code.clone(),
            fee_limit_sun: energy.fee_limit(prices).map_err(|fault| refused(fault.to_string()))?,
            reference: Reference::of(&span.settled),
            timestamp_ms: span.head.time_ms,
            expiration_ms: span.head.time_ms.saturating_add(LIFETIME_MS),
        };
        let cost = Cost::new(energy.energy, creation.signed_bytes());
        Ok(Quote { creation, cost })
    }

    /// The energy to allow for the creation of `part`: what it takes when it is tried out, with a margin, or a bound where the node
    /// tries nothing out.
    async fn energy(&self, part: &Part) -> Result<u64, DeployError> {
        let owner = self.payer()?.address();
        let refused = |reason| Err(DeployError::Refused { step: part.name.to_owned(), reason });
        let tried = self.connection.nodes().constant_creation(owner, &part.code).await;
        let code = CODE_BYTE_ENERGY.saturating_mul(part.deployed_bytes as u64);
        match tried {
            // Less than the code alone takes: what keeping it takes was left out.
            Ok(Tried::Answered(Answer::Returned { energy, .. })) if energy < code => Ok(with_margin(energy + code)),
            Ok(Tried::Answered(Answer::Returned { energy, .. })) => Ok(with_margin(energy)),
            Ok(Tried::Answered(Answer::Reverted { reason, .. })) => refused(reason),
            Ok(Tried::Impossible(reason)) if !reason.contains(NO_CONSTANT) => refused(reason),
            Ok(Tried::Impossible(_)) | Err(Fault::Rejected(_)) => Ok(code + CONSTRUCTOR_ENERGY_MAX),
            Err(Fault::Unanswered(fault)) => Err(unanswered(fault)),
        }
    }
}

fn with_margin(energy: u64) -> u64 {
    energy.saturating_add(energy / 100 * MARGIN_PERCENT)
}
