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
        judge(&at, kind, &block_devices(Path::new(SYSTEM), kind, device, source), found);
    }
    Ok(())
}

/// Returns the folders in which the system describes all block devices of a file system; none if it does not
/// tell. Btrfs names one device as its source, and may lie on several.
fn block_devices(system: &Path, kind: &str, device: u64, source: &str) -> Vec<PathBuf> {
    let one: Vec<_> = block_device(system, device, source).into_iter().collect();
    if kind != "btrfs" {
        return one;
    }
    let devices = |folder: PathBuf| -> Vec<PathBuf> {
        let entries = fs::read_dir(folder.join("devices")).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.path().canonicalize().ok()).collect()
    };
    let systems = fs::read_dir(system.join("fs/btrfs")).into_iter().flatten().flatten();
    let mut all = systems.map(|entry| devices(entry.path()));
    all.find(|all| one.iter().any(|it| all.contains(it))).unwrap_or_default()
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

fn judge(at: &str, kind: &str, devices: &[PathBuf], found: &mut Findings) {
    if ["tmpfs", "ramfs"].contains(&kind) {
        return found.ok(format!("{at}: it is in memory; encrypt the swap of the machine"));
    }
    if devices.is_empty() {
        found.warn(
            format!("{at}: the system does not tell whether this {kind} is encrypted"),
            "Look at the machine or the provider that has the disk (docs/data.md)",
        );
        return;
    }
    let plain: Vec<_> = devices.iter().filter(|device| !is_encrypted(device)).collect();
    if plain.is_empty() {
        found.ok(format!("{at}: the system encrypts its {}", named(devices)));
    } else {
        found.warn(
            format!("{at}: the system does not encrypt its {}", named(plain)),
            "Move it to a LUKS volume, unless the disk or the provider encrypts (docs/data.md)",
        );
    }
}

fn named<'a>(devices: impl IntoIterator<Item = &'a PathBuf>) -> String {
    let names = devices.into_iter().filter_map(|device| device.file_name());
    let names: Vec<_> = names.map(OsStr::to_string_lossy).collect();
    format!("{} {}", if names.len() == 1 { "device" } else { "devices" }, names.join(", "))
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

    /// Adds Btrfs on devices.
    fn add_btrfs(system: &TempDir, id: &str, devices: &[&str]) {
        let folder = system.path().join("fs/btrfs").join(id).join("devices");
        fs::create_dir_all(&folder).unwrap();
        for device in devices {
            let name = Path::new(device).file_name().unwrap();
            symlink(system.path().join("devices").join(device), folder.join(name)).unwrap();
        }
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
            ("dm-4", "253:4", "CRYPT-LUKS2-0f1e-data", &["sda/sda1"]),
            ("dm-5", "253:5", "CRYPT-LUKS2-0f1e-more", &["sda/sda1"]),
        ]);
        fs::create_dir_all(system.path().join("fs/btrfs/features")).unwrap();
        for (id, devices) in [
            ("1a", &["dm-1"][..]),
            ("1b", &["sda/sda1"]),
            ("1c", &["dm-0", "sda"]),
            ("1d", &["dm-4", "dm-5"]),
        ] {
            add_btrfs(&system, id, devices);
        }
        for (device, source, level) in [
            ((8, 0), "", Level::Warn),
            ((8, 1), "/dev/sda1", Level::Warn),
            ((253, 0), "/dev/mapper/root", Level::Ok),
            ((253, 1), "", Level::Ok),
            ((253, 2), "", Level::Warn),
            ((253, 3), "", Level::Warn),
            ((259, 0), "", Level::Ok),
            // Btrfs: also on several devices.
            ((0, 40), "/dev/dm-1", Level::Ok),
            ((0, 40), "/dev/sda1", Level::Warn),
            ((0, 40), "/dev/dm-0", Level::Warn),
            ((0, 40), "/dev/dm-4", Level::Ok),
            // The system does not tell, as of other devices of Btrfs.
            ((0, 42), "/dev/dm-2", Level::Warn),
            ((0, 42), "overlay", Level::Warn),
            ((0, 43), "pool/data", Level::Warn),
            ((0, 44), "/dev/gone", Level::Warn),
        ] {
            let mut found = Findings::of("encryption");
            let number = makedev(device.0, device.1);
            let kind = if device.0 == 0 { "btrfs" } else { "ext4" };
            judge("/d", kind, &block_devices(system.path(), kind, number, source), &mut found);
            assert_eq!(found.levels(), [level], "{device:?} {source}");
            let is_unknown = found.list[0].text.contains("does not tell");
            assert_eq!(is_unknown, device.0 == 0 && device.1 >= 42, "{found:?}");
        }
    }
}
