//! The files of `--tls-cert` and `--tls-key`.

use std::{
    fs::File,
    io::Read as _,
    path::{Path, PathBuf},
};

use adapter_http::{TlsPair, TlsPairError};
use anyhow::{Context as _, Result, bail};

use crate::settings::Settings;

/// Most bytes that are read of a file. A setting may name an endless one, such as `/dev/zero`.
const MAX_BYTES: u64 = 1024 * 1024;

/// Names the setting of the certificate.
pub const CERT_SETTING: &str = "--tls-cert (NOTARY_ORDERS_TLS_CERT)";
/// Names the setting of the key.
pub const KEY_SETTING: &str = "--tls-key (NOTARY_ORDERS_TLS_KEY)";

/// The files of the certificate and of the key.
pub type Files = [PathBuf; 2];

/// The content of the certificate's file, and of the key's.
pub type Content = [Vec<u8>; 2];

/// Reads the certificate and the key of the settings; `None` if they name none.
pub fn read_pair(settings: &Settings) -> Result<Option<(Files, Content, TlsPair)>> {
    let files = match (settings.tls_cert.clone(), settings.tls_key.clone()) {
        (None, None) => return Ok(None),
        (Some(cert), Some(key)) => [cert, key],
        (Some(_), None) => bail!("{CERT_SETTING} needs {KEY_SETTING}"),
        (None, Some(_)) => bail!("{KEY_SETTING} needs {CERT_SETTING}"),
    };
    let content = read(&files)?;
    let pair = parse(&files, &content)?;
    Ok(Some((files, content, pair)))
}

/// Names a file with its setting.
fn named(setting: &str, file: &Path) -> String {
    format!("{setting}: {}", file.display())
}

/// Reads the files.
pub fn read([cert, key]: &Files) -> Result<Content> {
    let read = |setting, file: &Path| {
        let mut bytes = Vec::new();
        let opened = File::open(file).map(|file| file.take(MAX_BYTES));
        let read = opened.and_then(|mut file| file.read_to_end(&mut bytes));
        read.map(|_| bytes).with_context(|| named(setting, file))
    };
    Ok([read(CERT_SETTING, cert)?, read(KEY_SETTING, key)?])
}

/// Reads the pair of the content of the files.
pub fn parse([cert_file, key_file]: &Files, [cert, key]: &Content) -> Result<TlsPair> {
    TlsPair::from_pem(cert, key).map_err(|error| {
        let setting = match error {
            TlsPairError::Certificate(_) => named(CERT_SETTING, cert_file),
            TlsPairError::Key(_) => named(KEY_SETTING, key_file),
            TlsPairError::Mismatch => format!("{CERT_SETTING} and {KEY_SETTING}"),
        };
        anyhow::Error::new(error).context(setting)
    })
}
