//! What is collected from the address of an offer: by merchant or reserver, to the merchant.

use gateway_program::{GatewayError, Key, ZERO_KEY, host, ids, log};
use gateway_program_tests::{
    Extension, MintKind, Offered, Outcome, World, custom_code, key, keypair, refused, transfer_checked,
};

use crate::{escrow_states::base64, offers::funded};

const AUTHORITY: usize = 0;
const AT: usize = 1;
const FROM: usize = 2;
const TO: usize = 3;

fn by_reserver(world: &mut World, instruction: host::Instruction) -> Outcome {
    let (submitter, reserver) = (world.submitter.insecure_clone(), world.reserver.insecure_clone());
    world.send(&[instruction], &[&submitter, &reserver])
}

fn by_merchant(world: &mut World, instruction: host::Instruction) -> Outcome {
    let merchant = world.payer.insecure_clone();
    world.send(&[instruction], &[&merchant])
}

#[track_caller]
fn says(logs: &[String], world: &World, offered: &Offered, mint: Key, amount: u64) {
    let line = log::Collected { mint, merchant: offered.offer.merchant, address: offered.at(world), amount };
    assert!(logs.contains(&format!("Program data: {}", base64(&line.to_bytes()))), "{logs:?}");
}

#[test]
fn merchant_and_reserver_have_so_much_given_to_the_merchant_at_any_time() {
    for kind in [MintKind::Token, MintKind::Token2022(&[]), MintKind::Token2022(&[Extension::MetadataPointer])] {
        let mut world = World::new();
        let offered = Offered::new(&mut world, kind);
        offered.send(&mut world, 310);
        let (from, to) = (offered.tokens(&world), offered.token_of(&offered.offer.merchant));
        let rent = world.lamports(&from);
        let collect = offered.collect(&world, &key(&world.reserver), 7);
        let done = by_reserver(&mut world, collect).unwrap();
        says(&done.logs, &world, &offered, offered.offer.mint, 7);
        // While a purchase runs and when it is over, with no regard to what is paid for.
        let done = offered.collect_by_merchant(&mut world, 3).unwrap();
        says(&done.logs, &world, &offered, offered.offer.mint, 3);
        offered.deposit(&mut world).unwrap();
        offered.send(&mut world, 40);
        offered.collect_by_merchant(&mut world, 40).unwrap();
        assert_eq!((world.tokens(&to), world.tokens(&from)), (1_050, 0));
        assert_eq!(world.lamports(&from), rent, "the token account stays open");
    }
}

#[test]
fn nobody_else_collects() {
    let (mut world, offered) = funded(300);
    world.fund(&offered.at(&world), 1_000_000);
    let others = [&world.third_party, &world.releaser, &world.settler, &world.authority];
    let submitter = world.submitter.insecure_clone();
    for other in others.map(|other| other.insecure_clone()) {
        world.fund(&key(&other), 1_000_000);
        for instruction in [offered.collect(&world, &key(&other), 1), offered.collect_lamports(&world, &key(&other))] {
            refused(world.send(&[instruction], &[&submitter, &other]), GatewayError::CollectorMismatch);
        }
    }
    // They are named, and do not sign.
    for named in [offered.offer.merchant, offered.offer.reserver] {
        for mut instruction in [offered.collect(&world, &named, 1), offered.collect_lamports(&world, &named)] {
            instruction.accounts[AUTHORITY].signer = false;
            refused(world.send(&[instruction], &[&submitter]), GatewayError::SignatureMissing);
        }
    }
    // The merchant of one offer is nobody to another, and neither is the program's reserver where the offer names none such.
    let mut other = offered.clone();
    (other.offer.merchant, other.offer.reserver) = (key(&world.settler), key(&keypair(9)));
    other.send(&mut world, 300);
    let collect = other.collect(&world, &offered.offer.merchant, 1);
    refused(by_merchant(&mut world, collect), GatewayError::CollectorMismatch);
    let collect = other.collect(&world, &key(&world.reserver), 1);
    refused(by_reserver(&mut world, collect), GatewayError::CollectorMismatch);
    assert_eq!([&offered, &other].map(|offered| world.tokens(&offered.tokens(&world))), [300, 300]);
}

#[test]
fn no_more_than_is_there_is_collected_and_not_nothing() {
    let (mut world, offered) = funded(300);
    for (amount, error) in
        [(0, GatewayError::AmountZero), (301, GatewayError::BalanceTooSmall), (u64::MAX, GatewayError::BalanceTooSmall)]
    {
        refused(offered.collect_by_merchant(&mut world, amount), error);
        let collect = offered.collect(&world, &key(&world.reserver), amount);
        refused(by_reserver(&mut world, collect), error);
    }
    offered.collect_by_merchant(&mut world, 300).unwrap();
    refused(offered.collect_by_merchant(&mut world, 1), GatewayError::BalanceTooSmall);
    // What was collected is deposited no more, and what was deposited is not collected.
    refused(offered.deposit(&mut world), GatewayError::BalanceTooSmall);
    offered.send(&mut world, 301);
    let (deposit, collect) = (offered.instruction(&world), offered.collect(&world, &key(&world.reserver), 2));
    refused(offered.payment().submit(&mut world, &[deposit.clone(), collect]), GatewayError::BalanceTooSmall);
    let collect = offered.collect(&world, &key(&world.reserver), 1);
    offered.payment().submit(&mut world, &[collect, deposit]).unwrap();
    assert_eq!(world.tokens(&offered.payment().vault(&world)), 300);
}

/// The mint is not judged, neither that of a purchase nor another one.
#[test]
fn any_token_is_collected_out_of_any_account_of_the_address() {
    for (kind, fee) in [
        (MintKind::Token, 0),
        (MintKind::Token2022(&[]), 0),
        (MintKind::Token2022(&[Extension::PermanentDelegate]), 0),
        (MintKind::Token2022(&[Extension::TransferFee]), 1),
    ] {
        let (mut world, offered) = funded(300);
        let (at, merchant, other) = (offered.at(&world), offered.offer.merchant, world.mint(41, kind));
        let from = world.mint_to(&other, &at, 500);
        let to = world.mint_to(&other, &merchant, 1);
        let token = (&kind.program(), &other);
        let collect = host::collect_of(&world.program, key(&world.reserver), token, &offered.offer, 100);
        let done = by_reserver(&mut world, collect).unwrap();
        says(&done.logs, &world, &offered, other, 100);
        let collect = host::collect_of(&world.program, merchant, token, &offered.offer, 400);
        by_merchant(&mut world, collect).unwrap();
        assert_eq!(world.tokens(&from), 0);
        // What the token takes on the way is the merchant's.
        let got = world.tokens(&to);
        assert!(if fee == 0 { got == 501 } else { (400..501).contains(&got) }, "{kind:?}: {got}");
        // Another account of the address, of the offer's own token.
        let aside = world.token_account(50, &offered.offer.mint, &at);
        let transfer = offered.payment().transfer(&world, aside, 9);
        let third_party = world.third_party.insecure_clone();
        world.send(&[transfer], &[&third_party]).unwrap();
        let mut collect = offered.collect(&world, &key(&world.reserver), 9);
        collect.accounts[FROM].key = aside;
        by_reserver(&mut world, collect).unwrap();
        assert_eq!(world.tokens(&offered.token_of(&merchant)), 1_009);
    }
}

#[test]
fn the_reserver_pays_the_merchants_associated_account_and_no_other() {
    let (mut world, offered) = funded(300);
    let (mint, merchant) = (offered.offer.mint, offered.offer.merchant);
    let aside = world.token_account(50, &mint, &merchant);
    let own = world.token_account(51, &mint, &offered.at(&world));
    let reservers = world.mint_to(&mint, &key(&world.reserver), 1);
    let settlers = offered.token_of(&offered.reservation.settler);
    let buyers = offered.token_of(&key(&world.third_party));
    for to in [aside, own, reservers, settlers, buyers, offered.tokens(&world)] {
        let collect = host::collected_to(offered.collect(&world, &key(&world.reserver), 1), to);
        refused(by_reserver(&mut world, collect), GatewayError::TokenAddressMismatch);
    }
    // An associated account that the merchant gave away.
    let merchants = offered.token_of(&merchant);
    let real = world.account(&merchants).unwrap();
    let mut given = real.clone();
    given.data[32..64].copy_from_slice(&key(&world.third_party));
    world.put(merchants, given);
    let collect = offered.collect(&world, &key(&world.reserver), 1);
    refused(by_reserver(&mut world, collect.clone()), GatewayError::TokenOwnerMismatch);
    world.put(merchants, real);
    by_reserver(&mut world, collect).unwrap();
    assert_eq!(world.tokens(&merchants), 1_001);
}

#[test]
fn the_merchant_names_any_account_but_the_addresss_own() {
    let (mut world, offered) = funded(300);
    let (mint, at) = (offered.offer.mint, offered.at(&world));
    let collect = offered.collect(&world, &offered.offer.merchant, 100);
    // A transfer to itself, or to another account of the address, moves nothing out.
    let own = world.token_account(51, &mint, &at);
    for to in [offered.tokens(&world), own] {
        refused(by_merchant(&mut world, host::collected_to(collect.clone(), to)), GatewayError::TokenOwnerMismatch);
    }
    let other_mint = world.mint(41, MintKind::Token);
    let of_other = world.mint_to(&other_mint, &offered.offer.merchant, 1);
    let wrong = host::collected_to(collect.clone(), of_other);
    refused(by_merchant(&mut world, wrong), GatewayError::TokenMintMismatch);
    let aside = world.token_account(50, &mint, &offered.offer.merchant);
    let settlers = offered.token_of(&offered.reservation.settler);
    for to in [aside, settlers, offered.token_of(&offered.offer.merchant)] {
        let had = world.tokens(&to);
        by_merchant(&mut world, host::collected_to(collect.clone(), to)).unwrap();
        assert_eq!(world.tokens(&to), had + 100);
    }
}

#[test]
fn a_frozen_or_missing_account_loses_nothing() {
    let (mut world, offered) = funded(300);
    let (mint, from, to) = (offered.offer.mint, offered.tokens(&world), offered.token_of(&offered.offer.merchant));
    for frozen in [from, to] {
        world.freeze(&mint, &frozen, true);
        refused(offered.collect_by_merchant(&mut world, 1), GatewayError::TokenAccountInvalid);
        world.freeze(&mint, &frozen, false);
    }
    // The merchant need not wait for its own.
    world.freeze(&mint, &to, true);
    let aside = world.token_account(50, &mint, &offered.offer.merchant);
    let collect = host::collected_to(offered.collect(&world, &offered.offer.merchant, 1), aside);
    by_merchant(&mut world, collect).unwrap();
    assert_eq!(world.tokens(&aside), 1);

    // A merchant that never held the token. Anyone may make its account, in the same transaction.
    let mut offered = offered;
    offered.offer.merchant = key(&keypair(30));
    offered.send(&mut world, 300);
    let reserver = key(&world.reserver);
    let collect = offered.collect(&world, &reserver, 300);
    refused(by_reserver(&mut world, collect.clone()), GatewayError::TokenAccountInvalid);
    let create = host::create_associated_token(reserver, &offered.offer.merchant, &mint, &offered.token_program);
    let reserver = world.reserver.insecure_clone();
    world.send(&[create, collect], &[&reserver]).unwrap();
    assert_eq!(world.tokens(&offered.token_of(&offered.offer.merchant)), 300);
}

#[test]
fn all_native_sol_at_the_address_goes_to_the_merchant() {
    let (mut world, offered) = funded(300);
    let (at, merchant) = (offered.at(&world), offered.offer.merchant);
    let collect = offered.collect_lamports(&world, &key(&world.reserver));
    refused(by_reserver(&mut world, collect.clone()), GatewayError::AmountZero);
    world.fund(&at, 2_000_000);
    for (place, other, error) in [
        (1, offered.tokens(&world), GatewayError::OfferAddressInvalid),
        (2, key(&world.third_party), GatewayError::TokenOwnerMismatch),
        (2, key(&world.reserver), GatewayError::TokenOwnerMismatch),
        (3, ids::TOKEN_PROGRAM, GatewayError::SystemProgramInvalid),
    ] {
        let mut wrong = collect.clone();
        wrong.accounts[place].key = other;
        refused(by_reserver(&mut world, wrong), error);
    }
    for place in [1, 2] {
        let mut wrong = collect.clone();
        wrong.accounts[place].writable = false;
        refused(by_reserver(&mut world, wrong), GatewayError::AccountNotWritable);
    }
    let had = world.lamports(&merchant);
    let done = by_reserver(&mut world, collect).unwrap();
    says(&done.logs, &world, &offered, ZERO_KEY, 2_000_000);
    assert_eq!((world.lamports(&at), world.lamports(&merchant)), (0, had + 2_000_000));
    // By the merchant, who pays the fee of that. The token is not touched.
    world.fund(&at, 2_000_000);
    let collect = offered.collect_lamports(&world, &merchant);
    let done = by_merchant(&mut world, collect).unwrap();
    assert_eq!(world.lamports(&merchant), had + 4_000_000 - done.fee);
    // Lamports at the address keep no deposit from being made.
    world.fund(&at, 2_000_000);
    offered.deposit(&mut world).unwrap();
    assert_eq!(world.lamports(&at), 2_000_000);
}

#[test]
fn every_account_of_a_collection_is_checked() {
    const SOMEWHERE: Key = [0x55; 32];
    let (mut world, offered) = funded(300);
    let mut other = offered.clone();
    other.offer.terms_hash = [0x72; 32];
    other.send(&mut world, 300);
    let mut locked = offered.payment();
    locked.data.payment_id = [3; 32];
    locked.deposit(&mut world).unwrap();
    let other_mint = world.mint(41, MintKind::Token);
    let (at, own, merchant) = (offered.at(&world), offered.tokens(&world), offered.offer.merchant);
    let of_other_mint = world.mint_to(&other_mint, &at, 500);
    let merchants_other = world.mint_to(&other_mint, &merchant, 1);
    let real = world.account(&own).unwrap();
    let mut fake = real.clone();
    fake.owner = SOMEWHERE.into();
    world.put([0x56; 32], fake);
    let cases = [
        (AT, other.at(&world), GatewayError::OfferAddressInvalid),
        (AT, merchant, GatewayError::OfferAddressInvalid),
        (FROM, other.tokens(&world), GatewayError::TokenOwnerMismatch),
        (FROM, locked.vault(&world), GatewayError::TokenOwnerMismatch),
        (FROM, offered.token_of(&merchant), GatewayError::TokenOwnerMismatch),
        (FROM, offered.token_of(&key(&world.third_party)), GatewayError::TokenOwnerMismatch),
        (FROM, of_other_mint, GatewayError::TokenMintMismatch),
        (FROM, [0x56; 32], GatewayError::TokenAccountInvalid),
        (TO, merchants_other, GatewayError::TokenAddressMismatch),
        (TO, other.tokens(&world), GatewayError::TokenAddressMismatch),
        (TO, [0x56; 32], GatewayError::TokenAddressMismatch),
        (4, other_mint, GatewayError::TokenAddressMismatch),
        (4, own, GatewayError::MintInvalid),
        (5, ids::TOKEN_2022_PROGRAM, GatewayError::MintInvalid),
        (5, SOMEWHERE, GatewayError::TokenProgramInvalid),
    ];
    let collect = offered.collect(&world, &key(&world.reserver), 1);
    for (index, replacement, error) in cases {
        let mut instruction = collect.clone();
        instruction.accounts[index].key = replacement;
        refused(by_reserver(&mut world, instruction), error);
    }
    for place in [FROM, TO] {
        let mut instruction = collect.clone();
        instruction.accounts[place].writable = false;
        refused(by_reserver(&mut world, instruction), GatewayError::AccountNotWritable);
    }
    for whole in [collect, offered.collect_lamports(&world, &key(&world.reserver))] {
        let (mut fewer, mut more) = (whole.clone(), whole);
        fewer.accounts.pop();
        more.accounts.push(more.accounts[2].clone());
        for instruction in [fewer, more] {
            refused(by_reserver(&mut world, instruction), GatewayError::AccountsInvalid);
        }
    }
    assert_eq!([own, other.tokens(&world)].map(|account| world.tokens(&account)), [300, 300]);
    offered.collect_by_merchant(&mut world, 300).unwrap();
}

/// The cluster is no part of an address. What was sent on the wrong one is collected there, whether the program is set up or not.
#[test]
fn it_is_collected_on_another_cluster() {
    let mut world = World::bare();
    let offered = Offered::new(&mut world, MintKind::Token);
    offered.send(&mut world, 300);
    refused(offered.deposit(&mut world), GatewayError::ConfigInvalid);
    offered.collect_by_merchant(&mut world, 100).unwrap();
    let collect = offered.collect(&world, &offered.offer.reserver, 200);
    by_reserver(&mut world, collect).unwrap();
    assert_eq!(world.tokens(&offered.token_of(&offered.offer.merchant)), 1_300);
}

/// Who hands a token account over keeps no allowance from it, and the right to close it, which moves nothing that is in it.
#[test]
fn whoever_made_a_token_account_for_the_address_has_nothing_of_what_comes_there() {
    const NO_OWNER: Option<u32> = Some(4);
    const NOT_EMPTY: Option<u32> = Some(11);
    const APPROVE: u8 = 4;
    const SET_AUTHORITY: u8 = 6;
    const CLOSE_ACCOUNT: u8 = 9;
    for kind in [MintKind::Token, MintKind::Token2022(&[])] {
        let mut world = World::new();
        let offered = Offered::new(&mut world, kind);
        let (at, mint) = (offered.at(&world), offered.offer.mint);
        let (stranger, settler) = (world.third_party.insecure_clone(), world.settler.insecure_clone());
        let aside = world.token_account(50, &mint, &key(&stranger));
        let meta = |key, signer, writable| host::AccountMeta { key, signer, writable };
        let by_owner = |between: Option<host::AccountMeta>, data: Vec<u8>| {
            let accounts = [Some(meta(aside, false, true)), between, Some(meta(key(&stranger), true, false))];
            host::Instruction { program_id: kind.program(), accounts: accounts.into_iter().flatten().collect(), data }
        };
        let authority = |what: u8, to: &Key| by_owner(None, [&[SET_AUTHORITY, what, 1][..], to].concat());
        let approve = [&[APPROVE][..], &u64::MAX.to_le_bytes()].concat();
        let approve = by_owner(Some(meta(key(&settler), false, false)), approve);
        world.send(&[approve, authority(3, &key(&stranger)), authority(2, &at)], &[&stranger]).unwrap();
        let transfer = offered.payment().transfer(&world, aside, 40);
        world.send(&[transfer], &[&stranger]).unwrap();

        let strangers = offered.token_of(&key(&stranger));
        for thief in [&settler, &stranger] {
            let steal = transfer_checked(&kind.program(), &mint, [aside, strangers], key(thief), 1);
            assert_eq!(custom_code(&world.send(&[steal], &[thief])), NO_OWNER);
        }
        let close = by_owner(Some(meta(key(&stranger), false, true)), vec![CLOSE_ACCOUNT]);
        assert_eq!(custom_code(&world.send(std::slice::from_ref(&close), &[&stranger])), NOT_EMPTY);
        let mut collect = offered.collect(&world, &offered.offer.merchant, 40);
        collect.accounts[FROM].key = aside;
        by_merchant(&mut world, collect).unwrap();
        assert_eq!(world.tokens(&offered.token_of(&offered.offer.merchant)), 1_040);
        world.send(&[close], &[&stranger]).unwrap();
    }
}
