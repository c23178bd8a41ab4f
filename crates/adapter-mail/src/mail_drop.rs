//! A folder that gets each mail as a file.

mod batch;

use std::{
    fs::{DirBuilder, File},
    io,
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
    sync::Arc,
};

use async_trait::async_trait;
use domain::{
    delivery::Notification,
    ports::{Notifier, NotifyError},
    webhook::EndpointNotice,
};
use group_commit::{Fit, Group, Lead};
use lettre::Message;
use tokio::{sync::oneshot, task::spawn_blocking};

use self::batch::Mail;
use crate::{
    OpenError, Sender,
    message::{message_key, render},
    notice,
};

/// Beginning and end of the name of a file that is being written.
pub(crate) const UNFINISHED: (&str, &str) = (".", ".tmp");

/// Greatest number of batches at a time: one is written while the other waits for the disk.
const MAX_WRITERS: usize = 2;
/// Greatest number of mails that become durable together.
const MAX_BATCH: usize = 64;

/// Writes mails into a folder as `.eml` files. A second delivery of a mail replaces its file.
///
/// Mails that wait at the same time become durable together.
pub struct MailDrop {
    folder: Arc<Path>,
    mails: Group<Mail>,
    sender: Sender,
}

impl MailDrop {
    /// Opens a folder and creates it if it is missing.
    pub fn in_folder(path: &Path, sender: Sender) -> Result<Self, OpenError> {
        let folder = create_folder(path)
            .map_err(|source| OpenError::Folder { path: path.to_owned(), source })?;
        Ok(Self { folder: folder.into(), mails: Group::new(MAX_WRITERS, MAX_BATCH), sender })
    }
}

/// Returns the absolute path of a folder. Creates it durably, accessible to its owner only.
fn create_folder(path: &Path) -> io::Result<PathBuf> {
    let path = std::path::absolute(path)?;
    let missing: Vec<&Path> = path.ancestors().take_while(|folder| !folder.exists()).collect();
    DirBuilder::new().recursive(true).mode(0o700).create(&path)?;
    for parent in missing.into_iter().filter_map(Path::parent) {
        File::open(parent)?.sync_all()?;
    }
    Ok(path)
}

/// Writes everything that waits. Blocks.
fn write_waiting(folder: &Path, mut lead: Lead<Mail>) {
    let fit = |_: &[Mail], mail: &Mail| if mail.is_abandoned() { Fit::Gone } else { Fit::Goes };
    while let Some(mails) = lead.next(fit) {
        batch::write(folder, mails);
    }
}

fn unavailable(error: io::Error) -> NotifyError {
    NotifyError::Unavailable(error.into())
}

/// The message of a panic may quote the mail, so it is not passed on.
fn panicked<E>(_: E) -> Result<(), NotifyError> {
    Err(NotifyError::Transient("the file operation panicked".into()))
}

#[async_trait]
impl Notifier for MailDrop {
    async fn notify(&self, notification: &Notification) -> Result<(), NotifyError> {
        self.write(&notification.message_key, &render(&self.sender, notification)?).await
    }

    async fn tell(&self, notice: &EndpointNotice) -> Result<(), NotifyError> {
        self.write(&notice.message_key(), &notice::render(&self.sender, notice)?).await
    }

    async fn check(&self) -> Result<(), NotifyError> {
        let folder = Arc::clone(&self.folder);
        // The file has no name and disappears when it is closed.
        let check = move || tempfile::tempfile_in(&folder).map(drop).map_err(unavailable);
        spawn_blocking(check).await.unwrap_or_else(panicked)
    }
}

impl MailDrop {
    async fn write(&self, key: &str, mail: &Message) -> Result<(), NotifyError> {
        let name = format!("{}.eml", message_key(key)?);
        let content = mail.formatted();
        let (outcome, written) = oneshot::channel();
        if let Some(lead) = self.mails.join(Mail { name, content, outcome }) {
            let folder = Arc::clone(&self.folder);
            // Not awaited: the mails of others go on if this call is cancelled.
            drop(spawn_blocking(move || write_waiting(&folder, lead)));
        }
        written.await.unwrap_or_else(panicked)
    }
}
