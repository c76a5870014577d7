//! `GET /x402/v1/supported`: what a merchant builds its requirements from.

use config::examples::with_solana;

use super::*;

#[tokio::test]
async fn supported_has_what_a_requirement_needs() {
    let gateway = gateway();
    let supported = gateway.get("/x402/v1/supported").await.expect(200).body;
    let kinds = supported["kinds"].as_array().unwrap();
    let of = |scheme: &str| -> Vec<&str> {
        let kinds = kinds.iter().filter(|kind| kind["scheme"] == scheme);
        kinds.map(|kind| kind["network"].as_str().unwrap()).collect()
    };
    assert_eq!(of("gw-escrow"), ["eip155:31337", "eip155:31338"]);
    assert_eq!(of("exact"), ["eip155:31337", "eip155:31338"]);
    assert_eq!(supported["extensions"], json!(["payment-identifier"]));
    assert_eq!(supported["signers"]["eip155:31337"], json!([RESERVER, VERIFIER]));

    // A requirement that takes everything from there is served.
    let kind = &kinds[0];
    let gw = &kind["extra"]["gw"];
    let target = gw["destinations"].as_array().unwrap().iter().find(|to| to["network"] == "eip155:31338").unwrap();
    let mut requirement = requirements();
    for member in ["scheme", "network"] {
        requirement[member] = kind[member].clone();
    }
    requirement["asset"] = gw["assets"][0]["asset"].clone();
    for member in ["escrow", "reserver", "releaser", "fulfillmentVerifierEndpoint"] {
        requirement["extra"]["gw"][member] = gw[member].clone();
    }
    requirement["extra"]["gw"]["fulfillmentProxy"] = target["fulfillmentProxy"].clone();
    requirement["extra"]["gw"]["destination"]["asset"] = target["assets"][0]["asset"].clone();
    let mut message = message();
    message["paymentRequirements"] = requirement.clone();
    message["paymentPayload"]["accepted"] = requirement;
    assert_eq!(gateway.post_to(VERIFY, &message).await.expect(200).body["isValid"], true);
}

/// A payer on Solana: what its signature binds is stated by the merchant, too.
#[tokio::test]
async fn a_solana_source_has_its_signing_domain() {
    const CHAIN: &str = "solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1";
    const CLUSTER: &str = "EtWTRABZaYq6iMfeYKouRu166VU2xqa1wcaWoxPkrZBG";
    const MINT: &str = "EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v";
    let gateway = Gateway::configured(|config| {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("gateway.toml");
        std::fs::write(&path, with_solana(include_str!("../../../../config/gateway.example.toml"))).unwrap();
        config.chains.push(GatewayConfig::load(&path).unwrap().chains.remove(1));
    });
    let supported = gateway.get("/x402/v1/supported").await.expect(200).body;
    let mut kinds = supported["kinds"].as_array().unwrap().iter().filter(|kind| kind["network"] == CHAIN);
    let kind = kinds.next().unwrap();
    assert!(kinds.next().is_none(), "exact is served on EVM chains");
    let gw = &kind["extra"]["gw"];
    assert_eq!((&gw["svmSignatureClusterId"], &gw["svmSignatureDomainVersion"]), (&json!(CLUSTER), &json!(1)));
    assert_eq!((gw.get("permit2"), &gw["messageSchemes"]), (None, &json!(["SOLANA"])));
    // Coins can be received and not paid with.
    assert_eq!(gw["assets"].as_array().unwrap().len(), 1);
    let target = gw["destinations"].as_array().unwrap().iter().find(|to| to["network"] == CHAIN).unwrap();
    assert_eq!(target["assets"].as_array().unwrap().len(), 2);

    let mut message = message();
    let source = json!({"asset_identifier": format!("{CHAIN}/token:{MINT}"), "account": gw["releaser"]});
    set(&mut message, "/paymentPayload/payload/paymentRequest/source", source);
    set(&mut message, "/paymentPayload/payload/paymentRequest/sender_auth/message_scheme", json!("SOLANA"));
    let both = |message: &mut Value, name: &str, value: &Value| {
        for at in ["/paymentRequirements", "/paymentPayload/accepted"] {
            set(message, &format!("{at}/{name}"), value.clone());
        }
    };
    both(&mut message, "network", &json!(CHAIN));
    both(&mut message, "asset", &json!(MINT));
    for member in ["escrow", "reserver", "releaser", "svmSignatureClusterId", "svmSignatureDomainVersion"] {
        both(&mut message, &format!("extra/gw/{member}"), &gw[member]);
    }
    let verified = gateway.post_to(VERIFY, &message).await.expect(200).body;
    assert_eq!((&verified["isValid"], &verified["payer"]), (&json!(true), &gw["releaser"]), "{verified}");
    for (field, value) in [
        ("extra.gw.svmSignatureClusterId", json!("5eykt4UsFv8P8NJdTREpY1vzqKqZKvdpKuc147dw2N9d")),
        ("extra.gw.svmSignatureDomainVersion", json!(2)),
        // Base58 is what it is, in its own case.
        ("asset", json!(MINT.to_lowercase())),
        ("extra.gw.escrow", json!(ESCROW)),
    ] {
        let mut message = message.clone();
        both(&mut message, &field.replace('.', "/"), &value);
        let said = refused(&gateway, &message, 200, "invalid_payment_requirements").await;
        assert!(said.starts_with(&format!("paymentRequirements.{field}: ")), "{said}");
    }
}
