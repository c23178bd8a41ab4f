//! What is asked of the server, and that it is asked again when it stumbles.

use std::{collections::HashMap, fs, sync::Mutex};

use adapter_object_store::ObjectBlobStore;
use domain::{
    document::{Sha256Digest, SpooledFile},
    ports::{BlobStore as _, StoreError},
};
use test_servers::s3::{BUCKET, S3Server, Treatment};

use crate::harness::{Files, LARGE, Log, MIB, log_requests, open, unavailable, variables};

#[tokio::test]
async fn a_file_of_one_part_is_put_at_once_and_a_larger_one_in_parts_and_the_size_of_both_is_verified()
 {
    let (server, files) = (S3Server::start(), Files::new());
    let (store, log) = (open(&server), log_requests(&server));
    files.put(&store, 5 * MIB).await.unwrap();
    assert_eq!(*log.lock().unwrap(), ["PUT", "HEAD"]);
    log.lock().unwrap().clear();
    files.put(&store, 10 * MIB + 1).await.unwrap();
    assert_eq!(
        *log.lock().unwrap(),
        [
            "POST uploads=",
            "PUT partNumber=1",
            "PUT partNumber=2",
            "PUT partNumber=3",
            "POST upload",
            "HEAD"
        ]
    );
}

#[tokio::test]
async fn every_body_is_signed_and_has_a_checksum_unless_the_url_turns_that_off() {
    let (server, files) = (S3Server::start(), Files::new());
    // Not even a variable can make it another.
    let own = server.variables().into_iter().chain(variables([
        ("AWS_CHECKSUM_ALGORITHM", "crc64nvme"),
        ("AWS_UNSIGNED_PAYLOAD", "true"),
    ]));
    let own: Vec<_> = own.collect();
    for (url, checksum) in [(server.url(), true), (server.url() + "&checksum=none", false)] {
        let store = ObjectBlobStore::open(&url, own.clone()).unwrap();
        let log: Log<(usize, bool)> = Log::default();
        let noted = log.clone();
        server.treat(move |request| {
            let signed = request.headers["x-amz-content-sha256"].to_str().unwrap();
            if request.method == "PUT" {
                noted
                    .lock()
                    .unwrap()
                    .push((signed.len(), request.headers.contains_key("x-amz-checksum-sha256")));
            }
            Treatment::Serve
        });
        files.put(&store, 100).await.unwrap();
        files.put(&store, LARGE).await.unwrap();
        assert_eq!(*log.lock().unwrap(), [(64, checksum); 3]);
    }
}

#[tokio::test]
async fn a_body_that_the_network_has_changed_is_refused_and_leaves_nothing() {
    let (server, files) = (S3Server::start(), Files::new());
    server.treat(
        |request| if request.method == "PUT" { Treatment::Corrupt } else { Treatment::Serve },
    );
    for url in [server.url(), server.url() + "&checksum=none"] {
        let store = ObjectBlobStore::open(&url, server.variables()).unwrap();
        for size in [100, LARGE] {
            unavailable(&files.put(&store, size).await.unwrap_err());
            assert_eq!(
                (server.objects().len(), server.unfinished_uploads()),
                (0, 0),
                "{size} bytes"
            );
        }
    }
}

#[tokio::test]
async fn a_large_file_that_is_not_what_it_is_said_to_be_is_refused_and_leaves_nothing() {
    let (server, files) = (S3Server::start(), Files::new());
    let store = open(&server);
    let (key, file) = files.make(LARGE);
    let others = [
        SpooledFile { size: file.size - 1, ..file.clone() },
        SpooledFile { size: file.size + 1, ..file.clone() },
        SpooledFile { size: 5 * MIB as u64, ..file.clone() },
        SpooledFile { sha256: Sha256Digest([7; 32]), ..file.clone() },
    ];
    for said in others {
        assert!(matches!(store.put(&key, &said).await, Err(StoreError::Internal(_))), "{said:?}");
        assert_eq!((server.objects().len(), server.unfinished_uploads()), (0, 0), "{said:?}");
    }
}

#[tokio::test]
async fn an_object_that_is_not_as_long_as_what_was_sent_is_refused() {
    let (server, files) = (S3Server::start(), Files::new());
    let (store, bucket) = (open(&server), server.bucket());
    for size in [100, LARGE] {
        let (key, file) = files.make(size);
        let object = bucket.join("orders").join(key.as_str());
        server.treat(move |request| {
            if request.method == "HEAD" {
                fs::write(&object, "half of it").unwrap();
            }
            Treatment::Serve
        });
        let told = unavailable(&store.put(&key, &file).await.unwrap_err());
        assert_eq!(
            told,
            format!("the store does not answer: of {size} bytes that were sent the store keeps 10")
        );
    }
}

#[tokio::test]
async fn a_put_that_succeeded_by_the_word_of_somebody_else_is_refused() {
    let (server, files) = (S3Server::start(), Files::new());
    let store = open(&server);
    server.treat(|request| {
        if request.method == "PUT" || request.method == "POST" {
            Treatment::Pretend
        } else {
            Treatment::Serve
        }
    });
    let told = unavailable(&files.put(&store, 100).await.unwrap_err());
    assert!(told.starts_with("the store does not answer: it answered 404"), "{told}");
    assert_eq!(server.objects().len(), 0);
}

#[tokio::test]
async fn a_server_that_stumbles_is_asked_again() {
    for status in [500, 503, 429] {
        let (server, files) = (S3Server::start(), Files::new());
        let store = open(&server);
        let seen = Mutex::<HashMap<String, usize>>::default();
        server.treat(move |request| {
            let mut seen = seen.lock().unwrap();
            let times = seen.entry(format!("{} {}", request.method, request.uri)).or_default();
            *times += 1;
            if *times <= 2 { Treatment::Refuse(status) } else { Treatment::Serve }
        });
        let (key, file) = files.make(LARGE);
        store.put(&key, &file).await.unwrap();
        files.put(&store, 100).await.unwrap();
        assert_eq!((server.objects().len(), server.unfinished_uploads()), (2, 0));
        store.delete(&key).await.unwrap();
        assert_eq!(server.objects().len(), 1);
    }
}

#[tokio::test]
async fn an_upload_that_fails_is_aborted() {
    for failing in ["partNumber=2", "uploadId="] {
        let (server, files) = (S3Server::start(), Files::new());
        let store = open(&server);
        server.treat(move |request| {
            let fails = request.method != "DELETE"
                && request.uri.query().is_some_and(|query| query.starts_with(failing));
            if fails { Treatment::Refuse(500) } else { Treatment::Serve }
        });
        let told = unavailable(&files.put(&store, LARGE).await.unwrap_err());
        assert_eq!(told, "the store does not answer: it answered 500 Internal Server Error");
        assert_eq!((server.objects().len(), server.unfinished_uploads()), (0, 0), "{failing}");
    }
}

#[tokio::test]
async fn an_object_is_not_taken_for_gone_because_its_bucket_is() {
    let (server, files) = (S3Server::start(), Files::new());
    let elsewhere = server.url().replace(BUCKET, "elsewhere");
    let store = ObjectBlobStore::open(&elsewhere, server.variables()).unwrap();
    unavailable(&store.delete(&files.make(1).0).await.unwrap_err());
}
