//! Quote collection: one window in which settlers are asked and their bids are taken.

use std::{
    collections::{BTreeMap, HashMap},
    future::pending,
    time::Duration,
};

use async_nats::connection::State;
use bytes::Bytes;
use chrono::Utc;
use futures::{StreamExt, TryStreamExt, stream};
use serde_json::{Map, Value};
use tokio::time::{Instant, sleep, sleep_until};
use tracing::info_span;

use events::{Did, SettlerToken, identity::HeldPolicy, time::Timestamp};
use journal_jetstream::{
    headerless::{Message, Subscription},
    last_message::{self, LastMessage},
};
use protocol::{bid_subject, bid_subjects, is_token, rfq_subject, split_subject};
use sagas::ports::{Answer, Bid, Gathered, Gathering, OpenWindow, RequestForQuotes, Transient};

use super::{
    Inner,
    streams::{ASKED_STREAM, asked_subject, bids_stream},
    wire,
};

/// Settlers that have not answered are asked again after this time, since the request or the answer may have been lost,
/// and then after twice the time each, up to the longest.
const ASK_AGAIN_AFTER: Duration = Duration::from_secs(2);
const ASK_AGAIN_AFTER_MAX: Duration = Duration::from_secs(16);
/// So long answers are heard in a window that is new to this gateway: settlers offer in less, and the window is over then.
const LISTENING: Duration = Duration::from_secs(10);
/// The same where nobody is asked yet.
const LISTENING_TO_NOBODY: Duration = Duration::from_secs(2);
/// So long after somebody was asked in a window that has been open for longer what was answered is read. Nobody listens for it:
/// of such windows there may be very many at a time.
const ANSWERED_AFTER: Duration = Duration::from_secs(2);
/// Different answers of one settler that are kept; further ones are dropped.
const ANSWERS_MAX: usize = 8;
/// Time between two looks at a registry that cannot be read.
const UNREADABLE_PAUSE: Duration = Duration::from_secs(1);
/// How long the server may take to answer where many streams are read.
pub(super) const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);
/// Streams of bids that are read at a time.
const READING_MAX: usize = 32;

impl Inner {
    /// See [`sagas::ports::Auction::gather`].
    pub(super) async fn gather(&self, request: &RequestForQuotes) -> Result<Gathered, Transient> {
        let mut before = None;
        loop {
            let window = match Box::pin(self.gather_for_now(request, before)).await? {
                Gathering::Over(gathered) => return Ok(gathered),
                Gathering::Open(window) => window,
            };
            tokio::select! {
                () = sleep(window.rest) => {}
                () = self.registry.other(window.settlers) => {}
            }
            before = Some(window);
        }
    }

    /// See [`sagas::ports::Auction::gather_for_now`].
    ///
    /// Where nobody can be asked it closes at once, without quotes: who asks for what nobody serves holds nothing here, and hears
    /// so (ADR 108). It stays open for a moment where somebody may be just coming back, see [`Inner::give_up`].
    ///
    /// Answers are heard for [`LISTENING`] and found in the stream later. So a window that is open for longer has neither a
    /// subscription nor anything else in this process; in the end, and when those that are silent are asked again, what is
    /// stored is read.
    pub(super) async fn gather_for_now(
        &self,
        request: &RequestForQuotes,
        before: Option<OpenWindow>,
    ) -> Result<Gathering, Transient> {
        if !is_token(&request.auction_id) {
            let what = format!("auction id {:?} cannot stand in a subject", request.auction_id);
            return Err(Transient::misconfigured(what));
        }
        let begun = before.map_or_else(Instant::now, |before| before.begun.into());
        let deadline = instant(request.quote_deadline).min(begun + self.options.window_max);
        let mut registry = self.registry.changes();
        tokio::select! {
            _ = registry.wait_for(|version| *version > 0) => {}
            () = sleep_until(deadline) => {}
        }
        let mut settlers = *registry.borrow_and_update();

        let mut window = Window::new(request, before.is_none());
        let now = Instant::now();
        let (mut pause, mut ask_again) = match before {
            None => (ASK_AGAIN_AFTER, now + ASK_AGAIN_AFTER),
            Some(before) if before.ask_again > now.into_std() => (before.pause, before.ask_again.into()),
            Some(before) => {
                let pause = (before.pause * 2).clamp(ASK_AGAIN_AFTER, ASK_AGAIN_AFTER_MAX);
                (pause, now + pause)
            }
        };
        // Boxed, here and below: what is over in a moment takes no room while the window is open. First what another gateway
        // has done, or this one before; whoever has answered it is not asked again.
        let is_asked_again = match before {
            None => {
                Box::pin(self.catch_up(&mut window)).await?;
                true
            }
            Some(before) => {
                Box::pin(self.find_stored(&mut window)).await?;
                before.ask_again <= now.into_std()
            }
        };
        let is_answer_expected = Box::pin(self.ask(&mut window, is_asked_again)).await? && !window.listens;
        let mut listened_since = Instant::now();
        while !window.is_complete() {
            let listening = match (window.listens, &window.live) {
                (true, Some(_)) => LISTENING,
                (true, None) => LISTENING_TO_NOBODY,
                (false, _) => Duration::ZERO,
            };
            tokio::select! {
                () = sleep_until(deadline) => {
                    // What came in time while this process stood still, or had no connection, was not heard in time.
                    Box::pin(self.find_stored(&mut window)).await?;
                    break;
                }
                () = self.until_give_up(begun, request), if window.addressed.is_empty() => {
                    if Instant::now() < self.give_up(begun, request) {
                        // The registry cannot be read any more, or again only since a moment ago.
                        continue;
                    }
                    // Credentials may have become readable since, or are still unknown.
                    Box::pin(self.ask(&mut window, false)).await?;
                    if window.addressed.is_empty() && Instant::now() >= self.give_up(begun, request) {
                        break;
                    }
                }
                message = heard(&mut window.live) => {
                    let message = message.ok_or_else(|| Transient::unreachable("the connection was closed"))?;
                    window.hear(&message);
                }
                _ = registry.changed() => {
                    settlers = *registry.borrow_and_update();
                    Box::pin(self.ask_newcomers(&mut window)).await?;
                    listened_since = Instant::now();
                }
                () = sleep_until(ask_again) => {
                    pause = (pause * 2).min(ASK_AGAIN_AFTER_MAX);
                    ask_again = Instant::now() + pause;
                    Box::pin(self.ask_again(&mut window)).await;
                }
                () = sleep_until(listened_since + listening) => {
                    let is_nobody_there = window.addressed.is_empty() && self.registry.eligible(request).is_empty();
                    let asked = (!is_nobody_there).then_some(ask_again);
                    let given_up = window.addressed.is_empty().then(|| self.give_up(begun, request));
                    let answered = is_answer_expected.then(|| now + ANSWERED_AFTER);
                    let ends = [Some(deadline), asked, given_up, answered];
                    let rest = ends.into_iter().flatten().min().unwrap_or(deadline);
                    let rest = rest.saturating_duration_since(Instant::now());
                    if rest.is_zero() {
                        // One of these ends first.
                        listened_since = Instant::now() + ASK_AGAIN_AFTER;
                        continue;
                    }
                    let (begun, ask_again) = (begun.into_std(), ask_again.into_std());
                    return Ok(Gathering::Open(OpenWindow { begun, ask_again, pause, settlers, rest }));
                }
            }
        }
        if window.late > 0 {
            tracing::info!(auction_id = request.auction_id, late = window.late, "bids came too late");
        }
        Box::pin(self.judge_others(&mut window)).await;
        self.metrics.count(&window.bids, window.late, window.foreign);
        Ok(Gathering::Over(window.close()))
    }

    /// Asks those whom the registry has gained.
    async fn ask_newcomers(&self, window: &mut Window<'_>) -> Result<(), Transient> {
        let listened = window.live.is_some();
        self.ask(window, false).await?;
        // Whom others asked, and what came before this gateway listened.
        if !listened && window.live.is_some() {
            self.find_stored(window).await?;
        }
        Ok(())
    }

    /// Judges which policies those hold that another gateway asked; they were not judged here yet.
    async fn judge_others(&self, window: &mut Window<'_>) {
        for settler in window.dids() {
            let credentials = self.registry.credentials(&settler);
            self.holds_policies(window, &settler, &credentials).await;
        }
    }

    /// When a window that began then is over if nobody can be asked: at once, unless somebody may be coming back. A settler
    /// that is started anew has left a moment ago; those that were cut off together with the gateway are missing, and may
    /// not have registered again; while nobody can say who is there nobody can say who is missing; and whose credentials cannot
    /// be judged now may hold what is required.
    fn give_up(&self, begun: Instant, request: &RequestForQuotes) -> Instant {
        let registered_again = match self.registry.readable_since() {
            None => Instant::now() + UNREADABLE_PAUSE,
            Some(since) if self.registry.is_anyone_missing() => since + self.options.settling,
            Some(_) => begun,
        };
        let back = self.registry.expected_back_until(request).unwrap_or(begun);
        let judged = self.unknown_until(request).unwrap_or(begun);
        (begun + self.options.grace).max(registered_again).max(back).max(judged)
    }

    /// Waits until [`Inner::give_up`], which is asked only if this is waited for.
    async fn until_give_up(&self, begun: Instant, request: &RequestForQuotes) {
        sleep_until(self.give_up(begun, request)).await;
    }

    /// Until when it stays unknown whether somebody who is there holds the required policies; `None` when that is known of all.
    fn unknown_until(&self, request: &RequestForQuotes) -> Option<Instant> {
        let required = &request.required_policies;
        if required.is_empty() {
            return None;
        }
        let there = self.registry.eligible(request).into_iter();
        there.filter_map(|(settler, credentials)| self.policies.unknown_until(&settler, &credentials, required)).max()
    }

    /// Asks those that have not answered once more, and looks for what came meanwhile. What fails is tried at the next time.
    async fn ask_again(&self, window: &mut Window<'_>) {
        // Whoever registers is asked at once.
        if window.addressed.is_empty() && self.registry.eligible(window.request).is_empty() {
            return;
        }
        let asked = async {
            self.ask(window, true).await?;
            self.catch_up(window).await
        };
        if let Err(fault) = asked.await {
            tracing::warn!(auction_id = window.request.auction_id, %fault, "cannot ask again for now");
        }
    }

    /// Subscribes to answers, if that is not done yet. It begins before anyone is asked, so no answer is missed; and no
    /// earlier, because a subscription is most of what an open auction takes, here and in the server, and there may be
    /// thousands without anybody to ask.
    async fn subscribe(&self, window: &mut Window<'_>) -> Result<(), Transient> {
        if window.live.is_none() && window.listens {
            let live = self.heard.subscribe(bid_subjects(&window.request.auction_id)).await;
            window.live =
                Some(live.map_err(|error| Transient::unreachable(format!("cannot listen to bids: {error}")))?);
        }
        Ok(())
    }

    /// Finds what is stored, and subscribes if others have asked.
    async fn catch_up(&self, window: &mut Window<'_>) -> Result<(), Transient> {
        self.find_stored(window).await?;
        if window.live.is_none() && !window.addressed.is_empty() {
            self.subscribe(window).await?;
            // What came in between.
            self.find_stored(window).await?;
        }
        Ok(())
    }

    /// Sends the request to the eligible settlers that it was not sent to, and `again` to those that have not answered; whether it
    /// was sent to anybody.
    async fn ask(&self, window: &mut Window<'_>, again: bool) -> Result<bool, Transient> {
        let request = window.request;
        if Utc::now() >= request.quote_deadline {
            return Ok(false);
        }
        if self.client.connection_state() != State::Connected {
            // A request that waits in the client is sent when nobody waits for the answer any more.
            return Err(Transient::unreachable("NATS is not connected"));
        }
        let unreachable =
            |error: async_nats::PublishError| Transient::unreachable(format!("cannot ask for quotes: {error}"));
        let addressed_before = window.addressed.len();
        let mut payload: Option<Bytes> = None;
        for (settler, credentials) in self.registry.eligible(request) {
            let token = settler.token();
            if window.addressed.contains_key(&token) && (!again || window.has_answered(&token)) {
                continue;
            }
            if !self.holds_policies(window, &settler, &credentials).await {
                continue;
            }
            self.subscribe(window).await?;
            let payload = payload.get_or_insert_with(|| protocol::write(&wire::rfq(request)).into());
            let subject = rfq_subject(&token, &request.auction_id);
            // The subject for the answer is what permits the settler to bid in this auction.
            let reply = bid_subject(&token, &request.auction_id);
            self.request(&request.auction_id, subject, reply, payload.clone()).await.map_err(unreachable)?;
            window.addressed.insert(token, settler);
        }
        if window.addressed.len() > addressed_before {
            self.keep_addressed(window).await.map_err(unreachable)?;
        }
        Ok(payload.is_some())
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

    /// Whether a settler holds every policy that is required, and by which credentials, for the judgement.
    async fn holds_policies(&self, window: &mut Window<'_>, settler: &Did, credentials: &[Map<String, Value>]) -> bool {
        let required = &window.request.required_policies;
        if required.iter().all(|policy| window.held.contains_key(&(settler.clone(), policy.clone()))) {
            return true;
        }
        let held = self.policies.held(settler, credentials, required, Utc::now()).await;
        let holds_all = held.len() == required.len();
        window.held.extend(held.into_iter().map(|held| ((held.settler.clone(), held.policy.clone()), held)));
        holds_all
    }

    async fn keep_addressed(&self, window: &Window<'_>) -> Result<(), async_nats::PublishError> {
        // Serialization cannot fail: it is an array of strings.
        let asked = serde_json::to_vec(&window.dids()).unwrap_or_default();
        self.client.publish(asked_subject(&window.request.auction_id), asked.into()).await
    }

    /// Adds who was asked, and what they answered, before this gateway took the auction up or while it was disconnected.
    /// Nothing is read of anybody who was not asked, and nothing again of whoever was heard.
    async fn find_stored(&self, window: &mut Window<'_>) -> Result<(), Transient> {
        let auction_id = &window.request.auction_id;
        let asked = match self.asked(auction_id).await {
            Ok(asked) => asked,
            Err(last_message::Error::Missing) => {
                // Memory that went with its server: nothing is there to be found.
                self.restore_streams().await;
                return Ok(());
            }
            Err(error) => return Err(Transient::unreachable(format!("who was asked cannot be read: {error}"))),
        };
        let addressed_before = window.addressed.len();
        window.addressed.extend(asked.into_iter().map(|settler| (settler.token(), settler)));
        let silent = window.addressed.keys().filter(|token| !window.has_answered(token)).cloned().collect();
        let bids = self.stored_bids(silent, auction_id).await;
        let bids = bids.map_err(|error| Transient::unreachable(format!("earlier bids cannot be read: {error}")))?;
        for (settler, bid) in bids {
            window.take(settler, bid.stored_at, wire::answer(&bid.payload));
        }
        // What another gateway has kept is there already, unless this one has asked others, too.
        if window.addressed.len() > addressed_before && addressed_before > 0 {
            let kept = self.keep_addressed(window).await;
            kept.map_err(|error| Transient::unreachable(format!("cannot keep who was asked: {error}")))?;
        }
        Ok(())
    }

    /// Who was asked in an auction, as gateways have kept it.
    pub(super) async fn asked(&self, auction_id: &str) -> Result<Vec<Did>, last_message::Error> {
        let subject = asked_subject(auction_id);
        let record = last_message::by_any_replica(&self.client, ASKED_STREAM, &subject, ANSWER_TIMEOUT).await?;
        Ok(record.map(|record| addressed(&subject, &record)).unwrap_or_default())
    }

    /// The last answer of each of these settlers that is kept. Whose it is says the stream that it was found in. A stream that
    /// went with its server holds none.
    pub(super) async fn stored_bids(
        &self,
        settlers: Vec<SettlerToken>,
        auction_id: &str,
    ) -> Result<Vec<(SettlerToken, LastMessage)>, last_message::Error> {
        let read = |settler: SettlerToken| async move {
            let subject = bid_subject(&settler, auction_id);
            match last_message::by_leader(&self.client, &bids_stream(&settler), &subject, ANSWER_TIMEOUT).await {
                Err(last_message::Error::Missing) => Ok(None),
                found => found.map(|found| found.map(|bid| (settler, bid))),
            }
        };
        let found: Vec<_> = stream::iter(settlers).map(read).buffer_unordered(READING_MAX).try_collect().await?;
        Ok(found.into_iter().flatten().collect())
    }
}

/// What came in so far.
struct Window<'a> {
    request: &'a RequestForQuotes,
    /// Whether answers are heard as they come, and not only read where they are stored.
    listens: bool,
    /// Answers as they come; `None` before anyone is known to have been asked.
    live: Option<Subscription>,
    addressed: HashMap<SettlerToken, Did>,
    bids: Vec<Bid>,
    /// Answers kept of each settler.
    answers: HashMap<SettlerToken, usize>,
    /// The required policies that settlers hold.
    held: BTreeMap<(Did, String), HeldPolicy>,
    late: usize,
    /// Answers of settlers that are not known to have been asked.
    foreign: usize,
}

impl<'a> Window<'a> {
    fn new(request: &'a RequestForQuotes, listens: bool) -> Self {
        let (addressed, bids, answers, held) = Default::default();
        Self { request, listens, live: None, addressed, bids, answers, held, late: 0, foreign: 0 }
    }

    /// Takes what comes in while the window is open.
    fn hear(&mut self, message: &Message) {
        let Some((settler, auction_id)) = split_subject(&message.subject, "bid") else { return };
        if auction_id != self.request.auction_id {
            return;
        }
        // Who sends nothing has not answered yet. (The server's word that a settler is away, which is as empty, goes to the connection
        // that asked.)
        if message.payload.is_empty() {
            return;
        }
        self.take(settler, Utc::now(), wire::answer(&message.payload));
    }

    fn take(&mut self, settler: SettlerToken, received_at: Timestamp, answer: Answer) {
        if received_at > self.request.quote_deadline {
            self.late += 1;
            return;
        }
        // The server lets nobody else answer; a gateway that has not yet read whom another asked finds the answer stored.
        if !self.addressed.contains_key(&settler) {
            self.foreign += 1;
            return;
        }
        // The same answer is found in the stream after it was heard, and is given again when the request was.
        if self.bids.iter().any(|bid| bid.settler == settler && bid.answer == answer) {
            return;
        }
        let answers = self.answers.entry(settler.clone()).or_default();
        if *answers < ANSWERS_MAX {
            *answers += 1;
            self.bids.push(Bid { settler, received_at, answer });
        }
    }

    /// Who was asked, in order.
    fn dids(&self) -> Vec<Did> {
        let mut dids: Vec<Did> = self.addressed.values().cloned().collect();
        dids.sort();
        dids
    }

    fn has_answered(&self, settler: &SettlerToken) -> bool {
        self.answers.contains_key(settler)
    }

    fn is_complete(&self) -> bool {
        !self.addressed.is_empty() && self.addressed.keys().all(|settler| self.has_answered(settler))
    }

    fn close(self) -> Gathered {
        let held = self.held.values().cloned().collect();
        Gathered { addressed: self.dids(), bids: self.bids, held }
    }
}

/// The next answer; none comes without a subscription.
async fn heard(live: &mut Option<Subscription>) -> Option<Message> {
    match live {
        Some(live) => live.next().await,
        None => pending().await,
    }
}

/// Who was asked, by the record that is kept of it.
fn addressed(subject: &str, record: &[u8]) -> Vec<Did> {
    serde_json::from_slice(record).unwrap_or_else(|error| {
        tracing::warn!(subject, %error, "the record of who was asked is unreadable");
        Vec::new()
    })
}

fn instant(deadline: Timestamp) -> Instant {
    Instant::now() + (deadline - Utc::now()).to_std().unwrap_or_default()
}
