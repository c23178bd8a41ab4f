//! Whether the folders of the service lie on devices that the system encrypts.

use std::{
    collections::BTreeMap,
    ffi::OsStr,
    fs,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use rustix::fs::{major, minor};

use super::{
    disk::{file_system, folders, mounts},
    finding::{Failure, Findings, Subject},
};

const SYSTEM: &str = "/sys";

pub(super) async fn check(of: &Subject, found: &mut Findings) -> Result<(), Failure> {
    let mounts = mounts();
    let mut of_device: BTreeMap<u64, (PathBuf, Vec<&str>)> = BTreeMap::new();
    for (purpose, folder) in folders(&of.settings) {
        let Ok(metadata) = fs::metadata(&folder) else { continue };
        of_device.entry(metadata.dev()).or_insert_with(|| (folder, Vec::new())).1.push(purpose);
    }
    for (device, (folder, purposes)) in of_device {
        let at = format!("{} ({})", folder.display(), purposes.join(", "));
        let folder = folder.canonicalize().unwrap_or(folder);
        let (kind, source) = file_system(&mounts, &folder).unwrap_or(("unknown", ""));
        judge(&at, kind, block_device(Path::new(SYSTEM), device, source).as_deref(), found);
    }
    Ok(())
}

/// Returns the folder in which the system describes a block device. A file system such as Btrfs has a
/// number of its own instead, and names its device as its source.
fn block_device(system: &Path, device: u64, source: &str) -> Option<PathBuf> {
    let numbered = system.join(format!("dev/block/{}:{}", major(device), minor(device)));
    let named = || {
        let path = Path::new(source).strip_prefix("/dev").ok().map(|_| Path::new(source))?;
        let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        Some(system.join("class/block").join(path.file_name()?))
    };
    numbered.canonicalize().ok().or_else(|| named()?.canonicalize().ok())
}

fn judge(at: &str, kind: &str, device: Option<&Path>, found: &mut Findings) {
    if ["tmpfs", "ramfs"].contains(&kind) {
        return found.ok(format!("{at}: it is in memory; encrypt the swap of the machine"));
    }
    let Some(device) = device else {
        found.warn(
            format!("{at}: the system does not tell whether this {kind} is encrypted"),
            "Look at the machine or the provider that has the disk (docs/operations.md)",
        );
        return;
    };
    let name = device.file_name().map(OsStr::to_string_lossy).unwrap_or_default();
    if is_encrypted(device) {
        found.ok(format!("{at}: the system encrypts its device {name}"));
    } else {
        found.warn(
            format!("{at}: the system does not encrypt its device {name}"),
            "Move it to a LUKS volume, unless the disk or the provider encrypts (docs/operations.md)",
        );
    }
}

/// Returns whether dm-crypt encrypts a device, or every device below it: volumes of LVM and RAID lie on
/// others, and a partition on its disk.
fn is_encrypted(device: &Path) -> bool {
    // cryptsetup also makes devices that only verify.
    let encrypts = |id: &str| {
        id.strip_prefix("CRYPT-")
            .is_some_and(|kind| !["VERITY-", "INTEGRITY-"].iter().any(|it| kind.starts_with(it)))
    };
    if fs::read_to_string(device.join("dm/uuid")).is_ok_and(|id| encrypts(&id)) {
        return true;
    }
    let slaves = fs::read_dir(device.join("slaves")).into_iter().flatten().flatten();
    let mut below: Vec<_> = slaves.filter_map(|slave| slave.path().canonicalize().ok()).collect();
    if below.is_empty() && device.join("partition").exists() {
        below.extend(device.parent().map(Path::to_owned));
    }
    !below.is_empty() && below.iter().all(|device| is_encrypted(device))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use rustix::fs::makedev;
    use tempfile::TempDir;

    use super::*;
    use crate::doctor::Level;

    /// A tree like that of a system with these devices: their names and numbers, the identifiers of
    /// the device mapper, and what each lies on.
    fn system(devices: &[(&str, &str, &str, &[&str])]) -> TempDir {
        let system = tempfile::tempdir().unwrap();
        let path = |name: &str| system.path().join(name);
        for folder in ["dev/block", "class/block", "devices"] {
            fs::create_dir_all(path(folder)).unwrap();
        }
        for (place, number, id, below) in devices {
            let device = path("devices").join(place);
            fs::create_dir_all(device.join("slaves")).unwrap();
            if !id.is_empty() {
                fs::create_dir_all(device.join("dm")).unwrap();
                fs::write(device.join("dm/uuid"), id).unwrap();
            }
            if place.contains('/') {
                fs::write(device.join("partition"), "1").unwrap();
            }
            for below in *below {
                let name = Path::new(below).file_name().unwrap();
                symlink(path("devices").join(below), device.join("slaves").join(name)).unwrap();
            }
            let name = device.file_name().unwrap();
            symlink(&device, path("class/block").join(name)).unwrap();
            symlink(&device, path("dev/block").join(number)).unwrap();
        }
        system
    }

    #[test]
    fn device_is_encrypted_if_all_below_it_are() {
        let system = system(&[
            ("sda", "8:0", "", &[]),
            ("sda/sda1", "8:1", "", &[]),
            ("dm-0", "253:0", "CRYPT-LUKS2-0f1e-root", &["sda/sda1"]),
            ("dm-1", "253:1", "LVM-abc", &["dm-0"]),
            ("dm-2", "253:2", "LVM-def", &["dm-0", "sda/sda1"]),
            ("dm-3", "253:3", "CRYPT-VERITY-0f1e-usr", &["sda/sda1"]),
            ("md0", "9:0", "", &["dm-0"]),
            ("md0/md0p1", "259:0", "", &[]),
        ]);
        for (device, source, level) in [
            ((8, 0), "", Level::Warn),
            ((8, 1), "/dev/sda1", Level::Warn),
            ((253, 0), "/dev/mapper/root", Level::Ok),
            ((253, 1), "", Level::Ok),
            ((253, 2), "", Level::Warn),
            ((253, 3), "", Level::Warn),
            ((259, 0), "", Level::Ok),
            // Btrfs.
            ((0, 40), "/dev/dm-1", Level::Ok),
            ((0, 41), "/dev/sda1", Level::Warn),
            // The system does not tell.
            ((0, 42), "overlay", Level::Warn),
            ((0, 43), "pool/data", Level::Warn),
            ((0, 44), "/dev/gone", Level::Warn),
        ] {
            let mut found = Findings::of("encryption");
            let number = makedev(device.0, device.1);
            let block = block_device(system.path(), number, source);
            judge("/d", "btrfs", block.as_deref(), &mut found);
            assert_eq!(found.levels(), [level], "{device:?} {source}");
            let is_unknown = found.list[0].text.contains("does not tell");
            assert_eq!(is_unknown, device.0 == 0 && device.1 >= 42, "{found:?}");
        }
    }
}
