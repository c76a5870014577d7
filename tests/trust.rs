//! Verifier, escrow and proxy of the caller's choice: honoured where every party trusts them, refused where not.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use alloy::{
    primitives::{B256, keccak256},
    signers::{SignerSync, local::PrivateKeySigner},
};
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tokio::process::Command;

use devkit::{Process, free_port, tools};
use devnet::{
    keys::Role,
    network::{Chain, DESTINATION_ID, SOURCE_ID},
    payer::Answer,
};
use events::{PaymentEvent, PaymentId};

use crate::support::*;

/// What a caller may name besides the defaults.
struct Chosen {
    verifier: PrivateKeySigner,
    port: u16,
    escrow: String,
    proxy: String,
}

impl Chosen {
    /// Puts further contracts on the chains.
    async fn deploy(world: &World) -> Result<Self> {
        let permit2 = std::fs::read(tools::root().join(".tools/permit2/Permit2.json"))?;
        let reserver = Role::Reserver.account();
        let source = world.network.source.dev.deploy_contracts(&permit2, &reserver, &reserver).await?;
        let destination = world.network.destination.dev.deploy_contracts(&permit2, &reserver, &reserver).await?;
        let verifier = PrivateKeySigner::from_bytes(&B256::repeat_byte(0x42))?;
        Ok(Self { verifier, port: free_port()?, escrow: source.escrow, proxy: destination.proxy })
    }

    fn account(&self) -> String {
        self.verifier.address().to_string().to_ascii_lowercase()
    }

    fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// The members of a request that name it all.
    fn members(&self) -> Value {
        json!({
            "fulfillment_verifier": {"account": self.verifier.address().to_string(), "endpoint": self.endpoint()},
            "escrow_contract_address": self.escrow,
            "fulfillment_proxy": self.proxy,
        })
    }

    /// A verifier with the chosen key, which purchases with the chosen proxy.
    async fn start_verifier(&self, world: &World) -> Result<Process> {
        let config = rewritten(world, "verifier", "verifier-chosen", |config| {
            config["listen"] = json!(format!("127.0.0.1:{}", self.port));
            config["callers"]["origins"] = json!([self.endpoint()]);
            config["releaser_key"] = json!(format!("0x{}", hex::encode(self.verifier.to_bytes())));
            for chain in config["chains"].as_array_mut().into_iter().flatten() {
                chain["releaser"] = json!(self.account());
                self.trust(chain);
            }
        })?;
        let mut process = spawn(world, "verifier", &config)?;
        process.listening_on(self.port).await?;
        Ok(process)
    }

    /// The first settler, trusting the chosen verifier and contracts.
    fn start_settler(&self, world: &World) -> Result<Process> {
        let config = rewritten(world, "settler-1", "settler-chosen", |config| {
            let source = config["chains"][0]["chain_id"].clone();
            let verifier = json!({"chain_id": source, "account": self.account(), "endpoint": self.endpoint()});
            config["verifiers"].as_array_mut().into_iter().for_each(|verifiers| verifiers.push(verifier.clone()));
            config["chains"].as_array_mut().into_iter().flatten().for_each(|chain| self.trust(chain));
        })?;
        spawn(world, "settler", &config)
    }

    fn trust(&self, chain: &mut Value) {
        if chain["chain_id"] == format!("eip155:{SOURCE_ID}") {
            chain["trusted_escrow_contracts"] = json!([self.escrow]);
        } else {
            chain["trusted_fulfillment_proxies"] = json!([self.proxy]);
        }
    }

    /// The gateway, trusting all of it from its next start on.
    fn configure_gateway(&self, world: &World) -> Result<()> {
        rewritten(world, "gateway-1", "gateway-1", |config| {
            config["trust"] = json!({
                "verifiers": [{"account": self.account(), "endpoint": self.endpoint()}],
                "escrow_contracts": [format!("eip155:{SOURCE_ID}:{}", self.escrow)],
                "fulfillment_proxies": [format!("eip155:{DESTINATION_ID}:{}", self.proxy)],
            });
        })
        .map(drop)
    }
}

/// Writes the configuration `from` of the network as `to`, changed.
fn rewritten(world: &World, from: &str, to: &str, change: impl FnOnce(&mut Value)) -> Result<PathBuf> {
    let directory = &world.network.options().directory;
    let text = std::fs::read_to_string(directory.join(format!("{from}.toml")))?;
    let mut config: Value = toml::from_str(&text)?;
    change(&mut config);
    let path = directory.join(format!("{to}.toml"));
    std::fs::write(&path, toml::to_string(&config)?)?;
    Ok(path)
}

fn spawn(world: &World, role: &str, config: &Path) -> Result<Process> {
    let mut command = Command::new(&world.network.options().gw);
    command.arg(role).arg("--config").arg(config);
    Process::spawn(role, &mut command, &config.with_extension("log"))
}

/// An ordinary request that names `members` too, signed as the gateway says that it must be.
async fn signed(world: &World, request_id: &str, members: &Value) -> Result<Value> {
    let base = world.base(0);
    let mut body = world.payer.sign(&base, &world.spec(request_id)?).await?;
    let object = body.as_object_mut().context("a body")?;
    object.remove("sender_auth");
    object.extend(members.as_object().context("members")?.clone());
    let prepare = format!("{base}/v1/payments/prepare");
    let prepared = reqwest::Client::new().post(prepare).json(&body).send().await?;
    let status = prepared.status();
    let prepared: Value = prepared.json().await?;
    ensure!(status.is_success(), "{prepared}");
    let mut message = prepared["signed_messages"][0].clone();
    let digest: B256 = message["message"].as_str().context("a digest")?.parse()?;
    message["signature"] = json!(Role::Payer.signer().sign_hash_sync(&digest)?.to_string());
    body["sender_auth"] = json!({"message_scheme": prepared["message_scheme"], "signed_messages": [message]});
    Ok(body)
}

async fn submit(world: &World, body: &Value) -> Result<(Answer, PaymentId)> {
    let answer = world.payer.submit(&world.base(0), body, Duration::ZERO).await?;
    ensure!(answer.status == 200, "{answer:?}");
    let payment_id = answer.text("payment_id").parse()?;
    Ok((answer, payment_id))
}

/// How often `contract` emitted `event` for the payment.
async fn emitted(chain: &Chain, contract: &str, event: &str, payment_id: &PaymentId) -> Result<usize> {
    let topics = json!([keccak256(event).to_string(), payment_id.on_chain()]);
    let filter = json!({"fromBlock": "0x0", "toBlock": "latest", "address": contract, "topics": topics});
    let logs: Vec<Value> = chain.dev.rpc("eth_getLogs", (filter,)).await?;
    Ok(logs.len())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trusted_verifier_escrow_and_proxy_are_used_from_the_signature_to_the_release() -> Result<()> {
    let mut world = World::start(1).await?;
    let chosen = Chosen::deploy(&world).await?;
    chosen.configure_gateway(&world)?;
    world.network.kill_gateway(0).await?;
    world.network.start_gateway(0).await?;
    world.network.ready(0).await?;
    let _verifier = chosen.start_verifier(&world).await?;

    // Settlers that do not trust them do not quote, whatever the gateway trusts.
    let verifier_alone = json!({"fulfillment_verifier": chosen.members()["fulfillment_verifier"]});
    let (_, payment_id) = submit(&world, &signed(&world, "nobody-trusts-it", &verifier_alone).await?).await?;
    let outcome = world.outcome(&payment_id).await?;
    assert_eq!(outcome.body["error"]["code"], "NO_QUOTES_RECEIVED", "{outcome:?}");
    let reasons = outcome.body["decline_summary"].as_array().context("nobody declined")?;
    assert!(reasons.iter().all(|decline| decline["reason"] == "UNTRUSTED_VERIFIER"), "{reasons:?}");

    for settler in 1..=3 {
        world.network.kill_settler(settler).await?;
    }
    let _settler = chosen.start_settler(&world)?;
    let body = signed(&world, "chosen", &chosen.members()).await?;
    let typed_data: Value = serde_json::from_str(
        body["sender_auth"]["signed_messages"][0]["message_prehash"].as_str().context("typed data")?,
    )?;
    let releaser = typed_data["message"]["witness"]["releaser"].as_str().context("a releaser")?;
    assert_eq!(releaser.to_ascii_lowercase(), chosen.account());

    let (_, payment_id) = submit(&world, &body).await?;
    let outcome = world.outcome(&payment_id).await?;
    assert_eq!(outcome.text("status"), "completed", "{outcome:?}");
    world.until(&payment_id, "EscrowReleased").await?;
    let events = world.events(&payment_id, "Submitted").await?;
    let [PaymentEvent::Submitted(submitted)] = events.as_slice() else { panic!("{events:?}") };
    assert_eq!(submitted.verifier.account.as_str(), chosen.account());
    assert_eq!(submitted.escrow.releaser.as_str(), chosen.account());
    assert_eq!(submitted.escrow.contract.as_str(), chosen.escrow.to_ascii_lowercase());
    assert_eq!(submitted.fulfillment_proxies, [chosen.proxy.parse::<events::Account>()?]);
    let (source, destination) = (&world.network.source, &world.network.destination);
    for (chain, contract, default, event) in [
        (source, &chosen.escrow, &source.contracts.escrow, DEPOSITED),
        (source, &chosen.escrow, &source.contracts.escrow, RELEASED),
        (destination, &chosen.proxy, &destination.contracts.proxy, FULFILLED),
    ] {
        assert_eq!(emitted(chain, contract, event, &payment_id).await?, 1, "{event}");
        assert_eq!(emitted(chain, default, event, &payment_id).await?, 0, "{event}");
    }

    // What is not trusted is refused by name, and nothing is accepted.
    let stranger = Role::Recipient.account();
    let untrusted_account = json!({"account": stranger, "endpoint": chosen.endpoint()});
    let untrusted_endpoint = json!({"account": chosen.account(), "endpoint": "https://verifier.example"});
    for (member, value, code) in [
        ("fulfillment_verifier", untrusted_account, "UNTRUSTED_VERIFIER"),
        ("fulfillment_verifier", untrusted_endpoint, "UNTRUSTED_VERIFIER"),
        ("escrow_contract_address", json!(stranger), "UNTRUSTED_ESCROW"),
        ("escrow_contract_address", json!(chosen.proxy), "UNTRUSTED_ESCROW"),
        ("fulfillment_proxy", json!(stranger), "UNTRUSTED_PROXY"),
        ("quote_selector", json!("stranger.example"), "UNTRUSTED_SELECTOR"),
    ] {
        let mut refused = body.clone();
        refused["request_id"] = json!("refused");
        refused[member] = value;
        let answer = world.payer.submit(&world.base(0), &refused, Duration::ZERO).await?;
        assert_eq!((answer.status, answer.text("code")), (400, code), "{answer:?}");
    }
    assert!(world.types(&world.payer.payment_id("refused")).await?.is_empty());
    Ok(())
}
