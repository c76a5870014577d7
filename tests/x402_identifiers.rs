//! Payment identifiers of x402 on a real nats-server with nats.conf: each belongs to the payload that it was first bound to.

use anyhow::{Context, Result, ensure};
use async_nats::jetstream;
use futures::future::join_all;

use app::payment_identifiers::{Binding, Identifiers, IdentifiersError, nats::NatsIdentifiers};
use devkit::NatsServer;
use events::{Hash32, PaymentId};

use crate::nats_roles::{Role, connect, server, until};

const IDENTIFIER: &str = "pay_7d5d747be160e280504c099d984bcfe0";

fn binding(payload: &str) -> Binding {
    Binding {
        payload: Hash32::sha256(payload),
        payment_id: PaymentId::derive("somebody", payload),
        terms_hash: Hash32::sha256("terms"),
    }
}

async fn open(server: &NatsServer) -> Result<NatsIdentifiers> {
    Ok(NatsIdentifiers::open(connect(server, Role::Gateway).await?, 1).await?)
}

/// The server's name for the one stream of bindings.
async fn subject_of_the_only_binding(context: &jetstream::Context) -> Result<String> {
    let stream = context.get_stream("X402").await?;
    Ok(stream.get_raw_message(1).await?.subject.to_string())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_binding_holds_wherever_the_others_come_from() -> Result<()> {
    let server = server().await?;
    let gateways = [open(&server).await?, open(&server).await?, open(&server).await?];
    for round in 0..20 {
        let identifier = format!("{IDENTIFIER}_{round}");
        ensure!(gateways[0].bound(&identifier).await?.is_none());
        let bindings = (0..12).map(|n| {
            let (gateway, identifier) = (&gateways[n % 3], &identifier);
            async move {
                let mine = binding(&format!("payload {n}"));
                let told = gateway.bind(identifier, &mine).await?;
                anyhow::Ok((mine, told))
            }
        });
        let bindings = join_all(bindings).await.into_iter().collect::<Result<Vec<_>>>()?;
        let holder = &bindings[0].1;
        assert!(bindings.iter().all(|(_, told)| told == holder), "{bindings:?}");
        assert_eq!(bindings.iter().filter(|(mine, _)| mine == holder).count(), 1);
        for gateway in &gateways {
            assert_eq!(gateway.bound(&identifier).await?.as_ref(), Some(holder));
            assert_eq!(gateway.bind(&identifier, holder).await?, *holder);
        }
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_binding_outlives_its_server_and_cannot_be_replaced() -> Result<()> {
    let mut server = server().await?;
    let (mine, other) = (binding("mine"), binding("other"));
    let before = open(&server).await?;
    assert_eq!(before.bind(IDENTIFIER, &mine).await?, mine);

    server.kill().await?;
    // Nothing is known while the server is away, and nothing is said to be.
    assert!(matches!(before.bind(IDENTIFIER, &other).await, Err(IdentifiersError::Unavailable(_))));
    assert!(matches!(before.bound(IDENTIFIER).await, Err(IdentifiersError::Unavailable(_))));
    server.restart().await?;
    let after = open(&server).await?;
    assert_eq!(after.bound(IDENTIFIER).await?.as_ref(), Some(&mine));
    assert_eq!(after.bind(IDENTIFIER, &other).await?, mine);
    // The connection that was there comes back by itself.
    until("the first connection is back", || async { before.bound(IDENTIFIER).await == Ok(Some(mine.clone())) })
        .await?;

    // The gateway's own credentials cannot change it, whatever they publish.
    let context = jetstream::new(connect(&server, Role::Gateway).await?);
    let subject = subject_of_the_only_binding(&context).await?;
    let overwritten = context.publish(subject.clone(), "{}".into()).await?.await;
    assert!(overwritten.is_err(), "{overwritten:?}");
    let stream = context.get_stream("X402").await?;
    assert!(stream.delete_message(1).await.is_err());
    assert!(stream.purge().await.is_err());
    assert_eq!(after.bound(IDENTIFIER).await?.as_ref(), Some(&mine));

    // And nobody else's do.
    for role in [Role::Auditor, Role::Selector, Role::Settler(1)] {
        let stranger = connect(&server, role).await?;
        stranger.publish(subject.clone(), "{}".into()).await?;
        let _ = stranger.flush().await;
        let foreign = jetstream::new(stranger);
        assert!(foreign.get_stream("X402").await.is_err() || role == Role::Auditor, "{role:?}");
    }
    assert_eq!(after.bound(IDENTIFIER).await?.as_ref(), Some(&mine));
    let info = context.get_stream("X402").await.context("the stream of bindings")?;
    assert_eq!(info.cached_info().state.messages, 1);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_of_another_form_is_refused() -> Result<()> {
    let server = server().await?;
    let client = connect(&server, Role::Gateway).await?;
    let config = jetstream::stream::Config {
        name: "X402".to_owned(),
        subjects: vec!["gw.x402.*".to_owned()],
        ..Default::default()
    };
    jetstream::new(client.clone()).create_stream(config).await?;
    let opened = NatsIdentifiers::open(client, 1).await;
    assert!(matches!(opened, Err(IdentifiersError::Unusable(_))), "{opened:?}");
    Ok(())
}
