//! The proof: whether a challenge was signed by whom it names.

use alloy::primitives::eip191_hash_message;

use escrow_abi::signature;
use events::{Account, ChainId, Did, Family, Hash32};
use net::callers::Caller;
use proofs::{key::Key, suites::verify_text};

use super::{Owner, message::Claimed};
use crate::{
    App,
    error::{Code, Error},
    request::envelope,
};

/// A challenge that came back.
pub(super) struct Signed<'a> {
    pub(super) text: &'a str,
    pub(super) signature: &'a str,
    /// The key of a DID.
    pub(super) verification_method: Option<&'a str>,
}

/// Who signed it, where that is who it names.
///
/// # Errors
/// 400, 401 `INVALID_PROOF`, 429, 503.
pub(super) async fn prove(state: &App, caller: &Caller, claimed: Claimed, signed: &Signed<'_>) -> Result<Owner, Error> {
    match (claimed, signed.verification_method) {
        (Claimed::Account { chain, account }, None) => by_account(state, caller, chain, account, signed).await,
        (Claimed::Did(did), Some(method)) => by_did(state, did, method, signed).await,
        (Claimed::Account { .. }, Some(_)) => Err(Error::new(
            Code::INVALID_REQUEST,
            "verification_method: must be left out, as an account is its own key",
        )),
        (Claimed::Did(_), None) => Err(Error::new(
            Code::INVALID_REQUEST,
            "verification_method: is required, the DID URL of the key that signed",
        )),
    }
}

async fn by_did(state: &App, did: Did, method: &str, signed: &Signed<'_>) -> Result<Owner, Error> {
    let services = &state.services;
    // Before its site is asked.
    if method.split('#').next().and_then(|of| of.parse::<Did>().ok()).as_ref() != Some(&did) {
        return Err(Error::new(Code::INVALID_PROOF, "verification_method: is not a key of the DID in the message"));
    }
    let proven = services.identities.of_text(signed.text, method, signed.signature, services.clock.now()).await;
    match proven.map_err(envelope::answer)? {
        proven if proven.as_str() == did.to_string() => Ok(Owner::Did(did)),
        _ => Err(Error::new(Code::INVALID_PROOF, "verification_method: is not a key of the DID in the message")),
    }
}

async fn by_account(
    state: &App,
    caller: &Caller,
    chain: ChainId,
    account: Account,
    signed: &Signed<'_>,
) -> Result<Owner, Error> {
    if signed_by_key(&account, signed) {
        return Ok(Owner::Account { account, chain: None });
    }
    let refused = || Error::new(Code::INVALID_PROOF, "signature: is not that of the account in the message over it");
    // Solana and Tron have no accounts whose code signs.
    if account.family() != Family::Evm {
        return Err(refused());
    }
    let bytes = signature::bytes(signed.signature)
        .map_err(|rule| Error::new(Code::INVALID_PROOF, format!("signature: {rule}")))?;
    let digest = Hash32(eip191_hash_message(signed.text.as_bytes()).0);
    let contracts = &state.services.sessions.contracts;
    match contracts.accept(caller, &chain, &account, &digest, &bytes).await? {
        true => Ok(Owner::Account { account, chain: Some(chain) }),
        false => Err(refused()),
    }
}

/// Whether the account's own key signed, as its wallets sign texts: `personal_sign` on EVM (EIP-191), Ed25519 over the bytes
/// on Solana, `signMessageV2` on Tron (TIP-191).
fn signed_by_key(account: &Account, signed: &Signed<'_>) -> bool {
    let bytes = account.to_bytes();
    let address = || <[u8; 20]>::try_from(bytes.as_slice()).ok();
    let key = match account.family() {
        Family::Evm => address().map(Key::Address),
        Family::Tron => address().map(Key::TronAddress),
        // One that is no point of the curve is a program's, which signs nothing.
        Family::Solana => Key::from_ed25519(&bytes).ok(),
    };
    let Some(key) = key else { return false };
    if verify_text(&key, signed.text, signed.signature).is_ok() {
        return true;
    }
    // Wallets on Solana write Base58 without multibase's prefix.
    account.family() == Family::Solana && verify_text(&key, signed.text, &format!("z{}", signed.signature)).is_ok()
}
