//! The login of a company, with a real provider.

use serde_json::json;
use test_servers::{
    janitor::free_port,
    oidc::{CLIENT_ID, CLIENT_SECRET, OidcProvider},
};
use time::Duration;

use super::super::Console;
use crate::{
    harness::{TestApp, clock_behind_system, eventually_async, order},
    wiring::Wiring,
};

/// Lets the provider sign in a subject, which has no page that asks for one.
const AS_SUBJECT: &str = "const send = window.fetch;
    window.fetch = async (...request) => {
        const answer = await send(...request);
        if (!String(request[0]).endsWith('/api/session/login')) return answer;
        const url = new URL((await answer.json()).url);
        url.searchParams.set('login_hint', JSON.stringify({ sub: arguments[0], claims: {} }));
        return new Response(JSON.stringify({ url: url.href }));
    };";

/// Returns the flags of a service with a login, and its provider.
fn with_login() -> (Vec<String>, OidcProvider) {
    let port = free_port();
    let redirect = format!("http://localhost:{port}/console");
    let provider = OidcProvider::start(&json!({ "redirect_uris": [redirect] }));
    let flags = vec![
        format!("--listen=127.0.0.1:{port}"),
        format!("--oidc=Acme={}", provider.issuer()),
        format!("--oidc-client=Acme={CLIENT_ID}"),
        format!("--oidc-secret=Acme={CLIENT_SECRET}"),
    ];
    (flags, provider)
}

#[tokio::test(flavor = "multi_thread")]
async fn person_accepts_and_signs_in_with_the_login_of_a_company() {
    let (flags, _provider) = with_login();
    let idle = ["--session-idle-mins=10"];
    let flags: Vec<&str> = flags.iter().map(String::as_str).chain(idle).collect();
    // The provider has the clock of the system. A token counts for an hour, and not before it is issued.
    let clock = clock_behind_system(Duration::minutes(-5));
    let app = TestApp::start_on(Wiring::embedded(), clock, &flags, None).await;
    let console = Console::visiting(app).await;
    let browser = &console.browser;
    console.visit(&console.invited("Ann Roe", &["--client=1"])).await;
    browser.run(AS_SUBJECT, &["ann"]).await;
    console.press_button("Continue with Acme").await;
    browser.shows("Ann Roe").await;
    browser.text("nav").await;
    assert!(!console.address().await.contains("code="));

    // The page goes on where the user wanted to be.
    console.press_button("Sign out").await;
    browser.shows("Sign in with Acme").await;
    browser.run("location.hash = '#/webhooks'", &[]).await;
    browser.run(AS_SUBJECT, &["ann"]).await;
    console.press_button("Sign in with Acme").await;
    browser.text("nav").await;
    assert!(console.address().await.ends_with("/console#/webhooks"));

    // A session that has ended is renewed in a window of its own, which closes itself.
    console.view("new").await;
    console.fill(&order("LOGIN-1")).await;
    browser.run(AS_SUBJECT, &["ann"]).await;
    console.app.clock.advance(Duration::minutes(11));
    console.press_button("Create the order").await;
    browser.shows("Your session has ended").await;
    console.press_button("Sign in with Acme").await;
    browser.shows("Order 1 is created.").await;
    eventually_async(async || browser.windows().await == 1).await;

    // A stranger at the same provider is nobody here.
    console.press_button("Sign out").await;
    browser.shows("Sign in with Acme").await;
    // The provider has a session of its own.
    browser.devtools("Network.clearBrowserCookies", json!({})).await;
    browser.run(AS_SUBJECT, &["eve"]).await;
    console.press_button("Sign in with Acme").await;
    browser.shows("Nobody here has this login or passkey.").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn passkeys_go_on_while_the_login_of_a_company_is_down() {
    let (flags, provider) = with_login();
    provider.stop();
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let console = Console::as_admin(&flags).await;
    console.press_button("Sign out").await;
    console.press_button("Sign in with Acme").await;
    console.browser.shows("The login of your company does not answer.").await;
    console.use_passkey().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn login_that_was_stopped_is_told_in_words() {
    let console = Console::without_sign_in(&[]).await;
    console.visit("?error=access_denied&state=some").await;
    console.browser.shows("The login was stopped before its end.").await;
    assert!(console.address().await.ends_with("/console"));
    console.visit("?code=some&state=some").await;
    console.browser.shows("This took too long, or was begun in another browser.").await;
    assert!(console.address().await.ends_with("/console"));
}
