//! Stored events stay readable for ever: one golden file for each form in which an event of a schema version was ever
//! written, under `golden/v{version}/`. A golden file is never edited; a new version gets files of its own.

use std::{collections::BTreeSet, path::PathBuf};

use serde_json::Value;

use events::{
    Amount, ChainId, Did, Event, Failure, Hash32, OwnedAsset, PaymentEvent, PaymentId, QuoteRequestEvent,
    QuoteRequestId, Terms,
    codec::{self, Error},
    event::{
        AttestationAwaited, AuctionClosed, Authorization, AwardWithdrawn, Claim, CollectedQuote, CounterpartyDecision,
        Decline, DepositRuledOut, DroppedBid, EscrowOpened, EscrowPlan, EscrowRefunded, EscrowReleased, EscrowSecured,
        Failed, FulfillmentConfirmed, FulfillmentSeen, Inclusion, Mark, Moved, PayerTransaction, Permit2, QuoteAwarded,
        QuoteReceived, RefundDue, SelectorAnswered, SelectorAsked, SelectorRef, SolanaSpend, Submitted,
        TransactionAbandoned, TransactionPrepared, TronSpend, Validity, VerifierRef, WinnerTold, WithdrawalCause,
    },
    failure::{BlockchainContext, Domain, RetryClassification},
    identity::{Carrier, HeldPolicy, PresentedCredential, ProvenIdentity},
    quote_request::{CollectedDocument, QuoteRequestAwarded, QuoteRequestOpened, QuotesCollected},
    time::Timestamp,
};

const PAYER: &str = "0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed";
const RECIPIENT: &str = "0xfb6916095ca1df60bb79ce92ce3ea74c37c5d359";
const CONTRACT: &str = "0x00000000000000000000000000000000000e5c40";
const PROXY: &str = "0x0000000000000000000000000000000000090211";
const RESERVER: &str = "0x0000000000000000000000000000000000004e5e";
const RELEASER: &str = "0x0000000000000000000000000000000000004e1e";

fn directory(version: u32) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/v{version}"))
}

fn at(second: u32) -> Timestamp {
    format!("2026-01-02T03:04:{second:02}.250Z").parse().unwrap()
}

fn amount(text: &str) -> Amount {
    text.parse().unwrap()
}

fn settler(n: u8) -> Did {
    format!("did:key:zSettler{n}").parse().unwrap()
}

fn hash(byte: u8) -> Hash32 {
    Hash32([byte; 32])
}

fn owned(asset: &str, account: &str) -> OwnedAsset {
    OwnedAsset::new(asset.parse().unwrap(), account).unwrap()
}

fn inclusion(chain: u64) -> Inclusion {
    Inclusion {
        chain_id: ChainId::evm(chain),
        transaction_hash: hash(0x31).to_string(),
        block_number: 1_234_567,
        block_hash: hash(0x32).to_string(),
        block_time: 1_767_323_045,
    }
}

fn prepared() -> TransactionPrepared {
    TransactionPrepared {
        attempt: 2,
        chain_id: ChainId::evm(1),
        sender: RESERVER.parse().unwrap(),
        validity: Validity::Nonce(7),
        transaction_hash: hash(0x21).to_string(),
        raw: "0x02f86b".into(),
        prepared_at: at(10),
    }
}

fn repriced() -> TransactionPrepared {
    TransactionPrepared {
        transaction_hash: hash(0x22).to_string(),
        raw: "0x02f86c".into(),
        prepared_at: at(15),
        ..prepared()
    }
}

/// The same on a chain of another family, whose transactions end in another way.
fn on(chain_id: &str, validity: Validity, transaction: TransactionPrepared) -> TransactionPrepared {
    TransactionPrepared { chain_id: chain_id.parse().unwrap(), validity, ..transaction }
}

fn on_solana(transaction: TransactionPrepared) -> TransactionPrepared {
    on("solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp", Validity::LastBlockHeight(312_000_150), transaction)
}

fn on_tron(transaction: TransactionPrepared) -> TransactionPrepared {
    on("tron:728126428", Validity::Expiration(1_767_323_110_000), transaction)
}

fn abandoned() -> TransactionAbandoned {
    TransactionAbandoned {
        attempt: 2,
        evidence: "nonce 7 is consumed by another transaction in final block 1234567".into(),
        abandoned_at: at(20),
    }
}

fn submitted() -> Submitted {
    let terms = Terms::new(
        owned("eip155:1/erc20:0xa0b86991c6218b36c1d19d4a2e9eb0ce3606eb48", PAYER),
        vec![owned("eip155:10/erc20:0x0b2c639c533813f4aa9d7837caf62653d097ff85", RECIPIENT)],
        amount("25000000"),
        Some(amount("26000000")),
    );
    Submitted {
        payment_id: PaymentId::derive("eip155:0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed", "order-1"),
        request_id: "order-1".into(),
        originator: format!("eip155:{PAYER}"),
        terms_hash: terms.hash(),
        terms,
        quote_deadline: at(30),
        fulfillment_deadline: at(59),
        authorization: Authorization::EvmPermit2Escrow(Permit2 {
            amount: amount("26000000"),
            nonce: hash(0x11),
            deadline: 1_767_323_100,
            quote_hash: Hash32::ZERO,
            signature: "0x1b".into(),
        }),
        escrow: EscrowPlan {
            chain_id: ChainId::evm(1),
            contract: CONTRACT.parse().unwrap(),
            reserver: RESERVER.parse().unwrap(),
            releaser: RELEASER.parse().unwrap(),
            reserve_deadline: 1_767_323_080,
            fulfillment_deadline: 1_767_323_099,
            refund_after: 1_767_326_699,
        },
        fulfillment_proxies: vec![PROXY.into()],
        verifier: VerifierRef { account: RELEASER.parse().unwrap(), endpoint: "https://verifier.example".into() },
        whitelist: vec![settler(1), settler(2)],
        blacklist: vec![settler(3)],
        required_policies: vec!["kyc-1".into()],
        collected_quote: None,
        selector: None,
        counterparty: None,
        identities: Vec::new(),
        submitted_at: at(0),
        request: r#"{"version":"2","request_id":"order-1"}"#.into(),
    }
}

fn submitted_with_least() -> Submitted {
    let full = submitted();
    let Authorization::EvmPermit2Escrow(permit) = full.authorization.clone() else { unreachable!() };
    let terms = Terms::new(
        owned("eip155:1/slip44:60", PAYER),
        vec![owned("eip155:10/slip44:60", RECIPIENT), owned("eip155:137/slip44:966", RECIPIENT)],
        amount("25"),
        None,
    );
    Submitted {
        terms_hash: terms.hash(),
        terms,
        authorization: Authorization::EvmPermit2(permit),
        fulfillment_proxies: vec![PROXY.into(), PROXY.into()],
        whitelist: Vec::new(),
        blacklist: Vec::new(),
        required_policies: Vec::new(),
        collected_quote: None,
        counterparty: None,
        identities: Vec::new(),
        ..full
    }
}

fn submitted_with_a_selector() -> Submitted {
    let key = "0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed".parse().unwrap();
    Submitted { selector: Some(SelectorRef { key, answer_by: at(35) }), ..submitted() }
}

/// From one Solana cluster to an EVM chain and back, signed by a delegate signer.
fn submitted_on_solana() -> Submitted {
    const CHAIN: &str = "solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp";
    const PROGRAM: &str = "Bu4YY2J4tTs7UP6nd8uqS7YwzeLpmF1cHSuV5J4DvGA4";
    let full = submitted();
    let payer = "GmaDrppBC7P5ARKV8g3djiwP89vz1jLK23V2GBjuAEGB";
    let terms = Terms::new(
        owned(&format!("{CHAIN}/token:EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v"), payer),
        vec![
            owned("eip155:10/erc20:0x0b2c639c533813f4aa9d7837caf62653d097ff85", RECIPIENT),
            owned(&format!("{CHAIN}/slip44:501"), payer),
        ],
        amount("25000000"),
        Some(amount("26000000")),
    );
    Submitted {
        originator: format!("solana:{payer}"),
        terms_hash: terms.hash(),
        terms,
        authorization: Authorization::Solana(SolanaSpend {
            amount: amount("26000000"),
            quote_hash: Hash32::ZERO,
            signer: "5Bh5JPtF1RtQFR8R8eEYtVrKRkAJqAVYbSAgVY8eUFPE".parse().unwrap(),
            signature: format!("0x{}", "1b".repeat(64)),
        }),
        escrow: EscrowPlan {
            chain_id: CHAIN.parse().unwrap(),
            contract: PROGRAM.parse().unwrap(),
            reserver: "4uQeVj5tqViQh7yWWGStvkEG1Zmhx6uasJtWCJziofM".parse().unwrap(),
            releaser: "8pM1DN3RiT8vbom5u1sNryaNT1nyL8CTTW3b5PwWXRBH".parse().unwrap(),
            ..full.escrow
        },
        fulfillment_proxies: vec![PROXY.into(), PROGRAM.into()],
        ..full
    }
}

/// From Tron to an EVM chain and to Tron's native asset, by the payer's own transactions.
fn submitted_on_tron() -> Submitted {
    const CHAIN: &str = "tron:728126428";
    const ESCROW: &str = "T9yD14Nj9j7xAB4dbGeiX9h8vLJypTSwjX";
    let full = submitted();
    let payer = "TJEh7TX8sNj5uq4hXKyYdTrnGmeeG48top";
    let terms = Terms::new(
        owned(&format!("{CHAIN}/trc20:TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6t"), payer),
        vec![
            owned("eip155:10/erc20:0x0b2c639c533813f4aa9d7837caf62653d097ff85", RECIPIENT),
            owned(&format!("{CHAIN}/slip44:195"), payer),
        ],
        amount("25000000"),
        Some(amount("26000000")),
    );
    let own = |byte: u8| PayerTransaction {
        transaction_hash: hash(byte).to_string(),
        raw: format!("0x0a02{byte:02x}1241"),
        expires_at: 1_767_323_081_250,
    };
    Submitted {
        payment_id: PaymentId::derive(&format!("tron:{payer}"), "order-1"),
        originator: format!("tron:{payer}"),
        terms_hash: terms.hash(),
        terms,
        authorization: Authorization::Tron(TronSpend {
            amount: amount("26000000"),
            quote_hash: Hash32::ZERO,
            approval: Some(own(0x71)),
            deposit: own(0x72),
        }),
        escrow: EscrowPlan {
            chain_id: CHAIN.parse().unwrap(),
            contract: ESCROW.parse().unwrap(),
            reserver: "T9yD14Nj9j7xAB4dbGeiX9h8uoRLjkvBwh".parse().unwrap(),
            releaser: "T9yD14Nj9j7xAB4dbGeiX9h8uoRDWtBcLf".parse().unwrap(),
            ..full.escrow
        },
        fulfillment_proxies: vec![PROXY.into(), "T9yD14Nj9j7xAB4dbGeiX9h8v8YfkoQbCJ".into()],
        ..full
    }
}

/// The allowance stands already, and the payer signed for a quote of a batch.
fn submitted_on_tron_without_approval() -> Submitted {
    let full = submitted_on_tron();
    let Authorization::Tron(spend) = full.authorization.clone() else { unreachable!() };
    Submitted {
        authorization: Authorization::Tron(TronSpend { approval: None, quote_hash: hash(0x41), ..spend }),
        collected_quote: Some(CollectedQuote { quote_request_id: batch(), quote_id: "quo_1".into() }),
        ..full
    }
}

/// A payment out of a batch, with everything that may be absent.
fn submitted_from_a_batch() -> Submitted {
    let full = submitted();
    let Authorization::EvmPermit2Escrow(permit) = full.authorization.clone() else { unreachable!() };
    Submitted {
        authorization: Authorization::EvmPermit2Escrow(Permit2 { quote_hash: hash(0x41), ..permit }),
        collected_quote: Some(CollectedQuote { quote_request_id: batch(), quote_id: "quo_1".into() }),
        counterparty: Some(counterparty()),
        identities: Vec::new(),
        ..full
    }
}

/// A holder with a credential, and a sender with none that says until when.
fn identities() -> Vec<ProvenIdentity> {
    let credential = PresentedCredential {
        credential_hash: hash(0x61),
        issuer: settler(8),
        types: vec!["VerifiableCredential".into(), "KycCredential".into()],
        expires: Some(at(58)),
    };
    vec![
        ProvenIdentity {
            carrier: Carrier::Envelope,
            did: settler(7),
            verification_method: "did:key:zSettler7#zSettler7".into(),
            verified_at: at(0),
            credentials: vec![credential.clone(), PresentedCredential { expires: None, ..credential }],
        },
        ProvenIdentity {
            carrier: Carrier::SenderAuth,
            did: settler(6),
            verification_method: "did:key:zSettler6#zSettler6".into(),
            verified_at: at(0),
            credentials: Vec::new(),
        },
    ]
}

fn batch() -> QuoteRequestId {
    QuoteRequestId::derive(&format!("eip155:{PAYER}"), "order-1")
}

fn counterparty() -> CounterpartyDecision {
    CounterpartyDecision { policies: vec!["permit-known".into(), "permit-small".into()], policy_set: hash(0x51) }
}

fn opened() -> QuoteRequestOpened {
    let payment = submitted();
    QuoteRequestOpened {
        quote_request_id: batch(),
        request_id: payment.request_id,
        originator: payment.originator,
        terms: payment.terms,
        terms_hash: payment.terms_hash,
        quote_deadline: payment.quote_deadline,
        quote_deadline_text: "2026-01-02T04:04:30.25+01:00".into(),
        fulfillment_deadline: payment.fulfillment_deadline,
        fulfillment_deadline_text: "2026-01-02T03:04:59.250Z".into(),
        escrow: payment.escrow,
        fulfillment_proxies: payment.fulfillment_proxies,
        verifier: payment.verifier,
        whitelist: payment.whitelist,
        blacklist: payment.blacklist,
        required_policies: payment.required_policies,
        counterparty: Some(counterparty()),
        identities: Vec::new(),
        selector: None,
        caller_secret_hash: None,
        opened_at: at(0),
        request: payment.request,
    }
}

fn opened_with_least() -> QuoteRequestOpened {
    let payment = submitted_with_least();
    QuoteRequestOpened {
        terms_hash: payment.terms_hash,
        terms: payment.terms,
        fulfillment_proxies: payment.fulfillment_proxies,
        whitelist: Vec::new(),
        blacklist: Vec::new(),
        required_policies: Vec::new(),
        counterparty: None,
        identities: Vec::new(),
        ..opened()
    }
}

fn opened_with_a_secret() -> QuoteRequestOpened {
    let secret = hash(0x61);
    QuoteRequestOpened {
        quote_request_id: QuoteRequestId::derive_with_secret(&opened().originator, &opened().request_id, &secret),
        selector: submitted_with_a_selector().selector.map(|selector| selector.key),
        caller_secret_hash: Some(secret),
        ..opened()
    }
}

fn withdrawn(cause: WithdrawalCause) -> PaymentEvent {
    PaymentEvent::AwardWithdrawn(AwardWithdrawn { cause, withdrawn_at: at(42) })
}

fn failed(failure: Failure, refund: RefundDue) -> PaymentEvent {
    PaymentEvent::Failed(Box::new(Failed { failure, refund, failed_at: at(40) }))
}

fn bare(code: &str) -> Failure {
    Failure {
        code: code.into(),
        message: "no settler offered a usable quote".into(),
        domain: None,
        retry_classification: None,
        blockchain_context: None,
    }
}

fn on_chain() -> Failure {
    Failure {
        domain: Some(Domain::Blockchain),
        retry_classification: Some(RetryClassification::RetryWithNewRequestId),
        blockchain_context: Some(BlockchainContext {
            chain_id: ChainId::evm(1),
            transaction_hash: Some(hash(0x21).to_string()),
            block_number: Some(1_234_567),
            contract_address: Some(CONTRACT.into()),
            revert_reason: Some("TRANSFER_FROM_FAILED".into()),
            gas_used: Some("61000".into()),
            estimated_gas_needed: Some("90000".into()),
        }),
        ..bare(Failure::SETTLEMENT_FAILED)
    }
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
        closed_at: at(30),
    };
    let nobody = AuctionClosed {
        addressed: Vec::new(),
        quotes: Vec::new(),
        declines: Vec::new(),
        dropped: Vec::new(),
        held_policies: Vec::new(),
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
    let awaited = AttestationAwaited { inclusion: inclusion(10), awaited_at: at(46) };
    let refunded = EscrowRefunded { inclusion: inclusion(1), amount: amount("25500000"), claims: Vec::new() };
    let claim = |owner: &str, units: &str| Claim { owner: owner.into(), amount: amount(units) };
    let refunded_as_a_claim = EscrowRefunded { claims: vec![claim(PAYER, "25500000")], ..refunded.clone() };
    let released = EscrowReleased { inclusion: inclusion(1), claims: Vec::new() };
    let released_as_claims =
        EscrowReleased { claims: vec![claim(RECIPIENT, "25000000"), claim(PAYER, "500000")], ..released.clone() };
    let on_tron = Inclusion { chain_id: "tron:728126428".parse().unwrap(), ..inclusion(1) };
    let opened_by_the_payer = EscrowOpened { inclusion: on_tron, amount: amount("26000000") };
    let by_non_delivery = RefundDue::ByNonDelivery { attestation: "0x1d".into() };
    let collected = QuotesCollected {
        auction: auction.clone(),
        quotes: vec![CollectedDocument {
            quote_id: "quo_1".into(),
            quote_hash: hash(0x41),
            valid_until: at(55),
            document: r#"{"type":"GatewayQuote"}"#.into(),
        }],
    };
    let held = |policy: &str, expires| HeldPolicy {
        settler: settler(1),
        policy: policy.into(),
        issuer: settler(8),
        credential_hash: hash(0x62),
        expires,
    };
    let with_policies =
        AuctionClosed { held_policies: vec![held("kyc-1", Some(at(58))), held("licence", None)], ..auction.clone() };
    let proven = Submitted { originator: settler(7).to_string(), identities: identities(), ..submitted() };
    let opened_by_a_holder =
        QuoteRequestOpened { originator: settler(7).to_string(), identities: identities(), ..opened() };
    let nothing = QuotesCollected { auction: nobody.clone(), quotes: Vec::new() };
    let batch_awarded =
        QuoteRequestAwarded { quote_id: "quo_1".into(), payment_id: submitted().payment_id, awarded_at: at(31) };
    let batches = [
        ("quote_request_opened", QuoteRequestEvent::Opened(Box::new(opened()))),
        ("quote_request_opened_by_a_holder", QuoteRequestEvent::Opened(Box::new(opened_by_a_holder))),
        ("quote_request_opened_with_least", QuoteRequestEvent::Opened(Box::new(opened_with_least()))),
        ("quote_request_opened_with_a_secret", QuoteRequestEvent::Opened(Box::new(opened_with_a_secret()))),
        ("quotes_collected", QuoteRequestEvent::Collected(Box::new(collected))),
        ("quotes_collected_without_quotes", QuoteRequestEvent::Collected(Box::new(nothing))),
        ("quote_request_awarded", QuoteRequestEvent::Awarded(batch_awarded)),
    ];
    let payments = [
        ("submitted", PaymentEvent::Submitted(Box::new(submitted()))),
        ("submitted_by_a_holder", PaymentEvent::Submitted(Box::new(proven))),
        ("submitted_from_a_batch", PaymentEvent::Submitted(Box::new(submitted_from_a_batch()))),
        ("submitted_on_solana", PaymentEvent::Submitted(Box::new(submitted_on_solana()))),
        ("submitted_on_tron", PaymentEvent::Submitted(Box::new(submitted_on_tron()))),
        ("submitted_on_tron_without_approval", PaymentEvent::Submitted(Box::new(submitted_on_tron_without_approval()))),
        ("submitted_with_a_selector", PaymentEvent::Submitted(Box::new(submitted_with_a_selector()))),
        ("selector_asked", PaymentEvent::SelectorAsked(asked)),
        ("selector_answered", PaymentEvent::SelectorAnswered(answered)),
        ("submitted_with_least", PaymentEvent::Submitted(Box::new(submitted_with_least()))),
        ("auction_closed", PaymentEvent::AuctionClosed(auction)),
        ("auction_closed_with_policies", PaymentEvent::AuctionClosed(with_policies)),
        ("auction_closed_without_settlers", PaymentEvent::AuctionClosed(nobody)),
        ("quote_awarded", PaymentEvent::QuoteAwarded(Box::new(awarded))),
        ("deposit_prepared", PaymentEvent::DepositPrepared(prepared())),
        ("deposit_repriced", PaymentEvent::DepositRepriced(repriced())),
        ("deposit_abandoned", PaymentEvent::DepositAbandoned(abandoned())),
        (
            "escrow_secured",
            PaymentEvent::EscrowSecured(EscrowSecured { inclusion: inclusion(1), amount: amount("25500000") }),
        ),
        ("escrow_opened", PaymentEvent::EscrowOpened(opened_by_the_payer)),
        ("award_withdrawn_refused", withdrawn(WithdrawalCause::Refused { reason: "QUOTE_EXPIRED".to_owned() })),
        ("award_withdrawn_unanswered", withdrawn(WithdrawalCause::Unanswered)),
        ("award_withdrawn_not_deposited", withdrawn(WithdrawalCause::NotDeposited)),
        ("winner_told", PaymentEvent::WinnerTold(WinnerTold { told_at: at(43) })),
        ("deposit_ruled_out", PaymentEvent::DepositRuledOut(DepositRuledOut { ruled_out_at: at(41) })),
        ("fulfillment_seen", PaymentEvent::FulfillmentSeen(FulfillmentSeen { inclusion: inclusion(10) })),
        ("attestation_awaited", PaymentEvent::AttestationAwaited(awaited)),
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
    assert_eq!(types.len(), 29, "a new event needs a golden file");
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
