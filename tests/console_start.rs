//! The start of a gateway with a console: its address is taken first, and no payment waits for what the console needs.

use std::fmt::Write;

use anyhow::{Context, Result, ensure};
use async_nats::jetstream::{self, stream::Config};
use reqwest::{Client, StatusCode};
use serde_json::Value;
use tokio::net::TcpListener;

use devkit::free_port;
use devnet::users::NatsUser;
use gateway_console::token;

use crate::support::*;

#[tokio::test(flavor = "multi_thread")]
async fn payments_do_not_wait_for_the_console_and_its_address_is_taken_first() -> Result<()> {
    let mut world = World::start(1).await?;
    world.network.kill_gateway(0).await?;
    // Somebody made the stream of acts otherwise, so there can be no console.
    let client = world.network.nats.connect(NatsUser::Gateway).await?;
    let strange = Config { name: "OPERATOR_ACTS".to_owned(), max_messages: 3, ..Config::default() };
    let strange = Config { subjects: vec!["gw.acts.*".to_owned()], ..strange };
    jetstream::new(client).create_stream(strange).await?;
    let (port, token) = (free_port()?, token::random());
    let digest = token::digest(&token).iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    });
    let path = world.network.options().directory.join("gateway-1.toml");
    let operator = format!("[[console.operators]]\nname = \"ana\"\ntoken_sha256 = \"{digest}\"\n");
    let section = format!("\n[console]\nlisten = \"127.0.0.1:{port}\"\n{operator}");
    std::fs::write(&path, std::fs::read_to_string(&path)? + &section)?;
    world.network.start_gateway(0).await?;
    world.network.ready(0).await?;
    let payment = world.submit(&world.spec("no-console")?).await?;
    world.completed(&payment).await?;
    let (base, http) = (format!("http://127.0.0.1:{port}"), Client::builder().timeout(PATIENCE).build()?);
    assert_eq!(http.get(&base).send().await?.status(), StatusCode::OK);
    let answer = http.get(format!("{base}/api/me")).bearer_auth(&token).send().await?;
    let (status, body) = (answer.status(), answer.json::<Value>().await?);
    assert_eq!((status, body["error"]["code"].as_str()), (StatusCode::SERVICE_UNAVAILABLE, Some("UNAVAILABLE")));
    let log = world.network.log("gateway-1")?;
    ensure!(log.contains("there is no operators' console") && log.contains("stream OPERATOR_ACTS has"), "{log}");

    // Whether NATS is there or not, a gateway whose console's address is taken ends at once and says why.
    world.network.kill_gateway(0).await?;
    world.network.nats.kill().await?;
    let address = format!("127.0.0.1:{port}");
    let _taken = TcpListener::bind(&address).await?;
    world.network.spawn_gateway(0)?;
    let ended = async {
        while world.network.gateway_runs(0)? {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        anyhow::Ok(())
    };
    tokio::time::timeout(PATIENCE, ended).await.context("it waits for NATS")??;
    let log = world.network.log("gateway-1")?;
    ensure!(log.contains(&format!("listen on {address} for [console]")), "{log}");
    Ok(())
}
