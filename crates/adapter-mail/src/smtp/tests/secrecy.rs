//! What goes over the wire in clear, and what failures say.

use domain::ports::error_chain;
use test_servers::smtp::{Offer, PASSWORD, Phase, SmtpServer, Tls, Treatment, USER};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::TcpListener,
};

use super::{super::*, FULL, IMPATIENCE, mail, mail_to, notifier};

#[tokio::test(flavor = "multi_thread")]
async fn starttls_is_used_where_it_is_offered() {
    let server = SmtpServer::offering(Offer { tls: Tls::StartTls, auth: None });
    let (port, root) = (server.address().port(), server.root_certificate());
    for (parameters, encrypted) in
        [("", true), ("&tls=opportunistic", true), ("&tls=required", true)]
    {
        notifier(&format!("smtp://localhost:{port}?ca={}{parameters}", root.display()))
            .notify(&mail())
            .await
            .unwrap();
        assert_eq!(server.mails().last().unwrap().encrypted, encrypted, "{parameters}");
    }
    notifier(&format!("smtp://localhost:{port}?tls=none")).notify(&mail()).await.unwrap();
    assert!(!server.mails().last().unwrap().encrypted);
}

/// The relay is on this machine, so the URL that stands for one elsewhere is changed after it was
/// read.
#[tokio::test(flavor = "multi_thread")]
async fn credentials_never_go_elsewhere_in_clear() {
    let server = SmtpServer::offering(Offer { tls: Tls::Never, auth: Some("PLAIN LOGIN") });
    let sender: Sender = "orders@example.com".parse().unwrap();
    for encryption in [url::Encryption::IfOffered, url::Encryption::Required] {
        let url = RelayUrl {
            encryption,
            credentials_in_clear: false,
            ..RelayUrl::parse(&Url::parse(&server.url()).unwrap()).unwrap()
        };
        let relay = Relay::new(url, sender.mailbox().email.clone()).unwrap();
        let refused =
            Smtp { sender: sender.clone(), relay, patience: IMPATIENCE }.check().await.unwrap_err();
        assert_eq!(error_chain(&refused), "no mail is taken now: the relay offers no TLS");
    }
    assert!(
        server.commands().iter().all(|command| !command.line.starts_with("AUTH")),
        "{:?}",
        server.commands()
    );
    notifier(&format!("{}?tls=none", server.url())).check().await.unwrap();
}

/// Somebody on the way answers what the service is going to say under TLS, before TLS begins.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_said_before_tls_is_no_answer_under_tls() {
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
        // It has no certificate, but may let the relay's own answer pass, for which the test needs
        // none.
        tcp.read_to_end(&mut Vec::new()).await.unwrap();
    };
    let (checked, ()) = tokio::join!(
        async { notifier(&url).check().await.map_err(|error| error_chain(&error)) },
        attack
    );
    assert_eq!(checked, Err("no mail is taken now: TLS with the relay failed: received corrupt message of type InvalidContentType".to_owned()));
}

async fn check(url: &str) -> String {
    error_chain(&notifier(url).check().await.unwrap_err())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_check_says_in_one_line_what_is_wrong() {
    let plain = SmtpServer::start();
    let (port, root) = (plain.address().port(), plain.root_certificate());
    let root = root.display();
    plain.stop();
    let refused = format!(
        "no mail is taken now: no connection to 127.0.0.1:{port}: Connection refused (os error 111)"
    );
    assert_eq!(check(&format!("smtp://{USER_IN_URL}:secret@127.0.0.1:{port}")).await, refused);
    assert_eq!(check(&format!("smtps://{USER_IN_URL}:secret@127.0.0.1:{port}")).await, refused);
    let unknown = check("smtp://user:secret@relay.invalid").await;
    assert!(unknown.starts_with("no mail is taken now: no connection to relay.invalid:587: failed to lookup address information"), "{unknown}");

    plain.start_again();
    assert_eq!(
        check(&format!("smtp://127.0.0.1:{port}?tls=required")).await,
        "no mail is taken now: the relay offers no TLS"
    );
    assert_eq!(
        check(&format!("smtp://user:secret@127.0.0.1:{port}")).await,
        "no mail is taken now: the relay offers no way to log in that is known, which are AUTH PLAIN and AUTH LOGIN"
    );
    assert_eq!(
        check(&format!("smtps://127.0.0.1:{port}")).await,
        format!(
            "no mail is taken now: no connection to 127.0.0.1:{port}: received corrupt message of type InvalidContentType"
        )
    );
    plain.treat_phase(
        Phase::Mail,
        Treatment::Refuse("553-5.7.1 <orders@example.com>:\r\n553 5.7.1 Sender not yours"),
    );
    assert_eq!(
        check(&plain.url()).await,
        "no mail is taken now: the relay refuses the sender: 553 5.7.1 (address) Sender not yours"
    );
    plain.treat_phase(Phase::Greeting, Treatment::Refuse("554 No SMTP here"));
    assert_eq!(
        check(&plain.url()).await,
        "no mail is taken now: the relay refuses the connection: 554 No SMTP here"
    );
    plain.treat_phase(Phase::Greeting, Treatment::Stall);
    assert_eq!(
        check(&plain.url()).await,
        "no mail is taken now: the relay does not answer in time"
    );
    plain.treat_phase(Phase::Greeting, Treatment::HangUp);
    assert_eq!(
        check(&plain.url()).await,
        "no mail is taken now: the connection to the relay broke: incomplete response"
    );

    let secure = SmtpServer::offering(FULL);
    let secure_port = secure.address().port();
    for wrong in
        [secure.url_with(Some((USER, "wrong"))), secure.url_with(Some(("somebody", PASSWORD)))]
    {
        assert_eq!(
            check(&wrong).await,
            "no mail is taken now: the relay refuses the user or the password: 535 5.7.8"
        );
    }
    assert_eq!(
        check(&format!(
            "smtp://localhost:{secure_port}?ca={}",
            secure.root_certificate().display()
        ))
        .await,
        "no mail is taken now: the relay refuses the sender: 530 5.7.0 Authentication required"
    );
    let unknown_issuer =
        "no mail is taken now: TLS with the relay failed: invalid peer certificate: UnknownIssuer";
    assert_eq!(
        check(&format!("smtp://localhost:{secure_port}?tls=required&ca={root}")).await,
        unknown_issuer
    );
    assert_eq!(
        check(&format!("smtp://localhost:{secure_port}?tls=required")).await,
        unknown_issuer
    );
    assert_eq!(check(&format!("smtp://localhost:{secure_port}")).await, unknown_issuer);
    let implicit = SmtpServer::offering(Offer { tls: Tls::Implicit, auth: None });
    let implicit_port = implicit.address().port();
    assert_eq!(
        check(&format!("smtps://localhost:{implicit_port}?ca={root}")).await,
        format!(
            "no mail is taken now: no connection to localhost:{implicit_port}: invalid peer certificate: UnknownIssuer"
        )
    );
    secure.treat_phase(Phase::StartTls, Treatment::Refuse("454 4.7.0 TLS not available"));
    assert_eq!(
        check(&secure.url()).await,
        "no mail is taken now: the relay refuses to begin TLS: 454 4.7.0 TLS not available"
    );
}

const USER_IN_URL: &str = "orders%40example.com";

#[tokio::test(flavor = "multi_thread")]
async fn no_failure_repeats_credentials_or_addresses() {
    let server = SmtpServer::offering(FULL);
    let notifier = notifier(&server.url());
    server.treat_phase(
        Phase::Auth,
        Treatment::Refuse("535 5.7.8 Wrong: s3cr3t:/?#[@]%-passw0rd AG9yZGVyc0ByZWxheQ=="),
    );
    assert_eq!(
        error_chain(&notifier.check().await.unwrap_err()),
        "no mail is taken now: the relay refuses the user or the password: 535 5.7.8"
    );
    server.treat_phase(Phase::Auth, Treatment::Refuse("535 s3cr3t"));
    assert_eq!(
        error_chain(&notifier.check().await.unwrap_err()),
        "no mail is taken now: the relay refuses the user or the password: 535"
    );

    for phase in [Phase::Rcpt, Phase::Data] {
        let reply = "550-5.1.1 <jane.doe@example.com>:\t\u{1b}[31m Jane.Doe\r\n550 5.1.1 (jane.doe) unknown to relay+jane.doe=example.com@relay";
        server.treat_phase(phase, Treatment::Refuse(reply));
        let refused =
            error_chain(&notifier.notify(&mail_to("jane.doe@example.com")).await.unwrap_err());
        assert!(
            refused.starts_with("the mail will never be taken: the relay refuses the "),
            "{refused}"
        );
        assert!(
            refused
                .ends_with(": 550 5.1.1 (address) [31m (address) (address) unknown to (address)"),
            "{refused}"
        );
    }
    let spelt = "550 5.1.1 jane.doe%40example.com JANE.DOE=example.com to:<jane.doe>, user_jane.doe is not known at example.com.";
    server.treat_phase(Phase::Rcpt, Treatment::Refuse(spelt));
    let refused =
        error_chain(&notifier.notify(&mail_to("jane.doe@example.com")).await.unwrap_err());
    assert!(
        refused.ends_with(
            ": 550 5.1.1 (address) (address) (address) (address) is not known at (address)"
        ),
        "{refused}"
    );
    // Of the mail itself it may repeat anything.
    server.treat_phase(
        Phase::Content,
        Treatment::Refuse(
            "554-5.7.1 \"Signing order 7 received: file REFI-7\"\r\n554 5.7.1 for Jane Doe is spam",
        ),
    );
    let refused =
        error_chain(&notifier.notify(&mail_to("jane.doe@example.com")).await.unwrap_err());
    assert_eq!(refused, "the mail will never be taken: the relay refuses the mail: 554 5.7.1");
    server.treat_phase(Phase::Rcpt, Treatment::Refuse(LONG_REPLY));
    assert_eq!(
        error_chain(&notifier.notify(&mail()).await.unwrap_err()).len(),
        "the mail will never be taken: the relay refuses the recipient: 550 ".len() + 200
    );
}

const LONG_REPLY: &str = "550 aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa bbbbbbbbbb";

#[test]
fn a_root_certificate_that_is_none_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("root.pem");
    let url = Url::parse(&format!("smtps://relay.example.com?ca={}", path.display())).unwrap();
    let open =
        || error_chain(&Smtp::open(&url, "orders@example.com".parse().unwrap()).err().unwrap());
    let unusable = format!("the root certificate {} cannot be used: ", path.display());
    assert_eq!(open(), format!("{unusable}No such file or directory (os error 2)"));
    std::fs::write(&path, "nothing of the kind").unwrap();
    assert_eq!(open(), format!("{unusable}it holds no certificate in PEM"));
    std::fs::write(&path, "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
        .unwrap();
    assert!(open().starts_with(&unusable));
}
