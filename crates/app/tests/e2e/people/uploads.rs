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
        CREATE_WITH_DOCUMENTS, FORM, eventually,
        page::{CLIENT, SESSION, signed_in},
        patiently, problem, raw_order_parts,
    },
    wiring::{Kind, on_both_wirings},
};

on_both_wirings! {
    admitted_upload_ends_after_its_session,
}

/// Returns the bytes of a form whose document is larger than a block of the spool, so that some of it is on disk.
fn large_form(file_number: &str) -> Vec<u8> {
    let head =
        "--b\r\nContent-Disposition: form-data; name=\"documents\"; filename=\"large.pdf\"\r\n\r\n";
    let mut body = raw_order_parts(file_number) + head + "%PDF-1.7\n";
    body += &" ".repeat(1024 * 1024);
    body += "\r\n--b--\r\n";
    body.into_bytes()
}

/// Too old, signed out, and disabled.
async fn admitted_upload_ends_after_its_session(kind: Kind) {
    let app = kind.app_with(&["--duplicate-window-secs=0"]).await;
    let (_, mut admin) = signed_in(&app, CLIENT, "Eve", Role::Admin).await;
    for end in ["sign-out", "disabled", "old"] {
        let (id, mut ann) = signed_in(&app, CLIENT, "Ann Roe", Role::Member).await;
        let cookie = ann.session.clone().unwrap();
        let body = large_form(&format!("F-{end}"));
        // All but the end of the document.
        let (first, rest) = body.split_at(body.len() - 40);
        let head = format!(
            "POST {CREATE_WITH_DOCUMENTS} HTTP/1.1\r\nHost: {}\r\nCookie: {SESSION}={cookie}\r\n\
             Sec-Fetch-Site: same-origin\r\n{FORM}Content-Length: {}\r\nConnection: close\r\n\r\n",
            ann.host,
            body.len()
        );
        let mut stream = TcpStream::connect(app.address).await.unwrap();
        stream.write_all(head.as_bytes()).await.unwrap();
        stream.write_all(first).await.unwrap();
        // It was admitted: its document begins to arrive.
        eventually(|| !app.spooled().is_empty()).await;
        match end {
            "sign-out" => drop(ann.call(Method::DELETE, "/api/session", None).await),
            "disabled" => {
                let path = format!("/api/people/{}", id.0);
                admin.call(Method::PATCH, &path, Some(json!({ "disabled": true }))).await;
            }
            _ => app.clock.advance(Duration::hours(13)),
        }
        ann.session = Some(cookie);
        let new = ann.request(Method::GET, "/api/order").send().await.unwrap();
        problem(new, 401, "session_ended").await;
        stream.write_all(rest).await.unwrap();
        let mut answer = String::new();
        patiently(stream.read_to_string(&mut answer)).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 201"), "{end}: {answer}");
    }
    assert_eq!((app.rows("orders"), app.rows("documents")), (3, 3));
}
