//! The folders of the service: whether it can write durably there, and how much space is left.

use std::{
    fs, io,
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
};

use rustix::fs::fstatvfs;

use super::finding::{Failure, Findings, Subject};
use crate::settings::{Database, Settings};

const MIB: u64 = 1024 * 1024;

/// Free space below which orders fail soon.
const FULL: u64 = 64 * MIB;

/// Free space below which an operator should act (docs/operations.md).
const SCARCE: u64 = 5 * 1024 * MIB;

const SPOOL: &str = "spool";

/// File systems of other machines: SQLite loses writes there, because their locks do not hold between
/// machines, or at all.
const REMOTE: [&str; 13] = [
    "9p",
    "afs",
    "beegfs",
    "ceph",
    "cifs",
    "fuse.glusterfs",
    "fuse.sshfs",
    "glusterfs",
    "lustre",
    "nfs",
    "nfs4",
    "smb3",
    "smbfs",
];

pub(super) async fn check(of: &Subject, found: &mut Findings) -> Result<(), Failure> {
    if let Ok(Database::Sqlite(path)) = of.settings.database() {
        judge_file_system(&mounts(), &path, found);
    }
    for (purpose, folder) in folders(&of.settings) {
        let at = format!("{} ({purpose})", folder.display());
        match probe(&folder) {
            Ok(free) => judge(&at, purpose == SPOOL, free, of.settings.spool_mb, found),
            Err(error) => found.fail(
                format!("{at}: nothing can be written durably: {error}"),
                "Free space there, or make it writable for the user of the service",
            ),
        }
    }
    Ok(())
}

/// Returns the folders that the service writes to, or the nearest ones above them that exist.
pub(super) fn folders(settings: &Settings) -> Vec<(&'static str, PathBuf)> {
    let database = match settings.database() {
        Ok(Database::Sqlite(path)) => path.parent().map(Path::to_owned),
        _ => None,
    };
    let existing = |(purpose, folder): (_, Option<PathBuf>)| {
        let folder = std::path::absolute(folder?).ok()?;
        Some((purpose, folder.ancestors().find(|folder| folder.exists())?.to_owned()))
    };
    let spool = Some(settings.in_data_dir(SPOOL));
    let kept = [("database", database), ("documents", settings.documents())];
    let kept = kept.into_iter().chain([("mails", settings.mail_drop()), (SPOOL, spool)]);
    kept.filter_map(existing).collect()
}

/// Writes a block to a file without a name, which disappears at the end. Returns the free space.
fn probe(folder: &Path) -> io::Result<u64> {
    let file = tempfile::tempfile_in(folder)?;
    file.write_all_at(&[0; 4096], 0)?;
    file.sync_all()?;
    let space = fstatvfs(&file)?;
    Ok(space.f_bavail * space.f_frsize)
}

/// Judges whether an embedded database is on a disk of this machine.
fn judge_file_system(mounts: &str, database: &Path, found: &mut Findings) {
    let path = database.canonicalize().or_else(|_| std::path::absolute(database));
    let Some((kind, _)) = path.ok().and_then(|path| file_system(mounts, &path)) else { return };
    if REMOTE.contains(&kind) {
        found.warn(
            format!("SQLite at {} is on a file system of the type {kind}", database.display()),
            "Move it to a disk of this machine, or use PostgreSQL: over a network its locks do not \
             hold, and orders may be lost",
        );
    }
}

/// Returns the mounted file systems. Only Linux has this file.
pub(super) fn mounts() -> String {
    fs::read_to_string("/proc/self/mountinfo").unwrap_or_default()
}

/// Returns the type and the source of the file system of a path, as `/proc/self/mountinfo` has them
/// (manual page `proc_pid_mountinfo`).
pub(super) fn file_system<'a>(mounts: &'a str, path: &Path) -> Option<(&'a str, &'a str)> {
    let mounted = mounts.lines().filter_map(|line| {
        let (mount, kind) = line.split_once(" - ")?;
        let point = mount.split(' ').nth(4)?.replace("\\040", " ");
        let mut kind = kind.split(' ');
        path.starts_with(&point).then_some((point.len(), (kind.next()?, kind.next()?)))
    });
    // The last of equal ones covers the others.
    mounted.max_by_key(|(length, _)| *length).map(|(_, kind)| kind)
}

/// Judges the free space of a folder. The spool needs it for uploads only.
fn judge(at: &str, is_spool: bool, free: u64, spool_mb: u64, found: &mut Findings) {
    let mib = free / MIB;
    if free < FULL {
        let text = format!("{at}: only {mib} MiB are free, so that orders fail soon");
        found.fail(text, "Free space there");
    } else if is_spool && mib < spool_mb {
        found.warn(
            format!("{at}: {mib} MiB are free, less than --spool-mb permits for uploads"),
            format!("Free space there, or lower --spool-mb (NOTARY_ORDERS_SPOOL_MB) to {mib}"),
        );
    } else if !is_spool && free < SCARCE {
        let text = format!("{at}: {mib} MiB are free");
        found.warn(text, "Free space there, or use a larger disk");
    } else {
        found.ok(format!("{at}: {} GiB free", mib / 1024));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{doctor::Level, settings::tests::settings};

    #[test]
    fn disk_must_have_space() {
        for (is_spool, free, level) in [
            (false, 100 * 1024 * MIB, Level::Ok),
            // Below the 8 GiB of --spool-mb.
            (true, 8_191 * MIB, Level::Warn),
            (false, 8_191 * MIB, Level::Ok),
            (false, SCARCE - 1, Level::Warn),
            (false, FULL - 1, Level::Fail),
            (true, FULL - 1, Level::Fail),
        ] {
            let mut found = Findings::of("disk");
            judge("/d", is_spool, free, 8_192, &mut found);
            assert_eq!(found.levels(), [level], "{is_spool} {free}");
        }
    }

    #[test]
    fn database_on_the_disk_of_another_machine_is_named() {
        let mounts = "22 1 8:1 / / rw shared:1 - ext4 /dev/sda1 rw\n\
            30 22 0:50 / /srv rw - nfs4 host:/srv rw\n\
            31 30 8:2 / /srv/local rw - xfs /dev/sdb rw\n\
            32 22 0:51 / /mnt/our\\040share rw master:2 - cifs //host/share rw\n\
            33 22 8:3 / /over rw - ext4 /dev/sdc rw\n34 33 0:52 / /over rw - fuse.sshfs host: rw\n\
            half a line - nfs\n";
        for (path, warns) in [
            ("/var/lib/notary-orders/notary-orders.sqlite", false),
            ("/srv/orders.sqlite", true),
            ("/srv-2/orders.sqlite", false),
            ("/srv/local/orders.sqlite", false),
            ("/mnt/our share/orders.sqlite", true),
            ("/over/orders.sqlite", true),
        ] {
            let mut found = Findings::of("disk");
            judge_file_system(mounts, Path::new(path), &mut found);
            let expected: &[Level] = if warns { &[Level::Warn] } else { &[] };
            assert_eq!(found.levels(), expected, "{path}");
        }
    }

    #[test]
    fn probe_leaves_nothing_behind() {
        let folder = tempfile::tempdir_in(".").unwrap();
        assert!(probe(folder.path()).unwrap() > 0);
        assert_eq!(folder.path().read_dir().unwrap().count(), 0);
        probe(Path::new("/proc")).unwrap_err();
    }

    #[test]
    fn missing_folders_are_made_in_the_nearest_one() {
        let data = tempfile::tempdir().unwrap();
        let path = |name: &str| data.path().join(name);
        let flag = format!("--data-dir={}", path("a/b").display());
        let all = ["database", "documents", "mails", "spool"];
        assert_eq!(folders(&settings(&[&flag])), all.map(|name| (name, data.path().to_owned())));

        fs::create_dir_all(path("a/b/spool")).unwrap();
        let remote = ["--database-url=postgres://h/d", "--documents-url=s3://b"];
        let found = folders(&settings(&[&flag, remote[0], remote[1]]));
        assert_eq!(found, [("mails", path("a/b")), ("spool", path("a/b/spool"))]);
        assert_eq!(fs::read_dir(path("a/b")).unwrap().count(), 1);
    }
}
