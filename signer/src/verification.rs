//! Verification of what a service gave for a signature, before anybody sees it.

use alloy::primitives::{Address, B256, Signature, U256};

use crate::{SignError, http::Service};

/// The signature `r`, `s` over `digest`, with a low `s` and the parity by which `account` is recovered. A service's own word for the
/// parity is not needed, and some have none.
///
/// # Errors
/// [`SignError::OtherKey`] when it is not the account's.
pub(crate) fn of_account(
    service: &Service,
    account: Address,
    digest: B256,
    (r, s): (U256, U256),
) -> Result<Signature, SignError> {
    let signature = Signature::new(r, s, false);
    // Contracts and networks take the lower of the two that hold (EIP-2).
    let signature = signature.normalize_s().unwrap_or(signature);
    for parity in [false, true] {
        let signature = signature.with_parity(parity);
        if signature.recover_address_from_prehash(&digest).is_ok_and(|signer| signer == account) {
            return Ok(signature);
        }
    }
    Err(SignError::OtherKey { key: service.key.clone(), account: format!("{account:#x}"), found: None })
}
