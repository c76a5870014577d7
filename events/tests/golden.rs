//! Stored events stay readable for ever: one golden file for each form in which an event of a schema version was ever
//! written, under `golden/v{version}/`. A golden file is never edited; a new version gets files of its own.

mod samples;

use std::{collections::BTreeSet, path::PathBuf};

use serde_json::Value;

use events::{
    Account, Amount, ChainId, Did, Event, Failure, Hash32, OwnedAsset, PaymentEvent, PaymentId, QuoteRequestEvent,
    QuoteRequestId, Terms, VerifierMember, VerifierSet,
    codec::{self, Error},
    event::{
        AddressFunded, AddressHeld, AttestationAwaited, AttestationMissed, AuctionClosed, Authorization, AwardLapsed,
        AwardWithdrawn, BatchPermit, BatchToken, Claim, CollectedQuote, CounterpartyDecision, Decline, DepositAddress,
        DepositMined, DepositRuledOut, DroppedBid, Eip3009, EscrowOpened, EscrowPlan, EscrowReassigned, EscrowRefunded,
        EscrowReleased, EscrowSecured, Failed, FulfillmentConfirmed, FulfillmentFinalized, FulfillmentSeen, Inclusion,
        Mandate, MandateCharge, Mark, MemberAttested, Moved, PassedOver, PayerStep, PayerTransaction,
        PayerTransactionSent, Permit2, QuoteAwarded, QuoteReceived, RefundDue, ReservationLapsed, SelectorAnswered,
        SelectorAsked, SelectorRef, SolanaPurchase, SolanaSpend, Submitted, TokenDomain, TokenPermit,
        TransactionAbandoned, TransactionPrepared, TronSpend, Validity, VerifierRef, WinnerTold, WithdrawalCause,
        X402Exact,
    },
    failure::{BlockchainContext, Domain, RetryClassification},
    identity::{Carrier, HeldPolicy, PresentedCredential, ProvenIdentity},
    quote_request::{BatchSelection, CollectedDocument, QuoteRequestAwarded, QuoteRequestOpened, QuotesCollected},
    time::Timestamp,
};

use self::samples::*;

fn directory(version: u32) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/v{version}"))
}

/// What each golden file of schema version 1 holds, as the current types say it.
fn golden() -> Vec<(&'static str, Event)> {
    let auction = AuctionClosed {
        addressed: vec![settler(1), settler(2), settler(3)],
        quotes: vec![QuoteReceived {
            settler: settler(1),
            quote_hash: hash(0x41),
            source_amount: amount("25500000"),
            fulfill_by: at(50),
        }],
        declines: vec![Decline { settler: settler(2), reason: "NO_INVENTORY".into() }],
        dropped: vec![DroppedBid { settler: "q4xw".into(), reason: "quote is larger than 16384 bytes".into() }],
        held_policies: Vec::new(),
        passed_over: Vec::new(),
        alternates: Vec::new(),
        closed_at: at(30),
    };
    let nobody = AuctionClosed {
        addressed: Vec::new(),
        quotes: Vec::new(),
        declines: Vec::new(),
        dropped: Vec::new(),
        held_policies: Vec::new(),
        passed_over: Vec::new(),
        alternates: Vec::new(),
        ..auction.clone()
    };
    let awarded = QuoteAwarded {
        quote_id: "quo_1".into(),
        quote_hash: hash(0x41),
        document: r#"{"type":"GatewayQuote"}"#.into(),
        awarded_at: at(31),
    };
    let asked = SelectorAsked { documents: vec![r#"{"type":"GatewayQuote"}"#.into()], asked_at: at(30) };
    let answered = SelectorAnswered {
        choice: r#"{"type":"GatewaySelection"}"#.into(),
        signature: "0x1e".into(),
        answered_at: at(31),
    };
    let confirmed = FulfillmentConfirmed {
        inclusion: inclusion(10),
        attestation: "0x1c".into(),
        confirmed_at: at(45),
        release_from: None,
    };
    let confirmed_to_be_released = FulfillmentConfirmed { release_from: Some(at(50)), ..confirmed.clone() };
    let finalized = FulfillmentFinalized { inclusion: inclusion(10), finalized_at: at(44) };
    let awaited = AttestationAwaited { inclusion: inclusion(10), awaited_at: at(46) };
    let refunded = EscrowRefunded { inclusion: inclusion(1), amount: amount("25500000"), claims: Vec::new() };
    let claim = |owner: &str, units: &str| Claim { owner: account(owner), amount: amount(units) };
    let refunded_as_a_claim = EscrowRefunded { claims: vec![claim(PAYER, "25500000")], ..refunded.clone() };
    let released = EscrowReleased { inclusion: inclusion(1), claims: Vec::new() };
    let released_as_claims =
        EscrowReleased { claims: vec![claim(RECIPIENT, "25000000"), claim(PAYER, "500000")], ..released.clone() };
    let on_tron = Inclusion { chain_id: "tron:728126428".parse().unwrap(), ..inclusion(1) };
    let opened_by_the_payer = EscrowOpened { inclusion: on_tron, amount: amount("26000000"), reserved_for: None };
    let opened_for_a_lost_award =
        EscrowOpened { inclusion: inclusion(1), amount: amount("25500000"), reserved_for: Some(hash(0x42)) };
    let by_non_delivery = RefundDue::ByNonDelivery { attestation: "0x1d".into() };
    let collected = QuotesCollected {
        auction: auction.clone(),
        quotes: vec![CollectedDocument {
            quote_id: "quo_1".into(),
            quote_hash: hash(0x41),
            valid_until: at(55),
            document: r#"{"type":"GatewayQuote"}"#.into(),
        }],
        selection: None,
    };
    let selection = BatchSelection {
        quote_hash: Some(hash(0x41)),
        choice: r#"{"type":"GatewaySelection"}"#.into(),
        signature: "0x1e".into(),
    };
    let collected_with_a_selection = QuotesCollected { selection: Some(selection), ..collected.clone() };
    let held = |policy: &str, expires| HeldPolicy {
        settler: settler(1),
        policy: policy.into(),
        issuer: settler(8),
        credential_hash: hash(0x62),
        expires,
    };
    let with_policies =
        AuctionClosed { held_policies: vec![held("kyc-1", Some(at(58))), held("licence", None)], ..auction.clone() };
    let with_alternates = AuctionClosed {
        passed_over: vec![PassedOver { settler: settler(3), until: at(58) }],
        alternates: collected.quotes.clone(),
        ..auction.clone()
    };
    let lapsed = |refusal: Option<&str>| {
        PaymentEvent::AwardLapsed(AwardLapsed {
            settler: settler(1),
            quote_hash: hash(0x41),
            refusal: refusal.map(str::to_owned),
            lapsed_at: at(42),
        })
    };
    let proven = Submitted { originator: settler(7).to_string(), identities: identities(), ..submitted() };
    let opened_by_a_holder =
        QuoteRequestOpened { originator: settler(7).to_string(), identities: identities(), ..opened() };
    let nothing = QuotesCollected { auction: nobody.clone(), quotes: Vec::new(), selection: None };
    let batch_awarded =
        QuoteRequestAwarded { quote_id: "quo_1".into(), payment_id: submitted().payment_id, awarded_at: at(31) };
    let reserved = EscrowSecured {
        inclusion: inclusion(1),
        amount: amount("25500000"),
        deposit: Some(Box::new(Inclusion { transaction_hash: hash(0x33).to_string(), ..inclusion(1) })),
    };
    let sent = PayerTransactionSent {
        step: PayerStep::Approval,
        chain_id: ChainId::evm(1),
        transaction_hash: hash(0x33).to_string(),
        sent_at: at(41),
    };
    let batches = [
        ("quote_request_opened", QuoteRequestEvent::Opened(Box::new(opened()))),
        ("quote_request_opened_by_a_holder", QuoteRequestEvent::Opened(Box::new(opened_by_a_holder))),
        ("quote_request_opened_with_least", QuoteRequestEvent::Opened(Box::new(opened_with_least()))),
        ("quote_request_opened_with_a_selector", QuoteRequestEvent::Opened(Box::new(opened_with_a_selector()))),
        ("quote_request_opened_with_a_secret", QuoteRequestEvent::Opened(Box::new(opened_with_a_secret()))),
        ("quotes_collected", QuoteRequestEvent::Collected(Box::new(collected))),
        ("quotes_collected_with_a_selection", QuoteRequestEvent::Collected(Box::new(collected_with_a_selection))),
        ("quotes_collected_without_quotes", QuoteRequestEvent::Collected(Box::new(nothing))),
        ("quote_request_awarded", QuoteRequestEvent::Awarded(batch_awarded)),
    ];
    let payments = [
        ("submitted", PaymentEvent::Submitted(Box::new(submitted()))),
        ("submitted_by_a_holder", PaymentEvent::Submitted(Box::new(proven))),
        ("submitted_by_a_transfer", PaymentEvent::Submitted(Box::new(submitted_by_a_transfer()))),
        ("submitted_in_a_payment_batch", PaymentEvent::Submitted(Box::new(submitted_in_a_payment_batch()))),
        ("submitted_under_a_mandate", PaymentEvent::Submitted(Box::new(submitted_under_a_mandate()))),
        ("submitted_by_x402", PaymentEvent::Submitted(Box::new(submitted_by_x402()))),
        ("submitted_by_x402_on_solana", PaymentEvent::Submitted(Box::new(submitted_by_x402_on_solana()))),
        ("submitted_with_an_allowance", PaymentEvent::Submitted(Box::new(submitted_with_an_allowance()))),
        ("submitted_from_a_batch", PaymentEvent::Submitted(Box::new(submitted_from_a_batch()))),
        ("submitted_on_solana", PaymentEvent::Submitted(Box::new(submitted_on_solana()))),
        ("submitted_by_address", PaymentEvent::Submitted(Box::new(submitted_by_address()))),
        (
            "address_funded",
            PaymentEvent::AddressFunded(AddressFunded {
                amount: amount("26000000"),
                block_number: 7,
                quote_deadline: at(30),
                funded_at: at(25),
            }),
        ),
        (
            "address_held",
            PaymentEvent::AddressHeld(AddressHeld { amount: amount("26000000"), block_number: 9, held_at: at(41) }),
        ),
        ("submitted_on_tron", PaymentEvent::Submitted(Box::new(submitted_on_tron()))),
        ("submitted_on_tron_without_approval", PaymentEvent::Submitted(Box::new(submitted_on_tron_without_approval()))),
        ("submitted_with_a_selector", PaymentEvent::Submitted(Box::new(submitted_with_a_selector()))),
        ("submitted_with_a_verifier_set", PaymentEvent::Submitted(Box::new(submitted_with_a_verifier_set()))),
        ("selector_asked", PaymentEvent::SelectorAsked(asked)),
        ("selector_answered", PaymentEvent::SelectorAnswered(answered)),
        ("submitted_with_least", PaymentEvent::Submitted(Box::new(submitted_with_least()))),
        ("auction_closed", PaymentEvent::AuctionClosed(auction)),
        ("auction_closed_with_policies", PaymentEvent::AuctionClosed(with_policies)),
        ("auction_closed_with_alternates", PaymentEvent::AuctionClosed(with_alternates)),
        ("auction_closed_without_settlers", PaymentEvent::AuctionClosed(nobody)),
        ("quote_awarded", PaymentEvent::QuoteAwarded(Box::new(awarded))),
        ("deposit_prepared", PaymentEvent::DepositPrepared(prepared())),
        ("deposit_repriced", PaymentEvent::DepositRepriced(repriced())),
        ("deposit_mined", PaymentEvent::DepositMined(DepositMined { inclusion: inclusion(1) })),
        ("deposit_abandoned", PaymentEvent::DepositAbandoned(abandoned())),
        (
            "escrow_secured",
            PaymentEvent::EscrowSecured(EscrowSecured {
                inclusion: inclusion(1),
                amount: amount("25500000"),
                deposit: None,
            }),
        ),
        ("escrow_secured_with_a_deposit", PaymentEvent::EscrowSecured(reserved)),
        ("payer_transaction_sent", PaymentEvent::PayerTransactionSent(sent)),
        ("escrow_opened", PaymentEvent::EscrowOpened(opened_by_the_payer)),
        ("escrow_opened_for_a_lost_award", PaymentEvent::EscrowOpened(opened_for_a_lost_award)),
        ("award_lapsed_refused", lapsed(Some("QUOTE_EXPIRED"))),
        ("award_lapsed_unanswered", lapsed(None)),
        ("award_withdrawn_refused", withdrawn(WithdrawalCause::Refused { reason: "QUOTE_EXPIRED".to_owned() })),
        ("award_withdrawn_unanswered", withdrawn(WithdrawalCause::Unanswered)),
        ("award_withdrawn_not_deposited", withdrawn(WithdrawalCause::NotDeposited)),
        ("winner_told", PaymentEvent::WinnerTold(WinnerTold { told_at: at(43) })),
        ("deposit_ruled_out", PaymentEvent::DepositRuledOut(DepositRuledOut { ruled_out_at: at(41), left: None })),
        (
            "deposit_ruled_out_with_money_left",
            PaymentEvent::DepositRuledOut(DepositRuledOut { ruled_out_at: at(41), left: Some(amount("26000000")) }),
        ),
        ("reservation_lapsed", PaymentEvent::ReservationLapsed(reservation_lapsed())),
        ("reassignment_abandoned", PaymentEvent::ReassignmentAbandoned(abandoned())),
        ("escrow_reassigned", PaymentEvent::EscrowReassigned(EscrowReassigned { inclusion: inclusion(1) })),
        ("fulfillment_seen", PaymentEvent::FulfillmentSeen(FulfillmentSeen { inclusion: inclusion(10) })),
        ("fulfillment_finalized", PaymentEvent::FulfillmentFinalized(finalized)),
        ("delivery_attested", PaymentEvent::DeliveryAttested(by_a_member())),
        ("non_delivery_attested", PaymentEvent::NonDeliveryAttested(by_a_member())),
        ("attestation_awaited", PaymentEvent::AttestationAwaited(awaited)),
        ("attestation_missed", PaymentEvent::AttestationMissed(AttestationMissed { missed_at: at(57) })),
        ("fulfillment_confirmed", PaymentEvent::FulfillmentConfirmed(confirmed)),
        ("fulfillment_confirmed_to_be_released", PaymentEvent::FulfillmentConfirmed(confirmed_to_be_released)),
        ("release_prepared", PaymentEvent::ReleasePrepared(prepared())),
        ("release_repriced", PaymentEvent::ReleaseRepriced(repriced())),
        ("release_abandoned", PaymentEvent::ReleaseAbandoned(abandoned())),
        ("escrow_released", PaymentEvent::EscrowReleased(released)),
        ("escrow_released_as_claims", PaymentEvent::EscrowReleased(released_as_claims)),
        ("failed_with_nothing_to_refund", failed(bare(Failure::NO_QUOTES_RECEIVED), RefundDue::Nothing)),
        ("failed_by_non_delivery", failed(on_chain(), by_non_delivery)),
        ("failed_after_window", failed(bare(Failure::SETTLEMENT_FAILED), RefundDue::AfterWindow)),
        ("failed_delivered_not_attested", failed(bare(Failure::DELIVERED_NOT_ATTESTED), RefundDue::AfterWindow)),
        ("refund_prepared", PaymentEvent::RefundPrepared(prepared())),
        ("refund_repriced", PaymentEvent::RefundRepriced(repriced())),
        ("refund_abandoned", PaymentEvent::RefundAbandoned(abandoned())),
        ("escrow_refunded", PaymentEvent::EscrowRefunded(refunded)),
        ("escrow_refunded_as_a_claim", PaymentEvent::EscrowRefunded(refunded_as_a_claim)),
    ];
    let marks = [("stream_moved", Event::from(Mark::Moved(Moved { to_epoch: 3 })))];
    let payments = payments.into_iter().map(|(name, event)| (name, Event::from(event)));
    payments.chain(batches.into_iter().map(|(name, event)| (name, event.into()))).chain(marks).collect()
}

/// The same of version 2.
fn golden_2() -> Vec<(&'static str, Event)> {
    let events = [
        ("deposit_prepared", PaymentEvent::DepositPrepared(prepared())),
        ("deposit_prepared_on_solana", PaymentEvent::DepositPrepared(on_solana(prepared()))),
        ("deposit_prepared_on_tron", PaymentEvent::DepositPrepared(on_tron(prepared()))),
        ("deposit_repriced", PaymentEvent::DepositRepriced(repriced())),
        ("reassignment_prepared", PaymentEvent::ReassignmentPrepared(prepared())),
        ("reassignment_prepared_on_solana", PaymentEvent::ReassignmentPrepared(on_solana(prepared()))),
        ("reassignment_prepared_on_tron", PaymentEvent::ReassignmentPrepared(on_tron(prepared()))),
        ("reassignment_repriced", PaymentEvent::ReassignmentRepriced(repriced())),
        ("release_prepared", PaymentEvent::ReleasePrepared(prepared())),
        ("release_prepared_on_solana", PaymentEvent::ReleasePrepared(on_solana(prepared()))),
        ("release_prepared_on_tron", PaymentEvent::ReleasePrepared(on_tron(prepared()))),
        ("release_repriced", PaymentEvent::ReleaseRepriced(repriced())),
        ("refund_prepared", PaymentEvent::RefundPrepared(prepared())),
        ("refund_prepared_on_solana", PaymentEvent::RefundPrepared(on_solana(prepared()))),
        ("refund_prepared_on_tron", PaymentEvent::RefundPrepared(on_tron(prepared()))),
        ("refund_repriced", PaymentEvent::RefundRepriced(repriced())),
    ];
    events.into_iter().map(|(name, event)| (name, Event::from(event))).collect()
}

/// Types that are written in version 2, so that their files of version 1 are only read.
const SUPERSEDED: [&str; 6] =
    ["DepositPrepared", "DepositRepriced", "ReleasePrepared", "ReleaseRepriced", "RefundPrepared", "RefundRepriced"];

fn stored(version: u32, name: &str) -> String {
    let path = directory(version).join(format!("{name}.json"));
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn every_stored_form_is_read_and_the_current_one_still_written() {
    for (version, golden) in [(1, golden()), (2, golden_2())] {
        for (name, event) in golden {
            let stored = stored(version, name);
            let schema = version.to_string();
            let decoded = codec::decode(event.type_name(), &schema, format!("[{stored}]").as_bytes()).unwrap();
            assert_eq!(decoded, std::slice::from_ref(&event), "{name}");
            let superseded = version == 1 && SUPERSEDED.contains(&event.type_name());
            let encoded = codec::encode(&[event]).unwrap();
            if superseded {
                assert_eq!(encoded.schemas, "2", "{name}");
                continue;
            }
            assert_eq!(
                encoded.schemas, schema,
                "{name} is written in another version: it needs golden files of its own"
            );
            let (encoded, stored): (Value, Value) =
                (serde_json::from_slice(&encoded.body).unwrap(), serde_json::from_str(&stored).unwrap());
            assert_eq!(encoded, Value::Array(vec![stored]), "{name}");
        }
    }
}

#[test]
fn every_file_and_every_event_has_its_counterpart() {
    let mut types = BTreeSet::new();
    for (version, golden) in [(1, golden()), (2, golden_2())] {
        let files: BTreeSet<String> = std::fs::read_dir(directory(version))
            .unwrap()
            .map(|entry| entry.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned())
            .collect();
        let named: BTreeSet<String> = golden.iter().map(|(name, _)| (*name).to_owned()).collect();
        assert_eq!(files, named);
        types.extend(golden.iter().map(|(_, event)| event.type_name()));
    }
    assert_eq!(types.len(), 43, "a new event needs a golden file");
}

/// Version 1 had the number under `nonce` on every family.
#[test]
fn what_a_nonce_of_version_1_was_follows_from_the_chain() {
    let first: Value = serde_json::from_str(&stored(1, "deposit_prepared")).unwrap();
    let decode = |change: &dyn Fn(&mut Value)| {
        let mut event = first.clone();
        change(&mut event["data"]);
        codec::decode("DepositPrepared", "1", Value::Array(vec![event]).to_string().as_bytes())
    };
    for transaction in [prepared(), on_solana(prepared()), on_tron(prepared())] {
        let (Validity::Nonce(number) | Validity::LastBlockHeight(number) | Validity::Expiration(number)) =
            transaction.validity;
        let chain_id = transaction.chain_id.to_string();
        let decoded = decode(&|data| {
            data["chain_id"] = chain_id.as_str().into();
            data["nonce"] = number.into();
        });
        assert_eq!(decoded, Ok(vec![PaymentEvent::DepositPrepared(transaction).into()]));
    }
    let wrong: [&dyn Fn(&mut Value); 4] = [
        &|data| data["chain_id"] = "cosmos:hub-4".into(),
        &|data| data["chain_id"] = Value::Null,
        &|data| data["nonce"] = "7".into(),
        &|data| *data = Value::Null,
    ];
    for change in wrong {
        let error = decode(change).unwrap_err();
        assert!(matches!(&error, Error::Payload { name, .. } if name == "DepositPrepared"), "{error}");
    }
}

/// Nothing was ever written in it, so what says so was not written by a gateway.
#[test]
fn an_event_that_began_in_version_2_has_no_version_1() {
    let first: Value = serde_json::from_str(&stored(1, "deposit_prepared")).unwrap();
    for name in ["ReassignmentPrepared", "ReassignmentRepriced"] {
        let mut event = first.clone();
        event["type"] = name.into();
        let body = Value::Array(vec![event]).to_string();
        let unknown = codec::decode(name, "1", body.as_bytes()).unwrap_err();
        assert_eq!(unknown, Error::Unknown { name: name.into(), schema: "1".into() });
    }
}

#[test]
fn unknown_events_and_versions_are_named() {
    let body = br#"[{"type":"EscrowMelted","data":{}}]"#;
    let unknown = codec::decode("EscrowMelted", "1", body).unwrap_err();
    assert_eq!(unknown, Error::Unknown { name: "EscrowMelted".into(), schema: "1".into() });
    assert!(unknown.to_string().contains("EscrowMelted"), "{unknown}");

    let encoded = codec::encode(&[PaymentEvent::DepositAbandoned(abandoned()).into()]).unwrap();
    for version in ["0", "2", "x", ""] {
        let unknown = codec::decode(&encoded.types, version, &encoded.body).unwrap_err();
        assert_eq!(unknown, Error::Unknown { name: "DepositAbandoned".into(), schema: version.into() });
    }
    let prepared = codec::encode(&[PaymentEvent::DepositPrepared(prepared()).into()]).unwrap();
    let unknown = codec::decode(&prepared.types, "3", &prepared.body).unwrap_err();
    assert_eq!(unknown, Error::Unknown { name: "DepositPrepared".into(), schema: "3".into() });
    let mixed = codec::decode("DepositPrepared", "1", &encoded.body).unwrap_err();
    assert!(matches!(mixed, Error::TypeMismatch { .. }), "{mixed}");
}
