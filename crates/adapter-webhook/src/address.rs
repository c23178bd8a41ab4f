//! Which addresses are public. The ranges are those of the IANA special-purpose registries.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{Ipv4Net, Ipv6Net};

const fn v4(a: u8, b: u8, c: u8, d: u8, prefix: u8) -> Ipv4Net {
    Ipv4Net::new_assert(Ipv4Addr::new(a, b, c, d), prefix)
}

const fn v6(a: u16, b: u16, c: u16, prefix: u8) -> Ipv6Net {
    Ipv6Net::new_assert(Ipv6Addr::new(a, b, c, 0, 0, 0, 0, 0), prefix)
}

const REFUSED_V4: [Ipv4Net; 16] = [
    v4(0, 0, 0, 0, 8),        // this network
    v4(10, 0, 0, 0, 8),       // private
    v4(100, 64, 0, 0, 10),    // carrier NAT
    v4(127, 0, 0, 0, 8),      // loopback
    v4(168, 63, 129, 16, 32), // the metadata service of Azure, at a public address
    v4(169, 254, 0, 0, 16),   // link-local: metadata services
    v4(172, 16, 0, 0, 12),    // private
    v4(192, 0, 0, 0, 24),     // protocol assignments
    v4(192, 0, 2, 0, 24),     // documentation
    v4(192, 88, 99, 0, 24),   // relays of 6to4
    v4(192, 168, 0, 0, 16),   // private
    v4(198, 18, 0, 0, 15),    // benchmarks
    v4(198, 51, 100, 0, 24),  // documentation
    v4(203, 0, 113, 0, 24),   // documentation
    v4(224, 0, 0, 0, 4),      // multicast
    v4(240, 0, 0, 0, 4),      // reserved, and broadcast
];

/// The only range of IPv6 in which public addresses are assigned. Outside of it are loopback,
/// mapped and compatible addresses, unique local, link-local, site-local and multicast ones.
const GLOBAL_V6: Ipv6Net = v6(0x2000, 0, 0, 3);

const REFUSED_V6: [Ipv6Net; 4] = [
    v6(0x2001, 0, 0, 23), // protocol assignments, among them Teredo and benchmarks
    v6(0x2001, 0xdb8, 0, 32), // documentation
    v6(0x2002, 0, 0, 16), // 6to4
    v6(0x3fff, 0, 0, 20), // documentation
];

/// NAT64 (RFC 6052). A machine with IPv6 only reaches every IPv4 address through it, so such an
/// address is what its last four bytes are.
const NAT64: Ipv6Net = v6(0x64, 0xff9b, 0, 96);

/// Returns whether an address is public: no machine of the operator or of its provider is there.
pub(crate) fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) if NAT64.contains(&address) => {
            let [.., a, b, c, d] = address.octets();
            is_public_v4(Ipv4Addr::new(a, b, c, d))
        }
        IpAddr::V6(address) => {
            GLOBAL_V6.contains(&address)
                && !REFUSED_V6.iter().any(|refused| refused.contains(&address))
        }
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    !REFUSED_V4.iter().any(|refused| refused.contains(&address))
}

#[cfg(test)]
#[path = "address_tests.rs"]
mod tests;
