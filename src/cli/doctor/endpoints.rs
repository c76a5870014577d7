//! Checks of HTTP endpoints: the verifiers that are asked, and the address under which clients reach a gateway.

use std::time::Duration;

use reqwest::{Client, redirect::Policy};

use chains::diagnosis::Diagnosis;
use net::origin::origin;

/// Longest that an endpoint may take.
const ANSWER_MAX: Duration = Duration::from_secs(5);

/// Whether a verifier answers.
pub(super) async fn verifier(endpoint: String) -> Vec<Diagnosis> {
    let subject = format!("verifier {}", named(&endpoint));
    let remedy = "start the verifier, or correct its `endpoint`: without it deliveries are not attested";
    vec![match health(&endpoint).await {
        Ok(200) => Diagnosis::ok(subject, "answers"),
        Ok(status) => Diagnosis::wrong(subject, format!("answers {status} to /healthz"), remedy),
        Err(reason) => Diagnosis::wrong(subject, reason, remedy),
    }]
}

/// Whether a gateway answers where its clients will look for it. It may not have been started yet.
pub(super) async fn base_url(url: String) -> Vec<Diagnosis> {
    let subject = format!("base_url {}", named(&url));
    let remedy =
        "start the gateway and look again; else see to the name's address, and to what stands before the gateway";
    let mut found = vec![match health(&url).await {
        Ok(200) => Diagnosis::ok(&*subject, "answers"),
        Ok(status) => Diagnosis::warning(&*subject, format!("answers {status} to /healthz"), remedy),
        Err(reason) => Diagnosis::warning(&*subject, reason, remedy),
    }];
    let is_local = url::Url::parse(&url).is_ok_and(|url| match url.host() {
        Some(url::Host::Ipv4(address)) => address.is_loopback(),
        Some(url::Host::Ipv6(address)) => address.is_loopback(),
        Some(url::Host::Domain(name)) => name == "localhost",
        None => false,
    });
    if !url.starts_with("https://") && !is_local {
        let remedy = "put a proxy with a certificate before the gateway, and write https:// in `base_url`";
        found.push(Diagnosis::warning(subject, "is plain http beyond this machine", remedy));
    }
    found
}

/// The status that an endpoint answers to `/healthz`; its body is not read.
async fn health(endpoint: &str) -> Result<u16, String> {
    let client = Client::builder().timeout(ANSWER_MAX).redirect(Policy::none()).build();
    let client = client.map_err(|error| error.to_string())?;
    let answer = client.get(format!("{}/healthz", endpoint.trim_end_matches('/'))).send().await;
    match answer {
        Ok(answer) => Ok(answer.status().as_u16()),
        Err(error) if error.is_timeout() => Err(format!("does not answer within {} s", ANSWER_MAX.as_secs())),
        // The error's own text names the whole address.
        Err(error) => Err(format!("does not answer: {}", causes(&error.without_url()))),
    }
}

/// An error with what caused it: a certificate that has ended is told only there.
fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text = format!("{text}: {inner}");
        cause = inner.source();
    }
    text
}

/// What an endpoint is called: nothing behind its origin is shown.
fn named(endpoint: &str) -> String {
    origin(endpoint).unwrap_or_else(|| "that is not an address".to_owned())
}
