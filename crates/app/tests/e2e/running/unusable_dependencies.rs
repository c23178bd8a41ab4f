//! A database that cannot be used, and a bucket or relay that rejects the settings, stop the start
//! with one line, which names the setting and the cause but no secret.

use test_servers::postgres::{Cluster, PASSWORD, SUPERUSER};

use crate::{
    harness::service_process::{ServiceProcess, error_of, fail, notary_orders, run},
    wiring::Wiring,
};

fn assert_start_fails(wiring: &Wiring, flag: &str, cause: &str) {
    let error = fail(wiring, &[flag]);
    assert_eq!(error.lines().count(), 1, "{flag}: {error}");
    assert!(!error.contains("secret") && !error.contains(PASSWORD), "{flag}: {error}");
    let setting = flag.split('=').next().unwrap();
    assert!(error.starts_with(&format!("error: {setting} (")), "{flag}: {error}");
    assert!(error.contains(cause), "{flag}: {error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn unusable_database_stops_the_start() {
    const WRONG_PASSWORD: &str = "password authentication failed";
    let superuser = || format!("{SUPERUSER}:{PASSWORD}");
    let wiring = Wiring::production_without_tables();
    let (port, database) = (Cluster::shared().port(), Cluster::shared().database());
    database.sql(
        "CREATE ROLE powerless LOGIN PASSWORD 'the-secret'; \
         REVOKE CREATE ON SCHEMA public FROM PUBLIC",
    );
    let read_only = Cluster::shared().database();
    run(&wiring, &[&format!("--database-url={}", read_only.url()), "migrate"]);
    let name = &read_only.name;
    read_only.sql(&format!("ALTER DATABASE {name} SET default_transaction_read_only = on"));
    let name = &database.name;
    let root = Cluster::shared().root_certificate().display();
    let server = format!("127.0.0.1:{port}");
    for (user, address, cause) in [
        (format!("{SUPERUSER}:another-secret"), format!("{server}/{name}"), WRONG_PASSWORD),
        ("nobody:secret".to_owned(), format!("{server}/{name}"), WRONG_PASSWORD),
        ("powerless:the-secret".to_owned(), format!("{server}/{name}"), "permission denied"),
        (superuser(), format!("{server}/nowhere"), "database \"nowhere\" does not exist"),
        (superuser(), format!("127.0.0.1:1/{name}"), "Connection refused"),
        (superuser(), format!("no-such-host.invalid/{name}"), "failed to lookup address"),
        (superuser(), format!("{server}/{name}?sslmode=verify-full"), "certificate"),
        (
            superuser(),
            format!("{server}/{name}?sslmode=verify-full&sslrootcert={root}"),
            "certificate",
        ),
        (
            superuser(),
            format!("{server}/{name}?sslmode=verify-full&sslrootcert=/nowhere.pem"),
            "/nowhere.pem",
        ),
        (superuser(), format!("{server}/{name}?sslmode=maybe"), "sslmode must be"),
        (superuser(), format!("{server}/{name}?pgbouncer=true"), "the parameter pgbouncer"),
    ] {
        let flag = format!("--database-url=postgres://{user}@{address}");
        assert_start_fails(&wiring, &flag, cause);
    }
    for (url, cause) in [
        ("postgres://".to_owned(), "is not a URL of PostgreSQL"),
        (read_only.url(), "the database is read-only"),
        (format!("mysql://{SUPERUSER}:{PASSWORD}@127.0.0.1/{name}"), "is neither postgres://"),
    ] {
        assert_start_fails(&wiring, &format!("--database-url={url}"), cause);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn start_without_a_secrets_key_warns() {
    let key = "--secrets-key=b25seS1mb3ItdHJ5aW5nLW91dC1mb3Itd2ViaG9va3M=";
    for (flags, warnings) in [(&[][..], 1), (&[key], 0)] {
        let log =
            ServiceProcess::start(&Wiring::production_without_tables(), flags).stop_and_read_log();
        let warning = "no webhook can be created or sent: set --secrets-key";
        assert_eq!(log.matches(warning).count(), warnings, "{log}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn unusable_document_store_stops_the_start() {
    let wiring = Wiring::production_without_tables();
    let url = wiring.servers().documents_url();
    for (url, cause) in [
        (url.replace("s3://documents", "s3://nowhere"), "bucket"),
        (url.replace("s3://", "s3://user:secret@"), "credentials"),
        (format!("{url}&secret=1"), "parameter"),
        ("s3://".to_owned(), "bucket"),
        ("swift://documents".to_owned(), "scheme"),
    ] {
        assert_start_fails(&wiring, &format!("--documents-url={url}"), cause);
    }
    let mut wrong_key = notary_orders(&wiring, &[]);
    wrong_key.env("AWS_SECRET_ACCESS_KEY", "another-secret");
    let error = error_of(wrong_key.output().unwrap());
    assert!(error.contains("--documents-url") && error.contains("403"), "{error}");
    assert!(!error.contains("another-secret"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn unusable_mail_relay_stops_the_start() {
    let wiring = Wiring::production_without_tables();
    for (url, cause) in [
        (
            wiring.servers().relay().url_with(Some(("orders", "the-secret"))),
            "the user or the password",
        ),
        ("smtp://?secret=1".to_owned(), "host"),
        ("pigeon://user:secret@host".to_owned(), "scheme"),
    ] {
        assert_start_fails(&wiring, &format!("--mail-url={url}"), cause);
    }
}
