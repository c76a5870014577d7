//! Pages and documents that the service publishes about itself, as a browser and a client get it.

use std::{collections::BTreeSet, path::Path, process::Command};

use axum::{
    body::{Body, to_bytes},
    http::Request,
};
use data_encoding::BASE64;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tower::ServiceExt;

use app::error::Code;
use devkit::holder::Holder;
use events::{identity::Carrier, quote::SignedQuote};
use proofs::contexts::BUNDLED;

use super::{Answer, FORGED, Gateway, PAYER, at, bad_bodies::credential_auth, body, set, with};
use crate::{
    docs::SCRIPT_PATH,
    openapi::{OPERATIONS, document},
    pages::SCRIPT_PATH as PAGE_SCRIPT_PATH,
    worked_quote::DOCUMENT,
};

async fn page(gateway: &Gateway, path: &str) -> String {
    let answer = gateway.get(path).await.expect(200);
    assert_eq!(answer.headers["content-type"], "text/html; charset=utf-8");
    assert_eq!(answer.headers["x-content-type-options"], "nosniff");
    let style = between(&answer.text, "<style>", "</style>");
    let hash = BASE64.encode(&Sha256::digest(style));
    let policy = answer.headers["content-security-policy"].to_str().unwrap();
    assert!(policy.starts_with("default-src 'none'; "), "{policy}");
    assert!(policy.contains(&format!("style-src 'sha256-{hash}'")), "{policy}");
    // Nothing of another host, and nothing that is not known beforehand.
    assert!(!policy.contains("http") && !policy.contains("unsafe") && !policy.contains('*'), "{policy}");
    answer.text
}

fn between<'a>(text: &'a str, from: &str, to: &str) -> &'a str {
    text.split_once(from).unwrap().1.split_once(to).unwrap().0
}

/// Values of an attribute.
fn values<'a>(page: &'a str, attribute: &str) -> Vec<&'a str> {
    let start = format!(" {attribute}=\"");
    page.split(&start).skip(1).map(|rest| rest.split_once('"').unwrap().0).collect()
}

#[tokio::test]
async fn pages_need_nothing_from_elsewhere() {
    let gateway = Gateway::new();
    let errors = page(&gateway, "/docs/errors").await;
    let reference = page(&gateway, "/docs").await;
    let quote_hash = page(&gateway, "/docs/quote-hash").await;
    for page in [&errors, &reference, &quote_hash] {
        for foreign in ["<link", "<img", "<iframe", "@import", "url(", " style=", " onload="] {
            assert!(!page.contains(foreign), "{foreign}");
        }
        let scripts: &[&str] = if page == &reference { &[SCRIPT_PATH] } else { &[] };
        assert_eq!(values(page, "src"), scripts);
        assert_eq!(page.matches("<script").count(), scripts.len());
        let anchors: BTreeSet<&str> = values(page, "id").into_iter().collect();
        assert_eq!(anchors.len(), values(page, "id").len(), "an anchor stands twice");
        for link in values(page, "href") {
            match link.split_once('#') {
                Some(("", anchor)) => assert!(anchors.contains(anchor), "{link}"),
                Some(("/docs/errors", code)) => assert!(Code::find(code).is_some(), "{link}"),
                Some(_) => panic!("{link}"),
                None => {
                    gateway.get(link).await.expect(200);
                }
            }
        }
    }
}

#[tokio::test]
async fn every_code_has_its_place_on_the_page_of_errors() {
    let gateway = Gateway::new();
    let page = page(&gateway, "/docs/errors").await;
    let anchors = values(&page, "id");
    for code in Code::ALL {
        assert_eq!(anchors.iter().filter(|anchor| **anchor == code.code).count(), 1, "{}", code.code);
    }
    // Where docs_url leads.
    let answer = gateway.get("/v1/payments/x/status").await.expect_error(404, "PAYMENT_NOT_FOUND");
    let (path, anchor) = answer.body["docs_url"].as_str().unwrap().split_once('#').unwrap();
    assert_eq!(path, "https://pay.example/docs/errors");
    assert!(anchors.contains(&anchor));
}

#[tokio::test]
async fn the_reference_is_drawn_from_a_document_with_every_operation() {
    let gateway = Gateway::new();
    let page = page(&gateway, "/docs").await;
    let loaded = values(&page, "spec-url");
    assert_eq!(loaded, ["/openapi.json"]);
    let theme = values(&page, "theme")[0].replace("&quot;", "\"");
    assert!(serde_json::from_str::<Value>(&theme).unwrap().is_object(), "{theme}");
    let shown = gateway.get(loaded[0]).await.expect(200);
    assert_eq!(shown.headers["content-type"], "application/json");
    assert_eq!(shown.body, document("https://pay.example"));
    assert_eq!(shown.body["openapi"], "3.1.1");
    assert_eq!(shown.body["servers"][0]["url"], "https://pay.example");

    let sections: BTreeSet<&str> =
        shown.body["tags"].as_array().unwrap().iter().map(|tag| tag["name"].as_str().unwrap()).collect();
    for operation in OPERATIONS {
        let (method, path) = (operation.method.as_str(), operation.path);
        let drawn = &shown.body["paths"][path][method.to_lowercase()];
        assert!(drawn["operationId"].is_string() && drawn["summary"].is_string(), "{method} {path}");
        // What is in no section is not drawn in one.
        assert!(sections.contains(drawn["tags"][0].as_str().unwrap()), "{method} {path}");
    }
    let drawn = shown.body["paths"].as_object().unwrap().values().map(|item| item.as_object().unwrap().len());
    assert_eq!(drawn.sum::<usize>(), OPERATIONS.len());
}

#[tokio::test]
async fn the_script_of_the_reference_is_fetched_once() {
    let gateway = Gateway::new();
    let send = async |known: Option<&str>| {
        let request = known.into_iter().fold(Request::get(SCRIPT_PATH), |it, tag| it.header("if-none-match", tag));
        let response = gateway.router.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
        let (parts, body) = response.into_parts();
        assert_eq!(parts.headers["cache-control"], "public, max-age=31536000, immutable");
        (parts.status, parts.headers, to_bytes(body, usize::MAX).await.unwrap())
    };
    let (status, headers, script) = send(None).await;
    assert_eq!(status, 200);
    assert_eq!(headers["content-type"], "text/javascript; charset=utf-8");
    assert_eq!(headers["content-encoding"], "gzip");
    assert_eq!(headers["x-content-type-options"], "nosniff");
    assert_eq!(script[..2], [0x1f, 0x8b]);
    let tag = headers["etag"].to_str().unwrap();
    for known in [tag.to_owned(), format!("\"other\", W/{tag}"), "*".to_owned()] {
        let (status, headers, body) = send(Some(&known)).await;
        assert_eq!((status.as_u16(), headers["etag"].to_str().unwrap(), body.len()), (304, tag, 0), "{known}");
    }
    assert_eq!(send(Some("\"redoc-0.0.0\"")).await.0, 200);
}

/// Where `scripts/tools.sh test` has fetched the npm package, what is served is what is in it.
#[test]
fn the_script_of_the_reference_is_that_of_the_package() {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    if !root.join(".tools/redoc").is_dir() {
        return;
    }
    let checked = Command::new(root.join("scripts/redoc.sh")).arg("--check").output().unwrap();
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
    let version = std::fs::read_to_string(root.join(".tools/redoc/package.json")).unwrap();
    let version: Value = serde_json::from_str(&version).unwrap();
    assert_eq!(SCRIPT_PATH, format!("/docs/redoc-{}.js", version["version"].as_str().unwrap()));
}

/// The page's example is the one that the API's examples show, and it is a quote of their story.
#[tokio::test]
async fn the_quote_of_the_examples_is_the_worked_one() {
    let document = document("https://pay.example");
    let answers = &document["paths"]["/v1/payments/quote-requests"]["post"]["responses"]["200"]["content"];
    let ready = &answers["application/json"]["examples"]["ready"]["value"];
    let shown = &ready["quotes"][0];
    let signed = SignedQuote::parse(&shown["fulfillment_quote"].to_string()).unwrap();
    assert_eq!(shown["quote_id"], signed.id());
    assert_eq!(ready["quote_request_id"], signed.quote().auction_id);
    assert_eq!(ready["fulfillment_amount"], signed.quote().fulfillment_amount.to_string());
    let page = page(&Gateway::new(), "/docs/quote-hash").await;
    assert!(page.contains(&signed.hash().to_string()), "{page}");
    assert!(page.contains(shown["fulfillment_quote"]["proof"]["proofValue"].as_str().unwrap()), "{page}");
}

#[tokio::test]
async fn contexts_are_served_as_they_are_bundled() {
    let gateway = Gateway::new();
    for context in BUNDLED {
        let path = format!("/contexts/{}", context.path);
        let request = Request::get(&path).header("origin", "https://shop.example");
        let answer = gateway.send(request.body(Body::empty()).unwrap()).await.expect(200);
        assert_eq!(answer.text, context.text, "{path}");
        assert_eq!(answer.headers["content-type"], "application/ld+json");
        assert_eq!(answer.headers["cache-control"], "public, max-age=31536000, immutable");
        assert_eq!(answer.headers["access-control-allow-origin"], "*");
    }
    gateway.get("/contexts/gateway/v0").await.expect_error(404, "NOT_FOUND");
    gateway.get("/contexts/gateway").await.expect_error(404, "NOT_FOUND");
}

/// What a program does that follows the page: it loads what the document names from where the index says.
#[tokio::test]
async fn the_index_leads_from_a_documents_contexts_to_their_bytes() {
    let gateway = Gateway::new();
    let index = gateway.get("/contexts").await.expect(200).body;
    let contexts = index["contexts"].as_object().unwrap();
    assert_eq!(contexts.len(), BUNDLED.len());
    for context in BUNDLED {
        let path = contexts[context.url].as_str().unwrap();
        assert_eq!(gateway.get(path).await.expect(200).text, context.text, "{}", context.url);
    }
    let document: Value = serde_json::from_str(DOCUMENT).unwrap();
    let named = document["@context"].as_array().unwrap();
    assert!(named.iter().all(|url| contexts.contains_key(url.as_str().unwrap())), "{named:?}");
    assert!(page(&gateway, "/docs/quote-hash").await.contains("<code>/contexts</code>"));
}

fn deprecation(answer: &Answer) -> Option<&str> {
    let link = answer.headers.get("link").map(|link| link.to_str().unwrap());
    let deprecation = answer.headers.get("deprecation").map(|since| since.to_str().unwrap());
    assert_eq!(link.is_some_and(|link| link.contains("rel=\"deprecation\"")), deprecation.is_some());
    deprecation
}

#[tokio::test]
async fn using_a_deprecated_member_is_said_in_a_header() {
    let gateway = Gateway::new();
    assert_eq!(deprecation(&gateway.post(&body()).await.expect(200)), None);
    let carriers =
        [("/originator_auth", Carrier::OriginatorAuth), ("/sender_auth/verifiable_credential", Carrier::SenderAuth)];
    let holder = Holder::ed25519(1).unwrap();
    let now = at("2030-01-01T00:00:00Z");
    let credential = holder.credential(holder.did().as_str(), "KycCredential", &json!({}), now).unwrap();
    for (pointer, carrier) in carriers {
        let mut used = with("/request_id", json!(format!("order{}", pointer.replace('/', "-"))));
        let auth = holder.carrier(carrier, &used, &credential).unwrap();
        set(&mut used, pointer, auth);
        // When a payment is created, when it is replayed, and when it is refused.
        for _ in 0..2 {
            let answer = gateway.post(&used).await.expect(200);
            let since = deprecation(&answer).unwrap();
            let seconds: i64 = since.strip_prefix('@').unwrap().parse().unwrap();
            assert!(seconds > 0);
        }
        set(&mut used, "/sender_auth/signed_messages/0/signature", json!(FORGED));
        let answer = gateway.post(&used).await.expect_error(401, "INVALID_SENDER_AUTH");
        assert!(deprecation(&answer).is_some());
        let answer = gateway.post(&with(pointer, json!(1))).await.expect_error(400, "INVALID_REQUEST");
        assert!(deprecation(&answer).is_some());
    }
    let answer = gateway.post(&with("/originator", credential_auth())).await.expect(200);
    assert_eq!(deprecation(&answer), None);
}

/// The documents take their time to be made, and nothing of a payment's page is in them.
#[tokio::test]
async fn a_status_page_is_answered_without_the_documents() {
    let gateway = Gateway::new();
    let payment_id = gateway.post(&body()).await.expect(200).payment_id();
    let request = Request::get(format!("/v1/payments/{payment_id}/status")).header("accept", "text/html");
    let answer = gateway.send(request.body(Body::empty()).unwrap()).await.expect(200);
    let policy = answer.headers["content-security-policy"].to_str().unwrap();
    assert!(policy.starts_with("default-src 'none'; style-src 'sha256-"), "{policy}");
    assert!(gateway.state.documents.get().is_none());
    // The control.
    gateway.get("/docs/errors").await.expect(200);
    assert!(gateway.state.documents.get().is_some());
}

/// Redoc shows a schema in the sections that it names, with an anchor of its kind and name; others have none.
#[tokio::test]
async fn the_link_of_a_deprecation_leads_to_what_the_reference_page_shows() {
    let gateway = Gateway::new();
    let answer = gateway.post(&with("/originator_auth", json!(1))).await.expect_error(400, "INVALID_REQUEST");
    let link = answer.headers["link"].to_str().unwrap();
    let link = link.strip_prefix("<https://pay.example/docs#schema/").unwrap();
    let (name, _) = link.split_once(">; rel=\"deprecation\"").unwrap();
    let document = document("https://pay.example");
    let schema = &document["components"]["schemas"][name];
    assert_eq!(schema["deprecated"], true, "{name}");
    let [section] = schema["x-tags"].as_array().unwrap().as_slice() else { panic!("{schema}") };
    let sections = document["tags"].as_array().unwrap();
    assert!(sections.iter().any(|tag| tag["name"] == *section), "{section} is not a section of {sections:?}");
}

/// The examples of the document are sent as they are; `Gateway` checks every answer against the document.
#[tokio::test]
async fn every_example_of_a_body_can_be_sent() {
    let gateway = Gateway::new();
    let document = document("https://pay.example");
    let mut sent = 0;
    for (path, item) in document["paths"].as_object().unwrap() {
        let examples = &item["post"]["requestBody"]["content"]["application/json"]["examples"];
        for (name, example) in examples.as_object().into_iter().flatten() {
            let concrete = path.replace("{quoteRequestId}", &example_id(&document, "quote_request_id"));
            let request = Request::post(&concrete).header("content-type", "application/json");
            let answer = gateway.send(request.body(example["value"].to_string().into()).unwrap()).await;
            // Nothing has collected quotes here that the award could name.
            let awards = path.ends_with("/award") || name == "an award";
            // Owners' calls need a token, and a session needs a challenge that this gateway made.
            let owners = item["post"]["security"].is_array() || path == "/v1/sessions";
            let expected = match (awards, owners) {
                (true, _) => 404..=409,
                (_, true) => 401..=401,
                // No node says here whether its chain has them.
                _ if ["/address", "/offers", "/batches", "/batches/prepare", "/mandates/prepare"]
                    .iter()
                    .any(|end| path.ends_with(end)) =>
                {
                    400..=400
                }
                _ => 200..=200,
            };
            assert!(expected.contains(&answer.status.as_u16()), "{path}: example `{name}`: {answer:?}");
            sent += 1;
        }
    }
    assert!(sent >= 9, "{sent}");
    // Everything that the examples show can now be read.
    for (path, item) in document["paths"].as_object().unwrap() {
        let needs_query = path.ends_with("/resolve");
        let is_for_owners = item["get"]["security"].is_array();
        // No settler was asked.
        let is_of_settler = path.ends_with("/{did}");
        if item["get"].is_null() || needs_query || is_for_owners || is_of_settler || path.ends_with("/events") {
            continue;
        }
        let concrete = path
            .replace("{paymentId}", &example_id(&document, "payment_id"))
            .replace("{quoteRequestId}", &example_id(&document, "quote_request_id"))
            .replace("{vocabulary}/{version}", "gateway/v1");
        gateway.get(&concrete).await.expect(200);
    }
    let order = &document["paths"]["/v1/payments"]["post"]["requestBody"]["content"]["application/json"]["examples"];
    let order = &order["plain"]["value"];
    let (request_id, account) = (order["request_id"].as_str().unwrap(), order["source"]["account"].as_str().unwrap());
    let resolved = format!("/v1/payments/resolve?request_id={request_id}&account={account}");
    let resolved = gateway.send(Request::get(resolved).body(Body::empty()).unwrap()).await.expect(200);
    assert_eq!(resolved.body["payment_id"], example_id(&document, "payment_id"));
}

/// The first value of a member in an example of an answer.
fn example_id(document: &Value, member: &str) -> String {
    let schema = if member == "payment_id" { "/v1/payments" } else { "/v1/payments/quote-requests" };
    let answers = &document["paths"][schema]["post"]["responses"]["200"]["content"]["application/json"]["examples"];
    let first = answers.as_object().unwrap().values().next().unwrap();
    first["value"][member].as_str().unwrap().to_owned()
}

/// The page of a payment, whoever asks for it how.
async fn payment_page(gateway: &Gateway, path: &str) -> String {
    let request = Request::get(path).header("accept", "text/html");
    let answer = gateway.send(request.body(Body::empty()).unwrap()).await.expect(200);
    assert_eq!(answer.headers["referrer-policy"], "no-referrer");
    assert_eq!(answer.headers["cross-origin-opener-policy"], "same-origin");
    assert_eq!(answer.headers["cache-control"], "no-cache");
    let policy = answer.headers["content-security-policy"].to_str().unwrap();
    let hash = BASE64.encode(&Sha256::digest(between(&answer.text, "<style>", "</style>")));
    let expected = format!(
        "default-src 'none'; style-src 'sha256-{hash}'; script-src 'self'; connect-src 'self'; img-src data:; base-uri \
         'none'; form-action 'none'; frame-ancestors 'none'"
    );
    assert_eq!(policy, expected);
    assert_eq!(values(&answer.text, "src"), [PAGE_SCRIPT_PATH]);
    for inline in ["<script>", " style=", " onclick=", " onload=", "javascript:"] {
        assert!(!answer.text.contains(inline), "{inline}");
    }
    answer.text
}

#[tokio::test]
async fn a_payment_is_shown_as_people_read_it() {
    let gateway = Gateway::new();
    let payment_id = gateway.post(&body()).await.expect(200).payment_id();
    for path in [format!("/pay/{payment_id}"), format!("/v1/payments/{payment_id}/status")] {
        let page = payment_page(&gateway, &path).await;
        let money = between(&page, "<p class=\"money\">", "</p>");
        let (order, people) = (body(), between(&page, "<main", "<details"));
        for shown in [
            "Payment pending",
            order["destination"][0]["account"].as_str().unwrap(),
            PAYER,
            "at most ",
            "Waiting for",
            "Has to arrive by",
            money,
        ] {
            assert!(people.to_lowercase().contains(&shown.to_lowercase()), "{shown} is not shown: {people}");
        }
        // With the decimal point and the symbol, not in the smallest unit.
        assert!(!money.contains(order["fulfillment_amount"].as_str().unwrap()), "{money}");
        assert!(!people.contains(payment_id.as_str()), "an id is a detail: {people}");
        assert!(page.contains(payment_id.as_str()));
        assert!(page.contains("<noscript><meta http-equiv=\"refresh\""), "{page}");
    }
}

#[tokio::test]
async fn the_pages_lead_somewhere() {
    let gateway = Gateway::new();
    let start = payment_page(&gateway, "/").await;
    for link in values(&start, "href").into_iter().filter(|link| link.starts_with('/')) {
        gateway.get(link).await.expect(200);
    }
    let link = payment_page(&gateway, "/pay").await;
    assert!(link.contains("data-page=\"link\"") && link.contains("<noscript>"), "{link}");
    for path in ["/pay/x", "/pay/pay_x", "/pay/qrq_x", &format!("/pay/pay_{}", "a".repeat(52))] {
        let answer = gateway.get(path).await.expect(404);
        assert_eq!(answer.headers["content-type"], "text/html; charset=utf-8", "{path}");
        assert!(answer.text.contains("There is no such page"), "{}", answer.text);
        assert!(!answer.text.contains("<script"), "{}", answer.text);
    }
}

#[tokio::test]
async fn a_quote_request_is_shown_as_what_is_to_be_paid() {
    let gateway = Gateway::new();
    let mut request = with("/request_id", json!("asked-1"));
    request.as_object_mut().unwrap().remove("sender_auth");
    let opened = gateway.post_to("/v1/payments/quote-requests", &request).await.expect(200).body;
    let id = opened["quote_request_id"].as_str().unwrap();
    let page = payment_page(&gateway, &format!("/pay/{id}")).await;
    assert!(page.contains("data-page=\"quote-request\"") && page.contains(id), "{page}");
    let recipient = request["destination"][0]["account"].as_str().unwrap().to_lowercase();
    assert!(page.to_lowercase().contains(&recipient), "{page}");
    assert!(page.contains("Settlers are being asked"), "{page}");
}

#[tokio::test]
async fn the_script_of_the_pages_is_served_once_and_for_all() {
    let gateway = Gateway::new();
    let script = async |known: Option<&str>| {
        let request = known.into_iter().fold(Request::get(PAGE_SCRIPT_PATH), |it, tag| it.header("if-none-match", tag));
        gateway.router.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap()
    };
    let answer = script(None).await;
    assert_eq!(answer.status(), 200);
    assert_eq!(answer.headers()["content-encoding"], "gzip");
    assert_eq!(answer.headers()["cache-control"], "public, max-age=31536000, immutable");
    let tag = answer.headers()["etag"].to_str().unwrap().to_owned();
    assert!(PAGE_SCRIPT_PATH.contains(tag.trim_matches('"')), "{tag}");
    let bytes = to_bytes(answer.into_body(), usize::MAX).await.unwrap();
    assert!(bytes.starts_with(&[0x1f, 0x8b]) && bytes.len() > 10_000, "{}", bytes.len());
    assert_eq!(script(Some(&tag)).await.status(), 304);
    assert_eq!(script(Some("\"another\"")).await.status(), 200);
}
