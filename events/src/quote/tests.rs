//! Quotes: canonical form, signature, and what cannot be signed.

use super::*;
use crate::time::from_unix_seconds;

fn key() -> SigningKey {
    SigningKey::from_bytes(&[7; 32])
}

fn quote() -> Quote {
    let account = "0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed";
    Quote {
        kind: Quote::kind(),
        auction_id: "pay_x".to_owned(),
        terms_hash: Hash32([1; 32]),
        settler: Did::from_ed25519(&key().verifying_key()),
        source_chain: ChainId::evm(1),
        source_amount: "105".parse().unwrap(),
        payout_account: account.parse().unwrap(),
        escrow_contract: account.parse().unwrap(),
        destination: OwnedAsset::new("eip155:10/slip44:60".parse().unwrap(), account).unwrap(),
        fulfillment_amount: "100".parse().unwrap(),
        delivery_account: account.parse().unwrap(),
        fulfillment_proxy: account.parse().unwrap(),
        fulfill_by: from_unix_seconds(1_800_000_000).unwrap(),
        valid_until: from_unix_seconds(1_700_000_000).unwrap(),
    }
}

pub(super) fn signed() -> SignedQuote {
    quote().sign(&key(), from_unix_seconds(1_600_000_000).unwrap()).unwrap()
}

/// The members of the quote, and those of its destination, are the ones of the struct and have IRIs of the vocabulary.
#[test]
fn every_member_is_named_and_stands_in_the_canonical_form() {
    let document = quote().to_document().unwrap();
    // The order of keys depends on what else is built.
    let mut names: Vec<_> = document.members().keys().map(String::as_str).filter(|name| *name != "@context").collect();
    names.sort_unstable();
    let mut expected = MEMBERS.to_vec();
    expected.sort_unstable();
    assert_eq!(names, expected);
    let nquads = canonical(&document.to_string()).unwrap();
    let terms = expected.iter().filter(|name| **name != "type").chain(&DESTINATION_MEMBERS);
    for name in terms {
        let iri = format!(" <https://gateway.example/vocab#{name}> ");
        assert_eq!(nquads.as_str().matches(&iri).count(), 1, "{name}");
    }
    assert_eq!(nquads.as_str().lines().count(), MEMBERS.len() + DESTINATION_MEMBERS.len());
}

#[test]
fn a_signed_quote_reads_back_the_same() {
    let signed = signed();
    assert_eq!(SignedQuote::verify(signed.document()), Ok(signed.clone()));
    assert_eq!(SignedQuote::parse(signed.document()), Ok(signed.clone()));
    assert_eq!(SignedQuote::parse_stored(signed.document()), Ok(signed.clone()));
    assert_eq!(signed.quote(), &quote());
    assert_eq!(signed.hash(), Hash32(canonical(signed.document()).unwrap().sha256()));
    assert_eq!(signed.hash(), Hash32(canonical(&quote().to_document().unwrap().to_string()).unwrap().sha256()));
}

#[test]
fn a_quote_serves_its_own_payment_or_one_out_of_its_batch() {
    let payment = PaymentId::derive("a", "b");
    let serves = |auction_id: &str| Quote { auction_id: auction_id.to_owned(), ..quote() }.may_serve(&payment);
    assert!(serves(payment.as_str()) && serves(QuoteRequestId::derive("a", "b").as_str()));
    assert!(!serves(PaymentId::derive("a", "c").as_str()) && !serves("qrq_") && !serves(""));
}

#[test]
fn only_the_settler_signs() {
    let stranger = SigningKey::from_bytes(&[9; 32]);
    assert_eq!(quote().sign(&stranger, from_unix_seconds(0).unwrap()), Err(Error::Key));
}

#[test]
fn what_cannot_be_signed_is_not_signed() {
    let control = Quote { auction_id: "pay_\u{0}".to_owned(), ..quote() };
    assert!(matches!(control.sign(&key(), from_unix_seconds(0).unwrap()), Err(Error::Json(_))));
}
