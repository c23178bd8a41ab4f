//! The output of the first start.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    os::unix::fs::PermissionsExt as _,
    process::Command,
};

use crate::{
    harness::service_process::{ServiceProcess, notary_orders, on_a_terminal, output, run},
    harness::{client, created},
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
    let log = server.stop_and_read_log();
    assert!(log.contains(file.to_str().unwrap()) && !log.contains("nok_"), "{log}");

    // A later start prints nothing.
    let server = ServiceProcess::start(&wiring, &[]);
    created(server.as_key(&key).order("F-2").await).await;
    assert_eq!(server.stop("-INT"), (Some(0), String::new()));
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
    let shown = lines.find(|line| line.starts_with("export API_KEY=")).unwrap();
    assert!(shown.starts_with("export API_KEY=nok_"), "{shown}");
    assert!(!wiring.data().join("first-key").exists());
    terminal.kill().unwrap();
    terminal.wait().unwrap();
}
