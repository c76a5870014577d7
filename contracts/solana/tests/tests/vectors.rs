//! `contracts/solana/vectors.json`: worked examples for whoever writes a client in another language. They are made from
//! the interface; here every number in them is computed again, and checked against the running program.
//!
//! `UPDATE_VECTORS=1` writes the file anew.

use std::{fs, path::PathBuf};

use ed25519_dalek::{Signature, VerifyingKey};
use gateway_program::{
    GatewayError,
    account::Escrow,
    host::{self, Message},
    instruction::{Reassign, Reservation},
    message::{Deposit, Offer},
};
use gateway_program_tests::{Addressed, MintKind, Offered, Payment, Verifiers, World, key, refused, sign};
use serde_json::{Value, json};

fn path() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../vectors.json")
}

fn base58(bytes: &[u8]) -> String {
    bs58::encode(bytes).into_string()
}

/// A message with its bytes, its digest and a signature.
fn message(world: &World, fields: Value, message: &impl Message, signer: &solana_keypair::Keypair) -> Value {
    let data = sign(message, &world.domain(), signer).data;
    json!({
        "fields": fields,
        "preimage": hex::encode(message.preimage(&world.domain())),
        "digest": hex::encode(message.digest(&world.domain())),
        "signer": base58(&key(signer)),
        "signer_secret_key_seed": hex::encode(signer.secret_bytes()),
        "signature": hex::encode(&data[48..112]),
        "ed25519_instruction_data": hex::encode(&data),
    })
}

fn instruction(instruction: &host::Instruction) -> Value {
    let accounts: Vec<Value> = instruction
        .accounts
        .iter()
        .map(|account| json!({ "key": base58(&account.key), "signer": account.signer, "writable": account.writable }))
        .collect();
    json!({ "program": base58(&instruction.program_id), "accounts": accounts, "data": hex::encode(&instruction.data) })
}

/// What two of a set sign: the signatures, the attestation that the gateway keeps, and what the precompile is shown.
fn word(world: &World, message: &impl Message, verifiers: &Verifiers) -> Value {
    const WHO: [usize; 2] = [0, 2];
    let digest = message.digest(&world.domain());
    let signed = verifiers.signatures(&digest, &WHO);
    let mut attestation = vec![verifiers.threshold, 3];
    attestation.extend(verifiers.members.as_flattened());
    for (at, (_, signature)) in WHO.iter().zip(&signed) {
        attestation.push(u8::try_from(*at).unwrap());
        attestation.extend(signature);
    }
    json!({
        "digest": hex::encode(digest),
        "signers": WHO,
        "signatures": signed.iter().map(|(_, signature)| hex::encode(signature)).collect::<Vec<_>>(),
        "attestation": format!("0x{}", hex::encode(attestation)),
        "ed25519_instruction_data": hex::encode(host::ed25519_of_set(&signed, &digest).data),
    })
}

/// A set of three of whom two sign, in the place of the releaser.
fn verifier_set(world: &World, payment: &Payment) -> Value {
    let verifiers = Verifiers::new(2, 3);
    let set = verifiers.set();
    let seeds = verifiers.keypairs.iter().map(|keypair| hex::encode(keypair.secret_bytes()));
    json!({
        "threshold": set.threshold(),
        "members": set.members().iter().map(|member| base58(member)).collect::<Vec<_>>(),
        "member_secret_key_seeds": seeds.collect::<Vec<_>>(),
        "preimage": hex::encode(set.preimage(&set.head()).concat()),
        "id": base58(&set.id()),
        "delivery": word(world, &payment.delivery(), &verifiers),
        "non_delivery": word(world, &payment.non_delivery(), &verifiers),
        "instructions": {
            "release": instruction(&host::by_set(payment.release(world)[1].clone(), &set)),
            "cancel": instruction(&host::by_set(payment.cancel(world)[1].clone(), &set)),
            "reassign": instruction(&host::by_set(payment.reassign(world, &payment.next(world))[1].clone(), &set)),
        },
    })
}

fn fields(terms: &Deposit) -> Value {
    json!({
        "payment_id": hex::encode(terms.payment_id),
        "terms_hash": hex::encode(terms.terms_hash),
        "quote_hash": hex::encode(terms.quote_hash),
        "payer": base58(&terms.payer),
        "mint": base58(&terms.mint),
        "amount": terms.amount,
        "reserver": base58(&terms.reserver),
        "releaser": base58(&terms.releaser),
        "reserve_deadline": terms.reserve_deadline,
        "fulfillment_deadline": terms.fulfillment_deadline,
        "refund_after": terms.refund_after,
    })
}

/// The address that the terms of the deposit lead to, and what is sent when more than their amount came there.
fn deposit_address(world: &World, payment: &Payment) -> Value {
    let addressed = Addressed { deposited: 310, ..Addressed::of(payment.clone()) };
    let (terms, reservation) = (payment.terms(), addressed.reservation());
    let bytes = terms.to_bytes();
    let host::Address { key, bump } = host::deposit_address(&world.program, &terms);
    json!({
        "fields": fields(&terms),
        "terms": hex::encode(bytes),
        "preimage": hex::encode(Deposit::address_preimage(&bytes).concat()),
        "hash": hex::encode(terms.address_hash()),
        "program_id": base58(&world.program),
        "address": base58(&key),
        "bump": bump,
        "token_program": base58(&payment.accounts.token_program),
        "token_account": base58(&payment.token_of(&key)),
        "reservation": reserved(&reservation),
        "instructions": {
            "deposit_from_address": instruction(&addressed.instruction(world)),
            "give_back": instruction(&addressed.give_back(world)),
            "give_back_lamports": instruction(&addressed.give_back_lamports(world)),
        },
    })
}

fn reserved(reservation: &Reservation) -> Value {
    json!({
        "deposited": reservation.deposited,
        "quote_hash": hex::encode(reservation.quote_hash),
        "settler": base58(&reservation.settler),
        "source_amount": reservation.source_amount,
        "fulfill_by": reservation.fulfill_by,
    })
}

/// The address of the offer of which a purchase makes the same terms, and what is sent when a buyer paid there.
fn offer(world: &World, payment: &Payment) -> Value {
    let offered = Offered::of(payment);
    let Offered { offer, purchase, reservation, .. } = &offered;
    let bytes = offer.to_bytes();
    let host::Address { key, bump } = host::offer_address(&world.program, offer);
    json!({
        "fields": {
            "terms_hash": hex::encode(offer.terms_hash),
            "merchant": base58(&offer.merchant),
            "mint": base58(&offer.mint),
            "amount": offer.amount,
            "reserver": base58(&offer.reserver),
            "releaser": base58(&offer.releaser),
            "delivery_seconds": offer.delivery_seconds,
            "refund_seconds": offer.refund_seconds,
        },
        "offer": hex::encode(bytes),
        "preimage": hex::encode(Offer::address_preimage(&bytes).concat()),
        "hash": hex::encode(offer.address_hash()),
        "program_id": base58(&world.program),
        "address": base58(&key),
        "bump": bump,
        "token_program": base58(&offered.token_program),
        "token_account": base58(&offered.token_of(&key)),
        "purchase": {
            "payment_id": hex::encode(purchase.payment_id),
            "reserve_deadline": purchase.reserve_deadline,
        },
        "terms": fields(&offer.deposit(purchase)),
        "reservation": reserved(reservation),
        "instructions": {
            "deposit_from_offer": instruction(&offered.instruction(world)),
            "collect": instruction(&offered.collect(world, &offer.reserver, 10)),
            "collect_by_merchant": instruction(&offered.collect(world, &offer.merchant, 10)),
            "collect_lamports": instruction(&offered.collect_lamports(world, &offer.merchant)),
        },
    })
}

fn vectors(world: &mut World, payment: &Payment) -> Value {
    let program = world.program;
    let d = &payment.data;
    let terms = payment.terms();
    let deposit_fields = fields(&terms);
    let delivery_fields = json!({
        "payment_id": hex::encode(d.payment_id),
        "quote_hash": hex::encode(d.quote_hash),
        "settler": base58(&d.settler),
    });
    let non_delivery_fields =
        json!({ "payment_id": hex::encode(d.payment_id), "quote_hash": hex::encode(d.quote_hash) });
    let fulfillment = payment.fulfillment(world, &key(&world.third_party), false);
    let delivery_key = fulfillment.key(&program);
    let address = |address: host::Address| json!({ "key": base58(&address.key), "bump": address.bump });
    payment.deposit(world).unwrap();
    let escrow = host::escrow_address(&program, &d.payment_id).key;
    let record = world.account(&escrow).unwrap().data;
    assert_eq!(record.len(), Escrow::SIZE);
    json!({
        "domain": { "cluster_id": hex::encode(world.cluster_id), "program_id": base58(&program), "version": 1 },
        "deposit": message(world, deposit_fields, &terms, &world.payer),
        "delivery": message(world, delivery_fields, &payment.delivery(), &world.releaser),
        "non_delivery": message(world, non_delivery_fields, &payment.non_delivery(), &world.releaser),
        "fulfillment": {
            "fields": {
                "payment_id": hex::encode(fulfillment.payment_id),
                "quote_hash": hex::encode(fulfillment.quote_hash),
                "settler": base58(&fulfillment.settler),
                "mint": base58(&fulfillment.mint),
                "recipient": base58(&fulfillment.recipient),
                "amount": fulfillment.amount,
                "fulfill_by": fulfillment.fulfill_by,
            },
            "key": hex::encode(delivery_key),
        },
        "addresses": {
            "config": address(host::config_address(&program)),
            "escrow": address(host::escrow_address(&program, &d.payment_id)),
            "vault": address(host::vault_address(&program, &d.payment_id)),
            "delegate": address(host::delegate_address(&program, &d.signer)),
            "fulfillment": address(host::fulfillment_address(&program, &delivery_key)),
            "payer_token": address(host::find_program_address(
                &[&d.payer, &payment.accounts.token_program, &payment.accounts.mint],
                &gateway_program::ids::ASSOCIATED_TOKEN_PROGRAM,
            )),
        },
        "instructions": {
            "deposit_and_reserve": instruction(&payment.instruction(world)),
            "release": instruction(&payment.release(world)[1]),
            "cancel": instruction(&payment.cancel(world)[1]),
            "refund": instruction(&payment.refund(world)),
            "reassign": instruction(&payment.reassign(world, &payment.next(world))[1]),
            "return_remainder": instruction(&payment.return_remainder(world)),
            "fulfill_tokens": instruction(&host::fulfill_token(
                &program,
                &fulfillment,
                payment.token_of(&fulfillment.settler),
                payment.accounts.token_program,
            )),
            "fulfill_native": instruction(&host::fulfill_native(
                &program,
                &payment.fulfillment(world, &key(&world.third_party), true),
            )),
            "reclaim_escrow":
                instruction(&host::reclaim_escrow(&program, &d.payment_id, payment.accounts.rent_payer)),
            "reclaim_fulfillment": instruction(&host::reclaim_fulfillment(&program, &fulfillment)),
        },
        "deposit_address": deposit_address(world, payment),
        "offer": offer(world, payment),
        "verifier_set": verifier_set(world, payment),
        "escrow_account": hex::encode(record),
    })
}

#[test]
fn the_vectors_are_what_the_program_does() {
    let mut world = World::new();
    let payment = Payment::new(&mut world, MintKind::Token);
    let made = vectors(&mut world, &payment);
    if std::env::var_os("UPDATE_VECTORS").is_some() {
        fs::write(path(), format!("{made:#}\n")).unwrap();
    }
    let kept: Value = serde_json::from_str(&fs::read_to_string(path()).unwrap()).unwrap();
    assert_eq!(kept, made, "UPDATE_VECTORS=1 writes vectors.json anew");
}

#[test]
fn the_signatures_in_the_vectors_hold_strictly() {
    let vectors: Value = serde_json::from_str(&fs::read_to_string(path()).unwrap()).unwrap();
    for name in ["deposit", "delivery", "non_delivery"] {
        let text = |member: &str| vectors[name][member].as_str().unwrap().to_owned();
        let signer: [u8; 32] = bs58::decode(text("signer")).into_vec().unwrap().try_into().unwrap();
        let digest = hex::decode(text("digest")).unwrap();
        use sha2::{Digest as _, Sha256};
        assert_eq!(Sha256::digest(hex::decode(text("preimage")).unwrap())[..], digest);
        let signature = Signature::from_slice(&hex::decode(text("signature")).unwrap()).unwrap();
        VerifyingKey::from_bytes(&signer).unwrap().verify_strict(&digest, &signature).unwrap();
    }
}

#[test]
fn the_sets_words_in_the_vectors_end_an_escrow() {
    let vectors: Value = serde_json::from_str(&fs::read_to_string(path()).unwrap()).unwrap();
    let kept = &vectors["verifier_set"];
    let text = |place: &str| kept.pointer(place).unwrap().as_str().unwrap().to_owned();
    let bytes = |place: &str| hex::decode(text(place)).unwrap();
    use sha2::{Digest as _, Sha256};
    let id: [u8; 32] = Sha256::digest(bytes("/preimage")).into();
    assert_eq!(base58(&id), text("/id"));
    for (end, statement) in [("release", "delivery"), ("cancel", "non_delivery"), ("reassign", "non_delivery")] {
        let mut world = World::new();
        let mut payment = Payment::new(&mut world, MintKind::Token);
        payment.data.releaser = id;
        payment.deposit(&mut world).unwrap();
        let [mut proof, mut ending] = match end {
            "release" => payment.release(&world),
            "cancel" => payment.cancel(&world),
            _ => payment.reassign(&world, &payment.next(&world)),
        };
        proof.data = bytes(&format!("/{statement}/ed25519_instruction_data"));
        ending.data = bytes(&format!("/instructions/{end}/data"));
        if end == "reassign" {
            // When the quote's time is over; the published promise of the next one is, too.
            let next = Reassign::with_word(&ending.data).unwrap().0;
            assert_eq!(next, payment.next(&world));
            world.set_time(payment.data.fulfill_by + 1);
            refused(payment.submit(&mut world, &[proof, ending]), GatewayError::FulfillByPassed);
            continue;
        }
        let third_party = world.third_party.insecure_clone();
        world.send(&[proof, ending], &[&third_party]).unwrap();
        assert_eq!(world.tokens(&payment.vault(&world)), 0, "{end}");
    }
}

/// The instruction as it is published.
fn published(kept: &Value) -> host::Instruction {
    let key = |value: &Value| bs58::decode(value.as_str().unwrap()).into_vec().unwrap().try_into().unwrap();
    let account = |account: &Value| host::AccountMeta {
        key: key(&account["key"]),
        signer: account["signer"].as_bool().unwrap(),
        writable: account["writable"].as_bool().unwrap(),
    };
    host::Instruction {
        program_id: key(&kept["program"]),
        accounts: kept["accounts"].as_array().unwrap().iter().map(account).collect(),
        data: hex::decode(kept["data"].as_str().unwrap()).unwrap(),
    }
}

/// Address, token account and hash are computed again with what a client in another language has, and the instructions are sent as they
/// are published.
#[test]
fn what_comes_to_the_address_in_the_vectors_goes_into_escrow_or_back() {
    use sha2::{Digest as _, Sha256};
    let vectors: Value = serde_json::from_str(&fs::read_to_string(path()).unwrap()).unwrap();
    let kept = &vectors["deposit_address"];
    let text = |member: &str| kept[member].as_str().unwrap().to_owned();
    let key = |member: &str| bs58::decode(text(member)).into_vec().unwrap();
    let hash = Sha256::digest(hex::decode(text("preimage")).unwrap());
    assert_eq!(hex::encode(hash), text("hash"));
    assert_eq!(text("preimage"), format!("{}01{}", hex::encode("gw-address"), text("terms")));
    // As other payers sign them, behind domain, version, cluster and program.
    assert!(vectors["deposit"]["preimage"].as_str().unwrap().ends_with(&text("terms")));
    let bump = u8::try_from(kept["bump"].as_u64().unwrap()).unwrap();
    let seeds = [&b"address"[..], &hash, &[bump], &key("program_id"), b"ProgramDerivedAddress"].concat();
    assert_eq!(Sha256::digest(seeds)[..], key("address"));

    for is_deposited in [true, false] {
        let mut world = World::new();
        let addressed = Addressed::new(&mut world, MintKind::Token);
        addressed.send(&mut world, 310);
        assert_eq!(addressed.tokens(&world)[..], key("token_account"));
        let (at, payer) = (addressed.at(&world), addressed.payment.data.payer);
        world.fund(&at, 1_000_000);
        let third_party = world.third_party.insecure_clone();
        if is_deposited {
            addressed.payment.submit(&mut world, &[published(&kept["instructions"]["deposit_from_address"])]).unwrap();
            assert_eq!(world.escrow(&addressed.payment.data.payment_id).unwrap().deposited, 310);
        } else {
            world.set_time(addressed.payment.data.reserve_deadline + 1);
            world.send(&[published(&kept["instructions"]["give_back"])], &[&third_party]).unwrap();
            assert_eq!(world.tokens(&addressed.payment.accounts.payer_token), 1_310);
        }
        assert!(world.account(&addressed.tokens(&world)).is_none());
        let had = world.lamports(&payer);
        world.send(&[published(&kept["instructions"]["give_back_lamports"])], &[&third_party]).unwrap();
        assert_eq!((world.lamports(&payer), world.lamports(&at)), (had + 1_000_000, 0));
    }
}

/// The same of the address of an offer, to which buyers pay.
#[test]
fn what_comes_to_the_offer_in_the_vectors_goes_into_escrow_or_to_the_merchant() {
    use sha2::{Digest as _, Sha256};
    let vectors: Value = serde_json::from_str(&fs::read_to_string(path()).unwrap()).unwrap();
    let kept = &vectors["offer"];
    let text = |member: &str| kept[member].as_str().unwrap().to_owned();
    let key = |member: &str| bs58::decode(text(member)).into_vec().unwrap();
    let hash = Sha256::digest(hex::decode(text("preimage")).unwrap());
    assert_eq!(hex::encode(hash), text("hash"));
    assert_eq!(text("preimage"), format!("{}01{}", hex::encode("gw-offer"), text("offer")));
    // The purchase makes the terms that others sign.
    assert_eq!(kept["terms"], vectors["deposit"]["fields"]);
    let bump = u8::try_from(kept["bump"].as_u64().unwrap()).unwrap();
    let seeds = [&b"offer"[..], &hash, &[bump], &key("program_id"), b"ProgramDerivedAddress"].concat();
    assert_eq!(Sha256::digest(seeds)[..], key("address"));

    let mut world = World::new();
    let offered = Offered::new(&mut world, MintKind::Token);
    offered.send(&mut world, 320);
    assert_eq!(offered.tokens(&world)[..], key("token_account"));
    world.fund(&offered.at(&world), 1_000_000);
    let merchant = world.payer.insecure_clone();
    for name in ["deposit_from_offer", "collect"] {
        offered.payment().submit(&mut world, &[published(&kept["instructions"][name])]).unwrap();
    }
    for name in ["collect_by_merchant", "collect_lamports"] {
        world.send(&[published(&kept["instructions"][name])], &[&merchant]).unwrap();
    }
    assert_eq!(world.escrow(&offered.purchase.payment_id).unwrap().deposited, 300);
    assert_eq!(world.tokens(&offered.token_of(&offered.offer.merchant)), 1_020);
    assert_eq!((world.tokens(&offered.tokens(&world)), world.lamports(&offered.at(&world))), (0, 0));
}
