//! What a transaction costs: bytes on the wire and compute units; and the rent that an account locks up. The numbers are those
//! of `contracts/checks/costs/solana.json`, which `UPDATE_EXPECT=1` writes anew.

use std::collections::BTreeMap;

use expect_test::expect_file;
use serde_json::json;

use gateway_program::{Key, host, ids, instruction::Reassign};
use gateway_program_tests::{Addressed, Extension, MintKind, Offered, Payment, Verifiers, World, key, keypair, sign};
use solana_transaction::versioned::VersionedTransaction;

const COMPUTE_BUDGET: &str = "ComputeBudget111111111111111111111111111111";

fn compute_budget(data: Vec<u8>) -> host::Instruction {
    let mut program_id: Key = [0; 32];
    bs58::decode(COMPUTE_BUDGET).onto(&mut program_id).unwrap();
    host::Instruction { program_id, accounts: vec![], data }
}

/// Limit and price, as every transaction of the gateway begins.
fn budget() -> [host::Instruction; 2] {
    [
        compute_budget([&[2][..], &200_000_u32.to_le_bytes()].concat()),
        compute_budget([&[3][..], &1_000_000_u64.to_le_bytes()].concat()),
    ]
}

/// Signatures, each of 64 bytes behind their number, and the message.
fn wire_size(transaction: &VersionedTransaction) -> usize {
    1 + 64 * transaction.signatures.len() + transaction.message.serialize().len()
}

#[test]
fn every_transaction_fits_into_a_packet_and_costs_what_is_committed() {
    const EXTENSIONS: &[Extension] = &[Extension::MetadataPointer, Extension::CloseAuthority];
    let mut costs = BTreeMap::new();
    for (token, kind) in [("SPL Token", MintKind::Token), ("Token-2022", MintKind::Token2022(EXTENSIONS))] {
        let mut calls = BTreeMap::new();
        let mut world = World::new();
        let mut payment = Payment::new(&mut world, kind);
        payment.data.ed25519_index = 2;
        world.mint_to(&payment.accounts.mint, &payment.data.payer, 4_000);
        let (submitter, reserver) = (world.submitter.insecure_clone(), world.reserver.insecure_clone());
        let (third_party, settler) = (world.third_party.insecure_clone(), world.settler.insecure_clone());
        let accounts = payment.accounts.clone();
        let mut measure = |world: &mut World, name: &'static str, parts: &[host::Instruction], signers: &[&_]| {
            let instructions = [&budget(), parts].concat();
            let size = wire_size(&world.transaction(&instructions, signers));
            let done = world.send(&instructions, signers).unwrap();
            assert!(size <= host::TRANSACTION_BYTES_MAX, "{name}: {size} bytes");
            calls.insert(name, json!({"bytes": size, "compute_units": done.compute_units_consumed}));
        };

        let mut bare = World::bare();
        let (initialize, authority) = ([bare.initialization()], bare.authority.insecure_clone());
        measure(&mut bare, "initialize", &initialize, &[&submitter, &authority]);

        let deposit = payment.deposit_by(&world, &world.payer);
        measure(&mut world, "deposit_and_reserve", &deposit, &[&submitter, &reserver]);
        let escrow = world.lamports(&host::escrow_address(&world.program, &payment.data.payment_id).key);
        let vault = world.lamports(&payment.vault(&world));

        let release = [
            host::create_associated_token(key(&third_party), &key(&settler), &accounts.mint, &accounts.token_program),
            sign(&payment.delivery(), &world.domain(), &world.releaser),
            host::release(&world.program, &payment.end(), 3),
        ];
        measure(&mut world, "release", &release, &[&third_party]);

        let payer = world.payer.insecure_clone();
        let releaser = payment.data.releaser;
        for (id, name, threshold, count) in [
            (4, "release by 2 of 3", 2, 3),
            (5, "release by 3 of 5", 3, 5),
            (9, "release by 1 of 1", 1, 1),
            (10, "release by 2 of 2", 2, 2),
            (11, "release by 3 of 4", 3, 4),
        ] {
            let verifiers = Verifiers::new(threshold, count);
            payment.data.releaser = verifiers.id();
            payment.data.payment_id = [id; 32];
            payment.data.ed25519_index = 0;
            world.approve(&payer, &accounts.mint, &key(&payer), 300);
            payment.deposit(&mut world).unwrap();
            let who: Vec<_> = (0..usize::from(threshold)).collect();
            let release = release_by_set(&world, &payment, &verifiers, &who);
            measure(&mut world, name, &release, &[&third_party]);
        }
        for (id, name, threshold, count) in [(12, "cancel by 2 of 3", 2, 3), (13, "cancel by 3 of 5", 3, 5)] {
            let verifiers = Verifiers::new(threshold, count);
            payment.data.releaser = verifiers.id();
            payment.data.payment_id = [id; 32];
            world.approve(&payer, &accounts.mint, &key(&payer), 300);
            payment.deposit(&mut world).unwrap();
            let who: Vec<_> = (0..usize::from(threshold)).collect();
            let [word, mut cancel] = payment.cancel_by(&world, &verifiers, &who);
            cancel.data[1] = 2;
            measure(&mut world, name, &[word, cancel], &[&third_party]);
        }
        for (id, name, threshold, count) in
            [(6, "reassign", 1, 1), (7, "reassign by 2 of 3", 2, 3), (8, "reassign by 3 of 5", 3, 5)]
        {
            let verifiers = Verifiers::new(threshold, count);
            payment.data.releaser = if count == 1 { releaser } else { verifiers.id() };
            payment.data.payment_id = [id; 32];
            world.approve(&payer, &accounts.mint, &key(&payer), 300);
            payment.deposit(&mut world).unwrap();
            let now = world.now;
            world.set_time(payment.data.fulfill_by + 1);
            // A release is by a stranger, who is not the settler.
            let to = Reassign { settler: key(&settler), ..payment.next(&world) };
            let who: Vec<_> = (0..usize::from(threshold)).collect();
            let [word, mut reassign] = match count {
                1 => payment.reassign(&world, &to),
                _ => payment.reassign_by(&world, &to, &verifiers, &who),
            };
            reassign.data[Reassign::SIZE] = 2;
            measure(&mut world, name, &[word, reassign], &[&submitter, &reserver]);
            if count == 1 {
                let reassigned = payment.reassigned(&to);
                let create = host::create_associated_token(
                    key(&third_party),
                    &to.settler,
                    &accounts.mint,
                    &accounts.token_program,
                );
                let release = host::release(&world.program, &reassigned.end(), 3);
                let word = sign(&reassigned.delivery(), &world.domain(), &world.releaser);
                measure(&mut world, "release with a remainder", &[create, word, release], &[&third_party]);
                let remainder = [reassigned.return_remainder(&world)];
                measure(&mut world, "return_remainder", &remainder, &[&third_party]);
            }
            world.set_time(now);
        }
        payment.data.releaser = releaser;

        for (id, name) in [(2, "cancel"), (3, "refund")] {
            world.approve(&payer, &accounts.mint, &key(&payer), 300);
            payment.data.payment_id = [id; 32];
            payment.data.ed25519_index = 0;
            payment.deposit(&mut world).unwrap();
            let create =
                host::create_associated_token(key(&third_party), &key(&payer), &accounts.mint, &accounts.token_program);
            if name == "cancel" {
                let word = sign(&payment.non_delivery(), &world.domain(), &world.releaser);
                let cancel = host::cancel(&world.program, &payment.end(), 3);
                measure(&mut world, name, &[create, word, cancel], &[&third_party]);
            } else {
                let now = world.now;
                world.set_time(payment.data.refund_after);
                let refund = payment.refund(&world);
                measure(&mut world, name, &[create, refund], &[&third_party]);
                world.set_time(now);
            }
        }

        world.mint_to(&accounts.mint, &key(&third_party), 5_000);
        let mut addressed = Addressed { deposited: 320, ..Addressed::of(payment.clone()) };
        addressed.payment.data.payment_id = [14; 32];
        addressed.send(&mut world, 320);
        let deposit = [addressed.instruction(&world)];
        measure(&mut world, "deposit_from_address", &deposit, &[&submitter, &reserver]);
        addressed.send(&mut world, 320);
        let back = [addressed.give_back(&world)];
        measure(&mut world, "give_back", &back, &[&third_party]);
        world.fund(&addressed.at(&world), 1_000_000);
        let back = [addressed.give_back_lamports(&world)];
        measure(&mut world, "give_back_lamports", &back, &[&third_party]);

        let mut offered = Offered::of(&payment);
        offered.purchase.payment_id = [15; 32];
        offered.send(&mut world, 400);
        let deposit = [offered.instruction(&world)];
        measure(&mut world, "deposit_from_offer", &deposit, &[&submitter, &reserver]);
        // By the reserver, who is not the merchant, and to an account that is made.
        let merchant = offered.offer.merchant;
        let create = host::create_associated_token(key(&submitter), &merchant, &accounts.mint, &accounts.token_program);
        let collect = [create, offered.collect(&world, &key(&reserver), 50)];
        measure(&mut world, "collect", &collect, &[&submitter, &reserver]);
        let collect = [offered.collect(&world, &merchant, 50)];
        measure(&mut world, "collect by the merchant", &collect, &[&payer]);
        world.fund(&offered.at(&world), 1_000_000);
        let collect = [offered.collect_lamports(&world, &key(&reserver))];
        measure(&mut world, "collect_lamports", &collect, &[&submitter, &reserver]);

        world.mint_to(&accounts.mint, &key(&settler), 1_000);
        let recipient = key(&keypair(70));
        let delivery = payment.fulfillment(&world, &recipient, false);
        let from = payment.token_of(&key(&settler));
        let fulfill = [
            host::create_associated_token(key(&settler), &recipient, &accounts.mint, &accounts.token_program),
            host::fulfill_token(&world.program, &delivery, from, accounts.token_program),
        ];
        measure(&mut world, "fulfill (tokens)", &fulfill, &[&settler]);
        let delivery = payment.fulfillment(&world, &recipient, true);
        let fulfill = [host::fulfill_native(&world.program, &delivery)];
        measure(&mut world, "fulfill (native)", &fulfill, &[&settler]);
        let record = world.lamports(&host::fulfillment_address(&world.program, &delivery.key(&world.program)).key);

        world.set_time(payment.data.refund_after + gateway_program::rules::RECLAIM_DELAY_SECONDS);
        let reclaim = [host::reclaim_escrow(&world.program, &[1; 32], key(&submitter))];
        measure(&mut world, "reclaim_escrow", &reclaim, &[&third_party]);
        let reclaim = [host::reclaim_fulfillment(&world.program, &delivery)];
        measure(&mut world, "reclaim_fulfillment", &reclaim, &[&settler]);
        let rent = json!({"escrow": escrow, "vault": vault, "fulfillment": record});
        costs.insert(token, json!({"transactions": calls, "rent_lamports": rent}));
    }
    let costs = serde_json::to_string_pretty(&costs).unwrap() + "\n";
    expect_file!["../../../checks/costs/solana.json"].assert_eq(&costs);
}

/// A release by the verifiers at these places behind the budget, where a stranger has the settler's account created.
fn release_by_set(world: &World, payment: &Payment, verifiers: &Verifiers, who: &[usize]) -> [host::Instruction; 3] {
    let (payer, accounts) = (key(&world.third_party), &payment.accounts);
    let release = host::release(&world.program, &payment.end(), 3);
    [
        host::create_associated_token(payer, &payment.data.settler, &accounts.mint, &accounts.token_program),
        verifiers.sign(&payment.delivery(), &world.domain(), who),
        host::by_set(release, &verifiers.set()),
    ]
}

#[test]
fn a_set_fits_when_its_transaction_does() {
    let mut world = World::new();
    let payment = Payment::new(&mut world, MintKind::Token);
    let third_party = world.third_party.insecure_clone();
    let mut largest = BTreeMap::new();
    for count in 1..=16 {
        for threshold in 1..=count {
            let verifiers = Verifiers::new(threshold, count);
            let who: Vec<_> = (0..usize::from(threshold)).collect();
            let release = release_by_set(&world, &payment, &verifiers, &who);
            let size = wire_size(&world.transaction(&[&budget()[..], &release].concat(), &[&third_party]));
            let fits = host::fits(threshold, count);
            // What can release can say in a reassignment that nothing was delivered.
            let [word, reassign] = payment.reassign_by(&world, &payment.next(&world), &verifiers, &who);
            let (submitter, reserver) = (world.submitter.insecure_clone(), world.reserver.insecure_clone());
            let reassign = world.transaction(&[&budget()[..], &[word, reassign]].concat(), &[&submitter, &reserver]);
            assert!(!fits || wire_size(&reassign) <= host::TRANSACTION_BYTES_MAX, "{threshold} of {count}");
            assert_eq!(fits, size <= host::TRANSACTION_BYTES_MAX, "{threshold} of {count}: {size} bytes");
            if fits {
                largest.insert(threshold, count);
            }
        }
    }
    // As the README says.
    assert_eq!(largest, BTreeMap::from([(1, 14), (2, 10), (3, 7)]));
    for (threshold, count) in [(0, 0), (0, 3), (4, 3), (1, 17)] {
        assert!(!host::fits(threshold, count), "{threshold} of {count}");
    }
}

/// Searching an address costs more the lower its bump is. With many payments, keys and mints none comes near the limit.
#[test]
fn no_address_makes_a_deposit_dear() {
    let mut world = World::new();
    let mut payment = Payment::new(&mut world, MintKind::Token);
    let payer = world.payer.insecure_clone();
    let mut most = 0;
    for id in 0..60 {
        world.approve(&payer, &payment.accounts.mint, &key(&payer), 1);
        payment.data.payment_id = [id; 32];
        (payment.data.cap, payment.data.source_amount) = (1, 1);
        most = most.max(payment.deposit(&mut world).unwrap().compute_units_consumed);
    }
    println!("dearest of 60 deposits: {most} compute units");
    assert!(most < 150_000, "{most}");
}

/// The same of deposit addresses, whose own search is one more. Whoever asks for one may look for terms of a low bump.
#[test]
fn no_address_makes_a_deposit_from_it_or_a_return_dear() {
    let mut world = World::new();
    let mut addressed = Addressed::new(&mut world, MintKind::Token);
    world.mint_to(&addressed.payment.accounts.mint, &key(&world.third_party), 50_000);
    let (mut deposit, mut give_back) = (0, 0);
    for id in 0..60 {
        addressed.payment.data.payment_id = [id; 32];
        addressed.send(&mut world, 300);
        deposit = deposit.max(addressed.deposit(&mut world).unwrap().compute_units_consumed);
        addressed.send(&mut world, 1);
        give_back = give_back.max(addressed.return_by_anyone(&mut world).unwrap().compute_units_consumed);
    }
    println!("dearest of 60: deposits {deposit}, returns {give_back} compute units");
    assert!(deposit < 150_000 && give_back < 150_000, "{deposit}, {give_back}");
}

/// The same of addresses of offers. Whoever asks for one may look for an offer of a low bump.
#[test]
fn no_address_makes_a_purchase_or_a_collection_dear() {
    let mut world = World::new();
    let mut offered = Offered::new(&mut world, MintKind::Token);
    world.mint_to(&offered.offer.mint, &key(&world.third_party), 50_000);
    let (mut deposit, mut collect) = (0, 0);
    for id in 0..60 {
        offered.purchase.payment_id = [id; 32];
        offered.offer.terms_hash = [id; 32];
        offered.send(&mut world, 301);
        deposit = deposit.max(offered.deposit(&mut world).unwrap().compute_units_consumed);
        collect = collect.max(offered.collect_by_merchant(&mut world, 1).unwrap().compute_units_consumed);
    }
    println!("dearest of 60: purchases {deposit}, collections {collect} compute units");
    assert!(deposit < 150_000 && collect < 150_000, "{deposit}, {collect}");
}

#[test]
fn the_precompile_is_where_the_interface_says() {
    assert_eq!(bs58::encode(ids::ED25519_PROGRAM).into_string(), "Ed25519SigVerify111111111111111111111111111");
}
