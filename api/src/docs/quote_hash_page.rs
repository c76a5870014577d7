//! The page `/docs/quote-hash`: how anyone recomputes the hash, with a worked example.

use sha2::{Digest, Sha256};

use events::quote::{CONTEXTS_MAX, DOCUMENT_BYTES_MAX};
use proofs::{contexts::QUOTE, suites::Suite};

use super::html::{escape, inline, page};
use crate::worked_quote;

const LEAD: &str = "A payment's `quote_hash` is committed on chain, in the events of the escrow and of the delivery. The \
    signed quote behind it is returned as `fulfillment_quote`. Whoever holds both can check, without asking anyone, that \
    they belong together and that the settler signed.";

/// Title and text of each step.
const STEPS: [(&str, &str); 5] = [
    (
        "Take the document without its proof",
        "Parse `fulfillment_quote` as JSON and remove its member `proof`, with everything in it. Nothing else is removed, \
         `@context` least of all.",
    ),
    (
        "Make RDF of it",
        "Expand it by JSON-LD 1.1 and convert it to an RDF dataset. Load the contexts from a gateway: \
         `/contexts` says for the URL of each at which path it is. Or load them from a copy: their bytes are fixed, and the \
         URL in the document only names them. Give the processor no base \
         address, and let it fail on what it cannot map (`safe: true`) instead of leaving it out.",
    ),
    (
        "Canonicalize",
        "Canonicalize the dataset with URDNA2015, which W3C standardized as RDFC-1.0, and write it as N-Quads: one statement \
         a line, sorted, each ended by a line feed, in UTF-8.",
    ),
    (
        "Hash",
        "SHA-256 of these bytes is `quote_hash`; with `0x` before its 64 digits it is the `quoteHash` in `Reserved` and \
         `Fulfilled`, and in `Deposited`, unless the payer's own transaction deposited before there was a quote (Tron, one \
         call): there it is zero. `quote_id` is `quo_` and the same 32 bytes in base32 (RFC 4648), lower case, without \
         padding.",
    ),
    (
        "Verify the signature",
        "`proof` is a W3C Data Integrity proof. Its `verificationMethod` has to belong to the DID in `settler`, and its \
         `proofPurpose` to be `assertionMethod`. With `eddsa-rdfc-2022` the settler's Ed25519 key signed 64 bytes: SHA-256 \
         of the canonical N-Quads of `proof` without `proofValue` under the document's `@context`, then the hash of step 4.",
    ),
];

/// The page.
pub(super) fn render() -> String {
    let mut nav = String::from("<a class=\"home\" href=\"/docs\">API reference</a><h2>Quote hash</h2><ul>");
    let mut main = format!("<header><h1>The hash of a quote</h1><p class=\"lead\">{}</p></header>", inline(LEAD));
    for (i, (title, text)) in STEPS.iter().enumerate() {
        let (number, title) = (i + 1, escape(title));
        nav.push_str(&format!("<li><a href=\"#step-{number}\">{number}. {title}</a></li>"));
        main.push_str(&format!(
            "<section class=\"card\" id=\"step-{number}\"><h3>{number}. {title}</h3><p>{}</p></section>",
            inline(text)
        ));
    }
    nav.push_str(
        "<li><a href=\"#example\">Worked example</a></li><li><a href=\"#rules\">What a quote keeps to</a></li></ul>",
    );
    main.push_str(&example());
    main.push_str(&rules());
    page("The hash of a quote", &nav, &main)
}

fn example() -> String {
    let hash = hex::encode(Sha256::digest(worked_quote::NQUADS));
    format!(
        "<section class=\"card\" id=\"example\"><h3>Worked example</h3><p>{}</p><pre><code>{}</code></pre>\
         <p>{}</p><pre><code>{}</code></pre><p>{}</p><pre><code>0x{hash}</code></pre><p>{}</p></section>",
        inline("The signed document:"),
        escape(worked_quote::DOCUMENT),
        inline("The canonical N-Quads of the document without `proof`, the last line ended like the others:"),
        escape(worked_quote::NQUADS),
        inline("Their SHA-256:"),
        inline(
            "`gw quote hash FILE` prints this hash, `gw quote hash --nquads FILE` the N-Quads, and `gw quote verify FILE` \
             checks the signature as well. npm `jsonld` (`canonize`) and PyPI `pyld` (`normalize`) make the same N-Quads."
        ),
    )
}

fn rules() -> String {
    let suites: Vec<&str> = Suite::ALL.iter().map(|suite| suite.name()).collect();
    let rules = [
        format!("`@context` is `{}` first, then at most {} of the other bundled contexts.", QUOTE[0], CONTEXTS_MAX - 1),
        "Every value is a string, `destination` an object of strings. Two spellings of one time or amount are two quotes."
            .to_owned(),
        "There are no members but those of the example and an `id` that is an absolute IRI. What the contexts do not map \
         would vanish from the hash, so it is refused."
            .to_owned(),
        format!(
            "At most {DOCUMENT_BYTES_MAX} bytes; no key twice in an object; no control characters but line feed and \
             carriage return, no U+007F, U+FFFE, U+FFFF, no lone surrogates: there tools differ."
        ),
        "One proof, without `expires`, by a `did:key` or `did:pkh`. How long a quote binds is `validUntil`.".to_owned(),
        format!("Proofs are verified by these suites: `{}`.", suites.join("`, `")),
    ];
    let items: String = rules.iter().map(|rule| format!("<li>{}</li>", inline(rule))).collect();
    format!("<section class=\"card\" id=\"rules\"><h3>What a quote keeps to</h3><ul>{items}</ul></section>")
}

#[cfg(test)]
mod tests {
    use events::quote::{self, SignedQuote};

    use super::*;

    #[test]
    fn the_worked_example_is_what_the_gateway_makes_of_it() {
        assert_eq!(quote::canonical(worked_quote::DOCUMENT).unwrap().as_str(), worked_quote::NQUADS);
        let signed = SignedQuote::parse(worked_quote::DOCUMENT).unwrap();
        assert!(render().contains(&format!("<code>{}</code>", signed.hash())));
        let stated: serde_json::Value = serde_json::from_str(worked_quote::DOCUMENT).unwrap();
        assert_eq!(stated["@context"], serde_json::json!(QUOTE));
    }
}
