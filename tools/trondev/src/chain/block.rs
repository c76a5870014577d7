//! Blocks and their ids.

use std::{fmt, sync::Arc};

use k256::ecdsa::SigningKey;
use prost::Message;
use sha2::{Digest, Sha256};

use super::execute::Outcome;
use crate::{Address, Refusal, proto::HeaderRaw, signature, transaction::Transaction};

/// How many take turns in making blocks, as on Tron's networks.
const WITNESSES: u8 = 27;
/// Of the protocol, as the main network's blocks say.
const VERSION: i32 = 31;

/// The number in eight bytes, and the last 24 of SHA-256 over the header.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct BlockId(pub [u8; 32]);

impl BlockId {
    /// What transactions name: the last two bytes of the number, and eight bytes of the hash.
    pub fn reference(&self) -> ([u8; 2], [u8; 8]) {
        let (mut number, mut hash) = ([0; 2], [0; 8]);
        number.copy_from_slice(&self.0[6..8]);
        hash.copy_from_slice(&self.0[8..16]);
        (number, hash)
    }
}

impl fmt::Display for BlockId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&hex::encode(self.0))
    }
}

impl fmt::Debug for BlockId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

/// A transaction in a block.
#[derive(Debug, Clone)]
pub(crate) struct Included {
    pub transaction: Arc<Transaction>,
    pub outcome: Outcome,
}

#[derive(Debug)]
pub(crate) struct Block {
    pub id: BlockId,
    pub header: HeaderRaw,
    pub witness: Address,
    pub signature: Vec<u8>,
    pub transactions: Vec<Included>,
    /// Of the transactions, encoded.
    pub bytes: usize,
}

impl Block {
    pub fn number(&self) -> u64 {
        // Made from a u64 that counts blocks.
        self.header.number.unsigned_abs()
    }

    /// Milliseconds since 1970.
    pub fn time(&self) -> i64 {
        self.header.timestamp
    }

    /// The first block of a chain. On Tron the chain id is the last four bytes of its id, so they are put there.
    pub fn first(chain_id: u32, time: i64) -> Self {
        let header =
            HeaderRaw { timestamp: time, parent_hash: vec![0; 32], tx_trie_root: vec![0; 32], ..Default::default() };
        let mut id = id_of(&header);
        id.0[28..].copy_from_slice(&chain_id.to_be_bytes());
        Self {
            id,
            header,
            witness: Address::from_evm(Default::default()),
            signature: Vec::new(),
            transactions: Vec::new(),
            bytes: 0,
        }
    }

    /// The block after `parent`.
    pub fn after(parent: &Self, time: i64, witness: &Witness, transactions: Vec<Included>) -> Result<Self, Refusal> {
        let header = HeaderRaw {
            timestamp: time,
            tx_trie_root: merkle_root(&transactions).to_vec(),
            parent_hash: parent.id.0.to_vec(),
            number: parent.header.number + 1,
            witness_address: witness.address.to_bytes().to_vec(),
            version: VERSION,
        };
        let hash: [u8; 32] = Sha256::digest(header.encode_to_vec()).into();
        let signature = signature::sign(&witness.key, &hash)?.to_vec();
        let bytes = transactions.iter().map(|included| included.transaction.size()).sum();
        Ok(Self { id: id_of(&header), header, witness: witness.address, signature, transactions, bytes })
    }
}

fn id_of(header: &HeaderRaw) -> BlockId {
    let mut id: [u8; 32] = Sha256::digest(header.encode_to_vec()).into();
    id[..8].copy_from_slice(&header.number.to_be_bytes());
    BlockId(id)
}

fn merkle_root(transactions: &[Included]) -> [u8; 32] {
    let leaf = |included: &Included| Sha256::digest(included.transaction.message().encode_to_vec()).into();
    let mut level: Vec<[u8; 32]> = transactions.iter().map(leaf).collect();
    while level.len() > 1 {
        level = level
            .chunks(2)
            .map(|pair| match pair {
                [left, right] => Sha256::digest([*left, *right].concat()).into(),
                // One that is left over goes up as it is.
                rest => rest[0],
            })
            .collect();
    }
    level.first().copied().unwrap_or_default()
}

/// Who makes blocks. The keys are known to everyone, as nothing depends on them.
#[derive(Debug, Clone)]
pub(crate) struct Witness {
    pub key: SigningKey,
    pub address: Address,
}

impl Witness {
    /// All of them, in the order of their turns.
    pub fn all() -> Result<Vec<Self>, Refusal> {
        (0..WITNESSES)
            .map(|number| {
                let seed = Sha256::digest(format!("trondev witness {number}"));
                let key = SigningKey::from_slice(&seed).map_err(|error| Refusal::Other(error.to_string()))?;
                let address = Address::of_key(key.verifying_key());
                Ok(Self { key, address })
            })
            .collect()
    }
}
