//! Deposits from the address of a merchant's offer: whoever buys pays to the same address, and each purchase has an escrow of its own
//! under the terms that the offer makes, or nothing is deposited.

use gateway_program::{
    GatewayError, Key, ZERO_KEY, host, ids,
    instruction::{Collect, CollectLamports, DepositFromOffer},
    log,
    message::Offer,
    rules::RESERVE_AHEAD_SECONDS_MAX,
};
use gateway_program_tests::{Addressed, Extension, MintKind, Offered, World, key, keypair, refused};

use crate::{
    deposit_addresses::{logged, recorded},
    escrow_states::base64,
};

/// Place of the token account among the accounts of a deposit.
const FROM: usize = 5;
/// Place of the address.
const AT: usize = 6;

/// A world where buyers sent `amount` to the address, in SPL Token.
pub fn funded(amount: u64) -> (World, Offered) {
    let mut world = World::new();
    let offered = Offered::new(&mut world, MintKind::Token);
    offered.send(&mut world, amount);
    (world, offered)
}

/// A world where a purchase is paid under the offer that `change` makes.
fn funded_under(change: impl FnOnce(&World, &mut Offer)) -> (World, Offered) {
    let mut world = World::new();
    let mut offered = Offered::new(&mut world, MintKind::Token);
    change(&world, &mut offered.offer);
    offered.send(&mut world, 300);
    (world, offered)
}

#[test]
fn what_buyers_pay_goes_into_an_escrow_each_and_out_of_it() {
    const EXTENSIONS: &[Extension] = &[Extension::MetadataPointer, Extension::CloseAuthority];
    for kind in [MintKind::Token, MintKind::Token2022(&[]), MintKind::Token2022(EXTENSIONS)] {
        let mut world = World::new();
        let first = Offered::new(&mut world, kind);
        let (from, merchants) = (first.tokens(&world), first.token_of(&first.offer.merchant));
        let mut held = 1_000;
        for (id, end) in [(1, "release"), (2, "cancel"), (3, "refund")] {
            let offered = first.again(&world, id);
            assert_eq!(offered.tokens(&world), from, "all buyers pay to one address");
            let payment = offered.payment();
            offered.send(&mut world, 300);
            assert!(world.account(&offered.at(&world)).is_none(), "an address has no account of its own");
            let (submitter, rent) = (world.lamports(&offered.rent_payer), world.lamports(&from));

            let done = offered.deposit(&mut world).unwrap();
            let (escrow, vault) = (host::escrow_address(&world.program, &[id; 32]), payment.vault(&world));
            let record = world.escrow(&[id; 32]).unwrap();
            assert_eq!(record, recorded(&world, &payment, 300));
            assert_eq!((record.payer, record.deposited), (offered.offer.merchant, 300));
            assert_eq!([vault, merchants, from].map(|account| world.tokens(&account)), [300, held, 0]);
            // The emptied account serves those who buy next.
            assert_eq!(world.lamports(&from), rent);
            let paid = world.lamports(&escrow.key) + world.lamports(&vault) + done.fee;
            assert_eq!(world.lamports(&offered.rent_payer), submitter - paid);
            for line in logged(&record) {
                assert!(done.logs.contains(&format!("Program data: {}", base64(&line))), "{:?}", done.logs);
            }
            assert!(done.logs.contains(&format!("Program log: {}", log::OFFER_SAID)), "{:?}", done.logs);

            let third_party = world.third_party.insecure_clone();
            let ending = match end {
                "release" => [&payment.release(&world)[..], &[payment.return_remainder(&world)]].concat(),
                "cancel" => payment.cancel(&world).to_vec(),
                _ => vec![payment.refund(&world)],
            };
            world.set_time(payment.data.refund_after - u64::from(end != "refund"));
            world.send(&ending, &[&third_party]).unwrap();
            // The merchant has what the settler did not ask, and never had to sign.
            held += if end == "release" { 50 } else { 300 };
            assert_eq!(world.tokens(&merchants), held, "{end}");
            assert!(world.account(&vault).is_none());
        }
        assert_eq!(world.tokens(&first.token_of(&key(&world.settler))), 250);
    }
}

/// The money of several buyers lies together. Each deposit takes the amount of one.
#[test]
fn buyers_who_paid_at_once_are_served_one_after_the_other() {
    let (mut world, first) = funded(900);
    for (id, left) in [(1, 600), (2, 300), (3, 0)] {
        let offered = first.again(&world, id);
        offered.deposit(&mut world).unwrap();
        assert_eq!(world.tokens(&offered.tokens(&world)), left);
    }
    refused(first.again(&world, 4).deposit(&mut world), GatewayError::BalanceTooSmall);
    // Two in one transaction.
    first.send(&mut world, 600);
    let deposits = [4, 5].map(|id| first.again(&world, id).instruction(&world));
    first.payment().submit(&mut world, &deposits).unwrap();
    assert_eq!([4, 5].map(|id| world.escrow(&[id; 32]).unwrap().deposited), [300, 300]);
}

/// A settler that does not deliver is followed by another: a purchase names no quote.
#[test]
fn another_settler_follows() {
    let (mut world, offered) = funded(300);
    offered.deposit(&mut world).unwrap();
    let payment = offered.payment();
    world.set_time(payment.data.fulfill_by + 1);
    let to = payment.next(&world);
    let instructions = payment.reassign(&world, &to);
    payment.submit(&mut world, &instructions).unwrap();
    let (payment, third_party) = (payment.reassigned(&to), world.third_party.insecure_clone());
    let had = world.tokens(&payment.token_of(&to.settler));
    let ending = [&payment.release(&world)[..], &[payment.return_remainder(&world)]].concat();
    world.send(&ending, &[&third_party]).unwrap();
    let tokens = [payment.token_of(&to.settler), payment.accounts.payer_token].map(|account| world.tokens(&account));
    assert_eq!(tokens, [had + 240, 1_060]);
}

#[test]
fn every_member_of_an_offer_leads_to_another_address() {
    let (mut world, offered) = funded(1_000);
    let (at, from, reserver) = (offered.at(&world), offered.tokens(&world), key(&world.reserver));
    let other_mint = world.mint(41, MintKind::Token);
    world.mint_to(&other_mint, &offered.offer.merchant, 1);
    type Change<'a> = &'a dyn Fn(&mut Offer);
    let changes: [(&str, Change); 8] = [
        ("terms_hash", &|offer| offer.terms_hash = [0x72; 32]),
        ("merchant", &|offer| offer.merchant = key(&keypair(8))),
        ("mint", &|offer| offer.mint = other_mint),
        ("amount", &|offer| offer.amount = 299),
        ("reserver", &|offer| offer.reserver = key(&keypair(8))),
        ("releaser", &|offer| offer.releaser = key(&keypair(8))),
        ("delivery_seconds", &|offer| offer.delivery_seconds += 1),
        ("refund_seconds", &|offer| offer.refund_seconds -= 1),
    ];
    let mut places = std::collections::BTreeSet::from([at]);
    for (name, change) in changes {
        let mut other = offered.clone();
        change(&mut other.offer);
        other.reservation.deposited = other.offer.amount;
        assert!(places.insert(other.at(&world)), "{name}");
        // What is at the address of this offer goes nowhere under the others.
        let mut deposit = other.instruction(&world);
        (deposit.accounts[AT].key, deposit.accounts[FROM].key, deposit.accounts[1].key) = (at, from, reserver);
        refused(other.payment().submit(&mut world, &[deposit]), GatewayError::OfferAddressInvalid);
        world.fund(&at, 1_000_000);
        let signers = [world.payer.insecure_clone(), world.third_party.insecure_clone()];
        let authority = signers.iter().find(|signer| key(signer) == other.offer.merchant).unwrap();
        let mut collect = other.collect(&world, &key(authority), 1);
        (collect.accounts[1].key, collect.accounts[2].key) = (at, from);
        let mut lamports = other.collect_lamports(&world, &key(authority));
        lamports.accounts[1].key = at;
        for instruction in [collect, lamports] {
            refused(world.send(&[instruction], &[authority]), GatewayError::OfferAddressInvalid);
        }
    }
    assert_eq!(world.tokens(&from), 1_000);
    offered.deposit(&mut world).unwrap();
}

/// What differs between purchases leads to no other address: neither payment nor time, nor the reservation.
#[test]
fn an_address_is_the_offers_and_the_programs_own() {
    let (mut world, offered) = funded(300);
    let mut other = offered.again(&world, 9);
    (other.purchase.reserve_deadline, other.reservation.source_amount) = (world.now + 7, 1);
    assert_eq!(other.at(&world), offered.at(&world));
    let own = host::offer_address(&world.program, &offered.offer);
    assert_ne!(own, host::offer_address(&key(&keypair(9)), &offered.offer));
    // No seed of another kind makes the same, not even over the same 32 bytes.
    let hash = offered.offer.address_hash();
    let others = [
        host::escrow_address(&world.program, &hash),
        host::vault_address(&world.program, &hash),
        host::delegate_address(&world.program, &hash),
        host::fulfillment_address(&world.program, &hash),
        host::find_program_address(&[gateway_program::seeds::ADDRESS, &hash], &world.program),
    ];
    assert!(others.iter().all(|other| other.key != own.key));
    // The terms of a purchase have a deposit address, which is another. Neither pays for the other.
    let addressed = Addressed::of(offered.payment());
    assert_ne!(addressed.at(&world), own.key);
    let mut crossed = addressed.instruction(&world);
    (crossed.accounts[FROM].key, crossed.accounts[AT].key) = (offered.tokens(&world), own.key);
    refused(addressed.payment.submit(&mut world, &[crossed]), GatewayError::DepositAddressInvalid);
    let mut crossed = offered.instruction(&world);
    (crossed.accounts[FROM].key, crossed.accounts[AT].key) = (addressed.tokens(&world), addressed.at(&world));
    refused(offered.payment().submit(&mut world, &[crossed]), GatewayError::OfferAddressInvalid);
    world.set_time(addressed.payment.data.reserve_deadline + 1);
    let mut back = addressed.give_back(&world);
    (back.accounts[2].key, back.accounts[3].key) = (own.key, offered.tokens(&world));
    let third_party = world.third_party.insecure_clone();
    refused(world.send(&[back], &[&third_party]), GatewayError::DepositAddressInvalid);
}

#[test]
fn exactly_the_amount_is_deposited_of_what_is_there() {
    for (there, deposited, expected) in [
        (300, 300, None),
        (700, 300, None),
        (700, 0, Some(GatewayError::DepositNotExact)),
        (700, 250, Some(GatewayError::DepositNotExact)),
        (700, 299, Some(GatewayError::DepositNotExact)),
        (700, 301, Some(GatewayError::DepositNotExact)),
        (700, 600, Some(GatewayError::DepositNotExact)),
        (700, u64::MAX, Some(GatewayError::DepositNotExact)),
        (299, 299, Some(GatewayError::DepositNotExact)),
        (299, 300, Some(GatewayError::BalanceTooSmall)),
        (0, 300, Some(GatewayError::BalanceTooSmall)),
    ] {
        let (mut world, mut offered) = funded(there);
        offered.reservation.deposited = deposited;
        let done = offered.deposit(&mut world);
        match expected {
            Some(error) => refused(done, error),
            None => assert_eq!(world.escrow(&[1; 32]).map(|record| record.deposited), Some(300)),
        }
        let left = if expected.is_some() { there } else { there - 300 };
        assert_eq!(world.tokens(&offered.tokens(&world)), left);
    }
}

#[test]
fn a_purchase_is_deposited_soon_or_not_at_all() {
    const YEAR: u64 = 365 * 24 * 60 * 60;
    for (ahead, expected) in [
        (-1, Some(GatewayError::ReserveWindowClosed)),
        (0, None),
        (RESERVE_AHEAD_SECONDS_MAX as i64, None),
        (RESERVE_AHEAD_SECONDS_MAX as i64 + 1, Some(GatewayError::ReserveDeadlineTooFar)),
        (YEAR as i64, Some(GatewayError::ReserveDeadlineTooFar)),
    ] {
        let (mut world, mut offered) = funded(300);
        offered.purchase.reserve_deadline = world.now.checked_add_signed(ahead).unwrap();
        let done = offered.deposit(&mut world);
        match expected {
            Some(error) => refused(done, error),
            // The reserver cannot lock it for longer than that and what the offer says.
            None => assert!(world.escrow(&[1; 32]).unwrap().refund_after <= world.now + 600 + 540 + 3_000),
        }
    }
    let (mut world, offered) = funded(300);
    world.set_time(offered.purchase.reserve_deadline + 1);
    refused(offered.deposit(&mut world), GatewayError::ReserveWindowClosed);
    world.set_time(offered.purchase.reserve_deadline);
    offered.deposit(&mut world).unwrap();
}

#[test]
fn rules_of_the_reservation_are_those_of_every_deposit() {
    let program = key(&keypair(1));
    type Change<'a> = &'a dyn Fn(&mut Offered, Key);
    let cases: [(Change, GatewayError); 10] = [
        (&|o, _| o.reservation.source_amount = 301, GatewayError::AmountAboveCap),
        (&|o, _| o.reservation.source_amount = 0, GatewayError::AmountZero),
        (&|o, _| o.reservation.fulfill_by = 1_800_000_000, GatewayError::FulfillByPassed),
        (&|o, _| o.reservation.fulfill_by = 1_800_000_601, GatewayError::FulfillByTooLate),
        (&|o, _| o.reservation.settler = ZERO_KEY, GatewayError::SettlerInvalid),
        (&|o, _| o.reservation.settler = program, GatewayError::SettlerInvalid),
        (&|o, _| o.reservation.settler = host::config_address(&program).key, GatewayError::SettlerInvalid),
        (&|o, _| o.reservation.settler = host::escrow_address(&program, &[1; 32]).key, GatewayError::SettlerInvalid),
        (&|o, _| o.reservation.settler = host::vault_address(&program, &[1; 32]).key, GatewayError::SettlerInvalid),
        (&|o, at| o.reservation.settler = at, GatewayError::SettlerInvalid),
    ];
    let (mut world, offered) = funded(700);
    assert_eq!(world.program, program);
    let at = offered.at(&world);
    for (change, error) in cases {
        let mut changed = offered.clone();
        change(&mut changed, at);
        refused(changed.deposit(&mut world), error);
    }
    // At the edges it holds.
    let mut most = offered;
    (most.reservation.source_amount, most.reservation.fulfill_by) = (300, 1_800_000_600);
    most.deposit(&mut world).unwrap();
}

#[test]
fn rules_of_the_terms_are_those_of_every_deposit() {
    type Change<'a> = &'a dyn Fn(&World, &mut Offer);
    let cases: [(Change, GatewayError); 5] = [
        (&|_, offer| offer.merchant = ZERO_KEY, GatewayError::PayerMissing),
        (&|_, offer| offer.releaser = ZERO_KEY, GatewayError::ReleaserMissing),
        (&|_, offer| offer.refund_seconds = 0, GatewayError::WindowsOutOfOrder),
        // Times that no number holds do not wrap around.
        (&|_, offer| offer.delivery_seconds = u64::MAX, GatewayError::WindowsOutOfOrder),
        (&|world, offer| offer.delivery_seconds = u64::MAX - world.now - 60, GatewayError::WindowsOutOfOrder),
    ];
    for (change, error) in cases {
        let (mut world, offered) = funded_under(change);
        refused(offered.deposit(&mut world), error);
        assert_eq!(world.tokens(&offered.tokens(&world)), 300);
    }
    // Of nothing there is no purchase.
    let (mut world, mut offered) = funded_under(|_, offer| offer.amount = 0);
    (offered.reservation.deposited, offered.reservation.source_amount) = (0, 0);
    refused(offered.deposit(&mut world), GatewayError::AmountZero);
}

#[test]
fn only_the_programs_reserver_admits_and_only_where_the_offer_names_it() {
    // The offer names a stranger, who signs.
    let (mut world, offered) = funded_under(|world, offer| offer.reserver = key(&world.third_party));
    let (submitter, third_party) = (world.submitter.insecure_clone(), world.third_party.insecure_clone());
    let deposit = offered.instruction(&world);
    refused(world.send(std::slice::from_ref(&deposit), &[&submitter, &third_party]), GatewayError::ReserverNotAdmitted);
    // It names the stranger, and the program's own signs.
    let mut admitted = deposit;
    admitted.accounts[1].key = key(&world.reserver);
    refused(offered.payment().submit(&mut world, &[admitted]), GatewayError::ReserverNotAdmitted);
    // It names the program's own, and the stranger or the merchant signs.
    let (mut world, offered) = funded(300);
    for other in [third_party, world.payer.insecure_clone()] {
        let mut deposit = offered.instruction(&world);
        deposit.accounts[1].key = key(&other);
        refused(world.send(&[deposit], &[&submitter, &other]), GatewayError::ReserverNotAdmitted);
    }
}

#[test]
fn whoever_pays_the_rent_and_the_reserver_sign() {
    let (mut world, offered) = funded(300);
    let (submitter, reserver) = (world.submitter.insecure_clone(), world.reserver.insecure_clone());
    for (index, signer) in [(0, &reserver), (1, &submitter)] {
        let mut deposit = offered.instruction(&world);
        deposit.accounts[index].signer = false;
        refused(world.send(&[deposit], &[signer]), GatewayError::SignatureMissing);
    }
    for index in [0, 3, 4, FROM] {
        let mut deposit = offered.instruction(&world);
        deposit.accounts[index].writable = false;
        // One who signs first pays the fee, and is writable.
        refused(world.send(&[deposit], &[&reserver, &submitter]), GatewayError::AccountNotWritable);
    }
    offered.deposit(&mut world).unwrap();
}

#[test]
fn a_payment_has_one_deposit_whichever_way_it_comes() {
    // Twice from the offer, at once and after its end.
    let (mut world, offered) = funded(900);
    let twice = [offered.instruction(&world), offered.instruction(&world)];
    refused(offered.payment().submit(&mut world, &twice), GatewayError::PaymentIdUsed);
    offered.deposit(&mut world).unwrap();
    refused(offered.deposit(&mut world), GatewayError::PaymentIdUsed);
    let (third_party, cancel) = (world.third_party.insecure_clone(), offered.payment().cancel(&world));
    world.send(&cancel, &[&third_party]).unwrap();
    refused(offered.deposit(&mut world), GatewayError::PaymentIdUsed);
    // Another offer with the same id.
    let mut other = offered.clone();
    other.offer.terms_hash = [0x72; 32];
    other.send(&mut world, 300);
    refused(other.deposit(&mut world), GatewayError::PaymentIdUsed);
    // From a deposit address and signed for, before it and after it.
    let addressed = Addressed::of(offered.payment());
    addressed.send(&mut world, 300);
    refused(addressed.deposit(&mut world), GatewayError::PaymentIdUsed);
    refused(addressed.payment.deposit(&mut world), GatewayError::PaymentIdUsed);
    for is_signed in [false, true] {
        let (mut world, offered) = funded(300);
        let addressed = Addressed::of(offered.payment());
        addressed.send(&mut world, 300);
        let done = if is_signed { addressed.payment.deposit(&mut world) } else { addressed.deposit(&mut world) };
        done.unwrap();
        refused(offered.deposit(&mut world), GatewayError::PaymentIdUsed);
        assert_eq!(world.tokens(&offered.tokens(&world)), 300);
    }
}

#[test]
fn a_harmful_mint_is_refused() {
    for (extension, error) in [
        (Extension::TransferFee, GatewayError::MintTransferFee),
        (Extension::PermanentDelegate, GatewayError::MintPermanentDelegate),
        (Extension::TransferHook, GatewayError::MintTransferHook),
        (Extension::Pausable, GatewayError::MintPausable),
        (Extension::ConfidentialTransfer, GatewayError::MintConfidential),
    ] {
        let mut world = World::new();
        let offered = Offered::new(&mut world, MintKind::Token2022(&[extension]));
        let at = offered.at(&world);
        world.mint_to(&offered.offer.mint, &at, 300);
        refused(offered.deposit(&mut world), error);
        assert_eq!(world.tokens(&offered.tokens(&world)), 300);
    }
}

#[test]
fn frozen_money_waits() {
    let (mut world, offered) = funded(300);
    let (mint, from) = (offered.offer.mint, offered.tokens(&world));
    world.freeze(&mint, &from, true);
    refused(offered.deposit(&mut world), GatewayError::TokenAccountInvalid);
    world.freeze(&mint, &from, false);
    offered.deposit(&mut world).unwrap();
}

/// Data of another length is of no instruction.
#[test]
fn data_is_read_whole_or_not_at_all() {
    let (mut world, offered) = funded(300);
    world.fund(&offered.at(&world), 1_000_000);
    let (submitter, reserver) = (world.submitter.insecure_clone(), world.reserver.insecure_clone());
    let authority = key(&reserver);
    for (whole, size) in [
        (offered.instruction(&world), DepositFromOffer::SIZE),
        (offered.collect(&world, &authority, 1), Collect::SIZE),
        (offered.collect_lamports(&world, &authority), CollectLamports::SIZE),
    ] {
        assert_eq!(whole.data.len(), size);
        let lengths = [1, 184, 192, 225, size - 1].into_iter().filter(|length| *length < size);
        for data in lengths.map(|length| whole.data[..length].to_vec()).chain([[&whole.data[..], &[0]].concat()]) {
            let instruction = host::Instruction { data, ..whole.clone() };
            refused(world.send(&[instruction], &[&submitter, &reserver]), GatewayError::InstructionInvalid);
        }
    }
}

#[test]
fn every_account_of_a_deposit_is_checked() {
    const SOMEWHERE: Key = [0x55; 32];
    let (mut world, offered) = funded(300);
    let mut other = offered.again(&world, 2);
    other.offer.terms_hash = [0x72; 32];
    other.send(&mut world, 300);
    let mut locked = offered.payment();
    locked.data.payment_id = [3; 32];
    locked.deposit(&mut world).unwrap();
    let other_mint = world.mint(41, MintKind::Token);
    let (at, own) = (offered.at(&world), offered.tokens(&world));
    let of_other_mint = world.mint_to(&other_mint, &at, 500);
    let aside = world.token_account(50, &offered.offer.mint, &at);
    let escrow = host::escrow_address(&world.program, &[1; 32]).key;
    let cases = [
        (2, SOMEWHERE, GatewayError::ConfigInvalid),
        (3, host::escrow_address(&world.program, &[2; 32]).key, GatewayError::EscrowInvalid),
        (3, SOMEWHERE, GatewayError::EscrowInvalid),
        (4, other.payment().vault(&world), GatewayError::VaultInvalid),
        (4, locked.vault(&world), GatewayError::VaultInvalid),
        (4, own, GatewayError::VaultInvalid),
        (FROM, offered.token_of(&offered.offer.merchant), GatewayError::TokenAddressMismatch),
        (FROM, other.tokens(&world), GatewayError::TokenAddressMismatch),
        (FROM, locked.vault(&world), GatewayError::TokenAddressMismatch),
        (FROM, of_other_mint, GatewayError::TokenAddressMismatch),
        (FROM, aside, GatewayError::TokenAddressMismatch),
        (AT, other.at(&world), GatewayError::OfferAddressInvalid),
        (AT, offered.offer.merchant, GatewayError::OfferAddressInvalid),
        (AT, escrow, GatewayError::OfferAddressInvalid),
        (7, other_mint, GatewayError::MintInvalid),
        (7, own, GatewayError::MintInvalid),
        (8, ids::TOKEN_2022_PROGRAM, GatewayError::MintInvalid),
        (8, SOMEWHERE, GatewayError::TokenProgramInvalid),
        (9, SOMEWHERE, GatewayError::SystemProgramInvalid),
    ];
    for (index, replacement, error) in cases {
        let mut instruction = offered.instruction(&world);
        instruction.accounts[index].key = replacement;
        refused(offered.payment().submit(&mut world, &[instruction]), error);
    }
    let (mut fewer, mut more) = (offered.instruction(&world), offered.instruction(&world));
    fewer.accounts.pop();
    more.accounts.push(more.accounts[9].clone());
    for instruction in [fewer, more] {
        refused(offered.payment().submit(&mut world, &[instruction]), GatewayError::AccountsInvalid);
    }
    offered.deposit(&mut world).unwrap();
    other.deposit(&mut world).unwrap();
}
