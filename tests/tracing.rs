//! Traces: one a payment over gateway, settler and verifier, gone on with by a gateway that takes over; and a collector that
//! is away, slow or broken costs spans and nothing else.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use serde_json::json;

use devkit::Signal;
use devnet::keys::Role;
use events::{PaymentEvent, PaymentId};
use trace::TraceParent;

use crate::support::{
    collector::{Collector, Exported, Manner, names},
    *,
};

/// Of a client that traces, too.
const CLIENTS: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

/// Attributes that spans may have. Accounts, amounts, signatures and bodies are none of them.
const ATTRIBUTES: [&str; 20] = [
    "action",
    "answer",
    "auction_id",
    "block",
    "chain",
    "declined",
    "error",
    "event",
    "events",
    "failure",
    "hash",
    "id",
    "path",
    "payment_id",
    "purpose",
    "question",
    "request_id",
    "route",
    "status",
    "verdict",
];

async fn traced(collector: &Collector, gateways: usize) -> Result<World> {
    let otlp_endpoint = Some(collector.endpoint());
    World::with(|options| devnet::network::Options { gateways, otlp_endpoint, ..options }).await
}

/// Submits a payment with what its client says of its own trace.
async fn submit_in(world: &World, name: &str, traceparent: &str) -> Result<PaymentId> {
    let body = world.payer.sign(&world.base(0), &world.spec(name)?).await?;
    let request = reqwest::Client::new().post(format!("{}/v1/payments", world.base(0))).json(&body);
    let response = request.header("prefer", "wait=0").header("traceparent", traceparent).send().await?;
    ensure!(response.status() == 200, "{response:?}");
    Ok(world.payer.payment_id(name))
}

/// Waits until the payment's trace holds a span that `is_it`.
async fn until_span(collector: &Collector, payment_id: &PaymentId, is_it: impl Fn(&Exported) -> bool) -> Result<()> {
    let found = || async { collector.of(payment_id.as_str()).iter().any(&is_it) };
    let seen = || collector.of(payment_id.as_str()).into_iter().map(|span| format!("{} {}", span.service, span.name));
    eventually(found).await.with_context(|| format!("seen: {:?}", seen().collect::<BTreeSet<_>>()))
}

/// Waits until the trace of a payment that is at rest is whole: its root came, and whatever was there before it.
async fn whole(collector: &Collector, payment_id: &PaymentId) -> Result<Vec<Exported>> {
    let root = TraceParent::root_of(payment_id.as_str());
    until_span(collector, payment_id, |span| span.span_id == root.span_id).await?;
    for (service, name) in [("settler", "release"), ("verifier", "attest"), ("gateway", "POST /v1/payments")] {
        until_span(collector, payment_id, |span| span.service == service && span.name == name).await?;
    }
    let has_parents = || async { orphans(&collector.of(payment_id.as_str())).is_empty() };
    let has_parents = eventually(has_parents).await;
    let spans = collector.of(payment_id.as_str());
    has_parents.with_context(|| format!("{:#?}", orphans(&spans)))?;
    Ok(spans)
}

/// Spans whose parent did not come.
fn orphans(spans: &[Exported]) -> Vec<&Exported> {
    let ids: BTreeSet<_> = spans.iter().map(|span| &span.span_id).collect();
    spans.iter().filter(|span| !span.parent.is_empty() && !ids.contains(&span.parent)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_payment_is_one_trace_over_gateway_settlers_and_verifier() -> Result<()> {
    let collector = Collector::start(Manner::Takes).await?;
    let world = traced(&collector, 1).await?;
    let payment_id = submit_in(&world, "traced", CLIENTS).await?;
    world.completed(&payment_id).await?;
    let spans = whole(&collector, &payment_id).await?;

    let root = TraceParent::root_of(payment_id.as_str());
    let roots: Vec<_> = spans.iter().filter(|span| span.parent.is_empty()).collect();
    assert_eq!(roots.len(), 1, "{roots:?}");
    assert_eq!((roots[0].name.as_str(), &roots[0].span_id[..]), ("payment", &root.span_id[..]));

    // Nobody who hears of the payment is in another trace.
    let about = collector.spans().clone();
    for span in
        about.iter().filter(|span| span.attributes.get("payment_id").is_some_and(|id| *id == payment_id.as_str()))
    {
        assert_eq!(span.trace_id, root.trace_id, "{span:?}");
    }
    let gateway = names(&spans, "gateway");
    for name in [
        "POST /v1/payments",
        "auction",
        "rfq",
        "secure_deposit",
        "award",
        "prepare",
        "commit",
        "broadcast",
        "DepositPrepared",
        "EscrowSecured",
        "FulfillmentConfirmed",
        "EscrowReleased",
    ] {
        assert!(gateway.contains(name), "{name}: {gateway:?}");
    }
    for (service, expected) in
        [("settler", &["quote", "answer_award", "deliver", "attest", "release"][..]), ("verifier", &["attest"])]
    {
        let names = names(&spans, service);
        assert!(expected.iter().all(|name| names.contains(name)), "{service}: {names:?}");
    }
    // What was sent in a message is what is followed.
    let parent_of = |span: &Exported| spans.iter().find(|other| other.span_id == span.parent).cloned().unwrap();
    for (service, name, sender) in
        [("settler", "quote", "rfq"), ("settler", "deliver", "award"), ("verifier", "attest", "attest")]
    {
        let span = spans.iter().find(|span| span.service == service && span.name == name).unwrap();
        assert_eq!(parent_of(span).name, sender, "{span:?}");
    }
    // The transactions are those of the journal.
    let prepared = world.events(&payment_id, "DepositPrepared").await?.remove(0);
    let PaymentEvent::DepositPrepared(prepared) = prepared else { anyhow::bail!("{prepared:?}") };
    for name in ["DepositPrepared", "broadcast", "EscrowSecured"] {
        let span = spans.iter().find(|span| span.service == "gateway" && span.name == name).unwrap();
        assert_eq!(span.attributes["hash"], prepared.transaction_hash, "{span:?}");
        assert_eq!(span.attributes["chain"], prepared.chain_id.as_str(), "{span:?}");
    }
    let http = spans.iter().find(|span| span.name == "POST /v1/payments").unwrap();
    let client = TraceParent::parse(CLIENTS).context("it is one")?;
    assert_eq!(http.links, [client.trace_id.to_vec()], "the client's trace is linked");
    assert_eq!(http.attributes["payment_id"], payment_id.as_str());

    // Nothing is told that is not meant to be.
    let private = [Role::Payer.account(), Role::Recipient.account(), Role::Submitter.account()];
    let addresses = private.map(|account| account.to_lowercase().rsplit(':').next().unwrap_or_default().to_owned());
    for span in &about {
        for (key, value) in &span.attributes {
            assert!(ATTRIBUTES.contains(&key.as_str()), "{key}: {span:?}");
            assert!(value.len() <= 128, "{key}: {span:?}");
            assert!(!addresses.iter().any(|address| value.to_lowercase().contains(address)), "{key}: {span:?}");
        }
    }
    a_batch_and_its_award_have_traces(&world, &collector).await?;
    malformed_traceparents_change_nothing(&world, &collector).await
}

/// Quotes are collected in the batch's trace; the payment that is awarded out of it has its own.
async fn a_batch_and_its_award_have_traces(world: &World, collector: &Collector) -> Result<()> {
    let (base, payer) = (world.base(0), &world.payer);
    let opened = payer.open(&base, &payer.quote_request(&world.spec("batch")?), true).await?;
    ensure!(opened.text("status") == "ready", "{opened:?}");
    let id = opened.text("quote_request_id");
    let root = TraceParent::root_of(id);
    let is_whole = || async {
        let spans = collector.of(id);
        let has_root = spans.iter().any(|span| span.span_id == root.span_id && span.name == "quote-request");
        let has_request = names(&spans, "gateway").contains("POST /v1/payments/quote-requests");
        has_root && has_request && names(&spans, "settler").contains("quote") && orphans(&spans).is_empty()
    };
    let whole_in_time = eventually(is_whole).await;
    whole_in_time.with_context(|| format!("{:#?}", collector.of(id)))?;

    let award = payer.sign_award(&base, &opened.body, 0, "awarded").await?;
    let answer = payer.award(&base, id, &award, Duration::ZERO).await?;
    ensure!(answer.status == 200, "{answer:?}");
    let payment_id: PaymentId = answer.text("payment_id").parse()?;
    let name = "POST /v1/payments/quote-requests/{quoteRequestId}/award";
    until_span(collector, &payment_id, |span| span.name == name).await
}

/// A client may send anything as `traceparent`: it is answered as without, and nothing is linked.
async fn malformed_traceparents_change_nothing(world: &World, collector: &Collector) -> Result<()> {
    let long = format!("01{}-{}", &CLIENTS[2..], "x".repeat(4_000));
    let (upper, zero) = (CLIENTS.to_uppercase(), CLIENTS.replacen("00f067aa0ba902b7", "0000000000000000", 1));
    let later = format!("ff{}", &CLIENTS[2..]);
    let bad = ["", "x", "00", &CLIENTS[..54], &upper, &zero, &long, &later, "00-é", "%00%0a", "00-\t-\t-01"];
    let client = reqwest::Client::new();
    let ask = |id: String, said: &[&str]| {
        let request = client.post(format!("{}/v1/payments", world.base(0))).json(&json!({})).header("x-request-id", id);
        let said = said.iter().filter_map(|text| reqwest::header::HeaderValue::from_bytes(text.as_bytes()).ok());
        said.fold(request, |request, value| request.header("traceparent", value)).send()
    };
    let plain = ask("plain".to_owned(), &[]).await?.status();
    for (n, text) in bad.iter().enumerate() {
        assert_eq!(ask(format!("bad-{n}"), &[text]).await?.status(), plain, "{text:?}");
    }
    assert_eq!(ask("twice".to_owned(), &[CLIENTS, CLIENTS]).await?.status(), plain);
    assert_eq!(ask("good".to_owned(), &[CLIENTS]).await?.status(), plain);
    let of = |id: &str| {
        let spans = collector.spans();
        spans.iter().find(|span| span.attributes.get("request_id").is_some_and(|known| known == id)).cloned()
    };
    let came = || async { of("good").is_some() };
    eventually(came).await?;
    assert_eq!(of("good").context("it came")?.links.len(), 1);
    for id in (0..bad.len()).map(|n| format!("bad-{n}")).chain(["twice".to_owned(), "plain".to_owned()]) {
        let span = of(&id).with_context(|| format!("no span of {id}"))?;
        assert!(span.links.is_empty(), "{span:?}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_that_takes_over_goes_on_in_the_same_trace() -> Result<()> {
    let collector = Collector::start(Manner::Takes).await?;
    let mut world = traced(&collector, 2).await?;
    world.network.kill_gateway(1).await?;
    let payment_id = world.submit(&world.spec("taken-over")?).await?;
    // The winner has accepted, and delivers nothing for now.
    world.until(&payment_id, "DepositPrepared").await?;
    for n in 1..=3 {
        world.network.signal_settler(n, Signal::Stop).await?;
    }
    until_span(&collector, &payment_id, |span| span.name == "DepositPrepared").await?;
    world.network.kill_gateway(0).await?;
    let first: BTreeSet<_> = of_gateways(&collector, &payment_id);
    world.network.start_gateway(1).await?;
    for n in 1..=3 {
        world.network.signal_settler(n, Signal::Continue).await?;
    }
    world.until(&payment_id, "EscrowReleased").await?;
    let root = TraceParent::root_of(payment_id.as_str());
    until_span(&collector, &payment_id, |span| span.span_id == root.span_id).await?;
    until_span(&collector, &payment_id, |span| span.name == "EscrowReleased").await?;
    let both = of_gateways(&collector, &payment_id);
    assert_eq!((first.len(), both.len()), (1, 2), "{first:?} {both:?}");
    let spans = collector.of(payment_id.as_str());
    let by = |name: &str| spans.iter().find(|span| span.name == name).map(|span| span.instance.clone());
    assert!(by("DepositPrepared").is_some_and(|instance| first.contains(&instance)));
    assert!(by("payment").is_some_and(|instance| !first.contains(&instance)));
    assert!(spans.iter().any(|span| span.service == "settler" && span.name == "release"));
    world.settled_once(&[payment_id]).await
}

/// The gateways that have spans in the payment's trace.
fn of_gateways(collector: &Collector, payment_id: &PaymentId) -> BTreeSet<String> {
    let spans = collector.of(payment_id.as_str()).into_iter();
    spans.filter(|span| span.service == "gateway").map(|span| span.instance).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_that_is_slow_broken_or_away_costs_spans_and_nothing_else() -> Result<()> {
    let collector = Collector::start(Manner::Fails).await?;
    let mut world = traced(&collector, 1).await?;
    let mut payments = vec![completed(&world, "broken").await?];
    eventually(|| async { collector.asked() > 0 }).await.context("the collector was not asked")?;
    collector.stop().await;
    payments.push(completed(&world, "away").await?);
    let told = || async { world.network.log("gateway-1").is_ok_and(|log| log.contains("spans are lost")) };
    eventually(told).await.context("nobody is told")?;
    let address = collector.endpoint();
    let collector = Collector::start_at(address.trim_start_matches("http://"), Manner::Hangs).await?;
    payments.push(completed(&world, "slow").await?);
    eventually(|| async { collector.asked() > 0 }).await.context("the collector was not asked")?;
    world.settled_once(&payments).await?;
    assert!(collector.spans().is_empty());

    // A collector that never answers does not hold up the end of a process.
    let began = Instant::now();
    world.network.signal_gateway(0, Signal::Terminate).await?;
    while world.network.gateway_runs(0)? {
        ensure!(began.elapsed() < Duration::from_secs(60), "the gateway does not end");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Ok(())
}

async fn completed(world: &World, name: &str) -> Result<PaymentId> {
    let payment_id = world.submit(&world.spec(name)?).await?;
    world.completed(&payment_id).await.context(name.to_owned())?;
    Ok(payment_id)
}
