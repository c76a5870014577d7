//! Clean-up of generated JSON Schemas before they are published: what is of no use outside this code is taken out.

use serde_json::Value;

/// What the generator says of integers besides their type.
const NUMBER_FORMATS: [&str; 3] = ["int64", "uint64", "uint8"];

/// Takes out what is of no use outside this code: links of rustdoc, formats that JSON Schema does not know, and `null`,
/// which a member that is absent is not to be written as.
pub fn polish(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            if let Some(Value::String(text)) = members.get_mut("description") {
                *text = plain(text);
            }
            if members.get("format").is_some_and(|format| NUMBER_FORMATS.iter().any(|number| format == number)) {
                members.remove("format");
            }
            if let Some(Value::Array(types)) = members.get_mut("type") {
                types.retain(|kind| kind != "null");
                if let [only] = &types[..] {
                    let only = only.clone();
                    members.insert("type".to_owned(), only);
                }
            }
            if let Some(Value::Array(options)) = members.get_mut("anyOf") {
                options.retain(|option| option["type"] != "null");
                if let [Value::Object(only)] = &mut options[..] {
                    let only = std::mem::take(only);
                    members.remove("anyOf");
                    for (key, value) in only {
                        members.entry(key).or_insert(value);
                    }
                }
            }
            members.values_mut().for_each(polish);
        }
        Value::Array(items) => items.iter_mut().for_each(polish),
        _ => {}
    }
}

/// ``[`Rfq`]`` and ``[`Rfq`](path)`` become `` `Rfq` ``.
fn plain(text: &str) -> String {
    let mut written = String::with_capacity(text.len());
    let mut rest = text.replace('\n', " ");
    while let Some(start) = rest.find("[`") {
        let Some(end) = rest[start..].find("`]") else { break };
        written.push_str(&rest[..start]);
        written.push_str(&rest[start + 1..start + end + 1]);
        let mut behind = &rest[start + end + 2..];
        if behind.starts_with('(')
            && let Some(close) = behind.find(')')
        {
            behind = &behind[close + 1..];
        }
        rest = behind.to_owned();
    }
    written.push_str(&rest);
    written
}
