//! Amounts of US dollars, exact to the cent.

use std::fmt;

use serde::{Deserialize, Serialize, Serializer};

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

    /// Returns the amount as a JSON number, without decimals if there are no cents.
    pub fn to_json(self) -> serde_json::Value {
        if self.cents % 100 == 0 {
            return (self.cents / 100).into();
        }
        #[expect(clippy::cast_precision_loss, reason = "twelve digits fit the 53 bits of an f64")]
        (self.cents as f64 / 100.0).into()
    }

    /// Returns the amount of a JSON number.
    ///
    /// # Errors
    ///
    /// The number is negative, above [`Money::MAX`], or more precise than a cent.
    pub(super) fn from_number(text: &str) -> Result<Self, MoneyError> {
        let number = text.trim_start_matches('-');
        let (mantissa, exponent) = number.split_once(['e', 'E']).unwrap_or((number, "0"));
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let digits = format!("{whole}{fraction}");
        let significant = digits.trim_end_matches('0');
        let is_zero = significant.is_empty();
        if text.starts_with('-') && !is_zero {
            return Err(MoneyError::OutOfRange);
        }
        let is_small = exponent.starts_with('-');
        if text.len() > MAX_NUMBER_CHARS {
            let is_integer = fraction.is_empty() && !is_small;
            return Err(if is_integer { MoneyError::OutOfRange } else { MoneyError::TooFine });
        }
        if is_zero {
            return Ok(Self { cents: 0 });
        }
        let exponent = exponent.parse().unwrap_or(if is_small { isize::MIN } else { isize::MAX });
        let whole_digits = digits.len() - fraction.len();
        // The exponent of the significant digits when the amount is counted in cents.
        let shift = whole_digits.cast_signed() - significant.len().cast_signed() + 2;
        let shift = exponent.saturating_add(shift);
        if shift < 0 {
            return Err(MoneyError::TooFine);
        }
        u32::try_from(shift)
            .ok()
            .and_then(|shift| 10_i64.checked_pow(shift)?.checked_mul(significant.parse().ok()?))
            .and_then(Self::from_cents)
            .ok_or(MoneyError::OutOfRange)
    }
}

/// Maximum length of a number in characters. An amount has at most 13.
const MAX_NUMBER_CHARS: usize = 64;

/// Writes a number as an amount, so that equal amounts are equal in any notation.
pub(super) fn serialize_number<S: Serializer>(
    number: &str,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match Money::from_number(number) {
        Ok(money) => money.to_json().serialize(serializer),
        Err(_) => serializer.serialize_str(number),
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
        ] {
            assert_eq!(read(text), Ok(cents), "{text}");
        }
    }

    #[test]
    fn other_numbers_are_rejected() {
        for text in ["-0.01", "-1", "10000000000", "1e300", "1e99999999999999999999", "-1e-400"] {
            assert_eq!(read(text), Err(MoneyError::OutOfRange), "{text}");
        }
        let decimals = format!("1.{}1", "0".repeat(5_000));
        let [one, zero] = ["1", "0"].map(|whole| format!("{whole}.{}", "0".repeat(5_000)));
        assert_eq!(read(&"9".repeat(65)), Err(MoneyError::OutOfRange));
        for text in [
            "0.001",
            "150.005",
            "1e-7",
            "1e-999999999",
            "1e-99999999999999999999",
            &decimals,
            &one,
            &zero,
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
                (money.to_json().to_string().as_str(), money.to_string().as_str()),
                (number, text)
            );
        }
    }

    proptest! {
        #[test]
        fn every_amount_round_trips(cents in 0..=Money::MAX.cents()) {
            let money = Money::from_cents(cents).unwrap();
            let json = money.to_json().to_string();
            prop_assert_eq!(Money::from_number(&json), Ok(money));
        }
    }
}
