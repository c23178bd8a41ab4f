//! The contracts of a notifier on the mail drop, and what the folder promises beyond them.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::{
    ffi::OsStr,
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    sync::Arc,
};

use adapter_mail::{MailDrop, OpenError};
use async_trait::async_trait;
use contract_tests::{
    fakes::CountingEntropy,
    notifier::{NotifierFixture, ReceivedMail, full_request, notification_of},
};
use domain::{
    follow_up::Notification,
    ports::{Notifier, NotifyError},
};
use tempfile::TempDir;

struct Folder {
    notifier: Arc<MailDrop>,
    path: TempDir,
}

impl Folder {
    fn new() -> Self {
        let path = TempDir::new().unwrap();
        Self { notifier: Arc::new(open(path.path()).unwrap()), path }
    }

    fn files(&self) -> Vec<PathBuf> {
        fs::read_dir(self.path.path()).unwrap().map(|entry| entry.unwrap().path()).collect()
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
}

contract_tests::notifier_contract!(Folder::new());
contract_tests::mail_content_contract!(Folder::new());

fn open(path: &Path) -> Result<MailDrop, OpenError> {
    MailDrop::open(&format!("file://{}", path.display()), "Example Orders <orders@example.com>".parse().unwrap())
}

fn notification() -> Notification {
    notification_of(full_request(), "escrow@title.example.com", &CountingEntropy::default())
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[tokio::test]
async fn a_mail_is_one_file_for_its_owner_alone() {
    let (folder, notification) = (Folder::new(), notification());
    folder.notifier.notify(&notification).await.unwrap();
    let files = folder.files();
    assert_eq!(files.iter().filter_map(|path| path.file_name()).collect::<Vec<_>>(), [OsStr::new(&format!("{}.eml", notification.message_key))]);
    assert_eq!(mode(&files[0]), 0o600);
}

#[tokio::test]
async fn a_mail_handed_over_again_is_still_one_file() {
    let (folder, notification) = (Folder::new(), notification());
    folder.notifier.notify(&notification).await.unwrap();
    let first = fs::read(&folder.files()[0]).unwrap();
    folder.notifier.notify(&notification).await.unwrap();
    assert_eq!(folder.files().len(), 1);
    assert_eq!(fs::read(&folder.files()[0]).unwrap(), first);
}

#[tokio::test]
async fn a_missing_folder_is_made_for_nobody_else() {
    let parent = TempDir::new().unwrap();
    let folder = parent.path().join("data").join("mail drop");
    let url = format!("file://{}/data/mail%20drop", parent.path().display());
    MailDrop::open(&url, "orders@localhost".parse().unwrap()).unwrap().notify(&notification()).await.unwrap();
    assert_eq!((mode(&folder), mode(folder.parent().unwrap())), (0o700, 0o700));
}

#[test]
fn a_file_is_no_folder() {
    let parent = TempDir::new().unwrap();
    let file = parent.path().join("file");
    fs::write(&file, "").unwrap();
    assert!(matches!(open(&file), Err(OpenError::Folder { path, .. }) if path == file));
}

#[tokio::test]
async fn a_folder_that_cannot_be_written_to_may_be_mended() {
    let folder = Folder::new();
    // Permissions do not keep root from writing, but a folder that is gone does.
    fs::remove_dir(folder.path.path()).unwrap();
    assert!(matches!(folder.notifier.notify(&notification()).await, Err(NotifyError::Transient(_))));
    assert!(!folder.path.path().exists());
    fs::create_dir(folder.path.path()).unwrap();
    folder.notifier.notify(&notification()).await.unwrap();
}

#[tokio::test]
async fn a_mail_that_cannot_take_its_place_leaves_nothing() {
    let (folder, notification) = (Folder::new(), notification());
    let place = folder.path.path().join(format!("{}.eml", notification.message_key));
    fs::create_dir(&place).unwrap();
    assert!(matches!(folder.notifier.notify(&notification).await, Err(NotifyError::Transient(_))));
    assert_eq!(folder.files(), [place]);
}

#[tokio::test]
async fn a_message_key_never_leaves_the_folder() {
    let folder = Folder::new();
    let notification = Notification { message_key: "../escaped".to_owned(), ..notification() };
    assert!(matches!(folder.notifier.notify(&notification).await, Err(NotifyError::Permanent(_))));
    assert_eq!(folder.files().len(), 0);
}
