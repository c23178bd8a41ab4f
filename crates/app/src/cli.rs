//! The command line.

use std::{
    collections::BTreeMap, ffi::OsStr, process::ExitCode, sync::mpsc::channel, thread,
    time::Duration,
};

use anyhow::{Context as _, Result};
use clap::{
    Arg, CommandFactory as _, FromArgMatches as _, Parser, Subcommand,
    builder::Resettable,
    error::{ContextKind, ContextValue},
};
use domain::{appointment::ZoneDatabase, ports::error_chain};
use operator::{
    Machine,
    adapters::Storage,
    commands::{
        self,
        output::{print, without_credentials},
    },
    settings::{Database, Settings, WrongSetting, is_wrong_setting, variables},
    signals::StopSignals,
};
use telemetry::{logging, traces::Traces};

use crate::{
    first_key,
    serve::{Service, Starting},
};

/// The exit status of a setting or an argument that is wrong: a restart does not help.
const WRONG_SETTING: u8 = 2;

/// The exit status of an erasure whose objects could not all be deleted yet.
const LEFT_OBJECTS: u8 = 3;

/// Threads for file operations of the document store, and of commands.
const BLOCKING_THREADS: usize = 8;

/// Time limit at the end for file operations in progress. A disk may not answer.
const BLOCKING_TIMEOUT: Duration = Duration::from_secs(2);

/// Time limit for the remaining lines of the log.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(2);

/// Time limit for printing. A reader may have stopped.
const PRINT_TIMEOUT: Duration = Duration::from_secs(1);

// Not `Debug`: URLs among the arguments contain passwords.
#[derive(Parser)]
#[command(
    name = "notary-orders",
    version = version(),
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
    #[command(flatten)]
    Operator(commands::Command),
}

/// Returns the version of the program, and that of its time zone data.
fn version() -> String {
    let time_zones = ZoneDatabase::built_in();
    format!("{} (time zone data: IANA {})", env!("CARGO_PKG_VERSION"), time_zones.version())
}

/// Runs the command of this process.
pub fn run() -> ExitCode {
    let CommandLine { command, settings } = match parse() {
        Ok(command_line) => command_line,
        Err(error) if error.use_stderr() => {
            complain(without_credentials(&error.to_string()));
            return WRONG_SETTING.into();
        }
        Err(help_or_version) => help_or_version.exit(),
    };
    let settings = Settings { environment: environment(), ..settings.without_blanks() };
    if let Some(time_zones) = settings.tzdata_dir.clone() {
        time_zones.install();
    }
    match start(command.unwrap_or(Command::Serve), settings) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            complain(format!("error: {}\n", without_credentials(&error_chain(error.as_ref()))));
            if is_wrong_setting(&error) {
                WRONG_SETTING.into()
            } else if error.is::<commands::LeftObjects>() {
                LEFT_OBJECTS.into()
            } else {
                ExitCode::FAILURE
            }
        }
    }
}

/// Parses arguments and variables. The doctor reports variables with invalid values, and checks the
/// rest without them.
fn parse() -> Result<CommandLine, clap::Error> {
    let (mut parser, mut wrong) = (CommandLine::command(), Vec::<(String, clap::Error)>::new());
    loop {
        let matches = hide_settings(parser.clone()).try_get_matches_from(std::env::args_os());
        let error = match matches.and_then(|matches| CommandLine::from_arg_matches(&matches)) {
            Ok(mut line) => {
                if let Some(Command::Operator(commands::Command::Doctor(it))) = &mut line.command {
                    for (variable, error) in &wrong {
                        it.note_wrong(variable, error);
                    }
                    return Ok(line);
                }
                return wrong.into_iter().next().map_or(Ok(line), |(_, error)| Err(error));
            }
            Err(error) => error,
        };
        let Some((setting, variable)) = setting_of(&parser, &error) else {
            return Err(wrong.into_iter().next().map_or(error, |(_, error)| error));
        };
        parser = parser.mut_arg(setting, |setting| setting.env(Resettable::Reset));
        wrong.push((variable, error));
    }
}

/// Hides the settings in the help of commands, which shows their own options.
fn hide_settings(program: clap::Command) -> clap::Command {
    let settings: Vec<_> =
        program.get_arguments().map(|setting| setting.clone().hide(true)).collect();
    program.mut_subcommands(|command| {
        let command = command.args(&settings);
        let note = "All settings apply, too; `notary-orders --help` shows them";
        hide_settings(command.after_help(note))
    })
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
    let names: Vec<_> = names.map(str::to_owned).collect();
    for (variable, nearest) in variables::unknown(&settings.environment, &names) {
        if let Command::Operator(commands::Command::Doctor(doctor)) = command {
            doctor.note_unknown(&variable, nearest.as_deref());
        } else {
            tracing::warn!(variable, nearest, "an unknown variable is ignored");
        }
    }
}

/// Starts the log and the runtime, and executes a command.
fn start(mut command: Command, settings: Settings) -> Result<()> {
    let traces = match command {
        Command::Serve => Traces::start(&settings.environment)
            .map_err(|e| WrongSetting::from(anyhow::Error::from(e)))?,
        Command::Operator(_) => None,
    };
    let log = logging::start(settings.is_json_log(), settings.log_level, traces.as_deref());
    report_unknown(&mut command, &settings);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .max_blocking_threads(BLOCKING_THREADS)
        .enable_all()
        .build()
        .context("the runtime could not be started")?;
    let machine = Machine { traces: traces.clone(), ..Machine::default() };
    let done = runtime.block_on(async {
        match command {
            Command::Serve => serve(&settings, &machine).await,
            Command::Operator(command) => {
                command.run(settings, machine, CommandLine::command()).await
            }
        }
    });
    runtime.shutdown_timeout(BLOCKING_TIMEOUT);
    if let Some(traces) = traces {
        traces.stop();
    }
    // Writes the remaining lines.
    within(FLUSH_TIMEOUT, move || drop(log));
    done
}

/// Prints to standard error, and does not wait for ever if nobody reads it.
fn complain(text: String) {
    within(PRINT_TIMEOUT, move || eprint!("{text}"));
}

/// Returns the environment variables that are valid UTF-8.
fn environment() -> BTreeMap<String, String> {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect()
}

/// Runs work that may block for ever, such as printing to a pipe that nobody reads. Waits for its
/// end, but no longer than a time limit.
fn within(limit: Duration, work: impl FnOnce() + Send + 'static) {
    let (done, ended) = channel();
    thread::spawn(move || {
        work();
        let _ = done.send(());
    });
    let _ = ended.recv_timeout(limit);
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
    let starting = Starting::listen(settings, machine).await?;
    let storage = Storage::open(settings).await?;
    let keys = storage.manage_keys(machine);
    let people = storage.manage_people(storage.sessions(settings, machine), machine, &[]);
    let names = starting.tls.as_ref().map(|tls| tls.names.clone()).unwrap_or_default();
    let service = starting.start(settings, machine, storage).await?;
    let (api, ops) = (service.api_address, service.ops_address);
    let messages_wait = !service.messages_leave.is_cancelled();
    if let Database::Sqlite(file) = settings.database()?
        && let Some(welcome) =
            first_key::welcome((&keys, &people), settings, &file, &names, [api, ops], messages_wait)
                .await?
    {
        within(PRINT_TIMEOUT, move || {
            if let Err(error) = print(&welcome) {
                let error = error_chain(error.as_ref());
                tracing::error!(error, "the first key was not printed");
            }
        });
    }
    Ok(service)
}
