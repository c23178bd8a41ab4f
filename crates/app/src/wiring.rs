//! Use cases on the adapters of the settings.

use std::sync::{Arc, OnceLock, atomic::AtomicBool};

use actix_web::web;
use adapter_http::{
    ANSWERS, Admission, Api, ApiMetrics, Audited, Closing, Connections, DOWNLOADS, Dependencies,
    DetachedTasks, InvitationMails, JSON_BODIES, Proxies, RateLimits, Replays, Shares, Site, Spool,
};
use adapter_webauthn::WebAuthn;
use anyhow::Result;
use domain::{
    access::RunId,
    ports::{BlobStore, Clock as _, DatabaseTime, IdentityProvider, Notifier, WebhookSender},
    use_cases::{
        accesses::recorder::AccessRecorder,
        add_documents::AddDocuments,
        add_note::AddNote,
        change_order::ChangeOrder,
        create_order::CreateOrder,
        intake::Intake,
        keys::{manage_keys::ManageKeys, manage_own_keys::ManageOwnKeys, revoke_key::RevokeKey},
        notaries::ListNotaries,
        note_downloads::Downloads,
        people::{
            mail_invitation::MailInvitation, name_doers::NameDoers, sessions::Sessions,
            sign_in::SignIn,
        },
        read_order::ReadOrder,
        rejected::count_rejected::CountRejected,
        scan_documents::ScanDocuments,
        services::{KnownServices, ListServices},
        upkeep::watch_clock::WatchedClock,
        webhooks::{manage_webhooks::ManageWebhooks, reencrypt_secrets::count_secrets},
        withdraw_document::WithdrawDocument,
    },
};
use operator::{
    Machine,
    adapters::{DATA_DIR, Storage, open_blobs},
    secrets_key::ADVICE,
    settings::{RequireKnownServices, Settings, checked},
};
use prometheus::Registry;
use telemetry::{
    ObservedScanner, gauges, logging,
    traced_ports::{TracedNotifier, TracedOrders, TracedWebhooks},
};
use tokio::runtime::Handle;

use crate::{
    dependencies::{open_notifier, open_scanner},
    messages::Messages,
};

/// The parts of the API and of the workers.
pub(crate) struct Parts {
    pub(crate) settings: Settings,
    /// Its clock is the watched one.
    pub(crate) machine: Machine,
    pub(crate) clock: Arc<WatchedClock>,
    pub(crate) database_time: Arc<dyn DatabaseTime>,
    pub(crate) storage: Storage,
    pub(crate) keys: ManageKeys,
    pub(crate) webhooks: ManageWebhooks,
    pub(crate) blobs: Arc<dyn BlobStore>,
    pub(crate) scan: Option<ScanDocuments>,
    pub(crate) notifier: Arc<dyn Notifier>,
    pub(crate) mail_is_available: Arc<AtomicBool>,
    pub(crate) messages: Messages,
    pub(crate) rates: Arc<RateLimits>,
    /// Downloads that are not stored yet.
    pub(crate) downloads: Downloads,
    /// Accesses that are not stored yet.
    pub(crate) accesses: Arc<AccessRecorder>,
    /// Sessions of browsers.
    pub(crate) sessions: Sessions,
    /// Logins of companies.
    pub(crate) providers: Vec<Arc<dyn IdentityProvider>>,
    /// Counts of rejected requests.
    pub(crate) rejected: CountRejected,
}

impl Parts {
    /// Opens the document store, the malware scanner and the mail relay.
    pub(crate) async fn open(
        settings: &Settings,
        machine: &Machine,
        mut storage: Storage,
        (sender, providers): (Arc<dyn WebhookSender>, Vec<Arc<dyn IdentityProvider>>),
        registry: &Registry,
    ) -> Result<Self> {
        let database_time = machine.database_time.clone().unwrap_or_else(|| storage.time.clone());
        let clock = Arc::new(WatchedClock::start(machine.clock.clone(), &*database_time).await?);
        let machine = &Machine { clock: clock.clone(), ..machine.clone() };
        let ended = storage.queue.end_dead_leases(clock.now()).await?;
        if ended > 0 {
            tracing::info!(
                ended,
                "deliveries that the process before had in progress are attempted again"
            );
        }
        let messages = Messages::begin(settings, &storage).await?;
        let blobs = open_blobs(settings).await?;
        let scan = match open_scanner(settings).await? {
            Some(scanner) => Some(ScanDocuments {
                scanner: Arc::new(ObservedScanner::register(scanner, registry)?),
                required: settings.scan_required,
            }),
            None => None,
        };
        let (mut notifier, mail_is_available) = open_notifier(settings).await?;
        let mut webhooks = storage.manage_webhooks(settings, machine, sender)?;
        let key = webhooks.secrets.as_deref();
        let now = machine.clock.now();
        let unreadable = count_secrets(&*webhooks.endpoints, key, now).await?.unreadable;
        if unreadable > 0 {
            tracing::error!(
                endpoints = unreadable,
                "webhooks of these endpoints wait: no key decrypts their secrets. {ADVICE}"
            );
        } else if webhooks.secrets.is_none() {
            tracing::warn!(
                "no webhook can be created or sent: set --secrets-key (NOTARY_ORDERS_SECRETS_KEY) \
                 to the output of `openssl rand -base64 32`, the same for all instances"
            );
        }
        register_gauges(settings, registry, &storage)?;
        if let Some(traces) = &machine.traces {
            traces.register(registry)?;
            storage.orders = Arc::new(TracedOrders(storage.orders));
            notifier = Arc::new(TracedNotifier(notifier));
            webhooks.sender = Arc::new(TracedWebhooks(webhooks.sender));
        }
        let (orders, with_documents) = (settings.rate(), settings.documents_rate());
        let run = RunId::random(&*machine.entropy);
        let rejected = CountRejected {
            log: storage.rejected.clone(),
            clock: machine.clock.clone(),
            run,
            counts: Arc::default(),
        };
        Ok(Self {
            settings: settings.clone(),
            machine: machine.clone(),
            clock,
            database_time,
            keys: storage.manage_keys(machine),
            sessions: storage.sessions(settings, machine),
            providers,
            storage,
            webhooks,
            blobs,
            scan,
            notifier,
            mail_is_available: Arc::new(AtomicBool::new(mail_is_available)),
            messages,
            rates: Arc::new(RateLimits::new(orders, with_documents, settings.reads_rate())),
            downloads: Downloads::default(),
            accesses: Arc::new(AccessRecorder::new(run, machine.clock.clone())),
            rejected,
        })
    }

    /// Returns what the operators' endpoints report.
    pub(crate) fn dependencies(&self) -> Dependencies {
        Dependencies {
            orders: self.storage.orders.clone(),
            blobs: self.blobs.clone(),
            scan: self.scan.clone(),
            queue: self.storage.queue.clone(),
            webhooks: self.webhooks.deliveries.clone(),
            mail_is_available: self.mail_is_available.clone(),
            messages_leave: self.messages.may_leave.clone(),
        }
    }

    /// Returns the state of the API.
    pub(crate) fn api(&self, registry: &Registry) -> Result<web::Data<Api>> {
        let Self { settings, storage, blobs, .. } = self;
        let Machine { clock, entropy, traces, .. } = self.machine.clone();
        let spool = Spool::open(&settings.in_data_dir("spool"), settings.spool_mb * 1024 * 1024);
        let spool = checked(spool, format!("{DATA_DIR}: spool"))?;
        let intake = Intake {
            orders: storage.orders.clone(),
            reader: storage.reader.clone(),
            uploads: storage.uploads.clone(),
            idempotency: storage.idempotency.clone(),
            blobs: blobs.clone(),
            scan: self.scan.clone(),
            clock: clock.clone(),
            entropy: entropy.clone(),
            idempotency_retention: settings.idempotency_retention(),
        };
        let proxies = &settings.trusted_proxies;
        let api = web::Data::new(Api {
            add_documents: Audited::new(AddDocuments { intake: intake.clone() }),
            webhooks: self.webhooks.clone(),
            sign_in: self.sign_in(),
            people: storage.manage_people(self.sessions.clone(), &self.machine, &self.providers),
            own_keys: ManageOwnKeys {
                keys: RevokeKey { keys: self.keys.clone(), endpoints: storage.webhooks.clone() },
                sessions: self.sessions.clone(),
            },
            invitation_mails: self.invitation_mails(),
            withdraw_document: Audited::new(WithdrawDocument { intake: intake.clone() }),
            read_order: Audited::new(ReadOrder {
                orders: storage.orders.clone(),
                reader: storage.reader.clone(),
                feed: storage.feed.clone(),
                accesses: storage.accesses.clone(),
                blobs: blobs.clone(),
                downloads: self.downloads.clone(),
                clock: clock.clone(),
            }),
            create_order: CreateOrder {
                intake,
                window: settings.duplicate_window(),
                known_services: known_services(settings, storage),
            },
            add_note: Audited::new(AddNote {
                orders: storage.orders.clone(),
                reader: storage.reader.clone(),
                clock: clock.clone(),
                idempotency_retention: settings.idempotency_retention(),
            }),
            name_doers: NameDoers { people: storage.people.clone() },
            rejected: self.rejected.clone(),
            list_notaries: ListNotaries { reader: storage.reader.clone(), clock: clock.clone() },
            list_services: ListServices { services: storage.services.clone() },
            change_order: Audited::new(ChangeOrder {
                orders: storage.orders.clone(),
                reader: storage.reader.clone(),
                clock: clock.clone(),
            }),
            admission: Admission {
                keys: self.keys.clone(),
                sessions: self.sessions.clone(),
                console_keys: settings.console_keys,
                site: Site {
                    public_url: settings.public_address(),
                    base_path: settings.base_path.clone(),
                    is_tls: settings.tls_cert.is_some(),
                },
                rates: self.rates.clone(),
                proxies: Proxies {
                    trusted: proxies.clone(),
                    header: settings.client_address_header.clone(),
                },
                recorder: self.accesses.clone(),
            },
            limits: settings.document_limits(),
            signed_limits: settings.signed_document_limits(),
            spool,
            metrics: ApiMetrics::register(registry)?,
            clock: clock.clone(),
            entropy,
            base_path: settings.base_path.clone(),
            openapi: OnceLock::new(),
            has_console: settings.console,
            traces: traces.map(|traces| traces as _),
            detached: DetachedTasks::new(Handle::current()),
            replays: Replays::default(),
            closing: Closing::default(),
            connections: Connections::new(settings.connections_per_address, proxies.clone()),
            concurrency: Shares::new(settings.max_orders_in_flight, settings.max_orders_in_flight),
            json_bodies: Shares::of_bodies(JSON_BODIES),
            uploads: Shares::of_bodies(settings.max_uploads_in_flight),
            answers: Shares::of_bodies(ANSWERS),
            downloads: Shares::of_bodies(DOWNLOADS),
            walks: Shares::of_walks(storage.observed.walks()),
        });
        adapter_http::register_gauges(registry, &api)?;
        Ok(api)
    }
}

impl Parts {
    fn sign_in(&self) -> SignIn {
        SignIn {
            people: self.storage.people.clone(),
            sessions: self.storage.sessions.clone(),
            passkeys: Arc::new(WebAuthn::new()),
            providers: self.providers.clone(),
            clock: self.machine.clock.clone(),
            entropy: self.machine.entropy.clone(),
            terms: self.settings.session_terms(),
        }
    }

    /// Returns what mails the links of invitations: only to a relay, and only if users know the address of the service.
    fn invitation_mails(&self) -> Option<InvitationMails> {
        let Self { settings, storage, notifier, messages, .. } = self;
        let is_possible = settings.public_url.is_some() && settings.mail_drop().is_none();
        let mail = || MailInvitation {
            keys: storage.keys.clone(),
            services: storage.services.clone(),
            notifier: notifier.clone(),
        };
        let may_leave = messages.may_leave.clone();
        is_possible.then(|| InvitationMails { mail: mail(), may_leave })
    }
}

/// Returns which signing services orders may name; `None` if any.
fn known_services(settings: &Settings, storage: &Storage) -> Option<Arc<KnownServices>> {
    let takes_any_without_records = match settings.require_known_services {
        RequireKnownServices::Never => return None,
        RequireKnownServices::Auto => true,
        RequireKnownServices::Always => false,
    };
    Some(Arc::new(KnownServices::new(storage.services.clone(), takes_any_without_records)))
}

fn register_gauges(settings: &Settings, registry: &Registry, storage: &Storage) -> Result<()> {
    let (connections, waiting) = (storage.observed.clone(), storage.observed.clone());
    let sizes = gauges::register_database(
        registry,
        move || connections.open_connections(),
        move || waiting.waiting_calls(),
    )?;
    // A batch is far smaller than 2^32.
    let observe = move |calls| sizes.observe(f64::from(u32::try_from(calls).unwrap_or(u32::MAX)));
    storage.observed.observe_batches(Arc::new(observe));
    gauges::register_disk(registry, &settings.data_dir)?;
    Ok(logging::register(registry)?)
}
