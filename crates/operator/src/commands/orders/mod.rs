//! The commands about orders. They show personal data on standard output, and none in the log.

use std::path::PathBuf;

use adapter_http::WholeOrder;
use anyhow::{Context as _, Result, anyhow, bail, ensure};
use clap::{Args, Subcommand};
use domain::{
    access::AccessKind,
    api_key::{ClientId, Owner},
    appointment::parse_date,
    document::DocumentKind,
    order::{
        Actor, FileNumber, Note, OrderChange, OrderCommand, OrderId, OrderStatus, Refusal,
        StoredOrder,
        change_request::{CancelRequest, ChangeRequest, NoteRequest, read_reason, read_status},
        search::{SearchedText, read_statuses},
    },
    ports::{
        Cursor, HistoryQuery, ListFilter, ListedOrder, MaybeErased, NoteQuery, OrderCommandRequest,
        OrderFilter, Page, StoreError, WriteError,
    },
    precondition::OrderPrecondition,
    request::Violation,
    use_cases::{
        accesses::recorder::BegunAccess,
        add_note::AddNote,
        change_order::{ChangeOrder, Changer},
        people::name_doers::{NameDoers, Viewer},
    },
};
use serde::Serialize;
use serde_json::{Value, json};
use time::{Date, OffsetDateTime, macros::datetime};

pub use self::erase::LeftObjects;
use crate::commands::{
    orders::{accesses::AccessFormat, erase::Erased, operator::Operator},
    output::{Column, Format, at, instant, mode, print, second},
};
use crate::settings::{
    WrongSetting,
    values::{listed, whole},
};

/// Maximum number of listed orders.
const MAX_LISTED: usize = 1_000;

/// Characters of a name in the table of orders.
const MAX_SHOWN_NAME: usize = 24;

/// The end of a hold without an end.
const WITHOUT_END: OffsetDateTime = datetime!(9999-12-31 23:59:59 UTC);

pub(super) mod accesses;
pub(super) mod erase;
mod export;
pub(super) mod operator;

#[derive(Debug, Subcommand)]
pub enum OrdersCommand {
    /// List the newest orders, without those that were erased
    List {
        #[command(flatten)]
        filter: Filter,
        /// Only orders older than this one
        #[arg(long, value_name = "ID", value_parser = whole::<i64>(1..=i64::MAX))]
        before: Option<i64>,
        #[command(flatten)]
        format: Format,
    },
    /// Print an order as JSON: its record, details and documents
    Show {
        /// Its identifier
        #[arg(value_parser = listed)]
        id: i64,
    },
    /// Write an order, its documents and its accesses into an empty folder
    Export {
        /// Its identifier
        #[arg(value_parser = listed)]
        id: i64,
        /// A folder that is empty or missing
        #[arg(long, value_name = "FOLDER")]
        to: PathBuf,
    },
    /// List the reads and changes of an order, also of an erased one
    Accesses {
        /// Its identifier
        #[arg(value_parser = listed)]
        id: i64,
        #[command(flatten)]
        format: AccessFormat,
    },
    /// Set the status, the notary or who the notary is
    #[command(alias = "change")]
    Update {
        /// Its identifier
        #[arg(value_parser = listed)]
        id: i64,
        #[command(flatten)]
        update: NewState,
    },
    /// Add a note to an order, for both sides
    Note {
        /// Its identifier
        #[arg(value_parser = listed)]
        id: i64,
        /// Its text, on one or several lines
        #[arg(value_parser = note)]
        text: NoteRequest,
    },
    /// Cancel an order
    Cancel {
        /// Its identifier
        #[arg(value_parser = listed)]
        id: i64,
        /// The reason, for the history and the mails
        #[arg(long, value_name = "TEXT", value_parser = cancellation)]
        reason: Option<CancelRequest>,
    },
    /// Keep an order and its documents from every erasure and withdrawal, as for litigation. A later hold
    /// replaces this one
    Hold {
        /// Its identifier
        #[arg(value_parser = listed)]
        id: i64,
        /// The last day of the hold (UTC) [default: until it is released]
        #[arg(long, value_name = "DATE", value_parser = date)]
        until: Option<Date>,
    },
    /// End the hold of an order
    Release {
        /// Its identifier
        #[arg(value_parser = listed)]
        id: i64,
    },
    /// Erase the personal data of orders for good: details, file number, documents, pending mails
    /// and the mails in the mail drop. Asks before. Orders on hold stay
    Erase {
        #[command(flatten)]
        which: Erased,
        /// Do not ask
        #[arg(long)]
        yes: bool,
    },
}

impl OrdersCommand {
    /// Returns the name of the command.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::List { .. } => "orders list",
            Self::Show { .. } => "orders show",
            Self::Export { .. } => "orders export",
            Self::Accesses { .. } => "orders accesses",
            Self::Update { .. } => "orders update",
            Self::Note { .. } => "orders note",
            Self::Cancel { .. } => "orders cancel",
            Self::Hold { .. } => "orders hold",
            Self::Release { .. } => "orders release",
            Self::Erase { .. } => "orders erase",
        }
    }
}

#[derive(Debug, Args)]
#[group(required = true, multiple = true)]
pub struct NewState {
    /// Its status, such as ASSIGNED
    #[arg(long, value_name = "STATUS", value_parser = status)]
    status: Option<OrderStatus>,
    /// Its notary, or none
    #[arg(long, value_name = "ID|none", value_parser = notary)]
    notary: Option<NotaryNumber>,
    /// Name of the notary, or `none` to remove it. Assigning another notary number removes it, too
    #[arg(long, value_name = "NAME|none")]
    notary_name: Option<String>,
    /// Phone of its notary
    #[arg(long, value_name = "PHONE", requires = "notary_name")]
    notary_phone: Option<String>,
    /// E-mail address of its notary
    #[arg(long, value_name = "EMAIL", requires = "notary_name")]
    notary_email: Option<String>,
}

impl NewState {
    /// Returns the change, by the rules of the API.
    fn request(self) -> Result<ChangeRequest> {
        let mut body = json!({});
        if let Some(name) = self.notary_name {
            let (phone, email) = (self.notary_phone, self.notary_email);
            let person = json!({ "name": name, "phone": phone, "email": email });
            body["notary"] = if name == "none" { Value::Null } else { person };
        }
        let body = serde_json::from_str(&body.to_string())?;
        let request = ChangeRequest::parse(body).map_err(|violations| {
            let described = |fault: &Violation| {
                let field = fault.pointer.rsplit('/').next().unwrap_or_default();
                format!("--notary-{field}: {}", fault.detail)
            };
            let described: Vec<_> = violations.iter().map(described).collect();
            WrongSetting(anyhow!(described.join("; ")))
        })?;
        let notary_id = self.notary.map(|NotaryNumber(number)| number);
        Ok(ChangeRequest { status: self.status, notary_id, ..request })
    }
}

/// The number of a notary, or none.
#[derive(Debug, Clone, Copy)]
pub struct NotaryNumber(Option<i64>);

#[derive(Debug, Args)]
pub struct Filter {
    /// Only orders with this file number
    #[arg(long, value_name = "N")]
    file_number: Option<String>,
    /// Only orders of this client, by its identifier in the list of keys
    #[arg(long, value_name = "ID", value_parser = whole::<i64>(1..=i64::MAX))]
    client: Option<i64>,
    /// Only orders with this e-mail address of a mail recipient, signer or contact
    #[arg(long, value_name = "A")]
    email: Option<String>,
    /// Only orders with one of these statuses, separated by commas
    #[arg(long, value_name = "STATUSES", value_parser = statuses)]
    status: Option<Statuses>,
    /// Only orders with an appointment on this date or later
    #[arg(long, value_name = "DATE", value_parser = date)]
    signing_date_from: Option<Date>,
    /// Only orders with an appointment on this date or earlier
    #[arg(long, value_name = "DATE", value_parser = date)]
    signing_date_to: Option<Date>,
    /// Only orders created or changed at this instant or later, such as 2026-12-01T08:00:00Z
    #[arg(long, value_name = "INSTANT", value_parser = instant)]
    updated_after: Option<OffsetDateTime>,
    /// Only orders with each of these words, in any order, in the file number, the number of the order, a name of
    /// a signer, spouse or notary, an address, a phone number or an e-mail address. Letter case, accents and
    /// punctuation do not matter
    #[arg(long, value_name = "TEXT", value_parser = searched)]
    search: Option<SearchedText>,
    /// Only orders on hold
    #[arg(long)]
    held: bool,
}

/// Statuses of orders.
#[derive(Debug, Clone)]
pub struct Statuses(Vec<OrderStatus>);

fn status(text: &str) -> Result<OrderStatus, String> {
    read_status(text).map_err(|(_, detail)| detail.into_owned())
}

fn statuses(text: &str) -> Result<Statuses, String> {
    read_statuses(text).map(Statuses).map_err(|(_, detail)| detail.into_owned())
}

fn date(text: &str) -> Result<Date, &'static str> {
    parse_date(text).ok_or("must be a date, such as 2026-12-01")
}

fn searched(text: &str) -> Result<SearchedText, String> {
    SearchedText::parse(text.to_owned()).map_err(|(_, detail)| detail.into_owned())
}

fn notary(text: &str) -> Result<NotaryNumber, &'static str> {
    if text == "none" {
        return Ok(NotaryNumber(None));
    }
    let number = text.parse().ok().filter(|number| *number > 0);
    number.map(|number| NotaryNumber(Some(number))).ok_or("must be a positive number or none")
}

fn note(text: &str) -> Result<NoteRequest, String> {
    NoteRequest::read(text).map_err(|(_, detail)| detail.into_owned())
}

fn cancellation(reason: &str) -> Result<CancelRequest, String> {
    let reason = read_reason(reason).map_err(|(_, detail)| detail.into_owned())?;
    Ok(CancelRequest { reason })
}

pub(super) async fn run(command: OrdersCommand, operator: &Operator) -> Result<()> {
    match command {
        OrdersCommand::List { filter, before, format } => {
            operator.list(filter, before, format).await
        }
        OrdersCommand::Show { id } => operator.show(OrderId(id)).await,
        OrdersCommand::Export { id, to } => operator.export(OrderId(id), &to).await,
        OrdersCommand::Accesses { id, format } => operator.accesses_of(OrderId(id), format).await,
        OrdersCommand::Update { id, update } => {
            operator.update(OrderId(id), &update.request()?).await
        }
        OrdersCommand::Note { id, text } => operator.note(OrderId(id), text).await,
        OrdersCommand::Cancel { id, reason } => {
            operator.cancel(OrderId(id), &reason.unwrap_or_default()).await
        }
        OrdersCommand::Hold { id, until } => operator.hold(OrderId(id), until).await,
        OrdersCommand::Release { id } => operator.release(OrderId(id)).await,
        OrdersCommand::Erase { which, yes } => operator.erase(which, yes).await,
    }
}

/// An order with what only operators see.
#[derive(Serialize)]
struct ShownOrder<'a> {
    #[serde(flatten)]
    order: WholeOrder<'a>,
    client_id: i64,
    api_key_id: i64,
    is_test: bool,
    held_until: Option<String>,
}

impl Operator {
    async fn list(&self, filter: Filter, before: Option<i64>, format: Format) -> Result<()> {
        let filter = OrderFilter {
            list: ListFilter {
                file_number: filter.file_number.map(|number| FileNumber::comparable(number.trim())),
                statuses: filter.status.map(|statuses| statuses.0).unwrap_or_default(),
                signing_date_from: filter.signing_date_from,
                signing_date_to: filter.signing_date_to,
                updated_after: filter.updated_after,
                search: filter.search,
                ..ListFilter::default()
            },
            client: filter.client.map(ClientId),
            email: filter.email.map(|email| email.trim().to_owned()),
            held_at: filter.held.then(|| self.clock.now()),
        };
        ensure!(
            filter.list.has_dates(),
            WrongSetting(anyhow!("--signing-date-to must not be before --signing-date-from"))
        );
        let found = self.storage.admin.list(&filter, before.map(OrderId), MAX_LISTED).await;
        let count = found.as_ref().ok().map(Vec::len);
        let access = self.recording.begin_list(AccessKind::List, count);
        let orders = self.recorded(access, found.map_err(Into::into)).await?;
        let columns: [Column<'_, ListedOrder>; 11] = [
            ("ID", "", &|order| json!(order.stored.id.0)),
            ("CLIENT", "", &|order| json!(order.stored.client.0)),
            ("MODE", "", &|order| mode(order.stored.is_test)),
            ("CREATED", "", &|order| at(order.stored.created_at)),
            ("DOCUMENTS", "", &|order| json!(order.counts.documents)),
            ("STATUS", "", &|order| json!(order.stored.status.as_str())),
            ("CLIENT NAME", "-", &|order| json!(order.stored.names.client)),
            ("SIGNING SERVICE", "", &|order| json!(order.stored.order.signing_service_id.0)),
            ("SIGNING SERVICE NAME", "-", &|order| json!(order.stored.names.service)),
            ("FILE NUMBER", "", &|order| json!(order.stored.order.file_number.as_str())),
            ("HELD UNTIL", "-", &|order| at(self.hold_of(&order.stored))),
        ];
        let shortened = [("CLIENT NAME", MAX_SHOWN_NAME), ("SIGNING SERVICE NAME", MAX_SHOWN_NAME)];
        format.print_both(&columns, &shortened, &columns, &orders)?;
        if let (MAX_LISTED, Some(last)) = (orders.len(), orders.last()) {
            let last = last.stored.id.0;
            eprintln!("only {MAX_LISTED} are listed; --before {last} lists older ones");
        }
        Ok(())
    }

    async fn show(&self, id: OrderId) -> Result<()> {
        let access = self.recording.begin(AccessKind::Read, id);
        let shown = async { self.json(&self.order(id).await?).await }.await;
        print(&self.recorded(access, shown).await?)
    }

    async fn update(&self, id: OrderId, request: &ChangeRequest) -> Result<()> {
        let access = self.recording.begin(AccessKind::Update, id);
        let update = async {
            let (operator, orders) = self.changer(id, &access).await?;
            let changed = orders.change(operator, id, request, &OrderPrecondition::NONE).await;
            changed.with_context(|| format!("order {} was not changed", id.0))
        }
        .await;
        report(&self.recorded(access, update).await?)
    }

    async fn note(&self, id: OrderId, request: NoteRequest) -> Result<()> {
        let access = self.recording.begin(AccessKind::AddNote, id);
        let add = async {
            let (operator, ChangeOrder { orders, reader, clock }) =
                self.changer(id, &access).await?;
            let idempotency_retention = self.settings.idempotency_retention();
            let notes = AddNote { orders, reader, clock, idempotency_retention };
            let added = notes.add(operator, id, request, OrderPrecondition::NONE, None).await;
            added.with_context(|| format!("order {} got no note", id.0))
        }
        .await;
        self.recorded(access, add).await?;
        print(&format!("order {} has the note\n", id.0))
    }

    /// Returns the end of the hold of an order; `None` if it is not on hold.
    fn hold_of(&self, order: &StoredOrder) -> Option<OffsetDateTime> {
        order.held_until.filter(|until| *until > self.clock.now())
    }

    async fn hold(&self, id: OrderId, last_day: Option<Date>) -> Result<()> {
        let last_day = last_day.unwrap_or(Date::MAX);
        // The last instant of the last year has no successor.
        let end = last_day.next_day().map_or(WITHOUT_END, |day| day.midnight().assume_utc());
        if end <= self.clock.now() {
            return Err(WrongSetting(anyhow!("--until must not be in the past")).into());
        }
        let before = self.set_hold(id, Some(end)).await?;
        let shown =
            |end| if end == WITHOUT_END { "it is released".to_owned() } else { second(end) };
        let before = before.filter(|before| *before > end);
        let before = before.map(|end| format!("; before, it was until {}", shown(end)));
        let (until, before) = (shown(end), before.unwrap_or_default());
        print(&format!("order {} is on hold until {until}{before}\n", id.0))
    }

    async fn release(&self, id: OrderId) -> Result<()> {
        let end = match self.set_hold(id, None).await? {
            Some(_) => "is not on hold any more",
            None => "was not on hold",
        };
        print(&format!("order {} {end}\n", id.0))
    }

    /// Returns the end of the hold before; `None` if there was none.
    async fn set_hold(
        &self,
        id: OrderId,
        until: Option<OffsetDateTime>,
    ) -> Result<Option<OffsetDateTime>> {
        let kind = if until.is_some() { AccessKind::Hold } else { AccessKind::Release };
        let access = self.recording.begin(kind, id);
        let set = async {
            let before = self.hold_of(&self.order(id).await?);
            let hold = OrderCommandRequest {
                owner: None,
                order: id,
                command: OrderCommand::Hold { until },
                at: self.clock.now(),
                idempotent_request: None,
                access: Some(access.done()),
            };
            match self.storage.orders.change(&hold).await {
                Ok(_) => Ok(before),
                Err(WriteError::Refused(Refusal::Erased)) => {
                    bail!("order {} was erased meanwhile", id.0)
                }
                Err(error) => Err(error.into()),
            }
        }
        .await;
        self.recorded(access, set).await
    }

    async fn cancel(&self, id: OrderId, request: &CancelRequest) -> Result<()> {
        let access = self.recording.begin(AccessKind::Cancel, id);
        let cancel = async {
            let (operator, orders) = self.changer(id, &access).await?;
            let cancelled = orders.cancel(operator, id, request, &OrderPrecondition::NONE).await;
            cancelled.with_context(|| format!("order {} was not cancelled", id.0))
        }
        .await;
        report(&self.recorded(access, cancel).await?)
    }

    /// Returns what changes an order in the name of the operator.
    async fn changer(&self, id: OrderId, access: &BegunAccess) -> Result<(Changer, ChangeOrder)> {
        let StoredOrder { client, is_test, .. } = self.order(id).await?;
        let owner = Owner::client(client, is_test);
        let access = Some(access.clone());
        let operator = Changer { owner, actor: Actor::Operator, only_service: None, access };
        let orders = ChangeOrder {
            orders: self.storage.orders.clone(),
            reader: self.storage.reader.clone(),
            clock: self.clock.clone(),
        };
        Ok((operator, orders))
    }

    /// Returns an order as a client reads it, with what only operators see.
    pub(in crate::commands) async fn json(&self, order: &StoredOrder) -> Result<String> {
        let (history, notes) = (self.history(order).await?, self.notes(order).await?);
        let naming = NameDoers { people: self.storage.people.clone() };
        let documents = DocumentKind::ALL.into_iter().flat_map(|kind| {
            let documents = order.documents_of(kind).iter();
            documents.map(move |document| (Actor::uploading(kind), order.uploader(document)))
        });
        let acts = history.iter().map(|change| (change.actor, change.by)).chain(documents);
        let acts = acts.chain(notes.iter().map(|note| (note.author, note.by)));
        let names = naming.named(Viewer::Operator, acts).await?;
        let shown = ShownOrder {
            order: WholeOrder::of(order, &self.settings.base_path, self.clock.now(), &names)
                .with_history(history.into_iter(), &names)
                .with_notes(&notes, &names),
            client_id: order.client.0,
            api_key_id: order.api_key.0,
            is_test: order.is_test,
            held_until: self.hold_of(order).map(second),
        };
        Ok(serde_json::to_string_pretty(&shown)? + "\n")
    }

    /// Returns the whole history, oldest first. A read of the order has its newest entries only.
    async fn history(&self, order: &StoredOrder) -> Result<Vec<OrderChange>> {
        let (owner, reader) = (Owner::client(order.client, order.is_test), &self.storage.reader);
        let page = async |cursor| {
            let query = HistoryQuery { limit: MAX_LISTED, cursor };
            reader.history(owner, order.id, &query).await
        };
        let entries = all(order.id, page, |entry| entry.id).await?;
        Ok(entries.into_iter().map(|entry| entry.change).collect())
    }

    /// Returns all notes, oldest first. A read of the order has its newest ones only.
    async fn notes(&self, order: &StoredOrder) -> Result<Vec<Note>> {
        let (owner, reader) = (Owner::client(order.client, order.is_test), &self.storage.reader);
        let page = async |cursor| {
            let query = NoteQuery { limit: MAX_LISTED, cursor };
            reader.notes(owner, order.id, &query).await
        };
        let notes = all(order.id, page, |it| it.number).await?;
        Ok(notes.into_iter().map(|it| it.note).collect())
    }
}

/// Reads all pages of a part of an order. Returns its items, oldest first.
async fn all<T, Id: Copy>(
    order: OrderId,
    read: impl AsyncFn(Cursor<Id>) -> Result<Option<MaybeErased<Option<Page<T>>>>, StoreError>,
    id: impl Fn(&T) -> Id,
) -> Result<Vec<T>> {
    let (mut items, mut cursor) = (Vec::new(), Cursor::Newest);
    loop {
        let page = read(cursor).await?.and_then(MaybeErased::whole).flatten();
        let Some(page) = page else { bail!("order {} was erased meanwhile", order.0) };
        let oldest = page.items.last().map(&id);
        items.extend(page.items);
        match oldest.filter(|_| page.has_older) {
            Some(oldest) => cursor = Cursor::OlderThan(oldest),
            None => break,
        }
    }
    items.reverse();
    Ok(items)
}

fn report(ListedOrder { stored: order, .. }: &ListedOrder) -> Result<()> {
    let notary = order.notary_id.map_or_else(|| "none".to_owned(), |id| id.to_string());
    let (id, status) = (order.id.0, order.status.as_str());
    print(&format!("order {id} has the status {status} and the notary {notary}\n"))
}
