//! Writing HTML: escaping, and the little markup that descriptions use.

/// The style of every page but the reference.
pub(super) const STYLE: &str = include_str!("style.css");

/// `text` as it may stand in an element or a quoted attribute.
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            c => escaped.push(c),
        }
    }
    escaped
}

/// One line of prose: what stands in backticks becomes code.
pub(super) fn inline(text: &str) -> String {
    let mut written = String::new();
    for (i, part) in text.split('`').enumerate() {
        let part = escape(part);
        if i % 2 == 1 {
            written.push_str(&format!("<code>{part}</code>"));
        } else {
            written.push_str(&part);
        }
    }
    written
}

/// A whole page.
pub(crate) fn page(title: &str, nav: &str, main: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" \
         content=\"width=device-width, initial-scale=1\">\n<title>{}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n\
         <nav aria-label=\"Contents\">{nav}</nav>\n<main>{main}</main>\n</body>\n</html>\n",
        escape(title)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_is_written_becomes_markup() {
        assert_eq!(escape(r#"<a href="x">&'"#), "&lt;a href=&quot;x&quot;&gt;&amp;&#39;");
        assert_eq!(inline("a `b<c` d"), "a <code>b&lt;c</code> d");
    }
}
