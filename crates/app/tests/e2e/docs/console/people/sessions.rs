//! Sessions: shared by tabs, ended in the middle of work, and renewed in place.

use domain::use_cases::keys::manage_keys::KeyTerms;
use serde_json::json;
use time::Duration;

use super::super::{ASKS, Console, of_client};
use crate::harness::{created, deed, order, service_process::run};

/// Chooses a document in the form of a new order. Returns the file, which is there as long as it.
async fn choose_document(console: &Console) -> tempfile::NamedTempFile {
    let file = tempfile::Builder::new().suffix(".pdf").tempfile().unwrap();
    std::fs::write(file.path(), deed()).unwrap();
    console.browser.type_into("input[type=file]", file.path().to_str().unwrap()).await;
    file
}

#[tokio::test(flavor = "multi_thread")]
async fn tabs_share_sign_in_and_sign_out() {
    let console = Console::as_admin(&[]).await;
    let first = console.browser.open_tab().await;
    console.visit("#/people").await;
    console.browser.shows("Invite a person").await;
    console.press_button("Sign out").await;
    console.browser.shows("Sign in with a passkey").await;
    let second = console.browser.open_tab().await;
    console.browser.switch_to(&first).await;
    console.browser.shows("Sign in with a passkey").await;
    console.browser.lacks("nav").await;
    console.use_passkey().await;
    console.browser.switch_to(&second).await;
    assert!(console.browser.text("nav").await.contains("People"));
}

#[tokio::test(flavor = "multi_thread")]
async fn session_that_ends_in_the_middle_of_work_is_renewed_in_place() {
    let console = Console::as_admin(&[]).await;
    console.view("new").await;
    console.fill(&order("AGAIN-1")).await;
    let _document = choose_document(&console).await;
    console.app.clock.advance(Duration::minutes(61));
    console.press_button("Create the order").await;
    console.browser.shows("Your session has ended").await;
    assert_eq!(console.browser.run(ASKS, &[]).await, true);
    // Nobody else is offered to sign in with a key.
    console.browser.lacks("#other-key").await;
    console.use_passkey().await;
    // The request is repeated, with entries and files.
    console.browser.shows("Order 1 is created.").await;
    let stored = console.app.read("/api/order/1").await;
    assert_eq!(stored["documents_uploaded"], 1);
    assert_eq!(stored["history"][0]["by"], "Ann Roe");
    assert_eq!(console.complaints().await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn sign_in_that_is_put_off_loses_nothing() {
    let console = Console::as_admin(&[]).await;
    console.view("new").await;
    console.fill(&order("LATER-1")).await;
    let _document = choose_document(&console).await;
    console.app.clock.advance(Duration::minutes(61));
    console.press_button("Create the order").await;
    console.browser.text("dialog").await;
    console.press_button("Back").await;
    console.browser.shows("You are not signed in any more.").await;
    assert_eq!(console.texts(".files li").await.len(), 1);
    console.press_button("Sign in again").await;
    console.use_passkey().await;
    console.press_button("Create the order").await;
    console.browser.shows("Order 1 is created.").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_one_person_has_asked_for_is_not_done_by_another() {
    let console = Console::as_admin(&[]).await;
    console.press_button("Sign out").await;
    console.browser.shows("API key").await;
    let key = console
        .app
        .issue_key_on(KeyTerms { client: Some(domain::api_key::ClientId(1)), ..of_client() })
        .await;
    console.browser.type_into("#api-key", &format!("{key}\u{e007}")).await;
    console.view("new").await;
    console.fill(&order("OTHER-1")).await;
    console.app.clock.advance(Duration::minutes(61));
    console.press_button("Create the order").await;
    console.browser.shows("Begins with nok_.").await;
    console.use_passkey().await;
    console.browser.shows("Another user has signed in, so nothing was sent.").await;
    assert_eq!(console.app.rows("orders"), 0);
    console.press_button("Create the order").await;
    console.browser.shows("Order 1 is created.").await;
    assert_eq!(console.app.read("/api/order/1").await["history"][0]["by"], "Ann Roe");
}

#[tokio::test(flavor = "multi_thread")]
async fn admin_confirms_a_change_and_ends_the_access_of_a_leaver() {
    let mut console = Console::as_admin(&[]).await;
    let ann = console.browser_of("Bob Poe").await;
    let bob = std::mem::replace(&mut console.browser, ann);
    console.view("people").await;
    console.app.clock.advance(Duration::minutes(6));
    console.press_button("Disable: Bob Poe").await;
    console.browser.click("dialog button.danger").await;
    console.browser.shows("need a sign-in of the last five minutes").await;
    console.use_passkey().await;
    console.browser.shows("Bob Poe is disabled.").await;
    // The list follows the sentence.
    console.browser.text("[data-status=disabled]").await;
    assert!(console.rows("2 people").await[1][2].contains("Disabled"));

    let ann = std::mem::replace(&mut console.browser, bob);
    console.browser.run("location.hash = '#/account'", &[]).await;
    console.browser.shows("Your session has ended").await;
    console.press_button("Sign in with a passkey").await;
    console.browser.shows("Your access is disabled.").await;
    console.browser = ann;
    console.press_button("Disable: Ann Roe").await;
    console.browser.click("dialog button.danger").await;
    console.browser.shows("This is the last admin who can sign in.").await;
    console.press_button("Enable: Bob Poe").await;
    console.browser.shows("Bob Poe may sign in again.").await;
    assert_eq!(console.complaints().await, Vec::<String>::new());
}

impl Console {
    /// Lets another person accept an invitation in a browser of their own. Returns the browser before.
    async fn browser_of(&mut self, name: &str) -> test_servers::browser::Browser {
        let link = self.invited(name, &["--client=1"]);
        let before = self.change_browser().await;
        self.accept(&link).await;
        before
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn operator_who_ends_sessions_signs_the_page_out() {
    let console = Console::as_admin(&[]).await;
    run(&console.app.wiring, &["people", "sessions", "1", "--end"]);
    // Another process learns of it within its five seconds.
    console.app.clock.advance(Duration::seconds(10));
    console.browser.run("location.hash = '#/people'", &[]).await;
    console.browser.shows("Your session has ended").await;
    console.use_passkey().await;
    console.browser.shows("Invite a person").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn person_who_is_away_is_signed_out_though_the_page_asks_by_itself() {
    let console = Console::as_admin(&[]).await;
    console.view("orders").await;
    // As if the computer had slept: nobody has touched it since.
    let sleep = "const now = Date.now.bind(Date);
        Date.now = () => now() + 61 * 60_000;";
    console.browser.run(sleep, &[]).await;
    console.browser.shows("Your session has ended").await;
    let sessions = run(&console.app.wiring, &["people", "sessions", "1", "--json"]);
    assert_eq!(sessions, "");
    console.use_passkey().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_can_be_kept_out_of_the_page() {
    let console = Console::without_sign_in(&["--console-keys=false"]).await;
    console.visit("").await;
    console.browser.shows("Sign in with a passkey").await;
    console.browser.lacks("#api-key").await;
    let answer = console.app.post("/api/session/key").header("sec-fetch-site", "same-origin");
    let answer = answer.json(&json!({})).send().await.unwrap();
    assert_eq!(answer.status(), 403);
    // Programs go on.
    created(console.app.order("PROGRAM-1").await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn key_signs_in_and_nothing_of_it_stays() {
    let console = Console::without_sign_in(&[]).await;
    console.visit("").await;
    console.sign_in(&console.user.key).await;
    let kept = console.kept().await;
    assert!(!kept.contains("nok_") && kept.ends_with(",\"\"]"), "{kept}");
    let page = console.browser.run("return document.documentElement.outerHTML", &[]).await;
    assert!(!page.as_str().unwrap().contains(&console.user.key));
    // A key manages nobody.
    let nav = console.browser.text("nav").await;
    assert!(!nav.contains("People") && !nav.contains("Keys"), "{nav}");
    console.browser.run("location.reload()", &[]).await;
    console.browser.text("nav").await;
}

/// A mail leads to the page from another site. The page itself sends the cookie, which is `SameSite=Strict`.
#[tokio::test(flavor = "multi_thread")]
async fn link_of_a_mail_shares_the_session() {
    let console = Console::as_admin(&[]).await;
    let port = console.app.address.port();
    console.browser.open(&format!("http://127.0.0.1:{port}/docs")).await;
    let link = format!("http://localhost:{port}/console#/account");
    let follow = "const link = document.createElement('a');
        link.href = arguments[0];
        document.body.append(link);
        link.click();";
    console.browser.run(follow, &[&link]).await;
    console.browser.shows("Ann Roe").await;
    console.browser.lacks(".ways").await;
}

/// A sign-in reads two things at once.
#[tokio::test(flavor = "multi_thread")]
async fn page_waits_where_reads_are_scarce() {
    let flags = ["--reads-rate-per-second=1", "--reads-rate-burst=1"];
    let console = Console::as_admin(&flags).await;
    console.press_button("Sign out").await;
    console.use_passkey().await;
    console.visit("#/account").await;
    console.browser.shows("Ann Roe").await;
    console.browser.lacks(".problem").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn page_that_asks_who_is_signed_in_guesses_nothing() {
    let console = Console::without_sign_in(&["--rate-per-second=1", "--rate-burst=1"]).await;
    for _ in 0..3 {
        console.visit("").await;
        console.browser.shows("Sign in with a passkey").await;
        console.browser.lacks(".problem").await;
    }
}
