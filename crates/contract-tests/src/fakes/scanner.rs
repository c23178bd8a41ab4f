use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use domain::{
    document::SpooledFile,
    ports::{DocumentScanner, ScanError, Verdict},
};

/// A scanner to which one text is malware.
#[derive(Debug, Default)]
pub struct FakeScanner {
    is_down: AtomicBool,
}

impl FakeScanner {
    /// The text.
    pub const MALWARE: &[u8] = b"malware to the fake scanner";

    /// Greatest size of a document in bytes.
    pub const MAX_BYTES: u64 = 1024 * 1024;

    /// Makes the scanner unavailable, or available again.
    pub fn set_down(&self, is_down: bool) {
        self.is_down.store(is_down, Ordering::Relaxed);
    }
}

#[async_trait]
impl DocumentScanner for FakeScanner {
    async fn scan(&self, file: &SpooledFile) -> Result<Verdict, ScanError> {
        self.check().await?;
        if file.size > Self::MAX_BYTES {
            return Err(ScanError::TooLarge);
        }
        let bytes = std::fs::read(&file.path).expect("the file is there");
        let is_infected = bytes.windows(Self::MALWARE.len()).any(|part| part == Self::MALWARE);
        let signature = "Fake".to_owned();
        Ok(if is_infected { Verdict::Infected { signature } } else { Verdict::Clean })
    }

    async fn check(&self) -> Result<(), ScanError> {
        let down = || Err(ScanError::Unavailable("the fake scanner is down".into()));
        if self.is_down.load(Ordering::Relaxed) { down() } else { Ok(()) }
    }
}
