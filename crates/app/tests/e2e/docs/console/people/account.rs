//! The own account: name, passkeys, sessions; and who did something.

use super::super::Console;
use crate::harness::{created, deed, file, form, order};

#[tokio::test(flavor = "multi_thread")]
async fn person_manages_the_own_name_and_passkeys() {
    let console = Console::as_admin(&[]).await;
    console.browser.click("a[href='#/account']").await;
    console.browser.text("#account-save").await;
    console.enter("Name", "Ann Roe-Poe").await;
    console.press_button("Save").await;
    console.browser.shows("Saved.").await;
    assert!(console.browser.text("#header").await.contains("Ann Roe-Poe"));
    console.enter("E-mail", "no address").await;
    console.press_button("Save").await;
    console.browser.wait_for("return document.querySelector('.error:not(:empty)')", "").await;

    // The last one stays.
    console.browser.click("[aria-label^='Remove the passkey']").await;
    console.browser.shows("It is your last way to sign in").await;
    console.browser.click("dialog button.danger").await;
    console.browser.shows("This is the last way to sign in.").await;
    // An authenticator has one passkey of a person. Each tab has an authenticator of its own.
    console.browser.open_tab().await;
    console.browser.add_authenticator().await;
    console.visit("#/account").await;
    console.enter("Name of another passkey", "Blue key").await;
    console.press_button("Add a passkey").await;
    console.browser.shows("2 passkeys").await;
    let names: Vec<_> =
        console.rows("2 passkeys").await.into_iter().map(|row| row[0].clone()).collect();
    assert_eq!(names[1], "Blue key");
    console.press_button("Remove the passkey Blue key").await;
    console.browser.click("dialog button.danger").await;
    console.browser.shows("The passkey is removed.").await;
    console.rows("1 passkey").await;
    assert_eq!(console.complaints().await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn person_signs_out_everywhere() {
    let console = Console::as_admin(&[]).await;
    console.browser.click("a[href='#/account']").await;
    console.browser.shows("This browser, with a passkey").await;
    console.press_button("Sign out everywhere").await;
    console.browser.click("dialog button.danger").await;
    console.browser.shows("You are signed out everywhere.").await;
    console.use_passkey().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn own_side_sees_who_did_something() {
    let console = Console::as_admin(&[]).await;
    console.view("new").await;
    let by = "return document.getElementsByName('/requestedBy/userId')[0].value";
    assert_eq!(console.browser.run(by, &[]).await, "1");
    let contact =
        "return document.getElementsByName('/signingContactsFormData/orderContactEmail')[0].value";
    assert_eq!(console.browser.run(contact, &[]).await, "person@example.com");
    console.fill(&order("DOER-1")).await;
    console.press_button("Create the order").await;
    console.browser.shows("Order 1 is created.").await;
    console.enter("New note", "The gate code is 12.").await;
    console.press_button("Add the note").await;
    console.browser.shows("The note is added.").await;
    let shown = console.timeline().await;
    assert!(shown.iter().all(|item| item.join(" ").contains("Ann Roe")), "{shown:?}");
    let documents = form(&order("DOER-2")).part("documents", file("deed.pdf", deed()));
    created(console.app.create_with(documents).await).await;
    console.open_order(2).await;
    assert_eq!(console.rows("1 document").await[0][4], "test");

    // The other side sees the side.
    console.accept(&console.invited("Bob Poe", &["--for-service=42"])).await;
    console.open_order(1).await;
    let shown = console.timeline().await;
    assert!(shown.iter().all(|item| !item.join(" ").contains("Ann Roe")), "{shown:?}");
    assert!(shown[0].join(" ").contains("client"), "{shown:?}");
    assert_eq!(console.complaints().await, Vec::<String>::new());
}
