//! Loader: the instructions and accounts of the upgradeable loader (`BPFLoaderUpgradeab1e…`, version 3), as bincode writes them.
//!
//! A program of it is two accounts: the one with its address, and ProgramData, which holds its bytes and names who may replace
//! them. The bytes come from a buffer, which takes as many transactions to fill as there are parts, and vanishes when the program is
//! made of it.

use solana_pubkey::Pubkey;

use gateway_program::{
    Key,
    host::{AccountMeta, Instruction, program_data_address},
    ids::{SYSTEM_PROGRAM, UPGRADEABLE_LOADER},
};

/// Bytes of a buffer before the program's.
pub(super) const BUFFER_HEADER_BYTES: usize = 37;
/// Bytes of ProgramData before the program's.
pub(super) const PROGRAM_DATA_HEADER_BYTES: usize = 45;
/// Bytes of the account with the program's address.
pub(super) const PROGRAM_BYTES: usize = 36;

const RENT_SYSVAR: Key = Pubkey::from_str_const("SysvarRent111111111111111111111111111111111").to_bytes();
const CLOCK_SYSVAR: Key = Pubkey::from_str_const("SysvarC1ock11111111111111111111111111111111").to_bytes();

/// The system program's `CreateAccount`.
const CREATE_ACCOUNT: u32 = 0;
/// The loader's instructions.
const INITIALIZE_BUFFER: u32 = 0;
const WRITE: u32 = 1;
const DEPLOY_WITH_MAX_DATA_LEN: u32 = 2;
const SET_AUTHORITY: u32 = 4;

/// What an account of the loader is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State<'a> {
    /// Bytes on their way to become a program.
    Buffer {
        /// Who may write and use it.
        authority: Option<Key>,
        /// The program's bytes.
        bytes: &'a [u8],
    },
    /// The account with a program's address.
    Program {
        /// Where its bytes are.
        program_data: Key,
    },
    /// A program's bytes.
    ProgramData {
        /// The slot in which they were put there. The program can be called from the next one on.
        slot: u64,
        /// Who may replace them; nobody where there is none.
        authority: Option<Key>,
        /// The program's bytes, and the room after them.
        bytes: &'a [u8],
    },
}

/// What the data of an account of the loader says; `None` for anything else.
pub(super) fn state(data: &[u8]) -> Option<State<'_>> {
    let (kind, rest) = data.split_at_checked(4)?;
    match kind {
        [1, 0, 0, 0] => Some(State::Buffer { authority: optional_key(rest)?, bytes: data.get(BUFFER_HEADER_BYTES..)? }),
        [2, 0, 0, 0] => Some(State::Program { program_data: rest.get(..32)?.try_into().ok()? }),
        [3, 0, 0, 0] => {
            let (slot, rest) = rest.split_at_checked(8)?;
            Some(State::ProgramData {
                slot: u64::from_le_bytes(slot.try_into().ok()?),
                authority: optional_key(rest)?,
                bytes: data.get(PROGRAM_DATA_HEADER_BYTES..)?,
            })
        }
        _ => None,
    }
}

/// A key after a byte that says whether there is one.
fn optional_key(bytes: &[u8]) -> Option<Option<Key>> {
    match bytes.split_first()? {
        (0, _) => Some(None),
        (1, rest) => Some(Some(rest.get(..32)?.try_into().ok()?)),
        _ => None,
    }
}

/// Makes the buffer for a program of `program_bytes`, paid and owned by `payer`. Both sign.
pub(super) fn create_buffer(payer: Key, buffer: Key, lamports: u64, program_bytes: usize) -> [Instruction; 2] {
    [
        create_account(payer, buffer, lamports, BUFFER_HEADER_BYTES + program_bytes),
        instruction(vec![writes(buffer), reads(payer)], &INITIALIZE_BUFFER.to_le_bytes()),
    ]
}

/// Writes `bytes` at `offset` of the program in the buffer. `authority` signs.
pub(super) fn write(buffer: Key, authority: Key, offset: usize, bytes: &[u8]) -> Instruction {
    // A program has 10 MiB at most, the largest account that there is.
    let offset = u32::try_from(offset).unwrap_or(u32::MAX);
    let data = [&WRITE.to_le_bytes()[..], &offset.to_le_bytes(), &length(bytes.len()), bytes].concat();
    instruction(vec![writes(buffer), signs(authority)], &data)
}

/// Makes the program of the buffer, with `payer` for its upgrade authority. The buffer's lamports go to the payer, who pays for
/// the program's accounts. Payer and program sign.
pub(super) fn deploy(payer: Key, program: Key, buffer: Key, lamports: u64, program_bytes: usize) -> [Instruction; 2] {
    let accounts = vec![
        AccountMeta { key: payer, signer: true, writable: true },
        writes(program_data_address(&program).key),
        writes(program),
        writes(buffer),
        reads(RENT_SYSVAR),
        reads(CLOCK_SYSVAR),
        reads(SYSTEM_PROGRAM),
        signs(payer),
    ];
    let data = [&DEPLOY_WITH_MAX_DATA_LEN.to_le_bytes()[..], &length(program_bytes)].concat();
    [create_account(payer, program, lamports, PROGRAM_BYTES), instruction(accounts, &data)]
}

/// Lets `next` replace the program instead of `current`, who signs; nobody ever again where there is none.
pub(super) fn set_authority(program: &Key, current: Key, next: Option<Key>) -> Instruction {
    let mut accounts = vec![writes(program_data_address(program).key), signs(current)];
    accounts.extend(next.map(reads));
    instruction(accounts, &SET_AUTHORITY.to_le_bytes())
}

/// An account of the loader's, which `payer` pays for. Both sign.
fn create_account(payer: Key, account: Key, lamports: u64, bytes: usize) -> Instruction {
    let signer = |key| AccountMeta { key, signer: true, writable: true };
    let data =
        [&CREATE_ACCOUNT.to_le_bytes()[..], &lamports.to_le_bytes(), &length(bytes), &UPGRADEABLE_LOADER].concat();
    Instruction { program_id: SYSTEM_PROGRAM, accounts: vec![signer(payer), signer(account)], data }
}

fn instruction(accounts: Vec<AccountMeta>, data: &[u8]) -> Instruction {
    Instruction { program_id: UPGRADEABLE_LOADER, accounts, data: data.to_vec() }
}

/// A length as bincode writes it.
fn length(bytes: usize) -> [u8; 8] {
    (bytes as u64).to_le_bytes()
}

fn reads(key: Key) -> AccountMeta {
    AccountMeta { key, signer: false, writable: false }
}

fn writes(key: Key) -> AccountMeta {
    AccountMeta { key, signer: false, writable: true }
}

fn signs(key: Key) -> AccountMeta {
    AccountMeta { key, signer: true, writable: false }
}

#[cfg(test)]
mod tests {
    use ed25519_dalek::SigningKey;

    use super::*;
    use crate::{
        deploy::artifact::CHUNK_BYTES,
        transaction::{Budget, message, sign},
    };

    #[test]
    fn a_chunk_fills_a_transaction() {
        let key = SigningKey::from_bytes(&[1; 32]);
        let payer = key.verifying_key().to_bytes();
        let wire = |bytes: usize| {
            let write = write([2; 32], payer, 0, &vec![7; bytes]);
            sign(&message(&[write], Budget::TRIAL, &payer, &[3; 32]), &[&key])
        };
        assert_eq!(wire(CHUNK_BYTES).unwrap().wire.len(), 1_232);
        wire(CHUNK_BYTES + 1).unwrap_err();
    }

    #[test]
    fn accounts_are_told_apart() {
        let buffer = [&[1, 0, 0, 0, 1][..], &[7; 32], b"elf"].concat();
        assert_eq!(state(&buffer), Some(State::Buffer { authority: Some([7; 32]), bytes: b"elf" }));
        let program = [&[2, 0, 0, 0][..], &[8; 32]].concat();
        assert_eq!(state(&program), Some(State::Program { program_data: [8; 32] }));
        let header = [3, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0];
        let replaceable = [&header[..], &[1], &[7; 32], b"elf"].concat();
        assert_eq!(state(&replaceable), Some(State::ProgramData { slot: 9, authority: Some([7; 32]), bytes: b"elf" }));
        let fixed = [&header[..], &[0], &[0; 32], b"elf"].concat();
        assert_eq!(state(&fixed), Some(State::ProgramData { slot: 9, authority: None, bytes: b"elf" }));
        for other in [&[][..], &[0, 0, 0, 0], &[4, 0, 0, 0], &buffer[..36], &fixed[..44], &program[..35]] {
            assert_eq!(state(other), None, "{other:?}");
        }
    }
}
