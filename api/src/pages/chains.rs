//! Names and explorers of public chains. A chain that is not in the table is shown by its id, and nothing of it is linked.

use std::{collections::BTreeMap, sync::LazyLock};

use serde::Deserialize;

use crate::docs::html::escape;

/// What is known of a public chain.
#[derive(Deserialize)]
struct KnownChain {
    name: String,
    /// Address of a transaction's page, with `{hash}`, or with `{bare}` for a hash without its 0x.
    transaction: String,
}

static CHAINS: LazyLock<BTreeMap<String, KnownChain>> =
    LazyLock::new(|| serde_json::from_str(include_str!("../../../web/data/chains.json")).unwrap_or_default());

/// The name of a chain, HTML.
pub(crate) fn name(chain_id: &str) -> String {
    escape(CHAINS.get(chain_id).map_or(chain_id, |known| &known.name))
}

/// A transaction as HTML: its hash, linked to the chain's explorer where that is known.
pub(crate) fn transaction(chain_id: &str, hash: &str) -> String {
    let shown = format!("<code>{}</code>", escape(hash));
    // What leads to another host is only ever letters and digits.
    let is_plain = hash.bytes().all(|c| c.is_ascii_alphanumeric());
    let Some(known) = CHAINS.get(chain_id).filter(|_| is_plain) else { return shown };
    let bare = hash.strip_prefix("0x").unwrap_or(hash);
    let address = known.transaction.replace("{hash}", hash).replace("{bare}", bare);
    format!("<a href=\"{}\" rel=\"noreferrer noopener\" target=\"_blank\">{shown}</a>", escape(&address))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transactions_of_public_chains_are_linked_and_no_others() {
        assert!(transaction("eip155:1", "0xab").contains("href=\"https://etherscan.io/tx/0xab\""));
        assert!(transaction("tron:728126428", "0xab").contains("href=\"https://tronscan.org/#/transaction/ab\""));
        assert_eq!(transaction("eip155:31337", "0xab"), "<code>0xab</code>");
        assert_eq!(transaction("eip155:1", "\"><b>"), "<code>&quot;&gt;&lt;b&gt;</code>");
        assert_eq!((name("eip155:1"), name("eip155:31337")), ("Ethereum".to_owned(), "eip155:31337".to_owned()));
        assert!(CHAINS.values().all(|known| known.transaction.starts_with("https://")));
    }
}
