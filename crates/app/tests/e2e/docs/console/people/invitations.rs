//! Invitations: looked at, accepted once, and told in words when they cannot be accepted.

use time::Duration;

use super::{super::Console, visitor::fragment};
use crate::harness::service_process::run;

#[tokio::test(flavor = "multi_thread")]
async fn admin_invites_a_person_who_accepts_in_another_browser() {
    let mut console = Console::as_admin(&[]).await;
    console.view("people").await;
    console.enter("Name", "Bob Poe").await;
    console.press_button("Invite").await;
    console.browser.shows("It was not mailed.").await;
    let link = fragment(&console.browser.text("main code").await);
    let shown = console.rows("2 people").await;
    assert!(shown[1][0].contains("Bob Poe") && shown[1][2].contains("Invited"), "{shown:?}");

    let ann = console.change_browser().await;
    console.visit(&link).await;
    console.browser.shows("You are invited, Bob Poe").await;
    console.browser.shows("Client: orders signings").await;
    console.browser.shows("Member: works with orders").await;
    assert!(!console.address().await.contains("invite"));
    // The page was only looked at: it can be opened again.
    console.visit(&link).await;
    console.press_button("Create a passkey").await;
    console.browser.shows("You are signed in.").await;
    assert!(console.browser.text("#header").await.contains("Bob Poe"));
    // A member manages nobody.
    let nav = console.browser.text("nav").await;
    assert!(nav.contains("Orders") && !nav.contains("People") && !nav.contains("Keys"), "{nav}");
    console.browser.run("location.hash = '#/people'", &[]).await;
    console.browser.shows("You may not open “People”.").await;

    // The passkey alone signs in later. The link does not.
    console.press_button("Sign out").await;
    console.use_passkey().await;
    assert!(console.browser.text("#header").await.contains("Bob Poe"));
    console.visit(&link).await;
    console.browser.shows("This invitation is used.").await;
    assert_eq!(console.complaints().await, Vec::<String>::new());

    console.browser = ann;
    console.press_button("Done").await;
    console.browser.lacks("main code").await;
    // The list refreshes itself.
    console.browser.lacks("[data-status=new]").await;
    assert!(console.rows("2 people").await[1][2].contains("Active"));
    assert_eq!(console.complaints().await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn invitation_that_cannot_be_accepted_says_what_to_do() {
    let console = Console::without_sign_in(&[]).await;
    let [first, withdrawn, expired] =
        ["Ann Roe", "Bob Poe", "Cy Doe"].map(|name| console.invited(name, &["--client=1"]));
    run(&console.app.wiring, &["people", "disable", "1"]);
    run(&console.app.wiring, &["people", "invite-again", "2"]);
    for (link, words) in [
        (first.as_str(), "Your access is disabled."),
        (&withdrawn, "use the newest link, or ask for another"),
        ("#invite=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", "This link is not complete."),
        ("#invite=%20cut", "This link is not complete."),
    ] {
        console.visit(link).await;
        console.browser.shows(words).await;
        // The ways to sign in stand below.
        console.browser.shows("Sign in with a passkey").await;
    }
    console.visit(&expired).await;
    console.browser.shows("You are invited, Cy Doe").await;
    console.app.clock.advance(Duration::days(60));
    console.press_button("Create a passkey").await;
    console.browser.shows("This invitation is older than 7 days.").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn link_that_is_opened_in_an_open_page_asks_before_it_ends_the_sign_in() {
    let console = Console::as_admin(&[]).await;
    let bob = console.invited("Bob Poe", &["--for-service=42"]);
    console.browser.run("location.hash = arguments[0]", &[&bob]).await;
    console.browser.shows("This browser is signed in as Ann Roe.").await;
    console.browser.shows("Signing service: carries signings out").await;
    assert!(!console.address().await.contains("invite"));
    console.view("orders").await;
    assert!(console.browser.text("#header").await.contains("Ann Roe"));
    console.browser.run("location.hash = arguments[0]", &[&bob]).await;
    console.press_button("Create a passkey").await;
    console.browser.shows("There is no new order.").await;
    assert!(console.browser.text("#header").await.contains("Bob Poe"));
}
