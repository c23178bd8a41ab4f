//! The command line.

use std::{
    collections::BTreeMap, ffi::OsStr, path::PathBuf, process::ExitCode, sync::Arc, time::Duration,
};

use adapter_http::OpenApiSettings;
use anyhow::{Context as _, Result};
use clap::{
    Arg, CommandFactory as _, FromArgMatches as _, Parser, Subcommand,
    builder::Resettable,
    error::{ContextKind, ContextValue},
};
use clap_complete::Shell;
use domain::ports::error_chain;

use self::{
    deliveries::DeliveriesCommand,
    doctor::DoctorCommand,
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
    traces::Traces,
};

mod backup;
mod deliveries;
mod doctor;
mod keys;
mod manual;
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
    /// Check settings, database, document store, mail relay and machine, and say what to do
    Doctor(DoctorCommand),
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
    /// Print the completions for a shell
    Completions { shell: Shell },
    /// Print the manual page
    #[command(hide = true)]
    Man,
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
    let CommandLine { command, settings } = match parse() {
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

/// Parses arguments and variables. The doctor reports variables with invalid values, and checks the
/// rest without them.
fn parse() -> Result<CommandLine, clap::Error> {
    let (mut parser, mut wrong) = (CommandLine::command(), Vec::new());
    loop {
        let parsed = parser.clone().try_get_matches_from(std::env::args_os()).and_then(|matches| {
            let line = CommandLine::from_arg_matches(&matches);
            line.map_err(|error| error.format(&mut parser.clone()))
        });
        let mut first = || wrong.drain(..).next().map(|(_, error): (String, _)| error);
        let error = match parsed {
            Ok(mut line) => {
                let Some(Command::Doctor(doctor)) = &mut line.command else {
                    return first().map_or(Ok(line), Err);
                };
                let wrong = wrong.iter().map(|(name, error)| doctor::wrong_variable(name, error));
                doctor.settings.extend(wrong);
                return Ok(line);
            }
            Err(error) => error,
        };
        let Some((setting, variable)) = setting_of(&parser, &error) else {
            return Err(first().unwrap_or(error));
        };
        parser = parser.mut_arg(setting, |setting| setting.env(Resettable::Reset));
        wrong.push((variable, error));
    }
}

/// Returns the identifier and the variable of the setting that an error names.
fn setting_of(parser: &clap::Command, error: &clap::Error) -> Option<(clap::Id, String)> {
    let Some(ContextValue::String(name)) = error.get(ContextKind::InvalidArg) else { return None };
    let mut parser = parser.clone();
    parser.build();
    let setting = parser.get_arguments().find(|setting| setting.to_string() == *name)?;
    Some((setting.get_id().clone(), setting.get_env()?.to_str()?.to_owned()))
}

/// Reports the variables that name no setting.
fn report_unknown(command: &mut Command, settings: &Settings) {
    let known = CommandLine::command();
    let names = known.get_arguments().filter_map(Arg::get_env).filter_map(OsStr::to_str);
    for unknown in variables::unknown(&settings.environment, names.map(str::to_owned)) {
        if let Command::Doctor(doctor) = command {
            doctor.settings.push(doctor::unknown_variable(&unknown));
        } else {
            let variables::Unknown { variable, nearest } = unknown;
            tracing::warn!(variable, nearest, "an unknown variable is ignored");
        }
    }
}

/// Starts the log and the runtime, and executes a command.
fn start(mut command: Command, settings: Settings) -> Result<()> {
    let traces = match command {
        Command::Serve => Traces::start(&settings.environment)?,
        _ => None,
    };
    // Writes the remaining lines when it is dropped.
    let _log = logging::start(&settings, traces.as_deref())?;
    report_unknown(&mut command, &settings);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .max_blocking_threads(BLOCKING_THREADS)
        .enable_all()
        .build()
        .context("the runtime could not be started")?;
    let machine = Machine { traces: traces.clone(), ..Machine::default() };
    let done = runtime.block_on(execute(command, settings, machine));
    runtime.shutdown_timeout(BLOCKING_TIMEOUT);
    if let Some(traces) = traces {
        traces.stop();
    }
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

async fn execute(command: Command, settings: Settings, machine: Machine) -> Result<()> {
    match command {
        Command::Serve => serve(&settings, &machine).await,
        Command::Doctor(command) => doctor::run(command, &settings, &machine).await,
        Command::Completions { shell } => manual::print_completions(shell, CommandLine::command()),
        Command::Man => manual::print_page(CommandLine::command()),
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
        Command::Openapi => print(&adapter_http::openapi_document(&openapi_settings(&settings))),
    }
}

fn openapi_settings(settings: &Settings) -> OpenApiSettings {
    OpenApiSettings {
        base_path: settings.base_path.clone(),
        max_document_bytes: settings.document_limits().max_bytes,
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
    let names = starting.certificate_names();
    let service = starting.start(settings, machine, storage).await?;
    let (api, ops) = (service.api_address, service.ops_address);
    if matches!(settings.database()?, Database::Sqlite(_))
        && let Some(welcome) = first_key::welcome(&keys, settings, &names, api, ops).await?
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
