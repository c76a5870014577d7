//! The page where one begins.

use super::{layout::Page, texts::text};

/// Where the page leads, with the name of the text of the link.
const LINKS: [(&str, &str); 6] = [
    ("/docs", "reference"),
    ("/docs/errors", "errors"),
    ("/docs/quote-hash", "quoteHash"),
    ("/openapi.json", "openapi"),
    ("/asyncapi.json", "asyncapi"),
    ("/v1/defaults", "defaults"),
];

/// The page.
pub(super) fn render() -> Page {
    let links =
        LINKS.map(|(path, name)| format!("<li><a href=\"{path}\">{}</a></li>", text(&format!("start.program.{name}"))));
    let section = |name: &str, rest: &str| {
        let (title, lead) = (text(&format!("start.{name}.title")), text(&format!("start.{name}.text")));
        format!("<section class=\"card\"><h2>{title}</h2><p>{lead}</p>{rest}</section>")
    };
    let main = format!(
        "<header><h1>{title}</h1><p class=\"lead\">{lead}</p></header>{pay}{watch}\
         <section class=\"card\"><h2>{program}</h2><ul>{links}</ul></section>",
        title = text("start.title"),
        lead = text("start.lead"),
        pay = section("pay", ""),
        watch = section("watch", "<div id=\"open-payment\"></div>"),
        program = text("start.program.title"),
        links = links.concat(),
    );
    Page::new(text("start.title"), main).of_kind("start")
}
