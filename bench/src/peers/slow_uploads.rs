//! Orders without documents beside many slow uploads of large documents.

use std::{cell::RefCell, time::Duration};

use test_servers::postgres::Cluster;

use crate::{
    instance::{Backend, flush},
    latency::Latencies,
    load::{Expected, Load},
    memory::slow_uploads,
    request::Request,
    schedule::Pace,
    service::Service,
    table::{self, Bound, short, target},
    trial::Plan,
};

/// Pause of an upload after each chunk of 64 KiB: 64 uploads send 128 MB/s.
const PAUSE: Duration = Duration::from_millis(32);
/// Orders per second without documents.
const RATE: f64 = 100.0;
/// Their connections: enough that none is missing when answers are late.
const CONNECTIONS: usize = 64;
/// Time before the first measured order, in which the uploads fill the caches of the disk.
const WARMUP: Duration = Duration::from_secs(10);
/// Until a few seconds after the uploads end, when many documents reach the disk at once.
const WINDOW: Duration = Duration::from_secs(95);

/// Measures the orders, and returns their number.
fn orders(service: &Service, key: &str, latencies: &RefCell<Latencies>) -> u64 {
    let load = Load {
        address: &service.api,
        request: Request::order_with_recipients(key),
        expected: Expected::CREATED,
        connections: CONNECTIONS,
        pace: Pace::Open(RATE),
        warmup: WARMUP,
        window: WINDOW,
        seed: 0,
    };
    let outcome = load.run(|| ()).0.expect_success();
    latencies.replace(outcome.latencies);
    outcome.acknowledged
}

/// Runs the measurement once. Returns the rows of its targets.
pub fn run(plan: &Plan, cluster: &Cluster) -> Vec<Vec<String>> {
    let (mut rows, mut targets) = (Vec::new(), Vec::new());
    for backend in Backend::ALL {
        let name = backend.name();
        flush(cluster);
        let latencies = RefCell::default();
        let uploads = slow_uploads(plan, backend, cluster, PAUSE, |service, key| {
            orders(service, key, &latencies)
        });
        let latencies = latencies.into_inner();
        let [p50, p99, p999] = [0.5, 0.99, 0.999].map(|share| latencies.percentile(share));
        rows.push(vec![
            name.to_owned(),
            short(p50),
            short(p99),
            short(p999),
            short(uploads.above_idle),
            format!("{:.0}", uploads.rate),
        ]);
        let most = |label: &str, figure, unit, bound| {
            target(&format!("{label}, {name}"), &[figure], unit, Bound::AtMost(bound))
        };
        targets.push(most("p99 of 100 orders/s beside slow uploads", p99, " ms", 100.0));
        targets.push(most("MiB above idle under slow uploads", uploads.above_idle, "", 24.0));
    }
    let columns =
        ["", "p50 ms", "p99 ms", "p99.9 ms", "most MiB above idle", "MB/s of the uploads"];
    table::print("100 orders/s beside 64 slow uploads of 20 x 10 MB", &columns, &rows);
    targets
}
