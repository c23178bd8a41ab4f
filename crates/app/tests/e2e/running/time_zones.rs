//! Time zone data of the operator.

use std::fs;

use tempfile::TempDir;

use crate::{
    harness::created,
    harness::service_process::{ServiceProcess, output, run},
    wiring::Wiring,
};

/// Returns a folder where Chicago is always five hours ahead of UTC.
fn time_zones(version: &str) -> TempDir {
    let folder = TempDir::new().unwrap();
    let counts = [0_u32, 0, 0, 0, 1, 4].map(u32::to_be_bytes).concat();
    let ahead = (5 * 3_600_i32).to_be_bytes();
    let chicago = [b"TZif", &[0; 16][..], &counts, &ahead, b"\0\0+05\0"].concat();
    fs::create_dir(folder.path().join("America")).unwrap();
    fs::write(folder.path().join("America/Chicago"), chicago).unwrap();
    fs::write(folder.path().join("tzdata.zi"), format!("# version {version}\n")).unwrap();
    folder
}

#[tokio::test(flavor = "multi_thread")]
async fn tzdata_dir_replaces_the_data_of_the_program() {
    let (wiring, folder) = (Wiring::embedded(), time_zones("2031a"));
    let setting = format!("--tzdata-dir={}", folder.path().display());
    let service = ServiceProcess::keyed(&wiring, &[&setting]);
    let order = created(service.order("F-1").await).await;
    let read = service.read(&format!("/api/order/{}", order["order_id"])).await;
    assert_eq!(read["details"]["utcTimeDate"], "2026-12-01T09:30:00Z", "{read}");
    let (_, metrics) = service.ops("/metrics").await;
    assert!(metrics.contains("\nnotary_orders_tzdata_info{version=\"2031a\"} 1\n"), "{metrics}");
}

#[test]
fn version_of_the_data_is_shown_and_old_data_is_a_warning() {
    let wiring = Wiring::embedded();
    let shown = run(&wiring, &["--version"]);
    assert!(shown.contains(" (time zone data: IANA 20"), "{shown}");
    let folder = time_zones("2024a");
    let setting = format!("--tzdata-dir={}", folder.path().display());
    let report = output(&wiring, &["doctor", &setting]).stdout;
    let report = String::from_utf8(report).unwrap();
    assert!(report.contains("warn  tzdata       IANA 2024a is over a year old"), "{report}");
    let wrong = output(&wiring, &["doctor", "--tzdata-dir=/nowhere"]);
    assert_eq!(wrong.status.code(), Some(2));
    let error = String::from_utf8(wrong.stderr).unwrap();
    assert!(error.contains("--tzdata-dir") && error.contains("No such file"), "{error}");
}
