//! NATS attacks by a settler with valid credentials on the others, on a real nats-server with the repository's nats.conf.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use async_nats::{Client, HeaderMap, jetstream};
use futures::StreamExt;
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use auction::{self, NatsAuction};
use devnet::nats::Nats;
use events::Did;
use identity::SettlerPolicies;
use journal_jetstream::headerless::HeaderlessClient;
use protocol::{
    BIDS_PER_REQUEST_MAX, Bid, Corridor, REGISTRATION_RENEWAL, Registration, Rfq, Version, bid_subject,
    registration_subject, report_subject, rfq_subjects,
};
use sagas::ports::{Answer, Auction, Gathered, RequestForQuotes};

use crate::nats_roles::{DESTINATION, PATIENCE, Role, SOURCE, did, payment_of, request, token, until};

/// Messages of a flood: many times what threw out everybody's bids when they shared a stream.
const FLOOD: usize = 20_000;
/// Bytes of one of them.
const JUNK: usize = 4_096;

/// A gateway's part in auctions, until it is dropped, as by `kill -9`.
pub(super) struct Gateway {
    pub(super) auction: NatsAuction,
    /// Over which it asks settlers, and over which it hears them.
    pub(super) connections: (Client, HeaderlessClient),
    _service: AbortOnDropHandle<()>,
}

impl Gateway {
    pub(super) async fn start(nats: &Nats) -> Result<Self> {
        let (client, heard) = tokio::try_join!(nats.connect(Role::Gateway), nats.headerless(Role::Gateway))?;
        let options = auction::Options { replicas: nats.replicas(), ..auction::Options::default() };
        let (auction, service, _hints) =
            auction::open(client.clone(), heard.clone(), options, SettlerPolicies::default(), None).await?;
        let service = tokio::spawn(service.run(CancellationToken::new()));
        Ok(Self { auction, connections: (client, heard), _service: AbortOnDropHandle::new(service) })
    }

    /// Waits until the gateway asks settler `number`.
    pub(super) async fn knows(&self, number: usize) -> Result<()> {
        until("the settler is registered", || async {
            let request = RequestForQuotes { whitelist: vec![did(number)], ..request(Duration::from_millis(200)) };
            self.auction.gather(&request).await.is_ok_and(|gathered| gathered.addressed == [did(number)])
        })
        .await
    }
}

/// A settler that quotes whatever it is asked, or says nothing, until it is dropped.
pub(super) struct Bidder {
    pub(super) client: Client,
    _task: AbortOnDropHandle<()>,
}

impl Bidder {
    pub(super) async fn start(nats: &Nats, number: usize, quotes: bool) -> Result<Self> {
        let client = nats.connect(Role::Settler(number)).await?;
        let mut requests = client.subscribe(rfq_subjects(&token(number))).await?;
        register(&client, number, &registration(number, 1)).await?;
        let answering = client.clone();
        let task = tokio::spawn(async move {
            while let Some(message) = requests.next().await {
                let rfq: Rfq = protocol::read(&message.payload).expect("a request");
                if quotes {
                    let bid = protocol::write(&Bid::quote("{}"));
                    let subject = bid_subject(&token(number), &rfq.auction_id);
                    answering.publish(subject, bid.into()).await.expect("connected");
                }
            }
        });
        Ok(Self { client, _task: AbortOnDropHandle::new(task) })
    }
}

/// A registration, one of many different ones.
pub(super) fn registration(number: usize, variant: usize) -> Vec<u8> {
    let corridor = Corridor { source_asset: SOURCE.parse().unwrap(), destination_asset: DESTINATION.parse().unwrap() };
    protocol::write(&Registration {
        version: Version,
        settler: did(number),
        accounts: Vec::new(),
        corridors: vec![corridor],
        policies: vec![format!("variant-{variant}")],
        credentials: Vec::new(),
        follows_reassignments: true,
    })
}

/// Registers as a settler does, and waits until that is stored.
async fn register(client: &Client, number: usize, registration: &[u8]) -> Result<()> {
    let context = jetstream::new(client.clone());
    let stored = async {
        loop {
            let sent = context.publish(registration_subject(&token(number)), registration.to_vec().into()).await?;
            if sent.await.is_ok() {
                return anyhow::Ok(());
            }
        }
    };
    tokio::time::timeout(PATIENCE, stored).await.context("the registration is not stored")?
}

/// Registers settler `number` once; an error when that was not stored.
pub(super) async fn registered(client: &Client, number: usize) -> Result<()> {
    let registration = registration(number, 1).into();
    jetstream::new(client.clone()).publish(registration_subject(&token(number)), registration).await?.await?;
    Ok(())
}

/// Subjects in a settler's stream of bids.
pub(super) async fn stored(nats: &Nats, number: usize) -> Result<Vec<String>> {
    let context = jetstream::new(nats.connect(Role::Gateway).await?);
    let stream = context.get_stream(format!("BIDS_{}", token(number))).await?;
    let mut info = std::pin::pin!(stream.info_with_subjects(">").await?);
    let mut subjects = Vec::new();
    while let Some(subject) = info.next().await {
        subjects.push(subject?.0);
    }
    Ok(subjects)
}

fn quote_of(gathered: &Gathered, number: usize) -> Option<&Answer> {
    gathered.bids.iter().find(|bid| bid.settler == token(number)).map(|bid| &bid.answer)
}

/// An auction in which settler 1 bids and goes, settler 2 is asked and says what it likes, and another gateway takes over.
async fn taken_over(nodes: usize, attack: bool) -> Result<(Vec<Did>, Option<Answer>)> {
    let directory = tempfile::tempdir()?;
    let nats = Nats::start(nodes, directory.path()).await?;
    let first = Gateway::start(&nats).await?;
    let honest = Bidder::start(&nats, 1, true).await?;
    let hostile = Bidder::start(&nats, 2, false).await?;
    first.knows(1).await?;
    first.knows(2).await?;
    let request = request(Duration::from_secs(6));
    let (auction, asked) = (first.auction.clone(), request.clone());
    let window = tokio::spawn(async move { auction.gather(&asked).await });
    let bid = bid_subject(&token(1), &request.auction_id);
    until("the bid is stored", || async { stored(&nats, 1).await.is_ok_and(|found| found.contains(&bid)) }).await?;
    window.abort();
    drop((first, honest));

    if attack {
        let junk = bytes::Bytes::from(vec![b'x'; JUNK]);
        for n in 0..FLOOD {
            // To auctions that nobody asked it in, and to the one where it may answer.
            hostile.client.publish(bid_subject(&token(2), &format!("junk{n}")), junk.clone()).await?;
            hostile.client.publish(bid_subject(&token(2), &request.auction_id), junk.clone()).await?;
        }
        // The server has read all of it when it answers this.
        register(&hostile.client, 2, &registration(2, 1)).await?;
        let own = stored(&nats, 2).await?;
        ensure!(own.iter().all(|subject| !subject.contains("junk")), "bids that nobody asked for: {}", own.len());
        let context = jetstream::new(nats.connect(Role::Gateway).await?);
        let state = context.get_stream(format!("BIDS_{}", token(2))).await?.cached_info().state.clone();
        // What was ever stored: what it was allowed in each auction that it was asked in, and not the flood.
        let asked = own.len().max(1) * BIDS_PER_REQUEST_MAX * 8;
        ensure!(state.last_sequence as usize <= asked.max(200), "{} messages were stored", state.last_sequence);
    }
    let second = Gateway::start(&nats).await?;
    let gathered = tokio::time::timeout(PATIENCE, second.auction.gather(&request)).await??;
    Ok((gathered.addressed.clone(), quote_of(&gathered, 1).cloned()))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_bids_throws_out_nobodys_and_changes_no_auction() -> Result<()> {
    let (attacked, control) = tokio::try_join!(taken_over(1, true), taken_over(1, false))?;
    assert_eq!(attacked, control);
    let mut both = vec![did(1), did(2)];
    both.sort();
    assert_eq!(attacked, (both, Some(Answer::Quote("{}".to_owned()))));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn nor_does_it_on_a_cluster() -> Result<()> {
    let (_, answer) = taken_over(3, true).await?;
    assert_eq!(answer, Some(Answer::Quote("{}".to_owned())));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_settler_cannot_bid_where_it_was_not_asked() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let nats = Nats::start(1, directory.path()).await?;
    let gateway = Gateway::start(&nats).await?;
    let honest = Bidder::start(&nats, 1, false).await?;
    let hostile = Bidder::start(&nats, 2, true).await?;
    gateway.knows(1).await?;
    gateway.knows(2).await?;
    let before = stored(&nats, 2).await?;
    let request = RequestForQuotes { whitelist: vec![did(1)], ..request(Duration::from_secs(3)) };
    let window = tokio::spawn({
        let (auction, request) = (gateway.auction.clone(), request.clone());
        async move { auction.gather(&request).await }
    });
    // It knows the auction's id, and bids without pause for as long as the window is open.
    let subject = bid_subject(&token(2), &request.auction_id);
    while !window.is_finished() {
        hostile.client.publish(subject.clone(), protocol::write(&Bid::quote("{\"mine\":1}")).into()).await?;
        tokio::task::yield_now().await;
    }
    let gathered = window.await??;
    assert_eq!((gathered.addressed, gathered.bids.len()), (vec![did(1)], 0));
    assert_eq!(stored(&nats, 2).await?, before);
    // Control: asked, the same settler is heard.
    let asked = RequestForQuotes { whitelist: vec![did(2)], ..crate::nats_roles::request(Duration::from_secs(60)) };
    let gathered = tokio::time::timeout(PATIENCE, gateway.auction.gather(&asked)).await??;
    assert_eq!(quote_of(&gathered, 2), Some(&Answer::Quote("{}".to_owned())));
    drop(honest);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_registration_that_flaps_disturbs_no_auction_and_no_other_settler() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let nats = Nats::start(1, directory.path()).await?;
    let gateway = Gateway::start(&nats).await?;
    let honest = Bidder::start(&nats, 1, true).await?;
    gateway.knows(1).await?;
    // On as many connections as it may have: registers, changes, leaves and reports, as fast as the server takes it.
    let payment = payment_of(&request(Duration::ZERO));
    let mut floods = Vec::new();
    for _ in 0..6 {
        let client = nats.connect(Role::Settler(2)).await?;
        let (report, payment) = (report_subject(&token(2), &payment), payment.clone());
        floods.push(AbortOnDropHandle::new(tokio::spawn(async move {
            let body = protocol::write(&protocol::Report {
                version: Version,
                payment_id: payment,
                transaction_hash: String::new(),
            });
            let subject = registration_subject(&token(2));
            let gone = HeaderMap::from_iter([("KV-Operation".parse().expect("a name"), "DEL".into())]);
            for variant in 0.. {
                let changed = registration(2, variant);
                let sent = async {
                    client.publish(subject.clone(), changed.into()).await?;
                    client.publish(report.clone(), body.clone().into()).await?;
                    client.publish_with_headers(subject.clone(), gone.clone(), "".into()).await
                };
                if sent.await.is_err() {
                    return;
                }
            }
        })));
    }
    let context = jetstream::new(nats.connect(Role::Gateway).await?);
    let stream = format!("SETTLER_{}", token(2));
    until("the flood is under way", || async {
        let flooded = context.get_stream(&stream).await;
        flooded.is_ok_and(|stream| stream.cached_info().state.last_sequence > 10_000)
    })
    .await?;
    for _ in 0..5 {
        // Renewals and changes of the honest one are stored as ever, and auctions end when it has answered.
        register(&honest.client, 1, &registration(1, 1)).await?;
        let request = RequestForQuotes { whitelist: vec![did(1)], ..request(Duration::from_secs(60)) };
        let gathered = tokio::time::timeout(PATIENCE / 3, gateway.auction.gather(&request)).await??;
        assert_eq!(gathered.addressed, [did(1)]);
        assert_eq!(quote_of(&gathered, 1), Some(&Answer::Quote("{}".to_owned())));
    }
    let flooded = context.get_stream(&stream).await?.cached_info().state.clone();
    assert!(flooded.messages <= 1, "{} messages are kept of it", flooded.messages);
    drop(floods);
    // Control: the same settler at rest, which renews its registration as all do, is asked like them once it has a change left.
    let calm = Bidder::start(&nats, 2, true).await?;
    let mut renewals = tokio::time::interval(REGISTRATION_RENEWAL);
    let mut known = std::pin::pin!(gateway.knows(2));
    loop {
        tokio::select! {
            known = &mut known => return known,
            _ = renewals.tick() => register(&calm.client, 2, &registration(2, 1)).await?,
        }
    }
}
