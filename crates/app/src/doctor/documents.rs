//! The document store.

use std::sync::Arc;

use domain::ports::{Clock, error_chain};
use time::{Duration, OffsetDateTime};
use tokio::task::spawn_blocking;

use super::{
    clock,
    finding::{Checked, Finding},
};
use crate::{
    adapters::{DOCUMENTS, document_store},
    settings::Settings,
};

const CHECK: &str = "documents";

/// A store reports the instants of objects in whole seconds.
const HALF_SECOND: Duration = Duration::milliseconds(500);

pub(super) async fn check(settings: Arc<Settings>, ours: Arc<dyn Clock>) -> Checked {
    let folder = settings.documents();
    let open = move || match settings.documents() {
        // Opening a folder makes it.
        Some(folder) if !folder.exists() => Err(Finding::ok(
            CHECK,
            format!("there are none yet; the first start makes {}", folder.display()),
        )),
        _ => document_store(&settings).map_err(|error| {
            let advice = format!("Correct {DOCUMENTS}");
            Finding::fail(CHECK, error_chain(error.as_ref()), advice)
        }),
    };
    let store = match spawn_blocking(open).await? {
        Ok(store) => store,
        Err(finding) => return Ok(vec![finding]),
    };
    let before = ours.now();
    let probed = store.probe().await;
    let took = ours.now() - before;
    let put_at = match probed {
        Ok(put_at) => OffsetDateTime::from(put_at),
        Err(error) => {
            let cause = error_chain(&error);
            let text = format!("no object can be put, read and removed: {cause}");
            let advice =
                format!("Repair the store, or correct {DOCUMENTS} or its credentials and rights");
            return Ok(vec![Finding::fail(CHECK, text, advice)]);
        }
    };
    Ok(match folder {
        Some(folder) => {
            let text = format!("a file was written, read and removed in {}", folder.display());
            vec![Finding::ok(CHECK, text)]
        }
        None => vec![
            Finding::ok(CHECK, "an object was put, read and removed in the bucket"),
            clock::compare(
                "document store",
                put_at + HALF_SECOND - (before + took / 2),
                HALF_SECOND + took / 2,
            ),
        ],
    })
}
