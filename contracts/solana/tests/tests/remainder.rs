//! Remainders: where the next settler asks less than was deposited, the rest is the payer's, and what stands in the way of the
//! payer's account never stands in that of the settler.

use gateway_program::{GatewayError, account::State, host, log, rules::RECLAIM_DELAY_SECONDS};
use gateway_program_tests::{MintKind, Payment, World, key, refused};

use crate::escrow_states::base64;

/// A world with the payment reassigned to a settler that asks 240 of the 250, and the token account which it is paid to.
fn reassigned(kind: MintKind) -> (World, Payment, gateway_program::Key) {
    let mut world = World::new();
    let payment = Payment::new(&mut world, kind);
    payment.deposit(&mut world).unwrap();
    world.set_time(payment.data.fulfill_by + 1);
    let to = payment.next(&world);
    let instructions = payment.reassign(&world, &to);
    payment.submit(&mut world, &instructions).unwrap();
    let settler = world.mint_to(&payment.accounts.mint, &to.settler, 1);
    let payment = payment.reassigned(&to);
    (world, payment, settler)
}

fn release(world: &mut World, payment: &Payment) -> Vec<String> {
    let third_party = world.third_party.insecure_clone();
    let instructions = payment.release(world);
    world.send(&instructions, &[&third_party]).unwrap().logs
}

#[test]
fn the_rest_goes_to_the_payer_once_and_after_the_release() {
    for kind in [MintKind::Token, MintKind::Token2022(&[])] {
        let (mut world, payment, settler) = reassigned(kind);
        let third_party = world.third_party.insecure_clone();
        let remainder = payment.return_remainder(&world);
        let early = world.send(std::slice::from_ref(&remainder), &[&third_party]);
        refused(early, GatewayError::StateNotAllowed);

        let lines = release(&mut world, &payment);
        let (payment_id, quote_hash) = (payment.data.payment_id, payment.data.quote_hash);
        let released =
            log::Released { payment_id, quote_hash, settler: payment.data.settler, amount: 240, remainder: 10 };
        assert!(lines.contains(&format!("Program data: {}", base64(&released.to_bytes()))));
        assert_eq!((world.tokens(&settler), world.tokens(&payment.vault(&world))), (241, 10));

        let vault_rent = world.lamports(&payment.vault(&world));
        let before = world.lamports(&key(&world.submitter));
        let done = world.send(std::slice::from_ref(&remainder), &[&third_party]).unwrap();
        let returned = log::RemainderReturned { payment_id, quote_hash, payer: payment.data.payer, amount: 10 };
        assert!(done.logs.contains(&format!("Program data: {}", base64(&returned.to_bytes()))));
        assert_eq!(world.tokens(&payment.accounts.payer_token), 760);
        assert!(world.account(&payment.vault(&world)).is_none());
        assert_eq!(world.lamports(&key(&world.submitter)), before + vault_rent);
        refused(world.send(&[remainder], &[&third_party]), GatewayError::TokenAccountInvalid);
    }
}

#[test]
fn it_comes_along_in_the_transaction_of_the_release() {
    let (mut world, payment, settler) = reassigned(MintKind::Token);
    let third_party = world.third_party.insecure_clone();
    let instructions = [&payment.release(&world)[..], &[payment.return_remainder(&world)]].concat();
    world.send(&instructions, &[&third_party]).unwrap();
    assert_eq!((world.tokens(&settler), world.tokens(&payment.accounts.payer_token)), (241, 760));
}

#[test]
fn a_payers_frozen_account_holds_up_no_settler_and_the_payer_may_name_another() {
    let (mut world, payment, settler) = reassigned(MintKind::Token);
    world.freeze(&payment.accounts.mint, &payment.accounts.payer_token, true);
    release(&mut world, &payment);
    assert_eq!(world.tokens(&settler), 241);
    let third_party = world.third_party.insecure_clone();
    let remainder = payment.return_remainder(&world);
    let frozen = world.send(std::slice::from_ref(&remainder), &[&third_party]);
    refused(frozen, GatewayError::TokenAccountInvalid);
    // To another account, when the payer signs, and for nobody else.
    let payer = world.payer.insecure_clone();
    let elsewhere = host::paid_to(remainder.clone(), settler, key(&payer));
    let stranger = host::paid_to(remainder, settler, key(&third_party));
    refused(world.send(&[stranger], &[&third_party]), GatewayError::TokenOwnerMismatch);
    world.send(&[elsewhere], &[&payer]).unwrap();
    assert_eq!(world.tokens(&settler), 251);
}

#[test]
fn strangers_gifts_go_to_the_settler_before_the_release_and_to_the_payer_after_it() {
    let (mut world, payment, settler) = reassigned(MintKind::Token);
    let third_party = world.third_party.insecure_clone();
    world.mint_to(&payment.accounts.mint, &key(&third_party), 8);
    let gift = |world: &mut World| {
        let meta = |key, signer, writable| host::AccountMeta { key, signer, writable };
        let accounts = vec![
            meta(settler, false, true),
            meta(payment.vault(world), false, true),
            meta(key(&third_party), true, false),
        ];
        let data = [&[3][..], &3_u64.to_le_bytes()].concat();
        world.send(&[host::Instruction { program_id: payment.accounts.token_program, accounts, data }], &[&third_party])
    };
    gift(&mut world).unwrap();
    release(&mut world, &payment);
    assert_eq!((world.tokens(&settler), world.tokens(&payment.vault(&world))), (9 - 3 + 243, 10));
    gift(&mut world).unwrap();
    let remainder = payment.return_remainder(&world);
    world.send(&[remainder], &[&third_party]).unwrap();
    assert_eq!(world.tokens(&payment.accounts.payer_token), 763);
}

#[test]
fn nothing_is_left_of_a_refund_or_of_a_release_in_full() {
    let (mut world, payment, _) = reassigned(MintKind::Token);
    let third_party = world.third_party.insecure_clone();
    let cancel = payment.cancel(&world);
    world.send(&cancel, &[&third_party]).unwrap();
    assert_eq!(world.tokens(&payment.accounts.payer_token), 1_000);
    let remainder = payment.return_remainder(&world);
    refused(world.send(&[remainder], &[&third_party]), GatewayError::StateNotAllowed);

    let mut world = World::new();
    let payment = Payment::new(&mut world, MintKind::Token);
    payment.deposit(&mut world).unwrap();
    release(&mut world, &payment);
    let third_party = world.third_party.insecure_clone();
    let remainder = payment.return_remainder(&world);
    refused(world.send(&[remainder], &[&third_party]), GatewayError::TokenAccountInvalid);
}

#[test]
fn the_record_stays_while_something_is_left() {
    let (mut world, payment, _) = reassigned(MintKind::Token);
    release(&mut world, &payment);
    world.set_time(payment.data.refund_after + RECLAIM_DELAY_SECONDS);
    let third_party = world.third_party.insecure_clone();
    let payment_id = payment.data.payment_id;
    let plain = host::reclaim_escrow(&world.program, &payment_id, key(&world.submitter));
    let reclaim = host::with_vault(plain.clone(), &payment_id);
    let mut elsewhere = reclaim.clone();
    elsewhere.accounts[2].key = host::vault_address(&world.program, &[2; 32]).key;
    let refuse = |world: &mut World, instruction: &host::Instruction, error| {
        refused(world.send(std::slice::from_ref(instruction), &[&third_party]), error);
    };
    refuse(&mut world, &plain, GatewayError::AccountsInvalid);
    refuse(&mut world, &reclaim, GatewayError::VaultInvalid);
    refuse(&mut world, &elsewhere, GatewayError::VaultInvalid);
    let remainder = payment.return_remainder(&world);
    world.send(&[remainder], &[&third_party]).unwrap();
    refuse(&mut world, &plain, GatewayError::AccountsInvalid);
    // Lamports at the vault's address do not stand in the way.
    let vault = payment.vault(&world);
    world.fund(&vault, 1_000_000);
    world.send(&[reclaim], &[&third_party]).unwrap();
    assert!(world.escrow(&payment_id).is_none());

    // Where nothing can be left, nothing is shown.
    let mut world = World::new();
    let payment = Payment::new(&mut world, MintKind::Token);
    payment.deposit(&mut world).unwrap();
    release(&mut world, &payment);
    assert_eq!(world.escrow(&payment_id).unwrap().state(), Some(State::Released));
    world.set_time(payment.data.refund_after + RECLAIM_DELAY_SECONDS);
    let plain = host::reclaim_escrow(&world.program, &payment_id, key(&world.submitter));
    let with_vault = host::with_vault(plain.clone(), &payment_id);
    refused(world.send(&[with_vault], &[&third_party]), GatewayError::AccountsInvalid);
    world.send(&[plain], &[&third_party]).unwrap();
}
