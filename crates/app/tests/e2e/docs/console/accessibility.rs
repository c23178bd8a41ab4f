//! Every view passes axe, on small and wide screens, light and dark.

use domain::{api_key::Scope, use_cases::keys::manage_keys::KeyTerms};
use reqwest::{Method, multipart::Form};
use serde_json::{Value, json};
use test_servers::tools;
use time::Duration;

use super::{Console, of_client, of_service};
use crate::harness::{Api, WEBHOOKS, created, deed, file, form, order, service_process::run};

#[tokio::test(flavor = "multi_thread")]
async fn every_view_passes_axe_at_every_width_light_and_dark() {
    let flags = [&WEBHOOKS[..], &["--duplicate-window-secs=0"]].concat();
    let client = KeyTerms { client_name: Some("Acme Title".to_owned()), ..of_client() };
    let mut console = Console::start(&flags, client).await;
    create_samples(&console).await;
    let add = ["services", "add", "42", "--name=Lone Star", "--email=dispatch@signing.example.com"];
    run(&console.app.wiring, &add);
    let service = of_service();
    let scopes = Scope::OF_SERVICES.into_iter().collect();
    carry_out(&console.app.as_key(&console.app.issue_key_on(service.clone()).await)).await;
    console.press_button("Refresh").await;
    console.browser.shows("REFI-2026-0115").await;
    screenshot(&console, "console.png").await;
    console.open_filters().await;
    console.browser.click("#signing-dates").await;
    check(&console, "orders").await;
    console.browser.click("#signing-dates").await;
    console.browser.click("#view-attention").await;
    console.browser.text(".part").await;
    check(&console, "needs attention").await;
    console.follow("Changed").await;
    console.browser.text("td.what").await;
    console.browser.click("tbody .choose input").await;
    check(&console, "changed").await;
    console.follow("Next 7 days").await;
    console.browser.text(".day h2").await;
    screenshot(&console, "console-week.png").await;
    check(&console, "agenda").await;
    console.follow("All").await;
    check_order(&console).await;

    console.view("new").await;
    console.fill(&order("REFI-2026-0116")).await;
    screenshot(&console, "console-form.png").await;
    console
        .fill(&json!({ "signingDetailsFormData": { "state": "Texas", "signerPhone": "1" } }))
        .await;
    console.browser.click("form.order button.primary").await;
    console.browser.shows("Correct 2 entries").await;
    check(&console, "form").await;

    console.sign_in_as(KeyTerms { scopes, is_test: true, ..service }).await;
    console.browser.shows("There is no new order.").await;
    check(&console, "test key").await;
    console.sign_in_as(of_service()).await;
    console.browser.shows("new orders, oldest first").await;
    screenshot(&console, "console-service.png").await;
    check(&console, "orders of the service").await;
    console.browser.click("thead .choose input").await;
    console.press_button("Assign a notary").await;
    console.browser.text("dialog").await;
    check(&console, "assign a notary to several orders").await;
    console.press_button("Back").await;
    console.follow("All").await;
    console.browser.click("#order-2").await;
    console.browser.text("label[for=change-status]").await;
    console.enter("Status", "").await;
    check(&console, "order of the service").await;
    console.browser.click("#did-not-sign").await;
    console.browser.text("dialog").await;
    check(&console, "did not sign").await;
    console.press_button("Back").await;

    console.sign_in_as(of_client()).await;
    let webhook = json!({ "url": "http://127.0.0.1:9999/orders", "description": "Escrow desk" });
    created(console.user.post("/api/webhooks").json(&webhook).send().await.unwrap()).await;
    console.view("webhooks").await;
    console.press_button("Send a test event").await;
    console.browser.shows("webhook.test").await;
    check(&console, "webhooks").await;
    console.choose("Edit").await;
    console.browser.shows("Edit the webhook").await;
    check(&console, "edit a webhook").await;
    console.press_button("Back").await;
    console.browser.click("[aria-haspopup=menu]").await;
    check(&console, "menu").await;
    console.browser.click("a[href='#/key']").await;
    console.browser.shows("What this key is").await;
    check(&console, "key").await;

    console.browser.click("#header > button").await;
    check(&console, "sign-in").await;
    assert_eq!(console.complaints().await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn sign_in_people_and_keys_pass_axe() {
    let console = Console::without_sign_in(&[]).await;
    console.visit("").await;
    console.browser.shows("Sign in with a passkey").await;
    check(&console, "sign-in").await;
    let invited = console.invited("Ann Roe", &["--client=1", "--admin"]);
    console.visit(&invited.replace("#invite", "#welcome")).await;
    console.browser.shows("You are the first admin").await;
    check(&console, "welcome").await;
    console.visit(&invited).await;
    console.browser.shows("You are invited, Ann Roe").await;
    check(&console, "invitation").await;
    console.accept(&invited).await;
    console.visit(&invited).await;
    console.browser.shows("This invitation is used.").await;
    check(&console, "used invitation").await;

    console.visit("#/account").await;
    console.browser.shows("This browser, with a passkey").await;
    check(&console, "account").await;
    console.view("people").await;
    console.enter("Name", "Bob Poe").await;
    console.press_button("Invite").await;
    console.browser.shows("The link of the invitation").await;
    check(&console, "people").await;
    console.press_button("More actions for Ann Roe").await;
    check(&console, "actions for a person").await;
    console.browser.click("[role=menuitem][id$=passkeys]").await;
    console.browser.text("dialog").await;
    check(&console, "passkeys of a person").await;
    console.press_button("Back").await;
    console.view("keys").await;
    console.enter("Name", "Order robot").await;
    console.press_button("Make a key").await;
    console.browser.shows("The new key").await;
    check(&console, "keys").await;

    console.app.clock.advance(Duration::minutes(6));
    console.press_button("Revoke the key Order robot").await;
    console.browser.click("dialog button.danger").await;
    console.browser.shows("need a sign-in of the last five minutes").await;
    check(&console, "sign in again").await;
    console.use_passkey().await;
    console.browser.shows("The key is revoked.").await;
    console.app.clock.advance(Duration::minutes(61));
    console.browser.run("location.hash = '#/people'", &[]).await;
    console.browser.shows("Your session has ended").await;
    check(&console, "ended session").await;
    assert_eq!(console.complaints().await, Vec::<String>::new());
}

/// Checks an order of the client, its dialogs and how it is changed.
async fn check_order(console: &Console) {
    console.browser.click("#order-2").await;
    console.browser.text(".timeline").await;
    console.enter("New note", "The gate code is 12.").await;
    console.press_button("Add the note").await;
    console.browser.shows("The note is added.").await;
    screenshot(console, "console-order.png").await;
    console.press_button("Replace deed-of-trust.pdf").await;
    check(console, "order").await;
    for (action, dialog, leave) in [
        ("Cancel this order", "Cancel the order", "Back"),
        ("Withdraw deed-of-trust.pdf", "Withdraw the document", "Back"),
        ("Preview deed-of-trust.pdf", "Close", "Close"),
    ] {
        console.press_button(action).await;
        console.browser.shows(dialog).await;
        check(console, dialog).await;
        console.press_button(leave).await;
    }
    console.follow("Change this order").await;
    console.browser.shows("Review and save").await;
    console.enter("Lender", "Big Bank").await;
    check(console, "change").await;
    console.press_button("Review and save").await;
    console.browser.text("dialog li").await;
    check(console, "what changes").await;
    console.press_button("Back").await;
}

/// Sets the size of the window and the colours that the user prefers.
async fn show_as(console: &Console, width: u32, height: u32, colors: &str) {
    let size = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
    console.browser.devtools("Emulation.setDeviceMetricsOverride", size).await;
    let colors = json!({ "features": [{ "name": "prefers-color-scheme", "value": colors }] });
    console.browser.devtools("Emulation.setEmulatedMedia", colors).await;
}

async fn screenshot(console: &Console, name: &str) {
    show_as(console, 1280, 860, "light").await;
    console.browser.run("scrollTo(0, 0); document.activeElement.blur();", &[]).await;
    console.save_screenshot(name).await;
}

/// Asserts that axe finds nothing, and that nothing is wider than the screen.
async fn check(console: &Console, view: &str) {
    let axe = std::fs::read_to_string(tools::axe()).unwrap();
    console.browser.run(&format!("if (!window.axe) {{ {axe} }}"), &[]).await;
    let script = "const done = arguments[arguments.length - 1];
        axe.run(document, { resultTypes: ['violations'] }).then(({ violations }) =>
            done(violations.map(({ id, nodes }) => `${id}: ${nodes.map((it) => it.html)}`)));";
    // The narrow one is a phone, the next one a screen at 200 %.
    for width in [320, 640, 1280] {
        for colors in ["light", "dark"] {
            show_as(console, width, 720, colors).await;
            let found = console.browser.run_async(script, &[]).await;
            assert_eq!(found, json!([]), "{view} at {width}, {colors}");
        }
        let script = "return document.documentElement.scrollWidth - innerWidth";
        let excess = console.browser.run(script, &[]).await.as_i64().unwrap();
        assert!(excess <= 0, "{view} is wider than {width} by {excess}");
    }
}

/// Creates orders as a title company has them.
async fn create_samples(console: &Console) {
    for (number, signer, kind, city, state, zone, days) in [
        ("REFI-2026-0112", "Jane Doe", "Refinance", "Dallas", "TX", "America/Chicago", 0),
        ("PUR-2026-0847", "John Roe", "Purchase", "Albany", "NY", "America/New_York", 1),
        ("HELOC-2026-0031", "Zoë Núñez", "HELOC", "Phoenix", "AZ", "America/Phoenix", 1),
        ("REFI-2026-0113", "Mary O’Brien", "Refinance", "Boise", "ID", "America/Denver", 2),
        ("PUR-2026-0851", "שרה כהן", "Purchase", "Miami", "FL", "America/New_York", 2),
        ("REFI-2026-0115", "Amara Okafor", "Refinance", "Portland", "OR", "America/Los_Angeles", 3),
    ] {
        let date = console.date_in(days).await;
        let mut order = order(number);
        let details = &mut order["signingDetailsFormData"];
        for (name, value) in [
            ("signerName", signer),
            ("signingType", kind),
            ("city", city),
            ("state", state),
            ("timeZoneId", zone),
            ("signingDate", &date),
            ("propertyAddress", "12 Main St"),
        ] {
            details[name] = json!(value);
        }
        let documents = form(&order)
            .part("documents", file("deed-of-trust.pdf", deed()))
            .part("documents", file("closing-disclosure.pdf", deed()));
        created(console.user.create_with(documents).await).await;
    }
}

/// Carries some of the orders out.
async fn carry_out(service: &Api) {
    for (id, status, notary, name) in [
        (1, "SIGNED", 7001, "Nora Tary"),
        (2, "CONFIRMED", 7002, "Otto Tary"),
        (3, "ASSIGNED", 7001, "Nora Tary"),
    ] {
        let notary_of =
            json!({ "name": name, "phone": "+1 214 555 0177", "email": "n@example.com" });
        let change: Value =
            json!({ "order_status": status, "notary_id": notary, "notary": notary_of });
        let order = format!("/api/order/{id}");
        let changed = service.request(Method::PATCH, &order).json(&change).send().await;
        assert_eq!(changed.unwrap().status(), 200);
    }
    for id in [1, 2] {
        let signed = Form::new().part("documents", file("signed-deed.pdf", deed()));
        let signed = service.post(&format!("/api/order/{id}/signed-documents")).multipart(signed);
        created(signed.send().await.unwrap()).await;
    }
    let cancelled = service.post("/api/order/4/cancel").json(&json!({ "reason": "Moved" }));
    assert_eq!(cancelled.send().await.unwrap().status(), 200);
}
