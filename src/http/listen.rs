//! Serving the API on a socket: as many connections as there may be, each with bounded buffers and a bounded wait for
//! its next request.
//!
//! `axum::serve` has none of these bounds, so hyper is driven here directly. A connection above the bound is closed
//! without an answer: no request was taken, and a balancer in front sends it to another gateway.

use std::{io, sync::Arc, time::Duration};

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{sleep, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::tally::Tally;
use crate::config::HttpConfig;

/// How long requests in flight may take once the process is to stop.
const DRAIN_MAX: Duration = Duration::from_secs(10);
/// Most bytes that are buffered of what a connection sent: the head of a request has to fit in.
const BUFFER_BYTES_MAX: usize = 32 * 1024;
/// Files that are open besides connections: databases, logs, and connections to NATS and to nodes.
const OTHER_FILES: u64 = 256;
/// Pause when no connection can be accepted, as when the system has no files left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// How many connections there may be: as many as configured, or as few as the system permits open files. The process's
/// own limit is raised as far as that takes, and as it can be without privileges.
fn connections_max(config: &HttpConfig) -> usize {
    let wanted = config.connections_max;
    let files = rlimit::increase_nofile_limit(OTHER_FILES.saturating_add(wanted as u64));
    let files = files.inspect_err(|error| tracing::warn!(%error, "the limit of open files cannot be raised")).ok();
    let room = files.map_or(wanted, |files| usize::try_from(files.saturating_sub(OTHER_FILES)).unwrap_or(usize::MAX));
    if room < wanted {
        tracing::warn!(wanted, connections = room, "fewer connections are taken: the limit of open files is too low");
    }
    wanted.min(room).clamp(1, Semaphore::MAX_PERMITS)
}

/// Serves `router` until `shutdown`, and then for as long as requests in flight take, at most ten seconds.
pub async fn listen(listener: TcpListener, router: Router, config: &HttpConfig, shutdown: CancellationToken) {
    let places = Arc::new(Semaphore::new(connections_max(config)));
    let mut http = http1::Builder::new();
    // The same bound is for the head of a request and for the time between two requests.
    http.timer(TokioTimer::new()).header_read_timeout(Duration::from_millis(config.idle_ms_max));
    http.max_buf_size(BUFFER_BYTES_MAX);
    let server = Server { http, router, shutdown: shutdown.clone(), connections: TaskTracker::new() };
    let closed = Tally::default();
    while let Some(accepted) = shutdown.run_until_cancelled(listener.accept()).await {
        match accepted {
            Ok((stream, _)) => match Arc::clone(&places).try_acquire_owned() {
                Ok(place) => server.serve(stream, place),
                Err(_) => {
                    if let Some(closed) = closed.count() {
                        tracing::warn!(closed, "connections are closed: as many are open as there may be");
                    }
                }
            },
            Err(error) if is_of_the_client(&error) => {}
            Err(error) => {
                tracing::error!(%error, "no connection can be accepted");
                let _ = shutdown.run_until_cancelled(sleep(ACCEPT_PAUSE)).await;
            }
        }
    }
    drop(listener);
    server.connections.close();
    // What is not done by then is broken off with the process.
    let _ = timeout(DRAIN_MAX, server.connections.wait()).await;
}

struct Server {
    http: http1::Builder,
    router: Router,
    shutdown: CancellationToken,
    connections: TaskTracker,
}

impl Server {
    fn serve(&self, stream: TcpStream, place: OwnedSemaphorePermit) {
        // Without this an event of a stream may wait for the client's acknowledgement of the one before.
        let _ = stream.set_nodelay(true);
        let service = TowerToHyperService::new(self.router.clone());
        let connection = self.http.serve_connection(TokioIo::new(stream), service);
        let shutdown = self.shutdown.clone();
        self.connections.spawn(async move {
            let _place = place;
            let mut connection = std::pin::pin!(connection);
            let ended = tokio::select! {
                ended = connection.as_mut() => ended,
                () = shutdown.cancelled() => {
                    connection.as_mut().graceful_shutdown();
                    connection.await
                }
            };
            if let Err(error) = ended {
                tracing::debug!(%error, "a connection ended");
            }
        });
    }
}

/// Whether a connection failed before it was accepted, which is nobody's fault here.
fn is_of_the_client(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

#[cfg(test)]
mod tests {
    use axum::routing::{get, post};
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        sync::Notify,
        task::JoinHandle,
    };

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(20);

    /// A server on a port of its own, whose `/slow` answers when it is told to.
    struct Stage {
        address: std::net::SocketAddr,
        told: Arc<Notify>,
        begun: Arc<Notify>,
        shutdown: CancellationToken,
        server: JoinHandle<()>,
    }

    impl Stage {
        async fn set(change: impl FnOnce(&mut HttpConfig)) -> Self {
            let mut config = HttpConfig::default();
            change(&mut config);
            let (told, begun, shutdown) = (Arc::new(Notify::new()), Arc::new(Notify::new()), CancellationToken::new());
            let slow = {
                let (told, begun) = (told.clone(), begun.clone());
                async move || {
                    begun.notify_one();
                    told.notified().await;
                    "slow"
                }
            };
            let router = Router::new()
                .route("/", get(async || "fast"))
                .route("/", post(async |body: String| body.len().to_string()))
                .route("/slow", get(slow));
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            let server = tokio::spawn({
                let shutdown = shutdown.clone();
                async move { listen(listener, router, &config, shutdown).await }
            });
            Self { address, told, begun, shutdown, server }
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
        let stage = Stage::set(|config| config.connections_max = 1).await;
        let mut first = stage.connect().await;
        first.write_all(request("/slow").as_bytes()).await.unwrap();
        stage.begun.notified().await;
        assert_eq!(stage.ask(&request("/")).await, "");
        stage.told.notify_one();
        assert!(rest(&mut first).await.ends_with("slow"));
        // The place is free a moment after the client sees the end.
        let mut answer = String::new();
        while answer.is_empty() {
            answer = stage.ask(&request("/")).await;
        }
        assert!(answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("fast"), "{answer}");
    }

    #[tokio::test]
    async fn who_says_nothing_is_let_go() {
        let stage = Stage::set(|config| config.idle_ms_max = 100).await;
        // Nothing at all, half a head, and nothing after an answer.
        assert_eq!(rest(&mut stage.connect().await).await, "");
        let half = stage.ask("GET / HTTP/1.1\r\nhost:").await;
        assert!(half.is_empty() || half.starts_with("HTTP/1.1 408 "), "{half}");
        let idle = stage.ask("GET / HTTP/1.1\r\nhost: x\r\n\r\n").await;
        assert!(idle.starts_with("HTTP/1.1 200 ") && idle.ends_with("fast"), "{idle}");
        // Waiting for an answer is not idling.
        let mut slow = stage.connect().await;
        slow.write_all(request("/slow").as_bytes()).await.unwrap();
        stage.begun.notified().await;
        assert!(timeout(Duration::from_millis(300), slow.readable()).await.is_err());
        stage.told.notify_one();
        assert!(rest(&mut slow).await.ends_with("slow"));
    }

    #[tokio::test]
    async fn what_a_connection_may_buffer_is_bounded_and_bodies_are_not() {
        let stage = Stage::set(|_| {}).await;
        let head = format!("GET / HTTP/1.1\r\nhost: x\r\nx: {}\r\n\r\n", "y".repeat(2 * BUFFER_BYTES_MAX));
        let answer = stage.ask(&head).await;
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 431 "), "{answer}");
        let length = 4 * BUFFER_BYTES_MAX;
        let head = format!("POST / HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n");
        let answer = stage.ask(&format!("{head}{}", "z".repeat(length))).await;
        assert!(answer.ends_with(&length.to_string()), "{answer}");
    }

    #[tokio::test]
    async fn a_server_that_stops_finishes_what_was_begun() {
        let mut stage = Stage::set(|_| {}).await;
        let (mut idle, mut slow) = (stage.connect().await, stage.connect().await);
        idle.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
        idle.readable().await.unwrap();
        slow.write_all(b"GET /slow HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
        stage.begun.notified().await;
        stage.shutdown.cancel();
        assert!(rest(&mut idle).await.ends_with("fast"));
        assert!(!stage.server.is_finished());
        stage.told.notify_one();
        assert!(rest(&mut slow).await.ends_with("slow"));
        timeout(PATIENCE, &mut stage.server).await.unwrap().unwrap();
        assert!(TcpStream::connect(stage.address).await.is_err());
    }
}
