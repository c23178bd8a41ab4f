//! Completions of the command line, and its manual page.

use std::fmt::Write as _;

use anyhow::Result;
use clap::{Arg, Command};
use clap_complete::{Shell, generate};
use clap_mangen::{
    Man,
    roff::{Roff, bold, roman},
};

use super::output::print;

/// Prints the completions for a shell.
pub(super) fn print_completions(shell: Shell, mut program: Command) -> Result<()> {
    let (name, mut script) = (program.get_name().to_owned(), Vec::new());
    generate(shell, &mut program, name, &mut script);
    // For bash, the library writes the hyphen of the program's name in two ways, and so finds no
    // command below it: https://github.com/clap-rs/clap/issues/6421.
    print(&String::from_utf8(script)?.replace("notary__subcmd__orders", "notary__orders"))
}

/// Prints the manual page: one for all commands, so that a search finds everything.
pub(super) fn print_page(program: Command) -> Result<()> {
    // The settings have a section of their own.
    let program = program.override_usage("notary-orders [SETTINGS] [COMMAND]");
    let mut commands = Roff::new();
    commands.control("SH", ["COMMANDS"]);
    let mut built = program.clone();
    built.build();
    add_commands(&mut commands, &built);
    // An empty date is left out, and the version would be read as the date.
    let man = Man::new(program).title("NOTARY-ORDERS").date(" ").manual("notary-orders");
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    commands.to_writer(&mut page)?;
    man.render_options_section(&mut page)?;
    more_sections().to_writer(&mut page)?;
    print(&String::from_utf8(page)?)
}

/// Adds the commands below a command, each with its own arguments.
fn add_commands(page: &mut Roff, parent: &Command) {
    let commands = parent.get_subcommands().filter(|command| !command.is_hide_set());
    for command in commands.filter(|command| command.get_name() != "help") {
        if command.has_subcommands() {
            add_commands(page, command);
            continue;
        }
        let usage = command.clone().render_usage().to_string();
        page.control("TP", []);
        page.text([bold(usage.trim_start_matches("Usage: ").trim())]);
        page.text([roman(sentence(command.get_about()))]);
        for argument in command.get_arguments().filter(|argument| is_own(argument)) {
            let mut line = argument.to_string();
            if let Some(help) = argument.get_help() {
                // Never fails: it writes to memory.
                let _ = write!(line, ": {help}.");
            }
            page.control("br", []);
            page.text([roman(line)]);
        }
    }
}

fn sentence(text: Option<&clap::builder::StyledStr>) -> String {
    text.map(|text| format!("{text}.")).unwrap_or_default()
}

/// Returns whether an argument is neither a setting nor `--help`.
fn is_own(argument: &Arg) -> bool {
    !argument.is_global_set() && !["help", "version"].contains(&argument.get_id().as_str())
}

fn more_sections() -> Roff {
    let mut page = Roff::new();
    for (title, items) in [
        (
            "FILES",
            &[
                ("/etc/notary-orders/notary-orders.env", "Settings of the Debian package."),
                ("/var/lib/notary-orders", "Data directory of the Debian package."),
            ][..],
        ),
        (
            "EXIT STATUS",
            &[
                ("0", "Success, or a graceful stop."),
                ("1", "A failure; standard error has its cause in one line."),
                ("2", "An argument or a setting cannot be read."),
            ],
        ),
        ("SEE ALSO", &[("/usr/share/doc/notary-orders/operations.md", "The operations guide.")]),
    ] {
        page.control("SH", [title]);
        for (name, text) in items {
            page.control("TP", []);
            page.text([bold(*name)]);
            page.text([roman(*text)]);
        }
    }
    page
}
