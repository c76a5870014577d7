//! Selector client: asks a selector over NATS.

use std::time::Duration;

use async_nats::{Client, Request, client::RequestErrorKind};
use async_trait::async_trait;

use events::selection::SignedChoice;
use protocol::{
    Version,
    selection::{SelectionAnswer, SelectionRequest, selector_subject},
};
use sagas::ports::{self, Selector, Transient};

/// How long one question may take. Whoever asks asks again as long as there is time.
const ANSWER_WAIT_MAX: Duration = Duration::from_secs(2);

/// The quote selectors, reached at their subjects.
pub struct NatsSelector(Client);

impl NatsSelector {
    /// Selectors over `client`.
    pub fn new(client: Client) -> Self {
        Self(client)
    }
}

#[async_trait]
impl Selector for NatsSelector {
    async fn choose(&self, request: &ports::SelectionRequest) -> Result<SignedChoice, Transient> {
        let subject = selector_subject(&request.selector);
        let message = SelectionRequest {
            version: Version,
            auction_id: request.auction_id.clone(),
            terms: request.terms.clone(),
            terms_hash: request.terms_hash,
            quote_deadline: request.quote_deadline,
            answer_by: request.answer_by,
            quotes: request.documents.clone(),
        };
        let question = Request::new().payload(protocol::write(&message).into()).timeout(Some(ANSWER_WAIT_MAX));
        let reply = self.0.send_request(subject, question).await.map_err(|error| match error.kind() {
            RequestErrorKind::NoResponders => Transient::unreachable("nobody listens for it on NATS"),
            RequestErrorKind::TimedOut => Transient::unreachable("no answer within 2 seconds"),
            _ => Transient::unreachable(format!("it cannot be asked: {error}")),
        })?;
        let answer: SelectionAnswer = protocol::read(&reply.payload)
            .map_err(|error| Transient::contradiction(format!("its answer is unusable: {error}")))?;
        Ok(answer.into())
    }
}
