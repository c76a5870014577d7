//! Batch terms: what a quote-request stands on besides its economics, compared when a `request_id` is repeated.
//!
//! A batch answers a repetition only if it is the batch that the repetition would open: else whoever guesses a `request_id`
//! could open it first with settlers of his own, and the caller would be served his batch in the belief that its own lists
//! and policies hold. Deadlines may differ (idempotency rule 6). Compared is what was asked for, in normal form: what the
//! configuration makes of it may have changed since, and has no say.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use events::{Account, Family, quote_request::QuoteRequestOpened, selection::SelectorKey};

use super::{order::Order, proxies};

/// The members of a body whose form was checked. `None` and empty sets are the default.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BatchTerms {
    whitelist: BTreeSet<String>,
    blacklist: BTreeSet<String>,
    required_policies: BTreeSet<String>,
    verifier: Option<(String, String)>,
    selector: Option<String>,
    escrow_contract: Option<String>,
    proxy: Option<String>,
    proxies: BTreeMap<String, String>,
}

/// A member, and whether it is the same in both.
type Compared = (&'static str, bool);

impl BatchTerms {
    /// What the body of a quote-request asks for, from a source of this family to a first destination of the other.
    pub fn of(body: &Map<String, Value>, source: Family, destination: Family) -> Self {
        let lists = body.get("settler_requirements");
        let list = |name: &str| {
            let items = lists.and_then(|lists| lists.get(name)).and_then(Value::as_array);
            items.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
        };
        let policies = body.get("settler_auth_required").and_then(Value::as_object);
        let required = policies.into_iter().flatten().filter(|(_, required)| **required == Value::Bool(true));
        let verifier = body.get("fulfillment_verifier");
        let of_verifier = |name: &str| stated(verifier.and_then(|verifier| verifier.get(name)));
        Self {
            whitelist: list("whitelist"),
            blacklist: list("blacklist"),
            required_policies: required.map(|(name, _)| name.clone()).collect(),
            verifier: of_verifier("account").zip(of_verifier("endpoint")).map(|(account, endpoint)| {
                let origin = net::origin::origin(&endpoint).unwrap_or(endpoint);
                (normal(source, &account), origin)
            }),
            selector: stated(body.get("quote_selector"))
                .map(|text| text.parse::<SelectorKey>().map_or(text, |key| key.to_string())),
            escrow_contract: stated(body.get("escrow_contract_address")).map(|text| normal(source, &text)),
            proxy: stated(body.get(proxies::ONE)).map(|text| normal(destination, &text)),
            proxies: proxies::by_chain(body),
        }
    }

    /// The members in which the two ask for something else.
    pub fn differences(&self, other: &Self) -> Vec<&'static str> {
        let members: [Compared; 8] = [
            ("settler_requirements.whitelist", self.whitelist == other.whitelist),
            ("settler_requirements.blacklist", self.blacklist == other.blacklist),
            ("settler_auth_required", self.required_policies == other.required_policies),
            ("fulfillment_verifier", self.verifier == other.verifier),
            ("quote_selector", self.selector == other.selector),
            ("escrow_contract_address", self.escrow_contract == other.escrow_contract),
            (proxies::ONE, self.proxy == other.proxy),
            (proxies::BY_CHAIN, self.proxies == other.proxies),
        ];
        members.into_iter().filter(|(_, same)| !same).map(|(member, _)| member).collect()
    }
}

/// Whether an order comes to the same in this member as the batch that was opened: a default that one names and the other
/// leaves out is not a difference.
pub fn comes_to_the_same(member: &str, order: &Order, opened: &QuoteRequestOpened) -> bool {
    match member {
        "fulfillment_verifier" => order.verifier == opened.verifier,
        "escrow_contract_address" => order.escrow_contract == opened.escrow.contract,
        proxies::ONE | proxies::BY_CHAIN => order.fulfillment_proxies == opened.fulfillment_proxies,
        _ => false,
    }
}

/// A text that is not empty.
fn stated(value: Option<&Value>) -> Option<String> {
    value.and_then(Value::as_str).filter(|text| !text.is_empty()).map(str::to_owned)
}

fn normal(family: Family, text: &str) -> String {
    Account::parse(family, text).map_or_else(|_| text.to_owned(), |account| account.to_string())
}
