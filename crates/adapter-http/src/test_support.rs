//! Tests handlers on mocks of the ports, without a database.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, OnceLock},
};

use actix_web::{
    App,
    body::{BoxBody, to_bytes},
    dev::{Service as _, ServiceResponse},
    http::{
        Method, StatusCode,
        header::{self, HeaderMap},
    },
    middleware::from_fn,
    test::{TestRequest, init_service},
    web,
};
use bytes::Bytes;
use domain::{
    access::{Access, DONE, RunId},
    api_key::{ApiKey, ApiKeyId, ClientId, NewApiKey, Owner, PresentedKey, Rate, Scope},
    document::DocumentLimits,
    duplicate_window::DuplicateWindow,
    idempotency::DEFAULT_RETENTION,
    order::{Actor, ChangeKind, OrderId},
    person::{
        Caller, Doer, Holder, NewPerson, NewSession, Person, PersonId, PersonName, Role, Session,
        SessionId, SessionTerms, TokenHash, Way,
    },
    ports::{
        IdentityProvider, LastChange, MockAccessLog, MockApiKeyRepo, MockBlobStore, MockChangeFeed,
        MockClock, MockEntropy, MockIdempotencyLedger, MockOrderReader, MockOrderRepo,
        MockPasskeys, MockPersonRepo, MockRejectedLog, MockSecretBox, MockServiceRepo,
        MockSessionRepo, MockUploadLedger, MockWebhookQueue, MockWebhookRepo, MockWebhookSender,
        OrderNews, PersonRepo, SessionRepo,
    },
    use_cases::{
        accesses::{
            keep_accesses::KeepAccesses,
            recorder::{AccessRecorder, BegunAccess},
        },
        add_documents::AddDocuments,
        add_note::AddNote,
        change_order::ChangeOrder,
        create_order::CreateOrder,
        intake::Intake,
        keys::{manage_keys::ManageKeys, manage_own_keys::ManageOwnKeys, revoke_key::RevokeKey},
        notaries::ListNotaries,
        note_downloads::Downloads,
        people::{
            manage_people::ManagePeople, name_doers::NameDoers, sessions::Sessions, sign_in::SignIn,
        },
        read_order::ReadOrder,
        rejected::count_rejected::CountRejected,
        scan_documents::ScanDocuments,
        services::ListServices,
        store_waiting::WaitingFacts as _,
        webhooks::manage_webhooks::ManageWebhooks,
        withdraw_document::WithdrawDocument,
    },
};
use futures_util::FutureExt as _;
use ipnet::IpNet;
use prometheus::{Registry, TextEncoder};
use serde_json::Value;
use tempfile::TempDir;
use time::{OffsetDateTime, macros::datetime};

use crate::{
    ApiMetrics, Audited, Closing, Connections, DetachedTasks, InvitationMails, Proxies, RateLimits,
    Replays, Shares, Site, Spool, admission::authentication::Admission, observe::observe,
    openapi::tests::assert_described, request::trace::TraceRequests, respond::problem::Problem,
    routes, state::Api,
};

/// The time of all tests.
pub(crate) const NOW: OffsetDateTime = datetime!(2026-11-21 12:00 UTC);

/// Mocks of the ports. Calls without an expectation fail the test.
pub(crate) struct Ports {
    pub(crate) orders: MockOrderRepo,
    pub(crate) reader: MockOrderReader,
    pub(crate) feed: MockChangeFeed,
    pub(crate) accesses: MockAccessLog,
    pub(crate) rejected: MockRejectedLog,
    pub(crate) uploads: MockUploadLedger,
    pub(crate) idempotency: MockIdempotencyLedger,
    pub(crate) blobs: MockBlobStore,
    /// The malware scanner; none by default.
    pub(crate) scan: Option<ScanDocuments>,
    pub(crate) keys: MockApiKeyRepo,
    pub(crate) people: MockPersonRepo,
    pub(crate) sessions: MockSessionRepo,
    pub(crate) passkeys: MockPasskeys,
    pub(crate) providers: Vec<Arc<dyn IdentityProvider>>,
    pub(crate) invitation_mails: Option<InvitationMails>,
    /// Whether pages may take keys.
    pub(crate) console_keys: bool,
    pub(crate) services: MockServiceRepo,
    pub(crate) endpoints: MockWebhookRepo,
    pub(crate) deliveries: MockWebhookQueue,
    pub(crate) sender: MockWebhookSender,
    pub(crate) secrets: MockSecretBox,
    /// Maximum number of concurrent JSON orders.
    pub(crate) concurrency: usize,
    /// Maximum number of JSON bodies, of forms, and of answers of each kind at the same time.
    pub(crate) bodies: usize,
    /// Rate limit of keys and of failed authentications; none by default.
    pub(crate) rate: Rate,
    pub(crate) trusted_proxies: Vec<IpNet>,
    pub(crate) traces: Option<Arc<dyn TraceRequests>>,
}

/// Returns people and keys without names.
fn nameless() -> MockPersonRepo {
    let mut people = MockPersonRepo::new();
    people.expect_names_of().returning(|_| Ok(BTreeMap::new()));
    people
}

impl Ports {
    /// Creates mocks that know one API key, which [`TestApi::post`] sends.
    pub(crate) fn new() -> Self {
        Self::with_key(|_| {})
    }

    /// Creates mocks that know the API key with this change.
    pub(crate) fn with_key(change: fn(&mut NewApiKey)) -> Self {
        let mut ports = Self::without_key();
        ports.keys.expect_find().returning(move |_| {
            let mut key = api_key();
            change(&mut key.key);
            Ok(Some(key))
        });
        ports
    }

    /// Creates mocks that know the session of a person, an admin of [`OWNER`] who has just signed in, with this
    /// change. [`TestApi::by_page`] sends its cookie.
    pub(crate) fn with_person(change: fn(&mut Person, &mut Session)) -> Self {
        let mut ports = Self::without_key();
        ports.sessions.expect_find().returning(move |token, _| {
            let (mut person, mut session) = (person(), session(token));
            change(&mut person, &mut session);
            Ok(Some(Caller::of_session(session, Holder::Person(Arc::new(person)))))
        });
        ports
    }

    /// Creates mocks without expectations.
    pub(crate) fn without_key() -> Self {
        Self {
            orders: MockOrderRepo::new(),
            reader: MockOrderReader::new(),
            feed: MockChangeFeed::new(),
            accesses: MockAccessLog::new(),
            rejected: MockRejectedLog::new(),
            uploads: MockUploadLedger::new(),
            idempotency: MockIdempotencyLedger::new(),
            blobs: MockBlobStore::new(),
            scan: None,
            keys: MockApiKeyRepo::new(),
            people: nameless(),
            sessions: MockSessionRepo::new(),
            passkeys: MockPasskeys::new(),
            providers: Vec::new(),
            invitation_mails: None,
            console_keys: true,
            services: MockServiceRepo::new(),
            endpoints: MockWebhookRepo::new(),
            deliveries: MockWebhookQueue::new(),
            sender: MockWebhookSender::new(),
            secrets: MockSecretBox::new(),
            concurrency: 1,
            bodies: 1,
            rate: Rate { per_second: 0, burst: 0 },
            trusted_proxies: Vec::new(),
            traces: None,
        }
    }

    /// Builds the API on the mocks.
    #[expect(clippy::too_many_lines, reason = "one structure has all ports")]
    pub(crate) fn api(self) -> TestApi {
        let folder = tempfile::tempdir().unwrap();
        let mut clock = MockClock::new();
        clock.expect_now().return_const(NOW);
        let (clock, entropy) = (Arc::new(clock), Arc::new(entropy()));
        let (registry, downloads) = (Registry::new(), Downloads::default());
        let intake = Intake {
            orders: Arc::new(self.orders),
            reader: Arc::new(self.reader),
            uploads: Arc::new(self.uploads),
            idempotency: Arc::new(self.idempotency),
            blobs: Arc::new(self.blobs),
            scan: self.scan,
            clock: clock.clone(),
            entropy: entropy.clone(),
            idempotency_retention: DEFAULT_RETENTION,
        };
        let webhooks = ManageWebhooks {
            endpoints: Arc::new(self.endpoints),
            deliveries: Arc::new(self.deliveries),
            sender: Arc::new(self.sender),
            secrets: Some(Arc::new(self.secrets)),
            clock: clock.clone(),
            entropy: entropy.clone(),
        };
        let people: Arc<dyn PersonRepo> = Arc::new(self.people);
        let session_repo: Arc<dyn SessionRepo> = Arc::new(self.sessions);
        let sessions = Sessions {
            sessions: session_repo.clone(),
            clock: clock.clone(),
            terms: SessionTerms::default(),
            uses: Arc::default(),
            cache: Arc::default(),
        };
        let keys = ManageKeys {
            keys: Arc::new(self.keys),
            clock: clock.clone(),
            entropy: entropy.clone(),
            uses: Arc::default(),
            cache: Arc::default(),
        };
        let api = Api {
            sign_in: SignIn {
                people: people.clone(),
                sessions: session_repo,
                passkeys: Arc::new(self.passkeys),
                providers: self.providers,
                clock: clock.clone(),
                entropy: entropy.clone(),
                terms: sessions.terms,
            },
            people: ManagePeople {
                people: people.clone(),
                sessions: sessions.clone(),
                clock: clock.clone(),
                entropy: entropy.clone(),
                issuers: Arc::default(),
            },
            own_keys: ManageOwnKeys {
                keys: RevokeKey { keys: keys.clone(), endpoints: webhooks.endpoints.clone() },
                sessions: sessions.clone(),
            },
            invitation_mails: self.invitation_mails,
            webhooks,
            create_order: CreateOrder {
                intake: intake.clone(),
                window: DuplicateWindow::default(),
                known_services: None,
            },
            add_note: Audited::new(AddNote {
                orders: intake.orders.clone(),
                reader: intake.reader.clone(),
                clock: clock.clone(),
                idempotency_retention: intake.idempotency_retention,
            }),
            list_notaries: ListNotaries { reader: intake.reader.clone(), clock: clock.clone() },
            list_services: ListServices { services: Arc::new(self.services) },
            name_doers: NameDoers { people },
            rejected: CountRejected {
                log: Arc::new(self.rejected),
                clock: clock.clone(),
                run: RunId(1),
                counts: Arc::default(),
            },
            change_order: Audited::new(ChangeOrder {
                orders: intake.orders.clone(),
                reader: intake.reader.clone(),
                clock: clock.clone(),
            }),
            read_order: Audited::new(ReadOrder {
                orders: intake.orders.clone(),
                reader: intake.reader.clone(),
                feed: Arc::new(self.feed),
                accesses: Arc::new(self.accesses),
                blobs: intake.blobs.clone(),
                downloads: downloads.clone(),
                clock: clock.clone(),
            }),
            withdraw_document: Audited::new(WithdrawDocument { intake: intake.clone() }),
            add_documents: Audited::new(AddDocuments { intake }),
            admission: Admission {
                keys,
                sessions,
                console_keys: self.console_keys,
                site: Site::default(),
                rates: Arc::new(RateLimits::new(self.rate, self.rate, self.rate)),
                proxies: Proxies { trusted: self.trusted_proxies, header: header::X_FORWARDED_FOR },
                recorder: Arc::new(AccessRecorder::new(RunId(1), clock.clone())),
            },
            limits: DocumentLimits::default(),
            signed_limits: DocumentLimits::default(),
            spool: Spool::open(folder.path(), u64::MAX).unwrap(),
            metrics: ApiMetrics::register(&registry).unwrap(),
            clock,
            entropy,
            base_path: String::new(),
            openapi: OnceLock::new(),
            has_console: true,
            traces: self.traces,
            detached: DetachedTasks::new(tokio::runtime::Handle::current()),
            replays: Replays::default(),
            closing: Closing::default(),
            connections: Connections::new(usize::MAX, Vec::new()),
            concurrency: Shares::new(self.concurrency, self.concurrency),
            json_bodies: Shares::of_bodies(self.bodies),
            uploads: Shares::of_bodies(self.bodies),
            answers: Shares::of_bodies(self.bodies),
            downloads: Shares::of_bodies(self.bodies),
            walks: Shares::of_walks(self.bodies),
        };
        TestApi { api: web::Data::new(api), downloads, registry, _folder: folder }
    }
}

/// The API on mocks.
pub(crate) struct TestApi {
    pub(crate) api: web::Data<Api>,
    pub(crate) downloads: Downloads,
    registry: Registry,
    _folder: TempDir,
}

impl TestApi {
    /// Builds a request with the API key of the tests.
    pub(crate) fn post(path: &str) -> TestRequest {
        let authorization = format!("Bearer {}", presented_key().expose());
        TestRequest::post().uri(path).insert_header(("authorization", authorization))
    }

    /// Builds a read with the API key of the tests.
    pub(crate) fn get(path: &str) -> TestRequest {
        Self::post(path).method(Method::GET)
    }

    /// Builds a request of the own page, with the session of the tests.
    pub(crate) fn by_page(method: Method, path: &str) -> TestRequest {
        TestRequest::default()
            .method(method)
            .uri(path)
            .insert_header(("host", "localhost:8080"))
            .insert_header(("cookie", format!("__Host-notary_session={SESSION}")))
            .insert_header(("sec-fetch-site", "same-origin"))
    }

    /// Sends a request through the middleware and the routes of the service. Returns the answer before its body
    /// is read.
    pub(crate) async fn begin(&self, request: TestRequest) -> ServiceResponse<BoxBody> {
        let api = self.api.clone();
        let observe = from_fn(move |request, next| observe(api.clone(), request, next));
        let app = App::new()
            .app_data(self.api.clone())
            .wrap(observe)
            .configure(|config| routes::configure(config, "", true));
        init_service(app).await.call(request.to_request()).await.unwrap()
    }

    /// Sends a request like [`Self::begin`]. The OpenAPI document must describe the answer.
    pub(crate) async fn send(&self, request: TestRequest) -> TestAnswer {
        let response = self.begin(request).await;
        let (method, path) =
            (response.request().method().clone(), response.request().path().to_owned());
        let (status, headers) = (response.status(), response.headers().clone());
        let bytes = to_bytes(response.into_body()).await.ok();
        let body = bytes.as_ref().and_then(|bytes| serde_json::from_slice(bytes).ok());
        let body = body.unwrap_or_default();
        assert_described(&method, &path, (status.as_u16(), &headers, &body));
        TestAnswer { status, headers, body, bytes }
    }
}

impl TestApi {
    /// Returns the accesses that requests have left, as the worker stores them.
    pub(crate) async fn accesses(&self) -> Vec<Access> {
        let stored = Arc::new(Mutex::new(Vec::new()));
        let (mut log, seen) = (MockAccessLog::new(), Arc::clone(&stored));
        log.expect_store().returning(move |accesses| {
            seen.lock().unwrap().extend_from_slice(accesses);
            Ok(())
        });
        let recorder = self.api.admission.recorder.clone();
        KeepAccesses { log: Arc::new(log), recorder }.store_batch().await.unwrap();
        std::mem::take(&mut *stored.lock().unwrap())
    }

    /// Leaves so many accesses that no request may add one.
    pub(crate) fn fill_recorder(&self) {
        let recorder = &self.api.admission.recorder;
        while !recorder.is_full() {
            BegunAccess::new(
                recorder.clone(),
                contract_tests::samples::access(1, OrderId(1)).facts,
            )
            .end(DONE.to_owned());
        }
    }

    /// Returns whether the metrics have this line.
    pub(crate) fn has_metric(&self, line: &str) -> bool {
        let text = TextEncoder::new().encode_to_string(&self.registry.gather()).unwrap();
        text.lines().any(|found| found == line)
    }
}

/// An answer with a JSON body.
#[derive(Debug)]
pub(crate) struct TestAnswer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Value,
    /// The bytes of the body; `None` if it failed.
    pub(crate) bytes: Option<Bytes>,
}

impl TestAnswer {
    /// Asserts that the answer is a problem, and returns its body.
    #[track_caller]
    pub(crate) fn problem(&self, status: u16, code: &str) -> &Value {
        assert_eq!((self.status.as_u16(), self.body["code"].as_str()), (status, Some(code)));
        assert_eq!(self.header("content-type"), "application/problem+json");
        &self.body
    }

    /// Asserts that fields or parameters are invalid. Returns the pointer or name of each, and the
    /// code.
    #[track_caller]
    pub(crate) fn errors(&self) -> Vec<(&str, &str)> {
        let errors = self.problem(400, "validation_failed")["errors"].as_array().unwrap();
        errors
            .iter()
            .map(|error| {
                let place = error["pointer"].as_str().or(error["parameter"].as_str());
                (place.unwrap(), error["code"].as_str().unwrap())
            })
            .collect()
    }

    #[track_caller]
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).unwrap().to_str().unwrap()
    }
}

/// Builds a part of a form with the boundary `b`.
pub(crate) fn part(disposition: &str, content: &[u8]) -> Vec<u8> {
    let head = format!("--b\r\nContent-Disposition: form-data; {disposition}\r\n\r\n");
    [head.as_bytes(), content, b"\r\n"].concat()
}

/// Builds a request with a form of these parts.
pub(crate) fn form(path: &str, parts: &[u8]) -> TestRequest {
    TestApi::post(path)
        .insert_header(("content-type", "multipart/form-data; boundary=b"))
        .set_payload([parts, b"--b--\r\n"].concat())
}

/// Returns the body of a problem.
pub(crate) fn body_of(problem: &Problem) -> Value {
    let response = problem.response(&"5a1c0e9d7b3f4a2286c0d1e5".into());
    let body = to_bytes(response.into_body()).now_or_never().unwrap().unwrap();
    serde_json::from_slice(&body).unwrap()
}

fn entropy() -> MockEntropy {
    let mut entropy = MockEntropy::new();
    entropy.expect_fill().returning(|bytes| bytes.fill(7));
    entropy
}

/// Returns the news of an order that nothing has happened to.
pub(crate) fn no_news() -> OrderNews {
    let kind = ChangeKind::Created.as_str().to_owned();
    OrderNews {
        change: LastChange { at: NOW, kind, actor: Actor::Client, changed: None },
        note: None,
    }
}

pub(crate) fn presented_key() -> PresentedKey {
    PresentedKey::random(false, &entropy())
}

/// The token of the session of the tests.
pub(crate) const SESSION: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYX";

/// Returns the person of the tests.
pub(crate) fn person() -> Person {
    let name = PersonName::from_stored("Ann Roe".to_owned());
    let invited = contract_tests::samples::new_person(Role::Admin);
    Person {
        id: PersonId(3),
        person: NewPerson { party: OWNER.party, name, invited_at: NOW, ..invited },
        accepted_at: Some(NOW),
        disabled_at: None,
        erased_at: None,
        last_seen_at: None,
    }
}

/// Returns the session of the tests.
fn session(token: TokenHash) -> Session {
    let session = NewSession {
        token,
        doer: Doer::Person(PersonId(3)),
        way: Way::Passkey,
        is_test: false,
        signed_in_at: NOW,
        expires_at: NOW + time::Duration::hours(12),
    };
    Session { id: SessionId(7), session, last_used_at: NOW, ended_at: None }
}

/// The owner of what [`api_key`] creates and reads.
pub(crate) const OWNER: Owner = Owner::client(ClientId(1), false);

/// Returns the API key of the tests: unlimited, with every scope, and for every signing service.
pub(crate) fn api_key() -> ApiKey {
    let presented = presented_key();
    let key = NewApiKey {
        lookup: presented.lookup().to_owned(),
        hash: presented.hash(),
        signing_service: None,
        scopes: Scope::OF_CLIENTS.into_iter().collect(),
        is_test: false,
        rate: None,
        documents_rate: None,
        ..contract_tests::samples::api_key(NOW)
    };
    ApiKey { id: ApiKeyId(1), key, revoked_at: None, last_used_at: None }
}
