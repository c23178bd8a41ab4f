//! The primary of PostgreSQL dies under load, and its synchronous standby takes over.

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
    harness::{CREATE, CREATE_WITH_DOCUMENTS, deed, eventually, form_with_deed, order},
    service_process::{ServiceProcess, issue_key},
    wiring::Wiring,
};

const CLIENTS: usize = 16;

/// What the clients were told.
#[derive(Default)]
struct Answers {
    next: AtomicUsize,
    acknowledged: Mutex<BTreeSet<(i64, String)>>,
    refused: AtomicUsize,
    created: AtomicUsize,
    stop: AtomicBool,
}

/// One client that orders without a pause, every fourth time with a document.
async fn order_on_and_on(service: Arc<ServiceProcess>, key: String, answers: Arc<Answers>) {
    let client = crate::harness::client();
    while !answers.stop.load(Ordering::Relaxed) {
        let at = answers.next.fetch_add(1, Ordering::Relaxed);
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
                answers
                    .acknowledged
                    .lock()
                    .unwrap()
                    .insert((body["order_id"].as_i64().unwrap(), file_number));
                answers.created.fetch_add(1, Ordering::Relaxed);
            }
            StatusCode::SERVICE_UNAVAILABLE => {
                answers.refused.fetch_add(1, Ordering::Relaxed);
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            other => panic!("{other} for {file_number}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_acknowledged_order_survives_the_loss_of_the_primary() {
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
    let (key, answers) = (issue_key(&wiring), Arc::new(Answers::default()));
    let clients: Vec<_> = (0..CLIENTS)
        .map(|_| {
            tokio::spawn(order_on_and_on(Arc::clone(&service), key.clone(), Arc::clone(&answers)))
        })
        .collect();
    let created_more_than = |count: usize| answers.created.load(Ordering::Relaxed) > count;
    eventually(|| created_more_than(200)).await;

    primary.stop(Stop::Kill);
    eventually(|| answers.refused.load(Ordering::Relaxed) > 50).await;
    standby.promote();
    let before = answers.created.load(Ordering::Relaxed);
    eventually(|| created_more_than(before + 200)).await;
    answers.stop.store(true, Ordering::Relaxed);
    for client in clients {
        client.await.unwrap();
    }

    let acknowledged = answers.acknowledged.lock().unwrap().clone();
    let query = |statement: &str| standby.sql("orders", statement);
    let kept: Vec<(i64, String)> = query("SELECT id, file_number FROM orders ORDER BY id")
        .lines()
        .map(|line| {
            line.split_once('|')
                .map(|(id, file_number)| (id.parse().unwrap(), file_number.to_owned()))
                .unwrap()
        })
        .collect();
    let file_numbers: BTreeSet<&str> =
        kept.iter().map(|(_, file_number)| file_number.as_str()).collect();
    assert_eq!(file_numbers.len(), kept.len(), "no order is there twice");
    let kept: BTreeSet<(i64, String)> = kept.into_iter().collect();
    let lost: Vec<_> = acknowledged.difference(&kept).collect();
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
    eventually(|| query("SELECT count(*) FROM deliveries") == "0").await;
    let mails = wiring.mails().len();
    assert!(mails >= kept.len(), "{mails} mails of {} orders", kept.len());
}
