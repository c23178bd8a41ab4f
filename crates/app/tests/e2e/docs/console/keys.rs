//! The console with keys: each becomes a session, and what each sees.

use domain::{api_key::Scope, order::SigningServiceId, use_cases::keys::manage_keys::KeyTerms};
use reqwest::{Method, StatusCode};
use serde_json::json;
use test_servers::browser::Browser;
use time::Duration;

use super::{Console, of_client, of_service};
use crate::harness::{TestApp, client, order, service_process::run};

#[tokio::test(flavor = "multi_thread")]
async fn key_becomes_a_session_and_shows_what_it_may_do() {
    let test = KeyTerms { is_test: true, ..of_client() };
    let mut console = Console::start(&["--base-path=/signing/v1"], of_client()).await;
    for view in ["orders", "new", "webhooks"] {
        console.view(view).await;
        console.browser.lacks(".test").await;
    }
    // A new load of the page keeps the session, and the browser no key.
    console.browser.open(&console.user.url("/signing/v1/console/")).await;
    console.browser.text("nav").await;
    let stored =
        "return [Object.values(sessionStorage), Object.values(localStorage), document.cookie]";
    assert_eq!(console.browser.run(stored, &[]).await, json!([[], [], ""]));
    let requested = console.browser.requested().await;
    assert!(requested.iter().any(|url| url.ends_with("/signing/v1/api/key")), "{requested:?}");
    let origin = console.user.url("/signing/v1/");
    for url in requested {
        let is_own = url.starts_with(&origin) || url.starts_with("data:");
        assert!(is_own && !url.contains("nok_"), "{url}");
    }

    console.sign_in_as(test).await;
    for view in ["orders", "new", "webhooks"] {
        console.view(view).await;
        assert!(console.browser.text(".test").await.contains("test orders only"));
        let title = console.browser.run("return document.title", &[]).await;
        assert!(title.as_str().unwrap().starts_with("[Test]"), "{title}");
    }
    for (scopes, views) in [
        (&[Scope::OrdersCreate][..], &["New order"][..]),
        (&[Scope::OrdersRead], &["Orders"]),
        (&[Scope::WebhooksManage], &["Webhooks"]),
        (&Scope::DEFAULT, &["Orders", "New order"]),
    ] {
        let scopes = scopes.iter().copied().collect();
        console.sign_in_as(KeyTerms { scopes, ..KeyTerms::default() }).await;
        assert_eq!(console.texts("#header nav a").await, views);
        // The address of a view that the key may not see leads to another.
        for address in
            ["#/orders?search=abc", "#/new", "#/webhooks", "#/order/1", "#/order/1/change"]
        {
            console.browser.run("location.hash = arguments[0]", &[address]).await;
            let script = "return document.querySelector('h1').innerText";
            let title = console.browser.run(script, &[]).await;
            let refused = console.texts("main > .warning").await;
            let is_missing = address == "#/webhooks" && !views.contains(&"Webhooks");
            assert!(!is_missing || refused[0].contains("“Webhooks”"), "{address}: {refused:?}");
            let permitted = views.contains(&title.as_str().unwrap());
            assert!(
                permitted
                    || title == "Order 1" && views.contains(&"Orders")
                    || title == "Change order 1" && views == ["Orders", "New order"],
                "{address} {title}"
            );
        }
    }
    let create = [Scope::OrdersCreate].into_iter().collect();
    console.sign_in_as(KeyTerms { scopes: create, ..KeyTerms::default() }).await;
    console.fill(&order("BLIND-1")).await;
    console.press_button("Create the order").await;
    console.browser.shows("Order 1 is created.").await;

    console.browser.click("#header > button").await;
    console.browser.text(".key").await;
    // The numbers of the last order stay, for the next one of its client.
    let left = console.browser.run(stored, &[]).await;
    assert_eq!((&left[0], &left[2]), (&json!([]), &json!("")));
    assert!(!left.to_string().contains("nok_"), "{left}");
    for wrong in ["nok_mistyped", "ключ"] {
        console.browser.paste_over("#api-key", wrong).await;
        console.press_button("Continue").await;
        console.browser.shows("This key does not work").await;
    }
    assert_eq!(console.browser.run(stored, &[]).await, left);
    assert_eq!(console.complaints().await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn console_has_security_headers_and_can_be_taken_away() {
    let app = TestApp::start().await;
    let page = app.get("/console").await;
    for (name, value) in [
        ("content-type", "text/html; charset=utf-8"),
        ("cache-control", "no-cache"),
        ("referrer-policy", "no-referrer"),
        ("cross-origin-opener-policy", "same-origin"),
        ("x-content-type-options", "nosniff"),
    ] {
        assert_eq!(page.headers()[name], value);
    }
    let policy = page.headers()["content-security-policy"].to_str().unwrap();
    assert!(
        policy.starts_with("default-src 'none'; script-src 'self'; style-src 'self';"),
        "{policy}"
    );
    assert!(policy.contains("frame-ancestors 'none'") && !policy.contains("unsafe"), "{policy}");
    let tag = page.headers()["etag"].clone();
    let again = app.request(Method::GET, "/console").header("if-none-match", tag).send().await;
    assert_eq!(again.unwrap().status(), StatusCode::NOT_MODIFIED);

    let without = TestApp::start_with(&["--console=false"]).await;
    for path in ["/console", "/console/", "/console/main.js"] {
        assert_eq!(without.get(path).await.status(), 404, "{path}");
    }
    assert_eq!(without.get("/docs").await.status(), 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn user_sees_the_terms_of_the_key() {
    let terms = KeyTerms {
        client_name: Some("Acme Title".to_owned()),
        signing_service: Some(SigningServiceId(42)),
        lifetime: Some(Duration::days(30)),
        is_test: true,
        ..of_client()
    };
    let mut console = Console::start(&[], terms).await;
    let add = ["services", "add", "42", "--name=Lone Star", "--email=dispatch@signing.example.com"];
    run(&console.app.wiring, &add);
    console.browser.click("a[href='#/key']").await;
    let card = console.card("What this key is").await;
    for text in [
        "Name",
        "Acme Title (number ",
        "Lone Star (number 42)",
        "Test",
        "create, change and cancel orders",
        "manage webhooks",
        "Expires",
        "Last use",
    ] {
        assert!(card.contains(text), "{text}: {card}");
    }
    assert!(!card.contains("nok_") && !card.contains("never"), "{card}");
    assert!(!card.contains("May not"), "{card}");
    console.sign_in_as(of_service()).await;
    console.browser.click("a[href='#/key']").await;
    let card = console.card("What this key is").await;
    let lacks = "May not\nmanage webhooks";
    for text in ["Lone Star (number 42)", "Live", "carry out orders", "never", lacks] {
        assert!(card.contains(text), "{text}: {card}");
    }
    assert!(!card.contains("Client"), "{card}");
    assert_eq!(console.complaints().await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn page_needs_no_session_to_load_and_shows_no_view_without_one() {
    let app = TestApp::start().await;
    let browser = Browser::start(client()).await;
    browser.open(&app.url("/console#/webhooks")).await;
    browser.shows("The administrator of this site issues keys.").await;
    browser.shows("data/first-key").await;
    browser.shows("What is kept where").await;
    browser.lacks("nav").await;
    browser.shows("Sign in").await;
    let sent = browser.requested().await;
    let asked = |url: &String| url.contains("/api/") && !url.contains("/api/session");
    assert!(!sent.iter().any(asked), "{sent:?}");
}
