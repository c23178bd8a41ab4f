//! How soon a request fails while the bucket is stopped, with the limits of the service.

use std::{
    net::TcpListener,
    sync::Arc,
    time::{Duration, Instant},
};

use adapter_object_store::{DocumentStore, TimeLimits};
use domain::document::ObjectKey;
use futures_util::future::join_all;
use test_servers::s3::{ACCESS_KEY, BUCKET, S3Server, SECRET_KEY};

use super::harness::{Files, LARGE, owned, stop_during_put, unavailable};

/// Time limit for the error of a request while the bucket is stopped.
const ERROR_TIMEOUT: Duration = Duration::from_secs(3);

async fn timed<T>(work: impl Future<Output = T>) -> (T, Duration) {
    let start = Instant::now();
    let done = work.await;
    (done, start.elapsed())
}

fn open(server: &S3Server) -> Arc<dyn DocumentStore> {
    let limits = TimeLimits::default();
    adapter_object_store::open(&server.url(), server.variables(), limits).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn stopped_bucket_fails_fast() {
    let (server, files) = (S3Server::start(), Files::new());
    let store = open(&server);
    let (key, file) = files.make(100);
    store.put(&key, &file).await.unwrap();
    server.stop();

    let (checked, took) = timed(store.check()).await;
    unavailable(&checked.unwrap_err());
    assert!(took < Duration::from_secs(2), "{took:?}");
    for size in [100, LARGE] {
        let (put, took) = timed(files.put(&store, size)).await;
        unavailable(&put.unwrap_err());
        assert!(took < ERROR_TIMEOUT, "{took:?}");
    }
    let (deleted, took) = timed(store.delete(&key)).await;
    unavailable(&deleted.unwrap_err());
    assert!(took < Duration::from_secs(2), "{took:?}");
    let (read, took) = timed(store.get(&key, 0..100)).await;
    assert!(read.is_err() && took < ERROR_TIMEOUT, "{took:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_puts_fail_as_fast_as_one() {
    let (server, files) = (S3Server::start(), Files::new());
    let store = open(&server);
    let (file, keys) = (
        files.make(LARGE).1,
        (0..60).map(|_| ObjectKey::random(&files.entropy)).collect::<Vec<_>>(),
    );
    server.stop();
    let (puts, took) = timed(join_all(keys.iter().map(|key| store.put(key, &file)))).await;
    assert!(puts.iter().all(Result::is_err) && took < ERROR_TIMEOUT, "{took:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn bucket_stopped_during_an_upload_fails_fast() {
    let (server, files) = (S3Server::start(), Files::new());
    let store = open(&server);
    let (_stopped, put) = stop_during_put(server, store, &files).await;
    let (put, took) = timed(put).await;
    assert!(put.unwrap().is_err() && took < ERROR_TIMEOUT, "{took:?}");
}

/// Readiness allows two seconds.
#[tokio::test]
async fn check_of_an_unusable_store_fails_fast() {
    let server = S3Server::start();
    // The system accepts connections for the listener, and no response ever comes.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = format!("http://{}", silent.local_addr().unwrap());
    let of_silent = format!("s3://{BUCKET}?endpoint={silent}");
    let credentials = [("AWS_ACCESS_KEY_ID", ACCESS_KEY), ("AWS_SECRET_ACCESS_KEY", SECRET_KEY)];
    let wrong = [("AWS_ACCESS_KEY_ID", ACCESS_KEY), ("AWS_SECRET_ACCESS_KEY", "guessed")];
    let from_machine = [("AWS_METADATA_ENDPOINT", &*silent)];
    for (url, variables) in
        [(server.url(), &wrong[..]), (of_silent, &credentials), (server.url(), &from_machine)]
    {
        let variables = owned(variables.iter().copied());
        let store = adapter_object_store::open(&url, variables, TimeLimits::default()).unwrap();
        let (checked, took) = timed(store.check()).await;
        let error = unavailable(&checked.unwrap_err());
        assert!(took < Duration::from_secs(2), "{error}: {took:?}");
    }
}
