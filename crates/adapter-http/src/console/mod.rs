//! The page at `/console`, for users without a program of their own: it uses the API in the session of
//! its user. Its files are written by hand and need no build step.

use crate::respond::static_file::{Caching, StaticFile};

/// Allows files of this service and requests to it only, and no inline script or style. A document that
/// the user looks at is a blob.
const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; \
    style-src 'self'; img-src 'self' blob:; frame-src blob:; \
    connect-src 'self'; base-uri 'none'; form-action 'none'; \
    frame-ancestors 'none'";

const SCRIPT: &str = "text/javascript; charset=utf-8";

/// Builds a file of a path, from the file of that name in `assets`. The page's links and the imports of its
/// scripts are relative, so that they work below any base path.
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
pub(crate) static FILES: [StaticFile; 63] = [
    file!("/console", "text/html; charset=utf-8", "/console/index.html"),
    file!("/console/console.css", "text/css; charset=utf-8"),
    file!("/console/form.css", "text/css; charset=utf-8"),
    file!("/console/icon.svg", "image/svg+xml; charset=utf-8"),
    file!("/console/main.js", SCRIPT),
    file!("/console/key.js", SCRIPT),
    file!("/console/documents/documents.js", SCRIPT),
    file!("/console/documents/files.js", SCRIPT),
    file!("/console/documents/preview.js", SCRIPT),
    file!("/console/documents/uploads.js", SCRIPT),
    file!("/console/form/advice.js", SCRIPT),
    file!("/console/form/calendar.js", SCRIPT),
    file!("/console/form/change.js", SCRIPT),
    file!("/console/form/entries.js", SCRIPT),
    file!("/console/form/form.js", SCRIPT),
    file!("/console/form/places.js", SCRIPT),
    file!("/console/order/assign.js", SCRIPT),
    file!("/console/order/facts.js", SCRIPT),
    file!("/console/order/history.js", SCRIPT),
    file!("/console/order/notary.js", SCRIPT),
    file!("/console/order/notes.js", SCRIPT),
    file!("/console/order/order.js", SCRIPT),
    file!("/console/order/timeline.js", SCRIPT),
    file!("/console/order/version.js", SCRIPT),
    file!("/console/orders/attention.js", SCRIPT),
    file!("/console/orders/choice.js", SCRIPT),
    file!("/console/orders/csv.js", SCRIPT),
    file!("/console/orders/filters.js", SCRIPT),
    file!("/console/orders/news.js", SCRIPT),
    file!("/console/orders/orders.js", SCRIPT),
    file!("/console/orders/pages.js", SCRIPT),
    file!("/console/orders/rows.js", SCRIPT),
    file!("/console/orders/search.js", SCRIPT),
    file!("/console/people/account.js", SCRIPT),
    file!("/console/people/again.js", SCRIPT),
    file!("/console/people/arrival.js", SCRIPT),
    file!("/console/people/invitation.js", SCRIPT),
    file!("/console/people/keys.js", SCRIPT),
    file!("/console/people/once.js", SCRIPT),
    file!("/console/people/passkeys.js", SCRIPT),
    file!("/console/people/people.js", SCRIPT),
    file!("/console/people/sign_in.js", SCRIPT),
    file!("/console/people/tabs.js", SCRIPT),
    file!("/console/people/use.js", SCRIPT),
    file!("/console/shared/action.js", SCRIPT),
    file!("/console/shared/address.js", SCRIPT),
    file!("/console/shared/api.js", SCRIPT),
    file!("/console/shared/controls.js", SCRIPT),
    file!("/console/shared/copy.js", SCRIPT),
    file!("/console/shared/dom.js", SCRIPT),
    file!("/console/shared/draft.js", SCRIPT),
    file!("/console/shared/fields.js", SCRIPT),
    file!("/console/shared/leave.js", SCRIPT),
    file!("/console/shared/menu.js", SCRIPT),
    file!("/console/shared/opened.js", SCRIPT),
    file!("/console/shared/services.js", SCRIPT),
    file!("/console/shared/times.js", SCRIPT),
    file!("/console/shared/toast.js", SCRIPT),
    file!("/console/shared/trade.js", SCRIPT),
    file!("/console/shared/words.js", SCRIPT),
    file!("/console/shared/zip_codes.js", SCRIPT),
    file!("/console/shared/zones.js", SCRIPT),
    file!("/console/webhooks/webhooks.js", SCRIPT),
];

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, io::Write as _};

    use domain::order::OrderRequest;
    use flate2::{Compression, write::GzEncoder};
    use serde_json::Value;

    use super::*;

    /// Maximum number of bytes of all files together, compressed.
    const MAX_BYTES: usize = 200 * 1024;

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

    /// Returns the path that a link names in a file.
    fn resolved(file: &StaticFile, link: &str) -> String {
        let mut parts: Vec<_> = file.path.split('/').collect();
        parts.pop();
        for part in link.split('/') {
            match part {
                "." => {}
                ".." => drop(parts.pop()),
                part => parts.push(part),
            }
        }
        parts.join("/")
    }

    #[test]
    fn every_file_is_linked_and_every_link_is_served() {
        let page = text(&FILES[0]);
        let of_page = ["href=\"", "src=\""].iter().flat_map(|before| quoted(&page, before));
        let of_page = of_page.filter(|link| link.starts_with("console/"));
        let mut linked: BTreeSet<_> = of_page.map(|link| resolved(&FILES[0], link)).collect();
        for file in &FILES {
            let text = text(file);
            linked.extend(quoted(&text, "from \"").map(|import| resolved(file, import)));
        }
        let served = FILES[1..].iter().map(|file| file.path.to_owned());
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
            // The browser keeps drafts, and no key. The session is in a cookie that no script reads.
            let keeps = file.path.ends_with("/draft.js");
            for storage in ["localStorage", "sessionStorage"] {
                assert_eq!(text.contains(storage), keeps, "{} {storage}", file.path);
            }
            for other in ["indexedDB", "document.cookie", "caches."] {
                assert!(!text.contains(other), "{} {other}", file.path);
            }
            // Only a link of the user leads to another host: the map.
            let text = text.replace("https://www.google.com/maps/search/?api=1&query=", "");
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
