//! Another system changes an order by SQL.

use serde_json::{Value, json};

use super::{as_service, instances};
use crate::{
    harness::scripted_server::ScriptedServer,
    harness::service_process::run,
    harness::{WEBHOOKS, created, eventually, order},
    wiring::{Kind, on_both_wirings},
};

on_both_wirings! {
    each_spelling_has_one_entry_event_mail_and_tag,
}

/// An update, and what it causes: the entry of the history, the event, and the subject of the mail to the
/// contact.
type Case = (&'static str, [Value; 2], &'static str, Option<&'static str>);

fn cases() -> [Case; 7] {
    let entry = |status: &str, notary: Option<i64>| [json!(status), json!(notary)];
    let updated = "order.updated";
    [
        (
            "status = ' assigned', notary_id = 7",
            entry("ASSIGNED", Some(7)),
            updated,
            Some("Notary assigned"),
        ),
        (
            r#"notary = '{"name": "Lee"}'"#,
            entry("ASSIGNED", Some(7)),
            updated,
            Some("Notary assigned"),
        ),
        ("status = 'on hold'", entry("ON_HOLD", Some(7)), updated, None),
        ("notary_id = 8", entry("ON_HOLD", Some(8)), updated, Some("Notary assigned")),
        (
            "status = 'Confirmed'",
            entry("CONFIRMED", Some(8)),
            updated,
            Some("Appointment confirmed"),
        ),
        ("status = 'signed '", entry("SIGNED", Some(8)), updated, Some("Order signed")),
        (
            "status = ' Cancelled'",
            entry("CANCELLED", Some(8)),
            "order.cancelled",
            Some("Order cancelled"),
        ),
    ]
}

/// Near spellings of a status are that status. The same change again changes nothing.
async fn each_spelling_has_one_entry_event_mail_and_tag(kind: Kind) {
    let wiring = kind.wiring();
    let receiver = ScriptedServer::start(Vec::new());
    let instances = instances(&wiring);
    let client = &instances[0];
    let service = as_service(&wiring, client);
    let url = format!("--url={}/client", receiver.url());
    let events = ["--event=order.updated", "--event=order.cancelled"];
    let create = ["webhooks", "create", "--client=1", &url];
    run(&wiring, &[&create[..], &events, &WEBHOOKS].concat());
    created(client.create(&order("F-1")).await).await;
    eventually(|| wiring.mails().len() == 1 && wiring.pending_mails() == 0).await;
    let mut subjects: Vec<&str> = vec!["New order"];
    let mut told: Vec<&str> = Vec::new();
    let mut seen = client.get("/api/order/1").await.headers()["etag"].clone();
    for (at, (set, entry, event, subject)) in cases().into_iter().enumerate() {
        for _ in 0..2 {
            assert!(wiring.execute(&format!("UPDATE orders SET {set}")).is_some(), "{set}");
            let read = service.get("/api/order/1").await;
            let tag = read.headers()["etag"].clone();
            assert_eq!(tag == seen, told.len() > at, "{set}");
            seen = tag;
            let read: Value = read.json().await.unwrap();
            let history = read["history"].as_array().unwrap();
            let newest = history.last().unwrap();
            assert_eq!(history.len(), at + 2, "{set}");
            assert_eq!([&newest["order_status"], &newest["notary_id"]], entry.each_ref(), "{set}");
            assert_eq!((&newest["kind"], &newest["actor"]), (&json!("status"), &json!("database")));
            assert_eq!(read["order_status"], entry[0], "{set}");
            assert_eq!(read["updated_at"], newest["at"], "{set}");
            if told.len() == at {
                told.push(event);
                subjects.extend(subject);
            }
            eventually(|| wiring.pending_mails() == 0).await;
            eventually(|| receiver.requests().len() >= told.len()).await;
            assert_eq!(receiver.requests().len(), told.len(), "{set}");
            eventually(|| wiring.mails().len() >= subjects.len()).await;
        }
    }
    let types = receiver.requests().into_iter().map(|it| {
        let body: Value = serde_json::from_slice(&it.body).unwrap();
        body["type"].as_str().unwrap().to_owned()
    });
    assert_eq!(types.collect::<Vec<_>>(), told);
    let mails = wiring.mails();
    let mut found: Vec<_> = mails
        .iter()
        .map(|mail| {
            let subject = mail.lines().find_map(|line| line.strip_prefix("Subject: ")).unwrap();
            subject.split(" F-1: ").next().unwrap()
        })
        .collect();
    found.sort_unstable();
    subjects.sort_unstable();
    assert_eq!(found, subjects);
}
