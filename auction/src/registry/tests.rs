//! The registry without a server: who is there, who may be asked, who is expected back.

use ed25519_dalek::SigningKey;

use events::{Account, Did, OwnedAsset, Terms, event::EscrowPlan, time::from_unix_seconds};
use sagas::ports::Escrowed;

use super::*;

fn registration(corridors: usize) -> (SettlerToken, Vec<u8>) {
    let did = Did::from_ed25519(&SigningKey::from_bytes(&[1; 32]).verifying_key());
    let corridors = (0..corridors).map(|n| {
        let asset = |chain: usize| format!("eip155:{chain}/slip44:60").parse().unwrap();
        protocol::Corridor { source_asset: asset(1), destination_asset: asset(n + 2) }
    });
    let registration = Registration {
        version: protocol::Version,
        settler: did.clone(),
        accounts: Vec::new(),
        corridors: corridors.collect(),
        policies: Vec::new(),
        credentials: Vec::new(),
        follows_reassignments: false,
    };
    (did.token(), protocol::write(&registration))
}

#[test]
fn one_that_flaps_wakes_auctions_a_few_times_and_then_waits() {
    let (registry, now) = (Registry::default(), Instant::now());
    let (token, one) = registration(1);
    for _ in 0..1_000 {
        registry.note(&token, &one, now).unwrap();
        registry.note(&token, &[], now).unwrap();
    }
    let woken = *registry.changes().borrow();
    assert_eq!(woken, u64::from(token_bucket::BURST));
    assert!(registry.tokens().is_empty());
    // Once it has come to rest it is there again.
    let later = now + token_bucket::REFILL;
    assert_eq!(registry.note(&token, &one, later), Ok(Noted::Changed));
    assert_eq!(registry.tokens(), [token]);
}

#[test]
fn one_that_leaves_is_expected_back_for_a_moment_where_it_served() {
    let (registry, now) = (Registry::default(), Instant::now());
    let (token, one) = registration(1);
    let asking = |chain: u64| {
        let owned = |chain: u64| {
            let account = "0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed";
            OwnedAsset::new(format!("eip155:{chain}/slip44:60").parse().unwrap(), account).unwrap()
        };
        let one: events::Amount = "1".parse().unwrap();
        request(Terms::new(owned(1), vec![owned(chain)], one, None))
    };
    let expected = |chain: u64| registry.expected_back_until(&asking(chain));
    registry.note(&token, &[], now).unwrap();
    assert_eq!(expected(2), None, "one that was never there");
    registry.note(&token, &one, now).unwrap();
    assert_eq!(expected(2), None, "one that is there");
    registry.note(&token, &[], now).unwrap();
    assert_eq!((expected(2), expected(3)), (Some(now + RETURN_MAX), None));
    registry.note(&token, &one, now).unwrap();
    assert_eq!(expected(2), None, "one that is back");
}

#[test]
fn whoever_does_not_follow_reassignments_is_not_asked_for_one_nor_is_whoever_faded() {
    let (_, payload) = registration(1);
    let silent: Registration = protocol::read(&payload).unwrap();
    let follows = Registration { follows_reassignments: true, ..silent.clone() };
    let owned = |chain: u64| {
        let account = "0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed";
        OwnedAsset::new(format!("eip155:{chain}/slip44:60").parse().unwrap(), account).unwrap()
    };
    let amount: events::Amount = "1".parse().unwrap();
    let first = request(Terms::new(owned(1), vec![owned(2)], amount, None));
    assert!(fits(&silent, &first) && fits(&follows, &first));
    let escrowed = Some(Escrowed { amount, reserved_for: Hash32([1; 32]) });
    let next = RequestForQuotes { escrowed, ..first };
    assert!(!fits(&silent, &next) && fits(&follows, &next));
    let faded = RequestForQuotes { blacklist: vec![follows.settler.clone()], ..next };
    assert!(!fits(&follows, &faded));

    let (registry, now) = (Registry::default(), Instant::now());
    let (token, settler) = (follows.settler.token(), &follows.settler);
    assert!(!registry.follows_reassignments(settler), "it is not there");
    for (registration, said) in [(&follows, true), (&silent, false)] {
        registry.note(&token, &protocol::write(registration), now).unwrap();
        assert_eq!(registry.follows_reassignments(settler), said);
    }
}

#[test]
fn one_that_took_its_registration_back_is_missing_as_one_whose_registration_lapsed() {
    let found = |payload: Vec<u8>| LastMessage {
        sequence: 1,
        stored_at: from_unix_seconds(1_893_456_000).unwrap(),
        payload: payload.into(),
    };
    assert!(is_missing(None));
    assert!(is_missing(Some(&found(Vec::new()))));
    assert!(!is_missing(Some(&found(registration(1).1))));
}

fn request(terms: Terms) -> RequestForQuotes {
    let account: Account = "0x9fe46736679d2d9a65f0992f2272de9f3c7fa6e0".parse().unwrap();
    let time = from_unix_seconds(1_893_456_000).unwrap();
    RequestForQuotes {
        escrowed: None,
        auction_id: "a".to_owned(),
        payment_id: None,
        terms_hash: terms.hash(),
        escrow: EscrowPlan {
            chain_id: terms.source.asset().chain().clone(),
            contract: account.clone(),
            reserver: account.clone(),
            releaser: account.clone(),
            reserve_deadline: 0,
            fulfillment_deadline: 0,
            refund_after: 0,
        },
        terms,
        fulfillment_proxies: vec![account],
        quote_deadline: time,
        fulfillment_deadline: time,
        whitelist: Vec::new(),
        blacklist: Vec::new(),
        required_policies: Vec::new(),
        payloads: Vec::new(),
    }
}

#[test]
fn one_that_changes_all_the_time_stays_as_it_was_and_its_renewals_cost_nothing() {
    let (registry, now) = (Registry::default(), Instant::now());
    let (token, one) = registration(1);
    assert_eq!(registry.note(&token, &one, now), Ok(Noted::Changed));
    for n in 2..100 {
        registry.note(&token, &registration(n).1, now).unwrap();
    }
    assert_eq!(registry.note(&token, &registration(7).1, now), Ok(Noted::Deferred));
    let woken = *registry.changes().borrow();
    assert_eq!(woken, u64::from(token_bucket::BURST));
    for _ in 0..100 {
        assert_eq!(registry.note(&token, &registration(4).1, now), Ok(Noted::Renewed));
    }
    assert_eq!(*registry.changes().borrow(), woken);
    assert!(registry.note(&token, &vec![b' '; REGISTRATION_BYTES_MAX + 1], now).is_err());
}
