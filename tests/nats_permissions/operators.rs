//! Permissions of operators: what one may do, who may speak as one, and who is admitted at all.

use std::time::Duration;

use anyhow::{Context, Result};
use async_nats::jetstream::{self, stream::Config};
use futures::StreamExt;

use protocol::registration_subject;

use super::{EVENTS, Environment, answered};
use crate::nats_roles::{PATIENCE, Role, connect, token};

#[tokio::test]
async fn only_the_gateways_role_speaks_and_hears_as_an_operator() -> Result<()> {
    let environment = Environment::start().await?;
    let mut heard = environment.gateway.subscribe("gw.operator.>").await?;
    // The answer to this comes after the subscription was taken.
    environment.untouched().await?;
    let (question, answer) = ("gw.operator.all.rebuild", "gw.operator.reply.x");
    for role in [Role::Settler(1), Role::Auditor] {
        let stranger = connect(&environment.server, role).await?;
        let mut answers = stranger.subscribe("gw.operator.>").await?;
        assert!(!answered(&stranger, question, "{}").await, "{role:?}");
        // A question that is allowed, whose answer the server is to send as an order to the gateways.
        let allowed = match role {
            Role::Auditor => "$JS.API.STREAM.INFO.EVT_00".to_owned(),
            _ => registration_subject(&token(1)),
        };
        stranger.publish_with_reply(allowed.clone(), question, "".into()).await?;
        assert!(answered(&stranger, &allowed, "").await, "{role:?}");
        environment.gateway.publish(answer, "for operators".into()).await?;
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
async fn an_operator_seals_a_shard_and_writes_nothing() -> Result<()> {
    let environment = Environment::start().await?;
    let operator = connect(&environment.server, Role::Operator).await?;
    assert!(answered(&operator, "$JS.API.STREAM.NAMES", "").await);
    assert!(answered(&operator, "$JS.API.DIRECT.GET.EVT_00", r#"{"seq":1}"#).await);
    let mut overheard = Vec::new();
    for subject in ["gw.>", "auction.>", "$KV.>", ">"] {
        overheard.push(operator.subscribe(subject).await?);
    }
    for subject in [
        EVENTS,
        "gw.chk.00",
        "gw.park.00.x",
        "gw.acts.x",
        "gw.operator.all.rebuild",
        "$KV.gw_control.pause",
        "auction.rfq.x.y",
    ] {
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
    environment.untouched().await?;
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
    // Full ones are given more room.
    let owner = jetstream::new(environment.gateway.clone());
    for (name, subject) in [("DELIVERIES", "gw.delivery.>"), ("WEBHOOKS", "gw.webhook.*")] {
        let made = Config {
            name: name.to_owned(),
            subjects: vec![subject.to_owned()],
            max_bytes: 1 << 20,
            ..Config::default()
        };
        owner.create_stream(made).await?;
        let mut config = context.get_stream(name).await?.cached_info().config.clone();
        config.max_bytes = 2 << 20;
        assert_eq!(context.update_stream(&config).await?.config.max_bytes, 2 << 20);
        assert!(owner.update_stream(&config).await.is_err(), "a gateway changes no stream");
    }
    let mut config = context.get_stream("EVT_00").await?.cached_info().config.clone();
    config.sealed = true;
    assert!(context.update_stream(&config).await?.config.sealed);
    let published = jetstream::new(environment.gateway.clone()).publish(EVENTS, "x".into()).await?.await;
    assert!(published.is_err());
    config.sealed = false;
    assert!(context.update_stream(&config).await.is_err(), "what is sealed stays so");
    environment.untouched().await
}

#[tokio::test]
async fn nobody_comes_in_without_a_key_that_is_admitted() -> Result<()> {
    let environment = Environment::start().await?;
    assert!(async_nats::connect(environment.server.url()).await.is_err());
    let password = async_nats::ConnectOptions::with_user_and_password("gateway".to_owned(), "dev-gateway".to_owned());
    assert!(password.connect(environment.server.url()).await.is_err());
    assert!(Role::Settler(4).options().connect(environment.server.url()).await.is_err());
    // Who knows a public key and not its seed cannot sign in its name.
    let stolen = async_nats::ConnectOptions::with_auth_callback(|_| async {
        let mut auth = async_nats::Auth::new();
        auth.nkey = Some(Role::Gateway.nkey());
        auth.signature = Some(vec![0; 64]);
        Ok(auth)
    });
    assert!(stolen.connect(environment.server.url()).await.is_err());
    Ok(())
}
