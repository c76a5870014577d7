//! Origins: where a service is reached, without any path.

use url::Url;

/// The normalised form of `text` when it is an origin, `http(s)://host[:port]` with nothing behind it (spec 2.1: the
/// caller appends the verifier's own paths).
pub fn origin(text: &str) -> Option<String> {
    let url = Url::parse(text).ok().filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host())?;
    let bare =
        url.username().is_empty() && url.password().is_none() && url.query().is_none() && url.fragment().is_none();
    // Parsing supplies the path `/` where there is none, so the text itself has to be asked.
    let authority = text.split_once("://")?.1;
    (bare
        && !text.contains(|c: char| c.is_whitespace() || c.is_control())
        && !authority.contains(['/', '\\', '?', '#', '@']))
    .then(|| url.origin().ascii_serialization())
}
