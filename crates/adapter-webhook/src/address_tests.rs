use proptest::prelude::*;

use super::*;

/// Addresses that stripe/smokescreen, hook0 or svix refuse in their tests, and the ends of ranges.
const REFUSED: &[&str] = &[
    // This network, unspecified.
    "0.0.0.0 0.1.2.3 0.255.255.255",
    // Private.
    "10.0.0.0 10.0.0.1 10.254.0.0 10.255.255.255 172.16.0.0 172.16.5.4 172.28.0.5",
    "172.31.255.255 192.168.0.0 192.168.1.1 192.168.10.65 192.168.255.255",
    // Carrier NAT, and the metadata service of Alibaba in it.
    "100.64.0.0 100.64.0.1 100.100.0.0 100.100.100.200 100.127.255.255",
    // Loopback.
    "127.0.0.0 127.0.0.1 127.0.1.1 127.255.255.255",
    // Metadata services.
    "169.254.0.0 169.254.1.1 169.254.45.1 169.254.169.254 169.254.170.2 169.254.255.255",
    "168.63.129.16 192.0.0.192",
    // Protocol assignments, relays of 6to4, documentation, benchmarks.
    "192.0.0.0 192.0.0.255 192.0.2.0 192.0.2.255 192.88.99.1 198.18.0.0 198.19.255.255",
    "198.51.100.65 203.0.113.6",
    // Multicast, reserved, broadcast.
    "224.0.0.1 239.255.255.250 240.0.0.0 250.10.20.30 255.255.255.255",
    // The reserved block of IPv6: unspecified, loopback, and every spelling of IPv4 in it.
    ":: ::1 0:0:0:1::1 1::1 ff:ffff::1 ::127.0.0.1 ::ffff:127.0.0.1 ::ffff:169.254.169.254",
    "::ffff:8.8.8.8 ::ffff:0:7f00:1 ::5efe:7f00:1",
    // NAT64, by what it contains, and the prefix for local use.
    "64:ff9b::7f00:1 64:ff9b::a00:1 64:ff9b::ac1c:5 64:ff9b::a9fe:a9fe 64:ff9b::c000:201",
    "64:ff9b::ffff:ffff 64:ff9b:1::1 64:ff9b:1:ffff:ffff:ffff:ffff:ffff 64:ff9c::1",
    // 6to4 and Teredo, whatever they contain.
    "2002:7f00:1::1 2002:a00:1::1 2002:a9fe:a9fe::1 2002:c000:201::1 2002:808:808::1 2001::1",
    "2001:0:4136:e378:8000:63bf:3fff:fdd2 2001:0:1234:5678:9abc:def0:1234:5678 2001:2::1",
    "2001:1ff::1",
    // Documentation, discard, routing segments.
    "2001:db8::1 3fff::1 3fff:fff::1 100::1 5f00::1",
    // Unique local (with the metadata services of AWS and Google), link-local, site-local.
    "fc00::1 fd00::1 fd00:ec2::254 fd20:ce::254 fe80::1 febf::1 fec0::1",
    // Multicast, and ranges that nobody was assigned.
    "ff02::1 ff02::2 ff0e::1 4000::1 e000::1",
];

const PUBLIC: &[&str] = &[
    "1.1.1.1 8.8.8.8 9.255.255.255 11.0.0.0 93.184.216.34 100.63.255.254 100.128.0.1",
    "126.255.255.255 128.0.0.0 168.63.129.17 169.253.255.255 169.255.0.0 172.15.255.255",
    "172.32.0.0 192.0.1.0 192.0.3.0 192.167.255.255 192.169.0.0 198.17.255.255 198.20.0.0",
    "223.255.255.255 2001:200::1 2001:4860:4860::8888 2003::1 2606:4700:4700::1111",
    "3fff:1000::1 64:ff9b::808:808 64:ff9b::5db8:d822",
];

fn addresses(texts: &[&str]) -> Vec<IpAddr> {
    let texts = texts.iter().flat_map(|texts| texts.split(' '));
    texts.map(|text| text.parse().unwrap()).collect()
}

#[test]
fn addresses_that_are_not_public_are_refused() {
    for address in addresses(REFUSED) {
        assert!(!is_public(address), "{address}");
    }
}

#[test]
fn public_addresses_are_accepted() {
    for address in addresses(PUBLIC) {
        assert!(is_public(address), "{address}");
    }
}

proptest! {
    #[test]
    fn nat64_is_what_it_contains(high: u16, low: u16) {
        let inside = Ipv4Addr::from(u32::from(high) << 16 | u32::from(low));
        let outside = Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, high, low);
        prop_assert_eq!(is_public(outside.into()), is_public(inside.into()));
    }

    #[test]
    fn mapped_and_6to4_addresses_are_refused(high: u16, low: u16) {
        let mapped = Ipv6Addr::new(0, 0, 0, 0, 0, 0xffff, high, low);
        prop_assert!(!is_public(mapped.into()));
        prop_assert!(!is_public(Ipv6Addr::new(0x2002, high, low, 0, 0, 0, 0, 1).into()));
    }
}
