//! The command line.

use std::{
    collections::BTreeMap, ffi::OsStr, path::PathBuf, process::ExitCode, sync::Arc, time::Duration,
};

use adapter_http::OpenApiSettings;
use anyhow::{Context as _, Result};
use clap::{Arg, CommandFactory as _, Parser, Subcommand};
use domain::ports::error_chain;

use self::{
    deliveries::DeliveriesCommand,
    keys::KeysCommand,
    orders::{Operator, OrdersCommand},
    output::{print, without_credentials},
    webhooks::WebhooksCommand,
};
use crate::{
    adapters::Storage,
    copy, first_key, logging,
    serve::{Service, Starting},
    settings::{Database, Settings, variables},
    signals::StopSignals,
    system::Machine,
};

mod backup;
mod deliveries;
mod keys;
mod orders;
mod output;
mod webhooks;

/// Threads for file operations of the document store, and of commands.
const BLOCKING_THREADS: usize = 8;

/// Time limit at the end for file operations in progress. A disk may not answer.
const BLOCKING_TIMEOUT: Duration = Duration::from_secs(2);

/// Time limit for printing. A reader may have stopped.
const PRINT_TIMEOUT: Duration = Duration::from_secs(1);

// Not `Debug`: URLs among the arguments contain passwords.
#[derive(Parser)]
#[command(
    name = "notary-orders",
    version,
    about = "Creates notarial signing orders, with or without documents"
)]
struct CommandLine {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    settings: Settings,
}

#[derive(Subcommand)]
enum Command {
    /// Run the service (the default)
    Serve,
    /// Update the schema of the database
    Migrate,
    /// Issue, list, rotate and revoke API keys
    #[command(subcommand)]
    Keys(KeysCommand),
    /// List, show, export and erase orders
    #[command(subcommand)]
    Orders(OrdersCommand),
    /// List deliveries that wait or failed for good, and retry them
    #[command(subcommand, alias = "follow-ups")]
    Deliveries(DeliveriesCommand),
    /// Create, list, change, test and delete webhook endpoints, and replay their deliveries
    #[command(subcommand)]
    Webhooks(WebhooksCommand),
    /// Copy the embedded database and its documents into an empty folder, also while the service
    /// runs
    Backup { folder: PathBuf },
    /// Put a backup into an empty data directory, after checking every document
    Restore { folder: PathBuf },
    /// Print the OpenAPI document
    Openapi,
    /// Copy orders, records of documents, keys and pending mails to another database. Does not
    /// touch the stored documents. Stop the service first
    Copy {
        #[arg(long, value_name = "URL", help = "Database to read: sqlite://PATH")]
        from: String,
        #[arg(
            long,
            value_name = "URL",
            help = "Empty database to write: postgres://USER:PASSWORD@HOST/DATABASE"
        )]
        to: String,
    },
}

/// Runs the command of this process.
pub fn run() -> ExitCode {
    let CommandLine { command, settings } = match CommandLine::try_parse() {
        Ok(command_line) => command_line,
        Err(error) if error.use_stderr() => {
            complain(without_credentials(&error.to_string()));
            return ExitCode::from(2);
        }
        Err(help_or_version) => help_or_version.exit(),
    };
    let settings = Settings { environment: environment(), ..settings.without_blanks() };
    match start(command.unwrap_or(Command::Serve), settings) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            complain(format!("error: {}\n", without_credentials(&error_chain(error.as_ref()))));
            ExitCode::FAILURE
        }
    }
}

/// Starts the log and the runtime, and executes a command.
fn start(command: Command, settings: Settings) -> Result<()> {
    // Writes the remaining lines when it is dropped.
    let _log = logging::start(&settings)?;
    let known = CommandLine::command();
    let names = known.get_arguments().filter_map(Arg::get_env).filter_map(OsStr::to_str);
    variables::warn_of_unknown(&settings.environment, names.map(str::to_owned));
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .max_blocking_threads(BLOCKING_THREADS)
        .enable_all()
        .build()
        .context("the runtime could not be started")?;
    let done = runtime.block_on(execute(command, settings));
    runtime.shutdown_timeout(BLOCKING_TIMEOUT);
    done
}

/// Prints to standard error, and does not wait for ever if nobody reads it.
fn complain(text: String) {
    logging::within(PRINT_TIMEOUT, move || eprint!("{text}"));
}

/// Returns the environment variables that are valid UTF-8.
fn environment() -> BTreeMap<String, String> {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect()
}

async fn execute(command: Command, settings: Settings) -> Result<()> {
    let machine = Machine::default();
    match command {
        Command::Serve => serve(&settings, &machine).await,
        Command::Migrate => Storage::open(&settings).await.map(drop),
        Command::Keys(command) => {
            let keys = Storage::open(&settings).await?.manage_keys(&machine);
            keys::run(command, &keys, machine.clock.now()).await
        }
        Command::Orders(command) => {
            let storage = Storage::open(&settings).await?;
            orders::run(command, &Operator { settings, storage, clock: machine.clock }).await
        }
        Command::Deliveries(command) => {
            let storage = Storage::open(&settings).await?;
            deliveries::run(command, &storage, machine.clock.now()).await
        }
        Command::Webhooks(command) => {
            let storage = Storage::open(&settings).await?;
            let webhooks = storage.manage_webhooks(&settings, &machine, &Arc::default())?;
            webhooks::run(command, &webhooks).await
        }
        Command::Backup { folder } => {
            let now = machine.clock.now();
            backup::run(settings, move |settings, report| {
                crate::backup::back_up(settings, &folder, now, report)
            })
            .await
        }
        Command::Restore { folder } => {
            backup::run(settings, move |settings, report| {
                crate::backup::restore(settings, &folder, report)
            })
            .await
        }
        Command::Copy { from, to } => print(&copy::everything(&from, &to, &settings).await?),
        Command::Openapi => {
            let document = adapter_http::openapi_document(&openapi_settings(&settings));
            print(&format!("{}\n", serde_json::to_string_pretty(&document)?))
        }
    }
}

fn openapi_settings(settings: &Settings) -> OpenApiSettings {
    OpenApiSettings {
        base_path: settings.base_path.clone(),
        limits: settings.document_limits(),
        duplicate_window: settings.duplicate_window(),
        idempotency_retention: settings.idempotency_retention(),
    }
}

async fn serve(settings: &Settings, machine: &Machine) -> Result<()> {
    // Registered before the start, so that no signal is missed.
    let mut signals = StopSignals::register()?;
    let mut service = tokio::select! {
        started = start_service(settings, machine) => started?,
        () = signals.first() => return Ok(()),
    };
    tokio::select! {
        () = signals.first() => {}
        error = service.failed() => {
            service.stop().await;
            return Err(error);
        }
    }
    let stop = async {
        service.drain(settings.drain()).await;
        service.stop().await;
    };
    tokio::select! {
        () = stop => {}
        () = signals.another() => {
            tracing::warn!("stopped at once by another signal; requests in progress are cut off");
        }
    }
    Ok(())
}

async fn start_service(settings: &Settings, machine: &Machine) -> Result<Service> {
    let starting = Starting::listen(settings, machine)?;
    let storage = Storage::open(settings).await?;
    let keys = storage.manage_keys(machine);
    let service = starting.start(settings, machine, storage).await?;
    if matches!(settings.database()?, Database::Sqlite(_))
        && let Some(welcome) = first_key::welcome(
            &keys,
            service.api_address,
            &settings.base_path,
            settings.tls_cert.is_some(),
        )
        .await?
    {
        welcome_operator(welcome);
    }
    Ok(service)
}

/// Prints the text of the first start, without waiting for a reader of the output.
fn welcome_operator(text: String) {
    let printed = logging::within(PRINT_TIMEOUT, move || {
        if let Err(error) = print(&text) {
            tracing::error!(error = error_chain(error.as_ref()), "the first key was not printed");
        }
    });
    if !printed {
        tracing::warn!("the first key is not printed yet: standard output is not read");
    }
}
