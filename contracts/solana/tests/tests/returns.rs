//! What is given back from a deposit address: to the payer, whoever carries it, once nothing can be deposited of it.

use gateway_program::{GatewayError, Key, ZERO_KEY, host, ids, log};
use gateway_program_tests::{
    Addressed, Extension, MintKind, Outcome, World, custom_code, key, keypair, refused, transfer_checked,
};

use crate::escrow_states::base64;

const ESCROW: usize = 1;
const AT: usize = 2;
const FROM: usize = 3;
const TO: usize = 4;
const PAYER: usize = 5;

/// A world where `amount` came to the address.
fn funded(kind: MintKind, amount: u64) -> (World, Addressed) {
    let mut world = World::new();
    let addressed = Addressed::new(&mut world, kind);
    addressed.send(&mut world, amount);
    (world, addressed)
}

/// The same, of SPL Token, past the end of the deposit.
fn over(amount: u64) -> (World, Addressed) {
    let (mut world, addressed) = funded(MintKind::Token, amount);
    world.set_time(addressed.payment.data.reserve_deadline + 1);
    (world, addressed)
}

fn by_anyone(world: &mut World, instruction: host::Instruction) -> Outcome {
    let third_party = world.third_party.insecure_clone();
    world.send(&[instruction], &[&third_party])
}

/// The same that leaves the token account open.
fn left_open(mut give_back: host::Instruction) -> host::Instruction {
    *give_back.data.last_mut().unwrap() = 0;
    give_back
}

#[track_caller]
fn says(logs: &[String], addressed: &Addressed, mint: Key, amount: u64) {
    let data = &addressed.payment.data;
    let line = log::GivenBack { payment_id: data.payment_id, payer: data.payer, mint, amount };
    assert!(logs.contains(&format!("Program data: {}", base64(&line.to_bytes()))), "{logs:?}");
    assert!(logs.contains(&format!("Program log: {}", log::GIVE_BACK_SAID)), "{logs:?}");
}

#[test]
fn the_payments_token_goes_back_past_the_end_of_the_deposit() {
    for kind in [MintKind::Token, MintKind::Token2022(&[]), MintKind::Token2022(&[Extension::MetadataPointer])] {
        let (mut world, addressed) = funded(kind, 299);
        let (from, carrier) = (addressed.tokens(&world), key(&world.third_party));
        world.set_time(addressed.payment.data.reserve_deadline);
        refused(addressed.return_by_anyone(&mut world), GatewayError::GiveBackTooEarly);
        world.set_time(addressed.payment.data.reserve_deadline + 1);
        let (had, rent) = (world.lamports(&carrier), world.lamports(&from));
        let done = addressed.return_by_anyone(&mut world).unwrap();
        assert_eq!(world.tokens(&addressed.payment.accounts.payer_token), 1_299);
        assert!(world.account(&from).is_none());
        assert_eq!(world.lamports(&carrier), had + rent - done.fee);
        says(&done.logs, &addressed, addressed.payment.accounts.mint, 299);
        refused(addressed.return_by_anyone(&mut world), GatewayError::TokenAccountInvalid);
        // What comes later has the same way.
        addressed.send(&mut world, 7);
        addressed.return_by_anyone(&mut world).unwrap();
        assert_eq!(world.tokens(&addressed.payment.accounts.payer_token), 1_306);
    }
}

/// Whether the deposit came from the address or the payer signed it, and whatever became of it: beside its record there is no other.
#[test]
fn the_payments_token_goes_back_beside_a_record() {
    for signed in [false, true] {
        let (mut world, addressed) = funded(MintKind::Token, 500);
        refused(addressed.return_by_anyone(&mut world), GatewayError::GiveBackTooEarly);
        if signed {
            addressed.payment.deposit(&mut world).unwrap();
        } else {
            addressed.deposit(&mut world).unwrap();
        }
        let left = world.tokens(&addressed.tokens(&world));
        let had = world.tokens(&addressed.payment.accounts.payer_token);
        addressed.return_by_anyone(&mut world).unwrap();
        assert_eq!(world.tokens(&addressed.payment.accounts.payer_token), had + left);
        let (third_party, cancel) = (world.third_party.insecure_clone(), addressed.payment.cancel(&world));
        world.send(&cancel, &[&third_party]).unwrap();
        addressed.send(&mut world, 3);
        addressed.return_by_anyone(&mut world).unwrap();
        assert_eq!(world.tokens(&addressed.payment.accounts.payer_token), 1_503);
    }
    // In the transaction of the deposit itself, but not before it.
    let (mut world, addressed) = funded(MintKind::Token, 500);
    let (deposit, back) = (addressed.instruction(&world), addressed.give_back(&world));
    let early = addressed.payment.submit(&mut world, &[back.clone(), deposit.clone()]);
    refused(early, GatewayError::GiveBackTooEarly);
    addressed.payment.submit(&mut world, &[deposit, back]).unwrap();
    assert_eq!(world.tokens(&addressed.payment.accounts.payer_token), 1_200);
}

#[test]
fn another_token_goes_back_at_any_time() {
    for kind in [MintKind::Token, MintKind::Token2022(&[]), MintKind::Token2022(&[Extension::PermanentDelegate])] {
        let (mut world, addressed) = funded(MintKind::Token, 300);
        let (at, payer, other) = (addressed.at(&world), addressed.payment.data.payer, world.mint(41, kind));
        let from = world.mint_to(&other, &at, 5);
        let to = world.mint_to(&other, &payer, 1);
        let back = addressed.give_back_of(&world, &other, &kind.program());
        let done = by_anyone(&mut world, back).unwrap();
        says(&done.logs, &addressed, other, 5);
        assert_eq!((world.tokens(&to), world.account(&from)), (6, None));
        assert_eq!(world.tokens(&addressed.tokens(&world)), 300);
        addressed.deposit(&mut world).unwrap();
    }
}

/// A fee of what is given back is the payer's to bear. What the token withheld of what came stands in the way of closing, until anyone
/// has it harvested.
#[test]
fn a_token_with_a_fee_goes_back_and_its_account_stays_open() {
    const WITHHELD: Option<u32> = Some(35);
    let kind = MintKind::Token2022(&[Extension::TransferFee]);
    let (mut world, addressed) = funded(MintKind::Token, 300);
    let (at, payer, other) = (addressed.at(&world), addressed.payment.data.payer, world.mint(41, kind));
    let third_party = world.third_party.insecure_clone();
    let stranger = world.mint_to(&other, &key(&third_party), 1_000);
    let (from, to) = (world.mint_to(&other, &at, 0), world.mint_to(&other, &payer, 0));
    let transfer = transfer_checked(&kind.program(), &other, [stranger, from], key(&third_party), 1_000);
    by_anyone(&mut world, transfer).unwrap();
    assert_eq!(world.tokens(&from), 990);
    let back = addressed.give_back_of(&world, &other, &kind.program());
    assert_eq!(custom_code(&by_anyone(&mut world, back.clone())), WITHHELD);
    by_anyone(&mut world, left_open(back.clone())).unwrap();
    assert_eq!((world.tokens(&from), world.tokens(&to)), (0, 980));
    let meta = |key| host::AccountMeta { key, signer: false, writable: true };
    let (program_id, accounts) = (kind.program(), vec![meta(other), meta(from)]);
    let harvest = host::Instruction { program_id, accounts, data: vec![26, 4] };
    world.send(&[harvest, back], &[&third_party]).unwrap();
    assert!(world.account(&from).is_none());
}

/// The program brings no accounts for the hook, so such a token stays. As a payment's own it is refused before.
#[test]
fn a_token_that_calls_a_program_on_transfers_stays_where_it_is() {
    let kind = MintKind::Token2022(&[Extension::TransferHook]);
    let (mut world, addressed) = funded(MintKind::Token, 300);
    let (at, payer, other) = (addressed.at(&world), addressed.payment.data.payer, world.mint(41, kind));
    let (from, _) = (world.mint_to(&other, &at, 5), world.mint_to(&other, &payer, 1));
    let back = addressed.give_back_of(&world, &other, &kind.program());
    by_anyone(&mut world, back).unwrap_err();
    assert_eq!(world.tokens(&from), 5);
    addressed.deposit(&mut world).unwrap();
}

/// Token accounts of the address that are not its associated one are no way around the time, and none is lost.
#[test]
fn any_token_account_of_the_address_is_emptied() {
    for kind in [MintKind::Token, MintKind::Token2022(&[])] {
        let (mut world, addressed) = funded(kind, 300);
        let (at, mint) = (addressed.at(&world), addressed.payment.accounts.mint);
        let aside = world.token_account(50, &mint, &at);
        let transfer = addressed.transfer(&world, aside, 40);
        by_anyone(&mut world, transfer).unwrap();
        let mut back = addressed.give_back(&world);
        back.accounts[FROM].key = aside;
        refused(by_anyone(&mut world, back.clone()), GatewayError::GiveBackTooEarly);
        // Nor is anything deposited out of it.
        let mut deposit = addressed.instruction(&world);
        deposit.accounts[5].key = aside;
        refused(addressed.payment.submit(&mut world, &[deposit]), GatewayError::TokenAddressMismatch);
        addressed.deposit(&mut world).unwrap();
        by_anyone(&mut world, back).unwrap();
        assert_eq!(world.tokens(&addressed.payment.accounts.payer_token), 1_040);
        assert!(world.account(&aside).is_none());
    }
}

#[test]
fn the_carrier_says_whether_the_emptied_account_is_closed() {
    let (mut world, addressed) = over(300);
    let (from, submitter) = (addressed.tokens(&world), key(&world.submitter));
    let mut back = addressed.give_back(&world);
    // Whoever it is has the rent, and does not sign.
    back.accounts[0].key = submitter;
    by_anyone(&mut world, left_open(back.clone())).unwrap();
    let rent = world.lamports(&from);
    assert_eq!((world.tokens(&from), world.tokens(&addressed.payment.accounts.payer_token)), (0, 1_300));
    assert!(rent > 0);
    refused(by_anyone(&mut world, left_open(back.clone())), GatewayError::NothingToGiveBack);
    let had = world.lamports(&submitter);
    let done = by_anyone(&mut world, back.clone()).unwrap();
    assert_eq!((world.account(&from), world.lamports(&submitter)), (None, had + rent));
    assert!(!done.logs.iter().any(|line| line.contains(log::GIVE_BACK_SAID)), "nothing was given back");
    // An account that is empty stays while a deposit may come to it: the sender paid for it.
    let (mut world, addressed) = funded(MintKind::Token, 0);
    refused(addressed.return_by_anyone(&mut world), GatewayError::GiveBackTooEarly);
    // A carrier that cannot be paid.
    let (mut world, addressed) = over(300);
    for program in [addressed.payment.accounts.token_program, ids::ASSOCIATED_TOKEN_PROGRAM] {
        let mut back = addressed.give_back(&world);
        back.accounts[0].key = program;
        refused(by_anyone(&mut world, back), GatewayError::RecipientInvalid);
    }
    for place in [0, FROM, TO] {
        let mut back = addressed.give_back(&world);
        back.accounts[place].writable = false;
        back.accounts[0].key = submitter;
        refused(by_anyone(&mut world, back), GatewayError::AccountNotWritable);
    }
}

#[test]
fn it_goes_to_the_payers_associated_account_and_nowhere_else() {
    let (mut world, addressed) = over(300);
    let (mint, payer) = (addressed.payment.accounts.mint, addressed.payment.data.payer);
    let aside = world.token_account(50, &mint, &payer);
    let strangers = addressed.payment.token_of(&key(&world.third_party));
    let settlers = addressed.payment.token_of(&addressed.payment.data.settler);
    let own = addressed.tokens(&world);
    for to in [aside, strangers, settlers, own] {
        let mut back = addressed.give_back(&world);
        back.accounts[TO].key = to;
        refused(by_anyone(&mut world, back), GatewayError::TokenAddressMismatch);
    }
    // A stranger who signs in the payer's place.
    let stranger = key(&world.third_party);
    let mut back = host::given_back_to(addressed.give_back(&world), strangers);
    back.accounts[PAYER].key = stranger;
    refused(by_anyone(&mut world, back), GatewayError::TokenOwnerMismatch);
    // An associated account that the payer gave away.
    let payers = addressed.payment.accounts.payer_token;
    let real = world.account(&payers).unwrap();
    let mut given = real.clone();
    given.data[32..64].copy_from_slice(&stranger);
    world.put(payers, given);
    refused(addressed.return_by_anyone(&mut world), GatewayError::TokenOwnerMismatch);
    world.put(payers, real);
    assert_eq!(world.tokens(&own), 300);
    addressed.return_by_anyone(&mut world).unwrap();
}

#[test]
fn a_payer_that_signs_names_any_account_but_the_addresss_own() {
    for to_stranger in [false, true] {
        let (mut world, addressed) = over(300);
        let (mint, payer, at) = (addressed.payment.accounts.mint, world.payer.insecure_clone(), addressed.at(&world));
        let elsewhere = if to_stranger {
            addressed.payment.token_of(&addressed.payment.data.settler)
        } else {
            world.token_account(50, &mint, &key(&payer))
        };
        // A transfer to itself, or to another account of the address, moves nothing out.
        let aside = world.token_account(51, &mint, &at);
        for own in [addressed.tokens(&world), aside] {
            let round = left_open(host::given_back_to(addressed.give_back(&world), own));
            refused(world.send(&[round], &[&payer]), GatewayError::TokenOwnerMismatch);
        }
        let other_mint = world.mint(41, MintKind::Token);
        let of_other = world.mint_to(&other_mint, &key(&payer), 1);
        let wrong = host::given_back_to(addressed.give_back(&world), of_other);
        refused(world.send(&[wrong], &[&payer]), GatewayError::TokenMintMismatch);
        let back = host::given_back_to(addressed.give_back(&world), elsewhere);
        world.send(&[back], &[&payer]).unwrap();
        assert_eq!(world.tokens(&elsewhere), 300);
    }
}

#[test]
fn a_frozen_account_loses_nothing() {
    let (mut world, addressed) = over(300);
    let (mint, payers, from) =
        (addressed.payment.accounts.mint, addressed.payment.accounts.payer_token, addressed.tokens(&world));
    for frozen in [payers, from] {
        world.freeze(&mint, &frozen, true);
        refused(addressed.return_by_anyone(&mut world), GatewayError::TokenAccountInvalid);
        world.freeze(&mint, &frozen, false);
    }
    // The payer need not wait for its own.
    world.freeze(&mint, &payers, true);
    let payer = world.payer.insecure_clone();
    let aside = world.token_account(50, &mint, &key(&payer));
    let back = host::given_back_to(addressed.give_back(&world), aside);
    world.send(&[back], &[&payer]).unwrap();
    assert_eq!(world.tokens(&aside), 300);
}

#[test]
fn a_refund_account_without_a_token_account_is_waited_for() {
    let (mut world, mut addressed) = funded(MintKind::Token, 1);
    addressed.payment.data.payer = key(&keypair(30));
    addressed.send(&mut world, 300);
    world.set_time(addressed.payment.data.reserve_deadline + 1);
    refused(addressed.return_by_anyone(&mut world), GatewayError::TokenAccountInvalid);
    let (third_party, accounts) = (world.third_party.insecure_clone(), addressed.payment.accounts.clone());
    let wallet = addressed.payment.data.payer;
    let create = host::create_associated_token(key(&third_party), &wallet, &accounts.mint, &accounts.token_program);
    let back = addressed.give_back(&world);
    world.send(&[create, back], &[&third_party]).unwrap();
    assert_eq!(world.tokens(&addressed.payment.token_of(&wallet)), 300);
}

/// What a stranger adds between trial and block keeps no deposit from being made. It is the payer's.
#[test]
fn dust_stands_in_no_deposits_way() {
    let (mut world, addressed) = funded(MintKind::Token, 300);
    let from = addressed.tokens(&world);
    let dust = addressed.transfer(&world, from, 1);
    let deposit = addressed.instruction(&world);
    let (submitter, reserver) = (world.submitter.insecure_clone(), world.reserver.insecure_clone());
    let third_party = world.third_party.insecure_clone();
    world.send(&[dust, deposit], &[&submitter, &reserver, &third_party]).unwrap();
    assert_eq!((world.tokens(&from), world.escrow(&[1; 32]).unwrap().deposited), (1, 300));
    addressed.return_by_anyone(&mut world).unwrap();
    assert_eq!((world.account(&from), world.tokens(&addressed.payment.accounts.payer_token)), (None, 1_001));
}

#[test]
fn native_sol_goes_back_at_any_time() {
    let (mut world, addressed) = funded(MintKind::Token, 300);
    let (at, payer) = (addressed.at(&world), addressed.payment.data.payer);
    let back = addressed.give_back_lamports(&world);
    refused(by_anyone(&mut world, back.clone()), GatewayError::NothingToGiveBack);
    world.fund(&at, 2_000_000);
    for (place, other, error) in [
        (1, key(&world.third_party), GatewayError::TokenOwnerMismatch),
        (2, ids::TOKEN_PROGRAM, GatewayError::SystemProgramInvalid),
        (0, addressed.tokens(&world), GatewayError::DepositAddressInvalid),
    ] {
        let mut wrong = back.clone();
        wrong.accounts[place].key = other;
        refused(by_anyone(&mut world, wrong), error);
    }
    for place in [0, 1] {
        let mut wrong = back.clone();
        wrong.accounts[place].writable = false;
        refused(by_anyone(&mut world, wrong), GatewayError::AccountNotWritable);
    }
    let had = world.lamports(&payer);
    let done = by_anyone(&mut world, back).unwrap();
    says(&done.logs, &addressed, ZERO_KEY, 2_000_000);
    assert_eq!((world.lamports(&at), world.lamports(&payer)), (0, had + 2_000_000));
    // The token is not touched, and lamports at the address keep no deposit from being made.
    world.fund(&at, 2_000_000);
    addressed.deposit(&mut world).unwrap();
    assert_eq!(world.lamports(&at), 2_000_000);
}

/// A wallet that is new gets no less than an account must hold; with more it goes.
#[test]
fn native_sol_for_a_new_wallet_waits_until_it_is_enough() {
    let mut world = World::new();
    let mut addressed = Addressed::new(&mut world, MintKind::Token);
    addressed.payment.data.payer = key(&keypair(30));
    let at = addressed.at(&world);
    let least = world.svm.minimum_balance_for_rent_exemption(0);
    world.fund(&at, least);
    // Less than that cannot come to an address alone.
    let mut little = world.account(&at).unwrap();
    little.lamports = least - 1;
    world.put(at, little);
    let back = addressed.give_back_lamports(&world);
    by_anyone(&mut world, back.clone()).unwrap_err();
    assert_eq!(world.lamports(&at), least - 1);
    world.fund(&at, 1);
    by_anyone(&mut world, back).unwrap();
    assert_eq!(world.lamports(&addressed.payment.data.payer), least);
}

/// The cluster is no part of an address: what was sent on the wrong one is given back there, whether the program is set up or not, and
/// deposited only where its reserver admits it.
#[test]
fn it_goes_back_on_another_cluster() {
    for is_set_up in [true, false] {
        let mut world = World::bare();
        if is_set_up {
            let home = key(&world.reserver);
            world.reserver = keypair(9);
            world.cluster_id = [0xc2; 32];
            let (submitter, authority) = (world.submitter.insecure_clone(), world.authority.insecure_clone());
            let initialize = world.initialization();
            world.send(&[initialize], &[&submitter, &authority]).unwrap();
            assert_ne!(key(&world.reserver), home);
        }
        let mut addressed = Addressed::new(&mut world, MintKind::Token);
        // As at home.
        addressed.payment.accounts.reserver = key(&keypair(4));
        addressed.send(&mut world, 300);
        let at = addressed.at(&world);
        assert_eq!(at, host::deposit_address(&World::new().program, &addressed.payment.terms()).key);
        let (submitter, reserver) = (world.submitter.insecure_clone(), keypair(4));
        let deposit = addressed.instruction(&world);
        let error = if is_set_up { GatewayError::ReserverNotAdmitted } else { GatewayError::ConfigInvalid };
        refused(world.send(&[deposit], &[&submitter, &reserver]), error);
        world.set_time(addressed.payment.data.reserve_deadline + 1);
        addressed.return_by_anyone(&mut world).unwrap();
        assert_eq!(world.tokens(&addressed.payment.accounts.payer_token), 1_300);
        world.fund(&at, 2_000_000);
        let back = addressed.give_back_lamports(&world);
        by_anyone(&mut world, back).unwrap();
        assert_eq!(world.lamports(&at), 0);
    }
}

/// Who hands a token account over keeps no allowance from it, and the right to close it, which moves nothing that is in it.
#[test]
fn whoever_made_a_token_account_for_the_address_has_nothing_of_what_comes_there() {
    const NO_OWNER: Option<u32> = Some(4);
    const NOT_EMPTY: Option<u32> = Some(11);
    for kind in [MintKind::Token, MintKind::Token2022(&[])] {
        let (mut world, addressed) = funded(kind, 300);
        let (at, mint) = (addressed.at(&world), addressed.payment.accounts.mint);
        let (stranger, settler) = (world.third_party.insecure_clone(), world.settler.insecure_clone());
        let aside = world.token_account(50, &mint, &key(&stranger));
        let meta = |key, signer, writable| host::AccountMeta { key, signer, writable };
        let of_token = |accounts, data: Vec<u8>| host::Instruction { program_id: kind.program(), accounts, data };
        let authority = |what: u8, to: &Key| {
            let accounts = vec![meta(aside, false, true), meta(key(&stranger), true, false)];
            of_token(accounts, [&[6, what, 1][..], to].concat())
        };
        let approved =
            vec![meta(aside, false, true), meta(key(&settler), false, false), meta(key(&stranger), true, false)];
        let approve = of_token(approved, [&[4][..], &u64::MAX.to_le_bytes()].concat());
        let hand_over = [approve, authority(3, &key(&stranger)), authority(2, &at)];
        world.send(&hand_over, &[&stranger]).unwrap();
        let transfer = addressed.transfer(&world, aside, 40);
        by_anyone(&mut world, transfer).unwrap();

        let strangers = addressed.payment.token_of(&key(&stranger));
        for thief in [&settler, &stranger] {
            let steal = transfer_checked(&kind.program(), &mint, [aside, strangers], key(thief), 1);
            assert_eq!(custom_code(&world.send(&[steal], &[thief])), NO_OWNER);
        }
        let accounts =
            vec![meta(aside, false, true), meta(key(&stranger), false, true), meta(key(&stranger), true, false)];
        let close = of_token(accounts, vec![9]);
        assert_eq!(custom_code(&by_anyone(&mut world, close.clone())), NOT_EMPTY);

        world.set_time(addressed.payment.data.reserve_deadline + 1);
        let mut back = addressed.give_back(&world);
        back.accounts[FROM].key = aside;
        // The address cannot close what another one may close, and need not.
        assert_eq!(custom_code(&by_anyone(&mut world, back.clone())), NO_OWNER);
        by_anyone(&mut world, left_open(back)).unwrap();
        assert_eq!(world.tokens(&addressed.payment.accounts.payer_token), 1_040);
        by_anyone(&mut world, close).unwrap();
        // In the associated account nobody ever had a say but the address.
        addressed.return_by_anyone(&mut world).unwrap();
        assert_eq!(world.tokens(&addressed.payment.accounts.payer_token), 1_340);
    }
}

/// A record of another payment is no reason, and no record is needed where the time is over.
#[test]
fn the_record_is_that_of_the_payment() {
    let (mut world, addressed) = funded(MintKind::Token, 300);
    let mut other = addressed.payment.clone();
    other.data.payment_id = [2; 32];
    other.deposit(&mut world).unwrap();
    let record = host::escrow_address(&world.program, &[2; 32]).key;
    for wrong in [record, other.vault(&world), key(&world.third_party), world.program] {
        let mut back = addressed.give_back(&world);
        back.accounts[ESCROW].key = wrong;
        refused(by_anyone(&mut world, back), GatewayError::EscrowInvalid);
    }
    // Lamports at the record's address are no record.
    let own = host::escrow_address(&world.program, &[1; 32]).key;
    world.fund(&own, 10_000_000);
    refused(addressed.return_by_anyone(&mut world), GatewayError::GiveBackTooEarly);
    // Terms of one's own over the same payment lead to another address.
    let mut forged = addressed.clone();
    forged.payment.data.reserve_deadline = world.now - 1;
    let mut back = forged.give_back(&world);
    (back.accounts[AT].key, back.accounts[FROM].key) = (addressed.at(&world), addressed.tokens(&world));
    refused(by_anyone(&mut world, back), GatewayError::DepositAddressInvalid);
    refused(forged.return_by_anyone(&mut world), GatewayError::TokenAccountInvalid);
    assert_eq!(world.tokens(&addressed.tokens(&world)), 300);
}
