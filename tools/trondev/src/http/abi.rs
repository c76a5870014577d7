//! ABIs between JSON and the protocol's message.

use serde_json::{Map, Value, json};

use super::request::ApiError;
use crate::proto::{Abi, AbiEntry, AbiParam};

const KINDS: [&str; 7] = ["UnknownEntryType", "Constructor", "Function", "Event", "Fallback", "Receive", "Error"];
const MUTABILITIES: [&str; 5] = ["UnknownMutabilityType", "Pure", "View", "Nonpayable", "Payable"];
const VIEW: i32 = 2;
const PURE: i32 = 1;

/// Reads an ABI: the entries, or an object with `entrys`.
pub(super) fn read(value: &Value) -> Result<Abi, ApiError> {
    let entries = match value {
        Value::Array(entries) => entries.as_slice(),
        Value::Object(object) => match object.get("entrys") {
            None => &[],
            Some(Value::Array(entries)) => entries.as_slice(),
            Some(_) => return Err(ApiError::field("abi", "entrys is a list")),
        },
        _ => return Err(ApiError::field("abi", "a list of entries is needed")),
    };
    let entrys = entries.iter().map(entry).collect::<Result<_, _>>()?;
    Ok(Abi { entrys })
}

fn entry(value: &Value) -> Result<AbiEntry, ApiError> {
    let object = value.as_object().ok_or_else(|| ApiError::field("abi", "an entry is an object"))?;
    Ok(AbiEntry {
        anonymous: flag(object, "anonymous"),
        constant: flag(object, "constant"),
        name: text(object, "name"),
        inputs: params(object, "inputs")?,
        outputs: params(object, "outputs")?,
        r#type: position(object, "type", &KINDS)?,
        payable: flag(object, "payable"),
        state_mutability: position(object, "stateMutability", &MUTABILITIES)?,
    })
}

fn params(object: &Map<String, Value>, name: &str) -> Result<Vec<AbiParam>, ApiError> {
    let Some(list) = object.get(name).filter(|list| !list.is_null()) else { return Ok(Vec::new()) };
    let list = list.as_array().ok_or_else(|| ApiError::field("abi", format!("{name} is a list")))?;
    list.iter()
        .map(|param| {
            let object = param.as_object().ok_or_else(|| ApiError::field("abi", "a parameter is an object"))?;
            Ok(AbiParam { indexed: flag(object, "indexed"), name: text(object, "name"), r#type: text(object, "type") })
        })
        .collect()
}

fn flag(object: &Map<String, Value>, name: &str) -> bool {
    object.get(name).and_then(Value::as_bool).unwrap_or_default()
}

fn text(object: &Map<String, Value>, name: &str) -> String {
    object.get(name).and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// Compilers write the names in lower case, Tron's nodes with a capital.
fn position(object: &Map<String, Value>, name: &str, names: &[&str]) -> Result<i32, ApiError> {
    let Some(value) = object.get(name).filter(|value| !value.is_null()) else { return Ok(0) };
    let found = match value {
        Value::Number(number) => number.as_u64().and_then(|number| usize::try_from(number).ok()),
        Value::String(text) if text.is_empty() => Some(0),
        Value::String(text) => names.iter().position(|name| name.eq_ignore_ascii_case(text)),
        _ => None,
    };
    found
        .filter(|position| *position < names.len())
        .and_then(|position| i32::try_from(position).ok())
        .ok_or_else(|| ApiError::field("abi", format!("{name} {value} is not known")))
}

/// Writes an ABI as Tron's nodes do, leaving out what is empty.
pub(super) fn write(abi: &Abi) -> Value {
    if abi.entrys.is_empty() {
        return json!({});
    }
    let entries: Vec<Value> = abi.entrys.iter().map(write_entry).collect();
    json!({ "entrys": entries })
}

fn write_entry(entry: &AbiEntry) -> Value {
    let mut object = Map::new();
    for (name, flag) in [("anonymous", entry.anonymous), ("constant", entry.constant), ("payable", entry.payable)] {
        if flag {
            object.insert(name.to_owned(), Value::Bool(true));
        }
    }
    if !entry.name.is_empty() {
        object.insert("name".to_owned(), json!(entry.name));
    }
    for (name, params) in [("inputs", &entry.inputs), ("outputs", &entry.outputs)] {
        if !params.is_empty() {
            object.insert(name.to_owned(), params.iter().map(write_param).collect());
        }
    }
    for (name, number, names) in
        [("type", entry.r#type, KINDS.as_slice()), ("stateMutability", entry.state_mutability, MUTABILITIES.as_slice())]
    {
        let known = usize::try_from(number).ok().filter(|number| *number > 0).and_then(|number| names.get(number));
        if let Some(text) = known {
            object.insert(name.to_owned(), json!(text));
        }
    }
    Value::Object(object)
}

fn write_param(param: &AbiParam) -> Value {
    let mut object = Map::new();
    if param.indexed {
        object.insert("indexed".to_owned(), Value::Bool(true));
    }
    for (name, text) in [("name", &param.name), ("type", &param.r#type)] {
        if !text.is_empty() {
            object.insert(name.to_owned(), json!(text));
        }
    }
    Value::Object(object)
}

/// Whether the ABI says that the function with this selector changes nothing.
pub(super) fn is_constant(abi: &Abi, selector: &[u8]) -> bool {
    abi.entrys.iter().any(|entry| {
        let types: Vec<&str> = entry.inputs.iter().map(|input| input.r#type.as_str()).collect();
        let signature = format!("{}({})", entry.name, types.join(","));
        let unchanging = entry.constant || matches!(entry.state_mutability, VIEW | PURE);
        unchanging && revm::primitives::keccak256(signature)[..4] == *selector
    })
}
