//! EIP-712 typed-data JSON of what payers sign: written one way, read strictly.
//!
//! Only the exact types are read, so that there is one meaning per text: a type with another name, member or order would
//! hash to something else, and a member that is not of the type would be shown by a wallet but not be signed. Addresses are
//! written as the chain's own people write them; TIP-712 hashes their twenty bytes as EIP-712 does.

mod json;

use alloy::primitives::{Address, B256, U256, aliases::U48};
use serde_json::{Map, Value, json};

use events::Hash32;

use super::{contracts, eip712::uint};

/// Largest typed data accepted, in bytes.
const BYTES_MAX: usize = 16 * 1024;

/// Names and types of a struct's members, in their order.
pub type Members = &'static [(&'static str, &'static str)];

/// What is wrong with a member of typed data, or beside it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FieldError {
    /// It cannot be read.
    #[error("{field} {reason}")]
    Malformed {
        /// The member, by its path.
        field: String,
        /// What is wrong with it.
        reason: String,
    },
    /// It is not what is demanded.
    #[error("{field} must be {expected}, not {found}")]
    Mismatch {
        /// The member, by its path.
        field: String,
        /// What is demanded.
        expected: String,
        /// What was signed.
        found: String,
    },
}

impl FieldError {
    /// A member that cannot be read.
    pub fn malformed(field: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::Malformed { field: field.into(), reason: reason.into() }
    }

    /// A member that is not what is demanded.
    pub fn mismatch(field: impl Into<String>, expected: impl ToString, found: impl ToString) -> Self {
        Self::Mismatch { field: field.into(), expected: expected.to_string(), found: found.to_string() }
    }
}

/// How the chains of one family write addresses in typed data.
#[derive(Debug, Clone, Copy)]
pub struct AddressForm {
    /// The form in which they are written.
    pub write: fn(Address) -> String,
    /// Reads each form that is taken.
    pub read: fn(&str) -> Option<Address>,
    /// What has to be written, for whoever wrote something else.
    pub rule: &'static str,
}

/// Hex with 0x, as on EVM chains; checksums are not judged.
pub static HEX: AddressForm = AddressForm {
    write: |address| address.to_string(),
    read: |text| fixed::<20>(text).map(Address::from),
    rule: "must be 0x followed by 40 hex digits",
};

/// The declaration of `types`, and of the domain's.
pub fn render_types(types: &[(&'static str, Members)], domain: Members) -> Map<String, Value> {
    let declared = types.iter().copied().chain([("EIP712Domain", domain)]);
    declared.map(|(name, members)| (name.to_owned(), declaration(members))).collect()
}

fn declaration(members: Members) -> Value {
    members.iter().map(|(name, kind)| json!({"name": name, "type": kind})).collect()
}

/// The JSON of typed data.
///
/// # Errors
/// [`FieldError::Malformed`] for what is none, or too large.
pub fn parse(text: &str) -> Result<Value, FieldError> {
    if text.len() > BYTES_MAX {
        return Err(FieldError::malformed("message_prehash", format!("must have at most {BYTES_MAX} bytes")));
    }
    json::read(text).map_err(|error| {
        FieldError::malformed("message_prehash", format!("is not a JSON object with unique keys: {error}"))
    })
}

/// The declared types must be the known ones; libraries that derive `EIP712Domain` from the domain may leave it out.
///
/// # Errors
/// [`FieldError`], naming the type.
pub fn check_types(types: &[(&'static str, Members)], domain: Members, whole: &Object<'_>) -> Result<(), FieldError> {
    let declared = whole.member("types").as_object();
    let declared = declared.ok_or_else(|| FieldError::malformed("types", "must be an object"))?;
    let mut known = types.to_vec();
    if declared.contains_key("EIP712Domain") {
        known.push(("EIP712Domain", domain));
    }
    if let Some(name) = declared.keys().find(|name| known.iter().all(|(known, _)| known != name)) {
        return Err(FieldError::malformed(format!("types.{name}"), "is not a type of this message"));
    }
    for (name, members) in known {
        let exact = declaration(members);
        let found = declared.get(name).unwrap_or(&Value::Null);
        if *found != exact {
            return Err(FieldError::mismatch(format!("types.{name}"), exact, found));
        }
    }
    Ok(())
}

/// The names of a struct's members.
pub fn names(members: Members) -> Vec<&'static str> {
    members.iter().map(|(name, _)| *name).collect()
}

/// Compares what is demanded with what was signed.
///
/// # Errors
/// [`FieldError::Mismatch`].
pub fn equal<T: PartialEq + ToString>(field: &'static str, expected: T, found: T) -> Result<(), FieldError> {
    if expected == found { Ok(()) } else { Err(FieldError::mismatch(field, expected, found)) }
}

/// Compares the digest that a message states, hex, with the one that was rebuilt.
///
/// # Errors
/// [`FieldError`] of `message`.
pub fn check_digest(text: &str, rebuilt: B256) -> Result<(), FieldError> {
    let malformed = |_| FieldError::malformed("message", "must be 0x followed by 64 hex digits");
    let stated: Hash32 = text.parse().map_err(malformed)?;
    if stated.0 == rebuilt.0 { Ok(()) } else { Err(FieldError::mismatch("message", rebuilt, stated)) }
}

/// Compares a `0x1901…` preimage, hex, with the one that was rebuilt.
///
/// # Errors
/// [`FieldError`], naming the half that differs.
pub fn check_preimage(text: &str, rebuilt: &[u8; 66]) -> Result<(), FieldError> {
    const FORM: &str = "must be EIP-712 typed-data JSON or 66 bytes 0x1901… in hex";
    let malformed = || FieldError::malformed("message_prehash", FORM);
    let bytes = hex::decode(text.strip_prefix("0x").ok_or_else(malformed)?).map_err(|_| malformed())?;
    if bytes.len() != rebuilt.len() || bytes[..2] != [0x19, 0x01] {
        return Err(malformed());
    }
    for (field, part) in [("message_prehash.domainSeparator", 2..34), ("message_prehash.structHash", 34..66)] {
        let (expected, found) = (&rebuilt[part.clone()], &bytes[part]);
        if expected != found {
            let hex = |bytes: &[u8]| format!("0x{}", hex::encode(bytes));
            return Err(FieldError::mismatch(field, hex(expected), hex(found)));
        }
    }
    Ok(())
}

/// A JSON object with exactly the members it should have.
#[derive(Debug)]
pub struct Object<'a> {
    path: &'static str,
    map: &'a Map<String, Value>,
    form: &'static AddressForm,
}

impl<'a> Object<'a> {
    /// The members that all typed data has, in which addresses have this form.
    ///
    /// # Errors
    /// [`FieldError::Malformed`], naming the member that is missing or too many.
    pub fn typed_data(value: &'a Value, form: &'static AddressForm) -> Result<Self, FieldError> {
        Self::exactly("message_prehash", value, &["types", "primaryType", "domain", "message"], form)
    }

    /// The member `name`, which is at `path`, with these members.
    ///
    /// # Errors
    /// As [`Object::typed_data`].
    pub fn within(&self, path: &'static str, name: &str, members: Members) -> Result<Self, FieldError> {
        Self::exactly(path, self.member(name), &names(members), self.form)
    }

    /// The members of the list `name`, which is at `path`, each with these members, and at most so many.
    ///
    /// # Errors
    /// As [`Object::typed_data`].
    pub fn list(&self, path: &'static str, name: &str, members: Members, most: usize) -> Result<Vec<Self>, FieldError> {
        let items = self.member(name).as_array().filter(|items| items.len() <= most);
        let items =
            items.ok_or_else(|| FieldError::malformed(path, format!("must be a list of at most {most} members")))?;
        items.iter().map(|item| Self::exactly(path, item, &names(members), self.form)).collect()
    }

    /// A member that is there: whoever made this has seen to it.
    pub fn member(&self, name: &str) -> &'a Value {
        &self.map[name]
    }

    fn exactly(
        path: &'static str,
        value: &'a Value,
        members: &[&str],
        form: &'static AddressForm,
    ) -> Result<Self, FieldError> {
        let map = value.as_object().ok_or_else(|| FieldError::malformed(path, "must be an object"))?;
        if let Some(missing) = members.iter().find(|name| !map.contains_key(**name)) {
            return Err(FieldError::malformed(format!("{path}.{missing}"), "is missing"));
        }
        if let Some(extra) = map.keys().find(|name| !members.contains(&name.as_str())) {
            return Err(FieldError::malformed(format!("{path}.{extra}"), "does not belong here"));
        }
        Ok(Self { path, map, form })
    }

    fn malformed(&self, name: &str, reason: &str) -> FieldError {
        FieldError::malformed(format!("{}.{name}", self.path), reason)
    }

    /// A string.
    ///
    /// # Errors
    /// [`FieldError::Malformed`], as all that follow.
    pub fn text(&self, name: &str) -> Result<&'a str, FieldError> {
        self.map[name].as_str().ok_or_else(|| self.malformed(name, "must be a string"))
    }

    /// A `uint256`: a decimal or hex string, or a JSON integer.
    ///
    /// # Errors
    /// See [`Object::text`].
    pub fn uint(&self, name: &str) -> Result<U256, FieldError> {
        uint(&self.map[name]).ok_or_else(|| self.malformed(name, "must be a whole number of at most 256 bits"))
    }

    /// A `uint256` that fits 64 bits, as times do.
    ///
    /// # Errors
    /// See [`Object::text`].
    pub fn seconds(&self, name: &str) -> Result<u64, FieldError> {
        u64::try_from(self.uint(name)?).map_err(|_| self.malformed(name, "must fit 64 bits"))
    }

    /// A `uint48`.
    ///
    /// # Errors
    /// See [`Object::text`].
    pub fn time(&self, name: &str) -> Result<U48, FieldError> {
        let time = u64::try_from(self.uint(name)?).ok().and_then(|value| contracts::time(value).ok());
        time.ok_or_else(|| self.malformed(name, "must fit 48 bits"))
    }

    /// A `bytes32`.
    ///
    /// # Errors
    /// See [`Object::text`].
    pub fn word(&self, name: &str) -> Result<B256, FieldError> {
        let word = self.map[name].as_str().and_then(fixed::<32>).map(B256::from);
        word.ok_or_else(|| self.malformed(name, "must be 0x followed by 64 hex digits"))
    }

    /// An `address`.
    ///
    /// # Errors
    /// See [`Object::text`].
    pub fn address(&self, name: &str) -> Result<Address, FieldError> {
        let address = self.map[name].as_str().and_then(self.form.read);
        address.ok_or_else(|| self.malformed(name, self.form.rule))
    }
}

fn fixed<const N: usize>(text: &str) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    hex::decode_to_slice(text.strip_prefix("0x")?, &mut bytes).ok()?;
    Some(bytes)
}
