//! A dependency that cannot be used stops the start with one line, which names the setting and the
//! cause and no secret.

use test_servers::postgres::{Cluster, PASSWORD, SUPERUSER};

use crate::{service_process::output, wiring::Wiring};

/// Starts the service with a flag that cannot work; what it says.
fn refusal(wiring: &Wiring, flag: &str) -> String {
    let output = output(wiring, &[flag]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success(), "{flag}: {said}");
    assert_eq!(said.lines().count(), 1, "{flag}: {said}");
    assert!(!said.contains("secret") && !said.contains(PASSWORD), "{flag}: {said}");
    said
}

fn assert_refused(wiring: &Wiring, flag: &str, cause: &str) {
    let said = refusal(wiring, flag);
    let named = flag.split('=').next().unwrap();
    assert!(
        said.starts_with(&format!("error: {named} (")) && said.contains(cause),
        "{flag}: {said}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_database() {
    let wiring = Wiring::new();
    let (port, database) = (Cluster::shared().port(), Cluster::shared().database());
    database.sql("CREATE ROLE powerless LOGIN PASSWORD 'the-secret'; REVOKE CREATE ON SCHEMA public FROM PUBLIC");
    let name = &database.name;
    let read_only = Cluster::shared().database();
    assert!(
        output(&wiring, &[&format!("--database-url={}", read_only.url()), "migrate"])
            .status
            .success()
    );
    read_only
        .sql(&format!("ALTER DATABASE {} SET default_transaction_read_only = on", read_only.name));
    let root = Cluster::shared().root_certificate().display();
    for (url, cause) in [
        (
            format!("postgres://{SUPERUSER}:another-secret@127.0.0.1:{port}/{name}"),
            "password authentication failed",
        ),
        (
            format!("postgres://{SUPERUSER}:{PASSWORD}@127.0.0.1:{port}/nowhere"),
            "database \"nowhere\" does not exist",
        ),
        (
            format!("postgres://nobody:secret@127.0.0.1:{port}/{name}"),
            "password authentication failed",
        ),
        (format!("postgres://{SUPERUSER}:{PASSWORD}@127.0.0.1:1/{name}"), "Connection refused"),
        (
            format!("postgres://{SUPERUSER}:{PASSWORD}@no-such-host.invalid/{name}"),
            "failed to lookup address",
        ),
        (format!("postgres://powerless:the-secret@127.0.0.1:{port}/{name}"), "permission denied"),
        (
            format!(
                "postgres://{SUPERUSER}:{PASSWORD}@127.0.0.1:{port}/{name}?sslmode=verify-full"
            ),
            "certificate",
        ),
        (
            format!(
                "postgres://{SUPERUSER}:{PASSWORD}@127.0.0.1:{port}/{name}?sslmode=verify-full&sslrootcert={root}"
            ),
            "certificate",
        ),
        (
            format!(
                "postgres://{SUPERUSER}:{PASSWORD}@127.0.0.1:{port}/{name}?sslmode=verify-full&sslrootcert=/nowhere.pem"
            ),
            "/nowhere.pem",
        ),
        (
            format!("postgres://{SUPERUSER}:{PASSWORD}@127.0.0.1:{port}/{name}?sslmode=maybe"),
            "sslmode must be",
        ),
        (
            format!("postgres://{SUPERUSER}:{PASSWORD}@127.0.0.1:{port}/{name}?secret=1"),
            "is not a URL of PostgreSQL",
        ),
        ("postgres://".to_owned(), "is not a URL of PostgreSQL"),
        (read_only.url(), "the database takes no writes"),
        (format!("mysql://{SUPERUSER}:{PASSWORD}@127.0.0.1/{name}"), "is neither postgres://"),
    ] {
        assert_refused(&wiring, &format!("--database-url={url}"), cause);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_document_store() {
    let wiring = Wiring::new();
    let url = wiring.documents_url();
    for (url, cause) in [
        (url.replace("s3://documents", "s3://nowhere"), "bucket"),
        (
            "s3://documents/orders?endpoint=http://127.0.0.1:1&region=us-east-1".to_owned(),
            "Connection refused",
        ),
        (url.replace("s3://", "s3://user:secret@"), "credentials"),
        (format!("{url}&secret=1"), "parameter"),
        ("s3://".to_owned(), "bucket"),
        ("swift://documents".to_owned(), "scheme"),
    ] {
        assert_refused(&wiring, &format!("--documents-url={url}"), cause);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_mail_relay() {
    let wiring = Wiring::new();
    for (url, cause) in [
        ("smtp://127.0.0.1:1", "Connection refused"),
        ("smtp://orders:secret@127.0.0.1:1", "Connection refused"),
        ("smtp://no-such-host.invalid", "no-such-host.invalid"),
        ("smtp://?secret=1", "host"),
        ("pigeon://user:secret@host", "scheme"),
    ] {
        assert_refused(&wiring, &format!("--mail-url={url}"), cause);
    }
}
