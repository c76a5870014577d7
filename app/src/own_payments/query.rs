//! The query: filters, the page's length and the cursor, out of the parameters of a URL.

use std::{collections::HashSet, time::Duration};

use data_encoding::BASE64URL_NOPAD;

use events::{Amount, ChainId, Did, PaymentId, time::Timestamp};
use projections::{OpenLeg, PaymentStatus, PaymentView, Place, overdue};

use super::{PAGE_DEFAULT, PAGE_MAX, body};
use crate::{
    error::Error,
    families,
    list_query::{invalid, known, limit},
    request::fields::date_time,
    schema::ENDED,
};

/// Bytes of a cursor's payment id.
const PAYMENT_ID_BYTES: usize = 56;

/// Which payments of an owner are wanted: those of which everything that is said holds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    status: Option<PaymentStatus>,
    stage: Option<&'static str>,
    chain: Option<ChainId>,
    settler: Option<Did>,
    amount_from: Option<Amount>,
    amount_to: Option<Amount>,
    overdue: Option<bool>,
    parked: Option<bool>,
    /// Submitted then or later.
    pub from: Option<Timestamp>,
    /// Submitted earlier.
    pub until: Option<Timestamp>,
}

/// By what it is judged whether a [`Filter`] takes a payment.
#[derive(Debug, Clone, Copy)]
pub struct Judged<'a> {
    /// The time by which something is overdue.
    pub now: Timestamp,
    /// What a chain may take until a deadline that has passed can be acted on with proof.
    pub grace: Duration,
    /// The payments that are parked.
    pub parked: &'a HashSet<PaymentId>,
}

/// A query that was read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Query {
    /// Which payments.
    pub filter: Filter,
    /// How many, where it is said.
    pub limit: Option<usize>,
    /// Behind which.
    pub before: Option<Place>,
}

/// Every name that a parameter may have.
pub const PARAMETERS: [&str; 12] = [
    "status",
    "stage",
    "chain_id",
    "settler",
    "submitted_from",
    "submitted_until",
    "amount_from",
    "amount_to",
    "overdue",
    "parked",
    "limit",
    "cursor",
];

/// Every stage, in order.
pub fn stages() -> impl Iterator<Item = &'static str> {
    OpenLeg::ALL.into_iter().map(OpenLeg::as_str).chain([ENDED])
}

/// The stage of a payment: what it waits for, or that it has ended.
pub fn stage(view: &PaymentView) -> &'static str {
    if view.at_rest { ENDED } else { OpenLeg::of(view).as_str() }
}

impl Query {
    /// Reads the parameters, in whatever order. One that is not known is refused: a filter that was misspelled would show
    /// what nobody asked for.
    ///
    /// # Errors
    /// 400, naming the parameter and its rule.
    pub fn read<'a>(parameters: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<Self, Error> {
        let (mut query, mut seen) = (Self::default(), Vec::new());
        for (name, value) in parameters {
            let known = known(name, &PARAMETERS, &mut seen)?;
            query.take(known, value).map_err(|rule| invalid(&format!("{known}: {rule}")))?;
        }
        Ok(query)
    }

    fn take(&mut self, name: &str, value: &str) -> Result<(), String> {
        use PaymentStatus::{Completed, Failed, Finalizing, Pending};
        let filter = &mut self.filter;
        match name {
            "status" => {
                let statuses = [Pending, Finalizing, Completed, Failed];
                let status = statuses.into_iter().find(|status| status.as_str() == value);
                filter.status = Some(status.ok_or("must be pending, finalizing, completed or failed")?);
            }
            "stage" => {
                let rule = || format!("must be one of {}", stages().collect::<Vec<_>>().join(", "));
                filter.stage = Some(stages().find(|stage| *stage == value).ok_or_else(rule)?);
            }
            "chain_id" => filter.chain = Some(value.parse().map_err(|error: events::caip::Error| error.to_string())?),
            "settler" => filter.settler = Some(value.parse().map_err(|error: events::did::Error| error.to_string())?),
            "submitted_from" => filter.from = Some(date_time(value)?),
            "submitted_until" => filter.until = Some(date_time(value)?),
            "amount_from" => filter.amount_from = Some(amount(value)?),
            "amount_to" => filter.amount_to = Some(amount(value)?),
            "overdue" => filter.overdue = Some(value.parse().map_err(|_| "must be true or false")?),
            "parked" => filter.parked = Some(value.parse().map_err(|_| "must be true or false")?),
            "limit" => self.limit = Some(limit(value, PAGE_MAX)?),
            _ => self.before = Some(place(value).ok_or("must be the next_cursor of an earlier page")?),
        }
        Ok(())
    }

    /// Most payments on the page.
    pub fn payments_max(&self) -> usize {
        self.limit.unwrap_or(PAGE_DEFAULT)
    }
}

impl Filter {
    /// Whether it may pass over payments that are looked at. It is not for the time alone that it would.
    pub fn is_choosy(&self) -> bool {
        let indexed = Self { from: self.from, until: self.until, ..Self::default() };
        *self != indexed
    }

    /// Whether it asks which payments are parked.
    pub fn asks_parked(&self) -> bool {
        self.parked.is_some()
    }

    /// Whether it wants what is overdue, and nothing else.
    pub fn wants_overdue(&self) -> bool {
        self.overdue == Some(true)
    }

    /// Whether it wants what is parked, and nothing else.
    pub fn wants_parked(&self) -> bool {
        self.parked == Some(true)
    }

    /// Whether it takes the payment, which lies in `shard`. When it was submitted is not looked at: the index knows.
    pub fn takes(&self, view: &PaymentView, shard: u16, judged: Judged<'_>) -> bool {
        let is = |wanted: Option<bool>| wanted.unwrap_or(true);
        // What is in escrow, or may be at most.
        let amount = view.escrowed.unwrap_or(view.permitted);
        let is_overdue = || overdue(view, shard, judged.now, judged.grace).is_some();
        if !is(self.status.map(|status| status == view.status))
            || !is(self.stage.map(|wanted| wanted == stage(view)))
            || !is(self.amount_from.map(|least| amount >= least))
            || !is(self.amount_to.map(|most| amount <= most))
            || !is(self.parked.map(|wanted| wanted == judged.parked.contains(&view.payment_id)))
            || !is(self.overdue.map(|wanted| wanted == is_overdue()))
        {
            return false;
        }
        if self.chain.is_none() && self.settler.is_none() {
            return true;
        }
        let offer = view.quote.as_ref().and_then(body::offer);
        let source = view.source.asset().chain();
        let of_chain = |chain: &ChainId| {
            source == chain || offer.as_ref().is_some_and(|offer| offer.destination.asset().chain() == chain)
        };
        // Also of one that the escrow was reserved for, and that did not deliver.
        let of_settler = |settler: &Did| {
            offer.as_ref().is_some_and(|offer| offer.settler == *settler)
                || view.lapsed.iter().any(|lapsed| lapsed.settler == *settler)
        };
        is(self.chain.as_ref().map(of_chain)) && is(self.settler.as_ref().map(of_settler))
    }
}

/// An owner as the index names it, of a DID, or of an account with or without its namespace or its chain before it.
///
/// # Errors
/// The rule, where it is none of these.
pub fn owner(text: &str) -> Result<String, &'static str> {
    const RULE: &str = "must be a DID, or an account such as 0x… or eip155:0x…";
    if text.starts_with("did:") {
        return text.parse().map(|did: Did| did.to_string()).map_err(|_| RULE);
    }
    let account = match text.rsplit_once(':') {
        None => text.parse().ok(),
        Some((before, account)) => {
            let namespace = before.split(':').next().unwrap_or_default();
            families::account_of(&format!("{namespace}:{account}"))
        }
    };
    account.map(|account| account.originator()).ok_or(RULE)
}

fn amount(text: &str) -> Result<Amount, String> {
    text.parse().map_err(|error: events::amount::Error| error.to_string())
}

/// A place as a cursor. It tells a caller nothing that the payment does not, and finds nobody else's: the owner is that of
/// the token.
pub fn cursor(place: &Place) -> String {
    let bytes = [&place.submitted_ms.to_be_bytes(), place.payment_id.as_str().as_bytes()].concat();
    BASE64URL_NOPAD.encode(&bytes)
}

fn place(cursor: &str) -> Option<Place> {
    let bytes = BASE64URL_NOPAD.decode(cursor.as_bytes()).ok()?;
    let (time, id) = bytes.split_first_chunk::<8>().filter(|(_, id)| id.len() == PAYMENT_ID_BYTES)?;
    let payment_id: PaymentId = std::str::from_utf8(id).ok()?.parse().ok()?;
    Some(Place { submitted_ms: u64::from_be_bytes(*time), payment_id })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Query, String> {
        let pairs = text.split('&').filter(|pair| !pair.is_empty()).map(|pair| pair.split_once('=').unwrap());
        Query::read(pairs).map_err(|error| error.message())
    }

    #[test]
    fn a_cursor_is_read_as_it_was_made() {
        let place = Place { submitted_ms: 1_893_456_000_123, payment_id: PaymentId::derive("payer", "order-1") };
        let text = cursor(&place);
        assert_eq!(read(&format!("cursor={text}")).unwrap().before, Some(place));
        for bad in ["", "x", "AAAA", &text[1..], &format!("{text}A"), &text.replace('c', "_"), &"A".repeat(10_000)] {
            assert!(read(&format!("cursor={bad}")).is_err(), "{bad}");
        }
    }

    #[test]
    fn an_owner_is_found_by_whatever_he_is_called() {
        let account = "0xfb6916095ca1df60bb79ce92ce3ea74c37c5d359";
        let named = format!("eip155:{account}");
        let cased = "0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359";
        for text in [account, &named, cased, &format!("eip155:1:{cased}")] {
            assert_eq!(owner(text), Ok(named.clone()), "{text}");
        }
        assert_eq!(owner("did:web:bank.example").as_deref(), Ok("did:web:bank.example"));
        for bad in ["", "did:", "alice", "eip155:", "bip122:1:x", "0x00"] {
            assert!(owner(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn what_is_not_known_or_said_twice_is_refused() {
        assert_eq!(read("").unwrap(), Query::default());
        assert_eq!(read("limit=200").unwrap().payments_max(), 200);
        assert_eq!(Query::default().payments_max(), PAGE_DEFAULT);
        for bad in [
            "limit=0",
            "limit=201",
            "limit=+5",
            "limit=",
            "limit=99999999999999999999",
            "limit=5&limit=5",
            "status=done",
            "status=",
            "stage=pending",
            "chain_id=1",
            "settler=me",
            "submitted_from=yesterday",
            "submitted_until=2030-01-01",
            "amount_from=0",
            "amount_to=1.5",
            "overdue=yes",
            "parked=1",
            "owner=eip155:0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed",
            "access_token=gws1.x.y",
            "token=gws1.x.y",
        ] {
            assert!(read(bad).is_err(), "{bad}");
        }
        let all = "status=completed&stage=release&chain_id=eip155:1&settler=did:example:s&overdue=true&parked=false&limit=7\
                   &submitted_from=2030-01-01T00:00:00Z&submitted_until=2030-02-01T00:00:00Z&amount_from=1&amount_to=2";
        assert!(read(all).is_ok());
        for stage in stages() {
            assert!(read(&format!("stage={stage}")).is_ok());
        }
    }
}
