//! News that come together have one mail.

use domain::{
    api_key::Scope,
    order::{EmailAddress, OrderId, SigningServiceId},
    signing_service::SigningService,
    use_cases::keys::manage_keys::KeyTerms,
};
use reqwest::{Method, multipart::Form};
use serde_json::json;
use time::Duration;

use super::{CONTACT, DISPATCH, news, recipients};
use crate::{
    harness::{
        Api, TestApp, created, deed, eventually, eventually_async, file, order,
        service_process::ServiceProcess,
    },
    wiring::{Kind, on_both_wirings},
};

on_both_wirings! {
    changes_of_half_a_minute_have_one_mail,
    change_while_the_relay_is_away_has_no_second_mail,
    notes_and_documents_of_half_a_minute_have_one_mail_of_a_kind,
}

/// Adds the record of service 42, and returns its key.
async fn signing_service(app: &TestApp) -> Api {
    let id = SigningServiceId(42);
    let emails = vec![EmailAddress::try_from(DISPATCH.to_owned()).unwrap()];
    let record = SigningService { id, name: "Fast Signings".to_owned(), emails };
    assert!(app.storage().services.add(&record).await.unwrap());
    let terms = KeyTerms {
        scopes: Scope::OF_SERVICES.into_iter().collect(),
        for_service: Some(id),
        ..KeyTerms::default()
    };
    app.as_key(&app.issue_key_on(terms).await)
}

const SETTLING: &str = "--mail-settle-secs=30";

/// Gives order 1 another lender.
async fn put_lender(api: &Api, lender: &str) {
    let mut order = order("F-1");
    order["signingDetailsFormData"]["lender"] = lender.into();
    let changed = api.request(Method::PUT, "/api/order/1").json(&order).send().await.unwrap();
    assert_eq!(changed.status(), 200);
}

/// Waits until all events have their deliveries, and lets so much time pass.
async fn settle(app: &TestApp, by: Duration) {
    eventually(|| app.rows("events") == 0).await;
    app.clock.advance(by);
}

async fn changes_of_half_a_minute_have_one_mail(kind: Kind) {
    let app = kind.app_with(&[SETTLING]).await;
    created(app.order("F-1").await).await;
    app.mails(1).await;
    put_lender(&app, "A bank").await;
    settle(&app, Duration::seconds(20)).await;
    put_lender(&app, "B bank").await;
    settle(&app, Duration::ZERO).await;
    let [waiting] = <[_; 1]>::try_from(app.storage().queue.list(false, 10).await.unwrap()).unwrap();
    let wait = waiting.due_at - waiting.created_at;
    assert!((49.9..=50.1).contains(&wait.as_seconds_f64()), "{wait}");
    settle(&app, Duration::seconds(31)).await;
    let mails = app.mails(2).await;
    let mail = mails.iter().find(|mail| mail.contains("Subject: Order changed")).unwrap();
    assert!(mail.contains("Lender: B bank") && mail.contains("before: none"), "{mail}");
    assert!(!mail.contains("A bank"), "{mail}");

    // A change that is undone has none.
    app.mails_leave().await;
    for lender in ["C bank", "B bank"] {
        put_lender(&app, lender).await;
    }
    settle(&app, Duration::seconds(31)).await;
    app.mails_leave().await;
    assert_eq!(app.wiring.mails().len(), 2);
}

/// Nothing is told of values that are gone.
async fn change_while_the_relay_is_away_has_no_second_mail(kind: Kind) {
    let wiring = kind.wiring();
    let service = ServiceProcess::keyed(&wiring, &[]);
    created(service.order("F-1").await).await;
    eventually(|| wiring.mails().len() == 1 && wiring.pending_mails() == 0).await;
    wiring.break_mail();
    put_lender(&service, "A bank").await;
    let tried = "SELECT count(*) FROM deliveries WHERE last_error IS NOT NULL";
    eventually(|| wiring.lines(tried) == ["1"]).await;
    put_lender(&service, "B bank").await;
    wiring.mend_mail();
    eventually(|| wiring.pending_mails() == 0).await;
    assert_eq!(recipients(&wiring, "Subject: Order changed"), [CONTACT]);
    assert_eq!(recipients(&wiring, "Lender: B bank"), [CONTACT]);
    assert_eq!(recipients(&wiring, "A bank"), [""; 0]);
}

async fn notes_and_documents_of_half_a_minute_have_one_mail_of_a_kind(kind: Kind) {
    let app = kind.app_with(&[SETTLING]).await;
    let service = signing_service(&app).await;
    created(app.order_with_deed("F-1").await).await;
    app.mails(2).await;
    let documents = "/api/order/1/documents";
    let fetched = service.request(Method::GET, &format!("{documents}/0")).send().await.unwrap();
    assert_eq!(fetched.bytes().await.unwrap(), deed());
    eventually_async(async || {
        let order = app.stored_order(OrderId(1)).await.unwrap();
        order.documents[0].first_downloaded_at.is_some()
    })
    .await;
    for text in ["The gate code is 4711.", "Ring twice."] {
        let note = json!({ "text": text });
        created(app.post("/api/order/1/notes").json(&note).send().await.unwrap()).await;
    }
    for name in ["b.pdf", "c.pdf"] {
        let form = Form::new().part("documents", file(name, deed()));
        created(app.post(documents).multipart(form).send().await.unwrap()).await;
        let form = Form::new().part("documents", file(name, deed()));
        let signed = "/api/order/1/signed-documents";
        created(service.post(signed).multipart(form).send().await.unwrap()).await;
    }
    for position in [0, 1] {
        let path = format!("{documents}/{position}");
        let withdrawn = app.request(Method::DELETE, &path).send().await.unwrap();
        assert_eq!(withdrawn.status(), 204);
    }
    settle(&app, Duration::seconds(31)).await;
    let mails = app.mails(6).await;
    let of = |recipient: &str, subject: &str| (recipient.to_owned(), subject.to_owned());
    let mut expected = [
        of(DISPATCH, "New order"),
        of(CONTACT, "New order"),
        of(DISPATCH, "New note"),
        of(DISPATCH, "Documents added"),
        of(DISPATCH, "Document withdrawn"),
        of(CONTACT, "Signed documents"),
    ];
    expected.sort_unstable();
    assert_eq!(news(&mails), expected);
    for shown in [
        "The client has written 2 notes on this order.",
        "The gate code is 4711.",
        "Ring twice.",
        // The other is withdrawn.
        "The client has added 1 document: c.pdf.",
        "The client has withdrawn 1 document that you had fetched.",
        "The signing service has returned 2 signed documents.",
    ] {
        let found = mails.iter().filter(|mail| mail.contains(shown)).count();
        assert_eq!(found, 1, "{shown}");
    }
}
