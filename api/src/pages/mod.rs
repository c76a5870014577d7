//! The pages for people: where one begins, where one pays, and where one watches a payment. `web/` has the script that brings
//! them to life, the style and the texts.
//!
//! What is important stands in the HTML that is served; the script replaces it by what it reads from the API, live. A page
//! loads nothing from another host, and what it shows of requests, tokens and settlers is text and never HTML. The routes
//! are not in the table of routes: they are no part of the API.

mod assets;
mod chains;
mod layout;
mod money;
mod payment;
mod quote_request;
mod stages;
mod start;
mod texts;

use std::sync::Arc;

use axum::{
    Extension,
    extract::{Path, State, rejection::PathRejection},
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::{MethodRouter, get},
};

use app::{
    error::{Code, Error},
    resolve, timeline,
};
use events::{PaymentId, QuoteRequestId};
use net::callers::Caller;
use projections::PaymentView;

pub(crate) use self::{assets::SCRIPT_PATH, payment::is_wanted};
use self::{layout::Page, texts::text};
use super::{
    request_id::{OwnBody, RetryAfter},
    state::HttpState,
};

/// The path of the page that pays; what a link asks for stands in its fragment, which no server sees.
pub(crate) const PAY_PATH: &str = "/pay";

/// A path with what answers to it.
type Route = (&'static str, fn() -> MethodRouter<Arc<HttpState>>);

/// Every page, and the script.
pub(crate) const PAGES: [Route; 4] = [
    ("/", || get(start_page)),
    (PAY_PATH, || get(link_page)),
    ("/pay/{id}", || get(page_of_id)),
    (SCRIPT_PATH, || get(assets::script)),
];

/// `GET /`: where one begins.
async fn start_page() -> Response {
    start::render().into_response()
}

/// `GET /pay`: the page that pays what a link asks for. It is the same for every link.
async fn link_page() -> Response {
    let lead = [("p", "link.empty.text"), ("noscript", "noscript.pay")];
    let lead: String = lead.map(|(element, key)| format!("<{element}>{}</{element}>", text(key))).concat();
    let main = format!("<header><h1>{}</h1>{lead}</header>", text("link.empty.title"));
    Page::new(text("app.name"), main).of_kind("link").into_response()
}

/// `GET /pay/{id}`: the page of a payment, or of a quote-request that can be awarded.
async fn page_of_id(
    State(state): State<Arc<HttpState>>,
    Extension(caller): Extension<Caller>,
    path: Result<Path<String>, PathRejection>,
) -> Response {
    let id = path.map(|Path(text)| text).unwrap_or_default();
    if let Ok(payment_id) = id.parse::<PaymentId>() {
        return match resolve::find_recent(&state, &caller, &payment_id, 0).await {
            Ok(view) => of_payment(&state, &view).await,
            Err(error) => failed(&error),
        };
    }
    let Ok(quote_request_id) = id.parse::<QuoteRequestId>() else { return failed(&Code::NOT_FOUND.into()) };
    match resolve::find_batch(&state, &caller, &quote_request_id).await {
        Ok((view, _)) => quote_request::render(&view, &state).into_response(),
        Err(error) => failed(&error),
    }
}

/// The page of a payment, with its history where the journal can be read now; without it the page is shorter.
pub(super) async fn of_payment(state: &HttpState, view: &PaymentView) -> Response {
    let history = timeline::read(state, &view.payment_id).await.ok();
    let entries = history.and_then(|history| serde_json::to_value(history.entries).ok());
    payment::render(view, entries.as_ref(), state).into_response()
}

/// A page that says that there is none, or none now.
fn failed(error: &Error) -> Response {
    let status = error.status();
    let found = if status.is_server_error() { "unavailable" } else { "missing" };
    let title = text(&format!("{found}.title"));
    let main = format!("<header><h1>{title}</h1><p>{}</p></header>", text(&format!("{found}.text")));
    let retry = (status == StatusCode::SERVICE_UNAVAILABLE).then_some(Extension(RetryAfter(1)));
    (status, Extension(OwnBody), retry, Page::new(title, main)).into_response()
}
