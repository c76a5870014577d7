//! Verification: what is at a program's address, compared with what this version was built with and with what is wanted.

use chains::deployment::{Contracts, DeployError, Finding};
use gateway_program::{
    Key,
    account::Config,
    host::{config_address, program_data_address},
    ids::UPGRADEABLE_LOADER,
    message::DOMAIN_VERSION,
};

use super::{
    artifact,
    cluster::{Accounts, Cluster},
    loader::{self, State},
    progress::Target,
};
use crate::{
    node::{Account, Commitment},
    program::{self, text},
};

/// Compares what is finalized at the addresses of `contracts`.
///
/// # Errors
/// [`DeployError`] when nothing can be said.
pub(super) async fn verify(
    cluster: &Cluster,
    contracts: &Contracts,
    target: &Target,
) -> Result<Vec<Finding>, DeployError> {
    let program =
        program::key(&contracts.escrow).map_err(|error| DeployError::Unfit(format!("the escrow contract: {error}")))?;
    let keys = [program, program_data_address(&program).key, config_address(&program).key];
    let found = cluster.accounts(&keys, Commitment::Finalized, 0).await?;
    let mut findings =
        vec![Finding::compare("fulfillment proxy, which the escrow's program is", &contracts.proxy, &contracts.escrow)];
    findings.extend(compare(&found, &program, target));
    Ok(findings)
}

fn compare(found: &Accounts, program: &Key, target: &Target) -> Vec<Finding> {
    let name = text(program);
    let place = Finding { subject: format!("program {name}"), fault: fault(found.account(0), program) };
    if place.fault.is_some() {
        return vec![place];
    }
    let Some(State::ProgramData { authority, bytes, .. }) =
        found.account(1).and_then(|account| loader::state(&account.data))
    else {
        return vec![Finding::bad(place.subject, "was closed")];
    };
    let code = Finding { subject: format!("code of {name}"), fault: artifact::difference(bytes) };
    let mut findings = vec![place, code];
    findings.extend(compare_config(found.account(2), program, target));
    findings.push(target.authority.compare(program, authority));
    findings
}

/// Why an account is not a program of the upgradeable loader.
fn fault(account: Option<&Account>, program: &Key) -> Option<String> {
    let Some(account) = account else { return Some("is not there".to_owned()) };
    if account.owner != UPGRADEABLE_LOADER {
        return Some(format!("is an account of {}, not of the upgradeable loader", text(&account.owner)));
    }
    let expected = State::Program { program_data: program_data_address(program).key };
    let is_program = account.executable && loader::state(&account.data) == Some(expected);
    (!is_program).then(|| "is not a program".to_owned())
}

fn compare_config(account: Option<&Account>, program: &Key, target: &Target) -> Vec<Finding> {
    let subject = format!("configuration of {}", text(program));
    let Some(account) = account.filter(|account| account.owner == *program) else {
        return vec![Finding::bad(subject, "is not there: the program is not set up")];
    };
    let Some(config) = Config::from_bytes(&account.data) else {
        return vec![Finding::bad(subject, "has an unknown layout")];
    };
    let Config { domain_version, bump: _, cluster_id, reserver } = config;
    vec![
        Finding::compare(format!("cluster in the {subject}"), &text(&cluster_id), &text(&target.cluster_id)),
        Finding::compare(format!("reserver in the {subject}"), &text(&reserver), &text(&target.reserver)),
        Finding::compare(format!("signature domain version in the {subject}"), &domain_version, &DOMAIN_VERSION),
    ]
}
