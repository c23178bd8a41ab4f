//! Builds the mails about a webhook endpoint that fails, about a key that reads many orders or whose requests are
//! rejected, and to an invited person.

use domain::{
    access::BusyKeyNotice,
    person::InvitationNotice,
    ports::{Notice, NotifyError},
    rejected::{RejectedNotice, RejectedWithCode},
    webhook::{DisabledBy, Endpoint, EndpointNotice, FAILING_LIMIT},
};
use lettre::{Message, message::SinglePart};
use time::{OffsetDateTime, format_description::well_known::Rfc3339};
use url::Url;

use crate::{
    Sender,
    message::{head, permanent},
};

/// Builds the mail. Deterministic: equal notices give equal bytes.
pub(crate) fn render(sender: &Sender, notice: &Notice) -> Result<Message, NotifyError> {
    let (subject, date, text) = match notice {
        Notice::Endpoint(notice) => of_endpoint(notice),
        Notice::BusyKey(notice) => of_busy_key(notice),
        Notice::Rejected(notice) => of_rejected(notice),
        Notice::Invitation(notice) => of_invitation(notice),
    };
    head(sender, &notice.message_key(), notice.recipient(), subject, date)?
        .singlepart(SinglePart::plain(text.map_err(permanent)?))
        .map_err(permanent)
}

/// The subject, the date and the text of a mail.
type Mail = (String, OffsetDateTime, Result<String, time::error::Format>);

fn of_endpoint(notice: &EndpointNotice) -> Mail {
    let id = notice.endpoint.id.0;
    let subject = match notice.endpoint.disabled {
        Some(_) => format!("Webhook endpoint {id} is disabled"),
        None => format!("Webhook endpoint {id} fails and will be disabled"),
    };
    (subject, notice.since, text(notice))
}

fn of_busy_key(BusyKeyNotice { name, orders, at, .. }: &BusyKeyNotice) -> Mail {
    let text = second(*at).map(|at| {
        format!(
            "The API key {name:?} has read {orders} different orders in the hour before {at}. The \
             operator of the service has set a limit below that.\n\n\
             If your software does so, tell the operator. If it does not, another program uses the \
             key: ask the operator to revoke it.\n\n\
             GET /api/order/{{order_id}}/accesses shows the address and the request of each read of \
             an order.\n"
        )
    });
    ("An API key reads more orders than usual".to_owned(), *at, text)
}

/// The subject names nobody: it stands in logs of relays.
fn of_invitation(notice: &InvitationNotice) -> Mail {
    let InvitationNotice { side, by, link, at, expires_at, .. } = notice;
    let nobody = || "You are invited".to_owned();
    let by = by.as_ref().map_or_else(nobody, |by| format!("{by} invites you"));
    let to = side.as_ref().map(|side| format!(" to the orders of {side}")).unwrap_or_default();
    let text = second(*expires_at).map(|expires_at| {
        format!(
            "{by}{to}.\n\n\
             Open this link on your own device, and choose how to sign in: by a passkey, or by the login \
             of your company. The link works once, until {expires_at}:\n\n\
             {link}\n\n\
             Pass it on to nobody: whoever opens it first signs in in your place. If you do not expect this \
             mail, ignore it.\n"
        )
    });
    ("Your invitation to sign in".to_owned(), *at, text)
}

/// The fields and requests that a mail names are the first of each.
fn of_rejected(notice: &RejectedNotice) -> Mail {
    let RejectedNotice { names, since, at, by_code, .. } = notice;
    let requests = counted(notice.requests());
    let quoted = names.iter().map(|name| format!("{name:?}")).collect::<Vec<_>>().join(", ");
    let keys = format!("{} {quoted}", if names.len() == 1 { "key" } else { "keys" });
    let text = second(*since).map(|since| {
        let by_code = by_code.iter().map(with_code).collect::<Vec<_>>().concat();
        format!(
            "The service has rejected {requests} of the API {keys} to create or change orders since \
             {since}: nothing of them was stored.\n\n{by_code}\
             The answer to each request names every fault in `errors`. Correct your software, and send the \
             requests again.\n\n\
             GET /api/key has the numbers of the last day. At most one such mail an hour leaves.\n"
        )
    });
    let of = if names.len() == 1 { "an API key" } else { "API keys" };
    (format!("{requests} of {of} rejected"), *at, text)
}

fn with_code((code, with_code): (&String, &RejectedWithCode)) -> String {
    let RejectedWithCode { requests, faults, request_ids } = with_code;
    let mut lines = vec![format!("{code}: {}", counted(*requests))];
    if !faults.is_empty() {
        lines.push("  Fields:".to_owned());
        lines.extend(faults.iter().map(|(pointer, code)| format!("    {pointer} ({code})")));
    }
    lines.push("  Request ids:".to_owned());
    lines.extend(request_ids.iter().map(|id| format!("    {id}")));
    lines.join("\n") + "\n\n"
}

fn counted(requests: u64) -> String {
    let plural = if requests == 1 { "" } else { "s" };
    format!("{requests} request{plural}")
}

/// Returns the text. It has no path of the URL, which may be a secret.
fn text(notice: &EndpointNotice) -> Result<String, time::error::Format> {
    let Endpoint { id, url, disabled, .. } = &notice.endpoint;
    let (id, host) = (id.0, host(url));
    let since = second(notice.since)?;
    Ok(match disabled {
        None => {
            let end = second(notice.since.saturating_add(FAILING_LIMIT))?;
            format!(
                "No delivery to the webhook endpoint {id} at {host} has succeeded since {since}.\n\
                 \n\
                 The service disables the endpoint at {end} or up to a day later, unless one \
                 delivery succeeds before.\n\n\
                 GET /api/webhooks/{id}/deliveries shows the status or the error of each attempt. \
                 POST /api/webhooks/{id}/test sends a test.\n"
            )
        }
        Some((_, by)) => {
            let reason = match by {
                DisabledBy::Gone => "its receiver answered 410 (Gone)",
                DisabledBy::Failures => "no delivery has succeeded for five days",
                DisabledBy::Request => "you asked for it",
            };
            format!(
                "The webhook endpoint {id} at {host} is disabled since {since}: {reason}.\n\n\
                 Its events wait for 30 days. They are sent when you enable the endpoint again: \
                 PATCH /api/webhooks/{id} with {{\"status\":\"enabled\"}}.\n\n\
                 GET /api/webhooks/{id}/deliveries shows the status or the error of each attempt.\n"
            )
        }
    })
}

fn host(url: &str) -> String {
    let url = Url::parse(url).ok();
    url.map_or_else(|| "an invalid URL".to_owned(), |url| url.origin().ascii_serialization())
}

fn second(at: OffsetDateTime) -> Result<String, time::error::Format> {
    at.truncate_to_second().format(&Rfc3339)
}

#[cfg(test)]
mod tests {
    use domain::{
        api_key::{ApiKeyId, ClientId, Owner},
        order::EmailAddress,
        person::PersonId,
        webhook::{EndpointId, EventType},
    };
    use time::macros::datetime;

    use super::*;

    const NOW: OffsetDateTime = datetime!(2026-12-01 20:30:00.123456 UTC);

    fn mail(disabled: Option<(OffsetDateTime, DisabledBy)>) -> String {
        let endpoint = Endpoint {
            id: EndpointId(3),
            owner: Owner::client(ClientId(1), false),
            key: None,
            url: "https://hooks.example:8443/secret-path?secret".to_owned(),
            events: EventType::OF_ORDERS.into(),
            description: None,
            created_at: NOW,
            disabled,
            failing_since: Some(NOW),
        };
        let recipient = EmailAddress::try_from("it@title.example.com".to_owned()).unwrap();
        parsed(&Notice::Endpoint(EndpointNotice::new(endpoint, recipient)))
    }

    fn parsed(notice: &Notice) -> String {
        let mail = render(&"orders@example.com".parse().unwrap(), notice).unwrap();
        let mail = mail.formatted();
        let parsed = mail_parser::MessageParser::default().parse(&mail).unwrap();
        format!("{}\n{}", parsed.subject().unwrap(), parsed.body_text(0).unwrap())
    }

    #[test]
    fn mail_says_what_happens_when_and_what_to_do() {
        let warning = mail(None);
        for part in [
            "Webhook endpoint 3 fails and will be disabled",
            "endpoint 3 at https://hooks.example:8443 has succeeded since 2026-12-01T20:30:00Z",
            "2026-12-06T20:30:00Z",
            "POST /api/webhooks/3/test",
        ] {
            assert!(warning.contains(part), "{part}: {warning}");
        }
        for (by, reason) in [
            (DisabledBy::Gone, "its receiver answered 410"),
            (DisabledBy::Failures, "no delivery has succeeded for five days"),
        ] {
            let told = mail(Some((NOW, by)));
            assert!(told.contains("Webhook endpoint 3 is disabled"), "{told}");
            assert!(told.contains(reason) && told.contains("PATCH /api/webhooks/3"), "{told}");
            assert!(!(warning.clone() + &told).contains("secret"), "the path of the URL: {told}");
        }
    }

    #[test]
    fn mail_about_rejected_requests_has_numbers_codes_pointers_and_request_ids() {
        let pointer = |pointer: &str, code: &str| (pointer.to_owned(), code.to_owned());
        let failed = RejectedWithCode {
            requests: 200,
            faults: [
                pointer("/signingDetailsFormData/signerName", "required"),
                pointer("/signingDetailsFormData/signer_name", "misplaced_member"),
            ]
            .into(),
            request_ids: vec!["0f1e2d".to_owned(), "4c5b6a".to_owned()],
        };
        let forbidden =
            RejectedWithCode { requests: 1, faults: [].into(), request_ids: vec!["77".to_owned()] };
        let mail = parsed(&Notice::Rejected(RejectedNotice {
            key: ApiKeyId(3),
            names: ["closing desk".to_owned(), "night run".to_owned()].into(),
            since: NOW,
            at: NOW + time::Duration::MINUTE,
            by_code: [("validation_failed", failed), ("forbidden", forbidden)]
                .map(|(code, with_code)| (code.to_owned(), with_code))
                .into(),
            recipient: EmailAddress::try_from("it@title.example.com".to_owned()).unwrap(),
        }));
        for part in [
            "201 requests of API keys rejected",
            "of the API keys \"closing desk\", \"night run\" to create",
            "since 2026-12-01T20:30:00Z",
            "validation_failed: 200 requests",
            "/signingDetailsFormData/signerName (required)",
            "/signingDetailsFormData/signer_name (misplaced_member)",
            "0f1e2d",
            "4c5b6a",
            "forbidden: 1 request",
            "GET /api/key",
        ] {
            assert!(mail.contains(part), "{part}: {mail}");
        }
    }

    #[test]
    fn invitation_has_its_link_and_says_who_invites() {
        let mail = |by: Option<&str>| {
            parsed(&Notice::Invitation(InvitationNotice {
                person: PersonId(3),
                side: Some("Acme Title".to_owned()),
                by: by.map(str::to_owned),
                link: "https://o.example/console#invite=abc".to_owned(),
                at: NOW,
                expires_at: NOW + time::Duration::days(7),
                recipient: EmailAddress::try_from("it@title.example.com".to_owned()).unwrap(),
            }))
        };
        let of_admin = mail(Some("Jane Doe"));
        for part in
            ["Jane Doe invites you to the orders of Acme Title", "console#invite=abc", "2026-12-08"]
        {
            assert!(of_admin.contains(part), "{part}: {of_admin}");
        }
        assert!(mail(None).contains("You are invited to the orders of"));
    }

    #[test]
    fn mail_about_a_busy_key_says_how_many_orders_and_what_to_do() {
        let mail = parsed(&Notice::BusyKey(BusyKeyNotice {
            key: ApiKeyId(3),
            name: "closing desk".to_owned(),
            orders: 501,
            at: NOW,
            recipient: EmailAddress::try_from("it@title.example.com".to_owned()).unwrap(),
        }));
        for part in ["reads more orders", "\"closing desk\" has read 501", "20:30:00Z", "revoke it"]
        {
            assert!(mail.contains(part), "{part}: {mail}");
        }
    }
}
