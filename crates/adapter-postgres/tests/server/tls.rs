//! Encrypted connections and trusted servers.

use domain::ports::OrderRepo as _;
use test_servers::postgres::{Cluster, Database, PASSWORD, SUPERUSER};

use super::{GENEROUS, PostgresStore, log_line, unavailable};

/// Returns whether connections by this URL are encrypted, or why there are none.
async fn encrypted(database: &Database<'_>, host: &str, parameters: &str) -> Result<bool, String> {
    let url = format!(
        "postgres://{SUPERUSER}:{PASSWORD}@{host}:{}/{}?application_name=tls&{parameters}",
        database.cluster.port(),
        database.name
    );
    let store = PostgresStore::open(&url, 1, GENEROUS).map_err(|error| log_line(&error))?;
    if let Err(error) = store.migrate().await {
        // Requests fail in the same way.
        unavailable(store.check().await);
        return Err(log_line(&error));
    }
    store.check().await.unwrap();
    let of_this = "FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) \
        WHERE application_name = 'tls' AND datname = current_database()";
    let seen = database.sql(&format!("SELECT DISTINCT ssl {of_this}"));
    Ok(match seen.as_str() {
        "t" => true,
        "f" => false,
        other => panic!("{other}"),
    })
}

fn root(of: &Cluster) -> String {
    format!("sslrootcert={}", of.root_certificate().display())
}

#[tokio::test]
async fn sslmode_decides_encryption() {
    let server = Cluster::shared();
    let root = root(server);
    for (host, parameters, expected) in [
        ("127.0.0.1", String::new(), true),
        ("127.0.0.1", "sslmode=disable".to_owned(), false),
        ("127.0.0.1", "sslmode=prefer".to_owned(), true),
        ("127.0.0.1", "sslmode=require".to_owned(), true),
        ("localhost", format!("sslmode=require&{root}"), true),
        ("localhost", format!("sslmode=verify-full&{root}"), true),
        ("localhost", format!("{root}&channel_binding=require&sslmode=verify-full"), true),
    ] {
        assert_eq!(
            encrypted(&server.database(), host, &parameters).await,
            Ok(expected),
            "{parameters}"
        );
    }
}

#[tokio::test]
async fn unverified_server_is_rejected() {
    let (server, other) = (Cluster::shared(), Cluster::start(&[]));
    let database = server.database();
    for (host, parameters, cause) in [
        // As in an attack from the middle: another authority has signed the certificate.
        (
            "localhost",
            format!("sslmode=verify-full&{}", root(&other)),
            "its certificate is of no authority that is trusted here",
        ),
        (
            "localhost",
            format!("sslmode=require&{}", root(&other)),
            "its certificate is of no authority that is trusted here",
        ),
        (
            "127.0.0.1",
            format!("sslmode=verify-full&{}", root(server)),
            "its certificate is for another name",
        ),
        (
            "127.0.0.1",
            format!("sslmode=require&{}", root(server)),
            "its certificate is for another name",
        ),
    ] {
        let rejected = encrypted(&database, host, &parameters).await.unwrap_err();
        assert!(rejected.contains(cause), "{parameters}: {rejected}");
    }
    // The system does not trust this authority.
    encrypted(&database, "localhost", "sslmode=verify-full").await.unwrap_err();
}

#[tokio::test]
async fn server_without_tls_needs_disable_or_prefer() {
    let server = Cluster::start(&["ssl = off"]);
    let database = server.database();
    let root = root(&server);
    for parameters in ["sslmode=disable", "sslmode=prefer", ""] {
        assert_eq!(encrypted(&database, "localhost", parameters).await, Ok(false), "{parameters}");
    }
    for parameters in [
        "sslmode=require".to_owned(),
        format!("sslmode=require&{root}"),
        format!("sslmode=verify-full&{root}"),
    ] {
        let rejected = encrypted(&database, "localhost", &parameters).await.unwrap_err();
        assert!(rejected.contains("server does not support TLS"), "{parameters}: {rejected}");
    }
}

#[tokio::test]
async fn unreadable_root_certificates_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let (empty, rubbish) = (folder.path().join("empty.pem"), folder.path().join("rubbish.pem"));
    std::fs::write(&empty, "").unwrap();
    std::fs::write(&rubbish, "-----BEGIN CERTIFICATE-----\nnothing\n-----END CERTIFICATE-----\n")
        .unwrap();
    let database = Cluster::shared().database();
    let one_line = folder.path().join("one line.pem");
    std::fs::write(&one_line, "-----BEGIN PRIVATE KEY-----secret-----END PRIVATE KEY-----")
        .unwrap();
    for file in
        [&empty, &rubbish, &one_line, &folder.path().join("missing.pem"), &folder.path().to_owned()]
    {
        let rejected = encrypted(
            &database,
            "localhost",
            &format!("sslmode=verify-full&sslrootcert={}", file.display()),
        )
        .await
        .unwrap_err();
        assert!(rejected.contains(file.to_str().unwrap()), "{rejected}");
        // Byte values are a quotation, too.
        assert!(!rejected.contains("secret") && !rejected.contains("115, 101"), "{rejected}");
    }
}
