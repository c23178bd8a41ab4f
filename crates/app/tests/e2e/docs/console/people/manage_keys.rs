//! The keys of a side, in the page of its admins.

use super::super::Console;

#[tokio::test(flavor = "multi_thread")]
async fn admin_makes_replaces_and_revokes_a_key() {
    let console = Console::as_admin(&[]).await;
    console.view("keys").await;
    console.enter("Name", "Order robot").await;
    console.press_button("Make a key").await;
    console.browser.shows("The key is made.").await;
    let key = console.browser.text("main code").await;
    let status = async |key: &str| {
        let api = console.app.as_key(key);
        api.get("/api/order").await.status().as_u16()
    };
    assert_eq!(status(&key).await, 200);
    assert!(!console.kept().await.contains("nok_"));
    // It is shown until it is stored, and asked for before the sign-out.
    console.press_button("Sign out").await;
    console.browser.shows("A new key is still shown.").await;
    console.press_button("Back").await;
    console.press_button("I have stored it").await;
    assert!(!console.browser.text("main").await.contains(&key));

    console.press_button("Replace the key Order robot").await;
    console.press_button("Make the new key").await;
    console.browser.shows("The old key works until").await;
    let successor = console.browser.text("main code").await;
    assert_ne!(successor, key);
    console.press_button("I have stored it").await;
    assert_eq!((status(&key).await, status(&successor).await), (200, 200));
    let are_left =
        "const buttons = document.querySelectorAll(`[aria-label='Revoke the key Order robot']`);
        return buttons.length === Number(arguments[0]) || null";
    for left in ["1", "0"] {
        console.press_button("Revoke the key Order robot").await;
        console.browser.click("dialog button.danger").await;
        console.browser.shows("The key is revoked.").await;
        console.browser.click("#toast button").await;
        console.browser.lacks("#toast button").await;
        // The list follows the sentence.
        console.browser.wait_for(are_left, left).await;
    }
    console.app.clock.advance(time::Duration::seconds(10));
    assert_eq!((status(&key).await, status(&successor).await), (401, 401));
    assert_eq!(console.complaints().await, Vec::<String>::new());
}
