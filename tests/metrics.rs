//! Metrics: gateway, verifier and settler say what they counted, under the documented names alone, and count a payment once.

use std::{
    collections::{BTreeMap, BTreeSet},
    process::Stdio,
    time::Duration,
};

use anyhow::{Context, Result, bail, ensure};
use tokio::{io::AsyncWriteExt, process::Command};

use devnet::network::Options;
use gateway::metrics::table::{Kind, TABLE};

use crate::support::*;

/// What one reading says: the value of each series, by its name with labels as they are written.
struct Reading {
    text: String,
    series: BTreeMap<String, f64>,
}

impl Reading {
    /// Reads what is told at `address`, and checks its form.
    async fn at(address: &str) -> Result<Self> {
        let answer = reqwest::get(address).await?;
        let is_text =
            answer.headers().get("content-type").is_some_and(|kind| kind.as_bytes().starts_with(b"text/plain"));
        ensure!(answer.status() == 200 && is_text, "{answer:?}");
        let text = answer.text().await?;
        let series = parsed(&text)?;
        Ok(Self { text, series })
    }

    fn value(&self, series: &str) -> Option<f64> {
        self.series.get(series).copied()
    }

    /// Sum of all series of a name whose labels have all of these.
    fn sum(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let matches = |series: &str| {
            let of_name = series.split('{').next() == Some(name);
            of_name && labels.iter().all(|(label, value)| series.contains(&format!("{label}=\"{value}\"")))
        };
        self.series.iter().filter(|(series, _)| matches(series)).map(|(_, value)| *value).sum()
    }

    fn has(&self, name: &str) -> bool {
        let bare = |series: &str| series.split('{').next().unwrap_or_default().to_owned();
        self.series.keys().any(|series| {
            let bare = bare(series);
            bare == name || [format!("{name}_count"), format!("{name}_bucket"), format!("{name}_sum")].contains(&bare)
        })
    }
}

/// The series of a reading. Each has a description and a kind that the table names, which stand before it once; none stands twice,
/// and a histogram's buckets add up.
fn parsed(text: &str) -> Result<BTreeMap<String, f64>> {
    let (mut series, mut kinds, mut helped) = (BTreeMap::new(), BTreeMap::new(), BTreeSet::new());
    for line in text.lines().filter(|line| !line.is_empty()) {
        if let Some(help) = line.strip_prefix("# HELP ") {
            let (name, _) = help.split_once(' ').context(line.to_owned())?;
            ensure!(helped.insert(name), "{name} is described twice");
        } else if let Some(kind) = line.strip_prefix("# TYPE ") {
            let (name, kind) = kind.split_once(' ').context(line.to_owned())?;
            ensure!(kinds.insert(name, kind).is_none(), "{name} has two kinds");
        } else {
            let (name, value) = line.rsplit_once(' ').context(line.to_owned())?;
            let value: f64 = value.parse().with_context(|| line.to_owned())?;
            ensure!(series.insert(name.to_owned(), value).is_none(), "{name} stands twice");
            let bare = name.split('{').next().unwrap_or_default();
            let of = |metric: &str| {
                bare == metric
                    || kinds.get(metric) == Some(&"histogram")
                        && ["_bucket", "_sum", "_count"].iter().any(|end| bare == [metric, end].concat())
            };
            let metric =
                TABLE.iter().find(|metric| of(metric.name)).with_context(|| format!("{name} is not documented"))?;
            ensure!(kinds.get(metric.name) == Some(&metric.kind.as_str()), "{name} is not a {}", metric.kind.as_str());
            ensure!(helped.contains(metric.name), "{name} is not described");
            let labels: BTreeSet<_> = labels_of(name).map(|(label, _)| label).filter(|label| *label != "le").collect();
            ensure!(labels == metric.labels.iter().copied().collect(), "{name} has other labels");
        }
    }
    for (name, count) in series.iter().filter(|(name, _)| name.contains("_count")) {
        let labels = name.split_once('{').map(|(_, labels)| format!("{},", labels.trim_end_matches('}')));
        let bucket = name.split('{').next().unwrap_or_default().replace("_count", "_bucket");
        let all = format!("{bucket}{{{}le=\"+Inf\"}}", labels.unwrap_or_default());
        ensure!(series.get(&all) == Some(count), "{name} is {count}, and {all} {:?}", series.get(&all));
    }
    Ok(series)
}

/// Labels and values of a series; no value has a comma or a quote in it.
fn labels_of(series: &str) -> impl Iterator<Item = (&str, &str)> {
    let labels = series.split_once('{').map_or("", |(_, labels)| labels.trim_end_matches('}'));
    labels.split(',').filter_map(|label| label.split_once('='))
}

/// What Prometheus' own tool says of the form, where it is installed.
async fn promtool(text: &str) -> Result<()> {
    let Ok(program) = devkit::tools::program("promtool") else { return Ok(()) };
    let mut command = Command::new(program);
    command.args(["check", "metrics"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut tool = command.kill_on_drop(true).spawn()?;
    let mut stdin = tool.stdin.take().context("it reads from its standard input")?;
    stdin.write_all(text.as_bytes()).await?;
    drop(stdin);
    let said = tool.wait_with_output().await?;
    ensure!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    Ok(())
}

/// Waits until what is told at `address` is so.
async fn until(address: &str, what: &str, holds: impl Fn(&Reading) -> bool) -> Result<Reading> {
    let found = tokio::time::timeout(PATIENCE, async {
        loop {
            let reading = Reading::at(address).await?;
            if holds(&reading) {
                return Ok::<_, anyhow::Error>(reading);
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    });
    match found.await {
        Ok(found) => found,
        Err(_) => bail!("{what}: {}", Reading::at(address).await?.text),
    }
}

/// A payment that nobody serves: its auction ends at once.
async fn unserved(world: &World) -> Result<()> {
    let stranger = ed25519_dalek::SigningKey::from_bytes(&[77; 32]);
    let whitelist = vec![events::Did::from_ed25519(&stranger.verifying_key())];
    let spec = devnet::payer::PaymentSpec { whitelist, ..world.spec("metrics-unserved")? };
    let payment_id = world.submit(&spec).await?;
    world.until(&payment_id, "Failed").await
}

#[tokio::test]
async fn what_happens_to_payments_is_counted_once_under_documented_names() -> Result<()> {
    let mut world = World::with(|options| Options { metrics: true, refund_delay_seconds: 10, ..options }).await?;
    let gateway = world.network.metrics("gateway-1")?;

    let completed = world.submit(&world.spec("metrics-completed")?).await?;
    let refunded = world.submit(&world.undeliverable_spec("metrics-refunded")?).await?;
    unserved(&world).await?;
    world.completed(&completed).await?;
    until(&gateway, "the open payment is seen", |reading| {
        reading.sum("gw_payments_open", &[("stage", "delivery")]) == 1.0
    })
    .await?;
    let base = world.base(0);
    ensure!(reqwest::get(format!("{base}/v1/payments/pay_nobody/status")).await?.status() == 404);
    world.until(&refunded, "EscrowRefunded").await?;

    // Each once, whatever else goes on.
    let source = world.network.source.id().to_string();
    let spent = |reading: &Reading, leg| {
        let labels = [("chain", source.as_str()), ("leg", leg), ("outcome", "mined")];
        reading.sum("gw_transactions_total", &labels) > 0.0
            && reading.sum("gw_gas_spent_total", &labels) > 0.0
            && reading.sum("gw_fees_spent_total", &labels[..2]) > 0.0
    };
    let reading = until(&gateway, "the transactions' costs are known", |reading| {
        spent(reading, "deposit")
            && spent(reading, "refund")
            && reading.value("gw_ready") == Some(1.0)
            && reading.sum("gw_submitter_balance", &[("chain", &source)]) > 0.0
    })
    .await?;
    let event = |event: &str| reading.sum("gw_payments_total", &[("event", event)]);
    let counted: Vec<f64> =
        ["submitted", "awarded", "secured", "delivered", "completed", "released", "failed", "refunded"]
            .map(event)
            .into();
    ensure!(counted == [3.0, 2.0, 2.0, 1.0, 1.0, 1.0, 2.0, 1.0], "{counted:?}");
    let failures = |code: &str| reading.sum("gw_payment_failures_total", &[("code", code)]);
    ensure!(failures("NO_QUOTES_RECEIVED") == 1.0 && failures("other") == 0.0, "{}", reading.text);
    for stage in ["auction", "award", "deposit", "delivery", "release", "refund"] {
        ensure!(reading.sum("gw_stage_seconds_count", &[("stage", stage)]) > 0.0, "{stage}: {}", reading.text);
    }
    ensure!(reading.sum("gw_payment_seconds_count", &[]) == 1.0, "{}", reading.text);
    ensure!(reading.sum("gw_auctions_total", &[("outcome", "awarded")]) == 2.0, "{}", reading.text);
    ensure!(reading.sum("gw_awards_total", &[("answer", "accepted")]) == 2.0, "{}", reading.text);
    ensure!(reading.sum("gw_refusals_total", &[("code", "PAYMENT_NOT_FOUND")]) >= 1.0, "{}", reading.text);

    // Every documented name is told by the process that it is of. What another part of the gateway tells of nodes is its own, and
    // webhooks are off here; that of feeds is in settler_prices.rs.
    let (verifier, settler) = (world.network.metrics("verifier")?, world.network.metrics("settler-1")?);
    let verifier = until(&verifier, "an attestation", |reading| {
        reading.sum("gw_attestations_total", &[("outcome", "attested")]) > 0.0
    })
    .await?;
    ensure!(verifier.sum("gw_verifier_answers_total", &[("outcome", "attested")]) > 0.0, "{}", verifier.text);
    let settler = until(&settler, "a delivery", |reading| {
        reading.sum("gw_settler_deliveries_total", &[("outcome", "released")]) == 1.0
    })
    .await?;
    ensure!(settler.sum("gw_settler_quotes_total", &[("outcome", "quoted")]) >= 1.0, "{}", settler.text);
    ensure!(settler.sum("gw_settler_inventory", &[]) > 0.0, "{}", settler.text);
    let others = ["gw_node_", "gw_webhook", "gw_console_", "gw_settler_feed_"];
    let elsewhere = |name: &str| others.iter().any(|of_others| name.starts_with(of_others));
    for metric in TABLE.iter().filter(|metric| !elsewhere(metric.name)) {
        let told = [&reading, &verifier, &settler].iter().any(|reading| reading.has(metric.name));
        ensure!(told, "{} is told by nobody", metric.name);
    }
    // What must have moved in a gateway that served these payments; the rest are alarms, and what counts settlers that let payers
    // down, which must not have.
    let still = [
        "gw_paused",
        "gw_alarms",
        "gw_payments_parked",
        "gw_payments_unattested",
        "gw_permits_refused_total",
        "gw_settlers_passed_over_total",
        "gw_awards_replaced_total",
        "gw_reservations_lapsed_total",
        "gw_reassignments_total",
    ];
    for metric in TABLE.iter().filter(|metric| reading.has(metric.name)) {
        let sum = match metric.kind {
            Kind::Histogram(_) => reading.sum(&format!("{}_count", metric.name), &[]),
            Kind::Counter | Kind::Gauge => reading.sum(metric.name, &[]),
        };
        let may_be_zero = [
            "gw_payments_open",
            "gw_payments_overdue",
            "gw_read_model_lag",
            "gw_permits_in_use",
            "gw_nonces_in_flight",
        ];
        match still.contains(&metric.name) {
            true => ensure!(sum == 0.0, "{} is {sum}", metric.name),
            false => ensure!(sum > 0.0 || may_be_zero.contains(&metric.name), "{} did not move", metric.name),
        }
    }
    for reading in [&reading, &verifier, &settler] {
        promtool(&reading.text).await?;
    }

    // A process that reads all of it again has counted nothing of it.
    world.network.kill_gateway(0).await?;
    world.network.start_gateway(0).await?;
    let again = until(&gateway, "the shards are driven again", |reading| {
        reading.value("gw_leases_held") == reading.value("gw_shards") && reading.value("gw_ready") == Some(1.0)
    })
    .await?;
    ensure!(again.sum("gw_payments_total", &[]) == 0.0, "{}", again.text);
    ensure!(again.sum("gw_transactions_total", &[]) == 0.0, "{}", again.text);
    Ok(())
}

#[tokio::test]
async fn what_strangers_choose_adds_no_series() -> Result<()> {
    let world = World::with(|options| Options { metrics: true, ..options }).await?;
    let (base, address) = (world.base(0), world.network.metrics("gateway-1")?);
    let http = reqwest::Client::new();
    let ask = async |round: usize| -> Result<()> {
        for number in 0..40 {
            let name = format!("{round}-{number}");
            for path in [
                format!("/{name}"),
                format!("/v1/payments/pay_{name}/status"),
                format!("/v1/payments/resolve?request_id={name}&source_account={name}"),
                format!("/contexts/{name}/{name}"),
            ] {
                http.get(format!("{base}{path}")).send().await?;
                let method = reqwest::Method::from_bytes(format!("M{number}").as_bytes())?;
                http.request(method, format!("{base}{path}")).send().await?;
            }
            let body = serde_json::json!({"request_id": name, "source": {"asset_identifier": name}});
            http.post(format!("{base}/v1/payments")).json(&body).send().await?;
        }
        Ok(())
    };
    ask(0).await?;
    let answered = |reading: &Reading| reading.sum("gw_http_requests_total", &[("route", "other")]);
    let before = until(&address, "requests are counted", |reading| answered(reading) >= 80.0).await?;
    ask(1).await?;
    let after =
        until(&address, "more requests are counted", |reading| answered(reading) >= answered(&before) + 80.0).await?;
    let of_http = |reading: &Reading| -> BTreeSet<String> {
        let is = |series: &&String| ["gw_http", "gw_refusals"].iter().any(|start| series.starts_with(start));
        reading.series.keys().filter(is).cloned().collect()
    };
    let (before, after) = (of_http(&before), of_http(&after));
    ensure!(before == after, "{:?}", after.difference(&before).collect::<Vec<_>>());
    Ok(())
}

#[tokio::test]
async fn without_configuration_nothing_is_told() -> Result<()> {
    let world = World::start(1).await?;
    ensure!(world.network.metrics("gateway-1").is_err());
    ensure!(reqwest::get(format!("{}/metrics", world.base(0))).await?.status() == 404);
    Ok(())
}
