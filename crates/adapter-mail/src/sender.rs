use std::str::FromStr;

use domain::order::{EmailAddress, OrderId};
use lettre::message::Mailbox;
use url::Url;

/// The sender of all mails: `orders@example.com` or `Example Orders <orders@example.com>`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sender {
    pub(crate) mailbox: Mailbox,
    pub(crate) public_url: Option<Url>,
}

impl Sender {
    /// Has each mail about an order link to it in the console, which is below this URL.
    #[must_use]
    pub fn linking_to(self, public_url: Option<Url>) -> Self {
        Self { public_url, ..self }
    }

    /// Returns the address of an order in the console.
    pub(crate) fn order_page(&self, id: OrderId) -> Option<String> {
        let url = self.public_url.as_ref()?.as_str().trim_end_matches('/');
        Some(format!("{url}/console#/order/{}", id.0))
    }
}

/// The text is not a valid [`Sender`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("is not a valid sender; write orders@example.com or Example Orders <orders@example.com>")]
pub struct InvalidSender;

impl FromStr for Sender {
    type Err = InvalidSender;

    fn from_str(text: &str) -> Result<Self, InvalidSender> {
        let mailbox: Mailbox = text.trim().parse().map_err(|_| InvalidSender)?;
        let is_valid = !text.contains(char::is_control)
            && EmailAddress::try_from(mailbox.email.to_string()).is_ok()
            // Lettre parses the header that it writes.
            && mailbox.to_string().parse().as_ref() == Ok(&mailbox);
        is_valid.then_some(Self { mailbox, public_url: None }).ok_or(InvalidSender)
    }
}

#[cfg(test)]
mod tests {
    use lettre::Message;
    use mail_parser::MessageParser;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn sender_is_an_address_with_an_optional_name() {
        for (text, name, address) in [
            ("orders@localhost", None, "orders@localhost"),
            (" orders@example.com ", None, "orders@example.com"),
            ("<orders@example.com>", None, "orders@example.com"),
            ("Example Orders <orders@example.com>", Some("Example Orders"), "orders@example.com"),
            ("\"Orders, Inc.\" <orders@example.com>", Some("Orders, Inc."), "orders@example.com"),
            ("Zoë & Söhne <orders@example.com>", Some("Zoë & Söhne"), "orders@example.com"),
        ] {
            let sender: Sender = text.parse().unwrap();
            assert_eq!(
                (sender.mailbox.name.as_deref(), sender.mailbox.email.as_ref()),
                (name, address),
                "{text}"
            );
        }
    }

    #[test]
    fn text_that_breaks_a_header_is_rejected() {
        for text in "|orders|Orders|Orders <>|Orders <orders>|Orders <orders@example.com|\
             Orders orders@example.com>|orders@example.com\r\nBcc: eve@example.com|\
             Orders\r\nBcc: eve@example.com <orders@example.com>|Orders\n <orders@example.com>|\
             Orders\0 <orders@example.com>|a@example.com, b@example.com|\
             A <a@example.com>, B <b@example.com>|A <a@example.com> <b@example.com>|\
             Orders <ör@example.com>|Orders <orders@exämple.com>"
            .split('|')
        {
            assert_eq!(text.parse::<Sender>(), Err(InvalidSender), "{text:?}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        #[test]
        fn every_sender_is_the_sender_of_its_mail(
            text in "(?s).{0,40}|[ \"\\\\<>@,.a\r\n\u{85}é-]{0,20}|(?s).{0,80}<o@x>\
                     |[\"a(),:; .]{0,30}<o@x>"
        ) {
            if let Ok(Sender { mailbox, .. }) = text.parse::<Sender>() {
                let builder = Message::builder().from(mailbox.clone()).to(mailbox.clone());
                let mail = builder.body(String::new()).unwrap().formatted();
                let parsed = MessageParser::default().parse(&mail).unwrap();
                let from = parsed.from().unwrap().first().unwrap();
                prop_assert_eq!(from.address(), Some(mailbox.email.as_ref()));
            }
        }
    }
}
