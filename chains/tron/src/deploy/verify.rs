//! Verification: what is at the addresses of the contracts, compared with what this version was built with.

use alloy::{
    primitives::{Address, B256},
    sol_types::SolCall,
};

use chains::deployment::{Contracts, DeployError, Finding};
use escrow_abi::{
    artefacts::{EscrowSetup, FULFILLMENT_PROXY, GATEWAY_ESCROW, escrow_findings, proxy_findings},
    contracts::GatewayEscrow,
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
        let mut findings = self.compare_escrow(of(&contracts.escrow)?).await?;
        findings.extend(self.compare_proxy(of(&contracts.proxy)?).await?);
        if let Some(addresses) = &contracts.deposit_address_factory {
            let addresses = of(addresses)?;
            findings.extend(factory_findings(&self.code(addresses).await?, addresses));
        }
        Ok(findings)
    }

    async fn compare_escrow(&self, escrow: Address) -> Result<Vec<Finding>, DeployError> {
        let code = self.code(escrow).await?;
        let guardian = match self.guardian {
            Some(guardian) => guardian,
            // What is not the contract need not answer: its code says what is wrong.
            None => self.ask(escrow, &GatewayEscrow::guardianCall {}).await.unwrap_or_default(),
        };
        let setup = EscrowSetup {
            chain_id: u64::from(self.connection.reference()),
            escrow,
            permit2: Address::ZERO,
            guardian,
            text,
        };
        let mut findings = escrow_findings(&code.runtime, &setup);
        // What is not the contract has no members to ask for.
        if findings.first().is_none_or(|code| code.fault.is_some()) {
            return Ok(findings);
        }
        findings.push(constructed(&GATEWAY_ESCROW, &code.creation, |arguments| {
            // Which reserver was the first does not matter: the present one is asked for.
            let first =
                arguments.get(WORD_BYTES..2 * WORD_BYTES).map(|word| Address::from_word(B256::from_slice(word)));
            first.is_some_and(|first| arguments == escrow_arguments(first, guardian))
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
