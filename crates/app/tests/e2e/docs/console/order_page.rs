//! The page of one order: what it shows first, and what each side does there.

use reqwest::{Method, multipart::Form};
use serde_json::json;

use super::{Console, of_client, of_service};
use crate::harness::{created, deed, eventually_async, file, form, order};

#[tokio::test(flavor = "multi_thread")]
async fn head_has_the_facts_in_the_order_of_a_phone_call() {
    let console = Console::start(&[], of_client()).await;
    let mut order = order("FACTS-1");
    let details = &mut order["signingDetailsFormData"];
    details["coSignerName"] = json!("John Doe");
    details["coSignerPhone"] = json!("+1 214 555 0188");
    details["specialInstructions"] = json!("Call before arrival.");
    created(console.user.create(&order).await).await;
    console.open_order(1).await;
    let heads = ["When", "Where", "Signer", "Co-signer", "What", "Notary", "Client"];
    assert_eq!(console.texts(".facts dt").await[..7], heads);
    let facts = console.browser.text(".facts").await;
    for shown in ["2:30 PM CST", "123 Main St", "Dallas, TX 75201", "Refinance", "not assigned"] {
        assert!(facts.contains(shown), "{shown}: {facts}");
    }
    let cards = console.texts("main h2").await;
    assert!(cards[0].starts_with("FACTS-1"), "{cards:?}");
    assert_eq!(cards[1..], ["Actions", "Documents", "Signed documents", "Details", "Timeline"]);
    // The instructions are seen without scrolling, and empty fields are not shown.
    assert!(facts.contains("Call before arrival."), "{facts}");
    let details = console.card("Details").await;
    assert!(!details.contains("Lender"), "{details}");
    let map =
        console.browser.run("return document.querySelector('.facts a[target]').href", &[]).await;
    let place = "query=123%20Main%20St%2C%20Dallas%2C%20TX%2075201";
    assert!(map.as_str().unwrap().ends_with(place), "{map}");
}

#[tokio::test(flavor = "multi_thread")]
async fn page_has_two_columns_on_a_desk_and_one_on_a_phone() {
    let console = Console::start(&[], of_client()).await;
    created(console.user.order("COLUMNS-1").await).await;
    console.open_order(1).await;
    let tops = "return ['.facts', '.actions', '.papers', '.events'].map((it) => {
        const { left, top } = document.querySelector(it).getBoundingClientRect();
        return [Math.round(left), Math.round(top)];
    })";
    let at = async |width: u32| {
        let size =
            json!({ "width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false });
        console.browser.devtools("Emulation.setDeviceMetricsOverride", size).await;
        let places = console.browser.run(tops, &[]).await;
        serde_json::from_value::<Vec<(i64, i64)>>(places).unwrap()
    };
    let [_, actions, papers, events] = at(1280).await[..] else { panic!() };
    assert!(actions.0 > papers.0 && actions.1 == papers.1, "{actions:?} {papers:?}");
    assert!(events.0 == actions.0 && events.1 > actions.1);
    let narrow = at(375).await;
    assert!(narrow.is_sorted_by_key(|place| place.1), "{narrow:?}");
    assert!(narrow.iter().all(|place| place.0 == narrow[0].0), "{narrow:?}");
}

/// At every width, from a phone to a desk.
#[tokio::test(flavor = "multi_thread")]
async fn documents_stay_in_their_card() {
    let console = Console::start(&[], of_client()).await;
    created(console.user.order_with_deed("WIDTHS-1").await).await;
    console.open_order(1).await;
    let excess = "const card = document.querySelector('.papers .card').getBoundingClientRect();
        const parts = [...document.querySelectorAll('.documents, .documents :is(td, button)')];
        const right = Math.max(...parts.map((it) => it.getBoundingClientRect().right));
        const page = document.documentElement;
        return Math.ceil(Math.max(right - card.right, page.scrollWidth - page.clientWidth));";
    for width in (360..1_340).step_by(40) {
        let size =
            json!({ "width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false });
        console.browser.devtools("Emulation.setDeviceMetricsOverride", size).await;
        let excess = console.browser.run(excess, &[]).await.as_i64().unwrap();
        assert!(excess <= 0, "{width}: {excess}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn facts_of_the_head_do_not_overlap() {
    let console = Console::start(&[], of_client()).await;
    console.set_time_zone("America/New_York").await;
    let between = json!({ "signingTimeType": "between", "startTime": "10:00", "endTime": "12:30" });
    console.create_on("WIDE-1", "2026-12-01", between).await;
    console.open_order(1).await;
    let excess = "return Math.max(...[...document.querySelectorAll('.facts dd')].map((fact) => {
        const range = document.createRange();
        range.selectNodeContents(fact);
        return Math.ceil(range.getBoundingClientRect().right - fact.getBoundingClientRect().right);
    }))";
    for width in [375, 800, 1280, 1920] {
        let size =
            json!({ "width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false });
        console.browser.devtools("Emulation.setDeviceMetricsOverride", size).await;
        let excess = console.browser.run(excess, &[]).await.as_i64().unwrap();
        assert!(excess <= 1, "{width}: {excess}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_state_has_one_main_action_for_the_service() {
    let console = Console::start(&[], of_service()).await;
    let client = console.user_on(of_client()).await;
    created(client.order("MAIN-1").await).await;
    console.open_order(1).await;
    let main = "return [...document.querySelectorAll('.actions .primary')]
        .filter((it) => it.checkVisibility()).map((it) => it.innerText).join() === arguments[0] || null";
    console.browser.wait_for(main, "Assign").await;
    // The assignment stands above the other actions.
    let first = "return document.querySelector('.actions h2 + *').innerText.split('\\n')[0]";
    assert_eq!(console.browser.run(first, &[]).await, "Assign a notary");
    console.enter("Notary: name", "Nora Tary").await;
    console.enter("Notary: phone", "+1 214 555 0177").await;
    console.enter("Notary: e-mail", "nora@example.com").await;
    console.press_button("Assign").await;
    console.browser.shows("The notary is assigned.").await;
    console.browser.wait_for(main, "Confirm the appointment").await;
    assert_eq!(client.read("/api/order/1").await["notary"]["name"], "Nora Tary");
    console.press_button("Confirm the appointment").await;
    console.browser.wait_for(main, "Upload signed documents").await;
    console.press_button("Upload signed documents").await;
    let focused = "return document.activeElement.id";
    assert_eq!(console.browser.run(focused, &[]).await, "add-signed-documents");
    for (status, word) in [("SIGNED", "Signed"), ("CONFIRMED", "Confirmed")] {
        console.enter("Status", status).await;
        console.press_button("Save the status").await;
        console.browser.shows(&format!("MAIN-1 {word}")).await;
        console.browser.wait_for(main, "Upload signed documents").await;
    }
    let signed = Form::new().part("documents", file("signed.pdf", deed()));
    let signed = console.user.post("/api/order/1/signed-documents").multipart(signed).send().await;
    created(signed.unwrap()).await;
    console.view("orders").await;
    console.open_order(1).await;
    console.browser.wait_for(main, "Mark as signed").await;
    console.press_button("Mark as signed").await;
    console.browser.shows("The order is signed.").await;
    console.browser.wait_for(main, "Complete the order").await;
    console.press_button("Complete the order").await;
    console.browser.shows("The order is completed.").await;
    assert_eq!(client.read("/api/order/1").await["order_status"], "COMPLETED");
    assert_eq!(console.complaints().await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn action_says_in_a_status_region_that_it_was_done() {
    let console = Console::start(&[], of_client()).await;
    created(console.user.order("TOAST-1").await).await;
    console.open_order(1).await;
    console.enter("New note", "Gate code 12.").await;
    console.press_button("Add the note").await;
    let toast = console.browser.text("#toast[role=status] .toast span").await;
    assert_eq!(toast, "The note is added.");
    console.press_button("Close the message").await;
    console.browser.lacks(".toast").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn documents_are_previewed_in_the_page() {
    let console = Console::start(&[], of_client()).await;
    let png = [&b"\x89PNG\r\n\x1a\n"[..], &[0; 64]].concat();
    let documents = form(&order("SHOW-1"))
        .part("documents", file("deed.pdf", deed()))
        .part("documents", file("id-card.png", png));
    created(console.user.create_with(documents).await).await;
    console.open_order(1).await;
    let rows = console.rows("2 documents").await;
    assert_eq!((&*rows[0][1], &*rows[1][1]), ("PDF", "PNG"));
    for (name, selector) in [("deed.pdf", "iframe"), ("id-card.png", "img")] {
        console.press_button(&format!("Preview {name}")).await;
        let source = format!("return document.querySelector('dialog {selector}')?.src ?? null");
        let source = console.browser.wait_for(&source, name).await;
        assert!(source.as_str().unwrap().starts_with("blob:"), "{source}");
        console.press_button("Close").await;
        console.browser.lacks("dialog").await;
        // Its user goes on where the preview was opened.
        let focused = console.browser.run("return document.activeElement.ariaLabel", &[]).await;
        assert_eq!(focused, format!("Preview {name}"));
    }
    assert_eq!(console.complaints().await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn duplicate_opens_the_form_of_a_new_order() {
    let console = Console::start(&[], of_client()).await;
    created(console.user.order("TWICE-1").await).await;
    let cancelled = console.user.request(Method::POST, "/api/order/1/cancel").send().await;
    assert_eq!(cancelled.unwrap().status(), 200);
    console.open_order(1).await;
    console.follow("Duplicate order").await;
    let value =
        "return document.getElementsByName(`/signingDetailsFormData/${arguments[0]}`)[0]?.value";
    let signer = console.browser.wait_for(&format!("{value} || null"), "signerName").await;
    assert_eq!(signer, "Jane Doe");
    assert_eq!(console.browser.run(value, &["fileNumber"]).await, "");
}

#[tokio::test(flavor = "multi_thread")]
async fn all_documents_are_saved_as_one_archive() {
    let console = Console::start(&[], of_service()).await;
    let client = console.user_on(of_client()).await;
    let documents = form(&order("ZIP-1"))
        .part("documents", file("one.pdf", deed()))
        .part("documents", file("two.pdf", deed()));
    created(client.create_with(documents).await).await;
    console.open_order(1).await;
    let folder = tempfile::tempdir().unwrap();
    let to = json!({ "behavior": "allow", "downloadPath": folder.path() });
    console.browser.devtools("Browser.setDownloadBehavior", to).await;
    console.press_button("Download all documents").await;
    let saved = folder.path().join("ZIP-1-documents.zip");
    eventually_async(async || std::fs::read(&saved).is_ok_and(|it| it.starts_with(b"PK"))).await;
    // The other side sees which files were fetched.
    console.browser.shows("Downloaded.").await;
    eventually_async(async || {
        let read = client.read("/api/order/1").await;
        read["documents"].as_array().unwrap().iter().all(|it| !it["first_downloaded_at"].is_null())
    })
    .await;
    assert_eq!(console.complaints().await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn did_not_sign_is_asked_with_its_reason() {
    let console = Console::start(&[], of_service()).await;
    let client = console.user_on(of_client()).await;
    created(client.order("UNSIGNED-1").await).await;
    let confirmed = json!({ "order_status": "CONFIRMED" });
    let sent = console.user.request(Method::PATCH, "/api/order/1").json(&confirmed).send().await;
    assert_eq!(sent.unwrap().status(), 200);
    console.open_order(1).await;
    // The list of statuses asks, too.
    console.enter("Status", "DID_NOT_SIGN").await;
    console.press_button("Save the status").await;
    console.browser.shows("Did the signing end without signatures?").await;
    console.press_button("Back").await;
    console.browser.lacks("dialog").await;
    console.browser.click("#did-not-sign").await;
    console.enter("Reason", "The signer was ill.").await;
    console.browser.click("dialog button.danger").await;
    console.browser.shows("The order is marked as not signed.").await;
    console.browser.shows("Reason: The signer was ill.").await;
    let history = client.read("/api/order/1").await["history"].clone();
    let last = history.as_array().unwrap().last().unwrap();
    assert_eq!(
        (&last["order_status"], &last["reason"]),
        (&json!("DID_NOT_SIGN"), &json!("The signer was ill."))
    );
    let badge = "return getComputedStyle(document.querySelector('.facts .badge')).color ===
        getComputedStyle(document.querySelector('.facts .badge')).borderTopColor";
    assert_eq!(console.browser.run(badge, &[]).await, true);
    let other = json!({ "order_status": "DID_NOT_SIGN", "reason": "The notary was late." });
    let sent = console.user.request(Method::PATCH, "/api/order/1").json(&other).send().await;
    assert_eq!(sent.unwrap().status(), 200);
    console.view("orders").await;
    console.open_order(1).await;
    let timeline = console.timeline().await;
    assert_eq!(timeline[0][0], "Another reason");
    assert!(timeline[0].contains(&"Reason: The notary was late.".to_owned()), "{timeline:?}");
    assert_eq!(console.complaints().await, Vec::<String>::new());
}
