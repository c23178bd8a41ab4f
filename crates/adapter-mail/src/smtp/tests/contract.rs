//! The contract of a notifier on a relay, for each kind of encryption and authentication.

use std::sync::Arc;

use async_trait::async_trait;
use contract_tests::notifier::{NotifierFixture, ReceivedMail};
use domain::ports::Notifier;
use test_servers::smtp::{Offer, SmtpServer, Tls};

use super::notifier_from;

struct Relay {
    notifier: Arc<dyn Notifier>,
    server: SmtpServer,
}

impl Relay {
    fn new(tls: Tls, auth: Option<&'static str>) -> Self {
        let server = SmtpServer::offering(Offer { tls, auth });
        let notifier = notifier_from("Example Orders <orders@example.com>", &server.url());
        Self { notifier: Arc::new(notifier), server }
    }
}

#[async_trait]
impl NotifierFixture for Relay {
    fn notifier(&self) -> Arc<dyn Notifier> {
        Arc::clone(&self.notifier)
    }

    /// Takes the recipients from the envelopes, which a relay delivers to.
    async fn received(&self) -> Vec<ReceivedMail> {
        let mails = self.server.mails().into_iter();
        mails.map(|mail| ReceivedMail { to: mail.to, ..ReceivedMail::parse(mail.raw) }).collect()
    }

    async fn break_down(&self) {
        self.server.stop();
    }

    async fn recover(&self) {
        self.server.start_again();
    }
}

mod unencrypted {
    use super::{Relay, Tls};

    contract_tests::contract!(notifier, Relay::new(Tls::Never, None));
}

mod starttls_with_credentials {
    use super::{Relay, Tls};

    contract_tests::contract!(notifier, Relay::new(Tls::StartTls, Some("PLAIN LOGIN")));
}

mod implicit_tls_with_credentials {
    use super::{Relay, Tls};

    contract_tests::contract!(notifier, Relay::new(Tls::Implicit, Some("LOGIN")));
}
