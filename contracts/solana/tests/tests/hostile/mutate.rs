//! What an attacker does to a transaction: other accounts, other bytes, other signers, another order.

use gateway_program::{
    host::{AccountMeta, Instruction},
    ids,
};

use super::{random::Random, script::Stage};

/// Changes of one transaction at most.
const CHANGES_MAX: usize = 3;

/// Changes something, or nothing at all of every second transaction.
pub fn mutate(stage: &Stage, random: &mut Random, transaction: &mut Vec<Instruction>) -> bool {
    if transaction.is_empty() || random.one_in(2) {
        return false;
    }
    for _ in 0..=random.below(CHANGES_MAX) {
        change(stage, random, transaction);
    }
    true
}

fn change(stage: &Stage, random: &mut Random, transaction: &mut Vec<Instruction>) {
    let at = random.below(transaction.len());
    match random.below(13) {
        // The same twice in one transaction.
        0 => transaction.push(transaction[at].clone()),
        1 => transaction.swap(at, 0),
        // A signature that was sent before, in front, so that every index is another's.
        2 if !stage.tape.is_empty() => transaction.insert(0, random.pick(&stage.tape).clone()),
        3 => elsewhere(stage, random, transaction),
        _ if transaction[at].program_id == ids::ED25519_PROGRAM => bytes(random, &mut transaction[at].data),
        4..8 => account(stage, random, &mut transaction[at].accounts),
        8 => drop_or_add(random, &mut transaction[at].accounts),
        9 => flags(random, &mut transaction[at].accounts),
        10 => {
            // Another instruction of the program with these accounts.
            if transaction[at].program_id == stage.world.program
                && let Some(tag) = transaction[at].data.first_mut()
            {
                *tag = random.below(18) as u8;
            }
        }
        // Whoever calls token programs with bytes of his own does what any stranger may.
        _ if transaction[at].program_id == stage.world.program => bytes(random, &mut transaction[at].data),
        _ => {}
    }
}

/// A header of the precompile that reads key, signature or message out of another instruction.
fn elsewhere(stage: &Stage, random: &mut Random, transaction: &mut Vec<Instruction>) {
    let Some(at) = transaction.iter().position(|instruction| instruction.program_id == ids::ED25519_PROGRAM) else {
        return;
    };
    if !stage.tape.is_empty() && random.one_in(2) {
        transaction.push(random.pick(&stage.tape).clone());
    }
    let last = (transaction.len() - 1) as u16;
    // Behind count and padding: signature offset and instruction, key offset and instruction, message offset, size and instruction.
    for field in [1, 3, 6] {
        if random.one_in(2)
            && let Some(bytes) = transaction[at].data.get_mut(2 + 2 * field..4 + 2 * field)
        {
            bytes.copy_from_slice(&random.pick(&[0, 1, last, at as u16, u16::MAX]).to_le_bytes());
        }
    }
    if random.one_in(4) {
        let field = random.below(7);
        if let Some(bytes) = transaction[at].data.get_mut(2 + 2 * field..4 + 2 * field) {
            bytes.copy_from_slice(&(random.next() as u16 % 512).to_le_bytes());
        }
    }
}

fn account(stage: &Stage, random: &mut Random, accounts: &mut [AccountMeta]) {
    if accounts.is_empty() {
        return;
    }
    let (at, other) = (random.below(accounts.len()), random.below(accounts.len()));
    match random.below(4) {
        0 => accounts[at] = accounts[other].clone(),
        1 => accounts.swap(at, other),
        _ => accounts[at].key = *random.pick(&stage.pool),
    }
}

fn drop_or_add(random: &mut Random, accounts: &mut Vec<AccountMeta>) {
    if accounts.is_empty() {
        return;
    }
    let at = random.below(accounts.len());
    match random.below(3) {
        0 => drop(accounts.remove(at)),
        1 => accounts.truncate(at),
        _ => accounts.push(accounts[at].clone()),
    }
}

fn flags(random: &mut Random, accounts: &mut [AccountMeta]) {
    if accounts.is_empty() {
        return;
    }
    let at = random.below(accounts.len());
    if random.one_in(2) {
        accounts[at].writable ^= true;
    } else {
        accounts[at].signer ^= true;
    }
}

fn bytes(random: &mut Random, data: &mut Vec<u8>) {
    if data.is_empty() {
        return;
    }
    let at = random.below(data.len());
    match random.below(6) {
        0 => data[at] ^= 1 << random.below(8),
        1 => data[at] = random.next() as u8,
        2 => data.truncate(at),
        3 => data.push(random.next() as u8),
        4 => {
            let number = random.number().to_le_bytes();
            let end = data.len().min(at + number.len());
            data[at..end].copy_from_slice(&number[..end - at]);
        }
        // The index of the signature.
        _ => {
            let last = data.len() - 1;
            data[last.min(1)] = random.below(4) as u8;
        }
    }
}
