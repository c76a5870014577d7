//! Building blocks of the engine's tests: payments given by their events.

pub mod batch;
pub mod reassignment;

use chrono::Duration;
use ed25519_dalek::SigningKey;
use events::{
    Amount, ChainId, Did, Hash32, OwnedAsset, PaymentEvent, PaymentId, Terms,
    event::{
        AddressFunded, AddressHeld, AttestationAwaited, AttestationMissed, AuctionClosed, Authorization, AwardLapsed,
        AwardWithdrawn, CollectedDocument, DepositAddress, DepositRuledOut, EscrowOpened, EscrowPlan, EscrowRefunded,
        EscrowReleased, EscrowSecured, Failed, FulfillmentConfirmed, FulfillmentFinalized, FulfillmentSeen, Inclusion,
        PayerTransaction, Permit2, QuoteAwarded, RefundDue, Submitted, TransactionAbandoned, TransactionPrepared,
        TronSpend, Validity, VerifierRef, WinnerTold, WithdrawalCause,
    },
    quote::{Quote, SignedQuote, auction_of},
    time::{Timestamp, from_unix_seconds, unix_seconds},
};
use sagas::{
    Payment,
    payment::{Command, decide, fold},
};

pub const PAYER: &str = "0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed";
pub const OTHER: &str = "0xfb6916095ca1df60bb79ce92ce3ea74c37c5d359";

/// Second `seconds` of the tests' time; the payment is submitted at 0.
pub fn at(seconds: i64) -> Timestamp {
    from_unix_seconds(1_800_000_000).unwrap() + Duration::seconds(seconds)
}

pub fn amount(text: &str) -> Amount {
    text.parse().unwrap()
}

pub fn owned(asset: &str) -> OwnedAsset {
    OwnedAsset::new(asset.parse().unwrap(), PAYER).unwrap()
}

pub fn settler(n: u8) -> SigningKey {
    SigningKey::from_bytes(&[n; 32])
}

pub fn did(n: u8) -> Did {
    Did::from_ed25519(&settler(n).verifying_key())
}

/// Quotes until 10, deposit until 30, delivery until 60, refund from 100.
pub fn submission() -> Submitted {
    let terms = Terms::new(
        owned("eip155:1/erc20:0xa0b86991c6218b36c1d19d4a2e9eb0ce3606eb48"),
        vec![owned("eip155:10/slip44:60"), owned("eip155:137/slip44:966")],
        amount("1000"),
        Some(amount("1100")),
    );
    Submitted {
        payment_id: PaymentId::derive("tests", "one"),
        request_id: "one".to_owned(),
        originator: "tests".to_owned(),
        terms_hash: terms.hash(),
        terms,
        quote_deadline: at(10),
        fulfillment_deadline: at(60),
        authorization: Authorization::EvmPermit2Escrow(Permit2 {
            amount: amount("1100"),
            nonce: Hash32([3; 32]),
            deadline: unix_seconds(at(30)),
            quote_hash: Hash32::ZERO,
            signature: "0x".to_owned(),
            allowance: None,
        }),
        escrow: EscrowPlan {
            chain_id: ChainId::evm(1),
            contract: OTHER.parse().unwrap(),
            reserver: OTHER.parse().unwrap(),
            releaser: OTHER.parse().unwrap(),
            reserve_deadline: unix_seconds(at(30)),
            fulfillment_deadline: unix_seconds(at(60)),
            refund_after: unix_seconds(at(100)),
        },
        fulfillment_proxies: vec![OTHER.parse().unwrap(), PAYER.parse().unwrap()],
        verifier: VerifierRef::single(OTHER.parse().unwrap(), "http://127.0.0.1:1".to_owned()),
        whitelist: Vec::new(),
        blacklist: Vec::new(),
        required_policies: Vec::new(),
        collected_quote: None,
        selector: None,
        counterparty: None,
        identities: Vec::new(),
        submitted_at: at(0),
        request: "{}".to_owned(),
    }
}

/// The same, with a payer deposit.
pub fn payer_deposit_submission() -> Submitted {
    let payer_transaction = |byte: u8| PayerTransaction {
        transaction_hash: format!("0x{}", hex::encode([byte; 32])),
        raw: format!("0x{}", hex::encode([byte; 8])),
        expires_at: unix_seconds(at(30)) * 1_000,
    };
    let authorization = Authorization::Tron(TronSpend {
        amount: amount("1100"),
        quote_hash: Hash32::ZERO,
        approval: Some(payer_transaction(0xa1)),
        deposit: payer_transaction(0xd1),
    });
    Submitted { authorization, ..submission() }
}

/// The same, with a deposit address.
pub fn address_submission() -> Submitted {
    let account = |byte: u8| format!("0x{}", hex::encode([byte; 20])).parse().unwrap();
    let authorization = Authorization::DepositAddress(DepositAddress {
        amount: amount("1100"),
        address: account(0xad),
        factory: account(0xfa),
        implementation: account(0xfb),
        pay_by: at(20),
        from_block: 3,
    });
    Submitted { authorization, ..submission() }
}

pub fn address_submitted() -> PaymentEvent {
    PaymentEvent::Submitted(Box::new(address_submission()))
}

pub fn address_funded(units: &str) -> PaymentEvent {
    let funded = AddressFunded { amount: amount(units), block_number: 5, quote_deadline: at(10), funded_at: at(5) };
    PaymentEvent::AddressFunded(funded)
}

pub fn address_held() -> PaymentEvent {
    PaymentEvent::AddressHeld(AddressHeld { amount: amount("1100"), block_number: 9, held_at: at(31) })
}

/// A good quote of settler `n` over `price`.
pub fn quote(n: u8, price: &str) -> Quote {
    let submitted = submission();
    Quote {
        kind: Quote::kind(),
        auction_id: auction_of(&submitted.payment_id),
        terms_hash: submitted.terms_hash,
        settler: did(n),
        source_chain: ChainId::evm(1),
        source_amount: amount(price),
        payout_account: PAYER.parse().unwrap(),
        escrow_contract: OTHER.parse().unwrap(),
        destination: submitted.terms.destination()[0].clone(),
        fulfillment_amount: amount("1000"),
        delivery_account: PAYER.parse().unwrap(),
        fulfillment_proxy: OTHER.parse().unwrap(),
        fulfill_by: at(60),
        valid_until: at(30),
    }
}

pub fn signed(n: u8, quote: Quote) -> SignedQuote {
    quote.sign(&settler(n), at(1)).unwrap()
}

pub fn transaction(attempt: u32) -> TransactionPrepared {
    TransactionPrepared {
        attempt,
        chain_id: ChainId::evm(1),
        sender: OTHER.parse().unwrap(),
        validity: Validity::Nonce(u64::from(attempt)),
        transaction_hash: format!("0x{attempt:064x}"),
        raw: "0x00".to_owned(),
        prepared_at: at(11),
    }
}

/// Version `version` of an attempt, 1 for the first.
pub fn version(attempt: u32, version: u32) -> TransactionPrepared {
    match version {
        0 | 1 => transaction(attempt),
        _ => TransactionPrepared {
            transaction_hash: format!("0x{:064x}", u64::from(version) << 32 | u64::from(attempt)),
            raw: format!("0x00{version:02x}"),
            ..transaction(attempt)
        },
    }
}

pub fn inclusion(block: u64) -> Inclusion {
    Inclusion {
        chain_id: ChainId::evm(10),
        transaction_hash: format!("0x{:064x}", 0xde11),
        block_number: block,
        block_hash: format!("0x{block:064x}"),
        block_time: unix_seconds(at(20)),
    }
}

pub fn submitted() -> PaymentEvent {
    PaymentEvent::Submitted(Box::new(submission()))
}

pub fn payer_deposit_submitted() -> PaymentEvent {
    PaymentEvent::Submitted(Box::new(payer_deposit_submission()))
}

pub fn auction_closed() -> PaymentEvent {
    PaymentEvent::AuctionClosed(AuctionClosed {
        addressed: vec![did(1)],
        quotes: Vec::new(),
        declines: Vec::new(),
        dropped: Vec::new(),
        held_policies: Vec::new(),
        passed_over: Vec::new(),
        alternates: Vec::new(),
        closed_at: at(10),
    })
}

pub fn awarded() -> PaymentEvent {
    let signed = signed(1, quote(1, "1010"));
    PaymentEvent::QuoteAwarded(Box::new(QuoteAwarded {
        quote_id: signed.id(),
        quote_hash: signed.hash(),
        document: signed.document().to_owned(),
        awarded_at: at(10),
    }))
}

/// The quotes of settlers 1 to `settlers`, the cheapest first.
pub fn bids(settlers: u8) -> Vec<SignedQuote> {
    (1..=settlers).map(|n| signed(n, quote(n, &format!("101{}", n - 1)))).collect()
}

/// As [`auction_closed`], with the quotes of three settlers, of which the second and the third may follow the first.
pub fn auction_closed_with_alternates() -> PaymentEvent {
    let PaymentEvent::AuctionClosed(closed) = auction_closed() else { unreachable!() };
    let quotes = bids(3);
    let alternates = quotes[1..].iter().map(|signed| CollectedDocument {
        quote_id: signed.id(),
        quote_hash: signed.hash(),
        valid_until: signed.quote().valid_until,
        document: signed.document().to_owned(),
    });
    PaymentEvent::AuctionClosed(AuctionClosed {
        quotes: quotes.iter().map(sagas::auction::received).collect(),
        alternates: alternates.collect(),
        ..closed
    })
}

pub fn lapsed(n: u8) -> PaymentEvent {
    let quote_hash = bids(n).pop().unwrap().hash();
    PaymentEvent::AwardLapsed(AwardLapsed { settler: did(n), quote_hash, refusal: None, lapsed_at: at(12) })
}

pub fn awarded_to(n: u8) -> PaymentEvent {
    let signed = bids(n).pop().unwrap();
    PaymentEvent::QuoteAwarded(Box::new(QuoteAwarded {
        quote_id: signed.id(),
        quote_hash: signed.hash(),
        document: signed.document().to_owned(),
        awarded_at: at(12),
    }))
}

pub fn deposit_prepared(attempt: u32) -> PaymentEvent {
    PaymentEvent::DepositPrepared(transaction(attempt))
}

pub fn deposit_repriced(attempt: u32, version: u32) -> PaymentEvent {
    PaymentEvent::DepositRepriced(self::version(attempt, version))
}

pub fn deposit_abandoned(attempt: u32) -> PaymentEvent {
    PaymentEvent::DepositAbandoned(TransactionAbandoned {
        attempt,
        evidence: "nonce taken".to_owned(),
        abandoned_at: at(12),
    })
}

pub fn secured() -> PaymentEvent {
    PaymentEvent::EscrowSecured(EscrowSecured { inclusion: inclusion(5), amount: amount("1010"), deposit: None })
}

pub fn escrow_opened() -> EscrowOpened {
    EscrowOpened { inclusion: inclusion(5), amount: amount("1100"), reserved_for: None }
}

pub fn deposit_opened() -> PaymentEvent {
    PaymentEvent::EscrowOpened(escrow_opened())
}

pub fn ruled_out() -> PaymentEvent {
    PaymentEvent::DepositRuledOut(DepositRuledOut { ruled_out_at: at(31), left: None })
}

pub fn withdrawn(cause: WithdrawalCause) -> PaymentEvent {
    PaymentEvent::AwardWithdrawn(AwardWithdrawn { cause, withdrawn_at: at(31) })
}

pub fn winner_told() -> PaymentEvent {
    PaymentEvent::WinnerTold(WinnerTold { told_at: at(32) })
}

pub fn seen(block: u64) -> PaymentEvent {
    PaymentEvent::FulfillmentSeen(FulfillmentSeen { inclusion: inclusion(block) })
}

pub fn confirmed(block: u64) -> PaymentEvent {
    PaymentEvent::FulfillmentConfirmed(FulfillmentConfirmed {
        inclusion: inclusion(block),
        attestation: "0xa77e57".to_owned(),
        confirmed_at: at(25),
        release_from: Some(at(45)),
    })
}

pub fn finalized(block: u64) -> PaymentEvent {
    let finalized = FulfillmentFinalized { inclusion: inclusion(block), finalized_at: at(24) };
    PaymentEvent::FulfillmentFinalized(finalized)
}

pub fn attestation_missed() -> PaymentEvent {
    PaymentEvent::AttestationMissed(AttestationMissed { missed_at: at(101) })
}

pub fn unattested(block: u64) -> PaymentEvent {
    PaymentEvent::AttestationAwaited(AttestationAwaited { inclusion: inclusion(block), awaited_at: at(55) })
}

pub fn release_prepared(attempt: u32) -> PaymentEvent {
    PaymentEvent::ReleasePrepared(transaction(attempt))
}

pub fn release_repriced(attempt: u32, version: u32) -> PaymentEvent {
    PaymentEvent::ReleaseRepriced(self::version(attempt, version))
}

pub fn released() -> PaymentEvent {
    PaymentEvent::EscrowReleased(EscrowReleased { inclusion: inclusion(9), claims: Vec::new() })
}

pub fn refund_prepared(attempt: u32) -> PaymentEvent {
    PaymentEvent::RefundPrepared(transaction(attempt))
}

pub fn refund_repriced(attempt: u32, version: u32) -> PaymentEvent {
    PaymentEvent::RefundRepriced(self::version(attempt, version))
}

pub fn refunded() -> PaymentEvent {
    PaymentEvent::EscrowRefunded(EscrowRefunded { inclusion: inclusion(9), amount: amount("1010"), claims: Vec::new() })
}

pub fn failed(refund: RefundDue) -> PaymentEvent {
    PaymentEvent::Failed(Box::new(Failed {
        failure: events::Failure {
            code: "SETTLEMENT_FAILED".to_owned(),
            message: "test".to_owned(),
            domain: None,
            retry_classification: None,
            blockchain_context: None,
        },
        refund,
        failed_at: at(70),
    }))
}

/// The events of an undisturbed payment up to the escrow being funded.
pub fn until_secured() -> Vec<PaymentEvent> {
    vec![submitted(), auction_closed(), awarded(), deposit_prepared(1), secured()]
}

/// The events of an undisturbed payment.
pub fn undisturbed() -> Vec<PaymentEvent> {
    let mut events = until_secured();
    events.extend([seen(7), confirmed(7), released()]);
    events
}

/// Given these events, when this command comes …
pub struct Given(pub Payment);

pub fn given(events: &[PaymentEvent]) -> Given {
    Given(fold(events).unwrap().unwrap())
}

impl Given {
    /// … then these events follow. They are legal, too.
    #[track_caller]
    pub fn when(&self, command: Command) -> Vec<PaymentEvent> {
        let events = decide(&self.0, command).unwrap();
        let mut state = self.0.clone();
        for event in &events {
            state = sagas::payment::evolve(Some(state), event).unwrap();
        }
        events
    }

    /// … then it is refused.
    #[track_caller]
    pub fn refuses(&self, command: Command) {
        decide(&self.0, command).unwrap_err();
    }
}

pub fn types(events: &[PaymentEvent]) -> Vec<&'static str> {
    events.iter().map(PaymentEvent::type_name).collect()
}
