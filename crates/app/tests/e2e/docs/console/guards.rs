//! The console with users that are fast, share a page, or meet a fault.

use std::path::Path;

use domain::{api_key::ClientId, order::SigningServiceId, use_cases::keys::manage_keys::KeyTerms};
use reqwest::Method;
use serde_json::json;
use tempfile::NamedTempFile;

use super::{Console, LOSE_ANSWER, SLOW, of_client, of_service};
use crate::harness::{WEBHOOKS, created, deed, order};

const CLICK_TWICE: &str = "const button = [...document.querySelectorAll('button')]
        .find((it) => it.innerText === arguments[0]);
    button.focus();
    button.click();
    button.click();";

const FILE_NUMBER: &str =
    "return document.getElementsByName('/signingDetailsFormData/fileNumber')[0].value";

/// Returns a document of this many bytes and a few more.
fn document(bytes: usize) -> NamedTempFile {
    let file = tempfile::Builder::new().suffix(".pdf").tempfile().unwrap();
    std::fs::write(file.path(), [deed(), vec![b' '; bytes]].concat()).unwrap();
    file
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

impl Console {
    async fn focused(&self) -> String {
        let script = "const it = document.activeElement; return it.id || it.innerText";
        self.browser.run(script, &[]).await.as_str().unwrap().to_owned()
    }

    /// Sets whether the page is visible, as the browser tells it.
    async fn set_visible(&self, visible: bool) {
        let script = "const value = arguments[0] === 'hidden';
            Object.defineProperty(document, 'hidden', { value, configurable: true });
            document.dispatchEvent(new Event('visibilitychange'));";
        self.browser.run(script, &[if visible { "visible" } else { "hidden" }]).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn second_click_adds_documents_once_and_keeps_the_chosen_files() {
    let console = Console::start(&[], of_client()).await;
    let browser = &console.browser;
    created(console.user.order("ADD-1").await).await;
    browser.run("location.hash = '#/order/1'", &[]).await;
    let large = document(1 << 20);
    browser.type_into("#add-documents", text(large.path())).await;
    console.limit_uploads(SLOW).await;
    browser.requested().await;
    browser.run(CLICK_TWICE, &["Add these documents"]).await;
    browser.text("progress + span").await;
    let drop = "const dataTransfer = new DataTransfer();
        dataTransfer.items.add(new File(['late'], 'late.pdf'));
        document.querySelector('.drop').dispatchEvent(
            new DragEvent('drop', { bubbles: true, cancelable: true, dataTransfer }));";
    browser.run(drop, &[]).await;
    browser.shows("Nothing was added: an upload is in progress.").await;
    console.limit_uploads(-1).await;
    console.rows("1 document").await;
    browser.lacks("progress").await;
    browser.lacks(".problem").await;
    assert_eq!(console.focused().await, "ADD-1 (order 1)");
    let uploads = browser.requested().await;
    let uploads = uploads.iter().filter(|url| url.ends_with("/api/order/1/documents"));
    assert_eq!(uploads.count(), 1);
    assert_eq!(console.user.read("/api/order/1").await["documents_uploaded"], 1);

    // A cancelled order takes no documents, and the focus stays in the view.
    console.press_button("Cancel this order").await;
    console.press_button("Cancel the order").await;
    browser.lacks(".adding").await;
    assert_eq!(console.focused().await, "ADD-1 (order 1)");
    assert_eq!(console.complaints().await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn file_that_changes_after_it_was_chosen_is_named() {
    let console = Console::start(&[], of_client()).await;
    let browser = &console.browser;
    created(console.user.order("CHANGE-1").await).await;
    for (address, input, send) in [
        ("#/new", "input[type=file]", "Create the order"),
        ("#/order/1", "#add-documents", "Add these documents"),
    ] {
        browser.run("location.hash = arguments[0]", &[address]).await;
        let file = document(0);
        browser.type_into(input, text(file.path())).await;
        std::fs::write(file.path(), [deed(), deed()].concat()).unwrap();
        console.press_button(send).await;
        browser.shows("changed or moved since; choose it again").await;
        assert_eq!(console.texts(".files .error").await.len(), 1);
    }
    assert_eq!(console.app.rows("documents"), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn sign_out_stops_the_upload_and_leaves_no_entries() {
    let mut console = Console::start(&[], of_client()).await;
    console.view("new").await;
    console.fill(&order("FORGET-1")).await;
    let large = document(4 << 20);
    console.browser.type_into("input[type=file]", text(large.path())).await;
    console.limit_uploads(SLOW).await;
    let watch = "const stop = XMLHttpRequest.prototype.abort;
        XMLHttpRequest.prototype.abort = function () {
            window.stopped = true;
            stop.call(this);
        };";
    console.browser.run(watch, &[]).await;
    console.press_button("Create the order").await;
    console.browser.text("progress + span").await;
    console.sign_in_as(of_client()).await;
    assert_eq!(console.browser.run("return window.stopped ?? false", &[]).await, true);
    console.view("new").await;
    assert_eq!(console.browser.run(FILE_NUMBER, &[]).await, "");
    console.browser.lacks(".problem").await;
    console.browser.lacks(".files li").await;
    assert_eq!(console.app.rows("orders"), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn limited_key_changes_orders_of_its_signing_service_only() {
    let mut console = Console::start(&[], of_client()).await;
    let of_42 = order("BOUND-1");
    let mut of_7 = order("BOUND-2");
    of_7["signingServiceId"] = json!(7);
    for order in [&of_42, &of_7] {
        created(console.app.create(order).await).await;
    }
    let limited_to = |service| KeyTerms {
        client: Some(ClientId(1)),
        signing_service: Some(SigningServiceId(service)),
        ..of_client()
    };
    console.sign_in_as(limited_to(7)).await;
    for (id, may_change) in [(1, false), (2, true)] {
        console.browser.run("location.hash = arguments[0]", &[&format!("#/order/{id}")]).await;
        console.browser.shows(&format!("BOUND-{id}")).await;
        console.browser.text(".timeline").await;
        assert_eq!(console.texts("button.danger").await.len(), usize::from(may_change));
        assert_eq!(console.texts(".adding").await.len(), usize::from(may_change));
        assert_eq!(console.texts("#note-send").await.len(), usize::from(may_change));
        assert_eq!(console.texts("a[href$='/change']").await.len(), usize::from(may_change));
    }

    // A form that was begun with another key gets the signing service of the new one.
    console.view("new").await;
    console.fill(&order("BOUND-3")).await;
    let valid = console.app.issue_key_on(limited_to(42)).await;
    let expire = r#"const send = window.fetch;
        window.fetch = async (...request) => {
            if (request[1].method === 'GET') return send(...request);
            window.fetch = send;
            return new Response('{"code":"session_ended"}', { status: 401 });
        };"#;
    console.browser.run(expire, &[]).await;
    console.press_button("Create the order").await;
    console.browser.type_into("#other-key", &valid).await;
    console.browser.click("dialog .key button").await;
    console.browser.lacks("dialog").await;
    console.browser.shows("Another user has signed in, so nothing was sent.").await;
    let service = "const [it] = document.getElementsByName('/signingServiceId');
        return [it.value, it.readOnly]";
    assert_eq!(console.browser.run(service, &[]).await, json!(["42", true]));
    assert_eq!(console.browser.run(FILE_NUMBER, &[]).await, "BOUND-3");
    console.press_button("Create the order").await;
    console.browser.shows("Order 3 is created.").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn new_order_is_shown_however_many_others_there_are() {
    let mut console = Console::start(&[], of_client()).await;
    let service = console.app.as_key(&console.app.issue_key_on(of_service()).await);
    let assign = async |id: i32| {
        let change = json!({ "order_status": "ASSIGNED" });
        let sent = service.request(Method::PATCH, &format!("/api/order/{id}")).json(&change).send();
        assert_eq!(sent.await.unwrap().status(), 200);
    };
    for id in 1..=102 {
        created(console.user.order(&format!("MANY-{id}")).await).await;
        if id > 1 {
            assign(id).await;
        }
    }
    console.sign_in_as(of_service()).await;
    console.browser.text("#order-1").await;
    console.browser.shows("1 new order").await;
    console.browser.lacks("#order-2").await;
    console.follow("All").await;
    console.browser.shows("100 orders, newest first; more follow").await;
    console.press_button("Show older orders").await;
    console.browser.shows("102 orders, newest first").await;
    assert_eq!(console.texts("tbody a").await.len(), 102);
    console.follow("New").await;
    console.browser.shows("1 new order").await;
    assign(1).await;
    console.press_button("Refresh").await;
    console.browser.shows("There is no new order.").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn search_stays_until_the_key_is_forgotten() {
    let mut console = Console::start(&[], of_client()).await;
    for number in ["BACK-1", "BACK-2"] {
        created(console.user.order(number).await).await;
    }
    console.enter("Search", "BACK-1").await;
    console.press_button("Search").await;
    console.browser.lacks("#order-2").await;
    console.browser.click("#order-1").await;
    console.browser.text(".timeline").await;
    console.follow("Back to the orders").await;
    console.browser.text("#order-1").await;
    console.browser.lacks("#order-2").await;
    let searched = "return document.querySelector('#search-text').value";
    assert_eq!(console.browser.run(searched, &[]).await, "BACK-1");
    console.sign_in_as(of_client()).await;
    assert_eq!(console.browser.run(searched, &[]).await, "");
    assert_eq!(console.browser.run("return location.hash", &[]).await, "");
}

#[tokio::test(flavor = "multi_thread")]
async fn second_click_creates_one_webhook_and_a_lost_answer_leads_to_the_list() {
    let console = Console::start(&WEBHOOKS, of_client()).await;
    let browser = &console.browser;
    console.view("webhooks").await;
    browser.shows("There is no webhook yet.").await;
    browser.type_into("#webhook-url", "http://127.0.0.1:9999/one").await;
    browser.run(CLICK_TWICE, &["Create"]).await;
    browser.shows("Store this secret now").await;
    console.press_button("I have stored it").await;
    browser.shows("http://127.0.0.1:9999/one").await;
    browser.run(LOSE_ANSWER, &[]).await;
    browser.type_into("#webhook-url", "http://127.0.0.1:9999/two").await;
    console.press_button("Create").await;
    browser.shows("look at the list first").await;
    assert!(!browser.text(".problem").await.contains("only once"));
    let webhooks = console.user.read("/api/webhooks").await["data"].clone();
    assert_eq!(webhooks.as_array().unwrap().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn deliveries_refresh_after_a_failure_and_when_they_are_seen_again() {
    let console = Console::start(&WEBHOOKS, of_client()).await;
    let browser = &console.browser;
    let webhook = json!({ "url": "http://127.0.0.1:9999/orders" });
    created(console.user.post("/api/webhooks").json(&webhook).send().await.unwrap()).await;
    console.view("webhooks").await;
    console.choose("All deliveries").await;
    browser.shows("There is no delivery yet.").await;
    browser.run("document.getElementById('deliveries-close').focus()", &[]).await;
    console.set_visible(false).await;
    created(console.user.order("SEEN-1").await).await;
    console.set_visible(true).await;
    browser.shows("order.created").await;
    assert_eq!(console.focused().await, "deliveries-close");

    let fail = "const send = window.fetch;
        window.fetch = async (...request) => {
            if (!String(request[0]).includes('/deliveries')) return send(...request);
            window.fetch = send;
            throw new TypeError('the connection broke');
        };";
    browser.run(fail, &[]).await;
    console.set_visible(true).await;
    browser.shows("The service did not answer.").await;
    assert_eq!(console.focused().await, "deliveries-close");
    // The next refresh comes by itself.
    browser.lacks(".problem").await;
    console.press_button("Close").await;
    browser.lacks("#deliveries-close").await;
    assert_eq!(console.focused().await, "webhook-1-test");

    console.choose("Delete").await;
    console.press_button("Delete it").await;
    browser.shows("There is no webhook yet.").await;
    assert_eq!(console.focused().await, "Webhooks");
}

#[tokio::test(flavor = "multi_thread")]
async fn order_that_the_other_side_has_ended_is_shown_as_it_is() {
    let console = Console::start(&[], of_client()).await;
    let browser = &console.browser;
    let service = console.app.as_key(&console.app.issue_key_on(of_service()).await);
    for id in [1, 2] {
        created(console.user.order(&format!("ENDED-{id}")).await).await;
    }
    browser.run("location.hash = '#/order/1'", &[]).await;
    browser.shows("ENDED-1").await;
    let signed = json!({ "order_status": "SIGNED" });
    let sent = service.request(Method::PATCH, "/api/order/1").json(&signed).send().await;
    assert_eq!(sent.unwrap().status(), 200);
    console.press_button("Cancel this order").await;
    console.press_button("Cancel the order").await;
    browser.shows("The order is signed or completed. It cannot be cancelled.").await;
    browser.lacks("button.danger").await;

    browser.run("location.hash = '#/order/2'", &[]).await;
    browser.shows("ENDED-2").await;
    let file = document(0);
    browser.type_into("#add-documents", text(file.path())).await;
    assert_eq!(service.post("/api/order/2/cancel").send().await.unwrap().status(), 200);
    console.press_button("Add these documents").await;
    browser.shows("The order is cancelled, so it does not change any more.").await;
    browser.lacks(".adding").await;
    assert_eq!(console.app.rows("documents"), 0);
}
