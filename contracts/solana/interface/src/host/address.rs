//! Addresses that programs own.

use curve25519_dalek::edwards::CompressedEdwardsY;

use crate::{
    Hash, Key,
    host::sha256,
    ids,
    message::{Deposit, Offer},
    seeds,
};

/// An address without a private key, and the bump that makes it one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    /// The address.
    pub key: Key,
    /// The last seed.
    pub bump: u8,
}

/// The canonical address of `seeds` for a program: the one with the highest bump that is no point of the curve.
///
/// # Panics
/// When there is none, which is as likely as 256 coins that all show the same side.
pub fn find_program_address(seeds: &[&[u8]], program_id: &Key) -> Address {
    for bump in (0..=u8::MAX).rev() {
        let mut parts = alloc::vec::Vec::with_capacity(seeds.len() + 3);
        parts.extend_from_slice(seeds);
        let bump_seed = [bump];
        parts.extend_from_slice(&[&bump_seed, program_id, b"ProgramDerivedAddress"]);
        let key = sha256(&parts);
        if CompressedEdwardsY(key).decompress().is_none() {
            return Address { key, bump };
        }
    }
    unreachable!("one in two hashes is no point of the curve")
}

/// The program's configuration.
pub fn config_address(program_id: &Key) -> Address {
    find_program_address(&[seeds::CONFIG], program_id)
}

/// The record of a payment's escrow.
pub fn escrow_address(program_id: &Key, payment_id: &Hash) -> Address {
    find_program_address(&[seeds::ESCROW, payment_id], program_id)
}

/// The token account that holds a payment's money.
pub fn vault_address(program_id: &Key, payment_id: &Hash) -> Address {
    find_program_address(&[seeds::VAULT, payment_id], program_id)
}

/// The record of a delivery; `key` is [`crate::message::Fulfillment::key`].
pub fn fulfillment_address(program_id: &Key, key: &Hash) -> Address {
    find_program_address(&[seeds::FULFILLMENT, key], program_id)
}

/// Where the SPL allowance goes for deposits that `signer` signs.
pub fn delegate_address(program_id: &Key, signer: &Key) -> Address {
    find_program_address(&[seeds::DELEGATE, signer], program_id)
}

/// The address that commits to `terms`: what comes to its associated token account is the payment's deposit.
pub fn deposit_address(program_id: &Key, terms: &Deposit) -> Address {
    find_program_address(&[seeds::ADDRESS, &terms.address_hash()], program_id)
}

/// The address that commits to a merchant's `offer`: what a buyer sends to its associated token account is deposited, or the merchant's.
pub fn offer_address(program_id: &Key, offer: &Offer) -> Address {
    find_program_address(&[seeds::OFFER, &offer.address_hash()], program_id)
}

/// The ProgramData account of a program of the upgradeable loader.
pub fn program_data_address(program_id: &Key) -> Address {
    find_program_address(&[program_id], &ids::UPGRADEABLE_LOADER)
}

/// The token account that a wallet is paid to.
pub fn associated_token_address(wallet: &Key, token_program: &Key, mint: &Key) -> Address {
    find_program_address(&[wallet, token_program, mint], &ids::ASSOCIATED_TOKEN_PROGRAM)
}
