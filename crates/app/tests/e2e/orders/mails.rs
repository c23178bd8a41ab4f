//! The mails about an order.

mod gathering;

use domain::{
    api_key::Scope,
    order::{EmailAddress, SigningServiceId},
    ports::{Attempted, Clock as _, Retried, Settlement},
    signing_service::SigningService,
    use_cases::{deliveries::run_deliveries::OVER_LIMIT, keys::manage_keys::KeyTerms},
};
use operator::{Machine, adapters::Storage};
use reqwest::{Method, multipart::Form};
use serde_json::{Value, json};
use time::{Duration, OffsetDateTime, macros::datetime};

use crate::{
    harness::service_process::{ServiceProcess, fail, run},
    harness::{
        Api, TestApp, created, deed, errors, eventually, eventually_async, file, order, problem,
        settings,
    },
    operators::doctor::report::Report,
    wiring::{Kind, Wiring, on_both_wirings},
};

on_both_wirings! {
    each_recipient_gets_one_mail,
    each_side_is_mailed_what_it_should_know_of,
    failed_mail_is_retried_and_delays_no_response,
    mail_above_the_hourly_limit_waits_for_the_next_hour,
    mails_above_the_limit_are_shown_and_warned_of_once,
    mails_that_are_not_true_any_more_use_up_no_limit,
    mails_of_a_lost_worker_are_within_the_limit,
    mails_that_failed_since_an_instant_are_retried,
    mail_that_is_being_sent_is_not_retried,
    those_who_were_mailed_are_told_of_the_end_and_of_its_reversal,
    cancellation_of_an_order_that_takes_place_again_does_not_leave,
    address_that_a_change_corrects_gets_no_mail_that_waits,
    mail_about_a_notary_that_is_replaced_does_not_leave,
    confirmation_of_a_moved_appointment_does_not_leave,
    reason_of_a_signing_without_signatures_is_mailed,
}

async fn each_recipient_gets_one_mail(kind: Kind) {
    let app = kind.app().await;
    let mut order = order("F-1");
    order["signingContactsFormData"] = json!({
        "orderContactEmail": "contact@example.com",
        "observer": "observer@example.com",
        "inHouseContact": { "contact_email": "house@example.com" },
        "inHouseContact2": { "contact_email": "CONTACT@example.com" }
    });
    created(app.create(&order).await).await;
    let mails = app.mails(3).await;
    for recipient in ["contact@example.com", "observer@example.com", "house@example.com"] {
        let to = format!("To: {recipient}");
        assert_eq!(mails.iter().filter(|mail| mail.contains(&to)).count(), 1, "{recipient}");
    }
    app.mails_leave().await;
    assert_eq!(app.wiring.mails().len(), 3);
    // They are counted after their outcomes are stored.
    let delivered = r#"notary_orders_mails_total{outcome="delivered"}"#;
    eventually_async(async || app.metric(delivered).await == 3).await;
}

/// Returns the recipients and the beginnings of the subjects of the mails, sorted.
fn news(mails: &[String]) -> Vec<(String, String)> {
    let field = |mail: &str, name: &str| {
        let line = mail.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap().to_owned()
    };
    let mut news: Vec<_> = mails
        .iter()
        .map(|mail| {
            let subject = field(mail, "Subject: ");
            (field(mail, "To: "), subject.split(" F-1: ").next().unwrap().to_owned())
        })
        .collect();
    news.sort_unstable();
    news
}

const DISPATCH: &str = "dispatch@service.example";

async fn each_side_is_mailed_what_it_should_know_of(kind: Kind) {
    let app = kind.app().await;
    let id = SigningServiceId(42);
    let emails = vec![EmailAddress::try_from(DISPATCH.to_owned()).unwrap()];
    let record = SigningService { id, name: "Fast Signings".to_owned(), emails };
    assert!(app.storage().services.add(&record).await.unwrap());
    let terms = KeyTerms {
        scopes: Scope::OF_SERVICES.into_iter().collect(),
        for_service: Some(id),
        ..KeyTerms::default()
    };
    let service = app.as_key(&app.issue_key_on(terms).await);
    created(app.order_with_deed("F-1").await).await;
    let of = |recipient: &str, subject: &str| (recipient.to_owned(), subject.to_owned());
    let mut expected = vec![of(DISPATCH, "New order"), of(CONTACT, "New order")];
    let mut mails = app.mails(expected.len()).await;
    assert_eq!(news(&mails), expected);
    let patch = async |body: Value| {
        let changed = service.request(Method::PATCH, "/api/order/1").json(&body).send().await;
        assert_eq!(changed.unwrap().status(), 200, "{body}");
    };
    let mut changed = order("F-1");
    changed["signingDetailsFormData"]["signingDate"] = json!("2027-03-09");
    let file = |name| Form::new().part("documents", file(name, deed()));
    for step in 0..7 {
        match step {
            0 => {
                patch(json!({ "notary": { "name": "Nora Tary", "phone": "+1 555 010 0142" } }))
                    .await;
                expected.push(of(CONTACT, "Notary assigned"));
            }
            1 => {
                patch(json!({ "order_status": "CONFIRMED" })).await;
                expected.push(of(CONTACT, "Appointment confirmed"));
            }
            2 => {
                let put = app.request(Method::PUT, "/api/order/1").json(&changed).send().await;
                assert_eq!(put.unwrap().status(), 200);
                expected.extend([CONTACT, DISPATCH].map(|to| of(to, "Order changed")));
            }
            3 => {
                let note = json!({ "text": "The gate code is 4711." });
                created(app.post("/api/order/1/notes").json(&note).send().await.unwrap()).await;
                expected.push(of(DISPATCH, "New note"));
            }
            4 => {
                let form = file("new.pdf").text("replaces", "0");
                let documents = "/api/order/1/documents";
                created(app.post(documents).multipart(form).send().await.unwrap()).await;
                expected.push(of(DISPATCH, "Document replaced"));
            }
            5 => {
                let documents = "/api/order/1/signed-documents";
                created(service.post(documents).multipart(file("a.pdf")).send().await.unwrap())
                    .await;
                expected.push(of(CONTACT, "Signed documents"));
            }
            _ => {
                patch(json!({ "order_status": "SIGNED" })).await;
                expected.push(of(CONTACT, "Order signed"));
            }
        }
        mails = app.mails(expected.len()).await;
        expected.sort_unstable();
        assert_eq!(news(&mails), expected, "step {step}");
    }
    let of_change = |to: &str| {
        let to = format!("To: {to}");
        let mut mails = mails.iter().filter(|mail| mail.contains("Subject: Order changed"));
        mails.find(|mail| mail.lines().any(|line| line == to)).unwrap().clone()
    };
    for (to, other) in [(CONTACT, DISPATCH), (DISPATCH, CONTACT)] {
        let mail = of_change(to);
        for shown in ["Tuesday, March 9, 2027", "before: ", &format!("Reply-To: {other}")] {
            assert!(mail.contains(shown), "{shown}: {mail}");
        }
        // It was confirmed.
        let must_confirm = unwrapped(&mail).contains("The appointment must be confirmed again.");
        assert_eq!(must_confirm, to == DISPATCH, "{mail}");
    }
}

/// Returns a mail without the line ends that its encoding has added.
fn unwrapped(mail: &str) -> String {
    mail.replace("=\r\n", "").replace("=\n", "").replace("\r\n", " ").replace('\n', " ")
}

/// Returns the app with a key of the signing service of all orders.
async fn as_service(app: &TestApp) -> Api {
    let terms = KeyTerms {
        scopes: Scope::DEFAULT_OF_SERVICES.into_iter().collect(),
        for_service: Some(SigningServiceId(42)),
        ..KeyTerms::default()
    };
    app.as_key(&app.issue_key_on(terms).await)
}

/// Nobody has confirmed the time that the order has when the mail leaves.
async fn confirmation_of_a_moved_appointment_does_not_leave(kind: Kind) {
    let app = kind.app().await;
    let service = as_service(&app).await;
    app.wiring.break_mail();
    created(app.order("F-1").await).await;
    let confirmed = json!({ "order_status": "CONFIRMED" });
    let patch = service.request(Method::PATCH, "/api/order/1").json(&confirmed);
    assert_eq!(patch.send().await.unwrap().status(), 200);
    // The worker would drop a confirmation that it has not tried before the move.
    let tried = "SELECT count(*) FROM deliveries WHERE last_error IS NOT NULL";
    eventually(|| app.wiring.lines(tried) == ["2"]).await;
    let mut moved = order("F-1");
    moved["signingDetailsFormData"]["signingDate"] = json!("2027-03-09");
    let put = app.request(Method::PUT, "/api/order/1").json(&moved).send().await.unwrap();
    assert_eq!(put.json::<Value>().await.unwrap()["order_status"], "ASSIGNED");
    eventually(|| app.rows("events") == 0).await;
    app.wiring.mend_mail();
    app.clock.advance(Duration::minutes(1));
    app.mails_leave().await;
    // "New order" tells the change.
    let mails = app.wiring.mails();
    assert_eq!(news(&mails), [(CONTACT.to_owned(), "New order".to_owned())]);
    assert!(unwrapped(&mails[0]).contains("not confirmed the appointment again yet"), "{mails:?}");
}

async fn reason_of_a_signing_without_signatures_is_mailed(kind: Kind) {
    let app = kind.app().await;
    let service = as_service(&app).await;
    created(app.order("F-1").await).await;
    app.mails(1).await;
    let patch = async |body: Value| {
        let patch = service.request(Method::PATCH, "/api/order/1").json(&body);
        patch.send().await.unwrap()
    };
    let reason = "The borrower was ill.";
    let other = patch(json!({ "order_status": "SIGNED", "reason": reason })).await;
    let other = problem(other, 400, "validation_failed").await;
    assert_eq!(errors(&other), [("/reason", "unknown_member")]);
    let answer = patch(json!({ "order_status": "did not sign", "reason": reason })).await;
    assert_eq!(answer.status(), 200);
    let mails = app.mails(2).await;
    let mail = mails.iter().find(|mail| mail.contains("Subject: Order not signed F-1")).unwrap();
    assert!(mail.contains(&format!("Reason: {reason}")), "{mail}");
    let history = app.read("/api/order/1").await["history"].clone();
    let last = history.as_array().unwrap().last().unwrap();
    let told = (&last["order_status"], &last["reason"]);
    assert_eq!(told, (&json!("DID_NOT_SIGN"), &json!(reason)));

    // A repeat changes nothing, and another reason is news.
    app.mails_leave().await;
    let late = "The notary was late.";
    for reason in [reason, late, late] {
        let answer = patch(json!({ "order_status": "DID_NOT_SIGN", "reason": reason })).await;
        assert_eq!(answer.status(), 200);
    }
    let mails = app.mails(3).await;
    assert_eq!(mails.iter().filter(|mail| mail.contains(&format!("Reason: {late}"))).count(), 1);
    let history = app.read("/api/order/1").await["history"].clone();
    assert_eq!(history.as_array().unwrap().len(), 3);
}

async fn failed_mail_is_retried_and_delays_no_response(kind: Kind) {
    let app = kind.app().await;
    app.wiring.break_mail();
    created(app.order_with_deed("F-1").await).await;
    let postponed = r#"notary_orders_mails_total{outcome="postponed"}"#;
    eventually_async(async || app.metric(postponed).await == 1).await;
    let pending = app.storage().queue.list(false, 10).await.unwrap();
    assert_eq!((pending.len(), pending[0].attempts), (1, 0));
    assert!(pending[0].last_error.is_some());

    app.wiring.mend_mail();
    app.clock.advance(Duration::seconds(5));
    app.mails(1).await;
}

async fn mail_above_the_hourly_limit_waits_for_the_next_hour(kind: Kind) {
    let app = kind.app_with(&["--mails-per-recipient-hour=1"]).await;
    for file_number in ["F-1", "F-2", "F-3"] {
        created(app.order(file_number).await).await;
    }
    app.mails(1).await;
    let waiting = "notary_orders_mails_over_limit";
    eventually_async(async || app.metric(waiting).await == 2).await;
    // The one that left is in the queue until its outcome is stored.
    eventually(|| app.pending_mails() == 2).await;
    assert_eq!(app.storage().queue.list(true, 10).await.unwrap(), []);
    let pending = app.storage().queue.list(false, 10).await.unwrap();
    assert_eq!(pending[0].last_error.as_deref(), Some(OVER_LIMIT));

    app.clock.advance(Duration::HOUR);
    app.mails(2).await;
    // The operator decides: a retry is not counted.
    let retried = app.storage().queue.retry(pending[1].id, app.clock.now()).await.unwrap();
    assert_eq!(retried, Retried::Due);
    app.mails(3).await;
}

async fn mails_above_the_limit_are_shown_and_warned_of_once(kind: Kind) {
    // The next hour begins with new mails.
    while operator::SystemClock.now().minute() >= 57 {
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    }
    let wiring = kind.wiring();
    let limit = ["--mails-per-recipient-hour=1"];
    let service = ServiceProcess::keyed(&wiring, &limit);
    for number in 0..5 {
        created(service.order(&format!("F-{number}")).await).await;
    }
    let waiting = "notary_orders_mails_over_limit";
    eventually_async(async || service.metric(waiting).await == 4).await;
    let listed = run(&wiring, &["deliveries", "list", "--json"]);
    let listed = listed.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let errors: Vec<_> = listed.filter(|mail| mail["last_error"] == OVER_LIMIT).collect();
    assert_eq!(errors.len(), 4, "{errors:?}");
    let report = Report::on(&wiring, &["--mail-from=orders@example.com"]);
    let warned = report.found("warn", "mail");
    assert!(warned.contains("4 mails wait: their recipients have had"), "{}", report.text);
    let log = service.stop_and_read_log();
    let warnings = log.lines().filter(|line| line.contains("has reached its hourly limit"));
    assert_eq!(warnings.filter(|line| line.contains("WARN")).count(), 1, "{log}");
    // A start says what earlier runs have left.
    let log = ServiceProcess::keyed(&wiring, &limit).stop_and_read_log();
    let told = |line: &&str| line.contains("WARN") && line.contains("notary-orders doctor");
    let line = log.lines().find(told).unwrap_or_else(|| panic!("{log}"));
    assert!(line.contains(r#""over_limit":4"#) && line.contains(r#""failed":0"#), "{line}");
}

/// Adds a mail about order 1 to its contact. A worker has leased it so many times, and stored no outcome.
fn add_mail(wiring: &Wiring, subject: &str, leases: usize) {
    let insert = "INSERT INTO deliveries (order_id, message_key, recipient, subject, to_service, \
        created_at, due_at, lease_token)";
    let mail = format!("'k', '{CONTACT}', '{subject}', false, created_at, created_at, {leases}");
    wiring.lines(&format!("{insert} SELECT id, {mail} FROM orders WHERE id = 1"));
}

async fn mails_that_are_not_true_any_more_use_up_no_limit(kind: Kind) {
    let wiring = kind.wiring();
    let service = ServiceProcess::keyed(&wiring, &["--mails-per-recipient-hour=2"]);
    created(service.order("F-1").await).await;
    eventually(|| wiring.mails().len() == 1).await;
    for _ in 0..3 {
        add_mail(&wiring, "cancelled", 0);
    }
    eventually(|| wiring.pending_mails() == 0).await;
    created(service.order("F-2").await).await;
    eventually(|| wiring.mails().len() == 2).await;
}

async fn mails_of_a_lost_worker_are_within_the_limit(kind: Kind) {
    let app = kind.app_with(&["--mails-per-recipient-hour=1"]).await;
    created(app.order("F-1").await).await;
    app.mails(1).await;
    add_mail(&app.wiring, "changed", 1);
    let waiting = "notary_orders_mails_over_limit";
    eventually_async(async || app.metric(waiting).await == 1).await;
    assert_eq!(app.wiring.mails().len(), 1);
}

/// Creates orders whose mails wait for the relay, and returns their stores.
async fn unsent_mails(wiring: &Wiring, file_numbers: &[&str]) -> Storage {
    let service = ServiceProcess::keyed(wiring, &[]);
    wiring.break_mail();
    for file_number in file_numbers {
        created(service.order(file_number).await).await;
    }
    let storage = Storage::open(&settings(wiring, &[], &[])).await.unwrap();
    eventually_async(async || {
        let waiting = storage.queue.list(false, 10).await.unwrap();
        let tried = waiting.iter().filter(|mail| mail.last_error.is_some());
        tried.count() == file_numbers.len()
    })
    .await;
    service.stop_and_read_log();
    storage
}

async fn mails_that_failed_since_an_instant_are_retried(kind: Kind) {
    const LATER: OffsetDateTime = datetime!(2100-01-01 00:00 UTC);
    let wiring = kind.wiring();
    let storage = unsent_mails(&wiring, &["F-1", "F-2", "F-3"]).await;
    let leases = storage.queue.lease(LATER, Duration::MINUTE, 10).await.unwrap();
    let failures = [datetime!(2026-01-01 00:00 UTC), datetime!(2026-02-01 00:00 UTC)];
    for (lease, at) in leases.iter().zip(failures) {
        let settlement = Settlement::Fail { at, error: "550 no such user".to_owned() };
        let attempted = Attempted { id: lease.delivery.id, token: lease.token, settlement };
        assert_eq!(storage.queue.settle(&[attempted]).await.unwrap().len(), 1);
    }
    wiring.mend_mail();
    let retry = |arguments: &[&str]| run(&wiring, &[&["deliveries", "retry"], arguments].concat());
    let failed = || run(&wiring, &["deliveries", "list", "--failed", "--json"]).lines().count();
    let none = "0 mails and 0 webhooks are due now\n";
    let one = "1 mail and 0 webhooks are due now\n";
    assert_eq!(retry(&["--failed", "--since=2026-02-01T00:00:01Z"]), none);
    assert_eq!(retry(&["--failed", "--since=2026-02-01T00:00:00Z"]), one);
    assert_eq!(failed(), 1);
    assert_eq!(retry(&["--failed"]), one);
    assert_eq!((failed(), retry(&["--failed"])), (0, none.to_owned()));
    let _service = ServiceProcess::start(&wiring, &[]);
    eventually(|| wiring.mails().len() == 3 && wiring.pending_mails() == 0).await;
}

async fn mail_that_is_being_sent_is_not_retried(kind: Kind) {
    let wiring = kind.wiring();
    let storage = unsent_mails(&wiring, &["F-1"]).await;
    let later = Machine::default().clock.now() + Duration::MINUTE;
    let lease = storage.queue.lease(later, Duration::MINUTE, 10).await.unwrap().remove(0);
    let id = lease.delivery.id.0.to_string();
    let error = fail(&wiring, &["deliveries", "retry", &id]);
    assert!(error.contains(&format!("delivery {id} is being sent now")), "{error}");
    let settlement = Settlement::RetryAt { due_at: later, error: "busy".to_owned() };
    let attempted = Attempted { id: lease.delivery.id, token: lease.token, settlement };
    assert_eq!(storage.queue.settle(&[attempted]).await.unwrap().len(), 1);
    let retried = run(&wiring, &["deliveries", "retry", &id]);
    assert_eq!(retried, format!("delivery {id} is due now\n"));
}

/// Returns the recipients of the mails with a text, sorted.
fn recipients(wiring: &Wiring, text: &str) -> Vec<String> {
    let mails = wiring.mails().into_iter().filter(|mail| mail.contains(text));
    let to = mails
        .map(|mail| mail.lines().find_map(|line| line.strip_prefix("To: ")).unwrap().to_owned());
    let mut to: Vec<_> = to.collect();
    to.sort();
    to
}

const CONTACT: &str = "escrow@title.example.com";
const BEFORE: &str = "before@service.example.com";
const AFTER: &str = "after@service.example.com";

async fn those_who_were_mailed_are_told_of_the_end_and_of_its_reversal(kind: Kind) {
    let wiring = kind.wiring();
    let service = ServiceProcess::keyed(&wiring, &[]);
    run(&wiring, &["services", "add", "42", "--name=x", &format!("--email={BEFORE}")]);
    created(service.order("F-1").await).await;
    eventually(|| recipients(&wiring, "SEQUENCE:0") == [BEFORE, CONTACT]).await;

    run(&wiring, &["services", "change", "42", &format!("--email={AFTER}")]);
    run(&wiring, &["orders", "update", "1", "--status=ASSIGNED"]);
    run(&wiring, &["orders", "cancel", "1"]);
    eventually(|| recipients(&wiring, "METHOD:CANCEL") == [BEFORE, CONTACT]).await;
    assert_eq!(recipients(&wiring, "SEQUENCE:2"), [BEFORE, CONTACT]);

    wiring.lines("UPDATE orders SET status = 'CONFIRMED'");
    eventually(|| recipients(&wiring, "SEQUENCE:3") == [AFTER, CONTACT]).await;
    eventually(|| wiring.pending_mails() == 0).await;
    assert_eq!(wiring.mails().len(), 6);
}

async fn cancellation_of_an_order_that_takes_place_again_does_not_leave(kind: Kind) {
    let wiring = kind.wiring();
    let service = ServiceProcess::keyed(&wiring, &[]);
    created(service.order("F-1").await).await;
    eventually(|| wiring.mails().len() == 1 && wiring.pending_mails() == 0).await;
    wiring.break_mail();
    run(&wiring, &["orders", "cancel", "1"]);
    let tried = "SELECT count(*) FROM deliveries WHERE subject = 'cancelled' \
        AND last_error IS NOT NULL";
    eventually(|| wiring.lines(tried) == ["1"]).await;
    wiring.lines("UPDATE orders SET status = 'CONFIRMED'");
    wiring.mend_mail();
    eventually(|| wiring.pending_mails() == 0).await;
    assert_eq!(recipients(&wiring, "METHOD:CANCEL"), [""; 0]);
    assert_eq!(recipients(&wiring, "takes place again"), [CONTACT]);
}

/// The gate code is of the order as it is, and the wrong address is no party of it.
async fn address_that_a_change_corrects_gets_no_mail_that_waits(kind: Kind) {
    const GATE: &str = "The gate code is 4711.";
    let app = kind.app().await;
    let wiring = &app.wiring;
    wiring.break_mail();
    let mut order = order("F-1");
    order["signingContactsFormData"]["observer"] = "wrong@example.com".into();
    created(app.create(&order).await).await;
    let tried = "SELECT count(*) FROM deliveries WHERE last_error IS NOT NULL";
    eventually(|| wiring.lines(tried) == ["2"]).await;
    order["signingContactsFormData"]["observer"] = "right@example.com".into();
    order["signingDetailsFormData"]["specialInstructions"] = GATE.into();
    let changed = app.request(Method::PUT, "/api/order/1").json(&order).send().await.unwrap();
    assert_eq!(changed.status(), 200);
    // That of the right address is tried, too: the clock advances once.
    eventually(|| wiring.lines(tried) == ["3"]).await;
    wiring.mend_mail();
    app.clock.advance(Duration::minutes(1));
    app.mails_leave().await;
    assert_eq!(recipients(wiring, GATE), [CONTACT, "right@example.com"]);
    assert_eq!(recipients(wiring, "Subject: "), [CONTACT, "right@example.com"]);
}

/// The recipient would call a notary that does not come.
async fn mail_about_a_notary_that_is_replaced_does_not_leave(kind: Kind) {
    let wiring = kind.wiring();
    let service = ServiceProcess::keyed(&wiring, &[]);
    created(service.order("F-1").await).await;
    eventually(|| wiring.mails().len() == 1 && wiring.pending_mails() == 0).await;
    wiring.break_mail();
    for notary in ["Pat Garcia", "Lee Stone"] {
        let name = format!("--notary-name={notary}");
        run(&wiring, &["orders", "update", "1", "--status=ASSIGNED", &name]);
    }
    eventually(|| wiring.rows("events") == 0).await;
    wiring.mend_mail();
    eventually(|| wiring.pending_mails() == 0).await;
    for (notary, told) in [("Pat Garcia", vec![]), ("Lee Stone", vec![CONTACT])] {
        assert_eq!(recipients(&wiring, &format!("Notary: {notary}")), told, "{notary}");
    }
}
