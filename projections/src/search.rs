//! Search: the payments with an id, a hash or an owner that a text names.

use std::{collections::HashSet, ops::Range};

use events::{Account, PaymentId};

use crate::{
    entry::{PAYMENT_PREFIX, key},
    fault::Fault,
    owner_index::OwnedSlice,
    payment_list::{ListPage, Uncertain},
    place::{DIGEST_CHARS, ID_PREFIX, Place},
    read_model::Unavailable,
    search_index::{Kind, SEARCH_CHARS_MIN},
    service::Projections,
    store::Store,
    view::PaymentView,
};

/// Most entries of indexes that a search reads. Each shard gets an equal share, but never fewer than are asked for, so over many shards
/// as many as that from each.
pub const SEARCH_LOOKS_MAX: usize = 2_000;

impl Projections {
    /// Payments of which an id begins with `text`, newest first, at most `max`: the payment's (also without its
    /// `pay_`), its request id, its quote's, its batch's, the hash of one of its transactions or of its quote (`0x` may
    /// be left out); and those of the owner that `text` names: an account, also with its namespace or its chain before
    /// it, or a DID. Hex and ids are found in capitals and small letters alike, Base58 as it is written.
    ///
    /// Read models without the index for search ([`Projections::open_searched`]) are searched for payments' ids and owners alone.
    ///
    /// Where there are more than `max`, or more than are looked at, [`ListPage::next`] is there, which is not a place
    /// to go on from. Those are left out last then whose text nobody can choose. A text of fewer than
    /// [`SEARCH_CHARS_MIN`] characters finds nothing. What is true of shards that are not live in
    /// [`Projections::listed`] is here, too. Blocks for as long as sled takes for
    /// so many entries.
    ///
    /// # Errors
    /// [`Unavailable`] when no shard could be read.
    pub fn search(&self, text: &str, max: usize) -> Result<ListPage, Unavailable> {
        let uncertain = Uncertain::before(self);
        let store = self.model.store();
        let readings = Reading::all(text.trim());
        let looks_max = (SEARCH_LOOKS_MAX / usize::from(uncertain.shards).max(1)).max(max).max(1);
        let (mut candidates, mut faults) = (Candidates::default(), Vec::new());
        for shard in 0..uncertain.shards {
            if let Err(fault) = candidates.gather(&store, shard, &readings, looks_max) {
                faults.push((shard, fault));
            }
        }
        let looked_at = candidates.found.len();
        let (mut payments, left) = candidates.pick(&store, &readings, max, &mut faults);
        payments.sort_by_cached_key(|(_, view)| std::cmp::Reverse(Place::of(view)));
        let uncertain = uncertain.after(self, &faults)?;
        Ok(ListPage { payments, next: left, looked_at, uncertain })
    }
}

/// What a text may be, and where it is looked for.
enum Reading {
    /// A payment's id.
    PaymentId { keys: Range<Vec<u8>>, id: String },
    /// A text in the index for search.
    Text { kind: Kind, keys: [Range<Vec<u8>>; 2], text: String },
    /// An owner.
    Owner { keys: Range<Vec<u8>>, owner: String },
}

impl Reading {
    /// All readings of a text, those first that nobody can choose.
    fn all(text: &str) -> Vec<Self> {
        if text.chars().count() < SEARCH_CHARS_MIN {
            return Vec::new();
        }
        let texts = |kinds: &[Kind]| -> Vec<Self> {
            let read = |kind: &Kind| Some(Self::Text { kind: *kind, keys: kind.ranges(text)?, text: text.to_owned() });
            kinds.iter().filter_map(read).collect()
        };
        let mut readings: Vec<Self> = Self::payment_id(text).into_iter().collect();
        readings.extend(texts(&[Kind::Hash, Kind::Batch]));
        readings.extend(Self::owners(text));
        readings.extend(texts(&[Kind::RequestId, Kind::QuoteId]));
        readings
    }

    fn payment_id(text: &str) -> Option<Self> {
        let text = text.to_ascii_lowercase();
        let digest = text.strip_prefix(ID_PREFIX).unwrap_or(&text);
        let is_base32 = digest.bytes().all(|c| c.is_ascii_lowercase() || (b'2'..=b'7').contains(&c));
        if !is_base32 || !(SEARCH_CHARS_MIN..=DIGEST_CHARS).contains(&digest.len()) {
            return None;
        }
        let id = format!("{ID_PREFIX}{digest}");
        let first = key(PAYMENT_PREFIX, &id);
        let end = [&first[..], &[u8::MAX]].concat();
        Some(Self::PaymentId { keys: first..end, id })
    }

    /// The owner of this name, and the account behind its last colon, which is all of it where there is none.
    fn owners(text: &str) -> impl Iterator<Item = Self> {
        let account = text.rsplit(':').next().unwrap_or(text);
        let account = if account.starts_with("0x") { account.to_ascii_lowercase() } else { account.to_owned() };
        let account = account.parse().ok().map(|account: Account| account.originator());
        let owners = [text.to_owned()].into_iter().chain(account.filter(|account| account != text));
        owners.map(|owner| {
            let slice = OwnedSlice { owner, before: None, from: None, until: None };
            Self::Owner { keys: slice.keys(), owner: slice.owner }
        })
    }

    fn matches(&self, view: &PaymentView) -> bool {
        match self {
            Self::PaymentId { id, .. } => view.payment_id.as_str().starts_with(id),
            Self::Text { kind, text, .. } => kind.matches(view, text),
            Self::Owner { owner, .. } => view.belongs_to(owner),
        }
    }
}

/// What indexes say may be found.
#[derive(Default)]
struct Candidates {
    found: Vec<Candidate>,
    /// Whether there are more that were not looked at.
    cut: bool,
}

struct Candidate {
    /// Which of the readings, and whether it is one of the texts that go on behind what is searched for.
    rank: (usize, bool),
    place: Place,
    shard: u16,
}

impl Candidates {
    /// Adds the newest of a shard for each reading, up to `looks_max` in all.
    fn gather(&mut self, store: &Store, shard: u16, readings: &[Reading], looks_max: usize) -> Result<(), Fault> {
        let end = self.found.len() + looks_max;
        for (index, reading) in readings.iter().enumerate() {
            match reading {
                Reading::PaymentId { keys, .. } => {
                    self.add(end, shard, (index, false), store.places_of_ids(shard, keys.clone())?)?;
                }
                Reading::Owner { keys, .. } => {
                    self.add(end, shard, (index, false), store.places(shard, keys.clone())?)?;
                }
                Reading::Text { keys: [whole, longer], .. } => {
                    self.add(end, shard, (index, false), store.places(shard, whole.clone())?)?;
                    self.add(end, shard, (index, true), store.places(shard, longer.clone())?)?;
                }
            }
        }
        Ok(())
    }

    fn add(
        &mut self,
        end: usize,
        shard: u16,
        rank: (usize, bool),
        places: impl Iterator<Item = Result<Place, Fault>>,
    ) -> Result<(), Fault> {
        for place in places {
            if self.found.len() >= end {
                self.cut = true;
                break;
            }
            self.found.push(Candidate { rank, place: place?, shard });
        }
        Ok(())
    }

    /// The first `max` that are what was searched for, and a place where there may be more.
    fn pick(
        mut self,
        store: &Store,
        readings: &[Reading],
        max: usize,
        faults: &mut Vec<(u16, Fault)>,
    ) -> (Vec<(u16, PaymentView)>, Option<Place>) {
        self.found.sort_by(|a, b| a.rank.cmp(&b.rank).then_with(|| b.place.cmp(&a.place)));
        let (mut payments, mut taken, mut last) = (Vec::new(), HashSet::<PaymentId>::new(), None);
        for Candidate { rank: (index, _), place, shard } in self.found {
            let is_read = faults.iter().all(|(at_fault, _)| *at_fault != shard);
            if !is_read || taken.contains(&place.payment_id) {
                continue;
            }
            match store.payment(shard, &place.payment_id) {
                Ok(Some(view)) if Place::of(&view) == place && readings[index].matches(&view) => {
                    if payments.len() >= max {
                        self.cut = true;
                        break;
                    }
                    taken.insert(view.payment_id.clone());
                    payments.push((shard, view));
                }
                Ok(_) => {}
                Err(fault) => faults.push((shard, fault)),
            }
            last = Some(place);
        }
        (payments, last.filter(|_| self.cut))
    }
}
