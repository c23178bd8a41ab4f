//! The folders of the service: whether it can write durably there, and how much space is left.

use std::{
    fmt, fs, io,
    os::unix::fs::{FileExt as _, MetadataExt as _},
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use rustix::{
    fs::{fstat, fstatfs, fstatvfs},
    process::geteuid,
};

use super::finding::{Check, Finding, Subject};
use crate::settings::{Database, Settings};

const CHECK: Check = Check("disk");

const MIB: u64 = 1024 * 1024;

/// Free space below which orders fail soon.
const FULL: u64 = 64 * MIB;

/// Free space below which an operator should act (docs/operations.md).
const SCARCE: u64 = 5 * 1024 * MIB;

/// Free files below which orders fail soon: each document is one.
const FEW_FILES: u64 = 1_000;

/// Time of a durable write above which orders are slow.
const SLOW: Duration = Duration::from_millis(100);

/// File systems by the number in `statfs`.
const IN_MEMORY: [i64; 2] = [0x0102_1994, 0x8584_58f6];
const ON_A_NETWORK: [i64; 4] = [0x6969, 0xff53_4d42, 0xfe53_4d42, 0x517b];

/// Folders of the service that are in one place.
#[derive(Debug, PartialEq, Eq)]
struct Folders {
    /// The folder, or the nearest one above it that exists.
    existing: PathBuf,
    /// What they are for.
    purposes: Vec<&'static str>,
}

/// What is known of the file system of a folder.
#[derive(Debug)]
struct Disk {
    /// Identifies the file system.
    id: u64,
    free_bytes: u64,
    /// `None` if the file system has no limit.
    free_files: Option<u64>,
    /// The number of the file system in `statfs`.
    kind: i64,
    /// Time until a block was on the disk.
    sync_time: Duration,
}

impl Folders {
    fn has(&self, purpose: &str) -> bool {
        self.purposes.contains(&purpose)
    }

    /// Returns whether the service keeps something there after a request.
    fn keep_data(&self) -> bool {
        self.purposes.iter().any(|purpose| *purpose != "spool")
    }
}

impl fmt::Display for Folders {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} ({})", self.existing.display(), self.purposes.join(", "))
    }
}

pub(super) async fn check(of: Arc<Subject>) -> Vec<Finding> {
    let (mut findings, mut disks) = (owner(&of.settings), Vec::<(Folders, Disk)>::new());
    for folders in folders(&of.settings) {
        match probe(&folders.existing) {
            Ok(probed) => match disks.iter_mut().find(|(_, disk)| disk.id == probed.id) {
                Some((others, _)) => others.purposes.extend(folders.purposes),
                None => disks.push((folders, probed)),
            },
            Err(error) => findings.push(CHECK.fail(
                format!("{folders}: nothing can be written durably: {error}"),
                "Free space there, or make it writable for the user of the service",
            )),
        }
    }
    findings.extend(disks.iter().flat_map(|(folders, disk)| judge(&of.settings, folders, disk)));
    findings
}

/// Returns the folders that the service writes to, each place once.
fn folders(settings: &Settings) -> Vec<Folders> {
    let database = match settings.database() {
        Ok(Database::Sqlite(path)) => path.parent().map(Path::to_owned),
        _ => None,
    };
    let mut folders = Vec::<Folders>::new();
    for (purpose, folder) in [
        ("database", database),
        ("documents", settings.documents()),
        ("mails", settings.mail_drop()),
        ("spool", Some(settings.in_data_dir("spool"))),
    ] {
        let absolute = folder.and_then(|folder| std::path::absolute(folder).ok());
        let existing = absolute.as_deref().and_then(|folder| {
            folder.ancestors().find(|folder| folder.exists()).map(Path::to_owned)
        });
        let Some(existing) = existing else { continue };
        match folders.iter_mut().find(|other| other.existing == existing) {
            Some(other) => other.purposes.push(purpose),
            None => folders.push(Folders { existing, purposes: vec![purpose] }),
        }
    }
    folders
}

/// Writes a block to a file without a name, which disappears at the end.
fn probe(folder: &Path) -> io::Result<Disk> {
    let file = tempfile::tempfile_in(folder)?;
    let began = Instant::now();
    file.write_all_at(&[0; 4096], 0)?;
    file.sync_all()?;
    let (sync_time, space) = (began.elapsed(), fstatvfs(&file)?);
    Ok(Disk {
        id: fstat(&file)?.st_dev,
        free_bytes: space.f_bavail * space.f_frsize,
        free_files: (space.f_files > 0).then_some(space.f_favail),
        kind: fstatfs(&file)?.f_type,
        sync_time,
    })
}

/// Returns whether others than the user of the service can read or own its data.
fn owner(settings: &Settings) -> Vec<Finding> {
    let Ok(folder) = fs::metadata(&settings.data_dir) else { return Vec::new() };
    let (shown, mut findings) = (settings.data_dir.display(), Vec::new());
    if folder.uid() != geteuid().as_raw() {
        findings.push(CHECK.warn(
            format!("{shown} belongs to the user {}, who may have other rights", folder.uid()),
            "Run this as the user of the service, such as by notary-orders-admin",
        ));
    }
    if folder.mode() & 0o077 != 0 {
        findings.push(CHECK.warn(
            format!("{shown} has personal data, and other users can read it"),
            format!("Run `chmod 700 {shown}`"),
        ));
    }
    findings
}

fn judge(settings: &Settings, folders: &Folders, disk: &Disk) -> Vec<Finding> {
    let mut findings = space(settings, folders, disk);
    if folders.keep_data() && IN_MEMORY.contains(&disk.kind) {
        findings.push(CHECK.warn(
            format!("{folders}: the file system is in memory, and is lost with the machine"),
            "Name a folder on a disk in --data-dir (NOTARY_ORDERS_DATA_DIR)",
        ));
    }
    if folders.has("database") && ON_A_NETWORK.contains(&disk.kind) {
        findings.push(CHECK.warn(
            format!("{folders}: the database is on a network file system, where SQLite may fail"),
            "Use a local disk, or PostgreSQL",
        ));
    }
    let sync = disk.sync_time.as_millis();
    if folders.keep_data() && disk.sync_time > SLOW {
        findings.push(CHECK.warn(
            format!("{folders}: a durable write took {sync} ms; an order waits for several"),
            "Use a faster disk, or find what else writes there",
        ));
    }
    if findings.is_empty() {
        let gib = disk.free_bytes / (1024 * MIB);
        let text = format!("{folders}: {gib} GiB free, a durable write took {sync} ms");
        findings.push(CHECK.ok(text));
    }
    findings
}

fn space(settings: &Settings, folders: &Folders, disk: &Disk) -> Vec<Finding> {
    let (free, spool) = (disk.free_bytes, u64::from(settings.spool_mb) * MIB);
    let mib = free / MIB;
    if free < FULL {
        let text = format!("{folders}: only {mib} MiB are free, so that orders fail soon");
        return vec![CHECK.fail(text, "Free space there")];
    }
    if disk.free_files.is_some_and(|files| files < FEW_FILES) {
        let text = format!("{folders}: the file system can take hardly any more files");
        return vec![CHECK.fail(text, "Remove files there, or use another file system")];
    }
    let mut findings = Vec::new();
    if folders.has("spool") && free < spool {
        findings.push(CHECK.warn(
            format!("{folders}: {mib} MiB are free, less than --spool-mb permits for uploads"),
            format!("Free space there, or lower --spool-mb (NOTARY_ORDERS_SPOOL_MB) to {mib}"),
        ));
    }
    if folders.keep_data() && free < SCARCE {
        findings.push(CHECK.warn(
            format!("{folders}: {mib} MiB are free"),
            "Free space there, or use a larger disk",
        ));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{doctor::Level, settings::tests::settings};

    fn disk() -> Disk {
        Disk {
            id: 1,
            free_bytes: 100 * 1024 * MIB,
            free_files: Some(1_000_000),
            kind: 0,
            sync_time: Duration::from_millis(2),
        }
    }

    #[test]
    fn disk_must_be_durable_local_fast_and_have_space() {
        let all = &["database", "documents", "mails", "spool"][..];
        let with = |free_bytes| Disk { free_bytes, ..disk() };
        let (memory, network) =
            (Disk { kind: IN_MEMORY[0], ..disk() }, Disk { kind: ON_A_NETWORK[0], ..disk() });
        let slow = Disk { sync_time: Duration::from_millis(101), ..disk() };
        for (purposes, disk, levels) in [
            (all, &disk(), &[Level::Ok][..]),
            // Below the 8 GiB of --spool-mb.
            (all, &with(8_191 * MIB), &[Level::Warn]),
            (&["database"], &with(8_191 * MIB), &[Level::Ok]),
            (all, &with(SCARCE - 1), &[Level::Warn, Level::Warn]),
            (all, &with(FULL - 1), &[Level::Fail]),
            (all, &Disk { free_files: Some(9), ..disk() }, &[Level::Fail]),
            (all, &Disk { free_files: None, ..disk() }, &[Level::Ok]),
            (&["database"], &memory, &[Level::Warn]),
            (&["spool"], &memory, &[Level::Ok]),
            (&["database"], &network, &[Level::Warn]),
            (&["documents", "spool"], &network, &[Level::Ok]),
            (&["documents"], &slow, &[Level::Warn]),
            (&["spool"], &slow, &[Level::Ok]),
        ] {
            let folders = Folders { existing: PathBuf::from("/d"), purposes: purposes.to_vec() };
            let found = judge(&settings(&[]), &folders, disk);
            let found: Vec<_> = found.iter().map(|finding| finding.level).collect();
            assert_eq!(found, levels, "{folders} {disk:?}");
        }
    }

    #[test]
    fn probe_leaves_nothing_behind() {
        let folder = tempfile::tempdir_in(".").unwrap();
        let probed = probe(folder.path()).unwrap();
        assert!(probed.free_bytes > 0, "{probed:?}");
        assert_eq!(folder.path().read_dir().unwrap().count(), 0);
        assert!(IN_MEMORY.contains(&probe(Path::new("/dev/shm")).unwrap().kind));
        probe(Path::new("/proc")).unwrap_err();
    }

    #[test]
    fn missing_folders_are_made_in_the_nearest_one() {
        let data = tempfile::tempdir().unwrap();
        let path = |name: &str| data.path().join(name);
        let flag = |folder: &Path| format!("--data-dir={}", folder.display());
        let found = folders(&settings(&[&flag(&path("a/b"))]));
        let all = vec!["database", "documents", "mails", "spool"];
        assert_eq!(found, [Folders { existing: data.path().to_owned(), purposes: all }]);

        fs::create_dir_all(path("a/b/spool")).unwrap();
        let remote = ["--database-url=postgres://h/d", "--documents-url=s3://b"];
        let found = folders(&settings(&[&flag(&path("a/b")), remote[0], remote[1]]));
        assert_eq!(
            found,
            [
                Folders { existing: path("a/b"), purposes: vec!["mails"] },
                Folders { existing: path("a/b/spool"), purposes: vec!["spool"] },
            ]
        );
        assert_eq!(fs::read_dir(path("a/b")).unwrap().count(), 1);
    }
}
