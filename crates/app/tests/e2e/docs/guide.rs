//! Runs the commands of the API guide, `docs/api.md`, in their order against one service, and compares their
//! answers with those that the guide shows.

use std::{fs, os::unix::fs::symlink, path::Path, process::Command, sync::Arc};

use contract_tests::fakes::ManualClock;
use serde_json::Value;

use super::examples::docs;
use crate::{
    harness::service_process::run,
    harness::{TestApp, WEBHOOKS},
    wiring::Wiring,
};

/// Members whose values differ from run to run. Names that end in `_at` do, too.
const VOLATILE: [&str; 10] = [
    "at",
    "cursor",
    "delivery_id",
    "detail",
    "id",
    "message_id",
    "next_after",
    "request_id",
    "secret",
    "timestamp",
];

/// Commands of the guide, with the answer to the last one.
struct Example {
    commands: String,
    answer: Option<Value>,
}

/// Returns the commands of all blocks. A comment is the answer to the command before it.
fn examples(guide: &str) -> Vec<Example> {
    let mut examples = Vec::new();
    for block in guide.split("```sh\n").skip(1) {
        let lines: Vec<_> = block.split("```").next().unwrap().lines().collect();
        for step in lines.chunk_by(|line, next| !line.starts_with('#') || next.starts_with('#')) {
            let (answer, commands): (Vec<&str>, Vec<&str>) =
                step.iter().copied().partition(|line| line.starts_with('#'));
            let answer: String = answer.iter().map(|line| &line[1..]).collect();
            let answer = (!answer.is_empty()).then(|| {
                serde_json::from_str(&answer).unwrap_or_else(|error| panic!("{error}: {answer}"))
            });
            examples.push(Example { commands: commands.join("\n"), answer });
        }
    }
    examples
}

/// Lists the differences between an answer as the guide shows it and an answer of the service. `"…"` stands
/// for any value, for further members, and at the end of an array for further items.
fn differences(path: &str, shown: &Value, answered: &Value) -> Vec<String> {
    let name = path.rsplit('/').find(|it| it.parse::<usize>().is_err()).unwrap_or_default();
    let is_volatile = VOLATILE.contains(&name) || name.ends_with("_at");
    match (shown, answered) {
        (Value::String(more), _) if more == "…" => Vec::new(),
        (Value::Object(shown), Value::Object(answered)) => {
            let is_part = shown.contains_key("…");
            let further = answered.keys().filter(|name| !is_part && !shown.contains_key(*name));
            let further = further.map(|name| format!("{path}/{name} is not in the guide"));
            let members = shown.iter().filter(|(name, _)| *name != "…");
            let different = members.flat_map(|(name, value)| {
                let path = format!("{path}/{name}");
                answered.get(name).map_or_else(
                    || vec![format!("{path} is not in the answer")],
                    |answered| differences(&path, value, answered),
                )
            });
            further.chain(different).collect()
        }
        (Value::Array(shown), Value::Array(answered)) => {
            let is_part = shown.last().is_some_and(|it| it == "…");
            let items = &shown[..shown.len() - usize::from(is_part)];
            if answered.len() < items.len() || !is_part && answered.len() > items.len() {
                return vec![format!("{path} has {} items: {answered:?}", answered.len())];
            }
            let pairs = items.iter().zip(answered).enumerate();
            pairs.flat_map(|(at, (a, b))| differences(&format!("{path}/{at}"), a, b)).collect()
        }
        (Value::String(_), Value::String(_) | Value::Null)
        | (Value::Null, Value::String(_))
        | (Value::Number(_), Value::Number(_))
            if is_volatile =>
        {
            Vec::new()
        }
        _ if shown == answered => Vec::new(),
        _ => vec![format!("{path} is {answered}, not {shown}")],
    }
}

/// Runs blocks in one shell. Returns the output of each.
fn run_blocks(folder: &Path, settings: &[(&str, &str)], examples: &[Example]) -> Vec<String> {
    let blocks = examples.iter().enumerate();
    let blocks = blocks.map(|(at, it)| format!("{{\n{}\n}} >answer-{at}\n", it.commands));
    let script = blocks.collect::<Vec<_>>().concat();
    let mut shell = Command::new("bash");
    shell
        .args(["-euo", "pipefail", "-c", &script])
        .current_dir(folder)
        .env("NO_PROXY", "127.0.0.1");
    let output = shell.envs(settings.iter().copied()).output().unwrap();
    let answer = |at| fs::read_to_string(folder.join(format!("answer-{at}"))).unwrap_or_default();
    let answers: Vec<_> = (0..examples.len()).map(answer).collect();
    let last = answers.iter().rposition(|answer| !answer.is_empty());
    assert!(output.status.success(), "{output:?}\n{:?}", last.map(|at| &answers[at]));
    answers
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_of_the_guide_get_the_answers_that_it_shows() {
    let guide = fs::read_to_string(docs().join("api.md")).unwrap();
    let examples = examples(&guide);
    assert!(examples.len() > 25, "{}", examples.len());
    let wiring = Wiring::embedded();
    let scopes =
        ["orders:create", "orders:read", "webhooks:manage"].map(|it| format!("--scope={it}"));
    let [create, read, manage] = scopes.each_ref().map(String::as_str);
    let terms = ["keys", "issue", "--name=closing desk", "--client-name=Acme Title"];
    let key = run(&wiring, &[&terms[..], &[create, read, manage]].concat());
    let of_service = ["keys", "issue", "--name=dispatch", "--for-service=42"];
    let service_key = run(&wiring, &of_service);
    let add = ["services", "add", "42", "--name=Lone Star Signings"];
    run(&wiring, &[&add[..], &["--email=dispatch@signings.example.com"]].concat());
    let clock = Arc::new(ManualClock::default());
    let key = key.trim().to_owned();
    let app = TestApp::start_on(wiring, clock, &WEBHOOKS, Some(key.clone())).await;

    let folder = tempfile::tempdir().unwrap();
    symlink(docs().canonicalize().unwrap(), folder.path().join("docs")).unwrap();
    let url = app.url("");
    let answers = tokio::task::spawn_blocking(move || {
        let settings =
            [("BASE_URL", &*url), ("API_KEY", &*key), ("SERVICE_KEY", service_key.trim())];
        let answers = run_blocks(folder.path(), &settings, &examples);
        examples.into_iter().zip(answers).collect::<Vec<_>>()
    });
    let mut faults = Vec::new();
    for (Example { commands, answer }, answered) in answers.await.unwrap() {
        let Some(shown) = answer else { continue };
        // Commands before the last one may have printed lines of their own.
        let found = match serde_json::from_str(answered.lines().last().unwrap_or_default()) {
            Ok(answered) => differences("", &shown, &answered),
            Err(error) => vec![format!("{error}: {answered}")],
        };
        if !found.is_empty() {
            faults.push(format!("{commands}{}\n{answered}", found.join("\n")));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n\n"));
}

#[test]
fn other_answers_are_noticed() {
    let differ = |shown: &str, answered: &str| {
        let [shown, answered] = [shown, answered].map(|it| serde_json::from_str(it).unwrap());
        !differences("", &shown, &answered).is_empty()
    };
    for (shown, answered, expected) in [
        (r#"{"a": 1}"#, r#"{"a": 1}"#, false),
        (r#"{"a": 1}"#, r#"{"a": 2}"#, true),
        (r#"{"a": 1}"#, r#"{"a": 1, "b": 2}"#, true),
        (r#"{"a": 1, "…": "…"}"#, r#"{"a": 1, "b": 2}"#, false),
        (r#"{"a": 1, "…": "…"}"#, r#"{"b": 2}"#, true),
        (r#"{"created_at": "x"}"#, r#"{"created_at": "y"}"#, false),
        (r#"{"created_at": "x"}"#, r#"{"created_at": 1}"#, true),
        (r#"[{"a": 1}, "…"]"#, r#"[{"a": 1}, {"a": 2}]"#, false),
        (r#"[{"a": 1}]"#, r#"[{"a": 1}, {"a": 2}]"#, true),
        (r#"[{"a": 1}, "…"]"#, "[]", true),
    ] {
        assert_eq!(differ(shown, answered), expected, "{shown} {answered}");
    }
}
