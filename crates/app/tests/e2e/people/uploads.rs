//! Sessions that end during an upload: what was admitted ends.

use domain::person::Role;
use reqwest::Method;
use serde_json::json;
use time::Duration;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use crate::{
    harness::{
        CREATE_WITH_DOCUMENTS, FORM, TestApp, eventually,
        page::{CLIENT, Page, SESSION, signed_in},
        patiently, problem, raw_order_parts,
    },
    wiring::{Kind, on_both_wirings},
};

on_both_wirings! {
    admitted_upload_ends_after_its_session,
    admitted_upload_ends_though_its_person_has_other_rights,
}

/// Returns the bytes of a form whose documents have a number of bytes each, as blanks.
fn large_form(file_number: &str, documents: usize, bytes: usize) -> Vec<u8> {
    let mut body = raw_order_parts(file_number).into_bytes();
    for number in 1..=documents {
        let head = format!(
            "--b\r\nContent-Disposition: form-data; name=\"documents\"; \
             filename=\"large-{number}.pdf\"\r\n\r\n%PDF-1.7\n"
        );
        body.extend(head.into_bytes());
        body.resize(body.len() + bytes, b' ');
        body.extend(b"\r\n");
    }
    body.extend(b"--b--\r\n");
    body
}

/// An upload that was admitted, and of which the last bytes have not been sent.
struct Begun {
    stream: TcpStream,
    rest: Vec<u8>,
}

impl Begun {
    /// Begins an upload in the session of a page. Its first document is larger than a block of the spool.
    async fn in_session_of(page: &Page, app: &TestApp, form: &[u8]) -> Self {
        let (first, rest) = form.split_at(form.len() - 40);
        let head = format!(
            "POST {CREATE_WITH_DOCUMENTS} HTTP/1.1\r\nHost: {}\r\nCookie: {SESSION}={}\r\n\
             Sec-Fetch-Site: same-origin\r\n{FORM}Content-Length: {}\r\nConnection: close\r\n\r\n",
            page.host,
            page.session.as_ref().unwrap(),
            form.len()
        );
        let mut stream = TcpStream::connect(app.address).await.unwrap();
        stream.write_all(head.as_bytes()).await.unwrap();
        stream.write_all(first).await.unwrap();
        // It was admitted: its document begins to arrive.
        eventually(|| !app.spooled().is_empty()).await;
        Self { stream, rest: rest.to_vec() }
    }

    /// Sends the rest, and returns the answer.
    async fn end(mut self) -> String {
        self.stream.write_all(&self.rest).await.unwrap();
        let mut answer = String::new();
        patiently(self.stream.read_to_string(&mut answer)).await.unwrap();
        answer
    }
}

/// Signed out, disabled, idle and too old: the next request says so.
async fn upload_outlives_its_session(kind: Kind, (documents, bytes): (usize, usize)) {
    let app = kind.app_with(&["--duplicate-window-secs=0"]).await;
    let (_, mut admin) = signed_in(&app, CLIENT, "Eve", Role::Admin).await;
    let ends = ["sign-out", "disabled", "idle", "old"];
    for end in ends {
        let (id, mut ann) = signed_in(&app, CLIENT, "Ann Roe", Role::Member).await;
        let cookie = ann.session.clone();
        let form = large_form(&format!("F-{end}"), documents, bytes);
        let begun = Begun::in_session_of(&ann, &app, &form).await;
        match end {
            "sign-out" => drop(ann.call(Method::DELETE, "/api/session", None).await),
            "disabled" => {
                let path = format!("/api/people/{}", id.0);
                admin.call(Method::PATCH, &path, Some(json!({ "disabled": true }))).await;
            }
            "idle" => app.clock.advance(Duration::hours(1)),
            _ => app.clock.advance(Duration::hours(12)),
        }
        ann.session = cookie;
        let new = ann.request(Method::GET, "/api/order").send().await.unwrap();
        problem(new, 401, "session_ended").await;
        let answer = begun.end().await;
        assert!(answer.starts_with("HTTP/1.1 201"), "{end}: {answer}");
    }
    let stored = (app.rows("orders"), app.rows("documents"));
    assert_eq!(stored, (ends.len(), ends.len() * documents));
}

async fn admitted_upload_ends_after_its_session(kind: Kind) {
    upload_outlives_its_session(kind, (1, 1024 * 1024)).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "nightly: sends two hundred megabytes for each end of a session"]
async fn admitted_upload_of_two_hundred_megabytes_ends_after_its_session() {
    upload_outlives_its_session(Kind::Embedded, (20, 10_000_000)).await;
}

/// The next request has them.
async fn admitted_upload_ends_though_its_person_has_other_rights(kind: Kind) {
    let app = kind.app_with(&["--duplicate-window-secs=0"]).await;
    let (_, mut eve) = signed_in(&app, CLIENT, "Eve", Role::Admin).await;
    for (before, after) in [(Role::Admin, "member"), (Role::Member, "admin")] {
        let (id, mut ann) = signed_in(&app, CLIENT, "Ann Roe", before).await;
        let form = large_form(&format!("F-{after}"), 1, 1024 * 1024);
        let begun = Begun::in_session_of(&ann, &app, &form).await;
        let path = format!("/api/people/{}", id.0);
        eve.call(Method::PATCH, &path, Some(json!({ "role": after }))).await;
        let people = ann.request(Method::GET, "/api/people").send().await.unwrap();
        match before {
            Role::Admin => drop(problem(people, 403, "not_admin").await),
            Role::Member => assert_eq!(people.status(), 200),
        }
        let answer = begun.end().await;
        assert!(answer.starts_with("HTTP/1.1 201"), "{after}: {answer}");
        let created = ann.get("/api/order").await["data"][0]["order_id"].clone();
        let read = ann.get(&format!("/api/order/{created}")).await;
        assert_eq!(read["history"][0]["by"], "Ann Roe");
    }
}
