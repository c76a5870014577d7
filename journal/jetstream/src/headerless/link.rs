//! Link of a headerless client: the connection, its handshake, and the loop that serves subscriptions over one after the other.

use std::{
    collections::{HashMap, VecDeque},
    io,
    net::IpAddr,
    path::Path,
    sync::Arc,
    time::Duration,
};

use async_nats::rustls::{
    self, ClientConfig, RootCertStore,
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, ServerName, pem::PemObject},
};
use bytes::BytesMut;
use data_encoding::BASE64URL_NOPAD;
use futures::StreamExt;
use rand::seq::SliceRandom;
use serde::{Deserialize, Serialize};
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt},
    net::TcpStream,
    sync::{mpsc, oneshot, watch},
    time::{Instant, MissedTickBehavior, interval, sleep, timeout},
};
use tokio_rustls::TlsConnector;
use tokio_util::codec::{Framed, FramedParts};
use url::{Host, Url};

use super::{
    Command, Endpoint, Error, Message, State, SubscribeCommand,
    codec::{Codec, ServerOp},
};
use crate::connection::{CONNECT_MAX, PING_EVERY};

/// Longest time in which the system may take what is written.
const WRITE_MAX: Duration = Duration::from_secs(10);
/// Pings in a row without an answer after which a connection is dead.
const UNANSWERED_MAX: usize = 2;
/// Pause before the next attempt, after each in vain a step longer up to the longest.
const PAUSE_STEP: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_millis(500);
/// The port of an address without one.
const PORT: u16 = 4222;

trait Socket: AsyncRead + AsyncWrite + Send + Unpin {}
impl<S: AsyncRead + AsyncWrite + Send + Unpin> Socket for S {}

/// A connection that the server has admitted.
pub(super) struct Link {
    framed: Framed<Box<dyn Socket>, Codec>,
}

/// What a server says of itself; the rest is of no use here.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Info {
    nonce: Option<String>,
    tls_required: bool,
}

/// What a client says of itself.
#[derive(Debug, Serialize)]
struct Connect<'a> {
    verbose: bool,
    pedantic: bool,
    tls_required: bool,
    name: &'a str,
    lang: &'static str,
    version: &'static str,
    protocol: u8,
    echo: bool,
    headers: bool,
    no_responders: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    nkey: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sig: Option<String>,
}

/// A connection to the first of the servers, in random order, that can be reached and admits this client.
pub(super) async fn open(endpoint: &Endpoint) -> Result<Link, Error> {
    let mut last = Error::Unreachable("no server is named".to_owned());
    let mut servers: Vec<&String> = endpoint.servers.iter().collect();
    servers.shuffle(&mut rand::thread_rng());
    for server in servers {
        match timeout(CONNECT_MAX, open_one(endpoint, server)).await {
            Ok(Ok(link)) => return Ok(link),
            Ok(Err(error)) => last = error,
            Err(_) => last = Error::Unreachable(format!("{server} does not answer in time")),
        }
    }
    Err(last)
}

async fn open_one(endpoint: &Endpoint, server: &str) -> Result<Link, Error> {
    let unreachable = |error: io::Error| Error::Unreachable(format!("{server}: {error}"));
    let refused = |what: String| Error::Refused(format!("{server}: {what}"));
    let url = Url::parse(server).map_err(|error| refused(error.to_string()))?;
    let host = url.host().ok_or_else(|| refused("no host".to_owned()))?;
    let port = url.port().unwrap_or(PORT);
    let socket = match &host {
        Host::Domain(name) => TcpStream::connect((*name, port)).await,
        Host::Ipv4(ip) => TcpStream::connect((*ip, port)).await,
        Host::Ipv6(ip) => TcpStream::connect((*ip, port)).await,
    };
    let socket = socket.map_err(unreachable)?;
    socket.set_nodelay(true).map_err(unreachable)?;
    let mut framed = Framed::new(Box::new(socket) as Box<dyn Socket>, Codec::default());
    let info: Info = match next(&mut framed).await.map_err(unreachable)? {
        ServerOp::Info(json) => serde_json::from_slice(&json).map_err(|error| refused(error.to_string()))?,
        other => return Err(refused(format!("it begins with {other:?}"))),
    };

    let is_secured = url.scheme() == "tls" || endpoint.ca_file.is_some() || info.tls_required;
    if is_secured {
        let name = match host {
            Host::Domain(name) => ServerName::try_from(name.to_owned()).map_err(|error| refused(error.to_string()))?,
            Host::Ipv4(ip) => ServerName::from(IpAddr::V4(ip)),
            Host::Ipv6(ip) => ServerName::from(IpAddr::V6(ip)),
        };
        let connector = TlsConnector::from(Arc::new(tls(endpoint.ca_file.as_deref()).map_err(refused)?));
        // What the server may have sent in the clear beyond its INFO is not believed.
        let FramedParts { io, .. } = framed.into_parts();
        let socket = connector.connect(name, io).await.map_err(|error| {
            // Another certificate is no matter of time.
            let is_untrusted = error.get_ref().is_some_and(|inner| inner.is::<rustls::Error>());
            if is_untrusted { refused(error.to_string()) } else { unreachable(error) }
        })?;
        framed = Framed::new(Box::new(socket), Codec::default());
    }

    let mut connect = Connect {
        verbose: false,
        pedantic: false,
        tls_required: is_secured,
        name: &endpoint.name,
        lang: "rust",
        version: env!("CARGO_PKG_VERSION"),
        protocol: 1,
        echo: true,
        headers: false,
        no_responders: false,
        nkey: None,
        sig: None,
    };
    if let (Some(nonce), Some(identity)) = (&info.nonce, &endpoint.identity) {
        let (nkey, signature) = identity.prove(nonce.as_bytes()).map_err(|error| refused(error.to_string()))?;
        (connect.nkey, connect.sig) = (Some(nkey), Some(BASE64URL_NOPAD.encode(&signature)));
    }
    let connect = serde_json::to_string(&connect).map_err(|error| refused(error.to_string()))?;
    write(&mut framed, format!("CONNECT {connect}\r\nPING\r\n").as_bytes()).await.map_err(unreachable)?;
    loop {
        match next(&mut framed).await.map_err(unreachable)? {
            ServerOp::Pong => return Ok(Link { framed }),
            ServerOp::Refused(reason) => return Err(refused(reason)),
            ServerOp::Ping => write(&mut framed, b"PONG\r\n").await.map_err(unreachable)?,
            ServerOp::Taken | ServerOp::Info(_) | ServerOp::Message(..) => {}
        }
    }
}

/// As [`async_nats`] does it: the authorities in the file alone, or else the system's.
fn tls(ca_file: Option<&Path>) -> Result<ClientConfig, String> {
    let mut roots = RootCertStore::empty();
    match ca_file {
        Some(file) => {
            let certificates =
                CertificateDer::pem_file_iter(file).map_err(|error| format!("{}: {error}", file.display()))?;
            for certificate in certificates {
                let certificate = certificate.map_err(|error| format!("{}: {error}", file.display()))?;
                roots.add(certificate).map_err(|error| format!("{}: {error}", file.display()))?;
            }
        }
        None => {
            // One that cannot be read is no reason to do without the others.
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
    }
    let builder = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().map_err(|error: rustls::Error| error.to_string())?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}

async fn next(framed: &mut Framed<Box<dyn Socket>, Codec>) -> io::Result<ServerOp> {
    framed.next().await.unwrap_or_else(|| Err(io::ErrorKind::UnexpectedEof.into()))
}

async fn write(framed: &mut Framed<Box<dyn Socket>, Codec>, bytes: &[u8]) -> io::Result<()> {
    let socket = framed.get_mut();
    let written = async {
        socket.write_all(bytes).await?;
        socket.flush().await
    };
    timeout(WRITE_MAX, written).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

/// A subscription that the server has, or is to have again.
struct Active {
    subject: String,
    group: Option<&'static str>,
    /// Messages still to come, over whatever connection, where their number is limited.
    left: Option<u64>,
    messages: mpsc::Sender<Message>,
    /// Whether it was said that messages are dropped.
    is_slow: bool,
}

impl Active {
    fn request(&self, id: u64) -> String {
        let (subject, group) = (&self.subject, self.group.map(|group| format!(" {group}")).unwrap_or_default());
        let limit = self.left.map(|left| format!("UNSUB {id} {left}\r\n")).unwrap_or_default();
        format!("SUB {subject}{group} {id}\r\n{limit}")
    }
}

/// Serves the subscriptions over `link` and those that follow it, until all clients and subscriptions are dropped.
pub(super) async fn run(
    endpoint: Endpoint,
    mut link: Link,
    mut commands: mpsc::UnboundedReceiver<Command>,
    changed: watch::Sender<State>,
) {
    let mut subscriptions: HashMap<u64, Active> = HashMap::new();
    loop {
        let begun = Instant::now();
        let Err(error) = serve(&mut link, &mut subscriptions, &mut commands).await else { return };
        tracing::warn!(name = endpoint.name, %error, "a connection without headers was lost, connecting again");
        drop(link);
        changed.send_modify(|state| state.is_connected = false);
        // Whatever ends one connection after the other does not have this process make them as fast as it can.
        let pause = if begun.elapsed() < PAUSE_MAX { PAUSE_MAX } else { Duration::ZERO };
        let Some(again) = reconnect(&endpoint, pause, &mut subscriptions, &mut commands).await else { return };
        link = again;
        changed.send_modify(|state| *state = State { is_connected: true, connects: state.connects + 1 });
    }
}

/// The next connection; `None` when all clients and subscriptions are dropped.
async fn reconnect(
    endpoint: &Endpoint,
    mut pause: Duration,
    subscriptions: &mut HashMap<u64, Active>,
    commands: &mut mpsc::UnboundedReceiver<Command>,
) -> Option<Link> {
    let attempts = async {
        loop {
            sleep(pause).await;
            match open(endpoint).await {
                Ok(link) => return link,
                Err(error) if error.is_passing() => {
                    tracing::debug!(name = endpoint.name, %error, "still not connected")
                }
                Err(error) => tracing::error!(name = endpoint.name, %error, "the server refuses the connection"),
            }
            pause = (pause + PAUSE_STEP).min(PAUSE_MAX);
        }
    };
    tokio::pin!(attempts);
    loop {
        tokio::select! {
            link = &mut attempts => return Some(link),
            command = commands.recv() => match command? {
                // `confirmed` is dropped with it, by which the caller hears that there is no connection.
                Command::Subscribe(_) => {}
                Command::Unsubscribe(id) => drop(subscriptions.remove(&id)),
            }
        }
    }
}

/// Serves the subscriptions over one connection. Ends well when all clients and subscriptions are dropped, with an error when
/// the connection is lost.
async fn serve(
    link: &mut Link,
    subscriptions: &mut HashMap<u64, Active>,
    commands: &mut mpsc::UnboundedReceiver<Command>,
) -> io::Result<()> {
    let mut out = BytesMut::new();
    for (id, active) in &*subscriptions {
        out.extend_from_slice(active.request(*id).as_bytes());
    }
    // Who waits for the answer to each ping, in their order.
    let mut pings: VecDeque<Option<oneshot::Sender<()>>> = VecDeque::new();
    let mut unanswered = 0;
    let mut tick = interval(PING_EVERY);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        if !out.is_empty() {
            write(&mut link.framed, &out.split()).await?;
        }
        tokio::select! {
            op = next(&mut link.framed) => match op? {
                ServerOp::Message(id, message) => deliver(subscriptions, id, message, &mut out),
                ServerOp::Ping => out.extend_from_slice(b"PONG\r\n"),
                ServerOp::Pong => {
                    unanswered = 0;
                    if let Some(Some(confirmed)) = pings.pop_front() {
                        // Who has gone meanwhile has taken the subscription back.
                        let _ = confirmed.send(());
                    }
                }
                ServerOp::Refused(reason) => tracing::warn!(reason, "the server refuses what was asked for"),
                ServerOp::Taken | ServerOp::Info(_) => {}
            },
            command = commands.recv() => match command {
                None => return Ok(()),
                Some(Command::Subscribe(SubscribeCommand { id, subject, group, messages_max, messages, confirmed })) => {
                    let active = Active { subject, group, left: messages_max, messages, is_slow: false };
                    out.extend_from_slice(active.request(id).as_bytes());
                    out.extend_from_slice(b"PING\r\n");
                    pings.push_back(Some(confirmed));
                    subscriptions.insert(id, active);
                }
                Some(Command::Unsubscribe(id)) => {
                    if subscriptions.remove(&id).is_some() {
                        out.extend_from_slice(format!("UNSUB {id}\r\n").as_bytes());
                    }
                }
            },
            _ = tick.tick() => {
                if unanswered >= UNANSWERED_MAX {
                    return Err(io::Error::new(io::ErrorKind::TimedOut, "the server does not answer"));
                }
                unanswered += 1;
                pings.push_back(None);
                out.extend_from_slice(b"PING\r\n");
            }
        }
    }
}

/// Hands a message to whoever subscribed to it, and ends the subscription with the last that it may have.
fn deliver(subscriptions: &mut HashMap<u64, Active>, id: u64, message: Message, out: &mut BytesMut) {
    let Some(active) = subscriptions.get_mut(&id) else {
        // Of a subscription that is taken back, or that the server should not have.
        out.extend_from_slice(format!("UNSUB {id}\r\n").as_bytes());
        return;
    };
    match active.messages.try_send(message) {
        Ok(()) => active.is_slow = false,
        Err(mpsc::error::TrySendError::Full(_)) if !active.is_slow => {
            active.is_slow = true;
            tracing::warn!(subject = active.subject, "messages come faster than they are taken, and are dropped");
        }
        Err(mpsc::error::TrySendError::Full(_)) => {}
        Err(mpsc::error::TrySendError::Closed(_)) => {
            subscriptions.remove(&id);
            out.extend_from_slice(format!("UNSUB {id}\r\n").as_bytes());
            return;
        }
    }
    if let Some(left) = &mut active.left {
        *left = left.saturating_sub(1);
        if *left == 0 {
            subscriptions.remove(&id);
            out.extend_from_slice(format!("UNSUB {id}\r\n").as_bytes());
        }
    }
}
