//! No client can write a line of the log, or control the terminal that shows it.

use std::{collections::BTreeSet, time::Instant};

use futures_util::future::join_all;
use reqwest::{
    Method, RequestBuilder,
    multipart::{Form, Part},
};
use serde_json::{Value, json};

use crate::{
    harness::service_process::{ServiceProcess, issue_key, run},
    harness::{CREATE, deed, form, order, page::Page},
    wiring::Wiring,
};

/// Texts that end a line, move the cursor, reverse the text or end a string.
const HOSTILE: [&str; 10] = [
    "a\r\nforged",
    "a\nlevel=ERROR forged",
    "\u{1b}[31mforged\u{1b}]0;forged\u{7}",
    "a\u{9b}31mforged",
    "a\u{85}forged",
    "a\u{2028}forged\u{2029}forged",
    "\u{202e}degrof forged",
    "a\u{7f}\u{8}forged",
    "\",\"level\":\"ERROR\",\"message\":\"forged\"}",
    "%0d%0a%1b[31mforged",
];

async fn send_everywhere(service: &ServiceProcess, hostile: &str) {
    let authorization = format!("Host: test\r\nAuthorization: Bearer {}\r\n", service.key);
    let one_line = hostile.replace(['\r', '\n'], "\u{c}");
    let mut order = order(hostile);
    for field in
        ["signerName", "propertyAddress", "timeZoneId", "specialInstructions", "signingDate"]
    {
        order["signingDetailsFormData"][field] = json!(hostile);
    }
    order["signingContactsFormData"]["orderContactEmail"] = json!(format!("{hostile}@example.com"));
    service.create(&order).await;
    let file_name = Part::bytes(deed()).file_name(one_line.clone());
    for form in [
        Form::new().percent_encode_noop().part("documents", file_name),
        form(&order).percent_encode_noop().text(one_line.clone(), hostile.to_owned()),
    ] {
        service.create_with(form).await;
    }
    let path = hostile.replace([' ', '\r', '\n'], "%0A");
    for head in [
        format!("POST /{path} HTTP/1.1\r\n{authorization}"),
        format!("GET {CREATE}?{path} HTTP/1.1\r\n{authorization}"),
        format!("FORGED {CREATE} HTTP/1.1\r\n{authorization}"),
        format!(
            "POST {CREATE} HTTP/1.1\r\n{authorization}Idempotency-Key: {one_line}\r\n\
             Content-Type: application/json\r\n"
        ),
        format!(
            "POST {CREATE} HTTP/1.1\r\n{authorization}User-Agent: {one_line}\r\n\
             X-Request-Id: {one_line}\r\nContent-Type: {one_line}\r\n"
        ),
        format!(
            "POST {CREATE} HTTP/1.1\r\nHost: {one_line}\r\nAuthorization: Bearer {one_line}\r\n\
             X-Forwarded-For: {one_line}\r\n"
        ),
        format!("POST {CREATE} HTTP/1.1\r\n{authorization}X-Folded: a\r\n {one_line}\r\n"),
        format!("{one_line}\r\n"),
    ] {
        // Heads that no client library would send. Any response is accepted.
        service.raw(head + "Content-Length: 2\r\nConnection: close\r\n\r\n{}").await;
    }
}

fn assert_plain(log: &str) {
    let hidden = |c: char| {
        c.is_control() && c != '\n'
            || matches!(c, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    for line in log.split('\n') {
        assert!(!line.contains(hidden) && !line.to_lowercase().contains("forged"), "{line:?}");
    }
}

async fn log_in(format: &str) -> String {
    let format = format!("--log-format={format}");
    let flags = ["--log-level=trace", "--rate-per-second=0", &format];
    let wiring = Wiring::embedded();
    let service = ServiceProcess::keyed(&wiring, &flags);
    for hostile in HOSTILE {
        send_everywhere(&service, hostile).await;
    }
    let log = service.stop_and_read_log();
    assert!(log.matches("answered").count() > 5 * HOSTILE.len(), "{log}");
    assert_plain(&log);
    log
}

#[tokio::test(flavor = "multi_thread")]
async fn rejection_is_logged_with_problem_and_peer() {
    let wiring = Wiring::embedded();
    // Before the first start, which would add a key.
    let key = issue_key(&wiring);
    let bound = run(&wiring, &["keys", "issue", "--name=bound", "--signing-service=7"]);
    let flags = ["--rate-per-second=1", "--rate-burst=3", "--trusted-proxies=127.0.0.1"];
    let service = ServiceProcess::start(&wiring, &flags).with_key(key);
    let post = || service.order_on(CREATE, "F-1");
    let client = crate::harness::client();
    let without_key = || client.post(service.url(CREATE)).header("x-forwarded-for", "203.0.113.9");
    let unknown = service.as_key("nok_unknown").post(CREATE);
    for (request, status) in [
        (post(), 201),
        (post(), 409),
        (service.post(CREATE).json(&json!({})), 400),
        (service.as_key(bound.trim()).order_on(CREATE, "F-1"), 403),
        (unknown.header("x-forwarded-for", "2001:db8::7"), 401),
    ] {
        assert_eq!(request.send().await.unwrap().status(), status);
    }
    // Far more at once than the rate permits, even if a busy machine takes seconds.
    let requests: [(&dyn Fn() -> RequestBuilder, u16); 2] = [(&post, 409), (&without_key, 401)];
    for (request, within) in requests {
        let answers = join_all((0..12).map(|_| request().send())).await;
        let statuses = answers.into_iter().map(|answer| answer.unwrap().status().as_u16());
        let statuses: BTreeSet<_> = statuses.collect();
        assert!(statuses.contains(&429), "{statuses:?}");
        assert!(statuses.iter().all(|status| [within, 429].contains(status)), "{statuses:?}");
    }
    let log = service.stop_and_read_log();
    let answered = log
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .filter(|event: &Value| event["message"] == "answered");
    let logged: BTreeSet<_> = answered
        .map(|event| {
            [&event["problem"], &event["api_key"], &event["peer"]]
                .map(|value| value.to_string().replace('"', ""))
        })
        .collect();
    let none = "null";
    let expected = [
        ["duplicate_order", "1", none],
        ["validation_failed", "1", none],
        ["rate_limited", "1", none],
        ["forbidden", "2", none],
        ["unauthorized", none, "2001:db8::7"],
        ["unauthorized", none, "203.0.113.9"],
        ["rate_limited", none, "203.0.113.9"],
    ];
    assert_eq!(logged, BTreeSet::from(expected.map(|row| row.map(str::to_owned))));
}

/// Of the causes, too.
#[tokio::test(flavor = "multi_thread")]
async fn log_lines_of_refused_sign_ins_are_limited() {
    const TRIES: usize = 50;
    /// Lines a second, with some at once.
    const RATE: usize = 5;
    let wiring = Wiring::embedded();
    let service = ServiceProcess::keyed(&wiring, &["--rate-per-second=0"]);
    let mut page = Page::of(&service);
    let began = Instant::now();
    for _ in 0..TRIES {
        page.post("/api/session/passkey", json!({ "purpose": "sign_in" })).await;
        let finish = (Method::POST, "/api/session/passkey/finish");
        let refused = (401, "passkey_rejected");
        page.refused(finish, Some(json!({ "credential": {} })), refused).await;
    }
    let log = service.stop_and_read_log();
    let most = RATE * (usize::try_from(began.elapsed().as_secs()).unwrap() + 3);
    for message in ["a passkey was not accepted", "passkey_rejected"] {
        let lines = log.matches(message).count();
        assert!((1..=most).contains(&lines), "{lines}: {log}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn log_has_one_event_per_line_in_each_format() {
    for line in log_in("json").await.lines() {
        let event: Value =
            serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        let is_whole = ["timestamp", "level", "target"].iter().all(|name| event[*name].is_string());
        assert!(is_whole, "{line}");
    }
    for line in log_in("pretty").await.lines() {
        let mut words = line.split_whitespace();
        let (time, level) = (words.next().unwrap(), words.next().unwrap());
        let is_level = ["ERROR", "WARN", "INFO", "DEBUG", "TRACE"].contains(&level);
        assert!(time.ends_with('Z') && time.len() == 27 && is_level, "{line}");
    }
}
