//! Echoes: what an award repeats of its quote-request (spec 2.13: the response echoes the corridor so that the award can be
//! built without the original body). All of it may be left out; what is there has to be the batch's.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use events::{Account, Amount, ChainId, Did, OwnedAsset, quote_request::QuoteRequestOpened, selection::SelectorKey};

use super::{
    corridors::is_at,
    fields::{self, Faults, Object, date_time},
    proxies,
};
use crate::error::{Code, Error};

/// A member of an award, with its path, and whether it is the batch's; `None` after a fault was noted.
type Compared = (String, Option<bool>);

/// Compares what the body of an award echoes with the batch.
///
/// # Errors
/// 400 for a member of the wrong form, 409 `AWARD_TERMS_MISMATCH` for one that differs; both name it.
pub(crate) fn check(body: &Map<String, Value>, opened: &QuoteRequestOpened) -> Result<(), Error> {
    let (body, mut faults) = (Object::root(body), Faults::default());
    let mut compared = corridor(&body, opened, &mut faults);
    compared.extend(lists(&body, opened, &mut faults));
    compared.extend(contracts(&body, opened, &mut faults));
    faults.or(Some(()))?;
    match compared.into_iter().find(|(_, same)| *same == Some(false)) {
        Some((path, _)) => {
            let message = format!("{path}: differs from the quote-request whose quote is awarded");
            Err(Error::new(Code::AWARD_TERMS_MISMATCH, message))
        }
        None => Ok(()),
    }
}

/// Economics and deadlines.
fn corridor(body: &Object<'_>, opened: &QuoteRequestOpened, faults: &mut Faults) -> Vec<Compared> {
    let (terms, mut compared) = (&opened.terms, Vec::new());
    let mut note = |path: &str, same: Option<bool>| compared.push((path.to_owned(), same));
    if let Some(id) = body.optional::<&str>("quote_request_id", faults) {
        note("quote_request_id", Some(id == opened.quote_request_id.as_str()));
    }
    if let Some(source) = body.optional_object("source", faults)
        && let Some(stated) = owned(&source, faults)
    {
        note("source.asset_identifier", Some(stated.asset() == terms.source.asset()));
        note("source.account", Some(stated.account() == terms.source.account()));
    }
    if let Some(items) = body.optional::<&Vec<Value>>("destination", faults) {
        let read = |(i, item): (usize, &Value)| {
            owned(&fields::item_object(&format!("destination[{i}]"), item, faults)?, faults)
        };
        let stated: Option<BTreeSet<_>> = items.iter().enumerate().map(read).collect();
        let own: BTreeSet<_> = terms.destination().iter().cloned().collect();
        note("destination", stated.map(|stated| stated == own));
    }
    let amounts =
        [("fulfillment_amount", Some(terms.fulfillment_amount)), ("max_source_amount", terms.max_source_amount)];
    for (name, own) in amounts {
        let Some(text) = body.optional::<&str>(name, faults) else { continue };
        let stated = text.parse::<Amount>().map_err(|rule| faults.invalid(name, rule)).ok();
        note(name, stated.map(|stated| Some(stated) == own));
    }
    let deadlines = [("quote_deadline", opened.quote_deadline), ("fulfillment_deadline", opened.fulfillment_deadline)];
    for (name, own) in deadlines {
        let Some(text) = body.optional::<&str>(name, faults) else { continue };
        let stated = date_time(text).map_err(|rule| faults.invalid(name, rule)).ok();
        note(name, stated.map(|stated| stated == own));
    }
    compared
}

/// Settlers and their policies.
fn lists(body: &Object<'_>, opened: &QuoteRequestOpened, faults: &mut Faults) -> Vec<Compared> {
    let mut compared = Vec::new();
    if let Some(lists) = body.optional_object("settler_requirements", faults) {
        for (name, own) in [("whitelist", &opened.whitelist), ("blacklist", &opened.blacklist)] {
            let Some(items) = lists.optional::<&Vec<Value>>(name, faults) else { continue };
            let path = lists.path(name);
            let read = |(i, item): (usize, &Value)| {
                let path = format!("{path}[{i}]");
                let text: &str = fields::read(&path, item, faults)?;
                text.parse::<Did>().map_err(|rule| faults.invalid(&path, rule)).ok()
            };
            let stated: Option<BTreeSet<_>> = items.iter().enumerate().map(read).map(text_of).collect();
            let own: BTreeSet<_> = own.iter().map(ToString::to_string).collect();
            compared.push((path, stated.map(|stated| stated == own)));
        }
    }
    if let Some(policies) = body.optional_object("settler_auth_required", faults) {
        let required = policies.entries().filter_map(|(name, path, value)| {
            (fields::read::<bool>(&path, value, faults) == Some(true)).then(|| name.clone())
        });
        let required: BTreeSet<_> = required.collect();
        let own: BTreeSet<_> = opened.required_policies.iter().cloned().collect();
        compared.push(("settler_auth_required".to_owned(), Some(required == own)));
    }
    compared
}

fn text_of(did: Option<Did>) -> Option<String> {
    did.map(|did| did.to_string())
}

/// Contracts, verifier and selector. An empty text says that it is left out (spec 2.12).
fn contracts(body: &Object<'_>, opened: &QuoteRequestOpened, faults: &mut Faults) -> Vec<Compared> {
    let mut compared = Vec::new();
    let family = opened.terms.source.family();
    let is_account = |text: &str, own: &Account| Account::parse(family, text).as_ref() == Ok(own);
    let mut note = |path: &str, text: Option<&str>, same: &dyn Fn(&str) -> bool| {
        if let Some(text) = text.filter(|text| !text.is_empty()) {
            compared.push((path.to_owned(), Some(same(text))));
        }
    };
    let selector = body.optional("quote_selector", faults);
    note("quote_selector", selector, &|text| text.parse::<SelectorKey>().ok() == opened.selector);
    let escrow = body.optional("escrow_contract_address", faults);
    note("escrow_contract_address", escrow, &|text| is_account(text, &opened.escrow.contract));
    let proxy = body.optional(proxies::ONE, faults);
    let planned = || opened.terms.destination().iter().zip(&opened.fulfillment_proxies);
    note(proxies::ONE, proxy, &|text| planned().all(|(to, own)| Account::parse(to.family(), text).as_ref() == Ok(own)));
    if let Some(stated) = body.optional_object(proxies::BY_CHAIN, faults) {
        for (name, path, value) in stated.entries() {
            let chain = name.parse::<ChainId>().map_err(|rule| faults.invalid(&path, rule)).ok();
            let text = fields::read::<&str>(&path, value, faults);
            note(&path, text, &|text| {
                let is_there = |(to, _): &(&OwnedAsset, &Account)| Some(to.asset().chain()) == chain.as_ref();
                let mut there = planned().filter(is_there).peekable();
                there.peek().is_some() && there.all(|(to, own)| Account::parse(to.family(), text).as_ref() == Ok(own))
            });
        }
    }
    if let Some(verifier) = body.optional_object("fulfillment_verifier", faults) {
        let account = verifier.optional("account", faults);
        note("fulfillment_verifier.account", account, &|text| is_account(text, &opened.verifier.account));
        let endpoint = verifier.optional("endpoint", faults);
        note("fulfillment_verifier.endpoint", endpoint, &|text| is_at(&opened.verifier, text));
    }
    compared
}

fn owned(owned: &Object<'_>, faults: &mut Faults) -> Option<OwnedAsset> {
    let asset: Option<&str> = owned.required("asset_identifier", faults);
    let account: Option<&str> = owned.required("account", faults);
    let asset = asset?.parse().map_err(|rule: events::caip::Error| {
        faults.invalid(&owned.path("asset_identifier"), rule);
    });
    let rule = |rule: events::caip::Error| faults.invalid(&owned.path("account"), rule);
    OwnedAsset::new(asset.ok()?, account?).map_err(rule).ok()
}
