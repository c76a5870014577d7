//! The OpenAPI document as generators of clients read it: forms that one of the common ones breaks on, or makes nothing of,
//! are not in it (ADR 118). `make clients` generates, compiles and pays with them.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use crate::openapi::{document, file};

/// Shows every object of the document with its place, but for examples, which are nobody's schema.
fn each_object(value: &Value, at: &str, look: &mut impl FnMut(&str, &Map<String, Value>)) {
    match value {
        Value::Object(members) => {
            look(at, members);
            for (name, value) in members.iter().filter(|(name, _)| !["example", "examples"].contains(&name.as_str())) {
                each_object(value, &format!("{at}/{name}"), look);
            }
        }
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(i, item)| each_object(item, &format!("{at}/{i}"), look));
        }
        _ => {}
    }
}

/// A value that stands twice in an `enum` is two members of one name, and the end of openapi-python-client.
#[test]
fn no_list_has_a_value_twice() {
    let mut seen = 0;
    each_object(&document("https://pay.example"), "", &mut |at, object| {
        for (name, list) in object {
            let Value::Array(items) = list else { continue };
            let texts: BTreeSet<String> = items.iter().map(Value::to_string).collect();
            assert_eq!(texts.len(), items.len(), "{at}/{name}: {list}");
            seen += usize::from(name == "enum");
        }
    });
    assert!(seen > 100, "{seen} enums");
}

/// Of a union by `anyOf`, or of several types, OpenAPI Generator makes a struct with the members of all, or of none. Of a
/// `const` in a union openapi-python-client makes a reader that refuses everything else, and of a list without a title OpenAPI
/// Generator a name that is not one.
#[test]
fn a_union_is_of_schemas_of_which_one_fits() {
    let mut seen = BTreeSet::new();
    each_object(&document("https://pay.example"), "", &mut |at, object| {
        assert!(!object.get("type").is_some_and(Value::is_array), "{at} is of several types");
        assert!(!object.contains_key("anyOf") || at.ends_with("/not"), "{at} has anyOf");
        assert!(!object.contains_key("nullable"), "{at} is nullable, which OpenAPI 3.1 does not know");
        let Some(options) = object.get("oneOf").and_then(Value::as_array) else { return };
        let is_read = |option: &Value| {
            option.get("$ref").or(option.get("type")).is_some_and(Value::is_string)
                && option.get("const").is_none()
                && (option["type"] != "array" || option["title"].is_string())
        };
        assert!(options.len() > 1 && options.iter().all(is_read), "{at}: {options:?}");
        seen.insert(at.rsplit('/').next().unwrap_or_default().to_owned());
    });
    for name in ["required_depth", "issuer", "DataIntegrityProof", "schema"] {
        assert!(seen.contains(name), "{name} is not among {seen:?}");
    }
}

/// Without a type an `enum` is anything, and without a width an integer has 32 bits; with one a constant is a text to OpenAPI
/// Generator.
#[test]
fn what_is_listed_or_counted_says_what_it_is() {
    let mut integers = 0;
    each_object(&document("https://pay.example"), "", &mut |at, object| {
        // A member may have the name of a keyword.
        if at.ends_with("/properties") {
            return;
        }
        if object.contains_key("enum") {
            assert!(object.get("type").is_some_and(Value::is_string), "{at} has no type");
        }
        if object.get("type").is_some_and(|kind| kind == "integer") {
            let width = object.get("format").and_then(Value::as_str);
            assert_eq!(width, (!object.contains_key("const")).then_some("int64"), "{at}");
            integers += 1;
        }
    });
    assert!(integers > 20, "{integers}");
}

#[test]
fn the_committed_document_is_what_the_code_gives() {
    let committed = include_str!("../../../protocol/openapi.json");
    assert!(committed == file(), "`gw protocol --write protocol` makes protocol/openapi.json what the code gives");
}
