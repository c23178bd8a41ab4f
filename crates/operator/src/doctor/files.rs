//! Whether other users of the machine can read the data of the service or its keys.

use std::{
    fs,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use rustix::process::geteuid;

use super::finding::{Failure, Findings, Subject};
use crate::{
    private_files::{BACKUP_DATABASE, BACKUP_MANIFEST, user},
    secrets_key,
    settings::{Database, Settings},
};

/// The files in which a first start leaves its key and the link of the first admin.
const FIRST: [&str; 2] = ["first-key", "first-sign-in"];

pub(super) async fn check(of: &Subject, found: &mut Findings) -> Result<(), Failure> {
    judge(&of.settings, found);
    Ok(())
}

fn judge(settings: &Settings, found: &mut Findings) {
    let data_dir = &settings.data_dir;
    let shown = data_dir.display();
    let Ok(folder) = fs::metadata(data_dir) else {
        found.ok(format!("there are none yet; only the user of the service will read {shown}"));
        return;
    };
    if folder.uid() != geteuid().as_raw() {
        found.warn(
            format!("{shown} belongs to {}, who may have other rights", user(folder.uid())),
            "Run this as the user of the service, such as by notary-orders-admin",
        );
    }
    let before = found.list.len();
    for path in private_paths(settings) {
        judge_mode(&path, found);
    }
    if found.list.len() == before {
        found.ok(format!("only one user can read the data and the keys in {shown}"));
    }
}

/// Returns the data directory, the keys and backups in it, and what the settings put elsewhere.
fn private_paths(settings: &Settings) -> Vec<PathBuf> {
    let data_dir = &settings.data_dir;
    let keys = [secrets_key::FILE].into_iter().chain(FIRST);
    let keys: Vec<_> = keys.map(|name| settings.in_data_dir(name)).collect();
    let entries = fs::read_dir(data_dir).into_iter().flatten().flatten().map(|entry| entry.path());
    let backups = entries.filter(|entry| entry.join(BACKUP_MANIFEST).exists()).flat_map(|backup| {
        let files = [BACKUP_DATABASE, secrets_key::FILE].map(|name| backup.join(name));
        [backup].into_iter().chain(files)
    });
    let database = match settings.database() {
        Ok(Database::Sqlite(path)) => Some(path),
        Ok(Database::Postgres(_)) | Err(_) => None,
    };
    // The data directory itself keeps others from what is in it.
    let elsewhere = [database, settings.documents(), settings.mail_drop()].into_iter().flatten();
    let elsewhere = elsewhere.filter(|path| !path.starts_with(data_dir));
    [data_dir.clone()].into_iter().chain(keys).chain(backups).chain(elsewhere).collect()
}

/// Warns about a file or folder that others than its owner can read.
fn judge_mode(path: &Path, found: &mut Findings) {
    let Ok(metadata) = fs::metadata(path) else { return };
    let mode = metadata.mode() & 0o7777;
    if mode.trailing_zeros() >= 6 {
        return;
    }
    let (shown, private) = (path.display(), if metadata.is_dir() { "700" } else { "600" });
    found.warn(
        format!("{shown} has the mode {mode:04o}: other users can read personal data or a key"),
        format!("Run `chmod {private} {shown}`"),
    );
}

#[cfg(test)]
mod tests {
    use std::{fs::Permissions, os::unix::fs::PermissionsExt as _};

    use super::*;
    use crate::{doctor::Level, settings::tests::settings};

    fn judged(data: &Path) -> Findings {
        let mut found = Findings::of("files");
        judge(&settings(&[&format!("--data-dir={}", data.display())]), &mut found);
        found
    }

    #[test]
    fn readable_folders_of_the_settings_are_named() {
        let (data, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::set_permissions(data.path(), Permissions::from_mode(0o700)).unwrap();
        let path = |name: &str| elsewhere.path().join(name);
        for name in ["documents", "mail"] {
            fs::create_dir(path(name)).unwrap();
        }
        fs::write(path("orders.sqlite"), "").unwrap();
        for (mode, expected) in [(0o700, vec![Level::Ok]), (0o755, vec![Level::Warn; 3])] {
            for name in ["documents", "mail", "orders.sqlite"] {
                fs::set_permissions(path(name), Permissions::from_mode(mode)).unwrap();
            }
            let mut found = Findings::of("files");
            let settings = settings(&[
                &format!("--data-dir={}", data.path().display()),
                &format!("--documents-url=file://{}", path("documents").display()),
                &format!("--mail-url=file://{}", path("mail").display()),
                &format!("--database-url=sqlite://{}", path("orders.sqlite").display()),
            ]);
            judge(&settings, &mut found);
            assert_eq!(found.levels(), expected, "{found:?}");
        }
    }

    #[test]
    fn readable_key_or_backup_is_named_with_its_mode_and_the_command() {
        let data = tempfile::tempdir().unwrap();
        let path = |name: &str| match name {
            "" => data.path().to_owned(),
            name => data.path().join(name),
        };
        let set = |name: &str, mode| {
            fs::set_permissions(path(name), Permissions::from_mode(mode)).unwrap();
        };
        set("", 0o700);
        assert_eq!(judged(&path("missing")).levels(), [Level::Ok]);
        fs::create_dir_all(path("nightly")).unwrap();
        for file in ["secrets.key", "first-key", "nightly/manifest.json", "nightly/secrets.key"] {
            fs::write(path(file), "").unwrap();
            set(file, 0o600);
        }
        set("nightly", 0o700);
        assert_eq!(judged(data.path()).levels(), [Level::Ok]);

        for (name, mode, private) in [
            ("", 0o750, "700"),
            ("secrets.key", 0o644, "600"),
            ("first-key", 0o640, "600"),
            ("nightly", 0o755, "700"),
            ("nightly/secrets.key", 0o604, "600"),
        ] {
            let before = fs::metadata(path(name)).unwrap().permissions();
            set(name, mode);
            let found = judged(data.path());
            assert_eq!(found.levels(), [Level::Warn], "{name}");
            let (text, advice) = (&found.list[0].text, found.list[0].advice.as_deref());
            let shown = path(name).display().to_string();
            assert!(text.starts_with(&format!("{shown} has the mode {mode:04o}: ")), "{text}");
            assert_eq!(advice, Some(&*format!("Run `chmod {private} {shown}`")));
            fs::set_permissions(path(name), before).unwrap();
        }
    }

    #[test]
    fn data_of_another_user_is_named() {
        let data = tempfile::tempdir().unwrap();
        fs::set_permissions(data.path(), Permissions::from_mode(0o700)).unwrap();
        // Only root can give the folder away.
        if std::os::unix::fs::chown(data.path(), Some(12_345), None).is_ok() {
            let found = judged(data.path());
            assert_eq!(found.levels(), [Level::Warn, Level::Ok]);
            assert!(found.list[0].text.contains("the user 12345"), "{found:?}");
        }
    }
}
