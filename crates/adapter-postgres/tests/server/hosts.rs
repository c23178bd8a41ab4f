//! Several servers of which one accepts writes.

use domain::ports::OrderRepo as _;
use test_servers::postgres::{Cluster, Database, PASSWORD, SUPERUSER, Stop};

use super::{closed_port, create, not_created, open, store, store_at, unavailable, until};

/// Returns the URL of a database on several servers, in this order.
fn url(database: &Database<'_>, servers: &[&Cluster], parameters: &str) -> String {
    let hosts: Vec<_> =
        servers.iter().map(|server| format!("127.0.0.1:{}", server.port())).collect();
    format!("postgres://{SUPERUSER}:{PASSWORD}@{}/{}?{parameters}", hosts.join(","), database.name)
}

#[tokio::test(flavor = "multi_thread")]
async fn writable_host_is_found_among_several() {
    let primary = Cluster::start(&[]);
    let database = primary.database();
    store_at(&database.url()).await;
    let standby = primary.standby();
    until("the standby follows", async || {
        primary.sql("postgres", "SELECT count(*) FROM pg_stat_replication") == "1"
    })
    .await;

    let to_standby = open(&url(&database, &[&standby], ""), 2);
    unavailable(to_standby.check().await);
    not_created(create(&to_standby, "nowhere").await);

    // In either order, and each store several times, on several connections.
    let parameters = "target_session_attrs=read-write&connect_timeout=60";
    let open = |servers: &[&Cluster], parameters| open(&url(&database, servers, parameters), 2);
    // With several hosts, read-write is the default.
    let stores = [
        open(&[&standby, &primary], parameters),
        open(&[&primary, &standby], parameters),
        open(&[&standby, &primary], "connect_timeout=60"),
    ];
    for (number, store) in stores.iter().enumerate() {
        store.check().await.unwrap();
        create(store, &format!("F-{number}")).await.unwrap();
    }

    // A server that accepts connections and says nothing must not hide the next one.
    standby.freeze();
    let store = open(&[&standby, &primary], "connect_timeout=5");
    // On a busy machine, the next one may not answer within the limit, either. It is then asked first.
    until("the order is created", async || create(&store, "past the frozen one").await.is_ok())
        .await;
    standby.thaw();

    let written = primary.sql("postgres", "SELECT pg_current_wal_flush_lsn()");
    let replayed = format!("SELECT replay_lsn >= '{written}' FROM pg_stat_replication");
    until("the standby has all", async || primary.sql("postgres", &replayed) == "t").await;
    primary.stop(Stop::Kill);
    for store in &stores {
        not_created(create(store, "too early").await);
    }
    standby.promote();
    for (number, store) in stores.iter().enumerate() {
        until("the store has found the new primary", async || store.check().await.is_ok()).await;
        create(store, &format!("G-{number}")).await.unwrap();
    }
    assert_eq!(
        standby.sql(&database.name, "SELECT string_agg(file_number, ' ' ORDER BY id) FROM orders"),
        "F-0 F-1 F-2 past the frozen one G-0 G-1 G-2"
    );
}

#[tokio::test]
async fn one_reachable_host_is_enough() {
    let database = Cluster::shared().database();
    let server = Cluster::shared();
    let reserved = closed_port();
    let closed = reserved.local_addr().unwrap().port();
    let url = format!(
        "postgres://{SUPERUSER}:{PASSWORD}@127.0.0.1:{closed},[::1]:{closed},localhost:{}/{}",
        server.port(),
        database.name
    );
    let store = store_at(&url).await;
    create(&store, "F-1").await.unwrap();
}

#[tokio::test]
async fn read_only_database_is_unavailable() {
    let (store, database) = store().await;
    database
        .sql(&format!("ALTER DATABASE {} SET default_transaction_read_only = on", database.name));
    unavailable(store.check().await);
    not_created(create(&store, "F-1").await);
    database.cluster.sql(
        "postgres",
        &format!("ALTER DATABASE {} RESET default_transaction_read_only", database.name),
    );
    store.check().await.unwrap();
    create(&store, "F-1").await.unwrap();
}
