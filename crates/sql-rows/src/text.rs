//! Texts that another program may have written without regard to UTF-8: SQLite does not check them. The other rows of
//! the statement are read then.

use diesel::{
    backend::Backend,
    deserialize::{self, FromSql, FromSqlRow},
    sql_types::{Nullable, Text},
};

/// A text in which bytes that are not UTF-8 are U+FFFD.
#[derive(FromSqlRow)]
pub struct Lossy(pub String);

impl From<Lossy> for String {
    fn from(Lossy(text): Lossy) -> Self {
        text
    }
}

/// A text like [`Lossy`], in a column that may be `NULL`.
#[derive(FromSqlRow)]
pub struct LossyNullable(Option<String>);

impl From<LossyNullable> for Option<String> {
    fn from(LossyNullable(text): LossyNullable) -> Self {
        text
    }
}

impl<DB: Backend> FromSql<Nullable<Text>, DB> for LossyNullable
where
    Lossy: FromSql<Text, DB>,
{
    fn from_sql(value: DB::RawValue<'_>) -> deserialize::Result<Self> {
        let Lossy(text) = <Lossy as FromSql<Text, DB>>::from_sql(value)?;
        Ok(Self(Some(text)))
    }

    fn from_nullable_sql(value: Option<DB::RawValue<'_>>) -> deserialize::Result<Self> {
        match value {
            Some(value) => <Self as FromSql<Nullable<Text>, DB>>::from_sql(value),
            None => Ok(Self(None)),
        }
    }
}

#[cfg(feature = "postgres")]
mod postgres {
    use diesel::{
        deserialize::{self, FromSql},
        pg::{Pg, PgValue},
        sql_types::Text,
    };

    use super::Lossy;

    impl FromSql<Text, Pg> for Lossy {
        fn from_sql(value: PgValue<'_>) -> deserialize::Result<Self> {
            <String as FromSql<Text, Pg>>::from_sql(value).map(Self)
        }
    }
}

#[cfg(feature = "sqlite")]
mod sqlite {
    use diesel::{
        deserialize::{self, FromSql},
        sql_types::Text,
        sqlite::{Sqlite, SqliteValue},
    };

    use super::Lossy;

    impl FromSql<Text, Sqlite> for Lossy {
        fn from_sql(mut value: SqliteValue<'_, '_, '_>) -> deserialize::Result<Self> {
            Ok(Self(value.read_text().to_owned()))
        }
    }
}
