//! Entries of a tree: keys, and the stored form of values.

use serde::{Serialize, de::DeserializeOwned};

use events::{PaymentEvent, QuoteRequestEvent, StreamId};
use journal::Recorded;

use crate::{
    fault::Fault,
    owner_index::{self, OWNER_PREFIX},
    place::Place,
    quote_request::QuoteRequestView,
    record_deltas::RecordDeltas,
    search_index::{self, SEARCH_PREFIX},
    time_index::{self, TIME_PREFIX},
    view::{Applied, PaymentView},
};

/// Version of the stored form. Whatever bears another is built again.
pub(crate) const FORMAT: u8 = 15;
pub(crate) const CHECKPOINT: &[u8] = b"c";
pub(crate) const OPEN_PREFIX: u8 = b'o';
pub(crate) const PAYMENT_PREFIX: u8 = b'p';
pub(crate) const QUOTE_REQUEST_PREFIX: u8 = b'q';
pub(crate) const UNREADABLE_PREFIX: u8 = b'u';
/// The record of a settler, without its lists: every auction adds to it.
pub(crate) const RECORD_PREFIX: u8 = b'r';
/// The lists of that record, which change with the ends of awards alone.
pub(crate) const RECORD_LISTS_PREFIX: u8 = b'e';
/// A sum over both.
pub(crate) const RECORD_SUM: &[u8] = b"R";
/// Everything that the fold of a stream leaves in a tree.
pub(crate) const ENTRY_PREFIXES: [u8; 7] =
    [OWNER_PREFIX, OPEN_PREFIX, PAYMENT_PREFIX, QUOTE_REQUEST_PREFIX, SEARCH_PREFIX, TIME_PREFIX, UNREADABLE_PREFIX];
/// Indexes of payments, whose keys end with a place and are a function of the view.
pub(crate) const INDEX_PREFIXES: [u8; 3] = [OWNER_PREFIX, SEARCH_PREFIX, TIME_PREFIX];

/// The view of either kind.
pub(crate) enum View {
    Payment(Box<PaymentView>),
    QuoteRequest(Box<QuoteRequestView>),
}

impl View {
    /// The view after a stream's first commit, and in `records` what that adds to settlers' records.
    pub(crate) fn begin(first: &Recorded, records: &mut RecordDeltas) -> Option<Self> {
        let view = match &first.stream_id {
            StreamId::Payment(_) => {
                PaymentView::begin_telling(first, |settler, by, step| records.award(settler, by, step))
                    .map(|view| Self::Payment(Box::new(view)))
            }
            StreamId::QuoteRequest(_) => QuoteRequestView::begin(first).map(|view| Self::QuoteRequest(Box::new(view))),
        };
        view.inspect(|_| auctions(first, records))
    }

    /// Takes in one commit, and adds to `records` what it adds to settlers' records.
    pub(crate) fn apply(&mut self, recorded: &Recorded, records: &mut RecordDeltas) -> Applied {
        let applied = match self {
            Self::Payment(view) => view.apply_telling(recorded, |settler, by, step| records.award(settler, by, step)),
            Self::QuoteRequest(view) => view.apply(recorded),
        };
        if applied == Applied::Next {
            auctions(recorded, records);
        }
        applied
    }

    pub(crate) fn stream_id(&self) -> StreamId {
        match self {
            Self::Payment(view) => (&view.payment_id).into(),
            Self::QuoteRequest(view) => (&view.quote_request_id).into(),
        }
    }

    pub(crate) fn version(&self) -> u64 {
        match self {
            Self::Payment(view) => view.version,
            Self::QuoteRequest(view) => view.version,
        }
    }

    pub(crate) fn at_rest(&self) -> bool {
        match self {
            Self::Payment(view) => view.at_rest,
            Self::QuoteRequest(view) => view.at_rest,
        }
    }

    /// Its keys in the indexes of owners and of times, which follow from its first commit. Batches are in no index.
    pub(crate) fn lasting_keys(&self) -> Vec<Vec<u8>> {
        let Self::Payment(view) = self else { return Vec::new() };
        let place = Place::of(view);
        let mut keys = owner_index::keys(view, &place);
        keys.push(time_index::key(&place));
        keys
    }

    /// Its keys in the index for search, which change with it.
    pub(crate) fn search_keys(&self) -> Vec<Vec<u8>> {
        match self {
            Self::Payment(view) => search_index::keys(view),
            Self::QuoteRequest(_) => Vec::new(),
        }
    }

    pub(crate) fn encode(&self) -> Result<Vec<u8>, Fault> {
        match self {
            Self::Payment(view) => encode(view),
            Self::QuoteRequest(view) => encode(view),
        }
    }

    /// The view under `key`, whose prefix is that of its kind.
    pub(crate) fn decode(key: &[u8], value: &[u8]) -> Result<Self, Fault> {
        match key.first() {
            Some(&QUOTE_REQUEST_PREFIX) => decode(value).map(Self::QuoteRequest),
            _ => decode(value).map(Self::Payment),
        }
    }

    pub(crate) fn read(tree: &sled::Tree, stream_id: &StreamId) -> Result<Option<Self>, Fault> {
        let key = view_key(stream_id);
        tree.get(&key)?.map(|value| Self::decode(&key, &value)).transpose()
    }
}

/// The auctions that were closed in this commit.
fn auctions(recorded: &Recorded, records: &mut RecordDeltas) {
    for event in recorded.payment_events() {
        if let PaymentEvent::AuctionClosed(closed) = event {
            records.auction(closed);
        }
    }
    for event in recorded.quote_request_events() {
        if let QuoteRequestEvent::Collected(collected) = event {
            records.auction(&collected.auction);
        }
    }
}

pub(crate) fn key(prefix: u8, id: &str) -> Vec<u8> {
    let mut key = vec![prefix];
    key.extend_from_slice(id.as_bytes());
    key
}

pub(crate) fn view_key(stream_id: &StreamId) -> Vec<u8> {
    let prefix = match stream_id {
        StreamId::Payment(_) => PAYMENT_PREFIX,
        StreamId::QuoteRequest(_) => QUOTE_REQUEST_PREFIX,
    };
    key(prefix, stream_id.as_str())
}

pub(crate) fn stream_of(key: &[u8]) -> Result<StreamId, Fault> {
    if key.first().is_some_and(|prefix| INDEX_PREFIXES.contains(prefix)) {
        return Place::of_key(key).map(|place| place.payment_id.into());
    }
    let text = key.get(1..).and_then(|id| std::str::from_utf8(id).ok()).and_then(|id| id.parse().ok());
    text.ok_or_else(|| Fault::Damaged("a key holds no id of a stream".to_owned()))
}

pub(crate) fn encode<T: Serialize>(value: &T) -> Result<Vec<u8>, Fault> {
    postcard::to_extend(value, vec![FORMAT])
        .map_err(|error| Fault::Damaged(format!("value cannot be written: {error}")))
}

pub(crate) fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Fault> {
    match bytes.split_first() {
        Some((&FORMAT, body)) => {
            let (value, rest) = postcard::take_from_bytes(body)
                .map_err(|error| Fault::Damaged(format!("value cannot be read: {error}")))?;
            if rest.is_empty() { Ok(value) } else { Err(Fault::Damaged("value is followed by more".to_owned())) }
        }
        Some((format, _)) => Err(Fault::Damaged(format!("value has format {format}, this build reads {FORMAT}"))),
        None => Err(Fault::Damaged("value is empty".to_owned())),
    }
}
