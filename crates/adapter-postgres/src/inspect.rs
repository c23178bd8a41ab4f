//! What an operator should know about a server. Reads only.

use std::net::IpAddr;

use diesel::{
    prelude::*,
    sql_query,
    sql_types::{BigInt, Bool, Integer, Text, Timestamptz},
};
use diesel_async::{AsyncPgConnection, RunQueryDsl};
use domain::ports::Clock;
use time::{Duration, OffsetDateTime};
use tokio_postgres::{
    Config,
    config::{Host, SslMode},
};

use crate::{MigrateError, connect::Server, migrations};

/// The facts. A limit of -1 means none, and `least` skips nulls.
const FACTS: &str = "SELECT current_setting('server_version') AS version, \
    current_setting('server_version_num')::integer AS version_number, \
    current_setting('transaction_read_only')::boolean AS is_read_only, \
    coalesce(has_schema_privilege(current_schema(), 'CREATE'), false) AS may_create_tables, \
    current_setting('fsync')::boolean AS fsync, \
    current_setting('full_page_writes')::boolean AS full_page_writes, \
    current_setting('synchronous_commit') AS synchronous_commit, \
    current_setting('synchronous_standby_names') <> '' AS waits_for_standbys, \
    (SELECT count(*) FROM pg_stat_replication) AS standbys, \
    least(current_setting('max_connections')::bigint \
        - current_setting('superuser_reserved_connections')::bigint, \
        (SELECT nullif(rolconnlimit, -1) FROM pg_roles WHERE rolname = current_user), \
        (SELECT nullif(datconnlimit, -1) FROM pg_database \
            WHERE datname = current_database())) AS connections";

/// The settings and the state of a server.
#[derive(Debug, QueryableByName)]
#[expect(clippy::struct_excessive_bools, reason = "each is one setting or state of the server")]
pub struct Facts {
    /// Its version, such as `17.6`.
    #[diesel(sql_type = Text)]
    pub version: String,
    /// Its version as a number, such as 170006.
    #[diesel(sql_type = Integer)]
    pub version_number: i32,
    /// Whether it rejects writes.
    #[diesel(sql_type = Bool)]
    pub is_read_only: bool,
    /// Whether the user may create tables, which migrations need.
    #[diesel(sql_type = Bool)]
    pub may_create_tables: bool,
    /// Whether it waits for its disk.
    #[diesel(sql_type = Bool)]
    pub fsync: bool,
    /// Whether it can repair pages that a crash left half written.
    #[diesel(sql_type = Bool)]
    pub full_page_writes: bool,
    /// Its default for what a commit waits for. The service replaces `off`.
    #[diesel(sql_type = Text)]
    pub synchronous_commit: String,
    /// Whether a commit waits for standbys.
    #[diesel(sql_type = Bool)]
    pub waits_for_standbys: bool,
    /// Number of standbys that are connected.
    #[diesel(sql_type = BigInt)]
    pub standbys: i64,
    /// Number of connections that it gives to all clients of this user.
    #[diesel(sql_type = BigInt)]
    pub connections: i64,
}

/// What an operator should know about a database.
#[derive(Debug)]
pub struct Inspection {
    /// The settings and the state of the server.
    pub facts: Facts,
    /// Number of missing migrations, or why a start would fail.
    pub missing_migrations: Result<usize, MigrateError>,
    /// Whether the URL permits a connection to another machine without encryption.
    pub may_be_unencrypted: bool,
    /// How far the clock of the server is ahead of ours; negative if it is behind.
    pub clock_ahead: Duration,
    /// Time of one statement, from here to the server and back.
    pub round_trip: Duration,
}

#[derive(QueryableByName)]
struct ServerClock {
    #[diesel(sql_type = Timestamptz)]
    now: OffsetDateTime,
}

pub(crate) async fn inspect(
    server: &Server,
    clock: &dyn Clock,
) -> Result<Inspection, MigrateError> {
    if server.shares_sessions().await? {
        return Err(MigrateError::Pooler);
    }
    // Without the settings of a session, which would hide those of the server.
    let mut connection = server.connect_unlimited().await?;
    let (clock_ahead, round_trip) = compare_clocks(&mut connection, clock).await?;
    Ok(Inspection {
        facts: sql_query(FACTS).get_result(&mut connection).await?,
        missing_migrations: migrations::check(&mut connection).await,
        may_be_unencrypted: server.hosts().iter().any(may_be_unencrypted),
        clock_ahead,
        round_trip,
    })
}

/// Returns how far the clock of the server is ahead, and the time of the statement.
async fn compare_clocks(
    connection: &mut AsyncPgConnection,
    clock: &dyn Clock,
) -> Result<(Duration, Duration), MigrateError> {
    let query = || sql_query("SELECT clock_timestamp() AS now");
    // The first time, the server also plans the statement.
    query().get_result::<ServerClock>(connection).await?;
    let before = clock.now();
    let theirs = query().get_result::<ServerClock>(connection).await?.now;
    let round_trip = clock.now() - before;
    Ok((theirs - (before + round_trip / 2), round_trip))
}

fn may_be_unencrypted(host: &Config) -> bool {
    let is_remote = |host: &Host| match host {
        Host::Tcp(name) => {
            name != "localhost" && !name.parse().is_ok_and(|ip: IpAddr| ip.is_loopback())
        }
        Host::Unix(_) => false,
    };
    host.get_ssl_mode() != SslMode::Require && host.get_hosts().iter().any(is_remote)
}
