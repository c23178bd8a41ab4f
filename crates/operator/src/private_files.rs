//! Files and folders that only their owner can read.

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io,
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::Path,
};

use anyhow::{Context as _, Result, ensure};

/// Creates a file. Fails if it exists.
pub(crate) fn create_file(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

/// Creates a folder and its parents, unless they exist. Its entry in its parent is durable.
pub(crate) fn create_folder(folder: &Path) -> Result<()> {
    let create = || {
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        std::path::absolute(folder)?.parent().map_or(Ok(()), sync)
    };
    create().with_context(|| folder.display().to_string())
}

/// Creates a folder durably, unless it exists and is empty.
pub(crate) fn create_empty_folder(folder: &Path) -> Result<()> {
    ensure!(is_empty(folder)?, "{} is not empty", folder.display());
    create_folder(folder)
}

/// Returns whether a folder is missing, or has nothing but what a new file system has.
pub(crate) fn is_empty(folder: &Path) -> Result<bool> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(true),
        entries => entries.with_context(|| folder.display().to_string())?,
    };
    for entry in entries {
        if entry?.file_name() != "lost+found" {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Makes the entries of a folder durable.
pub(crate) fn sync(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}
