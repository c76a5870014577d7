//! The routes of payments.

use std::sync::Arc;

use axum::{
    Json,
    extract::{Path, Query, State, rejection::QueryRejection},
};
use serde::Deserialize;
use serde_json::{Value, json};

use events::PaymentId;

use crate::{
    error::Error,
    payments::{DetailBody, FoundBody, ListQuery, PageBody, parked_entry},
    state::Console,
};

/// Entries of the parking in one answer, those that have waited longest; more are counted.
const PARKED_MAX: usize = 2_000;

/// The parameters of a list.
type Parameters = Result<Query<Vec<(String, String)>>, QueryRejection>;

/// What is searched for.
#[derive(Debug, Deserialize)]
pub(crate) struct Searched {
    q: String,
}

/// `GET /api/payments`.
pub(crate) async fn list(State(console): State<Arc<Console>>, parameters: Parameters) -> Result<Json<PageBody>, Error> {
    let malformed = |_| Error::Invalid("the query must be name=value pairs, percent-encoded".to_owned());
    let Query(parameters) = parameters.map_err(malformed)?;
    let query = ListQuery::read(parameters.iter().map(|(name, value)| (name.as_str(), value.as_str())))?;
    console.payments.list(query).await.map(Json)
}

/// `GET /api/search`.
pub(crate) async fn search(
    State(console): State<Arc<Console>>,
    searched: Result<Query<Searched>, QueryRejection>,
) -> Result<Json<FoundBody>, Error> {
    let Query(Searched { q }) = searched.map_err(|_| Error::Invalid("q: must say what is searched for".to_owned()))?;
    console.payments.search(&q).await.map(Json)
}

/// `GET /api/payments/{id}`.
pub(crate) async fn detail(
    State(console): State<Arc<Console>>,
    Path(id): Path<String>,
) -> Result<Json<DetailBody>, Error> {
    let payment_id: PaymentId = id.parse().map_err(|error| Error::Invalid(format!("id: {error}")))?;
    console.payments.detail(&payment_id).await.map(Json)
}

/// `GET /api/parked`.
pub(crate) async fn parked(State(console): State<Arc<Console>>) -> Result<Json<Value>, Error> {
    let parked = console.payments.parked().await?;
    let shown: Vec<Value> = parked.records.iter().take(PARKED_MAX).map(parked_entry).collect();
    Ok(Json(json!({"parked": shown, "total": parked.records.len()})))
}
