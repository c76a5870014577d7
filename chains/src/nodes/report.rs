//! Node report: what one node of a chain answers, for whoever checks a configuration.

use url::{Host, Url};

/// What one node said when it was looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeReport {
    /// The origin of its address: paths and queries of providers hold keys.
    pub origin: String,
    /// What came of it.
    pub outcome: NodeOutcome,
}

/// What came of looking at a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NodeOutcome {
    /// It is of the chain and answers.
    Answers {
        /// Its newest block; on Solana its newest confirmed slot.
        head: u64,
        /// How many blocks others of the same chain are ahead of it.
        lag_blocks: u64,
    },
    /// It cannot be used until an operator changes something: it is of another chain, or refuses the key. In words.
    Unusable(String),
    /// It gave no answer, or none that can be read. In words.
    Silent(String),
}

/// The origin of an address, which is all that is ever shown of it: scheme, host and port.
pub fn origin(url: &str) -> Option<String> {
    Url::parse(url).ok().filter(Url::has_host).map(|url| url.origin().ascii_serialization())
}

/// Whether nobody on a network can read what is sent to `url`: it does not leave this machine.
pub fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

/// Whose word a node at `url` gives: nodes of one host and port are one, by whatever scheme, path or key they are reached.
pub fn voter(url: &str) -> String {
    let Some(url) = Url::parse(url).ok().filter(Url::has_host) else { return url.to_owned() };
    let host = url.host_str().unwrap_or_default().trim_end_matches('.').to_ascii_lowercase();
    match url.port() {
        Some(port) => format!("{host}:{port}"),
        None => host,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn given_one_origin_in_several_spellings_when_votes_are_counted_then_it_has_one() {
        for same in [
            "https://Node.example/v2/KEY",
            "https://node.example./v3/other",
            "http://node.example",
            "https://user:key@node.example:443/",
        ] {
            assert_eq!(voter(same), "node.example", "{same}");
        }
        assert_ne!(voter("http://127.0.0.1:1"), voter("http://127.0.0.1:2"));
    }

    #[test]
    fn given_an_address_with_keys_when_it_is_shown_then_only_its_origin_is() {
        let shown = origin("https://user:key@node.example/v2/KEY?key=KEY").unwrap();
        assert_eq!(shown, "https://node.example");
    }
}
