//! The draft of an order, and what the next order has of the last one.

use serde_json::{Value, json};

use super::super::{ASKS, Console, of_client};
use crate::harness::{created, deed, order};

const KEPT: &str = "return Object.keys(localStorage).map((it) => it.split('.')[1]).sort()";

impl Console {
    /// Returns the texts in the fields with these pointers.
    async fn entered(&self, pointers: &[&str]) -> Value {
        let script =
            "const found = JSON.parse(arguments[0]).map((it) => document.getElementsByName(it)[0]);
            return found.every(Boolean) ? found.map((it) => it.value) : null";
        self.browser.wait_for(script, &json!(pointers).to_string()).await
    }
}

const OF_ORDER: [&str; 3] = [
    "/signingDetailsFormData/fileNumber",
    "/signingDetailsFormData/signerName",
    "/signingDetailsFormData/coSignerName",
];

#[tokio::test(flavor = "multi_thread")]
async fn draft_stays_until_the_order_is_created() {
    let mut console = Console::start(&[], of_client()).await;
    let first = console.user.clone();
    console.view("new").await;
    assert_eq!(console.browser.run(ASKS, &[]).await, false);
    console
        .browser
        .shows("stays in this browser until the order is created, without the documents")
        .await;
    let mut draft = order("DRAFT-1");
    draft["signingDetailsFormData"]["coSignerName"] = json!("Mary Roe");
    console.fill(&draft).await;
    let paper = tempfile::Builder::new().suffix(".pdf").tempfile().unwrap();
    std::fs::write(paper.path(), deed()).unwrap();
    console.browser.type_into("input[type=file]", paper.path().to_str().unwrap()).await;
    assert_eq!(console.browser.run(ASKS, &[]).await, true);
    let expected = json!(["DRAFT-1", "Jane Doe", "Mary Roe"]);

    console.view("orders").await;
    console.browser.run("history.back()", &[]).await;
    console.browser.shows("Create the order").await;
    assert_eq!(console.entered(&OF_ORDER).await, expected);
    console.browser.text(".files li").await;

    console.browser.run("location.reload()", &[]).await;
    console.browser.shows("This is your draft. Choose its documents again: ").await;
    assert_eq!(console.entered(&OF_ORDER).await, expected);
    console.browser.lacks(".files li").await;
    let opened = "return document.querySelector('details').open";
    assert_eq!(console.browser.run(opened, &[]).await, true);

    // Another client does not see it.
    console.sign_in_as(of_client()).await;
    console.view("new").await;
    assert_eq!(console.entered(&OF_ORDER).await, json!(["", "", ""]));
    console.change_user(&first).await;
    console.view("new").await;
    assert_eq!(console.entered(&OF_ORDER).await, expected);

    console.press_button("Create the order").await;
    console.browser.shows("Order 1 is created.").await;
    // The new order is shown, and its user has opened it.
    console.browser.shows("(order 1)").await;
    assert_eq!(console.browser.run(KEPT, &[]).await, json!(["numbers", "opened"]));
    console.view("new").await;
    assert_eq!(console.entered(&OF_ORDER).await, json!(["", "", ""]));
    assert_eq!(console.browser.run(ASKS, &[]).await, false);
    assert_eq!(console.complaints().await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn draft_is_discarded_on_demand() {
    let console = Console::start(&[], of_client()).await;
    console.view("new").await;
    console.fill(&order("DISCARD-1")).await;
    console.press_button("Discard the draft").await;
    console.browser.text("dialog").await;
    console.browser.click("dialog button.danger").await;
    console.browser.lacks("dialog").await;
    let is_empty = "return document.getElementsByName(arguments[0])[0].value ? null : true";
    console.browser.wait_for(is_empty, OF_ORDER[0]).await;
    assert_eq!(console.browser.run(KEPT, &[]).await, json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn numbers_and_order_contact_are_those_of_the_last_order() {
    let console = Console::start(&[], of_client()).await;
    console.view("new").await;
    let mut first = order("LAST-1");
    first["signingContactsFormData"]["clientCompanyId"] = json!(77);
    console.fill(&first).await;
    console.press_button("Create the order").await;
    console.browser.shows("Order 1 is created.").await;
    console.browser.run("location.reload()", &[]).await;
    console.view("new").await;
    let numbers = [
        "/requestedBy/userId",
        "/signingContactsFormData/clientCompanyId",
        "/signingServiceId",
        "/signingContactsFormData/orderContactEmail",
        "/signingDetailsFormData/fileNumber",
    ];
    let user = first["requestedBy"]["userId"].to_string();
    let contact = &first["signingContactsFormData"]["orderContactEmail"];
    assert_eq!(console.entered(&numbers).await, json!([user, "77", "42", contact, ""]));
    assert_eq!(console.browser.run(ASKS, &[]).await, false);
}

#[tokio::test(flavor = "multi_thread")]
async fn repeated_order_has_all_but_file_number_and_dates() {
    let console = Console::start(&[], of_client()).await;
    created(console.user.order("REPEAT-1").await).await;
    console.browser.run("location.hash = '#/new?from=1'", &[]).await;
    console.browser.shows("The entries are those of order 1.").await;
    let fields = ["fileNumber", "signingDate", "specificTime", "signerName", "timeZoneId"]
        .map(|name| format!("/signingDetailsFormData/{name}"));
    let pointers: Vec<_> = fields.iter().map(String::as_str).collect();
    let expected = json!(["", "", "14:30", "Jane Doe", "America/Chicago"]);
    assert_eq!(console.entered(&pointers).await, expected);

    // Another order that was begun is not lost without a question.
    created(console.user.order("REPEAT-2").await).await;
    console.browser.run("location.hash = '#/new?from=2'", &[]).await;
    console.browser.shows("Replace your draft?").await;
    console.press_button("Back").await;
    assert_eq!(console.complaints().await, Vec::<String>::new());
}
