//! tronweb, as it comes from npm: its addresses, transactions, parameters, typed data and signatures are ours, and it reads
//! and believes what we make.

use std::{
    io::Write,
    path::Path,
    process::{Command, Stdio},
};

use alloy::{
    primitives::{Address, B256, U256, aliases::U48},
    signers::{SignerSync, local::PrivateKeySigner},
    sol_types::{SolCall, SolStruct},
};
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use chains_tron::{
    address,
    authorization::{Choice, EscrowSettings, SignedMessage, SpendRequest, authorize, authorize_permit, prepare_permit},
    transaction::{self, Call, Draft, Reference},
};
use escrow_abi::{
    contracts::{DevToken, FulfillmentProxy, GatewayEscrow},
    eip712,
    record::EscrowTerms,
};
use events::{ChainId, Hash32, PaymentId, Terms, event::Authorization, time::from_unix_seconds};

const CASES: usize = 300;
/// Numbers of the cases that are committed.
const COMMITTED: usize = 4;
const FULFILLMENT_DEADLINE: u64 = 1_800_000_600;

fn client(arguments: &[&str], input: &[u8]) -> Result<Value> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let modules = here.join("../../.tools/tronweb/node_modules");
    ensure!(modules.join("tronweb").is_dir(), "npm `tronweb` is missing; run scripts/tools.sh test");
    let mut command = Command::new("node");
    command.arg(here.join("tests/client/cases.cjs")).arg(modules).args(arguments);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().context("node is needed; install Node.js 20 or later")?;
    // It reads all before it says anything.
    child.stdin.take().context("a pipe")?.write_all(input)?;
    let output = child.wait_with_output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(serde_json::from_slice(&output.stdout)?)
}

fn cases(seed: &str, count: usize) -> Result<Vec<Case>> {
    let made = client(&["make", seed, &count.to_string()], b"")?;
    let Value::Array(cases) = made else { anyhow::bail!("no list: {made}") };
    ensure!(cases.len() == count);
    Ok(cases.into_iter().map(Case).collect())
}

/// Cases that nobody saw before, and how to see them again.
fn random_cases() -> Result<Vec<Case>> {
    let seed = PrivateKeySigner::random().address().to_string();
    println!("seed {seed}");
    cases(&seed, CASES)
}

/// One payment's case.
struct Case(Value);

/// One call among a case's.
struct Called<'a>(&'a Value);

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_else(|| panic!("{pointer}: {value}"))
}

fn bytes(value: &Value, pointer: &str) -> Vec<u8> {
    hex::decode(text(value, pointer).trim_start_matches("0x")).unwrap_or_else(|error| panic!("{pointer}: {error}"))
}

impl Case {
    fn account(&self, role: &str) -> Address {
        address::parse_address(text(&self.0, &format!("/accounts/{role}/base58"))).unwrap()
    }

    fn key(&self, role: &str) -> PrivateKeySigner {
        text(&self.0, &format!("/accounts/{role}/key")).parse().unwrap()
    }

    fn word(&self, pointer: &str) -> B256 {
        text(&self.0, pointer).parse().unwrap()
    }

    fn number(&self, pointer: &str) -> U256 {
        text(&self.0, pointer).parse().unwrap()
    }

    fn time(&self, pointer: &str) -> U48 {
        text(&self.0, pointer).parse().unwrap()
    }

    fn chain_reference(&self) -> u64 {
        text(&self.0, "/chain_id").parse::<ChainId>().unwrap().reference().parse().unwrap()
    }

    fn calls(&self) -> impl Iterator<Item = Called<'_>> {
        self.0["calls"].as_array().unwrap().iter().map(Called)
    }

    /// What the payer agrees to. Payment and terms are hashed here; all else is the case's.
    fn deposit(&self) -> eip712::GatewayDeposit {
        let payment: PaymentId = text(&self.0, "/payment_id").parse().unwrap();
        let terms: Terms = serde_json::from_value(self.0["terms"].clone()).unwrap();
        eip712::GatewayDeposit {
            paymentId: payment.on_chain().0.into(),
            termsHash: terms.hash().0.into(),
            quoteHash: self.word("/deposit/quoteHash"),
            payer: self.account("payer"),
            reserver: self.account("reserver"),
            releaser: self.account("releaser"),
            reserveDeadline: self.time("/deposit/reserveDeadline"),
            fulfillmentDeadline: self.time("/deposit/fulfillmentDeadline"),
            refundAfter: self.time("/deposit/refundAfter"),
        }
    }

    fn reservation(&self) -> eip712::Reservation {
        eip712::Reservation {
            paymentId: self.deposit().paymentId,
            quoteHash: self.word("/award/quoteHash"),
            settler: self.account("settler"),
            sourceAmount: self.number("/award/sourceAmount"),
            fulfillBy: self.time("/award/fulfillBy"),
        }
    }

    /// The request that the case's first two calls pay.
    fn spend(&self) -> SpendRequest {
        let named = |role: &str| text(&self.0, &format!("/accounts/{role}/base58")).parse().unwrap();
        SpendRequest {
            payment_id: text(&self.0, "/payment_id").parse().unwrap(),
            terms: serde_json::from_value(self.0["terms"].clone()).unwrap(),
            quote_deadline: from_unix_seconds(FULFILLMENT_DEADLINE - 600).unwrap(),
            fulfillment_deadline: from_unix_seconds(FULFILLMENT_DEADLINE).unwrap(),
            escrow: EscrowSettings {
                contract: named("escrow"),
                reserver: named("reserver"),
                releaser: named("releaser"),
                permit2: None,
                refund_delay_seconds: 900,
            },
            quote_hash: text(&self.0, "/deposit/quoteHash").parse().unwrap(),
        }
    }

    /// The approval and the deposit as a payer submits them.
    fn submitted(&self) -> [SignedMessage; 2] {
        ["/calls/0", "/calls/1"].map(|call| SignedMessage {
            message: text(&self.0, &format!("{call}/id")).to_owned(),
            message_prehash: Some(text(&self.0, &format!("{call}/raw_data")).to_owned()),
            signature: format!("0x{}", text(&self.0, &format!("{call}/signature"))),
            payload: None,
        })
    }

    /// The calldata of the case's calls, in their order, by the contracts' bindings.
    fn calldata(&self) -> [Vec<u8>; 5] {
        let (token, cap) = (self.account("token"), self.number("/cap"));
        let signature = |n: usize| bytes(&self.0, &format!("/typed_data/{n}/signature")).into();
        let reservation = self.reservation();
        let payment = reservation.paymentId;
        let delivered = self.number("/terms/fulfillment_amount");
        let deposited = EscrowTerms::deposited(&self.deposit(), token, cap);
        let reserved = deposited.clone().reserved_by(&GatewayEscrow::Reserved {
            paymentId: payment,
            quoteHash: reservation.quoteHash,
            settler: reservation.settler,
            sourceAmount: reservation.sourceAmount,
            fulfillBy: reservation.fulfillBy,
        });
        [
            DevToken::approveCall { spender: self.account("escrow"), value: cap }.abi_encode(),
            GatewayEscrow::depositOwnCall {
                d: (&self.deposit()).into(),
                token,
                amount: cap,
                reserverSignature: signature(0),
            }
            .abi_encode(),
            GatewayEscrow::reserveCall { e: deposited.0, r: (&reservation).into(), reserverSignature: signature(1) }
                .abi_encode(),
            GatewayEscrow::releaseCall { e: reserved.0, attestation: signature(2) }.abi_encode(),
            FulfillmentProxy::fulfillCall {
                paymentId: payment,
                quoteHash: reservation.quoteHash,
                token: Address::ZERO,
                recipient: self.account("recipient"),
                amount: delivered,
                fulfillBy: reservation.fulfillBy,
            }
            .abi_encode(),
        ]
    }
}

impl Called<'_> {
    fn number(&self, name: &str) -> u64 {
        self.0[name].as_u64().unwrap_or_else(|| panic!("{name}: {}", self.0))
    }

    fn draft(&self, data: Vec<u8>) -> Draft {
        Draft {
            call: Call {
                owner: address::parse_address(text(self.0, "/owner")).unwrap(),
                contract: address::parse_address(text(self.0, "/contract")).unwrap(),
                data,
                value_sun: self.number("call_value"),
            },
            fee_limit_sun: self.number("fee_limit"),
            reference: Reference {
                number: bytes(self.0, "/ref_block_bytes").try_into().unwrap(),
                hash: bytes(self.0, "/ref_block_hash").try_into().unwrap(),
            },
            timestamp_ms: self.number("timestamp"),
            expiration_ms: self.number("expiration"),
        }
    }
}

/// Addresses of keys, in every form, both ways.
fn check_addresses(case: &Case) {
    let accounts = case.0["accounts"].as_object().unwrap();
    assert_eq!(accounts.len(), 8);
    for (role, said) in accounts {
        let of_key = case.key(role).address();
        assert_eq!(address::text(of_key), text(said, "/base58"));
        assert_eq!(address::api(of_key), text(said, "/hex").to_lowercase());
        assert_eq!(address::parse_address(text(said, "/base58")), Ok(of_key));
        assert_eq!(address::from_api(text(said, "/hex")), Some(of_key));
    }
}

/// The calls that tronweb built and signed: their parameters, bytes, ids and signatures come out the same here.
fn check_calls(case: &Case) {
    let mut signers = Vec::new();
    for (called, data) in case.calls().zip(case.calldata()) {
        let said = called.0;
        assert_eq!(hex::encode(&data), text(said, "/data").to_lowercase(), "{said}");
        let draft = called.draft(data);
        let raw_data = draft.raw_data();
        assert_eq!(hex::encode(&raw_data), text(said, "/raw_data").to_lowercase());
        let id = transaction::id(&raw_data);
        assert_eq!(hex::encode(id), text(said, "/id"));
        let decoded = transaction::read(&bytes(said, "/raw_data")).unwrap();
        assert_eq!((decoded.id, &decoded.draft), (id, &draft));

        let signature = bytes(said, "/signature");
        let (signed, theirs) = transaction::read_signed(&bytes(said, "/signed")).unwrap();
        assert_eq!((&signed, &theirs), (&decoded, &signature));
        assert_eq!(transaction::signer(id, &signature), Some(draft.call.owner));
        assert_ne!(transaction::signer(transaction::id(&signature), &signature), Some(draft.call.owner));
        assert_eq!(transaction::assemble(&raw_data, &signature.try_into().unwrap()), bytes(said, "/signed"));
        signers.push(draft.call.owner);
    }
    let (payer, settler) = (case.account("payer"), case.account("settler"));
    assert_eq!(signers, [payer, payer, settler, settler, settler]);
}

/// What the gateway and the releaser sign for the escrow has the same digest and the same signature.
fn check_typed_data(case: &Case) {
    let domain = eip712::escrow_domain(case.chain_reference(), case.account("escrow"));
    let reservation = case.reservation();
    let (payment, quote) = (reservation.paymentId, reservation.quoteHash);
    let opening =
        eip712::Opening { deposit: case.deposit(), token: case.account("token"), amount: case.number("/cap") };
    let delivery = eip712::Delivery { paymentId: payment, quoteHash: quote, settler: reservation.settler };
    let non_delivery = eip712::NonDelivery { paymentId: payment, quoteHash: quote };
    let digests = [
        ("Opening", opening.eip712_signing_hash(&domain), "reserver"),
        ("Reservation", reservation.eip712_signing_hash(&domain), "reserver"),
        ("Delivery", delivery.eip712_signing_hash(&domain), "releaser"),
        ("NonDelivery", non_delivery.eip712_signing_hash(&domain), "releaser"),
    ];
    for ((name, digest, role), said) in digests.iter().zip(case.0["typed_data"].as_array().unwrap()) {
        assert_eq!(text(said, "/type"), *name);
        assert_eq!(digest.to_string(), text(said, "/digest"), "{name}");
        let ours = case.key(role).sign_hash_sync(digest).unwrap();
        assert_eq!(format!("0x{}", hex::encode(ours.as_bytes())), text(said, "/signature"), "{name}");
    }
}

fn check(cases: &[Case]) {
    for case in cases {
        check_addresses(case);
        check_calls(case);
        check_typed_data(case);
    }
}

#[test]
fn tronweb_makes_the_committed_vectors_and_we_read_them() -> Result<()> {
    let committed: Value = serde_json::from_str(include_str!("client/vectors.json"))?;
    assert_eq!(client(&["make", "committed vectors", &COMMITTED.to_string()], b"")?, committed);
    let Value::Array(committed) = committed else { anyhow::bail!("no list") };
    assert_eq!(committed.len(), COMMITTED);
    check(&committed.into_iter().map(Case).collect::<Vec<_>>());
    Ok(())
}

#[test]
fn tronweb_agrees_on_random_payments() -> Result<()> {
    check(&random_cases()?);
    Ok(())
}

#[test]
fn what_its_payers_sign_is_accepted_and_counts_for_nothing_else() -> Result<()> {
    let cases = random_cases()?;
    for (case, other) in cases.iter().zip(cases.iter().cycle().skip(1)) {
        let (spend, [approval, deposit]) = (case.spend(), case.submitted());
        let (authorization, plan) = authorize(&spend, &[approval.clone(), deposit.clone()])
            .unwrap_or_else(|denied| panic!("{denied}: {}", case.0));
        let Authorization::Tron(spent) = authorization else { panic!("{authorization:?}") };
        assert_eq!((spent.amount.to_string(), spent.quote_hash), (text(&case.0, "/cap").to_owned(), spend.quote_hash));
        assert_eq!(plan.reserve_deadline.to_string(), text(&case.0, "/deposit/reserveDeadline"));
        let kept = [spent.approval.as_ref().context("the approval")?, &spent.deposit];
        for (own, called) in kept.into_iter().zip(case.calls()) {
            assert_eq!(own.transaction_hash, format!("0x{}", text(called.0, "/id")));
            assert_eq!(own.raw, format!("0x{}", text(called.0, "/signed")));
            assert_eq!(own.expires_at, called.number("expiration"));
        }
        // An allowance may stand already. An allowance alone pays nothing, and the order is that of the broadcast.
        let is_alone = |messages: &[SignedMessage]| {
            let authorized = authorize(&spend, messages).map(|(authorization, _)| authorization);
            authorized.is_ok_and(|own| matches!(own, Authorization::Tron(spent) if spent.approval.is_none()))
        };
        assert!(is_alone(std::slice::from_ref(&deposit)));
        assert!(authorize(&spend, std::slice::from_ref(&approval)).is_err());
        assert!(is_alone(&[deposit.clone(), approval.clone()]));
        assert!(is_alone(&[deposit.clone(), deposit.clone()]));

        let (their, [their_approval, their_deposit]) = (other.spend(), other.submitted());
        let escrow = |escrow: EscrowSettings| SpendRequest { escrow, ..spend.clone() };
        for (what, spend) in [
            ("payment", SpendRequest { payment_id: their.payment_id.clone(), ..spend.clone() }),
            ("terms", SpendRequest { terms: their.terms.clone(), ..spend.clone() }),
            ("quote", SpendRequest { quote_hash: Hash32([7; 32]), ..spend.clone() }),
            ("escrow", escrow(EscrowSettings { contract: their.escrow.contract.clone(), ..spend.escrow.clone() })),
            ("reserver", escrow(EscrowSettings { reserver: their.escrow.reserver.clone(), ..spend.escrow.clone() })),
            ("releaser", escrow(EscrowSettings { releaser: their.escrow.releaser.clone(), ..spend.escrow.clone() })),
        ] {
            assert!(authorize(&spend, &[approval.clone(), deposit.clone()]).is_err(), "another {what}: {}", case.0);
        }
        let with_theirs = [their_approval, deposit.clone()];
        assert!(authorize(&spend, &with_theirs).is_err() || is_alone(&with_theirs), "another's approval: {}", case.0);
        assert!(authorize(&spend, &[approval.clone(), their_deposit.clone()]).is_err());
        let signature = their_deposit.signature;
        assert!(authorize(&spend, &[approval, SignedMessage { signature, ..deposit }]).is_err());
    }
    Ok(())
}

/// A wallet is shown addresses as Tron's people write them, and signs what Permit2 verifies.
#[test]
fn what_it_signs_of_a_prepared_permit_is_accepted() -> Result<()> {
    let cases = random_cases()?;
    let permit2 = "TTJxU3P8rHycAyFY4kVtGNfmnMH4ezcuM9";
    let spends = cases.iter().map(|case| {
        let spend = case.spend();
        SpendRequest { escrow: EscrowSettings { permit2: permit2.parse().ok(), ..spend.escrow }, ..spend }
    });
    let spends: Vec<_> = spends.collect();
    let prepared = spends.iter().map(|spend| prepare_permit(spend, &Choice::default()));
    let prepared = prepared.collect::<Result<Vec<_>, _>>()?;
    let asked = cases.iter().zip(&prepared).map(
        |(case, prepared)| json!({"typed_data": prepared.typed_data, "key": text(&case.0, "/accounts/payer/key")}),
    );
    let asked: Vec<_> = asked.collect();
    let signed = client(&["sign"], &serde_json::to_vec(&asked)?)?;
    let signed = signed.as_array().context("a list")?;
    assert_eq!(signed.len(), CASES);
    for (((case, spend), prepared), said) in cases.iter().zip(&spends).zip(&prepared).zip(signed) {
        assert_eq!(text(said, "/digest"), prepared.digest.to_string());
        let message = SignedMessage {
            message: prepared.digest.to_string(),
            message_prehash: Some(prepared.typed_data.to_string()),
            signature: text(said, "/signature").to_owned(),
            payload: Some(prepared.payload.clone()),
        };
        let (authorization, plan) = authorize_permit(spend, &message)?;
        assert_eq!((authorization.permitted().to_string(), &plan), (text(&case.0, "/cap").to_owned(), &prepared.plan));
        let ours = case.key("payer").sign_hash_sync(&prepared.digest.0.into())?;
        assert_eq!(message.signature, format!("0x{}", hex::encode(ours.as_bytes())));
    }
    Ok(())
}

/// What we sign is, to tronweb, what it says and the owner's.
#[test]
fn tronweb_believes_what_we_sign() -> Result<()> {
    let mut ours = Vec::new();
    for case in random_cases()? {
        for (called, data) in case.calls().zip(case.calldata()) {
            let role = if called.0["owner"] == case.0["accounts"]["payer"]["base58"] { "payer" } else { "settler" };
            let (draft, key) = (called.draft(data), case.key(role));
            let signed = draft.sign(&key);
            let (decoded, signature) = transaction::read_signed(&signed.bytes)?;
            assert_eq!((decoded.id, decoded.draft.expiration_ms), (signed.id, signed.expiration_ms));
            ours.push((draft, signed.id, signature));
        }
    }
    let shown: Vec<Value> = ours
        .iter()
        .map(|(draft, _, signature)| {
            json!({"raw_data": hex::encode(draft.raw_data()), "signature": hex::encode(signature)})
        })
        .collect();
    let read = client(&["read"], &serde_json::to_vec(&shown)?)?;
    let read = read.as_array().context("a list")?;
    assert_eq!(read.len(), 5 * CASES);
    for ((draft, id, _), said) in ours.iter().zip(read) {
        let call = &draft.call;
        let expected = json!({
            "checked": true,
            "id": hex::encode(id),
            "raw_data": hex::encode(draft.raw_data()),
            "signer": address::text(call.owner),
            "owner": address::text(call.owner),
            "contract": address::text(call.contract),
            "data": hex::encode(&call.data),
            "call_value": call.value_sun,
            "fee_limit": draft.fee_limit_sun,
            "ref_block_bytes": hex::encode(draft.reference.number),
            "ref_block_hash": hex::encode(draft.reference.hash),
            "timestamp": draft.timestamp_ms,
            "expiration": draft.expiration_ms,
        });
        assert_eq!(*said, expected);
    }
    Ok(())
}
