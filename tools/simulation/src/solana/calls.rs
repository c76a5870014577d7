//! Calls of the program in a transaction that was executed, and what they said.

use std::sync::Arc;

use solana_account::{AccountSharedData, ReadableAccount};

use gateway_program::{
    Key,
    account::Escrow,
    instruction::{Attested, DepositAndReserve, Fulfill, Reassign, Tag},
    verifier_set::VerifierSet,
};

use super::{SimCluster, block::Landed, wire::Signed};

/// Where the signature of the only key stands in the precompile's instruction.
const SIGNATURE: std::ops::Range<usize> = 48..112;
/// Of several: bytes before the first one's offsets, of each one's offsets, and of each key with its signature.
const COUNT_BYTES: usize = 2;
const OFFSETS_BYTES: usize = 14;
const PAIR_BYTES: usize = 96;
const KEY_BYTES: usize = 32;
const SIGNATURE_BYTES: usize = 64;

/// A call of the program by an instruction at the top of a transaction.
#[derive(Debug, Clone)]
pub(super) struct Call {
    pub tag: Tag,
    pub data: Vec<u8>,
    pub accounts: Vec<Key>,
    /// The releaser's word that it brought, hex with 0x, as verifiers give it.
    pub word: Option<String>,
}

impl Call {
    /// The account of the payment's record among its accounts.
    pub fn record(&self) -> Option<&Key> {
        let place = match self.tag {
            Tag::DepositAndReserve | Tag::DepositFromAddress | Tag::DepositFromOffer => 3,
            Tag::Reassign | Tag::Fulfill | Tag::GiveBack => 1,
            Tag::Release | Tag::Cancel | Tag::Refund | Tag::ReturnRemainder | Tag::ReclaimEscrow => 0,
            Tag::Initialize | Tag::ReclaimFulfillment | Tag::GiveBackLamports | Tag::Collect | Tag::CollectLamports => {
                return None;
            }
        };
        self.accounts.get(place)
    }

    /// What a delivery was called with, and who made it.
    pub fn delivery(&self) -> Option<(Key, Fulfill)> {
        let is_delivery = self.tag == Tag::Fulfill;
        is_delivery.then_some(*self.accounts.first()?).zip(Fulfill::from_bytes(&self.data))
    }

    /// What a deposit was called with.
    pub fn deposit(&self) -> Option<DepositAndReserve> {
        DepositAndReserve::from_bytes(&self.data)
    }

    /// What a reassignment was called with.
    pub fn reassignment(&self) -> Option<Reassign> {
        let is_one = self.tag == Tag::Reassign;
        is_one.then(|| Reassign::with_word(&self.data).ok())?.map(|(reassign, _)| reassign)
    }
}

impl Landed {
    /// What became of one of its accounts.
    pub fn after(&self, key: &Key) -> Option<&AccountSharedData> {
        let place = self.signed.keys().iter().position(|named| named.to_bytes() == *key)?;
        self.accounts.get(place)?.1.as_ref()
    }

    /// The escrow that a call was about, as it left it.
    pub fn escrow(&self, call: &Call) -> Option<Escrow> {
        Escrow::from_bytes(self.after(call.record()?)?.data())
    }
}

impl SimCluster {
    /// The calls of the program in a transaction, whether it succeeds or not.
    pub(super) fn calls_in(&self, signed: &Arc<Signed>) -> Vec<Call> {
        let keys = signed.keys();
        let key = |index: &u8| keys.get(usize::from(*index)).map(|key| key.to_bytes());
        let instructions = signed.transaction.message.instructions();
        let call = |instruction: &solana_message::compiled_instruction::CompiledInstruction| {
            let is_ours = key(&instruction.program_id_index)? == self.deployed.program;
            let tag = is_ours.then(|| Tag::from_byte(*instruction.data.first()?)).flatten()?;
            let accounts = instruction.accounts.iter().map(key).collect::<Option<_>>()?;
            let word = word(signed, tag, &instruction.data);
            Some(Call { tag, data: instruction.data.clone(), accounts, word })
        };
        instructions.iter().filter_map(call).collect()
    }

    /// The calls of the program that had their effect.
    pub(super) fn done(&self, landed: &Landed) -> Vec<Call> {
        if landed.execution.error.is_some() { Vec::new() } else { self.calls_in(&landed.signed) }
    }
}

/// The releaser's word that a call brings.
fn word(signed: &Signed, tag: Tag, data: &[u8]) -> Option<String> {
    let attested = match tag {
        Tag::Release | Tag::Cancel => Attested::from_bytes(data.get(1..)?).ok()?,
        Tag::Reassign => Reassign::with_word(data).ok()?.1,
        _ => return None,
    };
    let proof = signed.transaction.message.instructions().get(usize::from(attested.ed25519_index))?;
    let bytes = match &attested.set {
        None => proof.data.get(SIGNATURE)?.to_vec(),
        Some(set) => set_word(set, &proof.data)?,
    };
    Some(format!("0x{}", hex::encode(bytes)))
}

fn set_word(set: &VerifierSet<'_>, proof: &[u8]) -> Option<Vec<u8>> {
    let count = usize::from(set.threshold());
    let pairs = proof.get(COUNT_BYTES + OFFSETS_BYTES * count..)?.get(..PAIR_BYTES * count)?;
    let mut word = set.head().to_vec();
    word.extend(set.members().as_flattened());
    for pair in pairs.chunks_exact(PAIR_BYTES) {
        let (key, signature) = pair.split_at(KEY_BYTES);
        let place = set.members().iter().position(|member| member == key)?;
        word.push(u8::try_from(place).ok()?);
        word.extend(signature.get(..SIGNATURE_BYTES)?);
    }
    Some(word)
}
