//! Files and folders that only their owner can read.

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::Path,
};

use anyhow::{Context as _, Result, anyhow, ensure};
use tempfile::NamedTempFile;

use crate::settings::{WrongSetting, checked};

/// Creates a file. Fails if it exists.
pub(crate) fn create_file(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

/// Writes a file durably: it is complete, or as it was before.
///
/// # Errors
/// The file cannot be written.
pub fn replace_file(file: &Path, content: &[u8]) -> io::Result<()> {
    let folder = file.parent().unwrap_or(file);
    let mut new = NamedTempFile::new_in(folder)?;
    new.write_all(content)?;
    new.as_file().sync_all()?;
    new.persist(file)?;
    sync(folder)
}

/// Creates a folder and its parents, unless they exist. Their entries are durable.
pub(crate) fn create_folder(folder: &Path) -> Result<()> {
    let create = || {
        let folder = std::path::absolute(folder)?;
        let missing = folder.ancestors().take_while(|folder| !folder.exists()).count();
        DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
        // An earlier start may have ended before it made the entry of an existing folder durable.
        folder.ancestors().skip(1).take(missing.max(1)).try_for_each(sync)
    };
    create().with_context(|| folder.display().to_string())
}

/// Creates a folder durably, unless it exists and is empty.
pub(crate) fn create_empty_folder(folder: &Path) -> Result<()> {
    check_empty(folder)?;
    checked(create_folder(folder), "the folder cannot be made")
}

/// Checks that a folder is missing, or has nothing but what a new file system has.
pub(crate) fn check_empty(folder: &Path) -> Result<()> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries.with_context(|| folder.display().to_string())?,
    };
    for entry in entries {
        let is_new = entry?.file_name() == "lost+found";
        ensure!(is_new, WrongSetting(anyhow!("{} is not empty", folder.display())));
    }
    Ok(())
}

/// Makes the entries of a folder durable.
pub(crate) fn sync(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn missing_folder_is_created_for_its_owner_and_a_file_is_rejected() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("data/mail");
        create_folder(&folder).unwrap();
        for made in [&*folder, folder.parent().unwrap()] {
            assert_eq!(fs::metadata(made).unwrap().permissions().mode() & 0o777, 0o700, "{made:?}");
        }
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o750)).unwrap();
        create_folder(&folder).unwrap();
        assert_eq!(fs::metadata(&folder).unwrap().permissions().mode() & 0o777, 0o750);
        let file = parent.path().join("file");
        fs::write(&file, "").unwrap();
        for path in [&file, &file.join("folder")] {
            assert!(create_folder(path).is_err(), "{path:?}");
        }
    }
}
