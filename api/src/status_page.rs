//! Status page: a payment as a person reads it; what `statusUrl` opens in a browser.

use axum::http::{HeaderMap, header};

use app::{
    error::docs_url,
    views::payment_body::{ClaimBody, date_time},
};
use projections::{PaymentStatus, PaymentView, Transaction};

use super::docs::html::{escape, page};

/// How often the page of a payment that is under way loads itself again, in seconds.
const REFRESH_SECONDS: u32 = 5;

/// Whether the caller would rather have HTML than JSON (RFC 9110, 12.5.1): it names HTML, and not JSON before it.
pub(super) fn is_wanted(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let ranges: Vec<(&str, f32)> = accepted.flat_map(|value| value.split(',')).filter_map(range).collect();
    let quality = |names: &[&str]| {
        let named = names.iter().find_map(|name| ranges.iter().find(|(range, _)| range.eq_ignore_ascii_case(name)));
        named.map_or(0.0, |(_, quality)| *quality)
    };
    let html = quality(&["text/html"]);
    html > 0.0 && html > quality(&["application/json", "application/*", "*/*"])
}

/// A media range with its weight.
fn range(text: &str) -> Option<(&str, f32)> {
    let mut parts = text.split(';').map(str::trim);
    let name = parts.next().filter(|name| !name.is_empty())?;
    let weight = parts.find_map(|part| part.strip_prefix("q=").or(part.strip_prefix("Q=")));
    let quality = weight.map_or(Some(1.0), |weight| weight.parse().ok().filter(|q| (0.0..=1.0).contains(q)))?;
    Some((name, quality))
}

/// The page.
pub(super) fn render(view: &PaymentView, base_url: &str) -> String {
    let (word, meaning) = match view.status {
        PaymentStatus::Pending => ("pending", "Accepted and in progress. Nothing has reached the recipient yet."),
        PaymentStatus::Finalizing => {
            ("finalizing", "The recipient's money is on chain and gathers confirmations. It is not final yet.")
        }
        PaymentStatus::Completed => ("completed", "The recipient has the money."),
        PaymentStatus::Failed => ("failed", "The payment did not complete. What was in escrow goes back to the payer."),
    };
    let mut rows = vec![("Payment", code(view.payment_id.as_str())), ("Request", code(&view.request_id))];
    rows.push((
        "Paid by",
        format!("{}<br>{}", code(view.source.account().as_str()), code(&view.source.asset().to_string())),
    ));
    rows.push(("Updated", escape(&date_time(view.updated_at))));
    let transactions = [
        ("Deposit", &view.deposit),
        ("Reservation", &view.reservation),
        ("Delivery", &view.fulfillment),
        ("Refund", &view.refund),
    ];
    for (name, transaction) in transactions {
        rows.extend(transaction.as_ref().map(|transaction| (name, shown(transaction))));
    }
    if let Some(at) = view.fulfilled_at {
        rows.push(("Delivered", escape(&date_time(at))));
    }
    for ClaimBody { owner, amount, escrow_contract, call, .. } in ClaimBody::all(view) {
        let of = format!("{amount} of {}, owed to {}", code(&view.source.asset().to_string()), code(&owner));
        rows.push(("Waits in escrow", format!("{of}<br>{} of {}", code(&call), code(&escrow_contract))));
    }
    if let Some(failure) = view.failure.as_ref().filter(|_| view.status == PaymentStatus::Failed) {
        let link = docs_url(base_url, &failure.code);
        rows.push((
            "Reason",
            format!("<a href=\"{}\">{}</a><br>{}", escape(&link), code(&failure.code), escape(&failure.message)),
        ));
    }
    let rows: String = rows.into_iter().map(|(name, value)| format!("<dt>{name}</dt><dd>{value}</dd>")).collect();
    let main = format!(
        "<header><h1>Payment {word}</h1><p>{meaning}</p></header><section class=\"card\"><dl>{rows}</dl></section>"
    );
    let nav = format!("<a class=\"home\" href=\"{}/docs\">Payment gateway</a>", escape(base_url));
    let page = page(&format!("Payment {word}"), &nav, &main);
    if view.status.is_final() {
        return page;
    }
    // No script is needed, and none would run.
    page.replacen("<title>", &format!("<meta http-equiv=\"refresh\" content=\"{REFRESH_SECONDS}\">\n<title>"), 1)
}

fn code(text: &str) -> String {
    format!("<code>{}</code>", escape(text))
}

fn shown(transaction: &Transaction) -> String {
    let block = transaction.block_number.map_or_else(String::new, |block| format!(", block {block}"));
    format!("{}<br>{}{block}", code(&transaction.transaction_hash), escape(transaction.chain_id.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_for_those_who_ask_for_one() {
        for (accept, wanted) in [
            ("text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8", true),
            ("text/html", true),
            ("TEXT/HTML; charset=utf-8", true),
            ("*/*", false),
            ("", false),
            ("application/json", false),
            ("application/json, text/html", false),
            ("application/json;q=0.5, text/html", true),
            ("text/html;q=0", false),
            ("text/html;q=2", false),
            ("text/html;q=0.5, */*", false),
            ("text/*", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT, accept.parse().unwrap());
            assert_eq!(is_wanted(&headers), wanted, "{accept}");
        }
        assert!(!is_wanted(&HeaderMap::new()));
    }
}
