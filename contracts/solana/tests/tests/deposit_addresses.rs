//! Deposits by address: whoever sends the money, it goes into the escrow that the address commits to, under the terms that it commits to,
//! or nothing is deposited.

use gateway_program::{
    GatewayError, Key, ZERO_KEY,
    account::{ANY_QUOTE, Escrow, State},
    host, ids,
    instruction::DepositFromAddress,
    log,
    message::Deposit,
};
use gateway_program_tests::{Addressed, Extension, MintKind, Payment, World, key, keypair, refused};

use crate::escrow_states::base64;

/// Place of the token account among the accounts of a deposit.
const FROM: usize = 5;
/// Place of the address.
const AT: usize = 6;

/// A world where `amount` came to the address, in SPL Token.
fn funded(amount: u64) -> (World, Addressed) {
    let mut world = World::new();
    let addressed = Addressed::new(&mut world, MintKind::Token);
    addressed.send(&mut world, amount);
    (world, addressed)
}

/// A world where a payment of the terms that `change` makes has all of its money at its address.
fn funded_under(change: impl FnOnce(&World, &mut Payment)) -> (World, Addressed) {
    let mut world = World::new();
    let mut addressed = Addressed::new(&mut world, MintKind::Token);
    change(&world, &mut addressed.payment);
    addressed.send(&mut world, 300);
    (world, addressed)
}

#[test]
fn what_strangers_sent_goes_into_escrow_and_out_of_it() {
    const EXTENSIONS: &[Extension] = &[Extension::MetadataPointer, Extension::CloseAuthority];
    for kind in [MintKind::Token, MintKind::Token2022(&[]), MintKind::Token2022(EXTENSIONS)] {
        for end in ["release", "cancel", "refund"] {
            let mut world = World::new();
            let addressed = Addressed { deposited: 320, ..Addressed::new(&mut world, kind) };
            let (payment, at, from) = (&addressed.payment, addressed.at(&world), addressed.tokens(&world));
            // In two transfers, which are too little each.
            addressed.send(&mut world, 120);
            addressed.send(&mut world, 200);
            assert!(world.account(&at).is_none(), "an address has no account of its own");
            assert_eq!(world.tokens(&from), 320);

            let (submitter, rent) = (world.lamports(&payment.accounts.rent_payer), world.lamports(&from));
            let done = addressed.deposit(&mut world).unwrap();
            let (escrow, vault) = (host::escrow_address(&world.program, &[1; 32]), payment.vault(&world));
            let record = world.escrow(&[1; 32]).unwrap();
            assert_eq!(record, recorded(&world, payment, 320));
            assert_eq!((world.tokens(&vault), world.tokens(&payment.accounts.payer_token)), (320, 1_000));
            // The emptied account is closed. What it cost is the rent payer's, who paid for the two others.
            assert!(world.account(&from).is_none());
            let paid = world.lamports(&escrow.key) + world.lamports(&vault) + done.fee;
            assert_eq!(world.lamports(&payment.accounts.rent_payer), submitter + rent - paid);
            for line in logged(&record) {
                assert!(done.logs.contains(&format!("Program data: {}", base64(&line))), "{:?}", done.logs);
            }

            let third_party = world.third_party.insecure_clone();
            let ending = match end {
                "release" => payment.release(&world).to_vec(),
                "cancel" => payment.cancel(&world).to_vec(),
                _ => vec![payment.refund(&world)],
            };
            world.set_time(payment.data.refund_after - u64::from(end != "refund"));
            world.send(&ending, &[&third_party]).unwrap();
            if end == "release" {
                assert_eq!((world.tokens(&payment.token_of(&payment.data.settler)), world.tokens(&vault)), (250, 70));
                let remainder = payment.return_remainder(&world);
                world.send(&[remainder], &[&third_party]).unwrap();
            }
            // The refund account has what the settler did not ask, and it never had to sign.
            let back = if end == "release" { 70 } else { 320 };
            assert_eq!(world.tokens(&payment.accounts.payer_token), 1_000 + back, "{end}");
            assert!(world.account(&vault).is_none());
        }
    }
}

/// The record of the deposit, field by field.
pub fn recorded(world: &World, payment: &Payment, deposited: u64) -> Escrow {
    let (data, accounts) = (&payment.data, &payment.accounts);
    Escrow {
        state: State::Reserved as u8,
        bump: host::escrow_address(&world.program, &data.payment_id).bump,
        vault_bump: host::vault_address(&world.program, &data.payment_id).bump,
        payment_id: data.payment_id,
        payer: data.payer,
        rent_payer: key(&world.submitter),
        reserver: key(&world.reserver),
        releaser: key(&world.releaser),
        mint: accounts.mint,
        token_program: accounts.token_program,
        settler: key(&world.settler),
        deposited,
        source_amount: data.source_amount,
        terms_hash: data.terms_hash,
        quote_hash: data.quote_hash,
        reserve_deadline: data.reserve_deadline,
        fulfillment_deadline: data.fulfillment_deadline,
        fulfill_by: data.fulfill_by,
        refund_after: data.refund_after,
        slots: world.svm.get_sysvar::<solana_clock::Clock>().slot,
        ended_slot: ANY_QUOTE,
    }
}

/// What a deposit says, as every other one.
pub fn logged(record: &Escrow) -> [Vec<u8>; 2] {
    let deposited = log::Deposited {
        payment_id: record.payment_id,
        quote_hash: record.quote_hash,
        payer: record.payer,
        terms_hash: record.terms_hash,
        mint: record.mint,
        amount: record.deposited,
    };
    let reserved = log::Reserved {
        payment_id: record.payment_id,
        quote_hash: record.quote_hash,
        settler: record.settler,
        source_amount: record.source_amount,
        fulfill_by: record.fulfill_by,
    };
    [deposited.to_bytes().to_vec(), reserved.to_bytes().to_vec()]
}

/// A settler that does not deliver is followed by another, as with any deposit whose payer named no quote.
#[test]
fn another_settler_follows() {
    let (mut world, addressed) = funded(300);
    addressed.deposit(&mut world).unwrap();
    let payment = addressed.payment;
    world.set_time(payment.data.fulfill_by + 1);
    let to = payment.next(&world);
    let instructions = payment.reassign(&world, &to);
    payment.submit(&mut world, &instructions).unwrap();
    let settler = world.mint_to(&payment.accounts.mint, &to.settler, 1);
    let before = world.tokens(&settler);
    let (payment, third_party) = (payment.reassigned(&to), world.third_party.insecure_clone());
    let ending = [&payment.release(&world)[..], &[payment.return_remainder(&world)]].concat();
    world.send(&ending, &[&third_party]).unwrap();
    let tokens = [settler, payment.accounts.payer_token].map(|account| world.tokens(&account));
    assert_eq!(tokens, [before + 240, 1_060]);
}

#[test]
fn every_term_leads_to_another_address() {
    let (mut world, addressed) = funded(1_000);
    let (at, from, reserver) = (addressed.at(&world), addressed.tokens(&world), key(&world.reserver));
    let other_mint = world.mint(41, MintKind::Token);
    type Change<'a> = &'a dyn Fn(&mut Payment);
    let changes: [(&str, Change); 11] = [
        ("payment_id", &|payment| payment.data.payment_id = [2; 32]),
        ("terms_hash", &|payment| payment.data.terms_hash = [0x72; 32]),
        ("quote_hash", &|payment| payment.data.agreed_quote_hash = payment.data.quote_hash),
        ("payer", &|payment| payment.data.payer = key(&keypair(8))),
        ("mint", &|payment| payment.accounts.mint = other_mint),
        ("amount", &|payment| payment.data.cap = 299),
        ("reserver", &|payment| payment.accounts.reserver = key(&keypair(8))),
        ("releaser", &|payment| payment.data.releaser = key(&keypair(8))),
        ("reserve_deadline", &|payment| payment.data.reserve_deadline += 1),
        ("fulfillment_deadline", &|payment| payment.data.fulfillment_deadline += 1),
        ("refund_after", &|payment| payment.data.refund_after += 1),
    ];
    let mut places = std::collections::BTreeSet::from([at]);
    for (name, change) in changes {
        let mut other = addressed.clone();
        change(&mut other.payment);
        assert!(places.insert(other.at(&world)), "{name}");
        // What is at the address of these terms goes nowhere under the others.
        let mut deposit = other.instruction(&world);
        (deposit.accounts[AT].key, deposit.accounts[FROM].key, deposit.accounts[1].key) = (at, from, reserver);
        refused(other.payment.submit(&mut world, &[deposit]), GatewayError::DepositAddressInvalid);
        let mut back = other.give_back(&world);
        (back.accounts[2].key, back.accounts[3].key) = (at, from);
        let mut lamports = other.give_back_lamports(&world);
        lamports.accounts[0].key = at;
        world.fund(&at, 1_000_000);
        let third_party = world.third_party.insecure_clone();
        for instruction in [back, lamports] {
            refused(world.send(&[instruction], &[&third_party]), GatewayError::DepositAddressInvalid);
        }
    }
    assert_eq!(world.tokens(&from), 1_000);
    addressed.deposit(&mut world).unwrap();
}

/// Another program, or another version of the domain, has other addresses.
#[test]
fn an_address_is_the_programs_own() {
    let world = World::new();
    let payment = Payment::of(&world, 1, [9; 32], ids::TOKEN_PROGRAM);
    let terms = payment.terms();
    let own = host::deposit_address(&world.program, &terms);
    assert_ne!(own, host::deposit_address(&key(&keypair(9)), &terms));
    // No seed of another kind makes the same, not even over the same 32 bytes.
    let hash = terms.address_hash();
    let others = [
        host::escrow_address(&world.program, &hash),
        host::vault_address(&world.program, &hash),
        host::delegate_address(&world.program, &hash),
        host::fulfillment_address(&world.program, &hash),
    ];
    assert!(others.iter().all(|other| other.key != own.key));
    // The digest that a payer signs of the same terms is another.
    assert_ne!(host::Message::digest(&terms, &world.domain()), hash);
}

#[test]
fn no_less_than_the_terms_ask_is_deposited_and_no_more_than_is_there() {
    for (there, deposited, expected) in [
        (500, 300, None),
        (500, 500, None),
        (300, 300, None),
        (500, 0, Some(GatewayError::DepositTooSmall)),
        (500, 250, Some(GatewayError::DepositTooSmall)),
        (500, 299, Some(GatewayError::DepositTooSmall)),
        (299, 299, Some(GatewayError::DepositTooSmall)),
        (299, 300, Some(GatewayError::BalanceTooSmall)),
        (500, 501, Some(GatewayError::BalanceTooSmall)),
        (500, u64::MAX, Some(GatewayError::BalanceTooSmall)),
    ] {
        let (mut world, addressed) = funded(there);
        let addressed = Addressed { deposited, ..addressed };
        let done = addressed.deposit(&mut world);
        match expected {
            Some(error) => refused(done, error),
            None => assert_eq!(world.escrow(&[1; 32]).map(|record| record.deposited), Some(deposited)),
        }
        let left = if expected.is_some() { there } else { there - deposited };
        assert_eq!(world.tokens(&addressed.tokens(&world)), left);
        assert_eq!(world.account(&addressed.tokens(&world)).is_some(), left > 0);
    }
}

#[test]
fn rules_of_the_reservation_are_those_of_every_deposit() {
    let program = key(&keypair(1));
    type Change<'a> = &'a dyn Fn(&mut Addressed, Key);
    let cases: [(Change, GatewayError); 11] = [
        (&|a, _| a.payment.data.source_amount = 301, GatewayError::AmountAboveCap),
        // More than the terms' amount is there and deposited, and it is the payer's.
        (&|a, _| (a.deposited, a.payment.data.source_amount) = (320, 320), GatewayError::AmountAboveCap),
        (&|a, _| a.payment.data.source_amount = 0, GatewayError::AmountZero),
        (&|a, _| a.payment.data.fulfill_by = 1_800_000_000, GatewayError::FulfillByPassed),
        (&|a, _| a.payment.data.fulfill_by = 1_800_000_601, GatewayError::FulfillByTooLate),
        (&|a, _| a.payment.data.settler = ZERO_KEY, GatewayError::SettlerInvalid),
        (&|a, _| a.payment.data.settler = program, GatewayError::SettlerInvalid),
        (&|a, _| a.payment.data.settler = host::config_address(&program).key, GatewayError::SettlerInvalid),
        (&|a, _| a.payment.data.settler = host::escrow_address(&program, &[1; 32]).key, GatewayError::SettlerInvalid),
        (&|a, _| a.payment.data.settler = host::vault_address(&program, &[1; 32]).key, GatewayError::SettlerInvalid),
        (&|a, at| a.payment.data.settler = at, GatewayError::SettlerInvalid),
    ];
    let (mut world, addressed) = funded(320);
    assert_eq!(world.program, program);
    let at = addressed.at(&world);
    for (change, error) in cases {
        let mut changed = addressed.clone();
        change(&mut changed, at);
        assert_eq!(changed.at(&world), at, "the reservation is no part of the address");
        refused(changed.deposit(&mut world), error);
    }
    // At the edges it holds.
    let mut most = addressed;
    (most.payment.data.source_amount, most.payment.data.fulfill_by) = (300, most.payment.data.fulfillment_deadline);
    most.deposit(&mut world).unwrap();
}

#[test]
fn rules_of_the_terms_are_those_of_every_deposit() {
    type Change<'a> = &'a dyn Fn(&World, &mut Payment);
    let cases: [(Change, GatewayError); 5] = [
        (&|_, payment| payment.data.payer = ZERO_KEY, GatewayError::PayerMissing),
        (&|_, payment| payment.data.releaser = ZERO_KEY, GatewayError::ReleaserMissing),
        (&|_, p| p.data.reserve_deadline = p.data.fulfillment_deadline + 1, GatewayError::WindowsOutOfOrder),
        (&|_, p| p.data.refund_after = p.data.fulfillment_deadline, GatewayError::WindowsOutOfOrder),
        (&|world, payment| payment.data.reserve_deadline = world.now - 1, GatewayError::ReserveWindowClosed),
    ];
    for (change, error) in cases {
        let (mut world, addressed) = funded_under(change);
        refused(addressed.deposit(&mut world), error);
        assert_eq!(world.tokens(&addressed.tokens(&world)), 300);
    }
    let (mut world, addressed) = funded(300);
    world.set_time(addressed.payment.data.reserve_deadline + 1);
    refused(addressed.deposit(&mut world), GatewayError::ReserveWindowClosed);
    world.set_time(addressed.payment.data.reserve_deadline);
    addressed.deposit(&mut world).unwrap();
}

#[test]
fn only_the_programs_reserver_admits_and_only_where_the_terms_name_it() {
    // The terms name a stranger, who signs.
    let stranger = |world: &World, payment: &mut Payment| payment.accounts.reserver = key(&world.third_party);
    let (mut world, addressed) = funded_under(stranger);
    let (submitter, third_party) = (world.submitter.insecure_clone(), world.third_party.insecure_clone());
    let deposit = addressed.instruction(&world);
    refused(world.send(std::slice::from_ref(&deposit), &[&submitter, &third_party]), GatewayError::ReserverNotAdmitted);
    // They name the stranger, and the program's own signs.
    let mut admitted = deposit;
    admitted.accounts[1].key = key(&world.reserver);
    refused(addressed.payment.submit(&mut world, &[admitted]), GatewayError::ReserverNotAdmitted);
    // They name the program's own, and the stranger signs.
    let (mut world, addressed) = funded(300);
    let mut deposit = addressed.instruction(&world);
    deposit.accounts[1].key = key(&third_party);
    refused(world.send(&[deposit], &[&submitter, &third_party]), GatewayError::ReserverNotAdmitted);
}

#[test]
fn whoever_pays_the_rent_and_the_reserver_sign() {
    let (mut world, addressed) = funded(300);
    let (submitter, reserver) = (world.submitter.insecure_clone(), world.reserver.insecure_clone());
    for (index, signer) in [(0, &reserver), (1, &submitter)] {
        let mut deposit = addressed.instruction(&world);
        deposit.accounts[index].signer = false;
        refused(world.send(&[deposit], &[signer]), GatewayError::SignatureMissing);
    }
    for index in [0, 3, 4, 5] {
        let mut deposit = addressed.instruction(&world);
        deposit.accounts[index].writable = false;
        // One who signs first pays the fee, and is writable.
        refused(world.send(&[deposit], &[&reserver, &submitter]), GatewayError::AccountNotWritable);
    }
    addressed.deposit(&mut world).unwrap();
}

#[test]
fn a_payment_has_one_deposit_whichever_way_it_comes() {
    // Twice from the address.
    let (mut world, addressed) = funded(700);
    addressed.deposit(&mut world).unwrap();
    refused(addressed.deposit(&mut world), GatewayError::PaymentIdUsed);
    // Signed for, and then from the address.
    let (mut world, addressed) = funded(300);
    addressed.payment.deposit(&mut world).unwrap();
    refused(addressed.deposit(&mut world), GatewayError::PaymentIdUsed);
    // From the address, and then signed for.
    let (mut world, addressed) = funded(300);
    addressed.deposit(&mut world).unwrap();
    refused(addressed.payment.deposit(&mut world), GatewayError::PaymentIdUsed);
    // Over, and once more.
    let (third_party, cancel) = (world.third_party.insecure_clone(), addressed.payment.cancel(&world));
    world.send(&cancel, &[&third_party]).unwrap();
    addressed.send(&mut world, 300);
    refused(addressed.deposit(&mut world), GatewayError::PaymentIdUsed);
    // In one transaction.
    let (mut world, addressed) = funded(700);
    let deposit = addressed.instruction(&world);
    refused(addressed.payment.submit(&mut world, &[deposit.clone(), deposit]), GatewayError::PaymentIdUsed);
    assert_eq!(world.tokens(&addressed.tokens(&world)), 700);
}

#[test]
fn a_quote_that_the_terms_name_is_the_only_one() {
    let named = |_: &World, payment: &mut Payment| payment.data.agreed_quote_hash = [0x90; 32];
    let (mut world, addressed) = funded_under(named);
    let mut other = addressed.clone();
    other.payment.data.quote_hash = [0x91; 32];
    assert_eq!(other.at(&world), addressed.at(&world));
    refused(other.deposit(&mut world), GatewayError::QuoteHashMismatch);
    addressed.deposit(&mut world).unwrap();
    assert!(!world.escrow(&[1; 32]).unwrap().takes_any_quote());
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
        let addressed = Addressed::new(&mut world, MintKind::Token2022(&[extension]));
        let at = addressed.at(&world);
        world.mint_to(&addressed.payment.accounts.mint, &at, 300);
        refused(addressed.deposit(&mut world), error);
        assert_eq!(world.tokens(&addressed.tokens(&world)), 300);
    }
}

#[test]
fn frozen_money_waits() {
    let (mut world, addressed) = funded(300);
    let (mint, from) = (addressed.payment.accounts.mint, addressed.tokens(&world));
    world.freeze(&mint, &from, true);
    refused(addressed.deposit(&mut world), GatewayError::TokenAccountInvalid);
    world.freeze(&mint, &from, false);
    addressed.deposit(&mut world).unwrap();
}

/// Data of another length or kind is of no instruction.
#[test]
fn data_is_read_whole_or_not_at_all() {
    let (mut world, addressed) = funded(300);
    world.fund(&addressed.at(&world), 1_000_000);
    let (submitter, reserver) = (world.submitter.insecure_clone(), world.reserver.insecure_clone());
    let instructions =
        [addressed.instruction(&world), addressed.give_back(&world), addressed.give_back_lamports(&world)];
    for whole in instructions {
        let sizes = [DepositFromAddress::SIZE, 2 + Deposit::SIZE, 1 + Deposit::SIZE];
        assert!(sizes.contains(&whole.data.len()));
        let mut send = |data: Vec<u8>| {
            let instruction = host::Instruction { data, ..whole.clone() };
            let signers: &[_] = if whole.accounts[1].signer { &[&submitter, &reserver] } else { &[&submitter] };
            refused(world.send(&[instruction], signers), GatewayError::InstructionInvalid);
        };
        for length in [1, 257, whole.data.len() - 1] {
            send(whole.data[..length].to_vec());
        }
        send([&whole.data[..], &[0]].concat());
        // The kind of the terms, and another number of accounts to close.
        send([&whole.data[..1], &[1], &whole.data[2..]].concat());
        if whole.data.len() == 2 + Deposit::SIZE {
            send([&whole.data[..258], &[2]].concat());
        }
    }
}
