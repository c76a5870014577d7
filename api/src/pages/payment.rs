//! The page of a payment, as a person reads it; what `statusUrl` opens in a browser. Money and people come first, hashes and
//! ids are folded away. The script of `web/` shows the same from the API, live.

use std::collections::BTreeSet;

use axum::http::{HeaderMap, header};
use serde_json::Value;

use app::{
    error::docs_url,
    views::payment_body::{ClaimBody, date_time},
};
use events::{Failure, Family, VerifierSet, time::from_unix_seconds};
use projections::{PaymentStatus, PaymentView, Transaction};

use super::{
    chains,
    layout::Page,
    money::{amount, symbol},
    stages,
    texts::{filled, text, time},
};
use crate::{docs::html::escape, state::HttpState};

/// How often the page of a payment that is under way loads itself again where no script runs, in seconds.
const REFRESH_SECONDS: u32 = 5;

/// Whether the caller would rather have HTML than JSON (RFC 9110, 12.5.1): it names HTML, and not JSON before it.
pub(crate) fn is_wanted(headers: &HeaderMap) -> bool {
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

/// A name, which is a text's, and a value, which is HTML.
type Row = (&'static str, String);

/// The page. `entries` is the payment's timeline as the API shows it; without it, what only the history knows is left out.
pub(super) fn render(view: &PaymentView, entries: Option<&Value>, state: &HttpState) -> Page {
    let entries: &[Value] = entries.and_then(Value::as_array).map_or(&[], Vec::as_slice);
    let status = view.status.as_str();
    let title = text(&format!("status.{status}.title"));
    let main = format!(
        "<header><h1>{title}</h1><p>{meaning}</p></header>\
         {awaited}\
         <section class=\"card\">{money}<dl>{people}</dl></section>\
         <section class=\"card\"><h2>{progress}</h2>{stages}</section>\
         <details class=\"card\"><summary>{details}</summary><dl>{technical}</dl></details>",
        meaning = text(meaning(view)),
        awaited = awaited(view, state),
        money = money(view, entries, state),
        people = list(people(view, entries, state)),
        progress = text("stages.title"),
        stages = stages::list(view, entries),
        details = text("details.title"),
        technical = list(technical(view, entries)),
    );
    let page = Page::new(title, main).about("payment", view.payment_id.as_str());
    if view.status.is_final() { page } else { page.refreshed(REFRESH_SECONDS) }
}

/// The text that says what the status means for the money.
fn meaning(view: &PaymentView) -> &'static str {
    if let Some(unpaid) = unpaid(view) {
        return unpaid;
    }
    match view.status {
        PaymentStatus::Pending if stages::is_awaited(view) => "status.awaited.text",
        PaymentStatus::Pending => "status.pending.text",
        PaymentStatus::Finalizing => "status.finalizing.text",
        PaymentStatus::Completed => "status.completed.text",
        PaymentStatus::Failed if view.at_rest && view.refund.is_some() => "status.refunded.text",
        PaymentStatus::Failed if view.at_rest && is_left(view) => "status.left.text",
        PaymentStatus::Failed if view.at_rest => "status.untouched.text",
        PaymentStatus::Failed => "status.failed.text",
    }
}

/// Whether money that came to the deposit address was neither deposited nor given back.
fn is_left(view: &PaymentView) -> bool {
    let has_come = view.deposit_address.as_ref().is_some_and(|address| address.received.is_some());
    has_come && view.escrowed.is_none() && view.refund.is_none()
}

/// What became of the money that was to come to the payment's deposit address: too little, too late, or nothing.
fn unpaid(view: &PaymentView) -> Option<&'static str> {
    let address = view.deposit_address.as_ref()?;
    let failure = view.failure.as_ref().filter(|_| view.status == PaymentStatus::Failed)?;
    if failure.code != Failure::DEPOSIT_NOT_RECEIVED {
        return None;
    }
    let is_back = view.at_rest && view.refund.is_some();
    if view.at_rest && is_left(view) {
        return Some("status.left.text");
    }
    Some(match address.received {
        None if view.at_rest => "status.unpaid.none",
        None => "status.unpaid.text",
        Some(came) if came >= address.given.amount && is_back => "status.unpaid.late.back",
        Some(came) if came >= address.given.amount => "status.unpaid.late",
        Some(_) if is_back => "status.unpaid.short.back",
        Some(_) => "status.unpaid.short",
    })
}

/// Where the money of a payment is to be sent, while it is waited for. The script checks it, and shows a code to scan besides.
fn awaited(view: &PaymentView, state: &HttpState) -> String {
    let Some(address) = view.deposit_address.as_ref().filter(|_| stages::is_awaited(view)) else {
        return String::new();
    };
    let asset = view.source.asset();
    let (id, given) = (asset.to_string(), &address.given);
    let symbol = escape(symbol(state, asset).unwrap_or_else(|| asset.reference()));
    let family = asset.chain().family();
    let only = match family {
        Some(Family::Solana) => "address.only.solana",
        Some(Family::Tron) => "address.only.tron",
        _ => "address.only",
    };
    let only = filled(only, &[("symbol", &symbol), ("chain", &chains::name(asset.chain().as_str()))]);
    // A wallet says the same only once it refuses.
    let curve = match family {
        Some(Family::Solana) => format!("<p>{}</p>", text("address.curve")),
        _ => String::new(),
    };
    let rows = vec![
        ("address.amount", amount(state, &id, &given.amount.to_string())),
        ("address.to", code(given.address.as_str())),
        ("address.by.time", time(&date_time(given.pay_by))),
        ("address.token", code(asset.reference())),
        ("address.back", code(view.source.account().as_str())),
    ];
    let (title, lead) = (text("address.title"), text("address.text"));
    let rows = list(rows);
    format!(
        "<section class=\"card\"><h2>{title}</h2><p>{lead}</p><p><strong>{only}</strong></p>{curve}<dl>{rows}</dl></section>"
    )
}

fn list(rows: Vec<Row>) -> String {
    rows.into_iter().map(|(name, value)| format!("<dt>{}</dt><dd>{value}</dd>", text(name))).collect()
}

/// What the history says of an event of this type, the last time that it happened.
fn data<'a>(entries: &'a [Value], event: &str) -> Option<&'a Value> {
    entries.iter().rev().find(|entry| entry["event"] == event).map(|entry| &entry["data"])
}

/// Where the payment goes: what was awarded, or else every destination that was asked for.
fn destinations(entries: &[Value]) -> Vec<&Value> {
    let awarded = data(entries, "QuoteAwarded").map(|awarded| &awarded["destination"]).filter(|it| it.is_object());
    let asked = || data(entries, "Submitted").and_then(|order| order["destination"].as_array()).into_iter().flatten();
    awarded.map_or_else(|| asked().collect(), |awarded| vec![awarded])
}

fn words<'a>(value: &'a Value, member: &str) -> &'a str {
    value[member].as_str().unwrap_or_default()
}

/// What arrives, as the largest thing on the page.
fn money(view: &PaymentView, entries: &[Value], state: &HttpState) -> String {
    let units = data(entries, "Submitted").map(|order| words(order, "fulfillment_amount"));
    let destinations = destinations(entries);
    let shown = units.zip(destinations.first()).map(|(units, to)| amount(state, words(to, "asset_identifier"), units));
    let most = || {
        let most = amount(state, &view.source.asset().to_string(), &view.permitted.to_string());
        filled("field.cost.most", &[("amount", &most)])
    };
    format!("<p class=\"money\">{}</p>", shown.unwrap_or_else(most))
}

/// From whom, to whom, for how much, and until when.
fn people(view: &PaymentView, entries: &[Value], state: &HttpState) -> Vec<Row> {
    let mut rows = Vec::new();
    let recipients: Vec<_> = destinations(entries)
        .into_iter()
        .map(|to| owner(words(to, "account"), words(to, "asset_identifier")))
        .collect();
    if !recipients.is_empty() {
        rows.push(("field.recipient", recipients.join(&format!("<br>{}<br>", text("field.or")))));
    }
    let source = view.source.asset().to_string();
    let payer = if view.deposit_address.is_some() { "address.back" } else { "field.payer" };
    rows.push((payer, owner(view.source.account().as_str(), &source)));
    let price = data(entries, "QuoteAwarded").and_then(|awarded| awarded["source_amount"].as_str());
    rows.push(match price {
        // What failed costs nothing.
        Some(price) if view.status == PaymentStatus::Failed => ("field.price", amount(state, &source, price)),
        Some(price) => ("field.cost", amount(state, &source, price)),
        None => {
            let most = amount(state, &source, &view.permitted.to_string());
            ("field.cost", filled("field.cost.most", &[("amount", &most)]))
        }
    });
    if let Some(first) = entries.first() {
        rows.push(("field.requested", time(words(first, "at"))));
    }
    match view.fulfilled_at {
        Some(at) => rows.push(("field.delivered", time(&date_time(at)))),
        None if !view.status.is_final() => {
            let deadline = from_unix_seconds(view.windows.fulfillment_deadline).map(date_time);
            rows.extend(deadline.map(|deadline| ("field.deadline", time(&deadline))));
        }
        None => {}
    }
    // Once it is delivered, what is waited for concerns the settler alone.
    if !view.at_rest
        && view.status != PaymentStatus::Completed
        && let Some(waiting) = stages::waiting(view, entries)
    {
        rows.push(("field.waiting", text(&format!("waiting.{waiting}")).to_owned()));
    }
    for ClaimBody { owner, amount: units, .. } in ClaimBody::all(view) {
        let (held, owner) = (amount(state, &source, &units.to_string()), code(&owner));
        rows.push(("field.held", filled("field.held.text", &[("amount", &held), ("owner", &owner)])));
    }
    if let Some(failure) = view.failure.as_ref().filter(|_| view.status == PaymentStatus::Failed) {
        let link = docs_url(&state.http.base_url, &failure.code);
        let reason =
            format!("{}<br><a href=\"{}\">{}</a>", escape(&failure.message), escape(&link), code(&failure.code));
        rows.push(("field.reason", reason));
    }
    if view.status == PaymentStatus::Failed && !view.at_rest && stages::may_come_back(view) {
        // What is at a deposit address is not in escrow.
        let is_at_address = view.deposit_address.is_some() && view.escrowed.is_none();
        let from = if is_at_address { view.windows.reserve_deadline } else { view.windows.refund_after };
        let from = from_unix_seconds(from).map(date_time);
        rows.extend(from.map(|from| ("field.refund", time(&from))));
    }
    rows
}

/// An account with the chain of its asset.
fn owner(account: &str, asset: &str) -> String {
    let chain = chains::name(asset.split_once('/').map_or(asset, |(chain, _)| chain));
    format!("{} {}", code(account), filled("field.on", &[("chain", &chain)]))
}

/// Ids, hashes, contracts.
fn technical(view: &PaymentView, entries: &[Value]) -> Vec<Row> {
    let mut rows = vec![
        ("details.payment", code(view.payment_id.as_str())),
        ("details.request", code(&view.request_id)),
        ("details.asset.source", code(&view.source.asset().to_string())),
    ];
    let delivered = destinations(entries).into_iter().map(|to| code(words(to, "asset_identifier"))).collect::<Vec<_>>();
    if !delivered.is_empty() {
        rows.push(("details.asset.destination", delivered.join("<br>")));
    }
    let transactions = [
        ("transaction.deposit", &view.deposit),
        ("transaction.reservation", &view.reservation),
        ("transaction.reassignment", &view.reassignment),
        ("transaction.fulfillment", &view.fulfillment),
        ("transaction.release", &view.release),
        ("transaction.refund", &view.refund),
    ];
    for (name, transaction) in transactions {
        rows.extend(transaction.as_ref().map(|transaction| (name, shown(transaction))));
    }
    rows.push(("details.escrow", code(&view.escrow_contract)));
    rows.push(("details.verifier", code(view.verifier.account.as_str())));
    rows.extend(view.verifier.set.as_ref().map(|set| ("details.verifiers", verifiers(set, entries))));
    if let Some(quote) = &view.quote {
        rows.push(("details.quote", format!("{}<br>{}", code(&quote.quote_id), code(&quote.quote_hash.to_string()))));
    }
    rows.extend(ClaimBody::all(view).into_iter().map(|ClaimBody { escrow_contract, call, .. }| {
        ("details.call", format!("{} of {}", code(&call), code(&escrow_contract)))
    }));
    rows.push(("details.updated", time(&date_time(view.updated_at))));
    if !entries.is_empty() {
        let events = entries
            .iter()
            .map(|entry| format!("<li>{} {}</li>", time(words(entry, "at")), escape(words(entry, "summary"))));
        rows.push(("details.events", format!("<ul>{}</ul>", events.collect::<String>())));
    }
    rows
}

/// How many of a set have to attest and how many have, and who is in it.
fn verifiers(set: &VerifierSet, entries: &[Value]) -> String {
    let is_attestation = |entry: &&Value| ["DeliveryAttested", "NonDeliveryAttested"].contains(&words(entry, "event"));
    // What was attested of a settler says nothing of the one that took its place.
    let since = entries.iter().rposition(|entry| words(entry, "event") == "EscrowReassigned");
    let entries = &entries[since.unwrap_or_default()..];
    let attested = entries.iter().filter(is_attestation).map(|entry| words(&entry["data"], "verifier"));
    let attested = attested.collect::<BTreeSet<_>>().len();
    let [threshold, count, attested] =
        [set.threshold(), set.members().len(), attested].map(|number| number.to_string());
    let counts = [("threshold", threshold.as_str()), ("count", count.as_str()), ("attested", attested.as_str())];
    let members = set.members().iter().map(|member| format!("<br>{}", code(member.account.as_str())));
    filled("details.verifiers.text", &counts) + &members.collect::<String>()
}

fn code(text: &str) -> String {
    format!("<code>{}</code>", escape(text))
}

fn shown(transaction: &Transaction) -> String {
    let Transaction { chain_id, transaction_hash, block_number } = transaction;
    let block = block_number.map_or_else(String::new, |block| {
        format!(", {}", filled("transaction.block", &[("block", &block.to_string())]))
    });
    let linked = chains::transaction(chain_id.as_str(), transaction_hash);
    format!("{linked}<br>{}{block}", chains::name(chain_id.as_str()))
}

#[cfg(test)]
mod tests {
    use events::VerifierMember;
    use serde_json::json;

    use super::*;

    #[test]
    fn of_a_verifier_set_it_is_told_how_many_have_attested() {
        let account = |digit: u8| format!("0x{}", digit.to_string().repeat(40));
        let member = |digit| VerifierMember { account: account(digit).parse().unwrap(), endpoint: String::new() };
        let set = VerifierSet::new(2, vec![member(3), member(1), member(2)]).unwrap();
        let said = |event: &str, by| json!({"event": event, "data": {"verifier": account(by)}});
        let entries = ["DeliveryAttested", "DeliveryAttested", "FulfillmentConfirmed"].map(|event| said(event, 3));
        let listed: String = (1..=3).map(|digit| format!("<br>{}", code(&account(digit)))).collect();
        assert_eq!(verifiers(&set, &entries), format!("2 of 3 have to attest, 1 have{listed}"));
        let denied = [1, 2].map(|by| said("NonDeliveryAttested", by));
        assert_eq!(verifiers(&set, &denied), format!("2 of 3 have to attest, 2 have{listed}"));
        let another = [said("NonDeliveryAttested", 1), said("EscrowReassigned", 0), said("DeliveryAttested", 2)];
        assert_eq!(verifiers(&set, &another), format!("2 of 3 have to attest, 1 have{listed}"));
    }

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
