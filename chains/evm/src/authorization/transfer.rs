//! The values of an ERC-3009 message (`ReceiveWithAuthorization`), and its typed data.
//!
//! The token's nonces are the payer's to choose, so the one that is signed is the hash of the escrow's deposit: it binds all that a
//! Permit2 witness binds.

use alloy::{
    primitives::{Address, B256, U256},
    sol_types::{Eip712Domain, SolStruct},
};
use serde_json::{Map, Value, json};

use escrow_abi::eip712::{GatewayDeposit, ReceiveWithAuthorization, token_domain};

use super::{
    AuthorizationError,
    typed_data::{Members, Object, check_types, names, render_types},
};
use crate::token_domain::TokenDomain;

const PRIMARY: &str = "ReceiveWithAuthorization";
pub(super) const TOKEN_DOMAIN: Members =
    &[("name", "string"), ("version", "string"), ("chainId", "uint256"), ("verifyingContract", "address")];
const RECEIVE_WITH_AUTHORIZATION: Members = &[
    ("from", "address"),
    ("to", "address"),
    ("value", "uint256"),
    ("validAfter", "uint256"),
    ("validBefore", "uint256"),
    ("nonce", "bytes32"),
];
const TYPES: [(&str, Members); 1] = [(PRIMARY, RECEIVE_WITH_AUTHORIZATION)];

/// The values of one ERC-3009 message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TransferMessage {
    /// The name and version in the token's domain.
    pub domain: TokenDomain,
    /// EIP-155 id of the domain's chain.
    pub chain_id: U256,
    /// The token, which verifies the message.
    pub token: Address,
    /// The payer.
    pub from: Address,
    /// The escrow, which alone may carry it out.
    pub to: Address,
    /// What is moved, smallest unit.
    pub value: U256,
    /// Last second in which it does not hold yet, UNIX.
    pub valid_after: U256,
    /// First second in which it does not hold any more, UNIX.
    pub valid_before: u64,
    /// The struct hash of the escrow's deposit.
    pub nonce: B256,
}

impl TransferMessage {
    pub fn domain(&self) -> Eip712Domain {
        let TokenDomain { name, version } = self.domain.clone();
        // A chain id above 64 bits is refused before any digest is made.
        token_domain(name, version, u64::try_from(self.chain_id).unwrap_or_default(), self.token)
    }

    pub fn hash_struct(&self) -> B256 {
        ReceiveWithAuthorization {
            from: self.from,
            to: self.to,
            value: self.value,
            validAfter: self.valid_after,
            validBefore: U256::from(self.valid_before),
            nonce: self.nonce,
        }
        .eip712_hash_struct()
    }

    /// The typed data, for `eth_signTypedData_v4`.
    pub fn render(&self) -> Value {
        json!({
            "types": render_types(&TYPES, TOKEN_DOMAIN),
            "primaryType": PRIMARY,
            "domain": render_domain(&self.domain, self.chain_id, self.token),
            "message": {
                "from": self.from.to_string(),
                "to": self.to.to_string(),
                "value": self.value.to_string(),
                "validAfter": self.valid_after.to_string(),
                "validBefore": self.valid_before.to_string(),
                "nonce": self.nonce.to_string(),
            },
        })
    }

    /// Reads what [`TransferMessage::render`] writes.
    pub fn read(whole: &Object<'_>) -> Result<Self, AuthorizationError> {
        let primary_type = whole.text("primaryType")?;
        if primary_type != PRIMARY {
            return Err(AuthorizationError::mismatch("primaryType", PRIMARY, primary_type));
        }
        check_types(&TYPES, TOKEN_DOMAIN, whole)?;
        let (domain, chain_id, token) = read_domain(whole)?;
        let message = Object::exactly("message", whole.member("message"), &names(RECEIVE_WITH_AUTHORIZATION))?;
        Ok(Self {
            domain,
            chain_id,
            token,
            from: message.address("from")?,
            to: message.address("to")?,
            value: message.uint("value")?,
            valid_after: message.uint("validAfter")?,
            valid_before: u64::try_from(message.uint("validBefore")?)
                .map_err(|_| AuthorizationError::malformed("message.validBefore", "must fit 64 bits"))?,
            nonce: message.word("nonce")?,
        })
    }
}

/// The domain of a token that takes signatures.
pub(super) fn render_domain(domain: &TokenDomain, chain_id: U256, token: Address) -> Value {
    json!({
        "name": domain.name,
        "version": domain.version,
        // Wallets compare it with the chain they are on, and some only as a number.
        "chainId": u64::try_from(chain_id).unwrap_or_default(),
        "verifyingContract": token.to_string(),
    })
}

/// Reads the same out of typed data: name and version, chain, token.
pub(super) fn read_domain(whole: &Object<'_>) -> Result<(TokenDomain, U256, Address), AuthorizationError> {
    let domain = Object::exactly("domain", whole.member("domain"), &names(TOKEN_DOMAIN))?;
    let named = TokenDomain { name: domain.text("name")?.to_owned(), version: domain.text("version")?.to_owned() };
    Ok((named, domain.uint("chainId")?, domain.address("verifyingContract")?))
}

/// What a deposit says, for the `payload` of a message that holds nothing but its hash.
pub(super) fn shown(deposit: &GatewayDeposit) -> Map<String, Value> {
    let word = |word: B256| Value::from(word.to_string());
    let account = |account: Address| Value::from(account.to_string());
    Map::from_iter([
        ("paymentId".to_owned(), word(deposit.paymentId)),
        ("termsHash".to_owned(), word(deposit.termsHash)),
        ("quoteHash".to_owned(), word(deposit.quoteHash)),
        ("payer".to_owned(), account(deposit.payer)),
        ("reserver".to_owned(), account(deposit.reserver)),
        ("releaser".to_owned(), account(deposit.releaser)),
        ("reserveDeadline".to_owned(), deposit.reserveDeadline.to_string().into()),
        ("fulfillmentDeadline".to_owned(), deposit.fulfillmentDeadline.to_string().into()),
        ("refundAfter".to_owned(), deposit.refundAfter.to_string().into()),
    ])
}
