//! The allowance that Permit2 needs, given by a signature (ERC-2612): a message that a payer signs beside the one that authorizes the
//! deposit, and that the deposit's own transaction carries.

use alloy::{
    primitives::{Address, B256, U256},
    sol_types::SolStruct,
};
use serde_json::{Value, json};

use escrow_abi::{
    contracts,
    eip712::{self, Permit, token_domain},
    signature,
    typed_data::{self, HEX, Members, Object, check_types, render_types},
};
use events::{Amount, Hash32, event::TokenPermit};

use super::{
    AuthorizationError, SignedMessage, SpendRequest,
    expected::Expected,
    transfer::{TOKEN_DOMAIN, read_domain, render_domain},
};
use crate::token_domain::TokenDomain;

const PRIMARY: &str = "Permit";
const PERMIT: Members = &[
    ("owner", "address"),
    ("spender", "address"),
    ("value", "uint256"),
    ("nonce", "uint256"),
    ("deadline", "uint256"),
];
const TYPES: [(&str, Members); 1] = [(PRIMARY, PERMIT)];

/// An allowance that a payer is to sign.
#[derive(Debug, Clone, PartialEq)]
pub struct PreparedAllowance {
    /// For `eth_signTypedData_v4`, and as JSON text for `message_prehash`.
    pub typed_data: Value,
    /// Its digest, for `message`.
    pub digest: Hash32,
    /// What it says, for `payload`.
    pub payload: Value,
}

/// The message by which the payer of `spend` gives Permit2 the allowance for all its payments, with the token's next `nonce` for it.
/// It holds as long as the deposit may be made, up to `deadline`, UNIX.
///
/// # Errors
/// [`AuthorizationError`] when the source is no token on an EVM chain.
pub fn prepare_allowance(
    spend: &SpendRequest,
    domain: &TokenDomain,
    nonce: U256,
    deadline: u64,
) -> Result<PreparedAllowance, AuthorizationError> {
    let expected = Expected::of(spend)?;
    let message = Permit {
        owner: expected.payer,
        spender: expected.permit2,
        value: U256::MAX,
        nonce,
        deadline: U256::from(deadline),
    };
    let members = json!({
        "owner": message.owner.to_string(),
        "spender": message.spender.to_string(),
        "value": message.value.to_string(),
        "nonce": message.nonce.to_string(),
        "deadline": message.deadline.to_string(),
    });
    let payload = json!({
        "function": "permit",
        "contract": expected.token.to_string(),
        "spender": members["spender"],
        "amount": members["value"],
        "nonce": members["nonce"],
        "deadline": members["deadline"],
    });
    let typed_data = json!({
        "types": render_types(&TYPES, TOKEN_DOMAIN),
        "primaryType": PRIMARY,
        "domain": render_domain(domain, U256::from(expected.evm_id), expected.token),
        "message": members,
    });
    let digest = digest(&message, domain, expected.evm_id, expected.token);
    Ok(PreparedAllowance { typed_data, digest: Hash32(digest.0), payload })
}

/// Whether a signed message is such an allowance, by what it says it is.
pub fn is_allowance(signed: &SignedMessage) -> bool {
    let Some(text) = signed.message_prehash.as_deref() else { return false };
    let Ok(value) = typed_data::parse(text.trim()) else { return false };
    value["primaryType"] == PRIMARY
}

/// The domain of the token in such a message, as the payer's wallet is shown it.
pub fn domain_of_allowance(signed: &SignedMessage) -> Option<TokenDomain> {
    let value = typed_data::parse(signed.message_prehash.as_deref()?.trim()).ok()?;
    let whole = Object::typed_data(&value, &HEX).ok()?;
    read_domain(&whole).ok().map(|(domain, _, _)| domain)
}

/// Checks that `signed` gives Permit2 an allowance for all of the payer's payments, as long as the deposit of this one may be made, up
/// to `reserve_deadline`. No chain is asked, so its domain is
/// what the payer's wallet was shown.
///
/// # Errors
/// [`AuthorizationError`], naming the field.
pub fn allowance(
    spend: &SpendRequest,
    signed: &SignedMessage,
    reserve_deadline: u64,
) -> Result<TokenPermit, AuthorizationError> {
    let expected = Expected::of(spend)?;
    let value = typed_data::parse(signed.message_prehash.as_deref().unwrap_or_default().trim())?;
    let whole = Object::typed_data(&value, &HEX)?;
    check_types(&TYPES, TOKEN_DOMAIN, &whole)?;
    let (domain, chain_id, token) = read_domain(&whole)?;
    let message = whole.within("message", "message", PERMIT)?;
    let message = Permit {
        owner: message.address("owner")?,
        spender: message.address("spender")?,
        value: message.uint("value")?,
        nonce: message.uint("nonce")?,
        deadline: message.uint("deadline")?,
    };
    let same = |field: &str, expected: Address, found: Address| match expected == found {
        true => Ok(()),
        false => Err(AuthorizationError::mismatch(field, expected, found)),
    };
    if chain_id != U256::from(expected.evm_id) {
        return Err(AuthorizationError::mismatch("domain.chainId", expected.evm_id, chain_id));
    }
    same("domain.verifyingContract", expected.token, token)?;
    same("message.owner", expected.payer, message.owner)?;
    same("message.spender", expected.permit2, message.spender)?;
    // Several payments may bring one permit, of which the first is used up. Were it of less, it would leave nothing for the others, and
    // one of one unit would take an allowance away that others stand on.
    if message.value != U256::MAX {
        let expected = format!("{}, an allowance for all payments", U256::MAX);
        return Err(AuthorizationError::mismatch("message.value", expected, message.value));
    }
    // What lies beyond 64 bits never ends.
    let deadline = u64::try_from(message.deadline)
        .map_err(|_| AuthorizationError::malformed("message.deadline", "must fit 64 bits"))?;
    if deadline < reserve_deadline {
        let expected = format!("at least the reserve deadline, {reserve_deadline}");
        return Err(AuthorizationError::mismatch("message.deadline", expected, deadline));
    }
    let digest = digest(&message, &domain, expected.evm_id, token);
    typed_data::check_digest(&signed.message, digest)?;
    let signature = super::key_signature(signed, digest, expected.payer)?;
    let value =
        Amount::new(message.value).ok_or_else(|| AuthorizationError::malformed("message.value", "must not be zero"))?;
    // The token takes it in three parts.
    let canonical = signature::canonical(&signature);
    Ok(TokenPermit {
        domain,
        value,
        nonce: Hash32(message.nonce.to_be_bytes()),
        deadline,
        signature: format!("0x{}", hex::encode(canonical)),
    })
}

/// The digest of the allowance that is on record: what the payer must have signed.
pub(crate) fn recorded_digest(
    permit: &TokenPermit,
    (owner, permit2, token): (Address, Address, Address),
    evm_id: u64,
) -> B256 {
    let message = Permit {
        owner,
        spender: permit2,
        value: contracts::units(permit.value),
        nonce: U256::from_be_bytes(permit.nonce.0),
        deadline: U256::from(permit.deadline),
    };
    digest(&message, &permit.domain, evm_id, token)
}

fn digest(message: &impl SolStruct, domain: &TokenDomain, evm_id: u64, token: Address) -> B256 {
    let TokenDomain { name, version } = domain.clone();
    eip712::digest(message, &token_domain(name, version, evm_id, token))
}
