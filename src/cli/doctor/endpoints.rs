//! Checks of HTTP endpoints: the verifiers that are asked, and the address under which clients reach a gateway.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use futures::future::join_all;
use reqwest::{Client, redirect::Policy};
use url::Url;

use chains::{diagnosis::Diagnosis, nodes::is_loopback};
use events::event::VerifierRef;
use net::origin::origin;

/// Longest that an endpoint may take.
const ANSWER_MAX: Duration = Duration::from_secs(5);

/// Where those are reached who attest for a chain, one verifier or a set, whatever their accounts.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Attestors {
    /// How many of them have to attest.
    threshold: usize,
    endpoints: BTreeSet<String>,
}

impl Attestors {
    pub(super) fn of(verifier: &VerifierRef) -> Self {
        let endpoints = verifier.members().into_iter().map(|member| member.endpoint);
        Self { threshold: verifier.threshold(), endpoints: endpoints.collect() }
    }
}

/// Whether verifiers answer, as many as have to attest.
pub(super) async fn verifiers(attestors: Attestors) -> Vec<Diagnosis> {
    let Attestors { threshold, endpoints } = attestors;
    let asked = endpoints.into_iter().map(|endpoint| async {
        let answered = match health(&endpoint).await {
            Ok(200) => Ok(()),
            Ok(status) => Err(format!("answers {status} to /healthz")),
            Err(reason) => Err(reason),
        };
        (endpoint, answered)
    });
    judged(threshold, join_all(asked).await)
}

/// What it means that some answer and others, for these reasons, do not.
fn judged(threshold: usize, answered: Vec<(String, Result<(), String>)>) -> Vec<Diagnosis> {
    let (all, answering) = (answered.len(), answered.iter().filter(|(_, answered)| answered.is_ok()).count());
    let shared = shared_hosts(answered.iter().map(|(endpoint, _)| endpoint.as_str()));
    let mut found: Vec<Diagnosis> = Vec::new();
    for (endpoint, answered) in answered {
        let subject = format!("verifier {}", named(&endpoint));
        found.push(match answered {
            Ok(()) => Diagnosis::ok(subject, "answers"),
            Err(reason) if all == 1 => {
                let remedy = "start the verifier, or correct its `endpoint`: without it deliveries are not attested";
                Diagnosis::wrong(subject, reason, remedy)
            }
            Err(reason) => {
                let remedy = "have it started, or correct its `endpoint`: with it gone fewer others may fail";
                Diagnosis::warning(subject, reason, remedy)
            }
        });
    }
    if all == 1 {
        return found;
    }
    let subject = format!("{threshold} of {all} verifiers");
    found.push(match answering >= threshold {
        true => Diagnosis::ok(&*subject, format!("{answering} answer")),
        false => {
            let remedy = "start the others: with fewer than have to attest no delivery is attested";
            Diagnosis::wrong(&*subject, format!("only {answering} answer, and {threshold} have to attest"), remedy)
        }
    });
    found.extend(shared.into_iter().map(|(host, endpoints)| {
        let remedy = "have each run by somebody else, on a machine of its own: what stops or fools one does so to both";
        Diagnosis::warning(&*subject, format!("{} are on one host, {host}", endpoints.join(" and ")), remedy)
    }));
    found
}

/// Hosts at which more than one of the endpoints is.
fn shared_hosts<'a>(endpoints: impl Iterator<Item = &'a str>) -> BTreeMap<String, Vec<String>> {
    let mut by_host: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for endpoint in endpoints {
        if let Some(host) = Url::parse(endpoint).ok().and_then(|url| url.host_str().map(str::to_owned)) {
            by_host.entry(host).or_default().push(named(endpoint));
        }
    }
    by_host.retain(|_, endpoints| endpoints.len() > 1);
    by_host
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
    let is_local = Url::parse(&url).is_ok_and(|url| is_loopback(&url));
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

#[cfg(test)]
mod tests {
    use chains::diagnosis::Verdict;

    use super::*;

    fn verdicts(threshold: usize, answered: &[(&str, bool)]) -> Vec<Verdict> {
        let answered = answered.iter().map(|(endpoint, answers)| {
            let answered = answers.then_some(()).ok_or_else(|| "does not answer".to_owned());
            ((*endpoint).to_owned(), answered)
        });
        judged(threshold, answered.collect()).into_iter().map(|found| found.verdict).collect()
    }

    #[test]
    fn a_verifier_alone_has_to_answer() {
        assert_eq!(verdicts(1, &[("https://a.example", true)]), [Verdict::Ok]);
        assert_eq!(verdicts(1, &[("https://a.example", false)]), [Verdict::Wrong]);
    }

    #[test]
    fn of_a_set_as_many_have_to_answer_as_have_to_attest() {
        let (a, b, c) = ("https://a.example", "https://b.example", "https://c.example");
        let one_gone = verdicts(2, &[(a, true), (b, false), (c, true)]);
        assert_eq!(one_gone, [Verdict::Ok, Verdict::Warning, Verdict::Ok, Verdict::Ok]);
        let two_gone = verdicts(2, &[(a, true), (b, false), (c, false)]);
        assert_eq!(two_gone, [Verdict::Ok, Verdict::Warning, Verdict::Warning, Verdict::Wrong]);
    }

    #[test]
    fn members_on_one_host_are_warned_of() {
        let (a, b, c) = ("https://a.example", "https://a.example:8443", "https://c.example");
        let found = judged(2, [a, b, c].map(|endpoint| (endpoint.to_owned(), Ok(()))).into());
        assert_eq!(found.len(), 5);
        assert_eq!(found[4].verdict, Verdict::Warning);
        assert_eq!(found[4].found, "https://a.example and https://a.example:8443 are on one host, a.example");
    }
}
