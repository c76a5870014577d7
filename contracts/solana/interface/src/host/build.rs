//! Instructions with their accounts in order.

use alloc::{vec, vec::Vec};

use crate::{
    Hash, Key,
    account::Escrow,
    ed25519 as precompile,
    host::address,
    ids,
    instruction::{DepositAndReserve, Fulfill, Initialize, Reassign, Reservation, Tag},
    message::{Deposit, Fulfillment},
    verifier_set::VerifierSet,
};

/// An account that an instruction names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccountMeta {
    /// Its address.
    pub key: Key,
    /// Whether it must sign the transaction.
    pub signer: bool,
    /// Whether it may be changed.
    pub writable: bool,
}

/// An instruction, free of any client library's types.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instruction {
    /// The program.
    pub program_id: Key,
    /// The accounts, in the program's order.
    pub accounts: Vec<AccountMeta>,
    /// The data.
    pub data: Vec<u8>,
}

pub(super) fn reads(key: Key) -> AccountMeta {
    AccountMeta { key, signer: false, writable: false }
}

pub(super) fn writes(key: Key) -> AccountMeta {
    AccountMeta { key, signer: false, writable: true }
}

pub(super) fn signs(key: Key) -> AccountMeta {
    AccountMeta { key, signer: true, writable: false }
}

pub(super) fn pays(key: Key) -> AccountMeta {
    AccountMeta { key, signer: true, writable: true }
}

/// Sets the program up. `upgrade_authority` and `payer`, who pays for the account, sign.
pub fn initialize(program_id: &Key, payer: Key, upgrade_authority: Key, data: &Initialize) -> Instruction {
    Instruction {
        program_id: *program_id,
        accounts: vec![
            pays(payer),
            signs(upgrade_authority),
            writes(address::config_address(program_id).key),
            reads(address::program_data_address(program_id).key),
            reads(ids::SYSTEM_PROGRAM),
        ],
        data: data.to_bytes().to_vec(),
    }
}

/// The accounts of a deposit that are not computed from its data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DepositAccounts {
    /// Signs and pays for the accounts.
    pub rent_payer: Key,
    /// Signs; the program's reserver.
    pub reserver: Key,
    /// The payer's token account with the allowance.
    pub payer_token: Key,
    /// The token.
    pub mint: Key,
    /// SPL Token or Token-2022.
    pub token_program: Key,
}

/// Locks the money. The transaction must hold, at `data.ed25519_index`, [`ed25519`] with `data.signer`'s signature.
pub fn deposit_and_reserve(program_id: &Key, accounts: &DepositAccounts, data: &DepositAndReserve) -> Instruction {
    Instruction {
        program_id: *program_id,
        accounts: vec![
            pays(accounts.rent_payer),
            signs(accounts.reserver),
            reads(address::config_address(program_id).key),
            writes(address::escrow_address(program_id, &data.payment_id).key),
            writes(address::vault_address(program_id, &data.payment_id).key),
            writes(accounts.payer_token),
            reads(address::delegate_address(program_id, &data.signer).key),
            reads(accounts.mint),
            reads(accounts.token_program),
            reads(ids::SYSTEM_PROGRAM),
            reads(ids::INSTRUCTIONS_SYSVAR),
        ],
        data: data.to_bytes().to_vec(),
    }
}

/// Locks what came to the deposit address of `terms`. `rent_payer`, who pays for the accounts and gets the rent of the emptied token
/// account, and the reserver of the terms sign.
pub fn deposit_from_address(
    program_id: &Key,
    rent_payer: Key,
    token_program: Key,
    terms: &Deposit,
    reservation: &Reservation,
) -> Instruction {
    let at = address::deposit_address(program_id, terms).key;
    let mut data = vec![Tag::DepositFromAddress as u8];
    data.extend_from_slice(&terms.to_bytes());
    data.extend_from_slice(&reservation.to_bytes());
    let accounts = from_address(program_id, rent_payer, token_program, terms, at);
    Instruction { program_id: *program_id, accounts, data }
}

/// The accounts of a deposit of `terms` from the address `at`.
pub(super) fn from_address(
    program_id: &Key,
    rent_payer: Key,
    token_program: Key,
    terms: &Deposit,
    at: Key,
) -> Vec<AccountMeta> {
    vec![
        pays(rent_payer),
        signs(terms.reserver),
        reads(address::config_address(program_id).key),
        writes(address::escrow_address(program_id, &terms.payment_id).key),
        writes(address::vault_address(program_id, &terms.payment_id).key),
        writes(address::associated_token_address(&at, &token_program, &terms.mint).key),
        reads(at),
        reads(terms.mint),
        reads(token_program),
        reads(ids::SYSTEM_PROGRAM),
    ]
}

/// Gives the payer what is of the payment's token at the deposit address of `terms`, into its associated token account. Open to
/// everyone; the rent of the emptied token account goes to `carrier`. [`given_back_to`] has it paid elsewhere.
pub fn give_back(program_id: &Key, carrier: Key, token_program: Key, terms: &Deposit) -> Instruction {
    give_back_of(program_id, carrier, (&token_program, &terms.mint), terms, true)
}

/// The same of any token, which its program and its mint name, out of the address's associated token account, which is closed where
/// `closes`.
pub fn give_back_of(
    program_id: &Key,
    carrier: Key,
    (token_program, mint): (&Key, &Key),
    terms: &Deposit,
    closes: bool,
) -> Instruction {
    let at = address::deposit_address(program_id, terms).key;
    let account_of = |owner: &Key| address::associated_token_address(owner, token_program, mint).key;
    let mut data = vec![Tag::GiveBack as u8];
    data.extend_from_slice(&terms.to_bytes());
    data.push(u8::from(closes));
    Instruction {
        program_id: *program_id,
        accounts: vec![
            writes(carrier),
            reads(address::escrow_address(program_id, &terms.payment_id).key),
            reads(at),
            writes(account_of(&at)),
            writes(account_of(&terms.payer)),
            reads(terms.payer),
            reads(*mint),
            reads(*token_program),
        ],
        data,
    }
}

/// Lets a [`give_back`] pay another token account of the mint. `payer`, the refund account, must sign.
pub fn given_back_to(mut give_back: Instruction, token_account: Key) -> Instruction {
    const TO: usize = 4;
    const PAYER: usize = 5;
    give_back.accounts[TO] = writes(token_account);
    give_back.accounts[PAYER].signer = true;
    give_back
}

/// Gives the payer the native SOL at the deposit address of `terms`. Open to everyone, at any time.
pub fn give_back_lamports(program_id: &Key, terms: &Deposit) -> Instruction {
    let mut data = vec![Tag::GiveBackLamports as u8];
    data.extend_from_slice(&terms.to_bytes());
    Instruction {
        program_id: *program_id,
        accounts: vec![
            writes(address::deposit_address(program_id, terms).key),
            writes(terms.payer),
            reads(ids::SYSTEM_PROGRAM),
        ],
        data,
    }
}

/// What of an escrow decides the accounts of its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EscrowAccounts {
    /// The payment.
    pub payment_id: Hash,
    /// Who is paid on release.
    pub settler: Key,
    /// Who gets the money back.
    pub payer: Key,
    /// Who gets the vault's rent back.
    pub rent_payer: Key,
    /// The token.
    pub mint: Key,
    /// SPL Token or Token-2022.
    pub token_program: Key,
}

impl From<&Escrow> for EscrowAccounts {
    fn from(escrow: &Escrow) -> Self {
        Self {
            payment_id: escrow.payment_id,
            settler: escrow.settler,
            payer: escrow.payer,
            rent_payer: escrow.rent_payer,
            mint: escrow.mint,
            token_program: escrow.token_program,
        }
    }
}

impl EscrowAccounts {
    fn end(&self, program_id: &Key, receiver: &Key) -> Vec<AccountMeta> {
        vec![
            writes(address::escrow_address(program_id, &self.payment_id).key),
            writes(address::vault_address(program_id, &self.payment_id).key),
            writes(address::associated_token_address(receiver, &self.token_program, &self.mint).key),
            reads(self.mint),
            writes(self.rent_payer),
            reads(self.token_program),
        ]
    }

    fn attested(&self, program_id: &Key, receiver: &Key, tag: Tag, ed25519_index: u8) -> Instruction {
        let mut accounts = self.end(program_id, receiver);
        accounts.push(reads(address::config_address(program_id).key));
        accounts.push(reads(ids::INSTRUCTIONS_SYSVAR));
        Instruction { program_id: *program_id, accounts, data: vec![tag as u8, ed25519_index] }
    }
}

/// Pays the settler's associated token account. The transaction must hold, at `ed25519_index`, [`ed25519`] with the
/// releaser's signature over the delivery.
pub fn release(program_id: &Key, escrow: &EscrowAccounts, ed25519_index: u8) -> Instruction {
    escrow.attested(program_id, &escrow.settler, Tag::Release, ed25519_index)
}

/// Pays the payer's associated token account. The transaction must hold, at `ed25519_index`, [`ed25519`] with the
/// releaser's signature over the non-delivery.
pub fn cancel(program_id: &Key, escrow: &EscrowAccounts, ed25519_index: u8) -> Instruction {
    escrow.attested(program_id, &escrow.payer, Tag::Cancel, ed25519_index)
}

/// Pays the payer's associated token account, from `refund_after` on.
pub fn refund(program_id: &Key, escrow: &EscrowAccounts) -> Instruction {
    Instruction {
        program_id: *program_id,
        accounts: escrow.end(program_id, &escrow.payer),
        data: vec![Tag::Refund as u8],
    }
}

/// Reserves the payment's escrow for another settler. `reserver`, the deposit's, signs. The transaction must hold, at
/// `ed25519_index`, [`ed25519`] with the releaser's signature over the non-delivery of the quote until then.
pub fn reassign(program_id: &Key, payment_id: &Hash, reserver: Key, data: &Reassign, ed25519_index: u8) -> Instruction {
    let mut bytes = data.to_bytes().to_vec();
    bytes.push(ed25519_index);
    Instruction {
        program_id: *program_id,
        accounts: vec![
            signs(reserver),
            writes(address::escrow_address(program_id, payment_id).key),
            reads(address::config_address(program_id).key),
            reads(ids::INSTRUCTIONS_SYSVAR),
        ],
        data: bytes,
    }
}

/// Pays what a release left in the vault to the payer's associated token account. Open to everyone.
pub fn return_remainder(program_id: &Key, escrow: &EscrowAccounts) -> Instruction {
    Instruction {
        program_id: *program_id,
        accounts: escrow.end(program_id, &escrow.payer),
        data: vec![Tag::ReturnRemainder as u8],
    }
}

/// Lets a [`reclaim_escrow`] show that the vault is empty, as it must where a release left the payer something in it.
pub fn with_vault(mut reclaim: Instruction, payment_id: &Hash) -> Instruction {
    reclaim.accounts.push(reads(address::vault_address(&reclaim.program_id, payment_id).key));
    reclaim
}

/// Lets a [`release`], [`cancel`] or [`reassign`] bring the word of a verifier set whose id the escrow's releaser is. The Ed25519
/// instruction is then [`ed25519_of_set`].
pub fn by_set(mut end: Instruction, set: &VerifierSet) -> Instruction {
    end.data.extend_from_slice(&set.head());
    end.data.extend_from_slice(set.members().as_flattened());
    end
}

/// Lets an end ([`release`], [`cancel`], [`refund`], [`return_remainder`]) pay another token account of the mint. `receiver`, who is owed the
/// money, must sign: for one whose associated token account is frozen or no longer its own.
pub fn paid_to(mut end: Instruction, token_account: Key, receiver: Key) -> Instruction {
    const RECEIVING: usize = 2;
    end.accounts[RECEIVING] = writes(token_account);
    end.accounts.push(signs(receiver));
    end
}

impl Fulfillment {
    fn instruction(&self, program_id: &Key, token: Option<(Key, Key)>) -> Instruction {
        let record = address::fulfillment_address(program_id, &self.key(program_id)).key;
        let mut accounts = vec![pays(self.settler), writes(record), reads(ids::SYSTEM_PROGRAM)];
        match token {
            None => accounts.push(writes(self.recipient)),
            Some((settler_token, token_program)) => {
                let to = address::associated_token_address(&self.recipient, &token_program, &self.mint).key;
                accounts.extend([reads(self.recipient), writes(settler_token), writes(to)]);
                accounts.extend([reads(self.mint), reads(token_program)]);
            }
        }
        let data = Fulfill {
            payment_id: self.payment_id,
            quote_hash: self.quote_hash,
            amount: self.amount,
            fulfill_by: self.fulfill_by,
            recipient: self.recipient,
            mint: self.mint,
        };
        Instruction { program_id: *program_id, accounts, data: data.to_bytes().to_vec() }
    }
}

/// Delivers native SOL; `delivery.mint` is zero. The settler signs.
pub fn fulfill_native(program_id: &Key, delivery: &Fulfillment) -> Instruction {
    delivery.instruction(program_id, None)
}

/// Delivers tokens from `settler_token` to the recipient's associated token account, which must be there (see
/// [`create_associated_token`]). The settler signs.
pub fn fulfill_token(program_id: &Key, delivery: &Fulfillment, settler_token: Key, token_program: Key) -> Instruction {
    delivery.instruction(program_id, Some((settler_token, token_program)))
}

/// Closes an escrow's record; the rent goes to who paid it. Open to everyone.
pub fn reclaim_escrow(program_id: &Key, payment_id: &Hash, rent_payer: Key) -> Instruction {
    Instruction {
        program_id: *program_id,
        accounts: vec![writes(address::escrow_address(program_id, payment_id).key), writes(rent_payer)],
        data: vec![Tag::ReclaimEscrow as u8],
    }
}

/// Closes a delivery's record; the rent goes to the settler, who signs.
pub fn reclaim_fulfillment(program_id: &Key, delivery: &Fulfillment) -> Instruction {
    let record = address::fulfillment_address(program_id, &delivery.key(program_id)).key;
    Instruction {
        program_id: *program_id,
        accounts: vec![writes(record), pays(delivery.settler)],
        data: vec![Tag::ReclaimFulfillment as u8],
    }
}

/// The precompile's instruction that proves `key`'s signature over `digest`, in the one form that the program takes.
pub fn ed25519(key: &Key, signature: &[u8; 64], digest: &Hash) -> Instruction {
    Instruction {
        program_id: ids::ED25519_PROGRAM,
        accounts: Vec::new(),
        data: precompile::data(key, signature, digest).to_vec(),
    }
}

/// The precompile's instruction that proves the signatures of a verifier set's members over `digest`. `signed` are keys and
/// signatures in order of the keys, as many as the set's threshold.
pub fn ed25519_of_set(signed: &[(Key, [u8; 64])], digest: &Hash) -> Instruction {
    // A set has few members; a number that does not fit is none that the program takes.
    let mut data = vec![signed.len() as u8, 0];
    for index in 0..signed.len() {
        data.extend_from_slice(&precompile::offsets(index, signed.len()));
    }
    for (key, signature) in signed {
        data.extend_from_slice(key);
        data.extend_from_slice(signature);
    }
    data.extend_from_slice(digest);
    Instruction { program_id: ids::ED25519_PROGRAM, accounts: Vec::new(), data }
}

/// Makes a wallet's associated token account, paid by `payer`; nothing happens when it is there.
pub fn create_associated_token(payer: Key, wallet: &Key, mint: &Key, token_program: &Key) -> Instruction {
    const CREATE_IDEMPOTENT: u8 = 1;
    Instruction {
        program_id: ids::ASSOCIATED_TOKEN_PROGRAM,
        accounts: vec![
            pays(payer),
            writes(address::associated_token_address(wallet, token_program, mint).key),
            reads(*wallet),
            reads(*mint),
            reads(ids::SYSTEM_PROGRAM),
            reads(*token_program),
        ],
        data: vec![CREATE_IDEMPOTENT],
    }
}

/// The payer's allowance: `delegate` (see [`address::delegate_address`]) may take up to `amount` from `token_account`.
/// It replaces the allowance that the account had.
pub fn approve_checked(
    token_program: &Key,
    token_account: Key,
    mint: Key,
    delegate: Key,
    owner: Key,
    amount: u64,
    decimals: u8,
) -> Instruction {
    const APPROVE_CHECKED: u8 = 13;
    let mut data = vec![APPROVE_CHECKED];
    data.extend_from_slice(&amount.to_le_bytes());
    data.push(decimals);
    Instruction {
        program_id: *token_program,
        accounts: vec![writes(token_account), reads(mint), reads(delegate), signs(owner)],
        data,
    }
}
