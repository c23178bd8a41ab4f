use std::sync::Arc;

use contract_tests::{fakes::CountingEntropy, notifier::notification_of};
use futures_util::{StreamExt as _, future::join_all, stream::FuturesUnordered};
use test_servers::smtp::{Offer, Phase, SmtpServer, Tls, Treatment};

mod contract;
mod secrecy;
mod slow;

use super::*;
use crate::order::{render, tests::full_request};

/// Guards against a test that hangs. Any other limit that such a test could wait for is longer.
const TEST_TIMEOUT: Duration = Duration::from_mins(2);

/// Limits that no step meets on a busy machine. A test of a limit sets its own.
const GENEROUS: Timeouts = Timeouts {
    patience: Duration::from_hours(1),
    begin: Duration::from_hours(1),
    transfer: Duration::from_hours(1),
    confirm: Duration::from_hours(1),
    reuse: Duration::from_hours(1),
    lowered: Duration::from_hours(1),
    cleanup: Duration::from_hours(1),
    check: Duration::from_hours(1),
};

/// A limit that a relay meets if it does not answer.
const SHORT: Duration = Duration::from_millis(1_500);

fn notifier(url: &str) -> Smtp {
    notifier_from("orders@example.com", url)
}

fn notifier_from(sender: &str, url: &str) -> Smtp {
    Smtp {
        timeouts: GENEROUS,
        ..Smtp::open(&Url::parse(url).unwrap(), sender.parse().unwrap()).unwrap()
    }
}

fn mail() -> Notification {
    mail_to("escrow@title.example.com")
}

fn mail_to(recipient: &str) -> Notification {
    notification_of(full_request(), recipient, &CountingEntropy::default())
}

#[test]
fn only_lasting_rejections_are_refusals() {
    let rejected = |code| {
        let reply = format!("{code} no");
        unavailable(Failure::Rejected { step: failure::Step::Credentials, code, reply })
    };
    for refusal in [rejected(535), rejected(550), unavailable(Failure::NoTls)] {
        assert!(is_refusal(&refusal), "{refusal:?}");
    }
    let broken = unavailable(Failure::Broken("reset".into()));
    for outage in [rejected(421), rejected(454), unavailable(Failure::Timeout), broken] {
        assert!(!is_refusal(&outage), "{outage:?}");
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Sent,
    Unavailable,
    Transient,
    Unknown,
    Permanent,
}

async fn send(notifier: &Smtp, mail: Notification) -> Outcome {
    match notifier.notify(&mail).await {
        Ok(()) => Outcome::Sent,
        Err(NotifyError::Unavailable(_)) => Outcome::Unavailable,
        Err(NotifyError::Transient(_)) => Outcome::Transient,
        Err(NotifyError::Unknown(_)) => Outcome::Unknown,
        Err(NotifyError::Permanent(_)) => Outcome::Permanent,
    }
}

/// A relay that goes through every phase.
const FULL: Offer = Offer { tls: Tls::StartTls, auth: Some("PLAIN") };

#[tokio::test(flavor = "multi_thread")]
async fn phase_and_code_classify_a_rejection() {
    use Outcome::{Permanent, Transient, Unavailable, Unknown};
    let cases = [
        (Phase::Greeting, "554 5.3.2 No mail here", Unavailable),
        (Phase::Greeting, "421 4.3.2 Closing", Unavailable),
        (Phase::Greeting, "521 No mail here", Unavailable),
        (Phase::Ehlo, "550 5.7.1 I do not know you", Unavailable),
        (Phase::StartTls, "454 4.7.0 Not now", Unavailable),
        (Phase::Auth, "535 5.7.8 Wrong", Unavailable),
        (Phase::Auth, "534 5.7.9 Too weak", Unavailable),
        (Phase::Auth, "454 4.7.0 Not now", Unavailable),
        (Phase::Mail, "530 5.7.0 Log in first", Unavailable),
        (Phase::Mail, "550 5.7.1 Not your sender", Unavailable),
        (Phase::Mail, "452 4.3.1 Disk full", Unavailable),
        (Phase::Rcpt, "550 5.1.1 No such user", Permanent),
        (Phase::Rcpt, "501 5.1.3 Bad address", Permanent),
        (Phase::Rcpt, "450 4.2.0 Greylisted", Transient),
        (Phase::Rcpt, "452 4.2.2 Mailbox full", Transient),
        (Phase::Rcpt, "421 4.3.2 Closing", Unavailable),
        (Phase::Rcpt, "530 5.7.0 Log in first", Unavailable),
        (Phase::Rcpt, "503 5.5.1 What was that?", Unavailable),
        (Phase::Data, "554 5.6.0 No", Permanent),
        (Phase::Data, "451 4.3.0 Not now", Transient),
        (Phase::Data, "421 4.3.2 Closing", Unavailable),
        (Phase::Data, "250 2.0.0 Out of step", Transient),
        (Phase::Content, "550 5.7.1 Looks like spam", Permanent),
        (Phase::Content, "552 5.3.4 Too big", Permanent),
        (Phase::Content, "451 4.3.0 Not now", Transient),
        (Phase::Content, "421 4.3.2 Closing", Unavailable),
        (Phase::Content, "354 Out of step", Unknown),
    ];
    join_all(cases.map(async |(phase, reply, expected)| {
        let server = SmtpServer::offering(FULL);
        let notifier = notifier(&server.url());
        server.treat_phase(phase, Treatment::Refuse(reply));
        assert_eq!(send(&notifier, mail()).await, expected, "{reply} to {phase:?}");
        assert_eq!(server.mails(), [], "{reply} to {phase:?}");
        server.behave();
        assert_eq!(send(&notifier, mail()).await, Outcome::Sent, "after {reply} to {phase:?}");
        assert_eq!(server.mails().len(), 1, "after {reply} to {phase:?}");
    }))
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn stalled_relay_is_abandoned_after_the_limit_of_its_step() {
    use Outcome::{Transient, Unavailable, Unknown};
    let begin = Timeouts { begin: SHORT, ..GENEROUS };
    // The cleanup asks the same silent relay.
    let impatient = Timeouts { patience: SHORT / 2, cleanup: SHORT, ..GENEROUS };
    let transfer = Timeouts { transfer: SHORT, ..impatient };
    let confirm = Timeouts { confirm: SHORT, ..impatient };
    let phases = [
        (Phase::Handshake, begin, Unavailable),
        (Phase::Greeting, begin, Unavailable),
        (Phase::Ehlo, begin, Unavailable),
        (Phase::StartTls, begin, Unavailable),
        (Phase::Auth, begin, Unavailable),
        (Phase::Mail, begin, Unavailable),
        (Phase::Rcpt, transfer, Transient),
        (Phase::Data, transfer, Transient),
        (Phase::Content, confirm, Unknown),
    ];
    let treatments = [Treatment::Stall, Treatment::Drip, Treatment::HangUp];
    let cases: Vec<_> = phases
        .into_iter()
        .flat_map(|phase| treatments.map(|treatment| (phase, treatment)))
        .collect();
    join_all(cases.into_iter().map(async |((phase, timeouts, expected), treatment)| {
        let server = SmtpServer::offering(if phase == Phase::Handshake {
            Offer { tls: Tls::Implicit, auth: None }
        } else {
            FULL
        });
        let mut notifier = Smtp { timeouts, ..notifier(&server.url()) };
        server.treat_phase(phase, treatment);
        let outcome = timeout(TEST_TIMEOUT, send(&notifier, mail())).await;
        assert_eq!(outcome, Ok(expected), "{treatment:?} at {phase:?}");
        assert_eq!(server.mails(), [], "{treatment:?} at {phase:?}");
        server.behave();
        notifier.timeouts = GENEROUS;
        let after = send(&notifier, mail()).await;
        assert_eq!(after, Outcome::Sent, "after {treatment:?} at {phase:?}");
        assert_eq!(server.mails().len(), 1, "after {treatment:?} at {phase:?}");
    }))
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn relay_that_stops_during_a_mail_is_unavailable() {
    join_all([Phase::Rcpt, Phase::Data].map(async |phase| {
        let server = SmtpServer::start();
        let mut notifier = notifier(&server.url());
        let (patience, begin, transfer, cleanup) = (SHORT / 2, SHORT, SHORT, SHORT);
        notifier.timeouts = Timeouts { patience, begin, transfer, cleanup, ..GENEROUS };
        // The check on a new connection fails, too.
        server.treat(move |step| {
            if step.phase == phase || step.connection > 1 {
                Treatment::Stall
            } else {
                Treatment::Serve
            }
        });
        let stalled = send(&notifier, mail()).await;
        assert_eq!(stalled, Outcome::Unavailable, "stalled at {phase:?}");

        notifier.timeouts = GENEROUS;
        server.treat_phase(phase, Treatment::Stall);
        let (stopped, ()) = tokio::join!(send(&notifier, mail()), async {
            server.wait_until_held(1, TEST_TIMEOUT).await;
            server.stop();
        });
        assert_eq!(stopped, Outcome::Unavailable, "stopped at {phase:?}");
    }))
    .await;
}

#[test]
fn timeouts_are_those_of_the_standard_and_of_the_port() {
    let Timeouts { begin, transfer, confirm, cleanup, .. } = TIMEOUTS;
    // RFC 5321, section 4.5.3.2.
    assert_eq!([begin, confirm], [5, 10].map(|minutes| Duration::from_secs(60 * minutes)));
    assert!(2 * begin + transfer + confirm + cleanup <= Duration::from_secs(26 * 60));
    assert!(TIMEOUTS.check < Duration::from_secs(5) && TIMEOUTS.reuse < TIMEOUTS.patience);
}

#[tokio::test(flavor = "multi_thread")]
async fn lost_acceptance_repeats_the_same_mail() {
    let server = SmtpServer::start();
    let notifier = notifier(&server.url());
    server.treat_phase(Phase::Content, Treatment::ServeAndHangUp);
    assert_eq!(send(&notifier, mail()).await, Outcome::Unknown);
    server.behave();
    notifier.notify(&mail()).await.unwrap();
    let mails = server.mails();
    assert_eq!(mails.len(), 2);
    assert_eq!(mails[0].raw, mails[1].raw);
}

#[tokio::test(flavor = "multi_thread")]
async fn rejected_recipient_does_not_affect_others() {
    let server = SmtpServer::start();
    let notifier = notifier(&server.url());
    server.treat(|step| match (step.phase, step.recipient) {
        (Phase::Rcpt, "unknown@example.com") => Treatment::Refuse("550 5.1.1 No such user"),
        _ => Treatment::Serve,
    });
    for _ in 0..3 {
        assert_eq!(send(&notifier, mail_to("unknown@example.com")).await, Outcome::Permanent);
        assert_eq!(send(&notifier, mail_to("known@example.com")).await, Outcome::Sent);
    }
    let mails = server.mails();
    assert!(
        mails.len() == 3 && mails.iter().all(|mail| mail.to == ["known@example.com"]),
        "{mails:?}"
    );
    assert_eq!(server.connections(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn relay_receives_the_mail_byte_for_byte() {
    let server = SmtpServer::start();
    let notifier = notifier(&server.url());
    let mut request = full_request();
    request["signingDetailsFormData"]["specialInstructions"] = ".\n..\n.hidden\n\n.\nQUIT".into();
    let notification =
        notification_of(request, "escrow@title.example.com", &CountingEntropy::default());
    notifier.notify(&notification).await.unwrap();
    assert_eq!(server.mails()[0].raw, render(&notifier.sender, &notification).unwrap().formatted());
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_are_limited_and_reused() {
    let server = SmtpServer::start();
    let notifier = Arc::new(notifier(&server.url()));
    let entropy = CountingEntropy::default();
    let notifications: Vec<_> = (0..200)
        .map(|number| notification_of(full_request(), &format!("r{number}@example.com"), &entropy))
        .collect();
    let sent = notifications.into_iter().map(|notification| {
        let notifier = Arc::clone(&notifier);
        tokio::spawn(async move { notifier.notify(&notification).await })
    });
    for result in join_all(sent).await {
        result.unwrap().unwrap();
    }
    let mut recipients: Vec<_> = server.mails().into_iter().flat_map(|mail| mail.to).collect();
    recipients.sort_unstable();
    recipients.dedup();
    assert_eq!(recipients.len(), 200);
    assert!((2..=32).contains(&server.connections()), "{}", server.connections());
}

/// Relays limit the connections of a client, usually to 10, 20 or 50.
#[tokio::test(flavor = "multi_thread")]
async fn connection_limit_of_the_relay_is_no_outage() {
    const LIMIT: usize = 4;
    const TOO_MANY: Treatment = Treatment::Refuse("421 4.7.0 Too many connections");
    let server = SmtpServer::start();
    let notifier = Arc::new(notifier(&server.url()));
    server.treat(|step| match step.phase {
        Phase::Greeting if step.connection > LIMIT => TOO_MANY,
        Phase::Content => Treatment::Stall,
        _ => Treatment::Serve,
    });
    let send_some = |count| {
        let mails = (0..count).map(|_| {
            let notifier = Arc::clone(&notifier);
            tokio::spawn(async move { send(&notifier, mail()).await })
        });
        mails.collect::<Vec<_>>()
    };
    let first = send_some(LIMIT);
    server.wait_until_held(LIMIT, TEST_TIMEOUT).await;
    // Each gets a connection rejected and waits for one of the first.
    let others = send_some(20);
    let all_connected = async {
        while server.connections() < LIMIT + 20 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(TEST_TIMEOUT, all_connected).await.unwrap();
    server.treat(|step| match step.phase {
        Phase::Greeting if step.connection > LIMIT => TOO_MANY,
        _ => Treatment::Serve,
    });
    for sent in join_all(first.into_iter().chain(others)).await {
        assert_eq!(sent.unwrap(), Outcome::Sent);
    }
    assert_eq!(server.mails().len(), LIMIT + 20);
    // Each rejection lowers the limit.
    assert!(server.connections() <= 32, "{}", server.connections());
}

#[tokio::test(flavor = "multi_thread")]
async fn relay_that_rejects_every_connection_is_unavailable_at_once() {
    let server = SmtpServer::start();
    let timeouts = Timeouts { lowered: TIMEOUTS.lowered, ..GENEROUS };
    let notifier = Smtp { timeouts, ..notifier(&server.url()) };
    notifier.notify(&mail()).await.unwrap();
    server.treat(|step| match step.phase {
        Phase::Greeting => Treatment::Refuse("421 4.3.2 Closing"),
        Phase::Mail => Treatment::HangUp,
        _ => Treatment::Serve,
    });
    // None waits for a limit.
    let outcomes = timeout(TEST_TIMEOUT, join_all((0..8).map(|_| send(&notifier, mail())))).await;
    assert_eq!(outcomes.unwrap(), [Outcome::Unavailable; 8]);
}

#[tokio::test(flavor = "multi_thread")]
async fn dead_pooled_connection_is_replaced_after_the_limit_of_its_reply() {
    let server = SmtpServer::start();
    let timeouts = Timeouts { reuse: Duration::from_millis(100), ..GENEROUS };
    let notifier = Smtp { timeouts, ..notifier(&server.url()) };
    notifier.notify(&mail()).await.unwrap();
    server.stop();
    server.start_again();
    notifier.notify(&mail()).await.unwrap();

    for treatment in [
        Treatment::HangUp,
        Treatment::Refuse("421 4.7.0 Too many mails"),
        Treatment::Refuse("452 4.5.3 Too many mails"),
        Treatment::Stall,
    ] {
        server.treat(move |step| {
            if step.phase == Phase::Mail && step.mails_before > 0 {
                treatment
            } else {
                Treatment::Serve
            }
        });
        let sent = timeout(TEST_TIMEOUT, notifier.notify(&mail())).await;
        sent.unwrap_or_else(|_| panic!("{treatment:?}")).unwrap();
    }
    assert_eq!(server.mails().len(), 6);
}

/// Runs on one thread, because the test moves the clock of the runtime.
#[tokio::test]
async fn long_idle_connection_ends_with_quit() {
    let server = SmtpServer::start();
    let notifier = notifier(&server.url());
    for (idle, connections) in [(0, 1), (29, 1), (31, 2)] {
        tokio::time::pause();
        tokio::time::advance(Duration::from_secs(idle)).await;
        tokio::time::resume();
        notifier.notify(&mail()).await.unwrap();
        assert_eq!(server.connections(), connections, "after {idle} seconds");
    }
    let quit = async {
        while server.commands().iter().all(|line| line != "QUIT") {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(TEST_TIMEOUT, quit).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn ehlo_names_the_domain_of_the_sender() {
    for (sender, hello) in
        [("Orders <orders@example.com>", "example.com"), ("orders@localhost", "[127.0.0.1]")]
    {
        let server = SmtpServer::start();
        notifier_from(sender, &server.url()).notify(&mail()).await.unwrap();
        assert_eq!(server.mails()[0].hello, hello);
    }
}
