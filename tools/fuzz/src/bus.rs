//! Messages of settlers, gateways, verifiers and selectors, and HTTP message signatures.

use std::fmt::Debug;

use events::{Hash32, selection::SelectorKey};
use http::{HeaderMap, HeaderName, HeaderValue};
use protocol::{
    AttestationRequest, AttestationResponse, AuctionOver, AwardAnswer, AwardEnd, AwardMessage, AwardNotice,
    AwardReceipt, Bid, Message, Registration, Report, Rfq,
    message_signature::Signed,
    selection::{SelectionAnswer, SelectionRequest},
};

use crate::input::{choice, head};

/// A message that was read is written, and read as the same.
fn stable<T: Message + PartialEq + Debug>(payload: &[u8]) {
    match protocol::read::<T>(payload) {
        Ok(message) => {
            let written = protocol::write(&message);
            if written.len() <= protocol::MESSAGE_BYTES_MAX {
                assert_eq!(protocol::read::<T>(&written).as_ref(), Ok(&message));
            }
            assert_eq!(protocol::write(&message), written);
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// What settlers send.
pub fn settler_messages(bytes: &[u8]) {
    let Some((kind, payload)) = choice(bytes) else { return };
    match kind {
        b'r' => stable::<Registration>(payload),
        b'b' => stable::<Bid>(payload),
        b'a' => stable::<AwardAnswer>(payload),
        b'p' => stable::<Report>(payload),
        _ => {
            stable::<Registration>(bytes);
            stable::<Bid>(bytes);
        }
    }
}

/// What gateways send.
pub fn gateway_messages(bytes: &[u8]) {
    let Some((kind, payload)) = choice(bytes) else { return };
    match kind {
        b'q' => stable::<Rfq>(payload),
        b'n' => stable::<AwardNotice>(payload),
        b'e' => stable::<AwardEnd>(payload),
        b'o' => stable::<AuctionOver>(payload),
        b't' => stable::<AwardReceipt>(payload),
        b's' => {
            if let Ok(request) = SelectionRequest::read(payload) {
                let again = SelectionRequest::read(&protocol::write(&request));
                assert_eq!(again.as_ref(), Ok(&request));
            }
        }
        _ => {
            let read = AwardMessage::read(bytes);
            let awarded = AwardMessage::awarded(bytes);
            if let (Ok(message), Some((_, quote_hash))) = (&read, awarded) {
                assert_eq!(message.quote_hash(), quote_hash, "two readers differ");
            }
        }
    }
}

/// What verifiers and selectors are asked and answer.
pub fn verifier_messages(bytes: &[u8]) {
    let Some((kind, payload)) = choice(bytes) else { return };
    match kind {
        b'q' => stable::<AttestationRequest>(payload),
        b'a' => stable::<AttestationResponse>(payload),
        b's' => {
            stable::<SelectionAnswer>(payload);
            let Ok(answer) = protocol::read::<SelectionAnswer>(payload) else { return };
            let signed: events::selection::SignedChoice = answer.into();
            let shown =
                events::selection::Shown { auction_id: "qr_a", terms_hash: Hash32::ZERO, quotes: &[Hash32([1; 32])] };
            for key in [SelectorKey::Evm([1; 20]), SelectorKey::Ed25519([1; 32])] {
                assert!(signed.verify(&key, shown).is_err(), "nobody has these keys");
            }
        }
        _ => {}
    }
}

/// Header fields of a signed request, one a line, then an empty line and the body.
pub fn message_signatures(bytes: &[u8]) {
    let (mut headers, mut rest) = (HeaderMap::new(), bytes);
    while let Some((line, behind)) = head(rest) {
        rest = behind;
        let Some((name, value)) = line.split_once(": ") else { break };
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(value)) {
            headers.append(name, value);
        }
    }
    match Signed::read(&headers) {
        Ok(Some(signed)) => {
            let is_of_body = signed.is_of_body(rest);
            assert!(!is_of_body || !signed.is_of_body(&[rest, b"."].concat()), "a digest is of one body");
            assert!(!signed.is_fresh(0, 0) || signed.is_fresh(0, u64::MAX));
            if let Ok(key) =
                signed.keyid().parse::<events::Did>().map_err(drop).and_then(|did| did.ed25519_key().map_err(drop))
                && signed.is_by(&key, "POST", "https://gw.example/v1/attest")
            {
                assert!(!signed.is_by(&key, "PUT", "https://gw.example/v1/attest"), "a signature is over one method");
                assert!(!signed.is_by(&key, "POST", "https://gw.example/v1/other"), "a signature is over one address");
            }
        }
        Ok(None) => {}
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}
