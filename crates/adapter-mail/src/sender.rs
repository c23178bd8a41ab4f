use std::str::FromStr;

use domain::order::EmailAddress;
use lettre::{Address, Message, message::Mailbox};

/// The sender of all mails: `orders@example.com` or `Example Orders <orders@example.com>`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sender(Mailbox);

/// The text is not a valid [`Sender`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("is not a valid sender; write orders@example.com or Example Orders <orders@example.com>")]
pub struct InvalidSender;

impl Sender {
    pub(crate) fn mailbox(&self) -> &Mailbox {
        &self.0
    }
}

impl FromStr for Sender {
    type Err = InvalidSender;

    fn from_str(text: &str) -> Result<Self, InvalidSender> {
        let text = text.trim();
        if text.contains(char::is_control) {
            return Err(InvalidSender);
        }
        let (name, address) = match text.strip_suffix('>') {
            Some(text) => text.split_once('<').ok_or(InvalidSender)?,
            None => ("", text),
        };
        let name = name.trim();
        let name =
            name.strip_prefix('"').and_then(|name| name.strip_suffix('"')).unwrap_or(name).trim();
        if name.contains(['"', '\\', '>']) {
            return Err(InvalidSender);
        }
        let address = EmailAddress::try_from(address.to_owned()).map_err(|_| InvalidSender)?;
        let address: Address = address.as_str().parse().map_err(|_| InvalidSender)?;
        let mailbox = Mailbox::new((!name.is_empty()).then(|| name.to_owned()), address);
        // Lettre parses the header that it writes and rejects a mail whose sender it cannot parse.
        let message = Message::builder()
            .date(std::time::UNIX_EPOCH)
            .from(mailbox.clone())
            .to(mailbox.clone())
            .body(String::new());
        message.map(|_| Self(mailbox)).map_err(|_| InvalidSender)
    }
}

#[cfg(test)]
mod tests {
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
                (sender.0.name.as_deref(), sender.0.email.as_ref()),
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
             Orders < orders@example.com>|Orders <ör@example.com>|Orders <orders@exämple.com>"
            .split('|')
        {
            assert_eq!(text.parse::<Sender>(), Err(InvalidSender), "{text:?}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        #[test]
        fn no_text_panics(
            text in "(?s).{0,40}|[ \"\\\\<>@,.a\r\n\u{85}é-]{0,20}|(?s).{0,80}<o@x>\
                     |[\"a(),:; .]{0,30}<o@x>"
        ) {
            let _ = text.parse::<Sender>();
        }
    }
}
