//! Asking: who is sent a request for quotes, by policies and records, and who was passed over.

use std::time::Duration;

use async_nats::connection::State;
use bytes::Bytes;
use serde_json::{Map, Value};
use tokio::time::{Instant, timeout};
use tracing::info_span;

use config::PolicyRecordConfig;
use events::{Did, event::PassedOver};
use protocol::{bid_subject, rfq_subject};
use sagas::ports::Transient;

use super::{Inner, streams::asked_subject, window::Window, wire};

/// How long it may take to keep who was asked.
const KEEP_TIMEOUT: Duration = Duration::from_millis(500);

impl Inner {
    /// Sends the request to the eligible settlers that it was not sent to, and `again` to those that have not answered; whether it
    /// was sent to anybody. Those that are passed over are asked, too, when nobody else was, or when nobody who was asked
    /// offers: as soon as all have answered, or when the silent ones are asked again.
    pub(super) async fn ask(&self, window: &mut Window<'_>, again: bool) -> Result<bool, Transient> {
        let request = window.request;
        let now = self.clock.now();
        if now >= request.quote_deadline {
            return Ok(false);
        }
        if self.client.connection_state() != State::Connected {
            // A request that waits in the client is sent when nobody waits for the answer any more.
            return Err(Transient::unreachable("NATS is not connected"));
        }
        let addressed_before = window.addressed.len();
        let (mut payload, mut passed_over) = (None, Vec::new());
        for (settler, credentials) in self.registry.eligible(request) {
            let token = settler.token();
            match window.addressed.contains_key(&token) {
                true if !again || window.has_answered(&token) => {}
                false if self.records.passed_over_until(&settler, now).is_some() => {
                    passed_over.push((settler, credentials));
                }
                // Whoever was asked stays asked.
                true | false => self.ask_one(window, settler, &credentials, &mut payload).await?,
            }
        }
        // A payer is better served by these than by nobody, and its money is safe with either.
        let is_unserved = |window: &Window<'_>| (window.had_time || window.is_complete()) && !window.has_offer();
        if !passed_over.is_empty() && (window.addressed.is_empty() || is_unserved(window)) {
            for (settler, credentials) in passed_over {
                self.ask_one(window, settler, &credentials, &mut payload).await?;
            }
        }
        window.is_kept &= window.addressed.len() == addressed_before;
        self.keep_addressed(window).await;
        Ok(payload.is_some())
    }

    /// Whether the window is over by its answers: all have answered, and nobody is left to ask because none of them offers.
    pub(super) async fn is_answered(&self, window: &mut Window<'_>) -> Result<bool, Transient> {
        if window.is_complete() && self.records.may_pass_over() && !window.has_offer() {
            self.ask(window, false).await?;
        }
        Ok(window.is_complete() && !window.is_unread)
    }

    /// Sends the request to one that holds the required policies, and to no other. `payload` is what is sent, once it is made.
    async fn ask_one(
        &self,
        window: &mut Window<'_>,
        settler: Did,
        credentials: &[Map<String, Value>],
        payload: &mut Option<Bytes>,
    ) -> Result<(), Transient> {
        if !self.holds_policies(window, &settler, credentials).await {
            return Ok(());
        }
        self.subscribe(window).await?;
        let (request, token) = (window.request, settler.token());
        let auction_id = &request.auction_id;
        let payload = payload.get_or_insert_with(|| protocol::write(&wire::rfq(request)).into());
        let subject = rfq_subject(&token, auction_id);
        // The subject for the answer is what permits the settler to bid in this auction.
        let reply = bid_subject(&token, auction_id);
        self.request(auction_id, subject, reply, payload.clone()).await.map_err(|error| unasked(&error))?;
        window.addressed.insert(token, settler);
        Ok(())
    }

    /// Sends one request, in a span of its own, which it carries.
    async fn request(
        &self,
        auction_id: &str,
        subject: String,
        reply: String,
        payload: Bytes,
    ) -> Result<(), async_nats::PublishError> {
        let span = info_span!(target: trace::TARGET, "rfq", otel.kind = "producer", auction_id);
        match wire::trace_headers(&span) {
            Some(headers) => self.client.publish_with_reply_and_headers(subject, reply, headers, payload).await,
            None => self.client.publish_with_reply(subject, reply, payload).await,
        }
    }

    /// Whether a settler holds every policy that is required, and by what, for the judgement.
    async fn holds_policies(&self, window: &mut Window<'_>, settler: &Did, credentials: &[Map<String, Value>]) -> bool {
        let required = &window.request.required_policies;
        if required.iter().all(|policy| window.held.contains_key(&(settler.clone(), policy.clone()))) {
            return true;
        }
        let meets = |rule: &PolicyRecordConfig| self.records.meets(settler, rule);
        let held = self.policies.held(settler, credentials, required, &meets, self.clock.now()).await;
        let holds_all = held.len() == required.len();
        window.held.extend(held.into_iter().map(|held| ((held.settler.clone(), held.policy.clone()), held)));
        holds_all
    }

    /// Has the stream keep who was asked, where it does not yet, so that another gateway finds what they answer. What is not
    /// acknowledged is tried again with the next look at the window.
    pub(super) async fn keep_addressed(&self, window: &mut Window<'_>) {
        if window.is_kept || window.is_unread {
            return;
        }
        // Serialization cannot fail: it is an array of strings.
        let asked = serde_json::to_vec(&window.dids()).unwrap_or_default();
        let subject = asked_subject(&window.request.auction_id);
        let keep = async { self.jetstream.publish(subject, asked.into()).await?.await };
        match timeout(KEEP_TIMEOUT, keep).await {
            Ok(Ok(_)) => window.is_kept = true,
            Ok(Err(error)) => {
                tracing::debug!(auction_id = window.request.auction_id, %error, "who was asked is not kept for now");
            }
            Err(_) => tracing::debug!(auction_id = window.request.auction_id, "who was asked is not known to be kept"),
        }
    }

    /// Judges which policies those hold that another gateway asked; they were not judged here yet.
    pub(super) async fn judge_others(&self, window: &mut Window<'_>) {
        for settler in window.dids() {
            let credentials = self.registry.credentials(&settler);
            self.holds_policies(window, &settler, &credentials).await;
        }
    }

    /// Those who would have been asked in a window that is over, which began at `begun`, and were passed over. Whose pause ended
    /// meanwhile is one of them, unless it was asked then. The answer is the same whoever closes the window: nothing is kept of
    /// whom each round of asking passed over.
    pub(super) async fn passed_over(&self, window: &mut Window<'_>, begun: Instant) -> Vec<PassedOver> {
        // Where nobody was asked there was nobody for whose sake somebody could have been passed over.
        if window.addressed.is_empty() || !self.records.may_pass_over() {
            return Vec::new();
        }
        let (begun, mut passed_over) = (self.clock.now() - begun.elapsed(), Vec::new());
        for (settler, credentials) in self.registry.eligible(window.request) {
            if window.addressed.contains_key(&settler.token()) {
                continue;
            }
            let Some(until) = self.records.passed_over_until(&settler, begun) else { continue };
            if self.holds_policies(window, &settler, &credentials).await {
                passed_over.push(PassedOver { settler, until });
            }
        }
        passed_over
    }
}

fn unasked(error: &async_nats::PublishError) -> Transient {
    Transient::unreachable(format!("cannot ask for quotes: {error}"))
}
