//! Attacks on the signatures: offsets that point elsewhere, other instructions, other keys, other domains, other terms.

use gateway_program::{GatewayError, ed25519, host, host::Message, ids, message::Domain};
use gateway_program_tests::{MintKind, Payment, World, custom_code, key, keypair, refused, sign, sign_digest};

fn ready() -> (World, Payment) {
    let mut world = World::new();
    let payment = Payment::new(&mut world, MintKind::Token);
    (world, payment)
}

/// Sends a deposit with these instructions before it; the program must refuse it with `error`.
fn refused_with(world: &mut World, payment: &Payment, signature: host::Instruction, error: GatewayError) {
    let deposit = payment.instruction(world);
    let outcome = payment.submit(world, &[signature, deposit]);
    refused(outcome, error);
    assert_eq!(world.tokens(&payment.accounts.payer_token), 1_000);
}

/// The payer's good signature with one field of the header changed, in a transaction where the precompile still finds a
/// signature that it likes: what it reads is appended behind, the canonical places hold what the attacker wants seen.
#[test]
fn every_offset_must_be_the_canonical_one() {
    let (mut world, payment) = ready();
    let attacker = keypair(66);
    // Really signed, by the attacker, over the same digest.
    let digest = payment.terms().digest(&world.domain());
    let real = sign_digest(&digest, &attacker).data;
    // What the program would see at the canonical places: the payer's key and the digest, with no signature at all.
    let shown = ed25519::data(&payment.data.signer, &[0; 64], &digest);
    let field = |data: &mut Vec<u8>, index: usize, value: u16| {
        data[2 + 2 * index..4 + 2 * index].copy_from_slice(&value.to_le_bytes());
    };
    let (key_at, signature_at, message_at) = (144, 176, 240);
    let appended = |data: &mut Vec<u8>| data.extend_from_slice(&real[16..]);

    // All three moved: the precompile is content with the attacker's own signature.
    let mut data = shown.to_vec();
    appended(&mut data);
    field(&mut data, 0, signature_at);
    field(&mut data, 2, key_at);
    field(&mut data, 4, message_at);
    let moved = host::Instruction { program_id: ids::ED25519_PROGRAM, accounts: vec![], data: data.clone() };
    let third_party = world.third_party.insecure_clone();
    world.send(std::slice::from_ref(&moved), &[&third_party]).expect("the precompile itself is content");
    refused_with(&mut world, &payment, moved, GatewayError::SignatureFormInvalid);

    // Each alone, beside an honest signature, with the instruction as long as the canonical one or longer.
    let honest = sign_digest(&digest, &world.payer).data;
    for (index, value) in [(0, signature_at), (2, key_at), (4, message_at)] {
        let mut data = honest.clone();
        data.extend_from_slice(&honest[16..]);
        field(&mut data, index, value);
        let one = host::Instruction { program_id: ids::ED25519_PROGRAM, accounts: vec![], data };
        world.send(std::slice::from_ref(&one), &[&third_party]).expect("the precompile itself is content");
        refused_with(&mut world, &payment, one, GatewayError::SignatureFormInvalid);
    }
}

/// The three instruction indices: the bytes are read from an instruction beside.
#[test]
fn nothing_may_be_read_from_another_instruction() {
    let (mut world, payment) = ready();
    let digest = payment.terms().digest(&world.domain());
    let honest = sign_digest(&digest, &world.payer);
    for index in [1, 3, 6] {
        // Index 0 is this very instruction by its number, which the precompile takes for the same.
        for other in [0_u16, 2] {
            let mut data = honest.data.clone();
            data[2 + 2 * index..4 + 2 * index].copy_from_slice(&other.to_le_bytes());
            let pointing = host::Instruction { program_id: ids::ED25519_PROGRAM, accounts: vec![], data };
            let deposit = payment.instruction(&world);
            let outcome = payment.submit(&mut world, &[pointing, deposit, honest.clone()]);
            refused(outcome, GatewayError::SignatureFormInvalid);
        }
    }
}

#[test]
fn the_rest_of_the_header_is_fixed_too() {
    let (mut world, payment) = ready();
    let digest = payment.terms().digest(&world.domain());
    let honest = sign_digest(&digest, &world.payer);
    let form = GatewayError::SignatureFormInvalid;

    let mut padded = honest.clone();
    padded.data[1] = 1;
    refused_with(&mut world, &payment, padded, form);
    let mut longer = honest.clone();
    longer.data.push(0);
    refused_with(&mut world, &payment, longer, form);
    // No signature at all: the precompile has nothing to object to.
    let none = host::Instruction { program_id: ids::ED25519_PROGRAM, accounts: vec![], data: vec![0, 0] };
    refused_with(&mut world, &payment, none, form);
    // A shorter message: the precompile checks 31 bytes, so they must be signed as such.
    let short = sign_short(&world, &digest);
    refused_with(&mut world, &payment, short, form);
}

/// The payer's signature over the first 31 bytes, with the digest in place.
fn sign_short(world: &World, digest: &[u8; 32]) -> host::Instruction {
    use ed25519_dalek::{Signer as _, SigningKey};
    let signature = SigningKey::from_bytes(world.payer.secret_bytes()).sign(&digest[..31]).to_bytes();
    let mut data = ed25519::data(&key(&world.payer), &signature, digest);
    data[12..14].copy_from_slice(&31_u16.to_le_bytes());
    host::Instruction { program_id: ids::ED25519_PROGRAM, accounts: vec![], data: data.to_vec() }
}

#[test]
fn two_signatures_in_one_instruction_are_refused() {
    let (mut world, payment) = ready();
    let digest = payment.terms().digest(&world.domain());
    let one = sign_digest(&digest, &world.payer).data;
    // Behind two headers come key, signature and message, which both read.
    let mut header = vec![2, 0];
    for _ in 0..2 {
        for value in [62, u16::MAX, 30, u16::MAX, 126, 32, u16::MAX] {
            header.extend_from_slice(&u16::to_le_bytes(value));
        }
    }
    header.extend_from_slice(&one[16..]);
    let two = host::Instruction { program_id: ids::ED25519_PROGRAM, accounts: vec![], data: header };
    let third_party = world.third_party.insecure_clone();
    world.send(std::slice::from_ref(&two), &[&third_party]).expect("the precompile itself is content");
    refused_with(&mut world, &payment, two, GatewayError::SignatureFormInvalid);
}

#[test]
fn the_index_must_name_the_precompiles_instruction() {
    let (mut world, mut payment) = ready();
    let [signature, _] = payment.deposit_by(&world, &world.payer);
    // At the deposit itself, then behind it: that is as good, because a wrong signature fails the whole transaction.
    payment.data.ed25519_index = 0;
    let deposit = payment.instruction(&world);
    let outcome = payment.submit(&mut world, &[deposit, signature.clone()]);
    refused(outcome, GatewayError::SignatureInstructionMissing);
    payment.data.ed25519_index = 1;
    let deposit = payment.instruction(&world);
    payment.submit(&mut world, &[deposit, signature]).unwrap();
}

#[test]
fn an_index_past_the_end_names_nothing() {
    let (mut world, mut payment) = ready();
    let [signature, _] = payment.deposit_by(&world, &world.payer);
    for index in [2, 3, 255] {
        payment.data.ed25519_index = index;
        let deposit = payment.instruction(&world);
        let outcome = payment.submit(&mut world, &[signature.clone(), deposit]);
        refused(outcome, GatewayError::SignatureInstructionMissing);
    }
}

#[test]
fn the_same_bytes_in_another_programs_instruction_prove_nothing() {
    let (mut world, payment) = ready();
    let [mut signature, deposit] = payment.deposit_by(&world, &world.payer);
    signature.program_id = world.program;
    let outcome = payment.submit(&mut world, &[deposit_with_index(&deposit, 1), signature]);
    refused(outcome, GatewayError::SignatureInstructionMissing);
}

fn deposit_with_index(deposit: &host::Instruction, index: u8) -> host::Instruction {
    let mut data = gateway_program::instruction::DepositAndReserve::from_bytes(&deposit.data).unwrap();
    data.ed25519_index = index;
    host::Instruction { data: data.to_bytes().to_vec(), ..deposit.clone() }
}

#[test]
fn another_key_is_refused() {
    let (mut world, payment) = ready();
    let signature = sign(&payment.terms(), &world.domain(), &keypair(66));
    refused_with(&mut world, &payment, signature, GatewayError::SignerMismatch);
}

#[test]
fn a_wrong_signature_fails_the_whole_transaction() {
    let (mut world, payment) = ready();
    let [mut signature, deposit] = payment.deposit_by(&world, &world.payer);
    signature.data[ed25519::SIGNATURE_AT] ^= 1;
    for order in [[signature.clone(), deposit.clone()], [deposit_with_index(&deposit, 1), signature]] {
        let outcome = payment.submit(&mut world, &order);
        let failed = outcome.expect_err("the precompile refuses it");
        assert!(failed.meta.logs.iter().all(|line| !line.contains("panicked")));
        assert_eq!(world.tokens(&payment.accounts.payer_token), 1_000);
        assert!(world.escrow(&payment.data.payment_id).is_none());
    }
}

#[test]
fn a_signature_for_another_domain_is_refused() {
    let (mut world, payment) = ready();
    let here = world.domain();
    let mismatch = GatewayError::SignedMessageMismatch;
    let elsewhere = [
        Domain { cluster_id: [0xc2; 32], ..here },
        Domain { program_id: [0xc2; 32], ..here },
        Domain { cluster_id: here.program_id, program_id: here.cluster_id },
    ];
    for domain in elsewhere {
        let signature = sign(&payment.terms(), &domain, &world.payer);
        refused_with(&mut world, &payment, signature, mismatch);
    }
    // Another version of the domain, or another name of it.
    let preimage = payment.terms().preimage(&here);
    for (at, value) in [(9, 2), (9, 0), (0, b'x')] {
        let mut other = preimage.clone();
        other[at] = value;
        let signature = sign_digest(&sha256(&other), &world.payer);
        refused_with(&mut world, &payment, signature, mismatch);
    }
    // As is, it is the digest.
    let signature = sign_digest(&sha256(&preimage), &world.payer);
    let deposit = payment.instruction(&world);
    payment.submit(&mut world, &[signature, deposit]).unwrap();
}

#[test]
fn any_changed_term_breaks_the_signature() {
    type Change = fn(&mut gateway_program::message::Deposit);
    let changes: [Change; 11] = [
        |t| t.payment_id = [2; 32],
        |t| t.terms_hash = [2; 32],
        |t| t.quote_hash = [2; 32],
        |t| t.payer = [2; 32],
        |t| t.mint = [2; 32],
        |t| t.amount = 299,
        |t| t.reserver = [2; 32],
        |t| t.releaser = [2; 32],
        |t| t.reserve_deadline += 1,
        |t| t.fulfillment_deadline += 1,
        |t| t.refund_after += 1,
    ];
    let (mut world, payment) = ready();
    for change in changes {
        let mut terms = payment.terms();
        change(&mut terms);
        let signature = sign(&terms, &world.domain(), &world.payer);
        refused_with(&mut world, &payment, signature, GatewayError::SignedMessageMismatch);
    }
}

#[test]
fn the_allowance_must_be_the_signers() {
    let (mut world, mut payment) = ready();
    let delegate = keypair(60);
    // Allowed to the payer's own key, signed by a delegate.
    payment.data.signer = key(&delegate);
    let instructions = payment.deposit_by(&world, &delegate);
    refused(payment.submit(&mut world, &instructions), GatewayError::AllowanceMissing);
    // The delegate's signature, named as the payer's: the address is the payer's, the signature is not.
    payment.data.signer = payment.data.payer;
    let instructions = payment.deposit_by(&world, &delegate);
    refused(payment.submit(&mut world, &instructions), GatewayError::SignerMismatch);
    // Allowed to the delegate, signed by the payer.
    let payer = world.payer.insecure_clone();
    world.approve(&payer, &payment.accounts.mint, &key(&delegate), 300);
    refused(payment.deposit(&mut world), GatewayError::AllowanceMissing);
    // The address of another signer than the one named.
    payment.data.signer = payment.data.payer;
    let mut instructions = payment.deposit_by(&world, &world.payer);
    instructions[1].accounts[6].key = host::delegate_address(&world.program, &key(&delegate)).key;
    refused(payment.submit(&mut world, &instructions), GatewayError::AllowanceMissing);
}

#[test]
fn an_allowance_that_is_too_small_or_used_up_is_refused() {
    let (mut world, mut payment) = ready();
    let payer = world.payer.insecure_clone();
    world.approve(&payer, &payment.accounts.mint, &key(&payer), 249);
    refused(payment.deposit(&mut world), GatewayError::AllowanceTooSmall);
    world.approve(&payer, &payment.accounts.mint, &key(&payer), 250);
    payment.deposit(&mut world).unwrap();
    payment.data.payment_id = [2; 32];
    refused(payment.deposit(&mut world), GatewayError::AllowanceMissing);
}

#[test]
fn only_the_releasers_word_ends_an_escrow() {
    let (mut world, payment) = ready();
    payment.deposit(&mut world).unwrap();
    let third_party = world.third_party.insecure_clone();
    let [_, release] = payment.release(&world);
    let [_, cancel] = payment.cancel(&world);
    for signer in [world.payer.insecure_clone(), world.settler.insecure_clone(), world.reserver.insecure_clone()] {
        let word = sign(&payment.delivery(), &world.domain(), &signer);
        refused(world.send(&[word, release.clone()], &[&third_party]), GatewayError::SignerMismatch);
        let word = sign(&payment.non_delivery(), &world.domain(), &signer);
        refused(world.send(&[word, cancel.clone()], &[&third_party]), GatewayError::SignerMismatch);
    }
    let outcome = world.send(std::slice::from_ref(&release), &[&third_party]);
    assert_eq!(custom_code(&outcome), Some(GatewayError::SignatureInstructionMissing.code()));
    let elsewhere = Domain { cluster_id: [0xc2; 32], ..world.domain() };
    let word = sign(&payment.delivery(), &elsewhere, &world.releaser);
    refused(world.send(&[word, release], &[&third_party]), GatewayError::SignedMessageMismatch);
    let word = sign(&payment.non_delivery(), &elsewhere, &world.releaser);
    refused(world.send(&[word, cancel], &[&third_party]), GatewayError::SignedMessageMismatch);
}

#[test]
fn both_signatures_on_the_transaction_are_needed() {
    let (mut world, payment) = ready();
    let instructions = payment.deposit_by(&world, &world.payer);
    let submitter = world.submitter.insecure_clone();
    // The reserver is named and does not sign.
    let mut unsigned = instructions.clone();
    unsigned[1].accounts[1].signer = false;
    refused(world.send(&unsigned, &[&submitter]), GatewayError::SignatureMissing);
    // Somebody else admits the deposit.
    let third_party = world.third_party.insecure_clone();
    let mut other = instructions.clone();
    other[1].accounts[1].key = key(&third_party);
    refused(world.send(&other, &[&submitter, &third_party]), GatewayError::ReserverNotAdmitted);
    // Nobody pays for the accounts.
    let reserver = world.reserver.insecure_clone();
    let mut unpaid = instructions;
    unpaid[1].accounts[0].signer = false;
    refused(world.send(&unpaid, &[&third_party, &reserver]), GatewayError::SignatureMissing);
}

fn sha256(bytes: &[u8]) -> [u8; 32] {
    use sha2::{Digest as _, Sha256};
    Sha256::digest(bytes).into()
}
