//! `POST /v1/sessions/challenges` and `POST /v1/sessions`: an owner of payments proves who it is, and gets a token.

use std::sync::Arc;

use axum::{
    Extension, Json,
    extract::State,
    http::{HeaderName, HeaderValue, header},
    response::IntoResponse,
};

use app::sessions::{self, ChallengeBody, SessionBody};
use net::callers::Caller;

use super::{state::HttpState, write::Write};
use crate::error::ApiError;

/// Says that nobody keeps an answer: it is of one caller, or lets somebody be one.
pub(super) const NO_STORE: (HeaderName, HeaderValue) = (header::CACHE_CONTROL, HeaderValue::from_static("no-store"));

/// Makes the message that an account or a DID has to sign.
pub(super) async fn challenge(
    State(state): State<Arc<HttpState>>,
    write: Write,
) -> Result<([(HeaderName, HeaderValue); 1], Json<ChallengeBody>), ApiError> {
    let Write { body, permit, .. } = write;
    let challenge = sessions::challenge(&state, &body.json()?)?;
    drop(permit);
    Ok(([NO_STORE], Json(challenge)))
}

/// Takes the message back with its signature, and gives a token.
pub(super) async fn open(
    State(state): State<Arc<HttpState>>,
    Extension(caller): Extension<Caller>,
    write: Write,
) -> impl IntoResponse {
    let Write { body, permit, .. } = write;
    let opened = async {
        let session: SessionBody = Box::pin(sessions::open(&state, &caller, &body.json()?)).await?;
        Ok::<_, ApiError>(Json(session))
    };
    let opened = opened.await;
    drop(permit);
    ([NO_STORE], opened)
}
