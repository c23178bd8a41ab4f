//! Outages: a bucket that is stopped or never answers.

use domain::{document::ObjectKey, ports::StoreError};
use futures_util::{TryStreamExt as _, future::join_all};
use test_servers::s3::{S3Server, Treatment};

use super::harness::{Files, LARGE, MIB, open, stop_during_put, unavailable};

#[tokio::test(flavor = "multi_thread")]
async fn stopped_bucket_is_unavailable_and_recovers() {
    let (server, files) = (S3Server::start(), Files::new());
    let store = open(&server);
    let (key, file) = files.make(100);
    store.put(&key, &file).await.unwrap();
    server.stop();

    let error = unavailable(&store.check().await.unwrap_err());
    assert!(error.starts_with("the store is unavailable: Connection refused"), "{error}");
    for size in [100, LARGE] {
        unavailable(&files.put(&store, size).await.unwrap_err());
    }
    unavailable(&store.delete(&key).await.unwrap_err());
    let read = store.get(&key, 0..100).await;
    assert!(matches!(read, Err(StoreError::Unavailable(_))), "it may not be missing");

    server.start_again();
    assert_eq!(server.objects().len(), 1);
    store.check().await.unwrap();
    server.treat(|_| Treatment::Refuse(403));
    assert!(matches!(store.get(&key, 0..100).await, Err(StoreError::Unavailable(_))));
    server.treat(|_| Treatment::Serve);
    files.put(&store, LARGE).await.unwrap();
    store.delete(&key).await.unwrap();
    assert_eq!(server.objects().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn body_that_breaks_off_is_continued() {
    let (server, files) = (S3Server::start(), Files::new());
    let store = open(&server);
    // More than the buffers of the connection hold.
    let (key, file) = files.make(20 * MIB);
    store.put(&key, &file).await.unwrap();
    let mut stream = store.get(&key, 0..file.size).await.unwrap().unwrap();
    let mut read = stream.try_next().await.unwrap().unwrap().to_vec();
    server.stop();
    server.start_again();
    while let Some(block) = stream.try_next().await.unwrap() {
        read.extend_from_slice(&block);
    }
    assert!(read == std::fs::read(&file.path).unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_puts_fail_with_those_in_progress() {
    let (server, files) = (S3Server::start(), Files::new());
    let store = open(&server);
    let (file, keys) = (
        files.make(LARGE).1,
        (0..60).map(|_| ObjectKey::random(&files.entropy)).collect::<Vec<_>>(),
    );
    server.stop();
    let puts = join_all(keys.iter().map(|key| store.put(key, &file))).await;
    let errors = puts.into_iter().map(|put| unavailable(&put.unwrap_err()));
    let asked = errors.filter(|error| error.contains("Connection refused")).count();
    assert_eq!(asked, 6, "as many as are in progress at the same time");
    server.start_again();
    files.put(&store, LARGE).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn bucket_stopped_during_an_upload_is_unavailable() {
    let (server, files) = (S3Server::start(), Files::new());
    let store = open(&server);
    let (server, put) = stop_during_put(server, store, &files).await;
    unavailable(&put.await.unwrap().unwrap_err());
    assert_eq!(server.objects().len(), 0);
}
