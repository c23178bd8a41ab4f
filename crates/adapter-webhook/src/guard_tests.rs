use super::*;

/// Reads networks that are separated by blanks.
pub(crate) fn networks(texts: &str) -> Vec<IpNet> {
    texts.split_whitespace().map(|text| text.parse().unwrap()).collect()
}

fn guard(open: &str) -> Guard {
    Guard { open: networks(open), proxied: false }
}

fn reason(guard: &Guard, url: &str) -> String {
    guard.target(url).unwrap_err().0
}

#[test]
fn public_https_urls_are_accepted() {
    for url in "https://hooks.example.com/orders?tenant=7 https://hooks.example.com:443/ \
         https://hooks.example.com:1024/ https://hooks.example.com:8443/ \
         https://hooks.example.com./ https://bücher.example/ https://93.184.216.34/ \
         https://[2606:4700:4700::1111]/ HTTPS://HOOKS.EXAMPLE.COM"
        .split(' ')
    {
        assert!(guard("").target(url).is_ok(), "{url}");
    }
}

#[test]
fn other_urls_are_refused_with_the_reason() {
    for (urls, expected) in [
        (
            "|hooks.example.com|/orders|https://|https:///|https://a b/|https://256.1.1.1/|\
             https://1.2.3.4.5/|https://0x100000000/|https://4294967296/|https://[::1/|\
             https://[fe80::1%25eth0]/",
            "must be a URL",
        ),
        (
            "http://hooks.example.com/|ftp://hooks.example.com/|file:///etc/passwd|\
             gopher://hooks.example.com/|javascript:alert(1)|unix:/run/docker.sock",
            "must begin with https://; the operator can open networks for http with \
             --webhook-allow",
        ),
        (
            "https://user@host.example/|https://user:secret@host.example/|https://:x@h/",
            "must not contain credentials",
        ),
        (
            "https://h.example:0/|https://h.example:22/|https://h.example:25/|\
             https://h.example:80/|https://h.example:442/|https://h.example:444/|\
             https://h.example:1023/",
            "must have port 443, or one above 1023",
        ),
    ] {
        for url in urls.split('|') {
            assert_eq!(reason(&guard(""), url), expected, "{url}");
        }
    }
}

/// Each URL names an address that is not public.
#[test]
fn every_spelling_of_a_refused_address_is_refused() {
    for host in "127.0.0.1 127.0.0.1. 127.1 127.0.1 2130706433 017700000001 0x7f000001 0x7f.1 \
         0x7f.0.0.0x1 0177.0.0.1 0177.0.0.01 00000177.0x0.0.1 %31%32%37.0.0.1 127。0。0。1 \
         ①②⑦.⓪.⓪.① 0 0.0.0.0 10.1 169.254.169.254 2852039166 0xA9FEA9FE 0251.0376.0251.0376 \
         [::1] [::] [::ffff:127.0.0.1] [::ffff:7f00:1] [0:0:0:0:0:ffff:7f00:0001] [::127.0.0.1] \
         [64:ff9b::127.0.0.1] [64:ff9b::a9fe:a9fe] [2002:7f00:1::] \
         [2001:0:4136:e378:8000:63bf:3fff:fdd2] [fe80::1] [fd00:ec2::254]"
        .split(' ')
    {
        let reason = reason(&guard(""), &format!("https://{host}/"));
        assert!(reason.starts_with("must not lead to a private"), "{host}: {reason}");
        assert!(reason.ends_with("--webhook-allow"), "{host}: {reason}");
    }
}

#[test]
fn opened_networks_are_accepted_also_with_http() {
    let guard = guard("10.1.0.0/16 127.0.0.1/32 fd00::/8");
    for url in "https://10.1.2.3/ http://10.1.2.3/ http://10.1.2.3:8080/ http://127.0.0.1:8080/ \
         http://[fd00::5]:8080/ https://93.184.216.34/ http://name.example/"
        .split(' ')
    {
        assert!(guard.target(url).is_ok(), "{url}");
    }
    for url in ["https://10.2.0.1/", "https://127.0.0.2/", "https://[::ffff:10.1.2.3]/"] {
        assert!(reason(&guard, url).starts_with("must not lead"), "{url}");
    }
    for url in ["http://93.184.216.34/", "http://10.2.0.1/", "http://[fe80::1]/"] {
        assert!(reason(&guard, url).starts_with("must begin with https://"), "{url}");
    }
}

#[test]
fn one_refused_address_refuses_the_name() {
    let addresses = |texts: &[&str]| -> Vec<IpAddr> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    };
    let guard = guard("10.1.0.0/16");
    let https = |texts: &[&str]| guard.admit(Scheme::Https, &addresses(texts)).is_ok();
    let http = |texts: &[&str]| guard.admit(Scheme::Http, &addresses(texts)).is_ok();
    assert!(https(&["1.1.1.1", "2606:4700:4700::1111"]));
    assert!(https(&["1.1.1.1", "10.1.0.1"]));
    assert!(!https(&["1.1.1.1", "127.0.0.1"]));
    assert!(!https(&["1.1.1.1", "fe80::1"]));
    assert!(!https(&["2606:4700:4700::1111", "10.0.0.1"]));
    assert!(http(&["10.1.0.1", "10.1.0.2"]));
    assert!(!http(&["10.1.0.1", "1.1.1.1"]));
}

#[test]
fn behind_a_proxy_names_need_https() {
    let guard = Guard { open: networks("10.1.0.0/16"), proxied: true };
    assert!(guard.target("https://name.example/").is_ok());
    assert!(guard.target("http://10.1.0.1/").is_ok());
    assert!(reason(&guard, "http://name.example/").starts_with("must begin with https://"));
    assert!(reason(&guard, "https://127.0.0.1/").starts_with("must not lead"));
}
