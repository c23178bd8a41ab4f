//! Hard links and durability on local disk, which `object_store` does not provide.

use std::{
    collections::HashSet,
    fs::{self, DirBuilder, File},
    io,
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use domain::{document::SpooledFile, ports::StoreError};

use crate::{
    folder_syncs::{Done, FolderSyncs},
    spool::{file_changed, spool_error},
};

/// A folder of objects.
#[derive(Clone)]
pub(crate) struct Disk {
    root: PathBuf,
    /// Folders below the root whose entries are durable.
    durable: Arc<Mutex<HashSet<PathBuf>>>,
    syncs: Arc<FolderSyncs>,
    /// Creates a hard link; tests replace it to simulate a file system without links.
    link: fn(&Path, &Path) -> io::Result<()>,
}

impl Disk {
    /// Opens a folder. Creates a missing one durably, accessible to its owner only.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let path = std::path::absolute(path)?;
        let missing: Vec<&Path> = path.ancestors().take_while(|folder| !folder.exists()).collect();
        DirBuilder::new().recursive(true).mode(0o700).create(&path)?;
        for parent in missing.into_iter().filter_map(Path::parent) {
            sync(parent)?;
        }
        Ok(Self {
            root: fs::canonicalize(path)?,
            durable: Arc::default(),
            syncs: Arc::default(),
            link: |file, object| fs::hard_link(file, object),
        })
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Checks that the folder exists: `object_store` would recreate a removed one.
    pub(crate) fn check(&self) -> io::Result<()> {
        fs::metadata(&self.root).map(drop)
    }

    /// Makes a spooled file an object durably, by a hard link. Reports `false` if the file must be
    /// copied instead:
    ///
    /// - The spool is on another file system.
    /// - The file system does not support the link.
    /// - The object exists.
    ///
    /// Links rather than moves, because the caller still needs the spooled file if the put fails.
    /// After the report it may go on for others.
    pub(crate) fn link_spooled(&self, object: &str, spooled: &SpooledFile, done: Done) {
        match self.link(object, spooled) {
            Ok(Some(folder)) => self.syncs.sync(folder, done),
            not_linked => done.report(not_linked.map(|_| false)),
        }
    }

    /// Links a durable file. Returns the folder of the link, whose entries must be made durable.
    fn link(&self, object: &str, spooled: &SpooledFile) -> Result<Option<PathBuf>, StoreError> {
        let root = fs::metadata(&self.root).map_err(unavailable)?;
        let file = File::open(&spooled.path).map_err(spool_error)?;
        let metadata = file.metadata().map_err(spool_error)?;
        if metadata.len() != spooled.size {
            return Err(file_changed());
        }
        if metadata.dev() != root.dev() {
            return Ok(None);
        }
        // Before the link, so that the object is complete even after a power failure.
        file.sync_all().map_err(unavailable)?;
        let object = self.path(object);
        let Some(folder) = object.parent() else { return Ok(None) };
        if !self.durable_folders().contains(folder) {
            fs::create_dir_all(folder).map_err(unavailable)?;
            self.sync_above(&object).map_err(unavailable)?;
            self.durable_folders().insert(folder.to_owned());
        }
        match (self.link)(&spooled.path, &object) {
            Ok(()) => Ok(Some(folder.to_owned())),
            Err(error) => {
                // If the folder was removed, a new one is not durable yet.
                if error.kind() == io::ErrorKind::NotFound {
                    self.durable_folders().remove(folder);
                }
                Ok(None)
            }
        }
    }

    fn durable_folders(&self) -> MutexGuard<'_, HashSet<PathBuf>> {
        self.durable.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes the folders between the root and an object durable. `object_store` syncs only folders
    /// that it created itself; another put may have created one and not synced it yet.
    pub(crate) fn sync_folders(&self, object: &str) -> io::Result<()> {
        self.sync_above(&self.path(object))
    }

    fn sync_above(&self, object: &Path) -> io::Result<()> {
        object
            .ancestors()
            .skip(2)
            .take_while(|folder| folder.starts_with(&self.root))
            .try_for_each(sync)
    }

    /// Removes the temporary files that a killed process left for this object, and makes the
    /// removal of the object durable.
    pub(crate) fn finish_delete(&self, object: &str) -> io::Result<()> {
        let path = self.path(object);
        // `object_store` writes into a file with the first free number as its suffix.
        for number in 1.. {
            let mut unfinished = path.clone().into_os_string();
            unfinished.push(format!("#{number}"));
            match fs::remove_file(PathBuf::from(unfinished)) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => break,
                removed => removed?,
            }
        }
        match path.parent().map_or(Ok(()), sync) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            synced => synced,
        }
    }

    pub(crate) fn path(&self, object: &str) -> PathBuf {
        self.root.join(object)
    }
}

pub(crate) fn unavailable(error: io::Error) -> StoreError {
    StoreError::Unavailable(error.into())
}

pub(crate) fn sync(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

#[cfg(test)]
#[path = "disk_tests.rs"]
mod tests;
