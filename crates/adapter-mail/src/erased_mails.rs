//! Removes the mails of erased orders from a mail drop.

use std::{
    ffi::OsStr,
    fs::{self, DirEntry, File},
    io::{self, Read as _},
    path::Path,
};

use domain::order::OrderId;
use mail_parser::MessageParser;
use time::OffsetDateTime;

use crate::{mail_drop::UNFINISHED, message::order_of_subject, old_mails::is_mail};

/// The beginning of a file that has the whole head of its mail.
const HEAD: u64 = 16 * 1024;

/// The orders whose mails are removed.
#[derive(Debug, Clone, Copy)]
pub enum MailsOf {
    /// One order.
    Order(OrderId),
    /// The orders that were created before an instant, which is a whole second: mails have no
    /// fraction.
    CreatedBefore(OffsetDateTime),
}

impl MailsOf {
    /// Returns whether a mail with this head is about one of the orders.
    fn include(self, head: &[u8]) -> bool {
        let Some(head) = MessageParser::new().parse_headers(head) else { return false };
        let Some(order) = head.subject().and_then(order_of_subject) else { return false };
        match self {
            Self::Order(id) => order == id,
            // The date of a mail is that of its order.
            Self::CreatedBefore(instant) => {
                head.date().is_some_and(|date| date.to_timestamp() < instant.unix_timestamp())
            }
        }
    }
}

/// Removes mails from a mail drop, and those that a killed process left unfinished. Returns their
/// number. Blocks, and opens every file of the folder. A missing folder has no mails.
///
/// # Errors
/// The folder, or a mail in it, cannot be read or removed.
pub fn remove_mails(folder: &Path, of: MailsOf) -> io::Result<usize> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        entries => entries?,
    };
    let mut removed = 0;
    for entry in entries {
        // A mail that is gone was finished, or removed by its age, in this moment.
        match remove(&entry?, of) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            done => removed += usize::from(done?),
        }
    }
    if removed > 0 {
        File::open(folder)?.sync_all()?;
    }
    Ok(removed)
}

fn remove(entry: &DirEntry, of: MailsOf) -> io::Result<bool> {
    let name = entry.file_name();
    if !(is_mail(&name) || is_unfinished(&name)) || !entry.file_type()?.is_file() {
        return Ok(false);
    }
    let mut head = Vec::new();
    File::open(entry.path())?.take(HEAD).read_to_end(&mut head)?;
    if !of.include(&head) {
        return Ok(false);
    }
    fs::remove_file(entry.path())?;
    Ok(true)
}

fn is_unfinished(name: &OsStr) -> bool {
    let (start, end) = UNFINISHED;
    name.to_str().is_some_and(|name| name.starts_with(start) && name.ends_with(end))
}

#[cfg(test)]
mod tests {
    use domain::{order::FileNumber, ports::Notifier as _};
    use tempfile::TempDir;
    use time::Duration;

    use super::*;
    use crate::{MailDrop, message::tests::notification, old_mails::tests::names};

    /// Writes the mail of an order that was created some days after the sample order.
    async fn deliver(drop: &MailDrop, id: i64, file_number: &str, days: i64) {
        let mut notification = notification();
        notification.message_key = format!("{id:032x}");
        notification.order.id = OrderId(id);
        notification.order.order.file_number = FileNumber::new(file_number.to_owned()).unwrap();
        notification.order.created_at += Duration::days(days);
        drop.notify(&notification).await.unwrap();
    }

    #[tokio::test]
    async fn only_mails_of_erased_orders_are_removed() {
        let folder = TempDir::new().unwrap();
        let drop = MailDrop::in_folder(folder.path(), "o@localhost".parse().unwrap()).unwrap();
        deliver(&drop, 1, "F-1", 0).await;
        // A file number in other letters encodes the whole subject.
        deliver(&drop, 12, "Ärger 1 über Ö", 1).await;
        deliver(&drop, 2, "Signing order 1 received:", 2).await;
        let mail = fs::read(folder.path().join(format!("{:032x}.eml", 12))).unwrap();
        for name in [".abc.tmp", "copy.eml"] {
            fs::write(folder.path().join(name), &mail).unwrap();
        }
        let all = names(&folder);
        for (of, removed) in [
            (MailsOf::Order(OrderId(3)), 0),
            (MailsOf::CreatedBefore(notification().order.created_at), 0),
            (MailsOf::Order(OrderId(12)), 2),
            (MailsOf::Order(OrderId(12)), 0),
            (MailsOf::CreatedBefore(notification().order.created_at + Duration::DAY), 1),
        ] {
            assert_eq!(remove_mails(folder.path(), of).unwrap(), removed, "{of:?}");
        }
        let left: Vec<_> = all
            .into_iter()
            .filter(|name| name == "copy.eml" || *name == format!("{:032x}.eml", 2))
            .collect();
        assert_eq!(names(&folder), left);
        let nowhere = folder.path().join("nowhere");
        assert_eq!(remove_mails(&nowhere, MailsOf::Order(OrderId(1))).unwrap(), 0);
    }
}
