//! `doctor` on PostgreSQL, S3 and SMTP, with each of them broken in turn.

use std::{net::TcpStream, sync::Arc};

use contract_tests::fakes::ManualClock;
use operator::{Machine, doctor::examine};
use test_servers::{
    postgres::{Cluster, pgbouncer::PgBouncer},
    s3,
    smtp::{Phase, Treatment},
};

use crate::{
    harness::service_process::{ServiceProcess, SqlSession, notary_orders, run},
    harness::{created, eventually, settings},
    operators::doctor::report::Report,
    wiring::Wiring,
};

/// A database server that waits for its disk, unlike that of the other tests.
fn durable() -> Wiring {
    Wiring::with_database_server(Cluster::start(&["fsync = on", "full_page_writes = on"]))
}

fn migrated(wiring: Wiring) -> Wiring {
    run(&wiring, &["migrate"]);
    wiring
}

#[test]
fn healthy_dependencies_have_no_failure() {
    let wiring = migrated(durable());
    let report = Report::on(&wiring, &["--mail-from=orders@example.com"]);
    assert_eq!(report.failed(), [""; 0], "{}", report.text);
    // On the machine, and on its clock.
    let depends = ["webhooks", "disk", "encryption", "tzdata"];
    assert!(report.doubted().iter().all(|name| depends.contains(name)), "{}", report.text);
    assert!(report.found("warn", "webhooks").contains("no key"), "{}", report.text);
    let database = report.found("ok", "database");
    assert!(database.contains("PostgreSQL ") && database.contains("durable"), "{}", report.text);
    assert!(database.contains("stay on this machine"), "{}", report.text);
    assert!(report.found("ok", "documents").contains("bucket"), "{}", report.text);
    assert!(report.found("ok", "mail").contains("relay accepts"), "{}", report.text);
    assert_eq!(report.found("ok", "clock").lines().count(), 2, "{}", report.text);
    let sealed = format!("--documents-url={}&sse=aes256", wiring.servers().bucket().url());
    let sealed = Report::on(&wiring, &[&sealed]);
    assert!(sealed.found("ok", "documents").contains("put with sse=aes256"), "{}", sealed.text);
    assert_eq!(wiring.servers().bucket().objects().len(), 0);
    assert_eq!(wiring.servers().relay().mails().len(), 0);
    let localhost = Report::on(&wiring, &[]);
    assert!(localhost.found("warn", "mail").contains("localhost"), "{}", localhost.text);
}

#[test]
fn unusable_database_is_named() {
    let shared = Cluster::shared();
    let wiring = Wiring::production_without_tables();
    let report = Report::on(&wiring, &[]);
    assert!(report.found("warn", "database").contains("lacks"), "{}", report.text);
    assert!(report.found("fail", "database").contains("fsync is off"), "{}", report.text);
    // Nothing was made.
    assert_eq!(
        wiring.servers().query("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'"),
        "0"
    );

    let database = shared.database();
    database.sql(
        "CREATE ROLE limited LOGIN PASSWORD 'the-secret' CONNECTION LIMIT 10; \
         REVOKE CREATE ON SCHEMA public FROM PUBLIC",
    );
    let pooler = PgBouncer::start(shared, &["pool_mode = transaction"]);
    for (url, causes) in [
        (database.url_as("limited", "another-secret"), &["password authentication failed"][..]),
        (
            database.url_as("limited", "the-secret"),
            &["may not create tables", "gives this user 10 connections"],
        ),
        (pooler.url(&database), &["pool_mode = session"]),
        ("postgres://user:the-secret@127.0.0.1:1/db".to_owned(), &["Connection refused"]),
        ("mysql://user:the-secret@127.0.0.1:1/db".to_owned(), &["is neither postgres://"]),
    ] {
        let report = Report::on(&wiring, &[&format!("--database-url={url}")]);
        for cause in causes {
            assert!(report.found("fail", "database").contains(cause), "{}", report.text);
        }
        for secret in ["the-secret", "another-secret"] {
            assert!(!report.text.contains(secret), "{}", report.text);
        }
        // The others are not hidden.
        assert!(report.found("ok", "documents").contains("bucket"), "{}", report.text);
    }
    let name = &database.name;
    database.sql(&format!("ALTER DATABASE {name} SET default_transaction_read_only = on"));
    let report = Report::on(&wiring, &[&format!("--database-url={}", database.url())]);
    assert!(report.found("fail", "database").contains("read-only"), "{}", report.text);
}

/// The database refuses most orders then.
#[test]
fn sequence_that_draws_ahead_is_named_with_its_remedy() {
    let wiring = migrated(Wiring::production_without_tables());
    wiring.lines("ALTER SEQUENCE orders_id_seq CACHE 50");
    let report = Report::on(&wiring, &[]);
    let found = report.found("fail", "database");
    assert!(found.contains("run ALTER SEQUENCE orders_id_seq CACHE 1"), "{}", report.text);
}

#[test]
fn unusable_bucket_is_named() {
    let wiring = migrated(Wiring::production_without_tables());
    let cause = |cause: &str| {
        let report = Report::on(&wiring, &[]);
        assert!(report.found("fail", "documents").contains(cause), "{cause}: {}", report.text);
        assert!(report.found("ok", "mail").contains("relay accepts"), "{}", report.text);
    };
    let mut wrong_key = notary_orders(&wiring, &["doctor", "--json"]);
    wrong_key.env("AWS_SECRET_ACCESS_KEY", "another-secret");
    let report = Report::of(wrong_key);
    assert!(report.found("fail", "documents").contains("403"), "{}", report.text);
    assert!(!report.text.contains("another-secret"), "{}", report.text);
    wiring.servers().bucket().treat(|_| s3::Treatment::Refuse(403));
    cause("403");
    // A proxy that knows nothing of S3.
    wiring.servers().bucket().treat(|_| s3::Treatment::Pretend);
    cause("no object can be put, read and removed");
    wiring.break_documents();
    cause("no object can be put, read and removed");
}

#[test]
fn unusable_relay_is_named() {
    let wiring = migrated(Wiring::production_without_tables());
    let cause = |flags: &[&str], cause: &str| {
        let report = Report::on(&wiring, flags);
        assert!(report.found("fail", "mail").contains(cause), "{cause}: {}", report.text);
        assert!(report.found("ok", "documents").contains("bucket"), "{}", report.text);
        assert!(!report.text.contains("the-secret"), "{}", report.text);
    };
    let wrong = wiring.servers().relay().url_with(Some(("orders", "the-secret")));
    cause(&[&format!("--mail-url={wrong}")], "the user or the password");
    wiring.servers().relay().treat_phase(Phase::Mail, Treatment::Refuse("550 5.7.1 no"));
    cause(&[], "the sender");
    wiring.servers().relay().stop();
    cause(&[], "no connection");
}

#[tokio::test(flavor = "multi_thread")]
async fn skewed_clock_is_a_failure() {
    let wiring = migrated(Wiring::production_without_tables());
    let settings = settings(&wiring, &[], &[]);
    let clock = Arc::<ManualClock>::default();
    let machine = Machine { clock, ..Machine::default() };
    let mut clocks = Vec::new();
    examine(&settings, &machine, |finding| {
        if finding.check == "clock" {
            clocks.push(finding.to_string());
        }
        Ok(())
    })
    .await
    .unwrap();
    assert_eq!(clocks.len(), 2, "{clocks:?}");
    for (clock, other) in clocks.iter().zip(["database", "document store"]) {
        let begin = format!("fail  clock        the clock of the {other} is ");
        assert!(clock.starts_with(&begin) && clock.ends_with(" by NTP."), "{clocks:?}");
        assert_eq!(clock.contains("sends no mail"), other == "database", "{clocks:?}");
    }
}

/// An erasure leaves its row, though it waits while everything else has ended.
#[tokio::test(flavor = "multi_thread")]
async fn stop_during_an_erasure_leaves_no_gap() {
    let wiring = Wiring::production_without_tables();
    let service = ServiceProcess::keyed(&wiring, &[]);
    created(service.order("F-1").await).await;
    eventually(|| wiring.rows("events") == 0).await;
    service.stop_and_read_log();
    wiring.execute(
        "UPDATE orders SET created_at = '2020-01-01', updated_at = '2020-01-01', \
        starts_at = '2020-01-01', ends_at = '2020-01-01', signing_date = '2020-01-01'",
    );
    // The erasure stores its access last.
    let lock = "BEGIN; LOCK TABLE accesses IN EXCLUSIVE MODE";
    let mut lock = SqlSession::holding(wiring.sql(), lock);
    let service = ServiceProcess::start(&wiring, &["--erase-after-days=30"]);
    let waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted AND \
        relation = 'accesses'::regclass";
    eventually(|| wiring.lines(waiting) == ["1"]).await;

    let ops = service.ops_address;
    let stopped = tokio::task::spawn_blocking(move || service.stop("-TERM").0);
    eventually(|| TcpStream::connect(ops).is_err()).await;
    assert!(lock.run("ROLLBACK"));

    assert_eq!(stopped.await.unwrap(), Some(0));
    let rows =
        "SELECT number, outcome, ended_at IS NOT NULL FROM accesses JOIN access_runs ON id = run";
    assert_eq!(wiring.lines(rows), ["1|ok|t"]);
    let report = Report::on(&wiring, &[]);
    assert!(report.found("ok", "accesses").contains("has its row"), "{}", report.text);
}

/// Each is alone on the machine.
mod timing {
    use std::time::{Duration, Instant};

    use test_servers::smtp::{Phase, Treatment};

    use super::migrated;
    use crate::{operators::doctor::report::Report, wiring::Wiring};

    #[test]
    fn silent_dependencies_do_not_hold_the_report_up() {
        let wiring = migrated(Wiring::with_a_database_server());
        wiring.servers().silence_documents();
        wiring.servers().relay().treat_phase(Phase::Greeting, Treatment::Stall);
        wiring.servers().database_server().freeze();
        let began = Instant::now();
        let report = Report::on(&wiring, &[]);
        let took = began.elapsed();
        wiring.servers().database_server().thaw();
        assert_eq!(report.failed(), ["database", "documents"], "{}", report.text);
        // The service waits longer for a relay than the report.
        assert_ne!(report.found("warn", "mail"), "", "{}", report.text);
        assert_ne!(report.found("ok", "proxies"), "", "{}", report.text);
        assert!(took < Duration::from_secs(40), "{took:?}");
    }
}
