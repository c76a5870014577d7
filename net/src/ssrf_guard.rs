//! The SSRF guard: an endpoint that a stranger named is reached by https at public addresses, resolved once and pinned.
//!
//! What is judged is the parsed host, never the text: a URL parser knows `0x7f.1`, `2130706433`, `127.1` and full-width
//! digits for what they are. Names are judged by every address they have now, and the connection can go to no other.

use std::{
    future::Future,
    io,
    net::{IpAddr, SocketAddr},
    sync::{Arc, LazyLock},
    time::Duration,
};

use reqwest::{
    Client, ClientBuilder,
    dns::{Addrs, Name, Resolve, Resolving},
    redirect,
};
use tokio::{net::lookup_host, sync::Semaphore, time::timeout};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto::aws_lc_rs};
use url::{Host, Url};

use crate::public_address::is_public;

/// The port of https. Below [`PORTS_FREE_FROM`] it is the only one: the others belong to services that speak something
/// else and should not hear from us.
const HTTPS_PORT: u16 = 443;
const PORTS_FREE_FROM: u16 = 1024;
/// Most addresses of a name that are looked at.
const ADDRESSES_MAX: usize = 64;
/// Names that are looked up at a time for one purpose. Each takes a thread for as long as the system's resolver asks name servers of
/// a stranger's choice.
const LOOK_UPS_MAX: usize = 32;
/// How long a look-up may take, with the wait until fewer are under way.
const LOOK_UP_MAX: Duration = Duration::from_secs(3);
/// How long a connection may take to be made, of the whole time of a call.
const CONNECT_MAX: Duration = Duration::from_secs(5);

/// What an endpoint is called for. Look-ups of one purpose wait for none of another: slow name servers of strangers' webhooks keep no
/// verifier from being asked (bulkhead).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// DID documents of sites.
    Identities,
    /// Attestations of deliveries.
    Verifiers,
    /// Messages to owners of payments.
    Webhooks,
}

/// Why an endpoint is not called. The texts go behind the endpoint's name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unreachable {
    /// It must not be called.
    #[error("{0}")]
    Forbidden(String),
    /// Its name has no address now.
    #[error("cannot be resolved: {0}")]
    Unresolved(String),
    /// There is no client to call it with.
    #[error("cannot be called: {0}")]
    Client(String),
}

/// What every client has in common: answers come from where they were asked for, or not at all.
pub fn guarded_client() -> ClientBuilder {
    Client::builder().redirect(redirect::Policy::none()).no_proxy().retry(reqwest::retry::never()).referer(false)
}

/// A client that can reach only the public addresses that `origin` stands for now.
///
/// # Errors
/// Why it is not called, for logs.
pub async fn client(purpose: Purpose, origin: &str) -> Result<Client, Unreachable> {
    let pinned = judged(purpose, origin).await?;
    let tls = TLS.clone().map_err(Unreachable::Client)?;
    let builder = guarded_client()
        .tls_backend_preconfigured(tls)
        .https_only(true)
        .pool_max_idle_per_host(0)
        .connect_timeout(CONNECT_MAX);
    builder.dns_resolver(pinned).build().map_err(|error| Unreachable::Client(error.to_string()))
}

/// TLS of all clients of [`client`], with the system's root certificates: each would read them from disk otherwise.
static TLS: LazyLock<Result<ClientConfig, String>> = LazyLock::new(|| {
    let mut roots = RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    if roots.add_parsable_certificates(found.certs).0 == 0 {
        return Err(format!("the system has no root certificates: {:?}", found.errors));
    }
    let config = ClientConfig::builder_with_provider(aws_lc_rs::default_provider().into());
    let config = config.with_safe_default_protocol_versions().map_err(|error| error.to_string())?;
    Ok(config.with_root_certificates(roots).with_no_client_auth())
});

/// Whether `origin` could be called now: the judgement of [`client`], without what a client costs.
///
/// # Errors
/// Why it is not called, for logs.
pub async fn judge(purpose: Purpose, origin: &str) -> Result<(), Unreachable> {
    judged(purpose, origin).await.map(drop)
}

async fn judged(purpose: Purpose, origin: &str) -> Result<Pinned, Unreachable> {
    let forbidden = |reason: &str| Err(Unreachable::Forbidden(reason.to_owned()));
    let url = Url::parse(origin).map_err(|error| Unreachable::Forbidden(error.to_string()))?;
    if url.scheme() != "https" {
        return forbidden("is neither trusted nor https");
    }
    let port = url.port_or_known_default().unwrap_or(HTTPS_PORT);
    if port != HTTPS_PORT && port < PORTS_FREE_FROM {
        return forbidden(&format!("is not trusted and names port {port}, which belongs to another service"));
    }
    let (name, addresses) = match url.host() {
        Some(Host::Ipv4(address)) => (String::new(), vec![SocketAddr::new(IpAddr::V4(address), port)]),
        Some(Host::Ipv6(address)) => (String::new(), vec![SocketAddr::new(IpAddr::V6(address), port)]),
        Some(Host::Domain(name)) => {
            let asked = (name.to_owned(), port);
            let look_up = async move { Ok(lookup_host(asked).await?.take(ADDRESSES_MAX + 1).collect()) };
            (name.to_owned(), look_ups(purpose).answer(look_up).await?)
        }
        None => return forbidden("names no host"),
    };
    all_public(&addresses).map_err(Unreachable::Forbidden)?;
    Ok(Pinned { name, addresses })
}

/// Those of all guarded clients of a purpose.
fn look_ups(purpose: Purpose) -> &'static LookUps {
    static IDENTITIES: LazyLock<LookUps> = LazyLock::new(LookUps::default);
    static VERIFIERS: LazyLock<LookUps> = LazyLock::new(LookUps::default);
    static WEBHOOKS: LazyLock<LookUps> = LazyLock::new(LookUps::default);
    match purpose {
        Purpose::Identities => &IDENTITIES,
        Purpose::Verifiers => &VERIFIERS,
        Purpose::Webhooks => &WEBHOOKS,
    }
}

/// Look-ups of names, so many at a time. Nobody can end one: who gives up leaves it at work, and it counts until it is done.
struct LookUps {
    permits: Arc<Semaphore>,
    answer_max: Duration,
}

impl Default for LookUps {
    fn default() -> Self {
        Self::new(LOOK_UPS_MAX, LOOK_UP_MAX)
    }
}

impl LookUps {
    fn new(permits: usize, answer_max: Duration) -> Self {
        Self { permits: Arc::new(Semaphore::new(permits)), answer_max }
    }

    /// What `look_up` finds, once it may begin.
    ///
    /// # Errors
    /// [`Unreachable::Unresolved`], also where it could not begin in time.
    async fn answer<T: Send + 'static>(
        &self,
        look_up: impl Future<Output = io::Result<T>> + Send + 'static,
    ) -> Result<T, Unreachable> {
        let answered = async {
            let permit = Arc::clone(&self.permits).acquire_owned().await.map_err(io::Error::other)?;
            let at_work = tokio::spawn(async move {
                let _permit = permit;
                look_up.await
            });
            at_work.await.map_err(io::Error::other)?
        };
        let answered = timeout(self.answer_max, answered).await;
        let unresolved = |reason: String| Unreachable::Unresolved(reason);
        answered
            .map_err(|_| unresolved(format!("no answer within {} s", self.answer_max.as_secs())))?
            .map_err(|error| unresolved(error.to_string()))
    }
}

/// One private address among public ones is a trap, not a choice, so all of them have to be public.
fn all_public(addresses: &[SocketAddr]) -> Result<(), String> {
    match addresses {
        [] => return Err("resolves to no address".to_owned()),
        many if many.len() > ADDRESSES_MAX => return Err("resolves to too many addresses".to_owned()),
        _ => {}
    }
    match addresses.iter().find(|address| !is_public(address.ip())) {
        Some(address) => Err(format!("is neither trusted nor at a public address: {}", address.ip())),
        None => Ok(()),
    }
}

/// Knows one name, by the addresses that were judged. There is nothing else to ask, so no second answer of a name
/// server is ever believed.
#[derive(Debug, Clone)]
struct Pinned {
    name: String,
    addresses: Vec<SocketAddr>,
}

impl Resolve for Pinned {
    fn resolve(&self, name: Name) -> Resolving {
        let Self { name: judged, addresses } = self.clone();
        Box::pin(async move {
            if !judged.eq_ignore_ascii_case(name.as_str()) {
                return Err(format!("{} was not judged", name.as_str()).into());
            }
            let addresses: Addrs = Box::new(addresses.into_iter());
            Ok(addresses)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::{
        str::FromStr,
        sync::atomic::{AtomicUsize, Ordering},
    };

    use tokio::{net::TcpListener, sync::oneshot, task::yield_now, time::Instant};

    use super::*;
    use crate::origin::origin;

    #[test]
    fn one_private_address_spoils_all() {
        let address = |text: &str| SocketAddr::new(text.parse().unwrap(), 443);
        assert!(all_public(&[address("1.1.1.1"), address("2606:4700::1111")]).is_ok());
        assert!(all_public(&[address("1.1.1.1"), address("10.0.0.1")]).is_err());
        assert!(all_public(&[]).is_err());
        assert!(all_public(&vec![address("1.1.1.1"); ADDRESSES_MAX + 1]).is_err());
    }

    /// Every way of writing an address that is ours, and of making a name lead to one.
    const PRIVATE_HOSTS: [&str; 53] = [
        "127.0.0.1",
        "127.1",
        "127.0.1",
        "2130706433",
        "0x7f000001",
        "0x7f.0.0.1",
        "0177.0.0.1",
        "017700000001",
        "127.0.0.1.",
        "%31%32%37.0.0.1",
        "１２７.０.０.１",
        "127。0。0。1",
        "①②⑦.0.0.1",
        "0",
        "0.0.0.0",
        "0.1.2.3",
        "10.0.0.1",
        "100.64.0.1",
        "100.127.255.255",
        "169.254.169.254",
        "2852039166",
        "0xa9fea9fe",
        "172.16.0.1",
        "192.168.0.1",
        "198.18.0.1",
        "224.0.0.1",
        "255.255.255.255",
        "[::]",
        "[::1]",
        "[0:0:0:0:0:0:0:1]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[::ffff:10.0.0.1]",
        "[::ffff:169.254.169.254]",
        "[::127.0.0.1]",
        "[64:ff9b::127.0.0.1]",
        "[64:ff9b::a9fe:a9fe]",
        "[64:ff9b:1::1]",
        "[2002:7f00:1::]",
        "[2002:a9fe:a9fe::1]",
        "[2001:0:4136:e378:8000:63bf:3fff:fdd2]",
        "[2606:4700::5efe:10.0.0.1]",
        "[2606:4700::200:5efe:127.0.0.1]",
        "[fe80::1]",
        "[fec0::1]",
        "[fd00::1]",
        "[ff02::1]",
        "[100::1]",
        "[5f00::1]",
        "localhost",
        "LOCALHOST",
        "localhost.",
        "ｌｏｃａｌｈｏｓｔ",
    ];

    /// Origins that are not https at a public address alone, at a port that may be called.
    const FORBIDDEN: [&str; 20] = [
        "http://1.1.1.1",
        "https://user@1.1.1.1",
        "https://user:password@1.1.1.1",
        "https://1.1.1.1@127.0.0.1",
        "https://1.1.1.1:22",
        "https://1.1.1.1:25",
        "https://1.1.1.1:80",
        "https://1.1.1.1:0",
        "https://1.1.1.1:99999",
        "https://1.1.1.1/path",
        "https://1.1.1.1?query",
        "https://1.1.1.1#fragment",
        "https://1.1.1.1\\@127.0.0.1",
        "https://1.1.1.1 ",
        "https://1.1.1.1\t",
        "\u{1}https://1.1.1.1",
        "https://[fe80::1%25eth0]",
        "https://",
        "file:///etc/passwd",
        "gopher://1.1.1.1",
    ];

    #[tokio::test]
    async fn no_notation_of_a_private_host_is_called() {
        for host in PRIVATE_HOSTS {
            for port in ["", ":8443"] {
                let text = format!("https://{host}{port}");
                // No origin at all is as good as one that is refused.
                let Some(origin) = origin(&text) else { continue };
                assert!(judge(Purpose::Verifiers, &origin).await.is_err(), "{text} as {origin}");
                assert!(client(Purpose::Verifiers, &origin).await.is_err(), "{text} as {origin}");
            }
        }
        for text in FORBIDDEN {
            let refused = match origin(text) {
                Some(origin) => judge(Purpose::Verifiers, &origin).await,
                None => Err(Unreachable::Forbidden("is not an origin".to_owned())),
            };
            assert!(refused.is_err(), "{text:?}");
        }
        for text in ["https://1.1.1.1", "https://1.1.1.1:8443", "https://[2606:4700::1111]", "https://[::ffff:8.8.8.8]"]
        {
            let origin = origin(text).unwrap();
            assert_eq!(judge(Purpose::Verifiers, &origin).await, Ok(()), "{text}");
            assert!(client(Purpose::Verifiers, &origin).await.is_ok(), "{text}");
        }
    }

    /// Whoever gives up frees nothing: a stuck look-up counts until it is done, and nobody begins another in its place.
    #[tokio::test(start_paused = true)]
    async fn stuck_look_ups_are_so_many_and_no_more() {
        let look_ups = Arc::new(LookUps::new(2, LOOK_UP_MAX));
        let begun = Arc::new(AtomicUsize::new(0));
        let look_up = |coming: oneshot::Receiver<io::Result<u8>>| {
            let (look_ups, begun) = (Arc::clone(&look_ups), Arc::clone(&begun));
            tokio::spawn(async move {
                let look_up = async move {
                    begun.fetch_add(1, Ordering::SeqCst);
                    coming.await.unwrap()
                };
                look_ups.answer(look_up).await
            })
        };
        let (ends, stuck): (Vec<_>, Vec<_>) = (0..2)
            .map(|_| {
                let (end, coming) = oneshot::channel();
                (end, look_up(coming))
            })
            .unzip();
        while begun.load(Ordering::SeqCst) < 2 {
            yield_now().await;
        }
        // One caller is gone at once, the other gives up when its time is over.
        let mut stuck = stuck.into_iter();
        let gone = stuck.next().unwrap();
        gone.abort();
        assert!(gone.await.unwrap_err().is_cancelled());
        let started = Instant::now();
        let late = stuck.next().unwrap().await.unwrap();
        assert!(matches!(&late, Err(Unreachable::Unresolved(_))), "{late:?}");
        assert_eq!((look_ups.permits.available_permits(), started.elapsed()), (0, LOOK_UP_MAX));
        // Who comes now is told the same, and his look-up never begins.
        let (_end, coming) = oneshot::channel();
        assert_eq!(look_up(coming).await.unwrap(), late);
        assert_eq!(begun.load(Ordering::SeqCst), 2);
        // Ends of any kind make room: an answer, and a failure.
        for (end, answer) in ends.into_iter().zip([Ok(1), Err(io::Error::other("no such name"))]) {
            end.send(answer).unwrap();
        }
        while look_ups.permits.available_permits() < 2 {
            yield_now().await;
        }
        let (end, coming) = oneshot::channel();
        end.send(Ok(7)).unwrap();
        assert_eq!(look_up(coming).await.unwrap(), Ok(7));
    }

    /// Whoever fills the look-ups of one purpose is in nobody's way for another.
    #[tokio::test]
    async fn a_purpose_waits_for_none_of_another() {
        let webhooks = look_ups(Purpose::Webhooks);
        let all = webhooks.permits.acquire_many(LOOK_UPS_MAX as u32).await.unwrap();
        for free in [Purpose::Identities, Purpose::Verifiers] {
            assert_eq!(look_ups(free).answer(async { Ok(7) }).await, Ok(7), "{free:?}");
        }
        drop(all);
    }

    /// A name server that answers otherwise the second time is never asked a second time, and a client that was made
    /// for one name connects to no other.
    #[tokio::test]
    async fn a_name_stands_for_the_addresses_that_were_judged() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let connections = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&connections);
        tokio::spawn(async move {
            while listener.accept().await.is_ok() {
                counted.fetch_add(1, Ordering::SeqCst);
            }
        });
        let pinned = |name: &str| Pinned {
            name: name.to_owned(),
            addresses: vec![SocketAddr::new(IpAddr::from_str("127.0.0.1").unwrap(), port)],
        };
        let ask = async |pinned: Pinned, host: &str| {
            let client = guarded_client().https_only(true).dns_resolver(pinned).build().unwrap();
            let request = client.get(format!("https://{host}:{port}/")).timeout(Duration::from_secs(30));
            request.send().await.map(drop).unwrap_err().to_string()
        };
        // Here `localhost` does resolve, to where something listens; only the judged name is connected to all the same.
        ask(pinned("verifier.example"), "localhost").await;
        ask(pinned(""), "localhost").await;
        ask(pinned("verifier.example"), "localhost.").await;
        assert_eq!(connections.load(Ordering::SeqCst), 0);
        let client = guarded_client().dns_resolver(pinned("Verifier.example")).build().unwrap();
        let sent = client.get(format!("http://verifier.example:{port}/")).timeout(Duration::from_millis(200)).send();
        assert!(sent.await.is_err());
        assert_eq!(connections.load(Ordering::SeqCst), 1);
    }
}
