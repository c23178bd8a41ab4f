//! What a newcomer meets.

use std::{io::BufRead as _, process::Command};

use crate::{harness::created, service_process::ServiceProcess, wiring::Wiring};

#[tokio::test(flavor = "multi_thread")]
async fn the_first_start_shows_a_key_and_a_curl_line_that_works_and_later_ones_do_not() {
    let wiring = Wiring::new();
    let mut server = ServiceProcess::start(&wiring, &[]);
    let mut lines = Vec::new();
    while !lines.last().is_some_and(|line: &String| line.starts_with("curl ")) {
        let mut line = String::new();
        assert_ne!(server.stdout.read_line(&mut line).unwrap(), 0, "{lines:?}");
        lines.push(line);
    }
    let key = lines
        .iter()
        .find_map(|line| line.strip_prefix("export API_KEY="))
        .unwrap()
        .trim()
        .to_owned();
    created(server.post(&key, "F-1").await).await;
    let curl = lines.last().unwrap().clone();
    let pasted = tokio::task::spawn_blocking(move || {
        Command::new("sh").arg("-c").arg(curl.replace("curl -i", "curl -s -i")).output()
    })
    .await
    .unwrap()
    .unwrap();
    let answer = String::from_utf8(pasted.stdout).unwrap();
    assert!(
        answer.starts_with("HTTP/1.1 201"),
        "{answer} {}",
        String::from_utf8_lossy(&pasted.stderr)
    );
    assert_eq!(server.stop("-TERM").0, Some(0));

    let server = ServiceProcess::start(&wiring, &[]);
    created(server.post(&key, "F-2").await).await;
    assert_eq!(server.stop("-INT"), (Some(0), String::new()));
}
