//! The compliance guide names only commands and settings that exist.

use std::{fs, path::Path};

use crate::{
    harness::service_process::{output, run, text},
    wiring::Wiring,
};

#[test]
fn every_command_and_setting_of_the_guide_exists() {
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/compliance.md");
    let guide = fs::read_to_string(guide).unwrap();
    let wiring = Wiring::embedded();
    let all = run(&wiring, &["--help"]);
    let quoted: Vec<_> = guide.split('`').skip(1).step_by(2).collect();
    let mut commands = 0;
    for code in quoted {
        let mut words = code.split(' ');
        let is_command = code.starts_with("notary-orders ");
        let is_name = |word: &&str| word.chars().all(|it| it.is_ascii_lowercase() || it == '-');
        let help = if is_command {
            words.next();
            let names = words.clone().take_while(|word| is_name(word) && !word.starts_with("--"));
            let help = text(output(&wiring, &names.chain(["--help"]).collect::<Vec<_>>()));
            commands += 1;
            help
        } else {
            all.clone()
        };
        for flag in words.filter(|word| word.starts_with("--")) {
            assert!(help.contains(flag), "`{code}` has the unknown {flag}");
        }
    }
    assert!(commands > 30, "{commands} commands");
}
