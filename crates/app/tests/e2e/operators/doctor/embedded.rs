//! `doctor` on the embedded default.

use std::{
    collections::BTreeMap,
    fs::{self, Permissions},
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    process::Command,
};

use crate::{
    harness::service_process::{ServiceProcess, notary_orders, output, run},
    harness::small_disk::{SmallDisk, done_with_mounts_of_its_own},
    harness::{created, files_below},
    operators::doctor::report::Report,
    wiring::Wiring,
};

/// Every check, in the order of the report.
const CHECKS: [&str; 11] = [
    "settings",
    "database",
    "documents",
    "mail",
    "webhooks",
    "tzdata",
    "disk",
    "encryption",
    "files",
    "proxies",
    "passkeys",
];

fn on_data(data: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_notary-orders"));
    command.env_clear().arg("--data-dir").arg(data);
    command.args(["--listen=127.0.0.1:0", "--ops-listen=127.0.0.1:0", "doctor"]);
    command
}

#[test]
fn fresh_machine_has_one_line_for_each_check_and_nothing_is_made() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let output = on_data(&data).output().unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{printed}");
    let mut checks: Vec<_> =
        printed.lines().map(|line| line.split_whitespace().nth(1).unwrap()).collect();
    checks.dedup();
    assert_eq!(checks, CHECKS, "{printed}");
    let is_level = |line: &str| ["ok  ", "warn"].iter().any(|level| line.starts_with(level));
    assert!(printed.lines().all(is_level), "{printed}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

/// Returns the files and folders in a folder with their modes, and the bytes of the files.
fn contents(folder: &Path) -> BTreeMap<PathBuf, (u32, Option<Vec<u8>>)> {
    let folders = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let described = |path: PathBuf| {
        let (mode, bytes) = (fs::metadata(&path).unwrap().mode(), fs::read(&path).ok());
        (path, (mode, bytes))
    };
    folders.chain(files_below(folder)).map(described).collect()
}

/// Returns a command that may not do what the modes of its own files forbid. Root may.
fn bound_by_modes(command: Command) -> Command {
    if fs::metadata("/proc/self").unwrap().uid() != 0 {
        return command;
    }
    let mut setpriv = Command::new("setpriv");
    setpriv.env_clear().args(["--bounding-set=-all", "--inh-caps=-all"]);
    setpriv.arg(command.get_program()).args(command.get_args());
    setpriv
}

#[test]
fn database_that_cannot_be_used_stays_as_it_is() {
    let wirings = [(); 3].map(|()| Wiring::embedded());
    let paths = wirings.each_ref().map(|wiring| wiring.data().join("notary-orders.sqlite"));
    let [read_only, foreign, empty] = &wirings;
    run(read_only, &["migrate"]);
    fs::set_permissions(&paths[0], Permissions::from_mode(0o400)).unwrap();
    // Its journal is deleted at each commit, until another program switches it to WAL.
    foreign.execute("CREATE TABLE recipes (name TEXT)").unwrap();
    fs::write(&paths[2], "").unwrap();
    for (wiring, level, expected) in [
        (read_only, "fail", "cannot be used"),
        (foreign, "fail", "belongs to another program"),
        (empty, "warn", "lacks"),
    ] {
        let before = contents(wiring.data());
        let command = notary_orders(wiring, &["doctor", "--json"]);
        let report = Report::of(bound_by_modes(command));
        assert!(report.found(level, "database").contains(expected), "{}", report.text);
        assert!(contents(wiring.data()) == before, "{expected}: {}", report.text);
    }
    let report = Report::on(foreign, &[]);
    assert!(report.text.contains("Correct --data-dir"), "{}", report.text);
    assert!(!report.text.contains("Repair the database"), "{}", report.text);
}

#[tokio::test(flavor = "multi_thread")]
async fn running_service_is_undisturbed() {
    let wiring = Wiring::embedded();
    let server = ServiceProcess::keyed(&wiring, &[]);
    created(server.order_with_deed("F-1").await).await;
    let before = files_below(&wiring.data().join("documents"));

    let report = Report::on(&wiring, &[]);

    assert_eq!(report.failed(), [""; 0], "{}", report.text);
    assert!(report.found("ok", "database").contains("every migration"), "{}", report.text);
    assert_eq!(files_below(&wiring.data().join("documents")), before);
    created(server.order("F-2").await).await;
    assert_eq!(server.stop("-TERM").0, Some(0));
}

#[test]
fn every_broken_part_is_named_beside_the_others() {
    let wiring = Wiring::embedded();
    run(&wiring, &["migrate"]);
    let data = wiring.data();
    fs::write(data.join("notary-orders.sqlite"), "no database, but some longer text").unwrap();
    fs::write(data.join("documents"), "no folder").unwrap();
    fs::write(data.join("secrets.key"), "half").unwrap();
    let flags = [
        "--mail-from=nobody at all",
        "--scan-url=tcp://127.0.0.1:1",
        "--trusted-proxies=0.0.0.0/0",
        "--webhook-proxy=ftp://user:passw0rd@host:1",
        "--tls-cert=/no/certificate",
    ];

    let report = Report::on(&wiring, &flags);

    let failed = "database documents mail scanner webhooks disk certificate proxies";
    assert_eq!(report.failed().join(" "), failed, "{}", report.text);
    assert_eq!(report.found("fail", "webhooks").lines().count(), 2, "{}", report.text);
    assert!(report.text.contains("error: 9 checks failed"), "{}", report.text);
    assert!(!report.text.contains("passw0rd"), "{}", report.text);
    assert_eq!(fs::read_to_string(data.join("secrets.key")).unwrap(), "half");
}

#[test]
fn wrong_variables_are_reported_and_the_rest_is_checked() {
    let wiring = Wiring::embedded();
    let mut command = notary_orders(&wiring, &["doctor", "--json"]);
    command.envs([
        ("NOTARY_ORDERS_SHUTDOWN_GRACE_SECS", "-1"),
        ("NOTARY_ORDERS_LOG_FORMAT", "xml"),
        ("NOTARY_ORDERS_TRUSTED_PROXIES", "postgres://user:passw0rd@host"),
        ("NOTARY_ORDERS_MAIL_FORM", "orders@example.com"),
    ]);
    let report = Report::of(command);
    let failures = report.found("fail", "settings");
    for setting in ["--shutdown-grace-secs", "--log-format", "--trusted-proxies"] {
        assert!(failures.contains(setting), "{}", report.text);
    }
    assert!(report.found("warn", "settings").contains("NOTARY_ORDERS_MAIL_FORM"));
    assert!(report.text.contains("NOTARY_ORDERS_MAIL_FROM"), "{}", report.text);
    assert!(!report.text.contains("passw0rd"), "{}", report.text);
    assert_eq!(report.failed(), ["settings"]);
    assert_ne!(report.found("ok", "database"), "", "{}", report.text);

    // Other commands stop.
    let mut other = notary_orders(&wiring, &["openapi"]);
    let other = other.env("NOTARY_ORDERS_LOG_FORMAT", "xml").output().unwrap();
    assert_eq!(other.status.code(), Some(2));
    // A flag is a mistake of this command.
    assert_eq!(output(&wiring, &["doctor", "--log-format=xml"]).status.code(), Some(2));
}

#[test]
fn full_and_read_only_folders_are_failures() {
    let test = "full_and_read_only_folders_are_failures";
    if done_with_mounts_of_its_own(module_path!(), test) {
        return;
    }
    let wiring = Wiring::embedded();
    run(&wiring, &["migrate"]);
    let disk = SmallDisk::at(&wiring.data().join("spool"), 100);
    let report = Report::on(&wiring, &[]);
    assert_eq!(report.failed(), [""; 0], "{}", report.text);
    assert!(report.doubted().contains(&"disk"), "{}", report.text);

    disk.fill();
    let report = Report::on(&wiring, &[]);
    assert_eq!(report.failed(), ["disk"], "{}", report.text);
    assert!(report.found("fail", "disk").contains("spool"), "{}", report.text);
    disk.clear();

    let mut remount = Command::new("mount");
    remount.args(["-o", "remount,ro"]).arg(wiring.data().join("spool"));
    assert!(remount.status().unwrap().success());
    let report = Report::on(&wiring, &[]);
    assert_eq!(report.failed(), ["disk"], "{}", report.text);
    assert!(report.found("fail", "disk").contains("Read-only"), "{}", report.text);
}
