//! The window of an auction: who was asked and what came in so far.

use std::collections::{BTreeMap, HashMap};

use events::{Did, SettlerToken, event::PassedOver, identity::HeldPolicy, mutant, time::Timestamp};
use journal_jetstream::{
    headerless::{Message, Subscription},
    server_clock::ServerClock,
};
use protocol::split_subject;
use sagas::{
    auction::{check_quote, lasts},
    ports::{Answer, Bid, Gathered, RequestForQuotes},
};

use super::wire;

/// Different answers of one settler that are kept; further ones are dropped.
const ANSWERS_MAX: usize = 8;

/// What came in so far.
pub(super) struct Window<'a> {
    pub(super) request: &'a RequestForQuotes,
    clock: &'a ServerClock,
    /// Whether answers are heard as they come, and not only read where they are stored.
    pub(super) listens: bool,
    /// Answers as they come; `None` before anyone is known to have been asked.
    pub(super) live: Option<Subscription>,
    pub(super) addressed: HashMap<SettlerToken, Did>,
    /// Whether the stream has who was asked.
    pub(super) is_kept: bool,
    /// Whether whom others asked could not be read. Until it is, the window neither closes, nor is it kept who was asked: that would
    /// take the place of what another gateway has kept.
    pub(super) is_unread: bool,
    pub(super) bids: Vec<Bid>,
    /// Answers kept of each settler.
    answers: HashMap<SettlerToken, usize>,
    /// The required policies that settlers hold.
    pub(super) held: BTreeMap<(Did, String), HeldPolicy>,
    /// Whether those that were asked have had time to answer.
    pub(super) had_time: bool,
    pub(super) late: usize,
    /// Answers of settlers that are not known to have been asked.
    pub(super) foreign: usize,
}

impl<'a> Window<'a> {
    pub(super) fn new(request: &'a RequestForQuotes, clock: &'a ServerClock, listens: bool) -> Self {
        let (addressed, bids, answers, held) = Default::default();
        Self {
            request,
            clock,
            listens,
            live: None,
            addressed,
            is_kept: true,
            is_unread: false,
            bids,
            answers,
            held,
            had_time: false,
            late: 0,
            foreign: 0,
        }
    }

    /// Takes what comes in while the window is open.
    pub(super) fn hear(&mut self, message: &Message) {
        let Some((settler, auction_id)) = split_subject(&message.subject, "bid") else { return };
        if auction_id != self.request.auction_id {
            return;
        }
        // Who sends nothing has not answered yet. (The server's word that a settler is away, which is as empty, goes to the connection
        // that asked.)
        if message.payload.is_empty() {
            return;
        }
        self.take(settler, self.clock.now(), wire::answer(&message.payload));
    }

    pub(super) fn take(&mut self, settler: SettlerToken, received_at: Timestamp, answer: Answer) {
        if received_at > self.request.quote_deadline && !mutant!("late-bid-counts") {
            self.late += 1;
            return;
        }
        // The server lets nobody else answer; a gateway that has not yet read whom another asked finds the answer stored.
        if !self.addressed.contains_key(&settler) && !mutant!("unasked-bid-counts") {
            self.foreign += 1;
            return;
        }
        // The same answer is found in the stream after it was heard, and is given again when the request was.
        let is_known = |bid: &Bid| bid.settler == settler && bid.answer == answer;
        if self.bids.iter().any(is_known) && !mutant!("bid-counted-twice") {
            return;
        }
        let answers = self.answers.entry(settler.clone()).or_default();
        if *answers < ANSWERS_MAX {
            *answers += 1;
            self.bids.push(Bid { settler, received_at, answer });
        }
    }

    /// Who was asked, in order.
    pub(super) fn dids(&self) -> Vec<Did> {
        let mut dids: Vec<Did> = self.addressed.values().cloned().collect();
        dids.sort();
        dids
    }

    pub(super) fn has_answered(&self, settler: &SettlerToken) -> bool {
        self.answers.contains_key(settler)
    }

    /// Whether somebody offers what may be awarded, as far as the request says it. What cannot be is no offer, so that nobody's
    /// junk stands in for one; of each settler its last answer counts.
    pub(super) fn has_offer(&self) -> bool {
        let now = self.clock.now();
        let last: HashMap<_, _> = self.bids.iter().map(|bid| (&bid.settler, &bid.answer)).collect();
        last.into_iter().any(|(token, answer)| match (answer, self.addressed.get(token)) {
            (Answer::Quote(document), Some(settler)) => check_quote(self.request, None, settler, document)
                .is_ok_and(|signed| lasts(signed.quote().valid_until, now) && lasts(signed.quote().fulfill_by, now)),
            _ => false,
        })
    }

    pub(super) fn is_complete(&self) -> bool {
        !self.addressed.is_empty() && self.addressed.keys().all(|settler| self.has_answered(settler))
    }

    pub(super) fn close(self, passed_over: Vec<PassedOver>) -> Gathered {
        let held = self.held.values().cloned().collect();
        Gathered { addressed: self.dids(), bids: self.bids, held, passed_over }
    }
}
