//! Runs `scripts/check_kubernetes.py` on `packaging/kubernetes`.

use std::{path::Path, process::Command};

#[test]
fn manifests_are_valid_and_name_existing_settings() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/check_kubernetes.py");
    let output = Command::new(test_servers::tools::python())
        .arg(script)
        .arg(env!("CARGO_BIN_EXE_notary-orders"))
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{printed}{}", String::from_utf8_lossy(&output.stderr));
    assert!(printed.lines().count() >= 10, "{printed}");
}
