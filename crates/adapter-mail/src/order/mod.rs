//! Builds the mails about orders.

mod calendar;
mod facts;
mod language;
mod news;
mod times;

use askama::Template;
use domain::{
    delivery::{Audience, Extent, Notification},
    order::{EmailAddress, OrderId, SigningLocation},
    ports::NotifyError,
};
use lettre::{
    Message,
    message::{Attachment, Mailbox, MultiPart, SinglePart, header::ContentType},
};

use self::{
    calendar::{calendar, has_calendar, method},
    facts::{Change, Fact, Part, changes, facts, lines, link, place},
    news::{News, news, notes},
    times::{appointment, short_appointment},
};
use crate::{
    Sender,
    message::{head, header, permanent},
};

/// The header field with the identifier of the order.
const ORDER_FIELD: &str = "X-Notary-Orders-Order";

/// Returns the order that the header of a mail names.
pub(crate) fn order_of_header(header: &str) -> Option<OrderId> {
    let field = header.lines().find_map(|line| line.strip_prefix(ORDER_FIELD)?.strip_prefix(": "));
    field?.trim_end().parse().ok().map(OrderId)
}

/// The content of a mail, rendered as text and as HTML.
struct Content {
    news: News,
    /// When and where; `None` for a recipient that may not know.
    appointment: Option<(String, Part)>,
    file_number: String,
    changes: Vec<Change>,
    note: Vec<String>,
    facts: Vec<Fact>,
    instructions: Vec<String>,
    link: Option<String>,
}

#[derive(Template)]
#[template(path = "order.txt")]
struct Text<'a>(&'a Content);

#[derive(Template)]
#[template(path = "order.html")]
struct Html<'a>(&'a Content);

/// Builds a mail about an order. Deterministic: equal notifications give equal bytes.
pub(crate) fn render(sender: &Sender, notification: &Notification) -> Result<Message, NotifyError> {
    let Notification { order: stored, recipient, message_key: key, .. } = notification;
    let news = news(notification);
    let subject = subject(&news, notification).map_err(permanent)?;
    let is_whole = notification.extent == Extent::Whole;
    let head = head(sender, key, recipient, subject, news.at)?
        .references(format!("<{}@{}>", stored.name(), sender.mailbox.email.domain()))
        .raw_header(header(ORDER_FIELD, stored.id.0.to_string()));
    let head = match other_side(notification).map(|address| address.as_str().parse()).transpose() {
        Ok(Some(address)) => head.reply_to(Mailbox::new(None, address)),
        Ok(None) | Err(_) => head,
    };
    let order = &stored.order;
    let appointment = match notification.extent {
        Extent::Whole => Some((appointment(&order.appointment).map_err(permanent)?, place(order))),
        Extent::EndOnly => None,
    };
    let content = Content {
        appointment,
        file_number: order.file_number.as_str().to_owned(),
        changes: changes(notification).map_err(permanent)?,
        note: notes(notification),
        facts: facts(notification).map_err(permanent)?,
        instructions: lines(
            stored.order.signing.special_instructions.as_deref().filter(|_| is_whole),
        ),
        link: link(sender, notification),
        news,
    };

    // Clients cannot put these boundaries into a part: they do not know the random key.
    let alternatives = MultiPart::alternative()
        .boundary(format!("{key}-alternative"))
        .singlepart(SinglePart::plain(Text(&content).render().map_err(permanent)?))
        .singlepart(SinglePart::html(Html(&content).render().map_err(permanent)?));
    if !has_calendar(notification.subject) {
        return head.multipart(alternatives).map_err(permanent);
    }
    let file = calendar(notification, sender).map_err(permanent)?;
    let method = method(notification.subject);
    let kind = format!("text/calendar; charset=utf-8; method={method}");
    let kind = ContentType::parse(&kind).map_err(permanent)?;
    // Outlook and Gmail show the alternative; other programs open the attachment.
    let shown = SinglePart::builder().header(kind.clone()).body(file.clone());
    let attached = Attachment::new("appointment.ics".to_owned()).body(file, kind);
    let parts = MultiPart::mixed()
        .boundary(format!("{key}-mixed"))
        .multipart(alternatives.singlepart(shown))
        .singlepart(attached);
    head.multipart(parts).map_err(permanent)
}

/// Returns the subject: the news and the order, without names of people.
fn subject(news: &News, notification: &Notification) -> Result<String, time::error::Format> {
    let order = &notification.order.order;
    if notification.extent == Extent::EndOnly {
        return Ok(format!("{} {}", news.subject, order.file_number.as_str()));
    }
    let SigningLocation { city, state, .. } = order.signing.signing_location();
    let place = [city, state].into_iter().flatten().collect::<Vec<_>>().join(" ");
    let appointment = short_appointment(&order.appointment)?;
    let end = [appointment, place].into_iter().filter(|part| !part.is_empty());
    let end = end.collect::<Vec<_>>().join(", ");
    Ok(format!("{} {}: {end}", news.subject, order.file_number.as_str()))
}

/// Returns the address of the other side, which gets the answers to a mail.
fn other_side(notification: &Notification) -> Option<&EmailAddress> {
    match notification.audience {
        _ if notification.extent == Extent::EndOnly => None,
        Audience::Client => notification.service.as_ref()?.emails.first(),
        Audience::Service => Some(&notification.order.order.contacts.order_contact_email),
    }
}

#[cfg(test)]
pub(crate) mod tests;
