//! Two server processes on one PostgreSQL, one bucket and one relay.

use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
    time::Duration,
};

use contract_tests::fakes::ManualClock;
use domain::ports::Clock as _;
use futures_util::{StreamExt as _, future::join_all, stream};
use reqwest::StatusCode;

use crate::{
    harness::{
        CREATE, CREATE_WITH_DOCUMENTS, TestApp, client, created, deed, eventually, form_with_deed,
        order, problem,
    },
    service_process::{ServiceProcess, issue_key, output},
    wiring::Wiring,
};

/// The tests use one key for many clients.
const UNLIMITED: &[&str] = &["--rate-per-second=0"];

fn two_instances(wiring: &Wiring) -> [ServiceProcess; 2] {
    [0, 1].map(|_| ServiceProcess::start(wiring, UNLIMITED))
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_starts_migrate_empty_database_once() {
    let wiring = Wiring::new();
    let one = tokio::task::block_in_place(|| {
        std::thread::scope(|scope| {
            let starts = [0, 1].map(|_| scope.spawn(|| ServiceProcess::start(&wiring, &[])));
            let [one, _] = starts.map(|start| start.join().unwrap());
            one
        })
    });
    let migrations = std::fs::read_dir("../../migrations/postgres").unwrap().count();
    assert_eq!(wiring.rows("__diesel_schema_migrations"), i64::try_from(migrations).unwrap());
    created(one.post(&issue_key(&wiring), "F-1").await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_200_concurrent_duplicates_is_created() {
    let wiring = Wiring::new();
    let instances = two_instances(&wiring);
    let (key, client) = (issue_key(&wiring), client());
    let requests = (0..200).map(|at| {
        let (instance, operation) = (&instances[at % 2], at / 2 % 2);
        let request = match operation {
            0 => client.post(instance.url(CREATE)).json(&order("F-1")),
            _ => client.post(instance.url(CREATE_WITH_DOCUMENTS)).multipart(form_with_deed("F-1")),
        };
        let request = request.bearer_auth(&key);
        async move { request.send().await.unwrap().status().as_u16() }
    });
    let mut statuses = BTreeMap::new();
    for status in join_all(requests).await {
        *statuses.entry(status).or_insert(0) += 1;
    }
    // A busy machine may reach the concurrency limit; the sweeper deletes the uploads of those.
    let busy = statuses.remove(&503).unwrap_or(0);
    assert_eq!(statuses, BTreeMap::from([(201, 1), (409, 199 - busy)]));
    assert_eq!(wiring.rows("orders"), 1);
    let (objects, documents) =
        (i64::try_from(wiring.objects().len()).unwrap(), wiring.rows("documents"));
    assert!(
        (documents..=documents + wiring.rows("uploads")).contains(&objects),
        "{objects} objects"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_repeats_create_one_order() {
    let wiring = Wiring::new();
    let instances = two_instances(&wiring);
    let (key, client) = (issue_key(&wiring), client());
    for (number, operation) in [CREATE, CREATE_WITH_DOCUMENTS].into_iter().enumerate() {
        let file_number = format!("F-{number}");
        let send = |at: usize| {
            let request = client
                .post(instances[at % 2].url(operation))
                .bearer_auth(&key)
                .header("Idempotency-Key", &file_number);
            let request = if operation == CREATE {
                request.json(&order(&file_number))
            } else {
                request.multipart(form_with_deed(&file_number))
            };
            async move { request.send().await.unwrap() }
        };
        let mut bodies = HashSet::new();
        for response in join_all((0..100).map(send)).await {
            match response.status() {
                StatusCode::CREATED => drop(bodies.insert(response.text().await.unwrap())),
                _ => drop(problem(response, 409, "idempotency_in_flight").await),
            }
        }
        for at in 0..2 {
            let replayed = send(at).await;
            assert_eq!(replayed.headers()["idempotency-replayed"], "true");
            bodies.insert(replayed.text().await.unwrap());
        }
        assert_eq!(bodies.len(), 1, "{bodies:?}");
    }
    assert_eq!(["orders", "documents", "uploads"].map(|table| wiring.rows(table)), [2, 1, 0]);
    assert_eq!(wiring.objects().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn instances_share_mails_and_send_none_twice() {
    const ORDERS: usize = 2_000;
    let wiring = Wiring::new();
    let instances = two_instances(&wiring);
    let (key, client) = (issue_key(&wiring), client());
    let orders = stream::iter(0..ORDERS).map(|at| {
        let request = client
            .post(instances[at % 2].url(CREATE))
            .bearer_auth(&key)
            .json(&order(&format!("F-{at}")));
        async move { request.send().await.unwrap().status() }
    });
    let statuses: Vec<StatusCode> = orders.buffer_unordered(32).collect().await;
    assert!(statuses.iter().all(|status| *status == StatusCode::CREATED));
    wiring.mails_within(ORDERS, Duration::from_secs(120)).await;
    eventually(|| wiring.pending_mails() == 0).await;

    let mails = wiring.mails();
    let ids: HashSet<&str> = mails
        .iter()
        .map(|mail| mail.lines().find(|line| line.starts_with("Message-ID: ")).unwrap())
        .collect();
    assert_eq!((mails.len(), ids.len()), (ORDERS, ORDERS));
    for instance in &instances {
        let url = format!("http://{}/metrics", instance.ops_address);
        let metrics = client.get(url).send().await.unwrap().text().await.unwrap();
        let name = r#"notary_orders_mails_total{outcome="delivered"} "#;
        let delivered = metrics.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        assert_ne!(delivered, "0", "an instance delivered nothing");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn expired_lease_of_killed_worker_is_delivered() {
    let wiring = Wiring::new();
    let killed = ServiceProcess::start(&wiring, &[]);
    let key = issue_key(&wiring);
    wiring.stall_mail();
    created(killed.post(&key, "F-1").await).await;
    wiring.a_mail_stalls().await;
    killed.kill();
    wiring.mails_go_on();
    assert_eq!((wiring.mails().len(), wiring.pending_mails()), (0, 1));

    // This instance has an injected clock, so the test does not wait for the lease to expire.
    let clock = Arc::new(ManualClock::default());
    clock.advance(operator::SystemClock.now() - clock.now());
    let other = TestApp::start_on(wiring, Arc::clone(&clock), &[], Some(key)).await;
    created(other.create(&order("F-2")).await).await;
    let mails = other.mails(1).await;
    assert!(mails[0].contains("F-2"), "the lease has not expired");
    clock.advance(time::Duration::minutes(2));
    other.mails(2).await;
    eventually(|| other.pending_mails() == 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn revoked_key_is_rejected_by_every_instance() {
    let wiring = Wiring::new();
    let instances = two_instances(&wiring);
    let key = issue_key(&wiring);
    for (at, instance) in instances.iter().enumerate() {
        created(instance.post(&key, &format!("F-{at}")).await).await;
    }
    let listed = String::from_utf8(output(&wiring, &["keys", "list"]).stdout).unwrap();
    let id = listed.lines().nth(1).unwrap().split_whitespace().next().unwrap();
    assert!(output(&wiring, &["keys", "revoke", id]).status.success());
    join_all(instances.iter().map(|instance| instance.rejects_within_ten_seconds(&key))).await;
    for instance in &instances {
        problem(instance.post(&key, "F-9").await, 401, "unauthorized").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_instance_leaves_complete_orders() {
    let wiring = Wiring::new();
    let [killed, other] = two_instances(&wiring);
    let (key, client) = (issue_key(&wiring), client());
    let orders = |instance: &ServiceProcess, from: usize| {
        let url = instance.url(CREATE_WITH_DOCUMENTS);
        let requests: Vec<_> = (from..from + 40)
            .map(|at| {
                let form = form_with_deed(&format!("F-{at}"));
                client.post(&url).bearer_auth(&key).multipart(form).send()
            })
            .collect();
        async move {
            let responses = join_all(requests).await;
            let statuses = responses.iter().flatten().map(reqwest::Response::status);
            statuses.filter(|status| *status == StatusCode::CREATED).count()
        }
    };
    let interrupted = tokio::spawn(orders(&killed, 0));
    eventually(|| wiring.rows("orders") > 0).await;
    killed.kill();
    // On a slow machine, the other instance may answer some of its orders with 503.
    let (by_killed, by_other) = (interrupted.await.unwrap(), orders(&other, 100).await);
    let rows = wiring.rows("orders");
    assert!(
        usize::try_from(rows).unwrap() >= by_killed + by_other && by_other > 0,
        "{rows} orders, {by_killed} and {by_other} acknowledged"
    );
    let (objects, documents) = (wiring.objects(), wiring.document_keys());
    assert_eq!(i64::try_from(documents.len()).unwrap(), rows);
    for key in documents {
        assert_eq!(objects[&key], deed());
    }
}
