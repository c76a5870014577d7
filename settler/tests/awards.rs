//! Awards: which of them a settler accepts.

use chrono::{DateTime, Utc};
use ed25519_dalek::SigningKey;
use serde_json::{Value, json};

use events::{
    Account, ChainId, Did, Hash32, OwnedAsset, PaymentId, QuoteRequestId, Terms, VerifierMember, VerifierSet,
    event::{EscrowPlan, VerifierRef},
    quote::{Quote, SignedQuote, reassignment_auction_of},
    time::from_unix_seconds,
};
use protocol::{AwardNotice, AwardToken, Escrowed, Version};
use settler::{
    Config, Options,
    config::LimitsConfig,
    job::{Job, Rejected},
};

const ACCOUNT: &str = "0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed";
const OTHER: &str = "0xfb6916095ca1df60bb79ce92ce3ea74c37c5d359";
const SOURCE: &str = "eip155:1/erc20:0x1111111111111111111111111111111111111111";
const DESTINATION: &str = "eip155:10/erc20:0x2222222222222222222222222222222222222222";
const FULFILL_BY: u64 = 1_800_000_120;

fn key() -> SigningKey {
    SigningKey::from_bytes(&[7; 32])
}

fn at(seconds: u64) -> DateTime<Utc> {
    from_unix_seconds(seconds).unwrap()
}

fn options() -> Options {
    options_with(json!([{"chain_id": "eip155:1", "account": ACCOUNT, "endpoint": "http://127.0.0.1:1/"}]))
}

/// The options of a settler that trusts these verifiers.
fn options_with(verifiers: Value) -> Options {
    options_changed(verifiers, |_| {})
}

/// The options of a settler that trusts these verifiers, with its source chain changed.
fn options_changed(verifiers: Value, change: impl FnOnce(&mut Value)) -> Options {
    let chain = |id: u64, asset: &str| {
        json!({
            "chain_id": format!("eip155:{id}"), "rpc_url": "http://127.0.0.1:1", "escrow_contract": ACCOUNT,
            "fulfillment_proxy": ACCOUNT, "reserver": ACCOUNT, "releaser": ACCOUNT, "required_depth": 1,
            "refund_delay_seconds": 60,
            "assets": [{"asset_identifier": asset, "symbol": "USD", "decimals": 6}],
        })
    };
    let mut source = chain(1, SOURCE);
    change(&mut source);
    let config = json!({
        "nats": {"url": "nats://127.0.0.1:4222"},
        "seed": "07".repeat(32),
        "evm_private_key": "11".repeat(32),
        "chains": [source, chain(10, DESTINATION)],
        "verifiers": verifiers,
        "corridors": [{"source_asset": SOURCE, "destination_asset": DESTINATION, "spread_bps": 100}],
    });
    serde_json::from_value::<Config>(config).unwrap().options().unwrap()
}

fn terms() -> Terms {
    let owned = |asset: &str| OwnedAsset::new(asset.parse().unwrap(), OTHER).unwrap();
    Terms::new(owned(SOURCE), vec![owned(DESTINATION)], "1000".parse().unwrap(), None)
}

fn quote(auction_id: String) -> SignedQuote {
    let terms = terms();
    let quote = Quote {
        kind: Quote::kind(),
        auction_id,
        terms_hash: terms.hash(),
        settler: Did::from_ed25519(&key().verifying_key()),
        source_chain: ChainId::evm(1),
        source_amount: "1010".parse().unwrap(),
        payout_account: ACCOUNT.parse().unwrap(),
        escrow_contract: ACCOUNT.parse().unwrap(),
        destination: terms.destination()[0].clone(),
        fulfillment_amount: "1000".parse().unwrap(),
        delivery_account: ACCOUNT.parse().unwrap(),
        fulfillment_proxy: ACCOUNT.parse().unwrap(),
        fulfill_by: at(FULFILL_BY),
        valid_until: at(FULFILL_BY),
    };
    quote.sign(&key(), at(FULFILL_BY - 100)).unwrap()
}

fn payment() -> PaymentId {
    PaymentId::derive("payer", "award-1")
}

/// The award of `quote` to the payment, under windows that end the reservation earlier than a batch's quote was told.
fn accept(quote: &SignedQuote, refund_after: u64) -> Result<Job, Rejected> {
    let verifier = VerifierRef::single(ACCOUNT.parse().unwrap(), "http://127.0.0.1:1".to_owned());
    Job::accept(notice(quote, refund_after, &verifier), &options())
}

/// An award whose escrow goes by the word of `verifier`.
fn notice(quote: &SignedQuote, refund_after: u64, verifier: &VerifierRef) -> AwardNotice {
    let escrow = EscrowPlan {
        chain_id: ChainId::evm(1),
        contract: ACCOUNT.parse().unwrap(),
        reserver: ACCOUNT.parse().unwrap(),
        releaser: verifier.account.clone(),
        reserve_deadline: FULFILL_BY - 60,
        fulfillment_deadline: FULFILL_BY,
        refund_after,
    };
    AwardNotice {
        version: Version,
        settler: quote.quote().settler.clone(),
        payment_id: payment(),
        terms: terms(),
        escrow: (&escrow).into(),
        quote: quote.document().to_owned(),
        quote_hash: quote.hash(),
        verifier: verifier.into(),
        payloads: Vec::new(),
        escrowed: None,
    }
}

/// The award of `quote` to the payment, whose escrow holds `amount`.
fn accept_escrowed(quote: &SignedQuote, amount: &str, reserved_for: Hash32) -> Result<Job, Rejected> {
    let verifier = VerifierRef::single(ACCOUNT.parse().unwrap(), "http://127.0.0.1:1".to_owned());
    let escrowed = Some(Escrowed { amount: amount.parse().unwrap(), reserved_for });
    Job::accept(AwardNotice { escrowed, ..notice(quote, FULFILL_BY + 60, &verifier) }, &options())
}

#[test]
fn a_quote_is_worked_on_for_its_own_payment_or_for_one_out_of_its_batch() {
    let batch = QuoteRequestId::derive("payer", "batch-1").to_string();
    for auction_id in [payment().to_string(), batch.clone()] {
        let quote = quote(auction_id.clone());
        let job = accept(&quote, FULFILL_BY + 60).unwrap();
        // The settler waits for the reservation of the payment, under the windows its payer signed.
        let reservation = job.reservation();
        assert_eq!((reservation.payment_id, reservation.quote_hash), (payment(), quote.hash()));
        assert_eq!(reservation.escrow.reserve_deadline, FULFILL_BY - 60);
        assert_eq!(job.delivery().payment_id, payment());
        // The settler keeps the promise that it made when it quoted.
        assert_eq!(job.need().key, auction_id);
    }
    let other = PaymentId::derive("payer", "another").to_string();
    for foreign in [other, "qrq_x".to_owned()] {
        let Rejected(reason) = accept(&quote(foreign.clone()), FULFILL_BY + 60).unwrap_err();
        assert!(reason.contains("another payment"), "{foreign}: {reason}");
    }
    let Rejected(reason) = accept(&quote(batch), FULFILL_BY + 59).unwrap_err();
    assert!(reason.contains("too little time"), "{reason}");
}

#[test]
fn an_award_is_stood_by_only_in_the_quotes_own_time_and_within_the_limits() {
    let batch = QuoteRequestId::derive("payer", "batch-1").to_string();
    let limits = options().limits;
    let lasting = |valid_until| {
        let quote = Quote { valid_until: at(valid_until), ..quote(batch.clone()).quote().clone() };
        quote.sign(&key(), at(FULFILL_BY - 100)).unwrap()
    };
    let job = accept(&lasting(FULFILL_BY - 90), FULFILL_BY + 60).unwrap();
    assert_eq!(job.check_times(&limits, at(FULFILL_BY - 90)), Ok(()));
    assert_eq!(job.check_times(&limits, at(FULFILL_BY - 89)), Err("QUOTE_EXPIRED"));
    // The deposit may be made until a minute before the delivery is due, and the tokens are held no longer than that.
    assert_eq!(job.deposit_awaited_until(&limits), at(FULFILL_BY - 60));
    let short = LimitsConfig { deposit_hold_seconds_max: 20, ..limits };
    assert_eq!(job.deposit_awaited_until(&short), at(FULFILL_BY - 70));
    let hasty = LimitsConfig { settlement_seconds_max: 29, ..limits };
    assert_eq!(job.check_times(&hasty, at(FULFILL_BY - 90)), Err("DEADLINE_TOO_LONG"));
    let never = accept(&lasting(FULFILL_BY - 90), u64::MAX).unwrap();
    assert_eq!(never.check_times(&limits, at(FULFILL_BY - 90)), Err("DEADLINE_TOO_LONG"));
    // A quote that outlives the deposit's window is not awarded past it.
    let job = accept(&lasting(FULFILL_BY), FULFILL_BY + 60).unwrap();
    assert_eq!(job.check_times(&limits, at(FULFILL_BY - 60)), Ok(()));
    assert_eq!(job.check_times(&limits, at(FULFILL_BY - 59)), Err("QUOTE_EXPIRED"));
}

const LAPSED: Hash32 = Hash32([3; 32]);

#[test]
fn an_escrow_is_waited_for_under_its_own_quote_until_the_settlers_own_promise() {
    let signed = quote(reassignment_auction_of(&payment(), 2));
    let mut job = accept_escrowed(&signed, "1010", LAPSED).unwrap();
    let reservation = job.reservation();
    assert_eq!((reservation.quote_hash, reservation.fulfill_by), (signed.hash(), FULFILL_BY));
    let escrowed = reservation.escrowed.unwrap();
    assert_eq!((escrowed.amount.to_string().as_str(), escrowed.reserved_for), ("1010", LAPSED));
    // It is told apart from other awards of the payment, and what is held for it from what is held for these.
    assert_eq!(job.token(), AwardToken::of_quote(signed.hash()));
    assert_eq!(job.need().key, reassignment_auction_of(&payment(), 2));
    let plain = accept(&quote(payment().to_string()), FULFILL_BY + 60).unwrap();
    assert_eq!((plain.token(), plain.reservation().escrowed), (AwardToken::of_payment(&payment()), None));

    // The deposit's window, which ended a minute before the promise, does not matter.
    let limits = options().limits;
    for reserve_deadline in [FULFILL_BY - 60, 0, u64::MAX] {
        job.escrow.reserve_deadline = reserve_deadline;
        assert_eq!(job.check_times(&limits, at(FULFILL_BY)), Ok(()));
        assert_eq!(job.check_times(&limits, at(FULFILL_BY + 1)), Err("QUOTE_EXPIRED"));
        assert_eq!(job.deposit_awaited_until(&limits), at(FULFILL_BY));
    }
    let early = Quote { valid_until: at(FULFILL_BY - 90), ..signed.quote().clone() };
    let job = accept_escrowed(&early.sign(&key(), at(FULFILL_BY - 100)).unwrap(), "1010", LAPSED).unwrap();
    assert_eq!(job.check_times(&limits, at(FULFILL_BY - 89)), Err("QUOTE_EXPIRED"));
    let short = LimitsConfig { deposit_hold_seconds_max: 20, ..limits };
    assert_eq!(job.deposit_awaited_until(&short), at(FULFILL_BY - 70));
    let hasty = LimitsConfig { settlement_seconds_max: 89, ..limits };
    assert_eq!(job.check_times(&hasty, at(FULFILL_BY - 90)), Err("DEADLINE_TOO_LONG"));
}

#[test]
fn an_award_of_an_escrow_is_worked_on_for_its_own_payment_and_within_what_is_in_it() {
    let own = quote(reassignment_auction_of(&payment(), 1));
    let rejected =
        |quote: &SignedQuote, amount, reserved_for| accept_escrowed(quote, amount, reserved_for).unwrap_err().0;
    assert!(rejected(&own, "1009", LAPSED).contains("exceeds what is in escrow"));
    assert!(rejected(&own, "1010", own.hash()).contains("reserved for the quote already"));
    let other = PaymentId::derive("payer", "another");
    let batch = QuoteRequestId::derive("payer", "batch-1").to_string();
    for foreign in [payment().to_string(), batch, reassignment_auction_of(&other, 1)] {
        let reason = rejected(&quote(foreign.clone()), "1010", LAPSED);
        assert!(reason.contains("not of an auction for the payment's escrow"), "{foreign}: {reason}");
    }
}

fn set(threshold: u8, endpoint: &str) -> VerifierSet {
    let accounts: [Account; 3] =
        [ACCOUNT, OTHER, "0x1111111111111111111111111111111111111111"].map(|a| a.parse().unwrap());
    let member = |(n, account)| VerifierMember { account, endpoint: format!("{endpoint}:{}", 8_090 + n) };
    VerifierSet::new(threshold, accounts.into_iter().enumerate().map(member).collect()).unwrap()
}

#[test]
fn a_sets_members_are_those_of_the_settlers_own_configuration() {
    let own = VerifierRef::of(set(2, "https://own.example")).unwrap();
    let options = options_with(json!([{
        "chain_id": "eip155:1", "account": own.account, "threshold": 2, "members": own.members(),
    }]));
    let quote = quote(payment().to_string());
    let accept = |verifier: &VerifierRef| Job::accept(notice(&quote, FULFILL_BY + 60, verifier), &options);
    // The endpoints of an award came from a payer, and a gateway that knows of no sets names none.
    let told = VerifierRef::of(set(2, "https://told.example")).unwrap();
    let untold = VerifierRef::single(own.account.clone(), "https://told.example");
    for verifier in [&told, &untold] {
        let job = accept(verifier).unwrap();
        assert_eq!(job.verifier, own);
        let request = job.attestation_request();
        assert_eq!((request.verifier_set, request.escrow.releaser), (own.set.clone(), own.account.clone()));
    }

    let rejected = |verifier: &VerifierRef| accept(verifier).unwrap_err().0;
    let lower = VerifierRef::of(set(1, "https://own.example")).unwrap();
    assert!(rejected(&lower).contains("not one this settler trusts"));
    let disguised = VerifierRef { account: own.account.clone(), ..lower };
    assert!(rejected(&disguised).contains("not the id of its set"));
}

#[test]
fn a_set_is_delivered_for_with_the_chains_own_escrow_only() {
    let own = VerifierRef::of(set(2, "https://own.example")).unwrap();
    let single = VerifierRef::single(OTHER.parse().unwrap(), "https://own.example");
    let verifiers = json!([
        {"chain_id": "eip155:1", "account": own.account, "threshold": 2, "members": own.members()},
        {"chain_id": "eip155:1", "account": single.account, "endpoint": "https://own.example"},
    ]);
    let quote = quote(payment().to_string());
    let check = |verifier: &VerifierRef, options: &Options| {
        // What is under way is settled on with either.
        let job = Job::accept(notice(&quote, FULFILL_BY + 60, verifier), options).unwrap();
        job.check_escrow(options)
    };
    let options = options_with(verifiers.clone());
    assert_eq!([&own, &single].map(|verifier| check(verifier, &options)), [Ok(()); 2]);
    // The quoted escrow was left since, or is an older one.
    let options = options_changed(verifiers, |source| {
        source["escrow_contract"] = json!(OTHER);
        source["trusted_escrow_contracts"] = json!([ACCOUNT]);
    });
    assert_eq!([&own, &single].map(|verifier| check(verifier, &options)), [Err("UNTRUSTED_CONTRACT"), Ok(())]);
}

#[test]
fn nothing_is_delivered_for_a_set_whose_members_are_not_configured() {
    let set = VerifierRef::of(set(2, "https://own.example")).unwrap();
    let options = options_with(json!([{
        "chain_id": "eip155:1", "account": set.account, "endpoint": "https://own.example",
    }]));
    let Rejected(reason) =
        Job::accept(notice(&quote(payment().to_string()), FULFILL_BY + 60, &set), &options).unwrap_err();
    assert!(reason.contains("members are not configured"), "{reason}");
}
