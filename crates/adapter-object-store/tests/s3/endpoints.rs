//! The addresses of requests. The server acts as the proxy of the store, so it sees each address.

use adapter_object_store::ObjectBlobStore;
use domain::ports::BlobStore as _;
use test_servers::s3::{S3Server, Treatment};

use crate::harness::{Log, owned};

const SECRETS: [(&str, &str); 4] = [
    ("AWS_ACCESS_KEY_ID", "key"),
    ("AWS_SECRET_ACCESS_KEY", "secret"),
    ("GOOGLE_BEARER_TOKEN", "token"),
    ("AZURE_STORAGE_ACCOUNT_KEY", "c2VjcmV0"),
];

/// Returns the address of the first request of a check, and the scope of its signature.
async fn first_request(url: &str, variables: &[(&str, &str)]) -> (String, String) {
    let server = S3Server::start();
    let log: Log<(String, String)> = Log::default();
    let entries = log.clone();
    server.treat(move |request| {
        let authorization = request
            .headers
            .get("authorization")
            .map(|value| value.to_str().unwrap().to_owned())
            .unwrap_or_default();
        let scope = authorization.split(['/', ',']).skip(2).take(2).collect::<Vec<_>>().join("/");
        entries.lock().unwrap().push((format!("{} {}", request.method, request.uri), scope));
        Treatment::Refuse(403)
    });
    let proxy = format!("http://{}", server.address());
    let proxies =
        ["AWS_PROXY_URL", "GOOGLE_PROXY_URL", "AZURE_PROXY_URL"].map(|name| (name, &*proxy));
    let store =
        ObjectBlobStore::open(url, owned(variables.iter().copied().chain(SECRETS).chain(proxies)))
            .unwrap();
    store.check().await.unwrap_err();
    let requests = log.lock().unwrap();
    requests[0].clone()
}

async fn address(url: &str, variables: &[(&str, &str)]) -> String {
    first_request(url, variables).await.0
}

#[tokio::test]
async fn s3_bucket_is_in_path_or_host() {
    let url = "s3://bucket/a/prefix?endpoint=http://s3.example.com:9000/";
    assert_eq!(
        address(url, &[]).await,
        "PUT http://s3.example.com:9000/bucket/a/prefix/readiness-probe"
    );
    let url = "s3://bucket/?endpoint=http://s3.example.com:9000&path_style=false";
    assert_eq!(address(url, &[]).await, "PUT http://bucket.s3.example.com:9000/readiness-probe");
}

#[tokio::test]
async fn url_takes_precedence_over_variables() {
    let variables = [
        ("AWS_ENDPOINT_URL", "http://general.example.com"),
        ("AWS_ENDPOINT_URL_S3", " "),
        ("AWS_REGION", "eu-central-1"),
        ("AWS_BUCKET", "other"),
    ];
    let (address, scope) = first_request("s3://bucket", &variables).await;
    assert_eq!(
        (&*address, &*scope),
        ("PUT http://general.example.com/bucket/readiness-probe", "eu-central-1/s3")
    );
    let variables =
        [("AWS_ENDPOINT_URL_S3", "http://s3.example.com"), ("AWS_REGION", "eu-central-1")];
    let (address, scope) =
        first_request("s3://bucket?endpoint=http://url.example.com&region=garage", &variables)
            .await;
    assert_eq!(
        (&*address, &*scope),
        ("PUT http://url.example.com/bucket/readiness-probe", "garage/s3")
    );
}

#[tokio::test]
async fn default_region_is_us_east_1() {
    assert_eq!(
        first_request("s3://bucket?endpoint=http://s3.example.com", &[]).await.1,
        "us-east-1/s3"
    );
    assert_eq!(
        first_request(
            "s3://bucket?endpoint=http://s3.example.com",
            &[("AWS_DEFAULT_REGION", "eu-west-1")]
        )
        .await
        .1,
        "eu-west-1/s3"
    );
}

#[tokio::test]
async fn default_endpoints_are_the_providers_over_tls() {
    assert_eq!(
        address("s3://bucket", &[("AWS_REGION", "eu-central-1")]).await,
        "CONNECT s3.eu-central-1.amazonaws.com:443"
    );
    assert_eq!(
        address("s3://bucket?path_style=false&region=us-west-2", &[]).await,
        "CONNECT bucket.s3.us-west-2.amazonaws.com:443"
    );
    assert_eq!(address("gs://bucket/prefix", &[]).await, "CONNECT storage.googleapis.com:443");
    assert_eq!(
        address("az://container", &[("AZURE_STORAGE_ACCOUNT_NAME", "account")]).await,
        "CONNECT account.blob.core.windows.net:443"
    );
}

#[tokio::test]
async fn google_and_azure_accept_an_endpoint() {
    assert_eq!(
        address("gs://bucket/prefix?endpoint=http://gcs.example.com:4443", &[]).await,
        "PUT http://gcs.example.com:4443/bucket/prefix%2Freadiness%2Dprobe"
    );
    let account = [
        ("AZURE_STORAGE_ACCOUNT_NAME", "account"),
        ("AZURE_STORAGE_ENDPOINT", "http://other.example.com"),
    ];
    let url = "az://container/prefix?endpoint=http://blob.example.com:10000/account";
    assert_eq!(
        address(url, &account).await,
        "PUT http://blob.example.com:10000/account/container/prefix/readiness-probe"
    );
}
