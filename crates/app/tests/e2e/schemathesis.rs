//! Schemathesis makes requests of the OpenAPI document, good ones and bad ones, and checks that the
//! service and the document agree. `scripts/schemathesis.toml` and `scripts/schemathesis_hooks.py`
//! say how.

use std::{path::Path, process::Command};

use crate::{clients::built, harness::TestApp};

#[tokio::test(flavor = "multi_thread")]
async fn the_service_does_what_its_document_says() {
    let app = TestApp::start_with(&[
        "--duplicate-window-secs=0",
        "--rate-per-second=100000",
        "--rate-burst=100000",
    ])
    .await;
    let left_behind = tempfile::tempdir().unwrap();
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts");
    let schemathesis = built("tools/venv/bin/schemathesis", "scripts/test.sh makes it");
    let mut command = Command::new("timeout");
    command
        .arg("300")
        .arg(schemathesis)
        .arg("--no-color")
        .arg("--config-file")
        .arg(scripts.join("schemathesis.toml"));
    command.args(["run", &app.url("/openapi.json"), "--checks", "all"]);
    command
        .env("SCHEMATHESIS_HOOKS", scripts.join("schemathesis_hooks.py"))
        .env("API_KEY", &app.key)
        .env("NO_PROXY", "127.0.0.1");
    command.current_dir(left_behind.path());
    let output = tokio::task::spawn_blocking(move || command.output()).await.unwrap().unwrap();
    let report = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success(),
        "{}\n{report}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    // Otherwise the bad requests alone were tried.
    assert!(app.rows("orders") > 100 && app.rows("documents") > 100, "{report}");
}
