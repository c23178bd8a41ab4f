use std::{collections::BTreeSet, fs, path::Path};

use crate::TARGETS;

const FUZZ: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz");

fn names(folder: &str) -> BTreeSet<String> {
    let entries = fs::read_dir(Path::new(FUZZ).join(folder)).unwrap();
    entries
        .map(|entry| entry.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned())
        .collect()
}

#[test]
fn every_property_has_a_target_and_a_corpus() {
    let targets: BTreeSet<String> = TARGETS.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(names("fuzz_targets"), targets);
    assert_eq!(names("corpus"), targets);
}

/// Runs the corpus and every input that once broke a property.
#[test]
fn properties_hold_for_known_inputs() {
    for (name, property) in TARGETS {
        let inputs = |folder: &str| {
            fs::read_dir(Path::new(FUZZ).join(folder).join(name))
                .into_iter()
                .flatten()
                .map(|entry| entry.unwrap().path())
        };
        let corpus: Vec<_> = inputs("corpus").collect();
        assert!(corpus.len() >= 3, "{name} has {} inputs", corpus.len());
        for path in corpus.into_iter().chain(inputs("found")) {
            let input = fs::read(&path).unwrap();
            std::panic::catch_unwind(|| property(&input))
                .unwrap_or_else(|_| panic!("{} breaks its property", path.display()));
        }
    }
}
