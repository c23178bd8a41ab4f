//! The output of the first start, and the commands of README that follow it.

use std::{
    fs,
    io::BufRead as _,
    os::unix::fs::symlink,
    path::Path,
    process::{Command, Output},
};

use crate::{
    harness::{client, created},
    service_process::ServiceProcess,
    wiring::Wiring,
};

/// Starts a service, and returns it with the lines that it prints, of which the last is a command,
/// and the key.
fn first_start(wiring: &Wiring) -> (ServiceProcess, Vec<String>, String) {
    let mut server = ServiceProcess::start(wiring, &[]);
    let mut lines = Vec::new();
    while !lines.last().is_some_and(|line: &String| line.starts_with("curl ")) {
        let mut line = String::new();
        assert_ne!(server.stdout.read_line(&mut line).unwrap(), 0, "{lines:?}");
        lines.push(line);
    }
    let key = lines.iter().find_map(|line| line.strip_prefix("export API_KEY=")).unwrap().trim();
    let key = key.to_owned();
    (server, lines, key)
}

/// Runs a command of a user.
async fn shell(command: String, key: &str, folder: &Path) -> Output {
    let mut shell = Command::new("sh");
    shell.args(["-c", &command]).env("API_KEY", key).current_dir(folder);
    tokio::task::spawn_blocking(move || shell.output()).await.unwrap().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn first_start_prints_key_and_working_curl_line() {
    let wiring = Wiring::new();
    let (server, lines, key) = first_start(&wiring);
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
    let executed = shell(curl.replace("curl -i", "curl -s -i"), &key, wiring.data()).await;
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

#[tokio::test(flavor = "multi_thread")]
async fn commands_of_readme_work_after_the_one_of_the_terminal() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
    let wiring = Wiring::new();
    let (server, lines, key) = first_start(&wiring);
    let readme = fs::read_to_string(root.join("README.md")).unwrap();
    let readme = readme.replace("127.0.0.1:8080", &server.address.to_string());
    let blocks = readme.split("```sh\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    let commands: Vec<_> = blocks
        .filter(|block| block.contains("/api/order") && !block.contains("cargo run"))
        .map(str::to_owned)
        .collect();
    let [create, create_with_documents, read] = &commands[..] else { panic!("{commands:?}") };
    let folder = tempfile::tempdir().unwrap();
    symlink(root.join("docs"), folder.path().join("docs")).unwrap();
    let saved = || {
        let names = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name());
        names.filter(|name| name != "docs").collect::<Vec<_>>()
    };
    let run = async |command: &str| {
        let output = shell(command.to_owned(), &key, folder.path()).await;
        (output.status.success(), String::from_utf8(output.stdout).unwrap())
    };
    assert!(run(lines.last().unwrap()).await.1.starts_with("HTTP/1.1 201"));
    assert!(!run(read).await.0, "there is no such order yet");
    assert_eq!(saved(), Vec::<std::ffi::OsString>::new(), "a problem is no document");
    for command in [create, create_with_documents] {
        let (_, answer) = run(command).await;
        assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");
    }
    let (succeeded, answer) = run(read).await;
    assert!(succeeded && answer.contains("PURCHASE-2026-002"), "{answer}");
    let name = "deed-of-trust.pdf";
    assert_eq!(saved(), [name]);
    let sent = fs::read(root.join("docs/examples").join(name)).unwrap();
    assert!(fs::read(folder.path().join(name)).unwrap() == sent);
}
