//! The command line.

use std::{collections::BTreeMap, fmt::Write as _, io::Write as _, process::ExitCode};

use adapter_http::OpenApiSettings;
use anyhow::{Context as _, Result, ensure};
use clap::{Args, Parser, Subcommand};
use domain::{
    delivery::DeliveryId, document::DocumentLimits, duplicate_window::DuplicateWindow,
    ports::error_chain,
};
use time::{OffsetDateTime, format_description::well_known::Rfc3339};
use tokio::signal::unix::{SignalKind, signal};

use crate::{
    Machine,
    adapters::Storage,
    copy, first_key, logging,
    serve::Service,
    settings::{Database, Settings},
};

mod keys;

/// Threads that wait for the document store's and the mail drop's disk.
const BLOCKING_THREADS: usize = 8;
/// Most follow-ups that are listed.
const LISTED: usize = 1_000;

// Without `Debug`: URLs among the arguments hold passwords.
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
    /// Bring the schema of the database up to date
    Migrate,
    /// Issue, list, rotate and revoke API keys
    #[command(subcommand)]
    Keys(KeysCommand),
    /// List follow-ups, and retry what was given up
    #[command(subcommand, name = "follow-ups")]
    Deliveries(DeliveriesCommand),
    /// Print the OpenAPI document
    Openapi,
    /// Move from one database to another: orders, what is known of their documents, keys and
    /// pending mails. The documents themselves are not touched. Stop the service first
    Copy {
        #[arg(long, value_name = "URL", help = "The database that has everything: sqlite://PATH")]
        from: String,
        #[arg(
            long,
            value_name = "URL",
            help = "The database that has nothing yet: postgres://USER:PASSWORD@HOST/DATABASE"
        )]
        to: String,
    },
}

#[derive(Debug, Subcommand)]
enum KeysCommand {
    /// Issue a key, and print it alone on standard output; it is not shown again
    Issue {
        /// What to call it
        #[arg(long)]
        name: String,
        /// The only signing service that it may create orders for
        #[arg(long, value_name = "ID", value_parser = clap::value_parser!(i64).range(1..))]
        signing_service: Option<i64>,
        /// Days after which it is refused
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=36_500))]
        expires_in_days: Option<u32>,
        /// Its orders are test orders: answered like any other, and nobody is told of them
        #[arg(long)]
        test: bool,
        #[command(flatten)]
        limits: Limits,
    },
    /// List every key ever issued
    List,
    /// Issue a key on the terms of another, and print it alone on standard output; the other is
    /// good for some time longer
    Rotate {
        /// Identifier of the other, as listed
        id: i64,
        /// Hours that the other is still good
        #[arg(long, value_name = "N", default_value_t = 24, value_parser = clap::value_parser!(u32).range(0..=8_760))]
        grace_hours: u32,
    },
    /// Revoke a key
    Revoke {
        /// Its identifier, as listed
        id: i64,
    },
    /// Tell who issued, rotated and revoked which key when
    #[command(visible_alias = "audit")]
    Trail,
}

/// How often a key may create orders, if not as often as the service lets any.
#[derive(Debug, Args)]
struct Limits {
    /// Orders without documents per second
    #[arg(long, value_name = "N", requires = "limit_burst", value_parser = clap::value_parser!(u32).range(1..))]
    limit_per_second: Option<u32>,
    /// Orders without documents at once
    #[arg(long, value_name = "N", requires = "limit_per_second", value_parser = clap::value_parser!(u32).range(1..))]
    limit_burst: Option<u32>,
    /// Orders with documents per second
    #[arg(long, value_name = "N", requires = "documents_limit_burst", value_parser = clap::value_parser!(u32).range(1..))]
    documents_limit_per_second: Option<u32>,
    /// Orders with documents at once
    #[arg(long, value_name = "N", requires = "documents_limit_per_second", value_parser = clap::value_parser!(u32).range(1..))]
    documents_limit_burst: Option<u32>,
}

#[derive(Debug, Subcommand)]
enum DeliveriesCommand {
    /// List what is to be done
    List {
        /// What was given up instead
        #[arg(long = "buried")]
        failed: bool,
    },
    /// Try a follow-up again at once
    Retry {
        /// Its identifier, as listed
        id: i64,
    },
}

/// Runs the command of this process.
pub fn run() -> ExitCode {
    let CommandLine { command, settings } = match CommandLine::try_parse() {
        Ok(read) => read,
        Err(error) if error.use_stderr() => {
            eprint!("{}", without_credentials(&error.to_string()));
            return ExitCode::from(2);
        }
        Err(asked) => asked.exit(),
    };
    let settings = Settings { environment: environment(), ..settings.without_blanks() };
    let _written = logging::start(&settings);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .max_blocking_threads(BLOCKING_THREADS)
        .enable_all()
        .build()
        .context("the runtime could not be started");
    match runtime
        .and_then(|runtime| runtime.block_on(execute(command.unwrap_or(Command::Serve), settings)))
    {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {}", without_credentials(&error_chain(error.as_ref())));
            ExitCode::FAILURE
        }
    }
}

/// A message in which every URL has lost its user, password and query: whoever mistypes a command
/// may have them repeated.
fn without_credentials(message: &str) -> String {
    let told = |word: &str| match (word.find("://"), word.rfind('@')) {
        (Some(scheme), _) if word.contains('?') => format!("{}… ", &word[..scheme + 3]),
        (Some(scheme), Some(host)) if scheme < host => {
            format!("{}…{}", &word[..scheme + 3], &word[host..])
        }
        _ => word.to_owned(),
    };
    message.split_inclusive(char::is_whitespace).map(told).collect()
}

/// The variables that are text; none that matters here is anything else.
fn environment() -> BTreeMap<String, String> {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect()
}

async fn execute(command: Command, settings: Settings) -> Result<()> {
    let machine = Machine::default();
    match command {
        Command::Serve => serve(&settings, &machine).await,
        Command::Migrate => {
            Storage::open(&settings).await?;
            Ok(())
        }
        Command::Keys(command) => {
            keys::run(
                command,
                &Storage::open(&settings).await?.manage_keys(&machine),
                machine.clock.now(),
            )
            .await
        }
        Command::Deliveries(command) => {
            deliveries(command, &Storage::open(&settings).await?, &machine).await
        }
        Command::Copy { from, to } => print(&copy::everything(&from, &to, &settings).await?),
        Command::Openapi => print(&format!(
            "{}\n",
            serde_json::to_string_pretty(&adapter_http::openapi_document(&openapi_settings(
                &settings
            )))?
        )),
    }
}

fn openapi_settings(settings: &Settings) -> OpenApiSettings {
    OpenApiSettings {
        base_path: settings.base_path.clone(),
        limits: DocumentLimits {
            max_bytes: settings.max_document_bytes,
            ..DocumentLimits::default()
        },
        duplicate_window: DuplicateWindow(time::Duration::seconds(
            settings.duplicate_window_secs.into(),
        )),
        idempotency_retention: time::Duration::seconds(settings.idempotency_retention_secs.into()),
    }
}

async fn serve(settings: &Settings, machine: &Machine) -> Result<()> {
    // Before anything is started, so that no signal is missed.
    let stopped = stop_signal()?;
    let storage = Storage::open(settings).await?;
    let keys = storage.manage_keys(machine);
    let mut service = Service::start(settings, machine, storage).await?;
    if matches!(settings.database()?, Database::Sqlite(_))
        && let Some(welcome) =
            first_key::welcome(&keys, service.api_address, &settings.base_path).await?
    {
        print(&welcome)?;
    }
    tokio::select! {
        () = stopped => {
            service.stop().await;
            Ok(())
        }
        error = service.failed() => {
            service.stop().await;
            Err(error)
        }
    }
}

fn stop_signal() -> Result<impl Future<Output = ()>> {
    let (mut terminate, mut interrupt) =
        (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}

async fn deliveries(
    command: DeliveriesCommand,
    storage: &Storage,
    machine: &Machine,
) -> Result<()> {
    match command {
        DeliveriesCommand::List { failed } => {
            let mut table = format!(
                "{:>8}  {:>8}  {:>8}  {:<20} {:<20} LAST ERROR\n",
                "ID",
                "ORDER",
                "ATTEMPTS",
                "CREATED",
                if failed { "BURIED" } else { "DUE" }
            );
            for delivery in storage.queue.list(failed, LISTED).await? {
                let moment = second(delivery.failed_at.unwrap_or(delivery.due_at));
                let error = delivery.last_error.unwrap_or_default();
                let (id, order, attempts, created) = (
                    delivery.id.0,
                    delivery.order_id.0,
                    delivery.attempts,
                    second(delivery.created_at),
                );
                writeln!(
                    table,
                    "{id:>8}  {order:>8}  {attempts:>8}  {created:<20} {moment:<20} {}",
                    error.escape_debug()
                )?;
            }
            print(&table)?;
            if table.lines().count() > LISTED {
                eprintln!("only the oldest {LISTED} are listed");
            }
            Ok(())
        }
        DeliveriesCommand::Retry { id } => {
            ensure!(
                storage.queue.retry(DeliveryId(id), machine.clock.now()).await?,
                "there is no follow-up {id}"
            );
            print(&format!("follow-up {id} is due now\n"))
        }
    }
}

fn second(instant: OffsetDateTime) -> String {
    instant.truncate_to_second().format(&Rfc3339).unwrap_or_else(|_| instant.to_string())
}

/// Prints to standard output; a reader that went away is not our failure.
fn print(text: &str) -> Result<()> {
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}
