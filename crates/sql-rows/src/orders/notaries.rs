//! The notaries of orders.

use diesel::{
    QueryableByName,
    sql_types::{BigInt, Nullable, Text},
};
use domain::{
    api_key::Party,
    notary::{KnownNotary, NotaryUse},
    order::OrderId,
};

use crate::{
    Utc,
    orders::{party_column, read_notary},
    text::Lossy,
};

/// Returns the query of the notaries of a party's newest orders: `$1` is the party, `$2` whether the orders are test
/// orders, `$3` how many of them it reads, in the order of the party's index, `$4` the instant since which their status
/// or notary has changed.
pub fn notaries_query(party: Party) -> String {
    let (column, _) = party_column(party);
    format!(
        "SELECT notary_id, notary, count(*) AS orders, max(used_at) AS used_at, max(id) AS last_order FROM (\
            SELECT id, notary_id, notary, (\
                SELECT entry.at FROM order_changes AS entry \
                WHERE entry.order_id = newest.id AND entry.kind = 'status' \
                ORDER BY entry.id DESC LIMIT 1\
            ) AS used_at \
            FROM (\
                SELECT id, notary_id, notary, updated_at FROM orders \
                WHERE {column} = $1 AND is_test = $2 AND erased_at IS NULL \
                ORDER BY {column} DESC, is_test DESC, id DESC LIMIT $3\
            ) AS newest WHERE notary IS NOT NULL AND updated_at >= $4\
        ) AS assigned WHERE used_at >= $4 GROUP BY notary_id, notary"
    )
}

/// Returns the query of the newest order of a party that [`notaries_query`] does not read. Its parameters are the first
/// three of that one.
pub fn order_behind_query(party: Party) -> String {
    let (column, _) = party_column(party);
    format!(
        "SELECT id FROM orders WHERE {column} = $1 AND is_test = $2 AND erased_at IS NULL \
        ORDER BY {column} DESC, is_test DESC, id DESC LIMIT 1 OFFSET $3"
    )
}

/// A notary of orders.
#[derive(QueryableByName)]
pub struct KnownNotaryRow {
    #[diesel(sql_type = Nullable<BigInt>)]
    notary_id: Option<i64>,
    #[diesel(sql_type = Text)]
    #[diesel(deserialize_as = Lossy)]
    notary: String,
    #[diesel(sql_type = BigInt)]
    orders: i64,
    #[diesel(sql_type = crate::Instant)]
    used_at: Utc,
    #[diesel(sql_type = BigInt)]
    last_order: i64,
}

impl KnownNotaryRow {
    /// Returns the notary; `None` if its text cannot be read.
    pub fn into_notary(self) -> Option<KnownNotary> {
        Some(KnownNotary {
            notary: read_notary(&self.notary)?,
            notary_id: self.notary_id,
            orders: self.orders.unsigned_abs(),
            last_use: NotaryUse { at: self.used_at.0, order: OrderId(self.last_order) },
        })
    }
}
