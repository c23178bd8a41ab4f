//! Documents of both sides: added, replaced, withdrawn, downloaded.

use std::path::Path;

use reqwest::Method;
use serde_json::json;
use tempfile::TempDir;

use super::{Console, of_client, of_service};
use crate::harness::{created, deed, eventually_async, file, form, order};

/// Writes a document of a name into a folder.
fn document(folder: &TempDir, name: &str, content: &[u8]) -> String {
    let path = folder.path().join(name);
    std::fs::write(&path, content).unwrap();
    path.to_str().unwrap().to_owned()
}

impl Console {
    /// Downloads a document with the button of its card, and waits until it is saved.
    async fn download(&self, name: &str, to: &Path) {
        let parameters = json!({ "behavior": "allow", "downloadPath": to });
        self.browser.devtools("Browser.setDownloadBehavior", parameters).await;
        self.press_button(&format!("Download {name}")).await;
        let saved = to.join(name);
        eventually_async(async || {
            std::fs::read(&saved).is_ok_and(|bytes| bytes.starts_with(&deed()))
        })
        .await;
    }

    /// Returns the first column of the table of a card, the name alone.
    async fn names(&self, caption: &str) -> Vec<String> {
        let rows = self.rows(caption).await;
        rows.iter().map(|row| row[0].lines().next().unwrap().to_owned()).collect()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn client_replaces_and_withdraws_documents() {
    let mut console = Console::start(&[], of_client()).await;
    let client = console.user.clone();
    let documents = form(&order("PAPERS-1"))
        .part("documents", file("old.pdf", deed()))
        .part("documents", file("wrong-borrower.pdf", deed()));
    created(client.create_with(documents).await).await;
    let folder = tempfile::tempdir().unwrap();
    let new = document(&folder, "new.pdf", &[deed(), deed()].concat());
    console.open_order(1).await;
    console.press_button("Replace old.pdf").await;
    let focused = "return document.activeElement.id";
    assert_eq!(console.browser.run(focused, &[]).await, "add-documents");
    console.browser.type_into("#add-documents", &new).await;
    console.press_button("Replace the document").await;
    console.browser.shows("The document is replaced.").await;
    assert_eq!(
        console.names("2 documents, and 1 replaced").await,
        ["wrong-borrower.pdf", "new.pdf", "old.pdf"]
    );
    let rows = console.rows("2 documents, and 1 replaced").await;
    assert!(rows[1][0].contains("Replaces old.pdf") && rows[2][0].contains("Replaced by new.pdf"));
    assert!(rows[1][6].contains("Replace") && !rows[2][6].contains("Replace"), "{rows:?}");
    assert_eq!(client.read("/api/order/1").await["documents"][2]["replaces"], 0);

    let service = console.user_on(of_service()).await;
    console.change_user(&service).await;
    console.open_order(1).await;
    let downloads = tempfile::tempdir().unwrap();
    console.download("wrong-borrower.pdf", downloads.path()).await;
    let card = console.card("Documents").await;
    assert!(!card.contains("Withdraw ") && !card.contains("Add documents"), "{card}");
    eventually_async(async || {
        !client.read("/api/order/1").await["documents"][1]["first_downloaded_at"].is_null()
    })
    .await;

    console.change_user(&client).await;
    console.open_order(1).await;
    let rows = console.rows("2 documents, and 1 replaced").await;
    assert!(rows[0][5] != "Not yet" && rows[1][5] == "Not yet", "{rows:?}");
    assert_eq!(console.texts(".documents th:nth-child(6)").await, ["Fetched by service"]);
    console.press_button("Withdraw wrong-borrower.pdf").await;
    console.browser.shows("and may have a copy.").await;
    console.press_button("Withdraw the document").await;
    console.browser.shows("Withdrawn.").await;
    for side in [&client, &service] {
        console.change_user(side).await;
        console.open_order(1).await;
        assert_eq!(
            console.names("1 document, and 1 replaced").await,
            ["new.pdf", "old.pdf", "withdrawn document"]
        );
        let rows = console.rows("1 document, and 1 replaced").await;
        assert!(rows[2][0].contains("Withdrawn ") && rows[2][6] == "None", "{rows:?}");
        assert!(!console.browser.text("main").await.contains("wrong-borrower"));
    }
    assert_eq!(client.get("/api/order/1/documents/1").await.status(), 410);

    // The mark of the list is about the documents in force.
    console.download("new.pdf", downloads.path()).await;
    eventually_async(async || service.read("/api/order/1").await["documents_to_fetch"] == 0).await;
    console.view("orders").await;
    console.browser.shows("Docs ✓").await;
    let withdrawal = client.request(Method::DELETE, "/api/order/1/documents/2").send().await;
    assert_eq!(withdrawal.unwrap().status(), 204);
    console.press_button("Refresh").await;
    let has_no_mark = "return document.querySelector('a.order')
        && !document.body.innerText.includes(arguments[0]) || null";
    console.browser.wait_for(has_no_mark, "Docs").await;
    assert_eq!(console.complaints().await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn service_returns_signed_documents_and_withdraws_one() {
    let mut console = Console::start(&["--signed-document-mib=1"], of_client()).await;
    let client = console.user.clone();
    created(client.order("SIGNED-1").await).await;
    console.open_order(1).await;
    console.browser.shows("There are no signed documents yet.").await;
    console.browser.lacks("#add-signed-documents").await;

    let service = console.user_on(of_service()).await;
    console.change_user(&service).await;
    console.open_order(1).await;
    console.browser.lacks("#add-documents").await;
    let folder = tempfile::tempdir().unwrap();
    let large = document(&folder, "large.pdf", &[deed(), vec![b' '; 1 << 20]].concat());
    console.browser.type_into("#add-signed-documents", &large).await;
    console.press_button("Upload these signed documents").await;
    console.browser.shows("is too large: at most 1 MiB").await;
    console.press_button("Remove large.pdf").await;
    for name in ["note.pdf", "other.pdf"] {
        console.browser.type_into("#add-signed-documents", &document(&folder, name, &deed())).await;
    }
    console.press_button("Upload these signed documents").await;
    console.browser.shows("The signed documents are uploaded.").await;
    assert_eq!(console.names("2 signed documents").await, ["note.pdf", "other.pdf"]);
    // The same file is sent again only on purpose.
    console
        .browser
        .type_into("#add-signed-documents", &document(&folder, "note.pdf", &deed()))
        .await;
    console.press_button("Upload these signed documents").await;
    console.browser.shows("The order already has a document of the same name and size:").await;
    console.press_button("Back").await;
    console.press_button("Remove note.pdf").await;
    assert_eq!(service.read("/api/order/1").await["signed_documents"].as_array().unwrap().len(), 2);
    console.press_button("Withdraw other.pdf").await;
    console.browser.shows("The other side has not downloaded it.").await;
    console.press_button("Withdraw the document").await;
    console.browser.shows("Withdrawn.").await;
    assert_eq!(console.names("1 signed document").await, ["note.pdf", "withdrawn document"]);

    console.change_user(&client).await;
    console.open_order(1).await;
    let downloads = tempfile::tempdir().unwrap();
    console.download("note.pdf", downloads.path()).await;
    let card = console.card("Signed documents").await;
    assert!(!card.contains("Withdraw\n") && !card.contains("Upload signed"), "{card}");
    eventually_async(async || {
        !service.read("/api/order/1").await["signed_documents"][0]["first_downloaded_at"].is_null()
    })
    .await;
    assert_eq!(console.complaints().await, Vec::<String>::new());
}
