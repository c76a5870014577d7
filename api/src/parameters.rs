//! The parameters of a URL.

use axum::extract::{Query, rejection::QueryRejection};

use app::error::Code;

use crate::error::ApiError;

/// Names and values, in their order; a name may come more than once.
pub(crate) type Pairs = Query<Vec<(String, String)>>;

/// The pairs of a query as they are read.
///
/// # Errors
/// 400 where it is none.
pub(crate) fn pairs(parameters: Result<Pairs, QueryRejection>) -> Result<Vec<(String, String)>, ApiError> {
    let rule = "the query must be name=value pairs, percent-encoded";
    parameters.map(|Query(pairs)| pairs).map_err(|_| ApiError::new(Code::INVALID_REQUEST, rule))
}
