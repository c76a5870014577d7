//! EIP-712 typed-data JSON of the two Permit2 messages: written one way, read strictly.
//!
//! Only the exact types are read, so that there is one meaning per text: a type with another name, member or order would
//! hash to something else, and a member that is not of the type would be shown by a wallet but not be signed.

use alloy::primitives::{Address, B256, U256, aliases::U48};
use serde_json::{Map, Value, json};

use escrow_abi::{
    contracts,
    eip712::{GatewayDeposit, uint},
};

use super::{AuthorizationError, Scheme, permit_message::PermitMessage, typed_json};

/// Largest typed data accepted, in bytes.
const BYTES_MAX: usize = 16 * 1024;

type Members = &'static [(&'static str, &'static str)];

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

fn primary(scheme: Scheme) -> &'static str {
    match scheme {
        Scheme::EvmPermit2Escrow => "PermitWitnessTransferFrom",
        Scheme::EvmPermit2 => "PermitTransferFrom",
    }
}

fn types(scheme: Scheme) -> Vec<(&'static str, Members)> {
    let mut types = vec![("TokenPermissions", TOKEN_PERMISSIONS)];
    match scheme {
        Scheme::EvmPermit2Escrow => types.extend([(primary(scheme), WITNESSED), ("GatewayDeposit", GATEWAY_DEPOSIT)]),
        Scheme::EvmPermit2 => types.push((primary(scheme), PLAIN)),
    }
    types
}

/// The typed data of `permit`, for `eth_signTypedData_v4`. Numbers are decimal strings, which every wallet reads exactly.
pub(super) fn render(permit: &PermitMessage) -> Value {
    let scheme = if permit.witness.is_some() { Scheme::EvmPermit2Escrow } else { Scheme::EvmPermit2 };
    let declared = types(scheme).into_iter().chain([("EIP712Domain", DOMAIN)]).map(|(name, members)| {
        let members: Vec<Value> = members.iter().map(|(name, kind)| json!({"name": name, "type": kind})).collect();
        (name.to_owned(), Value::Array(members))
    });
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
        "types": Map::from_iter(declared),
        "primaryType": primary(scheme),
        "domain": {
            "name": "Permit2",
            // Wallets compare it with the chain they are on, and some only as a number.
            "chainId": u64::try_from(permit.chain_id).unwrap_or_default(),
            "verifyingContract": permit.permit2.to_string(),
        },
        "message": message,
    })
}

/// Reads the typed data of one message of `scheme`.
pub(super) fn read(scheme: Scheme, text: &str) -> Result<PermitMessage, AuthorizationError> {
    if text.len() > BYTES_MAX {
        let reason = format!("must have at most {BYTES_MAX} bytes");
        return Err(AuthorizationError::malformed("message_prehash", reason));
    }
    let value = typed_json::read(text).map_err(|error| {
        AuthorizationError::malformed("message_prehash", format!("is not a JSON object with unique keys: {error}"))
    })?;
    let whole = Object::exactly("message_prehash", &value, &["types", "primaryType", "domain", "message"])?;
    let primary_type = whole.text("primaryType")?;
    if primary_type != primary(scheme) {
        return Err(AuthorizationError::mismatch("primaryType", primary(scheme), primary_type));
    }
    check_types(scheme, &whole.map["types"])?;

    let domain = Object::exactly("domain", &whole.map["domain"], &names(DOMAIN))?;
    let name = domain.text("name")?;
    if name != "Permit2" {
        return Err(AuthorizationError::mismatch("domain.name", "Permit2", name));
    }
    let members = match scheme {
        Scheme::EvmPermit2Escrow => WITNESSED,
        Scheme::EvmPermit2 => PLAIN,
    };
    let message = Object::exactly("message", &whole.map["message"], &names(members))?;
    let permitted = Object::exactly("message.permitted", &message.map["permitted"], &names(TOKEN_PERMISSIONS))?;
    let witness = match scheme {
        Scheme::EvmPermit2 => None,
        Scheme::EvmPermit2Escrow => Some(read_witness(&message.map["witness"])?),
    };
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
fn check_types(scheme: Scheme, value: &Value) -> Result<(), AuthorizationError> {
    let declared = value.as_object().ok_or_else(|| AuthorizationError::malformed("types", "must be an object"))?;
    let mut known = types(scheme);
    if declared.contains_key("EIP712Domain") {
        known.push(("EIP712Domain", DOMAIN));
    }
    if let Some(name) = declared.keys().find(|name| known.iter().all(|(known, _)| known != name)) {
        return Err(AuthorizationError::malformed(format!("types.{name}"), "is not a type of this message"));
    }
    for (name, members) in known {
        let exact: Vec<Value> = members.iter().map(|(name, kind)| json!({"name": name, "type": kind})).collect();
        let exact = Value::Array(exact);
        let found = declared.get(name).unwrap_or(&Value::Null);
        if *found != exact {
            return Err(AuthorizationError::mismatch(format!("types.{name}"), exact, found));
        }
    }
    Ok(())
}

fn names(members: Members) -> Vec<&'static str> {
    members.iter().map(|(name, _)| *name).collect()
}

/// A JSON object with exactly the members it should have.
struct Object<'a> {
    path: &'static str,
    map: &'a Map<String, Value>,
}

impl<'a> Object<'a> {
    fn exactly(path: &'static str, value: &'a Value, members: &[&str]) -> Result<Self, AuthorizationError> {
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

    fn text(&self, name: &str) -> Result<&'a str, AuthorizationError> {
        self.map[name].as_str().ok_or_else(|| self.malformed(name, "must be a string"))
    }

    fn uint(&self, name: &str) -> Result<U256, AuthorizationError> {
        uint(&self.map[name]).ok_or_else(|| self.malformed(name, "must be a whole number of at most 256 bits"))
    }

    fn time(&self, name: &str) -> Result<U48, AuthorizationError> {
        let time = u64::try_from(self.uint(name)?).ok().and_then(|value| contracts::time(value).ok());
        time.ok_or_else(|| self.malformed(name, "must fit 48 bits"))
    }

    fn word(&self, name: &str) -> Result<B256, AuthorizationError> {
        let bytes =
            self.bytes::<32>(name).ok_or_else(|| self.malformed(name, "must be 0x followed by 64 hex digits"))?;
        Ok(bytes.into())
    }

    fn address(&self, name: &str) -> Result<Address, AuthorizationError> {
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
