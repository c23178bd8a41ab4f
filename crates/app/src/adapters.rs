//! Adapters behind ports, chosen by the settings.

use std::{
    fs::{DirBuilder, File},
    io,
    os::unix::fs::DirBuilderExt as _,
    path::Path,
    sync::Arc,
};

use adapter_mail::{MailDrop, Sender};
use adapter_object_store::ObjectBlobStore;
use adapter_postgres::PostgresStore;
use adapter_sqlite::SqliteStore;
use anyhow::{Context as _, Result};
use domain::{
    manage_keys::ManageKeys,
    ports::{
        ApiKeyRepo, BlobStore, DeliveryQueue, IdempotencyLedger, Notifier, OrderRepo, UploadLedger,
    },
};

use crate::{
    Machine,
    settings::{Database, Settings},
};

/// The storage ports.
#[derive(Clone)]
pub struct Storage {
    /// Orders.
    pub orders: Arc<dyn OrderRepo>,
    /// Intended objects.
    pub uploads: Arc<dyn UploadLedger>,
    /// Idempotency keys in use.
    pub idempotency: Arc<dyn IdempotencyLedger>,
    /// API keys.
    pub keys: Arc<dyn ApiKeyRepo>,
    /// Follow-ups.
    pub queue: Arc<dyn DeliveryQueue>,
}

/// The setting of the database.
const DATABASE: &str = "--database-url (DATABASE_URL)";

impl Storage {
    /// Opens the database of the settings, and brings its schema up to date.
    pub async fn open(settings: &Settings) -> Result<Self> {
        if settings.database_url.is_none() {
            create_data_dir(settings)?;
        }
        let storage = match settings.database().context(DATABASE)? {
            Database::Sqlite(path) => Self::on(open_sqlite(&path, DATABASE).await?),
            Database::Postgres(url) => Self::on(open_postgres(&url, settings, DATABASE).await?),
        };
        storage.orders.check().await.context(DATABASE)?;
        Ok(storage)
    }

    fn on<
        S: OrderRepo + UploadLedger + IdempotencyLedger + ApiKeyRepo + DeliveryQueue + 'static,
    >(
        store: S,
    ) -> Self {
        let store = Arc::new(store);
        Self {
            orders: store.clone(),
            uploads: store.clone(),
            idempotency: store.clone(),
            keys: store.clone(),
            queue: store,
        }
    }

    /// The use case of API keys on this storage.
    pub fn manage_keys(&self, machine: &Machine) -> ManageKeys {
        ManageKeys {
            keys: Arc::clone(&self.keys),
            clock: Arc::clone(&machine.clock),
            entropy: Arc::clone(&machine.entropy),
            uses: Arc::default(),
            known: Arc::default(),
        }
    }
}

/// Opens the SQLite database that a setting names.
pub(crate) async fn open_sqlite(path: &Path, setting: &str) -> Result<SqliteStore> {
    let at = || format!("{setting}: {}", path.display());
    let store = SqliteStore::open(path).with_context(at)?;
    store.migrate().await.with_context(at)?;
    Ok(store)
}

/// Opens the PostgreSQL database that a setting names.
pub(crate) async fn open_postgres(
    url: &str,
    settings: &Settings,
    setting: &'static str,
) -> Result<PostgresStore> {
    let store = PostgresStore::open(url, settings.database_connections.into()).context(setting)?;
    store.migrate().await.context(setting)?;
    Ok(store)
}

/// Opens the document store of the settings, and finds whether it takes documents.
pub(crate) async fn open_blobs(settings: &Settings) -> Result<Arc<dyn BlobStore>> {
    const SETTING: &str = "--documents-url (NOTARY_ORDERS_DOCUMENTS_URL)";
    let opened = match &settings.documents_url {
        Some(url) => ObjectBlobStore::open(url, settings.environment.clone()),
        None => ObjectBlobStore::in_folder(&settings.in_data_dir("documents")),
    };
    let blobs = opened.context(SETTING)?;
    // The first connection to a far store may take longer than a check has.
    if blobs.check().await.is_err() {
        blobs.check().await.context(SETTING)?;
    }
    Ok(Arc::new(blobs))
}

/// Opens the way that mails take, and finds whether it is open.
pub(crate) async fn open_notifier(settings: &Settings) -> Result<Arc<dyn Notifier>> {
    const SETTING: &str = "--mail-url (NOTARY_ORDERS_MAIL_URL)";
    let sender: Sender =
        settings.mail_from.parse().context("--mail-from (NOTARY_ORDERS_MAIL_FROM)")?;
    let notifier: Arc<dyn Notifier> = match &settings.mail_url {
        Some(url) => adapter_mail::open(url, sender).context(SETTING)?,
        None => {
            Arc::new(MailDrop::in_folder(&settings.in_data_dir("mail"), sender).context(SETTING)?)
        }
    };
    notifier.check().await.context(SETTING)?;
    Ok(notifier)
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
    create().with_context(|| {
        format!("--data-dir (NOTARY_ORDERS_DATA_DIR): {}", settings.data_dir.display())
    })
}
