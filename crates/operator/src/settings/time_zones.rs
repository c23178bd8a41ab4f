//! Time zone data of a folder.

use std::{borrow::Cow, fs, io, path::Path};

use domain::appointment::ZoneDatabase;

/// Identifiers have at most three parts. More folders are a loop of links.
const MAX_DEPTH: usize = 3;

/// Reads the time zones of a folder such as `/usr/share/zoneinfo`, and the version of their data.
pub(super) fn time_zones(folder: &str) -> Result<ZoneDatabase, String> {
    let (folder, mut files) = (Path::new(folder), Vec::new());
    read(folder, "", &mut files).map_err(|error| error.to_string())?;
    let found = files.len();
    if found == 0 {
        return Err("has no time zone data".to_owned());
    }
    // BSD and macOS have the version in a file of its own.
    let source = ["tzdata.zi", "+VERSION"].map(|name| fs::read_to_string(folder.join(name)));
    let source = source.into_iter().find_map(Result::ok).unwrap_or_default();
    let version = source.lines().next().map(|line| line.trim_start_matches("# version ").trim());
    let version = version.filter(|version| version.starts_with(char::is_numeric));
    let database = ZoneDatabase::new(version.unwrap_or("unknown").to_owned(), files);
    if database.ids().count() < found {
        return Err("has damaged time zone data".to_owned());
    }
    Ok(database)
}

fn read(
    folder: &Path,
    prefix: &str,
    files: &mut Vec<(String, Cow<'static, [u8]>)>,
) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let (path, name) = entry.map(|entry| (entry.path(), entry.file_name()))?;
        // Some systems have copies of all zones there, without and with leap seconds.
        let Some(name) = name.to_str().filter(|name| !["posix", "right"].contains(name)) else {
            continue;
        };
        let id = format!("{prefix}{name}");
        if path.is_dir() && id.matches('/').count() < MAX_DEPTH {
            read(&path, &format!("{id}/"), files)?;
        } else if let Ok(file) = fs::read(&path)
            && file.starts_with(b"TZif")
        {
            files.push((id, file.into()));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes a zone without clock changes.
    fn write_zone(path: &Path) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let counts = [0_u32, 0, 0, 0, 1, 4].map(u32::to_be_bytes).concat();
        let zone = [b"TZif", &[0; 16][..], &counts, &[0, 0, 0, 60, 0, 0], b"+01\0"].concat();
        fs::write(path, zone).unwrap();
    }

    #[test]
    fn zones_and_version_of_a_folder_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let open = || time_zones(folder.path().to_str().unwrap());
        assert_eq!(open().unwrap_err(), "has no time zone data");
        write_zone(&path("America/Indiana/Knox"));
        write_zone(&path("right/UTC"));
        fs::write(path("leapseconds"), "# no zone").unwrap();
        std::os::unix::fs::symlink(".", path("loop")).unwrap();
        assert_eq!(open().unwrap().version(), "unknown");
        fs::remove_file(path("loop")).unwrap();
        fs::write(path("+VERSION"), "2030b\n").unwrap();
        assert_eq!(open().unwrap().version(), "2030b");
        fs::write(path("tzdata.zi"), "# version 2031a\nR A 1916 o - Jun 14 23s 1 S\n").unwrap();
        let database = open().unwrap();
        assert_eq!(database.version(), "2031a");
        assert_eq!(database.ids().collect::<Vec<_>>(), ["America/Indiana/Knox"]);
        fs::write(path("UTC"), "TZif2").unwrap();
        assert_eq!(open().unwrap_err(), "has damaged time zone data");
        assert!(time_zones("/nowhere").unwrap_err().starts_with("No such file or directory"));
    }
}
