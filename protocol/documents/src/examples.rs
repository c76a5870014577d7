//! A message of each kind, from one auction that the demo's first settler wins; and, as it does not deliver, from the auction that
//! its second wins for the same escrow.
//!
//! They are values of the types that go over the wire, and the quote is really signed, so an implementation in another
//! language can compute its hash and check its proof.

use ed25519_dalek::SigningKey;
use serde::Serialize;
use serde_json::Value;

use events::{
    ChainId, Did, Hash32, OwnedAsset, Payload, PaymentId, Terms, VerifierMember, VerifierSet,
    event::VerifierRef,
    quote::{Quote, SignedQuote, reassignment_auction_of},
    selection::{Choice, SelectorSigner, Shown},
    time::{Timestamp, from_unix_seconds},
};
use protocol::{
    AnswerStatus, AttestationRequest, AttestationResponse, AttestationStatus, AuctionOver, AwardAnswer, AwardDecision,
    AwardEnd, AwardNotice, AwardReceipt, Bid, ChainAccounts, Corridor, Escrow, Escrowed, Registration, Report, Rfq,
    Seconds, Verifier, Version,
    selection::{SelectionAnswer, SelectionRequest},
};
use settler::dev;

const SOURCE: &str = "eip155:1/erc20:0xa0b86991c6218b36c1d19d4a2e9eb0ce3606eb48";
const DESTINATION: &str = "eip155:10/erc20:0x0b2c639c533813f4aa9d7837caf62653d097ff85";
const PAYER: &str = "0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed";
const RECIPIENT: &str = "0xfb6916095ca1df60bb79ce92ce3ea74c37c5d359";
const SETTLER: &str = "0xdbf03b407c01e7cd3cbea99509d93f8dddc8c6fb";
const NEXT_SETTLER: &str = "0x1f9090aae28b8a3dceadf281b0f12828e676c326";
const ESCROW: &str = "0xd1220a0cf47c7b9be7a2e6ba89f429762e7b9adb";
const PROXY: &str = "0x52908400098527886e0f7030069857d2e4169ee7";
const RESERVER: &str = "0x8617e340b3d01fa5f11f306f4090fd50e238070d";
/// The verifiers, of which two have to attest: whose accounts, and where they are reached.
const VERIFIERS: [(&str, &str); 3] = [
    ("0xde709f2102306220921060314715629080e2fb77", "https://verifier-a.example"),
    ("0x27b1fdb04752bbc536007a920d24acb045561c26", "https://verifier-b.example"),
    ("0xd1220a0cf47c7b9be7a2e6ba89f429762e7b9ad7", "https://verifier-c.example"),
];
/// 2027-01-01T12:00:00Z, when the request is sent.
const SENT: u64 = 1_798_804_800;
const QUOTE_DEADLINE: u64 = SENT + 10;
const RESERVE_DEADLINE: u64 = SENT + 60;
const FULFILLMENT_DEADLINE: u64 = SENT + 300;
const REFUND_AFTER: u64 = SENT + 3_900;
/// By when the winner promises to deliver, and does not.
const PROMISED: u64 = SENT + 120;
/// End of the auction that follows.
const NEXT_QUOTE_DEADLINE: u64 = PROMISED + 12;

pub(super) fn registration() -> Value {
    let account = |chain: u64| ChainAccounts {
        chain_id: ChainId::evm(chain),
        payout_account: SETTLER.to_owned(),
        delivery_account: SETTLER.to_owned(),
    };
    shown(parts().map(|parts| Registration {
        version: Version,
        settler: parts.settler,
        accounts: vec![account(1), account(10)],
        corridors: vec![Corridor {
            source_asset: parts.terms.source.asset().clone(),
            destination_asset: parts.terms.destination()[0].asset().clone(),
        }],
        policies: Vec::new(),
        credentials: Vec::new(),
        follows_reassignments: true,
    }))
}

pub(super) fn request_for_quotes() -> Value {
    shown(parts().and_then(|parts| {
        Some(Rfq {
            version: Version,
            auction_id: parts.payment_id.to_string(),
            payment_id: Some(parts.payment_id),
            terms_hash: parts.terms.hash(),
            terms: parts.terms,
            escrow: parts.escrow,
            fulfillment_proxies: vec![PROXY.parse().ok()?],
            quote_deadline: at(QUOTE_DEADLINE),
            fulfillment_deadline: at(FULFILLMENT_DEADLINE),
            required_policies: Vec::new(),
            payloads: payloads(),
            escrowed: None,
        })
    }))
}

/// The request of the auction that follows when the winner has not delivered.
pub(super) fn reassignment_request() -> Value {
    shown(parts().and_then(|parts| {
        Some(Rfq {
            version: Version,
            auction_id: reassignment_auction_of(&parts.payment_id, 1),
            payment_id: Some(parts.payment_id.clone()),
            terms_hash: parts.terms.hash(),
            escrowed: Some(parts.escrowed()),
            terms: parts.terms,
            escrow: parts.escrow,
            fulfillment_proxies: vec![PROXY.parse().ok()?],
            quote_deadline: at(NEXT_QUOTE_DEADLINE),
            fulfillment_deadline: at(FULFILLMENT_DEADLINE),
            required_policies: Vec::new(),
            payloads: payloads(),
        })
    }))
}

pub(super) fn bid() -> Value {
    shown(parts().map(|parts| Bid::quote(parts.quote.document())))
}

pub(super) fn award() -> Value {
    shown(parts().and_then(|parts| {
        Some(AwardNotice {
            version: Version,
            settler: parts.settler,
            payment_id: parts.payment_id,
            terms: parts.terms,
            escrow: parts.escrow,
            quote: parts.quote.document().to_owned(),
            quote_hash: parts.quote.hash(),
            verifier: Verifier::from(&verifiers()?),
            payloads: payloads(),
            escrowed: None,
        })
    }))
}

/// The award of the auction that follows when the winner has not delivered.
pub(super) fn reassignment_award() -> Value {
    shown(parts().and_then(|parts| {
        let (quote, escrowed) = (parts.next_quote()?, parts.escrowed());
        Some(AwardNotice {
            version: Version,
            settler: quote.quote().settler.clone(),
            payment_id: parts.payment_id,
            terms: parts.terms,
            escrow: parts.escrow,
            quote: quote.document().to_owned(),
            quote_hash: quote.hash(),
            verifier: Verifier::from(&verifiers()?),
            payloads: payloads(),
            escrowed: Some(escrowed),
        })
    }))
}

pub(super) fn award_answer() -> Value {
    shown(parts().map(|parts| AwardAnswer {
        version: Version,
        payment_id: parts.payment_id,
        quote_hash: parts.quote.hash(),
        word: AwardDecision::Refuse,
        reason: Some("INSUFFICIENT_LIQUIDITY".to_owned()),
    }))
}

pub(super) fn award_receipt() -> Value {
    shown(parts().map(|parts| AwardReceipt {
        version: Version,
        payment_id: parts.payment_id,
        standing: AnswerStatus::Accepted,
    }))
}

pub(super) fn award_end() -> Value {
    shown(parts().map(|parts| AwardEnd {
        version: Version,
        settler: parts.settler,
        auction_id: Some(parts.payment_id.to_string()),
        payment_id: parts.payment_id,
        quote_hash: parts.quote.hash(),
        ended: "NOT_DEPOSITED".to_owned(),
    }))
}

pub(super) fn auction_over() -> Value {
    shown(parts().map(|parts| AuctionOver { version: Version, auction_id: parts.payment_id.to_string() }))
}

pub(super) fn report() -> Value {
    shown(parts().map(|parts| Report {
        version: Version,
        payment_id: parts.payment_id,
        transaction_hash: format!("0x{}", "5a".repeat(32)),
    }))
}

pub(super) fn selection_request() -> Value {
    shown(parts().map(|parts| SelectionRequest {
        version: Version,
        auction_id: parts.payment_id.to_string(),
        terms_hash: parts.terms.hash(),
        terms: parts.terms,
        quote_deadline: at(QUOTE_DEADLINE),
        answer_by: at(QUOTE_DEADLINE + 5),
        quotes: vec![parts.quote.document().to_owned()],
    }))
}

pub(super) fn selection_answer() -> Value {
    shown(parts().map(|parts| {
        let offered = Shown {
            auction_id: parts.payment_id.as_str(),
            terms_hash: parts.terms.hash(),
            quotes: &[parts.quote.hash()],
        };
        SelectionAnswer::from(Choice::of(offered, parts.quote.hash()).sign(&selector_signer()))
    }))
}

pub(super) fn quote() -> Value {
    parts().and_then(|parts| serde_json::from_str(parts.quote.document()).ok()).unwrap_or_default()
}

pub(super) fn attestation_request() -> Value {
    shown(parts().map(|parts| AttestationRequest {
        version: Version,
        payment_id: parts.payment_id,
        terms: parts.terms,
        escrow: parts.escrow,
        quote: parts.quote.document().to_owned(),
        verifier_set: verifiers().and_then(|verifiers| verifiers.set),
        payloads: payloads(),
    }))
}

/// The payload of the payer's only message.
fn payloads() -> Vec<Payload> {
    serde_json::from_str(r#"[{"permitted_amount": "110", "order": "A-1"}]"#).unwrap_or_default()
}

pub(super) fn attestation_response() -> Value {
    shown(Some(AttestationResponse {
        version: Version,
        status: AttestationStatus::Attested,
        signature: Some(format!("0x{}1b", "5a".repeat(64))),
        reason: None,
        follows_reassignments: true,
    }))
}

/// The development network's selector.
fn selector_signer() -> SelectorSigner {
    SelectorSigner::Ed25519(SigningKey::from_bytes(&Hash32::sha256("gw dev selector key").0))
}

/// What the examples have in common.
struct Parts {
    settler: Did,
    payment_id: PaymentId,
    terms: Terms,
    escrow: Escrow,
    quote: SignedQuote,
}

impl Parts {
    /// What the winner left when it did not deliver.
    fn escrowed(&self) -> Escrowed {
        Escrowed { amount: self.quote.quote().source_amount, reserved_for: self.quote.hash() }
    }

    /// The quote that wins then.
    fn next_quote(&self) -> Option<SignedQuote> {
        let key = dev::key(2)?;
        let quote = Quote {
            auction_id: reassignment_auction_of(&self.payment_id, 1),
            settler: Did::from_ed25519(&key.verifying_key()),
            source_amount: "25020000".parse().ok()?,
            payout_account: NEXT_SETTLER.parse().ok()?,
            delivery_account: NEXT_SETTLER.parse().ok()?,
            fulfill_by: at(FULFILLMENT_DEADLINE),
            valid_until: at(NEXT_QUOTE_DEADLINE + 30),
            ..self.quote.quote().clone()
        };
        quote.sign(&key, at(PROMISED + 10)).ok()
    }
}

/// `None` only if a constant here were malformed, which a test rules out.
fn parts() -> Option<Parts> {
    let key = dev::key(1)?;
    let settler = Did::from_ed25519(&key.verifying_key());
    let source = OwnedAsset::new(SOURCE.parse().ok()?, PAYER).ok()?;
    let destination = OwnedAsset::new(DESTINATION.parse().ok()?, RECIPIENT).ok()?;
    let amount = "25000000".parse().ok()?;
    let terms = Terms::new(source, vec![destination.clone()], amount, "25500000".parse().ok());
    let payment_id = PaymentId::derive(&format!("eip155:{PAYER}"), "order-7");
    let quote = Quote {
        kind: Quote::kind(),
        auction_id: payment_id.to_string(),
        terms_hash: terms.hash(),
        settler: settler.clone(),
        source_chain: ChainId::evm(1),
        source_amount: "25025000".parse().ok()?,
        payout_account: SETTLER.parse().ok()?,
        escrow_contract: ESCROW.parse().ok()?,
        destination,
        fulfillment_amount: amount,
        delivery_account: SETTLER.parse().ok()?,
        fulfillment_proxy: PROXY.parse().ok()?,
        fulfill_by: at(PROMISED),
        valid_until: at(RESERVE_DEADLINE),
    };
    let quote = quote.sign(&key, at(SENT)).ok()?;
    Some(Parts { settler, payment_id, terms, escrow: escrow()?, quote })
}

fn verifiers() -> Option<VerifierRef> {
    let member = |(account, endpoint): (&str, &str)| {
        Some(VerifierMember { account: account.parse().ok()?, endpoint: endpoint.to_owned() })
    };
    let members = VERIFIERS.into_iter().map(member).collect::<Option<_>>()?;
    VerifierRef::of(VerifierSet::new(2, members).ok()?)
}

fn escrow() -> Option<Escrow> {
    Some(Escrow {
        chain_id: ChainId::evm(1),
        contract: ESCROW.parse().ok()?,
        reserver: RESERVER.parse().ok()?,
        releaser: verifiers()?.account,
        reserve_deadline: Seconds(RESERVE_DEADLINE),
        fulfillment_deadline: Seconds(FULFILLMENT_DEADLINE),
        refund_after: Seconds(REFUND_AFTER),
    })
}

fn at(seconds: u64) -> Timestamp {
    from_unix_seconds(seconds).unwrap_or_default()
}

fn shown<T: Serialize>(message: Option<T>) -> Value {
    message.and_then(|message| serde_json::to_value(message).ok()).unwrap_or_default()
}
