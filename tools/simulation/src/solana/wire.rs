//! Wire: a transaction's bytes, and the transaction in them.

use std::{collections::HashSet, sync::Arc};

use ed25519_dalek::{Signature, VerifyingKey};
use solana_address::Address;
use solana_hash::Hash;
use solana_message::{Message, MessageHeader, VersionedMessage, compiled_instruction::CompiledInstruction};
use solana_transaction::versioned::VersionedTransaction;

use gateway_program::{Key, host::TRANSACTION_BYTES_MAX};

/// The bit of a message's first byte that says that the message has a version.
const VERSIONED: u8 = 0x80;
/// The compute budget program.
const COMPUTE_BUDGET: Address = Address::from_str_const("ComputeBudget111111111111111111111111111111");
/// First byte of its instruction that sets a price.
const SET_PRICE: u8 = 3;

/// A transaction as it was sent.
#[derive(Debug, Clone)]
pub(super) struct Signed {
    /// The transaction.
    pub transaction: VersionedTransaction,
    /// The first signature: what the transaction is known by.
    pub signature: [u8; 64],
    /// The bytes that were signed.
    message: Vec<u8>,
}

impl Signed {
    /// The transaction in `wire`, with a legacy message: none that looks up accounts.
    pub fn parse(wire: &[u8]) -> Result<Arc<Self>, String> {
        if wire.len() > TRANSACTION_BYTES_MAX {
            return Err(format!("{} bytes (max: {TRANSACTION_BYTES_MAX})", wire.len()));
        }
        let mut reader = Reader(wire);
        let mut signatures = Vec::new();
        for _ in 0..reader.length()? {
            signatures.push(reader.array::<64>()?);
        }
        let signed = reader.0.to_vec();
        let message = reader.message()?;
        let signature = *signatures.first().ok_or("no signature")?;
        if !reader.0.is_empty() {
            return Err("trailing bytes".to_owned());
        }
        let signatures = signatures.into_iter().map(Into::into).collect();
        let transaction = VersionedTransaction { signatures, message: VersionedMessage::Legacy(message) };
        transaction.sanitize().map_err(|error| error.to_string())?;
        Ok(Arc::new(Self { transaction, signature, message: signed }))
    }

    /// The keys that it names, in order.
    pub fn keys(&self) -> &[Address] {
        self.transaction.message.static_account_keys()
    }

    /// Whether it names this account.
    pub fn names(&self, account: &Key) -> bool {
        self.keys().iter().any(|key| key.to_bytes() == *account)
    }

    /// Whether it may change this account.
    pub fn writes_to(&self, account: &Key) -> bool {
        let place = self.keys().iter().position(|key| key.to_bytes() == *account);
        place.is_some_and(|place| {
            self.transaction.message.is_maybe_writable_with_reserved_addresses(place, None::<&HashSet<Address>>)
        })
    }

    /// The blockhash that it was signed with.
    pub fn blockhash(&self) -> [u8; 32] {
        self.transaction.message.recent_blockhash().to_bytes()
    }

    /// What it offers for a compute unit, in millionths of a lamport.
    pub fn price(&self) -> u64 {
        let keys = self.keys();
        let is_budget =
            |call: &&CompiledInstruction| keys.get(usize::from(call.program_id_index)) == Some(&COMPUTE_BUDGET);
        let price = |call: &CompiledInstruction| match call.data.split_first() {
            Some((&SET_PRICE, price)) => price.try_into().ok().map(u64::from_le_bytes),
            _ => None,
        };
        self.transaction.message.instructions().iter().filter(is_budget).find_map(price).unwrap_or_default()
    }

    /// Whether all that have to sign it did.
    pub fn verify(&self) -> bool {
        let mut signed = self.transaction.signatures.iter().zip(self.keys());
        signed.all(|(signature, key)| {
            let signature = Signature::from_slice(signature.as_ref()).ok();
            let key = VerifyingKey::from_bytes(&key.to_bytes()).ok();
            signature.zip(key).is_some_and(|(signature, key)| key.verify_strict(&self.message, &signature).is_ok())
        })
    }
}

/// What is left to read.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], String> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or("unexpected end of the transaction")?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], String> {
        self.take(N)?.try_into().map_err(|_| "unexpected end of the transaction".to_owned())
    }

    fn byte(&mut self) -> Result<u8, String> {
        Ok(self.array::<1>()?[0])
    }

    /// A number of seven bits a byte, the lowest first, in three bytes at most.
    fn length(&mut self) -> Result<usize, String> {
        let mut length = 0;
        for shift in [0, 7, 14] {
            let byte = self.byte()?;
            length |= usize::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(length);
            }
        }
        Err("a length of more than three bytes".to_owned())
    }

    fn message(&mut self) -> Result<Message, String> {
        let num_required_signatures = self.byte()?;
        if num_required_signatures & VERSIONED != 0 {
            return Err("a message with a version".to_owned());
        }
        let header = MessageHeader {
            num_required_signatures,
            num_readonly_signed_accounts: self.byte()?,
            num_readonly_unsigned_accounts: self.byte()?,
        };
        let mut account_keys = Vec::new();
        for _ in 0..self.length()? {
            account_keys.push(Address::from(self.array::<32>()?));
        }
        let recent_blockhash = Hash::new_from_array(self.array()?);
        let mut instructions = Vec::new();
        for _ in 0..self.length()? {
            let program_id_index = self.byte()?;
            let count = self.length()?;
            let accounts = self.take(count)?.to_vec();
            let count = self.length()?;
            instructions.push(CompiledInstruction { program_id_index, accounts, data: self.take(count)?.to_vec() });
        }
        Ok(Message { header, account_keys, recent_blockhash, instructions })
    }
}
