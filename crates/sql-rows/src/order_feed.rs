//! The feed of changes.

use diesel::{
    prelude::*,
    sql_types::{BigInt, Bool, Nullable, Text},
};
use domain::{
    api_key::Party,
    order::{OrderId, SigningServiceId, feed::FeedChange},
};
use time::OffsetDateTime;

use crate::{
    Instant, Utc,
    orders::party_column,
    schema::order_feed_epochs,
    text::{Lossy, LossyNullable},
};

/// How a database finds a range of an index.
#[derive(Clone, Copy)]
pub enum Ranges {
    /// PostgreSQL compares rows, as in [`compare_ids`](crate::orders::lists::compare_ids).
    OfRows,
    /// SQLite compares columns: in rows, it makes no use of an identifier.
    OfColumns,
}

impl Ranges {
    /// Returns the condition and the order of a key of an owner's rows: of the party `$1`, with test orders or
    /// live ones `$2`, behind the key `$3` and up to `$4`.
    fn of(self, party: Party, table: &str, key: &str) -> (String, String) {
        let (column, _) = party_column(party);
        let columns = format!("{table}.{column}, {table}.is_test, {table}.{key}");
        match self {
            Self::OfRows => {
                let range = format!("({columns}) > ($1, $2, $3) AND ({columns}) <= ($1, $2, $4)");
                (range, columns)
            }
            Self::OfColumns => {
                let range = format!(
                    "{table}.{column} = $1 AND {table}.is_test = $2 \
                    AND {table}.{key} > $3 AND {table}.{key} <= $4"
                );
                (range, format!("{table}.{key}"))
            }
        }
    }
}

/// Returns the statement that selects up to `$5` creations of an owner's orders, by their identifiers.
pub fn creations(party: Party, ranges: Ranges) -> String {
    let (range, order) = ranges.of(party, "o", "id");
    format!(
        "SELECT o.id AS place, o.id AS order_id, o.file_number AS file_number, 'created' AS kind, \
            o.created_at AS at, 'NEW' AS status, o.signing_service_id AS signing_service_id \
        FROM orders AS o WHERE {range} AND o.erased_at IS NULL ORDER BY {order} LIMIT $5"
    )
}

/// Returns the statement that selects up to `$5` other changes, by their numbers.
pub fn changes(party: Party, ranges: Ranges) -> String {
    let (range, order) = ranges.of(party, "f", "number");
    format!(
        "SELECT f.number AS place, f.order_id AS order_id, \
            (SELECT o.file_number FROM orders AS o WHERE o.id = f.order_id) AS file_number, \
            f.kind AS kind, f.at AS at, f.status AS status, f.signing_service_id AS signing_service_id \
        FROM order_feed AS f WHERE {range} ORDER BY {order} LIMIT $5"
    )
}

/// An epoch of the feed.
#[derive(Queryable, Selectable, Insertable)]
#[diesel(table_name = order_feed_epochs)]
pub struct EpochRow {
    epoch: i64,
    /// What identifies the database that began it.
    pub database: String,
    created: i64,
    changed: i64,
}

impl EpochRow {
    /// Returns the epoch that a database begins at an instant, with the place of now. The first one is of all orders.
    pub fn next(
        last: Option<&Self>,
        database: String,
        (created, changed): (i64, i64),
        at: OffsetDateTime,
    ) -> Self {
        let Some(last) = last else { return Self { epoch: 0, database, created: 0, changed: 0 } };
        let milliseconds = i64::try_from(at.unix_timestamp_nanos() / 1_000_000).unwrap_or_default();
        let epoch = milliseconds.max(last.epoch.saturating_add(1));
        Self { epoch, database, created, changed }
    }
}

/// Whether the database has all that lies before a place of the epoch `$1`, behind the order `$2` and the number `$3`:
/// the epoch is one of its own, and every later one began behind the place.
pub const IS_KEPT: &str = "SELECT EXISTS (SELECT 1 FROM order_feed_epochs WHERE epoch = $1) \
    AND NOT EXISTS (SELECT 1 FROM order_feed_epochs \
        WHERE epoch > $1 AND (created < $2 OR changed < $3)) AS is_kept";

/// The answer to [`IS_KEPT`].
#[derive(QueryableByName)]
pub struct Kept {
    /// Whether it is so.
    #[diesel(sql_type = Bool)]
    pub is_kept: bool,
}

/// Removes up to `$2` entries of erasures before the instant `$1`.
pub const FORGET_ERASURES: &str = "DELETE FROM order_feed WHERE id IN (SELECT id FROM order_feed \
    WHERE kind = 'erased' AND at < $1 ORDER BY at LIMIT $2)";

/// A change in the feed.
#[derive(QueryableByName)]
pub struct FeedRow {
    #[diesel(sql_type = BigInt)]
    place: i64,
    #[diesel(sql_type = BigInt)]
    order_id: i64,
    #[diesel(sql_type = Nullable<Text>)]
    #[diesel(deserialize_as = LossyNullable)]
    file_number: Option<String>,
    #[diesel(sql_type = Text)]
    #[diesel(deserialize_as = Lossy)]
    kind: String,
    #[diesel(sql_type = Instant)]
    at: Utc,
    #[diesel(sql_type = Text)]
    #[diesel(deserialize_as = Lossy)]
    status: String,
    #[diesel(sql_type = BigInt)]
    signing_service_id: i64,
}

impl FeedRow {
    /// Returns the place and the change.
    pub fn into_change(self) -> (i64, FeedChange) {
        let change = FeedChange {
            order: OrderId(self.order_id),
            // An erased order has none.
            file_number: self.file_number.filter(|number| !number.is_empty()),
            kind: self.kind,
            at: self.at.0,
            status: self.status,
            signing_service: SigningServiceId(self.signing_service_id),
        };
        (self.place, change)
    }
}
