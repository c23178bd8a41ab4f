//! The page at `/console`, for users without a program of their own: it uses the API with the key of
//! its user. Its files are written by hand and need no build step.

use crate::respond::static_file::{Caching, StaticFile};

/// Allows files of this service and requests to it only, and no inline script or style. A document that
/// the user looks at is a blob.
const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; \
    style-src 'self'; img-src 'self' blob:; frame-src blob:; \
    connect-src 'self'; base-uri 'none'; form-action 'none'; \
    frame-ancestors 'none'";

const SCRIPT: &str = "text/javascript; charset=utf-8";

/// Builds a file of a path, from the file of that name in `assets`.
macro_rules! file {
    ($path:literal, $kind:expr) => {
        file!($path, $kind, $path)
    };
    ($path:literal, $kind:expr, $name:literal) => {
        StaticFile::new(
            $path,
            $kind,
            Caching::Revalidated,
            CONTENT_SECURITY_POLICY,
            include_bytes!(concat!("../../assets", $name)),
        )
    };
}

/// Every file of the console, the page first.
pub(crate) static FILES: [StaticFile; 43] = [
    file!("/console", "text/html; charset=utf-8", "/console/index.html"),
    file!("/console/console.css", "text/css; charset=utf-8"),
    file!("/console/form.css", "text/css; charset=utf-8"),
    file!("/console/icon.svg", "image/svg+xml; charset=utf-8"),
    file!("/console/main.js", SCRIPT),
    file!("/console/advice.js", SCRIPT),
    file!("/console/agenda.js", SCRIPT),
    file!("/console/api.js", SCRIPT),
    file!("/console/assign.js", SCRIPT),
    file!("/console/calendar.js", SCRIPT),
    file!("/console/change.js", SCRIPT),
    file!("/console/controls.js", SCRIPT),
    file!("/console/csv.js", SCRIPT),
    file!("/console/documents.js", SCRIPT),
    file!("/console/dom.js", SCRIPT),
    file!("/console/draft.js", SCRIPT),
    file!("/console/entries.js", SCRIPT),
    file!("/console/facts.js", SCRIPT),
    file!("/console/fields.js", SCRIPT),
    file!("/console/files.js", SCRIPT),
    file!("/console/filters.js", SCRIPT),
    file!("/console/form.js", SCRIPT),
    file!("/console/key.js", SCRIPT),
    file!("/console/leave.js", SCRIPT),
    file!("/console/menu.js", SCRIPT),
    file!("/console/notes.js", SCRIPT),
    file!("/console/order.js", SCRIPT),
    file!("/console/orders.js", SCRIPT),
    file!("/console/pages.js", SCRIPT),
    file!("/console/places.js", SCRIPT),
    file!("/console/preview.js", SCRIPT),
    file!("/console/rows.js", SCRIPT),
    file!("/console/search.js", SCRIPT),
    file!("/console/timeline.js", SCRIPT),
    file!("/console/times.js", SCRIPT),
    file!("/console/toast.js", SCRIPT),
    file!("/console/trade.js", SCRIPT),
    file!("/console/uploads.js", SCRIPT),
    file!("/console/version.js", SCRIPT),
    file!("/console/webhooks.js", SCRIPT),
    file!("/console/words.js", SCRIPT),
    file!("/console/zip_codes.js", SCRIPT),
    file!("/console/zones.js", SCRIPT),
];

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, io::Write as _};

    use domain::order::OrderRequest;
    use flate2::{Compression, write::GzEncoder};
    use serde_json::Value;

    use super::*;

    /// Maximum number of bytes of all files together, compressed.
    const MAX_BYTES: usize = 150 * 1024;

    fn text(file: &StaticFile) -> String {
        String::from_utf8(file.plain().to_vec()).unwrap()
    }

    /// Returns what stands in quotes behind a word.
    fn quoted<'a>(text: &'a str, before: &'a str) -> impl Iterator<Item = &'a str> {
        text.split(before).skip(1).map(|rest| rest.split('"').next().unwrap())
    }

    #[test]
    fn console_is_small() {
        let compressed = |file: &StaticFile| {
            let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
            encoder.write_all(&file.plain()).unwrap();
            encoder.finish().unwrap().len()
        };
        let bytes: usize = FILES.iter().map(compressed).sum();
        assert!((10_000..=MAX_BYTES).contains(&bytes), "{bytes}");
    }

    #[test]
    fn every_file_is_linked_and_every_link_is_served() {
        let texts: Vec<_> = FILES.iter().map(text).collect();
        let of_page = ["href=\"console/", "src=\"console/"];
        let links = of_page.iter().flat_map(|before| quoted(&texts[0], before));
        let imports = texts.iter().flat_map(|text| quoted(text, "from \"./"));
        let linked: BTreeSet<_> = links.chain(imports).collect();
        let served = FILES[1..].iter().map(|file| file.path.rsplit('/').next().unwrap());
        assert_eq!(linked, served.collect());
    }

    #[test]
    fn values_never_become_markup_and_nothing_comes_from_other_hosts() {
        for file in &FILES {
            let text = text(file).replace("http://www.w3.org/2000/svg", "");
            for forbidden in [
                "innerHTML",
                "outerHTML",
                "insertAdjacentHTML",
                "document.write",
                "eval(",
                "http://",
            ] {
                assert!(!text.contains(forbidden), "{} {forbidden}", file.path);
            }
            // The browser keeps drafts, never the key.
            let keeps = file.path.ends_with("/draft.js");
            assert_eq!(text.contains("localStorage"), keeps, "{}", file.path);
            let hosts: Vec<_> = quoted(&text, "https://").filter(|rest| !rest.is_empty()).collect();
            assert_eq!(hosts, [""; 0], "{}", file.path);
        }
    }

    /// Returns the JSON Pointer of every field.
    fn pointers(value: &Value, pointer: &str, found: &mut BTreeSet<String>) {
        match value.as_object() {
            Some(members) => members
                .iter()
                .for_each(|(name, member)| pointers(member, &format!("{pointer}/{name}"), found)),
            None => {
                found.insert(pointer.to_owned());
            }
        }
    }

    #[test]
    fn form_has_every_field_of_the_request() {
        let request: OrderRequest =
            serde_json::from_value(contract_tests::samples::maximal_request()).unwrap();
        let mut expected = BTreeSet::new();
        pointers(&serde_json::to_value(request).unwrap(), "", &mut expected);
        let script = text(FILES.iter().find(|file| file.path.ends_with("fields.js")).unwrap());
        let fields = script
            .replace("${DETAILS}", "/signingDetailsFormData")
            .replace("${CONTACTS}", "/signingContactsFormData");
        for pointer in expected {
            let (group, name) = pointer.rsplit_once('/').unwrap();
            let listed =
                fields.contains(&format!("{pointer}`")) || fields.contains(&format!("{pointer}\""));
            let of_person = fields.contains(&format!("person(`{group}`"))
                && fields.contains(&format!("${{pointer}}/{name}`"));
            assert!(listed || of_person, "{pointer}");
        }
    }
}
