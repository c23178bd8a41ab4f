//! An attack: half heads, half bodies, and floods of wrong keys. The rate limits have their defaults.
//! All connections have the address of the normal client.

use crate::{
    crowd::{Crowd, Kind, Then},
    request::Request,
};

pub const ATTACK: Crowd = Crowd { name: "hostile connections", kinds, flags: &[] };

/// Wrong keys that a connection sends each second.
const WRONG_KEYS: usize = 3;
/// Bytes of an unfinished body or text part; the service takes 256 KiB.
const HALF: usize = 128 * 1024;

fn kinds(key: &str) -> Vec<Kind> {
    let head = |path: &str, key: &str, headers: &str| {
        format!(
            "POST /api/order/{path} HTTP/1.1\r\nHost: localhost\r\n\
             Authorization: Bearer {key}\r\n{headers}"
        )
    };
    let empty = "Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}";
    let half_head = head("create", key, "X-Slow: ");
    // An answered request, and the beginning of the next one.
    let half_second_head = head("create", key, empty) + "P";
    let body = "Content-Type: application/json\r\nContent-Length: 262144\r\n\r\n";
    let half_body = head("create", key, body) + &" ".repeat(HALF);
    let form = "Content-Type: multipart/form-data; boundary=b\r\nContent-Length: 10000000\r\n\r\n\
                --b\r\nContent-Disposition: form-data; name=\"signingDetailsFormData\"\r\n\r\n";
    let half_form = head("create-with-documents", key, form) + &" ".repeat(HALF);
    let slow = |begin: String, then: Then| Kind { begin: begin.into_bytes(), then };
    let flood = |key: &str| Kind {
        begin: Vec::new(),
        then: Then::Requests(Request::new(&head("create", key, empty)), WRONG_KEYS),
    };
    vec![
        slow(half_head, Then::Byte),
        slow(half_second_head, Then::Nothing),
        slow(half_body, Then::Byte),
        slow(half_form, Then::Byte),
        // A key of the right form, different each time; and one that is none.
        flood(&format!("nok_{SLOT}_{SLOT}{SLOT}{SLOT}", SLOT = crate::request::SLOT)),
        flood("wrong"),
    ]
}
