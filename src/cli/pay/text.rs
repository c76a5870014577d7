//! Text for a terminal: amounts with their symbols, and words from outside without what a terminal would obey.

use anyhow::Error;
use url::Url;

use events::Amount;
use gateway_client::answers::ServedAsset;

/// Most characters of somebody else's words that are shown.
const CHARS_MAX: usize = 300;
/// Most characters of an error that are shown: it may quote somebody else.
const ERROR_CHARS_MAX: usize = 2_000;
/// Decimal places that an asset may say it has and is still shown in whole units.
const DECIMALS_MAX: u8 = 36;

/// Somebody else's words: control characters, by which a text could rewrite a terminal, are shown as a mark.
pub fn plain(text: &str) -> String {
    bounded(text, CHARS_MAX)
}

/// An error with its causes, which may be the words of a gateway or a node.
pub fn plain_error(error: &Error) -> Error {
    Error::msg(bounded(&format!("{error:#}"), ERROR_CHARS_MAX))
}

fn bounded(text: &str, chars_max: usize) -> String {
    let shown = |c: char| if c.is_control() || is_direction(c) { '\u{fffd}' } else { c };
    let mut text: String = text.chars().take(chars_max + 1).map(shown).collect();
    if text.chars().count() > chars_max {
        text = text.chars().take(chars_max).chain(['…']).collect();
    }
    text
}

/// A JSON text for a terminal: what JSON lets stand and a terminal would obey is escaped, so it reads back the same.
pub fn plain_json(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for c in json.chars() {
        match c {
            // Outside of strings they are JSON's own space; inside of them it escapes them.
            '\n' => text.push(c),
            c if c.is_control() || is_direction(c) => text.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => text.push(c),
        }
    }
    text
}

/// Scheme and host of a node's address; the rest may hold a provider's key.
pub fn node_host(url: &str) -> String {
    let parsed: Option<Url> = url.parse().ok();
    let named = parsed.as_ref().and_then(|url| Some(format!("{}://{}", url.scheme(), url.host_str()?)));
    named.unwrap_or_else(|| "the node".to_owned())
}

/// Marks that turn the direction of what follows, by which an account could be shown as another.
fn is_direction(c: char) -> bool {
    matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// An amount in the asset's whole units, as the gateway says what these are: `25.5 USDC`. `None` where it does not say, or what
/// cannot be.
pub fn whole(amount: Amount, asset: Option<&ServedAsset>) -> Option<String> {
    let asset = asset.filter(|asset| asset.decimals <= DECIMALS_MAX)?;
    let (digits, places) = (amount.to_string(), usize::from(asset.decimals));
    let digits = format!("{digits:0>width$}", width = places + 1);
    let (units, rest) = digits.split_at(digits.len() - places);
    let rest = rest.trim_end_matches('0');
    let number = if rest.is_empty() { units.to_owned() } else { format!("{units}.{rest}") };
    Some(format!("{number} {}", plain(&asset.symbol)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_from_outside_do_not_rewrite_the_terminal() {
        assert_eq!(plain("a\u{1b}[2Kb\nc\u{202e}d"), "a\u{fffd}[2Kb\u{fffd}c\u{fffd}d");
        assert_eq!(plain(&"x".repeat(301)), format!("{}…", "x".repeat(300)));
        assert_eq!(plain("Grüße"), "Grüße");
        let error = Error::msg("\u{1b}]0;x").context("a\rb");
        assert_eq!(plain_error(&error).to_string(), "a\u{fffd}b: \u{fffd}]0;x");
        let told = serde_json::json!({"a": "\u{9b}2J\u{1b}\u{202e}\n"});
        let text = plain_json(&serde_json::to_string_pretty(&told).unwrap());
        assert!(text.chars().all(|c| c == '\n' || !(c.is_control() || is_direction(c))), "{text:?}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), told);
    }

    #[test]
    fn a_nodes_key_is_not_shown() {
        assert_eq!(node_host("https://user:secret@node.example:8545/v2/secret?key=secret"), "https://node.example");
        assert_eq!(node_host("secret"), "the node");
    }

    #[test]
    fn amounts_are_exact() {
        let asset = |decimals| ServedAsset {
            asset_identifier: "eip155:1/slip44:60".parse().unwrap(),
            symbol: "X".to_owned(),
            decimals,
            wraps: None,
        };
        for (amount, decimals, text) in [
            ("25500000", 6, "25.5 X"),
            ("1", 18, "0.000000000000000001 X"),
            ("1000000", 6, "1 X"),
            ("7", 0, "7 X"),
            (
                "115792089237316195423570985008687907853269984665640564039457584007913129639935",
                18,
                "115792089237316195423570985008687907853269984665640564039457.584007913129639935 X",
            ),
        ] {
            assert_eq!(whole(amount.parse().unwrap(), Some(&asset(decimals))).as_deref(), Some(text));
        }
        assert_eq!(whole("1".parse().unwrap(), Some(&asset(37))), None);
        assert_eq!(whole("1".parse().unwrap(), None), None);
    }
}
