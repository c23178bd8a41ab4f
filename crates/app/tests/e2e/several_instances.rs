//! Two server processes on one PostgreSQL, one bucket and one relay.

use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
    time::{Duration, Instant},
};

use contract_tests::fakes::ManualClock;
use domain::ports::Clock as _;
use futures_util::{StreamExt as _, future::join_all, stream};
use reqwest::StatusCode;

use crate::{
    harness::{
        CREATE, CREATE_WITH_DOCUMENTS, TestApp, created, deed, eventually, form_with_deed, order,
        problem,
    },
    service_process::{ServiceProcess, issue_key, output},
    wiring::Wiring,
};

/// Without a rate limit: these clients are many in one.
const UNLIMITED: &[&str] = &["--rate-per-second=0"];

#[tokio::test(flavor = "multi_thread")]
async fn both_started_at_once_on_an_empty_database_migrate_it_once() {
    let wiring = Wiring::new();
    let one = tokio::task::block_in_place(|| {
        std::thread::scope(|scope| {
            let starts: Vec<_> =
                (0..2).map(|_| scope.spawn(|| ServiceProcess::start(&wiring, &[]))).collect();
            starts.into_iter().map(|start| start.join().unwrap()).next().unwrap()
        })
    });
    assert_eq!(wiring.rows("__diesel_schema_migrations"), 2);
    created(one.post(&issue_key(&wiring), "F-1").await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_hundred_orders_with_one_file_number_over_both_one_is_created() {
    let wiring = Wiring::new();
    let instances =
        [ServiceProcess::start(&wiring, UNLIMITED), ServiceProcess::start(&wiring, UNLIMITED)];
    let (key, client) = (issue_key(&wiring), crate::harness::client());
    let attempts = (0..200).map(|at| {
        let (instance, operation) = (&instances[at % 2], at / 2 % 2);
        let request = match operation {
            0 => client.post(instance.url(CREATE)).json(&order("F-1")),
            _ => client.post(instance.url(CREATE_WITH_DOCUMENTS)).multipart(form_with_deed("F-1")),
        };
        let request = request.bearer_auth(&key);
        async move { request.send().await.unwrap().status().as_u16() }
    });
    let mut statuses = BTreeMap::new();
    for status in join_all(attempts).await {
        *statuses.entry(status).or_insert(0) += 1;
    }
    // On a machine that is too busy for all at once, some are told to come back, and what they
    // uploaded may be left to the sweeper.
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
async fn of_a_hundred_repeats_over_both_one_creates_and_either_answers_again() {
    let wiring = Wiring::new();
    let instances =
        [ServiceProcess::start(&wiring, UNLIMITED), ServiceProcess::start(&wiring, UNLIMITED)];
    let (key, client) = (issue_key(&wiring), crate::harness::client());
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
        for answer in join_all((0..100).map(send)).await {
            match answer.status() {
                StatusCode::CREATED => drop(bodies.insert(answer.text().await.unwrap())),
                _ => drop(problem(answer, 409, "idempotency_in_flight").await),
            }
        }
        for at in 0..2 {
            let again = send(at).await;
            assert_eq!(again.headers()["idempotency-replayed"], "true");
            bodies.insert(again.text().await.unwrap());
        }
        assert_eq!(bodies.len(), 1, "{bodies:?}");
    }
    assert_eq!(
        (
            wiring.rows("orders"),
            wiring.rows("documents"),
            wiring.rows("uploads"),
            wiring.objects().len()
        ),
        (2, 1, 0, 1)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn two_thousand_mails_are_delivered_by_both_and_none_twice() {
    const ORDERS: usize = 2_000;
    let wiring = Wiring::new();
    let instances =
        [ServiceProcess::start(&wiring, UNLIMITED), ServiceProcess::start(&wiring, UNLIMITED)];
    let (key, client) = (issue_key(&wiring), crate::harness::client());
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
    eventually(|| wiring.rows("deliveries") == 0).await;

    let mails = wiring.mails();
    let ids: HashSet<&str> = mails
        .iter()
        .map(|mail| mail.lines().find(|line| line.starts_with("Message-ID: ")).unwrap())
        .collect();
    assert_eq!((mails.len(), ids.len()), (ORDERS, ORDERS));
    for instance in &instances {
        let metrics = client
            .get(format!("http://{}/metrics", instance.ops_address))
            .send()
            .await
            .unwrap()
            .text()
            .await
            .unwrap();
        let delivered = metrics
            .lines()
            .find_map(|line| {
                line.strip_prefix(r#"notary_orders_mails_total{outcome="delivered"} "#)
            })
            .unwrap();
        assert_ne!(delivered, "0", "both workers are on");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_killed_worker_was_at_is_delivered_by_the_other_once_its_lease_has_ended() {
    let wiring = Wiring::new();
    let killed = ServiceProcess::start(&wiring, &[]);
    let key = issue_key(&wiring);
    wiring.stall_mail();
    created(killed.post(&key, "F-1").await).await;
    wiring.a_mail_stalls().await;
    killed.kill();
    wiring.mails_go_on();
    assert_eq!((wiring.mails().len(), wiring.rows("deliveries")), (0, 1));

    // The other one's clock is injected, so that nobody waits for the two minutes of a lease.
    let clock = Arc::new(ManualClock::default());
    clock.advance(app::SystemClock.now() - clock.now());
    let other = TestApp::start_on(wiring, Arc::clone(&clock), &[], Some(key)).await;
    created(other.create(&order("F-2")).await).await;
    let mails = other.mails(1).await;
    assert!(mails[0].contains("F-2"), "the lease still holds");
    clock.advance(time::Duration::minutes(2));
    other.mails(2).await;
    eventually(|| other.rows("deliveries") == 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_revoked_on_one_is_refused_on_the_other() {
    let wiring = Wiring::new();
    let instances = [ServiceProcess::start(&wiring, &[]), ServiceProcess::start(&wiring, &[])];
    let key = issue_key(&wiring);
    for (at, instance) in instances.iter().enumerate() {
        created(instance.post(&key, &format!("F-{at}")).await).await;
    }
    let listed = String::from_utf8(output(&wiring, &["keys", "list"]).stdout).unwrap();
    let id = listed.lines().nth(1).unwrap().split_whitespace().next().unwrap();
    assert!(output(&wiring, &["keys", "revoke", id]).status.success());
    let revoked = Instant::now();
    for instance in &instances {
        let mut attempt = 0;
        while instance.post(&key, &format!("F-later-{attempt}")).await.status()
            != StatusCode::UNAUTHORIZED
        {
            attempt += 1;
            assert!(
                revoked.elapsed() < Duration::from_secs(10),
                "ten seconds are what is promised"
            );
        }
        problem(instance.post(&key, "F-9").await, 401, "unauthorized").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_order_goes_on_at_one_when_the_other_is_killed_with_all_its_documents_in_the_bucket() {
    let wiring = Wiring::new();
    let (killed, other) =
        (ServiceProcess::start(&wiring, UNLIMITED), ServiceProcess::start(&wiring, UNLIMITED));
    let (key, client) = (issue_key(&wiring), crate::harness::client());
    let orders = |instance: &ServiceProcess, from: usize| {
        let url = instance.url(CREATE_WITH_DOCUMENTS);
        let requests: Vec<_> = (from..from + 40)
            .map(|at| {
                client
                    .post(&url)
                    .bearer_auth(&key)
                    .multipart(form_with_deed(&format!("F-{at}")))
                    .send()
            })
            .collect();
        async move {
            let answers = join_all(requests).await;
            answers
                .into_iter()
                .filter(|answer| {
                    answer.as_ref().is_ok_and(|response| response.status() == StatusCode::CREATED)
                })
                .count()
        }
    };
    let at_the_killed = tokio::spawn(orders(&killed, 0));
    eventually(|| wiring.rows("orders") > 0).await;
    killed.kill();
    let acknowledged = at_the_killed.await.unwrap() + orders(&other, 100).await;
    let rows = wiring.rows("orders");
    assert!(
        usize::try_from(rows).unwrap() >= acknowledged && acknowledged >= 40,
        "{rows} orders, {acknowledged} acknowledged"
    );
    let (objects, documents) = (wiring.objects(), wiring.document_keys());
    assert_eq!(i64::try_from(documents.len()).unwrap(), rows);
    for key in documents {
        assert_eq!(objects[&key], deed());
    }
}
