//! Hoarding by callers, who take what there is for all: the memory for bodies, the time of connections, the windows that are
//! open, and the journal, which keeps everything for ever. Beside each attack somebody honest is served.

use std::{cell::RefCell, convert::Infallible, time::Duration};

use axum::body::Bytes;
use futures::{StreamExt, stream};
use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
    time::{Instant, sleep, timeout},
};

use config::HttpConfig;
use net::server;

use super::{
    identities::{enveloped, holder},
    limits::{ATTACKER, QUOTE_REQUESTS, VICTIM, assert_limited, batch, flood, limited, order, post, request},
    quote_requests::collect,
    *,
};

const ALL_KIB: usize = 64 * 1_024;

/// A gateway with the limits it has by default.
fn gateway(change: impl FnOnce(&mut GatewayConfig)) -> Arc<Gateway> {
    Arc::new(Gateway::configured(|config| {
        config.limits.exempt = Networks::default();
        change(config);
    }))
}

/// A write whose body comes in these chunks.
fn chunked(from: &str, chunks: impl futures::Stream<Item = Bytes> + Send + 'static) -> Request<Body> {
    let mut request = request(from, "POST", "/v1/payments", None);
    *request.body_mut() = Body::from_stream(chunks.map(Ok::<_, Infallible>));
    request
}

fn spaces(bytes: usize) -> Bytes {
    Bytes::from(vec![b' '; bytes])
}

/// Sends from each address as many bodies as it may have at work, each without its last byte.
async fn withhold(gateway: &Arc<Gateway>, addresses: impl Iterator<Item = String>) -> Vec<JoinHandle<Answer>> {
    let mut sent = Vec::new();
    for address in addresses {
        for _ in 0..64 {
            let request = chunked(&address, stream::iter([spaces(65_535)]).chain(stream::pending()));
            let gateway = gateway.clone();
            sent.push(tokio::spawn(async move { gateway.send(request).await }));
        }
    }
    // Until there is nothing left to do.
    sleep(Duration::from_millis(1)).await;
    sent
}

#[tokio::test(start_paused = true)]
async fn bodies_that_do_not_end_take_the_share_of_their_callers_and_no_more() {
    let one_site = |n: usize| format!("2001:db8:1:{n:x}::1");
    let one_each = |n: usize| format!("198.51.100.{n}");
    let addresses: [(&dyn Fn(usize) -> String, usize); 2] = [(&one_site, ALL_KIB / 8), (&one_each, 16 * ALL_KIB / 32)];
    for (address, share) in addresses {
        let gateway = gateway(|_| ());
        let sent = withhold(&gateway, (1..=16).map(address)).await;
        assert_eq!(gateway.state.writes.free_kibibytes(), ALL_KIB - share);
        post(&gateway, VICTIM, "/v1/payments", &order(0)).await.expect(200);
        let mut refused = 0;
        for answer in futures::future::join_all(sent).await {
            match answer.unwrap() {
                answer if answer.status == StatusCode::TOO_MANY_REQUESTS => {
                    answer.expect_error(429, "RATE_LIMITED");
                    refused += 1;
                }
                answer => assert!(answer.expect_error(400, "INVALID_REQUEST").message().contains("did not arrive")),
            }
        }
        assert_eq!(refused, 16 * 64 - share / 64);
        assert_eq!(gateway.state.writes.free_kibibytes(), ALL_KIB);
    }
    // The control: where callers have no shares, the same bodies keep everybody out.
    let gateway = gateway(|config| config.limits.exempt = Networks::parse(["198.51.100.0/24"]).unwrap());
    let sent = withhold(&gateway, (1..=16).map(one_each)).await;
    assert_eq!(gateway.state.writes.free_kibibytes(), 0);
    post(&gateway, VICTIM, "/v1/payments", &order(0)).await.expect_error(503, "SERVICE_UNAVAILABLE");
    drop(sent);
}

#[tokio::test(start_paused = true)]
async fn a_body_keeps_a_least_rate_or_is_ended() {
    let gateway = gateway(|config| {
        config.http.body_ms_max = 60_000;
        config.http.body_bytes_max = 262_144;
    });
    let paced = |chunk: Bytes, each: Duration| {
        stream::repeat(chunk).then(move |chunk| async move {
            sleep(each).await;
            chunk
        })
    };
    let dribbled = chunked(ATTACKER, paced(spaces(1), Duration::from_millis(500)));
    let withheld = chunked(ATTACKER, stream::iter([spaces(32 * 1_024)]).chain(stream::pending()));
    // The control: who is slow, but keeps the rate.
    let whole = stream::iter([Bytes::from(order(0).to_string())]);
    let slow = chunked(VICTIM, whole.chain(paced(spaces(15 * 1_024), Duration::from_millis(900)).take(8)));

    let (begun, ended) = (Instant::now(), RefCell::new(Vec::new()));
    let send = async |name: &'static str, request| {
        let answer = gateway.send(request).await;
        ended.borrow_mut().push((name, begun.elapsed()));
        answer
    };
    let (dribbled, withheld, slow) =
        tokio::join!(send("dribbled", dribbled), send("withheld", withheld), send("slow", slow));
    let dribbled = dribbled.expect_error(400, "INVALID_REQUEST");
    assert!(dribbled.message().starts_with("body did not arrive in time"), "{dribbled:?}");
    assert_eq!(dribbled.headers["connection"], "close");
    withheld.expect_error(400, "INVALID_REQUEST");
    slow.expect(200);
    // The first bytes are worth their time, and no more. The clock stands while anybody has something to do.
    let ended = ended.into_inner();
    let names: Vec<_> = ended.iter().map(|(name, _)| *name).collect();
    assert_eq!(names, ["dribbled", "withheld", "slow"]);
    assert!(ended[0].1 <= Duration::from_secs(4) && ended[1].1 <= Duration::from_secs(6), "{ended:?}");
}

/// Over a real connection, where an answer can be lost with what was never read.
#[tokio::test]
async fn a_refused_write_is_answered_without_its_body_and_its_connection_ended() {
    let gateway = gateway(|config| config.limits.writes_per_address_max = 0);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (limits, stop) = (HttpConfig::default().limits(), CancellationToken::new());
    let serving = server::serve(listener, gateway.router.clone(), limits, |_| Some(()), stop.clone());
    let serving = tokio::spawn(serving);
    let head =
        "POST /v1/payments HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 60000\r\n\r\n";
    // Everything that comes until the connection is closed.
    let ask = async |rest: &str| {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(format!("{head}{rest}").as_bytes()).await.unwrap();
        let mut answers = String::new();
        stream.read_to_string(&mut answers).await.unwrap();
        assert!(answers.starts_with("HTTP/1.1 429 "), "{answers}");
        answers.to_ascii_lowercase()
    };
    // It is answered while the time in which a body may come lasts: nobody waits for the rest.
    let body_time = Duration::from_millis(HttpConfig::default().body_ms_max);
    let answer = timeout(body_time, ask("{")).await.expect("answered before the time of a body is over");
    assert!(answer.contains("connection: close"), "{answer}");

    // The control: who sends it to its end is answered over a connection that goes on.
    let next = "GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
    let answers = ask(&format!("{}{next}", " ".repeat(60_000))).await;
    assert_eq!(answers.matches("http/1.1 ").count(), 2, "{answers}");
    stop.cancel();
    serving.await.unwrap();
}

#[tokio::test]
async fn a_proof_is_no_discount() {
    let gateway = limited(|_| ());
    // Somebody new each time, as far as keys tell.
    let asked = |n: usize| enveloped(&holder(u8::try_from(n).unwrap() + 1), &batch(n));
    let (opened, refused) = flood(async |n| post(&gateway, ATTACKER, QUOTE_REQUESTS, &asked(n)).await).await;
    assert_eq!(opened, 2);
    assert_limited(refused, "unsigned");
    // The control: from elsewhere. Both pay.
    let answer = post(&gateway, VICTIM, QUOTE_REQUESTS, &asked(9)).await.expect(200);
    let left = answer.headers["ratelimit"].to_str().unwrap();
    assert!(left.contains(r#""unsigned";r=13;"#) && left.contains(r#""accepted";r=2;"#), "{left}");
}

#[tokio::test]
async fn what_is_kept_for_ever_is_paid_for_by_its_length() {
    let padded = |mut body: Value| {
        set(&mut body, "/padding", json!("x".repeat(60 * 1_024)));
        body
    };
    let payer = |mut body: Value, n: usize| {
        set(&mut body, "/source/account", json!(format!("0x{:040x}", n + 1)));
        body
    };
    let limits = |config: &mut GatewayConfig| {
        config.limits.unsigned.burst = 40;
        config.limits.writes.burst = 40;
        config.limits.accepted.burst = 20;
    };
    // Quote-requests of an address, submissions of an address, and submissions of a payer.
    for (is_long, most) in [(true, 1), (false, 3)] {
        let gateway = limited(limits);
        let body = |body: Value| if is_long { padded(body) } else { body };
        let (opened, refused) = flood(async |n| post(&gateway, ATTACKER, QUOTE_REQUESTS, &body(batch(n))).await).await;
        assert_eq!(opened, most);
        assert_limited(refused, "unsigned");
    }
    let gateway = limited(limits);
    let from_one = async |n| post(&gateway, ATTACKER, "/v1/payments", &payer(padded(order(n)), n)).await;
    let (submitted, refused) = flood(from_one).await;
    assert_eq!(submitted, 2);
    assert_limited(refused, "writes");
    let from_many = async |n| post(&gateway, &format!("192.0.2.{}", n + 1), "/v1/payments", &padded(order(n))).await;
    let (submitted, refused) = flood(from_many).await;
    assert_eq!(submitted, 1);
    assert_limited(refused, "accepted");
    // The control.
    for n in 0..10 {
        post(&gateway, VICTIM, "/v1/payments", &payer(order(n), 100)).await.expect(200);
    }
}

#[tokio::test]
async fn one_caller_has_a_share_of_the_windows() {
    // Two of an address or a DID, eight of a /48.
    let gateway = gateway(|config| config.http.quote_requests_open_max = 32);
    let open = async |from: &str, n: usize| post(&gateway, from, QUOTE_REQUESTS, &batch(n)).await;
    let first = open(ATTACKER, 0).await.expect(200);
    open(ATTACKER, 1).await.expect(200);
    let refused = open(ATTACKER, 2).await.expect_error(429, "RATE_LIMITED");
    assert!(refused.message().contains("open quote-requests"), "{refused:?}");
    // What exists is answered, and others are served.
    assert_eq!(open(ATTACKER, 0).await.expect(200).body["idempotent_replay"], true);
    open(VICTIM, 3).await.expect(200);

    let mut of_site = 0;
    for n in 0..12 {
        let answer = open(&format!("2001:db8:1:{n:x}::1"), 10 + n).await;
        of_site += usize::from(answer.status == StatusCode::OK);
    }
    assert_eq!(of_site, 8);
    open("2001:db8:2::1", 30).await.expect(200);

    let proven = async |n: usize| {
        let from = format!("192.0.2.{}", n + 1);
        post(&gateway, &from, QUOTE_REQUESTS, &enveloped(&holder(1), &batch(40 + n))).await
    };
    for n in 0..2 {
        proven(n).await.expect(200);
    }
    proven(2).await.expect_error(429, "RATE_LIMITED");

    // What is over by the read model is nobody's any more.
    collect(&gateway, &first.body["quote_request_id"].as_str().unwrap().parse().unwrap(), &[1]).await;
    let again = async {
        while open(ATTACKER, 2).await.status != StatusCode::OK {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), again).await.unwrap();
    open(ATTACKER, 4).await.expect_error(429, "RATE_LIMITED");
}

#[tokio::test]
async fn windows_that_never_opened_are_given_back() {
    let gateway = gateway(|config| config.http.quote_requests_open_max = 1);
    for n in 0..3 {
        gateway.journal.inject(journal::memory::Fault::Unavailable);
        let answer = post(&gateway, ATTACKER, QUOTE_REQUESTS, &batch(n)).await;
        // Counted among all for a moment, and among his own no more.
        assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE, "{n}: {answer:?}");
    }
}
