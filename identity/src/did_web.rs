//! Resolving `did:web` at its web sites: https to public addresses, no redirects, bounded in time and size, and not again
//! for a while.

use std::{
    collections::HashMap,
    fmt,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use futures::future::BoxFuture;
use reqwest::{Client, StatusCode};
use tokio::{
    sync::Semaphore,
    time::{Instant, timeout},
};

use net::ssrf_guard::{self, Purpose, Unreachable};
use proofs::{
    did::{Location, ResolveError, Resolver},
    json::DOCUMENT_BYTES_MAX,
};

/// How long one site may take, from the look-up of its name to the last byte.
const WAIT_MAX: Duration = Duration::from_secs(4);
/// The part of it in which others may have to be done first.
const PERMIT_WAIT_MAX: Duration = Duration::from_millis(250);
/// How long a document is not asked for again. A key that a site takes back may be used for so long.
const KEPT: Duration = Duration::from_secs(60);
/// How long after a failure a document is not asked for again.
const FAILURE_KEPT: Duration = Duration::from_secs(5);
/// Most documents that are kept; paths are of the caller's choice.
const KEPT_MAX: usize = 512;
/// Most bytes that these may have together.
const KEPT_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Sites that are asked at a time.
const ASKED_MAX: usize = 16;

/// Makes a client for an origin, and says under which address it is reached.
type Reach = dyn Fn(String) -> BoxFuture<'static, Result<(Client, String), Unreachable>> + Send + Sync;

/// What was answered, and when it was asked for.
type Kept = HashMap<Location, (Instant, Result<String, ResolveError>)>;

/// The sites of `did:web`.
pub(super) struct DidWebSites {
    reach: Box<Reach>,
    kept: Mutex<Kept>,
    permits: Semaphore,
}

impl fmt::Debug for DidWebSites {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DidWebSites").finish_non_exhaustive()
    }
}

impl DidWebSites {
    /// Sites at public addresses.
    pub(super) fn public() -> Self {
        Self::reached(|origin| {
            Box::pin(async move {
                let client = ssrf_guard::client(Purpose::Identities, &origin).await?;
                Ok((client, origin))
            })
        })
    }

    pub(super) fn reached(
        reach: impl Fn(String) -> BoxFuture<'static, Result<(Client, String), Unreachable>> + Send + Sync + 'static,
    ) -> Self {
        Self { reach: Box::new(reach), kept: Mutex::default(), permits: Semaphore::new(ASKED_MAX) }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        // Nothing panics while it is held.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn ask(&self, location: &Location) -> Result<String, ResolveError> {
        let unavailable = |reason: &str| ResolveError::Unavailable(reason.to_owned());
        // Who waits here keeps a permit that others need, and a site that is slow on purpose must not take them all.
        let permit = timeout(PERMIT_WAIT_MAX, self.permits.acquire()).await;
        let permit = permit.map_err(|_| unavailable("is not asked, as enough others are being asked"))?;
        let _permit = permit.map_err(|_| unavailable("is not asked any more"))?;
        let (client, base) = (self.reach)(location.origin.clone()).await.map_err(|error| match error {
            Unreachable::Unresolved(_) | Unreachable::Client(_) => ResolveError::Unavailable(error.to_string()),
            Unreachable::Forbidden(_) => ResolveError::Refused(error.to_string()),
        })?;
        let sent = client.get(format!("{base}{}", location.path)).header("accept", "application/json").send().await;
        let mut response = sent.map_err(|_| unavailable("cannot be reached"))?;
        match response.status() {
            StatusCode::OK => {}
            status if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS => {
                return Err(ResolveError::Unavailable(format!("answered {status}")));
            }
            status => return Err(ResolveError::Refused(format!("answered {status}"))),
        }
        let mut text = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|_| unavailable("broke off"))? {
            if text.len() + chunk.len() > DOCUMENT_BYTES_MAX {
                return Err(ResolveError::Refused(format!("answered more than {DOCUMENT_BYTES_MAX} bytes")));
            }
            text.extend_from_slice(&chunk);
        }
        String::from_utf8(text).map_err(|_| ResolveError::Refused("answered no UTF-8".to_owned()))
    }
}

#[async_trait]
impl Resolver for DidWebSites {
    async fn fetch(&self, location: &Location) -> Result<String, ResolveError> {
        let now = Instant::now();
        if let Some((asked, answer)) = self.kept().get(location) {
            let kept = if answer.is_ok() { KEPT } else { FAILURE_KEPT };
            if now.duration_since(*asked) < kept {
                return answer.clone();
            }
        }
        let answer = timeout(WAIT_MAX, self.ask(location)).await;
        let answer = answer.unwrap_or_else(|_| Err(ResolveError::Unavailable("did not answer in time".to_owned())));
        let mut kept = self.kept();
        if !has_room(&kept, location, &answer) {
            kept.retain(|_, (asked, answer)| answer.is_ok() && now.duration_since(*asked) < KEPT);
        }
        if has_room(&kept, location, &answer) {
            kept.insert(location.clone(), (now, answer.clone()));
        }
        answer
    }
}

/// A DID may be as long as a body, so locations count as much as what was answered.
fn has_room(kept: &Kept, location: &Location, answer: &Result<String, ResolveError>) -> bool {
    let bytes = |location: &Location, answer: &Result<String, ResolveError>| {
        location.origin.len() + location.path.len() + answer.as_ref().map_or(0, String::len)
    };
    let held: usize = kept.iter().map(|(location, (_, answer))| bytes(location, answer)).sum();
    kept.len() < KEPT_MAX && held + bytes(location, answer) <= KEPT_BYTES_MAX
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    };

    use axum::{Router, extract::Path, http::header, response::IntoResponse};
    use tokio::net::TcpListener;

    use net::ssrf_guard::guarded_client;

    use super::*;

    /// A site on loopback that answers by path, and counts.
    async fn site() -> (DidWebSites, Arc<AtomicUsize>) {
        let asked = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&asked);
        let answer = move |Path(path): Path<String>| async move {
            counted.fetch_add(1, Ordering::SeqCst);
            match path.as_str() {
                "good/did.json" => "{}".into_response(),
                "moved/did.json" => (StatusCode::FOUND, [(header::LOCATION, "/good/did.json")]).into_response(),
                path if path.starts_with("full/") => "x".repeat(DOCUMENT_BYTES_MAX).into_response(),
                "large/did.json" => "x".repeat(DOCUMENT_BYTES_MAX + 1).into_response(),
                "bytes/did.json" => vec![0xff_u8, 0xfe].into_response(),
                "broken/did.json" => StatusCode::BAD_GATEWAY.into_response(),
                _ => StatusCode::NOT_FOUND.into_response(),
            }
        };
        let router = Router::new().route("/{*path}", axum::routing::get(answer));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, router).await });
        let sites = DidWebSites::reached(move |_| {
            let base = base.clone();
            Box::pin(async move { Ok((guarded_client().build().unwrap(), base)) })
        });
        (sites, asked)
    }

    fn location(path: &str) -> Location {
        Location { origin: "https://bank.example".to_owned(), path: path.to_owned() }
    }

    #[tokio::test]
    async fn a_document_is_taken_from_where_it_was_asked_for_and_kept() {
        let (sites, asked) = site().await;
        for _ in 0..3 {
            assert_eq!(sites.fetch(&location("/good/did.json")).await, Ok("{}".to_owned()));
        }
        assert_eq!(asked.load(Ordering::SeqCst), 1);
        for path in ["/moved/did.json", "/large/did.json", "/bytes/did.json", "/missing/did.json"] {
            let answer = sites.fetch(&location(path)).await;
            assert!(matches!(answer, Err(ResolveError::Refused(_))), "{path}: {answer:?}");
        }
        let answer = sites.fetch(&location("/broken/did.json")).await;
        assert!(matches!(answer, Err(ResolveError::Unavailable(_))), "{answer:?}");
        // The redirect was not followed, and a failure is not asked for again at once.
        assert_eq!(asked.load(Ordering::SeqCst), 6);
        assert!(sites.fetch(&location("/broken/did.json")).await.is_err());
        assert_eq!(asked.load(Ordering::SeqCst), 6);
    }

    #[tokio::test]
    async fn large_documents_are_kept_as_long_as_there_is_room() {
        let (sites, asked) = site().await;
        let path = |n: usize| location(&format!("/full/{n:03}/did.json"));
        let room = KEPT_BYTES_MAX / (DOCUMENT_BYTES_MAX + path(0).origin.len() + path(0).path.len());
        for n in 0..=room {
            assert_eq!(sites.fetch(&path(n)).await.map(|text| text.len()), Ok(DOCUMENT_BYTES_MAX));
        }
        assert_eq!((sites.kept().len(), asked.load(Ordering::SeqCst)), (room, room + 1));
        sites.fetch(&path(0)).await.unwrap();
        assert_eq!(asked.load(Ordering::SeqCst), room + 1);
        // What has no room is asked for again.
        sites.fetch(&path(room)).await.unwrap();
        assert_eq!(asked.load(Ordering::SeqCst), room + 2);
    }

    #[tokio::test]
    async fn a_private_address_is_never_asked() {
        let sites = DidWebSites::public();
        for origin in ["https://127.0.0.1", "https://10.0.0.1:8443", "https://[::1]", "http://1.1.1.1"] {
            let location = Location { origin: origin.to_owned(), path: "/.well-known/did.json".to_owned() };
            let answer = sites.fetch(&location).await;
            assert!(matches!(answer, Err(ResolveError::Refused(_))), "{origin}: {answer:?}");
        }
    }
}
