//! Caller address: that of the connection a request comes over, or what a trusted proxy says.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use http::{HeaderMap, HeaderName, header};

use super::limits::{LimitsConfig, Networks, ProxyHeader};

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// An address as callers are told apart by it: a whole IPv4 address, or the first 64 bits of an IPv6 address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AddressKey(IpAddr);

impl AddressKey {
    /// The key of `address`.
    pub fn of(address: IpAddr) -> Self {
        Self(match address.to_canonical() {
            IpAddr::V6(address) => IpAddr::V6(prefix(address, 64)),
            v4 => v4,
        })
    }

    /// The /48 that an IPv6 address belongs to.
    pub fn site(self) -> Option<Self> {
        match self.0 {
            IpAddr::V6(address) => Some(Self(IpAddr::V6(prefix(address, 48)))),
            IpAddr::V4(_) => None,
        }
    }
}

fn prefix(address: Ipv6Addr, bits: u32) -> Ipv6Addr {
    Ipv6Addr::from_bits(address.to_bits() & (u128::MAX << (128 - bits)))
}

/// How addresses are found.
#[derive(Debug)]
pub(super) struct Source {
    trusted_proxies: Networks,
    proxy_header: ProxyHeader,
    exempt: Networks,
}

impl Source {
    pub(super) fn new(config: &LimitsConfig) -> Self {
        Self {
            trusted_proxies: config.trusted_proxies.clone(),
            proxy_header: config.proxy_header,
            exempt: config.exempt.clone(),
        }
    }

    pub(super) fn is_trusted_proxy(&self, address: IpAddr) -> bool {
        self.trusted_proxies.contain(address)
    }

    pub(super) fn is_exempt(&self, address: IpAddr) -> bool {
        self.exempt.contain(address)
    }

    /// The address of a request that came over a connection from `peer`.
    ///
    /// A proxy adds at the right whom it got the request from, so the header is read from the right for as long as those
    /// who wrote it are trusted; everything further left is what the caller itself wrote. Where a trusted proxy does not
    /// say, its own address stands for whoever is behind it.
    pub(super) fn of(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        let mut last = peer;
        if !self.is_trusted_proxy(peer) {
            return last;
        }
        let values: Vec<_> = headers.get_all(self.header()).iter().collect();
        for value in values.into_iter().rev() {
            let Ok(text) = value.to_str() else { return last };
            // Not even quotes may hold a comma back: what is right of the last one is the proxy's own, and only that.
            for entry in text.rsplit(',') {
                let Some(address) = self.read(entry.trim()) else { return last };
                last = address;
                if !self.is_trusted_proxy(address) {
                    return last;
                }
            }
        }
        last
    }

    /// Whether a request seems to come through a proxy that nobody named: from inside, and with a header that says so.
    pub(super) fn is_hidden(&self, peer: IpAddr, headers: &HeaderMap) -> bool {
        let inside = match peer.to_canonical() {
            IpAddr::V4(address) => address.is_loopback() || address.is_private(),
            IpAddr::V6(address) => address.is_loopback() || address.is_unique_local(),
        };
        inside
            && (headers.contains_key(X_FORWARDED_FOR) || headers.contains_key(header::FORWARDED))
            && !self.is_trusted_proxy(peer)
            && !self.is_exempt(peer)
    }

    fn header(&self) -> HeaderName {
        match self.proxy_header {
            ProxyHeader::XForwardedFor => X_FORWARDED_FOR,
            ProxyHeader::Forwarded => header::FORWARDED,
        }
    }

    fn read(&self, entry: &str) -> Option<IpAddr> {
        match self.proxy_header {
            ProxyHeader::XForwardedFor => address(entry),
            ProxyHeader::Forwarded => entry.split(';').find_map(|pair| {
                let (name, value) = pair.trim().split_once('=')?;
                name.trim().eq_ignore_ascii_case("for").then(|| address(value.trim().trim_matches('"')))?
            }),
        }
    }
}

/// An address with or without a port, IPv6 with or without brackets.
fn address(text: &str) -> Option<IpAddr> {
    let bare = || text.strip_prefix('[')?.strip_suffix(']')?.parse().ok();
    let address: IpAddr =
        text.parse().ok().or_else(|| text.parse::<SocketAddr>().ok().map(|address| address.ip())).or_else(bare)?;
    Some(address.to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(header: ProxyHeader) -> Source {
        let networks = |texts: &[&str]| Networks::parse(texts.iter().copied()).unwrap();
        Source {
            trusted_proxies: networks(&["10.0.0.0/8", "2001:db8:ffff::/48"]),
            proxy_header: header,
            exempt: networks(&["192.0.2.7"]),
        }
    }

    fn of(header: ProxyHeader, peer: &str, values: &[&str]) -> String {
        let mut headers = HeaderMap::new();
        let name = source(header).header();
        for value in values {
            headers.append(name.clone(), value.parse().unwrap());
        }
        source(header).of(peer.parse().unwrap(), &headers).to_string()
    }

    #[test]
    fn only_trusted_proxies_are_believed_and_from_the_right() {
        let x = |peer: &str, values: &[&str]| of(ProxyHeader::XForwardedFor, peer, values);
        // A stranger's word is nothing.
        assert_eq!(x("203.0.113.9", &["198.51.100.1"]), "203.0.113.9");
        assert_eq!(x("10.0.0.1", &["198.51.100.1"]), "198.51.100.1");
        // What the caller wrote itself stands further left.
        assert_eq!(x("10.0.0.1", &["1.2.3.4, 198.51.100.1"]), "198.51.100.1");
        assert_eq!(x("10.0.0.1", &["1.2.3.4", "198.51.100.1"]), "198.51.100.1");
        assert_eq!(x("10.0.0.1", &["1.2.3.4, 198.51.100.1, 10.0.0.2"]), "198.51.100.1");
        // Who forges the address of a proxy gains nothing but that proxy's own words to the left of it.
        assert_eq!(x("10.0.0.1", &["10.9.9.9, 198.51.100.1"]), "198.51.100.1");
        assert_eq!(x("10.0.0.1", &["198.51.100.1:4711"]), "198.51.100.1");
        assert_eq!(x("10.0.0.1", &["2001:db8::5"]), "2001:db8::5");
        assert_eq!(x("10.0.0.1", &["[2001:db8::5]:443"]), "2001:db8::5");
        assert_eq!(x("10.0.0.1", &["[2001:db8::5]"]), "2001:db8::5");
        assert_eq!(x("::ffff:10.0.0.1", &["::ffff:198.51.100.1"]), "198.51.100.1");
        assert_eq!(x("2001:db8:ffff::1", &["198.51.100.1"]), "198.51.100.1");
        // What cannot be read is nobody's address, and nothing left of it counts.
        assert_eq!(x("10.0.0.1", &["1.2.3.4, unknown"]), "10.0.0.1");
        assert_eq!(x("10.0.0.1", &["1.2.3.4, unknown, 10.0.0.2"]), "10.0.0.2");
        assert_eq!(x("10.0.0.1", &["1.2.3.4,"]), "10.0.0.1");
        assert_eq!(x("10.0.0.1", &[]), "10.0.0.1");
    }

    #[test]
    fn forwarded_is_read_where_it_is_what_the_proxies_write() {
        let forwarded = |values: &[&str]| of(ProxyHeader::Forwarded, "10.0.0.1", values);
        assert_eq!(forwarded(&["for=198.51.100.1"]), "198.51.100.1");
        assert_eq!(forwarded(&["for=1.2.3.4, by=x;For=\"[2001:db8::5]:99\";proto=https"]), "2001:db8::5");
        assert_eq!(forwarded(&["for=1.2.3.4, for=_hidden"]), "10.0.0.1");
        assert_eq!(forwarded(&["for=1.2.3.4, proto=https"]), "10.0.0.1");
        // A quote that the caller opened does not swallow what the proxy added.
        assert_eq!(forwarded(&["for=\"1.2.3.4, for=198.51.100.1"]), "198.51.100.1");
        // The other header is the caller's own.
        let mut headers = HeaderMap::new();
        headers.insert(header::FORWARDED, "for=198.51.100.1".parse().unwrap());
        let of = source(ProxyHeader::XForwardedFor).of("10.0.0.1".parse().unwrap(), &headers);
        assert_eq!(of.to_string(), "10.0.0.1");
    }

    #[test]
    fn a_subscriber_is_one_caller() {
        let key = |text: &str| AddressKey::of(text.parse().unwrap());
        assert_eq!(key("2001:db8:1:2:3::4"), key("2001:db8:1:2:ffff::1"));
        assert_ne!(key("2001:db8:1:2::"), key("2001:db8:1:3::"));
        assert_eq!(key("2001:db8:1:2::").site(), key("2001:db8:1:3::").site());
        assert_ne!(key("2001:db8:1:2::").site(), key("2001:db8:2:2::").site());
        assert_eq!(key("::ffff:198.51.100.1"), key("198.51.100.1"));
        assert_ne!(key("198.51.100.1"), key("198.51.100.2"));
        assert_eq!(key("198.51.100.1").site(), None);
    }
}
