//! A folder that gets each mail as a file.

use std::{
    fs::File,
    io::{self, Write as _},
    path::Path,
    sync::Arc,
};

use async_trait::async_trait;
use domain::{
    delivery::Notification,
    ports::{Notice, Notifier, NotifyError},
};
use lettre::Message;
use tokio::task::spawn_blocking;

use crate::{Sender, notice, order};

/// Beginning and end of the name of a file that is being written.
pub(crate) const UNFINISHED: (&str, &str) = (".", ".tmp");

/// Writes mails into a folder as `.eml` files. A second delivery of a mail replaces its file.
pub struct MailDrop {
    folder: Arc<Path>,
    sender: Sender,
}

impl MailDrop {
    /// Returns the mail drop in a folder.
    pub fn in_folder(path: &Path, sender: Sender) -> Self {
        Self { folder: path.into(), sender }
    }
}

/// Writes a file durably, readable by its owner only. After a power failure it is complete or absent:
/// it gets its name after its content is durable.
fn write_file(folder: &Path, name: &str, content: &[u8]) -> Result<(), NotifyError> {
    let (start, end) = UNFINISHED;
    let mut file = tempfile::Builder::new()
        .prefix(start)
        .suffix(end)
        .tempfile_in(folder)
        .map_err(unavailable)?;
    file.write_all(content).and_then(|()| file.as_file().sync_data()).map_err(unavailable)?;
    // Something that blocks this file name does not affect other mails.
    file.persist(folder.join(name)).map_err(|error| NotifyError::Transient(error.error.into()))?;
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(unavailable)
}

fn unavailable(error: io::Error) -> NotifyError {
    NotifyError::Unavailable(error.into())
}

/// Runs work on a thread for blocking work. The message of a panic may quote the mail, so it is not
/// passed on.
async fn blocking(
    work: impl FnOnce() -> Result<(), NotifyError> + Send + 'static,
) -> Result<(), NotifyError> {
    let panicked = |_| NotifyError::Transient("the file operation panicked".into());
    spawn_blocking(work).await.map_err(panicked)?
}

#[async_trait]
impl Notifier for MailDrop {
    async fn notify(&self, notification: &Notification) -> Result<(), NotifyError> {
        self.write(&notification.message_key, &order::render(&self.sender, notification)?).await
    }

    async fn tell(&self, notice: &Notice) -> Result<(), NotifyError> {
        self.write(&notice.message_key(), &notice::render(&self.sender, notice)?).await
    }

    async fn check(&self) -> Result<(), NotifyError> {
        let folder = Arc::clone(&self.folder);
        // The file has no name and disappears when it is closed.
        blocking(move || tempfile::tempfile_in(&folder).map(drop).map_err(unavailable)).await
    }
}

impl MailDrop {
    async fn write(&self, key: &str, mail: &Message) -> Result<(), NotifyError> {
        let name = format!("{key}.eml");
        let (folder, content) = (Arc::clone(&self.folder), mail.formatted());
        blocking(move || write_file(&folder, &name, &content)).await
    }
}
