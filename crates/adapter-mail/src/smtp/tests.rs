use std::{sync::Arc, time::Instant};

use contract_tests::{
    fakes::CountingEntropy,
    notifier::{full_request, notification_of},
};
use futures_util::future::join_all;
use test_servers::smtp::{Offer, Phase, SmtpServer, Tls, Treatment};

mod secrecy;

use super::*;

const PATIENT: Duration = Duration::from_secs(10);

/// So that no test waits for long. Enough for a busy machine nevertheless.
const IMPATIENCE: Patience = Patience {
    begin: Duration::from_millis(1_500),
    transfer: Duration::from_millis(1_500),
    aftermath: Duration::from_secs(1),
    check: Duration::from_millis(1_500),
};

fn notifier(url: &str) -> Smtp {
    from("orders@example.com", url)
}

fn from(sender: &str, url: &str) -> Smtp {
    Smtp {
        patience: IMPATIENCE,
        ..Smtp::open(&Url::parse(url).unwrap(), sender.parse().unwrap()).unwrap()
    }
}

fn mail() -> Notification {
    mail_to("escrow@title.example.com")
}

fn mail_to(recipient: &str) -> Notification {
    notification_of(full_request(), recipient, &CountingEntropy::default())
}

/// Who has to do with a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Whose {
    Everybodys,
    MailsForNow,
    MailsForGood,
}

fn whose(result: &Result<(), NotifyError>) -> Option<Whose> {
    match result {
        Ok(()) => None,
        Err(NotifyError::Unavailable(_)) => Some(Whose::Everybodys),
        Err(NotifyError::Transient(_)) => Some(Whose::MailsForNow),
        Err(NotifyError::Permanent(_)) => Some(Whose::MailsForGood),
    }
}

/// A relay with everything that a phase may be about.
const FULL: Offer = Offer { tls: Tls::StartTls, auth: Some("PLAIN") };

#[tokio::test(flavor = "multi_thread")]
async fn the_phase_and_the_code_tell_whose_a_refusal_is() {
    use Whose::{Everybodys, MailsForGood, MailsForNow};
    let cases = [
        (Phase::Greeting, "554 5.3.2 No mail here", Everybodys),
        (Phase::Greeting, "421 4.3.2 Closing", Everybodys),
        (Phase::Greeting, "521 No mail here", Everybodys),
        (Phase::Ehlo, "550 5.7.1 I do not know you", Everybodys),
        (Phase::StartTls, "454 4.7.0 Not now", Everybodys),
        (Phase::Auth, "535 5.7.8 Wrong", Everybodys),
        (Phase::Auth, "534 5.7.9 Too weak", Everybodys),
        (Phase::Auth, "454 4.7.0 Not now", Everybodys),
        (Phase::Mail, "530 5.7.0 Log in first", Everybodys),
        (Phase::Mail, "550 5.7.1 Not your sender", Everybodys),
        (Phase::Mail, "452 4.3.1 Disk full", Everybodys),
        (Phase::Rcpt, "550 5.1.1 No such user", MailsForGood),
        (Phase::Rcpt, "501 5.1.3 Bad address", MailsForGood),
        (Phase::Rcpt, "450 4.2.0 Greylisted", MailsForNow),
        (Phase::Rcpt, "452 4.2.2 Mailbox full", MailsForNow),
        (Phase::Rcpt, "421 4.3.2 Closing", Everybodys),
        (Phase::Rcpt, "530 5.7.0 Log in first", Everybodys),
        (Phase::Rcpt, "503 5.5.1 What was that?", Everybodys),
        (Phase::Data, "554 5.6.0 No", MailsForGood),
        (Phase::Data, "451 4.3.0 Not now", MailsForNow),
        (Phase::Data, "421 4.3.2 Closing", Everybodys),
        (Phase::Data, "250 2.0.0 Out of step", MailsForNow),
        (Phase::Content, "550 5.7.1 Looks like spam", MailsForGood),
        (Phase::Content, "552 5.3.4 Too big", MailsForGood),
        (Phase::Content, "451 4.3.0 Not now", MailsForNow),
        (Phase::Content, "421 4.3.2 Closing", Everybodys),
        (Phase::Content, "354 Out of step", MailsForNow),
    ];
    join_all(cases.map(async |(phase, reply, expected)| {
        let server = SmtpServer::offering(FULL);
        let notifier = notifier(&server.url());
        server.treat_phase(phase, Treatment::Refuse(reply));
        assert_eq!(whose(&notifier.notify(&mail()).await), Some(expected), "{reply} to {phase:?}");
        assert_eq!(server.mails(), [], "{reply} to {phase:?}");
        server.behave();
        assert_eq!(whose(&notifier.notify(&mail()).await), None, "after {reply} to {phase:?}");
        assert_eq!(server.mails().len(), 1, "after {reply} to {phase:?}");
    }))
    .await;
}

/// One that everything happens to is everybody's. What happens to a mail alone is the mail's.
#[tokio::test(flavor = "multi_thread")]
async fn a_relay_that_does_not_go_on_is_given_up_in_time() {
    use Whose::{Everybodys, MailsForNow};
    let phases = [
        (Phase::Handshake, Everybodys),
        (Phase::Greeting, Everybodys),
        (Phase::Ehlo, Everybodys),
        (Phase::StartTls, Everybodys),
        (Phase::Auth, Everybodys),
        (Phase::Mail, Everybodys),
        (Phase::Rcpt, MailsForNow),
        (Phase::Data, MailsForNow),
        (Phase::Content, MailsForNow),
    ];
    let treatments = [Treatment::Stall, Treatment::Drip, Treatment::HangUp];
    let cases: Vec<_> = phases
        .into_iter()
        .flat_map(|phase| treatments.map(|treatment| (phase, treatment)))
        .collect();
    join_all(cases.into_iter().map(async |((phase, expected), treatment)| {
        let server = SmtpServer::offering(if phase == Phase::Handshake {
            Offer { tls: Tls::Implicit, auth: None }
        } else {
            FULL
        });
        let notifier = notifier(&server.url());
        server.treat_phase(phase, treatment);
        let start = Instant::now();
        assert_eq!(
            whose(&notifier.notify(&mail()).await),
            Some(expected),
            "{treatment:?} at {phase:?}"
        );
        let most = IMPATIENCE.begin
            + IMPATIENCE.transfer
            + IMPATIENCE.aftermath
            + Duration::from_millis(500);
        assert!(start.elapsed() < most, "{treatment:?} at {phase:?} took {:?}", start.elapsed());
        assert_eq!(server.mails(), [], "{treatment:?} at {phase:?}");
        server.behave();
        assert_eq!(
            whose(&notifier.notify(&mail()).await),
            None,
            "after {treatment:?} at {phase:?}"
        );
        assert_eq!(server.mails().len(), 1, "after {treatment:?} at {phase:?}");
    }))
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_relay_that_stops_in_the_middle_of_a_mail_is_an_outage() {
    join_all([Phase::Rcpt, Phase::Data, Phase::Content].map(async |phase| {
        let server = SmtpServer::start();
        let notifier = notifier(&server.url());
        // From here on, nothing at all.
        server.treat(move |step| {
            if step.phase == phase || step.connection > 1 {
                Treatment::Stall
            } else {
                Treatment::Serve
            }
        });
        assert_eq!(
            whose(&notifier.notify(&mail()).await),
            Some(Whose::Everybodys),
            "stalled at {phase:?}"
        );

        server.treat_phase(phase, Treatment::Stall);
        let mail = mail();
        let (result, ()) = tokio::join!(notifier.notify(&mail), async {
            server.wait_until_held(1, PATIENT).await;
            server.stop();
        });
        assert_eq!(whose(&result), Some(Whose::Everybodys), "stopped at {phase:?}");
    }))
    .await;
}

#[test]
fn an_answer_comes_within_what_the_port_promises() {
    assert!(PATIENCE.begin + PATIENCE.transfer + PATIENCE.aftermath < Duration::from_secs(30));
    assert!(PATIENCE.check < Duration::from_secs(5));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mail_whose_acceptance_got_lost_is_handed_over_again_under_the_same_message_id() {
    let server = SmtpServer::start();
    let notifier = notifier(&server.url());
    server.treat_phase(Phase::Content, Treatment::ServeAndHangUp);
    assert_eq!(whose(&notifier.notify(&mail()).await), Some(Whose::MailsForNow));
    server.behave();
    notifier.notify(&mail()).await.unwrap();
    let mails = server.mails();
    assert_eq!(mails.len(), 2);
    assert_eq!(mails[0].raw, mails[1].raw);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_recipient_keeps_no_other_from_its_mail() {
    let server = SmtpServer::start();
    let notifier = notifier(&server.url());
    server.treat(|step| match (step.phase, step.recipient) {
        (Phase::Rcpt, "unknown@example.com") => Treatment::Refuse("550 5.1.1 No such user"),
        _ => Treatment::Serve,
    });
    for _ in 0..3 {
        assert_eq!(
            whose(&notifier.notify(&mail_to("unknown@example.com")).await),
            Some(Whose::MailsForGood)
        );
        assert_eq!(whose(&notifier.notify(&mail_to("known@example.com")).await), None);
    }
    let mails = server.mails();
    assert!(
        mails.len() == 3 && mails.iter().all(|mail| mail.to == ["known@example.com"]),
        "{mails:?}"
    );
    assert_eq!(server.connections(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_sent_is_received_byte_for_byte() {
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
async fn connections_are_few_and_used_again() {
    let server = SmtpServer::start();
    let notifier = Arc::new(notifier(&server.url()));
    let (recipients, entropy) = (0..200, CountingEntropy::default());
    let notifications: Vec<_> = recipients
        .map(|number| notification_of(full_request(), &format!("r{number}@example.com"), &entropy))
        .collect();
    let sent = notifications.into_iter().map(|notification| {
        let notifier = Arc::clone(&notifier);
        tokio::spawn(async move { notifier.notify(&notification).await })
    });
    for result in join_all(sent).await {
        result.unwrap().unwrap();
    }
    let mut reached: Vec<_> = server.mails().into_iter().flat_map(|mail| mail.to).collect();
    reached.sort_unstable();
    reached.dedup();
    assert_eq!(reached.len(), 200);
    assert!(server.connections() <= 8, "{}", server.connections());
    assert!(server.most_connections_at_a_time() > 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mail_meets_no_connection_that_was_closed_meanwhile() {
    let server = SmtpServer::start();
    let notifier = notifier(&server.url());
    notifier.notify(&mail()).await.unwrap();
    server.stop();
    server.start_again();
    notifier.notify(&mail()).await.unwrap();

    for treatment in [
        Treatment::HangUp,
        Treatment::Refuse("421 4.7.0 Too many mails"),
        Treatment::Refuse("452 4.5.3 Too many mails"),
    ] {
        server.treat(move |step| {
            if step.phase == Phase::Mail && step.mails_before > 0 {
                treatment
            } else {
                Treatment::Serve
            }
        });
        notifier.notify(&mail()).await.unwrap();
    }
    assert_eq!(server.mails().len(), 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mail_does_not_wait_long_for_a_connection_that_was_forgotten_on_the_way() {
    let server = SmtpServer::start();
    let notifier = Smtp { patience: PATIENCE, ..notifier(&server.url()) };
    notifier.notify(&mail()).await.unwrap();
    server.treat(|step| if step.mails_before > 0 { Treatment::Stall } else { Treatment::Serve });
    let start = Instant::now();
    notifier.notify(&mail()).await.unwrap();
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
}

/// On one thread, whose clock the test moves.
#[tokio::test]
async fn a_connection_that_lay_idle_for_long_is_left_politely() {
    let server = SmtpServer::start();
    let notifier = notifier(&server.url());
    for (idle, connections) in [(0, 1), (29, 1), (31, 2)] {
        tokio::time::pause();
        tokio::time::advance(Duration::from_secs(idle)).await;
        tokio::time::resume();
        notifier.notify(&mail()).await.unwrap();
        assert_eq!(server.connections(), connections, "after {idle} seconds");
    }
    let left = async {
        while server.commands().iter().all(|command| command.line != "QUIT") {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(PATIENT, left).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_greeting_names_the_domain_of_the_sender_or_an_address() {
    for (sender, hello) in
        [("Orders <orders@example.com>", "example.com"), ("orders@localhost", "[127.0.0.1]")]
    {
        let server = SmtpServer::start();
        from(sender, &server.url()).notify(&mail()).await.unwrap();
        assert_eq!(server.mails()[0].hello, hello);
    }
}
