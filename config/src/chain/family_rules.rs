//! Rules of a chain's family: for its accounts, keys, assets and the options that only it has.

use alloy::signers::local::PrivateKeySigner;

use chains::config::{ChainConfig, Depth, EvmConfig, NATIVE_MINT, SolanaConfig, TronConfig};
use chains_solana::{
    authorization::{ClusterId, SIGNATURE_DOMAIN_VERSION},
    keys,
};
use events::{Account, AssetId, Family};

use crate::{
    Error, Secret,
    rules::{invalid, require},
};

/// Characters of the genesis hash that a Solana chain's CAIP-2 reference has.
const SOLANA_REFERENCE_CHARS: usize = 32;

/// The rules that only chains of this family have. `key` makes the path of a member.
pub(super) fn check(chain: &ChainConfig, key: impl Fn(&str) -> String) -> Result<(), Error> {
    match chain {
        ChainConfig::Evm(chain) => evm(chain, key),
        ChainConfig::Solana(chain) => solana(chain, key),
        ChainConfig::Tron(chain) => tron(chain, key),
    }
}

fn evm(chain: &EvmConfig, key: impl Fn(&str) -> String) -> Result<(), Error> {
    require(chain.admission_seconds > 0, &key("admission_seconds"), "must be above 0")?;
    require(chain.reprice_seconds > 0, &key("reprice_seconds"), "must be above 0")?;
    chain.gas.check().map_err(|(name, rule)| invalid(key(&format!("gas.{name}")), rule))
}

fn tron(chain: &TronConfig, key: impl Fn(&str) -> String) -> Result<(), Error> {
    let chain = &chain.common;
    // It is four bytes of the first block's id.
    let reference = chain.chain_id.reference().parse::<u32>();
    require(reference.is_ok(), &key("chain_id"), "must be below 2^32 on Tron")?;
    for (i, node) in chain.nodes().iter().enumerate() {
        let path = node.url.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
        let name = if chain.rpc_urls.is_empty() { "rpc_url".to_owned() } else { format!("rpc_urls[{i}]") };
        let rule = "must be the base of the HTTP API: what /wallet and /walletsolidity come after";
        require(!matches!(path, "wallet" | "walletsolidity" | "jsonrpc"), &key(&name), rule)?;
    }
    require(chain.required_depth == Depth::Finalized, &key("required_depth"), "must be \"finalized\" on Tron")
}

fn solana(config: &SolanaConfig, key: impl Fn(&str) -> String) -> Result<(), Error> {
    let (chain, cluster_id) = (&config.common, config.signature_cluster_id.as_str());
    let cluster_key = key("signature_cluster_id");
    let rule = "must be the cluster's genesis hash, the Base58 form of 32 bytes";
    require(ClusterId::parse(cluster_id).is_some(), &cluster_key, rule)?;
    let reference = cluster_id.get(..SOLANA_REFERENCE_CHARS);
    let rule = "must begin with the reference of chain_id, which is its first 32 characters";
    require(reference == Some(chain.chain_id.reference()), &cluster_key, rule)?;
    let version = config.signature_domain_version == SIGNATURE_DOMAIN_VERSION;
    require(version, &key("signature_domain_version"), &format!("must be {SIGNATURE_DOMAIN_VERSION}"))?;
    let same = chain.escrow_contract == chain.fulfillment_proxy;
    require(same, &key("fulfillment_proxy"), "must be the escrow_contract: one program is both")?;
    require(chain.required_depth == Depth::Finalized, &key("required_depth"), "must be \"finalized\" on Solana")
}

/// An asset that can be served on a chain of the family.
pub(super) fn asset(family: Family, key: &str, asset: &AssetId) -> Result<(), Error> {
    match (family, asset.namespace(), asset.reference()) {
        (Family::Evm, "erc20", token) | (Family::Solana, "token", token) | (Family::Tron, "trc20", token) => {
            Account::parse(family, token).map(drop).map_err(|rule| invalid(key, rule.to_string()))
        }
        // Of use as destinations: a deposit is of tokens (ADR 115, 116).
        (Family::Solana, "slip44", "501") | (Family::Tron, "slip44", "195") => Ok(()),
        (Family::Evm, "slip44", number) => require(is_coin_type(number), key, COIN_TYPE),
        (Family::Evm, ..) => Err(invalid(key, "must be of namespace erc20, or slip44 for the chain's own coin")),
        (Family::Solana, ..) => Err(invalid(key, "must be of namespace token, or slip44:501")),
        (Family::Tron, ..) => Err(invalid(key, "must be of namespace trc20, or slip44:195")),
    }
}

const COIN_TYPE: &str = "must name the coin by its number in SLIP-44, such as slip44:60 for ETH";

/// Whether `text` is a coin type as SLIP-44 numbers them: below 2^31, in decimal without leading zeros. One coin has one
/// spelling.
fn is_coin_type(text: &str) -> bool {
    text.parse::<u32>().is_ok_and(|number| number < 1 << 31 && number.to_string() == text)
}

/// A coin that `asset` can be the wrapped form of.
pub(super) fn wraps(family: Family, key: &str, asset: &AssetId, coin: &AssetId) -> Result<(), Error> {
    let (token, rule, holds) = match family {
        // Which coin type a chain of the family has is its own.
        Family::Evm if coin.is_coin() => ("erc20", COIN_TYPE, is_coin_type(coin.reference())),
        Family::Evm => ("erc20", "must be of namespace slip44", false),
        Family::Solana => ("token", "must be slip44:501", (coin.namespace(), coin.reference()) == ("slip44", "501")),
        Family::Tron => ("trc20", "must be slip44:195", (coin.namespace(), coin.reference()) == ("slip44", "195")),
    };
    require(holds, key, rule)?;
    require(asset.namespace() == token, key, "must be said of a token: a coin wraps nothing")?;
    let is_native = family != Family::Solana || asset.reference() == NATIVE_MINT;
    require(is_native, key, &format!("must be said of {NATIVE_MINT} alone, which is wrapped SOL"))
}

/// The account of a private key of the family, which stands under `key`. The error says nothing of it.
///
/// # Errors
/// [`Error::Invalid`], where it is no private key.
pub fn account_of(family: Family, key: &str, secret: &Secret) -> Result<String, Error> {
    let hex = || evm_key(secret).ok_or_else(|| invalid(key, "must be a private key, 0x and 64 hex digits"));
    match family {
        // Lower case.
        Family::Evm => hex().map(|signer| format!("{:#x}", signer.address())),
        Family::Solana => keys::keypair(secret.expose())
            .map(|keypair| keys::account(&keypair))
            .map_err(|rule| invalid(key, rule.to_string())),
        Family::Tron => hex().map(|signer| chains_tron::address::text(signer.address())),
    }
}

/// The key of an account on EVM or Tron, which have the same.
fn evm_key(secret: &Secret) -> Option<PrivateKeySigner> {
    let digits = secret.expose().strip_prefix("0x").filter(|digits| digits.len() == 64)?;
    digits.parse().ok()
}
