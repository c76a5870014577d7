//! Credentials of AWS: those of the environment, or those that the container's own endpoint gives.
//!
//! `AWS_ACCESS_KEY_ID` with `AWS_SECRET_ACCESS_KEY` and perhaps `AWS_SESSION_TOKEN`; else `AWS_CONTAINER_CREDENTIALS_FULL_URI` or
//! `…_RELATIVE_URI`, as ECS tasks and EKS Pod Identity have them, with `AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE` or
//! `AWS_CONTAINER_AUTHORIZATION_TOKEN`. The latter end, and are asked for again in time.

use std::{sync::Arc, time::Duration};

use aws_credential_types::Credentials;
use chrono::{DateTime, TimeDelta, Utc};
use serde::Deserialize;
use tokio::{sync::Mutex, time::Instant};
use url::Url;

use crate::{SignError, http::Service};

/// Where a container's relative address is.
const CONTAINER_HOST: &str = "http://169.254.170.2";
/// Credentials that end within so long are asked for again.
const RENEW_BEFORE: TimeDelta = TimeDelta::minutes(5);
/// Longest that one call to the container's endpoint may take: it is on this machine.
const ENDPOINT_MAX: Duration = Duration::from_secs(2);
/// How long it is not asked again after it gave none. Meanwhile everybody gets its last answer at once.
const RETRY_AFTER: Duration = Duration::from_secs(5);

/// Where credentials of AWS come from. Clones share what an endpoint gave.
#[derive(Debug, Clone)]
pub struct AwsCredentials(Arc<Provider>);

#[derive(Debug)]
struct Provider {
    source: Source,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    /// What the endpoint gave last, and when it ends.
    credentials: Option<(Credentials, DateTime<Utc>)>,
    /// Why it gave none that can be used, and when.
    failure: Option<(SignError, Instant)>,
    /// The id of those that AWS refused last.
    refused: Option<String>,
}

#[derive(Debug)]
enum Source {
    Given(Credentials),
    Endpoint {
        url: Url,
        authorization: Authorization,
    },
    /// Why there are none.
    Nowhere(&'static str),
}

/// What the endpoint is shown. The file is read anew each time: it is replaced from outside.
enum Authorization {
    None,
    Token(String),
    File(String),
}

impl std::fmt::Debug for Authorization {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::None => "None",
            Self::Token(_) => "Token",
            Self::File(_) => "File",
        })
    }
}

/// What the container's endpoint answers.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Answered {
    access_key_id: String,
    secret_access_key: String,
    token: Option<String>,
    expiration: DateTime<Utc>,
}

impl AwsCredentials {
    /// As the environment of this process says.
    pub fn environment() -> Self {
        Self::of_variables(|name| std::env::var(name).ok().filter(|value| !value.is_empty()))
    }

    /// As these variables say.
    pub fn of_variables(variable: impl Fn(&str) -> Option<String>) -> Self {
        Self(Arc::new(Provider { source: source(variable), kept: Mutex::default() }))
    }

    /// Credentials that hold for some time.
    ///
    /// # Errors
    /// [`SignError::Unusable`] where there are none, [`SignError::Unreachable`] where the endpoint does not answer.
    pub(super) async fn get(&self, service: &Service) -> Result<Credentials, SignError> {
        let unusable = |reason: &str| SignError::Unusable { key: service.key.clone(), reason: reason.to_owned() };
        let (url, authorization) = match &self.0.source {
            Source::Given(credentials) => return Ok(credentials.clone()),
            Source::Nowhere(why) => return Err(unusable(why)),
            Source::Endpoint { url, authorization } => (url, authorization),
        };
        let mut kept = self.0.kept.lock().await;
        if let Some((credentials, ends)) = &kept.credentials
            && *ends - Utc::now() > RENEW_BEFORE
        {
            return Ok(credentials.clone());
        }
        // Whoever waited for the lock meanwhile does not wait for another failure.
        if kept.failure.as_ref().is_none_or(|(_, at)| at.elapsed() >= RETRY_AFTER) {
            match Self::renewed(service, url, authorization).await {
                Ok((credentials, _)) if kept.refused.as_deref() == Some(credentials.access_key_id()) => {
                    let error = unusable("AWS refuses the credentials that the container's endpoint gives");
                    kept.failure = Some((error, Instant::now()));
                }
                Ok((credentials, ends)) => {
                    *kept = Kept { credentials: Some((credentials.clone(), ends)), ..Kept::default() };
                    return Ok(credentials);
                }
                Err(error) => kept.failure = Some((error, Instant::now())),
            }
        }
        match (&kept.credentials, &kept.failure) {
            // What is kept holds for some minutes more.
            (Some((credentials, ends)), _) if *ends > Utc::now() => Ok(credentials.clone()),
            (_, Some((error, _))) => Err(error.clone().of_key(&service.key)),
            (_, None) => Err(unusable("the container's endpoint gave no credentials")),
        }
    }

    /// Gives up what the service says is expired or unknown, so that the endpoint is asked for others; whether it can be asked.
    pub(super) async fn forget(&self, refused: &Credentials) -> bool {
        if !matches!(self.0.source, Source::Endpoint { .. }) {
            return false;
        }
        let mut kept = self.0.kept.lock().await;
        let is_kept = kept.credentials.take_if(|(kept, _)| kept.access_key_id() == refused.access_key_id()).is_some();
        if is_kept {
            kept.refused = Some(refused.access_key_id().to_owned());
        }
        true
    }

    /// What the endpoint gives now, and until when it holds.
    async fn renewed(
        service: &Service,
        url: &Url,
        authorization: &Authorization,
    ) -> Result<(Credentials, DateTime<Utc>), SignError> {
        let unusable = |reason: &str| SignError::Unusable { key: service.key.clone(), reason: reason.to_owned() };
        let mut request = service.get(url.clone()).timeout(ENDPOINT_MAX);
        let token = match authorization {
            Authorization::None => None,
            Authorization::Token(token) => Some(token.clone()),
            Authorization::File(path) => Some(
                std::fs::read_to_string(path)
                    .map_err(|_| unusable("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE cannot be read"))?,
            ),
        };
        if let Some(token) = token {
            request = request.header("authorization", token.trim());
        }
        let answer = service.ask(request).await?;
        if answer.status != 200 {
            return Err(service.of_status(answer.status, "the container's credentials"));
        }
        let answered: Answered = serde_json::from_slice(&answer.body)
            .map_err(|_| service.unreadable("the container's credentials cannot be read"))?;
        let Answered { access_key_id, secret_access_key, token, expiration } = answered;
        let credentials = Credentials::new(access_key_id, secret_access_key, token, None, "container");
        Ok((credentials, expiration))
    }
}

fn source(variable: impl Fn(&str) -> Option<String>) -> Source {
    if let (Some(id), Some(secret)) = (variable("AWS_ACCESS_KEY_ID"), variable("AWS_SECRET_ACCESS_KEY")) {
        let credentials = Credentials::new(id, secret, variable("AWS_SESSION_TOKEN"), None, "environment");
        return Source::Given(credentials);
    }
    let relative = variable("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI").map(|path| format!("{CONTAINER_HOST}{path}"));
    let Some(address) = relative.or_else(|| variable("AWS_CONTAINER_CREDENTIALS_FULL_URI")) else {
        return Source::Nowhere(
            "there are no credentials of AWS: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or a container's",
        );
    };
    let Ok(url) = address.parse() else {
        return Source::Nowhere("AWS_CONTAINER_CREDENTIALS_…_URI is not an address");
    };
    let authorization = match variable("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE") {
        Some(path) => Authorization::File(path),
        None => variable("AWS_CONTAINER_AUTHORIZATION_TOKEN").map_or(Authorization::None, Authorization::Token),
    };
    Source::Endpoint { url, authorization }
}
