//! Permissions on what is stored: journal, signer ledger, parking, operators' acts and checkpoints.

use std::time::Duration;

use anyhow::{Context, Result};
use async_nats::jetstream;
use ed25519_dalek::SigningKey;
use futures::StreamExt;

use events::{ChainId, StreamId};
use journal::{
    StreamStore, checkpoint,
    ledger::{Ledger, Purpose, SignerAccount},
    operator_acts::{Entry, OperatorActs, conformance},
    parking::{Cause, CauseKind, Parked, Parking, Replayed},
};
use journal_jetstream::{
    checkpoint::{Checkpointer, Stepped},
    ledger::NatsLedger,
    operator_acts::NatsOperatorActs,
    parking::NatsParking,
    raw::RawReader,
    store::NatsJournal,
};

use super::{COMMITS, EVENTS, Environment, answered};
use crate::nats_roles::{PATIENCE, RELEASER, Role, connect, payment_of, request, server};

#[tokio::test]
async fn an_auditor_reads_the_journal_and_changes_nothing() -> Result<()> {
    let environment = Environment::start().await?;
    let auditor = connect(&environment.server, Role::Auditor).await?;

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
    environment.gateway.publish("gw.evt.99.not_stored", "live".into()).await?;
    let heard = tokio::time::timeout(PATIENCE, live.next()).await?.context("closed")?;
    assert_eq!(&heard.payload[..], b"live");

    for subject in [
        EVENTS,
        "gw.sig.x",
        "gw.park.00.x",
        "gw.acts.x",
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
        // No gateway runs here that could have it made.
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
    environment.untouched().await
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
    let account = SignerAccount { chain_id: ChainId::evm(1), address: RELEASER.parse()? };
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
async fn an_auditor_sees_what_operators_ordered_and_nobody_takes_it_out() -> Result<()> {
    let server = server().await?;
    let (gateway, auditor) = (connect(&server, Role::Gateway).await?, connect(&server, Role::Auditor).await?);
    let settler = connect(&server, Role::Settler(1)).await?;
    let acts = NatsOperatorActs::open(gateway.clone(), 1).await?;
    let mut live = auditor.subscribe("gw.acts.>").await?;
    let mut overheard = settler.subscribe("gw.acts.>").await?;
    assert!(answered(&auditor, "$JS.API.STREAM.INFO.OPERATOR_ACTS", "").await);

    let order = conformance::order("alice");
    let subject = format!("gw.acts.{}", order.id);
    acts.record(&Entry::Ordered(order.clone())).await?;
    let heard = tokio::time::timeout(PATIENCE, live.next()).await?.context("closed")?;
    assert_eq!(heard.subject.as_str(), subject);
    let stream = jetstream::new(auditor.clone()).get_stream("OPERATOR_ACTS").await?;
    assert_eq!(stream.direct_get_last_for_subject(&subject).await?.payload, heard.payload);
    assert!(answered(&auditor, "$JS.API.DIRECT.GET.OPERATOR_ACTS", r#"{"seq":1}"#).await);

    for client in [&auditor, &settler] {
        assert!(!answered(client, &subject, r#"{"entry":"ended"}"#).await);
    }
    let refused = [
        ("$JS.API.STREAM.PURGE.OPERATOR_ACTS", ""),
        ("$JS.API.STREAM.DELETE.OPERATOR_ACTS", ""),
        ("$JS.API.STREAM.MSG.DELETE.OPERATOR_ACTS", r#"{"seq":1}"#),
        ("$JS.API.STREAM.UPDATE.OPERATOR_ACTS", r#"{"name":"OPERATOR_ACTS","subjects":["gw.acts.*"],"max_msgs":1}"#),
    ];
    for (subject, payload) in refused {
        for client in [&gateway, &auditor, &settler] {
            assert!(!answered(client, subject, payload).await, "{subject}");
        }
    }
    for subject in ["$JS.API.DIRECT.GET.OPERATOR_ACTS", "$JS.API.STREAM.MSG.GET.OPERATOR_ACTS"] {
        assert!(!answered(&settler, subject, r#"{"seq":1}"#).await, "{subject}");
    }
    assert!(matches!(tokio::time::timeout(Duration::ZERO, overheard.next()).await, Err(_) | Ok(None)));
    acts.record(&conformance::end(&order.id, "done")).await?;
    assert_eq!(acts.newest(None, 9).await?.len(), 2);
    Ok(())
}

#[tokio::test]
async fn the_gateway_signs_checkpoints_and_an_auditor_reads_them() -> Result<()> {
    let environment = Environment::start().await?;
    let auditor = connect(&environment.server, Role::Auditor).await?;
    let store = journal_jetstream::checkpoint::Store::connect(environment.gateway.clone(), 1, PATIENCE).await?;
    let options = journal_jetstream::checkpoint::Options { interval: PATIENCE, trusted: Vec::new(), timeout: PATIENCE };
    let mut checkpointer =
        Checkpointer::new(environment.gateway.clone(), store, SigningKey::from_bytes(&[1; 32]), options);
    assert_eq!(checkpointer.step(0, chrono::Utc::now()).await?, Stepped::Signed(COMMITS));

    let reader = RawReader::new(auditor.clone(), PATIENCE);
    assert!(reader.streams().await?.contains(&checkpoint::STREAM.to_owned()));
    assert_eq!(reader.head(checkpoint::STREAM).await?, 1);
    let subject = checkpoint::subject(0);
    let last = reader.last(checkpoint::STREAM, &subject).await?.context("no checkpoint")?;
    assert_eq!(reader.batch(checkpoint::STREAM, 1, None, 9).await?, [last]);

    let settler = connect(&environment.server, Role::Settler(1)).await?;
    for stranger in [&auditor, &settler] {
        assert!(!answered(stranger, &subject, "x").await);
        assert!(!answered(stranger, "$JS.API.STREAM.PURGE.CHK", "").await);
        assert!(!answered(stranger, "$JS.API.STREAM.MSG.DELETE.CHK", r#"{"seq":1}"#).await);
    }
    assert!(!answered(&settler, "$JS.API.DIRECT.GET.CHK", r#"{"seq":1}"#).await);
    for undo in ["PURGE", "DELETE"] {
        assert!(!answered(&environment.gateway, &format!("$JS.API.STREAM.{undo}.CHK"), "").await, "{undo}");
    }
    assert_eq!(environment.messages(checkpoint::STREAM).await?, 1);
    Ok(())
}

#[tokio::test]
async fn not_even_the_gateway_can_undo_what_is_stored() -> Result<()> {
    let environment = Environment::start().await?;
    let gateway = &environment.gateway;
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
    environment.untouched().await
}
