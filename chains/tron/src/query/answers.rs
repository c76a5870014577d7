//! The forms of nodes' answers, with only what is read of them. What is zero is left out everywhere.

use alloy::primitives::Address;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use escrow_abi::revert::Revert;

use super::{Block, DEFAULT, FAILED, Header, Info, Log, SUCCESS, unhex, unreadable, word, words};
use crate::{
    address,
    rpc::{Fault, shortened},
};

#[derive(Deserialize)]
pub(super) struct RawBlock {
    #[serde(rename = "blockID")]
    pub(super) id: Option<String>,
    #[serde(rename = "block_header")]
    pub(super) header: Option<RawHeader>,
}

/// A block with its transactions, of which only this much is kept.
#[derive(Deserialize)]
pub(super) struct RawDetailedBlock {
    #[serde(rename = "blockID")]
    pub(super) id: Option<String>,
    #[serde(rename = "block_header")]
    pub(super) header: Option<RawHeader>,
    #[serde(default)]
    pub(super) transactions: Vec<RawListed>,
}

#[derive(Deserialize)]
pub(super) struct RawListed {
    #[serde(rename = "txID")]
    pub(super) id: String,
    /// What was signed.
    #[serde(default, rename = "raw_data_hex")]
    pub(super) raw_data: String,
    #[serde(default)]
    pub(super) ret: Vec<RawListedRet>,
}

#[derive(Deserialize)]
pub(super) struct RawListedRet {
    #[serde(default, rename = "contractRet")]
    pub(super) result: String,
}

#[derive(Deserialize)]
pub(super) struct RawHeader {
    pub(super) raw_data: RawHeaderData,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RawHeaderData {
    #[serde(default)]
    pub(super) number: u64,
    #[serde(default)]
    pub(super) timestamp: u64,
    pub(super) parent_hash: String,
    pub(super) tx_trie_root: Option<String>,
}

#[derive(Deserialize)]
pub(super) struct RawReturn {
    #[serde(default)]
    pub(super) result: bool,
    pub(super) code: Option<String>,
    #[serde(default)]
    pub(super) message: String,
}

#[derive(Deserialize)]
pub(super) struct RawCall {
    pub(super) result: RawReturn,
    #[serde(default)]
    pub(super) energy_used: u64,
    #[serde(default)]
    pub(super) constant_result: Vec<String>,
    pub(super) transaction: Option<RawCallTransaction>,
}

#[derive(Deserialize)]
pub(super) struct RawCallTransaction {
    #[serde(default)]
    pub(super) ret: Vec<RawRet>,
}

#[derive(Deserialize)]
pub(super) struct RawRet {
    #[serde(default)]
    pub(super) ret: String,
}

#[derive(Deserialize)]
pub(super) struct RawInfo {
    pub(super) id: Option<String>,
    #[serde(default, rename = "blockNumber")]
    pub(super) block_number: u64,
    #[serde(default, rename = "blockTimeStamp")]
    pub(super) block_time: u64,
    #[serde(default)]
    pub(super) fee: u64,
    #[serde(default, rename = "contractResult")]
    pub(super) contract_result: Vec<String>,
    pub(super) contract_address: Option<String>,
    #[serde(default)]
    pub(super) receipt: RawReceipt,
    #[serde(default)]
    pub(super) log: Vec<RawLog>,
    pub(super) result: Option<String>,
    #[serde(default, rename = "resMessage")]
    pub(super) message: String,
}

/// One of a block's results, if it can be read, without what its contract returned: that can be megabytes.
pub(super) struct RawSibling(pub(super) Option<RawInfo>);

impl<'de> Deserialize<'de> for RawSibling {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let one = Box::<RawValue>::deserialize(deserializer)?;
        let info = serde_json::from_str::<RawInfo>(one.get()).ok();
        Ok(Self(info.map(|info| RawInfo { contract_result: Vec::new(), ..info })))
    }
}

#[derive(Deserialize)]
pub(super) struct RawWaiting {
    #[serde(rename = "txID")]
    pub(super) id: Option<String>,
}

#[derive(Default, Deserialize)]
pub(super) struct RawReceipt {
    pub(super) result: Option<String>,
    #[serde(default)]
    pub(super) energy_usage_total: u64,
}

#[derive(Deserialize)]
pub(super) struct RawLog {
    pub(super) address: String,
    #[serde(default)]
    pub(super) topics: Vec<String>,
    #[serde(default)]
    pub(super) data: String,
}

impl RawBlock {
    pub(super) fn read_header(self) -> Result<Option<Header>, Fault> {
        let root = self.header.as_ref().and_then(|header| header.raw_data.tx_trie_root.as_deref());
        // A block without transactions has the root zero.
        let has_transactions = root.is_some_and(|root| root.bytes().any(|digit| digit != b'0'));
        Ok(self.read()?.map(|block| Header { block, has_transactions }))
    }

    pub(super) fn read(self) -> Result<Option<Block>, Fault> {
        let (Some(id), Some(header)) = (self.id, self.header) else { return Ok(None) };
        let header = header.raw_data;
        let read = || -> Option<Block> {
            let block = Block {
                number: header.number,
                id: word(&id)?,
                parent: word(&header.parent_hash)?,
                time_ms: header.timestamp,
            };
            (block.id[..8] == block.number.to_be_bytes()).then_some(block)
        };
        read().map(Some).ok_or_else(|| unreadable(format!("block {} with the id {}", header.number, shortened(&id))))
    }
}

impl RawInfo {
    pub(super) fn read(self) -> Result<Info, Fault> {
        let failure = self.failure()?;
        let id = self.id.as_deref().and_then(word).ok_or_else(|| unreadable("a transaction without an id"))?;
        let contract = self
            .contract_address
            .as_deref()
            .map(|text| address::from_api(text).ok_or_else(|| unreadable(format!("the contract {}", shortened(text)))));
        let logs = if failure.is_some() { Vec::new() } else { self.log };
        Ok(Info {
            id,
            block_number: self.block_number,
            block_time_ms: self.block_time,
            failure,
            energy: self.receipt.energy_usage_total,
            fee_sun: self.fee,
            contract: contract.transpose()?,
            logs: logs.into_iter().map(RawLog::read).collect::<Result<_, _>>()?,
        })
    }

    /// A call of a contract has the VM's result. What ran no code has none, and has failed only when it says so.
    fn failure(&self) -> Result<Option<String>, Fault> {
        let ran = self.receipt.result.as_deref().filter(|result| *result != DEFAULT);
        let failed = self.result.as_deref() == Some(FAILED);
        match ran {
            Some(SUCCESS) if !failed => Ok(None),
            Some(SUCCESS) => Err(unreadable("a result that is SUCCESS and FAILED")),
            Some(other) => {
                let output = self.contract_result.first().map(|text| unhex(text)).transpose()?.unwrap_or_default();
                let revert = Revert::new(output.into(), &words(&self.message));
                Ok(Some(format!("{}: {}", shortened(other), revert.reason)))
            }
            None if failed => Ok(Some(format!("{FAILED}: {}", shortened(&words(&self.message))))),
            None if self.contract_address.is_some() => Err(unreadable("a contract's result that is missing")),
            None => Ok(None),
        }
    }
}

impl RawLog {
    pub(super) fn read(self) -> Result<Log, Fault> {
        // Twenty bytes here, where the rest of the API has twenty-one.
        let address = hex::decode(&self.address).ok().and_then(|bytes| Address::try_from(bytes.as_slice()).ok());
        let topics = self.topics.iter().map(|topic| word(topic)).collect::<Option<Vec<_>>>();
        match (address, topics) {
            (Some(address), Some(topics)) => Ok(Log { address, topics, data: unhex(&self.data)? }),
            _ => Err(unreadable("a log without an address or with a topic that is none")),
        }
    }
}

#[derive(Deserialize)]
pub(super) struct RawParameters {
    #[serde(rename = "chainParameter")]
    pub(super) parameters: Vec<RawParameter>,
}

#[derive(Deserialize)]
pub(super) struct RawParameter {
    pub(super) key: String,
    #[serde(default)]
    pub(super) value: i64,
}

#[derive(Deserialize)]
pub(super) struct RawAccount {
    pub(super) address: Option<String>,
    #[serde(default)]
    pub(super) balance: u64,
}

#[derive(Deserialize)]
pub(super) struct RawResources {
    #[serde(default, rename = "EnergyLimit")]
    pub(super) energy_limit: u64,
    #[serde(default, rename = "EnergyUsed")]
    pub(super) energy_used: u64,
    #[serde(default, rename = "NetLimit")]
    pub(super) net_limit: u64,
    #[serde(default, rename = "NetUsed")]
    pub(super) net_used: u64,
    #[serde(default, rename = "freeNetLimit")]
    pub(super) free_net_limit: u64,
    #[serde(default, rename = "freeNetUsed")]
    pub(super) free_net_used: u64,
}
