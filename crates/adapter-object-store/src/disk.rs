//! What an object store on local disk needs beyond what `object_store` does.

use std::{
    collections::HashSet,
    fs::{self, DirBuilder, File},
    io,
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use domain::{document::SpooledFile, ports::StoreError};

use crate::spool::{NotTheFile, spool_error};

/// A folder of objects.
#[derive(Clone)]
pub(crate) struct Disk {
    root: PathBuf,
    /// Folders below the root that are known to be durable.
    durable: Arc<Mutex<HashSet<PathBuf>>>,
    /// How the file system links; tests have one that does not.
    link: fn(&Path, &Path) -> io::Result<()>,
}

impl Disk {
    /// The folder at a path, created durably and for nobody else if it is missing.
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
            link: |file, object| fs::hard_link(file, object),
        })
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Whether the folder is there: an object store that finds it gone would make another of the
    /// same name.
    pub(crate) fn check(&self) -> io::Result<()> {
        fs::metadata(&self.root).map(drop)
    }

    /// Makes a spooled file an object, durably, without a second copy of its bytes: by a link under
    /// the key. Answers whether it did. It does not where the spool is on another file system,
    /// where the file system has no links or no more of them for this file, and where there is an
    /// object already; a copy serves there, or tells what is wrong.
    ///
    /// A link, and not a move: the spooled file is still there when the put has failed, and is its
    /// maker's to remove.
    pub(crate) fn adopt(&self, object: &str, spooled: &SpooledFile) -> Result<bool, StoreError> {
        let root = fs::metadata(&self.root).map_err(unavailable)?;
        let file = File::open(&spooled.path).map_err(spool_error)?;
        let received = file.metadata().map_err(spool_error)?;
        if received.len() != spooled.size {
            return Err(StoreError::Internal(NotTheFile.into()));
        }
        if received.dev() != root.dev() {
            return Ok(false);
        }
        // Before the link: under the key nothing is to be seen that a power failure could take
        // back.
        file.sync_all().map_err(unavailable)?;
        self.link(&spooled.path, &self.path(object)).map_err(unavailable)
    }

    fn link(&self, spooled: &Path, object: &Path) -> io::Result<bool> {
        let Some(folder) = object.parent() else { return Ok(false) };
        if !self.durable_folders().contains(folder) {
            fs::create_dir_all(folder)?;
            self.sync_above(object)?;
            self.durable_folders().insert(folder.to_owned());
        }
        match (self.link)(spooled, object) {
            Ok(()) => sync(folder).map(|()| true),
            Err(error) => {
                // If somebody has removed the folder, the next one is not durable yet.
                if error.kind() == io::ErrorKind::NotFound {
                    self.durable_folders().remove(folder);
                }
                Ok(false)
            }
        }
    }

    fn durable_folders(&self) -> MutexGuard<'_, HashSet<PathBuf>> {
        self.durable.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes the folders between the root and an object durable. `object_store` does so only for
    /// those that it made itself, which another put may still be doing for a folder that this put
    /// found there.
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

    /// Removes what a put of this object left unfinished when its process died, and makes that and
    /// the removal of the object itself durable: the key is forgotten next.
    pub(crate) fn finish_delete(&self, object: &str) -> io::Result<()> {
        let path = self.path(object);
        // While it is written, an object is in a file of this name with the first number that is
        // free.
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

    fn path(&self, object: &str) -> PathBuf {
        self.root.join(object)
    }
}

fn unavailable(error: io::Error) -> StoreError {
    StoreError::Unavailable(error.into())
}

fn sync(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

#[cfg(test)]
#[path = "disk_tests.rs"]
mod tests;
