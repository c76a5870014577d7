//! The guard of the console: whose requests are answered, and the headers of every answer.
//!
//! A token is shown in a header, which no page of elsewhere can make a browser send; there is no cookie. What a browser says of
//! where a request comes from is heeded all the same.

use std::{net::SocketAddr, sync::Arc};

use axum::{
    extract::{ConnectInfo, Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, Method, header},
    middleware::Next,
    response::{IntoResponse, Response},
};
use url::Url;

use crate::{error::Error, operators::Operator, page, state::Console};

const SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");
const DESTINATION: HeaderName = HeaderName::from_static("sec-fetch-dest");
const RESOURCE_POLICY: HeaderName = HeaderName::from_static("cross-origin-resource-policy");
const OPENER_POLICY: HeaderName = HeaderName::from_static("cross-origin-opener-policy");

/// Every answer is for who asked and for nobody else: no cache keeps it, and no page of elsewhere has it in a frame.
pub(crate) async fn secure(request: Request, next: Next) -> Response {
    let mut response = match is_of_elsewhere(request.headers()) && !is_visit(&request) {
        true => Error::Forbidden("requests of pages of elsewhere are not answered").into_response(),
        false => next.run(request).await,
    };
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::CONTENT_SECURITY_POLICY, page::CONTENT_SECURITY_POLICY);
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(RESOURCE_POLICY, HeaderValue::from_static("same-origin"));
    headers.insert(OPENER_POLICY, HeaderValue::from_static("same-origin"));
    response
}

/// Whether a browser says that a page of another origin asks. Who is no browser can say what he likes, and says nothing.
fn is_of_elsewhere(headers: &HeaderMap) -> bool {
    if let Some(site) = headers.get(SITE) {
        return site != "same-origin" && site != "none";
    }
    // Over plain HTTP of another machine's browsers do not say it so.
    let Some(origin) = headers.get(header::ORIGIN) else { return false };
    let origin = origin.to_str().ok().and_then(|origin| Url::parse(origin).ok());
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
    !matches!((origin, host), (Some(origin), Some(host)) if authority(&origin).eq_ignore_ascii_case(host))
}

/// Whether somebody follows a link to the page, from wherever. It holds nothing, and in no frame.
fn is_visit(request: &Request) -> bool {
    let says = |name: HeaderName, value: &str| request.headers().get(name).is_some_and(|said| said == value);
    let is_page = request.method() == Method::GET && request.uri().path() == "/";
    is_page && says(MODE, "navigate") && says(DESTINATION, "document")
}

/// Host and port as a browser writes them in `Host`.
fn authority(origin: &Url) -> String {
    let host = origin.host_str().unwrap_or_default();
    origin.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
}

/// Lets operators through, each known to the routes as an extension.
pub(crate) async fn operators_alone(
    State(console): State<Arc<Console>>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    mut request: Request,
    next: Next,
) -> Response {
    let operator = token(request.headers()).and_then(|token| console.operators.of(token)).cloned();
    let Some(operator) = operator else {
        console.refused.count.increment(1);
        if let Some(refused) = console.refused.log.count() {
            tracing::warn!(%peer, refused, "the console was asked for without an operator's token");
        }
        return Error::Unauthorized.into_response();
    };
    request.extensions_mut().insert(operator);
    next.run(request).await
}

/// The token of a request that shows one (RFC 6750, 2.1).
fn token(headers: &HeaderMap) -> Option<&str> {
    let mut shown = headers.get_all(header::AUTHORIZATION).iter();
    let (Some(only), None) = (shown.next(), shown.next()) else { return None };
    let (scheme, token) = only.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then_some(token)
}

/// That the operator may act.
pub(crate) fn may_act(operator: &Operator) -> Result<(), Error> {
    if operator.may_act { Ok(()) } else { Err(Error::Forbidden("this operator may look, and not act")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(name.parse::<HeaderName>().unwrap(), value.parse().unwrap());
        }
        headers
    }

    #[test]
    fn pages_of_elsewhere_are_told_by_what_browsers_say() {
        for here in [
            &[][..],
            &[("host", "console.example")],
            &[("host", "127.0.0.1:8099"), ("origin", "http://127.0.0.1:8099")],
            &[("host", "console.example"), ("origin", "https://console.example")],
            // A proxy in front names another host, and the browser knows better.
            &[("host", "10.0.0.7:8099"), ("origin", "https://console.example"), ("sec-fetch-site", "same-origin")],
            &[("sec-fetch-site", "none")],
        ] {
            assert!(!is_of_elsewhere(&headers(here)), "{here:?}");
        }
        for elsewhere in [
            &[("host", "console.example"), ("origin", "https://evil.example")][..],
            &[("host", "console.example"), ("origin", "null")],
            &[("origin", "https://console.example")],
            &[("host", "127.0.0.1:8099"), ("origin", "http://127.0.0.1:8080")],
            &[("host", "console.example"), ("sec-fetch-site", "cross-site")],
            &[("host", "console.example"), ("sec-fetch-site", "same-site")],
            &[("host", "a"), ("origin", "https://a"), ("sec-fetch-site", "cross-site")],
        ] {
            assert!(is_of_elsewhere(&headers(elsewhere)), "{elsewhere:?}");
        }
    }

    #[test]
    fn a_token_is_shown_once_and_as_a_bearer_does() {
        assert_eq!(token(&headers(&[("authorization", "Bearer gwc_x")])), Some("gwc_x"));
        assert_eq!(token(&headers(&[("authorization", "bearer gwc_x")])), Some("gwc_x"));
        for none in [&[][..], &[("authorization", "gwc_x")], &[("authorization", "Basic gwc_x")]] {
            assert_eq!(token(&headers(none)), None);
        }
        let twice = headers(&[("authorization", "Bearer gwc_x"), ("authorization", "Bearer gwc_y")]);
        assert_eq!(token(&twice), None);
    }
}
