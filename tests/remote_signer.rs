//! Keys that a Web3Signer keeps: those of a verifier's releaser, and of a gateway's reserver and submitter on EVM chains.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use alloy::{primitives::keccak256, signers::SignerSync};
use anyhow::{Context, Result};
use axum::{
    Json, Router,
    extract::{Path, State},
    http::StatusCode,
    routing::{get, post},
};
use devnet::keys::Role;
use serde_json::{Value, json};
use tokio::{net::TcpListener, process::Command};

use crate::support::*;

/// Whose keys the signer keeps.
const KEPT: [Role; 3] = [Role::Releaser, Role::Reserver, Role::Submitter];

/// What the signer does when it is asked to sign for the releaser.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Conduct {
    Fails,
    SignsWithAnother,
    Signs,
}

#[derive(Clone)]
struct Signer {
    conduct: Arc<Mutex<Conduct>>,
    /// How often it was asked to sign, by the key's identifier.
    asked: Arc<Mutex<BTreeMap<String, u32>>>,
}

impl Signer {
    fn asked(&self, role: Role) -> u32 {
        self.asked.lock().unwrap().get(&public(role)).copied().unwrap_or_default()
    }
}

/// The role's public key as the API writes it.
fn public(role: Role) -> String {
    let point = role.signer().credential().verifying_key().to_encoded_point(false);
    format!("0x{}", hex::encode(&point.as_bytes()[1..]))
}

/// The role's key as a configuration names it.
fn kept(url: &str, role: Role) -> Value {
    json!({"web3signer": url, "account": role.account()})
}

async fn sign(
    State(signer): State<Signer>,
    Path(identifier): Path<String>,
    Json(body): Json<Value>,
) -> Result<String, StatusCode> {
    let role = KEPT.into_iter().find(|role| public(*role) == identifier).ok_or(StatusCode::NOT_FOUND)?;
    *signer.asked.lock().unwrap().entry(identifier).or_default() += 1;
    let conduct = if role == Role::Releaser { *signer.conduct.lock().unwrap() } else { Conduct::Signs };
    let key = match conduct {
        Conduct::Fails => return Err(StatusCode::INTERNAL_SERVER_ERROR),
        Conduct::SignsWithAnother => Role::Payer.signer(),
        Conduct::Signs => role.signer(),
    };
    let data = body["data"].as_str().and_then(|data| hex::decode(data.strip_prefix("0x")?).ok()).unwrap();
    let signature = key.sign_hash_sync(&keccak256(data)).unwrap();
    Ok(format!("0x{}", hex::encode(signature.as_bytes())))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_payment_is_made_with_keys_of_a_web3signer_and_nothing_else_that_it_says_is_taken() -> Result<()> {
    let mut world = World::start(1).await?;
    let signer = Signer { conduct: Arc::new(Mutex::new(Conduct::Fails)), asked: Arc::default() };
    let keys = || async { Json(KEPT.map(public)) };
    let strange_keys = || async { Json([public(Role::Payer)]) };
    let routes = Router::new()
        .route("/api/v1/eth1/publicKeys", get(keys))
        .route("/api/v1/eth1/sign/{identifier}", post(sign))
        .route("/strange/api/v1/eth1/publicKeys", get(strange_keys))
        .with_state(signer.clone());
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}", listener.local_addr()?);
    let serving = tokio::spawn(async move { axum::serve(listener, routes).await });

    // The verifier's own file, with the service in the place of the key.
    world.network.kill_verifier(1).await?;
    let directory = world.network.options().directory.clone();
    let text = std::fs::read_to_string(directory.join("verifier.toml"))?;
    let own: Vec<_> = text.lines().filter(|line| !line.starts_with("releaser_key ")).collect();
    assert_eq!(own.len() + 1, text.lines().count(), "{text}");
    let with = |url: &str, account: &str| {
        let named = format!("releaser_key = {{ web3signer = \"{url}\", account = \"{account}\" }}");
        format!("{named}\n{}\n", own.join("\n"))
    };
    let config = directory.join("verifier-remote.toml");
    let gw = world.network.options().gw.clone();

    // Another account than the chains' releaser is refused before anything is served. A service without the key may get it later, and
    // holds up no start.
    let account = Role::Releaser.account();
    std::fs::write(&config, with(&url, &Role::Recipient.account()))?;
    let refused = Command::new(&gw).arg("verifier").arg("--config").arg(&config).output().await?;
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && said.contains("must be the account of releaser_key"), "{said}");
    std::fs::write(&config, with(&format!("{url}/strange"), &account))?;
    let examined = Command::new(&gw).args(["doctor", "--role", "verifier", "--config"]).arg(&config).output().await?;
    let said = String::from_utf8_lossy(&examined.stdout).into_owned();
    assert!(!examined.status.success() && said.contains("it keeps no key of"), "{said}");

    std::fs::write(&config, with(&url, &account))?;
    let listed =
        Command::new(&gw).args(["keys", "list", "--role", "verifier", "--config"]).arg(&config).output().await?;
    let listed = String::from_utf8(listed.stdout)?;
    assert!(listed.contains("releaser_key") && listed.contains(&format!("web3signer {url}")), "{listed}");
    let mut verifier = Command::new(&gw).arg("verifier").arg("--config").arg(&config).kill_on_drop(true).spawn()?;

    // The gateway's own file, the same way on both chains.
    world.network.kill_gateway(0).await?;
    let path = directory.join("gateway-1.toml");
    let mut members: Value = toml::from_str(&std::fs::read_to_string(&path)?)?;
    for chain in members["chains"].as_array_mut().into_iter().flatten() {
        chain["reserver_key"] = kept(&url, Role::Reserver);
        chain["submitter_keys"] = json!([kept(&url, Role::Submitter)]);
    }
    std::fs::write(&path, toml::to_string(&members)?)?;
    world.network.start_gateway(0).await?;
    world.network.ready(0).await?;
    let listed: Value = serde_json::from_str(&world.gw(&["keys", "list", "--role", "gateway", "--json"]).await?)?;
    let is_kept = |row: &&Value| row["form"] == "web3signer" && row["file"] == url;
    assert_eq!(listed.as_array().into_iter().flatten().filter(is_kept).count(), 4, "{listed:#}");
    let examined =
        Command::new(&gw).args(["doctor", "--role", "gateway", "--json", "--config"]).arg(&path).output().await?;
    let examined: Value = serde_json::from_slice(&examined.stdout)?;
    let place = format!(" at web3signer {url}");
    let is_found = |check: &&Value| {
        check["verdict"] == "ok" && check["subject"].as_str().is_some_and(|subject| subject.ends_with(&place))
    };
    assert_eq!(examined["checks"].as_array().into_iter().flatten().filter(is_found).count(), 4, "{examined:#}");

    let payment_id = world.submit(&world.spec("remote")?).await?;
    world.until(&payment_id, "FulfillmentFinalized").await?;
    for role in [Role::Reserver, Role::Submitter] {
        assert!(signer.asked(role) > 0, "{role:?}");
    }
    for conduct in [Conduct::Fails, Conduct::SignsWithAnother] {
        *signer.conduct.lock().unwrap() = conduct;
        let before = signer.asked(Role::Releaser);
        eventually(|| async { signer.asked(Role::Releaser) > before + 1 }).await.context("it is not asked")?;
        let types = world.types(&payment_id).await?;
        assert!(!types.contains(&"FulfillmentConfirmed"), "{conduct:?}: {types:?}");
    }
    *signer.conduct.lock().unwrap() = Conduct::Signs;
    world.until(&payment_id, "EscrowReleased").await?;
    world.settled_once(&[payment_id]).await?;
    verifier.kill().await?;
    serving.abort();
    Ok(())
}
