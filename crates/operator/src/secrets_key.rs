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
pub const ADVICE: &str = "Add the key with which they were encrypted to --secrets-key \
    (NOTARY_ORDERS_SECRETS_KEY), behind a comma; after `copy` it is in secrets.key in the old data \
    directory. If that key is lost, give each endpoint a new secret: webhooks rotate-secret ID";

const NO_KEY: &str = "the key of the secrets of webhooks cannot be used";

/// The file in the data directory of an embedded service.
pub(crate) const FILE: &str = "secrets.key";

/// Returns the box of the keys of the settings. Without one, an embedded service has its keys in a
/// file, which the first call makes with one key. On PostgreSQL there is none then: instances must share it, and
/// a data directory may not outlive its instance.
pub(crate) fn secret_box(
    settings: &Settings,
    entropy: &Arc<dyn Entropy>,
) -> Result<Option<Arc<dyn SecretBox>>> {
    let path = settings.in_data_dir(FILE);
    let keys = match (find(settings)?, settings.database()?) {
        (none, Database::Sqlite(_)) if none.is_empty() => checked(make(&path, &**entropy), NO_KEY)?,
        (keys, _) => keys,
    };
    let secrets = SealedSecrets::new(&keys, Arc::clone(entropy));
    Ok(secrets.map(|secrets| Arc::new(secrets) as _))
}

/// Finds the keys of the settings, or in the file of an embedded service; none, if there are none. Makes none.
pub fn find(settings: &Settings) -> Result<Vec<SecretsKey>> {
    if let Some(text) = &settings.secrets_key {
        return checked(SecretsKey::list(text), SETTING);
    }
    if let Database::Postgres(_) = settings.database()? {
        return Ok(Vec::new());
    }
    let path = settings.in_data_dir(FILE);
    checked(read(&path), NO_KEY)
}

/// Reads the keys of a file, if it is there.
fn read(path: &Path) -> Result<Vec<SecretsKey>> {
    match fs::read_to_string(path) {
        Ok(text) => SecretsKey::list(&text).with_context(|| path.display().to_string()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(at_path(error, path)),
    }
}

/// Makes a key in a file that only its owner can read: under another name first, so that another
/// process never reads a part of it. Returns the keys that are there then.
fn make(path: &Path, entropy: &dyn Entropy) -> Result<Vec<SecretsKey>> {
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
    read(path)
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
        assert_eq!(read(&path).unwrap(), []);
        let key = make(&path, &*entropy).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!((key.len(), read(&path).unwrap()), (1, key.clone()));
        // Another process was faster.
        assert_eq!(make(&path, &*entropy).unwrap(), key);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn file_may_have_several_keys() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(FILE);
        let keys = [1, 2].map(|_| SecretsKey::random(&*Machine::default().entropy));
        fs::write(&path, keys.clone().map(|key| key.to_text() + "\n").concat()).unwrap();
        assert_eq!(read(&path).unwrap(), keys);
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
