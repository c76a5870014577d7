//! Selector service: answers the selection requests of gateways over NATS.

use async_nats::{Client, SubscribeError, client::FlushError};
use futures::StreamExt;
use tokio_util::sync::CancellationToken;

use config::SelectorRule;
use events::{
    Hash32,
    quote::SignedQuote,
    selection::{Choice, SelectorSigner, Shown},
};
use protocol::{
    self,
    selection::{SelectionAnswer, SelectionRequest, selector_subject},
};

use super::rule::choose;

/// Why a request gets no answer. A gateway shows none of this kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Refused {
    /// It is not a request.
    #[error(transparent)]
    Unreadable(#[from] protocol::Error),
    /// A document is not a valid quote.
    #[error("a quote is not valid: {0}")]
    Quote(#[from] events::quote::Error),
    /// A quote answers something else.
    #[error("a quote is for another auction or for other terms")]
    Foreign,
}

/// The answer to the request in `payload`. It follows from the request alone, so every process with the same key and rule
/// gives the same one, however often it is asked.
///
/// # Errors
/// See [`Refused`].
pub(super) fn answer(
    payload: &[u8],
    signer: &SelectorSigner,
    rule: SelectorRule,
    delivery_seconds_max: Option<u32>,
) -> Result<SelectionAnswer, Refused> {
    let request = SelectionRequest::read(payload)?;
    let quotes = request.quotes.iter().map(|document| SignedQuote::parse(document)).collect::<Result<Vec<_>, _>>()?;
    let foreign = |signed: &SignedQuote| {
        signed.quote().auction_id != request.auction_id || signed.quote().terms_hash != request.terms_hash
    };
    if quotes.iter().any(foreign) {
        return Err(Refused::Foreign);
    }
    let hashes: Vec<Hash32> = quotes.iter().map(SignedQuote::hash).collect();
    let shown = Shown { auction_id: &request.auction_id, terms_hash: request.terms_hash, quotes: &hashes };
    let choice = match choose(&rule, &quotes, request.quote_deadline, delivery_seconds_max) {
        Ok(best) => Choice::of(shown, best.hash()),
        Err(reason) => Choice::none(shown, Some(reason.to_owned())),
    };
    tracing::info!(
        auction_id = request.auction_id,
        quotes = quotes.len(),
        chosen = choice.quote_hash.map(|hash| hash.to_string()),
        reason = choice.reason,
        "chosen"
    );
    Ok(choice.sign(signer).into())
}

/// Why a selector does not answer any more.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Its subject cannot be subscribed to.
    #[error("listen to {subject}")]
    Subscribe {
        /// The subject.
        subject: String,
        /// What the client says.
        source: SubscribeError,
    },
    /// The server did not hear of the subscription.
    #[error("listen to requests")]
    Flush(#[from] FlushError),
    /// The connection is closed for good.
    #[error("the connection was closed")]
    Closed,
}

/// Answers requests until `shutdown`. Several processes with the same key share them.
///
/// # Errors
/// See [`Error`].
pub async fn run(
    client: Client,
    signer: SelectorSigner,
    rule: SelectorRule,
    delivery_seconds_max: Option<u32>,
    shutdown: CancellationToken,
) -> Result<(), Error> {
    let key = signer.key();
    let subject = selector_subject(&key);
    let subscription = client.queue_subscribe(subject.clone(), "selector".to_owned()).await;
    let mut requests = subscription.map_err(|source| Error::Subscribe { subject: subject.clone(), source })?;
    client.flush().await?;
    tracing::info!(selector = %key, subject, ?rule, "selector listens");
    while let Some(message) = shutdown.run_until_cancelled(requests.next()).await {
        let message = message.ok_or(Error::Closed)?;
        let Some(reply) = message.reply else { continue };
        match answer(&message.payload, &signer, rule, delivery_seconds_max) {
            Ok(answer) => {
                if let Err(error) = client.publish(reply, protocol::write(&answer).into()).await {
                    tracing::warn!(%error, "an answer cannot be sent");
                }
            }
            Err(refused) => tracing::warn!(%refused, "a request gets no answer"),
        }
    }
    Ok(())
}
