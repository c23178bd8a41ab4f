//! The bucket fails at one of several objects, stalls, or reports wrong results.

use std::{
    collections::BTreeSet,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use reqwest::multipart::Form;
use test_servers::{postgres::Cluster, s3::Treatment};

use crate::{
    harness::{
        TestApp, assert_unavailable, created, deed, eventually, form, order, with_documents,
    },
    wiring::{Kind, Wiring},
};

const DOCUMENTS: usize = 5;
const EACH: [usize; DOCUMENTS] = [0, 1, 2, 3, 4];
/// An object of the first parallel puts, and the one that is put after them.
const FIRST_AND_LAST: [usize; 2] = [0, 4];

fn five(file_number: &str) -> Form {
    with_documents(form(&order(file_number)), DOCUMENTS, &deed())
}

/// Applies a treatment to the requests of a method for the object at index `nth`.
fn treat_nth(app: &TestApp, method: &'static str, nth: usize, treatment: Treatment) {
    let seen = Mutex::new(Vec::<String>::new());
    app.wiring.servers().bucket().treat(move |request| {
        if request.method != method {
            return Treatment::Serve;
        }
        let (mut seen, path) = (seen.lock().unwrap(), request.uri.path().to_owned());
        let at = seen.iter().position(|earlier| *earlier == path).unwrap_or_else(|| {
            seen.push(path);
            seen.len() - 1
        });
        if at == nth { treatment } else { Treatment::Serve }
    });
}

/// Asserts that after the sweep exactly the objects of these orders exist, complete.
async fn assert_complete(app: TestApp, orders: usize) {
    app.assert_spool_empty();
    let documents = orders * DOCUMENTS;
    assert_eq!(app.rows("documents"), documents);
    app.clock.advance(time::Duration::hours(2));
    let app = app.restart(&[]).await;
    eventually(|| app.rows("uploads") == 0).await;
    app.mails_leave().await;
    let objects = app.wiring.objects();
    assert_eq!(
        objects.keys().cloned().collect::<BTreeSet<_>>(),
        app.wiring.servers().document_keys().into_iter().collect()
    );
    assert!(objects.len() == documents && objects.into_values().all(|object| object == deed()));
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_put_rejects_order_and_removes_objects() {
    let app = Kind::Production.app().await;
    let mut orders = 0;
    for (method, treatment, which) in [
        ("PUT", Treatment::Refuse(500), &EACH[..]),
        ("PUT", Treatment::Refuse(403), &FIRST_AND_LAST),
        ("PUT", Treatment::Silence, &FIRST_AND_LAST),
        ("PUT", Treatment::Corrupt, &FIRST_AND_LAST),
        ("PUT", Treatment::Pretend, &EACH),
        ("HEAD", Treatment::Exaggerate(1), &EACH),
        ("HEAD", Treatment::Refuse(404), &FIRST_AND_LAST),
        ("HEAD", Treatment::Silence, &FIRST_AND_LAST),
    ] {
        for &nth in which {
            let number = format!("F {method} {treatment:?} {nth}");
            treat_nth(&app, method, nth, treatment);
            assert_unavailable(app.create_with(five(&number)).await).await;
            app.wiring.servers().documents_go_on();
            // The file number is still free.
            created(app.create_with(five(&number)).await).await;
            orders += 1;
        }
    }
    assert_eq!(app.rows("orders"), orders);
    assert_complete(app, orders).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_bucket_does_not_fail_orders() {
    let app = Kind::Production.app().await;
    let delayed = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&delayed);
    // Delays only the connection of the request.
    app.wiring.servers().bucket().treat(move |request| {
        if request.method == "PUT" {
            counter.fetch_add(1, Ordering::SeqCst);
            Treatment::Delay(Duration::from_millis(700))
        } else {
            Treatment::Serve
        }
    });
    created(app.create_with(five("F-1")).await).await;
    assert!(delayed.load(Ordering::SeqCst) >= DOCUMENTS);
    assert_complete(app, 1).await;
}

/// If the clock jumps forward during an upload, the sweeper considers the upload abandoned and
/// forgets it before the objects arrive.
#[tokio::test(flavor = "multi_thread")]
async fn objects_put_after_a_sweep_are_removed() {
    let database = Cluster::shared().database();
    let name = database.name.clone();
    let app = TestApp::start_on(Wiring::on_shared(database), Arc::default(), &[], None).await;
    let puts = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&puts);
    app.wiring.servers().bucket().treat(move |request| {
        if request.method == "PUT" && counter.fetch_add(1, Ordering::SeqCst) == 0 {
            Cluster::shared().sql(&name, "DELETE FROM uploads");
        }
        Treatment::Serve
    });
    assert_unavailable(app.create_with(five("F-1")).await).await;
    assert_eq!(puts.load(Ordering::SeqCst), DOCUMENTS);
    assert_eq!((app.rows("orders"), app.rows("uploads"), app.wiring.objects().len()), (0, 0, 0));
    created(app.create_with(five("F-1")).await).await;
    assert_complete(app, 1).await;
}
