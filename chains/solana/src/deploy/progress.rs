//! Progress: what of a deployment is on the chain, and what is to be done next.

use chains::deployment::DeployError;
use gateway_program::{
    Key,
    account::Config,
    host::{config_address, program_data_address},
    ids::{SYSTEM_PROGRAM, UPGRADEABLE_LOADER},
    message::DOMAIN_VERSION,
};

use super::{
    artifact::{self, Chunk, ELF},
    authority::Wanted,
    cluster::{Accounts, Cluster},
    keypairs::{Keypairs, address},
    loader::{self, BUFFER_HEADER_BYTES, State},
};
use crate::{
    node::{Account, Commitment},
    program::text,
};

/// Where a deployment happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Addresses {
    /// Who pays, and is the program's upgrade authority until it hands it over.
    pub payer: Key,
    /// The program.
    pub program: Key,
    /// What it is made of.
    pub buffer: Key,
}

/// What is wanted there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Target {
    /// The cluster's genesis hash.
    pub cluster_id: Key,
    /// Who admits deposits.
    pub reserver: Key,
    /// Who may replace the program in the end.
    pub authority: Wanted,
}

/// What is there at one slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Progress {
    /// The slot.
    pub slot: u64,
    /// What the payer has.
    pub balance: u64,
    /// How far the program is.
    pub stage: Stage,
}

/// How far the program is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Stage {
    /// There is nothing.
    Absent,
    /// There is a buffer that has these parts not yet.
    Buffered(Vec<Chunk>),
    /// The program is there, and not set up.
    Deployed {
        /// It can be called after this slot.
        slot: u64,
    },
    /// It is set up, and its upgrade authority is to be handed to this account, or given up.
    Initialized {
        /// Who may replace it next.
        next: Option<Key>,
    },
    /// Nothing is left to do.
    Complete,
}

impl Addresses {
    /// The payer's, and those that the key pairs have.
    pub fn of(payer: Key, keypairs: &Keypairs) -> Self {
        Self { payer, program: address(&keypairs.program), buffer: address(&keypairs.buffer) }
    }
}

impl Progress {
    /// What is at `addresses`, at a slot that is not below `at_least`.
    ///
    /// # Errors
    /// [`DeployError::Unfit`] when there is something that the deployment neither made nor can go on from.
    pub async fn read(
        cluster: &Cluster,
        addresses: &Addresses,
        target: &Target,
        commitment: Commitment,
        at_least: u64,
    ) -> Result<Self, DeployError> {
        let keys = [
            addresses.payer,
            addresses.buffer,
            addresses.program,
            program_data_address(&addresses.program).key,
            config_address(&addresses.program).key,
        ];
        let found = cluster.accounts(&keys, commitment, at_least).await?;
        let balance = found.account(0).map_or(0, |payer| payer.lamports);
        Ok(Self { slot: found.slot, balance, stage: stage(&found, addresses, target).map_err(DeployError::Unfit)? })
    }
}

impl Stage {
    /// What of the program is written, and how much there is to write.
    pub fn chunks(&self) -> (usize, usize) {
        let all = artifact::chunk_count();
        match self {
            Self::Absent => (0, all),
            Self::Buffered(missing) => (all - missing.len(), all),
            Self::Deployed { .. } | Self::Initialized { .. } | Self::Complete => (all, all),
        }
    }
}

fn stage(found: &Accounts, addresses: &Addresses, target: &Target) -> Result<Stage, String> {
    let [buffer, program, program_data, config] = [1, 2, 3, 4].map(|index| found.account(index));
    let Some(program) = program else {
        return match buffer {
            None => Ok(Stage::Absent),
            Some(buffer) => Ok(Stage::Buffered(artifact::missing(written(buffer, addresses)?))),
        };
    };
    let (slot, authority) = deployed(program, program_data, addresses)?;
    if !is_set_up(config, addresses, target)? {
        if authority != Some(addresses.payer) {
            let who = authority.map_or_else(|| "nobody".to_owned(), |authority| text(&authority));
            let program = text(&addresses.program);
            return Err(format!(
                "the program {program} is not set up, which only its upgrade authority can do, and that is {who}"
            ));
        }
        return Ok(Stage::Deployed { slot });
    }
    let next = target.authority.hand_over(authority, &addresses.payer)?;
    Ok(next.map_or(Stage::Complete, |next| Stage::Initialized { next }))
}

/// The program's bytes in the buffer.
fn written<'a>(account: &'a Account, addresses: &Addresses) -> Result<&'a [u8], String> {
    let place = format!("the buffer {}", text(&addresses.buffer));
    if account.owner != UPGRADEABLE_LOADER {
        return Err(occupied(&place, account));
    }
    let Some(State::Buffer { authority, bytes }) = loader::state(&account.data) else {
        return Err(format!("{place} is not a buffer"));
    };
    if authority != Some(addresses.payer) {
        let who = authority.map_or_else(|| "nobody".to_owned(), |authority| text(&authority));
        return Err(format!("{place} belongs to {who}, not to the payer {}", text(&addresses.payer)));
    }
    if bytes.len() != ELF.len() {
        let (found, expected) = (account.data.len(), BUFFER_HEADER_BYTES + ELF.len());
        return Err(format!(
            "{place} has {found} bytes, and this version's program needs {expected}: close it (`solana program close`), or go on with \
             the version that made it"
        ));
    }
    Ok(bytes)
}

/// The slot in which the program was put there, and its upgrade authority.
fn deployed(
    program: &Account,
    program_data: Option<&Account>,
    addresses: &Addresses,
) -> Result<(u64, Option<Key>), String> {
    let place = format!("the program {}", text(&addresses.program));
    if program.owner != UPGRADEABLE_LOADER {
        return Err(occupied(&place, program));
    }
    let expected = State::Program { program_data: program_data_address(&addresses.program).key };
    if loader::state(&program.data) != Some(expected) {
        return Err(format!("{place} is an account of the loader, and not a program"));
    }
    let Some(State::ProgramData { slot, authority, bytes }) =
        program_data.and_then(|account| loader::state(&account.data))
    else {
        return Err(format!("{place} was closed, and cannot be deployed again at its address"));
    };
    match artifact::difference(bytes) {
        Some(difference) => Err(format!("{place} {difference}")),
        None => Ok((slot, authority)),
    }
}

/// Whether the program is set up, which it can be only once.
fn is_set_up(account: Option<&Account>, addresses: &Addresses, target: &Target) -> Result<bool, String> {
    // Lamports that somebody sent to the address do not set the program up.
    let Some(account) = account.filter(|account| account.owner == addresses.program) else { return Ok(false) };
    let place = format!("the program {}", text(&addresses.program));
    let Some(config) = Config::from_bytes(&account.data) else {
        return Err(format!("{place} has a configuration in an unknown layout"));
    };
    let Config { domain_version, bump: _, cluster_id, reserver } = config;
    for (what, found, expected) in
        [("cluster", &cluster_id, &target.cluster_id), ("reserver", &reserver, &target.reserver)]
    {
        if found != expected {
            let (found, expected) = (text(found), text(expected));
            return Err(format!("{place} is set up for good with the {what} {found}, not with {expected}"));
        }
    }
    if domain_version != DOMAIN_VERSION {
        return Err(format!("{place} signs in the domain of version {domain_version}, not {DOMAIN_VERSION}"));
    }
    Ok(true)
}

fn occupied(place: &str, account: &Account) -> String {
    if account.owner == SYSTEM_PROGRAM && account.data.is_empty() {
        format!("{place} cannot be made: somebody sent {} lamports to its address", account.lamports)
    } else {
        format!("{place} is an account of {}", text(&account.owner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ADDRESSES: Addresses = Addresses { payer: [1; 32], program: [2; 32], buffer: [3; 32] };
    const TARGET: Target = Target { cluster_id: [4; 32], reserver: [5; 32], authority: Wanted::Payer };

    fn account(owner: Key, data: Vec<u8>) -> Option<Account> {
        Some(Account { owner, lamports: 1, data, executable: false })
    }

    fn buffer(authority: u8, bytes: &[u8]) -> Option<Account> {
        account(UPGRADEABLE_LOADER, [&[1, 0, 0, 0, 1][..], &[authority; 32], bytes].concat())
    }

    fn program() -> Option<Account> {
        let data = [&[2, 0, 0, 0][..], &program_data_address(&ADDRESSES.program).key].concat();
        account(UPGRADEABLE_LOADER, data)
    }

    fn program_data(authority: u8, bytes: &[u8]) -> Option<Account> {
        let header = [3, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 1];
        account(UPGRADEABLE_LOADER, [&header[..], &[authority; 32], bytes].concat())
    }

    fn config(change: impl FnOnce(&mut Config)) -> Option<Account> {
        let Target { cluster_id, reserver, .. } = TARGET;
        let mut config = Config { domain_version: DOMAIN_VERSION, bump: 255, cluster_id, reserver };
        change(&mut config);
        account(ADDRESSES.program, config.to_bytes().to_vec())
    }

    fn stage_of(accounts: [Option<Account>; 4], target: &Target) -> Result<Stage, String> {
        let [buffer, program, program_data, config] = accounts;
        let accounts = vec![None, buffer, program, program_data, config];
        stage(&Accounts { slot: 10, accounts }, &ADDRESSES, target)
    }

    #[test]
    fn each_account_leads_a_stage_further() {
        let stage = |accounts| stage_of(accounts, &TARGET).unwrap();
        assert_eq!(stage([None, None, None, None]), Stage::Absent);
        let mut bytes = ELF.to_vec();
        assert_eq!(stage([buffer(1, &bytes), None, None, None]), Stage::Buffered(vec![]));
        bytes[0] ^= 1;
        let begun = stage([buffer(1, &bytes), None, None, None]);
        assert_eq!(begun, Stage::Buffered(artifact::chunks().take(1).collect()));
        assert_eq!(begun.chunks(), (artifact::chunk_count() - 1, artifact::chunk_count()));
        let deployed = Stage::Deployed { slot: 9 };
        assert_eq!(stage([None, program(), program_data(1, ELF), None]), deployed);
        assert_eq!(stage([None, program(), program_data(1, ELF), account(SYSTEM_PROGRAM, vec![])]), deployed);
        assert_eq!(stage([None, program(), program_data(1, ELF), config(|_| {})]), Stage::Complete);
        let target = Target { authority: Wanted::Nobody, ..TARGET };
        let stage = stage_of([None, program(), program_data(1, ELF), config(|_| {})], &target).unwrap();
        assert_eq!(stage, Stage::Initialized { next: None });
    }

    #[test]
    fn what_the_deployment_did_not_make_stops_it() {
        let system = || account(SYSTEM_PROGRAM, vec![]);
        for (accounts, words) in [
            ([system(), None, None, None], "somebody sent 1 lamports"),
            ([account([7; 32], vec![]), None, None, None], "is an account of"),
            ([buffer(7, ELF), None, None, None], "not to the payer"),
            ([buffer(1, &ELF[1..]), None, None, None], "bytes"),
            ([program(), None, None, None], "is not a buffer"),
            ([None, system(), None, None], "somebody sent 1 lamports"),
            ([None, buffer(1, ELF), None, None], "not a program"),
            ([None, program(), None, None], "was closed"),
            ([None, program(), program_data(1, &[ELF, &[1]].concat()), None], "another program"),
            ([None, program(), program_data(7, ELF), None], "not set up"),
            ([None, program(), program_data(1, ELF), account(ADDRESSES.program, vec![])], "unknown layout"),
            ([None, program(), program_data(1, ELF), config(|config| config.reserver = [6; 32])], "with the reserver"),
            ([None, program(), program_data(1, ELF), config(|config| config.cluster_id = [6; 32])], "with the cluster"),
            ([None, program(), program_data(1, ELF), config(|config| config.domain_version = 9)], "version 9"),
        ] {
            let error = stage_of(accounts, &TARGET).unwrap_err();
            assert!(error.contains(words), "{error}");
        }
    }
}
