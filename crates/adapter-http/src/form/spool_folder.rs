//! The folder of a process under the spool directory.
//!
//! A process locks a file in its folder while it lives. So the next process that opens the directory
//! can tell the folders of dead processes, and removes them.

use std::{
    ffi::{OsStr, OsString},
    fs::{self, File, Permissions},
    io,
    os::unix::fs::{DirBuilderExt as _, PermissionsExt as _},
    path::Path,
};

use tempfile::TempDir;

/// Most foreign entries that a warning names.
const MAX_NAMED: usize = 10;

const LOCK: &str = "lock";
/// Prefix of the folder of a process.
const FOLDER: &str = "uploads-";
/// Prefix of the file of an upload.
pub(super) const UPLOAD: &str = "upload-";

/// Makes a folder for this process under `directory`, creating that if necessary, and removes the
/// folders of dead processes. Entries that no process of the service made stay, and one warning names
/// them. Returns the folder, and the lock in it.
pub(super) fn open(directory: &Path) -> io::Result<(TempDir, File)> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    // One process at a time, so that none removes a folder that another is about to lock.
    let directory_lock = File::create(directory.join(LOCK))?;
    directory_lock.lock()?;
    let foreign = remove_leftovers(directory)?;
    if !foreign.is_empty() {
        tracing::warn!(
            directory = %directory.display(),
            count = foreign.len(),
            some = ?&foreign[..foreign.len().min(MAX_NAMED)],
            "the spool directory has entries that the service did not make; they stay there"
        );
    }
    let permissions = Permissions::from_mode(0o700);
    let folder =
        tempfile::Builder::new().prefix(FOLDER).permissions(permissions).tempdir_in(directory)?;
    let lock = File::create(folder.path().join(LOCK))?;
    lock.lock()?;
    Ok((folder, lock))
}

/// Removes what dead processes left. Returns the entries that the service did not make.
fn remove_leftovers(directory: &Path) -> io::Result<Vec<OsString>> {
    let mut foreign = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        let is_own = if entry.file_type()?.is_dir() && has_prefix(&name, FOLDER) {
            remove_dead(&entry.path())?
        } else {
            name == LOCK
        };
        if !is_own {
            foreign.push(name);
        }
    }
    Ok(foreign)
}

/// Removes what a dead process made in its folder, and the folder. Returns `false` if something else
/// is left in it.
fn remove_dead(folder: &Path) -> io::Result<bool> {
    // A process that was killed at once has made no lock yet.
    let lock = File::open(folder.join(LOCK));
    if lock.is_ok_and(|lock| lock.try_lock().is_err()) {
        return Ok(true);
    }
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_name() == LOCK || has_prefix(&entry.file_name(), UPLOAD) {
            fs::remove_file(entry.path())?;
        }
    }
    match fs::remove_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => Ok(false),
        removed => removed.map(|()| true),
    }
}

fn has_prefix(name: &OsStr, prefix: &str) -> bool {
    name.as_encoded_bytes().starts_with(prefix.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lists the entries of a folder, without its lock.
    fn entries(directory: &Path) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(directory)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| name != LOCK)
            .collect();
        names.sort();
        names
    }

    #[test]
    fn folder_and_created_directories_are_private() {
        let directory = tempfile::tempdir().unwrap();
        let spool = directory.path().join("data/spool");
        let (folder, _lock) = open(&spool).unwrap();
        for made in [folder.path(), &spool, spool.parent().unwrap()] {
            assert_eq!(fs::metadata(made).unwrap().permissions().mode() & 0o777, 0o700);
        }
    }

    #[test]
    fn only_folders_of_dead_processes_are_removed() {
        let directory = tempfile::tempdir().unwrap();
        let living = open(directory.path()).unwrap();
        let dead = directory.path().join("uploads-dead");
        fs::create_dir(&dead).unwrap();
        fs::write(dead.join(LOCK), "").unwrap();
        fs::write(dead.join("upload-1"), "papers").unwrap();
        // Killed before it made its lock.
        fs::create_dir(directory.path().join("uploads-early")).unwrap();
        let second = open(directory.path()).unwrap();
        assert!(!dead.exists());
        assert_eq!(entries(directory.path()).len(), 2);
        drop((living, second));
        assert!(entries(directory.path()).is_empty());
    }

    #[test]
    fn foreign_entries_stay_and_are_reported() {
        let directory = tempfile::tempdir().unwrap();
        let foreign =
            ["precious/deed.pdf", "lost+found/lock", "uploads-dead/notes.txt", "uploads-9.txt"];
        for name in foreign {
            let file = directory.path().join(name);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, "papers").unwrap();
        }
        fs::write(directory.path().join("uploads-dead/lock"), "").unwrap();
        std::os::unix::fs::symlink("precious", directory.path().join("uploads-link")).unwrap();
        drop(open(directory.path()).unwrap());
        for name in foreign {
            assert_eq!(fs::read(directory.path().join(name)).unwrap(), b"papers", "{name}");
        }
        let left = ["lost+found", "precious", "uploads-9.txt", "uploads-dead", "uploads-link"];
        assert_eq!(entries(directory.path()), left);
        let mut reported = remove_leftovers(directory.path()).unwrap();
        reported.sort();
        assert_eq!(reported, left);
    }
}
