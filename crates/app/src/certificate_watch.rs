//! The certificate and key of the API: used from the start, and replaced when their files change.

use std::{sync::Arc, time::Duration};

use adapter_http::{Tls, TlsPair};
use anyhow::{Result, ensure};
use domain::ports::{Clock, error_chain};
use operator::{
    Machine,
    settings::{Settings, WrongSetting},
    tls_files::{CERT_SETTING, Content, Files, parse, read, read_pair},
};
use prometheus::{IntCounter, Registry, register_int_counter_with_registry};
use tokio::{task::spawn_blocking, time::sleep};
use tokio_util::sync::CancellationToken;

/// Pause between two looks at the files. Their content is compared, so every way to replace a file
/// or a symbolic link is noticed.
const PAUSE: Duration = Duration::from_secs(5);

/// The files of the certificate and the key, and what was read of them.
pub(crate) struct TlsFiles {
    files: Files,
    /// The names of the first certificate.
    pub(crate) names: Vec<String>,
    /// The certificate and key in use.
    pub(crate) tls: Arc<Tls>,
    clock: Arc<dyn Clock>,
    failures: IntCounter,
    /// The content in use.
    in_use: Content,
    /// Why the content at the last look is not in use.
    failure: Option<String>,
    /// The failure that was logged.
    logged: Option<String>,
}

impl TlsFiles {
    /// Reads the files; `None` if the settings name none.
    pub(crate) fn open(
        settings: &Settings,
        machine: &Machine,
        registry: &Registry,
    ) -> Result<Option<Self>> {
        let Some((files, in_use, pair)) = read_pair(settings).map_err(WrongSetting::from)? else {
            return Ok(None);
        };
        let clock = machine.clock.clone();
        let TlsPair { begins_at, expires_at, .. } = pair;
        // Deliveries go on without clients, and the clock may be wrong: no reason to stop.
        if expires_at <= clock.now() {
            tracing::warn!(%expires_at, "the certificate of {CERT_SETTING} has expired");
        } else if begins_at > clock.now() {
            tracing::warn!(%begins_at, "the certificate of {CERT_SETTING} is not valid yet");
        } else {
            tracing::info!(%expires_at, "the API uses TLS");
        }
        let names = pair.names.clone();
        let tls = Arc::new(Tls::new(pair, registry)?);
        let failures = register_int_counter_with_registry!(
            "notary_orders_tls_reload_failures_total",
            "Looks at changed files of certificate and key that found no valid pair.",
            registry
        )?;
        Ok(Some(Self { files, names, clock, tls, failures, in_use, failure: None, logged: None }))
    }

    /// Looks at the files until the service stops.
    pub(crate) async fn watch(mut self, stop: CancellationToken) -> Result<()> {
        while stop.run_until_cancelled(sleep(PAUSE)).await.is_some() {
            // The disk may be slow.
            self = spawn_blocking(move || {
                self.look();
                self
            })
            .await?;
        }
        Ok(())
    }

    /// Looks at the files. Uses another pair if it is valid; keeps the one in use otherwise.
    fn look(&mut self) {
        let Err(error) = self.reload() else {
            (self.failure, self.logged) = (None, None);
            return;
        };
        let failure = error_chain(error.as_ref());
        // Two files are not replaced at the same instant: the first failure may be half a renewal.
        if self.failure.is_some() {
            self.failures.inc();
            if self.logged.as_ref() != Some(&failure) {
                tracing::error!(
                    error = failure,
                    "the changed certificate or key cannot be used; the one before stays in use"
                );
                self.logged = Some(failure.clone());
            }
        }
        self.failure = Some(failure);
    }

    fn reload(&mut self) -> Result<()> {
        let content = read(&self.files)?;
        if content == self.in_use {
            return Ok(());
        }
        let pair = parse(&self.files, &content)?;
        let (begins_at, expires_at, now) = (pair.begins_at, pair.expires_at, self.clock.now());
        ensure!(expires_at > now, "{CERT_SETTING}: expired at {expires_at}");
        // A later look uses it when it is valid.
        ensure!(begins_at <= now, "{CERT_SETTING}: not valid before {begins_at}");
        self.tls.replace(pair);
        self.in_use = content;
        tracing::info!(%expires_at, "the API uses another certificate");
        Ok(())
    }
}

#[cfg(test)]
#[path = "certificate_watch_tests.rs"]
mod tests;
