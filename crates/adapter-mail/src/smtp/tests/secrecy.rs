//! Encryption of connections, and secrets in error texts.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use domain::ports::error_chain;
use test_servers::smtp::{Offer, PASSWORD, Phase, SmtpServer, Tls, Treatment, USER};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::TcpListener,
};
use tracing::{
    Event, Level, Metadata, Subscriber,
    span::{Attributes, Id, Record},
};

use super::{super::*, FULL, GENEROUS, SHORT, mail, mail_to, notifier};

#[tokio::test(flavor = "multi_thread")]
async fn starttls_is_used_where_it_is_offered() {
    let server = SmtpServer::offering(Offer { tls: Tls::StartTls, auth: None });
    let (port, root) = (server.address().port(), server.root_certificate());
    for parameters in ["", "&tls=opportunistic", "&tls=required"] {
        notifier(&format!("smtp://localhost:{port}?ca={}{parameters}", root.display()))
            .notify(&mail())
            .await
            .unwrap();
        assert!(server.mails().last().unwrap().encrypted, "{parameters}");
    }
    notifier(&format!("smtp://localhost:{port}?tls=none")).notify(&mail()).await.unwrap();
    assert!(!server.mails().last().unwrap().encrypted);
}

/// The test relay is local, so the test turns off the exception for local relays in the parsed URL.
#[tokio::test(flavor = "multi_thread")]
async fn credentials_are_never_sent_unencrypted() {
    let server = SmtpServer::offering(Offer { tls: Tls::Never, auth: Some("PLAIN LOGIN") });
    let sender: Sender = "orders@example.com".parse().unwrap();
    for encryption in [url::Encryption::IfOffered, url::Encryption::Required] {
        let url = RelayUrl {
            encryption,
            credentials_in_clear: false,
            ..RelayUrl::parse(&Url::parse(&server.url()).unwrap()).unwrap()
        };
        let relay = Relay::new(url, sender.mailbox.email.clone()).unwrap();
        let smtp = Smtp { sender: sender.clone(), relay, timeouts: GENEROUS };
        let error = error_chain(&smtp.check().await.unwrap_err());
        assert_eq!(error, "no mail can be handed over now: the relay does not offer TLS");
    }
    assert!(
        server.commands().iter().all(|line| !line.starts_with("AUTH")),
        "{:?}",
        server.commands()
    );
    notifier(&format!("{}?tls=none", server.url())).check().await.unwrap();
}

/// An attacker sends the replies to the commands under TLS before TLS begins.
#[tokio::test(flavor = "multi_thread")]
async fn plaintext_replies_are_not_read_under_tls() {
    let server = SmtpServer::start();
    let attacker = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!(
        "smtp://127.0.0.1:{}?tls=required&ca={}",
        attacker.local_addr().unwrap().port(),
        server.root_certificate().display()
    );
    let attack = async {
        let (tcp, _) = attacker.accept().await.unwrap();
        let mut tcp = BufReader::new(tcp);
        tcp.write_all(b"220 relay\r\n").await.unwrap();
        tcp.read_line(&mut String::new()).await.unwrap();
        tcp.write_all(b"250-relay\r\n250 STARTTLS\r\n").await.unwrap();
        tcp.read_line(&mut String::new()).await.unwrap();
        tcp.write_all(
            b"220 Go ahead\r\n250 relay\r\n250 OK\r\n250 OK\r\n354 Go ahead\r\n250 OK\r\n",
        )
        .await
        .unwrap();
        // A real attacker would now forward the TLS handshake to the relay.
        // The client reads no further, so the system may reset the connection.
        let _ = tcp.read_to_end(&mut Vec::new()).await;
    };
    let (checked, ()) = tokio::join!(
        async { notifier(&url).check().await.map_err(|error| error_chain(&error)) },
        attack
    );
    let expected = "no mail can be handed over now: TLS with the relay failed: \
                    the other side does not speak TLS on this port";
    assert_eq!(checked, Err(expected.to_owned()));
}

/// Returns the cause of a failed check, without the text that all errors of a notifier begin with.
async fn cause(url: &str) -> String {
    cause_within(GENEROUS, url).await
}

/// Returns the cause of a check that failed with limits of its own.
async fn cause_within(timeouts: Timeouts, url: &str) -> String {
    let notifier = Smtp { timeouts, ..notifier(url) };
    let error = error_chain(&notifier.check().await.unwrap_err());
    error.strip_prefix("no mail can be handed over now: ").unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn check_error_names_a_missing_relay() {
    let server = SmtpServer::start();
    let port = server.address().port();
    server.stop();
    let refused = format!("no connection to 127.0.0.1:{port}: Connection refused (os error 111)");
    for scheme in ["smtp", "smtps"] {
        let url = format!("{scheme}://orders%40example.com:secret@127.0.0.1:{port}");
        assert_eq!(cause(&url).await, refused);
    }
    let unknown = cause("smtp://user:secret@relay.invalid").await;
    let expected = "no connection to relay.invalid:587: failed to lookup address information";
    assert!(unknown.starts_with(expected), "{unknown}");
}

#[tokio::test(flavor = "multi_thread")]
async fn check_error_names_the_reply() {
    let server = SmtpServer::start();
    let port = server.address().port();
    let url = format!("smtp://user:secret@127.0.0.1:{port}");
    assert_eq!(cause(&url).await, "the relay offers neither AUTH PLAIN nor AUTH LOGIN");
    let sender = "553-5.7.1 <orders@example.com>:\r\n553 5.7.1 Sender not yours";
    for (phase, treatment, expected) in [
        (
            Phase::Mail,
            Treatment::Refuse(sender),
            "the relay rejected the sender: 553 5.7.1 (address) Sender not yours",
        ),
        (
            Phase::Greeting,
            Treatment::Refuse("554 No SMTP here"),
            "the relay rejected the connection: 554 No SMTP here",
        ),
        (
            Phase::Greeting,
            Treatment::HangUp,
            "the connection to the relay broke: incomplete response",
        ),
    ] {
        server.treat_phase(phase, treatment);
        assert_eq!(cause(&server.url()).await, expected);
    }
    server.treat_phase(Phase::Greeting, Treatment::Stall);
    let impatient = Timeouts { check: SHORT, ..GENEROUS };
    let silent = cause_within(impatient, &server.url()).await;
    assert_eq!(silent, "the relay did not answer in time");

    let server = SmtpServer::offering(FULL);
    let wrong = "the relay rejected the user or the password: 535 5.7.8";
    assert_eq!(cause(&server.url_with(Some((USER, "wrong")))).await, wrong);
    assert_eq!(cause(&server.url_with(Some(("unknown", PASSWORD)))).await, wrong);
    assert_eq!(
        cause(&server.url_with(None)).await,
        "the relay rejected the sender: 530 5.7.0 Authentication required"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn check_error_names_the_tls_problem() {
    let plain = SmtpServer::start();
    let (port, other_root) = (plain.address().port(), plain.root_certificate());
    let other_root = other_root.display();
    assert_eq!(
        cause(&format!("smtp://127.0.0.1:{port}?tls=required")).await,
        "the relay does not offer TLS"
    );
    let corrupt = "the other side does not speak TLS on this port";
    assert_eq!(
        cause(&format!("smtps://127.0.0.1:{port}")).await,
        format!("no connection to 127.0.0.1:{port}: {corrupt}")
    );

    let unknown_issuer = "TLS with the relay failed: its certificate is of no authority that is \
        trusted here; in --mail-url, trust its root certificate with ca=/absolute/root.pem, or do \
        without TLS: smtp://… with tls=none";
    let server = SmtpServer::offering(FULL);
    let port = server.address().port();
    for parameters in [&format!("?tls=required&ca={other_root}"), &format!("?ca={other_root}")] {
        assert_eq!(cause(&format!("smtp://localhost:{port}{parameters}")).await, unknown_issuer);
    }
    server.treat_phase(Phase::StartTls, Treatment::Refuse("454 4.7.0 TLS not available"));
    assert_eq!(
        cause(&server.url()).await,
        "the relay rejected STARTTLS: 454 4.7.0 TLS not available"
    );
    let implicit = SmtpServer::offering(Offer { tls: Tls::Implicit, auth: None });
    let port = implicit.address().port();
    assert_eq!(cause(&format!("smtps://localhost:{port}?ca={other_root}")).await, unknown_issuer);
}

/// Without TLS its mails would leave too. The test relay has a certificate of no known authority.
#[tokio::test(flavor = "multi_thread")]
async fn invalid_certificate_of_a_relay_on_this_machine_is_accepted() {
    let offers = [FULL, Offer { tls: Tls::Implicit, auth: Some("PLAIN") }];
    for (offer, scheme) in offers.into_iter().zip(["smtp", "smtps"]) {
        let server = SmtpServer::offering(offer);
        let host = format!("localhost:{}", server.address().port());
        let url = server.url();
        let credentials = url.split_once("//").unwrap().1.split_once('@').unwrap().0;
        let notifier = notifier(&format!("{scheme}://{credentials}@{host}"));
        notifier.check().await.unwrap();
        notifier.notify(&mail()).await.unwrap();
        assert!(server.mails()[0].encrypted);
    }
}

/// Counts warnings.
#[derive(Clone, Default)]
struct Warnings(Arc<AtomicUsize>);

impl Subscriber for Warnings {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() == Level::WARN && metadata.target().starts_with("adapter_mail")
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, _: &Event<'_>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// Runs on one thread, because the test moves the clock of the runtime and counts the warnings of the
/// thread. Each check makes a connection of its own.
#[tokio::test]
async fn invalid_certificate_is_warned_of_once_and_checked_again_after_an_hour() {
    let warnings = Warnings::default();
    let _guard = tracing::subscriber::set_default(warnings.clone());
    let server = SmtpServer::offering(Offer { tls: Tls::StartTls, auth: None });
    let host = format!("localhost:{}", server.address().port());
    let root = server.root_certificate();
    let valid =
        RelayUrl::parse(&Url::parse(&format!("smtp://{host}?ca={}", root.display())).unwrap());
    let valid = Relay::new(valid.unwrap(), "orders@example.com".parse().unwrap()).unwrap().tls;
    let mut notifier = notifier(&format!("smtp://{host}"));
    let invalid = notifier.relay.tls.clone();
    for (tls, hours, connections, warned) in [
        (&invalid, 0, 2, 1),
        (&invalid, 0, 3, 1),
        (&invalid, 1, 5, 1),
        (&invalid, 0, 6, 1),
        // It has a valid one now.
        (&valid, 1, 7, 1),
        (&valid, 0, 8, 1),
        (&invalid, 0, 10, 2),
    ] {
        notifier.relay.tls.clone_from(tls);
        tokio::time::pause();
        tokio::time::advance(Duration::from_secs(hours * 60 * 60)).await;
        tokio::time::resume();
        notifier.check().await.unwrap();
        let warnings = warnings.0.load(Ordering::Relaxed);
        assert_eq!((server.connections(), warnings), (connections, warned));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_never_repeat_credentials_or_addresses() {
    let server = SmtpServer::offering(FULL);
    let notifier = notifier(&server.url());
    let check = async || error_chain(&notifier.check().await.unwrap_err());
    let mail = mail_to("jane.doe@example.com");
    let send = async || error_chain(&notifier.notify(&mail).await.unwrap_err());
    server.treat_phase(
        Phase::Auth,
        Treatment::Refuse("535 5.7.8 Wrong: s3cr3t:/?#[@]%-passw0rd AG9yZGVyc0ByZWxheQ=="),
    );
    assert_eq!(
        check().await,
        "no mail can be handed over now: the relay rejected the user or the password: 535 5.7.8"
    );
    server.treat_phase(Phase::Auth, Treatment::Refuse("535 s3cr3t"));
    assert_eq!(
        check().await,
        "no mail can be handed over now: the relay rejected the user or the password: 535"
    );

    for phase in [Phase::Rcpt, Phase::Data] {
        let reply = "550-5.1.1 <jane.doe@example.com>:\t\u{1b}[31m Jane.Doe\r\n\
                     550 5.1.1 (jane.doe) unknown to relay+jane.doe=example.com@relay";
        server.treat_phase(phase, Treatment::Refuse(reply));
        let error = send().await;
        assert!(
            error.starts_with("the mail was rejected for good: the relay rejected the "),
            "{error}"
        );
        assert!(
            error.ends_with(": 550 5.1.1 (address) [31m (address) (address) unknown to (address)"),
            "{error}"
        );
    }
    let variants = "550 5.1.1 jane.doe%40example.com JANE.DOE=example.com to:<jane.doe>, \
                    user_jane.doe is not known at example.com.";
    server.treat_phase(Phase::Rcpt, Treatment::Refuse(variants));
    let error = send().await;
    assert!(
        error.ends_with(
            ": 550 5.1.1 (address) (address) (address) (address) is not known at (address)"
        ),
        "{error}"
    );
    // The relay may repeat any part of the mail.
    server.treat_phase(
        Phase::Content,
        Treatment::Refuse(
            "554-5.7.1 \"Signing order 7 received: file REFI-7\"\r\n554 5.7.1 for Jane Doe is spam",
        ),
    );
    let error = send().await;
    assert_eq!(error, "the mail was rejected for good: the relay rejected the mail: 554 5.7.1");
    let long = format!("550 {}", "a".repeat(300)).leak();
    server.treat_phase(Phase::Rcpt, Treatment::Refuse(long));
    assert_eq!(
        send().await.len(),
        "the mail was rejected for good: the relay rejected the recipient: 550 ".len() + 200
    );
}

#[test]
fn unusable_root_certificate_is_rejected() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("root.pem");
    let url = Url::parse(&format!("smtps://relay.example.com?ca={}", path.display())).unwrap();
    let open =
        || error_chain(&Smtp::open(&url, "orders@example.com".parse().unwrap()).err().unwrap());
    let unusable = format!("the root certificate {} cannot be used: ", path.display());
    assert_eq!(open(), format!("{unusable}No such file or directory (os error 2)"));
    std::fs::write(&path, "not a certificate").unwrap();
    assert_eq!(open(), format!("{unusable}it contains no certificate in PEM format"));
    std::fs::write(&path, "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
        .unwrap();
    assert!(open().starts_with(&unusable));
}
