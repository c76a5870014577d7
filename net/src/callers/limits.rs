//! `[limits]`: how much one caller may ask of the API.

use std::net::IpAddr;

use ipnet::IpNet;
use serde::{Deserialize, Deserializer, de};

/// `[limits]`: how much one caller may ask of the API. Callers are told apart by address, IPv6 by /64, and what they
/// signed by the account or DID that is proven. All addresses of a /48 together have 16 times the rates and 4 times the
/// permits of one.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LimitsConfig {
    /// Addresses and networks of the proxies in front, whose word on where a request comes from is believed.
    pub trusted_proxies: Networks,
    /// The header in which they say it. The other one is the caller's own, whatever it says.
    pub proxy_header: ProxyHeader,
    /// Addresses and networks that none of these limits holds for, such as the operator's own and merchants under contract.
    pub exempt: Networks,
    /// Reads of an address, documents and refused calls included; a read is one unit.
    pub reads: RateConfig,
    /// Writes of an address, replays included; a write is one unit, and one more for each 4 KiB of its body behind the first.
    pub writes: RateConfig,
    /// What an address asks for without a signature: units by what it costs, see the example of the configuration.
    pub unsigned: RateConfig,
    /// What is accepted of one account or DID, from wherever it calls; something new costs as much as a write, a replay nothing.
    pub accepted: RateConfig,
    /// Connections of an address at the same time; those above are closed at once. Trusted proxies have as many as they want.
    pub connections_per_address_max: usize,
    /// Writes of an address that are being received or checked at the same time; those above are answered with 429.
    pub writes_per_address_max: usize,
    /// Requests of an address that are held for their outcome at the same time; those above are answered at once.
    pub holds_per_address_max: usize,
    /// Event streams of an address at the same time; those above are answered with 429.
    pub event_streams_per_address_max: usize,
    /// Callers whose budgets are remembered at the same time; of more, the one that called longest ago is forgotten.
    pub callers_max: usize,
}

impl Default for LimitsConfig {
    fn default() -> Self {
        let rate = |per_second, burst| RateConfig { per_second, burst };
        Self {
            trusted_proxies: Networks::default(),
            proxy_header: ProxyHeader::default(),
            exempt: Networks::default(),
            reads: rate(50, 500),
            writes: rate(20, 400),
            unsigned: rate(20, 400),
            accepted: rate(10, 200),
            connections_per_address_max: 256,
            writes_per_address_max: 64,
            holds_per_address_max: 512,
            event_streams_per_address_max: 64,
            callers_max: 65_536,
        }
    }
}

/// A budget: a token bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RateConfig {
    /// Units (see [`price`](super::price)) that come back a second.
    pub per_second: u32,
    /// Units at once.
    pub burst: u32,
}

impl RateConfig {
    /// So many times as much.
    pub(super) fn times(self, factor: u32) -> Self {
        Self { per_second: self.per_second.saturating_mul(factor), burst: self.burst.saturating_mul(factor) }
    }
}

/// The header in which proxies say where a request comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
pub enum ProxyHeader {
    /// `X-Forwarded-For`.
    #[default]
    #[serde(rename = "x-forwarded-for")]
    XForwardedFor,
    /// `Forwarded` (RFC 7239).
    #[serde(rename = "forwarded")]
    Forwarded,
}

/// Addresses and networks, such as `10.0.0.0/8` and `2001:db8::1`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Networks(Vec<IpNet>);

impl Networks {
    /// Reads them.
    ///
    /// # Errors
    /// The rule, naming the text that breaks it.
    pub fn parse<'a>(texts: impl IntoIterator<Item = &'a str>) -> Result<Self, String> {
        let network = |text: &str| {
            let address = || text.parse::<IpAddr>().map(|address| IpNet::from(address.to_canonical()));
            let network = text.parse().or_else(|_| address());
            network.map_err(|_| format!("`{text}` is not an address or a network such as 10.0.0.0/8"))
        };
        texts.into_iter().map(network).collect::<Result<_, _>>().map(Self)
    }

    /// Whether `address` is among them.
    pub(super) fn contain(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.0.iter().any(|network| network.contains(&address))
    }
}

impl<'de> Deserialize<'de> for Networks {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let texts = Vec::<String>::deserialize(deserializer)?;
        Self::parse(texts.iter().map(String::as_str)).map_err(de::Error::custom)
    }
}
