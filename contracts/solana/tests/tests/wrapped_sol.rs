//! Wrapped SOL: the token whose accounts hold as lamports what they stand for, so that anyone can send them more.

use gateway_program::{Key, host, ids};
use gateway_program_tests::{Outcome, Payment, World, key};
use solana_account::Account;
use solana_address::Address;
use solana_keypair::Keypair;

/// Mint of wrapped SOL.
const NATIVE_MINT: Address = Address::from_str_const("So11111111111111111111111111111111111111112");
const DECIMALS: u8 = 9;
/// What the payer wraps.
const WRAPPED: u64 = 1_000;

fn meta(key: Key, signer: bool, writable: bool) -> host::AccountMeta {
    host::AccountMeta { key, signer, writable }
}

/// The token account's amount becomes its lamports above the rent; anyone may ask for it.
fn sync(account: Key) -> host::Instruction {
    const SYNC_NATIVE: u8 = 17;
    let accounts = vec![meta(account, false, true)];
    host::Instruction { program_id: ids::TOKEN_PROGRAM, accounts, data: vec![SYNC_NATIVE] }
}

fn transfer(from: Key, to: Key, lamports: u64) -> host::Instruction {
    const TRANSFER: u32 = 2;
    let data = [&TRANSFER.to_le_bytes()[..], &lamports.to_le_bytes()].concat();
    let accounts = vec![meta(from, true, true), meta(to, false, true)];
    host::Instruction { program_id: ids::SYSTEM_PROGRAM, accounts, data }
}

/// A cluster with the native mint as clusters have it, and a payment of 250 of a cap of 300 whose payer had lamports alone and
/// has wrapped and approved in one transaction.
fn wrapped() -> (World, Payment) {
    let mut world = World::new();
    // No authority, nothing supplied, nine decimals, initialized, nobody freezes.
    let mut data = vec![0; 82];
    data[44..46].copy_from_slice(&[DECIMALS, 1]);
    let owner = ids::TOKEN_PROGRAM.into();
    let lamports = world.svm.minimum_balance_for_rent_exemption(data.len());
    world.put(NATIVE_MINT.to_bytes(), Account { lamports, data, owner, executable: false, rent_epoch: u64::MAX });
    let payment = Payment::of(&world, 1, NATIVE_MINT.to_bytes(), ids::TOKEN_PROGRAM);
    let payer = world.payer.insecure_clone();
    let (own, account) = (key(&payer), payment.accounts.payer_token);
    let create =
        |wallet: Key| host::create_associated_token(own, &wallet, &NATIVE_MINT.to_bytes(), &ids::TOKEN_PROGRAM);
    let delegate = host::delegate_address(&world.program, &own).key;
    let approve =
        host::approve_checked(&ids::TOKEN_PROGRAM, account, NATIVE_MINT.to_bytes(), delegate, own, 300, DECIMALS);
    let steps = [create(own), transfer(own, account, WRAPPED), sync(account), approve, create(key(&world.settler))];
    world.send(&steps, &[&payer]).unwrap();
    assert_eq!(world.tokens(&account), WRAPPED);
    (world, payment)
}

fn by_anyone(world: &mut World, instructions: &[host::Instruction]) -> Outcome {
    let third_party: Keypair = world.third_party.insecure_clone();
    world.send(instructions, &[&third_party])
}

/// Whatever strangers send to the vault, the deposit is of exactly its amount, and every end empties the vault.
#[test]
fn lamports_that_strangers_send_to_the_vault_hold_up_nothing() {
    for released in [true, false] {
        let (mut world, payment) = wrapped();
        let (vault, payer_token) = (payment.vault(&world), payment.accounts.payer_token);
        // Before there is one; more than its rent.
        world.fund(&vault, 10_000_000);
        let early = 10_000_000 - world.svm.minimum_balance_for_rent_exemption(165);
        payment.deposit(&mut world).unwrap();
        let record = world.escrow(&payment.data.payment_id).unwrap();
        assert_eq!((record.deposited, world.tokens(&payer_token)), (250, WRAPPED - 250));
        assert_eq!(world.tokens(&vault), 250 + early);
        // And then, counted and not counted.
        world.fund(&vault, 7);
        by_anyone(&mut world, &[sync(vault)]).unwrap();
        world.fund(&vault, 5);

        let rent_payer = world.lamports(&payment.accounts.rent_payer);
        let end = if released { payment.release(&world) } else { payment.cancel(&world) };
        by_anyone(&mut world, &end).unwrap();
        let (to, held) =
            if released { (payment.token_of(&payment.data.settler), 0) } else { (payer_token, WRAPPED - 250) };
        assert_eq!(world.tokens(&to), held + 250 + early + 7);
        assert!(world.account(&vault).is_none());
        let rent = world.svm.minimum_balance_for_rent_exemption(165);
        assert_eq!(world.lamports(&payment.accounts.rent_payer), rent_payer + rent + 5);
    }
}

/// A payer that has unwrapped meanwhile, which closes its account, makes it again, and the refund goes there.
#[test]
fn a_refund_finds_the_account_that_the_payer_made_again() {
    const CLOSE_ACCOUNT: u8 = 9;
    let (mut world, payment) = wrapped();
    payment.deposit(&mut world).unwrap();
    let payer = world.payer.insecure_clone();
    let (own, account) = (key(&payer), payment.accounts.payer_token);
    let accounts = vec![meta(account, false, true), meta(own, false, true), meta(own, true, false)];
    let unwrap = host::Instruction { program_id: ids::TOKEN_PROGRAM, accounts, data: vec![CLOSE_ACCOUNT] };
    world.send(&[unwrap], &[&payer]).unwrap();
    world.set_time(payment.data.refund_after);
    let refund = payment.refund(&world);
    by_anyone(&mut world, std::slice::from_ref(&refund)).unwrap_err();
    // Anyone may make it, in the same transaction.
    let maker = key(&world.third_party);
    let create = host::create_associated_token(maker, &own, &NATIVE_MINT.to_bytes(), &ids::TOKEN_PROGRAM);
    by_anyone(&mut world, &[create, refund]).unwrap();
    assert_eq!(world.tokens(&account), 250);
}
