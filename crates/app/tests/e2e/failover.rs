//! Kills the PostgreSQL primary under load and promotes its synchronous standby.

use std::{
    collections::BTreeSet,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use reqwest::StatusCode;
use serde_json::Value;
use test_servers::postgres::{Cluster, PASSWORD, SUPERUSER, Stop};

use crate::{
    harness::{CREATE, CREATE_WITH_DOCUMENTS, client, deed, eventually, form_with_deed, order},
    service_process::{ServiceProcess, issue_key},
    wiring::Wiring,
};

const CLIENTS: usize = 16;

/// The responses of all clients.
#[derive(Default)]
struct Responses {
    next: AtomicUsize,
    acknowledged: Mutex<BTreeSet<(i64, String)>>,
    unavailable: AtomicUsize,
    created: AtomicUsize,
    stop: AtomicBool,
}

/// Runs one client that creates orders without a pause, every fourth one with a document.
async fn create_orders(service: Arc<ServiceProcess>, key: String, responses: Arc<Responses>) {
    let client = client();
    while !responses.stop.load(Ordering::Relaxed) {
        let at = responses.next.fetch_add(1, Ordering::Relaxed);
        let file_number = format!("F-{at}");
        let request = if at.is_multiple_of(4) {
            client.post(service.url(CREATE_WITH_DOCUMENTS)).multipart(form_with_deed(&file_number))
        } else {
            client.post(service.url(CREATE)).json(&order(&file_number))
        };
        let response = request.bearer_auth(&key).send().await.unwrap();
        match response.status() {
            StatusCode::CREATED => {
                let body: Value = response.json().await.unwrap();
                responses
                    .acknowledged
                    .lock()
                    .unwrap()
                    .insert((body["order_id"].as_i64().unwrap(), file_number));
                responses.created.fetch_add(1, Ordering::Relaxed);
            }
            StatusCode::SERVICE_UNAVAILABLE => {
                responses.unavailable.fetch_add(1, Ordering::Relaxed);
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            other => panic!("{other} for {file_number}"),
        }
    }
}

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
    let service = Arc::new(ServiceProcess::start(&wiring, &["--rate-per-second=0"]));
    let (key, responses) = (issue_key(&wiring), Arc::new(Responses::default()));
    let clients: Vec<_> = (0..CLIENTS)
        .map(|_| {
            tokio::spawn(create_orders(Arc::clone(&service), key.clone(), Arc::clone(&responses)))
        })
        .collect();
    let created_more_than = |count: usize| responses.created.load(Ordering::Relaxed) > count;
    eventually(|| created_more_than(200)).await;

    primary.stop(Stop::Kill);
    eventually(|| responses.unavailable.load(Ordering::Relaxed) > 50).await;
    standby.promote();
    let before = responses.created.load(Ordering::Relaxed);
    eventually(|| created_more_than(before + 200)).await;
    responses.stop.store(true, Ordering::Relaxed);
    for client in clients {
        client.await.unwrap();
    }

    let acknowledged = responses.acknowledged.lock().unwrap().clone();
    let query = |statement: &str| standby.sql("orders", statement);
    let stored: Vec<(i64, String)> = query("SELECT id, file_number FROM orders ORDER BY id")
        .lines()
        .map(|line| {
            line.split_once('|')
                .map(|(id, file_number)| (id.parse().unwrap(), file_number.to_owned()))
                .unwrap()
        })
        .collect();
    let file_numbers: BTreeSet<&str> =
        stored.iter().map(|(_, file_number)| file_number.as_str()).collect();
    assert_eq!(file_numbers.len(), stored.len(), "an order exists twice");
    let stored: BTreeSet<(i64, String)> = stored.into_iter().collect();
    let lost: Vec<_> = acknowledged.difference(&stored).collect();
    assert!(
        lost.is_empty(),
        "{} of {} acknowledged orders are lost: {lost:?}",
        lost.len(),
        acknowledged.len()
    );
    let objects = wiring.objects();
    for key in query("SELECT key FROM documents").lines() {
        assert!(objects.get(key).is_some_and(|object| *object == deed()), "{key}");
    }
    let pending = "SELECT (SELECT count(*) FROM events) + (SELECT count(*) FROM deliveries)";
    eventually(|| query(pending) == "0").await;
    let mails = wiring.mails().len();
    assert!(mails >= stored.len(), "{mails} mails of {} orders", stored.len());
}
