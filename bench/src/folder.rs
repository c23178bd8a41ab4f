//! Empty folders for what is measured.

use std::{fs::File, path::Path};

use rustix::fs::{IFlags, ioctl_getflags, ioctl_setflags};
use tempfile::{Builder, TempDir};

const PREFIX: &str = "notary-orders-bench";

/// A folder below `TMPDIR`. Dropping it removes it.
///
/// On ext4 without a journal, a new file is slow for minutes after files of its block group were
/// removed: the kernel looks at the inode of each of them. So each folder gets a block group of its
/// own, by [`IFlags::TOPDIR`] and a random name. Otherwise the files of one candidate would slow
/// down the next.
pub struct Folder {
    inner: TempDir,
    _outer: TempDir,
}

impl Folder {
    pub fn new() -> Self {
        let outer = Builder::new().prefix(PREFIX).tempdir().unwrap();
        let opened = File::open(outer.path()).unwrap();
        // Other file systems have no block groups, and reject the flag.
        let _ = ioctl_getflags(&opened)
            .and_then(|flags| ioctl_setflags(&opened, flags | IFlags::TOPDIR));
        Self { inner: Builder::new().prefix(PREFIX).tempdir_in(&outer).unwrap(), _outer: outer }
    }

    pub fn path(&self) -> &Path {
        self.inner.path()
    }
}
