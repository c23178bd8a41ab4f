//! The form that creates orders, over both operations.

mod advice;
mod draft;
mod uploads;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
};

use contract_tests::samples::maximal_request;
use serde_json::json;

use super::{Console, ENTER, LOSE_ANSWER, SLOW, TAB, below_root, fields, of_client};
use crate::harness::{created, deed, errors, order, problem, service_process::run};

const SUBMIT: &str = "form.order button.primary";

#[tokio::test(flavor = "multi_thread")]
async fn keyboard_alone_creates_and_cancels_an_order() {
    let console = Console::start(&[], of_client()).await;
    let browser = &console.browser;
    focus_on(&console, "New order").await;
    browser.press(&ENTER.to_string()).await;
    browser.text(SUBMIT).await;

    let mut texts: BTreeMap<String, String> = fields(&order("KEYS-1")).into_iter().collect();
    // As keyboards of the United States write them.
    texts.insert("/signingDetailsFormData/signingDate".to_owned(), "12012026".to_owned());
    texts.insert("/signingDetailsFormData/specificTime".to_owned(), "0230PM".to_owned());
    texts.insert("/signingDetailsFormData/timeZoneId".to_owned(), "Central".to_owned());
    texts.remove("/signingDetailsFormData/signingTimeType");
    // They are in a closed group: the form says who orders.
    texts.retain(|pointer, _| !pointer.starts_with("/requestedBy/"));
    for _ in 0..90 {
        browser.press(&TAB.to_string()).await;
        let script = "const it = document.activeElement; return it.name || it.innerText";
        let name = browser.run(script, &[]).await.as_str().unwrap().to_owned();
        if let Some(text) = texts.remove(&name) {
            browser.press(&text).await;
        }
        if name == "Create the order" {
            break;
        }
    }
    assert_eq!(texts, BTreeMap::new());
    browser.press(&ENTER.to_string()).await;
    browser.shows("Order 1 is created.").await;
    browser.shows("(order 1)").await;
    let focused = browser.run("return document.activeElement.innerText", &[]).await;
    assert_eq!(focused, "KEYS-1 (order 1)");
    let details = console.user.read("/api/order/1").await["details"].clone();
    assert_eq!(details["signingDetailsFormData"]["specificTime"], "14:30");
    assert_eq!(details["utcTimeDate"], "2026-12-01T20:30:00Z");
    assert!(details["requestedBy"]["userId"].is_number(), "{details}");

    focus_on(&console, "Cancel this order").await;
    browser.press(&ENTER.to_string()).await;
    browser.text("dialog").await;
    browser.press(&format!("The borrower withdrew.{TAB}{ENTER}")).await;
    browser.lacks("dialog").await;
    browser.shows("The borrower withdrew.").await;
    assert_eq!(console.user.read("/api/order/1").await["order_status"], "CANCELLED");
    browser.lacks("button.danger").await;
    assert_eq!(console.complaints().await, Vec::<String>::new());
}

/// Presses the tabulator until an element with this text has the focus.
async fn focus_on(console: &Console, text: &str) {
    for _ in 0..40 {
        console.browser.press(&TAB.to_string()).await;
        let focused = console.browser.run("return document.activeElement.innerText", &[]).await;
        if focused == text {
            return;
        }
    }
    panic!("the tabulator does not reach {text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_field_reaches_the_order_by_both_operations() {
    let console = Console::start(&["--duplicate-window-secs=0"], of_client()).await;
    let browser = &console.browser;
    let mut whole = maximal_request();
    // The time field of a browser takes no other text.
    whole["signingDetailsFormData"].as_object_mut().unwrap().remove("specificTime");
    let sent = created(console.user.create(&whole).await).await;
    let expected = console.user.read(&format!("/api/order/{}", sent["order_id"])).await;
    for (id, documents) in [(2, 0), (3, 2)] {
        console.view("new").await;
        console.fill(&whole).await;
        if documents > 0 {
            browser
                .type_into("input[type=file]", example("deed-of-trust.pdf").to_str().unwrap())
                .await;
            drop_file(&console, "signing-instructions.docx").await;
            drop_file(&console, "create-orders.sh").await;
            console.press_button("Remove create-orders.sh").await;
        }
        browser.click(SUBMIT).await;
        browser.shows(&format!("Order {id} is created.")).await;
        let read = console.user.read(&format!("/api/order/{id}")).await;
        let (read_fields, expected_fields) =
            (fields(&read["details"]), fields(&expected["details"]));
        for (one, other) in read_fields.iter().zip(&expected_fields) {
            assert_eq!(one, other);
        }
        assert_eq!(read_fields.len(), expected_fields.len());
        assert_eq!(read["documents"].as_array().unwrap().len(), documents);
    }
    assert_eq!(console.complaints().await, Vec::<String>::new());
}

fn example(name: &str) -> PathBuf {
    below_root("docs/examples").join(name)
}

/// Drops a file of the examples where the form takes documents.
async fn drop_file(console: &Console, name: &str) {
    let content = json!(std::fs::read(example(name)).unwrap()).to_string();
    let script = "const bytes = Uint8Array.from(JSON.parse(arguments[1]));
        const dataTransfer = new DataTransfer();
        dataTransfer.items.add(new File([bytes], arguments[0], { lastModified: 1 }));
        const zone = document.querySelector('.drop');
        for (const kind of ['dragover', 'drop']) {
            zone.dispatchEvent(new DragEvent(kind, { bubbles: true, cancelable: true, dataTransfer }));
        }";
    console.browser.run(script, &[name, &content]).await;
    console.browser.shows(name).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn signing_services_are_offered_by_name() {
    let console = Console::start(&[], of_client()).await;
    let add = ["services", "add", "42", "--name=Lone Star", "--email=dispatch@signing.example.com"];
    run(&console.app.wiring, &add);
    console.view("new").await;
    let script = "const [, offered] = document.getElementById(arguments[0]).options ?? [];
        return offered ? [offered.value, offered.text] : null;";
    let offered = console.browser.wait_for(script, "field-signingServiceId").await;
    assert_eq!(offered, json!(["42", "Lone Star"]));
    // The only one is chosen already.
    let chosen = "return document.getElementById(arguments[0]).value || null";
    assert_eq!(console.browser.wait_for(chosen, "field-signingServiceId").await, "42");
    console.enter("Signing service", "42").await;
    console.press_button("Create the order").await;
    console.browser.shows("Correct ").await;
    assert!(!console.browser.text(".problem").await.contains("Signing service"));
}

#[tokio::test(flavor = "multi_thread")]
async fn other_groups_are_closed_until_filled_or_at_fault() {
    let console = Console::start(&[], of_client()).await;
    console.view("new").await;
    let open = "return [...document.querySelectorAll('details')]
        .map((it) => [it.querySelector('summary').firstChild.data, it.open])";
    let groups = console.browser.run(open, &[]).await;
    let names = ["Co-signer", "Delivery", "Fees", "Contacts", "Instructions"];
    assert_eq!(groups, json!(names.map(|name| (name, false))));
    let legends = console.texts("fieldset.card > legend").await;
    let always = ["File", "Signing service", "Signer", "Appointment"];
    assert_eq!(legends[..4], always);
    let height = "return document.documentElement.scrollHeight";
    let size = json!({ "width": 1280, "height": 860, "deviceScaleFactor": 1, "mobile": false });
    console.browser.devtools("Emulation.setDeviceMetricsOverride", size).await;
    let height = console.browser.run(height, &[]).await.as_i64().unwrap();
    assert!(height <= 860 * 3 / 2, "{height}");

    console.fill(&json!({ "signingDetailsFormData": { "coSignerName": "Mary Roe" } })).await;
    // A field in a closed group takes a value, such as from a program that fills forms.
    let set = "document.getElementsByName('/signingDetailsFormData/notaryPay')[0].value = 'much'";
    console.browser.run(set, &[]).await;
    console.browser.click(SUBMIT).await;
    console.browser.shows("Pay of the notary must be an amount, such as 150.50").await;
    let groups = console.browser.run(open, &[]).await;
    let open = [true, false, true, false, false];
    assert_eq!(groups, json!(names.into_iter().zip(open).collect::<Vec<_>>()));
    assert_eq!(console.complaints().await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_are_in_the_words_of_the_trade() {
    let console = Console::start(&[], of_client()).await;
    console.view("new").await;
    let mut wrong = order("WORDS-1");
    wrong["requestedBy"]["userId"] = json!("x");
    wrong["signingServiceId"] = json!("0");
    for (name, value) in [
        ("signerName", " "),
        ("signerPhone", "1"),
        ("signerEmail", "jane"),
        ("state", "Texas"),
        ("zipcode", "1"),
        ("invoiceFee", "1.234"),
        ("notaryPay", "much"),
        ("signingDate", ""),
        ("specificTime", ""),
        ("timeZoneId", ""),
    ] {
        wrong["signingDetailsFormData"][name] = json!(value);
    }
    console.fill(&wrong).await;
    console.browser.click(SUBMIT).await;
    console.browser.shows("Correct 1").await;
    let page = console.browser.text(".problem").await;
    assert!(page.contains("Ordered by: user number must be a number, such as 42"), "{page}");
    for technical in ["integer", "null", "`", "JSON", "ISO", "IANA", "YYYY", "string", "64 bits"] {
        assert!(!page.contains(technical), "{technical}: {page}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_problem_is_shown_at_its_field_by_both_operations() {
    let console = Console::start(&[], of_client()).await;
    let browser = &console.browser;
    console.view("new").await;
    let empty = problem(
        console
            .user
            .create(&json!({ "signingContactsFormData": {},
        "signingDetailsFormData": { "signingTimeType": "at" }, "requestedBy": {} }))
            .await,
        400,
        "validation_failed",
    )
    .await;
    let missing: BTreeSet<_> =
        errors(&empty).into_iter().map(|(pointer, _)| pointer.to_owned()).collect();
    // The page says who orders.
    let missing = &missing - &BTreeSet::from(["/requestedBy/userId".to_owned()]);
    assert!(missing.len() >= 14, "{missing:?}");
    for with_document in [false, true] {
        if with_document {
            drop_file(&console, "create-orders.sh").await;
        }
        browser.click(SUBMIT).await;
        let wrong = missing.len() + usize::from(with_document);
        browser.shows(&format!("Correct {wrong} entries")).await;
        assert_eq!(shown_errors(&console).await, missing);
        let links = console.texts(".problem a").await;
        assert_eq!(links.len(), wrong, "{links:?}");
    }
    let of_file = console.texts(".files .error").await;
    assert!(of_file.len() == 1 && of_file[0].contains("must"), "{of_file:?}");

    // A link of the summary leads to its field, and a change forgets the error of the field.
    browser.click(".problem a[href*=fileNumber]").await;
    browser.press("FORM-1").await;
    let left = shown_errors(&console).await;
    assert_eq!(&missing - &left, BTreeSet::from(["/signingDetailsFormData/fileNumber".to_owned()]));
    // The summary has what is left to correct.
    browser.shows(&format!("Correct {} entries", missing.len())).await;
    // A time zone that the page fills in is no error any more.
    console.fill(&json!({ "signingDetailsFormData": { "state": "TX" } })).await;
    assert!(!shown_errors(&console).await.contains("/signingDetailsFormData/timeZoneId"));
    browser.shows(&format!("Correct {} entries", missing.len() - 2)).await;

    let mut order = order("FORM-1");
    order["signingDetailsFormData"]["state"] = json!("Texas");
    order["signingDetailsFormData"]["signingTimeType"] = json!("between");
    order["signingDetailsFormData"]["startTime"] = json!("11:00");
    order["signingDetailsFormData"]["endTime"] = json!("09:00");
    console.fill(&order).await;
    console.press_button("Remove create-orders.sh").await;
    let large = tempfile::Builder::new().suffix(".pdf").tempfile().unwrap();
    std::fs::write(large.path(), [deed(), vec![b' '; 10 << 20]].concat()).unwrap();
    browser.type_into("input[type=file]", large.path().to_str().unwrap()).await;
    browser.shows("is too large: at most 10 MiB").await;
    assert_eq!(console.texts(".files .error").await.len(), 1);
    let name = large.path().file_name().unwrap().to_str().unwrap();
    console.press_button(&format!("Remove {name}")).await;
    browser.click(SUBMIT).await;
    browser.shows("Correct 2 entries").await;
    let wrong = ["/signingDetailsFormData/endTime", "/signingDetailsFormData/state"];
    assert_eq!(shown_errors(&console).await, wrong.map(str::to_owned).into());
    assert_eq!(console.app.rows("orders"), 0);
    assert_eq!(console.complaints().await, Vec::<String>::new());
}

/// Returns the pointers of the fields that show an error, and are marked as invalid.
async fn shown_errors(console: &Console) -> BTreeSet<String> {
    let script = "return [...document.querySelectorAll('[data-pointer]')]
        .filter((it) => it.querySelector('.error').checkVisibility() && it.querySelector('[aria-invalid]'))
        .map((it) => it.dataset.pointer)";
    serde_json::from_value(console.browser.run(script, &[]).await).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn second_click_creates_no_second_order_and_uploads_show_their_progress() {
    let console = Console::start(&["--duplicate-window-secs=0"], of_client()).await;
    let browser = &console.browser;
    let click_twice =
        "const button = document.querySelector(arguments[0]); button.click(); button.click();";
    for operation in [1, 2] {
        console.view("new").await;
        console.fill(&order(&format!("TWICE-{operation}"))).await;
        if operation == 2 {
            let large = tempfile::Builder::new().suffix(".pdf").tempfile().unwrap();
            std::fs::write(large.path(), [deed(), vec![b' '; 1 << 20]].concat()).unwrap();
            browser.type_into("input[type=file]", large.path().to_str().unwrap()).await;
            console.limit_uploads(SLOW).await;
            browser.run(click_twice, &[SUBMIT]).await;
            let script = "const bar = document.querySelector(arguments[0]);
                return bar?.value > 0 && bar.value < 1 ? bar.nextSibling.textContent : null";
            let progress = browser.wait_for(script, "progress").await;
            assert!(progress.as_str().unwrap().starts_with("Sent "), "{progress}");
            console.limit_uploads(-1).await;
        } else {
            browser.run(click_twice, &[SUBMIT]).await;
        }
        browser.shows(&format!("Order {operation} is created.")).await;
        assert_eq!(console.app.rows("orders"), operation);
    }

    // An answer that is lost: the next click repeats the request with its key.
    console.view("new").await;
    console.fill(&order("TWICE-3")).await;
    browser.run(LOSE_ANSWER, &[]).await;
    browser.click(SUBMIT).await;
    browser.shows("The service did not answer.").await;
    browser.click(SUBMIT).await;
    browser.shows("Order 3 was created by your first click.").await;
    assert_eq!(console.app.rows("orders"), 3);
}
