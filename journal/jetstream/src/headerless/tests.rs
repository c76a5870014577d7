//! Tests of headerless connections on a real nats-server.

use std::{future::Future, time::Duration};

use anyhow::{Context, Result};
use devkit::NatsServer;
use futures::StreamExt;
use tokio::{io::AsyncWriteExt, net::TcpStream};

use super::*;

const PATIENCE: Duration = Duration::from_secs(30);

async fn connect(server: &NatsServer) -> Result<HeaderlessClient> {
    let endpoint =
        Endpoint { servers: vec![server.url()], identity: None, ca_file: None, name: "headerless".to_owned() };
    Ok(HeaderlessClient::connect(endpoint).await?)
}

async fn next(subscription: &mut Subscription) -> Result<Message> {
    tokio::time::timeout(PATIENCE, subscription.next()).await?.context("the subscription ended")
}

async fn until<F: Future<Output = bool>>(what: &str, condition: impl Fn() -> F) -> Result<()> {
    let wait = async {
        while !condition().await {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, wait).await.with_context(|| what.to_owned())
}

/// A message with these bytes for headers, as a client may send it that keeps no rules.
fn with_headers(subject: &str, headers: &[u8], payload: &str) -> Vec<u8> {
    let mut bytes = format!("HPUB {subject} {} {}\r\n", headers.len(), headers.len() + payload.len()).into_bytes();
    bytes.extend_from_slice(headers);
    bytes.extend_from_slice(payload.as_bytes());
    bytes.extend_from_slice(b"\r\n");
    bytes
}

#[tokio::test]
async fn headers_that_nobody_can_read_are_not_delivered_and_end_nothing() -> Result<()> {
    let server = NatsServer::open().await?;
    let client = connect(&server).await?;
    let mut heard = client.subscribe("said.*").await?;
    let mut raw = TcpStream::connect(server.url().trim_start_matches("nats://")).await?;
    raw.write_all(b"CONNECT {\"verbose\":false,\"headers\":true}\r\n").await?;
    let spoilt: [&[u8]; 6] = [
        b"NATS/1.0\r\nX Y: z\r\n\r\n",
        b"NATS/1.0\r\nA: \xff\xfe\r\n\r\n",
        b"NATS/1.0\r\nno colon\r\n\r\n",
        b"NATS/1.0 nonsense\r\n\r\n",
        b"NATS/1.0 100\r\nNats-Subject: said.others\r\n\r\n",
        b"no version at all",
    ];
    for (n, headers) in spoilt.iter().enumerate() {
        raw.write_all(&with_headers(&format!("said.{n}"), headers, "a word")).await?;
        let message = next(&mut heard).await?;
        assert_eq!((message.subject, &*message.payload), (format!("said.{n}"), &b"a word"[..]));
    }
    assert_eq!(client.connects(), 1);
    Ok(())
}

#[tokio::test]
async fn subjects_of_any_bytes_end_nothing_and_name_no_other_subscription() -> Result<()> {
    let server = NatsServer::open().await?;
    let client = connect(&server).await?;
    let mut heard = client.subscribe("said.>").await?;
    let mut other = client.subscribe_up_to("other", None, 2).await?;
    let mut raw = TcpStream::connect(server.url().trim_start_matches("nats://")).await?;
    raw.write_all(b"CONNECT {\"verbose\":false}\r\n").await?;
    // The second names the other subscription, where white space that is none to the server ends a word.
    for subject in [&b"said.\xff\xfe"[..], b"said.a\x0c2", b"said.\x0b\0", b"said.\x7f \xff.reply"] {
        raw.write_all(&[b"PUB ", subject, b" 2\r\nyy\r\n"].concat()).await?;
        let message = next(&mut heard).await?;
        assert!(message.subject.starts_with("said."), "{message:?}");
        assert_eq!(&*message.payload, b"yy");
    }
    for word in ["one", "two"] {
        raw.write_all(format!("PUB other 3\r\n{word}\r\n").as_bytes()).await?;
        assert_eq!(&*next(&mut other).await?.payload, word.as_bytes());
    }
    assert_eq!((other.next().await, client.connects()), (None, 1));
    Ok(())
}

#[tokio::test]
async fn a_subscription_with_a_limit_ends_with_its_last_message_and_one_without_goes_on() -> Result<()> {
    let server = NatsServer::open().await?;
    let (client, writer) = (connect(&server).await?, async_nats::connect(server.url()).await?);
    let mut limited = client.subscribe_up_to("numbers", None, 3).await?;
    let mut all = client.subscribe("numbers").await?;
    let mut members = Vec::new();
    for _ in 0..2 {
        members.push(client.subscribe_up_to("numbers", Some("group"), 100).await?);
    }
    for n in 0..5 {
        writer.publish_with_reply("numbers", "answers", format!("{n}").into()).await?;
    }
    for n in 0..5 {
        let message = next(&mut all).await?;
        assert_eq!((&*message.payload, message.reply.as_deref()), (format!("{n}").as_bytes(), Some("answers")));
    }
    let taken: Vec<_> = tokio::time::timeout(PATIENCE, limited.collect()).await?;
    assert_eq!(taken.iter().map(|message| &*message.payload).collect::<Vec<_>>(), [b"0", b"1", b"2"]);
    // Each message reached one of the group.
    let mut shared = 0;
    for member in &mut members {
        while let Ok(Some(_)) = tokio::time::timeout(Duration::from_millis(200), member.next()).await {
            shared += 1;
        }
    }
    assert_eq!(shared, 5);
    limited = client.subscribe_up_to("numbers", None, 1).await?;
    drop(all);
    writer.publish("numbers", "again".into()).await?;
    assert_eq!(&*next(&mut limited).await?.payload, b"again");
    Ok(())
}

#[tokio::test]
async fn subscriptions_outlive_their_server_and_those_with_a_limit_have_what_is_left_of_it() -> Result<()> {
    let mut server = NatsServer::open().await?;
    let client = connect(&server).await?;
    let mut lasting = client.subscribe("lasting").await?;
    let mut limited = client.subscribe_up_to("limited", None, 2).await?;
    let writer = async_nats::connect(server.url()).await?;
    writer.publish("limited", "first".into()).await?;
    assert_eq!(&*next(&mut limited).await?.payload, b"first");
    server.kill().await?;
    // It is known to be away as soon as a subscription is refused.
    until("it is known to be away", || async { client.subscribe("away").await.is_err() }).await?;
    let refused = client.subscribe("while it is away").await;
    assert!(matches!(refused, Err(Error::Subject(_))), "{refused:?}");
    let refused = client.subscribe("away").await;
    assert!(matches!(refused, Err(Error::Unreachable(_))), "{refused:?}");
    server.restart().await?;
    until("it connects again", || async { client.connects() == 2 }).await?;
    let writer = async_nats::connect(server.url()).await?;
    let subscribed_again = async {
        loop {
            writer.publish("lasting", "x".into()).await?;
            if let Ok(heard) = tokio::time::timeout(Duration::from_millis(50), lasting.next()).await {
                return heard.context("the subscription ended");
            }
        }
    };
    assert_eq!(&*tokio::time::timeout(PATIENCE, subscribed_again).await??.payload, b"x");
    for said in ["second", "one too many"] {
        writer.publish("limited", said.into()).await?;
    }
    assert_eq!(&*next(&mut limited).await?.payload, b"second");
    assert_eq!(tokio::time::timeout(PATIENCE, limited.next()).await?, None);
    Ok(())
}

#[tokio::test]
async fn nothing_stands_in_a_subject_that_would_be_another_request() -> Result<()> {
    let server = NatsServer::open().await?;
    let client = connect(&server).await?;
    for subject in ["", "a b", "a\r\nPUB b 0", "a\tb", "\u{0}"] {
        assert!(matches!(client.subscribe(subject).await, Err(Error::Subject(_))), "{subject:?}");
    }
    Ok(())
}
