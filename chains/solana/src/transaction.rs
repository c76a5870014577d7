//! Transactions: what they may cost, their bytes, their signatures.

use ed25519_dalek::{Signer, SigningKey};
use solana_instruction as client;
use solana_message::Message;
use solana_pubkey::Pubkey;

use gateway_program::{
    Hash, Key,
    host::{AccountMeta, Instruction, TRANSACTION_BYTES_MAX},
};
use sagas::ports::Transient;
use signer::Ed25519Key;

/// The compute budget program.
pub(super) const COMPUTE_BUDGET: &str = "ComputeBudget111111111111111111111111111111";
/// Most compute units of a transaction.
pub(super) const UNITS_MAX: u32 = 1_400_000;
/// Compute units beside a fifth more than the simulation needed: account states differ a little by the time
/// it lands.
const UNITS_SPARE: u64 = 5_000;
/// Least offered for a compute unit, in millionths of a lamport.
const PRICE_MIN: u64 = 1_000;
/// Most offered for a compute unit. With a deposit's units it is less than a thousandth of a SOL.
pub(super) const PRICE_MAX: u64 = 5_000_000;
/// Instructions that [`message`] puts before the others.
pub(super) const BUDGET_INSTRUCTIONS: u8 = 2;

/// What a transaction may take and offers for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// Most compute units.
    pub units: u32,
    /// Offered for each, in millionths of a lamport.
    pub price: u64,
}

impl Budget {
    /// What is asked for to simulate a transaction.
    pub const TRIAL: Self = Self { units: UNITS_MAX, price: 0 };

    /// The budget of a transaction that took `units` when it was simulated. `recent` are the prices of the last slots; each
    /// further attempt offers twice as much, because the one before did not land for what it offered.
    pub fn new(units: u64, recent: &[u64], attempt: u32) -> Self {
        let units = units.saturating_add(units / 5).saturating_add(UNITS_SPARE).min(u64::from(UNITS_MAX));
        let mut recent = recent.to_vec();
        recent.sort_unstable();
        // What three of four slots would have taken.
        let usual = recent.get(recent.len() * 3 / 4).copied().unwrap_or(0);
        let doublings = attempt.saturating_sub(1).min(16);
        let price = usual.max(PRICE_MIN).saturating_mul(1 << doublings).min(PRICE_MAX);
        // Bounded by the maximum, which is a u32.
        Self { units: u32::try_from(units).unwrap_or(UNITS_MAX), price }
    }
}

/// A transaction with its signatures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signed {
    /// The fee payer's signature, Base58: the transaction's hash.
    pub hash: String,
    /// The bytes that are sent.
    pub wire: Vec<u8>,
}

/// Why a transaction cannot be signed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SignError {
    /// A key is not there.
    #[error("there is no key of {0}, which has to sign")]
    NoKey(String),
    /// It is too large.
    #[error("a transaction of {0} bytes is more than the {TRANSACTION_BYTES_MAX} that the network carries")]
    Size(usize),
    /// A key gives no signature.
    #[error("{error}")]
    Key {
        /// Its account.
        account: Key,
        /// Why not.
        error: signer::SignError,
    },
}

impl From<SignError> for Transient {
    fn from(error: SignError) -> Self {
        match error {
            SignError::Key { error, .. } => error.into(),
            SignError::NoKey(_) | SignError::Size(_) => Self::misconfigured(error),
        }
    }
}

/// What is signed: the budget, then `instructions`, paid by `payer`.
pub fn message(instructions: &[Instruction], budget: Budget, payer: &Key, blockhash: &Hash) -> Message {
    let mut all = vec![limit(budget.units), price(budget.price)];
    all.extend(instructions.iter().map(instruction));
    Message::new_with_blockhash(
        &all,
        Some(&Pubkey::new_from_array(*payer)),
        &solana_hash::Hash::new_from_array(*blockhash),
    )
}

/// Programs of the instructions of [`message`], in order.
pub(super) fn programs(message: &Message) -> Vec<Key> {
    message.program_ids().into_iter().map(|program| program.to_bytes()).collect()
}

/// The bytes of a transaction that nobody signed, to try it out.
pub fn unsigned(message: &Message) -> Vec<u8> {
    wire(&vec![[0; 64]; usize::from(message.header.num_required_signatures)], message)
}

/// As [`unsigned`], where the transaction is to be sent afterwards.
///
/// # Errors
/// [`SignError::Size`] for one that no node would take: it is not tried out either.
pub(super) fn trial(message: &Message) -> Result<Vec<u8>, SignError> {
    of_size(unsigned(message))
}

/// Signs `message` with those of `keys` that it needs.
///
/// # Errors
/// [`SignError`].
pub fn sign(message: &Message, keys: &[&SigningKey]) -> Result<Signed, SignError> {
    let bytes = message.serialize();
    let mut signatures = Vec::new();
    for signer in message.signer_keys() {
        let key = keys.iter().find(|key| key.verifying_key().to_bytes() == signer.to_bytes());
        let key = key.ok_or_else(|| SignError::NoKey(signer.to_string()))?;
        signatures.push(key.sign(&bytes).to_bytes());
    }
    signed(&signatures, message)
}

/// As [`sign`], with keys that may be elsewhere.
///
/// # Errors
/// [`SignError`]; [`SignError::Key`] when a key gives no signature.
pub(super) async fn sign_by(message: &Message, keys: &[&Ed25519Key]) -> Result<Signed, SignError> {
    let bytes = message.serialize();
    let mut signatures = Vec::new();
    for signer in message.signer_keys() {
        let key = keys.iter().find(|key| key.public() == signer.to_bytes());
        let key = key.ok_or_else(|| SignError::NoKey(signer.to_string()))?;
        let signature = key.sign(&bytes).await.map_err(|error| SignError::Key { account: key.public(), error })?;
        signatures.push(signature);
    }
    signed(&signatures, message)
}

fn signed(signatures: &[[u8; 64]], message: &Message) -> Result<Signed, SignError> {
    let wire = of_size(wire(signatures, message))?;
    let first = signatures.first().ok_or_else(|| SignError::NoKey("the fee payer".to_owned()))?;
    Ok(Signed { hash: hash_of(first), wire })
}

/// The hash of a transaction: the signature of who pays its fee.
pub(super) fn hash_of(by_fee_payer: &[u8; 64]) -> String {
    bs58::encode(by_fee_payer).into_string()
}

fn of_size(wire: Vec<u8>) -> Result<Vec<u8>, SignError> {
    if wire.len() > TRANSACTION_BYTES_MAX { Err(SignError::Size(wire.len())) } else { Ok(wire) }
}

/// Number of signatures, in one byte as long as there are fewer than 128, the signatures, the message.
fn wire(signatures: &[[u8; 64]], message: &Message) -> Vec<u8> {
    // A message counts its signers in a byte, and no transaction has room for 20 of them.
    let mut wire = vec![u8::try_from(signatures.len()).unwrap_or(u8::MAX)];
    wire.extend(signatures.iter().flatten());
    wire.extend(message.serialize());
    wire
}

/// The bytes of a journaled transaction, hex with 0x.
pub(super) fn wire_of(raw: &str) -> Option<Vec<u8>> {
    hex::decode(raw.strip_prefix("0x")?).ok()
}

fn limit(units: u32) -> client::Instruction {
    let mut data = vec![2];
    data.extend_from_slice(&units.to_le_bytes());
    compute_budget(data)
}

fn price(price: u64) -> client::Instruction {
    let mut data = vec![3];
    data.extend_from_slice(&price.to_le_bytes());
    compute_budget(data)
}

fn compute_budget(data: Vec<u8>) -> client::Instruction {
    client::Instruction { program_id: Pubkey::from_str_const(COMPUTE_BUDGET), accounts: Vec::new(), data }
}

/// An instruction in the client library's types.
pub(super) fn instruction(instruction: &Instruction) -> client::Instruction {
    let meta = |account: &AccountMeta| client::AccountMeta {
        pubkey: Pubkey::new_from_array(account.key),
        is_signer: account.signer,
        is_writable: account.writable,
    };
    client::Instruction {
        program_id: Pubkey::new_from_array(instruction.program_id),
        accounts: instruction.accounts.iter().map(meta).collect(),
        data: instruction.data.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_price_follows_the_slots_within_bounds() {
        assert_eq!(Budget::new(10_000, &[], 1), Budget { units: 17_000, price: PRICE_MIN });
        assert_eq!(Budget::new(0, &[0, 0, 9_000, 5_000], 1).price, 9_000);
        assert_eq!(Budget::new(0, &[9_000], 3).price, 36_000);
        assert_eq!(Budget::new(0, &[u64::MAX], 9).price, PRICE_MAX);
        assert_eq!(Budget::new(u64::MAX, &[], u32::MAX), Budget { units: UNITS_MAX, price: PRICE_MAX.min(65_536_000) });
    }

    #[test]
    fn only_the_right_keys_sign_and_the_size_is_looked_at() {
        let payer = SigningKey::from_bytes(&[1; 32]);
        let other = SigningKey::from_bytes(&[2; 32]);
        let call = |bytes: usize| Instruction {
            program_id: [9; 32],
            accounts: vec![AccountMeta { key: other.verifying_key().to_bytes(), signer: true, writable: false }],
            data: vec![0; bytes],
        };
        let key = payer.verifying_key().to_bytes();
        let small = message(&[call(10)], Budget::TRIAL, &key, &[3; 32]);
        let signed = sign(&small, &[&other, &payer]).unwrap();
        assert_eq!(signed.hash, bs58::encode(&signed.wire[1..65]).into_string());
        assert_eq!(signed.wire.len(), unsigned(&small).len());
        assert!(matches!(sign(&small, &[&payer]), Err(SignError::NoKey(_))));
        let large = message(&[call(1_100)], Budget::TRIAL, &key, &[3; 32]);
        assert!(matches!(sign(&large, &[&other, &payer]), Err(SignError::Size(_))));
        assert_eq!(trial(&small).unwrap(), unsigned(&small));
        assert_eq!(trial(&large), Err(SignError::Size(unsigned(&large).len())));
    }
}
