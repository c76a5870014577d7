//! Inputs that only their writers can make: what is signed, hashed or encoded. `fuzz seeds` writes them into `corpus/`.

use std::{fs, io};

use alloy::{
    primitives::{Address, B256, Bytes, U256, aliases::U48},
    signers::{SignerSync, local::PrivateKeySigner},
    sol_types::{SolCall, SolEvent},
};
use chains_evm::authorization::{self, Choice, Scheme};
use chains_tron::transaction::{Call, Draft, Reference};
use ed25519_dalek::{Signer, SigningKey};
use escrow_abi::{contracts::GatewayEscrow, eip712, signature::Wrapped};
use events::{Account, ChainId, Did, Family, Hash32, OwnedAsset, PaymentId, quote::Quote};
use journal::{Commit, Position, checkpoint::Checkpoint, conformance, envelope::EncodedCommit};
use journal_jetstream::raw::RawMessage;
use proofs::{
    contexts::{CREDENTIALS_V1, Contexts, DATA_INTEGRITY_V2, GATEWAY_V1},
    did::Purpose,
    json::Document,
    suites::{self, Suite},
};
use serde_json::{Value, json};

use crate::{TARGETS, corpus, evm, named, solana, tron};

/// Writes every input, each with the name of its target and its own.
///
/// # Errors
/// What the file system says, and [`io::ErrorKind::Other`] where a writer refuses its example.
pub fn write() -> io::Result<()> {
    let made: [fn() -> Option<Vec<Seed>>; 7] =
        [quotes, enveloped, on_evm, on_solana, on_tron, in_store, http_signatures];
    for make in made {
        for Seed { target, name, bytes } in make().ok_or_else(|| io::Error::other("an example is refused"))? {
            let target = named(target).unwrap_or(&TARGETS[0]);
            let folder = corpus::folder("corpus", target);
            fs::create_dir_all(&folder)?;
            fs::write(folder.join(name), bytes)?;
        }
    }
    Ok(())
}

struct Seed {
    target: &'static str,
    name: &'static str,
    bytes: Vec<u8>,
}

fn seed(target: &'static str, name: &'static str, bytes: impl Into<Vec<u8>>) -> Seed {
    Seed { target, name, bytes: bytes.into() }
}

fn hex(bytes: &[u8]) -> String {
    format!("0x{}", alloy::hex::encode(bytes))
}

fn quotes() -> Option<Vec<Seed>> {
    let key = SigningKey::from_bytes(&[7; 32]);
    let account = |byte: u8| Account::from_bytes(Family::Evm, &[byte; 20]);
    let asset = "eip155:31338/erc20:0x5fbdb2315678afecb367f032d93f642f64180aa3";
    let at = |seconds| chrono::DateTime::from_timestamp(seconds, 0);
    let quote = Quote {
        kind: Quote::kind(),
        auction_id: PaymentId::derive("fuzz", "1").to_string(),
        terms_hash: Hash32([1; 32]),
        settler: Did::from_ed25519(&key.verifying_key()),
        source_chain: ChainId::evm(31_337),
        source_amount: "1001".parse().ok()?,
        payout_account: account(2)?,
        escrow_contract: account(3)?,
        destination: OwnedAsset::new(asset.parse().ok()?, account(4)?.as_str()).ok()?,
        fulfillment_amount: "1000".parse().ok()?,
        delivery_account: account(5)?,
        fulfillment_proxy: account(6)?,
        fulfill_by: at(1_800_000_300)?,
        valid_until: at(1_800_000_100)?,
    };
    let document = quote.sign(&key, at(1_800_000_000)?).ok()?.document().to_owned();
    Some(
        ["quotes", "quote_canonical", "documents", "canonical_form", "data_integrity"]
            .map(|target| seed(target, "quote", document.clone()))
            .into(),
    )
}

/// A request in an envelope, with a credential about who signed it.
fn enveloped() -> Option<Vec<Seed>> {
    let key = suites::SigningKey::Ed25519(SigningKey::from_bytes(&[7; 32]));
    let did = proofs::did::Did::from_key(&key.public())?;
    let options = |purpose| suites::Options {
        verification_method: did.key_verification_method().unwrap_or_default(),
        purpose,
        created: chrono::DateTime::UNIX_EPOCH,
        expires: None,
    };
    let sign = |suite, value: &Value, purpose| {
        let document = Document::parse(&value.to_string()).ok()?;
        suites::sign(&document, suite, &key, &options(purpose), Contexts::bundled()).ok()
    };
    let credential = json!({
        "@context": [CREDENTIALS_V1, DATA_INTEGRITY_V2],
        "type": ["VerifiableCredential"],
        "issuer": did.to_string(),
        "issuanceDate": "2024-01-01T00:00:00Z",
        "credentialSubject": {"id": did.to_string()},
    });
    let credential = sign(Suite::EddsaRdfc2022, &credential, Purpose::AssertionMethod)?;
    let request = json!({
        "@context": [GATEWAY_V1, DATA_INTEGRITY_V2],
        "version": "1.0",
        "verifiableCredential": [Value::Object(credential.members().clone())],
    });
    let mut seeds = Vec::new();
    for (name, suite) in [("jcs", Suite::EddsaJcs2022), ("rdfc", Suite::EddsaRdfc2022)] {
        // Not every suite signs every request.
        let Some(signed) = sign(suite, &request, Purpose::Authentication) else { continue };
        for target in ["envelopes", "requests", "data_integrity"] {
            seeds.push(seed(target, name, signed.to_string()));
        }
    }
    Some(seeds)
}

fn on_evm() -> Option<Vec<Seed>> {
    let key = PrivateKeySigner::from_bytes(&B256::from(U256::from(1))).ok()?;
    let mut seeds = Vec::new();
    let mandate = json!({
        "merchant": evm::PAYER,
        "amount": "2000",
        "least": "1000",
        "begins": 1_700_000_000,
        "period_seconds": 2_000_000_000,
        "periods": 1,
        "lock_seconds": 90_000,
        "salt": B256::repeat_byte(1).to_string(),
    });
    let mandated = Choice { mandate: Some(mandate), ..Choice::default() };
    for (name, scheme, choice) in [
        ("witness", Scheme::EvmPermit2Escrow, Choice::default()),
        ("plain", Scheme::EvmPermit2, Choice::default()),
        ("mandate", Scheme::EvmPermit2Mandate, mandated),
    ] {
        let spend = evm::spend(scheme, Some("2000".parse().ok()?))?;
        let prepared = authorization::prepare(&spend, &choice).ok()?;
        let signature = key.sign_hash_sync(&B256::from(prepared.digest.0)).ok()?;
        let message = json!({
            "message": prepared.digest.to_string(),
            "message_prehash": prepared.typed_data.to_string(),
            "signature": hex(&signature.as_bytes()),
            "payload": prepared.payload,
        });
        seeds.push(seed("evm_typed_data", name, message.to_string()));
    }
    let signature = key.sign_hash_sync(&B256::repeat_byte(0x5a)).ok()?;
    seeds.push(seed("evm_signatures", "key", signature.as_bytes()));
    seeds.push(seed("evm_signatures", "compact", signature.as_erc2098()));
    seeds.push(seed("evm_signatures", "text", hex(&signature.as_bytes())));
    let wrapped = Wrapped {
        factory: Address::repeat_byte(1),
        factory_call: Bytes::from_static(&[1; 40]),
        signature: Bytes::from_static(&[2; 65]),
    };
    seeds.push(seed("evm_signatures", "wrapped", wrapped.encode()));
    let event = GatewayEscrow::Deposited {
        paymentId: B256::repeat_byte(2),
        quoteHash: B256::repeat_byte(3),
        payer: Address::repeat_byte(4),
        deposit: (&eip712::GatewayDeposit {
            paymentId: B256::repeat_byte(2),
            termsHash: B256::repeat_byte(5),
            quoteHash: B256::repeat_byte(3),
            payer: Address::repeat_byte(4),
            reserver: Address::repeat_byte(6),
            releaser: Address::repeat_byte(7),
            reserveDeadline: U48::from(100),
            fulfillmentDeadline: U48::from(200),
            refundAfter: U48::from(300),
        })
            .into(),
        token: Address::repeat_byte(8),
        amount: U256::from(1_000),
    };
    // In the form that `evm::logs` takes logs apart from: number of topics, topics, length of the data, data.
    let log = |event: alloy::primitives::LogData| {
        let data = event.data.clone();
        // What is longer than a byte says does not fit.
        let length = u8::try_from(data.len()).unwrap_or(u8::MAX);
        let topics: Vec<u8> = event.topics().iter().flat_map(|topic| topic.0).collect();
        let count = u8::try_from(topics.len() / 32).unwrap_or(0);
        [&[count][..], &topics, &[length], &data[..usize::from(length)]].concat()
    };
    let reserved = GatewayEscrow::Reserved {
        paymentId: B256::repeat_byte(2),
        quoteHash: B256::repeat_byte(3),
        settler: Address::repeat_byte(9),
        sourceAmount: U256::from(900),
        fulfillBy: U48::from(150),
    };
    seeds.push(seed("evm_logs", "reserved", [b"l".to_vec(), log(reserved.encode_log_data())].concat()));
    let error = GatewayEscrow::ReserveWindowClosed { reserveDeadline: U48::from(7) };
    let error = alloy::sol_types::SolError::abi_encode(&error);
    seeds.push(seed("evm_logs", "revert", [b"r".to_vec(), error].concat()));
    let terms = escrow_abi::record::EscrowTerms::told_by(&event);
    let terms = alloy::sol_types::SolValue::abi_encode(&terms.0);
    seeds.push(seed("evm_logs", "terms", [b"t".to_vec(), terms].concat()));
    Some(seeds)
}

fn on_solana() -> Option<Vec<Seed>> {
    let key = SigningKey::from_bytes(&[7; 32]);
    let spend = solana::spend()?;
    let choice = chains_solana::authorization::Choice { permitted_amount: "2000".parse().ok(), ..Default::default() };
    let prepared = chains_solana::authorization::prepare(&spend, &choice).ok()?;
    let message = json!({
        "message": prepared.digest.to_string(),
        "message_prehash": hex(&prepared.preimage),
        "signature": hex(&key.sign(&prepared.digest.0).to_bytes()),
        "payload": prepared.payload,
    });
    let (public, digest) = (key.verifying_key().to_bytes(), [3; 32]);
    let data = gateway_program::ed25519::data(&public, &key.sign(&digest).to_bytes(), &digest);
    let attestation = [&public[..], &digest, &data].concat();
    let sized = |tag: u8, size: usize| [vec![tag], vec![1; size - 1]].concat();
    // Terms of a deposit are of kind 0.
    let by_address = |tag: u8, rest: &[u8]| {
        let terms = vec![1; gateway_program::message::Deposit::SIZE - 1];
        [&[tag, 0], terms.as_slice(), rest].concat()
    };
    Some(vec![
        seed("solana_authorizations", "signed", message.to_string()),
        seed("solana_attestations", "key", attestation),
        seed("solana_instructions", "deposit", sized(1, gateway_program::instruction::DepositAndReserve::SIZE)),
        seed("solana_instructions", "fulfill", sized(4, gateway_program::instruction::Fulfill::SIZE)),
        seed(
            "solana_instructions",
            "from_address",
            by_address(10, &[1; gateway_program::instruction::Reservation::SIZE]),
        ),
        seed("solana_instructions", "give_back", by_address(11, &[1])),
        seed("solana_instructions", "give_back_lamports", by_address(12, &[])),
        seed("solana_accounts", "escrow", sized(2, gateway_program::account::Escrow::SIZE)),
        seed("solana_accounts", "token", [vec![1; 108], vec![1; 57]].concat()),
    ])
}

fn on_tron() -> Option<Vec<Seed>> {
    let key = PrivateKeySigner::from_bytes(&B256::from(U256::from(1))).ok()?;
    let escrow = Address::repeat_byte(0x11);
    let data = GatewayEscrow::depositOwnCall {
        d: (&eip712::GatewayDeposit {
            paymentId: B256::from(PaymentId::derive("fuzz", "1").on_chain().0),
            termsHash: B256::from(tron::spend()?.terms.hash().0),
            quoteHash: B256::ZERO,
            payer: key.address(),
            reserver: Address::repeat_byte(0x22),
            releaser: Address::repeat_byte(0x33),
            reserveDeadline: U48::from(1_800_000_600u64),
            fulfillmentDeadline: U48::from(1_800_000_600u64),
            refundAfter: U48::from(1_800_001_200u64),
        })
            .into(),
        token: Address::repeat_byte(0x44),
        amount: U256::from(2_000),
        reserverSignature: Bytes::from_static(&[1; 65]),
    };
    let draft = Draft {
        call: Call { owner: key.address(), contract: escrow, data: data.abi_encode(), value_sun: 0 },
        fee_limit_sun: 100_000_000,
        reference: Reference { number: [6; 2], hash: [7; 8] },
        timestamp_ms: 1_800_000_000_000,
        expiration_ms: 1_800_000_700_000,
    };
    let signed = draft.sign(&key);
    let (_, signature) = chains_tron::transaction::read_signed(&signed.bytes).ok()?;
    let message = json!([{
        "message": signed.id.to_string(),
        "message_prehash": hex(&draft.raw_data()),
        "signature": hex(&signature),
    }]);
    let mut spend = tron::spend()?;
    spend.terms.max_source_amount = "2000".parse().ok();
    let permit = chains_tron::authorization::prepare_permit(&spend, &Default::default()).ok()?;
    let signature = key.sign_hash_sync(&B256::from(permit.digest.0)).ok()?;
    let permitted = json!({
        "message": permit.digest.to_string(),
        "message_prehash": permit.typed_data.to_string(),
        "signature": hex(&signature.as_bytes()),
        "payload": permit.payload,
    });
    Some(vec![
        seed("tron_transactions", "signed", signed.bytes),
        seed("tron_transactions", "raw_data", draft.raw_data()),
        seed("tron_authorizations", "deposit", message.to_string()),
        seed("tron_typed_data", "witness", permitted.to_string()),
    ])
}

fn in_store() -> Option<Vec<Seed>> {
    let id = PaymentId::derive("fuzz", "1").to_string().parse().ok()?;
    let at = chrono::DateTime::from_timestamp(1_800_000_000, 0)?;
    let commit = Commit {
        commit_id: events::CommitId::from_stored("fuzz"),
        ..conformance::commit(&id, Position::START, "a text\nof two lines")
    };
    let encoded = EncodedCommit::new(&commit, 3).ok()?;
    let flat = [encoded.flat_head().into_bytes(), encoded.body.to_vec()].concat();
    let message = RawMessage {
        stream: "EVT_03".to_owned(),
        sequence: 1,
        subject: encoded.envelope.subject.clone(),
        headers: encoded.headers(0).map(|(name, value)| (name.to_owned(), vec![value])).collect(),
        body: encoded.body.clone(),
        stored_at: at,
    };
    let line = audit::json_lines::write(&message);
    let key = SigningKey::from_bytes(&[7; 32]);
    let checkpoint = Checkpoint {
        shard: 3,
        sequence: 1,
        rolling_hash: Hash32([1; 32]),
        commit_id: commit.commit_id.clone(),
        time: at,
        previous: Hash32::ZERO,
        signer: Did::from_ed25519(&key.verifying_key()),
    };
    let checkpoint = checkpoint.sign(&key).ok()?.to_json();
    let frame = [format!("0 {}\n", flat.len()).into_bytes(), flat.clone(), b"\n".to_vec()].concat();
    Some(vec![
        seed("flat_commits", "commit", flat),
        seed("segments", "one", [&[1], &frame[..]].concat()),
        seed("segments", "two", [&[2], &frame[..], &frame].concat()),
        seed("records", "checkpoint", [b"c".to_vec(), checkpoint].concat()),
        seed("export_lines", "commit", line.clone()),
        seed("exports", "commit", line),
    ])
}

fn http_signatures() -> Option<Vec<Seed>> {
    let signer = protocol::message_signature::Signer::new(SigningKey::from_bytes(&[7; 32]));
    let body = b"{}";
    let mut text = String::new();
    for (name, value) in signer.sign("POST", "https://gw.example/v1/attest", body, 1_800_000_000) {
        text.push_str(&format!("{name}: {}\n", value.to_str().ok()?));
    }
    Some(vec![seed("message_signatures", "signed", format!("{text}\n{{}}"))])
}
