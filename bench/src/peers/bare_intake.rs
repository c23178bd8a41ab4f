//! How the bare program creates orders with documents by the statements of the service, and
//! delivers their mails, by its domain and its adapters. It shows what the service costs without
//! its framework, spool, keys, limits and log.

use std::{
    env,
    fs::{self, File},
    ops::Range,
    path::{Path, PathBuf},
    sync::Arc,
};

use adapter_mail::MailDrop;
use adapter_postgres::PostgresStore;
use adapter_sqlite::SqliteStore;
use async_trait::async_trait;
use contract_tests::fakes::{CountingEntropy, ManualClock};
use domain::{
    api_key::{ApiKey, ApiKeyId, KeyHash, NewApiKey, Scopes},
    create_order::CreateOrder,
    delivery_slots::{DELIVERIES_IN_FLIGHT, DeliverySlots},
    delivery_worker::{DeliveryWorker, Sleep},
    dispatch_events::DispatchEvents,
    document::{ObjectKey, ReceivedDocument, SpooledFile},
    duplicate_window::DuplicateWindow,
    intake::Intake,
    order::OrderRequest,
    order_traffic::OrderTraffic,
    ports::{
        BlobStore, BlobStream, Clock, DeliveryQueue, Entropy, GetError, IdempotencyLedger,
        OrderReader, OrderRepo, Outbox, StoreError, UploadLedger, WebhookRepo,
    },
    run_deliveries::RunDeliveries,
};
use futures_util::FutureExt as _;
use rustix::process::nice;
use time::OffsetDateTime;
use tokio::{
    runtime::{Builder, Runtime},
    time::{sleep, timeout},
};

use crate::instance::Backend;

/// The folder of stored documents.
pub const OBJECTS: &str = "objects";
/// The folder of delivered mails.
pub const MAILS: &str = "mails";
/// As in the service: requests come first where processors are scarce.
const BACKGROUND_NICENESS: i32 = 10;

/// Creates orders with documents as the service does.
pub struct BareIntake {
    create: CreateOrder,
    key: ApiKey,
    /// Delivers mails.
    _background: Runtime,
}

/// A store of the service.
trait Store:
    OrderRepo + OrderReader + UploadLedger + IdempotencyLedger + Outbox + DeliveryQueue + WebhookRepo
{
}

impl Store for PostgresStore {}
impl Store for SqliteStore {}

impl BareIntake {
    /// Opens the database of a service, for so many threads that each have a runtime.
    pub fn open(backend: Backend, threads: usize) -> Self {
        let database = env::var("DATABASE_URL").unwrap();
        let documents = PathBuf::from(env::var_os("DOCUMENTS").unwrap());
        let background = Builder::new_multi_thread()
            .on_thread_start(|| {
                nice(BACKGROUND_NICENESS).unwrap();
            })
            .enable_all()
            .build()
            .unwrap();
        let _entered = background.enter();
        match backend {
            Backend::Postgres => {
                // Each thread may have two, and background work the other half.
                let store = PostgresStore::open_for_threads(&database, 4 * threads, threads);
                Self::start(&Arc::new(store.unwrap()), &documents, background)
            }
            Backend::Sqlite => {
                let store = SqliteStore::open(Path::new(&database));
                Self::start(&Arc::new(store.unwrap()), &documents, background)
            }
        }
    }

    fn start<S: Store + 'static>(store: &Arc<S>, documents: &Path, background: Runtime) -> Self {
        // The clock stands still, as no file number comes again.
        let clock: Arc<dyn Clock> = Arc::<ManualClock>::default();
        let entropy: Arc<dyn Entropy> = Arc::<CountingEntropy>::default();
        let key = key(clock.now());
        let (traffic, mails_due) = (Arc::<OrderTraffic>::default(), Arc::default());
        let dispatch = DispatchEvents {
            outbox: store.clone(),
            queue: store.clone(),
            endpoints: store.clone(),
            clock: clock.clone(),
            entropy: entropy.clone(),
            traffic: traffic.clone(),
            orders_before: 0.into(),
            mails_due: Arc::clone(&mails_due),
            webhooks_due: Arc::default(),
        };
        let sender = "orders@localhost".parse().unwrap();
        let run = RunDeliveries {
            queue: store.clone(),
            notifier: Arc::new(MailDrop::in_folder(&documents.join(MAILS), sender).unwrap()),
            clock: clock.clone(),
            entropy: entropy.clone(),
            mails_per_recipient_hour: 0,
        };
        let slots = Arc::new(DeliverySlots::new(DELIVERIES_IN_FLIGHT.into()));
        let pause: Sleep = |pause| sleep(pause).boxed();
        let (share, arriving) = (slots.share(), traffic.clone());
        let mut deliver = DeliveryWorker::new(run, share, slots, arriving, mails_due, pause);
        background.spawn(async move {
            loop {
                assert!(deliver.step().await.failure.is_none(), "mails are delivered");
            }
        });
        background.spawn(async move {
            loop {
                let step = dispatch.step().await;
                if step.result.unwrap().is_idle {
                    let _ = timeout(step.pause, dispatch.woken()).await;
                } else {
                    sleep(step.pause).await;
                }
            }
        });
        let folder = documents.join(OBJECTS);
        fs::create_dir(&folder).unwrap();
        let opened = File::open(&folder).unwrap();
        let intake = Intake {
            orders: store.clone(),
            reader: store.clone(),
            uploads: store.clone(),
            idempotency: store.clone(),
            blobs: Arc::new(Renamed { folder, opened }),
            scan: None,
            clock,
            entropy,
            idempotency_retention: time::Duration::DAY,
            object_keys: Arc::default(),
            traffic,
        };
        let create = CreateOrder { intake, window: DuplicateWindow::default() };
        Self { create, key, _background: background }
    }

    /// Reads and checks an order, and creates it with documents, whose files are durable. Returns
    /// its identifier.
    pub async fn add(&self, order: &[u8], documents: Vec<ReceivedDocument>) -> i64 {
        let request: Box<OrderRequest> = serde_json::from_slice(order).unwrap();
        let create = self.create.create_with_documents(&self.key, request, documents, None);
        create.await.unwrap().stored.id.0
    }
}

/// Returns a key that may create orders for every signing service.
fn key(issued_at: OffsetDateTime) -> ApiKey {
    ApiKey {
        id: ApiKeyId(1),
        key: NewApiKey {
            name: "measurement".to_owned(),
            contact: None,
            lookup: String::new(),
            hash: KeyHash([0; 32]),
            signing_service: None,
            scopes: Scopes::default(),
            issued_at,
            expires_at: None,
            is_test: false,
            rate: None,
            documents_rate: None,
            client: None,
        },
        revoked_at: None,
        last_used_at: None,
    }
}

/// Stores a document by renaming its file, which is durable already.
struct Renamed {
    folder: PathBuf,
    opened: File,
}

#[async_trait]
impl BlobStore for Renamed {
    async fn put(&self, key: &ObjectKey, file: &SpooledFile) -> Result<(), StoreError> {
        // The thread of the connection waits for the disk. It has nothing else to do.
        fs::rename(&file.path, self.folder.join(key.as_str().replace('/', "-"))).unwrap();
        self.opened.sync_all().unwrap();
        Ok(())
    }

    async fn get(&self, _: &ObjectKey, _: Range<u64>) -> Result<BlobStream, GetError> {
        Err(GetError::Missing)
    }

    async fn delete(&self, _: &ObjectKey) -> Result<(), StoreError> {
        Ok(())
    }

    async fn check(&self) -> Result<(), StoreError> {
        Ok(())
    }
}
