//! The output of the first start.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    os::unix::fs::PermissionsExt as _,
    process::Command,
};

use crate::{
    harness::service_process::{ServiceProcess, notary_orders, on_a_terminal, output, run},
    harness::{client, created, eventually},
    wiring::Wiring,
};

#[tokio::test(flavor = "multi_thread")]
async fn first_start_writes_key_to_a_file_and_prints_working_curl_line() {
    let wiring = Wiring::embedded();
    let mut server = ServiceProcess::start(&wiring, &[]);
    let mut lines = Vec::new();
    while !lines.last().is_some_and(|line: &String| line.starts_with("curl ")) {
        let mut line = String::new();
        assert_ne!(server.stdout.read_line(&mut line).unwrap(), 0, "{lines:?}");
        lines.push(line);
    }
    let file = wiring.data().join("first-key");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let key = fs::read_to_string(&file).unwrap().trim().to_owned();
    created(server.as_key(&key).order("F-1").await).await;
    let text = lines.concat();
    let exported = format!("export API_KEY=$(cat '{}')\n", file.display());
    assert!(text.contains(&exported) && !text.contains("nok_"), "{text}");
    for place in ["notary-orders.sqlite", "documents", "mail"].map(|name| wiring.data().join(name))
    {
        assert!(place.exists() && text.contains(place.to_str().unwrap()), "{text}");
    }
    // People begin with the console, so it stands first.
    let console = text.find("\nconsole    http://").unwrap();
    assert!(
        console < text.find("\nAPI ").unwrap() && text.contains("/console, for people"),
        "{text}"
    );
    let docs = lines.iter().find_map(|line| line.trim_end().split_once("its guide at ")).unwrap().1;
    assert_eq!(client().get(docs).send().await.unwrap().status(), 200);
    assert!(text.contains(&format!("http://{}/readyz", server.ops_address)), "{text}");
    let curl = lines.last().unwrap().clone();
    let executed = tokio::task::spawn_blocking(move || {
        Command::new("sh").arg("-c").arg(curl.replace("curl -i", "curl -s -i")).output()
    })
    .await
    .unwrap()
    .unwrap();
    let response = String::from_utf8(executed.stdout).unwrap();
    assert!(
        response.starts_with("HTTP/1.1 201"),
        "{response} {}",
        String::from_utf8_lossy(&executed.stderr)
    );
    let link_file = wiring.data().join("first-sign-in");
    assert_eq!(fs::metadata(&link_file).unwrap().permissions().mode() & 0o777, 0o600);
    let link = fs::read_to_string(&link_file).unwrap();
    let (console, token) = link.trim_end().split_once("#welcome=").unwrap();
    assert_eq!(console, format!("http://localhost:{}/console", server.address.port()));
    assert!(text.contains(link_file.to_str().unwrap()) && !text.contains(token), "{text}");
    let people = run(&wiring, &["people", "list", "--json"]);
    let admin: serde_json::Value = serde_json::from_str(&people).unwrap();
    let facts = ["id", "state", "role", "client_id"].map(|name| admin[name].to_string());
    assert_eq!(facts, ["1", "\"invited\"", "\"admin\"", "1"]);
    let log = server.stop_and_read_log();
    assert!(log.contains(file.to_str().unwrap()) && !log.contains("nok_"), "{log}");
    assert!(!log.contains(token), "{log}");

    // A later start prints nothing.
    let server = ServiceProcess::start(&wiring, &[]);
    created(server.as_key(&key).order("F-2").await).await;
    assert_eq!(server.stop("-INT"), (Some(0), String::new()));
    assert_eq!(run(&wiring, &["people", "list", "--json"]).lines().count(), 1);
}

/// A start that is killed between the issue and the name of the file.
#[tokio::test(flavor = "multi_thread")]
async fn start_finishes_the_file_of_a_first_key_that_was_issued() {
    let wiring = Wiring::embedded();
    let file = wiring.data().join("first-key");
    let first = ServiceProcess::start(&wiring, &[]);
    // The service takes requests before it issues the key.
    eventually(|| file.exists()).await;
    first.stop("-TERM");
    let key = fs::read_to_string(&file).unwrap();
    fs::rename(&file, wiring.data().join("first-key.killed")).unwrap();
    // A key that was not issued before its process was killed.
    let never = format!("{}\n", key.trim().chars().rev().collect::<String>());
    fs::write(wiring.data().join("first-key.early"), never).unwrap();

    let service = ServiceProcess::start(&wiring, &[]);
    created(service.as_key(key.trim()).order("F-1").await).await;
    eventually(|| fs::read_to_string(&file).is_ok_and(|found| found == key)).await;
    service.stop("-TERM");
    let third = ServiceProcess::start(&wiring, &[]);
    eventually(|| {
        let entries = fs::read_dir(wiring.data()).unwrap().map(|entry| entry.unwrap().file_name());
        entries
            .filter_map(|name| name.into_string().ok())
            .all(|name| !name.starts_with("first-key."))
    })
    .await;
    third.stop("-TERM");
    assert_eq!(run(&wiring, &["keys", "list", "--json"]).lines().count(), 1);
}

/// Of a start beside `keys issue`, one issues the first key, and the file has it or is not there.
#[tokio::test(flavor = "multi_thread")]
async fn start_beside_keys_issue_leaves_a_whole_file_or_none() {
    for _ in 0..4 {
        let wiring = Wiring::embedded();
        let issuing = notary_orders(&wiring, &["keys", "issue", "--name=operator"]).spawn();
        let service = ServiceProcess::start(&wiring, &[]);
        assert!(issuing.unwrap().wait().unwrap().success());
        let file = wiring.data().join("first-key");
        let trail = run(&wiring, &["keys", "trail"]);
        let is_first = trail.contains("first start");
        if is_first {
            eventually(|| file.exists()).await;
            let key = fs::read_to_string(&file).unwrap();
            created(service.as_key(key.trim()).order("F-1").await).await;
        }
        assert_eq!(file.exists(), is_first, "{trail}");
        service.stop("-TERM");
    }
}

#[test]
fn no_first_key_is_issued_if_it_cannot_be_written() {
    let wiring = Wiring::embedded();
    fs::create_dir_all(wiring.data().join("first-key")).unwrap();
    let start = output(&wiring, &[]);
    assert_eq!(start.status.code(), Some(2), "{start:?}");
    assert_eq!(run(&wiring, &["keys", "list", "--json"]), "");
}

#[tokio::test(flavor = "multi_thread")]
async fn first_start_on_a_terminal_shows_the_key_and_writes_none() {
    let wiring = Wiring::embedded();
    let command = notary_orders(&wiring, &[]);
    let mut terminal = on_a_terminal(&command).env_clear().spawn().unwrap();
    let mut lines = BufReader::new(terminal.stdout.take().unwrap()).lines().map(Result::unwrap);
    let link = lines.find(|line| line.contains("/console#welcome=")).unwrap();
    assert!(link.trim_start().starts_with("http://localhost:"), "{link}");
    let shown = lines.find(|line| line.starts_with("export API_KEY=")).unwrap();
    assert!(shown.starts_with("export API_KEY=nok_"), "{shown}");
    for file in ["first-key", "first-sign-in"] {
        assert!(!wiring.data().join(file).exists());
    }
    terminal.kill().unwrap();
    terminal.wait().unwrap();
}
