//! Payments: the list of all, search, and one of them with its commits.
//!
//! A page looks at [`LOOKS_MAX`] payments at most, whatever is asked for. All readings take turns in the console's own lane.

mod detail;
mod few;
mod query;
mod row;

use std::{sync::Arc, time::Duration};

use chrono::Utc;
use serde::Serialize;
use tokio::{sync::Semaphore, time::timeout};

use app::own_payments::{
    LOOKS_MAX,
    parked::{Parked, ParkedPayments},
    query::{Judged, cursor},
};
use events::{QuoteRequestId, time::Timestamp};
use journal::parking::{Entry, Parking};
use projections::{
    ListPage, ListSlice, OwnedSlice, PageBounds, PaymentView, Place, Projections, SEARCH_CHARS_MIN, first_millisecond,
};

pub(crate) use self::{
    detail::{DetailBody, parked_entry},
    query::ListQuery,
};
use self::{
    few::{Few, Kind, Places, shard_of},
    row::{Moment, Row},
};
use crate::{Parts, error::Error, lane::Lane, ports::StoredCommits};

/// Least and most characters of what is searched for.
const SEARCH_CHARS_MAX: usize = 256;
/// Payments whose commits are read at a time; each may take some MiB.
const DETAILS_MAX: usize = 8;
/// How long rows wait to hear what is parked; without it they are shown all the same.
const PARKED_WAIT_MAX: Duration = Duration::from_millis(300);
/// Most payments that a search finds.
const FOUND_MAX: usize = 50;

/// Reads payments.
pub(crate) struct PaymentReads {
    projections: Projections,
    parked: ParkedPayments,
    parking: Arc<dyn Parking>,
    advice: fn(&Entry) -> &'static str,
    commits: Arc<dyn StoredCommits>,
    /// Of those who have commits read.
    turns: Semaphore,
    few: Few,
    lane: Lane,
    grace: Duration,
}

/// A page of the list.
#[derive(Debug, Serialize)]
pub(crate) struct PageBody {
    payments: Vec<Row>,
    next_cursor: Option<String>,
    looked_at: usize,
    uncertain_shards: Vec<u16>,
}

/// What a search found.
#[derive(Debug, Serialize)]
pub(crate) struct FoundBody {
    payments: Vec<Row>,
    quote_requests: Vec<FoundQuoteRequest>,
    /// Whether there may be more.
    incomplete: bool,
    uncertain_shards: Vec<u16>,
}

/// A batch that was found.
#[derive(Debug, Serialize)]
struct FoundQuoteRequest {
    quote_request_id: QuoteRequestId,
    status: &'static str,
}

impl PaymentReads {
    pub(crate) fn new(parts: &Parts) -> Self {
        Self {
            projections: parts.projections.clone(),
            parked: parts.parked.clone(),
            parking: parts.parking.clone(),
            advice: parts.advice,
            commits: parts.commits.clone(),
            turns: Semaphore::new(DETAILS_MAX),
            few: Few::new(parts.projections.clone(), parts.grace),
            lane: Lane::default(),
            grace: parts.grace,
        }
    }

    /// What reads the read models takes its turns here.
    pub(crate) fn lane(&self) -> &Lane {
        &self.lane
    }

    /// The read models.
    pub(crate) fn projections(&self) -> &Projections {
        &self.projections
    }

    /// What is parked.
    ///
    /// # Errors
    /// [`Error::Unavailable`].
    pub(crate) async fn parked(&self) -> Result<Arc<Parked>, Error> {
        self.parked.now().await.map_err(|fault| Error::Unavailable(format!("the parking: {fault}")))
    }

    /// The same for those who can do without; `None` where it is not known soon.
    async fn parked_soon(&self) -> Option<Arc<Parked>> {
        timeout(PARKED_WAIT_MAX, self.parked()).await.ok()?.ok()
    }

    /// Forgets what was parked, after a replay.
    pub(crate) async fn forget_parked(&self) {
        self.parked.forget().await;
        self.few.forget_parked().await;
    }

    /// A page of the list.
    pub(crate) async fn list(&self, query: ListQuery) -> Result<PageBody, Error> {
        // Rows can do without; a filter cannot.
        let parked = match query.filter.asks_parked() {
            true => Some(self.parked().await?),
            false => self.parked_soon().await,
        };
        let few = match Kind::of(&query) {
            Some(kind) if query.originator.is_none() => self.few.of(kind, parked.as_deref(), &self.lane).await?,
            _ => None,
        };
        let (projections, grace) = (self.projections.clone(), self.grace);
        self.lane.run(move || page(&projections, &query, few.as_ref(), parked.as_deref(), grace)).await
    }

    /// What begins with `text`.
    pub(crate) async fn search(&self, text: &str) -> Result<FoundBody, Error> {
        let text = text.trim();
        let count = text.chars().count();
        if !(SEARCH_CHARS_MIN..=SEARCH_CHARS_MAX).contains(&count) {
            let rule = format!("q: must have {SEARCH_CHARS_MIN} to {SEARCH_CHARS_MAX} characters");
            return Err(Error::Invalid(rule));
        }
        let parked = self.parked_soon().await;
        let (projections, grace, wanted) = (self.projections.clone(), self.grace, text.to_owned());
        let mut found = self
            .lane
            .run(move || {
                let found = projections.search(&wanted, FOUND_MAX)?;
                let moment = Moment { now: Utc::now(), grace, parked: parked.as_deref() };
                Ok(FoundBody {
                    payments: found.payments.iter().map(|(shard, view)| Row::new(view, *shard, moment)).collect(),
                    quote_requests: quote_request(&projections, &wanted, moment.now).into_iter().collect(),
                    incomplete: found.next.is_some(),
                    uncertain_shards: found.uncertain,
                })
            })
            .await?;
        // One whose stream cannot be read has no view, and is in the journal all the same.
        if found.payments.is_empty()
            && let Ok(payment_id) = text.parse()
            && let Some(row) = self.stored_row(&payment_id).await?
        {
            found.payments.push(row);
        }
        Ok(found)
    }
}

fn quote_request(projections: &Projections, text: &str, now: Timestamp) -> Option<FoundQuoteRequest> {
    let id: QuoteRequestId = text.parse().ok()?;
    let view = projections.get_quote_request(&id).ok().flatten()?;
    Some(FoundQuoteRequest { quote_request_id: id, status: view.status(now).as_str() })
}

/// Reads a page, by whichever index knows what is wanted.
fn page(
    projections: &Projections,
    query: &ListQuery,
    few: Option<&Places>,
    parked: Option<&Parked>,
    grace: Duration,
) -> Result<PageBody, Error> {
    let now = Utc::now();
    let none = Parked::default();
    let judged = Judged { now, grace, parked: &parked.unwrap_or(&none).payments };
    let takes = |shard: u16, view: &PaymentView| {
        query.in_flight.is_none_or(|wanted| wanted != view.at_rest) && query.filter.takes(view, shard, judged)
    };
    let bounds = PageBounds { payments_max: query.payments_max, looks_max: LOOKS_MAX };
    let (before, from, until) = (query.before.clone(), query.filter.from, query.filter.until);
    let read = match (&query.originator, few) {
        (Some(owner), _) => {
            let (slice, mut looked_at) = (OwnedSlice { owner: owner.clone(), before, from, until }, 0);
            let read = projections.owned(&slice, bounds, |shard, view| {
                looked_at += 1;
                takes(shard, view)
            })?;
            ListPage { payments: read.payments, next: read.next, looked_at, uncertain: Vec::new() }
        }
        (None, Some(places)) => page_of_few(projections, places, query, bounds, takes),
        (None, None) => projections.listed(&ListSlice { before, from, until }, bounds, takes)?,
    };
    let moment = Moment { now, grace, parked };
    Ok(PageBody {
        payments: read.payments.iter().map(|(shard, view)| Row::new(view, *shard, moment)).collect(),
        next_cursor: read.next.as_ref().map(cursor),
        looked_at: read.looked_at,
        uncertain_shards: read.uncertain,
    })
}

/// A page of those whose places are known.
fn page_of_few(
    projections: &Projections,
    places: &[Place],
    query: &ListQuery,
    bounds: PageBounds,
    takes: impl Fn(u16, &PaymentView) -> bool,
) -> ListPage {
    let mut uncertain = projections.uncertain_shards();
    let (mut payments, mut looked_at, mut last, mut next) = (Vec::new(), 0, None, None);
    let is_wanted = |place: &&Place| {
        let is_behind = query.before.as_ref().is_none_or(|before| *place < before);
        let (from, until) = (query.filter.from.map(first_millisecond), query.filter.until.map(first_millisecond));
        is_behind
            && from.is_none_or(|from| place.submitted_ms >= from)
            && until.is_none_or(|until| place.submitted_ms < until)
    };
    for place in places.iter().filter(is_wanted) {
        if payments.len() >= bounds.payments_max || looked_at >= bounds.looks_max {
            next = last;
            break;
        }
        looked_at += 1;
        match projections.find(&place.payment_id) {
            Ok(Some(found)) if takes(found.shard, &found.view) => payments.push((found.shard, found.view)),
            Ok(_) => {}
            Err(unavailable) => uncertain.push(shard_of(&unavailable)),
        }
        last = Some(place.clone());
    }
    uncertain.sort_unstable();
    uncertain.dedup();
    ListPage { payments, next, looked_at, uncertain }
}
