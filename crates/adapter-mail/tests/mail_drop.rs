//! The contracts of a notifier on the mail drop, and what the folder promises beyond them.

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
    notifier::{NotifierFixture, ReceivedMail, full_request, notification_of},
};
use domain::{
    delivery::Notification,
    ports::{Notifier, NotifyError, error_chain},
};
use tempfile::TempDir;

struct Folder {
    notifier: Arc<dyn Notifier>,
    parent: TempDir,
}

impl Folder {
    fn new() -> Self {
        let parent = TempDir::new().unwrap();
        Self { notifier: open(&parent.path().join("mail")).unwrap(), parent }
    }

    fn path(&self) -> PathBuf {
        self.parent.path().join("mail")
    }

    /// Where the folder is while it is not in its place.
    fn elsewhere(&self) -> PathBuf {
        self.parent.path().join("elsewhere")
    }

    fn files(&self) -> Vec<PathBuf> {
        let folder = if self.path().exists() { self.path() } else { self.elsewhere() };
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

    /// Permissions do not keep root from writing, but a folder that is gone does.
    async fn break_down(&self) {
        fs::rename(self.path(), self.elsewhere()).unwrap();
    }

    async fn recover(&self) {
        fs::rename(self.elsewhere(), self.path()).unwrap();
    }
}

contract_tests::notifier_contract!(Folder::new());
contract_tests::mail_content_contract!(Folder::new());

fn open(path: &Path) -> Result<Arc<dyn Notifier>, OpenError> {
    adapter_mail::open(
        &format!("file://{}", path.display()),
        "Example Orders <orders@example.com>".parse().unwrap(),
    )
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
    assert_eq!(
        files.iter().filter_map(|path| path.file_name()).collect::<Vec<_>>(),
        [OsStr::new(&format!("{}.eml", notification.message_key))]
    );
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
    adapter_mail::open(&url, "orders@localhost".parse().unwrap())
        .unwrap()
        .notify(&notification())
        .await
        .unwrap();
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
async fn a_folder_that_is_gone_is_not_made_anew() {
    let folder = Folder::new();
    folder.break_down().await;
    let refused = folder.notifier.notify(&notification()).await.unwrap_err();
    assert!(
        error_chain(&refused).starts_with("no mail is taken now: No such file or directory"),
        "{}",
        error_chain(&refused)
    );
    folder.notifier.check().await.unwrap_err();
    assert!(!folder.path().exists());
}

#[tokio::test]
async fn a_check_leaves_nothing_behind() {
    let folder = Folder::new();
    folder.notifier.check().await.unwrap();
    assert_eq!(folder.files(), Vec::<PathBuf>::new());
}

#[tokio::test]
async fn a_mail_that_cannot_take_its_place_leaves_nothing() {
    let (folder, notification) = (Folder::new(), notification());
    let place = folder.path().join(format!("{}.eml", notification.message_key));
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
