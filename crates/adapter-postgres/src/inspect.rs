//! Facts about a server for `doctor`. Reads only.

use std::net::IpAddr;

use diesel::{
    dsl::sql,
    prelude::*,
    sql_types::{BigInt, Bool, Integer, Text, Timestamptz},
};
use diesel_async::{AsyncPgConnection, RunQueryDsl};
use domain::ports::Clock;
use sql_rows::orphans::orphans_query;
use time::{Duration, OffsetDateTime};
use tokio_postgres::{
    Config,
    config::{Host, SslMode},
};

use crate::{MigrateError, connect::Server, migrations, statement::Prepared};

/// The columns of [`Facts`]. A limit of -1 means none, and `least` skips nulls.
const FACTS: &str = "SELECT current_setting('server_version'), \
    current_setting('server_version_num')::integer, \
    current_setting('transaction_read_only')::boolean, \
    coalesce(has_schema_privilege(current_schema(), 'CREATE'), false), \
    current_setting('fsync')::boolean, \
    (SELECT reset_val FROM pg_settings WHERE name = 'synchronous_commit'), \
    current_setting('synchronous_standby_names') <> '', \
    (SELECT count(*) FROM pg_stat_replication), \
    least(current_setting('max_connections')::bigint \
        - current_setting('superuser_reserved_connections')::bigint, \
        (SELECT nullif(rolconnlimit, -1) FROM pg_roles WHERE rolname = current_user), \
        (SELECT nullif(datconnlimit, -1) FROM pg_database WHERE datname = current_database()))";

/// The settings and the state of a server.
#[derive(Debug, Queryable)]
#[expect(clippy::struct_excessive_bools, reason = "each is one setting or state of the server")]
pub struct Facts {
    /// Its version, such as `17.6`.
    pub version: String,
    /// Its version as a number, such as 170006.
    pub version_number: i32,
    /// Whether it rejects writes.
    pub is_read_only: bool,
    /// Whether the user may create tables, which migrations need.
    pub may_create_tables: bool,
    /// Whether it waits for its disk.
    pub fsync: bool,
    /// Its default for what a commit waits for. The service replaces `off`.
    pub synchronous_commit: String,
    /// Whether a commit waits for standbys.
    pub waits_for_standbys: bool,
    /// Number of standbys that are connected.
    pub standbys: i64,
    /// Number of connections that it gives to all clients of this user.
    pub connections: i64,
}

/// How the URL of a database protects connections; of several hosts, the weakest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Protection {
    /// They may be without encryption, to another machine.
    Plain,
    /// They are encrypted, to any server.
    Unverified,
    /// They are encrypted, and the server proves that it is the host of the URL.
    Verified,
    /// They stay on this machine.
    Local,
}

/// Facts about a database for `doctor`.
#[derive(Debug)]
pub struct Inspection {
    /// The settings and the state of the server.
    pub facts: Facts,
    /// Number of missing migrations, or why a start would fail.
    pub missing_migrations: Result<usize, MigrateError>,
    /// The kinds of rows whose parent is gone, and their number. Empty if migrations are missing.
    pub orphans: Vec<(String, i64)>,
    /// How connections to the server are protected.
    pub protection: Protection,
    /// How far the clock of the server is ahead of ours; negative if it is behind.
    pub clock_ahead: Duration,
    /// Time of one statement, from here to the server and back.
    pub round_trip: Duration,
}

pub(crate) async fn inspect(
    server: &Server,
    clock: &dyn Clock,
) -> Result<Inspection, MigrateError> {
    let mut connection = server.connect_alone().await?.ok_or(MigrateError::Pooler)?;
    let (clock_ahead, round_trip) = compare_clocks(&mut connection, clock).await?;
    let facts = sql::<(Text, Integer, Bool, Bool, Bool, Text, Bool, BigInt, BigInt)>(FACTS);
    let facts = facts.get_result(&mut connection).await?;
    let missing_migrations = migrations::check(&mut connection).await;
    let orphans = match missing_migrations {
        Ok(0) => sql::<(Text, BigInt)>(&orphans_query()).get_results(&mut connection).await?,
        _ => Vec::new(),
    };
    Ok(Inspection {
        facts,
        missing_migrations,
        orphans,
        protection: protection(server),
        clock_ahead,
        round_trip,
    })
}

/// Returns how far the clock of the server is ahead, and the time of the statement.
async fn compare_clocks(
    connection: &mut AsyncPgConnection,
    clock: &dyn Clock,
) -> Result<(Duration, Duration), MigrateError> {
    let query = || Prepared(sql::<Timestamptz>("SELECT clock_timestamp()"));
    // The first time, the server also plans the statement.
    query().get_result::<OffsetDateTime>(connection).await?;
    let before = clock.now();
    let theirs: OffsetDateTime = query().get_result(connection).await?;
    let round_trip = clock.now() - before;
    Ok((theirs - (before + round_trip / 2), round_trip))
}

fn protection(server: &Server) -> Protection {
    let is_local = |host: &Host| match host {
        Host::Tcp(name) => {
            name == "localhost" || name.parse().is_ok_and(|ip: IpAddr| ip.is_loopback())
        }
        Host::Unix(_) => true,
    };
    let of_host = |host: &Config| match host.get_ssl_mode() {
        // An address is where the connection goes, whatever the name.
        _ if match host.get_hostaddrs() {
            [] => host.get_hosts().iter().all(is_local),
            addresses => addresses.iter().all(IpAddr::is_loopback),
        } =>
        {
            Protection::Local
        }
        SslMode::Require if server.verified => Protection::Verified,
        SslMode::Require => Protection::Unverified,
        _ => Protection::Plain,
    };
    server.hosts.iter().map(of_host).min().unwrap_or(Protection::Plain)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TimeLimits;

    #[test]
    fn weakest_host_decides_the_protection() {
        for (url, expected) in [
            ("postgres://u@localhost/d", Protection::Local),
            ("postgres://u@127.0.0.1/d?sslmode=disable", Protection::Local),
            ("postgres://u@[::1],localhost/d", Protection::Local),
            ("postgres://u@%2Frun%2Fpostgresql/d", Protection::Local),
            ("postgres://u@db.example/d?hostaddr=127.0.0.1", Protection::Local),
            ("postgres://u@localhost/d?hostaddr=10.0.0.1", Protection::Plain),
            ("postgres://u@db.example/d", Protection::Plain),
            ("postgres://u@localhost,db.example/d", Protection::Plain),
            ("postgres://u@10.0.0.1/d?sslmode=disable", Protection::Plain),
            ("postgres://u@db.example/d?sslmode=require", Protection::Unverified),
        ] {
            let server = Server::from_url(url, TimeLimits::default()).unwrap();
            assert_eq!(protection(&server), expected, "{url}");
        }
        let url = "postgres://u@db.example/d?sslmode=require";
        let mut verified = Server::from_url(url, TimeLimits::default()).unwrap();
        verified.verified = true;
        assert_eq!(protection(&verified), Protection::Verified);
    }
}
