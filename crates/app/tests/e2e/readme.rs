//! The commands of README, after those that the first start prints.

use std::{fs, io::BufRead as _, os::unix::fs::symlink, path::Path, process::Command};

use crate::{service_process::ServiceProcess, wiring::Wiring};

#[test]
fn commands_of_readme_work_in_any_order_after_the_one_of_the_terminal() {
    for documents_first in [false, true] {
        run_commands(documents_first);
    }
}

fn run_commands(documents_first: bool) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
    let wiring = Wiring::new();
    let mut server = ServiceProcess::start(&wiring, &[]);
    let mut printed = String::new();
    while !printed.contains("\ncurl ") {
        assert_ne!(server.stdout.read_line(&mut printed).unwrap(), 0, "{printed}");
    }
    let key = printed.lines().find(|line| line.starts_with("export API_KEY=")).unwrap();
    let readme = fs::read_to_string(root.join("README.md")).unwrap();
    let readme = readme.replace("127.0.0.1:8080", &server.address.to_string());
    let blocks = readme.split("```sh\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    let commands: Vec<_> = blocks
        .filter(|block| block.contains("/api/order") && !block.contains("cargo run"))
        .collect();
    let [create, create_with_documents, read] = commands[..] else { panic!("{commands:?}") };
    let folder = tempfile::tempdir().unwrap();
    symlink(root.join("docs"), folder.path().join("docs")).unwrap();
    let saved = || {
        let names = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name());
        names.filter(|name| name != "docs").collect::<Vec<_>>()
    };
    let run = |command: &str| {
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("{key}\n{command}")]).current_dir(folder.path());
        let output = shell.output().unwrap();
        (output.status.success(), String::from_utf8(output.stdout).unwrap())
    };
    assert!(run(printed.lines().last().unwrap()).1.starts_with("HTTP/1.1 201"));
    assert_eq!(run(read), (false, String::new()), "there is no such order yet");
    assert!(saved().is_empty(), "a problem is no document: {:?}", saved());
    let mut creating = [create, create_with_documents];
    if documents_first {
        creating.reverse();
    }
    for command in creating {
        let (_, answer) = run(command);
        assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");
    }
    for _ in 0..2 {
        let (succeeded, answer) = run(read);
        assert!(succeeded && answer.contains("PURCHASE-2026-002"), "{answer}");
    }
    let name = "deed-of-trust.pdf";
    assert_eq!(saved(), [name]);
    let sent = fs::read(root.join("docs/examples").join(name)).unwrap();
    assert!(fs::read(folder.path().join(name)).unwrap() == sent);
}
