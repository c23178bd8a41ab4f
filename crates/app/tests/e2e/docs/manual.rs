//! The completions and the manual page.

use std::{
    fs,
    process::{Command, Output, Stdio},
};

use crate::{harness::service_process::run, wiring::Wiring};

fn printed(arguments: &[&str]) -> String {
    run(&Wiring::embedded(), arguments)
}

/// Returns the first words of a part of the help.
fn listed(help: &str, heading: &str, begins: &str) -> Vec<String> {
    let (_, part) = help.split_once(heading).unwrap();
    let lines = part.lines().skip(1).take_while(|line| line.is_empty() || line.starts_with(' '));
    let words = lines.filter_map(|line| {
        let line = line.strip_prefix(begins)?;
        let first = line.split([' ', '=']).next()?;
        (!first.is_empty() && line.starts_with(first)).then(|| first.to_owned())
    });
    words.collect()
}

/// Returns every command, and every setting.
fn commands_and_settings() -> (Vec<String>, Vec<String>) {
    let help = printed(&["-h"]);
    let mut commands = listed(&help, "Commands:", "  ");
    commands.retain(|command| command != "help");
    let settings = listed(&help, "Settings:", "      --");
    assert!(commands.contains(&"doctor".to_owned()) && commands.len() > 10, "{help}");
    assert!(settings.contains(&"trusted-proxies".to_owned()) && settings.len() > 30, "{help}");
    (commands, settings)
}

fn check(program: &str, arguments: &[&str], text: &str) -> Output {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), text).unwrap();
    let mut command = Command::new(program);
    let output = command.args(arguments).arg(file.path()).stdin(Stdio::null()).output();
    output.unwrap_or_else(|error| panic!("{program}: {error}; scripts/test.sh installs it"))
}

#[test]
fn completions_name_every_command_and_setting() {
    let (commands, settings) = commands_and_settings();
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let script = printed(&["completions", shell]);
        for name in commands.iter().chain(&settings) {
            assert!(script.contains(name), "{shell}: {name}");
        }
    }
    let bash = check("bash", &["-n"], &printed(&["completions", "bash"]));
    assert!(bash.status.success() && bash.stderr.is_empty(), "{bash:?}");
}

#[test]
fn bash_completes_commands_and_their_arguments() {
    let script = printed(&["completions", "bash"]);
    for (typed, expected) in [
        ("doct", "doctor"),
        ("--scan-u", "--scan-url"),
        ("--log-format j", "json"),
        ("keys rev", "revoke"),
        ("keys issue --na", "--name"),
        ("completions z", "zsh"),
    ] {
        let ask = format!(
            "COMP_WORDS=(notary-orders {typed}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))\n\
             _notary__orders notary-orders \"${{COMP_WORDS[COMP_CWORD]}}\" \
             \"${{COMP_WORDS[COMP_CWORD - 1]}}\"\necho \"${{COMPREPLY[@]}}\"\n"
        );
        let completed = check("bash", &[], &format!("{script}\n{ask}"));
        assert_eq!(String::from_utf8_lossy(&completed.stdout).trim(), expected, "{typed}");
    }
}

#[test]
fn manual_page_is_valid_and_names_every_command_and_setting() {
    let page = printed(&["man"]);
    let linted = check("mandoc", &["-T", "lint", "-W", "error"], &page);
    assert!(linted.status.success(), "{linted:?}");
    let rendered = check("mandoc", &["-T", "ascii", "-O", "width=200"], &page);
    let text = String::from_utf8(rendered.stdout).unwrap();
    // Bold letters are printed twice.
    let mut plain = String::new();
    for character in text.chars() {
        if character == '\u{8}' {
            plain.pop();
        } else {
            plain.push(character);
        }
    }
    let (commands, settings) = commands_and_settings();
    for command in commands {
        assert!(plain.contains(&format!("notary-orders {command}")), "{command}: {plain}");
    }
    for setting in settings {
        assert!(plain.contains(&format!("--{setting} ")), "{setting}: {plain}");
    }
    for heading in ["NAME", "SYNOPSIS", "COMMANDS", "SETTINGS", "FILES", "EXIT STATUS"] {
        assert!(plain.lines().any(|line| line == heading), "{heading}: {plain}");
    }
}
