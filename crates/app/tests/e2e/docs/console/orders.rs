//! The list of orders, and one order, of both sides.

use domain::use_cases::keys::manage_keys::KeyTerms;
use reqwest::{Method, multipart::Form};
use serde_json::{Value, json};

use super::{Console, of_client, of_service};
use crate::harness::{
    created, deed, eventually_async, file, form, form_with_deed, order, service_process::run,
};

#[tokio::test(flavor = "multi_thread")]
async fn client_reads_an_order_and_adds_documents() {
    let console = Console::start(&[], of_client()).await;
    let browser = &console.browser;
    for number in ["FIND-1", "FIND-2"] {
        created(console.user.create_with(form_with_deed(number)).await).await;
    }
    console.press_button("Refresh").await;
    browser.shows("FIND-2").await;
    assert_eq!(console.texts("tbody a").await, ["FIND-2", "FIND-1"]);

    browser.click("#order-1").await;
    browser.shows("escrow@title.example.com").await;
    for shown in ["2:30 PM CST", "Central time (Chicago)", "123 Main St", "client"] {
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
async fn service_sees_its_new_orders_and_carries_them_out() {
    let console = Console::start(&[], of_service()).await;
    let browser = &console.browser;
    let client = console.app.as_key(&console.app.issue_key_on(of_client()).await);
    browser.shows("There is no new order.").await;
    assert_eq!(console.texts("#header nav a").await, ["Orders"]);

    // The list refreshes itself.
    created(client.order("WORK-1").await).await;
    browser.text("#order-1").await;
    browser.click("#order-1").await;
    console.press_button("Assign").await;
    browser.shows("Notary: name or number is missing").await;
    console.enter("Notary: number", "7001").await;
    console.press_button("Assign").await;
    browser.shows("The notary is assigned.").await;
    browser.shows("Number 7001").await;
    for button in ["Save the notary", "Save the status"] {
        browser.run("document.getElementById('assign').parentElement.open = true", &[]).await;
        console.press_button(button).await;
        browser.shows("Nothing is changed.").await;
        console.press_button("Close the message").await;
    }
    let read = client.read("/api/order/1").await;
    assert_eq!((&read["order_status"], &read["notary_id"]), (&json!("ASSIGNED"), &json!(7001)));
    console.press_button("Confirm the appointment").await;
    browser.shows("The appointment is confirmed.").await;
    // A near spelling is the usual status.
    console.enter("Status", "").await;
    console.enter("Other status", "on-hold").await;
    console.press_button("Save the status").await;
    browser.shows("The status is saved.").await;
    assert_eq!(browser.run("return document.activeElement.id", &[]).await, "save-status");
    assert_eq!(client.read("/api/order/1").await["order_status"], "ON_HOLD");

    // Another dispatcher has changed the order.
    console
        .user
        .request(reqwest::Method::PATCH, "/api/order/1")
        .json(&json!({ "order_status": "CONFIRMED" }))
        .send()
        .await
        .unwrap();
    browser.click("#assign").await;
    browser.paste_over("#change-notary", "").await;
    console.press_button("Save the notary").await;
    browser.shows("Another user has changed the order since you opened it.").await;
    assert!(browser.text(".facts h2").await.contains("Confirmed"));
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
        browser.run("document.querySelector('details.form').open = true", &[]).await;
        console.press_button("Save the notary").await;
        browser.shows(sentence).await;
    }
    // The answer before them was 412, too.
    assert_eq!(browser.run("return window.patches", &[]).await, 2);
    assert_eq!(client.read("/api/order/1").await["notary_id"], 7001);

    created(client.order("WORK-2").await).await;
    created(client.order("WORK-3").await).await;
    console.user.post("/api/order/3/cancel").send().await.unwrap();
    console.view("orders").await;
    browser.shows("1 new order").await;
    browser.shows("WORK-2").await;
    assert_eq!(console.texts("tbody a").await, ["WORK-2"]);

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
    browser.shows("There is no new order.").await;
    console.news_begin().await;
    let visible = "Object.defineProperty(document, 'hidden', { value: arguments[0] === 'hidden', configurable: true });
        document.dispatchEvent(new Event('visibilitychange'));";
    browser.run(visible, &["hidden"]).await;
    browser.requested().await;
    let client = console.app.as_key(&console.app.issue_key_on(of_client()).await);
    created(client.order("HIDE-1").await).await;
    // Time passes for the timers of the page only.
    let time = json!({ "policy": "advance", "budget": 30_000 });
    browser.devtools("Emulation.setVirtualTimePolicy", time).await;
    let requested = browser.requested().await;
    assert!(!requested.iter().any(|url| url.contains("/api/")), "{requested:?}");
    // Once a minute it asks for new orders, and the title has their number.
    let time = json!({ "policy": "advance", "budget": 40_000 });
    browser.devtools("Emulation.setVirtualTimePolicy", time).await;
    eventually_async(async || {
        browser.run("return document.title", &[]).await.as_str().unwrap().starts_with("(1) ")
    })
    .await;
    browser.run(visible, &["seen"]).await;
    browser.text("#order-1").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn both_sides_see_names_and_reach_the_notary_and_signers() {
    let terms = KeyTerms { client_name: Some("Acme <b>Title".to_owned()), ..of_client() };
    let mut console = Console::start(&[], terms).await;
    let client = console.user.clone();
    let mut order = order("NAMES-1");
    order["signingDetailsFormData"]["signerPhone"] = json!("(214) 555-0199 ext. 12");
    order["signingDetailsFormData"]["coSignerName"] = json!("John Doe");
    order["signingDetailsFormData"]["coSignerPhone"] = json!("+1 214 555 0188 x4");
    created(client.create(&order).await).await;
    let add = ["services", "add", "42", "--name=Lone Star", "--email=dispatch@signing.example.com"];
    run(&console.app.wiring, &add);
    let service = console.user_on(of_service()).await;
    console.change_user(&service).await;
    console.open_order(1).await;
    console.enter("Notary: number", "7001").await;
    console.enter("Notary: name", "Nora Tary").await;
    console.enter("Notary: phone", "+1 214 555 0177").await;
    console.enter("Notary: e-mail", "nora@").await;
    console.press_button("Assign").await;
    console.browser.shows("Notary: e-mail must").await;
    let invalid = "return document.activeElement.matches('#change-email[aria-invalid=true]')";
    assert_eq!(console.browser.run(invalid, &[]).await, true);
    console.enter("Notary: e-mail", "nora@example.com").await;
    console.press_button("Assign").await;
    console.browser.shows("The notary is assigned.").await;
    assert_eq!(client.read("/api/order/1").await["notary"]["phone"], "+1 214 555 0177");

    for (side, other) in [(service, "Acme <b>Title"), (client, "Lone Star")] {
        console.change_user(&side).await;
        console.follow("All").await;
        console.browser.text("#order-1").await;
        let row = console.texts("tbody tr").await.concat();
        assert!(row.contains(other) && row.contains("Nora Tary"), "{row}");
        console.open_order(1).await;
        let facts = console.browser.text(".facts").await;
        for shown in
            ["Acme <b>Title", "Lone Star (number 42)", "Nora Tary (number 7001)", "John Doe"]
        {
            assert!(facts.contains(shown), "{shown}: {facts}");
        }
        let links = "return [...document.querySelectorAll('.facts a')].map((it) => it.href)
            .filter((it) => !it.startsWith('http'))";
        let expected = json!([
            "tel:2145550199;ext=12",
            "tel:+12145550188;ext=4",
            "tel:+12145550177",
            "mailto:nora@example.com",
        ]);
        assert_eq!(console.browser.run(links, &[]).await, expected);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn name_of_a_notary_does_not_stay_beside_the_number_of_another() {
    let console = Console::start(&[], of_service()).await;
    let client = console.user_on(of_client()).await;
    created(client.order("NOTARY-1").await).await;
    console.open_order(1).await;
    console.enter("Notary: number", "7001").await;
    console.enter("Notary: name", "Nora Tary").await;
    console.press_button("Assign").await;
    console.browser.shows("The notary is assigned.").await;
    let open = "const forms = document.querySelector('details.form');
        forms.open = true;
        forms.dataset.before = '';";
    for (label, text, status, notary) in [
        ("Notary: phone", "+1 214 555 0177", "ASSIGNED", json!([7001, "Nora Tary"])),
        ("Notary: number", "7002", "ASSIGNED", json!([7002, null])),
        ("Notary: name", "Otto Tary", "ASSIGNED", json!([7002, "Otto Tary"])),
        ("Notary: name", "", "ASSIGNED", json!([7002, null])),
        ("Status", "ON_HOLD", "ON_HOLD", json!([7002, null])),
        ("Notary: number", "", "ON_HOLD", json!([null, null])),
    ] {
        console.browser.run(open, &[]).await;
        console.enter(label, text).await;
        let button = if label == "Status" { "Save the status" } else { "Save the notary" };
        console.press_button(button).await;
        eventually_async(async || {
            let read = client.read("/api/order/1").await;
            read["order_status"] == status
                && json!([read["notary_id"], read["notary"]["name"]]) == notary
        })
        .await;
        // The form is that of the order as it is now.
        let number = notary[0].as_i64().map_or_else(String::new, |id| id.to_string());
        let script = "const form = document.querySelector('details.form:not([data-before])');
            return form?.querySelector('#change-notary').value === arguments[0] || null";
        console.browser.wait_for(script, &number).await;
        console
            .browser
            .shows(if label == "Status" { "The status is saved." } else { "The notary is" })
            .await;
    }
    assert_eq!(console.complaints().await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn history_tells_in_words_what_happened() {
    let mut console = Console::start(&[], of_client()).await;
    let client = console.user.clone();
    let service = console.user_on(of_service()).await;
    created(client.create_with(form_with_deed("HISTORY-1")).await).await;
    let put = async |lender: &str, instructions: Option<String>| {
        let mut changed = order("HISTORY-1");
        let details = &mut changed["signingDetailsFormData"];
        details["signingDate"] = json!("2026-12-02");
        details["lender"] = json!(lender);
        details["specialInstructions"] = json!(instructions);
        let sent = client.request(Method::PUT, "/api/order/1").json(&changed).send().await;
        assert_eq!(sent.unwrap().status(), 200);
    };
    put("Big Bank", Some("x".repeat(5_000))).await;
    // As version 0.1.0 wrote it.
    console.app.wiring.lines("UPDATE order_changes SET before = NULL");
    put("Small Bank", None).await;
    put("Third Bank", None).await;
    let patch = async |change: Value| {
        let sent = service.request(Method::PATCH, "/api/order/1").json(&change).send().await;
        assert_eq!(sent.unwrap().status(), 200);
    };
    patch(json!({ "order_status": "ASSIGNED", "notary_id": 7001 })).await;
    patch(json!({ "notary": { "name": "Nora Tary" } })).await;
    let signed = Form::new().part("documents", file("signed.pdf", deed()));
    created(service.post("/api/order/1/signed-documents").multipart(signed).send().await.unwrap())
        .await;
    let replacing = Form::new().text("replaces", "0").part("documents", file("new.pdf", deed()));
    created(client.post("/api/order/1/documents").multipart(replacing).send().await.unwrap()).await;
    let withdrawn = client.request(Method::DELETE, "/api/order/1/documents/0").send().await;
    assert_eq!(withdrawn.unwrap().status(), 204);
    for side in [&client, &service] {
        console.change_user(side).await;
        console.open_order(1).await;
        let items = console.timeline().await;
        let words: Vec<_> = items.iter().rev().map(|lines| lines[0].as_str()).collect();
        assert_eq!(
            words,
            [
                "Created with 1 document: withdrawn document New",
                "Changed: Lender, Date of the signing (now Wed, Dec 2, 2026), Instructions for the notary",
                "Lender: Small Bank (before: Big Bank); \
                 Instructions for the notary: empty (before: too long to be kept)",
                "Lender: Third Bank (before: Small Bank)",
                "Assigned, notary number 7001",
                "Name or contact of the notary changed: Nora Tary",
                "1 signed document added: signed.pdf",
                "Document replaced: withdrawn document by new.pdf",
                "Document withdrawn",
            ]
        );
    }

    for number in 0..100 {
        patch(json!({ "notary_id": number + 1 })).await;
    }
    console.view("orders").await;
    console.open_order(1).await;
    assert_eq!(console.timeline().await.len(), 100);
    console.press_button("Show older entries").await;
    console.browser.lacks("#history-older").await;
    let items = console.timeline().await;
    assert_eq!(items.len(), 109);
    assert!(items[108][0].starts_with("Created"), "{items:?}");
    assert_eq!(items[0][0], "Notary: number 100");
    assert_eq!(console.complaints().await, Vec::<String>::new());
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
