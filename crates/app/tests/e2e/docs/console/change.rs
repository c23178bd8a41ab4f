//! The form that changes an order.

use contract_tests::samples::maximal_request;
use reqwest::Method;
use serde_json::{Value, json};

use super::{ASKS, Console, of_client, of_service};
use crate::harness::{Api, created, order};

const SHOW: &str = "Review and save";
const BACKSPACE: &str = "\u{e003}";
const SEND: &str = "Change the order";

impl Console {
    /// Opens the form of an order, and waits until it is filled.
    async fn open_change(&self, id: i64) {
        self.open_order(id).await;
        self.follow("Change this order").await;
        self.browser.shows(SHOW).await;
    }
}

async fn patch(service: &Api, change: &Value) {
    let sent = service.request(Method::PATCH, "/api/order/1").json(change).send().await.unwrap();
    assert_eq!(sent.status(), 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn client_sees_what_changes_before_it_is_sent() {
    let console = Console::start(&[], of_client()).await;
    let browser = &console.browser;
    created(console.user.order("CHANGE-1").await).await;
    let before = console.user.read("/api/order/1").await;
    console.open_change(1).await;
    console.press_button(SHOW).await;
    browser.shows("You have not changed anything yet.").await;
    console.enter("Date of the signing", "2026-12-02").await;
    console.enter("Time", "16:00").await;
    console.enter("Lender", "Big Bank").await;
    console.press_button(SHOW).await;
    let lines = [
        "Lender: empty → Big Bank",
        "Date of the signing: Tue, Dec 1, 2026 → Wed, Dec 2, 2026",
        "Time: 2:30 PM → 4:00 PM",
    ];
    browser.text("dialog li").await;
    assert_eq!(console.texts("dialog li").await, lines);
    console.press_button("Back").await;
    browser.lacks("dialog").await;
    assert_eq!(console.user.read("/api/order/1").await, before);
    console.press_button(SHOW).await;
    console.press_button(SEND).await;
    browser.shows("The order is changed.").await;
    browser.shows("4:00 PM CST").await;
    let words = "Lender: Big Bank (before: empty); \
        Date of the signing: Wed, Dec 2, 2026 (before: Tue, Dec 1, 2026); \
        Time: 4:00 PM (before: 2:30 PM)";
    browser.shows(words).await;
    let details = console.user.read("/api/order/1").await["details"].clone();
    assert_eq!(details["utcTimeDate"], "2026-12-02T22:00:00Z");

    // Back leads to the order, not to the form again.
    browser.run("history.back()", &[]).await;
    browser.shows("CHANGE-1 (order 1)").await;
    assert_eq!(browser.run("return location.hash", &[]).await, "#/order/1");
    assert_eq!(console.complaints().await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn fields_that_the_user_leaves_alone_stay() {
    let console = Console::start(&[], of_client()).await;
    let mut maximal = maximal_request();
    maximal["signingDetailsFormData"]["specialInstructions"] = json!("One.\r\nTwo.");
    let id = created(console.user.create(&maximal).await).await["order_id"].as_i64().unwrap();
    console.open_change(id).await;
    let fixed = "return ['/signingDetailsFormData/fileNumber', '/signingServiceId']
        .every((name) => document.getElementsByName(name)[0].readOnly)";
    assert_eq!(console.browser.run(fixed, &[]).await, true);
    console.enter("In-house contact: name", "").await;
    console.enter("In-house contact: phone", "").await;
    console.enter("In-house contact: e-mail", "").await;
    console.press_button(SHOW).await;
    console.press_button(SEND).await;
    console.browser.shows("The order is changed.").await;
    let history = console.user.read(&format!("/api/order/{id}")).await["history"].clone();
    let contact = "/signingContactsFormData/inHouseContact";
    let expected = ["email", "name", "phone"].map(|name| format!("{contact}/contact_{name}"));
    assert_eq!(history[1]["changed"], json!(expected));
}

#[tokio::test(flavor = "multi_thread")]
async fn problems_of_a_change_are_shown_at_their_fields() {
    let console = Console::start(&[], of_client()).await;
    created(console.user.order("WRONG-1").await).await;
    console.open_change(1).await;
    console.enter("Property: state", "Texas").await;
    console.enter("Signer: full name", "").await;
    console.press_button(SHOW).await;
    console.browser.shows("Correct 1 entry").await;
    let shown = console.texts("[data-pointer] .error").await;
    assert_eq!(shown, ["Signer: full name is required"]);
    console.browser.click(".problem a").await;
    console.browser.press("Jane Roe").await;
    console.press_button(SHOW).await;
    console.press_button(SEND).await;
    console.browser.shows("Correct 1 entry").await;
    let shown = console.texts("[data-pointer] .error").await;
    assert!(shown[0].starts_with("Property: state must"), "{shown:?}");
    console.enter("Property: state", "OK").await;
    console.press_button(SHOW).await;
    console.press_button(SEND).await;
    console.browser.shows("The order is changed.").await;
    let details = console.user.read("/api/order/1").await["details"].clone();
    assert_eq!(details["signingDetailsFormData"]["signerName"], "Jane Roe");
}

#[tokio::test(flavor = "multi_thread")]
async fn half_a_date_is_an_error_and_a_year_has_four_digits() {
    let console = Console::start(&[], of_client()).await;
    created(console.user.order("DATE-1").await).await;
    console.open_change(1).await;
    let focus = "document.getElementsByName('/signingDetailsFormData/signingDate')[0].focus()";
    console.browser.run(focus, &[]).await;
    console.browser.press(BACKSPACE).await;
    console.press_button(SHOW).await;
    console.browser.shows("Date of the signing is no complete date").await;
    console.browser.lacks("dialog").await;
    console.browser.run(focus, &[]).await;
    console.browser.press("11292026760").await;
    let date = "return document.getElementsByName('/signingDetailsFormData/signingDate')[0].value";
    let date = console.browser.run(date, &[]).await.as_str().unwrap().to_owned();
    assert_eq!(date.len(), "2026-11-29".len(), "{date}");
}

#[tokio::test(flavor = "multi_thread")]
async fn moving_a_confirmed_signing_says_that_it_is_no_longer_confirmed() {
    let console = Console::start(&[], of_client()).await;
    let service = console.user_on(of_service()).await;
    created(console.user.order("MOVE-1").await).await;
    patch(&service, &json!({ "order_status": "CONFIRMED" })).await;
    console.open_change(1).await;
    console.enter("Lender", "Big Bank").await;
    console.press_button(SHOW).await;
    let dialog = console.browser.text("dialog").await;
    assert!(dialog.contains("gets a mail") && !dialog.contains("no longer confirmed"), "{dialog}");
    console.press_button("Back").await;
    console.browser.lacks("dialog").await;
    console.enter("Time", "16:00").await;
    console.press_button(SHOW).await;
    console
        .browser
        .shows("The appointment is no longer confirmed: the signing service confirms")
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn change_of_another_user_is_not_overwritten() {
    let console = Console::start(&[], of_client()).await;
    let browser = &console.browser;
    let client = console.user.clone();
    let service = console.user_on(of_service()).await;
    created(client.order("BOTH-1").await).await;
    console.open_change(1).await;
    console.enter("Lender", "Big Bank").await;
    let mut other = order("BOTH-1");
    other["signingDetailsFormData"]["city"] = json!("Plano");
    other["signingDetailsFormData"]["lender"] = json!("Small Bank");
    let sent = client.request(Method::PUT, "/api/order/1").json(&other).send().await.unwrap();
    assert_eq!(sent.status(), 200);
    console.press_button(SHOW).await;
    console.press_button(SEND).await;
    browser.shows("Another user has changed the order since you opened it.").await;
    // The entries of both stay, and the new value stands beside that of this user.
    browser.shows("Now: Small Bank").await;
    let values = "return ['lender', 'city'].map((name) =>
        document.getElementsByName(`/signingDetailsFormData/${name}`)[0].value)";
    assert_eq!(browser.run(values, &[]).await, json!(["Big Bank", "Plano"]));
    for (status, sentence) in
        [("ASSIGNED", "since you opened it."), ("CONFIRMED", "a proxy changes the headers")]
    {
        patch(&service, &json!({ "order_status": status })).await;
        console.press_button(SHOW).await;
        console.press_button(SEND).await;
        // The page has read the order again before it says so.
        browser.shows(sentence).await;
    }
    assert_eq!(
        client.read("/api/order/1").await["details"]["signingDetailsFormData"]["lender"],
        "Small Bank"
    );

    patch(&service, &json!({ "order_status": "SIGNED" })).await;
    console.open_order(1).await;
    browser.lacks("a[href$='/change']").await;
    browser.run("location.hash = '#/order/1/change'", &[]).await;
    // The form with the entries of before is shown at once. Its heading has the number when the order is read.
    browser.shows("Change BOTH-1 (order 1)").await;
    browser.shows(SHOW).await;
    console.enter("Lender", "Big Bank").await;
    console.press_button(SHOW).await;
    console.press_button(SEND).await;
    browser.shows("Its client cannot change it any more.").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn entries_of_a_change_stay_while_the_user_looks_at_other_views() {
    let console = Console::start(&[], of_client()).await;
    let browser = &console.browser;
    created(console.user.order("STAY-1").await).await;
    console.open_change(1).await;
    assert_eq!(browser.run(ASKS, &[]).await, false);
    console.enter("Lender", "Big Bank").await;
    assert_eq!(browser.run(ASKS, &[]).await, true);
    console.view("orders").await;
    browser.run("history.back()", &[]).await;
    browser.shows("Discard what I have entered").await;
    let lender = "return document.getElementsByName('/signingDetailsFormData/lender')[0].value";
    assert_eq!(browser.run(lender, &[]).await, "Big Bank");
    console.press_button("Discard what I have entered").await;
    let is_empty = "return document.getElementsByName(arguments[0])[0].value ? null : true";
    browser.wait_for(is_empty, "/signingDetailsFormData/lender").await;
    assert_eq!(browser.run(ASKS, &[]).await, false);
}
