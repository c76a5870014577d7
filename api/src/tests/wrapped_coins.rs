//! Coins of chains' own are paid with in their wrapped form (ADR 116): what is refused, what is shown, and what a payer is told
//! to send first.

use chains::config::{ChainConfig, NATIVE_MINT};
use config::{
    GatewayChain,
    examples::{with_solana, with_tron},
};

use super::*;

const PREPARE: &str = "/v1/payments/prepare";
const VERIFY: &str = "/v1/payments/verify";
const QUOTES: &str = "/v1/payments/quote-requests";
const COIN: &str = "eip155:31337/slip44:60";
const SOLANA: &str = "solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1";
const TRON: &str = "tron:728126428";
const TRON_TOKEN: &str = "tron:728126428/trc20:TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6t";

/// The chain that an example adds.
fn added(example: String) -> GatewayChain {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("gateway.toml");
    std::fs::write(&path, example).unwrap();
    GatewayConfig::load(&path).unwrap().chains.remove(1)
}

/// The tokens of an EVM chain and of Tron, and wrapped SOL, are the wrapped forms of their chains' coins; nothing is on the
/// other EVM chain.
fn wrapping() -> Gateway {
    let example = include_str!("../../../config/gateway.example.toml");
    Gateway::configured(|config| {
        let ChainConfig::Evm(evm) = &mut config.chains[0].chain else { panic!("the first is an EVM chain") };
        evm.common.assets[0].wraps = Some(COIN.parse().unwrap());
        // What is said of this mint without a key.
        let native = with_solana(example).replace("EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v", NATIVE_MINT);
        config.chains.push(added(native));
        let mut tron = added(with_tron(example));
        tron.chain.common_mut().assets[0].wraps = Some(format!("{TRON}/slip44:195").parse().unwrap());
        config.chains.push(tron);
    })
}

fn unsigned(mut body: Value) -> Value {
    body.as_object_mut().unwrap().remove("sender_auth");
    body
}

#[tokio::test]
async fn the_defaults_and_x402_show_which_asset_wraps_the_coin_of_a_chain() {
    let gateway = wrapping();
    let chains = gateway.get("/v1/defaults").await.expect(200).body["chains"].clone();
    let supported = gateway.get("/x402/v1/supported").await.expect(200).body;
    let kinds = supported["kinds"].as_array().unwrap();
    let wrapped = format!("{SOLANA}/token:{NATIVE_MINT}");
    let sol = format!("{SOLANA}/slip44:501");
    let trx = format!("{TRON}/slip44:195");
    for (chain, asset, coin) in
        [("eip155:31337", SOURCE_ASSET, COIN), (SOLANA, &wrapped, &sol), (TRON, TRON_TOKEN, &trx)]
    {
        let assets = chains[chain]["assets"].as_array().unwrap();
        let wrapping: Vec<_> = assets.iter().filter(|asset| asset.get("wraps").is_some()).collect();
        assert_eq!(wrapping.len(), 1, "{chain}");
        assert_eq!((&wrapping[0]["asset_identifier"], &wrapping[0]["wraps"]), (&json!(asset), &json!(coin)));
        let kind = kinds.iter().find(|kind| kind["network"] == chain).unwrap();
        let shown = kind["extra"]["gw"]["assets"].as_array().unwrap();
        let shown: Vec<_> = shown.iter().filter(|asset| asset.get("wraps").is_some()).collect();
        assert_eq!((shown.len(), &shown[0]["assetIdentifier"], &shown[0]["wraps"]), (1, &json!(asset), &json!(coin)));
    }
    assert!(chains["eip155:31338"]["assets"][0].get("wraps").is_none());
}

#[tokio::test]
async fn a_coin_as_source_is_refused_by_the_name_of_its_wrapped_form() {
    let gateway = wrapping();
    let wrapped = format!("{SOLANA}/token:{NATIVE_MINT}");
    for (coin, account, scheme, named) in [
        (COIN.to_owned(), PAYER, "EVM_PERMIT2_ESCROW", SOURCE_ASSET),
        // Whatever number of it is asked for, there is this one.
        ("eip155:31337/slip44:966".to_owned(), PAYER, "EVM_PERMIT2_ESCROW", SOURCE_ASSET),
        (format!("{SOLANA}/slip44:501"), "8SFqwqnq4whPhs8icwHA2hQg3hUoN1qrCLK1SBx3WKwe", "SOLANA", &wrapped),
        (format!("{TRON}/slip44:195"), "TFTsyAaajS3DTEbekme2wm9fNcypguDHp4", "TRON", TRON_TOKEN),
    ] {
        let mut body = with("/source", json!({"asset_identifier": coin, "account": account}));
        set(&mut body, "/sender_auth/message_scheme", json!(scheme));
        let bare = unsigned(body.clone());
        for (path, body) in [("/v1/payments", &body), (VERIFY, &body), (PREPARE, &bare), (QUOTES, &bare)] {
            let answer = gateway.post_to(path, body).await.expect_error(400, "UNSUPPORTED_ASSET");
            assert_eq!(
                answer.message(),
                format!(
                    "source.asset_identifier: is the chain's own coin, which is paid with in its wrapped form: name {named}, and \
                     /v1/payments/prepare shows how to wrap it"
                ),
                "{path}"
            );
        }
    }
    // Where no wrapped form is served there is none to name.
    let coin = with("/source/asset_identifier", json!("eip155:31338/slip44:60"));
    let answer = gateway.post(&coin).await.expect_error(400, "UNSUPPORTED_ASSET");
    assert_eq!(answer.message(), "source.asset_identifier: must be an ERC-20");
    assert_eq!(gateway.funds.asked(), 0);
}

#[tokio::test]
async fn what_is_prepared_wraps_what_is_missing_and_not_more() {
    let gateway = wrapping();
    gateway.funds.set(1_000_000, 1_099_999);
    gateway.funds.set_coin(COIN, 100_000);
    let prepared = gateway.post_to(PREPARE, &unsigned(body())).await.expect(200).body;
    let wrap = json!({
        "asset_identifier": SOURCE_ASSET, "coin": COIN, "amount": "100000",
        "calls": [{"to": "token", "value": "100000"}],
    });
    assert_eq!((&prepared["wrap"], &prepared["approval"]["amount"]), (&wrap, &json!("1100000")));
    // What it holds, once, and the nonce.
    assert_eq!(gateway.funds.asked(), 2);

    // The allowance stands already.
    let gateway = wrapping();
    gateway.funds.set(0, 1_100_000);
    gateway.funds.set_coin(COIN, u64::MAX);
    let prepared = gateway.post_to(PREPARE, &unsigned(body())).await.expect(200).body;
    assert_eq!((&prepared["wrap"]["amount"], prepared.get("approval")), (&json!("1100000"), None));
    // Nothing is missing.
    let gateway = wrapping();
    gateway.funds.set(1_100_000, 0);
    gateway.funds.set_coin(COIN, 0);
    let prepared = gateway.post_to(PREPARE, &unsigned(body())).await.expect(200).body;
    assert_eq!((prepared.get("wrap"), &prepared["approval"]["amount"]), (None, &json!("1100000")));
}

#[tokio::test]
async fn who_has_neither_coin_nor_token_is_refused_and_so_is_who_has_not_wrapped_yet() {
    let gateway = wrapping();
    gateway.funds.set(1_000_000, 0);
    gateway.funds.set_coin(COIN, 99_999);
    let answer = gateway.post_to(PREPARE, &unsigned(body())).await.expect_error(400, "INSUFFICIENT_FUNDS");
    assert!(answer.message().contains("it holds 99999 of eip155:31337/slip44:60"), "{answer:?}");
    let gateway = wrapping();
    gateway.funds.set(0, u64::MAX);
    gateway.funds.set_coin(COIN, u64::MAX);
    for path in ["/v1/payments", VERIFY] {
        let answer = gateway.post_to(path, &body()).await.expect_error(400, "INSUFFICIENT_FUNDS");
        assert!(answer.message().contains("/v1/payments/prepare shows how to wrap it"), "{answer:?}");
    }
}
