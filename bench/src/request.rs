//! Requests for orders without documents.

use std::{
    ops::RangeInclusive,
    sync::atomic::{AtomicU64, Ordering},
};

use crate::fill;

/// A placeholder for a number.
pub const SLOT: &str = "################";

/// The order of the README.
pub const ORDER: &str = concat!(
    r#"{"signingContactsFormData":{"orderContactEmail":"escrow@title.example.com"},"#,
    r#""signingDetailsFormData":{"fileNumber":"F-################","signingDate":"2026-12-01","#,
    r#""signingTimeType":"at","specificTime":"14:30","timeZoneId":"America/Chicago","#,
    r#""propertyAddress":"123 Main St, Dallas, TX 75201","signingType":"Refinance","#,
    r#""signerName":"Jane Doe","signerPhone":"+1 555 010 0199","#,
    r#""signerEmail":"jane.doe@example.com","city":"Dallas","state":"TX","zipcode":"75201"},"#,
    r#""signingServiceId":42,"requestedBy":{"userId":1001}}"#,
);

static LAST: AtomicU64 = AtomicU64::new(0);

/// Returns a new number. Successive numbers are scattered, so that they hit all parts of an index.
fn next_number() -> u64 {
    scatter(LAST.fetch_add(1, Ordering::Relaxed))
}

/// Scatters numbers by the finalizer of `SplitMix64` (Steele, Lea, Flood 2014), a bijection.
fn scatter(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

/// What takes the place of the placeholders.
#[derive(Clone)]
pub enum Values {
    /// A new number each time, in 16 hexadecimal digits.
    New,
    /// A random identifier.
    Identifiers(RangeInclusive<u64>),
    /// The file number of a random identifier in a [filled](fill) database.
    FileNumbers(RangeInclusive<u64>),
}

impl Values {
    fn next(&self) -> String {
        match self {
            Self::New => self.of(next_number()),
            Self::Identifiers(range) | Self::FileNumbers(range) => {
                self.of(fastrand::u64(range.clone()))
            }
        }
    }

    fn of(&self, number: u64) -> String {
        match self {
            Self::New => format!("{number:016x}"),
            Self::Identifiers(_) => number.to_string(),
            Self::FileNumbers(_) => fill::file_number(number),
        }
    }
}

/// A request with placeholders for a number.
#[derive(Clone)]
pub struct Request {
    /// The text around the placeholders.
    pieces: Vec<String>,
    values: Values,
    bytes: Vec<u8>,
}

impl Request {
    /// Creates a request for an order without documents, optionally with a unique
    /// `Idempotency-Key`.
    pub fn order(key: &str, with_idempotency_key: bool) -> Self {
        let idempotency_key = if with_idempotency_key {
            format!("Idempotency-Key: \"{SLOT}-8e03978e40d543dd\"\r\n")
        } else {
            String::new()
        };
        Self::create(key, &idempotency_key, ORDER)
    }

    /// Number of mail recipients of [`Self::order_with_recipients`].
    pub const RECIPIENTS: u64 = 3;

    /// Creates a request for an order with several mail recipients.
    pub fn order_with_recipients(key: &str) -> Self {
        let one = r#""orderContactEmail":"escrow@title.example.com""#;
        let others = r#""observer":"observer@title.example.com",
            "inHouseContact":{"contact_email":"house@title.example.com"}"#;
        Self::create(key, "", &ORDER.replacen(one, &format!("{one},{others}"), 1))
    }

    fn create(key: &str, idempotency_key: &str, order: &str) -> Self {
        Self::new(&format!(
            "POST /api/order/create HTTP/1.1\r\nHost: localhost\r\n\
             Authorization: Bearer {key}\r\n{idempotency_key}Content-Type: application/json\r\n\
             Content-Length: {}\r\n\r\n{order}",
            order.len()
        ))
    }

    /// Creates a request to read a path, with random numbers of what is in the database.
    pub fn get(key: &str, path: &str, values: Values) -> Self {
        let text = format!(
            "GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {key}\r\n\r\n"
        );
        Self { values, ..Self::new(&text) }
    }

    pub fn new(text: &str) -> Self {
        let pieces = text.split(SLOT).map(str::to_owned).collect();
        Self { pieces, values: Values::New, bytes: Vec::new() }
    }

    /// Returns the bytes with the next number.
    pub fn next(&mut self) -> &[u8] {
        self.with(&self.values.next())
    }

    /// Returns the bytes with this order's identifier or file number.
    pub fn for_order(&mut self, order: u64) -> &[u8] {
        self.with(&self.values.of(order))
    }

    fn with(&mut self, number: &str) -> &[u8] {
        self.bytes.clear();
        for (at, piece) in self.pieces.iter().enumerate() {
            if at > 0 {
                self.bytes.extend_from_slice(number.as_bytes());
            }
            self.bytes.extend_from_slice(piece.as_bytes());
        }
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn numbers_are_scattered_and_unique() {
        let numbers: Vec<u64> = (0..100_000).map(scatter).collect();
        assert_eq!(numbers.iter().collect::<HashSet<_>>().len(), numbers.len());
        let ascents = numbers.windows(2).filter(|pair| pair[0] < pair[1]).count();
        assert!((45_000..55_000).contains(&ascents), "{ascents}");
    }

    #[test]
    fn all_slots_get_the_same_new_number() {
        let mut request = Request::order("k", true);
        let requests: Vec<String> =
            (0..2).map(|_| String::from_utf8(request.next().to_vec()).unwrap()).collect();
        for text in &requests {
            let (_, file_number) = text.split_once(r#""fileNumber":"F-"#).unwrap();
            let (_, idempotency_key) = text.split_once("Idempotency-Key: \"").unwrap();
            assert_eq!(file_number[..16], idempotency_key[..16]);
            assert!(!text.contains('#'));
        }
        assert_ne!(requests[0], requests[1]);
    }
}
