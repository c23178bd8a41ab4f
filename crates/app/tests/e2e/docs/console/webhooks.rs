//! The view of webhooks.

use super::{Console, of_client};
use crate::{
    harness::WEBHOOKS,
    harness::scripted_server::{Reply, ScriptedServer},
};

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
    browser.shows("URL:").await;
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
    console.press_button("Failed deliveries").await;
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

    console.press_button("Disable").await;
    browser.shows("Disabled by a request").await;
    console.press_button("Enable").await;
    browser.lacks(".warning").await;
    let secret = "Replace it";
    console.press_button("New secret").await;
    console.press_button(secret).await;
    browser.text("main code").await;
    console.press_button("Delete").await;
    console.press_button("Delete it").await;
    browser.shows("There is no webhook yet.").await;
    assert_eq!(console.complaints().await, Vec::<String>::new());
}

/// Opens a list of deliveries until it shows a status.
async fn show_until(console: &Console, list: &str, status: &str) {
    while !console.texts("tbody .badge").await.iter().any(|it| it.to_uppercase() == status) {
        console.press_button(list).await;
        console.browser.shows("newest first").await;
    }
}
