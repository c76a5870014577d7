//! What each role of nats.conf may do, on a real nats-server: nothing beyond its part.

use std::time::Duration;

use anyhow::{Context, Result};
use async_nats::{
    Client, Request, StatusCode,
    client::RequestErrorKind,
    jetstream::{self, stream},
};
use ed25519_dalek::SigningKey;
use futures::StreamExt;

use devkit::NatsServer;
use devnet::keys::selector_signer;
use events::{ChainId, Hash32, StreamId, event::VerifierRef};
use identity::SettlerPolicies;
use journal::{
    StreamStore, checkpoint,
    ledger::{Ledger, Purpose, SignerAccount},
    parking::{Cause, CauseKind, Parked, Parking, Replayed},
};
use journal_jetstream::{
    checkpoint::{Checkpointer, Stepped},
    ledger::NatsLedger,
    parking::NatsParking,
    raw::RawReader,
    store::NatsJournal,
};
use sagas::ports::{Auction, Award, VerificationCase};
use settler::protocol::{
    answer_subject, award_consumer, award_subject, bid_subject, over_subject, over_subjects, registration_subject,
    report_subject, rfq_subject, rfq_subjects, selection::selector_subject,
};

use crate::nats_roles::{PATIENCE, RELEASER, Role, connect, did, payment_of, request, server, token};

const EVENTS: &str = "gw.evt.00.pay_x";
/// What is in the streams before anyone tries anything.
const COMMITS: u64 = 2;

/// A server with the auction's streams, a journal of two commits and an award to settler 2.
struct Stage {
    server: NatsServer,
    gateway: Client,
}

impl Stage {
    async fn set() -> Result<Self> {
        let server = server().await?;
        let gateway = connect(&server, Role::Gateway).await?;
        let jetstream = jetstream::new(gateway.clone());
        let (auction, _service, _hints) =
            auction::open(gateway.clone(), auction::Options::default(), SettlerPolicies::default()).await?;
        jetstream
            .create_stream(stream::Config {
                name: "EVT_00".to_owned(),
                subjects: vec!["gw.evt.00.>".to_owned()],
                allow_direct: true,
                ..Default::default()
            })
            .await?;
        for commit in 1..=COMMITS {
            jetstream.publish(EVENTS, commit.to_string().into()).await?.await?;
        }
        for number in [1, 2] {
            auction.award(&award(number)).await?;
        }
        Ok(Self { server, gateway })
    }

    async fn messages(&self, stream: &str) -> Result<u64> {
        Ok(jetstream::new(self.gateway.clone()).get_stream(stream).await?.get_info().await?.state.messages)
    }

    /// Subjects in `stream`, sorted.
    async fn subjects(&self, stream: &str) -> Result<Vec<String>> {
        let stream = jetstream::new(self.gateway.clone()).get_stream(stream).await?;
        let mut info = std::pin::pin!(stream.info_with_subjects(">").await?);
        let mut subjects = Vec::new();
        while let Some(subject) = info.next().await {
            subjects.push(subject?.0);
        }
        subjects.sort();
        Ok(subjects)
    }

    /// Asks settler `number` for a bid, and returns when its `client` has heard it and may answer.
    async fn ask(&self, client: &Client, number: usize, auction: &str) -> Result<()> {
        let mut requests = client.subscribe(rfq_subject(&token(number), auction)).await?;
        let reply = bid_subject(&token(number), auction);
        let heard = async {
            loop {
                // The server may learn of the subscription after the request.
                let subject = rfq_subject(&token(number), auction);
                self.gateway.publish_with_reply(subject, reply.clone(), "?".into()).await?;
                if let Ok(request) = tokio::time::timeout(Duration::from_millis(200), requests.next()).await {
                    return request.context("closed");
                }
            }
        };
        let request = tokio::time::timeout(PATIENCE, heard).await??;
        assert_eq!(request.reply.as_deref(), Some(reply.as_str()), "the answer's subject crosses accounts as it is");
        Ok(())
    }

    async fn untouched(&self) -> Result<()> {
        assert_eq!(self.messages("EVT_00").await?, COMMITS, "journal");
        assert_eq!(self.messages("AWARDS").await?, 2, "awards");
        Ok(())
    }
}

/// The stream of a settler's bids.
fn bids(number: usize) -> String {
    format!("BIDS_{}", token(number))
}

/// The stream of a settler's registration.
fn registration(number: usize) -> String {
    format!("SETTLER_{}", token(number))
}

fn award(number: usize) -> Award {
    let request = request(Duration::from_secs(1));
    let case = VerificationCase {
        payment_id: payment_of(&request),
        terms: request.terms,
        escrow: request.escrow,
        quote_document: "{}".to_owned(),
    };
    let verifier = VerifierRef { account: RELEASER.to_owned(), endpoint: String::new() };
    Award { settler: did(number), case, quote_hash: Hash32::sha256(b"quote"), verifier }
}

/// The number of awards that `client` gets when it asks for those of settler `number`.
async fn pulled(client: &Client, number: usize) -> Result<usize> {
    let inbox = client.new_inbox();
    let mut answers = client.subscribe(inbox.clone()).await?;
    let subject = format!("$JS.API.CONSUMER.MSG.NEXT.AWARDS.{}", award_consumer(&token(number)));
    client.publish_with_reply(subject, inbox, r#"{"batch":9,"no_wait":true}"#.into()).await?;
    let mut awards = 0;
    // A request that is allowed ends with a status; one that is not is never answered.
    while let Ok(Some(message)) = tokio::time::timeout(Duration::from_secs(1), answers.next()).await {
        match message.status {
            None => awards += 1,
            Some(_) => break,
        }
    }
    Ok(awards)
}

/// Whether the server, or somebody behind it, answered. A refused request is answered by nobody.
async fn answered(client: &Client, subject: &str, payload: &str) -> bool {
    let request = Request::new().payload(payload.to_owned().into()).timeout(Some(Duration::from_secs(1)));
    match client.send_request(subject.to_owned(), request).await {
        Ok(message) => {
            let error = String::from_utf8_lossy(&message.payload).contains("\"error\"");
            message.status.is_none_or(|status| status == StatusCode::OK) && !error
        }
        Err(_) => false,
    }
}

/// Returns once the server has processed what `client` sent before.
async fn processed(client: &Client, own: &str) -> Result<()> {
    jetstream::new(client.clone()).publish(own.to_owned(), "x".into()).await?.await?;
    Ok(())
}

#[tokio::test]
async fn a_settler_hears_its_own_requests_only() -> Result<()> {
    let stage = Stage::set().await?;
    let one = connect(&stage.server, Role::Settler(1)).await?;
    let mut heard = Vec::new();
    for subject in [
        rfq_subjects(&token(2)),
        over_subjects(&token(2)),
        "auction.rfq.>".to_owned(),
        ">".to_owned(),
        "gw.>".to_owned(),
    ] {
        heard.push(one.subscribe(subject).await?);
    }
    let mut own = one.subscribe(rfq_subjects(&token(1))).await?;
    processed(&one, &registration_subject(&token(1))).await?;
    stage.gateway.publish(rfq_subject(&token(2), "a"), "theirs".into()).await?;
    stage.gateway.publish(over_subject(&token(2), "a"), "theirs".into()).await?;
    stage.gateway.publish(EVENTS, "an event".into()).await?;
    stage.gateway.publish(rfq_subject(&token(1), "a"), "mine".into()).await?;
    let message = tokio::time::timeout(PATIENCE, own.next()).await?.context("closed")?;
    assert_eq!(&message.payload[..], b"mine");
    for mut subscription in heard {
        // Everything sent to this client before "mine" would be here already.
        let next = tokio::time::timeout(Duration::ZERO, subscription.next()).await;
        assert!(matches!(next, Err(_) | Ok(None)), "{next:?}");
    }
    Ok(())
}

#[tokio::test]
async fn a_settler_speaks_for_itself_only() -> Result<()> {
    let stage = Stage::set().await?;
    let one = connect(&stage.server, Role::Settler(1)).await?;
    let payment = payment_of(&request(Duration::ZERO));
    let mut reports = stage.gateway.subscribe("auction.report.>").await?;
    // The answer to this comes after the subscription was taken.
    stage.untouched().await?;
    let foreign = [
        bid_subject(&token(2), "a"),
        registration_subject(&token(2)),
        report_subject(&token(2), &payment),
        award_subject(&token(1), &payment),
        answer_subject(&token(2), &payment),
        over_subject(&token(2), "a"),
        format!("auction.answered.{}.{payment}", token(1)),
        rfq_subject(&token(2), "a"),
        "auction.asked.a".to_owned(),
        EVENTS.to_owned(),
        "gw.sig.x".to_owned(),
        "gw.park.00.x".to_owned(),
        "$KV.gw_leases.00".to_owned(),
        "$KV.gw_control.pause".to_owned(),
        "gw.operator.all.rebuild".to_owned(),
        "$JS.API.STREAM.UPDATE.EVT_00".to_owned(),
    ];
    for subject in foreign {
        one.publish(subject, "x".into()).await?;
    }
    one.publish(report_subject(&token(1), &payment), "mine".into()).await?;
    processed(&one, &registration_subject(&token(1))).await?;
    stage.ask(&one, 1, "a").await?;
    processed(&one, &bid_subject(&token(1), "a")).await?;
    assert_eq!(stage.subjects(&bids(1)).await?, [bid_subject(&token(1), "a")]);
    assert_eq!(stage.subjects(&registration(1)).await?, [registration_subject(&token(1))]);
    assert_eq!(stage.subjects(&bids(2)).await?, Vec::<String>::new());
    assert_eq!(stage.subjects(&registration(2)).await?, Vec::<String>::new());
    assert_eq!(stage.subjects("ASKED").await?, Vec::<String>::new());
    assert_eq!(stage.subjects("ANSWERS").await?, Vec::<String>::new());
    let report = tokio::time::timeout(PATIENCE, reports.next()).await?.context("closed")?;
    assert_eq!(report.subject.as_str(), report_subject(&token(1), &payment));
    stage.untouched().await
}

#[tokio::test]
async fn a_settler_takes_its_own_awards_only() -> Result<()> {
    let stage = Stage::set().await?;
    let one = connect(&stage.server, Role::Settler(1)).await?;
    let (own, foreign) = (award_consumer(&token(1)), award_consumer(&token(2)));
    assert_eq!(pulled(&one, 1).await?, 1);
    assert_eq!(pulled(&one, 2).await?, 0);
    // Not even its own: what answers such questions answers the gateway's, too.
    for consumer in [&own, &foreign] {
        assert!(!answered(&one, &format!("$JS.API.CONSUMER.INFO.AWARDS.{consumer}"), "").await);
    }

    let refused = [
        ("$JS.API.INFO".to_owned(), ""),
        ("$JS.API.STREAM.NAMES".to_owned(), ""),
        ("$JS.API.STREAM.INFO.AWARDS".to_owned(), ""),
        ("$JS.API.STREAM.MSG.GET.AWARDS".to_owned(), r#"{"seq":2}"#),
        ("$JS.API.DIRECT.GET.AWARDS".to_owned(), r#"{"seq":2}"#),
        (format!("$JS.API.DIRECT.GET.{}", bids(1)), r#"{"seq":1}"#),
        ("$JS.API.DIRECT.GET.ASKED".to_owned(), r#"{"seq":1}"#),
        ("$JS.API.DIRECT.GET.EVT_00".to_owned(), r#"{"seq":1}"#),
        ("$JS.API.STREAM.PURGE.AWARDS".to_owned(), ""),
        ("$JS.API.STREAM.DELETE.AWARDS".to_owned(), ""),
        ("$JS.API.STREAM.CREATE.MINE".to_owned(), r#"{"name":"MINE","subjects":["mine"]}"#),
        (
            "$JS.API.CONSUMER.CREATE.AWARDS.mine".to_owned(),
            r#"{"stream_name":"AWARDS","config":{"name":"mine","ack_policy":"explicit"}}"#,
        ),
        (format!("$JS.API.CONSUMER.DELETE.AWARDS.{foreign}"), ""),
    ];
    for (subject, payload) in refused {
        assert!(!answered(&one, &subject, payload).await, "{subject}");
    }
    // An acknowledgement in another's name does nothing.
    one.publish(format!("$JS.ACK.AWARDS.{foreign}.1.2.1.0.0"), "+ACK".into()).await?;
    processed(&one, &registration_subject(&token(1))).await?;
    let two = connect(&stage.server, Role::Settler(2)).await?;
    assert_eq!(pulled(&two, 2).await?, 1);
    stage.untouched().await
}

#[tokio::test]
async fn an_answer_cannot_be_steered_into_anothers_subject() -> Result<()> {
    let stage = Stage::set().await?;
    let one = connect(&stage.server, Role::Settler(1)).await?;
    let auditor = connect(&stage.server, Role::Auditor).await?;
    let client = connect(&stage.server, Role::Settler(2)).await?;
    let mut two = client.subscribe(rfq_subjects(&token(2))).await?;
    assert_eq!(pulled(&client, 2).await?, 1);
    stage.ask(&one, 1, "a").await?;
    let targets = [
        EVENTS.to_owned(),
        bid_subject(&token(2), "a"),
        registration_subject(&token(2)),
        rfq_subject(&token(2), "a"),
        award_subject(&token(2), &payment_of(&request(Duration::ZERO))),
        "$JS.API.STREAM.PURGE.AWARDS".to_owned(),
        "$JS.API.STREAM.DELETE.EVT_00".to_owned(),
        "gw.operator.all.rebuild".to_owned(),
    ];
    let pull = format!("$JS.API.CONSUMER.MSG.NEXT.AWARDS.{}", award_consumer(&token(1)));
    for target in targets {
        one.publish_with_reply(registration_subject(&token(1)), target.clone(), "x".into()).await?;
        one.publish_with_reply(pull.clone(), target.clone(), r#"{"batch":1,"no_wait":true}"#.into()).await?;
        let read = r#"{"seq":1,"batch":2}"#.into();
        auditor.publish_with_reply("$JS.API.DIRECT.GET.EVT_00", target.clone(), read).await?;
        auditor.publish_with_reply("$JS.API.STREAM.INFO.EVT_00", target, "".into()).await?;
    }
    one.publish_with_reply(bid_subject(&token(1), "a"), EVENTS, "x".into()).await?;
    processed(&one, &bid_subject(&token(1), "a")).await?;
    assert!(answered(&auditor, "$JS.API.STREAM.INFO.EVT_00", "").await);
    stage.gateway.publish(rfq_subject(&token(2), "b"), "from the gateway".into()).await?;
    let heard = tokio::time::timeout(PATIENCE, two.next()).await?.context("closed")?;
    assert_eq!(&heard.payload[..], b"from the gateway");
    assert_eq!(stage.subjects(&bids(1)).await?, [bid_subject(&token(1), "a")]);
    assert_eq!(stage.subjects(&bids(2)).await?, Vec::<String>::new());
    assert_eq!(stage.subjects(&registration(2)).await?, Vec::<String>::new());
    stage.untouched().await
}

#[tokio::test]
async fn a_selector_answers_the_gateway_and_does_nothing_else() -> Result<()> {
    let stage = Stage::set().await?;
    let selector = connect(&stage.server, Role::Selector).await?;
    let subject = selector_subject(&selector_signer().key());
    // Nobody listens yet, and the server says so at once.
    let away = stage.gateway.request(subject.clone(), "?".into()).await;
    assert!(matches!(away, Err(error) if error.kind() == RequestErrorKind::NoResponders));

    let mut asked = selector.subscribe(subject.clone()).await?;
    let mut journal = selector.subscribe("gw.evt.>").await?;
    let mut others = selector.subscribe("selector.*").await?;
    selector.flush().await?;
    let answering = async {
        while let Some(message) = asked.next().await {
            assert_eq!(&message.payload[..], b"which?");
            selector.publish(message.reply.context("no reply subject")?, "that one".into()).await?;
        }
        anyhow::bail!("closed")
    };
    // The gateway's account may hear a moment later that somebody listens in the selector's.
    let asking = async {
        loop {
            match stage.gateway.request(subject.clone(), "which?".into()).await {
                Err(error) if error.kind() == RequestErrorKind::NoResponders => {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
                said => break anyhow::Ok(said?),
            }
        }
    };
    let said = tokio::select! {
        said = tokio::time::timeout(PATIENCE, asking) => said??,
        ended = answering => return ended,
    };
    assert_eq!(&said.payload[..], b"that one");

    // Unasked it says nothing to anyone, and nobody else asks it or hears what it is asked.
    let targets = [
        EVENTS.to_owned(),
        bid_subject(&token(1), "a"),
        registration_subject(&token(1)),
        subject.clone(),
        "gw.operator.all.rebuild".to_owned(),
        "$JS.API.STREAM.INFO.EVT_00".to_owned(),
    ];
    for target in targets {
        assert!(!answered(&selector, &target, "{}").await, "{target}");
    }
    for role in [Role::Settler(1), Role::Auditor] {
        let stranger = connect(&stage.server, role).await?;
        let mut heard = stranger.subscribe("selector.>").await?;
        assert!(!answered(&stranger, &subject, "{}").await, "{role:?}");
        assert!(matches!(tokio::time::timeout(Duration::ZERO, heard.next()).await, Err(_) | Ok(None)), "{role:?}");
    }
    for (what, subscriber) in [("requests of strangers", &mut asked), ("events", &mut journal), ("more", &mut others)] {
        let next = tokio::time::timeout(Duration::ZERO, subscriber.next()).await;
        assert!(matches!(next, Err(_) | Ok(None)), "{what}: {next:?}");
    }
    assert_eq!(stage.subjects(&bids(1)).await?, Vec::<String>::new());
    stage.untouched().await
}

#[tokio::test]
async fn only_the_gateways_role_speaks_and_hears_as_an_operator() -> Result<()> {
    let stage = Stage::set().await?;
    let mut heard = stage.gateway.subscribe("gw.operator.>").await?;
    // The answer to this comes after the subscription was taken.
    stage.untouched().await?;
    let (question, answer) = ("gw.operator.all.rebuild", "gw.operator.reply.x");
    for role in [Role::Settler(1), Role::Auditor] {
        let stranger = connect(&stage.server, role).await?;
        let mut answers = stranger.subscribe("gw.operator.>").await?;
        assert!(!answered(&stranger, question, "{}").await, "{role:?}");
        // A question that is allowed, whose answer the server is to send as an order to the gateways.
        let allowed = match role {
            Role::Auditor => "$JS.API.STREAM.INFO.EVT_00".to_owned(),
            _ => registration_subject(&token(1)),
        };
        stranger.publish_with_reply(allowed.clone(), question, "".into()).await?;
        assert!(answered(&stranger, &allowed, "").await, "{role:?}");
        stage.gateway.publish(answer, "for operators".into()).await?;
        let next = tokio::time::timeout(PATIENCE, heard.next()).await?.context("closed")?;
        assert_eq!((next.subject.as_str(), &next.payload[..]), (answer, &b"for operators"[..]), "{role:?}");
        // Whatever was sent to the stranger before the answer to this is here by then.
        assert!(answered(&stranger, &allowed, "").await, "{role:?}");
        let next = tokio::time::timeout(Duration::ZERO, answers.next()).await;
        assert!(matches!(next, Err(_) | Ok(None)), "{role:?}: {next:?}");
    }
    Ok(())
}

#[tokio::test]
async fn a_registration_cannot_clear_a_stream() -> Result<()> {
    let stage = Stage::set().await?;
    let (one, two) = (connect(&stage.server, Role::Settler(1)).await?, connect(&stage.server, Role::Settler(2)).await?);
    processed(&one, &registration_subject(&token(1))).await?;
    processed(&two, &registration_subject(&token(2))).await?;
    let mut headers = async_nats::HeaderMap::new();
    headers.insert("Nats-Rollup", "all");
    let context = jetstream::new(one.clone());
    let rolled = context.publish_with_headers(registration_subject(&token(1)), headers, "x".into()).await?.await;
    assert!(rolled.is_err());
    for number in [1, 2] {
        assert_eq!(stage.subjects(&registration(number)).await?, [registration_subject(&token(number))]);
    }
    Ok(())
}

#[tokio::test]
async fn an_auditor_reads_the_journal_and_changes_nothing() -> Result<()> {
    let stage = Stage::set().await?;
    let auditor = connect(&stage.server, Role::Auditor).await?;

    // As any client would: the stream's information, then everything in one batch.
    let stream = jetstream::new(auditor.clone()).get_stream("EVT_00").await?;
    assert_eq!(stream.cached_info().state.messages, COMMITS);
    assert!(answered(&auditor, "$JS.API.STREAM.NAMES", "").await);
    assert!(answered(&auditor, "$JS.API.STREAM.LIST", "").await);
    let inbox = auditor.new_inbox();
    let mut batch = auditor.subscribe(inbox.clone()).await?;
    let read = r#"{"seq":1,"batch":100}"#.into();
    auditor.publish_with_reply("$JS.API.DIRECT.GET.EVT_00", inbox, read).await?;
    let mut bodies = Vec::new();
    loop {
        let message = tokio::time::timeout(PATIENCE, batch.next()).await?.context("closed")?;
        if message.status.is_some() {
            break;
        }
        bodies.push(String::from_utf8(message.payload.to_vec())?);
    }
    assert_eq!(bodies, ["1", "2"]);
    let last = stream.direct_get_last_for_subject(EVENTS).await?;
    assert_eq!(&last.payload[..], b"2");
    // And live.
    let mut live = auditor.subscribe("gw.evt.>").await?;
    assert!(answered(&auditor, "$JS.API.STREAM.NAMES", "").await);
    stage.gateway.publish("gw.evt.99.not_stored", "live".into()).await?;
    let heard = tokio::time::timeout(PATIENCE, live.next()).await?.context("closed")?;
    assert_eq!(&heard.payload[..], b"live");

    for subject in [
        EVENTS,
        "gw.sig.x",
        "gw.park.00.x",
        "auction.bid.x.y",
        "$KV.settlers.x",
        "$KV.gw_leases.00",
        "$KV.gw_control.pause",
    ] {
        assert!(!answered(&auditor, subject, "x").await, "{subject}");
    }
    let refused = [
        ("$JS.API.STREAM.CREATE.MINE", r#"{"name":"MINE","subjects":["mine"]}"#),
        ("$JS.API.STREAM.UPDATE.EVT_00", r#"{"name":"EVT_00","subjects":["gw.evt.00.>"]}"#),
        ("$JS.API.STREAM.DELETE.EVT_00", ""),
        ("$JS.API.STREAM.PURGE.EVT_00", ""),
        ("$JS.API.STREAM.MSG.DELETE.EVT_00", r#"{"seq":1}"#),
        (
            "$JS.API.CONSUMER.CREATE.EVT_00.mine",
            r#"{"stream_name":"EVT_00","config":{"name":"mine","ack_policy":"none"}}"#,
        ),
        ("$JS.API.DIRECT.GET.ASKED", r#"{"seq":1}"#),
        ("$JS.API.DIRECT.GET.AWARDS", r#"{"seq":1}"#),
    ];
    for (subject, payload) in refused {
        assert!(!answered(&auditor, subject, payload).await, "{subject}");
    }
    stage.untouched().await
}

#[tokio::test]
async fn journal_and_ledger_work_within_these_permissions() -> Result<()> {
    let server = server().await?;
    let (gateway, auditor) = (connect(&server, Role::Gateway).await?, connect(&server, Role::Auditor).await?);
    let payment = StreamId::from(payment_of(&request(Duration::ZERO)));
    let journal = NatsJournal::connect(gateway.clone(), journal_jetstream::store::Options::default()).await?;
    assert!(journal.load(&payment).await?.is_empty());
    let audited = NatsJournal::bind(auditor, journal_jetstream::store::Options::default()).await?;
    assert!(audited.load(&payment).await?.is_empty());

    let ledger = NatsLedger::connect(gateway, journal_jetstream::ledger::Options::default()).await?;
    let account = SignerAccount { chain_id: ChainId::evm(1), address: RELEASER.to_owned() };
    let purpose = Purpose("pay_x/deposit/1".to_owned());
    assert_eq!(ledger.reserve(&account, &purpose, 7, 7, chrono::Utc::now()).await?, 7);
    Ok(())
}

#[tokio::test]
async fn an_auditor_sees_what_was_parked_and_nobody_but_the_gateway_parks_or_replays() -> Result<()> {
    let server = server().await?;
    let (gateway, auditor) = (connect(&server, Role::Gateway).await?, connect(&server, Role::Auditor).await?);
    let settler = connect(&server, Role::Settler(1)).await?;
    let options = journal_jetstream::parking::Options::default();
    let park = NatsParking::connect(gateway.clone(), options.clone()).await?;
    let mut live = auditor.subscribe("gw.park.>").await?;
    let mut overheard = settler.subscribe("gw.park.>").await?;
    assert!(answered(&auditor, "$JS.API.STREAM.INFO.PARK", "").await);

    let stream_id = StreamId::from(payment_of(&request(Duration::ZERO)));
    let now = chrono::Utc::now();
    let cause = Cause::new(CauseKind::Unreadable, "unknown event", Some((0, 7)));
    let parked = Parked { cause, attempts: 5, first_at: now, last_at: now, gateway: "one".to_owned() };
    park.park(&stream_id, 0, &parked).await?;
    let subject = format!("gw.park.{:02}.{stream_id}", stream_id.shard(options.shards));
    let heard = tokio::time::timeout(PATIENCE, live.next()).await?.context("closed")?;
    assert_eq!(heard.subject.as_str(), subject);
    let read = jetstream::new(auditor.clone()).get_stream("PARK").await?.direct_get_last_for_subject(&subject).await?;
    assert_eq!(read.payload, heard.payload);
    assert!(answered(&auditor, "$JS.API.DIRECT.GET.PARK", r#"{"seq":1}"#).await);

    for client in [&auditor, &settler] {
        assert!(!answered(client, &subject, r#"{"entry":"replayed"}"#).await);
    }
    let refused = [
        ("$JS.API.STREAM.PURGE.PARK", ""),
        ("$JS.API.STREAM.DELETE.PARK", ""),
        ("$JS.API.STREAM.MSG.DELETE.PARK", r#"{"seq":1}"#),
    ];
    for (subject, payload) in refused {
        for client in [&gateway, &auditor, &settler] {
            assert!(!answered(client, subject, payload).await, "{subject}");
        }
    }
    for subject in ["$JS.API.DIRECT.GET.PARK", "$JS.API.STREAM.MSG.GET.PARK"] {
        assert!(!answered(&settler, subject, r#"{"seq":1}"#).await, "{subject}");
    }
    assert!(matches!(tokio::time::timeout(Duration::ZERO, overheard.next()).await, Err(_) | Ok(None)));
    assert_eq!(park.history(&stream_id).await?.len(), 1);
    park.replay(&stream_id, &Replayed::new("operator", now)).await?;
    assert_eq!(park.history(&stream_id).await?.len(), 2);
    Ok(())
}

#[tokio::test]
async fn the_gateway_signs_checkpoints_and_an_auditor_reads_them() -> Result<()> {
    let stage = Stage::set().await?;
    let auditor = connect(&stage.server, Role::Auditor).await?;
    let store = journal_jetstream::checkpoint::Store::connect(stage.gateway.clone(), 1, PATIENCE).await?;
    let options = journal_jetstream::checkpoint::Options { interval: PATIENCE, trusted: Vec::new(), timeout: PATIENCE };
    let mut checkpointer = Checkpointer::new(stage.gateway.clone(), store, SigningKey::from_bytes(&[1; 32]), options);
    assert_eq!(checkpointer.step(0, chrono::Utc::now()).await?, Stepped::Signed(COMMITS));

    let reader = RawReader::new(auditor.clone(), PATIENCE);
    assert!(reader.streams().await?.contains(&checkpoint::STREAM.to_owned()));
    assert_eq!(reader.head(checkpoint::STREAM).await?, 1);
    let subject = checkpoint::subject(0);
    let last = reader.last(checkpoint::STREAM, &subject).await?.context("no checkpoint")?;
    assert_eq!(reader.batch(checkpoint::STREAM, 1, None, 9).await?, [last]);

    let settler = connect(&stage.server, Role::Settler(1)).await?;
    for stranger in [&auditor, &settler] {
        assert!(!answered(stranger, &subject, "x").await);
        assert!(!answered(stranger, "$JS.API.STREAM.PURGE.CHK", "").await);
        assert!(!answered(stranger, "$JS.API.STREAM.MSG.DELETE.CHK", r#"{"seq":1}"#).await);
    }
    assert!(!answered(&settler, "$JS.API.DIRECT.GET.CHK", r#"{"seq":1}"#).await);
    for undo in ["PURGE", "DELETE"] {
        assert!(!answered(&stage.gateway, &format!("$JS.API.STREAM.{undo}.CHK"), "").await, "{undo}");
    }
    assert_eq!(stage.messages(checkpoint::STREAM).await?, 1);
    Ok(())
}

#[tokio::test]
async fn not_even_the_gateway_can_undo_what_is_stored() -> Result<()> {
    let stage = Stage::set().await?;
    let gateway = &stage.gateway;
    assert!(answered(gateway, "$JS.API.STREAM.INFO.EVT_00", "").await);
    let refused = [
        ("$JS.API.STREAM.UPDATE.EVT_00", r#"{"name":"EVT_00","subjects":["gw.evt.00.>"],"max_msgs":1}"#),
        ("$JS.API.STREAM.DELETE.EVT_00", ""),
        ("$JS.API.STREAM.PURGE.EVT_00", ""),
        ("$JS.API.STREAM.MSG.DELETE.EVT_00", r#"{"seq":1}"#),
    ];
    for (subject, payload) in refused {
        assert!(!answered(gateway, subject, payload).await, "{subject}");
    }
    stage.untouched().await
}

#[tokio::test]
async fn an_operator_seals_a_shard_and_writes_nothing() -> Result<()> {
    let stage = Stage::set().await?;
    let operator = connect(&stage.server, Role::Operator).await?;
    assert!(answered(&operator, "$JS.API.STREAM.NAMES", "").await);
    assert!(answered(&operator, "$JS.API.DIRECT.GET.EVT_00", r#"{"seq":1}"#).await);
    let mut overheard = Vec::new();
    for subject in ["gw.>", "auction.>", "$KV.>", ">"] {
        overheard.push(operator.subscribe(subject).await?);
    }
    for subject in
        [EVENTS, "gw.chk.00", "gw.park.00.x", "gw.operator.all.rebuild", "$KV.gw_control.pause", "auction.rfq.x.y"]
    {
        assert!(!answered(&operator, subject, "x").await, "{subject}");
    }
    let refused = [
        ("$JS.API.STREAM.CREATE.MINE", r#"{"name":"MINE","subjects":["mine"]}"#),
        ("$JS.API.STREAM.UPDATE.CHK", r#"{"name":"CHK","subjects":["gw.chk.*"],"sealed":true}"#),
        ("$JS.API.STREAM.DELETE.EVT_00", ""),
        ("$JS.API.STREAM.PURGE.EVT_00", ""),
        ("$JS.API.STREAM.MSG.DELETE.EVT_00", r#"{"seq":1}"#),
        (
            "$JS.API.CONSUMER.CREATE.EVT_00.mine",
            r#"{"stream_name":"EVT_00","config":{"name":"mine","ack_policy":"none"}}"#,
        ),
        ("$JS.API.DIRECT.GET.ASKED", r#"{"seq":1}"#),
        ("$JS.API.STREAM.MSG.GET.KV_gw_leases", r#"{"seq":1}"#),
    ];
    for (subject, payload) in refused {
        assert!(!answered(&operator, subject, payload).await, "{subject}");
    }
    stage.untouched().await?;
    for mut subscription in overheard {
        let next = tokio::time::timeout(Duration::ZERO, subscription.next()).await;
        assert!(matches!(next, Err(_) | Ok(None)), "{next:?}");
    }

    let context = jetstream::new(operator.clone());
    // The setting that an older version lacks.
    let mut awards = context.get_stream("AWARDS").await?.cached_info().config.clone();
    awards.max_messages_per_subject = -1;
    context.update_stream(&awards).await?;
    awards.max_messages_per_subject = 1;
    assert_eq!(context.update_stream(&awards).await?.config.max_messages_per_subject, 1);
    let mut config = context.get_stream("EVT_00").await?.cached_info().config.clone();
    config.sealed = true;
    assert!(context.update_stream(&config).await?.config.sealed);
    let published = jetstream::new(stage.gateway.clone()).publish(EVENTS, "x".into()).await?.await;
    assert!(published.is_err());
    config.sealed = false;
    assert!(context.update_stream(&config).await.is_err(), "what is sealed stays so");
    stage.untouched().await
}

#[tokio::test]
async fn nobody_comes_in_without_a_key_that_is_admitted() -> Result<()> {
    let stage = Stage::set().await?;
    assert!(async_nats::connect(stage.server.url()).await.is_err());
    let password = async_nats::ConnectOptions::with_user_and_password("gateway".to_owned(), "dev-gateway".to_owned());
    assert!(password.connect(stage.server.url()).await.is_err());
    assert!(Role::Settler(4).options().connect(stage.server.url()).await.is_err());
    // Who knows a public key and not its seed cannot sign in its name.
    let stolen = async_nats::ConnectOptions::with_auth_callback(|_| async {
        let mut auth = async_nats::Auth::new();
        auth.nkey = Some(Role::Gateway.nkey());
        auth.signature = Some(vec![0; 64]);
        Ok(auth)
    });
    assert!(stolen.connect(stage.server.url()).await.is_err());
    Ok(())
}
