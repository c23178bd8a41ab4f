//! A login of a company, as a setting names it.

use adapter_oidc::Issuer;

/// Names the setting of the logins.
pub(crate) const LOGINS: &str = "--oidc (NOTARY_ORDERS_OIDC)";

/// Most characters of a name. It stands on a button.
const MAX_NAME: usize = 40;

/// A login of `--oidc`.
#[derive(Debug, Clone)]
pub struct Login {
    /// Its name: "Sign in with …".
    pub name: String,
    /// The issuer of its provider.
    pub issuer: Issuer,
}

/// Reads a login.
pub(super) fn login(text: &str) -> Result<Login, String> {
    let (name, issuer) = text.split_once('=').ok_or(
        "must be of the form NAME=ISSUER, such as Google=https://accounts.google.com".to_owned(),
    )?;
    let name = name.trim();
    let is_usual = |character: char| character.is_alphanumeric() || " -_.".contains(character);
    if !(1..=MAX_NAME).contains(&name.chars().count()) || !name.chars().all(is_usual) {
        return Err(format!(
            "the name must have 1 to {MAX_NAME} letters, digits, spaces and -_. before the ="
        ));
    }
    let issuer = Issuer::parse(issuer).map_err(|error| format!("the issuer {error}"))?;
    Ok(Login { name: name.to_owned(), issuer })
}
