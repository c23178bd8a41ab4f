//! An erased order leaves nothing in the data directory, nor in the log.

use std::io::Write as _;

use reqwest::{Method, multipart::Form};
use serde_json::json;

use crate::{
    harness::markers::{MarkedOrder, Marker},
    harness::service_process::{ServiceProcess, fail, notary_orders, on_a_terminal, output, run},
    harness::{CREATE_WITH_DOCUMENTS, created, deed, eventually, file, files_below, form, problem},
    running::privacy::without_measures,
    wiring::Wiring,
};

/// The row of an erased order keeps its signing service.
const KEPT: &str = "/signingServiceId";

/// Returns an order with a marker in every field, and in the names and bytes of two documents.
fn marked() -> MarkedOrder {
    let mut marked = MarkedOrder::new();
    for needle in [
        "mkfilezq",
        "mkcontentzq",
        "mkaddedzq",
        "mkidemzq",
        "mknotezq",
        "mknotaryzq",
        "mksignedzq",
        "mkchangedzq",
        "mkreasonzq",
    ] {
        marked.markers.push(Marker::text(needle, needle));
    }
    // Shorter ones occur in other bytes by chance.
    marked.markers.retain(|marker| marker.field != KEPT && marker.needle.len() > 6);
    marked
}

fn with_document(form: Form, name: &str) -> Form {
    let content = [deed(), b"\n% mkcontentzq\n".to_vec()].concat();
    form.part("documents", file(name, content))
}

/// Returns the fields whose markers are in a file of the data directory, each with the file.
fn found(wiring: &Wiring, marked: &MarkedOrder) -> Vec<String> {
    let files = files_below(wiring.data()).into_iter();
    let found = files.flat_map(|path| {
        let text = String::from_utf8_lossy(&std::fs::read(&path).unwrap()).into_owned();
        let text = format!("{}\n{text}", path.display());
        let fields = marked.found_in(&text).map(|field| format!("{field} {}", path.display()));
        fields.collect::<Vec<_>>()
    });
    found.collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn erased_order_leaves_nothing_in_files_and_log() {
    let (wiring, marked) = (Wiring::embedded(), marked());
    let service = ServiceProcess::keyed(&wiring, &["--log-level=trace"]);
    let post =
        |path: &str| service.post(path).header("idempotency-key", format!("\"mkidemzq {path}\""));
    let order = with_document(form(&marked.order), "Mkfilezq.pdf");
    created(post(CREATE_WITH_DOCUMENTS).multipart(order).send().await.unwrap()).await;
    let more = with_document(Form::new(), "Mkaddedzq.pdf");
    created(post("/api/order/1/documents").multipart(more).send().await.unwrap()).await;
    let note = json!({ "text": "mknotezq" });
    created(post("/api/order/1/notes").json(&note).send().await.unwrap()).await;
    run(&wiring, &["orders", "update", "1", "--notary=7", "--notary-name=mknotaryzq"]);
    let number = marked.order.pointer(KEPT).unwrap();
    let issued =
        run(&wiring, &["keys", "issue", "--name=service", &format!("--for-service={number}")]);
    let signed = with_document(Form::new(), "Mksignedzq.pdf");
    let signed =
        service.as_key(issued.trim()).post("/api/order/1/signed-documents").multipart(signed);
    created(signed.send().await.unwrap()).await;
    // The mails tell the values before.
    let mut changed = marked.order.clone();
    changed["signingDetailsFormData"]["lender"] = json!("mkchangedzq");
    let changed = service.request(Method::PUT, "/api/order/1").json(&changed);
    assert_eq!(changed.send().await.unwrap().status(), 200);
    run(&wiring, &["orders", "cancel", "1", "--reason=mkreasonzq"]);
    created(service.order_with_deed("F-2").await).await;
    eventually(|| wiring.rows("events") == 0 && wiring.pending_mails() == 0).await;
    let (before, mails) = (found(&wiring, &marked), wiring.mails().len());
    for place in ["notary-orders.sqlite", ".eml", "/documents/"] {
        assert!(before.iter().any(|found| found.contains(place)), "{place}: {before:?}");
    }

    let erased = output(&wiring, &["orders", "erase", "1", "--yes", "--log-level=trace"]);

    let report = String::from_utf8(erased.stdout).unwrap();
    let expected = format!("1 order erased, 3 documents, {} mails of the mail drop\n", mails - 1);
    assert_eq!((erased.status.code(), report), (Some(0), expected));
    assert_eq!(found(&wiring, &marked), [""; 0]);
    for path in ["", "/documents", "/documents/0", "/documents/1", "/signed-documents/0"] {
        problem(service.get(&format!("/api/order/1{path}")).await, 410, "erased").await;
    }
    let list = service.read("/api/order").await;
    let ids: Vec<_> = list["data"].as_array().unwrap().iter().map(|it| &it["order_id"]).collect();
    assert_eq!(ids, [2]);
    assert_eq!((wiring.objects().len(), wiring.mails().len()), (1, 1));
    assert_eq!(service.get("/api/order/2/documents/0").await.bytes().await.unwrap(), deed());
    let log = service.stop_and_read_log() + &String::from_utf8(erased.stderr).unwrap();
    for line in log.lines().map(without_measures) {
        assert_eq!(marked.found_in(&line).collect::<Vec<_>>(), [""; 0], "{line}");
    }
    assert_eq!(found(&wiring, &marked), [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn repeated_erasure_removes_what_was_left() {
    let wiring = Wiring::embedded();
    let service = ServiceProcess::keyed(&wiring, &[]);
    created(service.order("F-1").await).await;
    eventually(|| wiring.pending_mails() == 0).await;
    // The mails cannot be read, as if the command had been interrupted before them.
    wiring.break_mail();
    std::fs::write(wiring.data().join("mail"), "").unwrap();
    let error = fail(&wiring, &["orders", "erase", "1", "--yes"]);
    assert!(error.contains("repeat the command"), "{error}");
    std::fs::remove_file(wiring.data().join("mail")).unwrap();
    wiring.mend_mail();
    assert_eq!(wiring.mails().len(), 1);

    let report = run(&wiring, &["orders", "erase", "1", "--yes"]);

    assert_eq!(report, "0 orders erased, 0 documents, 1 mail of the mail drop\n");
    assert_eq!(wiring.mails().len(), 0);
}

/// Runs a command on a terminal, with an answer to its question. Returns what the terminal shows.
fn on_terminal(wiring: &Wiring, arguments: &[&str], answer: &str) -> String {
    let mut running = on_a_terminal(&notary_orders(wiring, arguments)).spawn().unwrap();
    running.stdin.take().unwrap().write_all(answer.as_bytes()).unwrap();
    String::from_utf8(running.wait_with_output().unwrap().stdout).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn erasure_asks_on_a_terminal() {
    let wiring = Wiring::embedded();
    let service = ServiceProcess::keyed(&wiring, &[]);
    created(service.order_with_deed("F-1").await).await;
    let kept = on_terminal(&wiring, &["orders", "erase", "1"], "n\n");
    assert!(kept.contains("Erase order 1 with 1 document? This cannot be undone. [y/N]"), "{kept}");
    assert!(kept.ends_with("nothing was erased\r\n"), "{kept}");
    assert_eq!(wiring.objects().len(), 1);
    let erased = on_terminal(&wiring, &["orders", "erase", "1"], "y\n");
    assert!(erased.contains("1 order erased, 1 document"), "{erased}");
    assert_eq!(wiring.objects().len(), 0);
}
