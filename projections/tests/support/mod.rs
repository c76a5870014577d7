//! Histories of payments, and a journal that can be told to fail.

mod following;
mod streams;

use events::{
    Amount, ChainId, CommitId, Did, Event, Failure, Hash32, OwnedAsset, PaymentEvent, PaymentId, QuoteRequestEvent,
    QuoteRequestId, StreamId, Terms,
    event::*,
    failure::BlockchainContext,
    quote_request::{CollectedDocument, QuoteRequestAwarded, QuoteRequestOpened, QuotesCollected},
    time::{Timestamp, from_unix_seconds},
};
use journal::{Position, Recorded};

pub use self::{following::Following, streams::Streams};

pub const ACCOUNT: &str = "0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed";
pub const TOKEN: &str = "0xa0b86991c6218b36c1d19d4a2e9eb0ce3606eb48";

pub fn at(seconds: u64) -> Timestamp {
    from_unix_seconds(1_800_000_000 + seconds).unwrap()
}

pub fn hash(byte: u8) -> String {
    Hash32([byte; 32]).to_string()
}

pub fn owned(chain: u64) -> OwnedAsset {
    OwnedAsset::new(format!("eip155:{chain}/erc20:{TOKEN}").parse().unwrap(), ACCOUNT).unwrap()
}

pub fn did(name: &str) -> Did {
    format!("did:example:{name}").parse().unwrap()
}

pub fn amount(units: u64) -> Amount {
    units.to_string().parse().unwrap()
}

pub fn terms() -> Terms {
    Terms::new(owned(1), vec![owned(10), owned(137)], amount(100), Some(amount(110)))
}

pub fn submitted(payment_id: &PaymentId) -> PaymentEvent {
    PaymentEvent::Submitted(Box::new(Submitted {
        payment_id: payment_id.clone(),
        request_id: "order-1".to_owned(),
        originator: format!("eip155:{ACCOUNT}"),
        terms: terms(),
        terms_hash: terms().hash(),
        quote_deadline: at(10),
        fulfillment_deadline: at(100),
        authorization: Authorization::EvmPermit2Escrow(Permit2 {
            amount: amount(110),
            nonce: Hash32([9; 32]),
            deadline: 1_800_000_050,
            quote_hash: Hash32::ZERO,
            signature: "0x00".to_owned(),
            allowance: None,
        }),
        escrow: EscrowPlan {
            chain_id: ChainId::evm(1),
            contract: ACCOUNT.parse().unwrap(),
            reserver: ACCOUNT.parse().unwrap(),
            releaser: ACCOUNT.parse().unwrap(),
            reserve_deadline: 1_800_000_050,
            fulfillment_deadline: 1_800_000_100,
            refund_after: 1_800_000_200,
        },
        fulfillment_proxies: vec![ACCOUNT.parse().unwrap(), ACCOUNT.parse().unwrap()],
        verifier: VerifierRef::single(ACCOUNT.parse().unwrap(), "http://127.0.0.1:1".to_owned()),
        whitelist: Vec::new(),
        blacklist: Vec::new(),
        required_policies: Vec::new(),
        collected_quote: None,
        selector: None,
        counterparty: None,
        identities: Vec::new(),
        submitted_at: at(0),
        request: "{}".to_owned(),
    }))
}

/// A submission with a payer deposit.
pub fn payer_deposit_submitted(payment_id: &PaymentId) -> PaymentEvent {
    let PaymentEvent::Submitted(submitted) = submitted(payment_id) else { unreachable!() };
    let deposit =
        PayerTransaction { transaction_hash: hash(0x11), raw: "0x0a".to_owned(), expires_at: 1_800_000_050_000 };
    let spend = TronSpend { amount: amount(110), quote_hash: Hash32::ZERO, approval: None, deposit };
    PaymentEvent::Submitted(Box::new(Submitted { authorization: Authorization::Tron(spend), ..*submitted }))
}

pub fn auction_closed(addressed: &[&str], declines: &[(&str, &str)]) -> PaymentEvent {
    let decline = |(settler, reason): &(&str, &str)| Decline { settler: did(settler), reason: (*reason).to_owned() };
    PaymentEvent::AuctionClosed(AuctionClosed {
        addressed: addressed.iter().map(|name| did(name)).collect(),
        quotes: Vec::new(),
        declines: declines.iter().map(decline).collect(),
        dropped: Vec::new(),
        held_policies: Vec::new(),
        passed_over: Vec::new(),
        alternates: Vec::new(),
        closed_at: at(10),
    })
}

pub fn awarded() -> PaymentEvent {
    PaymentEvent::QuoteAwarded(Box::new(QuoteAwarded {
        quote_id: "quo_1".to_owned(),
        quote_hash: Hash32([3; 32]),
        document: r#"{"type":"GatewayQuote"}"#.to_owned(),
        awarded_at: at(11),
    }))
}

fn prepared(attempt: u32, hash: String) -> TransactionPrepared {
    TransactionPrepared {
        attempt,
        chain_id: ChainId::evm(1),
        sender: ACCOUNT.parse().unwrap(),
        validity: Validity::Nonce(u64::from(attempt)),
        transaction_hash: hash,
        raw: "0x02".to_owned(),
        prepared_at: at(12),
    }
}

pub fn deposit_prepared(attempt: u32, hash: String) -> PaymentEvent {
    PaymentEvent::DepositPrepared(prepared(attempt, hash))
}

pub fn deposit_repriced(attempt: u32, hash: String) -> PaymentEvent {
    PaymentEvent::DepositRepriced(prepared(attempt, hash))
}

pub fn deposit_abandoned(attempt: u32) -> PaymentEvent {
    let evidence = "nonce consumed".to_owned();
    PaymentEvent::DepositAbandoned(TransactionAbandoned { attempt, evidence, abandoned_at: at(13) })
}

pub fn inclusion(chain: u64, hash: String, block_number: u64) -> Inclusion {
    Inclusion {
        chain_id: ChainId::evm(chain),
        transaction_hash: hash,
        block_number,
        block_hash: Hash32([8; 32]).to_string(),
        block_time: 1_800_000_000 + block_number,
    }
}

pub fn payer_sent(step: PayerStep, transaction_hash: String) -> PaymentEvent {
    let chain_id = ChainId::evm(1);
    PaymentEvent::PayerTransactionSent(PayerTransactionSent { step, chain_id, transaction_hash, sent_at: at(12) })
}

pub fn deposit_mined(hash: String, block: u64) -> PaymentEvent {
    PaymentEvent::DepositMined(DepositMined { inclusion: inclusion(1, hash, block) })
}

pub fn secured(hash: String, block: u64) -> PaymentEvent {
    PaymentEvent::EscrowSecured(EscrowSecured {
        inclusion: inclusion(1, hash, block),
        amount: amount(105),
        deposit: None,
    })
}

/// Of the settler with this DID, or this name, and of its quote with this hash.
pub fn reservation_lapsed(settler: &str, quote_hash: Hash32, second: u64) -> PaymentEvent {
    PaymentEvent::ReservationLapsed(ReservationLapsed {
        settler: settler.parse().unwrap_or_else(|_| did(settler)),
        quote_hash,
        attestation: "0x02".to_owned(),
        quote_deadline: at(second + 2),
        lapsed_at: at(second),
    })
}

pub fn reassignment_prepared(attempt: u32, hash: String) -> PaymentEvent {
    PaymentEvent::ReassignmentPrepared(prepared(attempt, hash))
}

pub fn reassignment_repriced(attempt: u32, hash: String) -> PaymentEvent {
    PaymentEvent::ReassignmentRepriced(prepared(attempt, hash))
}

pub fn reassignment_abandoned(attempt: u32) -> PaymentEvent {
    let evidence = "nonce consumed".to_owned();
    PaymentEvent::ReassignmentAbandoned(TransactionAbandoned { attempt, evidence, abandoned_at: at(36) })
}

pub fn reassigned(hash: String, block: u64) -> PaymentEvent {
    PaymentEvent::EscrowReassigned(EscrowReassigned { inclusion: inclusion(1, hash, block) })
}

pub fn escrow_opened(hash: String, block: u64) -> PaymentEvent {
    PaymentEvent::EscrowOpened(EscrowOpened {
        inclusion: inclusion(1, hash, block),
        amount: amount(110),
        reserved_for: None,
    })
}

pub fn ruled_out() -> PaymentEvent {
    PaymentEvent::DepositRuledOut(DepositRuledOut { ruled_out_at: at(80), left: None })
}

pub fn seen(hash: String, block: u64) -> PaymentEvent {
    PaymentEvent::FulfillmentSeen(FulfillmentSeen { inclusion: inclusion(10, hash, block) })
}

pub fn confirmed(hash: String, block: u64) -> PaymentEvent {
    PaymentEvent::FulfillmentConfirmed(FulfillmentConfirmed {
        inclusion: inclusion(10, hash, block),
        attestation: "0x01".to_owned(),
        confirmed_at: at(50),
        release_from: Some(at(55)),
    })
}

pub fn finalized(hash: String, block: u64) -> PaymentEvent {
    let finalized = FulfillmentFinalized { inclusion: inclusion(10, hash, block), finalized_at: at(49) };
    PaymentEvent::FulfillmentFinalized(finalized)
}

pub fn attestation_missed() -> PaymentEvent {
    PaymentEvent::AttestationMissed(AttestationMissed { missed_at: at(70) })
}

pub fn unattested(hash: String, block: u64) -> PaymentEvent {
    let inclusion = inclusion(10, hash, block);
    PaymentEvent::AttestationAwaited(AttestationAwaited { inclusion, awaited_at: at(51) })
}

pub fn release_prepared(attempt: u32, hash: String) -> PaymentEvent {
    PaymentEvent::ReleasePrepared(prepared(attempt, hash))
}

pub fn released() -> PaymentEvent {
    PaymentEvent::EscrowReleased(EscrowReleased { inclusion: inclusion(1, hash(0x77), 90), claims: Vec::new() })
}

pub fn failed(refund: RefundDue, context: Option<BlockchainContext>) -> PaymentEvent {
    PaymentEvent::Failed(Box::new(Failed {
        failure: Failure {
            code: Failure::SETTLEMENT_FAILED.to_owned(),
            message: "the deposit reverted".to_owned(),
            domain: None,
            retry_classification: Some(events::failure::RetryClassification::RetryWithNewRequestId),
            blockchain_context: context,
        },
        refund,
        failed_at: at(60),
    }))
}

pub fn refund_prepared(attempt: u32, hash: String) -> PaymentEvent {
    PaymentEvent::RefundPrepared(prepared(attempt, hash))
}

pub fn refund_repriced(attempt: u32, hash: String) -> PaymentEvent {
    PaymentEvent::RefundRepriced(prepared(attempt, hash))
}

pub fn refund_abandoned(attempt: u32) -> PaymentEvent {
    let evidence = "nonce consumed".to_owned();
    PaymentEvent::RefundAbandoned(TransactionAbandoned { attempt, evidence, abandoned_at: at(70) })
}

pub fn refunded(hash: String, block: u64) -> PaymentEvent {
    PaymentEvent::EscrowRefunded(EscrowRefunded {
        inclusion: inclusion(1, hash, block),
        amount: amount(105),
        claims: Vec::new(),
    })
}

/// All commits of a payment that is completed, each as its events.
pub fn all_commits(payment_id: &PaymentId) -> Vec<Vec<PaymentEvent>> {
    vec![
        vec![submitted(payment_id)],
        vec![auction_closed(&["a", "b"], &[("b", "INSUFFICIENT_LIQUIDITY")]), awarded()],
        vec![deposit_prepared(1, hash(0x11))],
        vec![secured(hash(0x11), 20)],
        vec![seen(hash(0x22), 30)],
        vec![confirmed(hash(0x22), 31)],
        vec![released()],
    ]
}

pub fn opened(id: &QuoteRequestId) -> QuoteRequestEvent {
    let PaymentEvent::Submitted(submitted) = submitted(&PaymentId::derive("payer", "batch")) else { unreachable!() };
    QuoteRequestEvent::Opened(Box::new(QuoteRequestOpened {
        quote_request_id: id.clone(),
        request_id: "batch-1".to_owned(),
        originator: submitted.originator,
        terms: submitted.terms,
        terms_hash: submitted.terms_hash,
        quote_deadline: submitted.quote_deadline,
        quote_deadline_text: "2027-01-15T08:00:10+00:00".to_owned(),
        fulfillment_deadline: submitted.fulfillment_deadline,
        fulfillment_deadline_text: "2027-01-15T09:01:40.0+01:00".to_owned(),
        escrow: submitted.escrow.of_batch(1_800_000_100, 100),
        fulfillment_proxies: submitted.fulfillment_proxies,
        verifier: submitted.verifier,
        whitelist: Vec::new(),
        blacklist: Vec::new(),
        required_policies: Vec::new(),
        counterparty: None,
        identities: Vec::new(),
        selector: None,
        selector_answer_by: None,
        caller_secret_hash: None,
        opened_at: at(0),
        request: r#"{"request_id":"batch-1"}"#.to_owned(),
    }))
}

/// The collection of quotes that are valid until these seconds, of settlers a, b, c …, with the declines of others.
pub fn collected(valid_until: &[u64], declines: &[(&str, &str)]) -> QuoteRequestEvent {
    let quotes: Vec<_> = (0u8..).zip(valid_until).collect();
    let name = |n: u8| char::from(b'a' + n).to_string();
    let addressed: Vec<_> = quotes.iter().map(|(n, _)| name(*n)).collect();
    let all: Vec<&str> = addressed.iter().map(String::as_str).chain(declines.iter().map(|(who, _)| *who)).collect();
    let PaymentEvent::AuctionClosed(mut auction) = auction_closed(&all, declines) else { unreachable!() };
    auction.quotes = quotes
        .iter()
        .map(|(n, _)| QuoteReceived {
            settler: did(&name(*n)),
            quote_hash: Hash32([*n; 32]),
            source_amount: amount(105),
            fulfill_by: at(90),
        })
        .collect();
    let documents = quotes.into_iter().map(|(n, seconds)| CollectedDocument {
        quote_id: format!("quo_{n}"),
        quote_hash: Hash32([n; 32]),
        valid_until: at(*seconds),
        document: format!(r#"{{"n":{n}}}"#),
    });
    QuoteRequestEvent::Collected(Box::new(QuotesCollected { auction, quotes: documents.collect(), selection: None }))
}

pub fn batch_awarded(quote_id: &str) -> QuoteRequestEvent {
    QuoteRequestEvent::Awarded(QuoteRequestAwarded {
        quote_id: quote_id.to_owned(),
        payment_id: PaymentId::derive("payer", "award-1"),
        awarded_at: at(20),
    })
}

/// The commits of one stream, version 1 on, stored a second apart.
pub fn history<E: Into<Event>>(stream_id: impl Into<StreamId>, commits: Vec<Vec<E>>) -> Vec<Recorded> {
    let stream_id = stream_id.into();
    let recorded = commits.into_iter().zip(1..).map(|(events, version)| Recorded {
        stream_id: stream_id.clone(),
        position: Position { shard: 0, version, sequence: version, hash: Hash32([version as u8; 32]) },
        commit_id: CommitId::random(),
        prev: Hash32::ZERO,
        correlation: String::new(),
        causation: String::new(),
        stored_at: at(version),
        events: events.into_iter().map(Into::into).collect(),
    });
    recorded.collect()
}
