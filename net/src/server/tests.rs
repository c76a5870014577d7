//! The server over loopback, and clients that hold on to what they can.

use std::sync::Arc;

use axum::{
    body::Bytes,
    routing::{get, post},
};
use futures::stream;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    sync::Notify,
    task::JoinHandle,
    time::Instant,
};

use super::*;

const PATIENCE: Duration = Duration::from_secs(20);

fn limits() -> Limits {
    let (head_max, idle_max) = (PATIENCE, PATIENCE);
    Limits { connections_max: 100, head_max, idle_max, write_max: PATIENCE }
}

/// A server on a port of its own, whose `/slow` answers when it is released to.
struct Environment {
    address: SocketAddr,
    released: Arc<Notify>,
    begun: Arc<Notify>,
    shutdown: CancellationToken,
    server: JoinHandle<()>,
}

impl Environment {
    async fn start(change: impl FnOnce(&mut Limits)) -> Self {
        let mut limits = limits();
        change(&mut limits);
        let (released, begun, shutdown) = (Arc::new(Notify::new()), Arc::new(Notify::new()), CancellationToken::new());
        let slow = {
            let (released, begun) = (released.clone(), begun.clone());
            async move || {
                begun.notify_one();
                released.notified().await;
                "slow"
            }
        };
        let router = Router::new()
            .route("/", get(async || "fast"))
            .route("/", post(async |body: String| body.len().to_string()))
            .route("/slow", get(slow))
            .route("/from", get(async |ConnectInfo(peer): ConnectInfo<SocketAddr>| peer.to_string()))
            .route("/large", get(async || "x".repeat(64 << 20)))
            .route(
                "/endless",
                get(async || Body::from_stream(stream::repeat(Ok::<_, Infallible>(Bytes::from_static(&[0; 4096]))))),
            );
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = tokio::spawn({
            let shutdown = shutdown.clone();
            async move { serve(listener, router, limits, |_| Some(()), shutdown).await }
        });
        Self { address, released, begun, shutdown, server }
    }

    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// The answer to `request` over a connection of its own, empty where it is closed without one.
    async fn ask(&self, request: &str) -> String {
        let mut stream = self.connect().await;
        // May find it closed already.
        let _ = stream.write_all(request.as_bytes()).await;
        rest(&mut stream).await
    }
}

/// Everything that comes until the connection is closed.
async fn rest(stream: &mut TcpStream) -> String {
    let mut text = Vec::new();
    // A connection that is reset is closed, too.
    let _ = timeout(PATIENCE, stream.read_to_end(&mut text)).await.unwrap();
    String::from_utf8(text).unwrap()
}

fn request(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
}

#[tokio::test]
async fn connections_above_their_number_are_closed_until_one_ends() {
    let environment = Environment::start(|limits| limits.connections_max = 1).await;
    let mut first = environment.connect().await;
    first.write_all(request("/slow").as_bytes()).await.unwrap();
    environment.begun.notified().await;
    assert_eq!(environment.ask(&request("/")).await, "");
    environment.released.notify_one();
    assert!(rest(&mut first).await.ends_with("slow"));
    // The permit is free a moment after the client sees the end.
    let mut answer = String::new();
    while answer.is_empty() {
        answer = environment.ask(&request("/")).await;
    }
    assert!(answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("fast"), "{answer}");
}

#[tokio::test]
async fn who_says_nothing_is_disconnected() {
    let environment = Environment::start(|limits| limits.idle_max = Duration::from_millis(100)).await;
    // Nothing at all, half a head, and nothing after an answer.
    assert_eq!(rest(&mut environment.connect().await).await, "");
    let half = environment.ask("GET / HTTP/1.1\r\nhost:").await;
    assert!(half.is_empty() || half.starts_with("HTTP/1.1 408 "), "{half}");
    let idle = environment.ask("GET / HTTP/1.1\r\nhost: x\r\n\r\n").await;
    assert!(idle.starts_with("HTTP/1.1 200 ") && idle.ends_with("fast"), "{idle}");
    // Waiting for an answer is not idling.
    let mut slow = environment.connect().await;
    slow.write_all(request("/slow").as_bytes()).await.unwrap();
    environment.begun.notified().await;
    assert!(timeout(Duration::from_millis(300), slow.readable()).await.is_err());
    environment.released.notify_one();
    assert!(rest(&mut slow).await.ends_with("slow"));
}

#[tokio::test]
async fn what_a_connection_may_buffer_is_bounded_and_bodies_are_not() {
    let environment = Environment::start(|_| {}).await;
    let head = format!("GET / HTTP/1.1\r\nhost: x\r\nx: {}\r\n\r\n", "y".repeat(2 * BUFFER_BYTES_MAX));
    let answer = environment.ask(&head).await;
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 431 "), "{answer}");
    let length = 4 * BUFFER_BYTES_MAX;
    let head = format!("POST / HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n");
    let answer = environment.ask(&format!("{head}{}", "z".repeat(length))).await;
    assert!(answer.ends_with(&length.to_string()), "{answer}");
}

#[tokio::test]
async fn a_server_that_stops_finishes_what_was_begun() {
    let mut environment = Environment::start(|_| {}).await;
    let (mut idle, mut slow) = (environment.connect().await, environment.connect().await);
    idle.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    idle.readable().await.unwrap();
    slow.write_all(b"GET /slow HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    environment.begun.notified().await;
    environment.shutdown.cancel();
    assert!(rest(&mut idle).await.ends_with("fast"));
    assert!(!environment.server.is_finished());
    environment.released.notify_one();
    assert!(rest(&mut slow).await.ends_with("slow"));
    timeout(PATIENCE, &mut environment.server).await.unwrap().unwrap();
    assert!(TcpStream::connect(environment.address).await.is_err());
}

#[tokio::test]
async fn a_request_says_where_it_comes_from() {
    let environment = Environment::start(|_| {}).await;
    let mut stream = environment.connect().await;
    let own = stream.local_addr().unwrap();
    stream.write_all(request("/from").as_bytes()).await.unwrap();
    assert!(rest(&mut stream).await.ends_with(&format!("\r\n\r\n{own}")));
}

#[tokio::test]
async fn a_first_request_has_less_time_than_later_ones() {
    let environment = Environment::start(|limits| limits.head_max = Duration::from_millis(100)).await;
    let begun = Instant::now();
    let mut asked = environment.connect().await;
    asked.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    // One says nothing, one a byte, one half a head.
    for said in ["", "G", "GET / HTTP/1.1\r\nhost: x\r\n"] {
        assert_eq!(environment.ask(said).await, "");
    }
    assert!(begun.elapsed() >= Duration::from_millis(100));
    // A connection that has asked already goes on.
    asked.write_all(request("/").as_bytes()).await.unwrap();
    assert_eq!(rest(&mut asked).await.matches("HTTP/1.1 200 ").count(), 2);
}

/// However many connections are opened and kept silent, or idle after a request, whoever asks is answered; and a request
/// at work is not given up for them.
#[tokio::test]
async fn idle_connections_make_room_and_those_at_work_do_not() {
    let environment = Environment::start(|limits| limits.connections_max = 8).await;
    let mut slow = environment.connect().await;
    slow.write_all(b"GET /slow HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await.unwrap();
    environment.begun.notified().await;
    let mut served = environment.connect().await;
    served.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    served.readable().await.unwrap();
    let mut silent = Vec::new();
    for _ in 0..5 {
        for _ in 0..20 {
            silent.push(environment.connect().await);
        }
        assert!(environment.ask(&request("/")).await.ends_with("fast"));
    }
    // The silent ones went, oldest first, and before the one that had asked something.
    assert_eq!(rest(&mut silent[0]).await, "");
    served.write_all(request("/").as_bytes()).await.unwrap();
    assert_eq!(rest(&mut served).await.matches("HTTP/1.1 200 ").count(), 2);
    // Idle connections that have asked make room, too.
    let mut idle = Vec::new();
    for _ in 0..20 {
        let mut stream = environment.connect().await;
        stream.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
        stream.readable().await.unwrap();
        idle.push(stream);
    }
    assert!(rest(&mut idle[0]).await.ends_with("fast"));
    assert!(environment.ask(&request("/")).await.ends_with("fast"));
    environment.released.notify_one();
    assert!(rest(&mut slow).await.ends_with("slow"));
}

/// An answer that nobody reads holds its connection for as long as nothing of it is taken, and no longer.
#[tokio::test]
async fn who_does_not_read_its_answer_is_disconnected() {
    let environment = Environment::start(|limits| {
        limits.write_max = Duration::from_millis(200);
        limits.connections_max = 1;
    })
    .await;
    let mut deaf = environment.connect().await;
    deaf.write_all(request("/endless").as_bytes()).await.unwrap();
    deaf.readable().await.unwrap();
    let mut answer = String::new();
    let begun = Instant::now();
    while answer.is_empty() {
        assert!(begun.elapsed() < PATIENCE, "the permit is not free again");
        answer = environment.ask(&request("/")).await;
    }
    assert!(answer.ends_with("fast"), "{answer}");
    // Who reads, however slowly the whole is, gets all of it.
    let mut reader = environment.connect().await;
    reader.write_all(request("/large").as_bytes()).await.unwrap();
    assert!(rest(&mut reader).await.len() > 64 << 20);
}
