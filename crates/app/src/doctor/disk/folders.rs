//! The folders that the service writes to.

use std::{
    fmt, fs,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use rustix::process::geteuid;

use crate::settings::{Database, Settings};

/// Folders of the service that are in one place.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Folders {
    /// The folder, or the nearest one above it that exists.
    pub(super) existing: PathBuf,
    /// What they are for.
    pub(super) purposes: Vec<&'static str>,
}

impl Folders {
    pub(super) fn has(&self, purpose: &str) -> bool {
        self.purposes.contains(&purpose)
    }

    /// Returns whether the service keeps something there after a request.
    pub(super) fn keep_data(&self) -> bool {
        self.purposes.iter().any(|purpose| *purpose != "spool")
    }
}

impl fmt::Display for Folders {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} ({})", self.existing.display(), self.purposes.join(", "))
    }
}

/// Returns the folders that the service writes to, each place once.
pub(super) fn folders(settings: &Settings) -> Vec<Folders> {
    let database = match settings.database() {
        Ok(Database::Sqlite(path)) => path.parent().map(Path::to_owned),
        _ => None,
    };
    let mut folders = Vec::<Folders>::new();
    for (purpose, folder) in [
        ("database", database),
        ("documents", settings.documents()),
        ("mails", settings.mail_drop()),
        ("spool", Some(settings.in_data_dir("spool"))),
    ] {
        let Some(existing) = folder.as_deref().and_then(nearest) else { continue };
        match folders.iter_mut().find(|other| other.existing == existing) {
            Some(other) => other.purposes.push(purpose),
            None => folders.push(Folders { existing, purposes: vec![purpose] }),
        }
    }
    folders
}

/// Returns a folder, or the nearest one above it that exists.
fn nearest(folder: &Path) -> Option<PathBuf> {
    let folder = std::path::absolute(folder).ok()?;
    folder.ancestors().find(|folder| folder.exists()).map(Path::to_owned)
}

/// Who owns a folder, and who may enter it.
pub(super) struct Owner {
    pub(super) user: u32,
    pub(super) is_us: bool,
    pub(super) others_may_enter: bool,
}

impl Owner {
    /// Returns the owner of a folder, if it exists.
    pub(super) fn of(folder: &Path) -> Option<Self> {
        let folder = fs::metadata(folder).ok()?;
        let user = folder.uid();
        let others_may_enter = folder.mode() & 0o077 != 0;
        Some(Self { user, is_us: user == geteuid().as_raw(), others_may_enter })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::tests::settings;

    #[test]
    fn missing_folders_are_made_in_the_nearest_one() {
        let data = tempfile::tempdir().unwrap();
        let path = |name: &str| data.path().join(name);
        let flag = |folder: &Path| format!("--data-dir={}", folder.display());
        let found = folders(&settings(&[&flag(&path("a/b"))]));
        let all = vec!["database", "documents", "mails", "spool"];
        assert_eq!(found, [Folders { existing: data.path().to_owned(), purposes: all }]);

        fs::create_dir_all(path("a/b/spool")).unwrap();
        let remote = ["--database-url=postgres://h/d", "--documents-url=s3://b"];
        let found = folders(&settings(&[&flag(&path("a/b")), remote[0], remote[1]]));
        assert_eq!(
            found,
            [
                Folders { existing: path("a/b"), purposes: vec!["mails"] },
                Folders { existing: path("a/b/spool"), purposes: vec!["spool"] },
            ]
        );
        assert_eq!(fs::read_dir(path("a/b")).unwrap().count(), 1);
    }
}
