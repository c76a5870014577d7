//! Verification: what is at the addresses of the contracts, compared with what this version was built with.

use alloy::{
    primitives::{Address, B256, keccak256},
    sol_types::SolCall,
};

use chains::deployment::{Contracts, DeployError, Finding};
use escrow_abi::{
    artefacts::{
        EscrowSetup, FULFILLMENT_PROXY, GATEWAY_ESCROW, PERMIT2, escrow_findings, permit2_findings, proxy_findings,
    },
    contracts::GatewayEscrow,
    permit2::{Deployed, IPermit2},
};
use events::Account;

use super::{TronDeployment, part::escrow_arguments, unanswered};
use crate::{
    address::{address, text},
    creation::constructed,
    deposit_addresses::factory_findings,
    node::{Answer, State},
    query::ContractCode,
};

/// Bytes of a word of ABI-encoded arguments.
const WORD_BYTES: usize = 32;

impl TronDeployment {
    /// Compares the contracts, in the newest state.
    pub(super) async fn compare(&self, contracts: &Contracts) -> Result<Vec<Finding>, DeployError> {
        let permit2 = contracts.permit2.as_ref().map(of).transpose()?;
        let mut findings = self.compare_escrow(of(&contracts.escrow)?, permit2).await?;
        if let Some(permit2) = permit2 {
            findings.extend(self.compare_permit2(permit2).await?);
        }
        findings.extend(self.compare_proxy(of(&contracts.proxy)?).await?);
        if let Some(addresses) = &contracts.deposit_address_factory {
            let addresses = of(addresses)?;
            findings.extend(factory_findings(&self.code(addresses).await?, addresses));
        }
        Ok(findings)
    }

    /// Compares a Permit2, by its code and by the domain that it verifies signatures in. Allowances could have been in its storage from the
    /// beginning, so its constructor counts, too, unless somebody compared this very code.
    pub(super) async fn compare_permit2(&self, permit2: Address) -> Result<Vec<Finding>, DeployError> {
        let code = self.code(permit2).await?;
        let deployed = Deployed { chain_id: self.connection.reference().into(), address: permit2 };
        let known = self.permit2.known_code();
        let mut findings = permit2_findings(&code.runtime, deployed, known);
        if findings.iter().all(|finding| finding.fault.is_none()) {
            if known != Some(keccak256(&code.runtime)) {
                findings.push(constructed(&PERMIT2, &code.creation, <[u8]>::is_empty));
            }
            let (subject, expected) = ("domain of Permit2", deployed.domain().separator());
            let asked = self.connection.call(None, permit2, &IPermit2::DOMAIN_SEPARATORCall {}, State::Newest).await;
            findings.push(match asked.map_err(unanswered)? {
                Answer::Returned { value, .. } => Finding::compare(subject, &value, &expected),
                Answer::Reverted { reason, .. } => Finding::bad(subject, format!("it does not tell it: {reason}")),
            });
        }
        Ok(findings)
    }

    /// Compares an escrow that draws by `permit2`, or by whatever it does where that is not named.
    async fn compare_escrow(&self, escrow: Address, permit2: Option<Address>) -> Result<Vec<Finding>, DeployError> {
        let code = self.code(escrow).await?;
        let permit2 = match permit2 {
            Some(permit2) => permit2,
            None => self.ask(escrow, &GatewayEscrow::permit2Call {}).await.unwrap_or_default(),
        };
        let guardian = match self.guardian {
            Some(guardian) => guardian,
            // What is not the contract need not answer: its code says what is wrong.
            None => self.ask(escrow, &GatewayEscrow::guardianCall {}).await.unwrap_or_default(),
        };
        let setup = EscrowSetup { chain_id: u64::from(self.connection.reference()), escrow, permit2, guardian, text };
        let mut findings = escrow_findings(&code.runtime, &setup);
        // What is not the contract has no members to ask for.
        if findings.first().is_none_or(|code| code.fault.is_some()) {
            return Ok(findings);
        }
        findings.push(constructed(&GATEWAY_ESCROW, &code.creation, |arguments| {
            // Which reserver was the first does not matter: the present one is asked for.
            let first =
                arguments.get(WORD_BYTES..2 * WORD_BYTES).map(|word| Address::from_word(B256::from_slice(word)));
            first.is_some_and(|first| arguments == escrow_arguments(permit2, first, guardian))
        }));
        let reserver = self.ask(escrow, &GatewayEscrow::reserverCall {}).await?;
        let next = self.ask(escrow, &GatewayEscrow::nextReserverCall {}).await?;
        let retired = self.ask(escrow, &GatewayEscrow::retiredCall {}).await?;
        let of = |what: &str| format!("{what} of {}", GATEWAY_ESCROW.name);
        findings.push(Finding::compare(of("reserver"), &text(reserver), &text(self.reserver)));
        findings.push(match next {
            Address::ZERO => Finding::good(of("next reserver")),
            next => Finding::bad(of("next reserver"), format!("{} is proposed, and nobody should be", text(next))),
        });
        findings.push(match retired {
            false => Finding::good(of("retirement")),
            true => Finding::bad(of("retirement"), "it is retired, and takes no deposits"),
        });
        Ok(findings)
    }

    async fn compare_proxy(&self, proxy: Address) -> Result<Vec<Finding>, DeployError> {
        let code = self.code(proxy).await?;
        let mut findings = proxy_findings(&code.runtime);
        if findings.iter().all(|finding| finding.fault.is_none()) {
            findings.push(constructed(&FULFILLMENT_PROXY, &code.creation, <[u8]>::is_empty));
        }
        Ok(findings)
    }

    /// The code at an address; none of either kind where there is no contract.
    async fn code(&self, contract: Address) -> Result<ContractCode, DeployError> {
        let rpc = self.connection.nodes();
        let none = || ContractCode { runtime: Vec::new(), creation: Vec::new() };
        Ok(rpc.contract_code(contract).await.map_err(unanswered)?.unwrap_or_else(none))
    }

    async fn ask<C: SolCall>(&self, escrow: Address, call: &C) -> Result<C::Return, DeployError> {
        match self.connection.call(None, escrow, call, State::Newest).await.map_err(unanswered)? {
            Answer::Returned { value, .. } => Ok(value),
            Answer::Reverted { reason, .. } => Err(unanswered(format_args!("{}: {reason}", C::SIGNATURE))),
        }
    }
}

/// The address of an account that should be of this family.
fn of(contract: &Account) -> Result<Address, DeployError> {
    address(contract).map_err(|error| DeployError::Unfit(error.to_string()))
}
