//! Schemathesis generates valid and invalid requests from the OpenAPI document, and checks that the
//! responses match it. `schemathesis.toml` and `schemathesis_hooks.py` in `scripts` configure it.

use std::{path::Path, process::Command};

use domain::{api_key::Scope, use_cases::keys::manage_keys::KeyTerms};
use test_servers::tools::built;

use crate::harness::TestApp;

#[tokio::test(flavor = "multi_thread")]
#[ignore = "nightly: sends thousands of made requests"]
async fn service_matches_its_openapi_document() {
    let app = TestApp::start_with(&[
        "--duplicate-window-secs=0",
        "--rate-per-second=100000",
        "--rate-burst=100000",
        "--reads-rate-per-second=100000",
        "--reads-rate-burst=100000",
        "--webhook-allow=127.0.0.1",
    ])
    .await;
    let scopes = Scope::ALL.into_iter().collect();
    let key = app.issue_key_on(KeyTerms { scopes, ..KeyTerms::default() }).await;
    let folder = tempfile::tempdir().unwrap();
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts");
    let schemathesis = built("tools/venv/bin/schemathesis", "scripts/test.sh makes it");
    let mut command = Command::new("timeout");
    command
        .arg("600")
        .arg(schemathesis)
        .arg("--no-color")
        .arg("--config-file")
        .arg(scripts.join("schemathesis.toml"));
    command.args(["run", &app.url("/openapi.json"), "--checks", "all"]);
    command
        .env("SCHEMATHESIS_HOOKS", scripts.join("schemathesis_hooks.py"))
        .env("API_KEY", &key)
        .env("NO_PROXY", "127.0.0.1");
    command.current_dir(folder.path());
    let output = tokio::task::spawn_blocking(move || command.output()).await.unwrap().unwrap();
    let report = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success(),
        "{}\n{report}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    // Valid requests were among them, and reads of what they created.
    assert!(app.rows("orders") > 100 && app.rows("documents") > 100, "{report}");
    let (_, metrics) = app.ops("/metrics").await;
    for (method, route, status) in [
        ("GET", "order", 200),
        ("GET", "order/{order_id}", 200),
        ("GET", "order/{order_id}/documents", 200),
        ("POST", "order/{order_id}/documents", 201),
        ("GET", "order/{order_id}/documents/{position}", 200),
        ("PATCH", "order/{order_id}", 200),
        ("POST", "order/{order_id}/cancel", 200),
        ("POST", "webhooks", 201),
        ("GET", "webhooks", 200),
        ("GET", "webhooks/{webhook_id}", 200),
        ("PATCH", "webhooks/{webhook_id}", 200),
        ("DELETE", "webhooks/{webhook_id}", 204),
        ("POST", "webhooks/{webhook_id}/rotate-secret", 200),
        ("POST", "webhooks/{webhook_id}/test", 202),
        ("GET", "webhooks/{webhook_id}/deliveries", 200),
        ("POST", "webhooks/{webhook_id}/deliveries/{delivery_id}/replay", 202),
        ("POST", "webhooks/{webhook_id}/replay", 202),
    ] {
        let call = format!("method=\"{method}\",route=\"/api/{route}\",status=\"{status}\"");
        assert!(metrics.contains(&call), "no successful {call}\n{report}");
    }
}
