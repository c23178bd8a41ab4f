//! Amounts of US dollars, exact to the cent.

use std::fmt;

use serde::{Deserialize, Serialize, Serializer};

use crate::request::{Member, Sent, scaled};

/// An amount of US dollars: not negative, at most [`Money::MAX`]. Stored as whole cents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "i64", try_from = "i64")]
pub struct Money {
    cents: i64,
}

/// The reason why a number is no [`Money`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MoneyError {
    /// Negative, or above the maximum.
    #[error("must be from 0 to {}", Money::MAX)]
    OutOfRange,
    /// More precise than a cent.
    #[error("must have at most two decimals")]
    TooFine,
}

impl Money {
    /// 9,999,999,999.99. A JSON number carries these twelve digits exactly (RFC 8259 section 6).
    pub const MAX: Self = Self { cents: 999_999_999_999 };

    /// Returns an amount of whole cents. Returns `None` if it is negative or above [`Money::MAX`].
    pub fn from_cents(cents: i64) -> Option<Self> {
        (0..=Self::MAX.cents).contains(&cents).then_some(Self { cents })
    }

    /// Returns the amount in cents.
    pub fn cents(self) -> i64 {
        self.cents
    }

    /// Returns the amount of a JSON number. One within [`TOLERANCE`] of a whole cent is that cent:
    /// clients add floats.
    ///
    /// # Errors
    ///
    /// The number is negative, above [`Money::MAX`], more precise, or longer than any amount.
    pub(super) fn from_number(text: &str) -> Result<Self, MoneyError> {
        let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, ""));
        let is_negative = text.starts_with('-');
        let exponent_digits = exponent.bytes().filter(u8::is_ascii_digit).count();
        if text.len() > MAX_NUMBER_CHARS || exponent_digits > MAX_EXPONENT_DIGITS {
            let is_fine = mantissa.contains('.') || exponent.starts_with('-');
            let is_too_fine = is_fine && !is_negative;
            return Err(if is_too_fine { MoneyError::TooFine } else { MoneyError::OutOfRange });
        }
        let (millionths, is_cut) = scaled(text, 6).ok_or(MoneyError::OutOfRange)?;
        let millionths = millionths.unsigned_abs().saturating_add(TOLERANCE);
        let (cents, rest) = (millionths / 10_000, millionths % 10_000);
        let is_near = rest < 2 * TOLERANCE || rest == 2 * TOLERANCE && !is_cut;
        let money = i64::try_from(cents).ok().and_then(Self::from_cents);
        match money.ok_or(MoneyError::OutOfRange)? {
            money if is_near && (cents == 0 || !is_negative) => Ok(money),
            _ if is_negative => Err(MoneyError::OutOfRange),
            _ => Err(MoneyError::TooFine),
        }
    }
}

/// Maximum length of a number in characters. An amount has at most 13.
const MAX_NUMBER_CHARS: usize = 40;
/// Maximum length of an exponent in digits.
const MAX_EXPONENT_DIGITS: usize = 2;
/// Maximum distance of a number to its amount in millionths of a US dollar.
const TOLERANCE: u64 = 1;

/// An amount as a JSON number of US dollars, without decimals if there are no cents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dollars(pub Money);

impl Serialize for Dollars {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let cents = self.0.cents;
        if cents % 100 == 0 {
            return serializer.serialize_i64(cents / 100);
        }
        #[expect(clippy::cast_precision_loss, reason = "twelve digits fit the 53 bits of an f64")]
        serializer.serialize_f64(cents as f64 / 100.0)
    }
}

/// A number of a request that should be an amount.
#[derive(Clone, PartialEq)]
pub(super) struct Amount(pub(super) Result<Money, MoneyError>);

impl Member for Amount {
    const EXPECTED: &'static str = "must be a number";

    fn of_number(digits: &str) -> Sent<Self> {
        Sent::Value(Self(Money::from_number(digits)))
    }
}

/// Writes equal amounts equally, in whatever notation they were sent.
impl Serialize for Amount {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Ok(money) => Dollars(money).serialize(serializer),
            Err(error) => serializer.collect_str(&error),
        }
    }
}

impl From<Money> for i64 {
    fn from(money: Money) -> Self {
        money.cents
    }
}

impl TryFrom<i64> for Money {
    type Error = MoneyError;
    fn try_from(cents: i64) -> Result<Self, MoneyError> {
        Self::from_cents(cents).ok_or(MoneyError::OutOfRange)
    }
}

impl fmt::Display for Money {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}.{:02}", self.cents / 100, self.cents % 100)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(text: &str) -> Result<i64, MoneyError> {
        Money::from_number(text).map(Money::cents)
    }

    #[test]
    fn amounts_are_read_to_the_cent() {
        for (text, cents) in [
            ("0", 0),
            ("-0", 0),
            ("-0.00e7", 0),
            ("0.1", 10),
            ("150", 15_000),
            ("150.1", 15_010),
            ("150.500", 15_050),
            ("0.29", 29),
            ("1e3", 100_000),
            ("1.5E+2", 15_000),
            ("1500e-1", 15_000),
            ("100e-4", 1),
            ("9999999999.99", 999_999_999_999),
            // Sums of floats.
            ("150.10000000000002", 15_010),
            ("0.30000000000000004", 30),
            ("29.999999999999996", 3_000),
            ("150.100001", 15_010),
            ("150.099999", 15_010),
            ("1e-7", 0),
            ("2.7755575615628914e-17", 0),
            ("-2.7755575615628914e-17", 0),
            ("9999999999.9900001", 999_999_999_999),
            ("1234567890.1200000000000000000000000000", 123_456_789_012),
        ] {
            assert_eq!(read(text), Ok(cents), "{text}");
        }
    }

    #[test]
    fn other_numbers_are_rejected() {
        for text in
            ["-0.01", "-1", "10000000000", "1e99", "1e300", "1e+001", "-1e-400", &"9".repeat(41)]
        {
            assert_eq!(read(text), Err(MoneyError::OutOfRange), "{text}");
        }
        for text in [
            "0.001",
            "150.005",
            "150.100002",
            "150.1000011",
            "1e-5",
            "1e-100",
            "1.5e-001",
            // More than 40 characters.
            "1234567890.120000000000000000000000000000",
        ] {
            assert_eq!(read(text), Err(MoneyError::TooFine), "{text}");
        }
    }

    #[test]
    fn cents_are_written_only_if_there_are_any() {
        for (cents, number, text) in [
            (0, "0", "0.00"),
            (50, "0.5", "0.50"),
            (15_000, "150", "150.00"),
            (15_005, "150.05", "150.05"),
        ] {
            let money = Money::from_cents(cents).unwrap();
            assert_eq!(
                (&*serde_json::to_string(&Dollars(money)).unwrap(), &*money.to_string()),
                (number, text)
            );
        }
    }

    proptest! {
        #[test]
        fn every_amount_round_trips(cents in 0..=Money::MAX.cents()) {
            let money = Money::from_cents(cents).unwrap();
            let json = serde_json::to_string(&Dollars(money)).unwrap();
            prop_assert_eq!(Money::from_number(&json), Ok(money));
        }
    }
}
