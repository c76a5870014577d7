//! The HTTP/1.1 server under the API and under the verifier: bounded connections, buffers and waits.
//!
//! `axum::serve` has none of these bounds, so hyper is driven here directly. What a connection may hold on to, and for how
//! long, is said by [`Limits`]; which connections there may be, by `connections`. A body is read by its
//! route, which bounds its size and its time.
//!
//! Requests carry the address that they come from, as axum's `ConnectInfo<SocketAddr>`.

mod connections;
#[cfg(test)]
mod tests;
mod throttled_log;

use std::{convert::Infallible, io, net::SocketAddr, time::Duration};

use axum::{
    Router,
    body::{Body, HttpBody},
    extract::{ConnectInfo, Request},
    response::Response,
};
use hyper::{
    body::{Frame, Incoming, SizeHint},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    net::{TcpListener, TcpStream},
    time::{sleep, timeout},
};
use tokio_io_timeout::TimeoutWriter;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tower::Service;

use self::connections::{Busy, Connections, Permit};
pub use self::throttled_log::ThrottledLog;

/// How long requests in flight may take once the process is to stop.
const DRAIN_MAX: Duration = Duration::from_secs(10);
/// Most bytes that are buffered of what a connection sent: the head of a request has to fit in.
const BUFFER_BYTES_MAX: usize = 32 * 1024;
/// Files that are open besides connections: databases, logs, and connections to NATS and to nodes.
const OTHER_FILES: u64 = 256;
/// Pause when no connection can be accepted, as when the system has no files left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What connections may hold on to, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Connections open at the same time.
    pub connections_max: usize,
    /// How long the head of a connection's first request may take to arrive.
    pub head_max: Duration,
    /// How long a connection may be idle between two requests, and the heads of later requests may take.
    pub idle_max: Duration,
    /// How long a peer may take nothing of what is sent to it.
    pub write_max: Duration,
}

/// How many connections there may be: as many as wanted, or as few as the system permits open files. The process's own
/// limit is raised as far as that takes, and as it can be without privileges.
fn connections_max(wanted: usize) -> usize {
    let files = rlimit::increase_nofile_limit(OTHER_FILES.saturating_add(wanted as u64));
    let files = files.inspect_err(|error| tracing::warn!(%error, "the limit of open files cannot be raised")).ok();
    let room = files.map_or(wanted, |files| usize::try_from(files.saturating_sub(OTHER_FILES)).unwrap_or(usize::MAX));
    if room < wanted {
        tracing::warn!(wanted, connections = room, "fewer connections are taken: the limit of open files is too low");
    }
    wanted.min(room)
}

/// Serves `router` until `shutdown`, and then for as long as requests in flight take, at most ten seconds. A connection that
/// cannot be accepted is told of in the log, and the next one waited for.
///
/// `admit` says whether a peer may have one more connection; what it answers with is dropped when the connection ends.
pub async fn serve<T: Send + 'static>(
    listener: TcpListener,
    router: Router,
    limits: Limits,
    admit: impl Fn(SocketAddr) -> Option<T>,
    shutdown: CancellationToken,
) {
    let connections = Connections::new(connections_max(limits.connections_max));
    let mut http = http1::Builder::new();
    // hyper's bound is for the head of a request and for the time between two requests alike.
    http.timer(TokioTimer::new()).header_read_timeout(limits.idle_max);
    http.max_buf_size(BUFFER_BYTES_MAX);
    let server = Server { http, router, limits, shutdown: shutdown.clone(), tracker: TaskTracker::new() };
    let closed = ThrottledLog::default();
    while let Some(accepted) = shutdown.run_until_cancelled(listener.accept()).await {
        match accepted {
            Ok((stream, peer)) => {
                // Nobody makes room for a peer that has as many as it may.
                let admitted = match admit(peer) {
                    Some(admitted) => connections.admit().await.map(|permit| (admitted, permit)),
                    None => None,
                };
                match admitted {
                    Some((admitted, permit)) => server.serve(stream, peer, permit, admitted),
                    None => {
                        if let Some(closed) = closed.count() {
                            tracing::warn!(
                                closed,
                                "connections are closed: as many are open as one address, or all, may have"
                            );
                        }
                    }
                }
            }
            Err(error) if is_of_the_client(&error) => {}
            Err(error) => {
                tracing::error!(%error, "no connection can be accepted");
                let _ = shutdown.run_until_cancelled(sleep(ACCEPT_PAUSE)).await;
            }
        }
    }
    drop(listener);
    server.tracker.close();
    // What is not done by then is broken off with the process.
    let _ = timeout(DRAIN_MAX, server.tracker.wait()).await;
}

struct Server {
    http: http1::Builder,
    router: Router,
    limits: Limits,
    shutdown: CancellationToken,
    tracker: TaskTracker,
}

impl Server {
    fn serve<T: Send + 'static>(&self, stream: TcpStream, peer: SocketAddr, permit: Permit, admitted: T) {
        // Without this an event of a stream may wait for the client's acknowledgement of the one before.
        let _ = stream.set_nodelay(true);
        let mut stream = TimeoutWriter::new(stream);
        stream.set_timeout(Some(self.limits.write_max));
        let (router, marks) = (self.router.clone(), permit.clone());
        let service = service_fn(move |request: hyper::Request<Incoming>| {
            let answer = answer(router.clone(), request.map(Body::new), peer, marks.busy());
            async move { Ok::<_, Infallible>(answer.await) }
        });
        let connection = self.http.serve_connection(TokioIo::new(Box::pin(stream)), service);
        let (shutdown, head_max) = (self.shutdown.clone(), self.limits.head_max);
        self.tracker.spawn(async move {
            let _admitted = admitted;
            let mut connection = std::pin::pin!(connection);
            let silent = async {
                sleep(head_max).await;
                if permit.has_asked() {
                    std::future::pending().await
                }
            };
            let ended = tokio::select! {
                ended = connection.as_mut() => ended,
                () = permit.evicted() => return,
                () = silent => return,
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

/// The router's answer, which keeps the connection at work until the last of its body was taken up.
async fn answer(mut router: Router, mut request: Request, peer: SocketAddr, busy: Busy) -> Response {
    request.extensions_mut().insert(ConnectInfo(peer));
    // A router is always ready.
    let response = router.call(request).await.unwrap_or_else(|never: Infallible| match never {});
    response.map(|body| Body::new(BusyBody { body, _busy: busy }))
}

/// A body with what its end sets free.
struct BusyBody {
    body: Body,
    _busy: Busy,
}

impl HttpBody for BusyBody {
    type Data = <Body as HttpBody>::Data;
    type Error = <Body as HttpBody>::Error;

    fn poll_frame(
        mut self: std::pin::Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        std::pin::Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Whether a connection failed before it was accepted, which is nobody's fault here.
fn is_of_the_client(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}
