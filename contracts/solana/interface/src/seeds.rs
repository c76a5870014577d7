//! Seeds of the program's addresses. Each is found with `find_program_address`, whose canonical bump counts.

/// `[CONFIG]`: the program's configuration.
pub const CONFIG: &[u8] = b"config";
/// `[ESCROW, payment id]`: the record of a payment's escrow, and the authority over its vault.
pub const ESCROW: &[u8] = b"escrow";
/// `[VAULT, payment id]`: the token account that holds a payment's money.
pub const VAULT: &[u8] = b"vault";
/// `[FULFILLMENT, key]`: the record of a delivery; the key is that of [`crate::message::Fulfillment`].
pub const FULFILLMENT: &[u8] = b"fulfillment";
/// `[DELEGATE, signer]`: the address that a payer's SPL allowance goes to. The signer is the Ed25519 key that signs the
/// deposit: the payer's own, or the `delegate_signer` that the payer so appointed.
pub const DELEGATE: &[u8] = b"delegate";
/// `[ADDRESS, hash]`: the deposit address that commits to a deposit's terms; the hash is that of
/// [`crate::message::Deposit::address_preimage`].
pub const ADDRESS: &[u8] = b"address";
/// `[OFFER, hash]`: the address that commits to a merchant's offer; the hash is that of [`crate::message::Offer::address_preimage`].
pub const OFFER: &[u8] = b"offer";
