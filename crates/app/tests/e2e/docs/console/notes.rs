//! The notes of both sides.

use serde_json::json;

use super::{Console, LOSE_ANSWER, of_client, of_service};
use crate::harness::created;

#[tokio::test(flavor = "multi_thread")]
async fn both_sides_write_notes_also_on_a_cancelled_order() {
    let mut console = Console::start(&[], of_client()).await;
    let client = console.user.clone();
    created(client.order("NOTE-1").await).await;
    console.open_order(1).await;
    console.press_button("Add the note").await;
    console.browser.shows("New note must").await;
    let invalid = "return document.activeElement.matches('#note-text[aria-invalid=true]')";
    assert_eq!(console.browser.run(invalid, &[]).await, true);
    console.enter("New note", "Gate code 12.\n<b>Mind</b> the dog.").await;
    console.press_button("Add the note").await;
    console.browser.shows("The note is added.").await;
    console.browser.shows("Gate code 12.\n<b>Mind</b> the dog.").await;
    console.browser.lacks("[aria-invalid]").await;
    let focused = "return document.activeElement.id";
    assert_eq!(console.browser.run(focused, &[]).await, "note-send");

    let cancelled = client.post("/api/order/1/cancel").send().await.unwrap();
    assert_eq!(cancelled.status(), 200);
    let service = console.user_on(of_service()).await;
    console.change_user(&service).await;
    console.open_order(1).await;
    console.enter("New note", "Called back.").await;
    console.browser.run(LOSE_ANSWER, &[]).await;
    console.press_button("Add the note").await;
    console.browser.shows("The service did not answer.").await;
    let are_shown = "const notes = document.querySelectorAll('.timeline .note');
        return notes.length === Number(arguments[0]) || null";
    for number in ["2", "3"] {
        console.enter("New note", "Called back.").await;
        console.press_button("Add the note").await;
        // The sentence of the note before may still be there.
        console.browser.wait_for(are_shown, number).await;
        console.browser.shows("The note is added.").await;
    }
    console.change_user(&client).await;
    console.open_order(1).await;
    let notes = client.read("/api/order/1").await["notes"].clone();
    let notes: Vec<_> =
        notes.as_array().unwrap().iter().map(|it| json!([it["author"], it["text"]])).collect();
    // A repeat of the answer that was lost adds nothing; the same text again does.
    assert_eq!(
        notes,
        [
            json!(["client", "Gate code 12.\n<b>Mind</b> the dog."]),
            json!(["service", "Called back."]),
            json!(["service", "Called back."]),
        ]
    );
    let shown = console.texts(".timeline .note").await;
    assert_eq!(shown.len(), 3);
    // The newest one comes first.
    assert!(shown[2].contains("client") && shown[1].contains("signing service"), "{shown:?}");
    assert_eq!(console.complaints().await, Vec::<String>::new());
}
