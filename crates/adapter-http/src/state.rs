//! The state that the handlers share.

use std::sync::{Arc, OnceLock};

use actix_web::web;
use bytes::Bytes;
use domain::{
    document::DocumentLimits,
    ports::{Clock, Entropy},
    use_cases::{
        add_documents::AddDocuments,
        add_note::AddNote,
        change_order::ChangeOrder,
        create_order::CreateOrder,
        keys::manage_own_keys::ManageOwnKeys,
        notaries::ListNotaries,
        people::{manage_people::ManagePeople, name_doers::NameDoers, sign_in::SignIn},
        read_order::ReadOrder,
        rejected::count_rejected::CountRejected,
        services::ListServices,
        webhooks::manage_webhooks::ManageWebhooks,
        withdraw_document::WithdrawDocument,
    },
};

use crate::{
    admission::{audit::Audited, authentication::Admission, limits::Shares},
    closing::Closing,
    detached_tasks::DetachedTasks,
    form::Spool,
    guard::Connections,
    invitation_mails::InvitationMails,
    replays::Replays,
    request::{metrics::ApiMetrics, trace::TraceRequests},
};

/// The state of a handler.
pub(crate) type State = web::Data<Api>;

/// The use cases, limits and settings of the API.
pub struct Api {
    /// Creates orders.
    pub create_order: CreateOrder,
    /// Adds notes to orders.
    pub add_note: Audited<AddNote>,
    /// Changes and cancels orders.
    pub change_order: Audited<ChangeOrder>,
    /// Adds documents to orders.
    pub add_documents: Audited<AddDocuments>,
    /// Withdraws documents.
    pub withdraw_document: Audited<WithdrawDocument>,
    /// Reads orders and documents.
    pub read_order: Audited<ReadOrder>,
    /// Names the people and keys that did something.
    pub name_doers: NameDoers,
    /// Counts rejected requests about orders.
    pub rejected: CountRejected,
    /// Lists the notaries that a signing service knows.
    pub list_notaries: ListNotaries,
    /// Lists signing services.
    pub list_services: ListServices,
    /// Manages webhooks.
    pub webhooks: ManageWebhooks,
    /// Lets people sign in.
    pub sign_in: SignIn,
    /// Manages people.
    pub people: ManagePeople,
    /// Manages the keys of a side for its admins.
    pub own_keys: ManageOwnKeys,
    /// Mails the links of invitations; `None` without a relay, or if users know no address of the service.
    pub invitation_mails: Option<InvitationMails>,
    /// Decides which requests are carried out.
    pub admission: Admission,
    /// Limits for the documents of one request.
    pub limits: DocumentLimits,
    /// Limits for the signed documents of one request.
    pub signed_limits: DocumentLimits,
    /// Stores documents while they are uploaded.
    pub spool: Spool,
    /// Counters of the API.
    pub metrics: ApiMetrics,
    /// Tells what is late.
    pub clock: Arc<dyn Clock>,
    /// Randomness for request ids and idempotency claims.
    pub entropy: Arc<dyn Entropy>,
    /// Prefix of every path: empty, or a path with a leading and without a trailing slash.
    pub base_path: String,
    /// The OpenAPI document, made for the first client.
    pub openapi: OnceLock<Bytes>,
    /// Whether there is a console.
    pub has_console: bool,
    /// Traces requests, if traces are exported.
    pub traces: Option<Arc<dyn TraceRequests>>,
    /// Work that finishes even when its client disconnects.
    pub detached: DetachedTasks,
    /// Endpoints with a replay in progress, at most one each.
    pub replays: Replays,
    /// Whether the service stops.
    pub closing: Closing,
    /// Open connections.
    pub connections: Arc<Connections>,
    /// Limits how many JSON orders are created at the same time.
    pub concurrency: Shares,
    /// Limits how many JSON bodies are received at the same time.
    pub json_bodies: Shares,
    /// Limits how many forms are received and stored at the same time.
    pub uploads: Shares,
    /// Limits how many JSON answers with records, to reads and changes, are made and sent at the same time.
    pub answers: Shares,
    /// Limits how many documents and archives are sent at the same time.
    pub downloads: Shares,
    /// Limits how many reads walk through many orders at the same time: searches, filters and accesses. The
    /// database has others free for quick reads.
    pub walks: Shares,
}
