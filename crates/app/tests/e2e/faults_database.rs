//! The database is slow, cuts connections in the middle of what it does, has none left, has no disk
//! left.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    process::{Child, Command, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use reqwest::{Response, StatusCode};
use test_servers::{
    postgres::{Cluster, Stop},
    proxy::{Cut, Proxy},
};

use crate::{
    harness::{
        CREATE, CREATE_WITH_DOCUMENTS, TestApp, assert_unavailable, created, deed, eventually,
        form_with_deed, order, problem,
    },
    small_disk::{SmallDisk, done_with_mounts_of_its_own},
    wiring::Wiring,
};

/// Sends an order under a key of its own.
async fn send(app: &TestApp, path: &str, file_number: &str) -> Response {
    let request = app.post(path).header("Idempotency-Key", format!("\"{file_number}\""));
    let request = if path == CREATE {
        request.json(&order(file_number))
    } else {
        request.multipart(form_with_deed(file_number))
    };
    request.send().await.unwrap()
}

/// Repeats an order until it is created; whether it had been before.
async fn repeat(app: &TestApp, path: &str, file_number: &str) -> bool {
    let began = Instant::now();
    loop {
        let response = send(app, path, file_number).await;
        if response.status() == StatusCode::CREATED {
            return response.headers().contains_key("idempotency-replayed");
        }
        assert!(matches!(response.status().as_u16(), 409 | 503), "{response:?}");
        assert!(
            began.elapsed() < Duration::from_secs(20),
            "the claim of an upload that was cut off ends after 15 seconds"
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Every order once, each document of each and nothing else, and no mail lost.
async fn assert_whole(app: TestApp, orders: usize, documents: usize) {
    assert_eq!(
        app.wiring.query("SELECT count(*), count(DISTINCT file_number) FROM orders"),
        format!("{orders}|{orders}")
    );
    app.assert_spool_empty();
    // Mails are delivered at least once.
    app.clock.advance(time::Duration::hours(2));
    eventually(|| app.rows("deliveries") == 0).await;
    assert!(app.wiring.mails().len() >= orders);
    let app = app.restart(&[]).await;
    eventually(|| app.rows("uploads") == 0).await;
    assert_eq!(app.documents(), vec![deed(); documents]);
    let (objects, keys) = (app.wiring.objects(), app.wiring.document_keys());
    assert!(keys.len() == documents && keys.iter().all(|key| objects.contains_key(key)));
}

async fn behind_a_proxy() -> (TestApp, Proxy) {
    let wiring = Wiring::with_a_database_server();
    let port = wiring.database_server().port();
    let proxy = Proxy::to(port);
    // Without TLS, so that the proxy can tell what passes.
    let url = wiring.database_url().replace(&format!(":{port}/"), &format!(":{}/", proxy.port()))
        + "?sslmode=disable";
    let app =
        TestApp::start_on(wiring, Arc::default(), &[&format!("--database-url={url}")], None).await;
    (app, proxy)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_database_is_waited_for_and_one_that_is_too_slow_is_told_of() {
    let (app, proxy) = behind_a_proxy().await;
    for path in [CREATE, CREATE_WITH_DOCUMENTS] {
        created(send(&app, path, &format!("F-before{path}")).await).await;
        proxy.slow_down(Duration::from_millis(100));
        created(send(&app, path, &format!("F-slow{path}")).await).await;
        proxy.slow_down(Duration::from_millis(1_600));
        let (number, asked) = (format!("F-slower{path}"), Instant::now());
        assert_unavailable(asked, send(&app, path, &number).await).await;
        proxy.slow_down(Duration::ZERO);
        repeat(&app, path, &number).await;
    }
    assert_whole(app, 6, 3).await;
}

/// Before the server has the statement that places the order, after it has committed it, and at
/// each other round trip.
#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_is_cut_in_the_middle_leaves_one_order_whole_or_none() {
    let (app, proxy) = behind_a_proxy().await;
    let (mut orders, mut documents) = (0, 0);
    for path in [CREATE, CREATE_WITH_DOCUMENTS] {
        let operation = &path[path.len() - 4..];
        for (cut, stored) in [(Cut::Question(0), false), (Cut::Answer(0), true)] {
            let number = format!("F-{operation}-{cut:?}");
            proxy.cut_once(cut, &number);
            let asked = Instant::now();
            assert_unavailable(asked, send(&app, path, &number).await).await;
            assert!(proxy.was_cut());
            assert_eq!(repeat(&app, path, &number).await, stored, "{number}");
        }
        // What passes may also be of a worker.
        for at in 0..5 {
            for cut in [Cut::Question(at), Cut::Answer(at)] {
                let number = format!("F-{operation}-any-{cut:?}");
                proxy.cut_once(cut, "");
                let asked = Instant::now();
                let response = send(&app, path, &number).await;
                let acknowledged = response.status() == StatusCode::CREATED;
                if acknowledged {
                    created(response).await;
                } else {
                    assert_unavailable(asked, response).await;
                }
                proxy.was_cut();
                assert!(
                    repeat(&app, path, &number).await || !acknowledged,
                    "{number}: what was acknowledged is there"
                );
            }
        }
        orders += 12;
        documents += if path == CREATE_WITH_DOCUMENTS { 12 } else { 0 };
    }
    assert_whole(app, orders, documents).await;
}

/// A connection to the server that somebody else has, until dropped.
struct Session(Child);

impl Session {
    /// None if the server has no connection left.
    fn open(cluster: &Cluster) -> Option<Self> {
        let mut psql = Command::new("psql");
        psql.args(["--quiet", "--no-align", "--tuples-only", "--set=ON_ERROR_STOP=1"])
            .arg(cluster.url("postgres"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut session = Self(psql.spawn().unwrap());
        session.run("SELECT 1").then_some(session)
    }

    /// Whether it could.
    fn run(&mut self, statement: &str) -> bool {
        let asked = writeln!(self.0.stdin.as_mut().unwrap(), "{statement}; SELECT 'done';").is_ok();
        let mut lines = BufReader::new(self.0.stdout.as_mut().unwrap()).lines();
        asked && lines.any(|line| line.unwrap() == "done")
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_out_of_connections() {
    let wiring = Wiring::with_database_server(Cluster::start(&[
        "max_connections = 12",
        "superuser_reserved_connections = 0",
    ]));
    let app = TestApp::start_on(wiring, Arc::default(), &["--database-connections=8"], None).await;
    created(app.create(&order("F-before")).await).await;
    let cluster = app.wiring.database_server();
    // The service's own sessions end and do not come back before the crowd has every connection.
    cluster.sql("postgres", "ALTER DATABASE orders_alone ALLOW_CONNECTIONS false");
    cluster.sql("postgres", "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = 'orders_alone'");
    let mut crowd = Vec::new();
    eventually(|| {
        crowd.extend(Session::open(cluster));
        crowd.len() == 12
    })
    .await;
    assert!(crowd[0].run("ALTER DATABASE orders_alone ALLOW_CONNECTIONS true"));
    let path = |at: usize| if at.is_multiple_of(4) { CREATE_WITH_DOCUMENTS } else { CREATE };
    let attempts = |from: usize| {
        let attempts = (from..from + 32).map(|at| {
            let app = &app;
            async move {
                let asked = Instant::now();
                let response = send(app, path(at), &format!("F-{at}")).await;
                let stored = response.status() == StatusCode::CREATED;
                if stored {
                    assert!(asked.elapsed() < Duration::from_secs(15), "{:?}", asked.elapsed());
                } else {
                    assert_unavailable(asked, response).await;
                }
                stored
            }
        });
        futures_util::future::join_all(attempts)
    };
    let mut stored = attempts(0).await;
    assert_eq!(stored, [false; 32]);
    // Two are left.
    crowd.truncate(10);
    stored.extend(attempts(32).await);
    drop(crowd);
    let began = Instant::now();
    while send(&app, CREATE, "F-after").await.status() != StatusCode::CREATED {
        assert!(began.elapsed() < Duration::from_secs(15), "it goes on");
    }
    for (at, stored) in stored.into_iter().enumerate() {
        assert!(
            repeat(&app, path(at), &format!("F-{at}")).await || !stored,
            "F-{at}: what was acknowledged is there"
        );
    }
    assert_whole(app, 66, 16).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_out_of_disk() {
    if done_with_mounts_of_its_own(module_path!(), "a_server_that_is_out_of_disk") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let disk = SmallDisk::at(folder.path(), 128);
    let wiring = Wiring::with_database_server(Cluster::start_in(
        folder.path(),
        &["max_wal_size = 32MB", "min_wal_size = 32MB"],
    ));
    let app = TestApp::start_on(wiring, Arc::default(), &[], None).await;
    created(app.create(&order("F-before")).await).await;
    disk.fill();
    let (mut stored, mut documents, mut refused) = (1, 0, 0);
    for at in 0.. {
        assert!(at < 2_000, "the disk is not full");
        let (asked, number) = (Instant::now(), format!("F-{at}"));
        let with_documents = at % 4 == 0;
        let mut wordy = order(&number);
        wordy["signingDetailsFormData"]["specialInstructions"] =
            (0..400).map(|_| fastrand::alphanumeric()).collect::<String>().into();
        let response = if with_documents {
            app.create_with(form_with_deed(&number)).await
        } else {
            app.create(&wordy).await
        };
        if response.status() == StatusCode::CREATED {
            created(response).await;
            stored += 1;
            documents += usize::from(with_documents);
        } else {
            assert_unavailable(asked, response).await;
            refused += 1;
        }
        if refused == 8 {
            break;
        }
    }
    disk.clear();
    // A server that could not write its log has ended, and is started by whoever watches it.
    let server = app.wiring.database_server();
    if Command::new("psql")
        .arg(server.url("postgres"))
        .args(["--command", "SELECT 1"])
        .output()
        .is_ok_and(|output| !output.status.success())
    {
        server.stop(Stop::Kill);
        server.resume_after_stop();
    }
    let began = Instant::now();
    while send(&app, CREATE, "F-after").await.status() != StatusCode::CREATED {
        assert!(began.elapsed() < Duration::from_secs(15), "it goes on");
    }
    assert_whole(app, stored + 1, documents).await;
    drop(disk);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_database_is_not_asked_for_what_cannot_be_a_key() {
    let app = TestApp::start().await;
    let good = app.key.clone();
    let unknown = domain::api_key::PresentedKey::random(false, &app::OsEntropy).expose().to_owned();
    let order_with = async |key: &str| {
        app.client.post(app.url(CREATE)).bearer_auth(key).json(&order("F-1")).send().await.unwrap()
    };
    app.wiring.break_database();
    for text in [
        "nonsense",
        "nok_",
        &good[..good.len() - 1],
        &format!("{good}0"),
        &good.to_uppercase(),
        &good.replace("nok_", "nok_test_x"),
    ] {
        problem(order_with(text).await, 401, "unauthorized").await;
    }
    // For what can be one it is.
    problem(order_with(&unknown).await, 503, "unavailable").await;
}
