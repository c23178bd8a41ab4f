//! The contract of a notifier on the mail drop, and the properties of its folder.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::{
    ffi::OsStr,
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    sync::Arc,
};

use adapter_mail::OpenError;
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
use futures_util::future::{FutureExt as _, join_all};
use tempfile::TempDir;

struct Folder {
    notifier: Arc<dyn Notifier>,
    parent: TempDir,
}

impl Folder {
    fn new() -> Self {
        Self::below(TempDir::new().unwrap())
    }

    fn below(parent: TempDir) -> Self {
        Self { notifier: open(&parent.path().join("mail")).unwrap(), parent }
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

contract_tests::notifier_contract!(Folder::new());

fn open(path: &Path) -> Result<Arc<dyn Notifier>, OpenError> {
    adapter_mail::open(
        &format!("file://{}", path.display()),
        "Example Orders <orders@example.com>".parse().unwrap(),
    )
}

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
async fn missing_folder_is_created_for_its_owner() {
    let parent = TempDir::new().unwrap();
    let folder = parent.path().join("data").join("mail drop");
    let url = format!("file://{}/data/mail%20drop", parent.path().display());
    adapter_mail::open(&url, "orders@localhost".parse().unwrap())
        .unwrap()
        .notify(&notification())
        .await
        .unwrap();
    assert_eq!((mode(&folder), mode(folder.parent().unwrap())), (0o700, 0o700));
}

#[test]
fn file_instead_of_folder_is_rejected() {
    let parent = TempDir::new().unwrap();
    let file = parent.path().join("file");
    fs::write(&file, "").unwrap();
    assert!(matches!(open(&file), Err(OpenError::Folder { path, .. }) if path == file));
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
async fn check_leaves_no_file() {
    let folder = Folder::new();
    folder.notifier.check().await.unwrap();
    assert_eq!(folder.files(), Vec::<PathBuf>::new());
}

#[tokio::test]
async fn blocked_file_name_leaves_no_temporary_file() {
    let (folder, notification) = (Folder::new(), notification());
    let blocked = folder.path().join(format!("{}.eml", notification.message_key));
    fs::create_dir(&blocked).unwrap();
    assert!(matches!(folder.notifier.notify(&notification).await, Err(NotifyError::Transient(_))));
    assert_eq!(folder.files(), [blocked]);
}

#[tokio::test]
async fn message_key_cannot_leave_the_folder() {
    let folder = Folder::new();
    let notification = Notification { message_key: "../escaped".to_owned(), ..notification() };
    assert!(matches!(folder.notifier.notify(&notification).await, Err(NotifyError::Permanent(_))));
    assert_eq!(folder.files().len(), 0);
}

/// `/dev/shm` is no file system on which `syncfs` is used.
#[tokio::test]
async fn concurrent_mails_are_complete_files() {
    for parent in [TempDir::new(), TempDir::new_in("/dev/shm")] {
        let folder = Folder::below(parent.unwrap());
        let notifications = notifications(200);
        let sent = join_all(notifications.iter().map(|mail| folder.notifier.notify(mail))).await;
        assert!(sent.iter().all(Result::is_ok), "{sent:?}");
        assert_eq!(folder.files().len(), 200);
        for notification in &notifications {
            let file = folder.path().join(format!("{}.eml", notification.message_key));
            let mail = ReceivedMail::parse(fs::read(file).unwrap());
            assert_eq!(mail.to, [notification.recipient.as_str()]);
            assert!(mail.raw.ends_with(b"-mixed--\r\n"));
        }
    }
}

#[tokio::test]
async fn cancelled_call_affects_no_other_mail() {
    let folder = Folder::new();
    for mails in notifications(100).chunks(5) {
        // Polled once: it is the first of its batch, and is dropped while it waits.
        let _ = folder.notifier.notify(&mails[0]).now_or_never();
        for sent in join_all(mails[1..].iter().map(|mail| folder.notifier.notify(mail))).await {
            sent.unwrap();
        }
    }
    assert!(folder.files().iter().all(|file| file.extension() == Some(OsStr::new("eml"))));
}

#[tokio::test]
async fn blocked_file_name_affects_no_other_mail() {
    let (folder, notifications) = (Folder::new(), notifications(20));
    let blocked = folder.path().join(format!("{}.eml", notifications[7].message_key));
    fs::create_dir(&blocked).unwrap();
    let sent = join_all(notifications.iter().map(|mail| folder.notifier.notify(mail))).await;
    for (number, sent) in sent.into_iter().enumerate() {
        match sent {
            Err(NotifyError::Transient(_)) => assert_eq!(number, 7),
            sent => sent.unwrap(),
        }
    }
    assert_eq!(folder.files().len(), 20);
}

#[tokio::test]
async fn every_waiting_call_gets_the_error_of_the_disk() {
    let folder = Folder::new();
    folder.break_down().await;
    let notifications = notifications(20);
    for sent in join_all(notifications.iter().map(|mail| folder.notifier.notify(mail))).await {
        let error = sent.unwrap_err();
        assert!(matches!(error, NotifyError::Unavailable(_)));
        assert!(error_chain(&error).contains("No such file or directory"), "{error:?}");
    }
    folder.recover().await;
    folder.notifier.notify(&notifications[0]).await.unwrap();
    assert_eq!(folder.files().len(), 1);
}
