//! Invalid settings stop the start; `--help` lists every setting.

use std::{fs, process::Command};

use serde_json::Value;

use crate::harness::service_process::{error_of, text};

/// Returns a command of the binary with an empty environment.
fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_notary-orders"));
    command.env_clear().args(arguments);
    command
}

#[test]
fn invalid_setting_stops_the_start_by_name_with_its_status() {
    let data = tempfile::tempdir().unwrap();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let in_use = format!("--listen={}", listener.local_addr().unwrap());
    let unreachable = "--database-url=postgres://user:passw0rd@127.0.0.1:1/db";
    for (flag, setting) in [
        ("--listen=nowhere", "--listen"),
        (in_use.as_str(), "--listen"),
        ("--ops-listen=127.0.0.1", "--ops-listen"),
        ("--base-path=no slash", "--base-path"),
        ("--console=maybe", "--console"),
        ("--data-dir=/proc/nowhere", "--data-dir"),
        ("--database-url=mysql://user:passw0rd@host/db", "--database-url"),
        (unreachable, "--database-url"),
        ("--database-url=postgres://user:passw0rd@host:port/db", "--database-url"),
        ("--database-url=sqlite:///no/such/folder/db", "--database-url"),
        ("--database-url=sqlite:///no/such/folder/db?key=passw0rd", "the parameter key"),
        ("--mail-url=file:///proc/nowhere", "--mail-url"),
        ("--documents-url=file:///proc/nowhere", "--documents-url"),
        ("--database-connections=0", "--database-connections"),
        ("--documents-url=s3://bucket?key=passw0rd", "--documents-url"),
        ("--mail-url=smtp://user:passw0rd@host/path", "--mail-url"),
        ("--drain-secs=-1", "--drain-secs"),
        ("--documents-url=ftp://user:passw0rd@host", "--documents-url"),
        ("--mail-url=pigeon://user:passw0rd@host", "--mail-url"),
        ("--scan-url=http://user:passw0rd@host:3310", "--scan-url"),
        ("--scan-url=tcp://user:passw0rd@host:3310", "--scan-url"),
        ("--scan-required=maybe", "--scan-required"),
        ("--mail-from=nobody at all", "--mail-from"),
        ("--public-url=orders.example.com", "--public-url"),
        ("--oidc=Entra", "--oidc"),
        ("--oidc=Entra=http://login.example.com", "--oidc"),
        ("--oidc=Entra=https://user:passw0rd@login.example.com", "--oidc"),
        ("--oidc=Entra=https://login.example.com", "--oidc-client"),
        ("--oidc-secret=passw0rd", "--oidc-secret"),
        ("--oidc-secret-file=Entra=/no/file", "--oidc-secret-file"),
        ("--mails=none", "--mails"),
        ("--sends-messages=maybe", "--sends-messages"),
        ("--duplicate-window-secs=-1", "--duplicate-window-secs"),
        ("--rate-burst=many", "--rate-burst"),
        ("--rate-per-second=1.5", "--rate-per-second"),
        ("--max-uploads-in-flight=0", "--max-uploads-in-flight"),
        ("--connections-per-address=0", "--connections-per-address"),
        ("--spool-mb=0", "--spool-mb"),
        ("--trusted-proxies=proxy", "--trusted-proxies"),
        ("--secrets-key=passw0rd", "--secrets-key"),
        ("--webhook-allow=everything", "--webhook-allow"),
        ("--webhook-proxy=ftp://user:passw0rd@host:1", "--webhook-proxy"),
        ("--log-format=xml", "--log-format"),
        ("--tls-cert=/proc/nowhere", "--tls-cert"),
        ("--tls-key=/proc/nowhere", "--tls-key"),
    ] {
        let data = format!("--data-dir={}", data.path().display());
        let mut own = vec!["--listen=127.0.0.1:0", "--ops-listen=127.0.0.1:0", &data];
        own.retain(|own| !flag.starts_with(own.split('=').next().unwrap()));
        let output = command(&own).arg(flag).output().unwrap();
        // systemd restarts the service after 1, and not after 2.
        let status = if [&in_use, unreachable].contains(&flag) { 1 } else { 2 };
        assert_eq!(output.status.code(), Some(status), "{flag}");
        let error = error_of(output);
        assert!(
            error.lines().any(|line| line.starts_with("error: ") && line.contains(setting)),
            "{flag}: {error}"
        );
        assert!(!error.contains("passw0rd"), "{flag}: {error}");
    }
}

#[test]
fn wrong_variable_and_wrong_pair_have_the_status_of_a_wrong_setting() {
    let data = tempfile::tempdir().unwrap();
    fs::write(data.path().join("pem"), "no certificate").unwrap();
    let path = |name: &str| format!("{}/{name}", data.path().display());
    let own = [
        format!("--data-dir={}", path("data")),
        "--listen=127.0.0.1:0".to_owned(),
        "--ops-listen=127.0.0.1:0".to_owned(),
    ];
    for (variable, value) in [
        ("NOTARY_ORDERS_TLS_CERT", path("pem")),
        ("NOTARY_ORDERS_TLS_CERT", path("missing")),
        ("NOTARY_ORDERS_MAIL_FROM", "nobody at all".to_owned()),
    ] {
        let mut start = command(&own.each_ref().map(String::as_str));
        if variable.contains("TLS") {
            start.env("NOTARY_ORDERS_TLS_KEY", path("pem"));
        }
        let output = start.env(variable, &value).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{variable}={value}");
        let error = error_of(output);
        assert!(error.contains(variable), "{error}");
    }
}

#[test]
fn text_for_a_number_is_rejected_in_plain_words() {
    let error = error_of(command(&["--spool-mb=many"]).output().unwrap());
    assert!(error.contains("'--spool-mb <MIB>': must be a whole number from 1 to"), "{error}");
    assert!(!error.contains("digit"), "{error}");
}

/// Also while the database is away, or a file or folder that is there cannot be used.
#[test]
fn every_wrong_setting_has_its_status() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| format!("{}/{name}", folder.path().display());
    fs::write(path("text"), "no database, but a text of some length").unwrap();
    fs::create_dir_all(path("damaged")).unwrap();
    fs::write(path("damaged/secrets.key"), "half").unwrap();
    fs::create_dir_all(path("closed/secrets.key")).unwrap();
    let text = format!("--database-url=sqlite://{}", path("text"));
    let [damaged, closed] = ["damaged", "closed"].map(|name| format!("--data-dir={}", path(name)));
    let away = "--database-url=postgres://user@127.0.0.1:1/db";
    for (flags, cause) in [
        (&["--documents-url=file:///sys"][..], "--documents-url"),
        (&["--mail-url=file:///sys"], "--mail-url"),
        (&["--database-url=sqlite:///sys"], "--database-url"),
        (&["--database-url=sqlite:///no/such/folder/db?mode=rwc"], "the parameter mode"),
        (&[&*text], "file is not a database"),
        (&[&*damaged], "secrets.key: must be 32 bytes"),
        (&[&*closed], "secrets.key: Is a directory"),
        (
            &["--listen=127.0.0.1:9", "--ops-listen=0.0.0.0:9"],
            "--ops-listen (NOTARY_ORDERS_OPS_LISTEN): --listen",
        ),
        (&[away, "--mail-from=nobody at all"], "--mail-from"),
        (&[away, "--documents-url=ftp://host"], "--documents-url"),
        (&[away, "--secrets-key=short"], "--secrets-key"),
        (&[away, "--webhook-proxy=host"], "--webhook-proxy"),
        (&[away, "--scan-url=host"], "--scan-url"),
        (&[away, "--oidc=Entra=https://login.example.com"], "add Entra="),
        (&[away, "--mail-url=host"], "--mail-url"),
    ] {
        let data = format!("--data-dir={}", path("data"));
        let mut own = vec!["--listen=127.0.0.1:0", "--ops-listen=127.0.0.1:0", &data];
        own.retain(|own| !flags.iter().any(|flag| flag.split('=').next() == own.split('=').next()));
        let output = command(&own).args(flags).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{flags:?} {output:?}");
        let error = error_of(output);
        assert!(error.contains(cause), "{flags:?}: {error}");
    }
}

#[test]
fn wrong_argument_has_the_status_of_a_wrong_setting() {
    let folder = tempfile::tempdir().unwrap();
    let data = format!("--data-dir={}", folder.path().join("data").display());
    let full = folder.path().to_str().unwrap();
    assert!(command(&[&data, "keys", "issue", "--name=test"]).status().unwrap().success());
    let long = format!("--name={}", "x".repeat(200));
    for arguments in [
        &["keys", "issue", "--name="][..],
        &["keys", "issue", "--name=two\nlines"],
        &["keys", "issue", &long],
        &["deliveries", "retry", "foo"],
        &["deliveries", "retry", "wfoo"],
        &["orders", "list", "--signing-date-from=2026-12-02", "--signing-date-to=2026-12-01"],
        &["webhooks", "create", "--client=1", "--url=ftp://host"],
        &["webhooks", "create", "--client=1", "--url=https://1.1.1.1/", "--event=nope"],
        &["copy", "--from=sqlite:///missing", "--to=postgres://user@127.0.0.1:1/db"],
        &["backup", full],
        &["backup", "/proc/nowhere"],
        &["backup", "/proc/version"],
        &["restore", "/nowhere"],
        &["--database-url=foo", "backup", "/nowhere"],
        &["--documents-url=zzz", "backup", "/nowhere"],
    ] {
        let output = command(&[&data]).args(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?} {output:?}");
        let error = error_of(output);
        if let Some((setting, _)) = arguments[0].split_once('=') {
            assert!(error.contains(setting), "{arguments:?}: {error}");
        }
    }
}

#[test]
fn wrong_listening_address_is_answered_with_examples() {
    let error = error_of(command(&["--listen=8080"]).output().unwrap());
    assert!(error.contains("such as 127.0.0.1:8080, localhost:8080 or :8080"), "{error}");
}

/// Every setting in the help of every command would hide the options of the command.
#[test]
fn help_of_a_command_shows_its_own_options() {
    for (words, own) in [
        ("keys issue", "--signing-service"),
        ("keys list", "--json"),
        ("orders erase", "--older-than"),
        ("webhooks replay", "--since"),
        ("backup", "<FOLDER>"),
        ("serve", "--help"),
        ("doctor", "--json"),
    ] {
        let help: Vec<_> = words.split(' ').chain(["--help"]).collect();
        let help = text(command(&help).output().unwrap());
        assert!(help.contains(own) && help.contains("`notary-orders --help`"), "{help}");
        assert!(!help.contains("--database-url") && help.lines().count() < 60, "{words}: {help}");
    }
}

/// The log of a service manager keeps error messages, so they must not repeat a password.
#[test]
fn misplaced_password_is_not_repeated() {
    for arguments in [
        ["--database-url=", "postgres://user:se/cr@et-passw0rd@host/db"],
        ["serve", "postgres://user:passw0rd@host/db"],
        ["serve", "postgres://host/db?password=sec@passw0rd"],
        ["--database-connections", "postgres://user:passw0rd@host/db"],
        ["--listen", "smtp://user:passw0rd@host"],
        ["--databse-url=postgres://user:passw0rd@host/db", "serve"],
        ["copy", "--from=postgres://user:passw0rd@host/db"],
        ["--data-dir=/proc/nowhere", "--database-url=postgres://user:passw0rd@host:port/db"],
    ] {
        let output = command(&arguments).output().unwrap();
        let printed = String::from_utf8(output.stdout.clone()).unwrap() + &error_of(output);
        assert!(printed.contains("error: "), "{arguments:?}: {printed}");
        assert!(!printed.contains("passw0rd"), "{arguments:?}: {printed}");
    }
}

/// Environment files often name a variable without a value.
#[test]
fn blank_variable_is_absent() {
    let openapi = || command(&["openapi"]);
    let help = text(command(&["--help"]).output().unwrap());
    let variables: Vec<&str> = help
        .split("[env: ")
        .skip(1)
        .map(|rest| rest.split_once(']').unwrap().0.trim_end_matches('='))
        .collect();
    assert!(variables.len() >= 20 && variables.contains(&"DATABASE_URL"), "{variables:?}");
    let expected = openapi().output().unwrap();
    for blank in ["", " \t"] {
        let output = openapi().envs(variables.iter().map(|name| (name, blank))).output().unwrap();
        assert_eq!(output, expected);
    }
}

#[test]
fn unknown_variable_is_named_with_the_nearest() {
    let variables = [
        ("NOTARY_ORDERS_DOCUMENT_URL", "s3://user:passw0rd@bucket"),
        ("NOTARY_ORDERS_SERVICE_HOST", "10.0.0.1"),
        ("NOTARY_ORDERS_BLANK", ""),
        ("NOTARY_ORDERS_LOG_LEVEL", "info"),
        ("ANOTHER_PROGRAM", "1"),
    ];
    let output = command(&["openapi"]).envs(variables).output().unwrap();
    assert!(output.status.success());
    let log = String::from_utf8(output.stderr).unwrap();
    let warnings: Vec<Value> =
        log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let named: Vec<_> = warnings.iter().map(|line| (&line["variable"], &line["nearest"])).collect();
    assert_eq!(
        named,
        [
            (&"NOTARY_ORDERS_DOCUMENT_URL".into(), &"NOTARY_ORDERS_DOCUMENTS_URL".into()),
            (&"NOTARY_ORDERS_SERVICE_HOST".into(), &Value::Null),
        ]
    );
    assert!(!log.contains("passw0rd"), "{log}");
}

#[test]
fn help_lists_settings_without_their_values() {
    let secret = ("DATABASE_URL", "postgres://user:passw0rd@host/db");
    let help = text(command(&["--help"]).envs([secret]).output().unwrap());
    for (flag, variable, default) in [
        ("--listen", "NOTARY_ORDERS_LISTEN", "127.0.0.1:8080"),
        ("--ops-listen", "NOTARY_ORDERS_OPS_LISTEN", "127.0.0.1:8081"),
        ("--base-path", "NOTARY_ORDERS_BASE_PATH", ""),
        ("--data-dir", "NOTARY_ORDERS_DATA_DIR", "[default: data]"),
        ("--database-url", "DATABASE_URL", "notary-orders.sqlite"),
        ("--database-connections", "NOTARY_ORDERS_DATABASE_CONNECTIONS", "16"),
        ("--documents-url", "NOTARY_ORDERS_DOCUMENTS_URL", "documents in the data directory"),
        ("--mail-url", "NOTARY_ORDERS_MAIL_URL", "mail in the data directory"),
        ("--scan-url", "NOTARY_ORDERS_SCAN_URL", "documents are not scanned"),
        ("--scan-required", "NOTARY_ORDERS_SCAN_REQUIRED", "[default: true]"),
        ("--mail-from", "NOTARY_ORDERS_MAIL_FROM", "orders@localhost"),
        ("--public-url", "NOTARY_ORDERS_PUBLIC_URL", "mails have no link"),
        ("--mails", "NOTARY_ORDERS_MAILS", "full"),
        ("--mail-settle-secs", "NOTARY_ORDERS_MAIL_SETTLE_SECS", "30"),
        ("--session-idle-mins", "NOTARY_ORDERS_SESSION_IDLE_MINS", "60"),
        ("--session-hours", "NOTARY_ORDERS_SESSION_HOURS", "12"),
        ("--console-keys", "NOTARY_ORDERS_CONSOLE_KEYS", "[default: true]"),
        ("--oidc", "NOTARY_ORDERS_OIDC", "NAME=ISSUER"),
        ("--oidc-client", "NOTARY_ORDERS_OIDC_CLIENT", "NAME=CLIENT_ID"),
        ("--oidc-secret", "NOTARY_ORDERS_OIDC_SECRET", "it has none there"),
        ("--oidc-secret-file", "NOTARY_ORDERS_OIDC_SECRET_FILE", "NAME=FILE"),
        ("--duplicate-window-secs", "NOTARY_ORDERS_DUPLICATE_WINDOW_SECS", "60"),
        ("--rate-per-second", "NOTARY_ORDERS_RATE_PER_SECOND", "50"),
        ("--rate-burst", "NOTARY_ORDERS_RATE_BURST", "100"),
        ("--reads-rate-per-second", "NOTARY_ORDERS_READS_RATE_PER_SECOND", "100"),
        ("--reads-rate-burst", "NOTARY_ORDERS_READS_RATE_BURST", "200"),
        ("--drain-secs", "NOTARY_ORDERS_DRAIN_SECS", "5, or 0 on a terminal"),
        ("--log-format", "NOTARY_ORDERS_LOG_FORMAT", "pretty on a terminal"),
    ] {
        assert!(help.contains(flag) && help.contains(variable) && help.contains(default), "{flag}");
    }
    assert!(!help.contains("passw0rd"));
}
