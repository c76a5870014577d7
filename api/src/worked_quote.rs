//! The worked example of a quote: the API's examples show it, and `/docs/quote-hash` recomputes its hash. It and its N-Quads
//! were made with npm `jsonld`, not with the gateway.

/// A quote as a settler signed it.
pub(crate) const DOCUMENT: &str = include_str!("docs/quote.json");
/// Its canonical N-Quads.
pub(crate) const NQUADS: &str = include_str!("docs/quote.nq");
