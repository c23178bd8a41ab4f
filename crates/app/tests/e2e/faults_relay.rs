//! The relay fails in every phase of a mail. No client notices, and no mail is lost.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use domain::ports::Clock as _;
use futures_util::future::join_all;
use test_servers::smtp::{Phase, Treatment};

use crate::harness::{TestApp, created, order};

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
async fn in_whatever_phase_it_refuses_hangs_up_or_stalls() {
    join_all(TREATMENTS.map(|treatment| async move {
        let app = TestApp::start().await;
        for phase in PHASES {
            order_while_it_fails(&app, phase, treatment).await;
        }
        app.wiring.relay().behave();
        let began = Instant::now();
        while app.rows("deliveries") > 0 {
            assert!(
                began.elapsed() < Duration::from_secs(60),
                "{treatment:?}: {:?}",
                app.storage().queue.list(false, 10).await
            );
            // What was refused for good is an operator's to try again.
            for failed in app.storage().queue.list(true, 10).await.unwrap() {
                assert!(
                    matches!(treatment, Treatment::Refuse(said) if said.starts_with('5')),
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

/// An order, and an attempt to deliver its mail that meets the failure.
async fn order_while_it_fails(app: &TestApp, phase: Phase, treatment: Treatment) {
    let met = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&met);
    // On new connections: a session that is open already has some phases behind it.
    app.wiring.break_mail();
    app.wiring.mend_mail();
    app.wiring.relay().treat(move |step| {
        if step.phase != phase {
            return Treatment::Serve;
        }
        counted.fetch_add(1, Ordering::SeqCst);
        treatment
    });
    let asked = Instant::now();
    created(app.create(&order(&format!("F-{phase:?}"))).await).await;
    assert!(asked.elapsed() < Duration::from_secs(10), "{:?}", asked.elapsed());
    // No mail waits for the politeness at the end.
    let began = Instant::now();
    while met.load(Ordering::SeqCst) == 0 && phase != Phase::Quit {
        assert!(
            began.elapsed() < Duration::from_secs(20),
            "{treatment:?} in {phase:?} was not met"
        );
        app.clock.advance(time::Duration::SECOND);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(app.ops("/readyz").await.0, 200);
}
