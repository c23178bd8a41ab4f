//! Two server processes on one PostgreSQL, one bucket and one relay.

use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
};

use domain::delivery::LEASE;
use futures_util::{StreamExt as _, future::join_all, stream};
use reqwest::StatusCode;

use crate::{
    harness::service_process::{ServiceProcess, issue_key},
    harness::{
        Api, CREATE, CREATE_WITH_DOCUMENTS, TestApp, client, clock_behind_system, created,
        eventually, order, problem,
    },
    wiring::Wiring,
};

/// The tests use one key for many clients.
const UNLIMITED: &[&str] = &["--rate-per-second=0"];

fn two_instances(wiring: &Wiring) -> [ServiceProcess; 2] {
    let key = issue_key(wiring);
    [0, 1].map(|_| ServiceProcess::start(wiring, UNLIMITED).with_key(key.clone()))
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_200_concurrent_duplicates_is_created() {
    let wiring = Wiring::production_without_tables();
    let instances = two_instances(&wiring);
    let requests = (0..200).map(|at| {
        let path = [CREATE, CREATE_WITH_DOCUMENTS][at / 2 % 2];
        instances[at % 2].order_on(path, "F-1").send()
    });
    let mut statuses = BTreeMap::new();
    for response in join_all(requests).await {
        *statuses.entry(response.unwrap().status().as_u16()).or_insert(0) += 1;
    }
    // A busy machine may reach the concurrency limit; the sweeper deletes the uploads of those.
    let busy = statuses.remove(&503).unwrap_or(0);
    assert_eq!(statuses, BTreeMap::from([(201, 1), (409, 199 - busy)]));
    assert_eq!(wiring.rows("orders"), 1);
    let (objects, documents) = (wiring.objects().len(), wiring.rows("documents"));
    assert!(
        (documents..=documents + wiring.rows("uploads")).contains(&objects),
        "{objects} objects"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_repeats_create_one_order() {
    let wiring = Wiring::production_without_tables();
    let instances = two_instances(&wiring);
    for path in [CREATE, CREATE_WITH_DOCUMENTS] {
        let send = |at: usize| instances[at % 2].send_with_key(path, path);
        let mut bodies = HashSet::new();
        for response in join_all((0..100).map(send)).await {
            match response.status() {
                StatusCode::CREATED => drop(bodies.insert(response.text().await.unwrap())),
                // A busy machine may not carry it out in time: the client repeats it.
                StatusCode::SERVICE_UNAVAILABLE => {}
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
    const ORDERS: usize = 500;
    let wiring = Wiring::production_without_tables();
    let instances = two_instances(&wiring);
    let pooled = instances.each_ref().map(|it| Api { client: client(), ..(**it).clone() });
    let pooled = &pooled;
    let orders = stream::iter(0..ORDERS).map(async |at| {
        let mut order = order(&format!("F-{at}"));
        // One address would get 200 mails an hour.
        order["signingContactsFormData"]["orderContactEmail"] =
            format!("escrow-{at}@title.example.com").into();
        // A busy machine may not carry it out in time, or may not say so: the client repeats it.
        loop {
            match pooled[at % 2].create(&order).await.status() {
                StatusCode::SERVICE_UNAVAILABLE => {}
                status => break status,
            }
        }
    });
    let statuses: Vec<StatusCode> = orders.buffer_unordered(32).collect().await;
    let is_done = |status: &_| [StatusCode::CREATED, StatusCode::CONFLICT].contains(status);
    assert!(statuses.iter().all(is_done), "{statuses:?}");
    assert_eq!(wiring.rows("orders"), ORDERS);
    wiring.servers().wait_for_mails(ORDERS).await;
    eventually(|| wiring.pending_mails() == 0).await;

    let mails = wiring.mails();
    let ids: HashSet<&str> = mails
        .iter()
        .map(|mail| mail.lines().find(|line| line.starts_with("Message-ID: ")).unwrap())
        .collect();
    assert_eq!((mails.len(), ids.len()), (ORDERS, ORDERS));
    for instance in &instances {
        let name = r#"notary_orders_mails_total{outcome="delivered"}"#;
        assert_ne!(instance.metric(name).await, 0, "an instance delivered nothing");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn expired_lease_of_killed_worker_is_delivered() {
    let wiring = Wiring::production_without_tables();
    let killed = ServiceProcess::keyed(&wiring, &[]);
    let key = killed.key.clone();
    wiring.servers().stall_mail();
    created(killed.order("F-1").await).await;
    wiring.servers().a_mail_stalls().await;
    killed.kill();
    wiring.servers().mails_go_on();
    assert_eq!((wiring.mails().len(), wiring.pending_mails()), (0, 1));

    // This instance has an injected clock, so the test does not wait for the lease to expire.
    let clock = clock_behind_system(time::Duration::ZERO);
    let other = TestApp::start_on(wiring, Arc::clone(&clock), &[], Some(key)).await;
    created(other.order("F-2").await).await;
    let mails = other.mails(1).await;
    assert!(mails[0].contains("F-2"), "the lease has not expired");
    clock.advance(LEASE);
    other.mails(2).await;
    eventually(|| other.pending_mails() == 0).await;
}
