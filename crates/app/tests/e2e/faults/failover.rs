//! Kills the PostgreSQL primary under load and promotes its synchronous standby.

use std::sync::Arc;

use test_servers::postgres::{Cluster, PASSWORD, SUPERUSER, Stop};

use crate::{
    faults::crash::{
        FLAGS, assert_consistent,
        clients::{Responses, start_clients, stop_clients},
    },
    harness::eventually,
    harness::service_process::ServiceProcess,
    wiring::Wiring,
};

#[tokio::test(flavor = "multi_thread")]
async fn acknowledged_orders_survive_loss_of_the_primary() {
    let primary = Cluster::start(&[]);
    primary.sql("postgres", "CREATE DATABASE orders");
    let standby = primary.standby();
    primary.sql("postgres", "ALTER SYSTEM SET synchronous_standby_names = 'standby'");
    primary.sql("postgres", "SELECT pg_reload_conf()");
    eventually(|| primary.sql("postgres", "SELECT sync_state FROM pg_stat_replication") == "sync")
        .await;

    let hosts = format!("127.0.0.1:{},127.0.0.1:{}", primary.port(), standby.port());
    let url =
        format!("postgres://{SUPERUSER}:{PASSWORD}@{hosts}/orders?target_session_attrs=read-write");
    let wiring = Wiring::on_database(url);
    let service = ServiceProcess::keyed(&wiring, FLAGS);
    let responses = Arc::new(Responses::default());
    responses.set_service(&service);
    let clients = start_clients(&responses, 16);
    let acknowledged = || responses.acknowledged().len();
    eventually(|| acknowledged() > 200).await;

    primary.stop(Stop::Kill);
    eventually(|| responses.failures()[1] > 50).await;
    standby.promote();
    let before = acknowledged();
    eventually(|| acknowledged() > before + 200).await;
    stop_clients(&responses, clients).await;
    assert_eq!(responses.failures()[0], 0, "every request gets a response");
    service.kill();
    assert_consistent(wiring, &responses).await;
}
