//! Calls to endpoints over HTTP: what is sent, what is made of the answer, and which addresses are never called.

use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
    sync::mpsc,
};
use webhooks::{
    http::HttpEndpoints,
    ports::{Call, Endpoints},
    queue::Answer,
};

const CALL_MAX: Duration = Duration::from_millis(500);
const SHOP: &str = "did:web:shop.example";

/// An endpoint that gives this answer to everything, and tells what it heard.
async fn endpoint(answer: &'static str) -> (String, mpsc::UnboundedReceiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let origin = format!("http://{}", listener.local_addr().unwrap());
    let (heard, told) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Ok((mut connection, _)) = listener.accept().await {
            let heard = heard.clone();
            tokio::spawn(async move {
                let mut request = vec![0; 64 * 1024];
                let read = connection.read(&mut request).await.unwrap_or(0);
                let _ = heard.send(String::from_utf8_lossy(&request[..read]).into_owned());
                if answer.is_empty() {
                    // Until the other side has had enough.
                    let _ = connection.read(&mut request).await;
                } else {
                    let _ = connection.write_all(answer.as_bytes()).await;
                }
            });
        }
    });
    (origin, told)
}

fn call(url: &str) -> Call {
    Call {
        url: url.to_owned(),
        originator: SHOP.to_owned(),
        id: "msg_1".to_owned(),
        timestamp: 1_700_000_000,
        signature: "v1a,x v1,y".to_owned(),
        body: Bytes::from_static(b"{}"),
    }
}

async fn answered(answer: &'static str) -> Answer {
    let (origin, _told) = endpoint(answer).await;
    let endpoints = HttpEndpoints::new([(origin.clone(), SHOP.to_owned())], CALL_MAX).unwrap();
    endpoints.call(call(&format!("{origin}/hooks?shop=7"))).await
}

#[tokio::test]
async fn a_message_has_the_headers_of_the_specification() {
    let (origin, mut told) = endpoint("HTTP/1.1 204 No Content\r\n\r\n").await;
    let endpoints = HttpEndpoints::new([(origin.clone(), SHOP.to_owned())], CALL_MAX).unwrap();
    let url = endpoints.check(&format!("{origin}/hooks?shop=7"), SHOP).await.unwrap();
    assert_eq!(endpoints.call(call(&url)).await, Answer::Taken { status: 204 });
    let heard = told.recv().await.unwrap().to_ascii_lowercase();
    assert!(heard.starts_with("post /hooks?shop=7 http/1.1\r\n"), "{heard}");
    for line in [
        "webhook-id: msg_1",
        "webhook-timestamp: 1700000000",
        "webhook-signature: v1a,x v1,y",
        "content-type: application/json",
    ] {
        assert!(heard.contains(&format!("\r\n{line}\r\n")), "{line} is missing in {heard}");
    }
}

#[tokio::test]
async fn only_a_status_of_success_takes_a_message() {
    let failed = |error: &str, seconds: Option<u64>| Answer::Failed {
        error: error.to_owned(),
        retry_after: seconds.map(Duration::from_secs),
    };
    for (answer, expected) in [
        ("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", Answer::Taken { status: 200 }),
        ("HTTP/1.1 410 Gone\r\ncontent-length: 0\r\n\r\n", Answer::Gone),
        ("HTTP/1.1 500 X\r\ncontent-length: 0\r\n\r\n", failed("answered 500 Internal Server Error", None)),
        (
            "HTTP/1.1 429 X\r\nretry-after: 7\r\ncontent-length: 0\r\n\r\n",
            failed("answered 429 Too Many Requests", Some(7)),
        ),
        // A redirect may lead inside.
        (
            "HTTP/1.1 307 X\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n",
            failed("answered 307 Temporary Redirect", None),
        ),
    ] {
        assert_eq!(answered(answer).await, expected, "{answer}");
    }
    for nonsense in ["SSH-2.0-OpenSSH_9.2\r\n", "HTTP/1.1 200"] {
        assert!(matches!(answered(nonsense).await, Answer::Failed { .. }), "{nonsense}");
    }
}

#[tokio::test]
async fn an_endpoint_that_says_nothing_costs_its_time_and_no_more() {
    let began = Instant::now();
    assert!(matches!(answered("").await, Answer::Failed { error, .. } if error == "no answer within 500 ms"));
    assert!(began.elapsed() < Duration::from_secs(30));
}

/// One that never ends its body, of which nothing is read.
#[tokio::test]
async fn the_body_of_an_answer_is_not_waited_for() {
    let endless = "HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\nx";
    assert_eq!(answered(endless).await, Answer::Taken { status: 200 });
}

#[tokio::test]
async fn what_is_inside_is_not_called_and_nothing_is_said_of_it() {
    let (origin, mut told) = endpoint("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
    let port = origin.rsplit(':').next().unwrap().to_owned();
    let endpoints = HttpEndpoints::new([("http://127.0.0.1:1".to_owned(), SHOP.to_owned())], CALL_MAX).unwrap();
    for url in [
        format!("http://127.0.0.1:{port}/"),
        format!("https://127.0.0.1:{port}/"),
        format!("https://localhost:{port}/"),
        format!("https://[::ffff:127.0.0.1]:{port}/"),
        format!("https://2130706433:{port}/"),
        "https://169.254.169.254/latest/meta-data".to_owned(),
        "https://1.1.1.1:22/".to_owned(),
        "http://1.1.1.1/".to_owned(),
    ] {
        let said = endpoints.check(&url, SHOP).await.unwrap_err().to_string();
        let Answer::Failed { error, .. } = endpoints.call(call(&url)).await else { panic!("{url} was called") };
        for text in [&said, &error] {
            assert!(!text.contains("127.0.0.1") && !text.contains("169.254"), "{url}: {text}");
        }
        assert!(told.try_recv().is_err(), "{url}");
    }
    for bad in ["", "x", "ftp://1.1.1.1/", "https://user@1.1.1.1/", "https://1.1.1.1/#fragment"] {
        assert!(endpoints.check(bad, SHOP).await.is_err(), "{bad}");
    }
}

#[tokio::test]
async fn an_origin_that_the_operator_names_is_for_its_owner_alone() {
    let (origin, mut told) = endpoint("HTTP/1.1 204 No Content\r\n\r\n").await;
    let endpoints = HttpEndpoints::new([(origin.clone(), SHOP.to_owned())], CALL_MAX).unwrap();
    let url = endpoints.check(&origin, SHOP).await.unwrap();
    assert!(endpoints.check(&origin, "did:web:other.example").await.is_err());
    let anothers = Call { originator: "did:web:other.example".to_owned(), ..call(&url) };
    assert!(matches!(endpoints.call(anothers).await, Answer::Failed { .. }));
    assert!(told.try_recv().is_err());
    assert_eq!(endpoints.call(call(&url)).await, Answer::Taken { status: 204 });
}
