//! Instructions about the address of a merchant's offer, with their accounts in order.

use alloc::{vec, vec::Vec};

use crate::{
    Key,
    host::{
        address,
        build::{Instruction, from_address, reads, signs, writes},
    },
    ids,
    instruction::{Purchase, Reservation, Tag},
    message::Offer,
};

/// Locks what a buyer paid to the address of `offer`. `rent_payer`, who pays for the accounts, and the offer's reserver sign.
pub fn deposit_from_offer(
    program_id: &Key,
    rent_payer: Key,
    token_program: Key,
    offer: &Offer,
    purchase: &Purchase,
    reservation: &Reservation,
) -> Instruction {
    let mut data = begun(Tag::DepositFromOffer, offer);
    data.extend_from_slice(&purchase.to_bytes());
    data.extend_from_slice(&reservation.to_bytes());
    let at = address::offer_address(program_id, offer).key;
    let accounts = from_address(program_id, rent_payer, token_program, &offer.deposit(purchase), at);
    Instruction { program_id: *program_id, accounts, data }
}

/// Gives the merchant `amount` of the offer's token that is at the address of `offer`, into its associated token account. `authority`,
/// who is the offer's merchant or its reserver, signs. [`collected_to`] has it paid elsewhere.
pub fn collect(program_id: &Key, authority: Key, token_program: Key, offer: &Offer, amount: u64) -> Instruction {
    collect_of(program_id, authority, (&token_program, &offer.mint), offer, amount)
}

/// The same of any token, which its program and its mint name, out of the address's associated token account.
pub fn collect_of(
    program_id: &Key,
    authority: Key,
    (token_program, mint): (&Key, &Key),
    offer: &Offer,
    amount: u64,
) -> Instruction {
    let at = address::offer_address(program_id, offer).key;
    let account_of = |owner: &Key| address::associated_token_address(owner, token_program, mint).key;
    let mut data = begun(Tag::Collect, offer);
    data.extend_from_slice(&amount.to_le_bytes());
    Instruction {
        program_id: *program_id,
        accounts: vec![
            signs(authority),
            reads(at),
            writes(account_of(&at)),
            writes(account_of(&offer.merchant)),
            reads(*mint),
            reads(*token_program),
        ],
        data,
    }
}

/// Lets a [`collect`] that the merchant signs pay another token account of the mint.
pub fn collected_to(mut collect: Instruction, token_account: Key) -> Instruction {
    const TO: usize = 3;
    collect.accounts[TO] = writes(token_account);
    collect
}

/// Gives the merchant all native SOL at the address of `offer`. `authority`, who is the offer's merchant or its reserver, signs.
pub fn collect_lamports(program_id: &Key, authority: Key, offer: &Offer) -> Instruction {
    Instruction {
        program_id: *program_id,
        accounts: vec![
            signs(authority),
            writes(address::offer_address(program_id, offer).key),
            writes(offer.merchant),
            reads(ids::SYSTEM_PROGRAM),
        ],
        data: begun(Tag::CollectLamports, offer),
    }
}

fn begun(tag: Tag, offer: &Offer) -> Vec<u8> {
    let mut data = vec![tag as u8];
    data.extend_from_slice(&offer.to_bytes());
    data
}
