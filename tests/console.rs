//! The operators' console of real processes: what it shows is what the journal has, what is ordered is recorded and carried out,
//! and whoever has no token sees nothing.

use std::{io::Write, process::Command};

use anyhow::{Context, Result, ensure};
use ed25519_dalek::SigningKey;
use futures::{StreamExt, future::join_all};
use reqwest::{Client, RequestBuilder, StatusCode};
use serde_json::{Value, json};

use devkit::free_port;
use devnet::{keys::Role, payer::PaymentSpec, users::NatsUser};
use events::{Did, PaymentId};
use journal::StreamStore;
use journal_jetstream::store::{NatsJournal, Options};

use crate::{parking::poison, support::*};

/// A gateway with a console, and the tokens of its two operators.
struct Desk {
    world: World,
    base: String,
    http: Client,
    /// Of one who may act,
    ana: String,
    /// and of one who may look.
    bob: String,
}

/// A token and the section for it, as `gw` makes them.
fn token(name: &str, acts: bool) -> Result<(String, String)> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gw"));
    command.args(["console", "token", "--name", name]).args(acts.then_some("--acts"));
    let output = command.output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout)?;
    let token = text.lines().find(|line| line.starts_with("gwc_")).context("no token")?;
    let (_, section) = text.split_once("\n[[console.operators]]").context("no section")?;
    Ok((token.to_owned(), format!("\n[[console.operators]]{section}")))
}

impl Desk {
    async fn start() -> Result<Self> {
        let mut world = World::start(1).await?;
        let ((ana, of_ana), (bob, of_bob)) = (token("ana", true)?, token("bob", false)?);
        let port = free_port()?;
        let path = world.network.options().directory.join("gateway-1.toml");
        let mut file = std::fs::OpenOptions::new().append(true).open(path)?;
        writeln!(file, "\n[console]\nlisten = \"127.0.0.1:{port}\"\n{of_ana}\n{of_bob}")?;
        world.network.kill_gateway(0).await?;
        world.network.start_gateway(0).await?;
        world.network.ready(0).await?;
        let (base, http) = (format!("http://127.0.0.1:{port}"), Client::builder().timeout(PATIENCE).build()?);
        // It listens before it has what it needs of NATS.
        let me = || http.get(format!("{base}/api/me")).bearer_auth(&ana);
        let serves = || async { me().send().await.is_ok_and(|answer| answer.status() == StatusCode::OK) };
        eventually(serves).await.context("there is no console")?;
        Ok(Self { world, base, http, ana, bob })
    }

    fn asking(&self, path: &str) -> RequestBuilder {
        self.http.get(format!("{}{path}", self.base))
    }

    /// What the operator who may act is answered.
    async fn get(&self, path: &str) -> Result<Value> {
        let answer = self.asking(path).bearer_auth(&self.ana).send().await?;
        let (status, body) = (answer.status(), answer.json::<Value>().await?);
        ensure!(status == StatusCode::OK, "{path}: {status} {body}");
        Ok(body)
    }

    /// The same, refused.
    async fn refused(&self, path: &str) -> Result<(StatusCode, String)> {
        let answer = self.asking(path).bearer_auth(&self.ana).send().await?;
        let (status, body) = (answer.status(), answer.json::<Value>().await?);
        Ok((status, body["error"]["code"].as_str().context("no code")?.to_owned()))
    }

    async fn order(&self, token: &str, act: &str, body: &Value) -> Result<(StatusCode, Value)> {
        let asked = self.http.post(format!("{}/api/acts/{act}", self.base)).bearer_auth(token).json(body);
        let answer = asked.send().await?;
        Ok((answer.status(), answer.json().await?))
    }

    /// The ids of a list, once it has so many.
    async fn listed(&self, query: &str, count: usize) -> Result<Vec<String>> {
        let ids = async || -> Result<Vec<String>> { ids_of(&self.get(&format!("/api/payments?{query}")).await?) };
        let listed = || async { ids().await.is_ok_and(|ids| ids.len() == count) };
        eventually(listed).await.with_context(|| format!("{query} has not {count}"))?;
        ids().await
    }
}

impl Desk {
    /// The ids of a list, page by page.
    async fn walked(&self, query: &str) -> Result<Vec<String>> {
        let (mut walked, mut cursor) = (Vec::new(), String::new());
        loop {
            let page = self.get(&format!("/api/payments?{query}{cursor}")).await?;
            walked.extend(ids_of(&page)?);
            assert_eq!(page["uncertain_shards"], json!([]));
            let Some(next) = page["next_cursor"].as_str() else { return Ok(walked) };
            cursor = format!("&cursor={next}");
        }
    }
}

fn ids_of(page: &Value) -> Result<Vec<String>> {
    let rows = page["payments"].as_array().context("no payments")?;
    Ok(rows.iter().map(|row| row["payment_id"].as_str().unwrap_or_default().to_owned()).collect())
}

fn texts(ids: &[&PaymentId]) -> Vec<String> {
    ids.iter().map(ToString::to_string).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn operators_see_all_payments_as_the_journal_has_them() -> Result<()> {
    let desk = Desk::start().await?;
    let world = &desk.world;
    nobody_else_sees_anything(&desk).await?;

    let first = world.submit(&world.spec("console-first")?).await?;
    world.completed(&first).await?;
    let nobody = Did::from_ed25519(&SigningKey::from_bytes(&[77; 32]).verifying_key());
    let unserved = PaymentSpec { whitelist: vec![nobody], ..world.spec("console-unserved")? };
    let failed = world.submit(&unserved).await?;
    ensure!(world.outcome(&failed).await?.text("status") == "failed");
    let last = world.submit(&world.spec("console-last")?).await?;
    world.completed(&last).await?;

    let all = texts(&[&last, &failed, &first]);
    assert_eq!(desk.listed("", 3).await?, all);
    assert_eq!(desk.listed("status=failed", 1).await?, texts(&[&failed]));
    assert_eq!(desk.listed("status=completed&in_flight=false", 2).await?, texts(&[&last, &first]));
    assert_eq!(desk.listed("in_flight=true", 0).await?, Vec::<String>::new());
    assert_eq!(desk.listed("overdue=true", 0).await?, Vec::<String>::new());
    assert_eq!(desk.listed("parked=true", 0).await?, Vec::<String>::new());
    let payer = Role::Payer.account();
    assert_eq!(desk.listed(&format!("originator={payer}"), 3).await?, all);
    assert_eq!(desk.listed(&format!("originator={}", Role::Recipient.account()), 0).await?, Vec::<String>::new());
    assert_eq!(desk.walked("limit=1").await?, all);
    for bad in ["limit=0", "in_flight=yes", "originator=me", "cursor=AAAA", "sort=asc"] {
        let refused = desk.refused(&format!("/api/payments?{bad}")).await?;
        assert_eq!(refused, (StatusCode::BAD_REQUEST, "INVALID_REQUEST".to_owned()), "{bad}");
    }

    let detail = as_stored(&desk, &first).await?;
    let row = &detail["payment"];
    assert_eq!((&row["status"], &row["parked"], &row["stage"]), (&json!("completed"), &json!(false), &json!("ended")));
    for (member, leg) in [("transaction_hash", "deposit"), ("transaction_hash", "fulfillment")] {
        let hash = row["transactions"][leg][member].as_str().context("no hash")?;
        let found = desk.get(&format!("/api/search?q={hash}")).await?;
        assert_eq!(ids_of(&found)?, texts(&[&first]), "{leg}: {found}\n{detail}");
    }
    let found = desk.get("/api/search?q=console-unser").await?;
    assert_eq!((ids_of(&found)?, &found["incomplete"]), (texts(&[&failed]), &json!(false)));
    assert_eq!(desk.refused("/api/search?q=conso").await?.0, StatusCode::BAD_REQUEST);
    let unknown = world.payer.payment_id("never-submitted");
    assert_eq!(desk.refused(&format!("/api/payments/{unknown}")).await?.0, StatusCode::NOT_FOUND);
    assert_eq!(desk.refused("/api/payments/pay_1").await?.0, StatusCode::BAD_REQUEST);

    installation(&desk, row["settler"].as_str().context("no settler")?).await
}

/// The detail of a payment, whose commits are those of the journal, hash for hash and event for event.
async fn as_stored(desk: &Desk, payment_id: &PaymentId) -> Result<Value> {
    let client = desk.world.network.nats.connect(NatsUser::Gateway).await?;
    let journal = NatsJournal::connect(client, Options::default()).await?;
    let stored = journal.load(&payment_id.into()).await?;
    let detail = desk.get(&format!("/api/payments/{payment_id}")).await?;
    let commits = detail["commits"].as_array().context("no commits")?;
    ensure!(commits.len() == stored.len() && stored.len() > 3, "{} and {}", commits.len(), stored.len());
    for (commit, stored) in commits.iter().zip(&stored) {
        assert_eq!(commit["hash"], stored.position.hash.to_string());
        assert_eq!(commit["previous"], stored.prev.to_string());
        assert_eq!(commit["version"], stored.position.version);
        assert_eq!(commit["sequence"], stored.position.sequence);
        assert_eq!(commit["commit_id"], stored.commit_id.as_str());
        assert_eq!(commit["stream"], format!("EVT_{:02}", stored.position.shard));
        assert_eq!(commit["events"], serde_json::to_value(&stored.events)?);
        assert!(commit.get("unreadable").is_none(), "{commit}");
    }
    assert_eq!((&detail["parked"], &detail["has_more"]), (&Value::Null, &json!(false)));
    Ok(detail)
}

/// How the installation stands.
async fn installation(desk: &Desk, settler: &str) -> Result<()> {
    let me = desk.get("/api/me").await?;
    assert_eq!(
        (&me["name"], &me["may_act"], &me["version"]),
        (&json!("ana"), &json!(true), &json!(env!("CARGO_PKG_VERSION")))
    );
    assert_eq!(me["pause"], Value::Null);
    let chains = me["network"]["chains"].as_array().context("no chains")?.len();
    ensure!(chains == 2, "{me}");

    let settlers = desk.get("/api/settlers").await?;
    let winner = settlers["settlers"].as_array().and_then(|all| all.iter().find(|row| row["did"] == settler));
    let winner = winner.context("the winner is not there")?;
    let record = &winner["record"];
    assert_eq!((&record["won"], &record["delivered"], &winner["registered"]), (&json!(2), &json!(2), &json!(true)));
    ensure!(record["median_delivery_seconds"].as_f64().is_some_and(|seconds| seconds < 120.0), "{winner}");
    let verifiers = desk.get("/api/verifiers").await?;
    assert_eq!(verifiers["surveyed"]["payments"], 3);
    let releaser = verifiers["verifiers"][0].clone();
    assert_eq!((&releaser["trusted"], &releaser["record"]["delivered"]), (&json!(true), &json!(2)));
    let observed = &verifiers["observed"][0];
    assert_eq!((&observed["endpoint"], &observed["state"]), (&releaser["endpoint"], &json!("ok")));
    assert_eq!(observed["accounts"][0]["has_signed"], true, "{observed}");
    ensure!(observed["answers"]["attested"].as_u64() >= Some(2), "{observed}");
    let told: Value = serde_json::from_str(&desk.world.gw(&["verifiers", "--json"]).await?)?;
    assert_eq!(told["verifiers"][0]["endpoint"], releaser["endpoint"], "{told}");
    assert_eq!((&told["verifiers"][0]["state"], &told["notes"]), (&json!("ok"), &json!([])));
    let table = desk.world.gw(&["verifiers"]).await?;
    ensure!(table.starts_with("VERIFIER ") && table.lines().nth(1).is_some_and(|row| row.ends_with("  ok")), "{table}");

    let gateways = desk.get("/api/gateways").await?;
    assert_eq!(gateways["gateways"].as_array().map(Vec::len), Some(1), "{gateways}");
    assert_eq!((&gateways["gateways"][0]["gateway"], &gateways["silent"]), (&me["gateway"], &json!([])));
    let streams = desk.get("/api/streams").await?;
    let names: Vec<&str> =
        streams["streams"].as_array().into_iter().flatten().filter_map(|one| one["name"].as_str()).collect();
    ensure!(["EVT_00", "EVT_07", "OPERATOR_ACTS"].iter().all(|name| names.contains(name)), "{names:?}");
    assert_eq!((&streams["epochs"][0]["shards"], &streams["epochs"][0]["sealed"]), (&json!(8), &json!(false)));
    ensure!(streams["epochs"][0]["begun_at"].is_string(), "{streams}");
    let alarms = desk.get("/api/alarms").await?;
    assert_eq!((&alarms["ready"], &alarms["parked"], &alarms["overdue"]), (&json!(true), &json!(0), &json!(0)));

    // The process counts for its console without `[metrics]`.
    let has_nodes = || async {
        let chains = desk.get("/api/chains").await;
        chains.is_ok_and(|chains| {
            chains["chains"].as_array().is_some_and(|all| {
                all.iter().all(|chain| {
                    chain["ready"] == true
                        && chain["head"].as_u64().is_some_and(|head| head > 0)
                        && chain["nodes"][0]["calls"].as_u64().is_some_and(|calls| calls > 0)
                        && chain["submitters"][0]["coins"].as_f64().is_some_and(|coins| coins > 0.0)
                })
            })
        })
    };
    eventually(has_nodes).await.context("chains show nothing")?;
    let has_graphs = || async {
        let graphs = desk.get("/api/graphs").await;
        graphs.is_ok_and(|graphs| {
            graphs["series"].as_array().is_some_and(|all| {
                let leases = all.iter().find(|series| series["name"] == "leases_held");
                let values = leases.and_then(|series| series["values"].as_array());
                values.is_some_and(|values| values.len() == 360 && values.last().is_some_and(|last| last == 8.0))
            })
        })
    };
    eventually(has_graphs).await.context("there are no graphs")
}

/// Without a token there is the page and nothing else.
async fn nobody_else_sees_anything(desk: &Desk) -> Result<()> {
    for (path, kind) in [("/", "text/html"), ("/console.css", "text/css"), ("/console.js", "text/javascript")] {
        let answer = desk.asking(path).send().await?;
        let header = |name: &str| answer.headers().get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
        ensure!(answer.status() == StatusCode::OK && header("content-type").starts_with(kind), "{path}: {answer:?}");
        ensure!(header("content-security-policy").contains("frame-ancestors 'none'"), "{answer:?}");
        ensure!(header("cache-control") == "no-store" && header("x-content-type-options") == "nosniff", "{answer:?}");
        ensure!(header("cross-origin-resource-policy") == "same-origin", "{answer:?}");
        ensure!(header("access-control-allow-origin").is_empty(), "{answer:?}");
    }
    let paths = ["/api/me", "/api/payments", "/api/search?q=console", "/api/acts", "/api/nothing", "/nothing"];
    let other = if desk.ana.ends_with('A') { 'B' } else { 'A' };
    let wrong = format!("{}{other}", &desk.ana[..desk.ana.len() - 1]);
    for path in paths {
        for token in [None, Some(""), Some(wrong.as_str()), Some("gwc_")] {
            let asked = desk.asking(path);
            let asked = match token {
                Some(token) => asked.bearer_auth(token),
                None => asked,
            };
            let answer = asked.send().await?;
            ensure!(answer.status() == StatusCode::UNAUTHORIZED, "{path} {token:?}: {answer:?}");
            let body: Value = answer.json().await?;
            assert_eq!(body, json!({"error": {"code": "UNAUTHORIZED", "message": "an operator's token is needed"}}));
        }
    }
    let (status, _) = desk.order(&wrong, "pause", &json!({})).await?;
    assert_eq!(status, StatusCode::UNAUTHORIZED);
    for (name, value) in [("origin", "https://evil.example"), ("sec-fetch-site", "cross-site")] {
        let answer = desk.asking("/api/me").bearer_auth(&desk.ana).header(name, value).send().await?;
        assert_eq!(answer.status(), StatusCode::FORBIDDEN, "{name}");
    }
    let log = desk.world.network.log("gateway-1")?;
    ensure!(log.contains("without an operator's token") && !log.contains(&desk.ana), "{log}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_ordered_is_recorded_in_the_operators_name_and_carried_out() -> Result<()> {
    let desk = Desk::start().await?;
    let world = &desk.world;
    for act in ["pause", "resume", "rebuild", "acknowledge", "replay"] {
        let (status, body) = desk.order(&desk.bob, act, &json!({})).await?;
        assert_eq!((status, &body["error"]["code"]), (StatusCode::FORBIDDEN, &json!("FORBIDDEN")), "{act}");
    }
    let (status, body) = desk.order(&desk.ana, "evict", &json!({})).await?;
    assert_eq!((status, &body["error"]["code"]), (StatusCode::NOT_FOUND, &json!("NOT_FOUND")));
    for (act, body) in [
        ("pause", json!({"reason": 7})),
        ("resume", json!({"now": true})),
        ("resume", json!({})),
        ("pause", json!({"reason": "a".repeat(501)})),
        ("rebuild", json!({"gateway": "*"})),
        ("replay", json!({"ids": ["pay_1"]})),
        ("replay", json!({"ids": [], "all": true})),
        ("replay", json!({})),
        ("replay", json!({"all": true})),
    ] {
        let (status, answer) = desk.order(&desk.ana, act, &body).await?;
        assert_eq!(
            (status, &answer["error"]["code"]),
            (StatusCode::BAD_REQUEST, &json!("INVALID_REQUEST")),
            "{act} {body}"
        );
    }
    assert_eq!(desk.get("/api/acts").await?, json!({"acts": [], "next_before": null}));

    let (status, paused) = desk.order(&desk.ana, "pause", &json!({"reason": "a fork"})).await?;
    assert_eq!((status, &paused["outcome"]["outcome"]), (StatusCode::OK, &json!("done")), "{paused}");
    let refuses = || async {
        let Ok(spec) = world.spec("console-paused") else { return false };
        let Ok(body) = world.payer.sign(&world.base(0), &spec).await else { return false };
        let answer = world.payer.submit(&world.base(0), &body, std::time::Duration::ZERO).await;
        answer.is_ok_and(|answer| answer.status == 503)
    };
    eventually(refuses).await.context("submissions are accepted")?;
    let me = desk.get("/api/me").await?;
    assert_eq!((&me["pause"]["paused"], &me["pause"]["reason"]), (&json!(true), &json!("a fork")));
    let (_, resumed) = desk.order(&desk.ana, "resume", &json!({"since": me["pause"]["since"]})).await?;
    let acts = desk.get("/api/acts?limit=4").await?;
    let entries: Vec<&Value> = acts["acts"].as_array().into_iter().flatten().map(|act| &act["entry"]).collect();
    let [resume_ended, resume, pause_ended, pause] = entries[..] else { panic!("{acts}") };
    for (entry, ended, answer, act) in [
        (pause, pause_ended, &paused, json!({"act": "pause", "reason": "a fork"})),
        (resume, resume_ended, &resumed, json!({"act": "resume", "since": me["pause"]["since"]})),
    ] {
        assert_eq!((&entry["by"], &entry["origin"]), (&json!("ana"), &json!("console")));
        assert_eq!((&entry["act"], &entry["id"], &entry["gateway"]), (&act, &answer["act_id"], &me["gateway"]));
        assert_eq!((&ended["id"], &ended["outcome"]["outcome"]), (&answer["act_id"], &json!("done")));
    }
    let older = desk.get("/api/acts?limit=2").await?;
    let behind = desk.get(&format!("/api/acts?limit=2&before={}", older["next_before"])).await?;
    assert_eq!(behind["acts"][1]["entry"], *pause);

    no_other_pause_is_lifted(&desk, &me["pause"]["since"]).await?;

    let (_, rebuilt) = desk.order(&desk.ana, "rebuild", &json!({})).await?;
    ensure!(rebuilt["outcome"]["details"].as_str().is_some_and(|text| text.contains("a rebuild begins")), "{rebuilt}");
    let (_, nobody) = desk.order(&desk.ana, "acknowledge", &json!({"gateway": "nobody"})).await?;
    assert_eq!(nobody["outcome"]["outcome"], "failed", "{nobody}");
    let client = world.network.nats.connect(NatsUser::Gateway).await?;
    let _silent = client.subscribe("gw.operator.ghost.*").await?;
    client.flush().await?;
    let (status, unclear) = desk.order(&desk.ana, "acknowledge", &json!({"gateway": "ghost"})).await?;
    assert_eq!((status, &unclear["error"]["code"]), (StatusCode::SERVICE_UNAVAILABLE, &json!("UNAVAILABLE")));
    let message = unclear["error"]["message"].as_str().context("no message")?;
    let newest = &desk.get("/api/acts?limit=1").await?["acts"][0]["entry"];
    assert_eq!((&newest["entry"], &newest["act"]["gateway"]), (&json!("ordered"), &json!("ghost")), "{newest}");
    let id = newest["id"].as_str().context("no id")?;
    ensure!(message.starts_with("whether it was done is not known") && message.contains(id), "{message}");
    let mut asked = client.subscribe("gw.operator.alarmed.*").await?;
    client.flush().await?;
    let alarm = |shard: u16| {
        json!({"shard": shard, "checkpoint": 7, "commit_id": "c", "head": 1, "found_at": chrono::Utc::now(),
        "message": format!("journal shard {shard} ends at 1")})
    };
    let alarms = json!({"gateway": "alarmed", "result": {"journal_alarms": [alarm(0), alarm(1)]}});
    let whom = json!({"gateway": "alarmed"});
    let ((), (_, dropped)) = tokio::try_join!(
        async {
            let reply = asked.next().await.and_then(|question| question.reply).context("nobody asks")?;
            Ok(client.publish(reply, alarms.to_string().into()).await?)
        },
        desk.order(&desk.ana, "acknowledge", &whom),
    )?;
    let told = "alarmed: journal shard 0 ends at 1; journal shard 1 ends at 1";
    assert_eq!(dropped["outcome"], json!({"outcome": "done", "details": told}));
    replayed(&desk).await
}

/// Whoever lifts the pause that he has seen, and that began at `seen`, lifts none that came after it.
async fn no_other_pause_is_lifted(desk: &Desk, seen: &Value) -> Result<()> {
    let paused = desk.world.gw(&["admin", "pause", "--reason", "somebody else's"]).await?;
    let (status, refused) = desk.order(&desk.ana, "resume", &json!({"since": seen})).await?;
    assert_eq!((status, &refused["outcome"]["outcome"]), (StatusCode::OK, &json!("failed")), "{refused}");
    let error = refused["outcome"]["error"].as_str().context("no error")?;
    ensure!(error.contains("changed by somebody else") && error.ends_with(paused.trim()), "{error}");
    let pause = desk.get("/api/me").await?["pause"].clone();
    assert_eq!((&pause["paused"], &pause["reason"]), (&json!(true), &json!("somebody else's")), "{pause}");
    let (_, resumed) = desk.order(&desk.ana, "resume", &json!({"since": pause["since"]})).await?;
    let accepting = |text: &str| text.starts_with("accepting since ");
    ensure!(resumed["outcome"]["details"].as_str().is_some_and(accepting), "{resumed}");
    Ok(())
}

/// A damaged payment is shown for what it is, and replayed in the operator's name.
async fn replayed(desk: &Desk) -> Result<()> {
    let world = &desk.world;
    let bad = world.submit(&world.spec("console-damaged")?).await?;
    world.until(&bad, "DepositPrepared").await?;
    let sequence = poison(world, &bad).await?;
    let parked = || async {
        let parked = desk.get("/api/parked").await;
        parked.is_ok_and(|parked| parked["parked"][0]["id"] == bad.as_str())
    };
    eventually(parked).await.context("it is not parked")?;
    let detail = desk.get(&format!("/api/payments/{bad}")).await?;
    let at_fault = detail["commits"].as_array().and_then(|all| all.iter().find(|one| one["sequence"] == sequence));
    let at_fault = at_fault.context("the message at fault is not there")?;
    assert_eq!(at_fault["events"], json!([{"type": "Pardoned", "data": {"by": "nobody"}}]));
    ensure!(at_fault["unreadable"].as_str().is_some_and(|why| why.contains("unknown event Pardoned")), "{at_fault}");
    assert_eq!((&detail["payment"]["payment_id"], &detail["payment"]["parked"]), (&json!(bad), &json!(true)));
    let state = &detail["parked"];
    assert_eq!((&state["kind"], &state["history"][0]["entry"]), (&json!("unreadable"), &json!("parked")));
    ensure!(state["advice"].as_str().is_some_and(|advice| advice.contains("update all gateways")), "{state}");
    assert_eq!(ids_of(&desk.get(&format!("/api/search?q={bad}")).await?)?, texts(&[&bad]));

    let unknown = world.payer.payment_id("never-submitted");
    let (status, answer) = desk.order(&desk.ana, "replay", &json!({"ids": [bad, unknown]})).await?;
    assert_eq!((status, &answer["outcome"]["outcome"]), (StatusCode::OK, &json!("done")), "{answer}");
    let result = |id: &PaymentId| {
        let results = answer["results"].as_array().into_iter().flatten();
        results.filter(|result| result["id"] == id.as_str()).map(|result| result["outcome"].clone()).next()
    };
    assert_eq!((result(&bad), result(&unknown)), (Some(json!("replayed")), Some(json!("failed"))));
    let again = || async {
        let detail = desk.get(&format!("/api/payments/{bad}")).await;
        detail.is_ok_and(|detail| {
            let history = detail["parked"]["history"].as_array().cloned().unwrap_or_default();
            history.len() == 3 && history[1]["entry"] == "replayed" && history[1]["by"] == "ana"
        })
    };
    eventually(again).await.context("it is not parked again")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_operators_takes_no_turn_of_the_api() -> Result<()> {
    let desk = Desk::start().await?;
    let world = &desk.world;
    let payment_id = world.submit(&world.spec("console-flood")?).await?;
    world.completed(&payment_id).await?;
    // What is in flight is found whatever has come since, in the order of lists.
    let mut in_flight = Vec::new();
    for n in 0..3 {
        in_flight.push(world.submit(&world.undeliverable_spec(&format!("console-flying-{n}"))?).await?);
    }
    in_flight.reverse();
    let in_flight: Vec<String> = in_flight.iter().map(ToString::to_string).collect();
    desk.listed("in_flight=true", 3).await?;
    assert_eq!(desk.walked("in_flight=true&limit=1").await?, in_flight);
    assert_eq!(desk.listed("in_flight=false", 1).await?, texts(&[&payment_id]));
    desk.listed("", 4).await?;
    let flood = async {
        loop {
            let lists = (0..100).map(|_| async {
                let answer = desk.asking("/api/payments?status=failed").bearer_auth(&desk.bob).send().await;
                answer.map(|answer| answer.status())
            });
            let statuses = join_all(lists).await;
            let is_expected = |status: &StatusCode| [StatusCode::OK, StatusCode::TOO_MANY_REQUESTS].contains(status);
            let answered: Vec<StatusCode> = statuses.into_iter().filter_map(Result::ok).collect();
            ensure!(answered.iter().all(is_expected), "{answered:?}");
            if answered.contains(&StatusCode::TOO_MANY_REQUESTS) {
                return Ok(());
            }
        }
    };
    let (flooded, served) = tokio::join!(tokio::time::timeout(PATIENCE, flood), async {
        let status = world.payer.status(&world.base(0), payment_id.as_str()).await?;
        let later = world.submit(&world.spec("console-beside")?).await?;
        ensure!(status.text("status") == "completed", "{status:?}");
        world.completed(&later).await
    });
    flooded.context("nobody was refused")??;
    served
}
