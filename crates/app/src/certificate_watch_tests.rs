use std::{fs, os::unix::fs::symlink, path::PathBuf};

use contract_tests::fakes::ManualClock;
use tempfile::TempDir;
use test_servers::certificates::Certificates;
use time::{OffsetDateTime, macros::datetime};

use super::*;

/// A folder with a certificate and a key, as `cert.pem` and `key.pem`.
struct Fixture {
    folder: TempDir,
    registry: Registry,
    clock: Arc<ManualClock>,
}

impl Fixture {
    fn new(certificates: &Certificates) -> Self {
        let fixture = Self {
            folder: tempfile::tempdir().unwrap(),
            registry: Registry::new(),
            clock: Arc::default(),
        };
        fixture.write(certificates);
        fixture
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, certificates: &Certificates) {
        fs::write(self.path("cert.pem"), certificates.cert_pem()).unwrap();
        fs::write(self.path("key.pem"), certificates.key_pem()).unwrap();
    }

    fn open(&self) -> Result<Option<TlsFiles>> {
        self.open_as(Some("cert.pem"), Some("key.pem"))
    }

    fn open_as(&self, cert: Option<&str>, key: Option<&str>) -> Result<Option<TlsFiles>> {
        #[derive(clap::Parser)]
        struct Flags {
            #[command(flatten)]
            settings: Settings,
        }
        let mut settings = <Flags as clap::Parser>::parse_from(["notary-orders"]).settings;
        settings.tls_cert = cert.map(|name| self.path(name));
        settings.tls_key = key.map(|name| self.path(name));
        let machine = Machine { clock: self.clock.clone(), ..Machine::default() };
        TlsFiles::open(&settings, &machine, &self.registry)
    }

    /// Returns the error of a start.
    fn error(&self) -> String {
        error_chain(self.open().err().unwrap().as_ref())
    }

    /// Returns the year in which the certificate in use ends.
    fn year(&self) -> i32 {
        let name = "notary_orders_tls_certificate_expiry_timestamp_seconds";
        let metrics = self.registry.gather();
        let expiry = metrics.iter().find(|metric| metric.name() == name).unwrap();
        #[expect(clippy::cast_possible_truncation, reason = "whole seconds")]
        let seconds = expiry.get_metric()[0].get_gauge().get_value() as i64;
        OffsetDateTime::from_unix_timestamp(seconds).unwrap().year()
    }
}

fn until(year: i32) -> Certificates {
    Certificates::issue_until("Root", &["localhost"], year)
}

#[test]
fn settings_without_files_need_none() {
    let fixture = Fixture::new(&until(2030));
    assert!(fixture.open_as(None, None).unwrap().is_none());
}

#[test]
fn one_setting_alone_is_an_error() {
    let fixture = Fixture::new(&until(2030));
    for (cert, key) in [(Some("cert.pem"), None), (None, Some("key.pem"))] {
        let error = fixture.open_as(cert, key).err().unwrap().to_string();
        assert!(error.contains("--tls-cert") && error.contains("--tls-key"), "{error}");
    }
}

#[test]
fn wrong_file_stops_the_start_by_its_setting() {
    let fixture = Fixture::new(&until(2030));
    fs::write(fixture.path("cert.pem"), "").unwrap();
    assert!(fixture.error().starts_with("--tls-cert"), "{}", fixture.error());
    fixture.write(&until(2030));
    fs::write(fixture.path("cert.pem"), vec![b'\n'; 2 * 1024 * 1024]).unwrap();
    assert!(fixture.error().starts_with("--tls-cert"), "{}", fixture.error());
    fixture.write(&until(2030));
    fs::remove_file(fixture.path("key.pem")).unwrap();
    assert!(fixture.error().starts_with("--tls-key"), "{}", fixture.error());
    fs::write(fixture.path("key.pem"), until(2030).key_pem()).unwrap();
    let error = fixture.error();
    assert!(error.starts_with("--tls-cert") && error.contains("does not belong"), "{error}");
}

#[test]
fn expired_certificate_does_not_stop_the_start() {
    let fixture = Fixture::new(&until(2020));
    assert!(fixture.open().unwrap().is_some());
    assert_eq!(fixture.year(), 2020);
}

#[test]
fn changed_pair_is_used() {
    let fixture = Fixture::new(&until(2030));
    let mut files = fixture.open().unwrap().unwrap();
    files.look();
    assert_eq!(fixture.year(), 2030);
    fixture.write(&until(2031));
    files.look();
    assert_eq!(fixture.year(), 2031);
    assert_eq!(files.failures.get(), 0);
}

#[test]
fn swapped_symbolic_link_is_noticed() {
    let fixture = Fixture::new(&until(2030));
    let (first, second) = (fixture.path("..2026"), fixture.path("..2027"));
    for (folder, year) in [(&first, 2030), (&second, 2031)] {
        fs::create_dir(folder).unwrap();
        let certificates = until(year);
        // One file may have both.
        let both = certificates.cert_pem() + &certificates.key_pem();
        fs::write(folder.join("tls.pem"), both).unwrap();
    }
    symlink(&first, fixture.path("..data")).unwrap();
    let mut files =
        fixture.open_as(Some("..data/tls.pem"), Some("..data/tls.pem")).unwrap().unwrap();
    symlink(&second, fixture.path("..tmp")).unwrap();
    fs::rename(fixture.path("..tmp"), fixture.path("..data")).unwrap();
    files.look();
    assert_eq!(fixture.year(), 2031);
}

#[test]
fn wrong_change_keeps_the_pair_in_use() {
    let fixture = Fixture::new(&until(2030));
    let mut files = fixture.open().unwrap().unwrap();
    let before = files.in_use.clone();
    let wrong: [&dyn Fn(); 4] = [
        &|| fs::write(fixture.path("cert.pem"), until(2031).cert_pem()).unwrap(),
        &|| fs::write(fixture.path("key.pem"), "").unwrap(),
        &|| fs::remove_file(fixture.path("key.pem")).unwrap(),
        &|| fixture.write(&until(2020)),
    ];
    for change in wrong {
        change();
        files.look();
    }
    assert_eq!((&files.in_use, fixture.year()), (&before, 2030));
    assert!(files.failures.get() > 0 && files.logged.is_some());
    fixture.write(&until(2032));
    files.look();
    assert_eq!(fixture.year(), 2032);
    assert_eq!((files.failure, files.logged), (None, None));
}

#[test]
fn changed_pair_is_used_from_its_beginning() {
    let fixture = Fixture::new(&until(2030));
    let mut files = fixture.open().unwrap().unwrap();
    fixture.clock.set(datetime!(1974-12-31 23:59 UTC) - fixture.clock.now());
    fixture.write(&until(2031));
    files.look();
    assert_eq!(fixture.year(), 2030);
    assert!(files.failure.as_ref().unwrap().contains("not valid before 1975-01-01"));
    fixture.clock.advance(time::Duration::MINUTE);
    files.look();
    assert_eq!((fixture.year(), files.failure), (2031, None));
}

#[test]
fn half_a_renewal_is_no_failure() {
    let fixture = Fixture::new(&until(2030));
    let mut files = fixture.open().unwrap().unwrap();
    let next = until(2031);
    fs::write(fixture.path("cert.pem"), next.cert_pem()).unwrap();
    files.look();
    assert_eq!((files.failures.get(), fixture.year()), (0, 2030));
    fs::write(fixture.path("key.pem"), next.key_pem()).unwrap();
    files.look();
    assert_eq!((files.failures.get(), fixture.year()), (0, 2031));
}
