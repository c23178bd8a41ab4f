use std::{
    fs::{DirBuilder, File},
    io::{self, Write as _},
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use async_trait::async_trait;
use domain::{
    delivery::Notification,
    ports::{Notifier, NotifyError},
};

use crate::{
    OpenError, Sender,
    message::{message_key, render},
};

/// Beginning and end of the name of a file that is being written.
pub(crate) const UNFINISHED: (&str, &str) = (".", ".tmp");

/// Writes mails into a folder as `.eml` files. A second delivery of a mail replaces its file.
#[derive(Debug)]
pub struct MailDrop {
    folder: Arc<Folder>,
    sender: Sender,
}

/// The folder, and how many of its files are durable. Concurrent writes share one `fsync`.
#[derive(Debug)]
struct Folder {
    path: PathBuf,
    /// Number of files written so far.
    written: AtomicU64,
    /// Number of files whose directory entries are durable.
    durable: Mutex<u64>,
}

impl Folder {
    /// Makes the directory entries of all files written so far durable.
    fn sync(&self) -> io::Result<()> {
        let own = self.written.fetch_add(1, Ordering::SeqCst) + 1;
        let mut durable = self.durable.lock().unwrap_or_else(PoisonError::into_inner);
        if *durable < own {
            let written = self.written.load(Ordering::SeqCst);
            sync(&self.path)?;
            *durable = written;
        }
        Ok(())
    }

    /// Writes a file atomically and durably: after a power failure it is complete or absent.
    fn write(&self, name: &str, bytes: &[u8]) -> Result<(), NotifyError> {
        // `tempfile` makes the file readable by its owner only, and removes it after a failure.
        let mut file = tempfile::Builder::new()
            .prefix(UNFINISHED.0)
            .suffix(UNFINISHED.1)
            .tempfile_in(&self.path)
            .map_err(unavailable)?;
        file.write_all(bytes).map_err(unavailable)?;
        file.as_file().sync_all().map_err(unavailable)?;
        // Something that blocks this file name does not affect other mails.
        file.persist(self.path.join(name)).map_err(|error| NotifyError::Transient(error.into()))?;
        self.sync().map_err(unavailable)
    }
}

impl MailDrop {
    /// Opens a folder and creates it if it is missing.
    pub fn in_folder(path: &Path, sender: Sender) -> Result<Self, OpenError> {
        let folder = create_folder(path)
            .map_err(|source| OpenError::Folder { path: path.to_owned(), source })?;
        Ok(Self {
            folder: Arc::new(Folder {
                path: folder,
                written: AtomicU64::new(0),
                durable: Mutex::new(0),
            }),
            sender,
        })
    }
}

/// Returns the absolute path of a folder. Creates it durably, accessible to its owner only.
fn create_folder(path: &Path) -> io::Result<PathBuf> {
    let path = std::path::absolute(path)?;
    let missing: Vec<&Path> = path.ancestors().take_while(|folder| !folder.exists()).collect();
    DirBuilder::new().recursive(true).mode(0o700).create(&path)?;
    for parent in missing.into_iter().filter_map(Path::parent) {
        sync(parent)?;
    }
    Ok(path)
}

fn sync(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

fn unavailable(error: io::Error) -> NotifyError {
    NotifyError::Unavailable(error.into())
}

async fn blocking(
    work: impl FnOnce() -> Result<(), NotifyError> + Send + 'static,
) -> Result<(), NotifyError> {
    // The message of a panic may quote the mail, so it is not passed on.
    tokio::task::spawn_blocking(work)
        .await
        .unwrap_or_else(|_| Err(NotifyError::Transient("the file operation panicked".into())))
}

#[async_trait]
impl Notifier for MailDrop {
    async fn notify(&self, notification: &Notification) -> Result<(), NotifyError> {
        let name = format!("{}.eml", message_key(notification)?);
        let mail = render(&self.sender, notification)?.formatted();
        let folder = Arc::clone(&self.folder);
        blocking(move || folder.write(&name, &mail)).await
    }

    async fn check(&self) -> Result<(), NotifyError> {
        let folder = Arc::clone(&self.folder);
        // The file has no name and disappears when it is closed.
        blocking(move || tempfile::tempfile_in(&folder.path).map(drop).map_err(unavailable)).await
    }
}
