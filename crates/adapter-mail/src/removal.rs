//! Removes mails from a mail drop: old ones, and those of erased orders.

use std::{
    collections::BTreeSet,
    fs::{self, DirEntry, File},
    io::{self, Read as _},
    path::{Path, PathBuf},
    time::Duration,
};

use domain::{order::OrderId, ports::StoreError, use_cases::background::Step};
use time::OffsetDateTime;
use tokio::task::spawn_blocking;

use crate::{mail_drop::UNFINISHED, order::order_of_header};

/// The beginning of a file that has the whole head of its mail.
const HEAD: u64 = 16 * 1024;

/// Pause between two removals of old mails.
const PAUSE: Duration = Duration::from_secs(3_600);

/// The mails that are removed.
#[derive(Debug)]
pub enum MailsOf {
    /// Those of orders.
    Orders(BTreeSet<OrderId>),
    /// Those that were written before an instant.
    WrittenBefore(OffsetDateTime),
}

impl MailsOf {
    fn include(&self, file: &DirEntry) -> io::Result<bool> {
        Ok(match self {
            Self::Orders(orders) => order(file)?.is_some_and(|order| orders.contains(&order)),
            Self::WrittenBefore(instant) => {
                OffsetDateTime::from(file.metadata()?.modified()?) < *instant
            }
        })
    }
}

/// Reads the order of a mail about an order.
fn order(file: &DirEntry) -> io::Result<Option<OrderId>> {
    let mut head = Vec::new();
    File::open(file.path())?.take(HEAD).read_to_end(&mut head)?;
    Ok(order_of_header(&String::from_utf8_lossy(&head)))
}

/// Returns the orders that have mails in a mail drop. Blocks. A missing folder has no mails.
///
/// # Errors
/// The folder, or a mail in it, cannot be read.
pub fn orders_of_mails(folder: &Path) -> io::Result<BTreeSet<OrderId>> {
    let mut orders = BTreeSet::new();
    each_mail(folder, |mail| {
        orders.extend(order(mail)?);
        Ok(())
    })?;
    Ok(orders)
}

/// Calls a function with each mail of a mail drop, and with unfinished ones.
fn each_mail(folder: &Path, mut call: impl FnMut(&DirEntry) -> io::Result<()>) -> io::Result<()> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        let mut called = || {
            let is_mail = is_mail(&entry) && entry.file_type()?.is_file();
            if is_mail { call(&entry) } else { Ok(()) }
        };
        match called() {
            // It was finished, or removed by another process, in this moment.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            done => done?,
        }
    }
    Ok(())
}

/// Removes mails from a mail drop, and those that a killed process left unfinished. Other files in
/// the folder stay. Returns the number of mails. Blocks. A missing folder has no mails.
///
/// # Errors
/// The folder, or a mail in it, cannot be read or removed.
pub fn remove_mails(folder: &Path, of: &MailsOf) -> io::Result<usize> {
    let mut removed = 0;
    each_mail(folder, |mail| {
        if of.include(mail)? {
            fs::remove_file(mail.path())?;
            removed += 1;
        }
        Ok(())
    })?;
    if removed > 0 {
        File::open(folder)?.sync_all()?;
    }
    Ok(removed)
}

/// Returns whether the mail drop gives such a name, to a mail or to an unfinished one.
fn is_mail(entry: &DirEntry) -> bool {
    let name = entry.file_name();
    let Some(name) = name.to_str() else { return false };
    let key = name.strip_suffix(".eml");
    let (start, end) = UNFINISHED;
    key.is_some_and(|key| key.len() == 32 && key.bytes().all(|byte| byte.is_ascii_hexdigit()))
        || name.starts_with(start) && name.ends_with(end)
}

/// Removes the mails of a mail drop that were written before an instant: a step of background work.
/// Must be called within a runtime.
pub async fn remove_old_mails(folder: PathBuf, before: OffsetDateTime) -> Step<usize> {
    let of = MailsOf::WrittenBefore(before);
    let removed = spawn_blocking(move || remove_mails(&folder, &of)).await;
    let result = removed.unwrap_or_else(|panicked| Err(panicked.into()));
    Step { result: result.map_err(|error| StoreError::Unavailable(error.into())), pause: PAUSE }
}

#[cfg(test)]
mod tests {
    use domain::{delivery::MailSubject, order::FileNumber, ports::Notifier as _};
    use tempfile::TempDir;
    use time::Duration;

    use super::*;
    use crate::{MailDrop, order::tests::notification};

    /// Returns the names of the entries of a folder, sorted.
    fn names(folder: &TempDir) -> Vec<String> {
        let entries = fs::read_dir(folder.path()).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort_unstable();
        names
    }

    #[tokio::test]
    async fn only_old_mails_are_removed() {
        let folder = TempDir::new().unwrap();
        let [mail, other] = [7, 8].map(|key| format!("{key:032x}.eml"));
        for name in [&*mail, ".abc.tmp", "letter.eml", "notes.txt", &mail[..20]] {
            fs::write(folder.path().join(name), "").unwrap();
        }
        fs::create_dir(folder.path().join(&other)).unwrap();
        let all = names(&folder);
        // The files have the time of the machine. An hour is a margin for the time of this test.
        let written = fs::metadata(folder.path().join(&mail)).unwrap().modified().unwrap();
        for (hours, removed) in [(-1, 0), (1, 2), (1, 0)] {
            let before = OffsetDateTime::from(written) + Duration::hours(hours);
            let step = remove_old_mails(folder.path().to_owned(), before).await;
            assert_eq!((step.result.unwrap(), step.pause), (removed, PAUSE), "{hours} hours");
        }
        let left: Vec<_> =
            all.into_iter().filter(|name| *name != mail && name != ".abc.tmp").collect();
        assert_eq!(names(&folder), left);
    }

    /// Writes the mail of an order.
    async fn deliver(drop: &MailDrop, id: i64, file_number: &str, subject: MailSubject) {
        let mut notification = notification();
        notification.message_key = format!("{id:032x}");
        notification.order.id = OrderId(id);
        notification.order.order.file_number = FileNumber::new(file_number.to_owned()).unwrap();
        notification.subject = subject;
        drop.notify(&notification).await.unwrap();
    }

    fn of(orders: &[i64]) -> MailsOf {
        MailsOf::Orders(orders.iter().copied().map(OrderId).collect())
    }

    #[tokio::test]
    async fn only_mails_of_erased_orders_are_removed() {
        let folder = TempDir::new().unwrap();
        let drop = MailDrop::in_folder(folder.path(), "o@localhost".parse().unwrap());
        deliver(&drop, 1, "F-1", MailSubject::Cancelled).await;
        // A file number in other letters encodes the whole subject.
        deliver(&drop, 12, "Ärger 1 über Ö", MailSubject::DocumentsAdded).await;
        deliver(&drop, 2, "Signing order 1 received:", MailSubject::Created).await;
        let mail = fs::read(folder.path().join(format!("{:032x}.eml", 12))).unwrap();
        for name in [".abc.tmp", "copy.eml"] {
            fs::write(folder.path().join(name), &mail).unwrap();
        }
        let all = names(&folder);
        assert_eq!(orders_of_mails(folder.path()).unwrap(), [1, 2, 12].map(OrderId).into());
        for (orders, removed) in [(&[3][..], 0), (&[12], 2), (&[12], 0), (&[1, 3], 1)] {
            let found = remove_mails(folder.path(), &of(orders)).unwrap();
            assert_eq!(found, removed, "{orders:?}");
        }
        let left: Vec<_> = all
            .into_iter()
            .filter(|name| name == "copy.eml" || *name == format!("{:032x}.eml", 2))
            .collect();
        assert_eq!(names(&folder), left);
        let nowhere = folder.path().join("nowhere");
        assert_eq!(remove_mails(&nowhere, &of(&[1])).unwrap(), 0);
    }
}
