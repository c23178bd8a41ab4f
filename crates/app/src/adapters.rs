//! Adapters behind ports, chosen by the settings.

use std::{
    fs::{DirBuilder, File},
    io,
    os::unix::fs::DirBuilderExt as _,
    sync::Arc,
};

use adapter_mail::{MailDrop, Sender};
use adapter_object_store::ObjectBlobStore;
use adapter_sqlite::SqliteStore;
use anyhow::{Context as _, Result, bail};
use domain::{
    manage_keys::ManageKeys,
    ports::{ApiKeyRepo, BlobStore, FollowUpQueue, Notifier, OrderRepo, UploadLedger},
};

use crate::{Machine, settings::Settings};

/// The storage ports.
#[derive(Clone)]
pub struct Storage {
    /// Orders.
    pub orders: Arc<dyn OrderRepo>,
    /// Intended objects.
    pub uploads: Arc<dyn UploadLedger>,
    /// API keys.
    pub keys: Arc<dyn ApiKeyRepo>,
    /// Follow-ups.
    pub queue: Arc<dyn FollowUpQueue>,
}

impl Storage {
    /// Opens the database of the settings, and brings its schema up to date.
    pub async fn open(settings: &Settings) -> Result<Self> {
        const SETTING: &str = "--database-url (DATABASE_URL)";
        let Some(path) = settings.sqlite_path() else { bail!("{SETTING}: only sqlite:// is built into this version") };
        if settings.database_url.is_none() {
            create_data_dir(settings)?;
        }
        let at = || format!("{SETTING}: {}", path.display());
        let store = Arc::new(SqliteStore::open(&path).with_context(at)?);
        store.migrate().await.with_context(at)?;
        Ok(Self { orders: Arc::clone(&store) as _, uploads: Arc::clone(&store) as _, keys: Arc::clone(&store) as _, queue: store })
    }

    /// The use case of API keys on this storage.
    pub fn manage_keys(&self, machine: &Machine) -> ManageKeys {
        ManageKeys { keys: Arc::clone(&self.keys), clock: Arc::clone(&machine.clock), entropy: Arc::clone(&machine.entropy) }
    }
}

/// Opens the document store of the settings.
pub(crate) fn open_blobs(settings: &Settings) -> Result<Arc<dyn BlobStore>> {
    let opened = match &settings.documents_url {
        Some(url) => ObjectBlobStore::open(url),
        None => ObjectBlobStore::in_folder(&settings.in_data_dir("documents")),
    };
    Ok(Arc::new(opened.context("--documents-url (NOTARY_ORDERS_DOCUMENTS_URL)")?))
}

/// Opens the way that mails take.
pub(crate) fn open_notifier(settings: &Settings) -> Result<Arc<dyn Notifier>> {
    let sender: Sender = settings.mail_from.parse().context("--mail-from (NOTARY_ORDERS_MAIL_FROM)")?;
    let opened = match &settings.mail_url {
        Some(url) => MailDrop::open(url, sender),
        None => MailDrop::in_folder(&settings.in_data_dir("mail"), sender),
    };
    Ok(Arc::new(opened.context("--mail-url (NOTARY_ORDERS_MAIL_URL)")?))
}

/// Makes the data directory, durably and for its owner alone: it holds people's papers.
pub(crate) fn create_data_dir(settings: &Settings) -> Result<()> {
    let folder = std::path::absolute(&settings.data_dir)?;
    let create = || -> io::Result<()> {
        if !folder.exists() {
            DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
            folder.parent().map_or(Ok(()), |parent| File::open(parent)?.sync_all())?;
        }
        Ok(())
    };
    create().with_context(|| format!("--data-dir (NOTARY_ORDERS_DATA_DIR): {}", settings.data_dir.display()))
}
