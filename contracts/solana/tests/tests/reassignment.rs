//! Reassignments: an escrow whose settler did not deliver is reserved for another, by the reserver and with the releaser's word, and
//! in no other way.

use gateway_program::{
    GatewayError, Key,
    account::{ANY_QUOTE, Escrow, REASSIGNMENTS_MAX, State},
    host::{self, Message},
    ids,
    instruction::{Attested, Reassign},
    log,
    message::Domain,
};
use gateway_program_tests::{Extension, MintKind, Payment, Verifiers, World, key, keypair, refused, sign};
use solana_account::Account;

use crate::escrow_states::base64;

const KINDS: [MintKind<'static>; 2] = [MintKind::Token, MintKind::Token2022(&[Extension::MetadataPointer])];

/// A world with the payment in escrow, one second after its settler's time, and another settler.
fn lapsed(kind: MintKind) -> (World, Payment, Reassign) {
    lapsed_for(kind, None)
}

fn lapsed_for(kind: MintKind, releaser: Option<Key>) -> (World, Payment, Reassign) {
    let mut world = World::new();
    let mut payment = Payment::new(&mut world, kind);
    payment.data.releaser = releaser.unwrap_or(payment.data.releaser);
    payment.deposit(&mut world).unwrap();
    world.set_time(payment.data.fulfill_by + 1);
    let next = payment.next(&world);
    (world, payment, next)
}

/// Requires that the reassignment to `to` is refused with `error`, and that nothing changed.
#[track_caller]
fn refused_to(world: &mut World, payment: &Payment, to: &Reassign, error: GatewayError) {
    let instructions = payment.reassign(world, to);
    refused_with(world, payment, &instructions, error);
}

#[track_caller]
fn refused_with(world: &mut World, payment: &Payment, instructions: &[host::Instruction], error: GatewayError) {
    let before = world.escrow(&payment.data.payment_id);
    refused(payment.submit(world, instructions), error);
    assert_eq!(world.escrow(&payment.data.payment_id), before);
}

/// The precompile's index, behind the fixed part of the data.
fn at_index(mut reassign: host::Instruction, index: u8) -> host::Instruction {
    reassign.data[Reassign::SIZE] = index;
    reassign
}

#[test]
fn the_next_settler_is_reserved_for_and_paid() {
    for kind in KINDS {
        let (mut world, payment, to) = lapsed(kind);
        let before = world.escrow(&payment.data.payment_id).unwrap();
        world.svm.warp_to_slot(before.secured_slot() + 70);
        world.set_time(world.now);
        let instructions = payment.reassign(&world, &to);
        let done = payment.submit(&mut world, &instructions).unwrap();

        let escrow = world.escrow(&payment.data.payment_id).unwrap();
        let expected = Escrow {
            state: before.state + 4,
            settler: to.settler,
            source_amount: 240,
            quote_hash: to.quote_hash,
            fulfill_by: to.fulfill_by,
            slots: escrow.slots,
            ..before.clone()
        };
        assert_eq!(escrow, expected, "nothing else is touched");
        assert_eq!((escrow.state(), escrow.reassignments()), (Some(State::Reserved), 1));
        let slots = (escrow.secured_slot(), escrow.reassigned_slot(), escrow.ended_slot);
        assert_eq!(slots, (before.secured_slot(), Some(before.secured_slot() + 70), ANY_QUOTE));
        assert_eq!(world.tokens(&payment.vault(&world)), 250);
        let reassigned = log::Reassigned {
            payment_id: payment.data.payment_id,
            previous_quote_hash: payment.data.quote_hash,
            quote_hash: to.quote_hash,
        };
        let reserved = log::Reserved {
            payment_id: payment.data.payment_id,
            quote_hash: to.quote_hash,
            settler: to.settler,
            source_amount: 240,
            fulfill_by: to.fulfill_by,
        };
        let lines: Vec<_> = done.logs.iter().filter_map(|line| line.strip_prefix("Program data: ")).collect();
        assert_eq!(lines, [base64(&reassigned.to_bytes()), base64(&reserved.to_bytes())]);

        let payment = payment.reassigned(&to);
        let settler = world.mint_to(&payment.accounts.mint, &to.settler, 1);
        let third_party = world.third_party.insecure_clone();
        let release = payment.release(&world);
        world.send(&release, &[&third_party]).unwrap();
        assert_eq!(world.tokens(&settler), 241);
        let escrow = world.escrow(&payment.data.payment_id).unwrap();
        assert_eq!((escrow.state(), escrow.reassignments(), escrow.remainder()), (Some(State::Released), 1, 10));
        assert_eq!(escrow.reassigned_slot(), Some(before.secured_slot() + 70));
    }
}

#[test]
fn the_word_of_a_set_reassigns_and_so_does_that_of_a_set_of_one() {
    for (threshold, count, who) in [(1, 1, &[0][..]), (2, 3, &[0, 2]), (3, 5, &[1, 2, 4])] {
        let verifiers = Verifiers::new(threshold, count);
        let (mut world, payment, to) = lapsed_for(MintKind::Token, Some(verifiers.id()));
        // One is missing, one too many, one twice, out of order, a key's word alone, and another set's.
        let form = GatewayError::SignatureFormInvalid;
        for wrong in [&who[1..], &[who, &[0]].concat()] {
            if wrong.is_empty() {
                continue;
            }
            let instructions = payment.reassign_by(&world, &to, &verifiers, wrong);
            refused_with(&mut world, &payment, &instructions, form);
        }
        if who.len() > 1 {
            let reversed: Vec<_> = who.iter().rev().copied().collect();
            let instructions = payment.reassign_by(&world, &to, &verifiers, &reversed);
            refused_with(&mut world, &payment, &instructions, GatewayError::SignerMismatch);
        }
        refused_to(&mut world, &payment, &to, GatewayError::SignerMismatch);
        let other = Verifiers::new(1, count + 1);
        let instructions = payment.reassign_by(&world, &to, &other, &[0]);
        refused_with(&mut world, &payment, &instructions, GatewayError::VerifierSetMismatch);

        let instructions = payment.reassign_by(&world, &to, &verifiers, who);
        payment.submit(&mut world, &instructions).unwrap();
        let escrow = world.escrow(&payment.data.payment_id).unwrap();
        assert_eq!((escrow.settler, escrow.quote_hash), (to.settler, to.quote_hash));
    }
}

#[test]
fn nothing_is_reassigned_before_the_settlers_time_is_over() {
    let (mut world, payment, mut to) = lapsed(MintKind::Token);
    to.fulfill_by = payment.data.fulfillment_deadline;
    for early in [300, 1, 0] {
        world.set_time(payment.data.fulfill_by - early);
        refused_to(&mut world, &payment, &to, GatewayError::ReservationNotOver);
    }
    world.set_time(payment.data.fulfill_by + 1);
    let instructions = payment.reassign(&world, &to);
    payment.submit(&mut world, &instructions).unwrap();
}

#[test]
fn the_new_promise_lies_ahead_and_within_the_payers_time() {
    let (mut world, payment, to) = lapsed(MintKind::Token);
    let now = world.now;
    for (fulfill_by, error) in [
        (0, GatewayError::FulfillByPassed),
        (now - 1, GatewayError::FulfillByPassed),
        (now, GatewayError::FulfillByPassed),
        (payment.data.fulfillment_deadline + 1, GatewayError::FulfillByTooLate),
        (payment.data.refund_after, GatewayError::FulfillByTooLate),
        (u64::MAX, GatewayError::FulfillByTooLate),
    ] {
        refused_to(&mut world, &payment, &Reassign { fulfill_by, ..to.clone() }, error);
    }
    world.set_time(payment.data.fulfillment_deadline);
    let last = Reassign { fulfill_by: payment.data.fulfillment_deadline, ..to.clone() };
    refused_to(&mut world, &payment, &last, GatewayError::FulfillByPassed);
    world.set_time(payment.data.fulfillment_deadline - 1);
    let instructions = payment.reassign(&world, &last);
    payment.submit(&mut world, &instructions).unwrap();
}

#[test]
fn only_what_was_deposited_can_be_asked_for_and_by_whom_it_can_be_paid() {
    let (mut world, payment, to) = lapsed(MintKind::Token);
    for (source_amount, error) in [
        (0, GatewayError::AmountZero),
        (251, GatewayError::AmountAboveCap),
        // The payer signed for as much.
        (300, GatewayError::AmountAboveCap),
        (u64::MAX, GatewayError::AmountAboveCap),
    ] {
        refused_to(&mut world, &payment, &Reassign { source_amount, ..to.clone() }, error);
    }
    let own = [
        [0; 32],
        world.program,
        payment.vault(&world),
        host::escrow_address(&world.program, &payment.data.payment_id).key,
        host::config_address(&world.program).key,
    ];
    for settler in own {
        refused_to(&mut world, &payment, &Reassign { settler, ..to.clone() }, GatewayError::SettlerInvalid);
    }
    let whole = Reassign { source_amount: 250, ..to };
    let instructions = payment.reassign(&world, &whole);
    payment.submit(&mut world, &instructions).unwrap();
}

#[test]
fn a_quote_that_the_payer_signed_for_stays() {
    let mut world = World::new();
    let mut payment = Payment::new(&mut world, MintKind::Token);
    payment.data.agreed_quote_hash = payment.data.quote_hash;
    payment.deposit(&mut world).unwrap();
    assert_eq!(world.escrow(&payment.data.payment_id).unwrap().ended_slot, 0);
    world.set_time(payment.data.fulfill_by + 1);
    let to = payment.next(&world);
    refused_to(&mut world, &payment, &to, GatewayError::QuoteHashMismatch);
    let third_party = world.third_party.insecure_clone();
    let cancel = payment.cancel(&world);
    world.send(&cancel, &[&third_party]).unwrap();
}

/// The record as the version without reassignments wrote it tells nothing of what the payer signed for.
#[test]
fn an_escrow_of_an_older_version_ends_as_ever_and_stays_where_it_is() {
    for end in ["release", "cancel"] {
        let (mut world, payment, to) = lapsed(MintKind::Token);
        let address = host::escrow_address(&world.program, &payment.data.payment_id).key;
        let mut account = world.account(&address).unwrap();
        let old = Escrow { ended_slot: 0, ..Escrow::from_bytes(&account.data).unwrap() };
        account.data = old.to_bytes().to_vec();
        world.put(address, account);
        refused_to(&mut world, &payment, &to, GatewayError::QuoteHashMismatch);
        let third_party = world.third_party.insecure_clone();
        let instructions = if end == "release" { payment.release(&world) } else { payment.cancel(&world) };
        world.send(&instructions, &[&third_party]).unwrap();
        assert!(world.account(&payment.vault(&world)).is_none());
    }
}

#[test]
fn the_instruction_serves_once_and_for_the_reservation_that_it_names() {
    let (mut world, payment, to) = lapsed(MintKind::Token);
    let another = Reassign { previous_quote_hash: [0x55; 32], ..to.clone() };
    refused_to(&mut world, &payment, &another, GatewayError::ReservationMismatch);
    let same = Reassign { quote_hash: payment.data.quote_hash, ..to.clone() };
    refused_to(&mut world, &payment, &same, GatewayError::QuoteNotAnother);

    let first = payment.reassign(&world, &to);
    payment.submit(&mut world, &first).unwrap();
    refused_with(&mut world, &payment, &first, GatewayError::ReservationMismatch);
    // The reserver signs for the same settler again, with the word about the one before.
    let again = Reassign { previous_quote_hash: to.quote_hash, quote_hash: [0x92; 32], ..to.clone() };
    refused_to(&mut world, &payment, &again, GatewayError::ReservationNotOver);
    world.set_time(to.fulfill_by + 1);
    let again = Reassign { fulfill_by: world.now + 10, ..again };
    refused_to(&mut world, &payment, &again, GatewayError::SignedMessageMismatch);
    refused_with(&mut world, &payment, &first, GatewayError::ReservationMismatch);
}

#[test]
fn what_was_said_of_the_settler_before_ends_nothing() {
    let (mut world, payment, to) = lapsed(MintKind::Token);
    let third_party = world.third_party.insecure_clone();
    let instructions = payment.reassign(&world, &to);
    payment.submit(&mut world, &instructions).unwrap();
    let next = payment.reassigned(&to);
    world.mint_to(&next.accounts.mint, &to.settler, 1);
    let mismatch = GatewayError::SignedMessageMismatch;
    let ([cancelling, _], [releasing, _]) = (payment.cancel(&world), payment.release(&world));
    let ([_, cancel], [_, release]) = (next.cancel(&world), next.release(&world));
    refused(world.send(&[cancelling, cancel], &[&third_party]), mismatch);
    refused(world.send(&[releasing.clone(), release], &[&third_party]), mismatch);
    // Nor to the account of the settler before.
    let [_, to_the_first] = payment.release(&world);
    refused(world.send(&[releasing, to_the_first.clone()], &[&third_party]), mismatch);
    let [word, _] = next.release(&world);
    refused(world.send(&[word, to_the_first], &[&third_party]), GatewayError::TokenAddressMismatch);

    let cancel = next.cancel(&world);
    world.send(&cancel, &[&third_party]).unwrap();
    assert_eq!(world.tokens(&payment.accounts.payer_token), 1_000, "the whole deposit");
    let escrow = world.escrow(&payment.data.payment_id).unwrap();
    assert_eq!((escrow.state(), escrow.reassignments()), (Some(State::Refunded), 1));
}

#[test]
fn a_reassigned_escrow_is_refunded_when_the_payers_time_comes() {
    let (mut world, payment, to) = lapsed(MintKind::Token);
    let instructions = payment.reassign(&world, &to);
    payment.submit(&mut world, &instructions).unwrap();
    world.set_time(payment.data.refund_after);
    let third_party = world.third_party.insecure_clone();
    let (release, refund) = (payment.reassigned(&to).release(&world), payment.refund(&world));
    refused(world.send(&release, &[&third_party]), GatewayError::ReleaseWindowClosed);
    world.send(&[refund], &[&third_party]).unwrap();
    assert_eq!(world.tokens(&payment.accounts.payer_token), 1_000);
}

#[test]
fn an_ended_escrow_is_not_reassigned() {
    for end in ["release", "cancel", "refund"] {
        let (mut world, payment, mut to) = lapsed(MintKind::Token);
        let third_party = world.third_party.insecure_clone();
        match end {
            "release" => world.send(&payment.release(&world), &[&third_party]).unwrap(),
            "cancel" => world.send(&payment.cancel(&world), &[&third_party]).unwrap(),
            _ => {
                world.set_time(payment.data.refund_after);
                world.send(&[payment.refund(&world)], &[&third_party]).unwrap()
            }
        };
        to.fulfill_by = world.now + 10;
        refused_to(&mut world, &payment, &to, GatewayError::StateNotAllowed);
    }
}

#[test]
fn one_settler_after_the_other_until_the_record_counts_no_more() {
    let mut world = World::new();
    let mut payment = Payment::new(&mut world, MintKind::Token);
    payment.data.fulfill_by = world.now + 1;
    payment.deposit(&mut world).unwrap();
    let secured = world.escrow(&payment.data.payment_id).unwrap().secured_slot();
    for round in 1..=REASSIGNMENTS_MAX + 1 {
        world.set_time(payment.data.fulfill_by + 1);
        world.svm.warp_to_slot(secured + u64::from(round));
        world.set_time(world.now);
        let to = Reassign {
            quote_hash: [round; 32],
            settler: key(&keypair(70 + round)),
            // More than the one before asked for, too.
            source_amount: if round % 2 == 0 { 250 } else { 200 },
            fulfill_by: world.now + 1,
            ..payment.next(&world)
        };
        if round > REASSIGNMENTS_MAX {
            refused_to(&mut world, &payment, &to, GatewayError::ReassignmentsUsedUp);
            break;
        }
        let instructions = payment.reassign(&world, &to);
        payment.submit(&mut world, &instructions).unwrap();
        payment = payment.reassigned(&to);
        let escrow = world.escrow(&payment.data.payment_id).unwrap();
        assert_eq!((escrow.reassignments(), escrow.quote_hash), (round, [round; 32]));
        assert_eq!(escrow.reassigned_slot(), Some(secured + u64::from(round)));
    }
    let third_party = world.third_party.insecure_clone();
    let cancel = payment.cancel(&world);
    world.send(&cancel, &[&third_party]).unwrap();
    let escrow = world.escrow(&payment.data.payment_id).unwrap();
    assert_eq!((escrow.state(), escrow.reassignments()), (Some(State::Refunded), REASSIGNMENTS_MAX));
    assert_eq!(world.tokens(&payment.accounts.payer_token), 1_000);
}

#[test]
fn an_escrow_that_is_older_than_its_record_counts_slots_is_not_reassigned() {
    const MOST: u64 = (1 << 24) - 1;
    let (mut world, payment, to) = lapsed(MintKind::Token);
    let secured = world.escrow(&payment.data.payment_id).unwrap().secured_slot();
    world.svm.warp_to_slot(secured + MOST + 1);
    world.set_time(world.now);
    refused_to(&mut world, &payment, &to, GatewayError::ReassignmentsUsedUp);
    world.svm.warp_to_slot(secured + MOST);
    world.set_time(world.now);
    let instructions = payment.reassign(&world, &to);
    payment.submit(&mut world, &instructions).unwrap();
    let escrow = world.escrow(&payment.data.payment_id).unwrap();
    assert_eq!((escrow.secured_slot(), escrow.reassigned_slot()), (secured, Some(secured + MOST)));
}

#[test]
fn the_reserver_signs() {
    let (mut world, payment, to) = lapsed(MintKind::Token);
    let submitter = world.submitter.insecure_clone();
    let mut unsigned = payment.reassign(&world, &to);
    unsigned[1].accounts[0].signer = false;
    refused(world.send(&unsigned, &[&submitter]), GatewayError::SignatureMissing);
    let others = [&world.third_party, &world.settler, &world.payer, &world.releaser, &world.authority];
    for other in others.map(|other| other.insecure_clone()) {
        let mut instructions = payment.reassign(&world, &to);
        instructions[1].accounts[0].key = key(&other);
        refused(world.send(&instructions, &[&submitter, &other]), GatewayError::ReserverNotAdmitted);
    }
    // Who sends it may be anyone.
    let (third_party, reserver) = (world.third_party.insecure_clone(), world.reserver.insecure_clone());
    let instructions = payment.reassign(&world, &to);
    world.send(&instructions, &[&third_party, &reserver]).unwrap();
}

#[test]
fn only_the_releasers_word_about_this_reservation_counts() {
    let (mut world, payment, to) = lapsed(MintKind::Token);
    let domain = world.domain();
    let [_, reassign] = payment.reassign(&world, &to);
    let others = [&world.payer, &world.settler, &world.reserver, &world.third_party];
    for signer in others.map(|signer| signer.insecure_clone()) {
        let word = sign(&payment.non_delivery(), &domain, &signer);
        refused_with(&mut world, &payment, &[word, reassign.clone()], GatewayError::SignerMismatch);
    }
    let (mut other_quote, mut other_payment) = (payment.non_delivery(), payment.non_delivery());
    other_quote.quote_hash = to.quote_hash;
    other_payment.payment_id = [2; 32];
    let elsewhere = Domain { cluster_id: [0xc2; 32], ..domain };
    let other_program = Domain { program_id: [0xc2; 32], ..domain };
    for word in [
        sign(&payment.delivery(), &domain, &world.releaser),
        sign(&other_quote, &domain, &world.releaser),
        sign(&other_payment, &domain, &world.releaser),
        sign(&payment.non_delivery(), &elsewhere, &world.releaser),
        sign(&payment.non_delivery(), &other_program, &world.releaser),
    ] {
        refused_with(&mut world, &payment, &[word, reassign.clone()], GatewayError::SignedMessageMismatch);
    }
    let missing = GatewayError::SignatureInstructionMissing;
    refused_with(&mut world, &payment, std::slice::from_ref(&reassign), missing);
    let [word, _] = payment.reassign(&world, &to);
    refused_with(&mut world, &payment, &[word.clone(), at_index(reassign.clone(), 1)], missing);
    refused_with(&mut world, &payment, &[word.clone(), at_index(reassign.clone(), 9)], missing);
    payment.submit(&mut world, &[at_index(reassign, 1), word]).unwrap();
}

/// As for release and cancellation: what the precompile reads must be what is shown.
#[test]
fn every_byte_of_the_precompiles_header_is_prescribed() {
    let (mut world, payment, to) = lapsed(MintKind::Token);
    let [honest, reassign] = payment.reassign(&world, &to);
    let digest = payment.non_delivery().digest(&world.domain());
    let third_party = world.third_party.insecure_clone();
    // What the precompile reads is the stranger's own signature, behind; shown is the releaser's key.
    let strangers = sign(&payment.non_delivery(), &world.domain(), &third_party).data;
    let shown = gateway_program::ed25519::data(&payment.data.releaser, &[0; 64], &digest);
    let mut data = [&shown[..], &strangers[16..]].concat();
    for (field, to) in [(0, 176_u16), (2, 144), (4, 240)] {
        data[2 + 2 * field..4 + 2 * field].copy_from_slice(&to.to_le_bytes());
    }
    let moved = host::Instruction { program_id: ids::ED25519_PROGRAM, accounts: vec![], data };
    world.send(std::slice::from_ref(&moved), &[&third_party]).expect("the precompile itself is content");
    let form = GatewayError::SignatureFormInvalid;
    refused_with(&mut world, &payment, &[moved, reassign.clone()], form);
    // Read from an instruction beside, by its number.
    for field in [1, 3, 6] {
        let mut pointing = honest.clone();
        pointing.data[2 + 2 * field..4 + 2 * field].copy_from_slice(&2_u16.to_le_bytes());
        refused_with(&mut world, &payment, &[pointing, reassign.clone(), honest.clone()], form);
    }
    let (mut padded, mut longer) = (honest.clone(), honest.clone());
    padded.data[1] = 1;
    longer.data.push(0);
    for broken in [padded, longer] {
        refused_with(&mut world, &payment, &[broken, reassign.clone()], form);
    }
    let mut elsewhere = honest;
    elsewhere.program_id = world.program;
    let outcome = payment.submit(&mut world, &[at_index(reassign, 1), elsewhere]);
    refused(outcome, GatewayError::SignatureInstructionMissing);
}

#[test]
fn every_account_and_every_length_is_checked() {
    let (mut world, payment, to) = lapsed(MintKind::Token);
    let escrow = host::escrow_address(&world.program, &payment.data.payment_id).key;
    let config = host::config_address(&world.program).key;
    let forged = world.account(&escrow).unwrap().data;
    let program = world.program;
    let put = |world: &mut World, at: Key, owner: Key| {
        let (lamports, owner, data) = (10_000_000, owner.into(), forged.clone());
        world.put(at, Account { lamports, data, owner, executable: false, rent_epoch: u64::MAX });
    };
    put(&mut world, [0x55; 32], program);
    put(&mut world, [0x56; 32], ids::SYSTEM_PROGRAM);
    for (index, replacement, error) in [
        (1, [0x55; 32], GatewayError::EscrowInvalid),
        (1, [0x56; 32], GatewayError::EscrowInvalid),
        (1, payment.vault(&world), GatewayError::EscrowInvalid),
        (1, config, GatewayError::EscrowInvalid),
        (2, [0x55; 32], GatewayError::ConfigInvalid),
        (2, escrow, GatewayError::ConfigInvalid),
        (3, [0x57; 32], GatewayError::InstructionsSysvarInvalid),
    ] {
        let mut instructions = payment.reassign(&world, &to);
        instructions[1].accounts[index].key = replacement;
        refused_with(&mut world, &payment, &instructions, error);
    }
    let [word, reassign] = payment.reassign(&world, &to);
    let mut unwritable = reassign.clone();
    unwritable.accounts[1].writable = false;
    refused_with(&mut world, &payment, &[word.clone(), unwritable], GatewayError::AccountNotWritable);
    let (mut fewer, mut more) = (reassign.clone(), reassign.clone());
    fewer.accounts.pop();
    more.accounts.push(reassign.accounts[3].clone());
    for other in [fewer, more] {
        refused_with(&mut world, &payment, &[word.clone(), other], GatewayError::AccountsInvalid);
    }
    for length in [1, Reassign::SIZE - 1, Reassign::SIZE] {
        let mut short = reassign.clone();
        short.data.truncate(length);
        refused_with(&mut world, &payment, &[word.clone(), short], GatewayError::InstructionInvalid);
    }
    let mut longer = reassign.clone();
    longer.data.push(0);
    refused_with(&mut world, &payment, &[word.clone(), longer], GatewayError::VerifierSetInvalid);
    let (read, attested) = Reassign::with_word(&reassign.data).unwrap();
    assert_eq!((read, attested), (to, Attested { ed25519_index: 0, set: None }));
    payment.submit(&mut world, &[word, reassign]).unwrap();
}
