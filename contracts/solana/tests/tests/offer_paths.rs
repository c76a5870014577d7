//! Every way out of the address of an offer: whatever accounts are put into whatever instruction, and whoever signs but the merchant,
//! what leaves is in an escrow under that offer, or the merchant's.

use std::collections::BTreeMap;

use gateway_program::{
    Key,
    account::Escrow,
    host::{self, Instruction},
    instruction::Purchase,
    token::TokenAccount,
};
use gateway_program_tests::{Addressed, MintKind, Offered, Payment, World, key, keypair};
use solana_account::ReadableAccount;
use solana_keypair::Keypair;

/// What is at the address.
const HELD: u64 = 900;

/// A world with money at the address of an offer, and every instruction as it would go through there or nearly so.
fn ready() -> (World, Offered, Vec<Vec<Instruction>>) {
    let mut world = World::new();
    let mut offered = Offered::new(&mut world, MintKind::Token);
    // No one here signs for it.
    offered.offer.merchant = key(&keypair(30));
    offered.send(&mut world, HELD);
    world.fund(&offered.at(&world), 1_000_000);
    world.fund(&offered.offer.merchant, 1_000_000);
    world.mint_to(&offered.offer.mint, &offered.offer.merchant, 1);

    let payment = Payment::of(&world, 2, offered.offer.mint, offered.token_program);
    let with_id = |id: u8| {
        let mut payment = payment.clone();
        payment.data.payment_id = [id; 32];
        payment
    };
    let [signed, open, ended, fresh, mut over] = [2, 3, 4, 5, 6].map(with_id);
    (over.data.fulfill_by, over.data.fulfillment_deadline, over.data.refund_after) =
        (world.now + 100, world.now + 150, world.now + 200);
    let payer = world.payer.insecure_clone();
    for payment in [&open, &ended, &over] {
        world.approve(&payer, &offered.offer.mint, &key(&payer), 300);
        payment.deposit(&mut world).unwrap();
    }
    world.set_time(ended.data.fulfill_by + 1);
    let to = ended.next(&world);
    let reassign = ended.reassign(&world, &to);
    ended.submit(&mut world, &reassign).unwrap();
    let ended = ended.reassigned(&to);
    let (third_party, release) = (world.third_party.insecure_clone(), ended.release(&world));
    world.send(&release, &[&third_party]).unwrap();
    world.approve(&payer, &offered.offer.mint, &key(&payer), 300);

    // The times of now, for what is not deposited yet.
    let mut offered = offered.again(&world, 1);
    offered.reservation.source_amount = 300;
    let renewed = |mut payment: Payment| {
        let data = &mut payment.data;
        (data.reserve_deadline, data.fulfill_by) = (world.now + 60, world.now + 300);
        (data.fulfillment_deadline, data.refund_after) = (world.now + 600, world.now + 3_600);
        payment
    };
    let (signed, addressed) = (renewed(signed), Addressed::of(renewed(fresh)));
    let delivery = payment.fulfillment(&world, &key(&third_party), false);
    let from = payment.token_of(&key(&world.third_party));
    let delivery = gateway_program::message::Fulfillment { settler: key(&third_party), ..delivery };
    let reserver = key(&world.reserver);
    let instructions = vec![
        vec![world.initialization()],
        signed.deposit_by(&world, &payer).to_vec(),
        open.release(&world).to_vec(),
        open.cancel(&world).to_vec(),
        vec![over.refund(&world)],
        vec![host::fulfill_token(&world.program, &delivery, from, offered.token_program)],
        vec![host::fulfill_native(&world.program, &payment.fulfillment(&world, &key(&third_party), true))],
        vec![host::reclaim_escrow(&world.program, &[4; 32], key(&world.submitter))],
        vec![host::reclaim_fulfillment(&world.program, &delivery)],
        open.reassign(&world, &open.next(&world)).to_vec(),
        vec![ended.return_remainder(&world)],
        vec![addressed.instruction(&world)],
        vec![addressed.give_back(&world)],
        vec![addressed.give_back_lamports(&world)],
        vec![offered.instruction(&world)],
        vec![offered.collect(&world, &reserver, 7)],
        vec![offered.collect_lamports(&world, &reserver)],
    ];
    (world, offered, instructions)
}

/// What the accounts of a transaction hold, each token account by its owner, and what lies at `at` itself.
struct Held {
    by_owner: BTreeMap<Key, u64>,
    lamports: BTreeMap<Key, u64>,
}

/// Sends for trial, signed by everyone who is asked to and is here; whether anything left the address.
fn leaves(world: &mut World, offered: &Offered, instructions: &[Instruction], people: &[Keypair]) -> bool {
    let at = offered.at(world);
    let mut instructions = instructions.to_vec();
    let mut signers: Vec<&Keypair> = vec![&people[0]];
    for account in instructions.iter_mut().flat_map(|instruction| &mut instruction.accounts) {
        let who = people.iter().find(|person| key(person) == account.key);
        account.signer &= who.is_some();
        if let (true, Some(who)) = (account.signer, who)
            && !signers.iter().any(|signer| key(signer) == key(who))
        {
            signers.push(who);
        }
    }
    let transaction = world.transaction(&instructions, &signers);
    let Ok(done) = world.svm.simulate_transaction(transaction) else { return false };
    let mut before = Held { by_owner: BTreeMap::new(), lamports: BTreeMap::new() };
    let mut after = Held { by_owner: BTreeMap::new(), lamports: BTreeMap::new() };
    let mut in_escrow = 0;
    let owner_and_amount =
        |owner: &Key, data: &[u8]| TokenAccount::parse(owner, data).ok().map(|account| (account.owner, account.amount));
    for (address, account) in &done.post_accounts {
        let (address, data) = (address.to_bytes(), account.data());
        let owner = account.owner().to_bytes();
        let old = world.account(&address);
        let had = old.as_ref().and_then(|old| owner_and_amount(&old.owner.to_bytes(), &old.data));
        for (held, tokens) in [(&mut before, had), (&mut after, owner_and_amount(&owner, data))] {
            if let Some((owner, amount)) = tokens {
                *held.by_owner.entry(owner).or_default() += amount;
            }
        }
        before.lamports.insert(address, old.as_ref().map_or(0, |old| old.lamports));
        after.lamports.insert(address, account.lamports());
        let is_new = old.is_none_or(|old| old.data.is_empty());
        if let Some(escrow) = Escrow::from_bytes(data).filter(|_| is_new && owner == world.program) {
            let purchase = Purchase { payment_id: escrow.payment_id, reserve_deadline: escrow.reserve_deadline };
            let terms = offered.offer.deposit(&purchase);
            let recorded = (escrow.payer, escrow.terms_hash, escrow.releaser, escrow.mint, escrow.refund_after);
            if recorded == (terms.payer, terms.terms_hash, terms.releaser, terms.mint, terms.refund_after) {
                in_escrow += escrow.deposited;
            }
        }
    }
    let of = |held: &BTreeMap<Key, u64>, who: &Key| held.get(who).copied().unwrap_or_default();
    let merchant = &offered.offer.merchant;
    let gone = of(&before.by_owner, &at).saturating_sub(of(&after.by_owner, &at));
    let got = of(&after.by_owner, merchant).saturating_sub(of(&before.by_owner, merchant));
    assert_eq!(gone, got + in_escrow, "{instructions:?}");
    let gone_lamports = of(&before.lamports, &at).saturating_sub(of(&after.lamports, &at));
    let got = of(&after.lamports, merchant).saturating_sub(of(&before.lamports, merchant));
    assert_eq!(gone_lamports, got, "{instructions:?}");
    gone + gone_lamports > 0
}

#[test]
fn money_leaves_for_an_escrow_under_the_offer_or_for_the_merchant() {
    let (mut world, offered, transactions) = ready();
    let people: Vec<Keypair> = [3, 4, 5, 6, 7, 8, 2].map(keypair).into();
    let (at, tokens) = (offered.at(&world), offered.tokens(&world));
    let thief = offered.token_of(&key(&world.third_party));
    let (mut moved, mut sent) = (0, 0);
    for transaction in &transactions {
        let last = transaction.len() - 1;
        let places = transaction[last].accounts.len();
        moved += usize::from(leaves(&mut world, &offered, transaction, &people));
        // The address and its token account in every two places, and a stranger's account in every third, or in none.
        for from in 0..places {
            for owner in (0..places).filter(|owner| *owner != from) {
                for to in (0..places).filter(|to| *to != owner) {
                    let mut changed = transaction.clone();
                    let accounts = &mut changed[last].accounts;
                    accounts[to].key = thief;
                    (accounts[owner].key, accounts[from].key) = (at, tokens);
                    moved += usize::from(leaves(&mut world, &offered, &changed, &people));
                    sent += 1;
                }
            }
        }
    }
    println!("{moved} of {sent} moved something");
    // The deposit and both collections, as they should be and with one account in its own place.
    assert!(moved >= 3, "{moved}");
    assert_eq!(world.tokens(&tokens), HELD);
}
