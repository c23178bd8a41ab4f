//! Makes several mails durable with the same few waits for the disk.

use std::{fs::File, io, io::Write as _, path::Path};

use domain::ports::NotifyError;
use rustix::{
    fs::{fstatfs, syncfs},
    system::uname,
};
use tempfile::NamedTempFile;
use tokio::sync::oneshot;

use super::{UNFINISHED, unavailable};

/// A mail that waits for its batch.
pub(super) struct Mail {
    /// The name of its file.
    pub(super) name: String,
    /// The content of its file.
    pub(super) content: Vec<u8>,
    /// Tells the caller.
    pub(super) outcome: oneshot::Sender<Result<(), NotifyError>>,
}

impl Mail {
    /// Returns whether the caller has stopped waiting.
    pub(super) fn is_abandoned(&self) -> bool {
        self.outcome.is_closed()
    }

    fn end(self, result: Result<(), NotifyError>) {
        // A caller that has stopped waiting tries again later.
        let _ = self.outcome.send(result);
    }
}

/// Writes mails into a folder and tells their callers. After a power failure each file is complete
/// or absent: it gets its name after its content is durable. A caller learns of a failure after its
/// temporary file is gone.
pub(super) fn write(folder: &Path, mails: Vec<Mail>) {
    // Opened before the files are written: `syncfs` reports errors since then.
    let opened = match File::open(folder) {
        Ok(opened) => opened,
        Err(error) => return fail(mails, &error),
    };
    let (mut files, mut written) = (Vec::new(), Vec::new());
    for mail in mails {
        match unfinished(folder, &mail.content) {
            Ok(file) => {
                files.push(file);
                written.push(mail);
            }
            Err(error) => mail.end(Err(unavailable(error))),
        }
    }
    if let Err(error) = sync_content(&opened, &files) {
        drop(files);
        return fail(written, &error);
    }
    let mut named = Vec::new();
    for (file, mail) in files.into_iter().zip(written) {
        // This closure drops, and so removes, a file that gets no name.
        match file.persist(folder.join(&mail.name)).map_err(|error| error.error) {
            Ok(_) => named.push(mail),
            // Something that blocks this file name does not affect other mails.
            Err(error) => mail.end(Err(NotifyError::Transient(error.into()))),
        }
    }
    match opened.sync_all() {
        Ok(()) => named.into_iter().for_each(|mail| mail.end(Ok(()))),
        Err(error) => fail(named, &error),
    }
}

/// Writes a file without its final name. It is readable by its owner only, and is removed when it is
/// dropped.
fn unfinished(folder: &Path, content: &[u8]) -> io::Result<NamedTempFile> {
    let (start, end) = UNFINISHED;
    let mut file = tempfile::Builder::new().prefix(start).suffix(end).tempfile_in(folder)?;
    file.write_all(content)?;
    Ok(file)
}

fn fail(mails: Vec<Mail>, error: &io::Error) {
    for mail in mails {
        let code = error.raw_os_error();
        let copy = code.map_or_else(|| error.kind().into(), io::Error::from_raw_os_error);
        mail.end(Err(unavailable(copy)));
    }
}

/// Fewest mails for which `syncfs` is used. It also writes what other programs have written, and the
/// commits of orders wait for that. While many orders arrive, fewer mails are due at a time.
const FEWEST_FOR_SYNCFS: usize = 16;

fn sync_content(folder: &File, files: &[NamedTempFile]) -> io::Result<()> {
    if files.len() >= FEWEST_FOR_SYNCFS && syncfs_is_durable(folder) {
        return Ok(syncfs(folder)?);
    }
    files.iter().try_for_each(|file| file.as_file().sync_all())
}

/// The file systems, by their magic number, on which `syncfs` makes files durable: ext4, XFS, Btrfs,
/// and overlays of containers. With others, such as FUSE, a server may still have to write them.
const LOCAL: [u64; 4] = [0xef53, 0x5846_5342, 0x9123_683e, 0x794c_7630];

fn syncfs_is_durable(folder: &File) -> bool {
    let kind = fstatfs(folder).ok().and_then(|found| u64::try_from(found.f_type).ok());
    kind.is_some_and(|kind| LOCAL.contains(&kind))
        && uname().release().to_str().is_ok_and(syncfs_reports_errors)
}

/// Linux reports errors of `syncfs` since 5.8.
fn syncfs_reports_errors(release: &str) -> bool {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse::<u32>);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => (major, minor) >= (5, 8),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::{
        fs,
        path::PathBuf,
        pin::Pin,
        sync::{Arc, Mutex},
        task::{Context, Wake, Waker},
    };

    use tempfile::TempDir;

    use super::*;

    /// Counts the files of a folder at the moment when a caller learns its outcome.
    struct CountFiles {
        folder: PathBuf,
        files: Mutex<Option<usize>>,
    }

    impl Wake for CountFiles {
        fn wake(self: Arc<Self>) {
            *self.files.lock().unwrap() = Some(fs::read_dir(&self.folder).unwrap().count());
        }
    }

    #[test]
    fn temporary_file_is_gone_when_the_caller_learns_of_a_blocked_name() {
        let folder = TempDir::new().unwrap();
        let name = "blocked.eml".to_owned();
        fs::create_dir(folder.path().join(&name)).unwrap();
        let count = Arc::new(CountFiles { folder: folder.path().into(), files: Mutex::default() });
        let (outcome, mut written) = oneshot::channel();
        let waker = Waker::from(Arc::clone(&count));
        let mut context = Context::from_waker(&waker);
        assert!(Pin::new(&mut written).poll(&mut context).is_pending());
        write(folder.path(), vec![Mail { name, content: b"mail".into(), outcome }]);
        assert!(matches!(written.try_recv(), Ok(Err(NotifyError::Transient(_)))));
        assert_eq!(*count.files.lock().unwrap(), Some(1));
    }

    #[test]
    fn syncfs_is_used_from_linux_5_8_on() {
        for (release, expected) in [
            ("5.8.0", true),
            ("5.10.0-9-amd64", true),
            ("6.1-rc1", true),
            ("10.0.0", true),
            ("5.7.19-generic", false),
            ("4.18.0-553.el8_10.x86_64", false),
            ("6", false),
            ("", false),
        ] {
            assert_eq!(syncfs_reports_errors(release), expected, "{release}");
        }
    }
}
