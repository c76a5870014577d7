//! Scaling: throughput by the number of shards, and the cost of an auction by the number of settlers.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use async_nats::Client;
use ed25519_dalek::SigningKey;
use futures::StreamExt;
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;

use events::{Did, Hash32, PaymentEvent, StreamId};
use journal::{ShardLog, StreamStore};
use journal_jetstream::store::NatsJournal;
use protocol::{
    AWARDS_STREAM, Bid, Corridor, REGISTRATION_RENEWAL, Registration, Version, bid_subject, registration_subject,
    rfq_subjects, split_subject,
};

use crate::{
    baseline::{self, IN_FLIGHT},
    context::{Context, SHARDS},
    engine::EngineRun,
    environment::{Environment, PATIENCE, eventually},
    http::Connection,
    load::{Latencies, Load},
    orders::{Order, in_parallel},
    report::Rows,
    submissions,
};

/// How long quotes are collected at the most; they are there long before.
const WINDOW: Duration = Duration::from_secs(600);

/// The bench.
///
/// # Errors
/// When it cannot be measured.
pub async fn run(context: &Context, rows: &mut Rows) -> Result<()> {
    for &shards in context.pick(&[1_u16, 16][..], &[1, 8, 16, 32]) {
        let raw = baseline::measure(context, shards, &IN_FLIGHT[1..2]).await?.best();
        rows.add(format!("{shards} shards: raw appends"), raw, "a second");
        let submissions = submissions_of(context, shards, 1).await?;
        rows.add(format!("{shards} shards: submissions"), submissions.rate(), "a second").of_baseline(raw);
        let payments = payments_of(context, shards).await?;
        rows.add(format!("{shards} shards: whole payments"), payments.rate(), "a second");
    }
    for &gateways in context.pick(&[1_usize, 2][..], &[1, 2, 4]) {
        let submissions = submissions_of(context, SHARDS, gateways).await?;
        rows.add(format!("{gateways} gateways: submissions"), submissions.rate(), "a second");
    }
    for &settlers in context.pick(&[3_usize, 10][..], &[3, 30, 300]) {
        let closed = gather(context, settlers).await?;
        rows.add(format!("{settlers} settlers: submission to auction closed, p50"), closed.ms(0.5), "ms");
        rows.add(format!("{settlers} settlers: submission to auction closed, the longest"), closed.max_ms(), "ms");
    }
    Ok(())
}

async fn submissions_of(context: &Context, shards: u16, count: usize) -> Result<Load> {
    let environment = Environment::start(&context.paths, shards).await?;
    let journal = environment.journal().await?;
    let _leases = environment.own_shards().await?;
    let mut gateways = Vec::new();
    for number in 1..=count {
        gateways.push(environment.gateway(&format!("gateway-{number}")).await?);
    }
    submissions::warm_up(context, &gateways).await?;
    let load = submissions::closed(context, &gateways, "closed", IN_FLIGHT[1]).await?;
    environment.still_held(&journal).await?;
    Ok(load)
}

async fn payments_of(context: &Context, shards: u16) -> Result<Load> {
    let environment = Environment::start(&context.paths, shards).await?;
    let engine = EngineRun::start(environment.journal().await?).await?;
    let load = engine.drive(context, "scale", context.bound(60, 20_000), IN_FLIGHT[1], None).await?;
    engine.stop().await?;
    Ok(load)
}

/// Runs one auction after the other, in which every one of so many settlers offers a quote of its own. The time from
/// the submission's first byte until the gateway has judged all quotes and stored the award.
async fn gather(context: &Context, settlers: usize) -> Result<Latencies> {
    let keys: Vec<SigningKey> =
        (0..settlers).map(|n| SigningKey::from_bytes(&Hash32::sha256(format!("bench settler {n}")).0)).collect();
    let dids: Vec<Did> = keys.iter().map(|key| Did::from_ed25519(&key.verifying_key())).collect();
    let environment = Environment::with_settlers(&context.paths, SHARDS, &dids).await?;
    let gateway = environment.gateway("gateway").await?;
    let orders = context.payer.sign("gather", 0..context.pick(3, 30), WINDOW)?;
    let quotes = in_parallel(0..keys.len(), |settler| {
        let quote = |order: &Order| Ok((order.payment_id.to_string(), order.quote(&keys[settler])?));
        orders.iter().map(quote).collect::<Result<HashMap<_, _>>>()
    })?;
    let mut bidders = Vec::new();
    for ((key, did), quotes) in keys.iter().zip(&dids).zip(quotes) {
        bidders.push(bid(environment.settler(key).await?, did.clone(), quotes, &orders[0]).await?);
    }
    // The gateway makes a consumer of awards for each settler that it has seen in the registry.
    let jetstream = async_nats::jetstream::new(environment.client().await?);
    eventually("the gateway knows all settlers", async || {
        let awards = jetstream.get_stream(AWARDS_STREAM).await?;
        Ok(awards.cached_info().state.consumer_count >= settlers)
    })
    .await?;
    let journal = environment.journal().await?;
    let mut connection = Connection::open(gateway.port).await?;
    let mut closed = Latencies::new();
    for order in &orders {
        let stream_id = StreamId::from(order.payment_id.clone());
        let begun = Instant::now();
        let (status, body) = connection.submit(order.body.clone()).await?;
        ensure!(status.is_success(), "{status}: {}", String::from_utf8_lossy(&body));
        let quotes = judged(&journal, &stream_id).await?;
        closed.record(begun.elapsed());
        ensure!(quotes == settlers, "{quotes} quotes of {settlers} settlers count");
    }
    Ok(closed)
}

/// Waits until the auction is closed; how many quotes counted.
async fn judged(journal: &NatsJournal, stream_id: &StreamId) -> Result<usize> {
    let shard = stream_id.shard(SHARDS);
    let judged = async {
        loop {
            let head = journal.head(shard).await?;
            let commits = journal.load(stream_id).await?;
            let count = commits.iter().flat_map(|commit| commit.payment_events()).find_map(|event| match event {
                PaymentEvent::AuctionClosed(closed) => Some(closed.quotes.len()),
                _ => None,
            });
            if let Some(count) = count {
                return Ok::<_, anyhow::Error>(count);
            }
            journal.wait_beyond(shard, head).await?;
        }
    };
    timeout(PATIENCE, judged).await.context("an auction is not closed")?
}

/// A settler that is registered and answers each request with the quote it has for it.
async fn bid(
    client: Client,
    settler: Did,
    quotes: HashMap<String, String>,
    order: &Order,
) -> Result<AbortOnDropHandle<()>> {
    let token = settler.token();
    let terms = &order.spend.terms;
    let registration = Registration {
        version: Version,
        settler,
        accounts: Vec::new(),
        corridors: vec![Corridor {
            source_asset: terms.source.asset().clone(),
            destination_asset: terms.destination()[0].asset().clone(),
        }],
        policies: Vec::new(),
        credentials: Vec::new(),
        follows_reassignments: true,
    };
    let registration = bytes::Bytes::from(protocol::write(&registration));
    let mut requests = client.subscribe(rfq_subjects(&token)).await?;
    client.publish(registration_subject(&token), registration.clone()).await?;
    client.flush().await?;
    let task = tokio::spawn(async move {
        let mut renewal = tokio::time::interval(REGISTRATION_RENEWAL);
        loop {
            let published = tokio::select! {
                _ = renewal.tick() => client.publish(registration_subject(&token), registration.clone()).await,
                request = requests.next() => {
                    let Some(request) = request else { return };
                    let auction = split_subject(&request.subject, "rfq").map(|(_, auction)| auction);
                    let quote = auction.and_then(|auction| quotes.get_key_value(auction));
                    let Some((auction, quote)) = quote else { continue };
                    let bid = protocol::write(&Bid::quote(quote.clone()));
                    client.publish(bid_subject(&token, auction), bid.into()).await
                }
            };
            // The connection is closed for good only at the end of the bench.
            if published.is_err() {
                return;
            }
        }
    });
    Ok(AbortOnDropHandle::new(task))
}
