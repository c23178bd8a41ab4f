//! Uses the docs page in a real browser.

use std::path::{Path, PathBuf};

use reqwest::Method;
use serde_json::{Value, json};
use test_servers::browser::Browser;

use crate::harness::{TestApp, client, problem};

const JSON: &str = "#operations-orders-createOrder";
const FORM: &str = "#operations-orders-createOrderWithDocuments";

fn below_root(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap().join(path)
}

/// Presses "Execute" of an operation. Returns the status and body that the page shows.
async fn execute(browser: &Browser, operation: &str) -> (String, Value) {
    browser.click(&format!("{operation} .execute")).await;
    let status = browser
        .text(&format!("{operation} .live-responses-table tbody .response-col_status"))
        .await;
    let body = browser
        .text(&format!("{operation} .live-responses-table tbody .response-col_description code"))
        .await;
    (status.trim().to_owned(), serde_json::from_str(&body).unwrap())
}

async fn authorize(browser: &Browser, key: &str) {
    browser.click(".auth-wrapper .authorize").await;
    browser.type_into(".auth-container input", key).await;
    browser.click(".auth-btn-wrapper .authorize").await;
    browser.click(".btn-done").await;
}

/// Saves a screenshot of one operation and its response, without the key.
async fn save_screenshot(browser: &Browser, key: &str) {
    let script = "document.documentElement.style.zoom = 0.7;
        const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
        while (texts.nextNode()) {
            const node = texts.currentNode;
            node.data = node.data.replaceAll(arguments[0], '<API key>');
        }
        document.querySelector('.opblock-tag-section').scrollIntoView();";
    browser.run(script, &[key]).await;
    let folder = below_root("target").join("screenshots");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("docs-page.png"), browser.screenshot().await).unwrap();
    browser.run("document.documentElement.style.zoom = 1;", &[]).await;
}

/// Asserts that the browser sent requests to the service only.
async fn assert_no_other_origin(browser: &Browser, app: &TestApp) {
    let requested = browser.requested().await;
    assert!(requested.iter().any(|url| url.ends_with("/openapi.json")), "{requested:?}");
    for url in requested {
        assert!(url.starts_with(&app.url("/")) || url.starts_with("data:"), "{url}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn docs_page_creates_orders_and_shows_problems() {
    let app = TestApp::start().await;
    let browser = Browser::start(client()).await;
    browser.open(&app.url("/docs")).await;
    authorize(&browser, &app.key).await;

    browser.click(&format!("{JSON} .opblock-summary-control")).await;
    let (status, record) = execute(&browser, JSON).await;
    assert_eq!((status.as_str(), &record["order_id"]), ("201", &json!(1)), "{record}");
    save_screenshot(&browser, &app.key).await;

    browser.click(&format!("{FORM} .opblock-summary-control")).await;
    let documents = format!("{FORM} [data-property-name=documents]");
    for (number, name) in [(1, "deed-of-trust.pdf"), (2, "signing-instructions.docx")] {
        if number > 1 {
            browser.click(&format!("{documents} .json-schema-form-item-add")).await;
        }
        let input = format!("{documents} .json-schema-form-item:nth-of-type({number}) input");
        let path = below_root("docs/examples").join(name);
        browser.type_into(&input, path.to_str().unwrap()).await;
    }
    let (status, record) = execute(&browser, FORM).await;
    assert_eq!(
        (status.as_str(), &record["documents_uploaded"], &record["file_number"]),
        ("201", &json!(2), &json!("REFI-2")),
        "{record}"
    );
    // The examples of the parts are those of the whole form, and the instant is that of the local time.
    let document: Value = app.read("/openapi.json").await;
    let operation = &document["paths"]["/api/order/create-with-documents"]["post"];
    let example = &operation["requestBody"]["content"]["multipart/form-data"]["example"];
    let read: Value = app.read(&format!("/api/order/{}", record["order_id"])).await;
    let details = &read["details"];
    for part in ["requestedBy", "signingContactsFormData", "signingDetailsFormData"] {
        for (name, value) in example[part].as_object().unwrap() {
            assert_eq!(&details[part][name], value, "{part} {name}");
        }
    }
    assert_eq!(details["utcTimeDate"], example["utcTimeDate"]);
    assert_eq!((app.rows("orders"), app.rows("documents"), app.documents().len()), (2, 2, 2));
    assert_eq!(errors(&browser).await, Vec::<String>::new());

    browser.paste_over(&format!("{JSON} .body-param__text"), "{}").await;
    browser.click(&format!("{JSON} .btn-clear")).await;
    let (status, body) = execute(&browser, JSON).await;
    assert_eq!((status.as_str(), &body["code"]), ("400", &json!("validation_failed")), "{body}");
    let errors = errors(&browser).await;
    assert!(
        errors.len() == 1 && errors[0].contains("/api/order/create") && errors[0].contains("400"),
        "{errors:?}"
    );
    assert_no_other_origin(&browser, &app).await;
}

/// Returns the errors in the browser's log, including breaches of the content security policy.
async fn errors(browser: &Browser) -> Vec<String> {
    let complaints = browser.complaints().await.into_iter();
    complaints
        .filter(|(level, text)| level == "SEVERE" || text.contains("Content Security Policy"))
        .map(|(_, text)| text)
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn docs_page_uses_base_path_and_stores_no_key() {
    let app = TestApp::start_with(&["--base-path=/signing/v1"]).await;
    let browser = Browser::start(client()).await;
    browser.open(&app.url("/signing/v1/docs/")).await;
    authorize(&browser, &app.key).await;
    assert!(browser.text(".auth-wrapper .locked").await.contains("Authorize"));
    let stored = browser
        .run("return JSON.stringify([localStorage, sessionStorage, document.cookie])", &[])
        .await;
    assert_eq!(stored, json!("[{},{},\"\"]"));
    browser.open(&app.url("/signing/v1/docs")).await;
    assert!(browser.text(".auth-wrapper .unlocked").await.contains("Authorize"));
    browser.click(&format!("{JSON} .opblock-summary-control")).await;
    let (status, body) = execute(&browser, JSON).await;
    assert_eq!((status.as_str(), &body["code"]), ("401", &json!("unauthorized")), "{body}");
    assert_no_other_origin(&browser, &app).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn docs_page_has_security_headers() {
    let app = TestApp::start().await;
    let page = app.get("/docs").await;
    for (name, value) in [
        ("content-type", "text/html; charset=utf-8"),
        ("cache-control", "no-store"),
        ("referrer-policy", "no-referrer"),
        ("cross-origin-opener-policy", "same-origin"),
        ("x-content-type-options", "nosniff"),
    ] {
        assert_eq!(page.headers()[name], value);
    }
    let policy = page.headers()["content-security-policy"].to_str().unwrap().to_owned();
    assert!(
        policy.starts_with("default-src 'none'; script-src 'self'; style-src 'self';")
            && policy.contains("frame-ancestors 'none'"),
        "{policy}"
    );
    assert!(!policy.contains("unsafe"), "{policy}");
    let bundle = "/docs/swagger-ui-5.35.0/swagger-ui-bundle.js";
    let head = app.request(Method::HEAD, bundle).send().await.unwrap();
    assert_eq!(head.status(), 200);
    assert_eq!(head.headers()["cache-control"], "public, max-age=31536000, immutable");
    assert_eq!(head.headers()["content-length"], "1732839");
    let rejected = app.post("/docs").send().await.unwrap();
    assert_eq!(rejected.headers()["allow"], "GET, HEAD");
    problem(rejected, 405, "method_not_allowed").await;
}
