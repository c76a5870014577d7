//! `GET /v1/payments`: the payments of whoever proves that they are his, as a page, or as a table for bookkeeping.
//!
//! A table is a stream of all that the query takes, however many: it is read page by page as the client takes it, so it holds
//! one page in memory. What it reads is paid from the caller's budget for reads; where that is used up, the stream waits.
//! Where the read model fails in the middle the connection breaks: a table that ends is whole.

use std::{collections::HashMap, io, sync::Arc, time::Duration};

use axum::{
    Extension, Json,
    body::{Body, Bytes},
    extract::{State, rejection::QueryRejection},
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use futures::{Stream, stream};
use tokio::{sync::OwnedSemaphorePermit, time::sleep};

use app::{
    error::{Code, Error},
    own_payments::{
        Asked, PAGE_MAX,
        body::{OwnPaymentBody, OwnPaymentsBody},
        query::Query,
        table::TableFormat,
    },
    sessions,
};
use net::callers::{Caller, Kind, Permit, Refusal};
use projections::OwnedPage;

use super::{
    parameters::{Pairs, pairs},
    sessions::NO_STORE,
    state::HttpState,
};
use crate::error::ApiError;

/// Least pause of a table before the budget, or the owner's turn, is asked for again.
const PACE_MIN: Duration = Duration::from_millis(50);
/// The media types a page and a table have.
const JSON: &str = "application/json";
const CSV: &str = "text/csv";
const JSON_LINES: &str = "application/x-ndjson";

/// The caller's payments.
pub(super) async fn handle(
    State(state): State<Arc<HttpState>>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    parameters: Result<Pairs, QueryRejection>,
) -> Response {
    let answered = answer(state, &caller, &headers, parameters).await;
    let mut response = answered.unwrap_or_else(IntoResponse::into_response);
    let is_unproven = response.status() == StatusCode::UNAUTHORIZED;
    let headers = response.headers_mut();
    let (cache_control, no_store) = NO_STORE;
    headers.insert(cache_control, no_store);
    headers.insert(header::VARY, HeaderValue::from_static("accept, authorization"));
    if is_unproven {
        headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    response
}

async fn answer(
    state: Arc<HttpState>,
    caller: &Caller,
    headers: &HeaderMap,
    parameters: Result<Pairs, QueryRejection>,
) -> Result<Response, ApiError> {
    let owner = sessions::owner(&state, headers)?;
    let parameters = pairs(parameters)?;
    let query = Query::read(parameters.iter().map(|(name, value)| (name.as_str(), value.as_str())))?;
    let table = preferred(headers);
    if table.is_some() && query.limit.is_some() {
        let rule = "limit: is for pages; a table has all lines of the query";
        return Err(ApiError::new(Code::INVALID_REQUEST, rule));
    }
    let asked = Asked {
        owner,
        payments_max: if table.is_some() { PAGE_MAX } else { query.payments_max() },
        filter: query.filter,
        before: query.before,
        now: state.services.clock.now(),
        grace: state.overdue_grace,
    };
    caller.spend(Kind::Reads, asked.price())?;
    let Some(format) = table else {
        let page = state.services.owned_payments.page(asked.clone()).await?;
        return Ok(Json(OwnPaymentsBody::new(&page, &asked)).into_response());
    };
    let of_caller = caller.stream()?;
    let permit = Arc::clone(&state.streams).try_acquire_owned().map_err(|_| Code::TOO_MANY_STREAMS)?;
    // What cannot be read at all is said before anything is sent.
    let first = state.services.owned_payments.page(asked.clone()).await?;
    let caller = caller.clone();
    let table = Table { state, caller, format, asked, next: Next::Read(first), _permit: permit, _of_caller: of_caller };
    let mut headers = HeaderMap::new();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(format.media_type()));
    if format == TableFormat::Csv {
        let name = HeaderValue::from_static("attachment; filename=\"payments.csv\"");
        headers.insert(header::CONTENT_DISPOSITION, name);
    }
    Ok((headers, Body::from_stream(table.chunks())).into_response())
}

/// A table on its way.
struct Table {
    state: Arc<HttpState>,
    caller: Caller,
    format: TableFormat,
    asked: Asked,
    next: Next,
    _permit: OwnedSemaphorePermit,
    _of_caller: Option<Permit>,
}

/// What comes next of it.
enum Next {
    /// A page that was read.
    Read(OwnedPage),
    /// The page behind what was sent.
    Behind,
    /// Nothing.
    End,
}

impl Table {
    /// Its head, and then its lines, a page a chunk.
    fn chunks(self) -> impl Stream<Item = io::Result<Bytes>> {
        let head = Bytes::from(self.format.head());
        let head = stream::iter((!head.is_empty()).then_some(Ok(head)));
        let lines = stream::try_unfold(self, |mut table| async move {
            let chunk = table.chunk().await.map_err(|error| io::Error::other(error.message()))?;
            Ok(chunk.map(|chunk| (chunk, table)))
        });
        futures::StreamExt::chain(head, lines)
    }

    /// The lines of the next page that has some; `None` at the end.
    async fn chunk(&mut self) -> Result<Option<Bytes>, Error> {
        loop {
            let page = match std::mem::replace(&mut self.next, Next::End) {
                Next::End => return Ok(None),
                Next::Read(page) => page,
                Next::Behind => self.read().await?,
            };
            let mut lines = Vec::new();
            for (shard, view) in &page.payments {
                lines.extend_from_slice(&self.format.line(&OwnPaymentBody::new(view, *shard, &self.asked)));
            }
            if let Some(place) = page.next {
                self.asked.before = Some(place);
                self.next = Next::Behind;
            }
            if !lines.is_empty() {
                return Ok(Some(lines.into()));
            }
        }
    }

    /// The next page, once it is paid for and none of the same owner is before it.
    async fn read(&self) -> Result<OwnedPage, Error> {
        let services = &self.state.services;
        let read = async {
            while let Err(refusal) = self.caller.spend(Kind::Reads, self.asked.price()) {
                let after = match refusal {
                    Refusal::Spent { after, .. } => after,
                    Refusal::Crowded(_) => PACE_MIN,
                };
                sleep(after.max(PACE_MIN)).await;
            }
            loop {
                match services.owned_payments.page(self.asked.clone()).await {
                    Err(error) if error.code == Code::RATE_LIMITED => sleep(PACE_MIN).await,
                    read => return read,
                }
            }
        };
        services.stopping.run_until_cancelled(read).await.ok_or(Code::SERVICE_UNAVAILABLE)?
    }
}

/// The table that the caller would rather have than a page (RFC 9110, 12.5.1): it names the table's media type with more
/// weight than JSON.
fn preferred(headers: &HeaderMap) -> Option<TableFormat> {
    let accepted = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let weights: HashMap<String, f32> = accepted.flat_map(|value| value.split(',')).filter_map(weighted).collect();
    let weight = |names: &[&str]| names.iter().find_map(|name| weights.get(*name)).copied().unwrap_or(0.0);
    let page = weight(&[JSON, "application/*", "*/*"]);
    let tables = [(weight(&[CSV, "text/*"]), TableFormat::Csv), (weight(&[JSON_LINES]), TableFormat::JsonLines)];
    let [csv, lines] = tables;
    let (weight, format) = if lines.0 > csv.0 { lines } else { csv };
    (weight > page || weight > 0.0 && !weights.contains_key(JSON) && weight >= page).then_some(format)
}

/// A media range with its weight.
fn weighted(range: &str) -> Option<(String, f32)> {
    let mut parts = range.split(';').map(str::trim);
    let name = parts.next().filter(|name| !name.is_empty())?;
    let weight = parts.find_map(|part| part.strip_prefix("q=").or(part.strip_prefix("Q=")));
    let weight = weight.map_or(Some(1.0), |weight| weight.parse().ok().filter(|q| (0.0..=1.0).contains(q)))?;
    Some((name.to_ascii_lowercase(), weight))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_for_who_names_it() {
        for (accept, expected) in [
            ("text/csv", Some(TableFormat::Csv)),
            ("TEXT/CSV; header=present", Some(TableFormat::Csv)),
            ("application/x-ndjson", Some(TableFormat::JsonLines)),
            ("text/csv, */*", Some(TableFormat::Csv)),
            ("text/csv;q=0.5, application/json", None),
            ("text/csv;q=0.5, application/x-ndjson", Some(TableFormat::JsonLines)),
            ("text/csv;q=0", None),
            ("text/csv, application/json", None),
            ("application/json", None),
            ("text/html,application/xhtml+xml,*/*;q=0.8", None),
            ("*/*", None),
            ("", None),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT, accept.parse().unwrap());
            assert_eq!(preferred(&headers), expected, "{accept}");
        }
        assert_eq!(preferred(&HeaderMap::new()), None);
    }
}
