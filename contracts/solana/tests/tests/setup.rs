//! Who may set the program up: its upgrade authority, once.

use gateway_program::{GatewayError, account::Config, host, ids, message::DOMAIN_VERSION};
use gateway_program_tests::{MintKind, Payment, World, key, refused};
use solana_account::Account;
use solana_keypair::Keypair;

fn send(world: &mut World, instruction: host::Instruction) -> gateway_program_tests::Outcome {
    let (submitter, authority) = (world.submitter.insecure_clone(), world.authority.insecure_clone());
    world.send(&[instruction], &[&submitter, &authority])
}

#[test]
fn the_upgrade_authority_sets_the_program_up_once() {
    let mut world = World::bare();
    let instruction = world.initialization();
    send(&mut world, instruction.clone()).unwrap();
    let Config { domain_version, bump, cluster_id, reserver } = world.config();
    assert_eq!((domain_version, cluster_id, reserver), (DOMAIN_VERSION, world.cluster_id, key(&world.reserver)));
    assert_eq!(bump, host::config_address(&world.program).bump);
    refused(send(&mut world, instruction), GatewayError::AlreadyInitialized);
}

#[test]
fn lamports_at_the_address_do_not_stand_in_the_way() {
    for lamports in [1_000_000, 50_000_000] {
        let mut world = World::bare();
        let config = host::config_address(&world.program).key;
        world.fund(&config, lamports);
        let instruction = world.initialization();
        send(&mut world, instruction).unwrap();
        assert_eq!(world.config().reserver, key(&world.reserver));
    }
}

#[test]
fn nobody_else_sets_it_up() {
    let mut world = World::bare();
    let (submitter, third_party) = (world.submitter.insecure_clone(), world.third_party.insecure_clone());
    let with = |authority: &Keypair, world: &World| {
        let mut instruction = world.initialization();
        instruction.accounts[1].key = key(authority);
        instruction
    };
    let instruction = with(&third_party, &world);
    refused(world.send(&[instruction], &[&submitter, &third_party]), GatewayError::UpgradeAuthorityMismatch);

    // The authority is named and does not sign.
    let mut unsigned = world.initialization();
    unsigned.accounts[1].signer = false;
    refused(world.send(&[unsigned], &[&submitter]), GatewayError::SignatureMissing);

    // A program that nobody may upgrade cannot be set up any more; set it up first.
    world.set_upgrade_authority(None);
    let instruction = world.initialization();
    refused(send(&mut world, instruction), GatewayError::UpgradeAuthorityMismatch);
    let zero = Some([0; 32]);
    world.set_upgrade_authority(zero);
    let instruction = world.initialization();
    refused(send(&mut world, instruction), GatewayError::UpgradeAuthorityMismatch);
}

#[test]
fn the_program_data_account_must_be_its_own() {
    let mut world = World::bare();
    let own = host::program_data_address(&world.program).key;
    let real = world.account(&own).unwrap();
    let third_party = key(&world.third_party);
    let mut forged = real.clone();
    forged.data[13..45].copy_from_slice(&third_party);

    // A forged one elsewhere, even one of the loader.
    world.put([0x55; 32], forged.clone());
    let mut instruction = world.initialization();
    instruction.accounts[3].key = [0x55; 32];
    refused(send(&mut world, instruction), GatewayError::ProgramDataInvalid);
    // Another owner at the right address, or no ProgramData.
    let instruction = world.initialization();
    world.put(own, Account { owner: [0x33; 32].into(), ..real.clone() });
    refused(send(&mut world, instruction.clone()), GatewayError::ProgramDataInvalid);
    let mut buffer = real.clone();
    buffer.data[0] = 1;
    world.put(own, buffer);
    refused(send(&mut world, instruction.clone()), GatewayError::ProgramDataInvalid);
    world.put(own, Account { data: real.data[..44].to_vec(), ..real });
    refused(send(&mut world, instruction), GatewayError::ProgramDataInvalid);
}

#[test]
fn its_accounts_and_data_are_checked() {
    let mut world = World::bare();
    let good = world.initialization();
    let mut config = good.clone();
    config.accounts[2].key = [0x55; 32];
    refused(send(&mut world, config), GatewayError::ConfigInvalid);
    let mut system = good.clone();
    system.accounts[4].key = ids::TOKEN_PROGRAM;
    refused(send(&mut world, system), GatewayError::SystemProgramInvalid);
    let mut read_only = good.clone();
    read_only.accounts[2].writable = false;
    refused(send(&mut world, read_only), GatewayError::AccountNotWritable);
    let mut fewer = good.clone();
    fewer.accounts.pop();
    refused(send(&mut world, fewer), GatewayError::AccountsInvalid);
    let mut more = good.clone();
    more.accounts.push(good.accounts[4].clone());
    refused(send(&mut world, more), GatewayError::AccountsInvalid);
    let mut no_cluster = good.clone();
    no_cluster.data[1..33].fill(0);
    refused(send(&mut world, no_cluster), GatewayError::ClusterMissing);
    let mut no_reserver = good.clone();
    no_reserver.data[33..].fill(0);
    refused(send(&mut world, no_reserver), GatewayError::ReserverMissing);
    send(&mut world, good).unwrap();
}

#[test]
fn nothing_comes_in_before_it_is_set_up() {
    let mut world = World::bare();
    let payment = Payment::new(&mut world, MintKind::Token);
    refused(payment.deposit(&mut world), GatewayError::ConfigInvalid);
}
