//! The contracts of a notifier on a relay, over the wire, in every way that a URL knows.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::sync::Arc;

use async_trait::async_trait;
use contract_tests::notifier::{NotifierFixture, ReceivedMail};
use domain::ports::Notifier;
use test_servers::smtp::{Offer, SmtpServer, Tls};

struct Relay {
    notifier: Arc<dyn Notifier>,
    server: SmtpServer,
}

impl Relay {
    fn new(tls: Tls, auth: Option<&'static str>) -> Self {
        let server = SmtpServer::offering(Offer { tls, auth });
        let notifier = adapter_mail::open(
            &server.url(),
            "Example Orders <orders@example.com>".parse().unwrap(),
        )
        .unwrap();
        Self { notifier, server }
    }
}

#[async_trait]
impl NotifierFixture for Relay {
    fn notifier(&self) -> Arc<dyn Notifier> {
        Arc::clone(&self.notifier)
    }

    /// As the envelopes address them, which is what a relay goes by.
    async fn received(&self) -> Vec<ReceivedMail> {
        let taken = self.server.mails().into_iter();
        taken.map(|mail| ReceivedMail { to: mail.to, ..ReceivedMail::parse(mail.raw) }).collect()
    }

    async fn break_down(&self) {
        self.server.stop();
    }

    async fn recover(&self) {
        self.server.start_again();
    }
}

mod in_clear {
    use super::{Relay, Tls};

    contract_tests::notifier_contract!(Relay::new(Tls::Never, None));
    contract_tests::mail_content_contract!(Relay::new(Tls::Never, None));
}

mod by_starttls_with_credentials {
    use super::{Relay, Tls};

    contract_tests::notifier_contract!(Relay::new(Tls::StartTls, Some("PLAIN LOGIN")));
    contract_tests::mail_content_contract!(Relay::new(Tls::StartTls, Some("PLAIN LOGIN")));
}

mod by_tls_from_the_first_byte {
    use super::{Relay, Tls};

    contract_tests::notifier_contract!(Relay::new(Tls::Implicit, Some("LOGIN")));
    contract_tests::mail_content_contract!(Relay::new(Tls::Implicit, Some("LOGIN")));
}
