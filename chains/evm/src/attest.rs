//! Signatures for the escrow: the reserver's award, the releaser's statement about a delivery.

use alloy::{primitives::Address, sol_types::SolStruct};

use escrow_abi::{
    attest::{SignError, sign_preimage, statement_digest, statement_preimage},
    contracts::address,
    eip712::{self, escrow_domain},
    signature,
};
use sagas::ports::Statement;
use signer::Secp256k1Key;

/// The releaser's signed statement for the escrow at `escrow` on the chain `evm_id`.
///
/// # Errors
/// [`SignError`].
pub async fn sign_statement(
    key: &Secp256k1Key,
    statement: &Statement,
    evm_id: u64,
    escrow: Address,
) -> Result<String, SignError> {
    Ok(sign_preimage(key, &statement_preimage(statement, evm_id, escrow, address)?).await?)
}

/// Whether `signature` is a statement signed by the key of `releaser`. A contract account must be asked on its chain:
/// see [`super::escrows::Escrows::attestation_holds`].
pub fn verify_statement(
    releaser: Address,
    statement: &Statement,
    evm_id: u64,
    escrow: Address,
    signature: &str,
) -> bool {
    match (statement_digest(statement, evm_id, escrow, address), signature::bytes(signature)) {
        (Ok(digest), Ok(bytes)) => signature::is_of_key(releaser, digest, &bytes),
        _ => false,
    }
}

/// The reserver's signed award together with the deposit, its token and its end, for deposits with a permit; with the amount, too,
/// where that is more than the award asks for ([`LargerAdmission`](eip712::LargerAdmission)).
///
/// # Errors
/// [`signer::SignError`].
pub async fn sign_admission<T: SolStruct>(
    key: &Secp256k1Key,
    admission: &T,
    evm_id: u64,
    escrow: Address,
) -> Result<String, signer::SignError> {
    sign_preimage(key, &eip712::preimage(admission, &escrow_domain(evm_id, escrow))).await
}
