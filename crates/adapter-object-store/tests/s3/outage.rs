//! Outages: a bucket that is stopped or never answers.

use std::{
    collections::BTreeMap,
    future::Future,
    sync::{Arc, Mutex, mpsc},
    time::{Duration, Instant},
};

use adapter_object_store::ObjectBlobStore;
use async_trait::async_trait;
use contract_tests::{
    fakes::{CountingEntropy, ManualClock},
    samples,
};
use domain::{
    api_key::{ApiKey, ApiKeyId, NewApiKey},
    document::{Content, DocumentFormat, ObjectKey, ReceivedDocument},
    duplicate_window::DuplicateWindow,
    order::OrderId,
    orders::{
        create_order::CreateOrder, intake::Intake, order_error::OrderError,
        sweep_uploads::SweepUploads,
    },
    ports::{
        BlobStore, Clock as _, MockIdempotencyLedger, MockOrderReader, MockOrderRepo, StoreError,
        UploadLedger,
    },
};
use futures_util::future::join_all;
use test_servers::s3::{S3Server, Treatment};
use time::OffsetDateTime;

use crate::harness::{Files, LARGE, open, unavailable};

/// Time limit for the error of a request while the bucket is stopped.
const ERROR_TIMEOUT: Duration = Duration::from_secs(3);

async fn timed<T>(work: impl Future<Output = T>) -> (T, Duration) {
    let start = Instant::now();
    let done = work.await;
    (done, start.elapsed())
}

#[tokio::test(flavor = "multi_thread")]
async fn stopped_bucket_fails_fast_and_recovers() {
    let (server, files) = (S3Server::start(), Files::new());
    let store = open(&server);
    let (key, file) = files.make(100);
    store.put(&key, &file).await.unwrap();
    server.stop();

    let (checked, took) = timed(store.check()).await;
    let error = unavailable(&checked.unwrap_err());
    assert!(error.starts_with("the store is unavailable: Connection refused"), "{error}");
    assert!(took < Duration::from_secs(2), "{took:?}");
    for size in [100, LARGE] {
        let (put, took) = timed(files.put(&store, size)).await;
        unavailable(&put.unwrap_err());
        assert!(took < ERROR_TIMEOUT, "{took:?}");
    }
    let (deleted, took) = timed(store.delete(&key)).await;
    unavailable(&deleted.unwrap_err());
    assert!(took < Duration::from_secs(2), "{took:?}");

    server.start_again();
    assert_eq!(server.objects().len(), 1);
    store.check().await.unwrap();
    files.put(&store, LARGE).await.unwrap();
    store.delete(&key).await.unwrap();
    assert_eq!(server.objects().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn object_of_a_stopped_bucket_is_unavailable() {
    let (server, files) = (S3Server::start(), Files::new());
    let store = open(&server);
    let (key, file) = files.make(100);
    store.put(&key, &file).await.unwrap();
    server.stop();
    let (outcome, took) = timed(store.get(&key, 0..100)).await;
    assert!(matches!(outcome, Err(StoreError::Unavailable(_))));
    assert!(took < ERROR_TIMEOUT, "{took:?}");
    server.start_again();
    // What the store refuses is no missing object either.
    server.treat(|_| Treatment::Refuse(403));
    assert!(matches!(store.get(&key, 0..100).await, Err(StoreError::Unavailable(_))));
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_puts_fail_as_fast_as_one() {
    let (server, files) = (S3Server::start(), Files::new());
    let store = open(&server);
    let (file, keys) = (
        files.make(LARGE).1,
        (0..60).map(|_| ObjectKey::random(&files.entropy)).collect::<Vec<_>>(),
    );
    server.stop();
    let (puts, took) = timed(join_all(keys.iter().map(|key| store.put(key, &file)))).await;
    for put in puts {
        unavailable(&put.unwrap_err());
    }
    assert!(took < ERROR_TIMEOUT, "{took:?}");
    server.start_again();
    files.put(&store, LARGE).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn bucket_stopped_during_an_upload_fails_fast() {
    let (server, files) = (S3Server::start(), Files::new());
    let store = Arc::new(open(&server));
    let (second_part, wait) = mpsc::channel();
    server.treat(move |request| {
        if request.uri.query().is_some_and(|query| query.starts_with("partNumber=2")) {
            second_part.send(()).unwrap();
            return Treatment::Silence;
        }
        Treatment::Serve
    });
    let (key, file) = files.make(LARGE);
    let put = tokio::spawn({
        let store = Arc::clone(&store);
        async move { store.put(&key, &file).await }
    });
    let server = tokio::task::spawn_blocking(move || {
        wait.recv().unwrap();
        server.stop();
        server
    });
    let server = server.await.unwrap();
    let (put, took) = timed(put).await;
    unavailable(&put.unwrap().unwrap_err());
    assert!(took < ERROR_TIMEOUT, "{took:?}");
    assert_eq!(server.objects().len(), 0);
}

#[tokio::test]
async fn check_of_a_silent_bucket_times_out() {
    let server = S3Server::start();
    let store = open(&server);
    server.treat(|_| Treatment::Silence);
    let (checked, took) = timed(store.check()).await;
    assert_eq!(
        unavailable(&checked.unwrap_err()),
        "the store is unavailable: no answer within 1.5 seconds"
    );
    assert!(took < Duration::from_secs(2), "{took:?}");
}

/// The ledger of the service: object keys, and whether they are condemned.
#[derive(Default)]
struct Uploads(Mutex<BTreeMap<ObjectKey, bool>>);

#[async_trait]
impl UploadLedger for Uploads {
    async fn record(&self, keys: &[ObjectKey], _: OffsetDateTime) -> Result<(), StoreError> {
        self.0.lock().unwrap().extend(keys.iter().map(|key| (key.clone(), false)));
        Ok(())
    }

    async fn condemn(&self, keys: &[ObjectKey]) -> Result<Vec<ObjectKey>, StoreError> {
        let mut uploads = self.0.lock().unwrap();
        let condemn = |key: &&ObjectKey| uploads.get_mut(key).map(|it| *it = true).is_some();
        Ok(keys.iter().filter(condemn).cloned().collect())
    }

    async fn condemn_recorded_before(
        &self,
        _: OffsetDateTime,
        _: usize,
    ) -> Result<Vec<ObjectKey>, StoreError> {
        let keys: Vec<_> = self.0.lock().unwrap().keys().cloned().collect();
        self.condemn(&keys).await
    }

    async fn forget(&self, keys: &[ObjectKey]) -> Result<(), StoreError> {
        self.0.lock().unwrap().retain(|key, condemned| !*condemned || !keys.contains(key));
        Ok(())
    }
}

struct Service {
    create_order: CreateOrder,
    sweep: SweepUploads,
    clock: Arc<ManualClock>,
    files: Files,
}

impl Service {
    /// Returns a service that creates one order.
    fn on(server: &S3Server) -> Self {
        let (uploads, clock) = (Arc::new(Uploads::default()), Arc::new(ManualClock::default()));
        let mut orders = MockOrderRepo::new();
        orders.expect_create().times(1).returning(|_, _| Ok(OrderId(1)));
        let blobs: Arc<ObjectBlobStore> = Arc::new(open(server));
        let intake = Intake {
            orders: Arc::new(orders),
            reader: Arc::new(MockOrderReader::new()),
            uploads: uploads.clone(),
            idempotency: Arc::new(MockIdempotencyLedger::new()),
            blobs: blobs.clone(),
            scan: None,
            clock: clock.clone(),
            entropy: Arc::new(CountingEntropy::default()),
            idempotency_retention: SweepUploads::ABANDONED_AFTER,
        };
        let create_order = CreateOrder { intake, window: DuplicateWindow::default() };
        let sweep = SweepUploads { uploads, blobs, clock: clock.clone() };
        Self { create_order, sweep, clock, files: Files::new() }
    }

    async fn create(&self, documents: usize) -> Result<(), OrderError> {
        let received = |_| ReceivedDocument {
            name_as_sent: "deed.pdf".to_owned(),
            file: self.files.make(100_000).1,
            content: Content::Format(DocumentFormat::Pdf),
        };
        let request = serde_json::from_value(samples::minimal_request()).unwrap();
        let key = NewApiKey { signing_service: None, ..samples::api_key(self.clock.now()) };
        let key = ApiKey { id: ApiKeyId(1), key, revoked_at: None, last_used_at: None };
        self.create_order
            .create_with_documents(&key, request, (0..documents).map(received).collect(), None)
            .await
            .map(drop)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn order_with_documents_fails_fast_and_leaves_nothing() {
    for documents in [1, 20] {
        let server = S3Server::start();
        let service = Service::on(&server);
        server.stop();
        let (stored, took) = timed(Box::pin(service.create(documents))).await;
        assert!(matches!(stored, Err(OrderError::Unavailable(_))), "{stored:?}");
        assert!(took < ERROR_TIMEOUT, "{documents} documents took {took:?}");

        server.start_again();
        service.clock.advance(SweepUploads::ABANDONED_AFTER * 2);
        assert_eq!(service.sweep.step().await.result.unwrap(), documents);
        Box::pin(service.create(documents)).await.unwrap();
        assert_eq!(server.objects().len(), documents);
    }
}
