//! What a client of x402's `exact` signs on Solana: a transaction that pays no fee of its own and does nothing but send a token (ADR 160).
//! The gateway's account pays the fee, so it has to sign as well, and everything in the transaction is judged before it does: its
//! signature must be good for nothing but the fee.

use std::collections::HashSet;

use ed25519_dalek::{Signature, VerifyingKey};
use gateway_program::{
    Hash, Key,
    host::{TRANSACTION_BYTES_MAX, associated_token_address},
    ids,
};
use solana_message::{VersionedMessage, compiled_instruction::CompiledInstruction};
use solana_pubkey::Pubkey;
use solana_transaction::versioned::VersionedTransaction;

use events::{Account, Hash32};

use super::{
    program::{account, text},
    transaction::{COMPUTE_BUDGET, PRICE_MAX},
};

/// The token programs.
const TOKEN_PROGRAMS: [Key; 2] = [ids::TOKEN_PROGRAM, ids::TOKEN_2022_PROGRAM];
/// Programs besides the token's whose instructions a client may add: memos, and the assertions that wallets put in. They have no power over
/// an account that is not theirs to name.
const HARMLESS: [Pubkey; 3] = [
    Pubkey::from_str_const("MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr"),
    Pubkey::from_str_const("Memo1UhkJRfHyvLMcVucJwxXeuD728EqVDDwQDxFMNo"),
    Pubkey::from_str_const("L2TExMFKdjpN9kozasaurPirfHy9P8sbXoAN1qA3S95"),
];
/// Most instructions of a transaction.
const INSTRUCTIONS_MAX: usize = 8;
/// Most compute units that it may ask for: a transfer takes a tenth of them, and wallets add assertions.
const UNITS_MAX: u32 = 200_000;
/// Most that it may offer for all of its units, lamports, which the gateway pays.
const PRIORITY_FEE_MAX: u64 = 10_000;
/// `SetComputeUnitLimit` and `SetComputeUnitPrice` of the compute budget program.
const SET_LIMIT: u8 = 2;
const SET_PRICE: u8 = 3;
/// `TransferChecked` of the token programs: this byte, the amount in eight, the decimals.
const TRANSFER_CHECKED: u8 = 12;

/// Why a transaction is not what a client of `exact` signs.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("transaction: {0}")]
pub struct ExactError(String);

/// What it has to be.
#[derive(Debug, Clone, Copy)]
pub struct Asked<'a> {
    /// Who pays its fee.
    pub fee_payer: &'a Key,
    /// To whose associated token account is sent.
    pub pay_to: &'a Key,
    /// What is sent.
    pub mint: &'a Key,
    /// How much of it, smallest unit.
    pub amount: u64,
}

/// A transaction that a client signed, in a form that nothing else shares.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExactTransfer {
    transaction: VersionedTransaction,
    message: Vec<u8>,
    mint: Key,
    to: Key,
    amount: u64,
}

impl ExactTransfer {
    /// Reads a transaction, signed by the client and not yet by who pays its fee. Whatever it may be good for besides the transfer is
    /// refused.
    ///
    /// # Errors
    /// [`ExactError`] with the rule that it breaks.
    pub fn read(wire: &[u8]) -> Result<Self, ExactError> {
        let refuse = |rule: &str| ExactError(rule.to_owned());
        if wire.len() > TRANSACTION_BYTES_MAX {
            return Err(ExactError(format!("must have at most {TRANSACTION_BYTES_MAX} bytes")));
        }
        let transaction: VersionedTransaction =
            wincode::deserialize(wire).map_err(|_| refuse("must be a transaction in its wire form"))?;
        // What one reader takes for the end and another not would be two transactions.
        if wincode::serialize(&transaction).ok().as_deref() != Some(wire) {
            return Err(refuse("must be a transaction in its wire form, and nothing behind it"));
        }
        let has_tables = match &transaction.message {
            VersionedMessage::Legacy(_) => false,
            VersionedMessage::V0(message) => !message.address_table_lookups.is_empty(),
            _ => return Err(refuse("must be legacy or of version 0")),
        };
        if has_tables {
            return Err(refuse("must name its accounts itself, without lookup tables"));
        }
        transaction.sanitize().map_err(|error| ExactError(error.to_string()))?;
        let accounts = transaction.message.static_account_keys();
        if accounts.iter().collect::<HashSet<_>>().len() < accounts.len() {
            return Err(refuse("must name each account once"));
        }
        if transaction.signatures.len() != 2 {
            return Err(refuse("must be signed by the payer of its fee and by the buyer, and by nobody else"));
        }
        let message = transaction.message.serialize();
        let mut read = Self { transaction, message, mint: [0; 32], to: [0; 32], amount: 0 };
        read.judge_instructions()?;
        if !read.is_signed_by_buyer() {
            return Err(refuse("must be signed by the buyer"));
        }
        Ok(read)
    }

    /// Whether it is the transfer that is asked for.
    ///
    /// # Errors
    /// [`ExactError`] with what differs.
    pub fn check(&self, asked: &Asked<'_>) -> Result<(), ExactError> {
        let must = |what: &str, wanted: String, found: String| {
            if wanted == found { Ok(()) } else { Err(ExactError(format!("{what} must be {wanted}, not {found}"))) }
        };
        must("the payer of its fee", text(asked.fee_payer), text(&self.fee_payer()))?;
        must("the token", text(asked.mint), text(&self.mint))?;
        must("the amount", asked.amount.to_string(), self.amount.to_string())?;
        // Judged when it was read: it is of the token's program that it names.
        let of = |token_program| associated_token_address(asked.pay_to, token_program, asked.mint).key;
        if !TOKEN_PROGRAMS.iter().any(|token_program| of(token_program) == self.to) {
            let (to, pay_to) = (text(&self.to), text(asked.pay_to));
            return Err(ExactError(format!("must send to the associated token account of {pay_to}, not to {to}")));
        }
        Ok(())
    }

    /// Who pays its fee.
    pub fn fee_payer(&self) -> Key {
        self.key(0)
    }

    /// Whose tokens are sent, and who signed.
    pub fn buyer(&self) -> Key {
        self.key(1)
    }

    /// The buyer's account; `None` for the zero key, whose signature nobody has.
    pub fn buyer_account(&self) -> Option<Account> {
        account(&self.buyer())
    }

    /// The blockhash that it can land with.
    pub fn blockhash(&self) -> Hash {
        self.transaction.message.recent_blockhash().to_bytes()
    }

    /// What is signed.
    pub fn message(&self) -> &[u8] {
        &self.message
    }

    /// The hash of what is signed, which names the purchase.
    pub fn message_hash(&self) -> Hash32 {
        Hash32::sha256(&self.message)
    }

    /// The transaction with the signature of who pays its fee, which is its name on chain.
    pub(super) fn signed(&self, by_fee_payer: &[u8; 64]) -> Vec<u8> {
        let mut signed = self.transaction.clone();
        if let Some(first) = signed.signatures.first_mut() {
            *first = (*by_fee_payer).into();
        }
        // It was read from such bytes, and is of their size.
        wincode::serialize(&signed).unwrap_or_default()
    }

    /// The same without any signature of who pays its fee, as it is kept.
    pub fn unsigned(&self) -> Vec<u8> {
        self.signed(&[0; 64])
    }

    /// Judges every instruction, and takes note of the transfer.
    fn judge_instructions(&mut self) -> Result<(), ExactError> {
        let refuse = |rule: &str| Err(ExactError(rule.to_owned()));
        let instructions = self.transaction.message.instructions().to_vec();
        if instructions.len() > INSTRUCTIONS_MAX {
            return Err(ExactError(format!("must have at most {INSTRUCTIONS_MAX} instructions")));
        }
        let (mut limit, mut price, mut transfer) = (None, None, None);
        for instruction in &instructions {
            // Who pays the fee signs for nothing else.
            if instruction.accounts.contains(&0) || instruction.program_id_index == 0 {
                return refuse("no instruction may name the payer of its fee");
            }
            let program = self.key(instruction.program_id_index.into());
            let known = match &program {
                budget if Pubkey::new_from_array(*budget) == Pubkey::from_str_const(COMPUTE_BUDGET) => {
                    let (first, value) = instruction.data.split_first().unzip();
                    match (first.copied(), value) {
                        (Some(SET_LIMIT), Some(units)) => set(&mut limit, number(units, 4)),
                        (Some(SET_PRICE), Some(units)) => set(&mut price, number(units, 8)),
                        _ => false,
                    }
                }
                token if TOKEN_PROGRAMS.contains(token) => set(&mut transfer, self.transfer_of(token, instruction)),
                other => HARMLESS.contains(&Pubkey::new_from_array(*other)),
            };
            if !known {
                let rule = "may set its compute budget, send one token by TransferChecked from the buyer's associated token account, \
                            and have memos and assertions, each once and nothing else: not";
                return Err(ExactError(format!("{rule} what it asks of {}", text(&program))));
            }
        }
        // What is not used is loaded all the same, and a transaction that loads too much cannot land.
        let is_used = |index: usize| {
            index == 0
                || instructions.iter().any(|instruction| {
                    usize::from(instruction.program_id_index) == index
                        || instruction.accounts.iter().any(|account| usize::from(*account) == index)
                })
        };
        if !(0..self.transaction.message.static_account_keys().len()).all(is_used) {
            return refuse("must name no account that no instruction uses");
        }
        let Some((mint, to, amount)) = transfer else { return refuse("must send a token by TransferChecked") };
        let units = limit.unwrap_or(u64::from(UNITS_MAX) + 1);
        if units > u64::from(UNITS_MAX) {
            return Err(ExactError(format!("must set a limit of at most {UNITS_MAX} compute units")));
        }
        let price = price.unwrap_or(0);
        let fee = u128::from(price) * u128::from(units) / 1_000_000;
        if price > PRICE_MAX || fee > u128::from(PRIORITY_FEE_MAX) {
            let rule = format!(
                "may offer at most {PRICE_MAX} millionths of a lamport a compute unit, and {PRIORITY_FEE_MAX} lamports"
            );
            return Err(ExactError(rule));
        }
        (self.mint, self.to, self.amount) = (mint, to, amount);
        Ok(())
    }

    /// Mint, target and amount of a transfer out of the buyer's associated token account; `None` for anything else.
    fn transfer_of(&self, token_program: &Key, instruction: &CompiledInstruction) -> Option<(Key, Key, u64)> {
        let [from, mint, to, owner] = instruction.accounts.as_slice() else { return None };
        let (&TRANSFER_CHECKED, data) = instruction.data.split_first()? else { return None };
        let (units, [_decimals]) = data.split_at_checked(8)? else { return None };
        let [from, mint, to, owner] = [from, mint, to, owner].map(|index| self.key((*index).into()));
        let own = associated_token_address(&self.buyer(), token_program, &mint).key;
        let is_own = from == own && owner == self.buyer() && ids::is_token_program(token_program);
        is_own.then_some((mint, to, number(units, 8)?))
    }

    fn is_signed_by_buyer(&self) -> bool {
        let signature = self.transaction.signatures.get(1).map(|signature| <[u8; 64]>::from(*signature));
        let holds = |signature: [u8; 64]| {
            let buyer = VerifyingKey::from_bytes(&self.buyer()).ok()?;
            buyer.verify_strict(&self.message, &Signature::from_bytes(&signature)).ok()
        };
        self.fee_payer() != self.buyer() && signature.and_then(holds).is_some()
    }

    /// The account at `index`; the zero key where there is none, which no sanitized message refers to.
    fn key(&self, index: usize) -> Key {
        self.transaction.message.static_account_keys().get(index).map_or([0; 32], Pubkey::to_bytes)
    }
}

/// Takes note of what may be said once; whether it was the first time.
fn set<T>(known: &mut Option<T>, said: Option<T>) -> bool {
    let is_first = known.is_none() && said.is_some();
    if is_first {
        *known = said;
    }
    is_first
}

/// A number of so many bytes, the lowest first.
fn number(bytes: &[u8], length: usize) -> Option<u64> {
    let mut whole = [0; 8];
    whole.get_mut(..length)?.copy_from_slice((bytes.len() == length).then_some(bytes)?);
    Some(u64::from_le_bytes(whole))
}

#[cfg(test)]
mod tests {
    use ed25519_dalek::{Signer, SigningKey};
    use gateway_program::host::{AccountMeta, Instruction};
    use solana_hash::Hash as Blockhash;
    use solana_message::{Message, v0};

    use super::*;
    use crate::transaction::instruction;

    const FEE_PAYER: Key = [1; 32];
    const MINT: Key = [2; 32];
    const PAY_TO: Key = [3; 32];
    const AMOUNT: u64 = 25_250_000;

    fn buyer() -> SigningKey {
        SigningKey::from_bytes(&[7; 32])
    }

    fn own() -> Key {
        buyer().verifying_key().to_bytes()
    }

    fn named(key: Key, signer: bool, writable: bool) -> AccountMeta {
        AccountMeta { key, signer, writable }
    }

    fn budget(tag: u8, number: &[u8]) -> Instruction {
        let program_id = Pubkey::from_str_const(COMPUTE_BUDGET).to_bytes();
        Instruction { program_id, accounts: Vec::new(), data: [&[tag], number].concat() }
    }

    fn transfer(token_program: Key) -> Instruction {
        let account = |of: &Key| associated_token_address(of, &token_program, &MINT).key;
        let accounts = vec![
            named(account(&own()), false, true),
            named(MINT, false, false),
            named(account(&PAY_TO), false, true),
            named(own(), true, false),
        ];
        let data = [&[TRANSFER_CHECKED][..], &AMOUNT.to_le_bytes(), &[6]].concat();
        Instruction { program_id: token_program, accounts, data }
    }

    fn memo(of: Pubkey) -> Instruction {
        Instruction { program_id: of.to_bytes(), accounts: Vec::new(), data: b"3f".to_vec() }
    }

    /// What stock clients make, in their order.
    fn stock() -> Vec<Instruction> {
        let (limit, price) = (20_000_u32.to_le_bytes(), 1_u64.to_le_bytes());
        vec![budget(SET_LIMIT, &limit), budget(SET_PRICE, &price), transfer(TOKEN_PROGRAMS[0]), memo(HARMLESS[0])]
    }

    fn wire(message: VersionedMessage) -> Vec<u8> {
        let bytes = message.serialize();
        let place = message.static_account_keys().iter().position(|key| key.to_bytes() == own());
        let mut signatures = vec![[0; 64].into(); usize::from(message.header().num_required_signatures)];
        if let Some(signature) = place.and_then(|place| signatures.get_mut(place)) {
            *signature = buyer().sign(&bytes).to_bytes().into();
        }
        wincode::serialize(&VersionedTransaction { signatures, message }).unwrap()
    }

    fn versioned(instructions: &[Instruction]) -> Vec<u8> {
        let instructions: Vec<_> = instructions.iter().map(instruction).collect();
        let fee_payer = Pubkey::new_from_array(FEE_PAYER);
        let message = v0::Message::try_compile(&fee_payer, &instructions, &[], Blockhash::new_from_array([9; 32]));
        wire(VersionedMessage::V0(message.unwrap()))
    }

    fn legacy(instructions: &[Instruction]) -> Vec<u8> {
        let instructions: Vec<_> = instructions.iter().map(instruction).collect();
        let fee_payer = Pubkey::new_from_array(FEE_PAYER);
        let blockhash = Blockhash::new_from_array([9; 32]);
        wire(VersionedMessage::Legacy(Message::new_with_blockhash(&instructions, Some(&fee_payer), &blockhash)))
    }

    fn asked<'a>() -> Asked<'a> {
        Asked { fee_payer: &FEE_PAYER, pay_to: &PAY_TO, mint: &MINT, amount: AMOUNT }
    }

    fn refused(instructions: &[Instruction]) -> String {
        let [one, other] = [versioned(instructions), legacy(instructions)].map(|wire| ExactTransfer::read(&wire));
        assert_eq!(one.as_ref().err(), other.as_ref().err());
        one.err().map(|error| error.to_string()).unwrap_or_default()
    }

    #[test]
    fn what_stock_clients_and_wallets_make_is_read_and_named_by_what_was_signed() {
        let with_assertions = [stock(), vec![memo(HARMLESS[2]), memo(HARMLESS[1])]].concat();
        let mut of_2022 = stock();
        of_2022[2] = transfer(TOKEN_PROGRAMS[1]);
        for wire in [versioned(&stock()), legacy(&stock()), versioned(&with_assertions), versioned(&of_2022)] {
            let read = ExactTransfer::read(&wire).unwrap();
            assert_eq!(read.check(&asked()), Ok(()));
            assert_eq!((read.fee_payer(), read.buyer(), read.blockhash()), (FEE_PAYER, own(), [9; 32]));
            assert_eq!(read.message_hash(), Hash32::sha256(&wire[129..]));
            assert_eq!(read.unsigned(), wire);
            // The fee payer's signature changes neither the name nor what is kept.
            let signed = read.signed(&[5; 64]);
            assert_eq!((&signed[..1], &signed[1..65], &signed[65..]), (&wire[..1], &[5; 64][..], &wire[65..]));
            assert_eq!(ExactTransfer::read(&signed).unwrap().unsigned(), wire);
        }
        let other = |change: fn(&mut Asked<'_>)| {
            let mut asked = asked();
            change(&mut asked);
            ExactTransfer::read(&versioned(&stock())).unwrap().check(&asked).unwrap_err().to_string()
        };
        assert!(other(|asked| asked.amount -= 1).contains("the amount must be"));
        assert!(other(|asked| asked.mint = &PAY_TO).contains("the token must be"));
        assert!(other(|asked| asked.pay_to = &MINT).contains("must send to the associated token account of"));
        assert!(other(|asked| asked.fee_payer = &MINT).contains("the payer of its fee must be"));
    }

    #[test]
    fn whatever_else_the_signature_of_the_fee_payer_could_be_good_for_is_refused() {
        let changed = |change: &dyn Fn(&mut Vec<Instruction>)| {
            let mut instructions = stock();
            change(&mut instructions);
            refused(&instructions)
        };
        let nothing_else = "each once and nothing else";
        type Change<'a> = &'a dyn Fn(&mut Vec<Instruction>);
        let cases: Vec<(Change<'_>, &str)> = vec![
            (
                &|all: &mut Vec<Instruction>| all[3].accounts.push(named(FEE_PAYER, true, true)),
                "no instruction may name",
            ),
            (&|all: &mut Vec<Instruction>| all[2].accounts[3] = named(FEE_PAYER, true, true), "and by the buyer"),
            (&|all: &mut Vec<Instruction>| all[3].accounts.push(named([8; 32], true, false)), "and by nobody else"),
            (&|all: &mut Vec<Instruction>| all.push(transfer(TOKEN_PROGRAMS[0])), nothing_else),
            (&|all: &mut Vec<Instruction>| all.push(transfer(TOKEN_PROGRAMS[1])), nothing_else),
            (&|all: &mut Vec<Instruction>| all.push(budget(SET_PRICE, &[0; 8])), nothing_else),
            // `RequestHeapFrame`.
            (&|all: &mut Vec<Instruction>| all.push(budget(1, &[0; 4])), nothing_else),
            (&|all: &mut Vec<Instruction>| all[0].data.push(0), nothing_else),
            (&|all: &mut Vec<Instruction>| all[3].program_id = ids::SYSTEM_PROGRAM, nothing_else),
            // `Transfer`, and a transfer by several keys, out of another's account, or of which somebody else is the owner.
            (&|all: &mut Vec<Instruction>| all[2].data = [&[3][..], &AMOUNT.to_le_bytes()].concat(), nothing_else),
            (&|all: &mut Vec<Instruction>| all[2].accounts.push(named([8; 32], false, false)), nothing_else),
            (&|all: &mut Vec<Instruction>| all[2].accounts[0].key = [8; 32], nothing_else),
            (&|all: &mut Vec<Instruction>| all[2].data.push(0), nothing_else),
            (&|all: &mut Vec<Instruction>| drop(all.remove(2)), "and by the buyer"),
            (&|all: &mut Vec<Instruction>| drop(all.remove(0)), "must set a limit"),
            (&|all: &mut Vec<Instruction>| all[0] = budget(SET_LIMIT, &200_001_u32.to_le_bytes()), "must set a limit"),
            (
                &|all: &mut Vec<Instruction>| all[1] = budget(SET_PRICE, &5_000_000_u64.to_le_bytes()),
                "may offer at most",
            ),
            (&|all: &mut Vec<Instruction>| all[1] = budget(SET_PRICE, &u64::MAX.to_le_bytes()), "may offer at most"),
            (&|all: &mut Vec<Instruction>| all.extend(vec![memo(HARMLESS[0]); 5]), "at most 8 instructions"),
        ];
        for (change, rule) in cases {
            let said = changed(change);
            assert!(said.contains(rule), "{rule}: {said}");
        }
    }

    #[test]
    fn one_transaction_has_one_form() {
        let wire = versioned(&stock());
        let refuses = |wire: &[u8], rule: &str| {
            let error = ExactTransfer::read(wire).unwrap_err().to_string();
            assert!(error.contains(rule), "{rule}: {error}");
        };
        refuses(&[&wire[..], &[0]].concat(), "nothing behind it");
        refuses(&wire[..wire.len() - 1], "wire form");
        refuses(&[], "wire form");
        refuses(&[0; TRANSACTION_BYTES_MAX + 1], "at most 1232 bytes");
        // A length in more bytes than it takes.
        refuses(&[&[0x82, 0x00], &wire[1..]].concat(), "wire form");
        for at in [66, 130, wire.len() - 2] {
            let mut other = wire.clone();
            other[at] ^= 1;
            assert!(ExactTransfer::read(&other).is_err(), "{at}");
        }
        let fee_payer = Pubkey::new_from_array(own());
        let instructions: Vec<_> = stock().iter().map(instruction).collect();
        let alone = v0::Message::try_compile(&fee_payer, &instructions, &[], Blockhash::default()).unwrap();
        refuses(&self::wire(VersionedMessage::V0(alone)), "and by the buyer");
    }
}
