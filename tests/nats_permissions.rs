//! What each role of nats.conf may do, on a real nats-server: nothing beyond its part.

mod nats_roles;

use std::time::Duration;

use anyhow::{Context, Result};
use async_nats::{
    Client, Request, StatusCode,
    jetstream::{self, stream},
};
use devkit::NatsServer;
use futures::StreamExt;

use events::{
    ChainId, Hash32, StreamId,
    event::VerifierRef,
    journal::{
        Journal,
        nats::{self, NatsJournal},
    },
    ledger::{self, Ledger, Purpose, SignerAccount, nats::NatsLedger},
};
use gateway::auction;
use sagas::ports::{Auction, Award, VerificationCase};
use settler::protocol::{
    award_consumer, award_subject, bid_subject, registration_subject, report_subject, rfq_subject, rfq_subjects,
};

use nats_roles::{PATIENCE, RELEASER, Role, connect, did, payment_of, request, server, token};

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
        let (auction, _service, _hints) = auction::open(gateway.clone(), auction::Options::default()).await?;
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

    async fn untouched(&self) -> Result<()> {
        assert_eq!(self.messages("EVT_00").await?, COMMITS, "journal");
        assert_eq!(self.messages("AWARDS").await?, 2, "awards");
        Ok(())
    }
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
    for subject in [rfq_subjects(&token(2)), "auction.rfq.>".to_owned(), ">".to_owned(), "gw.>".to_owned()] {
        heard.push(one.subscribe(subject).await?);
    }
    let mut own = one.subscribe(rfq_subjects(&token(1))).await?;
    processed(&one, &bid_subject(&token(1), "sync")).await?;
    stage.gateway.publish(rfq_subject(&token(2), "a"), "theirs".into()).await?;
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
        rfq_subject(&token(2), "a"),
        "auction.asked.a".to_owned(),
        EVENTS.to_owned(),
        "gw.sig.x".to_owned(),
        "$KV.gw_leases.00".to_owned(),
        "$KV.gw_control.pause".to_owned(),
    ];
    for subject in foreign {
        one.publish(subject, "x".into()).await?;
    }
    one.publish(report_subject(&token(1), &payment), "mine".into()).await?;
    processed(&one, &registration_subject(&token(1))).await?;
    processed(&one, &bid_subject(&token(1), "a")).await?;
    assert_eq!(stage.subjects("BIDS").await?, [bid_subject(&token(1), "a")]);
    assert_eq!(stage.subjects("KV_settlers").await?, [registration_subject(&token(1))]);
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
    assert!(answered(&one, &format!("$JS.API.CONSUMER.INFO.AWARDS.{own}"), "").await);
    assert!(!answered(&one, &format!("$JS.API.CONSUMER.INFO.AWARDS.{foreign}"), "").await);

    let refused = [
        ("$JS.API.INFO".to_owned(), ""),
        ("$JS.API.STREAM.NAMES".to_owned(), ""),
        ("$JS.API.STREAM.INFO.AWARDS".to_owned(), ""),
        ("$JS.API.STREAM.MSG.GET.AWARDS".to_owned(), r#"{"seq":2}"#),
        ("$JS.API.DIRECT.GET.AWARDS".to_owned(), r#"{"seq":2}"#),
        ("$JS.API.DIRECT.GET.BIDS".to_owned(), r#"{"seq":1}"#),
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
    processed(&one, &bid_subject(&token(1), "sync")).await?;
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
    let targets = [
        EVENTS.to_owned(),
        bid_subject(&token(2), "a"),
        registration_subject(&token(2)),
        rfq_subject(&token(2), "a"),
        award_subject(&token(2), &payment_of(&request(Duration::ZERO))),
        "$JS.API.STREAM.PURGE.AWARDS".to_owned(),
        "$JS.API.STREAM.DELETE.EVT_00".to_owned(),
    ];
    let pull = format!("$JS.API.CONSUMER.MSG.NEXT.AWARDS.{}", award_consumer(&token(1)));
    for target in targets {
        let own = bid_subject(&token(1), "a");
        one.publish_with_reply(own, target.clone(), "x".into()).await?;
        one.publish_with_reply(pull.clone(), target.clone(), r#"{"batch":1,"no_wait":true}"#.into()).await?;
        let read = r#"{"seq":1,"batch":2}"#.into();
        auditor.publish_with_reply("$JS.API.DIRECT.GET.EVT_00", target.clone(), read).await?;
        auditor.publish_with_reply("$JS.API.STREAM.INFO.EVT_00", target, "".into()).await?;
    }
    processed(&one, &bid_subject(&token(1), "a")).await?;
    assert!(answered(&auditor, "$JS.API.STREAM.INFO.EVT_00", "").await);
    stage.gateway.publish(rfq_subject(&token(2), "b"), "from the gateway".into()).await?;
    let heard = tokio::time::timeout(PATIENCE, two.next()).await?.context("closed")?;
    assert_eq!(&heard.payload[..], b"from the gateway");
    assert_eq!(stage.subjects("BIDS").await?, [bid_subject(&token(1), "a")]);
    assert_eq!(stage.subjects("KV_settlers").await?, Vec::<String>::new());
    stage.untouched().await
}

#[tokio::test]
async fn one_key_cannot_clear_the_registry() -> Result<()> {
    let stage = Stage::set().await?;
    let (one, two) = (connect(&stage.server, Role::Settler(1)).await?, connect(&stage.server, Role::Settler(2)).await?);
    processed(&two, &registration_subject(&token(2))).await?;
    let mut headers = async_nats::HeaderMap::new();
    headers.insert("Nats-Rollup", "all");
    let context = jetstream::new(one.clone());
    let rolled = context.publish_with_headers(registration_subject(&token(1)), headers, "x".into()).await?.await;
    assert!(rolled.is_err());
    assert_eq!(stage.subjects("KV_settlers").await?, [registration_subject(&token(2))]);
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

    for subject in [EVENTS, "gw.sig.x", "auction.bid.x.y", "$KV.settlers.x", "$KV.gw_leases.00", "$KV.gw_control.pause"]
    {
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
        ("$JS.API.DIRECT.GET.BIDS", r#"{"seq":1}"#),
        ("$JS.API.DIRECT.GET.AWARDS", r#"{"seq":1}"#),
        ("$JS.API.DIRECT.GET.KV_settlers", r#"{"seq":1}"#),
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
    let journal = NatsJournal::connect(gateway.clone(), nats::Options::default()).await?;
    assert!(journal.load(&payment).await?.is_empty());
    let audited = NatsJournal::bind(auditor, nats::Options::default()).await?;
    assert!(audited.load(&payment).await?.is_empty());

    let ledger = NatsLedger::connect(gateway, ledger::nats::Options::default()).await?;
    let account = SignerAccount { chain_id: ChainId::evm(1), address: RELEASER.to_owned() };
    let purpose = Purpose("pay_x/deposit/1".to_owned());
    assert_eq!(ledger.reserve(&account, &purpose, 7, 7, chrono::Utc::now()).await?, 7);
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
async fn nobody_comes_in_without_a_password() -> Result<()> {
    let stage = Stage::set().await?;
    assert!(async_nats::connect(stage.server.url()).await.is_err());
    let wrong = async_nats::ConnectOptions::with_user_and_password("gateway".to_owned(), "wrong".to_owned());
    assert!(wrong.connect(stage.server.url()).await.is_err());
    Ok(())
}
