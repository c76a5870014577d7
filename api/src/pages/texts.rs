//! The texts of the pages. They stand in one file, `web/data/en.json`, that the script has, too.

use std::{collections::BTreeMap, sync::LazyLock};

use crate::docs::html::escape;

static TEXTS: LazyLock<BTreeMap<String, String>> =
    LazyLock::new(|| serde_json::from_str(include_str!("../../../web/data/en.json")).unwrap_or_default());

/// The text of this name; empty where there is none.
pub(crate) fn text(name: &str) -> &'static str {
    TEXTS.get(name).map_or("", String::as_str)
}

/// The text of this name as HTML, each `{member}` in it replaced by HTML.
pub(crate) fn filled(name: &str, members: &[(&str, &str)]) -> String {
    members.iter().fold(escape(text(name)), |text, (member, html)| text.replace(&format!("{{{member}}}"), html))
}

/// A time as the API writes it, as HTML; the script shows it by the reader's clock.
pub(crate) fn time(at: &str) -> String {
    let (date, rest) = at.split_once('T').unwrap_or((at, ""));
    let seconds = rest.split(['.', 'Z']).next().unwrap_or_default();
    format!("<time datetime=\"{}\">{} {} UTC</time>", escape(at), escape(date), escape(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_texts_can_be_read_and_what_fills_them_is_html() {
        assert!(TEXTS.len() > 100);
        assert_eq!(filled("field.on", &[("chain", "<b>A</b>")]), "on <b>A</b>");
        assert_eq!(text("no.such.text"), "");
        let at = "2027-01-01T12:00:00.5Z";
        assert_eq!(time(at), format!("<time datetime=\"{at}\">2027-01-01 12:00:00 UTC</time>"));
    }
}
