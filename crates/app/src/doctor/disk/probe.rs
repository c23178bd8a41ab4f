//! Writes to a folder, and measures its file system. Leaves nothing there.

use std::{
    fs::File,
    io,
    os::unix::fs::FileExt as _,
    path::Path,
    time::{Duration, Instant},
};

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl, fstat, fstatfs, fstatvfs};

/// Bytes of a direct write: a multiple of the blocks of disks.
const BLOCK: usize = 4096;

/// File systems by the number in `statfs`.
const IN_MEMORY: [i64; 2] = [0x0102_1994, 0x8584_58f6];
const ON_A_NETWORK: [i64; 4] = [0x6969, 0xff53_4d42, 0xfe53_4d42, 0x517b];

/// Where the bytes of a file system are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Memory,
    Network,
    Other,
}

/// What is known of the file system of a folder.
#[derive(Debug)]
pub(super) struct Probed {
    /// Identifies the file system.
    pub(super) id: u64,
    pub(super) free_bytes: u64,
    /// `None` if the file system has no limit.
    pub(super) free_files: Option<u64>,
    pub(super) kind: Kind,
    /// Whether writes can go past the page cache.
    pub(super) is_direct: bool,
    /// Time until a block was on the disk.
    pub(super) sync_time: Duration,
}

/// Writes a block to a file without a name, which disappears at the end.
pub(super) fn probe(folder: &Path) -> io::Result<Probed> {
    let file = tempfile::tempfile_in(folder)?;
    let began = Instant::now();
    let is_direct = write(&file)?;
    file.sync_all()?;
    let sync_time = began.elapsed();
    let (space, system) = (fstatvfs(&file)?, fstatfs(&file)?);
    let kind = match system.f_type {
        number if IN_MEMORY.contains(&number) => Kind::Memory,
        number if ON_A_NETWORK.contains(&number) => Kind::Network,
        _ => Kind::Other,
    };
    Ok(Probed {
        id: fstat(&file)?.st_dev,
        free_bytes: space.f_bavail * space.f_frsize,
        free_files: (space.f_files > 0).then_some(space.f_favail),
        kind,
        is_direct,
        sync_time,
    })
}

/// Writes a block past the page cache, or else through it. Returns whether it went past.
fn write(file: &File) -> io::Result<bool> {
    let buffer = vec![0; 2 * BLOCK];
    let start = buffer.as_ptr().align_offset(BLOCK);
    let Some(block) = buffer.get(start..start + BLOCK) else {
        return file.write_all_at(&buffer, 0).map(|()| false);
    };
    let flags = fcntl_getfl(file)?;
    let direct = fcntl_setfl(file, flags | OFlags::DIRECT);
    if direct.is_ok() {
        match file.write_all_at(block, 0) {
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => {}
            written => return written.map(|()| true),
        }
    }
    fcntl_setfl(file, flags)?;
    file.write_all_at(block, 0).map(|()| false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probe_leaves_nothing_behind() {
        let folder = tempfile::tempdir_in(".").unwrap();
        let probed = probe(folder.path()).unwrap();
        assert!(probed.free_bytes > 0 && probed.kind == Kind::Other, "{probed:?}");
        assert_eq!(folder.path().read_dir().unwrap().count(), 0);
        assert_eq!(probe(Path::new("/dev/shm")).unwrap().kind, Kind::Memory);
        probe(Path::new("/proc")).unwrap_err();
    }
}
