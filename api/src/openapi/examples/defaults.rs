//! What a request names where it names nothing, chain by chain: on the EVM chain a set of verifiers, elsewhere one.

use serde_json::{Value, json};

use app::views::verifier::VerifierBody;
use events::{VerifierMember, VerifierSet, event::VerifierRef};

use super::{Examples, SOLANA_CHAIN, SOURCE_CHAIN, TOKEN, TRON_CHAIN, WRAPPED};

/// Two of three verifiers.
pub(super) fn verifiers() -> Value {
    let member = |account: &str, endpoint: &str| {
        Some(VerifierMember { account: account.parse().ok()?, endpoint: endpoint.to_owned() })
    };
    let members = [
        member("0x3c44cdddb6a900fa2b585dd299e03d12fa4293bc", "https://verifier-a.example"),
        member("0x976ea74026e726554db657fa54763abd0c3a0aa9", "https://verifier-b.example"),
        member("0x14dc79964da2c08b23698b3d3cc7ca32193d9955", "https://verifier-c.example"),
    ];
    let set = members.into_iter().collect::<Option<_>>().and_then(|members| VerifierSet::new(2, members).ok());
    json!(set.and_then(VerifierRef::of).as_ref().map(VerifierBody::from))
}

/// One verifier.
fn single(account: &str) -> Value {
    let verifier = account.parse().ok().map(|account| VerifierRef::single(account, "http://127.0.0.1:8090"));
    json!(verifier.as_ref().map(VerifierBody::from))
}

/// The windows of a new payment.
fn deadline_limits() -> Value {
    json!({
        "quote_ms_min": 100,
        "quote_seconds_max": 600,
        "settlement_ms_min": 0,
        "settlement_seconds_max": 86400,
        "refund_seconds_max": 86400,
    })
}

/// One chain's defaults.
fn chain_defaults() -> Value {
    let verifiers = verifiers();
    json!({
        "family": "evm",
        "quote_selector": "",
        "fulfillment_verifier": verifiers,
        "escrow_contract_address": "0x5fbdb2315678afecb367f032d93f642f64180aa3",
        "fulfillment_proxy": "0xe7f1725e7734ce288f8367e1bb143e90bb3f0512",
        "escrow_contract_addresses": ["0x5fbdb2315678afecb367f032d93f642f64180aa3"],
        "fulfillment_proxy_addresses": ["0xe7f1725e7734ce288f8367e1bb143e90bb3f0512"],
        "fulfillment_verifiers": [verifiers],
        "settler_policies": ["kyc"],
        "reserver": "0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266",
        "releaser": verifiers["account"],
        "permit2": "0x000000000022d473030f116ddee9f6b43ac78ba3",
        "message_schemes": ["EVM_PERMIT2_ESCROW", "EVM_EIP3009"],
        "refund_delay_seconds": 3600,
        "deadlines": deadline_limits(),
        "required_depth": "finalized",
        "assets": [{
            "asset_identifier": format!("{SOURCE_CHAIN}/erc20:{TOKEN}"),
            "symbol": "USDC",
            "decimals": 6,
        }, {
            "asset_identifier": format!("{SOURCE_CHAIN}/erc20:{WRAPPED}"),
            "symbol": "WETH",
            "decimals": 18,
            "wraps": format!("{SOURCE_CHAIN}/slip44:60"),
        }],
    })
}

/// The defaults of a Solana chain.
fn solana_defaults() -> Value {
    let (program, verifier) =
        ("Bu4YY2J4tTs7UP6nd8uqS7YwzeLpmF1cHSuV5J4DvGA4", "8SFqwqnq4whPhs8icwHA2hQg3hUoN1qrCLK1SBx3WKwe");
    json!({
        "family": "solana",
        "quote_selector": "",
        "fulfillment_verifier": single(verifier),
        "escrow_contract_address": program,
        "fulfillment_proxy": program,
        "escrow_contract_addresses": [program],
        "fulfillment_proxy_addresses": [program],
        "fulfillment_verifiers": [single(verifier)],
        "settler_policies": ["kyc"],
        "reserver": "GyGKxMyg1p9SsHfm15MkNUu1u9TN2JtTspcdmrtGUdse",
        "releaser": verifier,
        "signature_cluster_id": "5eykt4UsFv8P8NJdTREpY1vzqKqZKvdpKuc147dw2N9d",
        "signature_domain_version": 1,
        "message_schemes": ["SOLANA"],
        "refund_delay_seconds": 3600,
        "deadlines": deadline_limits(),
        "required_depth": "finalized",
        "assets": [{
            "asset_identifier": format!("{SOLANA_CHAIN}/token:EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v"),
            "symbol": "USDC",
            "decimals": 6,
        }],
    })
}

/// The defaults of a Tron chain.
fn tron_defaults() -> Value {
    let verifier = "TFTsyAaajS3DTEbekme2wm9fNcypguDHp4";
    json!({
        "family": "tron",
        "quote_selector": "",
        "fulfillment_verifier": single(verifier),
        "escrow_contract_address": "TJhSSbZ8dVqtEiLYgva1WWcV4R4NkRCARH",
        "fulfillment_proxy": "TX7cLPN5XdNGBzyF9ti4nsHCPZhq7qqJ7C",
        "escrow_contract_addresses": ["TJhSSbZ8dVqtEiLYgva1WWcV4R4NkRCARH"],
        "fulfillment_proxy_addresses": ["TX7cLPN5XdNGBzyF9ti4nsHCPZhq7qqJ7C"],
        "fulfillment_verifiers": [single(verifier)],
        "settler_policies": ["kyc"],
        "reserver": "TYBNgWfhGuNzdLtjKtxXTfskAhTbMcqbaG",
        "releaser": verifier,
        "permit2": "TTJxU3P8rHycAyFY4kVtGNfmnMH4ezcuM9",
        "message_schemes": ["TRON_PERMIT2_ESCROW", "TRON"],
        "refund_delay_seconds": 3600,
        "deadlines": deadline_limits(),
        "required_depth": "finalized",
        "assets": [{
            "asset_identifier": format!("{TRON_CHAIN}/trc20:TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6t"),
            "symbol": "USDT",
            "decimals": 6,
        }],
    })
}

/// All chains, and one of each family.
pub(in crate::openapi) fn defaults() -> Examples {
    let every = json!({
        "chains": {SOURCE_CHAIN: chain_defaults(), SOLANA_CHAIN: solana_defaults(), TRON_CHAIN: tron_defaults()},
    });
    vec![
        ("every chain", every),
        ("one chain, by chain_id", chain_defaults()),
        ("a Solana chain, by chain_id", solana_defaults()),
        ("a Tron chain, by chain_id", tron_defaults()),
    ]
}
