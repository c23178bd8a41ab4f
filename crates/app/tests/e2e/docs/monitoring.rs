//! The dashboard, the alerts and the documentation name what a running service exports.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::{Value, json};
use test_servers::tools;

use crate::{
    harness::service_process::{ServiceProcess, issue_key, text},
    harness::{created, order},
    wiring::Wiring,
};

/// The labels of each metric, and their values.
type Exported = BTreeMap<String, BTreeMap<String, BTreeSet<String>>>;

fn packaging(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging").join(path)
}

fn read(path: &str) -> String {
    fs::read_to_string(packaging(path)).unwrap()
}

fn rules() -> String {
    read("prometheus/notary-orders.rules.yml")
}

fn guide() -> String {
    read("../docs/monitoring.md")
}

/// Returns the names of the alerts.
fn alerts(rules: &str) -> Vec<&str> {
    let alerts: Vec<_> =
        rules.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")).collect();
    assert!(alerts.len() > 20, "only {} alerts were found", alerts.len());
    alerts
}

/// Returns the expressions of the dashboard, and the labels that its legends show.
fn dashboard() -> (Vec<String>, BTreeSet<String>) {
    fn walk(value: &Value, found: &mut (Vec<String>, BTreeSet<String>)) {
        match value {
            Value::Object(members) => {
                members.iter().for_each(|(name, member)| match (name.as_str(), member.as_str()) {
                    ("expr" | "query", Some(text)) if text.contains('_') => {
                        found.0.push(text.to_owned());
                    }
                    ("legendFormat" | "titleFormat", Some(text)) => {
                        let labels = text.split("{{").skip(1);
                        found.1.extend(labels.map(|rest| rest.split("}}").next().unwrap().into()));
                    }
                    _ => walk(member, found),
                });
            }
            Value::Array(items) => items.iter().for_each(|item| walk(item, found)),
            _ => {}
        }
    }
    let mut found = Default::default();
    walk(&serde_json::from_str(&read("grafana/notary-orders.json")).unwrap(), &mut found);
    found
}

fn is_part_of_name(character: char) -> bool {
    character.is_ascii_alphanumeric() || character == '_'
}

fn is_own(name: &str) -> bool {
    name.starts_with("notary_orders_") || name.starts_with("process_")
}

/// A label, an operator and a value.
type Matcher<'t> = (&'t str, &'t str, &'t str);

/// Returns the selectors in an expression: the name of each metric, and its matchers.
fn selectors(text: &str) -> Vec<(&str, Vec<Matcher<'_>>)> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(start) = rest.find(|character: char| character.is_ascii_alphabetic()) {
        rest = &rest[start..];
        let end = rest.find(|character| !is_part_of_name(character)).unwrap_or(rest.len());
        let (name, after) = rest.split_at(end);
        rest = after;
        if !is_own(name) {
            // The text of a label is no metric.
            continue;
        }
        let mut matchers = Vec::new();
        if let Some(mut inner) = after.strip_prefix('{') {
            loop {
                inner = inner.trim_start_matches([',', ' ', '\n']);
                if let Some(after) = inner.strip_prefix('}') {
                    rest = after;
                    break;
                }
                let (matcher, after) = inner.split_once('"').unwrap();
                let (value, after) = after.split_once('"').unwrap();
                let operator = matcher.trim_start_matches(is_part_of_name);
                matchers.push((matcher.strip_suffix(operator).unwrap(), operator, value));
                inner = after;
            }
        }
        found.push((name, matchers));
    }
    found
}

/// Parses the Prometheus text format.
fn exported(text: &str) -> Exported {
    let mut exported = Exported::new();
    for sample in text.lines().filter(|line| !line.starts_with('#')) {
        let (name, matchers) = selectors(sample).into_iter().next().unwrap();
        let labels = exported.entry(name.to_owned()).or_default();
        for (label, _, value) in matchers {
            labels.entry(label.to_owned()).or_default().insert(value.to_owned());
        }
    }
    exported
}

/// Returns the metrics of a service after orders, rejections and reads, and those of one with TLS.
async fn metrics() -> String {
    let wiring = Wiring::embedded();
    // Some metrics are there only with a scanner, and others only with a collector of traces.
    let scan = ["--scan-url=unix:///no/scanner", "--scan-required=false"];
    let traces = "export OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:9";
    let server = ServiceProcess::start_after(&wiring, traces, &scan);
    let server = server.with_key(issue_key(&wiring));
    for status in [201, 409] {
        assert_eq!(server.order("F-1").await.status(), status);
    }
    created(server.order_with_deed("F-2").await).await;
    let mut wrong_time = order("F-3");
    wrong_time["utcTimeDate"] = json!("2026-12-01T14:30:00Z");
    created(server.create(&wrong_time).await).await;
    server.read("/api/order/1").await;
    assert_eq!(server.readiness().await.0, 200);
    let (status, text) = server.ops("/metrics").await;
    assert_eq!(status, 200);
    text + &crate::running::tls::metrics().await
}

/// Replaces what differs from line to line.
fn pattern(line: &str) -> Value {
    let mut event: Value = serde_json::from_str(line).unwrap();
    for (pointer, is_valid) in [
        ("/timestamp", Value::is_string as fn(&Value) -> bool),
        ("/milliseconds", Value::is_f64),
        ("/span/request_id", Value::is_string),
    ] {
        let value = event.pointer_mut(pointer).unwrap_or_else(|| panic!("{pointer}: {line}"));
        assert!(is_valid(value), "{pointer}: {line}");
        *value = Value::Null;
    }
    event
}

#[tokio::test(flavor = "multi_thread")]
async fn documented_line_of_the_log_is_written() {
    let guide = guide();
    let documented = guide.lines().find(|line| line.starts_with(r#"{"timestamp""#)).unwrap();
    let wiring = Wiring::embedded();
    let server = ServiceProcess::keyed(&wiring, &["--log-format=json"]);
    created(server.order("F-1").await).await;
    let log = server.stop_and_read_log();
    let written = log.lines().find(|line| line.contains(r#""order created""#)).unwrap();
    assert_eq!(pattern(written), pattern(documented));
}

#[tokio::test(flavor = "multi_thread")]
async fn dashboard_and_alerts_name_exported_metrics_and_labels() {
    let exported = exported(&metrics().await);
    let (expressions, legends) = dashboard();
    let rules = rules();
    let texts: Vec<&str> = expressions.iter().map(String::as_str).chain([&*rules]).collect();
    let found: Vec<_> = texts.iter().flat_map(|text| selectors(text)).collect();
    assert!(found.len() > 80, "only {} selectors were found", found.len());
    for (name, matchers) in found {
        let labels = exported.get(name).unwrap_or_else(|| panic!("{name} is not exported"));
        for (label, operator, value) in matchers {
            if let "job" | "instance" = label {
                continue;
            }
            let values = labels.get(label).unwrap_or_else(|| panic!("{name} has no {label}"));
            let route = value.strip_prefix(".*").unwrap_or_default().split('(').next().unwrap();
            let is_there = match operator {
                "=" => values.contains(value),
                _ => values.iter().any(|there| there.contains(route)),
            };
            assert!(is_there, "{name} has {label} {values:?}, but not {value}");
        }
    }
    // What results keep, legends and descriptions show.
    let known: BTreeSet<&str> =
        exported.values().flat_map(BTreeMap::keys).map(String::as_str).collect();
    let kept = texts.iter().flat_map(|text| text.split(" by (").skip(1));
    let kept = kept.flat_map(|rest| rest.split(')').next().unwrap().split(", "));
    let shown = rules.split("$labels.").skip(1);
    let shown = shown.map(|rest| rest.split(|end| !is_part_of_name(end)).next().unwrap());
    for label in kept.chain(shown).chain(legends.iter().map(String::as_str)) {
        let is_known = known.contains(label) || ["job", "instance"].contains(&label);
        assert!(is_known, "no metric has the label {label}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn documentation_has_exported_metrics_and_no_others() {
    let metrics = metrics().await;
    let exported: BTreeSet<&str> = metrics
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next())
        .collect();
    let guide = guide();
    let table = guide.lines().filter(|line| line.starts_with("| `"));
    let documented: BTreeSet<&str> = table
        .filter_map(|line| line.split(" | ").next())
        .flat_map(|names| names.split('`'))
        .filter(|name| is_own(name) && name.chars().all(is_part_of_name))
        .collect();
    assert_eq!(exported, documented);
}

#[test]
fn alerts_fire_and_stay_silent_as_tested() {
    for (command, file) in
        [(["test", "rules"], "notary-orders.test.yml"), (["check", "config"], "prometheus.yml")]
    {
        let mut promtool = Command::new(tools::promtool());
        let file = packaging("prometheus").join(file);
        text(promtool.args(command).arg(file).output().unwrap());
    }
}

#[test]
fn every_alert_is_tested_and_explained() {
    let (rules, guide) = (rules(), guide());
    let tests = read("prometheus/notary-orders.test.yml");
    for alert in alerts(&rules) {
        let name = format!("  - name: {alert}\n");
        let of_alert = tests.split("\n\n").filter(|test| test.contains(&name));
        let of_alert: String = of_alert.collect();
        let fires = format!("alertname=\"{alert}\"}}', value: 1");
        assert!(of_alert.contains(&fires), "no test in which {alert} fires");
        assert!(of_alert.contains("exp_samples: []"), "no test in which {alert} is silent");
        assert!(guide.contains(&format!("| `{alert}` |")), "{alert} is not explained");
        let rule = rules.split("- alert: ").find(|rule| rule.starts_with(&format!("{alert}\n")));
        for part in ["severity: ", "summary: ", "description: ", "runbook_url: "] {
            assert!(rule.unwrap().contains(part), "{alert} has no {part}");
        }
        let section = rule.unwrap().split("runbook_url: docs/monitoring.md#").nth(1).unwrap();
        let section = section.lines().next().unwrap();
        let heading = guide.lines().find(|line| {
            let name = line.strip_prefix("### ").unwrap_or_default().to_lowercase();
            name.replace(": ", "-").replace(' ', "-") == section
        });
        let (_, text) = guide.split_once(heading.unwrap()).unwrap();
        let text = text.split("\n#").next().unwrap();
        assert!(text.contains(alert), "the runbook of {alert} does not name it");
    }
}
