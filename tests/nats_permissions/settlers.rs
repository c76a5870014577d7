//! Permissions of settlers and selectors: they speak, hear and answer for themselves, and nothing else.

use std::time::Duration;

use anyhow::{Context, Result};
use async_nats::{client::RequestErrorKind, jetstream};
use futures::StreamExt;

use devnet::keys::selector_signer;
use protocol::{
    answer_subject, award_consumer, award_subject, bid_subject, over_subject, over_subjects, registration_subject,
    report_subject, rfq_subject, rfq_subjects, selection::selector_subject,
};

use super::{EVENTS, Environment, answered, bids, processed, pulled, registration};
use crate::nats_roles::{PATIENCE, Role, connect, payment_of, request, token};

#[tokio::test]
async fn a_settler_hears_its_own_requests_only() -> Result<()> {
    let environment = Environment::start().await?;
    let one = connect(&environment.server, Role::Settler(1)).await?;
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
    environment.gateway.publish(rfq_subject(&token(2), "a"), "theirs".into()).await?;
    environment.gateway.publish(over_subject(&token(2), "a"), "theirs".into()).await?;
    environment.gateway.publish(EVENTS, "an event".into()).await?;
    environment.gateway.publish(rfq_subject(&token(1), "a"), "mine".into()).await?;
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
    let environment = Environment::start().await?;
    let one = connect(&environment.server, Role::Settler(1)).await?;
    let payment = payment_of(&request(Duration::ZERO));
    let mut reports = environment.gateway.subscribe("auction.report.>").await?;
    // The answer to this comes after the subscription was taken.
    environment.untouched().await?;
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
        "gw.acts.x".to_owned(),
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
    environment.ask(&one, 1, "a").await?;
    processed(&one, &bid_subject(&token(1), "a")).await?;
    assert_eq!(environment.subjects(&bids(1)).await?, [bid_subject(&token(1), "a")]);
    assert_eq!(environment.subjects(&registration(1)).await?, [registration_subject(&token(1))]);
    assert_eq!(environment.subjects(&bids(2)).await?, Vec::<String>::new());
    assert_eq!(environment.subjects(&registration(2)).await?, Vec::<String>::new());
    assert_eq!(environment.subjects("ASKED").await?, Vec::<String>::new());
    assert_eq!(environment.subjects("ANSWERS").await?, Vec::<String>::new());
    let report = tokio::time::timeout(PATIENCE, reports.next()).await?.context("closed")?;
    assert_eq!(report.subject.as_str(), report_subject(&token(1), &payment));
    environment.untouched().await
}

#[tokio::test]
async fn a_settler_takes_its_own_awards_only() -> Result<()> {
    let environment = Environment::start().await?;
    let one = connect(&environment.server, Role::Settler(1)).await?;
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
    let two = connect(&environment.server, Role::Settler(2)).await?;
    assert_eq!(pulled(&two, 2).await?, 1);
    environment.untouched().await
}

#[tokio::test]
async fn an_answer_cannot_be_steered_into_anothers_subject() -> Result<()> {
    let environment = Environment::start().await?;
    let one = connect(&environment.server, Role::Settler(1)).await?;
    let auditor = connect(&environment.server, Role::Auditor).await?;
    let client = connect(&environment.server, Role::Settler(2)).await?;
    let mut two = client.subscribe(rfq_subjects(&token(2))).await?;
    assert_eq!(pulled(&client, 2).await?, 1);
    environment.ask(&one, 1, "a").await?;
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
    environment.gateway.publish(rfq_subject(&token(2), "b"), "from the gateway".into()).await?;
    let heard = tokio::time::timeout(PATIENCE, two.next()).await?.context("closed")?;
    assert_eq!(&heard.payload[..], b"from the gateway");
    assert_eq!(environment.subjects(&bids(1)).await?, [bid_subject(&token(1), "a")]);
    assert_eq!(environment.subjects(&bids(2)).await?, Vec::<String>::new());
    assert_eq!(environment.subjects(&registration(2)).await?, Vec::<String>::new());
    environment.untouched().await
}

#[tokio::test]
async fn a_registration_cannot_clear_a_stream() -> Result<()> {
    let environment = Environment::start().await?;
    let (one, two) =
        (connect(&environment.server, Role::Settler(1)).await?, connect(&environment.server, Role::Settler(2)).await?);
    processed(&one, &registration_subject(&token(1))).await?;
    processed(&two, &registration_subject(&token(2))).await?;
    let mut headers = async_nats::HeaderMap::new();
    headers.insert("Nats-Rollup", "all");
    let context = jetstream::new(one.clone());
    let rolled = context.publish_with_headers(registration_subject(&token(1)), headers, "x".into()).await?.await;
    assert!(rolled.is_err());
    for number in [1, 2] {
        assert_eq!(environment.subjects(&registration(number)).await?, [registration_subject(&token(number))]);
    }
    Ok(())
}

#[tokio::test]
async fn a_selector_answers_the_gateway_and_does_nothing_else() -> Result<()> {
    let environment = Environment::start().await?;
    let selector = connect(&environment.server, Role::Selector).await?;
    let subject = selector_subject(&selector_signer().key());
    // Nobody listens yet, and the server says so at once.
    let away = environment.gateway.request(subject.clone(), "?".into()).await;
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
            match environment.gateway.request(subject.clone(), "which?".into()).await {
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
        let stranger = connect(&environment.server, role).await?;
        let mut heard = stranger.subscribe("selector.>").await?;
        assert!(!answered(&stranger, &subject, "{}").await, "{role:?}");
        assert!(matches!(tokio::time::timeout(Duration::ZERO, heard.next()).await, Err(_) | Ok(None)), "{role:?}");
    }
    for (what, subscriber) in [("requests of strangers", &mut asked), ("events", &mut journal), ("more", &mut others)] {
        let next = tokio::time::timeout(Duration::ZERO, subscriber.next()).await;
        assert!(matches!(next, Err(_) | Ok(None)), "{what}: {next:?}");
    }
    assert_eq!(environment.subjects(&bids(1)).await?, Vec::<String>::new());
    environment.untouched().await
}
