//! The sentence for each status that a user can meet.

use domain::{
    api_key::ClientId,
    order::{OrderId, SigningServiceId},
    use_cases::keys::manage_keys::KeyTerms,
};
use serde_json::json;
use time::Duration;

use super::{Console, of_client};
use crate::harness::{created, order};

const SUBMIT: &str = "form.order button.primary";

#[tokio::test(flavor = "multi_thread")]
async fn each_status_has_a_sentence_that_helps() {
    let flags = ["--rate-per-second=1", "--rate-burst=1"];
    let mut console = Console::start(
        &flags,
        KeyTerms { signing_service: Some(SigningServiceId(7)), ..of_client() },
    )
    .await;
    console.view("new").await;
    console.fill(&order("STATUS-1")).await;
    console.browser.click(SUBMIT).await;
    console.browser.shows("This key may not do this.").await;

    let lifetime = Duration::hours(1);
    // The end of a session counts against the rate, as its beginning does.
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    console.sign_in_as(KeyTerms { lifetime: Some(lifetime), ..of_client() }).await;
    let browser = &console.browser;
    console.view("new").await;
    console.fill(&order("STATUS-1")).await;
    created(console.user.order("STATUS-1").await).await;
    // Another program uses up the limit, however slow the browser is.
    let others = async {
        loop {
            console.user.create(&json!({})).await;
        }
    };
    tokio::select! {
        () = submit_until(&console, "Too many requests with this key. Try again in 1 second.") => {}
        () = others => {}
    }
    submit_until(&console, "An order with this file number has just been created.").await;
    browser.shows("File or loan number was used just now").await;

    // Another key takes the place of one that has expired. The entries stay, and the request is repeated.
    let own = console.user.read("/api/key").await["client_id"].as_i64().map(ClientId);
    console.app.clock.advance(lifetime * 2);
    let valid = console.app.issue_key_on(KeyTerms { client: own, ..of_client() }).await;
    submit_until(&console, "Your session has ended").await;
    let expired = console.user.key.clone();
    for (key, sentence) in [
        (&expired, "This key does not work: it is unknown, expired or revoked."),
        (&valid, "Order 2 is created."),
    ] {
        browser.paste_over("#other-key", key).await;
        // The address may fail once each second, and the page has failed with its session.
        click_until(&console, "dialog .key button", sentence).await;
    }

    let clock = domain::ports::Clock::now(&*console.app.clock);
    console.app.storage().admin.erase(OrderId(2), clock, None).await.unwrap();
    console.view("orders").await;
    browser.run("location.hash = '#/order/2'", &[]).await;
    browser.shows("The administrator has erased this order.").await;
    browser.run("location.hash = '#/order/77'", &[]).await;
    browser.shows("The key cannot see this item, or it does not exist.").await;

    console.view("new").await;
    console.fill(&order("STATUS-3")).await;
    console.app.wiring.break_database();
    submit_until(&console, "The service is busy, or a part of it is down.").await;
    browser.shows("Request number").await;
    assert_eq!(console.complaints().await, Vec::<String>::new());
}

/// Sends the form until the page shows a sentence. The service accepts one order each second.
async fn submit_until(console: &Console, sentence: &str) {
    click_until(console, SUBMIT, sentence).await;
}

/// Clicks a button, while it is there, until the page shows a sentence.
async fn click_until(console: &Console, button: &str, sentence: &str) {
    let script = "const [button, sentence] = JSON.parse(arguments[0]);
        if (document.body.innerText.includes(sentence)) return true;
        document.querySelector(button)?.click();
        return null;";
    console.browser.wait_for(script, &json!([button, sentence]).to_string()).await;
}
