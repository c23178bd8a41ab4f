//! The commands of operators.

#![expect(clippy::doc_markdown, reason = "the comments on arguments are the help text")]

use std::path::PathBuf;

use adapter_http::OpenApiSettings;
use anyhow::{Context as _, Result};
use clap::Subcommand;
use clap_complete::Shell;
use domain::use_cases::keys::revoke_key::RevokeKey;

pub use self::orders::LeftObjects;
use self::{
    clients::ClientsCommand,
    deliveries::DeliveriesCommand,
    doctor::DoctorCommand,
    keys::KeysCommand,
    orders::{
        OrdersCommand,
        accesses::{self, AccessesCommand},
        operator::Operator,
    },
    output::print,
    people::PeopleCommand,
    services::ServicesCommand,
    webhooks::WebhooksCommand,
};
use crate::{
    adapters::Storage, doctor::health, progress::Progress, settings::Settings, system::Machine,
};

mod adopt;
pub(crate) mod backup;
mod clients;
mod copy;
mod deliveries;
pub mod doctor;
mod keys;
mod manual;
mod orders;
pub mod output;
mod people;
mod services;
mod webhooks;

/// A command of an operator.
#[derive(Subcommand)]
pub enum Command {
    /// Check settings, database, document store, mail relay and machine, and say what to do
    Doctor(DoctorCommand),
    /// Check that the service on this machine runs, for supervisors such as that of a container
    Health,
    /// Update the schema of the database
    Migrate,
    /// Issue, list, rotate and revoke API keys
    #[command(subcommand)]
    Keys(KeysCommand),
    /// List and rename clients
    #[command(subcommand)]
    Clients(ClientsCommand),
    /// Invite, list, change, disable and erase people who sign in, their sessions and passkeys
    #[command(subcommand)]
    People(PeopleCommand),
    /// Add, list, change and remove the records of signing services
    #[command(subcommand)]
    Services(ServicesCommand),
    /// List, show, export, change, note, cancel, hold and erase orders
    #[command(subcommand)]
    Orders(OrdersCommand),
    /// List reads and changes of orders
    #[command(subcommand)]
    Accesses(AccessesCommand),
    /// List deliveries that wait or failed for good, and retry them
    #[command(subcommand)]
    Deliveries(DeliveriesCommand),
    /// Create, list, change, test and delete webhook endpoints, replay their deliveries, and print
    /// events as they arrive
    #[command(subcommand)]
    Webhooks(WebhooksCommand),
    /// Copy the embedded database and its documents into an empty folder, also while the service
    /// runs
    Backup {
        /// The folder of the backup
        folder: PathBuf,
    },
    /// Put a backup into an empty data directory, after checking every document
    Restore {
        /// The folder of the backup
        folder: PathBuf,
    },
    /// Make this database the one that sends mails and webhooks, after it was restored, copied or
    /// moved. What waits leaves within seconds; make sure that the original is stopped
    Adopt,
    /// Print the OpenAPI document
    Openapi,
    /// Print the completions for a shell
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Print the manual page
    #[command(hide = true)]
    Man,
    /// Copy orders, records of documents, keys and pending mails to another database. Does not
    /// touch the stored documents. Stop the service first
    Copy {
        /// Database to read: sqlite://PATH
        #[arg(long, value_name = "URL")]
        from: String,
        /// Empty database to write: postgres://USER:PASSWORD@HOST/DATABASE
        #[arg(long, value_name = "URL")]
        to: String,
    },
}

impl Command {
    /// Runs the command. `program` describes the whole command line.
    pub async fn run(
        self,
        settings: Settings,
        machine: Machine,
        program: clap::Command,
    ) -> Result<()> {
        let now = machine.clock.now();
        match self {
            Self::Doctor(command) => command.run(&settings, &machine).await,
            Self::Health => health::check(&settings).await,
            Self::Completions { shell } => manual::print_completions(shell, program),
            Self::Man => manual::print_page(program),
            Self::Migrate => Storage::open_patiently(&settings).await.map(drop),
            Self::Keys(command) => {
                let storage = Storage::open_patiently(&settings).await?;
                let keys = storage.manage_keys(&machine);
                keys::run(command, RevokeKey { keys, endpoints: storage.webhooks.clone() }, now)
                    .await
            }
            Self::Clients(command) => {
                let storage = Storage::open_patiently(&settings).await?;
                clients::run(command, &storage.manage_keys(&machine), now).await
            }
            Self::People(command) => {
                let operator = Operator::open(settings, &machine, command.name()).await?;
                let sessions = operator.storage.sessions(&operator.settings, &machine);
                let people = operator.storage.manage_people(sessions, &machine, &[]);
                operator.ended(people::run(command, &operator, &people).await).await
            }
            Self::Services(command) => {
                let storage = Storage::open(&settings).await?;
                services::run(command, &*storage.services).await
            }
            Self::Orders(command) => {
                let operator = Operator::open(settings, &machine, command.name()).await?;
                operator.ended(orders::run(command, &operator).await).await
            }
            Self::Accesses(command) => {
                let operator = Operator::open(settings, &machine, command.name()).await?;
                operator.ended(accesses::run(command, &operator).await).await
            }
            Self::Deliveries(command) => {
                let storage = Storage::open_patiently(&settings).await?;
                deliveries::run(command, &storage, now).await
            }
            Self::Webhooks(command) => webhooks::run(command, settings, &machine).await,
            Self::Backup { folder } => {
                on_files(move |progress| backup::back_up(&settings, &folder, now, progress)).await
            }
            Self::Restore { folder } => {
                on_files(move |progress| backup::restore(&settings, &folder, progress)).await
            }
            Self::Adopt => {
                let storage = Storage::open_patiently(&settings).await?;
                adopt::run(&storage, &settings).await
            }
            Self::Copy { from, to } => {
                let progress = Progress::new("copying");
                let copy = Box::pin(copy::everything(&from, &to, &settings, &progress));
                print(&progress.of(copy).await?)
            }
            Self::Openapi => print(&adapter_http::openapi_document(&OpenApiSettings {
                base_path: settings.base_path.clone(),
                max_document_bytes: settings.document_limits().max_bytes,
                duplicate_window: settings.duplicate_window(),
                idempotency_retention: settings.idempotency_retention(),
            })),
        }
    }
}

async fn on_files(work: impl FnOnce(&Progress) -> Result<()> + Send + 'static) -> Result<()> {
    let progress = Progress::new("copying the database");
    let steps = progress.clone();
    let work = tokio::task::spawn_blocking(move || work(&steps));
    progress.of(work).await.context("the work on the files panicked")?
}
