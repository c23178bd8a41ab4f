//! The addresses of requests. The server acts as the proxy of the store, so it sees each address.

use test_servers::s3::{S3Server, Treatment};

use super::harness::{GENEROUS, Log, owned};

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
    let store = adapter_object_store::open(
        url,
        owned(variables.iter().copied().chain(SECRETS).chain(proxies)),
        GENEROUS,
    )
    .unwrap();
    store.check().await.unwrap_err();
    let requests = log.lock().unwrap();
    requests[0].clone()
}

#[tokio::test]
async fn s3_bucket_is_in_path_or_host_of_the_endpoint() {
    let general = ("AWS_ENDPOINT_URL", "http://general.example");
    let of_s3 = ("AWS_ENDPOINT_URL_S3", "http://s3.example");
    let region = ("AWS_REGION", "eu-central-1");
    for (url, variables, expected) in [
        ("s3://b/a/c?endpoint=http://h:9000/", &[][..], "PUT http://h:9000/b/a/c/readiness-probe"),
        (
            "s3://b/?endpoint=http://h:9000&path_style=false",
            &[],
            "PUT http://b.h:9000/readiness-probe",
        ),
        ("s3://b", &[general, of_s3], "PUT http://s3.example/b/readiness-probe"),
        (
            // A blank variable counts as unset, and the bucket is that of the URL.
            "s3://b",
            &[general, ("AWS_ENDPOINT_URL_S3", " "), ("AWS_BUCKET", "other")],
            "PUT http://general.example/b/readiness-probe",
        ),
        ("s3://b?endpoint=http://h", &[general, of_s3], "PUT http://h/b/readiness-probe"),
        ("s3://b", &[region], "CONNECT s3.eu-central-1.amazonaws.com:443"),
        (
            "s3://b?path_style=false&region=us-west-2",
            &[region],
            "CONNECT b.s3.us-west-2.amazonaws.com:443",
        ),
    ] {
        assert_eq!(first_request(url, variables).await.0, expected, "{url} {variables:?}");
    }
}

#[tokio::test]
async fn google_and_azure_have_their_endpoints_or_that_of_the_url() {
    let variables = [
        ("AZURE_STORAGE_ACCOUNT_NAME", "account"),
        ("AZURE_STORAGE_ENDPOINT", "http://other.example"),
    ];
    for (url, variables, expected) in [
        ("gs://b/p", &variables[..], "CONNECT storage.googleapis.com:443"),
        ("gs://b/p?endpoint=http://h:1", &variables, "PUT http://h:1/b/p%2Freadiness%2Dprobe"),
        ("az://b", &variables[..1], "CONNECT account.blob.core.windows.net:443"),
        ("az://b/p?endpoint=http://h:1/a", &variables, "PUT http://h:1/a/b/p/readiness-probe"),
    ] {
        assert_eq!(first_request(url, variables).await.0, expected, "{url}");
    }
}

#[tokio::test]
async fn region_is_that_of_the_url_or_a_variable_or_us_east_1() {
    for (parameter, variables, region) in [
        ("", &[][..], "us-east-1"),
        ("", &[("AWS_DEFAULT_REGION", "eu-west-1")], "eu-west-1"),
        ("", &[("AWS_REGION", "eu-central-1")], "eu-central-1"),
        ("&region=garage", &[("AWS_REGION", "eu-central-1")], "garage"),
    ] {
        let url = format!("s3://bucket?endpoint=http://s3.example.com{parameter}");
        let scope = first_request(&url, variables).await.1;
        assert_eq!(scope, format!("{region}/s3"), "{url} {variables:?}");
    }
}
