//! The bucket fails at one of several objects, stalls, or does not tell the truth.

use std::{
    collections::BTreeSet,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use reqwest::multipart::Form;
use test_servers::{postgres::Cluster, s3::Treatment};

use crate::{
    harness::{TestApp, assert_unavailable, created, deed, eventually, file, form, order},
    wiring::Wiring,
};

const DOCUMENTS: usize = 5;
const EACH: [usize; DOCUMENTS] = [0, 1, 2, 3, 4];
/// One of those that are put at once, and the one that waits for them.
const FIRST_AND_LAST: [usize; 2] = [0, 4];

fn with_documents(file_number: &str) -> Form {
    (0..DOCUMENTS).fold(form(&order(file_number)), |form, at| {
        form.part("documents", file(&format!("{at}.pdf"), deed()))
    })
}

/// Treats every request of a method for the n-th object that it is made for so, counted from 0.
fn treat_nth(app: &TestApp, method: &'static str, nth: usize, treatment: Treatment) {
    let seen = Mutex::new(Vec::<String>::new());
    app.wiring.bucket().treat(move |request| {
        if request.method != method {
            return Treatment::Serve;
        }
        let (mut seen, path) = (seen.lock().unwrap(), request.uri.path().to_owned());
        let at = seen.iter().position(|known| *known == path).unwrap_or_else(|| {
            seen.push(path);
            seen.len() - 1
        });
        if at == nth { treatment } else { Treatment::Serve }
    });
}

/// Every object of every order, whole, and after the sweep nothing else.
async fn assert_whole(app: TestApp, orders: usize) {
    app.assert_spool_empty();
    let documents = orders * DOCUMENTS;
    assert_eq!(usize::try_from(app.rows("documents")).unwrap(), documents);
    app.clock.advance(time::Duration::hours(2));
    let app = app.restart(&[]).await;
    eventually(|| app.rows("uploads") == 0 && app.rows("deliveries") == 0).await;
    let objects = app.wiring.objects();
    assert_eq!(
        objects.keys().cloned().collect::<BTreeSet<_>>(),
        app.wiring.document_keys().into_iter().collect()
    );
    assert!(objects.len() == documents && objects.into_values().all(|object| object == deed()));
}

#[tokio::test(flavor = "multi_thread")]
async fn whichever_of_several_objects_fails_the_order_is_refused_and_nothing_of_it_stays() {
    let app = TestApp::start().await;
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
            let asked = Instant::now();
            assert_unavailable(asked, app.create_with(with_documents(&number)).await).await;
            app.wiring.documents_go_on();
            // The refused order has not taken the file number.
            created(app.create_with(with_documents(&number)).await).await;
            orders += 1;
        }
    }
    assert_eq!(usize::try_from(app.rows("orders")).unwrap(), orders);
    assert_whole(app, orders).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bucket_that_is_slow_is_waited_for() {
    let app = TestApp::start().await;
    // On the thread of the request alone: the others go on.
    app.wiring.bucket().treat(|request| {
        if request.method == "PUT" {
            Treatment::Delay(Duration::from_millis(700))
        } else {
            Treatment::Serve
        }
    });
    let asked = Instant::now();
    created(app.create_with(with_documents("F-1")).await).await;
    assert!(asked.elapsed() > Duration::from_millis(700));
    assert_whole(app, 1).await;
}

/// The clock is set forward while objects are on their way: a sweeper takes the upload for
/// abandoned, deletes what is not there yet, and forgets it. Then the objects arrive.
#[tokio::test(flavor = "multi_thread")]
async fn objects_that_arrive_when_a_sweeper_is_done_with_them_belong_to_no_order_and_do_not_stay() {
    let database = Cluster::shared().database();
    let name = database.name.clone();
    let app = TestApp::start_on(Wiring::on_shared(database), Arc::default(), &[], None).await;
    let swept = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&swept);
    app.wiring.bucket().treat(move |request| {
        if request.method == "PUT" && counted.fetch_add(1, Ordering::SeqCst) == 0 {
            Cluster::shared().sql(&name, "DELETE FROM uploads");
        }
        Treatment::Serve
    });
    let asked = Instant::now();
    assert_unavailable(asked, app.create_with(with_documents("F-1")).await).await;
    assert_eq!(swept.load(Ordering::SeqCst), DOCUMENTS);
    assert_eq!((app.rows("orders"), app.rows("uploads"), app.wiring.objects().len()), (0, 0, 0));
    created(app.create_with(with_documents("F-1")).await).await;
    assert_whole(app, 1).await;
}
