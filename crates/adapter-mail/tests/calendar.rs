//! The mail and its calendar, opened by Python's `email` and `icalendar`.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may panic")]

use std::process::Command;

use adapter_mail::MailDrop;
use contract_tests::{fakes::CountingEntropy, notifier::notification_of, samples};
use domain::ports::Notifier as _;
use serde_json::{Value, json};
use tempfile::TempDir;
use test_servers::tools::python;

/// Prints the events of all mails of a folder. Ends with an error if one has a fault.
const READ: &str = r#"
import email, email.policy, json, pathlib, sys
from icalendar import Calendar

events = []
for path in pathlib.Path(sys.argv[1]).glob("*.eml"):
    mail = email.message_from_bytes(path.read_bytes(), policy=email.policy.default)
    parts = list(mail.walk())
    assert not any(part.defects for part in [mail, *parts]), path
    types = [part.get_content_type() for part in parts]
    assert types == ["multipart/mixed", "multipart/alternative", "text/plain", "text/html",
                     "text/calendar", "text/calendar"], types
    assert parts[4].get_filename() is None and parts[5].get_filename() == "appointment.ics"
    assert parts[4].get_payload(decode=True) == parts[5].get_payload(decode=True)
    assert parts[4]["Content-Type"].params["method"] == "PUBLISH"
    content = parts[4].get_payload(decode=True)
    calendars = Calendar.from_ical(content, multiple=True)
    assert len(calendars) == 1 and not any(found.errors for found in calendars[0].walk())
    unfolded = [text.replace(b"\r\n ", b"") for text in (calendars[0].to_ical(False), content)]
    assert unfolded[0] == unfolded[1], unfolded
    event, = calendars[0].events
    assert not event.subcomponents and "ATTENDEE" not in event
    assert event["ORGANIZER"] == "mailto:orders@example.com"
    events.append({
        "uid": event.uid, "sequence": event.sequence, "summary": event.summary,
        "location": event.location, "description": event.description,
        "stamp": event.stamp.isoformat(), "start": event.start.isoformat(),
        "end": event.end.isoformat(), "transparency": event.get("TRANSP"),
    })
print(json.dumps(events))
"#;

/// Returns the event in the mail for an order with these signing details.
async fn event(details: &Value) -> Value {
    let mut request = samples::minimal_request();
    for (name, value) in details.as_object().unwrap() {
        request["signingDetailsFormData"][name] = value.clone();
    }
    let folder = TempDir::new().unwrap();
    let drop = MailDrop::in_folder(folder.path(), "orders@example.com".parse().unwrap());
    let mail = notification_of(request, "escrow@example.com", &CountingEntropy::default());
    drop.notify(&mail).await.unwrap();
    let output = Command::new(python()).args(["-c", READ]).arg(folder.path()).output().unwrap();
    let (printed, message) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{message}");
    let Ok([event]) = serde_json::from_str::<[Value; 1]>(&printed) else { panic!("{printed}") };
    event
}

#[tokio::test]
async fn python_opens_every_kind_of_appointment() {
    let at = event(&json!({ "signingTimeType": "at", "specificTime": "14:30" })).await;
    assert_eq!((&at["sequence"], &at["stamp"]), (&json!(0), &json!("2026-11-21T12:00:07+00:00")));
    assert_eq!(at["start"], "2026-12-01T20:30:00+00:00");
    assert_eq!(at["end"], "2026-12-01T21:30:00+00:00");

    let range = json!({ "signingTimeType": "between", "startTime": "09:00", "endTime": "12:15" });
    let between = event(&range).await;
    assert_eq!(between["uid"], at["uid"]);
    assert_eq!(between["start"], "2026-12-01T15:00:00+00:00");
    assert_eq!(between["end"], "2026-12-01T18:15:00+00:00");

    let anytime = event(&json!({ "signingTimeType": "anytime" })).await;
    assert_eq!((&anytime["start"], &anytime["end"]), (&json!("2026-12-01"), &json!("2026-12-02")));
    assert_eq!(
        (&anytime["transparency"], &at["transparency"]),
        (&json!("TRANSPARENT"), &json!(null))
    );
}

#[tokio::test]
async fn python_reads_a_text_as_it_was_sent() {
    for text in [
        "a, b; c: \"d\" \\ \\n ^n %0A",
        "END:VEVENT",
        "Zoë Ñandú 李雷 \u{1f3e0} \u{5d9}\u{5e2}\u{5dc}",
        &"é\u{1f3e0}".repeat(50),
    ] {
        let event = event(&json!({
            "signingType": text, "fileNumber": text, "isPropertyAddressSame": false,
            "signingAddress": text
        }))
        .await;
        assert_eq!(event["summary"], format!("Signing: {text}, file {text}"));
        assert_eq!(event["location"], text);
    }
}
