//! The key that encrypts the secrets of webhook endpoints.

use std::{
    fs,
    io::{self, Write as _},
    path::Path,
    sync::Arc,
};

use adapter_webhook::{SealedSecrets, SecretsKey};
use anyhow::{Context as _, Result};
use domain::ports::{Entropy, SecretBox};
use tempfile::NamedTempFile;

use crate::{
    private_files::{adopt, at_path, sync},
    settings::{Database, Settings, checked},
};

/// Names the setting in errors.
pub(crate) const SETTING: &str = "--secrets-key (NOTARY_ORDERS_SECRETS_KEY)";

/// The advice if stored secrets need another key.
pub const ADVICE: &str = "Set --secrets-key (NOTARY_ORDERS_SECRETS_KEY) to the key with which they \
    were encrypted; after `copy` it is the content of secrets.key in the old data directory. If that \
    key is lost, give each endpoint a new secret: webhooks rotate-secret ID";

const NO_KEY: &str = "the key of the secrets of webhooks cannot be used";

/// The file in the data directory of an embedded service.
pub(crate) const FILE: &str = "secrets.key";

/// Returns the box of the key of the settings. Without one, an embedded service has its key in a
/// file, which the first call makes. On PostgreSQL there is none then: instances must share it, and
/// a data directory may not outlive its instance.
pub(crate) fn secret_box(
    settings: &Settings,
    entropy: &Arc<dyn Entropy>,
) -> Result<Option<Arc<dyn SecretBox>>> {
    let path = settings.in_data_dir(FILE);
    let key = match (find(settings)?, settings.database()?) {
        (Some(key), _) => key,
        (None, Database::Postgres(_)) => return Ok(None),
        (None, Database::Sqlite(_)) => checked(make(&path, &**entropy), NO_KEY)?,
    };
    Ok(Some(Arc::new(SealedSecrets::new(&key, Arc::clone(entropy)))))
}

/// Finds the key of the settings, or in the file of an embedded service. Makes none.
pub fn find(settings: &Settings) -> Result<Option<SecretsKey>> {
    if let Some(text) = &settings.secrets_key {
        return Ok(Some(checked(text.parse(), SETTING)?));
    }
    if let Database::Postgres(_) = settings.database()? {
        return Ok(None);
    }
    let path = settings.in_data_dir(FILE);
    checked(read(&path), NO_KEY)
}

/// Reads the key of a file, if it is there.
fn read(path: &Path) -> Result<Option<SecretsKey>> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text.parse().with_context(|| path.display().to_string())?)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(at_path(error, path)),
    }
}

/// Makes a key in a file that only its owner can read: under another name first, so that another
/// process never reads a part of it. Returns the key that is there then.
fn make(path: &Path, entropy: &dyn Entropy) -> Result<SecretsKey> {
    let folder = path.parent().unwrap_or(path);
    let mut file = NamedTempFile::new_in(folder).map_err(|error| at_path(error, folder))?;
    writeln!(file, "{}", SecretsKey::random(entropy).to_text())?;
    file.as_file().sync_all()?;
    adopt(file.path());
    // Does not replace the key of a process that was faster.
    match file.persist_noclobber(path) {
        Err(failed) if failed.error.kind() != io::ErrorKind::AlreadyExists => {
            return Err(failed.error.into());
        }
        _ => sync(folder)?,
    }
    fs::read_to_string(path)?.parse().with_context(|| path.display().to_string())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use crate::system::Machine;

    #[test]
    fn key_is_made_once_and_only_its_owner_reads_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(FILE);
        let entropy = Machine::default().entropy;
        assert!(read(&path).unwrap().is_none());
        let key = make(&path, &*entropy).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(read(&path).unwrap().unwrap(), key);
        // Another process was faster.
        assert_eq!(make(&path, &*entropy).unwrap(), key);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn damaged_key_is_an_error_and_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(FILE);
        fs::write(&path, "half").unwrap();
        read(&path).unwrap_err();
        make(&path, &*Machine::default().entropy).unwrap_err();
        assert_eq!(fs::read_to_string(&path).unwrap(), "half");
    }
}
