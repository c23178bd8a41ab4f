//! The relay fails in every phase of a mail. No client may notice and no mail may be lost.

use std::{
    io::Read as _,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use domain::ports::Clock as _;
use futures_util::future::join_all;
use test_servers::smtp::{Phase, Treatment};

use crate::{
    harness::service_process::{ServiceProcess, notary_orders, on_a_terminal},
    harness::{PATIENCE, TestApp, created, eventually, patiently},
    wiring::{Kind, Wiring},
};

const PHASES: [Phase; 9] = [
    Phase::Greeting,
    Phase::Ehlo,
    Phase::StartTls,
    Phase::Auth,
    Phase::Mail,
    Phase::Rcpt,
    Phase::Data,
    Phase::Content,
    Phase::Quit,
];

const TREATMENTS: [Treatment; 6] = [
    Treatment::Refuse("451 4.3.0 Not now"),
    Treatment::Refuse("554 5.7.1 Not from you"),
    Treatment::Refuse("nonsense"),
    Treatment::HangUp,
    Treatment::ServeAndHangUp,
    Treatment::Stall,
];

#[tokio::test(flavor = "multi_thread")]
async fn relay_failures_in_any_phase_lose_no_mail() {
    join_all(TREATMENTS.map(|treatment| async move {
        let app = Kind::Production.app().await;
        for phase in PHASES {
            create_order_during_failure(&app, phase, treatment).await;
        }
        app.wiring.servers().relay().behave();
        let deadline = Instant::now() + PATIENCE;
        while app.pending_mails() > 0 {
            assert!(
                Instant::now() < deadline,
                "{treatment:?}: {:?}",
                app.storage().queue.list(false, 10).await
            );
            // An operator retries mails that failed for good.
            for failed in app.storage().queue.list(true, 10).await.unwrap() {
                assert!(
                    matches!(treatment, Treatment::Refuse(reply) if reply.starts_with('5')),
                    "{treatment:?}: {failed:?}"
                );
                app.storage().queue.retry(failed.id, app.clock.now()).await.unwrap();
            }
            app.clock.advance(time::Duration::minutes(3));
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let mails = app.wiring.mails();
        for phase in PHASES {
            let number = format!("F-{phase:?}");
            assert!(mails.iter().any(|mail| mail.contains(&number)), "{treatment:?}: {number}");
        }
    }))
    .await;
}

/// Creates an order and waits until an attempt to deliver its mail meets the failure.
async fn create_order_during_failure(app: &TestApp, phase: Phase, treatment: Treatment) {
    let failures = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&failures);
    // Forces new connections: an open session has passed some phases already.
    app.wiring.break_mail();
    app.wiring.mend_mail();
    app.wiring.servers().relay().treat(move |step| {
        if step.phase != phase {
            return Treatment::Serve;
        }
        counter.fetch_add(1, Ordering::SeqCst);
        treatment
    });
    // A delivery waits five minutes for a relay that stalls: no order waits for its mail.
    created(patiently(app.order(&format!("F-{phase:?}"))).await).await;
    eventually(|| {
        app.clock.advance(time::Duration::milliseconds(200));
        // The service does not wait for the reply to `QUIT`.
        failures.load(Ordering::SeqCst) > 0 || phase == Phase::Quit
    })
    .await;
    assert_eq!(app.ops("/readyz").await.0, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn erasure_says_how_many_mails_it_waits_for() {
    let wiring = Wiring::production();
    let service = ServiceProcess::keyed(&wiring, &[]);
    wiring.servers().stall_mail();
    created(service.order("F-1").await).await;
    wiring.servers().a_mail_stalls().await;
    let mut erase = on_a_terminal(&notary_orders(&wiring, &["orders", "erase", "1", "--yes"]));
    let mut erase = erase.envs(wiring.environment()).spawn().unwrap();
    let (mut shown, mut terminal) = (Vec::new(), erase.stdout.take().unwrap());
    let mut block = [0; 4096];
    while !String::from_utf8_lossy(&shown).contains("uploads in progress (1)") {
        let read = terminal.read(&mut block).unwrap();
        assert_ne!(read, 0, "{}", String::from_utf8_lossy(&shown));
        shown.extend_from_slice(&block[..read]);
    }
    wiring.servers().mails_go_on();
    assert!(erase.wait().unwrap().success());
    assert_eq!((wiring.mails().len(), wiring.pending_mails()), (1, 0));
}
