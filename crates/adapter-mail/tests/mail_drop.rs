//! The contract of a notifier on the mail drop, and the properties of its folder.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::{
    ffi::OsStr,
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    sync::Arc,
};

use adapter_mail::MailDrop;
use async_trait::async_trait;
use contract_tests::{
    fakes::CountingEntropy,
    notifier::{NotifierFixture, ReceivedMail, notification_of},
    samples,
};
use domain::{
    delivery::Notification,
    ports::{Notifier, NotifyError, error_chain},
};
use futures_util::future::join_all;
use tempfile::TempDir;

struct Folder {
    notifier: Arc<dyn Notifier>,
    parent: TempDir,
}

impl Folder {
    fn new() -> Self {
        let parent = TempDir::new().unwrap();
        let folder = parent.path().join("mail");
        fs::create_dir(&folder).unwrap();
        let sender = "Example Orders <orders@example.com>".parse().unwrap();
        Self { notifier: Arc::new(MailDrop::in_folder(&folder, sender)), parent }
    }

    fn path(&self) -> PathBuf {
        self.parent.path().join("mail")
    }

    /// Returns the path of the folder during an outage.
    fn moved_away(&self) -> PathBuf {
        self.parent.path().join("moved-away")
    }

    fn files(&self) -> Vec<PathBuf> {
        let folder = if self.path().exists() { self.path() } else { self.moved_away() };
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect()
    }
}

#[async_trait]
impl NotifierFixture for Folder {
    fn notifier(&self) -> Arc<dyn Notifier> {
        self.notifier.clone()
    }

    async fn received(&self) -> Vec<ReceivedMail> {
        self.files().into_iter().map(|path| ReceivedMail::parse(fs::read(path).unwrap())).collect()
    }

    /// Moves the folder away: permissions would not keep root from writing.
    async fn break_down(&self) {
        fs::rename(self.path(), self.moved_away()).unwrap();
    }

    async fn recover(&self) {
        fs::rename(self.moved_away(), self.path()).unwrap();
    }
}

contract_tests::contract!(notifier, Folder::new());

fn notification() -> Notification {
    notification_of(
        samples::minimal_request(),
        "escrow@title.example.com",
        &CountingEntropy::default(),
    )
}

/// Returns different mails.
fn notifications(count: usize) -> Vec<Notification> {
    let (request, entropy) = (samples::minimal_request(), CountingEntropy::default());
    let mail = |number| format!("r{number}@example.com");
    (0..count).map(|number| notification_of(request.clone(), &mail(number), &entropy)).collect()
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[tokio::test]
async fn mail_is_one_file_readable_by_its_owner() {
    let (folder, notification) = (Folder::new(), notification());
    folder.notifier.check().await.unwrap();
    assert_eq!(folder.files().len(), 0);
    folder.notifier.notify(&notification).await.unwrap();
    let files = folder.files();
    assert_eq!(
        files.iter().filter_map(|path| path.file_name()).collect::<Vec<_>>(),
        [OsStr::new(&format!("{}.eml", notification.message_key))]
    );
    assert_eq!(mode(&files[0]), 0o600);
}

#[tokio::test]
async fn second_delivery_replaces_the_file() {
    let (folder, notification) = (Folder::new(), notification());
    folder.notifier.notify(&notification).await.unwrap();
    let first = fs::read(&folder.files()[0]).unwrap();
    folder.notifier.notify(&notification).await.unwrap();
    assert_eq!(folder.files().len(), 1);
    assert_eq!(fs::read(&folder.files()[0]).unwrap(), first);
}

#[tokio::test]
async fn removed_folder_is_not_recreated() {
    let folder = Folder::new();
    folder.break_down().await;
    let error = folder.notifier.notify(&notification()).await.unwrap_err();
    assert!(
        error_chain(&error)
            .starts_with("no mail can be handed over now: No such file or directory"),
        "{}",
        error_chain(&error)
    );
    folder.notifier.check().await.unwrap_err();
    assert!(!folder.path().exists());
}

#[tokio::test]
async fn concurrent_mails_are_complete_files_and_a_blocked_name_affects_no_other() {
    let (folder, notifications) = (Folder::new(), notifications(100));
    let file = |mail: &Notification| folder.path().join(format!("{}.eml", mail.message_key));
    fs::create_dir(file(&notifications[7])).unwrap();
    let sent = join_all(notifications.iter().map(|mail| folder.notifier.notify(mail))).await;
    assert_eq!(folder.files().len(), 100);
    for (number, (mail, sent)) in notifications.iter().zip(sent).enumerate() {
        if number == 7 {
            assert!(matches!(sent, Err(NotifyError::Transient(_))), "{sent:?}");
            continue;
        }
        sent.unwrap();
        let received = ReceivedMail::parse(fs::read(file(mail)).unwrap());
        assert_eq!(received.to, [mail.recipient.as_str()]);
        assert!(received.raw.ends_with(b"-mixed--\r\n"));
    }
}
