//! The entries of an account's signer ledger, and the pure decision that extends them.

use data_encoding::BASE32_NOPAD;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use events::time::Timestamp;

use super::{CLOSED_MAX, EXITS_OPEN, Error, FILLER, FREE, OPEN_MAX, Purpose, RENEW_AFTER, Reservation};

const SCHEMA: u32 = 1;
/// Bytes of a purpose's digest that are kept once its reservation is closed.
const DIGEST_BYTES: usize = 10;

/// One entry of a ledger: what was reserved, and all there is to know after it, so that the last entry is enough.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    schema: u32,
    /// Which entry of its account it is, from 1 on, by which a later one that was lost is missed. Absent in entries of earlier
    /// versions, and where nothing can be lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ordinal: Option<u64>,
    /// The highest nonce given out, by this entry or before it: an entry that only renews, retires or gives back a reservation
    /// gives out none, and one that gives out a nonce which was given back none that is higher.
    reserved: Reservation,
    /// The account's nonces on chain as they were told by who reserved.
    chain_nonce: u64,
    final_nonce: u64,
    /// The next nonce.
    next_nonce: u64,
    /// Reservations that are not closed, this one included, in order of nonce.
    open: Vec<Reservation>,
    /// The purposes of the latest closed reservations, whose nonces are used up at finality, oldest first, each as the start of
    /// its SHA-256 in base32, with its nonce.
    #[serde(rename = "settled")]
    closed: Vec<(String, u64)>,
}

/// The decision on a request for a nonce.
pub enum Decision {
    /// The nonce was given out for this purpose before.
    Known(u64),
    /// This entry has to be stored first; then the nonce is given out.
    New(u64, Box<Entry>),
}

fn digest(purpose: &Purpose) -> String {
    BASE32_NOPAD.encode(&Sha256::digest(&purpose.0)[..DIGEST_BYTES]).to_ascii_lowercase()
}

impl Entry {
    /// The same with another reservation at its nonce.
    fn with(&self, changed: Reservation) -> Self {
        let mut entry = self.clone();
        for open in entry.open.iter_mut().filter(|open| open.nonce == changed.nonce) {
            *open = changed.clone();
        }
        if entry.reserved.nonce == changed.nonce {
            entry.reserved = changed;
        }
        entry
    }

    /// Whether the nonce of `reservation` was taken from its purpose since.
    pub fn retired(&self, reservation: &Reservation) -> bool {
        let filler = |open: &Reservation| open.nonce == reservation.nonce && open.purpose.is_filler();
        self.open.iter().any(filler)
    }

    pub fn open(&self) -> &[Reservation] {
        &self.open
    }

    /// Which entry of its account it is, from 1 on; `None` where it does not say.
    pub fn ordinal(&self) -> Option<u64> {
        self.ordinal
    }

    /// The same as the entry of this ordinal.
    pub fn numbered(self, ordinal: u64) -> Self {
        Self { ordinal: Some(ordinal), ..self }
    }

    pub fn encode(&self) -> Result<Vec<u8>, Error> {
        serde_json::to_vec(self).map_err(|error| Error::Damaged(error.to_string()))
    }

    pub fn decode(bytes: &[u8]) -> Result<Self, Error> {
        let entry: Self = serde_json::from_slice(bytes).map_err(|error| Error::Damaged(error.to_string()))?;
        if entry.schema != SCHEMA {
            return Err(Error::Damaged(format!("unknown schema version {}", entry.schema)));
        }
        let ascending = entry.open.windows(2).all(|pair| pair[0].nonce < pair[1].nonce);
        if !ascending || entry.open.last() != Some(&entry.reserved) || entry.next_nonce <= entry.reserved.nonce {
            return Err(Error::Damaged("nonces are not in order".into()));
        }
        Ok(entry)
    }
}

/// Decides on a request for a nonce after `last`.
pub fn decide(
    last: Option<&Entry>,
    purpose: &Purpose,
    chain_nonce: u64,
    final_nonce: u64,
    now: Timestamp,
) -> Result<Decision, Error> {
    let open = last.map_or(&[][..], Entry::open);
    if let (Some(last), Some(known)) = (last, open.iter().find(|reservation| reservation.purpose == *purpose)) {
        let is_old = now - known.reserved_at > RENEW_AFTER;
        let reserved_at = if is_old { now } else { known.reserved_at };
        let renewed = Reservation { reserved_at, asked_once: false, ..known.clone() };
        return Ok(match is_old || known.asked_once {
            true => Decision::New(known.nonce, Box::new(last.with(renewed))),
            false => Decision::Known(known.nonce),
        });
    }
    let mut closed = last.map(|last| last.closed.clone()).unwrap_or_default();
    let asked = digest(purpose);
    if let Some((_, nonce)) = closed.iter().find(|(digest, _)| *digest == asked) {
        return Ok(Decision::Known(*nonce));
    }
    let (done, mut open): (Vec<_>, Vec<_>) = open.iter().cloned().partition(|open| open.nonce < final_nonce);
    let used = done.iter().filter(|done| !done.purpose.is_free());
    closed.extend(used.map(|done| (digest(&done.purpose), done.nonce)));
    closed.drain(..closed.len().saturating_sub(CLOSED_MAX));
    let mut next_nonce = last.map_or(0, |last| last.next_nonce);
    let given = |nonce| Reservation { nonce, purpose: purpose.clone(), reserved_at: now, asked_once: true };
    // One that was given back takes no room, and gives none: what is kept for exits stays theirs.
    let open_max = if purpose.is_exit() { OPEN_MAX } else { OPEN_MAX - EXITS_OPEN };
    if open.iter().filter(|open| !open.purpose.is_free()).count() >= open_max {
        return Err(Error::Exhausted { open: open.len() });
    }
    let nonce = match open.iter_mut().find(|open| open.purpose.is_free() && open.nonce >= chain_nonce) {
        Some(free) => {
            *free = given(free.nonce);
            free.nonce
        }
        None => {
            if open.len() >= OPEN_MAX {
                return Err(Error::Exhausted { open: open.len() });
            }
            let nonce = next_nonce.max(chain_nonce).max(final_nonce);
            next_nonce = nonce.checked_add(1).ok_or_else(|| Error::Damaged("no nonce is left".into()))?;
            open.push(given(nonce));
            nonce
        }
    };
    let reserved = open.last().cloned().unwrap_or_else(|| given(nonce));
    let entry = Entry { schema: SCHEMA, ordinal: None, reserved, chain_nonce, final_nonce, next_nonce, open, closed };
    Ok(Decision::New(nonce, Box::new(entry)))
}

/// Decides on taking the nonce of `reservation` away from its purpose: the entry that has to be stored for it, `None` when
/// it is so already.
///
/// # Errors
/// [`Changed`] when the reservation is not open as it was.
pub fn retire(last: Option<&Entry>, reservation: &Reservation) -> Result<Option<Box<Entry>>, Changed> {
    let last = last.ok_or(Changed)?;
    if last.retired(reservation) {
        return Ok(None);
    }
    if !last.open.contains(reservation) {
        return Err(Changed);
    }
    let purpose = Purpose(format!("{FILLER}{}", reservation.nonce));
    Ok(Some(Box::new(last.with(Reservation { purpose, ..reservation.clone() }))))
}

/// Decides on giving back the nonce of `reservation`: the entry that has to be stored for it, `None` when it is so already.
///
/// # Errors
/// [`Changed`] when the reservation is not open as it was given out.
pub fn give_back(last: Option<&Entry>, reservation: &Reservation) -> Result<Option<Box<Entry>>, Changed> {
    let last = last.ok_or(Changed)?;
    let purpose = Purpose(format!("{FREE}{}", reservation.nonce));
    let free = Reservation { purpose, asked_once: false, ..reservation.clone() };
    if last.open.contains(&free) {
        return Ok(None);
    }
    if !reservation.asked_once || !last.open.contains(reservation) {
        return Err(Changed);
    }
    Ok(Some(Box::new(last.with(free))))
}

/// The reservation is not open as it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Changed;

#[cfg(test)]
mod tests {
    use super::*;

    fn reserve(last: &mut Option<Entry>, purpose: &str, chain_nonce: u64, final_nonce: u64) -> Result<u64, Error> {
        let now = "2026-01-02T03:04:05Z".parse().unwrap();
        match decide(last.as_ref(), &Purpose(purpose.into()), chain_nonce, final_nonce, now)? {
            Decision::Known(nonce) => Ok(nonce),
            Decision::New(nonce, entry) => {
                assert_eq!(Entry::decode(&entry.encode()?)?, *entry);
                *last = Some(*entry);
                Ok(nonce)
            }
        }
    }

    #[test]
    fn an_account_has_a_most_of_open_reservations() {
        let mut last = None;
        const DEPOSITS_MAX: usize = OPEN_MAX - EXITS_OPEN;
        for n in 0..DEPOSITS_MAX as u64 {
            assert_eq!(reserve(&mut last, &n.to_string(), 0, 0).unwrap(), n);
        }
        assert!(matches!(reserve(&mut last, "more", 0, 0), Err(Error::Exhausted { open: DEPOSITS_MAX })));
        assert_eq!(reserve(&mut last, "7", 0, 0).unwrap(), 7);
        for n in DEPOSITS_MAX as u64..OPEN_MAX as u64 {
            let leg = if n % 2 == 0 { "refund" } else { "release" };
            assert_eq!(reserve(&mut last, &format!("pay_{n}/{leg}/1"), 0, 0).unwrap(), n);
        }
        assert!(matches!(reserve(&mut last, "pay_x/refund/1", 0, 0), Err(Error::Exhausted { open: OPEN_MAX })));
        assert_eq!(reserve(&mut last, "pay_x/refund/1", 1, 1).unwrap(), OPEN_MAX as u64);
    }

    #[test]
    fn closed_purposes_are_remembered_up_to_a_bound() {
        let mut last = None;
        for n in 0..=CLOSED_MAX as u64 + 1 {
            assert_eq!(reserve(&mut last, &n.to_string(), n, n).unwrap(), n);
        }
        // Closed are 0 to CLOSED_MAX, one more than is remembered.
        assert_eq!(reserve(&mut last, "1", 0, 0).unwrap(), 1);
        assert_eq!(reserve(&mut last, "0", 0, 0).unwrap(), CLOSED_MAX as u64 + 2);
        // The member keeps the name that it has in every stored entry.
        let stored = String::from_utf8(last.unwrap().encode().unwrap()).unwrap();
        assert!(stored.contains(r#""settled":[["#), "{stored}");
    }

    #[test]
    fn a_nonce_that_was_given_back_needs_no_room() {
        let mut last = None;
        for n in 0..(OPEN_MAX - EXITS_OPEN) as u64 {
            reserve(&mut last, &n.to_string(), 0, 0).unwrap();
        }
        assert!(reserve(&mut last, "more", 0, 0).is_err());
        let given_back = last.as_ref().unwrap().open()[7].clone();
        last = Some(*give_back(last.as_ref(), &given_back).unwrap().unwrap());
        assert_eq!(reserve(&mut last, "more", 0, 0).unwrap(), 7);
        assert!(reserve(&mut last, "7", 0, 0).is_err());
    }

    #[test]
    fn what_exits_give_back_is_room_for_exits() {
        let mut last = None;
        for n in 0..(OPEN_MAX - EXITS_OPEN) as u64 {
            reserve(&mut last, &n.to_string(), 0, 0).unwrap();
        }
        for n in 0..EXITS_OPEN {
            reserve(&mut last, &format!("pay_{n}/refund/1"), 0, 0).unwrap();
        }
        let given_back = last.as_ref().unwrap().open()[OPEN_MAX - 3].clone();
        last = Some(*give_back(last.as_ref(), &given_back).unwrap().unwrap());
        assert!(reserve(&mut last, "more", 0, 0).is_err());
        assert_eq!(reserve(&mut last, "pay_x/refund/1", 0, 0).unwrap(), (OPEN_MAX - 3) as u64);
        assert!(reserve(&mut last, "pay_y/refund/1", 0, 0).is_err());
    }

    #[test]
    fn an_entry_of_an_earlier_version_does_not_say_who_asked() {
        let mut last = None;
        reserve(&mut last, "a", 5, 5).unwrap();
        let stored = String::from_utf8(last.unwrap().encode().unwrap()).unwrap();
        let earlier = Entry::decode(stored.replace(r#","asked_once":true"#, "").as_bytes()).unwrap();
        let found = earlier.open()[0].clone();
        assert!(!found.asked_once);
        for asked_once in [true, false] {
            let claimed = Reservation { asked_once, ..found.clone() };
            assert_eq!(give_back(Some(&earlier), &claimed), Err(Changed));
        }
    }

    #[test]
    fn damaged_entries_are_told() {
        let mut last = None;
        reserve(&mut last, "a", 5, 5).unwrap();
        let good = String::from_utf8(last.unwrap().encode().unwrap()).unwrap();
        for bad in [
            good.replace(r#""schema":1"#, r#""schema":2"#),
            good.replace(r#""next_nonce":6"#, r#""next_nonce":5"#),
            good.replace(r#""open":["#, r#""opened":["#),
            String::new(),
        ] {
            assert!(matches!(Entry::decode(bad.as_bytes()), Err(Error::Damaged(_))), "{bad}");
        }
    }
}
