//! EIP-712 typed-data JSON of what a payer signs: written one way, read strictly. Here are the two Permit2 messages, and what all
//! have in common.
//!
//! Only the exact types are read, so that there is one meaning per text: a type with another name, member or order would
//! hash to something else, and a member that is not of the type would be shown by a wallet but not be signed.

use alloy::primitives::{Address, B256, U256, aliases::U48};
use serde_json::{Map, Value, json};

use escrow_abi::{
    contracts,
    eip712::{GatewayDeposit, uint},
};

use super::{AuthorizationError, permit2_message::PermitMessage, typed_json};

/// Largest typed data accepted, in bytes.
const BYTES_MAX: usize = 16 * 1024;

pub(super) type Members = &'static [(&'static str, &'static str)];

const DOMAIN: Members = &[("name", "string"), ("chainId", "uint256"), ("verifyingContract", "address")];
const TOKEN_PERMISSIONS: Members = &[("token", "address"), ("amount", "uint256")];
const PLAIN: Members =
    &[("permitted", "TokenPermissions"), ("spender", "address"), ("nonce", "uint256"), ("deadline", "uint256")];
const WITNESSED: Members = &[
    ("permitted", "TokenPermissions"),
    ("spender", "address"),
    ("nonce", "uint256"),
    ("deadline", "uint256"),
    ("witness", "GatewayDeposit"),
];
const GATEWAY_DEPOSIT: Members = &[
    ("paymentId", "bytes32"),
    ("termsHash", "bytes32"),
    ("quoteHash", "bytes32"),
    ("payer", "address"),
    ("reserver", "address"),
    ("releaser", "address"),
    ("reserveDeadline", "uint48"),
    ("fulfillmentDeadline", "uint48"),
    ("refundAfter", "uint48"),
];

fn primary(with_witness: bool) -> &'static str {
    if with_witness { "PermitWitnessTransferFrom" } else { "PermitTransferFrom" }
}

fn types(with_witness: bool) -> Vec<(&'static str, Members)> {
    let mut types = vec![("TokenPermissions", TOKEN_PERMISSIONS)];
    match with_witness {
        true => types.extend([(primary(true), WITNESSED), ("GatewayDeposit", GATEWAY_DEPOSIT)]),
        false => types.push((primary(false), PLAIN)),
    }
    types
}

/// The declaration of `types`, and of the domain's.
pub(super) fn render_types(types: &[(&'static str, Members)], domain: Members) -> Map<String, Value> {
    let declared = types.iter().copied().chain([("EIP712Domain", domain)]);
    declared.map(|(name, members)| (name.to_owned(), declaration(members))).collect()
}

fn declaration(members: Members) -> Value {
    members.iter().map(|(name, kind)| json!({"name": name, "type": kind})).collect()
}

/// The typed data of `permit`, for `eth_signTypedData_v4`. Numbers are decimal strings, which every wallet reads exactly.
pub(super) fn render(permit: &PermitMessage) -> Value {
    let with_witness = permit.witness.is_some();
    let mut message = json!({
        "permitted": {"token": permit.token.to_string(), "amount": permit.amount.to_string()},
        "spender": permit.spender.to_string(),
        "nonce": permit.nonce.to_string(),
        "deadline": permit.deadline.to_string(),
    });
    if let Some(witness) = &permit.witness {
        message["witness"] = json!({
            "paymentId": witness.paymentId.to_string(),
            "termsHash": witness.termsHash.to_string(),
            "quoteHash": witness.quoteHash.to_string(),
            "payer": witness.payer.to_string(),
            "reserver": witness.reserver.to_string(),
            "releaser": witness.releaser.to_string(),
            "reserveDeadline": witness.reserveDeadline.to_string(),
            "fulfillmentDeadline": witness.fulfillmentDeadline.to_string(),
            "refundAfter": witness.refundAfter.to_string(),
        });
    }
    json!({
        "types": render_types(&types(with_witness), DOMAIN),
        "primaryType": primary(with_witness),
        "domain": {
            "name": "Permit2",
            // Wallets compare it with the chain they are on, and some only as a number.
            "chainId": u64::try_from(permit.chain_id).unwrap_or_default(),
            "verifyingContract": permit.permit2.to_string(),
        },
        "message": message,
    })
}

/// The JSON of typed data.
///
/// # Errors
/// [`AuthorizationError::Malformed`] for what is none, or too large.
pub(super) fn parse(text: &str) -> Result<Value, AuthorizationError> {
    if text.len() > BYTES_MAX {
        let reason = format!("must have at most {BYTES_MAX} bytes");
        return Err(AuthorizationError::malformed("message_prehash", reason));
    }
    typed_json::read(text).map_err(|error| {
        AuthorizationError::malformed("message_prehash", format!("is not a JSON object with unique keys: {error}"))
    })
}

/// Reads the typed data of a Permit2 message.
pub(super) fn read(with_witness: bool, whole: &Object<'_>) -> Result<PermitMessage, AuthorizationError> {
    let primary_type = whole.text("primaryType")?;
    if primary_type != primary(with_witness) {
        return Err(AuthorizationError::mismatch("primaryType", primary(with_witness), primary_type));
    }
    check_types(&types(with_witness), DOMAIN, whole)?;

    let domain = Object::exactly("domain", &whole.map["domain"], &names(DOMAIN))?;
    let name = domain.text("name")?;
    if name != "Permit2" {
        return Err(AuthorizationError::mismatch("domain.name", "Permit2", name));
    }
    let members = if with_witness { WITNESSED } else { PLAIN };
    let message = Object::exactly("message", &whole.map["message"], &names(members))?;
    let permitted = Object::exactly("message.permitted", &message.map["permitted"], &names(TOKEN_PERMISSIONS))?;
    let witness = if with_witness { Some(read_witness(&message.map["witness"])?) } else { None };
    Ok(PermitMessage {
        chain_id: domain.uint("chainId")?,
        permit2: domain.address("verifyingContract")?,
        token: permitted.address("token")?,
        amount: permitted.uint("amount")?,
        spender: message.address("spender")?,
        nonce: message.uint("nonce")?,
        deadline: u64::try_from(message.uint("deadline")?)
            .map_err(|_| AuthorizationError::malformed("message.deadline", "must fit 64 bits"))?,
        witness,
    })
}

fn read_witness(value: &Value) -> Result<GatewayDeposit, AuthorizationError> {
    let witness = Object::exactly("message.witness", value, &names(GATEWAY_DEPOSIT))?;
    Ok(GatewayDeposit {
        paymentId: witness.word("paymentId")?,
        termsHash: witness.word("termsHash")?,
        quoteHash: witness.word("quoteHash")?,
        payer: witness.address("payer")?,
        reserver: witness.address("reserver")?,
        releaser: witness.address("releaser")?,
        reserveDeadline: witness.time("reserveDeadline")?,
        fulfillmentDeadline: witness.time("fulfillmentDeadline")?,
        refundAfter: witness.time("refundAfter")?,
    })
}

/// The declared types must be the known ones; libraries that derive `EIP712Domain` from the domain may leave it out.
pub(super) fn check_types(
    types: &[(&'static str, Members)],
    domain: Members,
    whole: &Object<'_>,
) -> Result<(), AuthorizationError> {
    let declared = whole.member("types").as_object();
    let declared = declared.ok_or_else(|| AuthorizationError::malformed("types", "must be an object"))?;
    let mut known = types.to_vec();
    if declared.contains_key("EIP712Domain") {
        known.push(("EIP712Domain", domain));
    }
    if let Some(name) = declared.keys().find(|name| known.iter().all(|(known, _)| known != name)) {
        return Err(AuthorizationError::malformed(format!("types.{name}"), "is not a type of this message"));
    }
    for (name, members) in known {
        let exact = declaration(members);
        let found = declared.get(name).unwrap_or(&Value::Null);
        if *found != exact {
            return Err(AuthorizationError::mismatch(format!("types.{name}"), exact, found));
        }
    }
    Ok(())
}

pub(super) fn names(members: Members) -> Vec<&'static str> {
    members.iter().map(|(name, _)| *name).collect()
}

/// A JSON object with exactly the members it should have.
pub(super) struct Object<'a> {
    path: &'static str,
    map: &'a Map<String, Value>,
}

impl<'a> Object<'a> {
    /// The members that all typed data has.
    pub fn typed_data(value: &'a Value) -> Result<Self, AuthorizationError> {
        Self::exactly("message_prehash", value, &["types", "primaryType", "domain", "message"])
    }

    /// A member that is there: [`Object::exactly`] has seen to it.
    pub fn member(&self, name: &str) -> &'a Value {
        &self.map[name]
    }

    pub fn exactly(path: &'static str, value: &'a Value, members: &[&str]) -> Result<Self, AuthorizationError> {
        let map = value.as_object().ok_or_else(|| AuthorizationError::malformed(path, "must be an object"))?;
        if let Some(missing) = members.iter().find(|name| !map.contains_key(**name)) {
            return Err(AuthorizationError::malformed(format!("{path}.{missing}"), "is missing"));
        }
        if let Some(extra) = map.keys().find(|name| !members.contains(&name.as_str())) {
            return Err(AuthorizationError::malformed(format!("{path}.{extra}"), "does not belong here"));
        }
        Ok(Self { path, map })
    }

    fn malformed(&self, name: &str, reason: &str) -> AuthorizationError {
        AuthorizationError::malformed(format!("{}.{name}", self.path), reason)
    }

    pub fn text(&self, name: &str) -> Result<&'a str, AuthorizationError> {
        self.map[name].as_str().ok_or_else(|| self.malformed(name, "must be a string"))
    }

    pub fn uint(&self, name: &str) -> Result<U256, AuthorizationError> {
        uint(&self.map[name]).ok_or_else(|| self.malformed(name, "must be a whole number of at most 256 bits"))
    }

    fn time(&self, name: &str) -> Result<U48, AuthorizationError> {
        let time = u64::try_from(self.uint(name)?).ok().and_then(|value| contracts::time(value).ok());
        time.ok_or_else(|| self.malformed(name, "must fit 48 bits"))
    }

    pub fn word(&self, name: &str) -> Result<B256, AuthorizationError> {
        let bytes =
            self.bytes::<32>(name).ok_or_else(|| self.malformed(name, "must be 0x followed by 64 hex digits"))?;
        Ok(bytes.into())
    }

    pub fn address(&self, name: &str) -> Result<Address, AuthorizationError> {
        let bytes =
            self.bytes::<20>(name).ok_or_else(|| self.malformed(name, "must be 0x followed by 40 hex digits"))?;
        Ok(bytes.into())
    }

    fn bytes<const N: usize>(&self, name: &str) -> Option<[u8; N]> {
        let mut bytes = [0; N];
        hex::decode_to_slice(self.map[name].as_str()?.strip_prefix("0x")?, &mut bytes).ok()?;
        Some(bytes)
    }
}
