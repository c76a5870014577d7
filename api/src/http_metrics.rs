//! Metrics of the routes: how many requests, how answered and how fast, and which error codes.
//!
//! Nothing that a client chooses is a label: a path that no route has, a method that none takes and a status that is not in the
//! list are `other`. So the number of series is bounded by the tables below, whatever is asked for.

use std::{collections::HashMap, sync::OnceLock, time::Duration};

use axum::http::{Method, StatusCode};
use metrics::{Counter, Histogram, counter, histogram};

use app::error::Code;

/// What stands for everything that is in no table.
const OTHER: &str = "other";
/// Methods that are told apart.
const METHODS: [&str; 5] = ["GET", "POST", "HEAD", "OPTIONS", OTHER];
/// Statuses that are told apart, in order.
const STATUSES: [(u16, &str); 25] = [
    (101, "101"),
    (200, "200"),
    (201, "201"),
    (202, "202"),
    (204, "204"),
    (206, "206"),
    (304, "304"),
    (400, "400"),
    (401, "401"),
    (402, "402"),
    (403, "403"),
    (404, "404"),
    (405, "405"),
    (406, "406"),
    (408, "408"),
    (409, "409"),
    (410, "410"),
    (411, "411"),
    (413, "413"),
    (415, "415"),
    (422, "422"),
    (429, "429"),
    (500, "500"),
    (503, "503"),
    (504, "504"),
];

/// The handles of all series, each made when it is first used and never again.
pub(super) struct HttpMetrics {
    routes: HashMap<&'static str, RouteMetrics>,
    other: RouteMetrics,
    refusals: HashMap<&'static str, OnceLock<Counter>>,
}

struct RouteMetrics {
    route: &'static str,
    seconds: OnceLock<Histogram>,
    /// By method, and within it by status; the last is that of the statuses that are not listed.
    requests: Vec<OnceLock<Counter>>,
}

impl RouteMetrics {
    fn new(route: &'static str) -> Self {
        let requests = (0..METHODS.len() * (STATUSES.len() + 1)).map(|_| OnceLock::new()).collect();
        Self { route, seconds: OnceLock::new(), requests }
    }

    fn count(&self, method: &Method, status: StatusCode, took: Duration) {
        let seconds = self.seconds.get_or_init(|| histogram!("gw_http_request_seconds", "route" => self.route));
        seconds.record(took);
        let method = METHODS.iter().position(|name| *name == method.as_str()).unwrap_or(METHODS.len() - 1);
        let status = STATUSES.binary_search_by_key(&status.as_u16(), |(code, _)| *code).unwrap_or(STATUSES.len());
        let (name, text) = (METHODS[method], STATUSES.get(status).map_or(OTHER, |(_, text)| text));
        if let Some(requests) = self.requests.get(method * (STATUSES.len() + 1) + status) {
            let labels =
                || counter!("gw_http_requests_total", "route" => self.route, "method" => name, "status" => text);
            requests.get_or_init(labels).increment(1);
        }
    }
}

impl HttpMetrics {
    /// Those of the routes with these paths, and of all codes; nothing is counted yet.
    pub(super) fn new(paths: impl IntoIterator<Item = &'static str>) -> Self {
        Self {
            routes: paths.into_iter().map(|path| (path, RouteMetrics::new(path))).collect(),
            other: RouteMetrics::new(OTHER),
            refusals: Code::ALL.iter().map(|code| (code.code, OnceLock::new())).collect(),
        }
    }

    /// Counts an answer; `path` is that of the route, where there is one.
    pub(super) fn answered(&self, path: Option<&str>, method: &Method, status: StatusCode, took: Duration) {
        let route = path.and_then(|path| self.routes.get(path)).unwrap_or(&self.other);
        route.count(method, status, took);
    }

    /// Counts a refusal by its code.
    pub(super) fn refused(&self, code: &Code) {
        let code = code.code;
        if let Some(refusals) = self.refusals.get(code) {
            refusals.get_or_init(|| counter!("gw_refusals_total", "code" => code)).increment(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_statuses_are_in_order() {
        assert!(STATUSES.is_sorted_by(|one, next| one.0 < next.0));
        assert!(STATUSES.iter().all(|(code, text)| code.to_string() == *text));
        let answered: Vec<u16> =
            Code::ALL.iter().filter_map(|code| code.status).map(|status| status.as_u16()).collect();
        let listed = |status: &u16| STATUSES.iter().any(|(code, _)| code == status);
        assert_eq!(answered.iter().filter(|status| !listed(status)).collect::<Vec<_>>(), Vec::<&u16>::new());
    }
}
