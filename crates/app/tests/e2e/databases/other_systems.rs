//! Other systems change orders in the database while the service runs.

use domain::order::{
    OrderId,
    change_request::{ChangeBody, ChangeRequest, read_status},
};
use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    harness::service_process::ServiceProcess,
    harness::{CREATE, created, eventually, order, problem},
    operators::doctor::report::Report,
    wiring::{Kind, Wiring, on_both_wirings},
};

on_both_wirings! {
    other_system_changes_status_and_notary,
    sql_stores_what_a_request_could_store,
    values_of_earlier_versions_stay,
    order_whose_record_cannot_be_read_is_cancelled,
}

async fn other_system_changes_status_and_notary(kind: Kind) {
    let app = kind.app().await;
    let request = || app.post(CREATE).header("idempotency-key", "one").json(&order("F-1"));
    let record = created(request().send().await.unwrap()).await;
    assert_eq!(record["order_status"], "NEW");
    assert!(record["notary_id"].is_null());
    let assign = |status: &str| {
        let statement = format!("UPDATE orders SET status = '{status}', notary_id = 7");
        app.wiring.execute(&statement)
    };
    let assigned = assign("ASSIGNED");
    assert!(assigned.is_some());

    let stored = app.stored_order(OrderId(1)).await.unwrap();
    assert_eq!((stored.status.as_str(), stored.notary_id), ("ASSIGNED", Some(7)));
    // A repeated request gets the order as it was created.
    let replayed = request().send().await.unwrap();
    assert_eq!(replayed.headers()["idempotency-replayed"], "true");
    assert_eq!(created(replayed).await, record);
    problem(app.order("F-1").await, 409, "duplicate_order").await;
    created(app.order("F-2").await).await;

    let longest = "x".repeat(50);
    assert!(assign(&longest).is_some());
    for status in ["", " ", &(longest + "x")] {
        assert!(assign(status).is_none(), "{status:?}");
    }
}

/// Returns a text as a literal of SQL.
fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

fn statuses() -> [(String, bool); 16] {
    let text = |text: &str, is_clean| (text.to_owned(), is_clean);
    [
        text("EN ROUTE", true),
        text(" en route ", true),
        text("\u{a0}on-hold\u{3000}", true),
        text("canceled", true),
        text("Nam\u{200c}", true),
        text("I'm \\ \"here\"", true),
        (format!(" {} ", "é".repeat(48)), true),
        text("", true),
        text("\u{2003}", true),
        text("\u{200d}", true),
        text("a\tb", true),
        text("a\u{85}b", true),
        text("a\u{2028}b", true),
        ("x".repeat(51), true),
        // A request loses these.
        text("a\u{200b}b", false),
        text("\u{202e}NEW", false),
    ]
}

/// Returns notaries, and whether a request with one loses nothing but blanks around its texts.
fn notaries() -> Vec<(Value, bool)> {
    let name = |name: &str| json!({ "name": name });
    let names = [
        "Pat Garcia",
        " Pat\u{a0}",
        "علی\u{200c}رضا",
        "\"Pat\" O'\\Neil",
        "",
        " ",
        "\u{200d}",
        "a\nb",
    ];
    let names = names.into_iter().map(name);
    let lengths = [200, 201].map(|length| name(&"é".repeat(length)));
    let phone = |phone: &str| json!({ "name": "Pat", "phone": phone });
    let phones = "5551234|(555) 123-4567|+1 555.123.4567|(+1) 555-123-4567|123456789012345|\
        555-123-4567 x12|555-123-4567#44|555-123-4567, EXT: 12345678|555-123-4567 extension 7| 5551234 | |\
        555123|1234567890123456|call me|5551234567x|555-123-4567 ext|555+1234567|++15551234567|\
        555-123-4567 x123456789|555-123-4567 e5|5551234;|5551234,,";
    let long = format!("555{}1234", " ".repeat(44));
    let phones = phones.split('|').map(phone).chain([phone(&long)]);
    let email = |email: &str| json!({ "name": "Pat", "email": email });
    let label = "x".repeat(63);
    let emails = [
        "pat.o'neil+1@notary.example.com",
        "Pat@Example.COM ",
        "a@b",
        "a@b-c.d",
        "a@127.0.0.1",
        "",
        "pat",
        "pat@",
        "@example.com",
        "a@@b",
        "a b@c",
        "a..b@c",
        ".a@c",
        "a.@c",
        "a@b..c",
        "a@-b.c",
        "a@b-.c",
        "a@b.c.",
        "a@[127.0.0.1]",
        "é@b.c",
        &format!("{}@{label}.c", "x".repeat(64)),
        &format!("a@{label}x.c"),
        &format!("{}@b", "x".repeat(65)),
        &format!("a@{label}.{label}.{label}.{}", "x".repeat(60)),
        &format!("a@{label}.{label}.{label}.{}", "x".repeat(61)),
    ]
    .map(email);
    let others = [
        json!({ "name": "Pat", "phone": null, "email": null }),
        json!({ "name": null }),
        json!({ "name": 5 }),
        json!({ "name": "Pat", "phone": 5_551_234 }),
        json!({ "name": "Pat", "title": "Dr" }),
        json!({ "phone": "5551234" }),
        json!({}),
        json!([]),
        json!("Pat"),
    ];
    let clean = names.chain(lengths).chain(phones).chain(emails).chain(others);
    // A request loses or replaces these.
    let unclean = [
        name("Pat\u{202e}Garcia"),
        name("Pat\tGarcia"),
        phone("555\u{2011}123\u{2011}4567"),
        email("pat\u{200b}@example.com"),
    ];
    let unclean = unclean.into_iter().map(|notary| (notary, false));
    clean.map(|notary| (notary, true)).chain(unclean).collect()
}

/// The rules of both are written down twice. What a request loses in the middle of a text is refused.
async fn sql_stores_what_a_request_could_store(kind: Kind) {
    let app = kind.app().await;
    created(app.order("F-1").await).await;
    let written = |column: &str, text: &str| {
        app.wiring.execute("UPDATE orders SET status = 'NEW', notary = NULL").unwrap();
        let update = format!("UPDATE orders SET {column} = {}", literal(text));
        let is_written = app.wiring.execute(&update).is_some();
        let stored = app.wiring.lines(&format!("SELECT {column} FROM orders")).remove(0);
        is_written.then_some(stored)
    };
    for (text, is_clean) in statuses() {
        let named = read_status(&text).ok().map(|status| status.as_str().to_owned());
        assert_eq!(written("status", &text), named.filter(|_| is_clean), "{text:?}");
    }
    for (notary, is_clean) in notaries() {
        let body: Result<ChangeBody, _> = serde_json::from_str(&format!("{{\"notary\":{notary}}}"));
        let change = body.ok().and_then(|body| ChangeRequest::parse(body).ok());
        let named = change.and_then(|change| change.notary).flatten();
        let named = named.map(|notary| serde_json::to_string(&notary).unwrap());
        assert_eq!(written("notary", &notary.to_string()), named.filter(|_| is_clean), "{notary}");
    }
    for text in
        [r#"{"name":"a","name":"b"}"#, r#"{"name":"a\u0000"}"#, r#"{"name":"a"} x"#, "{name:'a'}"]
    {
        assert_eq!(written("notary", text), None, "{text}");
    }
}

/// Version 0.1.0 stored what other systems wrote.
async fn values_of_earlier_versions_stay(kind: Kind) {
    let app = kind.app().await;
    created(app.order("F-1").await).await;
    // A change that names its actor is one of the service.
    let old = r#"status = ' EN ROUTE ', notary = '{"name": " Pat", "x": 1}'"#;
    let by_service = format!("UPDATE orders SET {old}, change_actor = 'operator'");
    assert!(app.wiring.execute(&by_service).is_some());
    let row = || app.wiring.lines("SELECT status, notary FROM orders").remove(0);
    let before = row();
    for set in [old, "held_until = NULL", "status = status", "notary = notary"] {
        assert!(app.wiring.execute(&format!("UPDATE orders SET {set}")).is_some(), "{set}");
        assert_eq!(row(), before, "{set}");
    }
    assert!(app.wiring.execute("UPDATE orders SET notary_id = 7").is_some());
    let stored = app.stored_order(OrderId(1)).await.unwrap();
    assert_eq!((stored.notary_id, stored.notary), (Some(7), None));
}

/// Its status is a column of its own. Again, it is cancelled already.
async fn order_whose_record_cannot_be_read_is_cancelled(kind: Kind) {
    let app = kind.app().await;
    created(app.order("F-1").await).await;
    assert!(app.wiring.execute("UPDATE orders SET details = '{}'").is_some());
    problem(app.get("/api/order/1").await, 500, "unreadable_order").await;
    for _ in 0..2 {
        let cancelled = app.post("/api/order/1/cancel").json(&json!({})).send().await.unwrap();
        assert_eq!(cancelled.status(), 200);
        let record: Value = cancelled.json().await.unwrap();
        assert_eq!(record["order_status"], "CANCELLED");
        assert_eq!(app.rows("order_changes"), 1);
    }
    let request = app.request(Method::PUT, "/api/order/1").json(&order("F-1"));
    problem(request.send().await.unwrap(), 500, "unreadable_order").await;
    assert_eq!(app.rows("order_changes"), 1);
}

/// PostgreSQL answers with an error of class 22. The others of the same batch have their mails.
#[tokio::test(flavor = "multi_thread")]
async fn event_that_postgresql_cannot_store_holds_up_no_other() {
    let wiring = Wiring::production();
    let service = ServiceProcess::keyed(&wiring, &[]);
    let fails = "CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
        RAISE EXCEPTION 'out of range' USING ERRCODE = '22003'; END $$; \
        CREATE TRIGGER fail BEFORE INSERT ON deliveries FOR EACH ROW \
        WHEN (NEW.order_id = 2) EXECUTE FUNCTION fail()";
    assert!(wiring.execute(fails).is_some());
    for number in 1..=4 {
        created(service.order(&format!("F-{number}")).await).await;
    }
    eventually(|| wiring.lines("SELECT order_id FROM events") == ["2"]).await;
    eventually(|| wiring.mails().len() == 3).await;
    eventually(|| wiring.rows("events") == 1 && wiring.rows("deliveries") == 0).await;
    let report = Report::on(&wiring, &[]);
    let named = report.found("warn", "mail");
    assert!(named.contains("among them one of order 2"), "{}", report.text);
    let log = service.stop_and_read_log();
    assert!(log.contains("out of range"), "{log}");
}
