//! The link of the first start.

use reqwest::{Method, StatusCode};
use test_servers::browser::Browser;

use super::super::Console;
use crate::{
    harness::{TestApp, client, eventually, service_process::ServiceProcess},
    wiring::Wiring,
};

/// Returns the link of a first start, which has no terminal.
async fn welcome_link(wiring: &Wiring) -> String {
    let file = wiring.data().join("first-sign-in");
    eventually(|| file.exists()).await;
    std::fs::read_to_string(file).unwrap().trim().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn link_of_the_first_start_signs_its_owner_in() {
    let wiring = Wiring::embedded();
    let server = ServiceProcess::start(&wiring, &[]);
    let link = welcome_link(&wiring).await;
    let token = link.split_once('=').unwrap().1.to_owned();
    let page = link.split_once('#').unwrap().0;
    // A scanner that follows links uses nothing up.
    for method in [Method::GET, Method::HEAD, Method::GET] {
        let answer = client().request(method, page).send().await.unwrap();
        assert_eq!(answer.status(), StatusCode::OK);
    }
    let browser = Browser::start(client()).await;
    browser.add_authenticator().await;
    browser.open(&link).await;
    browser.shows("You are the first admin").await;
    let address = browser.run("return location.href + history.length", &[]).await;
    assert!(!address.as_str().unwrap().contains(&token), "{address}");
    browser.click("button.primary").await;
    browser.shows("Enter your name.").await;
    browser.type_into("#own-name", "Ann Roe").await;
    browser.click("button.primary").await;
    browser.shows("You are signed in.").await;
    assert!(browser.text("#header").await.contains("Ann Roe"));

    // The sign-in survives the page. Its link does not.
    browser.run("location.reload()", &[]).await;
    assert!(browser.text("nav").await.contains("People"));
    browser.open("about:blank").await;
    browser.open(&link).await;
    browser.shows("This invitation is used.").await;
    let requested = browser.requested().await;
    let is_told = |url: &String| url.contains(&token) && !url.contains('#');
    assert!(!requested.iter().any(is_told), "{requested:?}");
    let log = server.stop_and_read_log();
    assert!(!log.contains(&token), "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn page_without_a_name_leads_to_one_where_passkeys_work() {
    let console = Console::without_sign_in(&[]).await;
    let invited = console.invited("Ann Roe", &["--client=1"]);
    let port = console.app.address.port();
    console.browser.open(&format!("http://127.0.0.1:{port}/console{invited}")).await;
    console.browser.shows("Passkeys need a name in the address").await;
    console.follow(&format!("localhost:{port}")).await;
    console.browser.shows("You are invited, Ann Roe").await;
    console.press_button("Create a passkey").await;
    console.browser.shows("You are signed in.").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn plain_http_says_why_nobody_signs_in_there() {
    let app = TestApp::start().await;
    let browser = Browser::start(client()).await;
    // As a browser sees a page of another machine that has no TLS.
    let script = "Object.defineProperty(window, 'isSecureContext', { value: false });";
    let source = serde_json::json!({ "source": script });
    browser.devtools("Page.addScriptToEvaluateOnNewDocument", source).await;
    browser.open(&app.url("/console")).await;
    browser.shows("keeps neither passkeys nor a sign-in here. Open the page with https.").await;
    browser.lacks("#api-key").await;
}
