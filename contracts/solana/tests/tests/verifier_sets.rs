//! Verifier sets: k of n release and cancel together, and every other way to bring their word is refused.

use gateway_program::{GatewayError, Key, ed25519, host, host::Message, ids, message::Domain};
use gateway_program_tests::{MintKind, Payment, Verifiers, World, key, keypair, refused, sign, signature};
use sha2::{Digest as _, Sha256};

/// A world with the payment in escrow, for the releaser.
fn secured(releaser: Key) -> (World, Payment) {
    let mut world = World::new();
    let mut payment = Payment::new(&mut world, MintKind::Token);
    payment.data.releaser = releaser;
    payment.deposit(&mut world).unwrap();
    (world, payment)
}

/// Sends what should end the escrow; the program must refuse it with `error`, and the money stays.
#[track_caller]
fn refused_with(world: &mut World, payment: &Payment, instructions: &[host::Instruction], error: GatewayError) {
    let third_party = world.third_party.insecure_clone();
    refused(world.send(instructions, &[&third_party]), error);
    assert_eq!(world.tokens(&payment.vault(world)), 250);
}

/// As [`refused_with`], where the precompile alone has nothing against its instruction.
#[track_caller]
fn refused_though_signed(
    world: &mut World,
    payment: &Payment,
    [proof, end]: [host::Instruction; 2],
    error: GatewayError,
) {
    let third_party = world.third_party.insecure_clone();
    world.send(std::slice::from_ref(&proof), &[&third_party]).expect("the precompile itself is content");
    refused_with(world, payment, &[proof, end], error);
}

fn precompile(data: Vec<u8>) -> host::Instruction {
    host::Instruction { program_id: ids::ED25519_PROGRAM, accounts: vec![], data }
}

/// Writes the field (signature offset and instruction, key offset and instruction, message offset, size and instruction) of
/// the signature `index`.
fn set_field(data: &mut [u8], index: usize, field: usize, value: u16) {
    let at = 2 + 14 * index + 2 * field;
    data[at..at + 2].copy_from_slice(&value.to_le_bytes());
}

#[test]
fn any_members_as_many_as_the_threshold_release_and_cancel() {
    let cases: [(u8, u8, &[&[usize]]); 4] = [
        (1, 1, &[&[0]]),
        (1, 3, &[&[0], &[2]]),
        (2, 3, &[&[0, 1], &[0, 2], &[1, 2]]),
        (3, 5, &[&[0, 1, 2], &[2, 3, 4], &[0, 2, 4]]),
    ];
    for (threshold, count, choices) in cases {
        let verifiers = Verifiers::new(threshold, count);
        for who in choices {
            let (mut world, payment) = secured(verifiers.id());
            let third_party = world.third_party.insecure_clone();
            let release = payment.release_by(&world, &verifiers, who);
            let settler = payment.token_of(&payment.data.settler);
            world.send(&release, &[&third_party]).unwrap();
            assert_eq!(world.tokens(&settler), 250, "{threshold} of {count}: {who:?}");

            let (mut world, payment) = secured(verifiers.id());
            let cancel = payment.cancel_by(&world, &verifiers, who);
            world.send(&cancel, &[&third_party]).unwrap();
            assert_eq!(world.tokens(&payment.accounts.payer_token), 1_000, "{threshold} of {count}: {who:?}");
        }
    }
}

/// More than the network carries in one packet, but the runtime does not ask: no number of the form overflows.
#[test]
fn the_largest_set_is_taken_whole() {
    let verifiers = Verifiers::new(16, 16);
    let (mut world, payment) = secured(verifiers.id());
    let who: Vec<_> = (0..16).collect();
    let third_party = world.third_party.insecure_clone();
    let release = payment.release_by(&world, &verifiers, &who);
    world.send(&release, &[&third_party]).unwrap();
    assert_eq!(world.tokens(&payment.token_of(&payment.data.settler)), 250);
}

#[test]
fn the_signatures_may_stand_behind() {
    let verifiers = Verifiers::new(2, 3);
    let (mut world, payment) = secured(verifiers.id());
    let [proof, mut release] = payment.release_by(&world, &verifiers, &[0, 2]);
    refused_with(&mut world, &payment, &[release.clone(), proof.clone()], GatewayError::SignatureInstructionMissing);
    release.data[1] = 1;
    let third_party = world.third_party.insecure_clone();
    world.send(&[release, proof], &[&third_party]).unwrap();
}

#[test]
fn fewer_more_or_other_signers_are_refused() {
    let verifiers = Verifiers::new(2, 3);
    let (mut world, payment) = secured(verifiers.id());
    let domain = world.domain();
    let (form, signer) = (GatewayError::SignatureFormInvalid, GatewayError::SignerMismatch);
    for (who, error) in [
        (&[1][..], form),
        (&[0, 1, 2], form),
        // The same member again, and members in another order.
        (&[1, 1], signer),
        (&[2, 1], signer),
    ] {
        let release = payment.release_by(&world, &verifiers, who);
        refused_though_signed(&mut world, &payment, release, error);
        let cancel = payment.cancel_by(&world, &verifiers, who);
        refused_though_signed(&mut world, &payment, cancel, error);
    }
    // A stranger beside a member, whichever comes first.
    let [_, release] = payment.release_by(&world, &verifiers, &[0, 1]);
    let digest = payment.delivery().digest(&domain);
    for seed in [60, 61, 62, 63] {
        let mut signed = vec![signature(&keypair(seed), &digest), signature(&verifiers.keypairs[1], &digest)];
        for _ in 0..2 {
            let proof = host::ed25519_of_set(&signed, &digest);
            refused_though_signed(&mut world, &payment, [proof, release.clone()], signer);
            signed.reverse();
        }
    }
    // The signatures of two members in two instructions are not two signatures in one.
    let alone = payment.release_by(&world, &verifiers, &[0]);
    let other = verifiers.sign(&payment.delivery(), &domain, &[1]);
    let [proof, release] = alone;
    refused_with(&mut world, &payment, &[proof, release, other], form);
}

#[test]
fn a_wrong_signature_in_any_place_fails_the_whole_transaction() {
    let verifiers = Verifiers::new(2, 3);
    let (mut world, payment) = secured(verifiers.id());
    let third_party = world.third_party.insecure_clone();
    for index in [0, 1] {
        let [mut proof, release] = payment.release_by(&world, &verifiers, &[0, 2]);
        proof.data[2 + 14 * 2 + 96 * index + 32] ^= 1;
        world.send(&[proof, release], &[&third_party]).expect_err("the precompile refuses it");
        assert_eq!(world.tokens(&payment.vault(&world)), 250);
    }
}

/// Both places of signer and signature read the one signature that there is; shown is another member's key.
#[test]
fn one_signature_shown_as_two_is_refused() {
    let verifiers = Verifiers::new(2, 3);
    let (mut world, payment) = secured(verifiers.id());
    let [honest, release] = payment.release_by(&world, &verifiers, &[0, 1]);
    for (good, forged) in [(0, 1), (1, 0)] {
        let mut data = honest.data.clone();
        let pair = 30 + 96 * forged;
        data[pair + 32..pair + 96].fill(0);
        let read = u16::try_from(30 + 96 * good).unwrap();
        set_field(&mut data, forged, 0, read + 32);
        set_field(&mut data, forged, 2, read);
        let proof = precompile(data);
        refused_though_signed(&mut world, &payment, [proof, release.clone()], GatewayError::SignatureFormInvalid);
    }
    // The same two signatures, read crosswise.
    let mut data = honest.data.clone();
    for (index, read) in [(0, 126), (1, 30)] {
        set_field(&mut data, index, 0, read + 32);
        set_field(&mut data, index, 2, read);
    }
    refused_though_signed(&mut world, &payment, [precompile(data), release], GatewayError::SignatureFormInvalid);
}

/// What the precompile reads is appended behind, in a copy; the canonical places hold what is to be seen. Each offset of each
/// signature alone, then all of them.
#[test]
fn every_offset_must_be_the_canonical_one() {
    let verifiers = Verifiers::new(2, 3);
    let (mut world, payment) = secured(verifiers.id());
    let [honest, release] = payment.release_by(&world, &verifiers, &[0, 2]);
    let whole = u16::try_from(honest.data.len()).unwrap();
    let canonical = |index: u16, field: usize| match field {
        0 => 30 + 96 * index + 32,
        2 => 30 + 96 * index,
        _ => 30 + 96 * 2,
    };
    let copied = [&honest.data[..], &honest.data[30..]].concat();
    let mut moved = copied.clone();
    for index in [0, 1] {
        for field in [0, 2, 4] {
            let to = canonical(index, field) + whole - 30;
            let mut data = copied.clone();
            set_field(&mut data, usize::from(index), field, to);
            set_field(&mut moved, usize::from(index), field, to);
            let pair = [precompile(data), release.clone()];
            refused_though_signed(&mut world, &payment, pair, GatewayError::SignatureFormInvalid);
        }
    }
    // Nothing of what is shown was signed by whom it shows.
    for index in [0, 1] {
        moved[30 + 96 * index + 32..30 + 96 * (index + 1)].fill(0);
    }
    refused_though_signed(&mut world, &payment, [precompile(moved), release], GatewayError::SignatureFormInvalid);
}

/// With the length that is asked for: members really signed 32 other bytes of the instruction, or 31 of the digest.
#[test]
fn another_message_than_the_one_shown_is_refused() {
    let verifiers = Verifiers::new(2, 3);
    let (mut world, payment) = secured(verifiers.id());
    let [honest, release] = payment.release_by(&world, &verifiers, &[0, 2]);
    let form = GatewayError::SignatureFormInvalid;
    for index in [0, 1] {
        let member = &verifiers.keypairs[2 * index];
        let pair = 30 + 96 * index;
        // Its own key as the message.
        let mut data = honest.data.clone();
        data[pair + 32..pair + 96].copy_from_slice(&signature(member, &key(member)).1);
        set_field(&mut data, index, 4, u16::try_from(pair).unwrap());
        refused_though_signed(&mut world, &payment, [precompile(data), release.clone()], form);
        let mut data = honest.data.clone();
        let digest = &honest.data[222..];
        data[pair + 32..pair + 96].copy_from_slice(&signature(member, &digest[..31]).1);
        set_field(&mut data, index, 5, 31);
        refused_though_signed(&mut world, &payment, [precompile(data), release.clone()], form);
    }
}

#[test]
fn nothing_may_be_read_by_the_number_of_an_instruction() {
    let verifiers = Verifiers::new(2, 3);
    let (mut world, payment) = secured(verifiers.id());
    let [honest, release] = payment.release_by(&world, &verifiers, &[0, 2]);
    for index in [0, 1] {
        for field in [1, 3, 6] {
            // Number 0 is this very instruction, which the precompile takes for the same, and 2 the honest one beside it.
            for other in [0, 2] {
                let mut data = honest.data.clone();
                set_field(&mut data, index, field, other);
                let instructions = [precompile(data), release.clone(), honest.clone()];
                refused_with(&mut world, &payment, &instructions, GatewayError::SignatureFormInvalid);
            }
        }
    }
}

#[test]
fn the_rest_of_the_form_is_fixed_too() {
    let verifiers = Verifiers::new(2, 3);
    let (mut world, payment) = secured(verifiers.id());
    let [honest, release] = payment.release_by(&world, &verifiers, &[0, 2]);
    let mut padded = honest.clone();
    padded.data[1] = 1;
    let mut longer = honest.clone();
    longer.data.push(0);
    // One signature is counted where two stand: the second is not looked at.
    let mut counted = honest.clone();
    counted.data[0] = 1;
    for broken in [padded, longer, counted, precompile(vec![0, 0])] {
        let pair = [broken, release.clone()];
        refused_though_signed(&mut world, &payment, pair, GatewayError::SignatureFormInvalid);
    }
    let mut elsewhere = honest;
    elsewhere.program_id = world.program;
    let mut later = release;
    later.data[1] = 1;
    refused_with(&mut world, &payment, &[later, elsewhere], GatewayError::SignatureInstructionMissing);
}

#[test]
fn the_members_word_is_about_this_payment_alone() {
    let verifiers = Verifiers::new(2, 3);
    let (mut world, payment) = secured(verifiers.id());
    let domain = world.domain();
    let [_, release] = payment.release_by(&world, &verifiers, &[0, 1]);
    let [_, cancel] = payment.cancel_by(&world, &verifiers, &[0, 1]);
    let elsewhere = Domain { cluster_id: [0xc2; 32], ..domain };
    let (mut other_quote, mut other_settler) = (payment.delivery(), payment.delivery());
    other_quote.quote_hash = [2; 32];
    other_settler.settler = key(&world.third_party);
    for (proof, end) in [
        (verifiers.sign(&payment.non_delivery(), &domain, &[0, 1]), &release),
        (verifiers.sign(&payment.delivery(), &elsewhere, &[0, 1]), &release),
        (verifiers.sign(&other_quote, &domain, &[0, 1]), &release),
        (verifiers.sign(&other_settler, &domain, &[0, 1]), &release),
        (verifiers.sign(&payment.delivery(), &domain, &[0, 1]), &cancel),
        (verifiers.sign(&payment.non_delivery(), &elsewhere, &[0, 1]), &cancel),
    ] {
        let pair = [proof, end.clone()];
        refused_though_signed(&mut world, &payment, pair, GatewayError::SignedMessageMismatch);
    }
}

/// Whoever can choose the releaser chooses the hash, too: what is no set is none whatever it hashes to.
#[test]
fn what_is_no_set_is_refused_under_its_own_hash() {
    let members = Verifiers::new(2, 3).members;
    let many = Verifiers::new(1, 17).members;
    let encoded = |threshold: u8, count: u8, members: &[Key]| [&[threshold, count], members.as_flattened()].concat();
    let [one, two, three] = [members[0], members[1], members[2]];
    let broken = [
        ("no threshold", encoded(0, 3, &members)),
        ("more than there are", encoded(4, 3, &members)),
        ("nobody", encoded(0, 0, &[])),
        ("nobody, and one has to sign", encoded(1, 0, &[])),
        ("too many", encoded(1, 17, &many)),
        ("more than are counted", encoded(2, 2, &members)),
        ("fewer than are counted", encoded(2, 4, &members)),
        ("a byte behind", [encoded(2, 3, &members), vec![0]].concat()),
        ("out of order", encoded(2, 3, &[two, one, three])),
        ("a member twice", encoded(2, 3, &[one, one, two])),
        ("one twice, for both", encoded(2, 2, &[one, one])),
    ];
    for (what, set) in broken {
        let id: Key = Sha256::digest([b"gw-verifier-set\x01", &set[..]].concat()).into();
        let (mut world, payment) = secured(id);
        let verifiers = Verifiers::new(set[0].clamp(1, 3), 3);
        let who: Vec<_> = (0..usize::from(set[0].min(3))).collect();
        let proofs = [
            (verifiers.sign(&payment.delivery(), &world.domain(), &who), payment.release(&world)),
            (verifiers.sign(&payment.non_delivery(), &world.domain(), &who), payment.cancel(&world)),
        ];
        for (mut proof, [_, mut end]) in proofs {
            if who.is_empty() {
                // The precompile takes no signatures where nothing stands behind them.
                proof.data.truncate(2);
            }
            end.data.extend(&set);
            let third_party = world.third_party.insecure_clone();
            let outcome = world.send(&[proof, end], &[&third_party]);
            assert!(outcome.is_err(), "{what}: {outcome:?}");
            refused(outcome, GatewayError::VerifierSetInvalid);
        }
        assert_eq!(world.tokens(&payment.vault(&world)), 250, "{what}");
    }
}

#[test]
fn another_set_than_the_payers_is_refused() {
    let verifiers = Verifiers::new(2, 3);
    let (mut world, payment) = secured(verifiers.id());
    // Fewer have to sign, or more, or there is one more, or one less, or one other.
    let mut other = Verifiers::new(2, 4);
    other.members.retain(|member| *member != verifiers.members[0]);
    other.keypairs.retain(|keypair| key(keypair) != verifiers.members[0]);
    for other in [Verifiers::new(1, 3), Verifiers::new(3, 3), Verifiers::new(2, 4), Verifiers::new(2, 2), other] {
        let who: Vec<_> = (0..usize::from(other.threshold)).collect();
        let release = payment.release_by(&world, &other, &who);
        refused_though_signed(&mut world, &payment, release, GatewayError::VerifierSetMismatch);
        let cancel = payment.cancel_by(&world, &other, &who);
        refused_though_signed(&mut world, &payment, cancel, GatewayError::VerifierSetMismatch);
    }
}

#[test]
fn a_key_is_no_set_and_a_set_no_key() {
    // The releaser is a key: a set of it alone has another id.
    let lone = Verifiers::new(1, 1);
    let (mut world, payment) = secured(lone.members[0]);
    let release = payment.release_by(&world, &lone, &[0]);
    refused_though_signed(&mut world, &payment, release.clone(), GatewayError::VerifierSetMismatch);
    let cancel = payment.cancel_by(&world, &lone, &[0]);
    refused_though_signed(&mut world, &payment, cancel, GatewayError::VerifierSetMismatch);
    // Its signature is the same bytes in both forms.
    let single = sign(&payment.delivery(), &world.domain(), &lone.keypairs[0]);
    assert_eq!((release[0].data.len(), &release[0]), (ed25519::SIZE, &single));
    let third_party = world.third_party.insecure_clone();
    let [_, plain] = payment.release(&world);
    world.send(&[single, plain], &[&third_party]).unwrap();

    // The releaser is a set: without it no member is the releaser, nor are two.
    let verifiers = Verifiers::new(2, 3);
    let (mut world, payment) = secured(verifiers.id());
    let ([_, release], [_, cancel]) = (payment.release(&world), payment.cancel(&world));
    for (who, error) in [(&[0][..], GatewayError::SignerMismatch), (&[0, 1], GatewayError::SignatureFormInvalid)] {
        let proof = verifiers.sign(&payment.delivery(), &world.domain(), who);
        refused_though_signed(&mut world, &payment, [proof, release.clone()], error);
        let proof = verifiers.sign(&payment.non_delivery(), &world.domain(), who);
        refused_though_signed(&mut world, &payment, [proof, cancel.clone()], error);
    }
}
