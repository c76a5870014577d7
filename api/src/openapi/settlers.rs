//! What the document says about settlers' records.

use axum::http::Method;

use app::error::Code;

use super::{
    examples,
    operation::{Body, Operation},
    operations::READ,
    parameters::{settler_did, settlers_parameters},
};

/// The section of the document.
pub(super) const TAG: &str = "settlers";

/// A page of all settlers.
pub(super) const LIST: Operation = Operation {
    method: Method::GET,
    path: "/v1/settlers",
    id: "listSettlers",
    tag: TAG,
    summary: "List settlers and their records",
    description: "The settlers that were ever asked for a quote, in the order of their DIDs, each with its record. A page \
                  at a time, by `cursor`. Anybody may ask.\n\nWhat happened in the last moment may be missing.",
    parameters: settlers_parameters,
    request: None,
    response: Body::Json("Settlers", examples::settlers),
    no_content: None,
    headers: &[],
    errors: &[&[Code::INVALID_REQUEST], READ],
};

/// One settler.
pub(super) const SHOW: Operation = Operation {
    method: Method::GET,
    path: "/v1/settlers/{did}",
    id: "readSettler",
    tag: TAG,
    summary: "Read a settler's record",
    description: "A settler's record, of all payments and quote-requests of this gateway. Anybody may ask.\n\nWhat happened \
                  in the last moment may be missing.",
    parameters: || vec![settler_did()],
    request: None,
    response: Body::Json("Settler", examples::settler),
    no_content: None,
    headers: &[],
    errors: &[&[Code::SETTLER_NOT_FOUND], READ],
};
