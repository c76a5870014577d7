//! Contract creation: the transaction that deploys a contract, where it puts it, and whether one was made so.

use alloy::{
    primitives::{Address, B256, keccak256},
    signers::local::PrivateKeySigner,
};
use prost::Message;

use chains::deployment::Finding;
use escrow_abi::artefacts::Artefact;

use super::{
    address,
    proto::{Any, CREATE_SMART_CONTRACT, Contract, CreateSmartContract, Raw, SmartContract, Transaction},
    transaction::{self, Reference, SIGNATURE_BYTES, Signed},
};

/// The caller pays all energy.
const CALLER_PAYS_PERCENT: i64 = 100;
/// Energy of the deployer's that a call may take: any number above 0, as the caller pays all.
const ORIGIN_ENERGY: i64 = 10_000_000;
const TYPE_URL: &str = "type.googleapis.com/protocol.CreateSmartContract";

/// The creation of a contract. Amounts and times above 2^63 - 1, which the protocol does not have, are written as that.
#[derive(Debug, Clone)]
pub(super) struct Creation {
    /// Who deploys, signs and pays.
    pub owner: Address,
    /// The contract's name for explorers, at most 32 bytes.
    pub name: String,
    /// Creation code with the constructor's arguments.
    pub code: Vec<u8>,
    /// Sun that energy may cost at most.
    pub fee_limit_sun: u64,
    /// The block that is named.
    pub reference: Reference,
    /// When it was made, UNIX milliseconds; only the client says so.
    pub timestamp_ms: u64,
    /// UNIX milliseconds. No block whose parent's time has reached it holds the transaction.
    pub expiration_ms: u64,
}

impl Creation {
    /// Signs it; `key` should be the owner's, or the network refuses it.
    pub fn sign(self, key: &PrivateKeySigner) -> SignedCreation {
        let raw_data = self.raw_data();
        let id = transaction::id(&raw_data);
        let bytes = transaction::assemble(&raw_data, &transaction::signature_of(id, key));
        let signed = Signed { id, bytes, expiration_ms: self.expiration_ms };
        SignedCreation { signed, owner: self.owner, code: self.code, fee_limit_sun: self.fee_limit_sun }
    }

    /// How many bytes it has when it is signed.
    pub fn signed_bytes(&self) -> usize {
        transaction::assemble(&self.raw_data(), &[0; SIGNATURE_BYTES]).len()
    }

    fn raw_data(&self) -> Vec<u8> {
        let owner = address::bytes(self.owner).to_vec();
        let contract = SmartContract {
            origin_address: owner.clone(),
            bytecode: self.code.clone(),
            consume_user_resource_percent: CALLER_PAYS_PERCENT,
            name: self.name.clone(),
            origin_energy_limit: ORIGIN_ENERGY,
        };
        let message = CreateSmartContract { owner_address: owner, new_contract: Some(contract) };
        let parameter = Any { type_url: TYPE_URL.to_owned(), value: message.encode_to_vec() };
        let contract = Contract { r#type: CREATE_SMART_CONTRACT, parameter: Some(parameter), ..Default::default() };
        let raw = Raw {
            ref_block_bytes: self.reference.number.to_vec(),
            ref_block_hash: self.reference.hash.to_vec(),
            expiration: transaction::signed(self.expiration_ms),
            contract: vec![contract],
            timestamp: transaction::signed(self.timestamp_ms),
            fee_limit: transaction::signed(self.fee_limit_sun),
            ..Default::default()
        };
        raw.encode_to_vec()
    }
}

/// A creation that was signed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SignedCreation {
    /// The transaction.
    pub signed: Signed,
    /// Who deploys and pays.
    pub owner: Address,
    /// Creation code with the constructor's arguments.
    pub code: Vec<u8>,
    /// Sun that energy may cost at most.
    pub fee_limit_sun: u64,
}

impl SignedCreation {
    /// Reads the whole encoded `Transaction`; `None` where it is not a creation. The signature is not judged.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let transaction = Transaction::decode(bytes).ok()?;
        let raw = Raw::decode(transaction.raw_data.as_slice()).ok()?;
        let [contract] = raw.contract.as_slice() else { return None };
        let parameter = contract.parameter.as_ref().filter(|parameter| parameter.type_url == TYPE_URL)?;
        let message = CreateSmartContract::decode(parameter.value.as_slice()).ok()?;
        let id = transaction::id(&transaction.raw_data);
        Some(Self {
            signed: Signed { id, bytes: bytes.to_vec(), expiration_ms: u64::try_from(raw.expiration).ok()? },
            owner: address::from_bytes(&message.owner_address)?,
            code: message.new_contract?.bytecode,
            fee_limit_sun: u64::try_from(raw.fee_limit).ok()?,
        })
    }

    /// Where it puts the contract.
    pub fn contract(&self) -> Address {
        created(self.signed.id, self.owner)
    }
}

/// Where the transaction `id` of `owner` puts the contract that it deploys.
pub(super) fn created(id: B256, owner: Address) -> Address {
    Address::from_word(keccak256([id.as_slice(), &address::bytes(owner)].concat()))
}

/// Where the contract at `creator` puts what it makes by CREATE2: where the EVM hashes 0xff, Tron hashes the first byte of the creator's
/// address (java-tron's `generateContractAddress2`).
pub(super) fn create2(creator: Address, salt: B256, code: &[u8]) -> Address {
    let hashed = [address::bytes(creator).as_slice(), salt.as_slice(), keccak256(code).as_slice()].concat();
    Address::from_word(keccak256(hashed))
}

/// Whether `artefact`'s constructor made the contract, with arguments that `fit`. Another one could have left the same code, and
/// in its storage what it liked: payments that nobody made, or claims.
pub(super) fn constructed(artefact: &Artefact, creation: &[u8], fit: impl Fn(&[u8]) -> bool) -> Finding {
    let subject = format!("constructor of {}", artefact.name);
    if creation.is_empty() {
        return Finding::bad(subject, "no transaction made the contract, so what its storage began with is not known");
    }
    match creation.strip_prefix(artefact.creation.as_ref()) {
        Some(arguments) if fit(arguments) => Finding::good(subject),
        Some(_) => Finding::bad(subject, "had other arguments than it should"),
        None => Finding::bad(subject, "is another one's"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let key = PrivateKeySigner::from_bytes(&B256::repeat_byte(9)).unwrap();
        let creation = Creation {
            owner: key.address(),
            name: "GatewayEscrow".to_owned(),
            code: vec![7; 300],
            fee_limit_sun: 5,
            reference: Reference { number: [6; 2], hash: [7; 8] },
            timestamp_ms: 1_700_000_000_000,
            expiration_ms: 1_700_000_060_000,
        };
        let bytes = creation.signed_bytes();
        let signed = creation.sign(&key);
        assert_eq!(signed.signed.bytes.len(), bytes);
        assert_eq!(SignedCreation::read(&signed.signed.bytes), Some(signed.clone()));
        assert_eq!(signed.contract(), created(signed.signed.id, key.address()));
        for other in [&[][..], &[0xff; 70], &signed.signed.bytes[..200]] {
            assert_eq!(SignedCreation::read(other), None);
        }
    }
}
