//! Payers whose keys, addresses, digests and signatures `@solana/web3.js` made, from a description of the bytes alone.

use std::{path::Path, process::Command};

use serde_json::Value;

use chains_solana::{
    authorization::{ClusterId, EscrowSettings, SignedMessage, SpendRequest, allowance_delegate, authorize},
    program::{key, parse_key, text},
};
use events::{Account, Hash32, Terms, event::Authorization, time::from_unix_seconds};
use gateway_program::{ed25519, host, ids, message::Fulfillment};

const CASES: usize = 300;
const FULFILLMENT_DEADLINE: u64 = 1_800_000_600;

/// One payer's case.
struct Case(Value);

fn cases() -> Vec<Case> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let modules = here.join("../../.tools/solana-client/node_modules");
    assert!(modules.join("@solana/web3.js").is_dir(), "@solana/web3.js is missing; run scripts/tools.sh test");
    let output = Command::new("node")
        .arg(here.join("tests/client/cases.cjs"))
        .args([&CASES.to_string(), "gateway"])
        .env("SOLANA_CLIENT_MODULES", modules)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines = String::from_utf8(output.stdout).unwrap();
    let cases: Vec<Case> = lines.lines().map(|line| Case(serde_json::from_str(line).unwrap())).collect();
    assert_eq!(cases.len(), CASES);
    cases
}

impl Case {
    fn str(&self, pointer: &str) -> &str {
        self.0.pointer(pointer).and_then(Value::as_str).unwrap_or_else(|| panic!("{pointer}: {}", self.0))
    }

    fn key(&self, pointer: &str) -> [u8; 32] {
        parse_key(self.str(pointer)).unwrap()
    }

    fn account(&self, pointer: &str) -> Account {
        self.str(pointer).parse().unwrap()
    }

    fn hash(&self, pointer: &str) -> Hash32 {
        self.str(pointer).parse().unwrap()
    }

    fn spend(&self) -> SpendRequest {
        SpendRequest {
            payment_id: self.str("/payment_id").parse().unwrap(),
            terms: serde_json::from_value::<Terms>(self.0["terms"].clone()).unwrap(),
            quote_deadline: from_unix_seconds(FULFILLMENT_DEADLINE - 600).unwrap(),
            fulfillment_deadline: from_unix_seconds(FULFILLMENT_DEADLINE).unwrap(),
            cluster_id: ClusterId::parse(self.str("/cluster_id")).unwrap(),
            escrow: EscrowSettings {
                program: self.account("/program"),
                reserver: self.account("/reserver"),
                releaser: self.account("/releaser"),
                refund_delay_seconds: 900,
            },
            quote_hash: self.hash("/quote_hash"),
        }
    }

    fn signed(&self, name: &str) -> SignedMessage {
        SignedMessage {
            message: self.str(&format!("/{name}/message")).to_owned(),
            message_prehash: Some(self.str(&format!("/{name}/message_prehash")).to_owned()),
            signature: self.str(&format!("/{name}/signature")).to_owned(),
            payload: Some(self.0[name]["payload"].clone()),
        }
    }
}

#[test]
fn its_addresses_are_ours() {
    for case in cases() {
        let (program, spend) = (case.key("/program"), case.spend());
        let on_chain = spend.payment_id.on_chain().0;
        let payer = key(spend.terms.source.account()).unwrap();
        let mint = case.key("/mint");
        let delivery = Fulfillment {
            payment_id: on_chain,
            quote_hash: case.hash("/quote_hash").0,
            settler: case.key("/settler"),
            mint,
            recipient: key(spend.terms.destination()[0].account()).unwrap(),
            amount: case.str("/delivered").parse().unwrap(),
            fulfill_by: FULFILLMENT_DEADLINE,
        };
        for (pointer, address) in [
            ("/addresses/delegate", host::delegate_address(&program, &case.key("/signer"))),
            ("/addresses/escrow", host::escrow_address(&program, &on_chain)),
            ("/addresses/vault", host::vault_address(&program, &on_chain)),
            ("/addresses/fulfillment", host::fulfillment_address(&program, &delivery.key(&program))),
            ("/addresses/associated/0", host::associated_token_address(&payer, &ids::TOKEN_PROGRAM, &mint)),
            ("/addresses/associated/1", host::associated_token_address(&payer, &ids::TOKEN_2022_PROGRAM, &mint)),
        ] {
            assert_eq!(text(&address.key), case.str(pointer), "{pointer}: {}", case.0);
        }
        let delegate = allowance_delegate(&case.account("/program"), &case.account("/signer"));
        assert_eq!(delegate, Ok(case.account("/addresses/delegate")));
    }
}

#[test]
fn its_signatures_are_accepted_with_and_without_the_preimage() {
    for case in cases() {
        let (spend, mut signed) = (case.spend(), case.signed("signed"));
        let (authorization, plan) = authorize(&spend, &signed).unwrap_or_else(|error| panic!("{error}: {}", case.0));
        let Authorization::Solana(spent) = authorization else { panic!("{authorization:?}") };
        assert_eq!(spent.signer.as_str(), case.str("/signer"));
        assert_eq!(spent.quote_hash, spend.quote_hash);
        assert_eq!(plan.refund_after.to_string(), case.str("/signed/payload/refund_after"));
        let ours = ed25519::data(
            &case.key("/signer"),
            &hex::decode(&spent.signature[2..]).unwrap().try_into().unwrap(),
            &signed.message.parse::<Hash32>().unwrap().0,
        );
        assert_eq!(format!("0x{}", hex::encode(ours)), case.str("/precompile"), "the precompile's instruction");
        signed.message_prehash = None;
        authorize(&spend, &signed).unwrap_or_else(|error| panic!("{error}: {}", case.0));
    }
}

/// The same signature under anything else than what was signed, and a signature under another version.
#[test]
fn its_signatures_count_for_nothing_else() {
    let cases = cases();
    for (case, other) in cases.iter().zip(cases.iter().cycle().skip(1)) {
        let (spend, signed) = (case.spend(), case.signed("signed"));
        let refused = |what: &str, spend: &SpendRequest, signed: &SignedMessage, field: &str| {
            let error = authorize(spend, signed).expect_err(what);
            assert_eq!(error.field(), field, "{what}: {error}");
        };
        let their = other.spend();
        let escrow = |change: fn(&mut EscrowSettings, EscrowSettings)| {
            let mut escrow = spend.escrow.clone();
            change(&mut escrow, their.escrow.clone());
            SpendRequest { escrow, ..spend.clone() }
        };
        let mut terms = case.0["terms"].clone();
        terms["fulfillment_amount"] = "1000000001".into();
        let terms: Terms = serde_json::from_value(terms).unwrap();
        for (changed, field) in [
            (SpendRequest { cluster_id: their.cluster_id, ..spend.clone() }, "cluster_id"),
            (escrow(|mine, theirs| mine.program = theirs.program), "program_id"),
            (SpendRequest { payment_id: their.payment_id.clone(), ..spend.clone() }, "payment_id"),
            (SpendRequest { terms, ..spend.clone() }, "terms_hash"),
            (SpendRequest { quote_hash: Hash32([9; 32]), ..spend.clone() }, "quote_hash"),
            (escrow(|mine, theirs| mine.reserver = theirs.reserver), "reserver"),
            (escrow(|mine, theirs| mine.releaser = theirs.releaser), "releaser"),
        ] {
            refused(field, &changed, &signed, &format!("message_prehash.{field}"));
            let bare = SignedMessage { message_prehash: None, ..signed.clone() };
            refused(field, &changed, &bare, "message");
            // Who rebuilds everything for what is asked still has the signature over something else.
            let honest = other_message(&changed, &signed);
            refused(field, &changed, &honest, "signature");
        }
        refused("version", &spend, &case.signed("signed_for_version_2"), "message_prehash.domain_version");
        let unsigned = SignedMessage { signature: other.str("/signed/signature").to_owned(), ..signed.clone() };
        refused("signature", &spend, &unsigned, "signature");
    }
}

/// `signed` with the digest and preimage that `spend` asks for.
fn other_message(spend: &SpendRequest, signed: &SignedMessage) -> SignedMessage {
    let choice = chains_solana::authorization::Choice::from_payload(signed.payload.as_ref()).unwrap();
    let prepared = chains_solana::authorization::prepare(spend, &choice).unwrap();
    SignedMessage {
        message: prepared.digest.to_string(),
        message_prehash: Some(format!("0x{}", hex::encode(prepared.preimage))),
        ..signed.clone()
    }
}
