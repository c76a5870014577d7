//! Fulfillment proxies that a request names: one for all of its destinations (`fulfillment_proxy`, spec 2.1), or one for each
//! of their chains (`fulfillment_proxies`, ADR 108), since no one account is an account of two families of chains.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use events::{Account, ChainId, Family, Terms};

use super::{
    corridors::{Corridor, Corridors},
    fields::{self, Faults, Object, account_rule},
};
use crate::error::Code;

/// The member that names one proxy.
pub(super) const ONE: &str = "fulfillment_proxy";
/// The member that names one for each chain.
pub(super) const BY_CHAIN: &str = "fulfillment_proxies";

/// The proxies that a body names, not yet looked up on their chains.
pub(super) struct StatedProxies<'a> {
    /// Empty means the default.
    one: &'a str,
    /// Path and text by chain, where they are named so.
    by_chain: Option<BTreeMap<ChainId, (String, &'a str)>>,
}

impl<'a> StatedProxies<'a> {
    /// Reads both members of `body`. `None` only after a fault was noted.
    pub(super) fn read(body: &Object<'a>, faults: &mut Faults) -> Option<Self> {
        let one: &str = body.optional(ONE, faults).unwrap_or_default();
        let Some(stated) = body.optional_object(BY_CHAIN, faults) else { return Some(Self { one, by_chain: None }) };
        if !one.is_empty() && !stated.is_empty() {
            faults.invalid(BY_CHAIN, format!("must not be given together with {ONE}"));
            return None;
        }
        let (mut by_chain, mut sound) = (BTreeMap::new(), true);
        for (name, path, value) in stated.entries() {
            let text: Option<&str> = fields::read(&path, value, faults);
            let chain = name.parse::<ChainId>().map_err(|rule| faults.invalid(&path, rule)).ok();
            let (Some(text), Some(chain)) = (text, chain) else {
                sound = false;
                continue;
            };
            // Two spellings of one chain.
            if by_chain.insert(chain, (path.clone(), text)).is_some() {
                faults.invalid(&path, "must not repeat a chain");
                sound = false;
            }
        }
        sound.then_some(Self { one, by_chain: Some(by_chain) })
    }

    /// The proxy of each destination, in the order of the terms' destinations. `None` only after a fault was noted.
    pub(super) fn of_destinations(
        &self,
        terms: &Terms,
        corridors: &Corridors,
        faults: &mut Faults,
    ) -> Option<Vec<Account>> {
        let chains = || terms.destination().iter().map(|owned| owned.asset().chain());
        for (chain, (path, _)) in self.by_chain.iter().flatten() {
            if !chains().any(|own| own == chain) {
                faults.invalid(path, "is not the chain of a destination");
            }
        }
        chains().map(|chain| self.on(chain, corridors.get(chain)?, faults)).collect()
    }

    fn on(&self, chain: &ChainId, corridor: &Corridor, faults: &mut Faults) -> Option<Account> {
        let (path, text) = match self.by_chain.as_ref().and_then(|by_chain| by_chain.get(chain)) {
            Some((path, text)) => (path.as_str(), *text),
            None => (ONE, self.one),
        };
        if text.is_empty() {
            return Some(corridor.proxy.clone());
        }
        let proxy = match Account::parse(corridor.family, text) {
            Ok(proxy) => proxy,
            Err(rule) => {
                let mut rule = account_rule(&rule);
                if path == ONE {
                    rule.push_str(&format!(" on {chain}; {BY_CHAIN} names one for each chain"));
                }
                faults.invalid(path, rule);
                return None;
            }
        };
        if !corridor.trusts_proxy(&proxy) {
            faults.add(Code::UNTRUSTED_PROXY, path, format!("is neither the default nor a trusted one on {chain}"));
        }
        Some(proxy)
    }
}

/// The proxies that a body of the right form names for each chain, in normal form; empty texts name none.
pub(super) fn by_chain(body: &Map<String, Value>) -> BTreeMap<String, String> {
    let stated = body.get(BY_CHAIN).and_then(Value::as_object);
    let normal = |(chain, text): (&String, &Value)| {
        let text = text.as_str().filter(|text| !text.is_empty())?;
        let Ok(chain) = chain.parse::<ChainId>() else { return Some((chain.clone(), text.to_owned())) };
        Some((chain.to_string(), normal(chain.family(), text)))
    };
    stated.into_iter().flatten().filter_map(normal).collect()
}

fn normal(family: Option<Family>, text: &str) -> String {
    let account = family.and_then(|family| Account::parse(family, text).ok());
    account.map_or_else(|| text.to_owned(), |account| account.to_string())
}
