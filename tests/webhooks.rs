//! Webhooks: the example's receiver, which verifies with the stock library, hears of payments from gateways that are killed, and
//! is killed itself.

use std::{path::PathBuf, time::Duration};

use alloy::signers::SignerSync;
use anyhow::{Context, Result, ensure};
use reqwest::Method;
use serde_json::{Value, json};
use tokio::process::Command;

use devkit::{Process, free_port, tools};
use devnet::{keys::Role, network::Options};

use crate::support::*;

/// Where the example's receiver runs, and what it has printed.
struct Receiver {
    port: u16,
    log: PathBuf,
    process: Option<Process>,
}

impl Receiver {
    fn new(world: &World) -> Result<Self> {
        let log = world.network.options().directory.join("receiver.log");
        Ok(Self { port: free_port()?, log, process: None })
    }

    fn origin(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// The same by another name: an origin is for one owner.
    fn strangers_origin(&self) -> String {
        format!("http://localhost:{}", self.port)
    }

    fn url(&self) -> String {
        format!("{}/hooks?shop=7", self.origin())
    }

    /// Starts it, verifying with what `verifies` names.
    async fn start(&mut self, verifies: (&str, &str)) -> Result<()> {
        let example = tools::root().join("examples/webhooks");
        ensure!(example.join("node_modules").is_dir(), "run `npm ci` in examples/webhooks; `make tools` does");
        let mut command = Command::new("node");
        command.arg(example.join("receiver.mjs")).arg(self.port.to_string()).env(verifies.0, verifies.1);
        let mut process = Process::spawn("receiver", &mut command, &self.log)?;
        process.listening_on(self.port).await?;
        self.process = Some(process);
        Ok(())
    }

    async fn kill(&mut self) -> Result<()> {
        self.process.take().context("it does not run")?.kill().await
    }

    /// The messages that it took for the first time since it was started last, in order; also those of earlier starts.
    fn messages(&self) -> Vec<Value> {
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        log.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    fn refused(&self) -> usize {
        std::fs::read_to_string(&self.log).unwrap_or_default().matches("refused:").count()
    }

    /// What it was told of a payment, without what was told twice.
    fn told(&self, payment_id: &str) -> Vec<String> {
        let messages = self.messages();
        let of_payment = messages.iter().filter(|message| message["payment_id"] == payment_id);
        let mut types: Vec<String> = of_payment.map(|message| text(message, "type")).collect();
        types.dedup();
        types
    }
}

/// An account on EVM chains as owners of webhooks are named.
fn originator(role: Role) -> String {
    format!("eip155:{}", role.account()).to_lowercase()
}

fn text(value: &Value, member: &str) -> String {
    value[member].as_str().unwrap_or_default().to_owned()
}

/// A network whose gateways call the receiver, as quickly again as `retry_seconds` says.
async fn world_with(gateways: usize, retry_seconds: &[u64]) -> Result<(World, Receiver)> {
    let mut world = World::with(|options| Options { gateways, metrics: true, ..options }).await?;
    let receiver = Receiver::new(&world)?;
    let off = reqwest::get(format!("{}/v1/webhooks/keys", world.base(0))).await?;
    let (status, body) = (off.status(), off.json::<Value>().await?);
    ensure!(status == 404 && body["code"] == "WEBHOOKS_NOT_SERVED", "nobody turned them on: {status} {body}");
    for n in 0..gateways {
        world.network.kill_gateway(n).await?;
        let path = world.network.options().directory.join(format!("gateway-{}.toml", n + 1));
        let mut config: Value = toml::from_str(&std::fs::read_to_string(&path)?)?;
        config["webhooks"] = json!({
            "enabled": true,
            "origins": {receiver.origin(): originator(Role::Payer), receiver.strangers_origin(): originator(Role::Recipient)},
            "call_ms_max": 1_000,
            "retry_seconds": retry_seconds,
        });
        std::fs::write(&path, toml::to_string(&config)?)?;
        world.network.start_gateway(n).await?;
        world.network.ready(n).await?;
    }
    Ok((world, receiver))
}

/// The API with the session of an owner.
struct Owner {
    base: String,
    token: String,
}

impl Owner {
    async fn of(world: &World, role: Role) -> Result<Self> {
        let base = world.base(0);
        let http = reqwest::Client::new();
        let post = async |path: &str, body: Value| -> Result<Value> {
            let answer = http.post(format!("{base}{path}")).json(&body).send().await?;
            let (status, body) = (answer.status(), answer.json::<Value>().await?);
            ensure!(status == 200, "{status} {body}");
            Ok(body)
        };
        let chain = world.network.source.token()?.chain().clone();
        let account = format!("{chain}:{}", role.account());
        let challenge = post("/v1/sessions/challenges", json!({"account": account})).await?;
        let message = text(&challenge, "message");
        let signature = role.signer().sign_message_sync(message.as_bytes())?.to_string();
        let session = post("/v1/sessions", json!({"message": message, "signature": signature})).await?;
        Ok(Self { token: text(&session, "token"), base })
    }

    async fn call(&self, method: Method, path: &str, body: Option<Value>) -> Result<(u16, Value)> {
        let request = reqwest::Client::new().request(method, format!("{}{path}", self.base)).bearer_auth(&self.token);
        let request = match body {
            Some(body) => request.json(&body),
            None => request,
        };
        let answer = request.send().await?;
        Ok((answer.status().as_u16(), answer.json().await?))
    }

    async fn register(&self, body: Value) -> Result<Value> {
        let (status, answer) = self.call(Method::POST, "/v1/webhooks", Some(body)).await?;
        ensure!(status == 200, "{status} {answer}");
        Ok(answer)
    }

    async fn webhook(&self, id: &str) -> Result<Value> {
        let (status, answer) = self.call(Method::GET, &format!("/v1/webhooks/{id}"), None).await?;
        ensure!(status == 200, "{status} {answer}");
        Ok(answer)
    }
}

const ALL: [&str; 3] = ["payment.pending", "payment.finalizing", "payment.completed"];
/// As quick as tests are.
const QUICK: &[u64] = &[1; 30];

#[tokio::test(flavor = "multi_thread")]
async fn the_stock_library_verifies_what_an_owner_is_told_and_strangers_are_told_nothing() -> Result<()> {
    let (world, mut receiver) = world_with(1, QUICK).await?;
    let (owner, stranger) = (Owner::of(&world, Role::Payer).await?, Owner::of(&world, Role::Recipient).await?);

    // Endpoints inside the operator's network, in whatever way they are written.
    for url in [
        "http://127.0.0.1:1/",
        "https://127.0.0.1/",
        "https://localhost:8443/",
        "https://[::ffff:169.254.169.254]/latest",
        "https://2130706433/",
        "http://1.1.1.1/",
        "https://user:secret@1.1.1.1/",
        "file:///etc/passwd",
    ] {
        let (status, answer) = owner.call(Method::POST, "/v1/webhooks", Some(json!({"url": url}))).await?;
        assert_eq!((status, text(&answer, "code").as_str()), (400, "INVALID_REQUEST"), "{url} {answer}");
    }
    let without = Owner { token: "gws1.x.y".to_owned(), base: owner.base.clone() };
    assert_eq!(without.call(Method::GET, "/v1/webhooks", None).await?.0, 401);

    let webhook = owner.register(json!({"url": receiver.url()})).await?;
    let (status, answer) = stranger.call(Method::POST, "/v1/webhooks", Some(json!({"url": receiver.url()}))).await?;
    assert_eq!(status, 400, "an origin of another owner: {answer}");
    let elsewhere = stranger.register(json!({"url": format!("{}/hooks", receiver.strangers_origin())})).await?;
    let (id, secret) = (text(&webhook, "id"), text(&webhook, "secret"));
    receiver.start(("WEBHOOK_SECRET", &secret)).await?;
    let payment_id = world.submit(&world.spec("told")?).await?;
    world.completed(&payment_id).await?;
    eventually(async || receiver.told(payment_id.as_str()) == ALL).await.context("it is not told of all")?;
    let messages = receiver.messages();
    assert_eq!(messages.len(), 3, "{messages:?}");
    for (message, status) in messages.iter().zip(["pending", "finalizing", "completed"]) {
        assert_eq!(text(message, "status"), status);
    }
    assert_eq!(receiver.refused(), 0);

    let delivered = async || owner.webhook(&id).await.is_ok_and(|state| state["deliveries"]["delivered"] == 3);
    eventually(delivered).await?;
    let nothing = stranger.webhook(&text(&elsewhere, "id")).await?;
    assert_eq!((&nothing["deliveries"]["delivered"], &nothing["deliveries"]["waiting"]), (&json!(0), &json!(0)));
    assert_eq!(stranger.call(Method::GET, &format!("/v1/webhooks/{id}"), None).await?.0, 404);
    assert_eq!(stranger.call(Method::DELETE, &format!("/v1/webhooks/{id}"), None).await?.0, 404);
    let of_payment = json!({"url": receiver.url(), "payment_id": payment_id});
    assert_eq!(stranger.call(Method::POST, "/v1/webhooks", Some(of_payment)).await?.0, 404);

    // With public keys alone, and again by what the operator asks for: the receiver has forgotten what it had.
    receiver.kill().await?;
    let keys = text(&webhook["keys"][0], "public_key");
    receiver.start(("WEBHOOK_KEYS", &keys)).await?;
    let said = world.gw(&["webhooks", "redeliver", &id, "--payment", payment_id.as_str()]).await?;
    assert_eq!(said.lines().count(), 3, "{said}");
    eventually(async || receiver.messages().len() == 6).await?;
    let again = receiver.messages();
    assert_eq!(again[3..], again[..3], "the same messages in the same order");
    assert_eq!(receiver.refused(), 0);
    assert!(world.gw(&["webhooks", "keys"]).await?.contains(&keys));
    assert!(world.gw(&["webhooks", "list"]).await?.contains(&id));

    assert_eq!(owner.call(Method::DELETE, &format!("/v1/webhooks/{id}"), None).await?.0, 200);
    assert_eq!(owner.call(Method::GET, &format!("/v1/webhooks/{id}"), None).await?.0, 404);

    // An operator deletes anybody's, once; its owner sees it go.
    let id = text(&elsewhere, "id");
    assert!(world.gw(&["webhooks", "delete", &id]).await?.contains(&id));
    eventually(async || stranger.webhook(&id).await.is_err()).await.context("it is still there")?;
    assert!(world.gw_refuses(&["webhooks", "delete", &id]).await?.contains("there is no such webhook"));
    assert!(!world.gw(&["webhooks", "list"]).await?.contains(&id));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_lost_and_order_is_kept_when_gateways_and_the_receiver_are_killed() -> Result<()> {
    let (mut world, mut receiver) = world_with(2, QUICK).await?;
    let owner = Owner::of(&world, Role::Payer).await?;
    let webhook = owner.register(json!({"url": receiver.url()})).await?;
    let secret = text(&webhook, "secret");
    receiver.start(("WEBHOOK_SECRET", &secret)).await?;
    let mut payments = Vec::new();
    for n in 0..4 {
        payments.push(world.submit(&world.spec(&format!("killed-{n}"))?).await?);
    }
    eventually(async || !receiver.messages().is_empty()).await.context("the first message")?;
    receiver.kill().await?;
    for payment_id in &payments {
        world.until(payment_id, "DepositPrepared").await?;
    }
    world.network.kill_gateway(0).await?;
    let survivor = world.base(1);
    for payment_id in &payments {
        let outcome = world.payer.outcome(&survivor, payment_id.as_str(), PATIENCE).await?;
        assert_eq!(outcome.text("status"), "completed", "{outcome:?}");
    }
    receiver.start(("WEBHOOK_SECRET", &secret)).await?;
    // The survivor too, before it has told everything; the first one comes back.
    world.network.kill_gateway(1).await?;
    world.network.start_gateway(0).await?;
    let told = async || payments.iter().all(|payment_id| receiver.told(payment_id.as_str()).len() >= ALL.len());
    eventually(told).await.context("not everything is told")?;
    world.network.start_gateway(1).await?;
    for payment_id in &payments {
        // What comes twice across the receiver's restart comes in order, too.
        let types = receiver.told(payment_id.as_str());
        let mut first_of_each = types.clone();
        let mut seen = Vec::new();
        first_of_each.retain(|kind| {
            !seen.contains(kind) && {
                seen.push(kind.clone());
                true
            }
        });
        assert_eq!(first_of_each, ALL, "{types:?}");
    }
    assert_eq!(receiver.refused(), 0);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_never_taken_is_a_dead_letter_and_comes_when_it_is_asked_for() -> Result<()> {
    let (world, mut receiver) = world_with(1, &[0, 1]).await?;
    let owner = Owner::of(&world, Role::Payer).await?;
    let body = json!({"url": receiver.url(), "events": ["payment.completed", "payment.failed"]});
    let webhook = owner.register(body).await?;
    let id = text(&webhook, "id");
    // Nothing listens.
    let payment_id = world.submit(&world.spec("dead")?).await?;
    world.completed(&payment_id).await?;
    let dead = async || owner.webhook(&id).await.is_ok_and(|state| state["deliveries"]["dead_letters"][0].is_object());
    eventually(dead).await.context("there is no dead letter")?;
    let state = owner.webhook(&id).await?;
    let letter = &state["deliveries"]["dead_letters"][0];
    assert_eq!((text(letter, "type").as_str(), &letter["attempts"]), ("payment.completed", &json!(3)), "{state}");
    assert!(!text(&state["deliveries"]["last_error"], "error").is_empty(), "{state}");
    let listed = world.gw(&["webhooks", "dead"]).await?;
    assert!(listed.contains(&text(letter, "message_id")), "{listed}");

    receiver.start(("WEBHOOK_SECRET", &text(&webhook, "secret"))).await?;
    let path = format!("/v1/webhooks/{id}/redeliver");
    for unclear in
        [json!({}), json!({"dead": false}), json!({"dead": true, "payment_id": payment_id}), json!({"from": "x"})]
    {
        assert_eq!(owner.call(Method::POST, &path, Some(unclear.clone())).await?.0, 400, "{unclear}");
    }
    let (status, answer) = owner.call(Method::POST, &path, Some(json!({"dead": true}))).await?;
    assert_eq!((status, &answer["message_ids"]), (200, &json!([letter["message_id"]])), "{answer}");
    eventually(async || receiver.told(payment_id.as_str()) == ["payment.completed"])
        .await
        .context("it does not come")?;
    let settled = async || {
        owner.webhook(&id).await.is_ok_and(|state| {
            state["deliveries"]["dead_letters"] == json!([]) && state["deliveries"]["delivered"] == 1
        })
    };
    eventually(settled).await?;
    // The same once more by its id and by its time, which a receiver that has it drops.
    let by_id = json!({"message_ids": [letter["message_id"]]});
    assert_eq!(owner.call(Method::POST, &path, Some(by_id)).await?.0, 200);
    let by_time = json!({"from": "2020-01-01T00:00:00Z", "to": "2100-01-01T00:00:00Z"});
    assert_eq!(owner.call(Method::POST, &path, Some(by_time)).await?.0, 200);
    eventually(async || owner.webhook(&id).await.is_ok_and(|state| state["deliveries"]["delivered"] == 3)).await?;
    assert_eq!(receiver.messages().len(), 1);

    // All of it was counted, and whoever watches sees that nothing waits.
    let (metrics, told) = (
        world.network.metrics("gateway-1")?,
        [
            "gw_webhook_attempts_total{outcome=\"refused\"} 2",
            "gw_webhook_attempts_total{outcome=\"dead\"} 1",
            "gw_webhook_attempts_total{outcome=\"delivered\"} 3",
            "gw_webhook_call_seconds_count 6",
            "gw_webhooks_disabled_total 0",
        ],
    );
    let read = async || anyhow::Ok(reqwest::get(&metrics).await?.text().await?);
    let counted = |text: String| {
        let shards = text.lines().find_map(|line| line.strip_prefix("gw_shards ")?.parse().ok());
        let nothing_waits =
            shards.map(|shards| format!("gw_webhook_feed_lag{{shard=\"{}\"}} 0", payment_id.shard(shards)));
        let is_told = |wanted: &str| text.lines().any(|line| line == wanted);
        told.iter().all(|wanted| is_told(wanted)) && nothing_waits.is_some_and(|line| is_told(&line))
    };
    eventually(async || read().await.is_ok_and(counted)).await.context("it is counted otherwise")?;
    tokio::time::timeout(Duration::from_secs(60), receiver.kill()).await?
}
