//! Relays that are slow.

use super::*;

fn patient_notifier(server: &SmtpServer) -> Arc<Smtp> {
    let patience = Duration::from_millis(300);
    let timeouts = Timeouts { patience, reuse: patience, check: SHORT, ..GENEROUS };
    Arc::new(Smtp { timeouts, ..notifier(&server.url()) })
}

fn send_in_background(
    notifier: &Arc<Smtp>,
    recipient: &'static str,
) -> tokio::task::JoinHandle<Outcome> {
    let notifier = Arc::clone(notifier);
    tokio::spawn(async move { send(&notifier, mail_to(recipient)).await })
}

async fn wait_until_waiting(notifier: &Smtp, count: usize) {
    let all_wait = async {
        while notifier.waiting() < count {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(TEST_TIMEOUT, all_wait).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn mails_that_wait_for_a_confirmation_hold_up_no_other() {
    const SLOW: usize = 170;
    let server = SmtpServer::start();
    let notifier = patient_notifier(&server);
    server.treat(|step| match (step.phase, step.recipient) {
        (Phase::Content, "slow@example.com") => Treatment::Stall,
        _ => Treatment::Serve,
    });
    let mut sent = Vec::new();
    while sent.len() < SLOW {
        // On a busy machine each may wait for its greeting, and only 128 may do so at once.
        sent.extend((0..SLOW / 2).map(|_| send_in_background(&notifier, "slow@example.com")));
        server.wait_until_held(sent.len(), TEST_TIMEOUT).await;
    }
    wait_until_waiting(&notifier, SLOW).await;
    let sent_past = timeout(TEST_TIMEOUT, send(&notifier, mail_to("fast@example.com"))).await;
    assert_eq!(sent_past, Ok(Outcome::Sent));
    assert_eq!(notifier.waiting(), SLOW, "they wait on");
    server.behave();
    for sent in join_all(sent).await {
        assert_eq!(sent.unwrap(), Outcome::Sent);
    }
    assert_eq!((server.mails().len(), notifier.waiting()), (SLOW + 1, 0), "each is sent once");
}

/// Some servers of a relay hang, and others work.
#[tokio::test(flavor = "multi_thread")]
async fn mails_that_wait_for_a_greeting_hold_up_no_other() {
    const HANGING: usize = 60;
    let server = SmtpServer::start();
    let notifier = patient_notifier(&server);
    server.treat(|step| match step.phase {
        Phase::Greeting if step.connection <= HANGING => Treatment::Stall,
        _ => Treatment::Serve,
    });
    let sent: Vec<_> =
        (0..HANGING).map(|_| send_in_background(&notifier, "slow@example.com")).collect();
    // The first connections are theirs only when the relay has accepted them.
    server.wait_until_held(HANGING, TEST_TIMEOUT).await;
    wait_until_waiting(&notifier, HANGING).await;
    let sent_past = timeout(TEST_TIMEOUT, send(&notifier, mail_to("fast@example.com"))).await;
    assert_eq!(sent_past, Ok(Outcome::Sent));
    assert_eq!(notifier.waiting(), HANGING, "they wait on");
    server.behave();
    for sent in join_all(sent).await {
        assert_eq!(sent.unwrap(), Outcome::Sent);
    }
}

/// A step of a relay's recovery: the greetings of its old connections never come.
#[tokio::test(flavor = "multi_thread")]
async fn more_mails_than_slots_wait_for_a_greeting_and_hold_up_no_other() {
    const SLOTS: usize = 128;
    let server = SmtpServer::start();
    let notifier = patient_notifier(&server);
    server.treat_phase(Phase::Greeting, Treatment::Stall);
    let mut sent: FuturesUnordered<_> =
        (0..SLOTS).map(|_| send_in_background(&notifier, "slow@example.com")).collect();
    // The relay has accepted them all, so a connection after `silent` is of another mail.
    server.wait_until_held(SLOTS, TEST_TIMEOUT).await;
    wait_until_waiting(&notifier, SLOTS).await;
    sent.extend((0..32).map(|_| send_in_background(&notifier, "slow@example.com")));
    for _ in 0..32 {
        let postponed = timeout(TEST_TIMEOUT, sent.next()).await.unwrap();
        assert_eq!(postponed.unwrap().unwrap(), Outcome::Unavailable);
    }
    let silent = server.connections();
    server.treat(move |step| match step.phase {
        Phase::Greeting if step.connection <= silent => Treatment::Stall,
        _ => Treatment::Serve,
    });
    // A busy machine may take longer than the patience, and then this mail is postponed, too.
    let fast =
        async { while send(&notifier, mail_to("fast@example.com")).await != Outcome::Sent {} };
    timeout(TEST_TIMEOUT, fast).await.unwrap();
    assert_eq!(notifier.waiting(), SLOTS);

    // The service stops.
    notifier.stop();
    while let Some(sent) = timeout(TEST_TIMEOUT, sent.next()).await.unwrap() {
        assert_eq!(sent.unwrap(), Outcome::Unavailable);
    }
    assert_eq!((server.mails().len(), notifier.waiting()), (1, 0));
}

/// A new connection would wait for its greeting.
#[tokio::test(flavor = "multi_thread")]
async fn slow_reply_on_a_pooled_connection_is_awaited() {
    let server = SmtpServer::start();
    let notifier = patient_notifier(&server);
    notifier.notify(&mail()).await.unwrap();
    server.treat(|step| match (step.phase, step.connection) {
        (Phase::Mail, 1) | (Phase::Greeting, 2) => Treatment::Stall,
        _ => Treatment::Serve,
    });
    let sent = send_in_background(&notifier, "escrow@title.example.com");
    server.wait_until_held(2, TEST_TIMEOUT).await;
    server.treat(|step| match step.phase {
        Phase::Greeting => Treatment::Stall,
        _ => Treatment::Serve,
    });
    assert_eq!(timeout(TEST_TIMEOUT, sent).await.unwrap().unwrap(), Outcome::Sent);
    assert_eq!(server.connections(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_greeting_delays_mails_only() {
    let server = SmtpServer::start();
    let notifier = patient_notifier(&server);
    server.treat_phase(Phase::Greeting, Treatment::Stall);
    let sent = send_in_background(&notifier, "escrow@title.example.com");
    wait_until_waiting(&notifier, 1).await;
    let checked = notifier.check().await.unwrap_err();
    assert!(is_slow(&checked) && !is_refusal(&checked), "{checked:?}");
    server.behave();
    assert_eq!(sent.await.unwrap(), Outcome::Sent);
}
