//! What an operator reads when a store cannot be used: one line with the cause, and no secret.

use std::{net::TcpListener, sync::Arc, time::Instant};

use adapter_object_store::ObjectBlobStore;
use domain::ports::BlobStore as _;
use rustls::{ServerConfig, pki_types::PrivateKeyDer};
use test_servers::s3::{ACCESS_KEY, BUCKET, S3Server, SECRET_KEY, Treatment};
use tokio_rustls::TlsAcceptor;

use crate::harness::{unavailable, variables};

/// What a check says of a store that cannot be used.
async fn told(url: &str, own: &[(&str, &str)]) -> String {
    let store = ObjectBlobStore::open(url, variables(own.iter().copied())).unwrap();
    let start = Instant::now();
    let told = unavailable(&store.check().await.unwrap_err());
    assert!(start.elapsed().as_secs() < 2, "{told}");
    assert!(
        !told.contains(SECRET_KEY) && !told.contains("guessed") && !told.contains(['\n', '<']),
        "{told}"
    );
    told
}

/// An address at which nobody listens.
fn closed() -> String {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string()
}

#[tokio::test]
async fn a_bucket_that_does_not_exist() {
    let server = S3Server::start();
    let url = server.url().replace(BUCKET, "elsewhere");
    let told =
        told(&url, &[("AWS_ACCESS_KEY_ID", ACCESS_KEY), ("AWS_SECRET_ACCESS_KEY", SECRET_KEY)])
            .await;
    assert_eq!(
        told,
        "the store does not answer: it answered 404 NoSuchBucket: The specified bucket does not exist"
    );
    assert_eq!(server.objects().len(), 0);
}

#[tokio::test]
async fn a_wrong_secret() {
    let server = S3Server::start();
    let told = told(
        &server.url(),
        &[("AWS_ACCESS_KEY_ID", ACCESS_KEY), ("AWS_SECRET_ACCESS_KEY", "guessed")],
    )
    .await;
    assert!(
        told.starts_with("the store does not answer: it answered 403 SignatureDoesNotMatch"),
        "{told}"
    );
}

#[tokio::test]
async fn an_unknown_key() {
    let server = S3Server::start();
    let told = told(
        &server.url(),
        &[("AWS_ACCESS_KEY_ID", "AKIAUNKNOWN"), ("AWS_SECRET_ACCESS_KEY", "guessed")],
    )
    .await;
    assert_eq!(
        told,
        "the store does not answer: it answered 403 NotSignedUp: Your account is not signed up"
    );
}

#[tokio::test]
async fn nobody_at_the_endpoint() {
    let url = format!("s3://{BUCKET}?endpoint=http://{}", closed());
    let told =
        told(&url, &[("AWS_ACCESS_KEY_ID", ACCESS_KEY), ("AWS_SECRET_ACCESS_KEY", "guessed")])
            .await;
    assert_eq!(told, "the store does not answer: Connection refused (os error 111)");
}

#[tokio::test]
async fn no_credentials_and_no_machine_that_has_some() {
    let server = S3Server::start();
    let refusing = format!("http://{}", closed());
    let expected = "the store does not answer: Connection refused (os error 111); no credentials are set, and the machine is asked for its own";
    assert_eq!(told(&server.url(), &[("AWS_METADATA_ENDPOINT", &refusing)]).await, expected);

    let refusing = S3Server::start();
    refusing.treat(|_| Treatment::Refuse(404));
    let endpoint = format!("http://{}", refusing.address());
    let expected = "the store does not answer: it answered 404 Not Found; no credentials are set, and the machine is asked for its own";
    assert_eq!(told(&server.url(), &[("AWS_METADATA_ENDPOINT", &endpoint)]).await, expected);

    // It takes connections, as far as the system does so for it, and never answers.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", silent.local_addr().unwrap());
    let expected = "the store does not answer: no answer within 1.5 seconds; no credentials are set, and the machine is asked for its own";
    assert_eq!(told(&server.url(), &[("AWS_METADATA_ENDPOINT", &endpoint)]).await, expected);
}

#[tokio::test]
async fn a_certificate_that_nobody_vouches_for() {
    let rcgen::CertifiedKey { cert, signing_key } =
        rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap();
    let key = PrivateKeyDer::Pkcs8(signing_key.serialize_der().into());
    let acceptor = TlsAcceptor::from(Arc::new(
        config.with_no_client_auth().with_single_cert(vec![cert.der().clone()], key).unwrap(),
    ));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!(
        "s3://{BUCKET}?endpoint=https://localhost:{}",
        listener.local_addr().unwrap().port()
    );
    tokio::spawn(async move {
        loop {
            // The client breaks off the handshake.
            let _ = acceptor.accept(listener.accept().await.unwrap().0).await;
        }
    });
    let told =
        told(&url, &[("AWS_ACCESS_KEY_ID", ACCESS_KEY), ("AWS_SECRET_ACCESS_KEY", "guessed")])
            .await;
    assert_eq!(told, "the store does not answer: invalid peer certificate: UnknownIssuer");
}
