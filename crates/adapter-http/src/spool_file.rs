//! The file of an upload. Its large writes go past the page cache (`O_DIRECT`).
//!
//! So the processor copies them once less, and they wait for the disk themselves. Written into the
//! page cache, gigabytes of uploads would be flushed at once, and the commits of other orders would
//! wait behind them.

use std::{
    fs::Permissions,
    io,
    os::unix::fs::{FileExt as _, PermissionsExt as _},
    path::Path,
};

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use tempfile::{NamedTempFile, TempPath};

use crate::spool_folder::UPLOAD;

/// Alignment of direct writes: their address, position and length are multiples of it. Disks have
/// blocks of 512 or 4,096 bytes.
pub(crate) const ALIGNMENT: usize = 4096;

/// A file that is written from its beginning to its end.
pub(crate) struct SpoolFile {
    file: NamedTempFile,
    size: u64,
    mode: Mode,
}

#[derive(Clone, Copy, PartialEq)]
enum Mode {
    Cached,
    Direct,
    /// The file system has no direct writes.
    OnlyCached,
}

impl SpoolFile {
    /// Creates a file. Its permissions are those of a normal file, because it may become the stored
    /// object; the folder keeps other users out.
    pub(crate) fn create_in(folder: &Path) -> io::Result<Self> {
        let file = tempfile::Builder::new()
            .prefix(UPLOAD)
            .permissions(Permissions::from_mode(0o666))
            .tempfile_in(folder)?;
        Ok(Self { file, size: 0, mode: Mode::Cached })
    }

    /// Writes aligned bytes after others that were aligned.
    pub(crate) fn write_aligned(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.mode == Mode::Cached {
            self.set(Mode::Direct).or_else(|_| self.set(Mode::OnlyCached))?;
        }
        match self.write(bytes) {
            Err(error)
                if self.mode == Mode::Direct && error.kind() == io::ErrorKind::InvalidInput =>
            {
                self.set(Mode::OnlyCached)?;
                self.write(bytes)
            }
            written => written,
        }
    }

    /// Writes the last bytes. Few bytes are not worth a wait for the disk, and they need not be
    /// aligned.
    pub(crate) fn write_last(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.mode == Mode::Direct {
            self.set(Mode::Cached)?;
        }
        self.write(bytes)
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.as_file().write_all_at(bytes, self.size)?;
        self.size += bytes.len() as u64;
        Ok(())
    }

    fn set(&mut self, mode: Mode) -> io::Result<()> {
        let mut flags = fcntl_getfl(&self.file)?;
        flags.set(OFlags::DIRECT, mode == Mode::Direct);
        fcntl_setfl(&self.file, flags)?;
        self.mode = mode;
        Ok(())
    }

    pub(crate) fn into_path(self) -> TempPath {
        self.file.into_temp_path()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::blocks::Blocks;

    /// `/dev/shm` may have no direct writes. Unaligned bytes have none anywhere.
    #[tokio::test]
    async fn file_has_the_bytes_whether_writes_are_direct_or_not() {
        for folder in ["/dev/shm", "."] {
            let folder = tempfile::tempdir_in(folder).unwrap();
            for shift in [0, 1] {
                let mut block = Blocks::default().take().await.unwrap();
                block.append(&[7; 3 * ALIGNMENT + 1]);
                let aligned = &block.bytes()[shift..][..2 * ALIGNMENT];
                let mut file = SpoolFile::create_in(folder.path()).unwrap();
                file.write_aligned(aligned).unwrap();
                file.write_aligned(aligned).unwrap();
                file.write_last(b"end").unwrap();
                let written = fs::read(file.into_path()).unwrap();
                assert_eq!(written, [&[7; 4 * ALIGNMENT][..], b"end"].concat());
            }
        }
    }
}
