//! A dependency stops and comes back while the service runs.

use std::time::{Duration, Instant};

use reqwest::{Client, Response, StatusCode, multipart::Form};
use serde_json::Value;
use test_servers::postgres::Stop;

use crate::{
    harness::{
        CREATE, CREATE_WITH_DOCUMENTS, assert_unavailable, created, deed, eventually, file, form,
        form_with_deed, order,
    },
    service_process::{ServiceProcess, issue_key},
    wiring::Wiring,
};

/// What is promised: how soon the service goes on once it is back.
const RESUMED: Duration = Duration::from_secs(5);

struct Service {
    process: ServiceProcess,
    key: String,
    client: Client,
}

impl Service {
    fn start(wiring: &Wiring) -> Self {
        Self {
            process: ServiceProcess::start(wiring, &["--rate-per-second=0"]),
            key: issue_key(wiring),
            client: crate::harness::client(),
        }
    }

    async fn create(&self, file_number: &str) -> Response {
        self.client
            .post(self.process.url(CREATE))
            .bearer_auth(&self.key)
            .json(&order(file_number))
            .send()
            .await
            .unwrap()
    }

    async fn create_with(&self, form: Form) -> Response {
        self.client
            .post(self.process.url(CREATE_WITH_DOCUMENTS))
            .bearer_auth(&self.key)
            .multipart(form)
            .send()
            .await
            .unwrap()
    }

    async fn readiness(&self) -> (StatusCode, Value) {
        let response = self
            .client
            .get(format!("http://{}/readyz", self.process.ops_address))
            .send()
            .await
            .unwrap();
        (response.status(), response.json().await.unwrap())
    }

    async fn assert_unready(&self, dependency: &str) {
        let (status, body) = self.readiness().await;
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
        for name in ["database", "documents"] {
            assert_eq!(body[name] == "ok", name != dependency, "{body}");
        }
    }
}

/// Asks until an order is created, for as long as is promised.
async fn assert_resumes(attempt: impl AsyncFn(usize) -> Response) {
    let back = Instant::now();
    for at in 0.. {
        if attempt(at).await.status() == StatusCode::CREATED {
            return;
        }
        assert!(back.elapsed() < RESUMED, "{:?}", back.elapsed());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn while_postgresql_is_stopped_or_silent_orders_are_refused_soon_and_then_go_on() {
    let wiring = Wiring::with_a_database_server();
    let service = Service::start(&wiring);
    created(service.create("F-0").await).await;
    let server = wiring.database_server();
    for silent in [false, true] {
        if silent {
            server.freeze();
        } else {
            server.stop(Stop::Fast);
        }
        for at in 0..3 {
            let asked = Instant::now();
            assert_unavailable(asked, service.create(&format!("F-{silent}-{at}")).await).await;
        }
        let asked = Instant::now();
        assert_unavailable(asked, service.create_with(form_with_deed("F-1")).await).await;
        service.assert_unready("database").await;
        if silent {
            server.thaw();
        } else {
            server.resume_after_stop();
        }
        assert_resumes(async |at| service.create(&format!("F-after-{silent}-{at}")).await).await;
        assert_eq!(service.readiness().await.0, StatusCode::OK);
    }
    // What was refused while nobody knew its outcome is there whole or not at all.
    eventually(|| wiring.rows("deliveries") == 0).await;
    assert_eq!(i64::try_from(wiring.mails().len()).unwrap(), wiring.rows("orders"));
    service.process.stop("-TERM");
}

#[tokio::test(flavor = "multi_thread")]
async fn while_the_bucket_is_gone_only_orders_with_documents_are_refused() {
    let wiring = Wiring::new();
    let service = Service::start(&wiring);
    let twenty = |number: &str| {
        (0..20).fold(form(&order(number)), |form, at| {
            form.part("documents", file(&format!("{at}.pdf"), deed()))
        })
    };
    for silent in [false, true] {
        if silent {
            wiring.silence_documents();
        } else {
            wiring.break_documents();
        }
        for (at, form) in
            [form_with_deed("F-1"), twenty("F-2"), twenty("F-3")].into_iter().enumerate()
        {
            let asked = Instant::now();
            assert_unavailable(asked, service.create_with(form).await).await;
            created(service.create(&format!("F-{silent}-{at}")).await).await;
        }
        service.assert_unready("documents").await;
        assert_eq!(wiring.query("SELECT count(*) FROM documents WHERE order_id IN (SELECT id FROM orders WHERE file_number IN ('F-1', 'F-2', 'F-3'))"), "0");

        if silent {
            wiring.documents_go_on();
        } else {
            wiring.mend_documents();
        }
        assert_resumes(async |at| {
            service.create_with(twenty(&format!("F-after-{silent}-{at}"))).await
        })
        .await;
        assert_eq!(service.readiness().await.0, StatusCode::OK);
    }
    assert_eq!((wiring.rows("orders"), wiring.rows("documents")), (8, 40));
    let objects = wiring.objects();
    assert!(wiring.document_keys().iter().all(|key| objects[key] == deed()));
}

#[tokio::test(flavor = "multi_thread")]
async fn while_the_relay_is_gone_nothing_but_mails_waits() {
    let wiring = Wiring::new();
    let service = Service::start(&wiring);
    wiring.break_mail();
    for at in 0..20 {
        created(service.create(&format!("F-{at}")).await).await;
    }
    created(service.create_with(form_with_deed("F-20")).await).await;
    assert_eq!(service.readiness().await.0, StatusCode::OK);
    // Every mail has been tried.
    let tried =
        || wiring.query("SELECT count(*) FROM deliveries WHERE last_error IS NOT NULL") == "21";
    eventually(tried).await;

    wiring.mend_mail();
    wiring.mails_within(21, RESUMED).await;
    eventually(|| wiring.rows("deliveries") == 0).await;
    assert_eq!(wiring.mails().len(), 21);
}
