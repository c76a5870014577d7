//! Sets the program up, once.

use gateway_program::{
    GatewayError, ZERO_KEY, account::Config, ids, instruction::Initialize, message::DOMAIN_VERSION, seeds,
};
use pinocchio::{
    AccountView, Address,
    cpi::{Seed, Signer},
};

use crate::{
    account::{Fresh, create, is_unused, key, owner, require_key, require_signer, require_writable, store},
    failure::{Result, require},
    runtime,
};

/// Only the program's upgrade authority may do it: were it open, a stranger could come first and choose the reserver.
#[inline(never)]
pub fn initialize(program_id: &Address, accounts: &[AccountView], data: &[u8]) -> Result {
    let [payer, authority, config, program_data, system] = accounts else {
        return Err(GatewayError::AccountsInvalid.into());
    };
    let data = Initialize::from_bytes(data).ok_or(GatewayError::InstructionInvalid)?;
    require_signer(payer)?;
    require_signer(authority)?;
    require_writable(&[payer, config])?;
    require_key(system, &ids::SYSTEM_PROGRAM, GatewayError::SystemProgramInvalid)?;

    let (address, bump) = runtime::find_address(&[seeds::CONFIG], program_id.as_array())?;
    require(config.address() == &address, GatewayError::ConfigInvalid)?;
    require(is_unused(config), GatewayError::AlreadyInitialized)?;
    require_upgrade_authority(program_id, program_data, authority)?;
    require(data.cluster_id != ZERO_KEY, GatewayError::ClusterMissing)?;
    require(data.reserver != ZERO_KEY, GatewayError::ReserverMissing)?;

    let bump_seed = [bump];
    let signer_seeds = [Seed::from(seeds::CONFIG), Seed::from(&bump_seed)];
    let fresh = Fresh { account: config, size: Config::SIZE, owner: program_id };
    create(payer, &fresh, &[Signer::from(&signer_seeds)])?;
    let Initialize { cluster_id, reserver } = data;
    store(config, &Config { domain_version: DOMAIN_VERSION, bump, cluster_id, reserver }.to_bytes())
}

/// ProgramData of the upgradeable loader: kind (3) as `u32`, slot as `u64`, then the authority, if there is one, as one
/// byte 1 and the key.
fn require_upgrade_authority(program_id: &Address, program_data: &AccountView, authority: &AccountView) -> Result {
    const KIND: [u8; 4] = [3, 0, 0, 0];
    let (address, _) = runtime::find_address(&[program_id.as_array()], &ids::UPGRADEABLE_LOADER)?;
    let own = program_data.address() == &address && owner(program_data) == ids::UPGRADEABLE_LOADER;
    require(own, GatewayError::ProgramDataInvalid)?;
    let bytes = program_data.try_borrow()?;
    require(bytes.len() >= 45 && bytes[..4] == KIND, GatewayError::ProgramDataInvalid)?;
    require(bytes[12] == 1 && bytes[13..45] == *key(authority), GatewayError::UpgradeAuthorityMismatch)
}
