//! Chooses the adapters behind the ports by the settings.

use std::{
    path::{Path, PathBuf, absolute},
    sync::Arc,
};

use adapter_clamd::Clamd;
use adapter_mail::{MailDrop, Sender};
use adapter_object_store::DocumentStore;
use adapter_oidc::Provider;
use adapter_postgres::{ObservedDatabase, PostgresStore};
use adapter_sqlite::SqliteStore;
use anyhow::{Context as _, Result, ensure};
use domain::{
    ports::{
        AccessLog, ApiKeyRepo, BlobStore, ChangeFeed, Clock, DatabaseTime, DeliveryQueue,
        IdempotencyLedger, IdentityProvider, InstallationRepo, Notifier, OrderAdmin, OrderReader,
        OrderRepo, Outbox, PersonRepo, RejectedLog, ServiceRepo, SessionRepo, UploadLedger,
        WebhookQueue, WebhookRepo, WebhookSender, error_chain,
    },
    use_cases::{
        installations::Installations,
        keys::manage_keys::ManageKeys,
        people::{manage_people::ManagePeople, sessions::Sessions},
        webhooks::manage_webhooks::ManageWebhooks,
    },
};
use rustix::fs::{Access, access};

use crate::{
    private_files::{adopt, at_path, create_folder},
    progress::Progress,
    secrets_key::secret_box,
    settings::{DATABASE, Database, Settings, checked},
    system::{Machine, SystemClock},
};

/// Describes rows whose parent is gone: the missing parent, and their number.
pub(crate) fn describe_orphans(orphans: &[(String, i64)]) -> String {
    let named = orphans.iter().map(|(orphans, number)| format!("{number} {orphans}"));
    named.collect::<Vec<_>>().join(", ")
}

/// The ports of the database.
#[derive(Clone)]
pub struct Storage {
    /// Stores orders.
    pub orders: Arc<dyn OrderRepo>,
    /// Reads orders for their clients.
    pub reader: Arc<dyn OrderReader>,
    /// Reads the feed of changes for their sides.
    pub feed: Arc<dyn ChangeFeed>,
    /// Lists, reads and erases orders for operators.
    pub admin: Arc<dyn OrderAdmin>,
    /// Records the objects of orders that are not created yet.
    pub uploads: Arc<dyn UploadLedger>,
    /// Stores idempotency keys in use.
    pub idempotency: Arc<dyn IdempotencyLedger>,
    /// Stores reads and changes of orders.
    pub accesses: Arc<dyn AccessLog>,
    /// Stores counts of rejected requests.
    pub rejected: Arc<dyn RejectedLog>,
    /// Stores people.
    pub people: Arc<dyn PersonRepo>,
    /// Stores sessions.
    pub sessions: Arc<dyn SessionRepo>,
    /// Stores API keys.
    pub keys: Arc<dyn ApiKeyRepo>,
    /// Stores the records of signing services.
    pub services: Arc<dyn ServiceRepo>,
    /// Stores events.
    pub outbox: Arc<dyn Outbox>,
    /// Stores deliveries.
    pub queue: Arc<dyn DeliveryQueue>,
    /// Stores webhook endpoints.
    pub webhooks: Arc<dyn WebhookRepo>,
    /// Stores webhook deliveries.
    pub webhook_queue: Arc<dyn WebhookQueue>,
    /// Tells what the database knows of the time.
    pub time: Arc<dyn DatabaseTime>,
    /// Stores the installation.
    pub installation: Arc<dyn InstallationRepo>,
    /// The database behind these ports.
    pub observed: Arc<dyn ObservedDatabase>,
}

// The names of settings in errors.
/// Names the data directory.
pub const DATA_DIR: &str = "--data-dir (NOTARY_ORDERS_DATA_DIR)";
/// Names the address of the API.
pub const LISTEN: &str = "--listen (NOTARY_ORDERS_LISTEN)";
/// Names the address of the operators' endpoints.
pub const OPS_LISTEN: &str = "--ops-listen (NOTARY_ORDERS_OPS_LISTEN)";
pub(crate) const DOCUMENTS: &str = "--documents-url (NOTARY_ORDERS_DOCUMENTS_URL)";
/// Names the mail relay or folder.
pub const MAIL: &str = "--mail-url (NOTARY_ORDERS_MAIL_URL)";
/// Names the malware scanner.
pub const SCANNER: &str = "--scan-url (NOTARY_ORDERS_SCAN_URL)";
pub(crate) const MAIL_FROM: &str = "--mail-from (NOTARY_ORDERS_MAIL_FROM)";

const MIGRATING: &str = "migrating the database";

impl Storage {
    /// Opens the database of the settings for the service, whose calls have time limits, and updates
    /// its schema.
    pub async fn open(settings: &Settings) -> Result<Self> {
        let patient = Self::open_patiently(settings).await?;
        let check = Progress::new("waiting for the write lock of the database");
        check.of(patient.orders.check()).await.context(settings.database_setting())?;
        match settings.database()? {
            Database::Sqlite(path) => {
                let store = SqliteStore::open(&path, settings.time_limits.sqlite);
                Ok(Self::on(store.context(settings.database_setting())?))
            }
            Database::Postgres(_) => Ok(patient),
        }
    }

    /// Opens the database of the settings for a command, and updates its schema. SQLite then waits
    /// as long as another process locks it.
    pub(crate) async fn open_patiently(settings: &Settings) -> Result<Self> {
        if settings.database_url.is_none() {
            create_data_dir(settings)?;
        }
        let storage = match settings.database()? {
            Database::Sqlite(path) => {
                Self::on(open_sqlite(&path, settings.database_setting()).await?)
            }
            Database::Postgres(url) => Self::on(open_postgres(&url, settings, DATABASE).await?),
        };
        let begun = storage.feed.begin_epoch(SystemClock.now()).await;
        begun.context(settings.database_setting())?;
        Ok(storage)
    }

    fn on<Store>(store: Store) -> Self
    where
        Store: OrderRepo
            + OrderReader
            + ChangeFeed
            + OrderAdmin
            + UploadLedger
            + IdempotencyLedger
            + AccessLog
            + RejectedLog
            + PersonRepo
            + SessionRepo
            + ApiKeyRepo
            + ServiceRepo
            + Outbox
            + DeliveryQueue
            + WebhookRepo
            + WebhookQueue
            + DatabaseTime
            + InstallationRepo
            + ObservedDatabase
            + 'static,
    {
        let store = Arc::new(store);
        Self {
            orders: store.clone(),
            reader: store.clone(),
            feed: store.clone(),
            admin: store.clone(),
            uploads: store.clone(),
            idempotency: store.clone(),
            accesses: store.clone(),
            rejected: store.clone(),
            people: store.clone(),
            sessions: store.clone(),
            keys: store.clone(),
            services: store.clone(),
            outbox: store.clone(),
            queue: store.clone(),
            webhooks: store.clone(),
            webhook_queue: store.clone(),
            time: store.clone(),
            installation: store.clone(),
            observed: store,
        }
    }

    /// Returns the use case that tells copies of this storage.
    pub fn installations(&self, settings: &Settings) -> Result<Installations> {
        installations(Arc::clone(&self.installation), settings)
    }

    /// Returns the use case of API keys on this storage.
    pub fn manage_keys(&self, machine: &Machine) -> ManageKeys {
        ManageKeys {
            keys: Arc::clone(&self.keys),
            clock: Arc::clone(&machine.clock),
            entropy: Arc::clone(&machine.entropy),
            uses: Arc::default(),
            cache: Arc::default(),
        }
    }

    /// Returns the use case of sessions on this storage.
    pub fn sessions(&self, settings: &Settings, machine: &Machine) -> Sessions {
        Sessions {
            sessions: Arc::clone(&self.sessions),
            clock: Arc::clone(&machine.clock),
            terms: settings.session_terms(),
            uses: Arc::default(),
            cache: Arc::default(),
        }
    }

    /// Returns the use case of people on this storage, who sign in by these logins, too.
    pub fn manage_people(
        &self,
        sessions: Sessions,
        machine: &Machine,
        logins: &[Arc<dyn IdentityProvider>],
    ) -> ManagePeople {
        ManagePeople {
            people: Arc::clone(&self.people),
            sessions,
            clock: Arc::clone(&machine.clock),
            entropy: Arc::clone(&machine.entropy),
            issuers: logins.iter().map(|login| login.issuer()).collect(),
        }
    }

    /// Returns the use case of webhook endpoints on this storage.
    pub fn manage_webhooks(
        &self,
        settings: &Settings,
        machine: &Machine,
        sender: Arc<dyn WebhookSender>,
    ) -> Result<ManageWebhooks> {
        Ok(ManageWebhooks {
            endpoints: Arc::clone(&self.webhooks),
            deliveries: Arc::clone(&self.webhook_queue),
            sender,
            secrets: secret_box(settings, &machine.entropy)?,
            clock: Arc::clone(&machine.clock),
            entropy: Arc::clone(&machine.entropy),
        })
    }
}

/// Returns what sends webhooks by the settings. Blocks: it reads the root certificates of the system.
pub fn webhook_sender(settings: &Settings) -> Result<Arc<dyn WebhookSender>> {
    let (open, proxy) = (settings.webhook_allow.clone(), settings.webhook_proxy.as_deref());
    let sender = adapter_webhook::Sender::new(open, proxy);
    Ok(Arc::new(checked(sender, "--webhook-proxy (NOTARY_ORDERS_WEBHOOK_PROXY)")?))
}

/// Returns the logins of companies. Asks no provider: the service starts without them. Blocks: it reads the files of
/// secrets and the root certificates of the system.
pub fn identity_providers(
    settings: &Settings,
    clock: &Arc<dyn Clock>,
) -> Result<Vec<Arc<dyn IdentityProvider>>> {
    let logins = settings.logins()?;
    if logins.is_empty() {
        return Ok(Vec::new());
    }
    let http = adapter_oidc::Http::new()?;
    let provider = |login| Arc::new(Provider::new(login, http.clone(), Arc::clone(clock))) as _;
    Ok(logins.into_iter().map(provider).collect())
}

/// Opens an SQLite database and updates its schema. Errors name the setting.
pub(crate) async fn open_sqlite(path: &Path, setting: &str) -> Result<SqliteStore> {
    checked(check_file(path), setting)?;
    let setting = format!("{setting}: {}", path.display());
    let is_new = !path.exists();
    let store = SqliteStore::open_patiently(path).context(setting.clone())?;
    if is_new {
        for suffix in ["", "-wal", "-shm"] {
            let mut file = path.as_os_str().to_owned();
            file.push(suffix);
            adopt(Path::new(&file));
        }
    }
    let migrated = Progress::new(MIGRATING).of(Box::pin(store.migrate())).await;
    migrated.context(setting)?;
    Ok(store)
}

/// Checks that SQLite can use a file and its folder. Its own errors do not say why it cannot.
pub fn check_file(path: &Path) -> Result<()> {
    let path = path.canonicalize().or_else(|_| absolute(path))?;
    let check =
        |path: &Path, wanted| access(path, wanted).map_err(|error| at_path(error.into(), path));
    if path.exists() {
        ensure!(path.is_file(), "{} is not a file", path.display());
        check(&path, Access::READ_OK | Access::WRITE_OK)?;
    }
    check(path.parent().unwrap_or(&path), Access::WRITE_OK)
}

/// Opens a PostgreSQL database and updates its schema. Errors name the setting.
pub(crate) async fn open_postgres(
    url: &str,
    settings: &Settings,
    setting: &'static str,
) -> Result<PostgresStore> {
    let (connections, limits) = (settings.database_connections, settings.time_limits.postgres);
    let store = checked(PostgresStore::open(url, connections, limits), setting)?;
    Progress::new(MIGRATING).of(Box::pin(store.migrate())).await.context(setting)?;
    Ok(store)
}

/// Returns the document store of the settings. Makes a missing folder, and does not connect.
pub fn document_store(settings: &Settings) -> Result<Arc<dyn DocumentStore>> {
    let limits = settings.time_limits.documents;
    if let Some(folder) = settings.documents() {
        let setting = if settings.documents_url.is_none() { DATA_DIR } else { DOCUMENTS };
        checked(create_folder(&folder), setting)?;
        return Ok(adapter_object_store::in_folder(&folder, limits));
    }
    let url = settings.documents_url.as_deref().unwrap_or_default();
    checked(adapter_object_store::open(url, settings.environment.clone(), limits), DOCUMENTS)
}

/// Returns the use case that tells copies of a database. The path of a folder, or the bucket, identifies the
/// document store.
pub(crate) fn installations(
    repo: Arc<dyn InstallationRepo>,
    settings: &Settings,
) -> Result<Installations> {
    let documents = if let Some(folder) = settings.documents() {
        // Without a slash at its end, which URLs may have.
        absolute(folder)?.components().collect::<PathBuf>().display().to_string()
    } else {
        let url = settings.documents_url.as_deref().unwrap_or_default();
        let identity = adapter_object_store::identity(url, settings.environment.clone());
        checked(identity, DOCUMENTS)?
    };
    Ok(Installations { repo, documents })
}

/// Opens the document store of the settings. One that does not answer is a warning: orders without
/// documents continue without it. Fails if the settings are wrong.
pub async fn open_blobs(settings: &Settings) -> Result<Arc<dyn BlobStore>> {
    let blobs = document_store(settings)?;
    // The first connection to a remote store may take longer than the time limit of a check.
    if blobs.check().await.is_err()
        && let Err(error) = blobs.check().await
    {
        if adapter_object_store::is_refusal(&error) {
            return Err(error).context(DOCUMENTS);
        }
        tracing::warn!(
            setting = DOCUMENTS,
            error = error_chain(&error),
            "the document store is unavailable; orders with documents get 503 until it answers"
        );
    }
    Ok(blobs)
}

/// Returns the malware scanner of the settings, if they name one. Does not connect.
pub fn scanner(settings: &Settings) -> Result<Option<Clamd>> {
    let open = |url| Clamd::open(url, settings.time_limits.scanner);
    checked(settings.scan_url.as_deref().map(open).transpose(), SCANNER)
}

/// Returns the sender of mails.
pub(crate) fn sender(settings: &Settings) -> Result<Sender> {
    let sender: Result<Sender> = checked(settings.mail_from.parse(), MAIL_FROM);
    Ok(sender?.linking_to(settings.public_url.clone()))
}

/// Returns the mail relay or folder of the settings. Makes a missing folder, and does not connect.
pub fn notifier(settings: &Settings) -> Result<Arc<dyn Notifier>> {
    let sender = sender(settings)?;
    if let Some(folder) = settings.mail_drop() {
        checked(create_folder(&folder), if settings.mail_url.is_none() { DATA_DIR } else { MAIL })?;
        return Ok(Arc::new(MailDrop::in_folder(&folder, sender)));
    }
    checked(adapter_mail::open(settings.mail_url.as_deref().unwrap_or_default(), sender), MAIL)
}

/// Creates the data directory, durably. Only its owner can read it, because it holds personal data.
pub fn create_data_dir(settings: &Settings) -> Result<()> {
    if settings.data_dir.exists() {
        return Ok(());
    }
    checked(create_folder(&settings.data_dir), DATA_DIR)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use url::Url;

    use super::*;
    use crate::settings::tests::settings;

    #[test]
    fn unusable_folder_names_the_setting_that_is_set() {
        let data = tempfile::tempdir().unwrap();
        let of = |name: &str| {
            let file = data.path().join(name);
            fs::write(&file, "").unwrap();
            Url::from_file_path(file).unwrap()
        };
        let (documents, mail) = (of("documents"), of("mail"));
        let flag = format!("--data-dir={}", data.path().display());
        let errors = |flags: &[&str]| {
            let settings = settings(flags);
            [document_store(&settings).err().unwrap(), notifier(&settings).err().unwrap()]
                .map(|error| format!("{error:#}"))
        };
        for error in errors(&[&flag]) {
            assert!(error.starts_with(DATA_DIR), "{error}");
        }
        let flags = [format!("--documents-url={documents}"), format!("--mail-url={mail}")];
        let [documents, mail] = errors(&[&flag, &flags[0], &flags[1]]);
        assert!(documents.starts_with(DOCUMENTS) && mail.starts_with(MAIL), "{documents} {mail}");
    }
}
