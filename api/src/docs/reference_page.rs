//! The OpenAPI document as a page.

use serde_json::{Map, Value};

use super::html::{escape, inline, page, prose};

/// Methods in the order in which operations of one path are shown.
const METHODS: [&str; 5] = ["get", "post", "put", "patch", "delete"];

/// The page for `document`.
pub(super) fn render(document: &Value, base_url: &str) -> String {
    let info = &document["info"];
    let mut nav = String::from("<a class=\"home\" href=\"#top\">API reference</a>");
    let mut main = format!(
        "<header id=\"top\"><h1>{}</h1><p class=\"lead\">{}</p>{}<p>Base address <code>{}</code> · \
         <a href=\"/openapi.json\">OpenAPI 3.1 document</a> · <a href=\"/asyncapi.json\">the settlers' protocol</a> · \
         <a href=\"/docs/errors\">all errors</a> · \
         <a href=\"/docs/quote-hash\">the hash of a quote</a></p></header>",
        escape(text(info, "title")),
        inline(text(info, "summary")),
        prose(text(info, "description")),
        escape(base_url),
    );
    for tag in items(&document["tags"]) {
        let name = text(tag, "name");
        nav.push_str(&format!("<h3>{}</h3><ul>", escape(name)));
        main.push_str(&format!("<h2>{}</h2>{}", escape(name), prose(text(tag, "description"))));
        for (method, path, operation) in operations(document) {
            if operation["tags"][0] != *name {
                continue;
            }
            let id = escape(text(operation, "operationId"));
            let summary = inline(text(operation, "summary"));
            nav.push_str(&format!(
                "<li><a href=\"#{id}\"><span class=\"method {method}\">{method}</span>{summary}</a></li>"
            ));
            main.push_str(&section(document, base_url, method, path, operation));
        }
        nav.push_str("</ul>");
    }
    nav.push_str("<h3>schemas</h3><ul>");
    main.push_str("<h2>Schemas</h2>");
    for (name, schema) in members(&document["components"]["schemas"]) {
        let name = escape(name);
        nav.push_str(&format!("<li><a href=\"#schema-{name}\">{name}</a></li>"));
        main.push_str(&format!(
            "<section class=\"card\" id=\"schema-{name}\"><h3>{name}{}</h3>{}{}</section>",
            deprecated(schema),
            prose(text(schema, "description")),
            body(schema),
        ));
    }
    nav.push_str("</ul>");
    page(text(info, "title"), &nav, &main)
}

fn operations(document: &Value) -> impl Iterator<Item = (&'static str, &str, &Value)> {
    members(&document["paths"]).flat_map(|(path, item)| {
        METHODS
            .into_iter()
            .filter_map(move |method| item.get(method).map(|operation| (method, path.as_str(), operation)))
    })
}

fn section(document: &Value, base_url: &str, method: &str, path: &str, operation: &Value) -> String {
    let id = escape(text(operation, "operationId"));
    let mut section = format!(
        "<section class=\"card\" id=\"{id}\"><h3><a href=\"#{id}\">{}</a></h3><p class=\"route\"><span class=\"method \
         {method}\">{method}</span><code>{}</code></p>{}",
        inline(text(operation, "summary")),
        escape(path),
        prose(text(operation, "description")),
    );
    let parameters: Vec<&Value> =
        items(&operation["parameters"]).map(|parameter| resolved(document, parameter)).collect();
    section.push_str("<h4>Parameters</h4>");
    section.push_str(&parameter_table(&parameters));
    let request = &operation["requestBody"]["content"]["application/json"];
    if request.is_object() {
        section.push_str("<h4>Request body</h4>");
        section.push_str(&content(document, request));
    }
    section
        .push_str(&format!("<h4>Call</h4><pre>{}</pre>", escape(&call(base_url, method, path, request.is_object()))));
    let mut errors = String::new();
    for (status, response) in members(&operation["responses"]) {
        if status.starts_with('2') {
            section.push_str(&format!("<h4>Answer <span class=\"status ok\">{}</span></h4>", escape(status)));
            section.push_str(&header_line(response));
            section.push_str(&answer(document, response));
        } else {
            errors.push_str(&error_rows(status, response));
        }
    }
    if !errors.is_empty() {
        section.push_str(&format!(
            "<h4>Errors</h4><table><thead><tr><th>Status</th><th>Code</th><th>Meaning</th></tr></thead>\
             <tbody>{errors}</tbody></table>"
        ));
    }
    section.push_str("</section>");
    section
}

/// A call that can be pasted into a shell once its parameters are filled in.
fn call(base_url: &str, method: &str, path: &str, with_body: bool) -> String {
    if with_body {
        format!(
            "curl -s -X {} '{base_url}{path}' \\\n  -H 'content-type: application/json' -d @body.json",
            method.to_uppercase()
        )
    } else {
        format!("curl -s '{base_url}{path}'")
    }
}

fn parameter_table(parameters: &[&Value]) -> String {
    let row = |parameter: &&Value| {
        format!(
            "<tr><td><code>{}</code>{}<br><small>{}</small></td><td>{}</td><td>{}</td></tr>",
            escape(text(parameter, "name")),
            if parameter["required"] == true { required() } else { "" },
            escape(text(parameter, "in")),
            kind(&parameter["schema"]),
            inline(text(parameter, "description")),
        )
    };
    table("Name", &parameters.iter().map(row).collect::<String>())
}

fn answer(document: &Value, response: &Value) -> String {
    let described = |(media_type, media): (&String, &Value)| match media_type.as_str() {
        "application/json" => content(document, media),
        other => format!("<p>{}</p>{}", inline(&format!("`{other}`")), content(document, media)),
    };
    let body: String = members(&response["content"]).map(described).collect();
    if body.is_empty() { prose(text(response, "description")) } else { body }
}

fn header_line(response: &Value) -> String {
    let names: Vec<String> =
        members(&response["headers"]).map(|(name, _)| format!("<code>{}</code>", escape(name))).collect();
    if names.is_empty() { String::new() } else { format!("<p>Headers: {}</p>", names.join(", ")) }
}

/// A body's schema, its members when it is a named object, and its examples.
fn content(document: &Value, media: &Value) -> String {
    let schema = &media["schema"];
    let mut content = if schema.is_null() { String::new() } else { format!("<p>{}</p>", kind(schema)) };
    if let Some(example) = media["example"].as_str() {
        content.push_str(&format!("<details><summary>Example</summary><pre>{}</pre></details>", escape(example)));
    }
    if schema.get("$ref").is_some() {
        content.push_str(&body(resolved(document, schema)));
    }
    for (name, example) in members(&media["examples"]) {
        let value = &example["value"];
        // What was parsed can be written.
        let written = value.as_str().map_or_else(|| format!("{value:#}"), str::to_owned);
        content.push_str(&format!(
            "<details><summary>Example: {}</summary><pre>{}</pre></details>",
            escape(name),
            escape(&written)
        ));
    }
    content
}

fn error_rows(status: &str, response: &Value) -> String {
    let examples = members(&response["content"]["application/json"]["examples"]);
    let class = if status.starts_with('5') { "server" } else { "client" };
    examples
        .map(|(code, example)| {
            format!(
                "<tr><td><span class=\"status {class}\">{}</span></td><td><a href=\"/docs/errors#{1}\">{1}</a></td>\
                 <td>{2}</td></tr>",
                escape(status),
                escape(code),
                inline(text(&example["value"], "message")),
            )
        })
        .collect()
}

/// The members of an object's schema.
fn body(schema: &Value) -> String {
    let Some(properties) = schema["properties"].as_object() else {
        return if schema.get("type").is_some() { format!("<p>{}</p>", kind(schema)) } else { String::new() };
    };
    let needed: Vec<&str> = items(&schema["required"]).filter_map(Value::as_str).collect();
    let row = |(name, member): (&String, &Value)| {
        format!(
            "<tr><td><code>{}</code>{}{}</td><td>{}</td><td>{}</td></tr>",
            escape(name),
            if needed.contains(&name.as_str()) { required() } else { "" },
            deprecated(member),
            kind(member),
            inline(text(member, "description")),
        )
    };
    table("Member", &properties.iter().map(row).collect::<String>())
}

fn table(first: &str, rows: &str) -> String {
    format!("<table><thead><tr><th>{first}</th><th>Type</th><th>Meaning</th></tr></thead><tbody>{rows}</tbody></table>")
}

fn required() -> &'static str {
    " <span class=\"required\">required</span>"
}

fn deprecated(schema: &Value) -> &'static str {
    if schema["deprecated"] == true { " <span class=\"deprecated\">deprecated</span>" } else { "" }
}

/// The type of a schema with its rules.
fn kind(schema: &Value) -> String {
    if let Some(reference) = schema["$ref"].as_str() {
        let name = escape(reference.rsplit('/').next().unwrap_or_default());
        return format!("<a href=\"#schema-{name}\">{name}</a>");
    }
    if let Some(any) = schema["anyOf"].as_array() {
        return any.iter().map(kind).collect::<Vec<_>>().join(" or ");
    }
    let name = match &schema["type"] {
        Value::Array(types) => types.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" or "),
        kind => kind.as_str().unwrap_or("any").to_owned(),
    };
    let mut kind = match name.as_str() {
        "array" => format!("array of {}", self::kind(&schema["items"])),
        name => escape(name),
    };
    if let Some(values) = schema["enum"].as_array() {
        let values: Vec<String> = values.iter().filter_map(Value::as_str).map(code).collect();
        kind = values.join(", ");
    }
    let rules = ["const", "format", "pattern", "minLength", "maxLength", "minItems", "maxItems", "minimum", "maximum"];
    for rule in rules {
        match &schema[rule] {
            Value::Null => {}
            Value::String(value) => kind.push_str(&format!("<br><small>{rule} {}</small>", code(value))),
            value => kind.push_str(&format!("<br><small>{rule} {}</small>", code(&value.to_string()))),
        }
    }
    kind
}

fn code(text: &str) -> String {
    format!("<code>{}</code>", escape(text))
}

/// What `value` refers to inside the document, or itself.
fn resolved<'a>(document: &'a Value, value: &'a Value) -> &'a Value {
    let target = value["$ref"].as_str().and_then(|reference| reference.strip_prefix('#'));
    target.and_then(|pointer| document.pointer(pointer)).unwrap_or(value)
}

fn text<'a>(value: &'a Value, member: &str) -> &'a str {
    value[member].as_str().unwrap_or_default()
}

fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn members(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flat_map(Map::iter)
}
