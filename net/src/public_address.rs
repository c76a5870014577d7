//! Public addresses: those of the public internet; a stranger may name no others.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Whether `address` belongs to the public internet: nothing of this machine, this network, or reserved by the IANA
/// special-purpose registries (RFC 6890), in whatever notation IPv6 has for it.
pub(super) fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    let reserved = address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || address.is_documentation()
        || address.is_multicast()
        || a == 0
        // Shared between carrier and customer (RFC 6598).
        || (a == 100 && b & 0xc0 == 64)
        // IETF protocol assignments, and the relay anycast of 6to4.
        || (a == 192 && b == 0 && c == 0)
        || (a == 192 && b == 88 && c == 99)
        // Benchmarking (RFC 2544).
        || (a == 198 && b & 0xfe == 18)
        || a >= 240;
    !reserved
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    if let Some(mapped) = address.to_ipv4_mapped() {
        return is_public_v4(mapped);
    }
    let [a, b, _, _, e, f, ..] = address.segments();
    // Global unicast is 2000::/3; translation prefixes outside of it reach whatever their gateway reaches.
    let global = a & 0xe000 == 0x2000;
    // Protocol assignments with Teredo and ORCHID, documentation, 6to4, and the second documentation block.
    let reserved = match a {
        0x2001 => b < 0x0200 || b == 0x0db8,
        0x2002 => true,
        0x3fff => b & 0xf000 == 0,
        _ => false,
    };
    // ISATAP: an IPv4 address in the interface id, reached through a tunnel of this network (RFC 5214).
    let tunnelled = e & !0x0200 == 0 && f == 0x5efe;
    global && !reserved && !tunnelled
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_public_internet_passes() {
        for text in
            ["1.1.1.1", "8.8.8.8", "100.63.255.255", "172.32.0.1", "198.20.0.1", "2606:4700::1111", "::ffff:8.8.8.8"]
        {
            assert!(is_public(text.parse().unwrap()), "{text}");
        }
        for text in [
            "0.0.0.0",
            "0.1.2.3",
            "10.0.0.1",
            "100.64.0.1",
            "127.0.0.1",
            "127.1.2.3",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.1",
            "192.0.2.1",
            "192.88.99.1",
            "192.168.1.1",
            "198.18.0.1",
            "198.19.255.255",
            "198.51.100.1",
            "203.0.113.1",
            "224.0.0.1",
            "239.1.1.1",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "::127.0.0.1",
            "64:ff9b::7f00:1",
            "64:ff9b:1::1",
            "100::1",
            "2001::1",
            "2001:10::1",
            "2001:db8::1",
            "2002:7f00:1::",
            "2606:4700::5efe:a00:1",
            "2606:4700::200:5efe:a00:1",
            "5f00::1",
            "3fff::1",
            "fc00::1",
            "fd12:3456::1",
            "fe80::1",
            "fec0::1",
            "ff02::1",
        ] {
            assert!(!is_public(text.parse().unwrap()), "{text}");
        }
    }
}
