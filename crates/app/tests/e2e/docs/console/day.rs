//! A day of dispatchers and escrow officers, on both wirings.

use domain::use_cases::keys::manage_keys::KeyTerms;
use reqwest::Method;
use serde_json::{Value, json};
use time::Duration;

use super::{Console, of_client, of_service};
use crate::{
    harness::{Api, created, service_process::run},
    wiring::{Kind, on_both_wirings},
};

on_both_wirings! {
    dispatcher_assigns_five_orders_at_once_confirms_and_calls,
    officer_moves_a_confirmed_signing,
    entries_of_the_second_dispatcher_stay_beside_the_new_values,
    lost_network_in_the_middle_of_57_files_costs_none,
    fifty_orders_that_arrive_are_told_and_shown,
}

const SPACE: &str = " ";

async fn patch(service: &Api, id: i64, change: &Value) {
    let path = format!("/api/order/{id}");
    let sent = service.request(Method::PATCH, &path).json(change).send().await.unwrap();
    assert_eq!(sent.status(), 200);
}

impl Console {
    async fn value_of(&self, id: &str) -> Value {
        self.browser.run("return document.getElementById(arguments[0])?.value", &[id]).await
    }
}

async fn dispatcher_assigns_five_orders_at_once_confirms_and_calls(kind: Kind) {
    let mut console = Console::start_on(kind, &[], of_client()).await;
    let client = console.user.clone();
    // It is 6:00 there, and the signings begin at 9:00.
    let today = console.date_in(0).await;
    for number in 1..=5 {
        let soon = json!({ "specificTime": "09:00" });
        console.create_on(&format!("MORNING-{number}"), &today, soon).await;
    }
    let service = console.user_on(of_service()).await;
    console.create_on("KNOWN-6", "2026-12-20", json!({})).await;
    let nora = json!({ "name": "Nora Tary", "phone": "+1 214 555 0177" });
    patch(&service, 6, &json!({ "order_status": "ASSIGNED", "notary": nora })).await;

    console.change_user(&service).await;
    assert_eq!(console.browser.text("#view-attention .number").await.trim(), "5");
    console.browser.click("#view-attention").await;
    console.browser.shows("No notary, and less than 24 hours to the start").await;
    console.browser.shows("Assign a notary.").await;
    // The space bar chooses a row, and the box of the head all of them.
    console.browser.run("document.querySelector('tbody a.order').focus()", &[]).await;
    console.browser.press(SPACE).await;
    console.browser.shows("1 chosen").await;
    console.browser.click("thead .choose input").await;
    console.browser.shows("5 chosen").await;
    console.press_button("Assign a notary").await;
    console.enter("Notary: name", "Nora Tary").await;
    // The name completes itself from the notaries of the service.
    let phone = "return document.getElementById(arguments[0])?.value || null";
    assert_eq!(console.browser.wait_for(phone, "chosen-phone").await, "+1 214 555 0177");
    console.press_button("Assign").await;
    console.browser.shows("Assigned: 5 of 5").await;
    assert_eq!(console.texts(".outcomes li").await.len(), 5);
    let call = "return document.querySelector('dialog a[href^=tel]').href";
    assert_eq!(console.browser.run(call, &[]).await, "tel:+12145550177");
    console.press_button("Close").await;

    console.browser.shows("Not confirmed, and less than 4 hours to the start").await;
    // The notary is one click away.
    let call = "return document.querySelector('td.notary a[href^=tel]')?.href ?? null";
    assert_eq!(console.browser.wait_for(call, "").await, "tel:+12145550177");
    // A refresh in the middle of the assigning shows a table of those without a notary, too.
    let is_only = "return document.querySelectorAll(arguments[0]).length === 1 || null";
    console.browser.wait_for(is_only, "thead .choose input").await;
    console.browser.click("thead .choose input").await;
    console.browser.shows("5 chosen").await;
    console.press_button("Confirm").await;
    console.browser.text("dialog").await;
    console.browser.click("dialog button.primary").await;
    console.browser.shows("Confirmed: 5 of 5").await;
    console.press_button("Close").await;
    console.browser.shows("Nothing needs attention.").await;
    for id in 1..=5 {
        let read = client.read(&format!("/api/order/{id}")).await;
        assert_eq!(read["order_status"], "CONFIRMED");
        assert_eq!(read["notary"], nora);
    }
    assert_eq!(console.complaints().await, Vec::<String>::new());
}

async fn officer_moves_a_confirmed_signing(kind: Kind) {
    let flags = ["--mail-settle-secs=0"];
    let console = Console::start_on(kind, &flags, of_client()).await;
    let add = ["services", "add", "42", "--name=Lone Star", "--email=dispatch@signing.example.com"];
    run(&console.app.wiring, &add);
    let service = console.user_on(of_service()).await;
    created(console.user.order("MOVE-1").await).await;
    patch(&service, 1, &json!({ "order_status": "CONFIRMED" })).await;
    console.open_order(1).await;
    console.follow("Change this order").await;
    console.browser.shows("Review and save").await;
    console.enter("Time", "16:00").await;
    console.press_button("Review and save").await;
    console.browser.shows("The appointment is no longer confirmed").await;
    console.press_button("Change the order").await;
    console.browser.shows("No longer confirmed: the appointment was changed").await;
    assert!(console.browser.text(".facts h2").await.contains("Assigned"));
    assert_eq!(console.user.read("/api/order/1").await["order_status"], "ASSIGNED");
    // Both sides get a mail that is true: of the new time, which is not confirmed.
    let are_there = || {
        let mails: Vec<_> = console.app.wiring.mails().iter().map(|it| one_line(it)).collect();
        ["must be confirmed again", "not confirmed the appointment again yet"]
            .iter()
            .all(|words| mails.iter().any(|it| it.contains(words) && it.contains("4:00 PM")))
    };
    console.app.eventually_mailed(are_there).await;
}

/// Returns a mail without its line ends.
fn one_line(mail: &str) -> String {
    let joined = mail.replace("=\r\n", "").replace("=\n", "");
    joined.split_whitespace().collect::<Vec<_>>().join(" ")
}

async fn entries_of_the_second_dispatcher_stay_beside_the_new_values(kind: Kind) {
    let console = Console::start_on(kind, &[], of_service()).await;
    let browser = &console.browser;
    let client = console.user_on(of_client()).await;
    created(client.order("TWO-1").await).await;
    console.open_order(1).await;
    console.enter("Notary: name", "Nora Tary").await;
    console.enter("New note", "Gate code 12.").await;
    // Back and a reload keep what was typed.
    console.view("orders").await;
    browser.run("history.back()", &[]).await;
    browser.shows("TWO-1 (order 1)").await;
    assert_eq!(console.value_of("change-name").await, "Nora Tary");
    browser.run("location.reload()", &[]).await;
    browser.text(".timeline").await;
    assert_eq!(console.value_of("change-name").await, "Nora Tary");
    assert_eq!(console.value_of("note-text").await, "Gate code 12.");

    // Another dispatcher is first. The page says so by itself.
    console.app.clock.advance(Duration::minutes(1));
    let other = json!({ "order_status": "ASSIGNED", "notary": { "name": "Otto Seal" } });
    patch(&console.user, 1, &other).await;
    browser.shows("Changed by test").await;
    console.press_button("Assign").await;
    browser.shows("Another user has changed the order since you opened it.").await;
    assert_eq!(console.value_of("change-name").await, "Nora Tary");
    browser.shows("Now: Otto Seal").await;
    assert_eq!(console.value_of("note-text").await, "Gate code 12.");
    assert_eq!(client.read("/api/order/1").await["notary"]["name"], "Otto Seal");
    console.press_button("Save the notary").await;
    browser.shows("The notary is changed.").await;
    console.press_button("Add the note").await;
    browser.shows("The note is added.").await;
    let read = client.read("/api/order/1").await;
    assert_eq!(
        (&read["notary"]["name"], &read["notes"][0]["text"]),
        (&json!("Nora Tary"), &json!("Gate code 12."))
    );
    // Nothing of it is kept any more.
    let kept = "return Object.keys(localStorage).filter((it) => it.includes('.entries.')).length";
    assert_eq!(browser.run(kept, &[]).await, 0);
    assert_eq!(console.complaints().await, Vec::<String>::new());
}

/// Drops 57 files on an order. The service rejects one of them.
const DROP: &str = "const dataTransfer = new DataTransfer();
    for (let at = 0; at < 57; at++) {
        const [content, name] = at === 30 ? ['PK\\x03\\x04 no document', 'bad.docx'] : [`${arguments[0]} ${at}`, `${at}.pdf`];
        dataTransfer.items.add(new File([content], name));
    }
    document.querySelector('.adding').dispatchEvent(
        new DragEvent('drop', { bubbles: true, cancelable: true, dataTransfer }));";

/// Loses the answer to the third upload: the service has stored it, and the page does not learn of it.
const LOSE_THIRD: &str = "const send = XMLHttpRequest.prototype.send;
    let number = 0;
    XMLHttpRequest.prototype.send = function (body) {
        const { onerror } = this;
        if (++number === 3) this.onload = onerror;
        send.call(this, body);
    };";

async fn lost_network_in_the_middle_of_57_files_costs_none(kind: Kind) {
    let console = Console::start_on(kind, &[], of_client()).await;
    let browser = &console.browser;
    created(console.user.order("FILES-1").await).await;
    console.open_order(1).await;
    browser.shows("Choose or drop up to 100: ").await;
    browser.run(LOSE_THIRD, &[]).await;
    browser.run(DROP, &["%PDF-1.7"]).await;
    browser
        .wait_for("return document.querySelectorAll('.files li').length === 57 || null", "")
        .await;
    console.press_button("Add these documents").await;
    // The second request had the bad file, the third one went without it.
    browser.shows("20 added, 37 not sent").await;
    browser.shows("What you sent may have arrived; the same content is stored only once.").await;
    console.press_button("Add these documents").await;
    browser.shows("36 added, 1 not sent: bad.docx").await;
    let documents = console.user.read("/api/order/1").await["documents"].clone();
    let mut names: Vec<_> = documents
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["name_as_sent"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(names.len(), 56);
    names.sort();
    names.dedup();
    assert_eq!(names.len(), 56);
    browser.shows("Choose or drop up to 44: ").await;
    assert_eq!(console.complaints().await, Vec::<String>::new());
}

async fn fifty_orders_that_arrive_are_told_and_shown(kind: Kind) {
    let console = Console::start_on(kind, &["--duplicate-window-secs=0"], of_service()).await;
    let browser = &console.browser;
    let client = console.user_on(of_client()).await;
    console.news_begin().await;
    created(client.order("ARRIVE-0").await).await;
    browser.text("#order-1").await;
    let top = "return document.getElementById('order-1').getBoundingClientRect().top";
    let before = browser.run(top, &[]).await.as_f64().unwrap();
    for number in 1..=50 {
        created(client.order(&format!("ARRIVE-{number}")).await).await;
    }
    // The first one came after the sign-in, too.
    browser.shows("Show 51 new orders").await;
    let title = browser.run("return document.title", &[]).await;
    assert!(title.as_str().unwrap().starts_with("(51) Orders"), "{title}");
    assert!((browser.run(top, &[]).await.as_f64().unwrap() - before).abs() <= 1.0);
    console.press_button("Show 51 new orders").await;
    let focused = "return document.activeElement.id === arguments[0] || null";
    browser.wait_for(focused, "order-51").await;
    assert_eq!(console.texts("tbody a.order").await[0], "ARRIVE-50");
    let title = browser.run("return document.title", &[]).await;
    assert!(title.as_str().unwrap().starts_with("Orders"), "{title}");
    // What is new is bold until it is opened.
    let bold = "return document.querySelectorAll('tr.unopened').length";
    assert_eq!(browser.run(bold, &[]).await, 51);
    browser.click("#order-51").await;
    browser.shows("ARRIVE-50 (order 51)").await;
    browser.text(".timeline").await;
    console.follow("Next order").await;
    browser.shows("ARRIVE-49 (order 50)").await;
    browser.text(".timeline").await;
    console.follow("Back to the orders").await;
    browser.text("#order-51").await;
    assert_eq!(browser.run(bold, &[]).await, 49);
    assert_eq!(console.complaints().await, Vec::<String>::new());
}

impl Console {
    /// Starts a service on a wiring, and signs in with a key of these terms.
    async fn start_on(kind: Kind, flags: &[&str], terms: KeyTerms) -> Self {
        Self::start_with(kind.app_with(flags).await, "", terms).await
    }
}
