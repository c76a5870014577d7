//! Quote collection: one window in which settlers are asked and their bids are taken.

use std::{collections::HashMap, future::pending, time::Duration};

use futures::{StreamExt, TryStreamExt, stream};
use tokio::time::{Instant, sleep, sleep_until};

use events::{Did, SettlerToken, time::Timestamp};
use journal_jetstream::{
    headerless::{Message, Subscription},
    last_message::{self, LastMessage},
};
use protocol::{bid_subject, bid_subjects, is_token};
use sagas::ports::{Gathered, Gathering, OpenWindow, RequestForQuotes, Transient};

use super::{
    Inner,
    streams::{ASKED_STREAM, asked_subject, bids_stream},
    window::Window,
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
        let deadline = self.instant(request.quote_deadline).min(begun + self.options.window_max);
        let mut registry = self.registry.changes();
        tokio::select! {
            _ = registry.wait_for(|version| *version > 0) => {}
            () = sleep_until(deadline) => {}
        }
        let mut settlers = *registry.borrow_and_update();

        let mut window = Window::new(request, &self.clock, before.is_none());
        window.had_time = before.is_some_and(|before| !before.pause.is_zero());
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
        while !Box::pin(self.is_answered(&mut window)).await? {
            let listening = match (window.listens, &window.live) {
                (true, Some(_)) => LISTENING,
                (true, None) => LISTENING_TO_NOBODY,
                (false, _) => Duration::ZERO,
            };
            tokio::select! {
                () = sleep_until(deadline) => {
                    // What came in time while this process stood still, or had no connection, was not heard in time.
                    Box::pin(self.find_stored(&mut window)).await?;
                    if window.addressed.is_empty() {
                        Box::pin(self.find_unkept(&mut window)).await?;
                    }
                    break;
                }
                () = self.until_give_up(begun, request), if window.addressed.is_empty() && !window.is_unread => {
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
        let passed_over = Box::pin(self.passed_over(&mut window, begun)).await;
        self.metrics.count(&window.bids, window.late, window.foreign, passed_over.len());
        Ok(Gathering::Over(window.close(passed_over)))
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
        // Whoever registers is asked at once. Whom others asked is read again until it could be.
        let is_nobody_there = window.addressed.is_empty() && self.registry.eligible(window.request).is_empty();
        if is_nobody_there && !window.is_unread {
            return;
        }
        window.had_time = true;
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
    pub(super) async fn subscribe(&self, window: &mut Window<'_>) -> Result<(), Transient> {
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

    /// Adds who was asked, and what they answered, before this gateway took the auction up or while it was disconnected.
    /// Nothing is read of anybody who was not asked, and nothing again of whoever was heard.
    async fn find_stored(&self, window: &mut Window<'_>) -> Result<(), Transient> {
        let auction_id = &window.request.auction_id;
        let asked = match self.asked(auction_id).await {
            Ok(asked) => {
                window.is_unread = false;
                asked
            }
            Err(last_message::Error::Missing) => {
                // Memory that went with its server: nothing is there to be found.
                self.restore_streams().await;
                return Ok(());
            }
            // Whoever is asked twice answers once, so there is no waiting for a leader. What counts is read before the window closes.
            Err(error) if self.clock.now() < window.request.quote_deadline => {
                tracing::debug!(auction_id, %error, "who was asked cannot be read for now");
                window.is_unread = true;
                Vec::new()
            }
            Err(error) => return Err(Transient::unreachable(format!("who was asked cannot be read: {error}"))),
        };
        let addressed_before = window.addressed.len();
        window.addressed.extend(asked.into_iter().map(|settler| (settler.token(), settler)));
        let silent = window.addressed.keys().filter(|token| !window.has_answered(token)).cloned().collect();
        let bids = self.stored_bids(silent, window.request).await;
        let bids = bids.map_err(|error| Transient::unreachable(format!("earlier bids cannot be read: {error}")))?;
        for (settler, bid) in bids {
            window.take(settler, bid.stored_at, wire::answer(&bid.payload));
        }
        // What another gateway has kept is there already, unless this one has asked others, too.
        window.is_kept &= window.addressed.len() == addressed_before || addressed_before == 0;
        self.keep_addressed(window).await;
        Ok(())
    }

    /// Takes the answers of those who may be asked, where nobody is known to have been: a gateway that died as it asked may not have
    /// kept whom, and only who was asked can have answered.
    async fn find_unkept(&self, window: &mut Window<'_>) -> Result<(), Transient> {
        let eligible = self.registry.eligible(window.request).into_iter();
        let eligible: HashMap<SettlerToken, Did> = eligible.map(|(settler, _)| (settler.token(), settler)).collect();
        let bids = self.stored_bids(eligible.keys().cloned().collect(), window.request).await;
        let bids = bids.map_err(|error| Transient::unreachable(format!("bids cannot be read: {error}")))?;
        for (token, bid) in bids {
            let Some(settler) = eligible.get(&token) else { continue };
            window.addressed.insert(token.clone(), settler.clone());
            window.take(token, bid.stored_at, wire::answer(&bid.payload));
        }
        Ok(())
    }

    /// Who was asked in an auction, as gateways have kept it; by the stream's leader. A replica that is behind, or servers of which
    /// none answers for a moment, would say that nobody was, and bids that were given would count for nothing.
    pub(super) async fn asked(&self, auction_id: &str) -> Result<Vec<Did>, last_message::Error> {
        let subject = asked_subject(auction_id);
        let record = last_message::by_leader(&self.client, ASKED_STREAM, &subject, ANSWER_TIMEOUT).await?;
        Ok(record.map(|record| addressed(&subject, &record.payload)).unwrap_or_default())
    }

    /// When it is `deadline` by the servers' clock; now where that is past.
    fn instant(&self, deadline: Timestamp) -> Instant {
        Instant::now() + (deadline - self.clock.now()).to_std().unwrap_or_default()
    }

    /// The last answer in time of each of these settlers, as far as it is kept; of one that gave none in time its last one. Whose
    /// it is says the stream that it was found in. A stream that went with its server holds none.
    pub(super) async fn stored_bids(
        &self,
        settlers: Vec<SettlerToken>,
        request: &RequestForQuotes,
    ) -> Result<Vec<(SettlerToken, LastMessage)>, last_message::Error> {
        let read = |settler: SettlerToken| async move {
            let (stream, subject) = (bids_stream(&settler), bid_subject(&settler, &request.auction_id));
            let by = request.quote_deadline;
            match last_message::by_leader_until(&self.client, &stream, &subject, by, ANSWER_TIMEOUT).await {
                Err(last_message::Error::Missing) => Ok(None),
                found => found.map(|found| found.map(|bid| (settler, bid))),
            }
        };
        let found: Vec<_> = stream::iter(settlers).map(read).buffer_unordered(READING_MAX).try_collect().await?;
        Ok(found.into_iter().flatten().collect())
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
