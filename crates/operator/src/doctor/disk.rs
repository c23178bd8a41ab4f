//! The folders of the service: whether it can write durably there, and how much space is left.

use std::{
    collections::BTreeMap,
    fs, io,
    os::unix::fs::{FileExt as _, MetadataExt as _},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use rustix::{
    fs::{fstat, fstatfs, fstatvfs},
    process::geteuid,
};

use super::finding::{Findings, Subject};
use crate::{
    adapters::DATA_DIR,
    settings::{Database, Settings},
};

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

/// What folders are for, by the folder, or the nearest one above it that exists.
type Folders = BTreeMap<PathBuf, Vec<&'static str>>;

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

pub(super) async fn check(of: &Subject, found: &mut Findings) {
    judge_owner(&of.settings.data_dir, found);
    let mut disks = Vec::<(PathBuf, Vec<&str>, Disk)>::new();
    for (folder, purposes) in folders(&of.settings) {
        match probe(&folder) {
            Ok(probed) => match disks.iter_mut().find(|(_, _, disk)| disk.id == probed.id) {
                Some((_, others, _)) => others.extend(purposes),
                None => disks.push((folder, purposes, probed)),
            },
            Err(error) => found.fail(
                format!("{}: nothing can be written durably: {error}", shown(&folder, &purposes)),
                "Free space there, or make it writable for the user of the service",
            ),
        }
    }
    for (folder, purposes, disk) in &disks {
        judge(&shown(folder, purposes), purposes, disk, of.settings.spool_mb, found);
    }
}

fn shown(folder: &Path, purposes: &[&str]) -> String {
    format!("{} ({})", folder.display(), purposes.join(", "))
}

/// Returns the folders that the service writes to, each place once.
fn folders(settings: &Settings) -> Folders {
    let database = match settings.database() {
        Ok(Database::Sqlite(path)) => path.parent().map(Path::to_owned),
        _ => None,
    };
    let mut folders = Folders::new();
    for (purpose, folder) in [
        ("database", database),
        ("documents", settings.documents()),
        ("mails", settings.mail_drop()),
        ("spool", Some(settings.in_data_dir("spool"))),
    ] {
        let absolute = folder.and_then(|folder| std::path::absolute(folder).ok());
        let mut places = absolute.iter().flat_map(|folder| folder.ancestors());
        if let Some(existing) = places.find(|folder| folder.exists()) {
            folders.entry(existing.to_owned()).or_default().push(purpose);
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

/// Judges whether others than the user of the service can read or own its data.
fn judge_owner(data_dir: &Path, found: &mut Findings) {
    let Ok(folder) = fs::metadata(data_dir) else { return };
    let shown = data_dir.display();
    if folder.uid() != geteuid().as_raw() {
        found.warn(
            format!("{shown} belongs to the user {}, who may have other rights", folder.uid()),
            "Run this as the user of the service, such as by notary-orders-admin",
        );
    }
    if folder.mode() & 0o077 != 0 {
        found.warn(
            format!("{shown} has personal data, and other users can read it"),
            format!("Run `chmod 700 {shown}`"),
        );
    }
}

/// Judges a file system with folders for these purposes.
fn judge(at: &str, purposes: &[&str], disk: &Disk, spool_mb: u64, found: &mut Findings) {
    let Disk { free_bytes, kind, sync_time, .. } = disk;
    let (mib, sync, before) = (free_bytes / MIB, sync_time.as_millis(), found.list.len());
    let has = |purpose| purposes.contains(&purpose);
    // Whether the service keeps something there after a request.
    let keeps_data = purposes.iter().any(|purpose| *purpose != "spool");
    if *free_bytes < FULL {
        let text = format!("{at}: only {mib} MiB are free, so that orders fail soon");
        found.fail(text, "Free space there");
    } else if disk.free_files.is_some_and(|files| files < FEW_FILES) {
        let text = format!("{at}: the file system can take hardly any more files");
        found.fail(text, "Remove files there, or use another file system");
    } else {
        if has("spool") && mib < spool_mb {
            found.warn(
                format!("{at}: {mib} MiB are free, less than --spool-mb permits for uploads"),
                format!("Free space there, or lower --spool-mb (NOTARY_ORDERS_SPOOL_MB) to {mib}"),
            );
        }
        if keeps_data && *free_bytes < SCARCE {
            let text = format!("{at}: {mib} MiB are free");
            found.warn(text, "Free space there, or use a larger disk");
        }
    }
    if keeps_data && IN_MEMORY.contains(kind) {
        found.warn(
            format!("{at}: the file system is in memory, and is lost with the machine"),
            format!("Name a folder on a disk in {DATA_DIR}"),
        );
    }
    if has("database") && ON_A_NETWORK.contains(kind) {
        found.warn(
            format!("{at}: the database is on a network file system, where SQLite may fail"),
            "Use a local disk, or PostgreSQL",
        );
    }
    if keeps_data && *sync_time > SLOW {
        found.warn(
            format!("{at}: a durable write took {sync} ms; an order waits for several"),
            "Use a faster disk, or find what else writes there",
        );
    }
    if found.list.len() == before {
        found.ok(format!("{at}: {} GiB free, a durable write took {sync} ms", mib / 1024));
    }
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
            let mut found = Findings::of("disk");
            judge("/d", purposes, disk, 8_192, &mut found);
            assert_eq!(found.levels(), levels, "{purposes:?} {disk:?}");
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
        assert_eq!(found, [(data.path().to_owned(), all)].into());

        fs::create_dir_all(path("a/b/spool")).unwrap();
        let remote = ["--database-url=postgres://h/d", "--documents-url=s3://b"];
        let found = folders(&settings(&[&flag(&path("a/b")), remote[0], remote[1]]));
        let expected = [(path("a/b"), vec!["mails"]), (path("a/b/spool"), vec!["spool"])];
        assert_eq!(found, expected.into());
        assert_eq!(fs::read_dir(path("a/b")).unwrap().count(), 1);
    }
}
