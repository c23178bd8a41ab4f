//! The logins of companies by OpenID Connect.

use std::{collections::BTreeMap, fs::File, io::Read as _, path::Path};

use adapter_oidc::ProviderSettings;
use anyhow::{Context as _, Result, anyhow, bail, ensure};

use super::{
    Settings, checked,
    login::{LOGINS, Login},
};

const CLIENTS: &str = "--oidc-client (NOTARY_ORDERS_OIDC_CLIENT)";
const SECRETS: &str = "--oidc-secret (NOTARY_ORDERS_OIDC_SECRET)";
const FILES: &str = "--oidc-secret-file (NOTARY_ORDERS_OIDC_SECRET_FILE)";

/// Most bytes that are read of the file of a secret. A setting may name an endless one, such as `/dev/zero`.
const MAX_BYTES: u64 = 64 * 1024;

impl Settings {
    /// Returns the logins, each with its client. Blocks: it reads the files of secrets.
    ///
    /// # Errors
    /// A setting is wrong. The error names it, and repeats no secret.
    pub fn logins(&self) -> Result<Vec<ProviderSettings>> {
        checked(self.check_names(), LOGINS)?;
        let mut clients = checked(self.of_logins(&self.oidc_client, "CLIENT_ID"), CLIENTS)?;
        let mut secrets = checked(self.of_logins(&self.oidc_secret, "SECRET"), SECRETS)?;
        for (name, file) in checked(self.of_logins(&self.oidc_secret_file, "FILE"), FILES)? {
            let both = || anyhow!("{name} has a secret in --oidc-secret, too; remove one");
            let is_alone = if secrets.contains_key(name) { Err(both()) } else { Ok(()) };
            checked(is_alone, FILES)?;
            secrets.insert(name, checked(read(Path::new(&file)), FILES)?);
        }
        let providers = self.oidc.iter().map(|Login { name, issuer }| {
            let missing = || {
                anyhow!("{name} is missing; add {name}= and the client ID that its provider shows")
            };
            Ok(ProviderSettings {
                name: name.clone(),
                issuer: issuer.clone(),
                client_id: checked(clients.remove(&**name).ok_or_else(missing), CLIENTS)?,
                client_secret: secrets.remove(&**name),
            })
        });
        providers.collect()
    }

    /// Two logins of one name could not be told apart; two of one issuer would be one.
    fn check_names(&self) -> Result<()> {
        for (number, login) in self.oidc.iter().enumerate() {
            let before = &self.oidc[..number];
            let name = login.name.to_lowercase();
            let is_twice = before.iter().any(|other| other.name.to_lowercase() == name);
            ensure!(!is_twice, "{} is there twice; give each login its own name", login.name);
        }
        Ok(())
    }

    /// Returns the values of `NAME=VALUE` by the names of logins. Errors repeat no text but these names: a
    /// secret may stand anywhere.
    fn of_logins(&self, texts: &[String], value: &str) -> Result<BTreeMap<&str, String>> {
        let mut values = BTreeMap::new();
        for text in texts {
            let form = || anyhow!("must be of the form NAME={value}, several with commas between");
            let (name, value) = text.split_once('=').ok_or_else(form)?;
            let value = value.trim();
            let login = self.oidc.iter().find(|login| login.name == name.trim());
            let Some(Login { name, .. }) = login else {
                let names: Vec<_> = self.oidc.iter().map(|login| &*login.name).collect();
                match &names[..] {
                    [] => bail!("there is no login; set {LOGINS}, or remove this setting"),
                    _ => bail!("a name is none of --oidc: {}", names.join(", ")),
                }
            };
            ensure!(!value.is_empty(), "{name} has no value behind the =");
            ensure!(values.insert(&**name, value.to_owned()).is_none(), "{name} is there twice");
        }
        Ok(values)
    }
}

/// Reads a secret.
fn read(path: &Path) -> Result<String> {
    let mut text = String::new();
    let opened = File::open(path).map(|file| file.take(MAX_BYTES));
    let read = opened.and_then(|mut file| file.read_to_string(&mut text));
    read.with_context(|| path.display().to_string())?;
    let text = text.trim();
    ensure!(!text.is_empty(), "{} is empty; write the secret into it", path.display());
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::settings::{is_wrong_setting, login::login, tests::settings};

    const ENTRA: &str = "--oidc=Entra=https://login.example.com/1/v2.0";
    const CLIENT: &str = "--oidc-client=Entra=the client";

    #[test]
    fn login_has_a_name_and_an_issuer() {
        let Login { name, issuer } = login(" My Office = https://a.example/?x ").map_or_else(
            |error| {
                assert!(error.contains("without a user, a query"), "{error}");
                login(" My Office = https://a.example/ ").unwrap()
            },
            |_| panic!("an issuer has no query"),
        );
        assert_eq!((&*name, issuer.as_str()), ("My Office", "https://a.example/"));
        for text in
            ["", "Entra", "https://a.example", "=https://a.example", "a/b=https://a.example"]
        {
            assert!(login(text).is_err(), "{text}");
        }
        assert!(login(&format!("{}=https://a.example", "x".repeat(41))).is_err());
        login(&format!("{}=http://localhost:9000", "x".repeat(40))).unwrap();
    }

    #[test]
    fn each_login_has_its_client_and_perhaps_a_secret() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("secret");
        fs::write(&file, " a,b=c \n").unwrap();
        let file = format!("--oidc-secret-file=Google={}", file.display());
        let set = settings(&[
            "--oidc=Entra=https://login.example.com/1/v2.0,Google=https://accounts.google.com",
            "--oidc=Own one=http://localhost:9000",
            "--oidc-client=Entra=e=1, Google = g",
            "--oidc-client=Own one=o",
            "--oidc-secret=Entra=passw0rd==",
            &file,
        ]);
        let found: Vec<_> = set.logins().unwrap();
        let found: Vec<_> = found
            .iter()
            .map(|one| {
                (&*one.name, one.issuer.as_str(), &*one.client_id, one.client_secret.as_deref())
            })
            .collect();
        assert_eq!(
            found,
            [
                ("Entra", "https://login.example.com/1/v2.0", "e=1", Some("passw0rd==")),
                ("Google", "https://accounts.google.com", "g", Some("a,b=c")),
                ("Own one", "http://localhost:9000", "o", None),
            ]
        );
        assert!(settings(&[]).logins().unwrap().is_empty());
    }

    #[test]
    fn wrong_setting_is_named_with_what_to_do_and_without_a_secret() {
        let folder = tempfile::tempdir().unwrap();
        let empty = folder.path().join("empty");
        fs::write(&empty, "\n").unwrap();
        let empty = format!("--oidc-secret-file=Entra={}", empty.display());
        for (flags, setting, words) in [
            (&[ENTRA][..], CLIENTS, "add Entra="),
            (&[ENTRA, "--oidc=ENTRA=https://b.example", CLIENT], LOGINS, "twice"),
            (&[CLIENT], CLIENTS, "set --oidc"),
            (&[ENTRA, CLIENT, CLIENT], CLIENTS, "Entra is there twice"),
            (&[ENTRA, "--oidc-client=Entra= "], CLIENTS, "no value"),
            (&[ENTRA, "--oidc-client=7"], CLIENTS, "NAME=CLIENT_ID"),
            (&[ENTRA, CLIENT, "--oidc-secret=passw0rd"], SECRETS, "NAME=SECRET"),
            (&[ENTRA, CLIENT, "--oidc-secret=passw0rd=="], SECRETS, "none of --oidc: Entra"),
            (&[ENTRA, CLIENT, "--oidc-secret=Entra=passw0rd,passw0rd"], SECRETS, "NAME=SECRET"),
            (&[ENTRA, CLIENT, "--oidc-secret-file=Entra=/no/file"], FILES, "/no/file"),
            (&[ENTRA, CLIENT, &empty], FILES, "is empty"),
            (&[ENTRA, CLIENT, "--oidc-secret=Entra=passw0rd", &empty], FILES, "remove one"),
        ] {
            let error = settings(flags).logins().unwrap_err();
            let text = format!("{error:#}");
            assert!(text.starts_with(setting) && text.contains(words), "{flags:?}: {text}");
            assert!(!text.contains("passw0rd"), "{flags:?}: {text}");
            assert!(is_wrong_setting(&error), "{flags:?}");
        }
    }
}
