//! The auction over a real nats-server with the repository's nats.conf.

mod awards;
mod late;
mod records;

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use anyhow::Result;
use async_nats::{Client, jetstream};
use chrono::Utc;
use futures::StreamExt;
use serde_json::json;
use tokio::{sync::mpsc, task::JoinHandle};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use auction::{self, NatsAuction};
use config::{IdentityConfig, SettlerPolicyConfig};
use devkit::{NatsServer, holder::Holder};
use events::{PaymentId, SettlerToken};
use identity::{Identities, SettlerPolicies};
use proofs::suites::SigningKey;
use protocol::{Bid, Corridor, Registration, Rfq, Version, bid_subject, registration_subject, rfq_subjects};
use sagas::ports::{Answer, Auction, Bid as Received, RequestForQuotes, SettlerRecords};

use crate::nats_roles::{DESTINATION, PATIENCE, Role, SOURCE, connect, did, headerless, request, server, token, until};

/// A gateway's part in auctions, until it is dropped, as by `kill -9`.
struct Gateway {
    auction: NatsAuction,
    hints: mpsc::Receiver<PaymentId>,
    _service: AbortOnDropHandle<()>,
}

impl Gateway {
    async fn start(server: &NatsServer) -> Result<Self> {
        Self::judging(server, policies()).await
    }

    async fn judging(server: &NatsServer, policies: SettlerPolicies) -> Result<Self> {
        Self::with(server, auction::Options::default(), policies, None).await
    }

    async fn with(
        server: &NatsServer,
        options: auction::Options,
        policies: SettlerPolicies,
        records: Option<Arc<dyn SettlerRecords>>,
    ) -> Result<Self> {
        let (client, heard) = tokio::try_join!(connect(server, Role::Gateway), headerless(server, Role::Gateway))?;
        let (auction, service, hints) = auction::open(client, heard, options, policies, records).await?;
        let service = tokio::spawn(service.run(CancellationToken::new()));
        Ok(Self { auction, hints, _service: AbortOnDropHandle::new(service) })
    }
}

/// A settler that answers as it is told, until it is dropped.
struct Bidder {
    client: Client,
    asked: Arc<AtomicUsize>,
    _task: AbortOnDropHandle<()>,
}

impl Bidder {
    async fn start(
        server: &NatsServer,
        number: usize,
        answer: impl Fn(&Rfq) -> Option<Vec<u8>> + Send + 'static,
    ) -> Result<Self> {
        Self::registered(server, number, registration(number), answer).await
    }

    async fn registered(
        server: &NatsServer,
        number: usize,
        registration: Registration,
        answer: impl Fn(&Rfq) -> Option<Vec<u8>> + Send + 'static,
    ) -> Result<Self> {
        let client = connect(server, Role::Settler(number)).await?;
        let mut requests = client.subscribe(rfq_subjects(&token(number))).await?;
        let (jetstream, body) = (jetstream::new(client.clone()), protocol::write(&registration));
        // As settlers do it: again while nobody hears it, as in the moment in which a server is back and a gateway is not.
        until("the registration is stored", || async {
            match jetstream.publish(registration_subject(&token(number)), body.clone().into()).await {
                Ok(stored) => stored.await.is_ok(),
                Err(_) => false,
            }
        })
        .await?;
        let asked = Arc::new(AtomicUsize::new(0));
        let task = tokio::spawn({
            let (client, asked) = (client.clone(), asked.clone());
            async move {
                while let Some(message) = requests.next().await {
                    let rfq: Rfq = protocol::read(&message.payload).unwrap();
                    asked.fetch_add(1, Ordering::SeqCst);
                    if let Some(payload) = answer(&rfq) {
                        client.publish(bid_subject(&token(number), &rfq.auction_id), payload.into()).await.unwrap();
                    }
                }
            }
        });
        Ok(Self { client, asked, _task: AbortOnDropHandle::new(task) })
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

/// Seed of the one who may say who knows his customers.
const ISSUER: u8 = 77;

/// The policy `kyc`, by credentials of the issuer.
fn policies() -> SettlerPolicies {
    let issuer = Holder::ed25519(ISSUER).unwrap().did().as_str().parse().unwrap();
    let kyc = SettlerPolicyConfig { issuers: vec![issuer], kind: "KycCredential".to_owned(), record: None };
    SettlerPolicies::new(Identities::default(), &BTreeMap::from([("kyc".to_owned(), kyc)]))
}

fn registration(number: usize) -> Registration {
    let corridor = Corridor { source_asset: SOURCE.parse().unwrap(), destination_asset: DESTINATION.parse().unwrap() };
    Registration {
        version: Version,
        settler: did(number),
        accounts: Vec::new(),
        corridors: vec![corridor],
        policies: Vec::new(),
        credentials: Vec::new(),
        follows_reassignments: true,
    }
}

fn quote(document: &'static str) -> impl Fn(&Rfq) -> Option<Vec<u8>> + Send + 'static {
    move |_| Some(protocol::write(&Bid::quote(document)))
}

fn decline(reason: &'static str) -> impl Fn(&Rfq) -> Option<Vec<u8>> + Send + 'static {
    move |_| Some(protocol::write(&Bid::decline(reason)))
}

fn silence(_: &Rfq) -> Option<Vec<u8>> {
    None
}

fn answer_of(bids: &[Received], settler: &SettlerToken) -> Option<Answer> {
    bids.iter().find(|bid| bid.settler == *settler).map(|bid| bid.answer.clone())
}

fn gather(
    gateway: &Gateway,
    request: &RequestForQuotes,
) -> JoinHandle<Result<sagas::ports::Gathered, sagas::ports::Transient>> {
    let (auction, request) = (gateway.auction.clone(), request.clone());
    tokio::spawn(async move { auction.gather(&request).await })
}

async fn stored_bids(server: &NatsServer) -> Result<u64> {
    let jetstream = jetstream::new(connect(server, Role::Gateway).await?);
    let mut count = 0;
    for number in 1..=3 {
        // There is none for a settler that nobody has seen.
        if let Ok(stream) = jetstream.get_stream(format!("BIDS_{}", token(number))).await {
            count += stream.cached_info().state.messages;
        }
    }
    Ok(count)
}

/// Auctions of which it is kept who was asked.
async fn auctions_asked(server: &NatsServer) -> Result<u64> {
    let jetstream = jetstream::new(connect(server, Role::Gateway).await?);
    Ok(jetstream.get_stream("ASKED").await?.cached_info().state.messages)
}

#[tokio::test]
async fn the_window_closes_when_all_have_answered() -> Result<()> {
    let server = server().await?;
    let gateway = Gateway::start(&server).await?;
    let _one = Bidder::start(&server, 1, quote("{\"offer\":1}")).await?;
    let _two = Bidder::start(&server, 2, decline("INSUFFICIENT_LIQUIDITY")).await?;
    let _three = Bidder::start(&server, 3, |_| Some(b"{\"version\":\"1.0\",\"quote\":3".to_vec())).await?;
    for settler in 1..=3 {
        registered(&gateway, settler).await?;
    }

    // Open for an hour: only the last answer can end it.
    let request = request(Duration::from_secs(3600));
    let gathered = tokio::time::timeout(PATIENCE, gateway.auction.gather(&request)).await??;

    let mut all = vec![did(1), did(2), did(3)];
    all.sort();
    assert_eq!(gathered.addressed, all);
    assert_eq!(answer_of(&gathered.bids, &token(1)), Some(Answer::Quote("{\"offer\":1}".to_owned())));
    assert_eq!(answer_of(&gathered.bids, &token(2)), Some(Answer::Decline("INSUFFICIENT_LIQUIDITY".to_owned())));
    assert!(matches!(answer_of(&gathered.bids, &token(3)), Some(Answer::Malformed(_))));
    assert!(gathered.bids.iter().all(|bid| bid.received_at <= request.quote_deadline));
    Ok(())
}

/// Waits until `gateway` would ask settler `number`.
async fn registered(gateway: &Gateway, number: usize) -> Result<()> {
    until("the settler is asked", || async {
        let mut probe = request(Duration::from_millis(100));
        probe.whitelist = vec![did(number)];
        gateway.auction.gather(&probe).await.is_ok_and(|gathered| gathered.addressed == [did(number)])
    })
    .await
}

#[tokio::test]
async fn only_those_who_may_win_are_asked() -> Result<()> {
    let server = server().await?;
    let gateway = Gateway::start(&server).await?;
    let issuer = Holder::ed25519(ISSUER)?;
    let credential = issuer.credential(did(2).as_str(), "KycCredential", &json!({}), Utc::now())?;
    let credentials = vec![credential.as_object().cloned().unwrap_or_default()];
    // Another's credential, and a word without one, count for nothing.
    let stated = |number| Registration {
        policies: vec!["kyc".to_owned()],
        credentials: credentials.clone(),
        ..registration(number)
    };
    let _plain = Bidder::registered(&server, 1, stated(1), decline("PRICE_ABOVE_CAP")).await?;
    let certified = stated(2);
    let _certified = Bidder::registered(&server, 2, certified, decline("PRICE_ABOVE_CAP")).await?;
    let elsewhere = Corridor { source_asset: DESTINATION.parse()?, destination_asset: SOURCE.parse()? };
    let elsewhere = Registration { corridors: vec![elsewhere], ..registration(3) };
    let elsewhere = Bidder::registered(&server, 3, elsewhere, decline("PRICE_ABOVE_CAP")).await?;
    registered(&gateway, 1).await?;
    registered(&gateway, 2).await?;

    let addressed = async |change: fn(&mut RequestForQuotes)| {
        let mut request = request(Duration::from_secs(3600));
        change(&mut request);
        tokio::time::timeout(PATIENCE, gateway.auction.gather(&request))
            .await
            .map(|gathered| gathered.unwrap().addressed)
    };
    let mut both = vec![did(1), did(2)];
    both.sort();
    assert_eq!(addressed(|_| {}).await?, both);
    assert_eq!(addressed(|request| request.whitelist = vec![did(1), did(3)]).await?, [did(1)]);
    assert_eq!(addressed(|request| request.blacklist = vec![did(1)]).await?, [did(2)]);
    let mut requiring = request(Duration::from_secs(3600));
    requiring.required_policies = vec!["kyc".to_owned()];
    let gathered = tokio::time::timeout(PATIENCE, gateway.auction.gather(&requiring)).await??;
    assert_eq!(gathered.addressed, [did(2)]);
    let held: Vec<_> = gathered.held.iter().map(|held| (&held.settler, held.policy.as_str())).collect();
    assert_eq!(held, [(&did(2), "kyc")]);
    assert_eq!(gathered.held[0].issuer.as_str(), issuer.did().as_str());
    let contradictory = addressed(|request| {
        request.whitelist = vec![did(1), did(2)];
        request.blacklist = vec![did(1)];
    });
    assert_eq!(contradictory.await?, [did(2)]);
    assert_eq!(elsewhere.asked(), 0);
    Ok(())
}

#[tokio::test]
async fn a_registration_under_anothers_key_does_not_count() -> Result<()> {
    let server = server().await?;
    let gateway = Gateway::start(&server).await?;
    // Settler 2 states to be settler 1, under the only key it may write.
    let _impostor = Bidder::registered(&server, 2, registration(1), quote("{}")).await?;
    let _three = Bidder::start(&server, 3, quote("{}")).await?;
    registered(&gateway, 3).await?;
    let request = request(Duration::from_secs(3600));
    let gathered = tokio::time::timeout(PATIENCE, gateway.auction.gather(&request)).await??;
    assert_eq!(gathered.addressed, [did(3)]);
    Ok(())
}

#[tokio::test]
async fn a_settler_that_comes_during_the_window_is_asked() -> Result<()> {
    let server = server().await?;
    let gateway = Gateway::start(&server).await?;
    let two = Bidder::start(&server, 2, silence).await?;
    registered(&gateway, 2).await?;
    let asked = two.asked();
    let request = request(Duration::from_secs(3600));
    let window = gather(&gateway, &request);
    until("the window is open", || async { two.asked() > asked }).await?;
    let _one = Bidder::start(&server, 1, quote("{}")).await?;
    until("the newcomer has answered", || async { stored_bids(&server).await.is_ok_and(|bids| bids > 0) }).await?;
    let bid = protocol::write(&Bid::decline("INSUFFICIENT_LIQUIDITY")).into();
    two.client.publish(bid_subject(&token(2), &request.auction_id), bid).await?;
    let gathered = tokio::time::timeout(PATIENCE, window).await???;
    let mut both = vec![did(1), did(2)];
    both.sort();
    assert_eq!(gathered.addressed, both);
    assert!(matches!(answer_of(&gathered.bids, &token(1)), Some(Answer::Quote(_))), "{:?}", gathered.bids);
    Ok(())
}

/// Whoever asks for what nobody serves hears so at once, and not after the window; one that is started anew is waited for.
#[tokio::test]
async fn a_window_that_nobody_serves_closes_at_once() -> Result<()> {
    let server = server().await?;
    let gateway = Gateway::start(&server).await?;
    let elsewhere = Corridor { source_asset: DESTINATION.parse()?, destination_asset: SOURCE.parse()? };
    let elsewhere = Registration { corridors: vec![elsewhere], ..registration(3) };
    let _elsewhere = Bidder::registered(&server, 3, elsewhere, silence).await?;
    let one = Bidder::start(&server, 1, quote("{}")).await?;
    registered(&gateway, 1).await?;
    let nobodys = RequestForQuotes { whitelist: vec![did(3)], ..request(Duration::from_secs(3600)) };
    let gathered = tokio::time::timeout(PATIENCE, gateway.auction.gather(&nobodys)).await??;
    assert_eq!((gathered.addressed.len(), gathered.bids.len()), (0, 0));

    let mut leave = async_nats::HeaderMap::new();
    leave.insert("KV-Operation", "DEL");
    let context = jetstream::new(one.client.clone());
    context.publish_with_headers(registration_subject(&token(1)), leave, "".into()).await?.await?;
    until("it is known to have left", || async {
        let probe = RequestForQuotes { whitelist: vec![did(1)], ..request(Duration::from_secs(3600)) };
        tokio::time::timeout(Duration::from_millis(200), gateway.auction.gather(&probe)).await.is_err()
    })
    .await?;
    let window = gather(&gateway, &request(Duration::from_secs(3600)));
    // A gateway that is started meanwhile has never seen it, and finds that it left.
    let fresh = Gateway::start(&server).await?;
    let mut of_fresh = gather(&fresh, &request(Duration::from_secs(3600)));
    let closed = tokio::time::timeout(Duration::from_secs(2), &mut of_fresh).await;
    assert!(closed.is_err(), "{closed:?}");
    let _back = Bidder::start(&server, 1, quote("{}")).await?;
    for window in [window, of_fresh] {
        let gathered = tokio::time::timeout(PATIENCE, window).await???;
        assert_eq!((gathered.addressed, gathered.bids.len()), (vec![did(1)], 1));
    }
    Ok(())
}

/// Whether a settler holds a policy is unknown while the site of its issuer does not answer, and that is not to hold none.
#[tokio::test]
async fn a_window_stays_open_while_credentials_cannot_be_judged() -> Result<()> {
    let server = server().await?;
    // No label has so many letters, so nobody has to be asked to know that the name has no address.
    let host = format!("{}.example", "a".repeat(64));
    let key = SigningKey::Ed25519(ed25519_dalek::SigningKey::from_bytes(&[ISSUER; 32]));
    let issuer = Holder::with_method(key, &format!("did:web:{host}#key"))?;
    let issuers = vec![issuer.did().as_str().parse()?];
    let kyc = SettlerPolicyConfig { issuers, kind: "KycCredential".to_owned(), record: None };
    let config = IdentityConfig { did_web_origins: vec![format!("https://{host}")], ..IdentityConfig::default() };
    let policies = SettlerPolicies::new(Identities::load(&config)?, &BTreeMap::from([("kyc".to_owned(), kyc)]));
    let gateway = Gateway::judging(&server, policies).await?;
    let credential = issuer.credential(did(1).as_str(), "KycCredential", &json!({}), Utc::now())?;
    let credentials = vec![credential.as_object().cloned().unwrap_or_default()];
    let _one = Bidder::registered(&server, 1, Registration { credentials, ..registration(1) }, quote("{}")).await?;
    registered(&gateway, 1).await?;

    let required_policies = vec!["kyc".to_owned()];
    let requiring = RequestForQuotes { required_policies, ..request(Duration::from_secs(6)) };
    let gathered = tokio::time::timeout(PATIENCE, gateway.auction.gather(&requiring)).await??;
    assert!(Utc::now() >= requiring.quote_deadline, "it was closed before its end");
    assert_eq!((gathered.addressed.len(), gathered.bids.len()), (0, 0));
    Ok(())
}

#[tokio::test]
async fn a_settler_that_was_cut_off_when_it_was_asked_is_asked_again() -> Result<()> {
    let server = server().await?;
    let gateway = Gateway::start(&server).await?;
    let one = Bidder::start(&server, 1, silence).await?;
    registered(&gateway, 1).await?;
    // Its registration stays; the server answers a request to nobody in its place.
    drop(one);

    let before = auctions_asked(&server).await?;
    let window = gather(&gateway, &request(Duration::from_secs(3600)));
    until("it was asked", || async { auctions_asked(&server).await.is_ok_and(|now| now > before) }).await?;
    let _back = Bidder::start(&server, 1, quote("{}")).await?;
    let gathered = tokio::time::timeout(PATIENCE, window).await???;
    assert_eq!((gathered.addressed, gathered.bids.len()), (vec![did(1)], 1));
    assert!(matches!(gathered.bids[0].answer, Answer::Quote(_)), "{:?}", gathered.bids);
    Ok(())
}

#[tokio::test]
async fn late_bids_are_dropped() -> Result<()> {
    let server = server().await?;
    let gateway = Gateway::start(&server).await?;
    let one = Bidder::start(&server, 1, silence).await?;
    registered(&gateway, 1).await?;

    let request = request(Duration::from_secs(2));
    let gathered = tokio::time::timeout(PATIENCE, gateway.auction.gather(&request)).await??;
    assert!(Utc::now() >= request.quote_deadline);
    assert_eq!((gathered.addressed, gathered.bids.len()), (vec![did(1)], 0));

    let subject = bid_subject(&token(1), &request.auction_id);
    let bid = protocol::write(&Bid::quote("{}"));
    jetstream::new(one.client.clone()).publish(subject, bid.into()).await?.await?;
    let again = tokio::time::timeout(PATIENCE, gateway.auction.gather(&request)).await??;
    assert_eq!((again.addressed, again.bids.len()), (vec![did(1)], 0));
    Ok(())
}

#[tokio::test]
async fn a_gateway_that_takes_over_finds_the_bids_that_were_given() -> Result<()> {
    let server = server().await?;
    let first = Gateway::start(&server).await?;
    let one = Bidder::start(&server, 1, quote("{\"offer\":1}")).await?;
    let two = Bidder::start(&server, 2, silence).await?;
    registered(&first, 1).await?;
    registered(&first, 2).await?;

    let before = stored_bids(&server).await?;
    let request = request(Duration::from_secs(3600));
    let window = gather(&first, &request);
    until("the bid is stored", || async { stored_bids(&server).await.is_ok_and(|now| now > before) }).await?;
    window.abort();
    drop(first);
    // The one that has bid goes, so its bid can only be found, not given again.
    drop(one);

    let second = Gateway::start(&server).await?;
    let window = gather(&second, &request);
    let asked = two.asked();
    until("the silent one is asked again", || async { two.asked() > asked }).await?;
    let bid = protocol::write(&Bid::decline("INSUFFICIENT_LIQUIDITY")).into();
    two.client.publish(bid_subject(&token(2), &request.auction_id), bid).await?;
    let gathered = tokio::time::timeout(PATIENCE, window).await???;
    let mut both = vec![did(1), did(2)];
    both.sort();
    assert_eq!(gathered.addressed, both);
    assert_eq!(answer_of(&gathered.bids, &token(1)), Some(Answer::Quote("{\"offer\":1}".to_owned())));
    assert_eq!(gathered.bids.len(), 2);
    Ok(())
}

#[tokio::test]
async fn a_window_that_passed_while_no_gateway_was_there_yields_its_bids() -> Result<()> {
    let server = server().await?;
    let first = Gateway::start(&server).await?;
    let one = Bidder::start(&server, 1, quote("{\"offer\":1}")).await?;
    let _two = Bidder::start(&server, 2, silence).await?;
    registered(&first, 1).await?;
    registered(&first, 2).await?;

    let before = stored_bids(&server).await?;
    let request = request(Duration::from_secs(2));
    let window = gather(&first, &request);
    until("the bid is stored", || async { stored_bids(&server).await.is_ok_and(|now| now > before) }).await?;
    window.abort();
    drop((first, one));
    until("the window has passed", || async { Utc::now() > request.quote_deadline }).await?;

    let second = Gateway::start(&server).await?;
    let gathered = tokio::time::timeout(PATIENCE, second.auction.gather(&request)).await??;
    let mut both = vec![did(1), did(2)];
    both.sort();
    assert_eq!(gathered.addressed, both, "whom the first gateway asked is known to the second");
    assert_eq!(answer_of(&gathered.bids, &token(1)), Some(Answer::Quote("{\"offer\":1}".to_owned())));
    Ok(())
}

#[tokio::test]
async fn auctions_go_on_after_nats_was_killed() -> Result<()> {
    let mut server = server().await?;
    let gateway = Gateway::start(&server).await?;
    let _one = Bidder::start(&server, 1, quote("{}")).await?;
    registered(&gateway, 1).await?;
    // Bids live in the server's memory, so the stream is gone with it.
    server.kill().await?;
    server.restart().await?;
    let _two = Bidder::start(&server, 2, decline("INSUFFICIENT_LIQUIDITY")).await?;
    let mut request = request(Duration::from_secs(3600));
    request.whitelist = vec![did(1), did(2)];
    until("both have answered", || async {
        let gathered = tokio::time::timeout(PATIENCE, gateway.auction.gather(&request)).await;
        gathered.is_ok_and(|gathered| gathered.is_ok_and(|gathered| gathered.bids.len() == 2))
    })
    .await?;
    until("bids are stored again", || async { stored_bids(&server).await.is_ok_and(|bids| bids > 0) }).await
}
