//! Substituted accounts: every account of every instruction, replaced by what an attacker could bring.

use gateway_program::{
    GatewayError, Key,
    account::{Config, Escrow, FulfillmentRecord, State},
    host, ids,
    message::DOMAIN_VERSION,
    rules::RECLAIM_DELAY_SECONDS,
};
use gateway_program_tests::{Addressed, MintKind, Payment, World, key, keypair, refused};
use solana_account::Account;

const SOMEWHERE: Key = [0x55; 32];

fn ready() -> (World, Payment) {
    let mut world = World::new();
    let payment = Payment::new(&mut world, MintKind::Token);
    (world, payment)
}

fn put(world: &mut World, at: Key, owner: Key, data: Vec<u8>) {
    world.put(at, Account { lamports: 10_000_000, data, owner: owner.into(), executable: false, rent_epoch: u64::MAX });
}

/// A configuration of the attacker's own making, owned by whom it says.
fn fake_config(world: &mut World, owner: Key) {
    let config = Config {
        domain_version: DOMAIN_VERSION,
        bump: host::config_address(&world.program).bump,
        cluster_id: world.cluster_id,
        reserver: key(&world.third_party),
    };
    put(world, SOMEWHERE, owner, config.to_bytes().to_vec());
}

#[test]
fn every_account_of_a_deposit_is_checked() {
    let (mut world, payment) = ready();
    let fake_token_account = payment.accounts.payer_token;
    let other_mint = world.mint(41, MintKind::Token);
    let of_other_mint = world.mint_to(&other_mint, &key(&world.payer), 500);
    let third_party_tokens = world.mint_to(&payment.accounts.mint, &key(&world.third_party), 500);
    let other_escrow = host::escrow_address(&world.program, &[2; 32]).key;
    let other_vault = host::vault_address(&world.program, &[2; 32]).key;
    let cases: [(usize, Key, GatewayError); 16] = [
        (2, SOMEWHERE, GatewayError::ConfigInvalid),
        (2, ids::SYSTEM_PROGRAM, GatewayError::ConfigInvalid),
        (3, other_escrow, GatewayError::EscrowInvalid),
        (3, SOMEWHERE, GatewayError::EscrowInvalid),
        (4, other_vault, GatewayError::VaultInvalid),
        (4, fake_token_account, GatewayError::VaultInvalid),
        (5, third_party_tokens, GatewayError::TokenOwnerMismatch),
        (5, of_other_mint, GatewayError::TokenMintMismatch),
        (5, SOMEWHERE, GatewayError::TokenAccountInvalid),
        (6, SOMEWHERE, GatewayError::AllowanceMissing),
        (7, other_mint, GatewayError::SignedMessageMismatch),
        (7, fake_token_account, GatewayError::MintInvalid),
        (8, ids::TOKEN_2022_PROGRAM, GatewayError::MintInvalid),
        (8, SOMEWHERE, GatewayError::TokenProgramInvalid),
        (9, SOMEWHERE, GatewayError::SystemProgramInvalid),
        (10, SOMEWHERE, GatewayError::InstructionsSysvarInvalid),
    ];
    for (index, replacement, error) in cases {
        let mut instructions = payment.deposit_by(&world, &world.payer);
        instructions[1].accounts[index].key = replacement;
        refused(payment.submit(&mut world, &instructions), error);
    }
    for index in [3, 4, 5] {
        let mut instructions = payment.deposit_by(&world, &world.payer);
        instructions[1].accounts[index].writable = false;
        refused(payment.submit(&mut world, &instructions), GatewayError::AccountNotWritable);
    }
    let mut fewer = payment.deposit_by(&world, &world.payer);
    fewer[1].accounts.pop();
    refused(payment.submit(&mut world, &fewer), GatewayError::AccountsInvalid);
    let mut more = payment.deposit_by(&world, &world.payer);
    let extra = more[1].accounts[10].clone();
    more[1].accounts.push(extra);
    refused(payment.submit(&mut world, &more), GatewayError::AccountsInvalid);
    payment.deposit(&mut world).unwrap();
}

#[test]
fn a_configuration_of_somebodys_own_making_is_refused() {
    let (mut world, mut payment) = ready();
    let third_party = world.third_party.insecure_clone();
    for owner in [ids::SYSTEM_PROGRAM, key(&third_party), world.program] {
        fake_config(&mut world, owner);
        payment.accounts.reserver = key(&third_party);
        let mut instructions = payment.deposit_by(&world, &world.payer);
        instructions[1].accounts[2].key = SOMEWHERE;
        let submitter = world.submitter.insecure_clone();
        refused(world.send(&instructions, &[&submitter, &third_party]), GatewayError::ConfigInvalid);
    }
}

/// No runtime would let this come about; should one do, the program does not rely on the address alone.
#[test]
fn an_account_at_the_right_address_must_be_the_programs() {
    let (mut world, payment) = ready();
    payment.deposit(&mut world).unwrap();
    let third_party = world.third_party.insecure_clone();
    let release = payment.release(&world);
    let escrow = host::escrow_address(&world.program, &payment.data.payment_id).key;
    let config = host::config_address(&world.program).key;
    for (address, error) in [(escrow, GatewayError::EscrowInvalid), (config, GatewayError::ConfigInvalid)] {
        let real = world.account(&address).unwrap();
        world.put(address, Account { owner: ids::SYSTEM_PROGRAM.into(), ..real.clone() });
        refused(world.send(&release, &[&third_party]), error);
        world.put(address, real);
    }
    world.send(&release, &[&third_party]).unwrap();
}

#[test]
fn a_token_account_that_only_looks_like_one_is_refused() {
    let (mut world, payment) = ready();
    let real = world.account(&payment.accounts.payer_token).unwrap();
    // Plenty of tokens, an allowance, and all of it invented: owned by a program of the attacker's, or not by the one that
    // is asked to move it.
    for owner in [SOMEWHERE, ids::SYSTEM_PROGRAM, ids::TOKEN_2022_PROGRAM, world.program] {
        put(&mut world, [0x56; 32], owner, real.data.clone());
        let mut instructions = payment.deposit_by(&world, &world.payer);
        instructions[1].accounts[5].key = [0x56; 32];
        refused(payment.submit(&mut world, &instructions), GatewayError::TokenAccountInvalid);
    }
    // A mint that only looks like one.
    let mint = world.account(&payment.accounts.mint).unwrap();
    put(&mut world, [0x57; 32], SOMEWHERE, mint.data);
    let mut fake = payment.clone();
    fake.accounts.mint = [0x57; 32];
    refused(fake.deposit(&mut world), GatewayError::MintInvalid);
}

#[test]
fn a_frozen_account_pays_nothing() {
    let (mut world, payment) = ready();
    world.freeze(&payment.accounts.mint, &payment.accounts.payer_token, true);
    refused(payment.deposit(&mut world), GatewayError::TokenAccountInvalid);
    world.freeze(&payment.accounts.mint, &payment.accounts.payer_token, false);
    payment.deposit(&mut world).unwrap();
}

/// Two payments of the same payer, token and settler, both locked.
fn two() -> (World, Payment, Payment) {
    let (mut world, first) = ready();
    first.deposit(&mut world).unwrap();
    let payer = world.payer.insecure_clone();
    world.approve(&payer, &first.accounts.mint, &key(&payer), 300);
    let mut second = first.clone();
    second.data.payment_id = [2; 32];
    second.deposit(&mut world).unwrap();
    (world, first, second)
}

#[test]
fn every_account_of_an_end_is_checked() {
    let (mut world, payment, other) = two();
    let third_party = world.third_party.insecure_clone();
    let other_mint = world.mint(41, MintKind::Token);
    let settlers = payment.token_of(&payment.data.settler);
    let payers = payment.accounts.payer_token;
    let third_party_tokens = world.mint_to(&payment.accounts.mint, &key(&third_party), 1);
    let settlers_other = world.mint_to(&other_mint, &payment.data.settler, 1);
    let escrow = host::escrow_address(&world.program, &payment.data.payment_id).key;
    let forged = world.account(&escrow).unwrap().data;
    let program = world.program;
    put(&mut world, SOMEWHERE, program, forged.clone());
    put(&mut world, [0x56; 32], ids::SYSTEM_PROGRAM, forged);

    for end in ["release", "cancel", "refund"] {
        let (wrong_receiver, right_receiver) = if end == "release" { (payers, settlers) } else { (settlers, payers) };
        let common = [
            (0, SOMEWHERE, GatewayError::EscrowInvalid),
            (0, [0x56; 32], GatewayError::EscrowInvalid),
            (0, host::config_address(&world.program).key, GatewayError::EscrowInvalid),
            (1, other.vault(&world), GatewayError::VaultInvalid),
            (1, right_receiver, GatewayError::VaultInvalid),
            (2, wrong_receiver, GatewayError::TokenAddressMismatch),
            (2, third_party_tokens, GatewayError::TokenAddressMismatch),
            (2, settlers_other, GatewayError::TokenAddressMismatch),
            (2, payment.vault(&world), GatewayError::TokenAddressMismatch),
            (3, other_mint, GatewayError::MintInvalid),
            (4, key(&third_party), GatewayError::RentPayerMismatch),
            (5, ids::TOKEN_2022_PROGRAM, GatewayError::TokenProgramInvalid),
            (5, SOMEWHERE, GatewayError::TokenProgramInvalid),
        ];
        let attested = [
            (6, SOMEWHERE, GatewayError::ConfigInvalid),
            (6, escrow, GatewayError::ConfigInvalid),
            (7, SOMEWHERE, GatewayError::InstructionsSysvarInvalid),
        ];
        world.set_time(payment.data.refund_after - u64::from(end != "refund"));
        let cases = common.iter().chain(if end == "refund" { [].iter() } else { attested.iter() });
        for (index, replacement, error) in cases {
            let mut instructions = match end {
                "release" => payment.release(&world).to_vec(),
                "cancel" => payment.cancel(&world).to_vec(),
                _ => vec![payment.refund(&world)],
            };
            let last = instructions.last_mut().unwrap();
            last.accounts[*index].key = *replacement;
            refused(world.send(&instructions, &[&third_party]), *error);
        }
        for index in [0, 1, 2, 4] {
            let mut refund = payment.refund(&world);
            refund.accounts[index].writable = false;
            refused(world.send(&[refund], &[&third_party]), GatewayError::AccountNotWritable);
        }
        let mut fewer = payment.refund(&world);
        fewer.accounts.pop();
        refused(world.send(&[fewer], &[&third_party]), GatewayError::AccountsInvalid);
        let mut more = payment.refund(&world);
        more.accounts.extend([more.accounts[3].clone(), more.accounts[3].clone()]);
        refused(world.send(&[more], &[&third_party]), GatewayError::AccountsInvalid);
    }
    assert_eq!([payment.vault(&world), other.vault(&world)].map(|vault| world.tokens(&vault)), [250, 250]);
}

#[test]
fn an_escrow_of_another_payment_takes_nothing_from_this_vault() {
    let (mut world, payment, other) = two();
    let third_party = world.third_party.insecure_clone();
    // The other's escrow and word with this one's vault, and the other way round.
    let mut crossed = other.release(&world);
    crossed[1].accounts[1].key = payment.vault(&world);
    refused(world.send(&crossed, &[&third_party]), GatewayError::VaultInvalid);
    let mut crossed = payment.release(&world);
    crossed[0] = other.release(&world)[0].clone();
    refused(world.send(&crossed, &[&third_party]), GatewayError::SignedMessageMismatch);
}

#[test]
fn an_associated_account_that_was_given_away_gets_nothing() {
    let (mut world, payment) = ready();
    payment.deposit(&mut world).unwrap();
    let settlers = payment.token_of(&payment.data.settler);
    // SPL Token lets the owner field of an account be changed, and the address stays.
    let mut account = world.account(&settlers).unwrap();
    account.data[32..64].copy_from_slice(&key(&world.third_party));
    world.put(settlers, account);
    let third_party = world.third_party.insecure_clone();
    let release = payment.release(&world);
    refused(world.send(&release, &[&third_party]), GatewayError::TokenOwnerMismatch);
}

#[test]
fn records_are_reclaimed_only_as_what_they_are() {
    let (mut world, payment) = ready();
    payment.deposit(&mut world).unwrap();
    let third_party = world.third_party.insecure_clone();
    let release = payment.release(&world);
    world.send(&release, &[&third_party]).unwrap();
    let delivery = payment.fulfillment(&world, &key(&keypair(70)), true);
    let settler = world.settler.insecure_clone();
    let fulfill = host::fulfill_native(&world.program, &delivery);
    world.send(&[fulfill], &[&settler]).unwrap();
    world.set_time(payment.data.refund_after + RECLAIM_DELAY_SECONDS);

    let escrow = host::escrow_address(&world.program, &payment.data.payment_id).key;
    let record = host::fulfillment_address(&world.program, &delivery.key(&world.program)).key;
    let config = host::config_address(&world.program).key;
    let submitter = key(&world.submitter);
    for other in [record, config, SOMEWHERE] {
        let mut reclaim = host::reclaim_escrow(&world.program, &payment.data.payment_id, submitter);
        reclaim.accounts[0].key = other;
        refused(world.send(&[reclaim], &[&third_party]), GatewayError::EscrowInvalid);
    }
    for other in [escrow, config, SOMEWHERE] {
        let mut reclaim = host::reclaim_fulfillment(&world.program, &delivery);
        reclaim.accounts[0].key = other;
        refused(world.send(&[reclaim], &[&settler]), GatewayError::FulfillmentInvalid);
    }
    // A record that looks like the program's and is not owned by it.
    let forged = world.account(&record).unwrap().data;
    assert!(FulfillmentRecord::from_bytes(&forged).is_some());
    put(&mut world, SOMEWHERE, key(&settler), forged);
    let mut reclaim = host::reclaim_fulfillment(&world.program, &delivery);
    reclaim.accounts[0].key = SOMEWHERE;
    refused(world.send(&[reclaim], &[&settler]), GatewayError::FulfillmentInvalid);
    assert_eq!(Escrow::from_bytes(&world.account(&escrow).unwrap().data).unwrap().state(), Some(State::Released));
}

/// A payment whose money is at its address, with one of the same terms but another id, whose money is at another, and a third that is
/// locked.
fn at_addresses() -> (World, Addressed, Addressed, Payment) {
    let mut world = World::new();
    let addressed = Addressed::new(&mut world, MintKind::Token);
    let (mut other, mut locked) = (addressed.clone(), addressed.payment.clone());
    (other.payment.data.payment_id, locked.data.payment_id) = ([2; 32], [3; 32]);
    locked.deposit(&mut world).unwrap();
    for addressed in [&addressed, &other] {
        addressed.send(&mut world, 300);
    }
    (world, addressed, other, locked)
}

#[test]
fn every_account_of_a_deposit_from_an_address_is_checked() {
    let (mut world, addressed, other, locked) = at_addresses();
    let other_mint = world.mint(41, MintKind::Token);
    let (at, own) = (addressed.at(&world), addressed.tokens(&world));
    let of_other_mint = world.mint_to(&other_mint, &at, 500);
    let looks_like_it = world.account(&own).unwrap().data;
    put(&mut world, SOMEWHERE, ids::TOKEN_PROGRAM, looks_like_it);
    let escrow = host::escrow_address(&world.program, &addressed.payment.data.payment_id).key;
    let other_escrow = host::escrow_address(&world.program, &other.payment.data.payment_id).key;
    let cases = [
        (2, SOMEWHERE, GatewayError::ConfigInvalid),
        (2, ids::SYSTEM_PROGRAM, GatewayError::ConfigInvalid),
        (3, other_escrow, GatewayError::EscrowInvalid),
        (3, SOMEWHERE, GatewayError::EscrowInvalid),
        (4, other.payment.vault(&world), GatewayError::VaultInvalid),
        (4, locked.vault(&world), GatewayError::VaultInvalid),
        (4, own, GatewayError::VaultInvalid),
        // Everything that has tokens, one of which even belongs to the address.
        (5, addressed.payment.accounts.payer_token, GatewayError::TokenAddressMismatch),
        (5, other.tokens(&world), GatewayError::TokenAddressMismatch),
        (5, locked.vault(&world), GatewayError::TokenAddressMismatch),
        (5, of_other_mint, GatewayError::TokenAddressMismatch),
        (5, SOMEWHERE, GatewayError::TokenAddressMismatch),
        (6, other.at(&world), GatewayError::DepositAddressInvalid),
        (6, addressed.payment.data.payer, GatewayError::DepositAddressInvalid),
        (6, escrow, GatewayError::DepositAddressInvalid),
        (7, other_mint, GatewayError::MintInvalid),
        (7, own, GatewayError::MintInvalid),
        (8, ids::TOKEN_2022_PROGRAM, GatewayError::MintInvalid),
        (8, SOMEWHERE, GatewayError::TokenProgramInvalid),
        (9, SOMEWHERE, GatewayError::SystemProgramInvalid),
    ];
    for (index, replacement, error) in cases {
        let mut instruction = addressed.instruction(&world);
        instruction.accounts[index].key = replacement;
        refused(addressed.payment.submit(&mut world, &[instruction]), error);
    }
    // The other's address and token account together, under these terms.
    let mut crossed = addressed.instruction(&world);
    (crossed.accounts[5].key, crossed.accounts[6].key) = (other.tokens(&world), other.at(&world));
    refused(addressed.payment.submit(&mut world, &[crossed]), GatewayError::DepositAddressInvalid);
    let mut fewer = addressed.instruction(&world);
    fewer.accounts.pop();
    refused(addressed.payment.submit(&mut world, &[fewer]), GatewayError::AccountsInvalid);
    let mut more = addressed.instruction(&world);
    more.accounts.push(more.accounts[9].clone());
    refused(addressed.payment.submit(&mut world, &[more]), GatewayError::AccountsInvalid);
    addressed.deposit(&mut world).unwrap();
    other.deposit(&mut world).unwrap();
}

#[test]
fn every_account_of_a_return_is_checked() {
    let (mut world, addressed, other, locked) = at_addresses();
    let third_party = world.third_party.insecure_clone();
    let other_mint = world.mint(41, MintKind::Token);
    let (at, own, payer) = (addressed.at(&world), addressed.tokens(&world), addressed.payment.data.payer);
    let of_other_mint = world.mint_to(&other_mint, &at, 500);
    let payers_other = world.mint_to(&other_mint, &payer, 1);
    let real = world.account(&own).unwrap().data;
    put(&mut world, SOMEWHERE, key(&third_party), real.clone());
    put(&mut world, [0x56; 32], ids::TOKEN_2022_PROGRAM, real);
    let mint = world.account(&addressed.payment.accounts.mint).unwrap().data;
    put(&mut world, [0x57; 32], key(&third_party), mint);
    // To name another mint is no way around the time: the account is of this one.
    let mut evaded = addressed.give_back(&world);
    (evaded.accounts[4].key, evaded.accounts[6].key) = (payers_other, other_mint);
    refused(world.send(&[evaded], &[&third_party]), GatewayError::TokenMintMismatch);

    world.set_time(addressed.payment.data.reserve_deadline + 1);
    let locked_record = host::escrow_address(&world.program, &locked.data.payment_id).key;
    let cases = [
        (1, locked_record, GatewayError::EscrowInvalid),
        (2, other.at(&world), GatewayError::DepositAddressInvalid),
        (2, payer, GatewayError::DepositAddressInvalid),
        (2, locked_record, GatewayError::DepositAddressInvalid),
        (3, locked.vault(&world), GatewayError::TokenOwnerMismatch),
        (3, other.tokens(&world), GatewayError::TokenOwnerMismatch),
        (3, addressed.payment.accounts.payer_token, GatewayError::TokenOwnerMismatch),
        (3, of_other_mint, GatewayError::TokenMintMismatch),
        (3, SOMEWHERE, GatewayError::TokenAccountInvalid),
        (3, [0x56; 32], GatewayError::TokenAccountInvalid),
        (4, payers_other, GatewayError::TokenAddressMismatch),
        (4, other.tokens(&world), GatewayError::TokenAddressMismatch),
        (5, key(&third_party), GatewayError::TokenOwnerMismatch),
        (6, other_mint, GatewayError::TokenAddressMismatch),
        (6, own, GatewayError::MintInvalid),
        (6, [0x57; 32], GatewayError::MintInvalid),
        (7, ids::TOKEN_2022_PROGRAM, GatewayError::MintInvalid),
        (7, SOMEWHERE, GatewayError::TokenProgramInvalid),
    ];
    for (index, replacement, error) in cases {
        let mut instruction = addressed.give_back(&world);
        instruction.accounts[index].key = replacement;
        refused(world.send(&[instruction], &[&third_party]), error);
    }
    world.fund(&at, 1_000_000);
    for whole in [addressed.give_back(&world), addressed.give_back_lamports(&world)] {
        let mut fewer = whole.clone();
        fewer.accounts.pop();
        let mut more = whole;
        more.accounts.push(more.accounts[2].clone());
        for instruction in [fewer, more] {
            refused(world.send(&[instruction], &[&third_party]), GatewayError::AccountsInvalid);
        }
    }
    // Rent that would stay in the account that is closed.
    let mut round = addressed.give_back(&world);
    round.accounts[0].key = own;
    world.send(&[round], &[&third_party]).unwrap_err();
    assert_eq!((world.tokens(&own), world.tokens(&locked.vault(&world))), (300, 250));
    for addressed in [addressed, other] {
        addressed.return_by_anyone(&mut world).unwrap();
    }
    assert_eq!(world.tokens(&locked.accounts.payer_token), 750 + 600);
}
