//! Wrapped SOL: the token whose accounts hold as lamports what they stand for, so that anyone can send them more.

use gateway_program::{GatewayError, Key, host, ids};
use gateway_program_tests::{Addressed, Offered, Outcome, Payment, World, key, refused};
use solana_account::Account;
use solana_keypair::Keypair;

const DECIMALS: u8 = 9;
/// What the payer wraps.
const WRAPPED: u64 = 1_000;

fn meta(key: Key, signer: bool, writable: bool) -> host::AccountMeta {
    host::AccountMeta { key, signer, writable }
}

/// The token account's amount becomes its lamports above the rent; anyone may ask for it.
fn sync(program_id: Key, account: Key) -> host::Instruction {
    const SYNC_NATIVE: u8 = 17;
    host::Instruction { program_id, accounts: vec![meta(account, false, true)], data: vec![SYNC_NATIVE] }
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
    wrapped_in(ids::TOKEN_PROGRAM, ids::NATIVE_MINT)
}

/// The same of either token program.
fn wrapped_in(program: Key, mint: Key) -> (World, Payment) {
    let mut world = World::new();
    // No authority, nothing supplied, nine decimals, initialized, nobody freezes.
    let mut data = vec![0; 82];
    data[44..46].copy_from_slice(&[DECIMALS, 1]);
    let owner = program.into();
    let lamports = world.svm.minimum_balance_for_rent_exemption(data.len());
    world.put(mint, Account { lamports, data, owner, executable: false, rent_epoch: u64::MAX });
    let payment = Payment::of(&world, 1, mint, program);
    let payer = world.payer.insecure_clone();
    let (own, account) = (key(&payer), payment.accounts.payer_token);
    let create = |wallet: Key| host::create_associated_token(own, &wallet, &mint, &program);
    let delegate = host::delegate_address(&world.program, &own).key;
    let approve = host::approve_checked(&program, account, mint, delegate, own, 300, DECIMALS);
    let steps =
        [create(own), transfer(own, account, WRAPPED), sync(program, account), approve, create(key(&world.settler))];
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
        by_anyone(&mut world, &[sync(ids::TOKEN_PROGRAM, vault)]).unwrap();
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
    let create = host::create_associated_token(maker, &own, &ids::NATIVE_MINT, &ids::TOKEN_PROGRAM);
    by_anyone(&mut world, &[create, refund]).unwrap();
    assert_eq!(world.tokens(&account), 250);
}

/// Wrapped coins that come to an address are deposited as any token. The emptied account stays, because lamports may be in it that nobody
/// has counted: they are the payer's, and not of who closes it.
#[test]
fn wrapped_coins_at_an_address_are_deposited_and_the_uncounted_are_the_payers() {
    for (program, mint) in [(ids::TOKEN_PROGRAM, ids::NATIVE_MINT), (ids::TOKEN_2022_PROGRAM, ids::NATIVE_MINT_2022)] {
        let (mut world, payment) = wrapped_in(program, mint);
        let addressed = Addressed::of(payment);
        let (at, from) = (addressed.at(&world), addressed.tokens(&world));
        let rent = world.svm.minimum_balance_for_rent_exemption(if program == ids::TOKEN_PROGRAM { 165 } else { 170 });
        // The stranger has coins alone, and wraps on the way.
        let stranger = key(&world.third_party);
        let create = host::create_associated_token(stranger, &at, &mint, &program);
        by_anyone(&mut world, &[create, transfer(stranger, from, 300), sync(program, from)]).unwrap();
        // Not counted yet when the deposit is made.
        world.fund(&from, 5);
        assert_eq!(world.tokens(&from), 300);
        addressed.deposit(&mut world).unwrap();
        assert_eq!((world.tokens(&from), world.lamports(&from)), (0, rent + 5));
        assert_eq!(world.tokens(&addressed.payment.vault(&world)), 300);

        let (back, carrier) = (addressed.give_back(&world), key(&world.settler));
        let carried = |back: &host::Instruction| {
            let mut back = back.clone();
            back.accounts[0].key = carrier;
            back
        };
        let had = world.lamports(&carrier);
        by_anyone(&mut world, &[sync(program, from), carried(&back)]).unwrap();
        assert_eq!(world.tokens(&addressed.payment.accounts.payer_token), WRAPPED + 5);
        // Whoever asks for it to be closed has nothing of it, now or later.
        world.fund(&from, 7);
        by_anyone(&mut world, &[carried(&back)]).unwrap();
        assert_eq!((world.lamports(&from), world.lamports(&carrier)), (rent + 7, had));
        let mut open = back;
        *open.data.last_mut().unwrap() = 0;
        refused(by_anyone(&mut world, &[open]), GatewayError::NothingToGiveBack);
        let release = addressed.payment.release(&world);
        by_anyone(&mut world, &release).unwrap();
        let remainder = addressed.payment.return_remainder(&world);
        by_anyone(&mut world, &[remainder]).unwrap();
        assert_eq!(world.tokens(&addressed.payment.token_of(&addressed.payment.data.settler)), 250);
        assert_eq!(world.tokens(&addressed.payment.accounts.payer_token), WRAPPED + 5 + 50);
    }
}

/// The same at the address of an offer, whose token account stays in any case: what nobody has counted is the merchant's.
#[test]
fn wrapped_coins_at_an_offer_are_deposited_and_the_uncounted_are_the_merchants() {
    for (program, mint) in [(ids::TOKEN_PROGRAM, ids::NATIVE_MINT), (ids::TOKEN_2022_PROGRAM, ids::NATIVE_MINT_2022)] {
        let (mut world, payment) = wrapped_in(program, mint);
        let offered = Offered::of(&payment);
        let (at, from) = (offered.at(&world), offered.tokens(&world));
        let rent = world.svm.minimum_balance_for_rent_exemption(if program == ids::TOKEN_PROGRAM { 165 } else { 170 });
        let buyer = key(&world.third_party);
        let create = host::create_associated_token(buyer, &at, &mint, &program);
        by_anyone(&mut world, &[create, transfer(buyer, from, 300), sync(program, from)]).unwrap();
        world.fund(&from, 5);
        offered.deposit(&mut world).unwrap();
        assert_eq!((world.tokens(&from), world.lamports(&from)), (0, rent + 5));
        assert_eq!(world.tokens(&payment.vault(&world)), 300);
        refused(offered.collect_by_merchant(&mut world, 5), GatewayError::BalanceTooSmall);
        by_anyone(&mut world, &[sync(program, from)]).unwrap();
        offered.collect_by_merchant(&mut world, 5).unwrap();
        assert_eq!(world.tokens(&payment.accounts.payer_token), WRAPPED + 5);
        assert_eq!(world.lamports(&from), rent);
    }
}
