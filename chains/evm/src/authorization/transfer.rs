//! The values of an ERC-3009 message (`ReceiveWithAuthorization`, `TransferWithAuthorization`), and its typed data.
//!
//! The token's nonces are the payer's to choose. The one of a transfer to the escrow is the hash of the escrow's deposit: it binds all
//! that a Permit2 witness binds. The one of a transfer to the address of a merchant's offer is any: there the address binds it.

use alloy::{
    primitives::{Address, B256, U256},
    sol_types::Eip712Domain,
};
use serde_json::{Map, Value, json};

use escrow_abi::{
    eip712::{GatewayDeposit, ReceiveWithAuthorization, TransferWithAuthorization, preimage, token_domain},
    typed_data::{FieldError, Members, Object, check_types, render_types},
};

use crate::token_domain::TokenDomain;

pub(super) const TOKEN_DOMAIN: Members =
    &[("name", "string"), ("version", "string"), ("chainId", "uint256"), ("verifyingContract", "address")];
const AUTHORIZATION: Members = &[
    ("from", "address"),
    ("to", "address"),
    ("value", "uint256"),
    ("validAfter", "uint256"),
    ("validBefore", "uint256"),
    ("nonce", "bytes32"),
];

/// Who may carry an ERC-3009 message out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CarriedOutBy {
    /// Whom it is to (`ReceiveWithAuthorization`).
    Payee,
    /// Anyone (`TransferWithAuthorization`).
    Anyone,
}

impl CarriedOutBy {
    fn primary_type(self) -> &'static str {
        match self {
            Self::Payee => "ReceiveWithAuthorization",
            Self::Anyone => "TransferWithAuthorization",
        }
    }

    fn types(self) -> [(&'static str, Members); 1] {
        [(self.primary_type(), AUTHORIZATION)]
    }
}

/// The values of one ERC-3009 message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TransferMessage {
    /// Who may carry it out.
    pub carried_out_by: CarriedOutBy,
    /// The name and version in the token's domain.
    pub domain: TokenDomain,
    /// EIP-155 id of the domain's chain.
    pub chain_id: U256,
    /// The token, which verifies the message.
    pub token: Address,
    /// The payer.
    pub from: Address,
    /// The escrow, or the address of a merchant's offer.
    pub to: Address,
    /// What is moved, smallest unit.
    pub value: U256,
    /// Last second in which it does not hold yet, UNIX.
    pub valid_after: U256,
    /// First second in which it does not hold any more, UNIX.
    pub valid_before: u64,
    /// The struct hash of the escrow's deposit, where it is to the escrow.
    pub nonce: B256,
}

impl TransferMessage {
    pub fn domain(&self) -> Eip712Domain {
        let TokenDomain { name, version } = self.domain.clone();
        // A chain id above 64 bits is refused before any digest is made.
        token_domain(name, version, u64::try_from(self.chain_id).unwrap_or_default(), self.token)
    }

    /// What is hashed and signed (EIP-712).
    pub fn preimage(&self) -> [u8; 66] {
        let Self { from, to, value, valid_after, nonce, .. } = *self;
        let (valid_before, domain) = (U256::from(self.valid_before), self.domain());
        match self.carried_out_by {
            CarriedOutBy::Payee => preimage(
                &ReceiveWithAuthorization {
                    from,
                    to,
                    value,
                    validAfter: valid_after,
                    validBefore: valid_before,
                    nonce,
                },
                &domain,
            ),
            CarriedOutBy::Anyone => preimage(
                &TransferWithAuthorization {
                    from,
                    to,
                    value,
                    validAfter: valid_after,
                    validBefore: valid_before,
                    nonce,
                },
                &domain,
            ),
        }
    }

    /// The typed data, for `eth_signTypedData_v4`.
    pub fn render(&self) -> Value {
        json!({
            "types": render_types(&self.carried_out_by.types(), TOKEN_DOMAIN),
            "primaryType": self.carried_out_by.primary_type(),
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

    /// Reads what [`TransferMessage::render`] writes of one that is carried out so.
    pub fn read(whole: &Object<'_>, carried_out_by: CarriedOutBy) -> Result<Self, FieldError> {
        let (expected, primary_type) = (carried_out_by.primary_type(), whole.text("primaryType")?);
        if primary_type != expected {
            return Err(FieldError::mismatch("primaryType", expected, primary_type));
        }
        check_types(&carried_out_by.types(), TOKEN_DOMAIN, whole)?;
        let (domain, chain_id, token) = read_domain(whole)?;
        let message = whole.within("message", "message", AUTHORIZATION)?;
        Ok(Self {
            carried_out_by,
            domain,
            chain_id,
            token,
            from: message.address("from")?,
            to: message.address("to")?,
            value: message.uint("value")?,
            valid_after: message.uint("validAfter")?,
            valid_before: message.seconds("validBefore")?,
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
pub(super) fn read_domain(whole: &Object<'_>) -> Result<(TokenDomain, U256, Address), FieldError> {
    let domain = whole.within("domain", "domain", TOKEN_DOMAIN)?;
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
