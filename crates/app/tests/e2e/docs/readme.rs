//! The commands of README, after those that the first start prints.

use std::{
    env,
    fs::{self, Permissions},
    io::BufRead as _,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::Value;

use crate::{
    harness::service_process::{ServiceProcess, notary_orders, run, text},
    webhooks::listen::Listening,
    wiring::Wiring,
};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn readme() -> String {
    fs::read_to_string(root().join("README.md")).unwrap()
}

fn webhooks_guide() -> String {
    fs::read_to_string(root().join("docs/webhooks.md")).unwrap()
}

/// Returns the blocks of a text in a language.
fn blocks<'a>(text: &'a str, language: &str) -> Vec<&'a str> {
    let begin = format!("```{language}\n");
    text.split(&*begin).skip(1).map(|rest| rest.split("```").next().unwrap()).collect()
}

/// Returns what the first start prints.
fn first_words(server: &mut ServiceProcess) -> String {
    let mut printed = String::new();
    while !printed.contains("\ncurl ") {
        assert_ne!(server.stdout.read_line(&mut printed).unwrap(), 0, "{printed}");
    }
    printed
}

/// Returns the line that exports the first key.
fn export(printed: &str) -> &str {
    printed.lines().find(|line| line.starts_with("export API_KEY=")).unwrap()
}

#[test]
fn commands_of_readme_work_in_any_order_after_the_one_of_the_terminal() {
    for documents_first in [false, true] {
        run_commands(documents_first);
    }
}

#[test]
fn program_of_the_archive_starts_and_shows_an_order_with_a_key() {
    let readme = readme();
    let start = blocks(&readme, "sh").into_iter().find(|block| block.contains("tar ")).unwrap();
    // The content of the archive is the concern of `packaging.rs`.
    let folder = tempfile::tempdir().unwrap();
    let (program, description) = (folder.path().join("program"), folder.path().join("description"));
    let script = format!("#!/bin/sh\nexec {} \"$@\"\n", env!("CARGO_BIN_EXE_notary-orders"));
    fs::write(&program, script).unwrap();
    fs::create_dir(&description).unwrap();
    let mut pack = Command::new(root().join("scripts/release/pack.sh"));
    pack.arg(program).arg("x86_64").arg(description).arg(folder.path());
    assert!(pack.output().unwrap().status.success());
    let mut shell = Command::new("sh");
    shell.args(["-e", "-c", &start.replace("./notary-orders", "exec ./notary-orders")]);
    shell.current_dir(folder.path());
    shell.envs([
        ("NOTARY_ORDERS_LISTEN", "127.0.0.1:0"),
        ("NOTARY_ORDERS_OPS_LISTEN", "127.0.0.1:0"),
    ]);
    shell.env("NOTARY_ORDERS_LOG_FORMAT", "json");
    let mut service = ServiceProcess::spawn(shell);
    assert!(!export(&first_words(&mut service)).is_empty());
}

#[test]
fn readme_installs_what_the_archive_has_for_shells() {
    let readme = readme();
    let install = blocks(&readme, "sh").into_iter().find(|block| block.contains("man1/")).unwrap();
    let describe = fs::read_to_string(root().join("scripts/release/describe.sh")).unwrap();
    for line in install.lines() {
        let file = line.split_whitespace().nth(5).unwrap();
        assert!(describe.contains(&format!("/{file}\"")), "{file}");
    }
}

#[test]
fn image_of_readme_has_its_port_folder_and_version() {
    let (readme, dockerfile) = (readme(), fs::read_to_string(root().join("Dockerfile")).unwrap());
    let run = blocks(&readme, "sh").into_iter().find(|block| block.contains("docker run")).unwrap();
    let setting = |name: &str| {
        let (_, rest) = dockerfile.split_once(&format!("{name}=")).unwrap();
        rest.split_whitespace().next().unwrap()
    };
    let (_, port) = setting("NOTARY_ORDERS_LISTEN").split_once(':').unwrap();
    for (expected, count) in [
        (format!("127.0.0.1:8080:{port} "), 1),
        (format!(":{} ", setting("NOTARY_ORDERS_DATA_DIR")), 2),
        (format!("/notary-orders:{}", env!("CARGO_PKG_VERSION")), 2),
    ] {
        assert_eq!(run.matches(&expected).count(), count, "{expected}: {run}");
    }
}

/// A script replaces the engine: it runs the program without the image and what is before it.
#[test]
fn key_of_the_image_is_of_the_only_client() {
    let (wiring, readme) = (Wiring::embedded(), readme());
    let start =
        blocks(&readme, "sh").into_iter().find(|block| block.contains("docker run")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let engine = folder.path().join("docker");
    let program = notary_orders(&wiring, &[]);
    let script = "#!/bin/sh\ncase $* in *--detach*) exit;; esac\n\
        while case $1 in */notary-orders:*.*.*) false;; esac; do shift; done\nshift\nexec";
    let script = format!("{script} {:?} \"$@\"\n", program.get_program());
    fs::write(&engine, script).unwrap();
    fs::set_permissions(&engine, Permissions::from_mode(0o755)).unwrap();
    let mut shell = Command::new("sh");
    shell.args(["-e", "-c", &format!("{start}\necho \"$API_KEY\"")]);
    shell.env("PATH", format!("{}:{}", folder.path().display(), env::var("PATH").unwrap()));
    shell.env("NOTARY_ORDERS_DATA_DIR", wiring.data());
    let key = text(shell.output().unwrap());
    assert!(key.starts_with("nok_"), "{key}");

    let guide = webhooks_guide();
    let server = ServiceProcess::start(&wiring, &options(&guide, "--webhook-allow"));
    assert!(!wiring.data().join("first-key").exists(), "the start issues no other key");
    let keys = run(&wiring, &["keys", "list", "--json"]);
    let keys: Vec<Value> = keys.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(matches!(&keys[..], [key] if key["client"] == 1), "{keys:?}");
    let listen = [&options(&guide, "webhooks listen")[..], &["--port=0"]].concat();
    let listening = Listening::ready(notary_orders(&wiring, &listen));
    assert_eq!(listening.stop("-INT").0, Some(0));
    drop(server);
}

fn run_commands(documents_first: bool) {
    let root = root();
    let wiring = Wiring::embedded();
    let mut server = ServiceProcess::start(&wiring, &[]);
    let printed = first_words(&mut server);
    let key = export(&printed);
    let readme = readme().replace("127.0.0.1:8080", &server.address.to_string());
    let commands: Vec<_> = blocks(&readme, "sh")
        .into_iter()
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

/// Returns the options of the block of README that starts the program so.
fn options<'a>(readme: &'a str, option: &str) -> Vec<&'a str> {
    let blocks = blocks(readme, "sh");
    let block = blocks.iter().find(|block| block.contains(option)).unwrap();
    let words = block.split_whitespace();
    words.skip_while(|word| !["notary-orders", "--"].contains(word)).skip(1).collect()
}

/// Returns the members of an object, and of the objects in it.
fn members(value: &Value) -> Vec<&String> {
    let of_this = value.as_object().into_iter().flatten();
    of_this.flat_map(|(name, value)| [vec![name], members(value)].concat()).collect()
}

#[test]
fn receiver_of_the_guide_prints_its_order_after_those_of_readme() {
    let (wiring, readme, guide) = (Wiring::embedded(), readme(), webhooks_guide());
    let mut server = ServiceProcess::start(&wiring, &options(&guide, "--webhook-allow"));
    let printed = first_words(&mut server);
    // The port may be in use on this machine.
    let listen = [&options(&guide, "webhooks listen")[..], &["--port=0"]].concat();
    let mut listening = Listening::ready(notary_orders(&wiring, &listen));
    let create = |text: &str| {
        let text = text.replace("127.0.0.1:8080", &server.address.to_string());
        let block = blocks(&text, "sh").into_iter().find(|it| it.contains("/api/order/create "));
        let command = format!("{}\n{}", export(&printed), block.unwrap());
        assert!(Command::new("sh").args(["-c", &command]).status().unwrap().success());
    };
    create(&readme);
    assert_eq!(listening.event()["data"]["file_number"], "REFI-2026-001");

    create(&guide);
    let event = listening.event();
    let shown = blocks(&guide, "json").into_iter().find(|it| it.contains("order.created"));
    let shown: Value = serde_json::from_str(shown.unwrap()).unwrap();
    assert_eq!(members(&event), members(&shown));
    assert_eq!(event["data"]["file_number"], shown["data"]["file_number"]);
    assert_eq!(listening.stop("-INT").0, Some(0));
}
