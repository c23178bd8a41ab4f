//! The packages of a release, as far as they can be made without a container engine, and the linters
//! of what makes them.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use test_servers::tools::of_python;

use crate::{
    harness::service_process::{ServiceProcess, output},
    wiring::Wiring,
};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap()
}

/// Lists the files of a folder whose names have an ending.
fn files(folder: &str, ending: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(root().join(folder)).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.to_str().unwrap().ends_with(ending)).collect()
}

/// Runs a linter of the tests on files. actionlint finds shellcheck in `PATH`.
fn lint(linter: &str, files: &[PathBuf]) -> Output {
    let program = of_python(linter);
    let path = format!("{}:{}", program.parent().unwrap().display(), env::var("PATH").unwrap());
    Command::new(&program).args(files).env("PATH", path).current_dir(root()).output().unwrap()
}

/// Checks that a linter accepts the files, and rejects the first after a change.
fn check(linter: &str, files: &[PathBuf], (old, new): (&str, &str)) {
    assert!(!files.is_empty(), "{linter}");
    let linted = lint(linter, files);
    assert!(linted.status.success() && linted.stdout.is_empty(), "{linter}: {linted:?}");
    let text = fs::read_to_string(&files[0]).unwrap();
    assert!(text.contains(old), "{linter}: {old}");
    let folder = tempfile::tempdir().unwrap();
    let changed = folder.path().join(files[0].file_name().unwrap());
    fs::write(&changed, text.replacen(old, new, 1)).unwrap();
    assert!(!lint(linter, &[changed]).status.success(), "{linter} overlooks {new}");
}

#[test]
fn workflows_pass_actionlint() {
    let workflows = files(".github/workflows", ".yml");
    check("actionlint", &workflows, ("runs-on: ubuntu", "runs-upon: ubuntu"));
    check("actionlint", &workflows, ("- run: ", "- run: echo $1 $UNQUOTED; "));
}

#[test]
fn dockerfile_passes_hadolint() {
    check("hadolint", &[root().join("Dockerfile")], ("USER 10001:10001", "USER root"));
}

#[test]
fn scripts_pass_shellcheck() {
    let folders = ["scripts", "scripts/release", "scripts/topologies"];
    let scripts: Vec<_> = folders.iter().flat_map(|folder| files(folder, ".sh")).collect();
    assert!(scripts.len() > 10, "{scripts:?}");
    check("shellcheck", &scripts, ("set -euo pipefail", "rm $1/*"));
}

/// Returns the names of the jobs of a workflow, each with its text.
fn jobs(workflow: &str) -> Vec<(&str, String)> {
    let (_, lines) = workflow.split_once("\njobs:\n").unwrap();
    let mut jobs = Vec::<(&str, String)>::new();
    for line in lines.lines() {
        let name = line.strip_prefix("  ").and_then(|line| line.strip_suffix(':'));
        match (name, jobs.last_mut()) {
            (Some(name), _) if !name.starts_with(' ') => jobs.push((name, String::new())),
            (_, last) => last.unwrap().1.extend([line, "\n"]),
        }
    }
    jobs
}

/// Follows `needs` from each job of the release.
#[test]
fn release_builds_only_after_the_tests_pass() {
    let workflow = read(".github/workflows/release.yml");
    let jobs = jobs(&workflow);
    assert!(jobs.len() >= 6, "{jobs:?}");
    let needed = |name: &str| {
        let (_, job) = jobs.iter().find(|(other, _)| *other == name).unwrap();
        let needs = job.lines().find_map(|line| line.strip_prefix("    needs: "));
        let names = needs.unwrap_or_default().trim_matches(['[', ']']).split(", ");
        names.filter(|name| !name.is_empty()).map(str::to_owned).collect::<Vec<_>>()
    };
    let (_, test) = jobs.iter().find(|(name, _)| *name == "test").unwrap();
    assert!(test.contains("uses: ./.github/workflows/test.yml"), "{test}");
    for (name, _) in jobs.iter().filter(|(name, _)| !["version", "test"].contains(name)) {
        let (mut waiting, mut seen) = (vec![(*name).to_owned()], Vec::new());
        while let Some(next) = waiting.pop() {
            waiting.extend(needed(&next));
            seen.push(next);
        }
        assert!(seen.contains(&"test".to_owned()), "{name} needs only {seen:?}");
    }
    assert!(needed("publish").contains(&"try".to_owned()));
}

/// A tag can be moved to other code; the digest of a commit cannot.
#[test]
fn workflows_name_actions_by_digest_and_releases_are_attested() {
    let mut attested = 0;
    for file in files(".github/workflows", ".yml") {
        let workflow = fs::read_to_string(&file).unwrap();
        let used = workflow
            .lines()
            .filter_map(|line| line.trim_start_matches(['-', ' ']).strip_prefix("uses: "));
        for action in used.filter(|action| !action.starts_with("./")) {
            let (name, pinned) = action.split_once('@').unwrap();
            let (digest, version) = pinned.split_once(" # v").unwrap_or_else(|| panic!("{action}"));
            let is_digest =
                digest.len() == 40 && digest.bytes().all(|byte| byte.is_ascii_hexdigit());
            assert!(is_digest && version.split('.').count() == 3, "{action}");
            attested += usize::from(name == "actions/attest-build-provenance");
        }
    }
    assert_eq!(attested, 2, "the files and the image");
    assert!(read(".github/dependabot.yml").contains("package-ecosystem: github-actions"));
}

/// Returns the images of others that a file names. Those of this repository have no version.
fn images(file: &Path) -> Vec<String> {
    let text = fs::read_to_string(file).unwrap();
    let image = |line: &str| {
        let names = ["FROM ", "--from=", "image: ", "container: "];
        let (_, image) = names.iter().find_map(|name| line.split_once(name))?;
        let image = image.split_whitespace().next()?;
        image.contains(':').then(|| image.to_owned())
    };
    text.lines().filter_map(image).collect()
}

/// A version can be moved to another image; a digest cannot.
#[test]
fn images_have_digests_but_for_those_that_the_guide_names() {
    let mut sources = vec![root().join("Dockerfile"), root().join("compose.yaml")];
    sources.extend(files(".github/workflows", ".yml"));
    let images: Vec<String> = sources.iter().flat_map(|source| images(source)).collect();
    assert!(images.len() > 5, "{images:?}");
    let pinned = |image: &&String| image.contains("@sha256:");
    let (with, without): (Vec<_>, Vec<_>) = images.iter().partition(pinned);
    for image in with {
        let (_, digest) = image.split_once("@sha256:").unwrap();
        assert!(
            digest.len() == 64 && digest.bytes().all(|byte| byte.is_ascii_hexdigit()),
            "{image}"
        );
    }
    let mut names: Vec<_> =
        without.iter().filter_map(|image| Some(image.split_once(':')?.0)).collect();
    names.sort_unstable();
    assert_eq!(names, ["axllent/mailpit", "haproxy", "postgres", "rust"]);
    let guide = read("docs/releases.md");
    assert!(names.iter().all(|name| guide.contains(&format!("`{name}`"))));
}

#[test]
fn toolchain_is_the_same_everywhere() {
    let toolchain = read("rust-toolchain.toml");
    let (_, version) = toolchain.split_once("channel = \"").unwrap();
    let version = version.split('"').next().unwrap();
    for (file, count) in [("Dockerfile", 1), (".github/workflows/release.yml", 1)] {
        let text = read(file);
        let found: Vec<_> = text.split("rust:").skip(1).collect();
        assert_eq!(found.len(), count, "{file}");
        for image in found {
            assert!(image.starts_with(&format!("{version}-")), "{file}: {image}");
        }
    }
}

#[test]
fn health_check_of_the_image_follows_the_service() {
    let dockerfile = read("Dockerfile");
    let (_, check) = dockerfile.split_once("HEALTHCHECK").unwrap();
    let (_, check) = check.split_once("CMD ").unwrap();
    let words: Vec<String> = serde_json::from_str(check.lines().next().unwrap()).unwrap();
    let [program, command] = &words[..] else { panic!("{words:?}") };
    assert_eq!(program, "/usr/local/bin/notary-orders");
    let wiring = Wiring::embedded();
    let service = ServiceProcess::start(&wiring, &[]);
    let address = service.ops_address;
    // The image listens on every address.
    let flag = format!("--ops-listen=0.0.0.0:{}", address.port());
    let healthy = output(&wiring, &[&flag, command]);
    assert!(healthy.status.success() && healthy.stdout.is_empty(), "{healthy:?}");
    let other = format!("--ops-listen={}", service.address);
    let wrong = output(&wiring, &[&other, command]);
    assert_eq!(wrong.status.code(), Some(1), "the API has no /healthz: {wrong:?}");
    drop(service);
    let stopped = output(&wiring, &[&flag, command]);
    assert_eq!(stopped.status.code(), Some(1), "{stopped:?}");
    let error = String::from_utf8(stopped.stderr).unwrap();
    assert!(error.starts_with(&format!("error: no answer at {address}: ")), "{error}");
}

/// Runs a script of the release.
fn script(name: &str, arguments: &[&Path]) -> String {
    let mut command = Command::new(root().join("scripts/release").join(name));
    let output = command.args(arguments).output().unwrap();
    assert!(output.status.success(), "{name}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn archive_has_program_manual_completions_licences_and_checksums() {
    let program = Path::new(env!("CARGO_BIN_EXE_notary-orders"));
    let folder = tempfile::tempdir().unwrap();
    let description = folder.path().join("description");
    script("describe.sh", &[program, &description]);
    let licences = fs::read_to_string(description.join("THIRD-PARTY-LICENCES.txt")).unwrap();
    for expected in [
        "\nactix-web 4.",
        "\nring 0.",
        "SQLite",
        "swagger-ui",
        "Permission is hereby",
        "\nthe standard library of Rust: MIT OR Apache-2.0\n",
        "\nmusl: MIT\n",
        "Copyright (c) 2005-2020 Rich Felker",
    ] {
        assert!(licences.contains(expected), "{expected}");
    }
    assert!(!licences.contains("notary-orders-domain") && !licences.contains("mockall "));

    // The debug program is large, and its content is no concern of this test.
    let small = folder.path().join("small");
    fs::write(&small, "#!/bin/sh\n").unwrap();
    let packed = [&small, Path::new("x86_64"), &description, folder.path()];
    let archive = script("pack.sh", &packed);
    let bytes = fs::read(archive.trim()).unwrap();
    assert!(fs::read(script("pack.sh", &packed).trim()).unwrap() == bytes, "not reproducible");
    let unpacked = folder.path().join("unpacked");
    fs::create_dir(&unpacked).unwrap();
    let shell = "tar -xz --strip-components 1 -f $0 && sha256sum --check SHA256SUMS";
    let mut shell_command = Command::new("sh");
    let checked = shell_command.args(["-c", shell, archive.trim()]).current_dir(&unpacked);
    let checked = checked.output().unwrap();
    assert!(checked.status.success(), "{checked:?}");
    let checked = String::from_utf8(checked.stdout).unwrap();
    for file in [
        "notary-orders",
        "notary-orders.1",
        "completions/notary-orders",
        "completions/_notary-orders",
        "completions/notary-orders.fish",
        "THIRD-PARTY-LICENCES.txt",
        "LICENSE-MIT",
        "README.md",
        "docs/operations.md",
        "docs/quick-start.md",
        "docs/adr/README.md",
        "docs/examples/deed-of-trust.pdf",
        "docs/images/console.png",
        "docs/notary-orders.postman_collection.json",
        "docs/openapi.json",
        "systemd/notary-orders.service",
    ] {
        assert!(checked.contains(&format!("{file}: OK\n")), "{file} is missing: {checked}");
    }
}
