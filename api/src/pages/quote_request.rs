//! The page of a quote-request: what is to be paid, which its payer does by the script.

use app::views::payment_body::date_time;
use events::time::Timestamp;
use projections::QuoteRequestView;

use super::{
    chains,
    layout::Page,
    money::amount,
    texts::{filled, text, time},
};
use crate::{docs::html::escape, state::HttpState};

/// The page.
pub(super) fn render(view: &QuoteRequestView, state: &HttpState) -> Page {
    let now: Timestamp = state.services.clock.now();
    let terms = &view.terms;
    let units = terms.fulfillment_amount.to_string();
    let recipients: Vec<String> = terms
        .destination()
        .iter()
        .map(|owned| {
            let asset = owned.asset().to_string();
            let chain = chains::name(owned.asset().chain().as_str());
            let on = filled("field.on", &[("chain", &chain)]);
            format!("<code>{}</code> {on}<br>{}", escape(owned.account().as_str()), amount(state, &asset, &units))
        })
        .collect();
    let source = &terms.source;
    let source_chain = chains::name(source.asset().chain().as_str());
    let mut rows = vec![
        ("field.recipient", recipients.join(&format!("<br>{}<br>", text("field.or")))),
        (
            "field.payer",
            format!(
                "<code>{}</code> {}",
                escape(source.account().as_str()),
                filled("field.on", &[("chain", &source_chain)])
            ),
        ),
    ];
    if let Some(most) = terms.max_source_amount {
        let most = amount(state, &source.asset().to_string(), &most.to_string());
        rows.push(("field.cost", filled("field.cost.most", &[("amount", &most)])));
    }
    rows.push(("field.deadline", time(&date_time(view.fulfillment_deadline))));
    rows.push(("request.quotes.until", time(&date_time(view.quote_deadline))));
    if let Some(award) = &view.award {
        let link =
            format!("<a href=\"/pay/{0}\">{1}</a>", escape(award.payment_id.as_str()), text("request.awarded.link"));
        rows.push(("details.payment", link));
    }
    let rows: String = rows.iter().map(|(name, value)| format!("<dt>{}</dt><dd>{value}</dd>", text(name))).collect();
    let first = terms.destination().first().map_or_else(String::new, |owned| owned.asset().to_string());
    let status = view.status(now).as_str();
    let title = filled("request.title", &[("amount", &amount(state, &first, &units))]);
    let main = format!(
        "<header><h1>{title}</h1><p>{}</p></header><section class=\"card\"><dl>{rows}</dl></section>\
         <noscript><p>{}</p></noscript>",
        text(&format!("request.status.{status}")),
        text("noscript.pay"),
    );
    Page::new(text("app.name"), main).about("quote-request", view.quote_request_id.as_str())
}
