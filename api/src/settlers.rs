//! `GET /v1/settlers` and `GET /v1/settlers/{did}`: the records of settlers.

use std::sync::Arc;

use axum::{
    Extension, Json,
    extract::{
        Path, State,
        rejection::{PathRejection, QueryRejection},
    },
};

use app::{
    error::Code,
    settlers::{
        self,
        body::{SettlerBody, SettlersBody},
        query::Query,
    },
};
use events::Did;
use net::callers::{Caller, Kind};

use super::{
    parameters::{Pairs, pairs},
    state::HttpState,
};
use crate::error::ApiError;

/// A page of the settlers that were ever asked.
pub(super) async fn list(
    State(state): State<Arc<HttpState>>,
    Extension(caller): Extension<Caller>,
    parameters: Result<Pairs, QueryRejection>,
) -> Result<Json<SettlersBody>, ApiError> {
    let parameters = pairs(parameters)?;
    let query = Query::read(parameters.iter().map(|(name, value)| (name.as_str(), value.as_str())))?;
    caller.spend(Kind::Reads, settlers::price(query.settlers_max))?;
    let page = state.services.settlers.page(query.after, query.settlers_max).await?;
    Ok(Json(SettlersBody::new(&page, state.settler_pauses, state.services.clock.now())))
}

/// One settler.
pub(super) async fn show(
    State(state): State<Arc<HttpState>>,
    path: Result<Path<String>, PathRejection>,
) -> Result<Json<SettlerBody>, ApiError> {
    let settler: Option<Did> = path.ok().and_then(|Path(text)| text.parse().ok());
    let settler = settler.ok_or(Code::SETTLER_NOT_FOUND)?;
    let record = state.services.settlers.record(settler.clone()).await?.ok_or(Code::SETTLER_NOT_FOUND)?;
    Ok(Json(SettlerBody::new(&settler, &record, state.settler_pauses, state.services.clock.now())))
}
