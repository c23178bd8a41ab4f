//! A small file system that tests can fill.

use std::{
    fs::{self, File},
    io::Write as _,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    process::Command,
};

/// Set in the process in which a test has its own mounts.
const INSIDE: &str = "NOTARY_ORDERS_TEST_HAS_ITS_OWN_MOUNTS";

/// Runs a test again in a process with its own mount namespace, so that its mounts are invisible
/// elsewhere and end with the process. Returns `false` in that process.
pub fn done_with_mounts_of_its_own(module: &str, test: &str) -> bool {
    if std::env::var_os(INSIDE).is_some() {
        return false;
    }
    let module = module.split_once("::").unwrap().1;
    let mut unshare = Command::new("unshare");
    unshare.arg("--mount");
    if fs::metadata("/proc/self").unwrap().uid() != 0 {
        unshare.arg("--map-root-user");
    }
    unshare
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", &format!("{module}::{test}"), "--nocapture"])
        .env(INSIDE, "1");
    let output = unshare.output().expect("`unshare` of util-linux is installed");
    let printed = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && printed.contains("1 passed"),
        "this test mounts a small file system, so it needs root or user namespaces \
         (sysctl kernel.unprivileged_userns_clone=1, \
         kernel.apparmor_restrict_unprivileged_userns=0): {printed}"
    );
    true
}

/// A file system in memory; dropping it unmounts it.
pub struct SmallDisk {
    folder: PathBuf,
}

impl SmallDisk {
    /// Creates the folder and mounts a file system of this size there.
    pub fn at(folder: &Path, mib: usize) -> Self {
        fs::create_dir_all(folder).unwrap();
        let size = format!("size={mib}m,mode=755");
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &size, "tmpfs"])
            .arg(folder)
            .status()
            .unwrap();
        assert!(mounted.success());
        Self { folder: folder.to_owned() }
    }

    /// Fills the file system.
    pub fn fill(&self) {
        let mut ballast = File::create(self.ballast()).unwrap();
        for size in [1024 * 1024, 4096, 1] {
            while ballast.write_all(&vec![0; size]).is_ok() {}
        }
    }

    /// Frees the space again.
    pub fn clear(&self) {
        fs::remove_file(self.ballast()).unwrap();
    }

    fn ballast(&self) -> PathBuf {
        self.folder.join("ballast")
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Without it, the mount ends with the process.
        let _ = Command::new("umount").arg("--lazy").arg(&self.folder).status();
    }
}
