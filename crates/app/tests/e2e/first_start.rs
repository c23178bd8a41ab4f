//! The output of the first start.

use std::{io::BufRead as _, process::Command};

use crate::{
    harness::{client, created},
    service_process::ServiceProcess,
    wiring::Wiring,
};

#[tokio::test(flavor = "multi_thread")]
async fn first_start_prints_key_and_working_curl_line() {
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
    created(server.as_key(&key).order("F-1").await).await;
    let text = lines.concat();
    for place in ["notary-orders.sqlite", "documents", "mail"].map(|name| wiring.data().join(name))
    {
        assert!(place.exists() && text.contains(place.to_str().unwrap()), "{text}");
    }
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
    assert_eq!(server.stop("-TERM").0, Some(0));

    // A later start prints nothing.
    let server = ServiceProcess::start(&wiring, &[]);
    created(server.as_key(&key).order("F-2").await).await;
    assert_eq!(server.stop("-INT"), (Some(0), String::new()));
}
