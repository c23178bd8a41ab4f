//! Amounts of US dollars, exact to the cent.

use std::fmt;

use serde::{Serialize, Serializer};

/// An amount of US dollars: not negative, at most [`Money::MAX`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Money {
    cents: i64,
}

/// Why a number is no [`Money`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MoneyError {
    /// Below zero, or above the cap.
    #[error("must be from 0 to {}", Money::MAX)]
    OutOfRange,
    /// Finer than a cent.
    #[error("must have at most two decimals")]
    TooFine,
}

impl Money {
    /// 9,999,999,999.99: twelve digits, which a JSON number carries exactly (RFC 8259 section 6
    /// promises fifteen).
    pub const MAX: Self = Self { cents: 999_999_999_999 };

    /// An amount of whole cents; `None` when it is negative or over [`Money::MAX`].
    pub fn from_cents(cents: i64) -> Option<Self> {
        (0..=Self::MAX.cents).contains(&cents).then_some(Self { cents })
    }

    /// The amount in cents.
    pub fn cents(self) -> i64 {
        self.cents
    }

    /// Reads the number of a JSON document. The shortest decimal text of the number decides, so
    /// that `150.10` is 150 dollars and 10 cents and nothing beside it.
    pub fn from_number(number: f64) -> Result<Self, MoneyError> {
        let text = format!("{number}");
        let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
        if number.is_nan() || number < 0.0 || whole.len() > 10 {
            return Err(MoneyError::OutOfRange);
        }
        if fraction.len() > 2 {
            return Err(MoneyError::TooFine);
        }
        let cents = format!("{}{fraction:0<2}", whole.trim_start_matches('-'));
        cents.parse().ok().and_then(Self::from_cents).ok_or(MoneyError::OutOfRange)
    }
}

impl fmt::Display for Money {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}.{:02}", self.cents / 100, self.cents % 100)
    }
}

/// As a JSON number: without decimals when there are no cents.
impl Serialize for Money {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.cents % 100 == 0 {
            serializer.serialize_i64(self.cents / 100)
        } else {
            #[expect(
                clippy::cast_precision_loss,
                reason = "twelve digits fit the 53 bits of an f64"
            )]
            serializer.serialize_f64(self.cents as f64 / 100.0)
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn amounts_are_read_to_the_cent() {
        for (number, cents) in [
            (0.0, 0),
            (-0.0, 0),
            (0.1, 10),
            (150.0, 15_000),
            (150.1, 15_010),
            (0.29, 29),
            (1e3, 100_000),
            (9_999_999_999.99, 999_999_999_999),
        ] {
            assert_eq!(Money::from_number(number).map(Money::cents), Ok(cents), "{number}");
        }
    }

    #[test]
    fn what_is_no_amount_is_refused() {
        for number in
            [-0.01, -1.0, 10_000_000_000.0, 1e300, f64::INFINITY, f64::NEG_INFINITY, f64::NAN]
        {
            assert_eq!(Money::from_number(number), Err(MoneyError::OutOfRange), "{number}");
        }
        for number in [0.001, 150.005, 0.1 + 0.2, 1e-7] {
            assert_eq!(Money::from_number(number), Err(MoneyError::TooFine), "{number}");
        }
    }

    #[test]
    fn amounts_are_written_with_cents_where_there_are_any() {
        for (cents, number, text) in [
            (0, "0", "0.00"),
            (50, "0.5", "0.50"),
            (15_000, "150", "150.00"),
            (15_005, "150.05", "150.05"),
        ] {
            let money = Money::from_cents(cents).unwrap();
            assert_eq!(
                (serde_json::to_string(&money).unwrap().as_str(), money.to_string().as_str()),
                (number, text)
            );
        }
    }

    proptest! {
        #[test]
        fn every_amount_survives_json(cents in 0..=Money::MAX.cents()) {
            let money = Money::from_cents(cents).unwrap();
            let json = serde_json::to_string(&money).unwrap();
            let number: f64 = serde_json::from_str(&json).unwrap();
            prop_assert_eq!(Money::from_number(number), Ok(money));
        }
    }
}
