//! The folders of the service: whether it can write durably there, and how much space is left.

mod folders;
mod probe;

use self::{
    folders::{Folders, folders},
    probe::{Kind, Probed, probe},
};
use super::finding::Finding;
use crate::settings::Settings;

const CHECK: &str = "disk";

const MIB: u64 = 1024 * 1024;

/// Free space below which orders fail soon.
const FULL: u64 = 64 * MIB;

/// Free space below which an operator should act (docs/operations.md).
const SCARCE: u64 = 5 * 1024 * MIB;

/// Free files below which orders fail soon: each document is one.
const FEW_FILES: u64 = 1_000;

/// Time of a durable write above which orders are slow, in milliseconds.
const SLOW: u128 = 100;

pub(super) fn check(settings: &Settings) -> Vec<Finding> {
    let (mut findings, mut disks) = (Vec::new(), Vec::<(Folders, Probed)>::new());
    for folders in folders(settings) {
        match probe(&folders.existing) {
            Ok(probed) => match disks.iter_mut().find(|(_, disk)| disk.id == probed.id) {
                Some((others, _)) => others.purposes.extend(folders.purposes),
                None => disks.push((folders, probed)),
            },
            Err(error) => findings.push(unusable(&folders, &error)),
        }
    }
    findings.extend(owner(settings));
    for (folders, disk) in disks {
        findings.extend(judge(settings, &folders, &disk));
    }
    findings
}

fn unusable(folders: &Folders, error: &std::io::Error) -> Finding {
    let text = format!("{folders}: nothing can be written durably: {error}");
    Finding::fail(CHECK, text, "Free space there, or make it writable for the user of the service")
}

/// Returns whether others than the user of the service can read or own its data.
fn owner(settings: &Settings) -> Vec<Finding> {
    let Some(owner) = folders::Owner::of(&settings.data_dir) else { return Vec::new() };
    let (shown, mut findings) = (settings.data_dir.display(), Vec::new());
    if !owner.is_us {
        findings.push(Finding::warn(
            CHECK,
            format!("{shown} belongs to the user {}, who may have other rights", owner.user),
            "Run this as the user of the service, such as by notary-orders-admin",
        ));
    }
    if owner.others_may_enter {
        findings.push(Finding::warn(
            CHECK,
            format!("{shown} has personal data, and other users can read it"),
            format!("Run `chmod 700 {shown}`"),
        ));
    }
    findings
}

fn judge(settings: &Settings, folders: &Folders, disk: &Probed) -> Vec<Finding> {
    let mut findings = space(settings, folders, disk);
    if folders.keep_data() && disk.kind == Kind::Memory {
        findings.push(Finding::warn(
            CHECK,
            format!("{folders}: the file system is in memory, and is lost with the machine"),
            "Name a folder on a disk in --data-dir (NOTARY_ORDERS_DATA_DIR)",
        ));
    }
    if folders.has("database") && disk.kind == Kind::Network {
        findings.push(Finding::warn(
            CHECK,
            format!("{folders}: the database is on a network file system, where SQLite may fail"),
            "Use a local disk, or PostgreSQL",
        ));
    }
    let sync = disk.sync_time.as_millis();
    if folders.keep_data() && sync > SLOW {
        findings.push(Finding::warn(
            CHECK,
            format!("{folders}: a durable write took {sync} ms; an order waits for several"),
            "Use a faster disk, or find what else writes there",
        ));
    }
    if findings.is_empty() {
        let (gib, direct) = (disk.free_bytes / (1024 * MIB), disk.is_direct);
        let direct = if direct { "direct writes work" } else { "it has no direct writes" };
        findings.push(Finding::ok(
            CHECK,
            format!("{folders}: {gib} GiB free, a durable write took {sync} ms, {direct}"),
        ));
    }
    findings
}

fn space(settings: &Settings, folders: &Folders, disk: &Probed) -> Vec<Finding> {
    let (free, spool) = (disk.free_bytes, u64::from(settings.spool_mb) * MIB);
    let mib = free / MIB;
    if free < FULL {
        let text = format!("{folders}: only {mib} MiB are free, so that orders fail soon");
        return vec![Finding::fail(CHECK, text, "Free space there")];
    }
    if disk.free_files.is_some_and(|files| files < FEW_FILES) {
        let text = format!("{folders}: the file system can take hardly any more files");
        return vec![Finding::fail(CHECK, text, "Remove files there, or use another file system")];
    }
    let mut findings = Vec::new();
    if folders.has("spool") && free < spool {
        findings.push(Finding::warn(
            CHECK,
            format!("{folders}: {mib} MiB are free, less than --spool-mb permits for uploads"),
            format!("Free space there, or lower --spool-mb (NOTARY_ORDERS_SPOOL_MB) to {mib}"),
        ));
    }
    if folders.keep_data() && free < SCARCE {
        findings.push(Finding::warn(
            CHECK,
            format!("{folders}: {mib} MiB are free"),
            "Free space there, or use a larger disk",
        ));
    }
    findings
}

#[cfg(test)]
mod tests {
    use std::{path::PathBuf, time::Duration};

    use super::*;
    use crate::{doctor::Level, settings::tests::settings};

    fn disk() -> Probed {
        Probed {
            id: 1,
            free_bytes: 100 * 1024 * MIB,
            free_files: Some(1_000_000),
            kind: Kind::Other,
            is_direct: true,
            sync_time: Duration::from_millis(2),
        }
    }

    fn levels(purposes: &[&'static str], disk: &Probed) -> Vec<Level> {
        let folders = Folders { existing: PathBuf::from("/d"), purposes: purposes.to_vec() };
        judge(&settings(&[]), &folders, disk).iter().map(|finding| finding.level).collect()
    }

    #[test]
    fn space_must_last_for_uploads_and_data() {
        let with = |free_bytes| Probed { free_bytes, ..disk() };
        let all = ["database", "documents", "mails", "spool"];
        assert_eq!(levels(&all, &disk()), [Level::Ok]);
        // Below the 8 GiB of --spool-mb.
        assert_eq!(levels(&all, &with(8_191 * MIB)), [Level::Warn]);
        assert_eq!(levels(&["database"], &with(8_191 * MIB)), [Level::Ok]);
        assert_eq!(levels(&all, &with(SCARCE - 1)), [Level::Warn, Level::Warn]);
        assert_eq!(levels(&all, &with(FULL - 1)), [Level::Fail]);
        assert_eq!(levels(&all, &Probed { free_files: Some(9), ..disk() }), [Level::Fail]);
        assert_eq!(levels(&all, &Probed { free_files: None, ..disk() }), [Level::Ok]);
    }

    #[test]
    fn data_must_be_on_a_durable_local_disk() {
        let memory = Probed { kind: Kind::Memory, ..disk() };
        assert_eq!(levels(&["database"], &memory), [Level::Warn]);
        assert_eq!(levels(&["spool"], &memory), [Level::Ok]);
        let network = Probed { kind: Kind::Network, ..disk() };
        assert_eq!(levels(&["database"], &network), [Level::Warn]);
        assert_eq!(levels(&["documents", "spool"], &network), [Level::Ok]);
        let slow = Probed { sync_time: Duration::from_millis(101), ..disk() };
        assert_eq!(levels(&["documents"], &slow), [Level::Warn]);
        assert_eq!(levels(&["spool"], &slow), [Level::Ok]);
    }
}
