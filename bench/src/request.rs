//! Orders as a client sends them.

use std::sync::atomic::{AtomicU64, Ordering};

/// Where a number goes, in 16 hexadecimal digits.
const SLOT: &str = "################";

/// The order of the README.
pub const ORDER: &str = r#"{"signingContactsFormData":{"orderContactEmail":"escrow@title.example.com"},"signingDetailsFormData":{"fileNumber":"F-################","signingDate":"2026-12-01","signingTimeType":"at","specificTime":"14:30","timeZoneId":"America/Chicago","propertyAddress":"123 Main St, Dallas, TX 75201","signingType":"Refinance","signerName":"Jane Doe","signerPhone":"+1 555 010 0199","signerEmail":"jane.doe@example.com","city":"Dallas","state":"TX","zipcode":"75201"},"signingServiceId":42,"requestedBy":{"userId":1001}}"#;

static LAST: AtomicU64 = AtomicU64::new(0);

/// A number that was not there before and has nothing in common with the one before, so that
/// indexes are hit all over.
fn next_number() -> u64 {
    scatter(LAST.fetch_add(1, Ordering::Relaxed))
}

/// The finalizer of `SplitMix64` (Steele, Lea, Flood 2014): no two numbers become the same.
fn scatter(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

/// The bytes of a request but for a number.
#[derive(Clone)]
pub struct Request {
    bytes: Vec<u8>,
    slots: Vec<usize>,
}

impl Request {
    /// An order without documents; with an `Idempotency-Key` of its own each time, if it is to have
    /// one.
    pub fn order(key: &str, with_idempotency_key: bool) -> Self {
        let idempotency_key = if with_idempotency_key {
            format!("Idempotency-Key: \"{SLOT}-8e03978e40d543dd\"\r\n")
        } else {
            String::new()
        };
        Self::new(format!(
            "POST /api/order/create HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {key}\r\n{idempotency_key}Content-Type: application/json\r\n\
             Content-Length: {}\r\n\r\n{ORDER}",
            ORDER.len()
        ))
    }

    pub fn new(text: String) -> Self {
        let slots = text.match_indices(SLOT).map(|(at, _)| at).collect();
        Self { bytes: text.into_bytes(), slots }
    }

    /// The bytes with the next number.
    pub fn next(&mut self) -> &[u8] {
        let digits = format!("{:016x}", next_number());
        for slot in &self.slots {
            self.bytes[*slot..*slot + SLOT.len()].copy_from_slice(digits.as_bytes());
        }
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn numbers_are_scattered_and_never_the_same() {
        let numbers: Vec<u64> = (0..100_000).map(scatter).collect();
        assert_eq!(numbers.iter().collect::<HashSet<_>>().len(), numbers.len());
        let ascents = numbers.windows(2).filter(|pair| pair[0] < pair[1]).count();
        assert!((45_000..55_000).contains(&ascents), "{ascents}");
    }

    #[test]
    fn every_slot_of_a_request_gets_the_number_of_its_turn() {
        let mut request = Request::order("k", true);
        let turns: Vec<String> =
            (0..2).map(|_| String::from_utf8(request.next().to_vec()).unwrap()).collect();
        for turn in &turns {
            let (_, file_number) = turn.split_once(r#""fileNumber":"F-"#).unwrap();
            let (_, idempotency_key) = turn.split_once("Idempotency-Key: \"").unwrap();
            assert_eq!(file_number[..16], idempotency_key[..16]);
            assert!(!turn.contains('#'));
        }
        assert_ne!(turns[0], turns[1]);
    }
}
