//! Mints, made by the token programs themselves.

use gateway_program::{Key, host, ids};
use solana_account::Account;
use solana_keypair::Keypair;

use crate::world::{World, key, keypair};

/// An extension of a Token-2022 mint, with what its initialization takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extension {
    /// A fee of every transfer.
    TransferFee,
    /// May be closed when nothing is in circulation.
    CloseAuthority,
    /// Balances may be hidden.
    ConfidentialTransfer,
    /// Fees of hidden transfers.
    ConfidentialTransferFee,
    /// Supply may be hidden.
    ConfidentialMintBurn,
    /// New accounts begin frozen.
    DefaultFrozen,
    /// New accounts begin usable, which may be changed.
    DefaultUsable,
    /// No transfers.
    NonTransferable,
    /// Interest for display.
    InterestBearing,
    /// Somebody may take from every account.
    PermanentDelegate,
    /// A program that is called on transfers.
    TransferHook,
    /// Where the name is.
    MetadataPointer,
    /// Where the group is.
    GroupPointer,
    /// Where the membership is.
    GroupMemberPointer,
    /// A factor for display.
    ScaledAmount,
    /// All transfers may be stopped.
    Pausable,
}

impl Extension {
    /// Every one of them.
    pub const ALL: [Self; 16] = [
        Self::TransferFee,
        Self::CloseAuthority,
        Self::ConfidentialTransfer,
        Self::ConfidentialTransferFee,
        Self::ConfidentialMintBurn,
        Self::DefaultFrozen,
        Self::DefaultUsable,
        Self::NonTransferable,
        Self::InterestBearing,
        Self::PermanentDelegate,
        Self::TransferHook,
        Self::MetadataPointer,
        Self::GroupPointer,
        Self::GroupMemberPointer,
        Self::ScaledAmount,
        Self::Pausable,
    ];

    /// Bytes of the extension in the mint, and data of its initialization.
    fn layout(self, authority: &Key) -> (usize, Vec<u8>) {
        let keyed = |head: &[u8], rest: &[u8]| [head, authority.as_slice(), rest].concat();
        match self {
            Self::TransferFee => {
                let fee = [100_u16.to_le_bytes().as_slice(), &u64::MAX.to_le_bytes()].concat();
                (108, [&[26, 0, 1][..], authority, &[1], authority, &fee].concat())
            }
            Self::CloseAuthority => (32, keyed(&[25, 1], &[])),
            Self::ConfidentialTransfer => (65, keyed(&[27, 0], &[&[1][..], &[0; 32]].concat())),
            Self::ConfidentialTransferFee => (129, keyed(&[37, 0], &[7; 32])),
            Self::ConfidentialMintBurn => (196, [&[42, 0][..], &[7; 32], &[0; 36]].concat()),
            Self::DefaultFrozen => (1, vec![28, 0, 2]),
            Self::DefaultUsable => (1, vec![28, 0, 1]),
            Self::NonTransferable => (0, vec![32]),
            Self::InterestBearing => (52, keyed(&[33, 0], &300_i16.to_le_bytes())),
            Self::PermanentDelegate => (32, keyed(&[35], &[])),
            Self::TransferHook => (64, keyed(&[36, 0], &[9; 32])),
            Self::MetadataPointer => (64, keyed(&[39, 0], &[9; 32])),
            Self::GroupPointer => (64, keyed(&[40, 0], &[9; 32])),
            Self::GroupMemberPointer => (64, keyed(&[41, 0], &[9; 32])),
            Self::ScaledAmount => (56, keyed(&[43, 0], &2.0_f64.to_le_bytes())),
            Self::Pausable => (33, keyed(&[44, 0], &[])),
        }
    }
}

/// What kind of mint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MintKind<'a> {
    /// SPL Token.
    Token,
    /// Token-2022 with these extensions.
    Token2022(&'a [Extension]),
}

impl MintKind<'_> {
    /// The program that the mint belongs to.
    pub fn program(self) -> Key {
        match self {
            Self::Token => ids::TOKEN_PROGRAM,
            Self::Token2022(_) => ids::TOKEN_2022_PROGRAM,
        }
    }
}

/// Decimals of all mints here.
pub const DECIMALS: u8 = 6;

impl World {
    /// A new mint with the third party as every authority.
    pub fn mint(&mut self, seed: u8, kind: MintKind) -> Key {
        let authority = key(&self.third_party);
        let extensions: Vec<_> = match kind {
            MintKind::Token => Vec::new(),
            MintKind::Token2022(extensions) => {
                extensions.iter().map(|extension| extension.layout(&authority)).collect()
            }
        };
        let size = match extensions.as_slice() {
            [] => 82,
            some => 166 + some.iter().map(|(size, _)| 4 + size).sum::<usize>(),
        };
        let mint = key(&keypair(seed));
        let lamports = self.svm.minimum_balance_for_rent_exemption(size);
        let owner = kind.program().into();
        self.put(mint, Account { lamports, data: vec![0; size], owner, executable: false, rent_epoch: u64::MAX });
        let on_mint = |data: Vec<u8>| host::Instruction {
            program_id: kind.program(),
            accounts: vec![host::AccountMeta { key: mint, signer: false, writable: true }],
            data,
        };
        let mut instructions: Vec<_> = extensions.into_iter().map(|(_, data)| on_mint(data)).collect();
        // InitializeMint2 with a freeze authority, as the common stable coins have one.
        instructions.push(on_mint([&[20, DECIMALS][..], &authority, &[1], &authority].concat()));
        let third_party = self.third_party.insecure_clone();
        self.send(&instructions, &[&third_party]).unwrap();
        mint
    }

    /// Mints to a wallet's associated token account, which is made when it is not there.
    pub fn mint_to(&mut self, mint: &Key, wallet: &Key, amount: u64) -> Key {
        let program = self.account(mint).unwrap().owner.to_bytes();
        let third_party = self.third_party.insecure_clone();
        let authority = key(&third_party);
        let to = host::associated_token_address(wallet, &program, mint).key;
        let mint_to = host::Instruction {
            program_id: program,
            accounts: vec![
                host::AccountMeta { key: *mint, signer: false, writable: true },
                host::AccountMeta { key: to, signer: false, writable: true },
                host::AccountMeta { key: authority, signer: true, writable: false },
            ],
            data: [&[7][..], &amount.to_le_bytes()].concat(),
        };
        let create = host::create_associated_token(authority, wallet, mint, &program);
        self.send(&[create, mint_to], &[&third_party]).unwrap();
        to
    }

    /// An empty token account of `owner` that is not its associated one.
    pub fn token_account(&mut self, seed: u8, mint: &Key, owner: &Key) -> Key {
        const INITIALIZE_ACCOUNT_3: u8 = 18;
        const SIZE: usize = 165;
        let program = self.account(mint).unwrap().owner;
        let account = key(&keypair(seed));
        let lamports = self.svm.minimum_balance_for_rent_exemption(SIZE);
        let fresh = Account { lamports, data: vec![0; SIZE], owner: program, executable: false, rent_epoch: u64::MAX };
        self.put(account, fresh);
        let initialize = host::Instruction {
            program_id: program.to_bytes(),
            accounts: vec![
                host::AccountMeta { key: account, signer: false, writable: true },
                host::AccountMeta { key: *mint, signer: false, writable: false },
            ],
            data: [&[INITIALIZE_ACCOUNT_3][..], owner].concat(),
        };
        let third_party = self.third_party.insecure_clone();
        self.send(&[initialize], &[&third_party]).unwrap();
        account
    }

    /// The owner's allowance to the address of `signer`.
    pub fn approve(&mut self, owner: &Keypair, mint: &Key, signer: &Key, amount: u64) {
        let program = self.account(mint).unwrap().owner.to_bytes();
        let from = host::associated_token_address(&key(owner), &program, mint).key;
        let delegate = host::delegate_address(&self.program, signer).key;
        let approve = host::approve_checked(&program, from, *mint, delegate, key(owner), amount, DECIMALS);
        self.send(&[approve], &[owner]).unwrap();
    }

    /// Freezes a token account (or thaws it), as a mint's authority can.
    pub fn freeze(&mut self, mint: &Key, account: &Key, frozen: bool) {
        let program = self.account(mint).unwrap().owner.to_bytes();
        let third_party = self.third_party.insecure_clone();
        let instruction = host::Instruction {
            program_id: program,
            accounts: vec![
                host::AccountMeta { key: *account, signer: false, writable: true },
                host::AccountMeta { key: *mint, signer: false, writable: false },
                host::AccountMeta { key: key(&third_party), signer: true, writable: false },
            ],
            data: vec![if frozen { 10 } else { 11 }],
        };
        self.send(&[instruction], &[&third_party]).unwrap();
    }
}

/// A transfer out of one token account into the other, by the first one's owner.
pub fn transfer_checked(
    token_program: &Key,
    mint: &Key,
    [from, to]: [Key; 2],
    owner: Key,
    amount: u64,
) -> host::Instruction {
    const TRANSFER_CHECKED: u8 = 12;
    let meta = |key, signer, writable| host::AccountMeta { key, signer, writable };
    host::Instruction {
        program_id: *token_program,
        accounts: vec![
            meta(from, false, true),
            meta(*mint, false, false),
            meta(to, false, true),
            meta(owner, true, false),
        ],
        data: [&[TRANSFER_CHECKED][..], &amount.to_le_bytes(), &[DECIMALS]].concat(),
    }
}
