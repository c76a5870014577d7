//! Samples: the events of the golden files.

use super::*;

pub const PAYER: &str = "0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed";
pub const RECIPIENT: &str = "0xfb6916095ca1df60bb79ce92ce3ea74c37c5d359";
pub const CONTRACT: &str = "0x00000000000000000000000000000000000e5c40";
pub const PROXY: &str = "0x0000000000000000000000000000000000090211";
pub const RESERVER: &str = "0x0000000000000000000000000000000000004e5e";
pub const RELEASER: &str = "0x0000000000000000000000000000000000004e1e";

pub fn account(text: &str) -> Account {
    text.parse().unwrap()
}

pub fn at(second: u32) -> Timestamp {
    format!("2026-01-02T03:04:{second:02}.250Z").parse().unwrap()
}

pub fn amount(text: &str) -> Amount {
    text.parse().unwrap()
}

pub fn settler(n: u8) -> Did {
    format!("did:key:zSettler{n}").parse().unwrap()
}

pub fn hash(byte: u8) -> Hash32 {
    Hash32([byte; 32])
}

pub fn owned(asset: &str, account: &str) -> OwnedAsset {
    OwnedAsset::new(asset.parse().unwrap(), account).unwrap()
}

pub fn inclusion(chain: u64) -> Inclusion {
    Inclusion {
        chain_id: ChainId::evm(chain),
        transaction_hash: hash(0x31).to_string(),
        block_number: 1_234_567,
        block_hash: hash(0x32).to_string(),
        block_time: 1_767_323_045,
    }
}

pub fn prepared() -> TransactionPrepared {
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

pub fn repriced() -> TransactionPrepared {
    TransactionPrepared {
        transaction_hash: hash(0x22).to_string(),
        raw: "0x02f86c".into(),
        prepared_at: at(15),
        ..prepared()
    }
}

/// The same on a chain of another family, whose transactions end in another way.
pub fn on(chain_id: &str, validity: Validity, transaction: TransactionPrepared) -> TransactionPrepared {
    TransactionPrepared { chain_id: chain_id.parse().unwrap(), validity, ..transaction }
}

pub fn on_solana(transaction: TransactionPrepared) -> TransactionPrepared {
    on("solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp", Validity::LastBlockHeight(312_000_150), transaction)
}

pub fn on_tron(transaction: TransactionPrepared) -> TransactionPrepared {
    on("tron:728126428", Validity::Expiration(1_767_323_110_000), transaction)
}

pub fn abandoned() -> TransactionAbandoned {
    TransactionAbandoned {
        attempt: 2,
        evidence: "nonce 7 is consumed by another transaction in final block 1234567".into(),
        abandoned_at: at(20),
    }
}

pub fn reservation_lapsed() -> ReservationLapsed {
    ReservationLapsed {
        settler: settler(1),
        quote_hash: hash(0x41),
        attestation: "0x1d".into(),
        quote_deadline: at(53),
        lapsed_at: at(51),
    }
}

pub fn submitted() -> Submitted {
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
            allowance: None,
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
        fulfillment_proxies: vec![account(PROXY)],
        verifier: VerifierRef::single(RELEASER.parse().unwrap(), "https://verifier.example"),
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

pub fn submitted_with_least() -> Submitted {
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
        fulfillment_proxies: vec![account(PROXY), account(PROXY)],
        whitelist: Vec::new(),
        blacklist: Vec::new(),
        required_policies: Vec::new(),
        collected_quote: None,
        counterparty: None,
        identities: Vec::new(),
        ..full
    }
}

pub fn submitted_with_a_verifier_set() -> Submitted {
    let member = |byte: u8| VerifierMember {
        account: account(&format!("0x00000000000000000000000000000000000000{byte:02x}")),
        endpoint: format!("https://verifier-{byte:02x}.example"),
    };
    let set = VerifierSet::new(2, vec![member(0xc3), member(0xa1), member(0xb2)]).unwrap();
    let escrow = EscrowPlan { releaser: set.id().unwrap(), ..submitted().escrow };
    Submitted { escrow, verifier: VerifierRef::of(set).unwrap(), ..submitted() }
}

/// What one verifier of that set says.
pub fn by_a_member() -> MemberAttested {
    MemberAttested {
        member: account("0x00000000000000000000000000000000000000b2"),
        signature: "0x1f".into(),
        attested_at: at(45),
    }
}

pub fn submitted_with_a_selector() -> Submitted {
    let key = "0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed".parse().unwrap();
    Submitted { selector: Some(SelectorRef { key, answer_by: at(35) }), ..submitted() }
}

/// From one Solana cluster to an EVM chain and back, signed by a delegate signer.
pub fn submitted_on_solana() -> Submitted {
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
        fulfillment_proxies: vec![account(PROXY), account(PROGRAM)],
        ..full
    }
}

/// A payer that sends its money to an address.
pub fn submitted_by_address() -> Submitted {
    let address = account;
    Submitted {
        authorization: Authorization::DepositAddress(DepositAddress {
            amount: amount("26000000"),
            address: address("0x8464135c8f25da09e49bc8782676a84730c318bc"),
            factory: address("0x71c95911e9a5d330f4d621842ec243ee1343292e"),
            implementation: address("0x948b3c65b89df0b4894abe91e6d02fe579834f8f"),
            pay_by: at(40),
            from_block: 5,
        }),
        ..submitted_with_least()
    }
}

/// From Tron to an EVM chain and to Tron's native asset, by the payer's own transactions.
pub fn submitted_on_tron() -> Submitted {
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
    let payer_transaction = |byte: u8| PayerTransaction {
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
            approval: Some(payer_transaction(0x71)),
            deposit: payer_transaction(0x72),
        }),
        escrow: EscrowPlan {
            chain_id: CHAIN.parse().unwrap(),
            contract: ESCROW.parse().unwrap(),
            reserver: "T9yD14Nj9j7xAB4dbGeiX9h8uoRLjkvBwh".parse().unwrap(),
            releaser: "T9yD14Nj9j7xAB4dbGeiX9h8uoRDWtBcLf".parse().unwrap(),
            ..full.escrow
        },
        fulfillment_proxies: vec![account(PROXY), account("T9yD14Nj9j7xAB4dbGeiX9h8v8YfkoQbCJ")],
        ..full
    }
}

/// The allowance stands already, and the payer signed for a quote of a batch.
pub fn submitted_on_tron_without_approval() -> Submitted {
    let full = submitted_on_tron();
    let Authorization::Tron(spend) = full.authorization.clone() else { unreachable!() };
    Submitted {
        authorization: Authorization::Tron(TronSpend { approval: None, quote_hash: hash(0x41), ..spend }),
        collected_quote: Some(CollectedQuote { quote_request_id: batch(), quote_id: "quo_1".into() }),
        ..full
    }
}

/// A payment out of a batch, with everything that may be absent.
pub fn submitted_from_a_batch() -> Submitted {
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

fn usd_coin() -> TokenDomain {
    TokenDomain { name: "USD Coin".into(), version: "2".into() }
}

/// The payer signed a transfer of its token's, of a quote that it knew.
pub fn submitted_by_a_transfer() -> Submitted {
    let transfer = Eip3009 {
        domain: usd_coin(),
        amount: amount("25500000"),
        nonce: hash(0x12),
        valid_before: 1_767_323_081,
        quote_hash: hash(0x41),
        signature: "0x1b".into(),
    };
    Submitted { authorization: Authorization::EvmEip3009(transfer), ..submitted() }
}

/// A stock client of x402 signed for the address of a merchant's offer.
pub fn submitted_by_x402() -> Submitted {
    let purchase = X402Exact {
        domain: usd_coin(),
        amount: amount("25500000"),
        nonce: hash(0x13),
        valid_after: 0,
        valid_before: 1_767_323_081,
        pay_to: "0x8000000000000000000000000000000000000008".parse().unwrap(),
        factory: "0x9000000000000000000000000000000000000009".parse().unwrap(),
        implementation: "0xa00000000000000000000000000000000000000a".parse().unwrap(),
        merchant: "0xb00000000000000000000000000000000000000b".parse().unwrap(),
        signature: "0x1b".into(),
    };
    Submitted { authorization: Authorization::EvmX402Exact(purchase), ..submitted() }
}

/// A stock client of x402 signed a transfer on Solana to the address of a merchant's offer.
pub fn submitted_by_x402_on_solana() -> Submitted {
    let purchase = SolanaPurchase {
        amount: amount("25500000"),
        buyer: "9y3Dyn7TDcczcPREoos4cNia4hS3FHSMwCG3njQBxHmt".parse().unwrap(),
        pay_to: "8SFqwqnq4whPhs8icwHA2hQg3hUoN1qrCLK1SBx3WKwe".parse().unwrap(),
        fee_payer: "Bu4YY2J4tTs7UP6nd8uqS7YwzeLpmF1cHSuV5J4DvGA4".parse().unwrap(),
        delivery_seconds: 60,
        refund_seconds: 900,
        transaction: "0x02".into(),
    };
    Submitted { authorization: Authorization::SolanaX402Exact(purchase), ..submitted() }
}

/// The payer signed for many payments at once.
pub fn submitted_in_a_payment_batch() -> Submitted {
    let token = |text: &str, units| BatchToken { token: text.parse().unwrap(), amount: amount(units) };
    let permit = BatchPermit {
        amount: amount("25500000"),
        permitted: vec![
            token("0x8000000000000000000000000000000000000008", "7"),
            token("0x9fe46736679d2d9a65f0992f2272de9f3c7fa6e0", "51000000"),
        ],
        nonce: hash(0x14),
        deadline: 1_767_323_080,
        payments: hash(0x14),
        proof: vec![hash(0x15), hash(0x16)],
        address: "0xc00000000000000000000000000000000000000c".parse().unwrap(),
        contract: "0xd00000000000000000000000000000000000000d".parse().unwrap(),
        implementation: "0xe00000000000000000000000000000000000000e".parse().unwrap(),
        from_block: 20_000_000,
        signature: "0x1b".into(),
    };
    Submitted { authorization: Authorization::EvmPermit2Batch(permit), ..submitted() }
}

/// The payer signed once for what a merchant asks for.
pub fn submitted_under_a_mandate() -> Submitted {
    let mandate = Mandate {
        merchant: "0xb00000000000000000000000000000000000000b".parse().unwrap(),
        amount: amount("51000000"),
        least: Some(amount("50000000")),
        begins: 1_767_225_600,
        period_seconds: 2_592_000,
        periods: 12,
        lock_seconds: 90_000,
        salt: hash(0x17),
    };
    let charge = MandateCharge {
        amount: amount("25500000"),
        mandate,
        address: "0xc00000000000000000000000000000000000000c".parse().unwrap(),
        contract: "0xd00000000000000000000000000000000000000d".parse().unwrap(),
        implementation: "0xe00000000000000000000000000000000000000e".parse().unwrap(),
        permit: Some("0x1c".into()),
        signature: "0x1b".into(),
    };
    Submitted { authorization: Authorization::EvmPermit2Mandate(charge), ..submitted() }
}

/// The payer signed the allowance for Permit2, too.
pub fn submitted_with_an_allowance() -> Submitted {
    let full = submitted();
    let Authorization::EvmPermit2Escrow(permit) = full.authorization.clone() else { unreachable!() };
    let allowance = TokenPermit {
        domain: usd_coin(),
        value: amount("26000000"),
        nonce: hash(0x13),
        deadline: 1_767_323_090,
        signature: "0x1c".into(),
    };
    Submitted {
        authorization: Authorization::EvmPermit2Escrow(Permit2 { allowance: Some(allowance), ..permit }),
        ..full
    }
}

/// A holder with a credential, and a sender with none that says until when.
pub fn identities() -> Vec<ProvenIdentity> {
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

pub fn batch() -> QuoteRequestId {
    QuoteRequestId::derive(&format!("eip155:{PAYER}"), "order-1")
}

pub fn counterparty() -> CounterpartyDecision {
    CounterpartyDecision { policies: vec!["permit-known".into(), "permit-small".into()], policy_set: hash(0x51) }
}

pub fn opened() -> QuoteRequestOpened {
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
        selector_answer_by: None,
        caller_secret_hash: None,
        opened_at: at(0),
        request: payment.request,
    }
}

pub fn opened_with_least() -> QuoteRequestOpened {
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

pub fn opened_with_a_selector() -> QuoteRequestOpened {
    let selector = submitted_with_a_selector().selector;
    QuoteRequestOpened {
        selector: selector.as_ref().map(|selector| selector.key),
        selector_answer_by: selector.map(|selector| selector.answer_by),
        ..opened()
    }
}

pub fn opened_with_a_secret() -> QuoteRequestOpened {
    let secret = hash(0x61);
    QuoteRequestOpened {
        quote_request_id: QuoteRequestId::derive_with_secret(&opened().originator, &opened().request_id, &secret),
        selector: submitted_with_a_selector().selector.map(|selector| selector.key),
        caller_secret_hash: Some(secret),
        ..opened()
    }
}

pub fn withdrawn(cause: WithdrawalCause) -> PaymentEvent {
    PaymentEvent::AwardWithdrawn(AwardWithdrawn { cause, withdrawn_at: at(42) })
}

pub fn failed(failure: Failure, refund: RefundDue) -> PaymentEvent {
    PaymentEvent::Failed(Box::new(Failed { failure, refund, failed_at: at(40) }))
}

pub fn bare(code: &str) -> Failure {
    Failure {
        code: code.into(),
        message: "no settler offered a usable quote".into(),
        domain: None,
        retry_classification: None,
        blockchain_context: None,
    }
}

pub fn on_chain() -> Failure {
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
