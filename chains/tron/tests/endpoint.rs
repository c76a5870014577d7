//! The endpoint: whose chain it is of, how long it is waited for, what it is told and what of that is shown.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use axum::{
    http::{StatusCode, header::RETRY_AFTER},
    response::IntoResponse,
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};

use chains::config::{ApiKey, Depth, TronConfig};
use chains_tron::node::{ConnectError, Node};
use events::ChainId;

use crate::support::{World, liar::Liar, until};

/// `config` with something changed.
fn with(config: &TronConfig, change: impl FnOnce(&mut TronConfig)) -> TronConfig {
    let mut config = config.clone();
    change(&mut config);
    config
}

fn chain_id(text: &str) -> ChainId {
    text.parse().unwrap()
}

#[tokio::test]
async fn a_node_of_another_chain_is_asked_nothing() -> Result<()> {
    let world = World::start().await?;
    let liar = Liar::before(&world.tron.url()).await?;
    let config = with(&world.config(), |config| config.common.rpc_url = liar.url.clone());
    let other = Node::connect(&with(&config, |config| config.common.chain_id = chain_id("tron:728126428")))?;
    let fault = other.check().await.expect_err("checked");
    assert!(fault.to_string().contains("the node configured for tron:728126428 has the first block"), "{fault}");
    other.head().await.expect_err("believed");
    other.broadcast(&[1]).await.expect_err("sent");
    let heard = liar.heard();
    assert!(heard.len() >= 3);
    for heard in heard {
        assert_eq!((heard.path.as_str(), &heard.body["id_or_num"]), ("wallet/getblock", &json!("0")));
    }
    // Asked once only where it is the right one.
    let node = Node::connect(&config)?;
    assert_eq!(format!("tron:{}", node.reference()), world.chain_id);
    node.check().await?;
    node.head().await?;
    node.head().await?;
    let heard: Vec<_> = liar.heard().into_iter().map(|heard| heard.body["id_or_num"].clone()).collect();
    assert_eq!(heard, [json!("0"), Value::Null, Value::Null]);
    Ok(())
}

#[tokio::test]
async fn a_configuration_that_cannot_be_meant_is_refused() -> Result<()> {
    let config = World::start().await?.config();
    Node::connect(&config)?;
    let connect = |change: &dyn Fn(&mut TronConfig)| Node::connect(&with(&config, change));
    connect(&|config| config.common.rpc_url.push('/'))?;
    let family = connect(&|config| config.common.chain_id = chain_id("eip155:1"));
    assert!(matches!(family, Err(ConnectError::Family(_))), "{family:?}");
    let reference = connect(&|config| config.common.chain_id = chain_id("tron:4294967296"));
    assert!(matches!(reference, Err(ConnectError::Reference(_))), "{reference:?}");
    let depth = connect(&|config| config.common.required_depth = Depth::Confirmations(1));
    assert!(matches!(depth, Err(ConnectError::Depth { .. })), "{depth:?}");
    for url in ["", "127.0.0.1:1", "ftp://127.0.0.1", "http://127.0.0.1?key=1", "http://127.0.0.1/x/wallet/"] {
        let refused = connect(&|config| config.common.rpc_url = url.to_owned());
        assert!(matches!(refused, Err(ConnectError::Url { .. })), "{url}: {refused:?}");
    }
    Ok(())
}

#[tokio::test]
async fn a_node_that_wants_to_be_left_alone_is_left_alone_by_everybody() -> Result<()> {
    let world = World::start().await?;
    let liar = Liar::before(&world.tron.url()).await?;
    let node = world.node_at(&liar.url);
    node.check().await?;
    let refuse = |status: StatusCode, seconds: Option<&'static str>| {
        liar.answer(move |_, _| {
            let seconds = seconds.map(|seconds| [(RETRY_AFTER, seconds)]);
            Some(match seconds {
                Some(header) => (status, header).into_response(),
                None => status.into_response(),
            })
        });
    };
    refuse(StatusCode::TOO_MANY_REQUESTS, Some("1"));
    liar.heard();
    let fault = node.head().await.expect_err("answered");
    assert!(fault.to_string().contains("HTTP status 429, nothing is sent for 1000 ms"), "{fault}");
    liar.be_honest();
    let started = Instant::now();
    let fault = node.clone().settled().await.expect_err("asked");
    assert!(fault.to_string().contains("paused for "), "{fault}");
    assert_eq!(liar.heard().len(), 1);
    until(|| node.head(), |_| true).await?;
    assert!(started.elapsed() >= Duration::from_millis(900), "{:?}", started.elapsed());

    for (status, header, pause, kind) in [
        (StatusCode::SERVICE_UNAVAILABLE, None, 5_000, "rate limited"),
        (StatusCode::FORBIDDEN, Some("86400"), 60_000, "rate limited"),
        (StatusCode::FORBIDDEN, None, 5_000, "rate limited"),
        (StatusCode::TOO_MANY_REQUESTS, Some("soon"), 5_000, "rate limited"),
    ] {
        let node = world.node_at(&liar.url);
        refuse(status, header);
        let fault = node.head().await.expect_err("answered");
        assert!(
            fault.to_string().ends_with(&format!("HTTP status {}, nothing is sent for {pause} ms", status.as_u16()))
        );
        assert_eq!(fault.kind(), kind, "{status}");
    }
    // Other faults ask for no pause.
    let node = world.node_at(&liar.url);
    for (status, kind) in [
        (StatusCode::INTERNAL_SERVER_ERROR, "unreachable"),
        (StatusCode::TEMPORARY_REDIRECT, "unreachable"),
        (StatusCode::UNAUTHORIZED, "misconfigured"),
    ] {
        refuse(status, Some("60"));
        assert_eq!(node.head().await.expect_err("answered").kind(), kind, "{status}");
    }
    liar.be_honest();
    node.head().await?;
    Ok(())
}

/// A server that writes `head` to whoever asks, and then `more` again and again, or nothing for ever.
async fn server(head: &'static str, more: Option<&'static [u8]>) -> Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}", listener.local_addr()?);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut request = [0; 4096];
                let _ = stream.read(&mut request).await;
                let _ = stream.write_all(head.as_bytes()).await;
                match more {
                    Some(more) => while stream.write_all(more).await.is_ok() {},
                    None => std::future::pending().await,
                }
            });
        }
    });
    Ok(url)
}

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n{";

#[tokio::test]
async fn an_answer_without_end_is_cut_off() -> Result<()> {
    let world = World::start().await?;
    let node = world.node_at(&server(OK, Some(&[b' '; 1 << 16])).await?);
    let fault = node.head().await.expect_err("answered");
    assert!(fault.to_string().ends_with("more than 33554432 bytes"), "{fault}");
    Ok(())
}

#[tokio::test]
async fn a_node_that_does_not_answer_in_time_is_not_waited_for() -> Result<()> {
    let world = World::start().await?;
    let closed = { format!("http://{}", TcpListener::bind("127.0.0.1:0").await?.local_addr()?) };
    for (url, what) in [
        (server("", None).await?, "no answer in time"),
        (server(OK, None).await?, "no answer in time"),
        (closed, "no connection"),
    ] {
        let mut config = world.config();
        (config.common.rpc_url, config.common.rpc_timeout_ms) = (url, 300);
        let node = Node::connect(&config)?;
        // The servers never answer: whoever waited for them would wait for ever.
        let fault = node.head().await.expect_err("answered");
        assert!(fault.to_string().ends_with(what), "{fault}");
    }
    Ok(())
}

#[tokio::test]
async fn the_api_key_is_sent_and_never_shown() -> Result<()> {
    const KEY: &str = "5f0b2ed8-secret";
    let world = World::start().await?;
    let liar = Liar::before(&world.tron.url()).await?;
    let path_key = "path-secret";
    let at = |config: &TronConfig, url: &str| with(config, |config| config.common.rpc_url = url.to_owned());
    let config = TronConfig { api_key: Some(ApiKey::new(KEY)), ..at(&world.config(), &liar.url) };
    let node = Node::connect(&config)?;
    node.settled().await?;
    let heard = liar.heard();
    assert!(heard.len() >= 2);
    for heard in heard {
        assert_eq!(heard.headers.get("TRON-PRO-API-KEY").context("no key")?, KEY);
    }
    world.node_at(&liar.url).check().await?;
    assert!(liar.heard().iter().all(|heard| !heard.headers.contains_key("TRON-PRO-API-KEY")));

    let mut shown = vec![format!("{config:?}"), format!("{node:?}")];
    let node = Node::connect(&at(&config, &format!("{}/{path_key}", liar.url)))?;
    for status in [StatusCode::NOT_FOUND, StatusCode::TOO_MANY_REQUESTS] {
        liar.answer(move |_, _| Some(status.into_response()));
        shown.push(node.head().await.expect_err("answered").to_string());
    }
    shown.push(node.head().await.expect_err("paused").to_string());
    let closed = { format!("http://{}", TcpListener::bind("127.0.0.1:0").await?.local_addr()?) };
    let node = Node::connect(&at(&config, &format!("{closed}/{path_key}")))?;
    shown.push(node.head().await.expect_err("answered").to_string());
    // Nobody on the way can read it, nor is it sent where somebody could.
    for (url, is_taken) in [("http://tron.example", false), ("https://tron.example", true), ("http://[::1]:1", true)] {
        let connected = Node::connect(&at(&config, url));
        assert_eq!(connected.is_ok(), is_taken, "{url}");
    }
    let bad = Node::connect(&TronConfig { api_key: Some(ApiKey::new(format!("{KEY}\n"))), ..config.clone() });
    let bad = bad.expect_err("connected");
    assert!(matches!(bad, ConnectError::Client { .. }), "{bad:?}");
    shown.push(format!("{bad} {bad:?}"));
    for text in &shown {
        assert!(!text.contains("secret") || text.contains("[secret]") && !text.contains(KEY), "{text}");
        assert!(!text.contains(path_key), "{text}");
    }
    // Nowhere else is it sent to.
    let thief = Liar::before(&world.tron.url()).await?;
    let target = thief.url.clone();
    liar.answer(move |path, _| {
        Some((StatusCode::TEMPORARY_REDIRECT, [("location", format!("{target}/{path}"))]).into_response())
    });
    Node::connect(&config)?.head().await.expect_err("redirected");
    assert!(thief.heard().is_empty());
    Ok(())
}
