//! The notaries that a signing service knows: those of its orders.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, btree_map::Entry},
    fmt,
    str::FromStr,
};

use time::{Duration, OffsetDateTime};

use crate::order::{Notary, OrderId};

conceal!(KnownNotary);

/// Time within which a notary was assigned or its order changed its status.
pub const KNOWN_FOR: Duration = Duration::days(365);

/// Maximum number of orders that a list of notaries looks at: the newest.
pub const NOTARY_ORDERS: usize = 20_000;

/// A notary of orders of a signing service.
#[derive(Clone, PartialEq, Eq)]
pub struct KnownNotary {
    /// Who the notary is, as the latest of the orders has it.
    pub notary: Notary,
    /// The number of the notary.
    pub notary_id: Option<i64>,
    /// How many orders have this notary.
    pub orders: u64,
    /// The last use.
    pub last_use: NotaryUse,
}

/// The notaries that a list has found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownNotaries {
    /// Each number with each form of a name, phone and e-mail once, in no particular order.
    pub found: Vec<KnownNotary>,
    /// Whether all orders were looked at. Otherwise notaries of older orders may be missing.
    pub is_complete: bool,
}

/// The last use of a notary, which is its place in the list: the instant at which the status or the notary of one of
/// its orders last changed, and the latest of its orders.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct NotaryUse {
    /// The instant.
    pub at: OffsetDateTime,
    /// The order.
    pub order: OrderId,
}

/// The text is no place in the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no place in a list of notaries")]
pub struct NoNotaryUse;

/// Writes the microseconds since 1970 and the order, such as `1795867200000017-31`.
impl fmt::Display for NotaryUse {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let microseconds = self.at.unix_timestamp_nanos() / 1_000;
        write!(formatter, "{microseconds}-{}", self.order.0)
    }
}

impl FromStr for NotaryUse {
    type Err = NoNotaryUse;

    fn from_str(text: &str) -> Result<Self, NoNotaryUse> {
        let (microseconds, order) = text.split_once('-').ok_or(NoNotaryUse)?;
        let microseconds: i64 = microseconds.parse().map_err(|_| NoNotaryUse)?;
        let at = OffsetDateTime::from_unix_timestamp_nanos(i128::from(microseconds) * 1_000);
        let order = OrderId(order.parse().map_err(|_| NoNotaryUse)?);
        let read = Self { at: at.map_err(|_| NoNotaryUse)?, order };
        // `parse` accepts a sign and zeros.
        if read.to_string() == text { Ok(read) } else { Err(NoNotaryUse) }
    }
}

/// Returns each notary once, the latest used first. One number with one name, in any letter case, is one notary.
pub fn merged(found: Vec<KnownNotary>) -> Vec<KnownNotary> {
    let mut by_name: BTreeMap<_, KnownNotary> = BTreeMap::new();
    for one in found {
        match by_name.entry((one.notary_id, one.notary.name.to_lowercase())) {
            Entry::Vacant(free) => drop(free.insert(one)),
            Entry::Occupied(mut known) => {
                let orders = known.get().orders + one.orders;
                if one.last_use > known.get().last_use {
                    known.insert(one);
                }
                known.get_mut().orders = orders;
            }
        }
    }
    let mut all: Vec<_> = by_name.into_values().collect();
    all.sort_unstable_by_key(|one| Reverse(one.last_use));
    all
}

#[cfg(test)]
mod tests {
    use time::macros::datetime;

    use super::*;
    use crate::people::EmailAddress;

    fn known(name: &str, notary_id: Option<i64>, used: i64, orders: u64) -> KnownNotary {
        let phone = Some(format!("+1 555 010 010{used}"));
        let email = EmailAddress::try_from(format!("used{used}@example.com")).ok();
        KnownNotary {
            notary: Notary { name: name.to_owned(), phone, email },
            notary_id,
            orders,
            last_use: NotaryUse {
                at: datetime!(2026-12-01 00:00 UTC) + Duration::hours(used),
                order: OrderId(used),
            },
        }
    }

    #[test]
    fn each_notary_is_there_once_with_its_latest_contact_and_all_its_orders() {
        let found = vec![
            known("Pat Garcia", None, 1, 10),
            known("Nora Tary", Some(7), 2, 1),
            known("PAT GARCIA", None, 3, 2),
            known("Pat Garcia", Some(8), 4, 1),
            known("Nora Tary", Some(7), 0, 5),
        ];
        let expected = [
            known("Pat Garcia", Some(8), 4, 1),
            known("PAT GARCIA", None, 3, 12),
            known("Nora Tary", Some(7), 2, 6),
        ];
        assert_eq!(merged(found), expected);
    }

    #[test]
    fn place_in_the_list_is_read_back_from_its_text() {
        let at = datetime!(2026-11-28 12:00:00.000017 UTC);
        let place = NotaryUse { at, order: OrderId(31) };
        assert_eq!(place.to_string(), "1795867200000017-31");
        assert_eq!(place.to_string().parse(), Ok(place));
        for text in ["", "7", "1-", "-1", "+1-2", "1-02", "1-x", "99999999999999999999-1"] {
            assert_eq!(text.parse::<NotaryUse>(), Err(NoNotaryUse), "{text}");
        }
    }
}
