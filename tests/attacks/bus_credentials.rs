//! NATS credentials: keys that change by reload alone, and TLS that nobody gets around.

use std::{path::Path, time::Duration};

use anyhow::{Context, Result, ensure};
use async_nats::{Client, connection::State, jetstream};
use ed25519_dalek::SigningKey;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    process::Command,
};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use devkit::{NatsServer, nats::configure};
use devnet::users;
use gateway::nats::{ACCOUNTS_FILE, KEYS_FILE, Users, certificates};
use identity::SettlerPolicies;
use journal_jetstream::{
    connection::{Identity, nkey, nkey_seed},
    headerless::{self, Endpoint, HeaderlessClient},
};
use sagas::ports::Auction;

use crate::nats_roles::{PATIENCE, Role, connect, did, request, until};

/// What a settler does to be asked; see `bus`.
async fn registers(client: &Client, number: usize) -> Result<()> {
    until("the registration is stored", || async { super::bus::registered(client, number).await.is_ok() }).await
}

async fn admits(server: &NatsServer, users: &Users) -> Result<()> {
    for (name, text) in [(KEYS_FILE, users.keys()), (ACCOUNTS_FILE, users.accounts()?)] {
        std::fs::write(server.directory().join(name), text)?;
    }
    server.reload().await
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_are_added_revoked_and_rotated_by_reload_alone() -> Result<()> {
    let mut admitted = Users { settlers: vec![did(1), did(2)], ..users::users() };
    let server = NatsServer::configured(&admitted.files()?).await?;
    let process = server.id();
    // A gateway on the key in its file, and two settlers at work.
    let seed_file = server.directory().join("gateway.seed");
    std::fs::write(&seed_file, nkey_seed(&Role::Gateway.key()))?;
    let gateway = Identity::in_file(&seed_file)?
        .options(None)
        .max_reconnects(None)
        .reconnect_delay_callback(|_| Duration::from_millis(50))
        .connect(server.url())
        .await?;
    let endpoint = Endpoint {
        servers: vec![server.url()],
        identity: Some(Identity::in_file(&seed_file)?),
        ca_file: None,
        name: "gateway".to_owned(),
    };
    let heard = HeaderlessClient::connect(endpoint).await?;
    let (auction, service, _hints) =
        auction::open(gateway.clone(), heard, auction::Options::default(), SettlerPolicies::default(), None).await?;
    let _service = AbortOnDropHandle::new(tokio::spawn(service.run(CancellationToken::new())));
    let (one, two) = (connect(&server, Role::Settler(1)).await?, connect(&server, Role::Settler(2)).await?);
    registers(&one, 1).await?;
    assert!(connect(&server, Role::Settler(3)).await.is_err(), "nobody knows settler 3 yet");

    // Added: it comes in, registers and is asked; the others keep their connections.
    admitted.settlers.push(did(3));
    admits(&server, &admitted).await?;
    let three = connect(&server, Role::Settler(3)).await?;
    registers(&three, 3).await?;
    until("settler 3 is asked", || async {
        let mut request = request(Duration::from_millis(200));
        request.whitelist = vec![did(3)];
        auction.gather(&request).await.is_ok_and(|gathered| gathered.addressed == [did(3)])
    })
    .await?;
    for (client, who) in [(&one, "settler 1"), (&two, "settler 2"), (&gateway, "the gateway")] {
        assert_eq!(client.statistics().connects.load(std::sync::atomic::Ordering::Relaxed), 1, "{who}");
    }

    // Revoked: cut off at once, and not let in again.
    admitted.settlers.retain(|settler| *settler != did(2));
    admits(&server, &admitted).await?;
    until("settler 2 is cut off", || async { two.connection_state() != State::Connected }).await?;
    assert!(connect(&server, Role::Settler(2)).await.is_err());
    registers(&one, 1).await?;

    // Rotated: a new key in the gateway's file and in the server's. The gateway comes back with it by itself.
    let rotated = SigningKey::from_bytes(&[9; 32]);
    std::fs::write(&seed_file, nkey_seed(&rotated))?;
    admitted.gateway = nkey(&rotated.verifying_key());
    admits(&server, &admitted).await?;
    until("the gateway is back", || async {
        let again = gateway.statistics().connects.load(std::sync::atomic::Ordering::Relaxed) > 1;
        again && jetstream::new(gateway.clone()).get_stream("AWARDS").await.is_ok()
    })
    .await?;
    assert!(connect(&server, Role::Gateway).await.is_err(), "the old key is worth nothing");
    registers(&one, 1).await?;
    assert_eq!(server.id(), process, "it is still the same process");
    Ok(())
}

/// Runs `gw nats …`.
async fn gw(arguments: &[&str]) -> Result<String> {
    let output = Command::new(env!("CARGO_BIN_EXE_gw")).arg("nats").args(arguments).output().await?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}

/// What comes back over a connection that speaks no TLS, until the server closes it.
async fn plainly(address: &str, nkey: &str) -> Result<String> {
    let mut stream = TcpStream::connect(address).await?;
    let connect = format!("CONNECT {{\"verbose\":false,\"nkey\":\"{nkey}\",\"sig\":\"AAAA\"}}\r\nPING\r\n");
    stream.write_all(connect.as_bytes()).await?;
    let mut said = Vec::new();
    // A server that closes with something unread resets the connection; what it said before is here.
    let _ = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut said)).await?;
    Ok(String::from_utf8_lossy(&said).into_owned())
}

async fn tls_server(directory: &Path) -> Result<NatsServer> {
    // The files beside nats.conf are those of `gw nats init`.
    let config = configure(directory, &[])?;
    NatsServer::in_directory(&config, directory, devkit::free_port()?).await
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_gets_around_tls() -> Result<()> {
    let place = tempfile::tempdir()?;
    let nats = place.path().join("nats");
    let directory = nats.to_str().context("not Unicode")?;
    gw(&["init", "--directory", directory, "--name", "127.0.0.1"]).await?;
    assert!(gw(&["init", "--directory", directory]).await.is_err(), "what is there is not written over");
    let server = tls_server(place.path()).await?;
    let address = server.url().trim_start_matches("nats://").to_owned();
    let url = format!("tls://{address}");
    let (seed_file, ca_file) = (nats.join("gateway.seed"), nats.join("ca.pem"));
    let gateway = Identity::in_file(&seed_file)?;

    // Who comes with the right key and trusts the right authority is in, and the streams can be made.
    let client = gateway.options(Some(&ca_file)).connect(&url).await?;
    let endpoint = |address: &str, ca_file: Option<&Path>| Endpoint {
        servers: vec![address.to_owned()],
        identity: Some(gateway.clone()),
        ca_file: ca_file.map(Path::to_owned),
        name: "gateway".to_owned(),
    };
    let heard = HeaderlessClient::connect(endpoint(&url, Some(&ca_file))).await?;
    auction::open(client.clone(), heard, auction::Options::default(), SettlerPolicies::default(), None).await?;
    assert_eq!(gw(&["key", "--seed-file", seed_file.to_str().context("not Unicode")?]).await?.trim(), gateway.nkey()?);

    // Without TLS nothing is said but that it is needed.
    let said = plainly(&address, &gateway.nkey()?).await?;
    assert!(!said.contains("PONG") && said.contains("\"tls_required\":true"), "{said}");
    // A server of another authority is not believed, whatever it is called, nor is this one by the system's authorities.
    let other = certificates::authority()?;
    let other_ca = place.path().join("other.pem");
    std::fs::write(&other_ca, &other.certificate)?;
    assert!(gateway.options(Some(&other_ca)).connect(&url).await.is_err());
    assert!(gateway.options(None).connect(&url).await.is_err());
    for ca_file in [Some(other_ca.as_path()), None] {
        let refused = HeaderlessClient::connect(endpoint(&url, ca_file)).await;
        assert!(matches!(refused, Err(headerless::Error::Refused(_))), "{refused:?}");
    }
    // Nor is a server that has no TLS, by whoever was given an authority.
    let plain = NatsServer::configured(&users::users().files()?).await?;
    let strict = Identity::of(&Role::Gateway.key()).options(Some(&ca_file));
    assert!(tokio::time::timeout(PATIENCE, strict.connect(plain.url())).await?.is_err());
    let strict = HeaderlessClient::connect(endpoint(&plain.url(), Some(&ca_file)));
    assert!(tokio::time::timeout(PATIENCE, strict).await?.is_err());
    // Nor one whose certificate is for another name.
    let authority_key = std::fs::read_to_string(nats.join("ca.key"))?;
    let elsewhere = certificates::server(&authority_key, &["nats.example".to_owned()])?;
    std::fs::write(nats.join("server.key"), &elsewhere.key)?;
    std::fs::write(nats.join("server.pem"), &elsewhere.certificate)?;
    server.reload().await?;
    assert!(gateway.options(Some(&ca_file)).connect(&url).await.is_err());
    // A certificate is changed by reload alone, too.
    gw(&["certs", "--directory", directory, "--name", "nats.example"]).await?;
    server.reload().await?;
    gateway.options(Some(&ca_file)).connect(&url).await?;
    drop(client);
    Ok(())
}
