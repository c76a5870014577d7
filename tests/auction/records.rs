//! Settlers' records in auctions: who is passed over, who is asked all the same, and policies that ask for a record.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU8, Ordering},
    },
    time::Duration,
};

use anyhow::Result;
use chrono::{TimeDelta, Utc};
use serde_json::json;

use auction::Options;
use config::{PolicyRecordConfig, SettlerPolicyConfig};
use devkit::{NatsServer, holder::Holder};
use events::{Account, Did, quote::Quote, time::Timestamp};
use identity::{Identities, SettlerPolicies};
use protocol::{Bid, Registration, Rfq};
use sagas::{
    ports::{Auction, Gathered, Gathering, RequestForQuotes, SettlerRecords},
    settler_record::{AwardOutcome, PauseRule, SettlerRecord},
};

use super::{Bidder, Gateway, ISSUER, decline, gather, policies, quote, registered, registration, silence};
use crate::nats_roles::{ACCOUNT, PATIENCE, RELEASER, did, request, server, until};

/// Records that a test writes.
#[derive(Default)]
struct Written(Mutex<HashMap<Did, Arc<SettlerRecord>>>);

impl SettlerRecords for Written {
    fn record(&self, settler: &Did) -> Option<Arc<SettlerRecord>> {
        self.0.lock().unwrap().get(settler).cloned()
    }
}

impl Written {
    /// Settler `number` delivered so often, and missed awards at these times.
    fn of(&self, number: usize, delivered: u64, missed: impl IntoIterator<Item = Timestamp>) {
        let mut record = SettlerRecord { delivered, ..SettlerRecord::default() };
        let outcomes = (1..).zip(missed).map(|(originator, at)| AwardOutcome { at, is_missed: true, originator });
        outcomes.for_each(|outcome| record.ended(outcome));
        self.0.lock().unwrap().insert(did(number), Arc::new(record));
    }
}

/// A gateway that passes over, for an hour, who missed an award, by these records.
async fn gateway(server: &NatsServer, records: &Arc<Written>, policies: SettlerPolicies) -> Result<Gateway> {
    let hour = Duration::from_secs(3600);
    let pauses = PauseRule { missed: 1, pause: hour, pause_max: hour, ..PauseRule::DEFAULT };
    let options = Options { pauses, ..Options::default() };
    Gateway::with(server, options, policies, Some(records.clone())).await
}

/// A quote by settler `number` that may be awarded.
fn offer(number: usize) -> impl Fn(&Rfq) -> Option<Vec<u8>> + Send + 'static {
    move |rfq| {
        let terms = &rfq.terms;
        let account: Account = ACCOUNT.parse().unwrap();
        let quote = Quote {
            kind: Quote::kind(),
            auction_id: rfq.auction_id.clone(),
            terms_hash: rfq.terms_hash,
            settler: did(number),
            source_chain: terms.source.asset().chain().clone(),
            source_amount: terms.fulfillment_amount,
            payout_account: RELEASER.parse().unwrap(),
            escrow_contract: rfq.escrow.contract.clone(),
            destination: terms.destination()[0].clone(),
            fulfillment_amount: terms.fulfillment_amount,
            delivery_account: account,
            fulfillment_proxy: rfq.fulfillment_proxies[0].clone(),
            fulfill_by: rfq.fulfillment_deadline,
            valid_until: rfq.fulfillment_deadline,
        };
        let signed = quote.sign(&settler::dev::key(number).unwrap(), Utc::now()).unwrap();
        Some(protocol::write(&Bid::quote(signed.document())))
    }
}

async fn gathered(gateway: &Gateway, request: &RequestForQuotes) -> Result<Gathered> {
    Ok(tokio::time::timeout(PATIENCE, gateway.auction.gather(request)).await??)
}

fn passed_over(gathered: &Gathered) -> Vec<&Did> {
    gathered.passed_over.iter().map(|passed| &passed.settler).collect()
}

#[tokio::test]
async fn who_missed_awards_is_passed_over_unless_nobody_else_would_be_asked() -> Result<()> {
    let server = server().await?;
    let records = Arc::new(Written::default());
    let gateway = gateway(&server, &records, policies()).await?;
    let one = Bidder::start(&server, 1, quote("{\"offer\":1}")).await?;
    let says = Arc::new(AtomicU8::new(0));
    let _two = Bidder::start(&server, 2, {
        let says = says.clone();
        move |rfq| match says.load(Ordering::SeqCst) {
            0 => offer(2)(rfq),
            1 => decline("PRICE_ABOVE_CAP")(rfq),
            _ => quote("{\"offer\":2}")(rfq),
        }
    })
    .await?;
    for settler in 1..=2 {
        registered(&gateway, settler).await?;
    }
    let missed_at = Utc::now();
    records.of(1, 7, [missed_at]);
    let asked = one.asked();

    let open = request(Duration::from_secs(3600));
    let closed = gathered(&gateway, &open).await?;
    assert_eq!((&closed.addressed[..], passed_over(&closed)), (&[did(2)][..], vec![&did(1)]));
    assert_eq!(closed.passed_over[0].until, missed_at + TimeDelta::hours(1));
    assert_eq!(one.asked(), asked);

    // The payer's own list is no reason to ask one that lets payers down while another on it is there.
    let listed = RequestForQuotes { whitelist: vec![did(1), did(2)], ..request(Duration::from_secs(3600)) };
    let closed = gathered(&gateway, &listed).await?;
    assert_eq!((&closed.addressed[..], passed_over(&closed)), (&[did(2)][..], vec![&did(1)]));

    // One that is asked and does not offer, or offers junk, keeps nobody from being asked who may.
    let mut both = vec![did(1), did(2)];
    both.sort();
    for word in 1..=2 {
        says.store(word, Ordering::SeqCst);
        let closed = gathered(&gateway, &request(Duration::from_secs(3600))).await?;
        assert_eq!((&closed.addressed, closed.bids.len()), (&both, 2));
        assert!(closed.passed_over.is_empty(), "{:?}", closed.passed_over);
    }

    // Nobody else may win: by the payer's lists, or because the other is passed over, too.
    let alone = RequestForQuotes { blacklist: vec![did(2)], ..request(Duration::from_secs(3600)) };
    let closed = gathered(&gateway, &alone).await?;
    assert_eq!((&closed.addressed[..], closed.bids.len()), (&[did(1)][..], 1));
    assert!(closed.passed_over.is_empty(), "{:?}", closed.passed_over);
    records.of(2, 7, [missed_at]);
    let closed = gathered(&gateway, &request(Duration::from_secs(3600))).await?;
    assert_eq!(closed.addressed, both);
    assert!(closed.passed_over.is_empty(), "{:?}", closed.passed_over);
    Ok(())
}

#[tokio::test]
async fn whose_pause_ends_is_asked_in_the_same_window_and_whoever_was_asked_stays_asked() -> Result<()> {
    let server = server().await?;
    let records = Arc::new(Written::default());
    let gateway = gateway(&server, &records, policies()).await?;
    let one = Bidder::start(&server, 1, quote("{\"offer\":1}")).await?;
    let _two = Bidder::start(&server, 2, offer(2)).await?;
    let three = Bidder::start(&server, 3, silence).await?;
    for settler in 1..=3 {
        registered(&gateway, settler).await?;
    }
    records.of(1, 7, [Utc::now()]);
    let (asked, asked_three) = (one.asked(), three.asked());
    let request = request(Duration::from_secs(3600));
    let window = gather(&gateway, &request);
    until("the other is asked", || async { three.asked() > asked_three }).await?;
    assert_eq!(one.asked(), asked);
    // The one that is silent has a record now that would have it passed over, and the other has none any more.
    records.of(3, 7, [Utc::now()]);
    records.of(1, 7, []);
    until("both are asked", || async { one.asked() > asked && three.asked() > asked_three + 1 }).await?;
    window.abort();
    Ok(())
}

#[tokio::test]
async fn who_is_passed_over_is_asked_when_those_asked_stay_silent() -> Result<()> {
    let server = server().await?;
    let records = Arc::new(Written::default());
    let gateway = gateway(&server, &records, policies()).await?;
    let one = Bidder::start(&server, 1, quote("{\"offer\":1}")).await?;
    let two = Bidder::start(&server, 2, silence).await?;
    for settler in 1..=2 {
        registered(&gateway, settler).await?;
    }
    records.of(1, 7, [Utc::now()]);
    let (asked, asked_two) = (one.asked(), two.asked());
    let window = gather(&gateway, &request(Duration::from_secs(3600)));
    until("the silent one is asked again, and the other", || async {
        one.asked() > asked && two.asked() > asked_two + 1
    })
    .await?;
    window.abort();
    Ok(())
}

/// What is known of whom was passed over does not hang on the process that asked: of a window that is taken up again at its end,
/// in which nobody is asked any more, it is the same.
#[tokio::test]
async fn who_was_passed_over_is_known_at_the_end_of_a_window_that_was_taken_up_again() -> Result<()> {
    let server = server().await?;
    let records = Arc::new(Written::default());
    let first = gateway(&server, &records, policies()).await?;
    let one = Bidder::start(&server, 1, quote("{\"offer\":1}")).await?;
    let _two = Bidder::start(&server, 2, offer(2)).await?;
    let three = Bidder::start(&server, 3, silence).await?;
    for settler in 1..=3 {
        registered(&first, settler).await?;
    }
    records.of(1, 7, [Utc::now()]);
    let (asked, asked_three) = (one.asked(), three.asked());
    let request = request(Duration::from_secs(12));
    let Gathering::Open(window) = first.auction.gather_for_now(&request, None).await? else {
        panic!("the window is over although a settler is silent")
    };
    assert!(three.asked() > asked_three);
    let mut others = vec![did(2), did(3)];
    others.sort();
    until("the window has passed", || async { Utc::now() > request.quote_deadline }).await?;
    let Gathering::Over(closed) = first.auction.gather_for_now(&request, Some(window)).await? else {
        panic!("the window is open behind its deadline")
    };
    assert_eq!((&closed.addressed, passed_over(&closed)), (&others, vec![&did(1)]));
    drop(first);

    let second = gateway(&server, &records, policies()).await?;
    registered(&second, 2).await?;
    let closed = gathered(&second, &request).await?;
    assert_eq!((&closed.addressed, passed_over(&closed)), (&others, vec![&did(1)]));
    assert_eq!(one.asked(), asked);
    Ok(())
}

#[tokio::test]
async fn a_policy_that_asks_for_a_record_is_held_by_those_that_have_it() -> Result<()> {
    let server = server().await?;
    let records = Arc::new(Written::default());
    let issuer = Holder::ed25519(ISSUER)?;
    let policy = SettlerPolicyConfig {
        issuers: vec![issuer.did().as_str().parse()?],
        kind: "KycCredential".to_owned(),
        record: Some(PolicyRecordConfig { delivered_min: 20, missed_percent_max: 5 }),
    };
    let policies = SettlerPolicies::new(Identities::default(), &BTreeMap::from([("proven".to_owned(), policy)]));
    let gateway = gateway(&server, &records, policies).await?;
    let certified = |number: usize| -> Result<Registration> {
        let credential = issuer.credential(did(number).as_str(), "KycCredential", &json!({}), Utc::now())?;
        let credentials = vec![credential.as_object().cloned().unwrap_or_default()];
        Ok(Registration { credentials, ..registration(number) })
    };
    let _one = Bidder::registered(&server, 1, certified(1)?, decline("PRICE_ABOVE_CAP")).await?;
    let _two = Bidder::registered(&server, 2, certified(2)?, decline("PRICE_ABOVE_CAP")).await?;
    let _bare = Bidder::start(&server, 3, decline("PRICE_ABOVE_CAP")).await?;
    for settler in 1..=3 {
        registered(&gateway, settler).await?;
    }
    records.of(1, 19, []);
    records.of(2, 20, []);
    records.of(3, 20, []);
    let required_policies = vec!["proven".to_owned()];
    let requiring = RequestForQuotes { required_policies, ..request(Duration::from_secs(3600)) };
    let closed = gathered(&gateway, &requiring).await?;
    assert_eq!(closed.addressed, [did(2)]);
    let held: Vec<_> = closed.held.iter().map(|held| (&held.settler, held.policy.as_str())).collect();
    assert_eq!(held, [(&did(2), "proven")]);
    // Who does not hold it was not passed over.
    records.of(1, 19, [Utc::now()]);
    let again = RequestForQuotes { required_policies: vec!["proven".to_owned()], ..request(Duration::from_secs(3600)) };
    let closed = gathered(&gateway, &again).await?;
    assert_eq!((&closed.addressed[..], closed.passed_over.len()), (&[did(2)][..], 0));
    Ok(())
}
