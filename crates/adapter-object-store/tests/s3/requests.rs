//! The requests to the server, their retries, and how their results are verified.

use std::{collections::HashMap, fs, sync::Mutex};

use domain::{
    document::{Sha256Digest, SpooledFile},
    ports::StoreError,
};
use test_servers::s3::{S3Server, Treatment};

use super::harness::{Files, GENEROUS, LARGE, Log, MIB, open, owned, unavailable};

#[tokio::test]
async fn large_files_are_put_in_parts() {
    let (server, files) = (S3Server::start(), Files::new());
    let (store, log) = (open(&server), Log::<String>::default());
    let entries = log.clone();
    server.treat(move |request| {
        let query = request.uri.query().unwrap_or_default();
        let part = query.split('&').find(|pair| !pair.starts_with("uploadId")).unwrap_or("upload");
        entries.lock().unwrap().push(format!("{} {part}", request.method).trim_end().to_owned());
        Treatment::Serve
    });
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
async fn bodies_are_signed_and_have_checksums() {
    let (server, files) = (S3Server::start(), Files::new());
    // Variables do not change that.
    let variables = server
        .variables()
        .into_iter()
        .chain(owned([("AWS_CHECKSUM_ALGORITHM", "crc64nvme"), ("AWS_UNSIGNED_PAYLOAD", "true")]));
    let variables: Vec<_> = variables.collect();
    for (url, checksum) in [(server.url(), true), (server.url() + "&checksum=none", false)] {
        let store = adapter_object_store::open(&url, variables.clone(), GENEROUS).unwrap();
        let log: Log<(usize, bool)> = Log::default();
        let entries = log.clone();
        server.treat(move |request| {
            let signed = request.headers["x-amz-content-sha256"].to_str().unwrap();
            if request.method == "PUT" {
                entries
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
async fn objects_are_encrypted_as_the_url_asks() {
    const HEADER: &str = "x-amz-server-side-encryption";
    const ARN: &str = "arn:aws:kms:us-east-1:111122223333:key/0f1e";
    let (server, files) = (S3Server::start(), Files::new());
    let set = owned([("AWS_SERVER_SIDE_ENCRYPTION", "aws:kms"), ("AWS_SSE_KMS_KEY_ID", "other")]);
    let with_key = format!("&sse=aws:kms&sse_kms_key={ARN}");
    for (parameters, variables, expected) in [
        ("", &[][..], [None, None]),
        ("", &set, [Some("aws:kms"), Some("other")]),
        ("&sse=aes256", &set, [Some("AES256"), None]),
        ("&sse=aws:kms", &set, [Some("aws:kms"), None]),
        (&*with_key, &[], [Some("aws:kms"), Some(ARN)]),
    ] {
        let variables = server.variables().into_iter().chain(variables.iter().cloned());
        let url = server.url() + parameters;
        let store = adapter_object_store::open(&url, variables, GENEROUS).unwrap();
        let log: Log<[Option<String>; 2]> = Log::default();
        let entries = log.clone();
        server.treat(move |request| {
            // The parts of an upload have the encryption of its begin.
            let query = request.uri.query().unwrap_or_default();
            let begins = request.method == "PUT" && !query.contains("partNumber=")
                || request.method == "POST" && query.contains("uploads");
            if begins {
                let names = [HEADER.to_owned(), format!("{HEADER}-aws-kms-key-id")];
                let value = |name: String| Some(request.headers.get(&name)?.to_str().ok()?.into());
                entries.lock().unwrap().push(names.map(value));
            }
            Treatment::Serve
        });
        files.put(&store, 100).await.unwrap();
        files.put(&store, LARGE).await.unwrap();
        store.check().await.unwrap();
        let expected = expected.map(|value| value.map(str::to_owned));
        assert_eq!(*log.lock().unwrap(), [(); 3].map(|()| expected.clone()), "{parameters}");
    }
}

#[tokio::test]
async fn corrupted_body_is_rejected() {
    let (server, files) = (S3Server::start(), Files::new());
    server.treat(
        |request| if request.method == "PUT" { Treatment::Corrupt } else { Treatment::Serve },
    );
    for url in [server.url(), server.url() + "&checksum=none"] {
        let store = adapter_object_store::open(&url, server.variables(), GENEROUS).unwrap();
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
async fn changed_file_is_rejected_and_leaves_nothing() {
    let (server, files) = (S3Server::start(), Files::new());
    let store = open(&server);
    let (key, file) = files.make(LARGE);
    let changed = [
        SpooledFile { size: file.size - 1, ..file.clone() },
        SpooledFile { size: file.size + 1, ..file.clone() },
        SpooledFile { size: 5 * MIB as u64, ..file.clone() },
        SpooledFile { sha256: Sha256Digest([7; 32]), ..file.clone() },
    ];
    for file in changed {
        assert!(matches!(store.put(&key, &file).await, Err(StoreError::Internal(_))), "{file:?}");
        assert_eq!((server.objects().len(), server.unfinished_uploads()), (0, 0), "{file:?}");
    }
}

#[tokio::test]
async fn object_of_wrong_size_is_an_error() {
    let (server, files) = (S3Server::start(), Files::new());
    let (store, bucket) = (open(&server), server.bucket());
    for size in [100, LARGE] {
        let (key, file) = files.make(size);
        let object = bucket.join("orders").join(key.as_str());
        server.treat(move |request| {
            if request.method == "HEAD" {
                fs::write(&object, "ten bytes.").unwrap();
            }
            Treatment::Serve
        });
        let error = unavailable(&store.put(&key, &file).await.unwrap_err());
        assert_eq!(
            error,
            format!("the store is unavailable: {size} bytes were sent, but the store has 10")
        );
    }
}

#[tokio::test]
async fn success_reported_by_a_proxy_is_an_error() {
    let (server, files) = (S3Server::start(), Files::new());
    let store = open(&server);
    server.treat(|request| {
        if request.method == "PUT" || request.method == "POST" {
            Treatment::Pretend
        } else {
            Treatment::Serve
        }
    });
    let error = unavailable(&files.put(&store, 100).await.unwrap_err());
    assert!(error.starts_with("the store is unavailable: it answered 404"), "{error}");
    assert_eq!(server.objects().len(), 0);
}

#[tokio::test]
async fn failed_requests_are_retried() {
    for status in [500, 503, 429] {
        let (server, files) = (S3Server::start(), Files::new());
        let store = open(&server);
        let attempts = Mutex::<HashMap<String, usize>>::default();
        server.treat(move |request| {
            let mut attempts = attempts.lock().unwrap();
            let count = attempts.entry(format!("{} {}", request.method, request.uri)).or_default();
            *count += 1;
            if *count <= 2 { Treatment::Refuse(status) } else { Treatment::Serve }
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
async fn failed_upload_is_aborted() {
    for failing in ["partNumber=2", "uploadId="] {
        let (server, files) = (S3Server::start(), Files::new());
        let store = open(&server);
        server.treat(move |request| {
            let fails = request.method != "DELETE"
                && request.uri.query().is_some_and(|query| query.starts_with(failing));
            if fails { Treatment::Refuse(500) } else { Treatment::Serve }
        });
        let error = unavailable(&files.put(&store, LARGE).await.unwrap_err());
        assert_eq!(error, "the store is unavailable: it answered 500 Internal Server Error");
        assert_eq!((server.objects().len(), server.unfinished_uploads()), (0, 0), "{failing}");
    }
}
