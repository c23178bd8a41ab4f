//! Instants, which the databases store in different types.

use diesel::{
    deserialize::FromSqlRow,
    expression::AsExpression,
    query_builder::QueryId,
    sql_types::{SqlOrd, SqlType},
};
use domain::delivery::{FARTHEST_DUE, FARTHEST_LEASE, LONGEST_ATTEMPT};
use time::OffsetDateTime;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
use time::{Duration, macros::datetime};

/// The SQL type of an instant: `timestamptz` on PostgreSQL, and microseconds since
/// 1970-01-01T00:00:00Z in an `INTEGER` on SQLite.
#[derive(QueryId, SqlType)]
#[diesel(postgres_type(oid = 1184, array_oid = 1185), sqlite_type(name = "Long"))]
pub struct Instant;

impl SqlOrd for Instant {}

/// An instant in a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, AsExpression, FromSqlRow)]
#[diesel(sql_type = Instant)]
pub struct Utc(pub OffsetDateTime);

/// The first instant that programs of clients read: many have no year 0.
#[cfg(any(feature = "postgres", feature = "sqlite"))]
const FIRST: OffsetDateTime = datetime!(0001-01-01 0:00 UTC);

/// The last instant that an answer can show (RFC 3339, section 1).
#[cfg(any(feature = "postgres", feature = "sqlite"))]
const LAST: OffsetDateTime = datetime!(9999-12-31 23:59:59.999999 UTC);

impl Utc {
    /// Returns the instant some microseconds after another one, or the nearest that an answer can show. Other programs
    /// write `infinity` and years beyond 9999, and one such column would hide all rows of its statement.
    #[cfg(any(feature = "postgres", feature = "sqlite"))]
    fn read(epoch: OffsetDateTime, micros: i64) -> Self {
        Self(epoch.saturating_add(Duration::microseconds(micros)).clamp(FIRST, LAST))
    }

    /// Returns the microseconds since 1970. Every year that the program accepts fits.
    pub(crate) fn micros(self) -> i64 {
        self.0.unix_timestamp() * 1_000_000 + i64::from(self.0.microsecond())
    }
}

/// The newest instant at which an access, an order, a key or a use of a key was stored. The subqueries read one row
/// each, but for the keys, which are few.
pub const NEWEST_STORED: &str = "SELECT max(at) FROM (\
    SELECT max(at) AS at FROM accesses \
    UNION ALL SELECT created_at FROM orders WHERE id = (SELECT max(id) FROM orders) \
    UNION ALL SELECT max(issued_at) FROM api_keys \
    UNION ALL SELECT max(last_used_at) FROM api_keys) AS stored";

/// Returns the instant after which no lease ends, if the clocks are right.
pub fn farthest(now: Utc) -> Utc {
    Utc(now.0.saturating_add(FARTHEST_LEASE))
}

/// Returns the instant after which nothing is due that waits, if the clocks are right.
pub fn farthest_due(now: Utc) -> Utc {
    Utc(now.0.saturating_add(FARTHEST_DUE))
}

/// Returns the instant before which no request began that is still in progress.
pub(crate) fn nearest(now: Utc) -> Utc {
    Utc(now.0.saturating_sub(LONGEST_ATTEMPT))
}

#[cfg(feature = "postgres")]
mod postgres {
    use diesel::{
        deserialize::{self, FromSql},
        pg::{Pg, PgValue, data_types::PgTimestamp},
        serialize::{self, Output, ToSql},
        sql_types::Timestamptz,
    };
    use time::{OffsetDateTime, macros::datetime};

    use super::{Instant, Utc};

    /// The instant from which PostgreSQL counts. Its infinities are the greatest and the smallest number.
    const EPOCH: OffsetDateTime = datetime!(2000-01-01 0:00 UTC);

    impl FromSql<Instant, Pg> for Utc {
        fn from_sql(value: PgValue<'_>) -> deserialize::Result<Self> {
            let PgTimestamp(micros) = <PgTimestamp as FromSql<Timestamptz, Pg>>::from_sql(value)?;
            Ok(Self::read(EPOCH, micros))
        }
    }

    impl ToSql<Instant, Pg> for Utc {
        fn to_sql<'b>(&'b self, out: &mut Output<'b, '_, Pg>) -> serialize::Result {
            ToSql::<Timestamptz, Pg>::to_sql(&self.0, out)
        }
    }
}

#[cfg(feature = "sqlite")]
mod sqlite {
    use diesel::{
        deserialize::{self, FromSql},
        serialize::{self, IsNull, Output, ToSql},
        sql_types::BigInt,
        sqlite::{Sqlite, SqliteValue},
    };

    use time::OffsetDateTime;

    use super::{Instant, Utc};

    impl FromSql<Instant, Sqlite> for Utc {
        fn from_sql(value: SqliteValue<'_, '_, '_>) -> deserialize::Result<Self> {
            let micros = <i64 as FromSql<BigInt, Sqlite>>::from_sql(value)?;
            Ok(Self::read(OffsetDateTime::UNIX_EPOCH, micros))
        }
    }

    impl ToSql<Instant, Sqlite> for Utc {
        fn to_sql<'b>(&'b self, out: &mut Output<'b, '_, Sqlite>) -> serialize::Result {
            out.set_value(self.micros());
            Ok(IsNull::No)
        }
    }
}

#[cfg(all(test, any(feature = "postgres", feature = "sqlite")))]
mod tests {
    use super::*;

    #[test]
    fn instant_beyond_every_answer_is_read_as_the_nearest_one() {
        let micros = |at| Utc(at).micros();
        for (stored, read) in [
            (i64::MIN, FIRST),
            (micros(FIRST) - 1, FIRST),
            (micros(FIRST), FIRST),
            (-1, OffsetDateTime::UNIX_EPOCH - Duration::MICROSECOND),
            (micros(LAST), LAST),
            (micros(LAST) + 1, LAST),
            (i64::MAX, LAST),
        ] {
            assert_eq!(Utc::read(OffsetDateTime::UNIX_EPOCH, stored).0, read, "{stored}");
        }
    }
}
