//! The view of webhooks.

use serde_json::json;

use super::{ASKS, Console, ENTER, of_client};
use crate::harness::{
    WEBHOOKS, created,
    scripted_server::{Reply, ScriptedServer},
};

const DOWN: char = '\u{e015}';
const END: char = '\u{e010}';
const ESCAPE: char = '\u{e00c}';

#[tokio::test(flavor = "multi_thread")]
async fn failed_delivery_of_a_test_event_is_sent_again() {
    let console = Console::start(&WEBHOOKS, of_client()).await;
    let browser = &console.browser;
    let failure = Reply::Answer { status: 500, headers: Vec::new(), body: String::new() };
    let receiver = ScriptedServer::start(vec![failure]);
    console.view("webhooks").await;
    browser.shows("There is no webhook yet.").await;
    browser.type_into("#webhook-url", "ftp://nowhere").await;
    console.press_button("Create").await;
    browser.shows("URL must begin with").await;
    browser.paste_over("#webhook-url", &receiver.url()).await;
    browser.type_into("#webhook-description", "<b>Escrow</b> desk").await;
    browser.click("#event-order\\.updated").await;
    console.press_button("Create").await;
    browser.shows("Store this secret now").await;
    assert!(browser.text("main code").await.starts_with("whsec_"));
    console.press_button("I have stored it").await;
    browser.lacks("main code").await;
    browser.shows("<b>Escrow</b> desk").await;
    browser.shows("Events: order.created, order.documents_added, order.cancelled").await;

    console.press_button("Send a test event").await;
    browser.shows("All deliveries, newest first").await;
    show_until(&console, "Failed deliveries", "RETRYING").await;
    assert!(browser.text("tbody").await.contains("500"));
    console.press_button("Send again: delivery 1").await;
    show_until(&console, "All deliveries", "DELIVERED").await;
    console.choose("Failed deliveries").await;
    browser.shows("No delivery has failed.").await;
    assert_eq!(receiver.requests().len(), 2);

    console.press_button("Replay a time range").await;
    browser.paste_over("#replay-since", "2026-11-20T00:00").await;
    browser.paste_over("#replay-until", "2026-11-23T00:00").await;
    console.press_button("Send them again").await;
    browser.lacks("dialog").await;
    while receiver.requests().len() < 3 {
        tokio::task::yield_now().await;
    }

    console.choose("Disable").await;
    browser.shows("Disabled by a request").await;
    console.press_button("Enable").await;
    browser.lacks(".warning").await;
    let secret = "Replace it";
    console.choose("New secret").await;
    console.press_button(secret).await;
    browser.text("main code").await;
    console.press_button("I have stored it").await;
    console.choose("Delete").await;
    console.press_button("Delete it").await;
    browser.shows("There is no webhook yet.").await;
    assert_eq!(console.complaints().await, Vec::<String>::new());
}

impl Console {
    /// Chooses an action of the menu of the only webhook.
    pub(super) async fn choose(&self, action: &str) {
        // The page may draw the list anew in between, which closes the menu.
        let script = "const menu = document.querySelector('[aria-haspopup=menu]');
            if (menu?.ariaExpanded === 'false') menu.click();
            const button = [...document.querySelectorAll('button')]
                .find((it) => it.innerText === arguments[0]);
            if (!button?.checkVisibility()) return null;
            button.focus();
            button.click();
            return true;";
        self.browser.wait_for(script, action).await;
    }
}

/// Opens a list of deliveries until it shows a status.
async fn show_until(console: &Console, list: &str, status: &str) {
    while !console.texts("tbody .badge").await.iter().any(|it| it.to_uppercase() == status) {
        console.choose(list).await;
        console.browser.shows("newest first").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn webhook_is_edited_by_keyboard_alone() {
    let console = Console::start(&WEBHOOKS, of_client()).await;
    let browser = &console.browser;
    let webhook = json!({ "url": "http://127.0.0.1:9999/one", "description": "Escrow desk" });
    created(console.user.post("/api/webhooks").json(&webhook).send().await.unwrap()).await;
    console.view("webhooks").await;
    browser.text("[aria-haspopup=menu]").await;
    let focused = "const it = document.activeElement;
        return [it.role ?? '', it.ariaLabel ?? it.innerText]";
    browser.run("document.querySelector('[aria-haspopup=menu]').focus()", &[]).await;
    for (key, expected) in [
        (DOWN, ("menuitem", "Edit")),
        (DOWN, ("menuitem", "Failed deliveries")),
        (END, ("menuitem", "Delete")),
        (DOWN, ("menuitem", "Edit")),
        (ESCAPE, ("", "More actions for webhook 1")),
        (DOWN, ("menuitem", "Edit")),
    ] {
        browser.press(&key.to_string()).await;
        assert_eq!(browser.run(focused, &[]).await, json!(expected));
    }
    browser.press(&ENTER.to_string()).await;
    browser.shows("Edit the webhook").await;
    let selected = "const it = document.activeElement; it.select(); return it.value";
    assert_eq!(browser.run(selected, &[]).await, "http://127.0.0.1:9999/one");
    browser.press(&format!("ftp://nowhere{ENTER}")).await;
    browser.shows("URL must begin with https://").await;
    browser.run(selected, &[]).await;
    browser.press("http://127.0.0.1:9999/two").await;
    browser.click("#webhook-1-order\\.updated").await;
    console.press_button("Save").await;
    browser.shows("Saved.").await;
    browser.shows("http://127.0.0.1:9999/two").await;
    let read = console.user.read("/api/webhooks/1").await;
    assert_eq!(read["description"], "Escrow desk");
    assert!(!read["events"].as_array().unwrap().contains(&json!("order.updated")), "{read}");
    assert_eq!(console.texts("section[aria-label='Webhook 1'] button.primary").await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn secret_stays_until_its_user_has_stored_it() {
    let console = Console::start(&WEBHOOKS, of_client()).await;
    let browser = &console.browser;
    console.view("webhooks").await;
    browser.shows("There is no webhook yet.").await;
    browser.type_into("#webhook-url", "http://127.0.0.1:9999/one").await;
    console.press_button("Create").await;
    browser.shows("Store this secret now").await;
    let secret = browser.text("main code").await;
    console.view("orders").await;
    console.view("webhooks").await;
    assert_eq!(browser.text("main code").await, secret);
    assert_eq!(browser.run(ASKS, &[]).await, true);
    browser.run("location.reload()", &[]).await;
    browser.shows("Store this secret now").await;
    assert_eq!(browser.text("main code").await, secret);
    browser.click("button[aria-label='Copy the secret']").await;
    browser.shows("Copied.").await;
    console.press_button("I have stored it").await;
    browser.lacks("main code").await;
    assert_eq!(browser.run(ASKS, &[]).await, false);
    let kept = browser.run("return Object.values(sessionStorage).join()", &[]).await;
    assert!(!kept.as_str().unwrap().contains("whsec_"));

    // A new secret names its webhook, and goes with it.
    let rotate = async || {
        console.choose("New secret").await;
        console.press_button("Replace it").await;
        browser.shows("Store this secret now").await;
    };
    rotate().await;
    let shown = console.card("Secret of the webhook").await;
    assert!(shown.contains("http://127.0.0.1:9999/one"), "{shown}");
    console.press_button("Sign out").await;
    browser.shows("The secret of a webhook is still shown.").await;
    console.press_button("Back").await;
    browser.lacks("dialog").await;
    browser.shows("Store this secret now").await;
    console.choose("Delete").await;
    console.press_button("Delete it").await;
    browser.shows("There is no webhook yet.").await;
    browser.lacks("main code").await;
    assert_eq!(console.complaints().await, Vec::<String>::new());
}
