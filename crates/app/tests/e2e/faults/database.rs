//! The database is slow, cuts connections, has no connection left, or has a full disk.

use std::{sync::Arc, time::Duration};

use futures_util::future::join_all;
use reqwest::StatusCode;
use test_servers::{
    postgres::{Cluster, Stop},
    proxy::{Cut, Proxy},
};

use crate::{
    harness::service_process::SqlSession,
    harness::small_disk::{SmallDisk, done_with_mounts_of_its_own},
    harness::{
        CREATE, CREATE_WITH_DOCUMENTS, TestApp, assert_unavailable, created, deed, eventually,
        eventually_async, form_with_deed, order, problem,
    },
    wiring::{Kind, Wiring, disconnect, psql},
};

/// Repeats an order until it is created. Returns whether the first attempt had created it.
async fn repeat(app: &TestApp, path: &str, file_number: &str) -> bool {
    let mut is_replayed = false;
    eventually_async(async || {
        let response = app.send_with_key(path, file_number).await;
        if response.status() == StatusCode::CREATED {
            is_replayed = response.headers().contains_key("idempotency-replayed");
            return true;
        }
        assert!(matches!(response.status().as_u16(), 409 | 503), "{response:?}");
        // A failed upload may leave its claim behind, which expires after 15 seconds.
        if response.status() == StatusCode::CONFLICT {
            app.clock.advance(time::Duration::SECOND);
        }
        false
    })
    .await;
    is_replayed
}

/// Waits until the service creates an order again.
async fn recovered(app: &TestApp) {
    eventually_async(async || {
        app.send_with_key(CREATE, "F-after").await.status() == StatusCode::CREATED
    })
    .await;
}

/// Asserts that each order exists once, with exactly its documents and its mail.
async fn assert_complete(app: TestApp, orders: usize, documents: usize) {
    assert_eq!(
        app.wiring.servers().query("SELECT count(*), count(DISTINCT file_number) FROM orders"),
        format!("{orders}|{orders}")
    );
    app.assert_spool_empty();
    // Mails are delivered at least once.
    app.clock.advance(time::Duration::hours(2));
    app.mails_leave().await;
    assert!(app.wiring.mails().len() >= orders);
    let app = app.restart(&[]).await;
    eventually(|| app.rows("uploads") == 0).await;
    assert_eq!(app.documents(), vec![deed(); documents]);
    let (objects, keys) = (app.wiring.objects(), app.wiring.servers().document_keys());
    assert!(keys.len() == documents && keys.iter().all(|key| objects.contains_key(key)));
}

/// Starts a service that reaches its database through a proxy.
async fn behind_a_proxy() -> (TestApp, Proxy) {
    let wiring = Wiring::with_a_database_server();
    let port = wiring.servers().database_server().port();
    let proxy = Proxy::to(port);
    // Without TLS, so that the proxy can read the messages.
    let url = wiring
        .servers()
        .database_url()
        .replace(&format!(":{port}/"), &format!(":{}/", proxy.port()))
        + "?sslmode=disable";
    let app =
        TestApp::start_on(wiring, Arc::default(), &[&format!("--database-url={url}")], None).await;
    (app, proxy)
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_database_succeeds_or_is_unavailable() {
    let (app, proxy) = behind_a_proxy().await;
    for path in [CREATE, CREATE_WITH_DOCUMENTS] {
        created(app.send_with_key(path, &format!("F-before{path}")).await).await;
        proxy.slow_down(Duration::from_millis(100));
        created(app.send_with_key(path, &format!("F-slow{path}")).await).await;
        // Two answers take longer than a call may.
        proxy.slow_down(Duration::from_secs(8));
        let number = format!("F-slower{path}");
        assert_unavailable(app.send_with_key(path, &number).await).await;
        proxy.slow_down(Duration::ZERO);
        repeat(&app, path, &number).await;
    }
    assert_complete(app, 6, 3).await;
}

/// Cuts the connection before the insert of the order, after its commit, and at other round trips.
#[tokio::test(flavor = "multi_thread")]
async fn cut_connection_leaves_whole_order_or_none() {
    let (app, proxy) = behind_a_proxy().await;
    let (mut orders, mut documents) = (0, 0);
    for path in [CREATE, CREATE_WITH_DOCUMENTS] {
        let operation = &path[path.len() - 4..];
        for (cut, stored) in [(Cut::Question(0), false), (Cut::Answer(0), true)] {
            let number = format!("F-{operation}-{cut:?}");
            proxy.cut_once(cut, &number);
            assert_unavailable(app.send_with_key(path, &number).await).await;
            assert!(proxy.was_cut());
            assert_eq!(repeat(&app, path, &number).await, stored, "{number}");
        }
        // The message that is cut may also belong to a worker.
        for at in 0..5 {
            for cut in [Cut::Question(at), Cut::Answer(at)] {
                let number = format!("F-{operation}-any-{cut:?}");
                proxy.cut_once(cut, "");
                let response = app.send_with_key(path, &number).await;
                let acknowledged = response.status() == StatusCode::CREATED;
                if acknowledged {
                    created(response).await;
                } else {
                    assert_unavailable(response).await;
                }
                proxy.was_cut();
                assert!(
                    repeat(&app, path, &number).await || !acknowledged,
                    "{number}: an acknowledged order is lost"
                );
            }
        }
        orders += 12;
        documents += if path == CREATE_WITH_DOCUMENTS { 12 } else { 0 };
    }
    assert_complete(app, orders, documents).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn server_without_connections_recovers() {
    let wiring = Wiring::with_database_server(Cluster::start(&[
        "max_connections = 12",
        "superuser_reserved_connections = 0",
    ]));
    let app = TestApp::start_on(wiring, Arc::default(), &["--database-connections=8"], None).await;
    created(app.order("F-before").await).await;
    let cluster = app.wiring.servers().database_server();
    // Keeps the service disconnected until other sessions hold every connection.
    disconnect(cluster, "orders_alone");
    let mut sessions = Vec::new();
    eventually(|| {
        let mut session = SqlSession::open(psql(&cluster.url("postgres")));
        if session.run("SELECT 1") {
            sessions.push(session);
        }
        // The session that has disconnected the service is the twelfth.
        sessions.len() == 11
    })
    .await;
    assert!(sessions[0].run("ALTER DATABASE orders_alone ALLOW_CONNECTIONS true"));
    let path = |at: usize| if at.is_multiple_of(4) { CREATE_WITH_DOCUMENTS } else { CREATE };
    let attempt = async |at: usize| {
        let response = app.send_with_key(path(at), &format!("F-{at}")).await;
        let is_created = response.status() == StatusCode::CREATED;
        if !is_created {
            assert_unavailable(response).await;
        }
        is_created
    };
    let attempts = |from: usize| join_all((from..from + 32).map(&attempt));
    let mut acknowledged = attempts(0).await;
    assert_eq!(acknowledged, [false; 32]);
    // Leaves two connections to the service.
    sessions.truncate(9);
    acknowledged.extend(attempts(32).await);
    drop(sessions);
    recovered(&app).await;
    for (at, acknowledged) in acknowledged.into_iter().enumerate() {
        assert!(
            repeat(&app, path(at), &format!("F-{at}")).await || !acknowledged,
            "F-{at}: an acknowledged order is lost"
        );
    }
    assert_complete(app, 66, 16).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn server_with_full_disk_recovers() {
    if done_with_mounts_of_its_own(module_path!(), "server_with_full_disk_recovers") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let disk = SmallDisk::at(folder.path(), 128);
    let wiring = Wiring::with_database_server(Cluster::start_in(
        folder.path(),
        &["max_wal_size = 32MB", "min_wal_size = 32MB"],
    ));
    let app = TestApp::start_on(wiring, Arc::default(), &[], None).await;
    created(app.order("F-before").await).await;
    disk.fill();
    let (mut orders, mut documents, mut failures) = (1, 0, 0);
    for at in 0.. {
        assert!(at < 2_000, "the disk is not full");
        let number = format!("F-{at}");
        let with_documents = at % 4 == 0;
        let mut long_order = order(&number);
        long_order["signingDetailsFormData"]["specialInstructions"] =
            (0..400).map(|_| fastrand::alphanumeric()).collect::<String>().into();
        let response = if with_documents {
            app.create_with(form_with_deed(&number)).await
        } else {
            app.create(&long_order).await
        };
        if response.status() == StatusCode::CREATED {
            created(response).await;
            orders += 1;
            documents += usize::from(with_documents);
        } else {
            assert_unavailable(response).await;
            failures += 1;
        }
        if failures == 8 {
            break;
        }
    }
    disk.clear();
    // PostgreSQL stops if it cannot write its log; a supervisor would restart it.
    let server = app.wiring.servers().database_server();
    if app.wiring.execute("SELECT 1").is_none() {
        server.stop(Stop::Kill);
        server.resume_after_stop();
    }
    recovered(&app).await;
    assert_complete(app, orders + 1, documents).await;
    drop(disk);
}

#[tokio::test(flavor = "multi_thread")]
async fn malformed_key_is_rejected_without_database() {
    let app = Kind::Production.app().await;
    let valid = app.key.clone();
    let unknown =
        domain::api_key::PresentedKey::random(false, &operator::OsEntropy).expose().to_owned();
    let send = async |key: &str| app.as_key(key).order("F-1").await;
    app.wiring.break_database();
    for text in [
        "nonsense",
        "nok_",
        &valid[..valid.len() - 1],
        &format!("{valid}0"),
        &valid.to_uppercase(),
        &valid.replace("nok_", "nok_test_x"),
    ] {
        problem(send(text).await, 401, "unauthorized").await;
    }
    // A well-formed key needs the database.
    problem(send(&unknown).await, 503, "unavailable").await;
}

/// Another system has locked the order for longer than a request waits.
#[tokio::test(flavor = "multi_thread")]
async fn change_of_a_locked_order_is_unavailable_and_others_are_not() {
    let app = Kind::Production.app().await;
    let order = created(app.order("F-1").await).await["order_id"].as_i64().unwrap();
    let lock = format!("BEGIN; SELECT FROM orders WHERE id = {order} FOR UPDATE");
    let held = SqlSession::holding(psql(&app.wiring.servers().database_url()), &lock);
    let cancel = format!("/api/order/{order}/cancel");

    let refused = app.post(&cancel).send().await.unwrap();

    let retry_after: u64 = refused.headers()["retry-after"].to_str().unwrap().parse().unwrap();
    assert!((1..=60).contains(&retry_after), "{retry_after}");
    problem(refused, 503, "unavailable").await;
    created(app.order("F-2").await).await;
    drop(held);
    let cancelled = app.post(&cancel).send().await.unwrap();
    assert_eq!(cancelled.status(), StatusCode::OK);
}
