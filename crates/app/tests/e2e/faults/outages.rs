//! A dependency stops and comes back while the service runs.

use reqwest::{Response, StatusCode};
use test_servers::postgres::Stop;

use crate::{
    harness::service_process::ServiceProcess,
    harness::{
        assert_unavailable, created, deed, eventually, eventually_async, form, form_with_deed,
        order, with_documents,
    },
    wiring::Wiring,
};

fn start(wiring: &Wiring) -> ServiceProcess {
    ServiceProcess::keyed(wiring, &["--rate-per-second=0"])
}

async fn assert_unready(service: &ServiceProcess, dependency: &str) {
    let (status, body) = service.readiness().await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
    for name in ["database", "documents"] {
        assert_eq!(body[name] == "ok", name != dependency, "{body}");
    }
}

/// Stops the bucket, or makes it silent.
fn break_bucket(wiring: &Wiring, is_silent: bool) {
    if is_silent { wiring.servers().silence_documents() } else { wiring.break_documents() }
}

fn mend_bucket(wiring: &Wiring, is_silent: bool) {
    if is_silent { wiring.servers().documents_go_on() } else { wiring.servers().mend_documents() }
}

/// Repeats a request until it creates an order.
async fn assert_resumes(attempt: impl AsyncFn(usize) -> Response) {
    let mut at = 0;
    eventually_async(async || {
        at += 1;
        attempt(at).await.status() == StatusCode::CREATED
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn orders_are_unavailable_while_postgresql_is_down() {
    let wiring = Wiring::with_a_database_server();
    let service = start(&wiring);
    created(service.order("F-0").await).await;
    let server = wiring.servers().database_server();
    for is_silent in [false, true] {
        // A frozen server would later commit a lease that no worker holds, for half a minute.
        eventually(|| wiring.pending_mails() == 0).await;
        if is_silent {
            server.freeze();
        } else {
            server.stop(Stop::Fast);
        }
        for at in 0..3 {
            assert_unavailable(service.order(&format!("F-{is_silent}-{at}")).await).await;
        }
        assert_unavailable(service.order_with_deed("F-1").await).await;
        assert_unready(&service, "database").await;
        if is_silent {
            server.thaw();
        } else {
            server.resume_after_stop();
        }
        assert_resumes(async |at| service.order(&format!("F-after-{is_silent}-{at}")).await).await;
        service.gets_ready().await;
    }
    // An order whose outcome was unknown exists with its delivery, or not at all.
    eventually(|| wiring.pending_mails() == 0).await;
    assert_eq!(wiring.mails().len(), wiring.rows("orders"));
    service.stop("-TERM");
}

#[tokio::test(flavor = "multi_thread")]
async fn json_orders_succeed_while_bucket_is_down() {
    let wiring = Wiring::production();
    let service = start(&wiring);
    let twenty = |number: &str| with_documents(form(&order(number)), 20, &deed());
    for is_silent in [false, true] {
        break_bucket(&wiring, is_silent);
        for (at, form) in
            [form_with_deed("F-1"), twenty("F-2"), twenty("F-3")].into_iter().enumerate()
        {
            assert_unavailable(service.create_with(form).await).await;
            created(service.order(&format!("F-{is_silent}-{at}")).await).await;
        }
        assert_unready(&service, "documents").await;
        let stored = "SELECT count(*) FROM documents JOIN orders ON orders.id = order_id \
             WHERE file_number IN ('F-1', 'F-2', 'F-3')";
        assert_eq!(wiring.servers().query(stored), "0");

        mend_bucket(&wiring, is_silent);
        assert_resumes(async |at| {
            service.create_with(twenty(&format!("F-after-{is_silent}-{at}"))).await
        })
        .await;
        service.gets_ready().await;
    }
    assert_eq!((wiring.rows("orders"), wiring.rows("documents")), (8, 40));
    let objects = wiring.objects();
    assert!(wiring.servers().document_keys().iter().all(|key| objects[key] == deed()));
}

#[tokio::test(flavor = "multi_thread")]
async fn orders_succeed_while_relay_is_down() {
    let wiring = Wiring::production();
    let service = start(&wiring);
    wiring.break_mail();
    for at in 0..20 {
        created(service.order(&format!("F-{at}")).await).await;
    }
    created(service.order_with_deed("F-20").await).await;
    service.gets_ready().await;
    // A relay that is down gets a mail a second.
    let attempted = "SELECT count(*) > 2 FROM deliveries WHERE last_error IS NOT NULL";
    eventually(|| wiring.servers().query(attempted) == "t").await;

    wiring.mend_mail();
    wiring.servers().wait_for_mails(21).await;
    eventually(|| wiring.pending_mails() == 0).await;
    assert_eq!(wiring.mails().len(), 21);
}

#[tokio::test(flavor = "multi_thread")]
async fn service_starts_while_relay_is_down() {
    let wiring = Wiring::production();
    wiring.break_mail();
    let service = start(&wiring);
    created(service.order("F-1").await).await;
    created(service.order_with_deed("F-2").await).await;
    let (status, body) = service.readiness().await;
    assert_eq!((status, &body["mail"]), (StatusCode::OK, &"unavailable".into()), "{body}");

    wiring.mend_mail();
    wiring.servers().wait_for_mails(2).await;
    eventually_async(async || service.readiness().await.1["mail"] == "ok").await;
    let log = service.stop_and_read_log();
    assert!(log.contains("--mail-url") && log.contains("the mail relay is unavailable"), "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn service_starts_while_bucket_is_down() {
    for is_silent in [false, true] {
        let wiring = Wiring::production();
        break_bucket(&wiring, is_silent);
        let service = start(&wiring);
        created(service.order("F-1").await).await;
        assert_unavailable(service.order_with_deed("F-2").await).await;
        assert_unready(&service, "documents").await;

        mend_bucket(&wiring, is_silent);
        assert_resumes(async |at| service.order_with_deed(&format!("F-after-{at}")).await).await;
        service.gets_ready().await;
        let log = service.stop_and_read_log();
        assert!(log.contains("the document store is unavailable"), "{log}");
    }
}

/// Each is alone on the machine.
mod timing {
    use std::io::Read as _;

    use crate::{
        harness::service_process::{ServiceProcess, issue_key},
        harness::{CREATE_WITH_DOCUMENTS, created, eventually},
        running::drain::half_a_request,
        wiring::Wiring,
    };

    /// The stop leaves the mails two seconds.
    #[tokio::test(flavor = "multi_thread")]
    async fn slow_upload_leaves_mails_and_key_uses_time_at_the_stop() {
        let wiring = Wiring::production();
        let mut server = ServiceProcess::keyed(&wiring, &["--shutdown-grace-secs=8"]);
        let slow_key = issue_key(&wiring);
        wiring.servers().stall_mail();
        created(server.order("F-1").await).await;
        wiring.servers().a_mail_stalls().await;
        // Neither the mail nor the use of the key can be stored before the upload is cut off.
        let lock = wiring.servers().lock_keys();
        let mut slow = half_a_request(&server.as_key(&slow_key), CREATE_WITH_DOCUMENTS);
        server.signal("-TERM");
        let ended = tokio::task::spawn_blocking(move || slow.read(&mut [0; 1024]));
        assert!(matches!(ended.await.unwrap(), Ok(0) | Err(_)));
        let unused = "SELECT id FROM api_keys WHERE last_used_at IS NULL";
        assert_ne!(wiring.lines(unused), Vec::<String>::new());

        drop(lock);
        wiring.servers().mails_go_on();
        eventually(|| server.ended().is_some()).await;
        assert_eq!((wiring.mails().len(), wiring.pending_mails()), (1, 0));
        assert_eq!(wiring.lines(unused), Vec::<String>::new());
    }
}
