//! Files and folders that only their owner can read.

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, chown},
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, anyhow, ensure};
use nix::unistd::Uid;
use rustix::{
    fs::{Access, access},
    io::Errno,
    process::geteuid,
};
use tempfile::NamedTempFile;

use crate::{
    settings::{WrongSetting, checked},
    system::name_of,
};

/// The file of a backup that is written last, and the copy of the database in it.
pub(crate) const BACKUP_MANIFEST: &str = "manifest.json";
pub(crate) const BACKUP_DATABASE: &str = "notary-orders.sqlite";

/// Creates a file. Fails if it exists.
pub(crate) fn create_file(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    adopt(path);
    Ok(file)
}

/// Gives a new file or folder to the owner of its folder. Only root can: what a command of root makes
/// in the data directory must not lock out the service.
pub(crate) fn adopt(path: &Path) {
    if let Some(Ok(folder)) = path.parent().map(fs::metadata) {
        // Others may not give away what they own, and keep it.
        let _ = chown(path, Some(folder.uid()), Some(folder.gid()));
    }
}

/// Adds the path to an error and, if a right is missing, whose the path is, or its mode: the file may be
/// what an operator has made as another user.
pub(crate) fn at_path(error: io::Error, path: &Path) -> anyhow::Error {
    let shown = path.display();
    let existing = path.ancestors().find_map(|path| Some((path, fs::metadata(path).ok()?)));
    match existing {
        Some((found, metadata)) if error.kind() == io::ErrorKind::PermissionDenied => {
            let at = if found == path { String::new() } else { format!("{shown}: ") };
            let (found, owner, own) = (found.display(), metadata.uid(), geteuid().as_raw());
            let text = if owner == own {
                format!("{at}{found} has the mode {:04o}", metadata.mode() & 0o7777)
            } else {
                let (owner, own) = (user(owner), user(own));
                format!("{at}{found} belongs to {owner}, and this program runs as {own}")
            };
            anyhow::Error::new(error).context(text)
        }
        _ => anyhow::Error::new(error).context(shown.to_string()),
    }
}

/// Describes a user by name and number, or by number if the system has no name.
pub(crate) fn user(number: u32) -> String {
    let name = name_of(Uid::from_raw(number));
    name.map_or_else(|| format!("the user {number}"), |name| format!("the user {name} ({number})"))
}

/// Writes a file durably: it is complete, or as it was before.
///
/// # Errors
/// The file cannot be written.
pub fn replace_file(file: &Path, content: &[u8]) -> io::Result<()> {
    name_file(prepare_file(file, content)?, file)
}

/// Writes the content of a file durably, under another name: that of the file, a dot and random letters.
/// The other name is removed with the returned value.
///
/// # Errors
/// The file cannot be written.
pub fn prepare_file(file: &Path, content: &[u8]) -> io::Result<NamedTempFile> {
    let folder = file.parent().unwrap_or(file);
    if file.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    let mut prefix = file.file_name().unwrap_or_default().to_owned();
    prefix.push(".");
    let mut new = tempfile::Builder::new().prefix(&prefix).tempfile_in(folder)?;
    new.write_all(content)?;
    new.as_file().sync_all()?;
    adopt(new.path());
    sync(folder)?;
    Ok(new)
}

/// Gives a prepared file its name. If that fails, it stays under the other name.
///
/// # Errors
/// The file cannot be renamed.
pub fn name_file(prepared: NamedTempFile, file: &Path) -> io::Result<()> {
    if let Err(failed) = prepared.persist(file) {
        let _ = failed.file.keep();
        return Err(failed.error);
    }
    sync(file.parent().unwrap_or(file))
}

/// Returns the files that were prepared for a name, and have not got it.
///
/// # Errors
/// The folder cannot be read.
pub fn prepared_files(file: &Path) -> io::Result<Vec<PathBuf>> {
    let mut prefix = file.file_name().unwrap_or_default().to_owned();
    prefix.push(".");
    let entries = fs::read_dir(file.parent().unwrap_or(file))?;
    let paths = entries.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
    let is_prepared = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().as_encoded_bytes();
        name.starts_with(prefix.as_encoded_bytes())
    };
    Ok(paths.into_iter().filter(is_prepared).collect())
}

/// Creates a folder and its parents, unless they exist. Their entries are durable. Fails if this user may
/// not write to the folder.
pub(crate) fn create_folder(folder: &Path) -> Result<()> {
    let create = || {
        let folder = std::path::absolute(folder)?;
        let missing = folder.ancestors().take_while(|folder| !folder.exists()).count();
        DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
        let new: Vec<_> = folder.ancestors().take(missing).collect();
        new.into_iter().rev().for_each(adopt);
        // An earlier start may have ended before it made the entry of an existing folder durable.
        folder.ancestors().skip(1).take(missing.max(1)).try_for_each(sync)
    };
    let may_write = || match access(folder, Access::WRITE_OK | Access::EXEC_OK) {
        Err(error @ Errno::ACCESS) => Err(error.into()),
        // The folder itself says later what else is wrong.
        _ => Ok(()),
    };
    create().and_then(|()| may_write()).map_err(|error| at_path(error, folder))
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
    fn what_root_makes_belongs_to_the_owner_of_its_folder() {
        let parent = tempfile::tempdir().unwrap();
        // Only root can give the folder away.
        let is_root = chown(parent.path(), Some(12_345), Some(12_346)).is_ok();
        let (file, folder) = (parent.path().join("file"), parent.path().join("data/mail"));
        create_file(&parent.path().join("new")).unwrap();
        replace_file(&file, b"").unwrap();
        create_folder(&folder).unwrap();
        let own = fs::metadata(parent.path()).unwrap();
        assert_eq!(own.uid() == 12_345, is_root);
        for made in ["new", "file", "data", "data/mail"] {
            let made = fs::metadata(parent.path().join(made)).unwrap();
            assert_eq!((made.uid(), made.gid()), (own.uid(), own.gid()));
        }
    }

    #[test]
    fn missing_right_names_the_path_and_its_owner_or_mode() {
        let denied = || io::Error::from(io::ErrorKind::PermissionDenied);
        let text = |error: anyhow::Error| format!("{error:#}");
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().display();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o700)).unwrap();
        let expected = format!("{path} has the mode 0700: permission denied");
        assert_eq!(text(at_path(denied(), folder.path())), expected);
        let missing = folder.path().join("x");
        assert_eq!(text(at_path(denied(), &missing)), format!("{}: {expected}", missing.display()));
        // Only root can give the folder away.
        if chown(folder.path(), Some(12_345), None).is_ok() {
            let expected = format!(
                "{path} belongs to the user 12345, and this program runs as {}: permission denied",
                user(0)
            );
            assert_eq!(text(at_path(denied(), folder.path())), expected);
        }
        let full = io::Error::from(io::ErrorKind::StorageFull);
        assert_eq!(text(at_path(full, Path::new("/"))), "/: no storage space");
        assert_eq!(user(u32::MAX), "the user 4294967295");
    }

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
