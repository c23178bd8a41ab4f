//! The error texts of an unusable store: one line with the cause, without secrets.

use std::{net::TcpListener, time::Duration};

use adapter_object_store::TimeLimits;
use test_servers::{
    certificates::Certificates,
    s3::{ACCESS_KEY, BUCKET, S3Server, SECRET_KEY, Treatment},
};
use tokio::net::TcpSocket;

use super::harness::{GENEROUS, owned, unavailable};

/// Returns the error of a check.
async fn check_error(url: &str, variables: &[(&str, &str)]) -> String {
    check_error_within(GENEROUS, url, variables).await
}

/// Returns the error of a check with limits of its own.
async fn check_error_within(limits: TimeLimits, url: &str, variables: &[(&str, &str)]) -> String {
    let variables = owned(variables.iter().copied());
    let store = adapter_object_store::open(url, variables, limits).unwrap();
    let error = unavailable(&store.check().await.unwrap_err());
    assert!(
        !error.contains(SECRET_KEY) && !error.contains("guessed") && !error.contains(['\n', '<']),
        "{error}"
    );
    error
}

fn credentials<'a>(key: &'a str, secret: &'a str) -> [(&'static str, &'a str); 2] {
    [("AWS_ACCESS_KEY_ID", key), ("AWS_SECRET_ACCESS_KEY", secret)]
}

/// Reserves an address that refuses connections, because nothing listens.
fn closed_address() -> (TcpSocket, String) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = socket.local_addr().unwrap().to_string();
    (socket, address)
}

#[tokio::test]
async fn answer_of_the_store() {
    let server = S3Server::start();
    let missing = server.url().replace(BUCKET, "missing");
    for (url, key, secret, answer) in [
        (&missing, ACCESS_KEY, SECRET_KEY, "404 NoSuchBucket: The specified bucket does not exist"),
        (&server.url(), ACCESS_KEY, "guessed", "403 SignatureDoesNotMatch"),
        (&server.url(), "AKIAUNKNOWN", "guessed", "403 NotSignedUp: Your account is not signed up"),
    ] {
        let error = check_error(url, &credentials(key, secret)).await;
        let expected = format!("the store is unavailable: it answered {answer}");
        assert!(error.starts_with(&expected), "{error}");
    }
    assert_eq!(server.objects().len(), 0);
}

#[tokio::test]
async fn refused_connection() {
    let (_reserved, closed) = closed_address();
    let url = format!("s3://{BUCKET}?endpoint=http://{closed}");
    let error = check_error(&url, &credentials(ACCESS_KEY, "guessed")).await;
    assert_eq!(error, "the store is unavailable: Connection refused (os error 111)");
}

#[tokio::test]
async fn missing_credentials() {
    let server = S3Server::start();
    let (_reserved, closed) = closed_address();
    let refusing = format!("http://{closed}");
    let expected = "the store is unavailable: Connection refused (os error 111); \
                    no credentials are set, so the machine's metadata service is asked";
    assert_eq!(check_error(&server.url(), &[("AWS_METADATA_ENDPOINT", &refusing)]).await, expected);

    let refusing = S3Server::start();
    refusing.treat(|_| Treatment::Refuse(404));
    let endpoint = format!("http://{}", refusing.address());
    let expected = "the store is unavailable: it answered 404 Not Found; \
                    no credentials are set, so the machine's metadata service is asked";
    assert_eq!(check_error(&server.url(), &[("AWS_METADATA_ENDPOINT", &endpoint)]).await, expected);

    // The system accepts connections for the listener, and no response ever comes.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", silent.local_addr().unwrap());
    let expected = "the store is unavailable: no answer within 1.5 seconds; \
                    no credentials are set, so the machine's metadata service is asked";
    let limits = TimeLimits { check: Duration::from_millis(1_500), ..GENEROUS };
    let variables = [("AWS_METADATA_ENDPOINT", &*endpoint)];
    assert_eq!(check_error_within(limits, &server.url(), &variables).await, expected);
}

#[tokio::test]
async fn untrusted_certificate() {
    let acceptor = Certificates::issue("Unknown root", &["localhost"]).acceptor();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!(
        "s3://{BUCKET}?endpoint=https://localhost:{}",
        listener.local_addr().unwrap().port()
    );
    tokio::spawn(async move {
        loop {
            // The client aborts the handshake.
            let _ = acceptor.accept(listener.accept().await.unwrap().0).await;
        }
    });
    let error = check_error(&url, &credentials(ACCESS_KEY, "guessed")).await;
    assert_eq!(
        error,
        "the store is unavailable: TLS failed: its certificate is of no authority that is trusted \
         here"
    );
}
