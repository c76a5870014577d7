//! Auditors' consumers: an ordered consumer of a stock client replays, and nothing else comes of asking for one.

use std::{collections::HashSet, time::Duration};

use anyhow::{Context, Result, ensure};
use async_nats::{
    Client, Request,
    jetstream::{
        self,
        consumer::{AckPolicy, pull, push},
    },
};
use data_encoding::BASE64URL_NOPAD;
use ed25519_dalek::{Signer, SigningKey};
use futures::StreamExt;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::TcpStream,
};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use config::AUDITOR_INBOX_PREFIX;
use devkit::NatsServer;
use devnet::users;
use gateway::{
    auditors::{self, CONSUMERS_MAX},
    nats::{KEYS_FILE, Users},
};
use journal_jetstream::connection::{Identity, nkey};

use super::{COMMITS, EVENTS, Environment, answered, pulled};
use crate::nats_roles::{PATIENCE, Role, connect, until};

/// What the gateways' own consumer is called here.
const OWN: &str = "saga_00_0123456789abcdef";

struct Audited {
    environment: Environment,
    auditor: Client,
    /// Another auditor.
    other: Client,
    _service: AbortOnDropHandle<()>,
}

impl Audited {
    async fn start() -> Result<Self> {
        let key = SigningKey::from_bytes(&[42; 32]);
        let users = users::users();
        let auditors = [users.auditors.clone(), vec![nkey(&key.verifying_key())]].concat();
        let keys = Users { auditors, ..users }.keys();
        let files: Vec<_> = users::files()?
            .into_iter()
            .map(|(path, text)| if path == KEYS_FILE { (path, keys.clone()) } else { (path, text) })
            .collect();
        let environment = Environment::on(NatsServer::configured(&files).await?).await?;
        let auditor = connect(&environment.server, Role::Auditor).await?;
        let options = Identity::of(&key).options(None).custom_inbox_prefix(AUDITOR_INBOX_PREFIX);
        let other = options.connect(environment.server.url()).await?;
        let service = auditors::Service::new(connect(&environment.server, Role::Gateway).await?);
        let service = AbortOnDropHandle::new(tokio::spawn(service.run(CancellationToken::new())));
        let audited = Self { environment, auditor, other, _service: service };
        until("auditors are answered", || async {
            let shown = ask(&audited.auditor, "INFO.EVT_00.nothing", &Value::Null).await;
            shown.is_some_and(|shown| shown["error"]["err_code"] == 10014)
        })
        .await?;
        Ok(audited)
    }

    async fn names(&self) -> Result<HashSet<String>> {
        let stream = jetstream::new(self.environment.gateway.clone()).get_stream("EVT_00").await?;
        let mut names = stream.consumer_names();
        let mut found = HashSet::new();
        while let Some(name) = names.next().await {
            found.insert(name?);
        }
        Ok(found)
    }

    /// A consumer as gateways have one for their wake-ups.
    async fn own_consumer(&self) -> Result<()> {
        let stream = jetstream::new(self.environment.gateway.clone()).get_stream("EVT_00").await?;
        let config = pull::Config {
            durable_name: Some(OWN.to_owned()),
            ack_policy: AckPolicy::Explicit,
            ..pull::Config::default()
        };
        stream.create_consumer(config).await?;
        Ok(())
    }
}

/// What JetStream, or who answers in its stead, says; `None` when nobody does.
async fn ask(client: &Client, what: &str, body: &Value) -> Option<Value> {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let request = Request::new().payload(body.into()).timeout(Some(Duration::from_secs(2)));
    let answer = client.send_request(format!("$JS.API.CONSUMER.{what}"), request).await.ok()?;
    serde_json::from_slice(&answer.payload).ok()
}

/// A request for a consumer of `stream` that acknowledges nothing, with `more` in its configuration.
fn consumer(stream: &str, more: Value) -> Value {
    let mut config = json!({"ack_policy": "none"});
    if let (Some(config), Value::Object(more)) = (config.as_object_mut(), more) {
        config.extend(more);
    }
    json!({"stream_name": stream, "config": config})
}

/// Makes the consumer `name` of EVT_00, or says why not.
async fn make(client: &Client, name: &str, more: Value) -> Result<(), String> {
    let answer = ask(client, &format!("CREATE.EVT_00.{name}"), &consumer("EVT_00", more)).await;
    let answer = answer.ok_or("no answer")?;
    match answer["error"]["description"].as_str() {
        None => Ok(()),
        Some(reason) => Err(reason.to_owned()),
    }
}

#[tokio::test]
async fn an_ordered_consumer_replays_the_journal_pulled_or_pushed_and_goes_on_live() -> Result<()> {
    const MESSAGES: u64 = 1_500;
    let audited = Audited::start().await?;
    let gateway = jetstream::new(audited.environment.gateway.clone());
    for number in COMMITS + 1..=MESSAGES {
        let subject = if number % 3 == 0 { EVENTS } else { "gw.evt.00.pay_y" };
        audited.environment.gateway.publish(subject, number.to_string().into()).await?;
    }
    until("all is stored", || async {
        audited.environment.messages("EVT_00").await.is_ok_and(|stored| stored == MESSAGES)
    })
    .await?;

    let stream = jetstream::new(audited.auditor.clone()).get_stream("EVT_00").await?;
    let pulled = stream.create_consumer(pull::OrderedConfig::default()).await?;
    let pushed = push::OrderedConfig { deliver_subject: audited.auditor.new_inbox(), ..Default::default() };
    let pushed = stream.create_consumer(pushed).await?;
    let (mut pulled, mut pushed) = (pulled.messages().await?, pushed.messages().await?);
    for number in 1..=MESSAGES + 1 {
        if number > MESSAGES {
            gateway.publish(EVENTS, number.to_string().into()).await?.await?;
        }
        let (pulled, pushed) =
            tokio::time::timeout(PATIENCE, async { tokio::join!(pulled.next(), pushed.next()) }).await?;
        for message in [pulled.context("closed")??, pushed.context("closed")??] {
            assert_eq!(std::str::from_utf8(&message.payload)?, number.to_string());
        }
    }

    let one = pull::OrderedConfig { filter_subject: EVENTS.to_owned(), ..Default::default() };
    let mut one = stream.create_consumer(one).await?.messages().await?;
    for number in (1..=COMMITS).chain((COMMITS + 1..=MESSAGES).filter(|number| number % 3 == 0)) {
        let message = tokio::time::timeout(PATIENCE, one.next()).await?.context("closed")??;
        assert_eq!(std::str::from_utf8(&message.payload)?, number.to_string());
    }
    Ok(())
}

#[tokio::test]
async fn an_auditors_consumer_delivers_to_auditors_alone_and_outlives_nobody() -> Result<()> {
    let audited = Audited::start().await?;
    let Audited { environment, auditor, .. } = &audited;
    let pushed =
        |subject: &str| json!({"deliver_subject": subject, "flow_control": true, "idle_heartbeat": 5_000_000_000_u64});
    // The journal, what gateways and settlers listen to, and JetStream itself.
    for subject in [
        EVENTS,
        "gw.evt.01.pay_x",
        "gw.chk.00",
        "$KV.gw_leases.00",
        "auction.award.x",
        "_INBOX.x",
        "_INBOX_operator.x",
        "_R_.x",
        "$JS.API.CONSUMER.DELETE.EVT_00.x",
        "_INBOX_auditor.>",
    ] {
        let refused = make(auditor, "foreign", pushed(subject)).await.unwrap_err();
        assert!(refused.contains("config.deliver_subject"), "{subject}: {refused}");
    }
    for (more, key) in [
        (json!({"durable_name": "mine"}), "durable_name"),
        (json!({"ack_policy": "explicit"}), "ack_policy"),
        (json!({"deliver_group": "all"}), "deliver_group"),
        (json!({"deliver_policy": "last_per_subject"}), "deliver_policy"),
    ] {
        let refused = make(auditor, "other", more).await.unwrap_err();
        assert!(refused.contains(key), "{key}: {refused}");
    }
    // The old way to make a durable one, and lists of what others have.
    for subject in [
        "$JS.API.CONSUMER.DURABLE.CREATE.EVT_00.mine",
        "$JS.API.CONSUMER.NAMES.EVT_00",
        "$JS.API.CONSUMER.LIST.EVT_00",
        "$JS.API.CONSUMER.PAUSE.EVT_00.mine",
    ] {
        assert!(!answered(auditor, subject, &consumer("EVT_00", json!({})).to_string()).await, "{subject}");
    }
    for stream in ["AWARDS", "ASKED", "KV_gw_leases"] {
        let answer = ask(auditor, &format!("CREATE.{stream}.x"), &consumer(stream, json!({}))).await;
        assert!(answer.context("no answer")?["error"]["description"].is_string(), "{stream}");
    }
    assert_eq!(pulled(auditor, 1).await?, 0, "awards");
    assert!(audited.names().await?.is_empty());

    // What may be had is bounded whatever is asked.
    let greedy =
        json!({"inactive_threshold": i64::MAX, "max_waiting": 1_000_000, "num_replicas": 3, "mem_storage": false});
    make(auditor, "greedy", greedy).await.map_err(anyhow::Error::msg)?;
    let config = ask(&environment.gateway, "INFO.EVT_00.greedy", &Value::Null).await.context("no answer")?;
    let config = &config["config"];
    assert_eq!((&config["inactive_threshold"], &config["max_waiting"]), (&json!(300_000_000_000_u64), &json!(64)));
    assert_eq!((&config["num_replicas"], &config["mem_storage"]), (&json!(1), &json!(true)));
    environment.untouched().await
}

/// What comes back of a request of the auditor's with these bytes for headers: the first answer within two seconds, or nothing.
async fn raw_request(server: &NatsServer, subject: &str, headers: &[u8]) -> Result<String> {
    let address = server.url().trim_start_matches("nats://").to_owned();
    let mut stream = BufReader::new(TcpStream::connect(address).await?);
    let mut line = String::new();
    stream.read_line(&mut line).await?;
    let info: Value = serde_json::from_str(line.strip_prefix("INFO ").context("no INFO")?)?;
    let nonce = info["nonce"].as_str().context("no nonce")?;
    let connect = json!({
        "verbose": false, "pedantic": false, "lang": "raw", "version": "0", "protocol": 1, "headers": true,
        "no_responders": true, "nkey": Role::Auditor.nkey(),
        "sig": BASE64URL_NOPAD.encode(&Role::Auditor.key().sign(nonce.as_bytes()).to_bytes()),
    });
    let inbox = format!("{AUDITOR_INBOX_PREFIX}.raw");
    let request = format!("HPUB {subject} {inbox} {0} {0}\r\n", headers.len());
    let request = [format!("CONNECT {connect}\r\nSUB {inbox} 1\r\n{request}").as_bytes(), headers, b"\r\n"].concat();
    stream.write_all(&request).await?;
    let answer = async {
        loop {
            line.clear();
            ensure!(stream.read_line(&mut line).await? > 0, "the server has closed the connection");
            ensure!(!line.starts_with("-ERR"), "{line}");
            if line.starts_with("MSG") || line.starts_with("HMSG") {
                let length: usize = line.split_whitespace().last().context("no length")?.parse()?;
                let mut body = vec![0; length];
                stream.read_exact(&mut body).await?;
                return Ok(String::from_utf8_lossy(&body).into_owned());
            }
        }
    };
    // The connection of the gateway that answers may end at such headers, and then nothing is said.
    tokio::time::timeout(Duration::from_secs(2), answer).await.unwrap_or_else(|_| Ok(String::new()))
}

#[tokio::test]
async fn an_auditor_touches_nobody_elses_consumer() -> Result<()> {
    let audited = Audited::start().await?;
    let Audited { environment, auditor, other, .. } = &audited;
    audited.own_consumer().await?;
    make(other, "others", json!({})).await.map_err(anyhow::Error::msg)?;

    for name in [OWN, "others", "saga_00"] {
        for what in ["INFO", "DELETE"] {
            let answer = ask(auditor, &format!("{what}.EVT_00.{name}"), &Value::Null).await.context("no answer")?;
            assert!(answer["error"].is_object(), "{what} {name}: {answer}");
        }
        // Nor changes where it delivers.
        let more = json!({
            "deliver_subject": auditor.new_inbox(), "flow_control": true, "idle_heartbeat": 5_000_000_000_u64,
        });
        make(auditor, name, more).await.unwrap_err();
    }
    // In another's name: the server says who asks, not the client.
    let mut headers = async_nats::HeaderMap::new();
    let user = nkey(&SigningKey::from_bytes(&[42; 32]).verifying_key());
    headers.insert("Nats-Request-Info", json!({"acc": "AUDITOR", "user": user}).to_string());
    let request = Request::new().headers(headers).timeout(Some(Duration::from_secs(2)));
    let answer = auditor.send_request("$JS.API.CONSUMER.DELETE.EVT_00.others", request).await?;
    assert!(String::from_utf8_lossy(&answer.payload).contains("not found"));
    // Nor where the server's word is hidden from who reads it, by headers that are not written as a client writes them.
    let forged = format!("Nats-Request-Info: {{\"acc\":\"AUDITOR\",\"user\":\"{user}\"}}");
    for headers in [
        format!("NATS/1.0\r\n{forged}\nA: b"),
        format!("NATS/1.0\r\n{forged}\n "),
        format!("NATS/1.0\n{forged}\r\n\r\n"),
        format!("NATS/1.0\n{forged}\n"),
        format!("NATS/1.0 100\r\n{forged}\nX"),
    ] {
        let subject = "$JS.API.CONSUMER.DELETE.EVT_00.others";
        let answer = raw_request(&environment.server, subject, headers.as_bytes()).await;
        let answer = answer.with_context(|| headers.clone())?;
        assert!(!answer.contains("\"success\""), "{headers:?}: {answer}");
        assert!(audited.names().await?.contains("others"), "{headers:?}: {answer}");
    }
    // By an answer of the server's, written where requests go.
    auditor.publish_with_reply("$JS.API.STREAM.NAMES", "$JS.API.CONSUMER.DELETE.EVT_00.others", "".into()).await?;
    auditor
        .publish_with_reply("$JS.API.STREAM.NAMES", format!("$JS.API.CONSUMER.DELETE.EVT_00.{OWN}"), "".into())
        .await?;
    // The name that older gateways gave theirs, which can be guessed, is nobody's.
    let next = auditor
        .send_request("$JS.API.CONSUMER.MSG.NEXT.EVT_00.saga_00", Request::new().timeout(Some(Duration::from_secs(1))))
        .await;
    assert!(next.is_err(), "{next:?}");

    assert_eq!(audited.names().await?, [OWN, "others"].map(str::to_owned).into());
    let info = ask(&environment.gateway, &format!("INFO.EVT_00.{OWN}"), &Value::Null).await.context("no answer")?;
    assert_eq!((&info["num_pending"], &info["num_waiting"]), (&json!(COMMITS), &json!(0)), "{info}");
    // Whose it is may.
    let deleted = ask(other, "DELETE.EVT_00.others", &Value::Null).await.context("no answer")?;
    assert_eq!(deleted["success"], true);
    environment.untouched().await
}

#[tokio::test]
async fn who_asks_for_consumers_without_end_has_few_and_takes_nobodys_place() -> Result<()> {
    let audited = Audited::start().await?;
    let Audited { environment, auditor, other, .. } = &audited;
    let mut made = 0;
    for number in 0..CONSUMERS_MAX * 2 {
        match make(auditor, &format!("many_{number}"), json!({"inactive_threshold": 300_000_000_000_u64})).await {
            Ok(()) => made += 1,
            Err(refused) => assert!(refused.contains("no more consumers of EVT_00"), "{refused}"),
        }
    }
    assert_eq!((made, audited.names().await?.len()), (CONSUMERS_MAX, CONSUMERS_MAX));

    // As fast as the connection takes it, and nobody waits for an answer.
    let flood = async {
        let inbox = auditor.new_inbox();
        for number in 0.. {
            let body = consumer("EVT_00", json!({"name": format!("flood_{number}")})).to_string();
            let subject = format!("$JS.API.CONSUMER.CREATE.EVT_00.flood_{number}");
            auditor.publish_with_reply(subject, inbox.clone(), body.into()).await?;
        }
        anyhow::Ok(())
    };
    let others = async {
        // Another auditor asks until its word is among those that are heard.
        until("another auditor has a consumer", || async { make(other, "patient", json!({})).await.is_ok() }).await?;
        // And gateways make theirs, whatever auditors have.
        audited.own_consumer().await?;
        for _ in 0..20 {
            assert!(answered(&environment.gateway, "$JS.API.STREAM.INFO.EVT_00", "").await);
        }
        anyhow::Ok(())
    };
    tokio::select! {
        ended = flood => ended?,
        done = others => done?,
    }
    let names = audited.names().await?;
    assert!(names.contains("patient") && names.contains(OWN));
    assert_eq!(names.len(), CONSUMERS_MAX + 2, "{names:?}");
    environment.untouched().await
}
