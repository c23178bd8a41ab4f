//! The list of orders, and one order, of both sides.

use serde_json::{Value, json};

use super::{Console, of_client, of_service};
use crate::harness::{created, deed, eventually_async, file, form, form_with_deed, order};

#[tokio::test(flavor = "multi_thread")]
async fn client_finds_an_order_reads_it_and_adds_documents() {
    let console = Console::start(&[], of_client()).await;
    let browser = &console.browser;
    for number in ["FIND-1", "FIND-2"] {
        created(console.user.create_with(form_with_deed(number)).await).await;
    }
    console.press_button("Refresh").await;
    browser.shows("FIND-2").await;
    assert_eq!(console.texts("tbody a").await, ["FIND-2", "FIND-1"]);

    browser.paste_over("#search-file-number", "FIND-1").await;
    console.press_button("Search").await;
    browser.lacks("#order-2").await;
    // The orders are of the 21st, also in the time zone of the browser.
    for (day, found) in [("2026-11-20", false), ("2026-11-21", true)] {
        browser.paste_over("#search-day", day).await;
        console.press_button("Search").await;
        if found {
            browser.text("#order-1").await;
        } else {
            browser.shows("No order matches.").await;
        }
    }

    browser.click("#order-1").await;
    browser.shows("escrow@title.example.com").await;
    for shown in ["Tue, Dec 1, 2026, at 14:30", "Central time (Chicago)", "123 Main St", "client"] {
        browser.shows(shown).await;
    }
    let downloads = tempfile::tempdir().unwrap();
    let to = json!({ "behavior": "allow", "downloadPath": downloads.path() });
    browser.devtools("Browser.setDownloadBehavior", to).await;
    console.press_button("Download deed.pdf").await;
    let saved = downloads.path().join("deed.pdf");
    eventually_async(async || std::fs::read(&saved).is_ok_and(|bytes| bytes == deed())).await;

    let more = tempfile::Builder::new().prefix("more").suffix(".pdf").tempfile().unwrap();
    std::fs::write(more.path(), deed()).unwrap();
    browser.type_into("#add-documents", more.path().to_str().unwrap()).await;
    console.press_button("Add these documents").await;
    browser.shows("2 documents").await;
    assert_eq!(console.user.read("/api/order/1").await["documents_uploaded"], 2);
    assert_eq!(console.complaints().await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn service_sees_new_orders_first_and_carries_them_out() {
    let console = Console::start(&[], of_service()).await;
    let browser = &console.browser;
    let client = console.app.as_key(&console.app.issue_key_on(of_client()).await);
    browser.shows("There are no orders yet.").await;
    assert_eq!(console.texts("nav a").await, ["Orders"]);

    // The list refreshes itself.
    created(client.order("WORK-1").await).await;
    browser.text("#order-1").await;
    browser.click("#order-1").await;
    // A near spelling is the usual status.
    browser.paste_over("#change-status", "as-signed").await;
    browser.paste_over("#change-notary", "7001").await;
    console.press_button("Save").await;
    browser.shows("notary 7001").await;
    assert_eq!(browser.run("return document.activeElement.id", &[]).await, "save");
    let read = client.read("/api/order/1").await;
    assert_eq!((&read["order_status"], &read["notary_id"]), (&json!("ASSIGNED"), &json!(7001)));

    // Another dispatcher has changed the order.
    console
        .user
        .request(reqwest::Method::PATCH, "/api/order/1")
        .json(&json!({ "order_status": "CONFIRMED" }))
        .send()
        .await
        .unwrap();
    browser.paste_over("#change-notary", "").await;
    console.press_button("Save").await;
    browser.shows("Another user has changed the order since you opened it.").await;
    browser.shows("CONFIRMED").await;
    assert_eq!(client.read("/api/order/1").await["notary_id"], 7001);

    // A proxy on the way changes the tags.
    let mangle = "const send = window.fetch;
        window.fetch = (address, request) => {
            if (request.method !== 'PATCH') return send(address, request);
            window.patches = (window.patches ?? 0) + 1;
            return send(address, { ...request, headers: { ...request.headers, 'if-match': '\"0\"' } });
        }";
    browser.run(mangle, &[]).await;
    let sentences = ["Another user has changed", "a proxy changes the headers", "Try again in"];
    for sentence in sentences {
        browser.paste_over("#change-notary", "7002").await;
        console.press_button("Save").await;
        browser.shows(sentence).await;
    }
    // The answer before them was 412, too.
    assert_eq!(browser.run("return window.patches", &[]).await, 2);
    assert_eq!(client.read("/api/order/1").await["notary_id"], 7001);

    created(client.order("WORK-2").await).await;
    created(client.order("WORK-3").await).await;
    console.user.post("/api/order/3/cancel").send().await.unwrap();
    console.view("orders").await;
    browser.text("#order-3").await;
    assert_eq!(console.texts("caption").await, ["New orders: 1", "Other orders, newest first"]);
    assert_eq!(console.texts("tbody a").await, ["WORK-2", "WORK-3", "WORK-1"]);

    browser.click("#order-2").await;
    browser.shows("WORK-2").await;
    assert!(!console.texts("h3").await.contains(&"Add documents".to_owned()));
    console.press_button("Cancel this order").await;
    browser.type_into("#cancel-reason", "No notary is free.").await;
    console.press_button("Cancel the order").await;
    browser.shows("No notary is free.").await;
    let history = client.read("/api/order/2").await["history"].clone();
    assert_eq!(history[1]["reason"], "No notary is free.");
    assert_eq!(history[1]["actor"], "service");
    browser.lacks("#change-status").await;
    assert_eq!(console.complaints().await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn hidden_list_does_not_refresh_and_a_seen_one_does_at_once() {
    let console = Console::start(&[], of_service()).await;
    let browser = &console.browser;
    browser.shows("There are no orders yet.").await;
    let visible = "Object.defineProperty(document, 'hidden', { value: arguments[0] === 'hidden', configurable: true });
        document.dispatchEvent(new Event('visibilitychange'));";
    browser.run(visible, &["hidden"]).await;
    browser.requested().await;
    let client = console.app.as_key(&console.app.issue_key_on(of_client()).await);
    created(client.order("HIDE-1").await).await;
    // Time passes for the timers of the page only.
    let time = json!({ "policy": "advance", "budget": 30_000 });
    browser.devtools("Emulation.setVirtualTimePolicy", time).await;
    assert_eq!(browser.requested().await, Vec::<String>::new());
    browser.run(visible, &["seen"]).await;
    browser.text("#order-1").await;
}

/// Returns an order whose texts have markup, another direction and emoji.
fn strange(file_number: &str) -> Value {
    let mut strange = order(file_number);
    let details = &mut strange["signingDetailsFormData"];
    details["signerName"] = json!(STRANGE);
    details["propertyAddress"] = json!("<script>window.broken = 1</script>");
    details["specialInstructions"] = json!("</dd><b>bold</b>\n\"quoted\" & 'single'");
    strange
}

const STRANGE: &str = "<img src=x onerror='window.broken = 1'> שרה כהן مريم 👩‍👩‍👧 & Co.";

#[tokio::test(flavor = "multi_thread")]
async fn markup_right_to_left_text_and_emoji_are_shown_as_text() {
    let mut console = Console::start(&[], of_client()).await;
    let number = "<b>FILE</b> ١٢٣ 🏠";
    let documents = form(&strange(number)).part("documents", file("<i>שטר</i> 📄.pdf", deed()));
    created(console.user.create_with(documents).await).await;
    for other_side in [None, Some(of_service())] {
        if let Some(terms) = other_side {
            console.sign_in_as(terms).await;
            console.view("orders").await;
        }
        let browser = &console.browser;
        console.press_button("Refresh").await;
        browser.text("#order-1").await;
        browser.shows(STRANGE).await;
        assert_eq!(console.texts("tbody a").await, [number]);
        browser.click("#order-1").await;
        for shown in [
            STRANGE,
            "<script>window.broken = 1</script>",
            "</dd><b>bold</b>\n\"quoted\" & 'single'",
            "<i>שטר</i> 📄.pdf",
        ] {
            browser.shows(shown).await;
        }
        let script = "return [
            document.querySelectorAll('main :is(img, b, script, i)').length, window.broken ?? 0,
            // A text of a user is isolated: its direction does not move what stands beside it.
            [...document.querySelectorAll('main bdi')].some((it) => it.textContent === arguments[0])
        ]";
        assert_eq!(browser.run(script, &[STRANGE]).await, json!([0, 0, true]));
        assert_eq!(console.complaints().await, Vec::<String>::new());
    }
}
