//! Receivers' endpoints over HTTP, behind the SSRF guard.

use std::{collections::HashMap, time::Duration};

use async_trait::async_trait;
use reqwest::{
    Client, Response, StatusCode,
    header::{CONTENT_TYPE, RETRY_AFTER, USER_AGENT},
};
use tokio::time::timeout;
use url::Url;

use net::{
    origin::origin,
    ssrf_guard::{self, Purpose, Unreachable, guarded_client},
};

use crate::{
    ports::{Call, Endpoints},
    queue::Answer,
};

/// Longest URL of an endpoint, in bytes.
pub const URL_BYTES_MAX: usize = 1_024;
/// How much of what went wrong is kept, in characters.
const QUOTED_CHARS_MAX: usize = 200;
const NOT_PUBLIC: &str = "must be an https URL at public addresses, at port 443 or one from 1024 on";
/// How long the look-up of an endpoint's name may take when it is registered.
const LOOK_UP_MAX: Duration = Duration::from_secs(3);

/// Why a URL cannot be an endpoint's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidUrl(pub String);

/// Endpoints over HTTP. Of a receiver's answer only its status and `Retry-After` are looked at.
pub struct HttpEndpoints {
    /// The owner of each.
    trusted_origins: HashMap<String, String>,
    trusted: Client,
    call_max: Duration,
}

impl HttpEndpoints {
    /// Endpoints of which each call takes `call_max` at most. Origins that the operator names are called whatever their scheme and
    /// address for the one owner, an originator, that he names with each; all else by https at public addresses.
    ///
    /// # Errors
    /// The error of the HTTP client, as where the system has no root certificates.
    pub fn new(
        trusted_origins: impl IntoIterator<Item = (String, String)>,
        call_max: Duration,
    ) -> Result<Self, reqwest::Error> {
        let of_owner = |(text, owner): (String, String)| Some((origin(&text)?, owner));
        let trusted_origins = trusted_origins.into_iter().filter_map(of_owner).collect();
        Ok(Self { trusted_origins, trusted: guarded_client().build()?, call_max })
    }

    fn trusts(&self, origin: &str, originator: &str) -> bool {
        self.trusted_origins.get(origin).is_some_and(|owner| owner == originator)
    }

    /// The URL as it is called for this owner. What can be said of it now is said when it is registered; it is judged again at every
    /// call.
    ///
    /// # Errors
    /// [`InvalidUrl`].
    pub async fn check(&self, text: &str, originator: &str) -> Result<String, InvalidUrl> {
        let invalid = |rule: &str| InvalidUrl(rule.to_owned());
        if text.len() > URL_BYTES_MAX {
            return Err(invalid("must have at most 1024 characters"));
        }
        let url = Url::parse(text).map_err(|_| invalid("is not a URL"))?;
        if !url.username().is_empty() || url.password().is_some() || url.fragment().is_some() {
            return Err(invalid("must have neither user nor password nor fragment"));
        }
        let origin = origin(&url.origin().ascii_serialization()).ok_or_else(|| invalid("must be an https URL"))?;
        if !self.trusts(&origin, originator)
            && let Ok(Err(Unreachable::Forbidden(_))) =
                timeout(LOOK_UP_MAX, ssrf_guard::judge(Purpose::Webhooks, &origin)).await
        {
            return Err(invalid(NOT_PUBLIC));
        }
        Ok(url.to_string())
    }

    async fn send(&self, call: Call) -> Result<Response, String> {
        let url = Url::parse(&call.url).map_err(|error| error.to_string())?;
        let origin = origin(&url.origin().ascii_serialization()).ok_or("is not http or https")?;
        let client = if self.trusts(&origin, &call.originator) {
            self.trusted.clone()
        } else {
            ssrf_guard::client(Purpose::Webhooks, &origin).await.map_err(|error| unreached(&error))?
        };
        let request = client
            .post(url)
            .header(CONTENT_TYPE, "application/json")
            .header(USER_AGENT, concat!("gw-webhooks/", env!("CARGO_PKG_VERSION")))
            .header("webhook-id", call.id)
            .header("webhook-timestamp", call.timestamp)
            .header("webhook-signature", call.signature)
            .body(call.body);
        request.send().await.map_err(|error| chain_of(&error.without_url()))
    }
}

#[async_trait]
impl Endpoints for HttpEndpoints {
    async fn call(&self, call: Call) -> Answer {
        let failed = |error: String| Answer::Failed { error: quoted(&error), retry_after: None };
        match timeout(self.call_max, self.send(call)).await {
            Err(_) => failed(format!("no answer within {} ms", self.call_max.as_millis())),
            Ok(Err(error)) => failed(error),
            Ok(Ok(response)) => answer(&response),
        }
    }
}

/// Without the addresses that a name has here: nobody is to learn from it what the operator's own name servers know.
fn unreached(error: &Unreachable) -> String {
    match error {
        Unreachable::Forbidden(_) => NOT_PUBLIC.to_owned(),
        Unreachable::Unresolved(_) => "cannot be resolved".to_owned(),
        Unreachable::Client(_) => "cannot be called".to_owned(),
    }
}

fn answer(response: &Response) -> Answer {
    match response.status() {
        status if status.is_success() => Answer::Taken { status: status.as_u16() },
        StatusCode::GONE => Answer::Gone,
        status => {
            let seconds = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
            Answer::Failed { error: format!("answered {status}"), retry_after: seconds.map(Duration::from_secs) }
        }
    }
}

/// The error with its causes, which reqwest's own text leaves out.
fn chain_of(error: &reqwest::Error) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}

/// What a stranger had a part in, short and on one line.
fn quoted(text: &str) -> String {
    text.chars().take(QUOTED_CHARS_MAX).map(|c| if c.is_control() { ' ' } else { c }).collect()
}
