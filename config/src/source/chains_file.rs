//! `chains_file`: the chains that all roles of an operator share, in a file of their own.
//!
//! A role's own `[[chains]]` section of the same `chain_id` is laid over the shared one, key by key; so what only one role
//! says of a chain, such as its keys, stands in its own file.

use std::path::Path;

use figment::value::{Dict, Value};

use crate::{Error, rules::invalid};

/// The key that names the file, relative to the file that it stands in.
const CHAINS_FILE: &str = "chains_file";
const CHAINS: &str = "chains";
const CHAIN_ID: &str = "chain_id";

/// Puts the chains of the file that is named into `keys`, under what stands there about them.
pub(super) fn put_in(keys: &mut Dict, directory: &Path) -> Result<(), Error> {
    let Some(named) = keys.remove(CHAINS_FILE) else { return Ok(()) };
    let named = named.as_str().ok_or_else(|| invalid(CHAINS_FILE, "must be a text, the path of a file"))?.to_owned();
    let mut shared = super::read(&directory.join(named))?;
    let chains = sections(&mut shared)?;
    if let Some(key) = shared.keys().next() {
        let rule = format!("holds `{key}`; it may hold [[chains]] and nothing else");
        return Err(invalid(CHAINS_FILE, rule));
    }
    let own = sections(keys)?;
    keys.insert(CHAINS.to_owned(), laid_over(chains, own).into());
    Ok(())
}

/// Takes out the `[[chains]]`.
fn sections(keys: &mut Dict) -> Result<Vec<Dict>, Error> {
    let wrong = || invalid(CHAINS, "must be sections, [[chains]]");
    match keys.remove(CHAINS) {
        None => Ok(Vec::new()),
        Some(Value::Array(_, sections)) => {
            sections.into_iter().map(|section| section.into_dict().ok_or_else(wrong)).collect()
        }
        Some(_) => Err(wrong()),
    }
}

fn laid_over(mut shared: Vec<Dict>, own: Vec<Dict>) -> Vec<Dict> {
    for section in own {
        let id = section.get(CHAIN_ID).and_then(Value::as_str).map(str::to_owned);
        let under = shared.iter_mut().find(|under| {
            let its = under.get(CHAIN_ID).and_then(Value::as_str);
            id.is_some() && its == id.as_deref()
        });
        match under {
            Some(under) => lay_over(under, section),
            None => shared.push(section),
        }
    }
    shared
}

/// Lays keys over others; tables are joined, whatever else there is takes the place of what was there.
fn lay_over(under: &mut Dict, over: Dict) {
    for (key, value) in over {
        match (under.get_mut(&key), value) {
            (Some(Value::Dict(_, under)), Value::Dict(_, over)) => lay_over(under, over),
            (_, value) => drop(under.insert(key, value)),
        }
    }
}
