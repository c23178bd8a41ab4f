//! Documents that the form and the view of an order send.

use std::path::Path;

use serde_json::json;
use tempfile::TempDir;

use super::super::{ASKS, Console, SLOW, of_client};
use crate::harness::{created, deed, order};

/// Writes a file of a name into a folder.
fn file(folder: &TempDir, name: &str, content: &[u8]) -> String {
    let path = folder.path().join(name);
    std::fs::write(&path, content).unwrap();
    Path::to_str(&path).unwrap().to_owned()
}

/// Chooses a right file and wrong ones. Returns the names of the wrong ones.
async fn choose_files(console: &Console, folder: &TempDir, input: &str) -> [&'static str; 4] {
    let large = [deed(), vec![b' '; 10 << 20]].concat();
    for (name, content) in [
        ("deed.pdf", &deed()[..]),
        ("notes.txt", b"Call the signer."),
        ("letter.pdf", b"Not a PDF."),
        ("empty.png", b""),
        ("large.pdf", &large),
    ] {
        console.browser.type_into(input, &file(folder, name, content)).await;
        console.browser.shows(name).await;
    }
    console.browser.shows("is too large: at most 10 MiB").await;
    let errors = console.texts(".files .error").await;
    assert_eq!(errors.len(), 4, "{errors:?}");
    ["notes.txt", "letter.pdf", "empty.png", "large.pdf"]
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_files_are_named_before_anything_is_sent() {
    let console = Console::start(&[], of_client()).await;
    let folder = tempfile::tempdir().unwrap();
    console.view("new").await;
    console.browser.shows("up to 100: PDF, Word, JPEG or PNG, each up to 10 MiB.").await;
    console.fill(&order("WRONG-1")).await;
    let wrong = choose_files(&console, &folder, "input[type=file]").await;
    console.browser.requested().await;
    console.press_button("Create the order").await;
    console.browser.shows("Correct 4 entries").await;
    let sent = console.browser.requested().await;
    assert!(sent.iter().all(|url| !url.contains("/create")), "{sent:?}");
    for name in wrong {
        console.press_button(&format!("Remove {name}")).await;
    }
    console.press_button("Create the order").await;
    let news = console.browser.text(".news").await;
    assert_eq!(news, "Order 1 is created. Its file number is WRONG-1. Open order 1");
    let order = console.user.read("/api/order/1").await;
    assert_eq!(order["documents"].as_array().unwrap().len(), 1);
    assert_eq!(console.complaints().await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_file_does_not_cost_the_others_of_an_order() {
    let console = Console::start(&[], of_client()).await;
    let folder = tempfile::tempdir().unwrap();
    created(console.user.order("OTHERS-1").await).await;
    console.open_order(1).await;
    let wrong = choose_files(&console, &folder, "#add-documents").await;
    console.press_button("Add these documents").await;
    let toast = console.browser.text(".toast.warning span").await;
    assert!(toast.starts_with("1 added, 4 not sent: notes.txt must be a PDF"), "{toast}");
    assert!(toast.ends_with(", and 3 more."), "{toast}");
    let left = console.texts(".files li button").await;
    assert_eq!(left.len(), wrong.len());
    assert_eq!(console.texts(".files .error").await.len(), wrong.len());
    let order = console.user.read("/api/order/1").await;
    assert_eq!(order["documents"][0]["name_as_sent"], "deed.pdf");
    assert_eq!(order["documents"].as_array().unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn upload_goes_on_in_every_view_and_ends_with_a_link() {
    let console = Console::start(&[], of_client()).await;
    let browser = &console.browser;
    let folder = tempfile::tempdir().unwrap();
    console.view("new").await;
    console.fill(&order("UPLOAD-1")).await;
    for name in ["one.pdf", "two.pdf"] {
        let content = [deed(), vec![b' '; 1 << 20]].concat();
        browser.type_into("input[type=file]", &file(&folder, name, &content)).await;
        browser.shows(name).await;
    }
    console.limit_uploads(SLOW).await;
    console.press_button("Create the order").await;
    let parts = "const bars = [...document.querySelectorAll('main progress')];
        return bars.length === 2 && bars[0].value > bars[1].value
            ? bars.map((it) => it.ariaLabel) : null";
    let names = browser.wait_for(parts, "").await;
    assert_eq!(names, json!(["Upload of one.pdf", "Upload of two.pdf"]));
    for view in ["webhooks", "orders"] {
        console.view(view).await;
        assert!(browser.text("#header [aria-label=Uploads]").await.contains("of 2 documents"));
        assert_eq!(browser.run(ASKS, &[]).await, true);
    }
    console.limit_uploads(-1).await;
    browser.shows("Order 1 is created. Its file number is UPLOAD-1.").await;
    let address = browser.run("return location.hash", &[]).await;
    assert!(address.as_str().unwrap().starts_with("#/orders"), "{address}");
    browser.lacks("progress").await;
    assert_eq!(browser.run(ASKS, &[]).await, false);
    browser.click("#toast a").await;
    browser.shows("UPLOAD-1").await;
    assert_eq!(browser.run("return location.hash", &[]).await, "#/order/1");
    assert_eq!(console.complaints().await, Vec::<String>::new());
}
