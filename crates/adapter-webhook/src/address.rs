//! Which addresses are public. The ranges are those of the IANA special-purpose registries.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

const fn v4(a: u8, b: u8, c: u8, d: u8, prefix: u8) -> IpNet {
    IpNet::V4(Ipv4Net::new_assert(Ipv4Addr::new(a, b, c, d), prefix))
}

const fn v6(a: u16, b: u16, prefix: u8) -> IpNet {
    IpNet::V6(Ipv6Net::new_assert(Ipv6Addr::new(a, b, 0, 0, 0, 0, 0, 0), prefix))
}

const REFUSED: [IpNet; 23] = [
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
    // Everything but 2000::/3, the only range in which public addresses are assigned: loopback,
    // mapped and compatible addresses, unique local, link-local, site-local and multicast ones.
    v6(0, 0, 3),
    v6(0x4000, 0, 2),
    v6(0x8000, 0, 1),
    v6(0x2001, 0, 23),     // protocol assignments, among them Teredo and benchmarks
    v6(0x2001, 0xdb8, 32), // documentation
    v6(0x2002, 0, 16),     // 6to4
    v6(0x3fff, 0, 20),     // documentation
];

/// NAT64 (RFC 6052). A machine with IPv6 only reaches every IPv4 address through it, so such an
/// address is what its last four bytes are.
const NAT64: IpNet = v6(0x64, 0xff9b, 96);

/// Returns whether an address is public: no machine of the operator or of its provider is there.
pub(crate) fn is_public(address: IpAddr) -> bool {
    let address = match address {
        IpAddr::V6(translated) if NAT64.contains(&address) => {
            let [.., a, b, c, d] = translated.octets();
            IpAddr::from([a, b, c, d])
        }
        _ => address,
    };
    !REFUSED.iter().any(|refused| refused.contains(&address))
}

#[cfg(test)]
#[path = "address_tests.rs"]
mod tests;
