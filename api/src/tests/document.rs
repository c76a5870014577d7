//! The OpenAPI document against the routes, the table of errors, and what the routes really answer.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

use axum::http::Method;
use jsonschema::Validator;
use serde_json::{Map, Value, json};

use app::error::Code;

use super::{
    Answer,
    bad_bodies::{
        Edit::{Remove, Set},
        bad_bodies, good_edits,
    },
    body, with, without,
};
use crate::{
    openapi::{OPERATIONS, document},
    routes::ROUTES,
};

fn the_document() -> &'static Value {
    static DOCUMENT: OnceLock<Value> = OnceLock::new();
    DOCUMENT.get_or_init(|| document("https://pay.example"))
}

/// A validator for `schema`, which may refer to the document's components.
pub fn validator(schema: &Value) -> Validator {
    let root = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "allOf": [schema],
        "components": the_document()["components"],
    });
    jsonschema::options().should_validate_formats(true).build(&root).unwrap()
}

fn component(name: &str) -> Validator {
    validator(&json!({"$ref": format!("#/components/schemas/{name}")}))
}

fn operations() -> Vec<(String, String, &'static Value)> {
    let paths = the_document()["paths"].as_object().unwrap();
    let of_path = |(path, item): (&String, &'static Value)| {
        let path = path.clone();
        item.as_object()
            .unwrap()
            .iter()
            .map(move |(method, operation)| (method.to_uppercase(), path.clone(), operation))
    };
    paths.iter().flat_map(of_path).collect()
}

/// Checks an answer against what the document says about its operation. An answer of no operation is not looked at.
#[track_caller]
pub fn check(method: &Method, path: &str, answer: &Answer) {
    let Some((_, template, operation)) = operations()
        .into_iter()
        .filter(|(of, template, _)| of == method.as_str() && fits(template, path))
        // Where two paths fit, the router takes the one that is literal for longer.
        .max_by_key(|(_, template, _)| template.find('{').unwrap_or(usize::MAX))
    else {
        return;
    };
    let status = answer.status.as_str();
    let response = &operation["responses"][status];
    let at = format!("{method} {template} {status}");
    assert!(response.is_object(), "{at} is not in the document: {answer:?}");
    for (name, header) in response["headers"].as_object().into_iter().flatten() {
        let header = resolved(header);
        assert!(header["required"] != true || answer.headers.contains_key(name), "{at} lacks {name}: {answer:?}");
    }
    let kind = answer.headers.get("content-type").and_then(|kind| kind.to_str().ok()?.split(';').next());
    if let Some(kind) = kind.filter(|kind| ["text/html", "text/csv", "application/x-ndjson"].contains(kind)) {
        assert!(response["content"][kind].is_object(), "{at} is not {kind} in the document: {answer:?}");
        return;
    }
    let Some(media) = response["content"].get("application/json") else { return };
    // Each test is a process of its own, and a validator is dear: what is answered is compiled, and nothing else.
    static VALIDATORS: Mutex<BTreeMap<String, Arc<Validator>>> = Mutex::new(BTreeMap::new());
    let mut validators = VALIDATORS.lock().unwrap_or_else(PoisonError::into_inner);
    let validator = validators.entry(at.clone()).or_insert_with(|| Arc::new(validator(&media["schema"]))).clone();
    drop(validators);
    if let Err(error) = validator.validate(&answer.body) {
        panic!("{at} breaks the document at {}: {error}: {answer:?}", error.instance_path());
    }
    let unknown = undocumented(&media["schema"], &answer.body, "");
    assert!(unknown.is_empty(), "{at} answers members that the document does not have: {unknown:?}");
}

fn fits(template: &str, path: &str) -> bool {
    let (template, path): (Vec<_>, Vec<_>) = (template.split('/').collect(), path.split('/').collect());
    template.len() == path.len()
        && template.iter().zip(path).all(|(part, text)| part.starts_with('{') && !text.is_empty() || *part == text)
}

fn resolved(value: &'static Value) -> &'static Value {
    match value["$ref"].as_str() {
        Some(reference) => the_document().pointer(reference.trim_start_matches('#')).unwrap(),
        None => value,
    }
}

/// Paths of members in `value` that no schema names.
fn undocumented(schema: &'static Value, value: &Value, path: &str) -> Vec<String> {
    let schema = resolved(schema);
    for union in ["oneOf", "allOf"] {
        if let Some(schemas) = schema[union].as_array() {
            let each = schemas.iter().map(|schema| undocumented(schema, value, path));
            return each.min_by_key(Vec::len).unwrap_or_default();
        }
    }
    match value {
        Value::Array(items) => {
            let each = items.iter().enumerate();
            each.flat_map(|(i, item)| undocumented(&schema["items"], item, &format!("{path}[{i}]"))).collect()
        }
        Value::Object(members) if schema["properties"].is_object() => {
            let each = members.iter().map(|(name, value)| {
                let path = format!("{path}.{name}");
                match schema["properties"].get(name) {
                    Some(schema) => undocumented(schema, value, &path),
                    None => vec![path],
                }
            });
            each.flatten().collect()
        }
        Value::Object(members) if schema["additionalProperties"].is_object() => {
            let schema = &schema["additionalProperties"];
            members.iter().flat_map(|(name, value)| undocumented(schema, value, &format!("{path}.{name}"))).collect()
        }
        _ => Vec::new(),
    }
}

#[test]
fn the_document_and_the_table_of_routes_list_the_same() {
    let routes: Vec<_> = ROUTES.iter().map(|route| (route.method.to_string(), route.path.to_owned())).collect();
    let described: Vec<_> = OPERATIONS.iter().map(|op| (op.method.to_string(), op.path.to_owned())).collect();
    assert_eq!(described, routes, "the tables have another order");
    let listed: BTreeSet<_> = operations().into_iter().map(|(method, path, _)| (method, path)).collect();
    assert_eq!(listed.len(), routes.len());
    assert_eq!(listed, routes.into_iter().collect());
}

/// Spec 4.2 and 4.5; generated clients name their arguments by them.
#[test]
fn path_parameters_bear_the_names_of_the_contract() {
    let mut seen = 0;
    for (path, item) in the_document()["paths"].as_object().unwrap() {
        let name = match path.split('/').find(|part| part.starts_with('{')) {
            Some("{paymentId}") => "paymentId",
            Some("{quoteRequestId}") => "quoteRequestId",
            Some("{vocabulary}" | "{webhookId}" | "{did}") | None => continue,
            Some(other) => panic!("{path}: {other}"),
        };
        for operation in item.as_object().unwrap().values() {
            let parameters = operation["parameters"].as_array().unwrap();
            let stated: Vec<_> = parameters.iter().filter(|parameter| parameter["in"] == "path").collect();
            assert_eq!((stated.len(), &stated[0]["name"]), (1, &Value::from(name)), "{path}");
            seen += 1;
        }
    }
    assert_eq!(seen, 6);
}

/// Spec 4.1; generated clients name their calls by it.
#[test]
fn the_submission_bears_the_operation_id_of_the_contract() {
    let named: Vec<_> =
        operations().into_iter().filter(|(.., operation)| operation["operationId"] == "submitPayment").collect();
    let named: Vec<_> = named.iter().map(|(method, path, _)| (method.as_str(), path.as_str())).collect();
    assert_eq!(named, [("POST", "/v1/payments")]);
}

#[test]
fn every_operation_says_what_there_is_to_know() {
    let mut ids = BTreeSet::new();
    for (method, path, operation) in operations() {
        let at = format!("{method} {path}");
        for member in ["operationId", "summary", "description"] {
            assert!(operation[member].as_str().is_some_and(|text| !text.is_empty()), "{at} has no {member}");
        }
        assert!(ids.insert(operation["operationId"].as_str().unwrap()), "{at}");
        let parameters: Vec<&Value> = operation["parameters"].as_array().unwrap().iter().map(resolved).collect();
        for part in path.split('/').filter_map(|part| part.strip_prefix('{')) {
            let name = part.trim_end_matches('}');
            let parameter = parameters.iter().find(|parameter| parameter["name"] == name && parameter["in"] == "path");
            let parameter = parameter.unwrap_or_else(|| panic!("{at} does not describe {name}"));
            assert!(parameter["schema"]["pattern"].is_string(), "{at}: {name} has no pattern");
        }
        assert_eq!(method == "POST", operation["requestBody"]["required"] == true, "{at}");
        if method == "POST" {
            for status in ["400", "413", "429", "500"] {
                assert!(operation["responses"][status].is_object(), "{at} lacks {status}");
            }
        }
        for (status, response) in operation["responses"].as_object().unwrap() {
            assert!(response["headers"]["X-Request-Id"].is_object(), "{at} {status}");
            assert_eq!(
                response["headers"]["Retry-After"].is_object(),
                matches!(status.as_str(), "429" | "503"),
                "{at} {status}"
            );
        }
    }
}

#[test]
fn every_reference_leads_somewhere_and_every_schema_is_used() {
    fn collect<'a>(value: &'a Value, references: &mut BTreeSet<&'a str>) {
        match value {
            Value::Object(members) => {
                references.extend(members.get("$ref").and_then(Value::as_str));
                members.values().for_each(|value| collect(value, references));
            }
            Value::Array(items) => items.iter().for_each(|value| collect(value, references)),
            _ => {}
        }
    }
    let mut references = BTreeSet::new();
    collect(the_document(), &mut references);
    for reference in &references {
        let pointer = reference.strip_prefix('#').unwrap();
        assert!(the_document().pointer(pointer).is_some(), "{reference}");
    }
    for name in the_document()["components"]["schemas"].as_object().unwrap().keys() {
        assert!(references.contains(format!("#/components/schemas/{name}").as_str()), "{name} is not used");
        component(name);
    }
}

#[test]
fn every_example_keeps_its_schema() {
    let mut seen = 0;
    let mut media = |at: &str, media: &'static Value| {
        let schema = &media["schema"];
        if schema.is_null() {
            return;
        }
        let validator = validator(schema);
        for (name, example) in media["examples"].as_object().into_iter().flatten() {
            let value = &example["value"];
            if let Err(error) = validator.validate(value) {
                panic!("{at}: example `{name}`: {} {error}", error.instance_path());
            }
            assert_eq!(undocumented(schema, value, ""), Vec::<String>::new(), "{at}: example `{name}`");
            seen += 1;
        }
    };
    for (method, path, operation) in operations() {
        let at = format!("{method} {path}");
        for (_, content) in contents(&operation["requestBody"]) {
            assert!(content["examples"].is_object(), "{at} has no example of its body");
            media(&at, content);
        }
        for (status, response) in operation["responses"].as_object().unwrap() {
            for (_, content) in contents(response) {
                media(&format!("{at} {status}"), content);
            }
        }
        for parameter in operation["parameters"].as_array().unwrap().iter().map(resolved) {
            if let Some(example) = parameter.get("example") {
                assert!(validator(&parameter["schema"]).is_valid(example), "{at}: {example}");
            }
        }
    }
    assert!(seen > 100, "{seen}");
}

fn contents(holder: &'static Value) -> impl Iterator<Item = (&'static String, &'static Value)> {
    holder["content"].as_object().into_iter().flat_map(Map::iter)
}

#[test]
fn every_code_of_the_table_appears_where_it_is_answered() {
    let text = the_document().to_string();
    for code in Code::ALL {
        assert!(text.contains(&format!("\"{}\"", code.code)), "{} is nowhere in the document", code.code);
    }
    // A status has the codes of that status and no others.
    for operation in OPERATIONS {
        let method = operation.method.as_str().to_lowercase();
        let responses = &the_document()["paths"][operation.path][method]["responses"];
        for (status, response) in responses.as_object().unwrap() {
            for code in response["content"]["application/json"]["examples"].as_object().into_iter().flatten() {
                if let Some(code) = Code::find(code.0) {
                    assert_eq!(code.status.unwrap().as_str(), status, "{}", code.code);
                }
            }
        }
    }
}

#[test]
fn deprecated_members_are_flagged() {
    let schemas = &the_document()["components"]["schemas"];
    for (schema, member) in [
        ("PaymentRequest", "originator_auth"),
        ("QuoteRequest", "originator_auth"),
        ("SenderAuth", "verifiable_credential"),
    ] {
        assert_eq!(schemas[schema]["properties"][member]["deprecated"], true, "{schema}.{member}");
    }
}

/// Faults that a schema cannot express: what is served and trusted, clocks, checksums, normal forms, and what two
/// members say together.
const BEYOND_SCHEMA: [&str; 16] = [
    "source.account",
    "destination[0].account",
    "fulfillment_amount",
    "max_source_amount",
    "quote_deadline",
    "fulfillment_deadline",
    "sender_auth.message_scheme",
    "sender_auth.signed_messages[0].message",
    "fulfillment_verifier.account",
    "fulfillment_verifier.endpoint",
    "escrow_contract_address",
    "fulfillment_proxy",
    "fulfillment_proxies.eip155:31337",
    "fulfillment_proxies.eip155:31338",
    "settler_auth_required",
    "settler_auth_required.no-such-policy",
];

#[test]
fn the_schema_and_the_validator_agree() {
    let schema = component("PaymentRequest");
    let valid = |body: &Value| schema.validate(body).map_err(|error| format!("{}: {error}", error.instance_path()));
    assert_eq!(valid(&body()), Ok(()));
    for (pointer, value) in good_edits() {
        assert_eq!(valid(&with(pointer, value.clone())), Ok(()), "{pointer} = {value}");
    }
    let mut by_schema = 0;
    for (edit, code, field) in bad_bodies() {
        let body = match &edit {
            Set(pointer, value) => with(pointer, value.clone()),
            Remove(pointer) => without(pointer),
        };
        if valid(&body).is_err() {
            by_schema += 1;
        } else {
            let general = code == "INVALID_REQUEST" || code == "INVALID_REQUEST_ID" || code == "INVALID_SOURCE_ASSET";
            assert!(!general || BEYOND_SCHEMA.contains(&field), "the schema accepts {field} of {body}");
        }
    }
    assert!(by_schema > 90, "{by_schema}");
}
