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

use crate::{
    private_files::{create_file, sync},
    settings::{Database, Settings},
};

/// The file in the data directory of an embedded service.
pub(crate) const FILE: &str = "secrets.key";

/// Returns the box of the key of the settings. Without one, an embedded service has its key in a
/// file, which the first call makes. On PostgreSQL there is none then: instances must share it, and
/// a data directory may not outlive its instance.
pub(crate) fn secret_box(
    settings: &Settings,
    entropy: &Arc<dyn Entropy>,
) -> Result<Option<Arc<dyn SecretBox>>> {
    const SETTING: &str = "--secrets-key (NOTARY_ORDERS_SECRETS_KEY)";
    let key: SecretsKey = match (&settings.secrets_key, settings.database()?) {
        (Some(text), _) => text.parse().context(SETTING)?,
        (None, Database::Sqlite(_)) => {
            let path = settings.in_data_dir(FILE);
            stored(&path, &**entropy).with_context(|| path.display().to_string())?
        }
        (None, Database::Postgres(_)) => return Ok(None),
    };
    Ok(Some(Arc::new(SealedSecrets::new(&key, Arc::clone(entropy)))))
}

/// Reads the key of a file. Makes the file if there is none: under another name first, so that
/// another process never reads a part of it.
fn stored(path: &Path, entropy: &dyn Entropy) -> Result<SecretsKey> {
    match fs::read_to_string(path) {
        Ok(text) => return Ok(text.parse()?),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error.into()),
    }
    let unfinished = path.with_extension(format!("{}.unfinished", std::process::id()));
    let mut file = create_file(&unfinished)?;
    writeln!(file, "{}", SecretsKey::random(entropy).to_text())?;
    file.sync_all()?;
    // A link, unlike a renaming, does not replace the key of a process that was faster.
    let linked = fs::hard_link(&unfinished, path);
    fs::remove_file(&unfinished)?;
    match linked {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error.into()),
        _ => path.parent().map_or(Ok(()), sync)?,
    }
    Ok(fs::read_to_string(path)?.parse()?)
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
        let key = stored(&path, &*entropy).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(stored(&path, &*entropy).unwrap(), key);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn damaged_key_is_an_error_and_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(FILE);
        fs::write(&path, "half").unwrap();
        stored(&path, &*Machine::default().entropy).unwrap_err();
        assert_eq!(fs::read_to_string(&path).unwrap(), "half");
    }
}
