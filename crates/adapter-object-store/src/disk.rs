//! What an object store on local disk needs beyond what `object_store` does.

use std::{
    fs::{self, DirBuilder, File},
    io,
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
};

/// A folder of objects.
#[derive(Clone)]
pub(crate) struct Disk {
    root: PathBuf,
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
        Ok(Self { root: fs::canonicalize(path)? })
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Whether the folder is there: an object store that finds it gone would make another of the same name.
    pub(crate) fn check(&self) -> io::Result<()> {
        fs::metadata(&self.root).map(drop)
    }

    /// Makes the folders between the root and an object durable. `object_store` does so only for those that it made
    /// itself, which another put may still be doing for a folder that this put found there.
    pub(crate) fn sync_folders(&self, object: &str) -> io::Result<()> {
        self.path(object).ancestors().skip(2).take_while(|folder| folder.starts_with(&self.root)).try_for_each(sync)
    }

    /// Removes what a put of this object left unfinished when its process died, and makes that and the removal of the
    /// object itself durable: the key is forgotten next.
    pub(crate) fn finish_delete(&self, object: &str) -> io::Result<()> {
        let path = self.path(object);
        // While it is written, an object is in a file of this name with the first number that is free.
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

fn sync(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}
