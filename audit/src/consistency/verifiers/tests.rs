//! What verifiers of a set said, held against their records.

use events::{
    Failure, QuoteRequestId, StreamId, VerifierSet,
    event::{
        AttestationMissed, FulfillmentConfirmed, FulfillmentFinalized, FulfillmentSeen, QuoteRequestEvent, Submitted,
    },
    quote_request::QuoteRequestOpened,
};
use sagas::{payment, quote_request};

use super::{
    super::{
        check,
        tests::{at, examined, failed_with, inclusion, member, secured_for, submitted, verifier_set},
    },
    *,
};
use crate::{Finding, Severity, examine::State};

/// What the member signed, made of its byte.
fn said(byte: u8) -> MemberAttested {
    let signature = format!("0x{}", format!("{byte:02x}").repeat(65));
    MemberAttested { member: member(byte).account, signature, attested_at: at(62) }
}

/// The word of `set` by these of its members.
fn word(set: &VerifierSet, by: &[u8]) -> String {
    let said: Vec<_> = by.iter().map(|byte| said(*byte)).collect();
    set.attestation(said.iter().map(|said| (&said.member, said.signature.as_str()))).unwrap()
}

fn seen() -> PaymentEvent {
    PaymentEvent::FulfillmentSeen(FulfillmentSeen { inclusion: inclusion(59) })
}

fn confirmed(attestation: String) -> PaymentEvent {
    let (confirmed_at, release_from) = (at(66), None);
    PaymentEvent::FulfillmentConfirmed(FulfillmentConfirmed {
        inclusion: inclusion(59),
        attestation,
        confirmed_at,
        release_from,
    })
}

/// A delivery that these of the set's members attested, and the word that confirms it.
fn attested(set: &VerifierSet, by: &[u8], word: String) -> Vec<PaymentEvent> {
    let attested = by.iter().map(|byte| PaymentEvent::DeliveryAttested(said(*byte)));
    let begin = secured_for(set.clone()).into_iter().chain([seen()]);
    begin.chain(attested).chain([confirmed(word)]).collect()
}

/// That these of the set's members attested that nothing was delivered, and the word that fails it.
fn denied(set: &VerifierSet, by: &[u8], word: String) -> Vec<PaymentEvent> {
    let denied = by.iter().map(|byte| PaymentEvent::NonDeliveryAttested(said(*byte)));
    let failed = failed_with(Failure::SETTLEMENT_FAILED, RefundDue::ByNonDelivery { attestation: word });
    secured_for(set.clone()).into_iter().chain(denied).chain([failed]).collect()
}

/// What is found in a history with a commit for each event, but for who asked: that is not shown in it.
fn findings(events: Vec<PaymentEvent>) -> Result<Vec<Finding>, payment::IllegalTransition> {
    let payment = payment::fold(&events)?.unwrap();
    let stream_id = StreamId::from(&payment.submitted.payment_id);
    let commits = events.into_iter().map(|event| vec![Event::from(event)]);
    let found = check(&examined(stream_id, State::Payment(Box::new(payment)), commits));
    Ok(found.into_iter().filter(|finding| finding.check != "originator").collect())
}

/// The checks that find something; `transition` where an event is not legal where it stands.
fn checks(events: Vec<PaymentEvent>) -> Vec<String> {
    match findings(events) {
        Ok(found) => found.into_iter().map(|finding| finding.check).collect(),
        Err(_) => vec!["transition".to_owned()],
    }
}

/// Every choice among the members 1 to `n`.
fn choices(n: u8) -> impl Iterator<Item = Vec<u8>> {
    (0..1u16 << n).map(move |chosen| (1..=n).filter(|byte| chosen & (1 << (byte - 1)) != 0).collect())
}

#[test]
fn a_word_holds_only_by_as_many_members_as_have_to_sign_each_on_record() {
    for (n, threshold) in (1..=4u8).flat_map(|n| (1..=n).map(move |threshold| (n, threshold))) {
        let set = verifier_set(threshold, n);
        for on_record in choices(n) {
            for signers in choices(n).filter(|signers| signers.len() == usize::from(threshold)) {
                let strangers = signers.iter().filter(|byte| !on_record.contains(byte)).count();
                let expected = match on_record.len() < usize::from(threshold) {
                    true => vec!["transition".to_owned()],
                    false => vec!["attestation".to_owned(); strangers],
                };
                for history in [attested, denied] {
                    let found = checks(history(&set, &on_record, word(&set, &signers)));
                    assert_eq!(found, expected, "{threshold} of {n}: {signers:?} signed, {on_record:?} on record");
                }
            }
        }
    }
}

#[test]
fn every_byte_of_a_word_that_is_altered_is_found() {
    let (set, all) = (verifier_set(2, 3), [1, 2, 3]);
    let whole = word(&set, &[1, 3]);
    let bytes = HEXLOWER.decode(&whole.as_bytes()[2..]).unwrap();
    for history in [attested, denied] {
        assert_eq!(checks(history(&set, &all, whole.clone())), Vec::<String>::new());
        for at in 0..bytes.len() {
            for flipped in 0..8 {
                let mut altered = bytes.clone();
                altered[at] ^= 1 << flipped;
                let altered = format!("0x{}", HEXLOWER.encode(&altered));
                assert_eq!(checks(history(&set, &all, altered)), ["attestation"], "bit {flipped} of byte {at}");
            }
        }
        // Other sets that some of the same members would make, one signature alone, and a rest.
        let others =
            [word(&verifier_set(1, 3), &[1]), word(&verifier_set(3, 3), &all), word(&verifier_set(2, 2), &[1, 2])];
        let more = [said(1).signature, format!("{whole}00"), "0x".to_owned(), String::new()];
        for wrong in others.into_iter().chain(more) {
            assert_eq!(checks(history(&set, &all, wrong.clone())), ["attestation"], "{wrong}");
        }
    }
}

#[test]
fn who_is_no_member_attests_nothing_and_a_member_does_so_once() {
    let set = verifier_set(2, 3);
    for history in [attested, denied] {
        assert_eq!(checks(history(&set, &[1, 9, 2], word(&set, &[1, 2]))), ["transition"]);
        assert_eq!(checks(history(&set, &[1, 1, 2], word(&set, &[1, 2]))), ["transition"]);
    }
    let mut single = secured_for(set);
    let PaymentEvent::Submitted(submitted) = &mut single[0] else { unreachable!() };
    submitted.verifier.set = None;
    single.push(seen());
    assert_eq!(checks(single.clone()), Vec::<String>::new());
    single.push(PaymentEvent::DeliveryAttested(said(1)));
    assert_eq!(checks(single), ["transition"], "of a single verifier its signature is the word");
}

#[test]
fn a_member_that_says_both_is_named_where_it_said_the_second() {
    let set = verifier_set(2, 3);
    let mut events = secured_for(set);
    events.push(seen());
    events.extend([1, 2, 3].map(|byte| PaymentEvent::NonDeliveryAttested(said(byte))));
    events.push(PaymentEvent::DeliveryAttested(said(2)));
    let found = findings(events).unwrap();
    let [both] = &found[..] else { panic!("{found:?}") };
    assert_eq!(
        (both.severity, both.check.as_str(), both.location.sequence),
        (Severity::Contradiction, "verifier", Some(7))
    );
    assert!(both.what.contains(member(2).account.as_str()), "{}", both.what);
}

#[test]
fn a_set_is_the_escrows_releaser_by_its_id() {
    let set = verifier_set(2, 3);
    let with = |change: fn(&mut Submitted)| {
        let mut events = secured_for(set.clone());
        let PaymentEvent::Submitted(submitted) = &mut events[0] else { unreachable!() };
        change(submitted);
        checks(events)
    };
    assert_eq!(with(|_| {}), Vec::<String>::new());
    assert_eq!(with(|submitted| submitted.escrow.releaser = member(1).account), ["verifier-set"]);
    assert_eq!(with(|submitted| submitted.verifier.account = member(1).account), ["verifier-set"; 2]);
    // Fewer would do, and somebody else, by what the payer did not sign.
    assert_eq!(with(|submitted| submitted.verifier.set = Some(verifier_set(1, 3))), ["verifier-set"]);
    assert_eq!(with(|submitted| submitted.verifier.set = Some(verifier_set(2, 4))), ["verifier-set"]);
    assert_eq!(
        with(|submitted| {
            submitted.verifier.account = member(1).account;
            submitted.escrow.releaser = member(1).account;
        }),
        ["verifier-set"]
    );
}

/// The checks that find something in the opening of a batch.
fn checks_of_batch(verifier: VerifierRef, releaser: Account) -> Vec<String> {
    let submitted = submitted(15);
    let opened = QuoteRequestOpened {
        quote_request_id: QuoteRequestId::derive(&submitted.originator, "one"),
        request_id: submitted.request_id,
        originator: submitted.originator,
        terms: submitted.terms,
        terms_hash: submitted.terms_hash,
        quote_deadline: at(10),
        quote_deadline_text: at(10).to_rfc3339(),
        fulfillment_deadline: at(60),
        fulfillment_deadline_text: at(60).to_rfc3339(),
        escrow: EscrowPlan { releaser, ..submitted.escrow },
        fulfillment_proxies: submitted.fulfillment_proxies,
        verifier,
        whitelist: Vec::new(),
        blacklist: Vec::new(),
        required_policies: Vec::new(),
        counterparty: None,
        identities: Vec::new(),
        selector: None,
        selector_answer_by: None,
        caller_secret_hash: None,
        opened_at: at(0),
        request: submitted.request,
    };
    let stream_id = StreamId::from(&opened.quote_request_id);
    let opened = QuoteRequestEvent::Opened(Box::new(opened));
    let batch = quote_request::evolve(None, &opened).unwrap();
    let found = check(&examined(stream_id, State::Batch(Box::new(batch)), [vec![Event::from(opened)]]));
    found.into_iter().map(|finding| finding.check).filter(|check| check != "originator").collect()
}

#[test]
fn a_batch_names_its_set_as_a_payment_does() {
    let set = verifier_set(2, 3);
    let (id, verifier) = (set.id().unwrap(), VerifierRef::of(set).unwrap());
    assert_eq!(checks_of_batch(verifier.clone(), id.clone()), Vec::<String>::new());
    assert_eq!(checks_of_batch(verifier.clone(), member(1).account), ["verifier-set"]);
    let fewer = VerifierRef { set: Some(verifier_set(1, 3)), ..verifier };
    assert_eq!(checks_of_batch(fewer, id), ["verifier-set"]);
}

#[test]
fn a_loss_names_the_set_and_those_of_it_who_attested() {
    let set = verifier_set(2, 3);
    let mut events = secured_for(set.clone());
    let finalized = FulfillmentFinalized { inclusion: inclusion(59), finalized_at: at(65) };
    events.extend([seen(), PaymentEvent::FulfillmentFinalized(finalized), PaymentEvent::DeliveryAttested(said(3))]);
    events.push(PaymentEvent::AttestationMissed(AttestationMissed { missed_at: at(101) }));
    let found = findings(events).unwrap();
    let [loss] = &found[..] else { panic!("{found:?}") };
    assert_eq!((loss.severity, loss.check.as_str()), (Severity::Loss, "unattested"));
    let (id, third) = (set.id().unwrap(), member(3).account);
    assert!(loss.what.contains(&format!("verifier set {id} (2 of 3 have to attest, {third} did)")), "{}", loss.what);
}
