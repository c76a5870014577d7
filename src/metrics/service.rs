//! The listener of `/metrics`: whoever reaches it reads everything, and however often it is read, it is written once a second.

use std::{sync::Arc, time::Duration};

use axum::{
    Router,
    body::Bytes,
    extract::State,
    http::header,
    response::{IntoResponse, Response},
    routing::get,
};
use metrics_exporter_prometheus::PrometheusHandle;
use tokio::{
    net::TcpListener,
    sync::Mutex,
    time::{Instant, sleep},
};
use tokio_util::sync::CancellationToken;

use net::server::{self, Limits};

/// How long what was written is good for.
const FRESH: Duration = Duration::from_secs(1);
/// How often samples are put into their buckets; until then each takes memory.
const UPKEEP_EVERY: Duration = Duration::from_secs(5);
/// The format, with its version.
const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";
/// Readers are few, and of the operators' own.
const LIMITS: Limits = Limits {
    connections_max: 16,
    head_max: Duration::from_secs(5),
    idle_max: Duration::from_secs(120),
    write_max: Duration::from_secs(10),
};

/// What is written, and when it was last.
struct Page<F> {
    handle: PrometheusHandle,
    sample: F,
    last: Mutex<Option<(Instant, Bytes)>>,
}

/// Answers until `shutdown`.
pub(super) async fn serve(
    listener: TcpListener,
    handle: PrometheusHandle,
    sample: impl Fn() + Send + Sync + 'static,
    shutdown: CancellationToken,
) {
    let upkeep = {
        let handle = handle.clone();
        async move {
            loop {
                sleep(UPKEEP_EVERY).await;
                handle.run_upkeep();
            }
        }
    };
    let page = Arc::new(Page { handle, sample, last: Mutex::default() });
    let router = Router::new().route("/metrics", get(read)).with_state(page);
    let served = server::serve(listener, router, LIMITS, |_| Some(()), shutdown);
    tokio::select! {
        () = served => {}
        () = upkeep => {}
    }
}

async fn read<F: Fn() + Send + Sync + 'static>(State(page): State<Arc<Page<F>>>) -> Response {
    let mut last = page.last.lock().await;
    let text = match &*last {
        Some((at, text)) if at.elapsed() < FRESH => text.clone(),
        _ => {
            (page.sample)();
            let text = Bytes::from(page.handle.render());
            *last = Some((Instant::now(), text.clone()));
            text
        }
    };
    ([(header::CONTENT_TYPE, CONTENT_TYPE)], text).into_response()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use metrics_exporter_prometheus::PrometheusBuilder;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test]
    async fn a_flood_of_readings_is_written_once_a_second() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (handle, sampled, shutdown) = (
            PrometheusBuilder::new().build_recorder().handle(),
            Arc::new(AtomicUsize::new(0)),
            CancellationToken::new(),
        );
        let sample = {
            let sampled = sampled.clone();
            move || {
                sampled.fetch_add(1, Ordering::SeqCst);
            }
        };
        let server = tokio::spawn(serve(listener, handle, sample, shutdown.clone()));
        let begun = Instant::now();
        for _ in 0..200 {
            let mut peer = tokio::net::TcpStream::connect(address).await.unwrap();
            peer.write_all(b"GET /metrics HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").await.unwrap();
            let mut answer = String::new();
            peer.read_to_string(&mut answer).await.unwrap();
            assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("version=0.0.4"), "{answer}");
        }
        let written_at_most = usize::try_from(begun.elapsed().as_secs()).unwrap() + 1;
        assert!((1..=written_at_most).contains(&sampled.load(Ordering::SeqCst)));
        shutdown.cancel();
        server.await.unwrap();
    }
}
