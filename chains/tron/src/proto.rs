//! The messages that transactions are made of, with the field numbers of the published definitions (`core/Tron.proto` and
//! `core/contract/*.proto` of tron-protocol) and `google.protobuf.Any`.
//!
//! Only what can occur in a transaction of ours is here. A field that is missing is unknown to the decoder, so a message
//! that has it does not encode to the same bytes again, and is refused.

use prost::Message;

/// `ContractType.CreateSmartContract`.
pub const CREATE_SMART_CONTRACT: i32 = 30;
/// `ContractType.TriggerSmartContract`.
pub const TRIGGER_SMART_CONTRACT: i32 = 31;

/// `protocol.Transaction`. What was signed is kept as bytes: a message inside a message is encoded the same way.
#[derive(Clone, PartialEq, Message)]
pub struct Transaction {
    /// The encoded [`Raw`].
    #[prost(bytes = "vec", tag = "1")]
    pub raw_data: Vec<u8>,
    /// 65 bytes each: r, s and v.
    #[prost(bytes = "vec", repeated, tag = "2")]
    pub signature: Vec<Vec<u8>>,
}

/// `protocol.Transaction.raw`.
#[derive(Clone, PartialEq, Message)]
pub struct Raw {
    /// The last two bytes of the reference block's number.
    #[prost(bytes = "vec", tag = "1")]
    pub ref_block_bytes: Vec<u8>,
    /// Bytes 8 to 16 of the reference block's id.
    #[prost(bytes = "vec", tag = "4")]
    pub ref_block_hash: Vec<u8>,
    /// UNIX milliseconds.
    #[prost(int64, tag = "8")]
    pub expiration: i64,
    /// A memo.
    #[prost(bytes = "vec", tag = "10")]
    pub data: Vec<u8>,
    /// Exactly one.
    #[prost(message, repeated, tag = "11")]
    pub contract: Vec<Contract>,
    /// UNIX milliseconds, as the client says.
    #[prost(int64, tag = "14")]
    pub timestamp: i64,
    /// Sun that energy may cost.
    #[prost(int64, tag = "18")]
    pub fee_limit: i64,
}

/// `protocol.Transaction.Contract`.
#[derive(Clone, PartialEq, Message)]
pub struct Contract {
    /// `ContractType`.
    #[prost(int32, tag = "1")]
    pub r#type: i32,
    /// The message of that type.
    #[prost(message, optional, tag = "2")]
    pub parameter: Option<Any>,
    /// Whose keys sign: 0 the owner's.
    #[prost(int32, tag = "5")]
    pub permission_id: i32,
}

/// `google.protobuf.Any`.
#[derive(Clone, PartialEq, Message)]
pub struct Any {
    /// `type.googleapis.com/` and the full name.
    #[prost(string, tag = "1")]
    pub type_url: String,
    /// The encoded message.
    #[prost(bytes = "vec", tag = "2")]
    pub value: Vec<u8>,
}

/// `protocol.TriggerSmartContract`. Addresses have 21 bytes.
#[derive(Clone, PartialEq, Message)]
pub struct TriggerSmartContract {
    /// Who calls.
    #[prost(bytes = "vec", tag = "1")]
    pub owner_address: Vec<u8>,
    /// What is called.
    #[prost(bytes = "vec", tag = "2")]
    pub contract_address: Vec<u8>,
    /// Sun that go along.
    #[prost(int64, tag = "3")]
    pub call_value: i64,
    /// Selector and arguments.
    #[prost(bytes = "vec", tag = "4")]
    pub data: Vec<u8>,
    /// TRC-10 units that go along.
    #[prost(int64, tag = "5")]
    pub call_token_value: i64,
    /// Of which TRC-10 token.
    #[prost(int64, tag = "6")]
    pub token_id: i64,
}

/// `protocol.CreateSmartContract`, without TRC-10.
#[derive(Clone, PartialEq, Message)]
pub struct CreateSmartContract {
    /// Who deploys; 21 bytes.
    #[prost(bytes = "vec", tag = "1")]
    pub owner_address: Vec<u8>,
    /// What is deployed.
    #[prost(message, optional, tag = "2")]
    pub new_contract: Option<SmartContract>,
}

/// `protocol.SmartContract`, without what nodes add and without an ABI.
#[derive(Clone, PartialEq, Message)]
pub struct SmartContract {
    /// Who deploys; 21 bytes.
    #[prost(bytes = "vec", tag = "1")]
    pub origin_address: Vec<u8>,
    /// Init code with the constructor's arguments.
    #[prost(bytes = "vec", tag = "4")]
    pub bytecode: Vec<u8>,
    /// The caller's share of the energy, in percent.
    #[prost(int64, tag = "6")]
    pub consume_user_resource_percent: i64,
    /// At most 32 bytes.
    #[prost(string, tag = "7")]
    pub name: String,
    /// Energy of the origin's that one call may take.
    #[prost(int64, tag = "8")]
    pub origin_energy_limit: i64,
}
