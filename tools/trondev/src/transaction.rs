//! Transactions: their bytes, their id and what they ask for.

use std::fmt;

use prost::Message;
use sha2::{Digest, Sha256};

use crate::{
    Address, Refusal,
    proto::{self, CreateSmartContract, SmartContract, TransferContract, TriggerSmartContract},
};

/// `ContractType.TransferContract`.
pub const TRANSFER: i32 = 1;
/// `ContractType.CreateSmartContract`.
pub const CREATE: i32 = 30;
/// `ContractType.TriggerSmartContract`.
pub const TRIGGER: i32 = 31;
/// A larger transaction is refused: 500 KiB.
pub const BYTES_MAX: usize = 500 * 1024;
/// What nodes reserve in each transaction for its result.
const RESULT_BYTES: usize = 64;
const TYPE_PREFIX: &str = "type.googleapis.com/protocol.";

/// SHA-256 over the encoded `raw_data`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TxId(pub [u8; 32]);

impl fmt::Display for TxId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&hex::encode(self.0))
    }
}

impl fmt::Debug for TxId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

/// The request of a transaction.
#[derive(Debug, Clone, PartialEq)]
pub enum Call {
    /// TRX from one account to another.
    Transfer {
        /// The recipient.
        to: Address,
        /// Sun.
        amount: i64,
    },
    /// A call of a contract.
    Trigger {
        /// Which.
        contract: Address,
        /// Sun that go along.
        value: i64,
        /// Selector and arguments.
        data: Vec<u8>,
    },
    /// A deployment.
    Create {
        /// Its code, its ABI and its settings.
        contract: Box<SmartContract>,
    },
}

/// A transaction that could be read.
#[derive(Debug, Clone, PartialEq)]
pub struct Transaction {
    /// The signed content.
    pub raw: proto::Raw,
    /// Its id.
    pub id: TxId,
    /// 65 bytes each, as they came.
    pub signatures: Vec<Vec<u8>>,
    /// Who acts and pays.
    pub owner: Address,
    /// What is asked.
    pub call: Call,
}

impl Transaction {
    /// Reads the encoded `protocol.Transaction`.
    ///
    /// # Errors
    /// When it is none, is not in the canonical encoding that its id is computed over, or asks for what this node does
    /// not do.
    pub fn decode(bytes: &[u8]) -> Result<Self, Refusal> {
        if bytes.len() > BYTES_MAX {
            return Err(Refusal::TooBig);
        }
        let message = proto::Transaction::decode(bytes).map_err(|error| Refusal::Other(error.to_string()))?;
        let encoded = message.encode_to_vec();
        if encoded != bytes {
            return Err(Refusal::Other("the transaction has unknown fields or is not encoded canonically".to_owned()));
        }
        Self::from_message(message)
    }

    /// Takes a decoded message.
    ///
    /// # Errors
    /// As [`Transaction::decode`].
    pub fn from_message(message: proto::Transaction) -> Result<Self, Refusal> {
        let raw = message.raw_data.ok_or_else(|| Refusal::Signature("miss sig or contract".to_owned()))?;
        let [contract] = raw.contract.as_slice() else {
            return Err(Refusal::contract("act size should be exactly 1, this is extend feature"));
        };
        let (owner, call) = call(contract)?;
        let id = TxId(Sha256::digest(raw.encode_to_vec()).into());
        Ok(Self { raw, id, signatures: message.signature, owner, call })
    }

    /// The message again.
    pub fn message(&self) -> proto::Transaction {
        proto::Transaction { raw_data: Some(self.raw.clone()), signature: self.signatures.clone() }
    }

    /// The encoded message, which nodes take.
    pub fn encoded(&self) -> Vec<u8> {
        self.message().encode_to_vec()
    }

    /// Bytes of the encoded message.
    pub fn size(&self) -> usize {
        self.message().encoded_len()
    }

    /// Bytes that bandwidth is counted for.
    pub fn bandwidth(&self) -> u64 {
        (self.size() + RESULT_BYTES) as u64
    }
}

/// Puts a contract's message into the envelope that transactions carry.
pub(crate) fn envelope(kind: i32, message: &impl Message, permission_id: i32) -> proto::Contract {
    let name = type_name(kind).unwrap_or_default();
    proto::Contract {
        r#type: kind,
        parameter: Some(proto::Any { type_url: format!("{TYPE_PREFIX}{name}"), value: message.encode_to_vec() }),
        permission_id,
        ..Default::default()
    }
}

/// The name of a type of contract that this node runs.
pub(crate) fn type_name(kind: i32) -> Option<&'static str> {
    match kind {
        TRANSFER => Some("TransferContract"),
        CREATE => Some("CreateSmartContract"),
        TRIGGER => Some("TriggerSmartContract"),
        _ => None,
    }
}

fn call(contract: &proto::Contract) -> Result<(Address, Call), Refusal> {
    let name = type_name(contract.r#type).ok_or_else(|| {
        let kind = contract.r#type;
        Refusal::contract(format!("contracts of type {kind} are not supported by this development node"))
    })?;
    let parameter = contract.parameter.as_ref().ok_or_else(|| Refusal::contract("the contract has no parameter"))?;
    if parameter.type_url.strip_prefix(TYPE_PREFIX) != Some(name) {
        return Err(Refusal::contract(format!("contract type error, expected type [{name}]")));
    }
    let read = match contract.r#type {
        TRANSFER => {
            let message: TransferContract = canonical(&parameter.value)?;
            let owner = Address::from_bytes(&message.owner_address).map_err(Refusal::address("ownerAddress"))?;
            let to = Address::from_bytes(&message.to_address).map_err(Refusal::address("toAddress"))?;
            (owner, Call::Transfer { to, amount: message.amount })
        }
        TRIGGER => {
            let message: TriggerSmartContract = canonical(&parameter.value)?;
            without_trc10(message.call_token_value, message.token_id)?;
            let owner = Address::from_bytes(&message.owner_address).map_err(Refusal::address("ownerAddress"))?;
            let contract =
                Address::from_bytes(&message.contract_address).map_err(Refusal::address("contractAddress"))?;
            (owner, Call::Trigger { contract, value: message.call_value, data: message.data })
        }
        _ => {
            let message: CreateSmartContract = canonical(&parameter.value)?;
            without_trc10(message.call_token_value, message.token_id)?;
            let owner = Address::from_bytes(&message.owner_address).map_err(Refusal::address("ownerAddress"))?;
            let contract = message.new_contract.ok_or_else(|| Refusal::contract("there is no new contract"))?;
            if contract.origin_address != owner.to_bytes() {
                return Err(Refusal::contract("OwnerAddress is not equals OriginAddress"));
            }
            (owner, Call::Create { contract: Box::new(contract) })
        }
    };
    Ok(read)
}

/// What is signed must be all that was read.
fn canonical<M: Message + Default>(bytes: &[u8]) -> Result<M, Refusal> {
    let message = M::decode(bytes).map_err(|error| Refusal::contract(error.to_string()))?;
    if message.encode_to_vec() != bytes {
        return Err(Refusal::contract("the contract has unknown fields or is not encoded canonically"));
    }
    Ok(message)
}

fn without_trc10(value: i64, token: i64) -> Result<(), Refusal> {
    if value != 0 || token != 0 {
        return Err(Refusal::contract("TRC-10 tokens are not supported by this development node"));
    }
    Ok(())
}
