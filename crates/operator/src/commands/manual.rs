//! Completions of the command line, and its manual page.

use anyhow::Result;
use clap::{Arg, Command, builder::StyledStr};
use clap_complete::{Shell, generate};
use clap_mangen::{
    Man,
    roff::{Roff, bold, roman},
};

use super::output::print;

/// The sections that clap does not know, in the language of manual pages.
const MORE_SECTIONS: &str = r".SH FILES
.TP
\fB/etc/notary\-orders/notary\-orders.env\fR
Settings of the Debian package.
.TP
\fB/var/lib/notary\-orders\fR
Data directory of the Debian package.
.SH EXIT STATUS
.TP
\fB0\fR
Success, or a graceful stop.
.TP
\fB1\fR
A failure; standard error has its cause in one line.
.TP
\fB2\fR
An argument or a setting is wrong; a restart does not help.
.SH SEE ALSO
.TP
\fB/usr/share/doc/notary\-orders/operations.md\fR
The operations guide.
";

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
    print(&(String::from_utf8(page)? + MORE_SECTIONS))
}

/// Adds the commands below a command, each with its own arguments.
fn add_commands(page: &mut Roff, parent: &Command) {
    let is_shown = |command: &&Command| !command.is_hide_set() && command.get_name() != "help";
    for command in parent.get_subcommands().filter(is_shown) {
        if command.has_subcommands() {
            add_commands(page, command);
            continue;
        }
        let usage = command.clone().render_usage().to_string();
        page.control("TP", []);
        page.text([bold(usage.trim_start_matches("Usage: ").trim())]);
        page.text([roman(sentence(command.get_about()))]);
        // Without the settings and `--help`.
        let is_own = |argument: &&Arg| !argument.is_global_set() && argument.get_id() != "help";
        for argument in command.get_arguments().filter(is_own) {
            page.control("br", []);
            page.text([roman(format!("{argument}: {}", sentence(argument.get_help())))]);
        }
    }
}

fn sentence(text: Option<&StyledStr>) -> String {
    text.map(|text| format!("{text}.")).unwrap_or_default()
}
