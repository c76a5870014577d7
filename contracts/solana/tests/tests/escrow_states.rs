//! The states of an escrow, in both token programs: who, when, with whose word, and that every lamport comes back.

use gateway_program::{
    GatewayError,
    account::{ANY_QUOTE, State},
    host, log,
    rules::RECLAIM_DELAY_SECONDS,
};
use gateway_program_tests::{Extension, MintKind, Payment, World, custom_code, key, keypair, refused, sign};

const KINDS: [MintKind<'static>; 3] =
    [MintKind::Token, MintKind::Token2022(&[]), MintKind::Token2022(&[Extension::MetadataPointer])];

/// `TokenError::NonNativeHasBalance` of both token programs.
const NON_NATIVE_HAS_BALANCE: u32 = 11;

fn program_lines(logs: &[String]) -> Vec<String> {
    logs.iter().filter_map(|line| line.strip_prefix("Program data: ")).map(str::to_owned).collect()
}

#[test]
fn a_deposit_is_locked_and_recorded() {
    for kind in KINDS {
        let mut world = World::new();
        let payment = Payment::new(&mut world, kind);
        let slot = 77;
        world.svm.warp_to_slot(slot);
        world.set_time(world.now);
        let done = payment.deposit(&mut world).unwrap();

        assert_eq!(world.tokens(&payment.accounts.payer_token), 750);
        assert_eq!(world.tokens(&payment.vault(&world)), 250);
        let escrow = world.escrow(&payment.data.payment_id).unwrap();
        let d = &payment.data;
        assert_eq!(escrow.state(), Some(State::Reserved));
        assert_eq!((escrow.payer, escrow.settler, escrow.releaser), (d.payer, d.settler, d.releaser));
        assert_eq!((escrow.rent_payer, escrow.reserver), (key(&world.submitter), key(&world.reserver)));
        assert_eq!((escrow.mint, escrow.token_program), (payment.accounts.mint, kind.program()));
        assert_eq!((escrow.deposited, escrow.source_amount), (250, 250));
        assert_eq!((escrow.terms_hash, escrow.quote_hash), (d.terms_hash, d.quote_hash));
        assert_eq!(
            (escrow.reserve_deadline, escrow.fulfillment_deadline),
            (d.reserve_deadline, d.fulfillment_deadline)
        );
        assert_eq!((escrow.fulfill_by, escrow.refund_after), (d.fulfill_by, d.refund_after));
        assert_eq!((escrow.secured_slot(), escrow.ended_slot), (slot, ANY_QUOTE));
        assert_eq!((escrow.reassignments(), escrow.reassigned_slot()), (0, None));
        assert_eq!(program_lines(&done.logs).len(), 2, "deposited and reserved");
    }
}

#[test]
fn a_release_pays_the_settler_and_returns_the_vault() {
    for kind in KINDS {
        let mut world = World::new();
        let payment = Payment::new(&mut world, kind);
        payment.deposit(&mut world).unwrap();
        let vault_rent = world.lamports(&payment.vault(&world));
        let before = world.lamports(&key(&world.submitter));
        let instructions = payment.release(&world);
        let third_party = world.third_party.insecure_clone();
        let done = world.send(&instructions, &[&third_party]).unwrap();

        assert_eq!(world.tokens(&payment.token_of(&payment.data.settler)), 250);
        assert!(world.account(&payment.vault(&world)).is_none());
        assert_eq!(world.lamports(&key(&world.submitter)), before + vault_rent);
        let escrow = world.escrow(&payment.data.payment_id).unwrap();
        assert_eq!(escrow.state(), Some(State::Released));
        let line = log::Released {
            payment_id: payment.data.payment_id,
            quote_hash: payment.data.quote_hash,
            settler: payment.data.settler,
            amount: 250,
            remainder: 0,
        };
        assert_eq!(program_lines(&done.logs), [base64(&line.to_bytes())]);
    }
}

#[test]
fn a_cancellation_pays_the_payer_back() {
    for kind in KINDS {
        let mut world = World::new();
        let payment = Payment::new(&mut world, kind);
        payment.deposit(&mut world).unwrap();
        let third_party = world.third_party.insecure_clone();
        let instructions = payment.cancel(&world);
        world.send(&instructions, &[&third_party]).unwrap();
        assert_eq!(world.tokens(&payment.accounts.payer_token), 1_000);
        assert!(world.account(&payment.vault(&world)).is_none());
        assert_eq!(world.escrow(&payment.data.payment_id).unwrap().state(), Some(State::Refunded));
    }
}

#[test]
fn anyone_may_refund_when_the_time_is_over_and_not_before() {
    for kind in KINDS {
        let mut world = World::new();
        let payment = Payment::new(&mut world, kind);
        payment.deposit(&mut world).unwrap();
        let third_party = world.third_party.insecure_clone();
        let refund = payment.refund(&world);

        world.set_time(payment.data.refund_after - 1);
        refused(world.send(std::slice::from_ref(&refund), &[&third_party]), GatewayError::RefundWindowNotOpen);
        world.set_time(payment.data.refund_after);
        let done = world.send(&[refund], &[&third_party]).unwrap();
        assert_eq!(world.tokens(&payment.accounts.payer_token), 1_000);
        assert_eq!(world.escrow(&payment.data.payment_id).unwrap().state(), Some(State::Refunded));
        let line = log::Refunded {
            payment_id: payment.data.payment_id,
            quote_hash: payment.data.quote_hash,
            payer: payment.data.payer,
            amount: 250,
        };
        assert_eq!(program_lines(&done.logs), [base64(&line.to_bytes())]);
    }
}

#[test]
fn a_refund_may_make_the_payers_token_account_in_the_same_transaction() {
    let mut world = World::new();
    let payment = Payment::new(&mut world, MintKind::Token);
    payment.deposit(&mut world).unwrap();
    // The payer empties and closes its account.
    let payer = world.payer.insecure_clone();
    let to = world.mint_to(&payment.accounts.mint, &key(&world.third_party), 1);
    let from = payment.accounts.payer_token;
    let meta = |key, signer, writable| host::AccountMeta { key, signer, writable };
    let move_all = host::Instruction {
        program_id: payment.accounts.token_program,
        accounts: vec![meta(from, false, true), meta(to, false, true), meta(key(&payer), true, false)],
        data: [&[3][..], &750_u64.to_le_bytes()].concat(),
    };
    let close = host::Instruction {
        program_id: payment.accounts.token_program,
        accounts: vec![meta(from, false, true), meta(key(&payer), false, true), meta(key(&payer), true, false)],
        data: vec![9],
    };
    world.send(&[move_all, close], &[&payer]).unwrap();
    assert!(world.account(&from).is_none());

    world.set_time(payment.data.refund_after);
    let third_party = world.third_party.insecure_clone();
    let accounts = &payment.accounts;
    let refund = payment.refund(&world);
    refused(world.send(std::slice::from_ref(&refund), &[&third_party]), GatewayError::TokenAccountInvalid);
    let create =
        host::create_associated_token(key(&third_party), &key(&payer), &accounts.mint, &accounts.token_program);
    world.send(&[create, refund], &[&third_party]).unwrap();
    assert_eq!(world.tokens(&from), 250);
}

#[test]
fn release_and_refund_are_never_possible_in_the_same_second() {
    for seconds_to_the_end in [2, 1, 0] {
        let mut world = World::new();
        let payment = Payment::new(&mut world, MintKind::Token);
        payment.deposit(&mut world).unwrap();
        let third_party = world.third_party.insecure_clone();
        world.set_time(payment.data.refund_after - seconds_to_the_end);
        let (release, cancel, refund) = (payment.release(&world), payment.cancel(&world), payment.refund(&world));
        if seconds_to_the_end == 0 {
            refused(world.send(&release, &[&third_party]), GatewayError::ReleaseWindowClosed);
            refused(world.send(&cancel, &[&third_party]), GatewayError::ReleaseWindowClosed);
            world.send(&[refund], &[&third_party]).unwrap();
        } else {
            refused(world.send(&[refund], &[&third_party]), GatewayError::RefundWindowNotOpen);
            world.send(&release, &[&third_party]).unwrap();
        }
    }
}

#[test]
fn an_end_is_final() {
    for end in ["release", "cancel", "refund"] {
        let mut world = World::new();
        let payment = Payment::new(&mut world, MintKind::Token);
        payment.deposit(&mut world).unwrap();
        let third_party = world.third_party.insecure_clone();
        let (release, cancel, refund) = (payment.release(&world), payment.cancel(&world), payment.refund(&world));
        match end {
            "release" => world.send(&release, &[&third_party]).unwrap(),
            "cancel" => world.send(&cancel, &[&third_party]).unwrap(),
            _ => {
                world.set_time(payment.data.refund_after);
                world.send(std::slice::from_ref(&refund), &[&third_party]).unwrap()
            }
        };
        let balances =
            [payment.accounts.payer_token, payment.token_of(&payment.data.settler)].map(|a| world.tokens(&a));
        refused(world.send(&release, &[&third_party]), GatewayError::StateNotAllowed);
        refused(world.send(&cancel, &[&third_party]), GatewayError::StateNotAllowed);
        world.set_time(payment.data.refund_after);
        refused(world.send(&[refund], &[&third_party]), GatewayError::StateNotAllowed);
        let after = [payment.accounts.payer_token, payment.token_of(&payment.data.settler)].map(|a| world.tokens(&a));
        assert_eq!(balances, after);
    }
}

#[test]
fn a_second_deposit_of_the_same_payment_is_refused_before_and_after_the_end() {
    let mut world = World::new();
    let payment = Payment::new(&mut world, MintKind::Token);
    payment.deposit(&mut world).unwrap();
    refused(payment.deposit(&mut world), GatewayError::PaymentIdUsed);
    let third_party = world.third_party.insecure_clone();
    let release = payment.release(&world);
    world.send(&release, &[&third_party]).unwrap();
    refused(payment.deposit(&mut world), GatewayError::PaymentIdUsed);
    assert_eq!(world.tokens(&payment.accounts.payer_token), 750);
}

#[test]
fn all_rent_comes_back_to_the_lamport() {
    let mut world = World::new();
    let payment = Payment::new(&mut world, MintKind::Token);
    let (submitter, reserver) = (world.submitter.insecure_clone(), world.reserver.insecure_clone());
    let before = world.lamports(&key(&submitter));
    let fee = payment.deposit(&mut world).unwrap().fee;
    let third_party = world.third_party.insecure_clone();
    let release = payment.release(&world);
    world.send(&release, &[&third_party]).unwrap();

    let reclaim = host::reclaim_escrow(&world.program, &payment.data.payment_id, key(&submitter));
    world.set_time(payment.data.refund_after + RECLAIM_DELAY_SECONDS - 1);
    refused(world.send(std::slice::from_ref(&reclaim), &[&third_party]), GatewayError::ReclaimTooEarly);
    world.set_time(payment.data.refund_after + RECLAIM_DELAY_SECONDS);
    let to_third_party = host::reclaim_escrow(&world.program, &payment.data.payment_id, key(&third_party));
    refused(world.send(&[to_third_party], &[&third_party]), GatewayError::RentPayerMismatch);
    world.send(&[reclaim], &[&third_party]).unwrap();
    assert!(world.account(&host::escrow_address(&world.program, &payment.data.payment_id).key).is_none());
    assert_eq!(world.lamports(&key(&submitter)), before - fee);

    // The id is free again, and what the payer signed is of no use any more.
    refused(
        world.send(&payment.deposit_by(&world, &world.payer), &[&submitter, &reserver]),
        GatewayError::ReserveWindowClosed,
    );
}

#[test]
fn an_escrow_that_has_not_ended_is_not_reclaimed() {
    let mut world = World::new();
    let payment = Payment::new(&mut world, MintKind::Token);
    payment.deposit(&mut world).unwrap();
    world.set_time(payment.data.refund_after + RECLAIM_DELAY_SECONDS);
    let third_party = world.third_party.insecure_clone();
    let reclaim = host::reclaim_escrow(&world.program, &payment.data.payment_id, key(&world.submitter));
    refused(world.send(&[reclaim], &[&third_party]), GatewayError::StateNotAllowed);
}

#[test]
fn a_delegate_signer_may_sign_for_the_payer() {
    let mut world = World::new();
    let mut payment = Payment::new(&mut world, MintKind::Token);
    let delegate = keypair(60);
    let payer = world.payer.insecure_clone();
    world.approve(&payer, &payment.accounts.mint, &key(&delegate), 300);
    payment.data.signer = key(&delegate);
    let instructions = payment.deposit_by(&world, &delegate);
    payment.submit(&mut world, &instructions).unwrap();
    assert_eq!(world.tokens(&payment.vault(&world)), 250);
}

#[test]
fn a_quote_that_the_payer_accepted_binds() {
    let mut world = World::new();
    let mut payment = Payment::new(&mut world, MintKind::Token);
    payment.data.agreed_quote_hash = [0x91; 32];
    refused(payment.deposit(&mut world), GatewayError::QuoteHashMismatch);
    payment.data.agreed_quote_hash = payment.data.quote_hash;
    payment.deposit(&mut world).unwrap();
}

#[test]
fn lamports_sent_before_do_not_stand_in_the_way() {
    let mut world = World::new();
    let payment = Payment::new(&mut world, MintKind::Token);
    let (escrow, vault) = (
        host::escrow_address(&world.program, &payment.data.payment_id).key,
        host::vault_address(&world.program, &payment.data.payment_id).key,
    );
    let submitter = key(&world.submitter);
    world.fund(&escrow, 1_000_000);
    world.fund(&vault, 50_000_000);
    let before = world.lamports(&submitter);
    let fee = payment.deposit(&mut world).unwrap().fee;
    let record_rent = world.lamports(&escrow);
    assert_eq!(world.lamports(&vault), 50_000_000);
    assert_eq!(before - world.lamports(&submitter), fee + record_rent - 1_000_000, "only what is missing is paid");

    let third_party = world.third_party.insecure_clone();
    let release = payment.release(&world);
    world.send(&release, &[&third_party]).unwrap();
    assert_eq!(world.tokens(&payment.token_of(&payment.data.settler)), 250);
}

#[test]
fn tokens_sent_to_the_vault_do_not_hold_up_the_end() {
    let mut world = World::new();
    let payment = Payment::new(&mut world, MintKind::Token);
    payment.deposit(&mut world).unwrap();
    let third_party = world.third_party.insecure_clone();
    let from = world.mint_to(&payment.accounts.mint, &key(&third_party), 5);
    let vault = payment.vault(&world);
    let meta = |key, signer, writable| host::AccountMeta { key, signer, writable };
    let gift = host::Instruction {
        program_id: payment.accounts.token_program,
        accounts: vec![meta(from, false, true), meta(vault, false, true), meta(key(&third_party), true, false)],
        data: [&[3][..], &5_u64.to_le_bytes()].concat(),
    };
    world.send(&[gift], &[&third_party]).unwrap();
    let release = payment.release(&world);
    world.send(&release, &[&third_party]).unwrap();
    assert_eq!(world.tokens(&payment.token_of(&payment.data.settler)), 255);
    assert!(world.account(&vault).is_none());
}

#[test]
fn who_is_owed_may_name_another_account_of_its_own_will_only() {
    let mut world = World::new();
    let payment = Payment::new(&mut world, MintKind::Token);
    payment.deposit(&mut world).unwrap();
    let own = payment.token_of(&payment.data.settler);
    let other = world.mint_to(&payment.accounts.mint, &key(&world.third_party), 1);
    let (third_party, settler) = (world.third_party.insecure_clone(), world.settler.insecure_clone());
    world.freeze(&payment.accounts.mint, &own, true);
    let release = payment.release(&world);
    refused(world.send(&release, &[&third_party]), GatewayError::TokenAccountInvalid);

    let mut elsewhere = release.clone();
    elsewhere[1].accounts[2].key = other;
    refused(world.send(&elsewhere, &[&third_party]), GatewayError::TokenAddressMismatch);
    // Named, but it does not sign.
    let receiver = |wallet, signer| host::AccountMeta { key: wallet, signer, writable: false };
    elsewhere[1].accounts.push(receiver(key(&settler), false));
    refused(world.send(&elsewhere, &[&third_party]), GatewayError::SignatureMissing);
    // Somebody else signs.
    elsewhere[1].accounts[8] = receiver(key(&third_party), true);
    refused(world.send(&elsewhere, &[&third_party]), GatewayError::TokenOwnerMismatch);
    // To the vault itself would be nowhere: the token program closes no account that holds something.
    elsewhere[1].accounts[8] = receiver(key(&settler), true);
    elsewhere[1].accounts[2].key = payment.vault(&world);
    assert_eq!(custom_code(&world.send(&elsewhere, &[&third_party, &settler])), Some(NON_NATIVE_HAS_BALANCE));
    elsewhere[1].accounts[2].key = other;
    world.send(&elsewhere, &[&third_party, &settler]).unwrap();
    assert_eq!(world.tokens(&other), 251);
}

#[test]
fn a_payer_whose_account_is_frozen_can_take_the_refund_elsewhere() {
    let mut world = World::new();
    let payment = Payment::new(&mut world, MintKind::Token);
    payment.deposit(&mut world).unwrap();
    let other = world.mint_to(&payment.accounts.mint, &key(&world.third_party), 1);
    let payer = world.payer.insecure_clone();
    world.freeze(&payment.accounts.mint, &payment.accounts.payer_token, true);
    world.set_time(payment.data.refund_after);
    let refund = host::paid_to(payment.refund(&world), other, key(&payer));
    world.send(&[refund], &[&payer]).unwrap();
    assert_eq!(world.tokens(&other), 251);
}

#[test]
fn windows_and_amounts_of_a_deposit() {
    type Break = fn(&mut Payment, u64);
    let cases: [(Break, GatewayError); 14] = [
        (|p, _| p.data.source_amount = 301, GatewayError::AmountAboveCap),
        (|p, _| p.data.source_amount = 0, GatewayError::AmountZero),
        (|p, _| p.data.payer = [0; 32], GatewayError::PayerMissing),
        (|p, _| p.data.releaser = [0; 32], GatewayError::ReleaserMissing),
        (|p, _| p.data.settler = [0; 32], GatewayError::SettlerInvalid),
        (|p, now| p.data.reserve_deadline = now - 1, GatewayError::ReserveWindowClosed),
        (|p, now| p.data.reserve_deadline = now + 601, GatewayError::WindowsOutOfOrder),
        (|p, _| p.data.refund_after = p.data.fulfillment_deadline, GatewayError::WindowsOutOfOrder),
        (|p, now| p.data.fulfill_by = now, GatewayError::FulfillByPassed),
        (|p, _| p.data.fulfill_by = p.data.fulfillment_deadline + 1, GatewayError::FulfillByTooLate),
        (|p, _| (p.data.cap, p.data.source_amount) = (u64::MAX, u64::MAX), GatewayError::AllowanceTooSmall),
        (|p, _| (p.data.cap, p.data.source_amount) = (301, 301), GatewayError::AllowanceTooSmall),
        (|p, _| p.data.payer = [9; 32], GatewayError::TokenOwnerMismatch),
        (|p, _| p.data.agreed_quote_hash = [1; 32], GatewayError::QuoteHashMismatch),
    ];
    for (breaks, error) in cases {
        let mut world = World::new();
        let mut payment = Payment::new(&mut world, MintKind::Token);
        breaks(&mut payment, world.now);
        refused(payment.deposit(&mut world), error);
        assert_eq!(world.tokens(&payment.accounts.payer_token), 1_000);
    }

    // The last second of each window is inside.
    let mut world = World::new();
    let mut payment = Payment::new(&mut world, MintKind::Token);
    let now = world.now;
    payment.data.reserve_deadline = now;
    payment.data.fulfill_by = now + 1;
    payment.data.fulfillment_deadline = now + 1;
    payment.data.refund_after = now + 2;
    payment.data.source_amount = 300;
    payment.deposit(&mut world).unwrap();
}

#[test]
fn more_than_the_payer_has_is_refused() {
    let mut world = World::new();
    let mut payment = Payment::new(&mut world, MintKind::Token);
    let payer = world.payer.insecure_clone();
    world.approve(&payer, &payment.accounts.mint, &key(&payer), 2_000);
    payment.data.cap = 2_000;
    payment.data.source_amount = 1_001;
    refused(payment.deposit(&mut world), GatewayError::BalanceTooSmall);
}

#[test]
fn an_account_of_the_program_is_no_settler() {
    let mut world = World::new();
    let mut payment = Payment::new(&mut world, MintKind::Token);
    let id = payment.data.payment_id;
    let program = world.program;
    for settler in [
        program,
        host::escrow_address(&program, &id).key,
        host::vault_address(&program, &id).key,
        host::config_address(&program).key,
    ] {
        payment.data.settler = settler;
        refused(payment.deposit(&mut world), GatewayError::SettlerInvalid);
    }
}

#[test]
fn a_word_for_one_payment_or_quote_does_not_end_another() {
    let mut world = World::new();
    let payment = Payment::new(&mut world, MintKind::Token);
    payment.deposit(&mut world).unwrap();
    let third_party = world.third_party.insecure_clone();
    let domain = world.domain();
    let mut changed = [payment.delivery(), payment.delivery(), payment.delivery()];
    changed[0].payment_id = [2; 32];
    changed[1].quote_hash = [2; 32];
    changed[2].settler = key(&world.third_party);
    for delivery in changed {
        let [_, release] = payment.release(&world);
        let word = sign(&delivery, &domain, &world.releaser);
        refused(world.send(&[word, release], &[&third_party]), GatewayError::SignedMessageMismatch);
    }
    // A non-delivery is no delivery, nor the other way round.
    let [delivery, release] = payment.release(&world);
    let [non_delivery, cancel] = payment.cancel(&world);
    refused(world.send(&[non_delivery, release], &[&third_party]), GatewayError::SignedMessageMismatch);
    refused(world.send(&[delivery, cancel], &[&third_party]), GatewayError::SignedMessageMismatch);
}

#[test]
fn an_instruction_of_another_length_or_tag_is_refused() {
    let mut world = World::new();
    let payment = Payment::new(&mut world, MintKind::Token);
    let [signature, deposit] = payment.deposit_by(&world, &world.payer);
    let mut longer = deposit.clone();
    longer.data.push(0);
    let mut shorter = deposit.clone();
    shorter.data.pop();
    let mut unknown = deposit.clone();
    unknown.data[0] = 16;
    let mut empty = deposit;
    empty.data.clear();
    for broken in [longer, shorter, unknown, empty] {
        refused(payment.submit(&mut world, &[signature.clone(), broken]), GatewayError::InstructionInvalid);
    }
    payment.deposit(&mut world).unwrap();
    let third_party = world.third_party.insecure_clone();
    let mut refund = payment.refund(&world);
    refund.data.push(0);
    refused(world.send(&[refund], &[&third_party]), GatewayError::InstructionInvalid);
    let [word, mut release] = payment.release(&world);
    release.data.pop();
    let outcome = world.send(&[word, release], &[&third_party]);
    assert_eq!(custom_code(&outcome), Some(GatewayError::InstructionInvalid.code()));
}

/// Base64 with padding, as the runtime writes log data.
pub fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let word = chunk.iter().fold(0_u32, |word, byte| word << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()));
        for index in 0..4 {
            let digit = ALPHABET[(word >> (18 - 6 * index) & 63) as usize] as char;
            text.push(if index <= chunk.len() { digit } else { '=' });
        }
    }
    text
}
