//! The messages of Tron's protocol that transactions are made of, with the field numbers of the published definitions
//! (`core/Tron.proto`, `core/contract/*.proto` of tron-protocol) and `google.protobuf.Any`.

use prost::Message;

/// `protocol.Transaction`, without the results that nodes add.
#[derive(Clone, PartialEq, Message)]
pub struct Transaction {
    /// The signed content.
    #[prost(message, optional, tag = "1")]
    pub raw_data: Option<Raw>,
    /// 65 bytes each: r, s and the recovery id.
    #[prost(bytes = "vec", repeated, tag = "2")]
    pub signature: Vec<Vec<u8>>,
}

/// `protocol.Transaction.raw`.
#[derive(Clone, PartialEq, Message)]
pub struct Raw {
    /// The last two bytes of the reference block's number.
    #[prost(bytes = "vec", tag = "1")]
    pub ref_block_bytes: Vec<u8>,
    /// Not used by the network.
    #[prost(int64, tag = "3")]
    pub ref_block_num: i64,
    /// Bytes 8 to 16 of the reference block's id.
    #[prost(bytes = "vec", tag = "4")]
    pub ref_block_hash: Vec<u8>,
    /// Milliseconds since 1970.
    #[prost(int64, tag = "8")]
    pub expiration: i64,
    /// A memo.
    #[prost(bytes = "vec", tag = "10")]
    pub data: Vec<u8>,
    /// Exactly one.
    #[prost(message, repeated, tag = "11")]
    pub contract: Vec<Contract>,
    /// Not used by the network.
    #[prost(bytes = "vec", tag = "12")]
    pub scripts: Vec<u8>,
    /// Milliseconds since 1970, as the client says.
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
    /// Not used by the network.
    #[prost(bytes = "vec", tag = "3")]
    pub provider: Vec<u8>,
    /// Not used by the network.
    #[prost(bytes = "vec", tag = "4")]
    pub contract_name: Vec<u8>,
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

/// `protocol.TransferContract`.
#[derive(Clone, PartialEq, Message)]
pub struct TransferContract {
    /// The payer.
    #[prost(bytes = "vec", tag = "1")]
    pub owner_address: Vec<u8>,
    /// The recipient.
    #[prost(bytes = "vec", tag = "2")]
    pub to_address: Vec<u8>,
    /// Sun.
    #[prost(int64, tag = "3")]
    pub amount: i64,
}

/// `protocol.TriggerSmartContract`.
#[derive(Clone, PartialEq, Message)]
pub struct TriggerSmartContract {
    /// The caller.
    #[prost(bytes = "vec", tag = "1")]
    pub owner_address: Vec<u8>,
    /// The called contract.
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

/// `protocol.CreateSmartContract`.
#[derive(Clone, PartialEq, Message)]
pub struct CreateSmartContract {
    /// The deployer.
    #[prost(bytes = "vec", tag = "1")]
    pub owner_address: Vec<u8>,
    /// The deployed contract.
    #[prost(message, optional, tag = "2")]
    pub new_contract: Option<SmartContract>,
    /// TRC-10 units that go along.
    #[prost(int64, tag = "3")]
    pub call_token_value: i64,
    /// Of which TRC-10 token.
    #[prost(int64, tag = "4")]
    pub token_id: i64,
}

/// `protocol.SmartContract`.
#[derive(Clone, PartialEq, Message)]
pub struct SmartContract {
    /// The account that deployed it.
    #[prost(bytes = "vec", tag = "1")]
    pub origin_address: Vec<u8>,
    /// Where it is.
    #[prost(bytes = "vec", tag = "2")]
    pub contract_address: Vec<u8>,
    /// How it is called.
    #[prost(message, optional, tag = "3")]
    pub abi: Option<Abi>,
    /// Init code with the constructor's arguments.
    #[prost(bytes = "vec", tag = "4")]
    pub bytecode: Vec<u8>,
    /// Sun that go along.
    #[prost(int64, tag = "5")]
    pub call_value: i64,
    /// The caller's share of the energy, in percent.
    #[prost(int64, tag = "6")]
    pub consume_user_resource_percent: i64,
    /// At most 32 bytes.
    #[prost(string, tag = "7")]
    pub name: String,
    /// Energy of the origin's that one call may take.
    #[prost(int64, tag = "8")]
    pub origin_energy_limit: i64,
    /// Of the code.
    #[prost(bytes = "vec", tag = "9")]
    pub code_hash: Vec<u8>,
    /// Of the transaction that deployed it.
    #[prost(bytes = "vec", tag = "10")]
    pub trx_hash: Vec<u8>,
    /// Of the TVM's rules.
    #[prost(int32, tag = "11")]
    pub version: i32,
}

/// `protocol.SmartContract.ABI`.
#[derive(Clone, PartialEq, Message)]
pub struct Abi {
    /// Functions, events, errors.
    #[prost(message, repeated, tag = "1")]
    pub entrys: Vec<AbiEntry>,
}

/// `protocol.SmartContract.ABI.Entry`.
#[derive(Clone, PartialEq, Message)]
pub struct AbiEntry {
    /// Of an event.
    #[prost(bool, tag = "1")]
    pub anonymous: bool,
    /// Old compilers' word for a view.
    #[prost(bool, tag = "2")]
    pub constant: bool,
    /// The name.
    #[prost(string, tag = "3")]
    pub name: String,
    /// The parameters.
    #[prost(message, repeated, tag = "4")]
    pub inputs: Vec<AbiParam>,
    /// What it returns.
    #[prost(message, repeated, tag = "5")]
    pub outputs: Vec<AbiParam>,
    /// `EntryType`.
    #[prost(int32, tag = "6")]
    pub r#type: i32,
    /// Old compilers' word.
    #[prost(bool, tag = "7")]
    pub payable: bool,
    /// `StateMutabilityType`.
    #[prost(int32, tag = "8")]
    pub state_mutability: i32,
}

/// `protocol.SmartContract.ABI.Entry.Param`.
#[derive(Clone, PartialEq, Message)]
pub struct AbiParam {
    /// Of an event's.
    #[prost(bool, tag = "1")]
    pub indexed: bool,
    /// The name.
    #[prost(string, tag = "2")]
    pub name: String,
    /// The type.
    #[prost(string, tag = "3")]
    pub r#type: String,
}

/// `protocol.BlockHeader.raw`, whose SHA-256 is the block's hash.
#[derive(Clone, PartialEq, Message)]
pub struct HeaderRaw {
    /// Milliseconds since 1970.
    #[prost(int64, tag = "1")]
    pub timestamp: i64,
    /// Merkle root of the transactions.
    #[prost(bytes = "vec", tag = "2")]
    pub tx_trie_root: Vec<u8>,
    /// The id of the block before.
    #[prost(bytes = "vec", tag = "3")]
    pub parent_hash: Vec<u8>,
    /// Height.
    #[prost(int64, tag = "7")]
    pub number: i64,
    /// Who made it.
    #[prost(bytes = "vec", tag = "9")]
    pub witness_address: Vec<u8>,
    /// Of the protocol.
    #[prost(int32, tag = "10")]
    pub version: i32,
}
