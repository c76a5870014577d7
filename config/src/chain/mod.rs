//! Chain sections: what a gateway's configuration says about chains and the contracts on them, and the rules of chains for
//! every role.

pub(super) mod account_key;
pub(super) mod family_rules;

use std::collections::BTreeSet;

use serde::{Deserialize, Deserializer, de};
use url::Url;

use chains::{
    config::{AssetConfig, ChainConfig, ChainTable, CommonConfig, Error as ChainError},
    head_feed::WsUrl,
};
use events::{Account, AssetId, ChainId, Family, caip};

use self::account_key::{AccountKey, Signs};
use super::{Error, rules::require};

/// A contract on a chain, written as a CAIP-10 account: `eip155:1:0x…`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub struct ContractRef {
    /// The chain.
    pub chain_id: ChainId,
    /// The contract's account on it.
    pub account: Account,
}

impl TryFrom<String> for ContractRef {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let rule = |rule: caip::Error| format!("`{text}` is not a CAIP-10 account: {rule}");
        let (chain, account) = text.rsplit_once(':').ok_or_else(|| rule(caip::Error::NotCaip2))?;
        let chain_id: ChainId = chain.parse().map_err(rule)?;
        let family = chain_id.family().ok_or_else(|| rule(caip::Error::UnknownFamily))?;
        let account = Account::parse(family, account).map_err(rule)?;
        Ok(Self { chain_id, account })
    }
}

/// One of the gateway's `[[chains]]`: what every role knows about a chain, and the gateway's keys for it.
#[derive(Debug, Clone)]
pub struct GatewayChain {
    /// What every role knows.
    pub chain: ChainConfig,
    /// Whether payers on an EVM chain may sign a Permit2 transfer without a witness (`EVM_PERMIT2`). Such a permit binds
    /// neither releaser nor windows nor quote, so it trusts whoever holds the reserver's key with the whole cap. False on
    /// other chains, whose sections may not name it.
    pub permit2_without_witness: bool,
    /// Key of the chain's `reserver`: hex with 0x; on Solana a keypair, Base58 of its 64 bytes or the JSON array of
    /// `solana-keygen`; or where a service keeps it.
    pub reserver_key: AccountKey,
    /// Keys of accounts that were the chain's `reserver`, in the same form: they sign for the payments that name them.
    pub draining_reserver_keys: Vec<AccountKey>,
    /// Keys of the accounts that send the gateway's transactions, in the same form; at least one.
    pub submitter_keys: Vec<AccountKey>,
    /// Keys of the accounts that send refunds and releases and nothing else, in the same form; none where the
    /// submitters do.
    pub exit_submitter_keys: Vec<AccountKey>,
    /// Keys of accounts that were submitters on an EVM chain, in the same form: they begin nothing any more, and end what
    /// has a nonce of theirs. None on other chains, whose transactions are not signed again, and whose sections may not name it.
    pub draining_submitter_keys: Vec<AccountKey>,
}

impl GatewayChain {
    /// All keys, with their names, numbered in lists, and what they sign.
    pub fn keys(&self) -> Vec<(String, &AccountKey, Signs)> {
        let mut keys = vec![("reserver_key".to_owned(), &self.reserver_key, Signs::Statements)];
        for (name, listed, signs) in [
            ("draining_reserver_keys", &self.draining_reserver_keys, Signs::Statements),
            ("submitter_keys", &self.submitter_keys, Signs::Transactions),
            ("exit_submitter_keys", &self.exit_submitter_keys, Signs::Transactions),
            ("draining_submitter_keys", &self.draining_submitter_keys, Signs::Transactions),
        ] {
            keys.extend(listed.iter().enumerate().map(|(i, key)| (format!("{name}[{i}]"), key, signs)));
        }
        keys
    }
}

impl TryFrom<ChainTable> for GatewayChain {
    type Error = ChainError;

    fn try_from(mut table: ChainTable) -> Result<Self, ChainError> {
        let reserver_key = table.require("reserver_key")?;
        let draining_reserver_keys = table.take("draining_reserver_keys")?.unwrap_or_default();
        let submitter_keys = table.require("submitter_keys")?;
        let exit_submitter_keys = table.take("exit_submitter_keys")?.unwrap_or_default();
        let (mut permit2_without_witness, mut draining_submitter_keys) = (false, Vec::new());
        if table.family() == Family::Evm {
            permit2_without_witness = table.take("permit2_without_witness")?.unwrap_or(false);
            draining_submitter_keys = table.take("draining_submitter_keys")?.unwrap_or_default();
        }
        let chain = table.try_into()?;
        Ok(Self {
            chain,
            permit2_without_witness,
            reserver_key,
            draining_reserver_keys,
            submitter_keys,
            exit_submitter_keys,
            draining_submitter_keys,
        })
    }
}

impl<'de> Deserialize<'de> for GatewayChain {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        ChainTable::deserialize(deserializer)?.try_into().map_err(de::Error::custom)
    }
}

/// The rules of `[[chains]]` that every role has.
pub(super) fn check<'a>(configured: impl Iterator<Item = &'a ChainConfig>) -> Result<(), Error> {
    let mut seen = BTreeSet::new();
    for (i, chain) in configured.enumerate() {
        let key = |name: &str| format!("chains[{i}].{name}");
        require(seen.insert(&chain.common().chain_id), &key("chain_id"), "must not repeat")?;
        check_one(chain, key)?;
    }
    require(!seen.is_empty(), "chains", "must hold at least one chain")
}

/// The rules of one chain. `key` makes the path of a member.
fn check_one(config: &ChainConfig, key: impl Fn(&str) -> String) -> Result<(), Error> {
    let (family, chain) = (config.family(), config.common());
    for (i, node) in chain.nodes().iter().enumerate() {
        let rpc = Url::parse(&node.url).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
        let name = if chain.rpc_urls.is_empty() { "rpc_url".to_owned() } else { format!("rpc_urls[{i}]") };
        require(rpc.is_some_and(|url| url.has_host()), &key(&name), "must be an http(s) address")?;
    }
    if let Some(WsUrl(url)) = &chain.ws_url {
        let feed = Url::parse(url).ok().filter(|url| matches!(url.scheme(), "ws" | "wss"));
        require(feed.is_some_and(|url| url.has_host()), &key("ws_url"), "must be a ws(s) address")?;
    }
    family_rules::check(config, &key)?;
    for (name, number) in [
        ("poll_ms", chain.poll_ms),
        ("rpc_timeout_ms", chain.rpc_timeout_ms),
        ("refund_delay_seconds", chain.refund_delay_seconds),
    ] {
        require(number > 0, &key(name), "must be above 0")?;
    }
    let mut assets = BTreeSet::new();
    for (j, served) in chain.assets.iter().enumerate() {
        let key = key(&format!("assets[{j}].asset_identifier"));
        let asset = &served.asset_identifier;
        require(*asset.chain() == chain.chain_id, &key, "must be on this chain")?;
        family_rules::asset(family, &key, asset)?;
        require(assets.insert(asset), &key, "must not repeat")?;
        let rule = "must be the only coin of its chain: a delivery of coins says no more than that";
        require(!asset.is_coin() || coin_of(&chain.assets) == Some(asset), &key, rule)?;
    }
    wrapped_coin(family, chain, key)
}

/// The chain's own coin, when it is among the assets.
fn coin_of(assets: &[AssetConfig]) -> Option<&AssetId> {
    assets.iter().map(|served| &served.asset_identifier).find(|asset| asset.is_coin())
}

/// The rules of the asset that is the wrapped form of the chain's own coin.
fn wrapped_coin(family: Family, chain: &CommonConfig, key: impl Fn(&str) -> String) -> Result<(), Error> {
    let mut is_said = false;
    let listed = coin_of(&chain.assets);
    for (j, served) in chain.assets.iter().enumerate() {
        let Some(coin) = &served.wraps else { continue };
        let key = key(&format!("assets[{j}].wraps"));
        require(*coin.chain() == chain.chain_id, &key, "must be on this chain")?;
        family_rules::wraps(family, &key, &served.asset_identifier, coin)?;
        if let Some(listed) = listed {
            require(listed == coin, &key, &format!("must be {listed}, the chain's coin among its assets"))?;
        }
        require(!is_said, &key, "must be said of one asset of a chain")?;
        is_said = true;
    }
    Ok(())
}
