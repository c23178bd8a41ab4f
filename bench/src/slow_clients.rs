//! Slow clients: heads and bodies of one byte per second, and silent connections.

use crate::crowd::{Crowd, Kind, Then};

pub const SLOW_CLIENTS: Crowd =
    Crowd { name: "slow clients", kinds, flags: &["--rate-per-second=0"] };

fn kinds(key: &str) -> Vec<Kind> {
    let begin = format!(
        "POST /api/order/create HTTP/1.1\r\nHost: localhost\r\n\
         Authorization: Bearer {key}\r\nContent-Type: application/json\r\n"
    );
    vec![
        Kind { begin: format!("{begin}X-Slow: ").into_bytes(), then: Then::Byte },
        Kind {
            begin: format!("{begin}Content-Length: 10000\r\n\r\n{{").into_bytes(),
            then: Then::Byte,
        },
        Kind { begin: Vec::new(), then: Then::Nothing },
    ]
}
